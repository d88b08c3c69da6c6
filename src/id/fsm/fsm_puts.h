/*
 * fsm_puts.h - tags that are made, changed and deleted.
 *
 * The happy path of a put: it is judged, that is, no name stands twice, and every item is merged
 * and checked against its row; only then are the rows changed. Of a delete: the row becomes a
 * tombstone.
 *
 * Failure modes go into the result, and then nothing was changed.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_PUTS_H
#define LEAFD_ID_FSM_FSM_PUTS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_recalls.h"

struct puts_judged;

/* What a put will do; changes nothing. Good as long as no row changes, and the command stays where
 * it is. Only force raises a max_id by more than LIMIT_MAX_ID_JUMP, or so that fewer than
 * LIMIT_MAX_ID_LEFT ids are left (ERR_NEEDS_FORCE), but a dump's of a name that never was. What a
 * client makes, or makes larger, counts for it, and not above command.most (ERR_SHARE). */
struct puts_judged *fsm_puts_judge(struct fsm_recalls *recalls, struct command_list command);
/* NULL-safe. */
void fsm_puts_drop(struct puts_judged *judged);

/* Do that. */
void fsm_puts_apply(struct fsm_recalls *recalls, struct command_list *command,
                    struct puts_judged *judged, struct buf *result);
/* 0 or ERR_UNKNOWN_TAG. */
int fsm_puts_delete(struct fsm_recalls *recalls, const struct delete_command *command) MUST_CHECK;

#endif
