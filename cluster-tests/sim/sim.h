/*
 * sim.h - a whole cluster in one thread on virtual time: the same replica, driver, codec, state
 * machine, allocator and segments as in leafd, on a virtual net, disk and clock, with faults drawn
 * from a seed.
 *
 * The happy path: sim_run(seed) starts the nodes, lets clients take ids and change tags while
 * faults come and go, then heals everything and demands progress and agreement. Every random choice
 * comes from the one generator of the world, so a seed replays exactly.
 *
 * What is checked (sim_check.c): no id handed out twice; ids rise on one node; equal digest at
 * equal index; one leader a term; term never goes back on a disk, commit and applied index never in
 * an incarnation; linearizable reads see acknowledged changes; nothing acknowledged is lost;
 * progress after the faults end; and the same seed tells the same story twice, in memory and on
 * LMDB (sim_main.c).
 *
 * Failure: sim_fail().
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_H
#define LEAFD_SIM_SIM_H

#include "cluster-tests/sim/sim_world.h"

/* Run one seed; returns only if all held. store_dir: an empty directory for stores on LMDB, NULL
 * for stores in memory; the story is the same. */
void sim_run(uint64_t seed, bool verbose, const char *store_dir, struct sim_stats *ret_stats);

/* The same with counters in place of ids (sim_counter.h), and fewer kinds of faults: the members,
 * and their levels, stay. */
void sim_run_counter(uint64_t seed, bool verbose, const char *store_dir,
                     struct sim_stats *ret_stats);

#endif
