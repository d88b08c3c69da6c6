/*
 * histogram.h - how often something took how long: counts in fixed buckets, for /metrics.
 *
 * The bounds are 1, 2 and 5 times each power of ten from 10 us to 10 s, and one bucket more for
 * whatever took longer: log-linear, the same in every histogram, and few, since each is a line of
 * every scrape.
 *
 * The happy path: one thread notes durations; any thread adds what is there to a view of its own,
 * and so sums up the histograms of several threads.
 *
 * Failure modes: none. A view that is taken while something is noted may have it in a count and not
 * yet in the sum. A sum wraps after half a million years.
 *
 * Thread: one that notes; any that looks.
 */
#ifndef LEAFD_BASE_HISTOGRAM_H
#define LEAFD_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 19
#define HISTOGRAM_BUCKETS (HISTOGRAM_BOUNDS + 1) /* the last one has no bound */

/* All zeros: nothing noted. */
struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_BUCKETS];
    _Atomic uint64_t sum_us;
};

struct histogram_view {
    uint64_t counts[HISTOGRAM_BUCKETS]; /* of this bucket alone */
    uint64_t sum_us;
};

/* Upper bound, inclusive, of bucket i, 0..HISTOGRAM_BOUNDS - 1, in us; and the same in seconds, as
 * metrics write it: "0.00001" to "10.0". */
uint64_t histogram_bound_us(unsigned i);
const char *histogram_bound_text(unsigned i);

/* The bucket of what took so long. */
unsigned histogram_bucket(uint64_t took_us);

/* `times` things took took_us each. */
void histogram_note(struct histogram *histogram, uint64_t took_us, uint64_t times);

void histogram_add(struct histogram_view *view, const struct histogram *histogram);

/* Of all buckets. */
uint64_t histogram_count(const struct histogram_view *view);

#endif
