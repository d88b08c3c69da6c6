/*
 * backup.c - `backup FILE`: the whole state of the cluster as a file, verified before it counts.
 *
 * The file comes into FILE.part beside it, which no other run may be writing to; its checksums are
 * verified as `leafd restore` would; it is synced, and then takes the place of FILE, in one step.
 * So FILE is always a whole backup, the old one or the new one.
 * Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/ctl/out/text.h"
#include "src/id/codec/backup_file.h"

#define PROGRESS_MS 1000
#define TRIES 3
#define STALL_S_MIN 15 /* without a byte */

/* A backup on its way. */
struct download {
    const char *path;
    char *part;
    int fd;
    uint64_t bytes;
    uint64_t told_ms;
    int error;         /* errno of a write that failed; 0: none */
    const char *wrong; /* what no backup has; NULL: nothing was seen yet */
};

/* What a server that lies sends without end is not written until the disk is full. */
static bool may_be_backup(struct download *download, const void *bytes, size_t len)
{
    if (!backup_begins(bytes, len, download->bytes)) {
        download->wrong = "does not begin with \"leafd backup\"";
    } else if (len > LIMIT_BACKUP_FILE_BYTES - download->bytes) {
        download->wrong = "has more than the 4 GiB of the largest backup";
    }
    return download->wrong == NULL;
}

static bool backup_take(void *data, const void *bytes, size_t len)
{
    struct download *download = data;
    uint64_t now_ms = clock_now_ms(clock_system());
    char text[UNITS_BYTES];

    if (!may_be_backup(download, bytes, len)) {
        return false;
    }
    for (size_t at = 0; at < len;) {
        ssize_t written = write(download->fd, (const char *)bytes + at, len - at);

        if (written < 0 && errno != EINTR) {
            download->error = errno;
            return false;
        }
        at += written > 0 ? (size_t)written : 0;
    }
    download->bytes += len;
    if (now_ms - download->told_ms >= PROGRESS_MS) {
        download->told_ms = now_ms;
        ctl_progress("%s so far", units_bytes(download->bytes, text));
    }
    return true;
}

static enum ctl_exit open_part(struct download *download)
{
    download->fd = open(download->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (download->fd < 0) {
        return ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
    }
    if (flock(download->fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(download->fd);
        download->fd = -1;
        return ctl_fail(CTL_OUTPUT, "%s is being written by another leafctl", download->part);
    }
    /* One that was there may be for all to read; a backup has keys of secret shapes. */
    return fchmod(download->fd, 0600) == 0 ? CTL_DONE
                                           : ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
}

/* One try, from the beginning. */
static enum ctl_exit fetch(struct ctl *ctl, struct download *download, struct answer *ret)
{
    const struct exchange_sink sink = {.take = backup_take, .data = download};
    uint32_t timeout_ms = ctl->settings.timeout_ms;
    const struct ask ask = {
        .target =
            ctl_option(ctl, "local") != NULL ? "/api/backup?consistency=local" : "/api/backup",
        .sink = &sink,
        .timeout_ms = timeout_ms > STALL_S_MIN * 1000 ? timeout_ms : STALL_S_MIN * 1000,
        .once = true};
    enum ctl_exit code;

    download->bytes = 0;
    download->told_ms = clock_now_ms(clock_system());
    if (ftruncate(download->fd, 0) != 0 || lseek(download->fd, 0, SEEK_SET) != 0) {
        *ret = (struct answer){.code = ""};
        return ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
    }
    code = cluster_ask(ctl->cluster, &ask, ret);
    if (download->error != 0) {
        errno = download->error;
        return ctl_fail(CTL_OUTPUT, "%s: %m", download->part);
    }
    if (download->wrong != NULL) {
        return ctl_fail(CTL_DATA, "what comes is no backup: it %s", download->wrong);
    }
    return code;
}

/* A backup only looks at the state, so it may be asked for again, at another node. */
static enum ctl_exit fetch_again(struct ctl *ctl, struct download *download)
{
    enum ctl_exit code = CTL_UNKNOWN;

    for (int try = 1; try <= TRIES && code == CTL_UNKNOWN; try++) {
        ANSWER_LOCAL(answer);

        code = fetch(ctl, download, &answer);
        if (code == CTL_DONE || code == CTL_OUTPUT || code == CTL_DATA) {
            return code;
        }
        if (code == CTL_UNKNOWN && try < TRIES) {
            ctl_progress("this one broke off; once more");
            cluster_next(ctl->cluster);
            continue;
        }
        return ctl_failed(code, &answer);
    }
    return code;
}

/* The checks of `leafd restore`, over the bytes that are on their way to the disk. */
static enum ctl_exit verify(const char *path, int fd, struct backup_head *ret_head,
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
    return err == 0 ? CTL_DONE : ctl_fail(CTL_DATA, "%s is damaged: %s", path, error.text);
}

/* Into its place, for good. */
static enum ctl_exit backup_keep(const struct download *download)
{
    char *copy = MUST_HAVE(strdup(download->path));
    int folder = -1;
    bool good = fsync(download->fd) == 0 && rename(download->part, download->path) == 0;

    if (good) {
        folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        good = folder >= 0 && fsync(folder) == 0;
    }
    if (!good) {
        (void)ctl_fail(CTL_OUTPUT, "%s cannot be kept: %m", download->path);
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    free(copy);
    return good ? CTL_DONE : CTL_OUTPUT;
}

static void backup_print_taken(struct ctl *ctl, const struct download *download,
                               const struct backup_head *head, const struct backup_totals *totals)
{
    char bytes[UNITS_BYTES];
    char time[TEXT_TIME_BYTES];

    (void)text_time_rfc3339(head->wall_ms, time);
    if (ctl->json) {
        json_t *json =
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:b}", "file", download->path,
                      "bytes", (json_int_t)download->bytes, "rows", (json_int_t)totals->rows,
                      "index", (json_int_t)head->index, "term", (json_int_t)head->term, "node_id",
                      (json_int_t)head->node_id, "cluster_id", head->cluster_id, "time", time,
                      "local", head->local);

        if (json != NULL) {
            ctl_put_json(ctl, json);
            json_decref(json);
        }
        return;
    }
    buf_printf(&ctl->out,
               "%s: %s, verified and on the disk\n%" PRIu64 " rows of cluster %s at index %" PRIu64
               " (term %" PRIu64 "), by node %" PRIu64 " at %s\n",
               download->path, units_bytes(download->bytes, bytes), totals->rows, head->cluster_id,
               head->index, head->term, head->node_id, time);
}

static enum ctl_exit backup_run(struct ctl *ctl)
{
    struct download download = {.path = ctl->args.operands[0], .fd = -1};
    struct backup_head head;
    struct backup_totals totals;
    enum ctl_exit code;

    ASSERT(asprintf(&download.part, "%s.part", download.path) >= 0);
    code = open_part(&download);
    if (code == CTL_DONE) {
        code = fetch_again(ctl, &download);
        code = code == CTL_DONE ? verify(download.part, download.fd, &head, &totals) : code;
        code = code == CTL_DONE ? backup_keep(&download) : code;
        if (code == CTL_DONE) {
            backup_print_taken(ctl, &download, &head, &totals);
        } else {
            (void)unlink(download.part);
        }
        (void)close(download.fd);
    }
    free(download.part);
    return code;
}

static const struct option_about OPTIONS[] = {
    {"local", 0, NULL, "what the node has, without asking the others: it may lack the newest"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_BACKUP = {
    .family = "backup",
    .operands = "FILE",
    .summary = "the whole state as a file, for leafd restore",
    .text =
        "FILE is replaced once the new backup is whole, verified and on the disk; until then it "
        "is FILE.part.",
    .options = OPTIONS,
    .run = backup_run,
};
