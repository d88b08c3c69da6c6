/*
 * log.h - structured log lines on stderr: one line, key=value, one write(2).
 *
 *   2026-11-20T11:03:58.123Z level=info node=1 at=raft msg="became leader" term=4
 *
 * Only the application, handlers and the loop threads log; lower layers return errors. Values with
 * spaces, quotes or control characters are quoted and escaped, so a tag name cannot forge a line.
 * Thread: any; log_setup() before others start.
 */
#ifndef LEAFD_BASE_LOG_H
#define LEAFD_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/ull.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON /* log_json.h */ };

/* Set the lowest level that is written, and the node id every line carries (0: none yet). */
void log_setup(enum log_level lowest, uint64_t node_id);

/* Another lowest level, while the process runs. Any thread. */
void log_set_level(enum log_level lowest);

/* Another format, likewise. LOG_FORMAT_LOGFMT at first. */
void log_set_format(enum log_format format);

/*
 * Write a line. `at` is the component ("raft", "http", "store"), msg a fixed text. fields is a
 * printf format of key=value pairs ("term=%llu"), or NULL; strings that users chose go through
 * log_quote(). Lines longer than 2 KiB are cut and end in "...".
 */
void log_line(enum log_level level, const char *at, const char *msg, const char *fields, ...)
    __attribute__((format(printf, 4, 5)));

#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)

/* Quote len bytes for a log line into out (NUL-terminated, cut to size). Returns out. */
const char *log_quote(const void *text, size_t len, char *out, size_t size);

#endif
