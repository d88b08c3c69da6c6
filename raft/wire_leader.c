/*
 * wire_leader.c - the payload of what nodes tell each other about their leader.
 *
 *   RESIGN  u64 term
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE for a short or long payload and for a value out of
 * its bounds.
 *
 * Thread: pure functions, any.
 */
#include "raft/wire.h"

#include "raft/wire_check.h"
#include "src/base/assert.h"

void wire_resign_encode(uint64_t term, struct buf *buf)
{
    ASSERT(term > 0 && term < WIRE_NUMBER_BOUND);
    buf_put_u64(buf, term);
}

int wire_resign_decode(const void *data, size_t len, uint64_t *ret_term)
{
    struct reader reader;
    uint64_t term;

    reader_init(&reader, data, len);
    term = wire_read_term(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_term = term;
    return 0;
}
