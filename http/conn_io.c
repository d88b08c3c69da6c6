/*
 * conn_io.c - see conn.h: a connection's socket, its deadlines, and its end. Thread: the loop's.
 */
#include "http/conn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/handlers.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define OUTPUT_KEPT_BYTES (64 << 10) /* a buffer grown beyond this is freed once it is empty */
#define OUTPUT_FIRST_BYTES 4096

static struct conn *conn_of(void *handle)
{
    return ((uv_handle_t *)handle)->data;
}

/* --- deadlines --- */

void conn_set_phase(struct conn *conn, enum loop_phase phase)
{
    struct http_loop *loop = conn->loop;

    if (conn->phase == phase) {
        return;
    }
    if (conn->phase != PHASE_NONE) {
        TAILQ_REMOVE(&loop->phases[conn->phase], conn, phase_link);
    }
    conn->phase = phase;
    if (phase != PHASE_NONE) {
        conn->phase_due_ms = loop_now_ms(loop) + loop->phase_ms[phase];
        TAILQ_INSERT_TAIL(&loop->phases[phase], conn, phase_link);
        loop_arm(loop, conn->phase_due_ms);
    }
}

void conn_phase_expired(struct conn *conn)
{
    static const struct parser_reject slow_head = {
        408, "too_slow", "the request's head did not arrive in time (limit in ms)", 0};
    static const struct parser_reject slow_body = {
        408, "too_slow", "the request's body did not arrive in time (limit in ms)", 0};
    struct parser_reject reject = conn->phase == PHASE_HEAD ? slow_head : slow_body;
    enum loop_phase phase = conn->phase;

    conn_set_phase(conn, PHASE_NONE);
    if (phase == PHASE_IDLE || phase == PHASE_LINGER) {
        conn_close(conn, phase == PHASE_IDLE ? "idle" : "lingered");
        return;
    }
    ASSERT(phase == PHASE_HEAD || phase == PHASE_BODY);
    reject.limit = conn->loop->phase_ms[phase];
    conn_reject(conn, &reject);
}

static void write_arm(struct conn *conn)
{
    struct http_loop *loop = conn->loop;

    conn->write_left_bytes = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);
    conn->write_due_ms = loop_now_ms(loop) + loop->config->write_ms;
    TAILQ_INSERT_TAIL(&loop->writers, conn, write_link);
    loop_arm(loop, conn->write_due_ms);
}

void conn_write_expired(struct conn *conn)
{
    ASSERT(conn->writing);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp) == conn->write_left_bytes) {
        /* What the kernel still holds for it would linger for minutes behind an orderly close. */
        conn->reset = true;
        conn_close(conn, "the client takes no output");
        return;
    }
    TAILQ_REMOVE(&conn->loop->writers, conn, write_link);
    write_arm(conn);
}

/* --- the end --- */

static void closed_cb(uv_handle_t *handle)
{
    struct conn *conn = conn_of(handle);
    struct http_loop *loop = conn->loop;

    ASSERT(conn->state == CONN_CLOSED);
    TAILQ_REMOVE(&loop->conns, conn, all_link);
    loop->conn_count--;
    loop->refused_count -= conn->refused;
    buf_free(&conn->out);
    buf_free(&conn->sending);
    free(conn);
    loop_conn_gone(loop);
}

void conn_close(struct conn *conn, const char *reason)
{
    struct http_loop *loop = conn->loop;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    log_debug("http", "connection closed", "reason=\"%s\"", reason);
    conn->state = CONN_CLOSED;
    if (conn->claim.waiter.parked) {
        ids_forget(conn);
    }
    if (conn->control != NULL) {
        control_forget(conn->control);
        conn->control = NULL;
    }
    conn_set_phase(conn, PHASE_NONE);
    if (conn->writing) {
        TAILQ_REMOVE(&loop->writers, conn, write_link);
    }
    if (conn->ready) {
        TAILQ_REMOVE(&loop->ready, conn, ready_link);
        conn->ready = false;
    }
    loop->body_bytes -= conn->body.len;
    buf_free(&conn->body);
    if (!conn->reset || uv_tcp_close_reset(&conn->tcp, closed_cb) != 0) {
        uv_close((uv_handle_t *)&conn->tcp, closed_cb);
    }
}

static void shutdown_cb(uv_shutdown_t *req, int status)
{
    struct conn *conn = req->data;

    if (status != 0 && conn->state != CONN_CLOSED) {
        conn_close(conn, "shutdown failed");
    }
}

/* All is written and nothing more will be. */
static void conn_end(struct conn *conn)
{
    ASSERT(conn->state == CONN_FINISHING);
    if (!conn->linger || conn->ended) {
        conn_close(conn, "done");
        return;
    }
    conn->state = CONN_LINGERING;
    conn->shutdown.data = conn;
    if (uv_shutdown(&conn->shutdown, (uv_stream_t *)&conn->tcp, shutdown_cb) != 0) {
        conn_close(conn, "shutdown failed");
    }
}

void conn_drain(struct conn *conn)
{
    if (conn->state == CONN_READING && conn->start == conn->end && !conn->writing &&
        conn->out.len == 0) {
        conn_close(conn, "draining");
    }
}

/* --- output --- */

bool conn_output_full(const struct conn *conn)
{
    return conn->reply_count >= LIMIT_HTTP_PIPELINE ||
           conn->out.len + conn->sending.len >= LIMIT_HTTP_OUTPUT_BYTES;
}

/* Empty a buffer, keeping its memory unless it grew large. */
static void output_reset(struct buf *buf)
{
    buf->len = 0;
    if (buf->capacity > OUTPUT_KEPT_BYTES) {
        buf_free(buf);
    }
}

static void write_cb(uv_write_t *req, int status)
{
    struct conn *conn = req->data;
    struct http_loop *loop = conn->loop;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    conn->writing = false;
    TAILQ_REMOVE(&loop->writers, conn, write_link);
    if (status < 0) {
        conn_close(conn, "write failed");
        return;
    }
    output_reset(&conn->sending);
    if (conn->out.len == 0) {
        conn->reply_count = 0;
        buf_free(&conn->out);
        buf_move(&conn->out, &conn->sending);
    } else {
        buf_free(&conn->sending);
    }
    conn_process(conn);
    loop_settle(loop);
}

/* The socket did not take all: libuv writes the rest from at on when it can. */
static void write_rest(struct conn *conn, size_t at)
{
    uv_buf_t rest;

    buf_move(&conn->sending, &conn->out);
    rest = uv_buf_init((char *)conn->sending.data + at, (unsigned)(conn->sending.len - at));
    conn->write.data = conn;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &rest, 1, write_cb) != 0) {
        conn_close(conn, "write failed");
        return;
    }
    conn->writing = true;
    write_arm(conn);
}

void conn_flush(struct conn *conn)
{
    uv_buf_t all;
    int wrote;

    if (conn->writing || conn->state == CONN_CLOSED) {
        return;
    }
    if (conn->out.len > 0) {
        all = uv_buf_init((char *)conn->out.data, (unsigned)conn->out.len);
        wrote = uv_try_write((uv_stream_t *)&conn->tcp, &all, 1);
        if (wrote < 0 && wrote != UV_EAGAIN) {
            conn_close(conn, "write failed");
            return;
        }
        if (wrote != (int)conn->out.len) {
            write_rest(conn, wrote > 0 ? (size_t)wrote : 0);
            return;
        }
        output_reset(&conn->out);
        conn->reply_count = 0;
    }
    if (conn->state == CONN_FINISHING) {
        conn_end(conn);
    }
}

/* --- input --- */

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *conn = conn_of(handle);

    (void)suggested;
    if (conn->end == CONN_INPUT_BYTES && conn->start > 0) {
        memmove(conn->input, conn->input + conn->start, conn->end - conn->start);
        conn->next -= conn->next > 0 ? conn->start : 0;
        conn->end -= conn->start;
        conn->start = 0;
    }
    *buf = uv_buf_init(conn->input + conn->end, CONN_INPUT_BYTES - conn->end);
}

/* The client sends no more: it may still read what it asked for, unless it waits for ids, which
 * nobody may ever read. */
static void read_end(struct conn *conn)
{
    conn->ended = true;
    if (conn->state == CONN_LINGERING) {
        conn_close(conn, "done");
    } else if (conn->claim.waiter.parked) {
        conn_close(conn, "the client has gone while its request waited");
    } else {
        conn_process(conn);
    }
}

static void read_cb(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct conn *conn = conn_of(stream);
    struct http_loop *loop = conn->loop;

    (void)buf;
    if (count == 0) {
        return;
    }
    if (count == UV_EOF) {
        read_end(conn);
    } else if (count < 0) {
        conn_close(conn, "read failed");
    } else if (conn->state == CONN_READING || conn->state == CONN_WAITING) {
        conn->end += (uint32_t)count;
        ASSERT(conn->end <= CONN_INPUT_BYTES);
        conn_process(conn);
    }
    loop_settle(loop);
}

/* Read as long as there is room, or to see the client's end. */
static void conn_set_reading(struct conn *conn)
{
    bool want = !conn->ended && (conn->start > 0 || conn->end < CONN_INPUT_BYTES);

    if (want == conn->reading) {
        return;
    }
    conn->reading = want;
    if (!want) {
        uv_read_stop((uv_stream_t *)&conn->tcp);
    } else if (uv_read_start((uv_stream_t *)&conn->tcp, alloc_cb, read_cb) != 0) {
        conn_close(conn, "cannot read");
    }
}

void conn_rest(struct conn *conn)
{
    enum loop_phase phase = PHASE_NONE;

    ASSERT(conn->state != CONN_CLOSED);
    if (conn->state == CONN_LINGERING) {
        phase = PHASE_LINGER;
    } else if (conn->state == CONN_READING && !conn_output_full(conn)) {
        phase = conn->in_body ? PHASE_BODY : conn->end > conn->start ? PHASE_HEAD : PHASE_IDLE;
    }
    if (phase == PHASE_IDLE && conn->writing) {
        /* It is still being served; the deadline of the write side holds. */
        phase = PHASE_NONE;
    }
    conn_set_phase(conn, phase);
    conn_set_reading(conn);
}

/* --- the beginning --- */

void conn_open(struct http_loop *loop, int fd, bool refused)
{
    static const struct parser_reject overloaded = {503, "overloaded",
                                                    "too many connections are open", 0};
    struct conn *conn = calloc(1, sizeof(*conn));

    ASSERT(conn != NULL);
    conn->loop = loop;
    ASSERT(uv_tcp_init(&loop->uv, &conn->tcp) == 0);
    conn->tcp.data = conn;
    conn->refused = refused;
    loop->conn_count++;
    loop->refused_count += refused;
    TAILQ_INSERT_TAIL(&loop->conns, conn, all_link);
    parser_init(&conn->parser);
    if (uv_tcp_open(&conn->tcp, fd) != 0) {
        close(fd);
        conn_close(conn, "cannot open");
        return;
    }
    /* Replies are whole when they are written; waiting for more would only delay them. */
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    buf_reserve(&conn->out, OUTPUT_FIRST_BYTES);
    if (refused) {
        conn_reject(conn, &overloaded);
    } else {
        conn_rest(conn);
    }
}
