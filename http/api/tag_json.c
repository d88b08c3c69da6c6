/*
 * tag_json.c - see tag_json.h. Thread: pure functions, any.
 */
#include "http/api/tag_json.h"

#include <ctype.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

static int read_step(const char *field, const json_t *value, uint32_t *ret_step,
                     struct body_fault *ret_fault)
{
    uint64_t number;
    int rv = body_number(field, value, 1, LIMIT_TAG_STEP, false, &number, ret_fault);

    if (rv == 0) {
        *ret_step = (uint32_t)number;
    }
    return rv;
}

static int read_mode(const json_t *value, struct tag_put *put, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];

    if (json_is_string(value) && strcmp(json_string_value(value), "trend") == 0) {
        put->mode = TAG_MODE_TREND;
        return 0;
    }
    if (json_is_string(value) && strcmp(json_string_value(value), "strict") == 0) {
        put->mode = TAG_MODE_STRICT;
        return 0;
    }
    return body_fail(ret_fault, "bad_request", "mode=%s is neither \"trend\" nor \"strict\"",
                     body_show(value, shown));
}

static int read_description(const json_t *value, struct tag_put *put, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    const char *why = "description is not a string";

    if (!json_is_string(value) ||
        tag_description_check(json_string_value(value), json_string_length(value), &why) != 0) {
        return body_fail(ret_fault, "bad_request", "description=%s: %s", body_show(value, shown),
                         why);
    }
    put->description = json_string_value(value);
    put->description_len = (uint16_t)json_string_length(value);
    return 0;
}

static int read_name(const json_t *value, struct tag_put *put, struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];
    const char *why = "the name of a tag is not a string";

    if (!json_is_string(value) ||
        tag_name_check(json_string_value(value), json_string_length(value), &why) != 0) {
        return body_fail(ret_fault, "bad_tag", "bad tag %s: %s", body_show(value, shown), why);
    }
    put->name = json_string_value(value);
    put->name_len = (uint16_t)json_string_length(value);
    return 0;
}

/* One field of an object; with_name: "tag" is one of them. */
static int read_field(const char *key, const json_t *value, bool with_name, struct tag_put *put,
                      struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];

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
        return body_number(key, value, 0, TAG_MAX_ID_END, true, &put->max_id, ret_fault);
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
    return body_fail(ret_fault, "bad_request",
                     "unknown field %s; known are %sstep, max_id, max_step, mode, description",
                     text_show(key, strlen(key), shown, sizeof(shown)), with_name ? "tag, " : "");
}

/* The fields of an object into put, whose name is set unless it comes from the object. Strings stay
 * the object's. */
static int read_object(json_t *object, struct tag_put *put, struct body_fault *ret_fault)
{
    bool with_name = put->name == NULL;
    char shown[BODY_SHOWN_BYTES];
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return body_fail(ret_fault, "bad_request", "%s is not an object of a tag's fields",
                         body_show(object, shown));
    }
    json_object_foreach(object, key, value)
    {
        int rv = read_field(key, value, with_name, put, ret_fault);

        if (rv != 0) {
            return rv;
        }
    }
    if (put->name == NULL) {
        return body_fail(ret_fault, "bad_request", "the field \"tag\" is missing");
    }
    return 0;
}

int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      struct buf *command, struct body_fault *ret_fault)
{
    struct tag_put put = {.name = name, .name_len = (uint16_t)name_len};
    json_t *object;
    int rv;

    ASSERT(name_len > 0 && name_len <= LIMIT_TAG_NAME_BYTES);
    if (len == 0) {
        command_put_add(command, &put);
        return 0;
    }
    object = body_parse(body, len, 1, ret_fault);
    if (object == NULL) {
        return ERR_INVALID;
    }
    rv = read_object(object, &put, ret_fault);
    if (rv == 0) {
        command_put_add(command, &put);
    }
    json_decref(object);
    return rv;
}

/* Put "item N: " or "line N: " before a fault's message. */
static int fault_at(struct body_fault *ret_fault, const char *what, size_t number)
{
    char message[sizeof(ret_fault->message)];

    memcpy(message, ret_fault->message, sizeof(message));
    return body_fail(ret_fault, ret_fault->code, "%s %zu: %.360s", what, number, message);
}

static int too_many(struct body_fault *ret_fault, size_t count)
{
    return body_fail(ret_fault, "bad_request", "%zu tags or more in one call; the limit is %d",
                     count, LIMIT_TAGS_PER_BULK);
}

static int read_array(const char *body, size_t len, struct buf *command,
                      struct body_fault *ret_fault)
{
    json_t *array = body_parse(body, len, 1, ret_fault);
    int rv = 0;

    if (array == NULL) {
        return ERR_INVALID;
    }
    ASSERT(json_is_array(array));
    if (json_array_size(array) == 0) {
        rv = body_fail(ret_fault, "bad_request", "the array holds no tags");
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
                     struct body_fault *ret_fault)
{
    struct tag_put put = {.name = NULL};
    json_t *object = body_parse(line, len, number, ret_fault);
    int rv;

    if (object == NULL) {
        return strcmp(ret_fault->code, "bad_json") == 0
                   ? ERR_INVALID
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
                      struct body_fault *ret_fault)
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
                       struct body_fault *ret_fault)
{
    const char *text = body;
    size_t at = 0;

    while (at < len && isspace((unsigned char)text[at])) {
        at++;
    }
    if (at == len) {
        return body_fail(ret_fault, "bad_json", "the body is empty; it holds no tags");
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
    if (row->mode == TAG_MODE_STRICT) {
        buf_printf(buf, ",\"changing\":%s", row->recalling ? "true" : "false");
    }
    buf_printf(buf, ",\"description\":");
    text_put_json(buf, row->description != NULL ? row->description : "", row->description_len);
    buf_printf(buf, ",\"created\":\"%s\"", text_time_rfc3339(row->created_ms, time));
    buf_printf(buf, ",\"updated\":\"%s\"", text_time_rfc3339(row->updated_ms, time));
    buf_printf(buf, ",\"generation\":%u}", row->generation);
}
