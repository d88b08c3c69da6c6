/*
 * json_scan.h - how far a JSON value goes, before any memory is spent on it.
 *
 * The JSON library makes a tree of what it reads, 40 to 100 bytes for each byte of "[{},{},...".
 * So nothing is given to it that was not measured here: how long, how many values, how deep.
 *
 * The happy path: json_end() finds the end of one value by its brackets and quotes. What stands
 * between them is not judged. Where the text is JSON, this is where the library ends, too; where it
 * is not, the library finds that out before.
 *
 * Failure modes: the value breaks a bound (LIMIT_JSON_*): which, as text. It is found after
 * LIMIT_JSON_BYTES at most, however long the text is.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_API_JSON_SCAN_H
#define LEAFD_HTTP_API_JSON_SCAN_H

#include <stddef.h>

/* The first place at or behind `at` that is no JSON white space; len if there is none. */
size_t json_skip_space(const char *text, size_t len, size_t at);

/* Where the value ends that begins at `at`, which is no white space; len if it is not whole. 0 with
 * *ret_why (static: "has more than 64 values") when it breaks a bound. */
size_t json_end(const char *text, size_t len, size_t at, const char **ret_why);

#endif
