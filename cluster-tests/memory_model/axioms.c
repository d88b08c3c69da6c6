/*
 * axioms.c - see axioms.h: RC11's axioms over matrices of bits. Thread: one.
 */
#include "cluster-tests/memory_model/axioms.h"

#include <stdatomic.h>
#include <string.h>

#include "src/base/assert.h"

/* Events, and behind them the initial value of each location as a store. */
#define NODES (GRAPH_EVENTS + GRAPH_LOCATIONS)
#define WORDS ((NODES + 63) / 64)

struct relation {
    uint64_t row[NODES][WORDS];
};

/* What is computed of one graph. Static: too large for a stack. */
static struct {
    const struct graph *graph;
    unsigned nodes;
    unsigned words;
    struct relation sb;  /* sequenced before, with the set-up and the join */
    struct relation rf;  /* store to the load that reads it */
    struct relation mo;  /* modification order */
    struct relation rb;  /* load to the stores behind the one it read */
    struct relation eco; /* closure of these three */
    struct relation hb;
    struct relation scb;
    struct relation psc;
    struct relation scratch[2];
} ax;

static bool has(const struct relation *relation, unsigned a, unsigned b)
{
    return (relation->row[a][b / 64] >> (b % 64) & 1) != 0;
}

static void add(struct relation *relation, unsigned a, unsigned b)
{
    relation->row[a][b / 64] |= UINT64_C(1) << (b % 64);
}

static void clear(struct relation *relation)
{
    memset(relation->row, 0, ax.nodes * sizeof relation->row[0]);
}

static void row_unite(struct relation *to, unsigned row, const struct relation *other,
                      unsigned other_row)
{
    for (unsigned word = 0; word < ax.words; word++) {
        to->row[row][word] |= other->row[other_row][word];
    }
}

static void unite(struct relation *to, const struct relation *other)
{
    for (unsigned i = 0; i < ax.nodes; i++) {
        row_unite(to, i, other, i);
    }
}

/* to = a ; b. to is neither of them. */
static void compose(struct relation *to, const struct relation *a, const struct relation *b)
{
    ASSERT(to != a && to != b);
    clear(to);
    for (unsigned i = 0; i < ax.nodes; i++) {
        for (unsigned j = 0; j < ax.nodes; j++) {
            if (has(a, i, j)) {
                row_unite(to, i, b, j);
            }
        }
    }
}

static void close(struct relation *relation)
{
    for (unsigned middle = 0; middle < ax.nodes; middle++) {
        for (unsigned i = 0; i < ax.nodes; i++) {
            if (has(relation, i, middle)) {
                row_unite(relation, i, relation, middle);
            }
        }
    }
}

static bool irreflexive(const struct relation *relation)
{
    for (unsigned i = 0; i < ax.nodes; i++) {
        if (has(relation, i, i)) {
            return false;
        }
    }
    return true;
}

/* --- the nodes --- */

static const struct event *event_of(unsigned node)
{
    return node < (unsigned)ax.graph->count ? &ax.graph->events[node] : NULL;
}

static unsigned initial_of(unsigned location)
{
    ASSERT(location < ax.graph->locations);
    return (unsigned)ax.graph->count + location;
}

static bool is_initial(unsigned node)
{
    return node >= (unsigned)ax.graph->count;
}

/* The location of a node, GRAPH_LOCATIONS for a fence. */
static unsigned location_of(unsigned node)
{
    const struct event *event = event_of(node);

    if (event == NULL) {
        return node - (unsigned)ax.graph->count;
    }
    return event->kind == EVENT_FENCE ? GRAPH_LOCATIONS : event->location;
}

static bool is_sc(unsigned node, bool fence)
{
    const struct event *event = event_of(node);

    return event != NULL && (event->kind == EVENT_FENCE) == fence &&
           graph_order(ax.graph, event) == memory_order_seq_cst;
}

static unsigned read_from(const struct event *load)
{
    ASSERT(load->kind == EVENT_LOAD && load->from < ax.graph->count);
    return load->from == GRAPH_INITIAL ? initial_of(load->location) : (unsigned)load->from;
}

/* --- the relations --- */

static bool sequenced(const struct event *a, const struct event *b)
{
    if (a->thread == b->thread) {
        return a->index < b->index;
    }
    return a->thread == 0 || b->thread == GRAPH_LAST;
}

static void find_sb(void)
{
    clear(&ax.sb);
    for (unsigned i = 0; i < ax.nodes; i++) {
        for (unsigned j = 0; j < (unsigned)ax.graph->count; j++) {
            if (is_initial(i) || sequenced(event_of(i), event_of(j))) {
                add(&ax.sb, i, j);
            }
        }
    }
}

static void find_mo(void)
{
    clear(&ax.mo);
    for (unsigned location = 0; location < ax.graph->locations; location++) {
        const struct order_list *list = &ax.graph->order[location];

        for (unsigned i = 0; i < list->count; i++) {
            ASSERT(event_of((unsigned)list->stores[i])->place == (int)i);
            add(&ax.mo, initial_of(location), (unsigned)list->stores[i]);
            for (unsigned j = i + 1; j < list->count; j++) {
                add(&ax.mo, (unsigned)list->stores[i], (unsigned)list->stores[j]);
            }
        }
    }
}

static void find_eco(void)
{
    clear(&ax.rf);
    clear(&ax.rb);
    for (unsigned i = 0; i < (unsigned)ax.graph->count; i++) {
        const struct event *event = event_of(i);

        if (event->kind == EVENT_LOAD) {
            add(&ax.rf, read_from(event), i);
            row_unite(&ax.rb, i, &ax.mo, read_from(event));
        }
    }
    clear(&ax.eco);
    unite(&ax.eco, &ax.rf);
    unite(&ax.eco, &ax.mo);
    unite(&ax.eco, &ax.rb);
    close(&ax.eco);
}

/* One store of a release sequence, from which a load reads by it: what comes after what. */
static void synchronise(unsigned store, unsigned load)
{
    const struct event *head = event_of(store);
    const struct event *reader = event_of(load);

    for (unsigned i = 0; i < (unsigned)ax.graph->count; i++) {
        const struct event *from = event_of(i);
        bool begins = i == store ? order_releases(from->order)
                                 : from->kind == EVENT_FENCE && order_releases(from->order) &&
                                       from->thread == head->thread && from->index < head->index;

        for (unsigned j = 0; begins && j < (unsigned)ax.graph->count; j++) {
            const struct event *to = event_of(j);
            bool ends = j == load ? order_acquires(graph_order(ax.graph, to))
                                  : to->kind == EVENT_FENCE && order_acquires(to->order) &&
                                        to->thread == reader->thread && to->index > reader->index;

            if (ends) {
                add(&ax.hb, i, j);
            }
        }
    }
}

static void find_hb(void)
{
    clear(&ax.hb);
    for (unsigned i = 0; i < (unsigned)ax.graph->count; i++) {
        const struct event *load = event_of(i);
        int store = load->kind == EVENT_LOAD ? load->from : GRAPH_INITIAL;
        int steps = 0;

        /* Down the release sequence to each of its heads. A circle would break atomicity. */
        while (store != GRAPH_INITIAL && steps++ < GRAPH_STORES) {
            const struct event *event = event_of((unsigned)store);

            ASSERT(event->kind == EVENT_STORE && event->location == load->location);
            synchronise((unsigned)store, i);
            store = GRAPH_INITIAL;
            if (event->exclusive) {
                store = event_of((unsigned)ax.graph->of[event->thread][event->index - 1])->from;
            }
        }
    }
    unite(&ax.hb, &ax.sb);
    close(&ax.hb);
}

static bool coherent(void)
{
    for (unsigned i = 0; i < ax.nodes; i++) {
        for (unsigned j = 0; j < ax.nodes; j++) {
            if (has(&ax.hb, i, j) && (i == j || has(&ax.eco, j, i))) {
                return false;
            }
        }
    }
    return true;
}

static bool atomic(void)
{
    for (unsigned i = 0; i < (unsigned)ax.graph->count; i++) {
        const struct event *store = event_of(i);

        if (store->kind == EVENT_STORE && store->exclusive) {
            unsigned load = (unsigned)ax.graph->of[store->thread][store->index - 1];

            ASSERT(event_of(load)->kind == EVENT_LOAD);
            if (store->place != graph_place_read(ax.graph, event_of(load)) + 1) {
                return false;
            }
        }
    }
    return true;
}

/* --- seq_cst --- */

/* scb = sb | sb-other-location ; hb ; sb-other-location | hb-same-location | mo | rb */
static void find_scb(void)
{
    struct relation *other = &ax.scratch[0];
    struct relation *part = &ax.scratch[1];

    clear(other);
    clear(&ax.psc); /* for a while: hb of the same location */
    for (unsigned i = 0; i < ax.nodes; i++) {
        for (unsigned j = 0; j < ax.nodes; j++) {
            bool same = location_of(i) < GRAPH_LOCATIONS && location_of(i) == location_of(j);

            if (!same && has(&ax.sb, i, j)) {
                add(other, i, j);
            }
            if (same && has(&ax.hb, i, j)) {
                add(&ax.psc, i, j);
            }
        }
    }
    compose(part, other, &ax.hb);
    compose(&ax.scb, part, other);
    unite(&ax.scb, &ax.sb);
    unite(&ax.scb, &ax.psc);
    unite(&ax.scb, &ax.mo);
    unite(&ax.scb, &ax.rb);
}

/* The rows of what leads into seq_cst: itself, or a fence and what it happens before; and back. */
static void find_ends(struct relation *into, struct relation *out)
{
    ASSERT(into != out);
    clear(into);
    clear(out);
    for (unsigned i = 0; i < ax.nodes; i++) {
        if (is_sc(i, false) || is_sc(i, true)) {
            add(into, i, i);
            add(out, i, i);
        }
        for (unsigned j = 0; j < ax.nodes; j++) {
            if (is_sc(i, true) && has(&ax.hb, i, j)) {
                add(into, i, j);
            }
            if (is_sc(j, true) && has(&ax.hb, i, j)) {
                add(out, i, j);
            }
        }
    }
}

static bool sc_acyclic(void)
{
    struct relation *into = &ax.scratch[0];
    struct relation *out = &ax.scratch[1];

    find_scb();
    find_ends(into, out);
    compose(&ax.psc, into, &ax.scb);
    compose(&ax.scb, &ax.psc, out);
    compose(&ax.scratch[0], &ax.hb, &ax.eco);
    compose(&ax.scratch[1], &ax.scratch[0], &ax.hb);
    unite(&ax.scratch[1], &ax.hb);
    for (unsigned i = 0; i < ax.nodes; i++) {
        for (unsigned j = 0; j < ax.nodes; j++) {
            if (is_sc(i, true) && is_sc(j, true) && has(&ax.scratch[1], i, j)) {
                add(&ax.scb, i, j);
            }
        }
    }
    close(&ax.scb);
    return irreflexive(&ax.scb);
}

bool axioms_need_sc(const struct graph *graph)
{
    unsigned count = 0;

    for (int i = 0; i < graph->count; i++) {
        count += graph_order(graph, &graph->events[i]) == memory_order_seq_cst;
    }
    return count >= 2;
}

bool axioms_hold(const struct graph *graph)
{
    ax.graph = graph;
    ax.nodes = (unsigned)graph->count + graph->locations;
    ax.words = (ax.nodes + 63) / 64;
    ASSERT(ax.nodes <= NODES && ax.words <= WORDS);
    find_sb();
    find_mo();
    find_eco();
    find_hb();
    return irreflexive(&ax.hb) && coherent() && atomic() &&
           (!axioms_need_sc(graph) || sc_acyclic());
}
