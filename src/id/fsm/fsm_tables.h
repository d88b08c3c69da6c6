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
#include "src/id/fsm/fsm_layouts.h"
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

/* And of those commands' own entries so many are remembered for longer. */
#define FSM_DIGEST_CHECKS 64

struct fsm_digest_mark {
    uint64_t index; /* 0: none */
    uint64_t digest;
};

/* A large put that was judged before its turn to be applied. */
struct fsm_foreseen {
    struct puts_judged *judged; /* NULL: none */
    uint64_t index;
    const void *data;
    size_t len;
    uint64_t digest; /* of the state that it was judged in */
};

struct fsm {
    struct fsm_journal journal;
    struct fsm_foreseen foreseen;
    struct fsm_tags tags;
    struct fsm_recalls recalls;
    struct fsm_keys keys;
    struct fsm_settings settings;
    struct fsm_layouts layouts;
    struct fsm_birth birth;
    struct fsm_level level;
    struct fsm_workers workers;
    struct fsm_sessions sessions;
    struct fsm_members members;
    struct fsm_addresses addresses;
    struct fsm_digest_mark marks[FSM_DIGEST_MARKS]; /* at index % FSM_DIGEST_MARKS */
    struct fsm_digest_mark checks[FSM_DIGEST_CHECKS];
    unsigned check_count; /* the next one takes the place of this one, modulo their number */
};

#endif
