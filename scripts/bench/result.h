/*
 * result.h - what a load found, and its report: one JSON object.
 *
 * A result is good if every request sent was answered, each with status 200 and the body it must
 * have, and no id came twice. Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_RESULT_H
#define LEAFD_SCRIPTS_BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "scripts/bench/hist.h"
#include "scripts/bench/idset.h"

#define RESULT_STATUS_MAX 600
#define RESULT_WHY_BYTES 400
#define RESULT_SLOT_MS 100 /* of the timeline */

/* One slot of the timeline. */
struct result_slot {
    uint64_t good;
    uint64_t bad;
    uint64_t max_ns; /* longest latency of a reply in it */
};

struct result {
    uint64_t begin_ns; /* the first request may be sent */
    uint64_t stop_ns;  /* no request is sent any more */
    uint64_t sent;
    uint64_t good;                        /* replies that are as they must be */
    uint64_t good_in_time;                /* before stop_ns: the rate is made of these */
    uint64_t ids_in_time;                 /* ids in these */
    uint64_t statuses[RESULT_STATUS_MAX]; /* replies by status; 0: an error of the protocol's own */
    uint64_t bad_body;                    /* status 200, but not what must be in it */
    uint64_t broken;                      /* connections that sent what is no reply */
    uint64_t closed;                      /* connections that ended before the load's end */
    uint64_t unanswered;                  /* requests without a reply, whatever the reason */
    uint64_t longest_gap_ns;              /* between two good replies */
    uint64_t last_good_ns;
    char first_bad[RESULT_WHY_BYTES]; /* the first thing that was wrong, in words */
    struct hist latency;
    struct idset ids;
    struct result_slot *slots; /* NULL: no timeline */
    size_t slot_count;
};

/* Nanoseconds of the monotonic clock. */
uint64_t result_clock_ns(void);

void result_init(struct result *result);
void result_free(struct result *result);

/* The load begins now and stops sending after duration_ns. timeline: keep one, of this length and
 * grace_ns more. */
void result_begin(struct result *result, uint64_t duration_ns, uint64_t grace_ns, bool timeline);

/* A good reply that arrived at now_ns, after latency_ns; its ids are in the set already. */
void result_good(struct result *result, uint64_t now_ns, uint64_t latency_ns, uint64_t ids);

/* A reply, a connection or a request that is bad in a way the caller has counted. */
void result_bad(struct result *result, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

bool result_is_good(const struct result *result);

/* Write the report as JSON in one line. 0, or -1 if it cannot be written. */
int result_print(const struct result *result, FILE *out);

#endif
