/*
 * snowflake_named.c - see snowflake_named.h. The orders of memory are those of snowflake.c, for the
 * same reasons; a layout is published by its count (release) before any claim of it (acquire).
 */
#include "src/id/snowflake/snowflake_named.h"

#include <string.h>

#include "src/base/assert.h"

static bool slot_is_dead(const void *data, uint32_t k)
{
    return ((const struct snowflake *)data)->slots[k].dead;
}

void snowflake_learn(struct snowflake *snowflake, const struct layout_row *row)
{
    struct layout_words *known = snowflake_named_find(snowflake, row->name, row->name_len);
    struct layout_words_all *all = &snowflake->named;

    if (known != NULL) {
        atomic_store_explicit(&known->deleted,
                              row->deleted || !named_layout_equal(&known->row.layout, &row->layout),
                              memory_order_relaxed);
    } else if (atomic_load_explicit(&all->count, memory_order_relaxed) < LIMIT_LAYOUTS) {
        layout_words_add(all, row,
                         atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed),
                         slot_is_dead, snowflake);
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

/* The unit to stamp at this time, given the last one. 0 or ERR_CLOCK_BACKWARDS. */
static int unit_at(const struct named_layout *layout, struct layout_position last, uint64_t at_ms,
                   uint64_t *ret_unit)
{
    uint64_t last_ms = named_layout_begin_ms(layout, last.unit);

    if (last.next > 0 && at_ms < last_ms) {
        *ret_unit = last.unit;
        return last_ms - at_ms > LIMIT_CLOCK_BACK_WAIT_MS ? ERR_CLOCK_BACKWARDS : 0;
    }
    if (at_ms < layout->bits.epoch_ms) {
        return ERR_CLOCK_BACKWARDS;
    }
    *ret_unit = named_layout_unit(layout, at_ms);
    return 0;
}

/* May the slot stamp this unit? at_ms: the clock's time, perhaps later than its first ms. */
static int unit_check(const struct named_layout *layout, const struct snowflake_slot *slot,
                      uint64_t unit, uint64_t at_ms, bool *ret_lapsed)
{
    uint64_t from_ms = atomic_load_explicit(&slot->from_ms, memory_order_relaxed);
    uint64_t limit_ms = atomic_load_explicit(&slot->limit_ms, memory_order_acquire);
    uint64_t until_ms = atomic_load_explicit(&slot->until_ms, memory_order_acquire);
    uint64_t begin_ms;

    if (unit > named_layout_last_unit(layout)) {
        return ERR_EPOCH_EXHAUSTED;
    }
    begin_ms = named_layout_begin_ms(layout, unit);
    if (begin_ms <= from_ms) {
        /* Of a unit that had begun before, the next one is waited for: a second at the most. */
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

/* The first sequence to take of a unit; one past the last if it is used up. A unit begins at
 * random, for those who shard by the lowest digits, but leaves three quarters of its ids. */
static uint32_t first_sequence(const struct named_layout *layout, struct layout_position last,
                               uint64_t unit, uint64_t random)
{
    uint32_t sequences = snowflake_sequences(&layout->bits);
    uint32_t starts =
        sequences / 4 < SNOWFLAKE_RANDOM_START ? sequences / 4 : SNOWFLAKE_RANDOM_START;

    if (last.next > 0 && unit == last.unit) {
        return last.next;
    }
    if (starts <= 1 || (last.next == sequences && unit == last.unit + 1)) {
        return 0;
    }
    return (uint32_t)(random % starts);
}

/* Claim from slot k. ret_lapsed is set, and else left alone, when the mark was in the way. */
static int slot_claim(struct snowflake *snowflake, struct layout_words *named, uint32_t k,
                      uint32_t count, uint64_t random, struct segment_range *ret_range,
                      bool *ret_lapsed)
{
    const struct named_layout *layout = &named->row.layout;
    const struct snowflake_slot *slot = &snowflake->slots[k];
    _Atomic uint64_t *word_at = &named->words[k].word;
    uint64_t word = atomic_load_explicit(word_at, memory_order_acquire);

    while ((word & LAYOUT_WORD_CLOSED) == 0) {
        struct layout_position last = layout_position_of(word);
        uint64_t at_ms = clock_wall_ms(snowflake->clock);
        uint64_t unit = 0;
        uint32_t first;
        uint32_t take;
        uint64_t wanted;
        int err = unit_at(layout, last, at_ms, &unit);

        if (err == 0) {
            err = unit_check(layout, slot, unit, at_ms, ret_lapsed);
        }
        if (err != 0) {
            return err;
        }
        first = first_sequence(layout, last, unit, random);
        take = snowflake_sequences(&layout->bits) - first;
        if (take == 0) {
            return ERR_EMPTY;
        }
        take = take < count ? take : count;
        wanted = unit << LAYOUT_WORD_NEXT_BITS | (first + take);
        ASSERT(wanted > word);
        if (atomic_compare_exchange_weak_explicit(word_at, &word, wanted, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *ret_range = (struct segment_range){
                named_layout_compose(layout, unit, slot->worker, first), take};
            return 0;
        }
    }
    return ERR_NO_WORKER_ID;
}

static bool slot_is_open(const struct layout_words *named, uint32_t k)
{
    return (atomic_load_explicit(&named->words[k].word, memory_order_relaxed) &
            LAYOUT_WORD_CLOSED) == 0;
}

/* 0 with *ret_range, or the error that is over soonest. */
static int claim_any(struct snowflake *snowflake, struct layout_words *named, unsigned hint,
                     uint32_t count, uint64_t random, struct segment_range *ret_range,
                     bool *ret_lapsed)
{
    uint32_t slots = atomic_load_explicit(&snowflake->slot_count, memory_order_acquire);
    int err = ERR_NO_WORKER_ID;
    bool some_fits = false;
    bool some_is_open = false;

    for (uint32_t i = 0; i < slots; i++) {
        uint32_t k = (hint % slots + i) % slots;
        int slot_err;

        if (snowflake->slots[k].worker >> named->row.layout.bits.worker_bits != 0) {
            some_is_open = some_is_open || slot_is_open(named, k);
            continue;
        }
        slot_err = slot_claim(snowflake, named, k, count, random, ret_range, ret_lapsed);
        if (slot_err == 0) {
            return 0;
        }
        some_fits = some_fits || slot_err != ERR_NO_WORKER_ID;
        err = snowflake_sooner_over(err, slot_err);
    }
    return some_is_open && !some_fits ? ERR_CONFLICT : err;
}

int snowflake_named_claim(struct snowflake *snowflake, struct layout_words *named, unsigned hint,
                          uint32_t count, uint64_t random, struct segment_range *ret_range,
                          bool *ret_notify)
{
    int refusal = atomic_load_explicit(&snowflake->refusal, memory_order_relaxed);
    bool lapsed = false;
    int err;

    ASSERT(count >= 1);
    *ret_notify = false;
    if (snowflake_named_is_deleted(named)) {
        return ERR_NOT_FOUND;
    }
    if (refusal != 0) {
        return refusal;
    }
    err = claim_any(snowflake, named, hint, count, random, ret_range, &lapsed);
    if (err == 0) {
        atomic_fetch_add_explicit(&snowflake->claimed_total, ret_range->count,
                                  memory_order_relaxed);
    } else if (lapsed) {
        ASSERT(err == ERR_EMPTY);
        *ret_notify = !atomic_exchange_explicit(&snowflake->wanted, true, memory_order_acq_rel);
    }
    return err;
}
