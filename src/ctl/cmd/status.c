/*
 * status.c - see status.h. Thread: one.
 */
#include "src/ctl/cmd/status.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "src/ctl/cmd/all.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/cmd/opinion.h"
#include "src/ctl/out/text.h"
#include "src/ctl/out/grid.h"

#define CLEAR "\x1b[H\x1b[J" /* the cursor home, and nothing from there on */

static enum ctl_exit status_ask_for(struct ctl *ctl, const size_t *server, const char *target,
                                    struct answer *ret)
{
    const struct ask ask = {.target = target};

    return server != NULL ? cluster_ask_one(ctl->cluster, *server, &ask, ret)
                          : cluster_ask(ctl->cluster, &ask, ret);
}

enum ctl_exit status_get(struct ctl *ctl, const size_t *server, struct answer *ret)
{
    enum ctl_exit code = status_ask_for(ctl, server, "/api/status", ret);

    if (code == CTL_REFUSED && ret->status == 404) {
        answer_free(ret);
        code = status_ask_for(ctl, server, "/api/cluster", ret);
    }
    if (code != CTL_DONE) {
        return server == NULL ? ctl_failed(code, ret) : code;
    }
    return ctl_must_be_object(ret);
}

/* Append `before` as it is, and then a text of others. */
static void status_put_text(struct buf *out, const char *before, const char *text)
{
    buf_printf(out, "%s", before);
    clean_text(out, text);
}

/* Who leads, and which term it is. */
static void status_put_head(const json_t *status, const struct quorum *quorum, struct buf *out)
{
    const json_t *level = json_object_get(status, "level");
    int64_t leader = field_number(status, "leader_id", 0);

    status_put_text(out, "cluster   ", field_text(status, "cluster_id"));
    status_put_text(out, " (uid ", field_text(status, "uid"));
    buf_printf(out, "), as node %" PRId64 " sees it\n", field_number(status, "node_id", 0));
    if (leader > 0) {
        buf_printf(out, "leader    node %" PRId64 ", term %" PRId64 "\n", leader,
                   field_number(status, "term", 0));
    } else {
        buf_printf(out, "leader    none is known, term %" PRId64 "\n",
                   field_number(status, "term", 0));
    }
    buf_printf(out, "level     %" PRId64 "\n", field_number(level, "number", 0));
    status_put_text(out, "quorum    ", quorum->text);
    buf_put(out, "\n", 1);
}

static void status_put_member(struct grid *grid, const json_t *status, const json_t *member)
{
    int64_t id = field_number(member, "id", 0);
    bool leads = id == field_number(status, "leader_id", 0);
    bool self = id == field_number(status, "node_id", 0);
    bool reachable = self || field_true(member, "reachable");
    int64_t commit = field_number(status, "commit_index", 0);
    int64_t match = field_number(member, "match_index", 0);
    char text[UNITS_BYTES];

    grid_cellf(grid, "%" PRId64, id);
    grid_cell(grid, leads ? "leader" : field_text(member, "role"));
    grid_cell(grid, reachable ? "yes" : "NO");
    if (field_has_number(member, "lag")) {
        grid_cellf(grid, "%" PRId64, field_number(member, "lag", 0));
    } else if (match > 0 && match <= commit) {
        grid_cellf(grid, "%" PRId64, commit - match);
    } else {
        grid_cell(grid, NULL);
    }
    if (field_has_number(member, "round_trip_us")) {
        grid_cellf(grid, "%.1f ms", (double)field_number(member, "round_trip_us", 0) / 1000);
    } else {
        grid_cell(grid, NULL);
    }
    if (field_has_number(member, "clock_offset_ms")) {
        grid_cellf(grid, "%+" PRId64 " ms", field_number(member, "clock_offset_ms", 0));
    } else {
        grid_cell(grid, NULL);
    }
    grid_cell(grid, field_has_number(member, "last_heard_ms")
                        ? units_ms((uint64_t)field_number(member, "last_heard_ms", 0), text)
                        : NULL);
    grid_cell(grid, field_text(member, "version"));
    grid_cell(grid, field_text(member, "peer_address"));
    grid_cell(grid, field_text(member, "http_address"));
}

static void status_put_members(const json_t *status, struct buf *out)
{
    static const char *const titles[] = {">node",       "role",   "reached", ">lag",
                                         ">round trip", ">clock", ">heard",  "version",
                                         "peers",       "http",   NULL};
    GRID_LOCAL(grid);

    grid_init(&grid, titles);
    for (size_t i = 0; i < field_count(status, "members"); i++) {
        status_put_member(&grid, status, field_item(status, "members", i));
    }
    buf_put(out, "\n", 1);
    grid_print(&grid, 2, true, out);
}

static void status_put_change(const json_t *status, struct buf *out)
{
    const json_t *change = json_object_get(status, "change");

    if (json_is_object(change)) {
        status_put_text(out, "\nchange    ", field_text(change, "kind"));
        buf_printf(out, " of node %" PRId64 ": ", field_number(change, "id", 0));
        clean_text(out, field_text(change, "state"));
        buf_put(out, "\n", 1);
    }
}

/* Of a field, "-" where nothing is known yet. */
static const char *status_bytes_of(const json_t *object, const char *name, char text[UNITS_BYTES])
{
    return field_has_number(object, name)
               ? units_bytes((uint64_t)field_number(object, name, 0), text)
               : "-";
}

static void put_resources(const json_t *status, struct buf *out)
{
    const json_t *disk = json_object_get(status, "disk");
    const json_t *memory = json_object_get(status, "memory");
    char text[4][UNITS_BYTES];

    if (json_is_object(disk)) {
        buf_printf(out, "\ndisk      %s of data, %s free; the map has %s of %s in use\n",
                   status_bytes_of(disk, "data_bytes", text[0]),
                   status_bytes_of(disk, "free_bytes", text[1]),
                   status_bytes_of(disk, "map_used_bytes", text[2]),
                   status_bytes_of(disk, "map_bytes", text[3]));
    }
    if (json_is_object(memory)) {
        buf_printf(out, "memory    %s resident; tags and keys take %s of %s\n",
                   status_bytes_of(memory, "resident_bytes", text[0]),
                   status_bytes_of(memory, "state_bytes", text[1]),
                   status_bytes_of(memory, "state_limit_bytes", text[2]));
    }
}

/* Texts of which a server should have sent few. */
static void put_alarms(const json_t *status, struct buf *out)
{
    size_t count = field_count(status, "alarms");

    for (size_t i = 0; i < field_count(status, "certificates"); i++) {
        const json_t *certificate = field_item(status, "certificates", i);

        status_put_text(out, "cert      ", field_text(certificate, "what"));
        status_put_text(out, " ends ", field_text(certificate, "expires"));
        buf_put(out, "\n", 1);
    }
    if (json_is_array(json_object_get(status, "alarms"))) {
        buf_printf(out, "\nalarms    %s\n", count == 0 ? "none" : "");
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *alarm = field_item(status, "alarms", i);

        status_put_text(out, "  ", field_text(alarm, "severity"));
        status_put_text(out, ": ", field_text(alarm, "name"));
        status_put_text(out, " since ", field_text(alarm, "since"));
        status_put_text(out, ": ", field_text(alarm, "text"));
        status_put_text(out, "\n    do: ", field_text(alarm, "do"));
        buf_put(out, "\n", 1);
    }
}

static void put_screen(struct ctl *ctl, const json_t *status)
{
    struct quorum quorum;

    quorum_of(status, &quorum);
    status_put_head(status, &quorum, &ctl->out);
    status_put_members(status, &ctl->out);
    status_put_change(status, &ctl->out);
    put_resources(status, &ctl->out);
    put_alarms(status, &ctl->out);
}

static enum ctl_exit show_once(struct ctl *ctl, const char *before)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code = status_get(ctl, NULL, &answer);

    buf_printf(&ctl->out, "%s", before);
    if (code != CTL_DONE) {
        return code;
    }
    ctl_put(ctl, answer.json, put_screen);
    return ctl_flush(ctl);
}

static enum ctl_exit status_run(struct ctl *ctl)
{
    bool watch = ctl_option(ctl, "watch") != NULL;
    const char *before = watch && !ctl->json && isatty(STDOUT_FILENO) ? CLEAR : "";
    uint64_t every_s = 2;
    uint64_t times = 0;
    enum ctl_exit code = ctl_number("every", ctl_option(ctl, "every"), 1, 3600, &every_s);

    if (code == CTL_DONE) {
        code = ctl_number("times", ctl_option(ctl, "times"), 1, UINT32_MAX, &times);
    }
    if (code == CTL_USAGE) {
        return code;
    }
    code = show_once(ctl, before);
    /* What does not answer now is what is watched. */
    for (uint64_t shown = 1; watch && code != CTL_OUTPUT && (times == 0 || shown < times);
         shown++) {
        (void)poll(NULL, 0, (int)every_s * 1000);
        code = show_once(ctl, before);
    }
    return code;
}

static const struct option_about OPTIONS[] = {
    {"watch", 'w', NULL, "show it again and again, until Ctrl-C"},
    {"every", 0, "SECONDS", "with --watch: how often (default 2)"},
    {"times", 0, "N", "with --watch: end after so many"},
    {NULL, 0, NULL, NULL},
};

const struct command COMMAND_STATUS = {
    .family = "status",
    .summary = "the cluster on one screen: members, leader, quorum, lag, clocks, disk, alarms",
    .text =
        "It is what one node sees. A node of an older version does not tell of lag, clocks, disk "
        "and alarms.",
    .options = OPTIONS,
    .run = status_run,
};
