/*
 * dir.c - see dir.h. Thread: start-up.
 */
#include "storage/lmdb/dir.h"

#include <dirent.h>
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

#define LOCK "lock"
#define MARKER_NEW "made.new"
#define MARKER_FORMAT "leafd store %016" PRIx64 "\n"

static int dir_error(struct store_error *ret_error, const char *what, const char *path)
{
    return store_error_set(ret_error, store_error_of(errno), "%s %s: %s", what, path,
                           strerror(errno));
}

char *lmdb_path(const char *path, const char *name)
{
    char *whole = NULL;

    ASSERT(asprintf(&whole, "%s/%s", path, name) > 0);
    return whole;
}

void lmdb_path_free(char **path)
{
    free(*path);
}

/* 0 or an errno. */
static int sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int number = fd < 0 || fsync(fd) != 0 ? errno : 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return number;
}

/* --- is it ours? --- */

bool lmdb_dir_is_left(const char *name)
{
    static const char *const left[] = {".", "..", LOCK, LMDB_DB_NEW, MARKER_NEW,
                                       /* kept by file systems in the root of a volume */
                                       "lost+found", ".snapshot", ".snapshots", ".zfs"};

    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        if (strcmp(name, left[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The directory holds no foreign files, or a store was made in it. */
static int dir_check_content(const struct lmdb_dir *dir, struct store_error *ret_error)
{
    const struct dirent *entry;
    DIR *stream;
    int err = 0;

    if (lmdb_dir_has(dir, LMDB_MARKER) || lmdb_dir_has(dir, LMDB_DB "/" LMDB_DATA_FILE)) {
        return 0;
    }
    stream = opendir(dir->path);
    if (stream == NULL) {
        return dir_error(ret_error, "cannot read data directory", dir->path);
    }
    /* readdir() is safe here: no other thread has this stream. */
    while (err == 0 && (entry = readdir(stream)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (!lmdb_dir_is_left(entry->d_name)) {
            err = store_error_set(ret_error, ERR_UNSAFE_DIRECTORY,
                                  "%s holds files that are not leafd's (%.64s): choose an empty "
                                  "directory, or one that does not exist yet",
                                  dir->path, entry->d_name);
        }
    }
    (void)closedir(stream);
    return err;
}

/* Another user could change its own files at any time. */
static int dir_check_owner(const char *path, uid_t owner, struct store_error *ret_error)
{
    uid_t own = geteuid();

    return owner == own
               ? 0
               : store_error_set(ret_error, ERR_UNSAFE_DIRECTORY,
                                 "%s belongs to user %u, but leafd runs as user %u: chown it, with "
                                 "all that is in it, or run leafd as that user",
                                 path, (unsigned)owner, (unsigned)own);
}

/* Entries with leafd's names must be of the kind that leafd makes. Links are not followed. */
static int dir_check_entries(const struct lmdb_dir *dir, bool any_owner,
                             struct store_error *ret_error)
{
    static const struct {
        const char *name;
        mode_t kind;
    } ours[] = {
        {LOCK, S_IFREG},
        {LMDB_MARKER, S_IFREG},
        {MARKER_NEW, S_IFREG},
        {LMDB_DB, S_IFDIR},
        {LMDB_DB "/" LMDB_DATA_FILE, S_IFREG},
        {LMDB_DB "/" LMDB_LOCK_FILE, S_IFREG},
        {LMDB_DB_NEW, S_IFDIR},
        {LMDB_DB_NEW "/" LMDB_DATA_FILE, S_IFREG},
        {LMDB_DB_NEW "/" LMDB_LOCK_FILE, S_IFREG},
    };
    int err = 0;

    for (size_t i = 0; i < sizeof ours / sizeof ours[0] && err == 0; i++) {
        LMDB_PATH(path, dir->path, ours[i].name);
        struct stat st;

        if (lstat(path, &st) != 0) {
            err = errno == ENOENT || errno == ENOTDIR
                      ? 0
                      : dir_error(ret_error, "cannot look at", path);
        } else if ((st.st_mode & S_IFMT) != ours[i].kind) {
            err = store_error_set(ret_error, ERR_UNSAFE_DIRECTORY, "%s is %s, not a %s", path,
                                  S_ISLNK(st.st_mode) ? "a symbolic link" : "something else",
                                  ours[i].kind == S_IFDIR ? "directory" : "regular file");
        } else if (ours[i].kind == S_IFREG && st.st_nlink > 1 && strcmp(ours[i].name, LOCK) == 0) {
            err = store_error_set(ret_error, ERR_UNSAFE_DIRECTORY,
                                  "%s is also linked elsewhere, and would be overwritten there",
                                  path);
        } else if (!any_owner) {
            err = dir_check_owner(path, st.st_uid, ret_error);
        }
    }
    return err;
}

/* --- made, locked --- */

/* An earlier start may have made an existing directory, and ended before its name was durable. If
 * leafd cannot open or sync the parent (another user's, read-only, or without sync), it did not
 * make the directory. */
static int dir_make(const struct lmdb_dir *dir, bool loose_mode, struct store_error *ret_error)
{
    LMDB_PATH(parent, dir->path, "..");
    bool made = mkdir(dir->path, 0700) == 0;
    struct stat st;
    int number;
    int err;

    if (!made && (errno != EEXIST || stat(dir->path, &st) != 0 || !S_ISDIR(st.st_mode))) {
        return dir_error(ret_error, "cannot make data directory", dir->path);
    }
    err = made ? 0 : dir_check_content(dir, ret_error);
    if (err == 0 && !made && !loose_mode) {
        err = dir_check_owner(dir->path, st.st_uid, ret_error);
    }
    if (err == 0 && !made && !loose_mode && (st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        err = store_error_set(ret_error, ERR_UNSAFE_DIRECTORY,
                              "%s has mode %04o, so others than its owner have rights on it: "
                              "chmod 700 it, or set data.loose-mode = true",
                              dir->path, (unsigned)(st.st_mode & 07777));
    }
    if (err == 0) {
        err = dir_check_entries(dir, loose_mode, ret_error);
    }
    if (err != 0) {
        return err;
    }
    number = sync_path(parent);
    if (!made && (number == EACCES || number == EPERM || number == EROFS || number == EINVAL)) {
        number = 0;
    }
    errno = number;
    return number != 0 ? dir_error(ret_error, "cannot sync", parent) : 0;
}

int lmdb_dir_lock(struct lmdb_dir *dir, bool loose_mode, struct store_error *ret_error)
{
    LMDB_PATH(path, dir->path, LOCK);
    int err = dir_make(dir, loose_mode, ret_error);
    char pid[24] = "";
    struct stat st;
    ssize_t len;
    int fd;

    ASSERT(dir->lock_fd < 0);
    if (err != 0) {
        return err;
    }
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        err = dir_error(ret_error, "cannot open", path);
    } else if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (ftruncate(fd, 0) != 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
            err = dir_error(ret_error, "cannot write", path);
        }
    } else if (errno != EWOULDBLOCK) {
        err = dir_error(ret_error, "cannot lock", path);
    } else { /* name the process that holds it, from the pid that it wrote */
        len = pread(fd, pid, sizeof pid - 1, 0);
        pid[len > 0 ? len : 0] = '\0';
        pid[strspn(pid, "0123456789")] = '\0';
        err = store_error_set(ret_error, ERR_LOCKED, "data directory %s is in use by process %s",
                              dir->path, pid[0] != '\0' ? pid : "(unknown)");
    }
    if (err != 0 && fd >= 0) {
        (void)close(fd);
        fd = -1;
    }
    dir->lock_fd = fd;
    if (err == 0) {
        ASSERT(fstat(fd, &st) == 0);
        dir->device = st.st_dev;
        dir->lock_file = st.st_ino;
    }
    return err;
}

int lmdb_dir_note_data(struct lmdb_dir *dir, struct store_error *ret_error)
{
    LMDB_PATH(path, dir->path, LMDB_DB "/" LMDB_DATA_FILE);
    struct stat st;

    if (lstat(path, &st) != 0) {
        return dir_error(ret_error, "cannot look at", path);
    }
    dir->data_file = st.st_ino;
    return 0;
}

/* A file that lstat(2) fails on for another reason may be there: a failing disk shows by its
 * writes. */
bool lmdb_dir_lost(const struct lmdb_dir *dir, struct store_error *ret_error)
{
    const struct {
        const char *name;
        ino_t file;
    } files[] = {{LOCK, dir->lock_file}, {LMDB_DB "/" LMDB_DATA_FILE, dir->data_file}};
    bool lost = false;

    ASSERT(dir->lock_fd >= 0 && dir->data_file != 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !lost; i++) {
        LMDB_PATH(path, dir->path, files[i].name);
        struct stat st;

        if (lstat(path, &st) == 0) {
            lost = st.st_ino != files[i].file || st.st_dev != dir->device;
        } else {
            lost = errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
        }
        if (lost) {
            (void)store_error_set(ret_error, ERR_NOT_FOUND,
                                  "%s was deleted or moved away while the node ran", path);
        }
    }
    return lost;
}

bool lmdb_dir_has(const struct lmdb_dir *dir, const char *name)
{
    LMDB_PATH(path, dir->path, name);
    struct stat st;

    return lstat(path, &st) == 0 || errno != ENOENT;
}

int lmdb_dir_sync(const struct lmdb_dir *dir, const char *name, struct store_error *ret_error)
{
    LMDB_PATH(path, dir->path, name);

    errno = sync_path(path);
    return errno != 0 ? dir_error(ret_error, "cannot sync", path) : 0;
}

int lmdb_dir_rename(const struct lmdb_dir *dir, const char *from, const char *to,
                    struct store_error *ret_error)
{
    LMDB_PATH(from_path, dir->path, from);
    LMDB_PATH(to_path, dir->path, to);

    ASSERT(dir->lock_fd >= 0);
    return rename(from_path, to_path) != 0 ? dir_error(ret_error, "cannot rename to", to_path)
                                           : lmdb_dir_sync(dir, ".", ret_error);
}

int lmdb_dir_make_new(const struct lmdb_dir *dir, struct store_error *ret_error)
{
    static const char *const left[] = {LMDB_DB_NEW "/" LMDB_DATA_FILE,
                                       LMDB_DB_NEW "/" LMDB_LOCK_FILE, LMDB_DB_NEW};
    LMDB_PATH(made, dir->path, LMDB_DB_NEW);

    ASSERT(dir->lock_fd >= 0);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        LMDB_PATH(path, dir->path, left[i]);

        if (remove(path) != 0 && errno != ENOENT) {
            return dir_error(ret_error, "cannot remove what a crash left,", path);
        }
    }
    return mkdir(made, 0700) == 0 ? 0 : dir_error(ret_error, "cannot make", made);
}

int lmdb_marker_read(const struct lmdb_dir *dir, uint64_t *ret_store_id,
                     struct store_error *ret_error)
{
    LMDB_PATH(path, dir->path, LMDB_MARKER);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    int err = 0;

    if (file == NULL) {
        err = errno == ENOENT ? store_error_set(ret_error, ERR_NOT_FOUND, "no marker %s", path)
                              : dir_error(ret_error, "cannot open", path);
    } else if (fscanf(file, "leafd store %16" SCNx64, ret_store_id) != 1) {
        err =
            store_error_set(ret_error, ERR_CORRUPT, "%s is not the marker of a leafd store", path);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return err;
}

/* Written as `made.new` and renamed, so that a crash leaves no marker or a whole one. */
int lmdb_marker_write(const struct lmdb_dir *dir, uint64_t store_id, struct store_error *ret_error)
{
    LMDB_PATH(path, dir->path, MARKER_NEW);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    BUF_LOCAL(content);
    ssize_t written;
    int err = 0;

    if (fd < 0) {
        return dir_error(ret_error, "cannot make", path);
    }
    buf_printf(&content, MARKER_FORMAT, store_id);
    errno = ENOSPC; /* the meaning of a short write */
    written = write(fd, content.data, content.len);
    if (written != (ssize_t)content.len || fsync(fd) != 0) {
        err = dir_error(ret_error, "cannot write", path);
    }
    (void)close(fd);
    return err != 0 ? err : lmdb_dir_rename(dir, MARKER_NEW, LMDB_MARKER, ret_error);
}
