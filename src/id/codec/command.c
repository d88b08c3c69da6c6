/*
 * command.c - the bytes of commands: written by their proposers, taken apart for the state machine.
 *
 * The happy path: encode into an empty buffer; on the other side the read function of the type
 * reads every field, walks through all items and requires that nothing is left over.
 *
 * Failure modes: reading gives ERR_BAD_MESSAGE. Only the form counts here; what the values may be
 * is the state machine's to judge. Encoding cannot fail; what is too long for its field is the
 * caller's mistake (ASSERT). Thread: pure functions, any.
 */
#include "src/id/codec/command.h"

#include <string.h>

#include "src/base/assert.h"

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

/* --- segments granted --- */

static const struct field GRANT_FIELDS[] = {
    FIELD_STRING(struct grant_item, name),
    FIELD_NUMBER(struct grant_item, size),
};
static const struct command_items GRANTS = {FIELDS(GRANT_FIELDS), sizeof(struct grant_item), NULL};

void command_grant_begin(struct buf *buf, uint64_t wall_ms)
{
    command_head_put(buf, COMMAND_GRANT);
    buf_put_u64(buf, wall_ms);
}

void command_grant_add(struct buf *buf, const struct grant_item *item)
{
    command_item_put(buf, &GRANTS, item);
}

int grant_command_read(const void *data, size_t len, struct grant_command *ret_command)
{
    struct reader reader;

    if (!command_head_read(&reader, data, len, COMMAND_GRANT)) {
        return ERR_BAD_MESSAGE;
    }
    ret_command->wall_ms = reader_u64(&reader);
    return command_items_read(&reader, &GRANTS, LIMIT_GRANTS_PER_ENTRY, &ret_command->items,
                              &ret_command->count);
}

bool grant_command_next(struct grant_command *command, struct grant_item *ret_item)
{
    return command_item_next(&command->items, &GRANTS, ret_item);
}

/* --- tags made and changed: an item has only those fields that were given --- */

void command_put_begin(struct buf *buf, bool force, uint64_t wall_ms)
{
    command_head_put(buf, COMMAND_TAGS_PUT);
    buf_put_u8(buf, force ? COMMAND_PUT_FORCE : 0);
    buf_put_u64(buf, wall_ms);
}

void command_put_add(struct buf *buf, const struct tag_put *put)
{
    ASSERT((put->fields & ~COMMAND_TAG_FIELDS) == 0);
    buf_put_u8(buf, COMMAND_ITEM);
    buf_put_str16(buf, put->name, put->name_len);
    buf_put_u8(buf, put->fields);
    if (put->fields & TAG_FIELD_MAX_ID) {
        buf_put_u64(buf, put->max_id);
    }
    if (put->fields & TAG_FIELD_STEP) {
        buf_put_u32(buf, put->step);
    }
    if (put->fields & TAG_FIELD_MAX_STEP) {
        buf_put_u32(buf, put->max_step);
    }
    if (put->fields & TAG_FIELD_MODE) {
        buf_put_u8(buf, put->mode);
    }
    if (put->fields & TAG_FIELD_DESCRIPTION) {
        buf_put_str16(buf, put->description, put->description_len);
    }
}

static bool read_put(struct reader *reader, struct tag_put *ret_put)
{
    struct tag_put put = {0};
    size_t len;
    uint8_t mark = reader_u8(reader);

    if (reader->bad || mark == COMMAND_END) {
        return false;
    }
    put.name = (const char *)reader_str16(reader, &len);
    put.name_len = (uint16_t)len;
    put.fields = reader_u8(reader);
    if (mark != COMMAND_ITEM || (put.fields & ~COMMAND_TAG_FIELDS) != 0) {
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

/* --- commands that are all fields --- */

static const struct field DELETE_FIELDS[] = {
    FIELD_NUMBER(struct delete_command, wall_ms),
    FIELD_STRING(struct delete_command, name),
};
static const struct fields DELETE = FIELDS(DELETE_FIELDS);

static const struct field DIGEST_FIELDS[] = {
    FIELD_NUMBER(struct digest_command, index),
    FIELD_NUMBER(struct digest_command, digest),
};
static const struct fields DIGEST = FIELDS(DIGEST_FIELDS);

static const struct fields NOTHING = {NULL, 0};

void command_delete_encode(struct buf *buf, const char *name, size_t name_len, uint64_t wall_ms)
{
    struct delete_command command = {name, (uint16_t)name_len, wall_ms};

    ASSERT(name_len <= UINT16_MAX);
    command_fields_put(buf, COMMAND_TAG_DELETE, &DELETE, &command);
}

int delete_command_read(const void *data, size_t len, struct delete_command *ret_command)
{
    return command_fields_read(data, len, COMMAND_TAG_DELETE, &DELETE, ret_command);
}

void command_digest_encode(struct buf *buf, uint64_t index, uint64_t digest)
{
    command_fields_put(buf, COMMAND_DIGEST, &DIGEST, &(struct digest_command){index, digest});
}

int digest_command_read(const void *data, size_t len, struct digest_command *ret_command)
{
    return command_fields_read(data, len, COMMAND_DIGEST, &DIGEST, ret_command);
}

void command_noop_encode(struct buf *buf)
{
    command_fields_put(buf, COMMAND_NOOP, &NOTHING, NULL);
}

int noop_command_read(const void *data, size_t len)
{
    return command_fields_read(data, len, COMMAND_NOOP, &NOTHING, NULL);
}

/* --- nodes: the command, and the row --- */

#define NODE_ROW_VERSION 1

static const struct field NODE_INFO_FIELDS[] = {
    FIELD_NUMBER(struct node_info, node_id), /* in a row it stands in the key */
    FIELD_NUMBER(struct node_info, store_id),
    FIELD_TEXT(struct node_info, http_address),
    FIELD_TEXT(struct node_info, version),
};
static const struct fields NODE_INFO = FIELDS(NODE_INFO_FIELDS);
static const struct fields NODE_ROW = {NODE_INFO_FIELDS + 1,
                                       sizeof NODE_INFO_FIELDS / sizeof *NODE_INFO_FIELDS - 1};

static bool node_info_is_sound(const struct node_info *info)
{
    return info->node_id >= 1 && info->node_id <= LIMIT_NODE_ID &&
           tag_text_check(info->http_address, strlen(info->http_address), false) == 0 &&
           tag_text_check(info->version, strlen(info->version), false) == 0;
}

void command_node_info_encode(struct buf *buf, const struct node_info *info)
{
    command_fields_put(buf, COMMAND_NODE_INFO, &NODE_INFO, info);
}

int node_info_command_read(const void *data, size_t len, struct node_info *ret_info)
{
    int err = command_fields_read(data, len, COMMAND_NODE_INFO, &NODE_INFO, ret_info);

    return err == 0 && !node_info_is_sound(ret_info) ? ERR_BAD_MESSAGE : err;
}

void node_info_row_encode(const struct node_info *info, struct buf *buf)
{
    ASSERT(node_info_is_sound(info));
    buf_put_u8(buf, NODE_ROW_VERSION);
    fields_put(buf, &NODE_ROW, info);
}

int node_info_row_decode(uint64_t node_id, const void *value, size_t len,
                         struct node_info *ret_info)
{
    struct node_info info = {.node_id = node_id};
    int err = fields_row_read(value, len, NODE_ROW_VERSION, &NODE_ROW, &info);

    if (err != 0 || !node_info_is_sound(&info)) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    *ret_info = info;
    return 0;
}
