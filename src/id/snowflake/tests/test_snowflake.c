/*
 * test_snowflake.c - the generator on a clock of the test's own: full and random milliseconds,
 * bounds, clocks that go back, and several slots.
 *
 * Thread: one. The layout: test_snowflake_layout.c. Random walks: test_snowflake_walk.c. Many
 * threads at once: test_snowflake_threads.c.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/id/snowflake/snowflake.h"
#include "src/tests/unit/death.h"

#define T0 1700000000000ULL /* a present for all tests */
#define DAY_MS 86400000ULL
#define ROWS(table) (sizeof(table) / sizeof(table)[0])

static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;

/* A generator and its clock. */
struct world {
    struct snowflake snowflake;
    struct clock clock;
    uint64_t wall_ms;
};

static uint64_t world_wall_ms(const struct clock *clock)
{
    return ((const struct world *)clock->data)->wall_ms;
}

static void world_init(struct world *w, const struct snowflake_layout *layout)
{
    w->clock = (struct clock){.wall_ms = world_wall_ms, .data = w};
    w->wall_ms = T0;
    snowflake_init(&w->snowflake, &w->clock);
    if (layout != NULL) {
        snowflake_set_layout(&w->snowflake, layout);
    }
}

/* A world with a slot of worker 7 that may stamp a day from T0 on. */
static struct snowflake_slot *world_open(struct world *w, const struct snowflake_layout *layout)
{
    struct snowflake_slot *slot;

    world_init(w, layout);
    slot = snowflake_add(&w->snowflake, 7, T0 - 1, T0 + DAY_MS, T0 + DAY_MS);
    assert_non_null(slot);
    return slot;
}

/* The claim gives take ids of this time, worker and first sequence. */
static void claim_is(struct world *w, unsigned hint, uint32_t count, uint64_t random,
                     struct snowflake_parts first, uint32_t take)
{
    struct segment_range range = {0};
    struct snowflake_parts parts;
    bool notify = true;

    assert_int_equal(snowflake_claim(&w->snowflake, NULL, hint, count, random, &range, &notify), 0);
    parts = snowflake_decode(&w->snowflake.layout, range.first);
    assert_int_equal(parts.unix_ms, first.unix_ms);
    assert_int_equal(parts.worker, first.worker);
    assert_int_equal(parts.sequence, first.sequence);
    assert_int_equal(range.count, take);
    assert_false(notify);
}

/* It grows with each claim. */
static uint64_t words_sum(const struct world *w)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < LIMIT_SNOWFLAKE_SLOTS; i++) {
        sum += atomic_load(&w->snowflake.slots[i].word);
    }
    return sum;
}

static void claim_fails(struct world *w, int err, bool wanted_notify)
{
    struct segment_range range = {77, 78, 0};
    uint64_t before = words_sum(w);
    bool notify = !wanted_notify;

    assert_int_equal(snowflake_claim(&w->snowflake, NULL, 0, 1, 5, &range, &notify), err);
    assert_int_equal(notify, wanted_notify);
    assert_true(range.first == 77 && range.count == 78); /* untouched */
    assert_true(words_sum(w) == before);
}

/* --- one slot --- */

/* Shows lesson-clock-first. */
static void test_full_milliseconds_under_load(void **state)
{
    struct world w;

    (void)state;
    (void)world_open(&w, &leaf);
    for (uint32_t i = 142; i < 4096; i++) { /* the first begins at random */
        claim_is(&w, 0, 1, 142, (struct snowflake_parts){T0, 7, i}, 1);
    }
    claim_fails(&w, ERR_EMPTY, false);
    for (uint64_t ms = T0 + 1; ms < T0 + 4; ms++) { /* the next ones are whole */
        w.wall_ms = ms;
        for (uint32_t i = 0; i < 4096; i++) {
            claim_is(&w, 0, 1, 142, (struct snowflake_parts){ms, 7, i}, 1);
        }
        claim_fails(&w, ERR_EMPTY, false);
    }
    w.wall_ms = T0 + 5; /* the millisecond before this one was not used up, but there may be more */
    claim_is(&w, 0, 1, 142, (struct snowflake_parts){T0 + 5, 7, 0}, 1);
    w.wall_ms = T0 + 6; /* there was not */
    claim_is(&w, 0, 1, 142, (struct snowflake_parts){T0 + 6, 7, 142}, 1);
}

/* Shows lesson-clock-first. */
static void test_random_start(void **state)
{
    static const struct {
        uint8_t bits;
        uint64_t random;
        uint32_t start;
    } rows[] = {
        {12, 0, 0},  {12, 4095, 4095}, {12, 4096, 0}, {7, 127, 127}, {7, 128, 0},
        {6, 63, 63}, {6, 64, 0},       {4, 15, 15},   {4, 16, 0},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct snowflake_layout layout = {SNOWFLAKE_EPOCH_MS, 41, 6, rows[i].bits};
        struct world w;

        (void)world_open(&w, &layout);
        claim_is(&w, 0, 1, 3, (struct snowflake_parts){T0, 7, 3}, 1);
        w.wall_ms++;
        claim_is(&w, 0, 1, rows[i].random, (struct snowflake_parts){T0 + 1, 7, rows[i].start}, 1);
    }
}

/* A millisecond begins where four times as many as the one before had, or as are asked for, have
 * room. */
static void test_a_start_leaves_room(void **state)
{
    static const struct {
        uint32_t before; /* ids of the millisecond before */
        uint32_t count;
        uint32_t starts; /* sequences that it may begin at */
    } rows[] = {{1, 1, 4096},   {2, 1, 4092}, {100, 1, 3700}, {1, 100, 3700},
                {1000, 1, 100}, {1024, 1, 4}, {1025, 1, 1},   {4000, 1, 1},
                {1, 1024, 4},   {1, 1025, 1}, {50, 100000, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        uint32_t take = rows[i].count < 4096 ? rows[i].count : 4096;
        struct world w;

        (void)world_open(&w, &leaf);
        claim_is(&w, 0, rows[i].before, 0, (struct snowflake_parts){T0, 7, 0}, rows[i].before);
        w.wall_ms++;
        claim_is(&w, 0, rows[i].count, rows[i].starts - 1,
                 (struct snowflake_parts){T0 + 1, 7, rows[i].starts - 1},
                 take < 4097 - rows[i].starts ? take : 4097 - rows[i].starts);
    }
}

/* With an id now and then, every number of shards has an even share. */
static void test_ids_are_even_over_shards(void **state)
{
    static const struct {
        uint8_t bits;
        uint32_t shards;
    } rows[] = {{12, 128}, {12, 10}, {12, 1000}, {12, 4096}, {6, 64}, {6, 7}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct snowflake_layout layout = {SNOWFLAKE_EPOCH_MS, 41, 6, rows[i].bits};
        uint32_t mean = 200;
        uint32_t *ids = calloc(rows[i].shards, sizeof *ids);
        uint64_t random = 88172645463325252ULL;
        struct world w;

        assert_non_null(ids);
        (void)world_open(&w, &layout);
        for (uint32_t n = 0; n < mean * rows[i].shards; n++) {
            struct segment_range range;
            bool notify;

            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            w.wall_ms += n % 2 + 1;
            assert_int_equal(snowflake_claim(&w.snowflake, NULL, 0, 1, random, &range, &notify), 0);
            ids[range.first % rows[i].shards]++;
        }
        for (uint32_t shard = 0; shard < rows[i].shards; shard++) {
            assert_in_range(ids[shard], mean / 2, 2 * mean);
        }
        free(ids);
    }
}

static void test_batches_are_one_range_a_millisecond(void **state)
{
    struct world w;

    (void)state;
    (void)world_open(&w, &leaf);
    claim_is(&w, 0, 1, 50, (struct snowflake_parts){T0, 7, 50}, 1);
    claim_is(&w, 0, 4000, 50, (struct snowflake_parts){T0, 7, 51}, 4000);
    claim_is(&w, 0, 100000, 50, (struct snowflake_parts){T0, 7, 4051}, 45);
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms++;
    claim_is(&w, 0, UINT32_MAX, 50, (struct snowflake_parts){T0 + 1, 7, 0}, 4096);
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms++;
    claim_is(&w, 0, 4095, 50, (struct snowflake_parts){T0 + 2, 7, 0}, 4095);
    claim_is(&w, 0, 2, 50, (struct snowflake_parts){T0 + 2, 7, 4095}, 1);
}

static void test_widest_sequence(void **state)
{
    struct snowflake_layout layout = {SNOWFLAKE_EPOCH_MS, 41, 6, 16};
    struct world w;

    (void)state;
    (void)world_open(&w, &layout);
    claim_is(&w, 0, 1, 65535, (struct snowflake_parts){T0, 7, 65535}, 1);
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms++;
    claim_is(&w, 0, 65536, 1, (struct snowflake_parts){T0 + 1, 7, 0}, 65536);
    claim_fails(&w, ERR_EMPTY, false);
}

static void test_clock_back_a_little_goes_on_at_the_last_millisecond(void **state)
{
    struct world w;

    (void)state;
    (void)world_open(&w, &leaf);
    w.wall_ms = T0 + 10;
    claim_is(&w, 0, 4000, 0, (struct snowflake_parts){T0 + 10, 7, 0}, 4000);
    w.wall_ms = T0 + 7;
    claim_is(&w, 0, 90, 0, (struct snowflake_parts){T0 + 10, 7, 4000}, 90);
    w.wall_ms = T0 + 5; /* LIMIT_CLOCK_BACK_WAIT_MS */
    claim_is(&w, 0, 90, 0, (struct snowflake_parts){T0 + 10, 7, 4090}, 6);
    for (uint64_t ms = T0 + 5; ms <= T0 + 10; ms++) {
        w.wall_ms = ms;
        claim_fails(&w, ERR_EMPTY, false);
    }
    w.wall_ms = T0 + 11;
    claim_is(&w, 0, 1, 33, (struct snowflake_parts){T0 + 11, 7, 0}, 1);
}

/* Shows lesson-clock-first. */
static void test_clock_back_further_refuses(void **state)
{
    struct world w;

    (void)state;
    (void)world_open(&w, &leaf);
    w.wall_ms = T0 + 10;
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0 + 10, 7, 0}, 1);
    w.wall_ms = T0 + 4;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = T0 - 3600000;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = 0;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = T0 + 10; /* caught up */
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0 + 10, 7, 1}, 1);
}

static void test_never_at_from_or_before(void **state)
{
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    world_init(&w, &leaf);
    slot = snowflake_add(&w.snowflake, 7, T0 + 5000, T0 + 9000, T0 + 9000);
    assert_non_null(slot);
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = T0 + 5000 - SNOWFLAKE_FROM_WAIT_MS - 1;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = T0 + 5000 - SNOWFLAKE_FROM_WAIT_MS;
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms = T0 + 5000;
    claim_fails(&w, ERR_EMPTY, false);
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), 0);
    w.wall_ms = T0 + 5001;
    claim_is(&w, 0, 1, 8, (struct snowflake_parts){T0 + 5001, 7, 8}, 1);
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), T0 + 5001);
}

static void test_never_before_the_epoch(void **state)
{
    struct snowflake_layout layout = {T0, 41, 10, 12};
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    world_init(&w, &layout);
    slot = snowflake_add(&w.snowflake, 0, 0, T0 + 1, T0 + 1);
    w.wall_ms = T0 - 1;
    claim_fails(&w, ERR_EMPTY, false);
    w.wall_ms = 0;
    claim_fails(&w, ERR_CLOCK_BACKWARDS, false);
    w.wall_ms = T0;
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, 0, 0}, 1); /* id 0 */
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), T0);
}

/* Shows lesson-window-end. */
static void test_limit_lapses_and_notifies_once(void **state)
{
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    world_init(&w, &leaf);
    slot = snowflake_add(&w.snowflake, 7, T0, T0 + 10, T0 + 100);
    w.wall_ms = T0 + 10;
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0 + 10, 7, 0}, 1);
    assert_false(atomic_load(&w.snowflake.wanted));
    w.wall_ms = T0 + 11;
    claim_fails(&w, ERR_EMPTY, true);
    assert_true(atomic_load(&w.snowflake.wanted));
    claim_fails(&w, ERR_EMPTY, false); /* the owner knows */
    assert_true(atomic_load(&w.snowflake.wanted));
    atomic_store(&w.snowflake.wanted, false);
    claim_fails(&w, ERR_EMPTY, true);
    snowflake_extend(slot, T0 + 11, T0 + 100);
    claim_is(&w, 0, 1, 4, (struct snowflake_parts){T0 + 11, 7, 4}, 1);
    w.wall_ms = T0 + 100;
    atomic_store(&w.snowflake.wanted, false);
    claim_fails(&w, ERR_EMPTY, true);
    w.wall_ms = T0 + 101; /* no mark would help */
    atomic_store(&w.snowflake.wanted, false);
    claim_fails(&w, ERR_WINDOW_EXPIRED, false);
    assert_false(atomic_load(&w.snowflake.wanted));
    snowflake_extend(slot, T0 + 101, T0 + 200);
    claim_is(&w, 0, 1, 4, (struct snowflake_parts){T0 + 101, 7, 4}, 1);
}

static void test_limit_0_serves_nothing(void **state)
{
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    world_init(&w, &leaf);
    slot = snowflake_add(&w.snowflake, 7, T0 - 1, 0, T0 + 100);
    claim_fails(&w, ERR_EMPTY, true);
    snowflake_extend(slot, T0 + 50, T0 + 100);
    claim_is(&w, 0, 1, 4, (struct snowflake_parts){T0, 7, 4}, 1);
    snowflake_extend(slot, 0, T0 + 100);
    atomic_store(&w.snowflake.wanted, false);
    claim_fails(&w, ERR_EMPTY, true);
    w.wall_ms = T0 - 1; /* not even the last millisecond goes on */
    claim_fails(&w, ERR_EMPTY, false);
}

/* Shows P8-layout, lesson-last-tick. */
static void test_last_millisecond_of_the_layout(void **state)
{
    struct snowflake_slot *slot;
    uint64_t last_ms = snowflake_last_ms(&leaf);
    struct segment_range range;
    struct world w;
    bool notify;

    (void)state;
    world_init(&w, &leaf);
    slot = snowflake_add(&w.snowflake, 1023, T0, last_ms + DAY_MS, last_ms + DAY_MS);
    w.wall_ms = last_ms - 1;
    claim_is(&w, 0, UINT32_MAX, 0, (struct snowflake_parts){last_ms - 1, 1023, 0}, 4096);
    w.wall_ms = last_ms;
    assert_int_equal(snowflake_claim(&w.snowflake, NULL, 0, UINT32_MAX, 9, &range, &notify), 0);
    assert_int_equal(range.count, 4096);
    assert_int_equal(range.first + range.count - 1, INT64_MAX);
    claim_fails(&w, ERR_EMPTY, false);
    for (uint64_t ms = last_ms + 1; ms < last_ms + 3 * DAY_MS; ms += DAY_MS) {
        w.wall_ms = ms;
        claim_fails(&w, ERR_EPOCH_EXHAUSTED, false);
    }
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), last_ms);
}

/* --- slots --- */

static void test_no_worker_id(void **state)
{
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    world_init(&w, NULL);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    snowflake_set_layout(&w.snowflake, &leaf);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    slot = snowflake_add(&w.snowflake, 7, T0 - 1, T0 + 9, T0 + 9);
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
    snowflake_kill(slot);
    claim_fails(&w, ERR_NO_WORKER_ID, false);
}

static void test_refusal(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, NULL);
    atomic_store(&w.snowflake.refusal, ERR_DISABLED);
    claim_fails(&w, ERR_DISABLED, false); /* before there is a layout, too */
    (void)world_open(&w, &leaf);
    atomic_store(&w.snowflake.refusal, ERR_CLOCK_SKEW);
    claim_fails(&w, ERR_CLOCK_SKEW, false);
    atomic_store(&w.snowflake.refusal, 0);
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
}

static void test_two_slots_give_twice_as_many(void **state)
{
    struct segment_range range;
    struct world w;
    bool notify;

    (void)state;
    (void)world_open(&w, &leaf);
    assert_non_null(snowflake_add(&w.snowflake, 8, T0 - 1, T0 + 9, T0 + 9));
    for (uint64_t ms = T0; ms < T0 + 3; ms++) {
        uint32_t wanted = ms == T0 ? 2 * (4096 - 20) : 2 * 4096;
        uint32_t got = 0;

        w.wall_ms = ms;
        while (snowflake_claim(&w.snowflake, NULL, 1, 100, 20, &range, &notify) == 0) {
            got += range.count;
        }
        assert_int_equal(got, wanted);
        claim_fails(&w, ERR_EMPTY, false);
    }
}

static void test_hint_spreads(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, &leaf);
    for (uint32_t i = 0; i < 3; i++) {
        assert_non_null(snowflake_add(&w.snowflake, 40 + i, T0 - 1, T0 + 9, T0 + 9));
    }
    for (unsigned hint = 0; hint < 6; hint++) {
        claim_is(&w, hint, 1, 0, (struct snowflake_parts){T0, 40 + hint % 3, hint / 3}, 1);
    }
    claim_is(&w, UINT32_MAX, 1, 0, (struct snowflake_parts){T0, 40, 2}, 1);
    snowflake_kill(&w.snowflake.slots[0]); /* its callers go to the next one */
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, 41, 2}, 1);
}

/* A slot in one of the states it can be in, and what a claim at T0 says of it alone. */
struct slot_case {
    int err;
    bool lapsed;
    uint64_t from_ms, limit_ms, until_ms;
};

static void add_case(struct world *w, uint32_t worker, const struct slot_case *row)
{
    struct snowflake_slot *slot =
        snowflake_add(&w->snowflake, worker, row->from_ms, row->limit_ms, row->until_ms);

    assert_non_null(slot);
    if (row->err == ERR_NO_WORKER_ID) {
        snowflake_kill(slot);
    }
}

/* Of any two slots, one that can serve serves; else the claim says what is over sooner. */
static void test_any_slot_that_can_serve_serves(void **state)
{
    static const struct slot_case rows[] = {
        /* as they are preferred */
        {0, false, T0 - 1, T0 + 1, T0 + 1},
        {ERR_EMPTY, true, T0 - 2, T0 - 1, T0 + 1},
        {ERR_EMPTY, false, T0, T0 + 1, T0 + 1},
        {ERR_CLOCK_BACKWARDS, false, T0 + 5000, T0 + 5000, T0 + 5000},
        {ERR_WINDOW_EXPIRED, false, T0 - 2, T0 - 1, T0 - 1},
        {ERR_NO_WORKER_ID, false, T0 - 1, T0 + 1, T0 + 1},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows) * ROWS(rows); i++) {
        size_t row0 = i / ROWS(rows);
        size_t row1 = i % ROWS(rows);
        size_t best = row0 < row1 ? row0 : row1;
        struct world w;

        world_init(&w, &leaf);
        add_case(&w, 0, &rows[row0]);
        add_case(&w, 1, &rows[row1]);
        if (rows[best].err != 0) {
            claim_fails(&w, rows[best].err, rows[row0].lapsed || rows[row1].lapsed);
            continue;
        }
        claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, row0 == 0 ? 0 : 1, 0}, 1);
        assert_false(atomic_load(&w.snowflake.wanted));
    }
}

static void test_killed_slots_stay_dead(void **state)
{
    struct snowflake_slot *slot;
    struct world w;

    (void)state;
    slot = world_open(&w, &leaf);
    claim_is(&w, 0, 2, 6, (struct snowflake_parts){T0, 7, 6}, 2);
    snowflake_kill(slot);
    snowflake_kill(slot);
    assert_int_equal(snowflake_last_used_ms(&w.snowflake, slot), T0);
    snowflake_extend(slot, T0 + 2 * DAY_MS, T0 + 2 * DAY_MS); /* a late write's end */
    w.wall_ms++;
    claim_fails(&w, ERR_NO_WORKER_ID, false);
    /* The same worker id, granted anew, begins above what was used. */
    assert_non_null(snowflake_add(&w.snowflake, 7, T0, T0 + 1, T0 + 1));
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0 + 1, 7, 0}, 1);
}

static void test_slots_run_out(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, &leaf);
    for (uint32_t i = 0; i < LIMIT_SNOWFLAKE_SLOTS; i++) {
        struct snowflake_slot *slot = snowflake_add(&w.snowflake, i, T0 - 1, T0 + 9, T0 + 9);

        assert_non_null(slot);
        if (i + 1 < LIMIT_SNOWFLAKE_SLOTS) {
            snowflake_kill(slot);
        }
    }
    assert_null(snowflake_add(&w.snowflake, 1000, T0 - 1, T0 + 9, T0 + 9));
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, LIMIT_SNOWFLAKE_SLOTS - 1, 0}, 1);
}

static void add_worker_beyond_bits(void *data)
{
    (void)snowflake_add(data, 1024, T0, T0, T0);
}

static void add_limit_beyond_window(void *data)
{
    (void)snowflake_add(data, 1, T0, T0 + 2, T0 + 1);
}

static void add_worker_twice(void *data)
{
    (void)snowflake_add(data, 7, T0 + 2 * DAY_MS, T0 + 3 * DAY_MS, T0 + 3 * DAY_MS);
}

static void add_below_what_was_used(void *data)
{
    struct snowflake *snowflake = data;

    snowflake_kill(&snowflake->slots[0]);
    (void)snowflake_add(snowflake, 7, T0 - 1, T0 + 1, T0 + 1);
}

static void extend_to_less(void *data)
{
    snowflake_extend(&((struct snowflake *)data)->slots[0], T0 + DAY_MS - 1, T0 + DAY_MS);
}

static void set_layout_twice(void *data)
{
    snowflake_set_layout(data, &leaf);
}

static void test_owner_asserts(void **state)
{
    struct world w;

    (void)state;
    (void)world_open(&w, &leaf);
    claim_is(&w, 0, 1, 0, (struct snowflake_parts){T0, 7, 0}, 1);
    assert_true(death_by_assert(add_worker_beyond_bits, &w.snowflake));
    assert_true(death_by_assert(add_limit_beyond_window, &w.snowflake));
    assert_true(death_by_assert(add_worker_twice, &w.snowflake));
    assert_true(death_by_assert(add_below_what_was_used, &w.snowflake));
    assert_true(death_by_assert(extend_to_less, &w.snowflake));
    assert_true(death_by_assert(set_layout_twice, &w.snowflake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_milliseconds_under_load),
        cmocka_unit_test(test_random_start),
        cmocka_unit_test(test_a_start_leaves_room),
        cmocka_unit_test(test_ids_are_even_over_shards),
        cmocka_unit_test(test_batches_are_one_range_a_millisecond),
        cmocka_unit_test(test_widest_sequence),
        cmocka_unit_test(test_clock_back_a_little_goes_on_at_the_last_millisecond),
        cmocka_unit_test(test_clock_back_further_refuses),
        cmocka_unit_test(test_never_at_from_or_before),
        cmocka_unit_test(test_never_before_the_epoch),
        cmocka_unit_test(test_limit_lapses_and_notifies_once),
        cmocka_unit_test(test_limit_0_serves_nothing),
        cmocka_unit_test(test_last_millisecond_of_the_layout),
        cmocka_unit_test(test_no_worker_id),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_two_slots_give_twice_as_many),
        cmocka_unit_test(test_hint_spreads),
        cmocka_unit_test(test_any_slot_that_can_serve_serves),
        cmocka_unit_test(test_killed_slots_stay_dead),
        cmocka_unit_test(test_slots_run_out),
        cmocka_unit_test(test_owner_asserts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
