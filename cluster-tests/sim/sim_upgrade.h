/*
 * sim_upgrade.h - leafds are exchanged at random while everything else goes wrong, and the level of
 * the cluster rises in the middle of it (upgrade in raft/cluster/membership.h).
 *
 * The happy path: sim_upgrade_event() ends a node, which comes back with a newer leafd, or with an
 * older one; or asks a node to raise the level. What must hold is in sim_level.h.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_UPGRADE_H
#define LEAFD_SIM_SIM_UPGRADE_H

#include "cluster-tests/sim/sim_world.h"

void sim_upgrade_event(struct sim_world *world);
/* The node ends because its leafd is too old, and comes back with one that is not. */
void sim_upgrade_end_node(struct sim_node *node);

/* The quiet end begins: all get the newest leafd; and then the level is the highest. */
void sim_upgrade_begin_final(struct sim_world *world);
bool sim_upgrade_settled(const struct sim_world *world);

#endif
