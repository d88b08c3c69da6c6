/*
 * test_handshake.c - the handshake as a pure state machine: the way it should go, and each way it
 * must not. Golden bytes, and what TLS has proved, are in test_handshake_tls.c.
 *
 * Thread: one.
 */
#include "raft/transport/handshake.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/wire/wire.h"
#include "raft/transport/tests/net_hex.h"
#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

/* A frame in flight. */
struct message {
    enum frame_type type;
    struct buf payload;
};

/* A dialler, id 1, and an acceptor, id 2, of one cluster; tests change what they like. */
struct shake {
    struct net_receiver receiver; /* of both */
    struct handshake_config a_config;
    struct handshake_config b_config;
    struct handshake a;
    struct handshake b;
    struct message message;   /* the last one sent by either */
    int judged;               /* what b says of a and its statement, */
    uint16_t level;           /* if a speaks the level in force, */
    uint64_t unwelcome_store; /* and does not have this store */
};

static int judge_cb(struct net_receiver *receiver, const struct net_claim *claim,
                    uint16_t *ret_level)
{
    struct shake *shake = CONTAINER(receiver, struct shake, receiver);

    assert_true(claim->id > 0);
    if (claim->store_id == shake->unwelcome_store) {
        return ERR_WRONG_NODE;
    }
    *ret_level = shake->level;
    if (claim->levels.max < shake->level || !claim->states) {
        return claim->levels.max < shake->level ? ERR_NEWER : 0;
    }
    assert_int_equal(claim->id, shake->b.peer_id);
    return claim->len == 0 ? shake->judged : ERR_BAD_MESSAGE;
}

static struct handshake_config config_of(struct shake *shake, uint64_t id)
{
    return (struct handshake_config){.node_id = id,
                                     .store_id = 1000 + id,
                                     .cluster_id = "test",
                                     .levels = {1, (uint16_t)(1 + id)},
                                     .receiver = &shake->receiver};
}

static int setup(void **state)
{
    struct shake *shake = calloc(1, sizeof *shake);

    assert_non_null(shake);
    shake->receiver.judge = judge_cb;
    shake->a_config = config_of(shake, 1);
    shake->b_config = config_of(shake, 2);
    shake->level = LEVEL_FIRST;
    *state = shake;
    return 0;
}

static int teardown(void **state)
{
    struct shake *shake = *state;

    buf_free(&shake->message.payload);
    free(shake);
    return 0;
}

/* Exactly one frame, or none: then the type is 0. */
static void take_out(struct shake *shake, struct buf *out)
{
    struct frame_decoder decoder;
    const uint8_t *data = out->data;
    size_t len = out->len;
    struct frame frame;

    shake->message.type = (enum frame_type)0;
    shake->message.payload.len = 0;
    if (out->len > 0) {
        decoder = (struct frame_decoder){0};
        assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 1);
        assert_int_equal(len, 0);
        shake->message.type = frame.type;
        buf_put(&shake->message.payload, frame.payload, frame.len);
        buf_free(&decoder.buf);
    }
    buf_free(out);
}

static void begin(struct shake *shake)
{
    static const struct tls_peer any = {.same_cluster = true};
    struct buf out = BUF_INIT;

    handshake_accept(&shake->b, &shake->b_config, &any);
    handshake_dial(&shake->a, &shake->a_config, 2, &any, &out);
    take_out(shake, &out);
    assert_int_equal(shake->message.type, FRAME_HELLO);
}

/* Give the message in flight to one side. The payload ends where its memory does. */
static void deliver(struct shake *shake, struct handshake *to)
{
    uint8_t *copy = exact_copy(shake->message.payload.data, shake->message.payload.len);
    struct buf out = BUF_INIT;

    handshake_receive(to, shake->message.type, copy, shake->message.payload.len, &out);
    free(copy);
    take_out(shake, &out);
}

static void assert_denied(const struct handshake *handshake, enum handshake_reject reject,
                          bool by_peer)
{
    assert_int_equal(handshake->state, HANDSHAKE_FAILED);
    assert_int_equal(handshake->reject, reject);
    assert_int_equal(handshake->by_peer, by_peer);
}

/* HELLO, CHALLENGE, PROOF, WELCOME: stop before the n-th is delivered. */
static void run(struct shake *shake, unsigned n)
{
    begin(shake);
    for (unsigned i = 0; i < n; i++) {
        deliver(shake, i % 2 == 0 ? &shake->b : &shake->a);
    }
}

static void test_happy_path(void **state)
{
    struct shake *shake = *state;

    run(shake, 1);
    assert_int_equal(shake->message.type, FRAME_CHALLENGE);
    assert_int_equal(shake->b.state, HANDSHAKE_CHALLENGE_SENT);
    deliver(shake, &shake->a);
    assert_int_equal(shake->message.type, FRAME_PROOF);
    assert_int_equal(shake->a.state, HANDSHAKE_PROOF_SENT);
    deliver(shake, &shake->b);
    assert_int_equal(shake->message.type, FRAME_WELCOME);
    assert_int_equal(shake->b.state, HANDSHAKE_DONE);
    deliver(shake, &shake->a);
    assert_int_equal(shake->message.type, 0);
    assert_int_equal(shake->a.state, HANDSHAKE_DONE);
    assert_int_equal(shake->a.peer_id, 2);
    assert_int_equal(shake->a.peer_store_id, 1002);
    assert_int_equal(shake->b.peer_id, 1);
    assert_int_equal(shake->b.peer_store_id, 1001);
}

static void test_largest_cluster_id(void **state)
{
    struct shake *shake = *state;
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];

    memset(cluster_id, 'c', LIMIT_CLUSTER_ID_BYTES);
    cluster_id[LIMIT_CLUSTER_ID_BYTES] = '\0';
    shake->a_config.cluster_id = shake->b_config.cluster_id = cluster_id;
    run(shake, 4);
    assert_int_equal(shake->a.state, HANDSHAKE_DONE);
}

/* --- the acceptor says no before the proof --- */

static void check_rejected_hello(struct shake *shake, enum handshake_reject reject)
{
    run(shake, 1);
    assert_denied(&shake->b, reject, false);
    assert_int_equal(shake->message.type, FRAME_REJECT);
    assert_int_equal(shake->message.payload.data[0], reject);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, reject, true);
    assert_int_equal(shake->message.type, 0);
    assert_string_equal(shake->a.text, handshake_reject_info(reject)->text);
}

/* Shows lesson-wiped. */
static void test_another_cluster(void **state)
{
    static const char *const others[] = {"tesT", "tes", "test1", ""};
    struct shake *shake = *state;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        shake->a_config.cluster_id = others[i];
        check_rejected_hello(shake, HANDSHAKE_REJECT_CLUSTER);
    }
}

static void test_another_node(void **state)
{
    struct shake *shake = *state;

    shake->b_config.node_id = 3; /* 2 was wanted */
    check_rejected_hello(shake, HANDSHAKE_REJECT_NODE);
}

static void test_own_id_of_the_acceptor(void **state)
{
    struct shake *shake = *state;

    begin(shake);
    shake->message.payload.data[12] = 2; /* the dialler says it is 2 as well */
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_NODE, false);
}

static void test_ids_out_of_range(void **state)
{
    struct shake *shake = *state;

    begin(shake);
    shake->message.payload.data[12] = 0;
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_NODE, false);
    begin(shake);
    shake->message.payload.data[12] = shake->message.payload.data[13] = 0xff; /* 65535 */
    deliver(shake, &shake->b);
    assert_int_equal(shake->b.state, HANDSHAKE_CHALLENGE_SENT);
    begin(shake);
    shake->message.payload.data[14] = 1; /* 65537 */
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_NODE, false);
}

/* Another version is told apart even if nothing else of the frame is understood. */
static void test_another_version(void **state)
{
    struct shake *shake = *state;

    begin(shake);
    shake->message.payload.data[0] = HANDSHAKE_PROTOCOL + 1;
    shake->message.payload.len = 2; /* whatever follows them */
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_VERSION, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_VERSION, true);
    run(shake, 1);
    shake->message.payload.data[0] = HANDSHAKE_PROTOCOL + 1;
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_VERSION, false);
}

/* --- levels --- */

static void test_each_knows_the_others_levels(void **state)
{
    struct shake *shake = *state;

    run(shake, 4);
    assert_int_equal(shake->a.state, HANDSHAKE_DONE);
    assert_int_equal(shake->a.peer_levels.max, 3);
    assert_int_equal(shake->b.peer_levels.max, 2);
}

static void test_levels_that_do_not_meet(void **state)
{
    struct shake *shake = *state;

    shake->b_config.levels = (struct level_range){3, 4};
    run(shake, 1);
    assert_denied(&shake->b, HANDSHAKE_REJECT_LEVELS, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_LEVELS, true);
    assert_int_equal(handshake_reject_info(HANDSHAKE_REJECT_LEVELS)->err, ERR_BAD_VERSION);
    begin(shake);
    shake->message.payload.data[2] = 3; /* from 3 to 2 */
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_MALFORMED, false);
}

static void test_a_dialler_below_the_level_in_force_is_told_both_numbers(void **state)
{
    struct shake *shake = *state;

    shake->level = 2;
    run(shake, 4);
    assert_int_equal(shake->a.state, HANDSHAKE_DONE);
    begin(shake);
    deliver(shake, &shake->b);
    deliver(shake, &shake->a);
    shake->level = 3; /* b speaks it, a does not */
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_NEWER, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_NEWER, true);
    assert_non_null(strstr(handshake_reason(&shake->a),
                           "the cluster is at level 3 and this leafd speaks levels 1 to 2"));
    assert_int_equal(handshake_reject_info(HANDSHAKE_REJECT_NEWER)->err, ERR_NEWER);
    assert_true(handshake_reject_info(HANDSHAKE_REJECT_NEWER)->final);
    for (const char *c = "\"\\\n\x7f"; *c != '\0'; c++) { /* these are not for a line of the log */
        shake->a.text[0] = *c;
        assert_null(strstr(handshake_reason(&shake->a), "speaks levels 1 to 2"));
    }
}

static void test_an_acceptor_below_the_level_in_force_gets_no_proof(void **state)
{
    struct shake *shake = *state;

    shake->a_config.levels.max = 4;
    run(shake, 1);
    shake->level = 4;
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_NEWER, false);
    assert_int_equal(shake->message.type, 0);
}

/* --- who may join, asked after the proof --- */

static void test_unknown_peer(void **state)
{
    struct shake *shake = *state;

    shake->judged = ERR_NOT_FOUND;
    run(shake, 3);
    assert_denied(&shake->b, HANDSHAKE_REJECT_PEER, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_PEER, true);
    assert_string_equal(shake->a.text, handshake_reject_info(HANDSHAKE_REJECT_PEER)->text);
}

static void test_store_of_the_dialler(void **state)
{
    struct shake *shake = *state;

    shake->unwelcome_store = 1001;
    run(shake, 4);
    assert_denied(&shake->b, HANDSHAKE_REJECT_STORE, false);
    assert_denied(&shake->a, HANDSHAKE_REJECT_STORE, true);
}

static void test_store_of_the_acceptor(void **state)
{
    struct shake *shake = *state;

    shake->unwelcome_store = 1002;
    run(shake, 2); /* the other one hears who is there nevertheless */
    assert_int_equal(shake->a.state, HANDSHAKE_PROOF_SENT);
    run(shake, 4);
    assert_int_equal(shake->b.state, HANDSHAKE_DONE);
    assert_denied(&shake->a, HANDSHAKE_REJECT_STORE, false);
}

/* Each answer of the judge is a reject of its own. (The order of its steps: test_members.c.) */
static void test_each_error_of_the_judge(void **state)
{
    static const struct {
        int judged;
        enum handshake_reject reject;
        int err;
        bool final;
    } cases[] = {
        {ERR_OTHER_BIRTH, HANDSHAKE_REJECT_BIRTH, ERR_OTHER_BIRTH, true},
        {ERR_OTHER_LIST, HANDSHAKE_REJECT_LISTS, ERR_OTHER_LIST, true},
        {ERR_WRONG_NODE, HANDSHAKE_REJECT_STORE, ERR_WRONG_NODE, true},
        {ERR_REMOVED, HANDSHAKE_REJECT_REMOVED, ERR_REMOVED, true},
        {ERR_NEWER, HANDSHAKE_REJECT_NEWER, ERR_NEWER, true},
        {ERR_NOT_FOUND, HANDSHAKE_REJECT_PEER, ERR_NOT_FOUND, false},
        {ERR_STALE, HANDSHAKE_REJECT_OLDER, ERR_STALE, true},
        {ERR_IMPLAUSIBLE, HANDSHAKE_REJECT_IMPLAUSIBLE, ERR_IMPLAUSIBLE, true},
        {ERR_EXISTS, HANDSHAKE_REJECT_TWICE, ERR_REFUSED, false},
        {ERR_BAD_MESSAGE, HANDSHAKE_REJECT_MALFORMED, ERR_BAD_MESSAGE, false},
    };
    struct shake *shake = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shake->judged = cases[i].judged;
        run(shake, 4);
        assert_denied(&shake->b, cases[i].reject, false);
        assert_denied(&shake->a, cases[i].reject, true);
        assert_int_equal(handshake_reject_info(shake->a.reject)->err, cases[i].err);
        assert_int_equal(handshake_reject_info(shake->a.reject)->final, cases[i].final);
    }
}

/* Two nodes of two clusters have other stores than each of them knows: the dialler would refuse
 * first, and nobody would ever hear why. */
static void test_a_stray_node_hears_that_it_is_of_another_cluster(void **state)
{
    struct shake *shake = *state;

    shake->unwelcome_store = 1002;
    shake->judged = ERR_OTHER_BIRTH;
    run(shake, 4);
    assert_denied(&shake->a, HANDSHAKE_REJECT_BIRTH, true);
    assert_string_equal(shake->a.text, handshake_reject_info(HANDSHAKE_REJECT_BIRTH)->text);
    shake->judged = ERR_OTHER_LIST; /* of any other reason its own comes first */
    run(shake, 4);
    assert_denied(&shake->a, HANDSHAKE_REJECT_STORE, false);
}

/* --- frames out of turn and out of shape --- */

static void test_frames_out_of_turn(void **state)
{
    /* by the number of frames delivered: who is next, and the one type that is right */
    static const enum frame_type right[] = {FRAME_HELLO, FRAME_CHALLENGE, FRAME_PROOF,
                                            FRAME_WELCOME};
    struct shake *shake = *state;

    for (unsigned n = 0; n < 4; n++) {
        for (unsigned type = FRAME_HELLO; type <= FRAME_RAFT; type++) {
            struct handshake *next = n % 2 == 0 ? &shake->b : &shake->a;

            if (type == right[n] || (n % 2 == 1 && type == FRAME_REJECT)) {
                continue;
            }
            run(shake, n);
            shake->message.type = (enum frame_type)type;
            deliver(shake, next);
            assert_denied(next, HANDSHAKE_REJECT_MALFORMED, false);
        }
    }
}

static void test_every_length_but_the_right_one(void **state)
{
    struct shake *shake = *state;

    for (unsigned n = 0; n < 4; n++) {
        size_t right_len;

        if (n == 2) {
            continue; /* all of a proof is a statement, of any length */
        }
        run(shake, n);
        right_len = shake->message.payload.len;
        for (size_t len = 0; len <= right_len + 1; len++) {
            struct handshake *next = n % 2 == 0 ? &shake->b : &shake->a;

            if (len == right_len) {
                continue;
            }
            run(shake, n);
            if (len > right_len) {
                buf_put_u8(&shake->message.payload, 0);
            }
            shake->message.payload.len = len;
            deliver(shake, next);
            assert_denied(next, HANDSHAKE_REJECT_MALFORMED, false);
        }
    }
}

static void deliver_reject(struct shake *shake, uint16_t code, const char *text, size_t text_len)
{
    shake->message.type = FRAME_REJECT;
    shake->message.payload.len = 0;
    buf_put_u16(&shake->message.payload, code);
    buf_put_str16(&shake->message.payload, text, text_len);
    deliver(shake, &shake->a);
}

static void test_rejections_that_are_believed(void **state)
{
    struct shake *shake = *state;
    char text[HANDSHAKE_TEXT_BYTES + 100];

    memset(text, 'x', sizeof text);
    run(shake, 2);
    deliver_reject(shake, HANDSHAKE_REJECT_STORE, text, sizeof text);
    assert_denied(&shake->a, HANDSHAKE_REJECT_STORE, true);
    assert_int_equal(strlen(shake->a.text), HANDSHAKE_TEXT_BYTES);
    begin(shake);
    deliver_reject(shake, 0, "", 0);
    assert_denied(&shake->a, HANDSHAKE_REJECT_MALFORMED, false);
    begin(shake); /* a code of a newer version */
    deliver_reject(shake, 999, "because", 7);
    assert_int_equal(shake->a.state, HANDSHAKE_FAILED);
    assert_true(shake->a.by_peer);
    assert_int_equal(handshake_reject_info(shake->a.reject)->err, ERR_REFUSED);
    assert_false(handshake_reject_info(shake->a.reject)->final);
    assert_string_equal(handshake_reject_info(shake->a.reject)->text,
                        "rejected for an unknown reason");
}

/* Damaged frames of every kind, to either side: no link but with what the other side may be. (What
 * is sent cannot be damaged on its way, since it is in TLS.) */
static void test_mutations(void **state)
{
    struct shake *shake = *state;
    struct prng prng;
    unsigned failed = 0;

    prng_seed(&prng, 8);
    for (unsigned i = 0; i < 20000; i++) {
        const unsigned n = (unsigned)prng_below(&prng, 4);
        struct handshake *next = n % 2 == 0 ? &shake->b : &shake->a;
        struct buf *payload = &shake->message.payload;

        run(shake, n);
        if (payload->len > 0 && prng_below(&prng, 4) > 0) {
            const size_t at = (size_t)prng_below(&prng, payload->len);

            payload->data[at] ^= (uint8_t)(1 + prng_below(&prng, 255));
        } else {
            buf_put_u8(payload, (uint8_t)prng_next(&prng));
        }
        deliver(shake, next);
        if (next->state == HANDSHAKE_FAILED) {
            failed++;
            continue;
        }
        assert_true(n < 2); /* a level, a store or a number of a node that may be */
        assert_true(level_meets(next->peer_levels, next->config->levels));
        assert_true(next->peer_id != next->config->node_id && next->peer_id <= LIMIT_NODE_ID);
        assert_int_equal(shake->a.peer_id, 2);
    }
    assert_in_range(failed, 12000, 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_happy_path),
        T(test_largest_cluster_id),
        T(test_another_cluster),
        T(test_another_node),
        T(test_own_id_of_the_acceptor),
        T(test_ids_out_of_range),
        T(test_another_version),
        T(test_each_knows_the_others_levels),
        T(test_levels_that_do_not_meet),
        T(test_a_dialler_below_the_level_in_force_is_told_both_numbers),
        T(test_an_acceptor_below_the_level_in_force_gets_no_proof),
        T(test_unknown_peer),
        T(test_store_of_the_dialler),
        T(test_store_of_the_acceptor),
        T(test_each_error_of_the_judge),
        T(test_a_stray_node_hears_that_it_is_of_another_cluster),
        T(test_frames_out_of_turn),
        T(test_every_length_but_the_right_one),
        T(test_rejections_that_are_believed),
        T(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
