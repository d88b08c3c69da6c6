/*
 * import.c - `import leaf` and `import tinyid`: counters of others, taken over.
 *
 * Everything is checked before anything is sent: all rows, then all tags of the cluster. Rows of a
 * database are read again right before they are sent and once more after that: if a number has
 * moved, a server still hands out ids there, and that would repeat them.
 *
 * The happy path of the tags: import_compare() reads the cluster's and marks what is there, what
 * is ahead, and what only force takes; import_send() sends the others, up to 10,000 in one call,
 * which does all or nothing; import_verify() reads back. It can be stopped at any time and run
 * again: a tag that is as the file has it is not sent, so what was sent before is not sent again,
 * unless it is in use by then; --skip-ahead leaves those alone.
 *
 * Invariant: nothing is sent for a tag whose max_id is higher in the cluster than in the file, and
 * what needs force is sent once. Failure modes: an exit code; each is printed. Thread: one.
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

#define CALL_BYTES (3 << 20)     /* of a body; leafd takes 8 MiB */
#define CALL_TIMEOUT_MS 60000    /* 10,000 tags, on a slow disk, or through an election */
#define DEFAULT_MAX_STEP 1000000 /* of a tag that is made without one */
#define TOLD 20                  /* tags of a kind that are named */
#define SAMPLE 5
#define DATABASE_PORT 3306
#define DATABASE_TIMEOUT_S 30

/* What is taken over, while it is. */
struct importing {
    struct ctl *ctl;
    const struct source *source;
    const char *table;
    const char *from; /* what messages call it */
    bool is_database;
    struct buf data; /* of a file */
    enum form form;
    struct rows rows;
    struct import_tags tags;
    size_t counts[IMPORT_STATES]; /* of tags, by state */
    size_t sent;
};

/* --- reading: files and databases --- */

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

/* The password: a file's first line, or a variable; never on the command line. */
static enum ctl_exit import_read_password(struct ctl *ctl, struct buf *out)
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

static enum ctl_exit import_read_database(struct importing *importing, struct rows *rows)
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
    code = import_read_password(ctl, &password);
    database.password = password.len > 1 ? (char *)password.data : NULL;
    if (code == CTL_DONE &&
        database_read(&database, importing->source, importing->table, rows, &why) != 0) {
        code = ctl_fail(CTL_DATA, "%s: %s", importing->from, buf_text(&why));
    }
    explicit_bzero(password.data, password.capacity);
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

/* Read and check everything; what is wrong is printed. */
static enum ctl_exit import_prepare(struct importing *importing)
{
    struct ctl *ctl = importing->ctl;
    size_t errors;
    enum ctl_exit code = importing->is_database ? import_read_database(importing, &importing->rows)
                                                : import_read_file(importing);

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
                 importing->is_database ? importing->table : form_name(importing->form),
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

/* Read a database again: has a number moved since? */
static enum ctl_exit import_check_still(struct importing *importing, const char *consequence)
{
    struct rows rows = {.count = 0};
    struct import_tags now = {.count = 0};
    size_t moved = 0;
    enum ctl_exit code = importing->is_database ? import_read_database(importing, &rows) : CTL_DONE;

    if (code == CTL_DONE) {
        tags_check(importing->source, &rows, ctl_has(importing->ctl, "every-number"), &now);
    }
    for (size_t i = 0; i < now.count; i++) {
        const struct import_tag *again = &now.list[i];
        const struct import_tag *tag = tags_find(&importing->tags, again->name, again->name_len);

        if (tag != NULL && again->max_id != tag->max_id && moved++ < SAMPLE) {
            ctl_progress("still in use: tag '%.*s' continued from %" PRIu64 " to %" PRIu64
                         " in the database",
                         (int)tag->name_len, tag->name, tag->max_id, again->max_id);
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

/* --- comparing with the cluster --- */

/* Calls each() with all tags of the cluster that are in the file too. */
static enum ctl_exit import_read_cluster(struct importing *importing,
                                         void (*each)(struct import_tag *tag, const json_t *there))
{
    struct pages pages = {.ctl = importing->ctl, .path = "/api/tags", .limit = LIMIT_TAGS_PER_PAGE};

    while (pages_next(&pages)) {
        for (size_t i = 0; i < field_count(pages.answer.json, "tags"); i++) {
            const json_t *there = field_item(pages.answer.json, "tags", i);
            const char *name = field_text(there, "tag");
            struct import_tag *tag =
                name != NULL ? tags_find(&importing->tags, name, strlen(name)) : NULL;

            if (tag != NULL) {
                each(tag, there);
            }
        }
    }
    return pages_end(&pages);
}

static void tag_set_state(struct import_tag *tag, const json_t *there)
{
    const char *text = field_text(there, "description");
    bool same_text =
        !tag->has_description || (text != NULL && strlen(text) == tag->description_len &&
                                  memcmp(text, tag->description, tag->description_len) == 0);

    tag->before = (uint64_t)field_number(there, "max_id", 0);
    tag->state = tag->before > tag->max_id ? IMPORT_AHEAD
                 : tag->before == tag->max_id && same_text &&
                         (uint64_t)field_number(there, "step", 0) == tag->step
                     ? IMPORT_THERE
                     : IMPORT_CHANGE;
}

/* As leafd decides it (PUT /api/tags in docs/http-api.md). */
static bool tag_needs_force(const struct import_tag *tag)
{
    uint64_t before = tag->state == IMPORT_NEW ? 1 : tag->before;

    return tag->state <= IMPORT_CHANGE &&
           ((tag->max_id > before && tag->max_id - before > LIMIT_MAX_ID_JUMP) ||
            TAG_MAX_ID - tag->max_id < LIMIT_MAX_ID_LEFT);
}

static enum ctl_exit import_compare(struct importing *importing)
{
    bool skip_ahead = ctl_has(importing->ctl, "skip-ahead");
    bool force = ctl_has(importing->ctl, "force");
    size_t forced = 0;
    enum ctl_exit code = import_read_cluster(importing, tag_set_state);

    for (size_t i = 0; code == CTL_DONE && i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];
        char place[ROW_PLACE_BYTES];

        importing->counts[tag->state]++;
        if (tag_needs_force(tag) && !force && forced++ < TOLD) {
            ctl_progress("needs force: %s: tag '%.*s' would continue at %" PRIu64,
                         row_place(tag->row, place), (int)tag->name_len, tag->name, tag->max_id);
        }
        if (tag->state == IMPORT_AHEAD && importing->counts[IMPORT_AHEAD] <= TOLD) {
            ctl_progress("%s: %s: tag '%.*s' is at %" PRIu64 " in the cluster, beyond %" PRIu64
                         " in the file",
                         skip_ahead ? "left alone" : "would repeat ids", row_place(tag->row, place),
                         (int)tag->name_len, tag->name, tag->before, tag->max_id);
        }
    }
    if (forced > 0) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags need force. Are these numbers "
                        "right? --force takes them; nobody may use these tags "
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

/* A tag as POST /api/tags takes it. */
static json_t *tag_json(const struct import_tag *tag)
{
    char max_id[24];
    json_t *json;

    (void)snprintf(max_id, sizeof max_id, "%" PRIu64, tag->max_id);
    json = MUST_HAVE(json_pack("{s:s%, s:s, s:I}", "tag", tag->name, tag->name_len, "max_id",
                               max_id, "step", (json_int_t)tag->step));
    if (tag->has_description) {
        ASSERT(json_object_set_new(json, "description",
                                   json_stringn(tag->description, tag->description_len)) == 0);
    }
    return json;
}

/* Of one call that failed: what is done, and what to do. */
static enum ctl_exit import_send_failed(const struct importing *importing, size_t group,
                                        enum ctl_exit code, struct answer *answer)
{
    bool unknown = code == CTL_UNKNOWN || answer->repeated;

    (void)ctl_failed(code, answer);
    if (unknown) {
        ctl_progress("%zu tags were imported; of the next %zu it is not known", importing->sent,
                     group);
    } else if (importing->sent > 0) {
        ctl_progress("%zu tags were imported, the others were not", importing->sent);
    } else {
        ctl_progress("nothing was imported");
    }
    if (unknown || importing->sent > 0) {
        ctl_progress("run it again to complete it; with --skip-ahead if tags are in use meanwhile");
    }
    return code;
}

static enum ctl_exit import_send_call(struct importing *importing, struct buf *body, size_t group,
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

    code = cluster_ask(importing->ctl->cluster, &ask, &answer);
    if (code != CTL_DONE) {
        return import_send_failed(importing, group, code, &answer);
    }
    importing->sent += group;
    ctl_progress("%zu of %zu tags sent", importing->sent,
                 importing->counts[IMPORT_NEW] + importing->counts[IMPORT_CHANGE]);
    return CTL_DONE;
}

/* Those that need force, or those that do not. */
static enum ctl_exit import_send(struct importing *importing, bool force)
{
    BUF_LOCAL(body);
    size_t group = 0;
    enum ctl_exit code = CTL_DONE;

    for (size_t i = 0; code == CTL_DONE && i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];
        json_t *json;
        char *text;

        if (tag->state > IMPORT_CHANGE || tag_needs_force(tag) != force) {
            continue;
        }
        json = tag_json(tag);
        if (tag->step > DEFAULT_MAX_STEP) {
            ASSERT(json_object_set_new(json, "max_step", json_integer((json_int_t)tag->step)) == 0);
        }
        text = MUST_HAVE(json_dumps(json, JSON_COMPACT));
        json_decref(json);
        body.len = group == 0 ? 0 : body.len;
        buf_printf(&body, "%s%s", group == 0 ? "[" : ",", text);
        free(text);
        group++;
        if (group == LIMIT_TAGS_PER_BULK || body.len > CALL_BYTES) {
            code = import_send_call(importing, &body, group, force);
            group = 0;
        }
    }
    return code == CTL_DONE && group > 0 ? import_send_call(importing, &body, group, force) : code;
}

static void tag_read_back(struct import_tag *tag, const json_t *there)
{
    tag->after = (uint64_t)field_number(there, "max_id", 0) + 1;
}

static enum ctl_exit import_verify(struct importing *importing)
{
    size_t missing = 0;
    enum ctl_exit code = import_read_cluster(importing, tag_read_back);

    if (code != CTL_DONE) {
        ctl_progress("all was sent, but could not be read back");
        return code;
    }
    for (size_t i = 0; i < importing->tags.count; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if (tag->after < tag->max_id + 1 && missing++ < TOLD) {
            ctl_progress("not as it was sent: tag '%.*s'%s", (int)tag->name_len, tag->name,
                         tag->after == 0 ? " is not there" : " has a lower max_id");
        }
    }
    return missing == 0 ? CTL_DONE
                        : ctl_fail(CTL_INTERNAL, "%zu tags are not as they were sent", missing);
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
    for (size_t i = 0, shown = 0; i < importing->tags.count && shown < SAMPLE; i++) {
        const struct import_tag *tag = &importing->tags.list[i];

        if (tag->state <= IMPORT_CHANGE) {
            buf_printf(&ctl->out, "  %.*s: next id %" PRIu64 ", step %" PRIu64 "\n",
                       (int)tag->name_len, tag->name, tag->max_id, tag->step);
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
    enum ctl_exit code = import_compare(importing);

    if (code == CTL_UNREACHABLE && dry) {
        ctl_progress("the rows are good; no cluster was there to compare them with");
        importing->counts[IMPORT_NEW] = importing->tags.count;
        code = CTL_DONE;
    } else if (code == CTL_DONE && !dry) {
        code = import_check_still(importing, "Nothing was imported.");
        code = code == CTL_DONE ? import_send(importing, false) : code;
        code = code == CTL_DONE ? import_send(importing, true) : code;
        code = code == CTL_DONE ? import_verify(importing) : code;
        code = code == CTL_DONE
                   ? import_check_still(importing,
                                        "The tags were imported at their old numbers: stop the "
                                        "servers, import again, and let no client ask leafd "
                                        "before.")
                   : code;
    }
    if (code == CTL_DONE) {
        import_put_result(importing, dry);
    }
    return code;
}

/* The order of the columns, as --columns has it: names between commas, put into list. False: it
 * lacks one that is needed, or has too many. */
static bool import_take_columns(struct source *source, char *list)
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

enum ctl_exit run_import(struct ctl *ctl)
{
    const char *path = ctl->args.operands[0];
    const char *table = ctl_option(ctl, "table");
    const char *named = ctl_option(ctl, "columns");
    struct source source = strcmp(ctl->command->name, "leaf") == 0 ? SOURCE_LEAF : SOURCE_TINYID;
    char *list;
    struct importing importing = {.ctl = ctl,
                                  .source = &source,
                                  .table = table != NULL ? table : source.table,
                                  .from = path != NULL ? path : "database",
                                  .is_database =
                                      ctl_has(ctl, "mysql") || ctl_has(ctl, "mysql-socket")};
    enum ctl_exit code;

    if ((path != NULL) == importing.is_database) {
        return ctl_fail(CTL_USAGE,
                        "name a FILE (- is standard input), or --mysql, or --mysql-socket");
    }
    if (importing.table[0] == '\0') {
        return ctl_fail(CTL_USAGE, "--table is empty: leave it out, or name the table");
    }
    list = named != NULL ? MUST_HAVE(strdup(named)) : NULL;
    code = list == NULL || import_take_columns(&source, list)
               ? import_prepare(&importing)
               : ctl_fail(CTL_USAGE, "columns: \"%s\" lacks a column that is needed", named);
    if (code == CTL_DONE && !ctl_has(ctl, "print")) {
        code = import_take_over(&importing);
    } else if (code == CTL_DONE) {
        for (size_t i = 0; i < importing.tags.count; i++) {
            json_t *json = tag_json(&importing.tags.list[i]);

            ctl_put_json(ctl, json);
            json_decref(json);
        }
    }
    tags_free(&importing.tags);
    rows_free(&importing.rows);
    buf_free(&importing.data);
    free(list);
    return code;
}
