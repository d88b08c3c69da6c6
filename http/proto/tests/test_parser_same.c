/*
 * test_parser_same.c - parser_head() against the reference that takes one byte at a time and asks
 * http-parser about every head: each byte value in each place of some requests, requests made and
 * spoilt at random, and those at the limits; each of them whole, cut in two anywhere, and byte by
 * byte.
 *
 * Shows attack-smuggle.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/proto/tests/reference_parser.h"
#include "src/base/buf.h"
#include "src/base/prng.h"

#define RANDOM_REQUESTS 8000

#define CHECK(field) assert_int_equal(got->field, want->field)

static void assert_same_field(const struct parser_field *got, const struct parser_field *want)
{
    CHECK(count);
    CHECK(at);
    CHECK(len);
}

static void assert_same_head(const struct parser_head *got, const struct parser_head *want)
{
    CHECK(len);
    CHECK(target_at);
    CHECK(target_len);
    CHECK(content_length);
    CHECK(method);
    CHECK(http_1_0);
    CHECK(keep_alive);
    CHECK(chunked);
    CHECK(has_body);
    CHECK(expect_continue);
    assert_same_field(&got->host, &want->host);
    assert_same_field(&got->origin, &want->origin);
    assert_same_field(&got->fetch_site, &want->fetch_site);
    assert_same_field(&got->authorization, &want->authorization);
    assert_same_field(&got->content_type, &want->content_type);
    assert_same_field(&got->key, &want->key);
    assert_same_field(&got->traceparent, &want->traceparent);
}

static void assert_same_reject(const struct parser_reject *got, const struct parser_reject *want)
{
    CHECK(status);
    assert_string_equal(got->code, want->code);
    assert_string_equal(got->why, want->why);
    CHECK(limit);
}

/* A copy that ends where the bytes end, so that the sanitizer sees a read past them. */
static enum parser_event feed(struct parser *parser, const char *text, size_t len)
{
    char *exact = malloc(len > 0 ? len : 1);
    enum parser_event event;

    assert_non_null(exact);
    memcpy(exact, text, len);
    event = parser_head(parser, exact, len);
    free(exact);
    return event;
}

/* Give the text in pieces, the first of `first` bytes and the others of `step`: the outcome must be
 * what the reference found. */
static void check_split(const char *text, size_t len, size_t first, size_t step,
                        const struct parser *want, enum parser_event want_event)
{
    struct parser parser;
    enum parser_event event = PARSER_MORE;
    size_t upto = first;

    parser = (struct parser){0};
    for (;;) {
        event = feed(&parser, text, upto);
        if (event != PARSER_MORE || upto == len) {
            break;
        }
        upto = upto + step < len ? upto + step : len;
    }
    if (event != want_event) {
        print_error("cut at %zu: event %d, not %d: %.*s\n", first, event, want_event, (int)len,
                    text);
    }
    assert_int_equal(event, want_event);
    if (event == PARSER_REJECT) {
        assert_same_reject(&parser.reject, &want->reject);
    } else if (event == PARSER_DONE) {
        assert_same_head(&parser.head, &want->head);
        assert_int_equal(parser.body_left, want->body_left);
        assert_int_equal(parser.state, want->state);
    }
}

/* Compare the parsers on a text: whole, and unless `whole_only` split in every way. Returns what
 * came of it. */
static enum parser_event check(const char *text, size_t len, bool whole_only)
{
    struct parser want;
    enum parser_event event;

    want = (struct parser){0};
    event = reference_head(&want, text, len);
    check_split(text, len, len, 1, &want, event);
    if (whole_only) {
        return event;
    }
    check_split(text, len, 0, 1, &want, event);
    for (size_t cut = 1; cut < len; cut++) {
        check_split(text, len, cut, len, &want, event);
    }
    return event;
}

static void test_every_byte_in_every_place(void **state)
{
    static const char *const texts[] = {
        "GET /api/segment/get/a-b.c?count=2&x HTTP/1.1\r\nHost: bench\r\n\r\n",
        "\r\nPOST / HTTP/1.1\r\nConnection: keep-alive\r\nHost:a\r\nX-Y:\t1\r\n\r\n",
        "PUT /%41 HTTP/1.1\r\nHost: a\r\nConnection: close, Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "DELETE / HTTP/1.0\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n",
        "HEAD /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nIdempotency-Key: k\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: null\r\nOriginX: y\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a%2fb.c:\r\nAuthorization: Bearer x\r\nContent-Type: a/b\r\n\r\n",
        "GET http://h:1/p#f HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nUser-Agent: x/1 (y; z)\r\n\r\n",
    };
    unsigned done = 0;
    unsigned refused = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t len = strlen(texts[i]);
        char spoilt[256];

        assert_int_equal(check(texts[i], len, false), PARSER_DONE);
        for (size_t at = 0; at < len; at++) {
            memcpy(spoilt, texts[i], len);
            for (unsigned c = 0; c < 256; c++) {
                enum parser_event event;

                spoilt[at] = (char)c;
                event = check(spoilt, len, true);
                done += event == PARSER_DONE;
                refused += event == PARSER_REJECT;
            }
        }
    }
    /* Both outcomes are common, or the texts test nothing. */
    assert_true(done > 10000);
    assert_true(refused > 10000);
}

static const char *pick(struct prng *prng, const char *const *texts, size_t count)
{
    return texts[prng_below(prng, count)];
}

#define PICK(prng, texts) pick((prng), (texts), sizeof(texts) / sizeof((texts)[0]))

static const char *const header_names[] = {"Host",
                                           "Connection",
                                           "Proxy-Connection",
                                           "Upgrade",
                                           "Content-Length",
                                           "X",
                                           "Transfer-Encoding",
                                           "connection",
                                           "Content-Length",
                                           "Expect",
                                           "Connection-X",
                                           "Idempotency-Key",
                                           "traceParent",
                                           "Accept",
                                           "UPGRADE",
                                           "Transfer-EncodingX",
                                           "Content-LengthX",
                                           "Connectio",
                                           "Hosts",
                                           "Origin",
                                           "Authorization",
                                           "Content-Type",
                                           "Origim"};
static const char *const header_values[] = {"a",
                                            "keep-alive",
                                            "Keep-Alive",
                                            "close",
                                            "chunked",
                                            "upgrade",
                                            "5",
                                            "h2c",
                                            "100-continue",
                                            "",
                                            "keep-alive, close",
                                            "gzip",
                                            "\t keep-alive \t",
                                            "close,x",
                                            "Upgrade, HTTP2-Settings",
                                            "keep-alive,",
                                            "clos,close",
                                            "clos,x,close",
                                            "close\t",
                                            "close ,x",
                                            "close x,Keep-Alive",
                                            ",close",
                                            "x,,close",
                                            "x, \tclose  , y",
                                            "upgrad,keep-alive,close",
                                            "\"x\",close",
                                            "x,\"y\",close",
                                            "closeclose",
                                            "5\t"};

/* A request of parts that are often right. */
static void make_request(struct prng *prng, struct buf *buf)
{
    static const char *const methods[] = {"GET",  "GET",     "GET",   "POST", "PUT",     "DELETE",
                                          "HEAD", "CONNECT", "PATCH", "GETS", "M-SEARCH"};
    static const char *const targets[] = {"/",          "/a?b=c",         "/api/segment/get/tag",
                                          "*",          "http://h/",      "/#f",
                                          "/a?b?c",     "h:80",           "/~",
                                          "/\xc3\xa9",  "http://u@h:1/a", "http://a@@b/",
                                          "ftp:/h",     "x://",           "http://h<",
                                          "a://[::1]?b"};
    static const char *const versions[] = {"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0",
                                           "HTTP/1.2"};
    static const char *const hosts[] = {"bench", "bench", "bench:80", "[::1]",   "[::1",    "a b",
                                        "%41",   "%4",    "a:b",      "a/b",     "",        ":1",
                                        "[]",    "a@b",   "[::1]x",   "1.2.3.4", "\xc3\xa9"};
    uint64_t lines = prng_below(prng, 5);

    buf_printf(buf, "%s %s %s\r\n", PICK(prng, methods), PICK(prng, targets), PICK(prng, versions));
    if (prng_below(prng, 8) > 0) {
        buf_printf(buf, "Host: %s\r\n", prng_below(prng, 4) > 0 ? "bench" : PICK(prng, hosts));
    }
    for (uint64_t i = 0; i < lines; i++) {
        buf_printf(buf, "%s:%s%s\r\n", PICK(prng, header_names), prng_below(prng, 4) > 0 ? " " : "",
                   PICK(prng, header_values));
    }
    buf_printf(buf, "\r\n");
}

/* Change a byte, leave one out, or say some twice. */
static void spoil(struct prng *prng, struct buf *buf)
{
    static const char bytes[] = "\r\n\t\0 :/?#,;GgHhKk-\x7f\x80\xff";
    size_t at = (size_t)prng_below(prng, buf->len);
    size_t more = (size_t)prng_below(prng, buf->len - at) % 20;

    switch (prng_below(prng, 3)) {
    case 0:
        buf->data[at] = (uint8_t)bytes[prng_below(prng, sizeof(bytes) - 1)];
        return;
    case 1:
        memmove(buf->data + at, buf->data + at + 1, buf->len - at - 1);
        buf->len--;
        return;
    default:
        buf_reserve(buf, more);
        memmove(buf->data + at + more, buf->data + at, buf->len - at);
        buf->len += more;
        return;
    }
}

static void test_random_requests(void **state)
{
    unsigned outcomes[3] = {0};
    struct buf buf = BUF_INIT;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 6);
    for (unsigned i = 0; i < RANDOM_REQUESTS; i++) {
        buf.len = 0;
        make_request(&prng, &buf);
        for (uint64_t spoils = prng_below(&prng, 3); spoils > 0; spoils--) {
            spoil(&prng, &buf);
        }
        outcomes[check((const char *)buf.data, buf.len, false)]++;
    }
    buf_free(&buf);
    assert_true(outcomes[PARSER_DONE] > RANDOM_REQUESTS / 10);
    assert_true(outcomes[PARSER_REJECT] > RANDOM_REQUESTS / 10);
    assert_true(outcomes[PARSER_MORE] > 0);
}

/* `before`, so many of a byte, and `after`. */
static void check_filled(const char *before, char fill, size_t count, const char *after)
{
    struct buf buf = BUF_INIT;
    struct parser want;
    enum parser_event event;

    buf_put(&buf, before, strlen(before));
    for (size_t i = 0; i < count; i++) {
        buf_put_u8(&buf, (uint8_t)fill);
    }
    buf_put(&buf, after, strlen(after));
    want = (struct parser){0};
    event = reference_head(&want, (const char *)buf.data, buf.len);
    check_split((const char *)buf.data, buf.len, buf.len, 1, &want, event);
    check_split((const char *)buf.data, buf.len, 0, 37, &want, event);
    check_split((const char *)buf.data, buf.len, buf.len - 1, 1, &want, event);
    check_split((const char *)buf.data, buf.len, buf.len / 2, buf.len, &want, event);
    buf_free(&buf);
}

static void test_limits(void **state)
{
    static const char *const ends[] = {" HTTP/1.1\r\nHost: a\r\n\r\n", "", " ", "\x7f", "\r", "?"};
    static const char *const tails[] = {"\r\n\r\n", "\r\n\r\nGET", "", "\r", "\x01", "\r\n\r"};

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        for (size_t count = 1; count < 25; count++) {
            check_filled("", 'A', count, ends[i]);
            check_filled("G", '-', count, ends[i]);
            check_filled("GET / ", 'H', count, ends[i]);
        }
        for (size_t count = LIMIT_HTTP_TARGET_BYTES - 3; count < LIMIT_HTTP_TARGET_BYTES + 3;
             count++) {
            check_filled("GET /", 'a', count, ends[i]);
            check_filled("GET /", '#', count, ends[i]);
        }
    }
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        const char *head = "GET / HTTP/1.1\r\nHost: a\r\nX:";
        size_t most = LIMIT_HTTP_HEADERS_BYTES - strlen(head);

        for (size_t count = most - 8; count < most + 8; count++) {
            check_filled(head, 'a', count, tails[i]);
            check_filled(head, ' ', count, tails[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_in_every_place),
        cmocka_unit_test(test_random_requests),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
