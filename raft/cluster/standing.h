/*
 * standing.h - a node tells its peers what its own disk holds of the consensus.
 *
 * Acknowledgements go to the leader alone, and nobody hears what a leader has on its own disk. With
 * this all know of all, and a copy of any node's data that is put back is noticed by whoever was in
 * contact with the original (raft/core/rollback.h).
 *
 * The happy path: a small frame to all peers once a second, after STANDING_CHANGED_MS already if
 * something has changed; to one whose link comes up; and to all at a stop.
 *
 * Failure modes: a frame that is lost is made up for by the next.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_STANDING_H
#define LEAFD_RAFT_CLUSTER_STANDING_H

#include "raft/cluster/ground.h"

/* Together with PEER_MEMORY_HOLD_MS (raft/core/peer_memory.h), less than a second. */
#define STANDING_CHANGED_MS 500
#define STANDING_MS 1000

struct standing {
    const struct ground *on;
    struct timer timer;
    struct peer_standing told; /* last, to all */
    uint64_t told_ms;
};

void standing_init(struct standing *standing, const struct ground *on);

/* This node is about to stop: tell all, once more. */
void standing_stop(struct standing *standing);

/* A link came up: tell that peer. */
void standing_link_up(struct standing *standing, uint64_t peer);

#endif
