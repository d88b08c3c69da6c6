/*
 * request.c - see request.h. Thread: the loop's.
 */
#include "http/api/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/api/context.h"
#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/id/codec/tag.h"

#define MESSAGE_BYTES 640

/* --- replies --- */

void reply_json(struct conn *conn, int status, const struct buf *body)
{
    conn_reply(conn, status, RESPONSE_JSON, NULL, body->data, body->len);
}

void reply_nothing(struct conn *conn)
{
    conn_reply(conn, 204, NULL, NULL, NULL, 0);
}

void reply_error(struct conn *conn, int status, const char *code, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    conn_fail(conn, status, code, NULL, "", message);
}

void reply_error_with(struct conn *conn, int status, const char *code, const char *more,
                      const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    conn_fail(conn, status, code, NULL, more, message);
}

void reply_wrong_method(struct conn *conn, const char *allow)
{
    char message[96];
    char extra[96];

    (void)snprintf(message, sizeof message, "this route is for %s", allow);
    (void)snprintf(extra, sizeof extra, "Allow: %s\r\n", allow);
    conn_fail(conn, 405, "method_not_allowed", extra, "", message);
}

void reply_err(struct conn *conn, int err)
{
    switch (err) {
    case ERR_INVALID:
        reply_error(conn, 400, "bad_request", "%s", err_text(err));
        return;
    case ERR_UNKNOWN_TAG:
        reply_error(conn, 404, err_code(err), "%s", err_text(err));
        return;
    case ERR_WOULD_REPEAT:
    case ERR_EXHAUSTED:
    case ERR_NOT_CONTIGUOUS:
    case ERR_CONFLICT:
    case ERR_NO_WORKER_ID:
    case ERR_FENCED:
        reply_error(conn, 409, err_code(err), "%s", err_text(err));
        return;
    case ERR_TOO_LARGE:
        conn->ending = CONN_CLOSES;
        reply_error(conn, 413, "body_too_large", "the change is larger than one log entry may be");
        return;
    case ERR_NO_LEADER:
    case ERR_NOT_LEADER:
        reply_error(conn, 503, "no_leader", "%s", err_text(ERR_NO_LEADER));
        return;
    case ERR_TIMEOUT:
    case ERR_UNKNOWN_OUTCOME:
        reply_error(conn, 503, "timeout",
                    "no answer from the cluster in time; a change may or may not have been made");
        return;
    case ERR_NOMEM:
    case ERR_OVERLOADED:
        reply_error(conn, 503, "overloaded", "%s", err_text(ERR_OVERLOADED));
        return;
    case ERR_SHUTTING_DOWN:
    case ERR_DISK_FULL:
    case ERR_DISABLED:
    case ERR_CLOCK_BACKWARDS:
    case ERR_CLOCK_SKEW:
    case ERR_WINDOW_EXPIRED:
        reply_error(conn, 503, err_code(err), "%s", err_text(err));
        return;
    case ERR_EPOCH_EXHAUSTED:
        reply_error(conn, 507, err_code(err), "%s", err_text(err));
        return;
    default:
        reply_error(conn, 500, "internal_error", "the cluster answered %s: %s", err_code(err),
                    err_text(err));
        return;
    }
}

/* --- options --- */

bool request_options(struct conn *conn, struct option *options, size_t count, char *space)
{
    const struct request *request = &conn->request;
    char why[OPTION_WHY_BYTES];

    if (options_parse(conn_at(conn, request->query_at), request->query_len, options, count, space,
                      why) != 0) {
        reply_error(conn, 400, "bad_request", "%s", why);
        return false;
    }
    return true;
}

bool request_no_options(struct conn *conn)
{
    char space[LIMIT_HTTP_TARGET_BYTES];

    return request_options(conn, NULL, 0, space);
}

bool request_number(struct conn *conn, const struct option *option, const char *code, uint64_t min,
                    uint64_t max, uint64_t fallback, uint64_t *ret_value)
{
    char shown[80];

    *ret_value = fallback;
    if (!option->present ||
        text_parse_decimal(option->value, option->len, min, max, ret_value) == 0) {
        return true;
    }
    reply_error(conn, 400, code, "%s=%s is not a whole number from %llu to %llu", option->name,
                text_show(option->value, option->len, shown, sizeof shown), (unsigned long long)min,
                (unsigned long long)max);
    return false;
}

bool request_timeout(struct conn *conn, const struct option *option, uint32_t *ret_timeout_ms)
{
    uint64_t timeout_ms;

    if (!request_number(conn, option, "bad_request", 0, LIMIT_TIMEOUT_MS,
                        api_loop(conn)->api->settings->default_timeout_ms, &timeout_ms)) {
        return false;
    }
    *ret_timeout_ms = (uint32_t)timeout_ms;
    return true;
}

bool request_flag(struct conn *conn, const struct option *option, bool *ret_value)
{
    char shown[80];

    *ret_value = option->present && option->len == 1 && option->value[0] == '1';
    if (!option->present || *ret_value || (option->len == 1 && option->value[0] == '0')) {
        return true;
    }
    reply_error(conn, 400, "bad_request", "%s=%s is neither 1 nor 0", option->name,
                text_show(option->value, option->len, shown, sizeof shown));
    return false;
}

bool request_consistency(struct conn *conn, const struct option *option, bool *ret_local)
{
    char shown[80];

    *ret_local = option->present && option->len == 5 && memcmp(option->value, "local", 5) == 0;
    if (!option->present || *ret_local ||
        (option->len == 12 && memcmp(option->value, "linearizable", 12) == 0)) {
        return true;
    }
    reply_error(conn, 400, "bad_request", "consistency=%s is not linearizable or local",
                text_show(option->value, option->len, shown, sizeof shown));
    return false;
}

/* A name or the beginning of one. */
static bool part_ok(struct conn *conn, const struct option *option)
{
    char shown[160];

    if (option->len <= LIMIT_TAG_NAME_BYTES && text_is_utf8(option->value, option->len)) {
        return true;
    }
    reply_error(conn, 400, "bad_request", "%s=%s is not UTF-8 of at most %d bytes", option->name,
                text_show(option->value, option->len, shown, sizeof shown), LIMIT_TAG_NAME_BYTES);
    return false;
}

bool request_page(struct conn *conn, struct option *options, size_t count, char *space,
                  struct page *ret_page)
{
    uint64_t limit;

    if (!request_options(conn, options, count, space) || !part_ok(conn, &options[0]) ||
        !part_ok(conn, &options[1]) ||
        !request_number(conn, &options[2], "bad_request", 1, LIMIT_TAGS_PER_PAGE,
                        PAGE_LIMIT_DEFAULT, &limit)) {
        return false;
    }
    *ret_page = (struct page){options[0].value, options[0].len, options[1].value, options[1].len,
                              (uint32_t)limit};
    return true;
}

/* --- the name in the path --- */

bool request_path_number(struct conn *conn, const char *what, uint64_t min, uint64_t max,
                         uint64_t *ret_value)
{
    const struct request *request = &conn->request;
    const char *raw = conn_at(conn, request->name_at);
    char text[LIMIT_TAG_NAME_BYTES];
    char shown[SHOWN_BYTES];
    size_t len;

    if (target_decode(raw, request->name_len, TARGET_PLUS_IS_PLUS, text, sizeof text, &len) == 0 &&
        text_parse_decimal(text, len, min, max, ret_value) == 0) {
        return true;
    }
    reply_error(conn, 400, "bad_request", "%s %s is not a whole number from %llu to %llu", what,
                text_show(raw, request->name_len, shown, sizeof shown), (unsigned long long)min,
                (unsigned long long)max);
    return false;
}

COLD static void fail_tag_name(struct conn *conn, const char *why)
{
    const struct request *request = &conn->request;
    char shown[160];

    reply_error(conn, 400, "bad_tag", "bad tag %s: %s",
                text_show(conn_at(conn, request->name_at), request->name_len, shown, sizeof shown),
                why);
}

HOT bool request_tag_name(struct conn *conn, char *name, size_t *ret_len)
{
    const struct request *request = &conn->request;
    const char *why = "";
    int rv;

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
    return true;
}
