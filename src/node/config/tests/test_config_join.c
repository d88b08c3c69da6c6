/*
 * test_config_join.c - the settings of a node that joins a cluster: join, peer.advertise, and what
 * they mean together with cluster.members and peer.listen. Thread: one.
 */
#include "src/node/config/tests/config_fixture.h"

#define NODE_4 "--node-id", "4", "--join", "127.0.0.1:7081", "--peer-listen", "127.0.0.1:7084"

static void test_a_node_that_joins_needs_no_members(void **state)
{
    struct config_fixture *f = *state;

    expect_ok(f, ARGS(NODE_4), NO_ENV);
    assert_int_equal(f->config.node.members.count, 0);
    assert_int_equal(f->config.node.join.count, 1);
    assert_string_equal(f->config.node.join.peers[0].address, "127.0.0.1:7081");
    assert_string_equal(f->config.node.listen_address, "127.0.0.1:7084");
    assert_string_equal(f->config.node.peer_address, "127.0.0.1:7084");
    assert_int_equal(origin(f, "peer.advertise")->source, CONFIG_FROM_RULE);
    expect_ok(f, ARGS("--node-id", "4", "--peer-listen", "127.0.0.1:7084"),
              ENV("LEAFD_JOIN=127.0.0.1:7081, [::1]:7082 ,host.example:1"));
    assert_int_equal(f->config.node.join.count, 3);
    assert_string_equal(f->config.node.join.peers[1].address, "[::1]:7082");
    assert_string_equal(f->config.node.join.peers[2].address, "host.example:1");
    /* Without anybody to ask it is no such node. */
    expect_error(f, ARGS("--node-id", "4", "--join", "", "--peer-listen", "127.0.0.1:7084"), NO_ENV,
                 "cluster.members is not set");
    expect_ok(f, ARGS(NODE_1, "--join", ""), NO_ENV);
    assert_int_equal(f->config.node.join.count, 0);
}

static void test_bad_targets(void **state)
{
    static const char *const bad[] = {
        "127.0.0.1",  "127.0.0.1:", "127.0.0.1:0",      "a:65536",  "a:1,",
        ",a:1",       "a:1,,b:1",   "1=127.0.0.1:7081", "::1:7081", "[::1]",
        "http://a:1", "a b:1",      "127.0.0.1:7x",     "a:1;b:1"};
    struct config_fixture *f = *state;
    char list[8 * LIMIT_NODES + 32] = "";
    size_t len = 0;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_error(f,
                     ARGS("--node-id", "4", "--peer-listen", "127.0.0.1:7084", "--join",
                          (char *)(uintptr_t)bad[i]),
                     NO_ENV, "join: ");
    }
    for (unsigned i = 1; i <= LIMIT_NODES; i++) {
        len += (size_t)snprintf(list + len, sizeof list - len, "%sh:%u", i > 1 ? "," : "", i);
    }
    expect_ok(f, ARGS("--node-id", "4", "--peer-listen", "127.0.0.1:7084", "--join", list), NO_ENV);
    assert_int_equal(f->config.node.join.count, LIMIT_NODES);
    (void)snprintf(list + len, sizeof list - len, ",h:99");
    expect_error(f, ARGS("--node-id", "4", "--peer-listen", "127.0.0.1:7084", "--join", list),
                 NO_ENV, "join: more than 7 addresses");
}

static void test_the_own_address(void **state)
{
    struct config_fixture *f = *state;

    expect_error(f, ARGS("--node-id", "4", "--join", "127.0.0.1:7081"), NO_ENV,
                 "peer.listen is not set: a node that joins a cluster needs an address");
    /* Given one of both, the other is the same. */
    expect_ok(
        f, ARGS("--node-id", "4", "--join", "127.0.0.1:7081", "--peer-advertise", "127.0.0.1:7085"),
        NO_ENV);
    assert_string_equal(f->config.node.listen_address, "127.0.0.1:7085");
    expect_ok(f, ARGS(NODE_4, "--peer-advertise", "node4.example:7000"), NO_ENV);
    assert_string_equal(f->config.node.listen_address, "127.0.0.1:7084");
    assert_string_equal(f->config.node.peer_address, "node4.example:7000");
    assert_int_equal(origin(f, "peer.advertise")->source, CONFIG_FROM_FLAG);
    expect_error(f, ARGS(NODE_4, "--peer-advertise", "node4.example"), NO_ENV, "peer.advertise: ");
    /* Nobody can dial a wildcard. */
    file_make(f, SOME_SECRET "\n");
    expect_error(f,
                 ARGS("--node-id", "4", "--join", "127.0.0.1:7081", "--peer-listen", "0.0.0.0:7084",
                      "--cluster-secret-file", f->path),
                 NO_ENV, "is an address that cannot be dialled");
    expect_error(f,
                 ARGS("--node-id", "4", "--join", "127.0.0.1:7081", "--peer-listen", "[::]:7084",
                      "--cluster-secret-file", f->path),
                 NO_ENV, "is an address that cannot be dialled");
    expect_ok(f,
              ARGS("--node-id", "4", "--join", "127.0.0.1:7081", "--peer-listen", "0.0.0.0:7084",
                   "--peer-advertise", "10.0.0.4:7084", "--cluster-secret-file", f->path),
              NO_ENV);
    assert_string_equal(f->config.node.listen_address, "0.0.0.0:7084");
    assert_string_equal(f->config.node.peer_address, "10.0.0.4:7084");
    /* One that listens for other machines needs a secret, as any. */
    expect_error(f,
                 ARGS("--node-id", "4", "--join", "127.0.0.1:7081", "--peer-listen", "0.0.0.0:7084",
                      "--peer-advertise", "10.0.0.4:7084"),
                 NO_ENV, "cluster.secret-file is not set");
}

static void test_with_members(void **state)
{
    struct config_fixture *f = *state;

    /* A member's address is the one that the members know. */
    expect_ok(f, ARGS(NODE_1, "--peer-advertise", "127.0.0.1:7081"), NO_ENV);
    expect_error(f, ARGS(NODE_1, "--peer-advertise", "127.0.0.1:7082"), NO_ENV,
                 "peer.advertise = \"127.0.0.1:7082\" (--peer-advertise) is not this node's "
                 "address in cluster.members");
    expect_error(f, ARGS("--node-id", "4", "--cluster-members", "1=127.0.0.1:7081"), NO_ENV,
                 "is not among cluster.members");
    /* One file for all nodes: the new one is not among the members that it names. */
    expect_ok(f, ARGS(NODE_4, "--cluster-members", "1=127.0.0.1:7081"), NO_ENV);
    assert_int_equal(f->config.node.members.count, 1);
    assert_int_equal(f->config.node.join.count, 1);
    assert_string_equal(f->config.node.peer_address, "127.0.0.1:7084");
    /* Or it is: then that is its address. */
    expect_ok(f, ARGS(NODE_1, "--join", "127.0.0.1:7082"), NO_ENV);
    assert_string_equal(f->config.node.listen_address, "127.0.0.1:7081");
    assert_string_equal(f->config.node.peer_address, "127.0.0.1:7081");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_setup, config_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_node_that_joins_needs_no_members),
        TEST(test_bad_targets),
        TEST(test_the_own_address),
        TEST(test_with_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
