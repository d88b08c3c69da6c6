/*
 * body.h - tables of what a request may say: the options of its query and the fields of its JSON
 * body, read strictly.
 *
 * The happy path: body_parse() measures and parses; body_fields() puts the fields of an object into
 * the caller's table, checked; param_take() does so with the text of an option.
 *
 * Failure modes: a body that is no JSON, holds a field twice, or is larger than any of its kind
 * (bad_json, with line and column);
 * a number that no field can hold, an unknown or missing field, a value that breaks its rule
 * (bad_request as a rule, with field, value and rule).
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_API_BODY_H
#define LEAFD_HTTP_API_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/container.h" /* COUNT_OF() of its fields */
#include "src/base/err.h"

#define BODY_SHOWN_BYTES 80

struct body_fault {
    const char *code; /* static */
    char message[400];
};

/* Fill in a fault; returns ERR_INVALID. */
int body_fail(struct body_fault *ret_fault, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A value for a message. Returns out or static text. */
const char *body_show(const json_t *value, char out[BODY_SHOWN_BYTES]);

/* Parse the one value that stands at [from, to) of the text. What breaks a bound of LIMIT_JSON_* is
 * not begun. Lines and columns are those of the text. NULL with *ret_fault; else the caller owns
 * it. */
json_t *body_parse(const char *text, size_t from, size_t to, struct body_fault *ret_fault);

/* bad_json, at that place of the text. Returns ERR_INVALID. */
int body_fail_at(const char *text, size_t at, const char *why, struct body_fault *ret_fault);

/* The line that a place of a text is in. */
size_t body_line(const char *text, size_t at);

enum param_kind {
    PARAM_NUMBER, /* a whole number, min to max */
    PARAM_WORD,   /* one of `words`; `number` is its place among them */
    PARAM_TEXT    /* taken as it is: its rules are the caller's, but for max, its bytes of UTF-8 */
};

/* An option or a field of a body. Reading fills in `present`, and what follows the blank line. */
struct param {
    const char *name;
    enum param_kind kind;
    bool needed;       /* in a body */
    bool takes_digits; /* a number in a body: also a string of its digits */
    bool may_be_empty; /* an option: "name=" says the same as nothing */
    bool present;
    uint64_t min;
    uint64_t max;
    const char *const *words; /* NULL behind the last */
    const char *rule;         /* of a word, for a message: "is neither 1 nor 0" */
    const char *code;         /* of its fault; NULL: bad_request */
    /* Reads a body's value by rules of its own. 0 or ERR_INVALID with *ret_fault */
    int (*read)(const json_t *value, struct param *field, struct body_fault *ret_fault);

    uint64_t number;  /* not touched while it is absent: the caller's default */
    const char *text; /* borrowed from the object, or from the option's text */
    size_t len;
};

/* Read a text: an option's, or that of a string in a body. 0, or ERR_INVALID with *ret_fault. */
int param_take(struct param *field, const char *text, size_t len,
               struct body_fault *ret_fault) MUST_CHECK;

/* Read an object whose fields are those of the table. `what` names it for a message ("a worker's
 * fields"). 0, or ERR_INVALID with *ret_fault. */
int body_fields(json_t *object, const char *what, struct param *fields, size_t count,
                struct body_fault *ret_fault) MUST_CHECK;

/* --- how far a JSON value goes, before any memory is spent on it ---
 *
 * The JSON library makes a tree of what it reads, 40 to 100 bytes for each byte of "[{},{},...".
 * So nothing is given to it that was not measured: how long, how many values, how deep. json_end()
 * finds the end of one value by its brackets and quotes. What stands between them is not judged.
 * Where the text is JSON, this is where the library ends, too; where it is not, the library finds
 * that out before. A value that breaks a bound (LIMIT_JSON_*) is found after LIMIT_JSON_BYTES at
 * most, however long the text is.
 */

/* The first place at or behind `at` that is no JSON white space; len if there is none. */
size_t json_skip_space(const char *text, size_t len, size_t at);

/* Where the value ends that begins at `at`, which is no white space; len if it is not whole. 0 with
 * *ret_why (static: "has more than 64 values") when it breaks a bound. */
size_t json_end(const char *text, size_t len, size_t at, const char **ret_why);

#endif
