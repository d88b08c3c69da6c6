/*
 * join.c - see join.h.
 *
 * One attempt: resolve, connect, handshake; the answer or the reason of its failure ends it, its
 * socket is closed, and a timer begins the next one, of the next address.
 *
 * Thread: main.
 */
#include "raft/transport/join.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "raft/wire/frame.h"
#include "raft/transport/handshake.h"
#include "raft/transport/net_address.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/base/prng.h"

#define SOON_MS 200
#define LATER_MS 1000
#define REASON_BYTES 320

struct join {
    const struct join_config *config;
    struct handshake_config handshake_config;
    struct join_result *result;
    int status; /* once done */
    bool done;
    uv_loop_t loop;
    uv_timer_t timer; /* the deadline of an attempt, or the wait before the next */
    uv_signal_t sigterm;
    uv_signal_t sigint;
    size_t target; /* whose turn it is */
    char reason[REASON_BYTES];
    /* of the attempt */
    bool trying;
    bool resolving;
    uv_getaddrinfo_t resolve;
    uv_tcp_t tcp;
    bool tcp_open;
    uv_connect_t connect;
    uv_write_t write;
    struct buf out; /* being written */
    struct handshake handshake;
    struct frame_decoder decoder;
    uint8_t input[LIMIT_HANDSHAKE_BYTES];
};

static void attempt_cb(uv_timer_t *timer);

/* --- ends --- */

static void closed_cb(uv_handle_t *handle)
{
    ((struct join *)handle->data)->tcp_open = false;
}

static void attempt_close(struct join *join)
{
    join->trying = false;
    if (join->tcp_open && !uv_is_closing((uv_handle_t *)&join->tcp)) {
        uv_close((uv_handle_t *)&join->tcp, closed_cb);
    }
    if (join->resolving) {
        (void)uv_cancel((uv_req_t *)&join->resolve);
    }
}

static void finish(struct join *join, int status)
{
    if (join->done) {
        return;
    }
    join->done = true;
    join->status = status;
    attempt_close(join);
    uv_close((uv_handle_t *)&join->timer, NULL);
    uv_close((uv_handle_t *)&join->sigterm, NULL);
    uv_close((uv_handle_t *)&join->sigint, NULL);
}

static void refuse(struct join *join, int status, const char *text)
{
    (void)snprintf(join->result->why, sizeof join->result->why, "%s", text);
    finish(join, status);
}

/* The attempt is over; another one follows. */
static void again(struct join *join, uint64_t wait_ms, const char *reason)
{
    const char *address = join->config->targets[join->target].address;
    char quoted[REASON_BYTES * 2];
    char quoted_address[LIMIT_ADDRESS_BYTES * 2];

    if (join->done || !join->trying) {
        return;
    }
    attempt_close(join);
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
    finish(handle->data, ERR_SHUTTING_DOWN);
}

static void deadline_cb(uv_timer_t *timer)
{
    again(timer->data, SOON_MS, "no answer in time");
}

/* --- what the other side says --- */

static void take_answer(struct join *join, const struct frame *frame)
{
    struct wire_joined joined;

    if (wire_joined_decode(frame->payload, frame->len, &joined) != 0) {
        again(join, LATER_MS, "a malformed answer");
        return;
    }
    switch (joined.answer.outcome) {
    case MEMBER_DONE:
        join->result->index = joined.conf.index;
        buf_put(&join->result->conf, joined.conf.data, joined.conf.len);
        finish(join, 0);
        return;
    case MEMBER_PENDING:
        again(join, SOON_MS, NULL);
        return;
    case MEMBER_IN_PROGRESS:
        again(join, SOON_MS, "another change of the membership is under way");
        return;
    case MEMBER_WAS_REMOVED:
        refuse(join, ERR_REMOVED, joined.answer.why);
        return;
    case MEMBER_EXISTS:
    case MEMBER_ADDRESS_IN_USE:
        refuse(join, ERR_REFUSED, joined.answer.why);
        return;
    default:
        again(join, LATER_MS, joined.answer.why);
        return;
    }
}

static void take_rejection(struct join *join)
{
    const struct handshake *handshake = &join->handshake;
    const char *text = handshake_reject_text(handshake->reject);
    char reason[REASON_BYTES];

    if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_STORE) {
        refuse(join, ERR_WRONG_NODE,
               "the cluster knows this node id with another data directory (was it wiped or "
               "replaced?): join under a new id");
        return;
    }
    if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_REMOVED) {
        refuse(join, ERR_REMOVED,
               "this node id was removed from the cluster and never comes back: join under a new "
               "id");
        return;
    }
    (void)snprintf(reason, sizeof reason, "%s: %s",
                   handshake->by_peer ? "rejected by the member" : "the member was rejected", text);
    again(join, LATER_MS, reason);
}

/* --- the connection --- */

static void write_cb(uv_write_t *write, int status)
{
    struct join *join = write->data;

    buf_free(&join->out);
    if (status < 0) {
        again(join, SOON_MS, uv_strerror(status));
    }
}

/* One write at a time: the handshake is a dialogue. */
static void say(struct join *join, struct buf *out)
{
    uv_buf_t piece;
    int rv;

    if (out->len == 0) {
        buf_free(out);
        return;
    }
    ASSERT(join->out.len == 0);
    buf_move(&join->out, out);
    piece = uv_buf_init((char *)join->out.data, (unsigned)join->out.len);
    join->write.data = join;
    rv = uv_write(&join->write, (uv_stream_t *)&join->tcp, &piece, 1, write_cb);
    if (rv != 0) {
        buf_free(&join->out);
        again(join, SOON_MS, uv_strerror(rv));
    }
}

static void take_frame(struct join *join, const struct frame *frame)
{
    struct buf out = BUF_INIT;

    handshake_receive(&join->handshake, frame->type, frame->payload, frame->len, &out);
    say(join, &out);
    if (join->handshake.state == HANDSHAKE_ANSWERED) {
        take_answer(join, frame);
    } else if (join->handshake.state == HANDSHAKE_FAILED) {
        take_rejection(join);
    } else if (join->handshake.state == HANDSHAKE_DONE) {
        again(join, LATER_MS, "the member took this node for another kind of peer");
    }
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct join *join = handle->data;

    (void)suggested;
    *buf = uv_buf_init((char *)join->input, sizeof join->input);
}

static void read_cb(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct join *join = stream->data;
    const uint8_t *data = (const uint8_t *)buf->base;
    size_t left = len > 0 ? (size_t)len : 0;
    struct frame frame;
    int rv;

    if (len < 0) {
        again(join, SOON_MS, len == UV_EOF ? "closed by the member" : uv_strerror((int)len));
        return;
    }
    while (join->trying) {
        rv = frame_decoder_next(&join->decoder, &data, &left, &frame);
        if (rv == 0) {
            return;
        }
        if (rv < 0) {
            again(join, LATER_MS, "what listens there is no leafd of this version");
            return;
        }
        take_frame(join, &frame);
    }
}

static void introduce_cb(void *data, struct buf *statement)
{
    const struct join *join = data;

    wire_join_encode(join->config->address, statement);
}

static int admit_cb(void *data, uint64_t peer, uint64_t store_id)
{
    (void)data;
    return peer > 0 && store_id > 0 ? 0 : ERR_WRONG_NODE;
}

static void connect_cb(uv_connect_t *connect, int status)
{
    uint64_t nonce[HANDSHAKE_NONCE_BYTES / sizeof(uint64_t)];
    struct join *join = connect->data;
    struct buf out = BUF_INIT;

    if (!join->trying || join->done) {
        return;
    }
    if (status != 0) {
        again(join, SOON_MS, uv_strerror(status));
        return;
    }
    for (size_t i = 0; i < sizeof nonce / sizeof nonce[0]; i++) {
        nonce[i] = prng_entropy();
    }
    ASSERT(uv_read_start((uv_stream_t *)&join->tcp, alloc_cb, read_cb) == 0);
    handshake_join(&join->handshake, &join->handshake_config, (const uint8_t *)nonce, &out);
    say(join, &out);
}

static void connect_to(struct join *join, const struct sockaddr *address)
{
    int rv;

    ASSERT(uv_tcp_init(&join->loop, &join->tcp) == 0);
    join->tcp.data = join;
    join->tcp_open = true;
    join->connect.data = join;
    rv = uv_tcp_connect(&join->connect, &join->tcp, address, connect_cb);
    if (rv != 0) {
        again(join, SOON_MS, uv_strerror(rv));
    }
}

static void resolve_cb(uv_getaddrinfo_t *resolve, int status, struct addrinfo *result)
{
    struct join *join = resolve->data;

    join->resolving = false;
    if (join->trying && !join->done) {
        if (status != 0 || result == NULL) {
            again(join, LATER_MS, status != 0 ? uv_strerror(status) : "the name has no address");
        } else {
            connect_to(join, result->ai_addr);
        }
    }
    uv_freeaddrinfo(result);
}

/* Begin the next attempt, once nothing of the last one is left. */
static void attempt_cb(uv_timer_t *timer)
{
    struct join *join = timer->data;
    const char *text = join->config->targets[join->target].address;
    const struct addrinfo hints = net_address_hints();
    struct sockaddr_storage literal;
    struct net_address address;
    int rv;

    if (join->tcp_open || join->resolving || join->out.len > 0) {
        ASSERT(uv_timer_start(&join->timer, attempt_cb, 1, 0) == 0);
        return;
    }
    join->trying = true;
    frame_decoder_free(&join->decoder);
    frame_decoder_init(&join->decoder);
    ASSERT(uv_timer_start(&join->timer, deadline_cb, LIMIT_HANDSHAKE_MS, 0) == 0);
    if (net_address_parse(text, &address) != 0) {
        again(join, LATER_MS, "the address is not host:port");
        return;
    }
    if (net_address_literal(&address, &literal)) {
        connect_to(join, (const struct sockaddr *)&literal);
        return;
    }
    join->resolve.data = join;
    rv = uv_getaddrinfo(&join->loop, &join->resolve, resolve_cb, address.host, address.port_text,
                        &hints);
    if (rv != 0) {
        again(join, LATER_MS, uv_strerror(rv));
        return;
    }
    join->resolving = true;
}

static void init(struct join *join)
{
    const struct join_config *config = join->config;

    join->handshake_config = (struct handshake_config){.node_id = config->node_id,
                                                       .store_id = config->store_id,
                                                       .cluster_id = config->cluster_id,
                                                       .secret = config->secret,
                                                       .secret_len = config->secret_len,
                                                       .admit = admit_cb,
                                                       .data = join,
                                                       .introduce = introduce_cb};
    ASSERT(uv_loop_init(&join->loop) == 0);
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
    struct join *join = calloc(1, sizeof *join);
    int status;

    ASSERT(join != NULL && config->target_count > 0);
    join->config = config;
    join->result = ret_result;
    *ret_result = (struct join_result){.index = 0};
    init(join);
    log_info("net", "joining the cluster", "node=%" PRIu64 " targets=%zu", config->node_id,
             config->target_count);
    attempt_cb(&join->timer);
    (void)uv_run(&join->loop, UV_RUN_DEFAULT);
    ASSERT(join->done);
    ASSERT(uv_loop_close(&join->loop) == 0);
    status = join->status;
    frame_decoder_free(&join->decoder);
    buf_free(&join->out);
    free(join);
    return status;
}
