/*
 * fsm_puts.h - tags that are made, changed and deleted.
 *
 * The happy path of a put: check that no name stands twice, merge and check every item against its
 * row, and only then change the rows. Of a delete: the row becomes a tombstone.
 *
 * Failure modes go into the result, and then nothing was changed.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_PUTS_H
#define LEAFD_ID_FSM_FSM_PUTS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_recalls.h"

/* level: that in force. From 3 on only force raises a max_id by more than LIMIT_MAX_ID_JUMP, or so
 * that fewer than LIMIT_MAX_ID_LEFT ids are left: ERR_NEEDS_FORCE. */
void fsm_puts_apply(struct fsm_recalls *recalls, struct command_list *command, uint16_t level,
                    struct buf *result);
/* 0 or ERR_UNKNOWN_TAG. */
int fsm_puts_delete(struct fsm_recalls *recalls, const struct delete_command *command) MUST_CHECK;

#endif
