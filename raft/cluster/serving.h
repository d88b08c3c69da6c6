/*
 * serving.h - the leader's work on requests of all members, its own included: commands are appended
 * and answered once applied; queries are answered once it is proved that this node still leads.
 *
 * The happy path of a command: todo -> (all that wait, in one submit at the end of the turn)
 * submitted -> its entry is applied here, in the term it was appended in: answered. For a query:
 * reads -> in the round that is under way -> confirmed: answered from the applied state, once the
 * index that was committed when the round began is applied. So it sees all that was acknowledged
 * before it came: ReadIndex (Ongaro 6.4) with our own message, since the core does not have it.
 *
 * Rounds do not wait for each other: one begins in each turn with new waiting queries, for all of
 * them.
 *
 * A CLUSTER_REQUEST_LEADER is confirmed as a query is, and the service answers it
 * (service_ops.lead): at once, once something is applied, or once an entry of its own is, which is
 * appended once and never goes to another leader (docs/monotonic.md, R3, R9).
 *
 * Failure modes: leadership or term changed, or another entry took the place: all requests go back
 * to their owners, since the outcome is unknown and all may be repeated. Disk low: ERR_DISK_FULL
 * for commands. The state would exceed data.memory-bytes, with all entries that are appended and
 * not yet applied: ERR_STATE_FULL for commands that enlarge it. Too many: ERR_OVERLOADED. A command
 * that only a leader proposes for itself, or under another node's stamp: ERR_REFUSED. A remote
 * request whose sender has given up is forgotten.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_SERVING_H
#define LEAFD_RAFT_CLUSTER_SERVING_H

#include "raft/cluster/context.h"
#include "raft/cluster/membership.h"
#include "src/base/container.h"

/*
 * --- rounds: in a round the leader asks voters whether its term is still current (FRAME_CONFIRM).
 * An answer from a node with the same term proves it: a newer leader needs a majority of votes in a
 * newer term, and any majority that confirmed afterwards would contain one of those voters. Up to
 * LIMIT_ROUNDS may be unanswered. An answer to a round also answers all earlier ones, and no later
 * one. Only current voters count.
 *
 * The happy path: a round asks as many voters as a majority needs besides this node: the quickest
 * of the last look. A look is a round that asks all voters: the first one of a term, and each that
 * begins ROUND_LOOK_MS after the last look. So rare rounds go to all; of frequent ones, one node of
 * three, or two of five, get nothing.
 *
 * Failure modes: the chosen voters are too few, or a link is down: all are asked at once. A round
 * is not confirmed after ROUND_HEDGE_MS: the rest is asked, which makes it a look; a voter that
 * does not answer is not chosen again before it answers. A frame is lost: all are asked again after
 * a heartbeat; earlier answers stay counted. The choice of voters affects only the latency.
 */

#define ROUND_HEDGE_MS 2  /* time for the chosen ones to answer */
#define ROUND_LOOK_MS 100 /* for this long a look's order is used */

struct rounds {
    const struct raft_context *on;
    uint64_t number;    /* of the last one; those of an earlier incarnation are not given again */
    uint64_t confirmed; /* the newest that has a majority, or that no request waits for */
    uint64_t term;      /* of the answers */
    uint64_t look;      /* the last round that was a look; 0: none in this term */
    uint64_t look_ms;
    uint64_t quickest[LIMIT_NODES]; /* those that answered it or a later one, in that order */
    unsigned quickest_count;
    bool all_asked;           /* the newest round, of all members */
    uint64_t watched;         /* the newest round when the timer was armed */
    struct timer late;        /* it should be confirmed by now */
    uint64_t confirmed_count; /* rounds, since the start; and those that never were */
    uint64_t abandoned_count;
};

/* No request waits for a begun round any more; answers to such rounds are ignored. */
void rounds_stop(struct rounds *rounds);

/* A FRAME_CONFIRM or FRAME_CONFIRM_ACK. False: malformed, or an implausible term. */
bool rounds_receive(struct rounds *rounds, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);

struct work;
TAILQ_HEAD(work_list, work);

/* How this node's own requests come back; never from inside serving_take(). */
struct serving_owner {
    /* Over; a reply is borrowed for the call. index: as request.index. */
    void (*answered)(struct serving_owner *owner, struct cluster_request *request, int status,
                     uint64_t index, const void *reply, size_t len);
    /* Another node may need to serve it. */
    void (*given_back)(struct serving_owner *owner, struct cluster_request *request);
} BY_NAME;

struct serving {
    const struct raft_context *on;
    struct serving_owner *owner;
    struct membership *membership;
    bool holding; /* leadership is handed over, or a vote taken away: take nothing new */
    bool no_room; /* the disk is low, and no node takes over the lead: refuse what needs it */
    struct work_list todo;       /* commands to append */
    struct work_list large;      /* large ones: after all others, one at a time */
    uint64_t large_index;        /* of the last one that was appended in this leadership; 0: none */
    uint64_t large_seen;         /* the last one that a turn found applied */
    struct timer large_time;     /* armed: no further one begins yet */
    struct work_list large_done; /* applied, and to be answered in the next turn: one at most */
    struct work_list submitted;  /* by index */
    struct work_list reads;      /* wait for the next round */
    struct work_list in_round;   /* in those under way, by round */
    struct work_list confirmed;  /* wait until their index is applied */
    struct work_list starved;    /* confirmed: the service waits for something to be applied */
    uint64_t starved_at;         /* applied index at the last look at the starved */
    size_t leader_bytes;         /* of payloads of CLUSTER_REQUEST_LEADERs from others */
    size_t count;                /* of all */
    uint64_t adds_bytes;         /* growth of the state when all admitted commands are applied */
    struct rounds round;
};

void serving_init(struct serving *serving, const struct raft_context *on,
                  struct serving_owner *owner, struct membership *membership);

/* Take a request of this node. */
void serving_take(struct serving *serving, struct cluster_request *request);

/* No request waits any more for this work (cluster_request.work), as the deadline of its request
 * passed: its owner answers it. An entry in the log stays there. */
void serving_abandon(void *of);

/* Take a peer's request, its own or of a member that does not reach this node. */
void serving_receive(struct serving *serving, uint64_t from, const struct wire_request *wire);

/* A command was applied (driver_observer.applied). */
void serving_applied(struct serving *serving, uint64_t index, uint64_t term, const void *result,
                     size_t len);

/* Leadership or term changed, a snapshot jumped over indexes, or this node stops: give back
 * everything. */
void serving_reset(struct serving *serving);

/* Answer what is confirmed and applied. */
void serving_answer(struct serving *serving);

/* Append, and ask for confirmation. */
void serving_turn(struct serving *serving);

#endif
