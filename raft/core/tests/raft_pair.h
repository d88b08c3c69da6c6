/*
 * raft_pair.h - a leader whose log begins behind what its follower needs, and that follower: two
 * benches (raft_bench.h) whose frames the test passes on, or loses, one by one.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_RAFT_PAIR_H
#define LEAFD_RAFT_CORE_TESTS_RAFT_PAIR_H

#include "raft/core/tests/raft_bench.h"

#define PAIR_ROWS 20          /* about 6 KiB */
#define PAIR_CHUNK_BYTES 1000 /* so that they take several chunks */

/* The leader, server 1, stands at 40 entries that its log does not hold any more; the follower,
 * server 2, has three of them. */
extern const struct boot PAIR_LEADER;
extern const struct boot PAIR_FOLLOWER;

struct pair {
    struct bench leader;
    struct bench follower;
};

/* Start and elect the leader, with so many rows, and let it learn that server 2 has nothing beyond
 * 3: a transfer has begun, its first read waits at the disk. */
void pair_lead(struct bench *leader, unsigned rows, size_t chunk_bytes);

/* The transfer under way at the leader; NULL if none. */
const struct snapshot_out *transfer_out(const struct bench *leader);

/* No transfer is under way, and all views of the store are closed. */
void expect_dropped(struct bench *leader);

/* Both started; all frames of a transfer of several chunks are sent and wait in leader.net. */
void pair_start(struct pair *pair);
void pair_close(struct pair *pair);

/* Deliver the oldest frame of the leader to the follower, or lose it. */
void pair_pass(struct pair *pair, bool lose);

/* Carry out everything, and deliver all frames both ways, until nothing moves. */
void pair_exchange(struct bench *leader, struct bench *follower);

/* The next acknowledgement that a receiver sent. */
struct wire_chunk_ack pair_next_ack(struct bench *bench);

/* An acknowledgement arrives at the leader. */
void pair_send_ack(struct bench *leader, uint64_t from, uint64_t transfer, uint64_t offset,
                   bool abort);

#endif
