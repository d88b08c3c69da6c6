/*
 * fsm_birth.h - the birth of the cluster: a row of the table of settings, written once and for
 * good.
 *
 * The happy path: the first COMMAND_BIRTH of the log writes it. A leader that was elected before
 * that one was applied has proposed another, which changes nothing.
 *
 * Failure modes: a row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_BIRTH_H
#define LEAFD_ID_FSM_FSM_BIRTH_H

#include "src/id/codec/birth.h"
#include "src/id/fsm/fsm_journal.h"

/* The name of the setting, behind the table in its key. */
#define FSM_SETTING_BIRTH "birth"

struct fsm_birth {
    struct fsm_journal *journal;
    struct birth birth; /* without a uid: none yet */
};

void fsm_birth_init(struct fsm_birth *table, struct fsm_journal *journal);

/* Append the value of the row, for who makes a state out of another. */
void fsm_birth_value(const struct birth *birth, struct buf *out);

/* 0, or ERR_EXISTS: there is one already, which holds. */
int fsm_birth_apply(struct fsm_birth *table, const struct birth *birth);

/* The row as fsm_load_row() gets it. */
int fsm_birth_load(struct fsm_birth *table, const struct fsm_loaded *row) MUST_CHECK;

#endif
