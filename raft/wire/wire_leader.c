/*
 * wire_leader.c - the payload of what nodes tell each other about their leader.
 *
 *   RESIGN  u64 term
 *   PROBE   u8 kind, u16 origin, u64 round
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE for a short or long payload and for a value out of
 * its bounds.
 *
 * Thread: pure functions, any.
 */
#include "raft/wire/wire.h"

#include "raft/wire/wire_check.h"
#include "src/base/assert.h"
#include "src/base/limits.h"

static bool probe_is_sound(const struct wire_probe *probe)
{
    return probe->kind >= WIRE_PROBE_ASK && probe->kind <= WIRE_PROBE_NO &&
           probe->origin <= LIMIT_NODE_ID &&
           (probe->kind != WIRE_PROBE_ASK_ON || probe->origin == 0);
}

void wire_probe_encode(const struct wire_probe *probe, struct buf *buf)
{
    ASSERT(probe_is_sound(probe));
    buf_put_u8(buf, probe->kind);
    buf_put_u16(buf, (uint16_t)probe->origin);
    buf_put_u64(buf, probe->round);
}

int wire_probe_decode(const void *data, size_t len, struct wire_probe *ret_probe)
{
    struct wire_probe probe;
    struct reader reader;

    reader_init(&reader, data, len);
    probe.kind = reader_u8(&reader);
    probe.origin = reader_u16(&reader);
    probe.round = reader_u64(&reader);
    if (!reader_done(&reader) || !probe_is_sound(&probe)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_probe = probe;
    return 0;
}

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
