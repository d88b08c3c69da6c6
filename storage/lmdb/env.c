/*
 * env.c - see env.h. Thread: as storage/store.h.
 */
#include "storage/lmdb/env.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "src/base/assert.h"
#include "src/base/clock.h"

const char *lmdb_table_name(enum lmdb_table table)
{
    static const char *const names[LMDB_TABLES] = {LMDB_TABLE_NAMES};

    ASSERT(table < LMDB_TABLES);
    return names[table];
}

int lmdb_error(struct store_error *ret_error, int rc, const char *what)
{
    int err = ERR_IO;

    ASSERT(rc != 0);
    if (rc == MDB_MAP_FULL) {
        err = ERR_DISK_FULL;
    } else if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_INVALID ||
               rc == MDB_NOTFOUND || rc == MDB_KEYEXIST || rc == MDB_INCOMPATIBLE) {
        err = ERR_CORRUPT;
    } else if (rc == MDB_VERSION_MISMATCH) {
        err = ERR_BAD_VERSION;
    } else if (rc == MDB_TXN_FULL) {
        err = ERR_TOO_LARGE;
    } else if (rc > 0) {
        err = store_error_of(rc);
    }
    return store_error_set(ret_error, err, "%s: %s", what, mdb_strerror(rc));
}

/* The tables live as long as the environment; opening them takes a transaction. */
static int open_tables(struct lmdb_env *env, unsigned flags, struct store_error *ret_error)
{
    struct lmdb_txn txn;
    int rc = 0;
    int err = lmdb_begin(env, flags & MDB_RDONLY, &txn, ret_error);

    if (err != 0) {
        return err;
    }
    for (unsigned i = 0; i < LMDB_TABLES && rc == 0; i++) {
        rc = mdb_dbi_open(txn.txn, lmdb_table_name(i), flags & MDB_CREATE, &env->tables[i]);
    }
    return lmdb_end(&txn, rc == 0 ? 0 : lmdb_error(ret_error, rc, "opening the tables"));
}

int lmdb_env_open(struct lmdb_env *env, const char *path, uint64_t map_bytes, unsigned flags,
                  struct store_error *ret_error)
{
    int rc;
    int err;

    ASSERT((flags & ~(unsigned)(MDB_CREATE | MDB_RDONLY | MDB_NOLOCK)) == 0);
    *env = (struct lmdb_env){.env = NULL};
    rc = mdb_env_create(&env->env);
    if (rc == 0 && map_bytes > 0) {
        rc = mdb_env_set_mapsize(env->env, map_bytes);
    }
    if (rc == 0) {
        rc = mdb_env_set_maxdbs(env->env, LMDB_TABLES);
    }
    if (rc == 0) {
        rc = mdb_env_open(env->env, path, MDB_NOTLS | (flags & ~(unsigned)MDB_CREATE), 0600);
    }
    err = rc != 0 ? lmdb_error(ret_error, rc, path) : open_tables(env, flags, ret_error);
    if (err != 0) {
        lmdb_env_close(env);
    }
    return err;
}

void lmdb_env_close(struct lmdb_env *env)
{
    if (env->env != NULL) {
        mdb_env_close(env->env);
    }
    *env = (struct lmdb_env){.env = NULL};
}

int lmdb_begin(const struct lmdb_env *env, unsigned flags, struct lmdb_txn *ret_txn,
               struct store_error *error)
{
    int rc;

    ASSERT(env->env != NULL && error != NULL);
    ASSERT(flags == 0 || flags == MDB_RDONLY);
    *ret_txn = (struct lmdb_txn){.env = env, .error = error};
    rc = mdb_txn_begin(env->env, NULL, flags, &ret_txn->txn);
    return rc == 0 ? 0 : lmdb_error(error, rc, "beginning a transaction");
}

int lmdb_rows_begin(struct lmdb_txn *txn)
{
    int rc = 0;

    if (txn->rows == NULL) { /* LMDB closes it with the transaction */
        rc = mdb_cursor_open(txn->txn, txn->env->tables[LMDB_STATE], &txn->rows);
    }
    return rc == 0 ? 0 : lmdb_error(txn->error, rc, lmdb_table_name(LMDB_STATE));
}

int lmdb_end(struct lmdb_txn *txn, int err)
{
    uint64_t began_us;
    int rc;

    ASSERT(txn->txn != NULL && err <= 0);
    if (err != 0) {
        lmdb_abort(txn);
        return err;
    }
    began_us = clock_now_us(clock_system());
    rc = mdb_txn_commit(txn->txn);
    txn->flush_us = clock_now_us(clock_system()) - began_us;
    txn->txn = NULL;
    txn->rows = NULL;
    return rc == 0 ? 0 : lmdb_error(txn->error, rc, "commit");
}

void lmdb_abort(struct lmdb_txn *txn)
{
    ASSERT(txn->txn != NULL);
    mdb_txn_abort(txn->txn);
    txn->txn = NULL;
    txn->rows = NULL;
}

/* What mdb_reader_list() says of a reader: its process, thread and transaction. */
static int note_reader(const char *line, void *data)
{
    uint64_t *oldest = data;
    size_t number;

    if (sscanf(line, "%*d %*x %zu", &number) == 1 && number < *oldest) {
        *oldest = number;
    }
    return 0;
}

/* The oldest transaction that is read at; UINT64_MAX: none is. Readers are those of
 * other processes too (mdb_copy, mdb_stat), but for those that died as such. */
static uint64_t oldest_reader(const struct lmdb_env *env)
{
    uint64_t oldest = UINT64_MAX;
    int dead;

    (void)mdb_reader_check(env->env, &dead);
    (void)mdb_reader_list(env->env, note_reader, &oldest);
    return oldest;
}

/* Pages on LMDB's free list (its database 0, as mdb_stat reads it) that it would take: each record
 * is a count and as many page numbers, by the transaction that left them. One that is as old as
 * the oldest reader, or younger, is not touched. (Those of the last commit it takes after the next
 * one: that is soon enough.) */
static uint64_t free_pages(const struct lmdb_env *env)
{
    const uint64_t oldest = oldest_reader(env);
    struct store_error ignored;
    struct lmdb_txn txn;
    MDB_cursor *cursor = NULL;
    MDB_val key;
    MDB_val value;
    uint64_t pages = 0;

    if (lmdb_begin(env, MDB_RDONLY, &txn, &ignored) != 0) {
        return 0;
    }
    if (mdb_cursor_open(txn.txn, 0, &cursor) == 0) {
        while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0 &&
               key.mv_size == sizeof(size_t) && value.mv_size >= sizeof(size_t)) {
            size_t number;
            size_t count;

            memcpy(&number, key.mv_data, sizeof number);
            memcpy(&count, value.mv_data, sizeof count);
            if (number >= oldest) {
                break;
            }
            pages += count;
        }
        mdb_cursor_close(cursor);
    }
    lmdb_abort(&txn);
    return pages;
}

uint64_t lmdb_env_file_bytes(const struct lmdb_env *env)
{
    MDB_envinfo info;
    MDB_stat stat;

    ASSERT(mdb_env_info(env->env, &info) == 0);
    ASSERT(mdb_env_stat(env->env, &stat) == 0);
    ASSERT((info.me_last_pgno + 1) * stat.ms_psize <= info.me_mapsize);
    return (info.me_last_pgno + 1) * stat.ms_psize;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The free list is read only when the file has grown so far that it matters: the file never
 * shrinks, so its size alone would say "low" for ever after one burst. What it holds free needs no
 * disk. */
void lmdb_env_space(const struct lmdb_env *env, const char *dir, uint64_t enough_bytes,
                    struct store_space *ret_space)
{
    struct store_space space = {.disk_free_bytes = UINT64_MAX};
    struct statvfs fs;
    MDB_envinfo info;
    MDB_stat stat;
    uint64_t low_bytes;
    uint64_t file_free_bytes;
    uint64_t reusable_bytes = 0;

    ASSERT(mdb_env_info(env->env, &info) == 0);
    ASSERT(mdb_env_stat(env->env, &stat) == 0);
    space.map_bytes = info.me_mapsize;
    space.used_bytes = lmdb_env_file_bytes(env);
    low_bytes = most(space.map_bytes / 100 * LIMIT_STORE_LOW_PERCENT,
                     least(space.map_bytes / 4, LIMIT_STORE_LOW_BYTES));
    if (statvfs(dir, &fs) == 0) {
        space.disk_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        space.disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    }
    space.room_bytes = least(space.map_bytes - space.used_bytes, space.disk_free_bytes);
    if (space.map_bytes - space.used_bytes < low_bytes ||
        space.disk_free_bytes < LIMIT_STORE_LOW_BYTES || space.room_bytes < enough_bytes) {
        reusable_bytes = least(free_pages(env) * stat.ms_psize, space.used_bytes);
        space.used_bytes -= reusable_bytes;
        space.room_bytes += reusable_bytes;
    }
    file_free_bytes = space.disk_free_bytes > UINT64_MAX - reusable_bytes
                          ? UINT64_MAX
                          : space.disk_free_bytes + reusable_bytes;
    space.low =
        space.map_bytes - space.used_bytes < low_bytes || file_free_bytes < LIMIT_STORE_LOW_BYTES;
    *ret_space = space;
}
