/*
 * fsm_changes.c - see fsm_changes.h.
 */
#include "src/id/fsm/fsm_changes.h"

#include <stdlib.h>

#include "src/base/assert.h"

#define FIRST_CAPACITY 8

struct fsm_change *fsm_changes_add(struct fsm_changes *changes, const void *key, size_t key_len)
{
    struct fsm_change *change;

    ASSERT(key_len > 0);
    if (changes->count == changes->capacity) {
        size_t capacity = changes->capacity > 0 ? changes->capacity * 2 : FIRST_CAPACITY;

        changes->items = realloc(changes->items, capacity * sizeof *changes->items);
        ASSERT(changes->items != NULL);
        changes->capacity = capacity;
    }
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
