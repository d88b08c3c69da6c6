/*
 * buf.c - see buf.h. Thread: one owner each.
 */
#include "src/base/buf.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

void buf_free(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf)BUF_INIT;
}

HOT void buf_reserve(struct buf *buf, size_t more)
{
    size_t need = buf->len + more;
    size_t capacity;

    ASSERT(need >= more);
    if (need <= buf->capacity) {
        return;
    }
    capacity = buf->capacity ? buf->capacity : 64;
    while (capacity < need) {
        capacity *= 2;
    }
    buf->data = MUST_HAVE(realloc(buf->data, capacity));
    buf->capacity = capacity;
}

void buf_put(struct buf *buf, const void *data, size_t len)
{
    if (len == 0) {
        return;
    }
    if (len > buf->capacity - buf->len) {
        buf_reserve(buf, len);
    }
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
}

void buf_put_u8(struct buf *buf, uint8_t value)
{
    buf_put_number(buf, value, sizeof value);
}

void buf_put_u16(struct buf *buf, uint16_t value)
{
    buf_put_number(buf, value, sizeof value);
}

void buf_put_u32(struct buf *buf, uint32_t value)
{
    buf_put_number(buf, value, sizeof value);
}

void buf_put_u64(struct buf *buf, uint64_t value)
{
    buf_put_number(buf, value, sizeof value);
}

void buf_put_str16(struct buf *buf, const void *data, size_t len)
{
    ASSERT(len <= UINT16_MAX);
    buf_put_u16(buf, (uint16_t)len);
    buf_put(buf, data, len);
}

void buf_put_str32(struct buf *buf, const void *data, size_t len)
{
    ASSERT(len <= UINT32_MAX);
    buf_put_u32(buf, (uint32_t)len);
    buf_put(buf, data, len);
}

void buf_set_u32(struct buf *buf, size_t offset, uint32_t value)
{
    uint32_t le = htole32(value);

    ASSERT(offset + 4 <= buf->len);
    memcpy(buf->data + offset, &le, sizeof le);
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
    va_list again;
    int len;

    va_copy(again, args);
    buf_reserve(buf, 128);
    len = vsnprintf((char *)buf->data + buf->len, buf->capacity - buf->len, format, args);
    ASSERT(len >= 0);
    if ((size_t)len >= buf->capacity - buf->len) {
        buf_reserve(buf, (size_t)len + 1);
        (void)vsnprintf((char *)buf->data + buf->len, buf->capacity - buf->len, format, again);
    }
    va_end(again);
    buf->len += (size_t)len;
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(buf, format, args);
    va_end(args);
}

char *buf_text(struct buf *buf)
{
    buf_reserve(buf, 1);
    buf->data[buf->len] = '\0';
    return (char *)buf->data;
}

void buf_move(struct buf *to, struct buf *from)
{
    ASSERT(to->len == 0);
    free(to->data);
    *to = *from;
    *from = (struct buf)BUF_INIT;
}

void reader_init(struct reader *reader, const void *data, size_t len)
{
    static const uint8_t nothing[1];

    ASSERT(data != NULL || len == 0);
    *reader = (struct reader){data != NULL ? data : nothing, len, 0, false};
}

size_t reader_left(const struct reader *reader)
{
    return reader->bad ? 0 : reader->len - reader->at;
}

bool reader_done(const struct reader *reader)
{
    return !reader->bad && reader->at == reader->len;
}

/* --- array --- */

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
