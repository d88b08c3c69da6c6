/*
 * guard.h - the guards against the known defects of C-Raft 0.22.1: pure decisions on one message or
 * one update, no I/O and no state of their own.
 *
 * Each G-number names a defect that was reproduced against the library; docs/replication.md lists
 * the story of each. raft/core/tests/test_guard.c has a directed test a guard, and runs the core
 * itself with and without it where the defect can be shown on one server.
 *
 * The driver and consensus.c call them. Thread: any.
 */
#ifndef LEAFD_RAFT_CORE_GUARD_H
#define LEAFD_RAFT_CORE_GUARD_H

#include <raft.h>
#include <stdbool.h>

#include "raft/wire/wire.h"

/*
 * G1: the core takes a CHANGE for the first new entry of its message, so that one further on is
 * never marked committed and never rolled back. Cut messages so that a CHANGE is always entry 0:
 * returns how many entries from `from` on (from < n) belong into the next part; at least 1.
 */
unsigned guard_split(const struct raft_entry *entries, unsigned from, unsigned n);

/*
 * G2: the reply to a message of an old term carries an uninitialised last_log_index and may look
 * like a success. Call on each outgoing message of the step; stale: the received message's term was
 * below its own term before the step.
 */
void guard_stale_result(struct raft_message *out, bool stale);

/*
 * G3: a late rejection moves next_index below match_index. True when an append result that reached
 * a leader is to be dropped: a rejection of the current term at or below what the peer has matched.
 */
bool guard_drop_rejection(const struct raft_message *in, raft_term own_term, raft_index match);

/*
 * G4, G5: an AppendEntries that begins below the commit index lowers the commit index, or is
 * appended at the end of a compacted log. Rewrite a message of its own or a newer term to begin at
 * the commit index: entries up to it are skipped (they are equal by the log matching property).
 * commit_term is the term of the entry at commit. Returns how many leading entries the caller
 * drops; prev is adjusted.
 */
unsigned guard_normalise(struct raft_message *in, raft_term own_term, raft_index commit,
                         raft_term commit_term);

/*
 * G6: a server that is no voter in its own view never grants a vote and never forgets its leader,
 * so a just promoted one that has not got its CHANGE can block elections for ever. True when, for
 * the one step that takes this message, the server must count as a voter.
 */
bool guard_vote_as_voter(const struct raft_message *in, int state, int role, raft_index last_index);

/* G6, G13: and whether it must forget its leader first: none was heard for so long. */
bool guard_forget_leader(raft_time now, raft_time leader_heard, unsigned election_timeout);

/*
 * G12: a server that an entry of its log makes a standby campaigns no more, and refuses its vote to
 * those who lack that entry, however much they need it: with the entry lost by the leader that
 * wrote it, nobody is elected ever again. But from that entry on nothing was committed by its
 * acknowledgement, and whoever is elected without it by a majority of the voters of before has one
 * of every majority of those of afterwards behind him: so its vote has to protect its log only up
 * to the entry before (before_index, before_term), which was committed before that change was
 * appended (driver.h). A request from a log that is as far as that is made to pass the
 * core's comparison with the whole one (last_index, last_term). True if it was.
 */
bool guard_vote_before_demotion(struct raft_message *in, raft_index before_index,
                                raft_term before_term, raft_index last_index, raft_term last_term);

/* G7: the refusal of a pre-vote carries the request's term and hides the higher own one, so that a
 * long log with a low term and a short log with a high term wait for each other. Put its own term
 * in. */
void guard_pre_vote_refusal(struct raft_message *out, raft_term own_term);

/* G8: a leader's timer can be due in the past for ever. The time to arm: never before now + 1. */
raft_time guard_timer(raft_time timeout, raft_time now);

/* G9: a vote result in any state but candidate is read from another state's memory. True: drop it.
 */
bool guard_drop_vote_result(const struct raft_message *in, int state);

/* G10: no entry of its own term on a clean election, and a CHANGE is accepted at once (the
 * single-server change bug of 2015). True when membership changes and reads may be served: an entry
 * of the current term was applied. */
bool guard_own_term_applied(raft_term applied_term, raft_term own_term);

/* G11: a sole voter restarts as leader of its old term and may reissue an index with other content.
 * True if the configuration has `self` as its only voter: begin with term + 1 and its own vote,
 * durably. */
bool guard_sole_voter(const struct configuration *configuration, raft_id self);

#endif
