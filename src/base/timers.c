/*
 * timers.c - see timers.h: a red-black tree by time and order of arming.
 */
#include "src/base/timers.h"

#include <stddef.h>

#include "src/base/assert.h"

static int timer_order(const struct timer *a, const struct timer *b)
{
    if (a->due_ms != b->due_ms) {
        return a->due_ms < b->due_ms ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* RB_GENERATE_STATIC of libbsd needs BSD's __unused; not all generated functions are used here. */
RB_GENERATE_INTERNAL(timer_tree, timer, link, timer_order, __attribute__((unused)) static)

void timer_init(struct timer *timer, void (*fire)(struct timer *timer, uint64_t now_ms))
{
    ASSERT(fire != NULL);
    *timer = (struct timer){.due_ms = TIMER_NEVER, .fire = fire};
}

void timer_cancel(struct timers *timers, struct timer *timer)
{
    if (timer_is_armed(timer)) {
        (void)RB_REMOVE(timer_tree, &timers->tree, timer);
        timer->due_ms = TIMER_NEVER;
        timer->sequence = 0;
    }
}

void timer_arm(struct timers *timers, struct timer *timer, uint64_t due_ms)
{
    struct timer *known;

    timer_cancel(timers, timer);
    if (due_ms != TIMER_NEVER) {
        timer->due_ms = due_ms;
        timer->sequence = ++timers->sequence;
        known = RB_INSERT(timer_tree, &timers->tree, timer);
        ASSERT(known == NULL);
    }
}

void timer_arm_by(struct timers *timers, struct timer *timer, uint64_t due_ms)
{
    if (!timer_is_armed(timer) || due_ms < timer->due_ms) {
        timer_arm(timers, timer, due_ms);
    }
}

uint64_t timers_next_ms(const struct timers *timers)
{
    const struct timer *first = RB_MIN(timer_tree, (struct timer_tree *)&timers->tree);

    return first == NULL ? TIMER_NEVER : first->due_ms;
}

/* The earliest due timer that was armed before the run; NULL: none. One that was armed during the
 * run may be the earliest of all. */
static struct timer *next_due(struct timers *timers, uint64_t now_ms, uint64_t last_sequence)
{
    struct timer *timer = RB_MIN(timer_tree, &timers->tree);

    while (timer != NULL && timer->due_ms <= now_ms && timer->sequence > last_sequence) {
        timer = RB_NEXT(timer_tree, &timers->tree, timer);
    }
    return timer != NULL && timer->due_ms <= now_ms ? timer : NULL;
}

void timers_run(struct timers *timers, uint64_t now_ms)
{
    uint64_t last_sequence = timers->sequence;
    struct timer *timer = next_due(timers, now_ms, last_sequence);

    while (timer != NULL) {
        timer_cancel(timers, timer);
        timers->woken |= timer->wakes;
        if (timer->fire != NULL) {
            timer->fire(timer, now_ms);
        }
        timer = next_due(timers, now_ms, last_sequence);
    }
}
