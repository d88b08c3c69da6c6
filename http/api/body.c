/*
 * body.c - see body.h. Thread: pure functions, any.
 */
#include "http/api/body.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

#define FIELD_NAME_BYTES 24 /* the longest is "expected_until_ms" */
#define KNOWN_BYTES 160     /* the names of a table, for a message */

int body_fail(struct body_fault *ret_fault, const char *code, const char *format, ...)
{
    va_list args;

    ret_fault->code = code;
    va_start(args, format);
    (void)vsnprintf(ret_fault->message, sizeof(ret_fault->message), format, args);
    va_end(args);
    return ERR_INVALID;
}

const char *body_show(const json_t *value, char out[BODY_SHOWN_BYTES])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return text_show(json_string_value(value), json_string_length(value), out,
                         BODY_SHOWN_BYTES);
    case JSON_INTEGER:
        (void)snprintf(out, BODY_SHOWN_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return out;
    case JSON_REAL:
        (void)snprintf(out, BODY_SHOWN_BYTES, "%.17g", json_real_value(value));
        return out;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    case JSON_ARRAY:
        return "an array";
    default:
        return "an object";
    }
}

static int read_number(const json_t *value, struct body_field *field, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];

    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        field->number = (uint64_t)json_integer_value(value);
        if (field->number >= field->min && field->number <= field->max) {
            return 0;
        }
    }
    if (field->takes_digits && json_is_string(value) &&
        text_parse_decimal(json_string_value(value), json_string_length(value), field->min,
                           field->max, &field->number) == 0) {
        return 0;
    }
    return body_fail(ret_fault, "bad_request", "%s=%s is not a whole number from %llu to %llu",
                     field->name, body_show(value, shown), (unsigned long long)field->min,
                     (unsigned long long)field->max);
}

/* The field whose value ends at `end` of the body, for numbers the JSON library cannot hold: back
 * over the number, the colon and the quoted key. False if it does not look like that. */
static bool find_number(const char *body, size_t end, char ret_field[FIELD_NAME_BYTES],
                        const char **ret_number, size_t *ret_len)
{
    size_t at = end;
    size_t key_end;

    while (at > 0 && memchr("0123456789+-.eE", body[at - 1], 15) != NULL) {
        at--;
    }
    *ret_number = body + at;
    *ret_len = end - at;
    while (at > 0 && (isspace((unsigned char)body[at - 1]) || body[at - 1] == ':')) {
        at--;
    }
    if (*ret_len == 0 || at == 0 || body[at - 1] != '"') {
        return false;
    }
    key_end = --at;
    while (at > 0 && key_end - at < FIELD_NAME_BYTES && body[at - 1] != '"') {
        at--;
    }
    if (at == 0 || body[at - 1] != '"' || key_end - at >= FIELD_NAME_BYTES) {
        return false;
    }
    memcpy(ret_field, body + at, key_end - at);
    ret_field[key_end - at] = '\0';
    return true;
}

/* The fault of a body that does not parse. */
static void bad_json(const char *body, size_t len, const json_error_t *error, int first_line,
                     struct body_fault *ret_fault)
{
    enum json_error_code code = json_error_code(error);
    size_t end = error->position > 0 ? (size_t)error->position : 0;
    char field[FIELD_NAME_BYTES];
    char shown[BODY_SHOWN_BYTES];
    char shown_field[BODY_SHOWN_BYTES];
    const char *number;
    size_t number_len;

    if (code == json_error_numeric_overflow && end <= len &&
        find_number(body, end, field, &number, &number_len)) {
        (void)body_fail(ret_fault, "bad_request", "%s=%s is out of range for every field",
                        text_show(field, strlen(field), shown_field, sizeof(shown_field)),
                        text_show(number, number_len, shown, sizeof(shown)));
        return;
    }
    (void)body_fail(ret_fault, "bad_json", "line %d, column %d: %s", error->line + first_line - 1,
                    error->column, error->text);
}

json_t *body_parse(const void *body, size_t len, int first_line, struct body_fault *ret_fault)
{
    json_error_t error;
    json_t *value = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);

    if (value == NULL) {
        bad_json(body, len, &error, first_line, ret_fault);
    }
    return value;
}

static int read_field(const json_t *value, struct body_field *field, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];

    field->present = true;
    if (field->read != NULL) {
        return field->read(value, field, ret_fault);
    }
    if (!field->is_text) {
        return read_number(value, field, ret_fault);
    }
    if (!json_is_string(value)) {
        return body_fail(ret_fault, "bad_request", "%s=%s is not a string", field->name,
                         body_show(value, shown));
    }
    field->text = json_string_value(value);
    field->len = json_string_length(value);
    return 0;
}

static int unknown_field(const char *key, const struct body_field *fields, size_t count,
                         struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    char known[KNOWN_BYTES] = "";
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        int len =
            snprintf(known + at, sizeof(known) - at, "%s%s", i > 0 ? ", " : "", fields[i].name);

        ASSERT(len > 0 && (size_t)len < sizeof(known) - at);
        at += (size_t)len;
    }
    return body_fail(ret_fault, "bad_request", "unknown field %s; known are %s",
                     text_show(key, strlen(key), shown, sizeof(shown)), known);
}

static struct body_field *find_field(const char *key, struct body_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

int body_fields(json_t *object, const char *what, struct body_field *fields, size_t count,
                struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return body_fail(ret_fault, "bad_request", "%s is not an object of %s",
                         body_show(object, shown), what);
    }
    json_object_foreach(object, key, value)
    {
        struct body_field *field = find_field(key, fields, count);
        int rv = field != NULL ? read_field(value, field, ret_fault)
                               : unknown_field(key, fields, count, ret_fault);

        if (rv != 0) {
            return rv;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].needed && !fields[i].present) {
            return body_fail(ret_fault, "bad_request", "the field \"%s\" is missing",
                             fields[i].name);
        }
    }
    return 0;
}

int body_object(const void *body, size_t len, const char *what, struct body_field *fields,
                size_t count, json_t **ret_root, struct body_fault *ret_fault)
{
    int rv;

    *ret_root = body_parse(len > 0 ? body : "{}", len > 0 ? len : 2, 1, ret_fault);
    if (*ret_root == NULL) {
        return ERR_INVALID;
    }
    rv = body_fields(*ret_root, what, fields, count, ret_fault);
    if (rv != 0) {
        json_decref(*ret_root);
        *ret_root = NULL;
    }
    return rv;
}
