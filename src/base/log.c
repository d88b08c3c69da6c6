/*
 * log.c - see log.h. One write(2) a line, so that lines of several threads do not mix.
 * Thread: any.
 */
#include "src/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"

#define LINE_BYTES 2048
#define JSON_BYTES (2 * LINE_BYTES) /* some bytes expand */

static _Atomic enum log_level lowest_level = LOG_LEVEL_INFO;
static _Atomic enum log_format line_format = LOG_FORMAT_LOGFMT;
static uint64_t own_node_id;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level lowest, uint64_t node_id)
{
    log_set_level(lowest);
    own_node_id = node_id;
}

void log_set_level(enum log_level lowest)
{
    atomic_store_explicit(&lowest_level, lowest, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&line_format, format, memory_order_relaxed);
}

/* Write the content of line, with a line end. */
static void write_line(char *line, size_t len)
{
    static const char time_key[] = "time=";
    char fields[sizeof time_key + LINE_BYTES + 8];
    char json[JSON_BYTES + 1];
    size_t used;

    if (atomic_load_explicit(&line_format, memory_order_relaxed) == LOG_FORMAT_JSON) {
        memcpy(fields, time_key, strlen(time_key));
        memcpy(fields + strlen(time_key), line, len);
        used = log_json(fields, strlen(time_key) + len, json, JSON_BYTES);
        line = json;
    } else {
        used = len;
    }
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0) {
        return; /* there is no place left to report it */
    }
}

void log_line(enum log_level level, const char *at, const char *msg, const char *fields, ...)
{
    char line[LINE_BYTES + 8];
    uint64_t wall_ms;
    time_t seconds;
    char when[32];
    va_list args;
    struct tm tm;
    size_t used;
    int len;

    if (level < atomic_load_explicit(&lowest_level, memory_order_relaxed)) {
        return;
    }
    wall_ms = clock_wall_ms(clock_system());
    seconds = (time_t)(wall_ms / 1000);
    ASSERT(gmtime_r(&seconds, &tm) != NULL);
    ASSERT(strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm) > 0);
    len = snprintf(line, LINE_BYTES, "%s.%03uZ level=%s node=%llu at=%s msg=\"%s\"", when,
                   (unsigned)(wall_ms % 1000), level_names[level], ull(own_node_id), at, msg);
    used = len < 0 ? 0 : (size_t)len;
    if (fields != NULL && used + 1 < LINE_BYTES) {
        line[used++] = ' ';
        va_start(args, fields);
        len = vsnprintf(line + used, LINE_BYTES - used, fields, args);
        va_end(args);
        used += len < 0 ? 0 : (size_t)len;
    }
    if (used >= LINE_BYTES) {
        used = LINE_BYTES - 1;
        memcpy(line + used, "...", 3);
        used += 3;
    }
    write_line(line, used);
}

/* A UTF-8 character that is invisible, or reverses visible text: controls of C1, marks of
 * direction, ends of lines and paragraphs. Its bytes; 0: it is none. */
static size_t hidden_step(const char *text, size_t len, uint32_t *ret_code)
{
    size_t step = (*text & 0x80) != 0 ? utf8_step(text, len, ret_code) : 0;
    uint32_t code = step > 0 ? *ret_code : 0;

    return (code >= 0x80 && code <= 0x9f) || (code >= 0x200b && code <= 0x200f) ||
                   (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f)
               ? step
               : 0;
}

const char *log_quote(const void *text, size_t len, char *out, size_t size)
{
    const unsigned char *bytes = text;
    size_t used = 0;

    ASSERT(size >= 8);
    out[used++] = '"';
    for (size_t i = 0; i < len && used + 8 < size; i++) {
        uint32_t code;
        size_t hidden = hidden_step((const char *)text + i, len - i, &code);

        if (hidden > 0) {
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", (unsigned)code);
            i += hidden - 1;
        } else if (bytes[i] == '"' || bytes[i] == '\\') {
            out[used++] = '\\';
            out[used++] = (char)bytes[i];
        } else if (bytes[i] < 0x20 || bytes[i] == 0x7f) {
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", bytes[i]);
        } else {
            out[used++] = (char)bytes[i];
        }
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}

/* --- JSON --- */

#define END_BYTES 3          /* `"` and `}`, and one to spare */
#define ESCAPE_BYTES 8       /* maximum output of one character */
#define NUMBER_DIGITS_MAX 15 /* exact in every reader of JSON */

struct sink {
    char *out;
    size_t len;
    size_t room; /* without END_BYTES */
    bool full;   /* some output did not fit: no more is taken */
};

static void sink_put(struct sink *sink, const char *text, size_t len)
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

    sink_put(sink, text, (size_t)len);
}

/* Put one character of a text as in a JSON string; returns its bytes. */
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
        sink_put(sink, (const char[]){'\\', (char)first}, 2);
    } else {
        sink_put(sink, text, step);
    }
    return step;
}

/* The code after "\x" or "\u", of `digits` digits; -1: it is none. */
static int hex_code(const char *text, size_t len, size_t digits)
{
    char copy[5] = "";

    ASSERT(digits < sizeof copy);
    if (len < digits) {
        return -1;
    }
    memcpy(copy, text, digits);
    return strspn(copy, "0123456789abcdef") == digits ? (int)strtoul(copy, NULL, 16) : -1;
}

/* Put the character of one escape of log_quote(); returns its bytes. */
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
        sink_put(sink, text, 2);
        return 2;
    }
    sink_put(sink, "\\\\", 2);
    return 1;
}

static void put_string(struct sink *sink, const char *text, size_t len, bool quoted)
{
    sink_put(sink, "\"", 1);
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

/* Can a value end before this text? */
static bool is_end(const char *text, size_t len)
{
    return len == 0 || (text[0] == ' ' && (key_len(text + 1, len - 1) > 0 ||
                                           (len == 4 && memcmp(text, " ...", 4) == 0)));
}

/* Bytes of a quoted value after its first quote, up to the one that ends it: before another key, or
 * the end; our own texts may have bare quotes. */
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

/* Put one member, whole or not at all, except a value that does not fit. Returns the bytes read. */
static size_t sink_member(struct sink *sink, const char *fields, size_t len, bool is_first)
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

    sink_put(sink, is_first ? "\"" : ",\"", is_first ? 1 : 2);
    sink_put(sink, name > 0 ? fields : "rest", name > 0 ? name : strlen("rest"));
    sink_put(sink, "\":", 2);
    if (sink->full || sink->len >= sink->room) {
        *sink = before;
        sink->full = true;
        return len;
    }
    if (!quoted && name > 0 && is_number(text, value) && value <= sink->room - sink->len) {
        sink_put(sink, text, value);
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
    sink_put(&sink, "{", 1);
    while (at < len && !sink.full) {
        at += sink_member(&sink, fields + at, len - at, is_first);
        is_first = false;
    }
    sink.out[sink.len++] = '}';
    ASSERT(sink.len <= size);
    return sink.len;
}
