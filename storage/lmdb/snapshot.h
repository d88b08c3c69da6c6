/*
 * snapshot.h - fixed views of the rows as read transactions.
 *
 * A snapshot is a read transaction with a cursor that stands on the next row to be read. While it
 * lives LMDB reuses no page of its view, so the transfer that reads it is bounded
 * (LIMIT_SNAPSHOT_MS).
 *
 * Failure modes: ERR_CORRUPT for a row whose checksum is wrong: it is not sent; ERR_OVERLOADED
 * beyond LIMIT_STORE_SNAPSHOTS. Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_SNAPSHOT_H
#define LEAFD_STORAGE_LMDB_SNAPSHOT_H

#include "storage/lmdb/env.h"

/* The open snapshots of a store. All zero: none. */
struct lmdb_snapshots {
    LIST_HEAD(, store_snapshot) open;
    unsigned count;
};

/* Of the rows as of the last commit, at this position, which is copied. */
int lmdb_snapshot_open(struct lmdb_snapshots *snapshots, const struct lmdb_env *env,
                       const struct store_position *position, struct store_snapshot **ret_snapshot,
                       struct store_position *ret_position) MUST_CHECK;

/* As store_ops.snapshot_read. */
int lmdb_snapshot_read(struct store_snapshot *snapshot, size_t max_bytes, struct buf *chunk,
                       bool *ret_end) MUST_CHECK;

void lmdb_snapshot_close(struct lmdb_snapshots *snapshots, struct store_snapshot *snapshot);
void lmdb_snapshots_close_all(struct lmdb_snapshots *snapshots);

#endif
