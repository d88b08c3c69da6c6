/*
 * peer_memory.h - what this node knows of its peers (rollback.h), on its way to the disk.
 *
 * A node that was restarted must know an older copy of a peer's data as well as one that ran on. So
 * what it learns is written down as LOCAL_PEERS, within PEER_MEMORY_HOLD_MS, and costs nothing that
 * anybody waits for: it goes with a commit that happens anyway (peer_memory_join()), at most every
 * PEER_MEMORY_JOIN_MS, and by itself only if none comes. Where nothing changes nothing is written.
 *
 * The happy path: a message tells something, and is put into `seen`; peer_memory_join() right
 * before another write is submitted; peer_memory_changed() after it; peer_memory_save() at the end.
 * A new incarnation of a peer is written at once.
 *
 * Failure modes: a crash loses what was not written yet: then this node knows less, and accuses
 * nobody wrongly for it.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_PEER_MEMORY_H
#define LEAFD_RAFT_CORE_PEER_MEMORY_H

#include "raft/core/rollback.h"
#include "raft/core/writes.h"
#include "src/base/clock.h"
#include "src/base/timers.h"

/* Together with how often peers tell (STANDING_CHANGED_MS of raft/cluster/standing.h), less than a
 * second. */
#define PEER_MEMORY_HOLD_MS 400
#define PEER_MEMORY_JOIN_MS 50

struct peer_memory {
    struct rollback seen;
    struct rollback at_start; /* as the disk had it */
    struct writes *writes;
    const struct clock *clock;
    struct timers *timers;
    struct timer due;  /* a change has waited as long as it may */
    uint64_t saved_ms; /* when it was written last */
};

/* With what the disk has. 0, ERR_BAD_VERSION or ERR_CORRUPT. */
int peer_memory_init(struct peer_memory *memory, struct writes *writes, const struct clock *clock,
                     struct timers *timers, const struct buf *record) MUST_CHECK;

/* Another write is about to be submitted, at once: what is to be written goes with it. */
void peer_memory_join(struct peer_memory *memory);

/* Something may have changed: it is written soon, and a start that was met for the first time at
 * once. */
void peer_memory_changed(struct peer_memory *memory);

/* Write what is not on its way yet, if there is anything. */
void peer_memory_save(struct peer_memory *memory);

/* Write it in any case. done is called once it is durable. */
void peer_memory_write(struct peer_memory *memory, void (*done)(void *data), void *data);

/* Put back what was known at the start: a peer that was believed since then must not be, and what
 * it said must not count against the data that it really had. done as above. */
void peer_memory_restore(struct peer_memory *memory, void (*done)(void *data), void *data);

#endif
