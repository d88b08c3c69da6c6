/*
 * pages.h - the pages of a data file, checked without LMDB.
 *
 * LMDB has no checksums and trusts its file. The records' checksums (record.h) guard what is read;
 * they cannot see damage that only a later write would step into: a free list that names a page in
 * use, free space that overlaps a node, a branch key that sends a lookup the wrong way. So every
 * page that a meta page reaches is checked: it names itself, its nodes lie within it and fill it,
 * keys rise and stay within their branch's bounds, all leaves are equally deep, no page is reached
 * twice or is free and in use at once, and the counters agree with what was found.
 *
 * Pages of the file that are neither free nor in use are only lost space and no error.
 *
 * Failure modes: ERR_CORRUPT with tree and page; every offset is checked before it is followed.
 * Thread: start-up, in the child of check.c.
 */
#ifndef LEAFD_STORAGE_LMDB_PAGES_H
#define LEAFD_STORAGE_LMDB_PAGES_H

#include <stddef.h>

#include "storage/lmdb/layout.h"
#include "storage/store.h"

/* Check the pages that a meta page reaches. size: of the file at map. whole: all trees, else only
 * the way to the commit record. ret_highest: NULL; or, if the last page is not known but lies below
 * meta's, it returns the highest page that is free or in use. */
int lmdb_pages_check(const uint8_t *map, size_t size, const struct meta_page *meta, bool whole,
                     uint64_t *ret_highest, struct store_error *ret_error) MUST_CHECK;

#endif
