/*
 * fsm_level.h - the level in force (level.h): the row that says it, and the command that raises it.
 *
 * The happy path: COMMAND_LEVEL names the level in force and one more; from the next entry on that
 * is the level in force. There is no way down. No row: LEVEL_FIRST.
 *
 * Failure modes: a command that names another level than the next changes nothing. One that names a
 * level which this leafd does not speak, or a row of such a level, is ERR_NEWER: the node stops
 * before it.
 *
 * Thread: one owner. Deterministic, but for what this leafd speaks, which decides only whether it
 * can go on.
 */
#ifndef LEAFD_ID_FSM_FSM_LEVEL_H
#define LEAFD_ID_FSM_FSM_LEVEL_H

#include "src/id/codec/level.h"
#include "src/id/fsm/fsm_journal.h"

/* The name of the setting, behind the table in its key. */
#define FSM_SETTING_LEVEL "level"

struct fsm_level {
    struct fsm_journal *journal;
    struct level_range speaks; /* of this leafd */
    struct level_row row;      /* level 0: there is none */
};

void fsm_level_init(struct fsm_level *level, struct fsm_journal *journal,
                    struct level_range speaks);

/* The level in force. */
uint16_t fsm_level_now(const struct fsm_level *level);

/* 0 (also for the level in force), or ERR_CONFLICT: it is not the next. */
int fsm_level_raise(struct fsm_level *level, const struct level_command *command,
                    uint64_t index) MUST_CHECK;

/* The row as fsm_load_row() gets it; ERR_NEWER. */
int fsm_level_load(struct fsm_level *level, const struct fsm_loaded *row) MUST_CHECK;

#endif
