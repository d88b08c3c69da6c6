/*
 * loop_clock.h - a clock that stands still while a loop does one thing: of its monotonic time, the
 * first who asks reads the real one, and all others get what he read, until clock_look().
 *
 * Why: in one turn of the raft loop some twenty-five places ask what time it is, and the answer is
 * the same. (So it is in the simulation, whose time never moves within a turn.)
 *
 * Who compares two clocks, or measures to the microsecond, asks the real one. wall_ms() is always
 * the real one's.
 *
 * Failure modes: none. Thread: the loop's alone, look too; other threads have the real one.
 */
#ifndef LEAFD_BASE_LOOP_CLOCK_H
#define LEAFD_BASE_LOOP_CLOCK_H

#include <stdbool.h>

#include "src/base/clock.h"

struct loop_clock {
    struct clock base; /* the vtable's object */
    const struct clock *real;
    bool stands;
    uint64_t now_us; /* while it stands */
};

/* real: borrowed. clock stays where it is. */
void loop_clock_init(struct loop_clock *clock, const struct clock *real);

#endif
