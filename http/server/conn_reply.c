/*
 * conn_reply.c - see conn.h: what handlers use to read a request and to answer it. Thread: the
 * loop's.
 */
#include "http/server/conn.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/id/codec/tag.h"

#define MESSAGE_BYTES 640

void conn_wait(struct conn *conn)
{
    ASSERT(conn->state == CONN_READING || conn->state == CONN_WAITING);
    conn->state = CONN_WAITING;
}

/* The present request is answered: make room for the next one. */
HOT static void request_done(struct conn *conn, bool close)
{
    struct http_loop *loop = conn->loop;

    loop->body_bytes -= conn->body.len;
    if (conn->body.capacity > 0) {
        buf_free(&conn->body);
    }
    if (close) {
        conn->linger = conn->linger || conn->end > conn->next;
        conn->state = CONN_FINISHING;
        conn->start = conn->end;
    } else {
        conn->state = CONN_READING;
        conn->start = conn->next;
    }
    if (conn->start == conn->end) {
        conn->start = 0;
        conn->end = 0;
    }
    conn->next = 0;
    conn->in_head = false;
    conn->in_body = false;
    conn->request = (struct request){0};
    conn->head = (struct parser_head){0};
    if (!conn->processing && !conn->ready) {
        conn->ready = true;
        TAILQ_INSERT_TAIL(&loop->ready, conn, ready_link);
    }
}

HOT void conn_reply(struct conn *conn, int status, const char *type, const char *extra,
                    const void *body, size_t len)
{
    const struct parser_head *head = &conn->head;
    struct response_frame frame = {
        .date = loop_date(conn->loop),
        .close = conn->closing || !head->keep_alive || conn->loop->draining,
        .head_only = head->method == METHOD_HEAD,
    };

    ASSERT(conn->state == CONN_READING || conn->state == CONN_WAITING);
    ASSERT(conn->control == NULL);
    ASSERT(!conn->claim.waiter.parked);
    frame.keep_alive = head->http_1_0 && !frame.close;
    response_put(conn_output(conn), &frame, status, type, extra, body, len);
    conn->reply_count++;
    loop_count(&conn->loop->counts.replies[status / 100], 1);
    request_done(conn, frame.close);
}

void conn_reply_json(struct conn *conn, int status, const struct buf *body)
{
    conn_reply(conn, status, RESPONSE_JSON, NULL, body->data, body->len);
}

static void fail(struct conn *conn, int status, const char *code, const char *extra,
                 const char *message, const char *more)
{
    const struct request *request = &conn->request;
    struct http_loop *loop = conn->loop;

    loop->scratch.len = 0;
    response_error_json(&loop->scratch, clock_wall_ms(loop->backend->clock), status, code, message,
                        request->path_len > 0 ? conn_at(conn, request->path_at) : "",
                        request->path_len, more);
    conn_reply(conn, status, RESPONSE_JSON, extra, loop->scratch.data, loop->scratch.len);
}

void conn_fail(struct conn *conn, int status, const char *code, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fail(conn, status, code, NULL, message, "");
}

void conn_fail_with(struct conn *conn, int status, const char *code, const char *more,
                    const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fail(conn, status, code, NULL, message, more);
}

void conn_fail_method(struct conn *conn, const char *allow)
{
    char message[96];
    char extra[96];

    (void)snprintf(message, sizeof(message), "this route is for %s", allow);
    (void)snprintf(extra, sizeof(extra), "Allow: %s\r\n", allow);
    fail(conn, 405, "method_not_allowed", extra, message, "");
}

void conn_reject(struct conn *conn, const struct parser_reject *reject)
{
    conn->closing = true;
    conn->linger = true;
    if (reject->limit > 0) {
        conn_fail(conn, reject->status, reject->code, "%s; the limit is %llu", reject->why,
                  (unsigned long long)reject->limit);
    } else {
        conn_fail(conn, reject->status, reject->code, "%s", reject->why);
    }
}

void conn_fail_err(struct conn *conn, int err)
{
    switch (err) {
    case ERR_INVALID:
        conn_fail(conn, 400, "bad_request", "%s", err_text(err));
        return;
    case ERR_UNKNOWN_TAG:
        conn_fail(conn, 404, err_code(err), "%s", err_text(err));
        return;
    case ERR_WOULD_REPEAT:
    case ERR_EXHAUSTED:
    case ERR_NOT_CONTIGUOUS:
    case ERR_CONFLICT:
    case ERR_NO_WORKER_ID:
    case ERR_FENCED:
        conn_fail(conn, 409, err_code(err), "%s", err_text(err));
        return;
    case ERR_TOO_LARGE:
        conn->closing = true;
        conn_fail(conn, 413, "body_too_large", "the change is larger than one log entry may be");
        return;
    case ERR_NO_LEADER:
    case ERR_NOT_LEADER:
        conn_fail(conn, 503, "no_leader", "%s", err_text(ERR_NO_LEADER));
        return;
    case ERR_TIMEOUT:
    case ERR_UNKNOWN_OUTCOME:
        conn_fail(conn, 503, "timeout",
                  "no answer from the cluster in time; a change may or may not have been made");
        return;
    case ERR_NOMEM:
    case ERR_OVERLOADED:
        conn_fail(conn, 503, "overloaded", "%s", err_text(ERR_OVERLOADED));
        return;
    case ERR_SHUTTING_DOWN:
    case ERR_DISK_FULL:
    case ERR_DISABLED:
    case ERR_CLOCK_BACKWARDS:
    case ERR_CLOCK_SKEW:
    case ERR_WINDOW_EXPIRED:
        conn_fail(conn, 503, err_code(err), "%s", err_text(err));
        return;
    case ERR_EPOCH_EXHAUSTED:
        conn_fail(conn, 507, err_code(err), "%s", err_text(err));
        return;
    default:
        conn_fail(conn, 500, "internal_error", "the cluster answered %s: %s", err_code(err),
                  err_text(err));
        return;
    }
}

bool conn_options(struct conn *conn, struct option *options, size_t count, char *space)
{
    const struct request *request = &conn->request;
    char why[OPTION_WHY_BYTES];

    if (options_parse(conn_at(conn, request->query_at), request->query_len, options, count, space,
                      why) != 0) {
        conn_fail(conn, 400, "bad_request", "%s", why);
        return false;
    }
    return true;
}

COLD static void fail_tag_name(struct conn *conn, const char *why)
{
    const struct request *request = &conn->request;
    char shown[160];

    conn_fail(conn, 400, "bad_tag", "bad tag %s: %s",
              text_show(conn_at(conn, request->name_at), request->name_len, shown, sizeof(shown)),
              why);
}

HOT bool conn_tag_name(struct conn *conn, char *name, size_t *ret_len)
{
    const struct request *request = &conn->request;
    const char *why = "";
    int rv;

    if (conn->memo != NULL && conn->memo->is_name_plain) {
        /* What was found of this head's name, and of no other. */
        ASSERT(request->name_len == conn->memo->request.name_len);
        ASSERT(request->name_len <= LIMIT_TAG_NAME_BYTES);
        memcpy(name, conn_at(conn, request->name_at), request->name_len);
        *ret_len = request->name_len;
        return true;
    }

    rv = target_decode(conn_at(conn, request->name_at), request->name_len, TARGET_PLUS_IS_PLUS,
                       name, LIMIT_TAG_NAME_BYTES, ret_len);
    if (rv != 0) {
        why = rv == ERR_INVALID ? "a % without two hex digits behind it"
                                : "the name of a tag is longer than 128 bytes";
    } else {
        rv = tag_name_check(name, *ret_len, &why);
    }
    if (rv != 0) {
        fail_tag_name(conn, why);
        return false;
    }
    if (conn->memo != NULL) {
        conn->memo->is_name_plain = *ret_len == request->name_len; /* nothing was decoded */
    }
    return true;
}

bool conn_option_number(struct conn *conn, const struct option *option, const char *code,
                        uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret_value)
{
    char shown[80];

    *ret_value = fallback;
    if (!option->present ||
        text_parse_decimal(option->value, option->len, min, max, ret_value) == 0) {
        return true;
    }
    conn_fail(conn, 400, code, "%s=%s is not a whole number from %llu to %llu", option->name,
              text_show(option->value, option->len, shown, sizeof(shown)), (unsigned long long)min,
              (unsigned long long)max);
    return false;
}

bool conn_option_flag(struct conn *conn, const struct option *option, bool *ret_value)
{
    char shown[80];

    *ret_value = option->present && option->len == 1 && option->value[0] == '1';
    if (!option->present || *ret_value || (option->len == 1 && option->value[0] == '0')) {
        return true;
    }
    conn_fail(conn, 400, "bad_request", "%s=%s is neither 1 nor 0", option->name,
              text_show(option->value, option->len, shown, sizeof(shown)));
    return false;
}
