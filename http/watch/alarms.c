/*
 * alarms.c - see alarms.h: a table of alarms, each with the function that judges it.
 *
 * Thread: one owner.
 */
#include "http/watch/alarms.h"

#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/log.h"

#define ERRORS_PERCENT 1
#define CLOCK_OFF_MS 500
#define LAYOUT_ENDS_S (180ULL * 86400)
#define IMPLAUSIBLE_MS 600000
#define MAP_FILLS_PERCENT 80
#define LAG_ENTRIES 10000
#define DAY_S 86400
#define GRANTING_MS 30000 /* that a worker id may take, as the alert of Prometheus has it */
#define CERTIFICATE_ENDS_S (14 * DAY_S)

/* Does the condition hold now? Then what it is, with values, in text (ALARM_TEXT_BYTES). */
typedef bool alarm_judge(const struct alarm_facts *facts, char *text);
/* The same of one that depends on what was seen before. */
typedef bool alarm_judge_over(struct alarms *alarms, const struct alarm_facts *facts, char *text);

#define SAY(text, ...) (void)snprintf((text), ALARM_TEXT_BYTES, __VA_ARGS__)

/* --- the cluster --- */

static bool node_down(const struct alarm_facts *facts, char *text)
{
    const struct id_cluster_status *status = facts->status;
    size_t at = 0;
    unsigned count = 0;

    for (size_t i = 0; i < status->member_count; i++) {
        const struct id_member *member = &status->members[i];

        if (!member->reachable) {
            at += (size_t)snprintf(text + at, ALARM_TEXT_BYTES - at, "%s%llu (%.30s)",
                                   count++ > 0 ? ", " : "node ", ull(member->id),
                                   member->peer_address);
            at = at < ALARM_TEXT_BYTES ? at : ALARM_TEXT_BYTES - 1;
        }
    }
    if (count > 0) {
        (void)snprintf(text + at, ALARM_TEXT_BYTES - at,
                       " cannot be reached from node %llu: down or cut off", ull(status->node_id));
    }
    return count > 0;
}

static bool no_leader(const struct alarm_facts *facts, char *text)
{
    SAY(text,
        "node %llu knows no leader in term %llu: it serves the ids in its memory, and gets no "
        "more",
        ull(facts->status->node_id), ull(facts->status->term));
    return !atomic_load(&facts->health->leader_known);
}

static bool peer_implausible(struct alarms *alarms, const struct alarm_facts *facts, char *text)
{
    uint64_t count = atomic_load(&facts->health->implausible);

    if (count > alarms->implausible) {
        alarms->implausible_until = facts->now_ms + IMPLAUSIBLE_MS;
    }
    alarms->implausible = count;
    SAY(text,
        "a peer told node %llu what cannot be (%llu times since its start); nothing of it was "
        "believed",
        ull(facts->status->node_id), ull(count));
    return facts->now_ms < alarms->implausible_until;
}

static bool versions_differ(const struct alarm_facts *facts, char *text)
{
    const struct id_cluster_status *status = facts->status;
    const struct id_member *first = NULL;

    for (size_t i = 0; i < status->member_count; i++) {
        const struct id_member *member = &status->members[i];

        if (member->version[0] == '\0') {
            continue;
        }
        if (first == NULL) {
            first = member;
        } else if (strcmp(first->version, member->version) != 0) {
            SAY(text, "node %llu runs leafd %s, and node %llu runs %s", ull(first->id),
                first->version, ull(member->id), member->version);
            return true;
        }
    }
    return false;
}

static bool member_lags(const struct alarm_facts *facts, char *text)
{
    const struct id_cluster_status *status = facts->status;
    unsigned count = 0;
    size_t at = 0;

    for (size_t i = 0; i < status->member_count; i++) {
        const struct id_member *member = &status->members[i];

        if (member->lag != ID_UNKNOWN && member->lag > LAG_ENTRIES && at < ALARM_TEXT_BYTES) {
            at +=
                (size_t)snprintf(text + at, ALARM_TEXT_BYTES - at, "%snode %llu lacks %llu entries",
                                 count++ > 0 ? ", " : "", ull(member->id), ull(member->lag));
        }
    }
    if (count > 0 && at < ALARM_TEXT_BYTES) {
        (void)snprintf(text + at, ALARM_TEXT_BYTES - at, ": %s cannot take over soon",
                       count > 1 ? "they" : "it");
    }
    return count > 0;
}

/* Every member has said what it speaks, and all speak more than is in force. */
static bool level_not_raised(const struct alarm_facts *facts, char *text)
{
    const struct id_cluster_status *status = facts->status;
    unsigned level = atomic_load(&facts->health->level);
    unsigned able = UINT16_MAX;

    for (size_t i = 0; i < status->member_count; i++) {
        unsigned max = status->members[i].levels.max;

        able = max < able ? max : able;
    }
    SAY(text, "all members speak level %u, and the cluster is at level %u: the upgrade is not done",
        able, level);
    return level > 0 && status->member_count > 0 && able > level;
}

/* --- requests --- */

/* Of the last five minutes, or of as long as there were looks. */
static bool errors(struct alarms *alarms, const struct alarm_facts *facts, char *text)
{
    struct alarm_sample now = {facts->now_ms, facts->requests, facts->errors};
    uint64_t count = alarms->sample_count;
    const struct alarm_sample *oldest;
    uint64_t requests;
    uint64_t failed;

    if (count == 0 ||
        facts->now_ms - alarms->samples[(count - 1) % ALARM_SAMPLES].taken_ms >= ALARM_SAMPLE_MS) {
        alarms->samples[count % ALARM_SAMPLES] = now;
        count = ++alarms->sample_count;
    }
    oldest = &alarms->samples[count > ALARM_SAMPLES ? count % ALARM_SAMPLES : 0];
    requests = facts->requests - oldest->requests;
    failed = facts->errors - oldest->errors;
    SAY(text, "%llu of the last %llu requests were answered with 5xx", ull(failed), ull(requests));
    return failed * 100 > requests * ERRORS_PERCENT;
}

static bool requests_wait(const struct alarm_facts *facts, char *text)
{
    SAY(text,
        "%llu requests wait for ids, and some have all the time: segments are used up faster "
        "than they are granted",
        ull(facts->waiting));
    return facts->waiting > 0;
}

/* --- disk and memory --- */

static bool disk_low(const struct alarm_facts *facts, char *text)
{
    SAY(text, "the disk or the database of node %llu is nearly full: no changes are taken",
        ull(facts->status->node_id));
    return atomic_load(&facts->health->disk_low);
}

static bool map_fills(const struct alarm_facts *facts, char *text)
{
    uint64_t percent = facts->map_bytes > 0 ? facts->map_used_bytes * 100 / facts->map_bytes : 0;

    SAY(text, "the database of node %llu takes %llu %% of data.map-bytes: %llu of %llu MiB",
        ull(facts->status->node_id), ull(percent), ull(facts->map_used_bytes >> 20),
        ull(facts->map_bytes >> 20));
    return percent >= MAP_FILLS_PERCENT;
}

static uint64_t state_percent(const struct alarm_facts *facts, char *text)
{
    uint64_t max_bytes = atomic_load(&facts->health->state_max_bytes);
    uint64_t bytes = atomic_load(&facts->health->state_bytes);
    uint64_t percent = max_bytes > 0 ? bytes * 100 / max_bytes : 0;

    SAY(text, "tags and keys take %llu %% of data.memory-bytes: %llu of %llu MiB", ull(percent),
        ull(bytes >> 20), ull(max_bytes >> 20));
    return percent;
}

static bool state_high(const struct alarm_facts *facts, char *text)
{
    uint64_t percent = state_percent(facts, text);

    return percent >= ID_STATE_HIGH_PERCENT && percent < ID_STATE_NEARLY_FULL_PERCENT;
}

static bool state_nearly_full(const struct alarm_facts *facts, char *text)
{
    return state_percent(facts, text) >= ID_STATE_NEARLY_FULL_PERCENT;
}

/* --- the certificate --- */

static int64_t certificate_left_s(const struct alarm_facts *facts)
{
    return facts->certificate_until_s - (int64_t)(facts->wall_ms / 1000);
}

static bool certificate_ends(const struct alarm_facts *facts, char *text)
{
    int64_t left_s = certificate_left_s(facts);

    if (facts->certificate_until_s == 0 || left_s <= 0 || left_s >= CERTIFICATE_ENDS_S) {
        return false;
    }
    SAY(text, "the certificate of node %llu ends in %lld days and %lld hours",
        ull(facts->status->node_id), (long long)left_s / DAY_S, (long long)left_s % DAY_S / 3600);
    return true;
}

static bool certificate_ended(const struct alarm_facts *facts, char *text)
{
    SAY(text, "the certificate of node %llu has ended: clients refuse it",
        ull(facts->status->node_id));
    return facts->certificate_until_s != 0 && certificate_left_s(facts) <= 0;
}

/* --- snowflake ids --- */

/* A node that starts is granted its worker id in a moment, which is no alarm. */
static bool snowflake_refused(struct alarms *alarms, const struct alarm_facts *facts, char *text)
{
    bool granting = facts->refusal == ERR_EMPTY;

    if (!granting) {
        alarms->granting_since_ms = 0;
    } else if (alarms->granting_since_ms == 0) {
        alarms->granting_since_ms = facts->now_ms > 0 ? facts->now_ms : 1;
    }
    SAY(text, "node %llu refuses snowflake ids: %s", ull(facts->status->node_id),
        facts->refusal_text);
    return facts->refusal != 0 &&
           (!granting || facts->now_ms >= alarms->granting_since_ms + GRANTING_MS);
}

static bool clock_off(const struct alarm_facts *facts, char *text)
{
    int64_t off_ms = atomic_load(&facts->health->clock_off_ms);

    SAY(text, "the clock of node %llu is %llu ms %s the cluster's", ull(facts->status->node_id),
        ull(off_ms < 0 ? 0 - (uint64_t)off_ms : (uint64_t)off_ms),
        off_ms < 0 ? "behind" : "ahead of");
    return off_ms > CLOCK_OFF_MS || off_ms < -CLOCK_OFF_MS;
}

static bool worker_names_shared(const struct alarm_facts *facts, char *text)
{
    uint64_t names = facts->worker_names_shared;

    SAY(text, "%llu name%s %s several worker ids: as many processes are running, or were lately",
        ull(names), names == 1 ? "" : "s", names == 1 ? "holds" : "hold");
    return names > 0;
}

static bool layout_ends(const struct alarm_facts *facts, char *text)
{
    bool is_named = facts->layout_name != NULL && facts->layout_name[0] != '\0';

    SAY(text, "the layout%s%s of snowflake ids is used up in %llu days", is_named ? " " : "",
        is_named ? facts->layout_name : "", ull(facts->layout_left_s / 86400));
    return facts->layout_left_s < LAYOUT_ENDS_S;
}

/* --- the table --- */

static const struct {
    const char *name;
    const char *severity;
    const char *do_next;
    alarm_judge *judge;
    uint32_t hold_ms;             /* so long the condition has to hold */
    alarm_judge_over *judge_over; /* instead of judge; NULL: there is that */
} table[ALARMS] = {
    [ALARM_NODE_DOWN] = {"LeafdNodeDown", "critical",
                         "Look at the log of that node, and start it; if its data is lost, replace "
                         "it under a new id (docs/membership.md).",
                         node_down, 1500, NULL},
    [ALARM_NO_LEADER] = {"LeafdNoLeader", "critical",
                         "Start the nodes that are down until a majority is up, and see whether "
                         "they reach each other's peer port (docs/operations.md).",
                         no_leader, 2000, NULL},
    [ALARM_ERRORS] = {"LeafdErrors", "warning",
                      "See which code they have in the log and in /metrics; without a leader or "
                      "with a full disk there is another alarm beside this one.",
                      NULL, 120000, errors},
    [ALARM_REQUESTS_WAIT] = {"LeafdRequestsWait", "warning",
                             "Raise max_step of the busiest tags, or their step.", requests_wait,
                             60000, NULL},
    [ALARM_DISK_LOW] = {"LeafdDiskLow", "critical",
                        "Make room on the disk, or raise data.map-bytes and restart the node.",
                        disk_low, 0, NULL},
    [ALARM_STATE_HIGH] = {"LeafdStateHigh", "warning",
                          "Raise data.memory-bytes on all nodes, one after the other.", state_high,
                          0, NULL},
    [ALARM_STATE_NEARLY_FULL] = {"LeafdStateNearlyFull", "critical",
                                 "New tags are about to be refused: raise data.memory-bytes on all "
                                 "nodes, one after the other.",
                                 state_nearly_full, 0, NULL},
    [ALARM_PEER_IMPLAUSIBLE] = {"LeafdPeerImplausible", "critical",
                                "The log says which node told what: look for a disk that was put "
                                "back, or for somebody who has the peers' secret.",
                                NULL, 0, peer_implausible},
    [ALARM_SNOWFLAKE_REFUSED] = {"LeafdSnowflakeRefused", "critical",
                                 "Look at the clock of this node and at its time service "
                                 "(docs/snowflake.md says what each refusal wants).",
                                 NULL, 2000, snowflake_refused},
    [ALARM_CLOCK_OFF] = {"LeafdClockOff", "warning",
                         "See whether its time service runs: chronyc tracking, timedatectl.",
                         clock_off, 10000, NULL},
    [ALARM_WORKER_NAMES_SHARED] = {"LeafdWorkerNamesShared", "warning",
                                   "Give each process a name of its own, if you meant one process "
                                   "(docs/snowflake.md); GET /api/workers shows the names.",
                                   worker_names_shared, 120000, NULL},
    [ALARM_LAYOUT_ENDS] = {"LeafdSnowflakeLayoutEnds", "warning",
                           "Plan a layout with more bits of time, or a later epoch "
                           "(docs/snowflake.md).",
                           layout_ends, 0, NULL},
    [ALARM_VERSIONS_DIFFER] = {"LeafdVersionsDiffer", "warning",
                               "Go on with the upgrade until all nodes run one version "
                               "(docs/versions.md).",
                               versions_differ, 3600000, NULL},
    [ALARM_MAP_FILLS] = {"LeafdMapFills", "warning",
                         "Raise data.map-bytes and restart the node, in time.", map_fills, 60000,
                         NULL},
    [ALARM_MEMBER_LAGS] = {"LeafdMemberLags", "warning",
                           "Look at its disk, its processor and the link to it; a snapshot may be "
                           "on its way.",
                           member_lags, 120000, NULL},
    [ALARM_CERTIFICATE_ENDS] = {"LeafdCertificateEnds", "warning",
                                "Put a new one in its place, and send SIGHUP.", certificate_ends, 0,
                                NULL},
    [ALARM_CERTIFICATE_ENDED] = {"LeafdCertificateEnded", "critical",
                                 "Put a new one in its place, and send SIGHUP.", certificate_ended,
                                 0, NULL},
    [ALARM_LEVEL_NOT_RAISED] = {"LeafdLevelNotRaised", "warning",
                                "Finish the upgrade: POST /api/cluster/level (docs/versions.md).",
                                level_not_raised, 86400000, NULL},
};

const char *alarm_name(enum alarm_name name)
{
    ASSERT(name < ALARMS);
    return table[name].name;
}

/* Into the log, too: events are forgotten, and nobody may have asked for them. */
static void log_alarm(enum alarm_name name, bool begins, const char *alarm)
{
    char text[ALARM_TEXT_BYTES * 2];

    log_line(begins ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "watch",
             begins ? "an alarm begins" : "an alarm is over", "alarm=%s severity=%s text=%s",
             table[name].name, table[name].severity,
             log_quote(alarm, strlen(alarm), text, sizeof text));
}

static void judge_alarm(enum alarm_name name, struct alarms *alarms,
                        const struct alarm_facts *facts, struct events *events)
{
    struct alarm *alarm = &alarms->items[name];
    char text[ALARM_TEXT_BYTES] = "";

    if (!(table[name].judge != NULL ? table[name].judge(facts, text)
                                    : table[name].judge_over(alarms, facts, text))) {
        if (alarm->begun) {
            events_put(events, facts->wall_ms, EVENT_ALARM_OVER, "%s is over", table[name].name);
            log_alarm(name, false, alarm->text);
        }
        *alarm = (struct alarm){0};
        return;
    }
    memcpy(alarm->text, text, sizeof text);
    if (alarm->true_since_ms == 0) {
        alarm->true_since_ms = facts->now_ms > 0 ? facts->now_ms : 1;
        alarm->since_wall_ms = facts->wall_ms;
    }
    if (!alarm->begun && facts->now_ms >= alarm->true_since_ms + table[name].hold_ms) {
        alarm->begun = true;
        events_put(events, facts->wall_ms, EVENT_ALARM, "%s: %s", table[name].name, text);
        log_alarm(name, true, text);
    }
}

void alarms_look(struct alarms *alarms, const struct alarm_facts *facts, struct events *events)
{
    for (unsigned i = 0; i < ALARMS; i++) {
        judge_alarm((enum alarm_name)i, alarms, facts, events);
    }
}

static void put_alarm(const struct alarm *alarm, unsigned i, struct buf *json)
{
    char time[TEXT_TIME_BYTES];

    buf_printf(json, "{\"name\":\"%s\",\"severity\":\"%s\",\"since\":\"%s\"", table[i].name,
               table[i].severity, text_time_rfc3339(alarm->since_wall_ms, time));
    text_put_field(json, ",\"text\":", alarm->text);
    text_put_field(json, ",\"do\":", table[i].do_next);
    buf_printf(json, "}");
}

void alarms_put(const struct alarms *alarms, struct buf *json)
{
    static const char *const severities[] = {"critical", "warning"};
    const char *comma = "";

    buf_printf(json, "[");
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned i = 0; i < ALARMS; i++) {
            if (alarms->items[i].begun && strcmp(table[i].severity, severities[s]) == 0) {
                buf_printf(json, "%s", comma);
                put_alarm(&alarms->items[i], i, json);
                comma = ",";
            }
        }
    }
    buf_printf(json, "]");
}
