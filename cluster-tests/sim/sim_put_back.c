/*
 * sim_put_back.c - see sim_put_back.h. Thread: one.
 */
#include "cluster-tests/sim/sim_put_back.h"

#include <inttypes.h>
#include <string.h>

#include "cluster-tests/sim/sim_net.h"
#include "cluster-tests/sim/sim_node.h"
#include "cluster-tests/sim/sim_store.h"
#include "src/base/log.h"

#define ALONE_MAX 6 /* starts of a copy that reaches nobody */

static bool in_this_run(const struct sim_world *world)
{
    return world->seed % 3 == 0 && world->node_count >= 3;
}

/* The copy of a sole voter leads as soon as it starts, and nobody can prevent that. */
static bool leads_alone(const struct sim_node *node)
{
    return configuration_voters(driver_configuration(&node->replica.driver)) < 2;
}

void sim_put_back_keep(struct sim_world *world)
{
    unsigned count = 0;
    unsigned most;

    if (!in_this_run(world)) {
        return;
    }
    most = 1 + (unsigned)sim_below(world, world->node_count - 1);
    SIM_NODE_FOREACH (node, world) {
        if (count < most && node->up && sim_member_lives(node) && !leads_alone(node) &&
            sim_percent(world, 60)) {
            sim_store_keep(node, SIM_COPY_OLDER);
            node->kept_durable = node->replica.driver.start;
            (void)driver_durable(&node->replica.driver, &node->kept_durable);
            sim_trace(world, "the disk of node %u is copied", node->id);
            count++;
        }
    }
}

void sim_put_back_note(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if (node->up && !driver_durable(&node->replica.driver, &node->noted_durable)) {
            memset(&node->noted_durable, 0, sizeof node->noted_durable);
        }
    }
}

/* Has it promised something since the copy, so long ago that everybody knows? */
static bool must_be_noticed(const struct sim_node *node)
{
    const struct wire_durable *then = &node->kept_durable;
    const struct wire_durable *now = &node->noted_durable;

    return now->term > then->term ||
           (now->term == then->term && now->last_term == now->term && now->index > then->index);
}

static bool is_copied(const struct sim_node *node)
{
    return node->kept[SIM_COPY_OLDER].incarnation > 0 && node->up && sim_member_lives(node);
}

/* Copies of all nodes at once nobody can tell; a copy without a promise since is none. */
static bool can_be_told(struct sim_world *world)
{
    unsigned copied = 0;
    unsigned whole = 0;

    SIM_LIVING_FOREACH (node, world) {
        if (is_copied(node) && !must_be_noticed(node)) {
            return false;
        }
        copied += is_copied(node);
        whole += node->up && !is_copied(node);
    }
    return copied > 0 && whole > 0;
}

/* Started where it reaches nobody, the copy counts as many starts as the original, or more. */
static void start_alone(struct sim_node *node)
{
    for (uint64_t i = sim_below(node->world, ALONE_MAX); i > 0; i--) {
        sim_net_cut_off(node);
        sim_node_start(node);
        sim_node_crash(node);
    }
    sim_net_heal(node->world);
}

/* Has each whole node a start of each copied one in its state that the copy has not had? Then it
 * needs no memory of its own. */
static bool state_can_tell(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        SIM_NODE_FOREACH (whole, world) {
            if (is_copied(node) && !is_copied(whole) && whole->up && sim_member_lives(whole) &&
                state_node_start(whole->replica.state, node->id) >> PEER_INCARNATION_RANDOM_BITS <=
                    node->kept[SIM_COPY_OLDER].incarnation) {
                return false;
            }
        }
    }
    return true;
}

/* A whole node knows no more of its peers than one that has just joined. */
static void forget_peers(struct sim_node *node)
{
    static const struct rollback nothing;
    struct store_op op = {.kind = STORE_LOCAL, .local_key = LOCAL_PEERS};
    BUF_LOCAL(record);

    rollback_save(&nothing, &record);
    op.local = record.data;
    op.local_len = (uint32_t)record.len;
    sim_store_write(node, &op);
}

bool sim_put_back_strike(struct sim_world *world)
{
    bool all = sim_percent(world, 60);
    bool by_state = all && sim_percent(world, 50) && state_can_tell(world);
    unsigned ended = 0;

    if (!can_be_told(world)) {
        return false;
    }
    world->stats.by_state += by_state;
    log_setup(LOG_LEVEL_ERROR, 0); /* of each refused frame there is a warning */
    SIM_NODE_FOREACH (node, world) {
        node->set_back = is_copied(node);
        if (node->up && (node->set_back || (all && sim_member_lives(node)))) {
            ended |= BIT(node->id);
        }
    }
    SIM_NODE_FOREACH (node, world) {
        if (ended & BIT(node->id)) {
            sim_node_end(node);
        }
    }
    SIM_NODE_FOREACH (node, world) {
        if (node->set_back) {
            sim_trace(world, "the disk of node %u is set back", node->id);
            world->stats.set_back++;
            sim_store_keep(node, SIM_COPY_NEWEST);
            sim_store_put_back(node, SIM_COPY_OLDER);
            start_alone(node);
        } else if (by_state && (ended & BIT(node->id))) {
            forget_peers(node);
        }
    }
    SIM_NODE_FOREACH (node, world) {
        if (ended & BIT(node->id)) {
            sim_node_start(node);
        }
    }
    return true;
}

/* With copies no majority is made. */
static void check_leaders(struct sim_world *world)
{
    unsigned copies = 0;
    unsigned voters = sim_configuration_of(sim_newest(world)).voters;

    SIM_NODE_FOREACH (node, world) {
        copies |= node->set_back ? BIT(node->id) : 0;
    }
    if (2 * BIT_COUNT(voters & ~copies) > BIT_COUNT(voters)) {
        return;
    }
    SIM_NODE_FOREACH (node, world) {
        if (node->up && driver_leads(&node->replica.driver)) {
            sim_fail(world, "node %u leads, and has a majority only with older copies", node->id);
        }
    }
}

void sim_put_back_check(struct sim_world *world)
{
    check_leaders(world);
    SIM_NODE_FOREACH (node, world) {
        if (node->set_back && (!node->refused || node->up)) {
            sim_fail(world,
                     "node %u is an older copy (term %" PRIu64 ", last %" PRIu64
                     "; it had told term %" PRIu64 ", last %" PRIu64 "), and nobody refuses it",
                     node->id, node->kept_durable.term, node->kept_durable.index,
                     node->noted_durable.term, node->noted_durable.index);
        }
    }
    SIM_NODE_FOREACH (node, world) {
        if (node->set_back) {
            node->set_back = false;
            node->refused = false;
            sim_store_put_back(node, SIM_COPY_NEWEST);
            sim_node_start(node);
        }
    }
}
