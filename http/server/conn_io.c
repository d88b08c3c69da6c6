/*
 * conn_io.c - see conn.h: a connection's socket, its deadlines, and its end. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/api/handlers.h"
#include "http/api/wait_all.h"
#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/log.h"

#define OUTPUT_KEPT_BYTES (32 << 10) /* memory grown beyond this is freed once it is empty */

/* A busy connection is idle again after each request. It is moved in the queue of idle ones only
 * when its deadline has become so much too early: by this part of the idle time is it late. */
#define IDLE_LATE_PART 64

/* The socket only cannot do it now. */
HOT static bool is_passing(int err)
{
    return err == EAGAIN || err == EWOULDBLOCK || err == EINTR || err == ENOBUFS;
}

/* --- deadlines --- */

/* Leave the present deadline of the read side and enter another, or begin the same one anew. */
HOT static void conn_set_phase(struct conn *conn, enum loop_phase phase, bool anew)
{
    struct http_loop *loop = conn->loop;
    uint64_t due_ms;

    if (conn->phase == phase && (!anew || phase == PHASE_NONE)) {
        return;
    }
    due_ms = loop_now_ms(loop) + loop->phase_ms[phase];
    if (phase == PHASE_IDLE) {
        if (conn->phase == phase && due_ms <= conn->phase_due_ms) {
            return;
        }
        due_ms += loop->phase_ms[phase] / IDLE_LATE_PART;
    }
    if (conn->phase != PHASE_NONE) {
        TAILQ_REMOVE(&loop->phases[conn->phase], conn, phase_link);
    }
    conn->phase = phase;
    if (phase != PHASE_NONE) {
        conn->phase_due_ms = due_ms;
        TAILQ_INSERT_TAIL(&loop->phases[phase], conn, phase_link);
        loop_arm(loop, due_ms);
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

    conn_set_phase(conn, PHASE_NONE, false);
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

    conn->sent_before = conn->sent_bytes;
    conn->write_due_ms = loop_now_ms(loop) + loop->settings->write_ms;
    TAILQ_INSERT_TAIL(&loop->writers, conn, write_link);
    loop_arm(loop, conn->write_due_ms);
}

void conn_write_expired(struct conn *conn)
{
    ASSERT(conn->writing);
    if (conn->sent_bytes == conn->sent_before) {
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
    struct conn *conn = handle->data;
    struct http_loop *loop = conn->loop;

    ASSERT(conn->state == CONN_CLOSED);
    TAILQ_REMOVE(&loop->conns, conn, all_link);
    loop->conn_count--;
    loop->refused_count -= conn->refused;
    if (conn->input != loop->input) {
        free(conn->input);
    }
    buf_free(&conn->out);
    buf_free(&conn->sending);
    free(conn);
    loop_conn_gone(loop);
}

static void socket_close(struct conn *conn)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    uv_close((uv_handle_t *)&conn->poll, closed_cb);
    if (conn->reset) {
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    close(conn->fd);
    conn->fd = -1;
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
    conn_set_phase(conn, PHASE_NONE, false);
    if (conn->writing) {
        TAILQ_REMOVE(&loop->writers, conn, write_link);
    }
    if (conn->ready) {
        TAILQ_REMOVE(&loop->ready, conn, ready_link);
        conn->ready = false;
    }
    if (conn->unflushed) {
        loop_flush_not(loop, conn);
    }
    loop->body_bytes -= conn->body.len;
    buf_free(&conn->body);
    socket_close(conn);
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
    if (shutdown(conn->fd, SHUT_WR) != 0) {
        conn_close(conn, "shutdown failed");
        return;
    }
    conn_rest(conn);
}

void conn_drain(struct conn *conn)
{
    if (conn->state == CONN_READING && conn->start == conn->end && !conn->writing &&
        conn->out.len == 0) {
        conn_close(conn, "draining");
    }
    wait_all_drain(conn);
}

/* --- output --- */

HOT bool conn_output_full(const struct conn *conn)
{
    size_t bytes = conn->out.len + (conn->writing ? conn->sending.len : 0);

    return conn->reply_count >= LIMIT_HTTP_PIPELINE || bytes >= LIMIT_HTTP_OUTPUT_BYTES;
}

HOT struct buf *conn_output(struct conn *conn)
{
    struct http_loop *loop = conn->loop;

    if (conn->out.capacity == 0 && loop->output_count > 0) {
        conn->out = loop->outputs[--loop->output_count];
    }
    return &conn->out;
}

/* Nothing is left in a buffer of output: its memory is for whoever answers next. */
HOT static void output_return(struct http_loop *loop, struct buf *buf)
{
    buf->len = 0;
    if (loop->output_count < LOOP_BATCH && buf->capacity <= OUTPUT_KEPT_BYTES) {
        loop->outputs[loop->output_count++] = *buf;
        *buf = (struct buf)BUF_INIT;
    } else {
        buf_free(buf);
    }
}

/* The socket did not take all of `out`: the rest, from at on, is sent when it can be. */
static void write_rest(struct conn *conn, size_t at)
{
    buf_move(&conn->sending, &conn->out);
    conn->sent_bytes = at;
    conn->writing = true;
    write_arm(conn);
}

/* The socket takes more. */
static void conn_write(struct conn *conn)
{
    struct buf *sending = &conn->sending;
    ssize_t sent;

    ASSERT(conn->writing);
    sent = send(conn->fd, sending->data + conn->sent_bytes, sending->len - conn->sent_bytes,
                MSG_NOSIGNAL);
    if (sent < 0) {
        if (!is_passing(errno)) {
            conn_close(conn, "write failed");
        }
        return;
    }
    conn->sent_bytes += (size_t)sent;
    if (conn->sent_bytes < sending->len) {
        return;
    }
    conn->writing = false;
    TAILQ_REMOVE(&conn->loop->writers, conn, write_link);
    output_return(conn->loop, sending);
    if (conn->out.len == 0) {
        conn->reply_count = 0;
    }
    conn_process(conn);
}

HOT void conn_flush(struct conn *conn)
{
    bool was_full = conn_output_full(conn);
    ssize_t sent;

    ASSERT(conn->state != CONN_CLOSED);
    if (conn->writing) {
        return; /* these replies go behind those that are under way */
    }
    if (conn->out.len > 0) {
        sent = send(conn->fd, conn->out.data, conn->out.len, MSG_NOSIGNAL);
        if (sent < 0 && !is_passing(errno)) {
            conn_close(conn, "write failed");
            return;
        }
        if (sent != (ssize_t)conn->out.len) {
            write_rest(conn, sent > 0 ? (size_t)sent : 0);
            conn_rest(conn);
            return;
        }
        output_return(conn->loop, &conn->out);
        conn->reply_count = 0;
    }
    if (conn->state == CONN_FINISHING) {
        conn_end(conn);
    } else if (was_full || conn->loop->draining) {
        conn_process(conn);
    }
}

/* --- input --- */

/* Before a read: the loop's memory, or room behind what was kept. */
HOT static void input_prepare(struct conn *conn)
{
    if (conn->input == NULL) {
        ASSERT(conn->start == 0 && conn->end == 0);
        conn->input = conn->loop->input;
    } else if (conn->end == LOOP_INPUT_BYTES) {
        ASSERT(conn->start > 0);
        memmove(conn->input, conn_at(conn, 0), conn->end - conn->start);
        conn->next -= conn->next > 0 ? conn->start : 0;
        conn->end -= conn->start;
        conn->start = 0;
    }
}

/* After a turn: keep what is left in memory of its own, and let go what is not needed. */
HOT static void input_keep(struct conn *conn)
{
    bool is_lent = conn->input == conn->loop->input;
    uint32_t len = conn->end - conn->start;
    char *own;

    if (len == 0) {
        if (!is_lent) {
            free(conn->input);
        }
        conn->input = NULL;
    } else if (is_lent) {
        own = malloc(LOOP_INPUT_BYTES);
        ASSERT(own != NULL);
        memcpy(own, conn_at(conn, 0), len);
        conn->input = own;
        conn->next -= conn->next > 0 ? conn->start : 0;
        conn->start = 0;
        conn->end = len;
    }
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

HOT static void conn_read(struct conn *conn)
{
    ssize_t count;

    input_prepare(conn);
    count = recv(conn->fd, conn->input + conn->end, LOOP_INPUT_BYTES - conn->end, 0);
    if (count == 0) {
        read_end(conn);
    } else if (count < 0 && !is_passing(errno)) {
        conn_close(conn, "read failed");
    } else if (count > 0 && (conn->state == CONN_READING || conn->state == CONN_WAITING)) {
        conn->end += (uint32_t)count;
        ASSERT(conn->end <= LOOP_INPUT_BYTES);
        conn_process(conn);
    } else {
        input_keep(conn); /* what came is dropped */
    }
}

HOT static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    struct http_loop *loop = conn->loop;

    if (status < 0) {
        conn_close(conn, "the socket reports an error");
    } else {
        if ((events & UV_WRITABLE) != 0 && conn->writing) {
            conn_write(conn);
        }
        if ((events & UV_READABLE) != 0 && conn->state != CONN_CLOSED && !conn->ended) {
            conn_read(conn);
        }
    }
    loop_settle(loop);
}

/* Wait for what there is a use for: for input as long as there is room, or to see the client's
 * end. */
HOT static void conn_set_events(struct conn *conn)
{
    bool want = !conn->ended && (conn->start > 0 || conn->end < LOOP_INPUT_BYTES);
    int events = (want ? UV_READABLE : 0) | (conn->writing ? UV_WRITABLE : 0);

    if (events == conn->events) {
        return;
    }
    conn->events = events;
    if (uv_poll_start(&conn->poll, events, poll_cb) != 0) {
        conn_close(conn, "cannot poll");
    }
}

HOT void conn_rest(struct conn *conn)
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
    conn_set_phase(conn, phase, conn->served);
    conn->served = false;
    input_keep(conn);
    conn_set_events(conn);
}

/* --- the beginning --- */

static struct conn *conn_new(struct http_loop *loop, int fd, bool refused)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    ASSERT(conn != NULL);
    conn->loop = loop;
    conn->fd = fd;
    if (uv_poll_init_socket(&loop->uv, &conn->poll, fd) != 0) {
        log_debug("http", "connection closed", "reason=\"cannot poll\"");
        free(conn);
        return NULL;
    }
    conn->poll.data = conn;
    conn->refused = refused;
    loop->conn_count++;
    loop->refused_count += refused;
    TAILQ_INSERT_TAIL(&loop->conns, conn, all_link);
    return conn;
}

void conn_open(struct http_loop *loop, int fd, bool refused)
{
    static const struct parser_reject overloaded = {503, "overloaded",
                                                    "too many connections are open", 0};
    static const int on = 1;
    struct conn *conn = conn_new(loop, fd, refused);

    if (conn == NULL) {
        close(fd);
        return;
    }
    /* Replies are whole when they are written; waiting for more would only delay them. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (refused) {
        conn_reject(conn, &overloaded);
    } else {
        conn_rest(conn);
    }
}
