/*
 * timers.h - the timers of one loop: what is to be done, and when.
 *
 * Deadlines, repeats and pauses of everything that lives on a loop stand in one list, so the loop
 * asks one place when to wake, and nothing scans for what is due.
 *
 * The happy path: timer_init() once (or all zero, but for `wakes`, if its owner only has to look),
 * timer_arm() whenever the time is known (again: it moves); the loop sleeps until timers_next_ms()
 * and calls timers_run(), which calls `fire` of each that is due, earliest first, of one time in
 * the order in which they were armed, and adds the parts that each wakes to `woken`. A timer that
 * fires is no longer armed, and its owner may arm it again, free itself, or arm and cancel others
 * from within.
 *
 * Invariant: a timer fires at most once in one timers_run(); what is armed meanwhile, be it due
 * already, waits for the next one. So a run ends.
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
    uint32_t wakes;    /* parts of the loop that have to look then, a bit each; 0: none */
    void (*fire)(struct timer *timer, uint64_t now_ms); /* NULL: nothing to do but wake */
};

RB_HEAD(timer_tree, timer);

struct timers {
    struct timer_tree tree;
    uint64_t sequence; /* of the last arming */
    uint32_t woken;    /* parts that have to look, a bit each: the loop's, which clears it */
};

void timers_init(struct timers *timers);

/* Not armed. fire gets the timer (CONTAINER() leads to its owner) and the time of the run. */
void timer_init(struct timer *timer, void (*fire)(struct timer *timer, uint64_t now_ms));

/* Fire at the first run at due_ms or later; moves a timer that is armed. TIMER_NEVER: cancels. */
void timer_arm(struct timers *timers, struct timer *timer, uint64_t due_ms);

/* As timer_arm(), but an earlier time that it is armed for stands. */
void timer_arm_by(struct timers *timers, struct timer *timer, uint64_t due_ms);

/* No-op unless it is armed. */
void timer_cancel(struct timers *timers, struct timer *timer);

static inline bool timer_is_armed(const struct timer *timer)
{
    return timer->sequence != 0;
}

/* When the earliest is due; TIMER_NEVER: none is armed. */
uint64_t timers_next_ms(const struct timers *timers);

/* Fire what is due. */
void timers_run(struct timers *timers, uint64_t now_ms);

#endif
