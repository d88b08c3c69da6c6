/*
 * check.h - the check of a database before this process opens it: the pages of its file without
 * LMDB (file), then all of its records by LMDB, in a child that may die (check).
 *
 * Failure modes: ERR_CORRUPT with what and where; ERR_BAD_VERSION for LMDB's own format; ERR_IO.
 * Whatever goes wrong with the child is ERR_CORRUPT (or ERR_IO when it could not be started): the
 * node does not start on what was not checked. Thread: start-up.
 */
#ifndef LEAFD_STORAGE_LMDB_CHECK_H
#define LEAFD_STORAGE_LMDB_CHECK_H

#include <sys/types.h>

#include "storage/store.h"

/*
 * --- file: the data file, checked without LMDB: its pages, and which of its two meta pages is the
 * newest.
 *
 * LMDB has no checksums and trusts its file. The records' checksums (record.h) guard what is read;
 * they cannot see damage that only a later write would step into: a free list that names a page in
 * use, free space that overlaps a node, a branch key that leads a lookup astray. So every
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
 * Every offset is checked before it is followed. A disk that cannot read a page ends the process
 * with SIGBUS. Thread: start-up, in the child.
 */

/* Check the structure of a data file that no process has open: nothing in it can lead LMDB astray
 * afterwards. */
int lmdb_file_check(const char *path, struct store_error *ret_error) MUST_CHECK;

/*
 * --- check: the check of a database before this process opens it, in a child that may die.
 *
 * LMDB trusts its file: a damaged one can crash the process that maps it, and a disk that cannot
 * read a page ends a mapped read with SIGBUS. So a child checks the structure (lmdb_file_check()),
 * then opens the environment read-only and verifies every record (lmdb_load()); the parent has
 * nothing of LMDB open meanwhile, and turns the child's report, or its death, into an error.
 *
 * The child is forked before the parent takes the directory's lock and waits for a byte: it must
 * not inherit the lock, or it could hold it for a moment after the parent was killed, and a restart
 * at once would be refused.
 */

/* A child process that checks the database and may die of it. */
struct lmdb_checker {
    pid_t pid;
    int go_fd;
    int report_fd;
};

/* Fork the child; it waits. Before the directory's lock is taken. */
int lmdb_checker_start(struct lmdb_checker *checker, const char *dir,
                       struct store_error *ret_error) MUST_CHECK;

/* Let the child check structure and every record, and end it. */
int lmdb_checker_run(struct lmdb_checker *checker, const char *dir,
                     struct store_error *ret_error) MUST_CHECK;

/* End a child that was not let run: it ends once no process can do so. Its status. */
int lmdb_checker_end(struct lmdb_checker *checker);

#endif
