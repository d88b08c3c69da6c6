/*
 * metrics.h - GET /metrics: what the HTTP side sees, and the node's part (consensus, members, disk,
 * state, ids, the busiest tags, the process), as text: in the text format 0.0.4 of Prometheus, or
 * in OpenMetrics 1.0.0, whichever the client would rather have.
 *
 * The happy path: atomics, and a copy of what the raft loop gathered (id_backend.h), are written
 * out, without asking anybody: also while the raft loop hangs. expose_family() once for each
 * metric, then its samples, one after the other; at last expose_end(). Names of counters end in
 * "_total", in both formats.
 *
 * Failure modes: none; what is not known is left out. Values of labels are escaped by whoever takes
 * them from outside (expose_label()).
 *
 * Threads: an exposition has one owner; a route is its loop's, and counters of other loops are read
 * as they are at the moment.
 */
#ifndef LEAFD_HTTP_API_METRICS_H
#define LEAFD_HTTP_API_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/tokens.h"
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
    /* its own: the metric that was begun, of which nothing is written before its first sample */
    const char *name;
    const char *help; /* NULL: it has a sample */
    const char *kind;
};

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* Begin a metric; one that gets no sample is left out. name and help: static; help a sentence
 * without quotes and backslashes. */
void expose_family(struct exposition *to, const char *name, enum metric_kind kind,
                   const char *help);

/* A sample of it. labels: as between the braces, "loop=\"raft\"", or "". */
void expose_real(struct exposition *to, const char *labels, double value);
/* A signed number of milliseconds, or a number of microseconds, as seconds, exactly. */
void expose_ms(struct exposition *to, const char *labels, int64_t ms);
void expose_us(struct exposition *to, const char *labels, uint64_t us);

/* Its buckets, sum and count. exemplars: HISTOGRAM_BUCKETS of them, which OpenMetrics alone shows;
 * NULL: none. */
void expose_histogram(struct exposition *to, const char *labels, const struct histogram_view *view,
                      const struct exemplar_view *exemplars);

/* A metric that has one sample without labels. */
void expose_one(struct exposition *to, const char *name, enum metric_kind kind, const char *help,
                uint64_t value);

/* Some of these. */
struct exposed {
    const char *name;
    const char *help;
    uint64_t value;
};
void expose_ones(struct exposition *to, enum metric_kind kind, const struct exposed *ones,
                 size_t count);

/* Append a label, with a comma before it if there are others: name="value", escaped; bytes that are
 * no UTF-8 are shown by replacement. */
void expose_label(struct buf *labels, const char *name, const void *value, size_t len);

void expose_end(struct exposition *to);

#endif
