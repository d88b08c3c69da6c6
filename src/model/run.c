/*
 * run.c - see model.h: runs a scenario once for each execution.
 *
 * The happy path: an execution to look at is taken from the stack, a graph that says what the first
 * loads of each thread return; all threads are run from their beginnings, one after the other, each
 * as far as it comes; where the graph ends, a step (step.c) goes on with one of the possibilities
 * and pushes the others. When a store is added, loads that are in the graph already may read from
 * it as well: those executions are pushed, too (change.c).
 *
 * So an execution costs one run, and interleavings that no load can tell apart are one execution.
 * This is the algorithm of TruSt (Kokologiannakis, Marmanis, Gladstein, Vafeiadis: Truly Stateless,
 * Optimal Dynamic Partial Order Reduction, POPL 2022).
 *
 * Failure modes: a mistake ends the exploration. Thread: one.
 */
#include "src/model/run.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/model/axioms.h"

#define RESTARTS_MAX 8

struct run run;

/* The stack of executions. */
static struct {
    struct graph **items;
    size_t count;
    size_t capacity;
} stack;

/* Hashes of executions that were pushed: open addressing, 0 is empty. */
static struct {
    uint64_t *slots;
    size_t count;
    size_t capacity;
} seen;

void run_leave(enum run_leave how)
{
    longjmp(run.leave, (int)how);
}

static void push(const struct graph *graph)
{
    size_t bytes = graph_bytes(graph);
    struct graph *copy = malloc(bytes);

    ASSERT(copy != NULL);
    memcpy((void *)copy, graph, bytes);
    if (stack.count == stack.capacity) {
        stack.capacity = stack.capacity > 0 ? 2 * stack.capacity : 64;
        stack.items = realloc(stack.items, stack.capacity * sizeof(struct graph *));
        ASSERT(stack.items != NULL);
    }
    stack.items[stack.count++] = copy;
}

static void seen_put(uint64_t hash)
{
    size_t at = hash & (seen.capacity - 1);

    while (seen.slots[at] != 0) {
        at = (at + 1) & (seen.capacity - 1);
    }
    seen.slots[at] = hash;
    seen.count++;
}

static void seen_grow(void)
{
    uint64_t *old = seen.slots;
    size_t capacity = seen.capacity;

    seen.capacity = capacity > 0 ? 2 * capacity : 1024;
    seen.slots = calloc(seen.capacity, sizeof *seen.slots);
    seen.count = 0;
    ASSERT(seen.slots != NULL);
    for (size_t i = 0; i < capacity; i++) {
        if (old[i] != 0) {
            seen_put(old[i]);
        }
    }
    free(old);
}

static bool hash_is_new(uint64_t hash)
{
    hash |= hash == 0;
    if (2 * seen.count >= seen.capacity) {
        seen_grow();
    }
    for (size_t at = hash & (seen.capacity - 1); seen.slots[at] != 0;
         at = (at + 1) & (seen.capacity - 1)) {
        if (seen.slots[at] == hash) {
            return false;
        }
    }
    seen_put(hash);
    return true;
}

bool run_is_new(const struct graph *graph)
{
    return hash_is_new(graph_hash(graph));
}

void run_push(const struct graph *graph)
{
    uint64_t hash = graph_hash(graph);

    if (run.scenario->all_changes) {
        /* The same execution comes by several ways, and what comes next depends on the way. */
        for (int i = 0; i < graph->count; i++) {
            uint64_t words[3] = {hash, graph->events[i].stamp,
                                 (uint64_t)graph->events[i].thread << 8 | graph->events[i].index};

            hash = hash_bytes(words, sizeof words, 1);
        }
        if (!hash_is_new(hash)) {
            return;
        }
    }
    push(graph);
}

/* Run one thread as far as it comes. */
static void run_thread(unsigned thread, void (*function)(void))
{
    int how;

    run.thread = thread;
    run.left[thread] = RUN_RETURNED;
    how = setjmp(run.leave);
    if (how == 0) {
        function();
    } else {
        run.left[run.thread] = (enum run_leave)how;
    }
}

/* Did the thread do all that the graph says? */
static bool thread_is_whole(unsigned thread)
{
    return run.next[thread] >= run.graph.thread_count[thread];
}

/* True if all who wait have seen the newest value: then they wait for ever. ret_may: and may. */
static bool waiters_are_last(bool *ret_may)
{
    *ret_may = true;
    for (unsigned i = 0; i < GRAPH_THREADS; i++) {
        const struct event *load;

        if (run.left[i] != RUN_WAITS) {
            continue;
        }
        load = &run.graph.events[run.graph.of[i][run.graph.thread_count[i] - 1]];
        if (graph_place_read(&run.graph, load) != run.graph.order[load->location].count - 1) {
            return false;
        }
        *ret_may = *ret_may && load->may_stay;
    }
    return true;
}

static void found(const char *what)
{
    struct model_result *result = run.result;

    result->found = true;
    snprintf(result->what, sizeof result->what, "%s", what);
    story_tell(&run.graph, result->story, sizeof result->story);
}

/* All threads have ended: is this an execution, and what does it show? */
static void run_judge(bool cut, bool waits_for_ever)
{
    const struct graph *graph = &run.graph;
    const char *race;

    if ((graph->late > 0 || axioms_need_sc(graph)) && !axioms_hold(graph, NULL)) {
        return;
    }
    race = plain_race();
    if (run.failed) {
        found(run.what);
    } else if (race != NULL) {
        found(race);
    } else if (waits_for_ever) {
        found("a thread waits for ever");
    } else if (cut) {
        run.result->cut++;
    } else {
        run.result->executions++;
        run.result->late += graph->late > 0;
        if (run.scenario->accept != NULL) {
            run.scenario->accept();
        }
    }
}

static bool any_left(enum run_leave how)
{
    for (unsigned i = 1; i <= run.thread_count; i++) {
        if (run.left[i] == how) {
            return true;
        }
    }
    return false;
}

/* Run all threads. False: it is no execution, or not to its end, or has to be run again. */
static bool run_threads(bool *ret_waits_for_ever)
{
    bool may_wait = true;

    for (unsigned i = 1; i <= run.thread_count; i++) {
        run_thread(i, run.scenario->threads[i - 1]);
        if (run.left[i] == RUN_DROPPED || run.left[i] == RUN_AGAIN) {
            return false;
        }
    }
    for (unsigned i = 0; i <= run.thread_count; i++) {
        if (!thread_is_whole(i)) {
            ASSERT(run.graph.late > 0); /* else it was not the same program twice */
            return false;
        }
    }
    if (run.failed || !any_left(RUN_WAITS)) {
        return true;
    }
    if (any_left(RUN_CUT) || !waiters_are_last(&may_wait)) {
        return false;
    }
    *ret_waits_for_ever = !may_wait;
    return true;
}

/* Run the execution of run.graph. True: it has to be run again. */
static bool run_once(void)
{
    bool waits_for_ever = false;

    run.failed = false;
    memset(run.next, 0, sizeof run.next);
    memset(run.left, 0, sizeof run.left);
    plain_begin();
    run.result->runs++;
    if (run.scenario->setup != NULL) {
        run_thread(0, run.scenario->setup);
        ASSERT(run.left[0] == RUN_RETURNED);
    }
    if (!run_threads(&waits_for_ever)) {
        return any_left(RUN_AGAIN);
    }
    if (!run.failed && !waits_for_ever && !any_left(RUN_CUT) && run.scenario->finish != NULL) {
        run_thread(GRAPH_LAST, run.scenario->finish);
        ASSERT(run.left[GRAPH_LAST] == RUN_RETURNED || run.left[GRAPH_LAST] == RUN_FAILED);
    }
    run_judge(any_left(RUN_CUT), waits_for_ever);
    return false;
}

static void begin(const struct model_scenario *scenario, struct model_result *ret_result)
{
    memset(ret_result, 0, sizeof *ret_result);
    memset(&run, 0, sizeof run);
    run.scenario = scenario;
    run.result = ret_result;
    while (run.thread_count < MODEL_THREADS_MAX && scenario->threads[run.thread_count] != NULL) {
        run.thread_count++;
    }
    ASSERT(run.thread_count > 0 && run.thread_count < GRAPH_LAST);
    graph_clear(&run.graph, run.initial);
    push(&run.graph);
}

void model_explore(const struct model_scenario *scenario, struct model_result *ret_result)
{
    begin(scenario, ret_result);
    while (stack.count > 0 && !ret_result->found && !ret_result->stopped) {
        struct graph *graph = stack.items[--stack.count];

        graph_copy(&run.origin, graph);
        graph_copy(&run.graph, graph);
        free(graph);
        while (run_once() && run.origin.restarts++ < RESTARTS_MAX) {
            graph_settle(&run.origin);
            graph_copy(&run.graph, &run.origin);
        }
        ret_result->stopped = scenario->runs_max > 0 && ret_result->runs >= scenario->runs_max;
    }
    while (stack.count > 0) {
        free(stack.items[--stack.count]);
    }
    free(stack.items);
    free(seen.slots);
    memset(&stack, 0, sizeof stack);
    memset(&seen, 0, sizeof seen);
}

void model_fail(const char *what, const char *file, int line)
{
    if (!run.failed) {
        run.failed = true;
        snprintf(run.what, sizeof run.what, "%s:%d: %s", file, line, what);
    }
    run_leave(RUN_FAILED);
}
