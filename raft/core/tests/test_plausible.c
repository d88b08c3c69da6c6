/*
 * test_plausible.c - which terms and indexes of peers are believed.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/core/trust.h"
#include "src/base/limits.h"

#define JUMP LIMIT_PLAUSIBLE_JUMP

static void test_an_index_at_the_bound_and_beyond(void **state)
{
    (void)state;
    assert_int_equal(plausible_index(1), 1 + JUMP);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - JUMP - 2), LIMIT_PLAUSIBLE - 2);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - JUMP - 1), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - JUMP), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - 1), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_index(UINT64_MAX), LIMIT_PLAUSIBLE - 1);
}

/* It has nothing to compare with: it may join a cluster of any age. */
static void test_a_node_without_a_log_takes_any_but_the_end(void **state)
{
    (void)state;
    assert_int_equal(plausible_index(0), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_term(0, false), LIMIT_PLAUSIBLE - 1);
}

static void test_a_term_at_the_bound_and_beyond(void **state)
{
    (void)state;
    assert_int_equal(plausible_term(7, true), 7 + JUMP);
    assert_int_equal(plausible_term(LIMIT_PLAUSIBLE - JUMP - 2, true), LIMIT_PLAUSIBLE - 2);
    assert_int_equal(plausible_term(LIMIT_PLAUSIBLE - JUMP, true), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_term(LIMIT_PLAUSIBLE - 1, true), LIMIT_PLAUSIBLE - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_index_at_the_bound_and_beyond),
        cmocka_unit_test(test_a_node_without_a_log_takes_any_but_the_end),
        cmocka_unit_test(test_a_term_at_the_bound_and_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
