/*
 * membership.h - the leader's part of changes of the membership: answers what operators ask, and
 * takes a change that the state machine knows to be under way from step to step to its end.
 *
 * The happy path of an addition: the change is appended as a command; once that is applied:
 * configuration with the node as a standby -> applied -> the core watches it catch up -> it has
 * registered its data directory -> configuration with it as a voter -> applied, which ends the
 * change. Of a removal: configuration with the node as a standby -> applied -> configuration
 * without it -> applied. A leader that is itself removed hands its leadership over first; its
 * successor finds the change in its state and goes on. So does one whose disk is low, since it
 * takes no changes from anybody. Every step is taken from the state and the
 * configuration alone, so it does not matter who led when it began.
 *
 * Failure modes: a node that is not caught up, a quorum that cannot be reached, for patience_ms
 * without any step forward, or ten times that in all: the change is given up by a command. The
 * configuration stays as it is then, and the operator removes the standby or asks again. A voter is
 * never made a standby, nor a standby a voter, if the voters that can be reached afterwards would
 * be too few, unless forced.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_MEMBERSHIP_H
#define LEAFD_RAFT_CLUSTER_MEMBERSHIP_H

#include "raft/core/driver.h"
#include "src/id/alloc/allocator.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/member.h"

struct membership {
    struct driver *driver;
    struct net *net;
    const struct clock *clock;
    struct fsm *fsm;
    struct id_proposer *proposer;
    uint32_t patience_ms;
    /* of the change under way, as this leader sees it */
    uint64_t change_index;  /* which; 0: none looked at */
    uint64_t change_term;   /* the own term in which it was first looked at */
    uint64_t begun_ms;      /* when this leader took it over */
    uint64_t forward_ms;    /* the last step forward */
    uint64_t seen_conf;     /* index of the configuration then */
    uint64_t seen_progress; /* of the node's log or snapshot then */
    uint64_t look_ms;       /* next look at a catch-up */
    bool catching_up;       /* the core was told to watch the node catch up */
    uint64_t caught_up;     /* the node that the core has seen caught up since; 0: none */
    /* a command of its own is on its way */
    bool in_flight;
    struct id_request request;
    /* leadership is being handed over */
    bool transferring;
    uint64_t transfer_to; /* 0: to the furthest */
    uint64_t transfer_until_ms;
    uint64_t transfer_again_ms; /* not before, after one that failed */
    unsigned transfers_failed;  /* since this leader's term began */
    /* requests wait until all of the log is committed, so that a vote can be taken away */
    uint64_t hold_until_ms;
    uint64_t hold_again_ms;     /* not before, after one that was not enough */
    uint64_t give_way_again_ms; /* because its disk is low; also over terms */
};

void membership_init(struct membership *membership, struct driver *driver, struct net *net,
                     const struct clock *clock, struct fsm *fsm, struct id_proposer *proposer,
                     uint32_t patience_ms);

/* Answer a member_ask on the leader, with all that was committed when it came applied: appends a
 * member_answer. What it begins goes on in membership_turn(). 0 or ERR_BAD_MESSAGE. */
int membership_ask(struct membership *membership, const void *ask, size_t len,
                   struct buf *reply) MUST_CHECK;

/* One step, if one is possible. *ret_holding: requests wait meanwhile: leadership is being handed
 * over, or a vote is about to be taken away. */
void membership_turn(struct membership *membership, bool *ret_holding);

/* When membership_turn() is due next; UINT64_MAX: nothing waits for time. */
uint64_t membership_next_ms(const struct membership *membership);

#endif
