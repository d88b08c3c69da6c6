/*
 * test_prng.c - the generator: fixed sequences, bounds, spread; and the system's entropy. Thread:
 * one.
 */
#include "src/tests/unit/test.h"
#include "src/base/prng.h"

/* Seeds of simulations and of failing tests are written down, so the sequences must never change.
 * Worked out apart from this code, from the papers' formulas. */
static void test_golden_sequences(void **state)
{
    static const struct {
        uint64_t seed;
        uint64_t values[3];
    } golden[] = {
        {0, {0x7bbcb40d550682d0ULL, 0xde7fe413d00cc9fdULL, 0xb3c638353c668c91ULL}},
        {1, {0x4b46a55df3611b9bULL, 0xd7e1f1410e763ef4ULL, 0x5f14ec66975f9b06ULL}},
        {UINT64_MAX, {0x079ce65d09240e13ULL, 0x1587f139eb004b7fULL, 0x3190cf0b897a2433ULL}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct prng prng;

        prng_seed(&prng, golden[i].seed);
        for (size_t j = 0; j < 3; j++) {
            assert_true(prng_next(&prng) == golden[i].values[j]);
        }
    }
}

/* The seed whose mixed value would be 0, the one state the generator cannot leave. */
static void test_no_dead_seed(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 0 - 0x9e3779b97f4a7c15ULL);
    assert_true(prng.state != 0);
    assert_true(prng_next(&prng) != prng_next(&prng));
}

static void test_seeds_differ(void **state)
{
    struct prng a;
    struct prng b;
    unsigned equal_bits = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        prng_seed(&a, seed);
        prng_seed(&b, seed + 1);
        equal_bits += (unsigned)__builtin_popcountll(~(prng_next(&a) ^ prng_next(&b)));
    }
    /* Half of 64 on average; the bounds are 20 standard deviations away. */
    assert_in_range(equal_bits, 32000 - 2530, 32000 + 2530);
}

static void test_below(void **state)
{
    struct prng prng;
    unsigned hits[10] = {0};

    (void)state;
    prng_seed(&prng, 42);
    assert_int_equal(prng_below(&prng, 0), 0);
    assert_int_equal(prng_below(&prng, 1), 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t value = prng_below(&prng, 10);

        assert_true(value < 10);
        hits[value]++;
    }
    for (size_t i = 0; i < 10; i++) {
        assert_in_range(hits[i], 9000, 11000);
    }
    for (int i = 0; i < 1000; i++) {
        assert_true(prng_below(&prng, UINT64_MAX) < UINT64_MAX);
    }
}

static void test_entropy(void **state)
{
    uint64_t all_or = 0;
    uint64_t all_and = UINT64_MAX;

    (void)state;
    assert_true(prng_entropy() != prng_entropy());
    for (int i = 0; i < 200; i++) {
        uint64_t value = prng_entropy();

        all_or |= value;
        all_and &= value;
    }
    assert_true(all_or == UINT64_MAX);
    assert_true(all_and == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_sequences), cmocka_unit_test(test_no_dead_seed),
        cmocka_unit_test(test_seeds_differ),     cmocka_unit_test(test_below),
        cmocka_unit_test(test_entropy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
