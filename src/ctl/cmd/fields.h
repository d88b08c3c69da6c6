/*
 * fields.h - fields of answers, which may lack any of them or have another type there: an older
 * leafd, or something that is none, may have answered. Thread: any.
 */
#ifndef LEAFD_CTL_CMD_FIELDS_H
#define LEAFD_CTL_CMD_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A text; NULL: there is none. */
const char *field_text(const json_t *object, const char *name);

/* Is it there, and this text? */
bool field_is(const json_t *object, const char *name, const char *text);

/* A number, also one that is written as a string; otherwise `without`. */
int64_t field_number(const json_t *object, const char *name, int64_t without);

bool field_has_number(const json_t *object, const char *name);

/* Is it there, and true? */
bool field_true(const json_t *object, const char *name);

/* The items of an array; 0 where it is none. */
size_t field_count(const json_t *object, const char *name);
const json_t *field_item(const json_t *object, const char *name, size_t index);

#endif
