/*
 * opinion.c - see opinion.h. Thread: any.
 */
#include "src/ctl/cmd/opinion.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/text.h"

/* --- voters --- */

static void count_voters(const json_t *status, struct quorum *quorum)
{
    int64_t self = field_number(status, "node_id", 0);

    for (size_t i = 0; i < field_count(status, "members"); i++) {
        const json_t *member = field_item(status, "members", i);

        if (field_is(member, "role", "voter")) {
            quorum->voters++;
            quorum->reachable +=
                field_number(member, "id", 0) == self || field_true(member, "reachable");
        }
    }
}

static void quorum_describe(struct quorum *quorum)
{
    const char *next = quorum->reachable < quorum->needed
                           ? "too few: no change is made, and held ids run out"
                       : quorum->survives_next_failure ? "survives the next failure"
                                                       : "the next failure stops it";

    (void)snprintf(quorum->text, sizeof quorum->text,
                   "%" PRId64 " of %" PRId64 " voters reached, %" PRId64 " needed: %s",
                   quorum->reachable, quorum->voters, quorum->needed, next);
}

void quorum_of(const json_t *status, struct quorum *ret)
{
    const json_t *told = json_object_get(status, "quorum");
    const char *text = field_text(told, "text");

    *ret = (struct quorum){0};
    count_voters(status, ret);
    ret->needed = field_number(told, "needed", ret->voters / 2 + 1);
    ret->reachable = field_number(told, "reachable", ret->reachable);
    ret->survives_next_failure = json_is_boolean(json_object_get(told, "survives_next_failure"))
                                     ? field_true(told, "survives_next_failure")
                                     : ret->reachable > ret->needed;
    if (text != NULL && *text != '\0') {
        (void)snprintf(ret->text, sizeof ret->text, "%s", text);
    } else {
        quorum_describe(ret);
    }
}

/* --- findings --- */

void findings_init(struct findings *findings)
{
    *findings = (struct findings){.list = json_array(), .topics = json_array()};
    ASSERT(findings->list != NULL && findings->topics != NULL);
}

void findings_free(struct findings *findings)
{
    json_decref(findings->list);
    json_decref(findings->topics);
    findings->list = NULL;
    findings->topics = NULL;
}

const char *severity_name(enum severity severity)
{
    static const char *const names[] = {"good", "warning", "critical"};

    return names[severity];
}

/* Text of a server may be anything, so it may be no UTF-8 after a cut. */
static json_t *text_json(const char *text)
{
    BUF_LOCAL(clean);

    clean_text(&clean, text);
    return MUST_HAVE(json_stringn((const char *)clean.data, clean.len));
}

/* --- topics --- */

#define TOPIC_BYTES 64

static const char *topic_text(struct topic topic, char out[TOPIC_BYTES])
{
    out[0] = '\0';
    if (topic.kind != NULL) {
        (void)snprintf(out, TOPIC_BYTES, "%s/%" PRId64, topic.kind, topic.node);
    }
    return out;
}

static bool has_topic(const struct findings *findings, size_t i, struct topic topic)
{
    char wanted[TOPIC_BYTES];

    return topic.kind != NULL && strcmp(json_string_value(json_array_get(findings->topics, i)),
                                        topic_text(topic, wanted)) == 0;
}

/* Is there a finding of it, or of the same of the whole cluster? */
static bool is_told(const struct findings *findings, struct topic topic)
{
    const struct topic of_all = {topic.kind, 0};

    for (size_t i = 0; i < json_array_size(findings->list); i++) {
        if (has_topic(findings, i, topic) || has_topic(findings, i, of_all)) {
            return true;
        }
    }
    return false;
}

static bool is_alarm(const json_t *finding)
{
    return strcmp(field_text(finding, "about"), "alarm") == 0;
}

/* Other findings give way to an alarm of their topic. */
static void finding_make_room(struct findings *findings, struct topic topic)
{
    for (size_t i = json_array_size(findings->list); i-- > 0;) {
        const char *told = json_string_value(json_array_get(findings->topics, i));
        size_t len = topic.kind != NULL ? strlen(topic.kind) : 0;
        bool of_kind = len > 0 && strncmp(told, topic.kind, len) == 0 && told[len] == '/';

        if (!is_alarm(json_array_get(findings->list, i)) &&
            (has_topic(findings, i, topic) || (of_kind && topic.node == 0))) {
            ASSERT(json_array_remove(findings->list, i) == 0);
            ASSERT(json_array_remove(findings->topics, i) == 0);
        }
    }
}

/* --- adding --- */

static void see(struct findings *findings, enum severity severity)
{
    findings->worst = severity > findings->worst ? severity : findings->worst;
}

static bool finding_is_known(const struct findings *findings, const json_t *finding)
{
    size_t i;
    json_t *other;

    json_array_foreach(findings->list, i, other)
    {
        if (json_equal(other, finding)) {
            return true;
        }
    }
    return false;
}

/* Takes the finding over. */
static void finding_put(struct findings *findings, struct topic topic, json_t *finding)
{
    char told[TOPIC_BYTES];

    ASSERT(json_array_append_new(findings->list, finding) == 0);
    ASSERT(json_array_append_new(findings->topics, json_string(topic_text(topic, told))) == 0);
}

static json_t *finding_make(enum severity severity, const char *about, const char *todo,
                            const char *text)
{
    json_t *finding = json_object();

    ASSERT(json_object_set_new(finding, "severity", json_string(severity_name(severity))) == 0);
    ASSERT(json_object_set_new(finding, "about", json_string(about)) == 0);
    ASSERT(json_object_set_new(finding, "text", text_json(text)) == 0);
    if (todo != NULL) {
        ASSERT(json_object_set_new(finding, "do", text_json(todo)) == 0);
    }
    return finding;
}

void finding_add_of(struct findings *findings, struct topic topic, enum severity severity,
                    const char *about, const char *todo, const char *format, ...)
{
    json_t *finding;
    char *text = NULL;
    va_list args;

    va_start(args, format);
    ASSERT(vasprintf(&text, format, args) >= 0);
    va_end(args);
    finding = finding_make(severity, about, todo, text);
    free(text);
    see(findings, severity);
    if (finding_is_known(findings, finding) || (topic.kind != NULL && is_told(findings, topic))) {
        json_decref(finding);
    } else {
        finding_put(findings, topic, finding);
    }
}

/* The alarm of this name that another node told, or NULL. */
static json_t *same_alarm(const struct findings *findings, const char *name)
{
    size_t len = strlen(name);
    json_t *finding;
    size_t i;

    json_array_foreach(findings->list, i, finding)
    {
        const char *text = field_text(finding, "text");

        if (is_alarm(finding) && strncmp(text, name, len) == 0 &&
            strncmp(text + len, ": ", 2) == 0) {
            return finding;
        }
    }
    return NULL;
}

/* What another node says of an alarm that is told already. */
static void tell_more(json_t *finding, size_t name_len, const char *text)
{
    json_t *said = text_json(text);
    json_t *more = json_object_get(finding, "more");
    bool known = strcmp(field_text(finding, "text") + name_len + 2, json_string_value(said)) == 0;
    json_t *other;
    size_t i;

    json_array_foreach(more, i, other)
    {
        known = known || json_equal(other, said);
    }
    if (!known && more == NULL) {
        more = json_array();
        ASSERT(json_object_set_new(finding, "more", more) == 0);
    }
    if (!known) {
        ASSERT(json_array_append(more, said) == 0);
    }
    json_decref(said);
}

/* An alarm of a node, which takes the place of other findings of its topic. Where another node has
 * the same one in other words, these are told with it. Any of the texts may be NULL. */
static void finding_add_alarm(struct findings *findings, struct topic topic, enum severity severity,
                              const char *name, const char *todo, const char *text)
{
    json_t *shown = text_json(name != NULL ? name : "?");
    json_t *same = same_alarm(findings, json_string_value(shown));
    char *whole = NULL;

    see(findings, severity);
    finding_make_room(findings, topic);
    if (same != NULL && name != NULL) {
        tell_more(same, strlen(json_string_value(shown)), text != NULL ? text : "?");
    } else {
        ASSERT(asprintf(&whole, "%s: %s", json_string_value(shown), text != NULL ? text : "?") >=
               0);
        finding_put(findings, topic, finding_make(severity, "alarm", todo, whole));
        free(whole);
    }
    json_decref(shown);
}

static void print_more(const json_t *more, struct buf *out)
{
    size_t i;
    json_t *text;

    json_array_foreach(more, i, text)
    {
        buf_printf(out, "          also: %s\n", json_string_value(text));
    }
}

void findings_print(const struct findings *findings, bool with_good, struct buf *out)
{
    size_t i;
    json_t *finding;

    for (int severity = SEVERITY_CRITICAL; severity >= (with_good ? 0 : SEVERITY_WARNING);
         severity--) {
        const char *name = severity_name((enum severity)severity);

        json_array_foreach(findings->list, i, finding)
        {
            if (strcmp(field_text(finding, "severity"), name) != 0) {
                continue;
            }
            buf_printf(out, "%-8s  %s: %s\n", name, field_text(finding, "about"),
                       field_text(finding, "text"));
            print_more(json_object_get(finding, "more"), out);
            if (field_text(finding, "do") != NULL) {
                buf_printf(out, "          do: %s\n", field_text(finding, "do"));
            }
        }
    }
}

/* --- opinions --- */

#define DAY_MS UINT64_C(86400000)
#define LAG_MANY 10000   /* entries behind the leader */
#define CLOCK_OFF_MS 500 /* as the alert LeafdClockOff has it */
#define CLOCK_END_MS INT64_C(1000000000000000)
#define DISK_FREE_PERCENT 10
#define MAP_USED_PERCENT 80
#define MEMORY_PERCENT 80
#define MEMORY_CRITICAL_PERCENT 95
#define CERTIFICATE_WARN_DAYS 14

/* What findings are of: what is judged here, and what an alarm of a node may say, too. */
#define OF_LEADER "leader"
#define OF_REACH "reach"
#define OF_LAG "lag"
#define OF_CLOCK "clock"
#define OF_VERSIONS "versions"
#define OF_DISK "disk"
#define OF_MAP "map"
#define OF_MEMORY "memory"
#define OF_CERTIFICATE "certificate"
#define OF_SNOWFLAKE "snowflake"
#define OF_LEVEL "level"

static struct topic topic(const char *kind, int64_t node)
{
    return (struct topic){.kind = kind, .node = node};
}

/* --- members and quorum --- */

static void of_quorum(struct findings *findings, const json_t *status)
{
    struct quorum quorum;

    quorum_of(status, &quorum);
    if (quorum.reachable < quorum.needed) {
        finding_add(findings, SEVERITY_CRITICAL, "quorum",
                    "start the nodes that are down; if a majority of disks is lost for good, see "
                    "\"The majority is lost\" in operations.md",
                    "%s", quorum.text);
    } else if (quorum.voters == 1) {
        finding_add(findings, SEVERITY_WARNING, "quorum", "let two more nodes join: members add",
                    "one voter: nothing is served while its machine is down, and all is lost with "
                    "its disk");
    } else if (!quorum.survives_next_failure) {
        finding_add(findings, SEVERITY_CRITICAL, "quorum",
                    quorum.voters == 2
                        ? "let a third node join: members add"
                        : "bring the missing node back, or replace it: members replace",
                    "%s", quorum.text);
    } else {
        finding_add(findings, SEVERITY_GOOD, "quorum", NULL, "%s", quorum.text);
    }
    if (quorum.voters > 2 && quorum.voters % 2 == 0) {
        finding_add(findings, SEVERITY_WARNING, "quorum", "let one more node join, or remove one",
                    "%" PRId64 " voters survive no more failures than %" PRId64, quorum.voters,
                    quorum.voters - 1);
    }
}

static void of_leader(struct findings *findings, const json_t *status)
{
    int64_t leader = field_number(status, "leader_id", 0);

    if (leader > 0) {
        finding_add(findings, SEVERITY_GOOD, "leader", NULL, "node %" PRId64 " leads", leader);
    } else {
        int64_t self = field_number(status, "node_id", 0);

        finding_add_of(findings, topic(OF_LEADER, self), SEVERITY_CRITICAL, "leader",
                       "see which nodes are up and reach each other; their logs say \"no leader is "
                       "known\"",
                       "node %" PRId64 " knows no leader", self);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* How far a member's clock is ahead of that of the node that says so; false: it does not say, or
 * what no clock can be. */
static bool clock_of(const json_t *status, const json_t *member, int64_t *ret_ms)
{
    bool is_self = field_number(member, "id", 0) == field_number(status, "node_id", 0);

    *ret_ms = is_self ? 0 : field_number(member, "clock_offset_ms", 0);
    return (is_self || field_has_number(member, "clock_offset_ms")) &&
           *ret_ms<CLOCK_END_MS && * ret_ms> - CLOCK_END_MS;
}

/* The same of the cluster's clock: the middle of those that are known, the lower of two. Two clocks
 * cannot say which of them is wrong: 0. */
static int64_t clock_of_all(const json_t *status)
{
    int64_t clocks[LIMIT_NODES];
    size_t count = 0;

    for (size_t i = 0; i < field_count(status, "members") && count < LIMIT_NODES; i++) {
        count += clock_of(status, field_item(status, "members", i), &clocks[count]);
    }
    qsort(clocks, count, sizeof clocks[0], by_value);
    return count > 2 ? clocks[(count - 1) / 2] : 0;
}

static void of_clock(struct findings *findings, const json_t *status, const json_t *member)
{
    int64_t id = field_number(member, "id", 0);
    int64_t off_ms = 0;

    if (!clock_of(status, member, &off_ms)) {
        return;
    }
    off_ms -= clock_of_all(status);
    if (off_ms > CLOCK_OFF_MS || off_ms < -CLOCK_OFF_MS) {
        finding_add_of(findings, topic(OF_CLOCK, id), SEVERITY_WARNING, "clock",
                       "see to the time service of its machine",
                       "the clock of node %" PRId64 " is off by %+" PRId64 " ms", id, off_ms);
    }
}

static void of_member(struct findings *findings, const json_t *status, const json_t *member)
{
    int64_t id = field_number(member, "id", 0);
    int64_t self = field_number(status, "node_id", 0);

    if (id != self && !field_true(member, "reachable")) {
        finding_add_of(findings, topic(OF_REACH, id), SEVERITY_WARNING, "member",
                       "is it up? its log and the link say why; if its disk is lost: members "
                       "replace",
                       "node %" PRId64 " is not reached by node %" PRId64, id, self);
    }
    if (field_is(member, "role", "standby")) {
        finding_add(findings, SEVERITY_WARNING, "member",
                    "members add again lets it vote, members remove takes it away",
                    "node %" PRId64 " is a standby and does not vote", id);
    }
    if (field_number(member, "lag", 0) > LAG_MANY) {
        finding_add_of(findings, topic(OF_LAG, id), SEVERITY_WARNING, "member",
                       "wait; if it does not get less, look at its disk and its link",
                       "node %" PRId64 " is %" PRId64 " entries behind", id,
                       field_number(member, "lag", 0));
    }
    of_clock(findings, status, member);
}

static bool same_host(const json_t *a, const json_t *b)
{
    const char *texts[] = {field_text(a, "peer_address"), field_text(b, "peer_address")};
    struct address addresses[2];

    return texts[0] != NULL && texts[1] != NULL && address_split(texts[0], &addresses[0]) == 0 &&
           address_split(texts[1], &addresses[1]) == 0 &&
           strcmp(addresses[0].host, addresses[1].host) == 0;
}

/* Voters that one machine takes with it. */
static void of_machines(struct findings *findings, const json_t *status)
{
    size_t members = field_count(status, "members");
    struct quorum quorum;

    quorum_of(status, &quorum);
    for (size_t i = 0; i < members && quorum.voters > 1; i++) {
        const json_t *member = field_item(status, "members", i);
        const char *at = field_text(member, "peer_address");
        int64_t together = 0;

        for (size_t j = 0; j < members; j++) {
            together += same_host(member, field_item(status, "members", j));
        }
        if (at != NULL && address_is_loopback(at)) {
            finding_add(findings, SEVERITY_GOOD, "machines", NULL,
                        "all nodes are on this machine: good for trying leafd out");
            return;
        }
        if (together > quorum.voters - quorum.needed && together > 1) {
            finding_add(findings, SEVERITY_WARNING, "machines",
                        "spread the nodes over machines of which one may fail",
                        "%" PRId64 " of %" PRId64 " members are at one address (%.*s): with that "
                        "machine the majority is gone",
                        together, quorum.voters, at != NULL ? (int)strcspn(at, ":") : 1,
                        at != NULL ? at : "?");
            return;
        }
    }
}

static void of_versions(struct findings *findings, const json_t *status)
{
    const char *first = NULL;

    for (size_t i = 0; i < field_count(status, "members"); i++) {
        const char *version = field_text(field_item(status, "members", i), "version");

        if (version != NULL && version[0] == '\0') {
            continue; /* nobody has met it yet */
        }
        if (first != NULL && version != NULL && strcmp(first, version) != 0) {
            finding_add_of(findings, topic(OF_VERSIONS, 0), SEVERITY_WARNING, "versions",
                           "finish the upgrade, or go back",
                           "nodes of leafd %s and %s run side by side", first, version);
        }
        first = first == NULL ? version : first;
    }
}

static void of_change(struct findings *findings, const json_t *status)
{
    const json_t *change = json_object_get(status, "change");
    const char *state = field_text(change, "state");

    if (state != NULL) {
        finding_add(findings, SEVERITY_WARNING, "members",
                    strcmp(state, "given_up") == 0
                        ? "look at the node, then ask again, or remove it: members remove"
                        : "wait until it is done",
                    "a change of the members (%s node %" PRId64 ") is %s",
                    field_text(change, "kind") != NULL ? field_text(change, "kind") : "?",
                    field_number(change, "id", 0), state);
    }
}

/* --- disk, memory, certificates, alarms --- */

static uint64_t percent(const json_t *object, const char *part, const char *whole)
{
    double of = (double)field_number(object, whole, 0);

    return of > 0 ? (uint64_t)(100 * (double)field_number(object, part, 0) / of) : 0;
}

static void of_resources(struct findings *findings, const json_t *status)
{
    const json_t *disk = json_object_get(status, "disk");
    const json_t *memory = json_object_get(status, "memory");
    int64_t data = field_number(disk, "data_bytes", 0);
    int64_t node = field_number(status, "node_id", 0);
    char free_text[UNITS_BYTES];

    if (field_has_number(disk, "free_bytes") &&
        field_number(disk, "free_bytes", 0) * DISK_FREE_PERCENT < data) {
        finding_add_of(findings, topic(OF_DISK, node), SEVERITY_WARNING, "disk",
                       "make room on that file system", "node %" PRId64 " has %s of disk left",
                       node, units_bytes((uint64_t)field_number(disk, "free_bytes", 0), free_text));
    }
    if (percent(disk, "map_used_bytes", "map_bytes") >= MAP_USED_PERCENT) {
        finding_add_of(findings, topic(OF_MAP, node), SEVERITY_WARNING, "disk",
                       "raise data.map-bytes on all nodes",
                       "%" PRIu64 " %% of data.map-bytes are in use on node %" PRId64,
                       percent(disk, "map_used_bytes", "map_bytes"), node);
    }
    if (percent(memory, "state_bytes", "state_limit_bytes") >= MEMORY_PERCENT) {
        uint64_t used = percent(memory, "state_bytes", "state_limit_bytes");

        finding_add_of(findings, topic(OF_MEMORY, 0),
                       used >= MEMORY_CRITICAL_PERCENT ? SEVERITY_CRITICAL : SEVERITY_WARNING,
                       "memory",
                       "raise data.memory-bytes on all nodes; at 100 % new tags are refused",
                       "tags and keys take %" PRIu64 " %% of data.memory-bytes", used);
    }
}

bool opinion_time(const char *text, uint64_t *ret_ms)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";
    struct tm tm = {0};
    time_t seconds;

    if (text == NULL || strlen(text) < sizeof form || text[strlen(text) - 1] != 'Z') {
        return false;
    }
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : form[i] != text[i]) {
            return false;
        }
    }
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec) != 6) {
        return false;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    seconds = timegm(&tm);
    if (seconds < 0) {
        return false;
    }
    *ret_ms = (uint64_t)seconds * 1000;
    return true;
}

static void of_certificates(struct findings *findings, const json_t *status, uint64_t wall_ms)
{
    for (size_t i = 0; i < field_count(status, "certificates"); i++) {
        const json_t *certificate = field_item(status, "certificates", i);
        const char *what = field_text(certificate, "what");
        const char *expires = field_text(certificate, "expires");
        uint64_t end_ms = 0;

        if (opinion_time(expires, &end_ms) && end_ms < wall_ms + CERTIFICATE_WARN_DAYS * DAY_MS) {
            int64_t node = field_number(status, "node_id", 0);

            finding_add_of(findings, topic(OF_CERTIFICATE, node),
                           end_ms <= wall_ms ? SEVERITY_CRITICAL : SEVERITY_WARNING, "certificate",
                           "put a new one in its place, and send SIGHUP",
                           "%s of node %" PRId64 " %s %s", what != NULL ? what : "a certificate",
                           node, end_ms <= wall_ms ? "ended" : "ends", expires);
        }
    }
}

/* What an alarm of a node says in place of what is judged here. */
static const struct {
    const char *name;
    const char *kind;
    bool of_node; /* the node that has it; else what it says is of the cluster */
} covers[] = {
    {"LeafdNodeDown", OF_REACH, false},
    {"LeafdNoLeader", OF_LEADER, true},
    {"LeafdMemberLags", OF_LAG, false},
    {"LeafdClockOff", OF_CLOCK, true},
    {"LeafdVersionsDiffer", OF_VERSIONS, false},
    {"LeafdDiskLow", OF_DISK, true},
    {"LeafdMapFills", OF_MAP, true},
    {"LeafdStateHigh", OF_MEMORY, false},
    {"LeafdStateNearlyFull", OF_MEMORY, false},
    {"LeafdCertificateEnds", OF_CERTIFICATE, true},
    {"LeafdCertificateEnded", OF_CERTIFICATE, true},
    {"LeafdSnowflakeRefused", OF_SNOWFLAKE, true},
    {"LeafdLevelNotRaised", OF_LEVEL, false},
};

static struct topic topic_of_alarm(const char *name, int64_t node)
{
    for (size_t i = 0; i < sizeof covers / sizeof covers[0] && name != NULL; i++) {
        if (strcmp(covers[i].name, name) == 0) {
            return topic(covers[i].kind, covers[i].of_node ? node : 0);
        }
    }
    return topic(NULL, 0);
}

static void of_alarms(struct findings *findings, const json_t *status)
{
    for (size_t i = 0; i < field_count(status, "alarms"); i++) {
        const json_t *alarm = field_item(status, "alarms", i);
        const char *name = field_text(alarm, "name");
        bool critical = field_is(alarm, "severity", "critical");

        finding_add_alarm(findings, topic_of_alarm(name, field_number(status, "node_id", 0)),
                          critical ? SEVERITY_CRITICAL : SEVERITY_WARNING, name,
                          field_text(alarm, "do"), field_text(alarm, "text"));
    }
}

void opinion_status(struct findings *findings, const json_t *status, uint64_t wall_ms)
{
    of_alarms(findings, status); /* which stand for what is judged here */
    of_leader(findings, status);
    of_quorum(findings, status);
    for (size_t i = 0; i < field_count(status, "members"); i++) {
        of_member(findings, status, field_item(status, "members", i));
    }
    of_machines(findings, status);
    of_versions(findings, status);
    of_change(findings, status);
    of_resources(findings, status);
    of_certificates(findings, status, wall_ms);
}

/* --- readiness and level --- */

/* What a check of a node says that an alarm may say, too. */
static struct topic topic_of_check(const char *name, int64_t node)
{
    return strcmp(name, "disk") == 0        ? topic(OF_DISK, node)
           : strcmp(name, "memory") == 0    ? topic(OF_MEMORY, 0)
           : strcmp(name, "snowflake") == 0 ? topic(OF_SNOWFLAKE, node)
                                            : topic(NULL, 0);
}

static void of_settings(struct findings *findings, const char *server, const json_t *check)
{
    char *differ = json_dumps(json_object_get(check, "differ"), JSON_ENCODE_ANY);

    finding_add(findings, SEVERITY_WARNING, "settings",
                "what the log knows holds, whatever they are: correct them for the next restart",
                "%s: settings differ from the log's: %s", server, differ != NULL ? differ : "?");
    free(differ);
}

void opinion_ready(struct findings *findings, const char *server, int64_t node, const json_t *ready)
{
    if (field_is(ready, "status", "ready")) {
        finding_add(findings, SEVERITY_GOOD, "ready", NULL, "%s is ready", server);
    }
    for (size_t i = 0; i < field_count(ready, "checks"); i++) {
        const json_t *check = field_item(ready, "checks", i);
        const char *name = field_text(check, "name");
        const char *reason = field_text(check, "reason");

        if (field_true(check, "ok") || name == NULL) {
            continue;
        }
        if (strcmp(name, "settings") == 0) {
            of_settings(findings, server, check);
        } else {
            finding_add_of(findings, topic_of_check(name, node),
                           field_true(check, "needed") ? SEVERITY_CRITICAL : SEVERITY_WARNING,
                           "ready", "its log, and failure-model.md, \"what you see, what you do\"",
                           "%s: %s: %s", server, name, reason != NULL ? reason : "not ok");
        }
    }
}

void opinion_level(struct findings *findings, const json_t *level)
{
    int64_t number = field_number(level, "level", 0);

    if (field_true(level, "can_rise")) {
        finding_add_of(findings, topic(OF_LEVEL, 0), SEVERITY_WARNING, "level",
                       "it rises by itself after upgrade.hold-ms, unless that is never; "
                       "sooner: level raise",
                       "all nodes speak a newer level than %" PRId64, number);
    } else if (field_true(level, "newest")) {
        finding_add(findings, SEVERITY_GOOD, "level", NULL,
                    "level %" PRId64 ", the newest that the nodes speak", number);
    } else {
        const char *message = field_text(level, "message");

        finding_add(findings, SEVERITY_GOOD, "level", NULL, "level %" PRId64 " stays for now: %s",
                    number, message != NULL ? message : "?");
    }
}
