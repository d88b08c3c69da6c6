/*
 * log_json.h - a line of the log, which is made as logfmt (log.h), as a JSON object.
 *
 * The happy path: `time=... level=info msg="..." key=value` becomes {"time":"...", ...}: every
 * value is a string, but for what is a plain whole number below 2^53. What log_quote() escaped is
 * the text that was meant.
 *
 * Failure modes: bytes that are no UTF-8 are shown as \ufffd; a line that is cut, or whose fields
 * are no key=value, loses nothing: what does not read is the value of "rest". What does not fit is
 * cut, and the object is closed all the same.
 *
 * Thread: pure, any.
 */
#ifndef LEAFD_BASE_LOG_JSON_H
#define LEAFD_BASE_LOG_JSON_H

#include <stddef.h>

#define LOG_JSON_BYTES_MIN 64

/* fields: key=value pairs, without a line end. Writes an object without a line end into out; size
 * >= LOG_JSON_BYTES_MIN. Returns its length. No NUL is written. */
size_t log_json(const char *fields, size_t len, char *out, size_t size);

#endif
