/*
 * sim_disk.h - a disk on virtual time over the store in memory: group commits that take a while,
 * and a crash that loses what was not committed.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_DISK_H
#define LEAFD_SIM_SIM_DISK_H

#include "cluster-tests/sim/sim_world.h"

void sim_disk_init(struct sim_disk *disk, struct sim_node *node);
void sim_disk_event(struct sim_disk *disk);
/* The node died: what was not committed is lost, but the commit under way may have made it. */
void sim_disk_crash(struct sim_disk *disk);
/* Write everything, at once. */
void sim_disk_flush(struct sim_disk *disk);

#endif
