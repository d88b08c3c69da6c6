/*
 * sim_view.h - who is a member of the simulated cluster, as its newest applied configuration says.
 *
 * Thread: one.
 */
#ifndef LEAFD_RAFT_SIM_SIM_VIEW_H
#define LEAFD_RAFT_SIM_SIM_VIEW_H

#include "raft/sim/sim_world.h"

#define BIT(id) (1u << ((id)-1))

/* The node whose configuration is the newest that is applied. NULL: none is up. */
const struct sim_node *sim_newest(const struct sim_world *world);

/* Ids of the configuration that a node has applied, a bit each: all of them, and those that
 * vote. */
void sim_configuration_of(const struct sim_node *node, unsigned *ret_members, unsigned *ret_voters);

/* Some state machine holds the node for removed. */
bool sim_member_was_removed(const struct sim_world *world, uint64_t node_id);

/* A member that is not dead. */
bool sim_member_lives(const struct sim_node *node);

#endif
