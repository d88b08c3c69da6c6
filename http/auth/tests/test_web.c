/*
 * test_web.c - which hosts are a node's own, which origins may ask, which bodies are JSON; and the
 * lists in the settings.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/auth/web.h"
#include "src/base/buf.h"

static const struct web_rules rules = {.hosts = "ids.example , [2001:db8::1],10.0.0.9",
                                       .origins = "https://a.example:8443,http://b.example",
                                       .own = {"0.0.0.0:8080", "node1.example:80", "[fd00::1]:9"}};

/* The verdict on a request with these header lines. */
static enum web_verdict check(const struct web_rules *by, const char *line, const char *headers,
                              bool guarded)
{
    struct buf text = BUF_INIT;
    struct parser parser;
    struct web_request request = {
        .guarded = guarded, .changes = guarded, .acts = guarded || strstr(line, "/ids") != NULL};
    enum web_verdict verdict;

    buf_printf(&text, "%s HTTP/1.1\r\n%s\r\n", line, headers);
    parser = (struct parser){0};
    assert_int_equal(parser_head(&parser, (char *)text.data, text.len), PARSER_DONE);
    request.head = &parser.head;
    request.bytes = (char *)text.data;
    verdict = web_check(by, &request);
    buf_free(&text);
    return verdict;
}

static enum web_verdict put(const char *headers)
{
    return check(&rules, "PUT /", headers, true);
}

static void test_hosts(void **state)
{
    static const char *const own[] = {
        "localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3:80", "[::1]:8080", "ids.example",
        "IDS.example:1", "10.0.0.9", "node1.example", "[fd00::1]:1", "[2001:DB8::1]",
        /* the same in other words */
        "[0:0:0:0:0:0:0:1]:8080", "localhost.", "LocalHost.:80", "127.0.0.1.", "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]:80", "ids.example.", "node1.example.:80", "[fd00:0::0001]",
        "[2001:db8:0:0:0:0:0:1]:80", "[::ffff:10.0.0.9]"};
    static const char *const others[] = {"",
                                         ":80",
                                         "evil.example",
                                         "127.evil.example",
                                         "127.0.0.1.evil.example",
                                         "127.0.1",
                                         "localhost..",
                                         ".",
                                         "127.0.0.256",
                                         "[::ffff:128.0.0.1]",
                                         "[::127.0.0.1]",
                                         "[127.0.0.1]",
                                         "[fd00::2]",
                                         "evil.example.",
                                         "localhost.evil.example.",
                                         "xids.example",
                                         "ids.example..",
                                         "128.0.0.1",
                                         "[::2]",
                                         "[::1]0",
                                         "*",
                                         "ids.example , x"};
    char line[80];

    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        (void)snprintf(line, sizeof line, "Host: %s\r\n", own[i]);
        assert_int_equal(put(line), WEB_FINE);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strchr(others[i], ' ') != NULL || strcmp(others[i], "[::1]0") == 0) {
            continue; /* the parser refuses them */
        }
        (void)snprintf(line, sizeof line, "Host: %s\r\n", others[i]);
        assert_int_equal(put(line), WEB_MISDIRECTED);
        assert_int_equal(check(&rules, "GET /", line, false), WEB_FINE);
        assert_int_equal(check(&(struct web_rules){.hosts = "x,*"}, "PUT /", line, true),
                         others[i][0] == '\0' || others[i][0] == ':' ? WEB_MISDIRECTED : WEB_FINE);
    }
}

/* An absolute target says whom the request is for, whatever Host is. */
static void test_absolute_target(void **state)
{
    (void)state;
    assert_int_equal(check(&rules, "GET http://localhost:1/x", "Host: evil\r\n", true), WEB_FINE);
    assert_int_equal(check(&rules, "GET http://evil/x", "Host: localhost\r\n", true),
                     WEB_MISDIRECTED);
    assert_int_equal(check(&rules, "GET http://evil?localhost", "Host: localhost\r\n", true),
                     WEB_MISDIRECTED);
    assert_int_equal(check(&rules, "GET /http://localhost", "Host: evil\r\n", true),
                     WEB_MISDIRECTED);
}

static void test_origins(void **state)
{
#define HOST "Host: localhost:80\r\n"
    (void)state;
    assert_int_equal(put(HOST "Origin: http://localhost:80\r\n"), WEB_FINE);
    assert_int_equal(put(HOST "Origin: https://LOCALHOST:80\r\n"), WEB_FINE);
    assert_int_equal(put(HOST "Origin: https://a.example:8443\r\n"), WEB_FINE);
    assert_int_equal(put(HOST "Origin: http://localhost\r\n"), WEB_FOREIGN);
    assert_int_equal(put(HOST "Origin: http://a.example:8443\r\n"), WEB_FOREIGN);
    assert_int_equal(put(HOST "Origin: null\r\n"), WEB_FOREIGN);
    assert_int_equal(put(HOST "Origin:\r\n"), WEB_FOREIGN);
    assert_int_equal(put(HOST "Origin: http://localhost:80\r\nOrigin: http://localhost:80\r\n"),
                     WEB_FOREIGN);
    /* A page whose name was made to mean this address has its own name for both. */
    assert_int_equal(
        check(&rules, "GET /", "Host: evil.example\r\nOrigin: http://evil.example\r\n", false),
        WEB_FOREIGN);
}

static void test_types(void **state)
{
#define BODY HOST "Content-Length: 2\r\n"
    (void)state;
    assert_int_equal(put(HOST), WEB_FINE);
    assert_int_equal(put(BODY), WEB_TYPE);
    assert_int_equal(put(BODY "Content-Type: Application/JSON\r\n"), WEB_FINE);
    assert_int_equal(put(BODY "Content-Type: application/json ;charset=x\r\n"), WEB_FINE);
    assert_int_equal(put(BODY "Content-Type: application/x-ndjson\r\n"), WEB_FINE);
    assert_int_equal(put(BODY "Content-Type: application/jsonx\r\n"), WEB_TYPE);
    assert_int_equal(put(BODY "Content-Type: text/plain;application/json\r\n"), WEB_TYPE);
    assert_int_equal(put(BODY "Content-Type: application/json\r\nContent-Type: text/plain\r\n"),
                     WEB_TYPE);
    assert_int_equal(put(HOST "Transfer-Encoding: chunked\r\n"), WEB_TYPE);
    assert_int_equal(check(&rules, "GET /", BODY, false), WEB_FINE);
}

static void test_lists(void **state)
{
    const char *item = NULL;

    (void)state;
    assert_true(web_is_hosts("", &item));
    assert_true(web_is_hosts("*", &item));
    assert_true(web_is_hosts("a, b.c_d-e , [::1],1.2.3.4", &item));
    assert_false(web_is_hosts("a,b:80", &item));
    assert_int_equal(strcmp(item, "b:80"), 0);
    assert_false(web_is_hosts("a,,b", &item));
    assert_false(web_is_hosts("http://a", &item));
    assert_true(web_is_origins("http://a,https://[::1]:80, null", &item));
    assert_false(web_is_origins("a", &item));
    assert_false(web_is_origins("http://a/", &item));
    assert_false(web_is_origins("://a", &item));
}

/* A page can have the browser GET what it likes, as an image, without an Origin: the browser says
 * whose page it is, and nobody else sends that header. */
/* Shows attack-browser. */
static void test_fetch_site(void **state)
{
    static const struct web_rules any = {.origins = "*"};
    static const char *const foreign[] = {"cross-site", "same-site", "Cross-Site"};
    static const char *const fine[] = {"none", "same-origin", "", "cross-sites", "cross-sit"};
    char lines[160];

    (void)state;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        (void)snprintf(lines, sizeof lines, "Host: localhost\r\nSec-Fetch-Site: %s\r\n",
                       foreign[i]);
        assert_int_equal(check(&rules, "GET /ids", lines, false), WEB_FOREIGN);
        assert_int_equal(put(lines), WEB_FOREIGN);
        assert_int_equal(check(&any, "GET /ids", lines, false), WEB_FINE);
        assert_int_equal(check(&rules, "GET /", lines, false), WEB_FINE); /* it takes nothing */
        /* One that says which page it is, is judged by that. */
        (void)snprintf(lines, sizeof lines,
                       "Host: localhost\r\nOrigin: http://b.example\r\nSec-Fetch-Site: %s\r\n",
                       foreign[i]);
        assert_int_equal(check(&rules, "GET /ids", lines, false), WEB_FINE);
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        (void)snprintf(lines, sizeof lines, "Host: localhost\r\nSec-Fetch-Site: %s\r\n", fine[i]);
        assert_int_equal(check(&rules, "GET /ids", lines, false), WEB_FINE);
        assert_int_equal(put(lines), WEB_FINE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),           cmocka_unit_test(test_fetch_site),
        cmocka_unit_test(test_absolute_target), cmocka_unit_test(test_origins),
        cmocka_unit_test(test_types),           cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
