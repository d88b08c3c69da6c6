/*
 * history.c - data that each node has only of itself: `audit` and `events`, oldest first; `top`,
 * the busiest tags, live.
 *
 * All named servers are asked, each for itself. Two addresses of one node give the same answers:
 * only the first counts. Thread: one.
 */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"

#define HISTORY_PAGE 500
#define HISTORY_PAGES_MAX 100 /* of a node at once: all it keeps */
#define HISTORY_SHOWN 50
#define FOLLOW_MS 1000
#define TOP_TAGS_MAX 100000 /* of a node; more are reported as cut */
#define TOP_SHOWN 20

/* Is it the first address of its node? If so, it is added to the nodes that answered. */
static bool nodes_add(json_t **nodes, const char *server)
{
    *nodes = *nodes != NULL ? *nodes : MUST_HAVE(json_object());
    if (json_object_get(*nodes, server) != NULL) {
        return false;
    }
    ASSERT(json_object_set_new(*nodes, server, json_true()) == 0);
    return true;
}

/* --- audit and events --- */

struct history {
    struct ctl *ctl;
    json_t *entries;            /* of this round, with "server" */
    int64_t after[SERVERS_MAX]; /* last numbers seen; -1: the same node as another server */
    bool known[SERVERS_MAX];    /* the server answered, and its node is among `nodes` */
    json_t *nodes;              /* that answered, by address */
    enum ctl_exit failed;       /* the last failure */
};

/* What a server has since it was read last. */
static void history_read(struct history *history, size_t which)
{
    struct ctl *ctl = history->ctl;
    const char *who = ctl_option(ctl, "who");
    const char *kind = ctl_option(ctl, "kind");
    struct pages pages = {
        .ctl = ctl, .path = ctl->command->path, .limit = HISTORY_PAGE, .server = &which};
    json_t *entry;
    size_t i;

    ASSERT(asprintf(&pages.after, "%" PRId64, history->after[which]) >= 0);
    for (int page = 0; page < HISTORY_PAGES_MAX && pages_next(&pages); page++) {
        const char *server = pages.answer.server;

        if (!history->known[which] && !nodes_add(&history->nodes, server)) {
            history->after[which] = -1;
            break;
        }
        history->known[which] = true;
        json_array_foreach(json_object_get(pages.answer.json, ctl->command->list), i, entry)
        {
            int64_t number = field_number(entry, "number", 0);
            bool refused = field_is(entry, "outcome", "refused");

            if (number <= history->after[which]) {
                continue;
            }
            history->after[which] = number;
            if ((refused || !ctl_has(ctl, "refused")) && !(refused && ctl_has(ctl, "changes")) &&
                (who == NULL || field_is(entry, "who", who)) &&
                (kind == NULL || field_is(entry, "kind", kind))) {
                ASSERT(json_object_set_new(entry, "server", json_string(server)) == 0);
                ASSERT(json_array_append(history->entries, entry) == 0);
            }
        }
    }
    if (pages_end(&pages) != CTL_DONE) {
        history->failed = pages.code;
    }
}

static int entry_by_time(const void *a, const void *b)
{
    const char *texts[] = {field_text(*(json_t *const *)a, "time"),
                           field_text(*(json_t *const *)b, "time")};

    return strcmp(texts[0] != NULL ? texts[0] : "", texts[1] != NULL ? texts[1] : "");
}

enum ctl_exit run_history(struct ctl *ctl)
{
    struct history history = {.ctl = ctl, .entries = json_array()};
    uint64_t shown = HISTORY_SHOWN; /* of the first round; then all */
    uint64_t rounds = 0;
    enum ctl_exit code = ctl_number_option(ctl, "limit", UINT32_MAX, &shown);

    code = code == CTL_DONE ? ctl_number_option(ctl, "times", UINT32_MAX, &rounds) : code;
    for (uint64_t round = 1; code == CTL_DONE; round++) {
        json_t **sorted;
        size_t count;

        for (size_t i = 0; i < ctl->cluster->servers.count; i++) {
            if (history.after[i] >= 0) {
                history_read(&history, i);
            }
        }
        if (json_object_size(history.nodes) == 0) {
            code = history.failed;
            break;
        }
        count = json_array_size(history.entries);
        sorted = MUST_HAVE(calloc(count + 1, sizeof *sorted));
        for (size_t i = 0; i < count; i++) {
            sorted[i] = json_array_get(history.entries, i);
        }
        qsort(sorted, count, sizeof *sorted, entry_by_time);
        for (size_t i = count > shown ? count - shown : 0; i < count; i++) {
            const char *asked = field_text(sorted[i], "asked");

            if (ctl->json) {
                ctl_put_json(ctl, sorted[i]);
                continue;
            }
            ctl_put_form(&ctl->out, ctl->command->form, sorted[i]);
            ctl_put_form(&ctl->out, asked != NULL && *asked != '\0' ? "  {asked}\n" : "\n",
                         sorted[i]);
        }
        free(sorted);
        json_array_clear(history.entries);
        shown = SIZE_MAX;
        code = ctl_flush(ctl);
        if (!ctl_has(ctl, "follow") || code != CTL_DONE || round == rounds) {
            break;
        }
        (void)poll(NULL, 0, FOLLOW_MS);
    }
    json_decref(history.nodes);
    json_decref(history.entries);
    return code;
}

/* --- rates: out of the segments that nodes hold ---
 *
 * A node reports each tag's rate and the ids left in its buffers (GET /api/node/segments). The
 * rates of all nodes are summed; the time that a tag's buffers last is the shortest of all
 * nodes. */

/* What a node says may be any number: below 0 it is 0, and a sum does not overflow. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b > 0 ? b : 0, &sum) ? INT64_MAX : sum;
}

/* Add one node's page to an object by tag of {tag, rate_per_s, left (ids in buffers), step (the
 * largest segment), lasts_s (at the present rate; null: for ever), nodes (that use it)}. */
static void rates_add(json_t *rates, const json_t *page)
{
    for (size_t i = 0; i < field_count(page, "segments"); i++) {
        const json_t *segment = field_item(page, "segments", i);
        const char *tag = field_text(segment, "tag");
        const json_t *row = json_object_get(rates, tag);
        const json_t *shortest = json_object_get(row, "lasts_s");
        /* Nodes hold no ids of tags in the modes without segments. */
        bool is_held =
            !field_is(segment, "state", "strict") && !field_is(segment, "state", "monotonic");
        int64_t per_s = field_number(segment, "rate_per_s", 0);
        int64_t step = field_number(segment, "step", 0);
        int64_t widest = field_number(row, "step", 0);
        int64_t left = 0; /* ids that the node still has */
        double lasts_s = json_is_real(shortest) ? json_real_value(shortest) : INFINITY;
        json_t *sum;

        if (tag == NULL) {
            continue;
        }
        for (size_t slot = 0; slot < field_count(segment, "slots"); slot++) {
            const json_t *ids = field_item(segment, "slots", slot);
            int64_t next = field_number(ids, "next_id", -1);
            int64_t end = field_number(ids, "end", -1);
            int64_t by = field_number(ids, "increment", 1);

            left = sum_of(left, next >= 0 && end > next && by > 0 ? (end - next - 1) / by + 1 : 0);
        }
        if (per_s > 0 && is_held) {
            lasts_s = fmin(lasts_s, (double)left / (double)per_s);
        }
        sum = json_pack("{s:s, s:I, s:I, s:I, s:o, s:I}", "tag", tag, "rate_per_s",
                        sum_of(field_number(row, "rate_per_s", 0), per_s), "left",
                        sum_of(field_number(row, "left", 0), left), "step",
                        step > widest ? step : widest, "lasts_s",
                        isfinite(lasts_s) ? json_real(lasts_s) : json_null(), "nodes",
                        field_number(row, "nodes", 0) + 1);
        ASSERT(json_object_set_new(rates, tag, MUST_HAVE(sum)) == 0);
    }
}

static int rate_by_speed(const void *a, const void *b)
{
    const json_t *one = *(json_t *const *)a;
    const json_t *two = *(json_t *const *)b;
    int64_t speeds[] = {field_number(one, "rate_per_s", 0), field_number(two, "rate_per_s", 0)};

    return speeds[0] != speeds[1] ? (speeds[0] > speeds[1] ? -1 : 1)
                                  : strcmp(field_text(one, "tag"), field_text(two, "tag"));
}

/* --- top --- */

/* One look at all nodes. */
struct look {
    json_t *rates;
    size_t asked;
    bool cut; /* some node has more tags in use than are read */
    enum ctl_exit failed;
    json_t *nodes; /* that answered, by address */
};

static void top_ask(struct ctl *ctl, struct look *look, size_t which)
{
    struct pages pages = {.ctl = ctl,
                          .path = "/api/node/segments",
                          .prefix = ctl->args.operands[0],
                          .limit = LIMIT_TAGS_PER_PAGE,
                          .server = &which};
    size_t tags = 0;

    for (; tags < TOP_TAGS_MAX && pages_next(&pages); tags += LIMIT_TAGS_PER_PAGE) {
        if (tags == 0 && !nodes_add(&look->nodes, pages.answer.server)) {
            look->asked--;
            break;
        }
        rates_add(look->rates, pages.answer.json);
    }
    look->cut |= pages.after != NULL && tags >= TOP_TAGS_MAX;
    if (pages_end(&pages) != CTL_DONE) {
        look->failed = pages.code;
    }
}

static void top_put(struct ctl *ctl, const struct look *look, json_t *busiest)
{
    static const struct grid_column titles[] = {{"tag", "{tag}"},      {">ids/s", "{rate_per_s:n}"},
                                                {">held", "{left:n}"}, {">lasts", "{lasts}"},
                                                {">step", "{step:n}"}, {">nodes", "{nodes:n}"},
                                                {NULL, NULL}};
    struct grid grid = {.titles = titles};
    int64_t sum = 0;
    char text[UNITS_BYTES];
    const char *tag;
    json_t *row;
    size_t i;

    json_object_foreach(look->rates, tag, row)
    {
        sum = sum_of(sum, field_number(row, "rate_per_s", 0));
    }
    buf_printf(&ctl->out, "%zu of %zu nodes, %zu tags in use%s, %" PRId64 " ids a second\n\n",
               json_object_size(look->nodes), look->asked, json_object_size(look->rates),
               look->cut ? " and more" : "", sum);
    json_array_foreach(busiest, i, row)
    {
        const json_t *lasts_s = json_object_get(row, "lasts_s");

        if (json_is_real(lasts_s) && json_real_value(lasts_s) <= 1e12) {
            ASSERT(json_object_set_new(
                       row, "lasts",
                       json_string(units_ms((uint64_t)(json_real_value(lasts_s) * 1000), text))) ==
                   0);
        }
    }
    ctl_put_rows(&ctl->out, &grid, busiest, 0);
}

static enum ctl_exit top_show(struct ctl *ctl, const char *before)
{
    uint64_t shown = TOP_SHOWN;
    size_t servers = ctl->cluster->servers.count;
    json_auto_t *rates = MUST_HAVE(json_object());
    struct look look = {.asked = servers, .rates = rates};
    json_auto_t *busiest = json_array(); /* first the fastest, equal ones by name */
    json_t **sorted;
    size_t count = 0;
    const char *tag;
    json_t *row;
    enum ctl_exit code = ctl_number_option(ctl, "limit", TOP_TAGS_MAX, &shown);

    if (code != CTL_DONE) {
        return code;
    }
    for (size_t i = 0; i < servers; i++) {
        top_ask(ctl, &look, i);
    }
    sorted = MUST_HAVE(calloc(json_object_size(look.rates) + 1, sizeof *sorted));
    json_object_foreach(look.rates, tag, row)
    {
        sorted[count++] = row;
    }
    qsort(sorted, count, sizeof *sorted, rate_by_speed);
    for (size_t i = 0; i < count && i < shown; i++) {
        ASSERT(json_array_append(busiest, sorted[i]) == 0);
    }
    free(sorted);
    buf_printf(&ctl->out, "%s", before);
    if (json_object_size(look.nodes) == 0) {
        code = look.failed;
    } else if (ctl->json) {
        json_auto_t *json =
            MUST_HAVE(json_pack("{s:i, s:i, s:O}", "nodes_asked", (int)look.asked, "nodes_answered",
                                (int)json_object_size(look.nodes), "tags", busiest));

        ctl_put_json(ctl, json);
    } else {
        top_put(ctl, &look, busiest);
    }
    json_decref(look.nodes);
    return code == CTL_DONE ? ctl_flush(ctl) : code;
}

enum ctl_exit run_top(struct ctl *ctl)
{
    return ctl_repeat(ctl, isatty(STDOUT_FILENO), true, top_show);
}
