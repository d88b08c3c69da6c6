/*
 * ids.c - `next` and `decode`. Ids of an answer that never came are skipped, so a request for ids
 * may be repeated. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <inttypes.h>
#include <string.h>

#include "src/ctl/cmd/command.h"
#include "src/ctl/out/text.h"
#include "src/id/codec/snowflake_layout.h"

#define NEXT_MAX 1000000000

/* Append the ids of a range, or the range. False: it is none, or has not so many. */
static bool ids_put_range(struct ctl *ctl, const json_t *range, bool as_range, uint64_t *left)
{
    int64_t first = field_number(range, "first", -1);
    int64_t last = field_number(range, "last", -1);

    if (first < 0 || last < first || (uint64_t)(last - first) >= *left) {
        return false;
    }
    *left -= (uint64_t)(last - first) + 1;
    if (as_range) {
        buf_printf(&ctl->out, "%" PRId64 " %" PRId64 "\n", first, last);
        return true;
    }
    for (uint64_t id = (uint64_t)first; id <= (uint64_t)last; id++) {
        buf_printf(&ctl->out, "%" PRIu64 "\n", id);
    }
    return true;
}

static enum ctl_exit fail_short(const struct answer *answer, uint64_t count)
{
    return ctl_fail(CTL_INTERNAL, "%s: the answer has not the %" PRIu64 " ids asked for",
                    answer->server, count);
}

static enum ctl_exit ids_put_ids(struct ctl *ctl, struct answer *answer, uint64_t count)
{
    bool as_range = ctl_option(ctl, "ranges") != NULL;
    size_t before = ctl->out.len;
    uint64_t left = count;

    if (ctl->json) {
        ctl_put_json(ctl, answer->json);
        return ctl_flush(ctl);
    }
    for (size_t i = 0; i < field_count(answer->json, "ranges"); i++) {
        if (!ids_put_range(ctl, field_item(answer->json, "ranges", i), as_range, &left)) {
            left = count;
            break;
        }
    }
    if (left != 0) {
        ctl->out.len = before;
        return fail_short(answer, count);
    }
    return ctl_flush(ctl);
}

/* The lines of a body: ids of a layout, which do not follow each other. */
static enum ctl_exit ids_put_lines(struct ctl *ctl, const struct answer *answer, uint64_t count)
{
    const char *body = (const char *)answer->body.data;
    uint64_t lines = 0;

    for (size_t i = 0; i < answer->body.len; i++) {
        bool ends = body[i] == '\n' && i > 0 && body[i - 1] != '\n';

        if (!ends && (body[i] < '0' || body[i] > '9')) {
            lines = 0;
            break;
        }
        lines += ends || i + 1 == answer->body.len;
    }
    if (lines != count) {
        return fail_short(answer, count);
    }
    buf_put(&ctl->out, body, answer->body.len);
    if (body[answer->body.len - 1] != '\n') {
        buf_put(&ctl->out, "\n", 1);
    }
    return ctl_flush(ctl);
}

static enum ctl_exit ask_ids(struct ctl *ctl, const char *path, uint64_t count, const char *key)
{
    uint64_t timeout_ms = ctl->settings.timeout_ms < LIMIT_TIMEOUT_MS / 2 ? ctl->settings.timeout_ms
                                                                          : LIMIT_TIMEOUT_MS / 2;
    const char *layout = ctl_option(ctl, "layout");
    TARGET_LOCAL(target);
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    target_init(&target, path, ctl->args.operands[0]);
    target_add_number(&target, "count", count);
    target_add(&target, "format", layout == NULL ? "json" : NULL);
    target_add(&target, "contiguous", ctl_option(ctl, "contiguous") != NULL ? "1" : NULL);
    target_add(&target, "as", ctl_option(ctl, "numbers") != NULL ? "number" : NULL);
    target_add(&target, "layout", layout);
    target_add_number(&target, "timeout_ms", timeout_ms > 500 ? timeout_ms - 500 : timeout_ms);
    const struct ask ask = {.target = target_text(&target), .key = key};
    code = cluster_ask(ctl->cluster, &ask, &answer);
    if (code == CTL_NOT_FOUND) {
        ctl_progress(layout != NULL ? "those that there are: leafctl layouts"
                                    : "make it: leafctl tags put TAG");
    }
    code = code != CTL_DONE ? ctl_failed(code, &answer)
           : layout == NULL ? ctl_must_be_object(&answer)
                            : CTL_DONE;
    if (code == CTL_DONE) {
        code =
            layout == NULL ? ids_put_ids(ctl, &answer, count) : ids_put_lines(ctl, &answer, count);
    }
    return code;
}

static enum ctl_exit run_next(struct ctl *ctl)
{
    bool has_layout = ctl_option(ctl, "layout") != NULL;
    const char *path = has_layout || ctl_option(ctl, "snowflake") != NULL ? "/api/snowflake/get/"
                                                                          : "/api/segment/get/";
    const char *key = ctl_option(ctl, "idempotency-key");
    bool whole = key != NULL || ctl_option(ctl, "contiguous") != NULL;
    uint64_t wanted = 1;
    enum ctl_exit code =
        ctl_number("count", ctl_option(ctl, "count"), 1, whole ? LIMIT_COUNT : NEXT_MAX, &wanted);

    if (ctl->args.operands[0][0] == '\0') {
        return ctl_fail(CTL_USAGE, "a tag's name is not empty");
    }
    if (has_layout && (ctl->json || ctl_option(ctl, "ranges") != NULL)) {
        return ctl_fail(CTL_USAGE, "layout: its ids come one a line, without ranges and json");
    }
    for (const char *c = key; code == CTL_DONE && c != NULL && *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            return ctl_fail(CTL_USAGE, "idempotency-key: only ASCII without control characters");
        }
    }
    for (uint64_t had = 0; code == CTL_DONE && had < wanted;) {
        uint64_t count = wanted - had < LIMIT_COUNT ? wanted - had : LIMIT_COUNT;

        code = ask_ids(ctl, path, count, key);
        had += code == CTL_DONE ? count : 0;
        if (code != CTL_DONE && had > 0) {
            ctl_progress("%" PRIu64 " of %" PRIu64 " ids were printed", had, wanted);
        }
    }
    return code;
}

static void put_parts(struct ctl *ctl, const json_t *json)
{
    buf_printf(&ctl->out, "time      ");
    clean_text(&ctl->out, field_text(json, "time"));
    buf_printf(&ctl->out, " (%" PRId64 " ms)\nworker id %" PRId64 "\nsequence  %" PRId64 "\n",
               field_number(json, "timestamp_ms", 0), field_number(json, "worker_id", 0),
               field_number(json, "sequence", 0));
}

static enum ctl_exit run_decode(struct ctl *ctl)
{
    const char *text = ctl->args.operands[0];
    enum ctl_exit code = CTL_DONE;
    struct snowflake_parts parts;
    TARGET_LOCAL(target);
    enum id_form form;
    uint64_t id = 0;

    if (!long_id_read(text, strlen(text), &form, &parts)) {
        code = ctl_number("ID", text, 0, INT64_MAX, &id);
    }
    if (code == CTL_DONE) {
        target_init(&target, "/api/snowflake/decode/", text);
        target_add(&target, "layout", ctl_option(ctl, "layout"));
        code = ctl_show(ctl, target_text(&target), put_parts);
    }
    return code;
}

static const struct option_about NEXT_OPTIONS[] = {
    {"count", 'n', "N",
     "how many, 1 to 1000000000 (default 1); more than 100000 take more requests"},
    {"ranges", 0, NULL, "as lines FIRST LAST"},
    {"contiguous", 0, NULL, "all in one range, or none"},
    {"idempotency-key", 0, "KEY", "for a strict tag: the same key gives the same ids"},
    {"snowflake", 0, NULL, "snowflake ids; TAG is the key"},
    {"layout", 0, "NAME", "snowflake ids of this layout, one a line"},
    {"numbers", 0, NULL, "needed for a tag with a shape: its ids as numbers"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_NEXT = {
    .family = "next",
    .operands = "TAG",
    .summary = "take ids, one a line",
    .text = "A request without an answer is asked again, at another node too: the ids of the first "
            "one are skipped, and none is printed twice.",
    .options = NEXT_OPTIONS,
    .run = run_next,
};

static const struct option_about DECODE_OPTIONS[] = {
    {"layout", 0, "NAME", "by this layout, and not the cluster's own"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_DECODE = {
    .family = "decode",
    .operands = "ID",
    .summary = "take a snowflake id, also a UUID or ULID, apart: time, worker id, sequence",
    .options = DECODE_OPTIONS,
    .run = run_decode,
};
