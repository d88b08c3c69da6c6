/*
 * consensus.h - the only user of the consensus library: C-Raft's struct raft, one event in, one
 * update out, the guards against its known defects, and what a follower assumes about its leader.
 *
 * The library has no clock, no disk and no links. The driver gives it events and carries out its
 * updates. The configuration in force is also kept as a plain struct.
 *
 * Failure modes: the library refuses an event: its error (> 0), and nothing changes.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_CONSENSUS_H
#define LEAFD_RAFT_CORE_CONSENSUS_H

#include <raft.h>
#include <stdbool.h>

#include "raft/core/entry_log.h"
#include "raft/wire/wire.h"
#include "src/base/clock.h"

/* Why a follower does not wait for its leader as long as an election timeout. */
enum leader_trust {
    LEADER_TRUSTED,
    LEADER_REFUSED, /* its address refuses connections */
    LEADER_RESIGNED /* it reported that it no longer leads */
};

struct consensus {
    struct raft raft;
    struct configuration configuration; /* as in raft, the one in force */
    const struct clock *clock;
    /* leader_watch */
    uint64_t heard_ms;         /* the leader */
    enum leader_trust trust;   /* since then */
    unsigned drawn_timeout_ms; /* was the core's timeout before that; 0: it still is */
};

/* The address and the clock are borrowed. Its owner ends it: raft_close(), free(). */
struct consensus *consensus_new(uint64_t node_id, const char *address, uint32_t heartbeat_ms,
                                uint32_t election_ms, uint64_t seed, const struct clock *clock);

/* Describe the state at a position to the library, which takes the configuration over. 0 or
 * ERR_CORRUPT. */
int consensus_metadata(const struct store_position *position,
                       struct raft_snapshot_metadata *ret_metadata) MUST_CHECK;

/*
 * Give the library one event. 0 and the update, or its error. as_voter: for this one
 * event the library sees itself as the only voter (G6). no_vote: the highest term in which some
 * node would give no vote: a campaign in such a term, and its vote requests, move to the next one
 * (vote_floor in rollback.h). Frees what the RECEIVE of an ignored snapshot leaves.
 */
int consensus_step(struct consensus *consensus, struct raft_event *event, bool as_voter,
                   uint64_t no_vote, struct raft_update *ret_update);

/*
 * --- guard: against the known defects of C-Raft 0.22.1: pure decisions on one message or one
 * update, without a state of their own.
 *
 * Each G-number names a defect that was reproduced against the library; docs/replication.md
 * describes each. raft/core/tests/test_guard.c has a directed test for each guard, and runs the
 * core itself with and without it where the defect can be shown on one server.
 *
 * Thread: any.
 */

/*
 * G1: the core assumes that a CHANGE is the first new entry of its message, so a later one is never
 * marked committed and never rolled back. Cut messages so that a CHANGE is always entry 0: returns
 * how many entries from `from` on (from < n) belong into the next part; at least 1.
 */
unsigned guard_split(const struct raft_entry *entries, unsigned from, unsigned n);

/*
 * G2: the reply to a message of an old term carries an uninitialised last_log_index and may look
 * like a success. stale: the received message's term was below its own term before the step.
 * G7: the refusal of a pre-vote carries the request's term and hides the higher own one, so that a
 * long log with a low term and a short log with a high term wait for each other. Put its own term
 * in. Call on each outgoing message of the step.
 */
void guard_result(struct raft_message *out, bool stale, raft_term own_term);

/*
 * True when a server in this state must drop a message, since it would do harm.
 * G3: a late rejection moves next_index below match_index. A leader drops a rejection of the
 * current term at or below what the peer has matched (0: nothing, or it is no peer).
 * G9: a vote result in any state but candidate is read from another state's memory.
 */
bool guard_drops(const struct raft_message *in, int state, raft_term own_term, raft_index match);

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

/* G11: a sole voter restarts as leader of its old term and may reissue an index with other content.
 * True if the configuration has `self` as its only voter: begin with term + 1 and its own vote,
 * durably. */
bool guard_sole_voter(const struct configuration *configuration, raft_id self);

/*
 * --- leader_watch: what a follower assumes about its leader: when it was heard, whether it is
 * gone.
 *
 * The happy path: each message of the leader shows that it is alive (note_leader() in driver.c).
 * If the leader's process ends, its address refuses connections, which the links notice at once. If
 * it is also not heard for two heartbeats, the followers forget it and stand for election one after
 * the other, long before their election timeouts. A leader that hears no majority for an election
 * timeout steps down and reports it; then followers need not wait at all (leader_watch_lost()).
 *
 * Failure modes: no sign is proof, and safety does not depend on one. A follower that is wrong asks
 * for pre-votes, which the nodes that hear the leader refuse; it follows again with the next
 * heartbeat. A leader whose machine is lost refuses nothing and sends nothing; then the election
 * timeout decides.
 */

/* A peer's address has no listener; or the peer reports that it stepped down in this term. If it is
 * the leader, this node may stand for election earlier: true if its timer is now due earlier. */
bool leader_watch_lost(struct consensus *consensus, uint64_t leader, enum leader_trust why);

/* G6, G13: forget a leader that was silent so long that votes for other nodes are allowed. */
void leader_watch_forget_silent(struct consensus *consensus);

#endif
