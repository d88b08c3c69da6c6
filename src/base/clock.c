/*
 * clock.c - the system's clocks behind the vtable of clock.h. Thread: any.
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
