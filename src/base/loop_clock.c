/*
 * loop_clock.c - see loop_clock.h. Thread: the loop's.
 */
#include "src/base/loop_clock.h"

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
