/*
 * raft_ring.c - see raft_ring.h. Thread: the test's.
 */
#include "raft/tests/raft_ring.h"

#include <stdio.h>
#include <string.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/fsm/fsm_tables.h"

#define ROUNDS_MAX 100000 /* of a ring_settle(): more is a storm */
#define STEP_MS 5

static const char *const ADDRESSES[RING_MAX + 1] = {"",       "ring:1", "ring:2",
                                                    "ring:3", "ring:4", "ring:5"};

struct ring_node *ring_node(struct ring *ring, uint64_t id)
{
    ASSERT(id >= 1 && id <= ring->count);
    return &ring->nodes[id - 1];
}

/* --- a node's life --- */

static void on_failed(struct replica_listener *listener, int err, const char *text)
{
    struct ring_node *node = CONTAINER(listener, struct ring_node, listener);

    snprintf(node->failed_text, sizeof node->failed_text, "%s", text);
    node->failed_count++;
    node->failed_err = err;
}

static void on_removed(struct replica_listener *listener)
{
    CONTAINER(listener, struct ring_node, listener)->removed_count++;
}

static void on_installed(struct replica_listener *listener, uint64_t index)
{
    (void)index;
    CONTAINER(listener, struct ring_node, listener)->installed_count++;
}

static uint64_t node_now_ms(const struct clock *clock)
{
    const struct ring_node *node = clock->data;

    return clock_now_ms(&node->ring->clock.base);
}

static uint64_t node_wall_ms(const struct clock *clock)
{
    const struct ring_node *node = clock->data;

    return clock_wall_ms(&node->ring->clock.base) + (uint64_t)node->wall_ahead_ms;
}

static struct state *load(struct ring_node *node, struct store_loaded *ret_loaded)
{
    struct net_peer members[RING_MAX] = {0};
    struct store_error error = {{0}};
    struct state *state = state_new(node->ids.base.machine);
    const struct level_range speaks = {LEVEL_FIRST, node->able > 0 ? node->able : LEVEL_FIRST};
    unsigned count = node->ring->count - node->ring->joiners;
    int rv;

    for (unsigned i = 0; i < count; i++) {
        members[i].id = i + 1;
        memcpy(members[i].address, ADDRESSES[i + 1], sizeof "ring:1");
    }
    state_speaks(state, speaks);
    rv = prepare_load(node->store, state, ret_loaded, &error);
    if (rv == 0) {
        rv = prepare_store(node->store, ret_loaded, node->id, (uint32_t)node->id, members,
                           node->id > count ? 0 : count, &error);
    }
    if (rv != 0) {
        fprintf(stderr, "node %u does not load: %s\n", (unsigned)node->id, error.text);
    }
    ASSERT(rv == 0);
    return state;
}

static void configure(struct ring_node *node, struct replica_config *ret_config)
{
    struct ring *ring = node->ring;

    memset(ret_config, 0, sizeof *ret_config);
    ret_config->driver.node_id = node->id;
    ret_config->driver.address = ADDRESSES[node->id];
    ret_config->driver.heartbeat_ms = RING_HEARTBEAT_MS;
    ret_config->driver.election_ms = RING_ELECTION_MS;
    ret_config->driver.applier.snapshot_entries =
        ring->snapshot_entries > 0 ? ring->snapshot_entries : 1000;
    ret_config->driver.applier.rows_join_ms = ring->rows_hold_ms;
    ret_config->driver.applier.rows_hold_ms = ring->rows_hold_ms;
    ret_config->driver.seed = (node->incarnations << 32) + node->id;
    ret_config->driver.birth.uid = uid_make(node->incarnations, node->id);
    ret_config->info.node_id = node->id;
    ret_config->info.store_id = 1000 + node->id;
    memcpy(ret_config->info.version, "ring", 5);
    memcpy(ret_config->info.http_address, node->http_address, sizeof node->http_address);
    ret_config->digest_ms = ring->digest_ms;
    ret_config->cluster_id = "ring";
    ret_config->catch_up_ms = RING_CATCH_UP_MS;
    ret_config->upgrade = ring->upgrade;
    if (ring->keeps_time) {
        ret_config->clock = (struct clock_sync_config){.threshold_ms = 500, .renew_ms = 300};
    }
    ret_config->memory_bytes = ring->memory_bytes;
}

static void ids_init(struct ring_node *node)
{
    const struct ring *ring = node->ring;
    struct id_service_config config = {
        .allocator = {.cover_ms = REFILL_DEFAULT_COVER_MS, .request_ms = 2000, .retry_ms = 20},
        .strict_keys = ring->strict_keys > 0 ? ring->strict_keys : 1000,
        .key_percent = 25};

    if (ring->keeps_time) {
        config.lease = (struct lease_config){.address = ADDRESSES[node->id],
                                             .workers = ring->workers,
                                             .window_ms = 2000,
                                             .renew_ms = 300,
                                             .mark_lead_ms = 150,
                                             .threshold_ms = 500,
                                             .layout = SNOWFLAKE_LEAF_LAYOUT};
    }
    id_service_init(&node->ids, &config);
}

static void meet(struct ring_node *node, struct ring_node *peer)
{
    struct wire_statement said;
    struct buf statement = BUF_INIT;
    int rv;

    peers_state(&peer->replica.peers.receiver, &statement);
    ASSERT(wire_statement_decode(statement.data, statement.len, &said) == 0);
    rv = peers_check(&node->replica.peers, peer->id, &(struct net_presence){0}, &said);
    buf_free(&statement);
    ASSERT(rv == 0);
}

/* Others notice at once that a node went or came. */
static void tell_others(struct ring *ring, uint64_t id, bool up)
{
    for (unsigned i = 0; i < ring->count; i++) {
        struct ring_node *node = &ring->nodes[i];

        if (node->up && node->id != id) {
            node->net.down[id] = !up;
            replica_link_changed(&node->replica.peers.receiver, id, up);
        }
        if (up) {
            ring->nodes[id - 1].net.down[i + 1] = !node->up;
        }
        if (up && node->up && node->id != id && ring->meet) {
            meet(node, &ring->nodes[id - 1]);
            meet(&ring->nodes[id - 1], node);
        }
    }
}

int ring_meet(struct ring *ring, uint64_t from, uint64_t to)
{
    struct wire_statement said;
    struct buf statement = BUF_INIT;
    int rv;

    peers_state(&ring_node(ring, from)->replica.peers.receiver, &statement);
    birth_watch_speaks(&ring_node(ring, to)->replica.peers.births, from,
                       ring_node(ring, from)->replica.state->facts.speaks);
    ASSERT(wire_statement_decode(statement.data, statement.len, &said) == 0);
    rv = birth_watch_judge(&ring_node(ring, to)->replica.peers.births, from, &said.birth);
    buf_free(&statement);
    return rv;
}

/* It dials the others, and they dial it. Where a liar has made two of them think otherwise of the
 * cluster, they would have no link: that is not shown here. */
static void introduce(struct ring *ring, struct ring_node *node)
{
    for (unsigned i = 0; i < ring->count; i++) {
        struct ring_node *other = &ring->nodes[i];

        if (other->up && other != node) {
            (void)ring_meet(ring, node->id, other->id);
            (void)ring_meet(ring, other->id, node->id);
        }
    }
}

void ring_restart(struct ring *ring, uint64_t id)
{
    struct ring_node *node = ring_node(ring, id);
    struct replica_config config;
    struct store_loaded loaded;
    struct replica_parts parts = {.service = &node->ids.base,
                                  .disk = &node->disk.base,
                                  .net = &node->net.base,
                                  .clock = &node->clock,
                                  .loaded = &loaded};

    ASSERT(!node->up);
    ids_init(node);
    parts.state = load(node, &loaded);
    node->incarnations++;
    node->up = true;
    node->disk_held = false;
    configure(node, &config);
    fake_disk_init(&node->disk, node->store);
    fake_net_init(&node->net);
    ASSERT(replica_start(&node->replica, &config, &parts, &node->listener) == 0);
    store_loaded_release(&loaded);
    tell_others(ring, id, true);
    if (!ring->apart) {
        introduce(ring, node);
    }
}

void ring_plant(struct ring *ring, uint64_t id, const char *tag, int64_t by)
{
    struct replica *replica = &ring_node(ring, id)->replica;
    struct fsm *fsm = ring_node(ring, id)->ids.context.fsm;
    struct fsm_row *row = fsm_tags_find(&fsm->tags, tag, strlen(tag));

    ASSERT(row != NULL);
    applier_hold(&replica->driver.applier);
    replica->state->journal.changes = &replica->driver.applier.rows;
    fsm_tags_change_begin(fsm, row);
    row->max_id += (uint64_t)by;
    fsm_tags_change_end(fsm, row);
    replica->state->journal.changes = NULL;
    applier_hold(&replica->driver.applier);
    (void)replica_turn(replica);
}

void ring_crash(struct ring *ring, uint64_t id)
{
    struct ring_node *node = ring_node(ring, id);

    ASSERT(node->up && !node->paused);
    node->up = false;
    driver_quiesce(&node->replica.driver);
    replica_stop(&node->replica);
    do { /* what the driver takes back may close a view, which is a read of its own */
        fake_disk_lose(&node->disk);
    } while (!driver_is_quiet(&node->replica.driver));
    while (replica_turn(&node->replica)) {
        continue;
    }
    replica_close(&node->replica);
    node->ids.base.ops->release(&node->ids.base);
    fake_net_free(&node->net);
    node->store->ops->close(node->store);
    store_mem_reopen(node->store);
    tell_others(ring, id, false);
    ring_settle(ring);
}

void ring_start(struct ring *ring, unsigned count)
{
    ASSERT(count > ring->joiners && count <= RING_MAX);
    ring->count = count;
    fake_clock_init(&ring->clock, 1000);
    for (unsigned i = 0; i < count; i++) {
        struct ring_node *node = &ring->nodes[i];
        struct store_identity identity = {.cluster_id = "ring", .node_id = i + 1};

        node->ring = ring;
        node->id = i + 1;
        node->clock = (struct clock){.now_ms = node_now_ms, .wall_ms = node_wall_ms, .data = node};
        STAILQ_INIT(&node->inbox);
        node->listener = (struct replica_listener){
            .failed = on_failed, .installed = on_installed, .removed = on_removed};
        identity.store_id = 1001 + i;
        node->store = store_mem_new(&identity);
        snprintf(node->http_address, sizeof node->http_address, "http:%u", i + 1);
    }
    for (unsigned i = 0; i < count; i++) {
        ring_restart(ring, i + 1);
    }
}

void ring_close(struct ring *ring)
{
    for (unsigned i = 0; i < ring->count; i++) {
        if (ring->nodes[i].up) {
            ring_crash(ring, i + 1);
        }
        store_mem_free(ring->nodes[i].store);
    }
}

/* --- what happens --- */

/* Is a frame lost? Links that are cut lose it without a word, as a sender often knows nothing. */
static bool is_lost(const struct ring *ring, uint64_t from, const struct fake_frame *frame)
{
    return frame->to > ring->count || ring->cut[from][frame->to] || ring->lost[frame->type] ||
           !ring->nodes[frame->to - 1].up;
}

static void arrive(struct ring *ring, struct ring_node *to, uint64_t from, struct fake_frame *frame)
{
    ring->passed[frame->type]++;
    ring->refused += !replica_receive(&to->replica.peers.receiver, from, frame->type,
                                      frame->payload.data, frame->payload.len);
    fake_frame_free(frame);
    (void)replica_turn(&to->replica);
}

void ring_pause(struct ring *ring, uint64_t id)
{
    ring_node(ring, id)->paused = true;
}

void ring_resume(struct ring *ring, uint64_t id)
{
    struct ring_node *node = ring_node(ring, id);
    struct fake_frame *frame;

    node->paused = false;
    while ((frame = STAILQ_FIRST(&node->inbox)) != NULL) {
        STAILQ_REMOVE_HEAD(&node->inbox, link);
        arrive(ring, node, frame->to, frame);
    }
}

/* Deliver what a node has sent; true if there was anything. */
static bool deliver(struct ring *ring, struct ring_node *from)
{
    size_t n = from->net.frame_count;
    bool any = n > 0;

    while (n-- > 0) {
        struct fake_frame *frame = fake_net_take(&from->net);

        if (is_lost(ring, from->id, frame)) {
            fake_frame_free(frame);
        } else if (ring->nodes[frame->to - 1].paused) {
            struct ring_node *to = ring_node(ring, frame->to);

            frame->to = from->id;
            STAILQ_INSERT_TAIL(&to->inbox, frame, link);
        } else {
            arrive(ring, ring_node(ring, frame->to), from->id, frame);
        }
    }
    return any;
}

static bool node_round(struct ring *ring, struct ring_node *node)
{
    bool moved = false;

    if (!node->up) {
        return false;
    }
    if (node->paused) {
        return deliver(ring, node); /* what it has written already is on its way */
    }
    moved = replica_turn(&node->replica);
    while (!node->disk_held && fake_disk_step(&node->disk)) {
        (void)replica_turn(&node->replica);
        moved = true;
    }
    return deliver(ring, node) || moved;
}

void ring_settle(struct ring *ring)
{
    bool moved = true;

    for (unsigned round = 0; moved; round++) {
        ASSERT(round < ROUNDS_MAX);
        moved = false;
        for (unsigned i = 0; i < ring->count; i++) {
            moved = node_round(ring, &ring->nodes[i]) || moved;
        }
    }
}

void ring_run_ms(struct ring *ring, uint64_t ms)
{
    uint64_t end = ring->clock.now_ms + ms;

    ring_settle(ring);
    while (ring->clock.now_ms < end) {
        uint64_t left = end - ring->clock.now_ms;

        ring->clock.now_ms += left < STEP_MS ? left : STEP_MS;
        ring_settle(ring);
    }
}

static uint64_t agreed_leader(struct ring *ring)
{
    uint64_t leader = 0;

    for (unsigned i = 0; i < ring->count; i++) {
        struct driver *driver = &ring->nodes[i].replica.driver;

        if (ring->nodes[i].up && driver_leads(driver)) {
            leader = i + 1;
        }
    }
    for (unsigned i = 0; i < ring->count && leader > 0; i++) {
        bool reached = ring->nodes[i].up && !ring->cut[leader][i + 1] &&
                       driver_applied(&ring->nodes[i].replica.driver)->conf_index > 0;

        if (reached && driver_leader(&ring->nodes[i].replica.driver) != leader) {
            return 0;
        }
    }
    return leader;
}

uint64_t ring_elect(struct ring *ring)
{
    uint64_t leader = 0;

    for (unsigned i = 0; i < 4000 && leader == 0; i++) {
        ring_run_ms(ring, STEP_MS);
        leader = agreed_leader(ring);
    }
    ASSERT(leader != 0);
    return leader;
}

void ring_isolate(struct ring *ring, uint64_t id, bool cut)
{
    for (uint64_t other = 1; other <= ring->count; other++) {
        ring->cut[id][other] = cut;
        ring->cut[other][id] = cut;
    }
}

uint64_t ring_follower(struct ring *ring)
{
    for (uint64_t id = 1; id <= ring->count; id++) {
        struct ring_node *node = ring_node(ring, id);

        if (node->up && !driver_is_leader(&node->replica.driver)) {
            return id;
        }
    }
    ASSERT(false);
    return 0;
}

int ring_role(struct ring *ring, uint64_t on, uint64_t id)
{
    const struct conf_member *server = driver_member(&ring_node(ring, on)->replica.driver, id);

    return server != NULL ? server->role : ROLE_GONE;
}

/* --- requests --- */

static void asked_done(struct cluster_request *request)
{
    CONTAINER(request, struct asked, base)->done++;
}

static void asked_init(struct asked *asked, unsigned kind)
{
    memset(asked, 0, sizeof *asked);
    asked->base.kind = kind;
    asked->base.done = asked_done;
}

void asked_put(struct asked *asked, const char *tag, uint32_t step)
{
    struct tag_put put = {.name = tag, .name_len = (uint16_t)strlen(tag)};

    asked_init(asked, CLUSTER_REQUEST_COMMAND);
    put.fields = TAG_FIELD_STEP | TAG_FIELD_MAX_STEP;
    put.step = step;
    put.max_step = step;
    command_put(&asked->base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.force = false, .wall_ms = FAKE_WALL_MS});
    command_item_put(&asked->base.payload, COMMAND_TAGS_PUT, &put);
    command_items_end(&asked->base.payload);
}

void asked_delete(struct asked *asked, const char *tag)
{
    asked_init(asked, CLUSTER_REQUEST_COMMAND);
    command_put(&asked->base.payload, COMMAND_TAG_DELETE,
                &(struct delete_command){
                    .name = tag, .name_len = (uint16_t)(strlen(tag)), .wall_ms = FAKE_WALL_MS});
}

void asked_get(struct asked *asked, const char *tag)
{
    asked_init(asked, CLUSTER_REQUEST_QUERY);
    query_get_encode(&asked->base.payload, tag, strlen(tag));
}

void asked_open(struct asked *asked, const char *tag)
{
    asked_init(asked, ID_REQUEST_OPEN);
    buf_put(&asked->base.payload, tag, strlen(tag));
}

void asked_member(struct asked *asked, enum member_ask_kind kind, uint64_t node_id,
                  const char *address)
{
    struct member_ask member = {.kind = (uint8_t)kind, .node_id = node_id};

    memcpy(member.address, address, strlen(address));
    asked_get(asked, "x");
    asked->base.kind = CLUSTER_REQUEST_MEMBER;
    buf_free(&asked->base.payload);
    member_ask_encode(&member, &asked->base.payload);
}

void asked_everywhere(struct asked *asked, uint64_t index, struct missing_members *missing)
{
    asked_init(asked, CLUSTER_REQUEST_BARRIER);
    asked->base.index = index;
    asked->base.out = missing;
}

void asked_buffers(struct asked *asked, struct id_buffers *out)
{
    asked_init(asked, ID_REQUEST_BUFFERS);
    query_list_encode(&asked->base.payload, "", 0, "", 0, 100);
    asked->base.out = out;
}

void asked_free(struct asked *asked)
{
    buf_free(&asked->base.payload);
    buf_free(&asked->base.reply);
}

void ring_turn(struct ring *ring, uint64_t id)
{
    while (replica_turn(&ring_node(ring, id)->replica)) {
        continue;
    }
}

void ask(struct ring *ring, uint64_t id, struct asked *asked, uint64_t patience_ms)
{
    struct ring_node *node = ring_node(ring, id);

    asked->base.deadline_ms = ring->clock.now_ms + patience_ms;
    id_service_submit(&node->ids, &asked->base);
    ring_turn(ring, id);
}

void ring_member_done(struct ring *ring, struct asked *asked)
{
    struct member_answer answer;

    for (unsigned i = 0; asked->done == 0 && i < 1000; i++) {
        ring_run_ms(ring, STEP_MS);
    }
    ASSERT(asked->done == 1 && asked->base.status == 0);
    ASSERT(member_answer_decode(asked->base.reply.data, asked->base.reply.len, &answer) == 0);
    ASSERT(answer.outcome == MEMBER_DONE);
    asked_free(asked);
}

void ring_make(struct ring *ring, uint64_t id, const char *tag, uint32_t step)
{
    struct asked asked;

    asked_put(&asked, tag, step);
    ask(ring, id, &asked, 1000);
    ring_settle(ring);
    while (asked.done == 0) { /* a peer that the leader has doubts of waits for a heartbeat */
        ring_run_ms(ring, 1);
    }
    ASSERT(asked.base.status == 0);
    asked_free(&asked);
}

const struct tag_row *ring_row(struct ring *ring, uint64_t id, const char *tag)
{
    return fsm_tag(ring_node(ring, id)->ids.context.fsm, tag, strlen(tag));
}

uint64_t ring_take(struct ring *ring, uint64_t id, const char *tag, uint32_t n)
{
    struct id_service *ids = &ring_node(ring, id)->ids;
    struct id_tag *entry = id_table_find(ids->table, tag, strlen(tag));
    struct segment_range range;
    struct segment_view view;

    ASSERT(entry != NULL);
    for (unsigned i = 0; i < 1000; i++) {
        if (segment_claim(&entry->buffer, n, n, &range, &view) == 0) {
            return range.first;
        }
        if (!atomic_exchange(&entry->refill_wanted, true)) {
            allocator_want(ids->allocator, entry);
        }
        ring_run_ms(ring, STEP_MS);
    }
    ASSERT(false);
    return 0;
}
