/*
 * test_snowflake_layout.c - how an id is made of time, worker id and sequence, and the rules for
 * that. Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/tests/unit/death.h"

#define T0 1700000000000ULL /* a present for all tests */
#define ROWS(table) (sizeof(table) / sizeof(table)[0])

static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;
static const struct snowflake_layout js53 = SNOWFLAKE_JS53_LAYOUT;

static void test_layout_of_leaf(void **state)
{
    struct snowflake_parts parts = snowflake_decode(&leaf, 1256557484213448722ULL);

    (void)state;
    assert_int_equal(parts.unix_ms, 1588421624602ULL);
    assert_int_equal(parts.worker, 619);
    assert_int_equal(parts.sequence, 18);
    assert_int_equal(snowflake_compose(&leaf, 1588421624602ULL, 619, 18), 1256557484213448722ULL);
    assert_int_equal(snowflake_last_ms(&leaf), 3487858230208ULL); /* 2080-07-10T17:30:30.208Z */
    assert_int_equal(snowflake_compose(&leaf, 3487858230208ULL, 1023, 4095), INT64_MAX);
    assert_int_equal(snowflake_compose(&leaf, SNOWFLAKE_EPOCH_MS, 0, 0), 0);
}

/* Shows lesson-js53. */
static void test_layout_js53_is_exact_in_javascript(void **state)
{
    const char *why;

    (void)state;
    assert_int_equal(snowflake_layout_check(&js53, T0, &why), 0);
    assert_int_equal(snowflake_compose(&js53, snowflake_last_ms(&js53), 63, 63), (1ULL << 53) - 1);
    assert_int_equal(snowflake_last_ms(&js53), snowflake_last_ms(&leaf));
}

static void test_layout_decodes_any_number(void **state)
{
    struct snowflake_parts parts = snowflake_decode(&leaf, UINT64_MAX);

    (void)state;
    assert_int_equal(parts.unix_ms, SNOWFLAKE_EPOCH_MS + (1ULL << 42) - 1);
    assert_int_equal(parts.worker, 1023);
    assert_int_equal(parts.sequence, 4095);
    parts = snowflake_decode(&js53, UINT64_MAX);
    assert_int_equal(parts.unix_ms, SNOWFLAKE_EPOCH_MS + (1ULL << 52) - 1);
    parts = snowflake_decode(&leaf, 0);
    assert_int_equal(parts.unix_ms, SNOWFLAKE_EPOCH_MS);
    assert_int_equal(parts.worker + parts.sequence, 0);
}

static void test_layout_round_trip(void **state)
{
    static const struct snowflake_layout layouts[] = {
        SNOWFLAKE_LEAF_LAYOUT, SNOWFLAKE_JS53_LAYOUT, {0, 45, 10, 8},
        {T0, 39, 8, 16},       {1, 45, 1, 4},
    };
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (size_t i = 0; i < ROWS(layouts); i++) {
        const struct snowflake_layout *l = &layouts[i];

        for (int k = 0; k < 1000; k++) {
            uint64_t ms = l->epoch_ms + prng_below(&prng, 1ULL << l->time_bits);
            uint32_t worker = (uint32_t)prng_below(&prng, 1ULL << l->worker_bits);
            uint32_t sequence = (uint32_t)prng_below(&prng, 1ULL << l->sequence_bits);
            uint64_t id = snowflake_compose(l, ms, worker, sequence);
            struct snowflake_parts parts = snowflake_decode(l, id);

            assert_true(id <= INT64_MAX);
            assert_true(parts.unix_ms == ms && parts.worker == worker);
            assert_int_equal(parts.sequence, sequence);
        }
    }
}

static void test_layout_rules(void **state)
{
    static const struct {
        struct snowflake_layout layout;
        uint64_t now_ms;
        int err;
    } rows[] = {
        {SNOWFLAKE_LEAF_LAYOUT, T0, 0},
        {{1, 39, 10, 12}, 1000, 0},
        {{1, 38, 10, 12}, 1000, ERR_INVALID},
        {{1, 45, 8, 10}, T0, 0},
        {{1, 46, 7, 10}, T0, ERR_INVALID},
        {{1, 41, 1, 12}, T0, 0},
        {{1, 41, 0, 12}, T0, ERR_INVALID},
        {{1, 40, 10, 12}, 1000, 0},
        {{1, 40, 11, 12}, 1000, ERR_INVALID},
        {{1, 41, 10, 4}, T0, 0},
        {{1, 41, 10, 3}, T0, ERR_INVALID},
        {{1, 41, 6, 16}, T0, 0},
        {{1, 41, 5, 17}, T0, ERR_INVALID},
        {{1, 41, 7, 16}, T0, ERR_INVALID}, /* 64 bits */
        {{1, 43, 10, 10}, T0, 0},
        {{1, 43, 10, 11}, T0, ERR_INVALID},
        {{T0, 41, 10, 12}, T0, 0}, /* the epoch is now */
        {{T0 + 1, 41, 10, 12}, T0, ERR_INVALID},
        {{UINT64_MAX, 41, 10, 12}, T0, ERR_INVALID},
        {{0, 41, 10, 12}, (1ULL << 41) - 1, 0}, /* the last millisecond */
        {{0, 41, 10, 12}, 1ULL << 41, ERR_INVALID},
        {{5, 39, 10, 12}, UINT64_MAX, ERR_INVALID},
        {{1, 255, 255, 255}, T0, ERR_INVALID},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *why = "unset";

        assert_int_equal(snowflake_layout_check(&rows[i].layout, rows[i].now_ms, &why),
                         rows[i].err);
        assert_int_equal(why == NULL, rows[i].err == 0);
    }
}

static void compose_late(void *data)
{
    (void)snowflake_compose(data, snowflake_last_ms(data) + 1, 0, 0);
}

static void compose_early(void *data)
{
    (void)snowflake_compose(data, SNOWFLAKE_EPOCH_MS - 1, 0, 0);
}

static void compose_worker(void *data)
{
    (void)snowflake_compose(data, T0, 1024, 0);
}

static void compose_sequence(void *data)
{
    (void)snowflake_compose(data, T0, 0, 4096);
}

static void test_compose_asserts(void **state)
{
    struct snowflake_layout layout = leaf;

    (void)state;
    assert_true(death_by_assert(compose_late, &layout));
    assert_true(death_by_assert(compose_early, &layout));
    assert_true(death_by_assert(compose_worker, &layout));
    assert_true(death_by_assert(compose_sequence, &layout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_of_leaf),
        cmocka_unit_test(test_layout_js53_is_exact_in_javascript),
        cmocka_unit_test(test_layout_decodes_any_number),
        cmocka_unit_test(test_layout_round_trip),
        cmocka_unit_test(test_layout_rules),
        cmocka_unit_test(test_compose_asserts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
