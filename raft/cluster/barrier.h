/*
 * barrier.h - waits until all members have applied an entry. Until then a member may still act on
 * the state before the entry, and hand out ids of a segment that a change of its tag made old.
 *
 * The happy path: barrier_submit() takes a CLUSTER_REQUEST_BARRIER with the index of an entry that
 * is committed. While requests wait, this node asks the other members every few milliseconds up to
 * which index they have applied the log (FRAME_APPLIED), once for all requests. Once all members,
 * this node included, have applied the index of a request, it is answered.
 *
 * The members to wait for are looked up anew each time, in the configuration that this node has
 * applied: a member that is removed meanwhile is no longer waited for, once that is committed; an
 * added one is. Before this node has applied the entry itself, nothing is answered, so no change of
 * the membership before it is missed. The leader plays no part.
 *
 * Failure modes: a member that cannot be reached, or does not reach the index: ERR_TIMEOUT at the
 * deadline, with the missing members. More than LIMIT_BARRIER_WAITS: ERR_OVERLOADED. Stopping:
 * ERR_SHUTTING_DOWN. Frames that are lost are sent again. A member that is asked keeps no state.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_BARRIER_H
#define LEAFD_RAFT_CLUSTER_BARRIER_H

#include "raft/cluster/context.h"

struct barrier {
    const struct raft_context *on;
    struct cluster_request_list waits; /* by index, rising */
    size_t count;                      /* of these; <= LIMIT_BARRIER_WAITS */
    struct timer ask_again;            /* armed: the others were asked a moment ago */
};

void barrier_init(struct barrier *barrier, const struct raft_context *on);

/* Take a request of kind CLUSTER_REQUEST_BARRIER. */
void barrier_submit(struct barrier *barrier, struct cluster_request *request);

/* A FRAME_APPLIED. False: malformed. */
bool barrier_receive(struct barrier *barrier, uint64_t from, const uint8_t *payload, size_t len);

/* A link came or went: the peer's last report may be of an earlier incarnation. */
void barrier_link_changed(struct barrier *barrier, uint64_t peer);

/* Ask and answer. Woken by a request, an answer, its timer, and what wakes all. */
void barrier_turn(struct barrier *barrier);

/* Answer all with ERR_SHUTTING_DOWN. */
void barrier_stop(struct barrier *barrier);

#endif
