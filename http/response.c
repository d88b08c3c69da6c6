/*
 * response.c - see response.h. Thread: pure functions on the caller's buffer, any.
 */
#include "http/response.h"

#include <string.h>

#include "http/text.h"
#include "src/base/assert.h"

#define HEAD_BYTES_MAX 512 /* a reply's head without `extra` fits, so one reserve is enough */

#define PUT_LITERAL(buf, text) buf_put((buf), (text), sizeof(text) - 1)

const char *response_reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 202:
        return "Accepted";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 413:
        return "Payload Too Large";
    case 414:
        return "URI Too Long";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 503:
        return "Service Unavailable";
    case 507:
        return "Insufficient Storage";
    default:
        UNREACHABLE("a status leafd does not send");
    }
}

static void put_text(struct buf *out, const char *text)
{
    buf_put(out, text, strlen(text));
}

static void put_decimal(struct buf *out, uint64_t value)
{
    char digits[TEXT_DECIMAL_BYTES];

    buf_put(out, digits, text_decimal(value, digits));
}

static void put_status_line(struct buf *out, int status)
{
    if (status == 200) {
        PUT_LITERAL(out, "HTTP/1.1 200 OK\r\n");
        return;
    }
    PUT_LITERAL(out, "HTTP/1.1 ");
    put_decimal(out, (uint64_t)status);
    PUT_LITERAL(out, " ");
    put_text(out, response_reason(status));
    PUT_LITERAL(out, "\r\n");
}

void response_put(struct buf *out, const struct response_frame *frame, int status, const char *type,
                  const char *extra, const void *body, size_t len)
{
    ASSERT(status >= 200 && status <= 599);
    ASSERT_IMPLIES(len > 0, type != NULL && status != 204);
    buf_reserve(out, HEAD_BYTES_MAX + len);
    put_status_line(out, status);
    PUT_LITERAL(out, "Date: ");
    put_text(out, frame->date);
    if (type != NULL) {
        PUT_LITERAL(out, "\r\nContent-Type: ");
        put_text(out, type);
    }
    if (status != 204) {
        PUT_LITERAL(out, "\r\nContent-Length: ");
        put_decimal(out, len);
    }
    PUT_LITERAL(out, "\r\nCache-Control: no-store\r\n");
    if (status == 429 || status == 503) {
        PUT_LITERAL(out, "Retry-After: 1\r\n");
    }
    if (frame->close) {
        PUT_LITERAL(out, "Connection: close\r\n");
    } else if (frame->keep_alive) {
        PUT_LITERAL(out, "Connection: keep-alive\r\n");
    }
    if (extra != NULL) {
        put_text(out, extra);
    }
    PUT_LITERAL(out, "\r\n");
    if (!frame->head_only) {
        buf_put(out, body, len);
    }
}

void response_error_json(struct buf *buf, uint64_t wall_ms, int status, const char *code,
                         const char *message, const char *path, size_t path_len)
{
    buf_printf(buf,
               "{\"timestamp\":%llu,\"status\":%d,\"error\":\"%s\",\"code\":\"%s\",\"message\":",
               (unsigned long long)wall_ms, status, response_reason(status), code);
    text_put_json(buf, message, strlen(message));
    buf_put(buf, ",\"path\":", 8);
    text_put_json(buf, path, path_len);
    buf_put_u8(buf, '}');
}
