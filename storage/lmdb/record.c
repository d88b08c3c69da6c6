/*
 * record.c - see record.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

void lmdb_log_key(uint64_t index, uint8_t key[LMDB_LOG_KEY_BYTES])
{
    for (unsigned i = 0; i < LMDB_LOG_KEY_BYTES; i++) {
        key[i] = (uint8_t)(index >> (8 * (LMDB_LOG_KEY_BYTES - 1 - i)));
    }
}

uint64_t lmdb_log_index(const uint8_t key[LMDB_LOG_KEY_BYTES])
{
    uint64_t index = 0;

    for (unsigned i = 0; i < LMDB_LOG_KEY_BYTES; i++) {
        index = index << 8 | key[i];
    }
    return index;
}

const char *lmdb_record_name(enum lmdb_table table, const MDB_val *key,
                             char text[LMDB_RECORD_NAME_BYTES])
{
    size_t at;

    if (table == LMDB_LOG && key->mv_size == LMDB_LOG_KEY_BYTES) {
        (void)snprintf(text, LMDB_RECORD_NAME_BYTES, "log entry %" PRIu64,
                       lmdb_log_index(key->mv_data));
        return text;
    }
    at = (size_t)snprintf(text, LMDB_RECORD_NAME_BYTES, "%s record ", lmdb_table_name(table));
    ASSERT(at < LMDB_RECORD_NAME_BYTES);
    (void)store_key_print(text + at, LMDB_RECORD_NAME_BYTES - at, key->mv_data, key->mv_size);
    return text;
}

/* The checksum of a record before its payload: table letter, key. */
static uint32_t crc_begin(enum lmdb_table table, const MDB_val *key)
{
    return hash_crc32c_more(hash_crc32c(lmdb_table_name(table), 1), key->mv_data, key->mv_size);
}

int lmdb_record_open(enum lmdb_table table, const MDB_val *key, const MDB_val *value,
                     struct reader *ret_payload, struct store_error *ret_error)
{
    char name[LMDB_RECORD_NAME_BYTES];
    uint32_t stored;
    uint32_t crc;

    reader_init(ret_payload, value->mv_data, value->mv_size);
    stored = reader_u32(ret_payload);
    if (ret_payload->bad) {
        return store_error_set(ret_error, ERR_CORRUPT, "%s: only %zu bytes",
                               lmdb_record_name(table, key, name), value->mv_size);
    }
    ASSERT(ret_payload->at == LMDB_CRC_BYTES);
    crc = hash_crc32c_more(crc_begin(table, key), ret_payload->data + ret_payload->at,
                           reader_left(ret_payload));
    if (crc != stored) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "%s: checksum is %08" PRIx32 ", stored is %08" PRIx32,
                               lmdb_record_name(table, key, name), crc, stored);
    }
    return 0;
}

/* LMDB's error while it worked on a record. */
static int record_error(const struct lmdb_txn *txn, enum lmdb_table table, const MDB_val *key,
                        int rc)
{
    char name[LMDB_RECORD_NAME_BYTES];

    return lmdb_error(txn->error, rc, lmdb_record_name(table, key, name));
}

/* The cursor that stands near the record, or NULL. */
static MDB_cursor *cursor_of(const struct lmdb_txn *txn, enum lmdb_table table)
{
    return table == LMDB_STATE ? txn->rows : NULL;
}

int lmdb_record_get(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    struct reader *ret_payload)
{
    MDB_cursor *cursor = cursor_of(txn, table);
    MDB_val value;
    int rc = cursor != NULL ? mdb_cursor_get(cursor, key, &value, MDB_SET)
                            : mdb_get(txn->txn, txn->env->tables[table], key, &value);

    if (rc == MDB_NOTFOUND) {
        return ERR_NOT_FOUND;
    }
    if (rc != 0) {
        return record_error(txn, table, key, rc);
    }
    return lmdb_record_open(table, key, &value, ret_payload, txn->error);
}

int lmdb_record_put(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    const struct lmdb_payload *payload, unsigned flags)
{
    uint32_t crc = hash_crc32c_more(crc_begin(table, key), payload->head, payload->head_len);
    MDB_val value = {LMDB_CRC_BYTES + payload->head_len + payload->len, NULL};
    MDB_cursor *cursor = cursor_of(txn, table);
    uint8_t *at;
    int rc;

    ASSERT(flags == 0 || flags == MDB_APPEND);
    rc = cursor != NULL
             ? mdb_cursor_put(cursor, key, &value, MDB_RESERVE | flags)
             : mdb_put(txn->txn, txn->env->tables[table], key, &value, MDB_RESERVE | flags);
    if (rc != 0) {
        return record_error(txn, table, key, rc);
    }
    crc = hash_crc32c_more(crc, payload->data, payload->len);
    ASSERT(value.mv_data != NULL &&
           value.mv_size == LMDB_CRC_BYTES + payload->head_len + payload->len);
    at = value.mv_data;
    for (unsigned i = 0; i < LMDB_CRC_BYTES; i++) {
        *at++ = (uint8_t)(crc >> (8 * i));
    }
    if (payload->head_len > 0) {
        memcpy(at, payload->head, payload->head_len);
    }
    if (payload->len > 0) {
        memcpy(at + payload->head_len, payload->data, payload->len);
    }
    return 0;
}

int lmdb_record_delete(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key)
{
    MDB_cursor *cursor = cursor_of(txn, table);
    MDB_val value;
    int rc;

    if (cursor != NULL) {
        rc = mdb_cursor_get(cursor, key, &value, MDB_SET);
        rc = rc == 0 ? mdb_cursor_del(cursor, 0) : rc;
    } else {
        rc = mdb_del(txn->txn, txn->env->tables[table], key, NULL);
    }
    if (rc == MDB_NOTFOUND) {
        return ERR_NOT_FOUND;
    }
    return rc == 0 ? 0 : record_error(txn, table, key, rc);
}

int lmdb_table_empty(const struct lmdb_txn *txn, enum lmdb_table table)
{
    int rc = mdb_drop(txn->txn, txn->env->tables[table], 0);

    return rc == 0 ? 0 : lmdb_error(txn->error, rc, lmdb_table_name(table));
}

int lmdb_record_each(const struct lmdb_txn *txn, enum lmdb_table table, lmdb_record_fn fn,
                     void *data)
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int err = 0;
    int rc = mdb_cursor_open(txn->txn, txn->env->tables[table], &cursor);

    if (rc != 0) {
        return lmdb_error(txn->error, rc, lmdb_table_name(table));
    }
    while (err == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        err = fn(data, &key, &value);
    }
    mdb_cursor_close(cursor);
    if (err == 0 && rc != MDB_NOTFOUND) {
        err = lmdb_error(txn->error, rc, lmdb_table_name(table));
    }
    return err;
}

int lmdb_meta_get(const struct lmdb_txn *txn, const char *name, struct reader *ret_payload)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};
    int err = lmdb_record_get(txn, LMDB_META, &key, ret_payload);

    if (err == ERR_NOT_FOUND) {
        return store_error_set(txn->error, ERR_CORRUPT, "meta record %s is missing", name);
    }
    return err;
}

int lmdb_meta_put(const struct lmdb_txn *txn, const char *name, const struct buf *payload)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};
    const struct lmdb_payload value = {.data = payload->data, .len = payload->len};

    return lmdb_record_put(txn, LMDB_META, &key, &value, 0);
}

int lmdb_meta_malformed(const struct lmdb_txn *txn, const char *name)
{
    return store_error_set(txn->error, ERR_CORRUPT, "meta record %s is malformed", name);
}
