/*
 * membership.h - the leader's part of changes of the membership and of the level: answers
 * operators' requests, and takes a change that is under way in the state machine step by step to
 * its end.
 *
 * The happy path of an addition: the change is appended as a command; once that is applied:
 * configuration with the node as a standby -> applied -> the core watches it catch up -> it has
 * registered its data directory -> configuration with it as a voter -> applied, which ends the
 * change. For a removal: configuration with the node as a standby -> applied -> configuration
 * without it -> applied. A leader that is itself removed hands its leadership over first; its
 * successor finds the change in its state and continues. Every step is taken from the state and the
 * configuration alone, so it does not matter which node led when it began.
 *
 * Leadership is handed to another voter because a client asked for it, because this node will be
 * removed or is drained, because its disk has no room, or because a ready node of the preferred
 * zone has the log and this one is of another zone (at most once a minute from a node). The core
 * does it in a few turns; requests wait meanwhile. If no node takes it within three election
 * timeouts, this node continues to lead, and the next attempt comes after a pause. If no node has
 * room, each hands over only once in a while.
 *
 * Failure modes: a node that is not caught up, a quorum that cannot be reached, for catch_up_ms
 * without progress, or ten times that in all: the change is given up by a command. The
 * configuration stays as it is then, and the operator removes the standby or asks again. A voter is
 * never made a standby, nor a standby a voter, if the voters that can be reached afterwards would
 * be too few, unless forced.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_MEMBERSHIP_H
#define LEAFD_RAFT_CLUSTER_MEMBERSHIP_H

#include "raft/cluster/announce.h"
#include "raft/cluster/context.h"
#include "src/state/codec/cluster_command.h"

/*
 * --- upgrade: the level of the cluster rises (level.h, docs/versions.md). A member supports one
 * once its row says so, for the same start that this leader last met: after a restart it may run an
 * older leafd. All members count, standbys too; unknown counts as no. While a node is being added,
 * its version is unknown.
 *
 * The happy path: all members have supported the next level for hold_ms, and all are reached: the
 * leader proposes COMMAND_LEVEL. If a client asks for it (MEMBER_ASK_LEVEL): at once.
 *
 * Failure modes: a member is in the way: nothing happens, and the answer names it. A new leader
 * begins to wait anew. A proposal that is lost is made again. A proposal that is not appended yet
 * when this node loses its lead, or when a member gets in the way, is withdrawn: a node with a
 * leafd that is too old may be a member by then.
 */

struct upgrade {
    const struct raft_context *on;
    struct node_command command;
    uint16_t raising;  /* the level that the command in flight names */
    struct timer look; /* armed: there was one a moment ago */
    uint64_t ready_ms; /* all have supported the level `ready` since then; 0: they do not */
    uint16_t ready;
};

/* Check, and raise the level if it is time. Woken by its timer, its command, a member that is met,
 * and what wakes all. True: a command is in flight that must not be appended any more
 * (requests_withdraw()). */
bool upgrade_turn(struct upgrade *upgrade);

/* --- the membership --- */

struct handover {
    bool active;
    uint64_t to;                /* 0: to the one with the longest log */
    struct timer limit;         /* armed: it may still take */
    struct timer pause;         /* armed: one has failed a moment ago */
    unsigned failed;            /* since this leader's term began */
    struct timer no_room_pause; /* armed: no other because of the disk; also over terms */
    struct timer place_pause;   /* armed: nor because of its zone */
};

struct membership {
    const struct raft_context *on;
    const struct clock_sync *clocks; /* knows what the others serve */
    const char *zone;                /* whose members lead, if they can; "": none */
    struct upgrade upgrade;          /* which answers for the level */
    struct handover handover;
    struct node_command command; /* begins or ends a change */
    /* of the change under way, as this leader sees it */
    uint64_t change_index;       /* which; 0: none looked at */
    uint64_t change_term;        /* this leader's term in which it was first looked at */
    struct timer patience;       /* armed: there was a step forward not long ago */
    struct timer whole_patience; /* armed: this leader took it over not long ago */
    uint64_t seen_conf;          /* index of the configuration at the last look */
    uint64_t seen_progress;      /* of the node's log or snapshot then */
    struct timer look;           /* armed: there was one a moment ago */
    bool catching_up;            /* the core has begun to watch the node catch up */
    uint64_t caught_up;          /* the node that the core has seen caught up since; 0: none */
    /* requests wait until all of the log is committed, so that a vote can be taken away */
    struct timer hold;       /* armed: they do */
    struct timer hold_pause; /* armed: they do, or recently did without success */
    struct timer next_turn;  /* while they do, or leadership is handed over: soon */
};

void membership_init(struct membership *membership, const struct raft_context *on,
                     const struct clock_sync *clocks);

/* Answer a member_ask on the leader, with all that was committed when it came applied: appends a
 * member_answer. Already so: "done". Possible: the change begins, continues in membership_turn(),
 * and the answer is "pending". 0, ERR_BAD_MESSAGE, or ERR_STALE for a late copy. */
int membership_answer(struct membership *membership, const void *ask, size_t len,
                      struct buf *reply) MUST_CHECK;

/* The next leader after this node: a ready voter that has nearly all of the log and is not drained,
 * of the preferred zone if there is one. 0: there is none. */
uint64_t membership_successor(const struct membership *membership);

/* One step, if one is possible. Woken by its timers, its command, a disk that becomes low or has
 * room again, and what wakes all. True: requests wait meanwhile: leadership is being handed over,
 * or a vote is about to be taken away. */
bool membership_turn(struct membership *membership);

#endif
