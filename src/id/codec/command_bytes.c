/*
 * command_bytes.c - see command_bytes.h.
 */
#include "src/id/codec/command_bytes.h"

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
