/*
 * replica.c - see replica.h. Thread: the raft loop.
 */
#include "raft/cluster/replica.h"

#include <string.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/prng.h"

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
    if (replica->owner->role_changed != NULL) {
        replica->owner->role_changed(replica->owner);
    }
}

static void on_configuration_changed(struct driver_observer *observer)
{
    (void)observer; /* each turn looks at the configuration: peers_turn() */
}

static void on_installed(struct driver_observer *observer, uint64_t index)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    /* Indexes were jumped over: whatever was submitted has an unknown outcome. */
    requests_role_changed(&replica->requests);
    if (replica->owner->installed != NULL) {
        replica->owner->installed(replica->owner, index);
    }
}

static void on_failed(struct driver_observer *observer, int err, const char *text)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    replica->owner->failed(replica->owner, err, text);
}

static void on_tag_changed(struct fsm_listener *listener, const struct tag_row *row)
{
    struct replica *replica = CONTAINER(listener, struct replica, listener);

    allocator_tag_changed(replica->allocator, row);
    announce_tag_changed(&replica->announce, row);
}

static void on_worker_changed(struct fsm_listener *listener, const struct worker_row *row)
{
    lease_worker_changed(CONTAINER(listener, struct replica, listener)->lease, row);
}

static void on_layout_changed(struct fsm_listener *listener, const struct snowflake_layout *layout)
{
    lease_layout(CONTAINER(listener, struct replica, listener)->lease, layout);
}

static void on_lease_write(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                           void (*done)(void *data), void *done_data)
{
    struct replica *replica = CONTAINER(disk, struct replica, lease_disk);

    /* In its turn. A node that starts again without a leader knows only what its rows say: a record
     * of a grant that is not among them would be of no use to it. */
    driver_rows_write(&replica->driver, true);
    driver_write_local(&replica->driver, k, data, len, done, done_data);
}

static void on_propose(struct id_proposer *proposer, struct id_request *request)
{
    struct replica *replica = CONTAINER(proposer, struct replica, proposer);

    replica_submit(replica, request);
}

static void on_strict_answer(void *data, struct id_request *request, int status)
{
    answers_put(data, request, status);
}

/* --- start --- */

/*
 * The state machine tells the commands of one incarnation of this node from those of another by
 * this number (session.h), and peers tell incarnations (rollback.h); it must never be the same
 * twice. Its low half is random: a data directory that is set back to an older copy brings an older
 * count of starts with it.
 */
static uint64_t number_of_incarnation(const struct replica_config *config, uint64_t count)
{
    struct prng prng;

    prng_seed(&prng, config->driver.seed);
    return count << PEER_INCARNATION_RANDOM_BITS |
           prng_next(&prng) >> (64 - PEER_INCARNATION_RANDOM_BITS);
}

/* What hands out ids: all but snowflake ids. */
static void start_allocation(struct replica *replica, const struct store_loaded *loaded)
{
    const struct replica_config *config = &replica->config;

    replica->table = id_table_new();
    replica->allocator = allocator_new(&config->allocator, replica->table, replica->ground.clock,
                                       &replica->timers, &replica->proposer);
    ASSERT(replica->table != NULL && replica->allocator != NULL);
    replica->strict = strict_new(config->strict_keys, replica->ground.clock, &replica->timers,
                                 &replica->proposer, on_strict_answer, &replica->answers);
    recent_tags_start(&replica->recent_tags, &replica->ground, replica->allocator,
                      &config->prefetch, loaded);
}

/* The generator, the lease with what the disk remembers of it, and the cluster's time. */
static int start_lease(struct replica *replica, const struct store_loaded *loaded)
{
    const struct lease_config *config = &replica->config.lease;
    /* A node without worker ids of its own keeps the time as well: others may register theirs. */
    const struct clock_sync_config clock_sync = {.enabled = config->threshold_ms > 0,
                                                 .threshold_ms = config->threshold_ms,
                                                 .tick_ms = config->renew_ms,
                                                 .layout = config->layout};
    const struct clock *clock = replica->ground.clock;
    struct snowflake_layout layout;
    int rv = 0;

    ASSERT(config->workers <= LIMIT_WORKERS_PER_NODE);
    clock_sync_init(&replica->clock_sync, &replica->ground, &clock_sync);
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
    for (uint16_t id = 0; id < LIMIT_WORKER_IDS; id++) {
        const struct worker_row *row = fsm_worker(replica->fsm, id);

        if (row != NULL) {
            lease_worker_changed(replica->lease, row);
        }
    }
    return rv;
}

/* Requests, links and the membership; lower parts first. */
static void start_requests(struct replica *replica)
{
    const struct replica_config *config = &replica->config;
    const struct ground *on = &replica->ground;

    membership_init(&replica->membership, on, config->catch_up_ms);
    requests_init(&replica->requests, on, &config->driver, &replica->membership,
                  replica->allocator);
    everywhere_init(&replica->everywhere, on);
    replica->opening = (struct opening){.on = on,
                                        .requests = &replica->requests,
                                        .allocator = replica->allocator,
                                        .table = replica->table};
    membership_requests_init(&replica->membership_requests, on, &replica->requests);
    peers_init(&replica->peers, on, &replica->membership_requests, config->learned_peers,
               config->learned_count, config->learned_index);
    announce_init(&replica->announce, on, &replica->requests.way, replica->table, &config->info,
                  config->digest_ms);
}

static void start_health(struct replica *replica, const struct store_loaded *loaded)
{
    const struct health_sources of = {.on = &replica->ground,
                                      .way = &replica->requests.way,
                                      .allocator = replica->allocator,
                                      .strict = replica->strict,
                                      .lease = replica->lease,
                                      .table = replica->table,
                                      .cluster_id = replica->config.cluster_id};

    health_init(&replica->health, &of, loaded->first_index + loaded->entry_count - 1);
}

static void follow_members(struct replica *replica)
{
    if (peers_turn(&replica->peers)) {
        clock_check_members(&replica->clock_sync.check,
                            driver_configuration(&replica->driver)->count);
        way_set_peers(&replica->requests.way, replica->peers.items, replica->peers.count);
    }
}

int replica_start(struct replica *replica, const struct replica_config *config, struct fsm *fsm,
                  struct disk *disk, struct net *net, const struct clock *clock,
                  struct replica_owner *owner, const struct store_loaded *loaded)
{
    int rv;

    ASSERT(config->driver.node_id >= 1 && config->driver.node_id <= LIMIT_NODE_ID);
    memset(replica, 0, sizeof *replica);
    replica->config = *config;
    replica->config.driver.incarnation = number_of_incarnation(config, loaded->incarnation);
    replica->owner = owner;
    replica->fsm = fsm;
    replica->ground = (struct ground){.driver = &replica->driver,
                                      .net = net,
                                      .clock = clock,
                                      .timers = &replica->timers,
                                      .fsm = fsm,
                                      .answers = &replica->answers,
                                      .proposer = &replica->proposer,
                                      .node_id = config->driver.node_id};
    timers_init(&replica->timers);
    answers_init(&replica->answers);
    replica->observer = (struct driver_observer){.applied = on_applied,
                                                 .role_changed = on_role_changed,
                                                 .configuration_changed = on_configuration_changed,
                                                 .installed = on_installed,
                                                 .failed = on_failed};
    replica->listener = (struct fsm_listener){.tag_changed = on_tag_changed,
                                              .worker_changed = on_worker_changed,
                                              .layout_changed = on_layout_changed};
    replica->lease_disk.write = on_lease_write;
    replica->proposer.propose = on_propose;
    replica->joiner_incarnation = prepare_is_joiner(loaded) ? loaded->incarnation : 0;
    start_allocation(replica, loaded);
    rv = start_lease(replica, loaded);
    if (rv != 0) {
        return rv;
    }
    start_requests(replica);
    start_health(replica, loaded);
    fsm_listen(fsm, &replica->listener);
    /* At last: it may apply, and then tells all the others. */
    rv = driver_start(&replica->driver, &replica->config.driver, disk, net, clock, fsm,
                      &replica->observer, loaded);
    if (rv != 0) {
        return rv;
    }
    follow_members(replica);
    atomic_store(&replica->health.seen.started, true);
    return 0;
}

/* --- requests --- */

static int fill_segments(struct replica *replica, struct id_request *request)
{
    struct query query;

    if (query_decode(request->payload.data, request->payload.len, &query) != 0 ||
        query.type != QUERY_TAG_LIST) {
        return ERR_BAD_MESSAGE;
    }
    allocator_segments(replica->allocator, query.name, query.name_len, query.after, query.after_len,
                       query.limit, request->out);
    return 0;
}

void replica_submit(struct replica *replica, struct id_request *request)
{
    if (replica->stopping) {
        answers_put(&replica->answers, request, ERR_SHUTTING_DOWN);
        return;
    }
    switch (request->kind) {
    case ID_REQUEST_COMMAND:
    case ID_REQUEST_QUERY:
        requests_submit(&replica->requests, request);
        break;
    case ID_REQUEST_OPEN:
        opening_submit(&replica->opening, request);
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
    case ID_REQUEST_STATUS:
        health_status(&replica->health, replica->stopping, request->out);
        answers_put(&replica->answers, request, 0);
        break;
    case ID_REQUEST_SEGMENTS:
        answers_put(&replica->answers, request, fill_segments(replica, request));
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
        return driver_receive(&replica->driver, from, type, payload, len);
    case FRAME_REQUEST:
    case FRAME_RELAY:
    case FRAME_PROBE:
    case FRAME_REPLY:
    case FRAME_CONFIRM:
    case FRAME_CONFIRM_ACK:
        return requests_receive(&replica->requests, from, type, payload, len);
    case FRAME_APPLIED:
        return everywhere_receive(&replica->everywhere, from, payload, len);
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
}

void replica_peer_gone(struct replica *replica, uint64_t peer)
{
    driver_peer_refused(&replica->driver, peer);
}

/* --- turns --- */

/* What the owner has to hear about this node itself. */
static void turn_fate(struct replica *replica)
{
    if (!replica->removed && fsm_member_removed(replica->fsm, replica->ground.node_id)) {
        replica->removed = true;
        replica->owner->removed(replica->owner);
    }
    if (!replica->superseded && replica->requests.superseded != 0) {
        replica->superseded = true;
        replica->owner->superseded(replica->owner, replica->requests.superseded);
    }
}

static void turn_members(struct replica *replica)
{
    follow_members(replica);
    /* With the log of the others: from now on an empty one is a loss. */
    if (replica->joiner_incarnation != 0 && driver_applied(&replica->driver)->conf_index > 0) {
        driver_mark_joined(&replica->driver, replica->joiner_incarnation);
        replica->joiner_incarnation = 0;
    }
    replica->requests.serving.holding = membership_turn(&replica->membership) || replica->draining;
}

/* All that may lead to requests of this node. */
static void turn_parts(struct replica *replica)
{
    bool leader_known = way_is_known(&replica->requests.way);

    everywhere_turn(&replica->everywhere);
    turn_members(replica);
    turn_fate(replica);
    announce_turn(&replica->announce);
    requests_tidy(&replica->requests);
    clock_sync_turn(&replica->clock_sync);
    lease_turn(replica->lease);
    recent_tags_turn(&replica->recent_tags, leader_known);
    allocator_turn(replica->allocator); /* after the recent tags, which want segments */
    strict_turn(replica->strict, leader_known);
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

    driver_tick(&replica->driver);
    answers_deliver(&replica->answers);
    more = driver_turn(&replica->driver);
    answers_deliver(&replica->answers);
    timers_run(&replica->timers, ground_now_ms(&replica->ground));
    if (!replica->stopping) {
        turn_parts(replica);
    }
    requests_turn(&replica->requests);
    answers_deliver(&replica->answers);
    ASSERT(answers_are_none(&replica->answers));
    if (health_update(&replica->health) && replica->owner->way_changed != NULL) {
        replica->owner->way_changed(replica->owner,
                                    atomic_load(&replica->health.seen.leader_through));
    }
    return more;
}

uint64_t replica_next_ms(const struct replica *replica)
{
    uint64_t driver_ms = driver_next_ms(&replica->driver);
    uint64_t timers_ms = timers_next_ms(&replica->timers);

    if (!answers_are_none(&replica->answers)) {
        return 0;
    }
    return driver_ms < timers_ms ? driver_ms : timers_ms;
}

/* --- the way to the end --- */

bool replica_transfer(struct replica *replica)
{
    bool over = driver_transfer(&replica->driver, 0);

    /* With nobody to hand it to, this node goes on serving as the leader. */
    replica->draining = !over;
    replica->requests.serving.holding = !over;
    return over;
}

void replica_transfer_end(struct replica *replica)
{
    replica->draining = false;
    replica->requests.serving.holding = false;
}

static const struct tag_row *row_of(void *data, const char *name, size_t len)
{
    return fsm_tag(data, name, len);
}

void replica_give_back(struct replica *replica, uint64_t deadline_ms)
{
    ASSERT(!replica->stopping);
    recent_tags_save(&replica->recent_tags); /* while it shows which ids were used, and are left */
    allocator_give_back(replica->allocator, deadline_ms, row_of, replica->fsm);
}

bool replica_given_back(const struct replica *replica)
{
    return allocator_given_back(replica->allocator);
}

void replica_stop(struct replica *replica)
{
    replica->stopping = true;
    lease_stop(replica->lease);
    strict_stop(replica->strict);
    membership_requests_stop(&replica->membership_requests);
    everywhere_stop(&replica->everywhere);
    requests_stop(&replica->requests); /* last: the others' queries and commands end by it */
}

void replica_close(struct replica *replica)
{
    ASSERT(replica->stopping && answers_are_none(&replica->answers));
    requests_close(&replica->requests);
    driver_close(&replica->driver);
    strict_free(replica->strict);
    recent_tags_free(&replica->recent_tags);
    allocator_free(replica->allocator);
    lease_free(replica->lease);
    fsm_free(replica->fsm);
}

void replica_release(struct replica *replica)
{
    id_table_free(replica->table);
}
