/*
 * test_text.c - decimals, UTF-8, JSON strings, shown values and times.
 */
#include <stdio.h>
#include <string.h>
#include <jansson.h>

#include "src/tests/unit/test.h"
#include "http/proto/text.h"
#include "src/base/prng.h"

static void test_decimal(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {9, "9"},
                 {10, "10"},
                 {INT64_MAX, "9223372036854775807"},
                 {UINT64_MAX, "18446744073709551615"}};
    char out[TEXT_DECIMAL_BYTES];
    uint64_t back;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = text_decimal(cases[i].value, out);

        assert_int_equal(len, strlen(cases[i].text));
        assert_memory_equal(out, cases[i].text, len);
        assert_int_equal(text_parse_decimal(out, len, 0, UINT64_MAX, &back), 0);
        assert_int_equal(back, cases[i].value);
    }
}

/* All lengths, at their ends and between. */
static void test_decimal_as_printf(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t value = prng_next(&prng) >> prng_below(&prng, 64);
        char want[TEXT_DECIMAL_BYTES + 1];
        char out[TEXT_DECIMAL_BYTES];
        uint64_t power = 1;

        for (uint64_t digits = prng_below(&prng, 20); i % 2 == 0 && digits > 0; digits--) {
            power *= 10;
        }
        value = i % 2 == 0 ? power + i % 3 - 1 : value;
        snprintf(want, sizeof(want), "%llu", (unsigned long long)value);
        assert_int_equal(text_decimal(value, out), strlen(want));
        assert_memory_equal(out, want, strlen(want));
    }
}

static void test_parse_decimal_bounds(void **state)
{
    static const char *const bad[] = {"",   "-1", "+1", " 1",  "1 ",  "1.",
                                      "0x", "a",  "1a", "1e1", "1_0", "\xd9\xa1"};
    uint64_t value = 77;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(text_parse_decimal(bad[i], strlen(bad[i]), 0, UINT64_MAX, &value),
                         ERR_INVALID);
    }
    assert_int_equal(text_parse_decimal("18446744073709551616", 20, 0, UINT64_MAX, &value),
                     ERR_INVALID);
    assert_int_equal(text_parse_decimal("99999999999999999999", 20, 0, UINT64_MAX, &value),
                     ERR_INVALID);
    assert_int_equal(text_parse_decimal("000000000000000000001", 21, 0, UINT64_MAX, &value),
                     ERR_INVALID);
    assert_int_equal(text_parse_decimal("4", 1, 5, 9, &value), ERR_INVALID);
    assert_int_equal(text_parse_decimal("10", 2, 5, 9, &value), ERR_INVALID);
    assert_int_equal(value, 77);
    assert_int_equal(text_parse_decimal("5", 1, 5, 9, &value), 0);
    assert_int_equal(value, 5);
    assert_int_equal(text_parse_decimal("0009", 4, 5, 9, &value), 0);
    assert_int_equal(value, 9);
}

static void test_text_is(void **state)
{
    (void)state;
    assert_true(text_is("incr", 4, "INCR"));
    assert_true(text_is("InCr", 4, "INCR"));
    assert_false(text_is("incr", 3, "INCR"));
    assert_false(text_is("incrby", 6, "INCR"));
    assert_false(text_is("", 0, "INCR"));
    assert_false(text_is("inc\0", 4, "INC"));
    assert_true(text_is("leafd.next", 10, "LEAFD.NEXT"));
}

static void test_utf8(void **state)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"\xc3\xa9", true},
        {"\xe8\xae\xa2", true},
        {"\xf0\x9f\x98\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\xed\x9f\xbf", true},
        {"\x80", false},
        {"\xc3", false},
        {"\xc0\xaf", false},
        {"\xc1\xbf", false},
        {"\xe0\x9f\xbf", false},
        {"\xed\xa0\x80", false},
        {"\xe8\xae", false},
        {"\xe8\xae\x41", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xf4\x90\x80\x80", false},
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
        {"a\xf0\x9f\x98", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(text_is_utf8(cases[i].text, strlen(cases[i].text)), cases[i].valid);
    }
}

/* Every string of one byte, and pairs around it, gives JSON that a strict parser takes back. */
static void test_json_is_always_valid(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        const char text[3] = {'a', (char)c, '"'};
        struct buf buf = BUF_INIT;
        json_error_t error;
        json_t *value;

        buf_put_u8(&buf, '[');
        text_put_json(&buf, text, sizeof(text));
        buf_put_u8(&buf, ']');
        value = json_loadb((const char *)buf.data, buf.len, JSON_ALLOW_NUL, &error);
        assert_non_null(value);
        if (c < 0x80) {
            json_t *string = json_array_get(value, 0);

            assert_int_equal(json_string_length(string), sizeof(text));
            assert_memory_equal(json_string_value(string), text, sizeof(text));
        } else {
            assert_string_equal(json_string_value(json_array_get(value, 0)), "a\xef\xbf\xbd\"");
        }
        json_decref(value);
        buf_free(&buf);
    }
}

static void test_show(void **state)
{
    char out[32];
    char tiny[16];

    (void)state;
    assert_string_equal(text_show("ab", 2, out, sizeof(out)), "\"ab\"");
    assert_string_equal(text_show("", 0, out, sizeof(out)), "\"\"");
    assert_string_equal(text_show("a\nb\x7f", 4, out, sizeof(out)), "\"a\\x0ab\\x7f\"");
    assert_string_equal(text_show("\xe8\xae\xa2\xff", 4, out, sizeof(out)),
                        "\"\xe8\xae\xa2\\xff\"");
    assert_string_equal(text_show("a\xe2\x80\xae\xc2\x85", 6, out, sizeof(out)),
                        "\"a\\u{202e}\\u{85}\"");
    for (size_t size = 16; size <= 64; size++) {
        static const char marks[] = "\xf3\xa0\x81\xa1\xf3\xa0\x81\xa1\xf3\xa0\x81\xa1";

        text_show(marks, sizeof marks - 1, out, size);
        assert_true(strlen(out) < size);
        assert_int_equal(strstr(out, "...") != NULL, size < 33);
    }
    for (size_t len = 0; len <= 40; len++) {
        const char *text = "0123456789012345678901234567890123456789";

        text_show(text, len, tiny, sizeof(tiny));
        assert_true(strlen(tiny) < sizeof(tiny));
        assert_int_equal(tiny[strlen(tiny) - 1], '"');
        assert_int_equal(strstr(tiny, "...") != NULL, len > 7);
    }
}

static void test_times(void **state)
{
    char out[TEXT_TIME_BYTES];

    (void)state;
    assert_string_equal(text_time_rfc3339(0, out), "1970-01-01T00:00:00.000Z");
    assert_string_equal(text_time_rfc3339(1795172638123, out), "2026-11-20T11:03:58.123Z");
    assert_string_equal(text_time_rfc3339(UINT64_MAX, out), "9999-12-31T23:59:59.615Z");
    assert_string_equal(text_time_http(0, out), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_string_equal(text_time_http(1795172638999, out), "Fri, 20 Nov 2026 11:03:58 GMT");
}

static void test_reads_times(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {
        {"0", 0},
        {"1795172638123", 1795172638123},
        {"253402300799999", 253402300799999},
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-20T11:03:58.123Z", 1795172638123},
        {"2026-11-20T11:03:58.1239999z", 1795172638123},
        {"2026-11-20t11:03:58.1Z", 1795172638100},
        {"2026-11-20T12:03:58.123+01:00", 1795172638123},
        {"2026-11-20T12:03:58.123 01:00", 1795172638123},
        {"2026-11-20T05:33:58.123-05:30", 1795172638123},
        {"1969-12-31T23:00:00-01:00", 0},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
    };
    static const char *const bad[] = {"",
                                      "x",
                                      "-1",
                                      "1.5",
                                      "253402300800000",
                                      "9999999999999999",
                                      "2026-11-20",
                                      "2026-11-20T11:03:58",
                                      "2026-11-20T11:03:58.Z",
                                      "2026-11-20T11:03Z",
                                      "2026-11-20 11:03:58Z",
                                      "2026-11-20T11:03:58+0100",
                                      "2026-11-20T11:03:58+01",
                                      "2026-11-20T11:03:58+24:00",
                                      "2026-11-20T11:03:58Z ",
                                      "2026-11-20T24:00:00Z",
                                      "2026-11-20T11:60:00Z",
                                      "2026-11-20T11:00:61Z",
                                      "2026-00-20T11:00:00Z",
                                      "2026-13-20T11:00:00Z",
                                      "2026-02-29T11:00:00Z",
                                      "2026-04-31T00:00:00Z",
                                      "2026-01-32T00:00:00Z",
                                      "2026-01-00T00:00:00Z",
                                      "1969-12-31T23:59:59Z",
                                      "9999-12-31T23:59:59-00:01",
                                      "2026-11-20T11:03:5",
                                      "2026-1-20T11:03:58Z"};
    uint64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(text_parse_time(good[i].text, strlen(good[i].text), &ms), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(text_parse_time(bad[i], strlen(bad[i]), &ms), ERR_INVALID);
    }
}

static void test_strip(void **state)
{
    static const struct {
        const char *text;
        const char *stripped;
    } rows[] = {{"a b", "a b"}, {" \ta \tb\t ", "a \tb"}, {" \t", ""}, {"", ""}, {"a\r ", "a\r"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[16];

        (void)snprintf(text, sizeof text, "%s", rows[i].text);
        assert_string_equal(text_strip(text, " \t"), rows[i].stripped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal),
        cmocka_unit_test(test_decimal_as_printf),
        cmocka_unit_test(test_parse_decimal_bounds),
        cmocka_unit_test(test_text_is),
        cmocka_unit_test(test_strip),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_reads_times),
        cmocka_unit_test(test_json_is_always_valid),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
