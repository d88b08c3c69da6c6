/*
 * fields.c - see fields.h. Thread: any.
 */
#include "src/ctl/cmd/fields.h"

#include <string.h>

#include "http/proto/text.h"

const char *field_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

bool field_is(const json_t *object, const char *name, const char *text)
{
    const char *there = field_text(object, name);

    return there != NULL && strcmp(there, text) == 0;
}

bool field_has_number(const json_t *object, const char *name)
{
    return field_number(object, name, INT64_MIN) != INT64_MIN;
}

int64_t field_number(const json_t *object, const char *name, int64_t without)
{
    const json_t *field = json_object_get(object, name);
    const char *text = json_string_value(field);
    uint64_t value = 0;

    if (json_is_integer(field)) {
        return json_integer_value(field);
    }
    if (json_is_real(field)) {
        double real = json_real_value(field);

        return real > -9e18 && real < 9e18 ? (int64_t)real : without;
    }
    if (text != NULL && text_parse_decimal(text, strlen(text), 0, INT64_MAX, &value) == 0) {
        return (int64_t)value;
    }
    return without;
}

bool field_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

size_t field_count(const json_t *object, const char *name)
{
    return json_array_size(json_object_get(object, name));
}

const json_t *field_item(const json_t *object, const char *name, size_t index)
{
    return json_array_get(json_object_get(object, name), index);
}
