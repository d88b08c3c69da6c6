/*
 * meta.c - see meta.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

#define NAME_BYTES 16

/* --- identity, with the format --- */

static int write_identity(const struct lmdb_txn *txn, const struct store_identity *identity)
{
    BUF_LOCAL(payload);

    buf_put_u32(&payload, LMDB_FORMAT_VERSION);
    buf_put_str16(&payload, LMDB_FORMAT_MAGIC, strlen(LMDB_FORMAT_MAGIC));
    buf_put_str16(&payload, identity->cluster_id, strlen(identity->cluster_id));
    buf_put_u64(&payload, identity->node_id);
    buf_put_u64(&payload, identity->store_id);
    return lmdb_meta_put(txn, LMDB_IDENTITY, &payload);
}

/* Of what comes after the magic, another format may have anything. */
static int read_identity(const struct lmdb_txn *txn, struct store_identity *ret_identity)
{
    struct store_identity identity = {.node_id = 0};
    struct reader reader;
    const uint8_t *text;
    uint32_t version;
    size_t len;
    int err = lmdb_meta_get(txn, LMDB_IDENTITY, &reader);

    if (err != 0) {
        return err;
    }
    version = reader_u32(&reader);
    text = reader_str16(&reader, &len);
    if (len != strlen(LMDB_FORMAT_MAGIC) || memcmp(text, LMDB_FORMAT_MAGIC, len) != 0) {
        return lmdb_meta_malformed(txn, LMDB_IDENTITY);
    }
    if (version != LMDB_FORMAT_VERSION) {
        return store_error_set(txn->error, ERR_BAD_VERSION,
                               "the store has format %" PRIu32
                               ", this leafd reads format %d alone: "
                               "%s",
                               version, LMDB_FORMAT_VERSION,
                               version > LMDB_FORMAT_VERSION
                                   ? "start the leafd that wrote it, or a newer one"
                                   : "start the leafd that wrote it, take a backup of the cluster "
                                     "(GET /api/backup) and restore it with this one");
    }
    text = reader_str16(&reader, &len);
    identity.node_id = reader_u64(&reader);
    identity.store_id = reader_u64(&reader);
    if (!reader_done(&reader) || len > LIMIT_CLUSTER_ID_BYTES) {
        return lmdb_meta_malformed(txn, LMDB_IDENTITY);
    }
    memcpy(identity.cluster_id, text, len);
    *ret_identity = identity;
    return 0;
}

/* --- local records --- */

static const char *name_of(unsigned number, char name[NAME_BYTES])
{
    ASSERT(number < LIMIT_LOCAL_RECORDS);
    ASSERT(snprintf(name, NAME_BYTES, "local.%02u", number) < NAME_BYTES);
    return name;
}

static int read_local(const struct lmdb_txn *txn, unsigned number, uint32_t checksum,
                      struct store_local **local)
{
    char name[NAME_BYTES];
    struct reader reader;
    const uint8_t *data;
    size_t len;
    int err = lmdb_meta_get(txn, name_of(number, name), &reader);

    if (err != 0) {
        return err;
    }
    len = reader_left(&reader);
    data = reader_bytes(&reader, len);
    if (len == 0 || len > LIMIT_LOCAL_RECORD_BYTES) {
        return lmdb_meta_malformed(txn, name);
    }
    ASSERT(*local == NULL);
    store_local_set(local, data, (uint32_t)len);
    if ((*local)->checksum != checksum) {
        return store_error_set(txn->error, ERR_CORRUPT,
                               "meta record %s: checksum is %08" PRIx32 ", listed is %08" PRIx32,
                               name, (*local)->checksum, checksum);
    }
    return 0;
}

/* The list is what is left of `now`: {number u16, checksum u32} of each. */
static int read_locals(const struct lmdb_txn *txn, struct reader *list, struct store_meta *meta)
{
    unsigned from = 0; /* the least number that may come */
    int err = 0;

    while (err == 0 && reader_left(list) > 0) {
        unsigned number = reader_u16(list);
        uint32_t checksum = reader_u32(list);

        if (list->bad || number < from || number >= LIMIT_LOCAL_RECORDS) {
            return lmdb_meta_malformed(txn, LMDB_NOW);
        }
        err = read_local(txn, number, checksum, &meta->locals[number]);
        from = number + 1;
    }
    return err;
}

static int write_local(const struct lmdb_txn *txn, unsigned number, const struct store_local *local)
{
    char name[NAME_BYTES];
    BUF_LOCAL(payload);

    buf_put(&payload, local->data, local->len);
    ASSERT(payload.len >= 1 && payload.len <= LIMIT_LOCAL_RECORD_BYTES);
    return lmdb_meta_put(txn, name_of(number, name), &payload);
}

/* --- now --- */

static int read_now(const struct lmdb_txn *txn, struct store_meta *meta)
{
    struct store_position position = {0};
    struct reader reader;
    uint64_t number;
    size_t conf_len;
    int err = lmdb_meta_get(txn, LMDB_NOW, &reader);

    if (err != 0) {
        return err;
    }
    number = reader_u64(&reader);
    meta->term = reader_u64(&reader);
    meta->vote = reader_u64(&reader);
    meta->first_index = reader_u64(&reader);
    meta->last_index = reader_u64(&reader);
    meta->last_term = reader_u64(&reader);
    position.index = reader_u64(&reader);
    position.term = reader_u64(&reader);
    position.conf_index = reader_u64(&reader);
    position.digest = reader_u64(&reader);
    position.conf = reader_str32(&reader, &conf_len);
    if (reader.bad || conf_len > LIMIT_CONF_BYTES) {
        return lmdb_meta_malformed(txn, LMDB_NOW);
    }
    position.conf_len = (uint32_t)conf_len;
    if (number != mdb_txn_id(txn->txn)) {
        /* Another tree was put in the place of the transaction's own. */
        return store_error_set(txn->error, ERR_CORRUPT,
                               "meta record now: number %" PRIu64 " in transaction %zu", number,
                               mdb_txn_id(txn->txn));
    }
    store_position_copy(&meta->position, &position);
    return read_locals(txn, &reader, meta);
}

static int write_now(const struct lmdb_txn *txn, const struct store_meta *meta)
{
    const struct store_position *position = &meta->position;
    BUF_LOCAL(payload);

    ASSERT(meta->first_index >= 1 && meta->last_index + 1 >= meta->first_index);
    ASSERT(position->index <= meta->last_index && position->conf_len <= LIMIT_CONF_BYTES);
    buf_put_u64(&payload, mdb_txn_id(txn->txn));
    buf_put_u64(&payload, meta->term);
    buf_put_u64(&payload, meta->vote);
    buf_put_u64(&payload, meta->first_index);
    buf_put_u64(&payload, meta->last_index);
    buf_put_u64(&payload, meta->last_term);
    buf_put_u64(&payload, position->index);
    buf_put_u64(&payload, position->term);
    buf_put_u64(&payload, position->conf_index);
    buf_put_u64(&payload, position->digest);
    buf_put_str32(&payload, position->conf, position->conf_len);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        if (meta->locals[i] != NULL) {
            buf_put_u16(&payload, (uint16_t)i);
            buf_put_u32(&payload, meta->locals[i]->checksum);
        }
    }
    return lmdb_meta_put(txn, LMDB_NOW, &payload);
}

/* --- all of it --- */

int lmdb_meta_read(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta)
{
    struct store_meta meta = {0};
    int err = read_identity(txn, ret_identity);

    if (err == 0) {
        err = read_now(txn, &meta);
    }
    if (err == 0) {
        err = store_meta_verify(&meta, txn->error);
    }
    if (err != 0) {
        store_meta_release(&meta);
        return err;
    }
    *ret_meta = meta;
    return 0;
}

int lmdb_meta_write(const struct lmdb_txn *txn, const struct store_meta *before,
                    const struct store_meta *after)
{
    int err = 0;

    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS && err == 0; i++) {
        ASSERT_IMPLIES(before->locals[i] != NULL, after->locals[i] != NULL);
        if (after->locals[i] != before->locals[i]) {
            err = write_local(txn, i, after->locals[i]);
        }
    }
    return err != 0 ? err : write_now(txn, after);
}

int lmdb_meta_write_new(const struct lmdb_txn *txn, const struct store_identity *identity)
{
    struct store_meta meta;
    int err = write_identity(txn, identity);

    store_meta_init(&meta);
    return err != 0 ? err : write_now(txn, &meta);
}
