/*
 * fresh.h - the data directory of the first node of a new cluster, in one commit.
 *
 * The happy path: fresh_check() says that the directory may be used; fresh_write() makes a store in
 * it whose first commit has everything: the rows, the position with the sole voter, the term, and
 * the count of starts. A crash leaves no store (a start on it would be a first start, and what is
 * left is thrown away), or a whole one.
 *
 * Failure modes: ERR_EXISTS: there is something in the directory; ERR_LOCKED; ERR_IO;
 * ERR_DISK_FULL. Thread: main.
 */
#ifndef LEAFD_APP_RECOVERY_FRESH_H
#define LEAFD_APP_RECOVERY_FRESH_H

#include "storage/store.h"

struct fresh {
    const char *dir;
    const char *cluster_id;
    uint64_t node_id;
    const char *address; /* of its peer port */
    uint64_t index;      /* of the state */
    uint64_t term;
    uint64_t digest;
    const void *rows; /* records in the order of their keys */
    size_t rows_len;
};

/* 0: the directory is not there, or has at most what an interrupted fresh_write() has left. */
int fresh_check(const char *dir, struct store_error *ret_error) MUST_CHECK;

int fresh_write(const struct fresh *fresh, uint64_t *ret_store_id,
                struct store_error *ret_error) MUST_CHECK;

#endif
