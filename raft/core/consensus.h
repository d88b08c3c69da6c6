/*
 * consensus.h - the only user of the consensus library: C-Raft's struct raft, one event in, one
 * update out, the guards that need to see inside (guard.h), and what a follower thinks of its
 * leader.
 *
 * The library has no clock, no disk and no links. The driver gives it events, and carries out what
 * it answers. The configuration in force is kept as a plain struct beside it.
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

/* What the state of a position stands for, for the library, which takes the configuration over. 0
 * or ERR_CORRUPT. */
int consensus_metadata(const struct store_position *position,
                       struct raft_snapshot_metadata *ret_metadata) MUST_CHECK;

/*
 * Give the library one event, at this time. 0 and the update, or its error. as_voter: for this one
 * event it sees itself as the only voter (G6). What a RECEIVE of a snapshot leaves behind that is
 * ignored is freed here.
 */
int consensus_step(struct consensus *consensus, struct raft_event *event, uint64_t now_ms,
                   bool as_voter, struct raft_update *ret_update);

/*
 * G14: and so does (G11) a follower that has become the sole voter, when its timer fires, or when
 * it is asked to take over: it leads the very term that somebody else led before, whose entries
 * behind the change that made it so it need not have. True if it must begin a new term first, with
 * its own vote, which have to be written down; stored: its whole log is on disk, and no snapshot on
 * its way there (else the core waits).
 */
bool consensus_begins_alone(const struct consensus *consensus, bool stored);
void consensus_begin_alone(struct consensus *consensus);

/* Has a step that began in this term begun a campaign? And, right after such a one: it takes
 * another term, one later, and so do its requests for votes (rollback.h). */
bool consensus_campaigns(const struct consensus *consensus, uint64_t term);
void consensus_campaign_later(struct consensus *consensus, struct raft_update *update);

/* A follower waits for a leader from now on, as if it had just heard of one. */
void consensus_wait_anew(struct consensus *consensus, uint64_t now_ms);

/* G3, G9: has a message to be dropped, since it would do harm in this state? */
bool consensus_drops(const struct consensus *consensus, const struct raft_message *message);

/*
 * --- leader_watch: what a follower thinks of its leader: when it was heard, whether it is gone.
 *
 * The happy path: each message of the leader says that it is there (leader_watch_heard()). A leader
 * whose process ended has its address refuse connections, which the links find out at once
 * (leader_watch_refused()): if it is not heard for two heartbeats either, the followers forget it
 * and stand for election one after the other, long before their election timeouts. A leader that
 * hears no majority for an election timeout steps down, and says so (leader_watch_resigned()): then
 * they need not wait at all.
 *
 * Failure modes: no sign is proof, and nothing depends on it: a follower that is wrong asks for
 * pre-votes, which those who hear the leader refuse, and follows again with the next heartbeat. A
 * leader whose machine is lost refuses nothing, and says nothing; then the election timeout
 * decides, as ever.
 */

/* Why a follower does not wait for its leader as long as an election timeout. */
enum leader_trust {
    LEADER_TRUSTED,
    LEADER_REFUSED, /* its address refuses connections */
    LEADER_RESIGNED /* it said itself that it leads no more */
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

/* Nobody listens at a peer's address; or it says that it has stepped down in a term. If it is the
 * leader, this node may stand for election earlier: true if its timer is due earlier from now
 * on. */
bool leader_watch_refused(struct leader_watch *watch, uint64_t peer);
bool leader_watch_resigned(struct leader_watch *watch, uint64_t peer, uint64_t term);

/* G6, G13: forget a leader that is not heard for so long that others may be voted for. */
void leader_watch_forget_silent(struct leader_watch *watch);

#endif
