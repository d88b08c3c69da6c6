/*
 * relay.h - requests of other members that this node passes on to the leader, since they do not
 * reach it themselves (way.h).
 *
 * The happy path: a FRAME_RELAY comes; it goes on to the leader as a FRAME_REQUEST that names its
 * origin, under a number of this node's own; the leader's FRAME_REPLY goes back to the origin under
 * the origin's number. A FRAME_REQUEST is never passed on, so there is one hop and no loop.
 *
 * Failure modes: no leader is known, or it changes, or its link breaks: the origin gets
 * ERR_NOT_LEADER at once and looks for another way. Too many, or too many bytes: ERR_OVERLOADED.
 * The origin's time, or two election timeouts, are over: forgotten; the origin sends it anew after
 * one. No payload is kept.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_RELAY_H
#define LEAFD_RAFT_CLUSTER_RELAY_H

#include "raft/cluster/ground.h"
#include "raft/cluster/numbers.h"

/* A request of another member on its way through this node. */
struct relayed {
    TAILQ_ENTRY(relayed) link;
    struct relay *owner;
    uint64_t id;     /* this node's number, under which the leader has it */
    uint64_t leader; /* to whom it went */
    uint64_t origin; /* whose it is, and that node's number */
    uint64_t origin_id;
    size_t bytes; /* of its payload */
    struct timer deadline;
};

TAILQ_HEAD(relayed_list, relayed);

struct relay {
    const struct ground *on;
    struct relayed_list list;
    struct numbers numbers; /* with NUMBERS_MARK, so no reply is taken for one to this node */
    size_t count;           /* <= LIMIT_RELAYED */
    size_t bytes;           /* <= LIMIT_RELAYED_BYTES */
};

void relay_init(struct relay *relay, const struct ground *on, uint64_t seed);

/* All must be given back. */
void relay_close(struct relay *relay);

/* Pass on what a member sent, or refuse it. This node does not lead. */
void relay_receive(struct relay *relay, uint64_t from, const struct wire_request *wire);

/* The answer to what was passed on (its number has the mark); reply->id is changed. */
void relay_reply(struct relay *relay, uint64_t from, struct wire_reply *reply);

/* Role, term or leader changed, or this node stops: give back what went to another leader than
 * the present one, or everything. */
void relay_role_changed(struct relay *relay);

void relay_link_down(struct relay *relay, uint64_t peer);

#endif
