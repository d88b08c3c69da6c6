/*
 * test_header.c - headers are found as the scanner would read them; what Accept and traceparent
 * say, and what does not follow their rules.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/proto/head.h"

static void expect(const char *head, const char *value, size_t count)
{
    size_t len = 0;
    size_t found_count;
    const char *found = header_find(head, strlen(head), "accept", &len, &found_count);

    assert_int_equal(found_count, count);
    assert_int_equal(found == NULL, value == NULL);
    if (value != NULL) {
        assert_int_equal(len, strlen(value));
        assert_memory_equal(found, value, len);
    }
}

static void test_headers_are_found(void **state)
{
    (void)state;
    expect("GET / HTTP/1.1\r\nHost: a\r\nAccept: x/y\r\n\r\n", "x/y", 1);
    expect("GET / HTTP/1.1\r\naCCEPT:x/y \t \r\nHost: a\r\n\r\n", "x/y", 1);
    expect("GET / HTTP/1.1\r\nAccept:\r\n\r\n", "", 1);
    expect("GET / HTTP/1.1\r\nAccept: a\r\nAccept: b\r\n\r\n", "a", 2);
    expect("GET / HTTP/1.1\nAccept: bare\n\n", "bare", 1);
    expect("GET / HTTP/1.1\r\nHost: a\r\n\r\n", NULL, 0);
    expect("GET / HTTP/1.1\r\nX-Accept: a\r\nAccept-Encoding: b\r\n\r\n", NULL, 0);
    expect("GET /Accept:%20a HTTP/1.1\r\nHost: Accept: a\r\n\r\n", NULL, 0);
    expect("Accept: a\r\n\r\n", NULL, 0); /* the request line is none */
    expect("", NULL, 0);
    expect("GET / HTTP/1.1\r\nAccept", NULL, 0);
    expect("GET / HTTP/1.1\r\nAccept:", "", 1);
}

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
        cmocka_unit_test(test_headers_are_found),
        cmocka_unit_test(test_openmetrics_is_chosen_by_who_asks_for_it),
        cmocka_unit_test(test_weights_that_are_none),
        cmocka_unit_test(test_a_trace_is_taken),
        cmocka_unit_test(test_a_trace_that_breaks_a_rule_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
