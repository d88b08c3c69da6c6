/*
 * leader_watch.c - see leader_watch.h. Thread: the raft loop.
 */
#include "raft/core/leader_watch.h"

#include "raft/core/consensus.h"
#include "raft/core/guard.h"
#include "src/base/assert.h"

#define MISSED_HEARTBEATS 2 /* of a leader whose address refuses connections */

void leader_watch_init(struct leader_watch *watch, struct consensus *consensus,
                       const struct clock *clock)
{
    *watch = (struct leader_watch){
        .consensus = consensus, .clock = clock, .heard_ms = clock_now_ms(clock)};
}

/* The core draws its timeout once, and each message of the leader begins it anew. */
static void restore_timeout(struct leader_watch *watch)
{
    if (watch->drawn_timeout_ms != 0 && watch->consensus->raft.state == RAFT_FOLLOWER) {
        watch->consensus->raft.follower_state.randomized_election_timeout = watch->drawn_timeout_ms;
    }
    watch->drawn_timeout_ms = 0;
}

void leader_watch_heard(struct leader_watch *watch)
{
    watch->heard_ms = clock_now_ms(watch->clock);
    watch->trust = LEADER_TRUSTED;
    restore_timeout(watch);
}

static unsigned patience_ms(const struct leader_watch *watch)
{
    const struct raft *raft = &watch->consensus->raft;
    unsigned missed_ms = MISSED_HEARTBEATS * raft->heartbeat_timeout;

    switch (watch->trust) {
    case LEADER_RESIGNED:
        return 0;
    case LEADER_REFUSED:
        return missed_ms < raft->election_timeout ? missed_ms : raft->election_timeout;
    default:
        return raft->election_timeout;
    }
}

void leader_watch_forget_silent(struct leader_watch *watch)
{
    struct raft *raft = &watch->consensus->raft;

    if (raft->state == RAFT_FOLLOWER &&
        guard_forget_leader(clock_now_ms(watch->clock), watch->heard_ms, patience_ms(watch))) {
        raft->follower_state.current_leader.id = 0;
    }
}

/* How many voters come before this node when they stand in a ring that begins after the leader: two
 * that stand for election at once would take each other's votes. */
static unsigned turn_of(const struct leader_watch *watch, uint64_t leader)
{
    uint64_t self = watch->consensus->raft.id;
    unsigned before = 0;

    ASSERT(self != leader);
    MEMBER_FOREACH (member, &watch->consensus->configuration) {
        uint64_t id = member->id;

        if (member->role == ROLE_VOTER && id != leader) {
            before += self > leader ? id > leader && id < self : id > leader || id < self;
        }
    }
    return before;
}

/* Stand for election in this node's turn, counted from then, if it is one that does. */
static bool stand_early(struct leader_watch *watch, uint64_t leader, uint64_t from_ms)
{
    struct raft *raft = &watch->consensus->raft;
    uint64_t now = clock_now_ms(watch->clock);
    uint64_t due = from_ms + turn_of(watch, leader) * (uint64_t)raft->heartbeat_timeout;

    due = due > now ? due : now;
    if (raft_role(raft) != RAFT_VOTER || due >= raft_timeout(raft) ||
        due < raft->election_timer_start) {
        return false;
    }
    if (watch->drawn_timeout_ms == 0) {
        watch->drawn_timeout_ms = raft->follower_state.randomized_election_timeout;
    }
    raft->follower_state.randomized_election_timeout = (unsigned)(due - raft->election_timer_start);
    ASSERT(raft_timeout(raft) == due);
    return true;
}

static bool follows(const struct leader_watch *watch, uint64_t peer)
{
    return watch->consensus->raft.state == RAFT_FOLLOWER &&
           watch->consensus->raft.follower_state.current_leader.id == peer;
}

bool leader_watch_refused(struct leader_watch *watch, uint64_t peer)
{
    if (!follows(watch, peer) || watch->trust == LEADER_RESIGNED) {
        return false;
    }
    watch->trust = LEADER_REFUSED;
    return stand_early(watch, peer, watch->heard_ms + patience_ms(watch));
}

bool leader_watch_resigned(struct leader_watch *watch, uint64_t peer, uint64_t term)
{
    if (term != raft_current_term(&watch->consensus->raft) || !follows(watch, peer)) {
        return false;
    }
    watch->trust = LEADER_RESIGNED;
    /* All hear of it at the same time, but may have heard the last heartbeat long ago. */
    return stand_early(watch, peer, clock_now_ms(watch->clock));
}
