/*
 * array.c - see array.h.
 */
#include "src/base/array.h"

#include <stdlib.h>

#include "src/base/assert.h"

#define FIRST_ITEMS 16

void *array_room(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    ASSERT(count <= *capacity && item_bytes > 0);
    if (count < *capacity) {
        return items;
    }
    *capacity = count > 0 ? count + count / 2 + 1 : FIRST_ITEMS;
    items = MUST_HAVE(reallocarray(items, *capacity, item_bytes));
    return items;
}

/* --- arena --- */

_Static_assert((uint64_t)ARENA_CHUNKS *(ARENA_CHUNK_BYTES / ARENA_UNIT_BYTES) < UINT32_MAX,
               "every unit has a handle");

uint32_t arena_alloc(struct arena *arena, size_t bytes)
{
    const uint32_t units = ARENA_CHUNK_BYTES / ARENA_UNIT_BYTES;
    uint32_t size;
    uint32_t handle;

    ASSERT(bytes >= 1 && bytes <= ARENA_CHUNK_BYTES);
    size = ((uint32_t)bytes + ARENA_UNIT_BYTES - 1) & ~(ARENA_UNIT_BYTES - 1);
    if (arena->chunks == NULL) {
        /* Untouched pages of it cost nothing. */
        arena->chunks = MUST_HAVE(calloc(ARENA_CHUNKS, sizeof *arena->chunks));
    }
    if (arena->chunk_count == 0 || size > ARENA_CHUNK_BYTES - arena->used_bytes) {
        if (arena->chunk_count == ARENA_CHUNKS) {
            return 0;
        }
        arena->chunks[arena->chunk_count] = MUST_HAVE(calloc(1, ARENA_CHUNK_BYTES));
        arena->chunk_count++;
        arena->used_bytes = 0;
    }
    handle = (arena->chunk_count - 1) * units + arena->used_bytes / ARENA_UNIT_BYTES + 1;
    arena->used_bytes += size;
    return handle;
}

void arena_free(struct arena *arena)
{
    for (uint32_t i = 0; i < arena->chunk_count; i++) {
        free(arena->chunks[i]);
    }
    free(arena->chunks);
    *arena = (struct arena){0};
}
