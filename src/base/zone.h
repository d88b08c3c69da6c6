/*
 * zone.h - what clocks on the wall show, by the time zone database of this system.
 *
 * Machines have different versions of it, or none: nothing that must be the same on all nodes may
 * ask it.
 *
 * The happy path: zone_is_known() before a name is taken for a zone. zones_local_ms() for each of
 * many times: a zone is read from the disk once, and what its clocks show is computed once a
 * second. A newer database is seen by the next process.
 *
 * Failure modes: a zone that this system does not know; zones_local_ms() looks for it again each
 * second. Thread: any; a struct zones has one owner.
 */
#ifndef LEAFD_BASE_ZONE_H
#define LEAFD_BASE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#define ZONE_NAME_BYTES_MAX 40
#define ZONES_MAX 64 /* of more in use some are read again and again */

/* Is there a file of this name in the database? Other names, such as GMT+8, mean something to
 * libraries by the rules of POSIX, where the sign is the other way round. zone: a relative path
 * without dots. */
bool zone_is_known(const char *zone);

struct zones *zones_new(void);
void zones_free(struct zones *zones);

/* The time in ms since 1970 that the clocks of the zone show, as if it were one of UTC; "" is UTC.
 * name: of ZONE_NAME_BYTES_MAX at most (ASSERT). utc_ms: below the year 10000. False: the system
 * knows no such zone. */
bool zones_local_ms(struct zones *zones, const char *name, uint64_t utc_ms, uint64_t *ret_local_ms);

#endif
