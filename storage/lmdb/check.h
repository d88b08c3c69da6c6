/*
 * check.h - the check of a database before this process opens it: the pages of its file without
 * LMDB (file), then all of its records by LMDB, in a child that may die (check).
 *
 * Failure modes: ERR_CORRUPT with what and where; ERR_BAD_VERSION for LMDB's own format; ERR_IO.
 * Any failure of the child is ERR_CORRUPT (ERR_IO if it could not be started): the node does not
 * start on unchecked data. Thread: start-up.
 */
#ifndef LEAFD_STORAGE_LMDB_CHECK_H
#define LEAFD_STORAGE_LMDB_CHECK_H

#include <sys/types.h>

#include "storage/store.h"

/*
 * --- file: the data file, checked without LMDB: its pages, and which of its two meta pages is the
 * newest.
 *
 * LMDB has no checksums and trusts its file. The records' checksums (record.h) guard reads. They
 * cannot detect damage that only a later write would meet: a free list that names a page in use,
 * free space that overlaps a node, a branch key that leads a lookup astray. So every page that a
 * meta page reaches is checked: it has its own number, its nodes are within it and fill it, keys
 * rise and stay within their branch's bounds. All leaves are equally deep, no page is reached twice
 * or is both free and in use, and the counters agree with the pages found. Pages that are neither
 * free nor in use are lost space, not an error.
 *
 * LMDB picks the newer meta page by its transaction number. A single flipped bit could make it
 * silently go back by a commit. So the two numbers must be consecutive, and each must equal the one
 * in the record `now` of its own tree. Both trees are whole at all times: LMDB does not reuse a
 * page of the older one before it is replaced.
 *
 * One state is neither damage nor a whole file: when the last write of a commit, that of its meta
 * page, fails, LMDB restores the older transaction's number (and last page), but leaves the trees
 * of the failed commit, whose pages were written and synced before. The check finishes such a
 * commit: it must be either done or not done, and an acknowledged commit whose number has a flipped
 * bit can look the same. Every offset is checked before it is followed. A disk that cannot read a
 * page ends the process with SIGBUS. Thread: start-up, in the child.
 */

/* Check the structure of a data file that no process has open: LMDB can then trust it. */
int lmdb_file_check(const char *path, struct store_error *ret_error) MUST_CHECK;

/*
 * --- check: the check of a database before this process opens it, in a child that may die.
 *
 * LMDB trusts its file: a damaged one can crash the process that maps it, and a disk that cannot
 * read a page ends a mapped read with SIGBUS. So a child checks the structure (lmdb_file_check()),
 * then opens the environment read-only and verifies every record (lmdb_load()); the parent has
 * nothing of LMDB open meanwhile, and turns the child's report or death into an error.
 *
 * The child is forked before the parent takes the directory's lock, and waits for a byte. It must
 * not inherit the lock: it could hold it for a moment after the parent was killed, and an immediate
 * restart would be refused.
 */

/* A child process that checks the database and may die of it. */
struct lmdb_checker {
    pid_t pid;
    int fd; /* a socket: a byte lets the child begin, and its report comes back */
};

/* Fork the child; it waits. Before the directory's lock is taken. */
int lmdb_checker_start(struct lmdb_checker *checker, const char *dir,
                       struct store_error *ret_error) MUST_CHECK;

/* Let the child check structure and every record, and end it. */
int lmdb_checker_run(struct lmdb_checker *checker, const char *dir,
                     struct store_error *ret_error) MUST_CHECK;

/* End a child that was not run: it ends once fd is closed. Returns its status. */
int lmdb_checker_end(struct lmdb_checker *checker);

#endif
