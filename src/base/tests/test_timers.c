/*
 * test_timers.c - timers of a loop: their order, moving and cancelling them, what fires may do, and
 * random ones beside a slow list that always scans. Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/container.h"
#include "src/base/prng.h"
#include "src/base/timers.h"

#define ALARMS 64

struct alarm {
    struct timer timer;
    unsigned number;
    struct world *world;
    uint64_t again_ms;   /* 0, or what it arms itself for when it fires */
    struct alarm *other; /* cancelled, or armed for other_ms, when this one fires */
    uint64_t other_ms;
};

struct world {
    struct timers timers;
    struct alarm alarms[ALARMS];
    unsigned fired[4 * ALARMS]; /* in order */
    unsigned count;
    uint64_t now_ms; /* of the run under way */
};

static void on_fire(struct timer *timer, uint64_t now_ms)
{
    struct alarm *alarm = CONTAINER(timer, struct alarm, timer);
    struct world *world = alarm->world;

    assert_int_equal(now_ms, world->now_ms);
    assert_false(timer_is_armed(timer));
    assert_true(world->count < sizeof world->fired / sizeof world->fired[0]);
    world->fired[world->count++] = alarm->number;
    if (alarm->again_ms != 0) {
        timer_arm(&world->timers, timer, alarm->again_ms);
    }
    if (alarm->other != NULL) {
        timer_arm(&world->timers, &alarm->other->timer, alarm->other_ms);
    }
}

static void world_init(struct world *world)
{
    *world = (struct world){.count = 0};
    for (unsigned i = 0; i < ALARMS; i++) {
        world->alarms[i].number = i;
        world->alarms[i].world = world;
        timer_init(&world->alarms[i].timer, on_fire);
    }
}

static void arm(struct world *world, unsigned number, uint64_t due_ms)
{
    timer_arm(&world->timers, &world->alarms[number].timer, due_ms);
}

static unsigned run(struct world *world, uint64_t now_ms)
{
    world->count = 0;
    world->now_ms = now_ms;
    timers_run(&world->timers, now_ms);
    return world->count;
}

static void test_they_fire_in_the_order_of_their_times(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    assert_true(timers_next_ms(&world.timers) == TIMER_NEVER);
    assert_int_equal(run(&world, TIMER_NEVER - 1), 0);
    arm(&world, 0, 30);
    arm(&world, 1, 10);
    arm(&world, 2, 20);
    arm(&world, 3, 10);
    assert_int_equal(timers_next_ms(&world.timers), 10);
    assert_int_equal(run(&world, 9), 0);
    assert_int_equal(run(&world, 20), 3);
    assert_int_equal(world.fired[0], 1);
    assert_int_equal(world.fired[1], 3); /* of one time: as they were armed */
    assert_int_equal(world.fired[2], 2);
    assert_int_equal(timers_next_ms(&world.timers), 30);
    assert_int_equal(run(&world, 30), 1);
    assert_true(timers_next_ms(&world.timers) == TIMER_NEVER);
}

static void test_armed_again_it_moves(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    arm(&world, 0, 10);
    arm(&world, 0, 20);
    assert_int_equal(timers_next_ms(&world.timers), 20);
    timer_arm_by(&world.timers, &world.alarms[0].timer, 25);
    assert_int_equal(timers_next_ms(&world.timers), 20);
    timer_arm_by(&world.timers, &world.alarms[0].timer, 15);
    assert_int_equal(timers_next_ms(&world.timers), 15);
    arm(&world, 0, TIMER_NEVER);
    assert_false(timer_is_armed(&world.alarms[0].timer));
    assert_int_equal(run(&world, 100), 0);
    timer_cancel(&world.timers, &world.alarms[0].timer); /* not armed: nothing happens */
    timer_arm_by(&world.timers, &world.alarms[0].timer, 40);
    assert_int_equal(run(&world, 40), 1);
}

/* One that is always due would keep a run going for ever. */
static void test_what_is_armed_in_a_run_waits_for_the_next(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world.alarms[0].again_ms = 1; /* past already, and earlier than the others */
    arm(&world, 0, 5);
    arm(&world, 1, 6);
    assert_int_equal(run(&world, 10), 2);
    assert_int_equal(world.fired[0], 0);
    assert_int_equal(world.fired[1], 1);
    assert_int_equal(timers_next_ms(&world.timers), 1);
    assert_int_equal(run(&world, 10), 1);
}

static void test_one_that_fires_may_cancel_or_move_another(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    arm(&world, 0, 5);
    arm(&world, 1, 6);
    arm(&world, 2, 7);
    world.alarms[0].other = &world.alarms[1];
    world.alarms[0].other_ms = TIMER_NEVER;
    assert_int_equal(run(&world, 10), 2);
    assert_int_equal(world.fired[1], 2);
    assert_true(timers_next_ms(&world.timers) == TIMER_NEVER);
}

/* The one that a scan of all would fire next. */
static unsigned scan(const uint64_t *due, const uint64_t *order, uint64_t now_ms)
{
    unsigned best = ALARMS;

    for (unsigned i = 0; i < ALARMS; i++) {
        if (due[i] <= now_ms && (best == ALARMS || due[i] < due[best] ||
                                 (due[i] == due[best] && order[i] < order[best]))) {
            best = i;
        }
    }
    return best;
}

static void test_random_ones_beside_a_scan_of_all(void **state)
{
    struct world world;
    uint64_t due[ALARMS];
    uint64_t order[ALARMS] = {0};
    struct prng prng;

    (void)state;
    world_init(&world);
    prng_seed(&prng, 7);
    for (unsigned i = 0; i < ALARMS; i++) {
        due[i] = TIMER_NEVER;
    }
    for (uint64_t step = 1; step < 20000; step++) {
        unsigned one = (unsigned)prng_below(&prng, ALARMS);
        uint64_t now_ms = step / 8;

        order[one] = step;
        due[one] = prng_below(&prng, 4) == 0 ? TIMER_NEVER : now_ms + prng_below(&prng, 20);
        arm(&world, one, due[one]);
        if (prng_below(&prng, 8) == 0) {
            (void)run(&world, now_ms);
            for (unsigned i = 0; i < world.count; i++) {
                unsigned expected = scan(due, order, now_ms);

                assert_int_equal(world.fired[i], expected);
                due[expected] = TIMER_NEVER;
            }
            assert_int_equal(scan(due, order, now_ms), ALARMS);
        }
    }
}

/* It wakes the loop and is not armed any more. */
static void test_one_that_is_all_zero_only_wakes(void **state)
{
    struct timer timer = {.wakes = 4};
    struct timers timers = {.sequence = 0};

    (void)state;
    assert_false(timer_is_armed(&timer));
    timer_cancel(&timers, &timer);
    timer_arm(&timers, &timer, TIMER_NEVER);
    assert_false(timer_is_armed(&timer));
    timer_arm_by(&timers, &timer, 7);
    assert_true(timer_is_armed(&timer));
    assert_int_equal(timers_next_ms(&timers), 7);
    timers_run(&timers, 6);
    assert_true(timer_is_armed(&timer));
    assert_int_equal(timers.woken, 0);
    timers_run(&timers, 7);
    assert_false(timer_is_armed(&timer));
    assert_int_equal(timers.woken, 4);
    assert_int_equal(timers_next_ms(&timers), TIMER_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_fire_in_the_order_of_their_times),
        cmocka_unit_test(test_armed_again_it_moves),
        cmocka_unit_test(test_what_is_armed_in_a_run_waits_for_the_next),
        cmocka_unit_test(test_one_that_fires_may_cancel_or_move_another),
        cmocka_unit_test(test_one_that_is_all_zero_only_wakes),
        cmocka_unit_test(test_random_ones_beside_a_scan_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
