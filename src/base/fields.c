/*
 * fields.c - see fields.h.
 */
#include "src/base/fields.h"

void fields_put(struct buf *buf, const struct fields *fields, const void *record)
{
    if (fields->put != NULL) {
        fields->put(buf, record);
        return;
    }
    for (size_t i = 0; i < fields->count; i++) {
        field_put(buf, &fields->items[i], record);
    }
}

bool fields_read(struct reader *reader, const struct fields *fields, void *record)
{
    struct reader at; /* a local copy: no member can alias it, so it stays in registers */
    bool fits = true;

    if (fields->read != NULL) {
        return fields->read(reader, record);
    }
    at = *reader;
    for (size_t i = 0; i < fields->count; i++) {
        fits = field_read(&at, &fields->items[i], record) && fits;
    }
    *reader = at;
    return fits && !at.bad;
}

void row_put(struct buf *buf, const struct row_format *format, const void *record)
{
    ASSERT(format->is_sound == NULL || format->is_sound(record));
    buf_put_u8(buf, format->version);
    fields_put(buf, &format->fields, record);
}

bool row_same(const struct row_format *format, const void *record, const void *other)
{
    BUF_LOCAL(value);
    BUF_LOCAL(of_other);

    fields_put(&value, &format->fields, record);
    fields_put(&of_other, &format->fields, other);
    return value.len == of_other.len && memcmp(value.data, of_other.data, value.len) == 0;
}

int row_read(const void *value, size_t len, const struct row_format *format, void *record)
{
    struct reader reader;
    bool fits;

    reader_init(&reader, value, len);
    if (len > 0 && reader_u8(&reader) != format->version) {
        return ERR_BAD_VERSION;
    }
    fits = fields_read(&reader, &format->fields, record);
    if (reader.bad || len == 0) {
        return ERR_TRUNCATED;
    }
    return fits && reader_done(&reader) && (format->is_sound == NULL || format->is_sound(record))
               ? 0
               : ERR_CORRUPT;
}
