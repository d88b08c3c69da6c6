/*
 * latency.h - how long a loop's requests took, by class and by the first digit of their status; and
 * so, how many there were.
 *
 * What a class is, the service says (conn->traffic); 0 is that of requests that never got so far.
 * A request takes from when it was complete here until its reply was given to the socket, or, of a
 * large one, begun.
 *
 * The happy path: the first request of a turn reads the clock. What is answered in the same turn is
 * only counted, and noted with the time that the turn took, at its end, where the loop reads the
 * clock anyway. So a busy loop reads the clock twice a turn, however many requests there are in it.
 *
 * Exemplars: of each bucket of a histogram the last request in it that waited for something and
 * named its trace (`traceparent`). OpenMetrics shows it, so that a slow request in a graph can be
 * found. One that is being written just now is not seen.
 *
 * Failure modes: none. A connection that ends before its request is answered is not counted.
 *
 * Thread: the loop's; the histograms and exemplars: any may look.
 */
#ifndef LEAFD_HTTP_SERVER_LATENCY_H
#define LEAFD_HTTP_SERVER_LATENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/proto/head.h"
#include "src/base/stats.h"

/* All zeros: none yet. No lock: the count is odd while it is written. */
struct exemplar {
    _Atomic uint64_t writes;
    _Atomic uint64_t trace[2]; /* the 32 digits as a number, the higher half first */
    _Atomic uint64_t took_us;
    _Atomic uint64_t wall_ms;
};

struct exemplar_view {
    char trace[HEADER_TRACE_BYTES];
    uint64_t took_us;
    uint64_t wall_ms; /* when it was answered; 0: there is none */
};

/* Look at it, and take it if it is newer than what the view has. */
void exemplar_newer(struct exemplar_view *view, const struct exemplar *exemplar);

#define LATENCY_CLASSES 11
#define LATENCY_STATUSES 4 /* "2xx" to "5xx" */
#define LATENCY_KINDS (LATENCY_CLASSES * LATENCY_STATUSES)

struct latency {
    struct histogram took[LATENCY_CLASSES][LATENCY_STATUSES];
    struct exemplar exemplars[LATENCY_CLASSES][LATENCY_STATUSES][HISTOGRAM_BUCKETS];
    uint64_t turn_us;                 /* when this turn's first request was complete; 0: none yet */
    uint32_t answered[LATENCY_KINDS]; /* in this turn, of requests of this turn */
    uint8_t kinds[LATENCY_KINDS];     /* those of which there are some, */
    unsigned kind_count;              /* so many */
};

/* A request is complete: when it began, for latency_end(). */
uint64_t latency_begin(struct latency *latency);

/* It is answered with this status, 200..599. began_us: 0: it was never complete. How long it took,
 * if it waited beyond its turn: then it may have an exemplar, latency_exemplar(). Else 0. */
uint64_t latency_end(struct latency *latency, unsigned class, int status, uint64_t began_us);

/* Its trace. */
void latency_exemplar(struct latency *latency, unsigned class, int status, uint64_t took_us,
                      const char trace[HEADER_TRACE_BYTES], uint64_t wall_ms);

/* The turn is over at this time, in us, of uv_hrtime(). */
void latency_turn_end(struct latency *latency, uint64_t now_us);

/* How many requests of a class were answered so, status 0..LATENCY_STATUSES - 1. Any thread. */
uint64_t latency_count(const struct latency *latency, unsigned class, unsigned status);

/* Note what was answered in this turn so far, for who looks at the histograms in it. */
void latency_flush(struct latency *latency);

#endif
