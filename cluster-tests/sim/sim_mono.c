/*
 * sim_mono.c - see sim_mono.h. Thread: one.
 */
#include "cluster-tests/sim/sim_mono.h"

#include <string.h>

#include "cluster-tests/sim/sim_client.h"
#include "cluster-tests/sim/sim_fault.h"
#include "cluster-tests/sim/sim_net.h"
#include "cluster-tests/sim/sim_node.h"
#include "cluster-tests/sim/sim_strict.h"

#define DARK_MS 1500 /* how long at least: more than an election takes */
#define LATE_MS 900  /* how late what the others send comes, at least; twice that at most */
#define APART_MS 300 /* and by how much they differ */
#define PAUSE_MS 1500
#define WITHOUT_PERCENT 15 /* of those that have no ids left; the others show more */
#define SLOW_LEAST 5       /* times: it steps down after so many election timeouts */

/* --- clients --- */

/* One that takes itself for the leader; NULL: nobody does. */
static struct sim_node *any_leader(struct sim_world *world)
{
    struct sim_node *found = NULL;
    uint64_t count = 0;

    SIM_NODE_FOREACH (node, world) {
        if (sim_node_runs(node) && driver_is_leader(&node->replica.driver) &&
            sim_below(world, ++count) == 0) {
            found = node;
        }
    }
    return found;
}

static bool is_behind(const struct sim_node *leader)
{
    return sim_is_led_later(leader->world, driver_term(&leader->replica.driver));
}

/* The ids of one that will be in the dark are kept for when somebody else leads. */
static bool spares(const struct sim_node *node)
{
    return node->drift.until_ms > node->world->now_ms && !is_behind(node) &&
           sim_percent(node->world, 85);
}

/* Somebody makes the tag, or makes it monotonic again, before long. */
static void see_to_it(struct sim_node *node)
{
    const char *name = node->world->tags[SIM_MONOTONIC].name;
    const struct tag_row *row = fsm_tag(node->ids.context.fsm, name, strlen(name));
    bool is_usual = row != NULL && !row->deleted && row->mode == TAG_MODE_MONOTONIC;

    if (!is_usual && state_level(node->replica.state) >= SIM_MONO_LEVEL &&
        sim_percent(node->world, 8)) {
        sim_client_put(node, SIM_MONOTONIC);
    }
}

void sim_mono_event(struct sim_world *world)
{
    struct sim_node *leader = any_leader(world);
    struct sim_node *node = sim_any_running(world);

    if (!world->clients) {
        return;
    }
    if (leader != NULL && sim_percent(world, 50)) {
        node = leader;
    }
    if (node != NULL && spares(node)) {
        return;
    }
    if (node != NULL) {
        world->stats.mono_stale += driver_is_leader(&node->replica.driver) && is_behind(node);
        see_to_it(node);
        (void)sim_strict_event(node, SIM_MONOTONIC);
        sim_turn(node);
    }
}

/* --- leaders in the dark --- */

/* What this one sends to the leader stays on its way for so long. */
static void hold_back(const struct sim_node *from, const struct sim_node *leader, uint64_t until_ms)
{
    from->world->link_free_ms[from->id - 1][leader->id - 1] = until_ms;
}

/* All are on the other side, or some are on the leader's. */
static void leave_behind(struct sim_node *leader, bool with_others)
{
    struct sim_world *world = leader->world;
    unsigned side = BIT(leader->id);

    SIM_NODE_FOREACH (node, world) {
        side |= with_others && sim_percent(world, 25) ? BIT(node->id) : 0;
    }
    SIM_NODE_FOREACH (one, world) {
        SIM_NODE_FOREACH (other, world) {
            if (((side & BIT(one->id)) != 0) != ((side & BIT(other->id)) != 0)) {
                sim_net_cut(world, one->id - 1, other->id - 1, true);
            }
        }
    }
}

/* What the others send comes late, also that they have heard it. What it sends is lost, with what
 * was on its way; or it has just begun a round, to which the answers come when others lead. */
static void silence(struct sim_node *leader)
{
    struct sim_world *world = leader->world;
    uint64_t late_ms = LATE_MS + sim_below(world, LATE_MS);
    bool is_heard = sim_percent(world, 60);

    if (is_heard) {
        (void)sim_strict_event(leader, SIM_MONOTONIC);
        sim_turn(leader);
    }
    SIM_NODE_FOREACH (node, world) {
        if (node == leader) {
            continue;
        }
        hold_back(node, leader, world->now_ms + late_ms + sim_below(world, APART_MS));
        if (is_heard) {
            hold_back(leader, node, leader->drift.until_ms);
        } else {
            sim_net_cut(world, leader->id - 1, node->id - 1, true);
        }
    }
}

/* It has appended that it votes no more, which one voter alone is to confirm. The others have heard
 * of it, and elect without these two. */
static void leave_out(struct sim_node *leader)
{
    struct sim_world *world = leader->world;
    const struct sim_node *friend = NULL;
    uint64_t count = 0;

    MEMBER_FOREACH (member, driver_configuration(&leader->replica.driver)) {
        if (member->role == ROLE_VOTER && member->id != leader->id &&
            sim_below(world, ++count) == 0) {
            friend = &world->nodes[member->id - 1];
        }
    }
    SIM_NODE_FOREACH (node, world) {
        if (node != leader && node != friend && friend != NULL) {
            hold_back(node, leader, leader->drift.until_ms);
            hold_back(leader, node, leader->drift.until_ms);
            sim_net_cut(world, node->id - 1, friend->id - 1, true);
            sim_net_cut(world, friend->id - 1, node->id - 1, true);
        }
    }
}

/* Another one leads at once; this one hears of it late. */
static void depose(struct sim_node *leader)
{
    struct sim_world *world = leader->world;
    uint64_t late_ms = LATE_MS + sim_below(world, LATE_MS);

    SIM_NODE_FOREACH (node, world) {
        if (node != leader) {
            hold_back(node, leader, world->now_ms + late_ms + sim_below(world, APART_MS));
        }
    }
    leader->handing_over = true;
    sim_turn(leader);
}

/* There is a majority of the voters without it, and without so many others. */
static bool others_can_elect(struct sim_node *leader, unsigned less)
{
    const struct sim_world *world = leader->world;
    const struct configuration *conf = driver_configuration(&leader->replica.driver);
    unsigned running = 0;

    MEMBER_FOREACH (member, conf) {
        const struct sim_node *node = &world->nodes[member->id - 1];

        running += member->role == ROLE_VOTER && node != leader && sim_node_runs(node) &&
                   node->alone_until_ms <= world->now_ms;
    }
    return running > configuration_voters(conf) / 2 + less;
}

static bool is_dark(const struct sim_node *leader)
{
    return leader->drift.until_ms > leader->world->now_ms;
}

static bool has_ids_left(const struct sim_node *leader)
{
    return windows_counts(leader->ids.windows)->left > 0;
}

/* It gets so few turns that it does not step down. */
static uint64_t begin_dark(struct sim_node *leader)
{
    struct sim_world *world = leader->world;
    uint64_t until_ms = world->now_ms + DARK_MS + sim_below(world, DARK_MS);

    world->stats.stale++;
    sim_trace(world, "leader %u is kept in the dark", leader->id);
    sim_node_slow(leader, until_ms, SLOW_LEAST + (unsigned)sim_below(world, 6));
    sim_net_heal(world);
    return until_ms;
}

void sim_mono_turned(struct sim_node *leader)
{
    const struct driver *driver = &leader->replica.driver;

    if (!leader->world->mono || !leader->world->faults || !driver_is_leader(driver) ||
        driver_pending_change(driver) == 0 || is_dark(leader) || leader->handing_over) {
        return;
    }
    if (configuration_role(driver_configuration(driver), leader->id) != ROLE_VOTER &&
        others_can_elect(leader, 1)) {
        uint64_t until_ms = begin_dark(leader);

        leave_out(leader);
        sim_fault_keep_quiet(leader->world, until_ms);
    }
}

void sim_mono_stale(struct sim_world *world)
{
    struct sim_node *leader = any_leader(world);
    uint64_t until_ms;

    if (leader == NULL || !world->faults || leader->handing_over || is_dark(leader) ||
        (sim_is_quiet(world) && sim_percent(world, 50)) || !others_can_elect(leader, 0) ||
        (!has_ids_left(leader) && !sim_percent(world, WITHOUT_PERCENT))) {
        return;
    }
    until_ms = begin_dark(leader);
    switch (sim_below(world, 8)) {
    case 0:
    case 1:
        leave_behind(leader, false);
        break;
    case 2:
    case 3:
        leave_behind(leader, true);
        break;
    case 4:
        sim_fault_pause(leader, 1 + sim_below(world, PAUSE_MS));
        break;
    case 5:
        depose(leader);
        break;
    default:
        silence(leader);
        break;
    }
    sim_fault_keep_quiet(world, until_ms);
}
