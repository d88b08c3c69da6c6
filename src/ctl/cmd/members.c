/*
 * members.c - `members`, `clients`, `leader`, `level`: which nodes the cluster has, which clients
 * they do not serve, which one leads, and what all of them speak.
 *
 * A change of the members continues when its request is answered 202, and the same request waits
 * for it: it is sent until the change is made, or --wait is over. Thread: one.
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

struct change {
    const char *method;
    const char *path;
    const char *name;  /* after the path; NULL: nothing */
    json_t *body;      /* taken over; NULL: none */
    const char *again; /* what to run when it continues */
    bool force;
    bool in_turn; /* wait for another change that is under way */
};

static void message_put(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out, "{message}\n", json);
}

/* Ask until it is done. */
static enum ctl_exit change_wait(struct ctl *ctl, const struct change *change)
{
    uint64_t wait_s = WAIT_DEFAULT_S;
    enum ctl_exit code = ctl_number_option(ctl, "wait", 1, 86400, &wait_s);
    uint64_t deadline_ms = clock_now_ms(clock_system()) + wait_s * 1000;
    bool printed = false;
    TARGET_LOCAL(target);

    target_init(&target, change->path, change->name);
    target_add_number(&target, "timeout_ms", WAIT_EACH_MS);
    target_add(&target, "force", change->force ? "1" : NULL);
    while (code == CTL_DONE) {
        ANSWER_LOCAL(answer);

        code = ctl_send(ctl, change->method, &target, change->body, change->force, &answer);
        if (code != CTL_DONE && change->in_turn && answer.status == 409 &&
            strcmp(answer.code, "in_progress") == 0) {
            (void)poll(NULL, 0, ASK_PAUSE_MS); /* that is answered at once */
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
            ctl_put(ctl, answer.json, message_put);
            break;
        }
        if (!printed) {
            const char *message = field_text(answer.json, "message");

            ctl_progress("under way: %s", message != NULL ? message : "no message");
            printed = true;
        }
        if (clock_now_ms(clock_system()) >= deadline_ms) {
            code =
                ctl_fail(CTL_UNKNOWN, "not done after %" PRIu64 " s; it continues. %s waits for it",
                         wait_s, change->again);
        }
    }
    json_decref(change->body);
    return code;
}

/* The node's id and, where an address follows it, that. */
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
    GRID_LOCAL(grid);

    members_prepare(json);
    grid_init(&grid, titles);
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
    const struct change change = {
        .method = "POST",
        .path = "/api/cluster/members",
        .body = json_pack("{s:I, s:s}", "id", (json_int_t)id, "peer_address", address),
        .again = "leafctl members add",
        .force = ctl_has(ctl, "force")};

    return change_wait(ctl, &change);
}

enum ctl_exit run_members_add(struct ctl *ctl)
{
    uint64_t id = 0;
    enum ctl_exit code = member_operands(ctl, 0, 1, &id);

    return code == CTL_DONE ? member_add(ctl, id, ctl->args.operands[1]) : code;
}

static enum ctl_exit member_remove(struct ctl *ctl, bool in_turn)
{
    const struct change change = {.method = "DELETE",
                                  .path = "/api/cluster/members/",
                                  .name = ctl->args.operands[0],
                                  .again = "leafctl members remove",
                                  .force = ctl_has(ctl, "force"),
                                  .in_turn = in_turn};

    return change_wait(ctl, &change);
}

/* A healthy voter goes only when it is meant: the command does not show how little is left. */
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
    return code == CTL_DONE ? member_remove(ctl, false) : code;
}

/* The dead one leaves first: with it among the voters, the new one's vote would be needed. But a
 * new one that runs already asks to be let in, and may have come first. */
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
    code = code == CTL_DONE ? member_remove(ctl, true) : code;
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

    if (code != CTL_DONE) {
        return code;
    }
    const struct change change = {.method = "PUT",
                                  .path = "/api/cluster/members/",
                                  .name = ctl->args.operands[0],
                                  .body = json_pack("{s:s}", "peer_address", ctl->args.operands[1]),
                                  .again = "leafctl members address",
                                  .force = ctl_has(ctl, "force")};

    return change_wait(ctl, &change);
}

/* --- work for nodes --- */

#define NODE_PATH_BYTES 64

/* what: "/drain", "/resume"; "": its fields. */
static enum ctl_exit node_change(struct ctl *ctl, const char *method, const char *what,
                                 json_t *body, bool force, const char *again)
{
    char path[NODE_PATH_BYTES];
    uint64_t id = 0;
    enum ctl_exit code = member_operands(ctl, 0, 0, &id);
    const struct change change = {
        .method = method, .path = path, .body = body, .again = again, .force = force};

    if (code != CTL_DONE) {
        json_decref(body);
        return code;
    }
    (void)snprintf(path, sizeof path, "/api/nodes/%" PRIu64 "%s", id, what);
    return change_wait(ctl, &change);
}

enum ctl_exit run_members_drain(struct ctl *ctl)
{
    return node_change(ctl, "POST", "/drain", NULL, ctl_has(ctl, "force"), "leafctl members drain");
}

enum ctl_exit run_members_resume(struct ctl *ctl)
{
    return node_change(ctl, "POST", "/resume", NULL, false, "leafctl members resume");
}

enum ctl_exit run_members_weight(struct ctl *ctl)
{
    uint64_t weight = 0;
    enum ctl_exit code = ctl_number("WEIGHT", ctl->args.operands[1], 0, 1000, &weight);

    return code == CTL_DONE
               ? node_change(ctl, "PUT", "", json_pack("{s:I}", "weight", (json_int_t)weight),
                             ctl_has(ctl, "force"), "leafctl members weight")
               : code;
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
    GRID_LOCAL(grid);

    grid_init(&grid, titles);
    ctl_put_rows(&ctl->out, &grid, json_object_get(json, "cuts"), 0);
}

enum ctl_exit run_clients_list(struct ctl *ctl)
{
    return ctl_show(ctl, CUTS_PATH, cuts_put);
}

static void cut_put(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out, "{who} is cut until {until}\n", json);
    if (field_text(json, "warning") != NULL) {
        ctl_progress("%s", field_text(json, "warning"));
    }
}

/* body: taken over; NULL: the cut ends. */
static enum ctl_exit cut_change(struct ctl *ctl, json_t *body)
{
    TARGET_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    target_init(&target, CUTS_PATH "/", ctl->args.operands[0]);
    target_add(&target, "force", body != NULL && ctl_has(ctl, "force") ? "1" : NULL);
    code = ctl_send(ctl, body != NULL ? "PUT" : "DELETE", &target, body, false, &answer);
    code = code != CTL_DONE       ? ctl_failed(code, &answer)
           : answer.status == 204 ? CTL_DONE
                                  : ctl_must_be_object(&answer);
    if (code == CTL_DONE && answer.status != 204) {
        ctl_put(ctl, answer.json, cut_put);
    } else if (code == CTL_DONE) {
        buf_printf(&ctl->out, "%s", ctl->json ? "" : "restored\n");
    }
    json_decref(body);
    return code;
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

/* POST one number. */
static enum ctl_exit number_change(struct ctl *ctl, const char *path, const char *field,
                                   uint64_t number, const char *again)
{
    const struct change change = {.method = "POST",
                                  .path = path,
                                  .body = json_pack("{s:I}", field, (json_int_t)number),
                                  .again = again};

    return change_wait(ctl, &change);
}

enum ctl_exit run_leader(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    int64_t leader;
    uint64_t id = 0;
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        code = member_operands(ctl, 0, 0, &id);
        return code == CTL_DONE
                   ? number_change(ctl, "/api/cluster/leader", "id", id, "leafctl leader")
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
    return ctl_show(ctl, "/api/cluster/level", level_put);
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
    return code == CTL_DONE
               ? number_change(ctl, "/api/cluster/level", "level", level, "leafctl level raise")
               : code;
}
