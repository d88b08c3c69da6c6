/*
 * toy_counter.c - see toy_counter.h. Thread: one.
 */
#include "src/state/tests/toy_counter.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define TABLE 'T' /* of its rows: a count for each node */

struct toy {
    struct machine machine;
    struct toy_count counts[TOY_NODES]; /* by the node's id */
    uint32_t add;                       /* of the command that was read last */
};

static const struct field COUNT_FIELDS[] = {
    FIELD_NUMBER(struct toy_count, sum),
    FIELD_NUMBER(struct toy_count, commands),
};
static const struct row_format COUNT = ROW_FORMAT(ROW_VERSION, FIELDS(COUNT_FIELDS), NULL);

static const struct field COMMAND_FIELDS[] = {FIELD_NUMBER(struct toy, add)};
static const struct fields COMMAND = FIELDS(COMMAND_FIELDS);

static struct toy *toy_of(const struct machine *machine)
{
    return CONTAINER(machine, struct toy, machine);
}

struct toy_count toy_count_of(const struct state *state, uint64_t node_id)
{
    ASSERT(state->machine->ops == &toy_machine && node_id < TOY_NODES);
    return toy_of(state->machine)->counts[node_id];
}

void toy_command_put(struct buf *buf, uint32_t add)
{
    const struct toy toy = {.add = add};

    command_fields_put(buf, TOY_COMMAND, &COMMAND, &toy);
}

static struct machine *toy_make(struct state *state)
{
    struct toy *toy = MUST_HAVE(calloc(1, sizeof *toy));

    toy->machine = (struct machine){.ops = &toy_machine, .state = state};
    return &toy->machine;
}

static void toy_free(struct machine *machine)
{
    free(toy_of(machine));
}

static void toy_take(struct machine *machine, struct machine *from)
{
    memcpy(toy_of(machine)->counts, toy_of(from)->counts, sizeof toy_of(from)->counts);
}

static uint64_t toy_bytes(const struct machine *machine)
{
    return sizeof toy_of(machine)->counts;
}

static uint16_t toy_since(int type)
{
    return type == TOY_COMMAND ? 1 : 0;
}

static int toy_read(struct machine *machine, const void *data, size_t len,
                    struct machine_command *ret_command)
{
    *ret_command = (struct machine_command){.since = 1};
    return command_fields_read(data, len, TOY_COMMAND, &COMMAND, toy_of(machine));
}

static void count_set(struct toy *toy, uint64_t node_id, const struct toy_count *after)
{
    struct toy_count *count = &toy->counts[node_id];

    journal_node(&toy->machine.state->journal, TABLE, node_id, &COUNT,
                 count->commands > 0 ? count : NULL, after);
    *count = *after;
}

static void toy_apply(struct machine *machine, const struct machine_entry *entry,
                      struct buf *result)
{
    struct toy *toy = toy_of(machine);
    struct toy_count count = toy->counts[entry->node_id];

    count.sum += toy->add;
    count.commands++;
    count_set(toy, entry->node_id, &count);
    status_result_encode(0, result);
}

static bool toy_foresee(struct machine *machine, uint64_t index)
{
    (void)machine;
    (void)index;
    return false;
}

/* Neither the log's time nor a removal means anything to it. */
static void toy_hear(struct machine *machine, uint64_t number)
{
    (void)machine;
    (void)number;
}

static void toy_load_begin(struct machine *machine)
{
    memset(toy_of(machine)->counts, 0, sizeof toy_of(machine)->counts);
}

static int toy_load_row(struct machine *machine, const struct state_row *row)
{
    struct toy_count count = {0};
    uint64_t node_id;
    int err;

    if (row->key[0] != TABLE) {
        return ERR_NEWER;
    }
    node_id = row->key_len == ROW_NODE_KEY_BYTES ? row_key_node(row->key) : 0;
    err = row_read(row->value, row->value_len, &COUNT, &count);
    if (err != 0 || node_id == 0 || node_id >= TOY_NODES) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    count_set(toy_of(machine), node_id, &count);
    return 0;
}

static int toy_load_end(struct machine *machine, uint64_t index, uint64_t log_ms)
{
    (void)machine;
    (void)index;
    (void)log_ms;
    return 0;
}

const struct machine_ops toy_machine = {.make = toy_make,
                                        .free = toy_free,
                                        .take = toy_take,
                                        .bytes = toy_bytes,
                                        .since = toy_since,
                                        .read = toy_read,
                                        .apply = toy_apply,
                                        .foresee = toy_foresee,
                                        .clock = toy_hear,
                                        .removed = toy_hear,
                                        .load_begin = toy_load_begin,
                                        .load_row = toy_load_row,
                                        .load_end = toy_load_end};
