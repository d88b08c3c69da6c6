/*
 * test_looks.c - what nobody sees in a name is found, and what looks like something else.
 */
#include "src/base/utf8.h"

#include <string.h>

#include "src/tests/unit/test.h"

static const char *hidden(const char *text)
{
    static char why[LOOKS_WHY_BYTES];

    return looks_hidden(text, strlen(text), why) ? why : "";
}

static const char *like_another(const char *text)
{
    static char why[LOOKS_WHY_BYTES];

    return looks_like_another(text, strlen(text), why) ? why : "";
}

static void test_hidden_is_named_with_its_place(void **state)
{
    (void)state;
    assert_string_equal(hidden(""), "");
    assert_string_equal(hidden("order/1 \\ 订单 😀 café"), "");
    assert_string_equal(hidden("a\tb"), "U+0009 at character 2 is a control character");
    assert_string_equal(hidden("订单\xc2\x85"), "U+0085 at character 3 is a control character");
    assert_string_equal(hidden("ab\xe2\x80\x8b"),
                        "U+200B at character 3 is invisible, or changes how others are shown");
    assert_string_equal(hidden("\xf3\xa0\x81\xa1"),
                        "U+E0061 at character 1 is invisible, or changes how others are shown");
    assert_string_equal(hidden("\xff\xe2\x80"), ""); /* no UTF-8: another rule's matter */
    assert_true(strlen(hidden("\xf3\xa0\x81\xa1")) + 8 < LOOKS_WHY_BYTES);
}

/* Both ends of what the issue names, and their neighbours. */
static void test_unseen_at_its_bounds(void **state)
{
    static const uint32_t bounds[][2] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0xfe00, 0xfe0f},
        {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        for (uint32_t code = bounds[i][0]; code <= bounds[i][1]; code++) {
            assert_true(looks_unseen(code));
        }
        assert_false(i > 0 && looks_unseen(bounds[i][0] - 1));
        assert_false(looks_unseen(bounds[i][1] + 1));
    }
    assert_false(looks_unseen(0x10ffff));
}

/* Each code is found in a text if and only if it is unseen. */
static void test_hidden_knows_every_code(void **state)
{
    char why[LOOKS_WHY_BYTES];

    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char text[] = "a....b";
        size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};

        for (size_t i = 0; i < len; i++) {
            uint32_t bits = code >> (6 * (len - 1 - i));

            text[1 + i] = (char)(i > 0 ? 0x80 | (bits & 0x3f) : leads[len] | bits);
        }
        if (code < 0xd800 || code > 0xdfff) {
            assert_int_equal(looks_hidden(text, sizeof text - 1, why), looks_unseen(code));
            assert_true(!looks_unseen(code) || strstr(why, " at character 2 is ") != NULL);
        }
    }
}

static void test_like_another(void **state)
{
    (void)state;
    assert_string_equal(like_another(""), "");
    assert_string_equal(like_another("Order/1-a_b.c 订单 заказ/order αβγ café Ünïçode 😀 Ж1a"), "");
    assert_string_equal(like_another(" a"), "a blank at its front");
    assert_string_equal(like_another("a "), "a blank at its end");
    assert_string_equal(like_another("a\xc2\xa0"
                                     "b"),
                        "U+00A0 at character 2 looks like a blank");
    assert_string_equal(
        like_another("cafe\xcc\x81"),
        "U+0301 at character 5 is mostly written as one with what is before it (NFC)");
    assert_string_equal(like_another("\xef\xbd\x8frder"),
                        "U+FF4F at character 1 is another form of a common character (NFKC)");
    assert_string_equal(like_another("\xd0\xberder"),
                        "U+0072 at character 2 is of another alphabet than the letter before it");
    assert_string_equal(like_another("order\xd0\xb5"),
                        "U+0435 at character 6 is of another alphabet than the letter before it");
    assert_string_equal(like_another("\xff\xcc"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden_is_named_with_its_place),
        cmocka_unit_test(test_unseen_at_its_bounds),
        cmocka_unit_test(test_hidden_knows_every_code),
        cmocka_unit_test(test_like_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
