/*
 * store.h - the store in LMDB 0.9: one environment `<dir>/db`, fully durable commits.
 *
 * One environment holds log, meta and state, so that an install replaces all of them in one
 * transaction and a batch of appends and applies costs one commit. Its price: a view that is read
 * keeps freed pages from reuse for that time, and the file grows: by half of the room that there
 * was at most, then the view ends. What other processes read (mdb_copy) counts as used, and cannot
 * be ended.
 *
 * Opening checks first: the lock (flock on `<dir>/lock`, held until close: ERR_LOCKED for a second
 * process); then, in a child process that may die of it, the structure of the data file page by
 * page, the "not empty" sentinel, format version, and every record's checksum; then the identity. A
 * million rows take about a quarter of a second.
 *
 * A hot copy is `mdb_copy` without -c: compacting numbers the transactions anew, and the check
 * takes such a file for one whose newest commits were lost.
 *
 * Thread: as store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_STORE_H
#define LEAFD_STORAGE_LMDB_STORE_H

#include "storage/store.h"

/* Of the file system, for a map that follows it. */
#define STORE_LMDB_MAP_PERCENT 80

/* What a directory is opened for. */
enum store_lmdb_use {
    STORE_LMDB_NODE,  /* to run a node on it: made when there is none */
    STORE_LMDB_LOOK,  /* to read it, of any node (the identity is load()'s); ERR_NOT_FOUND when
                         there is none */
    STORE_LMDB_FRESH, /* to make one with a content of its own: ERR_EXISTS when there is anything */
};

struct store_lmdb_config {
    enum store_lmdb_use use;
    const char *dir;    /* made (mode 0700) if missing, but to look */
    uint64_t map_bytes; /* address space reserved, the bound of the data; >= 1 MiB */
    bool map_by_disk;   /* no more than STORE_LMDB_MAP_PERCENT of the file system of dir */
    struct store_identity identity; /* used when the store is made; cluster_id and node_id are
                                       checked when it exists (store_id is read from it) */
    bool loose_mode;                /* group and others may have rights on dir, or own it */
    uint32_t slice_rows;            /* of rows that are owed (store.c), in a table of any size; 0:
                                       the default. For tests */
    /* Of a fresh one: what its first commit carries out. A crash leaves a directory without a
     * store, or a whole one with all of this. */
    struct store_op_list *first;
};

/* Open the store, or make it when there is none (*ret_made). 0; ERR_LOCKED; ERR_UNSAFE_DIRECTORY
 * (dir has files of others, links, another owner, or a mode that is too loose); ERR_CORRUPT;
 * ERR_BAD_VERSION; ERR_WRONG_NODE (made for another node or cluster); ERR_NOT_FOUND, ERR_EXISTS
 * (see above); ERR_IO; ERR_DISK_FULL. On failure *ret_error says what and where, and nothing is
 * left open. */
int store_lmdb_open(const struct store_lmdb_config *config, struct store **ret_store,
                    bool *ret_made, struct store_error *ret_error) MUST_CHECK;

/* The version of LMDB that is loaded, "0.9.24". Valid until the thread's next call. Any thread. */
const char *store_lmdb_version(void);

#endif
