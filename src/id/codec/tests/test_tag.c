/*
 * test_tag.c - rules of a tag's fields, the order of names, and the bytes of a row.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/base/utf8.h"
#include "src/id/codec/tag.h"
#include "src/tests/unit/hex.h"

#define TEXT(s) s, sizeof(s) - 1

struct text_case {
    const char *text;
    size_t len;
    bool plain;    /* valid where control characters are not allowed */
    bool controls; /* valid where they are */
};

static const struct text_case TEXT_CASES[] = {
    {TEXT("order"), true, true},
    {TEXT("com.example/order 1"), true, true},
    {TEXT("\xc2\xa0"), true, true},         /* U+00A0, just behind C1 */
    {TEXT("\xdf\xbf"), true, true},         /* U+07FF */
    {TEXT("\xe0\xa0\x80"), true, true},     /* U+0800 */
    {TEXT("\xed\x9f\xbf"), true, true},     /* U+D7FF, just before the surrogates */
    {TEXT("\xee\x80\x80"), true, true},     /* U+E000, just behind them */
    {TEXT("\xef\xbf\xbf"), true, true},     /* U+FFFF */
    {TEXT("\xf0\x90\x80\x80"), true, true}, /* U+10000 */
    {TEXT("\xf4\x8f\xbf\xbf"), true, true}, /* U+10FFFF */
    {TEXT("~"), true, true},                /* U+007E */
    {TEXT("a\nb"), false, true},
    {TEXT("\x01"), false, true},
    {TEXT("\x1f"), false, true},
    {TEXT("\x7f"), false, true},
    {TEXT("\xc2\x80"), false, true}, /* U+0080 */
    {TEXT("\xc2\x9f"), false, true}, /* U+009F */
    {TEXT("a\0b"), false, false},
    {TEXT("\x80"), false, false},             /* continuation without a lead */
    {TEXT("\xc0\x80"), false, false},         /* overlong NUL */
    {TEXT("\xc1\xbf"), false, false},         /* overlong U+007F */
    {TEXT("\xe0\x9f\xbf"), false, false},     /* overlong U+07FF */
    {TEXT("\xf0\x8f\xbf\xbf"), false, false}, /* overlong U+FFFF */
    {TEXT("\xed\xa0\x80"), false, false},     /* U+D800 */
    {TEXT("\xed\xbf\xbf"), false, false},     /* U+DFFF */
    {TEXT("\xf4\x90\x80\x80"), false, false}, /* U+110000 */
    {TEXT("\xf8\x88\x80\x80\x80"), false, false},
    {TEXT("\xff"), false, false},
    {TEXT("a\xc3"), false, false},        /* cut off */
    {TEXT("\xe2\x82"), false, false},     /* cut off */
    {TEXT("\xf0\x9f\x98"), false, false}, /* cut off */
    {TEXT("\xe2\x28\xa1"), false, false}, /* no continuation */
    {TEXT("\xc3\xa9\xc3"), false, false}, /* good, then cut off */
};

/* A row with every field set to something else. */
static struct tag_row sample_row(void)
{
    return (struct tag_row){
        .name = "order",
        .description = "d\xc3\xa9j\xc3\xa0",
        .name_len = 5,
        .description_len = 6,
        .mode = TAG_MODE_STRICT,
        .deleted = true,
        .generation = 0x01020304,
        .step = 0x1000,
        .max_step = 0x100000,
        .max_id = 0x0102030405060708,
        .created_ms = 1700000000000,
        .updated_ms = 1700000000001,
    };
}

static const char *const SAMPLE_BYTES =
    "03 01 00 01 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 0168e5cf8b010000 "
    "0600 64c3a96ac3a0";

/* The same, on its way to strict mode. */
static struct tag_row recalling_row(void)
{
    struct tag_row row = sample_row();

    row.recalling = true;
    return row;
}

static const char *const RECALLING_BYTES =
    "03 01 01 01 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 0168e5cf8b010000 "
    "0600 64c3a96ac3a0";

static void test_text_check_is_strict_utf8(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof TEXT_CASES / sizeof TEXT_CASES[0]; i++) {
        const struct text_case *c = &TEXT_CASES[i];

        if ((utf8_text_check(c->text, c->len, false) == 0) != c->plain ||
            (utf8_text_check(c->text, c->len, true) == 0) != c->controls) {
            fail_msg("case %zu", i);
        }
        assert_int_equal(tag_name_check(c->text, c->len, NULL), c->plain ? 0 : ERR_INVALID);
        assert_int_equal(tag_description_check(c->text, c->len, NULL),
                         c->controls ? 0 : ERR_INVALID);
    }
}

/* Against a plain encoder: every code point in its shortest form, and no other two or three bytes.
 */
static void test_text_check_knows_every_code_point(void **state)
{
    size_t two = 0;
    size_t three = 0;

    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            char pair[2] = {(char)a, (char)b};

            /* Two-byte characters alone: U+0080..U+07FF. */
            two += a >= 0x80 && utf8_text_check(pair, 2, true) == 0;
            for (unsigned c = 0x80; a >= 0xe0 && c < 256; c++) {
                char triple[3] = {(char)a, (char)b, (char)c};

                three += utf8_text_check(triple, 3, true) == 0;
            }
        }
    }
    assert_int_equal(two, 0x800 - 0x80);
    assert_int_equal(three, 0x10000 - 0x800 - 0x800); /* but for the surrogates */
}

static void test_name_check_at_limits(void **state)
{
    char name[LIMIT_TAG_NAME_BYTES + 1];
    const char *why = NULL;

    (void)state;
    memset(name, 'a', sizeof name);
    assert_int_equal(tag_name_check("", 0, &why), ERR_INVALID);
    assert_string_equal(why, "the name of a tag is empty");
    assert_int_equal(tag_name_check(name, 1, &why), 0);
    assert_int_equal(tag_name_check(name, LIMIT_TAG_NAME_BYTES, &why), 0);
    assert_int_equal(tag_name_check(name, LIMIT_TAG_NAME_BYTES + 1, &why), ERR_INVALID);
    assert_non_null(strstr(why, "128"));
    assert_int_equal(tag_name_check("a\tb", 3, &why), ERR_INVALID);
    assert_non_null(strstr(why, "control"));
    assert_int_equal(tag_name_check("\xff", 1, &why), ERR_INVALID);
    assert_non_null(strstr(why, "UTF-8"));
}

static void test_description_check_at_limits(void **state)
{
    char text[LIMIT_TAG_DESCRIPTION_BYTES + 1];
    const char *why = NULL;

    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(tag_description_check(NULL, 0, &why), 0);
    assert_int_equal(tag_description_check(text, LIMIT_TAG_DESCRIPTION_BYTES, &why), 0);
    assert_int_equal(tag_description_check(text, sizeof text, &why), ERR_INVALID);
    assert_non_null(strstr(why, "256"));
}

static void test_name_compare_orders_bytes_and_shorter_first(void **state)
{
    static const char *const sorted[] = {"", "A", "a", "a/", "aa", "ab", "b", "\xc3\xa9"};
    const size_t count = sizeof sorted / sizeof sorted[0];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            int order =
                tag_name_compare(sorted[i], strlen(sorted[i]), sorted[k], strlen(sorted[k]));

            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
    }
}

static void test_row_check_at_limits(void **state)
{
    const char *why = NULL;
    struct tag_row row = sample_row();

    (void)state;
    assert_int_equal(tag_row_check(&row, &why), 0);
    row.step = row.max_step = LIMIT_TAG_STEP;
    row.max_id = TAG_MAX_ID_END;
    row.created_ms = row.updated_ms = LIMIT_TIME_MAX_MS;
    assert_int_equal(tag_row_check(&row, &why), 0);
    row.step = row.max_step = 1;
    row.max_id = 0;
    assert_int_equal(tag_row_check(&row, &why), 0);
}

#define CHECK_REFUSED(field, value, text)                                                          \
    do {                                                                                           \
        row = sample_row();                                                                        \
        row.field = value;                                                                         \
        assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);                                  \
        assert_non_null(strstr(why, text));                                                        \
    } while (0)

static void test_row_check_one_beyond(void **state)
{
    struct tag_row row;
    const char *why = NULL;

    (void)state;
    CHECK_REFUSED(step, 0, "step");
    CHECK_REFUSED(step, LIMIT_TAG_STEP + 1, "step");
    CHECK_REFUSED(max_step, 0, "max_step");
    CHECK_REFUSED(max_step, LIMIT_TAG_STEP + 1, "max_step");
    CHECK_REFUSED(max_step, 0x1000 - 1, "smaller than step");
    CHECK_REFUSED(max_id, (uint64_t)TAG_MAX_ID_END + 1, "max_id");
    CHECK_REFUSED(mode, TAG_MODE_MONOTONIC + 1, "mode");
    CHECK_REFUSED(created_ms, LIMIT_TIME_MAX_MS + 1, "9999");
    CHECK_REFUSED(updated_ms, LIMIT_TIME_MAX_MS + 1, "9999");
    CHECK_REFUSED(name_len, 0, "empty");
    CHECK_REFUSED(description_len, 2, "description"); /* cuts a character */
    row = recalling_row();
    row.mode = TAG_MODE_TREND;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_string_equal(why, "recalling, but in trend mode");
}

static void golden_is(const struct tag_row *row, const char *bytes)
{
    struct buf buf = BUF_INIT;

    row_put(&buf, tag_row_format(row), row);
    assert_true(hex_equal(&buf, bytes));
    buf_free(&buf);
}

static void test_row_golden_bytes(void **state)
{
    struct tag_row row = sample_row();

    (void)state;
    golden_is(&row, SAMPLE_BYTES);
    row = recalling_row();
    golden_is(&row, RECALLING_BYTES);
}

/* The digest is over the bytes: a row has the same whoever wrote it and whatever it was before. */
static void test_row_version_is_one_for_all_content(void **state)
{
    struct tag_row row = recalling_row();

    (void)state;
    row.recalling = false;
    golden_is(&row, SAMPLE_BYTES);
    row.recalling = true;
    row.deleted = false;
    golden_is(&row, "03 00 01 01 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 "
                    "0168e5cf8b010000 0600 64c3a96ac3a0");
    row.recalling = false;
    row.mode = TAG_MODE_TREND;
    golden_is(&row, "03 00 00 00 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 "
                    "0168e5cf8b010000 0600 64c3a96ac3a0");
}

/* A row with an owner is of a version that has all fields; a shape or a max it need not have. */
static void test_a_row_with_an_owner(void **state)
{
    struct tag_row row = sample_row();
    struct tag_row back = {0};
    struct buf buf = BUF_INIT;

    (void)state;
    row.client = 0x1122334455667788;
    golden_is(&row, "06 01 00 01 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 "
                    "0168e5cf8b010000 0600 64c3a96ac3a0 0000000000000000 0000 8877665544332211");
    row_put(&buf, tag_row_format(&row), &row);
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), 0);
    assert_true(back.client == row.client);
    memset(buf.data + buf.len - 8, 0, 8); /* of this version, and nobody's */
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), ERR_CORRUPT);
    buf_free(&buf);
}

/* The numbers belong to level 2. */
static void test_what_a_tag_counts(void **state)
{
    struct tag_row row = {.name_len = 11, .description_len = 5};

    (void)state;
    assert_true(tag_share_bytes(&row) == 144 + 11 + 320 + 11 + 5);
    row.shape_len = 8;
    assert_true(tag_share_bytes(&row) == 144 + 11 + 8 + 320 + 11 + 5 + 512);
    row.reason_len = 200; /* of level 3 */
    assert_true(tag_share_bytes(&row) == 144 + 11 + 8 + 320 + 11 + 5 + 200 + 512);
    row.reason_len = 0;
    row.deleted = true;
    assert_true(tag_share_bytes(&row) == 144 + 11 + 8);
}

/* A row with a max is of another version; without one it is as it was. */
static void test_a_row_with_a_max(void **state)
{
    struct tag_row row = recalling_row();
    struct tag_row back = {0};
    struct buf buf = BUF_INIT;
    const char *why = NULL;

    (void)state;
    row.max = row.max_id;
    assert_int_equal(tag_row_check(&row, &why), 0); /* exhausted, and sound */
    assert_int_equal(tag_bound(&row), row.max_id);
    assert_true(tag_is_nearly_exhausted(&row));
    row_put(&buf, tag_row_format(&row), &row);
    assert_int_equal(buf.data[0], 4);
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), 0);
    assert_int_equal(back.max, row.max);
    memset(buf.data + buf.len - 8, 0, 8); /* of this version, and without one */
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), ERR_CORRUPT);
    buf_free(&buf);
    row.max = row.max_id - 1;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_non_null(strstr(why, "max is smaller than max_id"));
    row.max = TAG_MAX_ID_END + 1ULL;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_non_null(strstr(why, "max is larger than"));
    row.max = 0;
    assert_int_equal(tag_bound(&row), TAG_MAX_ID_END);
    assert_false(tag_is_nearly_exhausted(&row));
    row.max = 1000;
    row.max_id = 900;
    assert_false(tag_is_nearly_exhausted(&row)); /* 100 of 1000 are left */
    row.max_id = 901;
    assert_true(tag_is_nearly_exhausted(&row));
}

/* It is ids that are counted, also where nothing but 2^63 bounds them. */
static void test_nearly_exhausted_with_an_increment(void **state)
{
    struct tag_row row = recalling_row();

    (void)state;
    row.increment = 100;
    row.offset = 99;
    row.max = 1000; /* 99, 199 to 999 */
    row.max_id = 900;
    assert_false(tag_is_nearly_exhausted(&row));
    row.max_id = 1000;
    assert_true(tag_is_nearly_exhausted(&row));
    row.max = 99; /* none at all */
    row.max_id = 0;
    assert_true(tag_is_nearly_exhausted(&row));
    row.max = 0;
    assert_false(tag_is_nearly_exhausted(&row));
    row.max_id = TAG_MAX_ID_END - 1;
    assert_true(tag_is_nearly_exhausted(&row));
    row.increment = row.offset = 0;
    assert_true(tag_is_nearly_exhausted(&row));
}

#define SECRET "{secret36:8}"
#define KEY "0123456789abcdefghijklmnopqrstuv"

static struct tag_row shaped_row(void)
{
    struct tag_row row = recalling_row();

    row.max = 1ULL << 40;
    row.max_id = 7;
    row.shape = SECRET "\0" KEY;
    row.shape_len = sizeof(SECRET KEY);
    return row;
}

static const char *const SHAPED_BYTES =
    "05 01 01 01 04030201 00100000 00001000 0700000000000000 0068e5cf8b010000 0168e5cf8b010000 "
    "0600 64c3a96ac3a0 0000000000010000 2d00 7b73656372657433363a387d 00 "
    "303132333435363738396162636465666768696a6b6c6d6e6f707172737475 76";

/* A row with a shape is of a third version, whether it has a max or not. */
static void test_a_row_with_a_shape(void **state)
{
    struct tag_row row = shaped_row();
    const char *why = NULL;
    struct shape shape;

    (void)state;
    golden_is(&row, SHAPED_BYTES);
    assert_int_equal(tag_row_check(&row, &why), 0);
    assert_int_equal(tag_shape(row.shape, row.shape_len, &shape, &why), 0);
    assert_true(shape.secret);
    assert_int_equal(shape.key_count, 1);
    assert_memory_equal(shape.keys, KEY, SHAPE_KEY_BYTES);
    assert_int_equal(tag_shape_text_len(row.shape, row.shape_len), strlen(SECRET));
    /* As many ids as have a text, and one more. */
    row.max = 2821109907456;
    assert_int_equal(tag_row_check(&row, &why), 0);
    row.max++;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_non_null(strstr(why, "set max"));
    row.max = 0;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    /* A key that is missing, too short, too long, or of a shape that has none. */
    row = shaped_row();
    for (uint16_t len = (uint16_t)strlen(SECRET); len < row.shape_len; len++) {
        assert_int_equal(tag_shape(row.shape, len, &shape, &why), ERR_INVALID);
    }
    assert_int_equal(tag_shape(SECRET "\0" KEY "x", sizeof(SECRET KEY "x"), &shape, NULL),
                     ERR_INVALID);
    assert_int_equal(tag_shape("{id}\0" KEY, sizeof("{id}" KEY), &shape, NULL), ERR_INVALID);
    assert_int_equal(tag_shape("{id}\0", 5, &shape, NULL), ERR_INVALID);
    assert_int_equal(tag_shape("{id}", 4, &shape, NULL), 0);
    row.shape = "{id}";
    row.shape_len = 4;
    row.max = 0;
    assert_int_equal(tag_row_check(&row, NULL), 0);
}

/* A row with an increment is of the newest version; an owner it need not have. */
static void test_a_row_with_an_increment(void **state)
{
    struct tag_row row = sample_row();
    struct tag_row back = {0};
    struct buf buf = BUF_INIT;

    (void)state;
    row.increment = 16;
    row.offset = 3;
    golden_is(&row, "07 01 00 01 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 "
                    "0168e5cf8b010000 0600 64c3a96ac3a0 0000000000000000 0000 0000000000000000 "
                    "10000000 03000000 00000000 00 0000");
    row_put(&buf, tag_row_format(&row), &row);
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), 0);
    assert_true(back.increment == 16 && back.offset == 3);
    for (uint8_t increment = 0; increment <= 4; increment++) {
        buf.data[buf.len - 15] = increment;
        assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back),
                         increment == 4 ? 0 : ERR_CORRUPT);
    }
    buf_free(&buf);
}

static void test_a_row_with_a_cover_or_a_pause(void **state)
{
    struct tag_row row = sample_row();
    struct tag_row back = {0};
    struct buf buf = BUF_INIT;

    (void)state;
    row.mode = TAG_MODE_TREND;
    row.recalling = false;
    assert_int_not_equal(tag_form(&row), TAG_FORM_STEPPED);
    row.cover_s = 600;
    assert_int_equal(tag_form(&row), TAG_FORM_STEPPED);
    row.paused = true;
    row.reason = "audit";
    row.reason_len = 5;
    golden_is(&row, "07 01 00 00 04030201 00100000 00001000 0807060504030201 0068e5cf8b010000 "
                    "0168e5cf8b010000 0600 64c3a96ac3a0 0000000000000000 0000 0000000000000000 "
                    "00000000 00000000 58020000 01 0500 6175646974");
    row_put(&buf, tag_row_format(&row), &row);
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), 0);
    assert_true(back.cover_s == 600 && back.paused && back.reason_len == 5);
    assert_memory_equal(back.reason, "audit", 5);
    buf.data[buf.len - 8] = 0; /* a reason without a pause */
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), ERR_CORRUPT);
    buf_free(&buf);
}

static void test_bounds_of_cover_and_reason(void **state)
{
    char reason[LIMIT_TAG_REASON_BYTES + 1];
    struct tag_row row = sample_row();
    const char *why = NULL;

    (void)state;
    row.mode = TAG_MODE_TREND;
    row.recalling = false;
    row.cover_s = LIMIT_TAG_COVER_S;
    assert_int_equal(tag_row_check(&row, NULL), 0);
    row.cover_s++;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_string_equal(why, "cover_s is not in 0 to 86400");
    row.cover_s = 1;
    for (row.mode = TAG_MODE_STRICT; row.mode <= TAG_MODE_MONOTONIC; row.mode++) {
        assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
        assert_string_equal(why, "cover_s is for the mode trend: nodes hold no ids of other "
                                 "modes. Set it to 0");
    }
    row.cover_s = 0;
    row.mode = TAG_MODE_STRICT;
    memset(reason, 'r', sizeof reason);
    row.reason = reason;
    row.reason_len = LIMIT_TAG_REASON_BYTES;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    row.paused = true;
    assert_int_equal(tag_row_check(&row, NULL), 0);
    row.reason_len++;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_string_equal(why, "reason is longer than 200 bytes");
    row.reason_len = 2;
    reason[1] = '\n';
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_string_equal(why, "reason is not UTF-8, or holds a control character");
}

static void test_increments(void **state)
{
    struct tag_row row = sample_row();
    const char *why = NULL;

    (void)state;
    row.increment = LIMIT_TAG_INCREMENT;
    row.offset = LIMIT_TAG_INCREMENT - 1;
    assert_int_equal(tag_row_check(&row, NULL), 0);
    row.offset = LIMIT_TAG_INCREMENT;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_string_equal(why, "offset is not in 0 to increment - 1");
    row.increment = LIMIT_TAG_INCREMENT + 1;
    assert_int_equal(tag_row_check(&row, &why), ERR_INVALID);
    assert_string_equal(why, "increment is not in 1 to 1000000");
}

/* Against counting them one by one. */
static void check_between(uint64_t from, uint64_t end, uint32_t increment, uint32_t offset)
{
    uint64_t count = 0;
    uint64_t first = 0;
    uint64_t wanted = from;

    while (wanted % increment_of(increment) != offset) {
        wanted++;
    }
    for (uint64_t id = from; id < end; id++) {
        count += id % increment_of(increment) == offset;
    }
    assert_true(ids_between(from, end, increment, offset, &first) == count);
    assert_true(first == wanted);
    assert_true(count == 0 || ids_end(first, count, increment) <= end);
    assert_true(ids_end(first, count + 1, increment) > end);
}

static void test_ids_between(void **state)
{
    (void)state;
    for (uint32_t increment = 0; increment < 6; increment++) {
        for (uint32_t offset = 0; offset < increment_of(increment); offset++) {
            for (uint64_t at = 0; at < UINT64_C(12) * 24; at++) {
                check_between(at / 24, at % 24, increment, offset);
            }
        }
    }
}

static void round_trip(const struct tag_row *row, const char *bytes)
{
    struct tag_row back = {0};
    struct buf buf = BUF_INIT;

    row_put(&buf, tag_row_format(row), row);
    assert_int_equal(tag_row_decode("order", 5, buf.data, buf.len, &back), 0);
    assert_int_equal(back.name_len, 5);
    assert_memory_equal(back.name, "order", 5);
    assert_int_equal(back.description_len, row->description_len);
    assert_memory_equal(back.description, row->description, row->description_len);
    assert_true(back.deleted);
    assert_int_equal(back.mode, TAG_MODE_STRICT);
    assert_true(back.recalling == row->recalling);
    assert_int_equal(back.generation, row->generation);
    assert_int_equal(back.step, row->step);
    assert_int_equal(back.max_step, row->max_step);
    assert_true(back.max_id == row->max_id);
    assert_true(back.created_ms == row->created_ms && back.updated_ms == row->updated_ms);
    golden_is(&back, bytes);
    buf_free(&buf);
}

static void test_row_round_trip(void **state)
{
    struct tag_row row = sample_row();

    (void)state;
    round_trip(&row, SAMPLE_BYTES);
    row = recalling_row();
    round_trip(&row, RECALLING_BYTES);
    row = shaped_row();
    round_trip(&row, SHAPED_BYTES);
}

static int decode(const struct buf *buf)
{
    struct tag_row back = {0};

    return tag_row_decode("order", 5, buf->data, buf->len, &back);
}

static void refuse_damage(const char *bytes)
{
    struct tag_row back = {0};
    struct buf buf = BUF_INIT;

    hex_put(&buf, bytes);
    for (size_t len = 0; len < buf.len; len++) {
        assert_int_equal(tag_row_decode("order", 5, buf.data, len, &back), ERR_TRUNCATED);
    }
    buf_put_u8(&buf, 0);
    assert_int_equal(decode(&buf), ERR_CORRUPT);
    buf.len--;
    assert_int_equal(tag_row_decode("", 0, buf.data, buf.len, &back), ERR_CORRUPT);
    assert_int_equal(tag_row_decode("a\nb", 3, buf.data, buf.len, &back), ERR_CORRUPT);
    buf.data[1] = 2; /* neither deleted nor not */
    assert_int_equal(decode(&buf), ERR_CORRUPT);
    buf.data[1] = 1;
    buf.data[3] = 9; /* an unknown mode */
    assert_int_equal(decode(&buf), ERR_CORRUPT);
    buf.data[3] = TAG_MODE_STRICT;
    assert_int_equal(decode(&buf), 0);
    for (unsigned version = 0; version < 256; version++) {
        buf.data[0] = (uint8_t)version;
        assert_int_equal(decode(&buf), version == 3                  ? 0
                                       : version <= 7 && version > 3 ? ERR_TRUNCATED
                                                                     : ERR_BAD_VERSION);
    }
    buf_free(&buf);
}

static void test_row_decode_refuses_damage(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    refuse_damage(SAMPLE_BYTES);
    refuse_damage(RECALLING_BYTES);
    hex_put(&buf, SAMPLE_BYTES);
    buf.data[1] = 0;
    buf.data[2] = 1; /* recalling alone */
    assert_int_equal(decode(&buf), 0);
    buf.data[2] = 0x40; /* neither recalling nor not */
    assert_int_equal(decode(&buf), ERR_CORRUPT);
    buf.len = 0;
    hex_put(&buf, RECALLING_BYTES);
    buf.data[3] = TAG_MODE_TREND; /* recalling, but not strict */
    assert_int_equal(decode(&buf), ERR_CORRUPT);
    buf.data[2] = 0;
    assert_int_equal(decode(&buf), 0);
    buf_free(&buf);
}

/* Whatever the bytes: an error, or a row that keeps the rules and encodes to the same bytes. */
static void survive_any_bytes(const char *bytes_hex)
{
    struct prng prng;
    struct buf golden = BUF_INIT;
    size_t good = 0;

    prng_seed(&prng, 7);
    hex_put(&golden, bytes_hex);
    for (unsigned i = 0; i < 20000; i++) {
        struct buf bytes = BUF_INIT;
        struct buf again = BUF_INIT;
        struct tag_row row = {0};

        buf_put(&bytes, golden.data, golden.len);
        for (uint64_t n = prng_below(&prng, 4); n > 0; n--) {
            bytes.data[prng_below(&prng, bytes.len)] = (uint8_t)prng_next(&prng);
        }
        bytes.len -= prng_below(&prng, 10) == 0 ? prng_below(&prng, bytes.len) : 0;
        if (tag_row_decode("order", 5, bytes.data, bytes.len, &row) == 0) {
            good++;
            assert_int_equal(tag_row_check(&row, NULL), 0);
            row_put(&again, tag_row_format(&row), &row);
            assert_int_equal(again.len, bytes.len);
            assert_memory_equal(again.data, bytes.data, bytes.len);
        }
        buf_free(&again);
        buf_free(&bytes);
    }
    assert_in_range(good, 1000, 19000);
    buf_free(&golden);
}

static void test_row_decode_survives_any_bytes(void **state)
{
    (void)state;
    survive_any_bytes(SAMPLE_BYTES);
    survive_any_bytes(RECALLING_BYTES);
    survive_any_bytes(SHAPED_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_check_is_strict_utf8),
        cmocka_unit_test(test_text_check_knows_every_code_point),
        cmocka_unit_test(test_name_check_at_limits),
        cmocka_unit_test(test_description_check_at_limits),
        cmocka_unit_test(test_name_compare_orders_bytes_and_shorter_first),
        cmocka_unit_test(test_row_check_at_limits),
        cmocka_unit_test(test_row_check_one_beyond),
        cmocka_unit_test(test_row_golden_bytes),
        cmocka_unit_test(test_a_row_with_an_increment),
        cmocka_unit_test(test_increments),
        cmocka_unit_test(test_a_row_with_a_cover_or_a_pause),
        cmocka_unit_test(test_bounds_of_cover_and_reason),
        cmocka_unit_test(test_ids_between),
        cmocka_unit_test(test_row_version_is_one_for_all_content),
        cmocka_unit_test(test_a_row_with_an_owner),
        cmocka_unit_test(test_what_a_tag_counts),
        cmocka_unit_test(test_a_row_with_a_max),
        cmocka_unit_test(test_nearly_exhausted_with_an_increment),
        cmocka_unit_test(test_a_row_with_a_shape),
        cmocka_unit_test(test_row_round_trip),
        cmocka_unit_test(test_row_decode_refuses_damage),
        cmocka_unit_test(test_row_decode_survives_any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
