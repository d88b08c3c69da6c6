/*
 * env.h - an LMDB environment with its three tables, transactions on it, and LMDB's errors.
 *
 * Never with MDB_NOSYNC, MDB_NOMETASYNC, MDB_WRITEMAP or MDB_MAPASYNC.
 *
 * Happy path: open; begin a transaction; work on its tables (record.h); commit or abort it.
 *
 * Failure modes: LMDB's return codes become ERR_* with a text. Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_ENV_H
#define LEAFD_STORAGE_LMDB_ENV_H

#include <lmdb.h>

#include "storage/lmdb/format.h"
#include "storage/store.h"

struct lmdb_env {
    MDB_env *env; /* NULL: closed */
    MDB_dbi tables[LMDB_TABLES];
};

/* A transaction, and where what goes wrong in it is written. */
struct lmdb_txn {
    MDB_txn *txn;
    const struct lmdb_env *env;
    struct store_error *error;
    MDB_cursor *rows;  /* of the table of rows, at the row last looked at; see lmdb_rows_begin() */
    uint64_t flush_us; /* once it has ended: what writing and syncing took */
};

/* "log", "meta", "state". Static memory. */
const char *lmdb_table_name(enum lmdb_table table);

/* LMDB's return code as an ERR_* with "<what>: <LMDB's text>"; rc is not 0. */
int lmdb_error(struct store_error *ret_error, int rc, const char *what);

/* Open environment and tables. map_bytes: 0 takes what the file says. flags: 0, MDB_CREATE (make
 * the tables) or MDB_RDONLY | MDB_NOLOCK. On failure nothing is left open. */
int lmdb_env_open(struct lmdb_env *env, const char *path, uint64_t map_bytes, unsigned flags,
                  struct store_error *ret_error) MUST_CHECK;

/* No transaction may be open. NULL-safe on an all-zero struct, which is what it leaves. */
void lmdb_env_close(struct lmdb_env *env);

/* Begin a transaction. flags: 0 or MDB_RDONLY. error is used until the transaction ends. */
int lmdb_begin(const struct lmdb_env *env, unsigned flags, struct lmdb_txn *ret_txn,
               struct store_error *error) MUST_CHECK;

/* Many rows follow: from now on each is looked for near the last one before the tree is searched
 * from its root. In a transaction that writes; it ends with it. 0 or an error. */
int lmdb_rows_begin(struct lmdb_txn *txn) MUST_CHECK;

/* End a transaction that came to err: commit it if that is 0, else abort it. 0: it is durable; err;
 * or the commit's own error, after which it is unknown whether it is. */
int lmdb_end(struct lmdb_txn *txn, int err) MUST_CHECK;
void lmdb_abort(struct lmdb_txn *txn);

/* What the file takes, or will once it is written. It never shrinks. */
uint64_t lmdb_env_file_bytes(const struct lmdb_env *env);

/* How much room is left in the map and on the disk that holds `dir`: what could be written now. The
 * free list, which takes a while to read, counts where there is less than enough_bytes without it,
 * or so little that it would be low. Not within a transaction of the thread. */
void lmdb_env_space(const struct lmdb_env *env, const char *dir, uint64_t enough_bytes,
                    struct store_space *ret_space);

#endif
