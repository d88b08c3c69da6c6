/*
 * meter.c - see meter.h.
 */
#include "src/base/meter.h"

#include "src/base/assert.h"

/* 2 to the power of -x, x >= 0, to one part in a thousand: the C library's is one more library. */
static double half_to(double x)
{
    double value = 1;

    for (; x >= 1 && value > 0; x -= 1) {
        value /= 2;
    }
    return value * (1 - x * (0.693147 - x * (0.240227 - x * (0.055504 - x * 0.009618))));
}

bool meter_note(struct meter *meter, uint64_t count, uint32_t half_ms, uint64_t now_ms)
{
    uint32_t passed_ms = (uint32_t)now_ms - meter->at_ms;
    bool has_begun = meter->at_ms != 0;
    double keeps;

    ASSERT(half_ms > 0);
    if (has_begun && passed_ms > 0) {
        keeps = half_to((double)passed_ms / half_ms);
        meter->per_s =
            (float)(meter->per_s * keeps + (double)count * 1000 / passed_ms * (1 - keeps));
    }
    meter->at_ms = (uint32_t)now_ms;
    return has_begun && passed_ms > 0;
}
