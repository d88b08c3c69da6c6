/*
 * fsm_tables.h - the machine's tables together: for fsm.c, which composes them, and for its
 * tests.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_TABLES_H
#define LEAFD_ID_FSM_FSM_TABLES_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_grants.h"
#include "src/id/fsm/fsm_puts.h"
#include "src/id/fsm/fsm_settings.h"
#include "src/id/fsm/fsm_tags.h"
#include "src/id/fsm/fsm_workers.h"
#include "src/state/machine.h"

/* A large put that was judged before its turn to be applied. */
struct fsm_foreseen {
    struct puts_judged *judged; /* NULL: none */
    uint64_t index;
    const void *data;
    size_t len;
    uint64_t digest; /* of the state that it was judged in */
};

struct fsm {
    struct machine machine;
    struct fsm_listener *listener; /* NULL: none */
    struct command command;        /* that was read last; its bytes, borrowed: */
    const void *data;
    size_t len;
    struct fsm_foreseen foreseen;
    struct fsm_tags tags;
    struct fsm_recalls recalls;
    struct fsm_keys keys;
    struct fsm_settings settings;
    struct fsm_layouts layouts;
    struct fsm_workers workers;
};

#endif
