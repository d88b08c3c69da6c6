/*
 * consensus.h - the only user of the consensus library: C-Raft's struct raft, one event in, one
 * update out, the guards that need to see inside (guard.h), and what a follower assumes about its
 * leader.
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

struct consensus {
    struct raft raft;
    struct configuration configuration; /* as in raft, the one in force */
};

/* The address is borrowed. */
struct consensus *consensus_new(uint64_t node_id, const char *address, uint32_t heartbeat_ms,
                                uint32_t election_ms, uint64_t seed);
void consensus_free(struct consensus *consensus);

/* Describe the state at a position to the library, which takes the configuration over. 0 or
 * ERR_CORRUPT. */
int consensus_metadata(const struct store_position *position,
                       struct raft_snapshot_metadata *ret_metadata) MUST_CHECK;

/*
 * Give the library one event, at this time. 0 and the update, or its error. as_voter: for this one
 * event the library sees itself as the only voter (G6). Frees what the RECEIVE of an ignored
 * snapshot leaves.
 */
int consensus_step(struct consensus *consensus, struct raft_event *event, uint64_t now_ms,
                   bool as_voter, struct raft_update *ret_update);

/*
 * G14, as G11: a follower that has become the sole voter leads when its timer fires, or when it is
 * asked to take over. It would lead the same term that another node led before, and it may lack
 * that node's entries after the change to a sole voter. True if it must first begin a new term with
 * its own vote, both written to disk. stored: its whole log is on disk, and no snapshot is on its
 * way there (else the core waits).
 */
bool consensus_begins_alone(const struct consensus *consensus, bool stored);
void consensus_begin_alone(struct consensus *consensus);

/* Has a step that began in this term begun a campaign? And, right after such a step: the campaign
 * and its vote requests move to the next term (rollback.h). */
bool consensus_campaigns(const struct consensus *consensus, uint64_t term);
void consensus_campaign_later(struct consensus *consensus, struct raft_update *update);

/* Restart a follower's wait for a leader, as if it had just heard from one. */
void consensus_wait_anew(struct consensus *consensus, uint64_t now_ms);

/* G3, G9: must a message be dropped, since it would do harm in this state? */
bool consensus_drops(const struct consensus *consensus, const struct raft_message *message);

/*
 * --- leader_watch: what a follower assumes about its leader: when it was heard, whether it is
 * gone.
 *
 * The happy path: each message of the leader shows that it is alive (leader_watch_heard()). If the
 * leader's process ends, its address refuses connections, which the links notice at once
 * (leader_watch_refused()). If it is also not heard for two heartbeats, the followers forget it and
 * stand for election one after the other, long before their election timeouts. A leader that hears
 * no majority for an election timeout steps down and reports it (leader_watch_resigned()); then
 * followers need not wait at all.
 *
 * Failure modes: no sign is proof, and safety does not depend on one. A follower that is wrong asks
 * for pre-votes, which the nodes that hear the leader refuse; it follows again with the next
 * heartbeat. A leader whose machine is lost refuses nothing and sends nothing; then the election
 * timeout decides.
 */

/* Why a follower does not wait for its leader as long as an election timeout. */
enum leader_trust {
    LEADER_TRUSTED,
    LEADER_REFUSED, /* its address refuses connections */
    LEADER_RESIGNED /* it reported that it no longer leads */
};

struct leader_watch {
    struct consensus *consensus;
    const struct clock *clock;
    uint64_t heard_ms;
    enum leader_trust trust;   /* since then */
    unsigned drawn_timeout_ms; /* was the core's timeout before that; 0: it still is */
};

/* The leader of this term, or of a later one, has sent something. */
void leader_watch_heard(struct leader_watch *watch);

/* A peer's address has no listener; or the peer reports that it stepped down in a term. If the peer
 * is the leader, this node may stand for election earlier: true if its timer is now due earlier. */
bool leader_watch_refused(struct leader_watch *watch, uint64_t peer);
bool leader_watch_resigned(struct leader_watch *watch, uint64_t peer, uint64_t term);

/* G6, G13: forget a leader that was silent so long that votes for other nodes are allowed. */
void leader_watch_forget_silent(struct leader_watch *watch);

#endif
