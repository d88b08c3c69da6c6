/*
 * saved.h - a state that a new cluster begins with: all rows at one index. Reads it from a backup
 * or a stopped node's directory (saved.c), converts it (renew.c), and writes the data directory of
 * the new cluster's first node in one commit (saved.c).
 *
 * The new cluster must hand out nothing that the old one may have handed out since:
 *
 *   tags, deleted ones too   max_id is raised, the generation too; no segment has a holder, so a
 *                            tag that was changing to strict is strict. With a date it continues in
 *                            today's period, with a raised counter. With {key} it continues by the
 *                            key after the next, since the next may have been in force
 *   worker ids               all of the layout, also those not in the state: released, under a
 *                            later epoch, and stamping nothing at or before now
 *   idempotency keys         kept: a client that repeats one gets the same ids (or dropped, if the
 *                            operator says so)
 *   settings                 kept; the log's time is now, and the birth is new
 *   nodes, sessions, segment holders, changes of members, removed ids
 *                            dropped: they are the old cluster's
 *
 * The happy path: read_backup() reads a whole file and verifies it before any other use.
 * read_survivor() opens a directory (its lock, structure and every record are checked), takes its
 * rows, and applies the log entries after them. It also applies entries of which it is unknown
 * whether they were committed: ids that they granted may have been handed out. renew() makes the
 * rows of the new store, in order, and a text with the next id of each tag. It loads the state
 * machine from the old and from the new rows, so that nothing is written that a node would refuse.
 * fresh_check() checks that the directory may be used. fresh_write() makes a store in it whose
 * first commit has everything: the rows, the position with the sole voter, the term, and the count
 * of starts. A crash leaves a whole store or none (then a start is a first start, and remains are
 * thrown away).
 *
 * Failure modes: of reading: ERR_IO; ERR_TOO_LARGE; errors of backup_verify() and
 * store_lmdb_open(); ERR_DIVERGED when the log says that this directory's state is not the
 * cluster's. Of renew(): ERR_CORRUPT, ERR_BAD_VERSION: the rows are not a valid state;
 * ERR_CLOCK_BACKWARDS: this machine's clock is before the time of the state; ERR_INVALID: the raise
 * is by time and a tag's growth is unknown, or a date's zone is unknown here. Of writing:
 * ERR_EXISTS: the directory is not empty; ERR_LOCKED; ERR_IO; ERR_DISK_FULL. Each with a text.
 * Thread: main.
 */
#ifndef LEAFD_NODE_RECOVERY_SAVED_H
#define LEAFD_NODE_RECOVERY_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raft/wire/wire.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/state/codec/cluster_command.h"
#include "storage/store.h"

/* --- the rows --- */

struct saved_row {
    uint8_t *key; /* owned; the value follows it */
    uint32_t key_len;
    uint32_t value_len;
    /* Of a tag: its growth in ids within span_ms. span_ms 0: not known */
    uint64_t grew;
    uint64_t span_ms;
    size_t added; /* number of rows added before it */
};

struct saved {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    struct uid uid;                        /* of the cluster; none: the cluster has none yet */
    char version[32];                      /* of the leafd that wrote the backup; "": not a
                                              backup */
    uint64_t node_id;                      /* the node that the state is from */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* of that node for its peers; "": not known */
    uint64_t index;                        /* of the state, and the term of that entry */
    uint64_t term;
    uint64_t log_term; /* of a directory: the same as its log has it, even if that cannot be */
    uint64_t tail;     /* of a directory: entries of its log that are not known to be committed */
    struct configuration members; /* the newest configuration of that log; without members:
                                     unknown */
    uint64_t wall_ms;             /* time of the state; 0: not known */
    bool local;             /* the node did not confirm with others that its state was the newest */
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

/* Sort by key. Of rows with the same key only the last added one stays, and not even that if it has
 * no value (a deletion). */
void saved_sort(struct saved *saved);

void saved_free(struct saved *saved);

/* --- reading --- */

int read_backup(const char *path, struct saved *ret_saved,
                struct store_error *ret_error) MUST_CHECK;

/* with_rows false: without rows, entries and address: only whose log it is, and where it ends. */
int read_survivor(const char *dir, bool with_rows, struct saved *ret_saved,
                  struct store_error *ret_error) MUST_CHECK;

/* --- the new cluster --- */

/* The raise of each tag's max_id: the larger of the two. */
struct raise {
    bool by_ids;
    bool by_time;
    uint64_t ids;
    uint64_t time_ms;
    uint64_t factor;
};

/* The operator's choices. */
struct renew_options {
    struct raise raise;
    bool drop_keys; /* forget the idempotency keys */
};

struct renewed {
    struct buf rows; /* records, as STORE_INSTALL takes them; owned */
    uint64_t digest;
    struct uid uid;    /* of the new cluster */
    struct buf tags;   /* the text about tags; owned */
    struct buf limits; /* ids that the raise does not cover, and the remedy; owned */
    size_t row_count;
    size_t tag_count; /* that are not deleted, */
    size_t exhausted; /* tags that have no ids left, deleted ones too */
    size_t keys;      /* kept, or dropped */
    size_t workers;
};

struct tag_row;

/* The raise of the row, of this tag, in numbers. False: not known. */
bool renew_raise(const struct raise *raise, const struct saved_row *row, const struct tag_row *tag,
                 uint64_t *ret_numbers);

int renew(const struct saved *saved, const struct renew_options *options, uint64_t now_ms,
          struct renewed *ret_renewed, struct store_error *ret_error) MUST_CHECK;

void renewed_release(struct renewed *renewed);

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

/* 0: the directory does not exist, or has at most the remains of an interrupted fresh_write(). */
int fresh_check(const char *dir, struct store_error *ret_error) MUST_CHECK;

/* 0: the directory, which need not exist, is neither `source` nor below it: that stays as it is. */
int fresh_check_outside(const char *dir, const char *source,
                        struct store_error *ret_error) MUST_CHECK;

int fresh_write(const struct fresh *fresh, struct store_error *ret_error) MUST_CHECK;

#endif
