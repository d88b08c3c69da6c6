/*
 * alarms.h - what is wrong, as one node sees it: since when, with which values, and what to do.
 *
 * The names are those of the alerts in scripts/compose/rules.yml, which Prometheus judges over all
 * nodes and longer times; here a node judges by itself what it knows, so that somebody without
 * Prometheus sees it, too. Each alarm has a time for which its condition has to hold first. What
 * takes hours of history or all nodes to judge (burn rates, forecasts of the disk, tags that end,
 * backups, which any node may take) stays with Prometheus.
 *
 * The happy path: alarms_look() once a second with the facts; alarms_put() for whoever asks.
 *
 * Failure modes: none; there is at most one alarm of a name. Looks that come late see less.
 *
 * Thread: one owner.
 */
#ifndef LEAFD_HTTP_WATCH_ALARMS_H
#define LEAFD_HTTP_WATCH_ALARMS_H

#include "http/watch/events.h"
#include "src/base/buf.h"
#include "src/id/backend/id_backend.h"

enum alarm_name {
    ALARM_NODE_DOWN,
    ALARM_NO_LEADER,
    ALARM_ERRORS,
    ALARM_REQUESTS_WAIT,
    ALARM_DISK_LOW,
    ALARM_STATE_HIGH,
    ALARM_STATE_NEARLY_FULL,
    ALARM_PEER_IMPLAUSIBLE,
    ALARM_SNOWFLAKE_REFUSED,
    ALARM_CLOCK_OFF,
    ALARM_WORKER_NAMES_SHARED,
    ALARM_LAYOUT_ENDS,
    ALARM_VERSIONS_DIFFER,
    ALARM_MAP_FILLS,
    ALARM_MEMBER_LAGS,
    ALARM_CERTIFICATE_ENDS,
    ALARM_CERTIFICATE_ENDED,
    ALARM_LEVEL_NOT_RAISED,
    ALARMS
};

#define ALARM_TEXT_BYTES 360

/* What a look sees. */
struct alarm_facts {
    uint64_t now_ms; /* monotonic */
    uint64_t wall_ms;
    const struct id_cluster_status *status;
    const struct id_health *health;
    uint64_t requests; /* answered since the start, */
    uint64_t errors;   /* and of these with 5xx */
    uint64_t waiting;  /* requests that wait for ids, now */
    int refusal;       /* of snowflake ids: 0 or an ERR_* */
    const char *refusal_text;
    uint64_t layout_left_s;      /* of snowflake ids, that ends first; ID_UNKNOWN: not known */
    const char *layout_name;     /* of that layout; "" or NULL: the cluster's own */
    int64_t certificate_until_s; /* wall time; 0: there is none */
    uint64_t map_bytes;          /* what the database may take; 0: not known */
    uint64_t map_used_bytes;
    uint64_t worker_names_shared; /* names under which several worker ids are held */
};

struct alarm {
    uint64_t true_since_ms; /* monotonic; 0: the condition does not hold */
    uint64_t since_wall_ms;
    bool begun; /* it has held for long enough */
    char text[ALARM_TEXT_BYTES];
};

/* How many requests were answered at a time. */
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
    uint64_t implausible;       /* as of the last look */
    uint64_t implausible_until; /* monotonic: so long that alarm holds; 0: not */
    uint64_t granting_since_ms; /* monotonic: the first worker id is waited for; 0: it is not */
};

/* "LeafdNodeDown", as the alert of Prometheus. */
const char *alarm_name(enum alarm_name name);

/* Judge; what begins and what ends is put into events. */
void alarms_look(struct alarms *alarms, const struct alarm_facts *facts, struct events *events);

/* Append [{"name":...,"severity":...,"since":...,"text":...,"do":...},...], critical ones first. */
void alarms_put(const struct alarms *alarms, struct buf *json);

#endif
