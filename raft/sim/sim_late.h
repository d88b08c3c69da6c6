/*
 * sim_late.h - answers to requests for segments that are held back, so that some come after the
 * allocator has given them up and asked anew: what they bring must be burnt.
 *
 * The happy path: propose() passes on to the replica; of the answers one in a while is put aside
 * and told by a SIM_LATE event. All are told before the node ends.
 *
 * Thread: one.
 */
#ifndef LEAFD_RAFT_SIM_SIM_LATE_H
#define LEAFD_RAFT_SIM_SIM_LATE_H

#include "raft/sim/sim_world.h"

void sim_late_start(struct sim_node *node);
void sim_late_event(struct sim_node *node);
void sim_late_flush(struct sim_node *node);

#endif
