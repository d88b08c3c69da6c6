/*
 * status.c - `status`: the cluster on one screen, as one node sees it; with --watch again and
 * again. Thread: one.
 */
#include <poll.h>
#include <unistd.h>

#include "src/ctl/cmd/command.h"

#define CLEAR "\x1b[H\x1b[J" /* the cursor home, and nothing from there on */

bool member_is_reached(const json_t *status, const json_t *member)
{
    return field_number(member, "id", 0) == field_number(status, "node_id", 0) ||
           field_true(member, "reachable");
}

void members_prepare(json_t *status)
{
    int64_t commit = field_number(status, "commit_index", 0);

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

static void status_put_members(json_t *status, struct buf *out)
{
    static const struct grid_column titles[] = {{">node", "{id:n}"},
                                                {"role", "{role}"},
                                                {"reached", "{reached}"},
                                                {">lag", "{lag:int}"},
                                                {">round trip", "{round_trip_us:ms}"},
                                                {">clock", "{clock_offset_ms:signed}"},
                                                {">heard", "{last_heard_ms:age}"},
                                                {"version", "{version}"},
                                                {"peers", "{peer_address}"},
                                                {"http", "{http_address}"},
                                                {NULL, NULL}};
    GRID_LOCAL(grid);

    members_prepare(status);
    grid_init(&grid, titles);
    buf_put(out, "\n", 1);
    ctl_put_rows(out, &grid, json_object_get(status, "members"), 2);
}

static void status_put(struct ctl *ctl, json_t *status)
{
    struct buf *out = &ctl->out;
    size_t alarms = field_count(status, "alarms");

    ctl_put_form(out,
                 "cluster   {cluster_id} (uid {uid}), as node {node_id:n} sees it\n"
                 "leader    ",
                 status);
    ctl_put_form(out,
                 field_number(status, "leader_id", 0) > 0 ? "node {leader_id:n}" : "none is known",
                 status);
    ctl_put_form(out, ", term {term:n}\nlevel     {level.number:n}\nquorum    {quorum.text}\n",
                 status);
    status_put_members(status, out);
    if (json_is_object(json_object_get(status, "change"))) {
        ctl_put_form(out, "\nchange    {change.kind} of node {change.id:n}: {change.state}\n",
                     status);
    }
    if (json_is_object(json_object_get(status, "disk"))) {
        ctl_put_form(out,
                     "\ndisk      {disk.data_bytes:bytes} of data, {disk.free_bytes:bytes} free; "
                     "the map has {disk.map_used_bytes:bytes} of {disk.map_bytes:bytes} in use\n",
                     status);
    }
    if (json_is_object(json_object_get(status, "memory"))) {
        ctl_put_form(out,
                     "memory    {memory.resident_bytes:bytes} resident; tags and keys take "
                     "{memory.state_bytes:bytes} of {memory.state_limit_bytes:bytes}\n",
                     status);
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
    ctl_put(ctl, answer.json, status_put);
    return ctl_flush(ctl);
}

enum ctl_exit run_status(struct ctl *ctl)
{
    bool watch = ctl_has(ctl, "watch");
    const char *before = watch && !ctl->json && isatty(STDOUT_FILENO) ? CLEAR : "";
    uint64_t every_s = 2;
    uint64_t times = 0;
    enum ctl_exit code = ctl_number_option(ctl, "every", 1, 3600, &every_s);

    code = code == CTL_DONE ? ctl_number_option(ctl, "times", 1, UINT32_MAX, &times) : code;
    if (code != CTL_DONE) {
        return code;
    }
    code = status_show(ctl, before);
    /* What does not answer now is what is watched. */
    for (uint64_t shown = 1; watch && code != CTL_OUTPUT && (times == 0 || shown < times);
         shown++) {
        (void)poll(NULL, 0, (int)every_s * 1000);
        code = status_show(ctl, before);
    }
    return code;
}
