/*
 * vote_floor.c - see vote_floor.h. Thread: pure functions, one owner.
 */
#include "raft/core/vote_floor.h"

#include <raft.h>

/* The first start on a directory has nothing to forget. */
static uint64_t floor_of(const struct peer_standing *start)
{
    return start->incarnation >> PEER_INCARNATION_RANDOM_BITS > 1 ? start->term + 1 : 0;
}

void vote_floor_own(struct vote_floor *floor, const struct peer_standing *start)
{
    floor->own = floor_of(start);
    vote_floor_met(floor, start);
}

void vote_floor_met(struct vote_floor *floor, const struct peer_standing *start)
{
    uint64_t theirs = floor_of(start);

    floor->known = theirs > floor->known ? theirs : floor->known;
}

bool vote_floor_drops(const struct vote_floor *floor, const struct raft_message *message)
{
    return message->type == RAFT_REQUEST_VOTE && !message->request_vote.pre_vote &&
           message->request_vote.term <= floor->own;
}

bool vote_floor_covers(const struct vote_floor *floor, uint64_t term)
{
    return term <= floor->known;
}
