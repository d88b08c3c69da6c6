/*
 * test_page.c - the page is whole, and its policy has the hashes of exactly the style and script
 * that are in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "http/page/page.h"

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
    struct page *page = page_new();
    char want[192];
    char *html;
    const char *headers;

    (void)state;
    buf_put_u8(&page->html, '\0');
    html = (char *)page->html.data;
    headers = (const char *)page->headers.data;
    assert_int_equal(strlen(html), page->html.len - 1); /* no NUL inside */
    assert_int_equal(strncmp(html, "<!doctype html>", 15), 0);
    assert_non_null(strstr(html, "</html>"));
    assert_null(strstr(html, "@STYLE@"));
    assert_null(strstr(html, "@SCRIPT@"));
    assert_non_null(strstr(headers, "Content-Security-Policy: default-src 'none'; "));
    hash_of(html, "style", want, sizeof want);
    assert_non_null(strstr(headers, want));
    hash_of(html, "script", want, sizeof want);
    assert_non_null(strstr(headers, want));
    assert_string_equal(headers + strlen(headers) - 2, "\r\n");
    assert_null(strstr(headers, "unsafe"));
    page_free(page);
}

/* Two are the same, byte for byte. */
static void test_same(void **state)
{
    struct page *one = page_new();
    struct page *other = page_new();

    (void)state;
    assert_int_equal(one->html.len, other->html.len);
    assert_memory_equal(one->html.data, other->html.data, one->html.len);
    assert_string_equal((char *)one->headers.data, (char *)other->headers.data);
    page_free(one);
    page_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
