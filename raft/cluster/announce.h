/*
 * announce.h - what a node reports to the cluster: its address, version, levels, store id, the
 * start that it is in, and its zone (from PLACEMENT_LEVEL on); as the leader, the digest that all
 * nodes compare their state with.
 *
 * The happy path: announce_turn() looks what is due and proposes it, one command of a kind at a
 * time.
 *
 * Failure modes: a command that fails is due again after a pause.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_ANNOUNCE_H
#define LEAFD_RAFT_CLUSTER_ANNOUNCE_H

#include "raft/cluster/context.h"
#include "raft/cluster/leader_route.h"

struct announce {
    const struct raft_context *on;
    const struct leader_route *route;
    const struct node_info *info; /* what this node registers; node_id 0: nothing */
    struct placement zone;        /* the command that says where this node is */
    bool zone_told;               /* it was looked at beside the others' */
    uint32_t digest_ms;           /* how often digests are compared; 0: never */
    struct node_command registration;
    struct timer registration_pause;
    struct node_command digest;
    struct timer digest_pause;
    unsigned digest_skipped; /* since nothing has changed */
    uint64_t digest_index; /* of the last one that this node proposed; 0: none in this leadership */
};

/* info is borrowed as long as the announcer lives. zone: one that zone_check() takes; "" or NULL:
 * none. */
void announce_init(struct announce *announce, const struct raft_context *on,
                   const struct leader_route *route, const struct node_info *info, const char *zone,
                   uint32_t digest_ms);

/* The log has what this start of the node reports, and so all that was committed before it. */
bool announce_is_registered(const struct announce *announce);

/* Woken by its timers, its commands, a route to the leader that is found or lost, and what wakes
 * all. */
void announce_turn(struct announce *announce);

#endif
