/*
 * metrics.h - GET /metrics: the metrics of the HTTP side and of the node (consensus, members, disk,
 * state, ids, the busiest tags, the process), as text: in Prometheus's text format 0.0.4 or in
 * OpenMetrics 1.0.0, whichever the client prefers.
 *
 * The happy path: atomics, and a copy of the figures that the raft loop gathered (id_backend.h),
 * are written out without asking another thread, so also while the raft loop hangs. expose_family()
 * once for each metric, then its samples in turn; finally expose_end(). Names of counters end in
 * "_total", in both formats.
 *
 * Failure modes: none; unknown values are left out. Code that takes a label's value from outside
 * escapes it (expose_label()).
 *
 * Threads: an exposition has one owner; a route runs on its loop and reads the present counters of
 * other loops.
 */
#ifndef LEAFD_HTTP_API_METRICS_H
#define LEAFD_HTTP_API_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server/meter.h"
#include "src/base/buf.h"
#include "src/base/stats.h"
#include "src/id/backend/id_backend.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4"
#define EXPOSITION_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

#define EXPOSITION_WORD_BYTES 64

struct exposition {
    struct buf *text; /* borrowed */
    bool is_open;     /* OpenMetrics */
    /* internal: the metric that was begun; nothing of it is written before its first sample */
    const char *name;
    const char *help; /* NULL: it has had a sample */
    const char *kind; /* static */
    bool is_total;    /* the name ends in "_total" */
};

/* Begin a metric: a counter if its name ends in "_total", a histogram if it gets one, else a gauge.
 * One that gets no sample is left out. name and help: static; help a sentence without quotes and
 * backslashes. */
void expose_family(struct exposition *to, const char *name, const char *help);

/* A sample of the metric. labels: the text between the braces, "loop=\"raft\"", or "". */
void expose_real(struct exposition *to, const char *labels, double value);
/* A signed number of milliseconds, or a number of microseconds, as seconds, exactly. */
void expose_ms(struct exposition *to, const char *labels, int64_t ms);
void expose_us(struct exposition *to, const char *labels, uint64_t us);

/* The metric's buckets, sum and count. exemplars: HISTOGRAM_BUCKETS of them, shown only in
 * OpenMetrics; NULL: none. */
void expose_histogram(struct exposition *to, const char *labels, const struct histogram_view *view,
                      const struct exemplar_view *exemplars);

/* A metric that has one sample without labels. */
void expose_one(struct exposition *to, const char *name, const char *help, uint64_t value);

/* Some of these. */
struct exposed {
    const char *name;
    const char *help;
    uint64_t value;
};
void expose_ones(struct exposition *to, const struct exposed *ones, size_t count);

/* Append a label, with a comma before it if there are others: name="value", escaped; bytes that are
 * no UTF-8 are replaced. */
void expose_label(struct buf *labels, const char *name, const void *value, size_t len);

void expose_end(struct exposition *to);

#endif
