/*
 * sim_node.h - incarnations of a node: start from what its disk holds, crash or stop, start again.
 *
 * Of the answers to its requests for segments one in a while is held back and told by a SIM_LATE
 * event, so that some come after the allocator has given them up and asked anew: what they bring
 * must be burnt. All are told before the node ends.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_NODE_H
#define LEAFD_SIM_SIM_NODE_H

#include "cluster-tests/sim/sim_world.h"

void sim_node_init(struct sim_world *world, unsigned n);
void sim_node_start(struct sim_node *node);
/* From now until a time of the world its monotonic clock goes so many times slower. */
void sim_node_slow(struct sim_node *node, uint64_t until_ms, unsigned by);
/* The time of the world at which its monotonic clock will show this. */
uint64_t sim_node_world_ms(const struct sim_node *node, uint64_t clock_ms);
/* The first answer that was held back is told. */
void sim_node_late(struct sim_node *node);
void sim_node_crash(struct sim_node *node);
/* As the process does when it is told to: everything that is queued is written. */
void sim_node_stop(struct sim_node *node);
/* One or the other. */
void sim_node_end(struct sim_node *node);
void sim_node_free(struct sim_node *node);

#endif
