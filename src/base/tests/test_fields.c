/*
 * test_fields.c - the bytes of each kind of field, there and back, and bytes that do not fit.
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/fields.h"
#include "src/tests/unit/hex.h"

struct all {
    uint64_t wide;
    uint8_t narrow;
    int32_t signed_number;
    uint16_t short_number;
    bool yes;
    bool no;
    const char *string;
    uint16_t string_len;
    char text[4];
    char chars[4];
    uint16_t chars_len;
    uint64_t two_of_8;
    uint32_t two_of_4;
    uint32_t grown_low;
    uint32_t grown_high;
    uint32_t no_field;
};

static const struct field ALL_FIELDS[] = {
    FIELD_NUMBER(struct all, narrow),
    FIELD_NUMBER(struct all, wide),
    FIELD_NUMBER(struct all, short_number),
    FIELD_NUMBER(struct all, signed_number),
    FIELD_BOOL(struct all, yes),
    FIELD_BOOL(struct all, no),
    FIELD_STRING(struct all, string),
    FIELD_TEXT(struct all, text),
    FIELD_CHARS(struct all, chars),
    FIELD_SHORT(struct all, two_of_8),
    FIELD_SHORT(struct all, two_of_4),
    FIELD_GROWN(struct all, grown_low),
    FIELD_GROWN(struct all, grown_high),
};
#define ALL_FIELD_COUNT (sizeof ALL_FIELDS / sizeof *ALL_FIELDS)
FIELDS_FLAT(all, ALL_FIELDS, ALL_FIELD_COUNT)

/* By the table, and as straight code. */
static const struct fields ALL[] = {FIELDS(ALL_FIELDS),
                                    {ALL_FIELDS, ALL_FIELD_COUNT, all_put, all_read}};
#define WAYS (sizeof ALL / sizeof *ALL)

#define HEAD "07 0102030405060708 0203 feffffff "
#define TAIL "fdff ffff feff "
#define BYTES HEAD "01 00 0200 6162 0300 787a79 0300 610062 " TAIL "ffff ffff0000"

static const struct all VALUE = {
    .narrow = 7,
    .wide = 0x0807060504030201,
    .short_number = 0x0302,
    .signed_number = -2,
    .yes = true,
    .string = "ab",
    .string_len = 2,
    .text = "xzy",
    .chars = {'a', 0, 'b', 0},
    .chars_len = 3,
    .two_of_8 = 0xfffd,
    .two_of_4 = 0xffff,
    .grown_low = 0xfffe,
    .grown_high = 0xffff,
};

static void there_and_back(const struct fields *all)
{
    struct all back = {.no_field = 5};
    struct buf buf = BUF_INIT;
    struct buf want = BUF_INIT;
    struct reader reader;

    fields_put(&buf, all, &VALUE);
    hex_put(&want, BYTES);
    assert_int_equal(buf.len, want.len);
    assert_memory_equal(buf.data, want.data, want.len);
    reader_init(&reader, buf.data, buf.len);
    assert_true(fields_read(&reader, all, &back));
    assert_true(reader_done(&reader));
    assert_true(back.wide == VALUE.wide && back.narrow == 7 && back.signed_number == -2);
    assert_true(back.two_of_8 == 0xfffd && back.two_of_4 == 0xffff);
    assert_true(back.grown_low == 0xfffe && back.grown_high == 0xffff);
    assert_true(back.short_number == 0x0302 && back.yes && !back.no && back.no_field == 5);
    assert_int_equal(back.string_len, 2);
    assert_memory_equal(back.string, "ab", 2);
    assert_string_equal(back.text, "xzy");
    assert_int_equal(back.chars_len, 3);
    assert_memory_equal(back.chars, VALUE.chars, sizeof back.chars);
    buf_free(&want);
    buf_free(&buf);
}

static void test_there_and_back(void **state)
{
    (void)state;
    for (size_t way = 0; way < WAYS; way++) {
        there_and_back(&ALL[way]);
    }
}

static void test_short_bytes(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    hex_put(&buf, BYTES);
    for (size_t len = 0; len < buf.len; len++) {
        struct all back[WAYS];

        memset(back, 0, sizeof back);
        for (size_t way = 0; way < WAYS; way++) {
            struct reader reader;

            reader_init(&reader, buf.data, len);
            assert_false(fields_read(&reader, &ALL[way], &back[way]));
            assert_true(reader.bad);
        }
        assert_memory_equal(&back[0], &back[1], sizeof back[0]);
    }
    buf_free(&buf);
}

static void refuse(const char *hex)
{
    struct buf buf = BUF_INIT;

    hex_put(&buf, hex);
    for (size_t way = 0; way < WAYS; way++) {
        struct all back = {0};
        struct reader reader;

        reader_init(&reader, buf.data, buf.len);
        assert_false(fields_read(&reader, &ALL[way], &back));
        assert_true(reader_done(&reader)); /* the form is right, the values are not */
    }
    buf_free(&buf);
}

static void test_what_does_not_fit(void **state)
{
    (void)state;
    /* a bool of 2; texts that are too long by one; a NUL within a text; more bytes than
     * the number needs */
    refuse(HEAD "02 00 0200 6162 0300 787a79 0300 610062 " TAIL "ffff ffff0000");
    refuse(HEAD "01 00 0200 6162 0400 787a7979 0300 610062 " TAIL "ffff ffff0000");
    refuse(HEAD "01 00 0200 6162 0300 787a79 0400 61006262 " TAIL "ffff ffff0000");
    refuse(HEAD "01 00 0200 6162 0300 780079 0300 610062 " TAIL "ffff ffff0000");
    refuse(HEAD "01 00 0200 6162 0300 787a79 0300 610062 " TAIL "ffff feff0000");
}

static void test_rows(void **state)
{
    static const struct field fields[] = {FIELD_NUMBER(struct all, short_number),
                                          FIELD_BOOL(struct all, yes)};
    static const struct row_format row = {.version = 1, .fields = FIELDS(fields)};
    struct all back = {0};

    (void)state;
    assert_int_equal(row_read("\x01\x02\x00\x01", 4, &row, &back), 0);
    assert_true(back.short_number == 2 && back.yes);
    assert_int_equal(row_read("\x02\x02\x00\x01", 4, &row, &back), ERR_BAD_VERSION);
    assert_int_equal(row_read("\x02", 1, &row, &back), ERR_BAD_VERSION);
    assert_int_equal(row_read("", 0, &row, &back), ERR_TRUNCATED);
    assert_int_equal(row_read("\x01\x02\x00", 3, &row, &back), ERR_TRUNCATED);
    assert_int_equal(row_read("\x01\x02\x00\x01\x00", 5, &row, &back), ERR_CORRUPT);
    assert_int_equal(row_read("\x01\x02\x00\x02", 4, &row, &back), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_short_bytes),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
