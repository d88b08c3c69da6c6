/*
 * rollback.h - what this node has seen of its peers, so that a data directory that was set back
 * to an older copy is not taken for one that was not.
 *
 * A node whose directory was set back has forgotten votes and entries that it acknowledged. Its
 * vote could count twice, and what was committed with its help could be lost. It cannot notice by
 * itself, but the nodes that talked to it can. With every dial a node reports its current start
 * (its *incarnation*), its earlier ones, and what was *durable* when it began: term, vote, and the
 * last entry. Each is durable before any node hears of it, so for a node that forgot nothing
 *
 *  - a later incarnation has a higher count than every earlier one, and the node knows all its
 *    earlier ones (below);
 *  - its term is at least that of any message of an earlier incarnation;
 *  - within one term its vote does not change;
 *  - its log reaches at least to what it had on its disk and was committed, and within one term
 *    and under one leader to all that it had there.
 *
 * A peer that promised nothing yet, since it has only its first list, may come with another
 * directory. Nothing else counts against a peer. A newer leader may cut an uncommitted tail, even
 * to a lower last term, but then the peer's term is above that of the leader that sent the tail.
 *
 * A node that learns of such a contradiction marks its directory and never starts on it again: its
 * term and its log could grow until they prove nothing any more.
 *
 * All of it is on disk (LOCAL_PEERS, see peer_memory), so that it survives a restart.
 * docs/failure-model.md says which copies are noticed, and which cannot be.
 *
 * The happy path: rollback_load() at the start, rollback_note() as messages come in,
 * rollback_check_peer() at each handshake; rollback_save() to write it down.
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

#define ROLLBACK_MAX (2 * LIMIT_PEERS) /* further peers are not remembered */

/* The end of a peer's log on its disk, under the leader of a term. */
struct peer_tail {
    uint64_t term;
    uint64_t index;
    uint64_t last_term; /* of the entry there */
};

/* What was seen of one peer; 0 is "nothing yet". */
struct peer_seen {
    uint64_t id;
    uint64_t incarnation;
    uint64_t term;
    uint64_t committed; /* index, and the peer has it on its disk */
    struct peer_tail tail;
    uint64_t vote_term; /* the newest in which it is known to have voted, */
    uint64_t vote;      /* and the node that it voted for */
};

struct rollback {
    struct peer_seen peers[ROLLBACK_MAX];
    size_t count;
    bool met;     /* an incarnation is not on disk yet; the owner clears it */
    bool changed; /* something else is not; the owner clears it */
    bool older;   /* of this node itself: a peer said that its data directory is an older copy */
};

/* A peer's contradiction: it says `said`, which must not be below `known`. */
struct rollback_evidence {
    const char *what; /* static */
    uint64_t said;
    uint64_t known;
};

/* The peer (shown->id) has shown this: its durable term is at least that, it voted so, its log on
 * its disk reached that entry and has the committed entries up to there. Zeros: not shown; its
 * incarnation is not used. What is known of it already stays, unless this is more. */
void rollback_note(struct rollback *memory, const struct peer_seen *shown);

/* The result that rollback_check_peer() would have; nothing is remembered. */
int rollback_judge(const struct rollback *memory, uint64_t peer,
                   const struct wire_statement *statement,
                   struct rollback_evidence *ret_evidence) MUST_CHECK;

/* The peer has connected with this statement. 0: its start is remembered. ERR_STALE: it has
 * forgotten what is remembered of an earlier incarnation; the evidence says which, and nothing
 * changes. */
int rollback_check_peer(struct rollback *memory, uint64_t peer,
                        const struct wire_statement *statement,
                        struct rollback_evidence *ret_evidence) MUST_CHECK;

/* Log that a peer is an older copy, with the evidence. */
void rollback_log_older(uint64_t peer, const struct wire_durable *start,
                        const struct rollback_evidence *evidence);

/* The record of a peer, or NULL. Borrowed until the next call. */
const struct peer_seen *rollback_find(const struct rollback *memory, uint64_t peer);

/* The peer will never come back. */
void rollback_forget(struct rollback *memory, uint64_t peer);

/* Write memory and mark as a record; read them from one (an empty record has nothing). 0,
 * ERR_BAD_VERSION or ERR_CORRUPT. */
void rollback_save(const struct rollback *memory, struct buf *record);
int rollback_load(struct rollback *memory, const void *record, size_t len) MUST_CHECK;

/*
 * --- incarnations: a node's own ones: the count of each start, and the random half drawn for it.
 *
 * The count alone does not show a copy of a data directory: once the copy was started as often as
 * the original, its count is equal. The random halves show it. They are on the disk
 * (LOCAL_INCARNATIONS) before any node hears of them. With each dial a node reports its earlier
 * ones, so a peer that met another one under the same count recognizes a copy (rollback.h).
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

/* An empty record has none. 0, ERR_BAD_VERSION or ERR_CORRUPT. */
int incarnations_load(struct incarnations *incarnations, const void *record, size_t len) MUST_CHECK;
void incarnations_save(const struct incarnations *incarnations, struct buf *record);

/* Add one of this count, which is above all known ones. If counts between are missing, all earlier
 * ones are forgotten. */
void incarnations_add(struct incarnations *incarnations, uint64_t count, uint32_t random);

/* The newest as a whole: its count, and below it its random half. There must be one. */
uint64_t incarnations_newest(const struct incarnations *incarnations);

/* Append those before the newest, as a statement has them (wire.h). */
void incarnations_earlier(const struct incarnations *incarnations, struct buf *earlier);

/* Is it one of these (the newest included)? If it is older than all that are kept, the count alone
 * decides. */
bool incarnations_include(const struct incarnations *incarnations, uint64_t incarnation);

/* May a node with this statement have had that incarnation earlier? If it is older than all in the
 * statement, the count alone decides. */
bool incarnations_may_include(const struct wire_statement *statement, uint64_t incarnation);

/*
 * --- vote_floor: terms in which a node may have given a vote that it forgot.
 *
 * A node whose disk lost its last write (a restored copy, a disk that reported "synced" falsely)
 * may have voted in the term after the one on the disk, and only the candidate knows. So in each
 * start but the first on a data directory the node gives no vote in that term. It gives pre-votes,
 * which bind no node. A candidate knows from the handshakes at which terms its peers started, and
 * takes the term after, so no election is lost.
 *
 * Votes in later terms are reported to all nodes within a second (peers.h), which then notice when
 * they are forgotten (rollback.h). docs/failure-model.md has the cases that neither covers.
 *
 * The happy path: vote_floor_met() at the start and at each handshake; vote_floor_drops() for each
 * request of a vote; no campaign is in a term up to `known`.
 *
 * Failure modes: none. A peer with a false report of its start costs each campaign here one more
 * term.
 */

struct raft_message;

struct vote_floor {
    uint64_t own;   /* no vote of this node up to this term; 0: any */
    uint64_t known; /* the highest of its own and its peers': some known node gives no vote */
};

/* This node has started so, or an admitted peer reports that it has. Returns the last term in which
 * that start gives no vote: of this node, it is `own`. */
uint64_t vote_floor_met(struct vote_floor *floor, const struct wire_durable *start);

/* Does this message request a vote that must not be given? */
bool vote_floor_drops(const struct vote_floor *floor, const struct raft_message *message);

/*
 * --- peer_memory: what this node knows of its peers, and its writes to the disk.
 *
 * A restarted node must recognize an older copy of a peer's data as well as a node that kept
 * running. So what it learns is written as LOCAL_PEERS, within PEER_MEMORY_HOLD_MS. No request
 * waits for that: it joins a commit that happens anyway (peer_memory_join()), at most every
 * PEER_MEMORY_JOIN_MS, and has its own commit only if none comes. Without a change nothing is
 * written.
 *
 * The happy path: what a message shows is put into `seen`; peer_memory_join() right before another
 * write is submitted; peer_memory_changed() after it; peer_memory_write() at the end. A new
 * incarnation of a peer is written at once.
 *
 * Failure modes: a crash loses what was not written yet: then this node knows less, but never
 * accuses a peer wrongly.
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

/* Start with the record on disk. 0, ERR_BAD_VERSION or ERR_CORRUPT. */
int peer_memory_init(struct peer_memory *memory, struct writes *writes, const struct clock *clock,
                     struct timers *timers, const struct buf *record) MUST_CHECK;

/* Another write is submitted right after this call: pending changes go with it. */
void peer_memory_join(struct peer_memory *memory);

/* Something may have changed: it is written soon, and a start that was met for the first time at
 * once. */
void peer_memory_changed(struct peer_memory *memory);

/* Write all of it. more: another write follows at once, for the same commit. done is called once it
 * is durable; NULL: not awaited. */
void peer_memory_write(struct peer_memory *memory, bool more, void (*done)(void *data), void *data);

#endif
