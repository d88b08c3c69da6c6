/*
 * fsm_settings.h - the snowflake layout that the log fixes, and the log's time as far as ids go by
 * it.
 *
 * The happy path: the first COMMAND_LAYOUT sets the layout for good, in a row of the table of
 * settings. The time is the state's (facts.h), which tells it to the machine.
 *
 * Failure modes: a layout that breaks a rule, or differs from the one in force, is refused and
 * changes nothing. A row that no apply can have made is ERR_CORRUPT; a setting of another name,
 * ERR_NEWER.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_SETTINGS_H
#define LEAFD_ID_FSM_FSM_SETTINGS_H

#include "src/id/fsm/fsm_rows.h"

struct fsm_settings {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    bool has_layout;
    struct snowflake_layout layout;
    uint64_t log_ms; /* the log's time as the state told it last, 0: none yet */
};

void fsm_settings_init(struct fsm_settings *settings, struct journal *journal,
                       struct fsm_listener *const *listener);

/* 0 (also for the layout in force), ERR_EXISTS (another one is in force) or ERR_INVALID. */
int fsm_settings_layout(struct fsm_settings *settings,
                        const struct snowflake_layout *layout) MUST_CHECK;

/* The name of the setting, behind the table in its key. */
#define FSM_SETTING_LAYOUT "layout"

/* A row as state_load_row() gets it. */
int fsm_settings_load(struct fsm_settings *settings, const struct row_loaded *row) MUST_CHECK;
/* Tell the listener of the layout, if there is one. */
void fsm_settings_tell(const struct fsm_settings *settings);

#endif
