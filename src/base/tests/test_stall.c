/*
 * test_stall.c - the longest turn, of all and of the last minute. Thread: one.
 */
#include <time.h>

#include "src/tests/unit/test.h"
#include "src/base/stats.h"

static void turn(struct stall *stall, uint64_t at_ms, uint64_t took_ms)
{
    stall_begin(stall, at_ms, "first");
    stall_end(stall, at_ms + took_ms, "test");
}

static void test_the_longest_of_all_and_of_the_last_minute(void **state)
{
    struct stall stall = {0};

    (void)state;
    assert_int_equal(stall.longest_ms, 0);
    assert_int_equal(stall_minute_ms(&stall, 500), 0);
    turn(&stall, 1000, 30);
    turn(&stall, 1500, 10);
    turn(&stall, 2000, 20);
    assert_int_equal(stall.longest_ms, 30);
    assert_int_equal(stall_minute_ms(&stall, 2500), 30);
    assert_int_equal(stall_minute_ms(&stall, 60999), 30);
    assert_int_equal(stall_minute_ms(&stall, 61000), 20); /* the first second is over */
    assert_int_equal(stall_minute_ms(&stall, 62000), 0);
    turn(&stall, 61000, 5); /* in the place of the first second */
    assert_int_equal(stall_minute_ms(&stall, 61500), 20);
    assert_int_equal(stall_minute_ms(&stall, 62000), 5);
    assert_int_equal(stall.longest_ms, 30);
}

static void test_what_took_most_of_it(void **state)
{
    struct stall stall = {0};

    (void)state;
    stall_begin(&stall, 1000, "frames");
    stall_step(&stall, 1010, "apply");
    stall_step(&stall, 1150, "requests");
    stall_end(&stall, 1160, "test");
    assert_string_equal(stall.worst, "apply");
    assert_int_equal(stall.worst_ms, 140);
    assert_int_equal(stall.warned_ms, 1160);
    turn(&stall, 2000, 500); /* not again within a minute */
    assert_int_equal(stall.warned_ms, 1160);
    turn(&stall, 61100, STALL_WARN_MS - 1);
    assert_int_equal(stall.warned_ms, 1160);
    turn(&stall, 61300, STALL_WARN_MS);
    assert_int_equal(stall.warned_ms, 61400);
}

static void test_a_clock_that_stands_still_is_no_stall(void **state)
{
    struct stall stall = {0};

    (void)state;
    turn(&stall, 1000, 0);
    stall_begin(&stall, 2000, "first");
    stall_end(&stall, 1999, "test");
    assert_int_equal(stall.longest_ms, 0);
}

/* Use so much processor time. */
static void burn(uint64_t us)
{
    struct timespec begin;
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin), 0);
    do {
        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    } while ((uint64_t)((now.tv_sec - begin.tv_sec) * 1000000) +
                 (uint64_t)((now.tv_nsec - begin.tv_nsec) / 1000) <
             us);
}

/* What a turn works counts, and not how long it lasts; nor what came before the first one. Short
 * turns before it may count, but not for more than it lasted. */
static void test_the_busiest(void **state)
{
    struct stall stall = {0};

    (void)state;
    burn(30000);
    turn(&stall, 1000, 500);
    assert_in_range(stall.busiest_us, 0, 9999);
    stall_begin(&stall, 2000, "first");
    burn(10000);
    stall_end(&stall, 2010, "test");
    assert_in_range(stall.busiest_us, 10000, 11000);
    turn(&stall, 3000, 500);
    assert_in_range(stall.busiest_us, 10000, 11000);
    burn(20000);
    turn(&stall, 4000, 12);
    assert_in_range(stall.busiest_us, 10000, 13000);
}

/* Of turns that take no time the processor's is asked for each STALL_CPU_MS. */
static void test_short_turns_are_asked_for_now_and_then(void **state)
{
    struct stall stall = {0};
    uint64_t first_us;

    (void)state;
    turn(&stall, 1000, 0);
    first_us = stall.cpu_us;
    burn(1000);
    turn(&stall, 1000 + STALL_CPU_MS - 1, 0);
    assert_int_equal(stall.cpu_us, first_us);
    turn(&stall, 1000 + STALL_CPU_MS, 0);
    assert_true(stall.cpu_us >= first_us + 1000);
    assert_int_equal(stall.busiest_us, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_longest_of_all_and_of_the_last_minute),
        cmocka_unit_test(test_what_took_most_of_it),
        cmocka_unit_test(test_the_busiest),
        cmocka_unit_test(test_short_turns_are_asked_for_now_and_then),
        cmocka_unit_test(test_a_clock_that_stands_still_is_no_stall),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
