/* Names, keys, numbers and ranges: what is taken and what is not, up to each bound and beyond. */
#include "group.h"

#include "../text.h"

#include <stdio.h>
#include <string.h>

static void test_names(void **state)
{
    (void)state;
    char longest[TEXT_NAME_BYTES + 2];
    static const char *const good[] = {"a",
                                       "a/b c",
                                       "\xc3\xa9",
                                       "\xe2\x82\xac",
                                       "\xf0\x9f\x8d\x83",
                                       "\xc2\xa0",
                                       "\xf4\x8f\xbf\xbf",
                                       "~"};
    static const char *const bad[] = {"",
                                      "a\n",
                                      "\x7f",
                                      "\x1f",
                                      "\xc2\x80",
                                      "\xc2\x9f",
                                      "\xc3",
                                      "\x80",
                                      "\xc0\xaf",
                                      "\xe0\x80\xaf",
                                      "\xed\xa0\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xf4\x90\x80\x80",
                                      "\xe2\x82"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(text_is_name(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(text_is_name(bad[i]));
    }
    memset(longest, 'x', sizeof longest);
    longest[TEXT_NAME_BYTES + 1] = 0;
    assert_false(text_is_name(longest));
    longest[TEXT_NAME_BYTES] = 0;
    assert_true(text_is_name(longest));
}

static void test_encoding(void **state)
{
    (void)state;
    char into[TEXT_ENCODED_BYTES];
    text_encode("a/b.c-d_e~f g%?#;+\xc3\xa9", into);
    assert_string_equal(into, "a%2Fb.c-d_e~f%20g%25%3F%23%3B%2B%C3%A9");
    char longest[TEXT_NAME_BYTES + 1];
    memset(longest, ' ', sizeof longest);
    longest[TEXT_NAME_BYTES] = 0;
    text_encode(longest, into);
    assert_int_equal(strlen(into), TEXT_ENCODED_BYTES - 1);
}

static void test_visible(void **state)
{
    (void)state;
    assert_true(text_is_visible("!~", 2));
    assert_false(text_is_visible("", 2));
    assert_false(text_is_visible("abc", 2));
    assert_false(text_is_visible("a b", 9));
    assert_false(text_is_visible("a\r\nb", 9));
    assert_false(text_is_visible("\xc3\xa9", 9));
    assert_false(text_is_visible("\x7f", 9));
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t number = 7;
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "0x1",
                                      "1.0",
                                      "9",
                                      "21",
                                      "99999999999999999999",
                                      "18446744073709551617"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(text_to_number(bad[i], 10, 20, &number));
    }
    assert_int_equal(number, 7);
    assert_true(text_to_number("10", 10, 20, &number));
    assert_true(text_to_number("20", 10, 20, &number));
    assert_int_equal(number, 20);
    assert_true(text_to_number("9223372036854775807", 0, UINT64_MAX, &number));
    assert_false(text_to_number("9223372036854775808", 0, UINT64_MAX, &number));
}

static void test_keys(void **state)
{
    (void)state;
    char keys[64][TEXT_OWN_KEY_CHARS + 1];
    for (size_t i = 0; i < 64; i++) {
        text_make_key(keys[i]);
        assert_int_equal(strlen(keys[i]), TEXT_OWN_KEY_CHARS);
        assert_int_equal(strspn(keys[i], "abcdefghijklmnopqrstuvwxyz234567"), TEXT_OWN_KEY_CHARS);
        for (size_t before = 0; before < i; before++) {
            assert_string_not_equal(keys[before], keys[i]);
        }
    }
}

static int read_ranges(const char *body, uint32_t count, struct leafd_series *into)
{
    const char *why = "not said";
    int found = text_read_ranges(body, strlen(body), count, false, into, &why);
    assert_int_equal(found < 0, why != NULL);
    return found;
}

static void test_ranges(void **state)
{
    (void)state;
    struct leafd_series into[TEXT_RANGES_MAX];
    assert_int_equal(read_ranges("5 5\n", 1, into), 1);
    assert_int_equal(read_ranges("1 2\n4 4\n9 10\n", 5, into), 3);
    assert_int_equal(into[2].last, 10);
    assert_int_equal(read_ranges("0 0\n", 1, into), 1);
    assert_int_equal(read_ranges("9223372036854775806 9223372036854775807\n", 2, into), 1);
    static const char *const bad[] = {"",
                                      "1 5",
                                      "1 4\n",
                                      "1 6\n",
                                      "5 1\n",
                                      "1 2\n2 4\n",
                                      "4 5\n1 3\n",
                                      "1 5\n\n",
                                      "1  5\n",
                                      " 1 5\n",
                                      "1 5 \n",
                                      "1 5\r\n",
                                      "a 5\n",
                                      "-1 3\n",
                                      "1\t5\n",
                                      "+1 5\n",
                                      "1 5\n6 6\n",
                                      "1 5\nx",
                                      "1 9223372036854775807\n",
                                      "9223372036854775804 9223372036854775808\n",
                                      "18446744073709551617 18446744073709551621\n",
                                      "00000000000000000001 5\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(read_ranges(bad[i], 5, into), -1);
    }
}

static void test_steps(void **state)
{
    (void)state;
    struct leafd_series into[TEXT_RANGES_MAX];
    static const char *const good[] = {"1 21 5\n", "1 11 5\n12 13 1\n",
                                       "9223372036854775803 9223372036854775807 1\n",
                                       "0 9223372036854775804 2305843009213693951\n"};
    static const char *const bad[] = {"1 5\n",
                                      "1 5 \n",
                                      "1 21 0\n",
                                      "1 21 -5\n",
                                      "1 22 5\n",
                                      "21 1 5\n",
                                      "1 16 5\n",
                                      "1 26 5\n",
                                      "1 21 5 1\n",
                                      "1 21 5",
                                      "1 11 5\n11 12 1\n",
                                      "1 21 9223372036854775808\n",
                                      "1 21 18446744073709551621\n",
                                      "9223372036854775804 9223372036854775808 1\n"};
    const char *why;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(text_read_ranges(good[i], strlen(good[i]), 5, true, into, &why) > 0);
    }
    assert_int_equal(into[0].increment, INT64_MAX / 4);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(text_read_ranges(bad[i], strlen(bad[i]), 5, true, into, &why), -1);
    }
}

static void test_too_many_ranges(void **state)
{
    (void)state;
    struct leafd_series into[TEXT_RANGES_MAX];
    char body[2048] = "";
    size_t used = 0;
    for (int i = 0; i < TEXT_RANGES_MAX; i++) {
        used += (size_t)snprintf(body + used, sizeof body - used, "%d %d\n", 2 * i, 2 * i);
    }
    assert_int_equal(read_ranges(body, TEXT_RANGES_MAX, into), TEXT_RANGES_MAX);
    (void)snprintf(body + used, sizeof body - used, "1000 1000\n");
    assert_int_equal(read_ranges(body, TEXT_RANGES_MAX + 1, into), -1);
}

static bool read_lines(const char *body, uint32_t count, char (*into)[LEAFD_TEXT_BYTES])
{
    const char *why = NULL;
    return text_read_lines(body, strlen(body), count, into, &why);
}

static void test_lines(void **state)
{
    (void)state;
    char into[3][LEAFD_TEXT_BYTES];
    char longest[256], longer[256];
    (void)snprintf(longest, sizeof longest, "%0130d\n", 7);
    (void)snprintf(longer, sizeof longer, "%0131d\n", 7);
    assert_true(read_lines("INV-1\n!\n~\n", 3, into));
    assert_string_equal(into[0], "INV-1");
    assert_string_equal(into[2], "~");
    assert_true(read_lines(longest, 1, into));
    assert_int_equal(strlen(into[0]), 130);
    assert_false(read_lines(longer, 1, into));
    static const char *const bad[] = {"",       "A1\n",      "A1\nA2",       "A1\nA2\nA3\n",
                                      "A1\n\n", "A1\nA 2\n", "A1\r\nA2\r\n", "A1\n\xc3\n",
                                      "\nA1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(read_lines(bad[i], 2, into));
    }
    const char *why;
    assert_false(text_read_lines("A\0\n", 3, 1, into, &why));
}

/* Any bytes: no reading behind their end (ASan looks), and nothing taken that is not there. */
static void test_any_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789 \n9\n 1-x";
    uint64_t seed = 12345;
    for (int round = 0; round < 200000; round++) {
        char body[40];
        size_t bytes = (seed >> 40) % sizeof body;
        for (size_t i = 0; i < bytes; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            body[i] = alphabet[(seed >> 33) % (sizeof alphabet - 1)];
        }
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        struct leafd_series into[TEXT_RANGES_MAX];
        const char *why;
        int found = text_read_ranges(body, bytes, 10, round % 2 == 0, into, &why);
        uint64_t total = 0;
        for (int i = 0; i < found; i++) {
            assert_true(into[i].first <= into[i].last);
            assert_true(into[i].increment == 1 || round % 2 == 0);
            total += text_ids_of(&into[i]);
        }
        assert_true(found < 0 || total == 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_visible), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_keys),    cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_too_many_ranges),
        cmocka_unit_test(test_lines),   cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
