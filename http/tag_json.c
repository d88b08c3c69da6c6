/*
 * tag_json.c - see tag_json.h. Thread: pure functions, any.
 */
#include "http/tag_json.h"

#include <ctype.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/text.h"
#include "src/base/assert.h"

#define SHOWN_BYTES 80
#define FIELD_NAME_BYTES 16 /* the longest is "description" */

static int fault(struct tag_json_fault *ret_fault, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fault(struct tag_json_fault *ret_fault, const char *code, const char *format, ...)
{
    va_list args;

    ret_fault->code = code;
    va_start(args, format);
    (void)vsnprintf(ret_fault->message, sizeof(ret_fault->message), format, args);
    va_end(args);
    return ERR_INVALID;
}

/* A JSON value for a message. */
static const char *show_value(const json_t *value, char out[SHOWN_BYTES])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return text_show(json_string_value(value), json_string_length(value), out, SHOWN_BYTES);
    case JSON_INTEGER:
        (void)snprintf(out, SHOWN_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return out;
    case JSON_REAL:
        (void)snprintf(out, SHOWN_BYTES, "%.17g", json_real_value(value));
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

/* A whole number in range; where `text` allows it, also a string of its digits. */
static int read_number(const char *field, const json_t *value, uint64_t min, uint64_t max,
                       bool text, uint64_t *ret_number, struct tag_json_fault *ret_fault)
{
    char shown[SHOWN_BYTES];

    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *ret_number = (uint64_t)json_integer_value(value);
        if (*ret_number >= min && *ret_number <= max) {
            return 0;
        }
    }
    if (text && json_is_string(value) &&
        text_parse_decimal(json_string_value(value), json_string_length(value), min, max,
                           ret_number) == 0) {
        return 0;
    }
    return fault(ret_fault, "bad_request", "%s=%s is not a whole number from %llu to %llu", field,
                 show_value(value, shown), (unsigned long long)min, (unsigned long long)max);
}

static int read_step(const char *field, const json_t *value, uint32_t *ret_step,
                     struct tag_json_fault *ret_fault)
{
    uint64_t number;
    int rv = read_number(field, value, 1, LIMIT_TAG_STEP, false, &number, ret_fault);

    if (rv == 0) {
        *ret_step = (uint32_t)number;
    }
    return rv;
}

static int read_mode(const json_t *value, struct tag_put *put, struct tag_json_fault *ret_fault)
{
    char shown[SHOWN_BYTES];

    if (json_is_string(value) && strcmp(json_string_value(value), "trend") == 0) {
        put->mode = TAG_MODE_TREND;
        return 0;
    }
    return fault(ret_fault, "bad_request",
                 "mode=%s is not \"trend\", the only mode of this version",
                 show_value(value, shown));
}

static int read_description(const json_t *value, struct tag_put *put,
                            struct tag_json_fault *ret_fault)
{
    char shown[SHOWN_BYTES];
    const char *why = "description is not a string";

    if (!json_is_string(value) ||
        tag_description_check(json_string_value(value), json_string_length(value), &why) != 0) {
        return fault(ret_fault, "bad_request", "description=%s: %s", show_value(value, shown), why);
    }
    put->description = json_string_value(value);
    put->description_len = (uint16_t)json_string_length(value);
    return 0;
}

static int read_name(const json_t *value, struct tag_put *put, struct tag_json_fault *ret_fault)
{
    char shown[SHOWN_BYTES];
    const char *why = "the name of a tag is not a string";

    if (!json_is_string(value) ||
        tag_name_check(json_string_value(value), json_string_length(value), &why) != 0) {
        return fault(ret_fault, "bad_tag", "bad tag %s: %s", show_value(value, shown), why);
    }
    put->name = json_string_value(value);
    put->name_len = (uint16_t)json_string_length(value);
    return 0;
}

/* One field of an object; with_name: "tag" is one of them. */
static int read_field(const char *key, const json_t *value, bool with_name, struct tag_put *put,
                      struct tag_json_fault *ret_fault)
{
    char shown[SHOWN_BYTES];

    if (strcmp(key, "step") == 0) {
        put->fields |= TAG_FIELD_STEP;
        return read_step(key, value, &put->step, ret_fault);
    }
    if (strcmp(key, "max_step") == 0) {
        put->fields |= TAG_FIELD_MAX_STEP;
        return read_step(key, value, &put->max_step, ret_fault);
    }
    if (strcmp(key, "max_id") == 0) {
        put->fields |= TAG_FIELD_MAX_ID;
        return read_number(key, value, 0, TAG_MAX_ID_END, true, &put->max_id, ret_fault);
    }
    if (strcmp(key, "mode") == 0) {
        put->fields |= TAG_FIELD_MODE;
        return read_mode(value, put, ret_fault);
    }
    if (strcmp(key, "description") == 0) {
        put->fields |= TAG_FIELD_DESCRIPTION;
        return read_description(value, put, ret_fault);
    }
    if (with_name && strcmp(key, "tag") == 0) {
        return read_name(value, put, ret_fault);
    }
    return fault(ret_fault, "bad_request",
                 "unknown field %s; known are %sstep, max_id, max_step, mode, description",
                 text_show(key, strlen(key), shown, sizeof(shown)), with_name ? "tag, " : "");
}

/* The fields of an object into put, whose name is set unless it comes from the object. Strings stay
 * the object's. */
static int read_object(json_t *object, struct tag_put *put, struct tag_json_fault *ret_fault)
{
    bool with_name = put->name == NULL;
    char shown[SHOWN_BYTES];
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return fault(ret_fault, "bad_request", "%s is not an object of a tag's fields",
                     show_value(object, shown));
    }
    json_object_foreach(object, key, value)
    {
        int rv = read_field(key, value, with_name, put, ret_fault);

        if (rv != 0) {
            return rv;
        }
    }
    if (put->name == NULL) {
        return fault(ret_fault, "bad_request", "the field \"tag\" is missing");
    }
    return 0;
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

static int bad_json(const char *body, size_t len, const json_error_t *error, int first_line,
                    struct tag_json_fault *ret_fault)
{
    enum json_error_code code = json_error_code(error);
    size_t end = error->position > 0 ? (size_t)error->position : 0;
    char field[FIELD_NAME_BYTES];
    char shown[SHOWN_BYTES];
    char shown_field[SHOWN_BYTES];
    const char *number;
    size_t number_len;

    if (code == json_error_numeric_overflow && end <= len &&
        find_number(body, end, field, &number, &number_len)) {
        return fault(ret_fault, "bad_request", "%s=%s is out of range for every field",
                     text_show(field, strlen(field), shown_field, sizeof(shown_field)),
                     text_show(number, number_len, shown, sizeof(shown)));
    }
    return fault(ret_fault, "bad_json", "line %d, column %d: %s", error->line + first_line - 1,
                 error->column, error->text);
}

int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      struct buf *command, struct tag_json_fault *ret_fault)
{
    struct tag_put put = {.name = name, .name_len = (uint16_t)name_len};
    json_error_t error;
    json_t *object;
    int rv;

    ASSERT(name_len > 0 && name_len <= LIMIT_TAG_NAME_BYTES);
    if (len == 0) {
        command_put_add(command, &put);
        return 0;
    }
    object = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (object == NULL) {
        return bad_json(body, len, &error, 1, ret_fault);
    }
    rv = read_object(object, &put, ret_fault);
    if (rv == 0) {
        command_put_add(command, &put);
    }
    json_decref(object);
    return rv;
}

/* Put "item N: " or "line N: " before a fault's message. */
static int fault_at(struct tag_json_fault *ret_fault, const char *what, size_t number)
{
    char message[sizeof(ret_fault->message)];

    memcpy(message, ret_fault->message, sizeof(message));
    return fault(ret_fault, ret_fault->code, "%s %zu: %.360s", what, number, message);
}

static int too_many(struct tag_json_fault *ret_fault, size_t count)
{
    return fault(ret_fault, "bad_request", "%zu tags or more in one call; the limit is %d", count,
                 LIMIT_TAGS_PER_BULK);
}

static int read_array(const char *body, size_t len, struct buf *command,
                      struct tag_json_fault *ret_fault)
{
    json_error_t error;
    json_t *array = json_loadb(body, len, JSON_REJECT_DUPLICATES, &error);
    int rv = 0;

    if (array == NULL) {
        return bad_json(body, len, &error, 1, ret_fault);
    }
    ASSERT(json_is_array(array));
    if (json_array_size(array) == 0) {
        rv = fault(ret_fault, "bad_request", "the array holds no tags");
    } else if (json_array_size(array) > LIMIT_TAGS_PER_BULK) {
        rv = too_many(ret_fault, json_array_size(array));
    }
    for (size_t i = 0; rv == 0 && i < json_array_size(array); i++) {
        struct tag_put put = {.name = NULL};

        rv = read_object(json_array_get(array, i), &put, ret_fault);
        if (rv == 0) {
            command_put_add(command, &put);
        } else {
            fault_at(ret_fault, "item", i);
        }
    }
    json_decref(array);
    return rv;
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            return false;
        }
    }
    return true;
}

static int read_line(const char *line, size_t len, int number, struct buf *command,
                     struct tag_json_fault *ret_fault)
{
    struct tag_put put = {.name = NULL};
    json_error_t error;
    json_t *object = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    int rv;

    if (object == NULL) {
        rv = bad_json(line, len, &error, number, ret_fault);
        return strcmp(ret_fault->code, "bad_json") == 0
                   ? rv
                   : fault_at(ret_fault, "line", (size_t)number);
    }
    rv = read_object(object, &put, ret_fault);
    if (rv == 0) {
        command_put_add(command, &put);
    } else {
        rv = fault_at(ret_fault, "line", (size_t)number);
    }
    json_decref(object);
    return rv;
}

static int read_lines(const char *body, size_t len, struct buf *command,
                      struct tag_json_fault *ret_fault)
{
    const char *end = body + len;
    size_t count = 0;
    int number = 0;

    for (const char *at = body; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t line_len = (size_t)((newline != NULL ? newline : end) - at);
        int rv = 0;

        number++;
        if (!is_blank(at, line_len)) {
            count++;
            rv = count > LIMIT_TAGS_PER_BULK ? too_many(ret_fault, count)
                                             : read_line(at, line_len, number, command, ret_fault);
        }
        if (rv != 0) {
            return rv;
        }
        at += line_len + 1;
    }
    ASSERT(count > 0);
    return 0;
}

int tag_json_read_bulk(const void *body, size_t len, struct buf *command,
                       struct tag_json_fault *ret_fault)
{
    const char *text = body;
    size_t at = 0;

    while (at < len && isspace((unsigned char)text[at])) {
        at++;
    }
    if (at == len) {
        return fault(ret_fault, "bad_json", "the body is empty; it holds no tags");
    }
    return text[at] == '[' ? read_array(text, len, command, ret_fault)
                           : read_lines(text, len, command, ret_fault);
}

void tag_json_put(const struct tag_row *row, struct buf *buf)
{
    char time[TEXT_TIME_BYTES];

    buf_printf(buf, "{\"tag\":");
    text_put_json(buf, row->name, row->name_len);
    buf_printf(buf, ",\"max_id\":\"%llu\",\"step\":%u,\"max_step\":%u,\"mode\":\"%s\"",
               (unsigned long long)row->max_id, row->step, row->max_step,
               row->mode == TAG_MODE_STRICT ? "strict" : "trend");
    buf_printf(buf, ",\"description\":");
    text_put_json(buf, row->description != NULL ? row->description : "", row->description_len);
    buf_printf(buf, ",\"created\":\"%s\"", text_time_rfc3339(row->created_ms, time));
    buf_printf(buf, ",\"updated\":\"%s\"", text_time_rfc3339(row->updated_ms, time));
    buf_printf(buf, ",\"generation\":%u}", row->generation);
}
