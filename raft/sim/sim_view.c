/*
 * sim_view.c - see sim_view.h. Thread: one.
 */
#include "raft/sim/sim_view.h"

#include "raft/core/driver.h"

/* The node whose configuration is the newest that is applied. */
const struct sim_node *sim_newest(const struct sim_world *world)
{
    const struct sim_node *best = NULL;

    for (unsigned i = 0; i < world->node_count; i++) {
        const struct sim_node *node = &world->nodes[i];

        if (node->up && (best == NULL || driver_applied(&node->replica.driver)->conf_index >
                                             driver_applied(&best->replica.driver)->conf_index)) {
            best = node;
        }
    }
    return best;
}

/* Ids of the configuration that a node has applied: all of them, and those that vote. */
void sim_configuration_of(const struct sim_node *node, unsigned *ret_members, unsigned *ret_voters)
{
    struct configuration configuration;

    *ret_members = 0;
    *ret_voters = 0;
    if (!applier_configured(&node->replica.driver.applier, &configuration)) {
        return;
    }
    for (unsigned i = 0; i < configuration.count; i++) {
        *ret_members |= BIT(configuration.members[i].id);
        if (configuration.members[i].role == ROLE_VOTER) {
            *ret_voters |= BIT(configuration.members[i].id);
        }
    }
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
