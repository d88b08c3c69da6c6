/*
 * graph.c - see graph.h. Thread: one.
 */
#include "cluster-tests/memory_model/graph.h"

#include <stdatomic.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

void graph_clear(struct graph *graph, const uint64_t *initial)
{
    memset(graph, 0, offsetof(struct graph, events));
    graph->initial = initial;
    graph->next_stamp = 1;
}

size_t graph_bytes(const struct graph *graph)
{
    return offsetof(struct graph, events) + (size_t)graph->count * sizeof graph->events[0];
}

void graph_copy(struct graph *to, const struct graph *from)
{
    memcpy((void *)to, from, graph_bytes(from));
}

const char *order_name(int order)
{
    static const char *const names[] = {
        [memory_order_relaxed] = "relaxed", [memory_order_consume] = "consume",
        [memory_order_acquire] = "acquire", [memory_order_release] = "release",
        [memory_order_acq_rel] = "acq_rel", [memory_order_seq_cst] = "seq_cst",
    };

    ASSERT(order < (int)(sizeof names / sizeof names[0]));
    return order < 0 ? "" : names[order];
}

bool order_acquires(int order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

bool order_releases(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

uint64_t graph_value(const struct graph *graph, const struct event *load)
{
    ASSERT(load->kind == EVENT_LOAD);
    return load->from == GRAPH_INITIAL ? graph->initial[load->location]
                                       : graph->events[load->from].value;
}

bool graph_stores(const struct graph *graph, const struct event *load)
{
    if (!load->compares) {
        return load->exclusive;
    }
    return !load->spurious && graph_value(graph, load) == load->expected;
}

int graph_order(const struct graph *graph, const struct event *event)
{
    if (event->kind == EVENT_LOAD && event->compares && !graph_stores(graph, event)) {
        return event->failure;
    }
    return event->order;
}

static void join(struct clock_vector *clock, const struct clock_vector *other)
{
    for (unsigned i = 0; i < GRAPH_THREADS; i++) {
        if (other->of[i] > clock->of[i]) {
            clock->of[i] = other->of[i];
        }
    }
}

/* An event knows itself; more than that of its own thread, if it depends on what comes later. */
static void know(struct clock_vector *clock, const struct event *event)
{
    if (clock->of[event->thread] <= event->index) {
        clock->of[event->thread] = (uint8_t)(event->index + 1);
    }
}

/* What a thread knows before its first event. */
static struct clock_vector start_of(const struct graph *graph, unsigned thread, bool cause)
{
    struct clock_vector clock = {{0}};
    unsigned begin = thread == GRAPH_LAST ? GRAPH_LAST : 1;

    for (unsigned i = 0; i < begin && thread > 0; i++) {
        unsigned count = graph->thread_count[i];

        if (count > 0) {
            const struct event *last = &graph->events[graph->of[i][count - 1]];

            join(&clock, cause ? &last->cause : &last->before);
        }
    }
    return clock;
}

struct clock_vector graph_known(const struct graph *graph, unsigned thread)
{
    unsigned count = graph->thread_count[thread];

    return count > 0 ? graph->events[graph->of[thread][count - 1]].before
                     : start_of(graph, thread, false);
}

/* What a store offers: its own release, or that of the fence before it; and the release sequence
 * that it goes on with. As in C++20 and later, only a read-modify-write goes on with one; C11 also
 * lets the same thread's later stores, and so promises more. */
static void offer_of(struct graph *graph, struct event *event)
{
    event->offer = order_releases(event->order) ? event->before : event->fenced;
    if (event->exclusive) {
        const struct event *load = &graph->events[graph->of[event->thread][event->index - 1]];

        ASSERT(load->kind == EVENT_LOAD && load->location == event->location);
        if (load->from != GRAPH_INITIAL) {
            join(&event->offer, &graph->events[load->from].offer);
        }
    }
}

/* Compute the clocks of an event from those it depends on; true if anything changed. */
static bool clocks_of(struct graph *graph, int number)
{
    struct event *event = &graph->events[number];
    struct event old = *event;
    int order = graph_order(graph, event);

    if (event->index > 0) {
        const struct event *last = &graph->events[graph->of[event->thread][event->index - 1]];

        event->before = last->before;
        event->cause = last->cause;
        event->pend = last->pend;
        event->fenced = last->fenced;
    } else {
        event->before = start_of(graph, event->thread, false);
        event->cause = start_of(graph, event->thread, true);
        memset(&event->pend, 0, sizeof event->pend);
        memset(&event->fenced, 0, sizeof event->fenced);
    }
    know(&event->before, event);
    know(&event->cause, event);
    if (event->kind == EVENT_LOAD && event->from != GRAPH_INITIAL) {
        const struct event *store = &graph->events[event->from];

        join(&event->cause, &store->cause);
        join(order_acquires(order) ? &event->before : &event->pend, &store->offer);
    }
    if (event->kind == EVENT_FENCE && order_acquires(order)) {
        join(&event->before, &event->pend);
    }
    if (event->kind == EVENT_FENCE && order_releases(order)) {
        event->fenced = event->before;
    }
    if (event->kind == EVENT_STORE) {
        offer_of(graph, event);
    }
    return memcmp(&old, event, sizeof old) != 0;
}

int graph_append(struct graph *graph, const struct event *event)
{
    int number = graph->count;
    unsigned index = graph->thread_count[event->thread];
    struct event *added;

    ASSERT(number < GRAPH_EVENTS && index < GRAPH_THREAD_EVENTS);
    graph->count++;
    added = &graph->events[number];
    *added = *event;
    added->index = (uint8_t)index;
    graph->of[event->thread][index] = (int16_t)number;
    graph->thread_count[event->thread]++;
    if (added->stamp == 0) {
        added->stamp = graph->next_stamp++;
    }
    if (event->kind != EVENT_FENCE && event->location >= graph->locations) {
        graph->locations = (uint8_t)(event->location + 1);
    }
    (void)clocks_of(graph, number);
    return number;
}

void graph_place(struct graph *graph, int store, int place)
{
    struct order_list *list = &graph->order[graph->events[store].location];

    ASSERT(place >= 0 && place <= list->count && list->count < GRAPH_STORES);
    for (int i = list->count; i > place; i--) {
        list->stores[i] = list->stores[i - 1];
        graph->events[list->stores[i]].place = (int16_t)i;
    }
    list->stores[place] = (int16_t)store;
    list->count++;
    graph->events[store].place = (int16_t)place;
}

void graph_recompute(struct graph *graph)
{
    bool changed = true;

    for (int i = 0; i < graph->count; i++) {
        struct event *event = &graph->events[i];

        memset(&event->before, 0, sizeof *event - offsetof(struct event, before)); /* all clocks */
    }
    while (changed) {
        changed = false;
        for (int i = 0; i < graph->count; i++) {
            changed |= clocks_of(graph, i);
        }
    }
}

int graph_bound(const struct graph *graph, unsigned location, const struct clock_vector *known)
{
    int bound = GRAPH_INITIAL;

    for (int i = 0; i < graph->count; i++) {
        const struct event *event = &graph->events[i];
        int place;

        if (event->location != location || event->kind == EVENT_FENCE || !clock_has(known, event)) {
            continue;
        }
        place = event->kind == EVENT_STORE ? event->place : graph_place_read(graph, event);
        bound = place > bound ? place : bound;
    }
    return bound;
}

void graph_keep(struct graph *to, const struct graph *from, const bool *keep, int apart,
                int16_t *ret_new)
{
    ASSERT(to != from);
    memcpy((void *)to, from, offsetof(struct graph, thread_count));
    memset(to->thread_count, 0,
           offsetof(struct graph, events) - offsetof(struct graph, thread_count));
    to->count = 0;
    for (int i = 0; i < from->count; i++) {
        ret_new[i] = keep[i] && i != apart ? to->count++ : GRAPH_INITIAL;
    }
    for (int i = 0; i < from->count; i++) {
        const struct event *event = &from->events[i];
        struct event *copy;

        if (ret_new[i] == GRAPH_INITIAL) {
            continue;
        }
        copy = &to->events[ret_new[i]];
        *copy = *event;
        to->of[event->thread][event->index] = ret_new[i];
        to->thread_count[event->thread]++;
        if (event->kind == EVENT_LOAD && event->from != GRAPH_INITIAL) {
            copy->from = ret_new[event->from];
            ASSERT(copy->from != GRAPH_INITIAL);
        }
    }
    for (unsigned i = 0; i < from->locations; i++) {
        for (unsigned j = 0; j < from->order[i].count; j++) {
            int16_t number = ret_new[from->order[i].stores[j]];

            if (number != GRAPH_INITIAL) {
                graph_place(to, number, to->order[i].count);
            }
        }
    }
}

uint64_t graph_hash(const struct graph *graph)
{
    uint64_t hash = 0;

    for (unsigned thread = 0; thread < GRAPH_THREADS; thread++) {
        for (unsigned i = 0; i < graph->thread_count[thread]; i++) {
            const struct event *event = &graph->events[graph->of[thread][i]];
            uint64_t words[4] = {(uint64_t)event->kind << 48 | (uint64_t)event->location << 32 |
                                     (uint64_t)event->spurious << 16 | thread,
                                 event->value, UINT64_MAX, hash};

            if (event->kind == EVENT_LOAD && event->from != GRAPH_INITIAL) {
                const struct event *store = &graph->events[event->from];

                words[2] = (uint64_t)store->thread << 32 | store->index;
            } else if (event->kind == EVENT_STORE) {
                words[2] = (uint64_t)event->place;
            }
            hash = hash_bytes(words, sizeof words, 0);
        }
    }
    return hash;
}
