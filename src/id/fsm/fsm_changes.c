/*
 * fsm_changes.c - see fsm_changes.h.
 */
#include "src/id/fsm/fsm_changes.h"

#include <stdlib.h>

#include "src/base/array.h"
#include "src/base/assert.h"

struct fsm_change *fsm_changes_add(struct fsm_changes *changes, const void *key, size_t key_len)
{
    struct fsm_change *change;

    ASSERT(key_len > 0);
    changes->items =
        array_room(changes->items, changes->count, &changes->capacity, sizeof *changes->items);
    change = &changes->items[changes->count++];
    *change = (struct fsm_change){BUF_INIT, BUF_INIT};
    buf_put(&change->key, key, key_len);
    return change;
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
