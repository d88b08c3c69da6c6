/*
 * tmp_dir.h - a directory of a test's own, and what damage tests do to files in it.
 *
 * Failures end the process by ASSERT: a test that cannot set its stage proves nothing. Thread: any.
 */
#ifndef LEAFD_STORAGE_LMDB_TESTS_TMP_DIR_H
#define LEAFD_STORAGE_LMDB_TESTS_TMP_DIR_H

#include "src/base/buf.h"

#define TMP_PATH_BYTES 128

struct tmp_dir {
    char path[TMP_PATH_BYTES];
};

void tmp_dir_make(struct tmp_dir *dir);
void tmp_dir_remove(struct tmp_dir *dir);

/* "<dir>/<name>" in path; returns path. */
const char *tmp_dir_path(const struct tmp_dir *dir, const char *name, char path[TMP_PATH_BYTES]);

void file_read(const char *path, struct buf *ret_content);
void file_write(const char *path, const void *data, size_t len);

/* Write into the content of a file, which grows, with zeros, as far as it must. */
void file_put(struct buf *content, size_t at, const void *data, size_t len);

#endif
