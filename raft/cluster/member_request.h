/*
 * member_request.h - what this node's clients (and nodes that join through it) wish of the
 * membership: asked of the leader again and again until it is so, or the deadline comes.
 *
 * The happy path: wishes_submit() takes an ID_REQUEST_MEMBER; the leader answers "pending" at once
 * and begins; the wish is asked anew every few milliseconds, of whoever leads by then, until the
 * answer is final. So no leader has to remember who waits, and none that dies takes a wish with it.
 *
 * Failure modes: the deadline while it is pending: the answer is MEMBER_PENDING, with status 0. No
 * leader, a queue that is full: the request's status says so. Too many wishes: ERR_OVERLOADED.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_MEMBER_REQUEST_H
#define LEAFD_RAFT_CLUSTER_MEMBER_REQUEST_H

#include "raft/cluster/requests.h"
#include "src/id/codec/member.h"

struct wish;
TAILQ_HEAD(wish_list, wish);

struct wishes {
    struct requests *requests;
    const struct clock *clock;
    struct wish_list waiting; /* until their next asking */
    size_t count;             /* these and those that are asked */
    bool stopping;
};

void wishes_init(struct wishes *wishes, struct requests *requests, const struct clock *clock);

/* Take a request of kind ID_REQUEST_MEMBER. */
void wishes_submit(struct wishes *wishes, struct id_request *request);

/* Ask again what is due. */
void wishes_turn(struct wishes *wishes);

/* When wishes_turn() is due next; UINT64_MAX: nothing waits. */
uint64_t wishes_next_ms(const struct wishes *wishes);

/* Answer all that wait; those that are asked are answered by the requests' own stop. */
void wishes_stop(struct wishes *wishes);

#endif
