/*
 * worker.c - see worker.h: the bytes of worker rows, and of results with them.
 *
 * The happy path: the state machine encodes a row as storage keeps it; a result carries the same
 * bytes behind the worker id, so that there is one format and one place that checks it.
 *
 * Failure modes: a row gives ERR_TRUNCATED, ERR_BAD_VERSION or ERR_CORRUPT, a result
 * ERR_BAD_MESSAGE, and nothing is left to release. Thread: pure functions, any.
 */
#include "src/id/codec/worker.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/id/codec/command_bytes.h"
#include "src/id/codec/tag.h"

#define WORKER_EPOCH_END INT64_MAX /* shown as a JSON number; no log is ever as long */

static const struct field ROW_FIELDS[] = {
    FIELD_NUMBER(struct worker_row, state),
    FIELD_NUMBER(struct worker_row, kind),
    FIELD_NUMBER(struct worker_row, epoch),
    FIELD_NUMBER(struct worker_row, granted_from_ms),
    FIELD_NUMBER(struct worker_row, granted_until_ms),
    FIELD_NUMBER(struct worker_row, last_timestamp_ms),
    FIELD_NUMBER(struct worker_row, updated_ms),
    FIELD_CHARS(struct worker_row, name),
    FIELD_CHARS(struct worker_row, address),
};

/* What every row that the state machine makes keeps, and no damaged one is loaded without. */
static bool row_is_sound(const void *data)
{
    const struct worker_row *row = data;

    return row->id < LIMIT_WORKER_IDS &&
           (row->state == WORKER_HELD || row->state == WORKER_RELEASED) &&
           (row->kind == WORKER_NODE || row->kind == WORKER_CLIENT) && row->epoch >= 1 &&
           row->epoch <= WORKER_EPOCH_END && row->granted_from_ms <= row->granted_until_ms &&
           row->granted_until_ms <= TAG_TIME_MAX_MS &&
           row->last_timestamp_ms <= row->granted_until_ms && row->updated_ms <= TAG_TIME_MAX_MS &&
           row->name_len <= LIMIT_WORKER_NAME_BYTES &&
           tag_name_check(row->name, row->name_len, NULL) == 0 &&
           row->address_len <= LIMIT_ADDRESS_BYTES &&
           tag_text_check(row->address, row->address_len, false) == 0;
}

static const struct row_format FORMAT = {
    .version = 2,
    .fields = FIELDS(ROW_FIELDS),
    .is_sound = row_is_sound,
};

void worker_row_encode(const struct worker_row *row, struct buf *buf)
{
    row_put(buf, &FORMAT, row);
}

int worker_row_decode(uint16_t id, const void *value, size_t len, struct worker_row *ret_row)
{
    *ret_row = (struct worker_row){.id = id};
    return row_read(value, len, &FORMAT, ret_row);
}

/* A row on its way: the worker id, and the bytes that storage keeps as its value. */
static void put_row(struct buf *buf, const struct worker_row *row)
{
    size_t len_at;

    buf_put_u16(buf, row->id);
    len_at = buf->len;
    buf_put_u32(buf, 0);
    worker_row_encode(row, buf);
    buf_set_u32(buf, len_at, (uint32_t)(buf->len - len_at - 4));
}

static int read_row(struct reader *reader, struct worker_row *ret_row)
{
    size_t len;
    uint16_t id = reader_u16(reader);
    const uint8_t *value = reader_str32(reader, &len);

    if (reader->bad) {
        return ERR_BAD_MESSAGE;
    }
    return worker_row_decode(id, value, len, ret_row);
}

static const struct field RESULT_FIELDS[] = {
    FIELD_NUMBER(struct worker_result, status),
    FIELD_BOOL(struct worker_result, has_row),
};
static const struct fields RESULT = FIELDS(RESULT_FIELDS);

void worker_result_encode(const struct worker_result *result, struct buf *buf)
{
    ASSERT(result->status <= 0);
    ASSERT_IMPLIES(result->status == 0, result->has_row);
    message_fields_put(buf, RESULT_WORKER, &RESULT, result);
    if (result->has_row) {
        put_row(buf, &result->row);
    }
}

int worker_result_decode(const void *data, size_t len, struct worker_result *ret_result)
{
    struct reader reader;
    struct worker_result result = {0};

    if (!message_head_read(&reader, data, len, RESULT_WORKER) ||
        !fields_read(&reader, &RESULT, &result) || result.status > 0 ||
        (result.status == 0 && !result.has_row) ||
        (result.has_row && read_row(&reader, &result.row) != 0) || !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_result = result;
    return 0;
}

void worker_rows_encode(const struct worker_row *const *rows, size_t count, uint64_t log_ms,
                        struct buf *buf)
{
    ASSERT(count <= LIMIT_WORKER_IDS);
    message_head_put(buf, RESULT_WORKERS);
    buf_put_u64(buf, log_ms);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        ASSERT_IMPLIES(i > 0, rows[i - 1]->id < rows[i]->id);
        put_row(buf, rows[i]);
    }
}

int worker_rows_decode(const void *data, size_t len, struct worker_rows *ret_rows)
{
    struct reader reader;
    struct worker_rows rows = {0};
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_WORKERS)) {
        return ERR_BAD_MESSAGE;
    }
    rows.log_ms = reader_u64(&reader);
    count = reader_u32(&reader);
    if (reader.bad || count > LIMIT_WORKER_IDS) {
        return ERR_BAD_MESSAGE;
    }
    rows.rows = calloc(count > 0 ? count : 1, sizeof *rows.rows);
    ASSERT(rows.rows != NULL);
    while (rows.count < count && read_row(&reader, &rows.rows[rows.count]) == 0 &&
           (rows.count == 0 || rows.rows[rows.count - 1].id < rows.rows[rows.count].id)) {
        rows.count++;
    }
    if (rows.count < count || !reader_done(&reader)) {
        worker_rows_release(&rows);
        return ERR_BAD_MESSAGE;
    }
    *ret_rows = rows;
    return 0;
}

void worker_rows_release(struct worker_rows *rows)
{
    free(rows->rows);
    *rows = (struct worker_rows){0};
}
