/*
 * leader_watch.h - what a follower thinks of its leader: when it was heard, whether it is gone.
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
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_LEADER_WATCH_H
#define LEAFD_RAFT_CORE_LEADER_WATCH_H

#include <stdbool.h>

#include "src/base/clock.h"

struct consensus;

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

void leader_watch_init(struct leader_watch *watch, struct consensus *consensus,
                       const struct clock *clock);

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
