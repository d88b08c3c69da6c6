/*
 * replica.c - see replica.h. Thread: the raft loop.
 */
#include "raft/cluster/replica.h"

#include <string.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define SNAPSHOT_MORE_BYTES (64ULL << 20) /* sessions, and rows that data.memory-bytes leaves out */
#define GIVE_BACK_MS 1000 /* how long a stop waits for the cluster to take segments back */
#define LED_AGAIN_MAX 3   /* times that leadership is passed on again */

/* --- reports of the parts --- */

static void on_applied(struct driver_observer *observer, uint64_t index, uint64_t term,
                       const void *result, size_t len)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    serving_applied(&replica->requests.serving, index, term, result, len);
}

static void replica_role_changed_cb(struct driver_observer *observer)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);
    uint64_t leader = driver_leader(&replica->driver);
    uint64_t term = driver_term(&replica->driver);

    context_wake(&replica->context, WAKE_ALL);
    requests_role_changed(&replica->requests);
    if (leader != replica->logged_leader || (leader != 0 && term != replica->logged_term)) {
        replica->logged_leader = leader;
        replica->logged_term = term;
        if (leader == replica->context.node_id) {
            log_info("raft", "this node leads", "term=%llu", ull(term));
        } else if (leader != 0) {
            log_info("raft", "following a leader", "leader=%llu term=%llu", ull(leader), ull(term));
        } else {
            log_warn("raft", "no leader is known", "term=%llu", ull(term));
        }
    }
    NOTIFY(&replica->context, role_changed);
}

static void on_configured(struct driver_observer *observer)
{
    context_wake(&CONTAINER(observer, struct replica, observer)->context, WAKE_ALL);
}

static void replica_installed_cb(struct driver_observer *observer, uint64_t index)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    compare_installed(&replica->compare);
    /* Indexes were skipped: submitted requests have an unknown outcome. */
    requests_role_changed(&replica->requests);
    replica->context.service->ops->event(replica->context.service, SERVICE_INSTALLED, index);
    NOTIFY(&replica->context, installed, index);
}

static void on_diverged(struct driver_observer *observer, uint64_t node_id, const char *text)
{
    compare_diverged(&CONTAINER(observer, struct replica, observer)->compare, node_id, text);
}

static void replica_failed_cb(struct driver_observer *observer, int err, const char *text)
{
    NOTIFY(&CONTAINER(observer, struct replica, observer)->context, failed, err, text);
}

static void on_submit(const struct raft_context *on, struct cluster_request *request)
{
    requests_submit(&CONTAINER(on, struct replica, context)->requests, request);
}

/* --- events of the links --- */

static struct replica *replica_of(struct net_receiver *receiver)
{
    return CONTAINER(receiver, struct replica, peers.receiver);
}

bool replica_receive(struct net_receiver *receiver, uint64_t from, enum frame_type type,
                     const uint8_t *payload, size_t len)
{
    struct replica *replica = replica_of(receiver);

    if (replica->context.stopping) {
        return true;
    }
    switch (type) {
    case FRAME_RAFT:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_ACK:
    case FRAME_RESIGN:
    case FRAME_DURABLE:
        return driver_receive(&replica->driver, from, type, payload, len);
    case FRAME_REQUEST:
    case FRAME_FORWARD:
        return requests_receive(&replica->requests, from, type == FRAME_FORWARD, payload, len);
    case FRAME_REPLY:
        return requests_receive_reply(&replica->requests, from, payload, len);
    case FRAME_PROBE:
        return leader_route_receive(&replica->requests.route, from, payload, len);
    case FRAME_CONFIRM:
    case FRAME_CONFIRM_ACK:
        return rounds_receive(&replica->requests.serving.round, from, type, payload, len);
    case FRAME_APPLIED:
        return barrier_receive(&replica->requests, from, payload, len);
    case FRAME_COMPARE:
        return compare_receive(&replica->compare, from, payload, len);
    case FRAME_COMPARED:
        return compare_receive_answer(&replica->compare, from, payload, len);
    case FRAME_CLOCK:
        return clock_sync_receive(&replica->clock_sync, from, payload, len);
    default:
        return replica->context.service->ops->receive(replica->context.service, from, type, payload,
                                                      len);
    }
}

void replica_link_changed(struct net_receiver *receiver, uint64_t peer, bool up)
{
    struct replica *replica = replica_of(receiver);

    if (replica->context.stopping) {
        return;
    }
    context_wake(&replica->context, WAKE_ALL);
    if (!up) {
        snapshot_end_transfer(&replica->driver.transfers, peer);
    }
    requests_link_changed(&replica->requests, peer, up);
    replica->context.service->ops->event(replica->context.service, SERVICE_LINK, peer);
    if (up) {
        peers_report(&replica->peers, peer);
    }
}

static void replica_gone_cb(struct net_receiver *receiver, uint64_t peer)
{
    struct replica *replica = replica_of(receiver);

    if (!replica->context.stopping) {
        driver_peer_refused(&replica->driver, peer);
    }
}

static void marked_cb(void *data)
{
    struct replica *replica = data;

    NOTIFY(&replica->context, failed, ERR_STALE,
           "the data directory is an older copy than the cluster has seen of this node (was it "
           "restored from a backup?): put the newest back, or join under a new id");
}

/* This node has forgotten votes, or entries that it acknowledged. The directory is marked first,
 * since each start would make it look less like an older one. */
static void replica_mark_older(struct replica *replica)
{
    replica->driver.peers.seen.older = true;
    peer_memory_write(&replica->driver.peers, false, marked_cb, replica);
}

static void replica_refused_cb(struct net_receiver *receiver, uint64_t peer, int err,
                               const char *text)
{
    struct replica *replica = replica_of(receiver);
    const struct learned_peers *learned = replica->config.learned;

    /* Not proved, and temporary where addresses move, as of starting containers. Which of two
     * lists, or clusters, is wrong is not known here. */
    log_line(err == ERR_REFUSED || err == ERR_CONFLICT || err == ERR_OTHER_LIST ||
                     err == ERR_OTHER_BIRTH
                 ? LOG_LEVEL_WARN
                 : LOG_LEVEL_ERROR,
             "raft", "a peer refuses this node", "peer=%llu code=%s reason=\"%s\"", ull(peer),
             err_code(err), text);
    if (replica->context.stopping) {
        return;
    }
    /* The cluster refuses a node with this id and these data. Is there any data? A node that was
     * admitted and removed before it heard of the birth has lost nothing. */
    if ((err == ERR_WRONG_NODE || err == ERR_REMOVED) && state_birth(replica->state) == NULL &&
        (learned == NULL || learned->index == 0)) {
        NOTIFY(&replica->context, lost);
    }
    if (err == ERR_WRONG_NODE) {
        /* Its vote would count twice if it continued under the id of the lost directory. */
        NOTIFY(
            &replica->context, failed, ERR_REFUSED,
            "the cluster knows this node id with another data directory (was it wiped or replaced, "
            "or is there another process in its place?): put the old one back, or join under a "
            "new id");
    }
    if (err == ERR_NEWER) {
        NOTIFY(&replica->context, failed, ERR_NEWER, text);
    }
    if (err == ERR_STALE) {
        replica_mark_older(replica);
    }
    birth_watch_refused(&replica->peers.births, peer, err);
    if (err == ERR_REMOVED) {
        requests_removed(&replica->requests);
        NOTIFY(&replica->context, removed);
    }
}

/* --- start --- */

/* Requests, links and the membership; lower parts first. */
static void start_parts(struct replica *replica, const struct birth_list *list)
{
    const struct raft_context *on = &replica->context;
    struct net_receiver *receiver = &replica->peers.receiver;

    membership_init(&replica->membership, on, &replica->clock_sync);
    requests_init(&replica->requests, on, &replica->membership, &replica->peers);
    clock_sync_init(&replica->clock_sync, on);
    peers_init(&replica->peers, on, list);
    receiver->receive = replica_receive;
    receiver->link_changed = replica_link_changed;
    receiver->gone = replica_gone_cb;
    receiver->refused = replica_refused_cb;
    announce_init(&replica->announce, on, &replica->requests.route);
    compare_init(&replica->compare, on);
}

static const struct driver_observer observes = {.applied = on_applied,
                                                .role_changed = replica_role_changed_cb,
                                                .configured = on_configured,
                                                .installed = replica_installed_cb,
                                                .diverged = on_diverged,
                                                .failed = replica_failed_cb};

int replica_start(struct replica *replica, const struct replica_config *config,
                  const struct replica_parts *parts, struct replica_listener *listener)
{
    const struct raft_context *on = &replica->context;
    const struct store_loaded *loaded = parts->loaded;
    const struct buf *record = &loaded->locals[LOCAL_INCARNATIONS];
    struct incarnations incarnations;
    struct birth_list list;
    int rv = incarnations_load(&incarnations, record->data, record->len);

    ASSERT(config->driver.node_id >= 1 && config->driver.node_id <= LIMIT_NODE_ID);
    if (rv != 0) {
        return rv;
    }
    memset(replica, 0, sizeof *replica);
    replica->config = *config;
    replica->state = parts->state;
    replica->observer = observes;
    birth_list_read(loaded, config->driver.node_id, config->cluster_id, parts->service, &list);
    replica->config.driver.birth.list_digest = list.digest;
    /* The state machine distinguishes the commands of this node's incarnations by this number
     * (session.h), and peers distinguish incarnations by it (rollback.h). It must never occur
     * twice. Its low half is random, since an older copy of a data directory also has an older
     * count of starts. prepare_store() has drawn it and written it to disk. */
    replica->config.driver.incarnation = incarnations_newest(&incarnations);
    if (config->memory_bytes > 0) {
        /* Growth that was already admitted must pass, and other nodes may have a slightly higher
         * bound. */
        replica->config.driver.state_bytes = 2 * config->memory_bytes + SNAPSHOT_MORE_BYTES;
    }
    replica->config.info.incarnation = replica->config.driver.incarnation;
    replica->config.info.levels = parts->state->facts.speaks;
    replica->joiner_incarnation = prepare_is_joiner(loaded) ? loaded->incarnation : 0;
    replica->context = (struct raft_context){.config = &replica->config,
                                             .driver = &replica->driver,
                                             .net = parts->net,
                                             .disk = parts->disk,
                                             .clock = &replica->clock.base,
                                             .real_clock = parts->clock,
                                             .timers = &replica->timers,
                                             .state = parts->state,
                                             .peers = replica->peer_rows,
                                             .answers = &replica->answers,
                                             .service = parts->service,
                                             .listener = listener,
                                             .submit = on_submit,
                                             .node_id = config->driver.node_id};
    loop_clock_init(&replica->clock, parts->clock);
    context_wake(on, WAKE_ALL);
    answers_init(&replica->answers);
    start_parts(replica, &list);
    rv = parts->service->ops->start(parts->service, replica, loaded);
    if (rv == 0) { /* last: it may apply, and then calls all other parts */
        rv = driver_start(&replica->driver, &replica->config.driver, parts->disk, parts->net,
                          on->clock, &replica->timers, parts->state, &replica->observer, loaded);
    }
    if (rv != 0) {
        return rv;
    }
    birth_watch_turn(&replica->peers.births);
    peers_turn(&replica->peers);
    clock_check_members(&replica->clock_sync.check, driver_configuration(&replica->driver)->count);
    parts->service->ops->event(parts->service, SERVICE_STARTED, 0);
    return 0;
}

/* --- turns --- */

/* Check the log's record of this node: woken by what is applied, and by a command that was refused
 * for a later start. */
static void turn_self_check(struct replica *replica)
{
    uint64_t node_id = replica->context.node_id;
    uint64_t known = state_node_start(replica->state, node_id); /* the newest in the log */
    bool is_had = known == 0 || incarnations_include(&replica->driver.incarnations, known);
    uint64_t later_start = is_had ? replica->requests.superseded : known;

    if (!replica->removed && state_member_removed(replica->state, node_id)) {
        replica->removed = true;
        requests_removed(&replica->requests);
        log_warn("raft", "this node was removed from the cluster", "node=%llu", ull(node_id));
        NOTIFY(&replica->context, removed);
    }
    if (replica->superseded == 0 && later_start != 0) {
        /* The own log shows it, since the other nodes no longer talk to this node. */
        replica->superseded = later_start;
        log_line(LOG_LEVEL_ERROR, "raft", "the cluster knows a later start of this node",
                 "incarnation=%llu known=%llu", ull(replica->config.driver.incarnation),
                 ull(later_start));
        replica_mark_older(replica);
    }
}

static void turn_members(struct replica *replica)
{
    struct serving *serving = &replica->requests.serving;
    bool disk_was_low = driver_disk_is_low(&replica->driver); /* as membership sees it, or
                                                                 earlier */
    BUF_LOCAL(record);
    bool holding;
    bool no_room;

    peers_turn(&replica->peers);
    clock_check_members(&replica->clock_sync.check, driver_configuration(&replica->driver)->count);
    /* The node has the log of the others: from now on an empty log is a loss. */
    if (replica->joiner_incarnation != 0 && driver_applied(&replica->driver)->conf_index > 0) {
        prepare_member_record(replica->joiner_incarnation, &record);
        driver_write_local(&replica->driver, LOCAL_INCARNATION, record.data, record.len, NULL,
                           NULL);
        replica->joiner_incarnation = 0;
    }
    holding = membership_turn(&replica->membership) || replica->draining;
    /* While leadership is handed over, requests that need the log wait, or go to the new leader. */
    no_room = disk_was_low && !holding;
    if (holding != serving->holding || no_room != serving->no_room) {
        serving->holding = holding;
        serving->no_room = no_room;
        context_wake(&replica->context, WAKE_REQUESTS);
    }
}

/* Take the woken ones of these parts, and clear their bits. */
static uint32_t take_woken(struct replica *replica, uint32_t parts)
{
    uint32_t woken = replica->timers.woken & parts;

    replica->timers.woken &= ~parts;
    return woken;
}

/* Run the woken parts, and no others. Parts that may submit requests come before requests are sent.
 * A part that a later one wakes runs in the next turn, which comes at once. */
static void turn_woken(struct replica *replica)
{
    struct service *service = replica->context.service;
    uint32_t woken = take_woken(replica, WAKE_ALL & ~(uint32_t)WAKE_REQUESTS);
    const struct leader_route *route = &replica->requests.route;

    if (replica->context.stopping) {
        woken &= WAKE_SEEN;
    }
    if (woken & WAKE_BIRTHS) {
        birth_watch_turn(&replica->peers.births);
    }
    if (woken & WAKE_BARRIER) {
        barrier_turn(&replica->requests);
    }
    if (woken & WAKE_COMPARE) {
        compare_turn(&replica->compare);
    }
    if (woken & WAKE_MEMBERS) {
        turn_members(replica);
    }
    if (woken & WAKE_SELF) {
        turn_self_check(replica);
    }
    if (woken & WAKE_ANNOUNCE) {
        announce_turn(&replica->announce);
    }
    if ((woken & WAKE_UPGRADE) && upgrade_turn(&replica->membership.upgrade)) {
        requests_withdraw(&replica->requests, &replica->membership.upgrade.command.request);
    }
    if (woken & WAKE_CLOCK_SYNC) {
        clock_sync_turn(&replica->clock_sync);
    }
    if (woken & WAKE_SERVICE) {
        service->ops->turn(service, woken);
    }
    if (!take_woken(replica, WAKE_REQUESTS)) {
        return;
    }
    requests_turn(&replica->requests);
    /* Is the leader reached by another route than the listener knows? */
    if (route->state == ROUTE_SOUGHT || route->forwarder == replica->through) {
        return;
    }
    replica->through = route->forwarder;
    if (replica->through != 0) {
        log_warn("raft", "the leader is reached through another node", "through=%llu",
                 ull(replica->through));
    } else {
        log_info("raft", "the leader is reached directly again", NULL);
    }
    NOTIFY(&replica->context, route_changed, replica->through);
}

/* Record the step of the turn, for reports of long turns. */
static void replica_step(struct replica *replica, const char *doing)
{
    clock_look(replica->context.clock);
    stall_step(replica->context.service->stall, context_now_ms(&replica->context), doing);
}

/* Must another turn follow at once? */
static bool replica_is_awaited(const struct replica *replica)
{
    return replica->timers.woken != 0 || !answers_are_none(&replica->answers);
}

/*
 * First incoming events are taken, committed entries are applied, and due timers fire. If that has
 * woken no part, the turn is over. Else confirmed requests are answered, and all answers are
 * delivered, only at this place (but for those of a leader's own commands: struct answers). Then
 * the woken parts run. Last, all requests are gathered, as late as possible, and sent, or appended
 * here, in one step. Work that arises after its place in the turn is done in the next turn, which
 * comes at once.
 */
static bool turn(struct replica *replica)
{
    const struct raft_context *on = &replica->context;
    struct driver *driver = &replica->driver;
    bool more;

    replica_step(replica, "events");
    driver_take_events(driver);
    if (take_woken(replica, WAKE_BIRTHS)) {
        birth_watch_turn(&replica->peers.births); /* before the driver stands for election */
    }
    replica_step(replica, "applying entries");
    more = driver_turn(driver);
    replica_step(replica, "timers and requests");
    timers_run(&replica->timers, context_now_ms(on));
    /* Is more of the log applied than the parts have seen? Did the disk become low, or has it room
     * again? Is there an alarm? */
    if (replica->seen_applied != driver_applied(driver)->index) {
        replica->seen_applied = driver_applied(driver)->index;
        context_wake(on, WAKE_ALL);
    }
    if (replica->seen_low != driver_disk_is_low(driver)) {
        replica->seen_low = !replica->seen_low;
        context_wake(on, WAKE_MEMBERS | WAKE_REQUESTS | WAKE_SEEN);
    }
    if (replica->seen_alarms != driver->trust.alarm.count) {
        replica->seen_alarms = driver->trust.alarm.count;
        context_wake(on, WAKE_SEEN);
    }
    if (!replica->peers.births.born) { /* new entries end the wait */
        context_wake(on, WAKE_BIRTHS);
    }
    if (replica->timers.woken & WAKE_REQUESTS) {
        serving_answer(&replica->requests.serving);
    }
    if (!answers_are_none(&replica->answers)) {
        context_wake(on, WAKE_SEEN); /* what was answered may be seen */
        answers_deliver(&replica->answers);
    }
    if (replica->timers.woken != 0) {
        turn_woken(replica);
    }
    clock_look(on->clock);
    return more || (driver->appends.count > 0 && appends_wait(&driver->appends)) ||
           replica_is_awaited(replica);
}

/* --- the stop --- */

bool replica_transfer(struct replica *replica)
{
    if (!replica->context.service->ops->may_transfer(replica->context.service)) {
        return false;
    }
    if (driver_transfer(&replica->driver, membership_successor(&replica->membership))) {
        replica_transfer_end(replica); /* with no node to hand it to, it continues as the leader */
        return true;
    }
    replica->draining = true;
    replica->requests.serving.holding = true;
    context_wake(&replica->context, WAKE_ALL);
    return false;
}

void replica_transfer_end(struct replica *replica)
{
    replica->draining = false;
    replica->requests.serving.holding = false;
    replica->requests.serving.starved_at = 0;
    context_wake(&replica->context, WAKE_ALL);
    replica->context.service->ops->event(replica->context.service, SERVICE_TRANSFER_ENDED, 0);
}

void replica_give_back(struct replica *replica, uint64_t deadline_ms)
{
    ASSERT(!replica->context.stopping);
    context_wake(&replica->context, WAKE_ALL);
    peers_report(&replica->peers, 0);
    replica->context.service->ops->give_back(replica->context.service, deadline_ms);
}

void replica_stop(struct replica *replica)
{
    replica->context.stopping = true;
    context_wake(&replica->context, WAKE_ALL);
    replica->context.service->ops->stop(replica->context.service);
    compare_stop(&replica->compare);
    requests_stop(&replica->requests); /* last: it ends the other parts' queries and commands */
}

static void continue_stop(struct replica *replica)
{
    uint64_t now_ms = context_now_ms(&replica->context);
    uint64_t left_ms = replica->grace_until_ms > now_ms ? replica->grace_until_ms - now_ms : 0;
    struct service *service = replica->context.service;
    bool over;

    /* Leadership that comes back is passed on again, since the other node may also stop and a third
     * may not. The number is bounded: if all nodes stop at once, leadership would circulate until
     * they end. A node that does not lead has nothing to pass on, and its turns end. */
    if (replica->hands_over && replica->phase < REPLICA_WRITING &&
        (!replica->drained || driver_leads(&replica->driver))) {
        over = replica->led_again >= LED_AGAIN_MAX || replica_transfer(replica);
        replica->led_again += replica->drained && !over;
        if (replica->led_again >= LED_AGAIN_MAX) {
            replica_transfer_end(replica);
            over = true;
        }
        replica->drained = over;
    }
    /* Leadership is handed over, or the grace is over. */
    if (replica->phase == REPLICA_GIVING && (replica->drained || left_ms == 0)) {
        if (!replica->gave_back) {
            replica->gave_back = true;
            replica_give_back(replica, now_ms + (left_ms < GIVE_BACK_MS ? left_ms : GIVE_BACK_MS));
            (void)turn(replica);
        }
        /* Segments in memory were given back, or are burnt because no answer came in time. */
        if (service->ops->gave_back(service)) {
            replica->phase = REPLICA_WRITING;
            replica->write_until_ms = now_ms + REPLICA_WRITE_MS;
            replica_stop(replica);
            while (turn(replica)) {
                continue;
            }
            driver_quiesce(&replica->driver);
        }
    }
    if (replica->phase == REPLICA_WRITING && driver_is_quiet(&replica->driver)) {
        replica->phase = REPLICA_QUIET;
    } else if (replica->phase == REPLICA_WRITING && now_ms >= replica->write_until_ms) {
        NOTIFY(&replica->context, failed, ERR_IO, DISK_STANDS_AT_STOP);
    }
}

void replica_drain(struct replica *replica)
{
    replica->context.service->ops->event(replica->context.service, SERVICE_DRAINS, 0);
    replica->hands_over = true;
    context_wake(&replica->context, WAKE_ALL);
}

/* --- turns, and when the next one is due --- */

bool replica_turn(struct replica *replica)
{
    /* Requests that come while the disk finishes are answered at the very end. */
    bool more = replica->phase != REPLICA_WRITING && turn(replica);

    if (replica->hands_over) {
        continue_stop(replica);
    }
    return more;
}

uint64_t replica_next_ms(const struct replica *replica)
{
    uint64_t next_ms = replica_is_awaited(replica) ? 0 : timers_next_ms(&replica->timers);
    uint64_t soon_ms;

    if (replica->phase == REPLICA_WRITING) {
        return replica->write_until_ms; /* the disk wakes the loop when it has finished */
    }
    if (replica->hands_over && !replica->drained) { /* in small steps */
        soon_ms = context_now_ms(&replica->context) + 1;
        return next_ms < soon_ms ? next_ms : soon_ms;
    }
    return next_ms;
}

uint32_t replica_write_left_ms(const struct replica *replica)
{
    uint64_t now_ms = context_now_ms(&replica->context);

    return replica->write_until_ms > now_ms ? (uint32_t)(replica->write_until_ms - now_ms) : 0;
}

void replica_close(struct replica *replica)
{
    struct requests *requests = &replica->requests;

    ASSERT(replica->context.stopping && answers_are_none(&replica->answers));
    ASSERT(requests->count == 0 && requests->serving.count == 0);
    ASSERT(TAILQ_EMPTY(&requests->waiting) && TAILQ_EMPTY(&requests->sent));
    ASSERT(requests->forwarder.count == 0 && requests->forwarder.bytes == 0);
    numbers_free(&requests->numbers);
    driver_close(&replica->driver);
    replica->context.service->ops->close(replica->context.service);
    state_free(replica->state);
}
