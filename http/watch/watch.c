/*
 * watch.c - see watch.h. Alarms are a table, each with the function that judges it. Threads: as
 * said there.
 */
#include "http/watch/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/log.h"

/* --- events --- */

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
        const struct event *event = &events->ring[(first + i) % LIMIT_EVENTS];

        buf_printf(out, "%s{\"number\":%llu,\"time\":\"%s\",\"kind\":\"%s\"", i > 0 ? "," : "",
                   ull(event->number), TEXT_TIME(event->wall_ms), event_kind_name(event->kind));
        text_put_field(out, ",\"text\":", event->text);
        buf_printf(out, "}");
    }
    text_put_number(out, "],\"next\":", count > limit ? first + limit : TEXT_UNKNOWN);
    buf_printf(out, "}");
    ASSERT(pthread_mutex_unlock(&events->lock) == 0);
}

/* --- the cost of the next failure --- */

void quorum_of(const struct id_cluster_status *status, struct quorum *ret_quorum)
{
    *ret_quorum = (struct quorum){0};
    ASSERT(status->member_count <= LIMIT_NODES);
    for (size_t i = 0; i < status->member_count; i++) {
        if (strcmp(status->members[i].role, "voter") == 0) {
            ret_quorum->voters++;
            ret_quorum->reachable += status->members[i].reachable;
        }
    }
    ret_quorum->needed = ret_quorum->voters / 2 + 1;
    ret_quorum->survives_next_failure =
        ret_quorum->voters > 0 && ret_quorum->reachable > ret_quorum->needed;
    if (ret_quorum->voters == 0) {
        (void)snprintf(ret_quorum->text, sizeof ret_quorum->text,
                       "this node does not know the members of its cluster yet");
    } else if (ret_quorum->reachable < ret_quorum->needed) {
        (void)snprintf(ret_quorum->text, sizeof ret_quorum->text,
                       "%u of %u voters can be reached and %u are needed: no change is possible, "
                       "and ids last only as long as those in memory",
                       ret_quorum->reachable, ret_quorum->voters, ret_quorum->needed);
    } else if (ret_quorum->voters == 1) {
        (void)snprintf(ret_quorum->text, sizeof ret_quorum->text,
                       "this is the only voter: when it fails, all is out of service");
    } else if (!ret_quorum->survives_next_failure) {
        (void)snprintf(ret_quorum->text, sizeof ret_quorum->text,
                       "%u of %u voters can be reached, which is just enough: when the next one "
                       "fails, no change is possible, and ids last only as long as those in memory",
                       ret_quorum->reachable, ret_quorum->voters);
    } else {
        (void)snprintf(ret_quorum->text, sizeof ret_quorum->text,
                       "%u of %u voters can be reached: %u more may fail", ret_quorum->reachable,
                       ret_quorum->voters, ret_quorum->reachable - ret_quorum->needed);
    }
}

/* --- events out of two looks --- */

/* The destination of a look's events. */
struct look {
    struct events *events;
    uint64_t wall_ms;
};

#define NOTE(look, kind, ...) events_put((look)->events, (look)->wall_ms, (kind), __VA_ARGS__)

/* --- members --- */

static const struct id_member *find_member(const struct id_cluster_status *status, uint64_t id)
{
    for (size_t i = 0; i < status->member_count; i++) {
        if (status->members[i].id == id) {
            return &status->members[i];
        }
    }
    return NULL;
}

static void event_members(const struct look *look, const struct id_cluster_status *before,
                          const struct id_cluster_status *now)
{
    for (size_t i = 0; i < now->member_count; i++) {
        const struct id_member *member = &now->members[i];
        const struct id_member *old = find_member(before, member->id);
        unsigned long long id = member->id;

        if (old == NULL) {
            NOTE(look, EVENT_MEMBER, "node %llu is a member, as a %s", id, member->role);
            continue;
        }
        if (strcmp(old->role, member->role) != 0) {
            NOTE(look, EVENT_MEMBER, "node %llu is a %s now", id, member->role);
        }
        if (strcmp(old->version, member->version) != 0 && old->version[0] != '\0') {
            NOTE(look, EVENT_MEMBER, "node %llu runs leafd %s", id, member->version);
        }
        if (strcmp(old->peer_address, member->peer_address) != 0) {
            NOTE(look, EVENT_MEMBER, "node %llu is reached at %s", id, member->peer_address);
        }
        if (old->placement.drained != member->placement.drained) {
            NOTE(look, EVENT_MEMBER,
                 member->placement.drained ? "node %llu is drained" : "node %llu takes work again",
                 id);
        }
        if (old->placement.weight != member->placement.weight) {
            NOTE(look, EVENT_MEMBER, "node %llu has weight %u", id, member->placement.weight);
        }
        if (old->reachable != member->reachable) {
            NOTE(look, EVENT_LINK,
                 member->reachable ? "node %llu is reached" : "node %llu cannot be reached", id);
        }
    }
    for (size_t i = 0; i < before->member_count; i++) {
        if (find_member(now, before->members[i].id) == NULL) {
            NOTE(look, EVENT_MEMBER, "node %llu is no longer a member", ull(before->members[i].id));
        }
    }
    if (now->change.kind != NULL &&
        (before->change.kind == NULL || before->change.node_id != now->change.node_id ||
         strcmp(before->change.state, now->change.state) != 0)) {
        NOTE(look, EVENT_MEMBER,
             strcmp(now->change.state, "given_up") == 0
                 ? "the change \"%s node %llu\" was given up"
                 : "the change \"%s node %llu\" is under way",
             now->change.kind, ull(now->change.node_id));
    }
}

/* --- the rest --- */

void changes_look(struct changes *changes, const struct id_cluster_status *status,
                  const struct changes_counts *counts, uint64_t wall_ms, struct events *events)
{
    const struct look look = {.events = events, .wall_ms = wall_ms};
    const struct id_cluster_status *before = &changes->status;
    const struct changes_counts *past = &changes->counts;

    ASSERT(status->member_count <= LIMIT_NODES);
    if (!changes->seen && status->leader_id == 0) {
        NOTE(&look, EVENT_START, "node %llu is up; no leader is known yet", ull(status->node_id));
    } else if (!changes->seen) {
        NOTE(&look, EVENT_START, "node %llu is up; node %llu leads in term %llu",
             ull(status->node_id), ull(status->leader_id), ull(status->term));
    } else {
        if (status->leader_id == 0 && before->leader_id != 0) {
            NOTE(&look, EVENT_LEADERLESS, "no leader is known any more; node %llu led in term %llu",
                 ull(before->leader_id), ull(before->term));
        } else if (status->leader_id != before->leader_id) {
            NOTE(&look, EVENT_ELECTION, "node %llu leads in term %llu%s", ull(status->leader_id),
                 ull(status->term), status->leader_id == status->node_id ? ": this node" : "");
        } else if (status->leader_id != 0 && status->term != before->term) {
            NOTE(&look, EVENT_ELECTION, "node %llu leads again, in term %llu after term %llu",
                 ull(status->leader_id), ull(status->term), ull(before->term));
        }
        event_members(&look, before, status);
        if (status->level.level != before->level.level) {
            NOTE(&look, EVENT_LEVEL, "the level of the cluster is %u", status->level.level);
        }
        if (counts->reloads_done != past->reloads_done) {
            NOTE(&look, EVENT_RELOAD, "the settings were read again");
        }
        if (counts->reloads_refused != past->reloads_refused) {
            NOTE(&look, EVENT_RELOAD, "new settings were refused; the log says why");
        }
        if (counts->implausible != past->implausible) {
            NOTE(&look, EVENT_REFUSAL,
                 "a peer sent an impossible value, which had no effect (%llu times)",
                 ull(counts->implausible - past->implausible));
        }
        if (counts->snapshots != past->snapshots) {
            NOTE(&look, EVENT_SNAPSHOT, "a snapshot of the leader was installed");
        }
        if (counts->refusal != past->refusal && counts->refusal == 0) {
            NOTE(&look, EVENT_REFUSAL, "snowflake ids are served");
        } else if (counts->refusal != past->refusal) {
            NOTE(&look, EVENT_REFUSAL, "snowflake ids are refused: %s", err_code(counts->refusal));
        }
    }
    changes->seen = true;
    changes->status = *status;
    changes->counts = *counts;
}

/* --- alarms --- */

#define IMPLAUSIBLE_MS 600000
#define MAP_FILLS_PERCENT 80
#define DAY_S 86400
#define GRANTING_MS 30000 /* the most that a worker id may take, as in the alert of Prometheus */

/* Does the condition hold now? Then text (ALARM_TEXT_BYTES) says what it is, with values. */
typedef bool alarm_judge(const struct alarm_facts *facts, char *text);

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

static bool peer_implausible(const struct alarm_facts *facts, char *text)
{
    struct alarms *alarms = facts->alarms;
    uint64_t count = atomic_load(&facts->health->implausible);

    if (count > alarms->implausible) {
        alarms->implausible_until = facts->now_ms + IMPLAUSIBLE_MS;
    }
    alarms->implausible = count;
    SAY(text,
        "a peer sent node %llu impossible values (%llu times since its start); they had no effect",
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

        if (member->lag != ID_UNKNOWN && member->lag > ALARM_LAG_ENTRIES && at < ALARM_TEXT_BYTES) {
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

/* Every member has reported its levels, and all have a higher one than is in force. */
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

/* Over the last five minutes, or as long as there were looks. */
static bool errors(const struct alarm_facts *facts, char *text)
{
    struct alarms *alarms = facts->alarms;
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
    return failed * 100 > requests * ALARM_ERRORS_PERCENT;
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
    const struct id_disk_figures *disk = &facts->figures->disk;

    if (disk->bound == NULL && disk->stood_s > 0) {
        SAY(text, "the disk of node %llu stands still: no write has ended for %llu s",
            ull(facts->status->node_id), ull(disk->stood_s));
    } else {
        SAY(text, "%s of node %llu is nearly full: no changes are taken",
            disk->bound != NULL ? disk->bound : "the disk or the database",
            ull(facts->status->node_id));
    }
    return atomic_load(&facts->health->disk_low);
}

static bool cover_short(const struct alarm_facts *facts, char *text)
{
    uint64_t count = facts->figures->covers_short;

    SAY(text,
        "what node %llu holds of %llu tag%s lasts less than the tag's cover_s, also after "
        "refills",
        ull(facts->status->node_id), ull(count), count == 1 ? "" : "s");
    return count > 0;
}

static bool map_fills(const struct alarm_facts *facts, char *text)
{
    const struct id_disk_figures *disk = &facts->figures->disk;
    uint64_t percent = disk->map_bytes > 0 ? disk->used_bytes * 100 / disk->map_bytes : 0;

    SAY(text, "the database of node %llu takes %llu %% of data.map-bytes: %llu of %llu MiB",
        ull(facts->status->node_id), ull(percent), ull(disk->used_bytes >> 20),
        ull(disk->map_bytes >> 20));
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

/* Which of the certificates end soon, or have ended? */
static bool certificate_judge(const struct alarm_facts *facts, bool ended, char *text)
{
    const int64_t until_s[] = {facts->certificate_until_s, facts->peer_until_s};
    size_t len = 0;

    for (size_t i = 0; i < COUNT_OF(until_s); i++) {
        int64_t left_s = until_s[i] - (int64_t)(facts->wall_ms / 1000);
        const char *also = len > 0 ? ", and " : "";

        if (until_s[i] == 0 || ended != (left_s <= 0) ||
            left_s >= ALARM_CERTIFICATE_ENDS_DAYS * DAY_S) {
            continue;
        }
        if (ended) {
            (void)snprintf(text + len, ALARM_TEXT_BYTES - len,
                           "%sthe certificate of node %llu has ended: %s refuse it", also,
                           ull(facts->status->node_id), i == 0 ? "clients" : "other nodes");
        } else {
            (void)snprintf(text + len, ALARM_TEXT_BYTES - len,
                           "%sthe certificate of node %llu%s ends in %lld days and %lld hours",
                           also, ull(facts->status->node_id), i == 0 ? "" : " for other nodes",
                           (long long)left_s / DAY_S, (long long)left_s % DAY_S / 3600);
        }
        len = strlen(text);
    }
    return len > 0;
}

static bool certificate_ends(const struct alarm_facts *facts, char *text)
{
    return certificate_judge(facts, false, text);
}

static bool certificate_ended(const struct alarm_facts *facts, char *text)
{
    return certificate_judge(facts, true, text);
}

/* --- snowflake ids --- */

/* A starting node waits a moment for its worker id, which is no alarm. */
static bool snowflake_refused(const struct alarm_facts *facts, char *text)
{
    struct alarms *alarms = facts->alarms;
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
    return off_ms > ALARM_CLOCK_OFF_MS || off_ms < -ALARM_CLOCK_OFF_MS;
}

static bool worker_names_shared(const struct alarm_facts *facts, char *text)
{
    uint64_t names = facts->figures->worker_names_shared;

    SAY(text, "%llu name%s %s several worker ids: as many processes are running, or were lately",
        ull(names), names == 1 ? "" : "s", names == 1 ? "holds" : "hold");
    return names > 0;
}

static bool layout_ends(const struct alarm_facts *facts, char *text)
{
    bool is_named = facts->layout_name[0] != '\0';

    SAY(text, "the layout%s%s of snowflake ids is used up in %llu days", is_named ? " " : "",
        facts->layout_name, ull(facts->layout_left_s / 86400));
    return facts->layout_left_s < ALARM_LAYOUT_ENDS_DAYS * 86400ULL;
}

/* --- the table --- */

#define ALARM(id, alarm, severity_, judged_by, hold, next, ...)                                    \
    [ALARM_##id] = {.name = (alarm),                                                               \
                    .severity = (severity_),                                                       \
                    .judge = (judged_by),                                                          \
                    .hold_ms = (hold),                                                             \
                    .do_next = (next)},
#define ALERT(...)

static const struct {
    const char *name;
    const char *severity;
    const char *do_next;
    alarm_judge *judge;
    uint32_t hold_ms; /* the condition must hold for this long */
} table[ALARMS] = {
#include "http/watch/alarms.def"
};

/* Logged, too: events are dropped, perhaps before they are read. */
static void log_alarm(enum alarm_name name, bool begins, const char *alarm)
{
    char text[ALARM_TEXT_BYTES * 2];

    log_line(begins ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "watch",
             begins ? "an alarm begins" : "an alarm is over", "alarm=%s severity=%s text=%s",
             table[name].name, table[name].severity,
             log_quote(alarm, strlen(alarm), text, sizeof text));
}

void alarms_look(const struct alarm_facts *facts, struct events *events)
{
    struct alarms *alarms = facts->alarms;
    uint64_t past_ms = facts->now_ms - alarms->looked_ms;
    uint64_t unseen_ms = past_ms > 2 * WATCH_MS ? past_ms - WATCH_MS : 0;

    alarms->looked_ms = facts->now_ms;
    alarms->granting_since_ms += alarms->granting_since_ms > 0 ? unseen_ms : 0;
    for (enum alarm_name name = 0; name < ALARMS; name++) {
        struct alarm *alarm = &alarms->items[name];
        char text[ALARM_TEXT_BYTES] = "";

        if (!table[name].judge(facts, text)) {
            if (alarm->begun) {
                events_put(events, facts->wall_ms, EVENT_ALARM_OVER, "%s is over",
                           table[name].name);
                log_alarm(name, false, alarm->text);
            }
            *alarm = (struct alarm){0};
            continue;
        }
        memcpy(alarm->text, text, sizeof text);
        if (alarm->true_since_ms == 0) {
            alarm->true_since_ms = facts->now_ms > 0 ? facts->now_ms : 1;
            alarm->since_wall_ms = facts->wall_ms;
        } else {
            alarm->true_since_ms += unseen_ms;
        }
        if (!alarm->begun && facts->now_ms >= alarm->true_since_ms + table[name].hold_ms) {
            alarm->begun = true;
            events_put(events, facts->wall_ms, EVENT_ALARM, "%s: %s", table[name].name, text);
            log_alarm(name, true, text);
        }
    }
}

void alarms_put(const struct alarms *alarms, struct buf *json)
{
    static const char *const severities[] = {"critical", "warning"};
    const char *comma = "";

    buf_printf(json, "[");
    for (unsigned i = 0; i < 2 * ALARMS; i++) {
        const struct alarm *alarm = &alarms->items[i % ALARMS];
        const char *severity = severities[i / ALARMS];

        if (alarm->begun && strcmp(table[i % ALARMS].severity, severity) == 0) {
            buf_printf(json, "%s{\"name\":\"%s\",\"severity\":\"%s\",\"since\":\"%s\"", comma,
                       table[i % ALARMS].name, severity, TEXT_TIME(alarm->since_wall_ms));
            text_put_field(json, ",\"text\":", alarm->text);
            text_put_field(json, ",\"do\":", table[i % ALARMS].do_next);
            buf_printf(json, "}");
            comma = ",";
        }
    }
    buf_printf(json, "]");
}
