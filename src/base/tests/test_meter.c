/*
 * test_meter.c - a rate is what happened, whatever the times at which it is noted, and it fades.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/stats.h"

#define HALF_MS 4000
#define START_MS 1000000

static void expect(const struct meter *meter, double per_s)
{
    assert_true((double)meter->per_s >= per_s * 0.99 && (double)meter->per_s <= per_s * 1.01);
}

static void test_steady_whatever_the_times(void **state)
{
    const uint64_t steps_ms[] = {1, 10, 999, 1000, HALF_MS, 60000};

    (void)state;
    for (size_t i = 0; i < sizeof steps_ms / sizeof steps_ms[0]; i++) {
        struct meter meter = {0};

        for (uint64_t ms = 0; ms <= 120000; ms += steps_ms[i]) {
            assert_int_equal(meter_note(&meter, 7 * steps_ms[i], HALF_MS, START_MS + ms), ms > 0);
        }
        expect(&meter, 7000);
    }
}

/* Looked at often or once: it halves in each HALF_MS, and ends at 0. */
static void test_halves_in_its_time(void **state)
{
    struct meter often = {.per_s = 1000000, .at_ms = START_MS};
    struct meter once = often;

    (void)state;
    for (unsigned ms = 100; ms <= 2 * HALF_MS; ms += 100) {
        assert_true(meter_note(&often, 0, HALF_MS, START_MS + ms));
    }
    assert_true(meter_note(&once, 0, HALF_MS, START_MS + 2 * HALF_MS));
    expect(&often, 250000);
    expect(&once, 250000);
    assert_true(meter_note(&once, 0, HALF_MS, START_MS + 22 * HALF_MS));
    assert_true(once.per_s < 0.5F);
    assert_true(meter_note(&once, 0, HALF_MS, START_MS + 1000 * HALF_MS));
    assert_true(once.per_s == 0);
}

/* What could not be counted comes again. */
static void test_no_time_passed(void **state)
{
    struct meter meter = {0};

    (void)state;
    assert_false(meter_note(&meter, 5, HALF_MS, START_MS));
    assert_false(meter_note(&meter, 5, HALF_MS, START_MS));
    assert_true(meter.per_s == 0);
    assert_true(meter_note(&meter, 5, HALF_MS, START_MS + HALF_MS));
    expect(&meter, 5 / 4.0 / 2);
}

/* The largest count in the least time, and where the 32 bits of the time begin anew. */
static void test_bounds(void **state)
{
    struct meter meter = {.at_ms = UINT32_MAX};

    (void)state;
    assert_true(meter_note(&meter, 1000, HALF_MS, (uint64_t)UINT32_MAX + 1000));
    expect(&meter, 1000 * 0.159);
    assert_true(meter_note(&meter, UINT64_MAX, 1, (uint64_t)UINT32_MAX + 1001));
    assert_true(meter.per_s > 0 && meter.per_s < 1e23F);
    assert_true(meter_note(&meter, 0, 1, (uint64_t)UINT32_MAX + 2001));
    assert_true(meter.per_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady_whatever_the_times),
        cmocka_unit_test(test_halves_in_its_time),
        cmocka_unit_test(test_no_time_passed),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
