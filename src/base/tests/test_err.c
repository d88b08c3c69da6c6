/*
 * test_err.c - every error code has a value, a word and a text of its own. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/err.h"

static const struct {
    int value;
    const char *code;
    const char *text;
} errors[] = {
#define X(name, value, code, text) {ERR_##name, code, text},
    ERR_LIST(X)
#undef X
};

#define COUNT (sizeof errors / sizeof errors[0])

static void test_each_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(errors[i].value < 0);
        assert_string_equal(err_code(errors[i].value), errors[i].code);
        assert_string_equal(err_text(errors[i].value), errors[i].text);
    }
}

static void test_no_two_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(errors[i].value, errors[j].value);
            assert_string_not_equal(errors[i].code, errors[j].code);
            assert_string_not_equal(errors[i].text, errors[j].text);
        }
    }
}

/* The words go into JSON, metrics and log lines as they are. */
static void test_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        size_t len = strlen(errors[i].code);

        assert_true(len > 0);
        assert_int_equal(strspn(errors[i].code, "abcdefghijklmnopqrstuvwxyz_"), len);
        assert_null(strpbrk(errors[i].text, "\"\\\n"));
    }
}

static void test_others(void **state)
{
    (void)state;
    assert_string_equal(err_code(ERR_OK), "ok");
    assert_string_equal(err_text(ERR_OK), "ok");
    assert_string_equal(err_code(1), "unknown_error");
    assert_string_equal(err_text(1), "unknown error");
    assert_string_equal(err_code(-1000), "unknown_error");
    assert_string_equal(err_text(-1000), "unknown error");
}

/* The codes travel between nodes in replies: they must not change. */
static void test_values_are_fixed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(errors[i].value, -1 - (int)i);
    }
    assert_int_equal(ERR_NOMEM, -1);
    assert_int_equal(ERR_TIMEOUT, -10);
    assert_int_equal(ERR_CONFLICT, -20);
    assert_int_equal(ERR_WRONG_NODE, -28);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_found),
        cmocka_unit_test(test_no_two_alike),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_values_are_fixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
