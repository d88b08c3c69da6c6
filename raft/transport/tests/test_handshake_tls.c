/*
 * test_handshake_tls.c - the handshake inside TLS: golden bytes, what TLS has proved, and that all
 * that it says is told and believed at once.
 *
 * Thread: one.
 */
#include "raft/transport/handshake.h"

#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "raft/wire/wire.h"
#include "src/base/err.h"

static int store_refused; /* what judge says of a store */

static unsigned spoke[3]; /* how often a node was judged that is let in */

static int judge_cb(struct net_receiver *receiver, const struct net_claim *claim,
                    uint16_t *ret_level)
{
    assert_true(receiver != NULL && claim->id > 0 && claim->store_id > 0);
    *ret_level = 3;
    if (store_refused != 0) {
        return store_refused;
    }
    assert_true(claim->id < sizeof spoke / sizeof spoke[0] && claim->levels.min == 1 &&
                claim->levels.max == 3);
    spoke[claim->id]++;
    if (claim->states) {
        assert_int_equal(claim->id, 1);
        assert_hex(claim->statement, claim->len, "7361 6964");
    }
    return 0;
}

static void introduce_cb(struct net_receiver *receiver, struct buf *statement)
{
    (void)receiver;
    buf_put(statement, "said", 4);
}

static struct net_receiver receiver = {.judge = judge_cb, .introduce = introduce_cb};

static const struct handshake_config dialler = {
    .node_id = 1, .store_id = 1001, .cluster_id = "test", .levels = {1, 3}, .receiver = &receiver};
static const struct handshake_config acceptor = {
    .node_id = 2, .store_id = 1002, .cluster_id = "test", .levels = {1, 3}, .receiver = &receiver};
static const struct tls_peer of_dialler = {.same_cluster = true, .node_id = 2};
static const struct tls_peer of_acceptor = {
    .same_cluster = true, .node_id = 1, .says_wanted = true, .wanted = 2};

static int reset(void **state)
{
    (void)state;
    store_refused = 0;
    memset(spoke, 0, sizeof spoke);
    return 0;
}

/* The one frame that is there goes to the other side; its payload is checked. */
static void pass(struct buf *out, struct handshake *to, enum frame_type type, const char *hex)
{
    struct frame_decoder decoder;
    struct buf answer = BUF_INIT;
    const uint8_t *data = out->data;
    size_t len = out->len;
    struct frame frame;

    decoder = (struct frame_decoder){0};
    assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 1);
    assert_int_equal(len, 0);
    assert_int_equal(frame.type, type);
    assert_hex(frame.payload, frame.len, hex);
    handshake_receive(to, frame.type, frame.payload, frame.len, &answer);
    buf_free(out);
    buf_move(out, &answer);
    buf_free(&decoder.buf);
}

#define HELLO "0500 0100 0300 0400 74657374 0100000000000000 0200000000000000 e903000000000000"
#define CHALLENGE "0500 0100 0300 0400 74657374 0200000000000000 ea03000000000000"

static void test_golden_bytes(void **state)
{
    struct handshake a;
    struct handshake b;
    struct buf out = BUF_INIT;

    (void)state;
    handshake_accept(&b, &acceptor, &of_acceptor);
    handshake_dial(&a, &dialler, 2, &of_dialler, &out);
    pass(&out, &b, FRAME_HELLO, HELLO);
    pass(&out, &a, FRAME_CHALLENGE, CHALLENGE);
    pass(&out, &b, FRAME_PROOF, "7361 6964");
    assert_int_equal(b.state, HANDSHAKE_DONE);
    assert_int_equal(b.peer_id, 1);
    assert_int_equal(b.peer_store_id, 1001);
    pass(&out, &a, FRAME_WELCOME, "");
    assert_int_equal(a.state, HANDSHAKE_DONE);
    assert_int_equal(out.len, 0);
    assert_true(spoke[1] == 1 && spoke[2] == 1); /* each hears of the other's levels */
}

static void rejects_hello(const struct tls_peer *proof, enum handshake_reject reject)
{
    struct handshake a;
    struct handshake b;
    struct buf out = BUF_INIT;

    handshake_accept(&b, &acceptor, proof);
    handshake_dial(&a, &dialler, 2, &of_dialler, &out);
    pass(&out, &b, FRAME_HELLO, HELLO);
    assert_int_equal(b.state, HANDSHAKE_FAILED);
    assert_int_equal(b.reject, reject);
    buf_free(&out);
}

static void test_other_than_tls_has_proved(void **state)
{
    struct tls_peer proof = of_acceptor;

    (void)state;
    proof.node_id = 3;
    rejects_hello(&proof, HANDSHAKE_REJECT_NODE);
    proof = of_acceptor;
    proof.wanted = 3;
    rejects_hello(&proof, HANDSHAKE_REJECT_NODE);
    proof.wanted = 0;
    rejects_hello(&proof, HANDSHAKE_REJECT_NODE);
    proof = of_acceptor;
    proof.same_cluster = false;
    rejects_hello(&proof, HANDSHAKE_REJECT_CLUSTER);
}

/* A joining node takes whom the certificate names, and no other. */
static void test_a_node_that_joins(void **state)
{
    struct handshake a;
    struct buf out = BUF_INIT;

    (void)state;
    for (uint64_t named = 2; named <= 3; named++) {
        const struct tls_peer proof = {.same_cluster = true, .node_id = named};
        struct buf challenge = BUF_INIT;

        buf_free(&out);
        handshake_dial(&a, &dialler, 0, &proof, &out);
        hex_put(&challenge, CHALLENGE);
        handshake_receive(&a, FRAME_CHALLENGE, challenge.data, challenge.len, &out);
        assert_int_equal(a.state, named == 2 ? HANDSHAKE_PROOF_SENT : HANDSHAKE_FAILED);
        buf_free(&challenge);
    }
    buf_free(&out);
}

/* Who is there belongs here: so each reason comes in words, and ends a node where it must. */
static void test_a_wiped_store_is_told_at_once(void **state)
{
    struct handshake a;
    struct handshake b;
    struct buf out = BUF_INIT;
    struct frame_decoder decoder;
    const uint8_t *data;
    struct frame frame;
    size_t len;

    (void)state;
    handshake_accept(&b, &acceptor, &of_acceptor);
    handshake_dial(&a, &dialler, 2, &of_dialler, &out);
    pass(&out, &b, FRAME_HELLO, HELLO);
    pass(&out, &a, FRAME_CHALLENGE, CHALLENGE);
    store_refused = ERR_WRONG_NODE;
    pass(&out, &b, FRAME_PROOF, "7361 6964");
    decoder = (struct frame_decoder){0};
    data = out.data;
    len = out.len;
    assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 1);
    assert_int_equal(frame.type, FRAME_REJECT);
    assert_true(frame.len > 4);
    handshake_receive(&a, frame.type, frame.payload, frame.len, NULL);
    assert_int_equal(a.reject, HANDSHAKE_REJECT_STORE);
    assert_int_equal(spoke[1], 0); /* it is not let in */
    assert_true(a.by_peer);
    buf_free(&decoder.buf);
    buf_free(&out);
}

#define T(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_golden_bytes),
        T(test_other_than_tls_has_proved),
        T(test_a_node_that_joins),
        T(test_a_wiped_store_is_told_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
