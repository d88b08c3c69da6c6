/*
 * net_uv_conn.c - one TCP connection: its handles, input, handshake and deadlines.
 *
 * The happy path: net_conn_new(), the socket gets connected (net_uv_link.c) or accepted
 * (net_uv_inbound.c), net_conn_start() reads and runs the handshake, then frames go to the
 * receiver.
 *
 * Failure modes: whatever breaks (socket error, end of stream, broken frame, failed handshake,
 * deadline) ends in net_conn_close() with a reason. Before the handshake is done no byte goes to
 * the receiver.
 *
 * Thread: the raft loop.
 */
#include "raft/transport/net_uv_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/assert.h"

#define CHECKS_PER_LIMIT 4 /* how often in the shortest of its times a connection is looked at */

static void set_options(struct net_conn *conn);
static void begin_handshake(struct net_conn *conn);
static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void read_cb(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf);
static void deadline_cb(uv_timer_t *timer);
static void check_cb(uv_timer_t *timer);
static void close_cb(uv_handle_t *handle);

struct net_conn *net_conn_new(struct net_uv *net, bool dialled, struct net_link *owner)
{
    struct net_conn *conn = calloc(1, sizeof *conn);

    ASSERT(conn != NULL && !net->closing && dialled == (owner != NULL));
    conn->net = net;
    conn->owner = owner;
    conn->dialled = dialled;
    conn->state = dialled ? NET_CONN_RESOLVING : NET_CONN_HANDSHAKE;
    STAILQ_INIT(&conn->queue);
    STAILQ_INIT(&conn->sending);
    frame_decoder_init(&conn->decoder);
    ASSERT(uv_tcp_init(net->loop, &conn->tcp) == 0);
    ASSERT(uv_timer_init(net->loop, &conn->timer) == 0);
    conn->tcp.data = conn;
    conn->timer.data = conn;
    conn->ref_count = 2;
    TAILQ_INSERT_TAIL(&net->conns, conn, link);
    net->live_count++;
    net->accepted_count += dialled ? 0 : 1;
    return conn;
}

void net_conn_move(struct net_conn *conn, enum net_conn_state to)
{
    static const unsigned allowed[] = {
        [NET_CONN_RESOLVING] = 1U << NET_CONN_CONNECTING | 1U << NET_CONN_CLOSING,
        [NET_CONN_CONNECTING] = 1U << NET_CONN_HANDSHAKE | 1U << NET_CONN_CLOSING,
        [NET_CONN_HANDSHAKE] =
            1U << NET_CONN_UP | 1U << NET_CONN_REJECTING | 1U << NET_CONN_CLOSING,
        [NET_CONN_REJECTING] = 1U << NET_CONN_CLOSING,
        [NET_CONN_UP] = 1U << NET_CONN_CLOSING,
        [NET_CONN_CLOSING] = 0,
    };

    ASSERT((allowed[conn->state] & 1U << to) != 0);
    conn->state = to;
    if (to == NET_CONN_CONNECTING) {
        ASSERT(uv_timer_start(&conn->timer, deadline_cb, conn->net->config.connect_ms, 0) == 0);
    }
}

void net_conn_start(struct net_conn *conn)
{
    int rv;

    ASSERT(conn->state == NET_CONN_HANDSHAKE);
    ASSERT(uv_timer_start(&conn->timer, deadline_cb, conn->net->config.handshake_ms, 0) == 0);
    conn->read_ms = uv_now(conn->net->loop);
    set_options(conn);
    rv = uv_read_start((uv_stream_t *)&conn->tcp, alloc_cb, read_cb);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    begin_handshake(conn);
}

void net_conn_close(struct net_conn *conn, const char *reason)
{
    struct net_link *owner = conn->owner;
    struct net_uv *net = conn->net;

    if (conn->state == NET_CONN_CLOSING) {
        return;
    }
    if (!conn->dialled && conn->state != NET_CONN_REJECTING) {
        net_inbound_down(conn, reason);
    }
    net_conn_move(conn, NET_CONN_CLOSING);
    if (!conn->dialled) {
        ASSERT(net->accepted_count > 0);
        net->accepted_count--;
    }
    if (conn->resolving) {
        (void)uv_cancel((uv_req_t *)&conn->resolve);
    }
    uv_close((uv_handle_t *)&conn->tcp, close_cb);
    uv_close((uv_handle_t *)&conn->timer, close_cb);
    conn->owner = NULL;
    if (owner != NULL) {
        net_link_down(owner, conn, reason);
    }
}

void net_conn_ref(struct net_conn *conn)
{
    ASSERT(conn->ref_count > 0);
    conn->ref_count++;
}

/* The outgoing link's end is told here, in a turn of its own: never inside somebody's call of
 * send(). */
void net_conn_unref(struct net_conn *conn)
{
    struct net_uv *net = conn->net;

    ASSERT(conn->ref_count > 0);
    conn->ref_count--;
    if (conn->ref_count > 0) {
        return;
    }
    ASSERT(conn->state == NET_CONN_CLOSING && conn->owner == NULL);
    if (conn->dialled && conn->was_up && !net->closing) {
        net->receiver->link_changed(net->receiver, conn->handshake.peer_id, false);
    }
    TAILQ_REMOVE(&net->conns, conn, link);
    net_conn_drop_output(conn);
    frame_decoder_free(&conn->decoder);
    free(conn);
    net_uv_release(net);
}

/* Send small frames at once, and have the kernel give up on a peer that acknowledges nothing.
 * Neither is needed for correctness, so a failure is let pass. */
static void set_options(struct net_conn *conn)
{
    unsigned timeout_ms = conn->net->config.stall_ms;
    uv_os_fd_t fd;

    (void)uv_tcp_nodelay(&conn->tcp, 1);
    if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    }
}

static void begin_handshake(struct net_conn *conn)
{
    uint64_t nonce[HANDSHAKE_NONCE_BYTES / sizeof(uint64_t)];
    struct buf out = BUF_INIT;

    for (size_t i = 0; i < sizeof nonce / sizeof nonce[0]; i++) {
        nonce[i] = prng_entropy();
    }
    if (conn->dialled) {
        handshake_dial(&conn->handshake, &conn->net->handshake, conn->owner->id,
                       (const uint8_t *)nonce, &out);
    } else {
        handshake_accept(&conn->handshake, &conn->net->handshake, (const uint8_t *)nonce);
    }
    net_conn_queue_bytes(conn, &out);
    net_conn_flush(conn);
}

/* The shortest of the connection's times, in parts. */
static uint64_t check_interval_ms(const struct net_conn *conn)
{
    const struct net_uv_config *config = &conn->net->config;
    uint64_t ms = config->silent_ms;

    if (conn->dialled) {
        ms = config->stall_ms < config->idle_ms ? config->stall_ms : config->idle_ms;
    }
    return ms / CHECKS_PER_LIMIT > 0 ? ms / CHECKS_PER_LIMIT : 1;
}

static void conn_up(struct net_conn *conn)
{
    struct net_uv *net = conn->net;
    const uint64_t interval_ms = check_interval_ms(conn);

    net_conn_move(conn, NET_CONN_UP);
    conn->was_up = true;
    conn->up_ms = conn->progress_ms = uv_now(net->loop);
    ASSERT(uv_timer_start(&conn->timer, check_cb, interval_ms, interval_ms) == 0);
    if (conn->dialled) {
        net_link_up(conn->owner);
        return;
    }
    frame_decoder_open(&conn->decoder);
    net_inbound_up(conn);
}

static void handshake_failed(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->net->receiver;
    const struct handshake *handshake = &conn->handshake;
    const enum handshake_reject reject = handshake->reject;
    const char *text = handshake_reject_text(reject);
    char reason[NET_REASON_BYTES];
    bool is_news;

    if (!conn->dialled) {
        net_inbound_down(conn, text);
        net_conn_move(conn, NET_CONN_REJECTING);
        return;
    }
    (void)snprintf(reason, sizeof reason, "%s: %s",
                   handshake->by_peer ? "rejected by the peer" : "peer rejected", text);
    is_news = net_link_is_news(conn->owner, reason);
    net_conn_close(conn, reason);
    if (is_news && handshake->by_peer && handshake_reject_is_final(reject)) {
        receiver->refused(receiver, handshake->peer_id, handshake_reject_err(reject), text);
    }
}

static void handshake_frame(struct net_conn *conn, const struct frame *frame)
{
    struct buf out = BUF_INIT;

    handshake_receive(&conn->handshake, frame->type, frame->payload, frame->len, &out);
    net_conn_queue_bytes(conn, &out);
    net_conn_flush(conn);
    buf_free(&out);
    if (conn->state == NET_CONN_CLOSING) {
        return;
    }
    if (conn->handshake.state == HANDSHAKE_DONE) {
        conn_up(conn);
    } else if (conn->handshake.state == HANDSHAKE_ANSWERED) {
        net_conn_move(conn, NET_CONN_REJECTING); /* until the other side has read it and closes */
    } else if (conn->handshake.state == HANDSHAKE_FAILED) {
        handshake_failed(conn);
    }
}

static const char *broken_text(int err)
{
    switch (err) {
    case ERR_BAD_VERSION:
        return "frame of an unknown version";
    case ERR_TOO_LARGE:
        return "frame too large";
    case ERR_CORRUPT:
        return "frame with a wrong checksum";
    default:
        return "malformed frame or unknown type";
    }
}

static void take_input(struct net_conn *conn, const uint8_t *data, size_t len)
{
    struct frame frame;
    int rv;

    while (conn->state == NET_CONN_HANDSHAKE || conn->state == NET_CONN_UP) {
        rv = frame_decoder_next(&conn->decoder, &data, &len, &frame);
        if (rv == 0) {
            return;
        }
        if (rv < 0) {
            net_conn_close(conn, broken_text(rv));
        } else if (conn->state == NET_CONN_HANDSHAKE) {
            handshake_frame(conn, &frame);
        } else if (conn->dialled) {
            net_conn_close(conn, "data on a link that only sends");
        } else {
            net_inbound_frame(conn, &frame);
        }
    }
}

/* One buffer for all: the input is used up before the loop reads again. */
static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct net_conn *conn = handle->data;

    (void)suggested;
    *buf = uv_buf_init((char *)conn->net->input, sizeof conn->net->input);
}

static void read_cb(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct net_conn *conn = stream->data;

    if (len < 0) {
        net_conn_close(conn, len == UV_EOF ? "closed by the peer" : uv_strerror((int)len));
        return;
    }
    if (len > 0) {
        conn->read_ms = uv_now(conn->net->loop);
        take_input(conn, (const uint8_t *)buf->base, (size_t)len);
    }
}

static void deadline_cb(uv_timer_t *timer)
{
    struct net_conn *conn = timer->data;

    net_conn_close(conn, conn->state == NET_CONN_CONNECTING ? "no answer to connect"
                                                            : "handshake took too long");
}

static void check_cb(uv_timer_t *timer)
{
    struct net_conn *conn = timer->data;

    ASSERT(conn->state == NET_CONN_UP);
    if (conn->dialled) {
        net_conn_check_output(conn);
    } else if (uv_now(conn->net->loop) - conn->read_ms >= conn->net->config.silent_ms) {
        net_conn_close(conn, "the peer is silent");
    }
}

static void close_cb(uv_handle_t *handle)
{
    net_conn_unref(handle->data);
}
