/*
 * test_entropy.c - random bytes are given once, of the length that was asked for, over many
 * fetches. Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"

#define TAKEN 1000

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Two equal numbers of 56 bits among a thousand: once in 10^11 runs. */
static void test_no_bytes_come_twice(void **state)
{
    struct entropy entropy = {0};
    uint64_t numbers[TAKEN];

    (void)state;
    for (unsigned i = 0; i < TAKEN; i++) {
        numbers[i] = entropy_take(&entropy, 7);
        assert_int_equal(numbers[i] >> 56, 0);
        assert_true(entropy.left + 7 <= ENTROPY_POOL_BYTES);
    }
    qsort(numbers, TAKEN, sizeof numbers[0], compare);
    for (unsigned i = 1; i < TAKEN; i++) {
        assert_int_not_equal(numbers[i], numbers[i - 1]);
    }
}

static void test_each_bit_of_each_length_moves(void **state)
{
    struct entropy entropy = {0};

    (void)state;
    for (size_t bytes = 1; bytes <= 8; bytes++) {
        uint64_t set = 0;
        uint64_t clear = 0;

        for (unsigned i = 0; i < 200; i++) { /* a bit that stands still: once in 2^193 */
            uint64_t number = entropy_take(&entropy, bytes);

            set |= number;
            clear |= ~number;
        }
        assert_int_equal(set, bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1);
        assert_int_equal(clear, UINT64_MAX);
    }
}

/* What was given is not in the pool any more. */
static void test_what_was_taken_is_wiped(void **state)
{
    struct entropy entropy = {0};

    (void)state;
    (void)entropy_take(&entropy, 8);
    for (size_t i = 0; i < ENTROPY_POOL_BYTES - entropy.left; i++) {
        assert_int_equal(entropy.bytes[i], 0);
    }
    assert_int_equal(entropy.left, ENTROPY_POOL_BYTES - 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_bytes_come_twice),
        cmocka_unit_test(test_each_bit_of_each_length_moves),
        cmocka_unit_test(test_what_was_taken_is_wiped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
