/*
 * sim_fault.h - what goes wrong: crashes, cuts, losses, slow and full disks, stopped processes,
 * clocks that people set, leadership handed over under load, and strikes at the worst moment.
 *
 * The happy path of a fault: it is drawn in sim_fault_event(), lasts until another draw heals it,
 * and in any case until sim_fault_end().
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_FAULT_H
#define LEAFD_SIM_SIM_FAULT_H

#include "cluster-tests/sim/sim_world.h"

void sim_fault_event(struct sim_world *world);
/* Its clock is set wrong. */
void sim_fault_clock(struct sim_node *node);
void sim_fault_alone(struct sim_node *node);
/* The process is stopped, as by SIGSTOP. */
void sim_fault_pause(struct sim_node *node, uint64_t for_ms);
/* As often as not: what is wrong now lasts until then, and nothing else goes wrong. */
void sim_fault_keep_quiet(struct sim_world *world, uint64_t until_ms);
/* A frame leaves a node: the worst moment to die is now. */
void sim_fault_sent(struct sim_node *node, uint64_t to, enum frame_type type,
                    const struct buf *payload);
/* Its leadership is given away, or was none. */
void sim_fault_handed_over(struct sim_node *node);
/* Has it given its segments back? Then it stops. */
void sim_fault_given_back(struct sim_node *node);
/* Crash it, or stop it, and have it come back. */
void sim_fault_end_node(struct sim_node *node);
/* No fault goes on any longer; what is down stays down. */
void sim_fault_end(struct sim_world *world);

#endif
