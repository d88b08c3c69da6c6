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
    TEXT_LINES_MAX = 1000, /* ids of one call that come as texts */
    TEXT_ENCODED_ID_BYTES = 3 * (LEAFD_TEXT_BYTES - 1) + 1,
};

/* A text for people, of whatever came: a ? for each control character, and for each byte that is no
 * UTF-8. */
void text_make_plain(char *text);

/* 1 to 128 bytes of UTF-8 without control characters? */
bool text_is_name(const char *text);

/* 1 to max_chars visible ASCII characters? */
bool text_is_visible(const char *text, size_t max_chars);

/* 0 for NULL, and for what may be an Idempotency-Key; else -1 with "bad_setting". */
int text_check_key(const char *key, struct leafd_error *error);

/* A text as one element of a path or a query; into has three bytes for each of its bytes, and one:
 * of a name TEXT_ENCODED_BYTES, of an id's text TEXT_ENCODED_ID_BYTES. */
void text_encode(const char *name, char *into);

/* A whole number from min to max in decimal digits alone. */
bool text_to_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* A key of 26 characters of base 32 out of 130 random bits, and a 0. */
void text_make_key(char into[static TEXT_OWN_KEY_CHARS + 1]);

/* A body in the format "range" that must have exactly count ids in rising ranges: lines "first
 * last", or, stepped, "first last increment". Returns the number of ranges, which are in
 * into[TEXT_RANGES_MAX] then, or -1: *why says what is wrong. */
int text_read_ranges(const char *body, size_t body_bytes, uint32_t count, bool stepped,
                     struct leafd_series *into, const char **why);

/* How many ids a range has. */
uint64_t text_ids_of(const struct leafd_series *range);

/* A body that must have count lines, each the text of an id, which are put into into[count]. False:
 * *why says what is wrong, and what into has is nobody's. */
bool text_read_lines(const char *body, size_t body_bytes, uint32_t count,
                     char (*into)[LEAFD_TEXT_BYTES], const char **why);
#endif
