/*
 * store_lmdb_locals.c - the local records of the LMDB engine: each one a record of meta, and one
 * more that tells which there are.
 *
 * A node's list of 32 KiB is written when it changes, not with every lease. `locals` is written
 * with each of them: {number u16, checksum u32} of every record, in rising order, so that one that
 * is missing or that is an earlier one is seen.
 *
 * The happy path of a write: the records whose bytes are not shared with the meta before, then
 * `locals`. Failure modes: ERR_CORRUPT names the record. Thread: as store.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "src/base/assert.h"
#include "storage/store_lmdb_internal.h"

#define NAME_BYTES 16

static const char *name_of(unsigned number, char name[NAME_BYTES])
{
    ASSERT(snprintf(name, NAME_BYTES, "local.%02u", number) < NAME_BYTES);
    return name;
}

static int read_one(struct store_lmdb *lmdb, MDB_txn *txn, unsigned number, uint32_t checksum,
                    struct store_local **local, struct store_error *ret_error)
{
    char name[NAME_BYTES];
    struct reader reader;
    const uint8_t *data;
    size_t len;
    int err = lmdb_meta_get(lmdb, txn, name_of(number, name), &reader, ret_error);

    if (err != 0) {
        return err;
    }
    len = reader_left(&reader);
    data = reader_bytes(&reader, len);
    if (len == 0 || len > LIMIT_LOCAL_RECORD_BYTES) {
        return lmdb_meta_malformed(ret_error, name);
    }
    store_local_set(local, data, (uint32_t)len);
    if ((*local)->checksum != checksum) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta record %s: checksum is %08" PRIx32 ", locals says %08" PRIx32,
                               name, (*local)->checksum, checksum);
    }
    return 0;
}

int lmdb_locals_read(struct store_lmdb *lmdb, MDB_txn *txn,
                     struct store_local *locals[LIMIT_LOCAL_RECORDS], struct store_error *ret_error)
{
    struct reader reader;
    unsigned from = 0; /* the least number that may come */
    int err = lmdb_meta_get(lmdb, txn, "locals", &reader, ret_error);

    if (err != 0) {
        return err;
    }
    while (err == 0 && reader_left(&reader) > 0) {
        unsigned number = reader_u16(&reader);
        uint32_t checksum = reader_u32(&reader);

        if (reader.bad || number < from || number >= LIMIT_LOCAL_RECORDS) {
            return lmdb_meta_malformed(ret_error, "locals");
        }
        err = read_one(lmdb, txn, number, checksum, &locals[number], ret_error);
        from = number + 1;
    }
    return err;
}

static int write_one(struct store_lmdb *lmdb, MDB_txn *txn, unsigned number,
                     const struct store_local *local, struct store_error *ret_error)
{
    char name[NAME_BYTES];
    struct buf payload = BUF_INIT;
    int err;

    buf_put(&payload, local->data, local->len);
    err = lmdb_meta_put(lmdb, txn, name_of(number, name), &payload, ret_error);
    buf_free(&payload);
    return err;
}

int lmdb_locals_write(struct store_lmdb *lmdb, MDB_txn *txn,
                      struct store_local *const before[LIMIT_LOCAL_RECORDS],
                      struct store_local *const locals[LIMIT_LOCAL_RECORDS],
                      struct store_error *ret_error)
{
    struct buf payload = BUF_INIT;
    int err = 0;

    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS && err == 0; i++) {
        if (locals[i] == NULL) {
            ASSERT(before[i] == NULL); /* records are replaced, never taken away */
            continue;
        }
        buf_put_u16(&payload, (uint16_t)i);
        buf_put_u32(&payload, locals[i]->checksum);
        if (locals[i] != before[i]) {
            err = write_one(lmdb, txn, i, locals[i], ret_error);
        }
    }
    if (err == 0) {
        err = lmdb_meta_put(lmdb, txn, "locals", &payload, ret_error);
    }
    buf_free(&payload);
    return err;
}
