/*
 * conn.c - see conn.h. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/proto/target.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* A busy connection is idle again after each request. Its timer is moved only when the deadline has
 * become so much too early: by this part of the idle time is it late. */
#define IDLE_LATE_PART 64

#define BIT(state) (1u << (state))

/* --- state --- */

HOT static void conn_move(struct conn *conn, enum conn_state to)
{
    static const unsigned allowed[] = {
        [CONN_IDLE] = BIT(CONN_IDLE) | BIT(CONN_HEAD) | BIT(CONN_SERVING) | BIT(CONN_FINISHING) |
                      BIT(CONN_HANDSHAKE) | BIT(CONN_CLOSED),
        [CONN_HEAD] = BIT(CONN_BODY) | BIT(CONN_SERVING) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_BODY] = BIT(CONN_SERVING) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_SERVING] = BIT(CONN_IDLE) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_FINISHING] = BIT(CONN_LINGERING) | BIT(CONN_CLOSED),
        [CONN_LINGERING] = BIT(CONN_CLOSED),
        [CONN_HANDSHAKE] = BIT(CONN_IDLE) | BIT(CONN_FINISHING) | BIT(CONN_CLOSED),
        [CONN_CLOSED] = 0,
    };

    ASSERT((allowed[conn->state] & BIT(to)) != 0);
    conn->state = to;
    if (to != CONN_SERVING) { /* which has no deadline */
        conn->since_ms = conns_now_ms(conn->conns);
    }
}

static bool is_receiving(const struct conn *conn)
{
    return conn->state <= CONN_BODY;
}

/* To go on at the end of the turn. */
HOT static void conn_queue(struct conn *conn)
{
    if (!conn->queued) {
        conn->queued = true;
        TAILQ_INSERT_TAIL(&conn->conns->queue, conn, queue_link);
        conn->conns->queue_len++;
    }
}

HOT static void conn_unqueue(struct conn *conn)
{
    ASSERT(conn->queued);
    conn->queued = false;
    TAILQ_REMOVE(&conn->conns->queue, conn, queue_link);
    conn->conns->queue_len--;
}

/* --- the end --- */

static void closed_cb(uv_handle_t *handle)
{
    struct conn *conn = handle->data;

    ASSERT(conn->state == CONN_CLOSED);
    input_free(&conn->input, conn->conns->input);
    output_free(&conn->output);
    if (conn->tls != NULL) {
        session_free(conn->tls);
    }
    free(conn);
}

/* Between two requests: say that this is the end, so that nobody takes it for a line that was cut.
 * If the socket does not take it, so be it. */
COLD static void say_goodbye(struct conn *conn)
{
    if (conn->state == CONN_IDLE && !output_is_waiting(&conn->output) &&
        conn->output.out.len == 0 && session_owes(conn->tls, true)) {
        (void)output_seal(&conn->output, &conn->conns->pool, conn->fd, conn->tls, true);
    }
}

/* Close without another word; memory goes when libuv is through. Idempotent. */
COLD static void conn_close(struct conn *conn, const char *reason)
{
    struct conns *conns = conn->conns;
    struct http_wait *wait = conn->wait;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    log_debug("http", "connection closed", "reason=\"%s\"", reason);
    if (conn->tls != NULL) {
        say_goodbye(conn);
        session_stop(conn->tls);
    }
    conn_move(conn, CONN_CLOSED);
    if (wait != NULL) {
        (void)conn_resume(wait);
        wait->cancel(wait);
    }
    if (conn->note != NULL) {
        conns->service->answered(conn, 0, NULL, 0);
    }
    timer_cancel(&conns->timers, &conn->read_timer);
    timer_cancel(&conns->timers, &conn->write_timer);
    if (conn->queued) {
        conn_unqueue(conn);
    }
    conns->body_bytes -= conn->body.len;
    buf_free(&conn->body);
    TAILQ_REMOVE(&conns->all, conn, all_link);
    conns->counts.conns--;
    conns->refused_count -= conn->refused;
    uv_close((uv_handle_t *)&conn->poll, closed_cb);
    close(conn->fd);
    conn->fd = -1;
}

/* What the kernel still holds for the client would linger for minutes behind an orderly close. */
COLD static void conn_abort(struct conn *conn, const char *reason)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    conn_close(conn, reason);
}

/* --- replies --- */

HOT static const char *conns_date(struct conns *conns)
{
    uint64_t now_ms = conns_now_ms(conns);
    uint64_t wall_ms;

    if (now_ms >= conns->date_until_ms) {
        wall_ms = clock_wall_ms(conns->service->clock);
        text_time_http(wall_ms, conns->date);
        conns->date_until_ms = now_ms + 1000 - wall_ms % 1000;
    }
    return conns->date;
}

/* The present request is answered: make room for the next one. */
HOT static void request_done(struct conn *conn, bool is_last)
{
    conn->conns->body_bytes -= conn->body.len;
    if (conn->body.capacity > 0) {
        buf_free(&conn->body);
    }
    if (is_last) {
        if (conn->input.end > conn->input.next) {
            conn->ending = CONN_LINGERS;
        }
        conn_move(conn, CONN_FINISHING);
        input_drop(&conn->input);
    } else {
        conn_move(conn, CONN_IDLE);
        input_used(&conn->input);
    }
    conn_queue(conn);
}

HOT void conn_reply(struct conn *conn, int status, const char *type, const char *extra,
                    const void *body, size_t len)
{
    const struct parser_head *head = conn_head(conn);
    struct conns *conns = conn->conns;
    bool is_complete = conn->state == CONN_SERVING; /* else the head says nothing yet */
    struct response_frame frame = {
        .date = conns_date(conns),
        .close = conn->ending != CONN_STAYS || !head->keep_alive || conns->draining,
        .head_only = is_complete && head->method == METHOD_HEAD,
    };

    ASSERT(is_complete || (is_receiving(conn) && conn->ending != CONN_STAYS));
    ASSERT(conn->wait == NULL);
    frame.keep_alive = head->http_1_0 && !frame.close;
    response_put(output_buf(&conn->output, &conns->pool), &frame, status, type, extra, body, len);
    conn->output.reply_count++;
    conns_count(&conns->counts.replies[status / 100], 1);
    if (conn->note != NULL) {
        conns->service->answered(conn, status, body, len);
    }
    request_done(conn, frame.close);
}

void conn_fail(struct conn *conn, int status, const char *code, const char *extra, const char *more,
               const char *message)
{
    const struct request *request = &conn->request;
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    response_error_json(scratch, clock_wall_ms(conn->conns->service->clock), status, code, message,
                        request->path_len > 0 ? conn_at(conn, request->path_at) : "",
                        request->path_len, more);
    conn_reply(conn, status, RESPONSE_JSON, extra, scratch->data, scratch->len);
}

/* --- replies that come part by part --- */

/* The connection has to end with the reply. */
static bool stream_is_last(const struct conn *conn)
{
    const struct parser_head *head = conn_head(conn);

    return conn->ending != CONN_STAYS || !head->keep_alive || head->http_1_0 ||
           conn->conns->draining;
}

void conn_stream(struct conn *conn, const char *type)
{
    struct conns *conns = conn->conns;
    struct response_frame frame = {.date = conns_date(conns), .close = stream_is_last(conn)};

    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    response_put_stream(output_buf(&conn->output, &conns->pool), &frame, type,
                        !conn_head(conn)->http_1_0);
    conns_count(&conns->counts.replies[200 / 100], 1);
    conn_queue(conn);
}

void conn_stream_put(struct conn *conn, const void *data, size_t len)
{
    struct buf *out = output_buf(&conn->output, &conn->conns->pool);

    ASSERT(conn->state == CONN_SERVING && len > 0);
    if (conn_head(conn)->http_1_0) {
        buf_put(out, data, len);
    } else {
        response_put_chunk(out, data, len);
    }
    conn_queue(conn);
}

void conn_stream_end(struct conn *conn)
{
    ASSERT(conn->state == CONN_SERVING && conn->wait == NULL);
    if (!conn_head(conn)->http_1_0) {
        response_put_chunk(output_buf(&conn->output, &conn->conns->pool), NULL, 0);
    }
    conn->output.reply_count++;
    if (conn->note != NULL) {
        conn->conns->service->answered(conn, 200, NULL, 0);
    }
    request_done(conn, stream_is_last(conn));
}

void conn_stream_cut(struct conn *conn, const char *reason)
{
    conn_abort(conn, reason);
}

/* Answer with an error and close: the input cannot be trusted to be in step. */
COLD static void conn_reject(struct conn *conn, const struct parser_reject *reject)
{
    char message[160];

    (void)snprintf(message, sizeof message, "%s; the limit is %llu", reject->why,
                   (unsigned long long)reject->limit);
    conn->ending = CONN_LINGERS;
    conn_fail(conn, reject->status, reject->code, NULL, "",
              reject->limit > 0 ? message : reject->why);
}

/* --- who asks --- */

const char *conn_certificate(const struct conn *conn)
{
    return conn->tls != NULL ? conn->tls->certificate : NULL;
}

/* --- requests that wait --- */

static void wait_fire(struct timer *timer, uint64_t now_ms)
{
    struct http_wait *wait = CONTAINER(timer, struct http_wait, timer);

    (void)now_ms;
    wait->expire(wait);
}

void conn_wait(struct conn *conn, struct http_wait *wait, uint64_t until_ms)
{
    ASSERT(conn->state == CONN_SERVING);
    ASSERT(conn->wait == NULL);
    ASSERT(wait->cancel != NULL);
    ASSERT(wait->expire != NULL || (until_ms == TIMER_NEVER && !wait->expires_on_drain));
    conn->wait = wait;
    wait->conn = conn;
    timer_init(&wait->timer, wait_fire);
    timer_arm(&conn->conns->timers, &wait->timer, until_ms);
}

struct conn *conn_resume(struct http_wait *wait)
{
    struct conn *conn = wait->conn;

    ASSERT(conn->wait == wait);
    timer_cancel(&conn->conns->timers, &wait->timer);
    conn->wait = NULL;
    wait->conn = NULL;
    return conn;
}

/* --- from bytes to requests --- */

/* The request is complete. */
HOT static bool request_serve(struct conn *conn)
{
    conn_move(conn, CONN_SERVING);
    conn->conns->service->handle(conn);
    return true;
}

/* Split the target and ask the service. False when the target cannot be read; answered. */
HOT static bool request_admit(struct conn *conn)
{
    static const struct parser_reject bad_target = {
        400, "bad_request", "the request target is not a path beginning with \"/\"", 0};
    const char *head = conn_at(conn, 0);
    struct request *request = &conn->request;
    struct target target;

    if (target_split(head + conn_head(conn)->target_at, conn_head(conn)->target_len, &target) !=
        0) {
        conn_move(conn, CONN_SERVING);
        conn_reject(conn, &bad_target);
        return false;
    }
    request->path_at = (uint32_t)(target.path - head);
    request->path_len = (uint32_t)target.path_len;
    if (target.query_len > 0) {
        request->query_at = (uint32_t)(target.query - head);
        request->query_len = (uint32_t)target.query_len;
    }
    request->admission = conn->conns->service->admit(conn);
    return true;
}

/* The head is complete. */
HOT static bool head_done(struct conn *conn)
{
    const struct parser_head *head = conn_head(conn);

    conn->input.next = conn->input.start + head->len;
    if (!request_admit(conn)) {
        return true;
    }
    if (!head->has_body) {
        if (head->len <= sizeof conn->last) {
            memcpy(conn->last, conn_at(conn, 0), head->len);
            conn->last_len = head->len;
        }
        return request_serve(conn);
    }
    conn_move(conn, CONN_BODY);
    if (head->expect_continue && conn->request.admission == HTTP_REFUSE) {
        /* The client may or may not send its body now: no telling where the next request begins. */
        conn->ending = CONN_LINGERS;
        return request_serve(conn);
    }
    if (head->expect_continue && conn->input.next == conn->input.end) {
        buf_put(output_buf(&conn->output, &conn->conns->pool), CONTINUE, sizeof(CONTINUE) - 1);
        conn_queue(conn);
    }
    return true;
}

/* Does a request begin with the head that was read last? */
HOT static bool is_repeated(const struct conn *conn)
{
    return conn->last_len > 0 && conn->last_len <= input_len(&conn->input) &&
           memcmp(conn_at(conn, 0), conn->last, conn->last_len) == 0;
}

/* Scan the head. False when it needs more input. */
HOT static bool step_head(struct conn *conn)
{
    struct input *input = &conn->input;

    if (conn->state == CONN_IDLE) {
        if (input->start == input->end) {
            return false;
        }
        if (is_repeated(conn)) {
            ASSERT(conn_head(conn)->len == conn->last_len);
            input->next = input->start + conn->last_len;
            return request_serve(conn);
        }
        conn->last_len = 0;
        parser_init(&conn->parser);
        conn->request = (struct request){0};
        conn_move(conn, CONN_HEAD);
    }
    switch (parser_head(&conn->parser, conn_at(conn, 0), input_len(input))) {
    case PARSER_MORE:
        return false;
    case PARSER_DONE:
        return head_done(conn);
    case PARSER_REJECT:
        conn_reject(conn, &conn->parser.reject);
        return true;
    }
    UNREACHABLE("an event of the parser");
}

/* Keep a piece of the body if the service wants it. False when there is no room; answered. */
static bool body_keep(struct conn *conn, const char *data, size_t len)
{
    static const struct parser_reject overloaded = {
        503, "overloaded", "too many request bodies are being received", 0};
    struct conns *conns = conn->conns;

    if (conn->request.admission != HTTP_KEEP_BODY || len == 0) {
        return true;
    }
    ASSERT(conn->body.len + len <= LIMIT_HTTP_BODY_BYTES);
    if (conns->body_bytes + len > LIMIT_HTTP_BODIES_BYTES) {
        conn_reject(conn, &overloaded);
        return false;
    }
    buf_put(&conn->body, data, len);
    conns->body_bytes += len;
    return true;
}

/* Take what is there of the body. False when it needs more input. */
static bool step_body(struct conn *conn)
{
    struct input *input = &conn->input;
    char *data = input->bytes + input->next;
    size_t used;
    size_t decoded;
    enum parser_event event =
        parser_body(&conn->parser, data, input->end - input->next, &used, &decoded);

    if (event == PARSER_REJECT) {
        conn_reject(conn, &conn->parser.reject);
        return true;
    }
    if (!body_keep(conn, data, decoded)) {
        return true;
    }
    if (event == PARSER_MORE) {
        /* All of it was consumed: its place takes what comes next. */
        ASSERT(used == input->end - input->next);
        input->end = input->next;
        return false;
    }
    input->next += (uint32_t)used;
    ASSERT(input->next <= input->end);
    return request_serve(conn);
}

/* --- the socket --- */

static void conn_rest(struct conn *conn);

/* More of what was received over TLS. False: there is no more now; conn->ended may be true. */
HOT static bool conn_decrypt(struct conn *conn)
{
    struct input *input = &conn->input;
    ssize_t len;

    input_borrow(input, conn->conns->input);
    len = session_read(conn->tls, input->bytes + input->end, INPUT_BYTES - input->end);
    if (len > 0) {
        input->end += (uint32_t)len;
        return true;
    }
    if (len == TLS_BROKEN) {
        conn->ending = CONN_LINGERS; /* what came behind was not read */
    }
    conn->ended = conn->ended || len < 0;
    if (session_owes(conn->tls, false)) {
        conn_queue(conn);
    }
    return false;
}

/* Serve what is in the buffer. The replies are sent at the end of the turn. */
HOT static void conn_process(struct conn *conn)
{
    const struct input *input = &conn->input;
    bool hungry = false;

    ASSERT(conn->state != CONN_CLOSED);
    while (!hungry && is_receiving(conn) && !output_is_full(&conn->output)) {
        hungry = conn->state == CONN_BODY ? !step_body(conn) : !step_head(conn);
        if (hungry && conn->tls != NULL) {
            hungry = !conn_decrypt(conn);
        }
    }
    if (hungry && (conn->ended || (conn->conns->draining && input->start == input->end))) {
        conn_move(conn, CONN_FINISHING);
        conn_queue(conn);
    }
    conn_rest(conn);
}

/* All is written and nothing more will be. */
static void conn_end(struct conn *conn)
{
    if ((conn->ending != CONN_LINGERS && conn->tls == NULL) || conn->ended) {
        conn_close(conn, "done");
        return;
    }
    conn_move(conn, CONN_LINGERING);
    if (shutdown(conn->fd, SHUT_WR) != 0) {
        conn_close(conn, "shutdown failed");
        return;
    }
    conn_rest(conn);
}

static void write_timer_arm(struct conn *conn)
{
    struct conns *conns = conn->conns;

    conn->sent_before = conn->output.sent_bytes;
    timer_arm(&conns->timers, &conn->write_timer, conns_now_ms(conns) + conns->settings->write_ms);
}

static void write_timer_fire(struct timer *timer, uint64_t now_ms)
{
    struct conn *conn = CONTAINER(timer, struct conn, write_timer);

    (void)now_ms;
    ASSERT(output_is_waiting(&conn->output));
    if (conn->output.sent_bytes == conn->sent_before) {
        conn_abort(conn, "the client takes no output");
    } else {
        write_timer_arm(conn);
    }
}

/* Does a part of a stream wait to be sent before the next one is asked for? */
HOT static bool is_streaming(const struct conn *conn)
{
    return conn->state == CONN_SERVING && conn->wait != NULL && conn->wait->sent != NULL &&
           conn->output.out.len == 0;
}

COLD static void conn_take_more(struct conn *conn)
{
    conn->wait->sent(conn->wait);
}

/* Give the socket what there is. */
HOT static enum output_result conn_give(struct conn *conn)
{
    struct output_pool *pool = &conn->conns->pool;

    return conn->tls == NULL ? output_send(&conn->output, pool, conn->fd)
                             : output_seal(&conn->output, pool, conn->fd, conn->tls,
                                           conn->state == CONN_FINISHING);
}

/* Send what there is, in a turn's end or when the socket takes more. */
HOT static void conn_send(struct conn *conn)
{
    bool was_waiting = output_is_waiting(&conn->output);
    bool go_on = was_waiting || output_is_full(&conn->output) || conn->conns->draining;
    bool has_more;

    switch (conn_give(conn)) {
    case OUTPUT_FAILED:
        conn_close(conn, "write failed");
        return;
    case OUTPUT_WAITS:
        if (!was_waiting) {
            write_timer_arm(conn);
            conn_rest(conn);
        }
        return;
    case OUTPUT_DONE:
        break;
    }
    if (was_waiting) {
        timer_cancel(&conn->conns->timers, &conn->write_timer);
        if (conn->state == CONN_IDLE) {
            conn_move(conn, CONN_IDLE); /* not before now */
        }
    }
    has_more = conn->output.out.len > 0 ||
               (conn->tls != NULL && session_owes(conn->tls, conn->state == CONN_FINISHING));
    if (has_more) {
        conn_queue(conn); /* replies that came meanwhile */
    }
    if (conn->state == CONN_FINISHING && !has_more) {
        conn_end(conn);
    } else if (is_streaming(conn)) {
        conn_rest(conn);
        conn_take_more(conn);
    } else if (go_on) {
        conn_process(conn);
    }
}

/* At the end of a turn. */
HOT static void conn_turn_end(struct conn *conn)
{
    if (conn->state == CONN_IDLE && !timer_is_armed(&conn->read_timer)) {
        conn_process(conn); /* it was answered after its own turn: there may be another request */
    }
    if (conn->state != CONN_CLOSED && !output_is_waiting(&conn->output)) {
        conn_send(conn);
    }
}

/* The client sends no more: it may still read what it asked for, unless its request waits for what
 * nobody may ever read. */
static void read_end(struct conn *conn)
{
    conn->ended = true;
    if (conn->state == CONN_LINGERING || conn->state == CONN_HANDSHAKE) {
        conn_close(conn, "done");
    } else if (conn->wait != NULL && conn->wait->needs_client) {
        conn_close(conn, "the client has gone while its request waited");
    } else {
        conn_process(conn);
    }
}

HOT static void conn_read(struct conn *conn)
{
    struct input *input = &conn->input;
    ssize_t count;

    input_borrow(input, conn->conns->input);
    count = recv(conn->fd, input->bytes + input->end, INPUT_BYTES - input->end, 0);
    if (count == 0) {
        read_end(conn);
    } else if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        conn_close(conn, "read failed");
    } else if (count > 0 && conn->state <= CONN_SERVING) {
        input->end += (uint32_t)count;
        ASSERT(input->end <= INPUT_BYTES);
        conn_process(conn);
    } else {
        input_keep(input, conn->conns->input); /* what came is dropped */
    }
}

/* --- TLS --- */

/* These are the first bytes of an HTTP request: it is told so in its own language. */
COLD static void conn_is_plain(struct conn *conn)
{
    static const struct parser_reject plain = {
        400, "tls_required", "this address is for TLS: begin its URL with https://", 0};

    session_stop(conn->tls);
    session_free(conn->tls);
    conn->tls = NULL;
    conn_move(conn, CONN_IDLE);
    conn_reject(conn, &plain);
    conn_rest(conn);
}

/* There may be an alert to be sent. */
COLD static void conn_has_failed(struct conn *conn)
{
    conn->ending = CONN_LINGERS;
    conn_move(conn, CONN_FINISHING);
    conn_queue(conn);
    conn_rest(conn);
}

/* Something was received before the session is open. */
static void conn_handshake(struct conn *conn)
{
    struct tls_session *surplus;
    enum tls_step step;

    if (conn->state == CONN_IDLE) {
        conn_move(conn, CONN_HANDSHAKE);
    }
    step = session_handshake(conn->tls);
    surplus = tls_loop_surplus(conn->conns->tls);
    if (surplus != NULL) {
        conn_close(surplus->owner, "too many handshakes are under way");
    }
    if (session_owes(conn->tls, false)) {
        conn_queue(conn);
    }
    switch (step) {
    case TLS_MORE:
        conn_rest(conn);
        return;
    case TLS_OPEN:
        conn_move(conn, CONN_IDLE);
        conn_process(conn);
        return;
    case TLS_PLAIN:
        conn_is_plain(conn);
        return;
    case TLS_FAILED:
        conn_has_failed(conn);
        return;
    }
}

/* As conn_read(). */
HOT static void conn_read_sealed(struct conn *conn)
{
    struct tls_session *tls = conn->tls;
    size_t room;
    uint8_t *at;
    ssize_t count;

    if (session_must_wait(tls)) {
        return; /* the socket tells again */
    }
    at = session_room(tls, &room);
    count = recv(conn->fd, at, room, 0);
    session_received(tls, count > 0 ? (size_t)count : 0);
    if (count == 0) {
        if (conn->state == CONN_IDLE && conn->output.reply_count == 0) {
            session_cut(tls);
        }
        read_end(conn);
    } else if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        conn_close(conn, "read failed");
    } else if (count > 0 && (conn->state == CONN_HANDSHAKE || tls->phase == TLS_HELLO)) {
        conn_handshake(conn);
    } else if (conn->state < CONN_SERVING) {
        conn_process(conn);
    } else {
        conn_rest(conn);
    }
}

HOT static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    struct conns *conns = conn->conns;

    if (status < 0) {
        conn_close(conn, "the socket reports an error");
    } else {
        if ((events & UV_WRITABLE) != 0 && output_is_waiting(&conn->output)) {
            conn_send(conn);
        }
        if ((events & UV_READABLE) != 0 && conn->state != CONN_CLOSED && !conn->ended) {
            if (conn->tls == NULL) {
                conn_read(conn);
            } else {
                conn_read_sealed(conn);
            }
        }
    }
    if (conns->queue_len >= OUTPUT_BATCH) {
        conns_turn_end(conns);
    }
}

/* Wait for what there is a use for: for input as long as there is room, or to see the client's
 * end. */
HOT static void set_events(struct conn *conn, bool has_room)
{
    bool want = !conn->ended && has_room;
    int events = (want ? UV_READABLE : 0) | (output_is_waiting(&conn->output) ? UV_WRITABLE : 0);

    if (events == conn->events) {
        return;
    }
    conn->events = events;
    if (uv_poll_start(&conn->poll, events, poll_cb) != 0) {
        conn_close(conn, "cannot poll");
    }
}

/* --- deadlines of the read side --- */

static uint32_t limit_ms(const struct conn *conn)
{
    const struct http_settings *settings = conn->conns->settings;

    switch (conn->state) {
    case CONN_IDLE:
        return settings->idle_ms;
    case CONN_HEAD:
        return settings->head_ms;
    case CONN_BODY:
        return settings->body_ms;
    case CONN_LINGERING:
        return LIMIT_HTTP_LINGER_MS;
    case CONN_HANDSHAKE:
        return LIMIT_TLS_HANDSHAKE_MS;
    case CONN_SERVING:
    case CONN_FINISHING:
    case CONN_CLOSED:
        break;
    }
    UNREACHABLE("a state without a deadline");
}

static void read_timer_fire(struct timer *timer, uint64_t now_ms)
{
    struct conn *conn = CONTAINER(timer, struct conn, read_timer);
    struct parser_reject slow = {408, "too_slow", "", limit_ms(conn)};

    (void)now_ms;
    if (conn->state == CONN_IDLE) {
        conn_close(conn, "idle");
    } else if (conn->state == CONN_LINGERING) {
        conn_close(conn, "lingered");
    } else if (conn->state == CONN_HANDSHAKE) {
        conn_close(conn, "the handshake was too slow");
    } else {
        slow.why = conn->state == CONN_HEAD
                       ? "the request's head did not arrive in time (limit in ms)"
                       : "the request's body did not arrive in time (limit in ms)";
        conn_reject(conn, &slow);
    }
}

/* Set the deadline of the present state, if it has one. One whose replies are still being sent is
 * not idle: the deadline of the write side holds. */
HOT static void set_read_timer(struct conn *conn)
{
    struct timers *timers = &conn->conns->timers;
    bool is_idle = conn->state == CONN_IDLE;
    uint64_t due_ms;
    uint64_t late_ms;

    if ((!is_receiving(conn) && conn->state < CONN_LINGERING) || output_is_full(&conn->output) ||
        (is_idle && output_is_waiting(&conn->output))) {
        timer_cancel(timers, &conn->read_timer);
        return;
    }
    due_ms = conn->since_ms + limit_ms(conn);
    late_ms = is_idle ? limit_ms(conn) / IDLE_LATE_PART : 0;
    if (conn->read_timer.due_ms < due_ms || conn->read_timer.due_ms > due_ms + late_ms) {
        timer_arm(timers, &conn->read_timer, due_ms + late_ms);
    }
}

HOT static void tls_rest(struct conn *conn)
{
    if (conn->state == CONN_FINISHING || conn->state == CONN_LINGERING) {
        session_drop(conn->tls); /* as of plain HTTP */
    }
    session_keep(conn->tls, conns_now_ms(conn->conns));
    set_events(conn, session_wants(conn->tls));
}

/* After each step: which deadline holds, what to keep, and whether to read on. */
HOT static void conn_rest(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);
    set_read_timer(conn);
    input_keep(&conn->input, conn->conns->input);
    if (conn->tls == NULL) {
        set_events(conn, conn->input.start > 0 || conn->input.end < INPUT_BYTES);
    } else {
        tls_rest(conn);
    }
}

/* --- all of a loop --- */

void conns_init(struct conns *conns, uv_loop_t *uv, const struct http_settings *settings,
                const struct http_service *service)
{
    ASSERT(settings->head_ms > 0 && settings->connections > 0);
    conns->uv = uv;
    conns->settings = settings;
    conns->service = service;
    timers_init(&conns->timers);
    TAILQ_INIT(&conns->queue);
    TAILQ_INIT(&conns->all);
    if (settings->tls != NULL) {
        conns->tls = tls_loop_new(settings->tls, &conns->timers);
    }
}

void conns_free(struct conns *conns)
{
    ASSERT(conns->counts.conns == 0);
    ASSERT(conns->body_bytes == 0);
    ASSERT(TAILQ_EMPTY(&conns->queue));
    buf_free(&conns->scratch);
    tls_loop_free(conns->tls);
    output_pool_free(&conns->pool);
}

void conns_take(struct conns *conns, int fd)
{
    static const struct parser_reject overloaded = {503, "overloaded",
                                                    "too many connections are open", 0};
    static const int on = 1;
    bool refused = conns->counts.conns - conns->refused_count >= conns->settings->connections;
    struct conn *conn;

    /* Who is to be told so over TLS would need the handshake first. */
    if (refused && (conns->refused_count >= LIMIT_HTTP_REFUSED || conns->tls != NULL)) {
        close(fd);
        return;
    }
    conn = calloc(1, sizeof *conn);
    ASSERT(conn != NULL);
    conn->conns = conns;
    conn->fd = fd;
    conn->refused = refused;
    conn->since_ms = conns_now_ms(conns);
    timer_init(&conn->read_timer, read_timer_fire);
    timer_init(&conn->write_timer, write_timer_fire);
    if (uv_poll_init_socket(conns->uv, &conn->poll, fd) != 0) {
        log_debug("http", "connection closed", "reason=\"cannot poll\"");
        free(conn);
        close(fd);
        return;
    }
    conn->poll.data = conn;
    conn->tls = conns->tls != NULL ? session_new(conns->tls, conn) : NULL;
    conns->counts.conns++;
    conns->refused_count += refused;
    TAILQ_INSERT_TAIL(&conns->all, conn, all_link);
    /* Replies are whole when they are written; waiting for more would only delay them. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (refused) {
        conn_reject(conn, &overloaded);
    } else {
        conn_rest(conn);
    }
}

HOT void conns_turn_end(struct conns *conns)
{
    struct conn *conn;

    while ((conn = TAILQ_FIRST(&conns->queue)) != NULL) {
        conn_unqueue(conn);
        conn_turn_end(conn);
    }
    if (conns->tls != NULL) {
        conns->tls->starts = 0;
    }
}

/* conn: the present one; next: kept by the caller, as the present one may close. */
#define EACH_CONN(conns, conn, next)                                                               \
    for ((conn) = TAILQ_FIRST(&(conns)->all);                                                      \
         (conn) != NULL && ((next) = TAILQ_NEXT((conn), all_link), true); (conn) = (next))

void conns_drain(struct conns *conns)
{
    struct conn *conn;
    struct conn *next;

    conns->draining = true;
    EACH_CONN(conns, conn, next)
    {
        if (conn->state == CONN_IDLE && conn->input.start == conn->input.end &&
            conn->output.reply_count == 0) {
            conn_close(conn, "draining");
        } else if (conn->wait != NULL && conn->wait->expires_on_drain) {
            conn->wait->expire(conn->wait);
        }
    }
}

void conns_close(struct conns *conns, const char *reason)
{
    struct conn *conn;
    struct conn *next;

    EACH_CONN(conns, conn, next)
    {
        conn_close(conn, reason);
    }
}
