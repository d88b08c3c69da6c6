/*
 * node_set.c - see node_set.h.
 */
#include "src/state/node_set.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/base/limits.h"

_Static_assert(LIMIT_NODE_ID <= UINT16_MAX, "a node's id has two bytes here");

/* Where the id stands, or would. */
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

/* Says of a node only that it is there. */
static const struct row_format NODE_ROW = {.version = ROW_VERSION};

bool node_set_add_row(struct node_set *set, struct journal *journal, uint8_t table,
                      uint64_t node_id)
{
    if (!node_set_add(set, node_id)) {
        return false;
    }
    journal_node(journal, table, node_id, &NODE_ROW, NULL, set);
    return true;
}

bool node_set_remove_row(struct node_set *set, struct journal *journal, uint8_t table,
                         uint64_t node_id)
{
    if (!node_set_remove(set, node_id)) {
        return false;
    }
    journal_node(journal, table, node_id, &NODE_ROW, set, NULL);
    return true;
}

int node_set_load_row(struct node_set *set, struct journal *journal, const struct row_loaded *row)
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
    return node_set_add_row(set, journal, row->key[0], node_id) ? 0 : ERR_EXISTS;
}

void node_set_copy(struct node_set *to, const struct node_set *from)
{
    ASSERT(to->count == 0 && to->capacity == 0);
    for (size_t i = 0; i < from->count; i++) {
        (void)node_set_add(to, from->ids[i]);
    }
}

void node_set_free(struct node_set *set)
{
    free(set->ids);
    *set = (struct node_set){0};
}
