/*
 * top.c - `top`: the busiest tags, live. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/rates.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/grid.h"
#include "src/ctl/out/text.h"

#define CLEAR "\x1b[H\x1b[J" /* the cursor home, and nothing from there on */
#define TAGS_MAX 100000      /* of a node; of more it is said so */
#define SHOWN_DEFAULT 20

/* One look at all nodes. */
struct look {
    struct rates rates;
    size_t asked;
    size_t answered;
    bool cut; /* some node has more tags in use than are looked at */
    enum ctl_exit failed;
    char *nodes[SERVERS_MAX]; /* that were asked, by the address that answered */
};

/* Is it the first address of its node? */
static bool top_is_new(struct look *look, const char *server)
{
    for (size_t i = 0; i < look->answered; i++) {
        if (strcmp(look->nodes[i], server) == 0) {
            return false;
        }
    }
    look->nodes[look->answered] = MUST_HAVE(strdup(server));
    look->answered++;
    return true;
}

static void top_ask(struct ctl *ctl, struct look *look, size_t which)
{
    char *after = NULL;
    size_t tags = 0;

    do {
        TARGET_LOCAL(target);
        ANSWER_LOCAL(answer);
        enum ctl_exit code;

        target_init(&target, "/api/node/segments", NULL);
        target_add_number(&target, "limit", LIMIT_TAGS_PER_PAGE);
        target_add(&target, "prefix", ctl->args.operands[0]);
        target_add(&target, "after", after);
        const struct ask ask = {.target = target_text(&target)};

        code = cluster_ask_one(ctl->cluster, which, &ask, &answer);
        if (code != CTL_DONE) {
            look->failed = ctl_failed(code, &answer);
            break;
        }
        if (after == NULL && !top_is_new(look, answer.server)) {
            look->asked--;
            break;
        }
        rates_add(&look->rates, answer.json);
        tags += LIMIT_TAGS_PER_PAGE;
        free(after);
        after = field_text(answer.json, "next") != NULL ? strdup(field_text(answer.json, "next"))
                                                        : NULL;
    } while (after != NULL && tags < TAGS_MAX);
    look->cut |= after != NULL && tags >= TAGS_MAX;
    free(after);
}

static void put_json(struct ctl *ctl, const struct look *look, size_t shown)
{
    json_t *list = json_array();
    json_t *json;

    for (size_t i = 0; i < look->rates.count && i < shown; i++) {
        const struct rate *rate = &look->rates.list[i];
        json_t *row = json_pack("{s:s, s:I, s:I, s:I, s:o, s:i}", "tag", rate->tag, "rate_per_s",
                                (json_int_t)rate->per_s, "left", (json_int_t)rate->left, "step",
                                (json_int_t)rate->step, "lasts_s",
                                rate->lasts_s < 0 ? json_null() : json_real(rate->lasts_s), "nodes",
                                (int)rate->nodes);

        ASSERT(row != NULL && json_array_append_new(list, row) == 0);
    }
    json = MUST_HAVE(json_pack("{s:i, s:i, s:o}", "nodes_asked", (int)look->asked, "nodes_answered",
                               (int)look->answered, "tags", list));
    ctl_put_json(ctl, json);
    json_decref(json);
}

static void put_table(struct ctl *ctl, const struct look *look, size_t shown)
{
    static const char *const titles[] = {"tag",   ">ids/s", ">held", ">lasts",
                                         ">step", ">nodes", NULL};
    GRID_LOCAL(grid);
    uint64_t sum = 0;
    char text[UNITS_BYTES];

    for (size_t i = 0; i < look->rates.count; i++) {
        sum += look->rates.list[i].per_s;
    }
    buf_printf(&ctl->out, "%zu of %zu nodes, %zu tags in use%s, %" PRIu64 " ids a second\n\n",
               look->answered, look->asked, look->rates.count, look->cut ? " and more" : "", sum);
    grid_init(&grid, titles);
    for (size_t i = 0; i < look->rates.count && i < shown; i++) {
        const struct rate *rate = &look->rates.list[i];

        grid_cell(&grid, rate->tag);
        grid_cellf(&grid, "%" PRIu64, rate->per_s);
        grid_cellf(&grid, "%" PRIu64, rate->left);
        grid_cell(&grid, rate->lasts_s < 0 || rate->lasts_s > 1e12
                             ? NULL
                             : units_ms((uint64_t)(rate->lasts_s * 1000), text));
        grid_cellf(&grid, "%" PRIu64, rate->step);
        grid_cellf(&grid, "%u", rate->nodes);
    }
    grid_print(&grid, 0, true, &ctl->out);
}

static enum ctl_exit top_show(struct ctl *ctl, size_t shown, const char *before)
{
    struct look look = {.asked = cluster_servers(ctl->cluster)->count};
    size_t servers = look.asked;
    enum ctl_exit code = CTL_DONE;

    rates_init(&look.rates);
    for (size_t i = 0; i < servers; i++) {
        top_ask(ctl, &look, i);
    }
    rates_sort(&look.rates);
    buf_printf(&ctl->out, "%s", before);
    if (look.answered == 0) {
        code = look.failed;
    } else if (ctl->json) {
        put_json(ctl, &look, shown);
    } else {
        put_table(ctl, &look, shown);
    }
    for (size_t i = 0; i < look.answered; i++) {
        free(look.nodes[i]);
    }
    rates_free(&look.rates);
    return code == CTL_DONE ? ctl_flush(ctl) : code;
}

static enum ctl_exit top_run(struct ctl *ctl)
{
    bool live = isatty(STDOUT_FILENO);
    const char *before = live && !ctl->json ? CLEAR : "";
    uint64_t every_s = 2;
    uint64_t times = live ? 0 : 1;
    uint64_t shown = SHOWN_DEFAULT;
    enum ctl_exit code = ctl_number("every", ctl_option(ctl, "every"), 1, 3600, &every_s);

    code = code == CTL_DONE ? ctl_number("times", ctl_option(ctl, "times"), 1, UINT32_MAX, &times)
                            : code;
    code = code == CTL_DONE ? ctl_number("limit", ctl_option(ctl, "limit"), 1, TAGS_MAX, &shown)
                            : code;
    if (code != CTL_DONE) {
        return code;
    }
    for (uint64_t round = 1;; round++) {
        code = top_show(ctl, (size_t)shown, before);
        if ((times > 0 && round >= times) || code == CTL_OUTPUT) {
            return code;
        }
        (void)poll(NULL, 0, (int)every_s * 1000);
    }
}

static const struct option_about OPTIONS[] = {
    {"limit", 'n', "N", "so many tags (default 20)"},
    {"every", 0, "SECONDS", "how often (default 2)"},
    {"times", 0, "N", "end after so many (default: never in a terminal, else 1)"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_TOP = {
    .family = "top",
    .operands = "[PREFIX]",
    .summary = "the busiest tags: rates, and how long the ids that nodes hold will last",
    .text = "Each node tells of itself, so name all nodes by --server.",
    .options = OPTIONS,
    .run = top_run,
};
