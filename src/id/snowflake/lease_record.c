/*
 * lease_record.c - the bytes of a lease's record on this node's disk (lease.h).
 *
 * The happy path: version, worker id, epoch, window and mark, little-endian, and a CRC32C of all of
 * them. A record that breaks a rule is never written, and none is read back.
 *
 * Failure modes: ERR_BAD_VERSION, ERR_CORRUPT. Thread: pure functions, any.
 */
#include "src/id/snowflake/lease_record.h"

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/codec/fields.h"

#define RECORD_VERSION 1
#define RECORD_BYTES (1 + 2 + 4 * 8 + 4)

static const struct field RECORD_FIELDS[] = {
    FIELD_NUMBER(struct lease_record, worker_id), FIELD_NUMBER(struct lease_record, epoch),
    FIELD_NUMBER(struct lease_record, from_ms),   FIELD_NUMBER(struct lease_record, until_ms),
    FIELD_NUMBER(struct lease_record, mark_ms),
};
static const struct fields RECORD = FIELDS(RECORD_FIELDS);

static bool record_keeps_rules(const struct lease_record *record)
{
    return record->worker_id < LIMIT_WORKER_IDS && record->epoch >= 1 &&
           record->from_ms <= record->mark_ms && record->mark_ms <= record->until_ms;
}

void lease_record_encode(const struct lease_record *record, struct buf *buf)
{
    size_t begin = buf->len;

    ASSERT(record_keeps_rules(record));
    buf_put_u8(buf, RECORD_VERSION);
    fields_put(buf, &RECORD, record);
    buf_put_u32(buf, hash_crc32c(buf->data + begin, buf->len - begin));
    ASSERT(buf->len - begin == RECORD_BYTES && RECORD_BYTES <= LIMIT_LOCAL_RECORD_BYTES);
}

int lease_record_decode(const void *data, size_t len, struct lease_record *ret_record)
{
    struct lease_record record;
    struct reader reader;

    reader_init(&reader, data, len);
    if (len > 0 && reader_u8(&reader) != RECORD_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (len != RECORD_BYTES || !fields_read(&reader, &RECORD, &record) ||
        reader_u32(&reader) != hash_crc32c(data, RECORD_BYTES - 4) || !reader_done(&reader) ||
        !record_keeps_rules(&record)) {
        return ERR_CORRUPT;
    }
    *ret_record = record;
    return 0;
}
