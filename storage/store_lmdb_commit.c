/*
 * store_lmdb_commit.c - writing the LMDB engine: a list of operations as one transaction.
 *
 * The happy path: each operation steps a copy of the meta (store_meta.c checks it) and changes log
 * and rows; then a chunk of a pending compaction; then the meta records that changed and the
 * transaction's number; then one durable commit, after which the copy becomes the meta.
 *
 * Failure modes: anything that fails aborts the transaction and leaves the store as it was, in
 * memory as on disk, except that a failed commit itself leaves the outcome unknown: the caller ends
 * the process. Thread: as store.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/store_lmdb_internal.h"

struct commit {
    struct store_lmdb *lmdb;
    MDB_txn *txn;
    struct store_meta meta;
    bool hard_changed;
    bool log_changed;
    bool position_changed;
    bool locals_changed;
    struct store_local *const *locals_before; /* those that are on disk */
    struct store_error *error;
};

/* No local records. */
static struct store_local *const no_locals[LIMIT_LOCAL_RECORDS];

static int put_format(struct commit *commit);
static int commit_op(struct commit *commit, const struct store_op *op);
static int commit_compaction(struct commit *commit);
static int write_changed_meta(struct commit *commit);
static int commit_failed(struct store_lmdb *lmdb, int rc, struct store_error *ret_error);

int lmdb_commit(struct store *store, struct store_op_list *list, struct store_error *ret_error)
{
    struct store_lmdb *lmdb = lmdb_of(store);
    struct commit commit = {.lmdb = lmdb, .locals_before = lmdb->now.locals, .error = ret_error};
    struct store_op *op;
    int err = 0;
    int rc = mdb_txn_begin(lmdb->env, NULL, 0, &commit.txn);

    if (rc != 0) {
        return lmdb_error(ret_error, rc, "beginning to write");
    }
    store_meta_copy(&commit.meta, &lmdb->now);
    STAILQ_FOREACH (op, list, link) {
        if (err != 0) {
            break;
        }
        err = commit_op(&commit, op);
    }
    if (err == 0) {
        err = commit_compaction(&commit);
    }
    if (err == 0) {
        err = write_changed_meta(&commit);
    }
    if (err != 0) {
        mdb_txn_abort(commit.txn);
    } else if ((rc = mdb_txn_commit(commit.txn)) != 0) {
        err = commit_failed(lmdb, rc, ret_error);
    }
    if (err != 0) {
        store_meta_release(&commit.meta);
        return err;
    }
    store_meta_release(&lmdb->now);
    lmdb->now = commit.meta;
    return 0;
}

/* A full disk shows as EIO when a write ended short. */
static int commit_failed(struct store_lmdb *lmdb, int rc, struct store_error *ret_error)
{
    struct store_space space;
    int err = lmdb_error(ret_error, rc, "commit");

    if (rc == EIO) {
        lmdb_space(&lmdb->store, &space);
        err = space.disk_free_bytes < (1 << 20) ? ERR_DISK_FULL : err;
    }
    return err;
}

/* Put a record of `len` bytes behind its checksum: payload in two parts, the first may be short. */
static int put_record(struct commit *commit, const char *table, MDB_dbi dbi, MDB_val *key,
                      const struct buf *head, const void *data, size_t len, unsigned flags)
{
    uint32_t crc = hash_crc32c_more(lmdb_crc_begin(table, key), head->data, head->len);
    MDB_val value = {LMDB_CRC_BYTES + head->len + len, NULL};
    uint8_t *at;
    char name[96];
    int rc = mdb_put(commit->txn, dbi, key, &value, MDB_RESERVE | flags);

    if (rc != 0) {
        return lmdb_error(commit->error, rc, lmdb_record_name(table, key, name));
    }
    crc = hash_crc32c_more(crc, data, len);
    at = value.mv_data;
    for (unsigned i = 0; i < LMDB_CRC_BYTES; i++) {
        at[i] = (uint8_t)(crc >> (8 * i));
    }
    if (head->len > 0) {
        memcpy(at + LMDB_CRC_BYTES, head->data, head->len);
    }
    if (len > 0) {
        memcpy(at + LMDB_CRC_BYTES + head->len, data, len);
    }
    return 0;
}

int lmdb_meta_put(struct store_lmdb *lmdb, MDB_txn *txn, const char *name,
                  const struct buf *payload, struct store_error *ret_error)
{
    struct commit commit = {.lmdb = lmdb, .txn = txn, .error = ret_error};
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};

    return put_record(&commit, LMDB_TABLE_META, lmdb->meta, &key, payload, NULL, 0, 0);
}

static int put_meta(struct commit *commit, const char *name, const struct buf *payload)
{
    return lmdb_meta_put(commit->lmdb, commit->txn, name, payload, commit->error);
}

static int put_format(struct commit *commit)
{
    struct buf payload = BUF_INIT;
    int err;

    buf_put_u32(&payload, LMDB_FORMAT_VERSION);
    buf_put_str16(&payload, LMDB_FORMAT_MAGIC, strlen(LMDB_FORMAT_MAGIC));
    err = put_meta(commit, "format", &payload);
    buf_free(&payload);
    return err;
}

static int put_entry(struct commit *commit, uint64_t index, const struct store_entry *entry)
{
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = {sizeof(key_bytes), key_bytes};
    struct buf head = BUF_INIT;
    int err;

    lmdb_log_key(index, key_bytes);
    buf_put_u64(&head, entry->term);
    buf_put_u8(&head, entry->type);
    err = put_record(commit, LMDB_TABLE_LOG, commit->lmdb->log, &key, &head, entry->data,
                     entry->len, MDB_APPEND);
    buf_free(&head);
    return err;
}

/* Delete the entries [from, to) of the log. */
static int delete_entries(struct commit *commit, uint64_t from, uint64_t to)
{
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = {sizeof(key_bytes), key_bytes};

    for (uint64_t index = from; index < to; index++) {
        int rc;

        lmdb_log_key(index, key_bytes);
        rc = mdb_del(commit->txn, commit->lmdb->log, &key, NULL);
        if (rc == MDB_NOTFOUND) {
            return store_error_set(commit->error, ERR_CORRUPT, "log entry %" PRIu64 " is missing",
                                   index);
        }
        if (rc != 0) {
            return lmdb_error(commit->error, rc, "deleting from table log");
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
    MDB_val key = {sizeof(key_bytes), key_bytes};
    MDB_val value;
    struct reader reader;
    char name[96];
    int err;
    int rc;

    lmdb_log_key(index, key_bytes);
    rc = mdb_get(commit->txn, commit->lmdb->log, &key, &value);
    if (rc != 0) {
        return rc == MDB_NOTFOUND
                   ? store_error_set(ret_error, ERR_CORRUPT, "log entry %" PRIu64 " is missing",
                                     index)
                   : lmdb_error(ret_error, rc, lmdb_record_name(LMDB_TABLE_LOG, &key, name));
    }
    err = lmdb_record_open(LMDB_TABLE_LOG, &key, &value, &reader, ret_error);
    *ret_term = err == 0 ? reader_u64(&reader) : 0;
    return err;
}

/* Put or delete a row; *digest moves from the row before to what is there then. */
static int change_row(struct commit *commit, const struct store_row *row, uint64_t *digest)
{
    static const struct buf no_head = BUF_INIT;
    MDB_dbi dbi = commit->lmdb->state;
    MDB_val key = {row->key_len, (void *)(uintptr_t)row->key};
    MDB_val old;
    struct reader reader;
    int rc = mdb_get(commit->txn, dbi, &key, &old);

    if (rc == 0) {
        int err = lmdb_record_open(LMDB_TABLE_STATE, &key, &old, &reader, commit->error);
        size_t old_len = reader_left(&reader);

        if (err != 0) {
            return err;
        }
        *digest -= hash_row(row->key, row->key_len, reader_bytes(&reader, old_len), old_len);
    } else if (rc != MDB_NOTFOUND) {
        return lmdb_error(commit->error, rc, "reading table state");
    }
    if (row->value_len == 0) {
        if (rc == 0) {
            rc = mdb_del(commit->txn, dbi, &key, NULL);
        }
        if (rc == MDB_NOTFOUND) {
            return store_error_no_row(commit->error, row);
        }
        return rc == 0 ? 0 : lmdb_error(commit->error, rc, "deleting from table state");
    }
    *digest += hash_row(row->key, row->key_len, row->value, row->value_len);
    return put_record(commit, LMDB_TABLE_STATE, dbi, &key, &no_head, row->value, row->value_len, 0);
}

static int commit_append(struct commit *commit, const struct store_op *op, uint64_t last_before)
{
    int err = delete_entries(commit, op->index, last_before + 1);

    for (uint32_t i = 0; i < op->entry_count && err == 0; i++) {
        err = put_entry(commit, op->index + i, &op->entries[i]);
    }
    return err;
}

static int commit_apply(struct commit *commit, const struct store_op *op, uint64_t digest)
{
    int err = 0;

    for (uint32_t i = 0; i < op->row_count && err == 0; i++) {
        err = change_row(commit, &op->rows[i], &digest);
    }
    return err != 0 ? err : store_meta_verify_digest(&op->position, digest, commit->error);
}

static int commit_install(struct commit *commit, const struct store_op *op)
{
    static const struct buf no_head = BUF_INIT;
    MDB_dbi state = commit->lmdb->state;
    struct reader reader;
    struct store_row row;
    int rc;
    int err =
        store_rows_check(op->rows_stream, op->rows_stream_len, op->position.digest, commit->error);

    if (err != 0) {
        return err;
    }
    rc = mdb_drop(commit->txn, commit->lmdb->log, 0);
    if (rc == 0) {
        rc = mdb_drop(commit->txn, state, 0);
    }
    if (rc != 0) {
        return lmdb_error(commit->error, rc, "emptying tables for an install");
    }
    reader_init(&reader, op->rows_stream, op->rows_stream_len);
    while (err == 0 && store_rows_next(&reader, &row)) {
        MDB_val key = {row.key_len, (void *)(uintptr_t)row.key};

        err = put_record(commit, LMDB_TABLE_STATE, state, &key, &no_head, row.value, row.value_len,
                         MDB_APPEND);
    }
    return err;
}

static int commit_op(struct commit *commit, const struct store_op *op)
{
    uint64_t last_before = commit->meta.last_index;
    uint64_t digest_before = commit->meta.position.digest;
    int err = store_meta_step(&commit->meta, op, entry_term, commit, commit->error);

    if (err != 0) {
        return err;
    }
    switch (op->kind) {
    case STORE_HARD_STATE:
        commit->hard_changed = true;
        return 0;
    case STORE_APPEND:
        commit->log_changed = true;
        return commit_append(commit, op, last_before);
    case STORE_APPLY:
        commit->position_changed = true;
        return commit_apply(commit, op, digest_before);
    case STORE_INSTALL:
        commit->log_changed = true;
        commit->position_changed = true;
        return commit_install(commit, op);
    case STORE_LOCAL:
        commit->locals_changed = true;
        return 0;
    case STORE_COMPACT:
        return 0; /* noted in the meta; entries go once the whole list is in */
    }
    UNREACHABLE("kind of a store operation");
}

static int commit_compaction(struct commit *commit)
{
    uint64_t count = store_meta_compact(&commit->meta);
    uint64_t first = commit->meta.first_index;

    if (count == 0) {
        return 0;
    }
    commit->log_changed = true;
    return delete_entries(commit, first - count, first);
}

static int write_changed_meta(struct commit *commit)
{
    const struct store_meta *meta = &commit->meta;
    struct buf payload = BUF_INIT;
    int err = 0;

    if (commit->hard_changed) {
        buf_put_u64(&payload, meta->term);
        buf_put_u64(&payload, meta->vote);
        err = put_meta(commit, "hard", &payload);
    }
    if (err == 0 && commit->log_changed) {
        payload.len = 0;
        buf_put_u64(&payload, meta->first_index);
        buf_put_u64(&payload, meta->last_index);
        buf_put_u64(&payload, meta->last_term);
        err = put_meta(commit, "log", &payload);
    }
    if (err == 0 && commit->position_changed) {
        payload.len = 0;
        buf_put_u64(&payload, meta->position.index);
        buf_put_u64(&payload, meta->position.term);
        buf_put_u64(&payload, meta->position.conf_index);
        buf_put_u64(&payload, meta->position.digest);
        buf_put_str32(&payload, meta->position.conf, meta->position.conf_len);
        err = put_meta(commit, "position", &payload);
    }
    buf_free(&payload);
    if (err == 0 && commit->locals_changed) {
        err = lmdb_locals_write(commit->lmdb, commit->txn, commit->locals_before, meta->locals,
                                commit->error);
    }
    return err != 0 ? err : lmdb_write_commit_number(commit->lmdb, commit->txn, commit->error);
}

int lmdb_write_commit_number(struct store_lmdb *lmdb, MDB_txn *txn, struct store_error *ret_error)
{
    struct commit commit = {.lmdb = lmdb, .txn = txn, .error = ret_error};
    struct buf payload = BUF_INIT;
    int err;

    buf_put_u64(&payload, mdb_txn_id(txn));
    err = put_meta(&commit, "commit", &payload);
    buf_free(&payload);
    return err;
}

int lmdb_write_new(struct store_lmdb *lmdb, MDB_txn *txn, struct store_error *ret_error)
{
    struct commit commit = {.lmdb = lmdb,
                            .txn = txn,
                            .hard_changed = true,
                            .log_changed = true,
                            .position_changed = true,
                            .locals_changed = true,
                            .locals_before = no_locals,
                            .error = ret_error};
    struct buf payload = BUF_INIT;
    int err = put_format(&commit);

    if (err == 0) {
        const struct store_identity *identity = &lmdb->identity;

        buf_put_str16(&payload, identity->cluster_id, strlen(identity->cluster_id));
        buf_put_u64(&payload, identity->node_id);
        buf_put_u64(&payload, identity->store_id);
        err = put_meta(&commit, "identity", &payload);
    }
    buf_free(&payload);
    store_meta_init(&commit.meta);
    return err != 0 ? err : write_changed_meta(&commit);
}
