/*
 * test_head.c - targets, options, and headers that few requests are asked for.
 *
 * Targets split, percent encoding undone, query options.
 *
 * What Accept and traceparent say, and what does not follow their rules.
 *
 * Thread: one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/proto/head.h"

/* --- target --- */

static void test_split(void **state)
{
    static const struct {
        const char *raw;
        int rv;
        const char *path;
        const char *query; /* NULL: none */
    } cases[] = {
        {"/", 0, "/", NULL},
        {"/a/b?x=1", 0, "/a/b", "x=1"},
        {"/a?", 0, "/a", ""},
        {"/a?b?c", 0, "/a", "b?c"},
        {"//a", 0, "//a", NULL},
        {"http://h/a?b", 0, "/a", "b"},
        {"HTTPS://h:1/a", 0, "/a", NULL},
        {"http://h", 0, "", NULL},
        {"http://h?x", 0, "", "x"},
        {"", ERR_INVALID, NULL, NULL},
        {"*", ERR_INVALID, NULL, NULL},
        {"a", ERR_INVALID, NULL, NULL},
        {"?a", ERR_INVALID, NULL, NULL},
        {"ftp://h/a", ERR_INVALID, NULL, NULL},
        {"host:80", ERR_INVALID, NULL, NULL},
        {"http://", ERR_INVALID, NULL, NULL},
        {"/a#b", ERR_INVALID, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct target target;

        assert_int_equal(target_split(cases[i].raw, strlen(cases[i].raw), &target), cases[i].rv);
        if (cases[i].rv != 0) {
            continue;
        }
        assert_int_equal(target.path_len, strlen(cases[i].path));
        assert_memory_equal(target.path, cases[i].path, target.path_len);
        assert_int_equal(target.query == NULL, cases[i].query == NULL);
        if (cases[i].query != NULL) {
            assert_int_equal(target.query_len, strlen(cases[i].query));
            assert_memory_equal(target.query, cases[i].query, target.query_len);
        }
    }
}

static void test_decode(void **state)
{
    static const struct {
        const char *text;
        enum target_plus plus;
        int rv;
        const char *decoded;
    } cases[] = {
        {"", TARGET_PLUS_IS_PLUS, 0, ""},
        {"abc", TARGET_PLUS_IS_PLUS, 0, "abc"},
        {"a%2Fb%2f", TARGET_PLUS_IS_PLUS, 0, "a/b/"},
        {"a+b", TARGET_PLUS_IS_PLUS, 0, "a+b"},
        {"a+b%2b", TARGET_PLUS_IS_SPACE, 0, "a b+"},
        {"%41%aF", TARGET_PLUS_IS_PLUS, 0, "A\xaf"},
        {"%25%32%35", TARGET_PLUS_IS_PLUS, 0, "%25"},
        {"%", TARGET_PLUS_IS_PLUS, ERR_INVALID, NULL},
        {"a%4", TARGET_PLUS_IS_PLUS, ERR_INVALID, NULL},
        {"%4g", TARGET_PLUS_IS_PLUS, ERR_INVALID, NULL},
        {"%g4", TARGET_PLUS_IS_PLUS, ERR_INVALID, NULL},
        {"%%41", TARGET_PLUS_IS_PLUS, ERR_INVALID, NULL},
        {"%+1", TARGET_PLUS_IS_SPACE, ERR_INVALID, NULL},
        {"12345678", TARGET_PLUS_IS_PLUS, 0, "12345678"},
        {"123456789", TARGET_PLUS_IS_PLUS, ERR_TOO_LARGE, NULL},
        {"12345678%4", TARGET_PLUS_IS_PLUS, ERR_INVALID, NULL},
        {"12345678%41", TARGET_PLUS_IS_PLUS, ERR_TOO_LARGE, NULL},
        {"123456789%", TARGET_PLUS_IS_PLUS, ERR_TOO_LARGE, NULL},
        {"%31%32%33%34%35%36%37%38", TARGET_PLUS_IS_PLUS, 0, "12345678"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* Exact heap copies, so that the sanitizer sees a read or write too far. */
        size_t text_len = strlen(cases[i].text);
        char *text = malloc(text_len + 1);
        char *out = malloc(8);
        size_t len = 0;

        assert_non_null(text);
        assert_non_null(out);
        memcpy(text, cases[i].text, text_len);
        text = realloc(text, text_len > 0 ? text_len : 1);
        assert_non_null(text);
        assert_int_equal(target_decode(text, text_len, cases[i].plus, out, 8, &len), cases[i].rv);
        if (cases[i].rv == 0) {
            assert_int_equal(len, strlen(cases[i].decoded));
            assert_memory_equal(out, cases[i].decoded, len);
        }
        free(text);
        free(out);
    }
}

static void test_options(void **state)
{
    static const struct {
        const char *query;
        int rv;
        const char *count; /* NULL: absent */
        const char *flag;
        const char *why; /* in the reason */
    } cases[] = {
        {"", 0, NULL, NULL, NULL},
        {"count=5", 0, "5", NULL, NULL},
        {"count=5&flag=x", 0, "5", "x", NULL},
        {"flag&count=", 0, "", "", NULL},
        {"count=a%26b&flag=%3D%3d", 0, "a&b", "==", NULL},
        {"co%75nt=a+b", 0, "a b", NULL, NULL},
        {"count=a=b", 0, "a=b", NULL, NULL},
        {"other=1", ERR_INVALID, NULL, NULL, "unknown query option \"other\""},
        {"count=1&other", ERR_INVALID, NULL, NULL, "unknown query option \"other\""},
        {"count=1&count=2", ERR_INVALID, NULL, NULL, "repeated query option \"count\""},
        {"&", ERR_INVALID, NULL, NULL, "unknown query option \"\""},
        {"count=1&&flag=1", ERR_INVALID, NULL, NULL, "unknown query option \"\""},
        {"count=%", ERR_INVALID, NULL, NULL, "bad percent encoding in the value of count"},
        {"c%x=1", ERR_INVALID, NULL, NULL, "bad percent encoding in the query option"},
        {"counter=1", ERR_INVALID, NULL, NULL, "unknown"},
        {"coun=1", ERR_INVALID, NULL, NULL, "unknown"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct param options[] = {{.name = "count"}, {.name = "flag"}};
        size_t len = strlen(cases[i].query);
        char *space = malloc(len > 0 ? len : 1);
        char why[OPTION_WHY_BYTES];

        assert_non_null(space);
        assert_int_equal(
            options_parse(cases[i].query, len, OPTIONS_OTHERS_REFUSED, options, 2, space, why),
            cases[i].rv);
        if (cases[i].rv != 0) {
            assert_non_null(strstr(why, cases[i].why));
        } else {
            assert_int_equal(options[0].present, cases[i].count != NULL);
            assert_int_equal(options[1].present, cases[i].flag != NULL);
        }
        if (cases[i].rv == 0 && cases[i].count != NULL) {
            assert_int_equal(options[0].len, strlen(cases[i].count));
            assert_memory_equal(options[0].text, cases[i].count, options[0].len);
        }
        if (cases[i].rv == 0 && cases[i].flag != NULL) {
            assert_int_equal(options[1].len, strlen(cases[i].flag));
            assert_memory_equal(options[1].text, cases[i].flag, options[1].len);
        }
        free(space);
    }
}

static bool is_within(const char *text, const char *begin, size_t len)
{
    return text >= begin && text < begin + len;
}

/* Nothing is copied of a query without an encoded byte; one such byte, and all is. */
static void test_plain_options_stand_in_the_query(void **state)
{
    static const struct {
        char query[24];
        bool plain;
    } cases[] = {{"count=5&flag=x", true}, {"count=5&flag=+", false}, {"count=5&fl%61g=x", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct param options[] = {{.name = "count"}, {.name = "flag"}};
        const char *query = cases[i].query;
        size_t len = strlen(query);
        char space[sizeof cases[i].query];
        char why[OPTION_WHY_BYTES];

        assert_int_equal(options_parse(query, len, OPTIONS_OTHERS_REFUSED, options, 2, space, why),
                         0);
        for (size_t n = 0; n < 2; n++) {
            assert_int_equal(is_within(options[n].text, query, len), cases[i].plain);
            assert_int_equal(is_within(options[n].text, space, len), !cases[i].plain);
        }
    }
}

/* As Leaf's routes read a query: what they do not know is as if it were not there. */
static void test_others_are_ignored(void **state)
{
    static const struct {
        const char *query;
        int rv;
        const char *count; /* NULL: not present */
    } cases[] = {
        {"_=1", 0, NULL},
        {"_=1&count=7&x", 0, "7"},
        {"&&count=7&", 0, "7"},
        {"=1&count=7", 0, "7"},
        {"c%x=1&count=%37", 0, "7"},
        {"x=%zz&count=7", 0, "7"},
        {"Count=1", 0, NULL},
        {"count=1&count=2", ERR_INVALID, NULL},
        {"count=%zz", ERR_INVALID, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct param options[] = {{.name = "count"}};
        char space[64];
        char why[OPTION_WHY_BYTES];

        assert_int_equal(options_parse(cases[i].query, strlen(cases[i].query),
                                       OPTIONS_OTHERS_IGNORED, options, 1, space, why),
                         cases[i].rv);
        if (cases[i].rv == 0) {
            assert_int_equal(options[0].present, cases[i].count != NULL);
            assert_int_equal(options[0].len, cases[i].count != NULL ? 1 : 0);
        }
    }
}

/* --- header --- */

static bool wants(const char *accept)
{
    return header_wants_openmetrics(accept, strlen(accept));
}

static void test_openmetrics_is_chosen_by_who_asks_for_it(void **state)
{
    (void)state;
    /* Prometheus 2.42's, and 2.5's */
    assert_true(wants("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_false(wants("application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;"
                       "q=0.5,*/*;q=0.1"));
    assert_true(wants("application/openmetrics-text"));
    assert_true(wants("Application/OpenMetrics-Text ; Version=1.0.0 ; charset=utf-8"));
    assert_true(wants("text/plain;q=0.5 , application/openmetrics-text;q=0.5"));
    assert_false(wants("text/plain, application/openmetrics-text;q=0.9"));
    assert_false(wants("application/openmetrics-text;q=0"));
    assert_false(wants("application/openmetrics-text;q=0.000"));
    assert_true(wants("application/openmetrics-text;q=0.001"));
    assert_false(wants("*/*"));
    assert_false(wants("text/html,application/xml;q=0.9,*/*;q=0.8"));
    assert_false(wants(""));
    assert_false(wants(",;,;=q,,"));
    assert_false(wants("application/openmetrics-textual"));
}

static void test_weights_that_are_none(void **state)
{
    static const char *const wrong[] = {"2", "1.1", "-1", "0.0001", "x", "", ".5", "0,5", "0.x5"};
    char accept[64];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(accept, sizeof accept, "application/openmetrics-text;q=%s", wrong[i]);
        assert_false(wants(accept));
    }
}

static bool trace(const char *text, char out[HEADER_TRACE_BYTES])
{
    return header_trace(text, strlen(text), out);
}

static void test_a_trace_is_taken(void **state)
{
    char out[HEADER_TRACE_BYTES];

    (void)state;
    assert_true(trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", out));
    assert_string_equal(out, "0af7651916cd43dd8448eb211c80319c");
    assert_true(trace("00-00000000000000000000000000000001-0000000000000001-00", out));
    assert_true(trace("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", out));
    assert_true(trace("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what", out));
}

static void test_a_trace_that_breaks_a_rule_is_none(void **state)
{
    static const char *const wrong[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", /* not in version 00 */
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0X-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319\n-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319\"-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
    };
    char out[HEADER_TRACE_BYTES] = "as before";

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(trace(wrong[i], out));
        assert_string_equal(out, "as before");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_plain_options_stand_in_the_query),
        cmocka_unit_test(test_others_are_ignored),
        cmocka_unit_test(test_openmetrics_is_chosen_by_who_asks_for_it),
        cmocka_unit_test(test_weights_that_are_none),
        cmocka_unit_test(test_a_trace_is_taken),
        cmocka_unit_test(test_a_trace_that_breaks_a_rule_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
