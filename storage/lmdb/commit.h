/*
 * commit.h - a list of operations as one transaction.
 *
 * Happy path: each operation moves a copy of the meta (store_meta.h checks it) and changes log and
 * rows; then a chunk of a pending compaction; then the parts of the meta that changed and the
 * transaction's number; then one durable commit.
 *
 * Failure modes: anything that fails aborts the transaction and leaves the store as it was, in
 * memory as on disk, except that a failed commit itself leaves the outcome unknown: the caller ends
 * the process. Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_COMMIT_H
#define LEAFD_STORAGE_LMDB_COMMIT_H

#include "storage/lmdb/env.h"
#include "storage/store_meta.h"

/* Carry out the list; *now moves to the meta after it. */
int lmdb_commit(const struct lmdb_env *env, struct store_meta *now,
                const struct store_op_list *list, struct store_error *ret_error) MUST_CHECK;

#endif
