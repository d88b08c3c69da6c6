/*
 * requests.h - requests of this node's clients and of other nodes on their way through the cluster:
 * forwarded to the leader, appended or read there, answered, and repeated through elections until
 * their deadline.
 *
 * The happy path of a command: waiting -> (this node leads) appended, applied, answered; or
 * (another one does) sent as FRAME_REQUEST, handled there in the same way, answered by FRAME_REPLY.
 * Where that one is not reached, but a member that reaches it is, it goes through that
 * (FRAME_RELAY: requests_way.c on this node, requests_relay.c on that one).
 * Of a query: the leader notes its commit index, asks the voters whether its term still stands
 * (FRAME_CONFIRM; one round serves all queries that wait), and answers from the applied state once
 * a majority agreed and the index is applied: ReadIndex (Ongaro 6.4) on our own message, since the
 * core has no such thing.
 *
 * Why the answer of a node whose term equals ours proves it: a newer leader needs a majority of
 * votes in a newer term, and any majority that confirmed afterwards would contain one of those
 * voters.
 *
 * All commands may be repeated, since each is stamped when it is sent first and carried out once
 * (session.h). So an unknown outcome (lost leadership, lost frame, no answer within an election
 * timeout) leads back to waiting, never to an error before the deadline. A request whose deadline
 * passed is awaited no more; once the cluster was told so, no late copy of it does anything.
 *
 * The answer to a forwarded change carries the generations that its tags have now (tag_marks.h).
 * The node burns what it holds of older ones before it passes the answer on, and waits for nothing:
 * its own log may be behind for as long as the leader does not reach it.
 *
 * Failure modes: deadline: ERR_NO_LEADER if no leader is known, else ERR_TIMEOUT. Too many:
 * ERR_OVERLOADED. Disk low on the leader: ERR_DISK_FULL. Stopping: ERR_SHUTTING_DOWN.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REQUESTS_H
#define LEAFD_RAFT_CLUSTER_REQUESTS_H

#include "raft/core/driver.h"
#include "raft/cluster/membership.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/session.h"

/* A request at the leader: a local one, or another node's. */
struct work {
    TAILQ_ENTRY(work) link;
    uint8_t kind;             /* enum wire_request_kind */
    struct id_request *local; /* NULL: remote, or its client gave up */
    uint64_t from;            /* remote: node and its request id */
    uint64_t id;
    uint64_t deadline_ms;
    struct buf payload; /* remote's own; a local one's is in the request */
    uint64_t index;     /* submitted: its entry; read: what must be applied */
    uint64_t term;
};

TAILQ_HEAD(work_list, work);
TAILQ_HEAD(request_list, id_request);

/* How this node's requests get to the leader; requests_way.c has the diagram. */
enum way_state { WAY_DIRECT, WAY_SOUGHT, WAY_RELAYED };

struct way {
    enum way_state state;
    uint64_t peers[LIMIT_PEERS]; /* who may know one */
    size_t peer_count;
    uint64_t leader;      /* that the core knows; 0: none */
    uint64_t relay;       /* RELAYED: the member that passes requests on; else 0 */
    uint64_t word_ms;     /* when an answer came along the way, or it was taken */
    uint64_t asked_ms;    /* a probe along it has no answer since; 0: none is out */
    uint64_t direct_ms;   /* RELAYED: when the leader was last asked directly */
    uint64_t sought_ms;   /* SOUGHT: since when, */
    uint64_t searched_ms; /* and when everybody was last asked */
    uint64_t round;       /* number of the last probe, */
    uint64_t first_round; /* and of the first one since the way was last lost */
};

/* A request of another member on its way through this node (requests_relay.c). */
struct relayed {
    TAILQ_ENTRY(relayed) link;
    uint64_t id;     /* this node's number, under which the leader has it */
    uint64_t leader; /* to whom it went */
    uint64_t origin; /* whose it is, and that node's number */
    uint64_t origin_id;
    uint64_t deadline_ms;
    size_t bytes; /* of its payload */
};

TAILQ_HEAD(relayed_list, relayed);

struct relay {
    struct relayed_list list;
    size_t count; /* <= LIMIT_RELAYED */
    size_t bytes; /* <= LIMIT_RELAYED_BYTES */
};

struct requests {
    struct driver *driver;
    struct net *net;
    struct disk *disk;
    const struct clock *clock;
    struct fsm *fsm;
    struct membership *membership; /* answers member_asks; set after requests_init() */
    struct allocator *allocator;   /* holds this node's segments; likewise */
    bool stopping;
    bool transferring; /* leadership is being handed over: take nothing new as leader */
    /* requests of this node */
    struct request_list waiting;  /* to be routed */
    struct request_list sent;     /* forwarded, in order of sending */
    struct request_list finished; /* done() is to be called */
    size_t count;                 /* waiting, sent and in work; <= LIMIT_REQUESTS_PENDING */
    struct session session;       /* numbers of this node's commands */
    uint64_t superseded;          /* a later incarnation of this node that the cluster knows; 0 */
    struct id_request tidying;    /* carries a stamp, and nothing else */
    bool tidying_in_flight;
    uint64_t tidy_again_ms; /* not before this after one was refused */
    uint64_t next_id;
    uint64_t route_at_ms; /* not before this after a refusal */
    uint64_t scan_at_ms;  /* next look at deadlines */
    struct way way;
    struct relay relay;
    /* at the leader */
    struct work_list todo;       /* commands to append */
    struct work_list submitted;  /* by index */
    struct work_list reads;      /* wait for the next round */
    struct work_list confirming; /* in the round under way */
    struct work_list confirmed;  /* wait until their index is applied */
    size_t work_count;
    uint64_t round;
    bool round_active;
    uint64_t round_index;
    uint64_t round_sent_ms;
    uint64_t acks[LIMIT_NODES];
    unsigned ack_count;
};

/* config: of the driver, for the session of this incarnation, and the seed. */
void requests_init(struct requests *requests, struct driver *driver, struct net *net,
                   struct disk *disk, const struct clock *clock, struct fsm *fsm,
                   const struct driver_config *config);

/* With whom links are kept: members, as this node knows them. */
void requests_set_peers(struct requests *requests, const uint64_t *peers, size_t count);

/* A leader is known, or a member through which it is reached. */
bool requests_leader_known(const struct requests *requests);

/* Everything must be finished (after requests_stop() and requests_turn()). */
void requests_close(struct requests *requests);

/* Take a request of kind COMMAND or QUERY; done() comes from a later requests_turn(). */
void requests_submit(struct requests *requests, struct id_request *request);

/* Have done() called from the next turn with this status (for kinds answered elsewhere). */
void requests_finish(struct requests *requests, struct id_request *request, int status);

/* A request that is done and keeps its number: it needs that no more. */
void requests_release(struct requests *requests, struct id_request *request);

/* Tell the cluster of numbers that are over, if that is due (session.h): on the first turn with a
 * leader in each incarnation, and when this node has had nothing else to say. */
void requests_tidy(struct requests *requests);

/* A FRAME_REQUEST, _RELAY, _PROBE, _REPLY, _CONFIRM or _CONFIRM_ACK. False: malformed. */
bool requests_receive(struct requests *requests, uint64_t from, enum frame_type type,
                      const uint8_t *payload, size_t len);

/* A command was applied (driver_observer.applied). */
void requests_applied(struct requests *requests, uint64_t index, uint64_t term, const void *result,
                      size_t len);

/* Role, term or leader changed; or a snapshot jumped over indexes. */
void requests_role_changed(struct requests *requests);

void requests_link_changed(struct requests *requests, uint64_t peer, bool up);

/* Call done() of what is over. Call it before the gatherers of requests take their turn, since an
 * answer may lead to another request. */
void requests_answer(struct requests *requests);

/* Route, append, confirm, answer. Call once, at the end of every turn, after driver_turn(): what
 * is to be appended then goes to the disk and to the peers in one step. */
void requests_turn(struct requests *requests);

/* When requests_turn() is due next; UINT64_MAX if nothing waits. */
uint64_t requests_next_ms(const struct requests *requests);

/* Answer everything with ERR_SHUTTING_DOWN from the next turn on. */
void requests_stop(struct requests *requests);

#endif
