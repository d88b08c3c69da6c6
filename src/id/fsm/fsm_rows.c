/*
 * fsm_rows.c - the tables of the state machine (fsm_state.h): rows in order, and the digest.
 *
 * The happy path: find or make a row, take it out of the digest, change it, put it back. The digest
 * is the sum of hash_row() over all rows, the very sum that storage keeps and verifies.
 *
 * Failure modes: the table is full (LIMIT_TAGS): NULL. Thread: one owner.
 */
#include "src/id/fsm/fsm_state.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

#define FIRST_CAPACITY 8

static int row_order(const struct fsm_row *a, const struct fsm_row *b);
static void row_bytes(struct fsm *fsm, const struct fsm_row *row, size_t *ret_key_len);
static void node_bytes(struct fsm *fsm, const struct node_info *info, size_t *ret_key_len);
static uint64_t scratch_hash(const struct fsm *fsm, size_t key_len);
static struct fsm_change *changes_add(const struct fsm *fsm, size_t key_len,
                                      struct fsm_changes *changes);
static size_t node_place(const struct fsm *fsm, uint64_t node_id);

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(fsm_tree, fsm_row, link, row_order, __attribute__((unused)) static)

struct fsm_row *fsm_row_find(const struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_row *row = fsm_row_seek(fsm, name, len);

    if (row == NULL || tag_name_compare(name, len, row->tag.name, row->tag.name_len) != 0) {
        return NULL;
    }
    return row;
}

struct fsm_row *fsm_row_seek(const struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_row *at = RB_ROOT(&fsm->tags);
    struct fsm_row *found = NULL;

    while (at != NULL) {
        int order = tag_name_compare(name, len, at->tag.name, at->tag.name_len);

        if (order == 0) {
            return at;
        }
        if (order < 0) {
            found = at;
        }
        at = order < 0 ? RB_LEFT(at, link) : RB_RIGHT(at, link);
    }
    return found;
}

struct fsm_row *fsm_row_first(const struct fsm *fsm)
{
    return fsm_row_seek(fsm, "", 0);
}

struct fsm_row *fsm_row_next(struct fsm_row *row)
{
    return RB_NEXT(fsm_tree, NULL, row);
}

struct fsm_row *fsm_row_make(struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_row *row;
    struct fsm_row *twin;
    uint32_t handle;

    ASSERT(len >= 1 && len <= LIMIT_TAG_NAME_BYTES);
    if (fsm->tag_count >= LIMIT_TAGS) {
        return NULL;
    }
    handle = arena_alloc(&fsm->arena, offsetof(struct fsm_row, name) + len + 1);
    ASSERT(handle != 0); /* the arena holds LIMIT_TAGS rows with the longest names */
    row = arena_at(&fsm->arena, handle);
    memcpy(row->name, name, len);
    row->tag.name = row->name;
    row->tag.name_len = (uint16_t)len;
    row->tag.description = row->name + len;
    twin = RB_INSERT(fsm_tree, &fsm->tags, row);
    ASSERT(twin == NULL);
    fsm->tag_count++;
    return row;
}

struct fsm_row *fsm_row_expect(struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_row *row = fsm_row_find(fsm, name, len);

    ASSERT(fsm->loading);
    if (row != NULL) {
        return row;
    }
    row = fsm_row_make(fsm, name, len);
    fsm->hollow_count += row != NULL;
    return row;
}

void fsm_row_change_begin(struct fsm *fsm, struct fsm_row *row)
{
    size_t key_len;

    row_bytes(fsm, row, &key_len);
    fsm_scratch_leave(fsm, key_len);
}

void fsm_row_change_end(struct fsm *fsm, struct fsm_row *row, struct fsm_changes *changes)
{
    size_t key_len;

    row_bytes(fsm, row, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
    if (fsm->listener != NULL && fsm->listener->tag_changed != NULL && !fsm->loading) {
        fsm->listener->tag_changed(fsm->listener, &row->tag);
    }
}

void fsm_row_describe(struct fsm_row *row, const char *text, size_t len)
{
    char *empty = row->name + row->tag.name_len;
    char *description = empty;

    ASSERT(len <= LIMIT_TAG_DESCRIPTION_BYTES);
    if (len > 0) {
        description = malloc(len + 1);
        ASSERT(description != NULL);
        memcpy(description, text, len);
        description[len] = '\0';
    }
    if (row->tag.description != empty) {
        free(row->tag.description);
    }
    row->tag.description = description;
    row->tag.description_len = (uint16_t)len;
}

int fsm_load_tag(struct fsm *fsm, const char *name, size_t name_len, const void *value,
                 size_t value_len)
{
    struct tag_row loaded;
    struct fsm_row *row;
    int err = tag_row_decode(name, name_len, value, value_len, &loaded);

    if (err != 0) {
        return err;
    }
    row = fsm_row_expect(fsm, name, name_len);
    if (row == NULL) {
        err = ERR_CORRUPT; /* more rows than any node can have made */
    } else if (row->tag.step != 0) {
        err = ERR_EXISTS;
    } else {
        struct tag_row tag = loaded;

        fsm_row_describe(row, loaded.description, loaded.description_len);
        tag.name = row->tag.name;
        tag.description = row->tag.description;
        row->tag = tag;
        fsm->hollow_count--;
        fsm->recalling_count += tag.recalling && !tag.deleted;
        fsm_row_change_end(fsm, row, NULL);
    }
    tag_row_release(&loaded);
    return err;
}

struct node_info *fsm_node_find(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = node_place(fsm, node_id);

    return at < fsm->node_count && fsm->nodes[at].node_id == node_id ? &fsm->nodes[at] : NULL;
}

void fsm_node_put(struct fsm *fsm, const struct node_info *info, struct fsm_changes *changes)
{
    size_t at = node_place(fsm, info->node_id);
    struct node_info *old = fsm_node_find(fsm, info->node_id);
    size_t key_len;

    if (old != NULL) {
        if (old->store_id == info->store_id && strcmp(old->version, info->version) == 0 &&
            strcmp(old->http_address, info->http_address) == 0) {
            return;
        }
        node_bytes(fsm, old, &key_len);
        fsm_scratch_leave(fsm, key_len);
    } else {
        if (fsm->node_count == fsm->node_capacity) {
            size_t capacity = fsm->node_capacity > 0 ? fsm->node_capacity * 2 : FIRST_CAPACITY;

            fsm->nodes = realloc(fsm->nodes, capacity * sizeof *fsm->nodes);
            ASSERT(fsm->nodes != NULL);
            fsm->node_capacity = capacity;
        }
        memmove(&fsm->nodes[at + 1], &fsm->nodes[at], (fsm->node_count - at) * sizeof *fsm->nodes);
        fsm->node_count++;
    }
    fsm->nodes[at] = *info;
    node_bytes(fsm, info, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

void fsm_scratch_leave(struct fsm *fsm, size_t key_len)
{
    fsm->digest -= scratch_hash(fsm, key_len);
}

void fsm_scratch_enter(struct fsm *fsm, size_t key_len, struct fsm_changes *changes)
{
    ASSERT(fsm->scratch.len > key_len); /* an empty value would be a deletion */
    fsm->digest += scratch_hash(fsm, key_len);
    if (changes != NULL) {
        struct fsm_change *change = changes_add(fsm, key_len, changes);

        buf_put(&change->value, fsm->scratch.data + key_len, fsm->scratch.len - key_len);
    }
}

void fsm_scratch_delete(struct fsm *fsm, size_t key_len, struct fsm_changes *changes)
{
    fsm_scratch_leave(fsm, key_len);
    if (changes != NULL) {
        (void)changes_add(fsm, key_len, changes); /* a value that stays empty */
    }
}

void fsm_scratch_node(struct fsm *fsm, char table, uint64_t node_id)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, (uint8_t)table);
    for (int shift = 56; shift >= 0; shift -= 8) {
        buf_put_u8(&fsm->scratch, (uint8_t)(node_id >> shift));
    }
    ASSERT(fsm->scratch.len == FSM_NODE_KEY_BYTES);
}

uint64_t fsm_key_node(const uint8_t *key)
{
    uint64_t node_id = 0;

    for (size_t i = 1; i < FSM_NODE_KEY_BYTES; i++) {
        node_id = node_id << 8 | key[i];
    }
    return node_id;
}

void fsm_rows_clear(struct fsm *fsm)
{
    for (struct fsm_row *row = fsm_row_first(fsm); row != NULL; row = fsm_row_next(row)) {
        fsm_row_describe(row, NULL, 0);
    }
    RB_INIT(&fsm->tags);
    arena_free(&fsm->arena);
    free(fsm->nodes);
    fsm->nodes = NULL;
    fsm->node_count = 0;
    fsm->node_capacity = 0;
    fsm_workers_clear(fsm);
    fsm_settings_clear(fsm);
    fsm_members_clear(fsm);
    fsm_recalls_clear(fsm);
    fsm_sessions_clear(fsm);
    fsm_keys_clear(fsm);
    fsm->tag_count = 0;
    fsm->hollow_count = 0;
    fsm->recalling_count = 0;
    fsm->digest = 0;
}

void fsm_changes_release(struct fsm_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        buf_free(&changes->items[i].key);
        buf_free(&changes->items[i].value);
    }
    free(changes->items);
    *changes = (struct fsm_changes){0};
}

static int row_order(const struct fsm_row *a, const struct fsm_row *b)
{
    return tag_name_compare(a->tag.name, a->tag.name_len, b->tag.name, b->tag.name_len);
}

/* Key and value of a row, one behind the other, into the scratch buffer. */
static void row_bytes(struct fsm *fsm, const struct fsm_row *row, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_TAGS);
    buf_put(&fsm->scratch, row->tag.name, row->tag.name_len);
    *ret_key_len = fsm->scratch.len;
    tag_row_encode(&row->tag, &fsm->scratch);
}

static void node_bytes(struct fsm *fsm, const struct node_info *info, size_t *ret_key_len)
{
    fsm_scratch_node(fsm, FSM_TABLE_NODES, info->node_id);
    *ret_key_len = fsm->scratch.len;
    node_info_row_encode(info, &fsm->scratch);
}

static uint64_t scratch_hash(const struct fsm *fsm, size_t key_len)
{
    return hash_row(fsm->scratch.data, key_len, fsm->scratch.data + key_len,
                    fsm->scratch.len - key_len);
}

/* A change of the key in the scratch buffer, without a value yet. */
static struct fsm_change *changes_add(const struct fsm *fsm, size_t key_len,
                                      struct fsm_changes *changes)
{
    struct fsm_change *change;

    if (changes->count == changes->capacity) {
        size_t capacity = changes->capacity > 0 ? changes->capacity * 2 : FIRST_CAPACITY;

        changes->items = realloc(changes->items, capacity * sizeof *changes->items);
        ASSERT(changes->items != NULL);
        changes->capacity = capacity;
    }
    change = &changes->items[changes->count++];
    *change = (struct fsm_change){BUF_INIT, BUF_INIT};
    buf_put(&change->key, fsm->scratch.data, key_len);
    return change;
}

/* Where the node stands in the sorted array, or would. */
static size_t node_place(const struct fsm *fsm, uint64_t node_id)
{
    size_t low = 0;
    size_t high = fsm->node_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fsm->nodes[middle].node_id < node_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
