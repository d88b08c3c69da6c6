/*
 * zone.h - what clocks on the wall show, by the time zone database of this system.
 *
 * Machines have different versions of it, or none: nothing that must be the same on all nodes may
 * ask it.
 *
 * Failure modes: a zone that this system does not know. Thread: any.
 */
#ifndef LEAFD_BASE_ZONE_H
#define LEAFD_BASE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

/* The time in ms since 1970 that the clocks of the zone show, as if it were one of UTC; "" is UTC.
 * utc_ms: below the year 10000. False: the system knows no such zone. */
bool zone_local_ms(const char *zone, uint64_t utc_ms, uint64_t *ret_local_ms);

#endif
