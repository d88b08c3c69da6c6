/*
 * sim_view.c - see sim_view.h. Thread: one.
 */
#include "raft/sim/sim_view.h"

#include "raft/core/driver_internal.h"

/* The node whose configuration is the newest that is applied. */
const struct sim_node *sim_newest(const struct sim_world *world)
{
    const struct sim_node *best = NULL;

    for (unsigned i = 0; i < world->node_count; i++) {
        const struct sim_node *node = &world->nodes[i];

        if (node->up && (best == NULL || node->replica.driver.applied.conf_index >
                                             best->replica.driver.applied.conf_index)) {
            best = node;
        }
    }
    return best;
}

/* Ids of the configuration that a node has applied: all of them, and those that vote. */
void sim_configuration_of(const struct sim_node *node, unsigned *ret_members, unsigned *ret_voters)
{
    const struct driver_position *applied = &node->replica.driver.applied;
    struct raft_configuration configuration;

    *ret_members = 0;
    *ret_voters = 0;
    if (applied->conf.len == 0 ||
        driver_decode_configuration(applied->conf.data, applied->conf.len, &configuration) != 0) {
        return;
    }
    for (unsigned i = 0; i < configuration.n; i++) {
        *ret_members |= BIT(configuration.servers[i].id);
        if (configuration.servers[i].role == RAFT_VOTER) {
            *ret_voters |= BIT(configuration.servers[i].id);
        }
    }
    raft_configuration_close(&configuration);
}

bool sim_member_was_removed(const struct sim_world *world, uint64_t node_id)
{
    return (world->removed & BIT(node_id)) != 0;
}

bool sim_member_lives(const struct sim_node *node)
{
    const struct sim_node *first = sim_newest(node->world);
    unsigned members;
    unsigned voters;

    if (node->gone || first == NULL) {
        return false;
    }
    sim_configuration_of(first, &members, &voters);
    return (members & BIT(node->id)) != 0;
}
