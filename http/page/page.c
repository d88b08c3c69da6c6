/*
 * page.c - see page.h. The template has @STYLE@ and @SCRIPT@, where the parts go.
 */
#include "http/page/page.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

/* The bytes of a file beside this one, from part_NAME to part_NAME_end. */
#define PART(name, file)                                                                           \
    __asm__(".pushsection .rodata\n"                                                               \
            "part_" #name ":\n"                                                                    \
            ".incbin \"http/page/" file "\"\n"                                                     \
            "part_" #name "_end:\n"                                                                \
            ".popsection\n");                                                                      \
    extern const char part_##name[] __attribute__((visibility("hidden")));                         \
    extern const char part_##name##_end[] __attribute__((visibility("hidden")))

PART(html, "page.html");
PART(look_css, "look.css");
PART(page_css, "page.css");
PART(look_js, "look.js");
PART(page_js, "page.js");
PART(views_js, "views.js");

static void put_part(struct buf *buf, const char *from, const char *end)
{
    ASSERT(end > from);
    buf_put(buf, from, (size_t)(end - from));
}

#define PUT_PART(buf, name) put_part((buf), part_##name, part_##name##_end)

/* Append 'sha256-...' of the text between a tag and its end. */
static void put_hash(struct buf *headers, const struct buf *text)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char encoded[2 * EVP_MAX_MD_SIZE];
    unsigned len = 0;

    ASSERT(EVP_Digest(text->data, text->len, digest, &len, EVP_sha256(), NULL) == 1);
    ASSERT(len == 32);
    ASSERT(EVP_EncodeBlock(encoded, digest, (int)len) > 0);
    buf_printf(headers, "'sha256-%s'", (char *)encoded);
}

static void put_headers(struct buf *headers, const struct buf *style, const struct buf *script)
{
    buf_printf(headers, "Content-Security-Policy: default-src 'none'; style-src ");
    put_hash(headers, style);
    buf_printf(headers, "; script-src ");
    put_hash(headers, script);
    buf_printf(headers, "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                        "frame-ancestors 'none'; require-trusted-types-for 'script'\r\n"
                        "X-Frame-Options: DENY\r\n"
                        "X-Content-Type-Options: nosniff\r\n"
                        "Referrer-Policy: no-referrer\r\n"
                        "Cross-Origin-Opener-Policy: same-origin\r\n"
                        "Cross-Origin-Resource-Policy: same-origin\r\n"
                        "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n");
    buf_put_u8(headers, '\0');
}

/* Put the template up to a mark; returns where it continues after the mark. */
static const char *put_until(struct buf *html, const char *from, const char *mark)
{
    const char *at = memmem(from, (size_t)(part_html_end - from), mark, strlen(mark));

    ASSERT(at != NULL);
    put_part(html, from, at);
    return at + strlen(mark);
}

struct page *page_new(void)
{
    struct page *page = MUST_HAVE(calloc(1, sizeof *page));
    BUF_LOCAL(style);
    BUF_LOCAL(script);
    const char *at;

    PUT_PART(&style, look_css);
    PUT_PART(&style, page_css);
    PUT_PART(&script, look_js);
    PUT_PART(&script, page_js);
    PUT_PART(&script, views_js);
    at = put_until(&page->html, part_html, "@STYLE@");
    buf_put(&page->html, style.data, style.len);
    at = put_until(&page->html, at, "@SCRIPT@");
    buf_put(&page->html, script.data, script.len);
    put_part(&page->html, at, part_html_end);
    put_headers(&page->headers, &style, &script);
    return page;
}

void page_free(struct page *page)
{
    buf_free(&page->html);
    buf_free(&page->headers);
    free(page);
}
