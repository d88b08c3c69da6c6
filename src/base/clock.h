/*
 * clock.h - time as a vtable, so that tests and the simulator run on their own.
 *
 * Two clocks: a monotonic one for deadlines and timers, and the wall clock for what is shown or
 * stamped into commands. Nothing else in leafd asks the system for the time. Thread: any.
 */
#ifndef LEAFD_BASE_CLOCK_H
#define LEAFD_BASE_CLOCK_H

#include <stdint.h>

#include "src/base/container.h"

struct clock {
    /* Milliseconds of a monotonic clock that counts suspend; the zero point has no meaning. */
    uint64_t (*now_ms)(const struct clock *clock);
    /* Milliseconds since 1970-01-01 UTC; may jump either way. */
    uint64_t (*wall_ms)(const struct clock *clock);
    void *data;
} BY_NAME;

/* The system's clocks (CLOCK_BOOTTIME, CLOCK_REALTIME). Static memory. */
const struct clock *clock_system(void);

static inline uint64_t clock_now_ms(const struct clock *clock)
{
    return clock->now_ms(clock);
}

static inline uint64_t clock_wall_ms(const struct clock *clock)
{
    return clock->wall_ms(clock);
}

#endif
