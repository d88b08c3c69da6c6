/*
 * wire_check.h - small readers of numbers and byte strings that have bounds.
 *
 * Each marks the reader as bad when the value breaks its rule, so that a decoder reads all fields
 * and asks once, with reader_done(), whether the message stands.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_WIRE_WIRE_CHECK_H
#define LEAFD_RAFT_WIRE_WIRE_CHECK_H

#include "src/base/buf.h"

/* Indexes and terms must stay below: no honest log gets there, and sums of them cannot wrap. */
#define WIRE_NUMBER_BOUND (1ULL << 62)

static inline void wire_require(struct reader *reader, bool condition)
{
    if (!condition) {
        reader->bad = true;
    }
}

/* A byte that is 0 or 1. */
static inline bool wire_read_bool(struct reader *reader)
{
    uint8_t value = reader_u8(reader);

    wire_require(reader, value <= 1);
    return value == 1;
}

/* An index: below the bound. */
static inline uint64_t wire_read_index(struct reader *reader)
{
    uint64_t value = reader_u64(reader);

    wire_require(reader, value < WIRE_NUMBER_BOUND);
    return value;
}

/* A term that is in force: not 0. */
static inline uint64_t wire_read_term(struct reader *reader)
{
    uint64_t value = wire_read_index(reader);

    wire_require(reader, value > 0);
    return value;
}

/* A byte string (u32 length before it) of at most max bytes, borrowed from the reader. */
static inline const uint8_t *wire_read_bytes(struct reader *reader, size_t max, size_t *ret_len)
{
    const uint8_t *data = reader_str32(reader, ret_len);

    wire_require(reader, *ret_len <= max);
    return data;
}

#endif
