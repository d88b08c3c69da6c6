/*
 * test_frame.c - the frame's bytes, and the decoder on whole, split, oversized and damaged streams.
 *
 * Thread: one.
 */
#include "raft/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "src/base/hash.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

static void decoder_open(struct frame_decoder *decoder)
{
    *decoder = (struct frame_decoder){0};
    decoder->is_open = true;
}

/* What the first call gives for this stream. */
static int first_result(const struct buf *stream, bool handshake)
{
    struct frame_decoder decoder;
    uint8_t *copy = exact_copy(stream->data, stream->len);
    const uint8_t *data = copy;
    size_t len = stream->len;
    struct frame frame;
    int rv;

    decoder = (struct frame_decoder){0};
    if (!handshake) {
        decoder.is_open = true;
    }
    rv = frame_decoder_next(&decoder, &data, &len, &frame);
    if (rv < 0) {
        /* broken for good */
        assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), rv);
    }
    buf_free(&decoder.buf);
    free(copy);
    return rv;
}

/* A header as a hostile sender makes it: any fields, and a checksum that holds. */
static int result_of_header(uint32_t length, uint8_t version, uint8_t type, uint16_t zero)
{
    struct buf stream = BUF_INIT;
    int rv;

    buf_put_u32(&stream, length);
    buf_put_u32(&stream, 0);
    buf_put_u8(&stream, version);
    buf_put_u8(&stream, type);
    buf_put_u16(&stream, zero);
    buf_set_u32(&stream, 4, hash_crc32c(stream.data + 8, 4));
    rv = first_result(&stream, false);
    buf_free(&stream);
    return rv;
}

static void test_golden(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    frame_put(&buf, FRAME_RAFT, "abc", 3);
    /* crc32c of 01 10 00 00 "abc" */
    assert_int_equal(hash_crc32c("\x01\x10\x00\x00"
                                 "abc",
                                 7),
                     0x451eea56);
    assert_hex(buf.data, buf.len, "07000000 56ea1e45 01 10 0000 616263");
    assert_int_equal(first_result(&buf, false), 1);
    buf_free(&buf);
    frame_put(&buf, FRAME_PING, NULL, 0);
    assert_hex(buf.data, 4, "04000000");
    assert_int_equal(buf.len, FRAME_HEADER_BYTES);
    assert_int_equal(first_result(&buf, false), 1);
    buf_free(&buf);
}

static void test_header_rules(void **state)
{
    (void)state;
    assert_int_equal(result_of_header(4, 1, FRAME_RAFT, 0), 1);
    assert_int_equal(result_of_header(4, 0, FRAME_RAFT, 0), ERR_BAD_VERSION);
    assert_int_equal(result_of_header(4, 2, FRAME_RAFT, 0), ERR_BAD_VERSION);
    assert_int_equal(result_of_header(4, 1, FRAME_RAFT, 1), ERR_BAD_MESSAGE);
    assert_int_equal(result_of_header(4, 1, FRAME_RAFT, 256), ERR_BAD_MESSAGE);
    assert_int_equal(result_of_header(3, 1, FRAME_RAFT, 0), ERR_BAD_MESSAGE);
    assert_int_equal(result_of_header(0, 1, FRAME_RAFT, 0), ERR_BAD_MESSAGE);
    assert_int_equal(result_of_header(LIMIT_FRAME_BYTES - 8, 1, FRAME_RAFT, 0), 0);
    assert_int_equal(result_of_header(LIMIT_FRAME_BYTES - 7, 1, FRAME_RAFT, 0), ERR_TOO_LARGE);
    assert_int_equal(result_of_header(UINT32_MAX, 1, FRAME_RAFT, 0), ERR_TOO_LARGE);
}

static void test_types(void **state)
{
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        const bool handshake = type >= FRAME_HELLO && type <= FRAME_JOINED;
        const bool other = type >= FRAME_RAFT && type <= FRAME_TYPE_MAX;
        struct buf stream = BUF_INIT;

        hex_put(&stream, "04000000 00000000 01 00 0000");
        stream.data[9] = (uint8_t)type;
        buf_set_u32(&stream, 4, hash_crc32c(stream.data + 8, 4));
        assert_int_equal(first_result(&stream, true), handshake ? 1 : ERR_BAD_MESSAGE);
        assert_int_equal(first_result(&stream, false), other ? 1 : ERR_BAD_MESSAGE);
        buf_free(&stream);
    }
}

static void test_handshake_frames_are_small(void **state)
{
    uint8_t payload[LIMIT_HANDSHAKE_BYTES] = {0};
    struct buf stream = BUF_INIT;

    (void)state;
    frame_put(&stream, FRAME_HELLO, payload, LIMIT_HANDSHAKE_BYTES - FRAME_HEADER_BYTES);
    assert_int_equal(first_result(&stream, true), 1);
    stream.len = 0;
    frame_put(&stream, FRAME_HELLO, payload, LIMIT_HANDSHAKE_BYTES - FRAME_HEADER_BYTES + 1);
    assert_int_equal(first_result(&stream, true), ERR_TOO_LARGE);
    buf_free(&stream);
}

static void test_every_damaged_byte_is_found(void **state)
{
    struct buf stream = BUF_INIT;

    (void)state;
    frame_put(&stream, FRAME_RAFT, "0123456789", 10);
    for (size_t i = 0; i < stream.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            stream.data[i] ^= (uint8_t)(1U << bit);
            /* a longer length waits for more, everything else is an error at once */
            assert_true(first_result(&stream, false) <= 0);
            stream.data[i] ^= (uint8_t)(1U << bit);
        }
    }
    stream.data[stream.len - 1] ^= 1;
    assert_int_equal(first_result(&stream, false), ERR_CORRUPT);
    buf_free(&stream);
}

static void test_memory_follows_the_bytes(void **state)
{
    struct frame_decoder decoder;
    struct buf stream = BUF_INIT;
    const uint8_t *data;
    struct frame frame;
    size_t len;

    (void)state;
    decoder_open(&decoder);
    buf_put_u32(&stream, LIMIT_FRAME_BYTES - 8);
    hex_put(&stream, "00000000 01 10 0000");
    data = stream.data;
    len = stream.len;
    assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 0);
    assert_true(decoder.buf.capacity <= 4096);
    for (unsigned i = 0; i < 1000; i++) {
        data = (const uint8_t *)"0123456789";
        len = 10;
        assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 0);
        assert_int_equal(len, 0);
    }
    assert_true(decoder.buf.capacity <= 2 * (10000 + FRAME_HEADER_BYTES));
    buf_free(&decoder.buf);
    buf_free(&stream);
}

static void test_large_memory_is_given_back(void **state)
{
    const size_t payload_len = 1 << 20;
    uint8_t *payload = calloc(1, payload_len);
    struct frame_decoder decoder;
    struct buf stream = BUF_INIT;
    const uint8_t *data;
    struct frame frame;
    size_t len;

    (void)state;
    assert_non_null(payload);
    frame_put(&stream, FRAME_RAFT, payload, payload_len);
    frame_put(&stream, FRAME_PING, NULL, 0);
    decoder_open(&decoder);
    data = stream.data;
    len = 100;
    assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 0);
    data = stream.data + 100;
    len = stream.len - 100;
    assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 1);
    assert_int_equal(frame.len, payload_len);
    assert_int_equal(frame_decoder_next(&decoder, &data, &len, &frame), 1);
    assert_int_equal(frame.type, FRAME_PING);
    assert_int_equal(decoder.buf.capacity, 0);
    buf_free(&decoder.buf);
    buf_free(&stream);
    free(payload);
}

/* A stream of random frames, and what it should give. */
static void random_stream(struct prng *prng, unsigned count, struct buf *stream)
{
    uint8_t payload[600];

    for (unsigned i = 0; i < count; i++) {
        const size_t len = (size_t)prng_below(prng, sizeof payload);

        memset(payload, (int)(i & 0xff), len);
        frame_put(stream, (enum frame_type)(FRAME_RAFT + i % 8), payload, len);
    }
}

/* Feed the stream in pieces; each frame must be the next of the stream. Returns their number, or
 * the error. */
static int feed_in_pieces(struct prng *prng, const struct buf *stream, size_t max_piece)
{
    struct frame_decoder decoder;
    struct buf seen = BUF_INIT;
    int count = 0;
    int rv = 0;

    decoder_open(&decoder);
    for (size_t at = 0; at < stream->len && rv >= 0;) {
        size_t piece = 1 + (size_t)prng_below(prng, max_piece);
        const uint8_t *data;
        struct frame frame;
        uint8_t *copy;

        piece = piece < stream->len - at ? piece : stream->len - at;
        copy = exact_copy(stream->data + at, piece);
        at += piece;
        data = copy;
        while ((rv = frame_decoder_next(&decoder, &data, &piece, &frame)) == 1) {
            frame_put(&seen, frame.type, frame.payload, frame.len);
            count++;
        }
        free(copy);
    }
    assert_true(seen.len <= stream->len);
    if (seen.len > 0) {
        assert_memory_equal(seen.data, stream->data, seen.len);
    }
    if (rv == 0) {
        assert_int_equal(seen.len + decoder.buf.len, stream->len);
    }
    buf_free(&seen);
    buf_free(&decoder.buf);
    return rv < 0 ? rv : count;
}

static void test_any_split_gives_the_same(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 3);
    for (unsigned i = 0; i < 200; i++) {
        static const size_t pieces[] = {1, 2, 13, 100, 5000, 100000};
        struct buf stream = BUF_INIT;

        random_stream(&prng, 30, &stream);
        for (size_t j = 0; j < sizeof pieces / sizeof pieces[0]; j++) {
            assert_int_equal(feed_in_pieces(&prng, &stream, pieces[j]), 30);
        }
        buf_free(&stream);
    }
}

static void test_damaged_streams_never_give_wrong_frames(void **state)
{
    struct prng prng;
    unsigned errors = 0;

    (void)state;
    prng_seed(&prng, 4);
    for (unsigned i = 0; i < 5000; i++) {
        struct buf stream = BUF_INIT;
        struct buf damaged = BUF_INIT;
        size_t at;
        int rv;

        random_stream(&prng, 5, &stream);
        at = (size_t)prng_below(&prng, stream.len);
        buf_put(&damaged, stream.data, stream.len);
        damaged.data[at] ^= (uint8_t)(1 + prng_below(&prng, 255));
        /* what passed is compared with the damaged bytes, so its checksum held */
        rv = feed_in_pieces(&prng, &damaged, 700);
        assert_true(rv < 5);
        errors += rv < 0 ? 1 : 0;
        buf_free(&stream);
        buf_free(&damaged);
    }
    assert_true(errors > 4500);
}

static void test_garbage(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (unsigned i = 0; i < 5000; i++) {
        struct buf stream = BUF_INIT;

        for (unsigned j = 0; j < 64; j++) {
            buf_put_u8(&stream, (uint8_t)prng_next(&prng));
        }
        assert_true(feed_in_pieces(&prng, &stream, 64) < 0);
        buf_free(&stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_header_rules),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_handshake_frames_are_small),
        cmocka_unit_test(test_every_damaged_byte_is_found),
        cmocka_unit_test(test_memory_follows_the_bytes),
        cmocka_unit_test(test_large_memory_is_given_back),
        cmocka_unit_test(test_any_split_gives_the_same),
        cmocka_unit_test(test_damaged_streams_never_give_wrong_frames),
        cmocka_unit_test(test_garbage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
