/*
 * sim_strict.h - tags whose ids rise over all nodes in the simulation: clients that ask any node,
 * with and without idempotency keys, and again elsewhere when the outcome is unknown; people who
 * delete such a tag and make it again, and who change the mode of another one; and what must be
 * true of all ids.
 *
 * Three tags: one is strict as long as it is there; one changes its mode, so that it drains and
 * goes back to segments; and, where the level allows it, one is monotonic, strict now and then, and
 * its max_id is raised by hand (sim_mono.h has who asks for its ids).
 *
 * What is checked at each answer: no id twice, over all modes; an id is greater than every id of
 * its tag that was known anywhere before its request was sent, and not below a max_id that was set
 * by hand before; an id of a segment is greater than every strict or monotonic id that was known
 * before it was taken (a node that still had one would go back); a key gives the same ids again, or
 * says why not. At the end the whole history is checked (history.h), for density too while a tag
 * is strict: what is missing between its ids must be what requests of unknown outcome have burnt.
 * (Gaps for which that would take too long to decide are counted.)
 *
 * Time in the history is a counter of events: no two are equal.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_STRICT_H
#define LEAFD_SIM_SIM_STRICT_H

#include "cluster-tests/sim/sim_world.h"

void sim_strict_init(struct sim_world *world);
void sim_strict_free(struct sim_world *world);
/* Ask a node for ids of one of these tags, unless it is one whose ids are to be taken from segments
 * here: then false. */
bool sim_strict_event(struct sim_node *node, unsigned tag);
/* A node tells what a tag has become. */
void sim_strict_row(struct sim_world *world, const struct tag_row *row);
/* A max_id that was set by hand was acknowledged. */
void sim_strict_raised(struct sim_world *world, unsigned tag, uint64_t max_id);
/* Ids of the changing tag were taken from a segment. */
void sim_strict_trend(struct sim_node *node, unsigned tag, const struct segment_range *range);
/* The tags give ids on this node, the first two strict ones. */
void sim_strict_begin_final(struct sim_node *node);
bool sim_strict_final_done(const struct sim_world *world);
/* The whole history. */
void sim_strict_check_end(struct sim_world *world);

#endif
