/*
 * sim_store.h - the store of a simulated node: in memory, or in LMDB as in leafd.
 *
 * Which one makes no difference to a run: both take the same operations and give back the same, so
 * a seed tells the same story on either. That is what the second run of some seeds looks at
 * (sim_main.c). The store on LMDB keeps what it committed from one incarnation of a node to the
 * next in a directory of the node's own, and every start checks it whole and reads it anew; a crash
 * closes it as a kill would, without a word to the disk. (Loss of power is the business of
 * storage/lmdb/tests/test_power.c.)
 *
 * The directory is made below /dev/shm where there is one: syncs are free there, and a seed makes
 * thousands of commits.
 *
 * Failure modes: a store that cannot be opened fails the seed. Thread: one.
 */
#ifndef LEAFD_SIM_SIM_STORE_H
#define LEAFD_SIM_SIM_STORE_H

#include "cluster-tests/sim/sim_world.h"

void sim_store_init(struct sim_node *node);
/* Before each start; the store is the one that was closed. */
void sim_store_open(struct sim_node *node);
/* The node is gone; what was committed stays. */
void sim_store_close(struct sim_node *node);
/* While it is closed: one operation more. */
void sim_store_write(struct sim_node *node, struct store_op *op);
void sim_store_free(struct sim_node *node);

/* Keep a copy of the node's disk as it is now, in the place of an earlier one; and put it back
 * while the node is down, as often as one likes. */
enum sim_copy { SIM_COPY_OLDER, SIM_COPY_NEWEST, SIM_COPIES };
void sim_store_keep(struct sim_node *node, enum sim_copy copy);
void sim_store_put_back(struct sim_node *node, enum sim_copy copy);

/* A directory for the stores of one run; remove takes all in it along. */
void sim_store_dir_make(char dir[SIM_STORE_DIR_BYTES]);
void sim_store_dir_remove(const char *dir);

#endif
