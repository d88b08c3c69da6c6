/*
 * store_mem.c - see store_mem.h.
 *
 * The happy path: commit() copies the state, that is its meta and its arrays of pointers, steps the
 * copy op by op, and puts it in the place of the state when the whole list fitted.
 *
 * Entries and rows are immutable once made. A commit notes which ones it made and which ones it
 * dropped: at its end it frees the one list or the other.
 *
 * Failure modes: as store.h; faults by countdown. Thread: one at a time.
 */
#include "storage/tests/store_mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "storage/store.h"

struct mem_row {
    struct state_row row; /* points into bytes */
    uint8_t bytes[];      /* key, value */
};

struct mem_state {
    struct store_meta meta;
    struct store_entry *entries; /* [meta.first_index, meta.last_index]; data owned */
    size_t entry_count;
    size_t entry_capacity;
    struct mem_row **rows; /* in key order, owned */
    size_t row_count;
    size_t row_capacity;
};

struct mem_list {
    void **at;
    size_t count;
    size_t capacity;
};

/* A commit under way. */
struct mem_commit {
    struct mem_state state;
    struct mem_list made;    /* entries' data and rows: freed if the commit fails */
    struct mem_list dropped; /* freed if it does not */
    struct store_error *error;
};

struct mem_view {
    struct store_snapshot snapshot;
    LIST_ENTRY(mem_view) link;
    struct store_position position; /* owned */
    struct buf rows;                /* records, all of them */
    size_t at;
};

struct store_mem {
    struct store store;
    struct store_identity identity;
    struct mem_state state;
    LIST_HEAD(, mem_view) views;
    size_t view_count;
    unsigned fail_in; /* commits until one fails; 0: never */
    int fail_err;
    bool closed;
};

static const struct store_ops mem_ops;

static struct store_mem *mem_of(struct store *store)
{
    struct store_mem *mem = CONTAINER(store, struct store_mem, store);

    ASSERT(store->ops == &mem_ops);
    ASSERT(!mem->closed);
    return mem;
}

/* --- commit --- */

static void *copy_of(const void *bytes, size_t len)
{
    void *copy = MUST_HAVE(malloc(len + 1));

    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static void list_add(struct mem_list *list, const void *memory)
{
    list->at = array_room(list->at, list->count, &list->capacity, sizeof *list->at);
    list->at[list->count++] = (void *)(uintptr_t)memory;
}

static void list_free(struct mem_list *list, bool with_what_is_in_it)
{
    for (size_t i = 0; i < list->count && with_what_is_in_it; i++) {
        free(list->at[i]);
    }
    free(list->at);
}

static void state_copy(struct mem_state *ret_state, const struct mem_state *from)
{
    *ret_state = *from;
    store_meta_copy(&ret_state->meta, &from->meta);
    ret_state->entry_capacity = from->entry_count;
    ret_state->entries = copy_of(from->entries, from->entry_count * sizeof *from->entries);
    ret_state->row_capacity = from->row_count;
    ret_state->rows = copy_of(from->rows, from->row_count * sizeof *from->rows);
}

/* Not what the arrays point to. */
static void state_release(struct mem_state *state)
{
    store_meta_release(&state->meta);
    free(state->entries);
    free(state->rows);
}

/* store_term_fn. The log holds [meta.first_index, meta.last_index] while an operation is checked.
 */
static int mem_term(void *engine, uint64_t index, uint64_t *ret_term)
{
    const struct mem_state *state = engine;
    uint64_t at = index - state->meta.first_index;

    ASSERT(index >= state->meta.first_index && at < state->entry_count);
    *ret_term = state->entries[at].term;
    return 0;
}

static void drop_entries(struct mem_commit *commit, size_t from, size_t count)
{
    struct mem_state *state = &commit->state;

    ASSERT(count <= state->entry_count && from <= state->entry_count - count);
    for (size_t i = from; i < from + count; i++) {
        list_add(&commit->dropped, state->entries[i].data);
    }
    state->entry_count -= count;
    memmove(state->entries + from, state->entries + from + count,
            (state->entry_count - from) * sizeof *state->entries);
}

static void commit_append(struct mem_commit *commit, const struct store_op *op)
{
    struct mem_state *state = &commit->state;
    size_t keep = (size_t)(op->index - state->meta.first_index);

    drop_entries(commit, keep, state->entry_count - keep);
    for (uint32_t i = 0; i < op->entry_count; i++) {
        struct store_entry *entry;

        state->entries = array_room(state->entries, state->entry_count, &state->entry_capacity,
                                    sizeof *state->entries);
        entry = &state->entries[state->entry_count++];
        *entry = op->entries[i];
        entry->data = copy_of(entry->data, entry->len);
        list_add(&commit->made, entry->data);
    }
}

/* The place of the first row whose key is not before this one. */
static size_t row_place(const struct mem_state *state, const struct state_row *row)
{
    size_t low = 0;
    size_t high = state->row_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct state_row *other = &state->rows[middle]->row;

        if (store_key_compare(other->key, other->key_len, row->key, row->key_len) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct mem_row *row_new(const struct state_row *from)
{
    struct mem_row *row = MUST_HAVE(malloc(sizeof *row + from->key_len + from->value_len));

    row->row = *from;
    row->row.key = memcpy(row->bytes, from->key, from->key_len);
    row->row.value = memcpy(row->bytes + from->key_len, from->value, from->value_len);
    return row;
}

static void insert_row(struct mem_commit *commit, size_t place, const struct state_row *from)
{
    struct mem_state *state = &commit->state;
    struct mem_row *row = row_new(from);

    ASSERT(place <= state->row_count);
    list_add(&commit->made, row);
    state->rows =
        array_room(state->rows, state->row_count, &state->row_capacity, sizeof(struct mem_row *));
    memmove(state->rows + place + 1, state->rows + place,
            (state->row_count - place) * sizeof(struct mem_row *));
    state->rows[place] = row;
    state->row_count++;
}

static void drop_row(struct mem_commit *commit, size_t place)
{
    struct mem_state *state = &commit->state;

    ASSERT(place < state->row_count);
    list_add(&commit->dropped, state->rows[place]);
    state->row_count--;
    memmove(state->rows + place, state->rows + place + 1,
            (state->row_count - place) * sizeof(struct mem_row *));
}

static uint64_t digest_of(const struct state_row *row)
{
    return hash_row(row->key, row->key_len, row->value, row->value_len);
}

/* Put or delete one row; *digest moves from the row before to what is there then. */
static int change_row(struct mem_commit *commit, const struct state_row *row, uint64_t *digest)
{
    struct mem_state *state = &commit->state;
    size_t place = row_place(state, row);
    const struct state_row *before = place < state->row_count ? &state->rows[place]->row : NULL;

    if (before != NULL &&
        store_key_compare(row->key, row->key_len, before->key, before->key_len) >= 0) {
        *digest -= digest_of(before);
        drop_row(commit, place);
    } else if (row->value_len == 0) {
        return store_error_no_row(commit->error, row);
    }
    if (row->value_len > 0) {
        *digest += digest_of(row);
        insert_row(commit, place, row);
    }
    return 0;
}

static int commit_apply(struct mem_commit *commit, const struct store_op *op, uint64_t digest)
{
    int err = 0;

    for (uint32_t i = 0; i < op->row_count && err == 0; i++) {
        err = change_row(commit, &op->rows[i], &digest);
    }
    return err != 0 ? err : store_meta_verify_digest(&op->position, digest, commit->error);
}

static int commit_install(struct mem_commit *commit, const struct store_op *op)
{
    struct mem_state *state = &commit->state;
    struct reader reader;
    struct state_row row;
    int err =
        store_rows_check(op->rows_stream, op->rows_stream_len, op->position.digest, commit->error);

    if (err != 0) {
        return err;
    }
    drop_entries(commit, 0, state->entry_count);
    while (state->row_count > 0) {
        drop_row(commit, state->row_count - 1);
    }
    reader_init(&reader, op->rows_stream, op->rows_stream_len);
    while (store_rows_next(&reader, &row)) {
        insert_row(commit, state->row_count, &row);
    }
    return 0;
}

static int commit_op(struct mem_commit *commit, const struct store_op *op)
{
    struct mem_state *state = &commit->state;
    uint64_t digest = state->meta.position.digest;
    int err = store_meta_step(&state->meta, op, mem_term, state, commit->error);

    if (err != 0) {
        return err;
    }
    switch (op->kind) {
    case STORE_APPEND:
        commit_append(commit, op);
        return 0;
    case STORE_APPLY:
        return commit_apply(commit, op, digest);
    case STORE_INSTALL:
        return commit_install(commit, op);
    case STORE_HARD_STATE:
    case STORE_COMPACT:
    case STORE_LOCAL:
        return 0; /* the meta alone; entries are dropped once the whole list fitted */
    case STORE_READ:
        break;
    }
    UNREACHABLE("kind of a store operation");
}

static int mem_commit(struct store *store, struct store_op_list *list,
                      struct store_error *ret_error)
{
    struct store_mem *mem = mem_of(store);
    struct mem_commit commit = {.error = ret_error};
    struct mem_state *state = &commit.state;
    struct store_op *op;
    int err = 0;

    if (mem->fail_in > 0 && --mem->fail_in == 0) {
        return store_error_set(ret_error, mem->fail_err, "commit failed as the test asked");
    }
    state_copy(state, &mem->state);
    STAILQ_FOREACH (op, list, link) {
        err = commit_op(&commit, op);
        if (err != 0) {
            break;
        }
    }
    if (err == 0) {
        struct mem_state before = mem->state;

        drop_entries(&commit, 0, store_meta_compact(&state->meta));
        ASSERT(state->entry_count == state->meta.last_index + 1 - state->meta.first_index);
        mem->state = *state;
        *state = before;
    }
    state_release(state);
    list_free(&commit.made, err != 0);
    list_free(&commit.dropped, err == 0);
    return err;
}

/* --- the other operations --- */

static int mem_load(struct store *store, struct store_loaded *ret_loaded, store_row_fn row_fn,
                    void *data, struct store_error *ret_error)
{
    struct store_mem *mem = mem_of(store);
    const struct mem_state *state = &mem->state;
    struct store_loaded loaded = {.identity = mem->identity};
    uint64_t digest = 0;
    int err = store_meta_verify(&state->meta, ret_error);

    for (size_t i = 0; i < state->row_count && err == 0; i++) {
        err = row_fn != NULL ? row_fn(data, &state->rows[i]->row) : 0;
        if (err != 0) {
            (void)store_error_set(ret_error, err, "a row was refused: %s", err_text(err));
        }
        digest += digest_of(&state->rows[i]->row);
    }
    if (err == 0) {
        err = store_meta_verify_digest(&state->meta.position, digest, ret_error);
    }
    if (err != 0) {
        return err;
    }
    store_meta_load(&state->meta, &loaded);
    for (size_t i = 0; i < state->entry_count; i++) {
        store_loaded_add(&loaded, &state->entries[i]);
    }
    *ret_loaded = loaded;
    return 0;
}

static int mem_snapshot_open(struct store *store, struct store_snapshot **ret_snapshot,
                             struct store_position *ret_position)
{
    struct store_mem *mem = mem_of(store);
    struct mem_view *view;

    if (mem->view_count == LIMIT_STORE_SNAPSHOTS) {
        return ERR_OVERLOADED;
    }
    view = MUST_HAVE(calloc(1, sizeof *view));
    store_position_copy(&view->position, &mem->state.meta.position);
    for (size_t i = 0; i < mem->state.row_count; i++) {
        const struct state_row *row = &mem->state.rows[i]->row;

        buf_put_str16(&view->rows, row->key, row->key_len);
        buf_put_str32(&view->rows, row->value, row->value_len);
    }
    LIST_INSERT_HEAD(&mem->views, view, link);
    mem->view_count++;
    *ret_snapshot = &view->snapshot;
    *ret_position = view->position;
    return 0;
}

static int mem_snapshot_read(struct store *store, struct store_snapshot *snapshot, size_t max_bytes,
                             struct buf *chunk, bool *ret_end)
{
    struct mem_view *view = CONTAINER(snapshot, struct mem_view, snapshot);
    struct reader reader;
    struct state_row row;
    size_t end = view->at;

    (void)mem_of(store);
    if (atomic_load(&snapshot->ended)) {
        return ERR_DISK_FULL;
    }
    reader_init(&reader, view->rows.data, view->rows.len);
    (void)reader_bytes(&reader, view->at);
    while (store_rows_next(&reader, &row)) {
        if (reader.at - view->at > max_bytes && end > view->at) {
            break;
        }
        end = reader.at;
    }
    ASSERT(!reader.bad);
    if (end > view->at) {
        buf_put(chunk, view->rows.data + view->at, end - view->at);
    }
    view->at = end;
    *ret_end = view->at == view->rows.len;
    return 0;
}

static void mem_snapshot_close(struct store *store, struct store_snapshot *snapshot)
{
    struct store_mem *mem = mem_of(store);
    struct mem_view *view = CONTAINER(snapshot, struct mem_view, snapshot);

    ASSERT(mem->view_count > 0);
    mem->view_count--;
    LIST_REMOVE(view, link);
    store_position_release(&view->position);
    buf_free(&view->rows);
    free(view);
}

static void mem_space(struct store *store, struct store_space *ret_space)
{
    (void)mem_of(store);
    *ret_space = (struct store_space){.room_bytes = UINT64_MAX, .disk_free_bytes = UINT64_MAX};
}

static void mem_close(struct store *store)
{
    struct store_mem *mem = mem_of(store);

    while (!LIST_EMPTY(&mem->views)) {
        mem_snapshot_close(store, &LIST_FIRST(&mem->views)->snapshot);
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
    struct store_mem *mem = MUST_HAVE(calloc(1, sizeof *mem));

    mem->store.ops = &mem_ops;
    mem->identity = *identity;
    mem->state.meta.first_index = 1;
    LIST_INIT(&mem->views);
    return &mem->store;
}

void store_mem_reopen(struct store *store)
{
    struct store_mem *mem = CONTAINER(store, struct store_mem, store);

    ASSERT(mem->closed);
    mem->closed = false;
    mem->state.meta.compact_to = 0;
}

struct store *store_mem_copy(struct store *store)
{
    const struct store_mem *from = CONTAINER(store, struct store_mem, store);
    struct store *copy = store_mem_new(&from->identity);
    struct mem_state *state = &CONTAINER(copy, struct store_mem, store)->state;

    state_release(state);
    state_copy(state, &from->state);
    for (size_t i = 0; i < state->entry_count; i++) {
        state->entries[i].data = copy_of(state->entries[i].data, state->entries[i].len);
    }
    for (size_t i = 0; i < state->row_count; i++) {
        state->rows[i] = row_new(&from->state.rows[i]->row);
    }
    return copy;
}

void store_mem_free(struct store *store)
{
    struct store_mem *mem = CONTAINER(store, struct store_mem, store);

    if (!mem->closed) {
        mem_close(store);
    }
    for (size_t i = 0; i < mem->state.entry_count; i++) {
        free((void *)(uintptr_t)mem->state.entries[i].data);
    }
    for (size_t i = 0; i < mem->state.row_count; i++) {
        free(mem->state.rows[i]);
    }
    state_release(&mem->state);
    free(mem);
}

void store_mem_fail_commit(struct store *store, unsigned k, int err)
{
    struct store_mem *mem = mem_of(store);

    ASSERT_IMPLIES(k > 0, err != 0);
    mem->fail_in = k;
    mem->fail_err = err;
}
