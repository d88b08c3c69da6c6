/*
 * raft_bench.h - one driver on a bench: a store in memory whose writes wait until they are told to
 * be done, links that keep what is sent, a clock that stands still. Started from the same scenarios
 * as the naked core (raft_core.h), so that a test can compare the two.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_RAFT_BENCH_H
#define LEAFD_RAFT_CORE_TESTS_RAFT_BENCH_H

#include "raft/core/consensus.h"
#include "raft/core/message.h"
#include "raft/core/tests/raft_core.h"
#include "raft/tests/raft_fakes.h"
#include "raft/wire/wire.h"

struct bench {
    struct store *store;
    struct fake_disk disk;
    struct fake_net net;
    struct fake_clock clock;
    struct timers timers;
    struct fake_observer observer;
    struct state *state;
    const struct machine_ops *machine; /* set before bench_start(); NULL: the ids' */
    struct driver driver;
    uint64_t incarnation;      /* set before bench_start() */
    uint32_t snapshot_entries; /* set before bench_start(); 0: 1000 */
    uint32_t trailing_entries; /* likewise; 0: 100 */
    uint32_t rows_join_ms;     /* likewise */
    uint32_t rows_hold_ms;     /* likewise */
    uint32_t rows_many_ms;     /* likewise */
    unsigned rows;             /* likewise: tags in the state, each of about 300 bytes */
    uint64_t id;
};

/* A store as the scenario says, and a driver started on it. *bench must be zeroed (but the
 * settings). */
void bench_start(struct bench *bench, const struct boot *boot);

/* The disk carries out one thing, or everything, and the driver takes it back. False: nothing. */
bool bench_disk_step(struct bench *bench);
void bench_disk_run(struct bench *bench);

/* Let it crash: what waits for the disk is lost. */
void bench_crash(struct bench *bench);

/* Start again from what the disk holds. prepare: as the process does, by prepare_store(). */
void bench_restart(struct bench *bench);

/* Write everything, close, free. */
void bench_close(struct bench *bench);

/* One that is closed at the end of its block. */
#define BENCH struct bench __attribute__((cleanup(bench_close)))

/* A message arrives over the wire, and a turn is taken. Asserts that it was well-formed. */
void bench_receive(struct bench *bench, const struct raft_message *message);

/* The same for one that may be refused: whether it was taken. A snapshot has transfer 1. */
bool bench_takes(struct bench *bench, const struct raft_message *message);

/* A frame of any type arrives; returns what driver_receive() says. */
bool bench_frame(struct bench *bench, uint64_t from, enum frame_type type, const void *data,
                 size_t len);

/* Take frames until a message of this type to that peer comes; the others are thrown away. False:
 * none. What the message owns is the caller's: message_release(). */
bool bench_sent(struct bench *bench, uint64_t to, enum raft_message_type type,
                struct raft_message *ret_message);

/* Finish all writes, apply what is committed. */
void bench_run(struct bench *bench);

/* What the disk had to say is taken, and the timers that are due fire. */
void bench_tick(struct bench *bench);

/* The clock moves to when the driver's timer is due, and it fires. */
void bench_timeout(struct bench *bench);

/* Follower to leader of the next term by votes of server 2, with all writes done and frames thrown
 * away. The term's first entry is in the log but not acknowledged by anybody else. */
void bench_elect(struct bench *bench);

/* A peer acknowledges everything the log holds. */
void bench_ack(struct bench *bench, uint64_t from);

/* Submit n commands of two bytes; returns what driver_submit() says. */
int bench_submit(struct bench *bench, unsigned n);

uint64_t bench_term(const struct bench *bench);

#endif
