/*
 * test_net_uv_dial.c - what a node sends: whom it believes, its queues, liveness of its links.
 *
 * Thread: one.
 */
#include "raft/transport/net_uv.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_lone.h"
#include "src/base/limits.h"

/* --- the node dials somebody who does not play by the rules --- */

static void test_acceptor_without_the_secret(void **state)
{
    struct net_keys *keys = net_fixture_keys("test", "Secret", NULL);
    struct net_lone *h = *state;

    net_server_accept(&h->client, &h->world, h->listen_fd, 2);
    h->client.tls = tls_channel_new(keys, NULL, 2, 0);
    RUN_UNTIL(&h->world, net_client_ended(&h->client));
    assert_false(h->client.tls->state == CHANNEL_OPEN);
    assert_string_equal(h->client.tls->reason, "another secret");
    net_keys_unref(keys);
    net_client_close(&h->client);
    /* it tries again, and finds the right one */
    net_server_accept(&h->client, &h->world, h->listen_fd, 2);
    net_server_shake(&h->client);
    RUN_UNTIL(&h->world, h->node.up[2]);
    assert_int_equal(h->node.refusals, 0);
}

static void test_acceptor_that_skips_the_proof(void **state)
{
    static const enum frame_type types[] = {FRAME_WELCOME, FRAME_PROOF, FRAME_HELLO, FRAME_RAFT};
    struct net_lone *h = *state;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        net_server_accept(&h->client, &h->world, h->listen_fd, 2);
        net_client_write_frame(&h->client, types[i], NULL, 0);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        net_client_close(&h->client);
    }
    assert_int_equal(h->node.ups + h->node.received + h->node.refusals, 0);
}

/* Anybody may say "your store was wiped", or of another version; only one with the secret is
 * believed. */
static void test_forged_rejections(void **state)
{
    struct net_lone *h = *state;

    for (unsigned i = 0; i < 2; i++) {
        net_server_accept(&h->client, &h->world, h->listen_fd, 2);
        net_client_write_frame(&h->client, FRAME_REJECT, i == 0 ? "\x07\0\0\0" : "\x02\0\0\0", 4);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        net_client_close(&h->client);
    }
    assert_int_equal(h->node.refusals, 0);
    for (unsigned i = 0; i < 2; i++) { /* told once, not at each dial */
        net_server_accept(&h->client, &h->world, h->listen_fd, 2);
        net_server_secure(&h->client);
        net_client_write_frame(&h->client, FRAME_REJECT, "\x02\0\0\0", 4);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        net_client_close(&h->client);
        assert_int_equal(h->node.refusals, 1);
        assert_int_equal(h->node.refused_err, ERR_BAD_VERSION);
        assert_int_equal(net_uv_link(h->node.net, 2)->backoff_ms, LIMIT_REDIAL_MAX_MS);
    }
}

static void test_deaf_acceptor(void **state)
{
    struct net_lone *h = *state;

    net_lone_reopen(h, 1000, 0, 0, 0);
    net_server_accept(&h->client, &h->world, h->listen_fd, 2);
    RUN_UNTIL(&h->world, net_client_ended(&h->client)); /* says nothing */
    net_client_close(&h->client);
    net_server_accept(&h->client, &h->world, h->listen_fd, 2);
    net_server_shake(&h->client);
    RUN_UNTIL(&h->world, h->node.up[2]);
}

/* --- dialling again --- */

static bool failed_with(struct net_lone *h, const char *reason)
{
    return strcmp(net_uv_link(h->node.net, 2)->reason, reason) == 0;
}

static void test_waits_double_up_to_a_second(void **state)
{
    struct net_lone *h = *state;
    struct net_link *link;
    uint32_t wait_ms = LIMIT_REDIAL_MIN_MS;

    net_node_set_peer(&h->node, 2, "127.0.0.1:1"); /* where nobody listens */
    link = net_uv_link(h->node.net, 2);
    assert_int_equal(link->backoff_ms, wait_ms);
    while (wait_ms < LIMIT_REDIAL_MAX_MS) {
        const uint32_t next_ms =
            wait_ms * 2 < LIMIT_REDIAL_MAX_MS ? wait_ms * 2 : LIMIT_REDIAL_MAX_MS;

        RUN_UNTIL(&h->world, link->backoff_ms != wait_ms);
        assert_int_equal(link->backoff_ms, next_ms);
        assert_true(uv_timer_get_due_in(&link->redial) <= wait_ms);
        assert_string_equal(link->reason, "connection refused");
        assert_true(h->node.gone[2] > 0);
        wait_ms = next_ms;
    }
    /* another address: from the start again */
    net_node_set_peer(&h->node, 2, "127.0.0.1:2");
    assert_int_equal(link->backoff_ms, LIMIT_REDIAL_MIN_MS);
}

static void test_a_link_that_lasted_redials_soon(void **state)
{
    struct net_lone *h = *state;
    struct net_link *link;

    net_lone_connect_server(h);
    link = net_uv_link(h->node.net, 2);
    link->backoff_ms = 400;
    net_client_close(&h->client);
    RUN_UNTIL(&h->world, !h->node.up[2]);
    assert_int_equal(link->backoff_ms, 800); /* it lasted for a moment only */
    net_lone_connect_server(h);
    link->conn->up_ms -= LIMIT_REDIAL_MAX_MS;
    net_client_close(&h->client);
    RUN_UNTIL(&h->world, !h->node.up[2]);
    assert_int_equal(link->backoff_ms, 2 * LIMIT_REDIAL_MIN_MS);
}

/* What was up is soon looked for again, however short it was up; but not each time. */
static void test_a_link_that_was_up_redials_soon_once(void **state)
{
    struct net_lone *h = *state;
    struct net_link *link;
    uint64_t now_ms;

    net_lone_connect_server(h);
    link = net_uv_link(h->node.net, 2);
    link->backoff_ms = LIMIT_REDIAL_MAX_MS;
    net_client_close(&h->client);
    RUN_UNTIL(&h->world, !h->node.up[2]);
    assert_true(uv_timer_get_due_in(&link->redial) <= LIMIT_REDIAL_MIN_MS);
    assert_int_equal(link->backoff_ms, LIMIT_REDIAL_MAX_MS);
    net_lone_connect_server(h);
    now_ms = uv_now(&h->world.loop);
    link->lost_ms = now_ms;
    net_client_close(&h->client);
    RUN_UNTIL(&h->world, !h->node.up[2]);
    now_ms = uv_now(&h->world.loop) - now_ms; /* as long as a machine stood still */
    assert_true(uv_timer_get_due_in(&link->redial) + now_ms > LIMIT_REDIAL_MIN_MS);
    /* a little later it may again */
    net_lone_connect_server(h);
    link->lost_ms -= LIMIT_REDIAL_SOON_MS;
    net_client_close(&h->client);
    RUN_UNTIL(&h->world, !h->node.up[2]);
    assert_true(uv_timer_get_due_in(&link->redial) <= LIMIT_REDIAL_MIN_MS);
}

static void test_addresses_that_cannot_be_dialled(void **state)
{
    struct net_lone *h = *state;
    char long_label[80];

    net_node_set_peer(&h->node, 2, "no port");
    RUN_UNTIL(&h->world, failed_with(h, "its address is not host:port"));
    /* refused by this machine's kernel and resolver: nothing goes out */
    net_node_set_peer(&h->node, 2, "255.255.255.255:1");
    RUN_UNTIL(&h->world, net_uv_link(h->node.net, 2)->reason[0] != '\0');
    assert_false(failed_with(h, "no answer to connect")); /* it was known at once */
    memset(long_label, 'x', 70);
    memcpy(long_label + 70, ".x:1", 5);
    net_node_set_peer(&h->node, 2, long_label);
    RUN_UNTIL(&h->world, net_uv_link(h->node.net, 2)->reason[0] != '\0');
    assert_int_equal(h->node.ups, 0);
    net_server_accept(&h->client, &h->world, h->listen_fd, 2); /* of the first address, given up */
    RUN_UNTIL(&h->world, net_client_ended(&h->client));
    net_client_close(&h->client);
    net_node_set_peer(&h->node, 2, h->peer_address);
    net_lone_connect_server(h);
}

/* The kernel of the other side takes no more connections: the node gives up and dials again. */
static void test_connect_without_an_answer(void **state)
{
    struct net_lone *h = *state;
    struct net_link *link;

    net_node_close(&h->node);
    h->node.config.connect_ms = 50;
    net_node_open(&h->node);
    assert_int_equal(close(h->listen_fd), 0);
    h->listen_fd = net_server_listen(h->peer_address);
    assert_int_equal(listen(h->listen_fd, 0), 0); /* room for one, which is taken now */
    net_client_connect_to(&h->client, &h->world, h->listen_fd);
    net_node_set_peer(&h->node, 2, h->peer_address);
    link = net_uv_link(h->node.net, 2);
    RUN_UNTIL(&h->world, strcmp(link->reason, "no answer to connect") == 0);
    assert_int_equal(h->node.ups, 0);
}

static void test_socket_options(void **state)
{
    struct net_lone *h = *state;
    unsigned timeout_ms = 0;
    socklen_t len = sizeof timeout_ms;
    int nodelay = 0;
    uv_os_fd_t fd;

    net_lone_connect_server(h);
    assert_int_equal(uv_fileno((uv_handle_t *)&net_uv_link(h->node.net, 2)->conn->tcp, &fd), 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &len), 0);
    assert_int_equal(timeout_ms, LIMIT_PEER_STALL_MS);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len), 0);
    assert_int_equal(nodelay, 1);
}

static void test_data_on_the_sending_link(void **state)
{
    struct net_lone *h = *state;

    net_lone_connect_server(h);
    net_client_write_frame(&h->client, FRAME_RAFT, "forged", 6);
    RUN_UNTIL(&h->world, !h->node.up[2]);
    assert_int_equal(h->node.received, 0);
}

/* --- bounds and liveness of what we send --- */

static void test_queue_bound(void **state)
{
    const size_t len = 1 << 20;
    struct net_lone *h = *state;
    uint64_t sent = 0;
    int rv;

    net_lone_reopen(h, 0, 0, 200, 0);
    net_lone_connect_server(h);
    /* The peer reads nothing. Without a turn of the loop nothing leaves the queue either. */
    while ((rv = net_node_send(&h->node, 2, sent, len)) == 0) {
        sent++;
        assert_true(sent <= LIMIT_PEER_QUEUE_BYTES / len);
    }
    assert_int_equal(rv, ERR_OVERLOADED);
    assert_int_equal(sent, LIMIT_PEER_QUEUE_BYTES / (len + FRAME_HEADER_BYTES));
    assert_true(net_node_connected(&h->node, 2));
    /* exactly up to the bound, and not one byte more */
    assert_int_equal(net_node_send(&h->node, 2, sent,
                                   LIMIT_PEER_QUEUE_BYTES - sent * (len + FRAME_HEADER_BYTES) -
                                       FRAME_HEADER_BYTES),
                     0);
    assert_int_equal(net_node_send(&h->node, 2, sent, 8), ERR_OVERLOADED);
    /* no progress: closed, and what was queued is lost */
    RUN_UNTIL(&h->world, !h->node.up[2]);
    assert_int_equal(net_node_send(&h->node, 2, 0, 8), ERR_IO);
}

/* What counts is progress since the last look, however much is left. */
static void test_stall_is_told_from_slowness(void **state)
{
    struct net_lone *h = *state;
    struct net_conn *conn;
    struct net_out *out;
    uint64_t now_ms;

    net_lone_connect_server(h);
    conn = net_uv_link(h->node.net, 2)->conn;
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(net_node_send(&h->node, 2, i, 1 << 20), 0);
    }
    out = &conn->out;
    RUN_UNTIL(&h->world, out->writing);
    now_ms = uv_now(&h->world.loop);
    out->unsent_bytes = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp) + 1;
    out->progress_ms = now_ms - LIMIT_PEER_STALL_MS;
    assert_int_equal(net_out_stalled_ms(out), 0); /* one byte less than before */
    assert_int_equal(out->progress_ms, now_ms);
    out->progress_ms = now_ms - LIMIT_PEER_STALL_MS + 1;
    assert_int_equal(net_out_stalled_ms(out), LIMIT_PEER_STALL_MS - 1);
    net_conn_check(conn);
    assert_int_equal(conn->state, NET_CONN_UP);
    out->progress_ms = now_ms - LIMIT_PEER_STALL_MS;
    net_conn_check(conn);
    assert_int_equal(conn->state, NET_CONN_CLOSING);
    assert_true(failed_with(h, "the peer takes no data"));
    RUN_UNTIL(&h->world, !h->node.up[2]);
}

/* A peer that reads slowly, but reads, is not cut off, and gets all in order. */
static void test_slow_reader(void **state)
{
    const uint64_t count = 24;
    const size_t len = 1 << 20;
    struct net_lone *h = *state;
    struct buf payload = BUF_INIT;

    net_lone_connect_server(h);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(net_node_send(&h->node, 2, i, len), 0);
    }
    for (uint64_t i = 0; i < count; i++) {
        RUN_UNTIL(&h->world, net_client_has_frame(&h->client));
        assert_int_equal(net_client_take_frame(&h->client, &payload), FRAME_RAFT);
        assert_int_equal(payload.len, len);
        assert_int_equal(payload.data[0], i);
        assert_int_equal(payload.data[len - 1], i);
    }
    assert_int_equal(h->node.downs, 0);
    buf_free(&payload);
}

/* The frames of one turn leave together, without waiting for anything. */
static void test_frames_of_a_turn_share_a_write(void **state)
{
    const uint64_t count = 100;
    struct net_lone *h = *state;

    net_lone_connect_server(h);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(net_node_send(&h->node, 2, i, 20), 0);
    }
    assert_false(net_client_has_frame(&h->client));
    net_world_expect(&h->world);
    net_world_turn(&h->world, "one turn");
    assert_false(net_client_ended(&h->client));
    assert_int_equal(h->client.input.len, count * (FRAME_HEADER_BYTES + 20));
}

static void test_idle_link_is_pinged(void **state)
{
    struct net_lone *h = *state;
    struct buf payload = BUF_INIT;

    net_lone_reopen(h, 0, 40, 0, 0);
    net_lone_connect_server(h);
    for (unsigned i = 0; i < 3; i++) {
        RUN_UNTIL(&h->world, net_client_has_frame(&h->client));
        assert_int_equal(net_client_take_frame(&h->client, &payload), FRAME_PING);
    }
    buf_free(&payload);
    net_client_connect(&h->other, &h->node, 2);
    net_client_shake(&h->other, 1);
    net_client_write_frame(&h->other, FRAME_PING, NULL, 0); /* and is not for the receiver */
    net_client_write_frame(&h->other, FRAME_RAFT, "honest", 6);
    RUN_UNTIL(&h->world, h->node.received == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, net_lone_setup, net_lone_teardown)
        T(test_acceptor_without_the_secret),
        T(test_acceptor_that_skips_the_proof),
        T(test_forged_rejections),
        T(test_deaf_acceptor),
        T(test_waits_double_up_to_a_second),
        T(test_a_link_that_lasted_redials_soon),
        T(test_a_link_that_was_up_redials_soon_once),
        T(test_addresses_that_cannot_be_dialled),
        T(test_connect_without_an_answer),
        T(test_socket_options),
        T(test_data_on_the_sending_link),
        T(test_queue_bound),
        T(test_stall_is_told_from_slowness),
        T(test_slow_reader),
        T(test_frames_of_a_turn_share_a_write),
        T(test_idle_link_is_pinged),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
