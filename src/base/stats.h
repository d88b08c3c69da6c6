/*
 * stats.h - figures of a running node: how long something took (histogram), how often per second it
 * happens (meter), and how long the turns of a loop take (stall).
 *
 * All are memory of their owner and begin as zeros. Failure modes: none, except where noted.
 * Thread: one thread writes; any may read atomic fields.
 */
#ifndef LEAFD_BASE_STATS_H
#define LEAFD_BASE_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Add to a counter that only one thread writes: no need to lock the bus. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/*
 * --- histogram: counts of durations in fixed buckets, for /metrics.
 *
 * The bounds are 1, 2 and 5 times each power of ten from 10 us to 10 s, and one more bucket for
 * longer durations: log-linear, the same in every histogram, and few, since each is a line of every
 * scrape.
 *
 * A view taken during a note may have it in a count and not yet in the sum. A sum wraps after half
 * a million years.
 */

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

/* Upper bound, inclusive, of bucket i, 0..HISTOGRAM_BOUNDS - 1, in seconds, as metrics write it:
 * "0.00001" to "10.0". */
const char *histogram_bound_text(unsigned i);

/* The bucket of this duration. */
unsigned histogram_bucket(uint64_t took_us);

/* `times` things took took_us each. */
void histogram_note(struct histogram *histogram, uint64_t took_us, uint64_t times);

void histogram_add(struct histogram_view *view, const struct histogram *histogram);

/* Of all buckets. */
uint64_t histogram_count(const struct histogram_view *view);

/*
 * --- meter: how often per second something happened lately: an average that fades.
 *
 * An event `half_ms` ago counts half as much as one now. So the rate halves in each half_ms without
 * events, and falls to 0.
 *
 * The happy path: meter_note() is called now and then with the number of events since the last
 * call; they count as spread evenly over that time. A count of 0 lets the rate fade.
 *
 * Times are kept in 32 bits: more than 49 days between two notes are taken for less. Thread: one
 * owner.
 */

/* All zeros: nothing happened, and the first note begins to count. */
struct meter {
    float per_s;    /* as of: */
    uint32_t at_ms; /* monotonic, its low bits; 0: not begun */
};

/* False: it has just begun, or no time has passed; then the next call must include this count. */
bool meter_note(struct meter *meter, uint64_t count, uint32_t half_ms, uint64_t now_ms);

/*
 * --- stall: how long the turns of a loop take: an event during a turn waits for its end.
 *
 * Failure modes: a turn of STALL_WARN_MS or more gives a line of level warn, at most one a minute,
 * with its longest step. Times are of the monotonic clock, in whole ms: a turn is shown as up to 1
 * ms shorter or longer than it was. To read the processor time is a system call, so it is read
 * after a turn of a whole ms, and else each STALL_CPU_MS: a turn's value includes the short turns
 * before it, but is never longer than the turn.
 *
 * Thread: the loop's, but for stall_minute_ms() and the atomic fields.
 */

#define STALL_WARN_MS 100
#define STALL_WARN_AGAIN_MS 60000
#define STALL_SECONDS 60
#define STALL_CPU_MS 5

struct stall {
    _Atomic uint64_t longest_ms;             /* since the start */
    _Atomic uint64_t seconds[STALL_SECONDS]; /* the second << 32 | the longest that ended in it */
    _Atomic uint64_t busiest_us;             /* the most processor time of a turn */
    uint64_t cpu_us;                         /* of this thread, at cpu_ms */
    uint64_t cpu_ms;                         /* 0: never */
    uint64_t began_ms;                       /* of the turn */
    uint64_t step_ms;                        /* when the current step began */
    uint64_t worst_ms;                       /* the longest of its steps */
    uint64_t warned_ms;                      /* 0: never */
    const char *doing;
    const char *worst;
};

void stall_begin(struct stall *stall, uint64_t now_ms, const char *doing);
/* The next step of the turn begins; doing: static text. */
void stall_step(struct stall *stall, uint64_t now_ms, const char *doing);
/* loop: its name, for the log. */
void stall_end(struct stall *stall, uint64_t now_ms, const char *loop);

/* Of the turns that ended in the last STALL_SECONDS. */
uint64_t stall_minute_ms(const struct stall *stall, uint64_t now_ms);

#endif
