/*
 * store_mem.c - see store_mem.h.
 *
 * The happy path: commit() steps the meta and changes log and rows op by op, noting how to undo
 * each; when the whole list fitted the notes are thrown away, else they are played back in reverse.
 *
 * Entries and rows are immutable once made and have one owner: the log, the tree, or an undo note.
 *
 * Failure modes: as store.h; faults by countdown. Thread: one at a time.
 */
#include "storage/store_mem.h"

#include <bsd/sys/tree.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "storage/store_meta.h"

struct mem_row {
    RB_ENTRY(mem_row) link;
    struct store_row row; /* points into bytes */
    uint8_t bytes[];      /* key, value */
};

RB_HEAD(mem_rows, mem_row);

/* The log, from some first index on; data of entries owned. */
struct mem_log {
    struct store_entry *entries;
    size_t count;
    size_t capacity;
};

enum mem_undo_kind { MEM_UNDO_APPEND, MEM_UNDO_ROW, MEM_UNDO_INSTALL };

/* How to take back one change. */
struct mem_undo {
    SLIST_ENTRY(mem_undo) link;
    enum mem_undo_kind kind;
    size_t keep;            /* APPEND: entries that were left in front of the appended ones */
    struct mem_log log;     /* APPEND: what was cut off; INSTALL: the whole log before */
    struct mem_row *now;    /* ROW; NULL: deleted */
    struct mem_row *before; /* ROW; NULL: there was none */
    struct mem_rows rows;   /* INSTALL: the rows before */
};

SLIST_HEAD(mem_undo_list, mem_undo);

struct store_snapshot {
    LIST_ENTRY(store_snapshot) link;
    struct store_position position; /* owned */
    struct buf rows;                /* records, all of them */
    size_t at;
};

struct store_mem {
    struct store store;
    struct store_identity identity;
    struct store_meta meta;
    struct mem_log log; /* entries [meta.first_index, meta.last_index] */
    struct mem_rows rows;
    LIST_HEAD(, store_snapshot) snapshots;
    size_t snapshot_count;
    unsigned fail_in; /* commits until one fails; 0: never */
    int fail_err;
    bool closed;
};

static int rows_compare(struct mem_row *a, struct mem_row *b)
{
    if (store_key_less(a->row.key, a->row.key_len, b->row.key, b->row.key_len)) {
        return -1;
    }
    return store_key_less(b->row.key, b->row.key_len, a->row.key, a->row.key_len) ? 1 : 0;
}

RB_PROTOTYPE_INTERNAL(mem_rows, mem_row, link, rows_compare, static __attribute__((unused)))

static struct store_mem *mem_of(struct store *store);
static void log_free(struct mem_log *log);
static void rows_free(struct mem_rows *rows);
static int commit_op(struct store_mem *mem, const struct store_op *op, struct mem_undo_list *undo,
                     struct store_error *ret_error);
static void undo_play(struct store_mem *mem, struct mem_undo_list *undo);
static void undo_forget(struct mem_undo_list *undo);
static void log_drop_front(struct mem_log *log, uint64_t count);

static int mem_load(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn,
                    void *data, struct store_error *ret_error)
{
    struct store_mem *mem = mem_of(store);
    struct store_loaded loaded = {.identity = mem->identity};
    struct mem_row *row;
    uint64_t digest = 0;
    int err = store_meta_verify(&mem->meta, ret_error);

    RB_FOREACH (row, mem_rows, &mem->rows) {
        if (err == 0 && (err = row_fn(data, &row->row)) != 0) {
            (void)store_error_set(ret_error, err, "a row was refused: %s", err_text(err));
        }
        digest += hash_row(row->row.key, row->row.key_len, row->row.value, row->row.value_len);
    }
    if (err == 0) {
        err = store_meta_verify_digest(&mem->meta.position, digest, ret_error);
    }
    if (err != 0) {
        return err;
    }
    store_meta_load(&mem->meta, &loaded);
    for (size_t i = 0; i < mem->log.count; i++) {
        store_loaded_add(&loaded, &mem->log.entries[i]);
    }
    *ret_loaded = loaded;
    return 0;
}

static int mem_commit(struct store *store, struct store_op_list *list,
                      struct store_error *ret_error)
{
    struct store_mem *mem = mem_of(store);
    struct mem_undo_list undo = SLIST_HEAD_INITIALIZER(undo);
    struct store_meta before;
    struct store_op *op;
    int err = 0;

    if (mem->fail_in > 0 && --mem->fail_in == 0) {
        return store_error_set(ret_error, mem->fail_err, "commit failed as the test asked");
    }
    store_meta_copy(&before, &mem->meta);
    STAILQ_FOREACH (op, list, link) {
        err = commit_op(mem, op, &undo, ret_error);
        if (err != 0) {
            break;
        }
    }
    if (err != 0) {
        undo_play(mem, &undo);
        store_meta_release(&mem->meta);
        mem->meta = before;
        return err;
    }
    undo_forget(&undo);
    store_meta_release(&before);
    log_drop_front(&mem->log, store_meta_compact(&mem->meta));
    ASSERT(mem->log.count == mem->meta.last_index + 1 - mem->meta.first_index);
    return 0;
}

static int mem_snapshot_open(struct store *store, struct store_snapshot **ret_snapshot,
                             struct store_position *ret_position)
{
    struct store_mem *mem = mem_of(store);
    struct store_snapshot *snapshot;
    struct mem_row *row;

    if (mem->snapshot_count == LIMIT_STORE_SNAPSHOTS) {
        return ERR_OVERLOADED;
    }
    snapshot = calloc(1, sizeof *snapshot);
    ASSERT(snapshot != NULL);
    store_position_copy(&snapshot->position, &mem->meta.position);
    RB_FOREACH (row, mem_rows, &mem->rows) {
        buf_put_str16(&snapshot->rows, row->row.key, row->row.key_len);
        buf_put_str32(&snapshot->rows, row->row.value, row->row.value_len);
    }
    LIST_INSERT_HEAD(&mem->snapshots, snapshot, link);
    mem->snapshot_count++;
    *ret_snapshot = snapshot;
    *ret_position = snapshot->position;
    return 0;
}

static int mem_snapshot_read(struct store *store, struct store_snapshot *snapshot, size_t max_bytes,
                             struct buf *chunk, bool *ret_end)
{
    struct reader reader;
    struct store_row row;
    size_t end = snapshot->at;

    (void)mem_of(store);
    reader_init(&reader, snapshot->rows.data, snapshot->rows.len);
    (void)reader_bytes(&reader, snapshot->at);
    while (store_rows_next(&reader, &row)) {
        if (reader.at - snapshot->at > max_bytes && end > snapshot->at) {
            break;
        }
        end = reader.at;
    }
    ASSERT(!reader.bad);
    if (end > snapshot->at) {
        buf_put(chunk, snapshot->rows.data + snapshot->at, end - snapshot->at);
    }
    snapshot->at = end;
    *ret_end = snapshot->at == snapshot->rows.len;
    return 0;
}

static void mem_snapshot_close(struct store *store, struct store_snapshot *snapshot)
{
    struct store_mem *mem = mem_of(store);

    ASSERT(mem->snapshot_count > 0);
    mem->snapshot_count--;
    LIST_REMOVE(snapshot, link);
    store_position_release(&snapshot->position);
    buf_free(&snapshot->rows);
    free(snapshot);
}

static void mem_space(struct store *store, struct store_space *ret_space)
{
    struct store_mem *mem = mem_of(store);
    struct mem_row *row;

    *ret_space = (struct store_space){.disk_free_bytes = UINT64_MAX};
    RB_FOREACH (row, mem_rows, &mem->rows) {
        ret_space->used_bytes += row->row.key_len + row->row.value_len;
    }
    for (size_t i = 0; i < mem->log.count; i++) {
        ret_space->used_bytes += mem->log.entries[i].len;
    }
}

static void mem_close(struct store *store)
{
    struct store_mem *mem = mem_of(store);

    while (!LIST_EMPTY(&mem->snapshots)) {
        mem_snapshot_close(store, LIST_FIRST(&mem->snapshots));
    }
    mem->closed = true;
}

static const struct store_ops mem_ops = {
    .load = mem_load,
    .commit = mem_commit,
    .snapshot_open = mem_snapshot_open,
    .snapshot_read = mem_snapshot_read,
    .snapshot_close = mem_snapshot_close,
    .space = mem_space,
    .close = mem_close,
};

struct store *store_mem_new(const struct store_identity *identity)
{
    struct store_mem *mem = calloc(1, sizeof *mem);

    ASSERT(mem != NULL);
    mem->store.ops = &mem_ops;
    mem->identity = *identity;
    store_meta_init(&mem->meta);
    RB_INIT(&mem->rows);
    LIST_INIT(&mem->snapshots);
    return &mem->store;
}

void store_mem_reopen(struct store *store)
{
    struct store_mem *mem = CONTAINER(store, struct store_mem, store);

    ASSERT(mem->closed);
    mem->closed = false;
    mem->meta.compact_to = 0;
}

void store_mem_free(struct store *store)
{
    struct store_mem *mem = CONTAINER(store, struct store_mem, store);

    if (!mem->closed) {
        mem_close(store);
    }
    log_free(&mem->log);
    rows_free(&mem->rows);
    store_meta_release(&mem->meta);
    free(mem);
}

void store_mem_fail_commit(struct store *store, unsigned k, int err)
{
    struct store_mem *mem = mem_of(store);

    ASSERT_IMPLIES(k > 0, err != 0);
    mem->fail_in = k;
    mem->fail_err = err;
}

RB_GENERATE_INTERNAL(mem_rows, mem_row, link, rows_compare, static __attribute__((unused)))

static struct store_mem *mem_of(struct store *store)
{
    struct store_mem *mem = CONTAINER(store, struct store_mem, store);

    ASSERT(store->ops == &mem_ops);
    ASSERT(!mem->closed);
    return mem;
}

static void log_free(struct mem_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        free((void *)(uintptr_t)log->entries[i].data);
    }
    free(log->entries);
    *log = (struct mem_log){0};
}

/* Takes over the entry's data. */
static void log_push(struct mem_log *log, const struct store_entry *entry)
{
    log->entries = array_room(log->entries, log->count, &log->capacity, sizeof *log->entries);
    log->entries[log->count++] = *entry;
}

/* Move all entries from `keep` on to the end of another log. */
static void log_cut(struct mem_log *log, size_t keep, struct mem_log *ret_tail)
{
    ASSERT(keep <= log->count);
    for (size_t i = keep; i < log->count; i++) {
        log_push(ret_tail, &log->entries[i]);
    }
    log->count = keep;
}

static void log_drop_front(struct mem_log *log, uint64_t count)
{
    ASSERT(count <= log->count);
    if (count == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)log->entries[i].data);
    }
    log->count -= count;
    memmove(log->entries, log->entries + count, log->count * sizeof *log->entries);
}

static void rows_free(struct mem_rows *rows)
{
    struct mem_row *row;

    while ((row = RB_ROOT(rows)) != NULL) {
        RB_REMOVE(mem_rows, rows, row);
        free(row);
    }
}

static struct mem_row *row_new(const struct store_row *from)
{
    struct mem_row *row = malloc(sizeof *row + from->key_len + from->value_len);

    ASSERT(row != NULL);
    memcpy(row->bytes, from->key, from->key_len);
    if (from->value_len > 0) {
        memcpy(row->bytes + from->key_len, from->value, from->value_len);
    }
    row->row = *from;
    row->row.key = row->bytes;
    row->row.value = row->bytes + from->key_len;
    return row;
}

static struct mem_undo *undo_new(struct mem_undo_list *undo, enum mem_undo_kind kind)
{
    struct mem_undo *note = calloc(1, sizeof *note);

    ASSERT(note != NULL);
    note->kind = kind;
    RB_INIT(&note->rows);
    SLIST_INSERT_HEAD(undo, note, link);
    return note;
}

/* The log holds [meta.last_index + 1 - count, meta.last_index] while an operation is checked. */
static int mem_term(void *engine, uint64_t index, uint64_t *ret_term, struct store_error *ret_error)
{
    const struct store_mem *mem = engine;
    uint64_t at = index - mem->meta.first_index;

    (void)ret_error;
    ASSERT(index >= mem->meta.first_index && at < mem->log.count);
    *ret_term = mem->log.entries[at].term;
    return 0;
}

static void commit_append(struct store_mem *mem, const struct store_op *op,
                          struct mem_undo_list *undo)
{
    struct mem_undo *note = undo_new(undo, MEM_UNDO_APPEND);

    note->keep = (size_t)(op->index - mem->meta.first_index);
    log_cut(&mem->log, note->keep, &note->log);
    for (uint32_t i = 0; i < op->entry_count; i++) {
        struct store_entry entry = op->entries[i];
        void *copy = malloc(entry.len + 1);

        ASSERT(copy != NULL);
        if (entry.len > 0) {
            memcpy(copy, entry.data, entry.len);
        }
        entry.data = copy;
        log_push(&mem->log, &entry);
    }
}

/* Put or delete one row; *digest moves from the row before to what is there then. */
static int change_row(struct store_mem *mem, const struct store_row *row, uint64_t *digest,
                      struct mem_undo_list *undo, struct store_error *ret_error)
{
    struct mem_row *now = row_new(row);
    struct mem_row *before = RB_FIND(mem_rows, &mem->rows, now);
    struct mem_undo *note;

    if (row->value_len == 0) {
        free(now);
        now = NULL;
        if (before == NULL) {
            return store_error_no_row(ret_error, row);
        }
    }
    note = undo_new(undo, MEM_UNDO_ROW);
    note->now = now;
    note->before = before;
    if (before != NULL) {
        const struct store_row *old = &before->row;

        *digest -= hash_row(old->key, old->key_len, old->value, old->value_len);
        RB_REMOVE(mem_rows, &mem->rows, before);
    }
    if (now != NULL) {
        *digest += hash_row(row->key, row->key_len, row->value, row->value_len);
        RB_INSERT(mem_rows, &mem->rows, now);
    }
    return 0;
}

static int commit_apply(struct store_mem *mem, const struct store_op *op, uint64_t digest,
                        struct mem_undo_list *undo, struct store_error *ret_error)
{
    for (uint32_t i = 0; i < op->row_count; i++) {
        int err = change_row(mem, &op->rows[i], &digest, undo, ret_error);

        if (err != 0) {
            return err;
        }
    }
    return store_meta_verify_digest(&op->position, digest, ret_error);
}

static int commit_install(struct store_mem *mem, const struct store_op *op,
                          struct mem_undo_list *undo, struct store_error *ret_error)
{
    struct mem_undo *note;
    struct reader reader;
    struct store_row row;
    int err =
        store_rows_check(op->rows_stream, op->rows_stream_len, op->position.digest, ret_error);

    if (err != 0) {
        return err;
    }
    note = undo_new(undo, MEM_UNDO_INSTALL);
    note->log = mem->log;
    note->rows = mem->rows;
    mem->log = (struct mem_log){0};
    RB_INIT(&mem->rows);
    reader_init(&reader, op->rows_stream, op->rows_stream_len);
    while (store_rows_next(&reader, &row)) {
        RB_INSERT(mem_rows, &mem->rows, row_new(&row));
    }
    return 0;
}

static int commit_op(struct store_mem *mem, const struct store_op *op, struct mem_undo_list *undo,
                     struct store_error *ret_error)
{
    uint64_t digest = mem->meta.position.digest;
    int err = store_meta_step(&mem->meta, op, mem_term, mem, ret_error);

    if (err != 0) {
        return err;
    }
    switch (op->kind) {
    case STORE_APPEND:
        commit_append(mem, op, undo);
        return 0;
    case STORE_APPLY:
        return commit_apply(mem, op, digest, undo, ret_error);
    case STORE_INSTALL:
        return commit_install(mem, op, undo, ret_error);
    case STORE_HARD_STATE:
    case STORE_COMPACT:
    case STORE_LOCAL:
        return 0; /* the meta alone; entries are dropped once the whole list fitted */
    }
    UNREACHABLE("kind of a store operation");
}

static void undo_play(struct store_mem *mem, struct mem_undo_list *undo)
{
    struct mem_undo *note;

    while ((note = SLIST_FIRST(undo)) != NULL) {
        struct mem_log gone = {0};

        SLIST_REMOVE_HEAD(undo, link);
        switch (note->kind) {
        case MEM_UNDO_APPEND:
            log_cut(&mem->log, note->keep, &gone);
            log_free(&gone);
            log_cut(&note->log, 0, &mem->log);
            log_free(&note->log);
            break;
        case MEM_UNDO_ROW:
            if (note->now != NULL) {
                RB_REMOVE(mem_rows, &mem->rows, note->now);
                free(note->now);
            }
            if (note->before != NULL) {
                RB_INSERT(mem_rows, &mem->rows, note->before);
            }
            break;
        case MEM_UNDO_INSTALL:
            log_free(&mem->log);
            rows_free(&mem->rows);
            mem->log = note->log;
            mem->rows = note->rows;
            break;
        }
        free(note);
    }
}

static void undo_forget(struct mem_undo_list *undo)
{
    struct mem_undo *note;

    while ((note = SLIST_FIRST(undo)) != NULL) {
        SLIST_REMOVE_HEAD(undo, link);
        log_free(&note->log);
        rows_free(&note->rows);
        free(note->before);
        free(note);
    }
}
