/*
 * tags.c - `tags list|get|put|delete`. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/out/text.h"
#include "src/ctl/out/grid.h"

/* --- list --- */

/* What a tag has; in CSV only the first of them. */
static const char *const FIELDS[] = {"tag",   "max_id",  "step",     "max_step",   "max",
                                     "mode",  "created", "updated",  "generation", "description",
                                     "shape", "key",     "changing", "warning",    NULL};
#define CSV_FIELDS 11

/* One asking for all pages. */
struct listing {
    struct ctl *ctl;
    struct grid grid;
    bool csv;
    bool titles;
    const char *mode; /* only tags of this mode; NULL: of any */
    bool only_warned; /* only tags that are nearly used up */
    uint64_t left;    /* tags to show yet */
};

static void put_csv(struct buf *out, const char *text, bool clean)
{
    BUF_LOCAL(field);

    if (clean) {
        clean_text(&field, text);
    } else {
        buf_put(&field, text, strlen(text));
    }
    if (field.len > 0 &&
        (memchr(field.data, '"', field.len) || memchr(field.data, ',', field.len) ||
         memchr(field.data, '\n', field.len) || memchr(field.data, '\r', field.len))) {
        buf_put(out, "\"", 1);
        for (size_t i = 0; i < field.len; i++) {
            buf_put(out, &field.data[i], 1);
            if (field.data[i] == '"') {
                buf_put(out, "\"", 1);
            }
        }
        buf_put(out, "\"", 1);
    } else {
        buf_put(out, field.data, field.len);
    }
}

static void put_csv_row(struct listing *listing, const json_t *tag)
{
    /* A file gets the texts as they are. */
    bool clean = isatty(STDOUT_FILENO);
    struct buf *out = &listing->ctl->out;

    for (size_t i = 0; i < CSV_FIELDS; i++) {
        const json_t *field = json_object_get(tag, FIELDS[i]);

        buf_put(out, ",", i > 0 ? 1 : 0);
        if (json_is_integer(field)) {
            buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(field));
        } else if (json_is_string(field)) {
            put_csv(out, json_string_value(field), clean);
        }
    }
    buf_put(out, "\r\n", 2);
}

static void tags_put_row(struct listing *listing, const json_t *tag)
{
    struct grid *grid = &listing->grid;

    if (listing->csv) {
        put_csv_row(listing, tag);
        return;
    }
    grid_cell(grid, field_text(tag, "tag"));
    grid_cell(grid, field_text(tag, "max_id"));
    grid_cellf(grid, "%" PRId64, field_number(tag, "step", 0));
    grid_cell(grid, field_text(tag, "max"));
    grid_cell(grid, field_true(tag, "changing") ? "changing" : field_text(tag, "mode"));
    grid_cell(grid, field_text(tag, "updated"));
    grid_cell(grid, field_text(tag, "warning") != NULL ? "! nearly used up"
                                                       : field_text(tag, "description"));
}

static bool tags_is_wanted(const struct listing *listing, const json_t *tag)
{
    return (listing->mode == NULL || field_is(tag, "mode", listing->mode)) &&
           (!listing->only_warned || field_text(tag, "warning") != NULL);
}

/* A page; in JSON with those of its tags that are wanted. */
static enum ctl_exit put_page(struct listing *listing, json_t *page)
{
    struct ctl *ctl = listing->ctl;
    json_t *tags = json_object_get(page, "tags");
    bool all = listing->mode == NULL && !listing->only_warned;

    for (size_t i = 0; i < json_array_size(tags);) {
        bool wanted =
            listing->left > 0 && (all || tags_is_wanted(listing, json_array_get(tags, i)));

        if (wanted) {
            listing->left--;
            if (!ctl->json) {
                tags_put_row(listing, json_array_get(tags, i));
            }
        }
        if (wanted || json_array_remove(tags, i) != 0) {
            i++;
        }
    }
    if (ctl->json) {
        ctl_put_json(ctl, page);
    } else if (!listing->csv) {
        grid_print(&listing->grid, 0, listing->titles, &ctl->out);
        listing->titles = false;
    }
    return ctl_flush(ctl);
}

static enum ctl_exit tags_list_pages(struct listing *listing)
{
    struct ctl *ctl = listing->ctl;
    enum ctl_exit code = CTL_DONE;
    const char *first = ctl_option(ctl, "after"); /* of a page: names behind it */
    struct answer answer = {0};

    do {
        TARGET_LOCAL(target);
        struct answer page;
        const char *next;

        target_init(&target, "/api/tags", NULL);
        target_add(&target, "prefix", ctl->args.operands[0]);
        target_add(&target, "after", first);
        target_add_number(&target, "limit",
                          listing->left < LIMIT_TAGS_PER_PAGE && listing->mode == NULL &&
                                  !listing->only_warned
                              ? listing->left
                              : LIMIT_TAGS_PER_PAGE);
        code = ctl_get(ctl, target_text(&target), &page);
        answer_free(&answer);
        answer = page;
        if (code != CTL_DONE) {
            return code;
        }
        next = field_text(answer.json, "next");
        if (next != NULL && first != NULL && strcmp(next, first) <= 0) {
            code =
                ctl_fail(CTL_INTERNAL, "%s: the next page begins before this one", answer.server);
            break;
        }
        first = next;
        code = put_page(listing, answer.json);
    } while (code == CTL_DONE && first != NULL && listing->left > 0);
    if (code == CTL_DONE && first != NULL && !ctl->json) {
        ctl_progress("there may be more: --after %s", first);
    }
    answer_free(&answer);
    return code;
}

static enum ctl_exit tags_run_list(struct ctl *ctl)
{
    static const char *const titles[] = {"tag",  ">next id", ">step",       ">max",
                                         "mode", "updated",  "description", NULL};
    struct listing listing = {.ctl = ctl,
                              .titles = true,
                              .csv = ctl_option(ctl, "csv") != NULL,
                              .mode = ctl_option(ctl, "mode"),
                              .only_warned = ctl_option(ctl, "nearly-used-up") != NULL,
                              .left = UINT64_MAX};
    enum ctl_exit code = ctl_number("limit", ctl_option(ctl, "limit"), 1, INT64_MAX, &listing.left);

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
        buf_printf(&ctl->out, "%s%s", i > 0 ? "," : "", FIELDS[i]);
    }
    buf_printf(&ctl->out, "%s", listing.csv ? "\r\n" : "");
    grid_init(&listing.grid, titles);
    code = tags_list_pages(&listing);
    grid_free(&listing.grid);
    return code;
}

/* --- one tag --- */

static enum ctl_exit tags_check_name(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > LIMIT_TAG_NAME_BYTES) {
        return ctl_fail(CTL_USAGE, "a tag's name has 1 to %d bytes, not %zu", LIMIT_TAG_NAME_BYTES,
                        len);
    }
    return CTL_DONE;
}

static void tags_put_tag(struct ctl *ctl, const json_t *tag)
{
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

static enum ctl_exit run_get(struct ctl *ctl)
{
    TARGET_LOCAL(target);
    enum ctl_exit code = tags_check_name(ctl->args.operands[0]);

    if (code == CTL_DONE) {
        target_init(&target, "/api/tags/", ctl->args.operands[0]);
        code = ctl_show(ctl, target_text(&target), tags_put_tag);
    }
    return code;
}

/* --wait-all: until all nodes have made the change. */
static void add_change_options(struct ctl *ctl, struct target *target)
{
    if (ctl_option(ctl, "wait-all") != NULL) {
        target_add(target, "wait", "all");
    }
}

/* The fields of a PUT, out of the options. NULL: a number is none, and that was told. */
static json_t *tag_body(struct ctl *ctl)
{
    static const char *const numbers[][2] = {{"max-id", "max_id"},
                                             {"step", "step"},
                                             {"max-step", "max_step"},
                                             {"max", "max"},
                                             {"shape-key", "key"}};
    static const char *const texts[] = {"mode", "description", "shape"};
    json_t *body = json_object();

    ASSERT(body != NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *text = ctl_option(ctl, numbers[i][0]);
        uint64_t value = 0;

        if (text != NULL && strcmp(text, "none") == 0 && strcmp(numbers[i][0], "max") == 0) {
            text = "9223372036854775807";
        }
        if (ctl_number(numbers[i][0], text, 0, INT64_MAX, &value) != CTL_DONE) {
            json_decref(body);
            return NULL;
        }
        if (text != NULL) {
            ASSERT(json_object_set_new(body, numbers[i][1], json_integer((json_int_t)value)) == 0);
        }
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *name = texts[i];
        const char *text = ctl_option(ctl, name);

        if (text != NULL && json_object_set_new(body, name, json_string(text)) != 0) {
            (void)ctl_fail(CTL_USAGE, "%s: not UTF-8", name);
            json_decref(body);
            return NULL;
        }
    }
    return body;
}

static enum ctl_exit run_put(struct ctl *ctl)
{
    bool force = ctl_option(ctl, "force") != NULL;
    enum ctl_exit code = tags_check_name(ctl->args.operands[0]);
    json_t *body = code == CTL_DONE ? tag_body(ctl) : NULL;
    TARGET_LOCAL(target);
    ANSWER_LOCAL(answer);
    char *text;

    if (body == NULL) {
        return CTL_USAGE;
    }
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    ASSERT(text != NULL);
    target_init(&target, "/api/tags/", ctl->args.operands[0]);
    add_change_options(ctl, &target);
    target_add(&target, "force", force ? "1" : NULL);
    const struct ask ask = {
        .method = "PUT", .target = target_text(&target), .body = text, .once = force};
    code = cluster_ask(ctl->cluster, &ask, &answer);
    free(text);
    if (code != CTL_DONE) {
        if (strcmp(answer.code, "would_repeat") == 0) {
            ctl_progress("--force sets it all the same: only where no id from there on is in use");
        }
        return ctl_failed(code, &answer);
    }
    code = ctl_must_be_object(&answer);
    if (code == CTL_DONE) {
        buf_printf(&ctl->out, "%s",
                   ctl->json              ? ""
                   : answer.status == 201 ? "made:\n"
                                          : "changed:\n");
        ctl_put(ctl, answer.json, tags_put_tag);
    }
    return code;
}

static enum ctl_exit run_delete(struct ctl *ctl)
{
    TARGET_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code = tags_check_name(ctl->args.operands[0]);

    if (code != CTL_DONE) {
        return code;
    }
    target_init(&target, "/api/tags/", ctl->args.operands[0]);
    add_change_options(ctl, &target);
    const struct ask ask = {.method = "DELETE", .target = target_text(&target)};
    code = cluster_ask(ctl->cluster, &ask, &answer);
    /* An earlier try without an answer did it. */
    if (code != CTL_DONE && !(code == CTL_NOT_FOUND && answer.repeated)) {
        return ctl_failed(code, &answer);
    }
    if (!ctl->json) {
        buf_printf(&ctl->out, "deleted; made again it goes on above its ids\n");
    }
    return CTL_DONE;
}

static const struct option_about LIST_OPTIONS[] = {
    {"after", 0, "TAG", "names behind this one"},
    {"limit", 'n', "N", "so many tags at most (default: all)"},
    {"mode", 0, "MODE", "only tags that are trend, strict or monotonic"},
    {"nearly-used-up", 0, NULL, "only tags with less than 10 % left below their max"},
    {"csv", 0, NULL, "as CSV, with a line of titles"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_TAGS_LIST = {
    .family = "tags",
    .name = "list",
    .is_default = true,
    .operands = "[PREFIX]",
    .summary = "tags, in the order of their names",
    .text = "With --json each page of up to 1000 is a line, as GET /api/tags gives it; POST "
            "/api/tags of another cluster takes them as they are.",
    .options = LIST_OPTIONS,
    .run = tags_run_list,
};

const struct command COMMAND_TAGS_GET = {
    .family = "tags",
    .name = "get",
    .operands = "TAG",
    .summary = "one tag",
    .run = run_get,
};

static const struct option_about PUT_OPTIONS[] = {
    {"max-id", 0, "N", "the next id; all below it are in use elsewhere"},
    {"step", 0, "N", "the smallest segment, 1 to 1000000000"},
    {"max-step", 0, "N", "the largest segment"},
    {"max", 0, "N", "ids stay below it; none: no bound"},
    {"mode", 0, "MODE", "trend, strict or monotonic"},
    {"description", 0, "TEXT", "up to 256 bytes"},
    {"shape", 0, "SHAPE", "of a new name: its ids are texts, such as 'INV-{id:6}{luhn}', for ever"},
    {"shape-key", 0, "N",
     "of a shape with {key}: the key of this number, the present or the next one"},
    {"wait-all", 0, NULL, "until all nodes have made the change"},
    {"force", 0, NULL, "a max_id that is lower, or much higher, than it was; sent once"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_TAGS_PUT = {
    .family = "tags",
    .name = "put",
    .operands = "TAG",
    .summary = "make a tag, or change it",
    .text = "What no option names stays as it is.",
    .options = PUT_OPTIONS,
    .run = run_put,
};

static const struct option_about DELETE_OPTIONS[] = {
    {"wait-all", 0, NULL, "until all nodes have made the change"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_TAGS_DELETE = {
    .family = "tags",
    .name = "delete",
    .operands = "TAG",
    .summary = "delete a tag; its ids never come again",
    .options = DELETE_OPTIONS,
    .run = run_delete,
};
