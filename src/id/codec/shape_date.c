/*
 * shape_date.c - see shape_date.h. Thread: pure functions, any.
 */
#include "src/id/codec/shape_date.h"

#include <string.h>
#include <time.h>

#include "src/base/assert.h"

#define DAY_MS 86400000ULL
#define YEAR_MAX 9999

static const struct {
    const char *name;
    size_t digits;
    unsigned below; /* 10^digits */
} PARTS[] = {
    [DATE_YEAR] = {"{year", 4, 10000},
    [DATE_MONTH] = {"{month", 2, 100},
    [DATE_DAY] = {"{day", 2, 100},
};

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_INVALID;
}

/* --- reading a shape --- */

static bool is_zone_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '_' || c == '-' || c == '+';
}

/* No name has a dot, begins with a slash or has two in a row: it is no path that leads away. */
static int take_zone(struct shape_date *date, const char **at, const char *end,
                     const char **ret_why)
{
    size_t len = 0;

    while (*at < end && is_zone_char(**at) && len < SHAPE_ZONE_BYTES_MAX &&
           (**at != '/' || (len > 0 && date->zone[len - 1] != '/'))) {
        date->zone[len++] = *(*at)++;
    }
    date->zone[len] = '\0';
    if (len == 0 || date->zone[len - 1] == '/') {
        return refuse(ret_why, "a zone is a name of the time zone database: {year@Europe/Berlin}");
    }
    return 0;
}

int shape_date_take(struct shape_date *date, const char **at, const char *end, size_t text_len,
                    const char **ret_why)
{
    enum date_part part = DATE_YEAR;
    const char *from = *at;
    size_t len = 0;

    for (; part <= DATE_DAY; part++) {
        len = strlen(PARTS[part].name);
        if ((size_t)(end - from) > len && memcmp(from, PARTS[part].name, len) == 0 &&
            (from[len] == '}' || from[len] == '@')) {
            break;
        }
    }
    if (part > DATE_DAY) {
        return 0;
    }
    from += len;
    if (*from == '@') {
        from++;
        if (date->count > 0) {
            return refuse(ret_why, "the first part of a date names the zone of all");
        }
        if (take_zone(date, &from, end, ret_why) != 0) {
            return ERR_INVALID;
        }
    }
    if (from == end || *from != '}') {
        return refuse(ret_why, "a part of a date is {year}, {month} or {day}; the first may name a "
                               "zone of up to 40 characters: {year@Europe/Berlin}");
    }
    if (memchr(date->part, (int)part, date->count) != NULL) {
        return refuse(ret_why, "a part of a date stands twice");
    }
    ASSERT(date->count < SHAPE_DATE_PARTS);
    date->part[date->count] = (uint8_t)part;
    date->at[date->count++] = (uint8_t)text_len;
    date->unit = date->unit > part ? date->unit : (uint8_t)part;
    *at = from + 1;
    return 1;
}

int shape_date_check(const struct shape_date *date, const char **ret_why)
{
    /* Each part but the year belongs to a larger one, and none stands twice. */
    return date->count == date->unit
               ? 0
               : refuse(ret_why, "a date has {year}, or {year} and {month}, or {day} as well");
}

/* --- periods --- */

uint64_t shape_date_periods(const struct shape_date *date)
{
    uint64_t periods = 1;

    for (unsigned i = 0; i < date->count; i++) {
        periods *= PARTS[date->part[i]].below;
    }
    return periods;
}

uint32_t shape_period(enum date_part unit, uint64_t local_ms)
{
    time_t seconds = (time_t)(local_ms / 1000);
    struct tm tm = {0};
    unsigned year;

    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year > YEAR_MAX - 1900) {
        tm = (struct tm){.tm_year = YEAR_MAX - 1900, .tm_mon = 11, .tm_mday = 31};
    }
    year = (unsigned)tm.tm_year + 1900;
    return unit == DATE_YEAR ? year
           : unit == DATE_MONTH
               ? year * 100 + (unsigned)tm.tm_mon + 1
               : (year * 100 + (unsigned)tm.tm_mon + 1) * 100 + (unsigned)tm.tm_mday;
}

void shape_period_times(enum date_part unit, uint64_t local_ms, uint64_t *ret_elapsed_ms,
                        uint64_t *ret_length_ms)
{
    uint32_t period = shape_period(DATE_DAY, local_ms);
    struct tm begin = {.tm_year = (int)(period / 10000) - 1900, .tm_mday = 1};
    struct tm next;
    time_t began;

    begin.tm_mon = unit >= DATE_MONTH ? (int)(period / 100 % 100) - 1 : 0;
    begin.tm_mday = unit == DATE_DAY ? (int)(period % 100) : 1;
    next = begin;
    next.tm_year += unit == DATE_YEAR;
    next.tm_mon += unit == DATE_MONTH;
    next.tm_mday += unit == DATE_DAY;
    began = timegm(&begin);
    *ret_elapsed_ms = local_ms - (uint64_t)began * 1000;
    *ret_length_ms = (uint64_t)(timegm(&next) - began) * 1000;
}

bool shape_period_is_near(enum date_part unit, uint32_t period, uint64_t utc_ms)
{
    return period >= shape_period(unit, utc_ms > DAY_MS ? utc_ms - DAY_MS : 0) &&
           period <= shape_period(unit, utc_ms + DAY_MS);
}

/* The digits of one part in a period's number. */
static unsigned part_of(const struct shape_date *date, enum date_part part, uint32_t period)
{
    for (enum date_part finer = date->unit; finer > part; finer--) {
        period /= PARTS[finer].below;
    }
    return period % PARTS[part].below;
}

/* --- texts --- */

size_t shape_date_bytes(const struct shape_date *date)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < date->count; i++) {
        bytes += PARTS[date->part[i]].digits;
    }
    return bytes;
}

size_t shape_date_put(const struct shape_date *date, const char *text, size_t text_len,
                      uint32_t period, char *out)
{
    size_t from = 0;
    size_t len = 0;

    for (unsigned i = 0; i < date->count; i++) {
        size_t digits = PARTS[date->part[i]].digits;
        unsigned number = part_of(date, date->part[i], period);

        memcpy(out + len, text + from, date->at[i] - from);
        len += date->at[i] - from;
        from = date->at[i];
        for (size_t at = digits; at > 0; at--) {
            out[len + at - 1] = (char)('0' + number % 10);
            number /= 10;
        }
        len += digits;
    }
    memcpy(out + len, text + from, text_len - from);
    return len + text_len - from;
}

static bool read_part(const char *in, size_t digits, unsigned *ret_number)
{
    unsigned number = 0;

    for (size_t i = 0; i < digits; i++) {
        if (in[i] < '0' || in[i] > '9') {
            return false;
        }
        number = number * 10 + (unsigned)(in[i] - '0');
    }
    *ret_number = number;
    return true;
}

bool shape_date_read(const struct shape_date *date, const char *text, size_t text_len,
                     const char *in, uint32_t *ret_period)
{
    unsigned numbers[DATE_DAY + 1] = {0};
    uint32_t period = 0;
    size_t from = 0;

    for (unsigned i = 0; i < date->count; i++) {
        size_t digits = PARTS[date->part[i]].digits;
        size_t before = date->at[i] - from;

        if (memcmp(in, text + from, before) != 0 ||
            !read_part(in + before, digits, &numbers[date->part[i]])) {
            return false;
        }
        in += before + digits;
        from = date->at[i];
    }
    for (enum date_part part = DATE_YEAR; part <= (enum date_part)date->unit; part++) {
        period = period * PARTS[part].below + numbers[part];
    }
    *ret_period = period;
    return memcmp(in, text + from, text_len - from) == 0;
}
