/*
 * handover.h - a leader hands its leadership to another voter: because somebody asked for it,
 * because it is to be removed, or because its disk has no room for the changes of all nodes.
 *
 * The happy path: handover_begin(); handover_turn() has the core do it, in a few turns; requests
 * wait meanwhile.
 *
 * Failure modes: nobody takes it within two election timeouts: this node goes on leading, and the
 * next attempt comes after a pause. If no node has room, each hands over once in a while, and
 * leadership does not go round.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_HANDOVER_H
#define LEAFD_RAFT_CLUSTER_HANDOVER_H

#include "raft/cluster/ground.h"

struct handover {
    const struct ground *on;
    bool active;
    uint64_t to;                /* 0: to the furthest */
    struct timer limit;         /* armed: it may still take */
    struct timer pause;         /* armed: one has failed a moment ago */
    struct timer next_turn;     /* while it is active: soon */
    unsigned failed;            /* since this leader's term began */
    struct timer no_room_pause; /* armed: no other because of the disk; also over terms */
};

void handover_init(struct handover *handover, const struct ground *on);

/* Begin, unless it is under way or has failed a moment ago. to: 0: the voter that is furthest. */
void handover_begin(struct handover *handover, uint64_t to);

/* One step, on a leader that serves. */
void handover_turn(struct handover *handover);

/* This node does not lead. */
void handover_reset(struct handover *handover);

/* Begin if the disk is low. In each turn. */
void handover_if_no_room(struct handover *handover);

#endif
