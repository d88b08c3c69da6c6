/*
 * test_buf.c - the codec: golden bytes, round trips, and reads that are short by every amount.
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/buf.h"
#include "src/tests/unit/death.h"

static void test_golden_bytes(void **state)
{
    static const uint8_t golden[] = {
        0x01,                                           /* u8 */
        0x03, 0x02,                                     /* u16 */
        0x07, 0x06, 0x05, 0x04,                         /* u32 */
        0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, /* u64 */
        0x02, 0x00, 'h',  'i',                          /* str16 */
        0x01, 0x00, 0x00, 0x00, '!',                    /* str32 */
        0x00, 0x00,                                     /* an empty str16 */
    };
    struct buf buf = BUF_INIT;

    (void)state;
    buf_put_u8(&buf, 0x01);
    buf_put_u16(&buf, 0x0203);
    buf_put_u32(&buf, 0x04050607);
    buf_put_u64(&buf, 0x08090a0b0c0d0e0fULL);
    buf_put_str16(&buf, "hi", 2);
    buf_put_str32(&buf, "!", 1);
    buf_put_str16(&buf, NULL, 0);
    assert_int_equal(buf.len, sizeof golden);
    assert_memory_equal(buf.data, golden, sizeof golden);
    buf_free(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    assert_int_equal(buf.capacity, 0);
    buf_free(&buf);
}

static void put_all(struct buf *buf)
{
    buf_put_u8(buf, UINT8_MAX);
    buf_put_u16(buf, UINT16_MAX - 1);
    buf_put_u32(buf, UINT32_MAX - 2);
    buf_put_u64(buf, UINT64_MAX - 3);
    buf_put_str16(buf, "tag", 3);
    buf_put_str32(buf, "", 0);
    buf_put(buf, "rest", 4);
}

/* Read what put_all wrote; values are compared only when nothing was short. */
static void read_all(struct reader *reader, bool complete)
{
    uint8_t u8 = reader_u8(reader);
    uint16_t u16 = reader_u16(reader);
    uint32_t u32 = reader_u32(reader);
    uint64_t u64 = reader_u64(reader);
    size_t len16 = 99;
    size_t len32 = 99;
    const uint8_t *str16 = reader_str16(reader, &len16);
    const uint8_t *str32 = reader_str32(reader, &len32);
    const uint8_t *rest = reader_bytes(reader, 4);

    if (!complete) {
        assert_null(rest);
        return;
    }
    assert_int_equal(u8, UINT8_MAX);
    assert_int_equal(u16, UINT16_MAX - 1);
    assert_int_equal(u32, UINT32_MAX - 2);
    assert_true(u64 == UINT64_MAX - 3);
    assert_int_equal(len16, 3);
    assert_memory_equal(str16, "tag", 3);
    assert_int_equal(len32, 0);
    assert_non_null(str32);
    assert_memory_equal(rest, "rest", 4);
}

static void test_round_trip(void **state)
{
    struct buf buf = BUF_INIT;
    struct reader reader;

    (void)state;
    put_all(&buf);
    reader_init(&reader, buf.data, buf.len);
    assert_int_equal(reader_left(&reader), buf.len);
    assert_false(reader_done(&reader));
    read_all(&reader, true);
    assert_true(reader_done(&reader));
    assert_int_equal(reader_left(&reader), 0);
    buf_free(&buf);
}

/* Cut at every length, in memory of exactly that size, so that a read beyond it is found. */
static void test_short_at_every_length(void **state)
{
    struct buf buf = BUF_INIT;
    struct reader reader;

    (void)state;
    put_all(&buf);
    for (size_t len = 0; len < buf.len; len++) {
        uint8_t *part = malloc(len > 0 ? len : 1);

        assert_non_null(part);
        memcpy(part, buf.data, len);
        reader_init(&reader, part, len);
        read_all(&reader, false);
        assert_true(reader.bad);
        assert_false(reader_done(&reader));
        assert_int_equal(reader_left(&reader), 0);
        free(part);
    }
    buf_free(&buf);
}

static void test_bad_stays_bad(void **state)
{
    static const uint8_t bytes[] = {1, 2, 3};
    struct reader reader;
    size_t len = 99;

    (void)state;
    reader_init(&reader, bytes, sizeof bytes);
    assert_int_equal(reader_u32(&reader), 0);
    assert_true(reader.bad);
    /* There would be enough for these. */
    assert_int_equal(reader_u8(&reader), 0);
    assert_int_equal(reader_u16(&reader), 0);
    assert_null(reader_bytes(&reader, 0));
    assert_null(reader_str16(&reader, &len));
    assert_int_equal(len, 0);
    assert_false(reader_done(&reader));
}

/* A length that promises more than there is, up to the largest, must not wrap around. */
static void test_lying_lengths(void **state)
{
    static const uint8_t str16[] = {0xff, 0xff, 'a'};
    static const uint8_t str32[] = {0xff, 0xff, 0xff, 0xff, 'a'};
    static const uint8_t one_more[] = {2, 0, 'a'};
    struct reader reader;
    size_t len = 99;

    (void)state;
    reader_init(&reader, str16, sizeof str16);
    assert_null(reader_str16(&reader, &len));
    assert_int_equal(len, 0);
    assert_true(reader.bad);
    reader_init(&reader, str32, sizeof str32);
    len = 99;
    assert_null(reader_str32(&reader, &len));
    assert_int_equal(len, 0);
    reader_init(&reader, one_more, sizeof one_more);
    assert_null(reader_str16(&reader, &len));
    reader_init(&reader, one_more, sizeof one_more);
    assert_int_equal(reader_u8(&reader), 2);
    assert_null(reader_bytes(&reader, SIZE_MAX));
    assert_true(reader.bad);
}

static void test_empty_reader(void **state)
{
    struct reader reader;

    (void)state;
    reader_init(&reader, NULL, 0);
    assert_true(reader_done(&reader));
    assert_non_null(reader_bytes(&reader, 0));
    assert_true(reader_done(&reader));
    assert_null(reader_bytes(&reader, 1));
    assert_false(reader_done(&reader));
}

static void test_left_over(void **state)
{
    static const uint8_t bytes[] = {1, 2};
    struct reader reader;

    (void)state;
    reader_init(&reader, bytes, sizeof bytes);
    assert_int_equal(reader_u8(&reader), 1);
    assert_false(reader.bad);
    assert_false(reader_done(&reader));
    assert_int_equal(reader_left(&reader), 1);
}

static void test_growth(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        buf_put_u32(&buf, i);
        assert_true(buf.len <= buf.capacity);
    }
    assert_int_equal(buf.len, 400000);
    for (uint32_t i = 0; i < 100000; i += 997) {
        struct reader reader;

        reader_init(&reader, buf.data + (size_t)i * 4, 4);
        assert_int_equal(reader_u32(&reader), i);
    }
    buf_free(&buf);
}

static void test_reserve(void **state)
{
    struct buf buf = BUF_INIT;
    uint8_t *data;

    (void)state;
    buf_put(&buf, "x", 1);
    buf_reserve(&buf, 1000);
    assert_int_equal(buf.len, 1);
    assert_true(buf.capacity >= 1001);
    data = buf.data;
    for (int i = 0; i < 1000; i++) {
        buf_put_u8(&buf, 0);
    }
    assert_ptr_equal(buf.data, data); /* what was reserved is enough */
    buf_free(&buf);
}

static void test_set_u32(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    buf_put(&buf, "abcdef", 6);
    buf_set_u32(&buf, 2, 0x31323334);
    assert_int_equal(buf.len, 6);
    assert_memory_equal(buf.data, "ab4321", 6);
    buf_set_u32(&buf, 0, 0x41424344);
    assert_memory_equal(buf.data, "DCBA21", 6);
    buf_free(&buf);
}

/* Shorter, as long as, and longer than what is free. */
static void test_printf(void **state)
{
    (void)state;
    for (int len = 0; len < 600; len++) {
        struct buf buf = BUF_INIT;

        buf_put(&buf, "^", 1);
        buf_printf(&buf, "%0*d$", len + 1, 7);
        assert_int_equal(buf.len, 1 + len + 1 + 1);
        assert_int_equal(buf.data[0], '^');
        assert_int_equal(buf.data[buf.len - 2], '7');
        assert_int_equal(buf.data[buf.len - 1], '$');
        buf_free(&buf);
    }
}

static void test_printf_nothing(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    buf_printf(&buf, "%s", "");
    assert_int_equal(buf.len, 0);
    buf_free(&buf);
}

/* The NUL is there also at a full buffer's end, and of nothing; and it does not count. */
static void test_text(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    assert_string_equal(buf_text(&buf), "");
    assert_int_equal(buf.len, 0);
    while (buf.len < 200) {
        buf_put(&buf, "x", 1);
        assert_int_equal(strlen(buf_text(&buf)), buf.len);
    }
    buf_free(&buf);
}

static void test_move(void **state)
{
    struct buf from = BUF_INIT;
    struct buf to = BUF_INIT;
    uint8_t *data;

    (void)state;
    buf_reserve(&to, 10); /* its memory must not be lost */
    buf_put(&from, "abc", 3);
    data = from.data;
    buf_move(&to, &from);
    assert_ptr_equal(to.data, data);
    assert_int_equal(to.len, 3);
    assert_null(from.data);
    assert_int_equal(from.len, 0);
    assert_int_equal(from.capacity, 0);
    buf_put(&from, "d", 1);
    assert_memory_equal(to.data, "abc", 3);
    buf_free(&from);
    buf_free(&to);
}

static void test_largest_str16(void **state)
{
    static uint8_t bytes[UINT16_MAX];
    struct buf buf = BUF_INIT;
    struct reader reader;
    size_t len;

    (void)state;
    memset(bytes, 0xa5, sizeof bytes);
    buf_put_str16(&buf, bytes, sizeof bytes);
    reader_init(&reader, buf.data, buf.len);
    assert_non_null(reader_str16(&reader, &len));
    assert_int_equal(len, UINT16_MAX);
    assert_true(reader_done(&reader));
    buf_free(&buf);
}

static void put_too_long(void *data)
{
    static uint8_t bytes[UINT16_MAX + 1];
    struct buf buf = BUF_INIT;

    (void)data;
    buf_put_str16(&buf, bytes, sizeof bytes);
}

static void set_beyond_end(void *data)
{
    struct buf buf = BUF_INIT;

    (void)data;
    buf_put(&buf, "abcdef", 6);
    buf_set_u32(&buf, 3, 1);
}

static void move_onto_content(void *data)
{
    struct buf from = BUF_INIT;
    struct buf to = BUF_INIT;

    (void)data;
    buf_put(&from, "a", 1);
    buf_put(&to, "b", 1);
    buf_move(&to, &from);
}

static void reserve_too_much(void *data)
{
    struct buf buf = BUF_INIT;

    (void)data;
    buf_put(&buf, "a", 1);
    buf_reserve(&buf, SIZE_MAX);
}

static void test_misuse_ends_the_process(void **state)
{
    (void)state;
    assert_true(death_by_assert(put_too_long, NULL));
    assert_true(death_by_assert(set_beyond_end, NULL));
    assert_true(death_by_assert(move_onto_content, NULL));
    assert_true(death_by_assert(reserve_too_much, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_short_at_every_length),
        cmocka_unit_test(test_bad_stays_bad),
        cmocka_unit_test(test_lying_lengths),
        cmocka_unit_test(test_empty_reader),
        cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_set_u32),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_printf_nothing),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_largest_str16),
        cmocka_unit_test(test_misuse_ends_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
