/*
 * tags.c - `tags list|get|put|pause|resume|delete`. Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"

/* --- list --- */

/* What a tag has; in CSV only the first of them. */
static const char *const FIELDS[] = {"tag",    "max_id",  "step",      "max_step",   "max",
                                     "mode",   "created", "updated",   "generation", "description",
                                     "shape",  "key",     "increment", "offset",     "cover_s",
                                     "paused", "reason",  "changing",  "warning",    NULL};
#define CSV_FIELDS 11

/* One asking for all pages. */
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
    bool clean = isatty(STDOUT_FILENO); /* a file gets the texts as they are */

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

/* A page, with those of its tags that are wanted. */
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
        } else if (!ctl->json) { /* what the table shows in place of some fields */
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
    enum ctl_exit code = ctl_number_option(ctl, "limit", 1, INT64_MAX, &listing.left);

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

/* The target of the tag that the first operand names. */
static enum ctl_exit tag_target(struct ctl *ctl, struct buf *target)
{
    const char *name = ctl->args.operands[0];
    size_t len = strlen(name);

    if (len == 0 || len > LIMIT_TAG_NAME_BYTES) {
        return ctl_fail(CTL_USAGE, "a tag's name has 1 to %d bytes, not %zu", LIMIT_TAG_NAME_BYTES,
                        len);
    }
    target_put(target, "/api/tags/", name);
    return CTL_DONE;
}

static void tag_put(struct ctl *ctl, json_t *tag)
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

enum ctl_exit run_tags_get(struct ctl *ctl)
{
    BUF_LOCAL(target);
    enum ctl_exit code = tag_target(ctl, &target);

    return code == CTL_DONE ? ctl_show(ctl, buf_text(&target), tag_put) : code;
}

/* Send the fields, which are freed, and show the tag. */
static enum ctl_exit put_fields(struct ctl *ctl, struct buf *target, json_t *body, bool force)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    target_add(target, "wait", ctl_has(ctl, "wait-all") ? "all" : NULL);
    target_add(target, "force", force ? "1" : NULL);
    code = ctl_send(ctl, "PUT", target, body, force, &answer);
    json_decref(body);
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
        ctl_put(ctl, answer.json, tag_put);
    }
    return code;
}

/* Pause or resume a tag that is there: a name that is mistyped is not made. */
static enum ctl_exit put_paused(struct ctl *ctl, bool paused)
{
    const char *reason = paused ? ctl_option(ctl, "reason") : NULL;
    BUF_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code = tag_target(ctl, &target);

    if (code != CTL_DONE) {
        return code;
    }
    code = ctl_send(ctl, "GET", &target, NULL, false, &answer);
    if (code != CTL_DONE) {
        return ctl_failed(code, &answer);
    }
    return put_fields(ctl, &target,
                      MUST_HAVE(reason != NULL
                                    ? json_pack("{s:b, s:s}", "paused", paused, "reason", reason)
                                    : json_pack("{s:b}", "paused", paused)),
                      false);
}

enum ctl_exit run_tags_pause(struct ctl *ctl)
{
    return put_paused(ctl, true);
}

enum ctl_exit run_tags_resume(struct ctl *ctl)
{
    return put_paused(ctl, false);
}

enum ctl_exit run_tags_put(struct ctl *ctl)
{
    static const struct body_field fields[] = {{"max-id", "max_id", 0, INT64_MAX},
                                               {"step", "step", 0, INT64_MAX},
                                               {"max-step", "max_step", 0, INT64_MAX},
                                               {"max", "max", 0, INT64_MAX},
                                               {"shape-key", "key", 0, INT64_MAX},
                                               {"mode", "mode", 0, 0},
                                               {"increment", "increment", 0, INT64_MAX},
                                               {"offset", "offset", 0, INT64_MAX},
                                               {"cover-s", "cover_s", 0, INT64_MAX},
                                               {"description", "description", 0, 0},
                                               {"shape", "shape", 0, 0}};
    json_t *body = MUST_HAVE(json_object());
    BUF_LOCAL(target);
    enum ctl_exit code = tag_target(ctl, &target);

    for (size_t i = 0; i < COMMAND_OPTIONS_MAX; i++) {
        const char *value = ctl->args.values[i];

        if (value != NULL && strcmp(value, "none") == 0 &&
            strcmp(ctl->command->options[i].name, "max") == 0) {
            ctl->args.values[i] = "9223372036854775807";
        }
    }
    code = code == CTL_DONE ? ctl_add_fields(ctl, fields, COUNT_OF(fields), body) : code;
    if (code != CTL_DONE) {
        json_decref(body);
        return code;
    }
    return put_fields(ctl, &target, body, ctl_has(ctl, "force"));
}

enum ctl_exit run_tags_delete(struct ctl *ctl)
{
    BUF_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code = tag_target(ctl, &target);

    if (code != CTL_DONE) {
        return code;
    }
    target_add(&target, "wait", ctl_has(ctl, "wait-all") ? "all" : NULL);
    code = ctl_send(ctl, "DELETE", &target, NULL, false, &answer);
    /* An earlier try without an answer did it. */
    if (code != CTL_DONE && !(code == CTL_NOT_FOUND && answer.repeated)) {
        return ctl_failed(code, &answer);
    }
    if (!ctl->json) {
        buf_printf(&ctl->out, "deleted; made again it continues above its ids\n");
    }
    return CTL_DONE;
}
