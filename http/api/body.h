/*
 * body.h - what reading JSON bodies strictly has in common: faults, whole numbers, and objects
 * whose fields are in a table.
 *
 * The happy path: body_parse() parses; body_fields() puts the fields of an object into
 * the caller's table, checked.
 *
 * Failure modes: a body that is no JSON, or holds a field twice (bad_json, with line and column);
 * a number that no field can hold, an unknown or missing field, a value that breaks its rule
 * (bad_request, with field, value and rule).
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_API_BODY_H
#define LEAFD_HTTP_API_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Parse a value; its text begins in line first_line of the body. NULL with *ret_fault; else the
 * caller owns it. */
json_t *body_parse(const void *body, size_t len, int first_line, struct body_fault *ret_fault);

/* A field that an object may have: a whole number, unless it is said otherwise. Reading fills in
 * what comes after the blank line. */
struct body_field {
    const char *name;
    bool needed;
    bool is_text;      /* taken as it is: its own rules are the caller's */
    bool takes_digits; /* of a number: also a string of its digits */
    uint64_t min;      /* of a number */
    uint64_t max;
    /* Reads it by rules of its own. 0 or ERR_INVALID with *ret_fault */
    int (*read)(const json_t *value, struct body_field *field, struct body_fault *ret_fault);

    bool present;
    uint64_t number;  /* not touched while it is absent: the caller's default */
    const char *text; /* borrowed from the object */
    size_t len;
};

/* Read an object whose fields are those of the table. `what` names it for a message ("a worker's
 * fields"). 0, or ERR_INVALID with *ret_fault. */
int body_fields(json_t *object, const char *what, struct body_field *fields, size_t count,
                struct body_fault *ret_fault) MUST_CHECK;

/* Parse a body and read the one object that it is; an empty body is an empty object. 0, and
 * *ret_root holds the fields' texts, to be freed by json_decref(); or ERR_INVALID with
 * *ret_fault. */
int body_object(const void *body, size_t len, const char *what, struct body_field *fields,
                size_t count, json_t **ret_root, struct body_fault *ret_fault) MUST_CHECK;

#endif
