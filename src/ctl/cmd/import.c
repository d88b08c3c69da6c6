/*
 * import.c - `import leaf` and `import tinyid`: counters of others, taken over.
 *
 * Everything is checked before anything is sent: all rows, then all tags of the cluster. Rows of a
 * database are read again right before they are sent and once more after that: if a number has
 * moved, somebody still hands out ids there, and that would repeat them.
 *
 * The happy path of the tags: takeover_compare() reads the cluster's and marks what is there, what
 * is ahead, and what only force takes; takeover_send() sends the others, up to 10,000 in one call,
 * which does all or nothing; takeover_verify() reads back. It can be stopped at any time and run
 * again: a tag that is as the file has it is not sent, so what was sent before is not sent again,
 * unless it is in use by then; --skip-ahead leaves those alone.
 *
 * Invariant: nothing is sent for a tag whose max_id is higher in the cluster than in the file, and
 * what needs force is sent once. Failure modes: an exit code; each was told. Thread: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/limits.h"
#include "src/ctl/cmd/command.h"
#include "src/ctl/import/import.h"

/* --- tags of a file into the cluster --- */

enum takeover_state {
    TAKEOVER_NEW,    /* to be made */
    TAKEOVER_CHANGE, /* to be changed */
    TAKEOVER_THERE,  /* it is as it should be */
    TAKEOVER_AHEAD   /* further in the cluster than in the file: left alone */
};

struct takeover {
    struct ctl *ctl;
    const struct import_tags *tags;
    uint8_t *states;  /* of each tag */
    uint64_t *before; /* max_id in the cluster */
    uint64_t *after;  /* the same, when it was read back; 0: not there */
    size_t counts[4]; /* by state */
    size_t sent;
    bool skip_ahead;
    bool force;
};

#define CALL_BYTES (3 << 20)     /* of a body; leafd takes 8 MiB */
#define CALL_TIMEOUT_MS 60000    /* 10,000 tags, on a slow disk, or through an election */
#define DEFAULT_MAX_STEP 1000000 /* of a tag that is made without one */
#define TOLD 20                  /* tags of a kind that are named */

static void takeover_init(struct takeover *takeover, struct ctl *ctl,
                          const struct import_tags *tags)
{
    size_t count = tags->count + 1;

    *takeover = (struct takeover){.ctl = ctl,
                                  .tags = tags,
                                  .states = MUST_HAVE(calloc(count, sizeof *takeover->states)),
                                  .before = MUST_HAVE(calloc(count, sizeof *takeover->before)),
                                  .after = MUST_HAVE(calloc(count, sizeof *takeover->after))};
}

static void takeover_free(struct takeover *takeover)
{
    free(takeover->states);
    free(takeover->before);
    free(takeover->after);
}

/* --- the cluster's tags --- */

typedef void (*each_t)(struct takeover *takeover, size_t which, const json_t *tag);

/* Calls each() with all tags of the cluster that are in the file too. */
static enum ctl_exit takeover_read_cluster(struct takeover *takeover, each_t each)
{
    struct pages pages = {.ctl = takeover->ctl, .path = "/api/tags", .limit = LIMIT_TAGS_PER_PAGE};

    while (pages_next(&pages)) {
        for (size_t i = 0; i < field_count(pages.answer.json, "tags"); i++) {
            const json_t *tag = field_item(pages.answer.json, "tags", i);
            const char *name = field_text(tag, "tag");
            const struct import_tag *found =
                name != NULL ? tags_find(takeover->tags, name, strlen(name)) : NULL;

            if (found != NULL) {
                each(takeover, (size_t)(found - takeover->tags->list), tag);
            }
        }
    }
    return pages_end(&pages);
}

/* --- compare --- */

static bool takeover_has_text(const json_t *tag, const char *field, const char *text, size_t len)
{
    const char *there = field_text(tag, field);

    return there != NULL && strlen(there) == len && memcmp(there, text, len) == 0;
}

static void compare_tag(struct takeover *takeover, size_t which, const json_t *there)
{
    const struct import_tag *tag = &takeover->tags->list[which];
    uint64_t max_id = (uint64_t)field_number(there, "max_id", 0);
    bool same = max_id == tag->max_id && (uint64_t)field_number(there, "step", 0) == tag->step &&
                (!tag->has_description ||
                 takeover_has_text(there, "description", tag->description, tag->description_len));

    takeover->before[which] = max_id;
    takeover->states[which] = same                   ? TAKEOVER_THERE
                              : max_id > tag->max_id ? TAKEOVER_AHEAD
                                                     : TAKEOVER_CHANGE;
}

/* As leafd decides it (PUT /api/tags in docs/http-api.md). */
static bool takeover_needs_force(const struct takeover *takeover, size_t which)
{
    uint64_t max_id = takeover->tags->list[which].max_id;
    uint64_t before = takeover->states[which] == TAKEOVER_NEW ? 1 : takeover->before[which];

    return takeover->states[which] <= TAKEOVER_CHANGE &&
           ((max_id > before && max_id - before > LIMIT_MAX_ID_JUMP) ||
            TAG_MAX_ID - max_id < LIMIT_MAX_ID_LEFT);
}

static void tell_forced(const struct takeover *takeover, size_t which)
{
    const struct import_tag *tag = &takeover->tags->list[which];
    char place[ROW_PLACE_BYTES];

    ctl_progress("needs force: %s: tag '%.*s' would go on at %" PRIu64, row_place(tag->row, place),
                 (int)tag->name_len, tag->name, tag->max_id);
}

static void tell_ahead(const struct takeover *takeover, size_t which)
{
    const struct import_tag *tag = &takeover->tags->list[which];
    char place[ROW_PLACE_BYTES];

    ctl_progress(
        "%s: %s: tag '%.*s' is at %" PRIu64 " in the cluster, beyond %" PRIu64 " in the file",
        takeover->skip_ahead ? "left alone" : "would repeat ids", row_place(tag->row, place),
        (int)tag->name_len, tag->name, takeover->before[which], tag->max_id);
}

static enum ctl_exit takeover_compare(struct takeover *takeover)
{
    size_t forced = 0;
    size_t ahead = 0;
    enum ctl_exit code;

    memset(takeover->states, TAKEOVER_NEW, takeover->tags->count);
    code = takeover_read_cluster(takeover, compare_tag);
    if (code != CTL_DONE) {
        return code;
    }
    memset(takeover->counts, 0, sizeof takeover->counts);
    for (size_t i = 0; i < takeover->tags->count; i++) {
        takeover->counts[takeover->states[i]]++;
        if (takeover_needs_force(takeover, i) && !takeover->force && forced++ < TOLD) {
            tell_forced(takeover, i);
        }
        if (takeover->states[i] == TAKEOVER_AHEAD && ahead++ < TOLD) {
            tell_ahead(takeover, i);
        }
    }
    if (forced > 0) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags need force. Are these numbers "
                        "right? --force takes them; nobody may use these tags "
                        "meanwhile",
                        forced);
    }
    if (ahead > 0 && !takeover->skip_ahead) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags are further in the cluster. If "
                        "they are in use there already, --skip-ahead leaves them as "
                        "they are",
                        ahead);
    }
    return CTL_DONE;
}

/* --- send --- */

static void takeover_put_tag(struct buf *body, const struct import_tag *tag)
{
    buf_printf(body, "%s{\"tag\":", body->len > 1 ? "," : "");
    text_put_json(body, tag->name, tag->name_len);
    buf_printf(body, ",\"max_id\":\"%" PRIu64 "\",\"step\":%" PRIu64, tag->max_id, tag->step);
    if (tag->has_description) {
        buf_printf(body, ",\"description\":");
        text_put_json(body, tag->description, tag->description_len);
    }
    if (tag->step > DEFAULT_MAX_STEP) {
        buf_printf(body, ",\"max_step\":%" PRIu64, tag->step);
    }
    buf_put(body, "}", 1);
}

/* Of one call that failed: what is done, and what to do. */
static enum ctl_exit takeover_print_failure(const struct takeover *takeover, size_t group,
                                            enum ctl_exit code, struct answer *answer)
{
    bool unknown = code == CTL_UNKNOWN || answer->repeated;

    (void)ctl_failed(code, answer);
    if (unknown) {
        ctl_progress("%zu tags were imported; of the next %zu it is not known", takeover->sent,
                     group);
    } else if (takeover->sent > 0) {
        ctl_progress("%zu tags were imported, the others were not", takeover->sent);
    } else {
        ctl_progress("nothing was imported");
    }
    if (unknown || takeover->sent > 0) {
        ctl_progress("run it again to complete it; with --skip-ahead if tags are in use meanwhile");
    }
    return code;
}

static enum ctl_exit send_call(struct takeover *takeover, struct buf *body, size_t group,
                               bool force)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    buf_put(body, "]", 1);
    const struct ask ask = {.method = "POST",
                            .target = force ? "/api/tags?force=1" : "/api/tags",
                            .body = buf_text(body),
                            .timeout_ms = CALL_TIMEOUT_MS,
                            .once = force};

    code = cluster_ask(takeover->ctl->cluster, &ask, &answer);
    if (code != CTL_DONE) {
        return takeover_print_failure(takeover, group, code, &answer);
    }
    takeover->sent += group;
    ctl_progress("%zu of %zu tags sent", takeover->sent,
                 takeover->counts[TAKEOVER_NEW] + takeover->counts[TAKEOVER_CHANGE]);
    return CTL_DONE;
}

/* Those that need force, or those that do not. */
static enum ctl_exit send_kind(struct takeover *takeover, bool force)
{
    BUF_LOCAL(body);
    size_t group = 0;
    enum ctl_exit code = CTL_DONE;

    for (size_t i = 0; code == CTL_DONE && i < takeover->tags->count; i++) {
        if (takeover->states[i] > TAKEOVER_CHANGE || takeover_needs_force(takeover, i) != force) {
            continue;
        }
        if (group == 0) {
            body.len = 0;
            buf_put(&body, "[", 1);
        }
        takeover_put_tag(&body, &takeover->tags->list[i]);
        group++;
        if (group == LIMIT_TAGS_PER_BULK || body.len > CALL_BYTES) {
            code = send_call(takeover, &body, group, force);
            group = 0;
        }
    }
    if (code == CTL_DONE && group > 0) {
        code = send_call(takeover, &body, group, force);
    }
    return code;
}

static enum ctl_exit takeover_send(struct takeover *takeover)
{
    enum ctl_exit code = send_kind(takeover, false);

    return code == CTL_DONE ? send_kind(takeover, true) : code;
}

/* --- read back --- */

static void read_back(struct takeover *takeover, size_t which, const json_t *there)
{
    takeover->after[which] = (uint64_t)field_number(there, "max_id", 0) + 1;
}

static enum ctl_exit takeover_verify(struct takeover *takeover)
{
    size_t missing = 0;
    enum ctl_exit code = takeover_read_cluster(takeover, read_back);

    if (code != CTL_DONE) {
        ctl_progress("all was sent, but could not be read back");
        return code;
    }
    for (size_t i = 0; i < takeover->tags->count; i++) {
        const struct import_tag *tag = &takeover->tags->list[i];

        if (takeover->after[i] < tag->max_id + 1 && missing++ < TOLD) {
            ctl_progress("not as it was sent: tag '%.*s'%s", (int)tag->name_len, tag->name,
                         takeover->after[i] == 0 ? " is not there" : " has a lower max_id");
        }
    }
    return missing == 0 ? CTL_DONE
                        : ctl_fail(CTL_INTERNAL, "%zu tags are not as they were sent", missing);
}

/* --- the command --- */

#define SAMPLE 5
#define DATABASE_PORT 3306
#define DATABASE_TIMEOUT_S 30

/* What is taken over, while it is. */
struct importing {
    struct ctl *ctl;
    const struct source *source;
    const char *table;
    const char *from; /* what messages call it */
    struct buf data;  /* of a file */
    enum form form;
    struct rows rows;
    struct import_tags tags;
};

static bool is_database(const struct ctl *ctl)
{
    return ctl_has(ctl, "mysql") || ctl_has(ctl, "mysql-socket");
}

/* --- files --- */

static enum ctl_exit import_read_whole(const char *path, struct buf *out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;
    int seen = errno;

    while (fd >= 0 && got > 0 && out->len <= IMPORT_FILE_BYTES) {
        buf_reserve(out, 1 << 16);
        got = read(fd, out->data + out->len, out->capacity - out->len);
        seen = errno;
        out->len += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0 && !is_stdin) {
        (void)close(fd);
    }
    if (fd < 0 || got < 0) {
        return ctl_fail(CTL_DATA, "%s: %s", path, strerror(seen));
    }
    return out->len > IMPORT_FILE_BYTES ? ctl_fail(CTL_DATA, "%s has more than 1 GiB", path)
                                        : CTL_DONE;
}

static enum ctl_exit import_read_file(struct importing *importing)
{
    const char *named = ctl_option(importing->ctl, "format");
    BUF_LOCAL(why);
    enum ctl_exit code;

    importing->form = named != NULL ? form_of_name(named) : FORM_UNKNOWN;
    if (importing->form == FORMS) {
        return ctl_fail(CTL_USAGE,
                        "format: \"%s\" is none of sql, tsv, outfile, csv, csv-doubled, "
                        "csv-backslash, json",
                        named);
    }
    code = import_read_whole(importing->from, &importing->data);
    if (code == CTL_DONE &&
        file_read(importing->source, importing->table, buf_text(&importing->data),
                  importing->data.len, &importing->form, &importing->rows, &why) != 0) {
        code = ctl_fail(CTL_DATA, "%s: %s", importing->from, buf_text(&why));
    }
    return code;
}

/* --- databases --- */

/* The password: a file's first line, or a variable; never on the command line. */
static enum ctl_exit read_password(struct ctl *ctl, struct buf *out)
{
    const char *path = ctl_option(ctl, "mysql-password-file");
    const char *given = getenv("LEAFCTL_MYSQL_PASSWORD");
    enum ctl_exit code = CTL_DONE;

    if (path != NULL) {
        struct stat st;

        if (stat(path, &st) == 0 && (st.st_mode & 077) != 0) {
            return ctl_fail(CTL_USAGE, "%s: others may read a password in it; chmod 600 it", path);
        }
        code = import_read_whole(path, out) == CTL_DONE ? CTL_DONE : CTL_USAGE;
        out->len = out->len > 0 ? strcspn((char *)out->data, "\r\n") : 0;
    } else if (given != NULL) {
        buf_put(out, given, strlen(given));
    }
    buf_put(out, "", 1);
    return code;
}

static enum ctl_exit read_database(struct importing *importing, struct rows *rows)
{
    struct ctl *ctl = importing->ctl;
    const char *at = ctl_option(ctl, "mysql");
    struct database database = {.socket = ctl_option(ctl, "mysql-socket"),
                                .user = ctl_option(ctl, "mysql-user"),
                                .name = ctl_option(ctl, "mysql-database"),
                                .port = DATABASE_PORT,
                                .timeout_s = DATABASE_TIMEOUT_S};
    struct address address;
    BUF_LOCAL(password);
    BUF_LOCAL(why);
    enum ctl_exit code;

    if (at != NULL && (address_split(at, &address) != 0 || database.socket != NULL)) {
        return ctl_fail(CTL_USAGE, "mysql: \"%s\" is not HOST:PORT alone", at);
    }
    if (database.name == NULL) {
        return ctl_fail(CTL_USAGE, "--mysql-database is missing");
    }
    if (at != NULL) {
        database.host = address.host;
        database.port = (unsigned)strtoul(address.port, NULL, 10);
    }
    code = read_password(ctl, &password);
    database.password = password.len > 1 ? (char *)password.data : NULL;
    if (code == CTL_DONE &&
        database_read(&database, importing->source, importing->table, rows, &why) != 0) {
        code = ctl_fail(CTL_DATA, "%s: %s", importing->from, buf_text(&why));
    }
    explicit_bzero(password.data, password.capacity);
    return code;
}

/* Rows that were read again: has a number moved since? */
static size_t count_moved(const struct importing *importing, const struct import_tags *now)
{
    size_t moved = 0;

    for (size_t i = 0; i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];
        const struct import_tag *again = tags_find(now, tag->name, tag->name_len);

        if (again != NULL && again->max_id != tag->max_id && moved++ < SAMPLE) {
            ctl_progress("still in use: tag '%.*s' went on from %" PRIu64 " to %" PRIu64
                         " in the database",
                         (int)tag->name_len, tag->name, tag->max_id, again->max_id);
        }
    }
    return moved;
}

static enum ctl_exit check_still(struct importing *importing, const char *consequence)
{
    struct rows rows = {.count = 0};
    struct import_tags tags;
    size_t moved = 0;
    enum ctl_exit code;

    if (!is_database(importing->ctl)) {
        return CTL_DONE;
    }
    code = read_database(importing, &rows);
    if (code == CTL_DONE) {
        tags_check(importing->source, &rows, ctl_has(importing->ctl, "every-number"), &tags);
        moved = count_moved(importing, &tags);
        tags_free(&tags);
    }
    rows_free(&rows);
    return moved == 0 ? code
                      : ctl_fail(CTL_REFUSED,
                                 "%zu tags are still handed out by %s: stop its servers "
                                 "first. %s",
                                 moved, importing->source->what, consequence);
}

/* --- all of it --- */

static void tell_messages(const char *kind, const struct messages *messages)
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

/* Read and check everything; told. */
static enum ctl_exit import_prepare(struct importing *importing)
{
    struct ctl *ctl = importing->ctl;
    size_t errors;
    enum ctl_exit code =
        is_database(ctl) ? read_database(importing, &importing->rows) : import_read_file(importing);

    if (code != CTL_DONE) {
        return code;
    }
    tags_check(importing->source, &importing->rows, ctl_has(ctl, "every-number"), &importing->tags);
    if (importing->data.len > 0 &&
        file_may_be_cut_off((char *)importing->data.data, importing->data.len)) {
        messages_add(&importing->tags.warnings,
                     "the dump has no 'Dump completed' at its end: check "
                     "that no rows are missing");
    }
    errors = importing->rows.errors.count + importing->tags.errors.count;
    ctl_progress("%s: %s, %zu rows, %zu errors, %zu warnings", importing->from,
                 is_database(ctl) ? importing->table : form_name(importing->form),
                 importing->rows.count, errors, importing->tags.warnings.count);
    tell_messages("warning", &importing->tags.warnings);
    tell_messages("error", &importing->rows.errors);
    tell_messages("error", &importing->tags.errors);
    if (errors > 0 || importing->tags.count == 0) {
        return ctl_fail(CTL_DATA, "nothing was imported: %s",
                        errors > 0 ? "there are errors" : "there are no rows");
    }
    return CTL_DONE;
}

static void put_sample(struct importing *importing, const struct takeover *takeover)
{
    struct ctl *ctl = importing->ctl;
    size_t shown = 0;

    for (size_t i = 0; i < importing->tags.count && shown < SAMPLE; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if (takeover->states[i] <= TAKEOVER_CHANGE) {
            buf_printf(&ctl->out, "  %.*s: next id %" PRIu64 ", step %" PRIu64 "\n",
                       (int)tag->name_len, tag->name, tag->max_id, tag->step);
            shown++;
        }
    }
    if (takeover->counts[TAKEOVER_NEW] + takeover->counts[TAKEOVER_CHANGE] > shown) {
        buf_printf(&ctl->out, "  and %zu more\n",
                   takeover->counts[TAKEOVER_NEW] + takeover->counts[TAKEOVER_CHANGE] - shown);
    }
}

static void put_result(struct importing *importing, const struct takeover *takeover, bool dry)
{
    struct ctl *ctl = importing->ctl;
    const size_t *counts = takeover->counts;

    if (ctl->json) {
        buf_printf(&ctl->out,
                   "{\"sent\":%s,\"made\":%zu,\"changed\":%zu,\"there\":%zu,\"left_alone\":%zu}\n",
                   dry ? "false" : "true", counts[TAKEOVER_NEW], counts[TAKEOVER_CHANGE],
                   counts[TAKEOVER_THERE], counts[TAKEOVER_AHEAD]);
        return;
    }
    buf_printf(
        &ctl->out,
        dry ? "dry run: %zu tags to make, %zu to change, %zu are there, %zu left alone; nothing "
              "was sent\n"
            : "imported: %zu tags made, %zu changed, %zu were there, %zu left alone\n",
        counts[TAKEOVER_NEW], counts[TAKEOVER_CHANGE], counts[TAKEOVER_THERE],
        counts[TAKEOVER_AHEAD]);
    put_sample(importing, takeover);
}

static enum ctl_exit take_over(struct importing *importing)
{
    struct ctl *ctl = importing->ctl;
    bool dry = ctl_has(ctl, "dry-run");
    struct takeover takeover;
    enum ctl_exit code;

    takeover_init(&takeover, ctl, &importing->tags);
    takeover.skip_ahead = ctl_has(ctl, "skip-ahead");
    takeover.force = ctl_has(ctl, "force");
    code = takeover_compare(&takeover);
    if (code == CTL_UNREACHABLE && dry) {
        ctl_progress("the rows are good; no cluster was there to compare them with");
        takeover.counts[TAKEOVER_NEW] = importing->tags.count;
        code = CTL_DONE;
    } else if (code == CTL_DONE && !dry) {
        code = check_still(importing, "Nothing was imported.");
        code = code == CTL_DONE ? takeover_send(&takeover) : code;
        code = code == CTL_DONE ? takeover_verify(&takeover) : code;
        code = code == CTL_DONE
                   ? check_still(importing, "The tags were imported at their old numbers: stop the "
                                            "servers, import again, and let no client ask leafd "
                                            "before.")
                   : code;
    }
    if (code == CTL_DONE) {
        put_result(importing, &takeover, dry);
    }
    takeover_free(&takeover);
    return code;
}

/* The tags as lines of JSON, as POST /api/tags takes them. */
static enum ctl_exit import_print(struct importing *importing)
{
    for (size_t i = 0; i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];
        char max_id[24];
        json_t *json;

        (void)snprintf(max_id, sizeof max_id, "%" PRIu64, tag->max_id);
        json = MUST_HAVE(json_pack("{s:s%, s:s, s:I}", "tag", tag->name, tag->name_len, "max_id",
                                   max_id, "step", (json_int_t)tag->step));
        if (tag->has_description) {
            ASSERT(json_object_set_new(json, "description",
                                       json_stringn(tag->description, tag->description_len)) == 0);
        }
        ctl_put_json(importing->ctl, json);
        json_decref(json);
    }
    return CTL_DONE;
}

/* The order of the columns, as --columns has it: names between commas, put into list. False: it
 * lacks one that is needed, or has too many. */
static bool take_columns(struct source *source, char *list)
{
    const size_t most = COUNT_OF(source->order) - 1;
    struct columns columns = {.count = 0};
    size_t count = 0;
    char *rest = list;
    char *name;

    while ((name = strsep(&rest, ",")) != NULL && count < most) {
        source->order[count++] = name;
    }
    source->order[count] = NULL;
    source->has_order = true;
    columns_in_order(&columns, source);
    return name == NULL && columns_lack(source, &columns) == NULL;
}

static enum ctl_exit import_run(struct ctl *ctl, const struct source *known)
{
    const char *path = ctl->args.operands[0];
    const char *table = ctl_option(ctl, "table");
    const char *named = ctl_option(ctl, "columns");
    struct source ordered = *known;
    char *list;
    const struct source *source = &ordered;
    struct importing importing = {.ctl = ctl,
                                  .source = source,
                                  .table = table != NULL ? table : source->table,
                                  .from = path != NULL ? path : "database"};
    enum ctl_exit code;

    if ((path != NULL) == is_database(ctl)) {
        return ctl_fail(CTL_USAGE,
                        "name a FILE (- is standard input), or --mysql, or --mysql-socket");
    }
    if (importing.table[0] == '\0') {
        return ctl_fail(CTL_USAGE, "--table is empty: leave it out, or name the table");
    }
    list = named != NULL ? MUST_HAVE(strdup(named)) : NULL;
    code = list == NULL || take_columns(&ordered, list)
               ? import_prepare(&importing)
               : ctl_fail(CTL_USAGE, "columns: \"%s\" lacks a column that is needed", named);
    if (code == CTL_DONE) {
        code = ctl_has(ctl, "print") ? import_print(&importing) : take_over(&importing);
    }
    tags_free(&importing.tags);
    rows_free(&importing.rows);
    buf_free(&importing.data);
    free(list);
    return code;
}

enum ctl_exit run_import_leaf(struct ctl *ctl)
{
    return import_run(ctl, &SOURCE_LEAF);
}

enum ctl_exit run_import_tinyid(struct ctl *ctl)
{
    return import_run(ctl, &SOURCE_TINYID);
}
