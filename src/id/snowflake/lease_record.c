/*
 * lease_record.c - the bytes of a lease's record on this node's disk (lease.h).
 *
 * The happy path: version, worker id, epoch, window and mark, little-endian, and a CRC32C of all of
 * them. A record that breaks a rule is never written, and none is read back.
 *
 * Failure modes: ERR_BAD_VERSION, ERR_CORRUPT. Thread: pure functions, any.
 */
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/snowflake/lease_record.h"

#define RECORD_VERSION 1
#define RECORD_BYTES (1 + 2 + 4 * 8 + 4)

static bool record_keeps_rules(const struct lease_record *record);

void lease_record_encode(const struct lease_record *record, struct buf *buf)
{
    size_t begin = buf->len;

    ASSERT(record_keeps_rules(record));
    buf_put_u8(buf, RECORD_VERSION);
    buf_put_u16(buf, record->worker_id);
    buf_put_u64(buf, record->epoch);
    buf_put_u64(buf, record->from_ms);
    buf_put_u64(buf, record->until_ms);
    buf_put_u64(buf, record->mark_ms);
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
    record.worker_id = reader_u16(&reader);
    record.epoch = reader_u64(&reader);
    record.from_ms = reader_u64(&reader);
    record.until_ms = reader_u64(&reader);
    record.mark_ms = reader_u64(&reader);
    if (len != RECORD_BYTES || reader_u32(&reader) != hash_crc32c(data, RECORD_BYTES - 4) ||
        !reader_done(&reader) || !record_keeps_rules(&record)) {
        return ERR_CORRUPT;
    }
    *ret_record = record;
    return 0;
}

static bool record_keeps_rules(const struct lease_record *record)
{
    return record->worker_id < LIMIT_WORKER_IDS && record->epoch >= 1 &&
           record->from_ms <= record->mark_ms && record->mark_ms <= record->until_ms;
}
