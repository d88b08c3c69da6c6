/*
 * log.h - structured log lines on stderr: one line, key=value or a JSON object, one write(2).
 *
 *   2026-11-20T11:03:58.123Z level=info node=1 at=raft msg="became leader" term=4
 *
 * Only the application, handlers and the loop threads log; lower layers return errors. Values with
 * spaces, quotes or control characters are quoted and escaped, so a tag name cannot forge a line.
 *
 * Failure modes: a line that is too long is cut. One that cannot be written at once is lost, and
 * the next has lines_lost_before_this=1: no thread waits for the log's reader.
 * Thread: any; log_setup() before others start.
 */
#ifndef LEAFD_BASE_LOG_H
#define LEAFD_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

/* A number for "%llu": uint64_t is not unsigned long long on all systems. */
static inline unsigned long long ull(uint64_t number)
{
    return number;
}

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON /* log_json() */ };

/* Set the lowest level that is written, and the node id of every line (0: none yet). */
void log_setup(enum log_level lowest, uint64_t node_id);

/* For a node, before it becomes another user: a pipe or terminal at stderr does not block from now
 * on. It is opened anew, since other processes share the mode of what was opened. Where that is not
 * allowed, two threads at once may wait for the reader. */
void log_unblock(void);

/* Change the lowest level while the process runs. Any thread. */
void log_set_level(enum log_level lowest);

/* Change the format, likewise. LOG_FORMAT_LOGFMT at first. */
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

/* A text quoted into memory of the caller's block, cut to `bytes`. */
#define LOG_QUOTED(text, bytes) log_quote((text), strlen(text), (char[bytes]){0}, (bytes))

/*
 * --- log_json: converts a logfmt line of the log to a JSON object.
 *
 * The happy path: `time=... level=info msg="..." key=value` becomes {"time":"...", ...}: every
 * value is a string, except plain whole numbers below 2^53. Escapes of log_quote() are undone.
 *
 * Failure modes: bytes that are no UTF-8 become \ufffd. A line that is cut, or has fields that are
 * no key=value, loses nothing: the unparsed part is the value of "rest". Output that does not fit
 * is cut, and the object is still closed.
 */

#define LOG_JSON_BYTES_MIN 64

/* fields: key=value pairs, without a line end. Writes an object without a line end into out; size
 * >= LOG_JSON_BYTES_MIN. Returns its length. No NUL is written. */
size_t log_json(const char *fields, size_t len, char *out, size_t size);

#endif
