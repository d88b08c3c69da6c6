/*
 * check.h - the check of a database before this process opens it, in a child that may die.
 *
 * LMDB trusts its file: a damaged one can crash whoever maps it, and a disk that cannot read a page
 * ends a mapped read with SIGBUS. So a child checks the structure (file.h), then opens the
 * environment read-only and verifies every record (load.h); the parent has nothing of LMDB open
 * meanwhile, and turns the child's report, or its death, into an error.
 *
 * The child is forked before the parent takes the directory's lock and waits for a byte: it must
 * not inherit the lock, or it could hold it for a moment after the parent was killed, and a restart
 * at once would be refused.
 *
 * Failure modes: whatever goes wrong with the child is ERR_CORRUPT (or ERR_IO when it could not be
 * started): the node does not start on what was not checked. Thread: start-up.
 */
#ifndef LEAFD_STORAGE_LMDB_CHECK_H
#define LEAFD_STORAGE_LMDB_CHECK_H

#include <sys/types.h>

#include "storage/store.h"

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

/* End a child that was not let run. */
void lmdb_checker_cancel(struct lmdb_checker *checker);

#endif
