/*
 * id_stamp.h - commands stamped as nodes do it (src/state/codec/session.h), for tests that drive a
 * state machine by themselves: each node's commands are numbered in order, and each is awaited
 * alone unless the test says otherwise.
 *
 * Thread: one.
 */
#ifndef LEAFD_ID_TESTS_ID_STAMP_H
#define LEAFD_ID_TESTS_ID_STAMP_H

#include "src/state/codec/session.h"

#define ID_STAMP_NODES 256

/* The place of a stamp, empty, as in hex.h. */
#define ID_STAMP_EMPTY "0000 0000000000000000 0000000000000000 0000000000000000 "

struct id_stamps {
    uint64_t seqs[ID_STAMP_NODES];    /* of the last command of node n; n is below ID_STAMP_NODES */
    uint64_t awaited[ID_STAMP_NODES]; /* the lowest that it still waits for; 0: the last alone */
};

/* Stamp as the next command of the node, in its incarnation 1. */
void id_stamp(struct id_stamps *stamps, uint64_t node_id, struct buf *command);

/* With a stamp of the caller's choice. */
void id_stamp_as(struct buf *command, uint64_t node_id, uint64_t incarnation, uint64_t seq,
                 uint64_t lowest);

/* Has it room for a stamp, and none yet? */
bool id_stamp_is_empty(const struct buf *command);

#endif
