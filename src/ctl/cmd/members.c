/*
 * members.c - `members`, `clients`, `leader`, `level`: the cluster's nodes, the clients that they
 * do not serve, the leader, and the level of all nodes.
 *
 * An answer 202 means that a change of the members continues. The same request waits for it: it is
 * repeated until the change is made, or --wait is over. Thread: one.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/ctl/cmd/command.h"

#define NODE_ID_MAX 65535
#define WAIT_DEFAULT_S 120
#define WAIT_EACH_MS 3000 /* of one request */

/* Ask until it is done; again: the command of this family that waits for a change that continues.
 * body: freed; NULL: none. in_turn: wait for another change under way. */
static enum ctl_exit change_wait(struct ctl *ctl, const char *method, struct buf *target,
                                 json_t *body, const char *again, bool in_turn)
{
    uint64_t wait_s = WAIT_DEFAULT_S;
    enum ctl_exit code = ctl_number_option(ctl, "wait", 1, 86400, &wait_s);
    uint64_t deadline_ms = clock_now_ms(clock_system()) + wait_s * 1000;
    bool force = ctl_has(ctl, "force");
    bool printed = false;

    target_add_number(target, "timeout_ms", WAIT_EACH_MS);
    target_add(target, "force", force ? "1" : NULL);
    while (code == CTL_DONE) {
        ANSWER_LOCAL(answer);

        code = ctl_send(ctl, method, buf_text(target), body, force, &answer);
        if (code != CTL_DONE && in_turn && answer.status == 409 &&
            strcmp(answer.code, "in_progress") == 0) {
            (void)poll(NULL, 0, ASK_PAUSE_MS); /* since the request is answered at once */
            code = CTL_DONE;
        } else if (code != CTL_DONE) {
            code = ctl_failed(code, &answer);
        } else {
            code = ctl_must_be_object(&answer);
        }
        if (code != CTL_DONE) {
            break;
        }
        if (answer.status == 200) {
            ctl_put(ctl, answer.json, "{message}\n", NULL);
            break;
        }
        if (!printed) {
            const char *message = field_text(answer.json, "message");

            ctl_progress("under way: %s", message != NULL ? message : "no message");
            printed = true;
        }
        if (clock_now_ms(clock_system()) >= deadline_ms) {
            code = ctl_fail(
                CTL_UNKNOWN,
                "not done after %" PRIu64 " s; it continues. leafctl %s%s%s waits for it", wait_s,
                ctl->command->family, again != NULL ? " " : "", again != NULL ? again : "");
        }
    }
    json_decref(body);
    return code;
}

/* POST to this path. */
static enum ctl_exit change_post(struct ctl *ctl, const char *path, json_t *body, const char *again)
{
    BUF_LOCAL(target);

    target_put(&target, path, NULL);
    return change_wait(ctl, "POST", &target, body, again, false);
}

/* The node's id and, if given, the address after it. */
static enum ctl_exit member_operands(struct ctl *ctl, unsigned id, unsigned address,
                                     uint64_t *ret_id)
{
    enum ctl_exit code = ctl_number("ID", ctl->args.operands[id], 1, NODE_ID_MAX, ret_id);
    const char *text = address > 0 ? ctl->args.operands[address] : NULL;
    struct address split;

    if (code == CTL_DONE && text != NULL &&
        (address_split(text, &split) != 0 || strpbrk(text, "\"\\") != NULL ||
         !text_is_utf8(text, strlen(text)))) {
        return ctl_fail(CTL_USAGE, "\"%s\" is not HOST:PORT", text);
    }
    return code;
}

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

static enum ctl_exit member_add(struct ctl *ctl, uint64_t id, const char *address)
{
    return change_post(ctl, "/api/cluster/members",
                       json_pack("{s:I, s:s}", "id", (json_int_t)id, "peer_address", address),
                       "add");
}

enum ctl_exit run_members_add(struct ctl *ctl)
{
    uint64_t id = 0;
    enum ctl_exit code = member_operands(ctl, 0, 1, &id);

    return code == CTL_DONE ? member_add(ctl, id, ctl->args.operands[1]) : code;
}

/* Change the member that the first operand names. */
static enum ctl_exit member_change(struct ctl *ctl, const char *method, json_t *body,
                                   const char *again, bool in_turn)
{
    BUF_LOCAL(target);

    target_put(&target, "/api/cluster/members/", ctl->args.operands[0]);
    return change_wait(ctl, method, &target, body, again, in_turn);
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
                 "which %u may fail (now %u of %u), and its id never comes back",
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
    enum ctl_exit code = member_operands(ctl, 0, 0, &id);

    if (code == CTL_DONE && !ctl_has(ctl, "yes")) {
        code = member_ask_remove(ctl, id);
    }
    return code == CTL_DONE ? member_change(ctl, "DELETE", NULL, "remove", false) : code;
}

/* The dead one leaves first: with it among the voters, the new one's vote would be needed. But a
 * running new one already asks to be let in, and may be first. */
enum ctl_exit run_members_replace(struct ctl *ctl)
{
    uint64_t old = 0;
    uint64_t new = 0;
    enum ctl_exit code = member_operands(ctl, 0, 0, &old);

    code = code == CTL_DONE ? member_operands(ctl, 1, 2, &new) : code;
    if (code == CTL_DONE && old == new) {
        code = ctl_fail(CTL_USAGE,
                        "an id that was removed never comes back: the new node needs "
                        "another one than %" PRIu64,
                        old);
    }
    code = code == CTL_DONE ? member_change(ctl, "DELETE", NULL, "remove", true) : code;
    if (code != CTL_DONE) {
        return code;
    }
    ctl_progress("start node %" PRIu64 " with an empty directory and --join, unless it runs", new);
    code = member_add(ctl, new, ctl->args.operands[2]);
    if (code != CTL_DONE) {
        ctl_progress("node %" PRIu64
                     " was removed; what is left to do: leafctl members add %" PRIu64 " %s",
                     old, new, ctl->args.operands[2]);
    }
    return code;
}

enum ctl_exit run_members_address(struct ctl *ctl)
{
    uint64_t id = 0;
    enum ctl_exit code = member_operands(ctl, 0, 1, &id);

    return code == CTL_DONE
               ? member_change(ctl, "PUT",
                               json_pack("{s:s}", "peer_address", ctl->args.operands[1]), "address",
                               false)
               : code;
}

/* `drain`, `resume` and `weight` of a node: the command's name ends the path or is the
 * body's field. */
enum ctl_exit run_members_work(struct ctl *ctl)
{
    const char *weight_text = ctl->args.operands[1];
    const char *what = ctl->command->name;
    uint64_t weight = 0;
    uint64_t id = 0;
    enum ctl_exit code = ctl_number("WEIGHT", weight_text, 0, 1000, &weight);
    BUF_LOCAL(target);

    code = code == CTL_DONE ? member_operands(ctl, 0, 0, &id) : code;
    if (code != CTL_DONE) {
        return code;
    }
    buf_printf(&target, "/api/nodes/%" PRIu64, id);
    if (weight_text != NULL) {
        return change_wait(ctl, "PUT", &target, json_pack("{s:I}", what, (json_int_t)weight), what,
                           false);
    }
    buf_printf(&target, "/%s", what);
    return change_wait(ctl, "POST", &target, NULL, what, false);
}

/* --- clients that are cut --- */

#define CUTS_PATH "/api/clients/cuts"

static void cuts_put(struct ctl *ctl, json_t *json)
{
    static const struct grid_column titles[] = {{"client", "{who}"},
                                                {"cut until", "{until}"},
                                                {"by", "{by}"},
                                                {"reason", "{reason}"},
                                                {NULL, NULL}};
    GRID_LOCAL(grid, titles);

    ctl_put_rows(&ctl->out, &grid, json_object_get(json, "cuts"), 0);
}

enum ctl_exit run_clients_list(struct ctl *ctl)
{
    return ctl_ask(ctl, NULL, CUTS_PATH, NULL, NULL, cuts_put);
}

/* json NULL: the cut has ended. */
static void cut_put(struct ctl *ctl, json_t *json)
{
    if (json == NULL) {
        buf_printf(&ctl->out, "restored\n");
        return;
    }
    ctl_put_form(&ctl->out, "{who} is cut until {until}\n", json);
    if (field_text(json, "warning") != NULL) {
        ctl_progress("%s", field_text(json, "warning"));
    }
}

/* body: taken; NULL: the cut ends. */
static enum ctl_exit cut_change(struct ctl *ctl, json_t *body)
{
    BUF_LOCAL(target);

    target_put(&target, CUTS_PATH "/", ctl->args.operands[0]);
    target_add(&target, "force", ctl_has(ctl, "force") ? "1" : NULL);
    return ctl_ask(ctl, body != NULL ? "PUT" : "DELETE", buf_text(&target), body, NULL, cut_put);
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
    const struct body_field reason = {"reason", "reason", 0, 0};
    json_t *body;

    if (for_s < 1 || for_s > LIMIT_CUT_S) {
        return ctl_fail(CTL_USAGE,
                        "--for must be a time from 1s to 7d, such as 90s, 10m or 2h, "
                        "and is %s",
                        text != NULL ? text : "missing");
    }
    body = MUST_HAVE(json_pack("{s:I}", "for_s", (json_int_t)for_s));
    if (ctl_add_fields(ctl, &reason, 1, body) != CTL_DONE) {
        json_decref(body);
        return CTL_USAGE;
    }
    return cut_change(ctl, body);
}

enum ctl_exit run_clients_restore(struct ctl *ctl)
{
    return cut_change(ctl, NULL);
}

/* --- leader and level --- */

enum ctl_exit run_leader(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    int64_t leader;
    uint64_t id = 0;
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        code = member_operands(ctl, 0, 0, &id);
        return code == CTL_DONE ? change_post(ctl, "/api/cluster/leader",
                                              json_pack("{s:I}", "id", (json_int_t)id), NULL)
                                : code;
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

static void level_put(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out,
                 field_true(json, "newest") ? "level {level:n}, the newest that the nodes speak\n"
                 : field_true(json, "can_rise") ? "level {level:n}; it can rise: {message}\n"
                                                : "level {level:n}; it cannot rise: {message}\n",
                 json);
}

enum ctl_exit run_level_show(struct ctl *ctl)
{
    return ctl_ask(ctl, NULL, "/api/cluster/level", NULL, NULL, level_put);
}

enum ctl_exit run_level_raise(struct ctl *ctl)
{
    uint64_t level = 0;
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        code = ctl_number("LEVEL", ctl->args.operands[0], 1, 65535, &level);
    } else {
        code = ctl_get(ctl, "/api/cluster/level", &answer);
        level = code == CTL_DONE ? (uint64_t)field_number(answer.json, "level", 0) + 1 : 0;
    }
    return code == CTL_DONE ? change_post(ctl, "/api/cluster/level",
                                          json_pack("{s:I}", "level", (json_int_t)level), "raise")
                            : code;
}
