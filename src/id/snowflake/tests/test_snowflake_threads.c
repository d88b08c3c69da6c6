/*
 * test_snowflake_threads.c - many threads claim from one or two worker ids at once, while the owner
 * moves the limits on in small steps, kills one slot under them and adds another worker id.
 *
 * Afterwards all ids are distinct, none is outside of the bounds that its worker id ever had, and
 * none of the killed one is later than what snowflake_last_used_ms() said after the kill.
 *
 * Time passes as it does outside, but the wall clock is made from the monotonic one: a step of the
 * machine's clock would be a refusal, and here a refusal is a mistake.
 *
 * Threads: claimers and an owner of its own for each race.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "src/id/snowflake/snowflake.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

#ifdef UNDER_TSAN
#define IDS 100000U
#else
#define IDS 1000000U
#endif
#define CLAIMERS 4
#define IDS_EACH (IDS / CLAIMERS)
#define T0 1700000000000ULL
#define WINDOW_MS 3600000ULL
#define STEP_MS 2          /* of a limit */
#define HOLD_UP_SHORT 1000 /* one claim in so many is held up */
#define HOLD_UP_LONG 20000 /* and one in so many for long */
#define WORKERS 3          /* 0 stays, 2 takes the place of 1 */

/* The bounds a worker id ever had; the owner's, read by others when it has ended. */
struct bounds {
    uint64_t from_ms;
    uint64_t last_ms;
};

struct race {
    struct snowflake snowflake;
    struct clock clock;
    uint64_t offset_ms;        /* from the monotonic clock to this race's wall clock */
    uint32_t largest;          /* claim */
    _Atomic unsigned claimers; /* that still claim */
    _Atomic uint64_t claimed;  /* ids, by all of them */
    bool alone;                /* worker 0 alone, with no other to help out */
    struct bounds bounds[WORKERS];
};

struct claimer {
    struct race *race;
    pthread_t thread;
    unsigned index;
    struct prng prng;
    uint64_t notifies;
    uint64_t lapses; /* ERR_EMPTY in all */
    uint64_t *ids;   /* IDS_EACH */
    uint32_t count;
    uint64_t last[WORKERS]; /* largest id of each worker id */
};

static _Thread_local struct claimer *this_claimer; /* NULL: not one */

/* A claim reads the clock between its look at the slot and its swap: hold it up there now and then,
 * with what it has read, until others have used the slot: as if it had been preempted. */
static void hold_up(struct claimer *c, uint64_t wall_ms)
{
    struct snowflake *snowflake = &c->race->snowflake;
    uint64_t dice = prng_below(&c->prng, HOLD_UP_LONG);
    /* Long ones until the slot's time is out of reach of the reading. */
    uint64_t until_ms = dice == 0 ? wall_ms + LIMIT_CLOCK_BACK_WAIT_MS : 0;
    uint64_t claimed = atomic_load(&c->race->claimed);

    if (dice % HOLD_UP_SHORT > 0) {
        return;
    }
    while (atomic_load(&c->race->claimed) == claimed ||
           snowflake_last_used_ms(snowflake, &snowflake->slots[0]) <= until_ms) {
        /* The others may be held up as well, or done. */
        if (clock_now_ms(clock_system()) + c->race->offset_ms > wall_ms + 20) {
            return;
        }
        (void)sched_yield();
    }
}

static uint64_t race_wall_ms(const struct clock *clock)
{
    const struct race *race = clock->data;
    uint64_t wall_ms = clock_now_ms(clock_system()) + race->offset_ms;

    if (this_claimer != NULL) {
        hold_up(this_claimer, wall_ms);
    }
    return wall_ms;
}

static void note_range(struct claimer *c, const struct segment_range *range)
{
    struct snowflake_parts parts = snowflake_decode(&c->race->snowflake.layout, range->first);

    ASSERT(parts.worker < WORKERS);
    ASSERT(range->first > c->last[parts.worker]);
    c->last[parts.worker] = range->first + range->count - 1;
    for (uint32_t i = 0; i < range->count; i++) {
        c->ids[c->count++] = range->first + i;
    }
}

static void *claim_all(void *data)
{
    struct claimer *c = data;

    this_claimer = c;
    while (c->count < IDS_EACH) {
        uint32_t most =
            IDS_EACH - c->count < c->race->largest ? IDS_EACH - c->count : c->race->largest;
        uint32_t count = (uint32_t)prng_below(&c->prng, most) + 1;
        struct segment_range range;
        bool notify;
        int err = snowflake_claim(&c->race->snowflake, NULL, c->index, count, prng_next(&c->prng),
                                  &range, &notify);

        c->notifies += notify;
        if (err == 0) {
            ASSERT(!notify && range.count >= 1 && range.count <= count);
            note_range(c, &range);
            atomic_fetch_add(&c->race->claimed, range.count);
            continue;
        }
        ASSERT(err == ERR_EMPTY); /* there is a live slot all the time, and a clock that is right */
        c->lapses++;
        (void)sched_yield();
    }
    atomic_fetch_sub(&c->race->claimers, 1);
    return NULL;
}

static struct snowflake_slot *race_add(struct race *race, uint32_t worker)
{
    uint64_t from_ms = clock_wall_ms(&race->clock);
    struct snowflake_slot *slot =
        snowflake_add(&race->snowflake, worker, from_ms, from_ms, from_ms + WINDOW_MS);

    ASSERT(slot != NULL);
    race->bounds[worker] = (struct bounds){from_ms, from_ms};
    return slot;
}

/* Extend when asked to, a little. */
static void race_extend(struct race *race, struct snowflake_slot *slot)
{
    struct bounds *bounds = &race->bounds[slot->worker];
    uint64_t limit_ms = clock_wall_ms(&race->clock) + STEP_MS;

    ASSERT(limit_ms >= bounds->last_ms && limit_ms <= bounds->from_ms + WINDOW_MS);
    bounds->last_ms = limit_ms;
    snowflake_extend(slot, limit_ms, bounds->from_ms + WINDOW_MS);
}

/* Kill the slot of worker 1 and put worker 2 in its place. */
static struct snowflake_slot *race_replace(struct race *race, struct snowflake_slot *slot)
{
    uint64_t used_ms;

    snowflake_kill(slot);
    used_ms = snowflake_last_used_ms(&race->snowflake, slot);
    ASSERT(used_ms <= race->bounds[1].last_ms);
    race->bounds[1].last_ms = used_ms; /* what a release would report */
    return race_add(race, 2);
}

static void *own(void *data)
{
    struct race *race = data;
    struct snowflake_slot *kept = &race->snowflake.slots[0];
    struct snowflake_slot *other = race->alone ? NULL : &race->snowflake.slots[1];

    while (atomic_load(&race->claimers) > 0) {
        if (other != NULL && other->worker == 1 && atomic_load(&race->claimed) > IDS / 3) {
            other = race_replace(race, other);
        }
        if (!atomic_exchange(&race->snowflake.wanted, false)) {
            (void)sched_yield();
            continue;
        }
        race_extend(race, kept);
        if (other != NULL) {
            race_extend(race, other);
        }
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Distinct, within bounds, and of all worker ids that there were. */
static void check_ids(const struct race *race, uint64_t *ids)
{
    uint64_t of_worker[WORKERS] = {0};

    qsort(ids, IDS, sizeof *ids, compare_ids);
    for (size_t i = 0; i < IDS; i++) {
        struct snowflake_parts parts = snowflake_decode(&race->snowflake.layout, ids[i]);

        assert_true(i == 0 || ids[i] > ids[i - 1]);
        assert_true(parts.worker < WORKERS);
        assert_true(parts.unix_ms > race->bounds[parts.worker].from_ms);
        assert_true(parts.unix_ms <= race->bounds[parts.worker].last_ms);
        of_worker[parts.worker]++;
    }
    for (size_t i = 0; i < WORKERS; i++) {
        assert_true(of_worker[i] > 0 || (race->alone && i > 0));
    }
}

static void run_race(const struct snowflake_layout *layout, bool alone, uint32_t largest,
                     uint64_t seed)
{
    struct race *race = calloc(1, sizeof *race);
    struct claimer claimers[CLAIMERS] = {0};
    uint64_t *ids = calloc(IDS, sizeof *ids);
    uint64_t notifies = 0;
    pthread_t owner;

    assert_non_null(race);
    assert_non_null(ids);
    race->clock = (struct clock){.wall_ms = race_wall_ms, .data = race};
    race->offset_ms = T0 - clock_now_ms(clock_system());
    race->alone = alone;
    race->largest = largest;
    atomic_store(&race->claimers, CLAIMERS);
    snowflake_init(&race->snowflake, &race->clock);
    snowflake_set_layout(&race->snowflake, layout);
    (void)race_add(race, 0);
    if (!alone) {
        (void)race_add(race, 1);
    }
    for (unsigned i = 0; i < CLAIMERS; i++) {
        claimers[i].race = race;
        claimers[i].index = i;
        claimers[i].ids = ids + (size_t)i * IDS_EACH;
        prng_seed(&claimers[i].prng, seed + i);
        assert_int_equal(pthread_create(&claimers[i].thread, NULL, claim_all, &claimers[i]), 0);
    }
    assert_int_equal(pthread_create(&owner, NULL, own, race), 0);
    for (size_t i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_join(claimers[i].thread, NULL), 0);
        assert_int_equal(claimers[i].count, IDS_EACH);
        assert_true(claimers[i].lapses >= claimers[i].notifies);
        notifies += claimers[i].notifies;
    }
    assert_int_equal(pthread_join(owner, NULL), 0);
    /* The limits lapsed at the start, when they were the lower bounds, and again and again. */
    assert_true(notifies > 2);
    assert_int_equal(atomic_load(&race->claimed), IDS);
    check_ids(race, ids);
    free(ids);
    free(race);
}

static void test_threads_claim_batches(void **state)
{
    static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;

    (void)state;
    run_race(&leaf, false, 60, 1);
}

/* One id a claim, of milliseconds that are never used up: all threads meet at the same words. */
static void test_threads_claim_single_ids(void **state)
{
    static const struct snowflake_layout wide = {T0 - 1000, 41, 3, 16};

    (void)state;
    run_race(&wide, false, 1, 10);
}

/* With one worker id, a claim that took a reading held up for a clock gone back would fail. */
static void test_threads_claim_from_one_worker_id(void **state)
{
    static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;

    (void)state;
    run_race(&leaf, true, 100, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_claim_batches),
        cmocka_unit_test(test_threads_claim_single_ids),
        cmocka_unit_test(test_threads_claim_from_one_worker_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
