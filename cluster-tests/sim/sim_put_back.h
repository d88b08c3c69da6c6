/*
 * sim_put_back.h - copies of disks are put back, and the cluster must notice.
 *
 * The happy path: in some runs, sim_put_back_keep() takes copies of the disks of some nodes in the
 * middle of the faults, of at most all but one. In the calm sim_put_back_note() looks what those
 * nodes promise by then, and some time later, when all others must know, sim_put_back_strike() ends
 * them, and perhaps all others as well, puts the copies in the place of their disks, starts some of
 * them a few times where they reach nobody, and then all. sim_put_back_check() demands that each
 * copy was refused, that nobody else was, and that nobody leads whom a majority of copies would
 * have to follow; then it puts the newest disks back, with which everything must go on as if
 * nothing had been. Where the state alone can tell, since every copied node was started since, the
 * others may have forgotten what they knew of their peers themselves, as one that has just joined.
 *
 * Failure: sim_fail(). Thread: one.
 */
#ifndef LEAFD_SIM_SIM_PUT_BACK_H
#define LEAFD_SIM_SIM_PUT_BACK_H

#include "cluster-tests/sim/sim_world.h"

void sim_put_back_keep(struct sim_world *world);
void sim_put_back_note(struct sim_world *world);
/* False: there are no copies, or one of which nobody could tell. */
bool sim_put_back_strike(struct sim_world *world);
void sim_put_back_check(struct sim_world *world);

#endif
