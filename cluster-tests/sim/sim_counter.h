/*
 * sim_counter.h - the simulation with another machine than that of ids: counters. What runs well
 * with it owes nothing to what ids are.
 *
 * The machine has a few counters; its one command adds to one of them, and its result is the sum. A
 * query reads one. Clients add and read while everything goes wrong, as in any run.
 *
 * What is checked: no command is carried out twice, or with another result on another node; what is
 * acknowledged was carried out, with that result; each operation sees all that was acknowledged, or
 * read, before it began; at the end all nodes have the sum of what was carried out.
 *
 * Failure: sim_fail(). Thread: one.
 */
#ifndef LEAFD_SIM_SIM_COUNTER_H
#define LEAFD_SIM_SIM_COUNTER_H

#include "cluster-tests/sim/sim_world.h"

/* A run with counters begins: before its nodes. */
void sim_counter_init(struct sim_world *world);

/* What a node of such a run has as its service. */
void sim_counter_node_init(struct sim_node *node);

/* A client adds or reads. */
void sim_counter_event(struct sim_world *world);

/* All is over. */
void sim_counter_check_end(struct sim_world *world);

#endif
