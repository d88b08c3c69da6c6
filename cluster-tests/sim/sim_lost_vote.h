/*
 * sim_lost_vote.h - a disk that said "synced", and lost a vote.
 *
 * The happy path: a node has granted its vote, for all anybody knows durably, and its candidate is
 * about to be alone: sim_lost_vote_wanted() says whether this is the one of the run whose disk
 * forgets it. When the node ends, sim_lost_vote_ended() puts the term and the vote of before back
 * on the disk. It must not give the vote to another candidate (rollback.h): there would be two
 * leaders in a term, which sim_check.c looks for. Whoever knows of the vote refuses the node, and
 * rightly so: it then is as good as dead (sim_lost_vote_refused()), and a majority lives without
 * it.
 *
 * Failure: sim_fail(). Thread: one.
 */
#ifndef LEAFD_SIM_SIM_LOST_VOTE_H
#define LEAFD_SIM_SIM_LOST_VOTE_H

#include "cluster-tests/sim/sim_world.h"

#define SIM_LOST_VOTE_ALONE_MS 1500 /* the candidate: longer than an election takes */

bool sim_lost_vote_wanted(struct sim_node *node);
void sim_lost_vote_ended(struct sim_node *node);

/* A node hears that its disk is an older copy, and ends. */
void sim_lost_vote_refused(struct sim_node *node);

#endif
