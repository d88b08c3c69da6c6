/*
 * segment.c - see segment.h: the double buffer of a tag.
 *
 * Why a slot is read as it was filled for the word's generation (tested by test_orders_segment.c):
 *  - Seeing it filled. The owner stores the slot and then `ready` (release). A thread that moves
 *    `word` to that generation has loaded `ready` (acquire) and swaps with release; all swaps of
 *    `word` are read-modify-writes and continue that release sequence. So a load (acquire) of a
 *    word of generation g sees the slot as it was filled for g, or later.
 *  - Not using it refilled. The owner refills the slot of g for g + 2 only after it loaded
 *    (acquire) a word of generation g + 1. Take a swap that succeeded on a word of g: it comes
 *    before the move to g + 1 in the modification order of `word`, it was a release, and its
 *    release sequence reaches the owner's load. So the loads of the slot before that swap happened
 *    before the owner's stores, and cannot have read them. A claim that did read a refilled (or
 *    half refilled) slot fails its swap.
 *  - Returning "empty" only when it is: `ready` is never below the generation of `word`. So a load
 *    of `ready` that equals the generation of an earlier load of `word` proves that neither moved
 *    between, unless the load of `ready` is older than that of the slot's size: the size may be the
 *    refilled one, smaller than `used`. The size is loaded with acquire and stored with release, so
 *    `ready` is then seen as it was when the slot was refilled, or later.
 *  - The generation cannot wrap within one claim: that would take 2^32 refills of the tag.
 */
#include "src/id/alloc/segment.h"

#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/limits.h"

/* The position in a word. */
struct position {
    uint32_t generation;
    uint32_t used;
};

static struct position position_of(uint64_t word)
{
    return (struct position){(uint32_t)(word >> 32), (uint32_t)word};
}

/* Swap *word for the new position. On failure *word is the present one. */
HOT static bool move_word(struct segment_buffer *buffer, uint64_t *word, struct position to)
{
    uint64_t wanted = (uint64_t)to.generation << 32 | to.used;

    return atomic_compare_exchange_weak_explicit(&buffer->word, word, wanted, memory_order_acq_rel,
                                                 memory_order_acquire);
}

/* Acquire: a thread that sees the size of a refilled slot sees `ready` of that time. */
static uint32_t slot_size(const struct segment_buffer *buffer, uint32_t generation)
{
    return atomic_load_explicit(&buffer->size[generation & 1], memory_order_acquire);
}

/* Acquire: a thread that sees a generation published sees its slot filled. */
static uint32_t ready_of(const struct segment_buffer *buffer)
{
    return atomic_load_explicit(&buffer->ready, memory_order_acquire);
}

HOT int segment_claim(struct segment_buffer *buffer, uint32_t least, uint32_t count,
                      struct segment_range *ret_range, struct segment_view *ret_view)
{
    uint64_t word = atomic_load_explicit(&buffer->word, memory_order_acquire);
    uint32_t skipped = 0;

    ASSERT(least >= 1 && least <= count);
    for (;;) {
        struct position at = position_of(word);
        uint32_t size = slot_size(buffer, at.generation);
        uint32_t left = at.used < size ? size - at.used : 0;
        uint32_t passed = 0; /* ids left in a slot that is too short */
        uint64_t terms;
        uint64_t first;
        uint32_t take;

        if (left < least) {
            uint32_t ready = ready_of(buffer);

            if (ready == at.generation) {
                *ret_view =
                    (struct segment_view){.used = at.used, .size = size, .skipped = skipped};
                return ERR_EMPTY;
            }
            if (ready != at.generation + 1) { /* the word is old: others moved on */
                word = atomic_load_explicit(&buffer->word, memory_order_acquire);
                continue;
            }
            passed = left;
            at = (struct position){at.generation + 1, 0};
            size = slot_size(buffer, at.generation);
            left = size;
        }
        terms = atomic_load_explicit(&buffer->terms, memory_order_relaxed);
        first = atomic_load_explicit(&buffer->first[at.generation & 1], memory_order_relaxed) +
                (uint64_t)at.used * (uint32_t)terms;
        /* If this slot is too short as well, it only becomes the current one, and the one before it
         * is free for a segment that is long enough. */
        take = left < least ? 0 : left < count ? left : count;
        at.used += take;
        if (!move_word(buffer, &word, at)) {
            continue;
        }
        skipped += passed;
        if (take > 0) {
            *ret_range = (struct segment_range){first, take, (uint32_t)terms};
            *ret_view = (struct segment_view){.used = at.used,
                                              .size = size,
                                              .next_ready = ready_of(buffer) == at.generation + 1,
                                              .skipped = skipped,
                                              .of = (uint32_t)(terms >> 32)};
            return 0;
        }
        word = (uint64_t)at.generation << 32; /* as it was swapped in: no id is used */
    }
}

bool segment_make_room(struct segment_buffer *buffer)
{
    uint64_t word = atomic_load_explicit(&buffer->word, memory_order_acquire);
    struct position at = position_of(word);

    if (at.used >= slot_size(buffer, at.generation) &&
        ready_of(buffer) == at.generation + 1) { /* another thread may do it first */
        (void)move_word(buffer, &word, (struct position){at.generation + 1, 0});
    }
    return segment_can_publish(buffer);
}

bool segment_can_publish(const struct segment_buffer *buffer)
{
    uint64_t word = atomic_load_explicit(&buffer->word, memory_order_acquire);

    return position_of(word).generation == ready_of(buffer);
}

/* Acquire here, against the release stores of publish: a thread that reads a refilled slot finds
 * the word moved when it looks again. */
static void slot_view(const struct segment_buffer *buffer, uint32_t generation, uint32_t used,
                      struct segment_slot_view *ret_slot)
{
    uint32_t size = slot_size(buffer, generation);
    uint64_t first = atomic_load_explicit(&buffer->first[generation & 1], memory_order_acquire);
    uint32_t by = (uint32_t)atomic_load_explicit(&buffer->terms, memory_order_relaxed);

    *ret_slot = (struct segment_slot_view){0};
    if (used < size) {
        *ret_slot = (struct segment_slot_view){first + (uint64_t)used * by,
                                               first + (uint64_t)(size - 1) * by + 1, size,
                                               by > 1 ? by : 0};
    }
}

void segment_publish(struct segment_buffer *buffer, uint64_t first, uint32_t size,
                     uint32_t increment, uint32_t of)
{
    uint32_t by = increment_of(increment);
    uint64_t terms = (uint64_t)of << 32 | by;
    bool same = atomic_load_explicit(&buffer->terms, memory_order_relaxed) == terms;
    uint32_t generation = atomic_load_explicit(&buffer->ready, memory_order_relaxed) + 1;

    ASSERT(size > 0);
    ASSERT(first <= UINT64_MAX - (uint64_t)size * by);
    ASSERT(segment_can_publish(buffer));
    /* They change only when no id is left: then the swap that took the last id comes before this
     * store, as it does before those of its slot. */
    ASSERT(same || segment_left(buffer) == 0);
    /* The acquire load of `word` just above keeps these stores after it; release is for
     * segment_inspect(), see slot_view(). */
    atomic_store_explicit(&buffer->first[generation & 1], first, memory_order_release);
    if (!same) { /* the size, stored after them and loaded before them, orders them */
        atomic_store_explicit(&buffer->terms, terms, memory_order_relaxed);
    }
    atomic_store_explicit(&buffer->size[generation & 1], size, memory_order_release);
    atomic_store_explicit(&buffer->ready, generation, memory_order_release);
}

uint64_t segment_burn(struct segment_buffer *buffer)
{
    struct segment_range range;
    struct segment_view view;
    uint64_t burnt = 0;

    while (segment_claim(buffer, 1, UINT32_MAX, &range, &view) == 0) {
        burnt += range.count;
    }
    ASSERT(segment_can_publish(buffer));
    return burnt;
}

uint64_t segment_left(const struct segment_buffer *buffer)
{
    struct segment_slot_view slots[2];

    segment_inspect(buffer, slots);
    return segment_slot_left(&slots[0]) + segment_slot_left(&slots[1]);
}

void segment_inspect(const struct segment_buffer *buffer, struct segment_slot_view ret_slots[2])
{
    uint64_t word = atomic_load_explicit(&buffer->word, memory_order_acquire);
    uint64_t again;

    for (;;) {
        struct position at = position_of(word);

        slot_view(buffer, at.generation, at.used, &ret_slots[0]);
        ret_slots[1] = (struct segment_slot_view){0};
        if (ready_of(buffer) == at.generation + 1) {
            slot_view(buffer, at.generation + 1, 0, &ret_slots[1]);
        }
        /* Try again if a slot may have been refilled meanwhile. */
        again = atomic_load_explicit(&buffer->word, memory_order_acquire);
        if (position_of(again).generation == at.generation) {
            return;
        }
        word = again;
    }
}

/* --- refill --- */

/* Since the last load; 0 if the clock stopped or went back. */
static uint64_t passed_since(const struct refill *refill, uint64_t now_ms)
{
    return now_ms > refill->last_load_ms ? now_ms - refill->last_load_ms : 0;
}

uint32_t refill_size(const struct refill *refill, uint64_t now_ms, uint32_t cover_ms,
                     uint64_t demand)
{
    uint32_t step = atomic_load_explicit(&refill->step, memory_order_relaxed);
    uint32_t max_step = atomic_load_explicit(&refill->max_step, memory_order_relaxed);
    uint64_t most = max_step > 0 ? max_step : LIMIT_TAG_STEP;
    bool by_time = refill->cover_s > 0;
    uint64_t passed_ms = passed_since(refill, now_ms);
    uint64_t size = step;
    double cover = (double)refill->pace_per_s * (by_time ? refill->cover_s : cover_ms / 1000.0);

    /* Leaf's rule; the first two are the tag's step. */
    if (!by_time && refill->loads >= 2) {
        size = refill->size;
        if (passed_ms < REFILL_SEGMENT_DURATION_MS) {
            size = size * 2 <= max_step ? size * 2 : size;
        } else if (passed_ms >= 2 * REFILL_SEGMENT_DURATION_MS) {
            size = size / 2 >= step ? size / 2 : size;
        }
        size = size > step ? size : step;
    }
    cover *= by_time ? REFILL_COVER_PERCENT / 100.0 : 1;
    if ((double)size < cover) {
        size = cover < (double)most ? (uint64_t)cover : most;
    }
    if (size < demand) {
        size = demand;
    }
    if (size > most) {
        size = most;
    }
    ASSERT(size <= UINT32_MAX);
    ASSERT_IMPLIES(size == 0, step == 0 && demand == 0);
    return (uint32_t)size;
}

/* Ids a second since the last load. */
static float pace_since(const struct refill *refill, uint64_t now_ms, uint64_t left)
{
    uint64_t used = refill->unused > left ? refill->unused - left : 0;
    uint64_t passed_ms = passed_since(refill, now_ms);
    uint64_t window_ms = passed_ms > REFILL_PACE_WINDOW_MS ? passed_ms : REFILL_PACE_WINDOW_MS;

    return (float)((double)used * 1000 / (double)window_ms);
}

void refill_hurry(struct refill *refill, uint64_t now_ms, uint64_t left)
{
    float pace = refill->loads > 0 ? pace_since(refill, now_ms, left) : 0;

    if (pace > refill->pace_per_s) {
        refill->pace_per_s = pace;
    }
}

void refill_loaded(struct refill *refill, uint64_t now_ms, uint32_t size, uint64_t left)
{
    ASSERT(size > 0);
    if (refill->loads > 0) {
        uint64_t passed_ms = passed_since(refill, now_ms);
        float pace = pace_since(refill, now_ms, left);

        if (pace < refill->pace_per_s && passed_ms < REFILL_SEGMENT_DURATION_MS) {
            pace = pace / 2 + refill->pace_per_s / 2;
        }
        refill->pace_per_s = pace;
    }
    if (refill->loads < UINT8_MAX) {
        refill->loads++;
    }
    if (refill->short_loads > 0 && refill->short_loads < UINT8_MAX) {
        refill->short_loads++;
    }
    refill->size = size;
    refill->unused = (uint32_t)(left + size);
    refill->last_load_ms = now_ms;
}

void refill_reset(struct refill *refill, uint32_t generation)
{
    refill->generation = generation;
    refill->size = 0;
    refill->loads = 0;
    refill->last_load_ms = 0;
    refill->unused = 0;
    refill->end = 0;
    refill->pace_per_s = 0;
}

HOT bool refill_due(uint32_t used, uint32_t size, uint32_t percent)
{
    return used >= size || (uint64_t)used * 100 > (uint64_t)size * percent;
}
