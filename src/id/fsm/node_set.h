/*
 * node_set.h - a set of node ids, in rising order.
 *
 * Failure modes: none; an id beyond LIMIT_NODE_ID is the caller's mistake (ASSERT), but for asking
 * whether it is there. Thread: one owner.
 */
#ifndef LEAFD_ID_FSM_NODE_SET_H
#define LEAFD_ID_FSM_NODE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_set {
    uint16_t *ids; /* rising */
    size_t count;
    size_t capacity;
};

bool node_set_has(const struct node_set *set, uint64_t node_id);
/* False: it was there already. */
bool node_set_add(struct node_set *set, uint64_t node_id);
/* False: it was not there. */
bool node_set_remove(struct node_set *set, uint64_t node_id);
/* to, which is empty, becomes the same. */
void node_set_copy(struct node_set *to, const struct node_set *from);
/* Leaves it empty and usable. */
void node_set_free(struct node_set *set);

#endif
