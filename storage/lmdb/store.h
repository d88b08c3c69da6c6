/*
 * store.h - the store in LMDB 0.9: one environment `<dir>/db`, fully durable commits.
 *
 * One environment holds log, meta and state, so that an install replaces all of them in one
 * transaction and a batch of appends and applies costs one commit. Its price: while a view is open,
 * freed pages are not reused and the file grows. Once half of the room is used up, the view ends.
 * Pages that other processes read (mdb_copy) count as used; such a reader cannot be ended.
 *
 * Opening checks first: the lock (flock on `<dir>/lock`, held until close: ERR_LOCKED for a second
 * process); then, in a child process that may die of it, the data file's structure page by page,
 * the "not empty" sentinel, the format version and every record's checksum; then the identity. A
 * million rows take about a quarter of a second.
 *
 * A hot copy is `mdb_copy` without -c: compacting renumbers the transactions, and the check then
 * reports the newest commits as lost.
 *
 * Thread: as store.h.
 */
#ifndef LEAFD_STORAGE_LMDB_STORE_H
#define LEAFD_STORAGE_LMDB_STORE_H

#include "storage/store.h"

/* Share of the file system, with map_by_disk. */
#define STORE_LMDB_MAP_PERCENT 80

/* The use that a directory is opened for. */
enum store_lmdb_use {
    STORE_LMDB_NODE,  /* to run a node: made if missing */
    STORE_LMDB_LOOK,  /* to read it, of any node (load() returns the identity); ERR_NOT_FOUND if
                        missing */
    STORE_LMDB_FRESH, /* to make one with the given content; ERR_EXISTS if there is one */
};

struct store_lmdb_config {
    enum store_lmdb_use use;
    const char *dir;    /* made (mode 0700) if missing, except with STORE_LMDB_LOOK */
    uint64_t map_bytes; /* address space reserved, the bound of the data; >= 1 MiB */
    bool map_by_disk;   /* no more than STORE_LMDB_MAP_PERCENT of the file system of dir */
    struct store_identity identity; /* used when the store is made; cluster_id and node_id are
                                       checked when it exists (store_id is read from it) */
    bool loose_mode;                /* group and others may have rights on dir, or own it */
    uint32_t slice_rows; /* rows in a slice of owed rows (store.c), in a table of any size; 0:
                            the default. For tests */
    /* STORE_LMDB_FRESH: the operations of its first commit. A crash leaves no store, or a whole one
     * with all of them. */
    struct store_op_list *first;
};

/* Open the store, or make it when there is none (*ret_made). 0; ERR_LOCKED; ERR_UNSAFE_DIRECTORY
 * (dir has foreign files, links, another owner, or a mode that is too loose); ERR_CORRUPT;
 * ERR_BAD_VERSION; ERR_WRONG_NODE (made for another node or cluster); ERR_NOT_FOUND, ERR_EXISTS
 * (see above); ERR_IO; ERR_DISK_FULL. On failure *ret_error says what and where, and nothing is
 * left open. */
int store_lmdb_open(const struct store_lmdb_config *config, struct store **ret_store,
                    bool *ret_made, struct store_error *ret_error) MUST_CHECK;

/* The version of LMDB that is loaded, "0.9.24". Valid until the thread's next call. Any thread. */
const char *store_lmdb_version(void);

#endif
