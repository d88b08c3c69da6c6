/*
 * store_lmdb_snapshot.c - fixed views of the rows as read transactions, and how much space is left.
 *
 * A snapshot is a read transaction with a cursor that stands on the next row to be read. While it
 * lives LMDB reuses no page of its view, so the transfer that reads it is bounded
 * (LIMIT_SNAPSHOT_MS).
 *
 * Failure modes: ERR_CORRUPT for a row whose checksum is wrong: it is not sent; ERR_OVERLOADED
 * beyond LIMIT_STORE_SNAPSHOTS. Thread: as store.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "src/base/assert.h"
#include "storage/store_lmdb_internal.h"

struct store_snapshot {
    LIST_ENTRY(store_snapshot) link;
    MDB_txn *txn;
    MDB_cursor *cursor;
    struct store_position position; /* conf owned */
    bool end;                       /* else the cursor stands on the next row */
};

/* Move the cursor; the end is no error. */
static int move(struct store_snapshot *snapshot, MDB_cursor_op op, struct store_error *ret_error)
{
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_get(snapshot->cursor, &key, &value, op);

    if (rc == MDB_NOTFOUND) {
        snapshot->end = true;
        return 0;
    }
    return rc == 0 ? 0 : lmdb_error(ret_error, rc, "reading a snapshot");
}

int lmdb_snapshot_open(struct store *store, struct store_snapshot **ret_snapshot,
                       struct store_position *ret_position)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    struct store_snapshot *snapshot;
    struct store_error error;
    int err = 0;
    int rc;

    if (lmdb->snapshot_count == LIMIT_STORE_SNAPSHOTS) {
        return ERR_OVERLOADED;
    }
    snapshot = calloc(1, sizeof(*snapshot));
    ASSERT(snapshot != NULL);
    rc = mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &snapshot->txn);
    if (rc == 0) {
        rc = mdb_cursor_open(snapshot->txn, lmdb->state, &snapshot->cursor);
    }
    err =
        rc != 0 ? lmdb_error(&error, rc, "opening a snapshot") : move(snapshot, MDB_FIRST, &error);
    /* Nothing was committed since: reads and commits are one thread's. */
    store_position_copy(&snapshot->position, &lmdb->now.position);
    LIST_INSERT_HEAD(&lmdb->snapshots, snapshot, link);
    lmdb->snapshot_count++;
    if (err != 0) {
        lmdb_snapshot_close(store, snapshot);
        return err;
    }
    *ret_snapshot = snapshot;
    *ret_position = snapshot->position;
    return 0;
}

int lmdb_snapshot_read(struct store *store, struct store_snapshot *snapshot, size_t max_bytes,
                       struct buf *chunk, bool *ret_end)
{
    size_t before = chunk->len;
    int err = 0;

    (void)lmdb_of(store);
    while (err == 0 && !snapshot->end) {
        struct store_error error;
        struct reader reader;
        MDB_val key;
        MDB_val value;
        int rc = mdb_cursor_get(snapshot->cursor, &key, &value, MDB_GET_CURRENT);
        size_t len;

        if (rc != 0) {
            return lmdb_error(&error, rc, "reading a snapshot");
        }
        err = lmdb_record_open(LMDB_TABLE_STATE, &key, &value, &reader, &error);
        if (err != 0) {
            return err;
        }
        len = reader_left(&reader);
        if (chunk->len > before && chunk->len - before + 6 + key.mv_size + len > max_bytes) {
            break;
        }
        buf_put_str16(chunk, key.mv_data, key.mv_size);
        buf_put_str32(chunk, reader_bytes(&reader, len), len);
        err = move(snapshot, MDB_NEXT, &error);
    }
    *ret_end = snapshot->end;
    return err;
}

void lmdb_snapshot_close(struct store *store, struct store_snapshot *snapshot)
{
    struct store_lmdb *lmdb = lmdb_of(store);

    ASSERT(lmdb->snapshot_count > 0);
    lmdb->snapshot_count--;
    LIST_REMOVE(snapshot, link);
    if (snapshot->cursor != NULL) {
        mdb_cursor_close(snapshot->cursor);
    }
    if (snapshot->txn != NULL) {
        mdb_txn_abort(snapshot->txn);
    }
    store_position_release(&snapshot->position);
    free(snapshot);
}

void lmdb_snapshots_close_all(struct store_lmdb *lmdb)
{
    while (!LIST_EMPTY(&lmdb->snapshots)) {
        lmdb_snapshot_close(&lmdb->store, LIST_FIRST(&lmdb->snapshots));
    }
}

/* Pages on LMDB's free list (its database 0, as mdb_stat reads it): each record is a count and as
 * many page numbers. */
static uint64_t free_pages(struct store_lmdb *lmdb)
{
    uint64_t pages = 0;
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    MDB_val key;
    MDB_val value;

    if (mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) != 0) {
        return 0;
    }
    if (mdb_cursor_open(txn, 0, &cursor) == 0) {
        while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0 && value.mv_size >= 8) {
            size_t count;

            memcpy(&count, value.mv_data, sizeof(count));
            pages += count;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return pages;
}

/* The free list is read only when the file has grown so far that it matters: the file never
 * shrinks, so its size alone would say "low" for ever after one burst. */
void lmdb_space(struct store *store, struct store_space *ret_space)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    struct store_space space = {.disk_free_bytes = UINT64_MAX};
    struct statvfs fs;
    MDB_envinfo info;
    MDB_stat stat;
    uint64_t low_bytes;
    uint64_t file_free_bytes;
    uint64_t reusable_bytes = 0;

    ASSERT(mdb_env_info(lmdb->env, &info) == 0);
    ASSERT(mdb_env_stat(lmdb->env, &stat) == 0);
    space.map_bytes = info.me_mapsize;
    space.used_bytes = (info.me_last_pgno + 1) * stat.ms_psize;
    low_bytes = space.map_bytes / 100 * LIMIT_STORE_LOW_PERCENT;
    if (statvfs(lmdb->dir, &fs) == 0) {
        space.disk_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    }
    if (space.map_bytes - space.used_bytes < low_bytes ||
        space.disk_free_bytes < LIMIT_STORE_LOW_DISK_BYTES) {
        reusable_bytes = free_pages(lmdb) * stat.ms_psize;
        space.used_bytes -= reusable_bytes < space.used_bytes ? reusable_bytes : space.used_bytes;
    }
    /* What the file still holds free needs no disk. */
    file_free_bytes = space.disk_free_bytes > UINT64_MAX - reusable_bytes
                          ? UINT64_MAX
                          : space.disk_free_bytes + reusable_bytes;
    space.low = space.map_bytes - space.used_bytes < low_bytes ||
                file_free_bytes < LIMIT_STORE_LOW_DISK_BYTES;
    *ret_space = space;
}
