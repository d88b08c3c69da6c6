/*
 * clock.c - the system's clocks, as the vtable of clock.h, and the loop's. Thread: any.
 */
#include "src/base/clock.h"

#include <time.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

HOT static uint64_t read_ms(clockid_t id)
{
    struct timespec ts;

    ASSERT(clock_gettime(id, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t system_now_us(const struct clock *clock)
{
    struct timespec ts;

    (void)clock;
    ASSERT(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t system_now_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_BOOTTIME);
}

HOT static uint64_t system_wall_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_REALTIME);
}

const struct clock *clock_system(void)
{
    static const struct clock system = {
        .now_ms = system_now_ms, .wall_ms = system_wall_ms, .now_us = system_now_us, .data = 0};

    return &system;
}

/* --- loop_clock --- */

static uint64_t loop_now_us(const struct clock *base)
{
    struct loop_clock *clock = base->data;

    if (!clock->stands) {
        clock->now_us = clock_now_us(clock->real);
        clock->stands = true;
    }
    return clock->now_us;
}

static uint64_t loop_now_ms(const struct clock *base)
{
    return loop_now_us(base) / 1000;
}

static uint64_t loop_wall_ms(const struct clock *base)
{
    const struct loop_clock *clock = base->data;

    return clock_wall_ms(clock->real);
}

static void loop_look(const struct clock *base)
{
    struct loop_clock *clock = base->data;

    clock->stands = false;
}

void loop_clock_init(struct loop_clock *clock, const struct clock *real)
{
    *clock = (struct loop_clock){.base = {.now_ms = loop_now_ms,
                                          .wall_ms = loop_wall_ms,
                                          .now_us = loop_now_us,
                                          .look = loop_look,
                                          .data = clock},
                                 .real = real};
}
