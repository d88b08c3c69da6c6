/*
 * test_node_set.c - a set of node ids against a plain array of flags. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/limits.h"
#include "src/base/prng.h"
#include "src/state/journal.h"
#include "src/tests/unit/death.h"

#define IDS 100

static void is_as(const struct node_set *set, const bool *in)
{
    size_t count = 0;

    for (uint64_t id = 1; id <= IDS; id++) {
        assert_true(node_set_has(set, id) == in[id]);
        count += in[id];
    }
    assert_int_equal(set->count, count);
    for (size_t i = 1; i < set->count; i++) {
        assert_true(set->ids[i - 1] < set->ids[i]);
    }
}

static void test_against_a_model(void **state)
{
    struct node_set set = {0};
    bool in[IDS + 1] = {false};
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (unsigned step = 0; step < 5000; step++) {
        uint64_t id = 1 + prng_next(&prng) % IDS;

        if (prng_next(&prng) % 2 == 0) {
            assert_true(node_set_add(&set, id) == !in[id]);
            in[id] = true;
        } else {
            assert_true(node_set_remove(&set, id) == in[id]);
            in[id] = false;
        }
        is_as(&set, in);
    }
    node_set_free(&set);
    memset(in, 0, sizeof in);
    is_as(&set, in);
}

static void test_ends_of_the_range(void **state)
{
    struct node_set set = {0};

    (void)state;
    assert_false(node_set_has(&set, 0));
    assert_false(node_set_has(&set, UINT64_MAX));
    assert_true(node_set_add(&set, LIMIT_NODE_ID));
    assert_true(node_set_add(&set, 1));
    assert_false(node_set_has(&set, LIMIT_NODE_ID + UINT64_C(1)));
    assert_false(node_set_has(&set, UINT64_C(1) << 32 | 1));
    assert_false(node_set_remove(&set, UINT64_C(1) << 32 | 1));
    assert_int_equal(set.count, 2);
    node_set_free(&set);
}

static void add_none(void *data)
{
    (void)node_set_add(data, 0);
}

static void add_too_large(void *data)
{
    (void)node_set_add(data, LIMIT_NODE_ID + UINT64_C(1));
}

static void test_no_id_of_a_node(void **state)
{
    struct node_set set = {0};

    (void)state;
    assert_true(death_by_assert(add_none, &set));
    assert_true(death_by_assert(add_too_large, &set));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_model),
        cmocka_unit_test(test_ends_of_the_range),
        cmocka_unit_test(test_no_id_of_a_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
