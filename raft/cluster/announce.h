/*
 * announce.h - what a node reports to the cluster: its address, version, levels, store id, the
 * current start, and its zone (from PLACEMENT_LEVEL on); as the leader, the digest that all nodes
 * compare their state with. Also which of its settings differ from the log.
 *
 * The happy path: announce_turn() proposes what is due, one command of a kind at a time.
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
    struct placement zone; /* the command that says where this node is */
    bool zone_told;        /* it was compared with the others' */
    struct node_command registration;
    struct timer registration_pause;
    struct node_command digest;
    struct timer digest_pause;
    unsigned digest_skipped; /* since nothing has changed */
    uint64_t digest_index; /* of the last one that this node proposed; 0: none in this leadership */
};

void announce_init(struct announce *announce, const struct raft_context *on,
                   const struct leader_route *route);

/* The node has applied its own registration of this start, and so all that was committed before
 * it. */
bool announce_is_registered(const struct announce *announce);

/* Woken by its timers, its commands, a route to the leader that is found or lost, and what wakes
 * all. */
void announce_turn(struct announce *announce);

/*
 * --- differences: settings of this node that differ from the replicated log.
 *
 * The members are read from the settings at the first start of a cluster; from then on the log
 * holds them. An operator who changes a setting later must see that it has no effect.
 *
 * The happy path: differences_turn() compares anew when the log's side may have changed, logs each
 * difference that begins or ends, and leaves the result in `now`. A difference stops nothing.
 */

/* Settings that differ from the log; each is a bit. */
enum difference {
    DIFFERS_MEMBERS = 1 << 0, /* cluster.members */
    DIFFERS_ADDRESS = 1 << 1  /* peer.advertise, or its default */
};

struct differences { /* its owner sets on; the rest begins as zeros */
    const struct raft_context *on;
    bool looked;    /* it was compared, */
    uint64_t index; /* with the configuration of this entry, */
    uint64_t moves; /* number of moves of members then */
    unsigned now;   /* bits of enum difference */
};

/* Woken by what wakes all. */
void differences_turn(struct differences *differences);

#endif
