/*
 * import.c - `import ...`: take over counters of other systems.
 *
 * One pipeline: a source (a file, or a queried database) gives rows; the rows are checked and
 * become tags; a plan is made by comparing them with the cluster's tags (--dry-run prints it); the
 * plan is sent. Everything is checked before anything is sent.
 *
 * The old system either is stopped, or keeps running. Stopped: its rows must be unchanged for a
 * minute, are read again before they are sent and once more after that, and each tag continues at
 * its row. Running (--ahead): each tag begins far above its row, and a guard keeps the old system
 * below.
 *
 * The happy path of the tags: import_compare() reads the cluster's tags and marks those that are
 * equal, that are ahead, or that need force. import_send() sends the others, up to 10,000 in one
 * call, which does all or nothing. import_verify() reads them back. A run can be stopped at any
 * time and repeated: a tag that is as planned is not sent. So a tag sent before is not sent again,
 * unless it is in use by then; --skip-ahead skips those. With --ahead the guard's marks record
 * where each tag begins, so a second run makes the same plan.
 *
 * Invariants: nothing is sent for a tag whose max_id is higher in the cluster than in the plan; a
 * change that needs force is sent once; with a guard, a tag's mark is below its first id, and in
 * force before the tag is sent. Failure modes: an exit code; each failure is printed. Thread: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/limits.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/import/import.h"

#define CALL_BYTES (3 << 20)     /* of a body; leafd takes 8 MiB */
#define CALL_TIMEOUT_MS 60000    /* 10,000 tags, on a slow disk, or through an election */
#define DEFAULT_MAX_STEP 1000000 /* of a tag made without one */
#define TOLD 20                  /* named tags of a kind */
#define SAMPLE 5
#define QUIET_S 60  /* a row that was changed since then may still be in use */
#define SETTLE_S 10 /* between two looks at a database, by default */

/* An import in progress. */
struct importing {
    struct ctl *ctl;
    const struct source *source;
    const char *table;
    const char *from; /* what messages call it */
    bool is_live;     /* a queried database, not a file */
    struct database database;
    struct buf data; /* of a file */
    int64_t made_s;  /* the file's time, as Unix time */
    enum form form;
    struct rows rows;
    struct import_rules rules;
    uint64_t settle_s;
    struct import_tags tags;
    size_t counts[IMPORT_STATES]; /* of tags, by state */
    size_t sent;
};

/* --- reading: files and databases --- */

/* The bytes of the file, and the rows in them. */
static enum ctl_exit import_read_file(struct importing *importing, struct rows *rows)
{
    const char *named = ctl_option(importing->ctl, "format");
    const char *path = importing->from;
    struct buf *out = &importing->data;
    bool is_stdin = strcmp(path, "-") == 0;
    struct stat about;
    ssize_t got = 1;
    int fd;
    int seen;
    BUF_LOCAL(why);

    importing->form = named != NULL ? FORM_SQL : FORM_UNKNOWN;
    while (named != NULL && importing->form < FORMS &&
           strcmp(FORM_NAMES[importing->form], named) != 0) {
        importing->form++;
    }
    if (importing->form == FORMS) {
        return ctl_fail(CTL_USAGE,
                        "format: \"%s\" is none of sql, tsv, outfile, csv, csv-doubled, "
                        "csv-backslash, json",
                        named);
    }
    fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    seen = errno;
    while (fd >= 0 && got > 0 && out->len <= IMPORT_FILE_BYTES) {
        buf_reserve(out, 1 << 16);
        got = read(fd, out->data + out->len, out->capacity - out->len);
        seen = errno;
        out->len += got > 0 ? (size_t)got : 0;
    }
    importing->made_s = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)
                            ? (int64_t)about.st_mtime
                            : (int64_t)time(NULL);
    if (fd >= 0 && !is_stdin) {
        (void)close(fd);
    }
    if (fd < 0 || got < 0) {
        return ctl_fail(CTL_DATA, "%s: %s", path, strerror(seen));
    }
    if (out->len > IMPORT_FILE_BYTES) {
        return ctl_fail(CTL_DATA, "%s has more than 1 GiB", path);
    }
    return file_read(importing->source, importing->table, buf_text(out), out->len, &importing->form,
                     rows, &why) == 0
               ? CTL_DONE
               : ctl_fail(CTL_DATA, "%s: %s", path, buf_text(&why));
}

/* Read the rows, and check them; the caller frees both. A database is read again and again. */
static enum ctl_exit import_read(struct importing *importing, struct rows *rows,
                                 struct import_tags *tags)
{
    enum ctl_exit code = CTL_DONE;
    BUF_LOCAL(why);

    if (!importing->is_live) {
        code = import_read_file(importing, rows);
    } else if (database_read(&importing->database, rows, &why) != 0) {
        code = ctl_fail(CTL_DATA, "%s: %s: %s; nothing was imported", importing->from,
                        importing->table, buf_text(&why));
    }
    if (code == CTL_DONE) {
        tags_check(importing->source, rows, &importing->rules, tags);
    }
    return code;
}

static void import_print_messages(const char *kind, const struct messages *messages)
{
    const char *text = (const char *)messages->texts.data;

    for (size_t i = 0; i < messages->kept; i++) {
        ctl_progress("%s: %s", kind, text);
        text += strlen(text) + 1;
    }
    if (messages->count > messages->kept) {
        ctl_progress("%s: and %zu more", kind, messages->count - messages->kept);
    }
}

/* Read and check everything; errors are printed. */
static enum ctl_exit import_prepare(struct importing *importing)
{
    size_t errors;
    enum ctl_exit code = import_read(importing, &importing->rows, &importing->tags);

    if (code != CTL_DONE) {
        return code;
    }
    if (importing->data.len > 0 &&
        file_may_be_cut_off((char *)importing->data.data, importing->data.len)) {
        messages_add(&importing->tags.warnings,
                     "the dump has no 'Dump completed' at its end: check "
                     "that no rows are missing");
    }
    errors = importing->rows.errors.count + importing->tags.errors.count;
    ctl_progress("%s: %s, %zu rows, %zu errors, %zu warnings", importing->from,
                 importing->is_live ? importing->table : FORM_NAMES[importing->form],
                 importing->rows.count, errors, importing->tags.warnings.count);
    import_print_messages("warning", &importing->tags.warnings);
    import_print_messages("error", &importing->rows.errors);
    import_print_messages("error", &importing->tags.errors);
    if (errors > 0 || importing->tags.count == 0) {
        return ctl_fail(CTL_DATA, "nothing was imported: %s",
                        errors > 0 ? "there are errors" : "there are no rows");
    }
    return CTL_DONE;
}

/* --- does the old system still run? --- */

/* Read a database again: has a number moved since? */
static enum ctl_exit import_check_still(struct importing *importing, const char *consequence)
{
    struct rows rows = {.count = 0};
    struct import_tags now = {.count = 0};
    size_t moved = 0;
    enum ctl_exit code = importing->is_live ? import_read(importing, &rows, &now) : CTL_DONE;

    for (size_t i = 0; i < now.count; i++) {
        const struct import_tag *again = &now.list[i];
        const struct import_tag *tag = tags_find(&importing->tags, again->name);

        if (tag != NULL && again->at != tag->at && moved++ < SAMPLE) {
            ctl_progress("still in use: tag '%s' continued from %" PRIu64 " to %" PRIu64
                         " in the database",
                         tag->name, tag->at, again->at);
        }
    }
    tags_free(&now);
    rows_free(&rows);
    return moved == 0 ? code
                      : ctl_fail(CTL_REFUSED,
                                 "%zu tags are still handed out by %s: stop its servers "
                                 "first. %s",
                                 moved, importing->source->what, consequence);
}

/* A database: no row may be younger than a minute, and a second read must be equal. */
static enum ctl_exit import_check_quiet(struct importing *importing, const char *consequence)
{
    size_t young = 0;

    for (size_t i = 0; i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if (tag->age_s >= 0 && tag->age_s < QUIET_S && young++ < SAMPLE) {
            ctl_progress("still in use: tag '%s' came to %" PRIu64 " %" PRId64
                         " seconds ago in the database",
                         tag->name, tag->at, tag->age_s);
        }
    }
    if (young > 0) {
        return ctl_fail(CTL_REFUSED,
                        "%zu tags changed in the last minute: stop the servers of %s and wait a "
                        "minute, or let them run on with --ahead. %s",
                        young, importing->source->what, consequence);
    }
    ctl_progress("a second look in %" PRIu64 " seconds", importing->settle_s);
    (void)poll(NULL, 0, (int)importing->settle_s * 1000);
    return import_check_still(importing, consequence);
}

/* A file: check what it shows of the old system. */
static enum ctl_exit import_check_file(struct importing *importing)
{
    int64_t quiet_s = file_quiet_s(&importing->rows, buf_text(&importing->data),
                                   importing->data.len, importing->made_s);

    if (ctl_has(importing->ctl, "stopped")) {
        return CTL_DONE;
    }
    if (quiet_s >= 0 && quiet_s < QUIET_S) {
        return ctl_fail(CTL_REFUSED,
                        "%s: a row has changed %" PRId64 " seconds before the file was made (or "
                        "that and whole quarters of hours, if its clock has another zone): %s may "
                        "have run, and its later ids would come twice. Nothing was imported. Stop "
                        "its servers and make the file again; if they were stopped, say --stopped",
                        importing->from, quiet_s, importing->source->what);
    }
    ctl_progress("%s: a file cannot show whether %s still runs: what it hands out after the file "
                 "was made would come twice",
                 importing->from, importing->source->what);
    return CTL_DONE;
}

/* --- comparing with the cluster --- */

/* Read what the cluster has of each tag of the rows. */
static enum ctl_exit import_read_cluster(struct importing *importing)
{
    struct pages pages = {.ctl = importing->ctl, .path = "/api/tags", .limit = LIMIT_TAGS_PER_PAGE};

    for (size_t i = 0; i < importing->tags.count; i++) {
        importing->tags.list[i].is_there = importing->tags.list[i].is_dated = false;
        importing->tags.list[i].most = TAG_MAX_ID;
    }
    while (pages_next(&pages)) {
        for (size_t i = 0; i < field_count(pages.answer.json, "tags"); i++) {
            const json_t *there = field_item(pages.answer.json, "tags", i);
            const char *name = field_text(there, "tag");
            const char *shape = field_text(there, "shape");
            struct import_tag *tag = name != NULL ? tags_find(&importing->tags, name) : NULL;

            if (tag == NULL) {
                continue;
            }
            tag->is_there = true;
            tag->is_dated = strstr(shape != NULL ? shape : "", "{year") != NULL;
            tag->before = (uint64_t)field_number(there, "max_id", 0);
            tag->most = (uint64_t)field_number(there, "max", (int64_t)TAG_MAX_ID);
            tag->is_same =
                (tag->description == NULL ||
                 json_equal(tag->description, json_object_get(there, "description"))) &&
                (tag->step == 0 || (uint64_t)field_number(there, "step", 0) == tag->step) &&
                (uint64_t)field_number(there, "increment", 0) == tag->increment;
        }
    }
    return pages_end(&pages);
}

/* With --ahead a tag that began at its mark, or at least is above the old system, stays
 * unchanged. */
static enum import_state import_state_of(const struct importing *importing,
                                         const struct import_tag *tag)
{
    if (!tag->is_there) {
        return IMPORT_NEW;
    }
    if (importing->rules.is_ahead) {
        return tag->before >= tag->max_id || (tag->mark == 0 && tag->before > tag->at)
                   ? IMPORT_THERE
                   : IMPORT_CHANGE;
    }
    return tag->before > tag->max_id                    ? IMPORT_AHEAD
           : tag->before == tag->max_id && tag->is_same ? IMPORT_THERE
                                                        : IMPORT_CHANGE;
}

/* As leafd decides (PUT /api/tags in docs/http-api.md). */
static bool tag_needs_force(const struct import_tag *tag)
{
    uint64_t before = tag->state == IMPORT_NEW ? 1 : tag->before;

    return tag->state <= IMPORT_CHANGE &&
           ((tag->max_id > before && tag->max_id - before > LIMIT_MAX_ID_JUMP) ||
            (tag->max_id <= tag->most && tag->most - tag->max_id < LIMIT_MAX_ID_LEFT) ||
            (tag->is_dated && tag->max_id > before));
}

static enum ctl_exit import_compare(struct importing *importing)
{
    bool skip_ahead = ctl_has(importing->ctl, "skip-ahead");
    bool force = ctl_has(importing->ctl, "force");
    size_t forced = 0;
    enum ctl_exit code = import_read_cluster(importing);

    for (size_t i = 0; code == CTL_DONE && i < importing->tags.count; i++) {
        struct import_tag *tag = &importing->tags.list[i];

        tag->state = import_state_of(importing, tag);
        importing->counts[tag->state]++;
        if (tag_needs_force(tag) && !force && forced++ < TOLD) {
            ctl_progress("needs force: %s: tag '%s' would continue at %" PRIu64,
                         ROW_PLACE(tag->row), tag->name, tag->max_id);
        }
        if (tag->state == IMPORT_AHEAD && importing->counts[IMPORT_AHEAD] <= TOLD) {
            ctl_progress("%s: %s: tag '%s' is at %" PRIu64 " in the cluster, beyond %" PRIu64
                         " here",
                         skip_ahead ? "left alone" : "would repeat ids", ROW_PLACE(tag->row),
                         tag->name, tag->before, tag->max_id);
        }
    }
    if (forced > 0) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags need force. Are these numbers "
                        "right? --force takes them; no client may use these tags "
                        "meanwhile",
                        forced);
    }
    if (importing->counts[IMPORT_AHEAD] > 0 && !skip_ahead) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags are further in the cluster. If "
                        "they are in use there already, --skip-ahead leaves them as "
                        "they are",
                        importing->counts[IMPORT_AHEAD]);
    }
    return code;
}

/* --- sending --- */

/* A number as JSON; 0: none. */
static json_t *json_unless_0(uint64_t number)
{
    return number != 0 ? json_integer((json_int_t)number) : NULL;
}

/* A tag as POST /api/tags accepts it. max_step 0: leafd decides. */
static json_t *tag_json(const struct import_tag *tag, uint64_t max_step)
{
    char max_id[24];

    (void)snprintf(max_id, sizeof max_id, "%" PRIu64, tag->max_id);
    return MUST_HAVE(
        json_pack("{s:s, s:s, s:o*, s:o*, s:o*, s:O*, s:o*}", "tag", tag->name, "max_id", max_id,
                  "step", json_unless_0(tag->step), "increment", json_unless_0(tag->increment),
                  "offset", tag->increment != 0 ? json_integer((json_int_t)tag->offset) : NULL,
                  "description", tag->description, "max_step", json_unless_0(max_step)));
}

/* Send this body of a group of tags. After a failure the state is printed, and the remedy. */
static enum ctl_exit import_send_call(struct importing *importing, const char *body, size_t group,
                                      bool force)
{
    const struct ask ask = {.method = "POST",
                            .target = force ? "/api/tags?force=1" : "/api/tags",
                            .body = body,
                            .timeout_ms = CALL_TIMEOUT_MS,
                            .once = force};
    ANSWER_LOCAL(answer);
    enum ctl_exit code = cluster_ask(importing->ctl->cluster, &ask, &answer);
    bool unknown;

    if (code == CTL_DONE) {
        importing->sent += group;
        ctl_progress("%zu of %zu tags sent", importing->sent,
                     importing->counts[IMPORT_NEW] + importing->counts[IMPORT_CHANGE]);
        return CTL_DONE;
    }
    unknown = code == CTL_UNKNOWN || answer.repeated;
    if (strcmp(answer.code, "would_repeat") == 0) {
        ctl_progress("a tag that was deleted keeps its max_id: 'leafctl tags put TAG' makes it "
                     "again, above all its ids; then run this again");
    }
    (void)ctl_failed(code, &answer);
    ctl_progress(unknown               ? "%zu tags were imported; of the next %zu it is not known"
                 : importing->sent > 0 ? "%zu tags were imported, the others were not"
                                       : "nothing was imported",
                 importing->sent, group);
    if (unknown || importing->sent > 0) {
        ctl_progress("run it again to complete it; with --skip-ahead if tags are in use meanwhile");
    }
    return code;
}

/* Send the tags that need force, or those that do not. */
static enum ctl_exit import_send(struct importing *importing, bool force)
{
    BUF_LOCAL(body);
    size_t group = 0;
    enum ctl_exit code = CTL_DONE;

    for (size_t i = 0; code == CTL_DONE && i <= importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];
        bool is_end = i == importing->tags.count;

        if (!is_end && tag->state <= IMPORT_CHANGE && tag_needs_force(tag) == force) {
            json_auto_t *json = tag_json(tag, tag->step > DEFAULT_MAX_STEP ? tag->step : 0);
            char *text = MUST_HAVE(json_dumps(json, JSON_COMPACT));

            buf_printf(&body, "%s%s", group++ == 0 ? "[" : ",", text);
            free(text);
        }
        if (group == LIMIT_TAGS_PER_BULK || body.len > CALL_BYTES || (is_end && group > 0)) {
            buf_put(&body, "]", 1);
            code = import_send_call(importing, buf_text(&body), group, force);
            body.len = 0;
            group = 0;
        }
    }
    return code;
}

static enum ctl_exit import_verify(struct importing *importing)
{
    size_t missing = 0;
    enum ctl_exit code = import_read_cluster(importing);

    if (code != CTL_DONE) {
        ctl_progress("all was sent, but could not be read back");
        return code;
    }
    for (size_t i = 0; i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if ((!tag->is_there || (tag->state <= IMPORT_CHANGE && tag->before < tag->max_id)) &&
            missing++ < TOLD) {
            ctl_progress("not as it was sent: tag '%s'%s", tag->name,
                         tag->is_there ? " has a lower max_id" : " is not there");
        }
    }
    return missing == 0 ? CTL_DONE
                        : ctl_fail(CTL_INTERNAL, "%zu tags are not as they were sent", missing);
}

/* --- the guard --- */

/* Is the guard in force for all tags, below the first id of each? */
static enum ctl_exit import_check_guard(struct importing *importing)
{
    const struct database *database = &importing->database;
    struct rows rows = {.count = 0};
    struct import_tags now = {.count = 0};
    size_t open = 0;
    enum ctl_exit code = import_read(importing, &rows, &now);

    import_print_messages("error", &now.errors);
    open = now.errors.count;
    for (size_t i = 0; code == CTL_DONE && i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];
        const struct import_tag *again = tags_find(&now, tag->name);

        if (again != NULL && (again->mark == 0 || again->mark >= tag->max_id) && open++ < SAMPLE) {
            ctl_progress("tag '%s' would begin at %" PRIu64 ", but its mark is %" PRIu64, tag->name,
                         tag->max_id, again->mark);
        }
    }
    if (database->engine == ENGINE_MYSQL &&
        !(database->has_trigger[0] && database->has_trigger[1])) {
        open++;
        ctl_progress("%s has not both triggers", importing->table);
    }
    tags_free(&now);
    rows_free(&rows);
    return open == 0 ? code
                     : ctl_fail(CTL_REFUSED, "the guard does not hold; nothing was imported. Run "
                                             "it again");
}

/* Statements for the user to run, or to see. */
static void import_put_statements(struct ctl *ctl, const struct buf *text)
{
    if (!ctl->json || text->len == 0) {
        buf_put(&ctl->out, text->data, text->len);
    } else {
        json_auto_t *json = json_pack("{s:s%}", "guard", (char *)text->data, text->len);

        ctl_put_json(ctl, MUST_HAVE(json));
    }
}

/* Install the guard, or print it, before a tag is sent. */
static enum ctl_exit import_guard(struct importing *importing)
{
    struct ctl *ctl = importing->ctl;
    bool can = database_can_guard(&importing->database);
    size_t unmarked = 0;
    enum ctl_exit code;
    BUF_LOCAL(text);
    BUF_LOCAL(out);
    BUF_LOCAL(why);

    for (size_t i = 0; i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if (tag->state == IMPORT_THERE && tag->mark == 0 && unmarked++ < SAMPLE) {
            ctl_progress("no mark: tag '%s' is at %" PRIu64 " in the cluster already, %" PRIu64
                         " above %s, and nobody knows where it began",
                         tag->name, tag->before, tag->before - tag->at, importing->source->what);
        }
    }
    if (!can) {
        ctl_progress("no guard is known for this: see yourself that %s does not come to leafd's "
                     "first ids",
                     importing->source->what);
        return CTL_DONE;
    }
    database_put_guard(&importing->database, &importing->tags, false, &text);
    if (!ctl_has(ctl, "guard") && text.len > 0) {
        ctl_progress("no guard: %s can come to leafd's first ids. --guard installs what is printed "
                     "here, or run it yourself",
                     importing->source->what);
        import_put_statements(ctl, &text);
        return ctl_flush(ctl);
    }
    if (unmarked > 0 && ctl_has(ctl, "guard")) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags have no mark. Find the first id that leafd "
                        "gave of each, and insert the id below it into the guard's table",
                        unmarked);
    }
    if (text.len > 0 && database_do(&importing->database, &text, &out, &why) != 0) {
        return ctl_fail(CTL_DATA, "%s: no guard: %s; nothing was imported", importing->from,
                        buf_text(&why));
    }
    code = ctl_has(ctl, "guard") ? import_check_guard(importing) : CTL_DONE;
    if (code == CTL_DONE && text.len > 0) {
        ctl_progress("the guard of %s is installed", importing->table);
    }
    return code;
}

/* --finish: has the old system stopped, and is all of it imported? */
static enum ctl_exit import_finish(struct importing *importing)
{
    struct ctl *ctl = importing->ctl;
    size_t missing = 0;
    int64_t youngest_s = -1;
    enum ctl_exit code = import_read_cluster(importing);
    BUF_LOCAL(text);
    BUF_LOCAL(out);
    BUF_LOCAL(why);

    for (size_t i = 0; code == CTL_DONE && i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        youngest_s = youngest_s < 0 || (tag->age_s >= 0 && tag->age_s < youngest_s) ? tag->age_s
                                                                                    : youngest_s;
        if (import_state_of(importing, tag) != IMPORT_THERE && missing++ < TOLD) {
            ctl_progress("tag '%s' is not in the cluster above %" PRIu64, tag->name,
                         tag->max_id - 1);
        }
    }
    if (missing > 0) {
        return ctl_fail(CTL_REFUSED, "%zu tags are not taken over: run it with --ahead again",
                        missing);
    }
    code = code == CTL_DONE ? import_check_quiet(importing, "The guard has to stay.") : code;
    if (code != CTL_DONE) {
        return code;
    }
    database_put_guard(&importing->database, &importing->tags, true, &text);
    if (ctl_has(ctl, "remove-guard") && text.len > 0 &&
        database_do(&importing->database, &text, &out, &why) != 0) {
        return ctl_fail(CTL_DATA, "%s: the guard stays: %s", importing->from, buf_text(&why));
    }
    buf_printf(&ctl->out, "%s is quiet: %zu tags", importing->source->what, importing->tags.count);
    if (youngest_s >= 0) {
        buf_printf(&ctl->out, ", the last change %" PRId64 " seconds ago", youngest_s);
    }
    buf_printf(&ctl->out, "\n%s",
               ctl_has(ctl, "remove-guard")
                   ? "the guard is removed\n"
                   : "if its servers are stopped, the guard may go: --remove-guard\n");
    return CTL_DONE;
}

/* --- the command --- */

static void import_put_result(struct importing *importing, bool dry)
{
    struct ctl *ctl = importing->ctl;
    const size_t *counts = importing->counts;
    size_t left = counts[IMPORT_NEW] + counts[IMPORT_CHANGE];

    if (ctl->json) {
        buf_printf(&ctl->out,
                   "{\"sent\":%s,\"made\":%zu,\"changed\":%zu,\"there\":%zu,\"left_alone\":%zu}\n",
                   dry ? "false" : "true", counts[IMPORT_NEW], counts[IMPORT_CHANGE],
                   counts[IMPORT_THERE], counts[IMPORT_AHEAD]);
        return;
    }
    buf_printf(
        &ctl->out,
        dry ? "dry run: %zu tags to make, %zu to change, %zu are there, %zu left alone; nothing "
              "was sent\n"
            : "imported: %zu tags made, %zu changed, %zu were there, %zu left alone\n",
        counts[IMPORT_NEW], counts[IMPORT_CHANGE], counts[IMPORT_THERE], counts[IMPORT_AHEAD]);
    for (size_t i = 0, shown = 0; i < importing->tags.count && (dry || shown < SAMPLE); i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if (tag->state <= IMPORT_CHANGE) {
            buf_printf(&ctl->out, "  %s: next id %" PRIu64, tag->name, tag->max_id);
            if (tag->step != 0) {
                buf_printf(&ctl->out, ", step %" PRIu64, tag->step);
            }
            buf_printf(&ctl->out, importing->rules.is_ahead ? ", %s is at %" PRIu64 "\n" : "\n",
                       importing->source->what, tag->at);
            shown++;
            left--;
        }
    }
    if (left > 0) {
        buf_printf(&ctl->out, "  and %zu more\n", left);
    }
}

static enum ctl_exit import_take_over(struct importing *importing)
{
    bool dry = ctl_has(importing->ctl, "dry-run");
    bool is_ahead = importing->rules.is_ahead;
    enum ctl_exit code = import_compare(importing);

    if (code == CTL_UNREACHABLE && dry) {
        ctl_progress("the rows are good; no cluster was there to compare them with");
        importing->counts[IMPORT_NEW] = importing->tags.count;
        code = CTL_DONE;
    } else if (code == CTL_DONE && !dry) {
        code = is_ahead             ? import_guard(importing)
               : importing->is_live ? import_check_quiet(importing, "Nothing was imported.")
                                    : import_check_file(importing);
        code = code == CTL_DONE ? import_send(importing, false) : code;
        code = code == CTL_DONE ? import_send(importing, true) : code;
        code = code == CTL_DONE ? import_verify(importing) : code;
        code = code == CTL_DONE && !is_ahead
                   ? import_check_still(importing,
                                        "The tags were imported at their old numbers: stop the "
                                        "servers, import again, and let no client ask leafd "
                                        "before.")
                   : code;
    }
    if (code == CTL_DONE) {
        import_put_result(importing, dry);
    }
    if (code == CTL_DONE && dry && is_ahead) {
        BUF_LOCAL(text);

        database_put_guard(&importing->database, &importing->tags, false, &text);
        import_put_statements(importing->ctl, &text);
    }
    return code;
}

/* The source of the rows: a file, or one database. */
static enum ctl_exit import_take_source(struct importing *importing, struct source *source)
{
    static const char *const engines[ENGINES] = {"mysql", "postgres", "redis"};
    struct ctl *ctl = importing->ctl;
    struct database *database = &importing->database;
    const char *path = ctl->args.operands[0];
    const char *table = ctl_option(ctl, "table");
    size_t given = path != NULL;

    *database = (struct database){.source = source,
                                  .table = table != NULL              ? table
                                           : source->table[0] != '\0' ? source->table
                                                                      : NULL,
                                  .query = ctl_option(ctl, "query"),
                                  .pattern = ctl_option(ctl, "pattern")};
    for (size_t i = 0; i < ENGINES; i++) {
        const char *address = ctl_option(ctl, engines[i]);

        if (address != NULL) {
            database->engine = (enum engine)i;
            database->address = importing->from = address;
            importing->is_live = true;
            given++;
        }
    }
    if (given != 1) {
        return ctl_fail(CTL_USAGE, "name %s",
                        strcmp(ctl->command->name, "sql") == 0
                            ? "one of --mysql, --postgres and --redis"
                            : "a FILE (- is standard input), or --mysql");
    }
    if (importing->is_live && database->engine == ENGINE_REDIS) {
        *source = SOURCE_REDIS;
        importing->rules.every_number = true; /* SCAN may have a key twice */
    }
    if ((database->pattern != NULL) != (importing->is_live && database->engine == ENGINE_REDIS)) {
        return ctl_fail(CTL_USAGE, "--redis needs --pattern, and only that takes it");
    }
    if (table != NULL && (table[0] == '\0' || !text_is_utf8(table, strlen(table)) ||
                          database->query != NULL || database->pattern != NULL)) {
        return ctl_fail(CTL_USAGE, "--table is empty or not UTF-8: leave it out, or name the "
                                   "table; --query and --redis take none");
    }
    importing->from = importing->is_live ? importing->from : path;
    importing->table = database->query != NULL     ? "query"
                       : database->pattern != NULL ? database->pattern
                       : database->table != NULL   ? database->table
                                                   : "all that count";
    return CTL_DONE;
}

/* The rules set by the other options. */
static enum ctl_exit import_take_rules(struct importing *importing, struct source *source)
{
    struct ctl *ctl = importing->ctl;
    const char *ahead = ctl_option(ctl, "ahead");
    bool finish = ctl_has(ctl, "finish");
    const char *settle = ctl_option(ctl, "settle");
    const char *named = ctl_option(ctl, "columns");
    struct columns order;
    enum ctl_exit code = ctl_number("settle", settle, 0, 3600, &importing->settle_s);

    importing->rules.is_ahead = ahead != NULL || finish;
    importing->rules.every_number |= ctl_has(ctl, "every-number");
    importing->rules.increment = ctl_has(ctl, "keep-increment");
    if (code == CTL_DONE && ahead != NULL && strcmp(ahead, "auto") != 0) {
        code = ctl_number("ahead (or auto)", ahead, 1, INT64_MAX, &importing->rules.ahead_ids);
    }
    if (code != CTL_DONE) {
        return code;
    }
    if ((ahead != NULL || finish || settle != NULL) && !importing->is_live) {
        return ctl_fail(CTL_USAGE, "--ahead, --finish and --settle need a database that is asked, "
                                   "not a file: a file does not show what was handed out since");
    }
    if ((ctl_has(ctl, "guard") && ahead == NULL) || (ahead != NULL && finish) ||
        (ctl_has(ctl, "remove-guard") && !finish)) {
        return ctl_fail(CTL_USAGE, "--guard goes with --ahead, --remove-guard with --finish, and "
                                   "--ahead not with --finish");
    }
    if (ctl_has(ctl, "guard") && !database_can_guard(&importing->database)) {
        return ctl_fail(CTL_USAGE, "--guard: only a table of Leaf, TinyID or CosId, and sequences "
                                   "of PostgreSQL have one");
    }
    source->has_order = named != NULL;
    source->order = named != NULL ? named : source->order;
    columns_in_order(&order, source);
    return named == NULL || (!order.too_many && columns_lack(source, &order) == NULL)
               ? CTL_DONE
               : ctl_fail(CTL_USAGE, "columns: \"%s\" lacks a column that is needed", named);
}

enum ctl_exit run_import(struct ctl *ctl)
{
    struct source source = *ctl->command->source;
    struct importing importing = {.ctl = ctl, .source = &source, .settle_s = SETTLE_S};
    enum ctl_exit code;

    code = import_take_source(&importing, &source);
    code = code == CTL_DONE ? import_take_rules(&importing, &source) : code;
    code = code == CTL_DONE ? import_prepare(&importing) : code;
    if (code == CTL_DONE && ctl_has(ctl, "print")) {
        for (size_t i = 0; i < importing.tags.count; i++) {
            json_auto_t *json = tag_json(&importing.tags.list[i], 0);

            ctl_put_json(ctl, json);
        }
    } else if (code == CTL_DONE) {
        code = ctl_has(ctl, "finish") ? import_finish(&importing) : import_take_over(&importing);
    }
    tags_free(&importing.tags);
    rows_free(&importing.rows);
    buf_free(&importing.data);
    return code;
}
