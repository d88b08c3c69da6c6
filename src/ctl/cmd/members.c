/*
 * members.c - `members`, `clients`, `leader`, `level`: the cluster's nodes, the clients that they
 * do not serve, the leader, and the level of all nodes.
 *
 * Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"

/* --- members --- */

static void members_put(struct ctl *ctl, json_t *json)
{
    static const struct grid_column titles[] = {{">node", "{id:n}"},
                                                {"role", "{role}"},
                                                {"reached", "{reached}"},
                                                {"zone", "{zone}"},
                                                {"state", "{state}"},
                                                {">weight", "{weight:int}"},
                                                {"version", "{version}"},
                                                {"levels", "{levels.min:n} to {levels.max:n}"},
                                                {"peers", "{peer_address}"},
                                                {"http", "{http_address}"},
                                                {NULL, NULL}};
    GRID_LOCAL(grid, titles);

    members_prepare(json);
    ctl_put_rows(&ctl->out, &grid, json_object_get(json, "members"), 0);
}

enum ctl_exit run_members_list(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code = ctl_get(ctl, "/api/cluster", &answer);

    if (code == CTL_DONE && ctl->json) {
        ctl_put_json(ctl, json_object_get(answer.json, "members"));
    } else if (code == CTL_DONE) {
        members_put(ctl, answer.json);
    }
    return code;
}

/* A healthy voter is removed only after a confirmation: the command does not show how few voters
 * remain. */
static enum ctl_exit member_ask_remove(struct ctl *ctl, uint64_t id)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code = ctl_get(ctl, "/api/cluster", &answer);
    bool healthy = false;
    unsigned voters = 0;
    char line[8] = "";

    for (size_t i = 0; code == CTL_DONE && i < field_count(answer.json, "members"); i++) {
        const json_t *member = field_item(answer.json, "members", i);

        if (field_is(member, "role", "voter")) {
            voters++;
            healthy |= field_number(member, "id", 0) == (int64_t)id &&
                       member_is_reached(answer.json, member);
        }
    }
    if (code != CTL_DONE || !healthy) {
        return code;
    }
    ctl_progress("node %" PRIu64 " is a voter, and is reached. Without it %u voters are left, of "
                 "which %u may fail (now %u of %u), and its id cannot be used again",
                 id, voters - 1, voters > 1 ? (voters - 2) / 2 : 0, (voters - 1) / 2, voters);
    if (!isatty(STDIN_FILENO)) {
        return ctl_fail(CTL_USAGE,
                        "say --yes to remove it; to exchange it, add the new node first");
    }
    (void)fprintf(stderr, "remove node %" PRIu64 "? [y/N] ", id);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y')
               ? CTL_DONE
               : ctl_fail(CTL_USAGE, "nothing was done");
}

enum ctl_exit run_members_remove(struct ctl *ctl)
{
    uint64_t id = 0;
    enum ctl_exit code = ctl_number("ID", ctl->args.operands[0], 1, LIMIT_NODE_ID, &id);

    if (code == CTL_DONE && !ctl_has(ctl, "yes")) {
        code = member_ask_remove(ctl, id);
    }
    return code == CTL_DONE ? ctl_request(ctl, NULL) : code;
}

/* The dead one leaves first: with it among the voters, the new one's vote would be needed. But a
 * running new one already asks to be let in, and may be first. */
enum ctl_exit run_members_replace(struct ctl *ctl)
{
    const char *force = ctl_has(ctl, "force") ? "1" : NULL;
    uint64_t old = 0;
    json_t *body = NULL;
    int64_t new;
    BUF_LOCAL(target);
    BUF_LOCAL(members);
    enum ctl_exit code = ctl_fill(ctl, "DELETE", &target, &body);

    new = field_number(body, "id", 0);
    if (code == CTL_DONE) {
        code = ctl_number("ID", ctl->args.operands[0], 1, LIMIT_NODE_ID, &old);
    }
    if (code == CTL_DONE && (int64_t)old == new) {
        code = ctl_fail(CTL_USAGE,
                        "an id that was removed cannot be used again: the new node needs "
                        "another one than %" PRIu64,
                        old);
    }
    code = code == CTL_DONE ? ctl_change(ctl, "DELETE", &target, NULL, "remove", true) : code;
    if (code != CTL_DONE) {
        json_decref(body);
        return code;
    }
    ctl_progress("start node %" PRId64 " with an empty directory and --join, unless it runs", new);
    target_put(&members, "/api/cluster/members", NULL);
    target_add(&members, "force", force);
    code = ctl_change(ctl, "POST", &members, body, "add", false);
    if (code != CTL_DONE) {
        ctl_progress("node %" PRIu64
                     " was removed; what is left to do: leafctl members add %" PRId64 " %s",
                     old, new, ctl->args.operands[2]);
    }
    return code;
}

/* --- clients that are cut --- */

void put_cut(struct ctl *ctl, json_t *json)
{
    if (json == NULL) { /* it has ended */
        buf_printf(&ctl->out, "restored\n");
        return;
    }
    ctl_put_form(&ctl->out, "{who} is cut until {until}\n", json);
    if (field_text(json, "warning") != NULL) {
        ctl_progress("%s", field_text(json, "warning"));
    }
}

enum ctl_exit run_clients_cut(struct ctl *ctl)
{
    static const uint64_t units_s[] = {1, 60, 3600, 86400};
    static const char units[] = "smhd";
    const char *text = ctl_option(ctl, "for");
    size_t digits = text != NULL ? strspn(text, "0123456789") : 0;
    const char *unit =
        digits >= 1 && digits <= 6 && text[digits] != '\0' && text[digits + 1] == '\0'
            ? strchr(units, text[digits])
            : NULL;
    uint64_t for_s = unit != NULL ? strtoull(text, NULL, 10) * units_s[unit - units] : 0;

    if (for_s < 1 || for_s > LIMIT_CUT_S) {
        return ctl_fail(CTL_USAGE,
                        "--for must be a time from 1s to 7d, such as 90s, 10m or 2h, "
                        "and is %s",
                        text != NULL ? text : "missing");
    }
    return ctl_request(ctl, MUST_HAVE(json_pack("{s:I}", "for_s", (json_int_t)for_s)));
}

/* --- leader and level --- */

enum ctl_exit run_leader(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    int64_t leader;
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        return ctl_request(ctl, NULL);
    }
    code = ctl_get(ctl, "/api/cluster", &answer);
    if (code != CTL_DONE) {
        return code;
    }
    leader = field_number(answer.json, "leader_id", 0);
    if (ctl->json) {
        buf_printf(&ctl->out,
                   leader > 0 ? "{\"leader_id\":%" PRId64 "}\n" : "{\"leader_id\":null}\n", leader);
    } else if (leader > 0) {
        ctl_put_form(&ctl->out, "node {leader_id:n} leads, in term {term:n}\n", answer.json);
    }
    return leader > 0 ? CTL_DONE
                      : ctl_fail(CTL_REFUSED, "no leader is known there: is a majority up? leafctl "
                                              "check says more");
}

void put_level(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out,
                 field_true(json, "newest") ? "level {level:n}, the newest that the nodes speak\n"
                 : field_true(json, "can_rise") ? "level {level:n}; it can rise: {message}\n"
                                                : "level {level:n}; it cannot rise: {message}\n",
                 json);
}

enum ctl_exit run_level_raise(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    uint64_t next; /* unsigned: the answer may have any number */
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        return ctl_request(ctl, NULL);
    }
    code = ctl_get(ctl, "/api/cluster/level", &answer);
    next = (uint64_t)field_number(answer.json, "level", 0) + 1;
    return code == CTL_DONE ? ctl_request(ctl, json_pack("{s:I}", "level", (json_int_t)next))
                            : code;
}
