/*
 * worker.c - see worker.h: the bytes of worker rows, and of results with them.
 *
 * The happy path: the state machine keeps rows in their format; a result carries the same fields
 * after the worker id, so that there is one table of fields and one check.
 *
 * Failure modes: a row gives ERR_TRUNCATED, ERR_BAD_VERSION or ERR_CORRUPT, a result
 * ERR_BAD_MESSAGE, and nothing is left to release. Thread: pure functions, any.
 */
#include "src/id/codec/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/utf8.h"
#include "src/id/codec/tag.h"
#include "src/state/codec/session.h"

/* Numbers of messages, besides those of command.h. */
enum worker_message { RESULT_WORKER = 0x85, RESULT_WORKERS = 0x86 };

#define WORKER_EPOCH_END INT64_MAX /* shown as a JSON number; no log is ever as long */

static const struct field ROW_FIELDS[] = {
    FIELD_GROWN(struct worker_row, id), /* in storage it is in the key */
    FIELD_NUMBER(struct worker_row, state),
    FIELD_NUMBER(struct worker_row, kind),
    FIELD_NUMBER(struct worker_row, epoch),
    FIELD_NUMBER(struct worker_row, granted_from_ms),
    FIELD_NUMBER(struct worker_row, granted_until_ms),
    FIELD_NUMBER(struct worker_row, last_timestamp_ms),
    FIELD_NUMBER(struct worker_row, updated_ms),
    FIELD_STRING(struct worker_row, name),
    FIELD_STRING(struct worker_row, address),
    FIELD_NUMBER(struct worker_row, client), /* of rows that count for one */
};
#define ROW_FIELD_COUNT (sizeof ROW_FIELDS / sizeof *ROW_FIELDS)

/* The rules of every row that the state machine makes; checked when a row is loaded. */
static bool worker_row_is_sound(const void *data)
{
    const struct worker_row *row = data;

    return row->id < LIMIT_WORKER_IDS &&
           (row->state == WORKER_HELD || row->state == WORKER_RELEASED) &&
           (row->kind == WORKER_NODE || row->kind == WORKER_CLIENT) && row->epoch >= 1 &&
           row->epoch <= WORKER_EPOCH_END && row->granted_from_ms <= row->granted_until_ms &&
           row->granted_until_ms <= LIMIT_TIME_MAX_MS &&
           row->last_timestamp_ms <= row->granted_until_ms &&
           row->updated_ms <= LIMIT_TIME_MAX_MS && row->name_len <= LIMIT_WORKER_NAME_BYTES &&
           tag_name_check(row->name, row->name_len, NULL) == 0 &&
           row->address_len <= LIMIT_ADDRESS_BYTES &&
           utf8_text_check(row->address, row->address_len, false) == 0 &&
           (row->client == 0 || row->kind == WORKER_CLIENT);
}

static const struct row_format PLAIN =
    ROW_FORMAT(2, FIELDS_FIRST(ROW_FIELDS + 1, ROW_FIELD_COUNT - 2), worker_row_is_sound);
static const struct row_format COUNTED =
    ROW_FORMAT(3, FIELDS_FIRST(ROW_FIELDS + 1, ROW_FIELD_COUNT - 1), worker_row_is_sound);

void worker_key_put(struct buf *buf, uint32_t id)
{
    uint32_t first = id < WORKER_IDS_NARROW ? id : WORKER_IDS_NARROW;

    buf_put_u8(buf, (uint8_t)(first >> 8));
    buf_put_u8(buf, (uint8_t)first);
    for (int bits = 24; id >= WORKER_IDS_NARROW && bits >= 0; bits -= 8) {
        buf_put_u8(buf, (uint8_t)(id >> bits));
    }
}

bool worker_key_read(const uint8_t *key, size_t len, uint32_t *ret_id)
{
    uint32_t id = len >= 2 ? (uint32_t)key[0] << 8 | key[1] : 0;

    if (len == 2) {
        *ret_id = id;
        return id < WORKER_IDS_NARROW;
    }
    if (len != 6 || id != WORKER_IDS_NARROW) {
        return false;
    }
    *ret_id = (uint32_t)key[2] << 24 | (uint32_t)key[3] << 16 | (uint32_t)key[4] << 8 | key[5];
    return *ret_id >= WORKER_IDS_NARROW;
}

void worker_row_put(struct buf *buf, const struct worker_row *row)
{
    row_put(buf, row->client != 0 ? &COUNTED : &PLAIN, row);
}

int worker_row_read(const void *value, size_t len, struct worker_row *ret_row)
{
    bool counted = len > 0 && *(const uint8_t *)value == COUNTED.version;
    int err = row_read(value, len, counted ? &COUNTED : &PLAIN, ret_row);

    return err == 0 && counted != (ret_row->client != 0) ? ERR_CORRUPT : err;
}

/* A row in a message, with its worker id but without its client. */
static const struct item_format ROW =
    ITEM_FORMAT(FIELDS_FIRST(ROW_FIELDS, ROW_FIELD_COUNT - 1), struct worker_row,
                worker_row_is_sound, WORKER_ROWS_MAX);

static const struct field RESULT_FIELDS[] = {
    FIELD_NUMBER(struct worker_result, status),
    FIELD_BOOL(struct worker_result, has_row),
};
static const struct fields RESULT = FIELDS(RESULT_FIELDS);

/* After them with ERR_SHARE. */
static const struct field SHARE_FIELDS[] = {
    FIELD_NUMBER(struct worker_result, held),
    FIELD_NUMBER(struct worker_result, most),
};
static const struct fields SHARE = FIELDS(SHARE_FIELDS);

void worker_result_encode(const struct worker_result *result, struct buf *buf)
{
    ASSERT(result->status <= 0);
    ASSERT_IMPLIES(result->status == 0, result->has_row);
    message_fields_put(buf, RESULT_WORKER, &RESULT, result);
    if (result->status == ERR_SHARE) {
        fields_put(buf, &SHARE, result);
    }
    if (result->has_row) {
        fields_put(buf, &ROW.fields, &result->row);
    }
}

int worker_result_decode(const void *data, size_t len, struct worker_result *ret_result)
{
    struct reader reader;
    struct worker_result result = {0};

    if (!message_head_read(&reader, data, len, RESULT_WORKER) ||
        !fields_read(&reader, &RESULT, &result) || result.status > 0 ||
        (result.status == 0 && !result.has_row) ||
        (result.status == ERR_SHARE && !fields_read(&reader, &SHARE, &result)) ||
        (result.has_row &&
         (!fields_read(&reader, &ROW.fields, &result.row) || !worker_row_is_sound(&result.row))) ||
        !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_result = result;
    return 0;
}

void worker_rows_encode(const struct worker_row *rows, size_t count, uint64_t log_ms,
                        struct buf *buf)
{
    ASSERT(count <= WORKER_ROWS_MAX);
    message_head_put(buf, RESULT_WORKERS);
    buf_put_u64(buf, log_ms);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        ASSERT_IMPLIES(i > 0, rows[i - 1].id < rows[i].id);
        fields_put(buf, &ROW.fields, &rows[i]);
    }
}

int worker_rows_decode(const void *data, size_t len, struct worker_rows *ret_rows)
{
    struct reader reader;
    struct worker_rows rows = {0};

    if (!message_head_read(&reader, data, len, RESULT_WORKERS)) {
        return ERR_BAD_MESSAGE;
    }
    rows.log_ms = reader_u64(&reader);
    rows.rows = message_items_read_all(&reader, &ROW, &rows.count);
    if (rows.rows == NULL) {
        return ERR_BAD_MESSAGE;
    }
    for (size_t i = 1; i < rows.count; i++) {
        if (rows.rows[i - 1].id >= rows.rows[i].id) {
            worker_rows_release(&rows);
            return ERR_BAD_MESSAGE;
        }
    }
    *ret_rows = rows;
    return 0;
}

void worker_rows_release(struct worker_rows *rows)
{
    free(rows->rows);
    *rows = (struct worker_rows){0};
}

/* --- pools --- */

const struct worker_pool *worker_pool_of(const struct worker_pools *pools, const char *zone,
                                         size_t len)
{
    for (uint32_t i = 0; i < pools->count; i++) {
        const struct worker_pool *pool = &pools->items[i];

        if (pool->zone_len == len && memcmp(pool->zone, zone, len) == 0) {
            return pool;
        }
    }
    return NULL;
}

const struct worker_pool *worker_pool_with(const struct worker_pools *pools, uint32_t id)
{
    for (uint32_t i = 0; i < pools->count; i++) {
        if (pools->items[i].first <= id && id <= pools->items[i].last) {
            return &pools->items[i];
        }
    }
    return NULL;
}

/* Take digits up to the end or the mark as a worker id; *at is moved past both. */
static bool take_worker_id(const char **at, const char *end, char mark, uint32_t *ret_id)
{
    uint32_t id = 0;
    const char *first = *at;

    for (; *at < end && **at >= '0' && **at <= '9' && id < LIMIT_WORKER_IDS; (*at)++) {
        id = id * 10 + (uint32_t)(**at - '0');
    }
    *ret_id = id;
    if (*at == first || id >= LIMIT_WORKER_IDS || (*at < end && **at != mark)) {
        return false;
    }
    *at += *at < end;
    return true;
}

/* Take "a=0-31" and a comma, if any. */
static bool take_pool(const char **at, const char *end, struct worker_pool *pool)
{
    const char *mark = memchr(*at, '=', (size_t)(end - *at));
    size_t len = mark != NULL ? (size_t)(mark - *at) : 0;

    if (len < 1 || len > LIMIT_ZONE_BYTES || utf8_text_check(*at, len, false) != 0 ||
        memchr(*at, ',', len) != NULL) {
        return false;
    }
    memcpy(pool->zone, *at, len);
    pool->zone_len = (uint16_t)len;
    *at = mark + 1;
    return take_worker_id(at, end, '-', &pool->first) && (*at)[-1] == '-' &&
           take_worker_id(at, end, ',', &pool->last) && pool->first <= pool->last;
}

int worker_pools_read(const char *text, size_t len, struct worker_pools *ret_pools, char *why)
{
    const char *at = text;
    const char *end = text + len;

    memset(ret_pools, 0, sizeof *ret_pools);
    while (at < end) {
        struct worker_pool pool = {0};

        if (ret_pools->count == LIMIT_POOLS || !take_pool(&at, end, &pool)) {
            (void)snprintf(why, WORKER_POOLS_WHY_BYTES,
                           "pool %u is not a zone and its worker ids, such as a=0-31, of at most "
                           "%d pools and ids up to %d",
                           ret_pools->count + 1, LIMIT_POOLS, LIMIT_WORKER_IDS - 1);
            return ERR_INVALID;
        }
        for (uint32_t i = 0; i < ret_pools->count; i++) {
            const struct worker_pool *other = &ret_pools->items[i];

            if (worker_pool_of(ret_pools, pool.zone, pool.zone_len) == other ||
                (other->first <= pool.last && pool.first <= other->last)) {
                (void)snprintf(why, WORKER_POOLS_WHY_BYTES, "%s=%u-%u and %s=%u-%u %s", other->zone,
                               other->first, other->last, pool.zone, pool.first, pool.last,
                               strcmp(other->zone, pool.zone) == 0 ? "are of one zone" : "overlap");
                return ERR_CONFLICT;
            }
        }
        ret_pools->items[ret_pools->count++] = pool;
    }
    if (len > 0 && text[len - 1] == ',') {
        (void)snprintf(why, WORKER_POOLS_WHY_BYTES, "a pool is missing at the end");
        return ERR_INVALID;
    }
    return 0;
}

static const struct field RULES_FIELDS[] = {
    FIELD_NUMBER(struct worker_rules, epoch),
    FIELD_NUMBER(struct worker_rules, until_ms),
    FIELD_CHARS(struct worker_rules, pools),
};

static bool rules_are_sound(const void *data)
{
    const struct worker_rules *rules = data;
    char why[WORKER_POOLS_WHY_BYTES];
    struct worker_pools pools;

    return rules->epoch < WORKER_EPOCH_END && rules->until_ms <= LIMIT_TIME_MAX_MS &&
           worker_pools_read(rules->pools, rules->pools_len, &pools, why) == 0;
}

const struct row_format worker_rules_format = ROW_FORMAT(1, FIELDS(RULES_FIELDS), rules_are_sound);
