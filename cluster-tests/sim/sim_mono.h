/*
 * sim_mono.h - who asks for monotonic ids in the simulation, and leaders that are kept from hearing
 * of the next one: what a monotonic tag promises rests on a leader that finds out, before each
 * answer, that it still leads (docs/monotonic.md). What must hold is in sim_strict.h.
 *
 * The happy path of a leader in the dark: its process gets few turns, so that it does not step down
 * for a while; what it sends is lost, and what the others send it comes late, or not at all, or it
 * has some of them on its side; the rest elect another leader. Clients go on asking both.
 *
 * Only in runs of a level that has monotonic tags (sim_level.h).
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_MONO_H
#define LEAFD_SIM_SIM_MONO_H

#include "cluster-tests/sim/sim_world.h"

/* Somebody wants ids, as often as not of a node that takes itself for the leader. */
void sim_mono_event(struct sim_world *world);
/* A leader is kept in the dark, or stopped, or deposed. */
void sim_mono_stale(struct sim_world *world);
/* The node had a turn: a leader that has just ceased to be a voter is kept in the dark, with one
 * voter on its side. */
void sim_mono_turned(struct sim_node *node);

#endif
