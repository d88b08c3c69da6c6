/*
 * store_lmdb_load.c - reading the LMDB engine: records and their checksums, and the whole of a
 * store, verified.
 *
 * The happy path: one read transaction; the meta records, then the log from the first to the last
 * index that meta names, then the rows in key order with their digest.
 *
 * Failure modes: ERR_CORRUPT with table, key and what differs; never a shorter log or fewer rows.
 * Thread: as store.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/store_lmdb_internal.h"

/* Where a load puts what it reads; loaded and row_fn may be NULL. */
struct load {
    struct store_lmdb *lmdb;
    MDB_txn *txn;
    struct store_meta meta;
    struct store_loaded *loaded;
    store_row_fn row_fn;
    void *data;
    struct store_error *error;
};

static int load_log(struct load *load);
static int load_rows(struct load *load);

void lmdb_log_key(uint64_t index, uint8_t key[LMDB_LOG_KEY_BYTES])
{
    for (unsigned i = 0; i < LMDB_LOG_KEY_BYTES; i++) {
        key[i] = (uint8_t)(index >> (8 * (LMDB_LOG_KEY_BYTES - 1 - i)));
    }
}

uint64_t lmdb_log_index(const uint8_t key[LMDB_LOG_KEY_BYTES])
{
    uint64_t index = 0;

    for (unsigned i = 0; i < LMDB_LOG_KEY_BYTES; i++) {
        index = index << 8 | key[i];
    }
    return index;
}

const char *lmdb_record_name(const char *table, const MDB_val *key, char text[96])
{
    const uint8_t *bytes = key->mv_data;
    size_t at;

    if (strcmp(table, LMDB_TABLE_LOG) == 0 && key->mv_size == LMDB_LOG_KEY_BYTES) {
        (void)snprintf(text, 96, "log entry %" PRIu64, lmdb_log_index(bytes));
        return text;
    }
    at = (size_t)snprintf(text, 96, "%s record ", table);
    (void)store_key_print(text + at, 96 - at, bytes, key->mv_size);
    return text;
}

uint32_t lmdb_crc_begin(const char *table, const MDB_val *key)
{
    return hash_crc32c_more(hash_crc32c(table, 1), key->mv_data, key->mv_size);
}

int lmdb_record_open(const char *table, const MDB_val *key, const MDB_val *value,
                     struct reader *ret_payload, struct store_error *ret_error)
{
    uint32_t stored;
    uint32_t crc = lmdb_crc_begin(table, key);
    char name[96];

    reader_init(ret_payload, value->mv_data, value->mv_size);
    stored = reader_u32(ret_payload);
    if (ret_payload->bad) {
        return store_error_set(ret_error, ERR_CORRUPT, "%s: only %zu bytes",
                               lmdb_record_name(table, key, name), value->mv_size);
    }
    crc = hash_crc32c_more(crc, ret_payload->data + ret_payload->at, reader_left(ret_payload));
    if (crc != stored) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "%s: checksum is %08" PRIx32 ", stored is %08" PRIx32,
                               lmdb_record_name(table, key, name), crc, stored);
    }
    return 0;
}

int lmdb_meta_get(struct store_lmdb *lmdb, MDB_txn *txn, const char *name,
                  struct reader *ret_payload, struct store_error *ret_error)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};
    MDB_val value;
    int rc = mdb_get(txn, lmdb->meta, &key, &value);

    if (rc == MDB_NOTFOUND) {
        return store_error_set(ret_error, ERR_CORRUPT, "meta record %s is missing", name);
    }
    if (rc != 0) {
        return lmdb_error(ret_error, rc, "reading table meta");
    }
    return lmdb_record_open(LMDB_TABLE_META, &key, &value, ret_payload, ret_error);
}

int lmdb_meta_malformed(struct store_error *ret_error, const char *name)
{
    return store_error_set(ret_error, ERR_CORRUPT, "meta record %s is malformed", name);
}

static int read_identity(struct store_lmdb *lmdb, MDB_txn *txn, struct store_identity *ret_identity,
                         struct store_error *ret_error)
{
    struct reader reader;
    const uint8_t *text;
    uint32_t version;
    size_t len;
    int err = lmdb_meta_get(lmdb, txn, "format", &reader, ret_error);

    if (err != 0) {
        return err;
    }
    version = reader_u32(&reader);
    text = reader_str16(&reader, &len);
    if (!reader_done(&reader) || len != strlen(LMDB_FORMAT_MAGIC) ||
        memcmp(text, LMDB_FORMAT_MAGIC, len) != 0) {
        return lmdb_meta_malformed(ret_error, "format");
    }
    if (version != LMDB_FORMAT_VERSION) {
        return store_error_set(ret_error, ERR_BAD_VERSION,
                               "the store has format %" PRIu32 ", this leafd reads format %d alone",
                               version, LMDB_FORMAT_VERSION);
    }
    err = lmdb_meta_get(lmdb, txn, "identity", &reader, ret_error);
    if (err != 0) {
        return err;
    }
    memset(ret_identity, 0, sizeof(*ret_identity));
    text = reader_str16(&reader, &len);
    ret_identity->node_id = reader_u64(&reader);
    ret_identity->store_id = reader_u64(&reader);
    if (!reader_done(&reader) || len > LIMIT_CLUSTER_ID_BYTES) {
        return lmdb_meta_malformed(ret_error, "identity");
    }
    memcpy(ret_identity->cluster_id, text, len);
    return 0;
}

/* Every transaction writes its number: a tree of another one was put in its place. */
static int read_commit_number(struct store_lmdb *lmdb, MDB_txn *txn, struct store_error *ret_error)
{
    struct reader reader;
    uint64_t number;
    int err = lmdb_meta_get(lmdb, txn, "commit", &reader, ret_error);

    if (err != 0) {
        return err;
    }
    number = reader_u64(&reader);
    if (!reader_done(&reader) || number != mdb_txn_id(txn)) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta record commit: number %" PRIu64 " in transaction %zu", number,
                               mdb_txn_id(txn));
    }
    return 0;
}

static int read_position(struct store_lmdb *lmdb, MDB_txn *txn, struct store_position *ret_position,
                         struct store_error *ret_error)
{
    struct store_position position = {0};
    struct reader reader;
    size_t conf_len;
    int err = lmdb_meta_get(lmdb, txn, "position", &reader, ret_error);

    if (err != 0) {
        return err;
    }
    position.index = reader_u64(&reader);
    position.term = reader_u64(&reader);
    position.conf_index = reader_u64(&reader);
    position.digest = reader_u64(&reader);
    position.conf = reader_str32(&reader, &conf_len);
    if (!reader_done(&reader) || conf_len > LIMIT_CONF_BYTES) {
        return lmdb_meta_malformed(ret_error, "position");
    }
    position.conf_len = (uint32_t)conf_len;
    store_position_copy(ret_position, &position);
    return 0;
}

int lmdb_read_meta(struct store_lmdb *lmdb, MDB_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta, struct store_error *ret_error)
{
    struct store_meta meta = {0};
    struct reader hard;
    struct reader log;
    int err = read_identity(lmdb, txn, ret_identity, ret_error);

    if (err == 0) {
        err = read_commit_number(lmdb, txn, ret_error);
    }
    if (err == 0) {
        err = lmdb_meta_get(lmdb, txn, "hard", &hard, ret_error);
    }
    if (err == 0) {
        err = lmdb_meta_get(lmdb, txn, "log", &log, ret_error);
    }
    if (err != 0) {
        return err;
    }
    meta.term = reader_u64(&hard);
    meta.vote = reader_u64(&hard);
    meta.first_index = reader_u64(&log);
    meta.last_index = reader_u64(&log);
    meta.last_term = reader_u64(&log);
    if (!reader_done(&hard) || !reader_done(&log)) {
        return lmdb_meta_malformed(ret_error, reader_done(&hard) ? "log" : "hard");
    }
    err = read_position(lmdb, txn, &meta.position, ret_error);
    if (err == 0) {
        err = lmdb_locals_read(lmdb, txn, meta.locals, ret_error);
    }
    if (err == 0) {
        err = store_meta_verify(&meta, ret_error);
    }
    if (err != 0) {
        store_meta_release(&meta);
        return err;
    }
    *ret_meta = meta;
    return 0;
}

int lmdb_read_all(struct store_lmdb *lmdb, struct store_loaded *ret_loaded, store_row_fn row_fn,
                  void *data, struct store_error *ret_error)
{
    struct store_loaded loaded = {0};
    struct load load = {.lmdb = lmdb,
                        .loaded = ret_loaded != NULL ? &loaded : NULL,
                        .row_fn = row_fn,
                        .data = data,
                        .error = ret_error};
    int rc = mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &load.txn);
    int err;

    if (rc != 0) {
        return lmdb_error(ret_error, rc, "beginning to read");
    }
    err = lmdb_read_meta(lmdb, load.txn, &loaded.identity, &load.meta, ret_error);
    if (err == 0) {
        err = load_log(&load);
    }
    if (err == 0) {
        err = load_rows(&load);
    }
    mdb_txn_abort(load.txn);
    if (err != 0 || ret_loaded == NULL) {
        store_loaded_release(&loaded);
        store_meta_release(&load.meta);
        return err;
    }
    loaded.term = load.meta.term;
    loaded.vote = load.meta.vote;
    loaded.first_index = load.meta.first_index;
    store_position_copy(&loaded.position, &load.meta.position);
    store_locals_copy(loaded.locals, load.meta.locals);
    store_meta_release(&load.meta);
    *ret_loaded = loaded;
    return 0;
}

int lmdb_load(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn, void *data,
              struct store_error *ret_error)
{
    return lmdb_read_all(lmdb_of(store), ret_loaded, row_fn, data, ret_error);
}

static void keep_entry(struct store_loaded *loaded, const struct store_entry *entry)
{
    size_t count = loaded->entry_count;
    void *copy = malloc((size_t)entry->len + 1);

    /* Grown by doubling: an array of a damaged meta's size is never asked for. */
    if ((count & (count - 1)) == 0) {
        size_t room = count > 0 ? 2 * count : 1;

        loaded->entries = realloc(loaded->entries, room * sizeof(*loaded->entries));
    }
    ASSERT(loaded->entries != NULL && copy != NULL);
    memcpy(copy, entry->data, entry->len);
    loaded->entries[count] = *entry;
    loaded->entries[count].data = copy;
    loaded->entry_count++;
}

/* Verify the record that must be the entry at index, with a term not below *term. */
static int load_entry(struct load *load, uint64_t index, const MDB_val *key, const MDB_val *value,
                      uint64_t *term)
{
    struct store_entry entry;
    struct reader reader;
    char name[96];
    int err;

    if (key->mv_size != LMDB_LOG_KEY_BYTES || lmdb_log_index(key->mv_data) != index) {
        return store_error_set(load->error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is missing: %s stands in its place", index,
                               lmdb_record_name(LMDB_TABLE_LOG, key, name));
    }
    err = lmdb_record_open(LMDB_TABLE_LOG, key, value, &reader, load->error);
    if (err != 0) {
        return err;
    }
    entry.term = reader_u64(&reader);
    entry.type = reader_u8(&reader);
    entry.len = (uint32_t)reader_left(&reader);
    entry.data = reader_bytes(&reader, entry.len);
    if (reader.bad || entry.type < 1 || entry.type > 3 || entry.len > LIMIT_ENTRY_BYTES) {
        return store_error_set(load->error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is malformed: type %u, %" PRIu32 " bytes",
                               index, entry.type, entry.len);
    }
    if (entry.term < *term || entry.term == 0 || entry.term > load->meta.term) {
        return store_error_set(load->error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64 " after %" PRIu64
                               ", hard state's is %" PRIu64,
                               index, entry.term, *term, load->meta.term);
    }
    if (index == load->meta.position.index && entry.term != load->meta.position.term) {
        return store_error_set(load->error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64
                               ", but the state has applied one of term %" PRIu64,
                               index, entry.term, load->meta.position.term);
    }
    *term = entry.term;
    if (load->loaded != NULL) {
        keep_entry(load->loaded, &entry);
    }
    return 0;
}

static int load_log(struct load *load)
{
    uint64_t term = 0;
    uint64_t index = load->meta.first_index;
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int err = 0;
    int rc = mdb_cursor_open(load->txn, load->lmdb->log, &cursor);

    if (rc != 0) {
        return lmdb_error(load->error, rc, "opening table log");
    }
    while (err == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        err = load_entry(load, index, &key, &value, &term);
        if (err == 0 && index > load->meta.last_index) {
            err = store_error_set(load->error, ERR_CORRUPT,
                                  "log entry %" PRIu64 " is beyond the last, %" PRIu64, index,
                                  load->meta.last_index);
        }
        index++;
    }
    mdb_cursor_close(cursor);
    if (err == 0 && rc != MDB_NOTFOUND) {
        err = lmdb_error(load->error, rc, "reading table log");
    }
    if (err == 0 && index != load->meta.last_index + 1) {
        err = store_error_set(load->error, ERR_CORRUPT,
                              "log entry %" PRIu64 " is missing: the log must reach %" PRIu64,
                              index, load->meta.last_index);
    }
    if (err == 0 && index > load->meta.first_index && term != load->meta.last_term) {
        err = store_error_set(load->error, ERR_CORRUPT,
                              "log entry %" PRIu64 ": term %" PRIu64 ", meta says %" PRIu64,
                              load->meta.last_index, term, load->meta.last_term);
    }
    return err;
}

static int load_row(struct load *load, const MDB_val *key, const MDB_val *value, uint64_t *digest)
{
    struct reader reader;
    struct store_row row;
    char name[96];
    int err = lmdb_record_open(LMDB_TABLE_STATE, key, value, &reader, load->error);

    if (err != 0) {
        return err;
    }
    row.key = key->mv_data;
    row.key_len = (uint32_t)key->mv_size;
    row.value_len = (uint32_t)reader_left(&reader);
    row.value = reader_bytes(&reader, row.value_len);
    if (row.key_len > LIMIT_ROW_KEY_BYTES || row.value_len == 0 ||
        row.value_len > LIMIT_ROW_VALUE_BYTES) {
        return store_error_set(load->error, ERR_CORRUPT, "%s is malformed: %" PRIu32 " bytes",
                               lmdb_record_name(LMDB_TABLE_STATE, key, name), row.value_len);
    }
    *digest += hash_row(row.key, row.key_len, row.value, row.value_len);
    if (load->row_fn != NULL && (err = load->row_fn(load->data, &row)) != 0) {
        (void)store_error_set(load->error, err, "%s was refused: %s",
                              lmdb_record_name(LMDB_TABLE_STATE, key, name), err_text(err));
    }
    return err;
}

static int load_rows(struct load *load)
{
    uint64_t digest = 0;
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int err = 0;
    int rc = mdb_cursor_open(load->txn, load->lmdb->state, &cursor);

    if (rc != 0) {
        return lmdb_error(load->error, rc, "opening table state");
    }
    while (err == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        err = load_row(load, &key, &value, &digest);
    }
    mdb_cursor_close(cursor);
    if (err == 0 && rc != MDB_NOTFOUND) {
        err = lmdb_error(load->error, rc, "reading table state");
    }
    return err != 0 ? err : store_meta_verify_digest(&load->meta.position, digest, load->error);
}
