/*
 * log.c - see log.h. One write(2) a line, so that lines of several threads do not mix.
 *
 * A thread that waited for a reader of the log which stands still would keep its clients waiting,
 * the cluster, or the end of the process. So a line is only written where there is room, and
 * a pipe or terminal does not block either: log_unblock().
 *
 * Thread: any.
 */
#include "src/base/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"

#define TIME_KEY "time="
#define LINE_BYTES (sizeof TIME_KEY - 1 + 2048)
#define JSON_BYTES 4096 /* some bytes expand */

static _Atomic enum log_level lowest_level = LOG_LEVEL_INFO;
static _Atomic enum log_format line_format = LOG_FORMAT_LOGFMT;
static atomic_ulong lost_lines; /* since the last line that was written */
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

void log_unblock(void)
{
    struct stat st;
    int fd;

    if (fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || isatty(STDERR_FILENO))) {
        fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0) {
            (void)dup2(fd, STDERR_FILENO);
            (void)close(fd);
        }
    }
}

void log_line(enum log_level level, const char *at, const char *msg, const char *fields, ...)
{
    char line[LINE_BYTES + 8];
    char json[JSON_BYTES + 1];
    char *out = line + strlen(TIME_KEY); /* which logfmt does without */
    uint64_t wall_ms;
    unsigned long lost;
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
    len = snprintf(line, LINE_BYTES, TIME_KEY "%s.%03uZ level=%s node=%llu at=%s msg=\"%s\"", when,
                   (unsigned)(wall_ms % 1000), level_names[level], ull(own_node_id), at, msg);
    used = len < 0 ? 0 : (size_t)len;
    lost = atomic_exchange(&lost_lines, 0);
    if (lost > 0 && used < LINE_BYTES) {
        len = snprintf(line + used, LINE_BYTES - used, " lines_lost_before_this=%lu", lost);
        used += len < 0 ? 0 : (size_t)len;
    }
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
    if (atomic_load_explicit(&line_format, memory_order_relaxed) == LOG_FORMAT_JSON) {
        used = log_json(line, used, json, JSON_BYTES);
        out = json;
    } else {
        used -= strlen(TIME_KEY);
    }
    out[used++] = '\n';
    if (!stderr_write(out, used)) {
        (void)atomic_fetch_add(&lost_lines, lost + 1);
    }
}

const char *log_quote(const void *text, size_t len, char *out, size_t size)
{
    const unsigned char *bytes = text;
    size_t used = 0;

    ASSERT(size >= 8);
    out[used++] = '"';
    for (size_t i = 0; i < len && used + 8 < size; i++) {
        uint32_t code = 0;
        size_t step = bytes[i] >= 0x80 ? utf8_step((const char *)text + i, len - i, &code) : 0;

        /* Invisible, or reversing visible text: controls of C1, marks of direction, ends of lines
         * and paragraphs. */
        if (step > 0 &&
            ((code >= 0x80 && code <= 0x9f) || (code >= 0x200b && code <= 0x200f) ||
             (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f))) {
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", (unsigned)code);
            i += step - 1;
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

/* Put one character of a text, or one escape of a quoted one, as in a JSON string; returns the
 * bytes read. */
static size_t put_character(struct sink *sink, const char *text, size_t len, bool quoted)
{
    unsigned char first = (unsigned char)text[0];
    bool escapes = quoted && first == '\\';
    /* An escape of log_quote(), "\\x1f" or "\\u202e", has so many digits. */
    size_t digits = !escapes || len < 2 ? 0 : text[1] == 'x' ? 2 : text[1] == 'u' ? 4 : 0;
    char code[ESCAPE_BYTES];
    uint32_t ignored;
    size_t step = utf8_step(text, len, &ignored);

    for (size_t i = 2; i < 2 + digits; i++) {
        if (i >= len || memchr("0123456789abcdef", text[i], 16) == NULL) {
            digits = 0;
        }
    }
    if (digits > 0) {
        (void)snprintf(code, sizeof code, "\\u%s%.*s", digits == 2 ? "00" : "", (int)digits,
                       text + 2);
        sink_put(sink, code, strlen(code));
        return 2 + digits;
    }
    if (escapes && len >= 2 && (text[1] == '"' || text[1] == '\\')) {
        sink_put(sink, text, 2);
        return 2;
    }
    if (step == 0 || first < 0x20 || first == 0x7f) {
        (void)snprintf(code, sizeof code, "\\u%04x", step == 0 ? 0xfffd : first);
        sink_put(sink, code, strlen(code));
        return 1;
    }
    if (first == '"' || first == '\\') {
        sink_put(sink, (const char[]){'\\', (char)first}, 2);
    } else {
        sink_put(sink, text, step);
    }
    return step;
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

/* Put one member, whole or not at all, except a value that does not fit. Returns the bytes read. */
static size_t sink_member(struct sink *sink, const char *fields, size_t len, bool is_first)
{
    size_t name = key_len(fields, len);
    size_t at = name > 0 ? name + 1 : 0;
    bool quoted = name > 0 && at < len && fields[at] == '"';
    const char *end = memchr(fields + at, ' ', len - at);
    size_t value =
        name == 0 || end == NULL || quoted ? len - at - quoted : (size_t)(end - fields) - at;
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
        /* A string. A quoted one ends at the quote before another key, or at the end: our own texts
         * may have bare quotes. */
        size_t read = 0;

        sink_put(sink, "\"", 1);
        while (read < value && !sink->full &&
               !(quoted && text[read] == '"' && is_end(text + read + 1, value - read - 1))) {
            read += put_character(sink, text + read, value - read, quoted);
        }
        sink->out[sink->len++] = '"'; /* END_BYTES are left */
        value = read;
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
