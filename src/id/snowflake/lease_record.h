/*
 * lease_record.h - what a lease keeps on this node's disk, a record for each of its worker ids, and
 * how it gets there.
 *
 * Failure modes: a record that does not decode is ERR_CORRUPT or ERR_BAD_VERSION. Thread: pure
 * functions, any; the disk's: one owner (the raft loop).
 */
#ifndef LEAFD_ID_SNOWFLAKE_LEASE_RECORD_H
#define LEAFD_ID_SNOWFLAKE_LEASE_RECORD_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

/* A record on this node's disk: key "lease/<k>", and its bytes. */
struct lease_record {
    uint16_t worker_id;
    uint64_t epoch;
    uint64_t from_ms;
    uint64_t until_ms;
    uint64_t mark_ms;
};
void lease_record_encode(const struct lease_record *record, struct buf *buf);
int lease_record_decode(const void *data, size_t len, struct lease_record *ret_record) MUST_CHECK;

/* How the lease reaches the disk: write local record k; done once it is durable, never from inside
 * write. The bytes are copied. */
struct lease_disk {
    void (*write)(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                  void (*done)(void *data), void *done_data);
};

#endif
