/*
 * sim_net.h - links on virtual time: delay, loss, reordering, cuts one way or both, and frames that
 * come again with a new connection.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_NET_H
#define LEAFD_SIM_SIM_NET_H

#include "cluster-tests/sim/sim_world.h"

void sim_net_init(struct sim_node *node);
/* A frame arrives. */
void sim_net_event(struct sim_node *to, const struct sim_frame *frame);
/* NULL-safe. */
void sim_net_free_frame(struct sim_frame *frame);
void sim_net_cut(struct sim_world *world, unsigned from, unsigned to, bool cut);
/* As a cut that neither end notices: all frames are lost. */
void sim_net_lose(struct sim_world *world, unsigned from, unsigned to);
/* From and to all others. */
void sim_net_cut_off(struct sim_node *node);
void sim_net_heal(struct sim_world *world);
void sim_net_node_changed(struct sim_node *node, bool up);
/* A node dials another, which may tell it that it was removed. */
void sim_net_dial(struct sim_node *from, struct sim_node *to);
void sim_net_free(struct sim_world *world);

#endif
