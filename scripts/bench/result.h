/*
 * result.h - what a load found, and its report: one JSON object.
 *
 * A result is good if every request sent was answered, each with status 200 and the body it must
 * have, and no id came twice. Latencies are counted in steps of 256 ns up to 17 s, so that a
 * percentile is the value of its rank, rounded up to the end of its step. Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_RESULT_H
#define LEAFD_SCRIPTS_BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "scripts/bench/idset.h"

#define RESULT_STATUS_MAX 600
#define RESULT_WHY_BYTES 400

struct result {
    uint64_t begin_ns; /* the first request may be sent; of CLOCK_MONOTONIC, as the others */
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
    char first_bad[RESULT_WHY_BYTES];     /* the first thing that was wrong, in words */
    uint32_t *latencies;                  /* of good replies: how many by step */
    uint64_t latency_max_ns;
    struct idset ids;
};

void result_init(struct result *result);
void result_free(struct result *result);

/* The load begins now and stops sending after duration_ns. */
void result_begin(struct result *result, uint64_t duration_ns);

/* A good reply that arrived at now_ns, after latency_ns; its ids are in the set already. */
void result_good(struct result *result, uint64_t now_ns, uint64_t latency_ns, uint64_t ids);

/* A reply, a connection or a request that is bad in a way the caller has counted. */
void result_bad(struct result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The load is over: write the report as JSON in one line. True if the result is good. */
bool result_print(struct result *result, FILE *out);

#endif
