/*
 * log.c - see log.h. One write(2) a line, so that lines of several threads do not mix.
 * Thread: any.
 */
#include "src/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/log_json.h"

#define LINE_BYTES 2048
#define JSON_BYTES (2 * LINE_BYTES) /* some bytes become longer */

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

static int print_head(char *line, enum log_level level, const char *at, const char *msg)
{
    uint64_t wall_ms = clock_wall_ms(clock_system());
    time_t seconds = (time_t)(wall_ms / 1000);
    char when[32];
    struct tm tm;

    ASSERT(gmtime_r(&seconds, &tm) != NULL);
    ASSERT(strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm) > 0);
    return snprintf(line, LINE_BYTES, "%s.%03uZ level=%s node=%llu at=%s msg=\"%s\"", when,
                    (unsigned)(wall_ms % 1000), level_names[level], ull(own_node_id), at, msg);
}

/* What is in line, with a line end. */
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
        return; /* there is nowhere left to report it */
    }
}

void log_line(enum log_level level, const char *at, const char *msg, const char *fields, ...)
{
    char line[LINE_BYTES + 8];
    va_list args;
    size_t used;
    int len;

    if (level < atomic_load_explicit(&lowest_level, memory_order_relaxed)) {
        return;
    }
    len = print_head(line, level, at, msg);
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

/* A character of UTF-8 that would not be seen, or would turn round what is: controls of C1, marks
 * of direction, ends of lines and paragraphs. 0: it is none. */
static unsigned hidden_at(const unsigned char *bytes, size_t left)
{
    if (left >= 2 && bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] <= 0x9f) {
        return bytes[1];
    }
    if (left < 3 || bytes[0] != 0xe2) {
        return 0;
    }
    if (bytes[1] == 0x80 &&
        ((bytes[2] >= 0x8b && bytes[2] <= 0x8f) || (bytes[2] >= 0xa8 && bytes[2] <= 0xae))) {
        return 0x2000u + (bytes[2] & 0x3fu);
    }
    return bytes[1] == 0x81 && bytes[2] >= 0xa0 && bytes[2] <= 0xaf ? 0x2040u + (bytes[2] & 0x3fu)
                                                                    : 0;
}

const char *log_quote(const void *text, size_t len, char *out, size_t size)
{
    const unsigned char *bytes = text;
    size_t used = 0;

    ASSERT(size >= 8);
    out[used++] = '"';
    for (size_t i = 0; i < len && used + 8 < size; i++) {
        unsigned hidden = hidden_at(bytes + i, len - i);

        if (hidden != 0) {
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", hidden);
            i += hidden < 0x100 ? 1 : 2;
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
