/*
 * record.h - the table meta, the records of all tables, and the whole of a store read and verified
 * (record, meta, load).
 *
 * Happy path: a record is put behind a checksum of its table, key and payload, and checked when it
 * is found again; load reads all of them.
 *
 * Failure modes: ERR_CORRUPT names the record and what differs; ERR_BAD_VERSION: a store of another
 * format. Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_RECORD_H
#define LEAFD_STORAGE_LMDB_RECORD_H

#include "storage/lmdb/env.h"
#include "storage/store.h"

/*
 * --- record: records of the tables, each after a checksum of its table, key and payload.
 *
 * Happy path: put a payload under a key; get finds it again and checks it. format.h says what the
 * tables hold.
 * Errors read like "log entry 17: checksum is 1234abcd, stored is 0badf00d".
 */

#define LMDB_RECORD_NAME_BYTES 96

/* A payload to be written: two parts, one after the other. */
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

/* The pages that its records take, but for those of large ones. */
size_t lmdb_table_leaves(const struct lmdb_txn *txn, enum lmdb_table table);

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

/*
 * --- meta: the table meta: who the store belongs to, and its struct store_meta.
 *
 * Happy path: a new store gets `identity` and an empty meta; every transaction, the first one
 * included, writes `now` and the local records that it replaces; reading takes all of it and checks
 * that it fits together.
 *
 * `now` names the last entry, so a log that lost its tail is seen; it holds the transaction's
 * number, so a tree that is older than its meta page says is seen (check.h); and it lists the local
 * records with their checksums, in rising order, so that one that is missing or that is an earlier
 * one is seen.
 */

/* Rows that are applied, and recorded in slices instead of in their table. */
struct lmdb_owed {
    uint64_t digest; /* of the rows in the table; the position's while nothing is owed */
    uint32_t first;  /* slice */
    uint32_t end;    /* behind the last; first: nothing is owed */
};

/* Read identity and meta of a transaction, and verify them. */
int lmdb_meta_read(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta, struct lmdb_owed *ret_owed) MUST_CHECK;

/* Write the meta. Of the local records those that are others than before. */
int lmdb_meta_write(const struct lmdb_txn *txn, const struct store_meta *before,
                    const struct store_meta *after) MUST_CHECK;

/* Write what is owed now, if it is something else than before. */
int lmdb_owed_write(const struct lmdb_txn *txn, const struct store_identity *identity,
                    const struct lmdb_owed *before, const struct lmdb_owed *now) MUST_CHECK;

/* A slice: rows as in a stream (store_rows_next()). Taking it appends them to *rows and deletes the
 * record. */
int lmdb_slice_put(const struct lmdb_txn *txn, uint32_t number, const struct buf *rows) MUST_CHECK;
int lmdb_slice_take(const struct lmdb_txn *txn, uint32_t number, struct buf *rows) MUST_CHECK;
int lmdb_slice_drop(const struct lmdb_txn *txn, uint32_t number) MUST_CHECK;

/* Write the records of a new store, whose meta is as store_meta_init() makes it. */
int lmdb_meta_write_new(const struct lmdb_txn *txn,
                        const struct store_identity *identity) MUST_CHECK;

/*
 * --- load: the whole of a store, read and verified.
 *
 * Happy path: one read transaction; the meta, then the log from the first to the last index that
 * it names, then the rows in key order with their digest, then the slices that are owed. Rows for
 * row_fn are whole only where nothing is.
 * Errors name table, key and what differs; never a shorter log or fewer rows.
 */

/* Read and verify all tables. ret_loaded and row_fn may be NULL: verify alone. */
int lmdb_load(const struct lmdb_env *env, struct store_loaded *ret_loaded, store_row_fn row_fn,
              void *data, struct store_error *ret_error) MUST_CHECK;

#endif
