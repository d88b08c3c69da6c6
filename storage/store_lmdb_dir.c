/*
 * store_lmdb_dir.c - the data directory around the environment: lock, marker, durable renames.
 *
 * `lock` is held with flock(2) for the life of the process and carries its pid for people. `made`
 * says that a store was made here and which, so that a database that vanished is not taken for a
 * first start.
 *
 * Failure modes: ERR_LOCKED; everything else is ERR_IO (ERR_DISK_FULL) with the system's text.
 * Thread: start-up.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "storage/store_lmdb_internal.h"

#define MARKER_NAME "made"
#define MARKER_FORMAT "leafd store %016" PRIx64 "\n"

static int write_whole(const char *path, const struct buf *content, struct store_error *ret_error);

static int system_error(struct store_error *ret_error, const char *what, const char *path)
{
    int err = errno == ENOSPC || errno == EDQUOT ? ERR_DISK_FULL : ERR_IO;

    return store_error_set(ret_error, err, "%s %s: %s", what, path, strerror(errno));
}

char *lmdb_path(const char *dir, const char *name)
{
    char *path = NULL;

    ASSERT(asprintf(&path, "%s/%s", dir, name) > 0);
    return path;
}

/* 0 or an errno. */
static int sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int number = fd < 0 || fsync(fd) != 0 ? errno : 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return number;
}

/* A directory that is there already may be one that an earlier start made, and that start may have
 * ended before its name was durable. Where the parent cannot be opened or synced by us (it belongs
 * to somebody else, is read-only, or knows no sync), it was not us who made it. */
static int dir_make(const char *dir, struct store_error *ret_error)
{
    bool made = mkdir(dir, 0700) == 0;
    struct stat st;
    char *parent;
    int number;
    int err;

    if (!made && (errno != EEXIST || stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))) {
        return system_error(ret_error, "cannot make data directory", dir);
    }
    parent = lmdb_path(dir, "..");
    number = sync_path(parent);
    if (!made && (number == EACCES || number == EPERM || number == EROFS || number == EINVAL)) {
        number = 0;
    }
    errno = number;
    err = number != 0 ? system_error(ret_error, "cannot sync", parent) : 0;
    free(parent);
    return err;
}

/* Somebody else holds the lock: name the process from what it wrote. */
static int locked_by(int fd, const char *dir, struct store_error *ret_error)
{
    char pid[24] = "";
    ssize_t len = pread(fd, pid, sizeof(pid) - 1, 0);

    pid[len > 0 ? len : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
    return store_error_set(ret_error, ERR_LOCKED, "data directory %s is in use by process %s", dir,
                           pid[0] != '\0' ? pid : "(unknown)");
}

int lmdb_dir_lock(const char *dir, int *ret_fd, struct store_error *ret_error)
{
    char *path;
    int err = dir_make(dir, ret_error);
    int fd;

    if (err != 0) {
        return err;
    }
    path = lmdb_path(dir, "lock");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        err = system_error(ret_error, "cannot open", path);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        err = errno == EWOULDBLOCK ? locked_by(fd, dir, ret_error)
                                   : system_error(ret_error, "cannot lock", path);
    } else if (ftruncate(fd, 0) != 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
        err = system_error(ret_error, "cannot write", path);
    }
    free(path);
    if (err != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return err;
    }
    *ret_fd = fd;
    return 0;
}

int lmdb_marker_read(const char *dir, uint64_t *ret_store_id, struct store_error *ret_error)
{
    char *path = lmdb_path(dir, MARKER_NAME);
    FILE *file = fopen(path, "re");
    int err = 0;

    if (file == NULL) {
        err = errno == ENOENT ? store_error_set(ret_error, ERR_NOT_FOUND, "no marker %s", path)
                              : system_error(ret_error, "cannot open", path);
    } else if (fscanf(file, "leafd store %16" SCNx64, ret_store_id) != 1) {
        err =
            store_error_set(ret_error, ERR_CORRUPT, "%s is not the marker of a leafd store", path);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(path);
    return err;
}

/* Written beside and renamed, so that a crash leaves either no marker or a whole one. */
int lmdb_marker_write(const char *dir, uint64_t store_id, struct store_error *ret_error)
{
    char *path = lmdb_path(dir, MARKER_NAME ".new");
    struct buf content = BUF_INIT;
    int err;

    buf_printf(&content, MARKER_FORMAT, store_id);
    err = write_whole(path, &content, ret_error);
    if (err == 0) {
        err = lmdb_rename(dir, MARKER_NAME ".new", MARKER_NAME, ret_error);
    }
    buf_free(&content);
    free(path);
    return err;
}

static int write_whole(const char *path, const struct buf *content, struct store_error *ret_error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t written;
    int err = 0;

    if (fd < 0) {
        return system_error(ret_error, "cannot make", path);
    }
    errno = ENOSPC; /* what a short write means */
    written = write(fd, content->data, content->len);
    if (written != (ssize_t)content->len || fsync(fd) != 0) {
        err = system_error(ret_error, "cannot write", path);
    }
    (void)close(fd);
    return err;
}

bool lmdb_path_exists(const char *dir, const char *name)
{
    char *path = lmdb_path(dir, name);
    struct stat st;
    /* Anything but a clear "no" counts as there: opening it will say what is wrong. */
    bool exists = lstat(path, &st) == 0 || errno != ENOENT;

    free(path);
    return exists;
}

int lmdb_sync_path(const char *path, struct store_error *ret_error)
{
    errno = sync_path(path);
    return errno == 0 ? 0 : system_error(ret_error, "cannot sync", path);
}

int lmdb_rename(const char *dir, const char *from, const char *to, struct store_error *ret_error)
{
    char *from_path = lmdb_path(dir, from);
    char *to_path = lmdb_path(dir, to);
    int err = 0;

    if (rename(from_path, to_path) != 0) {
        err = system_error(ret_error, "cannot rename to", to_path);
    }
    free(from_path);
    free(to_path);
    return err != 0 ? err : lmdb_sync_path(dir, ret_error);
}

int lmdb_remove_unfinished(const char *dir, struct store_error *ret_error)
{
    static const char *const names[] = {"db.new/data.mdb", "db.new/lock.mdb", "db.new"};
    int err = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && err == 0; i++) {
        char *path = lmdb_path(dir, names[i]);

        if (remove(path) != 0 && errno != ENOENT) {
            err = system_error(ret_error, "cannot remove what a crash left,", path);
        }
        free(path);
    }
    return err;
}
