/* The rules of what is sent and what comes back, as text: names, keys, ranges. Nothing here asks a
 * clock, allocates or has a state; any thread. */
#ifndef LEAFD_CLIENTS_C_TEXT_H
#define LEAFD_CLIENTS_C_TEXT_H

#include "leafd.h"

enum {
    TEXT_NAME_BYTES = 128,   /* docs/http-api.md: names of tags and holders */
    TEXT_KEY_CHARS = 128,    /* docs/strict.md */
    TEXT_COUNT_MAX = 100000, /* docs/http-api.md: ids of one request */
    TEXT_RANGES_MAX = 64,    /* docs/http-api.md: ranges in a reply */
    TEXT_ENCODED_BYTES = 3 * TEXT_NAME_BYTES + 1,
    TEXT_OWN_KEY_CHARS = 26,
};

/* 1 to 128 bytes of UTF-8 without control characters? */
bool text_is_name(const char *text);

/* 1 to max_chars visible ASCII characters? */
bool text_is_visible(const char *text, size_t max_chars);

/* A name as one element of a path; into has TEXT_ENCODED_BYTES. */
void text_encode(const char *name, char *into);

/* A whole number from min to max in decimal digits alone. */
bool text_to_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* A key of 26 characters of base 32 out of 130 random bits, and a 0. */
void text_make_key(char into[static TEXT_OWN_KEY_CHARS + 1]);

/* A body in the format "range" that must have exactly count ids in rising ranges. Returns the
 * number of ranges, which are in into[TEXT_RANGES_MAX] then, or -1: *why says what is wrong. */
int text_read_ranges(const char *body, size_t body_bytes, uint32_t count, struct leafd_range *into,
                     const char **why);
#endif
