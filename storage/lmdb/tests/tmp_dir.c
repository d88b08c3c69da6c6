/*
 * tmp_dir.c - see tmp_dir.h.
 */
#include "storage/lmdb/tests/tmp_dir.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"

void tmp_dir_make(struct tmp_dir *dir)
{
    (void)snprintf(dir->path, sizeof dir->path, "/tmp/leafd-store-XXXXXX");
    ASSERT(mkdtemp(dir->path) != NULL);
}

static int remove_cb(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void tmp_dir_remove(struct tmp_dir *dir)
{
    ASSERT(nftw(dir->path, remove_cb, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

const char *tmp_dir_path(const struct tmp_dir *dir, const char *name, char path[TMP_PATH_BYTES])
{
    ASSERT(snprintf(path, TMP_PATH_BYTES, "%s/%s", dir->path, name) < TMP_PATH_BYTES);
    return path;
}

void file_read(const char *path, struct buf *ret_content)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    ssize_t got;

    ASSERT(fd >= 0 && fstat(fd, &st) == 0);
    buf_reserve(ret_content, (size_t)st.st_size);
    got = read(fd, ret_content->data, (size_t)st.st_size);
    ASSERT(got == st.st_size);
    ret_content->len = (size_t)got;
    ASSERT(close(fd) == 0);
}

void file_write(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ASSERT(fd >= 0);
    ASSERT(write(fd, data, len) == (ssize_t)len);
    ASSERT(close(fd) == 0);
}

void file_put(struct buf *content, size_t at, const void *data, size_t len)
{
    if (at + len > content->len) {
        size_t more = at + len - content->len;

        buf_reserve(content, more);
        memset(content->data + content->len, 0, more);
        content->len += more;
    }
    memcpy(content->data + at, data, len);
}
