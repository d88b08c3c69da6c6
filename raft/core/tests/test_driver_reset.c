/*
 * test_driver_reset.c - data directories whose term, or index, cannot be: refused at the start with
 * what and why.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/prepare.h"
#include "raft/core/tests/raft_core.h"
#include "raft/tests/raft_fakes.h"
#include "src/base/assert.h"
#include "src/id/fsm/fsm.h"

static const struct net_peer MEMBERS[3] = {{1, "s1"}, {2, "s2"}, {3, "s3"}};

static void commit(struct store *store, struct store_op *op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {{0}};

    STAILQ_INSERT_TAIL(&list, op, link);
    assert_int_equal(store->ops->commit(store, &list, &error), 0);
}

/* The store of a member with three entries, the last of this term, and this term and a vote. */
static struct store *store_of(uint64_t last_term, uint64_t term)
{
    struct store_identity identity = {.cluster_id = "test", .node_id = 1, .store_id = 1};
    struct store *store = store_mem_new(&identity);
    struct buf conf = BUF_INIT;
    struct store_entry entries[3] = {{1, RAFT_CHANGE, 0, NULL},
                                     {1, RAFT_COMMAND, 2, NOOP_BYTES},
                                     {0, RAFT_COMMAND, 2, NOOP_BYTES}};
    struct store_op hard = {.kind = STORE_HARD_STATE, .term = term, .vote = 3};
    struct store_op append = {
        .kind = STORE_APPEND, .index = 1, .entries = entries, .entry_count = 3};

    conf_of_roles(THREE_VOTERS, 3, &conf);
    entries[0].data = conf.data;
    entries[0].len = (uint32_t)conf.len;
    entries[2].term = last_term;
    commit(store, &hard);
    commit(store, &append);
    buf_free(&conf);
    return store;
}

static int load(struct store *store, struct store_loaded *ret_loaded, struct store_error *ret_error)
{
    struct state *whole = state_new(&fsm_machine);
    int rv = prepare_load(store, whole, ret_loaded, ret_error);

    if (rv == 0) {
        rv = prepare_store(store, ret_loaded, 1, 7, MEMBERS, 3, ret_error);
        if (rv != 0) {
            store_loaded_release(ret_loaded);
        }
    }
    state_free(whole);
    return rv;
}

static void expect_loads(struct store *store, uint64_t term, uint64_t vote)
{
    struct store_error error = {{0}};
    struct store_loaded loaded;

    assert_int_equal(load(store, &loaded, &error), 0);
    assert_int_equal(loaded.term, term);
    assert_int_equal(loaded.vote, vote);
    assert_int_equal(loaded.entry_count, 3);
    store_loaded_release(&loaded);
}

static void expect_refused(struct store *store, const char *what)
{
    struct store_error error = {{0}};
    struct store_loaded loaded;

    assert_int_equal(load(store, &loaded, &error), ERR_IMPLAUSIBLE);
    assert_non_null(strstr(error.text, what));
}

static void test_a_directory_whose_term_cannot_be(void **state)
{
    struct store *store = store_of(2, LIMIT_PLAUSIBLE - 1);

    (void)state;
    expect_loads(store, LIMIT_PLAUSIBLE - 1, 3);
    store_mem_free(store);
    store = store_of(2, LIMIT_PLAUSIBLE);
    expect_refused(store, "the term is 2305843009213693952");
    store_mem_free(store);
    store = store_of(2, (1ULL << 62) - 1); /* as it was injected */
    expect_refused(store, "the term is 4611686018427387903");
    store_mem_free(store);
}

static void test_a_directory_whose_index_cannot_be(void **state)
{
    struct store *store = store_of(2, 5);
    struct buf conf = BUF_INIT;
    struct store_op install = {.kind = STORE_INSTALL};

    (void)state;
    conf_of_roles(THREE_VOTERS, 3, &conf);
    install.position =
        (struct store_position){LIMIT_PLAUSIBLE, 5, 1, conf.data, (uint32_t)conf.len, 0};
    commit(store, &install);
    expect_refused(store, "the state's index is 2305843009213693952");
    buf_free(&conf);
    store_mem_free(store);
}

/* The store lowers no term, but for the simulation of disks that lose a write. */
static void test_no_term_falls_otherwise(void **state)
{
    struct store *store = store_of(7, 9);
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_HARD_STATE, .term = 8};
    struct store_error error = {{0}};

    (void)state;
    STAILQ_INSERT_TAIL(&list, &op, link);
    assert_int_equal(store->ops->commit(store, &list, &error), ERR_CORRUPT);
    op.lower = true;
    op.term = 6; /* below the log's last */
    assert_int_equal(store->ops->commit(store, &list, &error), ERR_CORRUPT);
    op.term = 7;
    assert_int_equal(store->ops->commit(store, &list, &error), 0);
    store_mem_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_directory_whose_term_cannot_be),
        cmocka_unit_test(test_a_directory_whose_index_cannot_be),
        cmocka_unit_test(test_no_term_falls_otherwise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
