/*
 * test_secret.c - which texts are secrets.
 *
 * Thread: one.
 */
#include "src/node/config/config.h"

#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/node/config/tests/config_fixture.h"

static void assert_good(const char *text, size_t count)
{
    char why[SECRET_WHY_BYTES] = "";
    struct secret_list list;

    if (secret_parse(text, strlen(text), &list, why) != 0) {
        fail_msg("%s", why);
    }
    assert_int_equal(list.count, count);
}

static void assert_bad(const char *text, const char *error)
{
    char why[SECRET_WHY_BYTES] = "";
    struct secret_list list;

    assert_int_equal(secret_parse(text, strlen(text), &list, why), ERR_INVALID);
    if (strstr(why, error) == NULL || strstr(why, "leafd --new-secret") == NULL) {
        fail_msg("it says: %s", why);
    }
}

/* 64 digits of a byte that repeats, or of bytes that count on. */
static const char *hex_of(unsigned first, unsigned step, unsigned repeat)
{
    static char text[65];

    for (unsigned i = 0; i < 32; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", (first + i % repeat * step) & 0xff);
    }
    return text;
}

static void test_forms(void **state)
{
    char upper[65];

    (void)state;
    assert_good(SOME_SECRET, 1);
    assert_good(HEX_SECRET, 1);
    for (size_t i = 0; i < sizeof upper; i++) {
        upper[i] = HEX_SECRET[i] >= 'a' ? (char)(HEX_SECRET[i] - 32) : HEX_SECRET[i];
    }
    assert_good(upper, 1);
    assert_good("# made today\n\n  " SOME_SECRET " \t\r\n\n", 1);
    assert_good("# new\n" SOME_SECRET "\n# old\n" HEX_SECRET "\n", 2);
    assert_bad(SOME_SECRET "\n" HEX_SECRET "\n" SOME_SECRET "\n",
               "line 3: there are more than two");
    assert_bad(SOME_SECRET "\n" SOME_SECRET "\n", "line 2: the secret is there twice");
    assert_bad(SOME_SECRET SOME_SECRET, "32 random bytes");
    assert_bad(SOME_SECRET "\nmore\n", "line 2: a secret is 32 random bytes");
    assert_bad("", "there is no secret");
    assert_bad("# none\n", "there is no secret");
}

static void test_what_only_looks_like_one(void **state)
{
    char text[80];

    (void)state;
    (void)snprintf(text, sizeof text, "%.63s", HEX_SECRET);
    assert_bad(text, "32 random bytes");
    (void)snprintf(text, sizeof text, "%s0", HEX_SECRET);
    assert_bad(text, "32 random bytes");
    (void)snprintf(text, sizeof text, "%.63sg", HEX_SECRET);
    assert_bad(text, "32 random bytes");
    (void)snprintf(text, sizeof text, "%.43s", SOME_SECRET);
    assert_bad(text, "32 random bytes");
    (void)snprintf(text, sizeof text, "%.42s==", SOME_SECRET);
    assert_bad(text, "32 random bytes");
    (void)snprintf(text, sizeof text, "%.20s=%.23s", SOME_SECRET, SOME_SECRET);
    assert_bad(text, "32 random bytes");
    (void)snprintf(text, sizeof text, "%.20s.%.23s", SOME_SECRET, SOME_SECRET);
    assert_bad(text, "32 random bytes");
}

static void test_what_is_not_random(void **state)
{
    (void)state;
    assert_bad(hex_of(0, 0, 32), "is not random");
    assert_bad(hex_of(0xab, 0, 32), "is not random");
    assert_bad(hex_of(0x80, 1, 8), "is not random");
    assert_bad(hex_of(0x80, 3, 19), "is not random");
    assert_good(hex_of(0x80, 3, 20), 1);
    assert_bad(hex_of('A', 1, 32), "is not random"); /* a text */
    assert_bad("dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHQ=", "is not random");
}

static void test_new_ones(void **state)
{
    char first[SECRET_TEXT_BYTES];
    char second[SECRET_TEXT_BYTES];

    (void)state;
    secret_new(first);
    secret_new(second);
    assert_int_equal(strlen(first), SECRET_TEXT_BYTES - 1);
    assert_good(first, 1);
    assert_good(second, 1);
    assert_string_not_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_what_only_looks_like_one),
        cmocka_unit_test(test_what_is_not_random),
        cmocka_unit_test(test_new_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
