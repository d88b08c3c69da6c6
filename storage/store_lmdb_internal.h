/*
 * store_lmdb_internal.h - what the files of the LMDB engine share: its struct, its records, its
 * parts.
 *
 * Tables (named databases) of the environment:
 *   log    8-byte big-endian index -> {crc32c u32, term u64, type u8, data}
 *   meta   name -> {crc32c u32, fields}: format (with a magic text, the "not empty" sentinel),
 *          identity, hard, log (first, last, last term), position, local.NN (a local record),
 *          locals (which of them there are), commit (the number of LMDB's transaction)
 *   state  row key -> {crc32c u32, row value}
 * Integers are little-endian except the keys of log. A checksum covers the table's letter, the key
 * and the payload, so a record cannot stand in for another.
 *
 * The format is a number for all that leafd keeps in the store: these records, the rows of the
 * state and the commands of the log. Another than this build's is refused.
 *
 * meta's `log` names the last entry, so a log that lost its tail is seen; `commit` is written by
 * every transaction, so a tree that is older than its meta page says is seen (store_lmdb_pages.c).
 *
 * Files: store_lmdb.c open, make, close; _dir.c the data directory; _file.c and _pages.c the data
 * file's structure; _check.c the check in a child; _load.c reading; _commit.c writing; _locals.c
 * local records; _snapshot.c snapshots and space.
 *
 * Thread: as store.h.
 */
#ifndef LEAFD_STORAGE_STORE_LMDB_INTERNAL_H
#define LEAFD_STORAGE_STORE_LMDB_INTERNAL_H

#include <lmdb.h>
#include <sys/types.h>

#include "storage/store_lmdb.h"
#include "storage/store_meta.h"

#define LMDB_FORMAT_VERSION 3
#define LMDB_FORMAT_MAGIC "leafd store"
#define LMDB_TABLE_LOG "log"
#define LMDB_TABLE_META "meta"
#define LMDB_TABLE_STATE "state"
#define LMDB_LOG_KEY_BYTES 8
#define LMDB_LOG_HEAD_BYTES 13 /* crc, term, type */
#define LMDB_CRC_BYTES 4

struct store_lmdb {
    struct store store;
    char *dir;
    int lock_fd; /* -1: none */
    MDB_env *env;
    MDB_dbi log;
    MDB_dbi meta;
    MDB_dbi state;
    uint64_t map_bytes;
    struct store_identity identity;
    struct store_meta now; /* as of the last commit */
    LIST_HEAD(, store_snapshot) snapshots;
    size_t snapshot_count;
};

/* --- records --- */

/* The checksum of a record: table letter, key, payload so far; go on with hash_crc32c_more(). */
uint32_t lmdb_crc_begin(const char *table, const MDB_val *key);

/* Check a record's checksum; *ret_payload reads what follows it. ERR_CORRUPT names table and key.
 */
int lmdb_record_open(const char *table, const MDB_val *key, const MDB_val *value,
                     struct reader *ret_payload, struct store_error *ret_error) MUST_CHECK;

/* Write table and key for people ("log entry 17", "state row tabc\x01"). Returns text. */
const char *lmdb_record_name(const char *table, const MDB_val *key, char text[96]);

void lmdb_log_key(uint64_t index, uint8_t key[LMDB_LOG_KEY_BYTES]);
uint64_t lmdb_log_index(const uint8_t key[LMDB_LOG_KEY_BYTES]);

/* LMDB's return code as an ERR_* with "<what>: <LMDB's text>"; rc is not 0. */
int lmdb_error(struct store_error *ret_error, int rc, const char *what);

/* --- store_lmdb_load.c --- */

/* Find a record of meta; the reader stands behind its checksum. */
int lmdb_meta_get(struct store_lmdb *lmdb, MDB_txn *txn, const char *name,
                  struct reader *ret_payload, struct store_error *ret_error) MUST_CHECK;

/* ERR_CORRUPT: a record of meta does not decode. */
int lmdb_meta_malformed(struct store_error *ret_error, const char *name);

/* Read identity and meta of a transaction. */
int lmdb_read_meta(struct store_lmdb *lmdb, MDB_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta, struct store_error *ret_error) MUST_CHECK;

/* Read and verify all tables. ret_loaded and row_fn may be NULL: verify alone. */
int lmdb_read_all(struct store_lmdb *lmdb, struct store_loaded *ret_loaded, store_row_fn row_fn,
                  void *data, struct store_error *ret_error) MUST_CHECK;

int lmdb_load(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn, void *data,
              struct store_error *ret_error);

/* --- store_lmdb_commit.c --- */
int lmdb_commit(struct store *store, struct store_op_list *list, struct store_error *ret_error);

/* Write the records of a new store: identity and all of an empty meta. */
int lmdb_write_new(struct store_lmdb *lmdb, MDB_txn *txn, struct store_error *ret_error) MUST_CHECK;

/* Put a record of meta, its checksum before the payload. */
int lmdb_meta_put(struct store_lmdb *lmdb, MDB_txn *txn, const char *name,
                  const struct buf *payload, struct store_error *ret_error) MUST_CHECK;

/* Write the record that every transaction writes. */
int lmdb_write_commit_number(struct store_lmdb *lmdb, MDB_txn *txn,
                             struct store_error *ret_error) MUST_CHECK;

/* --- store_lmdb_locals.c --- */

/* Read all local records into `locals`, which holds none yet. On failure it holds some of them. */
int lmdb_locals_read(struct store_lmdb *lmdb, MDB_txn *txn,
                     struct store_local *locals[LIMIT_LOCAL_RECORDS],
                     struct store_error *ret_error) MUST_CHECK;

/* Write the records that are others than those before, and which there are. */
int lmdb_locals_write(struct store_lmdb *lmdb, MDB_txn *txn,
                      struct store_local *const before[LIMIT_LOCAL_RECORDS],
                      struct store_local *const locals[LIMIT_LOCAL_RECORDS],
                      struct store_error *ret_error) MUST_CHECK;

/* --- store_lmdb_snapshot.c --- */
int lmdb_snapshot_open(struct store *store, struct store_snapshot **ret_snapshot,
                       struct store_position *ret_position);
int lmdb_snapshot_read(struct store *store, struct store_snapshot *snapshot, size_t max_bytes,
                       struct buf *chunk, bool *ret_end);
void lmdb_snapshot_close(struct store *store, struct store_snapshot *snapshot);
void lmdb_snapshots_close_all(struct store_lmdb *lmdb);
void lmdb_space(struct store *store, struct store_space *ret_space);

/* --- store_lmdb_dir.c --- */

/* "<dir>/<name>", malloc'ed. */
char *lmdb_path(const char *dir, const char *name);

/* Make the directory if it is missing (0700) and take its lock. 0, ERR_LOCKED, ERR_IO. */
int lmdb_dir_lock(const char *dir, int *ret_fd, struct store_error *ret_error) MUST_CHECK;

/* The marker that a store was made here. read: ERR_NOT_FOUND when there is none. */
int lmdb_marker_read(const char *dir, uint64_t *ret_store_id,
                     struct store_error *ret_error) MUST_CHECK;
int lmdb_marker_write(const char *dir, uint64_t store_id, struct store_error *ret_error) MUST_CHECK;

bool lmdb_path_exists(const char *dir, const char *name);

/* Rename within the directory and make it durable. */
int lmdb_rename(const char *dir, const char *from, const char *to,
                struct store_error *ret_error) MUST_CHECK;

/* Remove what a crash left of `<dir>/db.new`. */
int lmdb_remove_unfinished(const char *dir, struct store_error *ret_error) MUST_CHECK;

int lmdb_sync_path(const char *path, struct store_error *ret_error) MUST_CHECK;

/* --- store_lmdb_file.c --- */

/* Check the structure of a data file that no process has open, without LMDB: nothing in it can lead
 * LMDB astray afterwards. 0, ERR_CORRUPT, ERR_BAD_VERSION, ERR_IO. A disk that cannot read a page
 * ends the process with SIGBUS, so this runs in the child of store_lmdb_check.c. */
int lmdb_file_check(const char *path, struct store_error *ret_error) MUST_CHECK;

/* --- store_lmdb_check.c --- */

/* A child process that checks the database and may die of it. */
struct lmdb_checker {
    pid_t pid;
    int go_fd;
    int report_fd;
};

/* Fork the child; it waits. Before the directory's lock is taken. */
int lmdb_checker_start(struct lmdb_checker *checker, const char *dir,
                       struct store_error *ret_error) MUST_CHECK;

/* Let the child check structure and every record, and end it. */
int lmdb_checker_run(struct lmdb_checker *checker, const char *dir,
                     struct store_error *ret_error) MUST_CHECK;

/* End a child that was not let run. */
void lmdb_checker_cancel(struct lmdb_checker *checker);

/* --- store_lmdb.c --- */

/* Open environment and tables. flags: 0 or MDB_RDONLY | MDB_NOLOCK; create: make the tables. */
int lmdb_env_open(struct store_lmdb *lmdb, const char *path, unsigned flags, bool create,
                  struct store_error *ret_error) MUST_CHECK;

struct store_lmdb *lmdb_of(struct store *store);

#endif
