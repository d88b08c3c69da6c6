/*
 * long_id.c - see long_id.h. Thread: pure functions, any.
 */
#include "src/id/codec/long_id.h"

#include <string.h>

#include "src/base/assert.h"

#define WORKER_BITS 10
#define SEQUENCE_BITS 16
#define UUID_RANDOM_BITS 48
#define ULID_RANDOM_BITS 54
#define TIME_BITS 48
#define UUID_VERSION 7
#define UUID_VARIANT 2

static const char HEX[] = "0123456789abcdef";
static const char CROCKFORD[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* 5 bits a character */

struct halves {
    uint64_t high;
    uint64_t low;
};

static uint64_t low_bits(uint64_t value, unsigned bits)
{
    return value & ((UINT64_C(1) << bits) - 1);
}

/* --- UUID --- */

static void put_uuid(const struct snowflake_parts *parts, uint64_t random, char *text)
{
    uint64_t rand_a = (uint64_t)parts->worker << 2 | parts->sequence >> 14;
    const struct halves value = {parts->unix_ms << 16 | UUID_VERSION << 12 | rand_a,
                                 (uint64_t)UUID_VARIANT << 62 |
                                     low_bits(parts->sequence, 14) << UUID_RANDOM_BITS |
                                     low_bits(random, UUID_RANDOM_BITS)};
    size_t digit = 0;

    for (size_t at = 0; at < UUID_TEXT_BYTES; at++) {
        if (at == 8 || at == 13 || at == 18 || at == 23) {
            text[at] = '-';
            continue;
        }
        text[at] = HEX[(digit < 16 ? value.high >> (60 - 4 * digit)
                                   : value.low >> (60 - 4 * (digit - 16))) &
                       15];
        digit++;
    }
}

static int hex_of(char c)
{
    const char *at = c == '\0' ? NULL : strchr(HEX, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);

    return at != NULL ? (int)(at - HEX) : -1;
}

static bool read_uuid(const char *text, struct snowflake_parts *ret_parts)
{
    struct halves value = {0, 0};
    size_t digit = 0;

    for (size_t at = 0; at < UUID_TEXT_BYTES; at++) {
        bool dash = at == 8 || at == 13 || at == 18 || at == 23;
        int number = dash ? 0 : hex_of(text[at]);
        uint64_t *half = digit < 16 ? &value.high : &value.low;

        if (dash ? text[at] != '-' : number < 0) {
            return false;
        }
        if (!dash) {
            *half = *half << 4 | (unsigned)number;
            digit++;
        }
    }
    ret_parts->unix_ms = value.high >> 16;
    ret_parts->worker = (uint32_t)low_bits(value.high >> 2, WORKER_BITS);
    ret_parts->sequence =
        (uint32_t)(low_bits(value.high, 2) << 14 | low_bits(value.low >> UUID_RANDOM_BITS, 14));
    return low_bits(value.high >> 12, 4) == UUID_VERSION && value.low >> 62 == UUID_VARIANT;
}

/* --- ULID --- */

/* Its 130 bits, of which the first two are 0, in characters of 5. */
static void put_ulid(const struct snowflake_parts *parts, uint64_t random, char *text)
{
    uint64_t middle = (uint64_t)parts->worker << SEQUENCE_BITS | parts->sequence; /* 26 bits */
    uint64_t rest = low_bits(random, ULID_RANDOM_BITS);
    /* 80 bits behind the time: 40 and 40. */
    uint64_t upper = middle << 14 | rest >> 40;
    uint64_t lower = low_bits(rest, 40);

    for (unsigned i = 0; i < 10; i++) {
        text[i] = CROCKFORD[low_bits(parts->unix_ms >> 5 * (9 - i), 5)];
    }
    for (unsigned i = 0; i < 8; i++) {
        text[10 + i] = CROCKFORD[low_bits(upper >> 5 * (7 - i), 5)];
        text[18 + i] = CROCKFORD[low_bits(lower >> 5 * (7 - i), 5)];
    }
}

static int crockford_of(char c)
{
    const char *at = c == '\0' ? NULL : strchr(CROCKFORD, c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);

    return at != NULL ? (int)(at - CROCKFORD) : -1;
}

static bool read_ulid(const char *text, struct snowflake_parts *ret_parts)
{
    uint64_t time = 0;
    uint64_t upper = 0;

    for (size_t i = 0; i < ULID_TEXT_BYTES; i++) {
        int number = crockford_of(text[i]);

        if (number < 0) {
            return false;
        }
        if (i < 10) {
            time = time << 5 | (unsigned)number;
        } else if (i < 18) {
            upper = upper << 5 | (unsigned)number;
        }
    }
    ret_parts->unix_ms = time;
    ret_parts->worker = (uint32_t)(upper >> 30);
    ret_parts->sequence = (uint32_t)low_bits(upper >> 14, SEQUENCE_BITS);
    return time >> TIME_BITS == 0;
}

/* --- both --- */

void long_id_put(enum id_form form, const struct snowflake_parts *parts, uint64_t random,
                 char *text)
{
    ASSERT(parts->unix_ms >> TIME_BITS == 0);
    ASSERT(parts->worker >> WORKER_BITS == 0 && parts->sequence >> SEQUENCE_BITS == 0);
    if (form == ID_FORM_UUID) {
        put_uuid(parts, random, text);
    } else {
        ASSERT(form == ID_FORM_ULID);
        put_ulid(parts, random, text);
    }
}

bool long_id_read(const char *text, size_t len, enum id_form *ret_form,
                  struct snowflake_parts *ret_parts)
{
    *ret_form = len == UUID_TEXT_BYTES ? ID_FORM_UUID : ID_FORM_ULID;
    if (len == UUID_TEXT_BYTES) {
        return read_uuid(text, ret_parts);
    }
    return len == ULID_TEXT_BYTES && read_ulid(text, ret_parts);
}
