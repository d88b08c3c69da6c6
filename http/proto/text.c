/*
 * text.c - see text.h. Thread: pure functions, any.
 */
#include "http/proto/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/utf8.h"

#define LAST_SECOND 253402300799 /* 9999-12-31T23:59:59Z */

HOT size_t text_decimal(uint64_t value, char out[TEXT_DECIMAL_BYTES])
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    size_t len = 1;
    size_t at;
    uint64_t left = value;

    while (left >= 10000) {
        left /= 10000;
        len += 4;
    }
    len = len + (left >= 10) + (left >= 100) + (left >= 1000);
    at = len;
    ASSERT(len <= TEXT_DECIMAL_BYTES);
    while (value >= 10) {
        at -= 2;
        memcpy(out + at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    /* With an odd number of digits the first one is left. */
    if (at > 0) {
        out[0] = (char)('0' + value);
    }
    return len;
}

int text_parse_decimal(const char *text, size_t len, uint64_t min, uint64_t max,
                       uint64_t *ret_value)
{
    uint64_t value = 0;

    ASSERT(min <= max);
    if (len == 0 || len > TEXT_DECIMAL_BYTES) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';

        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return ERR_INVALID;
        }
        value = value * 10 + digit;
    }
    if (value < min || value > max) {
        return ERR_INVALID;
    }
    *ret_value = value;
    return 0;
}

int text_hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool text_hex(const char *text, size_t count, uint8_t *ret_bytes)
{
    for (size_t i = 0; i < count; i++) {
        int high = text_hex_digit(text[2 * i]);
        int low = text_hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        ret_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

const char *text_trim(const char *text, size_t *len)
{
    while (*len > 0 && text_is_blank(text[0])) {
        text++;
        (*len)--;
    }
    while (*len > 0 && text_is_blank(text[*len - 1])) {
        (*len)--;
    }
    return text;
}

char *text_strip(char *text, const char *blanks)
{
    char *end = text + strlen(text);

    while (end > text && strchr(blanks, end[-1]) != NULL) {
        *--end = '\0';
    }
    return text + strspn(text, blanks);
}

bool text_next(const char **at, const char *end, char separator, const char **ret_part,
               size_t *ret_len)
{
    const char *stop;

    if (*at >= end) {
        return false;
    }
    stop = memchr(*at, separator, (size_t)(end - *at));
    stop = stop != NULL ? stop : end;
    *ret_len = (size_t)(stop - *at);
    *ret_part = text_trim(*at, ret_len);
    *at = stop + 1;
    return true;
}

bool text_is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

bool text_is_utf8(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t step = utf8_step(text + i, len - i, &code);

        if (step == 0) {
            return false;
        }
        i += step;
    }
    return true;
}

void text_put_json(struct buf *buf, const char *text, size_t len)
{
    buf_reserve(buf, len + 2);
    buf_put_u8(buf, '"');
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t step = utf8_step(text + i, len - i, &code);

        if (step == 0) {
            buf_put(buf, "\xef\xbf\xbd", 3);
            step = 1;
        } else if (code == '\n') {
            buf_put(buf, "\\n", 2);
        } else if (code < 0x20 || code == 0x7f) { /* DEL is legal in JSON, but bad for terminals */
            buf_printf(buf, "\\u%04x", (unsigned)code);
        } else {
            if (code == '"' || code == '\\') {
                buf_put_u8(buf, '\\');
            }
            buf_put(buf, text + i, step);
        }
        i += step;
    }
    buf_put_u8(buf, '"');
}

void text_put_field(struct buf *buf, const char *before, const char *text)
{
    text_put_field_of(buf, before, text, text != NULL ? strlen(text) : 0);
}

void text_put_field_of(struct buf *buf, const char *before, const char *text, size_t len)
{
    buf_put(buf, before, strlen(before));
    if (text != NULL) {
        text_put_json(buf, text, len);
    } else {
        buf_put(buf, "null", 4);
    }
}

void text_put_number(struct buf *buf, const char *before, uint64_t value)
{
    if (value == TEXT_UNKNOWN) {
        text_put_field(buf, before, NULL);
    } else {
        buf_printf(buf, "%s%" PRIu64, before, value);
    }
}

const char *text_show(const char *text, size_t len, char *out, size_t size)
{
    size_t at = 0;

    ASSERT(size >= 16);
    out[at++] = '"';
    for (size_t i = 0; i < len;) {
        uint32_t code = 0;
        size_t step = utf8_step(text + i, len - i, &code);
        char escaped[] = "\\u{10ffff}";
        int room = 4;

        if (step > 1 && looks_unseen(code)) {
            room = snprintf(escaped, sizeof escaped, "\\u{%x}", (unsigned)code);
        } else if (step == 0 || looks_unseen(code)) {
            (void)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)text[i]);
            step = 1;
        } else {
            memcpy(escaped, text + i, step);
            escaped[step] = '\0';
        }
        /* Room for this one, or for four bytes, and after the loop for dots, quote and NUL. */
        if (at + (size_t)room + 5 > size) {
            memcpy(out + at, "...", 3);
            at += 3;
            break;
        }
        memcpy(out + at, escaped, strlen(escaped));
        at += strlen(escaped);
        i += step;
    }
    out[at++] = '"';
    out[at] = '\0';
    ASSERT(at < size);
    return out;
}

static struct tm calendar(uint64_t wall_ms)
{
    uint64_t seconds = wall_ms / 1000;
    time_t at = (time_t)(seconds <= LAST_SECOND ? seconds : LAST_SECOND);
    struct tm tm;

    ASSERT(gmtime_r(&at, &tm) != NULL);
    return tm;
}

const char *text_time_rfc3339(uint64_t wall_ms, char out[TEXT_TIME_BYTES])
{
    struct tm tm = calendar(wall_ms);
    size_t len = strftime(out, TEXT_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);

    ASSERT(len > 0);
    (void)snprintf(out + len, TEXT_TIME_BYTES - len, ".%03uZ", (unsigned)(wall_ms % 1000));
    return out;
}

const char *text_time_http(uint64_t wall_ms, char out[TEXT_TIME_BYTES])
{
    struct tm tm = calendar(wall_ms);

    /* In the locale "C": no program of leafd sets another. */
    ASSERT(strftime(out, TEXT_TIME_BYTES, "%a, %d %b %Y %H:%M:%S GMT", &tm) ==
           TEXT_TIME_HTTP_BYTES);
    return out;
}

/* --- reading times --- */

/* Take a number of `digits` digits at *at, in [min, max], and the character after it, if one is
 * wanted; *at is moved past both. */
static bool take_digits(const char **at, const char *end, size_t digits, uint64_t min, uint64_t max,
                        const char *then, int *ret_value)
{
    uint64_t value;

    if ((size_t)(end - *at) < digits + strlen(then) ||
        text_parse_decimal(*at, digits, min, max, &value) != 0 ||
        memcmp(*at + digits, then, strlen(then)) != 0) {
        return false;
    }
    *at += digits + strlen(then);
    *ret_value = (int)value;
    return true;
}

int text_parse_time(const char *text, size_t len, uint64_t *ret_wall_ms)
{
    const char *at = text;
    const char *end = text + len;
    struct tm tm = {0};
    struct tm same;
    int fraction_ms = 0;
    int hours = 0;
    int minutes = 0;
    time_t seconds;
    char zone;

    if (len <= 15 && text_parse_decimal(text, len, 0, UINT64_MAX, ret_wall_ms) == 0) {
        return *ret_wall_ms / 1000 <= LAST_SECOND ? 0 : ERR_INVALID;
    }
    if (!take_digits(&at, end, 4, 1969, 9999, "-", &tm.tm_year) ||
        !take_digits(&at, end, 2, 1, 12, "-", &tm.tm_mon) ||
        !take_digits(&at, end, 2, 1, 31, "", &tm.tm_mday) || at == end ||
        (*at != 'T' && *at != 't') || !take_digits((at++, &at), end, 2, 0, 23, ":", &tm.tm_hour) ||
        !take_digits(&at, end, 2, 0, 59, ":", &tm.tm_min) ||
        !take_digits(&at, end, 2, 0, 60, "", &tm.tm_sec)) {
        return ERR_INVALID;
    }
    if (at < end && *at == '.') {
        const char *dot = at++;

        for (int unit_ms = 100; at < end && *at >= '0' && *at <= '9'; at++, unit_ms /= 10) {
            fraction_ms += (*at - '0') * unit_ms;
        }
        if (at == dot + 1) {
            return ERR_INVALID;
        }
    }
    zone = at < end ? *at++ : '\0'; /* "Z" or "+01:00" */
    if ((zone != 'Z' && zone != 'z' &&
         ((zone != '+' && zone != '-' && zone != ' ') ||
          !take_digits(&at, end, 2, 0, 23, ":", &hours) ||
          !take_digits(&at, end, 2, 0, 59, "", &minutes))) ||
        at != end) {
        return ERR_INVALID;
    }
    tm.tm_year -= 1900;
    tm.tm_mon--;
    same = tm;
    seconds = timegm(&same);
    if (tm.tm_sec < 60 && same.tm_mday != tm.tm_mday) { /* there is no such day */
        return ERR_INVALID;
    }
    seconds -= (zone == '-' ? -1 : 1) * (hours * 60 + minutes) * 60;
    if (seconds < 0 || seconds > (time_t)LAST_SECOND) {
        return ERR_INVALID;
    }
    *ret_wall_ms = (uint64_t)seconds * 1000 + (uint64_t)fraction_ms;
    return 0;
}
