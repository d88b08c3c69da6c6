/*
 * log_json.c - see log_json.h. Thread: any.
 */
#include "src/base/log_json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/utf8.h"

#define END_BYTES 3          /* `"` and `}`, and one to spare */
#define ESCAPE_BYTES 8       /* the longest that one character becomes */
#define NUMBER_DIGITS_MAX 15 /* exact in every reader of JSON */

struct sink {
    char *out;
    size_t len;
    size_t room; /* but for END_BYTES */
    bool full;   /* something did not fit: nothing more is taken */
};

static void put(struct sink *sink, const char *text, size_t len)
{
    if (sink->full || sink->len > sink->room || len > sink->room - sink->len) {
        sink->full = true;
        return;
    }
    memcpy(sink->out + sink->len, text, len);
    sink->len += len;
}

static void put_code(struct sink *sink, unsigned code)
{
    char text[ESCAPE_BYTES];
    int len = snprintf(text, sizeof text, "\\u%04x", code & 0xffffU);

    put(sink, text, (size_t)len);
}

/* One character of a text as a JSON string has it; returns its bytes. */
static size_t put_character(struct sink *sink, const char *text, size_t len)
{
    unsigned char first = (unsigned char)text[0];
    uint32_t code;
    size_t step = utf8_step(text, len, &code);

    if (step == 0) {
        put_code(sink, 0xfffd);
        return 1;
    }
    if (first < 0x20 || first == 0x7f) {
        put_code(sink, first);
    } else if (first == '"' || first == '\\') {
        put(sink, (const char[]){'\\', (char)first}, 2);
    } else {
        put(sink, text, step);
    }
    return step;
}

/* The code behind "\x" or "\u", of so many digits; -1: it is none. */
static int hex_code(const char *text, size_t len, size_t digits)
{
    int code = 0;

    if (len < digits) {
        return -1;
    }
    for (size_t i = 0; i < digits; i++) {
        const char *all = "0123456789abcdef";
        const char *found = text[i] != '\0' ? strchr(all, text[i]) : NULL;

        if (found == NULL) {
            return -1;
        }
        code = code * 16 + (int)(found - all);
    }
    return code;
}

/* What log_quote() made of one character; returns its bytes. */
static size_t put_escape(struct sink *sink, const char *text, size_t len)
{
    int code = len >= 2 && text[1] == 'x'   ? hex_code(text + 2, len - 2, 2)
               : len >= 2 && text[1] == 'u' ? hex_code(text + 2, len - 2, 4)
                                            : -1;

    if (code >= 0) {
        put_code(sink, (unsigned)code);
        return text[1] == 'x' ? 4 : 6;
    }
    if (len >= 2 && (text[1] == '"' || text[1] == '\\')) {
        put(sink, text, 2);
        return 2;
    }
    put(sink, "\\\\", 2);
    return 1;
}

static void put_string(struct sink *sink, const char *text, size_t len, bool quoted)
{
    put(sink, "\"", 1);
    for (size_t at = 0; at < len && !sink->full;) {
        at += quoted && text[at] == '\\' ? put_escape(sink, text + at, len - at)
                                         : put_character(sink, text + at, len - at);
    }
    sink->out[sink->len++] = '"'; /* END_BYTES are left */
}

static bool is_number(const char *text, size_t len)
{
    size_t at = len > 0 && text[0] == '-' ? 1 : 0;

    if (len - at == 0 || len - at > NUMBER_DIGITS_MAX || (text[at] == '0' && len - at > 1)) {
        return false;
    }
    while (at < len && text[at] >= '0' && text[at] <= '9') {
        at++;
    }
    return at == len;
}

static size_t key_len(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len && ((text[at] >= 'a' && text[at] <= 'z') || text[at] == '_' ||
                        (at > 0 && text[at] >= '0' && text[at] <= '9'))) {
        at++;
    }
    return at < len && text[at] == '=' ? at : 0;
}

/* Can a value end in front of this? */
static bool is_end(const char *text, size_t len)
{
    return len == 0 || (text[0] == ' ' && (key_len(text + 1, len - 1) > 0 ||
                                           (len == 4 && memcmp(text, " ...", 4) == 0)));
}

/* Bytes of a quoted value behind its first quote, up to the one that ends it: before another
 * key, or the end; a text of our own may have bare quotes. */
static size_t quoted_len(const char *text, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        if (text[at] == '\\') {
            at++;
        } else if (text[at] == '"' && is_end(text + at + 1, len - at - 1)) {
            return at;
        }
    }
    return len; /* the line was cut */
}

/* One member; whole or not at all, but for a value that does not fit. Returns the bytes read. */
static size_t put_member(struct sink *sink, const char *fields, size_t len, bool is_first)
{
    size_t name = key_len(fields, len);
    size_t at = name > 0 ? name + 1 : 0;
    bool quoted = name > 0 && at < len && fields[at] == '"';
    const char *end = memchr(fields + at, ' ', len - at);
    size_t value = quoted        ? quoted_len(fields + at + 1, len - at - 1)
                   : name == 0   ? len
                   : end != NULL ? (size_t)(end - fields) - at
                                 : len - at;
    const char *text = fields + at + quoted;
    struct sink before = *sink;

    put(sink, is_first ? "\"" : ",\"", is_first ? 1 : 2);
    put(sink, name > 0 ? fields : "rest", name > 0 ? name : strlen("rest"));
    put(sink, "\":", 2);
    if (sink->full || sink->len >= sink->room) {
        *sink = before;
        sink->full = true;
        return len;
    }
    if (!quoted && name > 0 && is_number(text, value) && value <= sink->room - sink->len) {
        put(sink, text, value);
    } else {
        put_string(sink, text, value, quoted);
    }
    at += value + 2 * (size_t)quoted;
    return at < len ? at + 1 : len; /* and the blank */
}

size_t log_json(const char *fields, size_t len, char *out, size_t size)
{
    struct sink sink = {.out = out, .room = size - END_BYTES};
    bool is_first = true;
    size_t at = 0;

    ASSERT(size >= LOG_JSON_BYTES_MIN);
    put(&sink, "{", 1);
    while (at < len && !sink.full) {
        at += put_member(&sink, fields + at, len - at, is_first);
        is_first = false;
    }
    sink.out[sink.len++] = '}';
    ASSERT(sink.len <= size);
    return sink.len;
}
