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

void members_prepare(struct ctl *ctl, json_t *status)
{
    int64_t commit = field_number(status, "commit_index", 0);

    (void)ctl;
    for (size_t i = 0; i < field_count(status, "members"); i++) {
        json_t *member = field_item(status, "members", i);
        int64_t match = field_number(member, "match_index", 0);

        if (field_number(member, "id", 0) == field_number(status, "leader_id", 0)) {
            (void)json_object_set_new(member, "role", json_string("leader"));
        }
        (void)json_object_set_new(member, "reached",
                                  json_string(member_is_reached(status, member) ? "yes" : "NO"));
        if (!field_has_number(member, "lag") && match > 0 && match <= commit) {
            (void)json_object_set_new(member, "lag", json_integer(commit - match));
        }
    }
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
    GRID_LOCAL(members, titles);
    GRID_LOCAL(zones, zone_titles);

    ctl_put_form(out,
                 "cluster   {cluster_id} (uid {uid}), as node {node_id:n} sees it\n"
                 "leader    ",
                 status);
    ctl_put_form(out,
                 field_number(status, "leader_id", 0) > 0 ? "node {leader_id:n}" : "none is known",
                 status);
    ctl_put_form(out, ", term {term:n}\nlevel     {level.number:n}\nquorum    {quorum.text}\n",
                 status);
    members_prepare(ctl, status);
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

/* --- findings --- */

static const char *severity_name(enum severity severity)
{
    static const char *const names[] = {"good", "warning", "critical"};

    return names[severity];
}

/* A server's text may be anything, and may be invalid UTF-8 after a cut. */
static json_t *finding_text(const char *text)
{
    BUF_LOCAL(clean);

    clean_text(&clean, text);
    return MUST_HAVE(json_stringn(buf_text(&clean), clean.len));
}

/* The finding of an alarm whose name begins with this; NULL: none. */
static json_t *finding_of_alarm(const struct findings *findings, const char *name)
{
    size_t i;
    json_t *finding;

    json_array_foreach(findings->list, i, finding)
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

void finding_add(struct findings *findings, enum severity severity, const char *about,
                 const char *todo, const char *format, ...)
{
    BUF_LOCAL(text);
    json_t *finding;
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    finding = MUST_HAVE(json_pack("{s:s, s:s, s:o}", "severity", severity_name(severity), "about",
                                  about, "text", finding_text(buf_text(&text))));
    if (todo != NULL) {
        ASSERT(json_object_set_new(finding, "do", finding_text(todo)) == 0);
    }
    findings->worst = severity > findings->worst ? severity : findings->worst;
    list_put_new(findings->list, finding);
}

void findings_print(const struct findings *findings, bool with_good, struct buf *out)
{
    size_t i;
    json_t *finding;

    for (int severity = SEVERITY_CRITICAL; severity >= (with_good ? 0 : SEVERITY_WARNING);
         severity--) {
        json_array_foreach(findings->list, i, finding)
        {
            if (!field_is(finding, "severity", severity_name((enum severity)severity))) {
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
static void find_alarms(struct findings *findings, const json_t *status)
{
    for (size_t i = 0; i < field_count(status, "alarms"); i++) {
        const json_t *alarm = field_item(status, "alarms", i);
        const char *name = field_text(alarm, "name");
        const char *text = field_text(alarm, "text");
        enum severity severity =
            field_is(alarm, "severity", "critical") ? SEVERITY_CRITICAL : SEVERITY_WARNING;
        json_t *same;
        json_t *said;
        json_t *more;
        BUF_LOCAL(begins);

        clean_text(&begins, name != NULL ? name : "?");
        buf_printf(&begins, ": ");
        same = name != NULL ? finding_of_alarm(findings, buf_text(&begins)) : NULL;
        text = text != NULL ? text : "?";
        if (same == NULL) {
            finding_add(findings, severity, "alarm", field_text(alarm, "do"), "%s%s",
                        buf_text(&begins), text);
            continue;
        }
        findings->worst = severity > findings->worst ? severity : findings->worst;
        said = finding_text(text);
        more = json_object_get(same, "more");
        if (strcmp(field_text(same, "text") + begins.len, json_string_value(said)) == 0) {
            json_decref(said);
            continue;
        }
        if (more == NULL) {
            more = json_array();
            ASSERT(json_object_set_new(same, "more", more) == 0);
        }
        list_put_new(more, said);
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

static void find_quorum(struct findings *findings, const json_t *status)
{
    const json_t *quorum = json_object_get(status, "quorum");
    const char *text = field_text(quorum, "text") != NULL ? field_text(quorum, "text") : "?";
    int64_t voters = count_members(status, "role", "voter");

    if (field_number(quorum, "reachable", 0) < field_number(quorum, "needed", 0)) {
        finding_add(findings, SEVERITY_CRITICAL, "quorum",
                    "start the nodes that are down; if a majority of disks is lost for good, see "
                    "\"The majority is lost\" in operations.md",
                    "%s", text);
    } else if (voters == 1) {
        finding_add(findings, SEVERITY_WARNING, "quorum", "let two more nodes join: members add",
                    "one voter: nothing is served while its machine is down, and all is lost with "
                    "its disk");
    } else if (!field_true(quorum, "survives_next_failure")) {
        finding_add(findings, SEVERITY_CRITICAL, "quorum",
                    voters == 2 ? "let a third node join: members add"
                                : "bring the missing node back, or replace it: members replace",
                    "%s", text);
    } else {
        finding_add(findings, SEVERITY_GOOD, "quorum", NULL, "%s", text);
    }
    if (voters > 2 && voters % 2 == 0) {
        finding_add(findings, SEVERITY_WARNING, "quorum", "let one more node join, or remove one",
                    "%" PRId64 " voters survive no more failures than %" PRId64, voters,
                    voters - 1);
    }
}

/* Voters that fail together with one machine. */
static void find_machines(struct findings *findings, const json_t *status)
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
            finding_add(findings, SEVERITY_GOOD, "machines", NULL,
                        "all nodes are on this machine: good for trying leafd out");
            return;
        }
        for (size_t j = 0; j < members; j++) {
            const char *there = field_text(field_item(status, "members", j), "peer_address");

            together += there != NULL && address_split(there, &other) == 0 &&
                        strcmp(own.host, other.host) == 0;
        }
        if (together > (voters - 1) / 2 && together > 1) {
            finding_add(findings, SEVERITY_WARNING, "machines",
                        "spread the nodes over machines of which one may fail",
                        "%" PRId64 " of %" PRId64 " members are at one address (%.*s): with that "
                        "machine the majority is gone",
                        together, voters, (int)strcspn(at, ":"), at);
            return;
        }
    }
}

void find_in_status(struct findings *findings, const json_t *status)
{
    const json_t *change = json_object_get(status, "change");
    const char *state = field_text(change, "state");
    int64_t leader = field_number(status, "leader_id", 0);

    find_alarms(findings, status);
    if (leader > 0) {
        finding_add(findings, SEVERITY_GOOD, "leader", NULL, "node %" PRId64 " leads", leader);
    }
    find_quorum(findings, status);
    for (size_t i = 0; i < field_count(status, "members"); i++) {
        const json_t *member = field_item(status, "members", i);
        int64_t id = field_number(member, "id", 0);

        if (field_is(member, "role", "standby")) {
            finding_add(findings, SEVERITY_WARNING, "member",
                        "members add again lets it vote, members remove takes it away",
                        "node %" PRId64 " is a standby and does not vote", id);
        }
        if (field_is(member, "state", "drained")) {
            finding_add(findings, SEVERITY_WARNING, "member",
                        "members resume lets it take work again",
                        "node %" PRId64 " is drained: it is given no new work", id);
        }
    }
    find_machines(findings, status);
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

/* --- readiness and level --- */

void find_in_ready(struct findings *findings, const char *server, const json_t *ready)
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
            char *differ = json_dumps(json_object_get(check, "differ"), JSON_ENCODE_ANY);

            finding_add(findings, SEVERITY_WARNING, "settings",
                        "what the log knows holds, whatever they are: correct them for the next "
                        "restart",
                        "%s: settings differ from the log's: %s", server,
                        differ != NULL ? differ : "?");
            free(differ);
            continue;
        }
        if (strcmp(name, "disk") != 0 && strcmp(name, "memory") != 0 &&
            strcmp(name, "snowflake") != 0) { /* of these three it has alarms */
            finding_add(findings,
                        field_true(check, "needed") ? SEVERITY_CRITICAL : SEVERITY_WARNING, "ready",
                        "its log, and failure-model.md, \"what you see, what you do\"",
                        "%s: %s: %s", server, name, reason != NULL ? reason : "not ok");
        }
    }
}

void find_in_level(struct findings *findings, const json_t *level)
{
    int64_t number = field_number(level, "level", 0);

    if (field_true(level, "can_rise") &&
        finding_of_alarm(findings, "LeafdLevelNotRaised") != NULL) {
        return;
    }
    if (field_true(level, "can_rise")) {
        finding_add(findings, SEVERITY_WARNING, "level",
                    "it rises automatically after upgrade.hold-ms, unless that is never; "
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

/* --- the command --- */

/* Data gathered over all servers. */
struct check {
    struct ctl *ctl;
    struct findings findings;
    char *uid; /* of the first that answered; NULL: none yet */
    size_t answered;
    enum ctl_exit code; /* why nothing can be said */
};

/* Words of an answer that is an error, on one line. */
static const char *check_reason(const struct answer *answer)
{
    char *end = answer->error.len > 0 ? strchr((char *)answer->error.data, '\n') : NULL;

    if (end != NULL) {
        *end = '\0';
    }
    return answer->error.len > 0 ? (char *)answer->error.data : "no answer";
}

/* Pools of worker ids for a zone that no node is in. As the leader warns itself. */
static void check_pools(struct check *checking, size_t which, const json_t *status)
{
    const struct ask ask = {.target = "/api/workers/pools", .server = &which};
    char why[WORKER_POOLS_WHY_BYTES];
    struct worker_pools pools = {0};
    const char *text = NULL;
    ANSWER_LOCAL(answer);

    if (cluster_ask(checking->ctl->cluster, &ask, &answer) == CTL_DONE) {
        text = field_text(answer.json, "pools");
    }
    if (text == NULL || worker_pools_read(text, strlen(text), &pools, why) != 0) {
        return;
    }
    for (uint32_t i = 0; i < pools.count; i++) {
        if (count_members(status, "zone", pools.items[i].zone) == 0) {
            finding_add(&checking->findings, SEVERITY_WARNING, "zone",
                        "is it spelt as zone on its nodes? leafctl workers pools shows the pools",
                        "no node is in zone %s, which has the worker ids %u to %u",
                        pools.items[i].zone, pools.items[i].first, pools.items[i].last);
        }
    }
}

/* As nodes warn themselves (raft/cluster/membership.c and announce.c). */
static void check_zones(struct check *checking, const json_t *status)
{
    const char *preferred = field_text(status, "prefer_zone");
    size_t count = field_count(status, "members");
    const char *shared = NULL;

    if (preferred != NULL && count_members(status, "zone", preferred) == 0) {
        finding_add(&checking->findings, SEVERITY_WARNING, "zone",
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
            finding_add(&checking->findings, SEVERITY_WARNING, "zone",
                        "is the setting zone spelt as on the other nodes?",
                        "node %" PRId64 " alone is in zone %s, while others share %s",
                        field_number(member, "id", 0), zone, shared);
        }
    }
}

/* Is the server ready, by its own checks? */
static void check_ready(struct check *checking, size_t which, const char *name)
{
    const struct ask ask = {.target = "/readyz?verbose", .server = &which};
    ANSWER_LOCAL(answer);
    enum ctl_exit code = cluster_ask(checking->ctl->cluster, &ask, &answer);

    if ((code == CTL_DONE || answer.status == 503) && json_is_object(answer.json)) {
        find_in_ready(&checking->findings, name, answer.json);
    } else if (code != CTL_DENIED) {
        finding_add(&checking->findings, SEVERITY_WARNING, "ready", "its log",
                    "%s does not say whether it is ready: %s", name, check_reason(&answer));
    }
}

static void check_server(struct check *checking, size_t which)
{
    const struct server *server = &cluster_servers(checking->ctl->cluster)->list[which];
    struct findings *findings = &checking->findings;
    ANSWER_LOCAL(answer);
    const struct ask ask = {.target = "/api/status", .server = &which};
    enum ctl_exit code = cluster_ask(checking->ctl->cluster, &ask, &answer);
    const char *uid;

    code = code == CTL_DONE ? ctl_must_be_object(&answer) : code;
    if (code != CTL_DONE) {
        checking->code = code;
        if (code == CTL_DENIED) {
            finding_add(findings, SEVERITY_WARNING, "access", "show a token with the role read",
                        "%s", check_reason(&answer));
        } else if (code != CTL_INTERNAL) {
            finding_add(findings, SEVERITY_CRITICAL, "server", "is it up, and is this its address?",
                        "%s", check_reason(&answer));
        }
        return;
    }
    uid = field_text(answer.json, "uid");
    if (checking->uid == NULL) {
        checking->uid = uid != NULL ? strdup(uid) : NULL;
    } else if (uid != NULL && strcmp(uid, checking->uid) != 0) {
        finding_add(findings, SEVERITY_CRITICAL, "cluster",
                    "name the nodes of one cluster; or one of them was set up apart: its data "
                    "directory is of another cluster",
                    "%s belongs to another cluster (uid %s, not %s)", server->address, uid,
                    checking->uid);
    }
    find_in_status(findings, answer.json);
    check_zones(checking, answer.json);
    if (checking->answered++ == 0) {
        check_pools(checking, which, answer.json);
    }
    if (!server->tls && !address_is_loopback(server->address)) {
        finding_add(findings, SEVERITY_WARNING, "transport",
                    "give the nodes certificates: \"TLS\" in operations.md",
                    "%s is asked without TLS: a token on its way can be read", server->address);
    }
    check_ready(checking, which, server->address);
}

/* Can anonymous clients do everything? If so, they can read the audit, which needs the role
 * admin. */
static void check_anonymous(struct check *checking)
{
    const struct servers *servers = cluster_servers(checking->ctl->cluster);
    const struct ask ask = {.target = "/api/audit?limit=1"};
    bool far = false;
    ANSWER_LOCAL(answer);

    for (size_t i = 0; i < servers->count; i++) {
        far |= !address_is_loopback(servers->list[i].address);
    }
    if (!far || checking->ctl->settings.token != NULL ||
        checking->ctl->settings.values[SETTING_CERT] != NULL) {
        return;
    }
    if (cluster_ask(checking->ctl->cluster, &ask, &answer) == CTL_DONE) {
        finding_add(&checking->findings, SEVERITY_CRITICAL, "access",
                    "set auth.tokens-file: \"Tokens\" in operations.md",
                    "anybody who reaches %s may change everything: no token is asked for",
                    answer.server);
    }
}

/* Tags that are nearly used up. */
static void check_tags(struct check *checking)
{
    struct pages pages = {
        .ctl = checking->ctl, .path = "/api/tags", .limit = LIMIT_TAGS_PER_PAGE, .quiet = true};

    for (int page = 0; page < TAG_PAGES && pages_next(&pages); page++) {
        for (size_t i = 0; i < field_count(pages.answer.json, "tags"); i++) {
            const json_t *tag = field_item(pages.answer.json, "tags", i);
            const char *name = field_text(tag, "tag");
            const char *warning = field_text(tag, "warning");

            if (warning != NULL) {
                finding_add(&checking->findings, SEVERITY_WARNING, "tag",
                            "raise its max, or have its clients use another tag", "%s: %s",
                            name != NULL ? name : "?", warning);
            }
        }
    }
    (void)pages_end(&pages);
}

enum ctl_exit run_check(struct ctl *ctl)
{
    struct check checking = {
        .ctl = ctl, .findings = {.list = MUST_HAVE(json_array())}, .code = CTL_UNREACHABLE};
    static const char *const words[] = {"healthy", "up, with warnings", "critical"};
    struct findings *findings = &checking.findings;
    json_t *json;
    enum ctl_exit code;

    for (size_t i = 0; i < cluster_servers(ctl->cluster)->count; i++) {
        check_server(&checking, i);
    }
    if (checking.answered > 0) {
        const struct ask ask = {.target = "/api/cluster/level"};
        ANSWER_LOCAL(answer);

        if (cluster_ask(ctl->cluster, &ask, &answer) == CTL_DONE) {
            find_in_level(findings, answer.json);
        }
        check_anonymous(&checking);
        check_tags(&checking);
    }
    if (ctl->json) {
        json = MUST_HAVE(json_pack("{s:s, s:O}", "worst", severity_name(findings->worst),
                                   "findings", findings->list));
        ctl_put_json(ctl, json);
        json_decref(json);
    } else {
        findings_print(findings, ctl_has(ctl, "all"), &ctl->out);
        buf_printf(&ctl->out, "the cluster is %s\n", words[findings->worst]);
    }
    code = checking.answered == 0                 ? checking.code
           : findings->worst == SEVERITY_CRITICAL ? CTL_CRITICAL
           : findings->worst == SEVERITY_WARNING  ? CTL_WARNING
                                                  : CTL_DONE;
    json_decref(findings->list);
    free(checking.uid);
    return code;
}
