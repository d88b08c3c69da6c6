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

/* --- queries --- */

static const struct field GET_FIELDS[] = {FIELD_STRING(struct query, name)};

static const struct field LIST_FIELDS[] = {
    FIELD_STRING(struct query, name),
    FIELD_STRING(struct query, after),
    FIELD_NUMBER(struct query, limit),
};

static const struct field WORKERS_FIELDS[] = {
    FIELD_NUMBER(struct query, first),
    FIELD_NUMBER(struct query, limit),
};

/* By type; and the highest limit. */
static const struct {
    struct fields fields;
    uint32_t limit;
} QUERIES[] = {
    [QUERY_TAG_GET] = {FIELDS(GET_FIELDS), 0},
    [QUERY_TAG_LIST] = {FIELDS(LIST_FIELDS), LIMIT_TAGS_PER_PAGE},
    [QUERY_WORKERS] = {FIELDS(WORKERS_FIELDS), LIMIT_WORKER_IDS},
};

static void query_put(struct buf *buf, const struct query *query)
{
    message_fields_put(buf, QUERY_BASE + query->type, &QUERIES[query->type].fields, query);
}

void query_get_encode(struct buf *buf, const char *name, size_t name_len)
{
    query_put(buf,
              &(struct query){.type = QUERY_TAG_GET, .name = name, .name_len = (uint16_t)name_len});
}

void query_list_encode(struct buf *buf, const char *prefix, size_t prefix_len, const char *after,
                       size_t after_len, uint32_t limit)
{
    query_put(buf, &(struct query){.type = QUERY_TAG_LIST,
                                   .name = prefix,
                                   .name_len = (uint16_t)prefix_len,
                                   .after = after,
                                   .after_len = (uint16_t)after_len,
                                   .limit = limit});
}

void query_workers_encode(struct buf *buf, uint16_t first, uint16_t limit)
{
    query_put(buf, &(struct query){.type = QUERY_WORKERS, .first = first, .limit = limit});
}

int query_decode(const void *data, size_t len, struct query *ret_query)
{
    unsigned type = len > 1 ? ((const uint8_t *)data)[1] - (unsigned)QUERY_BASE : 0;
    struct query query = {.type = (enum query_type)type};

    if (type < QUERY_TAG_GET || type > QUERY_WORKERS ||
        !message_fields_read(data, len, QUERY_BASE + type, &QUERIES[type].fields, &query) ||
        query.limit > QUERIES[type].limit || (query.limit < 1) != (type == QUERY_TAG_GET)) {
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

/* A result that is a list: how many there are, and each behind the other. */
struct list {
    unsigned type;
    size_t size; /* of an item's struct, which begins with its status */
    struct fields fields;
};

static void list_encode(const struct list *list, const void *items, size_t count, struct buf *buf)
{
    const char *item = items;

    message_head_put(buf, list->type);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++, item += list->size) {
        ASSERT(*(const int32_t *)(const void *)item <= 0);
        fields_put(buf, &list->fields, item);
    }
}

static int list_decode(const struct list *list, const void *data, size_t len, void *ret_items,
                       size_t max, size_t *ret_count)
{
    char *item = ret_items;
    struct reader reader;
    uint32_t count;

    if (!message_head_read(&reader, data, len, list->type)) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u32(&reader);
    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++, item += list->size) {
        if (!fields_read(&reader, &list->fields, item) ||
            *(const int32_t *)(const void *)item > 0) {
            return ERR_BAD_MESSAGE;
        }
    }
    *ret_count = count;
    return reader_done(&reader) ? 0 : ERR_BAD_MESSAGE;
}

static const struct field GRANT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct grant_result, status), FIELD_NUMBER(struct grant_result, size),
    FIELD_NUMBER(struct grant_result, first),  FIELD_NUMBER(struct grant_result, generation),
    FIELD_NUMBER(struct grant_result, step),   FIELD_NUMBER(struct grant_result, max_step),
};
static const struct list GRANTS = {RESULT_GRANTS, sizeof(struct grant_result),
                                   FIELDS(GRANT_RESULT_FIELDS)};

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
    list_encode(&GRANTS, results, count, buf);
}

int grant_results_decode(const void *data, size_t len, struct grant_result *ret_results, size_t max,
                         size_t *ret_count)
{
    int err = list_decode(&GRANTS, data, len, ret_results, max, ret_count);

    for (size_t i = 0; err == 0 && i < *ret_count; i++) {
        if ((ret_results[i].status == 0) != (ret_results[i].size > 0)) {
            err = ERR_BAD_MESSAGE;
        }
    }
    return err;
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
    if ((result.status == 0 && read_row(&reader, &result.first) != 0) || !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_result = result;
    return 0;
}

static const struct field STATUS_FIELDS[] = {{FIELD_KIND_NUMBER, 0, sizeof(int32_t), 0}};
static const struct fields STATUS = FIELDS(STATUS_FIELDS);
static const struct list STATUSES = {RESULT_STATUSES, sizeof(int32_t), FIELDS(STATUS_FIELDS)};

void status_result_encode(int32_t status, struct buf *buf)
{
    ASSERT(status <= 0);
    message_fields_put(buf, RESULT_STATUS, &STATUS, &status);
}

int status_result_decode(const void *data, size_t len, int32_t *ret_status)
{
    return message_fields_read(data, len, RESULT_STATUS, &STATUS, ret_status) ? 0 : ERR_BAD_MESSAGE;
}

void statuses_encode(const int32_t *statuses, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_GRANTS_PER_ENTRY);
    list_encode(&STATUSES, statuses, count, buf);
}

int statuses_decode(const void *data, size_t len, int32_t *ret_statuses, size_t max,
                    size_t *ret_count)
{
    return list_decode(&STATUSES, data, len, ret_statuses, max, ret_count);
}

/* --- strict ids --- */

#define RESULT_REPLAYED 0x01 /* bit of the flags byte of a strict result */

/* One of first and detail says something, whatever the status: they share their bytes. */
void strict_results_encode(const struct strict_result *results, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_STRICT_ITEMS);
    message_head_put(buf, RESULT_STRICT);
    buf_put_u32(buf, (uint32_t)count);
    buf_reserve(buf, count * STRICT_RESULT_BYTES);
    for (size_t i = 0; i < count; i++) {
        const struct strict_result *result = &results[i];
        bool given = result->status == 0;

        ASSERT(result->status <= 0);
        ASSERT(given ? result->detail == 0 : result->first == 0 && !result->replayed);
        buf_put_u32(buf, (uint32_t)result->status);
        buf_put_u8(buf, result->replayed ? RESULT_REPLAYED : 0);
        buf_put_u32(buf, result->generation);
        buf_put_u64(buf, given ? result->first : result->detail);
    }
}

static bool read_result(struct reader *reader, struct strict_result *ret_result)
{
    struct strict_result result = {.status = (int32_t)reader_u32(reader)};
    uint8_t flags = reader_u8(reader);
    uint64_t value;

    result.generation = reader_u32(reader);
    value = reader_u64(reader);
    result.replayed = (flags & RESULT_REPLAYED) != 0;
    if (reader->bad || result.status > 0 || (flags & ~RESULT_REPLAYED) != 0 ||
        (result.replayed && result.status != 0)) {
        return false;
    }
    if (result.status == 0) {
        result.first = value;
    } else {
        result.detail = value;
    }
    *ret_result = result;
    return true;
}

int strict_results_decode(const void *data, size_t len, struct strict_result *ret_results,
                          size_t max, size_t *ret_count)
{
    struct reader reader;
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_STRICT)) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u32(&reader);
    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_result(&reader, &ret_results[i])) {
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
    free(rows->rows);
    *rows = (struct tag_rows){0};
}
