/*
 * events.c - see events.h. Threads: any.
 */
#include "http/watch/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[EVENT_KINDS] = {
        [EVENT_START] = "start",
        [EVENT_ELECTION] = "election",
        [EVENT_LEADERLESS] = "leaderless",
        [EVENT_MEMBER] = "member",
        [EVENT_LINK] = "link",
        [EVENT_LEVEL] = "level",
        [EVENT_REFUSAL] = "refusal",
        [EVENT_RELOAD] = "reload",
        [EVENT_SNAPSHOT] = "snapshot",
        [EVENT_ALARM] = "alarm",
        [EVENT_ALARM_OVER] = "alarm_over",
    };

    ASSERT(kind < EVENT_KINDS);
    return names[kind];
}

void events_init(struct events *events)
{
    memset(events, 0, sizeof *events);
    ASSERT(pthread_mutex_init(&events->lock, NULL) == 0);
}

void events_free(struct events *events)
{
    ASSERT(pthread_mutex_destroy(&events->lock) == 0);
}

void events_put(struct events *events, uint64_t wall_ms, enum event_kind kind, const char *format,
                ...)
{
    struct event *event;
    va_list args;

    ASSERT(kind < EVENT_KINDS);
    ASSERT(pthread_mutex_lock(&events->lock) == 0);
    event = &events->ring[events->last_number++ % LIMIT_EVENTS];
    event->number = events->last_number;
    event->wall_ms = wall_ms;
    event->kind = kind;
    va_start(args, format);
    (void)vsnprintf(event->text, sizeof event->text, format, args);
    va_end(args);
    ASSERT(pthread_mutex_unlock(&events->lock) == 0);
}

uint64_t events_last(struct events *events)
{
    uint64_t last;

    ASSERT(pthread_mutex_lock(&events->lock) == 0);
    last = events->last_number;
    ASSERT(pthread_mutex_unlock(&events->lock) == 0);
    return last;
}

static void put_event(const struct event *event, struct buf *out)
{
    char time[TEXT_TIME_BYTES];

    buf_printf(out, "{\"number\":%llu,\"time\":\"%s\",\"kind\":\"%s\"", ull(event->number),
               text_time_rfc3339(event->wall_ms, time), event_kind_name(event->kind));
    text_put_field(out, ",\"text\":", event->text);
    buf_printf(out, "}");
}

void events_list(struct events *events, uint64_t after, size_t limit, struct buf *out)
{
    uint64_t first;
    uint64_t count;

    ASSERT(limit > 0);
    ASSERT(pthread_mutex_lock(&events->lock) == 0);
    first = events->last_number > LIMIT_EVENTS ? events->last_number - LIMIT_EVENTS : 0;
    first = after > first ? after : first; /* the one before the first */
    count = events->last_number > first ? events->last_number - first : 0;
    buf_printf(out, "{\"events\":[");
    for (uint64_t i = 0; i < count && i < limit; i++) {
        buf_printf(out, "%s", i > 0 ? "," : "");
        put_event(&events->ring[(first + i) % LIMIT_EVENTS], out);
    }
    text_put_number(out, "],\"next\":", count > limit ? first + limit : TEXT_UNKNOWN);
    buf_printf(out, "}");
    ASSERT(pthread_mutex_unlock(&events->lock) == 0);
}
