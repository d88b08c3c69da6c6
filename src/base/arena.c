/*
 * arena.c - see arena.h. Thread: one owner, but for arena_at().
 */
#include "src/base/arena.h"

#include <stdlib.h>

#include "src/base/assert.h"

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
