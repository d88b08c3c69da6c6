/*
 * fsm_settings.h - the settings that the log fixes or moves: the snowflake layout and the log's
 * time.
 *
 * The happy path: the first COMMAND_LAYOUT sets the layout for good; every COMMAND_CLOCK above the
 * log's time moves it up. Each setting is a row of its own in the table of settings.
 *
 * Failure modes: a layout that breaks a rule, or differs from the one in force, is refused and
 * changes nothing. A row that no apply can have made is ERR_CORRUPT; a setting of another name,
 * ERR_NEWER.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_SETTINGS_H
#define LEAFD_ID_FSM_FSM_SETTINGS_H

#include "src/id/fsm/fsm_journal.h"

struct fsm_settings {
    struct fsm_journal *journal;
    bool has_layout;
    struct snowflake_layout layout;
    uint64_t log_ms; /* the log's time, 0: none yet */
};

void fsm_settings_init(struct fsm_settings *settings, struct fsm_journal *journal);

/* 0 (also for the layout in force), ERR_EXISTS (another one is in force) or ERR_INVALID. */
int fsm_settings_layout(struct fsm_settings *settings,
                        const struct snowflake_layout *layout) MUST_CHECK;
void fsm_settings_clock(struct fsm_settings *settings, uint64_t cluster_ms);

/* The names of the settings, behind the table in their keys. */
#define FSM_SETTING_LAYOUT "layout"
#define FSM_SETTING_TIME "time"

/* Append the value of the row of the log's time (at most the highest that can be), for who makes a
 * state out of another. */
void fsm_settings_time_value(uint64_t log_ms, struct buf *out);

/* A row as fsm_load_row() gets it. */
int fsm_settings_load(struct fsm_settings *settings, const struct fsm_loaded *row) MUST_CHECK;
/* Tell the listener of the layout, if there is one. */
void fsm_settings_tell(const struct fsm_settings *settings);

#endif
