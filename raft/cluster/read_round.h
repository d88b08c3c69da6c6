/*
 * read_round.h - the leader asks the voters whether its term still stands (FRAME_CONFIRM): one
 * numbered round at a time, which serves all queries that waited when it began.
 *
 * Why the answer of a node whose term equals ours proves it: a newer leader needs a majority of
 * votes in a newer term, and any majority that confirmed afterwards would contain one of those
 * voters.
 *
 * The happy path: read_round_begin(); the voters answer; read_round_is_done() finds a majority.
 *
 * Failure modes: a frame is lost: the round is asked again after a heartbeat, answers that came
 * stay counted. Who is no voter (any more) is not counted.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_READ_ROUND_H
#define LEAFD_RAFT_CLUSTER_READ_ROUND_H

#include "raft/cluster/ground.h"

struct read_round {
    const struct ground *on;
    uint64_t number; /* of the last one */
    bool active;
    uint64_t index;             /* committed when it began: answers show at least this */
    uint64_t acks[LIMIT_NODES]; /* who confirmed; of more than that, the last, */
    unsigned ack_count;         /* and so many in all */
    struct timer again;
};

/* seed: numbers of an earlier incarnation must not be given again. */
void read_round_init(struct read_round *round, const struct ground *on, uint64_t seed);

/* None may be active. */
void read_round_begin(struct read_round *round);

/* True once: the round that was active has a majority, and is over. To be asked in each turn, since
 * with one voter less the answers that came may be a majority. */
bool read_round_is_done(struct read_round *round);

/* This node leads no more: forget it. */
void read_round_stop(struct read_round *round);

/* A FRAME_CONFIRM or FRAME_CONFIRM_ACK. False: malformed, or a term that cannot be. */
bool read_round_receive(struct read_round *round, uint64_t from, enum frame_type type,
                        const uint8_t *payload, size_t len);

#endif
