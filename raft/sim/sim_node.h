/*
 * sim_node.h - a node's life: start from what its disk holds, crash or stop, start again.
 *
 * Thread: one.
 */
#ifndef LEAFD_RAFT_SIM_SIM_NODE_H
#define LEAFD_RAFT_SIM_SIM_NODE_H

#include "raft/sim/sim_world.h"

void sim_node_init(struct sim_world *world, unsigned n);
void sim_node_start(struct sim_node *node);
void sim_node_crash(struct sim_node *node);
/* As the process does when it is told to: everything that is queued is written. */
void sim_node_stop(struct sim_node *node);
void sim_node_free(struct sim_node *node);

#endif
