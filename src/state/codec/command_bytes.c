/*
 * command_bytes.c - see command_bytes.h.
 */
#include "src/state/codec/command_bytes.h"

#include <stdlib.h>

int command_number(const void *data, size_t len)
{
    struct reader reader;
    uint8_t version;
    uint8_t type;

    reader_init(&reader, data, len);
    version = reader_u8(&reader);
    type = reader_u8(&reader);
    if (reader.bad) {
        return ERR_BAD_MESSAGE;
    }
    return version == COMMAND_VERSION ? type : ERR_NEWER;
}

void command_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record)
{
    static const uint8_t NO_STAMP[SESSION_STAMP_BYTES];

    ASSERT(type > 0 && type < QUERY_BASE && buf->len == 0);
    buf_put_u8(buf, COMMAND_VERSION);
    buf_put_u8(buf, (uint8_t)type);
    buf_put(buf, NO_STAMP, sizeof NO_STAMP);
    fields_put(buf, fields, record);
}

int command_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                        void *record)
{
    struct reader reader;

    reader_init(&reader, data, len);
    return reader_u8(&reader) == COMMAND_VERSION && reader_u8(&reader) == type &&
                   reader_bytes(&reader, SESSION_STAMP_BYTES) != NULL &&
                   fields_read(&reader, fields, record) && reader_done(&reader)
               ? 0
               : ERR_BAD_MESSAGE;
}

void message_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record)
{
    message_head_put(buf, type);
    fields_put(buf, fields, record);
}

bool message_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                         void *record)
{
    struct reader reader;

    return message_head_read(&reader, data, len, type) && fields_read(&reader, fields, record) &&
           reader_done(&reader);
}

void message_items_put(struct buf *buf, const struct item_format *format, const void *items,
                       size_t count)
{
    const char *item = items;

    ASSERT(count <= format->max);
    buf_reserve(buf, sizeof(uint32_t) + count * format->size); /* all, but for long strings */
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++, item += format->size) {
        ASSERT(format->is_sound == NULL || format->is_sound(item));
        fields_put(buf, &format->fields, item);
    }
}

/* Items behind their number. */
static int items_read(struct reader *reader, const struct item_format *format, char *item,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, item += format->size) {
        if (!fields_read(reader, &format->fields, item) ||
            (format->is_sound != NULL && !format->is_sound(item))) {
            return ERR_BAD_MESSAGE;
        }
    }
    return reader_done(reader) ? 0 : ERR_BAD_MESSAGE;
}

int message_items_read(struct reader *reader, const struct item_format *format, void *ret_items,
                       size_t max, size_t *ret_count)
{
    uint32_t count = reader_u32(reader);

    if (count > max || items_read(reader, format, ret_items, count) != 0) {
        return ERR_BAD_MESSAGE;
    }
    *ret_count = count;
    return 0;
}

void *message_items_read_all(struct reader *reader, const struct item_format *format,
                             size_t *ret_count)
{
    uint32_t count = reader_u32(reader);
    void *items;

    if (count > format->max) {
        return NULL;
    }
    items = MUST_HAVE(calloc(count > 0 ? count : 1, format->size));
    if (items_read(reader, format, items, count) != 0) {
        free(items);
        return NULL;
    }
    *ret_count = count;
    return items;
}

static const struct field STATUS_FIELDS[] = {{FIELD_KIND_U32, 0, sizeof(int32_t), 0}};
static const struct fields STATUS = FIELDS(STATUS_FIELDS);

void status_result_encode(int32_t status, struct buf *buf)
{
    ASSERT(status <= 0);
    message_fields_put(buf, RESULT_STATUS, &STATUS, &status);
}

int status_result_decode(const void *data, size_t len, int32_t *ret_status)
{
    return message_fields_read(data, len, RESULT_STATUS, &STATUS, ret_status) ? 0 : ERR_BAD_MESSAGE;
}
