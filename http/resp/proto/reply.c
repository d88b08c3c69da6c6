/*
 * reply.c - see reply.h. Thread: pure functions, any.
 */
#include "http/resp/proto/reply.h"

#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

_Static_assert(REPLY_ID_BYTES_MAX == 1 + (TEXT_DECIMAL_BYTES - 1) + 2, "a sign, INT64_MAX, CR LF");

/* A line of a sign and a number. */
HOT static void put_number(struct buf *out, char sign, uint64_t value)
{
    char *start;
    char *at;

    buf_reserve(out, 1 + TEXT_DECIMAL_BYTES + 2);
    start = (char *)out->data + out->len;
    at = start;
    *at++ = sign;
    at += text_decimal(value, at);
    *at++ = '\r';
    *at++ = '\n';
    out->len += (size_t)(at - start);
}

HOT void reply_integer(struct buf *out, uint64_t value)
{
    ASSERT(value <= INT64_MAX);
    put_number(out, ':', value);
}

void reply_simple(struct buf *out, const char *text)
{
    buf_printf(out, "+%s\r\n", text);
}

void reply_failure(struct buf *out, const char *kind, const char *code, const char *message)
{
    size_t start;

    buf_put_u8(out, '-');
    start = out->len;
    buf_printf(out, "%s %s: %s", kind, code, message);
    for (size_t i = start; i < out->len; i++) {
        out->data[i] = out->data[i] < 0x20 ? ' ' : out->data[i];
    }
    buf_put(out, "\r\n", 2);
}

void reply_bulk(struct buf *out, const void *data, size_t len)
{
    put_number(out, '$', len);
    buf_put(out, data, len);
    buf_put(out, "\r\n", 2);
}

void reply_text(struct buf *out, const char *text)
{
    reply_bulk(out, text, strlen(text));
}

void reply_pair(struct buf *out, const char *name, const char *text)
{
    reply_text(out, name);
    reply_text(out, text);
}

void reply_number(struct buf *out, const char *name, uint64_t value)
{
    reply_text(out, name);
    reply_integer(out, value);
}

void reply_lines(struct buf *out, unsigned version, const void *data, size_t len)
{
    if (version < 3) {
        reply_bulk(out, data, len);
        return;
    }
    put_number(out, '=', len + 4);
    buf_put(out, "txt:", 4);
    buf_put(out, data, len);
    buf_put(out, "\r\n", 2);
}

void reply_array(struct buf *out, uint64_t count)
{
    put_number(out, '*', count);
}

void reply_map(struct buf *out, unsigned version, uint64_t pairs)
{
    if (version < 3) {
        put_number(out, '*', 2 * pairs);
    } else {
        put_number(out, '%', pairs);
    }
}

void reply_nil(struct buf *out, unsigned version)
{
    buf_printf(out, version < 3 ? "$-1\r\n" : "_\r\n");
}

void reply_ids(struct buf *out, uint64_t first, uint32_t count)
{
    buf_reserve(out, (size_t)count * REPLY_ID_BYTES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        reply_integer(out, first + i);
    }
}
