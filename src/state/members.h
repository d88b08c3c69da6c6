/*
 * members.h - what the state knows of nodes: the change of the membership under way (member.h), the
 * node ids that were removed, what each node has reported of itself, and where members are reached
 * that have moved since they were added.
 *
 * The happy path: COMMAND_MEMBER_BEGIN makes the row of the change; of each configuration that is
 * applied state_configured() removes the ids that went, each of which is a row of its own from then
 * on, and members_reached() takes the row of the change away once its goal is reached.
 *
 * The configuration keeps the address that a member was added with: the consensus core cannot
 * change it. A member that moved has a row here, which holds in its place. A node that starts with
 * another address than it last reported says so with its registration, or an operator does by
 * COMMAND_MEMBER_MOVE; the last of them counts. The row goes with the member.
 *
 * Failure modes: a change that does not fit the state is refused and changes nothing. A row that no
 * apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the entry decide.
 */
#ifndef LEAFD_STATE_MEMBERS_H
#define LEAFD_STATE_MEMBERS_H

#include "src/state/codec/cluster_command.h"
#include "src/state/journal.h"
#include "src/state/node_set.h"

struct members {
    struct journal *journal;
    struct member_change change; /* kind 0: none */
    struct node_set removed;
    struct node_info *infos; /* in no order; as many as there ever were nodes */
    size_t info_count;
    size_t info_capacity;
    struct member_move *moves; /* in no order */
    size_t move_count;
    size_t move_capacity;
    uint64_t move_changes; /* how often one changed since the start; no part of the state */
};

void members_init(struct members *members, struct journal *journal);
void members_clear(struct members *members);

/* COMMAND_MEMBER_BEGIN of the entry at index: 0, ERR_REMOVED or ERR_EXISTS. */
int members_begin(struct members *members, const struct member_change *change,
                  uint64_t index) MUST_CHECK;
/* COMMAND_MEMBER_END of the change that the entry at index began: 0 or ERR_NOT_FOUND. */
int members_end(struct members *members, uint64_t index, bool given_up) MUST_CHECK;

/* This node is no member any more, and never will be again. */
void members_remove(struct members *members, uint64_t node_id);
/* These are the members now: forget the change if that is its goal. */
void members_reached(struct members *members, const struct member *now, size_t count);

/* What the node has reported; NULL: it never did. Borrowed until the next report. */
const struct node_info *members_info(const struct members *members, uint64_t node_id);
/* COMMAND_NODE_INFO: its row changes only if something differs. A node that starts with another
 * address than it had has moved there: that it is this very node its store shows. */
void members_report(struct members *members, const struct node_info *info);

/* COMMAND_MEMBER_MOVE: the member is reached there from now on. 0 or ERR_REMOVED. */
int members_move(struct members *members, const struct member_move *move) MUST_CHECK;
/* It is no member any more. */
void members_move_forget(struct members *members, uint64_t node_id);
/* NULL: where the configuration says. Borrowed until the next change. */
const char *members_address(const struct members *members, uint64_t node_id);

/* Rows of the tables MEMBERS, REMOVED, NODES and ADDRESSES. */
int members_load(struct members *members, const struct row_loaded *row) MUST_CHECK;

#endif
