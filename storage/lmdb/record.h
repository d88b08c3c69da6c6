/*
 * record.h - records of the tables, each behind a checksum of its table, key and payload.
 *
 * Happy path: put a payload under a key; get finds it again and checks it. format.h says what the
 * tables hold.
 *
 * Failure modes: ERR_CORRUPT names the record and what differs ("log entry 17: checksum is
 * 1234abcd, stored is 0badf00d"). Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_RECORD_H
#define LEAFD_STORAGE_LMDB_RECORD_H

#include "storage/lmdb/env.h"

#define LMDB_RECORD_NAME_BYTES 96

/* A payload to be written: two parts, one behind the other. */
struct lmdb_payload {
    const void *head;
    size_t head_len;
    const void *data;
    size_t len;
};

/* Write table and key for people ("log entry 17", "state record tabc\x01"). Returns text. */
const char *lmdb_record_name(enum lmdb_table table, const MDB_val *key,
                             char text[LMDB_RECORD_NAME_BYTES]);

/* Check a record's checksum; *ret_payload reads what follows it, until the transaction's next write
 * or end. */
int lmdb_record_open(enum lmdb_table table, const MDB_val *key, const MDB_val *value,
                     struct reader *ret_payload, struct store_error *ret_error) MUST_CHECK;

/* Find and check a record. ERR_NOT_FOUND (without a text): there is none. */
int lmdb_record_get(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    struct reader *ret_payload) MUST_CHECK;

/* flags: 0, or MDB_APPEND when the key is known to come after all others. */
int lmdb_record_put(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    const struct lmdb_payload *payload, unsigned flags) MUST_CHECK;

/* ERR_NOT_FOUND (without a text): there is none. */
int lmdb_record_delete(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key) MUST_CHECK;

/* Delete all records of a table. */
int lmdb_table_empty(const struct lmdb_txn *txn, enum lmdb_table table) MUST_CHECK;

/* Gets a record as it is in the table, not checked. Return 0 to go on. */
typedef int (*lmdb_record_fn)(void *data, const MDB_val *key, const MDB_val *value);

/* Call fn for each record of a table, in key order. 0, fn's error, or LMDB's. */
int lmdb_record_each(const struct lmdb_txn *txn, enum lmdb_table table, lmdb_record_fn fn,
                     void *data) MUST_CHECK;

/* The key of a log entry and back. */
void lmdb_log_key(uint64_t index, uint8_t key[LMDB_LOG_KEY_BYTES]);
uint64_t lmdb_log_index(const uint8_t key[LMDB_LOG_KEY_BYTES]);

/* The same for a record of meta, by its name; a missing one is ERR_CORRUPT. */
int lmdb_meta_get(const struct lmdb_txn *txn, const char *name,
                  struct reader *ret_payload) MUST_CHECK;
int lmdb_meta_put(const struct lmdb_txn *txn, const char *name,
                  const struct buf *payload) MUST_CHECK;

/* ERR_CORRUPT: a record of meta does not decode. */
int lmdb_meta_malformed(const struct lmdb_txn *txn, const char *name);

#endif
