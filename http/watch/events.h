/*
 * events.h - what has happened at this node, for people: the last LIMIT_EVENTS in memory.
 *
 * Each has a number, which rises by one, so that a reader sees what it has missed. Texts name
 * nodes, numbers and settings, and never a tag: whoever may read anything may read all of them.
 *
 * The happy path: events_put(), events_list() for GET /api/events and for who watches.
 *
 * Failure modes: none; the oldest go. A text that is too long is cut.
 *
 * Threads: any; a lock is taken. Nothing on the way of an id comes here.
 */
#ifndef LEAFD_HTTP_WATCH_EVENTS_H
#define LEAFD_HTTP_WATCH_EVENTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/limits.h"

enum event_kind {
    EVENT_START,      /* this node began to watch */
    EVENT_ELECTION,   /* another term, or another leader */
    EVENT_LEADERLESS, /* no leader is known */
    EVENT_MEMBER,     /* joined, left, became a voter, has another version */
    EVENT_LINK,       /* a member is reached no more, or again */
    EVENT_LEVEL,
    EVENT_REFUSAL, /* snowflake ids are refused, or served again; a peer was not believed */
    EVENT_RELOAD,  /* settings were read again, or refused */
    EVENT_SNAPSHOT,
    EVENT_ALARM,      /* an alarm begins */
    EVENT_ALARM_OVER, /* and ends */
    EVENT_KINDS
};

/* As GET /api/events shows it: "election". */
const char *event_kind_name(enum event_kind kind);

#define EVENT_TEXT_BYTES 240

struct event {
    uint64_t number;
    uint64_t wall_ms;
    enum event_kind kind;
    char text[EVENT_TEXT_BYTES];
};

struct events {
    pthread_mutex_t lock;
    uint64_t last_number; /* 0: none yet */
    struct event ring[LIMIT_EVENTS];
};

void events_init(struct events *events);
void events_free(struct events *events);

/* printf-like; the text is UTF-8, with whatever a client chose quoted. */
void events_put(struct events *events, uint64_t wall_ms, enum event_kind kind, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

uint64_t events_last(struct events *events);

/* Append {"events":[...],"next":...}: those above `after`, oldest first, at most `limit`; next:
 * what to pass as `after` for more, or null. */
void events_list(struct events *events, uint64_t after, size_t limit, struct buf *out);

#endif
