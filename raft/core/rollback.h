/*
 * rollback.h - what this node has seen of its peers, so that a data directory that was set back
 * to an older copy is not taken for one that was not.
 *
 * A node whose directory was set back has forgotten votes and entries that it acknowledged. Its
 * vote could count twice, and what was committed with its help could be lost. It cannot notice by
 * itself, but those who talked to it can: with every dial a node says which start of its this is
 * (its *incarnation*), which it had before, and its *standing* as it began: term, vote, and the
 * last entry. Each is durable before anybody hears of it, so of a node that forgot nothing
 *
 *  - a later incarnation has a higher count than every earlier one, and the node knows all that it
 *    had (incarnations.h);
 *  - its term is at least that of any message of an earlier incarnation;
 *  - within one term its vote stays;
 *  - its log reaches at least to what it had on its disk and was committed, and within one term
 *    and under one leader to all that it had there.
 *
 * Of a peer that promised nothing yet, since it has nothing but its first list, another directory
 * is let in. Nothing else is held against any. A tail that is not committed may be cut by a newer
 * leader, even to a lower last term, but then its term has risen above that of the leader it had
 * the tail of.
 *
 * A node that hears that it contradicts this marks its directory, and never starts on it again: its
 * term and its log may grow, until they tell nothing any more.
 *
 * All of it is on disk (LOCAL_PEERS; peer_memory.h says when), so that also a node that was
 * restarted knows. docs/failure-model.md says which copies are noticed, and which cannot be.
 *
 * The happy path: rollback_load() at the start, rollback_term(), _vote(), _tail() and _committed()
 * as messages come in, rollback_meet() at each handshake; rollback_save() to write it down.
 *
 * Failure modes: a record that is damaged, or of another version, is refused.
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

/* How far a peer's log reached on its disk, under the leader of a term. */
struct peer_tail {
    uint64_t term;
    uint64_t index;
    uint64_t last_term; /* of the entry there */
};

/* Of one peer; 0 is "nothing yet". */
struct peer_seen {
    uint64_t id;
    uint64_t incarnation;
    uint64_t term;
    uint64_t committed; /* index, and the peer has it on its disk */
    struct peer_tail tail;
    uint64_t vote_term; /* the newest in which it is known to have voted, */
    uint64_t vote;      /* and for whom */
};

struct rollback {
    struct peer_seen peers[ROLLBACK_MAX];
    size_t count;
    bool met;     /* an incarnation is not on disk yet; the owner clears it */
    bool changed; /* something else is not; the owner clears it */
    bool older;   /* of this node itself: a peer said that its data directory is an older copy */
};

/* What a peer contradicts: it says `said` where it must not fall behind `known`. */
struct rollback_evidence {
    const char *what; /* static */
    uint64_t said;
    uint64_t known;
};

/* The peer's durable term is at least this. */
void rollback_term(struct rollback *memory, uint64_t peer, uint64_t term);

/* The peer voted in this term. */
void rollback_vote(struct rollback *memory, uint64_t peer, uint64_t term, uint64_t vote);

/* The peer's log reached so far on its disk. */
void rollback_tail(struct rollback *memory, uint64_t peer, const struct peer_tail *tail);

/* The peer has the committed entries up to here on its disk. */
void rollback_committed(struct rollback *memory, uint64_t peer, uint64_t index);

/* What rollback_meet() would say; nothing is remembered. */
int rollback_judge(const struct rollback *memory, uint64_t peer,
                   const struct wire_statement *statement,
                   struct rollback_evidence *ret_evidence) MUST_CHECK;

/* The peer is there, and says this. Its start is remembered and 0 returned, or, if it has forgotten
 * what is remembered of an earlier incarnation, ERR_STALE with what it forgot; then nothing
 * changes. */
int rollback_meet(struct rollback *memory, uint64_t peer, const struct wire_statement *statement,
                  struct rollback_evidence *ret_evidence) MUST_CHECK;

/* Log that a peer is an older copy, and by what it shows. */
void rollback_log_older(uint64_t peer, const struct peer_standing *start,
                        const struct rollback_evidence *evidence);

/* What is remembered of a peer, NULL if nothing. Borrowed until the next call. */
const struct peer_seen *rollback_find(const struct rollback *memory, uint64_t peer);

/* The peer will never come back. */
void rollback_forget(struct rollback *memory, uint64_t peer);

/* All of it and the mark as a record, and from one (of an empty record: nothing). 0,
 * ERR_BAD_VERSION or ERR_CORRUPT. */
void rollback_save(const struct rollback *memory, struct buf *record);
int rollback_load(struct rollback *memory, const void *record, size_t len) MUST_CHECK;

#endif
