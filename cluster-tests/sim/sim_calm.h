/*
 * sim_calm.h - a majority is enough: while one leader and a majority of the voters can work, no
 * request at that leader is left without an answer, nor at a node that reaches it, if only through
 * one of those voters, whatever is broken elsewhere. And a leader that hears nobody is replaced.
 *
 * The happy path: sim_calm_look() is called again and again, and notes since when the same leader
 * leads with the same voters, all of them and their links in order, and since when each node
 * reaches it. A request that waited there through such a time and still timed out is a failure. It
 * needs no healing to show, so it finds what the quiet end hides, where all nodes come back and set
 * going again what was stuck.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_CALM_H
#define LEAFD_SIM_SIM_CALM_H

#include "cluster-tests/sim/sim_world.h"

void sim_calm_look(struct sim_world *world);
/* A request of so much patience that came to this node got ERR_TIMEOUT or ERR_NO_LEADER. */
void sim_calm_timed_out(struct sim_node *node, int status, const char *what);

#endif
