/*
 * request.h - one request to the cluster, as bytes that raft/ does not look into.
 *
 * The happy path: the caller fills kind, deadline, payload and done, and hands the request over by
 * replica_submit(); it is routed to the leader, repeated through elections until its deadline, and
 * done is called with the status and the reply.
 *
 * Failure modes: the status: ERR_NO_LEADER (no leader until the deadline), ERR_TIMEOUT (sent, no
 * answer until the deadline), ERR_OVERLOADED, ERR_DISK_FULL, ERR_TOO_LARGE, ERR_SHUTTING_DOWN, or
 * what the kind says. Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REQUEST_H
#define LEAFD_RAFT_CLUSTER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/base/timers.h"

enum cluster_request_kind {
    /* payload: a command of either half of the state; reply: its result */
    CLUSTER_REQUEST_COMMAND,
    /* payload: a query of the service (service.h); reply: its result, not older than anything that
     * was acknowledged before */
    CLUSTER_REQUEST_QUERY,
    /* payload: what the service answers only as the leader of the term in which the request was
     * confirmed (service_ops.lead) */
    CLUSTER_REQUEST_LEADER,
    /* payload: a member_ask; reply: a member_answer, which says PENDING if the deadline comes
     * before the end */
    CLUSTER_REQUEST_MEMBER,
    /* index: of an entry of the log. Status 0 once all members have applied it; else ERR_TIMEOUT,
     * ERR_OVERLOADED (LIMIT_BARRIER_WAITS) or ERR_SHUTTING_DOWN, and *missing says which have
     * not */
    CLUSTER_REQUEST_BARRIER
};

/* Members that have not applied an entry, as far as this node knows. */
struct missing_members {
    size_t count;
    struct {
        uint64_t id;
        bool reachable;       /* this node has a link to it */
    } nodes[LIMIT_NODES + 1]; /* also this node, should it be no member any more */
};

/* The caller owns the struct until done is called, exactly once, never from inside submit. */
struct cluster_request {
    enum cluster_request_kind kind;
    uint64_t deadline_ms;            /* on the node's clock (clock_now_ms) */
    struct buf payload;              /* owned by the request */
    struct buf reply;                /* filled with the answer; owned by the request */
    struct missing_members *missing; /* EVERYWHERE: the caller's */
    uint64_t index; /* filled with status 0: of a COMMAND's entry; of a QUERY or a LEADER one that
                       the answer is not older than */
    int status;
    void (*done)(struct cluster_request *request);
    /* Of a COMMAND: the caller has stamped it. It is repeated as any other, and counts as none of
     * this node's session. */
    bool stamped;
    /* Of a COMMAND or MEMBER: done leaves its number awaited. The caller submits the request again,
     * with another payload and the same number, or ends that by requests_release(). */
    bool keeps_seq;
    /* the cluster's own while it holds the request */
    TAILQ_ENTRY(cluster_request) link;
    struct timer deadline;
    uint64_t seq;     /* its number in this node's session, 0: none (session.h) */
    uint64_t lowest;  /* of its stamp */
    uint64_t id;      /* on the wire */
    uint64_t sent_to; /* 0: it waits, or this node serves it itself: */
    uint64_t sent_ms;
    void *work;   /* as which it does, or NULL */
    void *holder; /* the part whose deadline it is */
};

TAILQ_HEAD(cluster_request_list, cluster_request);

#endif
