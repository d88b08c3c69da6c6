/*
 * sim_level.h - nodes run leafds of different ages, which sim_upgrade.h exchanges: what each
 * speaks, and what must hold about it.
 *
 * The happy path: a node starts with the levels that sim_level_of() says. One whose leafd turns out
 * to be too old, because it went back after it had said that it speaks the next level, ends before
 * the entry (sim_level_too_old()), and comes back with a newer one.
 *
 * Checked here: no node applies a level that its leafd does not speak; and none is too old but one
 * that had run a leafd of that level before, or has not run yet.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_LEVEL_H
#define LEAFD_SIM_SIM_LEVEL_H

#include "cluster-tests/sim/sim_world.h"

/* What the nodes run, and when levels rise, drawn from the seed. */
void sim_level_init(struct sim_world *world);
/* The newest level that a node's first leafd speaks, drawn from the seed. */
uint16_t sim_level_first(struct sim_world *world);
/* A node that is about to start. */
struct level_range sim_level_of(struct sim_node *node);
struct upgrade_config sim_level_config(const struct sim_world *world);

/* The node's leafd is too old for this level: it is to end, and comes back with one that is not. */
void sim_level_too_old(struct sim_node *node, uint16_t level);
/* The same, before it has started. */
void sim_level_renew(struct sim_node *node, uint16_t level);
/* Would the handshake of a link between the two fail? Whoever is too old hears so. */
bool sim_level_refuses(struct sim_node *to, struct sim_node *from);
/* After each turn. */
void sim_level_check(struct sim_node *node);

#endif
