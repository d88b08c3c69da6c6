/*
 * answers.h - requests that are over, until their done() is called.
 *
 * Whoever serves a request ends it by answers_put(), at any time, also from inside submit; the
 * replica delivers all of them at one place of its turn. So done() is called exactly once, on
 * the raft loop, and never from inside submit (request.h).
 *
 * Failure modes: none. Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_ANSWERS_H
#define LEAFD_RAFT_CLUSTER_ANSWERS_H

#include "raft/cluster/request.h"

struct answers {
    struct cluster_request_list list;
};

static inline void answers_init(struct answers *answers)
{
    TAILQ_INIT(&answers->list);
}

static inline bool answers_are_none(const struct answers *answers)
{
    return TAILQ_EMPTY(&answers->list);
}

/* The request is over, and on no other list. Its reply is filled already. */
static inline void answers_put(struct answers *answers, struct cluster_request *request, int status)
{
    request->status = status;
    TAILQ_INSERT_TAIL(&answers->list, request, link);
}

/* Call done() of all, also of those that come meanwhile: a batch that is over ends its parts. */
static inline void answers_deliver(struct answers *answers)
{
    struct cluster_request *request;

    while ((request = TAILQ_FIRST(&answers->list)) != NULL) {
        TAILQ_REMOVE(&answers->list, request, link);
        request->done(request);
    }
}

#endif
