/*
 * text.h - bytes as people and JSON read them: decimals, JSON strings, times, shown values.
 *
 * Failure modes: none; text that is not UTF-8 is shown by replacement or escapes, never passed on.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_PROTO_TEXT_H
#define LEAFD_HTTP_PROTO_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/log.h"

#define TEXT_DECIMAL_BYTES 20   /* digits of UINT64_MAX */
#define TEXT_TIME_BYTES 32      /* room for either form of a time, with its NUL */
#define TEXT_TIME_HTTP_BYTES 29 /* what text_time_http() writes, without its NUL */

/* Write value in decimal, without a NUL; returns the number of digits, at most
 * TEXT_DECIMAL_BYTES. */
size_t text_decimal(uint64_t value, char out[TEXT_DECIMAL_BYTES]);

/* Read 1 to 20 decimal digits and nothing else (no sign, no space) as a number in [min, max];
 * leading zeros are allowed. 0 or ERR_INVALID. */
int text_parse_decimal(const char *text, size_t len, uint64_t min, uint64_t max,
                       uint64_t *ret_value) MUST_CHECK;

/* The value of a hex digit; -1: not a hex digit. */
int text_hex_digit(char c);

/* Read count bytes from 2 * count hex digits. False: they are not hex digits. */
bool text_hex(const char *text, size_t count, uint8_t *ret_bytes);

/* A blank or a tab. */
static inline bool text_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Take blanks and tabs off both ends; *len becomes less. Returns the new beginning. */
const char *text_trim(const char *text, size_t *len);

/* Take these characters off both ends of a text that ends with NUL, which becomes shorter. Returns
 * the new beginning. */
char *text_strip(char *text, const char *blanks);

/* The next part of a list, up to the separator, trimmed; moves *at behind it. False at the end. */
bool text_next(const char **at, const char *end, char separator, const char **ret_part,
               size_t *ret_len);

/* Is the text this word, in any case of ASCII letters? */
bool text_is(const char *text, size_t len, const char *word);

/* True if all of it is UTF-8 (no surrogates, no overlong forms). */
bool text_is_utf8(const char *text, size_t len);

/* Append a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void text_put_json(struct buf *buf, const char *text, size_t len);

/* Append `before` as it is, and then a JSON string; text NULL: null. */
void text_put_field(struct buf *buf, const char *before, const char *text);
void text_put_field_of(struct buf *buf, const char *before, const char *text, size_t len);

/* The same for a number; TEXT_UNKNOWN: null. */
#define TEXT_UNKNOWN UINT64_MAX
void text_put_number(struct buf *buf, const char *before, uint64_t value);

/* A value in double quotes for a message: invisible characters (utf8.h) become \xNN or \u{N}; long
 * values are cut and end in "...". Returns out, NUL-terminated. size >= 16. */
const char *text_show(const char *text, size_t len, char *out, size_t size);

/* The same, in memory of the block that it stands in. size: a constant. */
#define TEXT_SHOWN(text, len, size) text_show((text), (len), (char[size]){0}, (size))

/* "2026-11-20T11:03:58.123Z"; times past the year 9999 are shown as its end. Returns out. */
const char *text_time_rfc3339(uint64_t wall_ms, char out[TEXT_TIME_BYTES]);
#define TEXT_TIME(wall_ms) text_time_rfc3339((wall_ms), (char[TEXT_TIME_BYTES]){0}) /* likewise */

/* Read a time: 1 to 15 digits of Unix milliseconds, or RFC 3339 with its zone, from 1970 to the end
 * of 9999, whose fractions below a millisecond are dropped. A space counts as the '+' of a zone,
 * since a query decodes '+' to a space. 0 or ERR_INVALID. */
int text_parse_time(const char *text, size_t len, uint64_t *ret_wall_ms) MUST_CHECK;

/* "Fri, 20 Nov 2026 11:03:58 GMT". Returns out. */
const char *text_time_http(uint64_t wall_ms, char out[TEXT_TIME_BYTES]);

#endif
