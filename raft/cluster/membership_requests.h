/*
 * membership_requests.h - what this node's clients, and nodes that join through it, want of the
 * membership: asked of the leader again and again until it is so, or the deadline comes.
 *
 * The happy path: membership_requests_submit() takes an CLUSTER_REQUEST_MEMBER; the leader answers
 * "pending" at once and begins (membership.h); it is asked anew every few milliseconds, whoever
 * leads by then, until the answer is final. So no leader has to remember who waits, and none that
 * dies takes a request with it.
 *
 * Failure modes: the deadline while it is pending: the answer is MEMBER_PENDING, with status 0. No
 * leader, a queue that is full: the request's status says so. Too many: ERR_OVERLOADED.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_MEMBERSHIP_REQUESTS_H
#define LEAFD_RAFT_CLUSTER_MEMBERSHIP_REQUESTS_H

#include "raft/cluster/requests.h"

struct membership_request;
TAILQ_HEAD(membership_request_list, membership_request);

struct membership_requests {
    const struct raft_context *on;
    struct requests *requests;
    struct membership_request_list waiting; /* until they are asked again */
    struct membership_request_list asked;   /* the leader was asked, and has not answered */
    size_t count;                           /* of both */
    bool removed;                           /* this node is no member any more */
};

void membership_requests_init(struct membership_requests *all, const struct raft_context *on,
                              struct requests *requests);

/* Take a request of kind CLUSTER_REQUEST_MEMBER. */
void membership_requests_submit(struct membership_requests *all, struct cluster_request *request);

/* This node was removed, by its own log or as a peer has proved, and finds no leader to ask any
 * more: those who asked for that hear so. */
void membership_requests_removed(struct membership_requests *all);

/* Answer all that wait; those that are asked are answered by the requests' own stop. */
void membership_requests_stop(struct membership_requests *all);

#endif
