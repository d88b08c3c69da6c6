/*
 * read.h - a saved state out of a backup, or out of the directory of a node that is stopped.
 *
 * The happy path: read_backup() takes a file as a whole and verifies it before anything else looks
 * at it. read_survivor() opens a directory (its lock, structure and every record are checked),
 * takes its rows, and carries out what stands in the log behind them: also what nobody can tell
 * whether it was committed, since ids that it granted may have been handed out.
 *
 * Failure modes: ERR_IO; ERR_TOO_LARGE; what backup_verify() and store_lmdb_open() say;
 * ERR_DIVERGED when the log says that this directory's state is not the cluster's. Each with a
 * text. Thread: main.
 */
#ifndef LEAFD_APP_RECOVERY_READ_H
#define LEAFD_APP_RECOVERY_READ_H

#include "raft/wire/configuration.h"
#include "src/app/recovery/saved.h"
#include "src/base/err.h"
#include "storage/store.h"

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

#endif
