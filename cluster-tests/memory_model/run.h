/*
 * run.h - the execution that is being run, and the stack of those that are still to be looked at.
 *
 * Static, since the operations of the code under test come without any context. Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_RUN_H
#define LEAFD_MEMORY_MODEL_RUN_H

#include <setjmp.h>

#include "cluster-tests/memory_model/graph.h"
#include "cluster-tests/memory_model/model.h"

/* How a thread ended that did not return. */
enum run_leave {
    RUN_RETURNED = 0,
    RUN_WAITS,   /* its load has to change before it goes on */
    RUN_FAILED,  /* a check did not hold */
    RUN_CUT,     /* too many events */
    RUN_DROPPED, /* this is no execution: the whole run ends */
    RUN_AGAIN    /* run once more: the origin was changed */
};

struct run {
    const struct model_scenario *scenario;
    struct model_result *result;
    struct graph graph;
    struct graph origin; /* as it was before the run */
    unsigned thread;     /* that runs now */
    unsigned thread_count;
    unsigned next[GRAPH_THREADS]; /* its next event */
    enum run_leave left[GRAPH_THREADS];
    jmp_buf leave;
    bool failed;
    char what[256];
    /* locations, by address; the same for all runs of a scenario */
    unsigned locations;
    uintptr_t at[GRAPH_LOCATIONS];
    size_t bytes[GRAPH_LOCATIONS];
    uint64_t initial[GRAPH_LOCATIONS];
};

extern struct run run;

/* Leave the thread's function. */
_Noreturn void run_leave(enum run_leave how);

/* Look at this execution later, unless all_changes is set and it was pushed before. A copy is made.
 */
void run_push(const struct graph *graph);

/* The one that was pushed last; false: there is none. */
bool run_take(struct graph *ret_graph);

/* All of them, and which there were. */
void run_forget(void);

/* True the first time that this execution is asked about. */
bool run_is_new(const struct graph *graph);

#endif
