/*
 * zone.h - local times, by the time zone database of this system.
 *
 * Machines have different versions of it, or none: results that must be equal on all nodes must not
 * depend on it.
 *
 * The happy path: zone_is_known() before a name is accepted as a zone. zones_local_ms() for each
 * time: a zone is read from the disk once, and its local time is computed once a second. A newer
 * database needs a restart.
 *
 * Failure modes: an unknown zone: zones_local_ms() looks for it again each second. Thread: any; a
 * struct zones has one owner.
 */
#ifndef LEAFD_BASE_ZONE_H
#define LEAFD_BASE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#define ZONE_NAME_BYTES_MAX 40
#define ZONES_MAX 64 /* with more in use, some are read repeatedly */

/* Is there a file of this name in the database? Libraries read other names, such as GMT+8, by the
 * rules of POSIX, where the sign is reversed. zone: a relative path without dots. */
bool zone_is_known(const char *zone);

struct zones *zones_new(void);
void zones_free(struct zones *zones);

/* The zone's local time in ms since 1970, as if it were UTC; "" is UTC. name: at most
 * ZONE_NAME_BYTES_MAX (ASSERT). utc_ms: below the year 10000. False: the system knows no such
 * zone. */
bool zones_local_ms(struct zones *zones, const char *name, uint64_t utc_ms, uint64_t *ret_local_ms);

#endif
