/*
 * shape.h - the shape of a tag's ids: texts for people, such as INV-000042, in place of numbers.
 *
 *     shape  = text number text [check text]
 *     text   = up to 32 characters, printable ASCII but for space, braces, " and \; the first may
 *              have a date in it (shape_date.h) or, before a secret number, {key}: a digit
 *     number = {id} {id16} {id32} {id36} {id62}           in this base; {id:W}: at least W digits
 *              {secret:W} {secret16:W} ... {secret62:W}   W digits, of another number: see below
 *     check  = {luhn}    a digit over those of a decimal number (ISO/IEC 7812-1, annex B)
 *              {mod97}   two digits over all letters and digits before (ISO 7064, MOD 97-10)
 *
 * Base 32 is Crockford's; capital letters where a base has one kind, and 0-9 A-Z a-z in base 62.
 *
 * A secret number is the id under a permutation of all numbers of W digits (src/base/crypto.h), by
 * a key that the cluster drew when the tag was made and never shows. Texts are as unique as ids,
 * and tell neither their order nor how many there are.
 *
 * Such a key can be changed where the shape has {key}: the number of the key that the text is by.
 * Beneath it an id is  number of the key * base^W + number,  so the texts of one key are no
 * other's, and which key an id is by follows from the id. A new key ends the ids of the one before:
 * max_id jumps to the first of its own (src/id/fsm/fsm_puts.c).
 *
 * With a date the number begins anew at 1 with each period. Beneath it the tag still has one rising
 * counter: an id is  period * base^W + number,  so the width is needed, and is exact. Where a new
 * period begins max_id jumps to its first id (src/id/fsm/fsm_grants.c), and nothing is to be kept
 * of those before.
 *
 * Invariant: two ids of one shape (and key) never have one text. Texts around the number are
 * fixed, and so is the length of a check; so the number can be found, and a number has one id. What
 * would break it is another shape of the same tag, so a name keeps the shape that it was made with,
 * also once it is deleted (src/id/fsm/fsm_puts.c).
 *
 * The happy path: shape_parse() when a tag is made, and where a row is first seen; shape_put() for
 * each id; shape_read() to find the id of a text.
 *
 * Failure modes: shape_parse() says which rule is broken; shape_read() that a text is none.
 *
 * Thread: pure functions, any; a struct ff1 has one owner.
 */
#ifndef LEAFD_ID_CODEC_SHAPE_H
#define LEAFD_ID_CODEC_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/crypto.h"
#include "src/base/err.h"
#include "src/id/codec/shape_date.h"

#define SHAPE_TEXT_BYTES_MAX 32 /* of each of the three, the digits of a date with it */
#define SHAPE_SPEC_BYTES_MAX 128
#define SHAPE_WIDTH_MAX 32
#define SHAPE_KEY_BYTES 32
#define SHAPE_KEYS_MAX 10 /* so many {key} has digits for */
#define SHAPE_ID_BYTES_MAX (3 * SHAPE_TEXT_BYTES_MAX + SHAPE_WIDTH_MAX + 2) /* of an id's text */

enum shape_check { SHAPE_CHECK_NONE, SHAPE_CHECK_LUHN, SHAPE_CHECK_MOD97 };

struct shape {
    uint8_t base;
    uint8_t width;    /* digits at least; of a secret number, exactly */
    uint64_t numbers; /* base^width; 0 if that is 2^63 or more */
    bool secret;
    uint8_t check; /* enum shape_check */
    bool has_key;  /* {key} in the first text, of which so much stands before it: */
    uint8_t key_at;
    uint8_t key_count;      /* of a secret one, of its keys; the caller's to set, as they are */
    struct shape_date date; /* in the first text */
    uint8_t text_len[3];    /* before the number, behind it, and behind the check */
    char text[3][SHAPE_TEXT_BYTES_MAX];
    const uint8_t *keys; /* SHAPE_KEY_BYTES each, borrowed */
};

/* Read a shape. 0, or ERR_INVALID and *ret_why is a static text that names the rule. */
int shape_parse(const char *spec, size_t len, struct shape *ret_shape,
                const char **ret_why) MUST_CHECK;

/* Ids below this have a text: INT64_MAX, of a secret one base^width, and with a date or {key} so
 * many for each period or key. */
uint64_t shape_capacity(const struct shape *shape);

/* Ids may be had below this: the capacity, or as much of it as the shape has keys for. */
uint64_t shape_bound(const struct shape *shape);

/* The number of the key that the id's text is by; and the first id of a key. */
unsigned shape_key_of(const struct shape *shape, uint64_t id);
uint64_t shape_key_first(const struct shape *shape, unsigned key);

/* Are there fewer texts than ids? Then shape_bound() bounds the tag's max. */
static inline bool shape_is_bounded(const struct shape *shape)
{
    return shape->secret || shape->date.count > 0;
}

/* Of a shape with a date, whose next id is max_id: which ids can be had in this period, or in that
 * of max_id if it is a later one. [*ret_first, *ret_end), which may be empty. */
void shape_period_ids(const struct shape *shape, uint64_t max_id, uint32_t period,
                      uint64_t *ret_first, uint64_t *ret_end);

/* How many ids were had when max_id rose so: not those that a new period or key passed over. */
uint64_t shape_grown(const struct shape *shape, uint64_t from, uint64_t to);

/* So many bytes has the text of an id below the capacity. */
size_t shape_bytes(const struct shape *shape, uint64_t id);

/* Ids from `id` on that have texts of the same length, up to the capacity. */
uint64_t shape_alike(const struct shape *shape, uint64_t id);

/* ff1 becomes that of a secret shape and its key of this id, which it has; nothing for others.
 * Before shape_put() of ids of that key. */
void shape_prepare(const struct shape *shape, uint64_t id, struct ff1 *ff1);

/* Write the text of an id below the capacity (ASSERT), without a NUL; returns its bytes, at most
 * SHAPE_ID_BYTES_MAX. */
size_t shape_put(const struct shape *shape, struct ff1 *ff1, uint64_t id, char *text);

/* The id of a text. Small letters stand for capital ones where a base has one kind; in base 32 I
 * and L are 1, and O is 0. False if it is no text of this shape and its keys, or its check is
 * wrong. ff1 is prepared here. */
bool shape_read(const struct shape *shape, struct ff1 *ff1, const char *text, size_t len,
                uint64_t *ret_id);

#endif
