/*
 * units.c - see units.h. Thread: any.
 */
#include "src/ctl/out/units.h"

#include <inttypes.h>
#include <stdio.h>

const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1023.95 && unit < 6) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, UNITS_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", value, names[unit]);
    return out;
}

const char *units_ms(uint64_t ms, char out[UNITS_BYTES])
{
    uint64_t s = ms / 1000;

    if (ms < 1000) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " ms", ms);
    } else if (s < 120) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " s", s);
    } else if (s < 2 * 3600) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " min", s / 60);
    } else if (s < UINT64_C(48) * 3600) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " d", s / 86400);
    }
    return out;
}
