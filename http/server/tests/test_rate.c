/*
 * test_rate.c - which readers are cut off: each rule at its bound and beyond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "http/server/rate.h"
#include "src/base/limits.h"

#define MIN_PER_S 1024

static const struct rate_rule rule = {.write_ms = 10000, .min_per_s = MIN_PER_S};

/* A client that takes so much a second, for so long; what is said in the end. */
static enum rate_verdict read_at(uint64_t per_s, unsigned seconds, uint64_t held, bool is_short)
{
    enum rate_verdict verdict = RATE_OK;
    struct rate rate;
    uint64_t taken = 5;
    uint64_t now_ms = 7;

    rate_begin(&rate, taken, now_ms);
    for (unsigned i = 0; i < seconds && verdict == RATE_OK; i++) {
        now_ms += 1000;
        taken += per_s;
        verdict = rate_look(&rate, &rule, taken, now_ms, true, held, is_short);
    }
    return verdict;
}

static void test_who_takes_nothing_has_gone(void **state)
{
    struct rate rate;

    (void)state;
    assert_int_equal(read_at(0, 9, 1, false), RATE_OK);
    assert_int_equal(read_at(0, 10, 1, false), RATE_STALLED);
    /* The time begins with the last byte. */
    rate_begin(&rate, 0, 0);
    assert_int_equal(rate_look(&rate, &rule, 0, 9999, true, 1, false), RATE_OK);
    assert_int_equal(rate_look(&rate, &rule, 1 << 20, 9999, true, 1, false), RATE_OK);
    assert_int_equal(rate_look(&rate, &rule, 1 << 20, 19998, true, 1, false), RATE_OK);
    assert_int_equal(rate_look(&rate, &rule, 1 << 20, 19999, true, 1, false), RATE_STALLED);
}

static void test_slow_links_are_no_offence(void **state)
{
    (void)state;
    assert_int_equal(read_at(MIN_PER_S, 1000, 1 << 20, false), RATE_OK);
    assert_int_equal(read_at(MIN_PER_S - 1, 9, 1 << 20, false), RATE_OK);
    assert_int_equal(read_at(MIN_PER_S - 1, 10, 1 << 20, false), RATE_SLOW);
}

static void test_while_output_is_short(void **state)
{
    const uint64_t wanted = (uint64_t)MIN_PER_S * LIMIT_HTTP_SHORT_RATE;

    (void)state;
    assert_int_equal(read_at(wanted, 1000, 1 << 20, true), RATE_OK);
    assert_int_equal(read_at(wanted - 1, 1, LIMIT_HTTP_HELD_BYTES, true), RATE_SLOW_WHILE_SHORT);
    /* Who holds little may be slow all the same. */
    assert_int_equal(read_at(MIN_PER_S, 1000, LIMIT_HTTP_HELD_BYTES - 1, true), RATE_OK);
    assert_int_equal(read_at(190 << 10, 1, 1 << 20, true), RATE_SLOW_WHILE_SHORT);
    assert_int_equal(read_at(190 << 10, 1000, 1 << 20, false), RATE_OK);
}

/* When it is we who are slow, the client is not to blame, also not for the time before. */
static void test_nothing_to_take(void **state)
{
    struct rate rate;

    (void)state;
    rate_begin(&rate, 0, 0);
    for (uint64_t now_ms = 1000; now_ms < 100000; now_ms += 1000) {
        bool waits = now_ms % 9000 != 0;

        assert_int_equal(rate_look(&rate, &rule, 0, now_ms, waits, 1 << 20, false), RATE_OK);
    }
}

static void test_no_rate(void **state)
{
    const struct rate_rule none = {.write_ms = 60};
    struct rate rate;

    (void)state;
    assert_int_equal(rate_look_ms(&none), 60);
    assert_int_equal(rate_look_ms(&rule), 1000);
    rate_begin(&rate, 0, 0);
    for (uint64_t i = 1; i < 1000; i++) {
        assert_int_equal(rate_look(&rate, &none, i, i * 60, true, 1 << 20, true), RATE_OK);
    }
    assert_int_equal(rate_look(&rate, &none, 999, 1000 * 60, true, 1, true), RATE_STALLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_takes_nothing_has_gone),
        cmocka_unit_test(test_slow_links_are_no_offence),
        cmocka_unit_test(test_while_output_is_short),
        cmocka_unit_test(test_nothing_to_take),
        cmocka_unit_test(test_no_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
