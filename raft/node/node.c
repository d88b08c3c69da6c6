/*
 * node.c - see node.h: the replica on a uv loop.
 *
 * The happy path of a turn: whatever came in (frames, finished writes, requests, wanted tags, time)
 * is taken in by its own handle; before the loop waits again, prepare_cb() lets the replica do
 * everything that has become possible and arms the timer for what is due next.
 *
 * Wanted tags come from the HTTP loops on a lock-free list (a tag is on it at most once, since only
 * who turns refill_wanted from false to true links it); requests come by mailbox.
 *
 * Thread: the loop's, but for backend_submit, backend_want, notify_cb and writer_failed_cb.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/node/node_internal.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define DIGEST_MS 60000 /* how often nodes compare their state */
#define GRANT_REQUEST_MS 10000
#define GRANT_RETRY_MS 50
#define ROWS_JOIN_MS 10 /* changed rows wait so long, then go with the next entries */
#define ROWS_HOLD_MS 50 /* or without any */

/* --- the backend --- */

struct posted_request {
    struct mailbox_item item;
    struct node *node;
    struct id_request *request;
};

static void run_posted(struct mailbox_item *item)
{
    struct posted_request *posted = CONTAINER(item, struct posted_request, item);

    replica_submit(&posted->node->replica, posted->request);
    free(posted);
}

static void backend_submit(struct id_backend *backend, struct id_request *request)
{
    struct node *node = CONTAINER(backend, struct node, backend);
    struct posted_request *posted = malloc(sizeof *posted);
    int rv;

    ASSERT(posted != NULL);
    posted->item.run = run_posted;
    posted->node = node;
    posted->request = request;
    rv = mailbox_post(&node->mailbox, &posted->item);
    if (rv != 0) {
        free(posted);
        request->status = rv;
        request->done(request);
    }
}

static void backend_want(struct id_backend *backend, struct id_tag *tag)
{
    struct node *node = CONTAINER(backend, struct node, backend);

    if (want_list_push(&node->wanted, tag)) {
        (void)uv_async_send(&node->want_async);
    }
}

static void backend_notify(struct id_backend *backend)
{
    /* Waking is enough: each turn looks at what the generator wants. */
    (void)uv_async_send(&CONTAINER(backend, struct node, backend)->want_async);
}

static const struct id_backend_ops backend_ops = {backend_submit, backend_want, backend_notify};

static void take_wanted(struct node *node)
{
    struct id_tag *tag = want_list_take(&node->wanted);

    while (tag != NULL) {
        struct id_tag *next = want_list_next(tag);

        allocator_want(node->replica.allocator, tag);
        tag = next;
    }
}

/* --- what comes in --- */

static void want_cb(uv_async_t *async)
{
    take_wanted(async->data);
}

static void disk_cb(uv_async_t *async)
{
    struct node *node = async->data;

    if (node->writer != NULL) {
        (void)writer_complete(node->writer);
    }
}

static void writer_notify_cb(void *data)
{
    struct node *node = data;

    (void)uv_async_send(&node->disk_async);
}

static void writer_failed_cb(void *data, int err, const struct store_error *error)
{
    struct node *node = data;

    node->config.failed(node->config.data, err, error->text);
}

static bool receive(struct net_receiver *receiver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    if (node->state >= NODE_WRITING) {
        return true;
    }
    return replica_receive(&node->replica, from, type, payload, len);
}

static void link_changed(struct net_receiver *receiver, uint64_t peer, bool up)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    if (node->state < NODE_WRITING) {
        replica_link_changed(&node->replica, peer, up);
    }
}

static void gone(struct net_receiver *receiver, uint64_t peer)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    if (node->state < NODE_WRITING) {
        replica_peer_gone(&node->replica, peer);
    }
}

static int admit(struct net_receiver *receiver, uint64_t peer, uint64_t store_id)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return members_admit(&node->replica.members, peer, store_id);
}

static bool know(struct net_receiver *receiver, uint64_t peer, const void *statement, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state < NODE_WRITING && members_know(&node->replica.members, peer, statement, len);
}

static int check(struct net_receiver *receiver, uint64_t peer, const void *statement, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state < NODE_WRITING ? members_check(&node->replica.members, peer, statement, len)
                                      : 0;
}

static void introduce(struct net_receiver *receiver, struct buf *statement)
{
    members_state(&CONTAINER(receiver, struct node, receiver)->replica.members, statement);
}

static bool join_request(struct net_receiver *receiver, uint64_t peer, const void *request,
                         size_t len, struct buf *answer)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state < NODE_WRITING &&
           members_join(&node->replica.members, peer, request, len, answer);
}

/* It has forgotten votes, or entries that it acknowledged. The directory remembers that, since each
 * start would make it look less like an older one. */
static void marked_cb(void *data)
{
    struct node *node = data;

    node->config.failed(node->config.data, ERR_STALE,
                        "the data directory is an older copy than the cluster has seen of this "
                        "node (was it restored from a backup?): put the newest back, or join under "
                        "a new id");
}

static void refused(struct net_receiver *receiver, uint64_t peer, int err, const char *text)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    /* Not proved, and it passes where addresses move: containers that start may change theirs. */
    log_line(err == ERR_REFUSED ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR, "raft",
             "a peer refuses this node", "peer=%llu code=%s reason=\"%s\"",
             (unsigned long long)peer, err_code(err), text);
    if (err == ERR_WRONG_NODE && node->state < NODE_WRITING) {
        /* Its vote would count twice if it went on under the id of the directory that was lost. */
        node->config.failed(node->config.data, ERR_REFUSED,
                            "the cluster knows this node id with another data directory (was it "
                            "wiped or replaced?): put the old one back, or join under a new id");
    }
    if (err == ERR_STALE && node->state < NODE_WRITING) {
        driver_mark_older(&node->replica.driver, marked_cb, node);
    }
    if (err == ERR_REMOVED && node->config.removed != NULL && node->state < NODE_WRITING) {
        node->config.removed(node->config.data);
    }
}

/* --- what the replica tells --- */

static void on_failed(struct replica_owner *owner, int err, const char *text)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    node->config.failed(node->config.data, err, text);
}

static void on_role_changed(struct replica_owner *owner)
{
    struct node *node = CONTAINER(owner, struct node, owner);
    struct driver *driver = &node->replica.driver;
    uint64_t leader = driver_leader(driver);
    unsigned long long term = raft_current_term(&driver->raft);

    if (leader == node->seen_leader) {
        return;
    }
    node->seen_leader = leader;
    if (leader == node->config.node_id) {
        log_info("raft", "this node leads", "term=%llu", term);
    } else if (leader != 0) {
        log_info("raft", "following a leader", "leader=%llu term=%llu", (unsigned long long)leader,
                 term);
    } else {
        log_warn("raft", "no leader is known", "term=%llu", term);
    }
}

static void on_way_changed(struct replica_owner *owner, uint64_t through)
{
    (void)owner;
    if (through != 0) {
        log_warn("raft", "the leader is reached through another node", "through=%llu",
                 (unsigned long long)through);
    } else {
        log_info("raft", "the leader is reached directly again", NULL);
    }
}

static void on_installed(struct replica_owner *owner, uint64_t index)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    log_info("raft", "snapshot installed", "index=%llu tags=%zu", (unsigned long long)index,
             fsm_tag_count(node->replica.fsm));
}

/* Told by the own log: the others will not talk to this node any more. */
static void on_superseded(struct replica_owner *owner, uint64_t incarnation)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    log_line(LOG_LEVEL_ERROR, "raft", "the cluster knows a later start of this node",
             "incarnation=%llu known=%llu",
             (unsigned long long)node->replica.config.driver.incarnation,
             (unsigned long long)incarnation);
    if (node->state < NODE_WRITING) {
        driver_mark_older(&node->replica.driver, marked_cb, node);
    }
}

static void on_removed(struct replica_owner *owner)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    log_warn("raft", "this node was removed from the cluster", "node=%llu",
             (unsigned long long)node->config.node_id);
    if (node->config.removed != NULL) {
        node->config.removed(node->config.data);
    }
}

/* --- turns --- */

static void timer_cb(uv_timer_t *timer)
{
    (void)timer; /* waking is enough: prepare_cb() does the work */
}

static void again_cb(uv_idle_t *idle)
{
    (void)idle;
}

static void arm(struct node *node, bool more)
{
    uint64_t now = clock_now_ms(node->backend.clock);
    uint64_t next = replica_next_ms(&node->replica);

    if (node->drain && !node->drained && next > now + 1) {
        next = now + 1; /* leadership is handed over in small steps */
    }
    if (more) {
        uv_idle_start(&node->again, again_cb);
    } else {
        uv_idle_stop(&node->again);
    }
    if (next == UINT64_MAX) {
        uv_timer_stop(&node->timer);
        return;
    }
    uv_update_time(node->loop);
    uv_timer_start(&node->timer, timer_cb, next > now ? next - now : 0, 0);
}

/* Tell once when snowflake ids begin to be refused, or for another reason, or are served again. */
static void log_refusal(struct node *node)
{
    const struct id_health *health = &node->replica.health;
    int refusal = atomic_load_explicit(&health->snowflake_refusal, memory_order_relaxed);

    if (refusal == node->seen_refusal) {
        return;
    }
    node->seen_refusal = refusal;
    if (refusal == ERR_EMPTY) {
        log_info("snowflake", "waiting for a worker id", "workers=%u", node->config.lease.workers);
    } else if (refusal == 0) {
        log_info("snowflake", "ids are served", "workers=%u",
                 atomic_load(&node->replica.snowflake.slot_count));
    } else {
        log_warn("snowflake", "ids are refused", "code=%s clock_off_ms=%lld wait_until_ms=%llu",
                 err_code(refusal), (long long)atomic_load(&health->clock_off_ms),
                 (unsigned long long)atomic_load(&health->clock_wait_until_ms));
    }
}

void node_turn(struct node *node)
{
    bool more = false;

    if (node->state < NODE_WRITING) {
        more = replica_turn(&node->replica);
        log_refusal(node);
    }
    node_continue_stopping(node);
    if (node->state < NODE_CLOSING) {
        arm(node, more);
    }
}

static void prepare_cb(uv_prepare_t *prepare)
{
    node_turn(prepare->data);
}

/* --- start --- */

static const char *own_address(const struct node_config *config)
{
    if (config->peer_address != NULL) {
        return config->peer_address;
    }
    for (size_t i = 0; i < config->member_count; i++) {
        if (config->members[i].id == config->node_id) {
            return config->members[i].address;
        }
    }
    return NULL;
}

static struct replica_config replica_config_of(const struct node *node, uint64_t store_id)
{
    const struct node_config *config = &node->config;
    struct replica_config to = {0};

    to.driver.node_id = config->node_id;
    to.driver.address = own_address(config);
    to.driver.heartbeat_ms = config->heartbeat_ms;
    to.driver.election_ms = config->election_ms;
    to.driver.snapshot_entries = config->snapshot_entries;
    to.driver.trailing_entries = config->trailing_entries;
    to.driver.rows_join_ms = ROWS_JOIN_MS;
    to.driver.rows_hold_ms = ROWS_HOLD_MS;
    to.driver.seed = prng_entropy();
    to.allocator.cover_ms = config->cover_ms;
    to.allocator.refill_percent = config->refill_percent;
    to.allocator.request_ms = GRANT_REQUEST_MS;
    to.allocator.retry_ms = GRANT_RETRY_MS;
    to.info.node_id = config->node_id;
    to.info.store_id = store_id;
    strncpy(to.info.http_address, config->http_address, sizeof to.info.http_address - 1);
    strncpy(to.info.version, config->version, sizeof to.info.version - 1);
    to.digest_ms = DIGEST_MS;
    to.lease = config->lease;
    to.lease.node_id = config->node_id;
    to.lease.store_id = store_id;
    to.lease.address = config->http_address;
    to.cluster_id = config->cluster_id;
    to.catch_up_ms = config->catch_up_ms;
    to.guests = node->joined.peers;
    to.guest_count = node->joined.peer_count;
    to.guest_index = node->joined.index;
    to.strict_keys = config->strict_keys;
    to.prefetch = config->prefetch;
    return to;
}

static int open_net(struct node *node, const struct store_loaded *loaded,
                    struct store_error *ret_error)
{
    const struct node_config *config = &node->config;
    struct net_uv_config net = {0};
    int rv;

    net.node_id = config->node_id;
    net.store_id = loaded->identity.store_id;
    net.cluster_id = config->cluster_id;
    net.secret = config->secret;
    net.secret_len = config->secret_len;
    net.listen_address =
        config->listen_address != NULL ? config->listen_address : own_address(config);
    node->receiver = (struct net_receiver){receive, link_changed, gone,      admit,       refused,
                                           know,    check,        introduce, join_request};
    rv = net_uv_open(node->loop, &net, &node->receiver, &node->net);
    if (rv != 0) {
        snprintf(ret_error->text, sizeof ret_error->text, "cannot listen for peers on %s: %s",
                 net.listen_address, err_text(rv));
    }
    return rv;
}

static void init_handles(struct node *node)
{
    uv_loop_t *loop = node->loop;

    ASSERT(mailbox_init(&node->mailbox, loop, LIMIT_MAILBOX_ITEMS) == 0);
    ASSERT(uv_async_init(loop, &node->disk_async, disk_cb) == 0);
    ASSERT(uv_async_init(loop, &node->want_async, want_cb) == 0);
    ASSERT(uv_prepare_init(loop, &node->prepare) == 0);
    ASSERT(uv_idle_init(loop, &node->again) == 0);
    ASSERT(uv_timer_init(loop, &node->timer) == 0);
    node->mailbox.data = node;
    node->disk_async.data = node;
    node->want_async.data = node;
    node->prepare.data = node;
    node->again.data = node;
    node->timer.data = node;
    node->handles_open = 7; /* these and the net */
}

static void init_backend(struct node *node)
{
    node->backend.ops = &backend_ops;
    node->backend.table = node->replica.table;
    node->backend.snowflake = &node->replica.snowflake; /* without workers: to decode ids */
    node->backend.health = &node->replica.health;
    node->backend.clock = clock_system();
    node->backend.refill_percent = node->config.refill_percent;
}

/* After the links are open nothing can fail but a log that the core refuses, which `failed`
 * reports. */
static int start_replica(struct node *node, struct fsm *fsm, const struct store_loaded *loaded)
{
    struct replica_config config = replica_config_of(node, loaded->identity.store_id);
    struct writer_config writer = {writer_notify_cb, writer_failed_cb, node};
    int rv;

    init_handles(node);
    rv = writer_start(node->store, &writer, &node->writer);
    ASSERT(rv == 0);
    node->owner = (struct replica_owner){on_failed,  on_role_changed, on_installed,
                                         on_removed, on_superseded,   on_way_changed};
    return replica_start(&node->replica, &config, fsm, writer_disk(node->writer),
                         net_uv_net(node->net), clock_system(), &node->owner, loaded);
}

/* A store without a log belongs to a node that begins a cluster with others, or joins one. */
static int maybe_join(struct node *node, const struct store_loaded *loaded,
                      struct store_error *ret_error)
{
    const struct node_config *config = &node->config;
    struct join_config join = {.node_id = config->node_id,
                               .store_id = loaded->identity.store_id,
                               .cluster_id = config->cluster_id,
                               .secret = config->secret,
                               .secret_len = config->secret_len,
                               .address = own_address(config),
                               .targets = config->join,
                               .target_count = config->join_count};

    if (!driver_is_empty(loaded)) {
        return 0;
    }
    if (config->join_count == 0) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "this node was to join a cluster and was not let in yet: say again whom to ask");
        return ERR_INVALID;
    }
    return join_cluster(&join, &node->joined, ret_error);
}

int node_start(uv_loop_t *loop, const struct node_config *config, struct store *store,
               struct node **ret_node, struct store_error *ret_error)
{
    struct node *node = calloc(1, sizeof *node);
    struct fsm *fsm = fsm_new();
    struct store_loaded loaded;
    int rv;

    ASSERT(node != NULL && own_address(config) != NULL);
    node->config = *config;
    node->loop = loop;
    node->store = store;
    rv = config->reset_term ? driver_reset_term(store, ret_error) : 0;
    if (rv != 0) {
        goto err_free;
    }
    rv = driver_load(store, fsm, config->node_id, config->members,
                     config->join_count > 0 ? 0 : config->member_count, &loaded, ret_error);
    if (rv != 0) {
        goto err_free;
    }
    rv = maybe_join(node, &loaded, ret_error);
    if (rv != 0) {
        goto err_loaded;
    }
    rv = open_net(node, &loaded, ret_error);
    if (rv != 0) {
        goto err_loaded;
    }
    log_info("raft", "state loaded", "tags=%zu applied=%llu last=%llu term=%llu incarnation=%llu",
             fsm_tag_count(fsm), (unsigned long long)loaded.position.index,
             (unsigned long long)(loaded.first_index + loaded.entry_count - 1),
             (unsigned long long)loaded.term, (unsigned long long)loaded.incarnation);
    rv = start_replica(node, fsm, &loaded);
    if (rv != 0) { /* `failed` was told, and does not return in the process */
        UNREACHABLE("a replica that does not start");
    }
    store_loaded_release(&loaded);
    init_backend(node);
    node->seen_refusal = config->lease.workers > 0 ? 0 : ERR_DISABLED;
    uv_prepare_start(&node->prepare, prepare_cb);
    *ret_node = node;
    return 0;

err_loaded:
    store_loaded_release(&loaded);
err_free:
    fsm_free(fsm);
    free(node);
    return rv;
}

struct id_backend *node_backend(struct node *node)
{
    return &node->backend;
}

void node_set_waker(struct node *node, struct id_waker *waker)
{
    allocator_set_waker(node->replica.allocator, waker);
}
