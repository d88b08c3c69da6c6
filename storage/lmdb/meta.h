/*
 * meta.h - the table meta: who the store belongs to, and its struct store_meta.
 *
 * Happy path: a new store gets `identity` and an empty meta; every transaction, the first one
 * included, writes `now` and the local records that it replaces; reading takes all of it and checks
 * that it fits together.
 *
 * `now` names the last entry, so a log that lost its tail is seen; it holds the transaction's
 * number, so a tree that is older than its meta page says is seen (file.h); and it lists the local
 * records with their checksums, in rising order, so that one that is missing or that is an earlier
 * one is seen.
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

/* Write the meta. Of the local records those that are others than before. */
int lmdb_meta_write(const struct lmdb_txn *txn, const struct store_meta *before,
                    const struct store_meta *after) MUST_CHECK;

/* Write the records of a new store, whose meta is as store_meta_init() makes it. */
int lmdb_meta_write_new(const struct lmdb_txn *txn,
                        const struct store_identity *identity) MUST_CHECK;

#endif
