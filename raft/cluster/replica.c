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

#define SNAPSHOT_MORE_BYTES (64ULL << 20) /* sessions, and rows that data.memory-bytes leaves out */

/* --- what the parts report --- */

static void on_applied(struct driver_observer *observer, uint64_t index, uint64_t term,
                       const void *result, size_t len)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    serving_applied(&replica->requests.serving, index, term, result, len);
}

static void replica_role_changed_cb(struct driver_observer *observer)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    ground_wake(&replica->ground, WAKE_ALL);
    requests_role_changed(&replica->requests);
    replica->owner->role_changed(replica->owner);
}

static void on_configured(struct driver_observer *observer)
{
    ground_wake(&CONTAINER(observer, struct replica, observer)->ground, WAKE_ALL);
}

static void replica_installed_cb(struct driver_observer *observer, uint64_t index)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    compare_installed(&replica->compare);
    /* Indexes were jumped over: whatever was submitted has an unknown outcome. */
    requests_role_changed(&replica->requests);
    replica->ground.service->ops->installed(replica->ground.service, index);
    if (replica->owner->installed != NULL) {
        replica->owner->installed(replica->owner, index);
    }
}

static void on_diverged(struct driver_observer *observer, uint64_t node_id, const char *text)
{
    compare_diverged(&CONTAINER(observer, struct replica, observer)->compare, node_id, text);
}

static void replica_failed_cb(struct driver_observer *observer, int err, const char *text)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    replica->owner->failed(replica->owner, err, text);
}

static void on_submit(const struct ground *on, struct cluster_request *request)
{
    replica_submit(CONTAINER(on, struct replica, ground), request);
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

/* Which cluster this is, or is to be. */
static void start_births(struct replica *replica, const struct store_loaded *loaded)
{
    struct replica_config *config = &replica->config;
    struct birth_list list;

    birth_list_read(loaded, config->driver.node_id, config->cluster_id, replica->ground.service,
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
    requests_init(&replica->requests, on, &config->driver, &replica->membership);
    everywhere_init(&replica->everywhere, on);
    membership_requests_init(&replica->membership_requests, on, &replica->requests);
    clock_sync_init(&replica->clock_sync, on, &config->clock);
    peers_init(&replica->peers, on, &replica->births, config->learned, config->info.peer_address);
    announce_init(&replica->announce, on, &replica->requests.way, &config->info, config->digest_ms);
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
    };

    differences_init(&replica->differences, &replica->ground, &settings);
}

static void follow_members(struct replica *replica)
{
    if (peers_turn(&replica->peers)) {
        clock_check_members(&replica->clock_sync.check,
                            driver_configuration(&replica->driver)->count);
        way_set_peers(&replica->requests.way, replica->peers.items, replica->peers.count);
        ground_wake(&replica->ground, WAKE_CLOCK_SYNC | WAKE_REQUESTS);
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

int replica_start(struct replica *replica, const struct replica_config *config,
                  const struct replica_parts *parts, struct replica_owner *owner)
{
    const struct store_loaded *loaded = parts->loaded;
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
    replica->config.info.levels = state_levels(parts->state);
    replica->owner = owner;
    replica->state = parts->state;
    replica->ground = (struct ground){.driver = &replica->driver,
                                      .memory_bytes = config->memory_bytes,
                                      .replace_lost = config->replace_lost,
                                      .net = parts->net,
                                      .disk = parts->disk,
                                      .clock = &replica->clock.base,
                                      .real_clock = parts->clock,
                                      .timers = &replica->timers,
                                      .state = parts->state,
                                      .answers = &replica->answers,
                                      .service = parts->service,
                                      .submit = on_submit,
                                      .node_id = config->driver.node_id};
    loop_clock_init(&replica->clock, parts->clock);
    timers_init(&replica->timers);
    ground_wake(&replica->ground, WAKE_ALL);
    answers_init(&replica->answers);
    replica->observer = (struct driver_observer){.applied = on_applied,
                                                 .role_changed = replica_role_changed_cb,
                                                 .configured = on_configured,
                                                 .installed = replica_installed_cb,
                                                 .diverged = on_diverged,
                                                 .failed = replica_failed_cb};
    replica->joiner_incarnation = prepare_is_joiner(loaded) ? loaded->incarnation : 0;
    start_births(replica, loaded);
    start_requests(replica, parts->disk);
    start_differences(replica);
    rv = parts->service->ops->start(parts->service, replica, loaded);
    if (rv != 0) {
        return rv;
    }
    /* At last: it may apply, and then tells all the others. */
    rv = driver_start(&replica->driver, &replica->config.driver, parts->disk, parts->net,
                      replica->ground.clock, &replica->timers, parts->state, &replica->observer,
                      loaded);
    if (rv != 0) {
        return rv;
    }
    turn_births(replica);
    follow_members(replica);
    parts->service->ops->started(parts->service);
    return 0;
}

/* --- requests --- */

void replica_submit(struct replica *replica, struct cluster_request *request)
{
    if (replica->ground.stopping) {
        answers_put(&replica->answers, request, ERR_SHUTTING_DOWN);
        return;
    }
    switch (request->kind) {
    case CLUSTER_REQUEST_COMMAND:
    case CLUSTER_REQUEST_QUERY:
    case CLUSTER_REQUEST_LEADER:
        requests_submit(&replica->requests, request);
        break;
    case CLUSTER_REQUEST_MEMBER:
        membership_requests_submit(&replica->membership_requests, request);
        break;
    case CLUSTER_REQUEST_EVERYWHERE:
        everywhere_submit(&replica->everywhere, request);
        break;
    default:
        UNREACHABLE("kind of request");
    }
}

/* --- frames --- */

static bool receive(struct replica *replica, uint64_t from, enum frame_type type,
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
    case FRAME_COMPARE:
        return compare_receive(&replica->compare, from, payload, len);
    case FRAME_COMPARED:
        return compare_receive_answer(&replica->compare, from, payload, len);
    case FRAME_CLOCK:
        return clock_sync_receive(&replica->clock_sync, from, payload, len);
    default:
        return replica->ground.service->ops->receive(replica->ground.service, from, type, payload,
                                                     len);
    }
}

bool replica_receive(struct replica *replica, uint64_t from, enum frame_type type,
                     const uint8_t *payload, size_t len)
{
    bool believed = receive(replica, from, type, payload, len);

    if (!believed) { /* there may be an alarm */
        ground_wake(&replica->ground, WAKE_SERVICE);
    }
    return believed;
}

void replica_link_changed(struct replica *replica, uint64_t peer, bool up)
{
    ground_wake(&replica->ground, WAKE_ALL);
    driver_link_changed(&replica->driver, peer, up);
    requests_link_changed(&replica->requests, peer, up);
    everywhere_link_changed(&replica->everywhere, peer);
    replica->ground.service->ops->link_changed(replica->ground.service, peer);
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

/* What the log says of this node itself. It says nothing else before more of it is applied. */
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
    struct serving *serving = &replica->requests.serving;
    bool disk_was_low = driver_disk_is_low(&replica->driver); /* as membership sees it, or before */
    bool holding;
    bool no_room;

    follow_members(replica);
    /* With the log of the others: from now on an empty one is a loss. */
    if (replica->joiner_incarnation != 0 && driver_applied(&replica->driver)->conf_index > 0) {
        driver_mark_joined(&replica->driver, replica->joiner_incarnation);
        replica->joiner_incarnation = 0;
    }
    holding = membership_turn(&replica->membership) || replica->draining;
    /* While another is to lead, what needs the log waits for it, or goes there. */
    no_room = disk_was_low && !holding;
    if (holding != serving->holding || no_room != serving->no_room) {
        serving->holding = holding;
        serving->no_room = no_room;
        ground_wake(&replica->ground, WAKE_REQUESTS);
    }
}

static void turn_upgrade(struct replica *replica)
{
    upgrade_turn(&replica->upgrade);
    if (upgrade_is_void(&replica->upgrade)) {
        requests_withdraw(&replica->requests, &replica->upgrade.command.request);
    }
}

/* Is the leader reached another way than the owner knows? */
static void turn_way(struct replica *replica)
{
    uint64_t through;

    if (way_through(&replica->requests.way, &through) && through != replica->through) {
        replica->through = through;
        replica->owner->way_changed(replica->owner, through);
    }
}

/* Is this part to look? It is woken no more then. */
static bool takes(struct replica *replica, uint32_t part)
{
    bool woken = (replica->timers.woken & part) != 0;

    replica->timers.woken &= ~part;
    return woken;
}

/* The parts that were woken. What may lead to requests of this node comes before requests are sent;
 * a part that a later one wakes is looked at in the next turn, which comes at once. */
static void turn_parts(struct replica *replica)
{
    if (takes(replica, WAKE_EVERYWHERE)) {
        everywhere_turn(&replica->everywhere);
    }
    if (takes(replica, WAKE_COMPARE)) {
        compare_turn(&replica->compare);
    }
    if (takes(replica, WAKE_MEMBERS)) {
        turn_members(replica);
    }
    if (takes(replica, WAKE_FATE)) {
        turn_fate(replica);
    }
    if (takes(replica, WAKE_ANNOUNCE)) {
        announce_turn(&replica->announce);
    }
    if (takes(replica, WAKE_DIFFERENCES)) {
        differences_turn(&replica->differences);
    }
    if (takes(replica, WAKE_UPGRADE)) {
        turn_upgrade(replica);
    }
    if (takes(replica, WAKE_CLOCK_SYNC)) {
        clock_sync_turn(&replica->clock_sync);
    }
    if (takes(replica, WAKE_SERVICE)) {
        replica->ground.service->ops->turn(replica->ground.service);
    }
}

/* All that was woken: no more than that, and nothing else, is looked at. */
static void turn_woken(struct replica *replica)
{
    if (!replica->ground.stopping) {
        turn_parts(replica);
    }
    if (takes(replica, WAKE_REQUESTS)) {
        requests_turn(&replica->requests);
    }
    if (replica->ground.stopping) {
        (void)takes(replica, ~(uint32_t)WAKE_REQUESTS);
    }
    turn_way(replica);
    replica->ground.service->ops->turned(replica->ground.service);
}

/* Of the replica and of the service, in turn: each may lead to others. */
static void deliver(struct replica *replica)
{
    struct service *service = replica->ground.service;

    while (!answers_are_none(&replica->answers) || service->ops->is_over(service)) {
        ground_wake(&replica->ground, WAKE_SERVICE); /* most are its own */
        answers_deliver(&replica->answers);
        service->ops->deliver(service);
    }
}

/* What the turn does from now on, for who asks why it takes long. */
static void replica_step(struct replica *replica, const char *doing)
{
    clock_look(replica->ground.clock);
    stall_step(replica->ground.service->stall, ground_now_ms(&replica->ground), doing);
}

/* Does anything wait for a turn that comes at once? */
static bool replica_is_awaited(const struct replica *replica)
{
    const struct service *service = replica->ground.service;

    return replica->timers.woken != 0 || !answers_are_none(&replica->answers) ||
           service->ops->is_over(service);
}

/* More of the log is applied than the parts have seen, or the disk has room no more, or again. */
static void note_state(struct replica *replica)
{
    uint64_t applied = driver_applied(&replica->driver)->index;
    bool low = driver_disk_is_low(&replica->driver);

    if (applied != replica->seen_applied) {
        replica->seen_applied = applied;
        ground_wake(&replica->ground, WAKE_ALL);
    }
    if (low != replica->seen_low) {
        replica->seen_low = low;
        ground_wake(&replica->ground, WAKE_MEMBERS | WAKE_REQUESTS);
    }
}

/*
 * First what came in is taken, committed entries are applied, and timers that are due fire. If that
 * has woken nobody, the turn is over. Else what is confirmed is answered, and all answers are
 * delivered, at this one place; the parts that were woken look; and what is to be sent is gathered,
 * as late as can be, and leaves this node, or is appended here, in one step. What an answer or a
 * part leads to after its place in the turn is for the next turn, which comes at once.
 */
bool replica_turn(struct replica *replica)
{
    bool more;

    replica_step(replica, "events");
    driver_take_events(&replica->driver);
    if (takes(replica, WAKE_BIRTHS) || !replica->births.born) {
        turn_births(replica);
    }
    replica_step(replica, "applying entries");
    more = driver_turn(&replica->driver);
    replica_step(replica, "timers and requests");
    timers_run(&replica->timers, ground_now_ms(&replica->ground));
    note_state(replica);
    if (replica->timers.woken & WAKE_REQUESTS) {
        serving_answer(&replica->requests.serving);
    }
    deliver(replica);
    if (replica->timers.woken != 0) {
        turn_woken(replica);
    }
    clock_look(replica->ground.clock);
    return more || replica_is_awaited(replica);
}

uint64_t replica_next_ms(const struct replica *replica)
{
    return replica_is_awaited(replica) ? 0 : timers_next_ms(&replica->timers);
}

/* --- the way to the end --- */

bool replica_transfer(struct replica *replica)
{
    if (!replica->ground.service->ops->may_transfer(replica->ground.service)) {
        return false;
    }
    if (driver_transfer(&replica->driver, 0)) {
        replica_transfer_end(replica); /* with nobody to hand it to it goes on as the leader */
        return true;
    }
    replica->draining = true;
    replica->requests.serving.holding = true;
    ground_wake(&replica->ground, WAKE_ALL);
    return false;
}

void replica_transfer_end(struct replica *replica)
{
    replica->draining = false;
    replica->requests.serving.holding = false;
    replica->requests.serving.starved_at = 0;
    ground_wake(&replica->ground, WAKE_ALL);
    replica->ground.service->ops->transfer_ended(replica->ground.service);
}

void replica_give_back(struct replica *replica, uint64_t deadline_ms)
{
    ASSERT(!replica->ground.stopping);
    ground_wake(&replica->ground, WAKE_ALL);
    standing_stop(&replica->standing);
    replica->ground.service->ops->give_back(replica->ground.service, deadline_ms);
}

bool replica_given_back(const struct replica *replica)
{
    return replica->ground.service->ops->gave_back(replica->ground.service);
}

void replica_stop(struct replica *replica)
{
    replica->ground.stopping = true;
    ground_wake(&replica->ground, WAKE_ALL);
    replica->ground.service->ops->stop(replica->ground.service);
    membership_requests_stop(&replica->membership_requests);
    everywhere_stop(&replica->everywhere);
    compare_stop(&replica->compare);
    requests_stop(&replica->requests); /* last: the others' queries and commands end by it */
}

void replica_close(struct replica *replica)
{
    ASSERT(replica->ground.stopping && answers_are_none(&replica->answers));
    requests_close(&replica->requests);
    driver_close(&replica->driver);
    replica->ground.service->ops->close(replica->ground.service);
    state_free(replica->state);
}

void replica_release(struct replica *replica)
{
    replica->ground.service->ops->release(replica->ground.service);
}
