/*
 * test_snowflake_walk.c - the generator under clocks that walk at random (still, on, back, far
 * ahead and back again) while its owner extends limits, kills slots and adds others, checked
 * against a plain account of what each slot has used.
 *
 * Per worker id {time, sequence} must rise, from one range to the next: so all ids are distinct.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/snowflake/snowflake.h"

#define T0 1700000000000ULL
#define CLAIMS 200000 /* that gave ids, of each walk */
#define WORKERS 4

/* What a worker id has used, over all of its slots. */
struct account {
    uint64_t used_ms; /* 0: nothing */
    uint32_t next;    /* sequence, at used_ms */
};

/* The test's own view of a slot. */
struct slot_view {
    struct snowflake_slot *slot; /* NULL: no more */
    bool used;                   /* by this slot */
    uint64_t from_ms;
    uint64_t limit_ms;
    uint64_t until_ms;
};

struct walk {
    struct snowflake snowflake;
    struct clock clock;
    struct prng prng;
    uint64_t wall_ms;
    uint32_t size; /* sequences of a millisecond */
    struct account accounts[WORKERS];
    struct slot_view views[WORKERS]; /* the live slot of each worker id */
    uint64_t claims;
    uint64_t failures[5]; /* by kind, see failure_kind() */
};

static uint64_t walk_wall_ms(const struct clock *clock)
{
    return ((const struct walk *)clock->data)->wall_ms;
}

static void walk_clock(struct walk *w)
{
    uint64_t dice = prng_below(&w->prng, 1000);

    if (dice < 500) {
        w->wall_ms += dice % 4 == 0;
    } else if (dice < 900) {
        w->wall_ms += prng_below(&w->prng, 4);
    } else if (dice < 950) {
        w->wall_ms -= prng_below(&w->prng, LIMIT_CLOCK_BACK_WAIT_MS + 1);
    } else if (dice < 960) {
        w->wall_ms -= prng_below(&w->prng, 50);
    } else if (dice < 998) {
        w->wall_ms += prng_below(&w->prng, 30);
    } else if (dice < 999) {
        w->wall_ms += prng_below(&w->prng, 3000);
    } else {
        w->wall_ms -= prng_below(&w->prng, 3000);
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A new slot for a worker id without one. */
static void walk_add(struct walk *w, uint32_t worker)
{
    struct slot_view *view = &w->views[worker];
    uint64_t floor_ms = w->wall_ms - 20 + prng_below(&w->prng, 40);

    view->used = false;
    view->from_ms = later(floor_ms, w->accounts[worker].used_ms);
    view->until_ms = view->from_ms + prng_below(&w->prng, 2000);
    view->limit_ms = view->from_ms;
    view->slot =
        snowflake_add(&w->snowflake, worker, view->from_ms, view->limit_ms, view->until_ms);
}

/* The owner's turn: as for leases and marks, but at random. */
static void walk_owner(struct walk *w)
{
    uint32_t worker = (uint32_t)prng_below(&w->prng, WORKERS);
    struct slot_view *view = &w->views[worker];

    if (view->slot == NULL) {
        if (atomic_load(&w->snowflake.slot_count) < LIMIT_SNOWFLAKE_SLOTS) {
            walk_add(w, worker);
        }
        return;
    }
    if (prng_below(&w->prng, 20000) == 0 &&
        atomic_load(&w->snowflake.slot_count) + WORKERS < LIMIT_SNOWFLAKE_SLOTS) {
        snowflake_kill(view->slot);
        assert_true(snowflake_last_used_ms(&w->snowflake, view->slot) ==
                    (view->used ? w->accounts[worker].used_ms : 0));
        view->slot = NULL;
        return;
    }
    if (prng_below(&w->prng, 30) == 0) {
        view->until_ms = later(view->until_ms, w->wall_ms + prng_below(&w->prng, 300));
    }
    view->limit_ms = later(view->limit_ms, w->wall_ms + prng_below(&w->prng, 10));
    view->limit_ms = view->limit_ms < view->until_ms ? view->limit_ms : view->until_ms;
    snowflake_extend(view->slot, view->limit_ms, view->until_ms);
}

/* Can this worker id's slot give an id now? */
static bool walk_can_serve(const struct walk *w, uint32_t worker)
{
    const struct account *account = &w->accounts[worker];
    const struct slot_view *view = &w->views[worker];
    uint64_t at_ms = w->wall_ms;

    if (view->slot == NULL) {
        return false;
    }
    if (view->used && account->used_ms > at_ms) {
        if (account->used_ms - at_ms > LIMIT_CLOCK_BACK_WAIT_MS) {
            return false;
        }
        at_ms = account->used_ms;
    }
    if (view->used && account->used_ms == at_ms && account->next == w->size) {
        return false;
    }
    return at_ms > view->from_ms && at_ms <= view->limit_ms &&
           at_ms <= snowflake_last_ms(&w->snowflake.layout);
}

/* The range is new, and of a time that the slot may stamp now. */
static void walk_check(struct walk *w, const struct segment_range *range)
{
    const struct snowflake_layout *layout = &w->snowflake.layout;
    struct snowflake_parts first = snowflake_decode(layout, range->first);
    struct snowflake_parts last = snowflake_decode(layout, range->first + range->count - 1);
    struct account *account = &w->accounts[first.worker];
    struct slot_view *view = &w->views[first.worker];

    assert_true(range->first + range->count - 1 <= INT64_MAX);
    assert_true(first.worker < WORKERS && view->slot != NULL);
    assert_true(last.unix_ms == first.unix_ms && last.worker == first.worker);
    assert_true(first.unix_ms > view->from_ms && first.unix_ms <= view->limit_ms);
    assert_true(first.unix_ms >= w->wall_ms);
    assert_true(first.unix_ms <= w->wall_ms + LIMIT_CLOCK_BACK_WAIT_MS);
    assert_true(first.unix_ms > account->used_ms ||
                (first.unix_ms == account->used_ms && first.sequence == account->next));
    account->used_ms = first.unix_ms;
    account->next = last.sequence + 1;
    view->used = true;
    assert_true(snowflake_last_used_ms(&w->snowflake, view->slot) == first.unix_ms);
}

static size_t failure_kind(int err)
{
    static const int kinds[] = {ERR_EMPTY, ERR_CLOCK_BACKWARDS, ERR_WINDOW_EXPIRED,
                                ERR_EPOCH_EXHAUSTED, ERR_NO_WORKER_ID};
    size_t kind = 0;

    while (kind < 5 && kinds[kind] != err) {
        kind++;
    }
    assert_in_range(kind, 0, 4);
    return kind;
}

static void walk_claim(struct walk *w)
{
    uint32_t count = (uint32_t)prng_below(&w->prng, 2 * (uint64_t)w->size) + 1;
    bool expected = false;
    struct segment_range range;
    bool notify;
    int err;

    if (prng_below(&w->prng, 4) > 0) {
        count = count % 8 + 1;
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        expected = expected || walk_can_serve(w, i);
    }
    err = snowflake_claim(&w->snowflake, NULL, (unsigned)prng_next(&w->prng), count,
                          prng_next(&w->prng), &range, &notify);
    assert_int_equal(err == 0, expected);
    if (err != 0) {
        w->failures[failure_kind(err)]++;
        if (notify) {
            assert_int_equal(err, ERR_EMPTY);
            assert_true(atomic_exchange(&w->snowflake.wanted, false));
        }
        return;
    }
    assert_in_range(range.count, 1, count);
    assert_false(notify);
    walk_check(w, &range);
    w->claims++;
}

static void walk_init(struct walk *w, const struct snowflake_layout *layout, uint64_t seed)
{
    *w = (struct walk){.wall_ms = T0, .size = 1u << layout->sequence_bits};
    w->clock = (struct clock){.wall_ms = walk_wall_ms, .data = w};
    prng_seed(&w->prng, seed);
    snowflake_init(&w->snowflake, &w->clock);
    snowflake_set_layout(&w->snowflake, layout);
}

static void walk_run(struct walk *w)
{
    walk_claim(w); /* nothing to claim from yet */
    for (uint64_t i = 0; w->claims < CLAIMS; i++) {
        walk_clock(w);
        if (prng_below(&w->prng, 3) == 0) {
            walk_owner(w);
        }
        walk_claim(w);
        assert_true(i < (uint64_t)CLAIMS * 20);
    }
}

static void test_walks(void **state)
{
    static const struct snowflake_layout layouts[] = {
        SNOWFLAKE_LEAF_LAYOUT,
        SNOWFLAKE_JS53_LAYOUT,
        {T0 - 1000000, 45, 2, 4},
        {1, 41, 6, 16},
    };
    static struct walk w;

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        walk_init(&w, &layouts[i], i + 1);
        walk_run(&w);
        /* The walk went everywhere but to the end of the layout. */
        assert_true(w.failures[0] > 100 && w.failures[1] > 100 && w.failures[2] > 100);
        assert_int_equal(w.failures[3], 0);
        assert_true(w.failures[4] > 0);
        assert_true(atomic_load(&w.snowflake.slot_count) > WORKERS);
    }
}

/* The layout ends in the middle of the walk: from there on there is nothing, for ever. */
/* Shows lesson-last-tick. */
static void test_walk_over_the_end(void **state)
{
    struct snowflake_layout layout = {T0 + 20000 - (1ULL << 39), 39, 3, 5};
    static struct walk w;

    (void)state;
    walk_init(&w, &layout, 9);
    while (w.wall_ms < T0 + 30000) {
        walk_clock(&w);
        walk_owner(&w);
        walk_claim(&w);
    }
    assert_true(w.claims > 1000);
    assert_true(w.failures[3] > 1000);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_true(w.accounts[i].used_ms <= snowflake_last_ms(&layout));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks),
        cmocka_unit_test(test_walk_over_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
