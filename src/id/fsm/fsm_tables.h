/*
 * fsm_tables.h - the state machine's tables together: for fsm.c, which composes them, and for its
 * tests.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_TABLES_H
#define LEAFD_ID_FSM_FSM_TABLES_H

#include "src/id/fsm/fsm_addresses.h"
#include "src/id/fsm/fsm_birth.h"
#include "src/id/fsm/fsm_journal.h"
#include "src/id/fsm/fsm_keys.h"
#include "src/id/fsm/fsm_level.h"
#include "src/id/fsm/fsm_members.h"
#include "src/id/fsm/fsm_recalls.h"
#include "src/id/fsm/fsm_sessions.h"
#include "src/id/fsm/fsm_settings.h"
#include "src/id/fsm/fsm_tags.h"
#include "src/id/fsm/fsm_workers.h"

/* Entries whose digest is remembered, for COMMAND_DIGEST: that names the applied index of its
 * proposer, and all that was appended and not applied there stands between the two. */
#define FSM_DIGEST_MARKS 8192
_Static_assert(FSM_DIGEST_MARKS >= 2 * LIMIT_UNCOMMITTED_ENTRIES, "also where apply is behind");

struct fsm_digest_mark {
    uint64_t index; /* 0: none */
    uint64_t digest;
};

struct fsm {
    struct fsm_journal journal;
    struct fsm_tags tags;
    struct fsm_recalls recalls;
    struct fsm_keys keys;
    struct fsm_settings settings;
    struct fsm_birth birth;
    struct fsm_level level;
    struct fsm_workers workers;
    struct fsm_sessions sessions;
    struct fsm_members members;
    struct fsm_addresses addresses;
    struct fsm_digest_mark marks[FSM_DIGEST_MARKS]; /* at index % FSM_DIGEST_MARKS */
};

#endif
