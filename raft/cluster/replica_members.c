/*
 * replica_members.c - see replica_members.h. Thread: the raft loop.
 */
#include "raft/cluster/replica_members.h"

#include <string.h>

#include "raft/core/driver.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

#define JOIN_WAIT_MS 10000

/* --- links --- */

struct peers {
    struct net_peer items[LIMIT_PEERS];
    size_t count;
};

static void peer_set(struct net_peer *peer, uint64_t id, const char *address)
{
    peer->id = id;
    strncpy(peer->address, address, LIMIT_ADDRESS_BYTES);
    peer->address[LIMIT_ADDRESS_BYTES] = '\0';
}

static void peers_add(struct peers *peers, const struct members *members, uint64_t id,
                      const char *address)
{
    if (id == members->driver->config.node_id || fsm_member_removed(members->fsm, id)) {
        return;
    }
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->items[i].id == id) {
            return;
        }
    }
    if (peers->count < LIMIT_PEERS) {
        peer_set(&peers->items[peers->count++], id, address);
    }
}

static void peers_add_all(struct peers *peers, const struct members *members,
                          const struct configuration *configuration)
{
    for (unsigned i = 0; i < configuration->count; i++) {
        peers_add(peers, members, configuration->members[i].id, configuration->members[i].address);
    }
}

static void gather(const struct members *members, struct peers *ret_peers)
{
    const struct driver *driver = members->driver;
    struct configuration applied;

    ret_peers->count = 0;
    peers_add_all(ret_peers, members, driver_configuration(driver));
    if (driver_applied(driver)->conf.len > 0 &&
        configuration_decode(driver_applied(driver)->conf.data, driver_applied(driver)->conf.len,
                             &applied) == 0) {
        peers_add_all(ret_peers, members, &applied);
    }
    for (size_t i = 0; i < members->guest_count; i++) {
        peers_add(ret_peers, members, members->guests[i].id, members->guests[i].address);
    }
}

/* What the own log says by now needs no guests any more. */
static void dismiss_guests(struct members *members)
{
    if (members->guest_count > 0 &&
        driver_applied(members->driver)->conf_index >= members->guest_index) {
        members->guest_count = 0;
        members->guests_made++;
    }
}

/* A removed id never comes back, so what was seen of it is not needed any more. */
static void forget_removed(struct members *members)
{
    struct rollback *memory = &members->driver->peers;

    for (size_t i = memory->count; i > 0; i--) {
        uint64_t id = memory->peers[i - 1].id;

        if (fsm_member_removed(members->fsm, id)) {
            rollback_forget(memory, id);
        }
    }
}

bool members_turn(struct members *members)
{
    const struct driver *driver = members->driver;
    struct members_seen now;
    struct peers peers;

    dismiss_guests(members);
    memset(&now, 0, sizeof now);
    now.term = driver_term(driver);
    now.committed = driver_applied_change(driver);
    now.uncommitted = driver_pending_change(driver);
    now.applied = driver_applied(members->driver)->conf_index;
    now.guests = members->guests_made;
    if (members->seen_any && memcmp(&now, &members->seen, sizeof now) == 0) {
        return false;
    }
    forget_removed(members);
    members->seen_any = true;
    members->seen = now;
    gather(members, &peers);
    members->net->ops->set_peers(members->net, peers.items, peers.count);
    members->peer_count = peers.count;
    for (size_t i = 0; i < peers.count; i++) {
        members->peers[i] = peers.items[i].id;
    }
    return true;
}

void members_init(struct members *members, struct driver *driver, struct net *net,
                  const struct clock *clock, struct fsm *fsm, struct wishes *wishes,
                  const struct net_peer *guests, size_t guest_count, uint64_t guest_index)
{
    memset(members, 0, sizeof *members);
    members->driver = driver;
    members->net = net;
    members->clock = clock;
    members->fsm = fsm;
    members->wishes = wishes;
    ASSERT(guest_count <= LIMIT_NODES);
    if (guest_count > 0) {
        memcpy(members->guests, guests, guest_count * sizeof *guests);
    }
    members->guest_count = guest_count;
    members->guest_index = guest_index;
}

/* --- handshakes --- */

int members_admit(const struct members *members, uint64_t peer, uint64_t store_id)
{
    struct node_info info;

    if (fsm_member_removed(members->fsm, peer)) {
        return ERR_REMOVED;
    }
    if (fsm_node(members->fsm, peer, &info) && info.store_id != store_id) {
        return ERR_WRONG_NODE;
    }
    return 0;
}

static const struct conf_member *server_of(const struct configuration *configuration, uint64_t id)
{
    for (unsigned i = 0; i < configuration->count; i++) {
        if (configuration->members[i].id == id) {
            return &configuration->members[i];
        }
    }
    return NULL;
}

static void invite(struct members *members, const struct configuration *configuration,
                   uint64_t index)
{
    members->guest_count = 0;
    for (unsigned i = 0; i < configuration->count; i++) {
        const struct conf_member *server = &configuration->members[i];

        if (server->id != members->driver->config.node_id) {
            peer_set(&members->guests[members->guest_count++], server->id, server->address);
        }
    }
    members->guest_index = index;
    members->guests_made++;
}

bool members_know(struct members *members, uint64_t peer, const void *statement, size_t len)
{
    struct configuration configuration;
    struct peer_start start;
    struct wire_conf conf = {0};
    struct peers peers;
    bool both;

    gather(members, &peers);
    for (size_t i = 0; i < peers.count; i++) {
        if (peers.items[i].id == peer) {
            return true;
        }
    }
    if (len == 0 || wire_statement_decode(statement, len, &start, &conf) != 0 ||
        conf.index <= driver_applied(members->driver)->conf_index ||
        conf.index <= members->guest_index ||
        !driver_believes_index(members->driver, peer, "configuration_index", conf.index) ||
        fsm_member_removed(members->fsm, peer) ||
        configuration_decode(conf.data, conf.len, &configuration) != 0) {
        return false;
    }
    both = server_of(&configuration, peer) != NULL &&
           server_of(&configuration, members->driver->config.node_id) != NULL;
    if (both) {
        invite(members, &configuration, conf.index);
    }
    return both;
}

int members_check(struct members *members, uint64_t peer, const void *statement, size_t len)
{
    struct peer_start start;
    struct wire_conf conf;
    int rv = wire_statement_decode(statement, len, &start, &conf);

    return rv == 0 ? driver_meet(members->driver, peer, &start) : rv;
}

static struct wire_conf applied_conf(const struct members *members)
{
    const struct log_position *applied = driver_applied(members->driver);

    return (struct wire_conf){applied->conf.len > 0 ? applied->conf_index : 0, applied->conf.data,
                              applied->conf.len};
}

void members_state(const struct members *members, struct buf *statement)
{
    struct wire_conf conf = applied_conf(members);

    wire_statement_encode(&members->driver->start, &conf, statement);
}

/* --- nodes that join --- */

static void join_done(struct id_request *request)
{
    struct members *members = request->data;
    struct members_join *join = &members->join;

    join->active = false;
    join->answered =
        request->status == 0 &&
        member_answer_decode(request->reply.data, request->reply.len, &join->answer) == 0;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

static void join_begin(struct members *members, uint64_t peer, const char *address)
{
    struct members_join *join = &members->join;
    struct member_ask ask = {.kind = MEMBER_ASK_ADD, .node_id = peer};

    memset(join, 0, sizeof *join);
    memcpy(ask.address, address, strlen(address));
    join->node_id = peer;
    join->active = true;
    join->request.kind = ID_REQUEST_MEMBER;
    join->request.deadline_ms = clock_now_ms(members->clock) + JOIN_WAIT_MS;
    join->request.done = join_done;
    join->request.data = members;
    member_ask_encode(&ask, &join->request.payload);
    wishes_submit(members->wishes, &join->request);
}

/* The applied configuration has the node, at this address: then it may begin. */
static bool is_member(const struct members *members, uint64_t peer, const char *address)
{
    const struct log_position *applied = driver_applied(members->driver);
    struct configuration configuration;
    const struct conf_member *server;
    bool found;

    if (applied->conf.len == 0 ||
        configuration_decode(applied->conf.data, applied->conf.len, &configuration) != 0) {
        return false;
    }
    server = server_of(&configuration, peer);
    found = server != NULL && strcmp(server->address, address) == 0;
    return found;
}

bool members_join(struct members *members, uint64_t peer, const void *request, size_t len,
                  struct buf *answer)
{
    struct members_join *join = &members->join;
    struct wire_joined joined = {0};
    char address[LIMIT_ADDRESS_BYTES + 1];
    const char *why;

    if (wire_join_decode(request, len, address) != 0 ||
        !member_address_check(address, strlen(address), &why)) {
        return false;
    }
    if (is_member(members, peer, address)) {
        joined.answer.outcome = MEMBER_DONE;
        joined.conf = applied_conf(members);
    } else if (join->answered && join->node_id == peer && join->answer.outcome != MEMBER_PENDING &&
               join->answer.outcome != MEMBER_DONE) {
        joined.answer = join->answer; /* told once; the next asking begins anew */
        join->answered = false;
    } else {
        joined.answer.outcome =
            join->active && join->node_id != peer ? MEMBER_IN_PROGRESS : MEMBER_PENDING;
        if (!join->active && !members->wishes->stopping) {
            join_begin(members, peer, address);
        }
    }
    wire_joined_encode(&joined, answer);
    return true;
}
