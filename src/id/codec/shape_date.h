/*
 * shape_date.h - the date in a shape, such as the year of INV-2026-000042, and the counter that
 * begins anew with it.
 *
 *     date = {year} {month} {day}     of 4, 2 and 2 digits, in any order, in the first text
 *            {year@Europe/Berlin}     the first of them may name a zone of the IANA database
 *
 * A shape has the year, or year and month, or all three. The finest is its unit; a period is one
 * year, month or day, and its number is yyyy, yyyymm or yyyymmdd. How ids follow from it is in
 * shape.h.
 *
 * What time zones are, machines disagree about: a state machine never looks at them. It is told a
 * period, and sees with shape_period_is_near() that it cannot be far wrong.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_SHAPE_DATE_H
#define LEAFD_ID_CODEC_SHAPE_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

#define SHAPE_ZONE_BYTES_MAX 40
#define SHAPE_DATE_PARTS 3

enum date_part { DATE_NONE, DATE_YEAR, DATE_MONTH, DATE_DAY };

struct shape_date {
    uint8_t count; /* of its parts; 0: no date */
    uint8_t unit;  /* enum date_part: the finest of them */
    uint8_t part[SHAPE_DATE_PARTS];
    uint8_t at[SHAPE_DATE_PARTS];        /* so much of the text stands before it; rising */
    char zone[SHAPE_ZONE_BYTES_MAX + 1]; /* "": UTC */
};

/* Of {year} and so on, of which *at is at the brace. text_len: so much text is before it. 1: taken,
 * and *at is behind it; 0: it is no part of a date; ERR_INVALID, and *ret_why says which rule is
 * broken. */
int shape_date_take(struct shape_date *date, const char **at, const char *end, size_t text_len,
                    const char **ret_why) MUST_CHECK;

/* All parts were taken: are they a date? 0, or ERR_INVALID as above. */
int shape_date_check(const struct shape_date *date, const char **ret_why) MUST_CHECK;

/* Periods have numbers below this: 10^4, 10^6 or 10^8; 1 without a date. */
uint64_t shape_date_periods(const struct shape_date *date);

/* Digits of all parts. */
size_t shape_date_bytes(const struct shape_date *date);

/* The text with the parts of this period in it; returns its bytes. */
size_t shape_date_put(const struct shape_date *date, const char *text, size_t text_len,
                      uint32_t period, char *out);

/* The period of what shape_date_put() makes, in as many bytes. False: it is none. */
bool shape_date_read(const struct shape_date *date, const char *text, size_t text_len,
                     const char *in, uint32_t *ret_period);

/* The period of a time, in ms since 1970 by the clock on the wall of its zone; of years beyond 9999
 * the last one. */
uint32_t shape_period(enum date_part unit, uint64_t local_ms);

/* How long ago, by the same clock, the period of that time began, and how long such a one lasts. */
void shape_period_times(enum date_part unit, uint64_t local_ms, uint64_t *ret_elapsed_ms,
                        uint64_t *ret_length_ms);

/* Clocks of all zones are within a day of UTC: does one of them say so, or may do? */
bool shape_period_is_near(enum date_part unit, uint32_t period, uint64_t utc_ms);

#endif
