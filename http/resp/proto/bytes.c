/*
 * bytes.c - see bytes.h. Thread: pure functions, any.
 */
#include "http/resp/proto/bytes.h"

#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

/* --- requests --- */

#define DIGITS_MAX 10 /* of a length; leading zeros are among them */

struct scan {
    const char *data;
    size_t len;
    size_t at;
    struct words *words;
    struct parser_reject *reject;
};

COLD static enum words_result refuse_words(struct scan *scan, const char *why, uint64_t limit)
{
    *scan->reject = (struct parser_reject){400, "bad_request", why, limit};
    return WORDS_REJECT;
}

/* Read a line of this sign and a length of up to max. */
HOT static enum words_result read_length(struct scan *scan, char sign, uint64_t max,
                                         const char *too_large, uint32_t *ret_value)
{
    const char *data = scan->data;
    size_t at = scan->at + 1;
    uint64_t value = 0;

    if (scan->at == scan->len) {
        return WORDS_MORE;
    }
    if (data[scan->at] != sign) {
        return refuse_words(scan, "a request is an array of bulk strings: $ is missing", 0);
    }
    while (at < scan->len && data[at] >= '0' && data[at] <= '9' &&
           at - scan->at <= DIGITS_MAX + 1) {
        value = value * 10 + (uint64_t)(data[at] - '0');
        at++;
    }
    if (value > max || at - scan->at > DIGITS_MAX + 1) {
        return refuse_words(scan, too_large, max);
    }
    if (at == scan->len) {
        return WORDS_MORE;
    }
    if (at == scan->at + 1 || data[at] != '\r') {
        return refuse_words(scan, "a length is not a whole number that ends in CR LF", 0);
    }
    if (at + 1 == scan->len) {
        return WORDS_MORE;
    }
    if (data[at + 1] != '\n') {
        return refuse_words(scan, "a length is not a whole number that ends in CR LF", 0);
    }
    scan->at = at + 2;
    *ret_value = (uint32_t)value;
    return WORDS_DONE;
}

HOT static enum words_result read_array(struct scan *scan)
{
    static const char too_long[] = "the request is too long (limit in bytes)";
    const char *data = scan->data;
    struct words *words = scan->words;
    enum words_result result;
    uint32_t count = 0;
    uint32_t len = 0;

    result = read_length(scan, '*', LIMIT_RESP_WORDS, "the request has too many words", &count);
    for (uint32_t i = 0; i < count && result == WORDS_DONE; i++) { /* bulk strings */
        size_t end;

        result = read_length(scan, '$', LIMIT_RESP_BYTES, too_long, &len);
        if (result != WORDS_DONE) {
            break;
        }
        end = scan->at + len;
        if (end + 2 > LIMIT_RESP_BYTES) {
            return refuse_words(scan, too_long, LIMIT_RESP_BYTES);
        }
        if ((end < scan->len && data[end] != '\r') ||
            (end + 1 < scan->len && data[end + 1] != '\n')) {
            return refuse_words(scan, "a bulk string does not end in CR LF", 0);
        }
        if (end + 2 > scan->len) {
            return WORDS_MORE;
        }
        words->word[words->count++] = (struct word){(uint16_t)scan->at, (uint16_t)len};
        scan->at = end + 2;
    }
    words->len = (uint32_t)scan->at;
    return result == WORDS_DONE && count == 0 ? WORDS_NOTHING : result;
}

/* The words of a line. */
static enum words_result read_inline(struct scan *scan)
{
    size_t look = scan->len < LIMIT_RESP_BYTES ? scan->len : LIMIT_RESP_BYTES;
    const char *data = scan->data;
    const char *newline = memchr(data, '\n', look);
    struct words *words = scan->words;
    const struct word *last;
    size_t at = 0;
    size_t end;

    if (newline == NULL) {
        return look == LIMIT_RESP_BYTES
                   ? refuse_words(scan, "the request is too long (limit in bytes)",
                                  LIMIT_RESP_BYTES)
                   : WORDS_MORE;
    }
    end = (size_t)(newline - data);
    words->len = (uint32_t)end + 1;
    end -= end > 0 && data[end - 1] == '\r';
    while (at < end) {
        size_t start = at;

        while (at < end && !text_is_blank(data[at])) {
            unsigned char c = (unsigned char)data[at++];

            if (c < 0x20 || c == '"' || c == '\'') {
                return refuse_words(scan,
                                    "an inline request has a quote or a control character: send an "
                                    "array of bulk strings",
                                    0);
            }
        }
        if (at > start && words->count == LIMIT_RESP_WORDS) {
            return refuse_words(scan, "the request has too many words", LIMIT_RESP_WORDS);
        }
        if (at > start) {
            words->word[words->count++] = (struct word){(uint16_t)start, (uint16_t)(at - start)};
        }
        while (at < end && text_is_blank(data[at])) {
            at++;
        }
    }
    if (words->count == 0) {
        return WORDS_NOTHING;
    }
    last = &words->word[words->count - 1];
    if (last->len >= 5 && memcmp(data + last->at, "HTTP/", 5) == 0) {
        return refuse_words(scan, "this listener is for RESP; HTTP is served at http.listen", 0);
    }
    return WORDS_DONE;
}

HOT enum words_result words_read(const char *data, size_t len, struct words *words,
                                 struct parser_reject *ret_reject)
{
    struct scan scan = {.data = data, .len = len, .words = words, .reject = ret_reject};

    words->len = 0;
    words->count = 0;
    if (len == 0) {
        return WORDS_MORE;
    }
    return data[0] == '*' ? read_array(&scan) : read_inline(&scan);
}

/* --- replies --- */

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

void reply_pair(struct buf *out, const char *name, const char *text)
{
    reply_bulk(out, name, strlen(name));
    reply_bulk(out, text, strlen(text));
}

void reply_number(struct buf *out, const char *name, uint64_t value)
{
    reply_bulk(out, name, strlen(name));
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
