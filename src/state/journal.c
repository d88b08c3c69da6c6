/*
 * journal.c - see journal.h.
 */
#include "src/state/journal.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/hash.h"
#include "src/base/limits.h"

#define PIECE_BYTES_MIN 512
#define PIECE_BYTES_MAX (64 << 10) /* the largest row is larger, and gets its own piece */

/* --- journal --- */

void journal_key(struct journal *journal, uint8_t table)
{
    journal->row.len = 0;
    journal->key_len = 0;
    buf_put_u8(&journal->row, table);
}

void journal_value(struct journal *journal)
{
    ASSERT(journal->key_len == 0 && journal->row.len >= 1);
    ASSERT(journal->row.len <= LIMIT_ROW_KEY_BYTES);
    journal->key_len = journal->row.len;
}

void journal_record(struct journal *journal, const struct row_format *format, const void *record)
{
    journal_value(journal);
    row_put(&journal->row, format, record);
}

uint64_t journal_hash(const struct journal *journal)
{
    ASSERT(journal->key_len > 0 && journal->row.len > journal->key_len); /* else: a deletion */
    return hash_row(journal->row.data, journal->key_len, journal->row.data + journal->key_len,
                    journal->row.len - journal->key_len);
}

void journal_leave(struct journal *journal)
{
    journal->digest -= journal_hash(journal);
}

/* --- the list of changes --- */

struct row_piece {
    struct row_piece *older;
    size_t used;
    size_t size;
    uint8_t bytes[];
};

void row_changes_add(struct row_changes *changes, const void *row, size_t key_len, size_t value_len)
{
    struct row_piece *piece = changes->pieces;
    size_t size = piece != NULL ? 2 * piece->size : PIECE_BYTES_MIN; /* doubled with each piece */
    size_t len = key_len + value_len;
    uint8_t *bytes;

    ASSERT(key_len > 0);
    if (piece == NULL || piece->size - piece->used < len) {
        size = size < PIECE_BYTES_MAX ? size : PIECE_BYTES_MAX;
        size = size < len ? len : size;
        piece = MUST_HAVE(malloc(sizeof *piece + size));
        *piece = (struct row_piece){.older = changes->pieces, .size = size};
        changes->pieces = piece;
    }
    bytes = piece->bytes + piece->used;
    piece->used += len;
    ASSERT(piece->used <= piece->size);
    memcpy(bytes, row, len);
    changes->items =
        array_room(changes->items, changes->count, &changes->capacity, sizeof *changes->items);
    changes->items[changes->count++] = (struct state_row){
        bytes, (uint32_t)key_len, value_len > 0 ? bytes + key_len : NULL, (uint32_t)value_len};
}

void row_changes_release(struct row_changes *changes)
{
    struct row_piece *piece;

    while ((piece = changes->pieces) != NULL) {
        changes->pieces = piece->older;
        free(piece);
    }
    free(changes->items);
    *changes = (struct row_changes){0};
}

/* List the row's change to the first value_len bytes of the value; 0: it is deleted. */
static void list_change(struct journal *journal, size_t value_len)
{
    if (journal->changes != NULL) {
        row_changes_add(journal->changes, journal->row.data, journal->key_len, value_len);
    }
}

void journal_enter(struct journal *journal)
{
    journal->digest += journal_hash(journal);
    list_change(journal, journal->row.len - journal->key_len);
}

void journal_move(struct journal *journal, struct row_changes *from, uint64_t digest)
{
    struct row_changes *changes = journal->changes;
    struct row_piece **end = &from->pieces;

    journal->digest += digest;
    if (changes != NULL) {
        while (*end != NULL) {
            end = &(*end)->older;
        }
        *end = changes->pieces;
        changes->pieces = from->pieces;
        from->pieces = NULL;
        for (size_t i = 0; i < from->count; i++) {
            changes->items = array_room(changes->items, changes->count, &changes->capacity,
                                        sizeof *changes->items);
            changes->items[changes->count++] = from->items[i];
        }
    }
    row_changes_release(from);
}

void journal_delete(struct journal *journal)
{
    journal_leave(journal);
    list_change(journal, 0);
}

static void put_record(struct journal *journal, uint8_t table, const void *key, size_t len,
                       const struct row_format *format, const void *record)
{
    journal_key(journal, table);
    buf_put(&journal->row, key, len);
    journal_record(journal, format, record);
}

void journal_change(struct journal *journal, uint8_t table, const void *key, size_t len,
                    const struct row_format *format, const void *before, const void *after)
{
    if (before != NULL) {
        put_record(journal, table, key, len, format, before);
        (after != NULL ? journal_leave : journal_delete)(journal);
    }
    if (after != NULL) {
        put_record(journal, table, key, len, format, after);
        journal_enter(journal);
    }
}

void journal_node(struct journal *journal, uint8_t table, uint64_t node_id,
                  const struct row_format *format, const void *before, const void *after)
{
    const uint64_t key = htobe64(node_id);

    journal_change(journal, table, &key, sizeof key, format, before, after);
}

bool row_is_setting(const struct state_row *row, const char *name)
{
    return row->key_len == 1 + strlen(name) && memcmp(row->key + 1, name, row->key_len - 1) == 0;
}

uint64_t row_key_node(const uint8_t *key)
{
    uint64_t node_id = 0;

    for (size_t i = 1; i < ROW_NODE_KEY_BYTES; i++) {
        node_id = node_id << 8 | key[i];
    }
    return node_id;
}

/* --- node_set --- */

_Static_assert(LIMIT_NODE_ID <= UINT16_MAX, "a node's id has two bytes here");

/* The id's place, or where it would be. */
static size_t place(const struct node_set *set, uint64_t node_id)
{
    size_t low = 0;
    size_t high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (set->ids[middle] < node_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool node_set_has(const struct node_set *set, uint64_t node_id)
{
    size_t at = place(set, node_id);

    return at < set->count && set->ids[at] == node_id;
}

bool node_set_add(struct node_set *set, uint64_t node_id)
{
    size_t at = place(set, node_id);

    ASSERT(node_id >= 1 && node_id <= LIMIT_NODE_ID);
    if (node_set_has(set, node_id)) {
        return false;
    }
    set->ids = array_room(set->ids, set->count, &set->capacity, sizeof *set->ids);
    memmove(&set->ids[at + 1], &set->ids[at], (set->count - at) * sizeof *set->ids);
    set->ids[at] = (uint16_t)node_id;
    set->count++;
    ASSERT(at == 0 || set->ids[at - 1] < node_id);
    return true;
}

bool node_set_remove(struct node_set *set, uint64_t node_id)
{
    size_t at = place(set, node_id);

    if (!node_set_has(set, node_id)) {
        return false;
    }
    set->count--;
    memmove(&set->ids[at], &set->ids[at + 1], (set->count - at) * sizeof *set->ids);
    return true;
}

/* A row without fields: only its key counts. */
static const struct row_format NODE_ROW = {.version = ROW_VERSION};

bool node_set_change_row(struct node_set *set, struct journal *journal, uint8_t table,
                         uint64_t node_id, bool in)
{
    if (!(in ? node_set_add(set, node_id) : node_set_remove(set, node_id))) {
        return false;
    }
    journal_node(journal, table, node_id, &NODE_ROW, in ? NULL : set, in ? set : NULL);
    return true;
}

int node_set_load_row(struct node_set *set, struct journal *journal, const struct state_row *row)
{
    int err = row_read(row->value, row->value_len, &NODE_ROW, NULL);
    uint64_t node_id;

    if (err != 0 || row->key_len != ROW_NODE_KEY_BYTES) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    node_id = row_key_node(row->key);
    if (node_id < 1 || node_id > LIMIT_NODE_ID) {
        return ERR_CORRUPT;
    }
    return node_set_change_row(set, journal, row->key[0], node_id, true) ? 0 : ERR_EXISTS;
}

void node_set_free(struct node_set *set)
{
    free(set->ids);
    *set = (struct node_set){0};
}

/* --- node_rows --- */

void *node_rows_find(const struct node_rows *rows, uint64_t node_id)
{
    for (size_t i = 0; i < rows->count; i++) {
        char *item = (char *)rows->items + i * rows->of->size;

        if (*(const uint64_t *)(void *)item == node_id) {
            return item;
        }
    }
    return NULL;
}

bool node_rows_put(struct node_rows *rows, struct journal *journal, const void *record)
{
    uint64_t node_id = *(const uint64_t *)record;
    void *item = node_rows_find(rows, node_id);

    ASSERT(node_id >= 1 && node_id <= LIMIT_NODE_ID);
    if (item != NULL && row_same(rows->of->format, item, record)) {
        return false;
    }
    journal_node(journal, rows->of->table, node_id, rows->of->format, item, record);
    if (item == NULL) {
        ASSERT(rows->count < LIMIT_NODE_ID);
        rows->items = array_room(rows->items, rows->count, &rows->capacity, rows->of->size);
        item = (char *)rows->items + rows->count++ * rows->of->size;
    }
    memcpy(item, record, rows->of->size);
    return true;
}

bool node_rows_drop(struct node_rows *rows, struct journal *journal, uint64_t node_id)
{
    void *item = node_rows_find(rows, node_id);

    if (item == NULL) {
        return false;
    }
    journal_node(journal, rows->of->table, node_id, rows->of->format, item, NULL);
    memmove(item, (char *)rows->items + --rows->count * rows->of->size, rows->of->size);
    return true;
}

int node_rows_read(const struct node_rows *rows, const struct state_row *row, void *ret_record)
{
    uint64_t node_id;
    int err;

    if (row->key_len != ROW_NODE_KEY_BYTES) {
        return ERR_CORRUPT;
    }
    node_id = row_key_node(row->key);
    memcpy(ret_record, &node_id, sizeof node_id);
    err = row_read(row->value, row->value_len, rows->of->format, ret_record);
    return err == 0 && node_rows_find(rows, node_id) != NULL ? ERR_EXISTS : err;
}
