/*
 * conn.c - see conn.h: from bytes in the buffer to requests served. Thread: the loop's.
 */
#include "http/server/conn.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* The head is complete: find its route, so that a body is kept only where it is wanted. False when
 * the target cannot be read; the error is answered. */
HOT static bool request_resolve(struct conn *conn)
{
    const char *head = conn_at(conn, 0);
    struct request *request = &conn->request;
    struct target target;
    const char *name;
    size_t name_len;

    if (target_split(head + conn->head.target_at, conn->head.target_len, &target) != 0) {
        static const struct parser_reject bad_target = {
            400, "bad_request", "the request target is not a path beginning with \"/\"", 0};

        conn_reject(conn, &bad_target);
        return false;
    }
    request->path_at = (uint32_t)(target.path - head);
    request->path_len = (uint32_t)target.path_len;
    if (target.query_len > 0) {
        request->query_at = (uint32_t)(target.query - head);
        request->query_len = (uint32_t)target.query_len;
    }
    conn->routed = router_find(conn->head.method, target.path, target.path_len, &request->route,
                               &name, &name_len);
    if (conn->routed == ROUTER_FOUND) {
        request->name_at = (uint32_t)(name - head);
        request->name_len = (uint32_t)name_len;
    }
    return true;
}

COLD static void fail_route(struct conn *conn)
{
    const struct request *request = &conn->request;
    const char *path = conn_at(conn, request->path_at);
    char shown[160];

    switch (conn->routed) {
    case ROUTER_FOUND:
        break;
    case ROUTER_NO_ROUTE:
        conn_fail(conn, 404, "no_route", "nothing is served at %s",
                  text_show(path, request->path_len, shown, sizeof(shown)));
        return;
    case ROUTER_SLASH:
        conn_fail(conn, 404, "no_route",
                  "nothing is served at %s; a slash in a name is written %%2F",
                  text_show(path, request->path_len, shown, sizeof(shown)));
        return;
    case ROUTER_NO_METHOD:
        conn_fail_method(conn, request->route->allow);
        return;
    }
    UNREACHABLE("a result of the router");
}

/* The request is complete: serve it. */
HOT static void request_serve(struct conn *conn)
{
    conn->served = true;
    conn->in_body = false;
    if (conn->routed == ROUTER_FOUND) {
        conn->request.route->handle(conn);
        conn->memo = NULL;
    } else {
        fail_route(conn);
    }
}

/* The head came before, byte for byte. */
HOT static bool step_known(struct conn *conn)
{
    struct memo *memo =
        memo_find(&conn->loop->memos, conn_at(conn, 0), (size_t)(conn->end - conn->start));

    if (memo == NULL) {
        return false;
    }
    conn->head = memo->head;
    conn->request = memo->request;
    conn->routed = ROUTER_FOUND;
    conn->memo = memo;
    conn->next = conn->start + memo->len;
    request_serve(conn);
    return true;
}

/* Scan the head. False when it needs more input. */
HOT static bool step_head(struct conn *conn)
{
    const struct parser_head *head = &conn->head;
    enum parser_event event;

    if (conn->start == conn->end) {
        return false;
    }
    if (!conn->in_head) {
        if (step_known(conn)) {
            return true;
        }
        parser_init(&conn->parser);
        conn->in_head = true;
    }
    event = parser_head(&conn->parser, conn_at(conn, 0), (size_t)(conn->end - conn->start));
    if (event == PARSER_MORE) {
        return false;
    }
    if (event == PARSER_REJECT) {
        conn_reject(conn, &conn->parser.reject);
        return true;
    }
    conn->head = conn->parser.head;
    conn->next = conn->start + head->len;
    if (!request_resolve(conn)) {
        return true;
    }
    if (!head->has_body) {
        if (conn->routed == ROUTER_FOUND) {
            conn->memo = memo_keep(&conn->loop->memos, conn_at(conn, 0), head, &conn->request);
        }
        request_serve(conn);
        return true;
    }
    conn->in_body = true;
    if (head->expect_continue && conn->routed != ROUTER_FOUND) {
        /* The client may or may not send its body now: no telling where the next request begins. */
        conn->closing = true;
        conn->linger = true;
        request_serve(conn);
    } else if (head->expect_continue && conn->next == conn->end) {
        buf_put(conn_output(conn), CONTINUE, sizeof(CONTINUE) - 1);
    }
    return true;
}

/* Keep a piece of the body if the route wants it. False when there is no room; answered. */
static bool body_keep(struct conn *conn, const char *data, size_t len)
{
    static const struct parser_reject overloaded = {
        503, "overloaded", "too many request bodies are being received", 0};
    struct http_loop *loop = conn->loop;

    if (conn->routed != ROUTER_FOUND || !conn->request.route->takes_body || len == 0) {
        return true;
    }
    ASSERT(conn->body.len + len <= LIMIT_HTTP_BODY_BYTES);
    if (loop->body_bytes + len > LIMIT_HTTP_BODIES_BYTES) {
        conn_reject(conn, &overloaded);
        return false;
    }
    buf_put(&conn->body, data, len);
    loop->body_bytes += len;
    return true;
}

/* Take what is there of the body. False when it needs more input. */
static bool step_body(struct conn *conn)
{
    char *data = conn->input + conn->next;
    size_t used;
    size_t decoded;
    enum parser_event event =
        parser_body(&conn->parser, data, (size_t)(conn->end - conn->next), &used, &decoded);

    if (event == PARSER_REJECT) {
        conn_reject(conn, &conn->parser.reject);
        return true;
    }
    if (!body_keep(conn, data, decoded)) {
        return true;
    }
    if (event == PARSER_MORE) {
        /* All of it was consumed: its place takes what comes next. */
        ASSERT(used == (size_t)(conn->end - conn->next));
        conn->end = conn->next;
        return false;
    }
    conn->next += (uint32_t)used;
    ASSERT(conn->next <= conn->end);
    request_serve(conn);
    return true;
}

HOT void conn_process(struct conn *conn)
{
    bool hungry = false;

    ASSERT(!conn->processing);
    ASSERT(conn->state != CONN_CLOSED);
    conn->processing = true;
    while (!hungry && conn->state == CONN_READING && !conn_output_full(conn)) {
        hungry = conn->in_body ? !step_body(conn) : !step_head(conn);
    }
    if (hungry && conn->state == CONN_READING &&
        (conn->ended || (conn->loop->draining && conn->start == conn->end))) {
        conn->state = CONN_FINISHING;
    }
    conn->processing = false;
    if (conn->state != CONN_CLOSED) {
        if (conn->out.len > 0 || conn->state == CONN_FINISHING) {
            loop_flush_later(conn->loop, conn);
        }
        conn_rest(conn);
    }
}
