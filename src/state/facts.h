/*
 * facts.h - what the log says once of the whole cluster: its birth, the level in force (level.h),
 * and the log's time. Each is a row of its own in the table of settings.
 *
 * The happy path: the first COMMAND_BIRTH of the log writes the birth, for good. (A leader that was
 * elected before that one was applied has proposed another, which changes nothing.) COMMAND_LEVEL
 * names the level in force and one more; from the next entry on that is the level in force, and
 * there is no way down. No row: LEVEL_FIRST. Every COMMAND_CLOCK above the log's time moves it up.
 *
 * Failure modes: a command that names another level than the next changes nothing. One that names a
 * level which this leafd does not speak, or a row of such a level, is ERR_NEWER: the node stops
 * before it. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic, but for the levels that this leafd speaks, which decide only
 * whether it can go on.
 */
#ifndef LEAFD_STATE_FACTS_H
#define LEAFD_STATE_FACTS_H

#include "src/state/codec/cluster_command.h"
#include "src/state/journal.h"

/* The names of the settings, behind the table in their keys. */
#define STATE_SETTING_BIRTH "birth"
#define STATE_SETTING_LEVEL "level"
#define STATE_SETTING_TIME "time"

struct facts {
    struct journal *journal;
    struct level_range speaks; /* of this leafd */
    struct birth birth;        /* without a uid: none yet */
    struct level_row level;    /* level 0: there is no row */
    uint64_t log_ms;           /* the log's time, 0: none yet */
};

void facts_init(struct facts *facts, struct journal *journal, struct level_range speaks);

/* 0, or ERR_EXISTS: there is one already, which holds. */
int facts_birth(struct facts *facts, const struct birth *birth) MUST_CHECK;

/* The level in force. */
uint16_t facts_level(const struct facts *facts);
/* 0 (also for the level in force), or ERR_CONFLICT: it is not the next. */
int facts_raise(struct facts *facts, const struct level_command *command,
                uint64_t index) MUST_CHECK;

void facts_clock(struct facts *facts, uint64_t cluster_ms);

/* A row of the table of settings as state_load_row() gets it; ERR_NOT_FOUND: it is none of these.
 */
int facts_load(struct facts *facts, const struct row_loaded *row) MUST_CHECK;

/* Append the value of such a row, for who makes a state out of another; of a time at most the
 * highest that can be. */
void facts_birth_value(const struct birth *birth, struct buf *out);
void facts_time_value(uint64_t log_ms, struct buf *out);

#endif
