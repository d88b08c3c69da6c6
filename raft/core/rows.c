/*
 * rows.c - see rows.h. Thread: pure functions, one owner.
 */
#include "raft/core/rows.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

static bool same_key(const struct fsm_change *a, const struct fsm_change *b)
{
    return a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

/* The place of the change's key in an index that is at most half full; 0 stands for a free one,
 * else 1 + the number of the latest change of the key that is kept. */
static uint32_t *index_find(uint32_t *index, size_t size, const struct fsm_changes *changes,
                            size_t number)
{
    const struct fsm_change *change = &changes->items[number];
    size_t at = hash_bytes(change->key.data, change->key.len, 0) & (size - 1);

    while (index[at] != 0 && !same_key(&changes->items[index[at] - 1], change)) {
        at = (at + 1) & (size - 1);
    }
    return &index[at];
}

void rows_coalesce(struct fsm_changes *changes)
{
    size_t size = 16;
    uint32_t *index;
    size_t kept = 0;

    ASSERT(changes->count < UINT32_MAX / 2);
    while (size < 2 * changes->count) {
        size *= 2;
    }
    index = calloc(size, sizeof *index);
    ASSERT(index != NULL);
    for (size_t i = changes->count; i-- > 0;) {
        uint32_t *latest = index_find(index, size, changes, i);
        bool wanted = *latest == 0;

        /* The store deletes only what is there: a row that was made and deleted meanwhile is made
         * and deleted there as well. */
        if (!wanted && changes->items[*latest - 1].value.len == 0 &&
            changes->items[i].value.len > 0) {
            wanted = true;
        }
        if (wanted) {
            *latest = (uint32_t)i + 1;
        } else {
            buf_free(&changes->items[i].value);
            buf_free(&changes->items[i].key);
        }
    }
    free(index);
    for (size_t i = 0; i < changes->count; i++) {
        if (changes->items[i].key.len > 0) {
            changes->items[kept++] = changes->items[i];
        }
    }
    changes->count = kept;
}

struct store_row *rows_of(const struct fsm_changes *changes)
{
    struct store_row *rows;

    if (changes->count == 0) {
        return NULL;
    }
    rows = calloc(changes->count, sizeof *rows);
    ASSERT(rows != NULL);
    for (size_t i = 0; i < changes->count; i++) {
        const struct fsm_change *change = &changes->items[i];
        bool gone = change->value.len == 0;

        rows[i] = (struct store_row){change->key.data, (uint32_t)change->key.len,
                                     gone ? NULL : change->value.data, (uint32_t)change->value.len};
    }
    return rows;
}
