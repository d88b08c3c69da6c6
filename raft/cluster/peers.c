/*
 * peers.c - see peers.h. Thread: the raft loop.
 */
#include "raft/cluster/peers.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define JOIN_WAIT_MS 10000

void peers_init(struct peers *peers, const struct raft_context *on, struct birth_watch *births,
                const struct learned_peers *learned, const char *address)
{
    *peers = (struct peers){.on = on, .births = births, .address = address};
    if (learned != NULL) {
        peers->learned = *learned;
    }
}

/* --- links --- */

static bool is_peer(const struct peers *peers, uint64_t id)
{
    return net_peer_find(peers->items, peers->count, id) != NULL;
}

static const struct net_peer *heard_find(const struct peers_heard *heard, uint64_t id)
{
    return net_peer_find(heard->items, heard->count, id);
}

/* What it says itself is the newest, then what a newer configuration than ours says. */
static const char *peers_address_of(struct peers *peers, const struct conf_member *member)
{
    const struct net_peer *heard = heard_find(&peers->heard, member->id);
    const struct conf_member *learned = configuration_find(&peers->learned.conf, member->id);

    if (heard != NULL) {
        return heard->address;
    }
    return learned != NULL ? learned->address : context_address(peers->on, member);
}

static void add(struct peers *peers, const struct conf_member *member)
{
    struct net_peer *peer = &peers->items[peers->count];
    uint64_t id = member->id;
    const char *address;

    if (id == peers->on->node_id || state_member_removed(peers->on->state, id) ||
        is_peer(peers, id) || peers->count == LIMIT_PEERS) {
        return;
    }
    memset(peer, 0, sizeof *peer);
    peer->id = id;
    address = peers_address_of(peers, member);
    memcpy(peer->address, address, strlen(address));
    peers->count++;
}

static void add_all(struct peers *peers, const struct configuration *conf)
{
    MEMBER_FOREACH (member, conf) {
        add(peers, member);
    }
}

static void peers_gather(struct peers *peers)
{
    struct configuration applied;

    peers->count = 0;
    applier_configured(&peers->on->driver->applier, &applied);
    add_all(peers, driver_configuration(peers->on->driver));
    add_all(peers, &applied);
    add_all(peers, &peers->learned.conf);
}

/* What this node's log says by now needs no learned peers any more. */
static void forget_learned(struct peers *peers)
{
    struct learned_peers *learned = &peers->learned;

    if (learned->conf.count > 0 &&
        driver_applied(peers->on->driver)->conf_index >= learned->index) {
        learned->conf.count = 0;
        learned->changes++;
    }
}

/* Has the node registered with this address? The log decides from then on. */
static bool is_registered_at(const struct peers *peers, uint64_t id, const char *address)
{
    struct node_info info;

    return state_node(peers->on->state, id, &info) && strcmp(info.peer_address, address) == 0;
}

static void forget_heard(struct peers *peers)
{
    struct peers_heard *heard = &peers->heard;

    for (size_t i = heard->count; i > 0; i--) {
        const struct net_peer *peer = &heard->items[i - 1];

        if (is_registered_at(peers, peer->id, peer->address) ||
            state_member_removed(peers->on->state, peer->id)) {
            heard->items[i - 1] = heard->items[--heard->count];
        }
    }
}

/* A removed id never comes back, so what was seen of it is not needed any more. */
static void forget_removed(struct peers *peers)
{
    struct rollback *seen = &peers->on->driver->peers.seen;

    for (size_t i = seen->count; i > 0; i--) {
        uint64_t id = seen->peers[i - 1].id;

        if (state_member_removed(peers->on->state, id)) {
            rollback_forget(seen, id);
        }
    }
    if (!peers->on->driver->failed) {
        peer_memory_changed(&peers->on->driver->peers);
    }
}

bool peers_turn(struct peers *peers)
{
    struct driver *driver = peers->on->driver;
    struct net *net = peers->on->net;
    struct peers_seen now;

    forget_learned(peers);
    now = (struct peers_seen){.term = driver_term(driver),
                              .committed = driver_applied_change(driver),
                              .uncommitted = driver_pending_change(driver),
                              .applied = driver_applied(driver)->conf_index,
                              .learned = peers->learned.changes,
                              .heard = peers->heard.changes,
                              .moves = state_member_moves(peers->on->state)};
    if (peers->seen_any && memcmp(&now, &peers->seen, sizeof now) == 0) {
        return false;
    }
    forget_removed(peers);
    forget_heard(peers);
    peers->seen_any = true;
    peers->seen = now;
    peers_gather(peers);
    ASSERT(!is_peer(peers, peers->on->node_id));
    net->ops->set_peers(net, peers->items, peers->count);
    return true;
}

/* --- handshakes --- */

int peers_admit(const struct peers *peers, uint64_t peer, uint64_t store_id)
{
    struct node_info info;

    if (state_member_removed(peers->on->state, peer)) {
        return ERR_REMOVED;
    }
    if (state_node(peers->on->state, peer, &info) && info.store_id != store_id) {
        return ERR_WRONG_NODE;
    }
    return 0;
}

/* A newer configuration with both in it: its members are peers until the log has it. */
static bool learn(struct peers *peers, uint64_t peer, const struct wire_conf *wire)
{
    struct configuration conf;

    if (configuration_decode(wire->data, wire->len, &conf) != 0 ||
        configuration_find(&conf, peer) == NULL ||
        configuration_find(&conf, peers->on->node_id) == NULL) {
        return false;
    }
    ASSERT(wire->index > peers->learned.index);
    peers->learned.conf = conf;
    peers->learned.index = wire->index;
    peers->learned.changes++;
    context_wake(peers->on, WAKE_MEMBERS);
    return true;
}

int peers_birth(struct peers *peers, uint64_t peer, const void *statement, size_t len)
{
    struct wire_statement said;
    int rv = wire_statement_decode(statement, len, &said);

    return rv == 0 ? birth_watch_judge(peers->births, peer, &said.birth) : rv;
}

bool peers_know(struct peers *peers, uint64_t peer, const void *statement, size_t len)
{
    struct wire_statement said;
    const struct wire_conf *conf = &said.conf;

    peers_gather(peers);
    if (is_peer(peers, peer)) {
        return true;
    }
    return len > 0 && wire_statement_decode(statement, len, &said) == 0 &&
           conf->index > driver_applied(peers->on->driver)->conf_index &&
           conf->index > peers->learned.index &&
           trust_index(&peers->on->driver->trust, peer, "configuration_index", conf->index) &&
           !state_member_removed(peers->on->state, peer) && learn(peers, peer, conf);
}

/* A node without a row of its own has the address that it was added with: it was told that. */
static void hear_address(struct peers *peers, uint64_t id, const char *address)
{
    struct peers_heard *heard = &peers->heard;
    const struct net_peer *known = heard_find(heard, id);
    struct net_peer *peer;
    struct node_info info;

    if (address[0] == '\0' || !state_node(peers->on->state, id, &info) ||
        is_registered_at(peers, id, address) ||
        (known != NULL && strcmp(known->address, address) == 0) ||
        (known == NULL && heard->count == LIMIT_PEERS)) {
        return;
    }
    peer = &heard->items[known != NULL ? (size_t)(known - heard->items) : heard->count++];
    *peer = (struct net_peer){.id = id};
    memcpy(peer->address, address, strlen(address));
    heard->changes++;
    context_wake(peers->on, WAKE_MEMBERS);
    log_info("raft", "a peer has moved", "peer=%llu address=%s was=%s", ull(id), address,
             info.peer_address);
}

/* The state knows a start of each member, also on a node that has met none of them: one that has
 * just joined, or was away since. Of a node that says nothing of that start it is a later one, or
 * another one. */
static int check_start(const struct peers *peers, uint64_t peer,
                       const struct wire_statement *statement)
{
    const struct peer_durable *start = &statement->start;
    uint64_t known = state_node_start(peers->on->state, peer);

    if (known == 0 || known == start->incarnation || incarnations_may_include(statement, known)) {
        return 0;
    }
    rollback_log_older(peer, start,
                       &(struct rollback_evidence){"registered", start->incarnation, known});
    return ERR_STALE;
}

/* Is it with data that the log does not know yet, while the address leads to others? Before
 * anything of it is remembered. */
static bool is_elsewhere(const struct net_presence *presence)
{
    return presence->reached != 0 && presence->reached != presence->dials;
}

/* Is another start of it here, that may not be put out by this one? With data that the log does not
 * know, it is put out by the one at the address. */
static bool is_here(const struct net_presence *presence, bool known)
{
    return presence->heard != 0 &&
           (known || presence->heard == presence->dials || presence->reached != presence->dials);
}

int peers_check(struct peers *peers, uint64_t peer, const struct net_presence *presence,
                const void *statement, size_t len)
{
    struct wire_statement said;
    struct node_info info;
    bool known = state_node(peers->on->state, peer, &info);
    int rv = wire_statement_decode(statement, len, &said);

    if (rv == 0) {
        rv = check_start(peers, peer, &said);
    }
    if (rv == 0 && !known && is_elsewhere(presence)) {
        rv = ERR_EXISTS;
    }
    if (rv == 0) {
        rv = driver_meet(peers->on->driver, peer, &said, is_here(presence, known));
        context_wake(peers->on, WAKE_UPGRADE);
    }
    if (rv == 0) {
        hear_address(peers, peer, said.address);
    }
    return rv;
}

/* The applied configuration, with the addresses where its members are reached now; without them if
 * two members claim one (a node was started at another's, say), which no configuration may have.
 * *bytes holds it, and is the caller's to free. */
static struct wire_conf applied_conf(const struct peers *peers, struct buf *bytes)
{
    struct configuration conf;
    struct configuration moved;

    applier_configured(&peers->on->driver->applier, &conf);
    if (conf.count == 0) {
        return (struct wire_conf){0};
    }
    moved = conf;
    for (unsigned i = 0; i < conf.count; i++) {
        const char *address = context_address(peers->on, &conf.members[i]);

        memcpy(moved.members[i].address, address, strlen(address) + 1);
    }
    configuration_encode(&moved, bytes);
    if (configuration_check(bytes->data, bytes->len) != 0) {
        bytes->len = 0;
        configuration_encode(&conf, bytes);
    }
    return (struct wire_conf){driver_applied(peers->on->driver)->conf_index, bytes->data,
                              bytes->len};
}

void peers_state(const struct peers *peers, struct buf *statement)
{
    const struct driver *driver = peers->on->driver;
    BUF_LOCAL(conf);
    BUF_LOCAL(earlier);
    struct wire_statement says = {.start = driver->start,
                                  .conf = applied_conf(peers, &conf),
                                  .birth = birth_watch_said(peers->births)};

    memcpy(says.address, peers->address, strlen(peers->address));
    incarnations_earlier(&driver->incarnations, &earlier);
    says.earlier = earlier.data;
    says.earlier_len = earlier.len;
    wire_statement_encode(&says, statement);
}

/* --- nodes that join --- */

static void on_join_done(struct cluster_request *request)
{
    struct peers_join *join = CONTAINER(request, struct peers_join, request);

    ASSERT(join->active);
    join->active = false;
    join->answered =
        request->status == 0 &&
        member_answer_decode(request->reply.data, request->reply.len, &join->answer) == 0;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

static void join_ask(struct peers *peers, uint64_t peer, const struct member_ask *ask)
{
    const struct raft_context *on = peers->on;
    struct peers_join *join = &peers->join;

    ASSERT(!join->active);
    *join = (struct peers_join){.node_id = peer, .active = true};
    join->request = (struct cluster_request){.kind = CLUSTER_REQUEST_MEMBER,
                                             .deadline_ms = context_now_ms(on) + JOIN_WAIT_MS,
                                             .done = on_join_done};
    member_ask_encode(ask, &join->request.payload);
    on->submit(on, &join->request);
}

static void join_begin(struct peers *peers, uint64_t peer, const char *address)
{
    struct member_ask ask = {.kind = MEMBER_ASK_ADD, .node_id = peer};

    ASSERT(strlen(address) <= LIMIT_ADDRESS_BYTES);
    memcpy(ask.address, address, strlen(address));
    join_ask(peers, peer, &ask);
}

/* The member in whose place the node stands, and to which this node has no link; 0: none. */
static uint64_t lost_at(const struct peers *peers, uint64_t peer, const char *address)
{
    struct configuration applied;

    applier_configured(&peers->on->driver->applier, &applied);
    MEMBER_FOREACH (member, &applied) {
        if (member->id != peer && strcmp(context_address(peers->on, member), address) == 0) {
            return context_reaches(peers->on, member->id) ? 0 : member->id;
        }
    }
    return 0;
}

/* The removal is the leader's to refuse: there may be no majority left without it. */
static void replace_begin(struct peers *peers, uint64_t peer, uint64_t lost, const char *address)
{
    struct member_ask ask = {.kind = MEMBER_ASK_REMOVE, .node_id = lost};

    log_warn("raft", "a member gives way to a node that came in its place",
             "lost=%llu by=%llu address=%s", ull(lost), ull(peer), address);
    join_ask(peers, peer, &ask);
}

/* The applied configuration has the node, at this address: then it may begin. */
static bool peers_is_member(const struct peers *peers, uint64_t peer, const char *address)
{
    struct configuration applied;
    const struct conf_member *member;

    applier_configured(&peers->on->driver->applier, &applied);
    member = configuration_find(&applied, peer);
    return member != NULL && strcmp(context_address(peers->on, member), address) == 0;
}

/* Only where there is a cluster, and not if another one has answered it already: it will hear so by
 * the uid in the answer. */
static bool may_join(const struct peers *peers, const struct uid *own, const struct uid *other,
                     struct member_answer *answer)
{
    if (uid_is_none(own)) {
        answer->outcome = MEMBER_NO_QUORUM;
        (void)snprintf(answer->why, sizeof answer->why,
                       "node %llu has not heard of its cluster's birth yet",
                       ull(peers->on->node_id));
        return false;
    }
    answer->outcome = MEMBER_PENDING;
    return uid_is_none(other) || uid_equal(own, other);
}

/* What becomes of it: it is a member, the leader has answered, or it is to wait. *bytes: of the
 * configuration in the answer. */
static void ask_for(struct peers *peers, uint64_t peer, const char *address,
                    struct wire_joined *joined, struct buf *bytes)
{
    struct peers_join *join = &peers->join;
    uint64_t lost = peers->on->replace_lost ? lost_at(peers, peer, address) : 0;

    if (peers_is_member(peers, peer, address)) {
        joined->answer.outcome = MEMBER_DONE;
        joined->conf = applied_conf(peers, bytes);
    } else if (join->answered && join->node_id == peer && join->answer.outcome != MEMBER_PENDING &&
               join->answer.outcome != MEMBER_DONE) {
        joined->answer = join->answer; /* once; the next asking begins anew */
        join->answered = false;
    } else {
        joined->answer.outcome =
            join->active && join->node_id != peer ? MEMBER_IN_PROGRESS : MEMBER_PENDING;
        if (!join->active && !peers->on->stopping && lost != 0) {
            replace_begin(peers, peer, lost, address);
        } else if (!join->active && !peers->on->stopping) {
            join_begin(peers, peer, address);
        }
    }
}

bool peers_join(struct peers *peers, uint64_t peer, const void *request, size_t len,
                struct buf *answer)
{
    struct wire_joined joined = {.birth = birth_watch_said(peers->births)};
    struct wire_join said;
    BUF_LOCAL(conf);
    const char *why;

    if (wire_join_decode(request, len, &said) != 0 ||
        !member_address_check(said.address, strlen(said.address), &why)) {
        return false;
    }
    if (may_join(peers, &joined.birth.uid, &said.birth.uid, &joined.answer)) {
        ask_for(peers, peer, said.address, &joined, &conf);
    }
    wire_joined_encode(&joined, answer);
    return true;
}

/* --- what this node tells its peers of itself --- */

static void durable_report_tell(const struct durable_report *durable, uint64_t to,
                                const struct peer_durable *now)
{
    (void)context_send_durable(durable->on, to, FRAME_DURABLE, &(struct wire_durable){*now});
}

static void tell_all(const struct durable_report *durable, const struct peer_durable *now)
{
    MEMBER_FOREACH (member, driver_configuration(durable->on->driver)) {
        if (member->id != durable->on->node_id) {
            durable_report_tell(durable, member->id, now);
        }
    }
}

static void on_timer(struct timer *timer, uint64_t now_ms)
{
    struct durable_report *durable = CONTAINER(timer, struct durable_report, timer);
    struct peer_durable now;

    timer_arm(durable->on->timers, timer, now_ms + DURABLE_REPORT_CHANGED_MS);
    if (driver_durable(durable->on->driver, &now) &&
        (memcmp(&now, &durable->told, sizeof now) != 0 ||
         now_ms >= durable->told_ms + DURABLE_REPORT_MS)) {
        tell_all(durable, &now);
        durable->told = now;
        durable->told_ms = now_ms;
    }
}

void durable_report_init(struct durable_report *durable, const struct raft_context *on)
{
    *durable = (struct durable_report){.on = on};
    timer_init(&durable->timer, on_timer);
    timer_arm(on->timers, &durable->timer, context_now_ms(on));
}

void durable_report_stop(struct durable_report *durable)
{
    struct peer_durable now;

    if (driver_durable(durable->on->driver, &now)) {
        tell_all(durable, &now);
    }
}

void durable_report_link_up(struct durable_report *durable, uint64_t peer)
{
    struct peer_durable now;

    if (driver_durable(durable->on->driver, &now)) {
        durable_report_tell(durable, peer, &now);
    }
}
