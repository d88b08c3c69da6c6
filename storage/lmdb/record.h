/*
 * record.h - what leafd keeps in an LMDB environment: the environment with its three tables,
 * transactions on it and LMDB's errors (env), the records of the tables (record, meta), and the
 * whole of a store read and verified (load).
 *
 * Tables (named databases):
 *   log    8-byte big-endian index -> {crc32c u32, term u64, type u8, data}
 *   meta   name -> {crc32c u32, fields}:
 *            identity   format u32, a magic text (the "not empty" sentinel), cluster id, node id,
 *                       store id
 *            now        number of LMDB's transaction; term, vote; first and last entry of the log;
 *                       position; number and checksum of each local record
 *            local.NN   a local record
 *            owed       while rows are owed: digest of the rows in state; first slice, and the one
 *                       after the last; while entries are in pieces, also the last such entry
 *            owed.NNNNNNNN  a slice: applied rows that are not in state yet
 *            piece.INDEX.NNNN  a piece of a log entry, whose own record has {term u64, type u8 with
 *                       the bit LMDB_IN_PIECES, length u32}
 *   state  row key -> {crc32c u32, row value}
 * Integers are little-endian except the keys of log. A checksum covers the table's letter, the key
 * and the payload, so a record cannot stand in for another.
 *
 * The format is one number for all data in the store: these records, the rows of the state and the
 * commands of the log. A store of another format than this build's is refused. While rows are owed
 * the store has the next number, so that a leafd that does not know of owed rows refuses it; while
 * entries are in pieces, the one after it.
 *
 * Pieces. LMDB writes a record larger than a page into neighbouring pages, and where the file is
 * full its free pages may have no neighbours: room for thousands of pages, and none for 100 KiB. A
 * piece takes one page. So whatever is free is room (lmdb_env_space()).
 *
 * Happy path: open; begin a transaction; a record is written after a checksum of its table, key and
 * payload, and checked when it is read; load reads all of them; commit or abort.
 *
 * Never with MDB_NOSYNC, MDB_NOMETASYNC, MDB_WRITEMAP or MDB_MAPASYNC.
 *
 * Failure modes: LMDB's return codes become ERR_* with a text; ERR_CORRUPT names the record and
 * what differs; ERR_BAD_VERSION: a store of another format. Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_RECORD_H
#define LEAFD_STORAGE_LMDB_RECORD_H

#include <lmdb.h>

#include "storage/store.h"

#define LMDB_FORMAT_VERSION 6
#define LMDB_FORMAT_OWED 7   /* the same, with owed rows */
#define LMDB_FORMAT_PIECES 8 /* the same, with entries in pieces, and perhaps owed rows */
#define LMDB_IN_PIECES 0x80
#define LMDB_PIECE_BYTES 4000 /* with its checksum it takes one page */
#define LMDB_FORMAT_MAGIC "leafd store"
#define LMDB_LOG_KEY_BYTES 8
#define LMDB_CRC_BYTES 4

enum lmdb_table { LMDB_META, LMDB_LOG, LMDB_STATE, LMDB_TABLES };

#define LMDB_TABLE_NAMES "meta", "log", "state" /* in that order */

/* Records of meta. */
#define LMDB_IDENTITY "identity"
#define LMDB_NOW "now" /* the transaction's number is its first field, a u64 */
#define LMDB_OWED "owed"

struct lmdb_env {
    MDB_env *env; /* NULL: closed */
    MDB_dbi tables[LMDB_TABLES];
};

/* A transaction, and where its errors are written. */
struct lmdb_txn {
    MDB_txn *txn;
    const struct lmdb_env *env;
    struct store_error *error;
    MDB_cursor *rows;  /* in the table of rows, at the last row used; see lmdb_rows_begin() */
    uint64_t flush_us; /* after its end: time that writing and syncing took */
    bool write_failed; /* after its end: a part of it may be written */
};

/* LMDB's return code as an ERR_* with "<what>: <LMDB's text>"; rc is not 0. */
int lmdb_error(struct store_error *ret_error, int rc, const char *what);

/* Open environment and tables. map_bytes: 0 takes the file's. flags: 0, MDB_CREATE (make the
 * tables) or MDB_RDONLY | MDB_NOLOCK. On failure nothing is left open. */
int lmdb_env_open(struct lmdb_env *env, const char *path, uint64_t map_bytes, unsigned flags,
                  struct store_error *ret_error) MUST_CHECK;

/* No transaction may be open. Accepts an all-zero struct, and leaves one. */
void lmdb_env_close(struct lmdb_env *env);

/* Begin a transaction. flags: 0 or MDB_RDONLY. error is used until the transaction ends. */
int lmdb_begin(const struct lmdb_env *env, unsigned flags, struct lmdb_txn *ret_txn,
               struct store_error *error) MUST_CHECK;

/* Many rows follow: each is searched near the last one first, then from the tree's root. Until the
 * end of the (writing) transaction. 0 or an error. */
int lmdb_rows_begin(struct lmdb_txn *txn) MUST_CHECK;

/* Has the system so little room left for the file that a commit of usual size may fail for that? */
bool lmdb_disk_is_full(const struct lmdb_env *env);

/* End a transaction: commit it if err is 0, else abort it. 0: it is durable; err; or the commit's
 * own error, after which it may or may not be durable (ERR_DISK_FULL also for a write that was cut
 * short on a disk that is full). */
int lmdb_end(struct lmdb_txn *txn, int err) MUST_CHECK;
void lmdb_abort(struct lmdb_txn *txn);

/* Size of the file, including pages not yet written. It never shrinks. */
uint64_t lmdb_env_file_bytes(const struct lmdb_env *env);

/* The room left in the map and on the disk: bytes that could be written now. The free list is slow
 * to read, and is counted only if without it there is less than enough_bytes, or room would be low.
 * Not within a transaction of the thread. */
void lmdb_env_space(const struct lmdb_env *env, uint64_t enough_bytes,
                    struct store_space *ret_space);

/*
 * --- record: records of the tables, each after a checksum of its table, key and payload.
 *
 * Happy path: put a payload under a key; get finds it again and checks it.
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

/* Write table and key as text ("log entry 17", "state record tabc\x01"). Returns text. */
const char *lmdb_record_name(enum lmdb_table table, const MDB_val *key,
                             char text[LMDB_RECORD_NAME_BYTES]);

/* Check a record's checksum; *ret_payload reads the payload after it; valid until the transaction's
 * next write or end. */
int lmdb_record_open(enum lmdb_table table, const MDB_val *key, const MDB_val *value,
                     struct reader *ret_payload, struct store_error *ret_error) MUST_CHECK;

/* Find and check a record. ERR_CORRUPT: there is none; ERR_NOT_FOUND (without a text): no such row
 * in LMDB_STATE. */
int lmdb_record_get(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    struct reader *ret_payload) MUST_CHECK;

/* flags: 0, or MDB_APPEND if the key comes after all others. */
int lmdb_record_put(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    const struct lmdb_payload *payload, unsigned flags) MUST_CHECK;

/* ERR_CORRUPT: there is none. */
int lmdb_record_delete(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key) MUST_CHECK;

/* Delete all records of a table. */
int lmdb_table_empty(const struct lmdb_txn *txn, enum lmdb_table table) MUST_CHECK;

/* The next entry of the log. in_pieces: if it is larger than one. */
int lmdb_entry_put(const struct lmdb_txn *txn, uint64_t index, const struct store_entry *entry,
                   bool in_pieces) MUST_CHECK;

/* Delete an entry that is there. in_pieces: it may be. */
int lmdb_entry_delete(const struct lmdb_txn *txn, uint64_t index, bool in_pieces) MUST_CHECK;

/* Gets a record as it is in the table, unchecked. Return 0 to continue. */
typedef int (*lmdb_record_fn)(void *data, const MDB_val *key, const MDB_val *value);

/* Call fn for each record of a table, in key order. 0, fn's error, or LMDB's. */
int lmdb_record_each(const struct lmdb_txn *txn, enum lmdb_table table, lmdb_record_fn fn,
                     void *data) MUST_CHECK;

/* The key of a log entry, which borrows the bytes. */
MDB_val lmdb_log_key(uint64_t index, uint8_t bytes[LMDB_LOG_KEY_BYTES]);

/* The same for a record of meta, by its name. */
int lmdb_meta_get(const struct lmdb_txn *txn, const char *name,
                  struct reader *ret_payload) MUST_CHECK;
int lmdb_meta_put(const struct lmdb_txn *txn, const char *name,
                  const struct buf *payload) MUST_CHECK;

/*
 * --- meta: the table meta: the node that the store belongs to, and its struct store_meta.
 *
 * Happy path: a new store gets `identity` and an empty meta; every transaction, the first one
 * included, writes `now` and the local records that it replaces; reading reads all of it and checks
 * that it is consistent.
 *
 * `now` names the last entry, which detects a log that lost its tail. It holds the transaction's
 * number, which detects a tree older than its meta page says (check.h). It lists the local records
 * with their checksums, in rising order, which detects a missing or an old record.
 */

/* Applied rows that are recorded in slices instead of in their table. */
struct lmdb_owed {
    uint64_t digest; /* of the rows in the table; the position's while nothing is owed */
    uint32_t first;  /* slice */
    uint32_t end;    /* after the last; == first: nothing is owed */
    uint64_t pieces; /* no later entry of the log is in pieces; 0: none is */
};

/* Read identity and meta of a transaction, and verify them. */
int lmdb_meta_read(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta, struct lmdb_owed *ret_owed) MUST_CHECK;

/* Write the meta, with the local records and the record `owed` if they changed. before, owed_before
 * NULL: of a new store, whose identity is written too. */
int lmdb_meta_write(const struct lmdb_txn *txn, const struct store_identity *identity,
                    const struct store_meta *before, const struct store_meta *after,
                    const struct lmdb_owed *owed_before, const struct lmdb_owed *owed) MUST_CHECK;

/* A slice: rows as in a stream (store_rows_next()). lmdb_slice_take() appends them to *rows
 * (unless it is NULL) and deletes the record. */
int lmdb_slice_put(const struct lmdb_txn *txn, uint32_t number, const struct buf *rows) MUST_CHECK;
int lmdb_slice_take(const struct lmdb_txn *txn, uint32_t number, struct buf *rows) MUST_CHECK;

/*
 * --- load: the whole of a store, read and verified.
 *
 * Happy path: one read transaction; the meta, then the log from the first to the last index that it
 * names, then the rows in key order with their digest, then the slices that are owed. row_fn gets
 * all rows only if nothing is owed. Errors name table, key and what differs; never a shorter log or
 * fewer rows.
 */

/* Read and verify all tables. ret_loaded and row_fn may be NULL: verify alone. */
int lmdb_load(const struct lmdb_env *env, struct store_loaded *ret_loaded, store_row_fn row_fn,
              void *data, struct store_error *ret_error) MUST_CHECK;

#endif
