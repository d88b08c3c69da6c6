/*
 * history.c - `audit` and `events`: what happened, oldest first; with --follow also what comes.
 *
 * Each node has its own history in memory, so all servers that were named are asked, and what they
 * say is put in the order of its times. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/text.h"

#define PAGE 500
#define PAGES_MAX 100 /* of a node at once: all that it keeps */
#define FOLLOW_MS 1000
#define SHOWN_DEFAULT 50

/* What differs between the two commands. */
struct kind {
    const char *path;
    const char *list; /* name of the array */
    bool (*is_wanted)(const struct ctl *ctl, const json_t *entry);
    void (*put)(struct buf *out, const json_t *entry);
};

struct reading {
    struct ctl *ctl;
    const struct kind *kind;
    json_t *entries;               /* of this round, with "server" */
    int64_t after[SERVERS_MAX];    /* numbers that were seen; -1: the same node as another one */
    const char *node[SERVERS_MAX]; /* whose answers these are; owned */
    size_t answered;
    enum ctl_exit failed; /* the last failure */
};

static void add_entry(struct reading *reading, json_t *entry, const char *server)
{
    if (json_is_object(entry) && reading->kind->is_wanted(reading->ctl, entry)) {
        ASSERT(json_object_set_new(entry, "server", json_string(server)) == 0);
        ASSERT(json_array_append(reading->entries, entry) == 0);
    }
}

/* Two addresses of one node say the same: only the first of them counts. */
static bool is_second(struct reading *reading, size_t which, const char *server)
{
    for (size_t i = 0; i < which; i++) {
        if (reading->node[i] != NULL && strcmp(reading->node[i], server) == 0) {
            return true;
        }
    }
    if (reading->node[which] == NULL) {
        reading->node[which] = strdup(server);
    }
    return false;
}

/* One page of a server. False: there is no more. */
static bool read_page(struct reading *reading, size_t which)
{
    TARGET_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code;
    size_t count = 0;

    target_init(&target, reading->kind->path, NULL);
    target_add_number(&target, "after", (uint64_t)reading->after[which]);
    target_add_number(&target, "limit", PAGE);
    const struct ask ask = {.target = target_text(&target)};

    code = cluster_ask_one(reading->ctl->cluster, which, &ask, &answer);
    if (code != CTL_DONE) {
        reading->failed = ctl_failed(code, &answer);
        return false;
    }
    if (is_second(reading, which, answer.server)) {
        reading->after[which] = -1;
        return false;
    }
    reading->answered++;
    count = field_count(answer.json, reading->kind->list);
    for (size_t i = 0; i < count; i++) {
        json_t *entry = json_array_get(json_object_get(answer.json, reading->kind->list), i);
        int64_t number = field_number(entry, "number", 0);

        if (number > reading->after[which]) {
            reading->after[which] = number;
            add_entry(reading, entry, answer.server);
        }
    }
    return count == PAGE;
}

static int by_time(const void *a, const void *b)
{
    const char *texts[] = {field_text(*(json_t *const *)a, "time"),
                           field_text(*(json_t *const *)b, "time")};

    return strcmp(texts[0] != NULL ? texts[0] : "", texts[1] != NULL ? texts[1] : "");
}

/* The last `shown` of this round. */
static enum ctl_exit history_print(struct reading *reading, size_t shown)
{
    struct ctl *ctl = reading->ctl;
    size_t count = json_array_size(reading->entries);
    json_t **sorted = MUST_HAVE(calloc(count + 1, sizeof *sorted));

    for (size_t i = 0; i < count; i++) {
        sorted[i] = json_array_get(reading->entries, i);
    }
    qsort(sorted, count, sizeof *sorted, by_time);
    for (size_t i = count > shown ? count - shown : 0; i < count; i++) {
        if (ctl->json) {
            ctl_put_json(ctl, sorted[i]);
        } else {
            reading->kind->put(&ctl->out, sorted[i]);
        }
    }
    free(sorted);
    json_array_clear(reading->entries);
    return ctl_flush(ctl);
}

static void read_round(struct reading *reading)
{
    for (size_t i = 0; i < cluster_servers(reading->ctl->cluster)->count; i++) {
        for (int page = 0; reading->after[i] >= 0 && page < PAGES_MAX && read_page(reading, i);
             page++) {
        }
    }
}

static enum ctl_exit history_run(struct ctl *ctl, const struct kind *kind)
{
    struct reading reading = {.ctl = ctl, .kind = kind, .entries = json_array()};
    bool follow = ctl_option(ctl, "follow") != NULL;
    uint64_t shown = SHOWN_DEFAULT;
    uint64_t rounds = 0;
    enum ctl_exit code = ctl_number("limit", ctl_option(ctl, "limit"), 1, UINT32_MAX, &shown);

    if (code == CTL_DONE) {
        code = ctl_number("times", ctl_option(ctl, "times"), 1, UINT32_MAX, &rounds);
    }
    for (uint64_t round = 0; code == CTL_DONE; round++) {
        read_round(&reading);
        if (reading.answered == 0) {
            code = reading.failed;
            break;
        }
        code = history_print(&reading, round == 0 ? (size_t)shown : SIZE_MAX);
        if (!follow || code != CTL_DONE || (rounds > 0 && round + 1 >= rounds)) {
            break;
        }
        (void)poll(NULL, 0, FOLLOW_MS);
    }
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        free((char *)reading.node[i]);
    }
    json_decref(reading.entries);
    return code;
}

static void history_put_field(struct buf *out, const json_t *entry, const char *name, int width)
{
    size_t before = out->len;

    clean_text(out, field_text(entry, name));
    buf_printf(out, "%*s", out->len - before < (size_t)width ? width - (int)(out->len - before) : 0,
               "");
    buf_put(out, "  ", 2);
}

/* --- audit --- */

static bool audit_wanted(const struct ctl *ctl, const json_t *entry)
{
    const char *who = ctl_option(ctl, "who");
    bool refused = field_is(entry, "outcome", "refused");

    return (ctl_option(ctl, "refused") == NULL || refused) &&
           (ctl_option(ctl, "changes") == NULL || !refused) &&
           (who == NULL || field_is(entry, "who", who));
}

static void audit_put(struct buf *out, const json_t *entry)
{
    history_put_field(out, entry, "time", 24);
    history_put_field(out, entry, "server", 0);
    history_put_field(out, entry, "outcome", 7);
    buf_printf(out, "%3" PRId64 "  ", field_number(entry, "status", 0));
    history_put_field(out, entry, "who", 0);
    history_put_field(out, entry, "address", 0);
    clean_text(out, field_text(entry, "what"));
    if (field_text(entry, "asked") != NULL && *field_text(entry, "asked") != '\0') {
        buf_put(out, "  ", 2);
        clean_text(out, field_text(entry, "asked"));
    }
    buf_put(out, "\n", 1);
}

static enum ctl_exit run_audit(struct ctl *ctl)
{
    static const struct kind kind = {"/api/audit", "entries", audit_wanted, audit_put};

    return history_run(ctl, &kind);
}

/* --- events --- */

static bool event_wanted(const struct ctl *ctl, const json_t *entry)
{
    const char *kind = ctl_option(ctl, "kind");

    return kind == NULL || field_is(entry, "kind", kind);
}

static void event_put(struct buf *out, const json_t *entry)
{
    history_put_field(out, entry, "time", 24);
    history_put_field(out, entry, "server", 0);
    history_put_field(out, entry, "kind", 10);
    clean_text(out, field_text(entry, "text"));
    buf_put(out, "\n", 1);
}

static enum ctl_exit run_events(struct ctl *ctl)
{
    static const struct kind kind = {"/api/events", "events", event_wanted, event_put};

    return history_run(ctl, &kind);
}

static const struct option_about AUDIT_OPTIONS[] = {
    {"limit", 'n', "N", "the last so many (default 50)"},
    {"refused", 0, NULL, "only what was refused"},
    {"changes", 0, NULL, "only what was not refused"},
    {"who", 0, "NAME", "only what this token, or address, asked"},
    {"follow", 'f', NULL, "go on with what comes, until Ctrl-C"},
    {"times", 0, "N", "with --follow: end after so many looks"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_AUDIT = {
    .family = "audit",
    .summary = "who changed what, and who was refused",
    .text = "Each node keeps what came to it since its start, so name all nodes by --server.",
    .options = AUDIT_OPTIONS,
    .run = run_audit,
};

static const struct option_about EVENT_OPTIONS[] = {
    {"limit", 'n', "N", "the last so many (default 50)"},
    {"kind", 0, "KIND", "only this kind, such as election, member, level, alarm"},
    {"follow", 'f', NULL, "go on with what comes, until Ctrl-C"},
    {"times", 0, "N", "with --follow: end after so many looks"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_EVENTS = {
    .family = "events",
    .summary = "what happened: elections, members, links, level, alarms",
    .text = "Each node tells what it saw since its start, so name all nodes by --server.",
    .options = EVENT_OPTIONS,
    .run = run_events,
};
