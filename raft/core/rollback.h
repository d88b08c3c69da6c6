/*
 * rollback.h - what this node has seen of its peers, so that a data directory that was set back
 * to an older copy is not taken for one that was not.
 *
 * A node whose directory was set back has forgotten votes and entries that it acknowledged. Its
 * vote could count twice, and what was committed with its help could be lost. It cannot notice by
 * itself, but those who talked to it can: with every dial a node says which start of its this is
 * (its *incarnation*), and what its term and its last entry were when it began. Each is durable
 * before anybody hears of it, so of a node that forgot nothing
 *
 *  - a later incarnation has a higher count than every earlier one;
 *  - its term is at least that of any message of an earlier incarnation;
 *  - its log reaches at least to what it had acknowledged and was committed, and within one term
 *    and under one leader to all that it had acknowledged.
 *
 * A node that hears so marks its directory, and never starts on it again: each start counts the
 * older copy's incarnations up, until they look like later ones.
 *
 * Incarnations are also kept on disk (LOCAL_PEERS), terms and indexes in memory alone. So what
 * nobody is left to tell is: a copy of the incarnation that was the last one, while all who met
 * that incarnation were started anew. docs/failure-model.md says what follows.
 *
 * The happy path: rollback_load() at the start, rollback_term() and rollback_index() as
 * messages come in, rollback_meet() at each handshake; while `changed` is set,
 * rollback_save() wants to be written.
 *
 * Thread: pure functions, one owner.
 */
#ifndef LEAFD_RAFT_CORE_ROLLBACK_H
#define LEAFD_RAFT_CORE_ROLLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/wire/wire.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

#define ROLLBACK_MAX (2 * LIMIT_PEERS) /* more peers are not remembered */

/* Of one peer; 0 is "nothing yet". */
struct peer_seen {
    uint64_t id;
    uint64_t incarnation;
    uint64_t term;
    uint64_t index; /* committed, and acknowledged by it */
};

struct rollback {
    struct peer_seen peers[ROLLBACK_MAX];
    size_t count;
    bool changed; /* an incarnation is not on disk yet; the owner clears it */
    bool older;   /* of this node itself: a peer said that its data directory is an older copy */
};

/* The peer's durable term is at least this. */
void rollback_term(struct rollback *memory, uint64_t peer, uint64_t term);

/* The peer has the committed entries up to here on its disk. */
void rollback_index(struct rollback *memory, uint64_t peer, uint64_t index);

/* The peer is there. Its start is remembered and 0 returned, or, if it has forgotten what is
 * remembered of an earlier incarnation, ERR_STALE, and nothing changes. */
int rollback_meet(struct rollback *memory, uint64_t peer,
                  const struct peer_start *start) MUST_CHECK;

/* Log that a peer is an older copy: it said this of its start, and index is how far its log must
 * reach. */
void rollback_log_older(const struct rollback *memory, uint64_t peer,
                        const struct peer_start *start, uint64_t index);

/* What is remembered of a peer, NULL if nothing. Borrowed until the next call. */
const struct peer_seen *rollback_find(const struct rollback *memory, uint64_t peer);

/* The peer will never come back. */
void rollback_forget(struct rollback *memory, uint64_t peer);

/* Incarnations and mark as a record, and from one (of an empty record: nothing). 0,
 * ERR_BAD_VERSION or ERR_CORRUPT. */
void rollback_save(const struct rollback *memory, struct buf *record);
int rollback_load(struct rollback *memory, const void *record, size_t len) MUST_CHECK;

#endif
