/*
 * check.c - `check`: is this cluster healthy, and well set up? An opinion, with reasons and what to
 * do; the exit code is that of the worst of them.
 *
 * It asks each server that was named, and forms an opinion of what each of them says; a thing that
 * all say is told once. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/cmd/opinion.h"
#include "src/ctl/cmd/status.h"

#define TAG_PAGES 20 /* of 1000, that are looked through for tags that are nearly used up */

/* What is gathered over all servers. */
struct checking {
    struct ctl *ctl;
    struct findings findings;
    char *uid; /* of the first that answered; NULL: none yet */
    size_t answered;
    enum ctl_exit code; /* why nothing can be said */
};

static void of_uid(struct checking *checking, const char *server, const json_t *status)
{
    const char *uid = field_text(status, "uid");

    if (checking->uid == NULL) {
        checking->uid = uid != NULL ? strdup(uid) : NULL;
    } else if (uid != NULL && strcmp(uid, checking->uid) != 0) {
        finding_add(&checking->findings, SEVERITY_CRITICAL, "cluster",
                    "name the nodes of one cluster; or one of them was set up apart: its data "
                    "directory is of another cluster",
                    "%s belongs to another cluster (uid %s, not %s)", server, uid, checking->uid);
    }
}

/* Words of an answer that is an error, on one line. */
static const char *reason_of(const struct answer *answer)
{
    char *end = answer->error.len > 0 ? strchr((char *)answer->error.data, '\n') : NULL;

    if (end != NULL) {
        *end = '\0';
    }
    return answer->error.len > 0 ? (char *)answer->error.data : "no answer";
}

/* Is it reached without TLS from another machine? Then tokens and names can be read on the way. */
static void of_transport(struct checking *checking, const struct server *server)
{
    if (!server->tls && !address_is_loopback(server->address)) {
        finding_add(&checking->findings, SEVERITY_WARNING, "transport",
                    "give the nodes certificates: \"TLS\" in operations.md",
                    "%s is asked without TLS: a token on its way can be read", server->address);
    }
}

static void ask_ready(struct checking *checking, size_t which, const char *name, int64_t node)
{
    const struct ask ask = {.target = "/readyz?verbose"};
    ANSWER_LOCAL(answer);
    enum ctl_exit code = cluster_ask_one(checking->ctl->cluster, which, &ask, &answer);

    if ((code == CTL_DONE || answer.status == 503) && json_is_object(answer.json)) {
        opinion_ready(&checking->findings, name, node, answer.json);
    } else if (code != CTL_DENIED) {
        finding_add(&checking->findings, SEVERITY_WARNING, "ready", "its log",
                    "%s does not say whether it is ready: %s", name, reason_of(&answer));
    }
}

/* One server. A second address of a node that was asked already says the same again. */
static void ask_server(struct checking *checking, size_t which)
{
    const struct servers *servers = cluster_servers(checking->ctl->cluster);
    const struct server *server = &servers->list[which];
    ANSWER_LOCAL(answer);
    enum ctl_exit code = status_get(checking->ctl, &which, &answer);

    if (code == CTL_DONE) {
        checking->answered++;
        of_uid(checking, server->address, answer.json);
        opinion_status(&checking->findings, answer.json, clock_wall_ms(clock_system()));
        of_transport(checking, server);
        ask_ready(checking, which, server->address, field_number(answer.json, "node_id", 0));
        return;
    }
    checking->code = code;
    if (code == CTL_DENIED) {
        finding_add(&checking->findings, SEVERITY_WARNING, "access",
                    "show a token with the role read", "%s", reason_of(&answer));
    } else if (code != CTL_INTERNAL) {
        finding_add(&checking->findings, SEVERITY_CRITICAL, "server",
                    "is it up, and is this its address?", "%s", reason_of(&answer));
    }
}

static void ask_level(struct checking *checking)
{
    const struct ask ask = {.target = "/api/cluster/level"};
    ANSWER_LOCAL(answer);

    if (cluster_ask(checking->ctl->cluster, &ask, &answer) == CTL_DONE) {
        opinion_level(&checking->findings, answer.json);
    }
}

/* Can everybody do everything? The audit shows it: it is for the role admin. */
static void ask_anonymous(struct checking *checking)
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

static void look_for_used_up(struct checking *checking, const json_t *page)
{
    for (size_t i = 0; i < field_count(page, "tags"); i++) {
        const json_t *tag = field_item(page, "tags", i);
        const char *warning = field_text(tag, "warning");

        if (warning != NULL) {
            finding_add(&checking->findings, SEVERITY_WARNING, "tag",
                        "raise its max, or have its clients go on with another tag", "%s: %s",
                        field_text(tag, "tag") != NULL ? field_text(tag, "tag") : "?", warning);
        }
    }
}

static void ask_tags(struct checking *checking)
{
    char target[1024] = "/api/tags?limit=1000";

    for (int page = 0; page < TAG_PAGES && target[0] != '\0'; page++) {
        const struct ask ask = {.target = target};
        ANSWER_LOCAL(answer);
        BUF_LOCAL(next);

        if (cluster_ask(checking->ctl->cluster, &ask, &answer) == CTL_DONE) {
            look_for_used_up(checking, answer.json);
            if (field_text(answer.json, "next") != NULL) {
                buf_printf(&next, "/api/tags?limit=1000&after=");
                exchange_encode(&next, field_text(answer.json, "next"));
            }
        }
        target[0] = '\0';
        if (next.len > 0 && next.len < sizeof target) {
            memcpy(target, next.data, next.len);
            target[next.len] = '\0';
        }
    }
}

static void check_print(struct checking *checking)
{
    struct ctl *ctl = checking->ctl;
    struct findings *findings = &checking->findings;
    static const char *const words[] = {"healthy", "with warnings", "critical"};

    if (ctl->json) {
        json_t *json = MUST_HAVE(json_pack("{s:s, s:O}", "worst", severity_name(findings->worst),
                                           "findings", findings->list));

        ctl_put_json(ctl, json);
        json_decref(json);
        return;
    }
    findings_print(findings, ctl_option(ctl, "all") != NULL, &ctl->out);
    buf_printf(&ctl->out, "the cluster is %s%s\n",
               findings->worst == SEVERITY_WARNING ? "up, " : "", words[findings->worst]);
}

static enum ctl_exit check_run(struct ctl *ctl)
{
    struct checking checking = {.ctl = ctl, .code = CTL_UNREACHABLE};
    enum ctl_exit code;

    findings_init(&checking.findings);
    for (size_t i = 0; i < cluster_servers(ctl->cluster)->count; i++) {
        ask_server(&checking, i);
    }
    if (checking.answered > 0) {
        ask_level(&checking);
        ask_anonymous(&checking);
        ask_tags(&checking);
    }
    check_print(&checking);
    code = checking.answered == 0                         ? checking.code
           : checking.findings.worst == SEVERITY_CRITICAL ? CTL_CRITICAL
           : checking.findings.worst == SEVERITY_WARNING  ? CTL_WARNING
                                                          : CTL_DONE;
    findings_free(&checking.findings);
    free(checking.uid);
    return code;
}

static const struct option_about OPTIONS[] = {
    {"all", 0, NULL, "also say what is as it should be"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_CHECK = {
    .family = "check",
    .summary = "is the cluster healthy and well set up? reasons, what to do, and an exit code",
    .text = "It asks every server that --server names, so name all nodes. Exit code 0: nothing to "
            "say; 1: warnings; 2: something is critical.",
    .options = OPTIONS,
    .run = check_run,
};
