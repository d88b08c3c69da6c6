/*
 * result.c - the bytes of queries, and of what commands and queries are answered (command.h;
 * answers on worker ids: worker.c).
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE and leaves nothing to release. Encoding cannot
 * fail; what is too long for its field is the caller's mistake (ASSERT). Thread: pure functions,
 * any.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/codec/strict_command.h"

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

static const struct field GRANT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct grant_result, status), FIELD_NUMBER(struct grant_result, size),
    FIELD_NUMBER(struct grant_result, first),  FIELD_NUMBER(struct grant_result, generation),
    FIELD_NUMBER(struct grant_result, step),   FIELD_NUMBER(struct grant_result, max_step),
};
static const struct fields GRANT_RESULT = FIELDS(GRANT_RESULT_FIELDS);

static const struct field PUT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct put_result, status), FIELD_NUMBER(struct put_result, failed_at),
    FIELD_NUMBER(struct put_result, made),   FIELD_NUMBER(struct put_result, changed),
    FIELD_NUMBER(struct put_result, max_id), FIELD_NUMBER(struct put_result, asked),
    FIELD_TEXT(struct put_result, why),
};
static const struct fields PUT_RESULT = FIELDS(PUT_RESULT_FIELDS);

void grant_results_encode(const struct grant_result *results, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_GRANTS_PER_ENTRY);
    message_head_put(buf, RESULT_GRANTS);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(results[i].status <= 0);
        fields_put(buf, &GRANT_RESULT, &results[i]);
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
        if (!fields_read(&reader, &GRANT_RESULT, &ret_results[i]) ||
            (ret_results[i].status == 0) != (ret_results[i].size > 0)) {
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
    ASSERT(result->status <= 0);
    message_head_put(buf, RESULT_PUT);
    fields_put(buf, &PUT_RESULT, result);
    if (result->status == 0) {
        put_row(buf, &result->first);
    }
}

int put_result_decode(const void *data, size_t len, struct put_result *ret_result)
{
    struct reader reader;
    struct put_result result = {0};

    if (!message_head_read(&reader, data, len, RESULT_PUT) ||
        !fields_read(&reader, &PUT_RESULT, &result)) {
        return ERR_BAD_MESSAGE;
    }
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

void statuses_encode(const int32_t *statuses, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_GRANTS_PER_ENTRY);
    message_head_put(buf, RESULT_STATUSES);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        put_status(buf, statuses[i]);
    }
}

int statuses_decode(const void *data, size_t len, int32_t *ret_statuses, size_t max,
                    size_t *ret_count)
{
    struct reader reader;
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_STATUSES)) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u32(&reader);
    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        ret_statuses[i] = (int32_t)reader_u32(&reader);
        if (ret_statuses[i] > 0) {
            return ERR_BAD_MESSAGE;
        }
    }
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_count = count;
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
