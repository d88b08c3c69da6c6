/*
 * test_net_uv.c - links between nodes over real sockets: frames there and back, reconnecting,
 * refusals.
 *
 * Thread: one.
 */
#include "raft/transport/net_uv.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_fixture.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

/* Did the last dial of the peer end for this reason? */
static bool failed_with(struct net_node *node, uint64_t peer, const char *reason)
{
    return strcmp(net_uv_link(node->net, peer)->reason, reason) == 0;
}

static void test_frames_arrive_in_order(void **state)
{
    struct net_pair *pair = *state;
    const unsigned count = 10000;
    struct prng prng;

    prng_seed(&prng, 1);
    pair->a.numbered = pair->b.numbered = true;
    net_pair_connect(pair);
    for (unsigned i = 0; i < count; i++) {
        /* mostly small, some larger than the input buffer */
        const size_t len = 8 + (size_t)prng_below(&prng, i % 500 == 0 ? 300000 : 300);

        assert_int_equal(net_node_send(&pair->a, 2, i, len), 0);
        assert_int_equal(net_node_send(&pair->b, 1, i, 308 - len % 300), 0);
        if (i % 64 == 0) {
            net_world_expect(&pair->world);
            net_world_turn(&pair->world, "a turn");
        }
    }
    RUN_UNTIL(&pair->world, pair->a.received == count && pair->b.received == count);
    assert_int_equal(pair->a.next_from[2], count);
    assert_int_equal(pair->b.next_from[1], count);
    assert_int_equal(pair->b.last_type, FRAME_RAFT);
}

/* More than the sockets hold: a write ends in the middle of some frame, with others behind it. */
static void test_burst_larger_than_the_sockets_take(void **state)
{
    struct net_pair *pair = *state;
    const unsigned count = 10000;
    struct net_out *out;
    struct prng prng;

    prng_seed(&prng, 2);
    pair->b.numbered = true;
    net_pair_connect(pair);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(net_node_send(&pair->a, 2, i, 8 + (size_t)prng_below(&prng, 3000)), 0);
    }
    out = &net_uv_link(pair->a.net, 2)->conn->out;
    while (net_out_waits(out)) {
        net_out_flush(out);
    }
    assert_true(out->writing);
    RUN_UNTIL(&pair->world, pair->b.received == count);
    assert_int_equal(pair->b.next_from[1], count);
    RUN_UNTIL(&pair->world, !out->writing);
    assert_int_equal(net_node_send(&pair->a, 2, count, 8), 0);
    RUN_UNTIL(&pair->world, pair->b.received == count + 1);
}

static void test_largest_frame(void **state)
{
    struct net_pair *pair = *state;

    pair->b.numbered = true;
    net_pair_connect(pair);
    assert_int_equal(net_node_send(&pair->a, 2, 0, FRAME_PAYLOAD_BYTES_MAX), 0);
    assert_int_equal(net_node_send(&pair->a, 2, 1, FRAME_PAYLOAD_BYTES_MAX + 1), ERR_TOO_LARGE);
    assert_int_equal(net_node_send(&pair->a, 2, 1, 8), 0);
    RUN_UNTIL(&pair->world, pair->b.received == 2);
    assert_int_equal(pair->b.last_len, 8);
}

/* Runs after the prepare handles of nodes that open later: does the loop wait for something? */
static void before_the_wait(uv_prepare_t *prepare)
{
    const struct net_link *link = net_uv_link(((struct net_pair *)prepare->data)->a.net, 2);

    if (link != NULL && link->conn != NULL && net_out_waits(&link->conn->out)) {
        assert_int_equal(uv_backend_timeout(prepare->loop), 0);
    }
}

/* No turn seals much of a large frame, and the next one comes at once; what is behind it stays
 * behind. */
static void test_a_large_frame_goes_in_parts(void **state)
{
    struct net_pair *pair = *state;
    const struct net_out *out;
    uv_prepare_t prepare;
    size_t before;

    assert_int_equal(uv_prepare_init(&pair->world.loop, &prepare), 0);
    prepare.data = pair;
    assert_int_equal(uv_prepare_start(&prepare, before_the_wait), 0);
    pair->b.numbered = true;
    net_pair_connect(pair);
    out = &net_uv_link(pair->a.net, 2)->conn->out;
    assert_int_equal(net_node_send(&pair->a, 2, 0, FRAME_PAYLOAD_BYTES_MAX), 0);
    assert_int_equal(net_node_send(&pair->a, 2, 1, 8), 0);
    before = out->waiting_bytes;
    assert_int_equal(before, out->queue_bytes);
    net_world_expect(&pair->world);
    while (pair->b.received < 2) {
        net_world_turn(&pair->world, "both frames");
        assert_true(out->waiting_bytes <= before);
        assert_true(before - out->waiting_bytes <= 2 * NET_OUT_PART_BYTES); /* a write ended, too */
        before = out->waiting_bytes;
    }
    assert_int_equal(before, 0);
    assert_int_equal(pair->b.last_len, 8);
    uv_close((uv_handle_t *)&prepare, NULL);
    (void)uv_run(&pair->world.loop, UV_RUN_NOWAIT);
}

static void test_a_turn_takes_a_part_of_the_input(void **state)
{
    struct net_pair *pair = *state;
    const struct net_hub *hub;
    bool was_full = false;
    struct net_out *out;

    pair->b.numbered = true;
    net_pair_connect(pair);
    hub = net_uv_link(pair->b.net, 1)->conn->hub;
    out = &net_uv_link(pair->a.net, 2)->conn->out;
    assert_int_equal(net_node_send(&pair->a, 2, 0, FRAME_PAYLOAD_BYTES_MAX), 0);
    while (net_out_waits(out)) { /* as much as the sockets take */
        net_out_flush(out);
    }
    net_world_expect(&pair->world);
    while (pair->b.received == 0) {
        net_world_turn(&pair->world, "the frame");
        assert_true(hub->input_bytes < NET_INPUT_TURN_BYTES + sizeof hub->input);
        was_full = was_full || hub->input_bytes >= NET_INPUT_TURN_BYTES;
    }
    assert_true(was_full);
    assert_int_equal(pair->b.last_len, FRAME_PAYLOAD_BYTES_MAX);
}

static void test_every_type_arrives(void **state)
{
    struct net_pair *pair = *state;
    struct net *net;

    net_pair_connect(pair);
    net = net_uv_net(pair->a.net);
    for (unsigned type = FRAME_RAFT; type < FRAME_PING; type++) {
        struct buf empty = BUF_INIT;

        assert_int_equal(net->ops->send(net, 2, (enum frame_type)type, &empty, NULL), 0);
        RUN_UNTIL(&pair->world, pair->b.received == type - FRAME_RAFT + 1);
        assert_int_equal(pair->b.last_type, type);
        assert_int_equal(pair->b.last_len, 0);
    }
}

/* What waits for the end of the turn, and what does not, with all that stands before it. */
static void test_urgent_frames_leave_at_once(void **state)
{
    static const enum frame_type urgent[] = {FRAME_CONFIRM, FRAME_CONFIRM_ACK};
    struct net_pair *pair = *state;
    const struct net_out *out;
    struct net *net;

    net_pair_connect(pair);
    net = net_uv_net(pair->a.net);
    out = &net_uv_link(pair->a.net, 2)->conn->out;
    for (unsigned i = 0; i < 2; i++) {
        struct buf empty = BUF_INIT;

        RUN_UNTIL(&pair->world, out->queue_bytes == 0);
        assert_int_equal(net_node_send(&pair->a, 2, 0, 8), 0);
        assert_true(out->queue_bytes > 0);
        assert_int_equal(net->ops->send(net, 2, urgent[i], &empty, NULL), 0);
        assert_int_equal(out->queue_bytes, 0);
        RUN_UNTIL(&pair->world, pair->b.received == 2 * (i + 1));
        assert_int_equal(pair->b.last_type, urgent[i]); /* the other one came before it */
    }
}

/* The socket takes nothing any more: that is told later, and not from inside the call. */
static void test_an_urgent_frame_finds_the_link_broken(void **state)
{
    struct net_pair *pair = *state;
    struct buf empty = BUF_INIT;
    struct net *net;
    uv_os_fd_t fd;

    net_pair_connect(pair);
    net = net_uv_net(pair->a.net);
    assert_int_equal(uv_fileno((uv_handle_t *)&net_uv_link(pair->a.net, 2)->conn->tcp, &fd), 0);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(net->ops->send(net, 2, FRAME_CONFIRM, &empty, NULL), 0);
    assert_false(net_node_connected(&pair->a, 2));
    assert_true(pair->a.up[2]);
    assert_int_equal(net->ops->send(net, 2, FRAME_CONFIRM, &empty, NULL), ERR_IO);
    RUN_UNTIL(&pair->world, !pair->a.up[2]);
    RUN_UNTIL(&pair->world, pair->a.up[2]);
    assert_int_equal(net_node_send(&pair->a, 2, 0, 8), 0);
    RUN_UNTIL(&pair->world, pair->b.received == 1);
}

static void test_send_errors(void **state)
{
    struct net_pair *pair = *state;

    net_node_open(&pair->a);
    assert_int_equal(net_node_send(&pair->a, 2, 0, 8), ERR_NOT_FOUND);
    net_node_set_peer(&pair->a, 2, "127.0.0.1:1");
    assert_int_equal(net_node_send(&pair->a, 2, 0, 8), ERR_IO);
    assert_false(net_node_connected(&pair->a, 2));
    assert_false(net_node_connected(&pair->a, 3));
    assert_int_equal(pair->a.ups, 0);
}

/* It does not come up, and does with the right one. (test_net_uv_hostile.c looks at the bytes.) */
static void test_wrong_secret(void **state)
{
    struct net_pair *pair = *state;

    net_node_secret(&pair->b, "Secret", NULL);
    net_pair_open(pair);
    RUN_UNTIL(&pair->world, failed_with(&pair->a, 2, "another secret"));
    RUN_UNTIL(&pair->world, failed_with(&pair->b, 1, "another secret"));
    assert_int_equal(pair->a.ups + pair->b.ups, 0);
    net_node_close(&pair->b);
    net_node_secret(&pair->b, "secret", NULL);
    net_node_open(&pair->b);
    net_node_set_peers(&pair->b, &pair->a, NULL);
    RUN_UNTIL(&pair->world, pair->a.up[2] && pair->b.up[1]);
    assert_int_equal(pair->a.refusals, 0);
}

static void test_wrong_cluster(void **state)
{
    struct net_pair *pair = *state;

    pair->b.config.self.cluster_id = "other";
    net_pair_open(pair);
    RUN_UNTIL(&pair->world, pair->a.refusals == 1 && pair->b.refusals == 1);
    assert_int_equal(pair->a.refused_by, 2);
    assert_int_equal(pair->a.refused_err, ERR_REFUSED);
    assert_int_equal(pair->a.ups + pair->b.ups, 0);
    assert_int_equal(pair->a.received + pair->b.received, 0);
}

static void test_wrong_node_at_the_address(void **state)
{
    struct net_pair *pair = *state;

    net_node_open(&pair->a);
    net_node_open(&pair->b);
    net_node_set_peer(&pair->a, 3, pair->b.listen_address);
    net_node_set_peers(&pair->b, &pair->a, NULL);
    RUN_UNTIL(&pair->world, pair->a.refusals == 1);
    assert_int_equal(pair->a.refused_by, 3);
    assert_int_equal(pair->a.refused_err, ERR_CONFLICT);
    assert_false(pair->a.up[3]);
}

static void test_same_id_twice(void **state)
{
    struct net_pair *pair = *state;

    pair->b.config.self.node_id = 1;
    net_node_open(&pair->a);
    net_node_open(&pair->b);
    net_node_set_peer(&pair->a, 3, pair->b.listen_address);
    RUN_UNTIL(&pair->world, pair->a.refusals == 1);
    assert_int_equal(pair->a.refused_err, ERR_CONFLICT);
}

static struct net_presence presence(struct net_node *node, uint64_t peer)
{
    struct net *net = net_uv_net(node->net);

    return net->ops->presence(net, peer, 7, WORLD_LATE_MS);
}

/* Whose data are at the two ends that a node has with a peer: they need not be the same. */
static void test_whose_data_a_peer_is_here_with(void **state)
{
    struct net_pair *pair = *state;
    struct net_node twin;

    net_pair_open(pair);
    assert_int_equal(presence(&pair->a, 2).dials, 7);
    RUN_UNTIL(&pair->world, presence(&pair->a, 2).reached == pair->b.config.self.store_id &&
                                presence(&pair->a, 2).heard == pair->b.config.self.store_id);
    net_node_init(&twin, &pair->world, 2);
    twin.config.self.store_id = 77;
    net_node_open(&twin);
    net_node_set_peers(&twin, &pair->a, NULL);
    RUN_UNTIL(&pair->world, presence(&pair->a, 2).heard == 77);
    assert_int_equal(presence(&pair->a, 2).reached, pair->b.config.self.store_id);
    net_node_close(&twin);
    net_node_close(&pair->b);
    RUN_UNTIL(&pair->world, presence(&pair->a, 2).heard == 0 && presence(&pair->a, 2).reached == 0);
    assert_int_equal(presence(&pair->a, 9).heard + presence(&pair->a, 9).reached, 0);
}

static void test_wiped_store(void **state)
{
    struct net_pair *pair = *state;

    pair->a.unwelcome_store = pair->b.config.self.store_id;
    net_pair_open(pair);
    RUN_UNTIL(&pair->world, pair->b.refusals == 1);
    assert_int_equal(pair->b.refused_by, 1);
    assert_int_equal(pair->b.refused_err, ERR_WRONG_NODE);
    assert_false(pair->a.up[2]);
    assert_false(pair->b.up[1]);
    assert_int_equal(pair->a.refusals, 0);
}

static void test_unknown_peer_until_it_is_known(void **state)
{
    struct net_pair *pair = *state;

    net_node_open(&pair->a);
    net_node_open(&pair->b);
    net_node_set_peers(&pair->a, &pair->b, NULL);
    RUN_UNTIL(&pair->world, failed_with(&pair->a, 2, "rejected by the peer: not a known member"));
    assert_int_equal(pair->a.ups, 0);
    net_node_set_peers(&pair->b, &pair->a, NULL);
    RUN_UNTIL(&pair->world, pair->a.up[2] && pair->b.up[1]);
    assert_int_equal(pair->a.refusals, 0);
}

static void test_restart_and_reconnect(void **state)
{
    struct net_pair *pair = *state;

    net_pair_connect(pair);
    for (unsigned i = 1; i <= 3; i++) {
        net_node_close(&pair->b);
        RUN_UNTIL(&pair->world, !pair->a.up[2]);
        assert_int_equal(pair->a.downs, i);
        assert_int_equal(net_node_send(&pair->a, 2, 0, 8), ERR_IO);
        net_node_open(&pair->b); /* on the same port */
        net_node_set_peers(&pair->b, &pair->a, NULL);
        RUN_UNTIL(&pair->world, pair->a.up[2] && pair->b.up[1]);
        assert_int_equal(net_node_send(&pair->a, 2, 0, 8), 0);
        RUN_UNTIL(&pair->world, pair->b.received == i);
    }
}

/* It lives: there is no need to wait for the time at which it would be dialled anyway. */
static void test_a_peer_that_dials_is_dialled_soon(void **state)
{
    struct net_pair *pair = *state;
    struct net_link *link;
    uint64_t before_ms;

    net_pair_connect(pair);
    link = net_uv_link(pair->a.net, 2);
    net_node_close(&pair->b);
    RUN_UNTIL(&pair->world, link->backoff_ms == LIMIT_REDIAL_MAX_MS && link->conn == NULL);
    /* The wait lasts longer than this test, for as long as a machine may stand still. */
    uv_timer_set_repeat(&link->redial, 2 * WORLD_LATE_MS);
    assert_int_equal(uv_timer_again(&link->redial), 0);
    before_ms = link->dialled_ms;
    net_node_open(&pair->b); /* on the same port */
    net_node_set_peers(&pair->b, &pair->a, NULL);
    RUN_UNTIL(&pair->world, link->dialled_ms != before_ms);
    assert_true(link->conn != NULL || uv_timer_get_due_in(&link->redial) <= LIMIT_REDIAL_MIN_MS);
    RUN_UNTIL(&pair->world, pair->a.up[2] && pair->b.up[1]);
}

static void test_names_are_resolved(void **state)
{
    struct net_pair *pair = *state;
    char address[64];

    net_node_open(&pair->a);
    net_node_open(&pair->b);
    (void)snprintf(address, sizeof address, "localhost:%u", (unsigned)net_uv_port(pair->b.net));
    net_node_set_peer(&pair->a, 2, address);
    (void)snprintf(address, sizeof address, "localhost:%u", (unsigned)net_uv_port(pair->a.net));
    net_node_set_peer(&pair->b, 1, address);
    RUN_UNTIL(&pair->world, pair->a.up[2] && pair->b.up[1]);
}

static void test_address_changes(void **state)
{
    struct net_pair *pair = *state;

    net_pair_connect(pair);
    net_node_set_peer(&pair->a, 2, "127.0.0.1:1");
    assert_false(net_node_connected(&pair->a, 2));
    assert_true(pair->a.up[2]); /* never told from inside the call */
    RUN_UNTIL(&pair->world, !pair->a.up[2]);
    net_node_set_peer(&pair->a, 2, "no port");
    net_node_set_peer(&pair->a, 2, pair->b.listen_address);
    RUN_UNTIL(&pair->world, pair->a.up[2]);
    net_node_set_peer(&pair->a, 2, pair->b.listen_address); /* the same: nothing happens */
    assert_true(net_node_connected(&pair->a, 2));
    assert_int_equal(pair->a.ups, 2);
}

static void test_removed_peer_is_cut_both_ways(void **state)
{
    struct net_pair *pair = *state;

    net_pair_connect(pair);
    net_node_set_peers(&pair->a, NULL, NULL);
    assert_int_equal(net_node_send(&pair->a, 2, 0, 8), ERR_NOT_FOUND);
    RUN_UNTIL(&pair->world, !pair->a.up[2] && !pair->b.up[1]);
    assert_int_equal(pair->a.received, 0);
}

static void test_malformed_payload_closes_the_link(void **state)
{
    struct net_pair *pair = *state;

    pair->b.receive_result = false;
    net_pair_connect(pair);
    assert_int_equal(net_node_send(&pair->a, 2, 0, 8), 0);
    assert_int_equal(net_node_send(&pair->a, 2, 1, 8), 0);
    RUN_UNTIL(&pair->world, pair->a.downs == 1);
    assert_int_equal(pair->b.received, 1);
}

static void test_open_errors(void **state)
{
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      ":1",
                                      "127.0.0.1:",
                                      "x:65536",
                                      "127.0.0.1:1x",
                                      "::1:80",
                                      "[::1:80",
                                      "[127.0.0.1]:1",
                                      "300.0.0.1:80:",
                                      "a b:1",
                                      "1.2.3.4:-1"};
    struct net_pair *pair = *state;
    struct net_uv *net = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pair->a.config.listen_address = bad[i];
        assert_int_equal(net_uv_open(&pair->world.loop, &pair->a.config, &net), ERR_INVALID);
    }
    net_node_open(&pair->b);
    pair->a.config.listen_address = pair->b.listen_address;
    assert_int_equal(net_uv_open(&pair->world.loop, &pair->a.config, &net), ERR_EXISTS);
    /* a documentation address (RFC 5737) that is nobody's */
    pair->a.config.listen_address = "192.0.2.1:0";
    assert_int_equal(net_uv_open(&pair->world.loop, &pair->a.config, &net), ERR_NOT_FOUND);
    assert_null(net);
}

static void test_listens_on_a_name_and_on_ipv6(void **state)
{
    struct net_pair *pair = *state;
    char address[64];
    int rv;

    (void)snprintf(pair->a.listen_address, sizeof pair->a.listen_address, "localhost:0");
    net_node_open(&pair->a);
    (void)snprintf(pair->b.listen_address, sizeof pair->b.listen_address, "[::1]:0");
    pair->b.config.listen_address = pair->b.listen_address;
    pair->b.config.keys = net_fixture_keys("test", "secret", NULL);
    rv = net_uv_open(&pair->world.loop, &pair->b.config, &pair->b.net);
    net_keys_unref(pair->b.config.keys);
    if (rv != 0) {
        skip(); /* no IPv6 here */
    }
    (void)snprintf(address, sizeof address, "[::1]:%u", (unsigned)net_uv_port(pair->b.net));
    net_node_set_peer(&pair->a, 2, address);
    net_node_set_peer(&pair->b, 1, "127.0.0.1:1");
    RUN_UNTIL(&pair->world, pair->a.up[2]);
}

static void test_close_in_every_state(void **state)
{
    struct net_pair *pair = *state;

    for (unsigned turns = 0; turns < 12; turns++) {
        net_pair_open(pair);
        net_node_set_peer(&pair->b, 1, "localhost:1"); /* something to resolve */
        net_world_expect(&pair->world);
        for (unsigned i = 0; i < turns; i++) {
            net_world_turn(&pair->world, "a turn");
        }
        (void)net_node_send(&pair->a, 2, 0, 100000);
        net_node_close(&pair->a);
        net_node_close(&pair->b);
    }
    assert_int_equal(pair->a.received, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, net_pair_setup, net_pair_teardown)
        T(test_frames_arrive_in_order),
        T(test_burst_larger_than_the_sockets_take),
        T(test_largest_frame),
        T(test_a_large_frame_goes_in_parts),
        T(test_a_turn_takes_a_part_of_the_input),
        T(test_every_type_arrives),
        T(test_urgent_frames_leave_at_once),
        T(test_an_urgent_frame_finds_the_link_broken),
        T(test_send_errors),
        T(test_wrong_secret),
        T(test_wrong_cluster),
        T(test_wrong_node_at_the_address),
        T(test_same_id_twice),
        T(test_whose_data_a_peer_is_here_with),
        T(test_wiped_store),
        T(test_unknown_peer_until_it_is_known),
        T(test_restart_and_reconnect),
        T(test_a_peer_that_dials_is_dialled_soon),
        T(test_names_are_resolved),
        T(test_address_changes),
        T(test_removed_peer_is_cut_both_ways),
        T(test_malformed_payload_closes_the_link),
        T(test_open_errors),
        T(test_listens_on_a_name_and_on_ipv6),
        T(test_close_in_every_state),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
