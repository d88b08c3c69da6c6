/*
 * node.c - see node.h: handles of a uv loop around a replica, and the requests of a joining node.
 *
 * The happy path of a turn: each handle takes its own input (frames, finished writes, requests,
 * wanted tags, time). Before the loop waits again, prepare_cb() lets the replica do everything that
 * has become possible and arms the timer for the next due work. When the replica is quiet during a
 * stop, handles and links are closed.
 *
 * Other threads reach the service by mailbox, at most LIMIT_MAILBOX_ITEMS at a time. Or they wake
 * the loop (node_wake()), and the service checks for their requests.
 *
 * Failure modes: the replica's. Thread: the loop's, but for writer_notify_cb, writer_failed_cb and
 * node_wake.
 */
#include "raft/node/node.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/driver.h"
#include "raft/core/prepare.h"
#include "raft/transport/net_conn.h"
#include "raft/transport/net_uv.h"
#include "raft/wire/wire.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"
#include "src/loop/mailbox.h"
#include "storage/disk.h"

#define DIGEST_MS 5000     /* how often nodes compare their state, if it changes */
#define ROWS_JOIN_MS 10    /* changed rows wait this long, then go with the next entries */
#define ROWS_HOLD_MS 50    /* or alone */
#define ROWS_MANY_MS 30    /* rows of a bulk wait a multiple of it, */
#define ROWS_MANY_TURNS 3  /* up to this multiple, by the id of the node */
#define GATHER_MAX_US 5000 /* how long a commit on a slow disk waits for more work */

struct node {
    struct replica replica;
    const struct node_settings *settings;
    struct replica_listener *process; /* gets events that end the node */
    struct service *service;          /* that it runs */
    struct mailbox mailbox;           /* from other threads, for the service; the writer wakes it */
    uv_loop_t *loop;
    struct store *store;
    struct writer *writer;
    struct net_uv *net;
    uv_prepare_t prepare;
    uv_check_t woken; /* the wait of the loop is over: a turn begins */
    uv_timer_t timer;
    uint64_t timer_ms; /* when it is due, while it is active */
    bool closing;
    unsigned handles_open;        /* 0 when it is closed */
    struct net_keys *keys;        /* NULL once the links have them */
    int64_t keys_until_s;         /* of those in force */
    struct learned_peers learned; /* of a node that was admitted at this start */
    void (*stop_cb)(void *data);
    void *stop_data;
};

static uint64_t now_ms_of(const struct node *node)
{
    return clock_now_ms(node->replica.context.clock);
}

/* --- requests of other threads --- */

static void writer_notify_cb(void *data)
{
    node_wake(data);
}

static void writer_failed_cb(void *data, int err, const struct store_error *error)
{
    struct node *node = data;

    node->process->failed(node->process, err, error->text);
}

struct mailbox *node_mailbox(struct node *node)
{
    return &node->mailbox;
}

void node_wake(struct node *node)
{
    mailbox_wake(&node->mailbox);
}

static void wake_cb(struct mailbox *mailbox)
{
    struct node *node = CONTAINER(mailbox, struct node, mailbox);

    if (node->writer != NULL) {
        (void)writer_complete(node->writer);
    }
    node->service->ops->woken(node->service);
}

/* --- the end --- */

static void closed_one(void *data)
{
    struct node *node = data;

    ASSERT(node->handles_open > 0);
    if (--node->handles_open > 0) {
        return;
    }
    /* The last requests that were in the mailbox when it closed are answered by now. */
    replica_close(&node->replica);
    node->stop_cb(node->stop_data);
}

static void mailbox_closed_cb(struct mailbox *mailbox)
{
    closed_one(CONTAINER(mailbox, struct node, mailbox));
}

static void handle_closed_cb(uv_handle_t *handle)
{
    closed_one(handle->data);
}

/* --- turns --- */

static void timer_cb(uv_timer_t *timer)
{
    (void)timer; /* waking is enough: prepare_cb() does the work */
}

/* Do all work that has become possible, and arm the timer; or close what is open. */
static void node_turn(struct node *node)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&node->prepare, (uv_handle_t *)&node->timer,
                              (uv_handle_t *)&node->woken};
    bool more;
    uint64_t now;
    uint64_t next;

    if (node->closing) {
        return;
    }
    more = replica_turn(&node->replica);
    if (node->replica.phase == REPLICA_QUIET) {
        node->closing = true;
        mailbox_close(&node->mailbox, mailbox_closed_cb); /* gives its waiting items to the */
        while (replica_turn(&node->replica)) {            /* replica, which answers them */
            continue;
        }
        writer_stop(node->writer, replica_write_left_ms(&node->replica));
        node->writer = NULL;
        net_uv_close(node->net, closed_one, node);
        for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
            uv_close(handles[i], handle_closed_cb);
        }
        return;
    }
    now = now_ms_of(node);
    next = more ? now : replica_next_ms(&node->replica); /* with more, no wait */
    if (next == UINT64_MAX) {
        uv_timer_stop(&node->timer);
    } else if (more || next != node->timer_ms || !uv_is_active((uv_handle_t *)&node->timer)) {
        node->timer_ms = next;
        uv_update_time(node->loop);
        uv_timer_start(&node->timer, timer_cb, next > now ? next - now : 0, 0);
    }
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct node *node = prepare->data;

    mailbox_hold(); /* an HTTP loop is woken once for all answers */
    node_turn(node);
    mailbox_release();
    if (node->handles_open > 0) {
        stall_end(node->service->stall, now_ms_of(node), "raft");
    }
    clock_look(node->replica.context.clock); /* the loop waits now */
}

/* libuv read the clock when its wait ended; frames and requests came in since. */
static void woken_cb(uv_check_t *check)
{
    struct node *node = check->data;

    clock_look(node->replica.context.clock);
    stall_begin(node->service->stall, uv_now(node->loop), "taking in frames");
    stall_step(node->service->stall, now_ms_of(node), "events");
}

/* --- a node that joins ---
 *
 * It asks the cluster's members for admission, before anything else of it runs. Meanwhile the loop
 * serves the process: signals, and the watch over the data directory.
 *
 * One attempt is one connection (net_conn.h), which ends with the answer or an error. Once the
 * connection is freed, a timer begins the next attempt, with the next address. */

#define JOIN_SOON_MS 200
#define JOIN_LATER_MS 1000
#define JOIN_REASON_BYTES 320

struct join {
    struct node *node;         /* its settings have the members to ask; gets their answers */
    struct store_error *error; /* why this node is refused */
    int status;                /* once done */
    bool done;
    struct net_hub hub;
    struct net_receiver receiver; /* of the handshakes; there are no links */
    uv_timer_t timer;             /* the wait before the next attempt */
    uv_signal_t sigterm;
    uv_signal_t sigint;
    unsigned handles_open; /* of these three */
    size_t target;         /* the member to ask next */
    unsigned offer;        /* which credential of the keys it is offered */
    struct net_conn *conn; /* of the attempt; NULL: it is freed */
    bool trying;           /* it may still succeed */
    char reason[JOIN_REASON_BYTES];
};

/* --- ends --- */

static void attempt_end(struct join *join, const char *reason)
{
    join->trying = false;
    if (join->conn != NULL) {
        net_conn_close(join->conn, reason);
    }
}

static void join_closed_cb(uv_handle_t *handle)
{
    ((struct join *)handle->data)->handles_open--;
}

static void join_finish(struct join *join, int status)
{
    if (join->done) {
        return;
    }
    join->done = true;
    join->status = status;
    attempt_end(join, "the join is over");
    uv_close((uv_handle_t *)&join->timer, join_closed_cb);
    uv_close((uv_handle_t *)&join->sigterm, join_closed_cb);
    uv_close((uv_handle_t *)&join->sigint, join_closed_cb);
}

static void join_refuse(struct join *join, int status, const char *text)
{
    (void)snprintf(join->error->text, sizeof join->error->text, "%s", text);
    join_finish(join, status);
}

static void attempt_cb(uv_timer_t *timer);

/* The attempt is over; another one follows. */
static void join_again(struct join *join, uint64_t wait_ms, const char *reason)
{
    const struct node_peers *targets = &join->node->settings->join;
    const char *address = targets->peers[join->target].address;
    char quoted[JOIN_REASON_BYTES * 2];
    char quoted_address[LIMIT_ADDRESS_BYTES * 2];

    if (join->done || !join->trying) {
        return;
    }
    attempt_end(join, reason);
    if (reason != NULL && strncmp(join->reason, reason, sizeof join->reason - 1) != 0) {
        (void)snprintf(join->reason, sizeof join->reason, "%s", reason);
        log_warn("net", "cannot join yet, retrying", "through=%s reason=%s",
                 log_quote(address, strlen(address), quoted_address, sizeof quoted_address),
                 log_quote(reason, strlen(reason), quoted, sizeof quoted));
    }
    if (reason != NULL) {
        join->target = (join->target + 1) % targets->count;
    }
    ASSERT(uv_timer_start(&join->timer, attempt_cb, wait_ms, 0) == 0);
}

static void signal_cb(uv_signal_t *handle, int signal_number)
{
    (void)signal_number;
    join_finish(handle->data, ERR_SHUTTING_DOWN);
}

/* --- reports of the other side --- */

static void join_answered(struct net_conn *conn, const struct frame *frame)
{
    struct join *join = conn->owner;
    struct learned_peers *learned = &join->node->learned;
    char first[UID_TEXT_BYTES];
    char second[UID_TEXT_BYTES];
    char why[JOIN_REASON_BYTES];
    struct wire_joined joined;

    if (wire_joined_decode(frame->payload, frame->len, &joined) != 0) {
        join_again(join, JOIN_LATER_MS, "a malformed answer");
        return;
    }
    /* Is it of the cluster that answered first? */
    if (uid_is_none(&learned->birth.uid)) {
        learned->birth = joined.birth;
    }
    if (!uid_is_none(&joined.birth.uid) && !uid_equal(&learned->birth.uid, &joined.birth.uid)) {
        (void)snprintf(
            why, sizeof why,
            "the nodes to ask belong to two clusters, %s and %s: name in join the members of "
            "one alone",
            uid_text(&learned->birth.uid, first), uid_text(&joined.birth.uid, second));
        join_refuse(join, ERR_OTHER_BIRTH, why);
        return;
    }
    switch (joined.answer.outcome) {
    case MEMBER_DONE:
        learned->index = joined.conf.index;
        ASSERT(configuration_decode(joined.conf.data, joined.conf.len, &learned->conf) == 0);
        join_finish(join, 0);
        return;
    case MEMBER_PENDING:
        join_again(join, JOIN_SOON_MS, NULL);
        return;
    case MEMBER_IN_PROGRESS:
        join_again(join, JOIN_SOON_MS, "another change of the membership is under way");
        return;
    case MEMBER_WAS_REMOVED:
        join_refuse(join, ERR_REMOVED, joined.answer.why);
        return;
    case MEMBER_EXISTS:
    case MEMBER_ADDRESS_IN_USE:
        join_refuse(join, ERR_REFUSED, joined.answer.why);
        return;
    default:
        join_again(join, JOIN_LATER_MS, joined.answer.why);
        return;
    }
}

static void join_failed(struct net_conn *conn)
{
    const struct handshake *handshake = &conn->handshake;
    struct join *join = conn->owner;
    const char *text = handshake_reason(handshake);
    char reason[JOIN_REASON_BYTES];

    if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_STORE) {
        join_refuse(join, ERR_WRONG_NODE,
                    "the cluster knows this node id with another data directory (was it wiped or "
                    "replaced, or is there another process in its place?): join under a new id");
    } else if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_REMOVED) {
        join_refuse(join, ERR_REMOVED,
                    "this node id was removed from the cluster and cannot be used again: join "
                    "under a new id");
    } else if (handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_NEWER) {
        join_refuse(join, ERR_NEWER, text);
    } else {
        (void)snprintf(reason, sizeof reason, "%s: %s",
                       handshake->by_peer ? "rejected by the member" : "the member was rejected",
                       text);
        join_again(join, JOIN_LATER_MS, reason);
    }
}

/* If it refuses a credential, the next one is offered. */
static void join_down(struct net_conn *conn, enum net_conn_state from, const char *reason)
{
    struct join *join = conn->owner;

    if (conn->untrusted) {
        join->offer = (join->offer + 1) % join->hub.config.keys->credential_count;
        join_again(join, JOIN_SOON_MS, join->offer != 0 ? NULL : reason);
        return;
    }
    join_again(join, JOIN_SOON_MS,
               from == NET_CONN_HANDSHAKE && !conn->heard &&
                       strcmp(reason, "closed by the peer") == 0
                   ? "it closed without a word of TLS: is it no leafd?"
                   : reason);
}

static void join_freed(struct net_conn *conn)
{
    ((struct join *)conn->owner)->conn = NULL;
}

static const struct net_conn_ops join_conn_ops = {
    .failed = join_failed,
    .answered = join_answered,
    .down = join_down,
    .freed = join_freed,
};

/* --- attempts --- */

static void attempt_cb(uv_timer_t *timer)
{
    struct join *join = timer->data;

    if (join->conn != NULL) {
        ASSERT(uv_timer_start(&join->timer, attempt_cb, 1, 0) == 0);
        return;
    }
    join->trying = true;
    join->conn = net_conn_new(&join->hub, NET_CONN_JOINS, 0, &join_conn_ops, join);
    net_conn_dial(join->conn, join->node->settings->join.peers[join->target].address, 0,
                  join->offer);
}

static void join_introduce(struct net_receiver *receiver, struct buf *statement)
{
    const struct join *join = CONTAINER(receiver, struct join, receiver);
    const char *address = join->node->settings->peer_address;
    struct wire_join said = {.birth = join->node->learned.birth};

    ASSERT(strlen(address) <= LIMIT_ADDRESS_BYTES);
    memcpy(said.address, address, strlen(address));
    wire_join_encode(&said, statement);
}

/* Any member of the cluster may answer. */
static int join_judge(struct net_receiver *receiver, const struct net_claim *claim,
                      uint16_t *ret_level)
{
    (void)receiver;
    (void)ret_level;
    return claim->id > 0 && claim->store_id > 0 ? 0 : ERR_WRONG_NODE;
}

/* Ask until the cluster has this node as a standby: then node->learned has the addresses of all
 * members, and the log has the rest. After no answer, an election, another change under way, or no
 * room, it asks again, and logs each new reason once. 0; ERR_SHUTTING_DOWN after SIGTERM or SIGINT;
 * ERR_REMOVED, ERR_WRONG_NODE (the id belongs to another data directory), ERR_OTHER_BIRTH (members
 * of two clusters were asked), ERR_NEWER or ERR_REFUSED (the id, or the address, is another
 * member's), with a text. */
static int join_cluster(struct node *node, uint64_t store_id, struct store_error *ret_error)
{
    const struct node_settings *settings = node->settings;
    struct join *join = MUST_HAVE(calloc(1, sizeof *join));
    int status;

    ASSERT(settings->join.count > 0);
    ret_error->text[0] = '\0';
    join->node = node;
    join->error = ret_error;
    join->handles_open = 3;
    join->receiver = (struct net_receiver){.judge = join_judge, .introduce = join_introduce};
    net_hub_init(&join->hub, node->loop,
                 &(struct net_uv_config){.self = {.node_id = settings->node_id,
                                                  .store_id = store_id,
                                                  .cluster_id = settings->cluster_id,
                                                  .receiver = &join->receiver},
                                         .keys = node->keys});
    ASSERT(uv_timer_init(node->loop, &join->timer) == 0);
    ASSERT(uv_signal_init(node->loop, &join->sigterm) == 0);
    ASSERT(uv_signal_init(node->loop, &join->sigint) == 0);
    join->timer.data = join;
    join->sigterm.data = join;
    join->sigint.data = join;
    ASSERT(uv_signal_start(&join->sigterm, signal_cb, SIGTERM) == 0);
    ASSERT(uv_signal_start(&join->sigint, signal_cb, SIGINT) == 0);
    log_info("net", "joining the cluster", "node=%" PRIu64 " targets=%zu", settings->node_id,
             settings->join.count);
    uv_update_time(node->loop); /* the data was read since */
    attempt_cb(&join->timer);
    while (join->handles_open > 0 || join->conn != NULL) {
        (void)uv_run(node->loop, UV_RUN_ONCE);
    }
    ASSERT(join->done);
    net_keys_unref(join->hub.config.keys);
    status = join->status;
    free(join);
    return status;
}

/* --- start --- */

/* After the links are open nothing can fail but a log that the core refuses, which `failed`
 * reports. */
static int start_replica(struct node *node, struct state *state, const struct store_loaded *loaded)
{
    const struct node_settings *settings = node->settings;
    struct replica_parts parts = {.state = state,
                                  .service = node->service,
                                  .net = net_uv_net(node->net),
                                  .clock = clock_system(),
                                  .loaded = loaded};
    struct replica_config config = settings->replica;
    struct writer_config writer = {
        .notify = writer_notify_cb,
        .failed = writer_failed_cb,
        .data = node,
        .gather_max_us = GATHER_MAX_US,
    };
    uv_loop_t *loop = node->loop;
    const char *why; /* a node that listens on a wildcard has the address that the cluster knows */
    int rv;

    config.driver.node_id = settings->node_id;
    config.driver.address = settings->peer_address;
    config.driver.applier.rows_join_ms = ROWS_JOIN_MS;
    config.driver.applier.rows_hold_ms = ROWS_HOLD_MS;
    config.driver.applier.rows_many_ms =
        (uint32_t)(settings->node_id % ROWS_MANY_TURNS) * ROWS_MANY_MS;
    config.driver.seed = prng_entropy();
    config.driver.birth.uid = uid_make(prng_entropy(), prng_entropy());
    config.info.node_id = settings->node_id;
    config.info.store_id = loaded->identity.store_id;
    strncpy(config.info.http_address, settings->http_address, sizeof config.info.http_address - 1);
    strncpy(config.info.version, LEAFD_VERSION, sizeof config.info.version - 1);
    if (member_address_check(settings->peer_address, strlen(settings->peer_address), &why)) {
        strncpy(config.info.peer_address, settings->peer_address,
                sizeof config.info.peer_address - 1);
    }
    config.zone = settings->zone;
    config.digest_ms = DIGEST_MS;
    config.cluster_id = settings->cluster_id;
    config.members = settings->members.peers;
    config.member_count = settings->members.count;
    config.learned = &node->learned;
    ASSERT(uv_prepare_init(loop, &node->prepare) == 0);
    ASSERT(uv_check_init(loop, &node->woken) == 0);
    ASSERT(uv_timer_init(loop, &node->timer) == 0);
    ASSERT(mailbox_init(&node->mailbox, loop, wake_cb) == 0);
    node->prepare.data = node;
    node->woken.data = node;
    node->timer.data = node;
    node->handles_open = 5; /* these and the net */
    rv = writer_start(node->store, &writer, &node->writer);
    ASSERT(rv == 0);
    parts.disk = writer_disk(node->writer);
    rv = replica_start(&node->replica, &config, &parts, node->process);
    return rv;
}

/* Make the store ready. A store without a log belongs to a node that begins a cluster with others,
 * or joins one. */
static int prepare_start(struct node *node, const struct state *state, struct store_loaded *loaded,
                         struct store_error *ret_error)
{
    const struct node_settings *settings = node->settings;
    const struct node_peers *members = &settings->members;
    bool joins = settings->join.count > 0;
    struct birth_list list;
    bool same;
    int rv;

    /* A node without other members begins a cluster at once, and nothing would prevent a second
     * such node from beginning another. So the operator must ask for it. */
    if (prepare_is_empty(loaded) && members->count == 1 && !joins && !settings->bootstrap_single) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "cluster.members names this node alone and the data directory is new: it would "
                 "begin a cluster apart from any other. Name all first members, the same list on "
                 "each; or set join; or, if one node is to be all of it, set "
                 "cluster.bootstrap = single");
        return ERR_INVALID;
    }
    rv = prepare_store(node->store, loaded, settings->node_id, (uint32_t)prng_entropy(),
                       members->peers, joins ? 0 : members->count, ret_error);
    if (rv != 0) {
        return rv;
    }
    /* The list of an earlier start applies, and before the birth no other node knows it: an
     * operator who has corrected the setting must learn that it had no effect. */
    birth_list_read(loaded, settings->node_id, settings->cluster_id, node->service, &list);
    same = list.members.count == members->count;
    for (size_t i = 0; i < members->count && same; i++) {
        const struct conf_member *member = configuration_find(&list.members, members->peers[i].id);

        same = member != NULL && strcmp(member->address, members->peers[i].address) == 0;
    }
    if (!same && !joins && list.members.count > 0 && loaded->entry_count == 1 &&
        state_birth(state) == NULL) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "cluster.members is not what it was when the data directory was made, and that "
                 "cluster is not born yet, as far as this node knows: remove the directory, which "
                 "holds nothing, or put the list back");
        return ERR_INVALID;
    }
    if (!prepare_is_empty(loaded)) {
        return 0;
    }
    if (!joins) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "this node has not been admitted to its cluster yet: set join again");
        return ERR_INVALID;
    }
    node->process->joining(node->process);
    return join_cluster(node, loaded->identity.store_id, ret_error);
}

bool node_keys_commit(struct node *node, struct net_keys *keys, unsigned *ret_renewed)
{
    if (!node->replica.context.stopping) {
        node->keys_until_s = keys->until_s;
        return net_uv_set_keys(node->net, keys, ret_renewed);
    }
    net_keys_unref(keys);
    return false;
}

int64_t node_keys_until_s(const struct node *node)
{
    return node->keys_until_s;
}

int node_start(uv_loop_t *loop, const struct node_settings *settings,
               struct replica_listener *listener, struct store *store, struct service *service,
               struct node **ret_node, struct store_error *ret_error)
{
    struct node *node = MUST_HAVE(calloc(1, sizeof *node));
    struct state *state = state_new(service->machine);
    struct net_uv_config net = {.self = {.node_id = settings->node_id,
                                         .cluster_id = settings->cluster_id,
                                         .receiver = &node->replica.peers.receiver},
                                .listen_address = settings->listen_address};
    struct store_loaded loaded;
    int rv;

    ASSERT(settings->peer_address != NULL);
    node->settings = settings;
    node->process = listener;
    node->service = service;
    node->loop = loop;
    node->store = store;
    _Static_assert(sizeof ret_error->text >= NET_KEYS_WHY_BYTES, "what is wrong with keys fits");
    rv = net_keys_make(&settings->keys, &node->keys, ret_error->text);
    if (rv == 0) {
        rv = prepare_load(store, state, &loaded, ret_error);
    }
    if (rv != 0) {
        goto err_free;
    }
    rv = prepare_start(node, state, &loaded, ret_error);
    if (rv != 0) {
        goto err_loaded;
    }
    net.self.store_id = loaded.identity.store_id;
    net.keys = node->keys;
    rv = net_uv_open(node->loop, &net, &node->net);
    if (rv != 0) {
        snprintf(ret_error->text, sizeof ret_error->text, "cannot listen for peers on %s: %s; %s",
                 net.listen_address, address_reason(rv, errno), address_hint(rv, errno));
        goto err_loaded;
    }
    node->keys_until_s = node->keys->until_s;
    net_keys_unref(node->keys);
    node->keys = NULL;
    rv = start_replica(node, state, &loaded);
    if (rv != 0) { /* `failed` was called, and does not return in the process */
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
    replica_drain(&node->replica);
    node_turn(node);
}

bool node_drained(const struct node *node)
{
    return node->replica.drained;
}

void node_stop(struct node *node, uint32_t grace_ms, void (*cb)(void *data), void *data)
{
    node->stop_cb = cb;
    node->stop_data = data;
    ASSERT(node->replica.phase == REPLICA_RUNNING);
    node->replica.phase = REPLICA_GIVING;
    node->replica.grace_until_ms = now_ms_of(node) + grace_ms;
    node_drain(node);
}

void node_free(struct node *node)
{
    ASSERT(node->handles_open == 0);
    node->service->ops->release(node->service);
    mailbox_free(&node->mailbox);
    free(node);
}
