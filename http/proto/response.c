/*
 * response.c - see response.h. Thread: pure functions on the caller's buffer, any.
 */
#include "http/proto/response.h"

#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

#define HEAD_BYTES_MAX 512 /* a reply's head without `extra` fits, so one reserve is enough */

#define PUT_LITERAL(at, text) put((at), (text), sizeof(text) - 1)

const char *response_reason(int status)
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

/* These write at a place where there is room, and return the place behind. */
static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *put_text(char *at, const char *text)
{
    return put(at, text, strlen(text));
}

static char *put_status_line(char *at, int status)
{
    if (status == 200) {
        return PUT_LITERAL(at, "HTTP/1.1 200 OK\r\n");
    }
    at = PUT_LITERAL(at, "HTTP/1.1 ");
    at += text_decimal((uint64_t)status, at);
    at = PUT_LITERAL(at, " ");
    at = put_text(at, response_reason(status));
    return PUT_LITERAL(at, "\r\n");
}

HOT void response_put(struct buf *out, const struct response_frame *frame, int status,
                      const char *type, const char *extra, const void *body, size_t len)
{
    size_t extra_len = extra != NULL ? strlen(extra) : 0;
    char *at;

    ASSERT(status >= 200 && status <= 599);
    ASSERT_IMPLIES(len > 0, type != NULL && status != 204);
    buf_reserve(out, HEAD_BYTES_MAX + extra_len + (frame->head_only ? 0 : len));
    at = (char *)out->data + out->len;
    at = put_status_line(at, status);
    at = PUT_LITERAL(at, "Date: ");
    at = put(at, frame->date, TEXT_TIME_HTTP_BYTES);
    if (type != NULL) {
        at = PUT_LITERAL(at, "\r\nContent-Type: ");
        at = put_text(at, type);
    }
    if (status != 204) {
        at = PUT_LITERAL(at, "\r\nContent-Length: ");
        at += text_decimal(len, at);
    }
    at = PUT_LITERAL(at, "\r\nCache-Control: no-store\r\n");
    if (status == 503 || (status == 429 && extra == NULL)) {
        at = PUT_LITERAL(at, "Retry-After: 1\r\n");
    }
    if (frame->close) {
        at = PUT_LITERAL(at, "Connection: close\r\n");
    } else if (frame->keep_alive) {
        at = PUT_LITERAL(at, "Connection: keep-alive\r\n");
    }
    if (extra != NULL) {
        at = put(at, extra, extra_len);
    }
    at = PUT_LITERAL(at, "\r\n");
    if (!frame->head_only && len > 0) {
        at = put(at, body, len);
    }
    out->len = (size_t)(at - (char *)out->data);
    ASSERT(out->len <= out->capacity);
}

void response_put_head(struct buf *out, const struct response_frame *frame, int status,
                       const char *type, const char *extra, size_t len)
{
    struct response_frame head = *frame;

    head.head_only = true;
    response_put(out, &head, status, type, extra, NULL, len);
}

void response_put_stream(struct buf *out, const struct response_frame *frame, const char *type,
                         bool chunked)
{
    buf_printf(out, "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: %s\r\n", frame->date, type);
    buf_printf(out, "Cache-Control: no-store\r\n%s%s\r\n",
               chunked ? "Transfer-Encoding: chunked\r\n" : "",
               frame->close ? "Connection: close\r\n" : "");
}

void response_put_chunk(struct buf *out, const void *data, size_t len)
{
    buf_printf(out, "%zx\r\n", len);
    buf_put(out, data, len);
    buf_put(out, "\r\n", 2);
}

void response_error_json(struct buf *buf, uint64_t wall_ms, int status, const char *code,
                         const char *message, const char *path, size_t path_len, const char *more)
{
    buf_printf(buf,
               "{\"timestamp\":%llu,\"status\":%d,\"error\":\"%s\",\"code\":\"%s\",\"message\":",
               ull(wall_ms), status, response_reason(status), code);
    text_put_json(buf, message, strlen(message));
    buf_put(buf, ",\"path\":", 8);
    text_put_json(buf, path, path_len);
    buf_put(buf, more, strlen(more));
    buf_put_u8(buf, '}');
}
