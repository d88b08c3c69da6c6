/*
 * fsm_layouts.h - the table of named layouts of snowflake ids.
 *
 * The happy path: a COMMAND_LAYOUT_PUT makes a row. It never changes: the same fields once more are
 * fine, and others refused. Deleted, it becomes a tombstone with the same fields, which only the
 * same fields bring back to life: two layouts under one name could give an id twice.
 *
 * Failure modes: a layout that breaks a rule, and one name too many, are refused and change
 * nothing. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_LAYOUTS_H
#define LEAFD_ID_FSM_FSM_LAYOUTS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_rows.h"

struct fsm_layouts {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    uint32_t count;
    struct layout_row rows[LIMIT_LAYOUTS]; /* in the order in which they were made or loaded */
};

void fsm_layouts_init(struct fsm_layouts *layouts, struct journal *journal,
                      struct fsm_listener *const *listener);

/* 0 (also for the one in force), ERR_CONFLICT (the name has other fields), ERR_OVERLOADED
 * (LIMIT_LAYOUTS) or ERR_INVALID. log_ms: the log's time, 0: none yet. */
int fsm_layouts_put(struct fsm_layouts *layouts, const struct layout_row *row,
                    uint64_t log_ms) MUST_CHECK;
/* 0 or ERR_NOT_FOUND, also for one that is deleted. */
int fsm_layouts_delete(struct fsm_layouts *layouts,
                       const struct delete_command *deletion) MUST_CHECK;

/* A row as state_load_row() gets it. */
int fsm_layouts_load(struct fsm_layouts *layouts, const struct row_loaded *row) MUST_CHECK;
/* Tell the listener of all rows. */
void fsm_layouts_tell(const struct fsm_layouts *layouts);

#endif
