/*
 * zone.c - see zone.h. GLib reads the database, once for each zone, and keeps what it read.
 */
#include "src/base/zone.h"

#include <glib.h>

bool zone_local_ms(const char *zone, uint64_t utc_ms, uint64_t *ret_local_ms)
{
    GTimeZone *found;
    gint interval;
    int64_t local_ms;

    if (zone[0] == '\0') {
        *ret_local_ms = utc_ms;
        return true;
    }
    found = g_time_zone_new_identifier(zone);
    if (found == NULL) {
        return false;
    }
    interval = g_time_zone_find_interval(found, G_TIME_TYPE_UNIVERSAL, (gint64)(utc_ms / 1000));
    local_ms = (int64_t)utc_ms + (int64_t)g_time_zone_get_offset(found, interval) * 1000;
    *ret_local_ms = local_ms > 0 ? (uint64_t)local_ms : 0;
    g_time_zone_unref(found);
    return true;
}
