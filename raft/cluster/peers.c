/*
 * peers.c - see peers.h. Thread: the raft loop.
 */
#include "raft/cluster/peers.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define JOIN_WAIT_MS 10000

void peers_init(struct peers *peers, const struct ground *on, const struct learned_peers *learned)
{
    *peers = (struct peers){.on = on};
    if (learned != NULL) {
        peers->learned = *learned;
    }
}

/* --- links --- */

static bool is_peer(const struct peers *peers, uint64_t id)
{
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->items[i].id == id) {
            return true;
        }
    }
    return false;
}

static void add(struct peers *peers, uint64_t id, const char *address)
{
    struct net_peer *peer = &peers->items[peers->count];

    if (id == peers->on->node_id || fsm_member_removed(peers->on->fsm, id) || is_peer(peers, id) ||
        peers->count == LIMIT_PEERS) {
        return;
    }
    memset(peer, 0, sizeof *peer);
    peer->id = id;
    strncpy(peer->address, address, LIMIT_ADDRESS_BYTES);
    peers->count++;
}

static void add_all(struct peers *peers, const struct configuration *conf)
{
    for (unsigned i = 0; i < conf->count; i++) {
        add(peers, conf->members[i].id, conf->members[i].address);
    }
}

/* The applied configuration; without members if there is none yet. */
static void read_applied(const struct peers *peers, struct configuration *ret_conf)
{
    if (!applier_configured(&peers->on->driver->applier, ret_conf)) {
        ret_conf->count = 0;
    }
}

static void gather(struct peers *peers)
{
    struct configuration applied;

    peers->count = 0;
    read_applied(peers, &applied);
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

/* A removed id never comes back, so what was seen of it is not needed any more. */
static void forget_removed(struct peers *peers)
{
    struct rollback *seen = &peers->on->driver->peers.seen;

    for (size_t i = seen->count; i > 0; i--) {
        uint64_t id = seen->peers[i - 1].id;

        if (fsm_member_removed(peers->on->fsm, id)) {
            rollback_forget(seen, id);
        }
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
                              .learned = peers->learned.changes};
    if (peers->seen_any && memcmp(&now, &peers->seen, sizeof now) == 0) {
        return false;
    }
    forget_removed(peers);
    peers->seen_any = true;
    peers->seen = now;
    gather(peers);
    ASSERT(!is_peer(peers, peers->on->node_id));
    net->ops->set_peers(net, peers->items, peers->count);
    return true;
}

/* --- handshakes --- */

int peers_admit(const struct peers *peers, uint64_t peer, uint64_t store_id)
{
    struct node_info info;

    if (fsm_member_removed(peers->on->fsm, peer)) {
        return ERR_REMOVED;
    }
    if (fsm_node(peers->on->fsm, peer, &info) && info.store_id != store_id) {
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
    return true;
}

bool peers_know(struct peers *peers, uint64_t peer, const void *statement, size_t len)
{
    struct wire_statement said;

    gather(peers);
    if (is_peer(peers, peer)) {
        return true;
    }
    return len > 0 && wire_statement_decode(statement, len, &said) == 0 &&
           said.conf.index > driver_applied(peers->on->driver)->conf_index &&
           said.conf.index > peers->learned.index &&
           trust_index(&peers->on->driver->trust, peer, "configuration_index", said.conf.index) &&
           !fsm_member_removed(peers->on->fsm, peer) && learn(peers, peer, &said.conf);
}

int peers_check(struct peers *peers, uint64_t peer, const void *statement, size_t len)
{
    struct wire_statement said;
    int rv = wire_statement_decode(statement, len, &said);

    return rv == 0 ? driver_meet(peers->on->driver, peer, &said) : rv;
}

static struct wire_conf applied_conf(const struct peers *peers)
{
    const struct store_position *applied = driver_applied(peers->on->driver);

    return (struct wire_conf){applied->conf_len > 0 ? applied->conf_index : 0, applied->conf,
                              applied->conf_len};
}

void peers_state(const struct peers *peers, struct buf *statement)
{
    const struct driver *driver = peers->on->driver;
    struct wire_statement said = {.start = driver->start, .conf = applied_conf(peers)};
    struct buf earlier = BUF_INIT;

    incarnations_earlier(&driver->incarnations, &earlier);
    said.earlier = earlier.data;
    said.earlier_len = earlier.len;
    wire_statement_encode(&said, statement);
    buf_free(&earlier);
}

/* --- nodes that join --- */

static void on_join_done(struct id_request *request)
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

static void join_begin(struct peers *peers, uint64_t peer, const char *address)
{
    const struct ground *on = peers->on;
    struct peers_join *join = &peers->join;
    struct member_ask ask = {.kind = MEMBER_ASK_ADD, .node_id = peer};

    ASSERT(!join->active && strlen(address) <= LIMIT_ADDRESS_BYTES);
    memcpy(ask.address, address, strlen(address));
    *join = (struct peers_join){.node_id = peer, .active = true};
    join->request = (struct id_request){.kind = ID_REQUEST_MEMBER,
                                        .deadline_ms = ground_now_ms(on) + JOIN_WAIT_MS,
                                        .done = on_join_done};
    member_ask_encode(&ask, &join->request.payload);
    on->proposer->propose(on->proposer, &join->request);
}

/* The applied configuration has the node, at this address: then it may begin. */
static bool is_member(const struct peers *peers, uint64_t peer, const char *address)
{
    struct configuration applied;
    const struct conf_member *member;

    read_applied(peers, &applied);
    member = configuration_find(&applied, peer);
    return member != NULL && strcmp(member->address, address) == 0;
}

bool peers_join(struct peers *peers, uint64_t peer, const void *request, size_t len,
                struct buf *answer)
{
    struct peers_join *join = &peers->join;
    struct wire_joined joined = {0};
    char address[LIMIT_ADDRESS_BYTES + 1];
    const char *why;

    if (wire_join_decode(request, len, address) != 0 ||
        !member_address_check(address, strlen(address), &why)) {
        return false;
    }
    if (is_member(peers, peer, address)) {
        joined.answer.outcome = MEMBER_DONE;
        joined.conf = applied_conf(peers);
    } else if (join->answered && join->node_id == peer && join->answer.outcome != MEMBER_PENDING &&
               join->answer.outcome != MEMBER_DONE) {
        joined.answer = join->answer; /* once; the next asking begins anew */
        join->answered = false;
    } else {
        joined.answer.outcome =
            join->active && join->node_id != peer ? MEMBER_IN_PROGRESS : MEMBER_PENDING;
        if (!join->active && !peers->on->stopping) {
            join_begin(peers, peer, address);
        }
    }
    wire_joined_encode(&joined, answer);
    return true;
}
