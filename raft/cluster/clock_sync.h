/*
 * clock_sync.h - the cluster's time: asks the peers for their clocks' time, and as the leader puts
 * the median into the log.
 *
 * The happy path: every second (at first five times a second) each peer gets a FRAME_CLOCK; its
 * answer goes to clock_check_sample(). The leader appends a COMMAND_CLOCK with the median every
 * renew_ms. No id's uniqueness rests on the log's time.
 *
 * Failure modes: no answers: only the own clock is known, and the checks pass. Not the leader:
 * nothing is proposed.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_CLOCK_SYNC_H
#define LEAFD_RAFT_CLUSTER_CLOCK_SYNC_H

#include "raft/cluster/context.h"
#include "src/base/clock.h"

struct clock_sync {
    const struct raft_context *on;
    struct clock_check check;
    struct timer ask;  /* the peers, again */
    struct timer tick; /* armed: the log had the time a moment ago */
    struct node_command command;
};

void clock_sync_init(struct clock_sync *sync, const struct raft_context *on);

/* A FRAME_CLOCK. False: malformed. */
bool clock_sync_receive(struct clock_sync *sync, uint64_t from, const uint8_t *payload, size_t len);

/* The last question to a peer that was answered: its round trip, and the answer. NULL: none was
 * answered for CLOCK_SAMPLE_FRESH_MS. Borrowed until the next answer. */
const struct clock_link *clock_sync_link(const struct clock_sync *sync, uint64_t peer);

/* What a node (also this one) serves: bits of enum wire_serves. A node that does not report this,
 * or whose last answer is old, counts as serving all: a client asks it and sees. */
uint8_t clock_sync_serves(const struct clock_sync *sync, uint64_t node_id);

/* Propose what is due. Woken by an answer, its timers, its command, and what wakes all. */
void clock_sync_turn(struct clock_sync *sync);

#endif
