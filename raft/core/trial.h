/*
 * trial.h - the rows of a snapshot, tried as they come: do they make a state?
 *
 * They go into a state machine of their own, in slices of TRIAL_MS, so that a large state does not
 * keep the loop. When all are there, and fit their digest, that state machine takes
 * the place of this node's once the snapshot is on the disk (applier_installed()).
 *
 * The happy path: trial_begin() with the head; trial_step() with each chunk, and each turn while it
 * says that there is more; trial_end() when all are tried; trial_take().
 *
 * Failure modes: rows that make no state, or more of it than there may be: trial_step() goes on to
 * count what they sum up to, and trial_end() says it. Rows that do not fit their digest:
 * ERR_CORRUPT before anything else, for then nobody knows who made them.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_TRIAL_H
#define LEAFD_RAFT_CORE_TRIAL_H

#include "src/base/clock.h"
#include "src/state/state.h"
#include "storage/store.h"

#define TRIAL_MS 5

struct trial {
    struct state *state; /* NULL: there is none */
    struct store_rows_checker rows;
    size_t at;            /* bytes that are tried */
    uint64_t state_bytes; /* that the state may take; 0: no bound */
    int err;              /* why they make no state */
    bool bad;             /* they are no rows at all, or in no order */
};

/* Of a state with a machine of this kind. state_bytes: 0: no bound. One that was begun is dropped.
 */
void trial_begin(struct trial *trial, const struct machine_ops *ops, struct level_range speaks,
                 uint64_t state_bytes);

/* Try what has come since, of the stream's first len bytes. whole: no more will come. True: all of
 * it was; false: call again soon. */
bool trial_step(struct trial *trial, const uint8_t *rows, size_t len, bool whole,
                const struct clock *clock);

/* All were tried: do they make a state, at this index, with this digest? 0; ERR_CORRUPT with
 * *ret_fits false: they do not fit the digest; or with true: that, ERR_NEWER (a newer leafd is
 * needed to tell), ERR_STATE_FULL, or another: they make none. */
int trial_end(struct trial *trial, uint64_t digest, uint64_t index, bool *ret_fits) MUST_CHECK;

/* The state machine that they made; owned by the caller. */
struct state *trial_take(struct trial *trial);

void trial_drop(struct trial *trial);

#endif
