/*
 * test_wire_request.c - snapshot chunks, forwarded requests, replies and confirmations as bytes.
 *
 * Thread: one.
 */
#include "raft/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

/* One of the decoders, without its result. */
typedef int (*decode_fn)(const void *data, size_t len);

static int chunk_try(const void *data, size_t len)
{
    struct wire_chunk chunk;

    return wire_chunk_decode(data, len, &chunk);
}

static int ack_try(const void *data, size_t len)
{
    struct wire_chunk_ack ack;

    return wire_chunk_ack_decode(data, len, &ack);
}

static int request_try(const void *data, size_t len)
{
    struct wire_request request;

    return wire_request_decode(data, len, &request);
}

static int reply_try(const void *data, size_t len)
{
    struct wire_reply reply;

    return wire_reply_decode(data, len, &reply);
}

static int applied_try(const void *data, size_t len)
{
    struct wire_applied applied;

    return wire_applied_decode(data, len, &applied);
}

static int confirm_try(const void *data, size_t len)
{
    struct wire_confirm confirm;

    return wire_confirm_decode(data, len, &confirm);
}

static int compare_try(const void *data, size_t len)
{
    struct wire_compare compare;

    return wire_compare_decode(data, len, &compare);
}

static int compared_try(const void *data, size_t len)
{
    struct wire_compared compared;

    return wire_compared_decode(data, len, &compared);
}

static int buffers_try(const void *data, size_t len)
{
    struct wire_buffers buffers;

    return wire_buffers_decode(data, len, &buffers);
}

static int durable_try(const void *data, size_t len)
{
    struct wire_durable durable;

    return wire_durable_decode(data, len, &durable);
}

static int probe_try(const void *data, size_t len)
{
    struct wire_probe probe;

    return wire_probe_decode(data, len, &probe);
}

static int resign_try(const void *data, size_t len)
{
    struct wire_resign resign;

    return wire_resign_decode(data, len, &resign);
}

static int try_exact(decode_fn fn, const struct buf *buf)
{
    uint8_t *copy = exact_copy(buf->data, buf->len);
    int rv = fn(copy, buf->len);

    free(copy);
    return rv;
}

static int try_hex(decode_fn fn, const char *hex)
{
    struct buf buf = BUF_INIT;
    int rv;

    hex_put(&buf, hex);
    rv = try_exact(fn, &buf);
    buf_free(&buf);
    return rv;
}

/* The golden bytes; every part of them and one byte more is refused. Then random damage. */
static void check_bytes(decode_fn fn, struct buf *buf, const char *hex)
{
    struct buf part = *buf;
    struct prng prng;

    assert_hex(buf->data, buf->len, hex);
    assert_int_equal(try_exact(fn, buf), 0);
    for (part.len = 0; part.len < buf->len; part.len++) {
        assert_int_equal(try_exact(fn, &part), ERR_BAD_MESSAGE);
    }
    buf_put_u8(buf, 0);
    assert_int_equal(try_exact(fn, buf), ERR_BAD_MESSAGE);
    buf->len--;
    prng_seed(&prng, 5);
    for (int i = 0; i < 10000; i++) {
        const size_t at = (size_t)prng_below(&prng, buf->len);
        const uint8_t old = buf->data[at];
        int rv;

        buf->data[at] = (uint8_t)prng_next(&prng);
        rv = try_exact(fn, buf);
        assert_true(rv == 0 || rv == ERR_BAD_MESSAGE);
        buf->data[at] = old;
    }
}

static void test_chunk(void **state)
{
    const struct wire_chunk chunk = {7, 256, true, (const uint8_t *)"abc", 3};
    struct wire_chunk got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_chunk_encode(&chunk, &buf);
    check_bytes(chunk_try, &buf, "0700000000000000 0001000000000000 01 03000000 616263");
    assert_int_equal(wire_chunk_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.transfer, 7);
    assert_int_equal(got.offset, 256);
    assert_true(got.last);
    assert_int_equal(got.len, 3);
    assert_memory_equal(got.data, "abc", 3);
    assert_int_equal(try_hex(chunk_try, "0700000000000000 0000000000000000 01 00000000"), 0);
    assert_int_equal(try_hex(chunk_try, "0700000000000000 0000000000000000 02 00000000"),
                     ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_chunk_limits(void **state)
{
    struct wire_chunk chunk = {1, 0, false, NULL, WIRE_CHUNK_BYTES_MAX};
    uint8_t *data = calloc(1, WIRE_CHUNK_BYTES_MAX + 1);
    struct buf buf = BUF_INIT;

    (void)state;
    assert_non_null(data);
    chunk.data = data;
    wire_chunk_encode(&chunk, &buf);
    assert_int_equal(try_exact(chunk_try, &buf), 0);
    buf_set_u32(&buf, 17, WIRE_CHUNK_BYTES_MAX + 1);
    buf_put_u8(&buf, 0);
    assert_int_equal(try_exact(chunk_try, &buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
    /* the end of the largest snapshot, and one byte beyond it */
    chunk = (struct wire_chunk){1, LIMIT_SNAPSHOT_BYTES - 1, true, data, 1};
    wire_chunk_encode(&chunk, &buf);
    assert_int_equal(try_exact(chunk_try, &buf), 0);
    buf_set_u32(&buf, 17, 2);
    buf_put_u8(&buf, 0);
    assert_int_equal(try_exact(chunk_try, &buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
    free(data);
    /* nothing more after the largest snapshot, and beyond it */
    assert_int_equal(try_hex(chunk_try, "0100000000000000 0000008000000000 01 00000000"), 0);
    assert_int_equal(try_hex(chunk_try, "0100000000000000 0100008000000000 01 00000000"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(chunk_try, "0100000000000000 ffffffffffffffff 00 00000000"),
                     ERR_BAD_MESSAGE);
}

static void test_chunk_ack(void **state)
{
    const struct wire_chunk_ack ack = {7, 256, true};
    struct wire_chunk_ack got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_chunk_ack_encode(&ack, &buf);
    check_bytes(ack_try, &buf, "0700000000000000 0001000000000000 01");
    assert_int_equal(wire_chunk_ack_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.transfer, 7);
    assert_int_equal(got.offset, 256);
    assert_true(got.abort);
    assert_int_equal(try_hex(ack_try, "0700000000000000 0001000000000000 02"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(ack_try, "0700000000000000 0000008000000000 00"), 0);
    assert_int_equal(try_hex(ack_try, "0700000000000000 0100008000000000 00"), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_request(void **state)
{
    const struct wire_request request = {
        9, 0x0304, CLUSTER_REQUEST_QUERY, 1000, (const uint8_t *)"hi", 2};
    struct wire_request got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_request_encode(&request, &buf);
    check_bytes(request_try, &buf, "0900000000000000 0403 02 e8030000 02000000 6869");
    assert_int_equal(wire_request_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.id, 9);
    assert_int_equal(got.origin, 0x0304);
    assert_int_equal(got.kind, CLUSTER_REQUEST_QUERY);
    assert_int_equal(got.time_left_ms, 1000);
    assert_int_equal(got.payload_len, 2);
    assert_memory_equal(got.payload, "hi", 2);
    assert_int_equal(try_hex(request_try, "0900000000000000 0000 00 e8030000 00000000"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(request_try, "0900000000000000 0000 03 e8030000 00000000"),
                     ERR_BAD_MESSAGE);
    /* 70000 ms is the most */
    assert_int_equal(try_hex(request_try, "0900000000000000 0000 01 70110100 00000000"), 0);
    assert_int_equal(try_hex(request_try, "0900000000000000 0000 01 71110100 00000000"),
                     ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_payload_limits(void **state)
{
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);
    const struct wire_request request = {1, 0, CLUSTER_REQUEST_COMMAND, 0, data, LIMIT_ENTRY_BYTES};
    struct wire_reply reply = {.id = 1, .payload = data, .payload_len = LIMIT_ENTRY_BYTES};
    struct buf buf = BUF_INIT;

    (void)state;
    assert_non_null(data);
    wire_request_encode(&request, &buf);
    assert_int_equal(try_exact(request_try, &buf), 0);
    buf_set_u32(&buf, 15, LIMIT_ENTRY_BYTES + 1);
    buf_put_u8(&buf, 0);
    assert_int_equal(try_exact(request_try, &buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
    wire_reply_encode(&reply, &buf);
    assert_int_equal(try_exact(reply_try, &buf), 0);
    buf_set_u32(&buf, 24, LIMIT_ENTRY_BYTES + 1);
    buf_put_u8(&buf, 0);
    assert_int_equal(try_exact(reply_try, &buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
    reply = (struct wire_reply){.id = 1, .marks = data, .marks_len = WIRE_MARKS_BYTES_MAX};
    wire_reply_encode(&reply, &buf);
    assert_int_equal(try_exact(reply_try, &buf), 0);
    buf_set_u32(&buf, 20, WIRE_MARKS_BYTES_MAX + 1);
    buf_put_u8(&buf, 0);
    assert_int_equal(try_exact(reply_try, &buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
    free(data);
}

static void test_reply(void **state)
{
    const struct wire_reply reply = {.id = 9,
                                     .status = ERR_UNKNOWN_TAG,
                                     .index = 0x1234,
                                     .marks = (const uint8_t *)"mark",
                                     .marks_len = 4,
                                     .payload = (const uint8_t *)"no",
                                     .payload_len = 2};
    struct wire_reply got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_reply_encode(&reply, &buf);
    check_bytes(reply_try, &buf,
                "0900000000000000 fdffffff 3412000000000000 04000000 6d61726b 02000000 6e6f");
    assert_int_equal(wire_reply_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.id, 9);
    assert_int_equal(got.status, ERR_UNKNOWN_TAG);
    assert_int_equal(got.index, 0x1234);
    assert_int_equal(got.marks_len, 4);
    assert_memory_equal(got.marks, "mark", 4);
    assert_int_equal(got.payload_len, 2);
    assert_memory_equal(got.payload, "no", 2);
    buf_free(&buf);
}

static void expect_reply(const char *status, const char *index, int expected)
{
    char hex[160];

    snprintf(hex, sizeof hex, "0900000000000000 %s %s 00000000 00000000", status, index);
    assert_int_equal(try_hex(reply_try, hex), expected);
}

static void test_reply_limits(void **state)
{
    (void)state;
    expect_reply("01000000", "0000000000000000", ERR_BAD_MESSAGE);
    expect_reply("00f0ffff", "0000000000000000", 0);
    expect_reply("ffefffff", "0000000000000000", ERR_BAD_MESSAGE);
    expect_reply("00000080", "0000000000000000", ERR_BAD_MESSAGE);
    expect_reply("00000000", "ffffffffffffff3f", 0);
    expect_reply("00000000", "0000000000000040", ERR_BAD_MESSAGE);
}

static int clock_try(const void *data, size_t len)
{
    struct wire_clock clock;

    return wire_clock_decode(data, len, &clock);
}

/* What a node serves is said in answers of level 3 alone: older ones have a byte less. */
static void test_clock(void **state)
{
    struct wire_clock clock = {.answer = true, .sent_ms = 0x1122, .wall_ms = 0x33};
    struct wire_clock got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_clock_encode(&clock, &buf);
    assert_int_equal(buf.len, 17);
    assert_int_equal(wire_clock_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.wall_ms, 0x33);
    assert_int_equal(got.serves, 0);
    buf.len = 0;
    clock.serves = WIRE_SERVES_KNOWN | WIRE_SERVES_SNOWFLAKE;
    wire_clock_encode(&clock, &buf);
    assert_int_equal(buf.len, 18);
    assert_int_equal(wire_clock_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.sent_ms, 0x1122);
    assert_int_equal(got.serves, 5);
    buf_free(&buf);
    assert_int_equal(try_hex(clock_try, "01 0000000000000000 0000000000000000 07"), 0);
    assert_int_equal(try_hex(clock_try, "01 0000000000000000 0000000000000000 00"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(clock_try, "01 0000000000000000 0000000000000000 02"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(clock_try, "01 0000000000000000 0000000000000000 09"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(clock_try, "00 0000000000000000 0000000000000000 01"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(clock_try, "00 0000000000000000 0100000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(clock_try, "01 0000000000000000 0000000000000000 01 00"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(clock_try, "01 0000000000000000 00000000000000"), ERR_BAD_MESSAGE);
}

static void test_applied(void **state)
{
    const struct wire_applied applied = {true, 0x1122};
    struct wire_applied got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_applied_encode(&applied, &buf);
    check_bytes(applied_try, &buf, "01 2211000000000000");
    assert_int_equal(wire_applied_decode(buf.data, buf.len, &got), 0);
    assert_true(got.answer);
    assert_int_equal(got.index, 0x1122);
    assert_int_equal(try_hex(applied_try, "00 0000000000000000"), 0);
    assert_int_equal(try_hex(applied_try, "00 0100000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(applied_try, "02 0000000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(applied_try, "01 ffffffffffffff3f"), 0);
    assert_int_equal(try_hex(applied_try, "01 0000000000000040"), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_confirm(void **state)
{
    const struct wire_confirm confirm = {3, 0x1122};
    struct wire_confirm got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_confirm_encode(&confirm, &buf);
    check_bytes(confirm_try, &buf, "0300000000000000 2211000000000000");
    assert_int_equal(wire_confirm_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.term, 3);
    assert_int_equal(got.round, 0x1122);
    assert_int_equal(try_hex(confirm_try, "0000000000000000 0000000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(confirm_try, "0000000000000040 0000000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(confirm_try, "ffffffffffffff3f 0000000000000000"), 0);
    buf_free(&buf);
}

static void check_refused(decode_fn fn, const char *hex)
{
    struct buf bytes = BUF_INIT;

    while (*hex != '\0') {
        unsigned byte;

        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        buf_put_u8(&bytes, (uint8_t)byte);
        hex += 2;
    }
    assert_int_equal(fn(bytes.data, bytes.len), ERR_BAD_MESSAGE);
    buf_free(&bytes);
}

static void test_compare(void **state)
{
    const struct wire_compare open = {7, WIRE_COMPARE_OPEN, 0x1122, 0x0102};
    struct buf buf = BUF_INIT;

    (void)state;
    wire_compare_encode(&open, &buf);
    check_bytes(compare_try, &buf,
                "0700000000000000"
                "01"
                "2211000000000000"
                "0201000000000000");
    check_refused(compare_try, "07000000000000000000000000000000000000000000000000");
    check_refused(compare_try, "07000000000000000600000000000000000000000000000000");
    check_refused(compare_try, "07000000000000000100000000000000000201000000000000");
    check_refused(compare_try, "07000000000000000500000000000000000201000000000000");
    check_refused(compare_try, "07000000000000000222110000000000000000000000000000");
    check_refused(compare_try, "07000000000000000300000000000000000201000000000000");
    buf_free(&buf);
}

static void test_compared(void **state)
{
    const struct wire_compared part = {.number = 7,
                                       .kind = WIRE_COMPARED_PART,
                                       .digest = 0x0304,
                                       .count = 2,
                                       .end = true,
                                       .data = (const uint8_t *)"tz",
                                       .len = 2};
    struct buf buf = BUF_INIT;

    (void)state;
    wire_compared_encode(&part, &buf);
    check_bytes(compared_try, &buf,
                "0700000000000000"
                "02"
                "0000000000000000"
                "0403000000000000"
                "02000000"
                "01"
                "02000000"
                "747a");
    check_refused(compared_try,
                  "07000000000000000000000000000000000000000000000000000000000000000000");
    check_refused(compared_try,
                  "07000000000000000700000000000000000000000000000000000000000000000000");
    check_refused(compared_try, "070000000000000005010000000000000000000000000000000000000000000000"
                                "00"); /* the same, at an index */
    check_refused(compared_try, "070000000000000001000000000000000000000000000000000000000000000000"
                                "00"); /* opened at no index */
    check_refused(compared_try, "070000000000000002000000000000000000000000000000000000000000000000"
                                "00"); /* nothing, and not the end */
    check_refused(compared_try, "070000000000000002000000000000000000000000000000000100000001000000"
                                "00"); /* a row without a key */
    check_refused(compared_try,
                  "0700000000000000040000000000000000000000000000000000000000000100000061");
    buf_free(&buf);
}

static void test_buffers(void **state)
{
    const struct wire_buffers answer = {
        .number = 0x0102, .answer = true, .data = (const uint8_t *)"page", .len = 4};
    struct wire_buffers got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_buffers_encode(&answer, &buf);
    check_bytes(buffers_try, &buf, "0201000000000000 01 04000000 70616765");
    assert_int_equal(wire_buffers_decode(buf.data, buf.len, &got), 0);
    assert_true(got.answer);
    assert_int_equal(got.number, 0x0102);
    assert_memory_equal(got.data, "page", got.len);
    check_refused(buffers_try, "02010000000000000100000000"); /* nothing is said */
    check_refused(buffers_try, "0201000000000000020100000061");
    buf_free(&buf);
}

static void test_durable(void **state)
{
    const struct wire_durable durable = {0x0102, 9, 0x1122, 3, 8};
    struct wire_durable got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_durable_encode(&durable, &buf);
    check_bytes(durable_try, &buf,
                "0201000000000000 0900000000000000 2211000000000000 0300000000000000 "
                "0800000000000000");
    assert_int_equal(wire_durable_decode(buf.data, buf.len, &got), 0);
    assert_memory_equal(&got, &durable, sizeof got);
    buf_free(&buf);
}

static void test_probe(void **state)
{
    const struct wire_probe probe = {WIRE_PROBE_YES, 0x0304, 0x1122};
    struct wire_probe got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_probe_encode(&probe, &buf);
    check_bytes(probe_try, &buf, "03 0403 2211000000000000");
    assert_int_equal(wire_probe_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.kind, WIRE_PROBE_YES);
    assert_int_equal(got.origin, 0x0304);
    assert_int_equal(got.round, 0x1122);
    assert_int_equal(try_hex(probe_try, "00 0000 0000000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(probe_try, "01 ffff 0000000000000000"), 0);
    assert_int_equal(try_hex(probe_try, "04 0000 ffffffffffffffff"), 0);
    assert_int_equal(try_hex(probe_try, "05 0000 0000000000000000"), ERR_BAD_MESSAGE);
    /* nobody asks somebody to ask on for a third one */
    assert_int_equal(try_hex(probe_try, "02 0000 0000000000000000"), 0);
    assert_int_equal(try_hex(probe_try, "02 0100 0000000000000000"), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_resign(void **state)
{
    const struct wire_resign resign = {0x1122};
    struct wire_resign got;
    struct buf buf = BUF_INIT;

    (void)state;
    wire_resign_encode(&resign, &buf);
    check_bytes(resign_try, &buf, "2211000000000000");
    assert_int_equal(wire_resign_decode(buf.data, buf.len, &got), 0);
    assert_int_equal(got.term, 0x1122);
    assert_int_equal(try_hex(resign_try, "0000000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(try_hex(resign_try, "ffffffffffffff3f"), 0);
    assert_int_equal(try_hex(resign_try, "0000000000000040"), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunk),          cmocka_unit_test(test_chunk_limits),
        cmocka_unit_test(test_chunk_ack),      cmocka_unit_test(test_request),
        cmocka_unit_test(test_payload_limits), cmocka_unit_test(test_reply),
        cmocka_unit_test(test_reply_limits),   cmocka_unit_test(test_applied),
        cmocka_unit_test(test_clock),          cmocka_unit_test(test_confirm),
        cmocka_unit_test(test_resign),         cmocka_unit_test(test_compare),
        cmocka_unit_test(test_compared),       cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_durable),        cmocka_unit_test(test_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
