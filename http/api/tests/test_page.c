/*
 * test_page.c - the page is whole, and its policy has the hashes of exactly the style and script
 * that are in it.
 */
#include <stdio.h>
#include <string.h>
#include <openssl/evp.h>

#include "src/tests/unit/test.h"
#include "http/tests/fixture.h"

/* 'sha256-...' of what stands between the one <tag> and its end. */
static void hash_of(const char *html, const char *tag, char *out, size_t size)
{
    char open[16];
    char close[16];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char text[2 * EVP_MAX_MD_SIZE];
    unsigned len = 0;
    const char *from;
    const char *end;

    (void)snprintf(open, sizeof open, "<%s>", tag);
    (void)snprintf(close, sizeof close, "</%s>", tag);
    from = strstr(html, open);
    assert_non_null(from);
    from += strlen(open);
    end = strstr(from, close);
    assert_non_null(end);
    assert_null(strstr(end + 1, close));
    assert_int_equal(EVP_Digest(from, (size_t)(end - from), digest, &len, EVP_sha256(), NULL), 1);
    assert_int_equal(EVP_EncodeBlock(text, digest, (int)len), 44);
    (void)snprintf(out, size, "%s-src 'sha256-%s';", tag, (char *)text);
}

static void test_whole(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char want[192];

    client_call(f->client, "GET", "/", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(strlen(reply.body), reply.len); /* no NUL inside */
    assert_int_equal(strncmp(reply.body, "<!doctype html>", 15), 0);
    assert_non_null(strstr(reply.body, "</html>"));
    assert_null(strstr(reply.body, "@STYLE@"));
    assert_null(strstr(reply.body, "@SCRIPT@"));
    assert_non_null(strstr(reply.head, "Content-Security-Policy: default-src 'none'; "));
    hash_of(reply.body, "style", want, sizeof want);
    assert_non_null(strstr(reply.head, want));
    hash_of(reply.body, "script", want, sizeof want);
    assert_non_null(strstr(reply.head, want));
    assert_non_null(strstr(reply.head, "microphone=()\r\n"));
    assert_null(strstr(reply.head, "unsafe"));
    reply_release(&reply);
}

/* Two nodes have the same, byte for byte. */
static void test_same(void **state)
{
    const struct fixture *f = *state;
    const struct http_build build = {
        .version = "other", .commit = "", .libraries = "{}", .reloads = &fake_reloads};
    struct api *other = api_new(&f->settings, &build, f->api->backend, fake_auth(), NULL, NULL);

    assert_int_equal(f->api->page_html.len, other->page_html.len);
    assert_memory_equal(f->api->page_html.data, other->page_html.data, other->page_html.len);
    assert_string_equal((char *)f->api->page_headers.data, (char *)other->page_headers.data);
    api_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_same, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
