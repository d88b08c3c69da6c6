/*
 * fuzz_wire.c - any bytes from a peer: frames, payloads of every kind, handshakes, and the rows of
 * a snapshot.
 *
 * The first byte chooses what the rest is given to. Whatever is accepted must encode to the very
 * bytes that came; a stream of frames gives the same however it is split; a handshake ends in a
 * state that it may end in, and never proves a secret that the bytes cannot know.
 *
 * Thread: one.
 */
#include <string.h>

#include "raft/core/tests/core_frames.h"
#include "raft/transport/handshake.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/id/fsm/fsm.h"
#include "storage/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* --- payloads --- */

static void expect_same(const struct buf *again, const uint8_t *data, size_t len)
{
    ASSERT(again->len == len && memcmp(again->data, data, len) == 0);
}

static void fuzz_raft(const uint8_t *data, size_t len)
{
    struct buf again = BUF_INIT;

    if (core_again(data, len, &again)) {
        expect_same(&again, data, len);
    }
    buf_free(&again);
}

static void fuzz_transfer(const uint8_t *data, size_t len)
{
    struct wire_chunk chunk;
    struct wire_chunk_ack ack;
    struct buf again = BUF_INIT;

    if (wire_chunk_decode(data, len, &chunk) == 0) {
        wire_chunk_encode(&chunk, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_chunk_ack_decode(data, len, &ack) == 0) {
        wire_chunk_ack_encode(&ack, &again);
        expect_same(&again, data, len);
    }
    buf_free(&again);
}

static void fuzz_requests(const uint8_t *data, size_t len)
{
    struct wire_request request;
    struct wire_reply reply;
    struct buf again = BUF_INIT;

    if (wire_request_decode(data, len, &request) == 0) {
        wire_request_encode(&request, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_reply_decode(data, len, &reply) == 0) {
        wire_reply_encode(&reply, &again);
        expect_same(&again, data, len);
    }
    buf_free(&again);
}

static void fuzz_members(const uint8_t *data, size_t len)
{
    struct wire_statement statement;
    struct wire_join join = {"", {{0, 0}, 0}};
    struct wire_joined joined;
    struct wire_durable durable;
    struct wire_compare compare;
    struct wire_compared compared;
    struct buf again = BUF_INIT;

    if (wire_compare_decode(data, len, &compare) == 0) {
        wire_compare_encode(&compare, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_compared_decode(data, len, &compared) == 0) {
        wire_compared_encode(&compared, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;

    if (wire_durable_decode(data, len, &durable) == 0) {
        wire_durable_encode(&durable, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_statement_decode(data, len, &statement) == 0) {
        wire_statement_encode(&statement, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_join_decode(data, len, &join) == 0) {
        wire_join_encode(&join, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_joined_decode(data, len, &joined) == 0) {
        wire_joined_encode(&joined, &again);
        expect_same(&again, data, len);
    }
    buf_free(&again);
}

static void fuzz_small(const uint8_t *data, size_t len)
{
    struct wire_confirm confirm;
    struct wire_applied applied;
    struct wire_clock clock;
    struct wire_probe probe;
    struct buf again = BUF_INIT;
    struct wire_resign resign;

    if (wire_confirm_decode(data, len, &confirm) == 0) {
        wire_confirm_encode(&confirm, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_applied_decode(data, len, &applied) == 0) {
        wire_applied_encode(&applied, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_clock_decode(data, len, &clock) == 0) {
        wire_clock_encode(&clock, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_probe_decode(data, len, &probe) == 0) {
        wire_probe_encode(&probe, &again);
        expect_same(&again, data, len);
    }
    again.len = 0;
    if (wire_resign_decode(data, len, &resign) == 0) {
        wire_resign_encode(&resign, &again);
        expect_same(&again, data, len);
    }
    buf_free(&again);
}

/* --- frames --- */

/* What a decoder makes of a stream that comes in two parts, as a hash. */
static uint64_t hash_frames(const struct buf *stream, size_t cut)
{
    const size_t ends[2] = {cut, stream->len};
    struct frame_decoder decoder;
    uint64_t hash = 0;
    size_t at = 0;

    decoder = (struct frame_decoder){0};
    decoder.is_open = true;
    for (unsigned part = 0; part < 2; part++) {
        const uint8_t *data = stream->data + at;
        size_t len = ends[part] - at;
        struct frame frame;
        int rv;

        while ((rv = frame_decoder_next(&decoder, &data, &len, &frame)) == 1) {
            hash = hash * 1099511628211U + (unsigned)frame.type;
            for (size_t i = 0; i < frame.len; i++) {
                hash = hash * 1099511628211U + frame.payload[i];
            }
        }
        hash = rv < 0 && part == 1 ? hash + (uint64_t)-rv : hash;
        at = ends[part];
    }
    buf_free(&decoder.buf);
    return hash;
}

/* The first byte says where the stream is cut, the second how much of it is a whole frame. */
static void fuzz_frames(const uint8_t *data, size_t len)
{
    struct buf stream = BUF_INIT;
    size_t whole;

    if (len < 3) {
        return;
    }
    whole = data[1] % (len - 2);
    frame_put(&stream, FRAME_REQUEST, data + 2, whole);
    buf_put(&stream, data + 2 + whole, len - 2 - whole);
    ASSERT(hash_frames(&stream, data[0] % stream.len) == hash_frames(&stream, stream.len));
    buf_free(&stream);
}

/* --- handshakes --- */

/* The two that meet are 1 and 2; a store 7 was wiped. */
static int judge_cb(struct net_receiver *receiver, const struct net_claim *claim,
                    uint16_t *ret_level)
{
    struct wire_statement said;

    (void)receiver;
    *ret_level = LEVEL_FIRST;
    if (claim->store_id == 7 || !claim->states) {
        return claim->store_id == 7 ? ERR_WRONG_NODE : 0;
    }
    ASSERT(wire_statement_decode(claim->statement, claim->len, &said) == 0);
    return claim->id == 2 ? 0 : ERR_NOT_FOUND;
}

static void introduce_cb(struct net_receiver *receiver, struct buf *statement)
{
    (void)receiver;
    wire_statement_encode(&(struct wire_statement){.start = {1, 2, 3, 0, 2}}, statement);
}

static const struct tls_peer any = {.same_cluster = true};

static struct handshake_config config_of(uint64_t node_id)
{
    static struct net_receiver receiver = {.introduce = introduce_cb, .judge = judge_cb};

    return (struct handshake_config){
        .node_id = node_id, .store_id = 5, .cluster_id = "fuzz", .receiver = &receiver};
}

/* Frames {type, u16 length, payload} for one side of a handshake. */
static void fuzz_stranger(struct reader *reader, bool dialler)
{
    const struct handshake_config config = config_of(1);
    struct handshake handshake;
    struct buf out = BUF_INIT;

    if (dialler) {
        handshake_dial(&handshake, &config, 2, &any, &out);
    } else {
        handshake_accept(&handshake, &config, &any);
    }
    while (handshake.state < HANDSHAKE_DONE) {
        enum frame_type type = (enum frame_type)reader_u8(reader);
        size_t payload_len;
        const uint8_t *payload = reader_str16(reader, &payload_len);

        if (reader->bad || !frame_is_handshake(type)) {
            break;
        }
        handshake_receive(&handshake, type, payload, payload_len, &out);
    }
    ASSERT(handshake_reject_info(handshake.reject)->text != NULL &&
           out.len <= 4 * LIMIT_HANDSHAKE_BYTES);
    buf_free(&out);
}

static void fuzz_handshake(const uint8_t *data, size_t len)
{
    struct reader reader;

    reader_init(&reader, data, len);
    fuzz_stranger(&reader, reader_u8(&reader) % 2 == 1);
}

/* --- rows --- */

/* A snapshot's rows: what loads must load again from the same bytes to the same digest. */
static bool load(struct state *state, const uint8_t *data, size_t len)
{
    struct reader reader;
    struct state_row row;
    int rv = 0;

    state_load_begin(state);
    reader_init(&reader, data, len);
    while (rv == 0 && store_rows_next(&reader, &row)) {
        rv = state_load_row(state, &row);
    }
    return rv == 0 && reader_done(&reader) && state_load_end(state, 100) == 0;
}

static void fuzz_rows(const uint8_t *data, size_t len)
{
    struct state *state = state_new(&fsm_machine);
    uint64_t digest;

    if (load(state, data, len)) {
        digest = state_digest(state);
        ASSERT(load(state, data, len) && state_digest(state) == digest);
    }
    state_free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    switch (data[0] % 8) {
    case 0:
        fuzz_raft(data + 1, len - 1);
        break;
    case 1:
        fuzz_transfer(data + 1, len - 1);
        break;
    case 2:
        fuzz_requests(data + 1, len - 1);
        break;
    case 3:
        fuzz_small(data + 1, len - 1);
        break;
    case 4:
        fuzz_frames(data + 1, len - 1);
        break;
    case 5:
        fuzz_rows(data + 1, len - 1);
        break;
    case 6:
        fuzz_members(data + 1, len - 1);
        break;
    default:
        fuzz_handshake(data + 1, len - 1);
        break;
    }
    return 0;
}
