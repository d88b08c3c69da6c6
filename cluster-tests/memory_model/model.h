/*
 * model.h - explores all executions that C11's memory model allows of a small program of threads:
 * all interleavings, and for each load all values that it may return, old ones and those of stores
 * that come later in time included.
 *
 * The happy path: code under test is compiled with model_atomic.h put first, which makes
 * its atomic operations calls of this explorer, and with -fsanitize=thread, which makes its plain
 * accesses of memory calls as well (the explorer takes the place of the sanitizer's library). A
 * scenario is a set-up, a few threads and what comes after their join; model_explore() runs it once
 * for each execution. Threads are functions, and no threads of the system: each of them runs from
 * its begin to its end, and what its loads return decides which execution it is (explore.c).
 *
 * What is looked for: a MODEL_CHECK that does not hold, an ASSERT of the code under test, a plain
 * access that races, a thread that waits for ever.
 *
 * The model: axioms.h. A load may read from a store that depends on it (load buffering), provided
 * that the store is still made with the load's new value; so values out of thin air are not
 * explored, which C11 forbids in prose only and no machine shows.
 *
 * Limits: a thread of more than `events_max` events is cut there, and counted. Plain memory has the
 * values of the threads' runs in order of their numbers: where there is no race that is right for a
 * thread that reads what a lower one wrote; the other direction is noticed, and refused.
 *
 * Thread: one; one exploration at a time.
 */
#ifndef LEAFD_MEMORY_MODEL_MODEL_H
#define LEAFD_MEMORY_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/container.h"

#define MODEL_THREADS_MAX 5
#define MODEL_TEXT_BYTES 8192

struct model_scenario {
    const char *name;
    void (*setup)(void); /* happens before all threads; may be NULL, as finish and accept */
    void (*threads[MODEL_THREADS_MAX])(void);
    void (*finish)(void);  /* after all threads were joined; may use atomics, and check */
    void (*accept)(void);  /* the execution is one that is allowed: for collecting outcomes */
    unsigned late_max;     /* loads of one execution that read from a store that depends on them */
    unsigned spurious_max; /* weak compare-and-swaps of one execution that fail for nothing */
    unsigned events_max;   /* of one thread; 0: as many as fit */
    uint64_t runs_max;     /* 0: no bound; else it stops there, and says so */
    bool all_changes; /* go also where an execution is found twice: for tests of the explorer */
} BY_NAME;

struct model_result {
    uint64_t executions; /* that are allowed and came to their end */
    uint64_t late;       /* of these: with a load that reads from a store that depends on it */
    uint64_t runs;       /* of the program, for all that */
    uint64_t cut;        /* executions in which a thread had too many events */
    bool stopped;        /* by runs_max */
    bool found;          /* a mistake: */
    char what[256];
    char story[MODEL_TEXT_BYTES]; /* the execution that shows it, event by event */
};

/* Explore all executions, or up to the first mistake. */
void model_explore(const struct model_scenario *scenario, struct model_result *ret_result);

/* In a scenario: this must hold. */
#define MODEL_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            model_fail(#condition, __FILE__, __LINE__);                                            \
        }                                                                                          \
    } while (0)

_Noreturn void model_fail(const char *what, const char *file, int line);

/* A plain access, for tests of the explorer whose own code is not instrumented. */
void model_plain(const void *at, size_t bytes, bool writes);

/* --- the places of atomic operations, to weaken them --- */

struct model_site {
    const char *file;
    const char *func;
    const char *what;  /* "load", "store", ... */
    const char *place; /* the location, as the code writes it */
    int line;
    bool known;
    int order;        /* as the code says; of a compare-and-swap: when it succeeds */
    int failure;      /* of a compare-and-swap: when it fails; else -1 */
    int weak_order;   /* used instead; -1: as the code says */
    int weak_failure; /* likewise */
    struct model_site *next;
};

/* The places that were run through since the program began, in the order of first use. */
struct model_site *model_sites(void);

#endif
