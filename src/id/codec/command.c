/*
 * command.c - see command.h: the bytes of commands, queries and results, except for the commands'
 * reading side, which is command_read.c.
 *
 * The happy path: a proposer writes a command with the encode functions into an empty buffer, the
 * state machine's result comes back and is read with the decode functions.
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE and leaves nothing to release. Encoding cannot
 * fail; what is too long for its field is the caller's mistake (ASSERT). Thread: pure functions,
 * any.
 */
#include "src/id/codec/command.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

static void put_row(struct buf *buf, const struct tag_row *row);
static int read_row(struct reader *reader, struct tag_row *ret_row);
static void put_status(struct buf *buf, int32_t status);
static int32_t read_status(struct reader *reader);

/* --- commands --- */

void command_grant_begin(struct buf *buf, uint64_t wall_ms)
{
    command_head_put(buf, COMMAND_GRANT);
    buf_put_u64(buf, wall_ms);
}

void command_grant_add(struct buf *buf, const struct grant_item *item)
{
    buf_put_u8(buf, COMMAND_ITEM);
    buf_put_str16(buf, item->name, item->name_len);
    buf_put_u32(buf, item->size);
}

void command_grant_end(struct buf *buf)
{
    buf_put_u8(buf, COMMAND_END);
}

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

void command_put_end(struct buf *buf)
{
    buf_put_u8(buf, COMMAND_END);
}

void command_delete_encode(struct buf *buf, const char *name, size_t name_len, uint64_t wall_ms)
{
    command_head_put(buf, COMMAND_TAG_DELETE);
    buf_put_u64(buf, wall_ms);
    buf_put_str16(buf, name, name_len);
}

void command_node_info_encode(struct buf *buf, const struct node_info *info)
{
    size_t address_len = strnlen(info->http_address, sizeof info->http_address);
    size_t version_len = strnlen(info->version, sizeof info->version);

    ASSERT(address_len < sizeof info->http_address);
    ASSERT(version_len < sizeof info->version);
    command_head_put(buf, COMMAND_NODE_INFO);
    buf_put_u64(buf, info->node_id);
    buf_put_u64(buf, info->store_id);
    buf_put_str16(buf, info->http_address, address_len);
    buf_put_str16(buf, info->version, version_len);
}

void command_noop_encode(struct buf *buf)
{
    command_head_put(buf, COMMAND_NOOP);
}

void command_digest_encode(struct buf *buf, uint64_t index, uint64_t digest)
{
    command_head_put(buf, COMMAND_DIGEST);
    buf_put_u64(buf, index);
    buf_put_u64(buf, digest);
}

/* --- queries --- */

void query_get_encode(struct buf *buf, const char *name, size_t name_len)
{
    message_head_put(buf, QUERY_BASE + QUERY_TAG_GET);
    buf_put_str16(buf, name, name_len);
}

void query_list_encode(struct buf *buf, const char *prefix, size_t prefix_len, const char *after,
                       size_t after_len, uint32_t limit)
{
    message_head_put(buf, QUERY_BASE + QUERY_TAG_LIST);
    buf_put_str16(buf, prefix, prefix_len);
    buf_put_str16(buf, after, after_len);
    buf_put_u32(buf, limit);
}

int query_decode(const void *data, size_t len, struct query *ret_query)
{
    struct reader reader;
    struct query query = {0};

    if (message_head_read(&reader, data, len, QUERY_BASE + QUERY_TAG_GET)) {
        query.type = QUERY_TAG_GET;
        query.name = (const char *)reader_str16(&reader, &query.name_len);
    } else if (message_head_read(&reader, data, len, QUERY_BASE + QUERY_TAG_LIST)) {
        query.type = QUERY_TAG_LIST;
        query.name = (const char *)reader_str16(&reader, &query.name_len);
        query.after = (const char *)reader_str16(&reader, &query.after_len);
        query.limit = reader_u32(&reader);
        if (query.limit < 1 || query.limit > LIMIT_TAGS_PER_PAGE) {
            return ERR_BAD_MESSAGE;
        }
    } else if (message_head_read(&reader, data, len, QUERY_BASE + QUERY_WORKERS)) {
        query.type = QUERY_WORKERS;
        query.first = reader_u16(&reader);
        query.limit = reader_u16(&reader);
        if (query.limit < 1 || query.limit > LIMIT_WORKER_IDS) {
            return ERR_BAD_MESSAGE;
        }
    } else {
        return ERR_BAD_MESSAGE;
    }
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_query = query;
    return 0;
}

/* --- results --- */

void grant_results_encode(const struct grant_result *results, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_GRANTS_PER_ENTRY);
    message_head_put(buf, RESULT_GRANTS);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const struct grant_result *result = &results[i];

        ASSERT_IMPLIES(result->status == 0, result->size > 0);
        put_status(buf, result->status);
        buf_put_u32(buf, result->size);
        buf_put_u64(buf, result->first);
        buf_put_u32(buf, result->generation);
        buf_put_u32(buf, result->step);
        buf_put_u32(buf, result->max_step);
    }
}

int grant_results_decode(const void *data, size_t len, struct grant_result *ret_results, size_t max,
                         size_t *ret_count)
{
    struct reader reader;
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_GRANTS)) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u32(&reader);
    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct grant_result *result = &ret_results[i];

        result->status = read_status(&reader);
        result->size = reader_u32(&reader);
        result->first = reader_u64(&reader);
        result->generation = reader_u32(&reader);
        result->step = reader_u32(&reader);
        result->max_step = reader_u32(&reader);
        if (reader.bad || (result->status == 0) != (result->size > 0)) {
            return ERR_BAD_MESSAGE;
        }
    }
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_count = count;
    return 0;
}

void put_result_encode(const struct put_result *result, struct buf *buf)
{
    size_t why_len = strnlen(result->why, sizeof result->why);

    ASSERT(why_len < sizeof result->why);
    message_head_put(buf, RESULT_PUT);
    put_status(buf, result->status);
    buf_put_u32(buf, result->failed_at);
    buf_put_u32(buf, result->made);
    buf_put_u32(buf, result->changed);
    buf_put_u64(buf, result->max_id);
    buf_put_u64(buf, result->asked);
    buf_put_str16(buf, result->why, why_len);
    if (result->status == 0) {
        put_row(buf, &result->first);
    }
}

int put_result_decode(const void *data, size_t len, struct put_result *ret_result)
{
    struct reader reader;
    struct put_result result = {0};
    const uint8_t *why;
    size_t why_len;

    if (!message_head_read(&reader, data, len, RESULT_PUT)) {
        return ERR_BAD_MESSAGE;
    }
    result.status = read_status(&reader);
    result.failed_at = reader_u32(&reader);
    result.made = reader_u32(&reader);
    result.changed = reader_u32(&reader);
    result.max_id = reader_u64(&reader);
    result.asked = reader_u64(&reader);
    why = reader_str16(&reader, &why_len);
    if (reader.bad || why_len >= sizeof result.why) {
        return ERR_BAD_MESSAGE;
    }
    memcpy(result.why, why, why_len);
    if (result.status == 0 && read_row(&reader, &result.first) != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (!reader_done(&reader)) {
        put_result_release(&result);
        return ERR_BAD_MESSAGE;
    }
    *ret_result = result;
    return 0;
}

void put_result_release(struct put_result *result)
{
    tag_row_release(&result->first);
}

void status_result_encode(int32_t status, struct buf *buf)
{
    message_head_put(buf, RESULT_STATUS);
    put_status(buf, status);
}

int status_result_decode(const void *data, size_t len, int32_t *ret_status)
{
    struct reader reader;
    int32_t status;

    if (!message_head_read(&reader, data, len, RESULT_STATUS)) {
        return ERR_BAD_MESSAGE;
    }
    status = read_status(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_status = status;
    return 0;
}

void tag_rows_encode(const struct tag_row *const *rows, size_t count, const struct tag_row *next,
                     struct buf *buf)
{
    ASSERT(count <= LIMIT_TAGS_PER_PAGE);
    message_head_put(buf, RESULT_ROWS);
    buf_put_u16(buf, next != NULL ? next->name_len : 0);
    if (next != NULL) {
        buf_put(buf, next->name, next->name_len);
    }
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        put_row(buf, rows[i]);
    }
}

int tag_rows_decode(const void *data, size_t len, struct tag_rows *ret_rows)
{
    struct reader reader;
    struct tag_rows rows = {0};
    const uint8_t *next;
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_ROWS)) {
        return ERR_BAD_MESSAGE;
    }
    rows.next_len = reader_u16(&reader);
    if (reader.bad || rows.next_len > sizeof rows.next) {
        return ERR_BAD_MESSAGE;
    }
    next = reader_bytes(&reader, rows.next_len);
    count = reader_u32(&reader);
    if (reader.bad || count > LIMIT_TAGS_PER_PAGE) {
        return ERR_BAD_MESSAGE;
    }
    memcpy(rows.next, next, rows.next_len);
    rows.rows = calloc(count > 0 ? count : 1, sizeof *rows.rows);
    ASSERT(rows.rows != NULL);
    while (rows.count < count && read_row(&reader, &rows.rows[rows.count]) == 0) {
        rows.count++;
    }
    if (rows.count < count || !reader_done(&reader)) {
        tag_rows_release(&rows);
        return ERR_BAD_MESSAGE;
    }
    *ret_rows = rows;
    return 0;
}

void tag_rows_release(struct tag_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        tag_row_release(&rows->rows[i]);
    }
    free(rows->rows);
    *rows = (struct tag_rows){0};
}

/* A row on its way: the name, and the bytes that storage keeps as its value. */
static void put_row(struct buf *buf, const struct tag_row *row)
{
    size_t len_at;

    buf_put_str16(buf, row->name, row->name_len);
    len_at = buf->len;
    buf_put_u32(buf, 0);
    tag_row_encode(row, buf);
    buf_set_u32(buf, len_at, (uint32_t)(buf->len - len_at - 4));
}

static int read_row(struct reader *reader, struct tag_row *ret_row)
{
    size_t name_len;
    size_t value_len;
    const uint8_t *name = reader_str16(reader, &name_len);
    const uint8_t *value = reader_str32(reader, &value_len);

    if (reader->bad) {
        return ERR_BAD_MESSAGE;
    }
    return tag_row_decode((const char *)name, name_len, value, value_len, ret_row);
}

static void put_status(struct buf *buf, int32_t status)
{
    ASSERT(status <= 0);
    buf_put_u32(buf, (uint32_t)status);
}

static int32_t read_status(struct reader *reader)
{
    return (int32_t)reader_u32(reader);
}
