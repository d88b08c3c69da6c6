/*
 * ground.h - what every part of a replica stands on.
 *
 * The replica fills it in once, before its parts start; they keep a pointer to it, as `on`.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_GROUND_H
#define LEAFD_RAFT_CLUSTER_GROUND_H

#include "raft/cluster/answers.h"
#include "raft/core/driver.h"
#include "raft/wire/wire.h"
#include "src/base/timers.h"
#include "src/id/alloc/allocator.h"

struct ground {
    struct driver *driver;
    struct net *net;
    const struct clock *clock;
    struct timers *timers; /* all deadlines and repeats of the replica */
    struct fsm *fsm;
    struct answers *answers;      /* by which requests that are over leave */
    struct id_proposer *proposer; /* takes any id_request of this node */
    uint64_t node_id;             /* this node */
    bool stopping;                /* all requests get ERR_SHUTTING_DOWN from now on */
};

static inline uint64_t ground_now_ms(const struct ground *on)
{
    return clock_now_ms(on->clock);
}

/* Queue a frame; it is gone afterwards. 0 or why it does not leave (net.h). */
int ground_send(const struct ground *on, uint64_t to, enum frame_type type, struct buf *frame);

/* Where a member is reached. Borrowed until the next apply. */
static inline const char *ground_address(const struct ground *on, const struct conf_member *member)
{
    const char *moved = fsm_member_address(on->fsm, member->id);

    return moved != NULL ? moved : member->address;
}

/* As a FRAME_REQUEST or FRAME_RELAY. 0 or why it does not leave. */
int ground_send_request(const struct ground *on, uint64_t to, enum frame_type type,
                        const struct wire_request *request) MUST_CHECK;

/* Should it be lost, whoever asked asks again. */
void ground_send_reply(const struct ground *on, uint64_t to, const struct wire_reply *reply);
void ground_refuse(const struct ground *on, uint64_t to, uint64_t id, int status);

/* Is there a link to it? To itself always. */
static inline bool ground_reaches(const struct ground *on, uint64_t node_id)
{
    return node_id == on->node_id || on->net->ops->connected(on->net, node_id);
}

/* Arm a timer for a time that was computed anew; TIMER_NEVER: cancel it. */
static inline void ground_arm_at(const struct ground *on, struct timer *timer, uint64_t due_ms)
{
    if (!timer_is_armed(timer) || timer->due_ms != due_ms) {
        timer_arm(on->timers, timer, due_ms);
    }
}

#endif
