/*
 * dates.c - see dates.h. Thread: the raft loop.
 */
#include "raft/cluster/dates.h"

#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/base/zone.h"

#define SAY_AGAIN_MS 60000

void dates_init(struct dates *dates, const struct ground *on)
{
    *dates = (struct dates){.on = on};
}

void dates_turn(struct dates *dates)
{
    uint64_t log_ms = fsm_log_ms(dates->on->fsm);

    if (log_ms != dates->log_ms) {
        dates->log_ms = log_ms;
        dates->seen_ms = clock_now_ms(dates->on->real_clock);
    }
}

static void complain(struct dates *dates, const char *zone, uint64_t now_ms)
{
    if (dates->said_ms == 0 || now_ms - dates->said_ms >= SAY_AGAIN_MS) {
        log_error("strict", "a tag's date is by a time zone that this system does not know",
                  "zone=\"%s\" todo=\"install tzdata, and restart\"", zone);
        dates->said_ms = now_ms;
    }
}

uint32_t dates_period(void *data, const char *name, size_t name_len)
{
    struct dates *dates = data;
    const struct tag_row *row;
    struct shape shape;
    uint64_t now_ms;
    uint64_t local_ms;

    if (!fsm_has_dates(dates->on->fsm) || dates->log_ms == 0) {
        return 0;
    }
    row = fsm_tag(dates->on->fsm, name, name_len);
    if (row == NULL || !tag_is_dated(row)) {
        return 0;
    }
    ASSERT(tag_shape(row->shape, row->shape_len, &shape, NULL) == 0); /* a row keeps that rule */
    now_ms = clock_now_ms(dates->on->real_clock);
    if (!zone_local_ms(shape.date.zone, dates->log_ms + (now_ms - dates->seen_ms), &local_ms)) {
        complain(dates, shape.date.zone, now_ms);
        return 0;
    }
    return shape_period((enum date_part)shape.date.unit, local_ms);
}
