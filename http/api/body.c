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
#include "src/base/hot.h"
#include "src/base/limits.h"

#define FIELD_NAME_BYTES 24 /* the longest is "expected_until_ms" */
#define KNOWN_BYTES 160     /* the names of a table, for a message */

int body_fail(struct body_fault *ret_fault, const char *code, const char *format, ...)
{
    va_list args;

    ret_fault->code = code;
    va_start(args, format);
    (void)vsnprintf(ret_fault->message, sizeof ret_fault->message, format, args);
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

static int bad_value(const struct param *field, const char *shown, struct body_fault *ret_fault)
{
    const char *code = field->code != NULL ? field->code : "bad_request";

    switch (field->kind) {
    case PARAM_WORD:
        return body_fail(ret_fault, code, "%s=%s %s", field->name, shown, field->rule);
    case PARAM_TEXT:
        return body_fail(ret_fault, code, "%s=%s is not a string", field->name, shown);
    case PARAM_NUMBER:
        return body_fail(ret_fault, code, "%s=%s is not a whole number from %llu to %llu",
                         field->name, shown, ull(field->min), ull(field->max));
    }
    UNREACHABLE("a kind of field");
}

static bool find_word(struct param *field)
{
    for (uint64_t i = 0; field->words[i] != NULL; i++) {
        if (strlen(field->words[i]) == field->len &&
            memcmp(field->words[i], field->text, field->len) == 0) {
            field->number = i;
            return true;
        }
    }
    return false;
}

COLD static int bad_text(const struct param *field, struct body_fault *ret_fault)
{
    char shown[2 * BODY_SHOWN_BYTES];

    if (field->kind == PARAM_TEXT) {
        return body_fail(ret_fault, "bad_request", "%s=%s is not UTF-8 of at most %llu bytes",
                         field->name, text_show(field->text, field->len, shown, sizeof shown),
                         ull(field->max));
    }
    return bad_value(field, text_show(field->text, field->len, shown, BODY_SHOWN_BYTES), ret_fault);
}

HOT int param_take(struct param *field, const char *text, size_t len, struct body_fault *ret_fault)
{
    bool good = true;

    field->present = len > 0 || !field->may_be_empty;
    field->text = text;
    field->len = len;
    if (field->present && field->kind == PARAM_NUMBER) {
        good = text_parse_decimal(text, len, field->min, field->max, &field->number) == 0;
    } else if (field->kind == PARAM_WORD) {
        good = find_word(field);
    } else if (field->kind == PARAM_TEXT && field->max > 0) {
        good = len <= field->max && text_is_utf8(text, len);
    }
    return good ? 0 : bad_text(field, ret_fault);
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

/* Line and column, each from 1 on, of a place of the text; a column is a character of UTF-8. */
static size_t place_of_error(const char *text, size_t at, size_t *ret_column)
{
    const char *newline = at > 0 ? memrchr(text, '\n', at) : NULL;
    size_t column = 1;

    for (const char *c = newline != NULL ? newline + 1 : text; c < text + at; c++) {
        column += ((unsigned char)*c & 0xc0) != 0x80;
    }
    *ret_column = column;
    return body_line(text, at);
}

size_t body_line(const char *text, size_t at)
{
    size_t line = 1;

    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
    }
    return line;
}

int body_fail_at(const char *text, size_t at, const char *why, struct body_fault *ret_fault)
{
    size_t column;
    size_t line = place_of_error(text, at, &column);

    return body_fail(ret_fault, "bad_json", "line %zu, column %zu: %s", line, column, why);
}

/* The fault of a value that stands at [from, to) and does not parse. */
static void fault_of_json(const char *text, size_t from, size_t to, const json_error_t *error,
                          struct body_fault *ret_fault)
{
    enum json_error_code code = json_error_code(error);
    size_t end = error->position > 0 ? (size_t)error->position : 0;
    char field[FIELD_NAME_BYTES];
    char shown[BODY_SHOWN_BYTES];
    char shown_field[BODY_SHOWN_BYTES];
    const char *number;
    size_t number_len;
    size_t column;
    size_t line = place_of_error(text, from, &column);

    if (code == json_error_numeric_overflow && end <= to - from &&
        find_number(text + from, end, field, &number, &number_len)) {
        (void)body_fail(ret_fault, "bad_request", "%s=%s is out of range for every field",
                        text_show(field, strlen(field), shown_field, sizeof shown_field),
                        text_show(number, number_len, shown, sizeof shown));
        return;
    }
    (void)body_fail(ret_fault, "bad_json", "line %zu, column %zu: %s",
                    line + (size_t)error->line - 1,
                    (size_t)error->column + (error->line == 1 ? column - 1 : 0), error->text);
}

static json_t *json_too_large(const char *text, size_t at, const char *why,
                              struct body_fault *ret_fault)
{
    char message[BODY_SHOWN_BYTES];

    (void)snprintf(message, sizeof message, "this value %s", why);
    (void)body_fail_at(text, at, message, ret_fault);
    return NULL;
}

json_t *body_parse(const char *text, size_t from, size_t to, struct body_fault *ret_fault)
{
    size_t at = json_skip_space(text, to, from);
    const char *why = NULL;
    json_error_t error;
    json_t *value;

    if (at < to) {
        size_t end = json_end(text, to, at, &why);

        if (end == 0) {
            return json_too_large(text, at, why, ret_fault);
        }
        end = json_skip_space(text, to, end);
        to = to - end > BODY_SHOWN_BYTES ? end + BODY_SHOWN_BYTES : to; /* enough to say what */
    }
    value = json_loadb(text + at, to - at, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (value == NULL) {
        fault_of_json(text, at, to, &error, ret_fault);
    }
    return value;
}

/* A number that JSON has with a fraction or an exponent, as some programs write every number: how
 * to write it instead, if it is a whole one that the field takes. */
static bool is_whole(const json_t *value, const struct param *field, uint64_t *ret_number)
{
    double real = json_is_real(value) ? json_real_value(value) : -1;

    /* Beyond 2^53 the double need not be what was written. */
    if (!(real >= 0 && real <= (double)(UINT64_C(1) << 53))) {
        return false;
    }
    *ret_number = (uint64_t)real;
    return (double)*ret_number == real && *ret_number >= field->min && *ret_number <= field->max;
}

static int read_field(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    bool is_number = field->kind == PARAM_NUMBER;
    char shown[BODY_SHOWN_BYTES];
    uint64_t whole;

    field->present = true;
    if (field->read != NULL) {
        return field->read(value, field, ret_fault);
    }
    if (json_is_string(value) && (!is_number || field->takes_digits)) {
        return param_take(field, json_string_value(value), json_string_length(value), ret_fault);
    }
    if (is_number && json_is_integer(value) && json_integer_value(value) >= 0) {
        field->number = (uint64_t)json_integer_value(value);
        if (field->number >= field->min && field->number <= field->max) {
            return 0;
        }
    }
    if (is_number && is_whole(value, field, &whole)) {
        return body_fail(ret_fault, field->code != NULL ? field->code : "bad_request",
                         "%s has a fraction or an exponent: write \"%s\":%llu", field->name,
                         field->name, ull(whole));
    }
    return bad_value(field, body_show(value, shown), ret_fault);
}

static int unknown_field(const char *key, const struct param *fields, size_t count,
                         struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    char known[KNOWN_BYTES] = "";
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        int len =
            snprintf(known + at, sizeof known - at, "%s%s", i > 0 ? ", " : "", fields[i].name);

        ASSERT(len > 0 && (size_t)len < sizeof known - at);
        at += (size_t)len;
    }
    return body_fail(ret_fault, "bad_request", "unknown field %s; known are %s",
                     text_show(key, strlen(key), shown, sizeof shown), known);
}

static struct param *find_field(const char *key, struct param *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

int body_fields(json_t *object, const char *what, struct param *fields, size_t count,
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
        struct param *field = find_field(key, fields, count);
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

/* --- how far a JSON value goes --- */

#define TEXT(number) TEXT_(number)
#define TEXT_(number) #number

static bool is_json_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t json_skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && is_json_space(text[at])) {
        at++;
    }
    return at;
}

/* Behind the string whose first quote is at `at`; len if it has no second one. */
static size_t string_end(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++) {
        if (text[at] == '\\') {
            at++;
        }
    }
    return at < len ? at + 1 : len;
}

/* Behind a number or a word, or one byte that begins nothing. */
static size_t json_word_end(const char *text, size_t len, size_t at)
{
    do {
        at++;
    } while (at < len && !is_json_space(text[at]) && strchr(",:]}[{\"", text[at]) == NULL);
    return at;
}

/* Behind the object or array at `at`, in a text that is no longer than it may be. */
static size_t tree_end(const char *text, size_t len, size_t at, const char **ret_why)
{
    unsigned values = 0;
    unsigned depth = 0;

    while (at < len) {
        char c = text[at];

        if (c == '"') {
            at = string_end(text, len, at);
            continue;
        }
        at++;
        values += c == '[' || c == '{' || c == ',';
        depth += c == '[' || c == '{';
        if (depth > LIMIT_JSON_DEPTH) {
            *ret_why = "is nested in more than " TEXT(LIMIT_JSON_DEPTH) " levels";
            return 0;
        }
        if (values > LIMIT_JSON_VALUES) {
            *ret_why = "has more than " TEXT(LIMIT_JSON_VALUES) " values";
            return 0;
        }
        if ((c == ']' || c == '}') && --depth == 0) {
            return at;
        }
    }
    return len;
}

size_t json_end(const char *text, size_t len, size_t at, const char **ret_why)
{
    size_t bound = len - at > LIMIT_JSON_BYTES ? at + LIMIT_JSON_BYTES + 1 : len;
    size_t end;

    ASSERT(at < len && !is_json_space(text[at]));
    if (text[at] == '[' || text[at] == '{') {
        end = tree_end(text, bound, at, ret_why);
    } else if (text[at] == '"') {
        end = string_end(text, bound, at);
    } else {
        end = json_word_end(text, bound, at);
    }
    if (end > at + LIMIT_JSON_BYTES) {
        *ret_why = "is longer than " TEXT(LIMIT_JSON_BYTES) " bytes";
        return 0;
    }
    return end;
}
