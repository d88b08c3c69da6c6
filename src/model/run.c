/*
 * run.c - see run.h. Thread: one.
 */
#include "src/model/run.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

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

static void seen_put(uint64_t hash)
{
    size_t at = hash & (seen.capacity - 1);

    ASSERT(hash != 0 && seen.count < seen.capacity);
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
    stack.items = array_room(stack.items, stack.count, &stack.capacity, sizeof *stack.items);
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

void run_forget(void)
{
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
