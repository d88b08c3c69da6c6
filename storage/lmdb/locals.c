/*
 * locals.c - see locals.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/locals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

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

int lmdb_locals_read(const struct lmdb_txn *txn, struct store_local *locals[LIMIT_LOCAL_RECORDS])
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
    err = lmdb_meta_put(txn, name_of(number, name), &payload);
    buf_free(&payload);
    return err;
}

int lmdb_locals_write(const struct lmdb_txn *txn, struct store_local *const *before,
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
