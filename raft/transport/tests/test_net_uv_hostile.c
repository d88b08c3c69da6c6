/*
 * test_net_uv_hostile.c - net_uv against clients that do not play by the rules.
 *
 * Nothing of a stranger may reach the node's receiver, and it must serve an honest peer afterwards.
 *
 * Thread: one.
 */
#include "raft/transport/net_uv.h"

#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "raft/transport/tests/net_lone.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

/* The client is thrown out; nothing of it was heard; an honest peer comes through afterwards, with
 * the usual times. */
static void assert_thrown_out(struct net_lone *h)
{
    const unsigned heard = h->node.received;

    RUN_UNTIL(&h->world, net_client_ended(&h->client));
    net_client_close(&h->client);
    h->hub->config.handshake_ms = LIMIT_HANDSHAKE_MS;
    h->hub->config.silent_ms = LIMIT_PEER_SILENT_MS;
    net_client_connect(&h->client, &h->node, 2);
    net_client_shake(&h->client, 1);
    net_client_write_frame(&h->client, FRAME_RAFT, "honest", 6);
    RUN_UNTIL(&h->world, h->node.received == heard + 1);
    assert_int_equal(h->node.last_len, 6);
}

static void connect_and_write(struct net_lone *h, const void *data, size_t len)
{
    net_client_connect(&h->client, &h->node, 2);
    net_client_write(&h->client, data, len);
}

/* --- before the handshake is done --- */

static void test_garbage(void **state)
{
    struct net_lone *h = *state;
    struct prng prng;

    prng_seed(&prng, 1);
    for (unsigned i = 0; i < 20; i++) {
        uint8_t data[512];

        for (size_t j = 0; j < sizeof data; j++) {
            data[j] = (uint8_t)prng_next(&prng);
        }
        connect_and_write(h, data, sizeof data);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        assert_int_equal(h->client.input.len, 0);
        net_client_close(&h->client);
    }
    connect_and_write(h, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    assert_thrown_out(h);
}

static void test_huge_length(void **state)
{
    struct net_lone *h = *state;

    connect_and_write(h, "\xff\xff\xff\xff\0\0\0\0\x01\x01\0\0", FRAME_HEADER_BYTES);
    assert_thrown_out(h);
}

/* Shows P7-peer-port. */
static void test_frames_before_the_handshake(void **state)
{
    struct net_lone *h = *state;

    for (unsigned type = FRAME_RAFT; type <= FRAME_PING; type++) {
        net_client_connect(&h->client, &h->node, 2);
        net_client_write_frame(&h->client, (enum frame_type)type, "forged", 6);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        net_client_close(&h->client);
    }
    assert_int_equal(h->node.received, 0);
    net_client_connect(&h->client, &h->node, 2);
    net_client_write_frame(&h->client, FRAME_RAFT, "forged", 6);
    assert_thrown_out(h);
    assert_int_equal(h->node.received, 1);
}

/* A good HELLO, and frames instead of the proof, in one piece. */
static void test_frames_in_the_middle_of_the_handshake(void **state)
{
    struct net_lone *h = *state;

    net_client_connect(&h->client, &h->node, 2);
    net_client_secure(&h->client, 1);
    handshake_dial(&h->client.handshake, &h->client.config, 1, &h->client.proof, &h->buf);
    frame_put(&h->buf, FRAME_RAFT, "forged", 6);
    net_client_write(&h->client, h->buf.data, h->buf.len);
    assert_thrown_out(h);
    assert_int_equal(h->node.received, 1);
}

/* The node says no with a code, and the connection stays until the client closes or time is up. */
static enum handshake_reject shake_until_rejected(struct net_lone *h)
{
    struct net_client *client = &h->client;
    struct buf payload = BUF_INIT;

    h->buf.len = 0;
    net_client_secure(client, 1);
    handshake_dial(&client->handshake, &client->config, 1, &client->proof, &h->buf);
    while (client->handshake.state != HANDSHAKE_FAILED) {
        enum frame_type type;

        assert_int_not_equal(client->handshake.state, HANDSHAKE_DONE);
        net_client_write(client, h->buf.data, h->buf.len);
        h->buf.len = 0;
        RUN_UNTIL(&h->world, net_client_has_frame(client));
        type = net_client_take_frame(client, &payload);
        handshake_receive(&client->handshake, type, payload.data, payload.len, &h->buf);
    }
    buf_free(&payload);
    assert_true(client->handshake.by_peer);
    return client->handshake.reject;
}

/* Frames after a rejection go nowhere. */
static void assert_deaf(struct net_lone *h)
{
    const unsigned heard = h->node.received;

    net_client_write_frame(&h->client, FRAME_RAFT, "forged", 6);
    net_client_write_frame(&h->client, FRAME_HELLO, "forged", 6);
    net_client_connect(&h->other, &h->node, 2);
    net_client_shake(&h->other, 1);
    net_client_write_frame(&h->other, FRAME_RAFT, "honest", 6);
    RUN_UNTIL(&h->world, h->node.received == heard + 1);
    assert_int_equal(h->node.received_from[2], heard + 1);
    net_client_close(&h->client);
    net_client_close(&h->other);
}

static void test_rejections(void **state)
{
    struct net_lone *h = *state;

    net_client_connect(&h->client, &h->node, 2);
    h->client.config.cluster_id = "other";
    assert_int_equal(shake_until_rejected(h), HANDSHAKE_REJECT_CLUSTER);
    assert_deaf(h);
    net_client_connect(&h->client, &h->node, 3);
    assert_int_equal(shake_until_rejected(h), HANDSHAKE_REJECT_PEER);
    assert_deaf(h);
    net_client_connect(&h->client, &h->node, 2);
    h->client.config.store_id = 7;
    h->node.unwelcome_store = 7;
    assert_int_equal(shake_until_rejected(h), HANDSHAKE_REJECT_STORE);
    assert_deaf(h);
    assert_int_equal(h->node.received, 3);
}

/* A client that knows all but the secret gets an alert, which nothing was made of with it. */
static void test_wrong_proof(void **state)
{
    struct net_keys *keys = net_fixture_keys("test", "Secret", NULL);
    struct net_lone *h = *state;
    struct tls_channel *tls = tls_channel_new(keys, &keys->credentials[0], 2, 1);
    struct buf *hello = &tls->out;

    connect_and_write(h, hello->data, hello->len);
    RUN_UNTIL(&h->world, net_client_ended(&h->client));
    assert_hex(h->client.input.data, h->client.input.len, "15 0303 0002 02 2f");
    net_client_close(&h->client);
    tls_channel_free(tls);
    net_keys_unref(keys);
    connect_and_write(h, "", 0);
    assert_int_equal(h->node.received, 0);
}

/* All that an honest client once sent, sent again: the node's key is another one this time. */
/* Shows P7-peer-port. */
static void test_replay_of_a_recorded_handshake(void **state)
{
    struct net_lone *h = *state;
    struct buf record = BUF_INIT;

    net_client_connect(&h->client, &h->node, 2);
    h->client.record = &record;
    net_client_shake(&h->client, 1);
    net_client_write_frame(&h->client, FRAME_RAFT, "honest", 6);
    RUN_UNTIL(&h->world, h->node.received == 1);
    net_client_close(&h->client);
    connect_and_write(h, record.data, record.len);
    buf_free(&record);
    assert_thrown_out(h);
    assert_int_equal(h->node.received, 2);
}

/* Each bit of what a peer sends counts. */
/* Shows P7-peer-bytes. */
static void test_a_bit_flipped_in_flight(void **state)
{
    struct net_lone *h = *state;

    for (size_t at = 0; at < 40; at += 3) {
        struct buf *out;

        net_client_connect(&h->client, &h->node, 2);
        net_client_shake(&h->client, 1);
        h->buf.len = 0;
        frame_put(&h->buf, FRAME_RAFT, "honest", 6);
        tls_channel_write(h->client.tls, h->buf.data, h->buf.len);
        tls_channel_seal(h->client.tls);
        out = &h->client.tls->out;
        assert_int_equal(out->len, h->buf.len + 22);
        out->data[at % out->len] ^= 1;
        if (at == 3) {
            net_client_close(&h->client); /* a length: it would wait for more */
            continue;
        }
        net_client_write_raw(&h->client, out->data, out->len);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        assert_int_equal(h->node.received, 0);
        net_client_close(&h->client);
    }
}

static void test_half_open(void **state)
{
    struct net_lone *h = *state;

    net_lone_reopen(h, 100, 0, 0, 0);
    net_client_connect(&h->client, &h->node, 2);
    assert_thrown_out(h);
}

/* A byte a millisecond of a record of 16 KiB: the deadline is for the whole handshake. */
static void test_slow_drip(void **state)
{
    struct net_lone *h = *state;
    uint64_t written_ms = 0;

    net_lone_reopen(h, 150, 0, 0, 0);
    connect_and_write(h, "\x16\x03\x01\x40", 5);
    net_world_expect(&h->world);
    while (!net_client_ended(&h->client)) {
        if (written_ms != uv_now(&h->world.loop)) {
            written_ms = uv_now(&h->world.loop);
            net_client_write(&h->client, "\1", 1);
        }
        net_world_turn(&h->world, "thrown out");
    }
    assert_thrown_out(h);
}

/* Silent strangers fill all places; peers still get in, and so do not more than the limit. */
static void test_too_many_connections(void **state)
{
    struct net_lone *h = *state;
    struct net_client *crowd = calloc(LIMIT_PEER_CONNECTIONS + 1, sizeof *crowd);

    assert_non_null(crowd);
    /* one in use, which must stay */
    net_client_connect(&h->other, &h->node, 2);
    net_client_shake(&h->other, 1);
    for (size_t i = 0; i < LIMIT_PEER_CONNECTIONS - 1; i++) {
        net_client_connect(&crowd[i], &h->node, 2);
    }
    net_client_connect(&h->client, &h->node, 2); /* one more than there is room for */
    RUN_UNTIL(&h->world, net_client_ended(&crowd[0]));
    for (size_t i = 1; i < LIMIT_PEER_CONNECTIONS - 1; i++) {
        assert_false(net_client_ended(&crowd[i]));
    }
    assert_false(net_client_ended(&h->other));
    net_client_write_frame(&h->other, FRAME_RAFT, "honest", 6);
    RUN_UNTIL(&h->world, h->node.received == 1);
    net_client_shake(&h->client, 1); /* and takes the place of the other one */
    RUN_UNTIL(&h->world, net_client_ended(&h->other));
    for (size_t i = 0; i < LIMIT_PEER_CONNECTIONS - 1; i++) {
        net_client_close(&crowd[i]);
    }
    free(crowd);
    net_client_write_frame(&h->client, FRAME_RAFT, "honest", 6);
    RUN_UNTIL(&h->world, h->node.received == 2);
}

/* --- after the handshake --- */

static void shake_and_write_hex(struct net_lone *h, const char *hex)
{
    net_client_connect(&h->client, &h->node, 2);
    net_client_shake(&h->client, 1);
    h->buf.len = 0;
    hex_put(&h->buf, hex);
    net_client_write(&h->client, h->buf.data, h->buf.len);
}

static void test_broken_frames_after_the_handshake(void **state)
{
    static const char *const broken[] = {
        "07000000 56ea1e46 01 10 0000 616263", /* checksum */
        "07000000 56ea1e45 02 10 0000 616263", /* version */
        "07000000 56ea1e45 01 18 0000 616263", /* unknown type */
        "07000000 56ea1e45 01 01 0000 616263", /* a handshake's type */
        "07000000 56ea1e45 01 10 0100 616263", /* reserved bits */
        "03000000 56ea1e45 01 10 0000",        /* too short */
        "f9ff7f00 56ea1e45 01 10 0000",        /* one byte too long */
        "ffffffff 56ea1e45 01 10 0000",
    };
    struct net_lone *h = *state;

    shake_and_write_hex(h, "07000000 56ea1e45 01 10 0000 616263");
    RUN_UNTIL(&h->world, h->node.received == 1);
    net_client_close(&h->client);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        shake_and_write_hex(h, broken[i]);
        RUN_UNTIL(&h->world, net_client_ended(&h->client));
        assert_int_equal(h->node.received, 1);
        net_client_close(&h->client);
    }
}

/* What comes after a broken frame on the same connection is not looked at. */
static void test_nothing_after_a_broken_frame(void **state)
{
    struct net_lone *h = *state;

    shake_and_write_hex(h, "07000000 56ea1e45 01 10 0000 616263"
                           "07000000 56ea1e46 01 10 0000 616263"
                           "07000000 56ea1e45 01 10 0000 616263");
    RUN_UNTIL(&h->world, net_client_ended(&h->client));
    assert_int_equal(h->node.received, 1);
}

static void test_newer_connection_replaces_the_older(void **state)
{
    struct net_lone *h = *state;

    net_client_connect(&h->other, &h->node, 2);
    net_client_shake(&h->other, 1);
    net_client_write_frame(&h->other, FRAME_RAFT, "first", 5);
    RUN_UNTIL(&h->world, h->node.received == 1);
    net_client_connect(&h->client, &h->node, 2);
    net_client_shake(&h->client, 1);
    /* The newer is through: whatever the older one still sends is too late. */
    if (!net_client_ended(&h->other)) {
        net_client_write_frame(&h->other, FRAME_RAFT, "late", 4);
    }
    net_client_write_frame(&h->client, FRAME_RAFT, "second", 6);
    RUN_UNTIL(&h->world, net_client_ended(&h->other));
    RUN_UNTIL(&h->world, h->node.received == 2);
    assert_int_equal(h->node.last_len, 6);
}

static void test_silent_peer_is_closed(void **state)
{
    struct net_lone *h = *state;

    net_lone_reopen(h, 0, 0, 0, 100);
    net_client_connect(&h->client, &h->node, 2);
    net_client_shake(&h->client, 1);
    assert_thrown_out(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, net_lone_setup, net_lone_teardown)
        T(test_garbage),
        T(test_huge_length),
        T(test_frames_before_the_handshake),
        T(test_frames_in_the_middle_of_the_handshake),
        T(test_rejections),
        T(test_wrong_proof),
        T(test_replay_of_a_recorded_handshake),
        T(test_a_bit_flipped_in_flight),
        T(test_half_open),
        T(test_slow_drip),
        T(test_too_many_connections),
        T(test_broken_frames_after_the_handshake),
        T(test_nothing_after_a_broken_frame),
        T(test_newer_connection_replaces_the_older),
        T(test_silent_peer_is_closed),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
