/*
 * local.c - commands that write files on this machine: `backup` and `token new`.
 *
 * A backup is written to FILE.part beside FILE, which no other run may be writing to. Its checksums
 * are verified as by `leafd restore`; it is synced, and then renamed to FILE in one step. So FILE
 * is always a whole backup, the old one or the new one. Thread: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/auth/tokens.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/ctl/cmd/command.h"
#include "src/id/codec/backup_file.h"

#define PROGRESS_MS 1000
#define BACKUP_TRIES 3
#define STALL_S_MIN 15 /* without a byte */

/* --- backup --- */

/* A backup on its way. */
struct download {
    const char *path;
    char *part;
    int fd;
    uint64_t bytes;
    uint64_t printed_ms;
    enum ctl_exit code; /* not CTL_DONE: it cannot be kept, which was printed */
};

static bool backup_take(void *data, const void *bytes, size_t len)
{
    struct download *download = data;
    uint64_t now_ms = clock_now_ms(clock_system());
    char text[UNITS_BYTES];

    /* An endless body of a false server must not fill the disk. */
    if (!backup_begins(bytes, len, download->bytes)) {
        download->code = ctl_fail(CTL_DATA, "the answer is not a backup: it does not begin with "
                                            "\"leafd backup\"");
        return false;
    }
    if (len > LIMIT_BACKUP_FILE_BYTES - download->bytes) {
        download->code = ctl_fail(CTL_DATA, "the answer is not a backup: it has more than the 4 "
                                            "GiB of the largest backup");
        return false;
    }
    for (size_t at = 0; at < len;) {
        ssize_t written = write(download->fd, (const char *)bytes + at, len - at);

        if (written < 0 && errno != EINTR) {
            download->code = ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
            return false;
        }
        at += written > 0 ? (size_t)written : 0;
    }
    download->bytes += len;
    if (now_ms - download->printed_ms >= PROGRESS_MS) {
        download->printed_ms = now_ms;
        ctl_progress("%s so far", units_bytes(download->bytes, text));
    }
    return true;
}

/* All of it. A backup only reads the state, so an interrupted one is requested again from another
 * node, from the beginning. */
static enum ctl_exit backup_fetch(struct ctl *ctl, struct download *download)
{
    uint32_t timeout_ms = ctl->settings.timeout_ms;
    const struct ask ask = {
        .target = ctl_has(ctl, "local") ? "/api/backup?consistency=local" : "/api/backup",
        .take = backup_take,
        .data = download,
        .timeout_ms = timeout_ms > STALL_S_MIN * 1000 ? timeout_ms : STALL_S_MIN * 1000,
        .once = true};

    for (int try = 1;; try++) {
        ANSWER_LOCAL(answer);
        enum ctl_exit code;

        download->bytes = 0;
        download->printed_ms = clock_now_ms(clock_system());
        if (ftruncate(download->fd, 0) != 0 || lseek(download->fd, 0, SEEK_SET) != 0) {
            return ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
        }
        code = cluster_ask(ctl->cluster, &ask, &answer);
        if (download->code != CTL_DONE) {
            return download->code;
        }
        if (code != CTL_UNKNOWN || try == BACKUP_TRIES) {
            return code != CTL_DONE ? ctl_failed(code, &answer) : CTL_DONE;
        }
        ctl_progress("this one broke off; once more");
        ctl->cluster->last = (ctl->cluster->last + 1) % ctl->cluster->servers.count;
    }
}

/* The checks of `leafd restore`, over the bytes in the file. */
static enum ctl_exit backup_check(const char *path, int fd, struct backup_head *ret_head,
                                  struct backup_totals *ret_totals)
{
    struct backup_error error = {""};
    struct stat st;
    void *data;
    int err;

    if (fstat(fd, &st) != 0 || st.st_size <= 0 || (uint64_t)st.st_size > LIMIT_BACKUP_FILE_BYTES) {
        return ctl_fail(CTL_DATA, "%s has no size that a backup has", path);
    }
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return ctl_fail(CTL_OUTPUT, "%s cannot be read back: %m", path);
    }
    err = backup_verify(data, (size_t)st.st_size, ret_head, ret_totals, &error);
    (void)munmap(data, (size_t)st.st_size);
    return err == 0 ? CTL_DONE
                    : ctl_fail(CTL_DATA, "%s %s: %s", path,
                               err == ERR_BAD_VERSION ? "cannot be checked here" : "is damaged",
                               error.text);
}

static void backup_print_taken(struct ctl *ctl, const struct download *download,
                               const struct backup_head *head, const struct backup_totals *totals)
{
    /* JSON is of UTF-8, as a path may not be. */
    bool shown = !ctl->json || text_is_utf8(download->path, strlen(download->path));
    json_auto_t *json = NULL;
    BUF_LOCAL(id);

    clean_text(&id, head->cluster_id);
    json = MUST_HAVE(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:b}", "file",
                               shown && ctl->json ? download->path : "", "bytes",
                               (json_int_t)download->bytes, "rows", (json_int_t)totals->rows,
                               "index", (json_int_t)head->index, "term", (json_int_t)head->term,
                               "node_id", (json_int_t)head->node_id, "cluster_id", buf_text(&id),
                               "time", TEXT_TIME(head->wall_ms), "local", head->local));
    buf_printf(&ctl->out, "%s", ctl->json ? "" : download->path);
    if (shown) {
        ctl_put(ctl, json,
                ": {bytes:bytes}, verified and on the disk\n{rows:n} rows of cluster {cluster_id} "
                "at index {index:n} (term {term:n}), by node {node_id:n} at {time}\n");
    }
}

/* Open FILE.part where FILE may be replaced: a link, device or pipe would be gone, and what it
 * leads to would have no backup. */
static enum ctl_exit open_part(struct download *download)
{
    struct stat st;

    if (lstat(download->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return ctl_fail(CTL_OUTPUT, "%s is not a regular file, so a backup does not replace it",
                        download->path);
    }
    download->fd =
        open(download->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (download->fd < 0 || fstat(download->fd, &st) != 0) {
        return ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
    }
    if (!S_ISREG(st.st_mode)) {
        return ctl_fail(CTL_OUTPUT, "%s is not a regular file", download->part);
    }
    if (flock(download->fd, LOCK_EX | LOCK_NB) != 0) {
        return ctl_fail(CTL_OUTPUT, "%s is being written by another leafctl", download->part);
    }
    if (fchmod(download->fd, 0600) != 0) { /* a backup has keys of secret shapes */
        return ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
    }
    return CTL_DONE;
}

enum ctl_exit run_backup(struct ctl *ctl)
{
    struct download download = {.path = ctl->args.operands[0], .fd = -1};
    char *copy = MUST_HAVE(strdup(download.path)); /* which dirname() changes */
    int folder = -1;
    struct backup_head head;
    struct backup_totals totals;
    enum ctl_exit code;

    ASSERT(asprintf(&download.part, "%s.part", download.path) >= 0);
    code = open_part(&download);
    if (code == CTL_DONE) {
        code = backup_fetch(ctl, &download);
        code = code == CTL_DONE ? backup_check(download.part, download.fd, &head, &totals) : code;
        if (code == CTL_DONE &&
            (fsync(download.fd) != 0 || rename(download.part, download.path) != 0 ||
             (folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
             fsync(folder) != 0)) {
            code = ctl_fail(CTL_OUTPUT, "%s cannot be kept: %m", download.path);
        }
        if (code == CTL_DONE) {
            backup_print_taken(ctl, &download, &head, &totals);
        } else {
            (void)unlink(download.part);
        }
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    if (download.fd >= 0) {
        (void)close(download.fd);
    }
    free(download.part);
    free(copy);
    return code;
}

/* --- tokens --- */

/* Write it to a new file that no other user can read. */
static enum ctl_exit token_save(const char *path, const char *token)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good;

    if (fd < 0) {
        return ctl_fail(CTL_OUTPUT, "%s: %m", path);
    }
    good = dprintf(fd, "%s\n", token) == (int)strlen(token) + 1 && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    if (!good) {
        (void)ctl_fail(CTL_OUTPUT, "%s cannot be written: %m", path);
        (void)unlink(path);
        return CTL_OUTPUT;
    }
    return CTL_DONE;
}

/* Roles and names that are invalid in the file of tokens are refused as by leafd. */
enum ctl_exit run_token_new(struct ctl *ctl)
{
    const char *path = ctl_option(ctl, "out");
    const char *name = ctl_option(ctl, "name");
    const char *roles = ctl_option(ctl, "roles");
    const char *prefix = ctl_option(ctl, "prefix");
    const char *const given[] = {name, roles, prefix};
    char token[TOKEN_TEXT_BYTES];
    char made[TOKEN_LINE_BYTES]; /* a name, the proof, and more */
    char why[TOKENS_WHY_BYTES];
    struct token_table *table;
    char *proof;
    BUF_LOCAL(line);
    enum ctl_exit code = CTL_DONE;

    for (size_t i = 0; i < COUNT_OF(given); i++) {
        if (given[i] != NULL &&
            (*given[i] == '\0' || *given[i] == '#' || strpbrk(given[i], " \t\r\n") != NULL)) {
            return ctl_fail(CTL_USAGE,
                            "\"%s\" cannot stand in the line: it is empty, has a blank, "
                            "or begins a comment",
                            given[i]);
        }
    }
    if (token_new(token, made) != 0) {
        return ctl_fail(CTL_INTERNAL, "the system gives no random bytes");
    }
    proof = strchr(made, ' ');
    ASSERT(proof != NULL);
    *proof++ = '\0';
    buf_printf(&line, "%s %.*s roles=%s%s%s\n", name != NULL ? name : made,
               (int)strcspn(proof, " "), proof, roles != NULL ? roles : "ids",
               prefix != NULL ? " prefix=" : "", prefix != NULL ? prefix : "");
    if (tokens_parse((const char *)line.data, line.len, 0, &table, why) != 0) {
        code = ctl_fail(CTL_USAGE, "%s", why);
    } else {
        tokens_unref(table);
        code = path != NULL ? token_save(path, token) : CTL_DONE;
    }
    if (code == CTL_DONE && ctl->json) {
        json_auto_t *json =
            MUST_HAVE(json_pack("{s:s*, s:s%}", "token", path == NULL ? token : NULL, "line",
                                (const char *)line.data, line.len - 1));

        ctl_put_json(ctl, json);
    } else if (code == CTL_DONE) {
        buf_printf(&ctl->out, "%s%s", path == NULL ? token : "", path == NULL ? "\n" : "");
        buf_put(&ctl->out, line.data, line.len);
    }
    explicit_bzero(token, sizeof token);
    return code;
}
