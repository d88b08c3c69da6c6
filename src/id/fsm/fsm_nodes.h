/*
 * fsm_nodes.h - what nodes have reported of themselves: address, version, store id.
 *
 * The happy path: COMMAND_NODE_INFO of a node puts its row, which changes only if something
 * differs.
 *
 * Failure modes: a row that no apply can have made is ERR_CORRUPT. Thread: one owner.
 * Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_NODES_H
#define LEAFD_ID_FSM_FSM_NODES_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_journal.h"

struct fsm_nodes {
    struct fsm_journal *journal;
    struct node_info *items; /* in no order; as many as there ever were nodes */
    size_t count;
    size_t capacity;
};

void fsm_nodes_init(struct fsm_nodes *nodes, struct fsm_journal *journal);
void fsm_nodes_clear(struct fsm_nodes *nodes);

/* NULL: it never did. Borrowed until the next put. */
const struct node_info *fsm_nodes_find(const struct fsm_nodes *nodes, uint64_t node_id);
void fsm_nodes_put(struct fsm_nodes *nodes, const struct node_info *info);

/* A row as fsm_load_row() gets it. */
int fsm_nodes_load(struct fsm_nodes *nodes, const uint8_t *key, size_t key_len, const void *value,
                   size_t value_len) MUST_CHECK;

#endif
