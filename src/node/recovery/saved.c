/*
 * saved.c - see saved.h: the rows of a saved state: reading and writing them. Thread: main.
 */
#include "src/node/recovery/saved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/prng.h"
#include "src/id/codec/backup_file.h"
#include "src/id/codec/tag.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/state/state_tables.h"
#include "storage/lmdb/dir.h"
#include "storage/lmdb/store.h"

/* --- the rows --- */

struct saved_row *saved_add(struct saved *saved, const void *key, size_t key_len, const void *value,
                            size_t value_len)
{
    struct saved_row *row;

    saved->rows = array_room(saved->rows, saved->count, &saved->capacity, sizeof *saved->rows);
    row = &saved->rows[saved->count++];
    *row = (struct saved_row){
        .key_len = (uint32_t)key_len, .value_len = (uint32_t)value_len, .added = saved->count - 1};
    row->key = MUST_HAVE(malloc(key_len + value_len));
    ASSERT(key_len > 0);
    memcpy(row->key, key, key_len);
    if (value_len > 0) {
        memcpy(row->key + key_len, value, value_len);
    }
    return row;
}

static int compare_row_keys(const struct saved_row *a, const struct saved_row *b)
{
    size_t len = a->key_len < b->key_len ? a->key_len : b->key_len;
    int order = memcmp(a->key, b->key, len);

    return order != 0 ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

/* Rows of one key keep the order they were added in. */
static int saved_row_order(const void *one, const void *other)
{
    const struct saved_row *a = one;
    const struct saved_row *b = other;
    int order = compare_row_keys(a, b);

    return order != 0 ? order : (a->added > b->added) - (a->added < b->added);
}

void saved_sort(struct saved *saved)
{
    size_t kept = 0;

    if (saved->count > 0) {
        qsort(saved->rows, saved->count, sizeof *saved->rows, saved_row_order);
    }
    for (size_t i = 0; i < saved->count; i++) {
        struct saved_row *row = &saved->rows[i];
        bool last = i + 1 == saved->count || compare_row_keys(row, row + 1) != 0;

        if (last && row->value_len > 0) {
            saved->rows[kept++] = *row;
        } else {
            free(row->key);
        }
    }
    saved->count = kept;
}

void saved_free(struct saved *saved)
{
    for (size_t i = 0; i < saved->count; i++) {
        free(saved->rows[i].key);
    }
    free(saved->rows);
    *saved = (struct saved){0};
}

/* --- reading --- */

#define MAP_BYTES (1 << 20) /* LMDB raises it to the file's size */
#define ENTRY_COMMAND 1     /* store_entry.type */

/* --- a backup --- */

static int read_backup_file(const char *path, struct buf *out, struct store_error *ret_error)
{
    int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* does not wait for a FIFO */
    struct stat st = {0};
    ssize_t got = 1;

    if (fd < 0 || fstat(fd, &st) != 0) {
        return store_error_set(ret_error, ERR_IO, "cannot open %.150s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > LIMIT_BACKUP_FILE_BYTES) {
        (void)close(fd);
        return store_error_set(ret_error, ERR_TOO_LARGE,
                               "%.150s is not a regular file of at most %llu bytes", path,
                               LIMIT_BACKUP_FILE_BYTES);
    }
    buf_reserve(out, (size_t)st.st_size + 1);
    while (got > 0 && out->len < out->capacity) {
        got = read(fd, out->data + out->len, out->capacity - out->len);
        out->len += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    return got == 0 ? 0
                    : store_error_set(ret_error, ERR_IO, "cannot read %.150s: %s", path,
                                      got < 0 ? strerror(errno) : "it grows");
}

/* Growth of a tag in ids. It may have shrunk: by returned ids, or set back by force. */
static uint64_t grown(const struct saved_row *row, uint64_t from)
{
    struct tag_row tag;

    if (tag_row_decode((const char *)row->key + 1, row->key_len - 1, saved_value(row),
                       row->value_len, &tag) != 0) {
        return 0; /* loading the rows will report it */
    }
    return tag.max_id > from ? tag.max_id - from : 0;
}

/* The rows of a block; growth: of their tags, or NULL. Listed rows are in their order. */
static void add_rows(struct saved *saved, struct reader *records, struct backup_block *growth,
                     uint16_t format)
{
    static const char level[] = "s" STATE_SETTING_LEVEL;
    struct backup_tag_growth tag;
    bool has_tag = growth != NULL && backup_growth_next(growth, &tag);
    struct backup_row row;

    while (backup_row_next(records, &row)) {
        bool listed = has_tag && row.key[0] == FSM_TABLE_TAGS &&
                      row.key_len == 1 + (size_t)tag.name_len &&
                      memcmp(row.key + 1, tag.name, tag.name_len) == 0;
        struct saved_row *added;

        if (format == BACKUP_FORMAT_DEV && row.key_len == sizeof level - 1 &&
            memcmp(row.key, level, sizeof level - 1) == 0) {
            continue; /* of a level that is unknown here */
        }
        added = saved_add(saved, row.key, row.key_len, row.value, row.value_len);
        if (row.key[0] != FSM_TABLE_TAGS || growth == NULL) {
            continue;
        }
        if (listed || growth->growth.whole) {
            added->grew = listed ? grown(added, tag.max_id) : 0;
            added->span_ms = growth->growth.until_ms - growth->growth.since_ms;
        }
        if (listed) {
            has_tag = backup_growth_next(growth, &tag);
        }
    }
}

int read_backup(const char *path, struct saved *ret_saved, struct store_error *ret_error)
{
    struct backup_totals totals;
    struct backup_error error = {""};
    struct backup_block growth = {0};
    struct backup_block block;
    struct backup_reader reader;
    struct backup_head head;
    BUF_LOCAL(file);
    int err = read_backup_file(path, &file, ret_error);

    *ret_saved = (struct saved){0};
    if (err == 0) {
        err = backup_verify(file.data, file.len, &head, &totals, &error);
        err = err == 0 ? 0 : store_error_set(ret_error, err, "%s", error.text);
    }
    if (err != 0) {
        return err;
    }
    memcpy(ret_saved->cluster_id, head.cluster_id, sizeof ret_saved->cluster_id);
    memcpy(ret_saved->version, head.version, sizeof ret_saved->version);
    ret_saved->uid = (struct uid){head.uid[0], head.uid[1]};
    ret_saved->node_id = head.node_id;
    ret_saved->index = head.index;
    ret_saved->term = head.term;
    ret_saved->wall_ms = head.wall_ms;
    ret_saved->local = head.local;
    backup_reader_init(&reader, file.data, file.len);
    while (backup_next(&reader, &block)) {
        if (block.kind == BACKUP_GROWTH) {
            growth = block;
        } else {
            add_rows(ret_saved, &block.payload, growth.kind == BACKUP_GROWTH ? &growth : NULL,
                     head.format);
            growth = (struct backup_block){0};
        }
    }
    return 0;
}

/* --- a directory --- */

/* While a store is loaded, its rows go into the list, if they are wanted, and into the state
 * machine. */
struct loading {
    struct saved *saved;
    bool with_rows;
    struct state *state;
};

static int add_row(void *data, const struct state_row *row)
{
    struct loading *loading = data;

    if (loading->with_rows) {
        saved_add(loading->saved, row->key, row->key_len, row->value, row->value_len);
    }
    return state_load_row(loading->state, row);
}

/* The rows of the log's entries, and the node's own address in its state. */
static int take_entries(struct loading *loading, const struct store_loaded *loaded,
                        struct store_error *ret_error)
{
    struct saved *saved = loading->saved;
    const struct conf_member *member = configuration_find(&saved->members, saved->node_id);
    const char *moved;
    int err = prepare_check_entries(loading->state, loaded, ret_error);

    for (size_t i = 0; i < loaded->entry_count && err == 0; i++) {
        const struct store_entry *entry = &loaded->entries[i];
        uint64_t index = loaded->first_index + i;
        struct row_changes changes = {0};
        BUF_LOCAL(result);

        if (index <= loaded->position.index || entry->type != ENTRY_COMMAND) {
            continue; /* the rows have it */
        }
        /* Bytes that are no command change nothing, on nodes too. */
        if (state_apply(loading->state, index, entry->term, entry->data, entry->len, &result,
                        &changes) == ERR_DIVERGED) {
            err = store_error_set(ret_error, ERR_DIVERGED,
                                  "entry %" PRIu64 " of its log says that its state is not the "
                                  "cluster's: take another survivor",
                                  index);
        }
        for (size_t k = 0; k < changes.count; k++) {
            const struct state_row *row = &changes.items[k];

            saved_add(saved, row->key, row->key_len, row->value, row->value_len);
        }
        row_changes_release(&changes);
    }
    moved = state_member_address(loading->state, saved->node_id);
    if (moved != NULL) {
        (void)snprintf(saved->address, sizeof saved->address, "%s", moved);
    } else if (member != NULL) {
        memcpy(saved->address, member->address, sizeof saved->address);
    }
    saved_sort(saved);
    return err;
}

static int take_loaded(struct loading *loading, const struct store_loaded *loaded,
                       struct store_error *ret_error)
{
    struct saved *saved = loading->saved;
    size_t count = loaded->entry_count;
    const void *conf = loaded->position.conf;
    size_t conf_len = loaded->position.conf_len;
    const struct birth *birth;
    int err = state_load_end(loading->state, loaded->position.index);

    if (err != 0) {
        return store_error_set(ret_error, err, "its rows contradict each other");
    }
    if (loading->with_rows && prepare_is_empty(loaded)) {
        return store_error_set(ret_error, ERR_NOT_FOUND, "it holds no log and no state");
    }
    memcpy(saved->cluster_id, loaded->identity.cluster_id, sizeof saved->cluster_id);
    saved->node_id = loaded->identity.node_id;
    saved->index = loaded->first_index + count - 1;
    saved->log_term = count > 0 ? loaded->entries[count - 1].term : loaded->position.term;
    /* An impossible term would be refused; the new cluster's log begins anew anyway. */
    saved->term = saved->log_term < LIMIT_PLAUSIBLE ? saved->log_term : 1;
    saved->tail = saved->index - loaded->position.index;
    saved->local = true;
    /* The newest configuration of the log, committed or not. */
    for (size_t i = count; i > 0; i--) {
        const struct store_entry *entry = &loaded->entries[i - 1];

        if (entry->type != ENTRY_COMMAND && configuration_check(entry->data, entry->len) == 0) {
            conf = entry->data;
            conf_len = entry->len;
            break;
        }
    }
    if (configuration_decode(conf, conf_len, &saved->members) != 0) {
        saved->members.count = 0;
    }
    err = loading->with_rows ? take_entries(loading, loaded, ret_error) : 0;
    birth = state_birth(loading->state);
    if (birth != NULL) { /* perhaps in the log alone */
        saved->uid = birth->uid;
    }
    return err;
}

int read_survivor(const char *dir, bool with_rows, struct saved *ret_saved,
                  struct store_error *ret_error)
{
    const struct store_lmdb_config config = {
        .use = STORE_LMDB_LOOK, .dir = dir, .map_bytes = MAP_BYTES};
    struct loading loading = {ret_saved, with_rows, NULL};
    struct store_loaded loaded;
    struct store *store;
    bool made;
    int err;

    *ret_saved = (struct saved){0};
    err = store_lmdb_open(&config, &store, &made, ret_error);
    if (err != 0) {
        return err;
    }
    loading.state = state_new(&fsm_machine);
    state_load_begin(loading.state);
    err = store->ops->load(store, &loaded, add_row, &loading, ret_error);
    store->ops->close(store);
    if (err == 0) {
        err = take_loaded(&loading, &loaded, ret_error);
        store_loaded_release(&loaded);
    }
    state_free(loading.state);
    if (err != 0) {
        saved_free(ret_saved);
    }
    return err;
}

/* --- writing --- */

#define MAP_MIN_BYTES (64ULL << 20)
#define MAP_FACTOR 4 /* rows in pages, and the copy that a transaction makes */

int fresh_check(const char *dir, struct store_error *ret_error)
{
    DIR *open = opendir(dir);
    struct dirent *entry;
    int err = 0;

    if (open == NULL) {
        return errno == ENOENT ? 0
                               : store_error_set(ret_error, ERR_IO, "cannot look into %.150s: %s",
                                                 dir, strerror(errno));
    }
    while (err == 0 && (entry = readdir(open)) != NULL) {
        if (!lmdb_dir_is_left(entry->d_name)) {
            err = store_error_set(ret_error, ERR_EXISTS,
                                  "%.120s is not empty: there is %.60s in it. Name a directory "
                                  "that is empty, or not there yet",
                                  dir, entry->d_name);
        }
    }
    (void)closedir(open);
    return err;
}

int fresh_check_outside(const char *dir, const char *source, struct store_error *ret_error)
{
    char name[LIMIT_PATH_BYTES + 1];
    char inner[PATH_MAX];
    char outer[PATH_MAX];
    const char *at = name;
    size_t len;

    if (realpath(source, outer) == NULL) {
        return store_error_set(ret_error, ERR_IO, "cannot look at %.150s: %s", source,
                               strerror(errno));
    }
    (void)snprintf(name, sizeof name, "%s", dir);
    while (realpath(at, inner) == NULL) { /* its last element does not exist */
        if (strcmp(at, ".") == 0) {
            return store_error_set(ret_error, ERR_IO, "there is no working directory: %s",
                                   strerror(errno));
        }
        at = dirname(name);
    }
    len = strcmp(outer, "/") != 0 ? strlen(outer) : 0;
    if (strncmp(inner, outer, len) != 0 || (inner[len] != '/' && inner[len] != '\0')) {
        return 0;
    }
    return store_error_set(ret_error, ERR_EXISTS,
                           "%.120s is in %.120s, which stays as it is: name a directory elsewhere",
                           dir, source);
}

int fresh_write(const struct fresh *fresh, struct store_error *ret_error)
{
    struct configuration configuration = {0};
    BUF_LOCAL(conf);
    BUF_LOCAL(starts);
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op term = {.kind = STORE_HARD_STATE, .term = fresh->term};
    struct store_op install = {
        .kind = STORE_INSTALL, .rows_stream = fresh->rows, .rows_stream_len = fresh->rows_len};
    struct store_op incarnation = {.kind = STORE_LOCAL, .local_key = LOCAL_INCARNATION};
    struct store_lmdb_config config = {
        .use = STORE_LMDB_FRESH,
        .dir = fresh->dir,
        /* in pages of any size, a power of two up to 64 KiB */
        .map_bytes = (MAP_MIN_BYTES + MAP_FACTOR * (uint64_t)fresh->rows_len) & ~UINT64_C(0xffff),
        .identity = {.node_id = fresh->node_id, .store_id = prng_entropy()},
        .loose_mode = true, /* the node that starts on it checks the mode */
        .first = &list};
    struct store *store;
    bool made;
    int err;

    configuration_add(&configuration, fresh->node_id, fresh->address, ROLE_VOTER);
    configuration_encode(&configuration, &conf);
    prepare_member_record(1, &starts);
    install.position = (struct store_position){.index = fresh->index,
                                               .term = fresh->term,
                                               .conf_index = fresh->index,
                                               .conf = conf.data,
                                               .conf_len = (uint32_t)conf.len,
                                               .digest = fresh->digest};
    incarnation.local = starts.data;
    incarnation.local_len = (uint32_t)starts.len;
    STAILQ_INSERT_TAIL(&list, &term, link);
    STAILQ_INSERT_TAIL(&list, &install, link);
    STAILQ_INSERT_TAIL(&list, &incarnation, link);
    (void)snprintf(config.identity.cluster_id, sizeof config.identity.cluster_id, "%s",
                   fresh->cluster_id);
    err = store_lmdb_open(&config, &store, &made, ret_error);
    if (err == 0) {
        ASSERT(made);
        store->ops->close(store);
    }
    return err;
}
