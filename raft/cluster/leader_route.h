/*
 * leader_route.h - the route of this node's requests to the leader: directly, or, where the link
 * between the two is cut in one direction or both, through a member that reaches it.
 *
 *            answers come            no member said yes
 *            .------.              .---------------.
 *            v      | too long     v               |
 *          DIRECT --+---------> SOUGHT ------------+----> FORWARDED
 *            ^    without one,    | |   a member's yes    |    |
 *            |    or a no         | '---------------------'    |
 *            '--------------------'        no answer, or no    |
 *            '-------------------------------------------------'
 *              the leader says yes, or a new one is heard
 *
 * The happy path: requests go to the leader that the core knows, and only the age of the oldest is
 * watched. If it has no answer after two heartbeats, and nothing else was answered since, the
 * leader is probed (FRAME_PROBE). All members are asked to probe it if it does not answer within a
 * heartbeat, if there is no link or no leader, or if it reports that it does not lead. Meanwhile
 * requests wait. The first yes decides. The sender of requests compares `changes` in each turn, and
 * sends requests of an earlier route again.
 *
 * Failure modes: no route is found: requests wait until their deadline, as they do without a
 * leader. A probe decides only where frames are sent. If a node that no longer leads answered it,
 * the answers to the requests show it, or their absence does.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_LEADER_ROUTE_H
#define LEAFD_RAFT_CLUSTER_LEADER_ROUTE_H

#include <stddef.h>
#include <stdint.h>

#include "raft/cluster/peers.h"

enum leader_route_state { ROUTE_DIRECT, ROUTE_SOUGHT, ROUTE_FORWARDED };

struct leader_route { /* its owner sets these, and what turn wakes; the rest begins as zeros */
    const struct raft_context *on;
    const struct peers *peers;                  /* those that have links may know one */
    const struct cluster_request_list *waiting; /* requests to be sent */
    const struct cluster_request_list *sent;    /* those without an answer, oldest first */

    enum leader_route_state state;
    unsigned changes;     /* how often it was lost, or found through a member */
    uint64_t leader;      /* that the core knows; 0: none */
    uint64_t forwarder;   /* FORWARDED: the member that passes requests on; else 0 */
    uint64_t heard_ms;    /* when an answer came along the route, or it was taken */
    uint64_t asked_ms;    /* a probe along it has no answer since; 0: none is out */
    uint64_t direct_ms;   /* FORWARDED: when the leader was last asked directly */
    uint64_t sought_ms;   /* SOUGHT: since this time, */
    uint64_t searched_ms; /* and when all were last asked; 0: ask at once, a link came up */
    uint64_t round;       /* number of the last probe, */
    uint64_t first_round; /* and of the first one since the route was last lost, or direct */
    struct timer turn;    /* the next leader_route_turn() that has something to do */
};

/* Probe the route, or look for another, if that is due. In each turn, before requests are sent. */
void leader_route_turn(struct leader_route *route);

/* Arm the timer of the next turn, by the requests that wait now. After requests were sent. */
void leader_route_arm(struct leader_route *route);

/* Where requests go now; 0: nowhere. */
uint64_t leader_route_target(const struct leader_route *route);

/* A leader is known, or a member through which it is reached. */
bool leader_route_is_known(const struct leader_route *route);

/* An answer of this status came from a node that was asked. */
void leader_route_on_answer(struct leader_route *route, uint64_t from, int status);

/* Role, term or leader changed. */
void leader_route_role_changed(struct leader_route *route);

/* A FRAME_PROBE. False: malformed. */
bool leader_route_receive(struct leader_route *route, uint64_t from, const uint8_t *payload,
                          size_t len);

#endif
