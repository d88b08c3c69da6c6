/*
 * wire_request.c - the payloads of snapshot chunks, forwarded requests and read confirmations.
 *
 *   SNAPSHOT_CHUNK  u64 transfer, u64 offset, u8 last, u32 length, rows
 *   SNAPSHOT_ACK    u64 transfer, u64 offset, u8 abort
 *   REQUEST, RELAY  u64 id, u16 origin, u8 kind, u32 time left in ms, u32 length, command or query
 *   REPLY           u64 id, u32 status (0, or an ERR_* as two's complement), u64 index, u32 length,
 *                   marks, u32 length, answer
 *   CONFIRM(_ACK)   u64 term, u64 round
 *   APPLIED         u8 answer, u64 index
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE for a short or long payload and for a value out of
 * its bounds. Encoding asserts the same bounds: who sends is to keep them.
 *
 * Thread: pure functions, any.
 */
#include "raft/wire/wire.h"

#include "raft/wire/wire_check.h"
#include "src/base/assert.h"
#include "src/base/limits.h"

void wire_chunk_encode(const struct wire_chunk *chunk, struct buf *buf)
{
    ASSERT(chunk->len <= WIRE_CHUNK_BYTES_MAX);
    ASSERT(chunk->offset <= LIMIT_SNAPSHOT_BYTES - chunk->len);
    buf_reserve(buf, 8 + 8 + 1 + 4 + chunk->len);
    buf_put_u64(buf, chunk->transfer);
    buf_put_u64(buf, chunk->offset);
    buf_put_u8(buf, chunk->last ? 1 : 0);
    buf_put_str32(buf, chunk->data, chunk->len);
}

int wire_chunk_decode(const void *data, size_t len, struct wire_chunk *ret_chunk)
{
    struct wire_chunk chunk;
    struct reader reader;

    reader_init(&reader, data, len);
    chunk.transfer = reader_u64(&reader);
    chunk.offset = reader_u64(&reader);
    chunk.last = wire_read_bool(&reader);
    chunk.data = wire_read_bytes(&reader, WIRE_CHUNK_BYTES_MAX, &chunk.len);
    wire_require(&reader, chunk.offset <= LIMIT_SNAPSHOT_BYTES);
    wire_require(&reader, chunk.len <= LIMIT_SNAPSHOT_BYTES - chunk.offset);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_chunk = chunk;
    return 0;
}

void wire_chunk_ack_encode(const struct wire_chunk_ack *ack, struct buf *buf)
{
    ASSERT(ack->offset <= LIMIT_SNAPSHOT_BYTES);
    buf_put_u64(buf, ack->transfer);
    buf_put_u64(buf, ack->offset);
    buf_put_u8(buf, ack->abort ? 1 : 0);
}

int wire_chunk_ack_decode(const void *data, size_t len, struct wire_chunk_ack *ret_ack)
{
    struct wire_chunk_ack ack;
    struct reader reader;

    reader_init(&reader, data, len);
    ack.transfer = reader_u64(&reader);
    ack.offset = reader_u64(&reader);
    ack.abort = wire_read_bool(&reader);
    wire_require(&reader, ack.offset <= LIMIT_SNAPSHOT_BYTES);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_ack = ack;
    return 0;
}

static bool kind_is_known(uint8_t kind)
{
    return kind == WIRE_REQUEST_COMMAND || kind == WIRE_REQUEST_QUERY ||
           kind == WIRE_REQUEST_MEMBER;
}

void wire_request_encode(const struct wire_request *request, struct buf *buf)
{
    ASSERT(kind_is_known(request->kind));
    ASSERT(request->time_left_ms <= WIRE_TIME_LEFT_MS_MAX);
    ASSERT(request->origin <= LIMIT_NODE_ID);
    ASSERT(request->payload_len <= LIMIT_ENTRY_BYTES);
    buf_reserve(buf, 8 + 2 + 1 + 4 + 4 + request->payload_len);
    buf_put_u64(buf, request->id);
    buf_put_u16(buf, (uint16_t)request->origin);
    buf_put_u8(buf, request->kind);
    buf_put_u32(buf, request->time_left_ms);
    buf_put_str32(buf, request->payload, request->payload_len);
}

int wire_request_decode(const void *data, size_t len, struct wire_request *ret_request)
{
    struct wire_request request;
    struct reader reader;

    reader_init(&reader, data, len);
    request.id = reader_u64(&reader);
    request.origin = reader_u16(&reader);
    request.kind = reader_u8(&reader);
    request.time_left_ms = reader_u32(&reader);
    request.payload = wire_read_bytes(&reader, LIMIT_ENTRY_BYTES, &request.payload_len);
    wire_require(&reader, kind_is_known(request.kind));
    wire_require(&reader, request.time_left_ms <= WIRE_TIME_LEFT_MS_MAX);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_request = request;
    return 0;
}

void wire_reply_encode(const struct wire_reply *reply, struct buf *buf)
{
    ASSERT(reply->status <= 0 && reply->status >= WIRE_STATUS_MIN);
    ASSERT(reply->index < WIRE_NUMBER_BOUND && reply->marks_len <= TAG_MARKS_BYTES_MAX);
    ASSERT(reply->payload_len <= LIMIT_ENTRY_BYTES);
    buf_reserve(buf, 8 + 4 + 8 + 4 + reply->marks_len + 4 + reply->payload_len);
    buf_put_u64(buf, reply->id);
    buf_put_u32(buf, (uint32_t)reply->status);
    buf_put_u64(buf, reply->index);
    buf_put_str32(buf, reply->marks, reply->marks_len);
    buf_put_str32(buf, reply->payload, reply->payload_len);
}

int wire_reply_decode(const void *data, size_t len, struct wire_reply *ret_reply)
{
    struct wire_reply reply;
    struct reader reader;

    reader_init(&reader, data, len);
    reply.id = reader_u64(&reader);
    reply.status = (int32_t)reader_u32(&reader);
    reply.index = wire_read_index(&reader);
    reply.marks = wire_read_bytes(&reader, TAG_MARKS_BYTES_MAX, &reply.marks_len);
    reply.payload = wire_read_bytes(&reader, LIMIT_ENTRY_BYTES, &reply.payload_len);
    wire_require(&reader, reply.status <= 0 && reply.status >= WIRE_STATUS_MIN);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_reply = reply;
    return 0;
}

void wire_confirm_encode(const struct wire_confirm *confirm, struct buf *buf)
{
    ASSERT(confirm->term > 0 && confirm->term < WIRE_NUMBER_BOUND);
    buf_put_u64(buf, confirm->term);
    buf_put_u64(buf, confirm->round);
}

int wire_confirm_decode(const void *data, size_t len, struct wire_confirm *ret_confirm)
{
    struct wire_confirm confirm;
    struct reader reader;

    reader_init(&reader, data, len);
    confirm.term = wire_read_term(&reader);
    confirm.round = reader_u64(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_confirm = confirm;
    return 0;
}

void wire_applied_encode(const struct wire_applied *applied, struct buf *buf)
{
    ASSERT(applied->index < WIRE_NUMBER_BOUND);
    buf_put_u8(buf, applied->answer ? 1 : 0);
    buf_put_u64(buf, applied->index);
}

int wire_applied_decode(const void *data, size_t len, struct wire_applied *ret_applied)
{
    struct wire_applied applied;
    struct reader reader;

    reader_init(&reader, data, len);
    applied.answer = wire_read_bool(&reader);
    applied.index = wire_read_index(&reader);
    wire_require(&reader, applied.answer || applied.index == 0);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_applied = applied;
    return 0;
}
