/*
 * store_lmdb.c - see store_lmdb.h: open, make and close.
 *
 * The happy path of a first start: lock; build the environment in `db.new` with its identity, an
 * empty meta and two commits (so that both of LMDB's meta pages are ours); write the marker `made`
 * with the store's id; rename `db.new` to `db`. A crash before the marker leaves a `db.new` that is
 * thrown away; one after it leaves a whole `db.new` that only needs its new name. Every start: what
 * it finds is made durable (an earlier one may have ended before that), then the check in a child,
 * then open, then identity.
 *
 * Failure modes: as store_lmdb_open() says; a database that is missing where the marker says one
 * was made is ERR_CORRUPT, never a first start. Thread: start-up, then as store.h.
 */
#include "storage/store_lmdb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "storage/store_lmdb_internal.h"

#define DB_NAME "db"
#define DB_NEW_NAME "db.new"

static const struct store_ops lmdb_ops;

static int check_locked(struct store_lmdb *lmdb, struct lmdb_checker *checker, bool *ret_made,
                        struct store_error *ret_error);
static int open_checked(struct store_lmdb *lmdb, const struct store_lmdb_config *config,
                        struct store_error *ret_error);
static int make_or_find(struct store_lmdb *lmdb, bool *ret_made, struct store_error *ret_error);
static int make_new(struct store_lmdb *lmdb, struct store_error *ret_error);
static int check_identity(const struct store_lmdb *lmdb, const struct store_identity *wanted,
                          struct store_error *ret_error);
static int check_marker(const struct store_lmdb *lmdb, struct store_error *ret_error);
static void lmdb_free(struct store_lmdb *lmdb);

int lmdb_error(struct store_error *ret_error, int rc, const char *what)
{
    int err = ERR_IO;

    ASSERT(rc != 0);
    if (rc == MDB_MAP_FULL || rc == ENOSPC || rc == EDQUOT) {
        err = ERR_DISK_FULL;
    } else if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_INVALID ||
               rc == MDB_NOTFOUND || rc == MDB_KEYEXIST || rc == MDB_INCOMPATIBLE) {
        err = ERR_CORRUPT;
    } else if (rc == MDB_VERSION_MISMATCH) {
        err = ERR_BAD_VERSION;
    } else if (rc == MDB_TXN_FULL) {
        err = ERR_TOO_LARGE;
    } else if (rc == ENOMEM) {
        err = ERR_NOMEM;
    }
    return store_error_set(ret_error, err, "%s: %s", what, mdb_strerror(rc));
}

struct store_lmdb *lmdb_of(struct store *store)
{
    ASSERT(store->ops == &lmdb_ops);
    return (struct store_lmdb *)store;
}

int store_lmdb_open(const struct store_lmdb_config *config, struct store **ret_store,
                    bool *ret_made, struct store_error *ret_error)
{
    struct store_lmdb *lmdb = calloc(1, sizeof(*lmdb));
    struct lmdb_checker checker;
    bool made = false;
    int err;

    ASSERT(lmdb != NULL && config->map_bytes >= (1 << 20));
    ASSERT(strnlen(config->identity.cluster_id, LIMIT_CLUSTER_ID_BYTES + 1) <=
           LIMIT_CLUSTER_ID_BYTES);
    lmdb->store.ops = &lmdb_ops;
    lmdb->dir = strdup(config->dir);
    lmdb->lock_fd = -1;
    lmdb->map_bytes = config->map_bytes;
    lmdb->identity = config->identity;
    LIST_INIT(&lmdb->snapshots);
    ASSERT(lmdb->dir != NULL);

    err = lmdb_checker_start(&checker, lmdb->dir, ret_error);
    if (err == 0) {
        err = check_locked(lmdb, &checker, &made, ret_error);
    }
    if (err == 0) {
        err = open_checked(lmdb, config, ret_error);
    }
    if (err != 0) {
        lmdb_free(lmdb);
        return err;
    }
    *ret_store = &lmdb->store;
    *ret_made = made;
    return 0;
}

/* Take the lock, make the store if there is none, and have it checked. */
static int check_locked(struct store_lmdb *lmdb, struct lmdb_checker *checker, bool *ret_made,
                        struct store_error *ret_error)
{
    int err = lmdb_dir_lock(lmdb->dir, &lmdb->lock_fd, ret_error);

    if (err == 0) {
        err = make_or_find(lmdb, ret_made, ret_error);
    }
    if (err != 0) {
        lmdb_checker_cancel(checker);
        return err;
    }
    return lmdb_checker_run(checker, lmdb->dir, ret_error);
}

static int open_checked(struct store_lmdb *lmdb, const struct store_lmdb_config *config,
                        struct store_error *ret_error)
{
    MDB_txn *txn;
    char *path;
    int err;
    int rc;

    path = lmdb_path(lmdb->dir, DB_NAME);
    err = lmdb_env_open(lmdb, path, 0, false, ret_error);
    free(path);
    if (err != 0) {
        return err;
    }
    rc = mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return lmdb_error(ret_error, rc, "beginning to read");
    }
    err = lmdb_read_meta(lmdb, txn, &lmdb->identity, &lmdb->now, ret_error);
    mdb_txn_abort(txn);
    if (err == 0) {
        err = check_identity(lmdb, &config->identity, ret_error);
    }
    return err != 0 ? err : check_marker(lmdb, ret_error);
}

static int make_or_find(struct store_lmdb *lmdb, bool *ret_made, struct store_error *ret_error)
{
    uint64_t store_id;
    int err;

    *ret_made = false;
    if (lmdb_path_exists(lmdb->dir, DB_NAME)) {
        /* The start that gave it its name may have ended before that was durable. */
        return lmdb_sync_path(lmdb->dir, ret_error);
    }
    err = lmdb_marker_read(lmdb->dir, &store_id, ret_error);
    if (err == 0 && lmdb_path_exists(lmdb->dir, DB_NEW_NAME)) {
        /* The crash was between marker and rename: what is there is whole, and was never opened. */
        *ret_made = true;
        return lmdb_rename(lmdb->dir, DB_NEW_NAME, DB_NAME, ret_error);
    }
    if (err == 0) {
        return store_error_set(
            ret_error, ERR_CORRUPT,
            "the database %s/db is missing from a directory that had one: put it "
            "back, or empty the directory and join under a new node id",
            lmdb->dir);
    }
    if (err != ERR_NOT_FOUND) {
        return err;
    }
    err = lmdb_remove_unfinished(lmdb->dir, ret_error);
    if (err == 0) {
        err = make_new(lmdb, ret_error);
    }
    *ret_made = err == 0;
    return err;
}

/* One transaction; the first makes identity and meta, the next only moves LMDB to its other meta
 * page. */
static int make_commit(struct store_lmdb *lmdb, bool first, struct store_error *ret_error)
{
    MDB_txn *txn;
    int err;
    int rc = mdb_txn_begin(lmdb->env, NULL, 0, &txn);

    if (rc != 0) {
        return lmdb_error(ret_error, rc, "beginning to write");
    }
    err = first ? lmdb_write_new(lmdb, txn, ret_error)
                : lmdb_write_commit_number(lmdb, txn, ret_error);
    if (err != 0) {
        mdb_txn_abort(txn);
        return err;
    }
    rc = mdb_txn_commit(txn);
    return rc == 0 ? 0 : lmdb_error(ret_error, rc, "commit of a new store");
}

static int make_new(struct store_lmdb *lmdb, struct store_error *ret_error)
{
    char *path = lmdb_path(lmdb->dir, DB_NEW_NAME);
    int err = 0;

    if (mkdir(path, 0700) != 0) {
        err = store_error_set(ret_error, ERR_IO, "cannot make %s: %s", path, strerror(errno));
    }
    if (err == 0) {
        err = lmdb_env_open(lmdb, path, 0, true, ret_error);
    }
    if (err == 0) {
        err = make_commit(lmdb, true, ret_error);
    }
    if (err == 0) {
        err = make_commit(lmdb, false, ret_error);
    }
    if (lmdb->env != NULL) {
        mdb_env_close(lmdb->env);
        lmdb->env = NULL;
    }
    if (err == 0) {
        err = lmdb_sync_path(path, ret_error);
    }
    if (err == 0) {
        err = lmdb_marker_write(lmdb->dir, lmdb->identity.store_id, ret_error);
    }
    if (err == 0) {
        err = lmdb_rename(lmdb->dir, DB_NEW_NAME, DB_NAME, ret_error);
    }
    free(path);
    return err;
}

/* The tables live as long as the environment; opening them takes a transaction. */
static int open_tables(struct store_lmdb *lmdb, unsigned env_flags, bool create,
                       struct store_error *ret_error)
{
    const unsigned flags = create ? MDB_CREATE : 0;
    MDB_txn *txn;
    int rc = mdb_txn_begin(lmdb->env, NULL, env_flags & MDB_RDONLY, &txn);

    if (rc != 0) {
        return lmdb_error(ret_error, rc, "beginning to open the tables");
    }
    rc = mdb_dbi_open(txn, LMDB_TABLE_LOG, flags, &lmdb->log);
    if (rc == 0) {
        rc = mdb_dbi_open(txn, LMDB_TABLE_META, flags, &lmdb->meta);
    }
    if (rc == 0) {
        rc = mdb_dbi_open(txn, LMDB_TABLE_STATE, flags, &lmdb->state);
    }
    if (rc != 0) {
        mdb_txn_abort(txn);
        return lmdb_error(ret_error, rc, "opening the tables");
    }
    rc = mdb_txn_commit(txn);
    return rc == 0 ? 0 : lmdb_error(ret_error, rc, "opening the tables");
}

int lmdb_env_open(struct store_lmdb *lmdb, const char *path, unsigned flags, bool create,
                  struct store_error *ret_error)
{
    int rc = mdb_env_create(&lmdb->env);
    int err = 0;

    if (rc == 0 && lmdb->map_bytes > 0) {
        rc = mdb_env_set_mapsize(lmdb->env, lmdb->map_bytes);
    }
    if (rc == 0) {
        rc = mdb_env_set_maxdbs(lmdb->env, 3);
    }
    if (rc == 0) {
        rc = mdb_env_open(lmdb->env, path, MDB_NOTLS | flags, 0600);
    }
    if (rc != 0) {
        err = lmdb_error(ret_error, rc, path);
    } else {
        err = open_tables(lmdb, flags, create, ret_error);
    }
    if (err != 0) {
        mdb_env_close(lmdb->env);
        lmdb->env = NULL;
    }
    return err;
}

static int check_identity(const struct store_lmdb *lmdb, const struct store_identity *wanted,
                          struct store_error *ret_error)
{
    const struct store_identity *found = &lmdb->identity;

    if (found->node_id == wanted->node_id && strcmp(found->cluster_id, wanted->cluster_id) == 0) {
        return 0;
    }
    return store_error_set(
        ret_error, ERR_WRONG_NODE,
        "%.100s belongs to node %" PRIu64 " of cluster %s, not to node %" PRIu64 " of cluster %s",
        lmdb->dir, found->node_id, found->cluster_id, wanted->node_id, wanted->cluster_id);
}

/* The marker must name this very store; one that got lost is written again. */
static int check_marker(const struct store_lmdb *lmdb, struct store_error *ret_error)
{
    uint64_t store_id;
    int err = lmdb_marker_read(lmdb->dir, &store_id, ret_error);

    if (err == ERR_NOT_FOUND) {
        return lmdb_marker_write(lmdb->dir, lmdb->identity.store_id, ret_error);
    }
    if (err != 0) {
        return err;
    }
    if (store_id != lmdb->identity.store_id) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "%.100s/db is store %016" PRIx64 ", but the marker `made` beside it "
                               "names store %016" PRIx64,
                               lmdb->dir, lmdb->identity.store_id, store_id);
    }
    return 0;
}

static void lmdb_free(struct store_lmdb *lmdb)
{
    lmdb_snapshots_close_all(lmdb);
    if (lmdb->env != NULL) {
        mdb_env_close(lmdb->env);
    }
    if (lmdb->lock_fd >= 0) {
        (void)close(lmdb->lock_fd);
    }
    store_meta_release(&lmdb->now);
    free(lmdb->dir);
    free(lmdb);
}

static void lmdb_close(struct store *store)
{
    lmdb_free(lmdb_of(store));
}

static const struct store_ops lmdb_ops = {
    .load = lmdb_load,
    .commit = lmdb_commit,
    .snapshot_open = lmdb_snapshot_open,
    .snapshot_read = lmdb_snapshot_read,
    .snapshot_close = lmdb_snapshot_close,
    .space = lmdb_space,
    .close = lmdb_close,
};
