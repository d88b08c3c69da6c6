/*
 * lease_world.c - see lease_world.h. Thread: one.
 */
#include "src/id/snowflake/tests/lease_world.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define NEWS_MS 1000
#define SOMEBODY 100 /* a node that is none of the world's */
#define OF(pointer, member) CONTAINER(pointer, struct lease_node, member)

/* --- clocks --- */

static uint64_t node_now_ms(const struct clock *clock)
{
    const struct lease_node *node = clock->data;

    return node->world->true_ms - LEASE_WORLD_START_MS + node->id * 1000000;
}

static uint64_t node_wall_ms(const struct clock *clock)
{
    return lease_world_wall(clock->data);
}

uint64_t lease_world_wall(const struct lease_node *node)
{
    return node->world->true_ms + (uint64_t)node->off_ms;
}

/* --- the log --- */

static bool reaches_log(const struct lease_node *node)
{
    size_t connected = 0;

    for (size_t i = 0; i < node->world->node_count; i++) {
        connected += node->world->nodes[i].up && !node->world->nodes[i].cut;
    }
    return node->up && !node->cut && !node->world->log_down &&
           connected * 2 > node->world->node_count;
}

/* Append an entry and apply it; the result goes to *ret_result unless that is NULL. */
static void log_append(struct lease_world *world, const void *data, size_t len,
                       struct buf *ret_result)
{
    struct row_changes changes = {0};
    struct buf result = BUF_INIT;
    int err;

    if (world->entry_count == world->entry_capacity) {
        world->entry_capacity = world->entry_capacity > 0 ? world->entry_capacity * 2 : 256;
        world->entries = realloc(world->entries, world->entry_capacity * sizeof(struct buf));
        ASSERT(world->entries != NULL);
    }
    world->entries[world->entry_count] = (struct buf)BUF_INIT;
    buf_put(&world->entries[world->entry_count++], data, len);
    err = state_apply(fsm_state(world->log), world->entry_count, 1, data, len, &result, &changes);
    ASSERT(err == 0);
    row_changes_release(&changes);
    if (ret_result != NULL) {
        buf_move(ret_result, &result);
    }
    buf_free(&result);
}

static void node_apply(struct lease_node *node)
{
    struct lease_world *world = node->world;

    while (node->applied < world->entry_count) {
        const struct buf *entry = &world->entries[node->applied++];
        struct row_changes changes = {0};
        struct buf result = BUF_INIT;
        int err = state_apply(fsm_state(node->fsm), node->applied, 1, entry->data, entry->len,
                              &result, &changes);

        ASSERT(err == 0);
        row_changes_release(&changes);
        buf_free(&result);
        node->due = true;
    }
}

/* An empty state machine. */
static void node_forget(struct lease_node *node)
{
    if (node->fsm != NULL) {
        state_free(fsm_state(node->fsm));
    }
    node->fsm = fsm_of(state_new(&fsm_machine));
    fsm_listen(node->fsm, &node->listener);
    node->applied = 0;
}

static void on_worker_changed(struct fsm_listener *listener, const struct worker_row *row)
{
    struct lease_node *node = OF(listener, listener);

    if (node->up) {
        lease_worker_changed(node->lease, row);
    }
}

static void on_layout_changed(struct fsm_listener *listener, const struct snowflake_layout *layout)
{
    struct lease_node *node = OF(listener, listener);

    if (node->up) {
        lease_layout(node->lease, layout);
    }
}

/* Once, for as often as it is sent. */
static void stamp(struct lease_node *node, size_t at)
{
    struct session_stamp stamp;
    bool room = session_take(&node->session, &node->seqs[at]);

    ASSERT(room);
    stamp = session_stamp(&node->session, node->seqs[at]);
    node->lowests[at] = stamp.lowest;
    session_stamp_put(&node->requests[at]->payload, &stamp);
}

static void on_propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct lease_node *node = OF(proposer, proposer);
    size_t at = 0;

    ASSERT(node->up && request->kind == CLUSTER_REQUEST_COMMAND && request->payload.len > 0);
    ASSERT(request->deadline_ms > clock_now_ms(&node->clock));
    while (node->requests[at] != NULL) {
        at++;
        ASSERT(at < LIMIT_WORKERS_PER_NODE); /* one at a time a worker id */
    }
    node->requests[at] = request;
    stamp(node, at);
    node->send_ms[at] = node->world->true_ms + LEASE_WORLD_LOG_MS;
    node->sent[at] = false;
    node->proposal_count++;
}

static void finish(struct lease_node *node, size_t at, int status)
{
    struct cluster_request *request = node->requests[at];
    struct session_refusal refusal;

    /* Nobody stamps for a node but its newest incarnation. */
    ASSERT(!session_refusal_decode(request->reply.data, request->reply.len, &refusal));
    session_end(&node->session, node->seqs[at], status == 0 ? node->lowests[at] : 0,
                request->reply.len, false, clock_now_ms(&node->clock));
    node->requests[at] = NULL;
    node->due = true;
    request->status = status;
    request->done(request);
}

static void node_requests(struct lease_node *node)
{
    struct lease_world *world = node->world;

    for (size_t at = 0; at < LIMIT_WORKERS_PER_NODE; at++) {
        struct cluster_request *request = node->requests[at];
        bool comes;

        if (request == NULL || node->answers_held) {
            continue;
        }
        comes = node->send_ms[at] <= world->true_ms && reaches_log(node);
        if (comes) {
            log_append(world, request->payload.data, request->payload.len, &request->reply);
            node->sent[at] = true;
            node->send_ms[at] = world->true_ms + LEASE_WORLD_REPEAT_MS;
            if (world->copies) {
                buf_put_str32(&world->ghosts, request->payload.data, request->payload.len);
            }
        }
        if (comes && !node->deaf) {
            finish(node, at, 0);
            continue;
        }
        buf_free(&request->reply); /* applied, perhaps; nobody hears of it */
        if (request->deadline_ms <= clock_now_ms(&node->clock)) {
            finish(node, at, node->sent[at] ? ERR_TIMEOUT : ERR_NO_LEADER);
        }
    }
}

void lease_world_entry(struct lease_world *world, struct buf *command)
{
    id_stamp(&world->stamps, SOMEBODY, command);
    log_append(world, command->data, command->len, NULL);
    buf_free(command);
}

struct worker_result lease_world_command(struct lease_world *world, struct buf *command)
{
    struct buf reply = BUF_INIT;
    struct worker_result result;
    int err;

    id_stamp(&world->stamps, SOMEBODY, command);
    log_append(world, command->data, command->len, &reply);
    err = worker_result_decode(reply.data, reply.len, &result);
    ASSERT(err == 0);
    buf_free(&reply);
    return result;
}

void lease_world_ghosts(struct lease_world *world)
{
    struct buf ghosts = BUF_INIT;
    struct reader reader;

    buf_move(&ghosts, &world->ghosts);
    reader_init(&reader, ghosts.data, ghosts.len);
    while (reader_left(&reader) > 0) {
        size_t len;
        const uint8_t *bytes = reader_str32(&reader, &len);

        log_append(world, bytes, len, NULL);
    }
    buf_free(&ghosts);
}

void lease_world_restore(struct lease_world *world, size_t entries)
{
    ASSERT(entries <= world->entry_count);
    state_free(fsm_state(world->log));
    world->log = fsm_of(state_new(&fsm_machine));
    for (size_t i = 0; i < entries; i++) {
        struct row_changes changes = {0};
        struct buf result = BUF_INIT;
        int err = state_apply(fsm_state(world->log), i + 1, 1, world->entries[i].data,
                              world->entries[i].len, &result, &changes);

        ASSERT(err == 0);
        row_changes_release(&changes);
        buf_free(&result);
    }
    for (size_t i = entries; i < world->entry_count; i++) {
        buf_free(&world->entries[i]);
    }
    world->entry_count = entries;
    for (size_t i = 0; i < world->node_count; i++) {
        struct lease_node *node = &world->nodes[i];

        node_forget(node);
        node->lagging = true; /* until the test says otherwise */
    }
}

/* --- the disk --- */

static void on_write(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                     void (*done)(void *data), void *done_data)
{
    struct lease_node *node = OF(disk, disk);
    struct lease_world_write *write = &node->writes[k];

    ASSERT(node->up && k < LIMIT_WORKERS_PER_NODE);
    ASSERT(!write->busy); /* one at a time a worker id */
    write->busy = true;
    write->due_ms = node->world->true_ms + LEASE_WORLD_DISK_MS;
    write->done = done;
    write->done_data = done_data;
    buf_put(&write->bytes, data, len);
    node->write_count++;
}

static void write_finish(struct lease_node *node, unsigned k, bool durable)
{
    struct lease_world_write *write = &node->writes[k];

    if (durable) {
        buf_free(&node->records[k]);
        buf_move(&node->records[k], &write->bytes);
    }
    buf_free(&write->bytes);
    write->busy = false;
    node->due = true;
    write->done(write->done_data);
}

static void node_writes(struct lease_node *node)
{
    for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
        struct lease_world_write *write = &node->writes[k];

        if (write->busy && !node->disk_stuck && write->due_ms <= node->world->true_ms) {
            write_finish(node, k, true);
        }
    }
}

/* --- incarnations --- */

struct lease_world *lease_world_new(size_t nodes, uint32_t workers)
{
    struct lease_config config = {.address = "127.0.0.1:8080",
                                  .workers = workers,
                                  .window_ms = LEASE_WORLD_WINDOW_MS,
                                  .renew_ms = LEASE_WORLD_RENEW_MS,
                                  .mark_lead_ms = LEASE_WORLD_LEAD_MS,
                                  .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
                                  .layout = SNOWFLAKE_LEAF_LAYOUT};

    return lease_world_new_config(nodes, &config);
}

static void tell_time(struct lease_world *world, uint64_t cluster_ms)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_CLOCK, &(struct clock_command){.cluster_ms = cluster_ms});
    id_stamp(&world->stamps, SOMEBODY, &command);
    log_append(world, command.data, command.len, NULL);
    buf_free(&command);
}

struct lease_world *lease_world_new_config(size_t nodes, const struct lease_config *config)
{
    struct lease_world *world = calloc(1, sizeof *world);
    struct buf command = BUF_INIT;

    ASSERT(world != NULL && nodes >= 1 && nodes <= LEASE_WORLD_NODES);
    world->true_ms = LEASE_WORLD_START_MS;
    world->news_ms = world->true_ms + NEWS_MS;
    world->config = *config;
    world->log = fsm_of(state_new(&fsm_machine));
    world->node_count = nodes;
    command_put(&command, COMMAND_LAYOUT, &config->layout);
    id_stamp(&world->stamps, SOMEBODY, &command);
    log_append(world, command.data, command.len, NULL);
    buf_free(&command);
    tell_time(world, world->true_ms);
    for (size_t i = 0; i < nodes; i++) {
        struct lease_node *node = &world->nodes[i];

        node->world = world;
        node->id = i + 1;
        node->clock = (struct clock){.now_ms = node_now_ms, .wall_ms = node_wall_ms, .data = node};
        node->proposer.propose = on_propose;
        node->disk.write = on_write;
        node->listener = (struct fsm_listener){.worker_changed = on_worker_changed,
                                               .layout_changed = on_layout_changed};
        lease_world_wipe(node);
        lease_world_start(node);
    }
    return world;
}

void lease_world_wipe(struct lease_node *node)
{
    ASSERT(!node->up);
    node->store_id += node->id << 32 | 1;
    for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
        buf_free(&node->records[k]);
    }
    node_forget(node);
}

void lease_world_start(struct lease_node *node)
{
    struct lease_config config = node->world->config;
    struct snowflake_layout layout;

    ASSERT(!node->up);
    config.node_id = node->id;
    config.store_id = node->store_id;
    snowflake_init(&node->snowflake, &node->clock);
    clock_check_init(&node->check, config.threshold_ms);
    clock_check_members(&node->check, node->world->node_count);
    node->world->news_ms = node->world->true_ms; /* a node asks as soon as it starts */
    node->timers = (struct timers){.sequence = 0};
    node->lease = lease_new(&config, &node->snowflake, &node->check, &node->clock, &node->timers,
                            &node->proposer, &node->disk);
    session_init(&node->session, node->id, ++node->starts);
    node->up = true;
    node->due = true;
    for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
        const struct buf *record = &node->records[k];

        node->found[k] = (struct lease_record){0};
        if (record->len > 0) {
            int err = row_read(record->data, record->len, &lease_record_format, &node->found[k]);

            ASSERT(err == 0);
            err = lease_resume(node->lease, k, record->data, record->len);
            ASSERT(err == 0);
        }
    }
    if (fsm_layout(node->fsm, &layout)) {
        lease_layout(node->lease, &layout);
    }
    for (size_t at = 0; fsm_worker_at(node->fsm, at) != NULL; at++) {
        lease_worker_changed(node->lease, fsm_worker_at(node->fsm, at));
    }
}

void lease_world_crash(struct lease_node *node, bool writes_survive, bool commands_survive)
{
    ASSERT(node->up);
    lease_stop(node->lease);
    ASSERT(timers_next_ms(&node->timers) == UINT64_MAX);
    node->up = false;
    for (size_t at = 0; at < LIMIT_WORKERS_PER_NODE; at++) {
        struct cluster_request *request = node->requests[at];

        if (request == NULL) {
            continue;
        }
        if (commands_survive) {
            buf_put_str32(&node->world->ghosts, request->payload.data, request->payload.len);
        }
        finish(node, at, ERR_SHUTTING_DOWN);
    }
    for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
        if (node->writes[k].busy) {
            write_finish(node, k, writes_survive);
        }
    }
    lease_turn(node->lease);
    lease_free(node->lease);
    node->lease = NULL;
}

void lease_world_step_clock(struct lease_node *node, int64_t ms)
{
    node->off_ms += ms;
}

void lease_world_free(struct lease_world *world)
{
    for (size_t i = 0; i < world->node_count; i++) {
        struct lease_node *node = &world->nodes[i];

        if (node->up) {
            lease_world_crash(node, false, false);
        }
        lease_world_wipe(node);
        state_free(fsm_state(node->fsm));
    }
    for (size_t i = 0; i < world->entry_count; i++) {
        buf_free(&world->entries[i]);
    }
    free(world->entries);
    free(world->ranges);
    buf_free(&world->ghosts);
    state_free(fsm_state(world->log));
    free(world);
}

void lease_world_over(struct lease_world *world)
{
    lease_world_check(world);
    lease_world_free(world);
}

/* --- time --- */

/* Peers tell each other their clocks, and one that leads tells the log. */
static void news(struct lease_world *world)
{
    bool told = world->clock_mute;

    for (size_t i = 0; i < world->node_count; i++) {
        struct lease_node *node = &world->nodes[i];
        uint64_t now_ms = clock_now_ms(&node->clock);
        uint64_t wall_ms = lease_world_wall(node);
        size_t samples;

        for (size_t j = 0; j < world->node_count && !world->samples_off; j++) {
            const struct lease_node *peer = &world->nodes[j];

            if (i != j && node->up && !node->cut && peer->up && !peer->cut) {
                clock_check_sample(&node->check, peer->id, now_ms, now_ms, lease_world_wall(peer),
                                   wall_ms);
            }
        }
        if (!told && reaches_log(node)) {
            told = true;
            tell_time(world, clock_check_cluster_ms(&node->check, now_ms, wall_ms, &samples));
        }
    }
}

static uint64_t request_due_ms(const struct lease_node *node, size_t at)
{
    const struct cluster_request *request = node->requests[at];

    uint64_t deadline_ms;

    if (request == NULL || node->answers_held) {
        return UINT64_MAX;
    }
    deadline_ms = request->deadline_ms;
    if (deadline_ms != UINT64_MAX) {
        deadline_ms += node->world->true_ms - clock_now_ms(&node->clock);
    }
    return reaches_log(node) && node->send_ms[at] < deadline_ms ? node->send_ms[at] : deadline_ms;
}

/* The true time of the next thing that happens by itself, at most end_ms. */
static uint64_t next_event(const struct lease_world *world, uint64_t end_ms)
{
    uint64_t next_ms = world->news_ms < end_ms ? world->news_ms : end_ms;

    for (size_t i = 0; i < world->node_count; i++) {
        const struct lease_node *node = &world->nodes[i];
        uint64_t ms;

        if (!node->up) {
            continue;
        }
        ms = timers_next_ms(&node->timers);
        if (ms != UINT64_MAX) {
            uint64_t now_ms = clock_now_ms(&node->clock);

            ms = world->true_ms + (ms > now_ms ? ms - now_ms : 0);
            next_ms = ms < next_ms ? ms : next_ms;
        }
        for (unsigned k = 0; k < LIMIT_WORKERS_PER_NODE; k++) {
            if (node->writes[k].busy && !node->disk_stuck && node->writes[k].due_ms < next_ms) {
                next_ms = node->writes[k].due_ms;
            }
            ms = request_due_ms(node, k);
            next_ms = ms < next_ms ? ms : next_ms;
        }
    }
    return next_ms > world->true_ms ? next_ms : world->true_ms + 1;
}

static void node_run(struct lease_node *node)
{
    unsigned turns = 0;

    node_requests(node);
    node_writes(node);
    if (!node->lagging && reaches_log(node)) {
        node_apply(node);
    }
    while (node->due || atomic_load(&node->snowflake.wanted) ||
           timers_next_ms(&node->timers) <= clock_now_ms(&node->clock)) {
        node->due = false;
        timers_run(&node->timers, clock_now_ms(&node->clock));
        lease_turn(node->lease);
        turns++;
        ASSERT(turns < 10); /* it does not spin */
    }
}

static void run_once(struct lease_world *world)
{
    if (world->news_ms <= world->true_ms) {
        world->news_ms = world->true_ms + NEWS_MS;
        news(world);
    }
    for (size_t i = 0; i < world->node_count; i++) {
        if (world->nodes[i].up) {
            node_run(&world->nodes[i]);
        }
    }
}

void lease_world_run(struct lease_world *world, uint64_t ms)
{
    uint64_t end_ms = world->true_ms + ms;

    run_once(world);
    while (world->true_ms < end_ms) {
        world->true_ms = next_event(world, end_ms);
        run_once(world);
    }
}

void lease_world_settle(struct lease_world *world, uint64_t max_ms)
{
    uint64_t end_ms = world->true_ms + max_ms;

    for (;;) {
        size_t serving = 0;
        size_t wanted = 0;

        for (size_t i = 0; i < world->node_count; i++) {
            if (world->nodes[i].up) {
                serving += lease_world_status(&world->nodes[i]).serving;
                wanted += world->config.workers;
            }
        }
        if (serving == wanted) {
            return;
        }
        ASSERT(world->true_ms < end_ms);
        lease_world_run(world, 10);
    }
}

struct lease_world *lease_world_served(size_t nodes, uint32_t workers)
{
    struct lease_world *world = lease_world_new(nodes, workers);

    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    return world;
}
