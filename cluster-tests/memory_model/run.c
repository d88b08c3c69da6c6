/*
 * run.c - see run.h. Thread: one.
 */
#include "cluster-tests/memory_model/run.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

struct run run;

/* The stack of executions. */
static struct {
    struct graph **items;
    size_t count;
    size_t capacity;
} stack;

/* Of executions that were pushed: a tree whose keys are no pointers, but the hashes themselves. */
static void *seen;

void run_leave(enum run_leave how)
{
    longjmp(run.leave, (int)how);
}

static int by_hash(const void *a, const void *b)
{
    return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

static bool hash_is_new(uint64_t hash)
{
    const void *key = (const void *)(uintptr_t)hash;

    if (tfind(key, &seen, by_hash) != NULL) {
        return false;
    }
    ASSERT(tsearch(key, &seen, by_hash) != NULL);
    return true;
}

bool run_is_new(const struct graph *graph)
{
    return hash_is_new(graph_hash(graph));
}

void run_push(const struct graph *graph)
{
    size_t bytes = graph_bytes(graph);
    struct graph *copy;

    if (run.scenario->all_changes) {
        uint64_t hash = graph_hash(graph);

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
    copy = malloc(bytes);
    ASSERT(copy != NULL);
    memcpy((void *)copy, graph, bytes);
    /* Not by array_room(), whose accesses of memory are those of the code under test. */
    if (stack.count == stack.capacity) {
        stack.capacity = stack.capacity > 0 ? 2 * stack.capacity : 64;
        stack.items = MUST_HAVE(reallocarray(stack.items, stack.capacity, sizeof(struct graph *)));
    }
    stack.items[stack.count++] = copy;
}

bool run_take(struct graph *ret_graph)
{
    struct graph *graph;

    if (stack.count == 0) {
        return false;
    }
    graph = stack.items[--stack.count];
    graph_copy(ret_graph, graph);
    free(graph);
    return true;
}

static void nothing(void *key)
{
    (void)key;
}

void run_forget(void)
{
    while (stack.count > 0) {
        free(stack.items[--stack.count]);
    }
    free(stack.items);
    memset(&stack, 0, sizeof stack);
    tdestroy(seen, nothing);
    seen = NULL;
}

void model_fail(const char *what, const char *file, int line)
{
    if (!run.failed) {
        run.failed = true;
        snprintf(run.what, sizeof run.what, "%s:%d: %s", file, line, what);
    }
    run_leave(RUN_FAILED);
}
