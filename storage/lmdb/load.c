/*
 * load.c - see load.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/load.h"

#include <inttypes.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/lmdb/meta.h"
#include "storage/lmdb/record.h"

/* Where a load puts what it reads; loaded and row_fn may be NULL. */
struct load {
    struct lmdb_txn txn;
    struct store_meta meta;
    struct store_loaded *loaded;
    store_row_fn row_fn;
    void *data;
    uint64_t index;  /* of the entry that must come next */
    uint64_t term;   /* of the entry before */
    uint64_t digest; /* of the rows so far */
};

/* lmdb_record_fn: the record must be the entry at load->index, of a term not below load->term. */
static int load_entry(void *data, const MDB_val *key, const MDB_val *value)
{
    struct load *load = data;
    struct store_error *error = load->txn.error;
    uint64_t index = load->index;
    struct store_entry entry;
    struct reader reader;
    char name[LMDB_RECORD_NAME_BYTES];
    int err;

    if (key->mv_size != LMDB_LOG_KEY_BYTES || lmdb_log_index(key->mv_data) != index) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is missing: %s stands in its place", index,
                               lmdb_record_name(LMDB_LOG, key, name));
    }
    err = lmdb_record_open(LMDB_LOG, key, value, &reader, error);
    if (err != 0) {
        return err;
    }
    entry.term = reader_u64(&reader);
    entry.type = reader_u8(&reader);
    entry.len = (uint32_t)reader_left(&reader);
    entry.data = reader_bytes(&reader, entry.len);
    if (reader.bad || entry.type < 1 || entry.type > 3 || entry.len > LIMIT_ENTRY_BYTES) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is malformed: type %u, %" PRIu32 " bytes",
                               index, entry.type, entry.len);
    }
    if (entry.term < load->term || entry.term == 0 || entry.term > load->meta.term) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64 " after %" PRIu64
                               ", hard state's is %" PRIu64,
                               index, entry.term, load->term, load->meta.term);
    }
    if (index == load->meta.position.index && entry.term != load->meta.position.term) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64
                               ", but the state has applied one of term %" PRIu64,
                               index, entry.term, load->meta.position.term);
    }
    if (index > load->meta.last_index) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is beyond the last, %" PRIu64, index,
                               load->meta.last_index);
    }
    ASSERT(index >= load->meta.first_index);
    load->term = entry.term;
    load->index++;
    if (load->loaded != NULL) {
        store_loaded_add(load->loaded, &entry);
    }
    return 0;
}

static int load_log(struct load *load)
{
    const struct store_meta *meta = &load->meta;
    int err;

    ASSERT(meta->first_index >= 1 && meta->last_index + 1 >= meta->first_index);
    load->index = meta->first_index;
    err = lmdb_record_each(&load->txn, LMDB_LOG, load_entry, load);
    if (err != 0) {
        return err;
    }
    if (load->index != meta->last_index + 1) {
        return store_error_set(load->txn.error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is missing: the log must reach %" PRIu64,
                               load->index, meta->last_index);
    }
    if (load->index > meta->first_index && load->term != meta->last_term) {
        return store_error_set(load->txn.error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64 ", meta says %" PRIu64,
                               meta->last_index, load->term, meta->last_term);
    }
    ASSERT(load->loaded == NULL ||
           load->loaded->entry_count == meta->last_index + 1 - meta->first_index);
    return 0;
}

/* lmdb_record_fn */
static int load_row(void *data, const MDB_val *key, const MDB_val *value)
{
    struct load *load = data;
    struct store_error *error = load->txn.error;
    struct reader reader;
    struct store_row row;
    char name[LMDB_RECORD_NAME_BYTES];
    int err = lmdb_record_open(LMDB_STATE, key, value, &reader, error);

    if (err != 0) {
        return err;
    }
    row.key = key->mv_data;
    row.key_len = (uint32_t)key->mv_size;
    row.value_len = (uint32_t)reader_left(&reader);
    row.value = reader_bytes(&reader, row.value_len);
    if (row.key_len > LIMIT_ROW_KEY_BYTES || row.value_len == 0 ||
        row.value_len > LIMIT_ROW_VALUE_BYTES) {
        return store_error_set(error, ERR_CORRUPT, "%s is malformed: %" PRIu32 " bytes",
                               lmdb_record_name(LMDB_STATE, key, name), row.value_len);
    }
    load->digest += hash_row(row.key, row.key_len, row.value, row.value_len);
    if (load->row_fn != NULL && (err = load->row_fn(load->data, &row)) != 0) {
        (void)store_error_set(error, err, "%s was refused: %s",
                              lmdb_record_name(LMDB_STATE, key, name), err_text(err));
    }
    return err;
}

static int load_rows(struct load *load)
{
    int err = lmdb_record_each(&load->txn, LMDB_STATE, load_row, load);

    return err != 0 ? err
                    : store_meta_verify_digest(&load->meta.position, load->digest, load->txn.error);
}

int lmdb_load(const struct lmdb_env *env, struct store_loaded *ret_loaded, store_row_fn row_fn,
              void *data, struct store_error *ret_error)
{
    struct store_loaded loaded = {0};
    struct load load = {
        .loaded = ret_loaded != NULL ? &loaded : NULL, .row_fn = row_fn, .data = data};
    int err = lmdb_begin(env, MDB_RDONLY, &load.txn, ret_error);

    if (err != 0) {
        return err;
    }
    err = lmdb_meta_read(&load.txn, &loaded.identity, &load.meta);
    if (err == 0) {
        err = load_log(&load);
    }
    if (err == 0) {
        err = load_rows(&load);
    }
    lmdb_abort(&load.txn);
    if (err == 0 && ret_loaded != NULL) {
        store_meta_load(&load.meta, &loaded);
        *ret_loaded = loaded;
    } else {
        store_loaded_release(&loaded);
    }
    store_meta_release(&load.meta);
    return err;
}
