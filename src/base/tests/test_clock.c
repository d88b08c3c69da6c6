/*
 * test_clock.c - the system's clocks behind the vtable, and one of a test's own. Thread: one.
 */
#include <time.h>

#include "src/tests/unit/test.h"
#include "src/base/clock.h"

static uint64_t system_ms(clockid_t id)
{
    struct timespec ts;

    assert_int_equal(clock_gettime(id, &ts), 0);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Read between two readings of the system's own. */
static void test_system_now(void **state)
{
    const struct clock *clock = clock_system();
    uint64_t before = system_ms(CLOCK_BOOTTIME);
    uint64_t now = clock_now_ms(clock);
    uint64_t after = system_ms(CLOCK_BOOTTIME);

    (void)state;
    assert_true(before <= now);
    assert_true(now <= after);
}

static void test_system_wall(void **state)
{
    const struct clock *clock = clock_system();
    uint64_t wall = clock_wall_ms(clock);
    uint64_t now = system_ms(CLOCK_REALTIME);

    (void)state;
    /* The wall clock may be set in between, but not by an hour. */
    assert_in_range(wall, now - 3600000, now + 3600000);
    assert_true(wall > 1577836800000ULL); /* 2020-01-01 */
}

static void test_monotonic(void **state)
{
    const struct clock *clock = clock_system();
    uint64_t last = clock_now_ms(clock);

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_now_ms(clock);

        assert_true(now >= last);
        last = now;
    }
}

static uint64_t fixed_now(const struct clock *clock)
{
    return *(const uint64_t *)clock->data;
}

static uint64_t fixed_wall(const struct clock *clock)
{
    return *(const uint64_t *)clock->data + 1000;
}

static void test_own_clock(void **state)
{
    uint64_t time_ms = 5;
    const struct clock clock = {.now_ms = fixed_now, .wall_ms = fixed_wall, .data = &time_ms};

    (void)state;
    assert_int_equal(clock_now_ms(&clock), 5);
    time_ms = 7;
    assert_int_equal(clock_now_ms(&clock), 7);
    assert_int_equal(clock_wall_ms(&clock), 1007);
    assert_int_equal(clock_now_us(&clock), 7000); /* it has none finer */
}

static void test_the_finer_clock_is_the_same(void **state)
{
    uint64_t before_ms = clock_now_ms(clock_system());
    uint64_t now_us = clock_now_us(clock_system());

    (void)state;
    assert_in_range(now_us / 1000, before_ms, clock_now_ms(clock_system()));
}

/* A clock of which each reading is counted, and is later by 1.5 ms. */
struct counted {
    struct clock base;
    unsigned readings;
};

static uint64_t counted_us(const struct clock *clock)
{
    struct counted *counted = clock->data;

    return 1000500 + 1500 * (uint64_t)counted->readings++;
}

static uint64_t counted_ms(const struct clock *clock)
{
    return counted_us(clock) / 1000;
}

/* It is read once between two looks, for both of its units; the wall clock goes on. */
static void test_a_loop_clock_stands_still(void **state)
{
    struct counted real = {.base = {.now_ms = counted_ms, .wall_ms = counted_ms, .data = &real}};
    struct loop_clock loop;
    const struct clock *clock = &loop.base;

    (void)state;
    real.base.now_us = counted_us;
    loop_clock_init(&loop, &real.base);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(clock_now_ms(clock), 1000);
        assert_int_equal(clock_now_us(clock), 1000500);
    }
    assert_int_equal(real.readings, 1);
    assert_int_equal(clock_wall_ms(clock), 1002);
    assert_int_equal(clock_now_ms(clock), 1000);
    clock_look(clock);
    assert_int_equal(real.readings, 2); /* a look reads nothing by itself */
    assert_int_equal(clock_now_us(clock), 1003500);
    assert_int_equal(clock_now_ms(clock), 1003);
    assert_int_equal(real.readings, 3);
    clock_look(clock_system()); /* which never stands still */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system_now), cmocka_unit_test(test_system_wall),
        cmocka_unit_test(test_monotonic),  cmocka_unit_test(test_a_loop_clock_stands_still),
        cmocka_unit_test(test_own_clock),  cmocka_unit_test(test_the_finer_clock_is_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
