/*
 * meta.c - see meta.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

/* --- format, identity, commit --- */

static void encode_format(struct buf *payload)
{
    buf_put_u32(payload, LMDB_FORMAT_VERSION);
    buf_put_str16(payload, LMDB_FORMAT_MAGIC, strlen(LMDB_FORMAT_MAGIC));
}

static int read_format(const struct lmdb_txn *txn)
{
    struct reader reader;
    const uint8_t *magic;
    uint32_t version;
    size_t len;
    int err = lmdb_meta_get(txn, "format", &reader);

    if (err != 0) {
        return err;
    }
    version = reader_u32(&reader);
    magic = reader_str16(&reader, &len);
    if (!reader_done(&reader) || len != strlen(LMDB_FORMAT_MAGIC) ||
        memcmp(magic, LMDB_FORMAT_MAGIC, len) != 0) {
        return lmdb_meta_malformed(txn, "format");
    }
    if (version != LMDB_FORMAT_VERSION) {
        return store_error_set(txn->error, ERR_BAD_VERSION,
                               "the store has format %" PRIu32 ", this leafd reads format %d alone",
                               version, LMDB_FORMAT_VERSION);
    }
    return 0;
}

static void encode_identity(const struct store_identity *identity, struct buf *payload)
{
    buf_put_str16(payload, identity->cluster_id, strlen(identity->cluster_id));
    buf_put_u64(payload, identity->node_id);
    buf_put_u64(payload, identity->store_id);
}

static int read_identity(const struct lmdb_txn *txn, struct store_identity *ret_identity)
{
    struct store_identity identity = {.node_id = 0};
    struct reader reader;
    const uint8_t *cluster_id;
    size_t len;
    int err = lmdb_meta_get(txn, "identity", &reader);

    if (err != 0) {
        return err;
    }
    cluster_id = reader_str16(&reader, &len);
    identity.node_id = reader_u64(&reader);
    identity.store_id = reader_u64(&reader);
    if (!reader_done(&reader) || len > LIMIT_CLUSTER_ID_BYTES) {
        return lmdb_meta_malformed(txn, "identity");
    }
    memcpy(identity.cluster_id, cluster_id, len);
    *ret_identity = identity;
    return 0;
}

int lmdb_meta_write_commit(const struct lmdb_txn *txn)
{
    struct buf payload = BUF_INIT;
    int err;

    buf_put_u64(&payload, mdb_txn_id(txn->txn));
    err = lmdb_meta_put(txn, "commit", &payload);
    buf_free(&payload);
    return err;
}

/* Another number than the transaction's: another tree was put in the place of its own. */
static int read_commit(const struct lmdb_txn *txn)
{
    struct reader reader;
    uint64_t number;
    int err = lmdb_meta_get(txn, "commit", &reader);

    if (err != 0) {
        return err;
    }
    number = reader_u64(&reader);
    if (!reader_done(&reader) || number != mdb_txn_id(txn->txn)) {
        return store_error_set(txn->error, ERR_CORRUPT,
                               "meta record commit: number %" PRIu64 " in transaction %zu", number,
                               mdb_txn_id(txn->txn));
    }
    return 0;
}

/* --- the parts of struct store_meta, but for its local records --- */

static void encode_hard(const struct store_meta *meta, struct buf *payload)
{
    buf_put_u64(payload, meta->term);
    buf_put_u64(payload, meta->vote);
}

static void decode_hard(struct reader *reader, struct store_meta *meta)
{
    meta->term = reader_u64(reader);
    meta->vote = reader_u64(reader);
}

static void encode_log(const struct store_meta *meta, struct buf *payload)
{
    buf_put_u64(payload, meta->first_index);
    buf_put_u64(payload, meta->last_index);
    buf_put_u64(payload, meta->last_term);
}

static void decode_log(struct reader *reader, struct store_meta *meta)
{
    meta->first_index = reader_u64(reader);
    meta->last_index = reader_u64(reader);
    meta->last_term = reader_u64(reader);
}

static void encode_position(const struct store_meta *meta, struct buf *payload)
{
    const struct store_position *position = &meta->position;

    buf_put_u64(payload, position->index);
    buf_put_u64(payload, position->term);
    buf_put_u64(payload, position->conf_index);
    buf_put_u64(payload, position->digest);
    buf_put_str32(payload, position->conf, position->conf_len);
}

static void decode_position(struct reader *reader, struct store_meta *meta)
{
    struct store_position position = {0};
    size_t conf_len;

    position.index = reader_u64(reader);
    position.term = reader_u64(reader);
    position.conf_index = reader_u64(reader);
    position.digest = reader_u64(reader);
    position.conf = reader_str32(reader, &conf_len);
    if (conf_len > LIMIT_CONF_BYTES) {
        reader->bad = true;
        return;
    }
    position.conf_len = (uint32_t)conf_len;
    store_position_copy(&meta->position, &position);
}

static const struct part {
    const char *name;
    void (*encode)(const struct store_meta *meta, struct buf *payload);
    void (*decode)(struct reader *reader, struct store_meta *meta);
} parts[] = {
    {.name = "hard", .encode = encode_hard, .decode = decode_hard},
    {.name = "log", .encode = encode_log, .decode = decode_log},
    {.name = "position", .encode = encode_position, .decode = decode_position},
};

#define PARTS (sizeof parts / sizeof parts[0])

static int read_part(const struct lmdb_txn *txn, const struct part *part, struct store_meta *meta)
{
    struct reader reader;
    int err = lmdb_meta_get(txn, part->name, &reader);

    if (err != 0) {
        return err;
    }
    part->decode(&reader, meta);
    return reader_done(&reader) ? 0 : lmdb_meta_malformed(txn, part->name);
}

/* Nothing if it is the same as before; before is NULL in a new store. */
static int write_part(const struct lmdb_txn *txn, const struct part *part,
                      const struct store_meta *before, const struct store_meta *after)
{
    struct buf old = BUF_INIT;
    struct buf now = BUF_INIT;
    int err = 0;

    part->encode(after, &now);
    ASSERT(now.len > 0);
    if (before != NULL) {
        part->encode(before, &old);
    }
    if (old.len != now.len || memcmp(old.data, now.data, now.len) != 0) {
        err = lmdb_meta_put(txn, part->name, &now);
    }
    buf_free(&old);
    buf_free(&now);
    return err;
}

/* --- local records: each one a record, and `locals`, which says which there are --- */

#define NAME_BYTES 16

static const char *name_of(unsigned number, char name[NAME_BYTES])
{
    ASSERT(snprintf(name, NAME_BYTES, "local.%02u", number) < NAME_BYTES);
    return name;
}

static int read_one(const struct lmdb_txn *txn, unsigned number, uint32_t checksum,
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
                               "meta record %s: checksum is %08" PRIx32 ", locals says %08" PRIx32,
                               name, (*local)->checksum, checksum);
    }
    return 0;
}

/* Read all local records into `locals`, which holds none yet. On failure it holds some of them. */
static int read_locals(const struct lmdb_txn *txn, struct store_local *locals[LIMIT_LOCAL_RECORDS])
{
    struct reader reader;
    unsigned from = 0; /* the least number that may come */
    int err = lmdb_meta_get(txn, "locals", &reader);

    while (err == 0 && reader_left(&reader) > 0) {
        unsigned number = reader_u16(&reader);
        uint32_t checksum = reader_u32(&reader);

        if (reader.bad || number < from || number >= LIMIT_LOCAL_RECORDS) {
            return lmdb_meta_malformed(txn, "locals");
        }
        err = read_one(txn, number, checksum, &locals[number]);
        from = number + 1;
    }
    return err;
}

static int write_one(const struct lmdb_txn *txn, unsigned number, const struct store_local *local)
{
    char name[NAME_BYTES];
    struct buf payload = BUF_INIT;
    int err;

    buf_put(&payload, local->data, local->len);
    ASSERT(payload.len >= 1 && payload.len <= LIMIT_LOCAL_RECORD_BYTES);
    err = lmdb_meta_put(txn, name_of(number, name), &payload);
    buf_free(&payload);
    return err;
}

/* Write the records that are others than those before, and which there are. Nothing if none is
 * another one; before is NULL in a new store, where `locals` is written even if it is empty. */
static int write_locals(const struct lmdb_txn *txn, struct store_local *const *before,
                        struct store_local *const locals[LIMIT_LOCAL_RECORDS])
{
    struct buf list = BUF_INIT;
    bool changed = before == NULL;
    int err = 0;

    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS && err == 0; i++) {
        const struct store_local *old = before != NULL ? before[i] : NULL;

        if (locals[i] == NULL) {
            ASSERT(old == NULL); /* records are replaced, never taken away */
            continue;
        }
        buf_put_u16(&list, (uint16_t)i);
        buf_put_u32(&list, locals[i]->checksum);
        if (locals[i] != old) {
            changed = true;
            err = write_one(txn, i, locals[i]);
        }
    }
    if (err == 0 && changed) {
        err = lmdb_meta_put(txn, "locals", &list);
    }
    buf_free(&list);
    return err;
}

/* --- all of it --- */

int lmdb_meta_read(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta)
{
    struct store_meta meta = {0};
    int err = read_format(txn);

    if (err == 0) {
        err = read_identity(txn, ret_identity);
    }
    if (err == 0) {
        err = read_commit(txn);
    }
    for (size_t i = 0; i < PARTS && err == 0; i++) {
        err = read_part(txn, &parts[i], &meta);
    }
    if (err == 0) {
        err = read_locals(txn, meta.locals);
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

    ASSERT(after->last_index >= after->position.index);
    for (size_t i = 0; i < PARTS && err == 0; i++) {
        err = write_part(txn, &parts[i], before, after);
    }
    if (err == 0) {
        err = write_locals(txn, before != NULL ? before->locals : NULL, after->locals);
    }
    return err != 0 ? err : lmdb_meta_write_commit(txn);
}

int lmdb_meta_write_new(const struct lmdb_txn *txn, const struct store_identity *identity)
{
    struct store_meta meta;
    struct buf payload = BUF_INIT;
    int err;

    store_meta_init(&meta);
    encode_format(&payload);
    err = lmdb_meta_put(txn, "format", &payload);
    if (err == 0) {
        payload.len = 0;
        encode_identity(identity, &payload);
        err = lmdb_meta_put(txn, "identity", &payload);
    }
    buf_free(&payload);
    return err != 0 ? err : lmdb_meta_write(txn, NULL, &meta);
}
