/*
 * node_set.h - a set of node ids, in rising order; and such a set with a row for each id.
 *
 * Failure modes: none; an id beyond LIMIT_NODE_ID is the caller's mistake (ASSERT), but for asking
 * whether it is there. Thread: one owner.
 */
#ifndef LEAFD_STATE_NODE_SET_H
#define LEAFD_STATE_NODE_SET_H

#include "src/state/journal.h"

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

/* The same, and its row of the table goes with it. */
bool node_set_add_row(struct node_set *set, struct journal *journal, uint8_t table,
                      uint64_t node_id);
bool node_set_remove_row(struct node_set *set, struct journal *journal, uint8_t table,
                         uint64_t node_id);
/* 0, ERR_TRUNCATED, ERR_BAD_VERSION, ERR_CORRUPT or ERR_EXISTS. */
int node_set_load_row(struct node_set *set, struct journal *journal,
                      const struct row_loaded *row) MUST_CHECK;

/* to, which is empty, becomes the same. */
void node_set_copy(struct node_set *to, const struct node_set *from);
/* Leaves it empty and usable. */
void node_set_free(struct node_set *set);

#endif
