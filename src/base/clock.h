/*
 * clock.h - time as a vtable, so that tests and the simulator run on their own.
 *
 * Two clocks: a monotonic one for deadlines and timers, and the wall clock for what is shown or
 * stamped into commands. Nothing else in leafd asks the system for the time.
 *
 * Failure modes: none. Thread: any; a loop_clock is its loop's.
 */
#ifndef LEAFD_BASE_CLOCK_H
#define LEAFD_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/container.h"

struct clock {
    /* Milliseconds of a monotonic clock that counts suspend; the zero point has no meaning. */
    uint64_t (*now_ms)(const struct clock *clock);
    /* Milliseconds since 1970-01-01 UTC; may jump either way. */
    uint64_t (*wall_ms)(const struct clock *clock);
    /* The clock of now_ms in microseconds, to measure by. NULL: it has none finer. */
    uint64_t (*now_us)(const struct clock *clock);
    /* Time went on: the next call reads the real one (loop_clock). NULL: it never stands still. */
    void (*look)(const struct clock *clock);
    void *data;
} BY_NAME;

/* The system's clocks (CLOCK_BOOTTIME, CLOCK_REALTIME). Static memory. */
const struct clock *clock_system(void);

static inline uint64_t clock_now_ms(const struct clock *clock)
{
    return clock->now_ms(clock);
}

static inline uint64_t clock_now_us(const struct clock *clock)
{
    return clock->now_us != NULL ? clock->now_us(clock) : clock->now_ms(clock) * 1000;
}

static inline void clock_look(const struct clock *clock)
{
    if (clock->look != NULL) {
        clock->look(clock);
    }
}

static inline uint64_t clock_wall_ms(const struct clock *clock)
{
    return clock->wall_ms(clock);
}

/*
 * --- loop_clock: a clock that stands still while a loop does one thing. Of its monotonic time, the
 * first call reads the real one, and all others get what it read, until clock_look().
 *
 * Why: in one turn of the raft loop some twenty-five places ask what time it is, and the answer is
 * the same. (So it is in the simulation, whose time never moves within a turn.)
 *
 * Code that compares two clocks, or measures to the microsecond, asks the real one. wall_ms() is
 * always the real one's.
 * Thread: the loop's alone, look too; other threads have the real one.
 */

struct loop_clock {
    struct clock base; /* the vtable's object */
    const struct clock *real;
    bool stands;
    uint64_t now_us; /* while it stands */
};

/* real: borrowed. clock stays where it is. */
void loop_clock_init(struct loop_clock *clock, const struct clock *real);

#endif
