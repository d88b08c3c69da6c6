/*
 * members.c - `members`, `leader`, `level`: who belongs to the cluster, who leads it, and what all
 * of it speaks.
 *
 * A change of the members goes on when its request is answered 202, and the same request waits for
 * it: that is done until it is made, or --wait is over. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/clock.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/text.h"
#include "src/ctl/out/grid.h"

#define NODE_ID_MAX 65535
#define WAIT_DEFAULT_S 120
#define WAIT_EACH_MS 3000 /* of one request */

struct change {
    const char *method;
    const char *path;
    const char *name;  /* behind the path; NULL: nothing */
    const char *body;  /* NULL: none */
    const char *again; /* what to run when it goes on */
    bool force;
    bool in_turn; /* wait for another change that is under way */
};

static void put_message(struct ctl *ctl, const json_t *json)
{
    clean_text(&ctl->out, field_text(json, "message"));
    buf_put(&ctl->out, "\n", 1);
}

static bool waits_for_another(const struct change *change, const struct answer *answer)
{
    return change->in_turn && answer->status == 409 && strcmp(answer->code, "in_progress") == 0;
}

/* What there is to wait for, once. */
static void members_print_step(const struct answer *answer, bool *told)
{
    const char *message = field_text(answer->json, "message");

    if (!*told) {
        ctl_progress("under way: %s", message != NULL ? message : "no message");
    }
    *told = true;
}

/* Ask until it is done. */
static enum ctl_exit make_change(struct ctl *ctl, const struct change *change)
{
    uint64_t wait_s = WAIT_DEFAULT_S;
    enum ctl_exit code = ctl_number("wait", ctl_option(ctl, "wait"), 1, 86400, &wait_s);
    uint64_t deadline_ms = clock_now_ms(clock_system()) + wait_s * 1000;
    bool told = false;
    struct answer answer;
    TARGET_LOCAL(target);

    target_init(&target, change->path, change->name);
    target_add_number(&target, "timeout_ms", WAIT_EACH_MS);
    target_add(&target, "force", change->force ? "1" : NULL);
    while (code == CTL_DONE) {
        const struct ask ask = {.method = change->method,
                                .target = target_text(&target),
                                .body = change->body,
                                .once = change->force};

        code = cluster_ask(ctl->cluster, &ask, &answer);
        if (code != CTL_DONE && waits_for_another(change, &answer)) {
            (void)poll(NULL, 0, ASK_PAUSE_MS); /* that is answered at once */
            code = CTL_DONE;
        } else if (code != CTL_DONE) {
            code = ctl_failed(code, &answer);
        } else {
            code = ctl_must_be_object(&answer);
        }
        if (code != CTL_DONE || answer.status == 200) {
            break;
        }
        members_print_step(&answer, &told);
        answer_free(&answer);
        if (clock_now_ms(clock_system()) >= deadline_ms) {
            code =
                ctl_fail(CTL_UNKNOWN, "not done after %" PRIu64 " s; it goes on. %s waits for it",
                         wait_s, change->again);
        }
    }
    if (code == CTL_DONE) {
        ctl_put(ctl, answer.json, put_message);
        answer_free(&answer);
    }
    return code;
}

static enum ctl_exit node_id(const struct ctl *ctl, unsigned operand, uint64_t *ret_id)
{
    return ctl_number("ID", ctl->args.operands[operand], 1, NODE_ID_MAX, ret_id);
}

static enum ctl_exit members_check_address(const char *text)
{
    struct address address;

    if (address_split(text, &address) != 0 || strpbrk(text, "\"\\") != NULL) {
        return ctl_fail(CTL_USAGE, "\"%s\" is not HOST:PORT", text);
    }
    return CTL_DONE;
}

/* --- list --- */

static enum ctl_exit members_run_list(struct ctl *ctl)
{
    static const char *const titles[] = {">node",  "role",  "reached", "version",
                                         "levels", "peers", "http",    NULL};
    ANSWER_LOCAL(answer);
    GRID_LOCAL(grid);
    enum ctl_exit code = ctl_get(ctl, "/api/cluster", &answer);

    if (code != CTL_DONE) {
        return code;
    }
    if (ctl->json) {
        ctl_put_json(ctl, json_object_get(answer.json, "members"));
        return CTL_DONE;
    }
    grid_init(&grid, titles);
    for (size_t i = 0; i < field_count(answer.json, "members"); i++) {
        const json_t *member = field_item(answer.json, "members", i);
        const json_t *levels = json_object_get(member, "levels");
        int64_t id = field_number(member, "id", 0);
        bool reached =
            id == field_number(answer.json, "node_id", 0) || field_true(member, "reachable");

        grid_cellf(&grid, "%" PRId64, id);
        grid_cell(&grid, id == field_number(answer.json, "leader_id", 0)
                             ? "leader"
                             : field_text(member, "role"));
        grid_cell(&grid, reached ? "yes" : "NO");
        grid_cell(&grid, field_text(member, "version"));
        grid_cellf(&grid, "%" PRId64 " to %" PRId64, field_number(levels, "min", 0),
                   field_number(levels, "max", 0));
        grid_cell(&grid, field_text(member, "peer_address"));
        grid_cell(&grid, field_text(member, "http_address"));
    }
    grid_print(&grid, 0, true, &ctl->out);
    return CTL_DONE;
}

/* --- changes --- */

static enum ctl_exit members_add(struct ctl *ctl, uint64_t id, const char *address)
{
    BUF_LOCAL(body);

    buf_printf(&body, "{\"id\":%" PRIu64 ",\"peer_address\":\"%s\"}", id, address);
    const struct change change = {.method = "POST",
                                  .path = "/api/cluster/members",
                                  .body = buf_text(&body),
                                  .again = "leafctl members add",
                                  .force = ctl_option(ctl, "force") != NULL};

    return make_change(ctl, &change);
}

static enum ctl_exit run_add(struct ctl *ctl)
{
    uint64_t id = 0;
    enum ctl_exit code = node_id(ctl, 0, &id);

    code = code == CTL_DONE ? members_check_address(ctl->args.operands[1]) : code;
    return code == CTL_DONE ? members_add(ctl, id, ctl->args.operands[1]) : code;
}

static enum ctl_exit remove_member(struct ctl *ctl, bool in_turn)
{
    const struct change change = {.method = "DELETE",
                                  .path = "/api/cluster/members/",
                                  .name = ctl->args.operands[0],
                                  .again = "leafctl members remove",
                                  .force = ctl_option(ctl, "force") != NULL,
                                  .in_turn = in_turn};

    return make_change(ctl, &change);
}

/* Of so many voters that many may fail. */
static unsigned may_fail(unsigned voters)
{
    return voters > 0 ? (voters - 1) / 2 : 0;
}

/* Is it a voter that is reached, in a cluster that it would leave weaker? *ret_voters: all. */
static bool is_healthy_voter(const json_t *cluster, uint64_t id, unsigned *ret_voters)
{
    bool healthy = false;

    *ret_voters = 0;
    for (size_t i = 0; i < field_count(cluster, "members"); i++) {
        const json_t *member = field_item(cluster, "members", i);
        int64_t own = field_number(member, "id", 0);
        bool is_voter = field_is(member, "role", "voter");

        *ret_voters += is_voter;
        healthy = healthy ||
                  (is_voter && own == (int64_t)id &&
                   (own == field_number(cluster, "node_id", 0) || field_true(member, "reachable")));
    }
    return healthy;
}

static bool says_yes(uint64_t id)
{
    char line[8] = "";

    (void)fprintf(stderr, "remove node %" PRIu64 "? [y/N] ", id);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

/* A healthy voter goes only when it is meant: nobody sees by the command how little is left. */
static enum ctl_exit members_ask_remove(struct ctl *ctl, uint64_t id)
{
    ANSWER_LOCAL(answer);
    unsigned voters = 0;
    enum ctl_exit code = ctl_get(ctl, "/api/cluster", &answer);

    if (code != CTL_DONE || !is_healthy_voter(answer.json, id, &voters)) {
        return code;
    }
    ctl_progress("node %" PRIu64 " is a voter, and is reached. Without it %u voters are left, of "
                 "which %u may fail (now %u of %u), and its id never comes back",
                 id, voters - 1, may_fail(voters - 1), may_fail(voters), voters);
    if (!isatty(STDIN_FILENO)) {
        return ctl_fail(CTL_USAGE,
                        "say --yes to remove it; to exchange it, add the new node first");
    }
    return says_yes(id) ? CTL_DONE : ctl_fail(CTL_USAGE, "nothing was done");
}

static enum ctl_exit run_remove(struct ctl *ctl)
{
    uint64_t id = 0;
    enum ctl_exit code = node_id(ctl, 0, &id);

    if (code == CTL_DONE && ctl_option(ctl, "yes") == NULL) {
        code = members_ask_remove(ctl, id);
    }
    return code == CTL_DONE ? remove_member(ctl, false) : code;
}

/* The dead one leaves first: with it among the voters, the new one's vote would be needed. But a
 * new one that runs already asks by itself to be let in, and may have come first. */
static enum ctl_exit run_replace(struct ctl *ctl)
{
    uint64_t old = 0;
    uint64_t new = 0;
    enum ctl_exit code = node_id(ctl, 0, &old);

    code = code == CTL_DONE ? node_id(ctl, 1, &new) : code;
    code = code == CTL_DONE ? members_check_address(ctl->args.operands[2]) : code;
    if (code == CTL_DONE && old == new) {
        code = ctl_fail(CTL_USAGE,
                        "an id that was removed never comes back: the new node needs "
                        "another one than %" PRIu64,
                        old);
    }
    code = code == CTL_DONE ? remove_member(ctl, true) : code;
    if (code != CTL_DONE) {
        return code;
    }
    ctl_progress("start node %" PRIu64 " with an empty directory and --join, unless it runs", new);
    code = members_add(ctl, new, ctl->args.operands[2]);
    if (code != CTL_DONE) {
        ctl_progress("node %" PRIu64
                     " was removed; what is left to do: leafctl members add %" PRIu64 " %s",
                     old, new, ctl->args.operands[2]);
    }
    return code;
}

static enum ctl_exit run_address(struct ctl *ctl)
{
    uint64_t id = 0;
    BUF_LOCAL(body);
    enum ctl_exit code = node_id(ctl, 0, &id);

    code = code == CTL_DONE ? members_check_address(ctl->args.operands[1]) : code;
    if (code != CTL_DONE) {
        return code;
    }
    buf_printf(&body, "{\"peer_address\":\"%s\"}", ctl->args.operands[1]);
    const struct change change = {.method = "PUT",
                                  .path = "/api/cluster/members/",
                                  .name = ctl->args.operands[0],
                                  .body = buf_text(&body),
                                  .again = "leafctl members address",
                                  .force = ctl_option(ctl, "force") != NULL};

    return make_change(ctl, &change);
}

/* --- leader and level --- */

static enum ctl_exit show_leader(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code = ctl_get(ctl, "/api/cluster", &answer);
    int64_t leader;

    if (code != CTL_DONE) {
        return code;
    }
    leader = field_number(answer.json, "leader_id", 0);
    if (ctl->json) {
        buf_printf(&ctl->out,
                   leader > 0 ? "{\"leader_id\":%" PRId64 "}\n" : "{\"leader_id\":null}\n", leader);
    } else if (leader > 0) {
        buf_printf(&ctl->out, "node %" PRId64 " leads, in term %" PRId64 "\n", leader,
                   field_number(answer.json, "term", 0));
    }
    return leader > 0 ? CTL_DONE
                      : ctl_fail(CTL_REFUSED, "no leader is known there: is a majority up? leafctl "
                                              "check says more");
}

static enum ctl_exit run_leader(struct ctl *ctl)
{
    char body[64];
    uint64_t id = 0;
    const struct change change = {
        .method = "POST", .path = "/api/cluster/leader", .body = body, .again = "leafctl leader"};
    enum ctl_exit code;

    if (ctl->args.operands[0] == NULL) {
        return show_leader(ctl);
    }
    code = node_id(ctl, 0, &id);
    (void)snprintf(body, sizeof body, "{\"id\":%" PRIu64 "}", id);
    return code == CTL_DONE ? make_change(ctl, &change) : code;
}

static void members_put_level(struct ctl *ctl, const json_t *json)
{
    int64_t level = field_number(json, "level", 0);

    if (field_true(json, "newest")) {
        buf_printf(&ctl->out, "level %" PRId64 ", the newest that the nodes speak\n", level);
    } else {
        buf_printf(&ctl->out, "level %" PRId64 "; it %s: ", level,
                   field_true(json, "can_rise") ? "can rise" : "cannot rise");
        put_message(ctl, json);
    }
}

static enum ctl_exit run_level(struct ctl *ctl)
{
    return ctl_show(ctl, "/api/cluster/level", members_put_level);
}

static enum ctl_exit run_raise(struct ctl *ctl)
{
    char body[64];
    uint64_t level = 0;
    const struct change change = {.method = "POST",
                                  .path = "/api/cluster/level",
                                  .body = body,
                                  .again = "leafctl level raise"};
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        code = ctl_number("LEVEL", ctl->args.operands[0], 1, 65535, &level);
    } else {
        code = ctl_get(ctl, "/api/cluster/level", &answer);
        level = code == CTL_DONE ? (uint64_t)field_number(answer.json, "level", 0) + 1 : 0;
    }
    (void)snprintf(body, sizeof body, "{\"level\":%" PRIu64 "}", level);
    return code == CTL_DONE ? make_change(ctl, &change) : code;
}

/* Every change that is waited for has these. */
static const struct option_about CHANGE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {"force", 0, NULL, "even if too few voters that are left can be reached; sent once"},
    {NULL, 0, NULL, NULL},
};
static const struct option_about REMOVE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {"yes", 0, NULL, "also a voter that is healthy, without asking"},
    {"force", 0, NULL, "even if too few voters that are left can be reached; sent once"},
    {NULL, 0, NULL, NULL},
};
static const struct option_about SAFE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {NULL, 0, NULL, NULL},
};

const struct command COMMAND_MEMBERS_LIST = {
    .family = "members",
    .name = "list",
    .is_default = true,
    .summary = "who belongs to the cluster",
    .run = members_run_list,
};
const struct command COMMAND_MEMBERS_ADD = {
    .family = "members",
    .name = "add",
    .operands = "ID HOST:PORT",
    .summary = "let a node in, by its peer address",
    .text = "Start it with an empty directory and --join, before or after. It votes once it has "
            "caught up.",
    .options = CHANGE_OPTIONS,
    .run = run_add,
};
const struct command COMMAND_MEMBERS_REMOVE = {
    .family = "members",
    .name = "remove",
    .operands = "ID",
    .summary = "remove a node, which may be dead; its id never comes back",
    .text = "Of a voter that is healthy it says how many voters are left and how many of them may "
            "fail then, and asks.",
    .options = REMOVE_OPTIONS,
    .run = run_remove,
};
const struct command COMMAND_MEMBERS_REPLACE = {
    .family = "members",
    .name = "replace",
    .operands = "OLD-ID NEW-ID HOST:PORT",
    .summary = "remove a dead node, then let a new one in",
    .options = CHANGE_OPTIONS,
    .run = run_replace,
};
const struct command COMMAND_MEMBERS_ADDRESS = {
    .family = "members",
    .name = "address",
    .operands = "ID HOST:PORT",
    .summary = "say where the others reach a node from now on",
    .options = CHANGE_OPTIONS,
    .run = run_address,
};
const struct command COMMAND_LEADER = {
    .family = "leader",
    .operands = "[ID]",
    .summary = "who leads; with ID: move the leadership there",
    .options = SAFE_OPTIONS,
    .run = run_leader,
};
const struct command COMMAND_LEVEL = {
    .family = "level",
    .name = "show",
    .is_default = true,
    .summary = "the cluster's level, and who keeps it from rising",
    .run = run_level,
};
const struct command COMMAND_LEVEL_RAISE = {
    .family = "level",
    .name = "raise",
    .operands = "[LEVEL]",
    .summary = "raise the level by one; there is no way back",
    .options = SAFE_OPTIONS,
    .run = run_raise,
};
