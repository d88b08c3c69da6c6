/*
 * shape.h - the shape of a tag's ids: texts for people, such as INV-000042, in place of numbers;
 * and the date that a shape may have in it (shape_date).
 *
 * Failure modes: shape_parse() names the broken rule, shape_read() rejects texts of other shapes.
 * Thread: pure functions, any; a struct ff1 has one owner.
 */
#ifndef LEAFD_ID_CODEC_SHAPE_H
#define LEAFD_ID_CODEC_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/crypto.h"
#include "src/base/err.h"

/*
 * --- shape_date: the date in a shape, such as the year of INV-2026-000042, with which the counter
 * restarts.
 *
 *     date = {year} {month} {day}     of 4, 2 and 2 digits, in any order, in the first text
 *            {year@Europe/Berlin}     the first of them may name a zone of the IANA database
 *
 * A shape has the year, or year and month, or all three. The finest is its unit; a period is one
 * year, month or day, and its number is yyyy, yyyymm or yyyymmdd. The ids are explained below.
 *
 * Machines disagree about time zones, so the state machine never uses them. It is given a period,
 * and checks with shape_period_is_near() that the period cannot be far wrong.
 */

#define SHAPE_ZONE_BYTES_MAX 40
#define SHAPE_PARTS 4 /* of a date, and {key} */

enum date_part { DATE_NONE, DATE_YEAR, DATE_MONTH, DATE_DAY };

struct shape_date {
    uint8_t unit;                        /* enum date_part: the finest of its parts */
    char zone[SHAPE_ZONE_BYTES_MAX + 1]; /* "": UTC */
};

/* The period of a time, in ms since 1970 by the wall clock of its zone; for years beyond 9999 the
 * last period. */
uint32_t shape_period(enum date_part unit, uint64_t local_ms);

/* How long ago, by the same clock, the period of that time began, and how long the period lasts. */
void shape_period_times(enum date_part unit, uint64_t local_ms, uint64_t *ret_elapsed_ms,
                        uint64_t *ret_length_ms);

/* Can any zone's clock be in this period? All zones are within a day of UTC. */
bool shape_period_is_near(enum date_part unit, uint32_t period, uint64_t utc_ms);

/*
 * --- shape
 *
 *     shape  = text number text [check text]
 *     text   = up to 32 characters, printable ASCII except space, braces, " and \; the first may
 *              have a date in it (shape_date) or, before a secret number, {key}: a digit
 *     number = {id} {id16} {id32} {id36} {id62}           in this base; {id:W}: at least W digits
 *              {secret:W} {secret16:W} ... {secret62:W}   W digits, of another number: see below
 *     check  = {luhn}    a digit over those of a decimal number (ISO/IEC 7812-1, annex B)
 *              {mod97}   two digits over all letters and digits before (ISO 7064, MOD 97-10)
 *
 * Base 32 is Crockford's; capital letters where a base has one kind, and 0-9 A-Z a-z in base 62.
 *
 * A secret number is the id under a permutation of all numbers of W digits (src/base/crypto.h), by
 * a key that the cluster drew when the tag was made and never shows. Texts are as unique as ids,
 * and reveal neither their order nor how many there are.
 *
 * Such a key can be changed where the shape has {key}, the number of the text's key. Internally an
 * id is key number * base^W + number, so no two keys share a text, and the id determines its key. A
 * new key ends the ids of the one before: max_id jumps to the new key's first id
 * (src/id/fsm/fsm_puts.c). A key that is the same as the next one was skipped, by a restore or in a
 * dump of another cluster: no id of this cluster is by it, and no text is read by it.
 *
 * With a date the number restarts at 1 with each period. Internally the tag still has one rising
 * counter: an id is period * base^W + number, so the width is required and exact. When a new period
 * begins, max_id jumps to its first id (src/id/fsm/fsm_grants.c), and nothing need be kept of
 * earlier periods.
 *
 * Invariant: two ids of one shape (and key) never have the same text. The texts around the number
 * and the length of a check are fixed, so the number can be found, and a number has one id. Another
 * shape of the same tag would break this, so a name keeps its first shape, even when deleted
 * (src/id/fsm/fsm_puts.c).
 *
 * The happy path: shape_parse() when a tag is made, and when a row is first seen; shape_put() for
 * each id; shape_read() to find the id of a text.
 *
 */

#define SHAPE_TEXT_BYTES_MAX 32 /* of each of the three, including the digits of a date */
#define SHAPE_SPEC_BYTES_MAX 128
#define SHAPE_WIDTH_MAX 32
#define SHAPE_KEY_BYTES 32
#define SHAPE_KEYS_MAX 10 /* as many as {key} has digits for */
#define SHAPE_ID_BYTES_MAX (3 * SHAPE_TEXT_BYTES_MAX + SHAPE_WIDTH_MAX + 2) /* of an id's text */

enum shape_check { SHAPE_CHECK_NONE, SHAPE_CHECK_LUHN, SHAPE_CHECK_MOD97 };

struct shape {
    uint8_t base;
    uint8_t width;    /* least number of digits; of a secret number, exact */
    uint64_t numbers; /* base^width; 0 if that is 2^63 or more */
    bool secret;
    uint8_t check; /* enum shape_check */
    bool has_key;
    uint8_t key_count; /* number of a secret shape's keys; the caller sets it and keys */
    struct shape_date date;
    uint8_t part_count;           /* in the first text, each a part of the date or {key} */
    uint8_t part[SHAPE_PARTS];    /* enum date_part, or {key} */
    uint8_t part_at[SHAPE_PARTS]; /* length of the text before it; rising */
    uint8_t text_len[3];          /* before the number, after it, and after the check */
    char text[3][SHAPE_TEXT_BYTES_MAX];
    const uint8_t *keys; /* SHAPE_KEY_BYTES each, borrowed */
};

/* Read a shape. 0, or ERR_INVALID with *ret_why a static text that names the rule. */
int shape_parse(const char *spec, size_t len, struct shape *ret_shape,
                const char **ret_why) MUST_CHECK;

/* Ids below this have a text: INT64_MAX; with a secret number base^width; with a date or {key}
 * base^width for each period or key. */
uint64_t shape_capacity(const struct shape *shape);

/* Ids below this can be granted: the capacity, or the part of it that the shape has keys for. */
uint64_t shape_bound(const struct shape *shape);

/* The number of the key of the id's text; and the first id of a key. */
unsigned shape_key_of(const struct shape *shape, uint64_t id);
uint64_t shape_key_first(const struct shape *shape, unsigned key);

/* Are there fewer texts than ids? Then shape_bound() bounds the tag's max. */
static inline bool shape_is_bounded(const struct shape *shape)
{
    return shape->secret || shape->date.unit != DATE_NONE;
}

/* For a shape with a date, whose next id is max_id: the ids that can be granted in this period, or
 * in that of max_id if that is later. [*ret_first, *ret_end), which may be empty. */
void shape_period_ids(const struct shape *shape, uint64_t max_id, uint32_t period,
                      uint64_t *ret_first, uint64_t *ret_end);

/* How many ids were granted when max_id rose so, without those that a new period or key skipped. */
uint64_t shape_grown(const struct shape *shape, uint64_t from, uint64_t to);

/* The length of the text of an id below the capacity. */
size_t shape_bytes(const struct shape *shape, uint64_t id);

/* Ids from `id` on that have texts of the same length, up to the capacity. */
uint64_t shape_alike(const struct shape *shape, uint64_t id);

/* Set ff1 up for a secret shape and this id's key, which the shape must have; does nothing for
 * others. Call before shape_put() of ids of that key. */
void shape_prepare(const struct shape *shape, uint64_t id, struct ff1 *ff1);

/* Write the text of an id below the capacity (ASSERT), without a NUL; returns its bytes, at most
 * SHAPE_ID_BYTES_MAX. */
size_t shape_put(const struct shape *shape, struct ff1 *ff1, uint64_t id, char *text);

/* The id of a text. Small letters count as capital ones where a base has one kind; in base 32 I and
 * L are 1, and O is 0. False if the text is not of this shape and its keys, or by a skipped one, or
 * its check is wrong. ff1 is prepared here. */
bool shape_read(const struct shape *shape, struct ff1 *ff1, const char *text, size_t len,
                uint64_t *ret_id);

#endif
