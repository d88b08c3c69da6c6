/*
 * record.c - see record.h.
 */
#include "storage/lmdb/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/fields.h"
#include "src/base/hash.h"

/* --- env --- */

static const char *const table_names[LMDB_TABLES] = {LMDB_TABLE_NAMES};

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

int lmdb_env_open(struct lmdb_env *env, const char *path, uint64_t map_bytes, unsigned flags,
                  struct store_error *ret_error)
{
    struct lmdb_txn txn;
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
    err = rc != 0 ? lmdb_error(ret_error, rc, path)
                  : lmdb_begin(env, flags & MDB_RDONLY, &txn, ret_error);
    if (err == 0) { /* tables live as long as the environment; opening them takes a transaction */
        for (unsigned i = 0; i < LMDB_TABLES && rc == 0; i++) {
            rc = mdb_dbi_open(txn.txn, table_names[i], flags & MDB_CREATE, &env->tables[i]);
        }
        err = lmdb_end(&txn, rc == 0 ? 0 : lmdb_error(ret_error, rc, "opening the tables"));
    }
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
    return rc == 0 ? 0 : lmdb_error(txn->error, rc, table_names[LMDB_STATE]);
}

#define DISK_FULL_BYTES (UINT64_C(1) << 20)
#define QUOTA_UNIT_BYTES 1024 /* of the limits in struct dqblk */

/* A limit of which so much is used, if it leaves less room than what is known. */
static void bound_room(struct store_space *space, uint64_t limit_bytes, uint64_t used_bytes,
                       const char *what)
{
    uint64_t free_bytes = limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;

    if (free_bytes < space->disk_free_bytes) {
        space->disk_free_bytes = free_bytes;
        space->bound = what;
    }
}

/* The size that the system allows the file now: of all limits the least leaves this room. Not in
 * statvfs(2) are the quotas of the file's user and group (a soft one counts too: it refuses writes
 * when its time of grace is over) and RLIMIT_FSIZE. A quota of a project is in statvfs(2). What the
 * system does not tell bounds nothing. */
static void disk_room(const struct lmdb_env *env, struct store_space *space)
{
    static const char *const quotas[] = {
        [USRQUOTA] = "the disk quota of the user", [GRPQUOTA] = "the disk quota of the group"};
    uint64_t file_bytes = lmdb_env_file_bytes(env);
    struct statvfs fs;
    struct rlimit size;
    struct stat st;
    int fd;

    space->disk_free_bytes = UINT64_MAX;
    space->bound = "the disk";
    ASSERT(mdb_env_get_fd(env->env, &fd) == 0);
    if (fstatvfs(fd, &fs) == 0) {
        space->disk_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        space->disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    }
    if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY) {
        bound_room(space, size.rlim_cur, file_bytes, "the room within RLIMIT_FSIZE");
    }
    for (int type = 0; type < 2 && fstat(fd, &st) == 0; type++) {
        struct dqblk quota = {0};

        if (syscall(SYS_quotactl_fd, fd, (unsigned long)Q_GETQUOTA << SUBCMDSHIFT | (unsigned)type,
                    type == USRQUOTA ? st.st_uid : st.st_gid, &quota) != 0) {
            continue; /* the file system has none, or the kernel is too old */
        }
        if (quota.dqb_bhardlimit != 0) {
            bound_room(space, quota.dqb_bhardlimit * QUOTA_UNIT_BYTES, quota.dqb_curspace,
                       quotas[type]);
        }
        if (quota.dqb_bsoftlimit != 0) {
            bound_room(space, quota.dqb_bsoftlimit * QUOTA_UNIT_BYTES, quota.dqb_curspace,
                       quotas[type]);
        }
    }
}

bool lmdb_disk_is_full(const struct lmdb_env *env)
{
    struct store_space space = {0};

    disk_room(env, &space);
    return space.disk_free_bytes < DISK_FULL_BYTES;
}

int lmdb_end(struct lmdb_txn *txn, int err)
{
    uint64_t began_us;
    bool is_full;
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
    txn->write_failed = rc > 0;
    /* LMDB reports EIO for a write that a full disk cut short. */
    is_full = rc == EIO && lmdb_disk_is_full(txn->env);
    err = rc == 0 ? 0 : lmdb_error(txn->error, rc, is_full ? "the disk is full: commit" : "commit");
    return is_full ? ERR_DISK_FULL : err;
}

void lmdb_abort(struct lmdb_txn *txn)
{
    ASSERT(txn->txn != NULL);
    mdb_txn_abort(txn->txn);
    txn->txn = NULL;
    txn->rows = NULL;
}

/* A line of mdb_reader_list(): a reader's process, thread and transaction. */
static int note_reader(const char *line, void *data)
{
    uint64_t *oldest = data;
    size_t number;

    if (sscanf(line, "%*d %*x %zu", &number) == 1 && number < *oldest) {
        *oldest = number;
    }
    return 0;
}

/* Pages on LMDB's free list (its database 0, as mdb_stat reads it) that LMDB would reuse. Each
 * record, keyed by the transaction that freed the pages, is a count and as many page numbers. LMDB
 * does not reuse those of the oldest reader's transaction or a younger one. Readers of other
 * processes (mdb_copy, mdb_stat) count, unless they died. (LMDB reuses pages of the last commit
 * only after the next one: that is soon enough.) */
static uint64_t free_pages(const struct lmdb_env *env)
{
    uint64_t oldest = UINT64_MAX; /* oldest transaction that has a reader */
    struct store_error ignored;
    struct lmdb_txn txn;
    MDB_cursor *cursor = NULL;
    MDB_val key;
    MDB_val value;
    uint64_t pages = 0;
    int dead;

    (void)mdb_reader_check(env->env, &dead);
    (void)mdb_reader_list(env->env, note_reader, &oldest);
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

/* The free list is read only once the file has grown so far that it matters: the file never
 * shrinks, so after one burst its size alone would mean "low" for ever. Its free pages need no disk
 * space. */
void lmdb_env_space(const struct lmdb_env *env, uint64_t enough_bytes,
                    struct store_space *ret_space)
{
    struct store_space space = {0};
    MDB_envinfo info;
    MDB_stat stat;
    uint64_t low_bytes;
    uint64_t reusable_bytes;
    bool is_disk_low;

    ASSERT(mdb_env_info(env->env, &info) == 0);
    ASSERT(mdb_env_stat(env->env, &stat) == 0);
    space.map_bytes = info.me_mapsize;
    space.used_bytes = lmdb_env_file_bytes(env);
    low_bytes = least(space.map_bytes / 4, LIMIT_STORE_LOW_BYTES);
    if (low_bytes < space.map_bytes / 100 * LIMIT_STORE_LOW_PERCENT) {
        low_bytes = space.map_bytes / 100 * LIMIT_STORE_LOW_PERCENT;
    }
    disk_room(env, &space);
    space.room_bytes = least(space.map_bytes - space.used_bytes, space.disk_free_bytes);
    if (space.map_bytes - space.used_bytes < low_bytes ||
        space.disk_free_bytes < LIMIT_STORE_LOW_BYTES || space.room_bytes < enough_bytes) {
        reusable_bytes = least(free_pages(env) * stat.ms_psize, space.used_bytes);
        space.used_bytes -= reusable_bytes;
        space.room_bytes += reusable_bytes;
        is_disk_low = space.disk_free_bytes < LIMIT_STORE_LOW_BYTES &&
                      space.disk_free_bytes + reusable_bytes < LIMIT_STORE_LOW_BYTES;
        space.low = is_disk_low || space.map_bytes - space.used_bytes < low_bytes;
        space.bound = is_disk_low ? space.bound : "the database (data.map-bytes)";
    }
    *ret_space = space;
}

/* --- record --- */

MDB_val lmdb_log_key(uint64_t index, uint8_t bytes[LMDB_LOG_KEY_BYTES])
{
    uint64_t be = htobe64(index);

    memcpy(bytes, &be, LMDB_LOG_KEY_BYTES);
    return (MDB_val){LMDB_LOG_KEY_BYTES, bytes};
}

static uint64_t log_index(const uint8_t key[LMDB_LOG_KEY_BYTES])
{
    uint64_t be;

    memcpy(&be, key, LMDB_LOG_KEY_BYTES);
    return be64toh(be);
}

const char *lmdb_record_name(enum lmdb_table table, const MDB_val *key,
                             char text[LMDB_RECORD_NAME_BYTES])
{
    size_t at;

    if (table == LMDB_LOG && key->mv_size == LMDB_LOG_KEY_BYTES) {
        (void)snprintf(text, LMDB_RECORD_NAME_BYTES, "log entry %" PRIu64, log_index(key->mv_data));
        return text;
    }
    at = (size_t)snprintf(text, LMDB_RECORD_NAME_BYTES, "%s record ", table_names[table]);
    ASSERT(at < LMDB_RECORD_NAME_BYTES);
    (void)store_key_print(text + at, LMDB_RECORD_NAME_BYTES - at, key->mv_data, key->mv_size);
    return text;
}

/* The checksum of a record before its payload: table letter, key. */
static uint32_t crc_begin(enum lmdb_table table, const MDB_val *key)
{
    return hash_crc32c_more(hash_crc32c(table_names[table], 1), key->mv_data, key->mv_size);
}

int lmdb_record_open(enum lmdb_table table, const MDB_val *key, const MDB_val *value,
                     struct reader *ret_payload, struct store_error *ret_error)
{
    char name[LMDB_RECORD_NAME_BYTES];
    uint32_t stored;
    uint32_t crc;

    reader_init(ret_payload, value->mv_data, value->mv_size);
    stored = reader_u32(ret_payload);
    if (ret_payload->bad) {
        return store_error_set(ret_error, ERR_CORRUPT, "%s: only %zu bytes",
                               lmdb_record_name(table, key, name), value->mv_size);
    }
    ASSERT(ret_payload->at == LMDB_CRC_BYTES);
    crc = hash_crc32c_more(crc_begin(table, key), ret_payload->data + ret_payload->at,
                           reader_left(ret_payload));
    if (crc != stored) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "%s: checksum is %08" PRIx32 ", stored is %08" PRIx32,
                               lmdb_record_name(table, key, name), crc, stored);
    }
    return 0;
}

/* LMDB's error for an operation on a record. */
static int record_error(const struct lmdb_txn *txn, enum lmdb_table table, const MDB_val *key,
                        int rc)
{
    char name[LMDB_RECORD_NAME_BYTES];

    (void)lmdb_record_name(table, key, name);
    return rc == MDB_NOTFOUND ? store_error_set(txn->error, ERR_CORRUPT, "%s is missing", name)
                              : lmdb_error(txn->error, rc, name);
}

/* The cursor near the record, or NULL. */
static MDB_cursor *cursor_of(const struct lmdb_txn *txn, enum lmdb_table table)
{
    return table == LMDB_STATE ? txn->rows : NULL;
}

int lmdb_record_get(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    struct reader *ret_payload)
{
    MDB_cursor *cursor = cursor_of(txn, table);
    MDB_val value;
    int rc = cursor != NULL ? mdb_cursor_get(cursor, key, &value, MDB_SET)
                            : mdb_get(txn->txn, txn->env->tables[table], key, &value);

    if (rc == MDB_NOTFOUND && table == LMDB_STATE) {
        return ERR_NOT_FOUND;
    }
    if (rc != 0) {
        return record_error(txn, table, key, rc);
    }
    return lmdb_record_open(table, key, &value, ret_payload, txn->error);
}

int lmdb_record_put(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key,
                    const struct lmdb_payload *payload, unsigned flags)
{
    uint32_t crc = hash_crc32c_more(crc_begin(table, key), payload->head, payload->head_len);
    MDB_val value = {LMDB_CRC_BYTES + payload->head_len + payload->len, NULL};
    MDB_cursor *cursor = cursor_of(txn, table);
    uint8_t *at;
    int rc;

    ASSERT(flags == 0 || flags == MDB_APPEND);
    rc = cursor != NULL
             ? mdb_cursor_put(cursor, key, &value, MDB_RESERVE | flags)
             : mdb_put(txn->txn, txn->env->tables[table], key, &value, MDB_RESERVE | flags);
    if (rc != 0) {
        return record_error(txn, table, key, rc);
    }
    crc = hash_crc32c_more(crc, payload->data, payload->len);
    ASSERT(value.mv_data != NULL &&
           value.mv_size == LMDB_CRC_BYTES + payload->head_len + payload->len);
    at = value.mv_data;
    crc = htole32(crc);
    memcpy(at, &crc, LMDB_CRC_BYTES);
    at += LMDB_CRC_BYTES;
    if (payload->head_len > 0) {
        memcpy(at, payload->head, payload->head_len);
    }
    if (payload->len > 0) {
        memcpy(at + payload->head_len, payload->data, payload->len);
    }
    return 0;
}

int lmdb_record_delete(const struct lmdb_txn *txn, enum lmdb_table table, MDB_val *key)
{
    MDB_cursor *cursor = cursor_of(txn, table);
    MDB_val value;
    int rc;

    if (cursor != NULL) {
        rc = mdb_cursor_get(cursor, key, &value, MDB_SET);
        rc = rc == 0 ? mdb_cursor_del(cursor, 0) : rc;
    } else {
        rc = mdb_del(txn->txn, txn->env->tables[table], key, NULL);
    }
    return rc == 0 ? 0 : record_error(txn, table, key, rc);
}

int lmdb_table_empty(const struct lmdb_txn *txn, enum lmdb_table table)
{
    int rc = mdb_drop(txn->txn, txn->env->tables[table], 0);

    return rc == 0 ? 0 : lmdb_error(txn->error, rc, table_names[table]);
}

int lmdb_record_each(const struct lmdb_txn *txn, enum lmdb_table table, lmdb_record_fn fn,
                     void *data)
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int err = 0;
    int rc = mdb_cursor_open(txn->txn, txn->env->tables[table], &cursor);

    if (rc != 0) {
        return lmdb_error(txn->error, rc, table_names[table]);
    }
    while (err == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        err = fn(data, &key, &value);
    }
    mdb_cursor_close(cursor);
    if (err == 0 && rc != MDB_NOTFOUND) {
        err = lmdb_error(txn->error, rc, table_names[table]);
    }
    return err;
}

int lmdb_meta_get(const struct lmdb_txn *txn, const char *name, struct reader *ret_payload)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};

    return lmdb_record_get(txn, LMDB_META, &key, ret_payload);
}

int lmdb_meta_put(const struct lmdb_txn *txn, const char *name, const struct buf *payload)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};
    const struct lmdb_payload value = {.data = payload->data, .len = payload->len};

    return lmdb_record_put(txn, LMDB_META, &key, &value, 0);
}

static int malformed_row(const struct lmdb_txn *txn, const char *name)
{
    return store_error_set(txn->error, ERR_CORRUPT, "meta record %s is malformed", name);
}

/* --- meta --- */

#define NAME_BYTES 32

/* --- identity, with the format --- */

/* After format and magic. */
static const struct field identity_items[] = {
    FIELD_TEXT(struct store_identity, cluster_id),
    FIELD_NUMBER(struct store_identity, node_id),
    FIELD_NUMBER(struct store_identity, store_id),
};
static const struct fields identity_fields = FIELDS(identity_items);

/* In another format anything may come after the magic. */
static int read_identity(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                         uint32_t *ret_format)
{
    struct store_identity identity = {.node_id = 0};
    struct reader reader;
    const uint8_t *text;
    uint32_t version;
    size_t len;
    int err = lmdb_meta_get(txn, LMDB_IDENTITY, &reader);

    if (err != 0) {
        return err;
    }
    version = reader_u32(&reader);
    text = reader_str16(&reader, &len);
    if (len != strlen(LMDB_FORMAT_MAGIC) || memcmp(text, LMDB_FORMAT_MAGIC, len) != 0) {
        return malformed_row(txn, LMDB_IDENTITY);
    }
    if (version < LMDB_FORMAT_VERSION || version > LMDB_FORMAT_PIECES) {
        return store_error_set(txn->error, ERR_BAD_VERSION,
                               "the store has format %" PRIu32
                               ", this leafd reads formats %d to %d: "
                               "%s",
                               version, LMDB_FORMAT_VERSION, LMDB_FORMAT_PIECES,
                               version > LMDB_FORMAT_PIECES
                                   ? "start the leafd that wrote it, or a newer one"
                                   : "start the leafd that wrote it, take a backup of the cluster "
                                     "(GET /api/backup) and restore it with this one");
    }
    if (!fields_read(&reader, &identity_fields, &identity) || !reader_done(&reader)) {
        return malformed_row(txn, LMDB_IDENTITY);
    }
    *ret_identity = identity;
    *ret_format = version;
    return 0;
}

/* --- local records --- */

static const char *local_name(unsigned number, char name[NAME_BYTES])
{
    ASSERT(number < LIMIT_LOCAL_RECORDS);
    ASSERT(snprintf(name, NAME_BYTES, "local.%02u", number) < NAME_BYTES);
    return name;
}

/* The list is the rest of `now`: {number u16, checksum u32} each. */
static int read_locals(const struct lmdb_txn *txn, struct reader *list, struct store_meta *meta)
{
    unsigned from = 0; /* the lowest number allowed next */
    char name[NAME_BYTES];

    while (reader_left(list) > 0) {
        unsigned number = reader_u16(list);
        uint32_t checksum = reader_u32(list);
        struct store_local **local;
        struct reader reader;
        size_t len;
        int err;

        if (list->bad || number < from || number >= LIMIT_LOCAL_RECORDS) {
            return malformed_row(txn, LMDB_NOW);
        }
        err = lmdb_meta_get(txn, local_name(number, name), &reader);
        if (err != 0) {
            return err;
        }
        len = reader_left(&reader);
        if (len == 0 || len > LIMIT_LOCAL_RECORD_BYTES) {
            return malformed_row(txn, name);
        }
        local = &meta->locals[number];
        ASSERT(*local == NULL);
        store_local_set(local, reader_bytes(&reader, len), (uint32_t)len);
        if ((*local)->checksum != checksum) {
            return store_error_set(txn->error, ERR_CORRUPT,
                                   "meta record %s: checksum is %08" PRIx32
                                   ", listed is %08" PRIx32,
                                   name, (*local)->checksum, checksum);
        }
        from = number + 1;
    }
    return 0;
}

/* --- now --- */

/* Between the transaction's number and the configuration. */
static const struct field now_items[] = {
    FIELD_NUMBER(struct store_meta, term),
    FIELD_NUMBER(struct store_meta, vote),
    FIELD_NUMBER(struct store_meta, first_index),
    FIELD_NUMBER(struct store_meta, last_index),
    FIELD_NUMBER(struct store_meta, last_term),
    FIELD_NUMBER(struct store_meta, position.index),
    FIELD_NUMBER(struct store_meta, position.term),
    FIELD_NUMBER(struct store_meta, position.conf_index),
    FIELD_NUMBER(struct store_meta, position.digest),
};
static const struct fields now_fields = FIELDS(now_items);

static int read_now(const struct lmdb_txn *txn, struct store_meta *meta)
{
    struct store_position position;
    struct reader reader;
    uint64_t number;
    size_t conf_len;
    int err = lmdb_meta_get(txn, LMDB_NOW, &reader);

    if (err != 0) {
        return err;
    }
    number = reader_u64(&reader);
    (void)fields_read(&reader, &now_fields, meta);
    position = meta->position;
    position.conf = reader_str32(&reader, &conf_len);
    if (reader.bad || conf_len > LIMIT_CONF_BYTES) {
        return malformed_row(txn, LMDB_NOW);
    }
    position.conf_len = (uint32_t)conf_len;
    if (number != mdb_txn_id(txn->txn)) {
        /* Another tree replaced the transaction's own. */
        return store_error_set(txn->error, ERR_CORRUPT,
                               "meta record now: number %" PRIu64 " in transaction %zu", number,
                               mdb_txn_id(txn->txn));
    }
    store_position_copy(&meta->position, &position);
    return read_locals(txn, &reader, meta);
}

/* --- what is owed --- */

static const char *slice_name(uint32_t number, char name[NAME_BYTES])
{
    ASSERT(snprintf(name, NAME_BYTES, LMDB_OWED ".%08" PRIx32, number) < NAME_BYTES);
    return name;
}

static int meta_delete(const struct lmdb_txn *txn, const char *name)
{
    MDB_val key = {strlen(name), (void *)(uintptr_t)name};

    return lmdb_record_delete(txn, LMDB_META, &key);
}

static uint32_t format_of(const struct lmdb_owed *owed)
{
    return owed->pieces > 0          ? LMDB_FORMAT_PIECES
           : owed->first < owed->end ? LMDB_FORMAT_OWED
                                     : LMDB_FORMAT_VERSION;
}

int lmdb_slice_put(const struct lmdb_txn *txn, uint32_t number, const struct buf *rows)
{
    char name[NAME_BYTES];

    ASSERT(rows->len > 0);
    return lmdb_meta_put(txn, slice_name(number, name), rows);
}

int lmdb_slice_take(const struct lmdb_txn *txn, uint32_t number, struct buf *rows)
{
    char name[NAME_BYTES];
    struct reader reader;
    size_t len;
    int err = 0;

    (void)slice_name(number, name);
    if (rows != NULL) {
        err = lmdb_meta_get(txn, name, &reader);
        len = err == 0 ? reader_left(&reader) : 0;
        buf_put(rows, len > 0 ? reader_bytes(&reader, len) : NULL, len);
    }
    return err != 0 ? err : meta_delete(txn, name);
}

/* --- entries of the log --- */

static const char *piece_name(uint64_t index, size_t at, char name[NAME_BYTES])
{
    ASSERT(snprintf(name, NAME_BYTES, "piece.%016" PRIx64 ".%04zx", index, at / LMDB_PIECE_BYTES) <
           NAME_BYTES);
    return name;
}

/* Append the entry's data to *ret_data. reader: after term and type of its record. */
static int read_pieces(const struct lmdb_txn *txn, uint64_t index, struct reader *reader,
                       struct buf *ret_data)
{
    char name[NAME_BYTES];
    uint32_t len = reader_u32(reader);
    int err = 0;

    if (!reader_done(reader) || len <= LMDB_PIECE_BYTES || len > LIMIT_ENTRY_BYTES) {
        return store_error_set(txn->error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is malformed: %" PRIu32 " bytes in pieces",
                               index, len);
    }
    for (size_t at = 0; at < len && err == 0; at += LMDB_PIECE_BYTES) {
        size_t want = len - at < LMDB_PIECE_BYTES ? len - at : LMDB_PIECE_BYTES;
        struct reader piece;

        err = lmdb_meta_get(txn, piece_name(index, at, name), &piece);
        if (err == 0 && reader_left(&piece) != want) {
            err = malformed_row(txn, name);
        }
        if (err == 0) {
            buf_put(ret_data, reader_bytes(&piece, want), want);
        }
    }
    return err;
}

int lmdb_entry_put(const struct lmdb_txn *txn, uint64_t index, const struct store_entry *entry,
                   bool in_pieces)
{
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = lmdb_log_key(index, key_bytes);
    bool is_large = in_pieces && entry->len > LMDB_PIECE_BYTES;
    struct lmdb_payload payload = {.data = entry->data, .len = is_large ? 0 : entry->len};
    size_t pieces_len = is_large ? entry->len : 0;
    char name[NAME_BYTES];
    BUF_LOCAL(head);
    int err;

    buf_put_u64(&head, entry->term);
    buf_put_u8(&head, is_large ? entry->type | LMDB_IN_PIECES : entry->type);
    if (is_large) {
        buf_put_u32(&head, entry->len);
    }
    payload.head = head.data;
    payload.head_len = head.len;
    err = lmdb_record_put(txn, LMDB_LOG, &key, &payload, MDB_APPEND);
    for (size_t at = 0; at < pieces_len && err == 0; at += LMDB_PIECE_BYTES) {
        size_t left = pieces_len - at;
        BUF_LOCAL(piece);

        buf_put(&piece, (const uint8_t *)entry->data + at,
                left < LMDB_PIECE_BYTES ? left : LMDB_PIECE_BYTES);
        err = lmdb_meta_put(txn, piece_name(index, at, name), &piece);
    }
    return err;
}

int lmdb_entry_delete(const struct lmdb_txn *txn, uint64_t index, bool in_pieces)
{
    uint8_t key_bytes[LMDB_LOG_KEY_BYTES];
    MDB_val key = lmdb_log_key(index, key_bytes);
    char name[NAME_BYTES];
    uint32_t len = 0;
    int err = 0;

    if (in_pieces) {
        struct reader reader;

        err = lmdb_record_get(txn, LMDB_LOG, &key, &reader);
        if (err == 0) {
            (void)reader_u64(&reader);
            len = (reader_u8(&reader) & LMDB_IN_PIECES) != 0 ? reader_u32(&reader) : 0;
        }
    }
    for (size_t at = 0; at < len && err == 0; at += LMDB_PIECE_BYTES) {
        err = meta_delete(txn, piece_name(index, at, name));
    }
    return err == 0 ? lmdb_record_delete(txn, LMDB_LOG, &key) : err;
}

/* --- all of it --- */

static const struct field owed_items[] = {
    FIELD_NUMBER(struct lmdb_owed, digest), FIELD_NUMBER(struct lmdb_owed, first),
    FIELD_NUMBER(struct lmdb_owed, end),
    FIELD_NUMBER(struct lmdb_owed, pieces), /* in the format of pieces */
};

static struct fields owed_fields(uint32_t format)
{
    return (struct fields)FIELDS_FIRST(owed_items, format == LMDB_FORMAT_PIECES ? 4 : 3);
}

int lmdb_meta_read(const struct lmdb_txn *txn, struct store_identity *ret_identity,
                   struct store_meta *ret_meta, struct lmdb_owed *ret_owed)
{
    struct lmdb_owed owed = {0};
    struct store_meta meta = {0};
    struct reader reader;
    uint32_t format = 0;
    int err = read_identity(txn, ret_identity, &format);

    if (err == 0) {
        err = read_now(txn, &meta);
    }
    owed.digest = meta.position.digest;
    if (err == 0 && format != LMDB_FORMAT_VERSION) {
        err = lmdb_meta_get(txn, LMDB_OWED, &reader);
    }
    if (err == 0 && format != LMDB_FORMAT_VERSION) {
        const struct fields fields = owed_fields(format);
        bool in_pieces = format == LMDB_FORMAT_PIECES;

        if (!fields_read(&reader, &fields, &owed) || !reader_done(&reader) ||
            in_pieces != (owed.pieces > 0) ||
            (owed.first >= owed.end && !(in_pieces && owed.end == 0))) {
            err = malformed_row(txn, LMDB_OWED);
        }
    }
    if (err == 0) {
        err = store_meta_verify(&meta, txn->error);
    }
    if (err != 0) {
        store_meta_release(&meta);
        return err;
    }
    *ret_meta = meta;
    *ret_owed = owed;
    return 0;
}

int lmdb_meta_write(const struct lmdb_txn *txn, const struct store_identity *identity,
                    const struct store_meta *before, const struct store_meta *after,
                    const struct lmdb_owed *owed_before, const struct lmdb_owed *owed)
{
    const struct store_position *position = &after->position;
    uint32_t had = owed_before != NULL ? format_of(owed_before) : 0;
    uint32_t has = format_of(owed);
    const struct fields fields = owed_fields(has);
    char name[NAME_BYTES];
    BUF_LOCAL(record);
    BUF_LOCAL(now);
    int err = 0;

    ASSERT(after->first_index >= 1 && after->last_index + 1 >= after->first_index);
    ASSERT(position->index <= after->last_index && position->conf_len <= LIMIT_CONF_BYTES);
    if (had != has) {
        buf_put_u32(&record, has);
        buf_put_str16(&record, LMDB_FORMAT_MAGIC, strlen(LMDB_FORMAT_MAGIC));
        fields_put(&record, &identity_fields, identity);
        err = lmdb_meta_put(txn, LMDB_IDENTITY, &record);
        record.len = 0;
    }
    if (err == 0 && has != LMDB_FORMAT_VERSION) {
        fields_put(&record, &fields, owed);
        err = lmdb_meta_put(txn, LMDB_OWED, &record);
    } else if (err == 0 && had > LMDB_FORMAT_VERSION) {
        err = meta_delete(txn, LMDB_OWED);
    }
    buf_put_u64(&now, mdb_txn_id(txn->txn));
    fields_put(&now, &now_fields, after);
    buf_put_str32(&now, position->conf, position->conf_len);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS && err == 0; i++) {
        const struct store_local *local = after->locals[i];
        BUF_LOCAL(payload);

        ASSERT_IMPLIES(before != NULL && before->locals[i] != NULL, local != NULL);
        if (local != NULL && (before == NULL || local != before->locals[i])) {
            ASSERT(local->len >= 1 && local->len <= LIMIT_LOCAL_RECORD_BYTES);
            buf_put(&payload, local->data, local->len);
            err = lmdb_meta_put(txn, local_name(i, name), &payload);
        }
        if (local != NULL) {
            buf_put_u16(&now, (uint16_t)i);
            buf_put_u32(&now, local->checksum);
        }
    }
    return err != 0 ? err : lmdb_meta_put(txn, LMDB_NOW, &now);
}

/* --- load --- */

/* Where a load puts the data; loaded and row_fn may be NULL. */
struct load {
    struct lmdb_txn txn;
    struct store_meta meta;
    struct store_loaded *loaded;
    store_row_fn row_fn;
    void *data;
    uint64_t index;  /* of the entry that must come next */
    uint64_t term;   /* of the entry before */
    uint64_t digest; /* of the rows so far */
    struct lmdb_owed owed;
    struct buf pieces; /* of the entry, one after the other */
};

/* lmdb_record_fn: the record must be the entry at load->index, of a term not below load->term. */
static int load_entry(void *data, const MDB_val *key, const MDB_val *value)
{
    struct load *load = data;
    struct store_error *error = load->txn.error;
    uint64_t index = load->index;
    struct store_entry entry;
    struct reader reader;
    char name[LMDB_RECORD_NAME_BYTES];
    int err;

    if (key->mv_size != LMDB_LOG_KEY_BYTES || log_index(key->mv_data) != index) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is missing: %s is in its place", index,
                               lmdb_record_name(LMDB_LOG, key, name));
    }
    err = lmdb_record_open(LMDB_LOG, key, value, &reader, error);
    if (err != 0) {
        return err;
    }
    entry.term = reader_u64(&reader);
    entry.type = reader_u8(&reader);
    if ((entry.type & LMDB_IN_PIECES) != 0 && index <= load->owed.pieces) {
        entry.type &= (uint8_t)~LMDB_IN_PIECES;
        load->pieces.len = 0;
        err = read_pieces(&load->txn, index, &reader, &load->pieces);
        if (err != 0) {
            return err;
        }
        reader_init(&reader, load->pieces.data, load->pieces.len);
    }
    entry.len = (uint32_t)reader_left(&reader);
    entry.data = reader_bytes(&reader, entry.len);
    if (reader.bad || entry.type < 1 || entry.type > 3 || entry.len > LIMIT_ENTRY_BYTES) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is malformed: type %u, %" PRIu32 " bytes",
                               index, entry.type, entry.len);
    }
    if (entry.term < load->term || entry.term == 0 || entry.term > load->meta.term) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64 " after %" PRIu64
                               ", hard state's is %" PRIu64,
                               index, entry.term, load->term, load->meta.term);
    }
    if (index == load->meta.position.index && entry.term != load->meta.position.term) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64
                               ", but the state has applied one of term %" PRIu64,
                               index, entry.term, load->meta.position.term);
    }
    if (index > load->meta.last_index) {
        return store_error_set(error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is beyond the last, %" PRIu64, index,
                               load->meta.last_index);
    }
    ASSERT(index >= load->meta.first_index);
    load->term = entry.term;
    load->index++;
    if (load->loaded != NULL) {
        store_loaded_add(load->loaded, &entry);
    }
    return 0;
}

static int load_log(struct load *load)
{
    const struct store_meta *meta = &load->meta;
    int err;

    ASSERT(meta->first_index >= 1 && meta->last_index + 1 >= meta->first_index);
    load->index = meta->first_index;
    err = lmdb_record_each(&load->txn, LMDB_LOG, load_entry, load);
    if (err != 0) {
        return err;
    }
    if (load->index != meta->last_index + 1) {
        return store_error_set(load->txn.error, ERR_CORRUPT,
                               "log entry %" PRIu64 " is missing: the log must reach %" PRIu64,
                               load->index, meta->last_index);
    }
    if (load->index > meta->first_index && load->term != meta->last_term) {
        return store_error_set(load->txn.error, ERR_CORRUPT,
                               "log entry %" PRIu64 ": term %" PRIu64 ", meta says %" PRIu64,
                               meta->last_index, load->term, meta->last_term);
    }
    ASSERT(load->loaded == NULL ||
           load->loaded->entry_count == meta->last_index + 1 - meta->first_index);
    return 0;
}

/* lmdb_record_fn */
static int load_state_row(void *data, const MDB_val *key, const MDB_val *value)
{
    struct load *load = data;
    struct store_error *error = load->txn.error;
    struct reader reader;
    struct state_row row;
    char name[LMDB_RECORD_NAME_BYTES];
    int err = lmdb_record_open(LMDB_STATE, key, value, &reader, error);

    if (err != 0) {
        return err;
    }
    row.key = key->mv_data;
    row.key_len = (uint32_t)key->mv_size;
    row.value_len = (uint32_t)reader_left(&reader);
    row.value = reader_bytes(&reader, row.value_len);
    if (row.key_len > LIMIT_ROW_KEY_BYTES || row.value_len == 0 ||
        row.value_len > LIMIT_ROW_VALUE_BYTES) {
        return store_error_set(error, ERR_CORRUPT, "%s is malformed: %" PRIu32 " bytes",
                               lmdb_record_name(LMDB_STATE, key, name), row.value_len);
    }
    load->digest += hash_row(row.key, row.key_len, row.value, row.value_len);
    if (load->row_fn != NULL && (err = load->row_fn(load->data, &row)) != 0) {
        (void)store_error_set(error, err, "%s was refused: %s",
                              lmdb_record_name(LMDB_STATE, key, name), err_text(err));
    }
    return err;
}

int lmdb_load(const struct lmdb_env *env, struct store_loaded *ret_loaded, store_row_fn row_fn,
              void *data, struct store_error *ret_error)
{
    struct store_loaded loaded = {0};
    struct load load = {
        .loaded = ret_loaded != NULL ? &loaded : NULL, .row_fn = row_fn, .data = data};
    char name[NAME_BYTES];
    struct reader reader;
    struct state_row row;
    int err = lmdb_begin(env, MDB_RDONLY, &load.txn, ret_error);

    if (err != 0) {
        return err;
    }
    err = lmdb_meta_read(&load.txn, &loaded.identity, &load.meta, &load.owed);
    if (err == 0) {
        err = load_log(&load);
    }
    if (err == 0) {
        err = lmdb_record_each(&load.txn, LMDB_STATE, load_state_row, &load);
    }
    if (err == 0) {
        struct store_position table = load.meta.position;

        table.digest = load.owed.digest;
        err = store_meta_verify_digest(&table, load.digest, ret_error);
    }
    /* Each slice exists and consists of rows. Their digest is checked once they are in place. */
    for (uint32_t i = load.owed.first; i < load.owed.end && err == 0; i++) {
        err = lmdb_meta_get(&load.txn, slice_name(i, name), &reader);
        while (err == 0 && store_rows_next(&reader, &row)) {
        }
        if (err == 0 && !reader_done(&reader)) {
            err = malformed_row(&load.txn, name);
        }
    }
    lmdb_abort(&load.txn);
    buf_free(&load.pieces);
    if (err == 0 && ret_loaded != NULL) {
        store_meta_load(&load.meta, &loaded);
        *ret_loaded = loaded;
    } else {
        store_loaded_release(&loaded);
    }
    store_meta_release(&load.meta);
    return err;
}
