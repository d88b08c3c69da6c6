/*
 * graph.h - an execution as a graph of events, as C11 sees it: what each thread did in its order,
 * which store each load read from, and the modification order of each location.
 *
 * The happy path: graph_append() adds the next event of a thread and computes what happens before
 * it; graph_place() gives a store its place in the modification order; graph_bound() says how far
 * coherence has pushed a reader or writer along that order.
 *
 * A read-modify-write that succeeds is two events one after the other, a load and an exclusive
 * store, whose place is right behind the store that the load read.
 *
 * Threads of the program: 0 is the set-up, which happens before all others; the last one is what
 * comes after all of them were joined.
 *
 * Failure modes: more events, locations or stores than the bounds here: an ASSERT, since a test
 * that is too large has to be made smaller. Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_GRAPH_H
#define LEAFD_MEMORY_MODEL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAPH_THREADS 7
#define GRAPH_LAST (GRAPH_THREADS - 1) /* the thread after the join */
#define GRAPH_EVENTS 320
#define GRAPH_THREAD_EVENTS 160
#define GRAPH_LOCATIONS 64
#define GRAPH_STORES 40   /* of one location */
#define GRAPH_INITIAL -1  /* the value that a location began with, as a store */
#define GRAPH_UNPLACED -2 /* a store's place before it has one */

enum event_kind { EVENT_LOAD, EVENT_STORE, EVENT_FENCE };

struct model_site;

/* How many events of each thread are known. */
struct clock_vector {
    uint8_t of[GRAPH_THREADS];
};

struct event {
    const struct model_site *site;
    uint64_t value;    /* a store's */
    uint64_t expected; /* a compare-and-swap's load: it succeeds on this value */
    int16_t from;      /* a load's: the store, or GRAPH_INITIAL */
    int16_t place;     /* a store's: in the modification order, from 0 */
    uint16_t stamp;    /* when it was added: later ones are higher */
    uint8_t kind;
    uint8_t thread;
    uint8_t index; /* in its thread */
    uint8_t location;
    uint8_t order;   /* memory_order */
    uint8_t failure; /* a compare-and-swap's load: memory_order when it fails */
    bool exclusive;  /* a store of a read-modify-write, or a load of one that always stores */
    bool compares;   /* a load of a compare-and-swap */
    bool weak;       /* which may fail for nothing */
    bool spurious;   /* it fails although the value is the expected one */
    bool waits;      /* its thread goes on only when the value is not 0 */
    bool may_stay;   /* waiting here for ever is no mistake */
    /* What is known, itself included: */
    struct clock_vector before; /* happens before it */
    struct clock_vector cause;  /* by the threads' orders and by what was read, of whatever order */
    struct clock_vector offer;  /* a store's: happens before who reads it with acquire */
    struct clock_vector pend;   /* would happen before a later fence with acquire of the thread */
    struct clock_vector fenced; /* at the thread's last fence with release */
};

struct order_list {
    uint8_t count;
    int16_t stores[GRAPH_STORES];
};

struct graph {
    const uint64_t *initial; /* values of the locations; the explorer's */
    int16_t count;
    uint16_t next_stamp;
    uint16_t base;     /* events of lower stamps are fixed: their loads are not changed any more */
    uint8_t late;      /* loads that were made to read from a store that depends on them */
    uint8_t spurious;  /* compare-and-swaps that failed for nothing */
    uint8_t restarts;  /* times that a late load changed the value of a store */
    uint8_t locations; /* in use */
    uint8_t thread_count[GRAPH_THREADS];
    int16_t of[GRAPH_THREADS][GRAPH_THREAD_EVENTS]; /* events by thread and index */
    struct order_list order[GRAPH_LOCATIONS];
    struct event events[GRAPH_EVENTS]; /* last: only `count` of them are copied */
};

/* An empty graph; initial stays the caller's. */
void graph_clear(struct graph *graph, const uint64_t *initial);

/* Copy a graph, as much as is in use; the bytes of such a copy. */
void graph_copy(struct graph *to, const struct graph *from);
size_t graph_bytes(const struct graph *graph);

/* Add an event as the next of its thread, with the stamp it has or, if that is 0, a new one.
 * Returns its number. A store has no place yet. */
int graph_append(struct graph *graph, const struct event *event);

/* Put a store at a place of its location's modification order; what is there moves up. */
void graph_place(struct graph *graph, int store, int place);

/* True if a store cannot stand at this place, since it would part a read-modify-write from what it
 * read. */
static inline bool graph_place_is_taken(const struct graph *graph, unsigned location, int place)
{
    const struct order_list *list = &graph->order[location];

    return place < list->count && graph->events[list->stores[place]].exclusive;
}

/* Compute all clocks anew, also when loads read from stores that depend on them. */
void graph_recompute(struct graph *graph);

/* The place of the newest store of a location that is known by this clock, by itself or because a
 * load that is known read it; GRAPH_INITIAL if none. */
int graph_bound(const struct graph *graph, unsigned location, const struct clock_vector *known);

/* The clocks at the end of a thread as it is now (or at its start, if it has no event). */
struct clock_vector graph_known(const struct graph *graph, unsigned thread);

/* Does clock know of the event? */
static inline bool clock_has(const struct clock_vector *clock, const struct event *event)
{
    return clock->of[event->thread] > event->index;
}

/* The place of the store that a load read, GRAPH_INITIAL for the initial value. */
static inline int graph_place_read(const struct graph *graph, const struct event *load)
{
    return load->from == GRAPH_INITIAL ? GRAPH_INITIAL : graph->events[load->from].place;
}

/* The value that a load read. */
uint64_t graph_value(const struct graph *graph, const struct event *load);

/* Whether a load belongs to a read-modify-write that stores, and the order it has by that. */
bool graph_stores(const struct graph *graph, const struct event *load);
int graph_order(const struct graph *graph, const struct event *event);

/* "acquire" and so on; "" for a negative one. */
const char *order_name(int order);

/* Is it at least an acquire, or a release? */
bool order_acquires(int order);
bool order_releases(int order);

/* A graph of the kept events alone, in their order, but for `apart` (GRAPH_INITIAL: none), which is
 * left to the caller. What is kept must hold, for each load, the store it read. ret_new[old number]
 * is the new number, or GRAPH_INITIAL if it was not kept. */
void graph_keep(struct graph *to, const struct graph *from, const bool *keep, int apart,
                int16_t *ret_new);

/* A number that is the same for the same execution, however it was found. */
uint64_t graph_hash(const struct graph *graph);

#endif
