/*
 * sim_world.c - see sim_world.h. Thread: one.
 */
#include "raft/sim/sim_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/assert.h"

void sim_trace(const struct sim_world *world, const char *format, ...)
{
    va_list args;

    if (!world->verbose) {
        return;
    }
    printf("%8llu  ", (unsigned long long)world->now_ms);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(const struct sim_world *world, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "seed %llu at %llu ms: ", (unsigned long long)world->seed,
            (unsigned long long)world->now_ms);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n  replay it: make sim SEED=%llu%s\n", (unsigned long long)world->seed,
            world->store_dir != NULL ? " STORE=lmdb" : "");
    fflush(stderr);
    _Exit(1);
}

void sim_note(struct sim_world *world, uint64_t what)
{
    world->stats.trace = (world->stats.trace ^ what) * 0x9e3779b97f4a7c15ULL;
    world->stats.trace ^= world->stats.trace >> 29;
}

uint64_t sim_below(struct sim_world *world, uint64_t bound)
{
    return prng_below(&world->prng, bound);
}

bool sim_percent(struct sim_world *world, unsigned percent)
{
    return sim_below(world, 100) < percent;
}

/* --- a binary heap of events --- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order);
}

void sim_schedule(struct sim_world *world, struct sim_event event)
{
    size_t i = world->heap_count++;

    if (world->heap_count > world->heap_capacity) {
        world->heap_capacity = world->heap_capacity ? world->heap_capacity * 2 : 256;
        world->heap = realloc(world->heap, world->heap_capacity * sizeof *world->heap);
        ASSERT(world->heap != NULL);
    }
    event.order = world->order++;
    while (i > 0 && before(&event, &world->heap[(i - 1) / 2])) {
        world->heap[i] = world->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    world->heap[i] = event;
}

struct sim_event sim_next_event(struct sim_world *world)
{
    struct sim_event first = world->heap[0];
    struct sim_event last = world->heap[--world->heap_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count && before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (!before(&world->heap[child], &last)) {
            break;
        }
        world->heap[i] = world->heap[child];
        i = child;
    }
    if (world->heap_count > 0) {
        world->heap[i] = last;
    }
    return first;
}

/* --- nodes --- */

void sim_turn(struct sim_node *node)
{
    node->world->hooks->turn(node);
}

bool sim_is_quiet(const struct sim_world *world)
{
    return world->now_ms < world->quiet_until_ms;
}

bool sim_node_runs(const struct sim_node *node)
{
    return node->up && node->world->now_ms >= node->paused_until_ms;
}

bool sim_reaches(const struct sim_node *from, const struct sim_node *to)
{
    return to->up && !from->world->cut[from->id - 1][to->id - 1] &&
           !from->world->cut[to->id - 1][from->id - 1];
}
