/*
 * http.c - HTTP/1.1 as connections speak it: heads and bodies of requests, bytes of answers.
 *
 * The happy path: http_talker is given to a listener. For each request the head is read
 * (http/proto/parser.h), the service finds the route, the body is kept if the route wants it, and
 * the service answers.
 *
 * Bodies: a client that expects it gets "100 Continue". The memory of bodies is metered; a body
 * that comes slowly is refused (408) when its place is needed.
 *
 * Failure modes: a request that breaks the protocol, a body that is too large or has no room: an
 * error, and the connection ends.
 *
 * Thread: the loop's.
 */
#include <stdio.h>
#include <string.h>

#include "http/proto/head.h"
#include "http/proto/text.h"
#include "http/server/conn.h"
#include "src/base/assert.h"
#include "src/base/clock.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

#define HEAD_BYTES_MAX 512 /* a reply's head without `extra` fits, so one reserve is enough */

/* --- heads --- */

/* The head is complete: split the target, ask the service, and serve a request without a body. */
HOT static void http_head_done(struct conn *conn)
{
    static const struct parser_reject bad_target = {
        400, "bad_request", "the request target is not a path beginning with \"/\"", 0};
    const struct parser_head *head = &conn->parser.head;
    struct request *request = &conn->request;
    struct wire *wire = &conn->wire;
    const char *bytes = conn_at(conn, 0);
    const char *raw = bytes + head->target_at;
    struct target target = {.path = raw, .path_len = head->target_len};
    bool is_of_all = head->target_len == 1 && raw[0] == '*' && head->method == METHOD_OPTIONS;

    wire->next = wire->start + head->len;
    if (!is_of_all && target_split(raw, head->target_len, &target) != 0) {
        conn_move(conn, CONN_SERVING);
        conn->traffic = request->traffic;
        conn->began_us = latency_begin(&conn->conns->latency);
        conn_reject(conn, &bad_target);
        return;
    }
    request->path_at = (uint32_t)(target.path - bytes);
    request->path_len = (uint32_t)target.path_len;
    if (target.query_len > 0) {
        request->query_at = (uint32_t)(target.query - bytes);
        request->query_len = (uint32_t)target.query_len;
    }
    request->admission = conn->conns->service->admit(conn);
    if (!head->has_body) {
        if (conn->cut == NULL) { /* else the time decides for each request */
            conn_keep_head(conn);
        }
        conn_serve(conn);
        return;
    }
    conn_move(conn, CONN_BODY);
    if (request->admission == HTTP_REFUSE &&
        (head->expect_continue || head->content_length > request->body_max)) {
        /* The client may or may not send its body now: where the next request begins is unknown. */
        conn->ending = CONN_LINGERS;
        conn_serve(conn);
        return;
    }
    if (head->content_length > request->body_max) {
        conn_refuse(conn, REFUSED_LARGE, request->body_max);
        return;
    }
    if (head->expect_continue && wire->next == wire->end) {
        buf_put(wire_out(wire, &conn->conns->pool), CONTINUE, sizeof(CONTINUE) - 1);
        conn_queue(conn);
    }
}

/* --- bodies --- */

/* Keep a piece of the body if the service wants it. False when there is no room; answered. */
static bool keep_body(struct conn *conn, const char *data, size_t len)
{
    struct conns *conns = conn->conns;
    const uint64_t now_ms = uv_now(conns->uv);
    struct metered *slow = NULL;
    enum meter_body result;

    if (conn->parser.body_bytes + conn->parser.body_left > conn->request.body_max) {
        conn_refuse(conn, REFUSED_LARGE, conn->request.body_max);
        return false;
    }
    if (conn->request.admission != HTTP_KEEP_BODY || len == 0) {
        return true;
    }
    ASSERT(conn->body.len + len <= conn->request.body_max);
    result = meter_body(&conns->meter, &conn->metered, conn->client, len, now_ms);
    /* Take the places of bodies that are slow, those with the least progress first. */
    while (result > METER_BODY_QUOTA &&
           (slow = meter_slow_body(&conns->meter, slow, now_ms)) != NULL) {
        struct conn *body = CONTAINER(slow, struct conn, metered);

        if (body != conn &&
            (result == METER_BODY_ALL || slow->body_bytes > LIMIT_HTTP_SMALL_BODY_BYTES) &&
            (result != METER_BODY_SHARE || body->client == conn->client)) {
            conn_refuse(body, REFUSED_BODY_SLOW, 0);
            slow = NULL; /* it is no longer in the list */
            result = meter_body(&conns->meter, &conn->metered, conn->client, len, now_ms);
        }
    }
    switch (result) {
    case METER_BODY_OK:
        buf_put(&conn->body, data, len);
        return true;
    case METER_BODY_QUOTA:
        conn_refuse(conn, REFUSED_BODY_QUOTA, conn->client->bodies_max);
        return false;
    case METER_BODY_SHARE:
        conn_refuse(conn, REFUSED_BODY_SHARE, conns->meter.client_max);
        return false;
    case METER_BODY_LARGE:
    case METER_BODY_ALL:
        conn_refuse(conn, REFUSED_BODIES, 0);
        return false;
    }
    UNREACHABLE("a result of metering a body");
}

/* Take the received part of the body. False when it needs more input. */
static bool step_body(struct conn *conn)
{
    struct wire *wire = &conn->wire;
    char *data = wire->bytes + wire->next;
    size_t used;
    size_t decoded;
    enum parser_event event =
        parser_body(&conn->parser, data, wire->end - wire->next, &used, &decoded);

    if (event == PARSER_REJECT) {
        conn_reject(conn, &conn->parser.reject);
        return true;
    }
    if (!keep_body(conn, data, decoded)) {
        return true;
    }
    if (event == PARSER_MORE) {
        /* All of it was consumed: the next bytes take its place. */
        ASSERT(used == wire->end - wire->next);
        wire->end = wire->next;
        return false;
    }
    wire->next += (uint32_t)used;
    ASSERT(wire->next <= wire->end);
    conn_serve(conn);
    return true;
}

HOT static bool http_step(struct conn *conn)
{
    if (conn->state == CONN_BODY) {
        return step_body(conn);
    }
    if (conn->state == CONN_IDLE) {
        conn->parser = (struct parser){0};
        conn_move(conn, CONN_HEAD);
    }
    switch (parser_head(&conn->parser, conn_at(conn, 0), wire_len(&conn->wire))) {
    case PARSER_MORE:
        return false;
    case PARSER_DONE:
        http_head_done(conn);
        return true;
    case PARSER_REJECT:
        if (is_proxy_header(conn_at(conn, 0), wire_len(&conn->wire))) {
            conn_reject_proxy(conn, false);
        } else {
            conn_reject(conn, &conn->parser.reject);
        }
        return true;
    }
    UNREACHABLE("an event of the parser");
}

/* --- answers --- */

/* The reason phrase of a status. */
static const char *status_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Payload Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {423, "Locked"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    UNREACHABLE("a status leafd does not send");
}

/* Appends, with room checked before, and returns the place after it. */
#define PUT_LITERAL(at, text) mempcpy((at), (text), sizeof(text) - 1)

/* A stream has no length: its body comes in chunks, or, to a client of HTTP/1.0, ends with the
 * connection. 503 and 423 always carry Retry-After: 1, and so does 429 unless `extra` has
 * another. */
HOT static void http_put(struct conn *conn, struct buf *out, const struct answer *answer)
{
    const struct parser_head *head = &conn->parser.head;
    const bool is_complete = conn->state == CONN_SERVING; /* else the head is not valid yet */
    const size_t extra_len = answer->extra != NULL ? strlen(answer->extra) : 0;
    const bool is_stream = answer->form == ANSWER_STREAM;
    struct conns *conns = conn->conns;
    const uint64_t now_ms = uv_now(conns->uv);
    const int status = answer->status;
    size_t body_len = answer->len; /* of what is put here */
    char *at;

    if (is_stream && head->http_1_0) {
        conn->ending = CONN_CLOSES;
    }
    ASSERT(status >= 200 && status <= 599);
    ASSERT_IMPLIES(answer->len > 0, answer->type != NULL && status != 204);
    ASSERT_IMPLIES(answer->form == ANSWER_PARTS, head->method != METHOD_HEAD);
    if (answer->form != ANSWER_WHOLE || (is_complete && head->method == METHOD_HEAD)) {
        body_len = 0;
    }
    buf_reserve(out, HEAD_BYTES_MAX + extra_len + body_len);
    at = (char *)out->data + out->len;
    if (status == 200) {
        at = PUT_LITERAL(at, "HTTP/1.1 200 OK\r\n");
    } else {
        at += snprintf(at, HEAD_BYTES_MAX, "HTTP/1.1 %d %s\r\n", status, status_reason(status));
    }
    at = PUT_LITERAL(at, "Date: ");
    if (now_ms >= conns->date_until_ms) { /* made anew each second */
        const uint64_t wall_ms = clock_wall_ms(conns->service->clock);

        text_time_http(wall_ms, conns->date);
        conns->date_until_ms = now_ms + 1000 - wall_ms % 1000;
    }
    at = mempcpy(at, conns->date, TEXT_TIME_HTTP_BYTES);
    if (answer->type != NULL) {
        at = PUT_LITERAL(at, "\r\nContent-Type: ");
        at = mempcpy(at, answer->type, strlen(answer->type));
    }
    if (status != 204 && !is_stream) {
        at = PUT_LITERAL(at, "\r\nContent-Length: ");
        at += text_decimal(answer->len, at);
    }
    at = PUT_LITERAL(at, "\r\nCache-Control: no-store\r\n");
    if (status == 503 || status == 423 || (status == 429 && answer->extra == NULL)) {
        at = PUT_LITERAL(at, "Retry-After: 1\r\n");
    }
    if (is_stream && !head->http_1_0) {
        at = PUT_LITERAL(at, "Transfer-Encoding: chunked\r\n");
    }
    if (answer->is_last || (is_stream && head->http_1_0)) {
        at = PUT_LITERAL(at, "Connection: close\r\n");
    } else if (head->http_1_0) {
        at = PUT_LITERAL(at, "Connection: keep-alive\r\n");
    }
    if (extra_len > 0) {
        at = mempcpy(at, answer->extra, extra_len);
    }
    at = PUT_LITERAL(at, "\r\n");
    if (body_len > 0) {
        at = mempcpy(at, answer->body, body_len);
    }
    out->len = (size_t)(at - (char *)out->data);
    ASSERT(out->len <= out->capacity);
}

static void http_put_piece(struct conn *conn, struct buf *out, const void *data, size_t len)
{
    if (conn->parser.head.http_1_0) {
        buf_put(out, data, len);
        return;
    }
    buf_printf(out, "%zx\r\n", len);
    buf_put(out, data, len);
    buf_put(out, "\r\n", 2);
}

static void http_put_error(struct conn *conn, struct buf *out, const struct answer_error *error)
{
    const struct request *request = &conn->request;
    const char *path = request->path_len > 0 ? conn_at(conn, request->path_at) : "";

    buf_printf(out,
               "{\"timestamp\":%llu,\"status\":%d,\"error\":\"%s\",\"code\":\"%s\",\"message\":",
               ull(clock_wall_ms(conn->conns->service->clock)), error->status,
               status_reason(error->status), error->code);
    text_put_json(out, error->message, strlen(error->message));
    buf_put(out, ",\"path\":", 8);
    text_put_json(out, path, request->path_len);
    buf_put(out, error->more, strlen(error->more));
    buf_put_u8(out, '}');
}

const struct talker http_talker = {
    .step = http_step,
    .put = http_put,
    .put_piece = http_put_piece,
    .put_error = http_put_error,
    .starved = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
               "Connection: close\r\nContent-Length: 0\r\n\r\n",
    .tls_required = "this address is for TLS: begin its URL with https://",
};
