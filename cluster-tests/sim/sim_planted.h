/*
 * sim_planted.h - the state of one node is another than the others': a row that was changed on its
 * disk, with a checksum that is right, as memory that flips a bit before it is written leaves it.
 *
 * The happy path: in some runs, sim_planted_strike() ends a node in the calm, changes a tag's row
 * on its disk, and starts it again; sim_planted_check(), when all must have compared their digests,
 * demands that this node ended with ERR_DIVERGED, and no other one did. It is dead for good then,
 * and to be removed. What was changed does not decide which ids are given, so that those who were
 * answered by the node meanwhile have nothing wrong.
 *
 * Failure: sim_fail(). Thread: one.
 */
#ifndef LEAFD_SIM_SIM_PLANTED_H
#define LEAFD_SIM_SIM_PLANTED_H

#include "cluster-tests/sim/sim_world.h"

/* False: not in this run, or no node can be spared. */
bool sim_planted_strike(struct sim_world *world);

void sim_planted_check(struct sim_world *world);

#endif
