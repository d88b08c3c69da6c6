/*
 * saved.h - a state that a new cluster is to begin with: all rows at one index; how it is read out
 * of a backup or out of the directory of a stopped node, and how the data directory of the new
 * cluster's first node is written, in one commit.
 *
 * The happy path: read_backup() takes a file as a whole and verifies it before anything else looks
 * at it. read_survivor() opens a directory (its lock, structure and every record are checked),
 * takes its rows, and carries out what stands in the log after them: also what nobody can tell
 * whether it was committed, since ids that it granted may have been handed out. Both add rows by
 * saved_add(); saved_sort() puts those into order that did not come so. What renew.h has made of
 * them is written: fresh_check() says that the directory may be used; fresh_write() makes a store
 * in it whose first commit has everything: the rows, the position with the sole voter, the term,
 * and the count of starts. A crash leaves no store (a start on it would be a first start, and what
 * is left is thrown away), or a whole one.
 *
 * Failure modes: of reading: ERR_IO; ERR_TOO_LARGE; what backup_verify() and store_lmdb_open() say;
 * ERR_DIVERGED when the log says that this directory's state is not the cluster's. Of writing:
 * ERR_EXISTS: there is something in the directory; ERR_LOCKED; ERR_IO; ERR_DISK_FULL. Each with a
 * text. Thread: main.
 */
#ifndef LEAFD_NODE_RECOVERY_SAVED_H
#define LEAFD_NODE_RECOVERY_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raft/wire/wire.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/state/codec/cluster_command.h"
#include "storage/store.h"

/* --- the rows --- */

struct saved_row {
    uint8_t *key; /* owned; the value follows it */
    uint32_t key_len;
    uint32_t value_len;
    /* Of a tag, as far as it is known: by how many ids it grew in so long. span_ms 0: not known */
    uint64_t grew;
    uint64_t span_ms;
};

struct saved {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    struct uid uid;                        /* of the cluster; none: it has none yet */
    char version[32];                      /* of leafd that wrote a backup; "": it is none */
    uint64_t node_id;                      /* whose state it is */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* of that node for its peers; "": not known */
    uint64_t index;                        /* of the state, and the term of that entry */
    uint64_t term;
    uint64_t tail;          /* of those, entries that it is not known whether they were committed */
    uint64_t wall_ms;       /* when it was taken; 0: not known */
    bool local;             /* the node asked nobody whether it was the newest */
    struct saved_row *rows; /* owned */
    size_t count;
    size_t capacity;
};

static inline const uint8_t *saved_value(const struct saved_row *row)
{
    return row->key + row->key_len;
}

/* Copies. Borrowed until the next one. */
struct saved_row *saved_add(struct saved *saved, const void *key, size_t key_len, const void *value,
                            size_t value_len);

/* Into the order of the keys; of rows with one key the one that was added last stays, and none if
 * that has no value: it was deleted. */
void saved_sort(struct saved *saved);

void saved_free(struct saved *saved);

/* --- reading --- */

int read_backup(const char *path, struct saved *ret_saved,
                struct store_error *ret_error) MUST_CHECK;

/* How far a node's log reaches. */
struct reach {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    struct uid uid; /* of the cluster; none: it has heard of none */
    uint64_t node_id;
    uint64_t term; /* of its last entry */
    uint64_t index;
    struct configuration members; /* by the newest that its log has; without members: unknown */
};

int read_survivor(const char *dir, struct saved *ret_saved, struct reach *ret_reach,
                  struct store_error *ret_error) MUST_CHECK;

/* The same without the rows. */
int read_reach(const char *dir, struct reach *ret_reach, struct store_error *ret_error) MUST_CHECK;

/* --- writing --- */

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
