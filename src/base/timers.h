/*
 * timers.h - the timers of one loop: what is due, and when.
 *
 * Deadlines, repeats and pauses of all objects on a loop are in one list. So the loop has one place
 * that says when to wake, and nothing scans for due work.
 *
 * The loop sleeps until timers_next_ms() and calls timers_run(). That calls `fire` of each due
 * timer, earliest first, those of the same time in the order of arming, and adds the parts that
 * each wakes to `woken`. A timer that fires is no longer armed, and its owner may arm it again,
 * free itself, or arm and cancel others from within. A timer of zeros but `wakes` only wakes its
 * owner.
 *
 * Invariant: a timer fires at most once in one timers_run(); a timer that is armed meanwhile, even
 * if already due, waits for the next run. So a run ends.
 *
 * The time is the loop's monotonic one (clock.h) and comes from outside: nothing here asks for it.
 * Failure modes: none; a timer is memory of its owner, which cancels it before that is freed.
 *
 * Thread: one owner.
 */
#ifndef LEAFD_BASE_TIMERS_H
#define LEAFD_BASE_TIMERS_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#define TIMER_NEVER UINT64_MAX

struct timer {
    RB_ENTRY(timer) link;
    uint64_t due_ms;   /* TIMER_NEVER, or 0 at first: not armed */
    uint64_t sequence; /* of the arming: their order at one time; 0: not armed */
    uint32_t wakes;    /* parts of the loop to wake then, a bit each; 0: none */
    void (*fire)(struct timer *timer, uint64_t now_ms); /* NULL: nothing to do but wake */
};

RB_HEAD(timer_tree, timer);

/* Zeros: none is armed. */
struct timers {
    struct timer_tree tree;
    uint64_t sequence; /* of the last arming */
    uint32_t woken;    /* parts to wake, a bit each: the loop's, which clears it */
};

/* Not armed. fire gets the timer (CONTAINER() leads to its owner) and the time of the run. */
void timer_init(struct timer *timer, void (*fire)(struct timer *timer, uint64_t now_ms));

/* Fire at the first run at due_ms or later; moves a timer that is armed. TIMER_NEVER: cancels. */
void timer_arm(struct timers *timers, struct timer *timer, uint64_t due_ms);

/* As timer_arm(), but keeps an earlier time that it is armed for. */
void timer_arm_by(struct timers *timers, struct timer *timer, uint64_t due_ms);

/* No-op unless it is armed. */
void timer_cancel(struct timers *timers, struct timer *timer);

static inline bool timer_is_armed(const struct timer *timer)
{
    return timer->sequence != 0;
}

/* When the earliest timer is due; TIMER_NEVER: none is armed. */
uint64_t timers_next_ms(const struct timers *timers);

/* Fire all due timers. */
void timers_run(struct timers *timers, uint64_t now_ms);

#endif
