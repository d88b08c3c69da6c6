/*
 * request.h - one request to the cluster, from the client's thread down to the log and back. The
 * cluster (raft/) serves the kinds named here, as bytes that it does not look into; what uses the
 * cluster has further kinds (src/id/codec/request.h).
 *
 * The happy path: the caller fills kind, deadline, payload and done, and submits the request. It is
 * routed to the leader, and repeated through elections until its deadline. The part that serves it
 * fills the reply and puts it on the list of finished requests (answers), from where done is called
 * with the status.
 *
 * Failure modes: the status: ERR_NO_LEADER (no leader until the deadline), ERR_TIMEOUT (sent, no
 * answer until the deadline), ERR_OVERLOADED, ERR_DISK_FULL, ERR_TOO_LARGE, ERR_SHUTTING_DOWN, or
 * what the kind says. Thread: the raft loop, but for the submit of an HTTP loop.
 */
#ifndef LEAFD_STATE_CODEC_REQUEST_H
#define LEAFD_STATE_CODEC_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/timers.h"

/* The first four go over the wire: their numbers stay. */
enum cluster_request_kind {
    /* payload: a command of either half of the state; reply: its result */
    CLUSTER_REQUEST_COMMAND = 1,
    /* payload: a query of the service (service_ops.query); reply: its result, not older than
     * anything that was acknowledged before */
    CLUSTER_REQUEST_QUERY = 2,
    /* payload: a member_ask; reply: a member_answer, which says PENDING if the deadline comes
     * before the end */
    CLUSTER_REQUEST_MEMBER = 10,
    /* payload: a request that the service answers only as the leader of the term in which it was
     * confirmed (service_ops.lead) */
    CLUSTER_REQUEST_LEADER = 11,
    /* index: of an entry of the log. Status 0 once all members have applied it (local: this node);
     * else ERR_TIMEOUT, ERR_OVERLOADED (LIMIT_BARRIER_WAITS) or ERR_SHUTTING_DOWN, and out, a
     * struct missing_members, has those that have not, as far as this node knows (local: NULL). The
     * reply is unchanged */
    CLUSTER_REQUEST_BARRIER,
    CLUSTER_REQUEST_KINDS /* the service's own begin here */
};

/* Where an item of a batcher is (src/id/alloc/batch.h). */
enum batch_where { BATCH_IDLE, BATCH_READY, BATCH_DELAYED, BATCH_SENT };

#define BATCH_AT_MS_MAX ((UINT64_C(1) << 62) - 1)

struct batch_place;

/* An item of a batcher, which alone uses it. All zero: idle. */
struct batch_item {
    union {
        TAILQ_ENTRY(batch_item) link; /* READY, DELAYED */
        struct batch_place *place;    /* SENT: in which batch */
    };
    uint64_t at_ms : 62; /* READY: since when; DELAYED: until when; IDLE: the owner's */
    uint64_t where : 2;  /* enum batch_where */
};

/*
 * The caller owns the struct until done is called, exactly once, on the raft loop's thread, never
 * from inside submit or propose. Exception: on a submit after the node has stopped, done is called
 * at once, with ERR_SHUTTING_DOWN, on the caller's thread. All zero but for what the caller fills;
 * it may be submitted again once it is done.
 */
struct cluster_request {
    unsigned kind; /* enum cluster_request_kind, or one of the service's */
    bool local;    /* a QUERY: this node's state, however old; a BARRIER: this node alone */
    bool fresh;    /* ID_REQUEST_OPEN: by the leader's row, even for a known tag */
    /* a COMMAND: the caller has stamped it. It is repeated as any other, but is not part of this
     * node's session. */
    bool stamped;
    /* a COMMAND: a leader's own, without a stamp. This node appends it, as the leader, once; no
     * other node does: ERR_NOT_LEADER if this node does not lead, or when its leadership or term
     * ends before it has applied the entry. */
    bool once;
    /* a COMMAND or MEMBER: its number stays awaited after done. The caller submits the request
     * again, with another payload and the same number, or calls requests_release(). */
    bool keeps_seq;
    uint64_t deadline_ms; /* on the node's clock (clock_now_ms) */
    struct buf payload;   /* owned by the request; a stamp is put into it */
    struct buf reply;     /* filled with the answer; owned by the request */
    void *out;            /* the caller's struct, where the kind names one */
    /* filled with status 0: of a COMMAND's entry; of a LEADER, or a QUERY that is not local, one
     * that the answer is not older than */
    uint64_t index;
    int status;
    void (*done)(struct cluster_request *request);
    void *data; /* the caller's */

    /* --- of the part that holds it, from its submit until done --- */
    struct mailbox_item post; /* from an HTTP loop to the raft loop */
    TAILQ_ENTRY(cluster_request) link;
    struct timer deadline;
    void *holder;     /* the part whose deadline it is */
    uint64_t id;      /* on the wire */
    uint64_t seq;     /* its number in this node's session, 0: none (session.h) */
    uint64_t lowest;  /* of its stamp */
    uint64_t sent_to; /* 0: it waits, or this node serves it itself: */
    uint64_t sent_ms;
    void *work; /* the work of serving it, or NULL */
    /* of an ID_REQUEST_STRICT */
    struct batch_item item;
    uint64_t began_us; /* when it came */
    uint8_t mode; /* TAG_MODE_MONOTONIC, or any other: strict, as known here. If the leader reports
                   * another mode, the batcher uses that */
    bool keyed;   /* the batcher's own: it has a key */
};

TAILQ_HEAD(cluster_request_list, cluster_request);

/* Requests that are over, until their done() is called. The part that serves a request ends it by
 * answers_put(), at any time, also from inside submit. The replica delivers all of them at one
 * place of its turn, but for those of a leader's own commands (`once`), which are delivered as they
 * are applied. So done() is called exactly once, on the raft loop, and never from inside submit. */
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
