/*
 * explore.c - see model.h: runs a scenario once for each execution.
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
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "cluster-tests/memory_model/axioms.h"
#include "cluster-tests/memory_model/plain.h"
#include "cluster-tests/memory_model/run.h"

#define RESTARTS_MAX 8

/* --- the story --- */

static void put_event(FILE *text, const struct graph *graph, const struct event *event)
{
    const char *file = event->site->file != NULL ? event->site->file : "";
    const char *name = strrchr(file, '/');

    fprintf(text, "  %u.%-3u %-16s %-22s %-8s ", event->thread, event->index, event->site->what,
            event->site->place, order_name(graph_order(graph, event)));
    if (event->kind == EVENT_LOAD && event->from == GRAPH_INITIAL) {
        fprintf(text, "reads %#llx, the first value",
                (unsigned long long)graph_value(graph, event));
    } else if (event->kind == EVENT_LOAD) {
        const struct event *from = &graph->events[event->from];

        fprintf(text, "reads %#llx of %u.%u", (unsigned long long)graph_value(graph, event),
                from->thread, from->index);
        if (clock_has(&from->cause, event)) {
            fprintf(text, ", which comes of it");
        }
    } else if (event->kind == EVENT_STORE) {
        fprintf(text, "stores %#llx as no. %d", (unsigned long long)event->value, event->place + 1);
    }
    fprintf(text, "   %s:%d %s\n", name != NULL ? name + 1 : file, event->site->line,
            event->site->func);
}

/* An execution for people: the events of each thread in its order, with what each load read from.
 * As much as fits, with a NUL. */
static void story_write(const struct graph *graph, char *ret_text, size_t bytes)
{
    FILE *text = fmemopen(ret_text, bytes - 1, "w");

    ASSERT(text != NULL);
    ret_text[bytes - 1] = '\0';
    for (unsigned thread = 0; thread < GRAPH_THREADS; thread++) {
        for (unsigned i = 0; i < graph->thread_count[thread]; i++) {
            put_event(text, graph, &graph->events[graph->of[thread][i]]);
        }
    }
    (void)fclose(text);
}

/* --- the runs --- */

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
    story_write(&run.graph, result->story, sizeof result->story);
}

/* All threads have ended: is this an execution, and what does it show? */
static void run_judge(bool cut, bool waits_for_ever)
{
    const struct graph *graph = &run.graph;
    const char *race;

    if ((graph->late > 0 || axioms_need_sc(graph)) && !axioms_hold(graph)) {
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
    run_push(&run.graph);
}

void model_explore(const struct model_scenario *scenario, struct model_result *ret_result)
{
    begin(scenario, ret_result);
    while (!ret_result->found && !ret_result->stopped && run_take(&run.origin)) {
        graph_copy(&run.graph, &run.origin);
        while (run_once() && run.origin.restarts++ < RESTARTS_MAX) {
            graph_recompute(&run.origin);
            graph_copy(&run.graph, &run.origin);
        }
        ret_result->stopped = scenario->runs_max > 0 && ret_result->runs >= scenario->runs_max;
    }
    run_forget();
}
