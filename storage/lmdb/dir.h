/*
 * dir.h - the data directory around the environment: its lock, the marker, durable renames.
 *
 *   db/      the environment       lock     held with flock(2) until close; carries the pid
 *   db.new/  one being made        made     says that a store was made here, and which
 *
 * The marker distinguishes a vanished database from a first start.
 *
 * A directory that holds other files, and neither marker nor environment, is refused: a mistyped
 * path must not fill it with leafd's files. A user with write access to the directory could replace
 * the store; one with read access has the cluster's data. So the directory must belong to the user
 * of the process and be closed to all others. Leafd's files in it must be regular files, not
 * symbolic links. (The path to it may have links.)
 *
 * Failure modes: ERR_LOCKED; ERR_UNSAFE_DIRECTORY; everything else is ERR_IO (ERR_DISK_FULL) with
 * the system's text.
 * Thread: start-up.
 */
#ifndef LEAFD_STORAGE_LMDB_DIR_H
#define LEAFD_STORAGE_LMDB_DIR_H

#include <sys/types.h>

#include "storage/store.h"

#define LMDB_DB "db"
#define LMDB_MARKER "made" /* of a whole store; with it alone, LMDB_DB_NEW is whole, too */
#define LMDB_DB_NEW "db.new"
#define LMDB_DATA_FILE "data.mdb" /* in either */
#define LMDB_LOCK_FILE "lock.mdb"

struct lmdb_dir { /* its owner sets path, and lock_fd to -1; it frees and closes them */
    char *path;
    int lock_fd;     /* -1: not locked */
    dev_t device;    /* of the lock, and of the environment's file: */
    ino_t lock_file; /* inode of the lock file */
    ino_t data_file; /* 0: not noted yet */
};

/* Make the directory if it is missing (0700) and take its lock. loose_mode: group and others may
 * have rights on it, and it may be another user's. 0, ERR_LOCKED, ERR_IO, or ERR_UNSAFE_DIRECTORY
 * (nothing was changed). */
int lmdb_dir_lock(struct lmdb_dir *dir, bool loose_mode, struct store_error *ret_error) MUST_CHECK;

/* Note the environment's file, for lmdb_dir_lost(). */
int lmdb_dir_note_data(struct lmdb_dir *dir, struct store_error *ret_error) MUST_CHECK;

/* Was the lock or the noted file deleted, moved or replaced? Any thread; two lstat(2). True:
 * *ret_error says what. */
bool lmdb_dir_lost(const struct lmdb_dir *dir, struct store_error *ret_error);

/* "<path>/<name>", malloc'ed. */
char *lmdb_path(const char *path, const char *name);
void lmdb_path_free(char **path);

/* A path that is freed at the end of its block. */
#define LMDB_PATH(variable, path, name)                                                            \
    char *variable __attribute__((cleanup(lmdb_path_free))) = lmdb_path(path, name)

/* Any error but ENOENT counts as present: opening it will report the error. */
bool lmdb_dir_has(const struct lmdb_dir *dir, const char *name);

/* Is it a file that an interrupted start may leave, or that a fresh file system has? */
bool lmdb_dir_is_left(const char *name);

/* Sync the file or directory of this name; "." is the directory itself. */
int lmdb_dir_sync(const struct lmdb_dir *dir, const char *name,
                  struct store_error *ret_error) MUST_CHECK;

/* Rename within the directory and make it durable. */
int lmdb_dir_rename(const struct lmdb_dir *dir, const char *from, const char *to,
                    struct store_error *ret_error) MUST_CHECK;

/* Make an empty `db.new`; removes one that a crash left. */
int lmdb_dir_make_new(const struct lmdb_dir *dir, struct store_error *ret_error) MUST_CHECK;

/* The marker. read: ERR_NOT_FOUND when there is none. */
int lmdb_marker_read(const struct lmdb_dir *dir, uint64_t *ret_store_id,
                     struct store_error *ret_error) MUST_CHECK;
int lmdb_marker_write(const struct lmdb_dir *dir, uint64_t store_id,
                      struct store_error *ret_error) MUST_CHECK;

#endif
