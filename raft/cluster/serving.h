/*
 * serving.h - what this node does as the leader for requests of all members, its own included:
 * commands are appended and answered once applied, queries are answered once it is proved that the
 * leader still leads.
 *
 * The happy path of a command: todo -> (all that waits, in one submit at the end of the turn)
 * submitted -> its entry is applied here, in the term it was appended in: answered. Of a query:
 * reads -> in the round that is under way -> confirmed: answered from the applied
 * state, once the index that was committed when the round began is applied. So it sees all that was
 * acknowledged before it came: ReadIndex (Ongaro 6.4) on our own message, since the core has no
 * such thing.
 *
 * Rounds do not wait for each other: one begins in each turn in which something new
 * waits, for all that waits then.
 *
 * A request that only the leader of a term can answer (CLUSTER_REQUEST_LEADER) is confirmed as a
 * query is, and the service answers it (service.h). It may have to wait until an entry of this
 * leader's is applied, which the service has proposed; or the answer goes out once an entry of its
 * own is. Such entries are appended once, and never go to another leader (docs/monotonic.md, R3,
 * R9).
 *
 * Failure modes: leadership or term changed, or another entry took the place: all goes back to
 * where it came from, for the outcome is unknown and all may be repeated. Disk low: ERR_DISK_FULL
 * for commands. The state would take more memory than it may (data.memory-bytes), with all that is
 * appended and not applied yet: ERR_STATE_FULL for what makes it larger. Too many: ERR_OVERLOADED.
 * A command that only a leader proposes for itself, or under another node's stamp: ERR_REFUSED. Of
 * a remote one whose sender has given up: forgotten.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_SERVING_H
#define LEAFD_RAFT_CLUSTER_SERVING_H

#include "raft/cluster/context.h"
#include "raft/cluster/membership.h"
#include "src/base/container.h"

/*
 * --- rounds: questions by which a leader finds out whether it still leads ---
 *
 * In a round the leader asks voters whether its term still stands (FRAME_CONFIRM), for all that
 * waited when it began. Why the answer of a node whose term equals ours proves it: a newer leader
 * needs a majority of votes in a newer term, and any majority that confirmed afterwards would
 * contain one of those voters. Rounds do not wait for each other, up to LIMIT_ROUNDS of them
 * unanswered. An answer to a round is one to all before it, and to none after it. Who is no voter
 * (any more) is not counted.
 *
 * The happy path: a round asks as many voters as a majority needs beside this node: those that
 * were the quickest at the last look. A look is a round that all are asked. It is the first of a
 * term, and each that begins ROUND_LOOK_MS after the last one: so rounds that are rare go to all,
 * and of many that follow each other a node of three, or two of five, hear nothing.
 *
 * Failure modes: those that are chosen are too few, or there is no link: all are asked at once. A
 * round is not confirmed after ROUND_HEDGE_MS: the rest is asked, which makes it a look; who does
 * not answer that is not chosen again before it answers. A frame is lost: all are asked again,
 * after a heartbeat; answers that came stay counted. Nothing rests on who is asked but the time
 * that it takes.
 */

#define ROUND_HEDGE_MS 2  /* so long the chosen ones have to answer */
#define ROUND_LOOK_MS 100 /* so long it stands who is the quickest */

/* A member: the newest round that it was asked, and that it has answered. */
struct round_member {
    uint64_t node_id; /* 0: none */
    uint64_t asked;
    uint64_t answered;
};

struct rounds {
    const struct raft_context *on;
    uint64_t number;    /* of the last one; those of an earlier incarnation are not given again */
    uint64_t confirmed; /* the newest that has a majority, or that nobody waits for */
    uint64_t term;      /* of the answers */
    struct round_member members[LIMIT_NODES];
    uint64_t look; /* the last round that was a look; 0: none in this term */
    uint64_t look_ms;
    uint64_t quickest[LIMIT_NODES]; /* who has answered it or a later one, the first one first */
    unsigned quickest_count;
    bool all_asked;           /* the newest round, of all members */
    uint64_t watched;         /* the newest round when the timer was armed */
    struct timer late;        /* it should be confirmed by now */
    uint64_t confirmed_count; /* rounds, since the start; and those that never were */
    uint64_t abandoned_count;
};

/* Nobody waits for any that was begun, and answers to them count for nothing. */
void rounds_stop(struct rounds *rounds);

/* A FRAME_CONFIRM or FRAME_CONFIRM_ACK. False: malformed, or a term that cannot be. */
bool rounds_receive(struct rounds *rounds, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);

struct work;
TAILQ_HEAD(work_list, work);

/* How requests of this node's own come back; never from inside serving_take(). */
struct serving_owner {
    /* Over; a reply is borrowed for the call. index: as request.index. */
    void (*answered)(struct serving_owner *owner, struct cluster_request *request, int status,
                     uint64_t index, const void *reply, size_t len);
    /* Somebody else may have to serve it. */
    void (*given_back)(struct serving_owner *owner, struct cluster_request *request);
} BY_NAME;

struct serving {
    const struct raft_context *on;
    struct serving_owner *owner;
    struct membership *membership;
    bool holding; /* leadership is handed over, or a vote taken away: take nothing new */
    bool no_room; /* the disk is low, and nobody takes the lead over: refuse what needs it */
    struct work_list todo;       /* commands to append */
    struct work_list large;      /* those of many bytes: after all others, one at a time */
    uint64_t large_index;        /* of the last one that was appended in this leadership; 0: none */
    uint64_t large_seen;         /* the last one that a turn has found applied */
    struct timer large_time;     /* armed: no other begins yet */
    struct work_list large_done; /* applied, and to be answered in the next turn: one at most */
    struct work_list submitted;  /* by index */
    struct work_list reads;      /* wait for the next round */
    struct work_list in_round;   /* in those under way, by round */
    struct work_list confirmed;  /* wait until their index is applied */
    struct work_list starved;    /* confirmed: the service waits for something to be applied */
    uint64_t starved_at;         /* applied index at the last look at the starved */
    size_t leader_bytes;         /* of payloads of CLUSTER_REQUEST_LEADERs from others */
    size_t count;                /* of all */
    uint64_t adds_bytes; /* that the state grows by when all that are admitted are applied */
    struct rounds round;
};

void serving_init(struct serving *serving, const struct raft_context *on,
                  struct serving_owner *owner, struct membership *membership, uint64_t seed);

/* Take a request of this node. */
void serving_take(struct serving *serving, struct cluster_request *request);

/* The owner answers it itself, since its deadline passed. */
void serving_abandon(struct serving *serving, struct cluster_request *request);

/* What a peer has sent, for itself or for a member that does not reach this node. */
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

/* Kind on the wire of a request of this node. */
enum wire_request_kind serving_wire_kind(const struct cluster_request *request);

#endif
