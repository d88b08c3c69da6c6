/*
 * announce.h - what a node reports to the cluster: its address, version, levels, store id, the
 * current start, and its zone (from PLACEMENT_LEVEL on); as the leader, the digest that all nodes
 * compare their state with. Also which of its settings differ from the log, and the time.
 *
 * The happy path: announce_turn() proposes what is due, one command of a kind at a time.
 *
 * Settings that differ: the members are read from the settings at the first start of a cluster;
 * from then on the log holds them. An operator who changes a setting later must see that it has no
 * effect. So announce_turn() compares anew when the log's side may have changed, and logs each
 * difference that begins or ends. A difference stops nothing.
 *
 * Failure modes: a command that fails is due again after a pause.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_ANNOUNCE_H
#define LEAFD_RAFT_CLUSTER_ANNOUNCE_H

#include "raft/cluster/context.h"
#include "raft/cluster/leader_route.h"
#include "src/base/clock.h"

/* Settings that differ from the log; each is a bit. */
enum difference {
    DIFFERS_MEMBERS = 1 << 0, /* cluster.members */
    DIFFERS_ADDRESS = 1 << 1  /* peer.advertise, or its default */
};

struct announce {
    const struct raft_context *on;
    const struct leader_route *route;
    struct placement zone; /* the command that says where this node is */
    bool zone_told;        /* it was compared with the others' */
    struct node_command registration;
    struct node_command digest;
    unsigned digest_skipped; /* since nothing has changed */
    uint64_t digest_index; /* of the last one that this node proposed; 0: none in this leadership */
    /* settings that differ from the log */
    bool compared;       /* they were, */
    uint64_t conf_index; /* with the configuration of this entry, */
    uint64_t moves;      /* number of moves of members then */
    unsigned differs;    /* bits of enum difference */
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
 * --- clock_sync: the cluster's time: asks the peers for their clocks' time, and as the leader puts
 * the median into the log.
 *
 * The happy path: every second (at first five times a second) each peer gets a FRAME_CLOCK; its
 * answer goes to clock_check_sample(). The leader appends a COMMAND_CLOCK with the median every
 * renew_ms. No id's uniqueness rests on the log's time.
 *
 * Failure modes: no answers: only the own clock is known, and the checks pass. Not the leader:
 * nothing is proposed.
 */

struct clock_sync {
    const struct raft_context *on;
    struct clock_check check;
    struct timer ask; /* the peers, again */
    struct node_command command;
};

void clock_sync_init(struct clock_sync *sync, const struct raft_context *on);

/* A FRAME_CLOCK. False: malformed. */
bool clock_sync_receive(struct clock_sync *sync, uint64_t from, const uint8_t *payload, size_t len);

/* The last question to a peer that was answered: its round trip, and the answer. NULL: none was
 * answered for CLOCK_SAMPLE_FRESH_MS. Borrowed until the next answer. */
const struct clock_link *clock_sync_link(const struct clock_sync *sync, uint64_t peer);

/* What a node (also this one) serves: bits of enum wire_serves. A node that does not report this,
 * or whose last answer is old, counts as serving all: a client asks it and sees. */
uint8_t clock_sync_serves(const struct clock_sync *sync, uint64_t node_id);

/* Propose what is due. Woken by an answer, its timers, its command, and what wakes all. */
void clock_sync_turn(struct clock_sync *sync);

#endif
