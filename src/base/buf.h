/*
 * buf.h - a growable byte buffer, and a bounded reader: the little-endian codec of all bytes that
 * leave the process (disk, wire, commands).
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

/* So many bytes of it, little-endian. bytes: a constant, so that it is one store. */
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

/* What is in it as text, with a NUL after it that does not count. Borrowed until it changes. */
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

/* Here, not in buf.c: of a strict id some thirty numbers are read on each node, and a call costs
 * more than what it reads. */

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

static inline uint8_t reader_u8(struct reader *reader)
{
    const uint8_t *at = reader_bytes(reader, 1);

    return at != NULL ? *at : 0;
}

static inline uint16_t reader_u16(struct reader *reader)
{
    const uint8_t *at = reader_bytes(reader, sizeof(uint16_t));
    uint16_t le = 0;

    if (at != NULL) {
        memcpy(&le, at, sizeof le);
    }
    return le16toh(le);
}

static inline uint32_t reader_u32(struct reader *reader)
{
    const uint8_t *at = reader_bytes(reader, sizeof(uint32_t));
    uint32_t le = 0;

    if (at != NULL) {
        memcpy(&le, at, sizeof le);
    }
    return le32toh(le);
}

static inline uint64_t reader_u64(struct reader *reader)
{
    const uint8_t *at = reader_bytes(reader, sizeof(uint64_t));
    uint64_t le = 0;

    if (at != NULL) {
        memcpy(&le, at, sizeof le);
    }
    return le64toh(le);
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

/* True if nothing was short and nothing is left over. */
bool reader_done(const struct reader *reader);

#endif
