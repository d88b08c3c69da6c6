/*
 * store.c - see store.h: making and opening a store, commits, snapshots.
 *
 * Happy path of a first start: lock; build the environment in `db.new` with its identity, an empty
 * meta and two commits (so that leafd wrote both of LMDB's meta pages); write the marker `made`
 * with the store's id; rename `db.new` to `db`. A crash before the marker leaves a `db.new` that is
 * thrown away; a crash after it leaves a whole `db.new` that is only renamed. Every start: sync the
 * directory (an earlier start may have ended before that), check in a child, open, verify the
 * identity.
 *
 * Failure modes: as store_lmdb_open() says; a missing database beside a marker is ERR_CORRUPT,
 * never a first start. Thread: start-up, then as storage/store.h.
 */
#include "storage/lmdb/store.h"

#include <glib.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "storage/lmdb/check.h"
#include "storage/lmdb/dir.h"
#include "storage/lmdb/record.h"

#define MAP_STEP_BYTES (UINT64_C(1) << 20) /* whole pages, of whatever size */

/* A fixed view of the rows: a read transaction whose cursor is on the next row to read. While it is
 * open, LMDB reuses no page freed since, so it is ended when room runs out. */
struct lmdb_view {
    struct store_snapshot snapshot;
    LIST_ENTRY(lmdb_view) link;
    struct lmdb_txn txn;      /* none once it was ended */
    struct store_error error; /* of the transaction */
    MDB_cursor *cursor;
    struct store_position position; /* conf owned */
    uint64_t floor_bytes;           /* of room: below it the view ends */
    bool began_low;                 /* room was already low: low room does not end the view */
    bool end;                       /* else the cursor is on the next row */
};

LIST_HEAD(lmdb_views, lmdb_view);

struct store_lmdb {
    struct store store;
    struct store_lmdb_config config; /* its identity is the store's, once it is open */
    struct lmdb_dir dir;
    struct lmdb_env env;
    struct store_meta now; /* as of the last commit */
    struct lmdb_owed owed; /* likewise */
    GHashTable *owed_keys; /* a set of hashes of keys: of owed rows, and of some that were owed */
    uint32_t slice_rows;
    size_t owed_leaves;      /* a smaller table owes no rows */
    bool map_is_full;        /* the last commit that failed found no room, and wrote nothing */
    uint32_t idle_slices;    /* that a commit without operations puts in place */
    uint64_t bare_us;        /* duration of the last flush without a slice */
    struct lmdb_views views; /* the youngest first */
    unsigned view_count;
    uint64_t views_ended; /* for room */
};

static const struct store_ops lmdb_ops;

static struct store_lmdb *lmdb_of(struct store *store)
{
    ASSERT(store->ops == &lmdb_ops);
    return CONTAINER(store, struct store_lmdb, store);
}

/*
 * --- commit: a list of operations as one transaction ---
 *
 * Each operation moves a copy of the meta (store.h checks it) and changes log and rows; then a
 * chunk of a pending compaction; then the parts of the meta that changed and the transaction's
 * number; then one durable commit. A failure aborts the transaction and leaves the store as it was,
 * in memory and on disk. After a failed commit the outcome is unknown: the caller ends the process.
 */

struct commit {
    struct store_lmdb *lmdb;
    struct lmdb_txn txn;
    struct store_meta meta; /* as of the operations so far */
    struct lmdb_owed owed;  /* likewise; its digest is that of the rows in the table */
    bool in_pieces;         /* write nothing large: entries in pieces, and no slices */
};

/* --- the log --- */

/* Delete the entries [from, to) of the log. */
static int delete_entries(struct commit *commit, uint64_t from, uint64_t to)
{
    int err = 0;

    for (uint64_t index = from; index < to && err == 0; index++) {
        err = lmdb_entry_delete(&commit->txn, index, index <= commit->owed.pieces);
    }
    return err;
}

/* store_term_fn */
static int entry_term(void *engine, uint64_t index, uint64_t *ret_term)
{
    struct commit *commit = engine;
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = lmdb_log_key(index, key_bytes);
    struct reader reader;
    int err = lmdb_record_get(&commit->txn, LMDB_LOG, &key, &reader);

    *ret_term = err == 0 ? reader_u64(&reader) : 0;
    return err;
}

/* --- the rows --- */

static int commit_row(struct commit *commit, const struct state_row *row, unsigned flags)
{
    MDB_val key = {row->key_len, (void *)(uintptr_t)row->key};
    const struct lmdb_payload payload = {.data = row->value, .len = row->value_len};

    return lmdb_record_put(&commit->txn, LMDB_STATE, &key, &payload, flags);
}

/* Put or delete a row; *digest loses the old row and gains the new one. */
static int change_row(struct commit *commit, const struct state_row *row, uint64_t *digest)
{
    MDB_val key = {row->key_len, (void *)(uintptr_t)row->key};
    struct reader old;
    int err = lmdb_record_get(&commit->txn, LMDB_STATE, &key, &old);

    if (err == 0) {
        size_t old_len = reader_left(&old);

        *digest -= hash_row(row->key, row->key_len, reader_bytes(&old, old_len), old_len);
    } else if (err != ERR_NOT_FOUND) {
        return err;
    }
    if (row->value_len == 0) {
        return err == 0 ? lmdb_record_delete(&commit->txn, LMDB_STATE, &key)
                        : store_error_no_row(commit->txn.error, row);
    }
    *digest += hash_row(row->key, row->key_len, row->value, row->value_len);
    return commit_row(commit, row, 0);
}

/*
 * --- rows that are owed
 *
 * A bulk changes 10,000 rows. In a large table these are as many pages, and all operations of the
 * commit wait for them. So a large apply records its rows in consecutive slices, which take few
 * pages; the position moves with that commit. Each later commit puts one or more slices into the
 * table. While idle, the writer commits without operations.
 *
 * Invariants:
 *  - The state is the table overlaid with the slices, in their order. While a row is owed, later
 *    changes of it are owed too, in a slice after the others.
 *  - struct lmdb_owed always has the digest of the table; after the last slice it must be the
 *    position's.
 *  - No code reads the table while rows are owed: opening a store, load(), and the writer before it
 *    opens a view put them in place first.
 *  - Deletions are never owed: deleting an absent row is refused at once. Before an owed row is
 *    deleted, all slices are put in place, in the same transaction.
 *
 * When slices come faster than they are put in place, each commit puts all slices beyond
 * OWED_SLICES_MAX in place.
 */

#define OWED_SLICE_ROWS 128
#define OWED_LEAVES 1024    /* pages: 4 MiB are cheap to write at once, whatever changes in them */
#define OWED_FROM_SLICES 4  /* an apply of more rows is recorded in slices, */
#define OWED_SLICES_MAX 256 /* unless more would be owed then */
#define OWED_IDLE_SLICES_MAX 16 /* in a commit without operations */
#define OWED_SHARE 32           /* a commit with operations: 1 slice, and 1 more per so many owed */
#define OWED_SLOW_US 2000

static bool nothing_owed(const struct lmdb_owed *owed)
{
    return owed->first == owed->end;
}

static void *owed_key(const struct state_row *row)
{
    return (void *)(uintptr_t)hash_bytes(row->key, row->key_len, 0);
}

static bool owed_has(const struct store_lmdb *lmdb, const struct state_row *row)
{
    return g_hash_table_contains(lmdb->owed_keys, owed_key(row)) != FALSE;
}

/* Put this number of slices into the table. position: the state's, after the operations carried out
 * so far. */
static int settle(struct commit *commit, uint32_t slices, const struct store_position *position)
{
    struct lmdb_owed *owed = &commit->owed;
    BUF_LOCAL(rows);
    int err = 0;

    if (slices == 0 || nothing_owed(owed)) {
        return 0;
    }
    err = lmdb_rows_begin(&commit->txn);
    for (; slices > 0 && !nothing_owed(owed) && err == 0; slices--) {
        struct reader reader;
        struct state_row row;

        rows.len = 0;
        err = lmdb_slice_take(&commit->txn, owed->first++, &rows);
        reader_init(&reader, rows.data, rows.len);
        while (err == 0 && store_rows_next(&reader, &row)) {
            err = change_row(commit, &row, &owed->digest);
        }
    }
    return err != 0 || !nothing_owed(owed)
               ? err
               : store_meta_verify_digest(position, owed->digest, commit->txn.error);
}

static int row_place_order(const void *a, const void *b)
{
    const struct state_row *one = *(const struct state_row *const *)a;
    const struct state_row *other = *(const struct state_row *const *)b;
    int order = store_key_compare(one->key, one->key_len, other->key, other->key_len);

    return order != 0 ? order : one > other ? 1 : -1;
}

/* Are the operation's rows recorded in slices? If so, they count as owed from now on. */
static bool owes_all(struct commit *commit, const struct store_op *op)
{
    uint32_t slice_rows = commit->lmdb->slice_rows;
    MDB_stat stat;

    ASSERT(mdb_stat(commit->txn.txn, commit->lmdb->env.tables[LMDB_STATE], &stat) == 0);
    if (commit->in_pieces || op->row_count <= OWED_FROM_SLICES * slice_rows ||
        op->row_count > OWED_SLICES_MAX * slice_rows ||
        stat.ms_leaf_pages < commit->lmdb->owed_leaves) {
        return false;
    }
    for (uint32_t i = 0; i < op->row_count; i++) {
        if (op->rows[i].value_len > 0) {
            (void)g_hash_table_add(commit->lmdb->owed_keys, owed_key(&op->rows[i]));
        }
    }
    return true;
}

/* before: the state's position before the operation. */
static int commit_apply(struct commit *commit, const struct store_op *op,
                        const struct store_position *before)
{
    const struct state_row **rows = NULL; /* those that are owed from now on */
    struct lmdb_owed *owed = &commit->owed;
    bool all = owes_all(commit, op);
    uint64_t table;
    uint32_t count = 0;
    BUF_LOCAL(slice);
    int err = 0;

    for (uint32_t i = 0; i < op->row_count && err == 0; i++) {
        if (op->rows[i].value_len == 0 && owed_has(commit->lmdb, &op->rows[i])) {
            all = false;
            err = settle(commit, UINT32_MAX, before);
            break;
        }
    }
    if (all || !nothing_owed(owed)) { /* in pieces: nothing is */
        rows = MUST_HAVE(calloc(op->row_count + 1, sizeof *rows));
    }
    table = owed->digest;
    err = err == 0 ? lmdb_rows_begin(&commit->txn) : err;
    for (uint32_t i = 0; i < op->row_count && err == 0; i++) {
        const struct state_row *row = &op->rows[i];

        if (rows != NULL && row->value_len > 0 && (all || owed_has(commit->lmdb, row))) {
            rows[count++] = row;
        } else {
            err = change_row(commit, row, &owed->digest);
        }
    }
    /* Rows in slices are sorted by key, so that each slice changes few pages; rows of one key keep
     * their order. */
    if (count > 0) {
        qsort(rows, count, sizeof(struct state_row *), row_place_order);
    }
    for (uint32_t i = 0; i < count && err == 0; i++) {
        buf_put_str16(&slice, rows[i]->key, rows[i]->key_len);
        buf_put_str32(&slice, rows[i]->value, rows[i]->value_len);
        if ((i + 1) % commit->lmdb->slice_rows == 0 || i + 1 == count) {
            err = lmdb_slice_put(&commit->txn, owed->end++, &slice);
            slice.len = 0;
        }
    }
    if (err == 0 && count == 0) {
        err = store_meta_verify_digest(&op->position, before->digest + owed->digest - table,
                                       commit->txn.error);
    }
    free(rows);
    return err;
}

/* The log before the operation: first, last. */
static int commit_install(struct commit *commit, const struct store_op *op, uint64_t first,
                          uint64_t last)
{
    struct reader reader;
    struct state_row row;
    int err = store_rows_check(op->rows_stream, op->rows_stream_len, op->position.digest,
                               commit->txn.error);

    while (err == 0 && !nothing_owed(&commit->owed)) {
        err = lmdb_slice_take(&commit->txn, commit->owed.first++, NULL);
    }
    commit->owed.digest = op->position.digest;
    if (err == 0 && commit->owed.pieces >= first) {
        err = delete_entries(commit, first, last + 1);
    }
    if (err == 0) {
        err = lmdb_table_empty(&commit->txn, LMDB_LOG);
    }
    if (err == 0) {
        err = lmdb_table_empty(&commit->txn, LMDB_STATE);
    }
    reader_init(&reader, op->rows_stream, op->rows_stream_len);
    while (err == 0 && store_rows_next(&reader, &row)) {
        err = commit_row(commit, &row, MDB_APPEND);
    }
    ASSERT_IMPLIES(err == 0, reader_done(&reader));
    return err;
}

/* Entries at the front of the log are dropped after the whole list. */
static int commit_op(struct commit *commit, const struct store_op *op)
{
    uint64_t first_before = commit->meta.first_index;
    uint64_t last_before = commit->meta.last_index;
    const struct store_position before = {.index = commit->meta.position.index,
                                          .digest = commit->meta.position.digest};
    int err = store_meta_step(&commit->meta, op, entry_term, commit, commit->txn.error);

    if (err != 0) {
        return err;
    }
    switch (op->kind) {
    case STORE_APPEND:
        err = delete_entries(commit, op->index, last_before + 1);
        for (uint32_t i = 0; i < op->entry_count && err == 0; i++) {
            uint64_t index = op->index + i;

            ASSERT(index >= commit->meta.first_index && index <= commit->meta.last_index);
            if (commit->in_pieces && op->entries[i].len > LMDB_PIECE_BYTES &&
                index > commit->owed.pieces) {
                commit->owed.pieces = index;
            }
            err = lmdb_entry_put(&commit->txn, index, &op->entries[i], commit->in_pieces);
        }
        return err;
    case STORE_APPLY:
        return commit_apply(commit, op, &before);
    case STORE_INSTALL:
        return commit_install(commit, op, first_before, last_before);
    case STORE_HARD_STATE:
    case STORE_LOCAL:
    case STORE_COMPACT:
        return 0; /* the meta alone */
    case STORE_READ:
        break;
    }
    UNREACHABLE("kind of a store operation");
}

/* Put this number of owed slices in place, carry out the list, and set lmdb->now to the resulting
 * meta. in_pieces: in pages that may be anywhere; then all slices are put in place first. */
static int commit_whole(struct store_lmdb *lmdb, const struct store_op_list *list, uint32_t slices,
                        bool in_pieces, struct store_error *ret_error)
{
    struct commit commit = {.lmdb = lmdb, .owed = lmdb->owed, .in_pieces = in_pieces};
    uint32_t left = lmdb->owed.end - lmdb->owed.first;
    uint32_t over = left > OWED_SLICES_MAX ? left - OWED_SLICES_MAX : 0;
    bool is_idle = STAILQ_EMPTY(list);
    const struct store_op *op;
    int err = lmdb_begin(&lmdb->env, 0, &commit.txn, ret_error);

    lmdb->map_is_full = false;
    if (err != 0) {
        return err;
    }
    if (nothing_owed(&lmdb->owed)) {
        g_hash_table_remove_all(lmdb->owed_keys);
        slices = 0;
    }
    store_meta_copy(&commit.meta, &lmdb->now);
    err = settle(&commit, slices > over ? slices : over, &commit.meta.position);
    STAILQ_FOREACH (op, list, link) {
        err = err == 0 ? commit_op(&commit, op) : err;
    }
    if (err == 0) {
        uint64_t count = store_meta_compact(&commit.meta);
        uint64_t first = commit.meta.first_index;

        ASSERT(count <= LIMIT_COMPACT_PER_COMMIT && count < first);
        err = delete_entries(&commit, first - count, first);
    }
    if (nothing_owed(&commit.owed)) {
        commit.owed.first = commit.owed.end = 0;
    }
    if (commit.owed.pieces < commit.meta.first_index) {
        commit.owed.pieces = 0;
    }
    if (err == 0) {
        err = lmdb_meta_write(&commit.txn, &lmdb->config.identity, &lmdb->now, &commit.meta,
                              &lmdb->owed, &commit.owed);
    }
    err = lmdb_end(&commit.txn, err);
    if (err != 0) {
        store_meta_release(&commit.meta);
        lmdb->map_is_full = err == ERR_DISK_FULL && !commit.txn.write_failed;
        return err;
    }
    store_meta_release(&lmdb->now);
    lmdb->now = commit.meta;
    lmdb->owed = commit.owed;
    lmdb->store.owes = !nothing_owed(&commit.owed);
    lmdb->store.flush_us = commit.txn.flush_us;
    /* A commit without operations takes as many slices as make it about twice as long as one
     * without slices: operations that arrive meanwhile wait for it. */
    if (slices == 0) {
        lmdb->bare_us = nothing_owed(&lmdb->owed) ? lmdb->store.flush_us : lmdb->bare_us;
    } else if (is_idle && lmdb->store.flush_us > 2 * lmdb->bare_us + OWED_SLOW_US) {
        lmdb->idle_slices -= lmdb->idle_slices / 2;
    } else if (is_idle && lmdb->idle_slices < OWED_IDLE_SLICES_MAX) {
        lmdb->idle_slices++;
    }
    return 0;
}

/* Put all owed slices in place. */
static int settle_all(struct store_lmdb *lmdb, struct store_error *ret_error)
{
    struct store_op_list nothing = STAILQ_HEAD_INITIALIZER(nothing);

    return nothing_owed(&lmdb->owed) ? 0
                                     : commit_whole(lmdb, &nothing, UINT32_MAX, false, ret_error);
}

/* --- views, and room --- */

/* Pages it kept can be reused, except those that an older view keeps. */
static void end_view(struct lmdb_view *view)
{
    atomic_store(&view->snapshot.ended, true);
    if (view->cursor != NULL) {
        mdb_cursor_close(view->cursor);
        view->cursor = NULL;
    }
    if (view->txn.txn != NULL) {
        lmdb_abort(&view->txn);
    }
}

/* The oldest view that lives; NULL: there is none. */
static struct lmdb_view *oldest_view(const struct store_lmdb *lmdb)
{
    struct lmdb_view *oldest = NULL;
    struct lmdb_view *view;

    LIST_FOREACH(view, &lmdb->views, link)
    {
        oldest = atomic_load(&view->snapshot.ended) ? oldest : view;
    }
    return oldest;
}

/* After ending a view, the room is measured again for the next one. */
static void lmdb_op_space(struct store *store, struct store_space *ret_space)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    struct lmdb_view *oldest;

    for (;;) {
        oldest = oldest_view(lmdb);
        lmdb_env_space(&lmdb->env, oldest != NULL ? oldest->floor_bytes : 0, ret_space);
        ret_space->views_ended = lmdb->views_ended;
        if (oldest == NULL || (ret_space->room_bytes >= oldest->floor_bytes &&
                               (!ret_space->low || oldest->began_low))) {
            return;
        }
        end_view(oldest);
        lmdb->views_ended++;
    }
}

static bool may_retry(const struct store_lmdb *lmdb)
{
    return lmdb->map_is_full && !lmdb_disk_is_full(&lmdb->env);
}

static int lmdb_op_commit(struct store *store, struct store_op_list *list,
                          struct store_error *ret_error)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    uint32_t left = lmdb->owed.end - lmdb->owed.first;
    uint32_t slices = STAILQ_EMPTY(list) ? lmdb->idle_slices : 1 + left / OWED_SHARE;
    int err = commit_whole(lmdb, list, slices, false, ret_error);
    struct lmdb_view *oldest;

    /* A transaction that found no room in the map has written nothing: it is retried after a view
     * has released its pages, and at last in pieces. One whose write failed, or that found the disk
     * full, is never retried. */
    while (err == ERR_DISK_FULL && (oldest = oldest_view(lmdb)) != NULL && may_retry(lmdb)) {
        end_view(oldest);
        lmdb->views_ended++;
        err = commit_whole(lmdb, list, slices, false, ret_error);
    }
    if (err == ERR_DISK_FULL && may_retry(lmdb)) {
        err = commit_whole(lmdb, list, UINT32_MAX, true, ret_error);
    }
    ASSERT(lmdb->now.position.index <= lmdb->now.last_index);
    store->file_bytes = lmdb_env_file_bytes(&lmdb->env);
    return err;
}

/* Move the cursor; the end is no error. */
static int view_move(struct lmdb_view *view, MDB_cursor_op op)
{
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_get(view->cursor, &key, &value, op);

    ASSERT(!view->end);
    if (rc == MDB_NOTFOUND) {
        view->end = true;
        return 0;
    }
    return rc == 0 ? 0 : lmdb_error(&view->error, rc, "reading a snapshot");
}

static void lmdb_op_snapshot_close(struct store *store, struct store_snapshot *snapshot)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    struct lmdb_view *view = CONTAINER(snapshot, struct lmdb_view, snapshot);

    ASSERT(lmdb->view_count > 0);
    lmdb->view_count--;
    LIST_REMOVE(view, link);
    end_view(view);
    store_position_release(&view->position);
    free(view);
}

static int lmdb_op_snapshot_open(struct store *store, struct store_snapshot **ret_snapshot,
                                 struct store_position *ret_position)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    struct store_space space;
    struct lmdb_view *view;
    int err;
    int rc;

    if (lmdb->view_count == LIMIT_STORE_SNAPSHOTS) {
        return ERR_OVERLOADED;
    }
    ASSERT(nothing_owed(&lmdb->owed));
    lmdb_env_space(&lmdb->env, UINT64_MAX, &space);
    view = MUST_HAVE(calloc(1, sizeof *view));
    view->floor_bytes = space.room_bytes / 2;
    view->began_low = space.low;
    err = lmdb_begin(&lmdb->env, MDB_RDONLY, &view->txn, &view->error);
    if (err == 0) { /* on the first row */
        rc = mdb_cursor_open(view->txn.txn, lmdb->env.tables[LMDB_STATE], &view->cursor);
        err = rc != 0 ? lmdb_error(&view->error, rc, "opening a snapshot")
                      : view_move(view, MDB_FIRST);
    }
    /* No commit came between: reads and commits are on one thread. */
    store_position_copy(&view->position, &lmdb->now.position);
    LIST_INSERT_HEAD(&lmdb->views, view, link);
    lmdb->view_count++;
    if (err != 0) {
        lmdb_op_snapshot_close(store, &view->snapshot);
        return err;
    }
    *ret_snapshot = &view->snapshot;
    *ret_position = view->position;
    return 0;
}

static int lmdb_op_snapshot_read(struct store *store, struct store_snapshot *snapshot,
                                 size_t max_bytes, struct buf *chunk, bool *ret_end)
{
    struct lmdb_view *view = CONTAINER(snapshot, struct lmdb_view, snapshot);
    size_t before = chunk->len;
    int err = atomic_load(&snapshot->ended) ? ERR_DISK_FULL : 0;

    (void)lmdb_of(store);
    while (err == 0 && !view->end) {
        struct reader reader;
        MDB_val key;
        MDB_val value;
        int rc = mdb_cursor_get(view->cursor, &key, &value, MDB_GET_CURRENT);
        size_t len;

        if (rc != 0) {
            return lmdb_error(&view->error, rc, "reading a snapshot");
        }
        err = lmdb_record_open(LMDB_STATE, &key, &value, &reader, &view->error);
        if (err != 0) {
            return err; /* a row that is damaged is not sent */
        }
        len = reader_left(&reader);
        if (chunk->len > before && chunk->len - before + 6 + key.mv_size + len > max_bytes) {
            break;
        }
        buf_put_str16(chunk, key.mv_data, key.mv_size);
        buf_put_str32(chunk, reader_bytes(&reader, len), len);
        err = view_move(view, MDB_NEXT);
    }
    *ret_end = view->end && err == 0;
    return err;
}

/* --- making a store --- */

/* The directory exists. A file that is already larger keeps its size. */
static uint64_t store_map_bytes(const struct store_lmdb *lmdb)
{
    struct statvfs fs;
    uint64_t disk_bytes;

    if (!lmdb->config.map_by_disk || statvfs(lmdb->dir.path, &fs) != 0) {
        return lmdb->config.map_bytes;
    }
    disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize / 100 * STORE_LMDB_MAP_PERCENT;
    disk_bytes = disk_bytes / MAP_STEP_BYTES * MAP_STEP_BYTES;
    return disk_bytes < MAP_STEP_BYTES || disk_bytes > lmdb->config.map_bytes
               ? lmdb->config.map_bytes
               : disk_bytes;
}

/* Fill `db.new`: one transaction writes identity and meta; the next moves LMDB to its other meta
 * page and carries out lmdb->config.first. Then write the marker and rename `db.new`. */
static int make_new(struct store_lmdb *lmdb, struct store_error *ret_error)
{
    LMDB_PATH(path, lmdb->dir.path, LMDB_DB_NEW);
    struct store_op_list nothing = STAILQ_HEAD_INITIALIZER(nothing);
    struct lmdb_txn txn;
    int err = lmdb_dir_make_new(&lmdb->dir, ret_error);

    ASSERT(lmdb->dir.lock_fd >= 0);
    if (err == 0) {
        err = lmdb_env_open(&lmdb->env, path, store_map_bytes(lmdb), MDB_CREATE, ret_error);
    }
    if (err == 0) {
        err = lmdb_begin(&lmdb->env, 0, &txn, ret_error);
    }
    lmdb->now = (struct store_meta){.first_index = 1};
    if (err == 0) {
        err = lmdb_end(&txn, lmdb_meta_write(&txn, &lmdb->config.identity, NULL, &lmdb->now, NULL,
                                             &lmdb->owed));
    }
    if (err == 0) {
        err = commit_whole(lmdb, lmdb->config.first != NULL ? lmdb->config.first : &nothing, 0,
                           false, ret_error);
    }
    if (err == 0) {
        err = settle_all(lmdb, ret_error);
    }
    store_meta_release(&lmdb->now);
    lmdb_env_close(&lmdb->env);
    if (err == 0) {
        err = lmdb_dir_sync(&lmdb->dir, LMDB_DB_NEW, ret_error);
    }
    if (err == 0) {
        err = lmdb_marker_write(&lmdb->dir, lmdb->config.identity.store_id, ret_error);
    }
    return err != 0 ? err : lmdb_dir_rename(&lmdb->dir, LMDB_DB_NEW, LMDB_DB, ret_error);
}

static int make_or_find(struct store_lmdb *lmdb, bool *ret_made, struct store_error *ret_error)
{
    const struct lmdb_dir *dir = &lmdb->dir;
    uint64_t store_id;
    int err;

    *ret_made = false;
    if (lmdb->config.use != STORE_LMDB_FRESH && lmdb_dir_has(dir, LMDB_DB)) {
        /* The start that renamed it may have ended before the name was durable. */
        return lmdb_dir_sync(dir, ".", ret_error);
    }
    err = lmdb_marker_read(dir, &store_id, ret_error);
    if (lmdb->config.use == STORE_LMDB_FRESH &&
        (err != ERR_NOT_FOUND || lmdb_dir_has(dir, LMDB_DB))) {
        return store_error_set(ret_error, ERR_EXISTS, "there is a store in %.100s already",
                               dir->path);
    }
    if (err == 0 && lmdb_dir_has(dir, LMDB_DB_NEW)) {
        /* The crash was between marker and rename: `db.new` is whole, and was never opened. */
        *ret_made = true;
        return lmdb_dir_rename(dir, LMDB_DB_NEW, LMDB_DB, ret_error);
    }
    if (err == 0) {
        return store_error_set(
            ret_error, ERR_CORRUPT,
            "the database %s/db is missing from a directory that had one: put it "
            "back, or empty the directory and join under a new node id",
            dir->path);
    }
    if (err != ERR_NOT_FOUND) {
        return err;
    }
    err = make_new(lmdb, ret_error);
    *ret_made = err == 0;
    return err;
}

/* --- opening it --- */

static int open_checked(struct store_lmdb *lmdb, const struct store_identity *wanted,
                        struct store_error *ret_error)
{
    LMDB_PATH(path, lmdb->dir.path, LMDB_DB);
    const struct store_identity *found = &lmdb->config.identity;
    uint64_t store_id = 0;
    struct lmdb_txn txn;
    int err = lmdb_env_open(&lmdb->env, path, store_map_bytes(lmdb), 0, ret_error);

    ASSERT(lmdb->dir.lock_fd >= 0);
    if (err == 0) {
        err = lmdb_begin(&lmdb->env, MDB_RDONLY, &txn, ret_error);
    }
    if (err == 0) {
        err = lmdb_meta_read(&txn, &lmdb->config.identity, &lmdb->now, &lmdb->owed);
        lmdb_abort(&txn);
    }
    if (err == 0 && lmdb->config.use != STORE_LMDB_LOOK &&
        (found->node_id != wanted->node_id || strcmp(found->cluster_id, wanted->cluster_id) != 0)) {
        err = store_error_set(ret_error, ERR_WRONG_NODE,
                              "%.100s belongs to node %" PRIu64
                              " of cluster %s, not to node %" PRIu64 " of cluster %s",
                              lmdb->dir.path, found->node_id, found->cluster_id, wanted->node_id,
                              wanted->cluster_id);
    }
    /* The marker must name this store; a lost marker is written again. */
    if (err == 0) {
        err = lmdb_marker_read(&lmdb->dir, &store_id, ret_error);
        if (err == 0 && store_id != found->store_id) {
            err = store_error_set(ret_error, ERR_CORRUPT,
                                  "%.100s/db is store %016" PRIx64
                                  ", but the marker `made` beside it names store %016" PRIx64,
                                  lmdb->dir.path, found->store_id, store_id);
        } else if (err == ERR_NOT_FOUND) {
            err = lmdb_marker_write(&lmdb->dir, found->store_id, ret_error);
        }
    }
    if (err == 0) {
        err = settle_all(lmdb, ret_error);
    }
    return err != 0 ? err : lmdb_dir_note_data(&lmdb->dir, ret_error);
}

static bool lmdb_op_lost(struct store *store, struct store_error *ret_error)
{
    return lmdb_dir_lost(&lmdb_of(store)->dir, ret_error);
}

static void lmdb_op_close(struct store *store)
{
    struct store_lmdb *lmdb = lmdb_of(store);

    while (!LIST_EMPTY(&lmdb->views)) {
        lmdb_op_snapshot_close(store, &LIST_FIRST(&lmdb->views)->snapshot);
    }
    ASSERT(lmdb->view_count == 0);
    lmdb_env_close(&lmdb->env);
    if (lmdb->dir.lock_fd >= 0) {
        (void)close(lmdb->dir.lock_fd);
    }
    free(lmdb->dir.path);
    store_meta_release(&lmdb->now);
    g_hash_table_destroy(lmdb->owed_keys);
    free(lmdb);
}

int store_lmdb_open(const struct store_lmdb_config *config, struct store **ret_store,
                    bool *ret_made, struct store_error *ret_error)
{
    struct store_lmdb *lmdb = MUST_HAVE(calloc(1, sizeof *lmdb));
    struct lmdb_checker checker;
    bool made = false;
    bool is_forked;
    int err;

    ASSERT(config->map_bytes >= (1 << 20));
    ASSERT(strnlen(config->identity.cluster_id, LIMIT_CLUSTER_ID_BYTES + 1) <=
           LIMIT_CLUSTER_ID_BYTES);
    lmdb->store.ops = &lmdb_ops;
    lmdb->owed_keys = g_hash_table_new(NULL, NULL); /* compares the hashes themselves */
    ASSERT((config->first != NULL) == (config->use == STORE_LMDB_FRESH));
    lmdb->config = *config;
    lmdb->dir = (struct lmdb_dir){.path = MUST_HAVE(strdup(config->dir)), .lock_fd = -1};
    lmdb->slice_rows = config->slice_rows > 0 ? config->slice_rows : OWED_SLICE_ROWS;
    lmdb->owed_leaves = config->slice_rows > 0 ? 0 : OWED_LEAVES;
    lmdb->idle_slices = 1;

    err = lmdb_checker_start(&checker, lmdb->dir.path, ret_error);
    is_forked = err == 0;
    if (err == 0 && lmdb->config.use == STORE_LMDB_LOOK && !lmdb_dir_has(&lmdb->dir, LMDB_DB) &&
        !(lmdb_dir_has(&lmdb->dir, LMDB_DB_NEW) && lmdb_dir_has(&lmdb->dir, LMDB_MARKER))) {
        err = store_error_set(ret_error, ERR_NOT_FOUND, "there is no store in %.100s",
                              lmdb->dir.path); /* neither a store nor a lock must be made */
    }
    if (err == 0) {
        err = lmdb_dir_lock(
            &lmdb->dir, lmdb->config.loose_mode || lmdb->config.use == STORE_LMDB_LOOK, ret_error);
    }
    if (err == 0) {
        err = make_or_find(lmdb, &made, ret_error);
    }
    if (err == 0) {
        err = lmdb_checker_run(&checker, lmdb->dir.path, ret_error);
    } else if (is_forked) {
        (void)lmdb_checker_end(&checker);
    }
    if (err == 0) {
        err = open_checked(lmdb, &config->identity, ret_error);
    }
    if (err != 0) {
        lmdb_op_close(&lmdb->store);
        return err;
    }
    *ret_store = &lmdb->store;
    *ret_made = made;
    return 0;
}

/* --- struct store_ops --- */

static int lmdb_op_load(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn,
                        void *data, struct store_error *ret_error)
{
    int err = settle_all(lmdb_of(store), ret_error);

    return err != 0 ? err : lmdb_load(&lmdb_of(store)->env, ret_loaded, row_fn, data, ret_error);
}

static const struct store_ops lmdb_ops = {
    .load = lmdb_op_load,
    .commit = lmdb_op_commit,
    .snapshot_open = lmdb_op_snapshot_open,
    .snapshot_read = lmdb_op_snapshot_read,
    .snapshot_close = lmdb_op_snapshot_close,
    .space = lmdb_op_space,
    .lost = lmdb_op_lost,
    .close = lmdb_op_close,
};

/* --- the library --- */

const char *store_lmdb_version(void)
{
    static _Thread_local char text[48];
    int major;
    int minor;
    int patch;
    int len;

    (void)mdb_version(&major, &minor, &patch);
    len = snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    ASSERT(len > 0 && len < (int)sizeof text);
    return text;
}
