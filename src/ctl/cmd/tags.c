/*
 * tags.c - commands on what clients use: `tags`, their ids (`next`), and snowflake ids: `decode`,
 * `at`, `workers`, `layouts`. Ids of a lost answer are skipped, so a request for ids may be
 * repeated. Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"
#include "src/id/codec/snowflake_layout.h"

#define NEXT_MAX 1000000000

/* --- tags --- */

/* The fields of a tag; in CSV only the first of them. */
static const char *const FIELDS[] = {"tag",    "max_id",  "step",      "max_step",   "max",
                                     "mode",   "created", "updated",   "generation", "description",
                                     "shape",  "key",     "increment", "offset",     "cover_s",
                                     "paused", "reason",  "changing",  "warning",    NULL};
#define CSV_FIELDS 11

/* One request for all pages. */
struct listing {
    struct ctl *ctl;
    struct grid grid;
    bool csv;
    const char *mode; /* only tags of this mode; NULL: of any */
    bool only_warned; /* only tags that are nearly used up */
    uint64_t left;    /* tags to show yet */
};

static void csv_put_text(struct buf *out, const char *text, bool clean)
{
    BUF_LOCAL(field);

    if (clean) {
        clean_text(&field, text);
        text = buf_text(&field);
    }
    if (strpbrk(text, "\",\n\r") == NULL) {
        buf_printf(out, "%s", text);
        return;
    }
    buf_put(out, "\"", 1);
    for (; *text != '\0'; text++) {
        buf_put(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    }
    buf_put(out, "\"", 1);
}

static void csv_put_row(struct buf *out, const json_t *tag)
{
    bool clean = isatty(STDOUT_FILENO); /* a file gets the raw texts */

    for (size_t i = 0; i < CSV_FIELDS; i++) {
        const json_t *field = json_object_get(tag, FIELDS[i]);

        buf_put(out, ",", i > 0 ? 1 : 0);
        if (json_is_integer(field)) {
            buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(field));
        } else if (json_is_string(field)) {
            csv_put_text(out, json_string_value(field), clean);
        }
    }
    buf_put(out, "\r\n", 2);
}

/* Print a page's wanted tags. */
static enum ctl_exit tags_put_page(struct listing *listing, json_t *page)
{
    struct ctl *ctl = listing->ctl;
    json_t *tags = json_object_get(page, "tags");

    for (size_t i = 0; i < json_array_size(tags);) {
        json_t *tag = json_array_get(tags, i);
        bool warned = field_text(tag, "warning") != NULL;

        if (listing->left == 0 || (listing->only_warned && !warned) ||
            (listing->mode != NULL && !field_is(tag, "mode", listing->mode))) {
            ASSERT(json_array_remove(tags, i) == 0);
            continue;
        }
        listing->left--;
        i++;
        if (listing->csv) {
            csv_put_row(&ctl->out, tag);
        } else if (!ctl->json) { /* shown by the table in place of some fields */
            if (field_true(tag, "changing") || field_true(tag, "paused")) {
                (void)json_object_set_new(
                    tag, "mode", json_string(field_true(tag, "paused") ? "paused" : "changing"));
            }
            if (warned) {
                (void)json_object_set_new(tag, "description", json_string("! nearly used up"));
            }
        }
    }
    if (ctl->json) {
        ctl_put_json(ctl, page);
    } else if (!listing->csv) {
        ctl_put_rows(&ctl->out, &listing->grid, tags, 0);
    }
    return ctl_flush(ctl);
}

static enum ctl_exit tags_put_pages(struct listing *listing)
{
    struct ctl *ctl = listing->ctl;
    const char *after = ctl_option(ctl, "after");
    bool all = listing->mode == NULL && !listing->only_warned;
    struct pages pages = {.ctl = ctl,
                          .path = "/api/tags",
                          .prefix = ctl->args.operands[0],
                          .limit = LIMIT_TAGS_PER_PAGE,
                          .after = after != NULL ? MUST_HAVE(strdup(after)) : NULL};

    do {
        if (all && listing->left < LIMIT_TAGS_PER_PAGE) {
            pages.limit = listing->left;
        }
        if (pages_next(&pages)) {
            pages.code = tags_put_page(listing, pages.answer.json);
        }
    } while (pages.code == CTL_DONE && pages.after != NULL && listing->left > 0);
    if (pages.code == CTL_DONE && pages.after != NULL && !ctl->json) {
        ctl_progress("there may be more: --after %s", pages.after);
    }
    return pages_end(&pages);
}

enum ctl_exit run_tags_list(struct ctl *ctl)
{
    static const struct grid_column titles[] = {{"tag", "{tag}"},
                                                {">next id", "{max_id}"},
                                                {">step", "{step:n}"},
                                                {">max", "{max}"},
                                                {"mode", "{mode}"},
                                                {"updated", "{updated}"},
                                                {"description", "{description}"},
                                                {NULL, NULL}};
    struct listing listing = {.ctl = ctl,
                              .csv = ctl_has(ctl, "csv"),
                              .mode = ctl_option(ctl, "mode"),
                              .only_warned = ctl_has(ctl, "nearly-used-up"),
                              .left = UINT64_MAX};
    enum ctl_exit code = ctl_number_option(ctl, "limit", INT64_MAX, &listing.left);

    if (code != CTL_DONE) {
        return code;
    }
    if (listing.csv && ctl->json) {
        return ctl_fail(CTL_USAGE, "--csv or --json, not both");
    }
    if (listing.mode != NULL && strcmp(listing.mode, "trend") != 0 &&
        strcmp(listing.mode, "strict") != 0 && strcmp(listing.mode, "monotonic") != 0) {
        return ctl_fail(CTL_USAGE, "mode: \"%s\" is none of trend, strict and monotonic",
                        listing.mode);
    }
    for (size_t i = 0; listing.csv && i < CSV_FIELDS; i++) {
        buf_printf(&ctl->out, "%s%s", FIELDS[i], i + 1 < CSV_FIELDS ? "," : "\r\n");
    }
    listing.grid.titles = titles;
    code = tags_put_pages(&listing);
    grid_free(&listing.grid);
    return code;
}

/* --- one tag --- */

void put_tag(struct ctl *ctl, json_t *tag)
{
    if (tag == NULL) {
        buf_printf(&ctl->out, "deleted; made again it continues above its ids\n");
    } else if (ctl->command->method != NULL) {
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

enum ctl_exit run_tags_pause(struct ctl *ctl)
{
    bool paused = strcmp(ctl->command->name, "pause") == 0;

    return ctl_request(ctl, MUST_HAVE(json_pack("{s:b}", "paused", paused)));
}

/* --- next --- */

/* Append the ids of a range, or the range. False: invalid, or longer than the number left. */
static bool ids_put_range(struct ctl *ctl, const json_t *range, bool as_range, uint64_t *left)
{
    int64_t first = field_number(range, "first", -1);
    int64_t last = field_number(range, "last", -1);
    int64_t by = field_number(range, "increment", 1);

    if (first < 0 || last < first || by < 1 || (last - first) % by != 0 ||
        (uint64_t)(last - first) / (uint64_t)by >= *left) {
        return false;
    }
    *left -= (uint64_t)(last - first) / (uint64_t)by + 1;
    if (as_range) {
        buf_printf(&ctl->out, "%" PRId64 " %" PRId64, first, last);
        if (by > 1) {
            buf_printf(&ctl->out, " %" PRId64, by);
        }
        buf_put(&ctl->out, "\n", 1);
        return true;
    }
    for (uint64_t id = (uint64_t)first; id <= (uint64_t)last; id += (uint64_t)by) {
        buf_printf(&ctl->out, "%" PRIu64 "\n", id);
    }
    return true;
}

/* Append the ranges of an answer. False: not the requested number of ids. */
static bool ids_put_ranges(struct ctl *ctl, const struct answer *answer, uint64_t count)
{
    size_t before = ctl->out.len;
    uint64_t left = count;

    if (ctl->json) {
        ctl_put_json(ctl, answer->json);
        return true;
    }
    for (size_t i = 0; i < field_count(answer->json, "ranges"); i++) {
        if (!ids_put_range(ctl, field_item(answer->json, "ranges", i), ctl_has(ctl, "ranges"),
                           &left)) {
            left = count;
            break;
        }
    }
    ctl->out.len = left == 0 ? ctl->out.len : before;
    return left == 0;
}

/* The same for the lines of a body: ids of a layout, which are not consecutive. */
static bool ids_put_lines(struct ctl *ctl, const struct answer *answer, uint64_t count)
{
    const char *body = (const char *)answer->body.data;
    uint64_t lines = 0;

    for (size_t i = 0; i < answer->body.len; i++) {
        bool ends = body[i] == '\n' && i > 0 && body[i - 1] != '\n';

        if (!ends && (body[i] < '0' || body[i] > '9')) {
            return false;
        }
        lines += ends || i + 1 == answer->body.len;
    }
    if (lines == count) {
        buf_put(&ctl->out, body, answer->body.len);
        buf_put(&ctl->out, "\n", body[answer->body.len - 1] != '\n' ? 1 : 0);
    }
    return lines == count;
}

static enum ctl_exit next_ask(struct ctl *ctl, const char *path, uint64_t count, const char *key)
{
    uint64_t timeout_ms = ctl->settings.timeout_ms < LIMIT_TIMEOUT_MS / 2 ? ctl->settings.timeout_ms
                                                                          : LIMIT_TIMEOUT_MS / 2;
    const char *layout = ctl_option(ctl, "layout");
    BUF_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    target_put(&target, path, ctl->args.operands[0]);
    target_add_number(&target, "count", count);
    target_add(&target, "format", layout == NULL ? "json" : NULL);
    target_add(&target, "stepped", !ctl_has(ctl, "snowflake") && layout == NULL ? "1" : NULL);
    target_add(&target, "contiguous", ctl_has(ctl, "contiguous") ? "1" : NULL);
    target_add(&target, "as", ctl_has(ctl, "numbers") ? "number" : NULL);
    target_add(&target, "layout", layout);
    target_add_number(&target, "timeout_ms", timeout_ms > 500 ? timeout_ms - 500 : timeout_ms);
    const struct ask ask = {.target = buf_text(&target), .key = key};
    code = cluster_ask(ctl->cluster, &ask, &answer);
    if (code == CTL_NOT_FOUND) {
        ctl_progress(layout != NULL ? "those that there are: leafctl layouts"
                                    : "make it: leafctl tags put TAG");
    }
    if (code != CTL_DONE) {
        return ctl_failed(code, &answer);
    }
    code = layout == NULL ? ctl_must_be_object(&answer) : CTL_DONE;
    if (code != CTL_DONE) {
        return code;
    }
    return (layout == NULL ? ids_put_ranges : ids_put_lines)(ctl, &answer, count)
               ? ctl_flush(ctl)
               : ctl_fail(CTL_INTERNAL, "%s: the answer has not the %" PRIu64 " ids asked for",
                          answer.server, count);
}

enum ctl_exit run_next(struct ctl *ctl)
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

/* --- decode --- */

enum ctl_exit run_decode(struct ctl *ctl)
{
    const char *text = ctl->args.operands[0];
    struct snowflake_parts parts;
    enum id_form form;
    uint64_t id = 0;

    return long_id_read(text, strlen(text), &form, &parts) ||
                   ctl_number("ID", text, 0, INT64_MAX, &id) == CTL_DONE
               ? ctl_request(ctl, NULL)
               : CTL_USAGE;
}

/* --- worker ids --- */

/* Keep the rows of a page to show, with their state as of the log's time. */
static void workers_prepare(struct ctl *ctl, json_t *page)
{
    json_t *rows = json_object_get(page, "workers");

    for (size_t i = 0; i < json_array_size(rows);) {
        json_t *row = json_array_get(rows, i);
        bool granted = field_is(row, "state", "held");
        bool held =
            granted && field_number(row, "until_ms", 0) >= field_number(page, "log_time_ms", 0);

        if (granted && !held) {
            ASSERT(json_object_set_new(row, "state", json_string("over")) == 0);
        }
        if (held || !ctl_has(ctl, "held") || json_array_remove(rows, i) != 0) {
            i++;
        }
    }
}

enum ctl_exit run_workers_list(struct ctl *ctl)
{
    static const struct grid_column titles[] = {
        {">id", "{worker_id:n}"},     {"state", "{state}"},
        {"kind", "{kind}"},           {"name", "{name}"},
        {"address", "{address}"},     {">epoch", "{epoch:n}"},
        {"until", "{until_ms:time}"}, {NULL, NULL}};
    struct pages pages = {.ctl = ctl, .path = "/api/workers", .limit = LIMIT_WORKERS_PER_PAGE};
    GRID_LOCAL(grid, titles);

    while (pages_next(&pages)) {
        if (ctl->json) {
            ctl_put_json(ctl, pages.answer.json);
        } else {
            workers_prepare(ctl, pages.answer.json);
            ctl_put_rows(&ctl->out, &grid, json_object_get(pages.answer.json, "workers"), 0);
        }
        pages.code = ctl_flush(ctl);
    }
    return pages_end(&pages);
}

void put_worker(struct ctl *ctl, json_t *json)
{
    if (json == NULL) {
        buf_printf(&ctl->out, "released\n");
        return;
    }
    ctl_put_form(&ctl->out, "worker id {worker_id:n}, epoch {epoch:n}: times ", json);
    ctl_put_form(&ctl->out, field_number(json, "from_ms", 0) > 0 ? "above {from_ms:time}" : "",
                 json);
    ctl_put_form(&ctl->out, " up to {until_ms:time}\n", json);
}

/* `renew` or `release` an acquired id: needs its epoch. */
enum ctl_exit run_workers_change(struct ctl *ctl)
{
    uint64_t id = 0;

    if (ctl_number("ID", ctl->args.operands[0], 0, LIMIT_WORKER_IDS - 1, &id) != CTL_DONE) {
        return CTL_USAGE;
    }
    return ctl_has(ctl, "epoch")
               ? ctl_request(ctl, NULL)
               : ctl_fail(CTL_USAGE, "--epoch is missing: leafctl workers list shows it");
}
