/*
 * check.c - `status`: the cluster on one screen, as one node sees it. `check`: is it healthy, and
 * well set up? Prints the nodes' own findings, and those that no single node can make; the exit
 * code is that of the worst finding.
 *
 * check asks each named server; a finding that all report is printed once. Thread: one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"
#include "src/id/codec/worker.h"

#define TAG_PAGES 20 /* of 1000, searched for tags that are nearly used up */

/* --- status --- */

bool member_is_reached(const json_t *status, const json_t *member)
{
    return field_number(member, "id", 0) == field_number(status, "node_id", 0) ||
           field_true(member, "reachable");
}

bool member_keep(struct ctl *ctl, const json_t *status, json_t *member)
{
    int64_t commit = field_number(status, "commit_index", 0);
    int64_t match = field_number(member, "match_index", 0);

    if (ctl->json) {
        return true;
    }
    if (field_number(member, "id", 0) == field_number(status, "leader_id", 0)) {
        (void)json_object_set_new(member, "role", json_string("leader"));
    }
    (void)json_object_set_new(member, "reached",
                              json_string(member_is_reached(status, member) ? "yes" : "NO"));
    if (!field_has_number(member, "lag") && match > 0 && match <= commit) {
        (void)json_object_set_new(member, "lag", json_integer(commit - match));
    }
    return true;
}

static void status_put(struct ctl *ctl, json_t *status)
{
    static const struct grid_column titles[] = {{">node", "{id:n}"},
                                                {"role", "{role}"},
                                                {"reached", "{reached}"},
                                                {"zone", "{zone}"},
                                                {"state", "{state}"},
                                                {">lag", "{lag:int}"},
                                                {">round trip", "{round_trip_us:ms}"},
                                                {">clock", "{clock_offset_ms:signed}"},
                                                {">heard", "{last_heard_ms:age}"},
                                                {"version", "{version}"},
                                                {"peers", "{peer_address}"},
                                                {"http", "{http_address}"},
                                                {NULL, NULL}};
    static const struct grid_column zone_titles[] = {{"from zone", "{zone}"},
                                                     {">a monotonic id", "{monotonic_us:ms}"},
                                                     {">a strict id", "{strict_us:ms}"},
                                                     {NULL, NULL}};
    static const struct {
        const char *field; /* shown if it is there */
        const char *form;
    } parts[] = {
        {"change", "\nchange    {change.kind} of node {change.id:n}: {change.state}\n"},
        {"disk", "\ndisk      {disk.data_bytes:bytes} of data, {disk.free_bytes:bytes} free; the "
                 "map has {disk.map_used_bytes:bytes} of {disk.map_bytes:bytes} in use\n"},
        {"memory", "memory    {memory.resident_bytes:bytes} resident; tags and keys take "
                   "{memory.state_bytes:bytes} of {memory.state_limit_bytes:bytes}\n"},
    };
    struct buf *out = &ctl->out;
    size_t alarms = field_count(status, "alarms");
    struct grid members = {.titles = titles};
    struct grid zones = {.titles = zone_titles};

    ctl_put_form(out,
                 "cluster   {cluster_id} (uid {uid}), as node {node_id:n} sees it\n"
                 "leader    ",
                 status);
    ctl_put_form(out,
                 field_number(status, "leader_id", 0) > 0 ? "node {leader_id:n}" : "none is known",
                 status);
    ctl_put_form(out, ", term {term:n}\nlevel     {level.number:n}\nquorum    {quorum.text}\n",
                 status);
    for (size_t i = 0; i < field_count(status, "members"); i++) {
        (void)member_keep(ctl, status, field_item(status, "members", i));
    }
    buf_put(out, "\n", 1);
    ctl_put_rows(out, &members, json_object_get(status, "members"), 2);
    if (field_count(status, "zones") > 0) {
        buf_put(out, "\n", 1);
        ctl_put_rows(out, &zones, json_object_get(status, "zones"), 2);
    }
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (json_is_object(json_object_get(status, parts[i].field))) {
            ctl_put_form(out, parts[i].form, status);
        }
    }
    for (size_t i = 0; i < field_count(status, "certificates"); i++) {
        ctl_put_form(out, "cert      {what} ends {expires}\n",
                     field_item(status, "certificates", i));
    }
    if (json_is_array(json_object_get(status, "alarms"))) {
        buf_printf(out, "\nalarms    %s\n", alarms == 0 ? "none" : "");
    }
    for (size_t i = 0; i < alarms; i++) {
        ctl_put_form(out, "  {severity}: {name} since {since}: {text}\n    do: {do}\n",
                     field_item(status, "alarms", i));
    }
}

static enum ctl_exit status_show(struct ctl *ctl, const char *before)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code = ctl_get(ctl, "/api/status", &answer);

    buf_printf(&ctl->out, "%s", before);
    if (code != CTL_DONE) {
        return code;
    }
    if (ctl->json) {
        ctl_put_json(ctl, answer.json);
    } else {
        status_put(ctl, answer.json);
    }
    return ctl_flush(ctl);
}

enum ctl_exit run_status(struct ctl *ctl)
{
    return ctl_repeat(ctl, ctl_has(ctl, "watch"), false, status_show);
}

/* --- findings: severity, subject, reason, and remedy ---
 *
 * A node judges itself and its cluster: its alarms, its quorum and its checks are shown unchanged.
 * Only facts that no node judges are judged here. Each finding is printed once, even if several
 * nodes report it in the same words. */

enum severity { SEVERITY_GOOD, SEVERITY_WARNING, SEVERITY_CRITICAL };
static const char *const SEVERITIES[] = {"good", "warning", "critical"};

/* Data gathered over all servers. */
struct check {
    struct ctl *ctl;
    json_t *findings; /* objects {severity, about, text, do}; an alarm's may have `more`: texts */
    enum severity worst;
    char *uid; /* of the first that answered; NULL: none yet */
    size_t answered;
    bool is_led; /* one of them knows a leader: without, level, tags and pools are waited for */
    enum ctl_exit code; /* why nothing can be said */
};

/* A server's text may be anything, and may be invalid UTF-8 after a cut. */
static json_t *finding_text(const char *text)
{
    BUF_LOCAL(clean);

    clean_text(&clean, text);
    return MUST_HAVE(json_stringn(buf_text(&clean), clean.len));
}

/* The finding of an alarm whose name begins with this; NULL: none. */
static json_t *finding_of_alarm(const struct check *check, const char *name)
{
    size_t i;
    json_t *finding;

    json_array_foreach(check->findings, i, finding)
    {
        if (field_is(finding, "about", "alarm") &&
            strncmp(field_text(finding, "text"), name, strlen(name)) == 0) {
            return finding;
        }
    }
    return NULL;
}

/* Append it, which is taken over, unless there is an equal one. */
static void list_put_new(json_t *list, json_t *item)
{
    bool known = false;
    size_t i;
    json_t *other;

    json_array_foreach(list, i, other)
    {
        known |= json_equal(other, item);
    }
    ASSERT(known || json_array_append(list, item) == 0);
    json_decref(item);
}

/* todo: NULL for a good one. */
static void __attribute__((format(printf, 5, 6)))
finding_add(struct check *check, enum severity severity, const char *about, const char *todo,
            const char *format, ...)
{
    BUF_LOCAL(text);
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    check->worst = severity > check->worst ? severity : check->worst;
    list_put_new(check->findings,
                 MUST_HAVE(json_pack("{s:s, s:s, s:o, s:o*}", "severity", SEVERITIES[severity],
                                     "about", about, "text", finding_text(buf_text(&text)), "do",
                                     todo != NULL ? finding_text(todo) : NULL)));
}

/* Append them for people, worst first, down to this severity. */
static void findings_put(const struct check *check, enum severity least)
{
    struct buf *out = &check->ctl->out;

    for (int severity = SEVERITY_CRITICAL; severity >= (int)least; severity--) {
        size_t i;
        json_t *finding;

        json_array_foreach(check->findings, i, finding)
        {
            if (!field_is(finding, "severity", SEVERITIES[severity])) {
                continue;
            }
            ctl_put_form(out, "{severity:8}  {about}: {text}\n", finding);
            for (size_t more = 0; more < field_count(finding, "more"); more++) {
                buf_printf(out, "          also: %s\n",
                           json_string_value(field_item(finding, "more", more)));
            }
            ctl_put_form(out, field_text(finding, "do") != NULL ? "          do: {do}\n" : "",
                         finding);
        }
    }
}

/* --- alarms of a node --- */

/* If another node has the same alarm in other words, these are printed with it. */
static void find_alarms(struct check *check, const json_t *status)
{
    for (size_t i = 0; i < field_count(status, "alarms"); i++) {
        const json_t *alarm = field_item(status, "alarms", i);
        const char *name = field_text(alarm, "name");
        const char *text = field_text(alarm, "text");
        enum severity severity =
            field_is(alarm, "severity", "critical") ? SEVERITY_CRITICAL : SEVERITY_WARNING;
        json_t *same;
        json_t *said;
        BUF_LOCAL(begins);

        clean_text(&begins, name != NULL ? name : "?");
        buf_printf(&begins, ": ");
        same = name != NULL ? finding_of_alarm(check, buf_text(&begins)) : NULL;
        text = text != NULL ? text : "?";
        if (same == NULL) {
            finding_add(check, severity, "alarm", field_text(alarm, "do"), "%s%s",
                        buf_text(&begins), text);
            continue;
        }
        check->worst = severity > check->worst ? severity : check->worst;
        said = finding_text(text);
        if (strcmp(field_text(same, "text") + begins.len, json_string_value(said)) == 0) {
            json_decref(said);
            continue;
        }
        if (json_object_get(same, "more") == NULL) {
            ASSERT(json_object_set_new(same, "more", json_array()) == 0);
        }
        list_put_new(json_object_get(same, "more"), said);
    }
}

/* --- findings of a status --- */

/* The members of which this field is this text. */
static int64_t count_members(const json_t *status, const char *field, const char *text)
{
    int64_t count = 0;

    for (size_t i = 0; i < field_count(status, "members"); i++) {
        count += field_is(field_item(status, "members", i), field, text);
    }
    return count;
}

static void find_quorum(struct check *check, const json_t *status)
{
    const json_t *quorum = json_object_get(status, "quorum");
    const char *text = field_text(quorum, "text") != NULL ? field_text(quorum, "text") : "?";
    int64_t voters = count_members(status, "role", "voter");

    if (field_number(quorum, "reachable", 0) < field_number(quorum, "needed", 0)) {
        finding_add(check, SEVERITY_CRITICAL, "quorum",
                    "start the nodes that are down; if a majority of disks is lost for good, see "
                    "\"The majority is lost\" in operations.md",
                    "%s", text);
    } else if (voters == 1) {
        finding_add(check, SEVERITY_WARNING, "quorum", "let two more nodes join: members add",
                    "one voter: nothing is served while its machine is down, and all is lost with "
                    "its disk");
    } else if (!field_true(quorum, "survives_next_failure")) {
        finding_add(check, SEVERITY_CRITICAL, "quorum",
                    voters == 2 ? "let a third node join: members add"
                                : "bring the missing node back, or replace it: members replace",
                    "%s", text);
    } else {
        finding_add(check, SEVERITY_GOOD, "quorum", NULL, "%s", text);
    }
    if (voters > 2 && voters % 2 == 0) {
        finding_add(check, SEVERITY_WARNING, "quorum", "let one more node join, or remove one",
                    "%" PRId64 " voters survive no more failures than %" PRId64, voters,
                    voters - 1);
    }
}

/* Voters that fail together with one machine. */
static void find_machines(struct check *check, const json_t *status)
{
    size_t members = field_count(status, "members");
    int64_t voters = count_members(status, "role", "voter");
    struct address own;
    struct address other;

    for (size_t i = 0; i < members && voters > 1; i++) {
        const char *at = field_text(field_item(status, "members", i), "peer_address");
        int64_t together = 0;

        if (at == NULL || address_split(at, &own) != 0) {
            continue;
        }
        if (address_is_loopback(at)) {
            finding_add(check, SEVERITY_GOOD, "machines", NULL,
                        "all nodes are on this machine: good for trying leafd out");
            return;
        }
        for (size_t j = 0; j < members; j++) {
            const char *there = field_text(field_item(status, "members", j), "peer_address");

            together += there != NULL && address_split(there, &other) == 0 &&
                        strcmp(own.host, other.host) == 0;
        }
        if (together > (voters - 1) / 2 && together > 1) {
            finding_add(check, SEVERITY_WARNING, "machines",
                        "spread the nodes over machines of which one may fail",
                        "%" PRId64 " of %" PRId64 " members are at one address (%.*s): with that "
                        "machine the majority is gone",
                        together, voters, (int)strcspn(at, ":"), at);
            return;
        }
    }
}

static void find_in_status(struct check *check, const json_t *status)
{
    const json_t *change = json_object_get(status, "change");
    const char *state = field_text(change, "state");
    int64_t leader = field_number(status, "leader_id", 0);

    find_alarms(check, status);
    if (leader > 0) {
        finding_add(check, SEVERITY_GOOD, "leader", NULL, "node %" PRId64 " leads", leader);
    }
    find_quorum(check, status);
    for (size_t i = 0; i < field_count(status, "members"); i++) {
        const json_t *member = field_item(status, "members", i);
        int64_t id = field_number(member, "id", 0);

        if (field_is(member, "role", "standby")) {
            finding_add(check, SEVERITY_WARNING, "member",
                        "members add again lets it vote, members remove takes it away",
                        "node %" PRId64 " is a standby and does not vote", id);
        }
        if (field_is(member, "state", "drained")) {
            finding_add(check, SEVERITY_WARNING, "member", "members resume lets it take work again",
                        "node %" PRId64 " is drained: it is given no new work", id);
        }
    }
    find_machines(check, status);
    if (state != NULL) {
        finding_add(check, SEVERITY_WARNING, "members",
                    strcmp(state, "given_up") == 0
                        ? "look at the node, then ask again, or remove it: members remove"
                        : "wait until it is done",
                    "a change of the members (%s node %" PRId64 ") is %s",
                    field_text(change, "kind") != NULL ? field_text(change, "kind") : "?",
                    field_number(change, "id", 0), state);
    }
}

/* --- the command --- */

/* Words of an answer that is an error, on one line. */
static const char *check_reason(const struct answer *answer)
{
    char *end = answer->error.len > 0 ? strchr((char *)answer->error.data, '\n') : NULL;

    if (end != NULL) {
        *end = '\0';
    }
    return answer->error.len > 0 ? (char *)answer->error.data : "no answer";
}

/* Names of zones that may be misspelt, as nodes warn in their logs (src/service/id_service.c and
 * raft/cluster/announce.c). pools: of worker ids, too. */
static void check_zones(struct check *check, size_t which, const json_t *status, bool pools)
{
    const struct ask ask = {.target = "/api/workers/pools", .server = &which};
    const char *preferred = field_text(status, "prefer_zone");
    size_t count = field_count(status, "members");
    struct worker_pools known = {0};
    char why[WORKER_POOLS_WHY_BYTES];
    const char *shared = NULL;
    const char *text;
    ANSWER_LOCAL(answer);

    if (preferred != NULL && count_members(status, "zone", preferred) == 0) {
        finding_add(check, SEVERITY_WARNING, "zone",
                    "is raft.prefer-zone spelt as zone on its nodes?",
                    "no node is in zone %s, which is to lead", preferred);
    }
    for (size_t i = 0; i < count; i++) {
        const char *zone = field_text(field_item(status, "members", i), "zone");

        shared = zone != NULL && count_members(status, "zone", zone) > 1 ? zone : shared;
    }
    for (size_t i = 0; shared != NULL && i < count; i++) {
        const json_t *member = field_item(status, "members", i);
        const char *zone = field_text(member, "zone");

        if (zone != NULL && count_members(status, "zone", zone) == 1) {
            finding_add(check, SEVERITY_WARNING, "zone",
                        "is the setting zone spelt as on the other nodes?",
                        "node %" PRId64 " alone is in zone %s, while others share %s",
                        field_number(member, "id", 0), zone, shared);
        }
    }
    text = pools && cluster_ask(check->ctl->cluster, &ask, &answer) == CTL_DONE
               ? field_text(answer.json, "pools")
               : NULL;
    if (text == NULL || worker_pools_read(text, strlen(text), &known, why) != 0) {
        return;
    }
    for (uint32_t i = 0; i < known.count; i++) {
        if (count_members(status, "zone", known.items[i].zone) == 0) {
            finding_add(check, SEVERITY_WARNING, "zone",
                        "is it spelt as zone on its nodes? leafctl workers pools shows the pools",
                        "no node is in zone %s, which has the worker ids %u to %u",
                        known.items[i].zone, known.items[i].first, known.items[i].last);
        }
    }
}

/* Is the server ready, by its own checks? */
static void check_ready(struct check *check, size_t which, const char *server)
{
    const struct ask ask = {.target = "/readyz?verbose", .server = &which};
    ANSWER_LOCAL(answer);
    enum ctl_exit code = cluster_ask(check->ctl->cluster, &ask, &answer);

    if ((code != CTL_DONE && answer.status != 503) || !json_is_object(answer.json)) {
        if (code != CTL_DENIED) {
            finding_add(check, SEVERITY_WARNING, "ready", "its log",
                        "%s does not say whether it is ready: %s", server, check_reason(&answer));
        }
        return;
    }
    if (field_is(answer.json, "status", "ready")) {
        finding_add(check, SEVERITY_GOOD, "ready", NULL, "%s is ready", server);
    }
    for (size_t i = 0; i < field_count(answer.json, "checks"); i++) {
        const json_t *own = field_item(answer.json, "checks", i);
        const char *name = field_text(own, "name");
        const char *reason = field_text(own, "reason");

        if (field_true(own, "ok") || name == NULL) {
            continue;
        }
        if (strcmp(name, "settings") == 0) {
            char *differ = json_dumps(json_object_get(own, "differ"), JSON_ENCODE_ANY);

            finding_add(check, SEVERITY_WARNING, "settings",
                        "what the log knows holds, whatever they are: correct them for the next "
                        "restart",
                        "%s: settings differ from the log's: %s", server,
                        differ != NULL ? differ : "?");
            free(differ);
        } else if (strcmp(name, "disk") != 0 && strcmp(name, "memory") != 0 &&
                   strcmp(name, "snowflake") != 0) { /* of these three it has alarms */
            finding_add(check, field_true(own, "needed") ? SEVERITY_CRITICAL : SEVERITY_WARNING,
                        "ready", "its log, and failure-model.md, \"what you see, what you do\"",
                        "%s: %s: %s", server, name, reason != NULL ? reason : "not ok");
        }
    }
}

static void check_server(struct check *check, size_t which)
{
    const struct server *server = &check->ctl->cluster->servers.list[which];
    ANSWER_LOCAL(answer);
    const struct ask ask = {.target = "/api/status", .server = &which};
    enum ctl_exit code = ctl_ask(check->ctl, &ask, &answer);
    const char *uid;
    bool is_led;

    if (code != CTL_DONE) {
        check->code = code;
        if (code == CTL_DENIED) {
            finding_add(check, SEVERITY_WARNING, "access", "show a token with the role read", "%s",
                        check_reason(&answer));
        } else if (code != CTL_INTERNAL) {
            finding_add(check, SEVERITY_CRITICAL, "server", "is it up, and is this its address?",
                        "%s", check_reason(&answer));
        } else {
            (void)ctl_failed(code, &answer);
        }
        return;
    }
    is_led = field_number(answer.json, "leader_id", 0) > 0;
    uid = field_text(answer.json, "uid");
    if (check->uid == NULL) {
        check->uid = uid != NULL ? strdup(uid) : NULL;
    } else if (uid != NULL && strcmp(uid, check->uid) != 0) {
        finding_add(check, SEVERITY_CRITICAL, "cluster",
                    "name the nodes of one cluster; or one of them was set up apart: its data "
                    "directory is of another cluster",
                    "%s belongs to another cluster (uid %s, not %s)", server->address, uid,
                    check->uid);
    }
    find_in_status(check, answer.json);
    check_zones(check, which, answer.json, is_led && !check->is_led);
    check->is_led |= is_led;
    check->answered++;
    if (!server->tls && !address_is_loopback(server->address)) {
        finding_add(check, SEVERITY_WARNING, "transport",
                    "give the nodes certificates: \"TLS\" in operations.md",
                    "%s is asked without TLS: a token on its way can be read", server->address);
    }
    check_ready(check, which, server->address);
}

static void check_level(struct check *check)
{
    const struct ask ask = {.target = "/api/cluster/level"};
    ANSWER_LOCAL(answer);
    const char *message;
    int64_t level;

    if (cluster_ask(check->ctl->cluster, &ask, &answer) != CTL_DONE) {
        return;
    }
    level = field_number(answer.json, "level", 0);
    message = field_text(answer.json, "message");
    if (field_true(answer.json, "can_rise")) {
        if (finding_of_alarm(check, "LeafdLevelNotRaised") == NULL) {
            finding_add(check, SEVERITY_WARNING, "level",
                        "it rises automatically after upgrade.hold-ms, unless that is never; "
                        "sooner: level raise",
                        "all nodes speak a newer level than %" PRId64, level);
        }
    } else if (field_true(answer.json, "newest")) {
        finding_add(check, SEVERITY_GOOD, "level", NULL,
                    "level %" PRId64 ", the newest that the nodes speak", level);
    } else {
        finding_add(check, SEVERITY_GOOD, "level", NULL, "level %" PRId64 " stays for now: %s",
                    level, message != NULL ? message : "?");
    }
}

/* Can anonymous clients do everything? If so, they can read the audit, which needs the role
 * admin. */
static void check_anonymous(struct check *check)
{
    const struct servers *servers = &check->ctl->cluster->servers;
    const struct ask ask = {.target = "/api/audit?limit=1"};
    bool far = false;
    ANSWER_LOCAL(answer);

    for (size_t i = 0; i < servers->count; i++) {
        far |= !address_is_loopback(servers->list[i].address);
    }
    if (!far || check->ctl->settings.token != NULL ||
        check->ctl->settings.values[SETTING_CERT] != NULL) {
        return;
    }
    if (cluster_ask(check->ctl->cluster, &ask, &answer) == CTL_DONE) {
        finding_add(
            check, SEVERITY_CRITICAL, "access", "set auth.tokens-file: \"Tokens\" in operations.md",
            "anybody who reaches %s may change everything: no token is asked for", answer.server);
    }
}

/* Tags that are nearly used up. */
static void check_tags(struct check *check)
{
    struct pages pages = {
        .ctl = check->ctl, .path = "/api/tags", .limit = LIMIT_TAGS_PER_PAGE, .quiet = true};

    for (int page = 0; page < TAG_PAGES && pages_next(&pages); page++) {
        for (size_t i = 0; i < field_count(pages.answer.json, "tags"); i++) {
            const json_t *tag = field_item(pages.answer.json, "tags", i);
            const char *name = field_text(tag, "tag");
            const char *warning = field_text(tag, "warning");

            if (warning != NULL) {
                finding_add(check, SEVERITY_WARNING, "tag",
                            "raise its max, or have its clients use another tag", "%s: %s",
                            name != NULL ? name : "?", warning);
            }
        }
    }
    (void)pages_end(&pages);
}

enum ctl_exit run_check(struct ctl *ctl)
{
    static const enum ctl_exit exits[] = {CTL_DONE, CTL_WARNING, CTL_CRITICAL};
    static const char *const words[] = {"healthy", "up, with warnings", "critical"};
    struct check check = {.ctl = ctl, .findings = MUST_HAVE(json_array()), .code = CTL_UNREACHABLE};

    for (size_t i = 0; i < ctl->cluster->servers.count; i++) {
        check_server(&check, i);
    }
    if (check.is_led) {
        check_level(&check);
        check_tags(&check);
    }
    if (check.answered > 0) {
        check_anonymous(&check);
        check.code = exits[check.worst];
    }
    if (ctl->json) {
        json_auto_t *json = MUST_HAVE(
            json_pack("{s:s, s:O}", "worst", SEVERITIES[check.worst], "findings", check.findings));

        ctl_put_json(ctl, json);
    } else {
        findings_put(&check, ctl_has(ctl, "all") ? SEVERITY_GOOD : SEVERITY_WARNING);
        buf_printf(&ctl->out, "the cluster is %s\n", words[check.worst]);
    }
    json_decref(check.findings);
    free(check.uid);
    return check.code;
}
