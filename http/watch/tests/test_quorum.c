/*
 * test_quorum.c - how many voters are needed, reached, and what one more failure costs: for every
 * number of voters and of those that are reached.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/watch/watch.h"

static struct quorum quorum(unsigned voters, unsigned reachable, unsigned standbys)
{
    struct id_cluster_status status = {.member_count = voters + standbys};
    struct quorum result;

    for (unsigned i = 0; i < voters + standbys; i++) {
        (void)snprintf(status.members[i].role, sizeof status.members[i].role, "%s",
                       i < voters ? "voter" : "standby");
        status.members[i].reachable = i < reachable || i >= voters;
    }
    quorum_of(&status, &result);
    return result;
}

static void test_all(void **state)
{
    (void)state;
    for (unsigned voters = 1; voters <= LIMIT_NODES; voters++) {
        for (unsigned reachable = 1; reachable <= voters; reachable++) {
            struct quorum seen = quorum(voters, reachable, LIMIT_NODES - voters);

            assert_int_equal(seen.voters, voters);
            assert_int_equal(seen.reachable, reachable);
            assert_true(2 * seen.needed > voters && 2 * (seen.needed - 1) <= voters);
            assert_int_equal(seen.survives_next_failure, 2 * (reachable - 1) > voters);
            assert_true(strlen(seen.text) < QUORUM_TEXT_BYTES - 1);
        }
    }
}

static void test_texts(void **state)
{
    struct id_cluster_status none = {0};
    struct quorum seen;

    (void)state;
    assert_string_equal(quorum(3, 3, 0).text, "3 of 3 voters can be reached: 1 more may fail");
    assert_string_equal(quorum(5, 5, 2).text, "5 of 5 voters can be reached: 2 more may fail");
    assert_non_null(strstr(quorum(3, 2, 0).text, "which is just enough"));
    assert_non_null(strstr(quorum(3, 1, 0).text, "no change is possible"));
    assert_non_null(strstr(quorum(1, 1, 0).text, "the only voter"));
    quorum_of(&none, &seen);
    assert_non_null(strstr(seen.text, "does not know the members"));
    assert_false(seen.survives_next_failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
