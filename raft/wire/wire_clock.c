/*
 * wire_clock.c - the payload of FRAME_CLOCK (wire.h). Thread: pure functions, any.
 */
#include "raft/wire/wire.h"

void wire_clock_encode(const struct wire_clock *clock, struct buf *buf)
{
    buf_put_u8(buf, clock->answer);
    buf_put_u64(buf, clock->sent_ms);
    buf_put_u64(buf, clock->wall_ms);
}

int wire_clock_decode(const void *data, size_t len, struct wire_clock *ret_clock)
{
    struct reader reader;
    uint8_t answer;

    reader_init(&reader, data, len);
    answer = reader_u8(&reader);
    ret_clock->answer = answer == 1;
    ret_clock->sent_ms = reader_u64(&reader);
    ret_clock->wall_ms = reader_u64(&reader);
    return reader_done(&reader) && answer <= 1 ? 0 : ERR_BAD_MESSAGE;
}
