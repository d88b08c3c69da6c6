/*
 * guard.h - the guards against the known defects of C-Raft 0.22.1: pure decisions on one message or
 * one update, no I/O and no state of their own.
 *
 * Each G-number names a defect that was reproduced against the library; docs/replication.md
 * describes each. raft/core/tests/test_guard.c has a directed test for each guard, and runs the
 * core itself with and without it where the defect can be shown on one server.
 *
 * The driver and consensus.c call them. Thread: any.
 */
#ifndef LEAFD_RAFT_CORE_GUARD_H
#define LEAFD_RAFT_CORE_GUARD_H

#include <raft.h>
#include <stdbool.h>

#include "raft/wire/wire.h"

/*
 * G1: the core assumes that a CHANGE is the first new entry of its message, so a later one is never
 * marked committed and never rolled back. Cut messages so that a CHANGE is always entry 0: returns
 * how many entries from `from` on (from < n) belong into the next part; at least 1.
 */
unsigned guard_split(const struct raft_entry *entries, unsigned from, unsigned n);

/*
 * G2: the reply to a message of an old term carries an uninitialised last_log_index and may look
 * like a success. Call on each outgoing message of the step; stale: the received message's term was
 * below its own term before the step.
 */
void guard_stale_result(struct raft_message *out, bool stale);

/*
 * G3: a late rejection moves next_index below match_index. True when a leader must drop this append
 * result: a rejection of the current term at or below what the peer has matched.
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
 * G6: a server that is no voter in its own view never grants a vote and never forgets its leader.
 * So a promoted server that lacks its CHANGE can block elections for ever. True when the server
 * must count as a voter for the step that takes this message.
 */
bool guard_vote_as_voter(const struct raft_message *in, int state, int role, raft_index last_index);

/* G6, G13: must it forget its leader first, since none was heard for an election timeout? */
bool guard_forget_leader(raft_time now, raft_time leader_heard, unsigned election_timeout);

/*
 * G12: a server that an entry of its log makes a standby no longer campaigns, and refuses its vote
 * to candidates that lack that entry. If the leader that wrote the entry loses it, no node can be
 * elected ever again. But from that entry on, nothing was committed by this server's
 * acknowledgement, and every majority of the old voters intersects every majority of the new ones.
 * So its vote must protect its log only up to the entry before (before_index, before_term), which
 * was committed before the change was appended (driver.h). A request from a log that reaches that
 * entry is rewritten to pass the core's comparison with the whole log (last_index, last_term). True
 * if it was.
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
