/*
 * dates.c - see dates.h. Thread: the raft loop.
 */
#include "src/service/dates.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/base/zone.h"

#define SAY_AGAIN_MS 60000
#define BEHIND_MS 10000 /* the log's time comes every 3 s */

/* The median of the clocks, which the leader puts into the log. 0: not known now. */
static uint64_t median_ms(const struct dates *dates)
{
    const struct clock *clock = dates->on->real_clock;
    const struct clock_check *check = &dates->replica->clock_sync.check;
    uint64_t now_ms = clock_now_ms(clock);
    size_t samples;

    return dates->is_registered && clock_check_asked(check, now_ms)
               ? clock_check_cluster_ms(check, now_ms, clock_wall_ms(clock), &samples)
               : 0;
}

void dates_turn(struct dates *dates)
{
    uint64_t log_ms = dates->on->state->facts.log_ms;

    if (log_ms != dates->log_ms) {
        dates->log_ms = log_ms;
        dates->seen_ms = clock_now_ms(dates->on->real_clock);
    }
    if (!dates->is_present) {
        uint64_t median;

        dates->is_registered = announce_is_registered(&dates->replica->announce);
        median = median_ms(dates);
        dates->is_present = log_ms > 0 && median > 0 && median <= log_ms + BEHIND_MS;
    }
}

/* The present local time in the shape's zone. False: not known. */
static bool local_now(struct dates *dates, const struct shape *shape, uint64_t *ret_local_ms)
{
    uint64_t now_ms = clock_now_ms(dates->on->real_clock);
    uint64_t log_ms = median_ms(dates);

    if (!dates->is_present) {
        return false;
    }
    if (log_ms == 0) {
        log_ms = dates->log_ms + (now_ms - dates->seen_ms);
    } else if (log_ms < dates->log_ms) {
        log_ms = dates->log_ms; /* clocks that were ahead, and are right again, leave it standing */
    }
    if (!zones_local_ms(dates->zones, shape->date.zone, log_ms, ret_local_ms)) {
        if (dates->said_ms == 0 || now_ms - dates->said_ms >= SAY_AGAIN_MS) {
            log_error("strict", "a tag's date is by a time zone that this system does not know",
                      "zone=\"%s\" todo=\"install tzdata, and restart\"", shape->date.zone);
            dates->said_ms = now_ms;
        }
        return false;
    }
    return true;
}

uint32_t dates_period(void *data, const char *name, size_t name_len)
{
    struct dates *dates = data;
    const struct tag_row *row;
    struct shape shape;
    uint64_t local_ms;

    if (!fsm_has_dates(dates->context->fsm) || !dates->is_present) {
        return 0;
    }
    row = fsm_tag(dates->context->fsm, name, name_len);
    if (row == NULL || !tag_is_dated(row)) {
        return 0;
    }
    ASSERT(tag_shape(row->shape, row->shape_len, &shape, NULL) == 0); /* rows are valid */
    return local_now(dates, &shape, &local_ms)
               ? shape_period((enum date_part)shape.date.unit, local_ms)
               : 0;
}

uint64_t dates_left(struct dates *dates, const struct tag_row *row, double per_s)
{
    uint64_t first;
    uint64_t left = tag_ids_left(row, &first);
    struct shape shape;
    uint64_t local_ms;
    uint64_t elapsed_ms;
    uint64_t length_ms;
    uint64_t end;

    if (!tag_is_dated(row) || tag_shape(row->shape, row->shape_len, &shape, NULL) != 0 ||
        !local_now(dates, &shape, &local_ms)) {
        return left;
    }
    shape_period_ids(&shape, row->max_id, shape_period((enum date_part)shape.date.unit, local_ms),
                     &first, &end);
    shape_period_times((enum date_part)shape.date.unit, local_ms, &elapsed_ms, &length_ms);
    if (first > end || per_s * (double)(length_ms - elapsed_ms) / 1000 >= (double)(end - first)) {
        end = first < end ? end : first;
        left = end - first < left ? end - first : left;
    }
    return left;
}

bool dates_refuse(const struct fsm *fsm, const struct tag_put *put,
                  char known[SHAPE_ZONE_BYTES_MAX + 1], char *why, size_t size)
{
    const struct tag_row shaped = {.shape = put->shape, .shape_len = put->shape_len};
    char zone[SHAPE_ZONE_BYTES_MAX + 1] = ""; /* of a name's first shape */
    struct shape shape;

    if ((put->fields & TAG_FIELD_SHAPE) != 0 && tag_is_dated(&shaped) &&
        fsm_tag(fsm, put->name, put->name_len) == NULL &&
        tag_shape(put->shape, put->shape_len, &shape, NULL) == 0) {
        memcpy(zone, shape.date.zone, sizeof shape.date.zone);
    }
    if (strcmp(zone, known) == 0 || zone[0] == '\0') {
        return false;
    }
    if (!zone_is_known(zone)) {
        (void)snprintf(why, size, "the leader's time zone database (tzdata) has no %s", zone);
        return true;
    }
    memcpy(known, zone, sizeof zone);
    return false;
}
