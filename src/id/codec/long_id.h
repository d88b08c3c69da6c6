/*
 * long_id.h - snowflake ids as 128 bits: UUIDs of version 7 (RFC 9562, 5.7) and ULIDs
 * (github.com/ulid/spec).
 *
 *     UUID  48 bits: Unix milliseconds | 0111 | 10 bits: worker id, 2: sequence | 10 |
 *           14 bits: sequence | 48 bits: random
 *     ULID  48 bits: Unix milliseconds | 10 bits: worker id | 16 bits: sequence | 54 bits: random
 *
 * Time, worker id and sequence are those of a snowflake id, so two of them differ for the reason
 * for which snowflake ids do (docs/snowflake.md): nothing is left to the random bits. They sort as
 * their numbers do, as text too. The random bits keep others from guessing one; they are no
 * secret's.
 *
 * The happy path: a claimed id is decoded by the layout, and put with as many random bits.
 *
 * Failure modes: long_id_read() says what is none of the two.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_LONG_ID_H
#define LEAFD_ID_CODEC_LONG_ID_H

#include <stdbool.h>
#include <stddef.h>

#include "src/id/codec/snowflake_layout.h"

enum id_form { ID_FORM_NUMBER, ID_FORM_UUID, ID_FORM_ULID };

#define UUID_TEXT_BYTES 36
#define ULID_TEXT_BYTES 26
#define LONG_ID_BYTES_MAX UUID_TEXT_BYTES
#define LONG_ID_RANDOM_BYTES 7 /* of which a UUID takes 48 bits, a ULID 54 */

static inline size_t long_id_bytes(enum id_form form)
{
    return form == ID_FORM_UUID ? UUID_TEXT_BYTES : ULID_TEXT_BYTES;
}

/* Write the text, long_id_bytes() of it and no NUL. The parts are those of a layout (ASSERT). */
void long_id_put(enum id_form form, const struct snowflake_parts *parts, uint64_t random,
                 char *text);

/* Read a text of either form, in small or large letters. False if it is none, or a UUID of another
 * version or variant. *ret_form and *ret_parts are set on success. */
bool long_id_read(const char *text, size_t len, enum id_form *ret_form,
                  struct snowflake_parts *ret_parts);

#endif
