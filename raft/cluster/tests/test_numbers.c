/*
 * test_numbers.c - numbers of requests under way: found at once, never two for one, none of an
 * earlier incarnation, up to the limit. Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/requests.h"

#define SEED 0x123456789abcdef0ULL

static void test_a_number_leads_to_its_item_until_it_is_over(void **state)
{
    struct numbers numbers;
    int items[2];
    uint64_t first;
    uint64_t second;

    (void)state;
    numbers_init(&numbers, SEED);
    first = numbers_give(&numbers, &items[0], 0);
    second = numbers_give(&numbers, &items[1], 0);
    assert_true(second > first);
    assert_ptr_equal(numbers_find(&numbers, first), &items[0]);
    assert_ptr_equal(numbers_find(&numbers, second), &items[1]);
    assert_null(numbers_find(&numbers, second + 1));
    assert_null(numbers_find(&numbers, first | NUMBERS_MARK));
    assert_null(numbers_find(&numbers, 0));
    numbers_end(&numbers, first);
    assert_null(numbers_find(&numbers, first));
    assert_ptr_equal(numbers_find(&numbers, second), &items[1]);
    numbers_end(&numbers, second);
    numbers_free(&numbers);
}

static void test_marked_numbers_are_others(void **state)
{
    struct numbers numbers;
    int plain;
    int marked;
    uint64_t own;
    uint64_t number;

    (void)state;
    numbers_init(&numbers, SEED);
    number = numbers_give(&numbers, &marked, NUMBERS_MARK);
    own = numbers_give(&numbers, &plain, 0);
    assert_true((number & NUMBERS_MARK) != 0);
    assert_true((own & NUMBERS_MARK) == 0);
    assert_ptr_equal(numbers_find(&numbers, number), &marked);
    assert_ptr_equal(numbers_find(&numbers, own), &plain);
    assert_null(numbers_find(&numbers, number & ~NUMBERS_MARK));
    assert_null(numbers_find(&numbers, own | NUMBERS_MARK));
    numbers_end(&numbers, number);
    assert_null(numbers_find(&numbers, number));
    assert_ptr_equal(numbers_find(&numbers, own), &plain);
    numbers_end(&numbers, own);
    numbers_free(&numbers);
}

/* One lives long, while the others go round the table twice: its place is left out. */
static void test_a_place_that_is_taken_is_left_out(void **state)
{
    struct numbers numbers;
    int old;
    int item;
    uint64_t first;

    (void)state;
    numbers_init(&numbers, SEED);
    first = numbers_give(&numbers, &old, 0);
    for (unsigned i = 0; i < 4 * NUMBERS_MAX; i++) {
        uint64_t number = numbers_give(&numbers, &item, 0);

        assert_ptr_equal(numbers_find(&numbers, number), &item);
        assert_ptr_equal(numbers_find(&numbers, first), &old);
        numbers_end(&numbers, number);
    }
    assert_int_equal(numbers.last, first + 4 * NUMBERS_MAX + 2);
    numbers_end(&numbers, first);
    numbers_free(&numbers);
}

static void test_as_many_as_the_limit(void **state)
{
    uint64_t *given = calloc(NUMBERS_MAX, sizeof *given);
    struct numbers numbers;

    (void)state;
    assert_non_null(given);
    numbers_init(&numbers, SEED);
    for (unsigned i = 0; i < NUMBERS_MAX; i++) {
        given[i] = numbers_give(&numbers, &given[i], 0);
    }
    assert_int_equal(numbers.count, NUMBERS_MAX);
    for (unsigned i = 0; i < NUMBERS_MAX; i++) {
        assert_ptr_equal(numbers_find(&numbers, given[i]), &given[i]);
        numbers_end(&numbers, given[i]);
    }
    numbers_free(&numbers);
    free(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_leads_to_its_item_until_it_is_over),
        cmocka_unit_test(test_marked_numbers_are_others),
        cmocka_unit_test(test_a_place_that_is_taken_is_left_out),
        cmocka_unit_test(test_as_many_as_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
