/*
 * test_handshake_join.c - handshakes with a statement, of nodes that join, and of removed ids.
 *
 * Two sides are wired directly: dialler 1, acceptor 2. Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/wire/wire.h"
#include "raft/transport/handshake.h"
#include "src/base/container.h"
#include "src/base/err.h"

struct shake;

/* Who is asked on one side. */
struct side {
    struct net_receiver base;
    struct shake *shake;
};

struct shake {
    struct side a_side;
    struct side b_side;
    struct handshake_config a_config;
    struct handshake_config b_config;
    struct handshake a;
    struct handshake b;
    enum frame_type type; /* of the message in flight */
    struct buf payload;
    uint64_t removed; /* an id */
    uint64_t unwelcome_store;
    int (*check)(const struct net_claim *claim); /* what the acceptor says of a statement */
};

static int judge_cb(struct net_receiver *receiver, const struct net_claim *claim,
                    uint16_t *ret_level)
{
    struct shake *shake = CONTAINER(receiver, struct side, base)->shake;

    (void)ret_level;
    if (claim->id == shake->removed) {
        return ERR_REMOVED;
    }
    if (claim->store_id == shake->unwelcome_store) {
        return ERR_WRONG_NODE;
    }
    return claim->states ? shake->check(claim) : 0;
}

static int nobody_is_known(const struct net_claim *claim)
{
    assert_int_equal(claim->id, 1);
    return ERR_NOT_FOUND;
}

static int setup(void **state)
{
    struct shake *shake = calloc(1, sizeof *shake);

    assert_non_null(shake);
    shake->a_side = (struct side){.base = {.judge = judge_cb}, .shake = shake};
    shake->b_side = shake->a_side;
    shake->a_config = (struct handshake_config){
        .node_id = 1, .store_id = 1001, .cluster_id = "test", .receiver = &shake->a_side.base};
    shake->b_config = shake->a_config;
    shake->b_config.receiver = &shake->b_side.base;
    shake->b_config.node_id = 2;
    shake->b_config.store_id = 1002;
    shake->check = nobody_is_known;
    *state = shake;
    return 0;
}

static int teardown(void **state)
{
    struct shake *shake = *state;

    buf_free(&shake->payload);
    free(shake);
    return 0;
}

static void take_out(struct shake *shake, struct buf *out)
{
    struct frame_decoder decoder;
    const uint8_t *data = out->data;
    size_t len = out->len;
    struct frame frame;

    shake->payload.len = 0;
    decoder = (struct frame_decoder){0};
    if (len > 0) {
        assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 1);
        shake->type = frame.type;
        buf_put(&shake->payload, frame.payload, frame.len);
    }
    buf_free(&decoder.buf);
    buf_free(out);
}

static void deliver(struct shake *shake, struct handshake *to)
{
    struct buf out = BUF_INIT;
    struct buf payload = BUF_INIT;

    buf_put(&payload, shake->payload.data, shake->payload.len);
    handshake_receive(to, shake->type, payload.data, payload.len, &out);
    buf_free(&payload);
    take_out(shake, &out);
}

/* Up to the dialler's proof, which is in flight then. */
static void begin(struct shake *shake, bool joins)
{
    static const struct tls_peer any = {.same_cluster = true};
    struct buf out = BUF_INIT;

    handshake_accept(&shake->b, &shake->b_config, &any);
    handshake_dial(&shake->a, &shake->a_config, joins ? 0 : 2, &any, &out);
    take_out(shake, &out);
    deliver(shake, &shake->b);
    deliver(shake, &shake->a);
    assert_int_equal(shake->type, FRAME_PROOF);
}

static void assert_denied(const struct handshake *handshake, enum handshake_reject reject,
                          bool by_peer)
{
    assert_int_equal(handshake->state, HANDSHAKE_FAILED);
    assert_int_equal(handshake->reject, reject);
    assert_int_equal(handshake->by_peer, by_peer);
}

static void introduce_cb(struct net_receiver *receiver, struct buf *statement)
{
    (void)receiver;
    buf_put(statement, "hello", 5);
}

static int stated(const struct net_claim *claim)
{
    return claim->id == 1 && claim->len == 5 && memcmp(claim->statement, "hello", 5) == 0
               ? 0
               : ERR_NOT_FOUND;
}

static bool join_cb(struct net_receiver *receiver, uint64_t peer, const void *request, size_t len,
                    struct buf *answer)
{
    (void)receiver;
    assert_int_equal(peer, 1);
    if (len != 5 || memcmp(request, "hello", 5) != 0) {
        return false;
    }
    buf_put(answer, "come in", 7);
    return true;
}

static void test_statement_reaches_the_acceptor(void **state)
{
    struct shake *shake = *state;

    shake->a_side.base.introduce = introduce_cb;
    shake->check = stated;
    begin(shake, false);
    deliver(shake, &shake->b);
    deliver(shake, &shake->a);
    assert_int_equal(shake->a.state, HANDSHAKE_DONE);
    assert_int_equal(shake->b.state, HANDSHAKE_DONE);
}

static void test_a_node_joins(void **state)
{
    struct shake *shake = *state;

    shake->a_side.base.introduce = introduce_cb;
    shake->b_side.base.join = join_cb;
    begin(shake, true);
    deliver(shake, &shake->b);
    assert_int_equal(shake->b.state, HANDSHAKE_ANSWERED);
    assert_int_equal(shake->type, FRAME_JOINED);
    assert_int_equal(shake->payload.len, 7);
    assert_memory_equal(shake->payload.data, "come in", 7);
    deliver(shake, &shake->a);
    assert_int_equal(shake->a.state, HANDSHAKE_ANSWERED);
}

/* The other side takes it for a peer: there is no link, whatever it says. */
static void test_a_node_that_joins_is_welcomed(void **state)
{
    struct shake *shake = *state;
    struct buf out = BUF_INIT;

    shake->a_side.base.introduce = introduce_cb;
    begin(shake, true);
    frame_put(&out, FRAME_WELCOME, NULL, 0);
    take_out(shake, &out);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_MALFORMED, false);
}

static void test_joining_is_refused(void **state)
{
    struct shake *shake = *state;

    shake->a_side.base.introduce = introduce_cb;
    begin(shake, true); /* nobody may */
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_PEER, false);
    shake->b_side.base.join = join_cb;
    begin(shake, true); /* what it says cannot be read */
    shake->payload.data[0] ^= 1;
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_MALFORMED, false);
    shake->unwelcome_store = 1001; /* a data directory that is not the registered one */
    begin(shake, true);
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_STORE, false);
    shake->unwelcome_store = 0;
    shake->removed = 1; /* an id that was removed */
    begin(shake, true);
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_REMOVED, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_REMOVED, true);
}

static void test_removed_peer(void **state)
{
    struct shake *shake = *state;

    shake->removed = 1;
    begin(shake, false);
    deliver(shake, &shake->b);
    assert_denied(&shake->b, HANDSHAKE_REJECT_REMOVED, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, HANDSHAKE_REJECT_REMOVED, true);
    assert_string_equal(shake->a.text, "the node id was removed from the cluster");
}

static int as_it_says(const struct net_claim *claim)
{
    static const int errs[] = {ERR_STALE, ERR_IMPLAUSIBLE, ERR_BAD_MESSAGE};

    assert_int_equal(claim->id, 1);
    assert_int_equal(claim->store_id, 1001);
    return claim->len == 1 ? errs[*(const uint8_t *)claim->statement] : 0;
}

static uint8_t said; /* which of the errors the statement is to give */

static void say_it(struct net_receiver *receiver, struct buf *statement)
{
    (void)receiver;
    buf_put_u8(statement, said);
}

static void expect_checked(struct shake *shake, uint8_t what, enum handshake_reject reject,
                           const char *text)
{
    said = what;
    begin(shake, false);
    deliver(shake, &shake->b);
    assert_denied(&shake->b, reject, false);
    deliver(shake, &shake->a);
    assert_denied(&shake->a, reject, true);
    assert_string_equal(shake->a.text, text);
}

static void test_a_store_that_was_set_back_or_lies(void **state)
{
    struct shake *shake = *state;

    shake->check = as_it_says;
    begin(shake, false);
    deliver(shake, &shake->b);
    assert_int_equal(shake->b.state, HANDSHAKE_DONE);
    shake->a_side.base.introduce = say_it;
    expect_checked(shake, 0, HANDSHAKE_REJECT_OLDER, "the data directory is an older copy");
    expect_checked(shake, 1, HANDSHAKE_REJECT_IMPLAUSIBLE,
                   "the node's term or last index cannot be");
    expect_checked(shake, 2, HANDSHAKE_REJECT_MALFORMED, "malformed handshake");
}

static void test_reject_codes(void **state)
{
    static const struct {
        enum handshake_reject reject;
        int err;
        bool final;
    } rows[] = {
        {HANDSHAKE_REJECT_NONE, 0, false},
        {HANDSHAKE_REJECT_MALFORMED, ERR_BAD_MESSAGE, false},
        {HANDSHAKE_REJECT_VERSION, ERR_BAD_VERSION, true},
        {HANDSHAKE_REJECT_CLUSTER, ERR_REFUSED, true},
        {HANDSHAKE_REJECT_NODE, ERR_CONFLICT, true},
        {HANDSHAKE_REJECT_PEER, ERR_NOT_FOUND, false},
        {(enum handshake_reject)6, ERR_REFUSED, false}, /* that no leafd sends any more */
        {HANDSHAKE_REJECT_STORE, ERR_WRONG_NODE, true},
        {HANDSHAKE_REJECT_REMOVED, ERR_REMOVED, true},
        {HANDSHAKE_REJECT_OLDER, ERR_STALE, true},
        {HANDSHAKE_REJECT_IMPLAUSIBLE, ERR_IMPLAUSIBLE, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(handshake_reject_info(rows[i].reject)->err, rows[i].err);
        assert_int_equal(handshake_reject_info(rows[i].reject)->final, rows[i].final);
        assert_true(strlen(handshake_reject_info(rows[i].reject)->text) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_statement_reaches_the_acceptor),
        T(test_a_node_joins),
        T(test_a_node_that_joins_is_welcomed),
        T(test_joining_is_refused),
        T(test_removed_peer),
        T(test_a_store_that_was_set_back_or_lies),
        cmocka_unit_test(test_reject_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
