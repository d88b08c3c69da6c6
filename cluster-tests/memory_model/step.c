/*
 * step.c - the operations of the code under test: what the graph says of them, or, where it ends,
 * each possibility.
 *
 * The happy path of a load that is new: coherence bounds how old the store may be that it reads;
 * it goes on with the newest, and the others are pushed. Of a store: its place in the modification
 * order is the last, other places are pushed; and before that, executions in which loads that are
 * there read from it (change.c).
 *
 * Failure modes: a thread of too many events is left (RUN_CUT). Thread: one.
 */
#include <stdatomic.h>
#include <string.h>

#include "src/base/assert.h"
#include "cluster-tests/memory_model/change.h"
#include "cluster-tests/memory_model/ops.h"
#include "cluster-tests/memory_model/plain.h"
#include "cluster-tests/memory_model/run.h"

static struct model_site *sites;

struct model_site *model_sites(void)
{
    return sites;
}

static void site_use(struct model_site *site, int order, int failure)
{
    static struct model_site **last = &sites;

    if (site->known) {
        return;
    }
    site->known = true;
    site->order = order;
    site->failure = failure;
    *last = site;
    last = &site->next;
}

static uint8_t order_of(const struct model_site *site, int order)
{
    return (uint8_t)(site->weak_order >= 0 ? site->weak_order : order);
}

/* The number of a location, GRAPH_LOCATIONS if it has none yet. */
static unsigned location_find(const volatile void *at, size_t bytes)
{
    for (unsigned i = 0; i < run.locations; i++) {
        if (run.at[i] == (uintptr_t)at) {
            ASSERT(run.bytes[i] == bytes);
            return i;
        }
    }
    return GRAPH_LOCATIONS;
}

/* The same, and one that is new: what its memory holds when it is first touched is its initial
 * value. */
static uint8_t location_of(const volatile void *at, size_t bytes)
{
    unsigned location = location_find(at, bytes);

    if (location == GRAPH_LOCATIONS) {
        location = run.locations++;
        ASSERT(location < GRAPH_LOCATIONS && bytes <= sizeof(uint64_t));
        run.at[location] = (uintptr_t)at;
        run.bytes[location] = bytes;
        run.initial[location] = 0;
        memcpy(&run.initial[location], (const void *)(uintptr_t)at, bytes); /* little-endian */
    }
    return (uint8_t)location;
}

static uint64_t cut_to(size_t bytes, uint64_t value)
{
    return bytes == sizeof value ? value : value & ((UINT64_C(1) << 8 * bytes) - 1);
}

/* The next event of the thread that runs, if the graph has it; else NULL. */
static struct event *event_known(void)
{
    unsigned index = run.next[run.thread]++;

    if (index < run.graph.thread_count[run.thread]) {
        return &run.graph.events[run.graph.of[run.thread][index]];
    }
    if (run.failed) {
        run_leave(RUN_FAILED); /* only to see whether the others do what the graph says */
    }
    if (run.graph.count >= GRAPH_EVENTS - 2 || index + 2 >= GRAPH_THREAD_EVENTS ||
        (run.scenario->events_max > 0 && index >= run.scenario->events_max && run.thread != 0 &&
         run.thread != GRAPH_LAST)) {
        run_leave(RUN_CUT);
    }
    return NULL;
}

/* The program does something else than what the graph says: a load that reads from a store that
 * depends on it has another value now, and so this is no execution. */
static _Noreturn void differs(void)
{
    ASSERT(run.graph.late > 0);
    run_leave(RUN_DROPPED);
}

static void must_match(const struct event *known, const struct event *event)
{
    if (known->kind != event->kind || known->location != event->location ||
        known->order != event->order || known->exclusive != event->exclusive ||
        known->compares != event->compares ||
        (event->compares && known->expected != event->expected)) {
        differs();
    }
}

/* --- loads --- */

/* Go on later with the same load reading from another store. */
static void push_load(const struct event *event, int from, bool spurious)
{
    static struct graph graph;
    struct event other = *event;

    graph_copy(&graph, &run.graph);
    other.from = (int16_t)from;
    other.spurious = spurious;
    graph.spurious = (uint8_t)(graph.spurious + spurious);
    (void)graph_append(&graph, &other);
    run_push(&graph);
}

/* May this compare-and-swap fail although it finds what it expects? */
static bool may_fail(const struct event *event, int from)
{
    struct event load = *event;

    load.from = (int16_t)from;
    return event->weak && run.graph.spurious < run.scenario->spurious_max &&
           graph_stores(&run.graph, &load);
}

static struct event *load_new(struct event *event)
{
    struct clock_vector known = graph_known(&run.graph, run.thread);
    const struct order_list *list = &run.graph.order[event->location];
    int bound = graph_bound(&run.graph, event->location, &known);
    int last = list->count - 1;

    for (int place = bound; place <= last; place++) {
        int from = place < 0 ? GRAPH_INITIAL : list->stores[place];

        if (place < last) {
            push_load(event, from, false);
        }
        if (may_fail(event, from)) {
            push_load(event, from, true);
        }
    }
    event->from = last < 0 ? GRAPH_INITIAL : list->stores[last];
    return &run.graph.events[graph_append(&run.graph, event)];
}

static struct event *load_step(struct event *event)
{
    struct event *known = event_known();

    if (known == NULL) {
        return load_new(event);
    }
    must_match(known, event);
    return known;
}

/* --- stores --- */

static void store_place(int store)
{
    static struct graph graph;
    struct event *event = &run.graph.events[store];
    unsigned location = event->location;
    int last = run.graph.order[location].count;
    int bound;

    ASSERT(event->kind == EVENT_STORE && event->place == GRAPH_UNPLACED);
    if (event->exclusive) {
        const struct event *load = &run.graph.events[run.graph.of[event->thread][event->index - 1]];

        ASSERT(load->kind == EVENT_LOAD && load->location == location);
        last = graph_place_read(&run.graph, load) + 1;
        if (graph_place_is_taken(&run.graph, location, last)) {
            run_leave(RUN_DROPPED); /* another one has taken that value */
        }
        graph_place(&run.graph, store, last);
        return;
    }
    bound = graph_bound(&run.graph, location, &event->before) + 1;
    for (int place = bound; place < last; place++) {
        if (!graph_place_is_taken(&run.graph, location, place)) {
            graph_copy(&graph, &run.graph);
            graph_place(&graph, store, place);
            run_push(&graph);
        }
    }
    graph_place(&run.graph, store, last);
}

/* A store has another value than the graph says: that is right if a late load is the reason. Who
 * read it has to read again. */
static void store_changed(struct event *known, uint64_t value)
{
    ASSERT(run.graph.late > 0);
    run.origin.events[known - run.graph.events].value = value;
    run_leave(RUN_AGAIN);
}

static void store_step(struct event *event)
{
    struct event *known = event_known();
    int store;

    if (known != NULL) {
        must_match(known, event);
        if (known->value != event->value) {
            store_changed(known, event->value);
        }
        return;
    }
    event->place = GRAPH_UNPLACED;
    store = graph_append(&run.graph, event);
    change_loads(&run.graph, store);
    store_place(store);
}

/* --- the operations --- */

/* The next event of the thread that runs; a fence's location counts for nothing. */
static struct event event_new(const struct model_site *site, enum event_kind kind, uint8_t location,
                              uint8_t order)
{
    struct event event;

    memset(&event, 0, sizeof event); /* with the bytes between the fields: events are compared */
    event.site = site;
    event.kind = (uint8_t)kind;
    event.thread = (uint8_t)run.thread;
    event.location = location;
    event.order = order;
    return event;
}

static struct event event_at(struct model_site *site, enum event_kind kind, const volatile void *at,
                             size_t bytes, int order)
{
    ASSERT(order != memory_order_consume);
    plain_atomic((uintptr_t)at, bytes, run.next[run.thread], false);
    return event_new(site, kind, location_of(at, bytes), order_of(site, order));
}

/* Has the set-up used the location before? */
static bool was_touched(unsigned location)
{
    for (unsigned i = 0; i < run.next[0]; i++) {
        const struct event *event = &run.graph.events[run.graph.of[0][i]];

        if (event->kind != EVENT_FENCE && event->location == location) {
            return true;
        }
    }
    return false;
}

void model_init(const volatile void *at, size_t bytes, uint64_t value)
{
    static struct model_site init = {.func = "", .what = "init", .place = "", .weak_order = -1};
    unsigned location = location_find(at, bytes);
    struct event event;

    if (run.thread == 0 && !was_touched(location)) {
        value = cut_to(bytes, value);
        (void)model_copy((void *)(uintptr_t)at, &value, bytes);
        ASSERT(location == GRAPH_LOCATIONS || run.initial[location] == value);
        return;
    }
    event = event_new(&init, EVENT_STORE, location_of(at, bytes), memory_order_relaxed);
    event.value = cut_to(bytes, value);
    plain_atomic((uintptr_t)at, bytes, run.next[run.thread], true);
    store_step(&event);
}

uint64_t model_load(struct model_site *site, const volatile void *at, size_t bytes, int order)
{
    struct event event;

    site_use(site, order, -1);
    event = event_at(site, EVENT_LOAD, at, bytes, order);
    return graph_value(&run.graph, load_step(&event));
}

uint64_t model_await(struct model_site *site, const volatile void *at, size_t bytes, bool may_stay)
{
    struct event event;
    uint64_t value;

    site_use(site, memory_order_acquire, -1);
    event = event_at(site, EVENT_LOAD, at, bytes, memory_order_acquire);
    event.waits = true;
    event.may_stay = may_stay;
    value = graph_value(&run.graph, load_step(&event));
    if (value == 0) {
        run_leave(RUN_WAITS);
    }
    return value;
}

void model_store(struct model_site *site, const volatile void *at, size_t bytes, uint64_t value,
                 int order)
{
    struct event event;

    site_use(site, order, -1);
    event = event_at(site, EVENT_STORE, at, bytes, order);
    event.value = cut_to(bytes, value);
    store_step(&event);
}

/* The second half of a read-modify-write. */
static void store_exclusive(struct model_site *site, const struct event *load, size_t bytes,
                            uint64_t value)
{
    struct event event = event_new(site, EVENT_STORE, load->location, load->order);

    ASSERT(load->kind == EVENT_LOAD);
    event.exclusive = true;
    event.value = cut_to(bytes, value);
    store_step(&event);
}

uint64_t model_modify(struct model_site *site, const volatile void *at, size_t bytes,
                      enum model_change change, uint64_t value, int order)
{
    struct event event;
    struct event *load;
    uint64_t old;

    site_use(site, order, -1);
    event = event_at(site, EVENT_LOAD, at, bytes, order);
    event.exclusive = true;
    load = load_step(&event);
    old = graph_value(&run.graph, load);
    switch (change) {
    case MODEL_EXCHANGE:
        break;
    case MODEL_ADD:
        value = old + value;
        break;
    case MODEL_SUB:
        value = old - value;
        break;
    case MODEL_OR:
        value = old | value;
        break;
    }
    store_exclusive(site, load, bytes, value);
    return old;
}

bool model_compare(struct model_site *site, const volatile void *at, size_t bytes,
                   struct model_swap *swap)
{
    struct event event;
    struct event *load;
    bool stores;

    site_use(site, swap->order, swap->failure);
    event = event_at(site, EVENT_LOAD, at, bytes, swap->order);
    event.compares = true;
    event.expected = cut_to(bytes, swap->expected);
    event.failure = (uint8_t)(site->weak_failure >= 0 ? site->weak_failure : swap->failure);
    event.weak = swap->weak;
    load = load_step(&event);
    stores = graph_stores(&run.graph, load);
    swap->expected = graph_value(&run.graph, load);
    if (stores) {
        store_exclusive(site, load, bytes, swap->desired);
    }
    return stores;
}

void model_fence(struct model_site *site, int order)
{
    struct event event = event_new(site, EVENT_FENCE, 0, order_of(site, order));
    struct event *known;

    site_use(site, order, -1);
    known = event_known();
    if (known != NULL) {
        must_match(known, &event);
    } else {
        (void)graph_append(&run.graph, &event);
    }
}

void model_assert_failed(const char *expression, const char *file, int line, const char *func)
{
    (void)func;
    model_fail(expression, file, line);
}
