/*
 * clock.h - time as a vtable, so that tests and the simulator run on their own; and a check whether
 * this node's clock is fit to stamp ids (clock_check).
 *
 * Two clocks: a monotonic one for deadlines and timers, and the wall clock for times that are shown
 * or stamped into commands. Nothing else in leafd asks the system for the time.
 *
 * Failure modes: none. Thread: any; a loop_clock is its loop's.
 */
#ifndef LEAFD_BASE_CLOCK_H
#define LEAFD_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/limits.h"

struct clock {
    /* Milliseconds of a monotonic clock that counts suspend; the zero point has no meaning. NULL:
     * now_us has it. */
    uint64_t (*now_ms)(const struct clock *clock);
    /* Milliseconds since 1970-01-01 UTC; may jump either way. */
    uint64_t (*wall_ms)(const struct clock *clock);
    /* The clock of now_ms in microseconds, for measuring. NULL: there is no finer one. */
    uint64_t (*now_us)(const struct clock *clock);
    /* The next call must read the real clock (loop_clock). NULL: time is never frozen. */
    void (*look)(const struct clock *clock);
    void *data;
} BY_NAME;

/* The system's clocks (CLOCK_BOOTTIME, CLOCK_REALTIME). Static memory. */
const struct clock *clock_system(void);

static inline uint64_t clock_now_ms(const struct clock *clock)
{
    return clock->now_us != NULL ? clock->now_us(clock) / 1000 : clock->now_ms(clock);
}

static inline uint64_t clock_now_us(const struct clock *clock)
{
    return clock->now_us != NULL ? clock->now_us(clock) : clock->now_ms(clock) * 1000;
}

static inline void clock_look(const struct clock *clock)
{
    if (clock->look != NULL) {
        clock->look(clock);
    }
}

static inline uint64_t clock_wall_ms(const struct clock *clock)
{
    return clock->wall_ms(clock);
}

/*
 * --- loop_clock: a clock whose monotonic time is frozen from its first call until clock_look():
 * some twenty-five places of a turn of the raft loop ask for it.
 *
 * Code that compares two clocks, or measures to the microsecond, uses the real one. wall_ms() is
 * always the real one's. Thread: only the loop's; other threads use the real one.
 */

struct loop_clock {
    struct clock base; /* the vtable's object */
    const struct clock *real;
    bool stands;
    uint64_t now_us; /* while it is frozen */
};

/* real: borrowed. The clock must not move in memory. */
void loop_clock_init(struct loop_clock *clock, const struct clock *real);

/*
 * --- clock_check: is this node's clock fit to stamp ids? Pure decisions on samples.
 *
 * Peers are asked for their wall clock over the peer links; half of the round trip is added
 * (Cristian 1989). The cluster's time is the median of our own clock and the fresh samples of the
 * peers (the lower of two middles). With a mean, as in Leaf's article, one clock that is off by
 * years would make every healthy node refuse. With only two clocks the lower one passes and the
 * higher one refuses: lost time comes back, used time does not.
 *
 * Checks:
 *  - Our own clock against the median: off by more than threshold_ms (default 1 s) refuses. With no
 *    fresh sample there is nothing to compare with, and it passes.
 *  - Our own clock against its own monotonic clock since the last tick (NTP's slewing moves both
 *    alike): a step back by more than LIMIT_CLOCK_BACK_WAIT_MS, or ahead by more than threshold_ms,
 *    is a jump. The clock fails the check until
 *      - it returns: it is back within these bounds of where it would be without the jump; or,
 *    after a step back, it has caught up with where it would have been when the step was seen,
 *    which is the latest time that ids can have; or
 *      - a majority confirms it: more than half of the cluster's clocks, our own one counted, are
 *        within threshold_ms of it by fresh samples. Until clock_check_members() says how many
 *        there are, the cluster is this node and those that answered, at least one.
 *
 * A sample is kept as the peer's distance from this node's clock together with a reading of that
 * clock: later steps of our own clock do not change what is known of the peer.
 *
 * Numbers of peers are not trusted, and distances saturate at some 70 million years. Thread: one
 * owner.
 */

#define CLOCK_SAMPLE_FRESH_MS 10000 /* older samples do not count */
#define CLOCK_SAMPLE_RTT_MAX_MS 500 /* slower answers are too imprecise */

struct clock_sample {
    uint64_t peer;
    uint64_t taken_ms; /* monotonic, when the answer arrived */
    uint64_t own_ms;   /* our wall clock then */
    int64_t offset_ms; /* peer's wall clock minus ours then */
};

struct clock_check {
    uint32_t threshold_ms;
    size_t members; /* clocks of the cluster, our own one counted; 0: not known */
    size_t count;
    struct clock_sample samples[LIMIT_NODES]; /* one a peer */
    /* The last tick's clocks; during a jump, those of the last tick before it. */
    bool anchored;
    uint64_t anchor_now_ms;
    uint64_t anchor_wall_ms;
    uint64_t caught_up_ms; /* a step back is over at this wall time; 0: there was none */
};

/* threshold_ms > 0. */
void clock_check_init(struct clock_check *check, uint32_t threshold_ms);

/* The number of members of the cluster, this node counted. A single node is its own majority: it
 * has no peer to ask, and a jump does not fail its check. */
void clock_check_members(struct clock_check *check, size_t members);

/* An answer of a peer: asked at sent_ms, arrived at now_ms (monotonic); both wall clocks as read
 * when it was answered and when it arrived. Too slow ones are ignored. Replaces the peer's earlier
 * sample or, if there is no room, the oldest one. */
void clock_check_sample(struct clock_check *check, uint64_t peer, uint64_t sent_ms, uint64_t now_ms,
                        uint64_t peer_wall_ms, uint64_t own_wall_ms);

/* Compare the wall clock with the monotonic one since the last call; at least once a second. Read
 * both right after each other: time between the reads counts as a step. */
void clock_check_tick(struct clock_check *check, uint64_t now_ms, uint64_t wall_ms);

/* The cluster's time by median, and the number of fresh peer samples in it. */
uint64_t clock_check_cluster_ms(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                                size_t *ret_samples);

/* True when our own clock and the fresh samples together are a majority of the members' clocks. */
bool clock_check_asked(const struct clock_check *check, uint64_t now_ms);

/* True when the clocks of all members are known, or a majority of them is near the median: then
 * clock_check_asked() holds, too. */
bool clock_check_agreed(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms);

/* How long ago a peer answered (UINT64_MAX: never), and how far its clock is ahead of our own one.
 * False: there is no fresh answer. */
bool clock_check_peer(const struct clock_check *check, uint64_t peer, uint64_t now_ms,
                      uint64_t wall_ms, uint64_t *ret_ago_ms, int64_t *ret_off_ms);

/* 0, or ERR_CLOCK_SKEW (off the median by more than the threshold, or a jump ahead), or
 * ERR_CLOCK_BACKWARDS (a jump back). A jump since the last tick counts as well. *ret_off_ms is
 * always set: by how much our own clock is ahead (negative: late) of where it would be without the
 * jump, or else of the median. */
int clock_check_verdict(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                        int64_t *ret_off_ms) MUST_CHECK;

/* --- times --- */

static inline uint64_t earlier_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
