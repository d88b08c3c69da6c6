/*
 * sim_level.c - see sim_level.h. Thread: one.
 */
#include "cluster-tests/sim/sim_level.h"

#include "src/base/assert.h"

#define HOLD_MS 2000  /* at most */
#define QUIET_MS 2500 /* most have that level by then, and what it brought can go wrong */

void sim_level_init(struct sim_world *world)
{
    world->newest = LEVEL_FIRST;
    world->level = LEVEL_FIRST;
    world->exchanges = world->seed % 3 == 1;
    if (world->exchanges) {
        world->newest = (uint16_t)(LEVEL_FIRST + 1 + sim_below(world, SIM_LEVELS_MAX - 1));
        world->hold_ms = (uint32_t)sim_below(world, HOLD_MS);
        world->level_auto = sim_percent(world, 70);
        world->old_one = sim_percent(world, 50) ? 1 + sim_below(world, world->node_count) : 0;
        world->born_late = sim_percent(world, 40);
    } else if (world->seed % 5 < 3) { /* a new cluster of today; the others stay at the first one */
        world->newest = SIM_LEVELS_MAX;
        world->level_auto = true;
        world->quiet_until_ms = world->now_ms + QUIET_MS;
    }
    world->mono = SIM_MONO_SERVED && world->newest >= SIM_MONO_LEVEL;
}

uint16_t sim_level_first(struct sim_world *world)
{
    if (!world->exchanges) {
        return world->newest;
    }
    return world->born_late ? (uint16_t)(world->newest - sim_below(world, 2)) : LEVEL_FIRST;
}

struct level_range sim_level_of(struct sim_node *node)
{
    if (node->able > node->ever_able) {
        node->ever_able = node->able;
    }
    return (struct level_range){.min = LEVEL_FIRST, .max = node->able};
}

struct upgrade_config sim_level_config(const struct sim_world *world)
{
    return (struct upgrade_config){.hold_ms = world->hold_ms, .automatic = world->level_auto};
}

/* --- nodes that are too old --- */

/* The level rises when every member speaks it: one that was removed before need not have. */
static void expect_went_back(struct sim_node *node, uint16_t level)
{
    sim_trace(node->world, "node %u: its leafd speaks up to %u, the cluster is at level %u",
              node->id, node->able, level);
    if (node->ever_able > 0 && node->ever_able < level && !(node->world->removed & BIT(node->id))) {
        sim_fail(node->world, "node %u never spoke level %u, and the cluster has it", node->id,
                 level);
    }
}

void sim_level_renew(struct sim_node *node, uint16_t level)
{
    ASSERT(level > node->able);
    expect_went_back(node, level);
    node->world->stats.too_old++;
    node->able = level;
}

void sim_level_too_old(struct sim_node *node, uint16_t level)
{
    ASSERT(level > node->able);
    expect_went_back(node, level);
    node->needed = level;
    sim_happens(node, SIM_OLD, 0);
}

static bool is_refused(struct sim_node *node, const struct sim_node *by)
{
    uint16_t level = by->up ? state_level(by->replica.state) : LEVEL_FIRST;

    if (level <= node->able) {
        return false;
    }
    if (node->up) {
        sim_level_too_old(node, level);
    }
    return true;
}

bool sim_level_refuses(struct sim_node *to, struct sim_node *from)
{
    return is_refused(from, to) || is_refused(to, from);
}

void sim_level_check(struct sim_node *node)
{
    uint16_t level = state_level(node->replica.state);

    if (level > node->able) {
        sim_fail(node->world, "node %u goes on at level %u, and its leafd speaks up to %u",
                 node->id, level, node->able);
    }
    if (level > node->world->level) {
        sim_trace(node->world, "node %u: the level is %u", node->id, level);
        node->world->level = level;
        node->world->stats.raises++;
    }
}
