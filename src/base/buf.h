/*
 * buf.h - memory that grows: a byte buffer and a bounded reader, the little-endian codec of all
 * bytes that leave the process (disk, wire, commands); arrays; arenas.
 *
 * Writing never fails half way: on lack of memory the process ends (ASSERT), since nothing on the
 * path of an id allocates. Reading never goes past the end: the first short read sets `bad`, every
 * later read gives zeros, and the caller checks once at the end with reader_done().
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_BASE_BUF_H
#define LEAFD_BASE_BUF_H

#include <endian.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
    uint8_t *data; /* malloc'ed, or NULL while capacity is 0 */
    size_t len;
    size_t capacity;
};

#define BUF_INIT                                                                                   \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Free the memory and leave an empty, usable buffer. NULL-safe on an all-zero struct. */
void buf_free(struct buf *buf);

/* An empty one that is freed at the end of its block. */
#define BUF_LOCAL(name) struct buf name __attribute__((cleanup(buf_free))) = BUF_INIT

/* Make room for at least `more` bytes beyond len. */
void buf_reserve(struct buf *buf, size_t more);

/* Append; data may be NULL when len is 0. */
void buf_put(struct buf *buf, const void *data, size_t len);
void buf_put_u8(struct buf *buf, uint8_t value);
void buf_put_u16(struct buf *buf, uint16_t value);
void buf_put_u32(struct buf *buf, uint32_t value);
void buf_put_u64(struct buf *buf, uint64_t value);

/* Append the low `bytes` bytes of a number, little-endian. bytes: a constant, so that it is one
 * store. */
static inline __attribute__((always_inline)) void buf_put_number(struct buf *buf, uint64_t value,
                                                                 size_t bytes)
{
    const uint64_t le = htole64(value);

    if (bytes > buf->capacity - buf->len) {
        buf_reserve(buf, bytes);
    }
    memcpy(buf->data + buf->len, &le, bytes);
    buf->len += bytes;
}

/* Append a byte string with its length before it, as u16 or u32; the length must fit (ASSERT). */
void buf_put_str16(struct buf *buf, const void *data, size_t len);
void buf_put_str32(struct buf *buf, const void *data, size_t len);

/* Overwrite four bytes at an offset that was already written. */
void buf_set_u32(struct buf *buf, size_t offset, uint32_t value);

/* printf onto the end, without the NUL. */
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* The content as text, with a NUL after it that len does not count. Borrowed until the buffer
 * changes. */
char *buf_text(struct buf *buf);

/* Move the content of from to to; from becomes empty. to must be empty. */
void buf_move(struct buf *to, struct buf *from);

struct reader {
    const uint8_t *data; /* borrowed */
    size_t len;
    size_t at;
    bool bad; /* a read went past the end */
};

/* data may be NULL when len is 0. */
void reader_init(struct reader *reader, const void *data, size_t len);

/* Inline, not in buf.c: a strict id needs some thirty numbers on each node, and a call costs more
 * than the read. */

/* len bytes in place (borrowed from the reader's data); NULL when there are fewer. */
static inline const uint8_t *reader_bytes(struct reader *reader, size_t len)
{
    const uint8_t *at = reader->data + reader->at;

    if (reader->bad || len > reader->len - reader->at) {
        reader->bad = true;
        return NULL;
    }
    reader->at += len;
    return at;
}

/* The next `bytes` bytes as a little-endian number. bytes: a constant, so that it is one load. */
static inline __attribute__((always_inline)) uint64_t reader_number(struct reader *reader,
                                                                    size_t bytes)
{
    const uint8_t *at = reader_bytes(reader, bytes);
    uint64_t le = 0;

    if (at != NULL) {
        memcpy(&le, at, bytes);
    }
    return le64toh(le);
}

static inline uint8_t reader_u8(struct reader *reader)
{
    return (uint8_t)reader_number(reader, sizeof(uint8_t));
}

static inline uint16_t reader_u16(struct reader *reader)
{
    return (uint16_t)reader_number(reader, sizeof(uint16_t));
}

static inline uint32_t reader_u32(struct reader *reader)
{
    return (uint32_t)reader_number(reader, sizeof(uint32_t));
}

static inline uint64_t reader_u64(struct reader *reader)
{
    return reader_number(reader, sizeof(uint64_t));
}

/* A byte string written by buf_put_str16/32; *ret_len is 0 and the result NULL when short. */
static inline const uint8_t *reader_str16(struct reader *reader, size_t *ret_len)
{
    size_t len = reader_u16(reader);
    const uint8_t *at = reader_bytes(reader, len);

    *ret_len = at != NULL ? len : 0;
    return at;
}

static inline const uint8_t *reader_str32(struct reader *reader, size_t *ret_len)
{
    size_t len = reader_u32(reader);
    const uint8_t *at = reader_bytes(reader, len);

    *ret_len = at != NULL ? len : 0;
    return at;
}

/* Bytes not read yet. */
size_t reader_left(const struct reader *reader);

/* True if no read was short and no bytes are left. */
bool reader_done(const struct reader *reader);

/*
 * --- array: room for one more item.
 *
 * Large blocks are moved by the kernel (mremap), not copied, and the part beyond the last item
 * takes no memory yet.
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
 * Threads: one owner; arena_at() also from any thread that got the handle by an acquire load, where
 * the owner stored it with release after arena_alloc().
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
