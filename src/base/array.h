/*
 * array.h - memory that grows: arrays, and arenas of objects that are freed together.
 *
 * Lack of memory ends the process (ASSERT). Thread: any; an arena has one owner.
 */
#ifndef LEAFD_BASE_ARRAY_H
#define LEAFD_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/*
 * --- array: room for one item more.
 *
 * Large blocks are moved by the kernel (mremap), not copied, and what is beyond the last item takes
 * no memory yet.
 */

/* The items, moved if need be, with room for at least one more than count. *capacity counts items;
 * 0 with NULL for an array that is empty. */
void *array_room(void *items, size_t count, size_t *capacity, size_t item_bytes);

/*
 * --- arena: many small objects that live until all of them are freed together: the rows of tags
 * and the entries of the id table, a million of each, with no allocator's overhead and a 32-bit
 * handle.
 *
 * The happy path: arena_alloc() cuts a zeroed piece off the newest chunk; arena_at() gives its
 * address, which never changes.
 *
 * Failure modes: the arena is full (2 GiB): handle 0.
 *
 * Threads: one owner; arena_at() also from any thread that got the handle through an acquire load
 * of what the owner stored with release after arena_alloc().
 */

#define ARENA_CHUNK_BYTES (64U << 10)
#define ARENA_CHUNKS 32768U
#define ARENA_UNIT_BYTES 8U /* pieces are aligned so */

struct arena {
    uint8_t **chunks; /* ARENA_CHUNKS pointers; NULL while the arena is empty */
    uint32_t chunk_count;
    uint32_t used_bytes; /* of the newest chunk */
};

/* A zeroed piece of 1..ARENA_CHUNK_BYTES bytes: its handle, never 0; or 0 when the arena is full.
 */
uint32_t arena_alloc(struct arena *arena, size_t bytes);

/* The address of a piece. */
static inline void *arena_at(const struct arena *arena, uint32_t handle)
{
    const uint32_t units = ARENA_CHUNK_BYTES / ARENA_UNIT_BYTES;

    return arena->chunks[(handle - 1) / units] + (size_t)((handle - 1) % units) * ARENA_UNIT_BYTES;
}

/* Free all pieces at once and leave an empty, usable arena. */
void arena_free(struct arena *arena);

#endif
