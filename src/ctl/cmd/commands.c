/*
 * commands.c - every command of leafctl: its words, its description, its options, and its request
 * or function; and the functions of commands that are one request, of `tags list` and `next`. Help,
 * completions, the manual page and the parser (args.c) use this table.
 *
 * Ids of a lost answer are skipped, so a request for ids may be repeated. Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/import/import.h"

#define NEXT_MAX 1000000000

/* --- tags --- */

/* The fields of a tag; in CSV only the first of them. */
static const char *const FIELDS[] = {"tag",    "max_id",  "step",      "max_step",   "max",
                                     "mode",   "created", "updated",   "generation", "description",
                                     "shape",  "key",     "increment", "offset",     "cover_s",
                                     "paused", "reason",  "changing",  "warning",    NULL};
#define CSV_FIELDS 11

/* Cells of CSV. A file gets the raw texts, a terminal clean ones. */
static void put_csv(struct ctl *ctl, json_t *tags)
{
    struct buf *out = &ctl->out;

    for (size_t cell = 0; cell < json_array_size(tags) * CSV_FIELDS; cell++) {
        size_t column = cell % CSV_FIELDS;
        const json_t *tag = json_array_get(tags, cell / CSV_FIELDS);
        const json_t *field = json_object_get(tag, FIELDS[column]);
        const char *text = json_string_value(field) != NULL ? json_string_value(field) : "";
        const char *quote;
        BUF_LOCAL(clean);

        if (isatty(STDOUT_FILENO)) {
            clean_text(&clean, text);
            text = buf_text(&clean);
        }
        if (json_is_integer(field)) {
            buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(field));
        }
        quote = strpbrk(text, "\",\n\r") != NULL ? "\"" : "";
        buf_printf(out, "%s", quote);
        for (; *text != '\0'; text++) {
            buf_put(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
        }
        buf_printf(out, "%s%s", quote, column + 1 < CSV_FIELDS ? "," : "\r\n");
    }
}

static enum ctl_exit tags_begin(struct ctl *ctl, json_t **body)
{
    const char *mode = ctl_option(ctl, "mode");
    bool csv = ctl_has(ctl, "csv");

    (void)body;
    if (csv && ctl->json) {
        return ctl_fail(CTL_USAGE, "--csv or --json, not both");
    }
    if (mode != NULL && strcmp(mode, "trend") != 0 && strcmp(mode, "strict") != 0 &&
        strcmp(mode, "monotonic") != 0) {
        return ctl_fail(CTL_USAGE, "mode: \"%s\" is none of trend, strict and monotonic", mode);
    }
    for (size_t i = 0; csv && i < CSV_FIELDS; i++) {
        buf_printf(&ctl->out, "%s%s", FIELDS[i], i + 1 < CSV_FIELDS ? "," : "\r\n");
    }
    return CTL_DONE;
}

static bool tag_keep(struct ctl *ctl, const json_t *page, json_t *tag)
{
    const char *mode = ctl_option(ctl, "mode");
    bool warned = field_text(tag, "warning") != NULL;
    bool kept = (warned || !ctl_has(ctl, "nearly-used-up")) &&
                (mode == NULL || field_is(tag, "mode", mode));

    (void)page;
    if (ctl->json || ctl_has(ctl, "csv")) {
        return kept;
    }
    /* Shown by the table in place of some fields. */
    if (field_true(tag, "changing") || field_true(tag, "paused")) {
        (void)json_object_set_new(tag, "mode",
                                  json_string(field_true(tag, "paused") ? "paused" : "changing"));
    }
    if (warned) {
        (void)json_object_set_new(tag, "description", json_string("! nearly used up"));
    }
    return kept;
}

/* --- one tag --- */

static void put_tag(struct ctl *ctl, json_t *tag)
{
    if (ctl->command->method != NULL) {
        buf_printf(&ctl->out, ctl->status == 201 ? "made:\n" : "changed:\n");
    }
    for (size_t i = 0; FIELDS[i] != NULL; i++) {
        const json_t *field = json_object_get(tag, FIELDS[i]);

        if (field == NULL) {
            continue;
        }
        buf_printf(&ctl->out, "%-12s ", strcmp(FIELDS[i], "max_id") == 0 ? "next id" : FIELDS[i]);
        if (json_is_string(field)) {
            clean_text(&ctl->out, json_string_value(field));
        } else if (json_is_integer(field)) {
            buf_printf(&ctl->out, "%" JSON_INTEGER_FORMAT, json_integer_value(field));
        } else {
            buf_printf(&ctl->out, "%s", json_is_true(field) ? "yes" : "no");
        }
        buf_put(&ctl->out, "\n", 1);
    }
}

static enum ctl_exit tag_pause(struct ctl *ctl, json_t **body)
{
    ASSERT(body_set(body, "paused", json_boolean(strcmp(ctl->command->name, "pause") == 0)));
    return CTL_DONE;
}

/* --- next --- */

/* Append the ids of an answer's ranges, or the ranges. False: not the requested number of ids. */
static bool ids_put_ranges(struct ctl *ctl, const struct answer *answer, uint64_t count)
{
    bool as_ranges = ctl_has(ctl, "ranges");
    size_t before = ctl->out.len;
    uint64_t left = count;

    if (ctl->json) {
        ctl_put_json(ctl, answer->json);
        return true;
    }
    for (size_t i = 0; i < field_count(answer->json, "ranges"); i++) {
        const json_t *range = field_item(answer->json, "ranges", i);
        int64_t first = field_number(range, "first", -1);
        int64_t last = field_number(range, "last", -1);
        int64_t by = field_number(range, "increment", 1);

        if (first < 0 || last < first || by < 1 || (last - first) % by != 0 ||
            (uint64_t)(last - first) / (uint64_t)by >= left) {
            left = count;
            break;
        }
        left -= (uint64_t)(last - first) / (uint64_t)by + 1;
        for (uint64_t id = (uint64_t)first; !as_ranges && id <= (uint64_t)last;
             id += (uint64_t)by) {
            buf_printf(&ctl->out, "%" PRIu64 "\n", id);
        }
        if (as_ranges) {
            buf_printf(&ctl->out,
                       by > 1 ? "%" PRId64 " %" PRId64 " %" PRId64 "\n"
                              : "%" PRId64 " %" PRId64 "\n",
                       first, last, by);
        }
    }
    ctl->out.len = left == 0 ? ctl->out.len : before;
    return left == 0;
}

/* The same for the lines of a body: ids of a layout, which are not consecutive. */
static bool ids_put_lines(struct ctl *ctl, const struct answer *answer, uint64_t count)
{
    const char *line = answer->body.len > 0 ? (const char *)answer->body.data : "";
    const char *end = line + answer->body.len;
    size_t before = ctl->out.len;
    uint64_t lines = 0;

    for (size_t len; (len = strspn(line, "0123456789")) > 0; lines++) {
        buf_printf(&ctl->out, "%.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    ctl->out.len = line == end && lines == count ? ctl->out.len : before;
    return ctl->out.len > before;
}

static enum ctl_exit next_ask(struct ctl *ctl, const char *path, uint64_t count, const char *key)
{
    uint64_t timeout_ms = ctl->settings.timeout_ms < LIMIT_TIMEOUT_MS / 2 ? ctl->settings.timeout_ms
                                                                          : LIMIT_TIMEOUT_MS / 2;
    const char *layout = ctl_option(ctl, "layout");
    BUF_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    buf_printf(&target, "%s", path);
    target_put(&target, ctl->args.operands[0]);
    target_add_number(&target, "count", count);
    target_add(&target, "format", layout == NULL ? "json" : NULL);
    target_add(&target, "stepped", !ctl_has(ctl, "snowflake") && layout == NULL ? "1" : NULL);
    target_add(&target, "contiguous", ctl_has(ctl, "contiguous") ? "1" : NULL);
    target_add(&target, "as", ctl_has(ctl, "numbers") ? "number" : NULL);
    target_add(&target, "layout", layout);
    target_add_number(&target, "timeout_ms", timeout_ms > 500 ? timeout_ms - 500 : timeout_ms);
    const struct ask ask = {.target = buf_text(&target), .key = key};
    code = layout == NULL ? ctl_ask(ctl, &ask, &answer) : cluster_ask(ctl->cluster, &ask, &answer);
    if (code == CTL_NOT_FOUND) {
        ctl_progress(layout != NULL ? "those that there are: leafctl layouts"
                                    : "make it: leafctl tags put TAG");
    }
    if (code != CTL_DONE) {
        return ctl_failed(code, &answer);
    }
    return (layout == NULL ? ids_put_ranges : ids_put_lines)(ctl, &answer, count)
               ? ctl_flush(ctl)
               : ctl_fail(CTL_INTERNAL, "%s: the answer has not the %" PRIu64 " ids asked for",
                          answer.server, count);
}

static enum ctl_exit run_next(struct ctl *ctl)
{
    bool has_layout = ctl_has(ctl, "layout");
    const char *path =
        has_layout || ctl_has(ctl, "snowflake") ? "/api/snowflake/get/" : "/api/segment/get/";
    const char *key = ctl_option(ctl, "idempotency-key");
    bool whole = key != NULL || ctl_has(ctl, "contiguous");
    uint64_t wanted = 1;
    enum ctl_exit code = ctl_number_option(ctl, "count", whole ? LIMIT_COUNT : NEXT_MAX, &wanted);

    if (ctl->args.operands[0][0] == '\0') {
        return ctl_fail(CTL_USAGE, "a tag's name is not empty");
    }
    if (has_layout && (ctl->json || ctl_has(ctl, "ranges"))) {
        return ctl_fail(CTL_USAGE, "layout: its ids come one a line, without ranges and json");
    }
    for (const char *c = key; code == CTL_DONE && c != NULL && *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            return ctl_fail(CTL_USAGE, "idempotency-key: only ASCII without control characters");
        }
    }
    for (uint64_t had = 0; code == CTL_DONE && had < wanted;) {
        uint64_t count = wanted - had < LIMIT_COUNT ? wanted - had : LIMIT_COUNT;

        code = next_ask(ctl, path, count, key);
        had += code == CTL_DONE ? count : 0;
        if (code != CTL_DONE && had > 0) {
            ctl_progress("%" PRIu64 " of %" PRIu64 " ids were printed", had, wanted);
        }
    }
    return code;
}

/* --- worker ids --- */

/* With its state as of the log's time. */
static bool worker_keep(struct ctl *ctl, const json_t *page, json_t *row)
{
    bool granted = field_is(row, "state", "held");
    bool held = granted && field_number(row, "until_ms", 0) >= field_number(page, "log_time_ms", 0);

    if (granted && !held && !ctl->json) {
        ASSERT(json_object_set_new(row, "state", json_string("over")) == 0);
    }
    return held || ctl->json || !ctl_has(ctl, "held");
}

static void put_worker(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out, "worker id {worker_id:n}, epoch {epoch:n}: times ", json);
    ctl_put_form(&ctl->out, field_number(json, "from_ms", 0) > 0 ? "above {from_ms:time}" : "",
                 json);
    ctl_put_form(&ctl->out, " up to {until_ms:time}\n", json);
}

/* `renew` or `release` an acquired id. */
static enum ctl_exit worker_needs_epoch(struct ctl *ctl, json_t **body)
{
    (void)body;
    return ctl_has(ctl, "epoch")
               ? CTL_DONE
               : ctl_fail(CTL_USAGE, "--epoch is missing: leafctl workers list shows it");
}

/* --- members --- */

/* A healthy voter is removed only after a confirmation: the command does not show how few voters
 * remain. */
static enum ctl_exit member_ask_remove(struct ctl *ctl, json_t **body)
{
    uint64_t id = strtoull(ctl->args.operands[0], NULL, 10);
    ANSWER_LOCAL(answer);
    enum ctl_exit code;
    bool healthy = false;
    unsigned voters = 0;
    char line[8] = "";

    (void)body;
    if (ctl_has(ctl, "yes")) {
        return CTL_DONE;
    }
    code = ctl_get(ctl, "/api/cluster", &answer);
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

/* The dead one leaves first: with it among the voters, the new one's vote would be needed. But a
 * running new one already asks to be let in, and may be first. */
static enum ctl_exit run_members_replace(struct ctl *ctl)
{
    const char *force = ctl_has(ctl, "force") ? "1" : NULL;
    uint64_t old = 0;
    json_auto_t *body = NULL;
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
        return code;
    }
    ctl_progress("start node %" PRId64 " with an empty directory and --join, unless it runs", new);
    buf_printf(&members, "/api/cluster/members");
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

static void put_cut(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out, "{who} is cut until {until}\n", json);
    if (field_text(json, "warning") != NULL) {
        ctl_progress("%s", field_text(json, "warning"));
    }
}

static enum ctl_exit cut_take_time(struct ctl *ctl, json_t **body)
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
    ASSERT(body_set(body, "for_s", json_integer((json_int_t)for_s)));
    return CTL_DONE;
}

/* --- leader and level --- */

static enum ctl_exit run_leader(struct ctl *ctl)
{
    ANSWER_LOCAL(answer);
    int64_t leader;
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        return ctl_request(ctl);
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

static void put_level(struct ctl *ctl, json_t *json)
{
    ctl_put_form(&ctl->out,
                 field_true(json, "newest") ? "level {level:n}, the newest that the nodes speak\n"
                 : field_true(json, "can_rise") ? "level {level:n}; it can rise: {message}\n"
                                                : "level {level:n}; it cannot rise: {message}\n",
                 json);
}

/* Without LEVEL: the next one. */
static enum ctl_exit level_take_next(struct ctl *ctl, json_t **body)
{
    ANSWER_LOCAL(answer);
    uint64_t next; /* unsigned: the answer may have any number */
    enum ctl_exit code;

    if (ctl->args.operands[0] != NULL) {
        return CTL_DONE;
    }
    code = ctl_get(ctl, "/api/cluster/level", &answer);
    next = (uint64_t)field_number(answer.json, "level", 0) + 1;
    ASSERT(body_set(body, "level", json_integer((json_int_t)next)));
    return code;
}

/* `restore` and `recover` are known to main() by the first word. */
static enum ctl_exit run_offline_misplaced(struct ctl *ctl)
{
    return ctl_fail(CTL_USAGE, "%s: it has to be the first word", ctl->command->family);
}

/* --- options and columns --- */

#define ROWS_OF(type, key, ...)                                                                    \
    (const struct type[])                                                                          \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .key = NULL                                                                            \
        }                                                                                          \
    }
#define OPTIONS(...) ROWS_OF(option_about, name, __VA_ARGS__)
#define COLUMNS(...) ROWS_OF(grid_column, title, __VA_ARGS__)

#define WAIT_ALL "wait-all", 0, NULL, "until all nodes have made the change"
#define WAIT "wait", 0, "SECONDS", "how long to wait until it is done (default 120)"
#define FORCE_MEMBER                                                                               \
    "force", 0, NULL, "even if too few voters that are left can be reached; sent once"
#define FORCE_PLACE "force", 0, NULL, "even if no other node takes work; sent once"

/* Options of all commands of `import`, and of those that can query a database. */
#define IMPORT_ANY                                                                                 \
    {"dry-run", 0, NULL, "check everything and print the plan, send nothing"},                     \
        {"print", 0, NULL,                                                                         \
         "print the tags as lines of JSON, as POST /api/tags takes them; send nothing"},           \
        {"skip-ahead", 0, NULL,                                                                    \
         "leave tags alone that are further in the cluster than in the rows"},                     \
    {                                                                                              \
        "force", 0, NULL, "take tags that need force; no client may use them meanwhile"            \
    }
#define IMPORT_FILES                                                                               \
    {"stopped", 0, NULL, "of a file: the old servers are stopped, which a file cannot show"},      \
        {"format", 0, "FORM",                                                                      \
         "sql, tsv, outfile, csv, csv-doubled, csv-backslash or json (default: found out)"},       \
    {                                                                                              \
        "columns", 0, "NAMES", "the order of columns that the file does not name, between commas"  \
    }
#define IMPORT_LIVE                                                                                \
    {"mysql", 0, "ADDRESS", "ask MariaDB or MySQL: [USER@]HOST[:PORT]/DATABASE"},                  \
        {"settle", 0, "SECONDS", "between two looks at a database (default 10)"},                  \
        {"ahead", 0, "N",                                                                          \
         "the old system runs on: begin N ids above it; auto: a hundred steps, at least "          \
         "10000000"},                                                                              \
        {"guard", 0, NULL, "with --ahead: install the guard that keeps the old system below"},     \
        {"finish", 0, NULL, "after --ahead: is the old system quiet, and all of it here?"},        \
    {                                                                                              \
        "remove-guard", 0, NULL, "with --finish: if it is, take the guard away"                    \
    }

static const struct option_about IMPORT_OPTIONS[] = {
    IMPORT_ANY,
    IMPORT_FILES,
    IMPORT_LIVE,
    {"table", 0, "NAME", "the table's name"},
    {"every-number", 0, NULL, "rows with a delta: all databases are in the file"},
    {"keep-increment", 0, NULL, "rows with a delta: the tag has the same numbers (level 3)"},
    {.name = NULL},
};

/* --- commands --- */

/* Operands of requests. */
#define TAKES(...) .takes = {__VA_ARGS__}
#define TAG "TAG", NULL, PART_TAG, 0, 0
#define MEMBER "ID", "id", PART_NUMBER, 1, LIMIT_NODE_ID
#define WORKER "ID", NULL, PART_NUMBER, 0, LIMIT_WORKER_IDS - 1
#define PEER "HOST:PORT", "peer_address", PART_ADDRESS, 0, 0
#define WHO "ADDRESS", NULL, PART_TEXT, 0, 0

const struct command COMMANDS[] = {
    {"status", NULL, NULL,
     "the cluster on one screen: members, leader, quorum, lag, clocks, disk, alarms",
     "It is what one node sees.",
     OPTIONS({"watch", 'w', NULL, "show it again and again, until Ctrl-C"},
             {"every", 0, "SECONDS", "with --watch: how often (default 2)"},
             {"times", 0, "N", "with --watch: end after so many"}),
     .run = run_status},
    {"check", NULL, NULL,
     "is the cluster healthy and well set up? reasons, what to do, and an exit code",
     "It asks every server that --server names, so name all nodes. Exit code 0: nothing to "
     "say; 1: warnings; 2: something is critical.",
     OPTIONS({"all", 0, NULL, "also say what is as it should be"}), .run = run_check},
    {"top", NULL, "[PREFIX]",
     "the busiest tags: rates, and how long the ids that nodes hold will last",
     "A node knows only its own rates: name all nodes with --server.",
     OPTIONS({"limit", 'n', "N", "so many tags (default 20)"},
             {"every", 0, "SECONDS", "how often (default 2)"},
             {"times", 0, "N", "end after so many (default: never in a terminal, else 1)"}),
     .run = run_top},
    {"events", NULL, NULL, "what happened: elections, members, links, level, alarms",
     "A node knows what it saw since its start: name all nodes with --server.",
     OPTIONS({"limit", 'n', "N", "the last so many (default 50)"},
             {"kind", 0, "KIND", "only this kind, such as election, member, level, alarm"},
             {"follow", 'f', NULL, "continue with new ones, until Ctrl-C"},
             {"times", 0, "N", "with --follow: end after so many looks"}),
     .run = run_history, .path = "/api/events", .list = "events",
     .form = "{time:24}  {server}  {kind:10}  {text}"},
    {"audit", NULL, NULL, "what was changed and what was refused, and by whom",
     "A node keeps what came to it since its start: name all nodes with --server.",
     OPTIONS({"limit", 'n', "N", "the last so many (default 50)"},
             {"refused", 0, NULL, "only what was refused"},
             {"changes", 0, NULL, "only what was not refused"},
             {"who", 0, "NAME", "only what this token, or address, asked"},
             {"follow", 'f', NULL, "continue with new ones, until Ctrl-C"},
             {"times", 0, "N", "with --follow: end after so many looks"}),
     .run = run_history, .path = "/api/audit", .list = "entries",
     .form = "{time:24}  {server}  {outcome:7}  {status:n}  {who}  {address}  {what}"},
    {"tags", "list", "[PREFIX]", "tags, in the order of their names",
     "With --json each page of up to 1000 is a line, as GET /api/tags gives it; POST "
     "/api/tags of another cluster takes them as they are.",
     OPTIONS({"after", 0, "TAG", "names after this one"},
             {"limit", 'n', "N", "at most so many tags (default: all)"},
             {"mode", 0, "MODE", "only tags that are trend, strict or monotonic"},
             {"nearly-used-up", 0, NULL, "only tags with less than 10 % left below their max"},
             {"csv", 0, NULL, "as CSV, with a line of titles"}),
     .before = tags_begin, .path = "/api/tags", TAKES({"PREFIX", "prefix", PART_TEXT, 0, 0}),
     .columns = COLUMNS({"tag", "{tag}"}, {">next id", "{max_id}"}, {">step", "{step:n}"},
                        {">max", "{max}"}, {"mode", "{mode}"}, {"updated", "{updated}"},
                        {"description", "{description}"}),
     .list = "tags", .page = LIMIT_TAGS_PER_PAGE, .keep = tag_keep, .put = put_csv,
     .is_default = true},
    {"tags", "get", "TAG", "one tag", NULL, NULL, .path = "/api/tags/*", TAKES({TAG}),
     .put = put_tag},
    {"tags", "put", "TAG", "make a tag, or change it", "What no option names stays as it is.",
     OPTIONS({"max-id", 0, "N", "the next id; all below it are in use elsewhere"},
             {"step", 0, "N", "the smallest segment, 1 to 1000000000"},
             {"max-step", 0, "N", "the largest segment"},
             {"max", 0, "N", "ids stay below it; none: no bound"},
             {"increment", 0, "N", "every N-th number is its, 1 to 1000000; 1: each"},
             {"offset", 0, "N", "0 to increment - 1"},
             {"cover-s", 0, "N",
              "each node's segments last N s at its present rate, up to 86400; 0: none"},
             {"mode", 0, "MODE", "trend, strict or monotonic"},
             {"description", 0, "TEXT", "up to 256 bytes"},
             {"shape", 0, "SHAPE",
              "of a new name: its ids are texts, such as 'INV-{id:6}{luhn}', for ever"},
             {"shape-key", 0, "N",
              "of a shape with {key}: the key of this number, the present or the next one"},
             {WAIT_ALL},
             {"force", 0, NULL, "a max_id that is lower, or much higher, than it was; sent once"}),
     .method = "PUT", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag, .once = true},
    {"tags", "pause", "TAG", "no node hands out ids of a tag until it is resumed",
     "What nodes hold of it is kept. A node that is cut off does not learn of it.",
     OPTIONS({"reason", 0, "TEXT", "that clients get with 423, up to 200 bytes"}, {WAIT_ALL}),
     .before = tag_pause, .method = "PUT", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag,
     .must_exist = true},
    {"tags", "resume", "TAG", "hand out ids of a paused tag again", NULL, OPTIONS({WAIT_ALL}),
     .before = tag_pause, .method = "PUT", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag,
     .must_exist = true},
    {"tags", "delete", "TAG", "delete a tag; its ids never come again", NULL, OPTIONS({WAIT_ALL}),
     .method = "DELETE", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag,
     .gone = "deleted; made again it continues above its ids\n", .may_be_gone = true},
    {"next", NULL, "TAG", "take ids, one a line",
     "A request without an answer is asked again, at another node too: the ids of the first "
     "one are skipped, and none is printed twice.",
     OPTIONS({"count", 'n', "N",
              "how many, 1 to 1000000000 (default 1); more than 100000 take more requests"},
             {"ranges", 0, NULL, "as lines FIRST LAST, and INCREMENT if above 1"},
             {"contiguous", 0, NULL, "all in one range, or none"},
             {"idempotency-key", 0, "KEY", "for a strict tag: the same key gives the same ids"},
             {"snowflake", 0, NULL, "snowflake ids; TAG is the key"},
             {"layout", 0, "NAME", "snowflake ids of this layout, one a line"},
             {"numbers", 0, NULL, "needed for a tag with a shape: its ids as numbers"}),
     .run = run_next},
    {"decode", NULL, "ID", "time, worker id and sequence of a snowflake id, also of a UUID or ULID",
     NULL, OPTIONS({"layout", 0, "NAME", "by this layout, and not the cluster's own"}),
     .path = "/api/snowflake/decode/*", TAKES({"ID", NULL, PART_ID, 0, INT64_MAX}),
     .form = "time      {time} ({timestamp_ms:n} ms)\nworker id {worker_id:n}\n"
             "sequence  {sequence:n}\n"},
    {"at", NULL, "TIME",
     "the smallest snowflake id of a time: RFC 3339 with its zone, or Unix milliseconds", NULL,
     OPTIONS({"layout", 0, "NAME", "by this layout, and not the cluster's own"}),
     .path = "/api/snowflake/at?format=json", TAKES({"TIME", "time", PART_TEXT, 0, 0}),
     .form = "{id}\n"},
    {"workers", "list", NULL, "worker ids of snowflake ids: what holds each, until when", NULL,
     OPTIONS({"held", 0, NULL, "only those that are held now"}), .path = "/api/workers",
     .columns = COLUMNS({">id", "{worker_id:n}"}, {"state", "{state}"}, {"kind", "{kind}"},
                        {"name", "{name}"}, {"address", "{address}"}, {">epoch", "{epoch:n}"},
                        {"until", "{until_ms:time}"}),
     .list = "workers", .page = LIMIT_WORKERS_PER_PAGE, .keep = worker_keep, .is_default = true},
    {"workers", "acquire", "NAME",
     "get a worker id for a generator outside of leafd, or keep one from being used", NULL,
     OPTIONS({"worker-id", 0, "ID", "this one, or none (default: any)"},
             {"layout", 0, "NAME", "worker ids of this layout, not of the cluster's own"},
             {"zone", 0, "NAME", "takes from the zone's pool"},
             {"address", 0, "TEXT", "shown in the list"},
             {"from-ms", 0, "MS", "no time up to this one is granted"},
             {"window-ms", 0, "MS", "for how long, 1000 to 86400000 (default 60000)"},
             {"force", 0, NULL, "the --worker-id that another client holds; needs the role admin"}),
     .method = "POST", .path = "/api/workers", TAKES({"NAME", "name", PART_TEXT, 0, 0}),
     .put = put_worker},
    {"workers", "renew", "ID", "hold a worker id longer", NULL,
     OPTIONS({"epoch", 0, "N", "of the acquire"},
             {"window-ms", 0, "MS", "for how long from now on, 1000 to 86400000 (default 60000)"}),
     .before = worker_needs_epoch, .method = "PUT", .path = "/api/workers/*", TAKES({WORKER}),
     .put = put_worker},
    {"workers", "release", "ID", "give a worker id back", NULL,
     OPTIONS({"epoch", 0, "N", "of the acquire"},
             {"last-timestamp-ms", 0, "MS", "the highest time used, to be shown"},
             {"force", 0, NULL, "one that another client holds; needs the role admin"}),
     .before = worker_needs_epoch, .method = "DELETE", .path = "/api/workers/*", TAKES({WORKER}),
     .put = put_worker, .gone = "released\n"},
    {"workers", "pools", "[POOLS]", "worker ids of each zone; with POOLS: these instead",
     "POOLS is like a=0-31,b=32-63, or empty for none. A zone with a pool takes from that alone, "
     "all "
     "others from what is in none. What is held stays so.",
     NULL, .method = "PUT", .path = "/api/workers/pools",
     TAKES({"POOLS", "pools", PART_TEXT, 0, 0}), .form = "{pools}\n"},
    {"layouts", "list", NULL, "layouts of snowflake ids by name", NULL, NULL,
     .path = "/api/layouts",
     .columns = COLUMNS({"name", "{name}"}, {">unit", "{unit_ms:n}"}, {">time", "{time_bits:n}"},
                        {">worker", "{worker_bits:n}"}, {">sequence", "{sequence_bits:n}"},
                        {"order", "{order}"}, {"epoch", "{epoch_ms:date}"},
                        {"state", "{deleted:!deleted}"}),
     .list = "layouts", .is_default = true},
    {"members", "list", NULL, "the members of the cluster", NULL, NULL, .path = "/api/cluster",
     .columns = COLUMNS({">node", "{id:n}"}, {"role", "{role}"}, {"reached", "{reached}"},
                        {"zone", "{zone}"}, {"state", "{state}"}, {">weight", "{weight:int}"},
                        {"version", "{version}"}, {"levels", "{levels.min:n} to {levels.max:n}"},
                        {"peers", "{peer_address}"}, {"http", "{http_address}"}),
     .list = "members", .bare = true, .keep = member_keep, .is_default = true},
    {"members", "add", "ID HOST:PORT", "add a node, by its peer address",
     "Start it with an empty directory and --join, before or after. It votes once it has "
     "caught up.",
     OPTIONS({WAIT}, {FORCE_MEMBER}), .method = "POST", .path = "/api/cluster/members",
     TAKES({MEMBER}, {PEER}), .waits = true},
    {"members", "remove", "ID", "remove a node, which may be dead; its id cannot be used again",
     "Of a voter that is healthy it says how many voters are left and how many of them may "
     "fail then, and asks.",
     OPTIONS({WAIT}, {"yes", 0, NULL, "also a voter that is healthy, without asking"},
             {FORCE_MEMBER}),
     .before = member_ask_remove, .method = "DELETE", .path = "/api/cluster/members/*",
     TAKES({MEMBER}), .waits = true},
    {"members", "replace", "OLD-ID NEW-ID HOST:PORT", "remove a dead node, then let a new one in",
     NULL, OPTIONS({WAIT}, {FORCE_MEMBER}), .run = run_members_replace,
     .path = "/api/cluster/members/*", TAKES({MEMBER}, {MEMBER}, {PEER})},
    {"members", "address", "ID HOST:PORT", "move a node to another address", NULL,
     OPTIONS({WAIT}, {FORCE_MEMBER}), .method = "PUT", .path = "/api/cluster/members/*",
     TAKES({MEMBER}, {PEER}), .waits = true},
    {"members", "drain", "ID", "give a node's work to the others, until it is resumed",
     "Its /readyz refuses, its HTTP connections end after their answers, and it leads no more. It "
     "stays so over its restarts.",
     OPTIONS({WAIT}, {FORCE_PLACE}), .method = "POST", .path = "/api/nodes/*/drain",
     TAKES({MEMBER}), .waits = true},
    {"members", "resume", "ID", "a drained node takes work again", NULL, OPTIONS({WAIT}),
     .method = "POST", .path = "/api/nodes/*/resume", TAKES({MEMBER}), .waits = true},
    {"members", "weight", "ID WEIGHT", "how much of its zone's work a node is given, 0 to 1000",
     NULL, OPTIONS({WAIT}, {FORCE_PLACE}), .method = "PUT", .path = "/api/nodes/*",
     TAKES({MEMBER}, {"WEIGHT", "weight", PART_NUMBER, 0, 1000}), .waits = true},
    {"clients", "list", NULL, "clients that are cut, until when, and by whom", NULL, NULL,
     .path = "/api/clients/cuts",
     .columns = COLUMNS({"client", "{who}"}, {"cut until", "{until}"}, {"by", "{by}"},
                        {"reason", "{reason}"}),
     .list = "cuts", .is_default = true},
    {"clients", "cut", "ADDRESS[/PREFIX]|TOKEN", "cut a client off for a time",
     "TOKEN is the name in the tokens file. The cut ends automatically.",
     OPTIONS(
         {"for", 0, "TIME",
          "for how long, as 90s, 10m, 2h or 7d, which is the most; has to be given"},
         {"reason", 0, "TEXT", "that the client gets with 403, up to 200 bytes"},
         {"force", 0, NULL, "also the client that asks, or the last token with the role admin"}),
     .before = cut_take_time, .method = "PUT", .path = "/api/clients/cuts/*", TAKES({WHO}),
     .put = put_cut},
    {"clients", "restore", "ADDRESS[/PREFIX]|TOKEN", "end the cut of a client", NULL, NULL,
     .method = "DELETE", .path = "/api/clients/cuts/*", TAKES({WHO}), .put = put_cut,
     .gone = "restored\n"},
    {"leader", NULL, "[ID]", "which node leads; with ID: move the leadership there", NULL,
     OPTIONS({WAIT}), .run = run_leader, .method = "POST", .path = "/api/cluster/leader",
     TAKES({MEMBER}), .waits = true},
    {"level", "show", NULL, "the cluster's level, and which node keeps it from rising", NULL, NULL,
     .path = "/api/cluster/level", .put = put_level, .is_default = true},
    {"level", "raise", "[LEVEL]", "raise the level by one; there is no way back", NULL,
     OPTIONS({WAIT}), .before = level_take_next, .method = "POST", .path = "/api/cluster/level",
     TAKES({"LEVEL", "level", PART_NUMBER, 1, 65535}), .waits = true},
    {"backup", NULL, "FILE", "the whole state as a file, for leafd restore",
     "FILE is replaced once the new backup is whole, verified and on the disk; until then it "
     "is FILE.part.",
     OPTIONS({"local", 0, NULL,
              "what the node has, without asking the others: it may lack the newest"}),
     .run = run_backup},
    {"restore", NULL, "...", "make the data of a new cluster from a backup: leafd restore",
     "Runs leafd restore with what follows, on this machine.", NULL, .run = run_offline_misplaced,
     .is_offline = true},
    {"recover", NULL, "...",
     "make a new cluster from a node that is left, after a lost majority: leafd recover",
     "Runs leafd recover with what follows, on this machine.", NULL, .run = run_offline_misplaced,
     .is_offline = true},
    {"import", "leaf", "[FILE]",
     "take over Leaf's table leaf_alloc: each tag continues at its row's max_id",
     "Stop all Leaf servers before the rows are read, or let them run on with --mysql and --ahead. "
     "FILE is a dump of mysqldump, columns between tabs (mysql -B, or INTO OUTFILE), CSV, or JSON. "
     "All is checked before anything is sent, and a run that was broken off is run again.",
     IMPORT_OPTIONS, .run = run_import, .source = &SOURCE_LEAF},
    {"import", "tinyid", "[FILE]",
     "take over TinyID's table tiny_id_info: each tag continues above its row's max_id",
     "Stop all TinyID servers, and clients that hold segments, before the rows are read, or let "
     "them run on with --mysql and --ahead. A row with a delta other than 1 is refused: leafd "
     "hands "
     "out every number.",
     IMPORT_OPTIONS, .run = run_import, .source = &SOURCE_TINYID},
    {"import", "cosid", "[FILE]",
     "take over CosId's table cosid: each tag continues above its row's last_max_id",
     "Stop all programs with CosId before the rows are read, or let them run on with --mysql and "
     "--ahead.",
     IMPORT_OPTIONS, .run = run_import, .source = &SOURCE_COSID},
    {"import", "sql", NULL,
     "take over AUTO_INCREMENT of MySQL, sequences of PostgreSQL, counters of Redis, or a query",
     "It asks by the database's own tool (mysql, psql, redis-cli), whose own configuration has the "
     "password. A tag has the name of its table, sequence or key.",
     OPTIONS(
         IMPORT_ANY, IMPORT_LIVE, {"postgres", 0, "ADDRESS", "ask PostgreSQL: the same"},
         {"redis", 0, "ADDRESS", "ask Redis: [USER@]HOST[:PORT][/NUMBER]"},
         {"table", 0, "NAME", "only this table or sequence (default: all that count)"},
         {"query", 0, "SELECT", "rows with the columns tag, max_id (the next id) and maybe step"},
         {"pattern", 0, "PATTERN", "of Redis's keys, as KEYS takes it"},
         {"every-number", 0, NULL,
          "sequences with an increment above 1: nothing else hands out the rest"},
         {"keep-increment", 0, NULL, "the same: the tag has the same numbers (level 3)"}),
     .run = run_import, .source = &SOURCE_TAGS},
    {"import", "csv", "FILE", "take over any counters: a file with the columns tag and max_id",
     "max_id is the next id. The columns step and description may be there, too.",
     OPTIONS(IMPORT_ANY, IMPORT_FILES), .run = run_import, .source = &SOURCE_TAGS},
    {"token", "new", NULL, "a new token, and its line for auth.tokens-file",
     "The line has only the token's hash. Put it into the file of each node, and send SIGHUP.",
     OPTIONS({"name", 0, "NAME", "what it is for (default: made of its hash)"},
             {"roles", 0, "ROLE,...",
              "ids, read, tags, workers, admin, metrics, health, or all (default ids)"},
             {"prefix", 0, "PREFIX,...", "what the names of its tags begin with"},
             {"out", 'o', "FILE",
              "write the token into a new file of mode 0600, instead of showing it"}),
     .run = run_token_new, .is_offline = true},
    {.family = NULL},
};
