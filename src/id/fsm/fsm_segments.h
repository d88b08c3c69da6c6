/*
 * fsm_segments.h - segments that are granted to nodes, and given back.
 *
 * The happy path of a grant: item by item, each takes [max_id, max_id + n) and moves max_id up. Of
 * a range given back: it must be the topmost, of this generation, and then max_id is its first id
 * again.
 *
 * Failure modes: of an item, into its result; each of them stands for itself.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_SEGMENTS_H
#define LEAFD_ID_FSM_FSM_SEGMENTS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_recalls.h"

/* The node becomes a segment holder. */
void fsm_segments_grant(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *command,
                        struct buf *result);
void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command,
                            struct buf *result);

#endif
