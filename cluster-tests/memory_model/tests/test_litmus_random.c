/*
 * test_litmus_random.c - the explorer finds all that C11 allows, and nothing else: small programs
 * drawn from a seed, whose executions are also found by trying every assignment of loads to stores
 * and every modification order, and asking the axioms.
 *
 * Without loads that read from what depends on them each execution must be found exactly once.
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "cluster-tests/memory_model/axioms.h"
#include "cluster-tests/memory_model/tests/litmus.h"

#define THREADS 3
#define OPS 3 /* of a thread */
#define OPS_ALL 6
#define OUTCOMES_MAX 20000

enum op_kind { OP_GET, OP_PUT, OP_ADD, OP_FENCE, OP_SWAP, OP_KINDS };

struct op {
    enum op_kind kind;
    bool of_y;
    int order;
    uint32_t value;
    uint32_t expected; /* OP_SWAP */
};

struct program {
    unsigned count[THREADS];
    struct op ops[THREADS][OPS];
};

struct outcomes {
    size_t count;
    uint64_t executions;
    uint64_t seen[OUTCOMES_MAX];
};

static struct program program;
static uint32_t values[THREADS][OPS]; /* that the ops read */
static uint32_t last[2];
static struct outcomes explored;
static struct outcomes tried;

static void outcome_add(struct outcomes *outcomes)
{
    uint64_t word = last[0] * 10 + last[1];

    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned i = 0; i < program.count[thread]; i++) {
            word = word * 40 + values[thread][i];
        }
    }
    outcomes->executions++;
    for (size_t i = 0; i < outcomes->count; i++) {
        if (outcomes->seen[i] == word) {
            return;
        }
    }
    assert_true(outcomes->count < OUTCOMES_MAX);
    outcomes->seen[outcomes->count++] = word;
}

static bool outcome_in(const struct outcomes *outcomes, uint64_t word)
{
    for (size_t i = 0; i < outcomes->count; i++) {
        if (outcomes->seen[i] == word) {
            return true;
        }
    }
    return false;
}

/* --- programs --- */

static int draw_order(struct prng *prng, enum op_kind kind)
{
    static const int loads[] = {RLX, RLX, ACQ, SC};
    static const int stores[] = {RLX, RLX, REL, SC};
    static const int both[] = {RLX, ACQ, REL, AR, SC};
    static const int fences[] = {ACQ, REL, AR, SC};

    switch (kind) {
    case OP_GET:
        return loads[prng_below(prng, 4)];
    case OP_PUT:
        return stores[prng_below(prng, 4)];
    case OP_FENCE:
        return fences[prng_below(prng, 4)];
    default:
        return both[prng_below(prng, 5)];
    }
}

static void draw(struct prng *prng, bool swaps)
{
    static const enum op_kind kinds[] = {OP_GET, OP_GET, OP_GET,   OP_PUT,  OP_PUT,
                                         OP_PUT, OP_ADD, OP_FENCE, OP_SWAP, OP_SWAP};
    unsigned left = OPS_ALL;

    memset(&program, 0, sizeof program);
    for (unsigned thread = 0; thread < THREADS; thread++) {
        unsigned count = 1 + (unsigned)prng_below(prng, OPS);

        program.count[thread] = count < left ? count : left;
        left -= program.count[thread];
        for (unsigned i = 0; i < program.count[thread]; i++) {
            struct op *op = &program.ops[thread][i];

            op->kind = kinds[prng_below(prng, swaps ? 10 : 8)];
            op->of_y = prng_below(prng, 2) == 1;
            op->order = draw_order(prng, op->kind);
            op->value = 1 + 3 * thread + i;
            op->expected = (uint32_t)prng_below(prng, 3);
        }
    }
}

static void print_program(void)
{
    static const char *const names[] = {"get", "put", "add", "fence", "swap"};

    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned i = 0; i < program.count[thread]; i++) {
            const struct op *op = &program.ops[thread][i];

            print_message("%u: %s %s %s %u (%u)\n", thread, names[op->kind], op->of_y ? "y" : "x",
                          order_name(op->order), op->value, op->expected);
        }
    }
}

/* --- by the explorer --- */

static void run_op(const struct op *op, uint32_t *ret_value)
{
    _Atomic uint32_t *at = op->of_y ? &y : &x;
    uint32_t found = op->expected;

    switch (op->kind) {
    case OP_GET:
        *ret_value = atomic_load_explicit(at, op->order);
        break;
    case OP_PUT:
        atomic_store_explicit(at, op->value, op->order);
        break;
    case OP_ADD:
        *ret_value = atomic_fetch_add_explicit(at, op->value, op->order);
        break;
    case OP_FENCE:
        atomic_thread_fence(op->order);
        break;
    case OP_SWAP:
        (void)atomic_compare_exchange_strong_explicit(at, &found, op->value, op->order, RLX);
        *ret_value = found;
        break;
    case OP_KINDS:
        break;
    }
}

static void run_thread(unsigned thread)
{
    for (unsigned i = 0; i < program.count[thread]; i++) {
        run_op(&program.ops[thread][i], &values[thread][i]);
    }
}

static void run_0(void)
{
    run_thread(0);
}

static void run_1(void)
{
    run_thread(1);
}

static void run_2(void)
{
    run_thread(2);
}

static void set_up(void)
{
    litmus_setup();
    memset(values, 0, sizeof values);
}

static void read_last(void)
{
    last[0] = GET(x, RLX);
    last[1] = GET(y, RLX);
}

static void accept(void)
{
    outcome_add(&explored);
}

/* --- by trying everything --- */

static struct {
    struct graph graph;
    uint64_t initial[2];
    unsigned loads;
    int load[OPS_ALL]; /* events */
    int from[OPS_ALL]; /* the op, as thread * OPS + index, or -1, that each of them reads from */
    const struct op *op[OPS_ALL];
    int load_of[THREADS * OPS];  /* the number of an op's load, -1 if it has none */
    int store_of[THREADS * OPS]; /* the event of an op's store, -1 if it has none */
    bool late;
} try;

/* The value that an op stores; false if it stores none, or it comes of itself. */
static bool stored(int op, uint32_t *ret_value)
{
    uint32_t sum = 0;

    for (unsigned steps = 0; op >= 0 && steps <= OPS_ALL; steps++) {
        const struct op *at = &program.ops[op / OPS][op % OPS];

        if (at->kind == OP_PUT || at->kind == OP_SWAP) {
            *ret_value = sum + at->value;
            return true;
        }
        sum += at->value;
        op = try.from[try.load_of[op]];
    }
    *ret_value = sum;
    return op < 0;
}

/* What a load reads; false: nothing. */
static bool read_value(unsigned load, uint32_t *ret_value)
{
    *ret_value = 0;
    return try.from[load] < 0 || stored(try.from[load], ret_value);
}

static bool swap_stores(unsigned load)
{
    uint32_t value;

    return try.op[load]->kind != OP_SWAP ||
           (read_value(load, &value) && value == try.op[load]->expected);
}

static void try_event(unsigned thread, const struct op *op, bool store)
{
    static struct model_site site;
    struct event event;

    memset(&event, 0, sizeof event);
    event.site = &site;
    event.kind = op->kind == OP_FENCE ? EVENT_FENCE : store ? EVENT_STORE : EVENT_LOAD;
    event.thread = (uint8_t)(thread + 1);
    event.location = op->of_y;
    event.order = (uint8_t)op->order;
    event.from = GRAPH_INITIAL;
    event.place = GRAPH_UNPLACED;
    event.exclusive = op->kind == OP_ADD || (op->kind == OP_SWAP && store);
    event.compares = op->kind == OP_SWAP && !store;
    event.expected = op->expected;
    event.failure = RLX;
    (void)graph_append(&try.graph, &event);
}

/* The events that there are when the loads read as try.from says. False: it cannot be. */
static bool try_events(void)
{
    graph_clear(&try.graph, try.initial);
    memset(try.store_of, -1, sizeof try.store_of);
    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned i = 0; i < program.count[thread]; i++) {
            const struct op *op = &program.ops[thread][i];
            int number = (int)(thread * OPS + i);
            int load = try.load_of[number];

            if (load >= 0) {
                try.load[load] = try.graph.count;
            }
            if (op->kind != OP_PUT) {
                try_event(thread, op, false);
            }
            if (op->kind == OP_PUT || op->kind == OP_ADD ||
                (op->kind == OP_SWAP && swap_stores((unsigned)load))) {
                try.store_of[number] = try.graph.count;
                try_event(thread, op, true);
            }
        }
    }
    for (unsigned i = 0; i < try.loads; i++) {
        uint32_t value;

        if (!read_value(i, &value) || (try.from[i] >= 0 && try.store_of[try.from[i]] < 0)) {
            return false;
        }
        if (try.from[i] >= 0) {
            struct event *from = &try.graph.events[try.store_of[try.from[i]]];

            from->value = value;
            try.graph.events[try.load[i]].from = (int16_t)try.store_of[try.from[i]];
        }
    }
    return true;
}

static bool is_late(void)
{
    for (unsigned i = 0; i < try.loads; i++) {
        const struct event *load = &try.graph.events[try.load[i]];

        if (load->from != GRAPH_INITIAL && clock_has(&try.graph.events[load->from].cause, load)) {
            return true;
        }
    }
    return false;
}

static uint32_t last_of(unsigned location)
{
    const struct order_list *list = &try.graph.order[location];
    int newest = list->count > 0 ? list->stores[list->count - 1] : -1;
    uint32_t value = 0;

    for (int i = 0; i < THREADS * OPS; i++) {
        if (newest >= 0 && try.store_of[i] == newest) {
            assert_true(stored(i, &value));
        }
    }
    return value;
}

static void try_graph(void)
{
    graph_recompute(&try.graph);
    if (!axioms_hold(&try.graph) || (!try.late && is_late())) {
        return;
    }
    memset(values, 0, sizeof values);
    for (int i = 0; i < THREADS * OPS; i++) {
        if (try.load_of[i] >= 0) {
            assert_true(read_value((unsigned)try.load_of[i], &values[i / OPS][i % OPS]));
        }
    }
    last[0] = last_of(0);
    last[1] = last_of(1);
    outcome_add(&tried);
}

/* The number-th order of the stores of a location; false: there are fewer orders. */
static bool place_stores(unsigned location, unsigned number)
{
    struct order_list *list = &try.graph.order[location];

    list->count = 0;
    for (int i = 0; i < try.graph.count; i++) {
        const struct event *event = &try.graph.events[i];

        if (event->kind == EVENT_STORE && event->location == location) {
            unsigned places = list->count + 1U;

            graph_place(&try.graph, i, (int)(number % places));
            number /= places;
        }
    }
    return number == 0;
}

static void try_orders(void)
{
    for (unsigned i = 0; place_stores(0, i); i++) {
        for (unsigned j = 0; place_stores(1, j); j++) {
            (void)place_stores(0, i);
            try_graph();
        }
    }
}

static bool can_read(unsigned load, int op)
{
    const struct op *from = &program.ops[op / OPS][op % OPS];

    return (unsigned)(op % OPS) < program.count[op / OPS] && from->of_y == try.op[load]->of_y &&
           from->kind != OP_GET && from->kind != OP_FENCE && try.load_of[op] != (int)load;
}

/* Go on to the next assignment of loads to ops. */
static bool next_assignment(void)
{
    for (unsigned i = 0; i < try.loads; i++) {
        do {
            try.from[i]++;
        } while (try.from[i] < THREADS * OPS && !can_read(i, try.from[i]));
        if (try.from[i] < THREADS * OPS) {
            return true;
        }
        try.from[i] = -1;
    }
    return false;
}

static void try_everything(bool late)
{
    memset(&try, 0, sizeof try);
    try.late = late;
    for (int i = 0; i < THREADS * OPS; i++) {
        const struct op *op = &program.ops[i / OPS][i % OPS];

        try.load_of[i] = -1;
        if ((unsigned)(i % OPS) < program.count[i / OPS] && op->kind != OP_PUT &&
            op->kind != OP_FENCE) {
            try.load_of[i] = (int)try.loads;
            try.op[try.loads] = op;
            try.from[try.loads++] = -1;
        }
    }
    do {
        if (try_events()) {
            try_orders();
        }
    } while (next_assignment());
}

/* --- the comparison --- */

static void compare(uint64_t seed, bool swaps, bool late, bool all_changes)
{
    struct model_scenario scenario = {.setup = set_up,
                                      .threads = {run_0, run_1, run_2},
                                      .finish = read_last,
                                      .accept = accept,
                                      .late_max = late ? 8 : 0,
                                      .all_changes = all_changes};
    struct model_result result;
    struct prng prng;
    bool same;

    prng_seed(&prng, seed);
    draw(&prng, swaps);
    explored.count = tried.count = explored.executions = tried.executions = 0;
    model_explore(&scenario, &result);
    try_everything(late);
    same = !result.found && explored.count == tried.count &&
           (late || all_changes || explored.executions == tried.executions);
    for (size_t i = 0; i < tried.count && same; i++) {
        same = outcome_in(&explored, tried.seen[i]);
    }
    if (!same) {
        print_program();
        print_message("seed %lu: explored %zu outcomes of %lu executions, not %zu of %lu%s\n", seed,
                      explored.count, explored.executions, tried.count, tried.executions,
                      result.found ? result.what : "");
    }
    assert_true(same);
}

static uint64_t seeds(void)
{
    const char *text = getenv("SEEDS");

    return text != NULL ? strtoull(text, NULL, 10) : 1500;
}

static void test_every_execution_is_found_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        compare(seed, true, false, false);
    }
}

static void test_loads_from_later_stores_are_all_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        compare(seed, false, true, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_execution_is_found_once),
        cmocka_unit_test(test_loads_from_later_stores_are_all_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
