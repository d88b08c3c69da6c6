/*
 * node.c - see node.h: the replica on a uv loop.
 *
 * The happy path of a turn: whatever came in (frames, finished writes, requests, wanted tags, time)
 * is taken in by its own handle; before the loop waits again, prepare_cb() lets the replica do
 * everything that has become possible and arms the timer for what is due next.
 *
 *   RUNNING --> DRAINING --> WRITING --> CLOSING --> CLOSED
 *
 * DRAINING: leadership is handed over, everything is still served; then the service gives back
 * what it holds. WRITING: all requests were answered, the disk finishes. CLOSING: handles and
 * links. Each turn goes as far as it can.
 *
 * What other threads ask of the service comes by mailbox, at most LIMIT_MAILBOX_ITEMS at a time. Or
 * they wake the loop (node_wake()), and the service looks what they want.
 *
 * Failure modes of a stop: nobody takes the leadership over: after the grace the node stops as the
 * leader. The service's time to give back is over: it stops with what it holds.
 *
 * Thread: the loop's, but for writer_notify_cb, writer_failed_cb and node_wake.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/driver.h"
#include "raft/core/prepare.h"
#include "raft/node/node.h"
#include "raft/transport/join.h"
#include "raft/transport/net_uv.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"
#include "src/loop/mailbox.h"
#include "storage/disk.h"

#define DIGEST_MS 5000     /* how often nodes compare their state, if it changes */
#define ROWS_JOIN_MS 10    /* changed rows wait so long, then go with the next entries */
#define ROWS_HOLD_MS 50    /* or without any */
#define ROWS_MANY_MS 30    /* those of a bulk: a multiple of it, */
#define ROWS_MANY_TURNS 3  /* so many of them, by the id of the node */
#define GATHER_MAX_US 5000 /* what a commit on a slow disk waits for company */
#define GIVE_BACK_MS 1000  /* what a stop waits for the cluster to take segments back */
#define HEARD_MS 3000      /* a peer that is there tells what its disk has each second */
#define BIRTH_LOG_MS 10000 /* how often it is told that the cluster is not born yet */
#define LED_AGAIN_MAX 3    /* times that leadership is passed on again */

enum node_state { NODE_RUNNING, NODE_DRAINING, NODE_WRITING, NODE_CLOSING, NODE_CLOSED };

struct node {
    const struct node_settings *settings;
    struct node_owner *process; /* hears what ends the node */
    struct service *service;    /* what it runs */
    struct mailbox mailbox;     /* from other threads, for the service */
    struct bell wake;           /* by the writer, or by other threads that want something */
    enum node_state state;
    bool drain; /* hand leadership over */
    bool drained;
    unsigned led_again; /* how often leadership came back while this node stops */
    bool gave_back;     /* what the service holds was offered to the cluster */
    uint64_t grace_until_ms;
    uv_loop_t *loop;
    struct store *store;
    struct writer *writer;
    struct net_uv *net;
    struct net_receiver receiver;
    struct replica replica;
    struct replica_owner owner;
    uv_prepare_t prepare;
    uv_check_t woken; /* the wait of the loop is over: a turn begins */
    uv_idle_t again;  /* keeps the loop from waiting while a turn left work */
    uv_timer_t timer;
    uint64_t timer_ms; /* when it is due, while it is active */
    unsigned handles_open;
    uint64_t seen_leader;
    uint64_t seen_term;    /* of that leader */
    uint64_t seen_birth;   /* changes of the birth watch */
    uint64_t birth_log_ms; /* until then a birth that does not come is not told again */
    bool born_told;
    struct net_keys *keys;        /* NULL once the links have them */
    struct learned_peers learned; /* of a node that was let in at this start */
    void (*stop_cb)(void *data);
    void *stop_data;
};

static uint64_t now_ms_of(const struct node *node)
{
    return clock_now_ms(node->replica.ground.clock);
}

/* --- what comes in --- */

static void writer_notify_cb(void *data)
{
    struct node *node = data;

    bell_ring(&node->wake);
}

static void writer_failed_cb(void *data, int err, const struct store_error *error)
{
    struct node *node = data;

    node->process->failed(node->process, err, error->text);
}

static bool on_frame(struct net_receiver *receiver, uint64_t from, enum frame_type type,
                     const uint8_t *payload, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state >= NODE_WRITING || replica_receive(&node->replica, from, type, payload, len);
}

static void node_link_changed_cb(struct net_receiver *receiver, uint64_t peer, bool up)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    if (node->state < NODE_WRITING) {
        replica_link_changed(&node->replica, peer, up);
    }
}

static void on_gone(struct net_receiver *receiver, uint64_t peer)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    if (node->state < NODE_WRITING) {
        driver_peer_refused(&node->replica.driver, peer);
    }
}

static uint16_t on_level(struct net_receiver *receiver)
{
    return state_level(CONTAINER(receiver, struct node, receiver)->replica.state);
}

static int node_admit_cb(struct net_receiver *receiver, uint64_t peer, uint64_t store_id)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return peers_admit(&node->replica.peers, peer, store_id);
}

static int on_birth(struct net_receiver *receiver, uint64_t peer, const void *statement, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state < NODE_WRITING ? peers_birth(&node->replica.peers, peer, statement, len) : 0;
}

static bool on_know(struct net_receiver *receiver, uint64_t peer, const void *statement, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state < NODE_WRITING && peers_know(&node->replica.peers, peer, statement, len);
}

static int on_check(struct net_receiver *receiver, uint64_t peer, uint64_t store_id,
                    const void *statement, size_t len)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);
    struct net_presence presence = net_uv_presence(node->net, peer, store_id, HEARD_MS);

    return node->state < NODE_WRITING
               ? peers_check(&node->replica.peers, peer, &presence, statement, len)
               : 0;
}

static void on_introduce(struct net_receiver *receiver, struct buf *statement)
{
    peers_state(&CONTAINER(receiver, struct node, receiver)->replica.peers, statement);
}

static bool on_join(struct net_receiver *receiver, uint64_t peer, const void *request, size_t len,
                    struct buf *answer)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    return node->state < NODE_WRITING &&
           peers_join(&node->replica.peers, peer, request, len, answer);
}

/* It has forgotten votes, or entries that it acknowledged. The directory remembers that, since each
 * start would make it look less like an older one. */
static void marked_cb(void *data)
{
    struct node *node = data;

    node->process->failed(node->process, ERR_STALE,
                          "the data directory is an older copy than the cluster has seen of this "
                          "node (was it restored from a backup?): put the newest back, or join "
                          "under a new id");
}

/* The cluster wants no node of this id and these data. Are they any? One that was let in and
 * removed before it heard of the birth has lost nothing. */
static void maybe_lost(struct node *node)
{
    struct birth birth;

    if (!state_birth(node->replica.ground.state, &birth) && node->learned.index == 0) {
        node->process->lost(node->process);
    }
}

static void on_refused(struct net_receiver *receiver, uint64_t peer, int err, const char *text)
{
    struct node *node = CONTAINER(receiver, struct node, receiver);

    /* Not proved, and it passes where addresses move: containers that start may change theirs. And
     * which of two lists, or clusters, is the wrong one, is not known here. */
    log_line(err == ERR_REFUSED || err == ERR_CONFLICT || err == ERR_OTHER_LIST ||
                     err == ERR_OTHER_BIRTH
                 ? LOG_LEVEL_WARN
                 : LOG_LEVEL_ERROR,
             "raft", "a peer refuses this node", "peer=%llu code=%s reason=\"%s\"", ull(peer),
             err_code(err), text);
    if (node->state >= NODE_WRITING) {
        return;
    }
    if (err == ERR_WRONG_NODE || err == ERR_REMOVED) {
        maybe_lost(node);
    }
    if (err == ERR_WRONG_NODE) {
        /* Its vote would count twice if it went on under the id of the directory that was lost. */
        node->process->failed(node->process, ERR_REFUSED,
                              "the cluster knows this node id with another data directory (was it "
                              "wiped or replaced, or is there another process in its place?): put "
                              "the old one back, or join under a new id");
    }
    if (err == ERR_NEWER) {
        node->process->failed(node->process, ERR_NEWER, text);
    }
    if (err == ERR_STALE) {
        driver_mark_older(&node->replica.driver, marked_cb, node);
    }
    birth_watch_refused(&node->replica.births, peer, err);
    if (err == ERR_REMOVED) {
        membership_requests_removed(&node->replica.membership_requests);
        node->process->removed(node->process);
    }
}

/* --- what other threads ask --- */

struct mailbox *node_mailbox(struct node *node)
{
    return &node->mailbox;
}

void node_wake(struct node *node)
{
    bell_ring(&node->wake);
}

static void wake_cb(struct bell *bell)
{
    struct node *node = CONTAINER(bell, struct node, wake);

    if (node->writer != NULL) {
        (void)writer_complete(node->writer);
    }
    node->service->ops->woken(node->service);
}

/* --- what the replica says --- */

static void node_failed_cb(struct replica_owner *owner, int err, const char *text)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    node->process->failed(node->process, err, text);
}

static void node_role_changed_cb(struct replica_owner *owner)
{
    struct node *node = CONTAINER(owner, struct node, owner);
    struct driver *driver = &node->replica.driver;
    uint64_t leader = driver_leader(driver);
    unsigned long long term = driver_term(driver);

    if (leader == node->seen_leader && (leader == 0 || term == node->seen_term)) {
        return;
    }
    node->seen_leader = leader;
    node->seen_term = term;
    if (leader == node->settings->node_id) {
        log_info("raft", "this node leads", "term=%llu", term);
    } else if (leader != 0) {
        log_info("raft", "following a leader", "leader=%llu term=%llu", ull(leader), term);
    } else {
        log_warn("raft", "no leader is known", "term=%llu", term);
    }
}

static void on_way_changed(struct replica_owner *owner, uint64_t through)
{
    (void)owner;
    if (through != 0) {
        log_warn("raft", "the leader is reached through another node", "through=%llu",
                 ull(through));
    } else {
        log_info("raft", "the leader is reached directly again", NULL);
    }
}

/* Told by the own log: the others will not talk to this node any more. */
static void on_superseded(struct replica_owner *owner, uint64_t incarnation)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    log_line(LOG_LEVEL_ERROR, "raft", "the cluster knows a later start of this node",
             "incarnation=%llu known=%llu", ull(node->replica.config.driver.incarnation),
             ull(incarnation));
    if (node->state < NODE_WRITING) {
        driver_mark_older(&node->replica.driver, marked_cb, node);
    }
}

static void on_removed(struct replica_owner *owner)
{
    struct node *node = CONTAINER(owner, struct node, owner);

    log_warn("raft", "this node was removed from the cluster", "node=%llu",
             ull(node->settings->node_id));
    node->process->removed(node->process);
}

/* --- the way to the end --- */

static void closed_one(struct node *node)
{
    ASSERT(node->handles_open > 0);
    if (--node->handles_open > 0) {
        return;
    }
    /* The last requests that were in the mailbox when it closed are answered by now. */
    node->state = NODE_CLOSED;
    replica_close(&node->replica);
    node->stop_cb(node->stop_data);
}

static void mailbox_closed_cb(struct mailbox *mailbox)
{
    closed_one(mailbox->data);
}

static void wake_closed_cb(struct bell *bell)
{
    closed_one(CONTAINER(bell, struct node, wake));
}

static void handle_closed_cb(uv_handle_t *handle)
{
    closed_one(handle->data);
}

static void net_closed_cb(void *data)
{
    closed_one(data);
}

static void begin_closing(struct node *node)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&node->prepare, (uv_handle_t *)&node->again,
                              (uv_handle_t *)&node->timer, (uv_handle_t *)&node->woken};

    node->state = NODE_CLOSING;
    mailbox_close(&node->mailbox, mailbox_closed_cb); /* gives the replica what waits in it, */
    while (replica_turn(&node->replica)) {            /* and that is answered */
        continue;
    }
    writer_stop(node->writer);
    node->writer = NULL;
    net_uv_close(node->net, net_closed_cb, node);
    bell_close(&node->wake, wake_closed_cb);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], handle_closed_cb);
    }
}

/* Leadership has gone, or the grace is over; and what was left in memory was given back, or burnt
 * because nobody answered in time. */
static bool has_given_back(struct node *node)
{
    uint64_t now_ms = now_ms_of(node);
    uint64_t left_ms = node->grace_until_ms > now_ms ? node->grace_until_ms - now_ms : 0;

    if (!node->drained && left_ms > 0) {
        return false;
    }
    if (!node->gave_back) {
        node->gave_back = true;
        replica_give_back(&node->replica,
                          now_ms + (left_ms < GIVE_BACK_MS ? left_ms : GIVE_BACK_MS));
        (void)replica_turn(&node->replica);
    }
    return replica_given_back(&node->replica);
}

/* Leadership that comes back is passed on, for the other may stop, too, and a third may not; but
 * not for ever: where all nodes stop at once it would go round until they end. */
static void hand_over(struct node *node)
{
    bool over = node->led_again >= LED_AGAIN_MAX || replica_transfer(&node->replica);

    node->led_again += node->drained && !over;
    if (node->led_again >= LED_AGAIN_MAX) {
        replica_transfer_end(&node->replica);
        over = true;
    }
    node->drained = over;
}

static void continue_stopping(struct node *node)
{
    struct driver *driver = &node->replica.driver;

    if (node->drain && node->state < NODE_WRITING) {
        hand_over(node);
    }
    if (node->state == NODE_DRAINING && has_given_back(node)) {
        node->state = NODE_WRITING;
        replica_stop(&node->replica);
        while (replica_turn(&node->replica)) {
            continue;
        }
        driver_quiesce(driver);
    }
    if (node->state == NODE_WRITING && driver_is_quiet(driver)) {
        begin_closing(node);
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
    uint64_t now = now_ms_of(node);
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
    if (next == node->timer_ms && uv_is_active((uv_handle_t *)&node->timer)) {
        return;
    }
    node->timer_ms = next;
    uv_update_time(node->loop);
    uv_timer_start(&node->timer, timer_cb, next > now ? next - now : 0, 0);
}

/* Whom the birth of the cluster waits for. */
static void log_waits(const struct birth_seen *waits, size_t count, size_t members)
{
    BUF_LOCAL(text);
    bool wrong = false;

    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "%snode %llu %s", i > 0 ? "; " : "", ull(waits[i].id),
                   birth_wait_text(waits[i].wait));
        wrong = wrong || waits[i].wait >= BIRTH_WAIT_OTHER_LIST;
    }
    log_line(wrong ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "raft",
             "the cluster is not born yet: all members of the first list have to meet",
             "met=%zu of=%zu waits_for=\"%.*s\"", members - count, members, (int)text.len,
             (const char *)text.data);
}

static void log_born(const struct node *node)
{
    char uid[UID_TEXT_BYTES];
    struct birth birth;

    if (state_birth(node->replica.state, &birth)) {
        log_info("raft", "the cluster is born", "uid=%s born_ms=%llu", uid_text(&birth.uid, uid),
                 ull(birth.wall_ms));
    }
}

/* Tell of each change, and while somebody is waited for now and then. */
static void log_birth(struct node *node)
{
    const struct birth_watch *births = &node->replica.births;
    uint64_t now_ms = now_ms_of(node);
    struct birth_seen waits[LIMIT_NODES];
    size_t count;

    if (births->born ? node->born_told
                     : births->changes == node->seen_birth && now_ms < node->birth_log_ms) {
        return;
    }
    if (births->born) {
        node->born_told = true;
        log_born(node);
        return;
    }
    node->seen_birth = births->changes;
    node->birth_log_ms = now_ms + BIRTH_LOG_MS;
    count = birth_watch_waits(births, waits);
    if (count > 0) {
        log_waits(waits, count, births->list.members.count);
    }
}

/* Do what has become possible, go on with a stop, and arm the timer. */
static void node_turn(struct node *node)
{
    bool more = false;

    if (node->state < NODE_WRITING) {
        more = replica_turn(&node->replica);
        log_birth(node);
    }
    continue_stopping(node);
    if (node->state < NODE_CLOSING) {
        arm(node, more);
    }
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct node *node = prepare->data;

    mailbox_hold(); /* an HTTP loop is woken once for all answers */
    node_turn(prepare->data);
    mailbox_release();
    if (node->state < NODE_CLOSED) {
        stall_end(node->service->stall, now_ms_of(node), "raft");
    }
    clock_look(node->replica.ground.clock); /* the loop waits now */
}

/* libuv read the clock when its wait was over; since then frames and requests came in. */
static void woken_cb(uv_check_t *check)
{
    struct node *node = check->data;

    clock_look(node->replica.ground.clock);
    stall_begin(node->service->stall, uv_now(node->loop), "taking in frames");
    stall_step(node->service->stall, now_ms_of(node), "events");
}

/* --- start --- */

static struct replica_config replica_config_of(const struct node *node, uint64_t store_id)
{
    const struct node_settings *settings = node->settings;
    struct replica_config to = settings->replica;
    const char *why; /* a node that listens on a wildcard is where the cluster knows it */

    to.driver.node_id = settings->node_id;
    to.driver.address = settings->peer_address;
    to.driver.applier.rows_join_ms = ROWS_JOIN_MS;
    to.driver.applier.rows_hold_ms = ROWS_HOLD_MS;
    to.driver.applier.rows_many_ms = (uint32_t)(settings->node_id % ROWS_MANY_TURNS) * ROWS_MANY_MS;
    to.driver.seed = prng_entropy();
    to.driver.birth.uid = uid_make(prng_entropy(), prng_entropy());
    to.info.node_id = settings->node_id;
    to.info.store_id = store_id;
    strncpy(to.info.http_address, settings->http_address, sizeof to.info.http_address - 1);
    strncpy(to.info.version, LEAFD_VERSION, sizeof to.info.version - 1);
    if (member_address_check(settings->peer_address, strlen(settings->peer_address), &why)) {
        strncpy(to.info.peer_address, settings->peer_address, sizeof to.info.peer_address - 1);
    }
    to.digest_ms = DIGEST_MS;
    to.cluster_id = settings->cluster_id;
    to.members = settings->members.peers;
    to.member_count = settings->members.count;
    to.learned = &node->learned;
    return to;
}

static int open_net(struct node *node, const struct store_loaded *loaded,
                    struct store_error *ret_error)
{
    const struct node_settings *settings = node->settings;
    const struct net_uv_config net = {.node_id = settings->node_id,
                                      .store_id = loaded->identity.store_id,
                                      .cluster_id = settings->cluster_id,
                                      .keys = node->keys,
                                      .listen_address = settings->listen_address};
    int rv;

    node->receiver = (struct net_receiver){
        .receive = on_frame,
        .link_changed = node_link_changed_cb,
        .gone = on_gone,
        .admit = node_admit_cb,
        .level = on_level,
        .refused = on_refused,
        .birth = on_birth,
        .know = on_know,
        .check = on_check,
        .introduce = on_introduce,
        .join = on_join,
    };
    rv = net_uv_open(node->loop, &net, &node->receiver, &node->net);
    if (rv != 0) {
        snprintf(ret_error->text, sizeof ret_error->text, "cannot listen for peers on %s: %s; %s",
                 net.listen_address, address_reason(rv, errno), address_hint(rv, errno));
    }
    return rv;
}

static void init_handles(struct node *node)
{
    uv_loop_t *loop = node->loop;

    ASSERT(uv_prepare_init(loop, &node->prepare) == 0);
    ASSERT(uv_check_init(loop, &node->woken) == 0);
    ASSERT(uv_idle_init(loop, &node->again) == 0);
    ASSERT(uv_timer_init(loop, &node->timer) == 0);
    ASSERT(mailbox_init(&node->mailbox, loop, LIMIT_MAILBOX_ITEMS) == 0);
    ASSERT(bell_init(&node->wake, loop, wake_cb) == 0);
    node->mailbox.data = node;
    node->prepare.data = node;
    node->woken.data = node;
    node->again.data = node;
    node->timer.data = node;
    node->handles_open = 7; /* these and the net */
}

/* After the links are open nothing can fail but a log that the core refuses, which `failed`
 * reports. */
static int start_replica(struct node *node, struct state *state, const struct store_loaded *loaded)
{
    struct replica_parts parts = {.state = state,
                                  .service = node->service,
                                  .net = net_uv_net(node->net),
                                  .clock = clock_system(),
                                  .loaded = loaded};
    struct replica_config config = replica_config_of(node, loaded->identity.store_id);
    struct writer_config writer = {
        .notify = writer_notify_cb,
        .failed = writer_failed_cb,
        .data = node,
        .gather_max_us = GATHER_MAX_US,
    };
    int rv;

    init_handles(node);
    rv = writer_start(node->store, &writer, &node->writer);
    ASSERT(rv == 0);
    node->owner = (struct replica_owner){
        .failed = node_failed_cb,
        .role_changed = node_role_changed_cb,
        .removed = on_removed,
        .superseded = on_superseded,
        .way_changed = on_way_changed,
    };
    parts.disk = writer_disk(node->writer);
    return replica_start(&node->replica, &config, &parts, &node->owner);
}

/* A store without a log belongs to a node that begins a cluster with others, or joins one. */
static int maybe_join(struct node *node, const struct store_loaded *loaded,
                      struct store_error *ret_error)
{
    const struct node_settings *settings = node->settings;
    struct join_config join = {.node_id = settings->node_id,
                               .store_id = loaded->identity.store_id,
                               .cluster_id = settings->cluster_id,
                               .keys = node->keys,
                               .address = settings->peer_address,
                               .targets = settings->join.peers,
                               .target_count = settings->join.count};
    struct join_result joined;
    int rv;

    if (!prepare_is_empty(loaded)) {
        return 0;
    }
    if (settings->join.count == 0) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "this node was to join a cluster and was not let in yet: say again whom to ask");
        return ERR_INVALID;
    }
    node->process->joining(node->process);
    rv = join_cluster(&join, &joined);
    snprintf(ret_error->text, sizeof ret_error->text, "%s", joined.why);
    if (rv == 0) {
        node->learned.index = joined.index;
        node->learned.birth = joined.birth;
        rv = configuration_decode(joined.conf.data, joined.conf.len, &node->learned.conf);
        ASSERT(rv == 0); /* it was checked */
    }
    buf_free(&joined.conf);
    return rv;
}

/* One node that is told of no other begins a cluster at once, and nothing would keep a second one
 * of the same list from beginning another: so that has to be meant. */
static int check_single(struct node *node, struct store_error *ret_error)
{
    const struct node_settings *settings = node->settings;
    bool is_empty = false;
    int rv = 0;

    if (settings->members.count == 1 && settings->join.count == 0 && !settings->bootstrap_single) {
        rv = prepare_look(node->store, &is_empty, ret_error);
    }
    if (rv == 0 && is_empty) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "cluster.members names this node alone and the data directory is new: it would "
                 "begin a cluster apart from any other. Name all first members, the same list on "
                 "each; or set join; or, if one node is to be all of it, set "
                 "cluster.bootstrap = single");
        rv = ERR_INVALID;
    }
    return rv;
}

static bool lists_differ(const struct configuration *list, const struct node_peers *members)
{
    bool differ = list->count != members->count;

    for (size_t i = 0; i < members->count && !differ; i++) {
        const struct conf_member *member = configuration_find(list, members->peers[i].id);

        differ = member == NULL || strcmp(member->address, members->peers[i].address) != 0;
    }
    return differ;
}

/* The list of an earlier start holds, and of a cluster that was never born nobody else knows it:
 * who has set it right must hear that this did not help. */
static int check_list(const struct node *node, const struct state *state,
                      const struct store_loaded *loaded, struct store_error *ret_error)
{
    const struct node_settings *settings = node->settings;
    struct birth_list list;
    struct birth birth;

    birth_list_read(loaded, settings->node_id, settings->cluster_id, node->service, &list);
    if (state_birth(state, &birth) || loaded->entry_count != 1 || list.members.count == 0 ||
        settings->join.count > 0 || !lists_differ(&list.members, &settings->members)) {
        return 0;
    }
    snprintf(
        ret_error->text, sizeof ret_error->text,
        "cluster.members is not what it was when the data directory was made, and that cluster "
        "is not born yet, as far as this node has heard: remove the directory, which holds "
        "nothing, or put the list back");
    return ERR_INVALID;
}

int node_keys_prepare(const struct net_key_source *source, struct net_keys **ret_keys,
                      char ret_why[NET_KEYS_WHY_BYTES])
{
    return net_keys_make(source, ret_keys, ret_why);
}

bool node_keys_commit(struct node *node, struct net_keys *keys, unsigned *ret_renewed)
{
    if (node->state < NODE_WRITING) {
        return net_uv_set_keys(node->net, keys, ret_renewed);
    }
    net_keys_unref(keys);
    return false;
}

int node_start(uv_loop_t *loop, const struct node_settings *settings, struct node_owner *owner,
               struct store *store, struct service *service, struct node **ret_node,
               struct store_error *ret_error)
{
    struct node *node = MUST_HAVE(calloc(1, sizeof *node));
    struct state *state = state_new(service->machine);
    struct store_loaded loaded;
    int rv;

    ASSERT(settings->peer_address != NULL);
    node->settings = settings;
    node->process = owner;
    node->service = service;
    node->loop = loop;
    node->store = store;
    _Static_assert(sizeof ret_error->text >= NET_KEYS_WHY_BYTES, "what is wrong with keys fits");
    rv = net_keys_make(&settings->keys, &node->keys, ret_error->text);
    if (rv == 0) {
        rv = check_single(node, ret_error);
    }
    if (rv != 0) {
        goto err_free;
    }
    rv = prepare_load(store, state, settings->node_id, (uint32_t)prng_entropy(),
                      settings->members.peers,
                      settings->join.count > 0 ? 0 : settings->members.count, &loaded, ret_error);
    if (rv != 0) {
        goto err_free;
    }
    rv = check_list(node, state, &loaded, ret_error);
    if (rv == 0) {
        rv = maybe_join(node, &loaded, ret_error);
    }
    if (rv != 0) {
        goto err_loaded;
    }
    rv = open_net(node, &loaded, ret_error);
    if (rv != 0) {
        goto err_loaded;
    }
    net_keys_unref(node->keys);
    node->keys = NULL;
    rv = start_replica(node, state, &loaded);
    if (rv != 0) { /* `failed` was told, and does not return in the process */
        UNREACHABLE("a replica that does not start");
    }
    store_loaded_release(&loaded);
    uv_prepare_start(&node->prepare, prepare_cb);
    uv_check_start(&node->woken, woken_cb);
    stall_begin(node->service->stall, now_ms_of(node), "the start");
    *ret_node = node;
    return 0;

err_loaded:
    store_loaded_release(&loaded);
err_free:
    net_keys_unref(node->keys);
    state_free(state);
    free(node);
    return rv;
}

void node_drain(struct node *node)
{
    node->service->ops->drain(node->service);
    node->drain = true;
    node_turn(node);
}

bool node_drained(const struct node *node)
{
    return node->drained;
}

void node_stop(struct node *node, uint32_t grace_ms, void (*cb)(void *data), void *data)
{
    ASSERT(node->state == NODE_RUNNING);
    node->state = NODE_DRAINING;
    node->stop_cb = cb;
    node->stop_data = data;
    node->grace_until_ms = now_ms_of(node) + grace_ms;
    node_drain(node);
}

void node_free(struct node *node)
{
    ASSERT(node->state == NODE_CLOSED);
    replica_release(&node->replica);
    bell_free(&node->wake);
    mailbox_free(&node->mailbox);
    free(node);
}
