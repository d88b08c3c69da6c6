/*
 * test_out.c - text of others does nothing to a terminal, and tables stand straight.
 */
#include "src/ctl/cmd/command.h"

#include <locale.h>

#include "src/tests/unit/test.h"
#include "src/base/utf8.h"

static void check(const char *text, const char *expected)
{
    struct buf out = BUF_INIT;

    clean_text(&out, text);
    buf_put(&out, "", 1);
    assert_string_equal((const char *)out.data, expected);
    buf_free(&out);
}

static void test_texts(void **state)
{
    (void)state;
    check(NULL, "-");
    check("", "");
    check("order/1 \\ 订单 😀", "order/1 \\ 订单 😀");
    check("a\x1b[31m", "a\\x1b[31m");
    check("\r\n\t\x7f", "\\x0d\\x0a\\x09\\x7f");
    check("\xc2\x9b", "\\u{9b}");                            /* CSI, in UTF-8 */
    check("\xe2\x80\xae", "\\u{202e}");                      /* turns the direction round */
    check("\xe2\x80\x8b\xef\xbb\xbf", "\\u{200b}\\u{feff}"); /* shows nothing */
    check("a\xff\xc3(", "a\\xff\\xc3(");
}

/* UTF-8 of a character, whether there is one of that code or not. */
static size_t encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Every code: what comes out is UTF-8 without controls. */
static void test_all_characters(void **state)
{
    struct buf out = BUF_INIT;

    (void)state;
    for (uint32_t code = 0; code < 0x120000; code++) {
        char text[4];
        const char *at;
        uint32_t seen;

        out.len = 0;
        clean_put(&out, text, encode(code, text));
        at = (const char *)out.data;
        for (size_t left = out.len; left > 0;) {
            size_t step = utf8_step(at, left, &seen);

            assert_true(step > 0 && seen >= 0x20 && !(seen >= 0x7f && seen < 0xa0));
            at += step;
            left -= step;
        }
    }
    buf_free(&out);
}

static void test_grid(void **state)
{
    static const struct grid_column titles[] = {
        {"name", "{a}"}, {">count", "{b}"}, {"text", "{c}"}, {NULL, NULL}};
    json_t *rows = json_pack("[{s:s,s:s,s:s},{s:s,s:s}]", "a", "订", "b", "7", "c", "x\ny", "a",
                             "longer", "b", "1234567");
    json_t *more = json_pack("[{s:s,s:s,s:s}]", "a", "b", "b", "", "c", "");
    struct grid grid = {.titles = titles};
    struct buf out = BUF_INIT;

    (void)state;
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    ctl_put_rows(&out, &grid, rows, 1);
    ctl_put_rows(&out, &grid, more, 0);
    ctl_put_rows(&out, &grid, NULL, 0);
    buf_put(&out, "", 1);
    assert_string_equal((const char *)out.data, " name      count  text\n"
                                                " 订            7  x\\x0ay\n"
                                                " longer  1234567  -\n"
                                                "b\n");
    json_decref(rows);
    json_decref(more);
    buf_free(&out);
}

static void test_units(void **state)
{
    char text[UNITS_BYTES];

    (void)state;
    assert_string_equal(units_bytes(0, text), "0 B");
    assert_string_equal(units_bytes(1023, text), "1023 B");
    assert_string_equal(units_bytes(1024, text), "1.0 KiB");
    assert_string_equal(units_bytes(1048575, text), "1.0 MiB");
    assert_string_equal(units_bytes(UINT64_MAX, text), "16.0 EiB");
    assert_string_equal(units_ms(999, text), "999 ms");
    assert_string_equal(units_ms(119999, text), "119 s");
    assert_string_equal(units_ms(120000, text), "2 min");
    assert_string_equal(units_ms(7200000, text), "2 h 0 min");
    assert_string_equal(units_ms(172800000, text), "2 d");
    assert_string_equal(units_ms(UINT64_MAX, text), "213503982334 d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_all_characters),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
