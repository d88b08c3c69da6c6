/*
 * snapshot.c - see snapshot.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/snapshot.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "storage/lmdb/record.h"

struct store_snapshot {
    LIST_ENTRY(store_snapshot) link;
    struct lmdb_txn txn;
    struct store_error error; /* of the transaction */
    MDB_cursor *cursor;
    struct store_position position; /* conf owned */
    bool end;                       /* else the cursor stands on the next row */
};

/* Move the cursor; the end is no error. */
static int move(struct store_snapshot *snapshot, MDB_cursor_op op)
{
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_get(snapshot->cursor, &key, &value, op);

    ASSERT(!snapshot->end);
    if (rc == MDB_NOTFOUND) {
        snapshot->end = true;
        return 0;
    }
    return rc == 0 ? 0 : lmdb_error(&snapshot->error, rc, "reading a snapshot");
}

/* On the first row. */
static int begin(struct store_snapshot *snapshot, const struct lmdb_env *env)
{
    int err = lmdb_begin(env, MDB_RDONLY, &snapshot->txn, &snapshot->error);
    int rc;

    if (err != 0) {
        return err;
    }
    rc = mdb_cursor_open(snapshot->txn.txn, env->tables[LMDB_STATE], &snapshot->cursor);
    return rc != 0 ? lmdb_error(&snapshot->error, rc, "opening a snapshot")
                   : move(snapshot, MDB_FIRST);
}

int lmdb_snapshot_open(struct lmdb_snapshots *snapshots, const struct lmdb_env *env,
                       const struct store_position *position, struct store_snapshot **ret_snapshot,
                       struct store_position *ret_position)
{
    struct store_snapshot *snapshot;
    int err;

    if (snapshots->count == LIMIT_STORE_SNAPSHOTS) {
        return ERR_OVERLOADED;
    }
    snapshot = calloc(1, sizeof *snapshot);
    ASSERT(snapshot != NULL);
    err = begin(snapshot, env);
    /* Nothing was committed since: reads and commits are one thread's. */
    store_position_copy(&snapshot->position, position);
    LIST_INSERT_HEAD(&snapshots->open, snapshot, link);
    snapshots->count++;
    if (err != 0) {
        lmdb_snapshot_close(snapshots, snapshot);
        return err;
    }
    *ret_snapshot = snapshot;
    *ret_position = snapshot->position;
    return 0;
}

int lmdb_snapshot_read(struct store_snapshot *snapshot, size_t max_bytes, struct buf *chunk,
                       bool *ret_end)
{
    size_t before = chunk->len;
    int err = 0;

    while (err == 0 && !snapshot->end) {
        struct reader reader;
        MDB_val key;
        MDB_val value;
        int rc = mdb_cursor_get(snapshot->cursor, &key, &value, MDB_GET_CURRENT);
        size_t len;

        if (rc != 0) {
            return lmdb_error(&snapshot->error, rc, "reading a snapshot");
        }
        err = lmdb_record_open(LMDB_STATE, &key, &value, &reader, &snapshot->error);
        if (err != 0) {
            return err;
        }
        len = reader_left(&reader);
        if (chunk->len > before && chunk->len - before + 6 + key.mv_size + len > max_bytes) {
            break;
        }
        buf_put_str16(chunk, key.mv_data, key.mv_size);
        buf_put_str32(chunk, reader_bytes(&reader, len), len);
        err = move(snapshot, MDB_NEXT);
    }
    *ret_end = snapshot->end;
    return err;
}

void lmdb_snapshot_close(struct lmdb_snapshots *snapshots, struct store_snapshot *snapshot)
{
    ASSERT(snapshots->count > 0);
    snapshots->count--;
    LIST_REMOVE(snapshot, link);
    if (snapshot->cursor != NULL) {
        mdb_cursor_close(snapshot->cursor);
    }
    if (snapshot->txn.txn != NULL) {
        lmdb_abort(&snapshot->txn);
    }
    store_position_release(&snapshot->position);
    free(snapshot);
}

void lmdb_snapshots_close_all(struct lmdb_snapshots *snapshots)
{
    while (!LIST_EMPTY(&snapshots->open)) {
        lmdb_snapshot_close(snapshots, LIST_FIRST(&snapshots->open));
    }
    ASSERT(snapshots->count == 0);
}
