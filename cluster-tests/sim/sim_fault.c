/*
 * sim_fault.c - see sim_fault.h. Thread: one.
 */
#include "cluster-tests/sim/sim_fault.h"

#include <string.h>

#include "raft/core/message.h"
#include "cluster-tests/sim/sim_lost_vote.h"
#include "cluster-tests/sim/sim_net.h"
#include "cluster-tests/sim/sim_node.h"

#define LONG_ALONE_MS 5000 /* long enough for the others' logs to be compacted meanwhile */
#define DOWN_MS 2500       /* how long a node is down at most */
#define PAUSE_MS 3000
#define GIVE_BACK_MS 500
#define QUIET_MS 4000 /* longer than a client's patience */

/* --- links --- */

void sim_fault_alone(struct sim_node *node)
{
    if (node->world->faults) {
        sim_net_heal(node->world); /* the others have each other */
        sim_net_cut_off(node);
    }
}

void sim_fault_keep_quiet(struct sim_world *world, uint64_t until_ms)
{
    if (sim_percent(world, 50)) {
        world->quiet_until_ms = until_ms;
        world->drop_percent = 0;
    }
}

/* Nothing arrives at this node any more. */
static void deafen(struct sim_node *node)
{
    for (unsigned i = 0; i < node->world->node_count; i++) {
        sim_net_cut(node->world, i, node->id - 1, true);
    }
}

static struct sim_node *leader_now(struct sim_world *world)
{
    struct sim_node *leader = NULL;

    SIM_NODE_FOREACH (node, world) {
        if (sim_node_runs(node) && driver_leads(&node->replica.driver)) {
            leader = node;
        }
    }
    return leader;
}

/* Between the leader and one other alone, one way or both, and half of the time so that only the
 * absence of answers shows it. */
static void cut_from_leader(struct sim_world *world)
{
    struct sim_node *leader = leader_now(world);
    unsigned a = (unsigned)sim_below(world, world->node_count);
    unsigned how = 1 + (unsigned)sim_below(world, 3);
    bool seen = sim_percent(world, 50);
    unsigned b;

    if (leader == NULL || leader == &world->nodes[a]) {
        return;
    }
    b = leader->id - 1;
    sim_net_heal(world);
    if (how & 1) {
        seen ? sim_net_cut(world, a, b, true) : sim_net_lose(world, a, b);
    }
    if (how & 2) {
        seen ? sim_net_cut(world, b, a, true) : sim_net_lose(world, b, a);
    }
    sim_fault_keep_quiet(world, world->now_ms + QUIET_MS);
}

/* What the leader sends arrives; it hears nobody. */
static void deafen_leader(struct sim_world *world)
{
    struct sim_node *leader = leader_now(world);

    if (leader == NULL) {
        return;
    }
    sim_net_heal(world);
    deafen(leader);
    sim_fault_keep_quiet(world, world->now_ms + QUIET_MS);
}

static void random_cut(struct sim_world *world)
{
    unsigned n = world->node_count;
    unsigned a = (unsigned)sim_below(world, n);
    unsigned b = (unsigned)sim_below(world, n);

    world->stats.cuts++;
    switch (sim_below(world, 10)) {
    case 0:
        sim_net_cut_off(&world->nodes[a]);
        break;
    case 1: /* one way */
        sim_net_cut(world, a, b, true);
        break;
    case 2: /* one node deaf */
        deafen(&world->nodes[a]);
        break;
    case 3: /* so long that it will need a snapshot */
        world->nodes[a].alone_until_ms = world->now_ms + LONG_ALONE_MS;
        sim_net_cut_off(&world->nodes[a]);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        cut_from_leader(world);
        break;
    case 8:
        deafen_leader(world);
        break;
    default: /* two sides */
        for (unsigned i = 0; i < n; i++) {
            for (unsigned j = 0; j < n; j++) {
                sim_net_cut(world, i, j, (i <= a) != (j <= a));
            }
        }
        break;
    }
}

/* --- the end of a node --- */

static void crash(struct sim_node *node, uint64_t back_in_ms)
{
    sim_node_crash(node);
    sim_lost_vote_ended(node);
    sim_happens(node, SIM_RESTART, back_in_ms);
}

void sim_fault_end_node(struct sim_node *node)
{
    struct sim_world *world = node->world;
    uint64_t back_in_ms = 1 + sim_below(world, sim_percent(world, 70) ? 30 : DOWN_MS);

    if (!world->faults) {
        return;
    }
    if (!node->stopping) {
        crash(node, back_in_ms);
        return;
    }
    if (!node->giving_back) {
        sim_trace(world, "node %u gives its segments back", node->id);
        node->giving_back = true;
        replica_give_back(&node->replica, clock_now_ms(&node->clock) + GIVE_BACK_MS);
        sim_turn(node);
        return;
    }
    world->stats.stops++;
    sim_node_stop(node);
    sim_happens(node, SIM_RESTART, back_in_ms);
}

static void random_crash(struct sim_world *world)
{
    struct sim_node *victim = sim_any_node(world);
    bool all = sim_percent(world, 5);

    SIM_NODE_FOREACH (node, world) {
        if (node->up && (all || node == victim)) {
            crash(node, 1 + sim_below(world, DOWN_MS));
        }
    }
}

/* Give leadership away while everybody goes on working, and half of the time stop after it. */
static void hand_over(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if (sim_node_runs(node) && driver_leads(&node->replica.driver) && !node->handing_over) {
            sim_trace(world, "node %u is asked to give leadership away", node->id);
            node->handing_over = true;
            node->stopping = sim_percent(world, 50);
        }
    }
}

/* A node that may well be no leader is told to stop. */
static void random_stop(struct sim_world *world)
{
    struct sim_node *node = sim_any_node(world);

    if (sim_node_runs(node) && !node->handing_over && !node->giving_back) {
        sim_trace(world, "node %u is told to stop", node->id);
        node->handing_over = true;
        node->stopping = true;
        sim_turn(node);
    }
}

void sim_fault_handed_over(struct sim_node *node)
{
    sim_trace(node->world, "node %u has no leadership to give away", node->id);
    node->handing_over = false;
    if (node->stopping) {
        sim_happens(node, SIM_END, 0);
    }
}

/* Then it is at its end. */
void sim_fault_given_back(struct sim_node *node)
{
    const struct service *service = node->replica.context.service;

    if (node->giving_back && !node->gave_back && service->ops->gave_back(service)) {
        node->gave_back = true;
        sim_happens(node, SIM_END, 0);
    }
}

/* --- strikes: drawn while a node is at work, so all they do is to schedule --- */

/* A vote was given that is not on disk yet. Without the rule that it must be, the node would come
 * back and vote again in the same term: let its candidate be alone meanwhile. A vote in a term that
 * the disk had without one is rare, so that each of them is struck. */
static void strike_voter(struct sim_node *node, struct sim_node *candidate)
{
    struct sim_world *world = node->world;

    world->stats.strikes++;
    sim_happens(node, SIM_END, 0);
    if (sim_lost_vote_wanted(node)) {
        candidate->alone_until_ms = world->now_ms + SIM_LOST_VOTE_ALONE_MS;
        sim_happens(candidate, SIM_ALONE, 5);
    } else if (sim_percent(world, 70)) {
        sim_happens(candidate, SIM_ALONE, 5 + sim_below(world, 10));
    }
}

/* Entries were acknowledged: were they not on disk, then they would be nowhere, once the leader is
 * gone that counted them. */
static void strike_follower(struct sim_node *node, struct sim_node *leader)
{
    struct sim_world *world = node->world;

    world->stats.strikes++;
    sim_happens(node, SIM_END, 0);
    sim_happens(leader, SIM_ALONE, 5 + sim_below(world, 5));
    if (sim_percent(world, 50)) {
        sim_happens(leader, SIM_END, 11);
    }
}

/*
 * Something went to a peer while the cluster has one voter, or is about to have two. A sole voter
 * may die before its own disk has what a standby has got, also that it is one by now: it must never
 * send another thing in its place. And of two voters, one may not have heard yet that it is one:
 * the other dies as soon as its own disk knows it, and needs that vote when it comes back.
 */
static void strike_leader(struct sim_node *node, struct sim_node *peer)
{
    struct sim_world *world = node->world;
    const struct driver *driver = &node->replica.driver;
    bool changing = driver_pending_change(driver) != 0;
    unsigned voters = configuration_voters(driver_configuration(driver));
    bool standbys = voters < driver_configuration(driver)->count;

    if (voters == 1 && standbys && sim_percent(world, changing ? 25 : 2)) {
        world->stats.strikes++;
        sim_happens(node, SIM_END, 0);
    } else if (voters == 2 && changing && sim_percent(world, 15)) {
        world->stats.strikes++;
        sim_happens(peer, SIM_END, 0);
        sim_happens(node, SIM_END, 1 + sim_below(world, 30));
    }
}

/* Is there a third node that does not hear this leader now? */
static bool somebody_lags(const struct sim_node *leader)
{
    const struct sim_world *world = leader->world;

    SIM_NODE_FOREACH (node, world) {
        if (world->cut[leader->id - 1][node->id - 1] || node->disk.slow_until_ms > world->now_ms) {
            return true;
        }
    }
    return false;
}

/* A vote that is granted (no pre-vote)? */
static bool grants_vote(const struct buf *payload)
{
    struct raft_message message;
    uint64_t transfer;

    return message_decode(payload->data, payload->len, &message, &transfer) == 0 &&
           message.request_vote_result.vote_granted && !message.request_vote_result.pre_vote;
}

void sim_fault_sent(struct sim_node *node, uint64_t to, enum frame_type type,
                    const struct buf *payload)
{
    struct sim_world *world = node->world;
    struct sim_node *peer = &world->nodes[to - 1];

    if (!world->faults || type != FRAME_RAFT || !node->up || sim_is_quiet(world)) {
        return;
    }
    if (payload->data[0] == RAFT_APPEND_ENTRIES) {
        strike_leader(node, peer);
    } else if (payload->data[0] == RAFT_APPEND_ENTRIES_RESULT) {
        if (sim_below(world, 1000) < (somebody_lags(peer) ? 10 : 1)) {
            strike_follower(node, peer);
        }
    } else if (payload->data[0] == RAFT_REQUEST_VOTE_RESULT && grants_vote(payload) &&
               sim_percent(world, node->voted_late ? 100 : 15)) {
        strike_voter(node, peer);
    }
}

/* --- the draw --- */

void sim_fault_pause(struct sim_node *node, uint64_t for_ms)
{
    struct sim_world *world = node->world;

    world->stats.pauses++;
    node->paused_until_ms = world->now_ms + for_ms;
    node->frozen_until_ms = node->paused_until_ms;
    sim_trace(world, "node %u is stopped until %u", node->id, (unsigned)node->paused_until_ms);
}

static void random_pause(struct sim_world *world)
{
    struct sim_node *node = sim_any_node(world);

    if (sim_node_runs(node)) {
        sim_fault_pause(node, 1 + sim_below(world, PAUSE_MS));
    }
}

static void random_disk(struct sim_world *world)
{
    struct sim_node *node = sim_any_node(world);

    if (sim_percent(world, 30)) {
        node->disk.low = !node->disk.low;
    } else {
        node->disk.slow_until_ms = world->now_ms + sim_below(world, 3000);
    }
}

void sim_fault_clock(struct sim_node *node)
{
    node->wall_offset_ms = (int64_t)sim_below(node->world, 7200000) - 3600000;
    if (node->wall_offset_ms > node->wall_highest_ms) {
        node->wall_highest_ms = node->wall_offset_ms;
    }
}

/* A clock that people set. */
static void random_clock(struct sim_world *world)
{
    if (world->clock_faults) {
        sim_fault_clock(sim_any_node(world));
    }
}

static void random_drops(struct sim_world *world)
{
    world->drop_percent = sim_percent(world, 50) ? 0 : (unsigned)sim_below(world, 25);
}

void sim_fault_event(struct sim_world *world)
{
    static void (*const draws[])(struct sim_world *) = {
        random_crash, random_crash, random_cut,  random_cut, sim_net_heal, sim_net_heal,
        random_drops, random_pause, random_disk, hand_over,  random_stop,  random_clock};

    if (!world->faults || sim_is_quiet(world)) {
        return;
    }
    draws[sim_below(world, sizeof draws / sizeof draws[0])](world);
}

void sim_fault_end(struct sim_world *world)
{
    world->faults = false;
    world->drop_percent = 0;
    SIM_NODE_FOREACH (node, world) {
        if (node->up && node->giving_back) {
            sim_node_crash(node); /* it was about to end, and comes back now */
        }
        node->wall_offset_ms = 0;
        node->paused_until_ms = 0;
        node->alone_until_ms = 0;
        node->stopping = false;
        node->disk.low = false;
        node->disk.slow_until_ms = 0;
        if (node->drift.until_ms > world->now_ms) {
            sim_node_slow(node, 0, 1);
        }
    }
    memset(world->link_free_ms, 0, sizeof world->link_free_ms);
    sim_net_heal(world);
}
