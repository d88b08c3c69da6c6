/*
 * sim_check.h - the invariants, checked after every turn and at the end.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_CHECK_H
#define LEAFD_SIM_SIM_CHECK_H

#include "cluster-tests/sim/sim_world.h"

void sim_check_init(struct sim_world *world);
void sim_check_free(struct sim_world *world);
void sim_check_ids(struct sim_node *node, unsigned tag, uint32_t generation,
                   const struct segment_range *range);
/* From now on the node may hand out no id of the tag below max_id. */
void sim_check_raised(struct sim_node *node, unsigned tag, uint64_t max_id);
/* No id twice, over all nodes and both modes. */
void sim_check_once(struct sim_world *world, unsigned tag, uint32_t generation,
                    const struct segment_range *range);
/* The node's incarnation begins: what its rows say now. */
void sim_check_incarnation(struct sim_node *node);
/* A row changed on a node. */
void sim_check_row(struct sim_node *node, const struct tag_row *row);
/* A node proposes this command: ranges that it gives back may come back, once each. */
void sim_check_offered(struct sim_world *world, const void *command, size_t len);
/* The newest epoch of a tag. */
struct sim_epoch *sim_check_epoch(struct sim_tag *tag);
void sim_check_flakes(struct sim_node *node, unsigned layout, const struct segment_range *range);
/* The name of a bulk's tag; its length. */
#define SIM_BULK_NAME_BYTES 16
size_t sim_bulk_name(unsigned tag, char name[SIM_BULK_NAME_BYTES]);
void sim_check_node(struct sim_node *node);
void sim_check_end(struct sim_world *world);

#endif
