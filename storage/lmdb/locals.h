/*
 * locals.h - the local records in the table meta: each one a record, and one more that says which
 * there are.
 *
 * A node's list of 32 KiB is written when it changes, not with every lease. `locals` is written
 * with each of them: {number u16, checksum u32} of every record, in rising order, so that one that
 * is missing or that is an earlier one is seen.
 *
 * Happy path of a write: the records that are not shared with the meta before, then `locals`.
 * Failure modes: ERR_CORRUPT names the record. Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_LOCALS_H
#define LEAFD_STORAGE_LMDB_LOCALS_H

#include "storage/lmdb/record.h"
#include "storage/store_meta.h"

/* Read all local records into `locals`, which holds none yet. On failure it holds some of them. */
int lmdb_locals_read(const struct lmdb_txn *txn,
                     struct store_local *locals[LIMIT_LOCAL_RECORDS]) MUST_CHECK;

/* Write the records that are others than those before, and which there are. Nothing if none is
 * another one; before is NULL in a new store, where `locals` is written even if it is empty. */
int lmdb_locals_write(const struct lmdb_txn *txn, struct store_local *const *before,
                      struct store_local *const locals[LIMIT_LOCAL_RECORDS]) MUST_CHECK;

#endif
