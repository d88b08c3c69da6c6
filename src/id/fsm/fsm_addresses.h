/*
 * fsm_addresses.h - where members are reached that have moved since they were added.
 *
 * The configuration keeps the address that a member was added with: the consensus core cannot
 * change it. A member that moved has a row here, which holds in its place.
 *
 * The happy path: a node that starts with another address than it last reported says so with its
 * registration, or an operator does by COMMAND_MEMBER_MOVE; the last of them counts. The row goes
 * with the member.
 *
 * Failure modes: a row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_ADDRESSES_H
#define LEAFD_ID_FSM_FSM_ADDRESSES_H

#include "src/id/codec/member.h"
#include "src/id/fsm/fsm_journal.h"

struct fsm_addresses {
    struct fsm_journal *journal;
    struct member_move *items; /* in no order */
    size_t count;
    size_t capacity;
    uint64_t changes; /* how often one changed since the start; no part of the state */
};

void fsm_addresses_init(struct fsm_addresses *addresses, struct fsm_journal *journal);
void fsm_addresses_clear(struct fsm_addresses *addresses);

/* The member is reached there from now on. */
void fsm_addresses_set(struct fsm_addresses *addresses, const struct member_move *move);
/* It is no member any more. */
void fsm_addresses_forget(struct fsm_addresses *addresses, uint64_t node_id);
/* NULL: where the configuration says. Borrowed until the next change. */
const char *fsm_addresses_find(const struct fsm_addresses *addresses, uint64_t node_id);

int fsm_addresses_load(struct fsm_addresses *addresses, const struct fsm_loaded *row) MUST_CHECK;

#endif
