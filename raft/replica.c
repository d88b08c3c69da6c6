/*
 * replica.c - see replica.h. Thread: the raft loop.
 */
#include "raft/replica.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define REGISTER_AGAIN_MS 1000
#define OWN_REQUEST_MS 5000
#define HELD_LOOK_MS 200
#define HELD_LOOK_MAX 1000 /* tags */

/* --- what the parts tell --- */

static void on_applied(struct driver_observer *observer, uint64_t index, uint64_t term,
                       const void *result, size_t len)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    requests_applied(&replica->requests, index, term, result, len);
}

static void on_role_changed(struct driver_observer *observer)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    requests_role_changed(&replica->requests);
    atomic_store(&replica->health.leader_known, driver_leader(&replica->driver) != 0);
    if (replica->owner->role_changed != NULL) {
        replica->owner->role_changed(replica->owner);
    }
}

static void on_configuration_changed(struct driver_observer *observer)
{
    (void)observer; /* each turn looks at the configuration: members_turn() */
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

    driver_write_local(&replica->driver, k, data, len, done, done_data);
}

static void on_propose(struct id_proposer *proposer, struct id_request *request)
{
    struct replica *replica = CONTAINER(proposer, struct replica, proposer);

    replica_submit(replica, request);
}

/* --- start --- */

/* The generator, the lease with what the disk remembers of it, and the timekeeper. */
static int start_lease(struct replica *replica, const struct store_loaded *loaded)
{
    const struct lease_config *config = &replica->config.lease;
    /* A node without worker ids of its own keeps the time as well: others may register theirs. */
    struct timekeeper_config timekeeper = {config->threshold_ms > 0, config->threshold_ms,
                                           config->renew_ms, config->layout};
    struct snowflake_layout layout;
    int rv = 0;

    timekeeper_init(&replica->timekeeper, &timekeeper, &replica->driver, replica->net,
                    replica->clock, replica->fsm, &replica->proposer);
    snowflake_init(&replica->snowflake, replica->clock);
    replica->lease = lease_new(config, &replica->snowflake, &replica->timekeeper.check,
                               replica->clock, &replica->proposer, &replica->lease_disk);
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

/* Links, changes of the membership, and what is wished of it. */
static void start_members(struct replica *replica)
{
    const struct replica_config *config = &replica->config;

    membership_init(&replica->membership, &replica->driver, replica->net, replica->clock,
                    replica->fsm, &replica->proposer, config->catch_up_ms);
    replica->requests.membership = &replica->membership;
    wishes_init(&replica->wishes, &replica->requests, replica->clock);
    members_init(&replica->members, &replica->driver, replica->net, replica->clock, replica->fsm,
                 &replica->wishes, config->guests, config->guest_count, config->guest_index);
}

static void follow_members(struct replica *replica)
{
    if (members_turn(&replica->members)) {
        clock_check_members(&replica->timekeeper.check, replica->driver.raft.configuration.n);
    }
}

int replica_start(struct replica *replica, const struct replica_config *config, struct fsm *fsm,
                  struct disk *disk, struct net *net, const struct clock *clock,
                  struct replica_owner *owner, const struct store_loaded *loaded)
{
    uint64_t now = clock_now_ms(clock);
    int rv;

    memset(replica, 0, sizeof *replica);
    replica->config = *config;
    replica->fsm = fsm;
    replica->disk = disk;
    replica->net = net;
    replica->clock = clock;
    replica->owner = owner;
    replica->observer = (struct driver_observer){on_applied, on_role_changed,
                                                 on_configuration_changed, on_installed, on_failed};
    replica->listener = (struct fsm_listener){on_tag_changed, on_worker_changed, on_layout_changed};
    replica->lease_disk.write = on_lease_write;
    replica->proposer.propose = on_propose;
    replica->start_last = loaded->first_index + loaded->entry_count - 1;
    replica->info_next_ms = now;
    replica->digest_next_ms = now + config->digest_ms;
    replica->table = id_table_new();
    replica->allocator =
        allocator_new(&config->allocator, replica->table, clock, &replica->proposer, NULL);
    ASSERT(replica->table != NULL && replica->allocator != NULL);
    rv = start_lease(replica, loaded);
    if (rv != 0) {
        return rv;
    }
    fsm_listen(fsm, &replica->listener);
    requests_init(&replica->requests, &replica->driver, net, disk, clock, fsm, config->driver.seed);
    start_members(replica);
    rv = driver_start(&replica->driver, &config->driver, disk, net, clock, fsm, &replica->observer,
                      loaded);
    if (rv != 0) {
        return rv;
    }
    follow_members(replica);
    atomic_store(&replica->health.started, true);
    return 0;
}

/* --- requests of all kinds --- */

/* A tag asked for on this node for the first time: known here, or the leader is asked. */
struct open_request {
    struct id_request query;
    struct id_request *outer;
    struct replica *replica;
};

static int open_row(struct replica *replica, const struct tag_row *row)
{
    struct id_tag *tag = allocator_open(replica->allocator, row);

    return tag != NULL ? 0 : ERR_OVERLOADED;
}

static void open_done(struct id_request *query)
{
    struct open_request *open = query->data;
    struct tag_rows rows = {0};
    int status = query->status;

    if (status == 0) {
        status = tag_rows_decode(query->reply.data, query->reply.len, &rows);
    }
    if (status == 0) {
        status = rows.count == 1 ? open_row(open->replica, &rows.rows[0]) : ERR_UNKNOWN_TAG;
    }
    tag_rows_release(&rows);
    requests_finish(&open->replica->requests, open->outer, status);
    buf_free(&query->payload);
    buf_free(&query->reply);
    free(open);
}

static void submit_open(struct replica *replica, struct id_request *request)
{
    const char *name = (const char *)request->payload.data;
    const struct tag_row *row = fsm_tag(replica->fsm, name, request->payload.len);
    const struct id_tag *tag = id_table_find(replica->table, name, request->payload.len);
    struct open_request *open;

    /* A tag known as exhausted may have been set back, or made again, a moment ago: then the
     * leader's row tells, as for one that is not known. */
    if (row != NULL && !row->deleted &&
        (tag == NULL || atomic_load(&tag->state) != ID_TAG_EXHAUSTED)) {
        requests_finish(&replica->requests, request, open_row(replica, row));
        return;
    }
    open = calloc(1, sizeof *open);
    ASSERT(open != NULL);
    open->outer = request;
    open->replica = replica;
    open->query.kind = ID_REQUEST_QUERY;
    open->query.deadline_ms = request->deadline_ms;
    open->query.done = open_done;
    open->query.data = open;
    query_get_encode(&open->query.payload, name, request->payload.len);
    requests_submit(&replica->requests, &open->query);
}

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
    int status;

    if (replica->stopping) {
        requests_finish(&replica->requests, request, ERR_SHUTTING_DOWN);
        return;
    }
    switch (request->kind) {
    case ID_REQUEST_COMMAND:
    case ID_REQUEST_QUERY:
        requests_submit(&replica->requests, request);
        break;
    case ID_REQUEST_OPEN:
        submit_open(replica, request);
        break;
    case ID_REQUEST_STATUS:
        replica_status(replica, request->out);
        requests_finish(&replica->requests, request, 0);
        break;
    case ID_REQUEST_MEMBER:
        wishes_submit(&replica->wishes, request);
        break;
    case ID_REQUEST_SEGMENTS:
        status = fill_segments(replica, request);
        requests_finish(&replica->requests, request, status);
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
        return driver_receive(&replica->driver, from, type, payload, len);
    case FRAME_REQUEST:
    case FRAME_REPLY:
    case FRAME_CONFIRM:
    case FRAME_CONFIRM_ACK:
        return requests_receive(&replica->requests, from, type, payload, len);
    case FRAME_CLOCK:
        return timekeeper_receive(&replica->timekeeper, from, payload, len);
    default:
        return false;
    }
}

void replica_link_changed(struct replica *replica, uint64_t peer, bool up)
{
    driver_link_changed(&replica->driver, peer, up);
    requests_link_changed(&replica->requests, peer, up);
}

/* --- the replica's own requests --- */

static void info_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->info_in_flight = false;
    replica->info_next_ms = clock_now_ms(replica->clock) + REGISTER_AGAIN_MS;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

static bool info_is_registered(const struct replica *replica)
{
    const struct node_info *own = &replica->config.info;
    struct node_info known;

    return own->node_id == 0 ||
           (fsm_node(replica->fsm, own->node_id, &known) && known.store_id == own->store_id &&
            strcmp(known.http_address, own->http_address) == 0 &&
            strcmp(known.version, own->version) == 0);
}

static void own_command(struct replica *replica, struct id_request *request,
                        void (*done)(struct id_request *request))
{
    struct buf payload = request->payload;

    memset(request, 0, sizeof *request);
    request->payload = payload;
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = clock_now_ms(replica->clock) + OWN_REQUEST_MS;
    request->done = done;
    request->data = replica;
    replica_submit(replica, request);
}

/* Tell the cluster this node's HTTP address, version and store id, once a leader is known. */
static void maybe_register(struct replica *replica)
{
    if (replica->info_in_flight || driver_leader(&replica->driver) == 0 ||
        clock_now_ms(replica->clock) < replica->info_next_ms || info_is_registered(replica)) {
        return;
    }
    replica->info_in_flight = true;
    command_node_info_encode(&replica->info_request.payload, &replica->config.info);
    own_command(replica, &replica->info_request, info_done);
}

static void digest_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->digest_in_flight = false;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* The leader has every node compare its state at an equal index. */
static void maybe_compare_digests(struct replica *replica)
{
    uint64_t now = clock_now_ms(replica->clock);

    if (replica->config.digest_ms == 0 || replica->digest_in_flight ||
        now < replica->digest_next_ms || !driver_leads(&replica->driver)) {
        return;
    }
    replica->digest_in_flight = true;
    replica->digest_next_ms = now + replica->config.digest_ms;
    command_digest_encode(&replica->digest_request.payload, replica->driver.applied.index,
                          fsm_digest(replica->fsm));
    own_command(replica, &replica->digest_request, digest_done);
}

/* --- turns --- */

/* Does this node hold ids of any tag? Asked only while there is no leader to grant more. A node
 * with more tags than are looked at, all of the first ones used up, may be called not ready too
 * early. */
static bool holds_ids(struct replica *replica)
{
    struct id_tag *tag = id_table_next(replica->table, "", 0, "", 0);

    for (unsigned i = 0; tag != NULL && i < HELD_LOOK_MAX; i++) {
        if (segment_left(&tag->buffer) > 0) {
            return true;
        }
        tag = id_table_next(replica->table, "", 0, tag->name, tag->name_len);
    }
    return false;
}

static void update_held(struct replica *replica)
{
    uint64_t now_ms = clock_now_ms(replica->clock);
    uint64_t held = allocator_held(replica->allocator);

    if (driver_leader(&replica->driver) == 0 && held > 0) {
        if (now_ms < replica->held_look_ms) {
            return;
        }
        replica->held_look_ms = now_ms + HELD_LOOK_MS;
        held = holds_ids(replica) ? held : 0;
    }
    atomic_store_explicit(&replica->health.segments_held, held, memory_order_relaxed);
}

static void update_health(struct replica *replica)
{
    struct lease_status lease;

    lease_status(replica->lease, &lease);
    atomic_store_explicit(&replica->health.snowflake_refusal, lease.refusal, memory_order_relaxed);
    atomic_store_explicit(&replica->health.clock_off_ms, lease.clock_off_ms, memory_order_relaxed);
    atomic_store_explicit(&replica->health.clock_wait_until_ms, lease.wait_until_ms,
                          memory_order_relaxed);
    update_held(replica);
    atomic_store_explicit(&replica->health.disk_low, replica->disk->ops->low(replica->disk),
                          memory_order_relaxed);
    if (replica->driver.applied.index >= replica->start_last) {
        atomic_store_explicit(&replica->health.applied_once, true, memory_order_relaxed);
    }
}

/* What the membership wants; a node that was removed has nothing more to do here. */
static void turn_members(struct replica *replica)
{
    bool holding;

    follow_members(replica);
    membership_turn(&replica->membership, &holding);
    replica->requests.transferring = holding || replica->draining;
    wishes_turn(&replica->wishes);
    if (!replica->removed && fsm_member_removed(replica->fsm, replica->config.driver.node_id)) {
        replica->removed = true;
        replica->owner->removed(replica->owner);
    }
}

bool replica_turn(struct replica *replica)
{
    bool more;

    driver_tick(&replica->driver);
    if (!replica->stopping) {
        turn_members(replica);
        maybe_register(replica);
        maybe_compare_digests(replica);
        timekeeper_turn(&replica->timekeeper);
        lease_turn(replica->lease);
        allocator_turn(replica->allocator);
    }
    requests_turn(&replica->requests);
    more = driver_settle(&replica->driver);
    /* What was applied may have answered requests, and those may want more. */
    requests_turn(&replica->requests);
    if (!replica->stopping) {
        allocator_turn(replica->allocator);
        requests_turn(&replica->requests);
    }
    update_health(replica);
    return more;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t replica_next_ms(const struct replica *replica)
{
    uint64_t next = driver_next_ms(&replica->driver);

    next = earlier(next, requests_next_ms(&replica->requests));
    if (replica->stopping) {
        return next;
    }
    next = earlier(next, allocator_next_ms(replica->allocator));
    next = earlier(next, membership_next_ms(&replica->membership));
    next = earlier(next, wishes_next_ms(&replica->wishes));
    next = earlier(next, timekeeper_next_ms(&replica->timekeeper));
    return earlier(next, lease_next_ms(replica->lease));
}

bool replica_transfer(struct replica *replica)
{
    bool over = driver_transfer(&replica->driver);

    /* With nobody to hand it to, this node goes on serving as the leader. */
    replica->draining = !over;
    replica->requests.transferring = !over;
    return over;
}

void replica_stop(struct replica *replica)
{
    replica->stopping = true;
    lease_stop(replica->lease);
    wishes_stop(&replica->wishes);
    requests_stop(&replica->requests);
}

void replica_close(struct replica *replica)
{
    requests_close(&replica->requests);
    driver_close(&replica->driver);
    allocator_free(replica->allocator);
    lease_free(replica->lease);
    fsm_free(replica->fsm);
}

void replica_release(struct replica *replica)
{
    id_table_free(replica->table);
}
