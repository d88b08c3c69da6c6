/*
 * commit.c - see commit.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/commit.h"

#include <inttypes.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/lmdb/meta.h"
#include "storage/lmdb/record.h"

struct commit {
    struct lmdb_txn txn;
    struct store_meta meta; /* as of the operations so far */
};

/* --- the log --- */

static int entry_missing(struct store_error *ret_error, uint64_t index)
{
    return store_error_set(ret_error, ERR_CORRUPT, "log entry %" PRIu64 " is missing", index);
}

static int put_entry(struct commit *commit, uint64_t index, const struct store_entry *entry)
{
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = {sizeof key_bytes, key_bytes};
    struct lmdb_payload payload = {.data = entry->data, .len = entry->len};
    struct buf head = BUF_INIT;
    int err;

    ASSERT(index >= commit->meta.first_index && index <= commit->meta.last_index);
    lmdb_log_key(index, key_bytes);
    buf_put_u64(&head, entry->term);
    buf_put_u8(&head, entry->type);
    payload.head = head.data;
    payload.head_len = head.len;
    err = lmdb_record_put(&commit->txn, LMDB_LOG, &key, &payload, MDB_APPEND);
    buf_free(&head);
    return err;
}

/* Delete the entries [from, to) of the log. */
static int delete_entries(struct commit *commit, uint64_t from, uint64_t to)
{
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = {sizeof key_bytes, key_bytes};

    for (uint64_t index = from; index < to; index++) {
        int err;

        lmdb_log_key(index, key_bytes);
        err = lmdb_record_delete(&commit->txn, LMDB_LOG, &key);
        if (err != 0) {
            return err == ERR_NOT_FOUND ? entry_missing(commit->txn.error, index) : err;
        }
    }
    return 0;
}

/* store_term_fn */
static int entry_term(void *engine, uint64_t index, uint64_t *ret_term,
                      struct store_error *ret_error)
{
    struct commit *commit = engine;
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = {sizeof key_bytes, key_bytes};
    struct reader reader;
    int err;

    ASSERT(ret_error == commit->txn.error);
    lmdb_log_key(index, key_bytes);
    err = lmdb_record_get(&commit->txn, LMDB_LOG, &key, &reader);
    if (err != 0) {
        return err == ERR_NOT_FOUND ? entry_missing(ret_error, index) : err;
    }
    *ret_term = reader_u64(&reader);
    return 0;
}

static int commit_append(struct commit *commit, const struct store_op *op, uint64_t last_before)
{
    int err = delete_entries(commit, op->index, last_before + 1);

    for (uint32_t i = 0; i < op->entry_count && err == 0; i++) {
        err = put_entry(commit, op->index + i, &op->entries[i]);
    }
    return err;
}

static int commit_compaction(struct commit *commit)
{
    uint64_t count = store_meta_compact(&commit->meta);
    uint64_t first = commit->meta.first_index;

    ASSERT(count <= LIMIT_COMPACT_PER_COMMIT && count < first);
    return delete_entries(commit, first - count, first);
}

/* --- the rows --- */

static int put_row(struct commit *commit, const struct store_row *row, unsigned flags)
{
    MDB_val key = {row->key_len, (void *)(uintptr_t)row->key};
    const struct lmdb_payload payload = {.data = row->value, .len = row->value_len};

    return lmdb_record_put(&commit->txn, LMDB_STATE, &key, &payload, flags);
}

/* Put or delete a row; *digest moves from the row before to what is there then. */
static int change_row(struct commit *commit, const struct store_row *row, uint64_t *digest)
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
        err = err == 0 ? lmdb_record_delete(&commit->txn, LMDB_STATE, &key) : err;
        return err == ERR_NOT_FOUND ? store_error_no_row(commit->txn.error, row) : err;
    }
    *digest += hash_row(row->key, row->key_len, row->value, row->value_len);
    return put_row(commit, row, 0);
}

static int commit_apply(struct commit *commit, const struct store_op *op, uint64_t digest)
{
    int err = 0;

    for (uint32_t i = 0; i < op->row_count && err == 0; i++) {
        err = change_row(commit, &op->rows[i], &digest);
    }
    return err != 0 ? err : store_meta_verify_digest(&op->position, digest, commit->txn.error);
}

static int commit_install(struct commit *commit, const struct store_op *op)
{
    struct reader reader;
    struct store_row row;
    int err = store_rows_check(op->rows_stream, op->rows_stream_len, op->position.digest,
                               commit->txn.error);

    if (err == 0) {
        err = lmdb_table_empty(&commit->txn, LMDB_LOG);
    }
    if (err == 0) {
        err = lmdb_table_empty(&commit->txn, LMDB_STATE);
    }
    reader_init(&reader, op->rows_stream, op->rows_stream_len);
    while (err == 0 && store_rows_next(&reader, &row)) {
        err = put_row(commit, &row, MDB_APPEND);
    }
    ASSERT_IMPLIES(err == 0, reader_done(&reader));
    return err;
}

static int commit_op(struct commit *commit, const struct store_op *op)
{
    uint64_t last_before = commit->meta.last_index;
    uint64_t digest_before = commit->meta.position.digest;
    int err = store_meta_step(&commit->meta, op, entry_term, commit, commit->txn.error);

    if (err != 0) {
        return err;
    }
    switch (op->kind) {
    case STORE_APPEND:
        return commit_append(commit, op, last_before);
    case STORE_APPLY:
        return commit_apply(commit, op, digest_before);
    case STORE_INSTALL:
        return commit_install(commit, op);
    case STORE_HARD_STATE:
    case STORE_LOCAL:
    case STORE_COMPACT:
        return 0; /* the meta alone; entries are dropped once the whole list is in */
    }
    UNREACHABLE("kind of a store operation");
}

static int commit_list(struct commit *commit, const struct store_meta *before,
                       const struct store_op_list *list)
{
    const struct store_op *op;
    int err = 0;

    STAILQ_FOREACH (op, list, link) {
        err = commit_op(commit, op);
        if (err != 0) {
            return err;
        }
    }
    err = commit_compaction(commit);
    return err != 0 ? err : lmdb_meta_write(&commit->txn, before, &commit->meta);
}

int lmdb_commit(const struct lmdb_env *env, struct store_meta *now,
                const struct store_op_list *list, struct store_error *ret_error)
{
    struct commit commit;
    int err = lmdb_begin(env, 0, &commit.txn, ret_error);

    if (err != 0) {
        return err;
    }
    store_meta_copy(&commit.meta, now);
    err = lmdb_end(&commit.txn, commit_list(&commit, now, list));
    if (err != 0) {
        store_meta_release(&commit.meta);
        return err;
    }
    store_meta_release(now);
    *now = commit.meta;
    return 0;
}
