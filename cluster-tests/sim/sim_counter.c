/*
 * sim_counter.c - see sim_counter.h. Thread: one.
 */
#include "cluster-tests/sim/sim_counter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-tests/sim/sim_calm.h"
#include "src/base/assert.h"
#include "src/state/state.h"

#define COUNTERS 4
#define NUMBERS 65536 /* commands of a run */
#define ADD_MAX 100
#define PATIENCE_MS 3000
#define COMMAND_ADD 40 /* types that no other command or message has */
#define RESULT_SUM 200
#define QUERY_SUM 201
#define TABLE 'T'

/* --- the machine --- */

struct add {
    uint64_t counter; /* 0..COUNTERS - 1 */
    uint64_t number;  /* each command of a run has its own */
    uint64_t amount;
};

struct sum {
    uint64_t sum;
};

static const struct field ADD_FIELDS[] = {
    FIELD_NUMBER(struct add, counter),
    FIELD_NUMBER(struct add, number),
    FIELD_NUMBER(struct add, amount),
};
static const struct fields ADD = FIELDS(ADD_FIELDS);
static const struct field SUM_FIELDS[] = {FIELD_NUMBER(struct sum, sum)};
static const struct fields SUM = FIELDS(SUM_FIELDS);
static const struct row_format ROW = ROW_FORMAT(ROW_VERSION, FIELDS(SUM_FIELDS), NULL);

struct counters {
    struct machine machine;
    struct sum sums[COUNTERS];
    struct add add; /* the command that was read last */
};

/* What the run knows of its commands and counters; one run at a time. */
static struct {
    struct sim_world *world;
    uint64_t next; /* number of a command */
    struct {
        struct add add;
        uint64_t index; /* of the entry by which it was carried out; 0: it was not, yet */
        uint64_t sum;
        bool acknowledged;
    } commands[NUMBERS];
    uint64_t seen[COUNTERS]; /* the highest sum that a client has heard of */
} run;

static struct counters *counters_of(const struct machine *machine)
{
    return CONTAINER(machine, struct counters, machine);
}

static const struct machine_ops counter_machine;

static struct machine *counter_make(struct state *state)
{
    struct counters *counters = MUST_HAVE(calloc(1, sizeof *counters));

    counters->machine = (struct machine){.ops = &counter_machine, .state = state};
    return &counters->machine;
}

static void counter_free(struct machine *machine)
{
    free(counters_of(machine));
}

static void counter_take(struct machine *machine, struct machine *from)
{
    memcpy(counters_of(machine)->sums, counters_of(from)->sums, sizeof counters_of(from)->sums);
}

static uint64_t counter_bytes(const struct machine *machine)
{
    return sizeof counters_of(machine)->sums;
}

static uint16_t counter_since(int type)
{
    return type == COMMAND_ADD ? LEVEL_FIRST : 0;
}

static int counter_read(struct machine *machine, const void *data, size_t len,
                        struct machine_command *ret_command)
{
    struct add *add = &counters_of(machine)->add;
    int rv = command_fields_read(data, len, COMMAND_ADD, &ADD, add);

    *ret_command = (struct machine_command){.since = LEVEL_FIRST};
    return rv == 0 && (add->counter >= COUNTERS || add->number >= NUMBERS) ? ERR_BAD_MESSAGE : rv;
}

static void sum_set(struct counters *counters, uint64_t counter, struct sum after)
{
    struct sum *sum = &counters->sums[counter];

    journal_node(&counters->machine.state->journal, TABLE, counter + 1, &ROW,
                 sum->sum > 0 ? sum : NULL, &after);
    *sum = after;
}

/* A node that comes back applies again what it had not written: at the same index, to the same
 * sum. */
static void counter_apply(struct machine *machine, const struct machine_entry *entry,
                          struct buf *result)
{
    struct counters *counters = counters_of(machine);
    const struct add *add = &counters->add;
    struct sum sum = {counters->sums[add->counter].sum + add->amount};

    if (run.commands[add->number].index == 0) {
        run.commands[add->number].index = entry->index;
        run.commands[add->number].sum = sum.sum;
    } else if (run.commands[add->number].index != entry->index ||
               run.commands[add->number].sum != sum.sum) {
        sim_fail(run.world,
                 "add %" PRIu64 " is carried out at %" PRIu64 " to %" PRIu64 ", and at %" PRIu64
                 " to %" PRIu64,
                 add->number, run.commands[add->number].index, run.commands[add->number].sum,
                 entry->index, sum.sum);
    }
    sum_set(counters, add->counter, sum);
    message_fields_put(result, RESULT_SUM, &SUM, &sum);
}

static bool counter_foresee(struct machine *machine, uint64_t index)
{
    (void)machine;
    (void)index;
    return false;
}

/* Neither the log's time nor a removal means anything to it. */
static void counter_hear(struct machine *machine, uint64_t number)
{
    (void)machine;
    (void)number;
}

static void counter_load_begin(struct machine *machine)
{
    memset(counters_of(machine)->sums, 0, sizeof counters_of(machine)->sums);
}

static int counter_load_row(struct machine *machine, const struct state_row *row)
{
    struct sum sum = {0};
    uint64_t counter;
    int rv;

    if (row->key[0] != TABLE) {
        return ERR_NEWER;
    }
    counter = row->key_len == ROW_NODE_KEY_BYTES ? row_key_node(row->key) : 0;
    rv = row_read(row->value, row->value_len, &ROW, &sum);
    if (rv != 0 || counter == 0 || counter > COUNTERS) {
        return rv != 0 ? rv : ERR_CORRUPT;
    }
    sum_set(counters_of(machine), counter - 1, sum);
    return 0;
}

static int counter_load_end(struct machine *machine, uint64_t index, uint64_t log_ms)
{
    (void)machine;
    (void)index;
    (void)log_ms;
    return 0;
}

static const struct machine_ops counter_machine = {.make = counter_make,
                                                   .free = counter_free,
                                                   .take = counter_take,
                                                   .bytes = counter_bytes,
                                                   .since = counter_since,
                                                   .read = counter_read,
                                                   .apply = counter_apply,
                                                   .foresee = counter_foresee,
                                                   .clock = counter_hear,
                                                   .removed = counter_hear,
                                                   .load_begin = counter_load_begin,
                                                   .load_row = counter_load_row,
                                                   .load_end = counter_load_end};

/* --- the service: it answers queries, and has nothing else to do --- */

static int on_start(struct service *service, struct replica *replica,
                    const struct store_loaded *loaded)
{
    (void)service;
    (void)replica;
    (void)loaded;
    return 0;
}

static void on_call(struct service *service)
{
    (void)service;
}

static void on_event(struct service *service, enum service_event event, uint64_t number)
{
    (void)service;
    (void)event;
    (void)number;
}

static uint8_t on_serves(const struct service *service)
{
    (void)service;
    return WIRE_SERVES_KNOWN | WIRE_SERVES_READY;
}

static bool on_gave_back(const struct service *service)
{
    (void)service;
    return true;
}

static bool on_may_transfer(struct service *service)
{
    (void)service;
    return true;
}

static bool on_receive(struct service *service, uint64_t from, enum frame_type type,
                       const uint8_t *payload, size_t len)
{
    (void)service;
    (void)from;
    (void)type;
    (void)payload;
    (void)len;
    return false;
}

static void on_number(struct service *service, uint64_t number)
{
    (void)service;
    (void)number;
}

static int on_query(struct service *service, const void *data, size_t len, struct buf *reply)
{
    const struct sim_node *node = CONTAINER(service, struct sim_node, counter);
    struct add add = {0};

    if (!message_fields_read(data, len, QUERY_SUM, &ADD, &add) || add.counter >= COUNTERS) {
        return ERR_BAD_MESSAGE;
    }
    message_fields_put(reply, RESULT_SUM, &SUM,
                       &counters_of(node->replica.state->machine)->sums[add.counter]);
    return 0;
}

static bool on_accepts(const struct service *service, enum cluster_request_kind kind,
                       const void *data, size_t len)
{
    (void)service;
    (void)data;
    (void)len;
    return kind == CLUSTER_REQUEST_COMMAND;
}

static enum service_admission on_admit(struct service *service, const void *data, size_t len,
                                       uint64_t *ret_adds_bytes, struct buf *reply)
{
    (void)service;
    (void)data;
    (void)len;
    (void)reply;
    *ret_adds_bytes = 0;
    return SERVICE_ADMITS;
}

static enum service_lead on_lead(struct service *service, struct service_lead_ask *ask)
{
    (void)service;
    ask->status = ERR_BAD_MESSAGE;
    return SERVICE_LED;
}

static void on_marks(struct service *service, const void *data, size_t len, struct buf *marks)
{
    (void)service;
    (void)data;
    (void)len;
    (void)marks;
}

static int on_take_marks(struct service *service, const void *data, size_t len, const void *marks,
                         size_t marks_len)
{
    (void)service;
    (void)data;
    (void)len;
    (void)marks;
    return marks_len == 0 ? 0 : ERR_BAD_MESSAGE;
}

static void on_turn(struct service *service, uint32_t woken)
{
    (void)service;
    (void)woken;
}

void sim_counter_node_init(struct sim_node *node)
{
    static const struct service_ops ops = {
        .start = on_start,
        .stop = on_call,
        .close = on_call,
        .release = on_call,
        .turn = on_turn,
        .woken = on_call,
        .receive = on_receive,
        .event = on_event,
        .serves = on_serves,
        .query = on_query,
        .accepts = on_accepts,
        .admit = on_admit,
        .lead = on_lead,
        .marks = on_marks,
        .take_marks = on_take_marks,
        .may_transfer = on_may_transfer,
        .give_back = on_number,
        .gave_back = on_gave_back,
    };
    static struct stall stall;

    node->counter = (struct service){.ops = &ops, .machine = &counter_machine, .stall = &stall};
}

/* --- clients --- */

struct counter_request {
    struct cluster_request base;
    struct sim_node *node;
    struct add add;
    uint64_t seen; /* of the counter, when it began */
};

static void check_answer(const struct counter_request *request, uint64_t sum)
{
    const struct add *add = &request->add;
    bool is_add = request->base.kind == CLUSTER_REQUEST_COMMAND;

    if (is_add && (run.commands[add->number].index == 0 || run.commands[add->number].sum != sum)) {
        sim_fail(run.world,
                 "add %" PRIu64 " is acknowledged with %" PRIu64 ", and came to %" PRIu64,
                 add->number, sum, run.commands[add->number].sum);
    }
    if (sum < request->seen + (is_add ? add->amount : 0)) {
        sim_fail(run.world,
                 "counter %" PRIu64 " was %" PRIu64 " before node %u was asked, whose answer is "
                 "%" PRIu64,
                 add->counter, request->seen, request->node->id, sum);
    }
    run.seen[add->counter] = later_of(run.seen[add->counter], sum);
    run.commands[add->number].acknowledged = is_add;
}

static void on_answered(struct cluster_request *base)
{
    struct counter_request *request = CONTAINER(base, struct counter_request, base);
    struct sum sum = {0};

    ASSERT(run.world->requests_open > 0);
    run.world->requests_open--;
    if (base->status != 0) {
        run.world->stats.failed_requests++;
        sim_calm_timed_out(request->node, base->status, "an operation of a counter");
    } else if (!message_fields_read(base->reply.data, base->reply.len, RESULT_SUM, &SUM, &sum)) {
        sim_fail(run.world, "an operation of a counter has another answer");
    } else {
        check_answer(request, sum.sum);
    }
    buf_free(&base->payload);
    buf_free(&base->reply);
    free(request);
}

void sim_counter_event(struct sim_world *world)
{
    struct sim_node *node = sim_any_running(world);
    struct counter_request *request;
    bool is_add = sim_percent(world, 70);

    sim_calm_look(world);
    if (node == NULL || !world->clients || run.next + 1 >= NUMBERS) {
        return;
    }
    request = MUST_HAVE(calloc(1, sizeof *request));
    request->node = node;
    request->add.counter = sim_below(world, COUNTERS);
    request->seen = run.seen[request->add.counter];
    request->base.deadline_ms = clock_now_ms(&node->clock) + PATIENCE_MS;
    request->base.done = on_answered;
    if (is_add) {
        request->add.number = ++run.next;
        request->add.amount = 1 + sim_below(world, ADD_MAX);
        run.commands[run.next].add = request->add;
        request->base.kind = CLUSTER_REQUEST_COMMAND;
        command_fields_put(&request->base.payload, COMMAND_ADD, &ADD, &request->add);
        world->stats.puts++;
    } else {
        request->base.kind = CLUSTER_REQUEST_QUERY;
        message_fields_put(&request->base.payload, QUERY_SUM, &ADD, &request->add);
        world->stats.queries++;
    }
    world->requests_open++;
    requests_submit(&node->replica.requests, &request->base);
    sim_turn(node);
}

/* --- a run --- */

void sim_counter_init(struct sim_world *world)
{
    memset(&run, 0, sizeof run);
    run.world = world;
}

void sim_counter_check_end(struct sim_world *world)
{
    uint64_t sums[COUNTERS] = {0};
    uint64_t acknowledged = 0;

    for (uint64_t number = 1; number <= run.next; number++) {
        if (run.commands[number].index != 0) {
            sums[run.commands[number].add.counter] += run.commands[number].add.amount;
        }
        acknowledged += run.commands[number].acknowledged;
    }
    if (acknowledged == 0) {
        sim_fail(world, "no counter was ever added to");
    }
    SIM_LIVING_FOREACH (node, world) {
        for (unsigned i = 0; i < COUNTERS; i++) {
            uint64_t sum = counters_of(node->replica.state->machine)->sums[i].sum;

            if (sum != sums[i] || sum < run.seen[i]) {
                sim_fail(world,
                         "counter %u is %" PRIu64 " on node %u, %" PRIu64 " was added, and %" PRIu64
                         " was seen",
                         i, sum, node->id, sums[i], run.seen[i]);
            }
        }
    }
}
