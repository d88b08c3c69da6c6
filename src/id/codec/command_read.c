/*
 * command_read.c - see command_read.h: the reading side of commands.
 *
 * The happy path: each read function checks the head, reads the fields, walks through all items and
 * requires that nothing is left over; then it goes back to the first item.
 *
 * Failure modes: ERR_BAD_MESSAGE. Thread: pure functions, any.
 */
#include "src/id/codec/command_read.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command_bytes.h"

#define NODE_ROW_VERSION 1

static bool read_grant(struct reader *reader, struct grant_item *ret_item);
static bool read_put(struct reader *reader, struct tag_put *ret_put);
static bool read_text(struct reader *reader, char *ret_text, size_t size);

int command_type(const void *data, size_t len)
{
    struct reader reader;
    uint8_t version;
    uint8_t type;

    reader_init(&reader, data, len);
    version = reader_u8(&reader);
    type = reader_u8(&reader);
    if (reader.bad || version != COMMAND_VERSION || type < COMMAND_NOOP ||
        type > COMMAND_MEMBER_END || (type > COMMAND_RECALLED && type < COMMAND_MEMBER_BEGIN)) {
        return ERR_BAD_MESSAGE;
    }
    return type;
}

int grant_command_read(const void *data, size_t len, struct grant_command *ret_command)
{
    struct reader reader;
    struct grant_command command = {0};
    struct grant_item item;

    if (!command_head_read(&reader, data, len, COMMAND_GRANT)) {
        return ERR_BAD_MESSAGE;
    }
    command.wall_ms = reader_u64(&reader);
    command.items = reader;
    while (read_grant(&reader, &item)) {
        command.count++;
    }
    if (!reader_done(&reader) || command.count < 1 || command.count > LIMIT_GRANTS_PER_ENTRY) {
        return ERR_BAD_MESSAGE;
    }
    *ret_command = command;
    return 0;
}

bool grant_command_next(struct grant_command *command, struct grant_item *ret_item)
{
    return read_grant(&command->items, ret_item);
}

int put_command_read(const void *data, size_t len, struct put_command *ret_command)
{
    struct reader reader;
    struct put_command command = {0};
    struct tag_put put;
    uint8_t flags;

    if (!command_head_read(&reader, data, len, COMMAND_TAGS_PUT)) {
        return ERR_BAD_MESSAGE;
    }
    flags = reader_u8(&reader);
    command.wall_ms = reader_u64(&reader);
    command.items = reader;
    while (read_put(&reader, &put)) {
        command.count++;
    }
    if (!reader_done(&reader) || (flags & ~COMMAND_PUT_FORCE) != 0) {
        return ERR_BAD_MESSAGE;
    }
    command.force = (flags & COMMAND_PUT_FORCE) != 0;
    *ret_command = command;
    return 0;
}

bool put_command_next(struct put_command *command, struct tag_put *ret_put)
{
    return read_put(&command->items, ret_put);
}

int delete_command_read(const void *data, size_t len, struct delete_command *ret_command)
{
    struct reader reader;
    struct delete_command command = {0};

    if (!command_head_read(&reader, data, len, COMMAND_TAG_DELETE)) {
        return ERR_BAD_MESSAGE;
    }
    command.wall_ms = reader_u64(&reader);
    command.name = (const char *)reader_str16(&reader, &command.name_len);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_command = command;
    return 0;
}

int digest_command_read(const void *data, size_t len, struct digest_command *ret_command)
{
    struct reader reader;
    struct digest_command command = {0};

    if (!command_head_read(&reader, data, len, COMMAND_DIGEST)) {
        return ERR_BAD_MESSAGE;
    }
    command.index = reader_u64(&reader);
    command.digest = reader_u64(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_command = command;
    return 0;
}

int noop_command_read(const void *data, size_t len)
{
    struct reader reader;

    if (!command_head_read(&reader, data, len, COMMAND_NOOP) || !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    return 0;
}

int node_info_command_read(const void *data, size_t len, struct node_info *ret_info)
{
    struct reader reader;
    struct node_info info = {0};

    if (!command_head_read(&reader, data, len, COMMAND_NODE_INFO)) {
        return ERR_BAD_MESSAGE;
    }
    info.node_id = reader_u64(&reader);
    info.store_id = reader_u64(&reader);
    if (!read_text(&reader, info.http_address, sizeof info.http_address) ||
        !read_text(&reader, info.version, sizeof info.version) || !reader_done(&reader) ||
        info.node_id < 1 || info.node_id > LIMIT_NODE_ID) {
        return ERR_BAD_MESSAGE;
    }
    *ret_info = info;
    return 0;
}

void node_info_row_encode(const struct node_info *info, struct buf *buf)
{
    buf_put_u8(buf, NODE_ROW_VERSION);
    buf_put_u64(buf, info->store_id);
    buf_put_str16(buf, info->http_address, strnlen(info->http_address, LIMIT_ADDRESS_BYTES));
    buf_put_str16(buf, info->version, strnlen(info->version, sizeof info->version - 1));
}

int node_info_row_decode(uint64_t node_id, const void *value, size_t len,
                         struct node_info *ret_info)
{
    struct reader reader;
    struct node_info info = {0};
    bool fits;

    reader_init(&reader, value, len);
    if (len > 0 && reader_u8(&reader) != NODE_ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    info.node_id = node_id;
    info.store_id = reader_u64(&reader);
    fits = read_text(&reader, info.http_address, sizeof info.http_address) &&
           read_text(&reader, info.version, sizeof info.version);
    if (reader.bad) {
        return ERR_TRUNCATED;
    }
    if (!fits || !reader_done(&reader) || node_id < 1 || node_id > LIMIT_NODE_ID) {
        return ERR_CORRUPT;
    }
    *ret_info = info;
    return 0;
}

static bool read_grant(struct reader *reader, struct grant_item *ret_item)
{
    size_t name_len;

    if (!command_item_begins(reader)) {
        return false;
    }
    ret_item->name = (const char *)reader_str16(reader, &name_len);
    ret_item->name_len = (uint16_t)name_len;
    ret_item->size = reader_u32(reader);
    return !reader->bad;
}

static bool read_put(struct reader *reader, struct tag_put *ret_put)
{
    struct tag_put put = {0};
    size_t len;

    if (!command_item_begins(reader)) {
        return false;
    }
    put.name = (const char *)reader_str16(reader, &len);
    put.name_len = (uint16_t)len;
    put.fields = reader_u8(reader);
    if ((put.fields & ~COMMAND_TAG_FIELDS) != 0) {
        reader->bad = true;
    }
    if (put.fields & TAG_FIELD_MAX_ID) {
        put.max_id = reader_u64(reader);
    }
    if (put.fields & TAG_FIELD_STEP) {
        put.step = reader_u32(reader);
    }
    if (put.fields & TAG_FIELD_MAX_STEP) {
        put.max_step = reader_u32(reader);
    }
    if (put.fields & TAG_FIELD_MODE) {
        put.mode = reader_u8(reader);
    }
    if (put.fields & TAG_FIELD_DESCRIPTION) {
        put.description = (const char *)reader_str16(reader, &len);
        put.description_len = (uint16_t)len;
    }
    if (reader->bad) {
        return false;
    }
    *ret_put = put;
    return true;
}

/* A short text into a zeroed array of size bytes, with its NUL; false if it does not fit or is not
 * plain UTF-8. */
static bool read_text(struct reader *reader, char *ret_text, size_t size)
{
    size_t len;
    const uint8_t *text = reader_str16(reader, &len);

    if (text == NULL || len >= size || tag_text_check((const char *)text, len, false) != 0) {
        return false;
    }
    memcpy(ret_text, text, len);
    return true;
}
