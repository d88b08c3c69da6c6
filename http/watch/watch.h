/*
 * watch.h - what a node knows of itself and its cluster, for people: events, alarms, and the cost
 * of the next failure.
 *
 * Events are the last LIMIT_EVENTS things that happened, in memory. Each has a number, which rises
 * by one, so that a reader sees what it has missed. Texts name nodes, numbers and settings, and
 * never a tag: any client with the role read may read all of them. Changes between two looks show
 * only by their result: two elections are one line with both terms.
 *
 * Alarms say what is wrong: since when, with which values, and what to do. One table (alarms.def)
 * has all alarms and all alerts of Prometheus, which judges over all nodes and longer times: what
 * needs these is left to it. A node judges by its own data alone, so that an operator without
 * Prometheus sees alarms, too. Each alarm has a time for which its condition must hold first; time
 * without looks, as where the machine stood still, does not count.
 *
 * The happy path, once a second: changes_look(), then alarms_look() with the facts; both add
 * events. alarms_put(), events_list() and quorum_of() show them.
 *
 * Failure modes: none. The oldest events are dropped, a text that is too long is cut, there is at
 * most one alarm of a name, and late looks see less.
 *
 * Threads: events: any, with a lock; the rest has one owner. No path of an id uses it.
 */
#ifndef LEAFD_HTTP_WATCH_WATCH_H
#define LEAFD_HTTP_WATCH_WATCH_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/id/backend/id_backend.h"

#define WATCH_MS 1000 /* from one look to the next */

/* --- events --- */

enum event_kind {
    EVENT_START,      /* this node began to watch */
    EVENT_ELECTION,   /* another term, or another leader */
    EVENT_LEADERLESS, /* no leader is known */
    EVENT_MEMBER,     /* joined, left, became a voter, has another version */
    EVENT_LINK,       /* a member is no longer reached, or again */
    EVENT_LEVEL,
    EVENT_REFUSAL, /* snowflake ids are refused, or served again; a peer sent implausible data */
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

/* The owner sets all to zeros, makes the lock and destroys it. */
struct events {
    pthread_mutex_t lock;
    uint64_t last_number; /* 0: none yet */
    struct event ring[LIMIT_EVENTS];
};

/* printf-like; the text is UTF-8, with values chosen by clients quoted. */
void events_put(struct events *events, uint64_t wall_ms, enum event_kind kind, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

uint64_t events_last(struct events *events);

/* Append {"events":[...],"next":...}: those above `after`, oldest first, at most `limit`; next:
 * what to pass as `after` for more, or null. */
void events_list(struct events *events, uint64_t after, size_t limit, struct buf *out);

/* --- the cost of the next failure --- */

#define QUORUM_TEXT_BYTES 200

struct quorum {
    unsigned voters;
    unsigned needed;    /* more than half of the voters */
    unsigned reachable; /* voters that this node has a link to, itself counted */
    bool survives_next_failure;
    char text[QUORUM_TEXT_BYTES]; /* all of the above as a sentence */
};

void quorum_of(const struct id_cluster_status *status, struct quorum *ret_quorum);

/* --- events out of two looks --- */

/* Compared beside the status. */
struct changes_counts {
    uint64_t reloads_done; /* of the settings */
    uint64_t reloads_refused;
    uint64_t implausible; /* implausible data from peers */
    uint64_t snapshots;   /* installed here */
    int refusal;          /* of snowflake ids: 0 or an ERR_* */
};

struct changes {
    bool seen; /* there was a look before */
    struct id_cluster_status status;
    struct changes_counts counts;
};

/* Put what has changed since the last look into events. */
void changes_look(struct changes *changes, const struct id_cluster_status *status,
                  const struct changes_counts *counts, uint64_t wall_ms, struct events *events);

/* --- alarms --- */

/* Limits, the same as in the alerts of Prometheus. */
#define ALARM_ERRORS_PERCENT 1
#define ALARM_CLOCK_OFF_MS 500
#define ALARM_LAYOUT_ENDS_DAYS 180
#define ALARM_LAG_ENTRIES 10000
#define ALARM_CERTIFICATE_ENDS_DAYS 14

enum alarm_name {
#define ALARM(id, ...) ALARM_##id,
#define ALERT(...)
#include "http/watch/alarms.def"
#undef ALARM
#undef ALERT
    ALARMS
};

#define ALARM_TEXT_BYTES 360

/* The input of a look. */
struct alarm_facts {
    struct alarms *alarms; /* as of the last look; this one changes them */
    uint64_t now_ms;       /* monotonic */
    uint64_t wall_ms;
    const struct id_cluster_status *status;
    const struct id_health *health;
    const struct id_figures *figures; /* zeros: nothing is measured */
    uint64_t requests;                /* answered since the start, */
    uint64_t errors;                  /* and of these with 5xx */
    uint64_t waiting;                 /* requests that wait for ids, now */
    int refusal;                      /* of snowflake ids: 0 or an ERR_* */
    const char *refusal_text;
    uint64_t layout_left_s;      /* of the snowflake layout that ends first; or ID_UNKNOWN */
    const char *layout_name;     /* of that layout; "": the cluster's own */
    int64_t certificate_until_s; /* for clients; wall time; 0: there is none */
    int64_t peer_until_s;        /* for other nodes, likewise */
};

struct alarm {
    uint64_t true_since_ms; /* monotonic; 0: the condition does not hold */
    uint64_t since_wall_ms;
    bool begun; /* the condition has held long enough */
    char text[ALARM_TEXT_BYTES];
};

/* How many requests were answered up to a time. */
struct alarm_sample {
    uint64_t taken_ms;
    uint64_t requests;
    uint64_t errors;
};

#define ALARM_SAMPLES 30 /* of ALARM_SAMPLE_MS each: the share of errors is of 5 minutes */
#define ALARM_SAMPLE_MS 10000

struct alarms {
    struct alarm items[ALARMS];
    struct alarm_sample samples[ALARM_SAMPLES];
    uint64_t sample_count;      /* taken so far */
    uint64_t looked_ms;         /* the last look; monotonic */
    uint64_t implausible;       /* as of the last look */
    uint64_t implausible_until; /* monotonic: the alarm holds until then; 0: not */
    uint64_t granting_since_ms; /* monotonic: waiting for the first worker id; 0: not */
};

/* Judge; add events for alarms that begin or end. */
void alarms_look(const struct alarm_facts *facts, struct events *events);

/* Append [{"name":...,"severity":...,"since":...,"text":...,"do":...},...], critical ones first. */
void alarms_put(const struct alarms *alarms, struct buf *json);

#endif
