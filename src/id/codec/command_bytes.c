/*
 * command_bytes.c - see command_bytes.h.
 */
#include "src/id/codec/command_bytes.h"

void command_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record)
{
    command_head_put(buf, type);
    fields_put(buf, fields, record);
}

int command_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                        void *record)
{
    struct reader reader;

    return command_head_read(&reader, data, len, type) && fields_read(&reader, fields, record) &&
                   reader_done(&reader)
               ? 0
               : ERR_BAD_MESSAGE;
}

void command_item_put(struct buf *buf, const struct command_items *items, const void *item)
{
    ASSERT(items->is_sound == NULL || items->is_sound(item));
    buf_put_u8(buf, COMMAND_ITEM);
    fields_put(buf, &items->fields, item);
}

bool command_item_next(struct reader *reader, const struct command_items *items, void *ret_item)
{
    uint8_t mark = reader_u8(reader);

    if (reader->bad || mark == COMMAND_END) {
        return false;
    }
    if (mark != COMMAND_ITEM || !fields_read(reader, &items->fields, ret_item) ||
        (items->is_sound != NULL && !items->is_sound(ret_item))) {
        reader->bad = true;
    }
    return !reader->bad;
}

int command_items_read(struct reader *reader, const struct command_items *items, uint32_t max,
                       struct reader *ret_first, uint32_t *ret_count)
{
    _Alignas(max_align_t) unsigned char item[COMMAND_ITEM_SIZE_MAX];

    ASSERT(items->size <= sizeof item);
    *ret_first = *reader;
    *ret_count = 0;
    while (command_item_next(reader, items, item)) {
        (*ret_count)++;
    }
    return reader_done(reader) && *ret_count >= 1 && *ret_count <= max ? 0 : ERR_BAD_MESSAGE;
}
