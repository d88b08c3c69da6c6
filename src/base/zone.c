/*
 * zone.c - see zone.h. GLib reads the database; it frees a zone that has no reference.
 */
#include "src/base/zone.h"

#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"

#define DATABASE "/usr/share/zoneinfo" /* GLib's default without TZDIR */
#define FILE_MAGIC "TZif"              /* RFC 8536 */

/* One loaded zone, and its offset in this second. */
struct zone {
    char name[ZONE_NAME_BYTES_MAX + 1];
    GTimeZone *found; /* NULL: the system knows no such zone */
    uint64_t second;  /* UTC, for ahead_ms */
    int64_t ahead_ms; /* its clocks' distance ahead of UTC then */
};

struct zones {
    struct zone list[ZONES_MAX];
    unsigned count;
    unsigned oldest; /* with ZONES_MAX zones: the one that the next new one replaces */
};

bool zone_is_known(const char *zone)
{
    const char *database = getenv("TZDIR");
    char path[256];
    char magic[sizeof FILE_MAGIC - 1];
    int len = snprintf(path, sizeof path, "%s/%s", database != NULL ? database : DATABASE, zone);
    int fd =
        len > 0 && (size_t)len < sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    bool known = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
                 memcmp(magic, FILE_MAGIC, sizeof magic) == 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return known;
}

struct zones *zones_new(void)
{
    return MUST_HAVE(calloc(1, sizeof(struct zones)));
}

static void zone_forget(struct zone *zone)
{
    if (zone->found != NULL) {
        g_time_zone_unref(zone->found);
    }
}

void zones_free(struct zones *zones)
{
    for (unsigned i = 0; i < zones->count; i++) {
        zone_forget(&zones->list[i]);
    }
    free(zones);
}

bool zones_local_ms(struct zones *zones, const char *name, uint64_t utc_ms, uint64_t *ret_local_ms)
{
    struct zone *zone = NULL;
    int64_t local_ms;

    if (name[0] == '\0') {
        *ret_local_ms = utc_ms;
        return true;
    }
    ASSERT(strlen(name) <= ZONE_NAME_BYTES_MAX);
    for (unsigned i = 0; i < zones->count && zone == NULL; i++) {
        zone = strcmp(zones->list[i].name, name) == 0 ? &zones->list[i] : NULL;
    }
    if (zone == NULL) { /* load it, maybe in place of the oldest */
        if (zones->count < ZONES_MAX) {
            zone = &zones->list[zones->count++];
        } else {
            zone = &zones->list[zones->oldest];
            zones->oldest = (zones->oldest + 1) % ZONES_MAX;
            zone_forget(zone);
        }
        *zone = (struct zone){.second = UINT64_MAX};
        (void)snprintf(zone->name, sizeof zone->name, "%s", name);
    }
    if (zone->second != utc_ms / 1000) {
        zone->second = utc_ms / 1000;
        if (zone->found == NULL) { /* it may exist by now */
            zone->found = g_time_zone_new_identifier(name);
        }
        zone->ahead_ms = 0;
        if (zone->found != NULL) {
            gint interval =
                g_time_zone_find_interval(zone->found, G_TIME_TYPE_UNIVERSAL, (gint64)zone->second);

            zone->ahead_ms = (int64_t)g_time_zone_get_offset(zone->found, interval) * 1000;
        }
    }
    local_ms = (int64_t)utc_ms + zone->ahead_ms;
    *ret_local_ms = local_ms > 0 ? (uint64_t)local_ms : 0;
    return zone->found != NULL;
}
