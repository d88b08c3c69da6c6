/*
 * sim_strict.h - strict tags in the simulation: clients that ask any node, with and without
 * idempotency keys, and again elsewhere when the outcome is unknown; people who delete a strict tag
 * and make it again, and who change the mode of another one; and what must be true of all ids.
 *
 * Two tags: one is strict as long as it is there, the other one changes its mode, so that it drains
 * and goes back to segments.
 *
 * What is checked at each answer: no id twice, over both modes; an id is greater than every id of
 * its tag that was known anywhere before its request was sent; an id of a segment is greater than
 * every strict id that was known before it was taken (a node that still had one would go back); a
 * key gives the same ids again, or says why not. At the end the whole history is checked
 * (src/history), for density too: what is missing between the ids of a tag must be what requests of
 * unknown outcome have burnt. (Gaps for which that would take too long to decide are counted.)
 *
 * Time in the history is a counter of events: no two are equal.
 *
 * Thread: one.
 */
#ifndef LEAFD_RAFT_SIM_SIM_STRICT_H
#define LEAFD_RAFT_SIM_SIM_STRICT_H

#include "raft/sim/sim_world.h"

void sim_strict_init(struct sim_world *world);
void sim_strict_free(struct sim_world *world);
/* Ask a node for ids of one of the two tags, unless it is one whose ids are to be taken from
 * segments here: then false. */
bool sim_strict_event(struct sim_node *node, unsigned tag);
/* Ids of the changing tag were taken from a segment. */
void sim_strict_trend(struct sim_node *node, unsigned tag, const struct segment_range *range);
/* Both tags give strict ids on this node. */
void sim_strict_begin_final(struct sim_node *node);
bool sim_strict_final_done(const struct sim_world *world);
/* The whole history. */
void sim_strict_check_end(struct sim_world *world);

#endif
