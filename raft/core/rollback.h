/*
 * rollback.h - what this node has seen of its peers, so that a data directory that was set back
 * to an older copy is not taken for one that was not.
 *
 * A node whose directory was set back has forgotten votes and entries that it acknowledged. Its
 * vote could count twice, and what was committed with its help could be lost. It cannot notice by
 * itself, but the nodes that talked to it can: with every dial a node says which start of its this
 * is (its *incarnation*), which it had before, and its *durable* as it began: term, vote, and the
 * last entry. Each is durable before anybody hears of it, so of a node that forgot nothing
 *
 *  - a later incarnation has a higher count than every earlier one, and the node knows all that it
 *    had (below);
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
 * term and its log may grow, until they prove nothing any more.
 *
 * All of it is on disk (LOCAL_PEERS; below is when), so that also a node that was
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

#include "raft/core/entry_log.h"
#include "raft/wire/wire.h"
#include "src/base/buf.h"
#include "src/base/clock.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/base/timers.h"

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

/* What a peer contradicts: it says `said` where it must not be below `known`. */
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
void rollback_log_older(uint64_t peer, const struct peer_durable *start,
                        const struct rollback_evidence *evidence);

/* What is remembered of a peer, NULL if nothing. Borrowed until the next call. */
const struct peer_seen *rollback_find(const struct rollback *memory, uint64_t peer);

/* The peer will never come back. */
void rollback_forget(struct rollback *memory, uint64_t peer);

/* All of it and the mark as a record, and from one (of an empty record: nothing). 0,
 * ERR_BAD_VERSION or ERR_CORRUPT. */
void rollback_save(const struct rollback *memory, struct buf *record);
int rollback_load(struct rollback *memory, const void *record, size_t len) MUST_CHECK;

/*
 * --- incarnations: those that a node had itself: the count of each start, and the random half that
 * was drawn for it.
 *
 * The count alone does not show a copy of a data directory: once the copy was started as often as
 * the original, it counts as high. The random halves do. They are on the disk (LOCAL_INCARNATIONS)
 * before anybody hears of them, and with each dial a node says those that it had, so that whoever
 * met another one under the same count knows it for a copy (rollback.h).
 *
 * The happy path: incarnations_load() and incarnations_add() at the start, incarnations_save() into
 * the same commit as the count; incarnations_earlier() into each statement.
 *
 * Failure modes: a record that is damaged or of another version is refused. More than
 * LIMIT_INCARNATIONS: the oldest are forgotten, and known by their count alone.
 */

struct incarnations {
    uint64_t newest;                     /* count of the first of these; 0: there is none */
    uint32_t random[LIMIT_INCARNATIONS]; /* the newest first */
    uint32_t known;                      /* how many of them */
};

/* Of an empty record: none. 0, ERR_BAD_VERSION or ERR_CORRUPT. */
int incarnations_load(struct incarnations *incarnations, const void *record, size_t len) MUST_CHECK;
void incarnations_save(const struct incarnations *incarnations, struct buf *record);

/* A new one, of this count, which is above all that are known. Should one between be missing, those
 * before it are forgotten. */
void incarnations_add(struct incarnations *incarnations, uint64_t count, uint32_t random);

/* The newest as a whole: its count, and below it its random half. There must be one. */
uint64_t incarnations_newest(const struct incarnations *incarnations);

/* Append those before the newest, as a statement has them (wire.h). */
void incarnations_earlier(const struct incarnations *incarnations, struct buf *earlier);

/* Is it one of these, the newest too? Of one that is older than all that are kept, the count alone
 * decides. */
bool incarnations_include(const struct incarnations *incarnations, uint64_t incarnation);

/* May a node that says this of itself have had that incarnation before this one? Of one that is
 * older than all that it says, the count alone decides. */
bool incarnations_may_include(const struct wire_statement *statement, uint64_t incarnation);

/*
 * --- vote_floor: terms in which a node may have voted, and forgotten it.
 *
 * A node whose disk lost its last write (a copy that was put back, a disk that said "synced" and
 * lied) may have given its vote in the term after the one that the disk has, and nobody but the
 * candidate knows. So in each start but the first on a data directory it gives none in that term;
 * pre-votes, which bind nobody, it gives. Whoever stands for election knows from the handshakes at
 * which terms its peers started, and takes the term after, so that it costs no election.
 *
 * All nodes hear of votes in later terms than that within a second (peers.h), and missed by
 * them (rollback.h). What neither covers is in docs/failure-model.md.
 *
 * The happy path: vote_floor_own() at the start, vote_floor_met() at each handshake;
 * vote_floor_drops() for each request of a vote; vote_floor_covers() for the term of a campaign.
 *
 * Failure modes: none. A peer that lies about its start costs each campaign here one more term.
 */

struct raft_message;

struct vote_floor {
    uint64_t own;   /* no vote of this node up to this term; 0: any */
    uint64_t known; /* the highest of its own and its peers' */
};

/* What this node, or a peer that was let in, says of its start. */
void vote_floor_own(struct vote_floor *floor, const struct peer_durable *start);
void vote_floor_met(struct vote_floor *floor, const struct peer_durable *start);

/* Is this a request for a vote that must not be given? */
bool vote_floor_drops(const struct vote_floor *floor, const struct raft_message *message);

/* Would somebody, for all that is known, give no vote in this term? */
bool vote_floor_covers(const struct vote_floor *floor, uint64_t term);

/*
 * --- peer_memory: what this node knows of its peers, on its way to the disk.
 *
 * A node that was restarted must know an older copy of a peer's data as well as one that ran on. So
 * what it learns is written down as LOCAL_PEERS, within PEER_MEMORY_HOLD_MS, and costs nothing that
 * anybody waits for: it goes with a commit that happens anyway (peer_memory_join()), at most every
 * PEER_MEMORY_JOIN_MS, and by itself only if none comes. Where nothing changes nothing is written.
 *
 * The happy path: a message says something, and is put into `seen`; peer_memory_join() right
 * before another write is submitted; peer_memory_changed() after it; peer_memory_write() at the
 * end.
 * A new incarnation of a peer is written at once.
 *
 * Failure modes: a crash loses what was not written yet: then this node knows less, and accuses
 * nobody wrongly for it.
 *
 * Thread: the raft loop.
 */

/* Less than a second together with DURABLE_REPORT_CHANGED_MS (raft/cluster/peers.h). */
#define PEER_MEMORY_HOLD_MS 400
#define PEER_MEMORY_JOIN_MS 50

struct peer_memory {
    struct rollback seen;
    struct rollback at_start; /* as the disk had it; see agrees() in driver.c */
    struct writes *writes;
    const struct clock *clock;
    struct timers *timers;
    struct timer due;  /* a change has waited as long as it may */
    uint64_t saved_ms; /* when it was written last */
};

/* With what the disk has. 0, ERR_BAD_VERSION or ERR_CORRUPT. */
int peer_memory_init(struct peer_memory *memory, struct writes *writes, const struct clock *clock,
                     struct timers *timers, const struct buf *record) MUST_CHECK;

/* Another write is about to be submitted, at once: what is to be written goes with it. */
void peer_memory_join(struct peer_memory *memory);

/* Something may have changed: it is written soon, and a start that was met for the first time at
 * once. */
void peer_memory_changed(struct peer_memory *memory);

/* Write all of it. more: another write follows at once, for the same commit. done is called once it
 * is durable; NULL: nobody waits. */
void peer_memory_write(struct peer_memory *memory, bool more, void (*done)(void *data), void *data);

#endif
