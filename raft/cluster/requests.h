/*
 * requests.h - requests of this node's clients and of other nodes on their way through the cluster:
 * forwarded to the leader, or served here by it, answered, and repeated through elections until
 * their deadline. Also requests about the membership, and the barrier.
 *
 * The happy path: waiting -> (this node leads) served (serving.h), answered; or (another one does)
 * sent as FRAME_REQUEST, served there likewise, answered by FRAME_REPLY. Where the leader is not
 * reached, the request goes through a member that reaches it (FRAME_FORWARD, leader_route.h).
 *
 * All commands may be repeated, since each is stamped when it is sent first and carried out once
 * (session.h). So after an unknown outcome (lost leadership, lost frame, no answer within an
 * election timeout) the request waits again; there is no error before the deadline. Once the
 * cluster knows that a request is no longer awaited, no late copy of it has an effect.
 *
 * The answer to a forwarded change names what the change made old (service_ops.marks). The service
 * gets these marks before the answer is passed on. The answer does not wait for this node's log,
 * which may lag while the leader does not reach it.
 *
 * Failure modes: deadline: ERR_NO_LEADER if no leader is known, else ERR_TIMEOUT. Too many:
 * ERR_OVERLOADED. Disk low on the leader: ERR_DISK_FULL. Stopping: ERR_SHUTTING_DOWN.
 *
 * --- This node also passes requests on for members that do not reach the leader. The happy path: a
 * FRAME_FORWARD comes; it is sent to the leader as a FRAME_REQUEST that names its origin, under a
 * number of this node's own; the FRAME_REPLY goes back to the origin under the origin's number. A
 * FRAME_REQUEST is never passed on, so there is one hop and no loop. Failure modes: no leader is
 * known, or it changes, or its link breaks: the origin gets ERR_NOT_LEADER at once and looks for
 * another route. Too many, or too many bytes: ERR_OVERLOADED. After the origin's deadline, or two
 * election timeouts, the request is forgotten; the origin sends it again after one. No payload is
 * kept.
 *
 * --- A request about the membership is one of this node's clients, or of a node that joins through
 * it. The happy path: the leader answers "pending" at once and begins (membership.h); it is asked
 * anew every few milliseconds, whichever node leads by then, until the answer is final. So no
 * leader must remember requests. Failure modes: the deadline while it is pending: the answer is
 * MEMBER_PENDING, with status 0. No leader, a queue that is full: the request's status says so. Too
 * many: ERR_OVERLOADED.
 *
 * --- The barrier waits until all members have applied an entry. Until then a member may still hand
 * out ids of a segment that a change of its tag made old. The happy path: a CLUSTER_REQUEST_BARRIER
 * has the index of an entry that is committed. While such requests wait, this node asks the other
 * members every few milliseconds up to which index they have applied the log (FRAME_APPLIED), once
 * for all requests, which are answered once all members, this node included, have applied their
 * index. The members are looked up anew each time, in the configuration that this node has applied:
 * one that is removed meanwhile is no longer waited for, an added one is. Failure modes: a member
 * that cannot be reached, or does not reach the index: ERR_TIMEOUT at the deadline, with the
 * missing members. More than LIMIT_BARRIER_WAITS: ERR_OVERLOADED. A member that is asked keeps no
 * state. A request that is `local` waits for this node alone: what it is to see was acknowledged
 * elsewhere.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REQUESTS_H
#define LEAFD_RAFT_CLUSTER_REQUESTS_H

#include "raft/cluster/leader_route.h"
#include "raft/cluster/context.h"
#include "raft/cluster/serving.h"
#include "src/state/codec/session.h"

/* --- numbers: of requests that are under way, on the wire. They rise, and the place of an item is
 * its number's remainder. A number whose place is taken is left out: as at most half of the places
 * are, that costs less than one step a number. --- */

#define NUMBERS_MAX (LIMIT_REQUESTS_PENDING + LIMIT_FORWARDED) /* at once */
#define NUMBERS_MARK (1ULL << 63) /* of a request that is passed on, not of this node's own */

struct numbered {
    uint64_t number;
    void *item; /* NULL: the place is free */
};

struct numbers {
    struct numbered *places;
    uint64_t last; /* that was given, without a mark */
    size_t count;  /* of items */
};

/* seed: numbers of an earlier incarnation must not be given again. */
void numbers_init(struct numbers *numbers, uint64_t seed);

/* All must be over. */
void numbers_free(struct numbers *numbers);

/* The number of an item from now on, with this mark: NUMBERS_MARK or 0. At most NUMBERS_MAX are
 * given at once. */
uint64_t numbers_give(struct numbers *numbers, void *item, uint64_t mark);

/* The item with this number and mark; NULL: there is none (any more). Any number may be asked
 * for. */
void *numbers_find(const struct numbers *numbers, uint64_t number);

/* The number, which was given, is over. */
void numbers_end(struct numbers *numbers, uint64_t number);

/* --- requests --- */

/* A request of another member that this node passes on to the leader. */
struct forwarded {
    TAILQ_ENTRY(forwarded) link;
    struct requests *owner;
    uint64_t id;     /* this node's number, with the mark, under which the leader has it */
    uint64_t leader; /* where it was sent */
    uint64_t origin; /* the member that sent it, and that member's number */
    uint64_t origin_id;
    size_t bytes; /* of its payload */
    struct timer deadline;
};

TAILQ_HEAD(forwarded_list, forwarded);

struct membership_request;
TAILQ_HEAD(membership_request_list, membership_request);

struct requests {
    const struct raft_context *on;
    struct numbers numbers;              /* of all that are counted, or passed on */
    struct cluster_request_list waiting; /* to be routed, oldest first */
    struct cluster_request_list sent;    /* forwarded, in order of sending */
    size_t count;            /* waiting, sent and served here; <= LIMIT_REQUESTS_PENDING */
    struct timer send;       /* something waits: try to send it, */
    struct timer send_pause; /* but not while this is armed, after a refusal */
    struct timer silent;     /* the oldest that was sent has no answer in time */
    struct leader_route route;
    unsigned route_seen; /* leader_route.changes that the sent requests follow */
    struct {
        struct forwarded_list list;
        size_t count; /* <= LIMIT_FORWARDED */
        size_t bytes; /* <= LIMIT_FORWARDED_BYTES */
    } forwarder;      /* what this node passes on */
    struct {
        struct membership_request_list list;
        size_t count; /* <= LIMIT_MEMBERSHIP_REQUESTS */
        bool removed; /* this node is no longer a member */
    } members;        /* requests about the membership */
    struct {
        struct cluster_request_list waits; /* by index, rising */
        size_t count;                      /* <= LIMIT_BARRIER_WAITS */
        struct timer ask_again;            /* armed: the others were asked a moment ago */
    } barrier;
    struct serving serving;
    struct serving_owner serving_owner;
    struct session session;      /* numbers of this node's commands */
    uint64_t superseded;         /* a later incarnation of this node that the cluster knows; 0 */
    struct node_command tidying; /* carries a stamp, and nothing else */
    struct timer tidy;           /* when the next tidying is due */
    uint64_t tidy_again_ms;      /* not before this after one was refused */
};

void requests_init(struct requests *requests, const struct raft_context *on,
                   struct membership *membership, const struct peers *peers);

/* Take a request of any kind; done() comes from a later turn of the replica. */
void requests_submit(struct requests *requests, struct cluster_request *request);

/* Stop awaiting a request of this node: it ends with ERR_NOT_LEADER. If this node has not appended
 * it yet, it never will; an entry in the log stays there. No effect on a request that is already
 * over. */
void requests_withdraw(struct requests *requests, struct cluster_request *request);

/* A FRAME_REQUEST, or a FRAME_FORWARD. False: malformed. */
bool requests_receive(struct requests *requests, uint64_t from, bool to_forward,
                      const uint8_t *payload, size_t len);
bool requests_receive_reply(struct requests *requests, uint64_t from, const uint8_t *payload,
                            size_t len);

/* Role, term or leader changed; or a snapshot jumped over indexes. */
void requests_role_changed(struct requests *requests);

void requests_link_changed(struct requests *requests, uint64_t peer, bool up);

/* This node was removed, by its own log or as a peer has proved, and finds no leader to ask:
 * requests for that removal are answered so. */
void requests_removed(struct requests *requests);

/* A FRAME_APPLIED. False: malformed. */
bool barrier_receive(struct requests *requests, uint64_t from, const uint8_t *payload, size_t len);

/* Ask and answer. Woken by a request, an answer, its timer, and what wakes all. */
void barrier_turn(struct requests *requests);

/* Route, append, confirm. Call once, at the end of every turn, after driver_turn(): all new entries
 * then go to the disk and to the peers in one step. */
void requests_turn(struct requests *requests);

/* After context.stopping: answer everything with ERR_SHUTTING_DOWN in the next turn. */
void requests_stop(struct requests *requests);

#endif
