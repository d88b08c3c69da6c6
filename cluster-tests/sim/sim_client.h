/*
 * sim_client.h - what people do to the cluster: take ids on any node, change and read tags.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_CLIENT_H
#define LEAFD_SIM_SIM_CLIENT_H

#include "cluster-tests/sim/sim_world.h"

void sim_client_event(struct sim_world *world);
/* Somebody makes or changes this one of the shared tags. */
void sim_client_put(struct sim_node *node, unsigned tag);
void sim_admin_event(struct sim_world *world);
/* A change through every node; true when all were acknowledged. */
void sim_client_begin_final(struct sim_world *world);
bool sim_client_final_done(const struct sim_world *world);

#endif
