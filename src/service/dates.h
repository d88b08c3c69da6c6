/*
 * dates.h - the present period (src/id/codec/shape.h) of a tag with a date in its shape.
 *
 * The log's time counts. The leader puts it into the log from time to time: the median of the
 * clocks, if that is later. In between the median as this node knows it counts; without one, this
 * node's clock measures how long ago the log's time came. So wall clocks matter only by their
 * median.
 *
 * After a start the log's time may be of before the stop, hours or days ago. So no period is known
 * until the log's time has reached the median of the clocks.
 *
 * The happy path: dates_turn() in each turn; the batcher of strict requests calls dates_period()
 * for each, and the state machine gets the period with the request.
 *
 * Failure modes: 0 while the log has no present time, or if this system's time zone database lacks
 * the zone (logged, at most once a minute); then the requests wait until their deadline.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_DATES_H
#define LEAFD_SERVICE_DATES_H

#include "raft/cluster/replica.h"
#include "src/service/context.h"
#include "src/base/zone.h"
#include "src/id/codec/command.h"

struct dates {
    const struct id_context *context;
    const struct raft_context *on;
    const struct replica *replica;
    struct zones *zones; /* owned */
    bool is_registered;  /* the members are known, and so which clocks make a majority */
    bool is_present;     /* since this start, the log's time was that of the clocks */
    uint64_t log_ms;     /* the log's time when it last changed; 0: none */
    uint64_t seen_ms;    /* and when that was, by the node's clock */
    uint64_t said_ms;    /* when an unknown zone was last logged; 0: never */
};

void dates_turn(struct dates *dates);

/* 0: the tag has no date, or its present period is not known. data: struct dates. */
uint32_t dates_period(void *data, const char *name, size_t name_len);

/* Ids that the tag has left; with a date: those of this period, if at per_s ids a second they do
 * not last until its end. */
uint64_t dates_left(struct dates *dates, const struct tag_row *row, double per_s);

/* Does the put give a tag a zone that this system lacks? The leader checks before the put is in the
 * log, so that the result is the same whichever node was asked. True: `why` names the zone. known:
 * the last valid zone of this list; "" at first. */
bool dates_refuse(const struct fsm *fsm, const struct tag_put *put,
                  char known[SHAPE_ZONE_BYTES_MAX + 1], char *why, size_t size);

#endif
