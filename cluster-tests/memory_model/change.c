/*
 * change.c - see change.h.
 *
 * The happy path, for a load that the store does not depend on: what was added after the load is
 * taken away, but for what the store needs, and the load reads from the store. That is done only if
 * all that is taken away, and the load, were as new as they could be, since then the same execution
 * is found in no other way (TruSt, see explore.c).
 *
 * A load that the store depends on, but that does not happen before it, may read from it too: C11
 * allows that, and processors do it that let a load wait while later stores go ahead. Such a late
 * load is changed in place: of the graph is kept what the store needs. The threads are run again,
 * and must come to the same store with the load's new value; else it was no execution. What is in
 * such a graph is fixed, so that it is a beginning like the empty graph.
 *
 * Thread: one.
 */
#include "cluster-tests/memory_model/change.h"

#include "src/base/assert.h"
#include "cluster-tests/memory_model/axioms.h"
#include "cluster-tests/memory_model/run.h"

/* Was an event there before another one, or does the store need it? */
static bool previous(const struct event *event, const struct event *than, const struct event *store)
{
    return event->stamp <= than->stamp || clock_has(&store->cause, event);
}

/* Does one of the previous loads read from it? */
static bool is_read(const struct graph *graph, int number, const struct event *store)
{
    const struct event *event = &graph->events[number];

    for (int i = 0; i < graph->count; i++) {
        const struct event *load = &graph->events[i];

        if (load->kind == EVENT_LOAD && load->from == number && previous(load, event, store)) {
            return true;
        }
    }
    return false;
}

/* Is an event as new as it can be among the previous ones: a load reads from the newest store, a
 * store is the newest, and read by nobody? */
static bool is_newest(const struct graph *graph, int number, const struct event *store)
{
    const struct event *event = &graph->events[number];
    const struct order_list *list = &graph->order[event->location];
    int place = event->place;

    ASSERT(store->kind == EVENT_STORE);
    if (event->kind == EVENT_FENCE) {
        return true;
    }
    if (event->kind == EVENT_LOAD) {
        place = graph_place_read(graph, event);
        if (event->spurious ||
            (place >= 0 && !previous(&graph->events[event->from], event, store))) {
            return false;
        }
    } else if (is_read(graph, number, store)) {
        return false;
    }
    for (int i = place + 1; i < list->count; i++) {
        if (previous(&graph->events[list->stores[i]], event, store)) {
            return false;
        }
    }
    return true;
}

/* The places that a store may have: from *ret_first on, and before *ret_end. */
static void places_of(const struct graph *graph, const struct event *store, int *ret_first,
                      int *ret_end)
{
    ASSERT(store->kind == EVENT_STORE && store->place == GRAPH_UNPLACED);
    if (store->exclusive) {
        int load = graph->of[store->thread][store->index - 1];

        *ret_first = graph_place_read(graph, &graph->events[load]) + 1;
        *ret_end = *ret_first + 1;
        return;
    }
    *ret_first = graph_bound(graph, store->location, &store->before) + 1;
    *ret_end = graph->order[store->location].count + 1;
}

/* --- loads that the store does not depend on --- */

/* The load reads from the store, which stands at this place. */
static void push_changed(const struct graph *kept, const struct event *load, int store, int place)
{
    static struct graph graph;
    struct clock_vector known;
    struct event changed = *load;
    int number;

    graph_copy(&graph, kept);
    graph_place(&graph, store, place);
    known = graph_known(&graph, load->thread);
    if (place < graph_bound(&graph, load->location, &known)) {
        return;
    }
    changed.from = (int16_t)store;
    changed.spurious = false;
    number = graph_append(&graph, &changed);
    run_push(&graph);
    if (load->weak && graph.spurious < run.scenario->spurious_max &&
        graph_stores(&graph, &graph.events[number])) {
        graph.events[number].spurious = true;
        graph.spurious++;
        graph_recompute(&graph);
        run_push(&graph);
    }
}

static uint8_t spurious_of(const struct graph *graph)
{
    unsigned count = 0;

    for (int i = 0; i < graph->count; i++) {
        count += graph->events[i].spurious;
    }
    return (uint8_t)count;
}

static void change_load(const struct graph *graph, int load, int store)
{
    static struct graph kept;
    bool keep[GRAPH_EVENTS];
    int16_t numbers[GRAPH_EVENTS];
    const struct event *changed = &graph->events[load];
    struct event added = graph->events[store];
    int first;
    int end;
    int number;

    for (int i = 0; i < graph->count; i++) {
        keep[i] = i != store && previous(&graph->events[i], changed, &added);
        if (((!keep[i] && i != store) || i == load) && !run.scenario->all_changes &&
            !is_newest(graph, i, &added)) {
            return;
        }
        if (graph->events[i].kind == EVENT_LOAD && keep[i] && i != load &&
            graph->events[i].from != GRAPH_INITIAL && graph->events[i].from != store &&
            !previous(&graph->events[graph->events[i].from], changed, &added)) {
            return; /* it would lose what it read; found in another way */
        }
    }
    graph_keep(&kept, graph, keep, load, numbers);
    kept.spurious = spurious_of(&kept);
    number = graph_append(&kept, &added);
    places_of(&kept, &kept.events[number], &first, &end);
    for (int place = first; place < end; place++) {
        if (!graph_place_is_taken(&kept, added.location, place)) {
            push_changed(&kept, changed, number, place);
        }
    }
}

/* --- loads that it depends on --- */

/* Stores that are to stand right behind another one. */
struct chain {
    int16_t stores[GRAPH_STORES];
    unsigned count;
};

/* Take a read-modify-write's store, and those that are chained to it, out of the order. */
static void chain_take(struct graph *graph, int store, struct chain *ret_chain)
{
    struct order_list *list = &graph->order[graph->events[store].location];
    unsigned place = (unsigned)graph->events[store].place;
    unsigned count = 0;

    ASSERT(list->stores[place] == store);
    do {
        ret_chain->stores[count] = list->stores[place + count];
        count++;
    } while (place + count < list->count && graph->events[list->stores[place + count]].exclusive);
    for (unsigned i = place; i + count < list->count; i++) {
        list->stores[i] = list->stores[i + count];
        graph->events[list->stores[i]].place = (int16_t)i;
    }
    list->count = (uint8_t)(list->count - count);
    ret_chain->count = count;
}

/* The store of a load that belongs to a read-modify-write, GRAPH_INITIAL if there is none. */
static int store_of(const struct graph *graph, const struct event *load)
{
    int number;

    if ((!load->exclusive && !load->compares) ||
        load->index + 1 >= graph->thread_count[load->thread]) {
        return GRAPH_INITIAL;
    }
    number = graph->of[load->thread][load->index + 1];
    return graph->events[number].kind == EVENT_STORE && graph->events[number].exclusive
               ? number
               : GRAPH_INITIAL;
}

static bool chain_has(const struct chain *chain, int store)
{
    for (unsigned i = 0; i < chain->count; i++) {
        if (chain->stores[i] == store) {
            return true;
        }
    }
    return false;
}

/* Quickly: coherence of the load, were it to read from a store at this place. */
static bool late_fits(const struct graph *kept, int load, int place, const struct chain *chain)
{
    const struct event *changed = &kept->events[load];

    for (int i = 0; i < kept->count; i++) {
        const struct event *event = &kept->events[i];
        int at = event->kind == EVENT_STORE ? event->place : graph_place_read(kept, event);

        if (event->kind == EVENT_FENCE || event->location != changed->location || i == load ||
            at == GRAPH_UNPLACED ||
            chain_has(chain, event->kind == EVENT_STORE ? i : event->from)) {
            continue;
        }
        if ((clock_has(&event->before, changed) && at < place) ||
            (clock_has(&changed->before, event) && at >= place)) {
            return false;
        }
    }
    return true;
}

/* Quickly: would the load, if it acquires what the store releases, undo what led from it to the
 * store? */
static bool late_undoes(const struct graph *kept, int load, int store)
{
    const struct event *changed = &kept->events[load];
    const struct event *added = &kept->events[store];

    if (changed->compares || !order_acquires(changed->order) || !order_releases(added->order)) {
        return false;
    }
    for (int i = 0; i < kept->count; i++) {
        const struct event *event = &kept->events[i];

        if (event->kind == EVENT_LOAD && event->from != GRAPH_INITIAL &&
            clock_has(&added->before, event) &&
            clock_has(&kept->events[event->from].before, changed)) {
            return true;
        }
    }
    return false;
}

static void push_late(const struct graph *kept, int load, int store, int place,
                      const struct chain *chain)
{
    static struct graph graph;

    ASSERT(clock_has(&kept->events[store].cause, &kept->events[load]));
    graph_copy(&graph, kept);
    graph_place(&graph, store, place);
    for (unsigned i = 0; i < chain->count; i++) {
        graph_place(&graph, chain->stores[i], place + 1 + (int)i);
    }
    graph.events[load].from = (int16_t)store;
    graph.base = graph.next_stamp;
    graph.late++;
    graph_recompute(&graph);
    if (run_is_new(&graph) && axioms_hold(&graph)) {
        run_push(&graph);
    }
}

static void change_late(const struct graph *graph, int load, int store)
{
    static struct graph kept;
    bool keep[GRAPH_EVENTS];
    int16_t numbers[GRAPH_EVENTS];
    struct chain chain = {.count = 0};
    struct event added = graph->events[store];
    int first;
    int end;
    int number;
    int own;

    for (int i = 0; i < graph->count; i++) {
        const struct event *event = &graph->events[i];

        keep[i] = i != store &&
                  (clock_has(&added.cause, event) ||
                   (event->stamp < graph->base && !clock_has(&event->cause, &graph->events[load])));
    }
    graph_keep(&kept, graph, keep, GRAPH_INITIAL, numbers);
    number = graph_append(&kept, &added);
    own = store_of(&kept, &kept.events[numbers[load]]);
    if (own != GRAPH_INITIAL) {
        chain_take(&kept, own, &chain);
    }
    if (late_undoes(&kept, numbers[load], number)) {
        return;
    }
    places_of(&kept, &kept.events[number], &first, &end);
    for (int place = first; place < end && place <= kept.order[added.location].count; place++) {
        if (!graph_place_is_taken(&kept, added.location, place) &&
            late_fits(&kept, numbers[load], place, &chain)) {
            push_late(&kept, numbers[load], number, place, &chain);
        }
    }
}

void change_loads(const struct graph *graph, int store)
{
    const struct event *added = &graph->events[store];

    ASSERT(store == graph->count - 1 && added->place == GRAPH_UNPLACED);
    for (int i = 0; i < store; i++) {
        const struct event *load = &graph->events[i];

        if (load->kind != EVENT_LOAD || load->location != added->location ||
            load->thread == added->thread) {
            continue;
        }
        if (!clock_has(&added->cause, load)) {
            if (load->stamp >= graph->base) {
                change_load(graph, i, store);
            }
        } else if (graph->late < run.scenario->late_max && !clock_has(&added->before, load)) {
            change_late(graph, i, store);
        }
    }
}
