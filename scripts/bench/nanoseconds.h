/*
 * nanoseconds.h - what a clock of the system shows, in nanoseconds. Thread: any.
 */
#ifndef LEAFD_SCRIPTS_BENCH_NANOSECONDS_H
#define LEAFD_SCRIPTS_BENCH_NANOSECONDS_H

#include <stdint.h>
#include <time.h>

#include "src/base/assert.h"

static inline uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;

    ASSERT(clock_gettime(clock, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#endif
