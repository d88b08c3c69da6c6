/*
 * sim_member.h - the membership changes while everything else goes wrong: nodes join, are added,
 * removed, die for good and are replaced, leadership is moved; and what must hold about it.
 *
 * The happy path: sim_member_event() asks a random node for a change, as an operator does. A new
 * node asks the cluster to let it join (sim_member_join()), starts with an empty disk, and is
 * caught up. A removed one is told so when it dials a member, and ends.
 *
 * Checked here: an id that was removed is in no later configuration and never leads a later term;
 * every configuration follows from the one before by one server; nobody votes before it had caught
 * up; no node holds an applied configuration for pending; what an operator was told is so.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_MEMBER_H
#define LEAFD_SIM_SIM_MEMBER_H

#include "cluster-tests/sim/sim_world.h"

void sim_member_event(struct sim_world *world);
void sim_member_join(struct sim_node *node);
void sim_member_told(struct sim_node *node);
/* After each turn. */
void sim_member_check(struct sim_node *node);
/* All changes are over, and everybody knows. */
bool sim_member_settled(const struct sim_world *world);
void sim_member_end(struct sim_world *world);

#endif
