/*
 * clock_check.h - is this node's clock fit to stamp ids? Pure decisions on samples.
 *
 * Peers are asked for their wall clock over the peer links; half of the round trip is added
 * (Cristian 1989). The cluster's time is the median of the own clock and the fresh samples of the
 * peers (the lower one of two middles): a mean, as Leaf's article has it, would let one clock that
 * is off by years make every healthy node refuse.
 *
 * Checks: own clock against the median (threshold_ms, default 1 s) - with no fresh sample there is
 * nothing to compare with, and it passes; own clock against its own monotonic clock between two
 * ticks (a step back beyond LIMIT_CLOCK_BACK_WAIT_MS or ahead beyond threshold_ms is a jump, and
 * only a fresh majority of samples, or the clock's return, clears it).
 *
 * Thread: one owner (the raft loop), or tests.
 */
#ifndef LEAFD_ID_CLOCK_CHECK_H
#define LEAFD_ID_CLOCK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"

#define CLOCK_SAMPLE_FRESH_MS 10000 /* older samples do not count */
#define CLOCK_SAMPLE_RTT_MAX_MS 500 /* slower answers tell too little */

struct clock_sample {
    uint64_t peer;
    uint64_t taken_ms; /* monotonic */
    int64_t offset_ms; /* peer's clock minus ours */
    uint32_t rtt_ms;
};

struct clock_check {
    uint32_t threshold_ms;
    size_t count;
    struct clock_sample samples[LIMIT_NODES];
    /* anchor of the last tick */
    uint64_t anchor_now_ms;
    uint64_t anchor_wall_ms;
    bool jumped;       /* the wall clock stepped and nothing has confirmed it yet */
    int64_t jumped_ms; /* by how much */
};

void clock_check_init(struct clock_check *check, uint32_t threshold_ms);

/* An answer of a peer: asked at sent_ms, arrived at now_ms (monotonic); both wall clocks as read
 * when it was answered and when it arrived. Too slow ones are ignored. */
void clock_check_sample(struct clock_check *check, uint64_t peer, uint64_t sent_ms, uint64_t now_ms,
                        uint64_t peer_wall_ms, uint64_t own_wall_ms);

/* Compare the wall clock with the monotonic one since the last call; at least once a second. */
void clock_check_tick(struct clock_check *check, uint64_t now_ms, uint64_t wall_ms);

/* The cluster's time by median, and how many fresh samples of peers it rests on. */
uint64_t clock_check_cluster_ms(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                                size_t *ret_samples);

/* 0, or ERR_CLOCK_SKEW (off the median by more than the threshold, or a jump ahead), or
 * ERR_CLOCK_BACKWARDS (a jump back). *ret_off_ms: by how much, signed. */
int clock_check_verdict(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                        int64_t *ret_off_ms);

#endif
