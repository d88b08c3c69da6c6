/*
 * saved.h - a state that a new cluster is to begin with: all rows at one index; how it is read out
 * of a backup or out of the directory of a stopped node (saved.c); what it becomes (renew.c); and
 * how the data directory of the new cluster's first node is written, in one commit (saved.c).
 *
 * In the new cluster nothing may be handed out that the old one may have handed out since:
 *
 *   tags, deleted ones too   max_id is raised, the generation too; nobody holds a segment, so a tag
 *                            that was changing to strict is strict. With a date it continues in
 *                            today's period, and the counter in that is raised. With {key} it
 *                            continues by the key after the next, which may have been in force
 *   worker ids               all of the layout, also those that the state does not know: released,
 *                            under a later epoch, and with nothing to be stamped at or before now
 *   idempotency keys         kept: a client that repeats one gets the ids that were its own (or
 *                            dropped, if the operator says so)
 *   settings                 kept; the log's time is now, and the birth is another one
 *   nodes, sessions, segment holders, changes of members, removed ids
 *                            dropped: they are the old cluster's
 *
 * The happy path: read_backup() takes a file as a whole and verifies it before anything else looks
 * at it. read_survivor() opens a directory (its lock, structure and every record are checked),
 * takes its rows, and carries out what stands in the log after them: also what nobody can tell
 * whether it was committed, since ids that it granted may have been handed out. renew() makes the
 * rows of the new store, in order, and the text that says for each tag from where it continues;
 * both state machines, of before and after, are loaded on the way, so that nothing is written that
 * a node would refuse. fresh_check() says that the directory may be used; fresh_write() makes a
 * store in it whose first commit has everything: the rows, the position with the sole voter, the
 * term, and the count of starts. A crash leaves no store (a start on it would be a first start, and
 * what is left is thrown away), or a whole one.
 *
 * Failure modes: of reading: ERR_IO; ERR_TOO_LARGE; what backup_verify() and store_lmdb_open() say;
 * ERR_DIVERGED when the log says that this directory's state is not the cluster's. Of renew():
 * ERR_CORRUPT, ERR_BAD_VERSION: the rows do not make a state; ERR_CLOCK_BACKWARDS: this machine's
 * clock is before the time when the state was taken; ERR_INVALID: the raise is by time, and how
 * fast a tag grew is not known; or a zone of a date is not known here. Of writing: ERR_EXISTS:
 * there is something in the directory; ERR_LOCKED; ERR_IO; ERR_DISK_FULL. Each with a text.
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
    /* Of a tag, as far as it is known: by how many ids it grew in so long. span_ms 0: not known */
    uint64_t grew;
    uint64_t span_ms;
    size_t added; /* before it, so many others were */
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

/* ret_saved: NULL: how far it reaches alone. */
int read_survivor(const char *dir, struct saved *ret_saved, struct reach *ret_reach,
                  struct store_error *ret_error) MUST_CHECK;

/* --- the new cluster --- */

/* How far each tag's max_id is raised: by the larger of the two. */
struct raise {
    bool by_ids;
    bool by_time;
    uint64_t ids;
    uint64_t time_ms;
    uint64_t factor;
};

/* What the operator says about it. */
struct renew_options {
    struct raise raise;
    bool drop_keys; /* forget the idempotency keys */
};

struct renewed {
    struct buf rows; /* records, as STORE_INSTALL takes them; owned */
    uint64_t digest;
    struct uid uid;    /* of the new cluster */
    struct buf tags;   /* the text about them; owned */
    struct buf limits; /* what of them the raise does not cover, and what to do; owned */
    size_t row_count;
    size_t tag_count; /* that are not deleted, */
    size_t clamped;   /* and of these: could not be raised so far */
    size_t used_up;   /* have no number left in today's period, or at all */
    size_t keys;      /* kept, or dropped */
    size_t workers;
};

/* How far the tag of this row is to be raised. False: it is not known. */
bool renew_raise(const struct raise *raise, const struct saved_row *row, uint64_t max_step,
                 uint64_t *ret_ids);

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

/* 0: the directory is not there, or has at most what an interrupted fresh_write() has left. */
int fresh_check(const char *dir, struct store_error *ret_error) MUST_CHECK;

int fresh_write(const struct fresh *fresh, uint64_t *ret_store_id,
                struct store_error *ret_error) MUST_CHECK;

#endif
