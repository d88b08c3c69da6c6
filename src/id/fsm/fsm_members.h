/*
 * fsm_members.h - what the state machine knows of nodes: the change of the membership under way
 * (member.h), the node ids that were removed, and what each node has reported of itself.
 *
 * The happy path: COMMAND_MEMBER_BEGIN makes the row of the change; of each configuration that is
 * applied fsm_configured() removes the ids that went, each of which is a row of its own from then
 * on, and fsm_members_reached() takes the row of the change away once its goal is reached.
 *
 * Failure modes: a change that does not fit the state is refused and changes nothing. A row that no
 * apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the entry decide.
 */
#ifndef LEAFD_ID_FSM_FSM_MEMBERS_H
#define LEAFD_ID_FSM_FSM_MEMBERS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_journal.h"
#include "src/id/fsm/node_set.h"

struct fsm_members {
    struct fsm_journal *journal;
    struct member_change change; /* kind 0: none */
    struct node_set removed;
    struct node_info *infos; /* in no order; as many as there ever were nodes */
    size_t info_count;
    size_t info_capacity;
};

void fsm_members_init(struct fsm_members *members, struct fsm_journal *journal);
void fsm_members_clear(struct fsm_members *members);

/* COMMAND_MEMBER_BEGIN of the entry at index: 0, ERR_REMOVED or ERR_EXISTS. */
int fsm_members_begin(struct fsm_members *members, const struct member_change *change,
                      uint64_t index) MUST_CHECK;
/* COMMAND_MEMBER_END of the change that the entry at index began: 0 or ERR_NOT_FOUND. */
int fsm_members_end(struct fsm_members *members, uint64_t index, bool given_up) MUST_CHECK;

/* This node is no member any more, and never will be again. */
void fsm_members_remove(struct fsm_members *members, uint64_t node_id);
/* These are the members now: forget the change if that is its goal. */
void fsm_members_reached(struct fsm_members *members, const struct member *now, size_t count);

/* What the node has reported; NULL: it never did. Borrowed until the next report. */
const struct node_info *fsm_members_info(const struct fsm_members *members, uint64_t node_id);
/* COMMAND_NODE_INFO: its row changes only if something differs. */
void fsm_members_report(struct fsm_members *members, const struct node_info *info);

/* Rows of the tables MEMBERS, REMOVED and NODES. */
int fsm_members_load(struct fsm_members *members, const struct fsm_loaded *row) MUST_CHECK;

#endif
