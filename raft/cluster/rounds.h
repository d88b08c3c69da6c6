/*
 * rounds.h - rounds of questions by which a leader finds out whether it still leads.
 *
 * In a round the leader asks voters whether its term still stands (FRAME_CONFIRM), for all that
 * waited when it began. Why the answer of a node whose term equals ours proves it: a newer leader
 * needs a majority of votes in a newer term, and any majority that confirmed afterwards would
 * contain one of those voters. Rounds do not wait for each other, up to LIMIT_ROUNDS of them
 * unanswered. An answer to a round is one to all before it, and to none behind it. Who is no voter
 * (any more) is not counted.
 *
 * The happy path: rounds_begin() asks as many voters as a majority needs beside this node, those
 * who were the quickest at the last look; rounds_confirm() tells how far a majority has answered. A
 * look is a round that all are asked. It is the first of a term, and each that begins ROUND_LOOK_MS
 * after the last one: so rounds that are rare go to all, and of many that follow each other a node
 * of three, or two of five, hear nothing.
 *
 * Failure modes: those that are chosen are too few, or there is no link: all are asked at once. A
 * round is not confirmed after ROUND_HEDGE_MS: the rest is asked, which makes it a look; who does
 * not answer that is not chosen again before it answers. A frame is lost: all are asked again,
 * after a heartbeat; answers that came stay counted. Nothing rests on who is asked but the time
 * that it takes.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_ROUNDS_H
#define LEAFD_RAFT_CLUSTER_ROUNDS_H

#include "raft/cluster/context.h"

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

/* number: that of the last round is above all of earlier incarnations. */
void rounds_init(struct rounds *rounds, const struct raft_context *on, uint64_t number);

/* Nobody waits for any that was begun, and answers to them count for nothing. */
void rounds_stop(struct rounds *rounds);

/* So many wait for answers that none may begin. */
bool rounds_are_full(const struct rounds *rounds);

/* Begin one, of the present term, and return its number. Only a leader may. */
uint64_t rounds_begin(struct rounds *rounds);

/* True: more of them are confirmed than at the last call, namely up to *ret_number. In each turn,
 * since with one voter less the answers that came may be a majority. */
bool rounds_confirm(struct rounds *rounds, uint64_t *ret_number) MUST_CHECK;

/* A FRAME_CONFIRM or FRAME_CONFIRM_ACK. False: malformed, or a term that cannot be. */
bool rounds_receive(struct rounds *rounds, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);

#endif
