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
    assert_int_equal(plausible_bound(1, true), 1 + JUMP);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - JUMP - 2, true), LIMIT_PLAUSIBLE - 2);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - JUMP - 1, true), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - JUMP, true), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - 1, true), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_bound(UINT64_MAX, true), LIMIT_PLAUSIBLE - 1);
}

/* It has nothing to compare with: it may join a cluster of any age. */
static void test_a_node_without_a_log_takes_any_but_the_end(void **state)
{
    (void)state;
    assert_int_equal(plausible_bound(0, false), LIMIT_PLAUSIBLE - 1);
}

static void test_a_term_at_the_bound_and_beyond(void **state)
{
    (void)state;
    assert_int_equal(plausible_bound(7, true), 7 + JUMP);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - JUMP - 2, true), LIMIT_PLAUSIBLE - 2);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - JUMP, true), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_bound(LIMIT_PLAUSIBLE - 1, true), LIMIT_PLAUSIBLE - 1);
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
