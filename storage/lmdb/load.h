/*
 * load.h - the whole of a store, read and verified.
 *
 * Happy path: one read transaction; the meta, then the log from the first to the last index that
 * it names, then the rows in key order with their digest.
 *
 * Failure modes: ERR_CORRUPT with table, key and what differs; never a shorter log or fewer rows.
 * Thread: as storage/store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_LOAD_H
#define LEAFD_STORAGE_LMDB_LOAD_H

#include "storage/lmdb/env.h"

/* Read and verify all tables. ret_loaded and row_fn may be NULL: verify alone. */
int lmdb_load(const struct lmdb_env *env, struct store_loaded *ret_loaded, store_row_fn row_fn,
              void *data, struct store_error *ret_error) MUST_CHECK;

#endif
