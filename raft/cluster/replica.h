/*
 * replica.h - one replica without sockets or threads: what a node does in the cluster, put together
 * on a disk, links and a clock that come as vtables.
 *
 *   what comes in           frames and handshakes (net_receiver), finished writes, requests of the
 *                           node's clients, time
 *   driver                  the consensus core and the log; reports what is applied
 *   requests                commands and queries to the leader and back: leader_route, serving
 *   membership, upgrade     changes of the members and of the level, on the leader
 *   compare                 states differ: is this node's wrong, and in which row
 *   peers, birth_watch      links, which nodes are admitted; which cluster is this?
 *   announce, clock_sync    what the node reports to the cluster
 *   service                 what uses it (service.h)
 *
 * node.h runs it on a uv loop with the real disk and links; the simulation runs the same code on
 * virtual ones. After every event (frame, finished write, request, timer) its caller calls
 * replica_turn(), and again at replica_next_ms(). A turn runs the parts that are woken (context.h).
 *
 *   RUNNING --> GIVING --> WRITING --> QUIET
 *
 * The stop. GIVING: leadership is handed over, everything is still served; then the service gives
 * back what it holds. WRITING: all requests were answered, the disk finishes. QUIET: the replica
 * may be closed. Each turn does all steps that are possible.
 *
 * Failure modes: replica_listener.failed, after which the process ends. On a stop: no node takes
 * the leadership over: after the grace the node stops as the leader. The service's time to give
 * back ends: it stops with what it still holds. The disk does not finish within REPLICA_WRITE_MS:
 * replica_listener.failed.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REPLICA_H
#define LEAFD_RAFT_CLUSTER_REPLICA_H

#include "raft/cluster/announce.h"
#include "raft/cluster/compare.h"
#include "raft/cluster/requests.h"
#include "raft/cluster/peers.h"
#include "raft/cluster/service.h"
#include "raft/cluster/membership.h"
#include "src/base/clock.h"
#include "src/base/container.h"

#define REPLICA_WRITE_MS 10000

enum replica_phase { REPLICA_RUNNING, REPLICA_GIVING, REPLICA_WRITING, REPLICA_QUIET };

struct replica {
    struct replica_config config;
    struct raft_context context;
    struct timers timers;
    struct peer_row peer_rows[LIMIT_PEERS];
    struct answers answers;
    struct state *state;
    struct driver driver;
    struct driver_observer observer;
    struct membership membership;
    struct requests requests;
    struct peers peers; /* its receiver gets the links' events */
    struct announce announce;
    struct loop_clock clock;
    struct clock_sync clock_sync;
    struct compare compare;
    uint64_t seen_applied;  /* applied index when the parts were last woken */
    uint64_t seen_alarms;   /* of trust.h */
    bool seen_low;          /* the disk was low then */
    uint64_t logged_leader; /* by the last line of the log about it */
    uint64_t logged_term;   /* of that leader */
    uint64_t through;       /* and the member that it is reached through, or 0 */
    bool draining;          /* leadership is handed over because the node stops */
    bool removed;           /* the listener was informed that this node was removed */
    uint64_t superseded; /* by this later start of this node, which the log knows; 0: it is not */
    /* the stop */
    enum replica_phase phase;
    bool hands_over; /* leadership, from now on */
    bool drained;    /* there is no leadership to hand over any more */
    unsigned led_again;
    bool gave_back; /* what the service holds was offered to the cluster */
    uint64_t grace_until_ms;
    uint64_t write_until_ms; /* of phase WRITING: how long the disk may take */
    /* This start's incarnation, while the disk has the mark of a joining node; else 0. */
    uint64_t joiner_incarnation;
};

/* What a replica is put together from; all but the state, which it takes over, is borrowed. The
 * rows of loaded must have been given to the state between state_load_begin() and state_load_end(),
 * and prepare_store() must have been called. */
struct replica_parts {
    struct state *state; /* with the service's machine */
    struct service *service;
    struct disk *disk;
    struct net *net; /* which gives what comes to the replica's receiver */
    const struct clock *clock;
    const struct store_loaded *loaded; /* for the start alone */
};

/* Start: 0, ERR_CORRUPT, or what the service says. The listener is borrowed. */
int replica_start(struct replica *replica, const struct replica_config *config,
                  const struct replica_parts *parts, struct replica_listener *listener) MUST_CHECK;

/* receive() and link_changed() of net_receiver; nothing more once it stops. */
bool replica_receive(struct net_receiver *receiver, uint64_t from, enum frame_type type,
                     const uint8_t *payload, size_t len);
void replica_link_changed(struct net_receiver *receiver, uint64_t peer, bool up);

/* Do everything that has become possible. True: call again soon, before waiting. */
bool replica_turn(struct replica *replica);

/* Monotonic time of the next replica_turn() at the latest. */
uint64_t replica_next_ms(const struct replica *replica);

/* Begin to drain: the service is informed, and leadership is handed to another node, while requests
 * are still served; replica.drained says when. Idempotent. With phase GIVING it is a stop: once it
 * is drained, or at grace_until_ms, new and pending requests get ERR_SHUTTING_DOWN, and the disk
 * finishes; replica.phase has the progress. */
void replica_drain(struct replica *replica);

/* --- steps of a stop, for the simulation --- */

/* Hand leadership over; call until true. */
bool replica_transfer(struct replica *replica);

/* Stop handing it over: this node, if it leads, serves as the leader until it ends. */
void replica_transfer_end(struct replica *replica);

/* The service gives back to the cluster all that it can before deadline_ms (service_ops.gave_back
 * says when). replica_stop() does not wait for it. */
void replica_give_back(struct replica *replica, uint64_t deadline_ms);

/* Answer all requests with ERR_SHUTTING_DOWN from now on; they are done after the next turn. */
void replica_stop(struct replica *replica);

/* What is left of the time that the disk has for its last writes, at a stop. */
uint32_t replica_write_left_ms(const struct replica *replica);

/* Close everything. No write or read may be under way at the disk, and replica_stop() must have
 * taken effect. Memory that other threads may still read stays until service_ops.release. */
void replica_close(struct replica *replica);

#endif
