/*
 * result.c - the bytes of queries, and of what commands and queries are answered (command.h;
 * answers on worker ids: worker.c).
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE and leaves nothing to release. Encoding cannot
 * fail; what is too long for its field is the caller's mistake (ASSERT). Thread: pure functions,
 * any.
 */
#include <stdlib.h>

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

static const struct field GRANT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct grant_result, status), FIELD_NUMBER(struct grant_result, size),
    FIELD_NUMBER(struct grant_result, first),  FIELD_NUMBER(struct grant_result, generation),
    FIELD_NUMBER(struct grant_result, step),   FIELD_NUMBER(struct grant_result, max_step),
};

static bool grant_is_sound(const void *data)
{
    const struct grant_result *result = data;

    return result->status <= 0 && (result->status == 0) == (result->size > 0);
}

static const struct field STRICT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct strict_result, status),
    FIELD_BOOL(struct strict_result, replayed),
    FIELD_NUMBER(struct strict_result, generation),
    FIELD_NUMBER(struct strict_result, first),
};
#define STRICT_RESULT_FIELD_COUNT (sizeof STRICT_RESULT_FIELDS / sizeof *STRICT_RESULT_FIELDS)
FIELDS_FLAT(strict_result, STRICT_RESULT_FIELDS, STRICT_RESULT_FIELD_COUNT)

static bool strict_is_sound(const void *data)
{
    const struct strict_result *result = data;

    return result->status <= 0 && (result->status == 0 || !result->replayed);
}

static const struct field STATUS_FIELDS[] = {{FIELD_KIND_U32, 0, sizeof(int32_t), 0}};

static bool status_is_sound(const void *status)
{
    return *(const int32_t *)status <= 0;
}

/* Of an item of the results of a list. */
static const struct item_format *results_of(enum result_type type)
{
    static const struct item_format GRANTS = ITEM_FORMAT(
        FIELDS(GRANT_RESULT_FIELDS), struct grant_result, grant_is_sound, LIMIT_GRANTS_PER_ENTRY);
    static const struct item_format STRICTS =
        ITEM_FORMAT(FIELDS_STRAIGHT(strict_result, STRICT_RESULT_FIELDS, STRICT_RESULT_FIELD_COUNT),
                    struct strict_result, strict_is_sound, LIMIT_STRICT_ITEMS);
    static const struct item_format STATUSES =
        ITEM_FORMAT(FIELDS(STATUS_FIELDS), int32_t, status_is_sound, LIMIT_GRANTS_PER_ENTRY);

    ASSERT(type == RESULT_GRANTS || type == RESULT_STRICT || type == RESULT_STATUSES);
    return type == RESULT_GRANTS ? &GRANTS : type == RESULT_STRICT ? &STRICTS : &STATUSES;
}

void results_encode(enum result_type type, const void *results, size_t count, struct buf *buf)
{
    message_head_put(buf, type);
    message_items_put(buf, results_of(type), results, count);
}

int results_decode(enum result_type type, const void *data, size_t len, void *ret_results,
                   size_t max, size_t *ret_count)
{
    struct reader reader;

    return message_head_read(&reader, data, len, type)
               ? message_items_read(&reader, results_of(type), ret_results, max, ret_count)
               : ERR_BAD_MESSAGE;
}

static const struct field PUT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct put_result, status), FIELD_NUMBER(struct put_result, failed_at),
    FIELD_NUMBER(struct put_result, made),   FIELD_NUMBER(struct put_result, changed),
    FIELD_NUMBER(struct put_result, max_id), FIELD_NUMBER(struct put_result, asked),
    FIELD_TEXT(struct put_result, why),
};
static const struct fields PUT_RESULT = FIELDS(PUT_RESULT_FIELDS);

void put_result_encode(const struct put_result *result, struct buf *buf)
{
    ASSERT(result->status <= 0);
    message_head_put(buf, RESULT_PUT);
    fields_put(buf, &PUT_RESULT, result);
    if (result->status == 0) {
        fields_put(buf, &tag_item_format.fields, &result->first);
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
    if ((result.status == 0 && (!fields_read(&reader, &tag_item_format.fields, &result.first) ||
                                !tag_item_format.is_sound(&result.first))) ||
        !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_result = result;
    return 0;
}

static const struct field NEXT_FIELDS[] = {FIELD_CHARS(struct tag_rows, next)};
static const struct fields NEXT = FIELDS(NEXT_FIELDS);

void tag_rows_encode(const struct tag_row *const *rows, size_t count, const struct tag_row *next,
                     struct buf *buf)
{
    ASSERT(count <= LIMIT_TAGS_PER_PAGE);
    message_head_put(buf, RESULT_ROWS);
    buf_put_str16(buf, next != NULL ? next->name : NULL, next != NULL ? next->name_len : 0);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        fields_put(buf, &tag_item_format.fields, rows[i]);
    }
}

int tag_rows_decode(const void *data, size_t len, struct tag_rows *ret_rows)
{
    struct reader reader;
    struct tag_rows rows = {0};

    if (!message_head_read(&reader, data, len, RESULT_ROWS) ||
        !fields_read(&reader, &NEXT, &rows)) {
        return ERR_BAD_MESSAGE;
    }
    rows.rows = message_items_read_all(&reader, &tag_item_format, &rows.count);
    if (rows.rows == NULL) {
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
