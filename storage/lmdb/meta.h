/*
 * meta.h - the table meta: who the store belongs to, and its struct store_meta, each part written
 * and read side by side.
 *
 * Happy path: a new store gets format, identity and all of an empty meta; every later transaction
 * writes the parts that differ from the meta before, and its number; reading takes all of it and
 * checks that it fits together.
 *
 * A node's list of 32 KiB is written when it changes, not with every lease: each local record is a
 * record of meta. One more, `locals`, is written with each of them: {number u16, checksum u32} of
 * every record, in rising order, so that one that is missing or that is an earlier one is seen.
 *
 * Failure modes: ERR_CORRUPT names the record; ERR_BAD_VERSION: a store of another format.
 * Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_META_H
#define LEAFD_STORAGE_LMDB_META_H

#include "storage/lmdb/record.h"
#include "storage/store_meta.h"

/* Read identity and meta of a transaction, and verify them. */
int lmdb_meta_read(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta) MUST_CHECK;

/* Write what differs from the meta before, and the transaction's number. */
int lmdb_meta_write(const struct lmdb_txn *txn, const struct store_meta *before,
                    const struct store_meta *after) MUST_CHECK;

/* Write the records of a new store: identity, and all of an empty meta. */
int lmdb_meta_write_new(const struct lmdb_txn *txn,
                        const struct store_identity *identity) MUST_CHECK;

/* Write the transaction's number, which every transaction does. */
int lmdb_meta_write_commit(const struct lmdb_txn *txn) MUST_CHECK;

#endif
