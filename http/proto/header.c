/*
 * header.c - see header.h. Thread: any.
 */
#include "http/proto/header.h"

#include <string.h>
#include <strings.h>

#define QUALITY_ALL 1000 /* a weight of 1, in thousandths */

static bool is_header_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Take blanks off both ends. */
static const char *trim_value(const char *text, size_t *len)
{
    while (*len > 0 && is_header_blank(text[0])) {
        text++;
        (*len)--;
    }
    while (*len > 0 && is_header_blank(text[*len - 1])) {
        (*len)--;
    }
    return text;
}

const char *header_find(const char *head, size_t len, const char *name, size_t *ret_len,
                        size_t *ret_count)
{
    size_t name_len = strlen(name);
    const char *end = head + len;
    const char *line = memchr(head, '\n', len); /* the request line is none */
    const char *found = NULL;

    *ret_count = 0;
    while (line != NULL && ++line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t line_len = (size_t)((next != NULL ? next : end) - line);

        if (line_len > name_len && line[name_len] == ':' &&
            strncasecmp(line, name, name_len) == 0) {
            size_t value_len = line_len - name_len - 1;
            const char *value = line + name_len + 1;

            value_len -= value_len > 0 && value[value_len - 1] == '\r';
            value = trim_value(value, &value_len);
            if ((*ret_count)++ == 0) {
                found = value;
                *ret_len = value_len;
            }
        }
        line = next;
    }
    return found;
}

/* The next part of a list, up to the separator, trimmed; false at the end. Quoted strings, in which
 * separators would not count, have no place in what is asked for here. */
static bool next_part(const char **at, const char *end, char separator, const char **ret_part,
                      size_t *ret_len)
{
    const char *stop;

    if (*at >= end) {
        return false;
    }
    stop = memchr(*at, separator, (size_t)(end - *at));
    stop = stop != NULL ? stop : end;
    *ret_len = (size_t)(stop - *at);
    *ret_part = trim_value(*at, ret_len);
    *at = stop + 1;
    return true;
}

static bool is_text(const char *text, size_t len, const char *wanted)
{
    return len == strlen(wanted) && strncasecmp(text, wanted, len) == 0;
}

/* "0.75" in thousandths; -1: it is no weight. */
static int quality_of(const char *text, size_t len)
{
    int value;

    if (len == 0 || len > 5 || (text[0] != '0' && text[0] != '1') || (len > 1 && text[1] != '.')) {
        return -1;
    }
    value = text[0] - '0';
    for (size_t i = 2; i < 5; i++) {
        if (i < len && (text[i] < '0' || text[i] > '9')) {
            return -1;
        }
        value = value * 10 + (i < len ? text[i] - '0' : 0);
    }
    return value <= QUALITY_ALL ? value : -1;
}

/* One of the ranges of an Accept header. */
struct range {
    const char *type;
    size_t type_len;
    int quality;
    bool other_version; /* than 1.0.0 */
};

static bool read_range(const char *text, size_t len, struct range *ret_range)
{
    const char *end = text + len;
    const char *part;
    size_t part_len;

    *ret_range = (struct range){.quality = QUALITY_ALL};
    if (!next_part(&text, end, ';', &ret_range->type, &ret_range->type_len)) {
        return false;
    }
    while (next_part(&text, end, ';', &part, &part_len)) {
        if (part_len >= 2 && strncasecmp(part, "q=", 2) == 0) {
            ret_range->quality = quality_of(part + 2, part_len - 2);
        } else if (part_len >= 8 && strncasecmp(part, "version=", 8) == 0) {
            ret_range->other_version = !is_text(part + 8, part_len - 8, "1.0.0");
        }
    }
    return ret_range->quality >= 0;
}

bool header_wants_json(const char *accept, size_t len)
{
    const char *end = accept + len;
    const char *part;
    size_t part_len;
    bool names_json = false;
    struct range range;

    while (next_part(&accept, end, ',', &part, &part_len)) {
        if (!read_range(part, part_len, &range) || range.quality == 0) {
            continue;
        }
        if (is_text(range.type, range.type_len, "text/plain") ||
            is_text(range.type, range.type_len, "text/*") ||
            is_text(range.type, range.type_len, "*/*")) {
            return false;
        }
        names_json |= is_text(range.type, range.type_len, "application/json");
    }
    return names_json;
}

bool header_wants_openmetrics(const char *accept, size_t len)
{
    const char *end = accept + len;
    const char *part;
    size_t part_len;
    int open = 0;
    int plain = 0;

    while (next_part(&accept, end, ',', &part, &part_len)) {
        struct range range;

        if (!read_range(part, part_len, &range)) {
            continue;
        }
        if (is_text(range.type, range.type_len, "application/openmetrics-text")) {
            open = !range.other_version && range.quality > open ? range.quality : open;
        } else if (is_text(range.type, range.type_len, "text/plain")) {
            plain = range.quality > plain ? range.quality : plain;
        }
    }
    return open > 0 && open >= plain;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* So many digits; without `zeros` they may not all be 0. */
static bool are_hex(const char *text, size_t count, bool zeros)
{
    bool is_zero = true;

    for (size_t i = 0; i < count; i++) {
        if (!is_hex(text[i])) {
            return false;
        }
        is_zero = is_zero && text[i] == '0';
    }
    return zeros || !is_zero;
}

/* version "-" trace-id "-" parent-id "-" flags; later versions may add "-" and more. */
bool header_trace(const char *traceparent, size_t len, char ret_trace[HEADER_TRACE_BYTES])
{
    enum { VERSION = 0, TRACE = 3, PARENT = 36, FLAGS = 53, END = 55 };
    const char *text = traceparent;
    bool is_first = len >= END && memcmp(text, "00", 2) == 0;

    if (len < END || text[TRACE - 1] != '-' || text[PARENT - 1] != '-' || text[FLAGS - 1] != '-' ||
        !are_hex(text + VERSION, 2, true) || memcmp(text, "ff", 2) == 0 ||
        !are_hex(text + TRACE, 32, false) || !are_hex(text + PARENT, 16, false) ||
        !are_hex(text + FLAGS, 2, true) ||
        (is_first ? len != END : len > END && text[END] != '-')) {
        return false;
    }
    memcpy(ret_trace, text + TRACE, HEADER_TRACE_BYTES - 1);
    ret_trace[HEADER_TRACE_BYTES - 1] = '\0';
    return true;
}
