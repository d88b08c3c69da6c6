/*
 * fields.c - see fields.h.
 */
#include "src/id/codec/fields.h"

#include <string.h>

#include "src/base/assert.h"

static uint64_t number_of(const void *member, size_t size)
{
    switch (size) {
    case 1:
        return *(const uint8_t *)member;
    case 2:
        return *(const uint16_t *)member;
    case 4:
        return *(const uint32_t *)member;
    default:
        ASSERT(size == 8);
        return *(const uint64_t *)member;
    }
}

static void number_put(struct buf *buf, const void *member, size_t size)
{
    switch (size) {
    case 1:
        buf_put_u8(buf, *(const uint8_t *)member);
        break;
    case 2:
        buf_put_u16(buf, *(const uint16_t *)member);
        break;
    case 4:
        buf_put_u32(buf, *(const uint32_t *)member);
        break;
    default:
        ASSERT(size == 8);
        buf_put_u64(buf, *(const uint64_t *)member);
        break;
    }
}

static void number_read(struct reader *reader, void *member, size_t size)
{
    switch (size) {
    case 1:
        *(uint8_t *)member = reader_u8(reader);
        break;
    case 2:
        *(uint16_t *)member = reader_u16(reader);
        break;
    case 4:
        *(uint32_t *)member = reader_u32(reader);
        break;
    default:
        ASSERT(size == 8);
        *(uint64_t *)member = reader_u64(reader);
        break;
    }
}

void fields_put(struct buf *buf, const struct fields *fields, const void *record)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];
        const char *member = (const char *)record + field->at;
        const char *len_at = (const char *)record + field->len_at;

        switch (field->kind) {
        case FIELD_KIND_NUMBER:
            number_put(buf, member, field->size);
            break;
        case FIELD_KIND_SHORT:
            buf_put_u16(buf, (uint16_t)number_of(member, 8));
            break;
        case FIELD_KIND_BYTES:
            buf_put_str32(buf, *(const uint8_t *const *)(const void *)member,
                          number_of(len_at, sizeof(size_t)));
            break;
        case FIELD_KIND_BOOL:
            buf_put_u8(buf, *(const bool *)(const void *)member);
            break;
        case FIELD_KIND_STRING:
            buf_put_str16(buf, *(const char *const *)(const void *)member, number_of(len_at, 2));
            break;
        case FIELD_KIND_TEXT:
            ASSERT(strnlen(member, field->size) < field->size);
            buf_put_str16(buf, member, strlen(member));
            break;
        case FIELD_KIND_CHARS:
            ASSERT(number_of(len_at, 2) < field->size);
            buf_put_str16(buf, member, number_of(len_at, 2));
            break;
        }
    }
}

/* Into a member of zeros. */
static bool chars_read(struct reader *reader, const struct field *field, char *member,
                       size_t *ret_len)
{
    const uint8_t *text = reader_str16(reader, ret_len);

    if (text == NULL || *ret_len >= field->size) {
        return false;
    }
    memcpy(member, text, *ret_len);
    member[*ret_len] = '\0';
    return true;
}

static bool field_read(struct reader *reader, const struct field *field, char *record)
{
    char *member = record + field->at;
    uint16_t *ret_len = (uint16_t *)(void *)(record + field->len_at);
    uint8_t byte;
    size_t len;

    switch (field->kind) {
    case FIELD_KIND_NUMBER:
        number_read(reader, member, field->size);
        return true;
    case FIELD_KIND_SHORT:
        *(uint64_t *)(void *)member = reader_u16(reader);
        return true;
    case FIELD_KIND_BYTES:
        *(const uint8_t **)(void *)member = reader_str32(reader, &len);
        *(size_t *)(void *)(record + field->len_at) = len;
        return true;
    case FIELD_KIND_BOOL:
        byte = reader_u8(reader);
        *(bool *)(void *)member = byte == 1;
        return byte <= 1;
    case FIELD_KIND_STRING:
        *(const char **)(void *)member = (const char *)reader_str16(reader, &len);
        *ret_len = (uint16_t)len;
        return true;
    case FIELD_KIND_TEXT:
        return chars_read(reader, field, member, &len) && strlen(member) == len;
    case FIELD_KIND_CHARS:
        if (!chars_read(reader, field, member, &len)) {
            return false;
        }
        *ret_len = (uint16_t)len;
        return true;
    }
    UNREACHABLE("a kind of field");
}

bool fields_read(struct reader *reader, const struct fields *fields, void *record)
{
    bool fits = true;

    for (size_t i = 0; i < fields->count; i++) {
        fits = field_read(reader, &fields->items[i], record) && fits;
    }
    return fits && !reader->bad;
}

void row_put(struct buf *buf, const struct row_format *format, const void *record)
{
    ASSERT(format->is_sound == NULL || format->is_sound(record));
    buf_put_u8(buf, format->version);
    fields_put(buf, &format->fields, record);
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
