/*
 * hist.h - a histogram of latencies: log-linear buckets, so that each value is kept to 0.8 %.
 *
 * Values below 256 are kept exactly; above, each power of two is cut into 128 buckets. Adding is a
 * shift and an increment, whatever the value, and the memory is fixed. Thread: one owner.
 */
#ifndef LEAFD_SCRIPTS_BENCH_HIST_H
#define LEAFD_SCRIPTS_BENCH_HIST_H

#include <stddef.h>
#include <stdint.h>

#define HIST_SUB_BITS 7
#define HIST_SUB (1U << HIST_SUB_BITS)
#define HIST_BUCKETS ((size_t)(64 - HIST_SUB_BITS + 1) * HIST_SUB)

/* All zero is an empty histogram. */
struct hist {
    uint64_t counts[HIST_BUCKETS];
    uint64_t count;
    uint64_t max;
    double sum;
};

void hist_add(struct hist *hist, uint64_t value);

/* The value that `percent` of 100 of the values do not exceed: the upper end of the bucket that
 * holds the value of that rank, and never more than the maximum. 0 while there is none. */
uint64_t hist_percentile(const struct hist *hist, double percent);

double hist_mean(const struct hist *hist);

#endif
