/*
 * net_uv_out.c - what a connection has to write: the queue, one write at a time, and its progress.
 *
 * The happy path: frames gather in `queue`; a flush moves a batch of them to `sending` and offers
 * all their pieces to the socket in one system call. It nearly always takes them; for what it does
 * not take there is uv_write(), and when that is through, what gathered meanwhile goes next. So
 * frames of one loop turn share a system call, and none waits for a timer. (Not uv_write() alone:
 * it costs a call of its callback in another round of the loop, and an epoll_ctl() each time.)
 *
 * Failure modes: a failed write closes the connection; so does a socket that takes nothing for
 * stall_ms. The queue's bound is checked by the sender (net_uv.c).
 *
 * Thread: the raft loop.
 */
#include "raft/transport/net_uv_internal.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define BATCH_FRAMES 128 /* of one write */

static void queue_out(struct net_conn *conn, struct net_out *out);
static void out_list_free(struct net_conn *conn, struct net_out_list *list);
static void write_cb(uv_write_t *write, int status);

void net_conn_queue_frame(struct net_conn *conn, enum frame_type type, struct buf *payload)
{
    struct net_out *out = calloc(1, sizeof *out);

    ASSERT(out != NULL);
    frame_header(out->header, type, payload->data, payload->len);
    out->header_len = FRAME_HEADER_BYTES;
    buf_move(&out->payload, payload);
    queue_out(conn, out);
}

void net_conn_queue_bytes(struct net_conn *conn, struct buf *bytes)
{
    struct net_out *out;

    if (bytes->len == 0) {
        return;
    }
    out = calloc(1, sizeof *out);
    ASSERT(out != NULL);
    buf_move(&out->payload, bytes);
    queue_out(conn, out);
}

/* Move a batch of frames from the queue to `sending`; ret_bufs get all their pieces. */
static unsigned batch_begin(struct net_conn *conn, uv_buf_t ret_bufs[2 * BATCH_FRAMES])
{
    unsigned count = 0;

    ASSERT(STAILQ_EMPTY(&conn->sending));
    while (!STAILQ_EMPTY(&conn->queue) && count + 2 <= 2 * BATCH_FRAMES) {
        struct net_out *out = STAILQ_FIRST(&conn->queue);

        STAILQ_REMOVE_HEAD(&conn->queue, link);
        STAILQ_INSERT_TAIL(&conn->sending, out, link);
        if (out->header_len > 0) {
            ret_bufs[count++] = uv_buf_init((char *)out->header, (unsigned)out->header_len);
        }
        if (out->payload.len > 0) {
            ret_bufs[count++] = uv_buf_init((char *)out->payload.data, (unsigned)out->payload.len);
        }
    }
    ASSERT(count > 0);
    return count;
}

/* Leave out the first `bytes` of the pieces; how many are left of them. */
static unsigned bufs_skip(uv_buf_t *bufs, unsigned count, size_t bytes)
{
    unsigned gone = 0;

    while (gone < count && bytes >= bufs[gone].len) {
        bytes -= bufs[gone++].len;
    }
    memmove(bufs, bufs + gone, (count - gone) * sizeof *bufs);
    if (gone < count) {
        bufs[0].base += bytes;
        bufs[0].len -= bytes;
    }
    return count - gone;
}

/* Write one batch. What the socket does not take is `writing` then; an error closes. */
static void write_batch(struct net_conn *conn)
{
    uv_stream_t *stream = (uv_stream_t *)&conn->tcp;
    uv_buf_t bufs[2 * BATCH_FRAMES];
    unsigned count = batch_begin(conn, bufs);
    int rv = uv_try_write(stream, bufs, count);

    conn->write_ms = uv_now(conn->net->loop);
    count = bufs_skip(bufs, count, rv > 0 ? (size_t)rv : 0);
    if (count == 0) {
        out_list_free(conn, &conn->sending);
        return;
    }
    if (rv >= 0 || rv == UV_EAGAIN) {
        conn->writing = true;
        conn->write.data = conn;
        rv = uv_write(&conn->write, stream, bufs, count, write_cb);
    }
    if (rv != 0) {
        conn->writing = false;
        net_conn_close(conn, uv_strerror(rv));
    }
}

void net_conn_flush(struct net_conn *conn)
{
    while (!conn->writing && conn->state != NET_CONN_CLOSING && !STAILQ_EMPTY(&conn->queue)) {
        write_batch(conn);
    }
}

void net_conn_check_output(struct net_conn *conn)
{
    const struct net_uv_config *config = &conn->net->config;
    const size_t unsent_bytes = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);
    const uint64_t now_ms = uv_now(conn->net->loop);
    struct buf nothing = BUF_INIT;

    ASSERT(conn->dialled && conn->state == NET_CONN_UP);
    if (unsent_bytes == 0 || unsent_bytes != conn->unsent_bytes) {
        conn->unsent_bytes = unsent_bytes;
        conn->progress_ms = now_ms;
    }
    if (now_ms - conn->progress_ms >= config->stall_ms) {
        net_conn_close(conn, "the peer takes no data");
        return;
    }
    if (conn->queue_bytes == 0 && now_ms - conn->write_ms >= config->idle_ms) {
        net_conn_queue_frame(conn, FRAME_PING, &nothing);
        net_conn_flush(conn);
    }
}

void net_conn_drop_output(struct net_conn *conn)
{
    ASSERT(!conn->writing);
    out_list_free(conn, &conn->queue);
    out_list_free(conn, &conn->sending);
    ASSERT(conn->queue_bytes == 0);
}

static size_t out_bytes(const struct net_out *out)
{
    return out->header_len + out->payload.len;
}

static void queue_out(struct net_conn *conn, struct net_out *out)
{
    STAILQ_INSERT_TAIL(&conn->queue, out, link);
    conn->queue_bytes += out_bytes(out);
}

static void out_list_free(struct net_conn *conn, struct net_out_list *list)
{
    while (!STAILQ_EMPTY(list)) {
        struct net_out *out = STAILQ_FIRST(list);

        STAILQ_REMOVE_HEAD(list, link);
        ASSERT(conn->queue_bytes >= out_bytes(out));
        conn->queue_bytes -= out_bytes(out);
        buf_free(&out->payload);
        free(out);
    }
}

static void write_cb(uv_write_t *write, int status)
{
    struct net_conn *conn = write->data;

    ASSERT(conn->writing);
    conn->writing = false;
    out_list_free(conn, &conn->sending);
    if (status < 0) {
        net_conn_close(conn, uv_strerror(status));
        return;
    }
    net_conn_flush(conn);
}
