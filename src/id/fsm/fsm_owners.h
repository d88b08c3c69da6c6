/*
 * fsm_owners.h - how much the tags of each client count, by tag_share_bytes(): those that it made,
 * or made larger, deleted ones too.
 *
 * The happy path: who changes a tag in what it counts, or for whom, takes it out before and enters
 * it after; fsm_owners_held() says what the client holds. It is counted from the rows, so it is the
 * same on all nodes, and behind a snapshot.
 *
 * A deleted tag goes on counting, with less: its row has to stay, since no id of its name may come
 * again. So who makes and deletes tags for ever comes to the end of its own share, and not of the
 * others' memory; a name that is made again takes no room anew.
 *
 * Failure modes: none. Thread: one owner. Deterministic: only the rows decide.
 */
#ifndef LEAFD_ID_FSM_FSM_OWNERS_H
#define LEAFD_ID_FSM_FSM_OWNERS_H

#include "src/base/hash_table.h"
#include "src/id/codec/tag.h"

struct fsm_owners {
    struct hash_table table;
    uint64_t bytes; /* memory of it */
};

void fsm_owners_init(struct fsm_owners *owners);
/* All have left: free what the table takes. */
void fsm_owners_clear(struct fsm_owners *owners);

/* A row counts for its owner, or does no more; without an owner nothing happens. */
void fsm_owners_enter(struct fsm_owners *owners, const struct tag_row *row);
void fsm_owners_leave(struct fsm_owners *owners, const struct tag_row *row);

/* What the tags of this client count. */
uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client);

#endif
