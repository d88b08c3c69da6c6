/*
 * sim_member.c - see sim_member.h. Thread: one.
 */
#include "cluster-tests/sim/sim_member.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/driver.h"
#include "cluster-tests/sim/sim_level.h"
#include "cluster-tests/sim/sim_node.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

#define PATIENCE_MS 2500
#define MEMBERS_MAX 6 /* members that operators want */

struct sim_membership_request {
    struct cluster_request base;
    struct sim_world *world;
    struct member_ask ask;
};

static bool change_is_under_way(const struct sim_node *node)
{
    const struct member_change *change = state_member_change(node->replica.state);

    return change != NULL && !change->given_up;
}

/* --- what operators ask --- */

static void on_asked(struct cluster_request *base)
{
    struct sim_membership_request *request = base->data;
    struct sim_world *world = request->world;
    const struct member_ask *ask = &request->ask;
    struct member_answer answer;

    world->requests_open--;
    if (base->status == 0) {
        if (member_answer_decode(base->reply.data, base->reply.len, &answer) != 0) {
            sim_fail(world, "the answer to a membership request does not decode");
        }
        sim_trace(world, "membership request %u for node %u: outcome %u %s", ask->kind,
                  (unsigned)ask->node_id, answer.outcome, answer.why);
        sim_note(world, answer.outcome);
        if (answer.outcome == MEMBER_DONE) {
            world->stats.changes[ask->kind]++;
            world->told_removed |= ask->kind == MEMBER_ASK_REMOVE ? BIT(ask->node_id) : 0;
            world->told_added |= ask->kind == MEMBER_ASK_ADD ? BIT(ask->node_id) : 0;
        }
    } else {
        world->stats.failed_requests++;
    }
    buf_free(&base->payload);
    buf_free(&base->reply);
    free(request);
}

static void ask_for(struct sim_node *via, enum member_ask_kind kind, uint64_t node_id)
{
    struct sim_world *world = via->world;
    struct sim_membership_request *request = MUST_HAVE(calloc(1, sizeof *request));

    request->world = world;
    request->ask.kind = (uint8_t)kind;
    request->ask.node_id = node_id;
    if (kind == MEMBER_ASK_ADD) {
        snprintf(request->ask.address, sizeof request->ask.address, "sim:%u", (unsigned)node_id);
    }
    if (kind == MEMBER_ASK_REMOVE) {
        world->unwanted |= BIT(node_id);
    }
    request->base.kind = CLUSTER_REQUEST_MEMBER;
    request->base.deadline_ms = clock_now_ms(&via->clock) + PATIENCE_MS;
    request->base.done = on_asked;
    request->base.data = request;
    member_ask_encode(&request->ask, &request->base.payload);
    world->requests_open++;
    sim_trace(world, "node %u is asked: membership request %u for node %u", via->id, kind,
              (unsigned)node_id);
    id_service_submit(&via->ids, &request->base);
    sim_turn(via);
}

/* --- nodes that come --- */

static void new_node(struct sim_world *world)
{
    struct sim_node *via = sim_any_running(world);
    struct sim_node *node;

    if (via == NULL || world->node_count == SIM_NODES_MAX) {
        return;
    }
    node = &world->nodes[world->node_count];
    sim_node_init(world, world->node_count);
    world->node_count++;
    node->joins = true;
    if (sim_percent(world, 15)) { /* it is added, and never comes */
        node->gone = true;
        ask_for(via, MEMBER_ASK_ADD, node->id);
        return;
    }
    sim_trace(world, "node %u comes", node->id);
    sim_happens(node, SIM_JOIN, 1 + sim_below(world, 300));
    if (sim_percent(world, 50)) { /* an operator adds it; else it asks itself */
        ask_for(via, MEMBER_ASK_ADD, node->id);
    }
}

static void start_joined(struct sim_node *node, const struct wire_joined *joined)
{
    const struct wire_conf *conf = &joined->conf;

    ASSERT(configuration_decode(conf->data, conf->len, &node->learned.conf) == 0);
    node->learned.index = conf->index;
    node->learned.birth = joined->birth;
    sim_node_start(node);
}

void sim_member_join(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct sim_node *via = sim_any_running(world);
    struct buf request = BUF_INIT;
    BUF_LOCAL(answer);
    struct wire_joined joined = {0};
    struct wire_join join = {"", {{0, 0}, 0}};

    if (node->up || node->gone) {
        return;
    }
    if (via != NULL && sim_reaches(node, via)) {
        if (peers_admit(&via->replica.peers, node->id, 1000 + node->id) == ERR_REMOVED) {
            sim_trace(world, "node %u hears that it was removed", node->id);
            node->gone = true;
            return;
        }
        if (sim_level_refuses(via, node)) { /* an operator gives it a newer leafd */
            sim_level_renew(node, state_level(via->replica.state));
        }
        memcpy(join.address, node->address, sizeof node->address);
        wire_join_encode(&join, &request);
        if (!peers_join(&via->replica.peers.receiver, node->id, request.data, request.len,
                        &answer) ||
            wire_joined_decode(answer.data, answer.len, &joined) != 0) {
            sim_fail(world, "the answer to a node that joins does not decode");
        }
        buf_free(&request);
        sim_turn(via);
    }
    sim_trace(world, "node %u asks to join: outcome %u %s", node->id, joined.answer.outcome,
              joined.answer.why);
    if (joined.conf.len > 0) {
        start_joined(node, &joined);
    } else {
        sim_happens(node, SIM_JOIN, 50 + sim_below(world, 150));
    }
}

/* --- nodes that go --- */

void sim_member_told(struct sim_node *node)
{
    if (node->gone) {
        return;
    }
    sim_trace(node->world, "node %u hears that it was removed", node->id);
    node->world->stats.told++;
    node->gone = true;
    sim_node_crash(node);
}

/* It is up and has the configuration that the newest one has; nothing is pending. */
static bool agrees(const struct sim_node *node, const struct sim_node *newest)
{
    const struct driver *driver = &node->replica.driver;

    return node->up && !change_is_under_way(node) && driver_pending_change(driver) == 0 &&
           driver_applied(driver)->conf_index ==
               driver_applied(&newest->replica.driver)->conf_index;
}

/* All that are not gone are up and agree on who is a member; nothing is pending. */
static bool is_calm(const struct sim_world *world, unsigned *ret_voters)
{
    const struct sim_node *first = sim_newest(world);

    if (first == NULL) {
        return false;
    }
    SIM_NODE_FOREACH (node, world) {
        if (!node->gone && !agrees(node, first)) {
            return false;
        }
    }
    *ret_voters = sim_configuration_of(first).voters;
    return true;
}

/* A disk is lost: the node never comes back, and a majority lives without it. Not before the birth,
 * for which all are needed. */
static void dies_for_good(struct sim_world *world)
{
    struct sim_node *node = sim_any_running(world);
    unsigned voters = 0;
    unsigned alive = 0;

    if (node == NULL || uid_is_none(&world->uid) || !is_calm(world, &voters) ||
        !(voters & BIT(node->id))) {
        return;
    }
    SIM_NODE_FOREACH (other, world) {
        /* One that forgot a vote may yet be refused. */
        alive += (voters & BIT(other->id)) && !other->gone && !other->lost_vote && other != node;
    }
    if (alive < BIT_COUNT(voters) / 2 + 1) {
        return;
    }
    sim_trace(world, "node %u dies for good", node->id);
    world->stats.dead++;
    node->gone = true;
    sim_node_crash(node);
}

/* --- the draw --- */

static uint64_t random_of(struct sim_world *world, unsigned bits)
{
    unsigned k = (unsigned)sim_below(world, BIT_COUNT(bits));

    for (uint64_t id = 1; id <= SIM_NODES_MAX; id++) {
        if ((bits & BIT(id)) && k-- == 0) {
            return id;
        }
    }
    UNREACHABLE("a bit that is set");
}

/* Has a disk lied? That is the one fault that a cluster of three bears: no operator takes a sound
 * node from it as well. */
static bool disk_lied(const struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if ((node->lost_vote && !(world->removed & BIT(node->id))) || node->loses_vote) {
            return true;
        }
    }
    return false;
}

/* The id of a member that is dead for good, or 0. */
static uint64_t dead_member(const struct sim_world *world, unsigned members)
{
    SIM_NODE_FOREACH (node, world) {
        if ((members & BIT(node->id)) && node->gone) {
            return node->id;
        }
    }
    return 0;
}

static void remove_one(struct sim_node *via, const struct sim_conf *conf)
{
    struct sim_world *world = via->world;
    uint64_t dead = dead_member(world, conf->members);
    uint64_t leader = driver_leader(&via->replica.driver);
    uint64_t id = random_of(world, conf->members);

    if (dead != 0) {
        id = dead;
    } else if (leader != 0 && sim_percent(world, 40)) {
        id = leader;
    }
    if (dead != 0 ||
        (BIT_COUNT(conf->voters) > (sim_percent(world, 5) ? 1u : 2u) && !disk_lied(world))) {
        ask_for(via, MEMBER_ASK_REMOVE, id);
    }
}

void sim_member_event(struct sim_world *world)
{
    struct sim_node *via = sim_any_running(world);
    struct sim_conf conf;

    if (!world->member_faults || via == NULL) {
        return;
    }
    conf = sim_configuration_of(via);
    if (!world->faults && dead_member(world, conf.members) != 0) { /* the operator clears up */
        ask_for(via, MEMBER_ASK_REMOVE, dead_member(world, conf.members));
    }
    if (!world->faults || conf.members == 0) {
        return;
    }
    switch (sim_below(world, 10)) {
    case 0:
    case 1:
    case 2:
        if (BIT_COUNT(conf.members) < MEMBERS_MAX) {
            new_node(world);
        }
        break;
    case 3: /* whom nobody knows, or who is one already */
        ask_for(via, MEMBER_ASK_ADD, 1 + sim_below(world, world->node_count));
        break;
    case 4:
    case 5:
    case 6:
        remove_one(via, &conf);
        break;
    case 7:
        dies_for_good(world);
        break;
    default:
        ask_for(via, MEMBER_ASK_LEAD, random_of(world, conf.members));
        break;
    }
}

/* --- what must hold --- */

/* One server came as a standby, went as one, or changed its role; or nothing did. */
static bool follows(const struct sim_conf *before, const struct sim_conf *after)
{
    return BIT_COUNT(before->members ^ after->members) +
               BIT_COUNT(before->voters ^ after->voters) <=
           1;
}

static void check_configuration(struct sim_node *node)
{
    const struct sim_conf now = sim_configuration_of(node);
    struct sim_world *world = node->world;
    const struct sim_conf *last = NULL;

    for (size_t i = 0; i < world->conf_count; i++) {
        last = &world->confs[i];
        if (last->index == now.index &&
            (last->members != now.members || last->voters != now.voters)) {
            sim_fail(world, "node %u has another configuration at index %" PRIu64, node->id,
                     now.index);
        }
    }
    if (last != NULL && last->index >= now.index) {
        return; /* another node was here before */
    }
    if (now.members & world->removed) {
        sim_fail(world, "node %u has a configuration with an id that was removed", node->id);
    }
    if (last != NULL && !follows(last, &now)) {
        sim_fail(world, "the configuration at index %" PRIu64 " differs by more than one server",
                 now.index);
    }
    ASSERT(world->conf_count < SIM_CONFS_MAX);
    world->confs[world->conf_count++] = now;
    sim_trace(world, "configuration at %" PRIu64 ": members %x, voters %x", now.index, now.members,
              now.voters);
}

/* A leader has just made somebody a voter: is that one's log as long as when it became a member? */
static void check_promotion(struct sim_node *leader)
{
    struct sim_world *world = leader->world;
    const struct driver *driver = &leader->replica.driver;
    const struct sim_conf *conf = &world->confs[world->conf_count - 1];

    MEMBER_FOREACH (server, driver_configuration(driver)) {
        const struct sim_node *node = &world->nodes[server->id - 1];

        if (server->role == ROLE_VOTER && !(conf->voters & BIT(server->id)) && node->up &&
            driver_pending_change(driver) != leader->seen_change &&
            node->replica.driver.persisted < conf->index) {
            sim_fail(world, "node %u votes and has the log only up to %" PRIu64 ", not to %" PRIu64,
                     node->id, node->replica.driver.persisted, conf->index);
        }
    }
    leader->seen_change = driver_pending_change(driver);
}

void sim_member_check(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct driver *driver = &node->replica.driver;
    const struct member_change *change = state_member_change(node->replica.state);

    for (unsigned i = 0; i < world->node_count; i++) {
        if (state_member_removed(node->replica.state, i + 1)) {
            world->removed |= BIT(i + 1);
        }
    }
    if (change != NULL && change->given_up) {
        world->given_up |= BIT(change->node_id);
    }
    if (driver->applier.installing) {
        return;
    }
    if (driver_pending_change(driver) != 0 &&
        driver_pending_change(driver) <= driver_applied(driver)->index) {
        sim_fail(world,
                 "node %u holds the configuration at %" PRIu64 " for pending, and applied it",
                 node->id, driver_pending_change(driver));
    }
    if (driver_applied(driver)->conf_index != node->seen_conf) {
        node->seen_conf = driver_applied(driver)->conf_index;
        check_configuration(node);
    }
    if (driver_is_leader(driver) && world->conf_count > 0 &&
        driver_pending_change(driver) > world->confs[world->conf_count - 1].index) {
        check_promotion(node);
    }
}

/* --- the end --- */

bool sim_member_settled(const struct sim_world *world)
{
    const struct sim_node *first = sim_newest(world);
    unsigned members = first != NULL ? sim_configuration_of(first).members : 0;

    if (first == NULL) {
        return false;
    }
    SIM_NODE_FOREACH (node, world) {
        if (node->gone ? (members & BIT(node->id)) != 0 /* it is to be removed yet */
                       : (world->removed & BIT(node->id)) != 0 /* it has not heard of it */) {
            return false;
        }
    }
    SIM_LIVING_FOREACH (node, world) {
        if (!agrees(node, first)) {
            return false;
        }
    }
    return true;
}

void sim_member_end(struct sim_world *world)
{
    const struct sim_conf conf = sim_configuration_of(sim_newest(world));

    if (conf.members & (world->told_removed | world->removed)) {
        sim_fail(world, "somebody was told of a removal, and the node is a member");
    }
    if (world->told_added & ~conf.voters & ~world->unwanted) {
        sim_fail(world, "somebody was told of an addition, and the node does not vote");
    }
    if (conf.members & ~conf.voters & ~world->given_up) {
        sim_fail(world, "a node stands by, and no change of it was given up");
    }
}
