/*
 * fsm_owners.h - how much each client holds of one thing: keys, or what its tags count.
 *
 * The happy path: fsm_owners_enter() when something of a client comes, fsm_owners_leave() when it
 * goes, fsm_owners_held() for what there is. It is counted from the rows, so it is the same on all
 * nodes, and behind a snapshot.
 *
 * Failure modes: none. Thread: one owner. Deterministic: only the rows decide.
 */
#ifndef LEAFD_ID_FSM_FSM_OWNERS_H
#define LEAFD_ID_FSM_FSM_OWNERS_H

#include "src/base/hash.h"

/* A client that holds something. */
struct fsm_owner {
    struct hash_link link;
    uint64_t client; /* > 0 */
    uint64_t held;   /* > 0 */
    uint32_t hash;
};

struct fsm_owners {
    struct hash_table table;
    uint64_t bytes; /* memory of all, with their buckets */
};

void fsm_owners_init(struct fsm_owners *owners);
/* All have left: free what the table takes. */
void fsm_owners_clear(struct fsm_owners *owners);

/* The client holds so much more, > 0; it stays where it is until it holds nothing. client 0: it is
 * nobody's, NULL. */
struct fsm_owner *fsm_owners_enter(struct fsm_owners *owners, uint64_t client, uint64_t amount);
/* And so much less; NULL: nobody. */
void fsm_owners_leave(struct fsm_owners *owners, struct fsm_owner *owner, uint64_t amount);

/* NULL: it holds nothing, or is nobody. */
struct fsm_owner *fsm_owners_find(const struct fsm_owners *owners, uint64_t client);
uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client);

#endif
