/*
 * way.h - the way of this node's requests to the leader: directly, or through a member that reaches
 * it where the link between the two is cut, one way or both.
 *
 *            answers come            nobody said yes
 *            .------.              .---------------.
 *            v      | too long     v               |
 *          DIRECT --+---------> SOUGHT ------------+-----> RELAYED
 *            ^    without one,    | |   a member's yes    |    |
 *            |    or a no         | '---------------------'    |
 *            '--------------------'        no answer, or no    |
 *            '-------------------------------------------------'
 *              the leader says yes, or a new one is heard
 *
 * The happy path: requests go to the leader that the core knows, and nothing is looked at here but
 * the age of the oldest. If it has no answer after two heartbeats, and nothing else was answered
 * since, the leader is asked whether it is there (FRAME_PROBE). A heartbeat later, or if there is
 * no link or no leader, or once the one that the core knows says that it does not lead, all members
 * are asked to ask the leader, and requests wait. The first yes decides. Whoever sends requests
 * this way compares `changes` in each turn, and sends anew what went another way.
 *
 * Failure modes: no way is found: requests wait until their deadline, as they do without a leader.
 * Nothing rests on a probe but where frames are sent: a yes of a leader that is none any more is
 * found out by the answers to the requests, or by their absence.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_WAY_H
#define LEAFD_RAFT_CLUSTER_WAY_H

#include <stddef.h>
#include <stdint.h>

#include "raft/cluster/ground.h"

enum way_state { WAY_DIRECT, WAY_SOUGHT, WAY_RELAYED };

/* What waits for the way, as of now. */
struct way_load {
    bool waiting;       /* something is to be sent */
    uint64_t oldest_to; /* to whom the oldest without an answer went; 0: none is out */
    uint64_t oldest_ms; /* and when */
};

struct way {
    const struct ground *on;
    enum way_state state;
    unsigned changes;            /* how often it was lost, or found through a member */
    uint64_t peers[LIMIT_PEERS]; /* who may know one */
    size_t peer_count;
    uint64_t leader;      /* that the core knows; 0: none */
    uint64_t relay;       /* RELAYED: the member that passes requests on; else 0 */
    uint64_t heard_ms;    /* when an answer came along the way, or it was taken */
    uint64_t asked_ms;    /* a probe along it has no answer since; 0: none is out */
    uint64_t direct_ms;   /* RELAYED: when the leader was last asked directly */
    uint64_t sought_ms;   /* SOUGHT: since when, */
    uint64_t searched_ms; /* and when everybody was last asked */
    uint64_t round;       /* number of the last probe, */
    uint64_t first_round; /* and of the first one since the way was last lost, or direct */
    struct timer turn;    /* the next way_turn() that has something to do */
};

void way_init(struct way *way, const struct ground *on);

/* With whom links are kept: members, as this node knows them. */
void way_set_peers(struct way *way, const struct net_peer *peers, size_t count);

/* Doubt it, look for another, as far as it is due. In each turn, before requests are sent. */
void way_turn(struct way *way, const struct way_load *load);

/* See that the next turn comes in time, by what waits now that requests were sent. */
void way_arm(struct way *way, const struct way_load *load);

/* Where requests go now; 0: nowhere. */
uint64_t way_target(const struct way *way);

/* A leader is known, or a member through which it is reached. */
bool way_is_known(const struct way *way);

/* Without another member's help, as far as it is known. */
static inline bool way_is_direct(const struct way *way)
{
    return way->state == WAY_DIRECT;
}

/* The member through which it goes, 0: none. False while one is sought. */
static inline bool way_through(const struct way *way, uint64_t *ret_member)
{
    *ret_member = way->relay;
    return way->state != WAY_SOUGHT;
}

/* An answer of this status came from a node that was asked. */
void way_heard(struct way *way, uint64_t from, int status);

/* Role, term or leader changed. */
void way_role_changed(struct way *way);

/* A link came up: if a way is sought, ask at once. */
void way_link_up(struct way *way);

/* A FRAME_PROBE. False: malformed. A node that stops says that it does not lead. */
bool way_receive(struct way *way, uint64_t from, const uint8_t *payload, size_t len);

/*
 * --- numbers of requests on the wire ---
 *
 * numbers for requests that are under way: from a number back to its request at once,
 * however many there are.
 *
 * Numbers rise, and the place of an item in the table is its number's remainder. A number whose
 * place is taken is left out: as at most half of the places are, that costs less than one step a
 * number.
 *
 * Failure modes: none; the caller bounds how many there are. Thread: one owner.
 */

#define NUMBERS_MAX 16384 /* at once */
#define NUMBERS_MARK (1ULL << 63)

struct numbered {
    uint64_t number;
    void *item; /* NULL: the place is free */
};

struct numbers {
    struct numbered *places;
    uint64_t last; /* that was given */
    size_t count;  /* of items */
};

/* seed: numbers of an earlier incarnation must not be given again. mark: NUMBERS_MARK or 0, in all
 * numbers. */
void numbers_init(struct numbers *numbers, uint64_t seed, uint64_t mark);

/* All must be over. */
void numbers_free(struct numbers *numbers);

/* The number of an item from now on. At most NUMBERS_MAX are given at once. */
uint64_t numbers_give(struct numbers *numbers, void *item);

/* Whose number it is; NULL: nobody's (any more). Any number may be asked for. */
void *numbers_find(const struct numbers *numbers, uint64_t number);

/* The number, which was given, is over. */
void numbers_end(struct numbers *numbers, uint64_t number);

/*
 * --- what is passed on for another node ---
 *
 * requests of other members that this node passes on to the leader, since they do not
 * reach it themselves (way.h).
 *
 * The happy path: a FRAME_RELAY comes; it goes on to the leader as a FRAME_REQUEST that names its
 * origin, under a number of this node's own; the leader's FRAME_REPLY goes back to the origin under
 * the origin's number. A FRAME_REQUEST is never passed on, so there is one hop and no loop.
 *
 * Failure modes: no leader is known, or it changes, or its link breaks: the origin gets
 * ERR_NOT_LEADER at once and looks for another way. Too many, or too many bytes: ERR_OVERLOADED.
 * The origin's time, or two election timeouts, are over: forgotten; the origin sends it anew after
 * one. No payload is kept.
 *
 * Thread: the raft loop.
 */

/* A request of another member on its way through this node. */
struct relayed {
    TAILQ_ENTRY(relayed) link;
    struct relay *owner;
    uint64_t id;     /* this node's number, under which the leader has it */
    uint64_t leader; /* to whom it went */
    uint64_t origin; /* whose it is, and that node's number */
    uint64_t origin_id;
    size_t bytes; /* of its payload */
    struct timer deadline;
};

TAILQ_HEAD(relayed_list, relayed);

struct relay {
    const struct ground *on;
    struct relayed_list list;
    struct numbers numbers; /* with NUMBERS_MARK, so no reply is taken for one to this node */
    size_t count;           /* <= LIMIT_RELAYED */
    size_t bytes;           /* <= LIMIT_RELAYED_BYTES */
};

void relay_init(struct relay *relay, const struct ground *on, uint64_t seed);

/* All must be given back. */
void relay_close(struct relay *relay);

/* Pass on what a member sent, or refuse it. This node does not lead. */
void relay_receive(struct relay *relay, uint64_t from, const struct wire_request *wire);

/* The answer to what was passed on (its number has the mark); reply->id is changed. */
void relay_reply(struct relay *relay, uint64_t from, struct wire_reply *reply);

/* Role, term or leader changed, or this node stops: give back what went to another leader than
 * the present one, or everything. */
void relay_role_changed(struct relay *relay);

void relay_link_down(struct relay *relay, uint64_t peer);

#endif
