/*
 * snowflake.c - see snowflake.h: claims by one compare-and-swap.
 *
 * Why no id is returned twice: a swap takes the sequences [first, first + count) of its time and
 * leaves a word that is greater than the one it replaced (a later time, or the same time and a
 * higher sequence). All swaps of one word are in one order, so no two take the same sequence of the
 * same time, and no word recurs that a stale swap could match. That needs no memory order. The
 * orders serve:
 *  - The bounds. The owner stores limit_ms (release) once the mark is durable; a claim that loads
 *    it (acquire) and stamps up to it comes after that. Limits only rise (except by kill), so an
 *    old value is a narrower bound. Before a worker id goes to another holder, kill sets the closed
 *    bit by a read-modify-write. A swap either came before it, and the owner that then loads the
 *    word (in the same order) sees its time; or comes after it, and fails.
 *  - The clock. The word is loaded (acquire) before the clock is read, and a swap (release) comes
 *    after its own reading. So the reading here is the later one, and a word ahead of it means that
 *    the clock went back. In the other order, a thread delayed between the two would take the
 *    progress of others for a clock going backwards. For the same reason a failed swap reads the
 *    clock again, and the limit is loaded after the word: it is not below the limit that the word's
 *    time was checked against.
 *  - The layout, the worker id and the first bounds are stored before `ready` and `slot_count`
 *    (release), which a claim loads (acquire) before it looks at them.
 *
 * Claims under named layouts use the same code, with words of their own; a layout is published by
 * the count (release) before any claim under it (acquire).
 *
 * No lock, no allocation, and no system call: the wall clock is read through the vDSO. A swap fails
 * only because another one succeeded (or the owner killed the slot), and nothing waits in a loop:
 * a used-up millisecond is ERR_EMPTY.
 */
#include "src/id/snowflake/snowflake.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

void snowflake_init(struct snowflake *snowflake, const struct clock *clock)
{
    memset(snowflake, 0, sizeof *snowflake);
    snowflake->clock = clock;
}

void snowflake_release(struct snowflake *snowflake)
{
    uint32_t count = atomic_load_explicit(&snowflake->named.count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        free(snowflake->named.items[i]);
    }
    atomic_store_explicit(&snowflake->named.count, 0, memory_order_relaxed);
}

void snowflake_set_layout(struct snowflake *snowflake, const struct snowflake_layout *layout)
{
    ASSERT(!atomic_load_explicit(&snowflake->ready, memory_order_relaxed));
    ASSERT(snowflake_bits_fit(layout));
    snowflake->layout = *layout;
    atomic_store_explicit(&snowflake->ready, true, memory_order_release);
}

struct snowflake_slot *snowflake_add(struct snowflake *snowflake, uint32_t worker, uint64_t from_ms,
                                     uint64_t limit_ms, uint64_t until_ms)
{
    const struct snowflake_layout *layout = &snowflake->layout;
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed);
    struct snowflake_slot *slot = &snowflake->slots[count];

    ASSERT(atomic_load_explicit(&snowflake->ready, memory_order_relaxed));
    ASSERT(worker >> layout->worker_bits == 0);
    ASSERT(limit_ms <= until_ms);
    if (count == LIMIT_SNOWFLAKE_SLOTS) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct snowflake_slot *other = &snowflake->slots[i];

        ASSERT_IMPLIES(other->worker == worker, other->dead);
        ASSERT_IMPLIES(other->worker == worker,
                       from_ms >= snowflake_last_used_ms(snowflake, other));
    }
    /* Times before the epoch have no id. */
    if (layout->epoch_ms > 0 && from_ms < layout->epoch_ms - 1) {
        from_ms = layout->epoch_ms - 1;
    }
    slot->worker = worker;
    slot->all = snowflake;
    atomic_store_explicit(&slot->from_ms, from_ms, memory_order_relaxed);
    atomic_store_explicit(&slot->limit_ms, limit_ms, memory_order_relaxed);
    atomic_store_explicit(&slot->until_ms, until_ms, memory_order_relaxed);
    atomic_store_explicit(&snowflake->slot_count, count + 1, memory_order_release);
    return slot;
}

void snowflake_extend(struct snowflake_slot *slot, uint64_t limit_ms, uint64_t until_ms)
{
    ASSERT(limit_ms <= until_ms);
    if (slot->dead) {
        return;
    }
    ASSERT(limit_ms == 0 ||
           limit_ms >= atomic_load_explicit(&slot->limit_ms, memory_order_relaxed));
    /* The window's end first: a thread that sees the new limit does not use the old end. */
    atomic_store_explicit(&slot->until_ms, until_ms, memory_order_release);
    atomic_store_explicit(&slot->limit_ms, limit_ms, memory_order_release);
}

void snowflake_kill(struct snowflake_slot *slot)
{
    struct layout_words_all *named = &slot->all->named;
    uint32_t count = atomic_load_explicit(&named->count, memory_order_relaxed);

    (void)atomic_fetch_or_explicit(&slot->word, LAYOUT_WORD_CLOSED, memory_order_acq_rel);
    for (uint32_t i = 0; i < count; i++) {
        (void)atomic_fetch_or_explicit(&named->items[i]->words[slot - slot->all->slots].word,
                                       LAYOUT_WORD_CLOSED, memory_order_acq_rel);
    }
    atomic_store_explicit(&slot->limit_ms, 0, memory_order_release);
    slot->dead = true;
}

/* The first ms of the latest unit that an id of the word carries under the layout; 0 if none. */
static uint64_t last_begin_ms(const struct named_layout *layout, const _Atomic uint64_t *word)
{
    struct layout_position last =
        layout_position_of(atomic_load_explicit(word, memory_order_acquire));

    return last.next > 0 ? named_layout_begin_ms(layout, last.unit) : 0;
}

uint64_t snowflake_last_used_ms(const struct snowflake *snowflake,
                                const struct snowflake_slot *slot)
{
    const struct layout_words_all *named = &snowflake->named;
    const struct named_layout own = named_layout_of(&snowflake->layout);
    uint64_t last_ms = last_begin_ms(&own, &slot->word);
    uint32_t count = atomic_load_explicit(&named->count, memory_order_acquire);

    for (uint32_t i = 0; i < count; i++) {
        const struct layout_words *words = named->items[i];
        uint64_t begin_ms =
            last_begin_ms(&words->row.layout, &words->words[slot - snowflake->slots].word);

        last_ms = begin_ms > last_ms ? begin_ms : last_ms;
    }
    return last_ms;
}

/* The first sequence of a new unit of time. used_up: the unit just before it was; last_next,
 * last_start: of the last unit with ids. */
HOT static uint32_t begin_unit(uint32_t sequences, uint32_t unit_ms, bool used_up,
                               uint32_t last_next, uint32_t last_start, uint32_t count,
                               uint64_t random)
{
    uint32_t used = last_next > last_start ? last_next - last_start : last_next;
    uint64_t others = 4 * (uint64_t)((used > count ? used : count) - 1);
    uint32_t starts = others < sequences ? sequences - (uint32_t)others : 1;

    if (unit_ms > SNOWFLAKE_SPREAD_UNIT_MS && starts > sequences / 4) {
        starts = sequences / 4;
    }
    /* A single id may have used up the rest of its unit: that is no load. */
    return (used_up && used > 1) || starts <= 1 ? 0 : (uint32_t)(random % starts);
}

/* The unit to stamp at this time, given the last one. 0, or why there is none. With the cluster's
 * own layout a claim does not wait for the epoch, but for from_ms, which is not earlier. */
static inline int unit_at(const struct named_layout *layout, bool is_own, uint64_t from_ms,
                          struct layout_position last, uint64_t at_ms, uint64_t *ret_unit)
{
    uint64_t last_ms = named_layout_begin_ms(layout, last.unit);

    if (last.next > 0 && at_ms < last_ms) {
        *ret_unit = last.unit;
        return last_ms - at_ms > LIMIT_CLOCK_BACK_WAIT_MS ? ERR_CLOCK_BACKWARDS : 0;
    }
    if (at_ms < layout->bits.epoch_ms) {
        return is_own && from_ms - at_ms <= SNOWFLAKE_FROM_WAIT_MS ? ERR_EMPTY
                                                                   : ERR_CLOCK_BACKWARDS;
    }
    *ret_unit = named_layout_unit(layout, at_ms);
    return 0;
}

/* May the slot stamp this unit? at_ms: the clock's time, perhaps later than its first ms. */
static inline int unit_check(const struct named_layout *layout, const struct snowflake_slot *slot,
                             uint64_t from_ms, uint64_t unit, uint64_t at_ms, bool *ret_lapsed)
{
    uint64_t limit_ms = atomic_load_explicit(&slot->limit_ms, memory_order_acquire);
    uint64_t until_ms = atomic_load_explicit(&slot->until_ms, memory_order_acquire);
    uint64_t begin_ms;

    if (unit > snowflake_span_ms(&layout->bits)) {
        return ERR_EPOCH_EXHAUSTED;
    }
    begin_ms = named_layout_begin_ms(layout, unit);
    if (begin_ms <= from_ms) {
        /* If the unit began earlier, wait for the next one: at most a second. */
        return at_ms >= from_ms || from_ms - at_ms <= SNOWFLAKE_FROM_WAIT_MS ? ERR_EMPTY
                                                                             : ERR_CLOCK_BACKWARDS;
    }
    if (begin_ms <= limit_ms) {
        return 0;
    }
    if (begin_ms > until_ms) {
        return ERR_WINDOW_EXPIRED;
    }
    *ret_lapsed = true;
    return ERR_EMPTY;
}

/* Claim from a slot under a layout, with this word and start. ret_lapsed is set only if the mark
 * was in the way. Inline: for the cluster's own layout, whose unit is then known to be a
 * millisecond, there is no division. */
static inline __attribute__((always_inline)) int
slot_claim(const struct snowflake *snowflake, const struct snowflake_slot *slot,
           const struct named_layout *layout, bool is_own, _Atomic uint64_t *word_at,
           _Atomic uint32_t *start_at, uint32_t count, uint64_t random,
           struct segment_range *ret_range, bool *ret_lapsed)
{
    const uint32_t sequences = snowflake_sequences(&layout->bits);
    uint64_t word = atomic_load_explicit(word_at, memory_order_acquire);

    while ((word & LAYOUT_WORD_CLOSED) == 0) {
        struct layout_position last = layout_position_of(word);
        uint64_t at_ms = clock_wall_ms(snowflake->clock);
        uint64_t from_ms = atomic_load_explicit(&slot->from_ms, memory_order_relaxed);
        uint64_t unit = 0;
        uint32_t first;
        uint32_t take;
        uint64_t wanted;
        bool begins;
        int err = unit_at(layout, is_own, from_ms, last, at_ms, &unit);

        if (err == 0) {
            err = unit_check(layout, slot, from_ms, unit, at_ms, ret_lapsed);
        }
        if (err != 0) {
            return err;
        }
        begins = last.next == 0 || unit != last.unit;
        first =
            begins ? begin_unit(sequences, layout->unit_ms,
                                last.next == sequences && unit == last.unit + 1, last.next,
                                atomic_load_explicit(start_at, memory_order_relaxed), count, random)
                   : last.next;
        take = sequences - first;
        if (take == 0) {
            return ERR_EMPTY;
        }
        take = take < count ? take : count;
        wanted = unit << LAYOUT_WORD_NEXT_BITS | (first + take);
        ASSERT(wanted > word);
        if (atomic_compare_exchange_weak_explicit(word_at, &word, wanted, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            if (begins) {
                atomic_store_explicit(start_at, first, memory_order_relaxed);
            }
            *ret_range = (struct segment_range){
                named_layout_compose(layout, unit, slot->worker, first), take, 0};
            return 0;
        }
    }
    return ERR_NO_WORKER_ID;
}

/* Of two errors of a slot the one that will end sooner by itself. */
static int briefer_error(int a, int b)
{
    static const int soonest_first[] = {ERR_EMPTY, ERR_CLOCK_BACKWARDS, ERR_WINDOW_EXPIRED,
                                        ERR_EPOCH_EXHAUSTED, ERR_NO_WORKER_ID};

    for (size_t i = 0; i < sizeof soonest_first / sizeof soonest_first[0]; i++) {
        if (a == soonest_first[i] || b == soonest_first[i]) {
            return soonest_first[i];
        }
    }
    UNREACHABLE("an error that no slot returns");
}

HOT int snowflake_claim(struct snowflake *snowflake, struct layout_words *named, unsigned hint,
                        uint32_t count, uint64_t random, struct segment_range *ret_range,
                        bool *ret_notify)
{
    int refusal = atomic_load_explicit(&snowflake->refusal, memory_order_relaxed);
    int err = ERR_NO_WORKER_ID;
    bool some_fits = named == NULL;
    bool some_is_open = false;
    bool lapsed = false;
    uint32_t slots;

    ASSERT(count >= 1);
    *ret_notify = false;
    if (named != NULL && snowflake_named_is_deleted(named)) {
        return ERR_NOT_FOUND;
    }
    if (refusal != 0) {
        return refusal;
    }
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return ERR_NO_WORKER_ID;
    }
    slots = atomic_load_explicit(&snowflake->slot_count, memory_order_acquire);
    for (uint32_t i = 0; i < slots && err != 0; i++) {
        uint32_t k = (hint % slots + i) % slots;
        struct snowflake_slot *slot = &snowflake->slots[k];
        int slot_err;

        if (named == NULL) {
            const struct named_layout own = named_layout_of(&snowflake->layout);

            slot_err = slot_claim(snowflake, slot, &own, true, &slot->word, &slot->start, count,
                                  random, ret_range, &lapsed);
        } else if (slot->worker >> named->row.layout.bits.worker_bits != 0) {
            some_is_open |= (atomic_load_explicit(&named->words[k].word, memory_order_relaxed) &
                             LAYOUT_WORD_CLOSED) == 0;
            continue;
        } else {
            slot_err = slot_claim(snowflake, slot, &named->row.layout, false, &named->words[k].word,
                                  &named->words[k].start, count, random, ret_range, &lapsed);
            some_fits = some_fits || slot_err != ERR_NO_WORKER_ID;
        }
        err = slot_err == 0 ? 0 : briefer_error(err, slot_err);
    }
    if (some_is_open && !some_fits) {
        err = ERR_CONFLICT;
    }
    if (err != 0 && lapsed) {
        ASSERT(err == ERR_EMPTY);
        /* If it was set already, its owner will clear it, and looks after that. */
        *ret_notify = !atomic_exchange_explicit(&snowflake->wanted, true, memory_order_acq_rel);
    }
    return err;
}

/* --- named layouts --- */

void snowflake_learn(struct snowflake *snowflake, const struct layout_row *row)
{
    struct layout_words *known = snowflake_named_find(snowflake, row->name, row->name_len);
    struct layout_words_all *all = &snowflake->named;
    uint32_t count = atomic_load_explicit(&all->count, memory_order_relaxed);
    uint32_t slots;

    if (known != NULL) {
        atomic_store_explicit(&known->deleted,
                              row->deleted || !named_layout_equal(&known->row.layout, &row->layout),
                              memory_order_relaxed);
    } else if (count < LIMIT_LAYOUTS) {
        struct layout_words *words = MUST_HAVE(calloc(1, sizeof *words));

        slots = atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed);
        words->row = *row;
        atomic_init(&words->deleted, row->deleted);
        for (uint32_t k = 0; k < slots; k++) {
            atomic_init(&words->words[k].word, snowflake->slots[k].dead ? LAYOUT_WORD_CLOSED : 0);
        }
        all->items[count] = words;
        atomic_store_explicit(&all->count, count + 1, memory_order_release);
    }
}

struct layout_words *snowflake_named_find(const struct snowflake *snowflake, const char *name,
                                          size_t len)
{
    const struct layout_words_all *all = &snowflake->named;
    uint32_t count = atomic_load_explicit(&all->count, memory_order_acquire);

    for (uint32_t i = 0; i < count; i++) {
        const struct layout_row *row = &all->items[i]->row;

        if (row->name_len == len && memcmp(row->name, name, len) == 0) {
            return all->items[i];
        }
    }
    return NULL;
}

uint32_t snowflake_ends(const struct snowflake *snowflake,
                        struct snowflake_end ret_ends[1 + LIMIT_LAYOUTS])
{
    const struct layout_words_all *all = &snowflake->named;
    uint32_t named = atomic_load_explicit(&all->count, memory_order_acquire);
    uint32_t count = 0;

    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return 0;
    }
    ret_ends[count++] = (struct snowflake_end){"", 0, snowflake_last_ms(&snowflake->layout)};
    for (uint32_t i = 0; i < named; i++) {
        const struct layout_row *row = &all->items[i]->row;

        if (!snowflake_named_is_deleted(all->items[i])) {
            ret_ends[count++] = (struct snowflake_end){row->name, row->name_len,
                                                       named_layout_last_ms(&row->layout)};
        }
    }
    return count;
}
