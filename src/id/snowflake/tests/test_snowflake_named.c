/*
 * test_snowflake_named.c - ids under named layouts on a clock of the test's own: units that begin
 * before a bound, used-up units, clocks that go back, kills, worker ids that do not fit. And that
 * holders, epochs and incarnations of one worker id never share a unit, wherever their windows
 * begin and end.
 *
 * Thread: one. Many at once: test_snowflake_named_threads.c.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/snowflake/snowflake.h"

#define T0 1700000000000ULL /* a present for all tests, and the beginning of a second */
#define DAY_MS 86400000ULL
#define ROWS(table) (sizeof(table) / sizeof(table)[0])

static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;

/* A generator and its clock. */
struct world {
    struct snowflake snowflake;
    struct clock clock;
    uint64_t wall_ms;
    struct layout_words *named;
};

static uint64_t world_wall_ms(const struct clock *clock)
{
    return ((const struct world *)clock->data)->wall_ms;
}

static struct layout_row row_of(const char *name, uint16_t unit_ms, uint8_t worker_bits,
                                uint8_t sequence_bits)
{
    struct layout_row row = {
        .name_len = (uint16_t)strlen(name),
        .layout = {{T0 - 5000 * 1000, 30, worker_bits, sequence_bits}, unit_ms, 0}};

    memcpy(row.name, name, row.name_len);
    return row;
}

static void world_init(struct world *w, const struct layout_row *row)
{
    w->clock = (struct clock){.wall_ms = world_wall_ms, .data = w};
    w->wall_ms = T0;
    snowflake_init(&w->snowflake, &w->clock);
    snowflake_set_layout(&w->snowflake, &leaf);
    snowflake_learn(&w->snowflake, row);
    w->named = snowflake_named_find(&w->snowflake, row->name, row->name_len);
    assert_non_null(w->named);
}

static struct snowflake_slot *add(struct world *w, uint32_t worker, uint64_t from_ms,
                                  uint64_t limit_ms, uint64_t until_ms)
{
    struct snowflake_slot *slot = snowflake_add(&w->snowflake, worker, from_ms, limit_ms, until_ms);

    assert_non_null(slot);
    return slot;
}

static void claim_is(struct world *w, uint32_t count, uint64_t random, struct snowflake_parts first,
                     uint32_t take)
{
    struct segment_range range = {0};
    struct snowflake_parts parts;
    bool notify = true;

    assert_int_equal(snowflake_claim(&w->snowflake, w->named, 0, count, random, &range, &notify),
                     0);
    assert_true(named_layout_decode(&w->named->row.layout, range.first, &parts));
    assert_int_equal(parts.unix_ms, first.unix_ms);
    assert_int_equal(parts.worker, first.worker);
    assert_int_equal(parts.sequence, first.sequence);
    assert_int_equal(range.count, take);
    assert_false(notify);
}

static void claim_fails(struct world *w, int err, bool wanted_notify)
{
    struct segment_range range = {77, 78, 0};
    bool notify = !wanted_notify;

    assert_int_equal(snowflake_claim(&w->snowflake, w->named, 0, 1, 5, &range, &notify), err);
    assert_int_equal(notify, wanted_notify);
    assert_true(range.first == 77 && range.count == 78);
}

static void test_a_used_up_unit_waits_for_the_next(void **state)
{
    struct layout_row row = row_of("s", 1000, 10, 6);
    struct world w;

    (void)state;
    world_init(&w, &row);
    (void)add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    claim_is(&w, 1, 17, (struct snowflake_parts){T0, 7, 1}, 1); /* of 16 that it may begin with */
    w.wall_ms = T0 + 999;
    claim_is(&w, 100, 17, (struct snowflake_parts){T0, 7, 2}, 62);
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms = T0 + 1000;
    claim_is(&w, 100, 17, (struct snowflake_parts){T0 + 1000, 7, 0}, 64); /* all of it */
    w.wall_ms = T0 + 2500;
    claim_is(&w, 1, 17, (struct snowflake_parts){T0 + 2000, 7, 0}, 1);
    w.wall_ms = T0 + 4500; /* the unit before was not used up */
    claim_is(&w, 1, 17, (struct snowflake_parts){T0 + 4000, 7, 1}, 1);
    snowflake_release(&w.snowflake);
}

static void test_a_random_start_leaves_most_of_a_long_unit(void **state)
{
    static const struct {
        uint16_t unit_ms;
        uint8_t bits;
        uint32_t highest;
    } rows[] = {{1000, 1, 0},   {1000, 2, 0}, {1000, 3, 1}, {1000, 6, 15},
                {1000, 9, 127}, {10, 1, 1},   {10, 8, 255}, {1, 6, 63}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct layout_row row = row_of("s", rows[i].unit_ms, 10, rows[i].bits);
        uint32_t highest = 0;
        struct world w;

        world_init(&w, &row);
        (void)add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
        for (uint64_t random = 0; random < 1000; random++) {
            struct segment_range range;
            uint32_t first;
            bool notify;

            w.wall_ms += 2 * rows[i].unit_ms;
            assert_int_equal(snowflake_claim(&w.snowflake, w.named, 0, 1, random, &range, &notify),
                             0);
            first = (uint32_t)range.first & ((1u << rows[i].bits) - 1);
            highest = first > highest ? first : highest;
        }
        assert_int_equal(highest, rows[i].highest);
        snowflake_release(&w.snowflake);
    }
}

static void test_a_unit_belongs_to_who_has_its_first_millisecond(void **state)
{
    struct layout_row row = row_of("s", 1000, 10, 6);
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    world_init(&w, &row);
    slot = add(&w, 7, T0 + 300, T0 + 1700, T0 + 3400);
    w.wall_ms = T0; /* before its window */
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms = T0 + 300 - SNOWFLAKE_FROM_WAIT_MS;
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms--;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = T0 + 999; /* within, in a unit that began before it */
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms = T0 + 1000;
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 1000, 7, 0}, 1);
    w.wall_ms = T0 + 1999; /* above the mark, in a unit that began below it */
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 1000, 7, 1}, 1);
    w.wall_ms = T0 + 2000;
    claim_fails(&w, ERR_EMPTY, true); /* the owner is told */
    claim_fails(&w, ERR_EMPTY, false);
    atomic_store(&w.snowflake.wanted, false);
    snowflake_extend(slot, T0 + 3400, T0 + 3400);
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 2000, 7, 0}, 1);
    w.wall_ms = T0 + 3999; /* beyond the window, in a unit that began within it */
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 3000, 7, 0}, 1);
    w.wall_ms = T0 + 4000;
    claim_fails(&w, ERR_WINDOW_EXPIRED, false);
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), T0 + 3000);
    snowflake_release(&w.snowflake);
}

static void test_a_window_that_begins_with_a_unit_has_it(void **state)
{
    struct layout_row row = row_of("s", 1000, 10, 6);
    struct world w;

    (void)state;
    world_init(&w, &row);
    (void)add(&w, 7, T0 - 1, T0, T0);
    w.wall_ms = T0 + 500;
    claim_is(&w, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
    snowflake_release(&w.snowflake);
    world_init(&w, &row);
    (void)add(&w, 7, T0, T0 + 999, T0 + 999); /* the one before had it */
    claim_fails(&w, ERR_EMPTY, false);
    snowflake_release(&w.snowflake);
}

static void test_a_clock_that_went_back(void **state)
{
    struct layout_row row = row_of("s", 1000, 10, 6);
    struct world w;

    (void)state;
    world_init(&w, &row);
    (void)add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    w.wall_ms = T0 + 1500;
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 1000, 7, 0}, 1);
    w.wall_ms = T0 + 1000; /* in the same unit: no harm */
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 1000, 7, 1}, 1);
    w.wall_ms = T0 + 1000 - LIMIT_CLOCK_BACK_WAIT_MS;
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 1000, 7, 2}, 1);
    w.wall_ms--;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = 0; /* before the epoch */
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    snowflake_release(&w.snowflake);
}

static void test_before_the_epoch_and_behind_the_end(void **state)
{
    struct layout_row row = row_of("s", 1000, 10, 6);
    struct world w;

    (void)state;
    row.layout.bits.time_bits = 24;
    world_init(&w, &row);
    (void)add(&w, 7, 0, T0 + 365000 * DAY_MS, T0 + 365000 * DAY_MS);
    w.wall_ms = row.layout.bits.epoch_ms - 1;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms++;
    claim_is(&w, 1, 0, (struct snowflake_parts){w.wall_ms, 7, 0}, 1);
    w.wall_ms = named_layout_last_ms(&row.layout);
    claim_is(&w, 1, 0, (struct snowflake_parts){w.wall_ms - 999, 7, 0}, 1);
    w.wall_ms++;
    claim_fails(&w, ERR_EPOCH_EXHAUSTED, false);
    snowflake_release(&w.snowflake);
}

static void test_a_kill_ends_claims_under_all_layouts(void **state)
{
    struct layout_row row = row_of("s", 1000, 10, 6);
    struct layout_row late = row_of("late", 10, 10, 6);
    struct snowflake_slot *slot;
    struct layout_words *found;
    struct world w;

    (void)state;
    world_init(&w, &row);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    slot = add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    claim_is(&w, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
    snowflake_kill(slot);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), T0);
    /* A layout that is learnt only now knows of the kill, too. */
    snowflake_learn(&w.snowflake, &late);
    found = w.named;
    w.named = snowflake_named_find(&w.snowflake, "late", 4);
    assert_true(w.named != NULL && w.named != found);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    /* The same worker id in its next epoch. */
    w.wall_ms = T0 + 20;
    (void)add(&w, 7, T0 + 10, T0 + DAY_MS, T0 + DAY_MS);
    claim_is(&w, 1, 0, (struct snowflake_parts){T0 + 20, 7, 0}, 1);
    snowflake_release(&w.snowflake);
}

static void test_worker_ids_that_do_not_fit(void **state)
{
    struct layout_row row = row_of("s", 1, 3, 6);
    struct world w;

    (void)state;
    world_init(&w, &row);
    (void)add(&w, 8, T0 - 1, T0 + DAY_MS, T0 + DAY_MS); /* one bit too many */
    claim_fails(&w, ERR_CONFLICT, false);
    (void)add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    claim_is(&w, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
    w.wall_ms += DAY_MS + 1;
    claim_fails(&w, ERR_WINDOW_EXPIRED, false); /* of the one that fits */
    snowflake_kill(&w.snowflake.slots[1]);
    claim_fails(&w, ERR_CONFLICT, false);
    snowflake_kill(&w.snowflake.slots[0]);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    snowflake_release(&w.snowflake);
}

static void test_deleted_refused_and_in_doubt(void **state)
{
    struct layout_row row = row_of("s", 1, 10, 6);
    struct layout_row other = row_of("s", 10, 10, 6);
    struct world w;

    (void)state;
    world_init(&w, &row);
    (void)add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    row.deleted = true;
    snowflake_learn(&w.snowflake, &row);
    claim_fails(&w, ERR_NOT_FOUND, false);
    row.deleted = false;
    snowflake_learn(&w.snowflake, &row);
    claim_is(&w, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
    atomic_store(&w.snowflake.refusal, ERR_CLOCK_SKEW);
    claim_fails(&w, ERR_CLOCK_SKEW, false);
    atomic_store(&w.snowflake.refusal, 0);
    snowflake_learn(&w.snowflake, &other); /* the same name, and other fields */
    claim_fails(&w, ERR_NOT_FOUND, false);
    assert_int_equal(w.named->row.layout.unit_ms, 1);
    assert_null(snowflake_named_find(&w.snowflake, "t", 1));
    snowflake_release(&w.snowflake);
}

static void test_layouts_are_numberings_of_their_own(void **state)
{
    struct layout_row row = row_of("s", 1, 10, 6);
    struct layout_row other = row_of("t", 1, 10, 6);
    struct segment_range range;
    struct world w;
    bool notify;

    (void)state;
    world_init(&w, &row);
    snowflake_learn(&w.snowflake, &other);
    (void)add(&w, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    claim_is(&w, 5, 0, (struct snowflake_parts){T0, 7, 0}, 5);
    w.named = snowflake_named_find(&w.snowflake, "t", 1);
    claim_is(&w, 5, 0, (struct snowflake_parts){T0, 7, 0}, 5);
    assert_int_equal(snowflake_claim(&w.snowflake, NULL, 0, 1, 0, &range, &notify), 0);
    assert_int_equal(snowflake_decode(&leaf, range.first).sequence, 0);
    snowflake_release(&w.snowflake);
}

static void test_the_ends_of_all_layouts(void **state)
{
    struct layout_row row = row_of("s", 10, 10, 6);
    struct layout_row other = row_of("t", 1, 10, 6);
    struct snowflake_end ends[1 + LIMIT_LAYOUTS];
    struct snowflake unknown;
    struct world w;

    (void)state;
    world_init(&w, &row);
    snowflake_learn(&w.snowflake, &other);
    assert_int_equal(snowflake_ends(&w.snowflake, ends), 3);
    assert_string_equal(ends[0].name, "");
    assert_int_equal(ends[0].name_len, 0);
    assert_int_equal(ends[0].last_ms, snowflake_last_ms(&leaf));
    assert_string_equal(ends[1].name, "s");
    assert_int_equal(ends[1].last_ms, named_layout_last_ms(&row.layout));
    assert_string_equal(ends[2].name, "t");
    assert_int_equal(ends[2].name_len, 1);
    row.deleted = true;
    snowflake_learn(&w.snowflake, &row);
    assert_int_equal(snowflake_ends(&w.snowflake, ends), 2);
    assert_string_equal(ends[1].name, "t");
    snowflake_release(&w.snowflake);
    snowflake_init(&unknown, &w.clock);
    assert_int_equal(snowflake_ends(&unknown, ends), 0);
    snowflake_release(&unknown);
}

/* --- nobody shares a unit --- */

#define LIVES 60
#define UNITS_MAX 65536

/* Who stamped each unit, by its number; 0: nobody yet. A life is one holder's or incarnation's. */
struct stamps {
    unsigned char life[UNITS_MAX];
    uint64_t claims;
    uint64_t shared_edges; /* lives that ended in the middle of a unit that they had stamped */
};

/* One life: from a bound on, with a mark that follows the clock in steps up to the end of the
 * window, and a clock that jumps about. Where it ends, at which mark, is the next one's bound. */
static uint64_t live(struct prng *prng, const struct layout_row *row, unsigned life,
                     uint64_t from_ms, struct stamps *stamps)
{
    uint64_t until_ms = from_ms + 1 + prng_below(prng, 4ULL * row->layout.unit_ms + 50);
    uint64_t mark_ms = from_ms;
    struct snowflake_slot *slot;
    struct world w;

    world_init(&w, row);
    slot = add(&w, 3, from_ms, mark_ms, until_ms);
    w.wall_ms = from_ms;
    for (int i = 0; i < 200; i++) {
        struct segment_range range;
        uint64_t unit;
        bool notify;

        /* Ahead as a rule, back now and then, also to what others have stamped. */
        w.wall_ms += prng_below(prng, row->layout.unit_ms / 4U + 3);
        w.wall_ms -= prng_below(prng, 10) == 0 ? prng_below(prng, 3ULL * row->layout.unit_ms) : 0;
        if (snowflake_claim(&w.snowflake, w.named, 0, 1, 0, &range, &notify) != 0) {
            if (mark_ms < until_ms && prng_below(prng, 2) == 0) {
                mark_ms += 1 + prng_below(prng, until_ms - mark_ms);
                snowflake_extend(slot, mark_ms, until_ms);
            }
            continue;
        }
        unit = range.first >> (row->layout.bits.worker_bits + row->layout.bits.sequence_bits);
        assert_true(unit < UNITS_MAX);
        assert_true(stamps->life[unit] == 0 || stamps->life[unit] == life);
        stamps->life[unit] = (unsigned char)life;
        stamps->claims++;
        assert_true(named_layout_begin_ms(&row->layout, unit) > from_ms);
        assert_true(named_layout_begin_ms(&row->layout, unit) <= mark_ms);
    }
    stamps->shared_edges +=
        stamps->life[named_layout_unit(&row->layout, mark_ms)] == life &&
        (mark_ms - row->layout.bits.epoch_ms) % row->layout.unit_ms < row->layout.unit_ms - 1u;
    snowflake_release(&w.snowflake);
    /* A crash: the next incarnation begins at the mark. Or another holder, at the window's end. */
    return prng_below(prng, 2) == 0 ? mark_ms : until_ms;
}

/* Shows lesson-units. */
static void test_no_two_holders_or_incarnations_share_a_unit(void **state)
{
    static const uint16_t units[] = {1, 10, 1000};
    static struct stamps stamps;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct layout_row row = row_of("s", units[seed % 3], 2, 4);
        uint64_t from_ms = T0;
        struct prng prng;

        prng_seed(&prng, seed);
        row.layout.bits.epoch_ms = T0 - 10000 + prng_below(&prng, 1000);
        memset(stamps.life, 0, sizeof stamps.life);
        for (unsigned life = 1; life <= LIVES; life++) {
            from_ms = live(&prng, &row, life, from_ms, &stamps);
        }
    }
    /* It was about something. */
    assert_true(stamps.claims > 100000);
    assert_true(stamps.shared_edges > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_used_up_unit_waits_for_the_next),
        cmocka_unit_test(test_a_random_start_leaves_most_of_a_long_unit),
        cmocka_unit_test(test_a_unit_belongs_to_who_has_its_first_millisecond),
        cmocka_unit_test(test_a_window_that_begins_with_a_unit_has_it),
        cmocka_unit_test(test_a_clock_that_went_back),
        cmocka_unit_test(test_before_the_epoch_and_behind_the_end),
        cmocka_unit_test(test_a_kill_ends_claims_under_all_layouts),
        cmocka_unit_test(test_worker_ids_that_do_not_fit),
        cmocka_unit_test(test_deleted_refused_and_in_doubt),
        cmocka_unit_test(test_layouts_are_numberings_of_their_own),
        cmocka_unit_test(test_the_ends_of_all_layouts),
        cmocka_unit_test(test_no_two_holders_or_incarnations_share_a_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
