/*
 * join.c - see join.h.
 *
 * One attempt is one connection (net_conn.h); the answer, or the reason why there is none, ends it,
 * and a timer begins the next one, of the next address, once nothing of the last one is left.
 *
 * Thread: main.
 */
#include "raft/transport/join.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/transport/net_conn.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define SOON_MS 200
#define LATER_MS 1000
#define REASON_BYTES 320

struct join {
    const struct join_config *config;
    struct join_result *result;
    int status; /* once done */
    bool done;
    uv_loop_t loop;
    struct net_hub hub;
    struct net_receiver receiver; /* of the handshakes; there are no links */
    uv_timer_t timer;             /* the wait before the next attempt */
    uv_signal_t sigterm;
    uv_signal_t sigint;
    size_t target;         /* whose turn it is */
    unsigned offer;        /* which credential of the keys it is offered */
    struct net_conn *conn; /* of the attempt; NULL: nothing of it is left */
    bool trying;           /* it may yet succeed */
    char reason[REASON_BYTES];
};

/* --- ends --- */

static void attempt_end(struct join *join, const char *reason)
{
    join->trying = false;
    if (join->conn != NULL) {
        net_conn_close(join->conn, reason);
    }
}

static void join_finish(struct join *join, int status)
{
    if (join->done) {
        return;
    }
    join->done = true;
    join->status = status;
    attempt_end(join, "the join is over");
    uv_close((uv_handle_t *)&join->timer, NULL);
    uv_close((uv_handle_t *)&join->sigterm, NULL);
    uv_close((uv_handle_t *)&join->sigint, NULL);
}

static void join_refuse(struct join *join, int status, const char *text)
{
    (void)snprintf(join->result->why, sizeof join->result->why, "%s", text);
    join_finish(join, status);
}

static void attempt_cb(uv_timer_t *timer);

/* The attempt is over; another one follows. */
static void join_again(struct join *join, uint64_t wait_ms, const char *reason)
{
    const char *address = join->config->targets[join->target].address;
    char quoted[REASON_BYTES * 2];
    char quoted_address[LIMIT_ADDRESS_BYTES * 2];

    if (join->done || !join->trying) {
        return;
    }
    attempt_end(join, reason);
    if (reason != NULL && strncmp(join->reason, reason, sizeof join->reason - 1) != 0) {
        (void)snprintf(join->reason, sizeof join->reason, "%s", reason);
        log_warn("net", "cannot join yet, trying on", "through=%s reason=%s",
                 log_quote(address, strlen(address), quoted_address, sizeof quoted_address),
                 log_quote(reason, strlen(reason), quoted, sizeof quoted));
    }
    if (reason != NULL) {
        join->target = (join->target + 1) % join->config->target_count;
    }
    ASSERT(uv_timer_start(&join->timer, attempt_cb, wait_ms, 0) == 0);
}

static void signal_cb(uv_signal_t *handle, int signal_number)
{
    (void)signal_number;
    join_finish(handle->data, ERR_SHUTTING_DOWN);
}

/* --- what the other side says --- */

/* Is it of the cluster that answered first? */
static bool same_cluster(struct join *join, const struct wire_birth *said)
{
    struct wire_birth *known = &join->result->birth;
    char first[UID_TEXT_BYTES];
    char second[UID_TEXT_BYTES];
    char why[JOIN_WHY_BYTES];

    if (uid_is_none(&known->uid)) {
        *known = *said;
    }
    if (uid_is_none(&said->uid) || uid_equal(&known->uid, &said->uid)) {
        return true;
    }
    (void)snprintf(
        why, sizeof why,
        "the nodes to ask belong to two clusters, %s and %s: name in join the members of "
        "one alone",
        uid_text(&known->uid, first), uid_text(&said->uid, second));
    join_refuse(join, ERR_OTHER_BIRTH, why);
    return false;
}

static void join_answered(struct net_conn *conn, const struct frame *frame)
{
    struct join *join = conn->owner;
    struct wire_joined joined;

    if (wire_joined_decode(frame->payload, frame->len, &joined) != 0) {
        join_again(join, LATER_MS, "a malformed answer");
        return;
    }
    if (!same_cluster(join, &joined.birth)) {
        return;
    }
    switch (joined.answer.outcome) {
    case MEMBER_DONE:
        join->result->index = joined.conf.index;
        buf_put(&join->result->conf, joined.conf.data, joined.conf.len);
        join_finish(join, 0);
        return;
    case MEMBER_PENDING:
        join_again(join, SOON_MS, NULL);
        return;
    case MEMBER_IN_PROGRESS:
        join_again(join, SOON_MS, "another change of the membership is under way");
        return;
    case MEMBER_WAS_REMOVED:
        join_refuse(join, ERR_REMOVED, joined.answer.why);
        return;
    case MEMBER_EXISTS:
    case MEMBER_ADDRESS_IN_USE:
        join_refuse(join, ERR_REFUSED, joined.answer.why);
        return;
    default:
        join_again(join, LATER_MS, joined.answer.why);
        return;
    }
}

static void join_failed(struct net_conn *conn)
{
    const struct handshake *handshake = &conn->handshake;
    struct join *join = conn->owner;
    const char *text = handshake_reason(handshake);
    char reason[REASON_BYTES];

    if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_STORE) {
        join_refuse(join, ERR_WRONG_NODE,
                    "the cluster knows this node id with another data directory (was it wiped or "
                    "replaced, or is there another process in its place?): join under a new id");
        return;
    }
    if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_REMOVED) {
        join_refuse(
            join, ERR_REMOVED,
            "this node id was removed from the cluster and never comes back: join under a new "
            "id");
        return;
    }
    if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_NEWER) {
        join_refuse(join, ERR_NEWER, text);
        return;
    }
    (void)snprintf(reason, sizeof reason, "%s: %s",
                   handshake->by_peer ? "rejected by the member" : "the member was rejected", text);
    join_again(join, LATER_MS, reason);
}

/* A credential that it does not take is followed by the next one. */
static void join_down(struct net_conn *conn, enum net_conn_state from, const char *reason)
{
    struct join *join = conn->owner;

    if (conn->untrusted) {
        join->offer = (join->offer + 1) % join->hub.keys->credential_count;
        join_again(join, SOON_MS, join->offer != 0 ? NULL : reason);
        return;
    }
    join_again(join, SOON_MS,
               from == NET_CONN_HANDSHAKE && !conn->heard &&
                       strcmp(reason, "closed by the peer") == 0
                   ? "it closed without a word of TLS: is it no leafd?"
                   : reason);
}

static void join_freed(struct net_conn *conn)
{
    ((struct join *)conn->owner)->conn = NULL;
}

static const struct net_conn_ops conn_ops = {
    .failed = join_failed,
    .answered = join_answered,
    .down = join_down,
    .freed = join_freed,
};

/* --- attempts --- */

static void attempt_cb(uv_timer_t *timer)
{
    struct join *join = timer->data;

    if (join->conn != NULL) {
        ASSERT(uv_timer_start(&join->timer, attempt_cb, 1, 0) == 0);
        return;
    }
    join->trying = true;
    join->conn = net_conn_new(&join->hub, NET_CONN_JOINS, 0, &conn_ops, join);
    net_conn_dial(join->conn, join->config->targets[join->target].address, 0, join->offer);
}

static void join_introduce(struct net_receiver *receiver, struct buf *statement)
{
    const struct join *join = CONTAINER(receiver, struct join, receiver);
    struct wire_join said = {.birth = join->result->birth};

    ASSERT(strlen(join->config->address) <= LIMIT_ADDRESS_BYTES);
    memcpy(said.address, join->config->address, strlen(join->config->address));
    wire_join_encode(&said, statement);
}

static int join_admit(struct net_receiver *receiver, uint64_t peer, uint64_t store_id)
{
    (void)receiver;
    return peer > 0 && store_id > 0 ? 0 : ERR_WRONG_NODE;
}

static void join_init(struct join *join)
{
    const struct join_config *config = join->config;

    ASSERT(uv_loop_init(&join->loop) == 0);
    join->receiver = (struct net_receiver){.admit = join_admit, .introduce = join_introduce};
    net_hub_init(&join->hub, &join->loop,
                 &(struct net_uv_config){.node_id = config->node_id,
                                         .store_id = config->store_id,
                                         .cluster_id = config->cluster_id,
                                         .keys = config->keys},
                 &join->receiver);
    ASSERT(uv_timer_init(&join->loop, &join->timer) == 0);
    ASSERT(uv_signal_init(&join->loop, &join->sigterm) == 0);
    ASSERT(uv_signal_init(&join->loop, &join->sigint) == 0);
    join->timer.data = join;
    join->sigterm.data = join;
    join->sigint.data = join;
    ASSERT(uv_signal_start(&join->sigterm, signal_cb, SIGTERM) == 0);
    ASSERT(uv_signal_start(&join->sigint, signal_cb, SIGINT) == 0);
}

int join_cluster(const struct join_config *config, struct join_result *ret_result)
{
    struct join *join = MUST_HAVE(calloc(1, sizeof *join));
    int status;

    ASSERT(config->target_count > 0);
    *ret_result = (struct join_result){.index = 0};
    join->config = config;
    join->result = ret_result;
    join_init(join);
    log_info("net", "joining the cluster", "node=%" PRIu64 " targets=%zu", config->node_id,
             config->target_count);
    attempt_cb(&join->timer);
    (void)uv_run(&join->loop, UV_RUN_DEFAULT);
    ASSERT(join->done && join->conn == NULL);
    net_keys_unref(join->hub.keys);
    ASSERT(uv_loop_close(&join->loop) == 0);
    status = join->status;
    free(join);
    return status;
}
