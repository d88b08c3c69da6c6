/*
 * file.h - the data file, checked without LMDB: its pages, and which of its two meta pages is the
 * newest.
 *
 * LMDB has no checksums and trusts its file. The records' checksums (record.h) guard what is read;
 * they cannot see damage that only a later write would step into: a free list that names a page in
 * use, free space that overlaps a node, a branch key that sends a lookup the wrong way. So every
 * page that a meta page reaches is checked: it names itself, its nodes lie within it and fill it,
 * keys rise and stay within their branch's bounds, all leaves are equally deep, no page is reached
 * twice or is free and in use at once, and the counters agree with what was found. Pages of the
 * file that are neither free nor in use are only lost space and no error.
 *
 * LMDB takes the newer meta page by its transaction number, which a single bit can change, and
 * would then silently go back by a commit. So the numbers of both must follow each other, and each
 * must be the one that the record `now` of its own tree carries. Both trees are whole
 * at all times: LMDB does not reuse a page of the older one before it is replaced.
 *
 * One state is neither damage nor a whole file: when the last write of a commit fails, that of its
 * meta page, LMDB puts the older transaction's number back (and its last page), but leaves the
 * trees of the commit that failed. Its pages were written and synced before. Such a commit is
 * finished here: it has to be one of the two, done or not done, and a file in which one bit of an
 * acknowledged commit's number was turned can look the same.
 *
 * Failure modes: ERR_CORRUPT with what and where (every offset is checked before it is followed);
 * ERR_BAD_VERSION for LMDB's own format; ERR_IO.
 * A disk that cannot read a page ends the process with SIGBUS. Thread: start-up, in the child of
 * check.c.
 */
#ifndef LEAFD_STORAGE_LMDB_FILE_H
#define LEAFD_STORAGE_LMDB_FILE_H

#include "storage/store.h"

/* Check the structure of a data file that no process has open: nothing in it can lead LMDB astray
 * afterwards. */
int lmdb_file_check(const char *path, struct store_error *ret_error) MUST_CHECK;

#endif
