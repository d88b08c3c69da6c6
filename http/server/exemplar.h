/*
 * exemplar.h - a trace that stands for many: of each bucket of a histogram the last request in it
 * that waited for something and named its trace (`traceparent`). OpenMetrics shows it, so that who
 * sees slow requests in a graph finds one of them.
 *
 * The happy path: exemplar_put() by the loop whose request it was; exemplar_newer() by whoever
 * shows the metrics, over all loops.
 *
 * Failure modes: one that is being written just now is not seen.
 *
 * Thread: one that puts; any that looks. No lock: the count is odd while it is written.
 */
#ifndef LEAFD_HTTP_SERVER_EXEMPLAR_H
#define LEAFD_HTTP_SERVER_EXEMPLAR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/proto/header.h"

/* All zeros: none yet. */
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

/* trace: as header_trace() gives it. */
void exemplar_put(struct exemplar *exemplar, const char trace[HEADER_TRACE_BYTES], uint64_t took_us,
                  uint64_t wall_ms);

/* Look at it, and take it if it is newer than what the view has. */
void exemplar_newer(struct exemplar_view *view, const struct exemplar *exemplar);

#endif
