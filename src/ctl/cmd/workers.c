/*
 * workers.c - `workers list|acquire|renew|release`: worker ids of snowflake ids. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>
#include <stdlib.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/grid.h"

/* Options that are numbers of the body: their names there, and their bounds. */
struct number {
    const char *option;
    const char *field;
    uint64_t min;
    uint64_t max;
};

static const char *time_of(const json_t *row, const char *name, char text[TEXT_TIME_BYTES])
{
    int64_t ms = field_number(row, name, 0);

    return ms > 0 ? text_time_rfc3339((uint64_t)ms, text) : NULL;
}

static void workers_put_rows(struct ctl *ctl, struct grid *grid, const json_t *page, bool *titles)
{
    int64_t log_ms = field_number(page, "log_time_ms", 0);
    bool only_held = ctl_option(ctl, "held") != NULL;
    char text[TEXT_TIME_BYTES];

    for (size_t i = 0; i < field_count(page, "workers"); i++) {
        const json_t *row = field_item(page, "workers", i);
        bool granted = field_is(row, "state", "held");
        bool held = granted && field_number(row, "until_ms", 0) >= log_ms;

        if (only_held && !held) {
            continue;
        }
        grid_cellf(grid, "%" PRId64, field_number(row, "worker_id", -1));
        grid_cell(grid, held ? "held" : granted ? "over" : field_text(row, "state"));
        grid_cell(grid, field_text(row, "kind"));
        grid_cell(grid, field_text(row, "name"));
        grid_cell(grid, field_text(row, "address"));
        grid_cellf(grid, "%" PRId64, field_number(row, "epoch", 0));
        grid_cell(grid, time_of(row, "until_ms", text));
    }
    grid_print(grid, 0, *titles, &ctl->out);
    *titles = false;
}

static enum ctl_exit workers_list_pages(struct ctl *ctl, struct grid *grid)
{
    int64_t after = -1;
    bool titles = true;
    enum ctl_exit code = CTL_DONE;

    do {
        TARGET_LOCAL(target);
        ANSWER_LOCAL(answer);
        int64_t next;

        target_init(&target, "/api/workers", NULL);
        target_add_number(&target, "limit", LIMIT_WORKER_IDS);
        if (after >= 0) {
            target_add_number(&target, "after", (uint64_t)after);
        }
        code = ctl_get(ctl, target_text(&target), &answer);
        if (code != CTL_DONE) {
            return code;
        }
        if (ctl->json) {
            ctl_put_json(ctl, answer.json);
        } else {
            workers_put_rows(ctl, grid, answer.json, &titles);
        }
        next = field_number(answer.json, "next", -1);
        code = ctl_flush(ctl);
        if (next >= 0 && next <= after) {
            return ctl_fail(CTL_INTERNAL, "the next page begins before this one");
        }
        after = next;
    } while (code == CTL_DONE && after >= 0);
    return code;
}

static enum ctl_exit workers_run_list(struct ctl *ctl)
{
    static const char *const titles[] = {">id",     "state",  "kind",  "name",
                                         "address", ">epoch", "until", NULL};
    GRID_LOCAL(grid);

    grid_init(&grid, titles);
    return workers_list_pages(ctl, &grid);
}

static enum ctl_exit add_numbers(struct ctl *ctl, const struct number *numbers, size_t count,
                                 json_t *body)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = ctl_option(ctl, numbers[i].option);
        uint64_t value = 0;
        enum ctl_exit code =
            ctl_number(numbers[i].option, text, numbers[i].min, numbers[i].max, &value);

        if (code != CTL_DONE) {
            return code;
        }
        if (text != NULL) {
            ASSERT(json_object_set_new(body, numbers[i].field, json_integer((json_int_t)value)) ==
                   0);
        }
    }
    return CTL_DONE;
}

static void put_granted(struct ctl *ctl, const json_t *json)
{
    char times[2][TEXT_TIME_BYTES];
    const char *from = time_of(json, "from_ms", times[0]);
    const char *until = time_of(json, "until_ms", times[1]);

    buf_printf(&ctl->out, "worker id %" PRId64 ", epoch %" PRId64 ": times %s%s up to %s\n",
               field_number(json, "worker_id", -1), field_number(json, "epoch", 0),
               from != NULL ? "above " : "", from != NULL ? from : "", until != NULL ? until : "-");
}

/* Send it; show what was granted. */
static enum ctl_exit send_body(struct ctl *ctl, const char *method, const char *target,
                               const json_t *body)
{
    char *text = MUST_HAVE(json_dumps(body, JSON_COMPACT));
    const struct ask ask = {.method = method, .target = target, .body = text};
    ANSWER_LOCAL(answer);
    enum ctl_exit code = cluster_ask(ctl->cluster, &ask, &answer);

    free(text);
    if (code != CTL_DONE) {
        return ctl_failed(code, &answer);
    }
    if (answer.status == 204) {
        buf_printf(&ctl->out, "%s", ctl->json ? "" : "released\n");
        return CTL_DONE;
    }
    code = ctl_must_be_object(&answer);
    if (code == CTL_DONE) {
        ctl_put(ctl, answer.json, put_granted);
    }
    return code;
}

static const struct number WINDOW = {"window-ms", "window_ms", LIMIT_WINDOW_MIN_MS,
                                     LIMIT_WINDOW_MAX_MS};

static enum ctl_exit run_acquire(struct ctl *ctl)
{
    const struct number numbers[] = {{"worker-id", "worker_id", 0, LIMIT_WORKER_IDS - 1},
                                     {"from-ms", "from_ms", 0, INT64_MAX},
                                     WINDOW};
    const char *address = ctl_option(ctl, "address");
    json_t *body = json_object();
    TARGET_LOCAL(target);
    enum ctl_exit code = add_numbers(ctl, numbers, 3, body);

    if (code == CTL_DONE &&
        (json_object_set_new(body, "name", json_string(ctl->args.operands[0])) != 0 ||
         (address != NULL && json_object_set_new(body, "address", json_string(address)) != 0))) {
        code = ctl_fail(CTL_USAGE, "the name or the address is not UTF-8");
    }
    if (code == CTL_DONE) {
        target_init(&target, "/api/workers", NULL);
        target_add(&target, "force", ctl_option(ctl, "force") != NULL ? "1" : NULL);
        code = send_body(ctl, "POST", target_text(&target), body);
    }
    json_decref(body);
    return code;
}

static enum ctl_exit change(struct ctl *ctl, const char *method, const struct number *numbers,
                            size_t count, bool force)
{
    json_t *body = json_object();
    uint64_t id = 0;
    TARGET_LOCAL(target);
    enum ctl_exit code = ctl_number("ID", ctl->args.operands[0], 0, LIMIT_WORKER_IDS - 1, &id);

    if (code == CTL_DONE && ctl_option(ctl, "epoch") == NULL) {
        code = ctl_fail(CTL_USAGE, "--epoch is missing: leafctl workers list shows it");
    }
    if (code == CTL_DONE) {
        code = add_numbers(ctl, numbers, count, body);
    }
    if (code == CTL_DONE) {
        target_init(&target, "/api/workers/", ctl->args.operands[0]);
        target_add(&target, "force", force ? "1" : NULL);
        code = send_body(ctl, method, target_text(&target), body);
    }
    json_decref(body);
    return code;
}

static const struct number EPOCH = {"epoch", "epoch", 1, INT64_MAX};

static enum ctl_exit run_renew(struct ctl *ctl)
{
    const struct number numbers[] = {EPOCH, WINDOW};

    return change(ctl, "PUT", numbers, 2, false);
}

static enum ctl_exit run_release(struct ctl *ctl)
{
    const struct number numbers[] = {EPOCH,
                                     {"last-timestamp-ms", "last_timestamp_ms", 0, INT64_MAX}};

    return change(ctl, "DELETE", numbers, 2, ctl_option(ctl, "force") != NULL);
}

static const struct option_about LIST_OPTIONS[] = {
    {"held", 0, NULL, "only those that are held now"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_WORKERS_LIST = {
    .family = "workers",
    .name = "list",
    .is_default = true,
    .summary = "worker ids of snowflake ids: who holds which, until when",
    .options = LIST_OPTIONS,
    .run = workers_run_list,
};

static const struct option_about ACQUIRE_OPTIONS[] = {
    {"worker-id", 0, "ID", "this one, or none (default: any)"},
    {"address", 0, "TEXT", "shown in the list"},
    {"from-ms", 0, "MS", "no time up to this one is granted"},
    {"window-ms", 0, "MS", "for how long, 1000 to 86400000 (default 60000)"},
    {"force", 0, NULL, "the --worker-id that another client holds; needs the role admin"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_WORKERS_ACQUIRE = {
    .family = "workers",
    .name = "acquire",
    .operands = "NAME",
    .summary = "get a worker id for a generator outside of leafd, or keep one from being used",
    .options = ACQUIRE_OPTIONS,
    .run = run_acquire,
};

static const struct option_about RENEW_OPTIONS[] = {
    {"epoch", 0, "N", "of the acquire"},
    {"window-ms", 0, "MS", "for how long from now on, 1000 to 86400000 (default 60000)"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_WORKERS_RENEW = {
    .family = "workers",
    .name = "renew",
    .operands = "ID",
    .summary = "hold a worker id longer",
    .options = RENEW_OPTIONS,
    .run = run_renew,
};

static const struct option_about RELEASE_OPTIONS[] = {
    {"epoch", 0, "N", "of the acquire"},
    {"last-timestamp-ms", 0, "MS", "the highest time used, to be shown"},
    {"force", 0, NULL, "one that another client holds; needs the role admin"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_WORKERS_RELEASE = {
    .family = "workers",
    .name = "release",
    .operands = "ID",
    .summary = "give a worker id back",
    .options = RELEASE_OPTIONS,
    .run = run_release,
};
