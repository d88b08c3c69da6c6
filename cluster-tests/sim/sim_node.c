/*
 * sim_node.c - see sim_node.h. Thread: one.
 */
#include "cluster-tests/sim/sim_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/prepare.h"
#include "cluster-tests/sim/sim_check.h"
#include "cluster-tests/sim/sim_counter.h"
#include "cluster-tests/sim/sim_disk.h"
#include "cluster-tests/sim/sim_level.h"
#include "cluster-tests/sim/sim_net.h"
#include "cluster-tests/sim/sim_store.h"
#include "cluster-tests/sim/sim_strict.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/id/snowflake/snowflake.h"

#define SKEW_LEAST_MS 30000 /* more than a run lasts, that all of it may be lost */
#define LATE_ONE_IN 100
#define LATE_MS 5000 /* at most; the allocator waits for two seconds */

/* What the clock has lost in the drift by this time of the world. */
static uint64_t drifted_ms(const struct sim_node *node, uint64_t at_ms)
{
    const struct sim_drift *drift = &node->drift;
    uint64_t end_ms = at_ms < drift->until_ms ? at_ms : drift->until_ms;
    uint64_t span_ms = end_ms > drift->from_ms ? end_ms - drift->from_ms : 0;

    return drift->by > 1 ? span_ms - span_ms / drift->by : 0;
}

void sim_node_slow(struct sim_node *node, uint64_t until_ms, unsigned by)
{
    uint64_t now_ms = node->world->now_ms;

    node->skew_ms -= drifted_ms(node, now_ms);
    node->drift = (struct sim_drift){now_ms, until_ms > now_ms ? until_ms : now_ms, by};
    sim_trace(node->world, "node %u is slow by %u until %" PRIu64, node->id, by,
              node->drift.until_ms);
}

uint64_t sim_node_world_ms(const struct sim_node *node, uint64_t clock_ms)
{
    const struct sim_drift *drift = &node->drift;
    uint64_t at_ms = clock_ms > node->skew_ms ? clock_ms - node->skew_ms : 0;
    uint64_t slow_ms;

    if (drift->by <= 1 || at_ms <= drift->from_ms) {
        return at_ms;
    }
    slow_ms = (at_ms - drift->from_ms) * drift->by;
    if (slow_ms <= drift->until_ms - drift->from_ms) {
        return drift->from_ms + slow_ms;
    }
    return at_ms + drifted_ms(node, drift->until_ms);
}

static uint64_t node_now_ms(const struct clock *clock)
{
    const struct sim_node *node = clock->data;

    return node->world->now_ms + node->skew_ms - drifted_ms(node, node->world->now_ms);
}

static uint64_t node_wall_ms(const struct clock *clock)
{
    const struct sim_node *node = clock->data;

    return (uint64_t)((int64_t)(node->world->now_ms + SIM_WALL_MS) + node->wall_offset_ms);
}

static void on_failed(struct replica_listener *listener, int err, const char *text)
{
    struct sim_node *node = CONTAINER(listener, struct sim_node, listener);

    if (err == ERR_NEWER) { /* the next level: no more is ever raised, or stands in a snapshot */
        sim_trace(node->world, "node %u: %s", node->id, text);
        sim_level_too_old(node, (uint16_t)(node->able + 1));
        return;
    }
    if (err == ERR_DIVERGED && node->planted) { /* as it has to come (sim_planted.h) */
        sim_trace(node->world, "node %u: its state is another", node->id);
        node->gone = true;
        sim_happens(node, SIM_OLDER, 0);
        return;
    }
    if (err == ERR_STALE && node->set_back) { /* by the log, before anybody could refuse it */
        node->refused = true;
        sim_happens(node, SIM_OLDER, 0);
        return;
    }
    sim_fail(node->world, "node %u failed: %s: %s", node->id, err_code(err), text);
}

static void on_role_changed(struct replica_listener *listener)
{
    struct sim_node *node = CONTAINER(listener, struct sim_node, listener);
    const struct driver *driver = &node->replica.driver;

    if (driver_state(driver) == DRIVER_CANDIDATE) {
        node->world->stats.elections++;
    }
    sim_trace(node->world, "node %u: %s, term %" PRIu64 ", leader %" PRIu64, node->id,
              id_node_state_name((enum id_node_state)driver_state(driver)), driver_term(driver),
              driver_leader(driver));
}

static void on_installed(struct replica_listener *listener, uint64_t index)
{
    struct sim_node *node = CONTAINER(listener, struct sim_node, listener);

    node->world->stats.installs++;
    sim_trace(node->world, "node %u: snapshot installed at %" PRIu64, node->id, index);
}

static void on_route_changed(struct replica_listener *listener, uint64_t through)
{
    struct sim_node *node = CONTAINER(listener, struct sim_node, listener);

    sim_trace(node->world, "node %u reaches the leader through %" PRIu64, node->id, through);
}

static void on_removed(struct replica_listener *listener)
{
    struct sim_node *node = CONTAINER(listener, struct sim_node, listener);

    sim_happens(node, SIM_TOLD, 0);
}

/* --- answers that come late --- */

static void late_tell(struct sim_late *late)
{
    struct cluster_request *request = late->request;

    request->done = late->done;
    request->data = late->data;
    free(late);
    request->done(request);
}

static void on_granted(struct cluster_request *request)
{
    struct sim_late *late = request->data;
    struct sim_node *node = late->node;
    struct sim_world *world = node->world;

    if (!world->faults || !node->up || node->replica.context.stopping ||
        sim_below(world, LATE_ONE_IN) != 0) {
        late_tell(late);
        return;
    }
    STAILQ_INSERT_TAIL(&node->late, late, link);
    sim_happens(node, SIM_LATE, 1 + sim_below(world, LATE_MS));
}

static void propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct sim_node *node = CONTAINER(proposer, struct sim_node, ids.context.proposer);
    struct sim_late *late;

    sim_check_offered(node->world, request->payload.data, request->payload.len);
    if (request->payload.data[1] == COMMAND_GRANT) {
        late = MUST_HAVE(calloc(1, sizeof *late));
        late->node = node;
        late->request = request;
        late->done = request->done;
        late->data = request->data;
        request->done = on_granted;
        request->data = late;
    }
    id_service_submit(&node->ids, request);
}

void sim_node_late(struct sim_node *node)
{
    struct sim_late *late = STAILQ_FIRST(&node->late);

    if (late != NULL) {
        STAILQ_REMOVE_HEAD(&node->late, link);
        context_wake(&node->replica.context, WAKE_SEEN); /* as of each answer */
        late_tell(late);
    }
}

/* --- start and end --- */

/* The state machine's listener is the replica; the checker listens in. */
static void on_tag_changed(struct fsm_listener *listener, const struct tag_row *row,
                           const struct fsm_tag_before *before)
{
    struct sim_node *node = CONTAINER(listener, struct sim_node, ids.listener);

    sim_check_row(node, row);
    sim_strict_row(node->world, row);
    node->tag_changed(listener, row, before);
}

void sim_node_init(struct sim_world *world, unsigned n)
{
    struct sim_node *node = &world->nodes[n];

    node->world = world;
    node->id = n + 1;
    node->able = sim_level_first(world);
    snprintf(node->address, sizeof node->address, "sim:%u", n + 1);
    node->clock = (struct clock){.now_ms = node_now_ms, .wall_ms = node_wall_ms, .data = node};
    node->listener = (struct replica_listener){.failed = on_failed,
                                               .role_changed = on_role_changed,
                                               .installed = on_installed,
                                               .removed = on_removed,
                                               .route_changed = on_route_changed};
    sim_store_init(node);
    sim_net_init(node);
}

/* What the disk says goes into the story: it must be the same on every store. */
static void note_loaded(struct sim_world *world, const struct store_loaded *loaded)
{
    const struct store_position *position = &loaded->position;
    uint64_t rest[] = {loaded->incarnation, loaded->term,   loaded->first_index,
                       position->index,     position->term, position->conf_index,
                       position->digest,    loaded->vote,   position->conf_len};

    sim_note(world, hash_bytes(rest, sizeof rest, 0));
    sim_note(world, hash_bytes(position->conf, position->conf_len, 0));
    for (size_t i = 0; i < loaded->entry_count; i++) {
        const struct store_entry *entry = &loaded->entries[i];

        sim_note(world, hash_bytes(entry->data, entry->len, entry->term << 8 | entry->type));
    }
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        sim_note(world, hash_bytes(loaded->locals[i].data, loaded->locals[i].len, i));
    }
}

/* A term that the disk took is there, with its vote; a start may have raised it (prepare.h). */
static void check_hard_state(struct sim_node *node, const struct store_loaded *loaded)
{
    if (loaded->term < node->disk_term ||
        (loaded->term == node->disk_term && loaded->vote != node->disk_vote)) {
        sim_fail(node->world,
                 "node %u: its disk took a vote for %" PRIu64 " in term %" PRIu64
                 ", and has one for %" PRIu64 " in term %" PRIu64,
                 node->id, node->disk_vote, node->disk_term, loaded->vote, loaded->term);
    }
    node->disk_term = loaded->term;
    node->disk_vote = loaded->vote;
}

static struct service *service_of(struct sim_node *node)
{
    return node->world->counts ? &node->counter : &node->ids.base;
}

static struct state *load(struct sim_node *node, struct store_loaded *ret_loaded)
{
    struct net_peer members[SIM_NODES_MAX];
    struct store_error error = {{0}};
    struct state *state;
    uint32_t random;
    int rv;

    for (unsigned i = 0; i < node->world->first_count; i++) {
        members[i].id = i + 1;
        snprintf(members[i].address, sizeof members[i].address, "sim:%u", i + 1);
    }
    sim_store_open(node);
    do { /* with a newer leafd, when this one is too old for what is on the disk */
        state = state_new(service_of(node)->machine);
        state_speaks(state, sim_level_of(node));
        random = (uint32_t)prng_next(&node->world->prng);
        rv = prepare_load(node->store, state, ret_loaded, &error);
        if (rv == ERR_NEWER) {
            uint16_t level = state_level(state); /* or a later one, by an entry of the log */

            sim_level_renew(node, level > node->able ? level : (uint16_t)(node->able + 1));
            state_free(state);
        }
    } while (rv == ERR_NEWER);
    if (rv == 0) {
        rv = prepare_store(node->store, ret_loaded, node->id, random, members,
                           node->joins ? 0 : node->world->first_count, &error);
    }
    if (rv != 0) {
        sim_fail(node->world, "node %u does not load: %s", node->id, error.text);
    }
    note_loaded(node->world, ret_loaded);
    check_hard_state(node, ret_loaded);
    if (ret_loaded->incarnation != ++node->disk_incarnation) {
        sim_fail(node->world, "node %u: start %" PRIu64 " counts as %" PRIu64, node->id,
                 node->disk_incarnation, ret_loaded->incarnation);
    }
    return state;
}

static struct id_service_config ids_config_of(const struct sim_node *node)
{
    return (struct id_service_config){
        .allocator = {.cover_ms = 500, .request_ms = 2000, .retry_ms = 20},
        .strict_keys = SIM_KEYS,
        .key_percent = SIM_KEY_PERCENT,
        .lease = {.address = node->address,
                  .workers = node->id == 1 ? 2 : 1,
                  .window_ms = 2000,
                  .renew_ms = 300,
                  .mark_lead_ms = 150,
                  .threshold_ms = 500,
                  .layout = SNOWFLAKE_LEAF_LAYOUT},
    };
}

static void configure(struct sim_node *node, struct replica_config *ret_config)
{
    struct sim_world *world = node->world;

    memset(ret_config, 0, sizeof *ret_config);
    ret_config->driver.node_id = node->id;
    ret_config->driver.address = node->address;
    ret_config->driver.heartbeat_ms = 50;
    ret_config->driver.election_ms = 400;
    ret_config->driver.applier.snapshot_entries = 10 + (uint32_t)sim_below(world, 40);
    ret_config->driver.applier.trailing_entries = (uint32_t)sim_below(world, 30);
    ret_config->driver.applier.rows_hold_ms = (uint32_t)sim_below(world, 60);
    ret_config->driver.applier.rows_join_ms =
        (uint32_t)sim_below(world, ret_config->driver.applier.rows_hold_ms + 1);
    ret_config->driver.seed = prng_next(&world->prng);
    ret_config->driver.birth.uid = uid_make(prng_next(&world->prng), prng_next(&world->prng));
    ret_config->info.node_id = node->id;
    ret_config->info.store_id = 1000 + node->id;
    memcpy(ret_config->info.version, "sim", 4);
    memcpy(ret_config->info.peer_address, node->address, sizeof node->address);
    ret_config->digest_ms = 300;
    ret_config->clock = (struct clock_sync_config){.threshold_ms = 500, .renew_ms = 300};
    ret_config->cluster_id = "sim";
    ret_config->catch_up_ms = 2000;
    ret_config->upgrade = sim_level_config(world);
    ret_config->learned = &node->learned;
}

/* As if they had been made long before: which layouts there are is not what is tested here. They
 * begin at a time of their own, so that no window or mark ends with a unit. */
static void learn_layouts(struct sim_node *node)
{
    static const struct layout_row rows[SIM_LAYOUTS - 1] = {
        {.name = "ten",
         .name_len = 3,
         .layout = {{SNOWFLAKE_EPOCH_MS - 3, 39, 16, 8}, 10, LAYOUT_WORKER_LAST}},
        {.name = "second",
         .name_len = 6,
         .layout = {{SNOWFLAKE_EPOCH_MS - 321, 32, 10, 13}, 1000, LAYOUT_SEQUENCE_LAST}},
    };

    for (unsigned i = 0; i < SIM_LAYOUTS - 1; i++) {
        snowflake_learn(&node->ids.snowflake, &rows[i]);
    }
}

void sim_node_start(struct sim_node *node)
{
    const struct id_service_config ids = ids_config_of(node);
    struct store_loaded loaded;
    struct replica_config config;
    struct replica_parts parts = {.service = service_of(node),
                                  .disk = &node->disk.base,
                                  .net = &node->net,
                                  .clock = &node->clock,
                                  .loaded = &loaded};

    id_service_init(&node->ids, &ids);
    sim_counter_node_init(node);
    parts.state = load(node, &loaded);
    configure(node, &config);
    node->incarnation++;
    node->skew_ms = SKEW_LEAST_MS + sim_below(node->world, 100000);
    node->drift = (struct sim_drift){0};
    node->wake_at_ms = 0;
    node->paused_until_ms = 0;
    node->frozen_until_ms = 0;
    node->handing_over = false;
    node->met = 0;
    node->refused = false;
    node->stopping = false;
    node->giving_back = false;
    node->gave_back = false;
    memset(node->next_id, 0, sizeof node->next_id);
    memset(node->next_epoch, 0, sizeof node->next_epoch);
    memset(node->opening, 0, sizeof node->opening);
    sim_disk_init(&node->disk, node);
    node->up = true;
    sim_trace(node->world, "node %u starts: term %" PRIu64 ", log to %" PRIu64 ", applied %" PRIu64,
              node->id, loaded.term, (loaded.first_index + loaded.entry_count - 1),
              loaded.position.index);
    if (replica_start(&node->replica, &config, &parts, &node->listener) != 0) {
        sim_fail(node->world, "node %u does not start", node->id);
    }
    store_loaded_release(&loaded);
    sim_check_incarnation(node);
    STAILQ_INIT(&node->late);
    if (!node->world->counts) {
        learn_layouts(node);
        node->ids.context.proposer.propose = propose;
        node->tag_changed = node->ids.listener.tag_changed;
        node->ids.listener.tag_changed = on_tag_changed;
    }
    sim_turn(node);
    sim_net_node_changed(node, true);
}

static void close_node(struct sim_node *node)
{
    while (replica_turn(&node->replica)) {
        continue;
    }
    while (!STAILQ_EMPTY(&node->late)) {
        sim_node_late(node);
    }
    replica_close(&node->replica);
    service_of(node)->ops->release(service_of(node));
    sim_store_close(node);
    sim_net_node_changed(node, false);
}

void sim_node_crash(struct sim_node *node)
{
    ASSERT(node->up);
    sim_trace(node->world, "node %u crashes", node->id);
    node->up = false;
    node->incarnation++;
    node->world->stats.crashes++;
    driver_quiesce(&node->replica.driver);
    replica_stop(&node->replica);
    do { /* what the driver takes back may close a view, which is a read of its own */
        sim_disk_crash(&node->disk);
    } while (!driver_is_quiet(&node->replica.driver));
    close_node(node);
}

void sim_node_stop(struct sim_node *node)
{
    ASSERT(node->up);
    sim_trace(node->world, "node %u stops", node->id);
    replica_stop(&node->replica);
    while (replica_turn(&node->replica)) {
        continue;
    }
    driver_quiesce(&node->replica.driver);
    node->up = false;
    node->incarnation++;
    do {
        sim_disk_flush(&node->disk);
    } while (!driver_is_quiet(&node->replica.driver));
    close_node(node);
}

void sim_node_end(struct sim_node *node)
{
    if (sim_percent(node->world, 50)) {
        sim_node_crash(node);
    } else {
        sim_node_stop(node);
    }
}

void sim_node_free(struct sim_node *node)
{
    ASSERT(!node->up);
    sim_store_free(node);
}
