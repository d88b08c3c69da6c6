/*
 * replica.c - see replica.h. Thread: the raft loop.
 */
#include "raft/cluster/replica.h"

#include <stdlib.h>
#include <string.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"
#include "src/id/snowflake/snowflake.h"

#define SNAPSHOT_MORE_BYTES (64ULL << 20) /* sessions, and rows that data.memory-bytes leaves out */

/* --- what the parts report --- */

static void on_applied(struct driver_observer *observer, uint64_t index, uint64_t term,
                       const void *result, size_t len)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    serving_applied(&replica->requests.serving, index, term, result, len);
}

static void on_role_changed(struct driver_observer *observer)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    requests_role_changed(&replica->requests);
    replica->owner->role_changed(replica->owner);
}

static void on_installed(struct driver_observer *observer, uint64_t index)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    growth_reset(&replica->growth, ground_tags_ms(&replica->ground));
    compare_installed(&replica->compare);
    /* Indexes were jumped over: whatever was submitted has an unknown outcome. */
    requests_role_changed(&replica->requests);
    replica->owner->installed(replica->owner, index);
}

static void on_diverged(struct driver_observer *observer, uint64_t node_id, const char *text)
{
    compare_diverged(&CONTAINER(observer, struct replica, observer)->compare, node_id, text);
}

static void on_failed(struct driver_observer *observer, int err, const char *text)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    replica->owner->failed(replica->owner, err, text);
}

static void on_tag_changed(struct fsm_listener *listener, const struct tag_row *row)
{
    struct replica *replica = CONTAINER(listener, struct replica, listener);

    bool opened = replica->recalled && !row->recalling && !row->deleted &&
                  row->mode != TAG_MODE_TREND && replica->owner->tag_opened != NULL;

    replica->recalled = false;
    if (opened) {
        replica->owner->tag_opened(replica->owner, row);
    }
    allocator_tag_changed(replica->allocator, row);
    announce_tag_changed(&replica->announce, row);
}

static void on_tag_changes(struct fsm_listener *listener, const struct tag_row *row)
{
    struct replica *replica = CONTAINER(listener, struct replica, listener);

    replica->recalled = row->recalling;
    growth_note(&replica->growth, row, ground_tags_ms(&replica->ground));
}

static void on_worker_changed(struct fsm_listener *listener, const struct worker_row *row)
{
    lease_worker_changed(CONTAINER(listener, struct replica, listener)->lease, row);
}

static void on_layout_changed(struct fsm_listener *listener, const struct snowflake_layout *layout)
{
    lease_layout(CONTAINER(listener, struct replica, listener)->lease, layout);
}

static void on_named_layout_changed(struct fsm_listener *listener, const struct layout_row *row)
{
    snowflake_learn(&CONTAINER(listener, struct replica, listener)->snowflake, row);
}

static void on_lease_write(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                           void (*done)(void *data), void *done_data)
{
    struct replica *replica = CONTAINER(disk, struct replica, lease_disk);

    /* In its turn. A node that starts again without a leader knows only what its rows say: a record
     * of a grant that is not among them would be of no use to it. */
    applier_write(&replica->driver.applier, true);
    driver_write_local(&replica->driver, k, data, len, done, done_data);
}

static void on_propose(struct id_proposer *proposer, struct id_request *request)
{
    struct replica *replica = CONTAINER(proposer, struct replica, proposer);

    replica_submit(replica, request);
}

static void on_strict_answer(void *data, struct id_request *request, int status)
{
    struct replica *replica = data;

    if (status == 0) {
        allocator_answered(replica->allocator, request);
    }
    answers_put(&replica->answers, request, status);
}

/* --- the tags served lately, on the disk: fetched after a restart --- */

static void on_tags_write(void *data, unsigned number, const void *bytes, size_t len)
{
    struct replica *replica = data;

    ASSERT(number < LIMIT_LOCAL_LISTS);
    /* Nobody waits for it: a list that is not there is only slower. */
    driver_write_local(&replica->driver, LOCAL_LISTS_FIRST + number, bytes, len, NULL, NULL);
}

static void on_tag_fetch(void *data, const char *name, size_t len)
{
    struct replica *replica = data;
    const struct tag_row *row = fsm_tag(replica->fsm, name, len);
    struct id_tag *tag;

    if (row == NULL || row->deleted || row->mode != TAG_MODE_TREND) {
        return;
    }
    tag = allocator_open(replica->allocator, row);
    if (tag == NULL || segment_left(&tag->buffer) > 0 ||
        atomic_exchange(&tag->refill_wanted, true)) {
        return;
    }
    allocator_want(replica->allocator, tag);
}

static void start_prefetch(struct replica *replica, const struct store_loaded *loaded)
{
    const struct prefetch_ops ops = {
        .write = on_tags_write, .fetch = on_tag_fetch, .data = replica};

    replica->prefetch =
        prefetch_new(&replica->config.prefetch, &ops, replica->ground.clock, &replica->timers);
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        const struct buf *list = &loaded->locals[LOCAL_LISTS_FIRST + i];
        int rv = list->len > 0 ? prefetch_resume(replica->prefetch, i, list->data, list->len) : 0;

        if (rv != 0) { /* that costs a few first requests a round trip */
            log_warn("raft", "a list of recent tags does not read, and is left out",
                     "number=%u code=%s", i, err_code(rv));
        }
    }
    allocator_set_prefetch(replica->allocator, replica->prefetch);
}

/* --- start --- */

/*
 * The state machine tells the commands of one incarnation of this node from those of another by
 * this number (session.h), and peers tell incarnations (rollback.h); it must never be the same
 * twice. Its low half is random: a data directory that is set back to an older copy brings an older
 * count of starts with it. prepare_store() has drawn it, and has put it on the disk.
 */
static int number_of_incarnation(const struct store_loaded *loaded, uint64_t *ret_incarnation)
{
    const struct buf *record = &loaded->locals[LOCAL_INCARNATIONS];
    struct incarnations incarnations;
    int rv = incarnations_load(&incarnations, record->data, record->len);

    if (rv == 0) {
        *ret_incarnation = incarnations_newest(&incarnations);
    }
    return rv;
}

static bool has_keys(void *data, const struct id_request *request, uint64_t first)
{
    struct allocator *allocator = data;
    struct strict_item item;

    if (!allocator_has_rekeyable(allocator)) {
        return true; /* as nearly always: at no cost */
    }
    ASSERT(strict_item_decode(request->payload.data, request->payload.len, &item) == 0);
    return allocator_has_keys(allocator, item.name, item.name_len, first, item.count);
}

/* What hands out ids: all but snowflake ids. */
static void start_allocation(struct replica *replica, const struct store_loaded *loaded)
{
    const struct replica_config *config = &replica->config;

    replica->table = id_table_new(config->driver.seed);
    replica->allocator = allocator_new(&config->allocator, replica->table, replica->ground.clock,
                                       &replica->timers, &replica->proposer);
    ASSERT(replica->table != NULL && replica->allocator != NULL);
    replica->strict = strict_new(config->strict_keys, replica->ground.clock, &replica->timers,
                                 &replica->proposer, on_strict_answer, replica);
    dates_init(&replica->dates, &replica->ground);
    strict_dates(replica->strict, dates_period, &replica->dates);
    strict_keys(replica->strict, has_keys, replica->allocator);
    start_prefetch(replica, loaded);
    replica->listener = (struct fsm_listener){.tag_changed = on_tag_changed,
                                              .tag_changes = on_tag_changes,
                                              .worker_changed = on_worker_changed,
                                              .layout_changed = on_layout_changed,
                                              .named_layout_changed = on_named_layout_changed};
}

/* The generator, the lease with what the disk remembers of it, and the cluster's time. */
static int start_lease(struct replica *replica, const struct store_loaded *loaded)
{
    const struct lease_config *config = &replica->config.lease;
    const struct clock *clock = replica->ground.real_clock; /* snowflake: of other threads, too */
    struct snowflake_layout layout;
    const struct layout_row *named;
    uint32_t named_count;
    int rv = 0;

    ASSERT(config->workers <= LIMIT_WORKERS_PER_NODE);
    clock_sync_init(&replica->clock_sync, &replica->ground, config);
    snowflake_init(&replica->snowflake, clock);
    replica->lease = lease_new(config, &replica->snowflake, &replica->clock_sync.check, clock,
                               &replica->timers, &replica->proposer, &replica->lease_disk);
    for (unsigned k = 0; k < config->workers && rv == 0; k++) {
        if (loaded->locals[k].len > 0) {
            rv = lease_resume(replica->lease, k, loaded->locals[k].data, loaded->locals[k].len);
        }
    }
    if (fsm_layout(replica->fsm, &layout)) {
        lease_layout(replica->lease, &layout);
    }
    named = fsm_layouts(replica->fsm, &named_count);
    for (uint32_t i = 0; i < named_count; i++) {
        snowflake_learn(&replica->snowflake, &named[i]);
    }
    for (uint16_t id = 0; id < LIMIT_WORKER_IDS; id++) {
        const struct worker_row *row = fsm_worker(replica->fsm, id);

        if (row != NULL) {
            lease_worker_changed(replica->lease, row);
        }
    }
    return rv;
}

/* Which cluster this is, or is to be. */
static void start_births(struct replica *replica, const struct store_loaded *loaded)
{
    struct replica_config *config = &replica->config;
    struct birth_list list;

    birth_list_read(loaded, config->driver.node_id, config->cluster_id, &config->lease.layout,
                    &list);
    config->driver.birth.list_digest = list.digest;
    birth_watch_init(&replica->births, &replica->ground, &list,
                     config->learned != NULL ? &config->learned->birth : NULL);
}

/* Requests, links and the membership; lower parts first. */
static void start_requests(struct replica *replica, struct disk *disk)
{
    const struct replica_config *config = &replica->config;
    const struct ground *on = &replica->ground;

    upgrade_init(&replica->upgrade, on, &config->upgrade);
    membership_init(&replica->membership, on, config->catch_up_ms);
    replica->membership.upgrade = &replica->upgrade;
    requests_init(&replica->requests, on, &config->driver, &replica->membership,
                  replica->allocator);
    everywhere_init(&replica->everywhere, on);
    buffers_init(&replica->buffers, on, replica->allocator);
    membership_requests_init(&replica->membership_requests, on, &replica->requests);
    growth_init(&replica->growth, config->driver.seed, ground_tags_ms(&replica->ground));
    backups_init(&replica->backups, on, disk, &replica->growth, config->cluster_id,
                 config->driver.seed);
    peers_init(&replica->peers, on, &replica->births, config->learned, config->info.peer_address);
    announce_init(&replica->announce, on, &replica->requests.way, replica->table, &config->info,
                  config->digest_ms);
    standing_init(&replica->standing, on);
    compare_init(&replica->compare, on, disk, config->driver.seed);
}

static void start_differences(struct replica *replica)
{
    const struct replica_config *config = &replica->config;
    const struct differences_settings settings = {
        .members = config->members,
        .member_count = config->member_count,
        .address = config->info.peer_address,
        .layout = config->lease.workers > 0 ? &config->lease.layout : NULL,
    };

    differences_init(&replica->differences, &replica->ground, &settings);
}

static void start_health(struct replica *replica, const struct store_loaded *loaded)
{
    replica->health.of = (struct health_sources){.on = &replica->ground,
                                                 .way = &replica->requests.way,
                                                 .allocator = replica->allocator,
                                                 .strict = replica->strict,
                                                 .windows = replica->requests.serving.windows,
                                                 .lease = replica->lease,
                                                 .table = replica->table,
                                                 .differences = &replica->differences,
                                                 .births = &replica->births,
                                                 .clocks = &replica->clock_sync,
                                                 .cluster_id = replica->config.cluster_id};
    replica->health.start_last = loaded->first_index + loaded->entry_count - 1;
}

static void start_figures(struct replica *replica, struct disk *disk)
{
    const struct figures_sources of = {.on = &replica->ground,
                                       .requests = &replica->requests,
                                       .allocator = replica->allocator,
                                       .strict = replica->strict,
                                       .clocks = &replica->clock_sync,
                                       .backups = &replica->backups,
                                       .dates = &replica->dates,
                                       .disk = disk};

    figures_init(&replica->figures, &of);
}

static void follow_members(struct replica *replica)
{
    if (peers_turn(&replica->peers)) {
        clock_check_members(&replica->clock_sync.check,
                            driver_configuration(&replica->driver)->count);
        way_set_peers(&replica->requests.way, replica->peers.items, replica->peers.count);
    }
}

/* Which cluster this node, and the others, are of. */
static void turn_births(struct replica *replica)
{
    if (!birth_watch_turn(&replica->births) && !replica->apart) {
        replica->apart = true;
        replica->owner->failed(replica->owner, ERR_OTHER_BIRTH,
                               "most members belong to another cluster, which was born apart from "
                               "this node's: check cluster.members, peer.advertise and data.dir, "
                               "here and there");
    }
}

int replica_start(struct replica *replica, const struct replica_config *config, struct state *state,
                  struct disk *disk, struct net *net, const struct clock *clock,
                  struct replica_owner *owner, const struct store_loaded *loaded)
{
    int rv = 0;

    ASSERT(config->driver.node_id >= 1 && config->driver.node_id <= LIMIT_NODE_ID);
    memset(replica, 0, sizeof *replica);
    replica->config = *config;
    rv = number_of_incarnation(loaded, &replica->config.driver.incarnation);
    if (rv != 0) {
        return rv;
    }
    if (config->memory_bytes > 0) {
        /* What is already granted must pass, and other nodes may be set a little higher. */
        replica->config.driver.state_bytes = 2 * config->memory_bytes + SNAPSHOT_MORE_BYTES;
    }
    replica->config.info.incarnation = replica->config.driver.incarnation;
    replica->config.info.levels = state_levels(state);
    replica->owner = owner;
    replica->state = state;
    replica->fsm = fsm_of(state);
    replica->ground = (struct ground){.driver = &replica->driver,
                                      .memory_bytes = config->memory_bytes,
                                      .replace_lost = config->replace_lost,
                                      .net = net,
                                      .clock = &replica->clock.base,
                                      .real_clock = clock,
                                      .timers = &replica->timers,
                                      .state = state,
                                      .fsm = replica->fsm,
                                      .answers = &replica->answers,
                                      .proposer = &replica->proposer,
                                      .node_id = config->driver.node_id};
    loop_clock_init(&replica->clock, clock);
    timers_init(&replica->timers);
    answers_init(&replica->answers);
    replica->observer = (struct driver_observer){.applied = on_applied,
                                                 .role_changed = on_role_changed,
                                                 .installed = on_installed,
                                                 .diverged = on_diverged,
                                                 .failed = on_failed};
    replica->lease_disk.write = on_lease_write;
    replica->proposer.propose = on_propose;
    replica->joiner_incarnation = prepare_is_joiner(loaded) ? loaded->incarnation : 0;
    start_allocation(replica, loaded);
    rv = start_lease(replica, loaded);
    if (rv != 0) {
        return rv;
    }
    start_births(replica, loaded);
    start_requests(replica, disk);
    start_differences(replica);
    start_health(replica, loaded);
    start_figures(replica, disk);
    fsm_listen(replica->fsm, &replica->listener);
    /* At last: it may apply, and then tells all the others. */
    rv = driver_start(&replica->driver, &replica->config.driver, disk, net, replica->ground.clock,
                      &replica->timers, state, &replica->observer, loaded);
    if (rv != 0) {
        return rv;
    }
    turn_births(replica);
    follow_members(replica);
    atomic_store(&replica->health.seen.started, true);
    return 0;
}

/* --- requests --- */

/* A tag about which the leader is asked. */
struct open_request {
    struct id_request query;
    struct id_request *outer;
    struct replica *replica;
};

/* An answer that came round a cut link may be older than what the log has told since. */
static int open_row(struct replica *replica, const struct tag_row *row)
{
    const struct tag_row *own = fsm_tag(replica->fsm, row->name, row->name_len);
    bool newer = own != NULL && own->generation > row->generation;
    struct id_tag *tag = allocator_open(replica->allocator, newer ? own : row);

    return tag != NULL ? 0 : ERR_OVERLOADED;
}

static void on_queried(struct id_request *query)
{
    struct open_request *open = CONTAINER(query, struct open_request, query);
    struct tag_rows rows = {0};
    int status = query->status;

    if (status == 0) {
        status = tag_rows_decode(query->reply.data, query->reply.len, &rows);
    }
    if (status == 0) {
        status = rows.count == 1 ? open_row(open->replica, &rows.rows[0]) : ERR_UNKNOWN_TAG;
    }
    tag_rows_release(&rows);
    answers_put(&open->replica->answers, open->outer, status);
    buf_free(&query->payload);
    buf_free(&query->reply);
    free(open);
}

/* A tag known as exhausted may have been set back, or made again, a moment ago; one known as strict
 * is asked for here only when the log said that it is not. Then the leader's row tells, as for one
 * that is not known. */
static bool is_known(const struct tag_row *row, const struct id_tag *tag)
{
    uint32_t state = tag != NULL ? atomic_load(&tag->state) : ID_TAG_ACTIVE;

    return row != NULL && !row->deleted && (state == ID_TAG_ACTIVE || state == ID_TAG_UNKNOWN);
}

/* A tag that is asked for on this node for the first time gets its place in the id table, by what
 * is known here or the leader knows. No such tag: ERR_UNKNOWN_TAG; the table is full:
 * ERR_OVERLOADED. */
static void open_tag(struct replica *replica, struct id_request *request)
{
    const char *name = (const char *)request->payload.data;
    const struct tag_row *row = fsm_tag(replica->fsm, name, request->payload.len);
    const struct id_tag *tag = id_table_find(replica->table, name, request->payload.len);
    struct open_request *open;

    ASSERT(request->kind == ID_REQUEST_OPEN);
    if (is_known(row, tag) && !request->fresh) {
        answers_put(&replica->answers, request, open_row(replica, row));
        return;
    }
    open = MUST_HAVE(calloc(1, sizeof *open));
    open->outer = request;
    open->replica = replica;
    open->query.kind = ID_REQUEST_QUERY;
    open->query.deadline_ms = request->deadline_ms;
    open->query.done = on_queried;
    query_get_encode(&open->query.payload, name, request->payload.len);
    requests_submit(&replica->requests, &open->query);
}

void replica_submit(struct replica *replica, struct id_request *request)
{
    if (replica->ground.stopping) {
        answers_put(&replica->answers, request, ERR_SHUTTING_DOWN);
        return;
    }
    switch (request->kind) {
    case ID_REQUEST_COMMAND:
    case ID_REQUEST_QUERY:
    case ID_REQUEST_MONOTONIC:
        requests_submit(&replica->requests, request);
        break;
    case ID_REQUEST_OPEN:
        open_tag(replica, request);
        break;
    case ID_REQUEST_STRICT:
        strict_submit(replica->strict, request);
        break;
    case ID_REQUEST_MEMBER:
        membership_requests_submit(&replica->membership_requests, request);
        break;
    case ID_REQUEST_EVERYWHERE:
        everywhere_submit(&replica->everywhere, request);
        break;
    case ID_REQUEST_BACKUP:
        backups_submit(&replica->backups, request);
        break;
    case ID_REQUEST_STATUS:
        health_status(&replica->health, request->out);
        answers_put(&replica->answers, request, 0);
        break;
    case ID_REQUEST_BUFFERS:
        buffers_submit(&replica->buffers, request);
        break;
    case ID_REQUEST_SEGMENTS:
        answers_put(&replica->answers, request,
                    buffers_look(&replica->buffers, request->payload.data, request->payload.len,
                                 request->out)
                        ? 0
                        : ERR_BAD_MESSAGE);
        break;
    default:
        UNREACHABLE("kind of request");
    }
}

/* --- frames --- */

bool replica_receive(struct replica *replica, uint64_t from, enum frame_type type,
                     const uint8_t *payload, size_t len)
{
    switch (type) {
    case FRAME_RAFT:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_ACK:
    case FRAME_RESIGN:
    case FRAME_STANDING:
        return driver_receive(&replica->driver, from, type, payload, len);
    case FRAME_REQUEST:
    case FRAME_RELAY:
        return requests_receive(&replica->requests, from, type == FRAME_RELAY, payload, len);
    case FRAME_REPLY:
        return requests_receive_reply(&replica->requests, from, payload, len);
    case FRAME_PROBE:
        return way_receive(&replica->requests.way, from, payload, len);
    case FRAME_CONFIRM:
    case FRAME_CONFIRM_ACK:
        return rounds_receive(&replica->requests.serving.round, from, type, payload, len);
    case FRAME_APPLIED:
        return everywhere_receive(&replica->everywhere, from, payload, len);
    case FRAME_BUFFERS:
        return buffers_receive(&replica->buffers, from, payload, len);
    case FRAME_COMPARE:
        return compare_receive(&replica->compare, from, payload, len);
    case FRAME_COMPARED:
        return compare_receive_answer(&replica->compare, from, payload, len);
    case FRAME_CLOCK:
        return clock_sync_receive(&replica->clock_sync, from, payload, len);
    default:
        return false;
    }
}

void replica_link_changed(struct replica *replica, uint64_t peer, bool up)
{
    driver_link_changed(&replica->driver, peer, up);
    requests_link_changed(&replica->requests, peer, up);
    everywhere_link_changed(&replica->everywhere, peer);
    buffers_link_changed(&replica->buffers, peer);
    if (up) {
        standing_link_up(&replica->standing, peer);
    }
}

/* --- turns --- */

/* A later start of this node, or one that it never had, that the log knows; 0: none. */
static uint64_t superseded_by(const struct replica *replica)
{
    uint64_t known = state_node_start(replica->state, replica->ground.node_id);

    return known != 0 && !incarnations_include(&replica->driver.incarnations, known) ? known : 0;
}

/* What the log says of this node itself. It says nothing else before more of it is applied, and
 * this is asked in each turn. */
static void look_at_fate(struct replica *replica)
{
    uint64_t applied = driver_applied(&replica->driver)->index;

    if (replica->fate.looks > 0 && replica->fate.applied == applied) {
        return;
    }
    replica->fate.looks++;
    replica->fate.applied = applied;
    replica->fate.later_start = superseded_by(replica);
    replica->fate.removed = state_member_removed(replica->state, replica->ground.node_id);
}

/* What the owner has to hear about this node itself. */
static void turn_fate(struct replica *replica)
{
    uint64_t later_start;

    look_at_fate(replica);
    later_start =
        replica->fate.later_start != 0 ? replica->fate.later_start : replica->requests.superseded;
    if (!replica->removed && replica->fate.removed) {
        replica->removed = true;
        membership_requests_removed(&replica->membership_requests);
        replica->owner->removed(replica->owner);
    }
    if (!replica->superseded && later_start != 0) {
        replica->superseded = true;
        replica->owner->superseded(replica->owner, later_start);
    }
}

static void turn_members(struct replica *replica)
{
    bool disk_was_low = driver_disk_is_low(&replica->driver); /* as membership sees it, or before */

    follow_members(replica);
    /* With the log of the others: from now on an empty one is a loss. */
    if (replica->joiner_incarnation != 0 && driver_applied(&replica->driver)->conf_index > 0) {
        driver_mark_joined(&replica->driver, replica->joiner_incarnation);
        replica->joiner_incarnation = 0;
    }
    replica->requests.serving.holding = membership_turn(&replica->membership) || replica->draining;
    /* While another is to lead, what needs the log waits for it, or goes there. */
    replica->requests.serving.no_room = disk_was_low && !replica->requests.serving.holding;
}

/* The keys that the table may hold: strict.keys, and no more than there are once the memory of the
 * state is used up; and of these, one client. Each batch carries it, so that apply need not know of
 * memory. */
static void limit_keys(struct replica *replica)
{
    uint32_t limit = replica->config.strict_keys;
    uint64_t share = (uint64_t)limit * replica->config.key_percent / 100;
    struct fsm_usage usage;

    fsm_usage(replica->fsm, &usage);
    if (replica->config.memory_bytes > 0 &&
        state_memory(replica->state) >= replica->config.memory_bytes && usage.keys < limit) {
        limit = usage.keys > 0 ? (uint32_t)usage.keys : 1;
    }
    strict_limit_keys(replica->strict, limit, share > 0 ? (uint32_t)share : 1);
}

/* All that may lead to requests of this node. */
static void turn_parts(struct replica *replica)
{
    bool leader_known = way_is_known(&replica->requests.way);

    everywhere_turn(&replica->everywhere);
    backups_turn(&replica->backups);
    compare_turn(&replica->compare);
    turn_members(replica);
    turn_fate(replica);
    announce_turn(&replica->announce);
    differences_turn(&replica->differences);
    upgrade_turn(&replica->upgrade);
    if (upgrade_is_void(&replica->upgrade)) {
        requests_withdraw(&replica->requests, &replica->upgrade.command.request);
    }
    requests_tidy(&replica->requests);
    clock_sync_turn(&replica->clock_sync);
    dates_turn(&replica->dates);
    lease_turn(replica->lease);
    prefetch_turn(replica->prefetch, ground_tags_ms(&replica->ground), leader_known);
    allocator_turn(replica->allocator); /* after the prefetch, which wants segments */
    limit_keys(replica);
    strict_turn(replica->strict, leader_known);
}

/* What the turn does from now on, for who asks why it takes long. */
static void step(struct replica *replica, const char *doing)
{
    clock_look(replica->ground.clock);
    stall_step(&replica->health.seen.stall, ground_now_ms(&replica->ground), doing);
}

/*
 * First what came in is answered, and applied, which answers more, and what is late ends. Then all
 * that is to be sent is gathered, as late as can be, and leaves this node, or is appended here, in
 * one step. Answers are delivered before the parts take their turn, since an answer may lead to
 * another request, and at the end, so that nobody waits for the next turn.
 */
bool replica_turn(struct replica *replica)
{
    bool more;

    step(replica, "events and timers");
    turn_births(replica);
    driver_take_events(&replica->driver);
    answers_deliver(&replica->answers);
    step(replica, "applying entries");
    more = driver_turn(&replica->driver);
    step(replica, "requests");
    answers_deliver(&replica->answers);
    timers_run(&replica->timers, ground_now_ms(&replica->ground));
    if (!replica->ground.stopping) {
        turn_parts(replica);
    }
    requests_turn(&replica->requests);
    answers_deliver(&replica->answers);
    ASSERT(answers_are_none(&replica->answers));
    figures_turn(&replica->figures);
    if (health_update(&replica->health)) {
        replica->owner->way_changed(replica->owner,
                                    atomic_load(&replica->health.seen.leader_through));
    }
    clock_look(replica->ground.clock);
    return more;
}

uint64_t replica_next_ms(const struct replica *replica)
{
    return !answers_are_none(&replica->answers) || replica->requests.serving.again
               ? 0
               : timers_next_ms(&replica->timers);
}

/* --- the way to the end --- */

/* R10: what is left of the windows is given back before another leader reserves ids behind it. For
 * so long nothing is taken from them, and everything else goes on. */
static bool windows_are_back(struct replica *replica)
{
    struct windows *windows = replica->requests.serving.windows;
    uint64_t now_ms = ground_now_ms(&replica->ground);

    if (!driver_leads(&replica->driver)) {
        return true;
    }
    if (!windows_are_closed(windows)) {
        replica->windows_until_ms = now_ms + replica->config.driver.election_ms;
        windows_close(windows, &replica->proposer, replica->windows_until_ms);
    }
    return windows_given_back(windows) || now_ms >= replica->windows_until_ms;
}

bool replica_transfer(struct replica *replica)
{
    if (!windows_are_back(replica)) {
        return false;
    }
    if (driver_transfer(&replica->driver, 0)) {
        replica_transfer_end(replica); /* with nobody to hand it to it goes on as the leader */
        return true;
    }
    replica->draining = true;
    replica->requests.serving.holding = true;
    return false;
}

void replica_transfer_end(struct replica *replica)
{
    replica->draining = false;
    replica->requests.serving.holding = false;
    replica->requests.serving.starved_at = 0;
    windows_open(replica->requests.serving.windows);
}

static const struct tag_row *row_of(void *data, const char *name, size_t len)
{
    return fsm_tag(data, name, len);
}

void replica_give_back(struct replica *replica, uint64_t deadline_ms)
{
    ASSERT(!replica->ground.stopping);
    standing_stop(&replica->standing);
    /* While it shows which ids were used, and are left. */
    prefetch_save(replica->prefetch, ground_tags_ms(&replica->ground));
    allocator_give_back(replica->allocator, deadline_ms, row_of, replica->fsm);
    if (driver_leads(&replica->driver)) {
        windows_close(replica->requests.serving.windows, &replica->proposer, deadline_ms);
    }
}

bool replica_given_back(const struct replica *replica)
{
    return allocator_given_back(replica->allocator) &&
           windows_given_back(replica->requests.serving.windows);
}

void replica_stop(struct replica *replica)
{
    replica->ground.stopping = true;
    lease_stop(replica->lease);
    strict_stop(replica->strict);
    membership_requests_stop(&replica->membership_requests);
    everywhere_stop(&replica->everywhere);
    buffers_stop(&replica->buffers);
    backups_stop(&replica->backups);
    compare_stop(&replica->compare);
    requests_stop(&replica->requests); /* last: the others' queries and commands end by it */
}

void replica_close(struct replica *replica)
{
    ASSERT(replica->ground.stopping && answers_are_none(&replica->answers));
    requests_close(&replica->requests);
    driver_close(&replica->driver);
    growth_free(&replica->growth);
    strict_free(replica->strict);
    dates_free(&replica->dates);
    prefetch_free(replica->prefetch);
    allocator_free(replica->allocator);
    lease_free(replica->lease);
    state_free(replica->state);
}

void replica_release(struct replica *replica)
{
    figures_free(&replica->figures);
    snowflake_release(&replica->snowflake);
    id_table_free(replica->table);
}
