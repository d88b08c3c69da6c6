/*
 * dates.h - which period (src/id/codec/shape.h) it is now for a tag with a date in its shape.
 *
 * It is the log's time that counts. The leader puts that into the log now and then; in between this
 * node's clock carries it on, which measures how long it is ago and nothing else. So clocks on the
 * wall decide no more than they do for the log's time: their median.
 *
 * The happy path: dates_turn() in each turn; the batcher of strict requests asks dates_period() for
 * each, which is told to the state machine with the request.
 *
 * Failure modes: 0 while the log has no time, or where this system's time zone database does not
 * know the zone (logged, once a minute at most); then the requests wait until their deadline.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_DATES_H
#define LEAFD_SERVICE_DATES_H

#include "src/service/context.h"
#include "src/base/zone.h"
#include "src/id/codec/command.h"

struct dates {
    const struct id_context *context;
    const struct raft_context *on;
    struct zones *zones; /* owned */
    uint64_t log_ms;     /* the log's time when it was last seen to change; 0: it has none */
    uint64_t seen_ms;    /* and when that was, by the node's clock */
    uint64_t said_ms;    /* when a zone was last complained of; 0: never */
};

void dates_init(struct dates *dates, const struct id_context *context);
void dates_free(struct dates *dates);

void dates_turn(struct dates *dates);

/* 0: the tag has no date, or what it is now is not known. data: struct dates. */
uint32_t dates_period(void *data, const char *name, size_t name_len);

/* Ids that the tag has left: of one with a date those of this period, if at so many a second they
 * do not last until it ends. */
uint64_t dates_left(struct dates *dates, const struct tag_row *row, double per_s);

/* Does the put give a name a zone that this system does not have? The leader asks before it is in
 * the log, so that it is judged the same whatever node was asked. True: why says so. known: the
 * last zone that was good, of those of one list; "" before. */
bool dates_refuse(const struct fsm *fsm, const struct tag_put *put,
                  char known[SHAPE_ZONE_BYTES_MAX + 1], char *why, size_t size);

#endif
