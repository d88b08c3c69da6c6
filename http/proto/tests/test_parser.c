/*
 * test_parser.c - requests taken and refused, and that no way of splitting the bytes changes the
 * outcome.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/proto/parser.h"

#define HOST "Host: a\r\n"
#define GET_LINE "GET / HTTP/1.1\r\n"
#define POST_LINE "POST /p HTTP/1.1\r\n" HOST
#define CHUNKED POST_LINE "Transfer-Encoding: chunked\r\n\r\n"

/* All that is seen of a stream of requests. */
struct outcome {
    unsigned requests;
    int status; /* of the rejection, 0: none */
    struct parser_head last;
    size_t body_len; /* of the last complete request */
    char body[256];
    bool partial; /* ends inside a request */
};

/* A connection's view of a stream: input[start, end) is not used up yet. */
struct stream {
    struct parser parser;
    struct outcome *outcome;
    char *input;
    size_t start;
    size_t end;
    bool in_body;
    char body[sizeof(((struct outcome *)0)->body)];
    size_t body_len;
};

static enum parser_event step_head(struct stream *stream)
{
    size_t len = stream->end - stream->start;
    enum parser_event event;
    /* An exact copy, so that the sanitizer sees a read past the end. */
    char *exact = malloc(len > 0 ? len : 1);

    assert_non_null(exact);
    memcpy(exact, stream->input + stream->start, len);
    event = parser_head(&stream->parser, exact, len);
    free(exact);
    if (event == PARSER_DONE) {
        stream->start += stream->parser.head.len;
        stream->in_body = stream->parser.head.has_body;
    }
    return event;
}

static enum parser_event step_body(struct stream *stream)
{
    char *data = stream->input + stream->start;
    enum parser_event event;
    size_t used = 0;
    size_t decoded = 0;

    event = parser_body(&stream->parser, data, stream->end - stream->start, &used, &decoded);
    assert_true(stream->body_len + decoded <= sizeof(stream->body));
    memcpy(stream->body + stream->body_len, data, decoded);
    stream->body_len += decoded;
    stream->start += used;
    stream->in_body = event != PARSER_DONE;
    return event;
}

/* Take what is there, as a connection does; false once it was refused. */
static bool take(struct stream *stream)
{
    for (;;) {
        enum parser_event event = stream->in_body ? step_body(stream) : step_head(stream);

        if (event == PARSER_REJECT) {
            stream->outcome->status = stream->parser.reject.status;
            assert_non_null(stream->parser.reject.code);
            assert_non_null(stream->parser.reject.why);
            return false;
        }
        if (event == PARSER_MORE) {
            return true;
        }
        if (stream->in_body) {
            continue;
        }
        stream->outcome->requests++;
        stream->outcome->last = stream->parser.head;
        stream->outcome->body_len = stream->body_len;
        memcpy(stream->outcome->body, stream->body, stream->body_len);
        stream->body_len = 0;
        stream->parser = (struct parser){0};
    }
}

/* Give the stream in pieces that end at the cuts. */
static void run(const char *text, size_t len, const size_t *cuts, size_t cut_count,
                struct outcome *ret)
{
    struct stream stream = {.outcome = ret, .input = malloc(len + 1)};
    size_t given = 0;
    bool going = true;

    assert_non_null(stream.input);
    memset(ret, 0, sizeof *ret);
    stream.parser = (struct parser){0};
    for (size_t piece = 0; going && piece <= cut_count; piece++) {
        size_t upto = piece < cut_count ? cuts[piece] : len;

        memcpy(stream.input + stream.end, text + given, upto - given);
        stream.end += upto - given;
        given = upto;
        going = take(&stream);
    }
    ret->partial = going && (stream.in_body || stream.end > stream.start);
    free(stream.input);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->requests, b->requests);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->partial, b->partial);
    assert_int_equal(a->last.method, b->last.method);
    assert_int_equal(a->last.len, b->last.len);
    assert_int_equal(a->last.target_at, b->last.target_at);
    assert_int_equal(a->last.target_len, b->last.target_len);
    assert_int_equal(a->last.keep_alive, b->last.keep_alive);
    assert_int_equal(a->last.http_1_0, b->last.http_1_0);
    assert_int_equal(a->body_len, b->body_len);
    assert_memory_equal(a->body, b->body, a->body_len);
}

/* Whole, byte by byte, and cut in two and in three at every place: always the same. */
static void run_all_ways(const char *text, size_t len, struct outcome *ret)
{
    size_t *every = malloc((len + 1) * sizeof *every);
    struct outcome other;

    assert_non_null(every);
    run(text, len, NULL, 0, ret);
    for (size_t i = 0; i < len; i++) {
        every[i] = i;
    }
    run(text, len, every, len, &other);
    assert_same(ret, &other);
    for (size_t i = 0; i <= len; i++) {
        size_t cuts[2] = {i, i + (len - i) / 2};

        run(text, len, cuts, 1, &other);
        assert_same(ret, &other);
        run(text, len, cuts, 2, &other);
        assert_same(ret, &other);
    }
    free(every);
}

static void test_taken(void **state)
{
    static const struct {
        const char *text;
        unsigned requests;
        enum method method;
        bool keep_alive;
        const char *body;
    } cases[] = {
        {GET_LINE HOST "\r\n", 1, METHOD_GET, true, ""},
        {"\r\n\r\n" GET_LINE HOST "\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE HOST "\r\n" GET_LINE HOST "\r\n" GET_LINE HOST "\r\n", 3, METHOD_GET, true, ""},
        {"HEAD / HTTP/1.1\r\n" HOST "\r\n", 1, METHOD_HEAD, true, ""},
        {"DELETE / HTTP/1.1\r\n" HOST "\r\n", 1, METHOD_DELETE, true, ""},
        {"PUT / HTTP/1.1\r\n" HOST "\r\n", 1, METHOD_PUT, true, ""},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 1, METHOD_OPTIONS, true, ""},
        {"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 1, METHOD_OTHER, true, ""},
        {"M-SEARCH / HTTP/1.1\r\n" HOST "\r\n", 1, METHOD_OTHER, true, ""},
        {GET_LINE "host:a\r\nX:\r\nY: \r\nZ:\t v \t\r\n\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE HOST "X: caf\xc3\xa9\r\n\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE HOST "Connection: close\r\n\r\n", 1, METHOD_GET, false, ""},
        {GET_LINE HOST "Connection: keep-alive\r\n\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE HOST "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n" GET_LINE HOST
                       "\r\n",
         2, METHOD_GET, true, ""},
        {"GET / HTTP/1.0\r\n\r\n", 1, METHOD_GET, false, ""},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1, METHOD_GET, true, ""},
        {POST_LINE "Content-Length: 0\r\n\r\n", 1, METHOD_POST, true, ""},
        {POST_LINE "Content-Length: 5\r\n\r\nhello", 1, METHOD_POST, true, "hello"},
        {POST_LINE "content-length:  005 \r\n\r\nhello" GET_LINE HOST "\r\n", 2, METHOD_GET, true,
         ""},
        {CHUNKED "0\r\n\r\n", 1, METHOD_POST, true, ""},
        {CHUNKED "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 1, METHOD_POST, true, "hello!"},
        {CHUNKED "00000005\r\nhello\r\n000\r\n\r\n", 1, METHOD_POST, true, "hello"},
        {CHUNKED "a;x=\"y\"\r\n0123456789\r\nA;z\r\nabcdefghij\r\n0;q\r\n\r\n", 1, METHOD_POST,
         true, "0123456789abcdefghij"},
        {CHUNKED "1\r\na\r\n0\r\nTrailer: x\r\nOther:y\r\n\r\n" GET_LINE HOST "\r\n", 2, METHOD_GET,
         true, ""},
        {POST_LINE "Transfer-Encoding: Chunked\r\n\r\n2\r\n\r\n\r\n0\r\n\r\n", 1, METHOD_POST, true,
         "\r\n"},
        {GET_LINE HOST "Content-Length: 3\r\n\r\nabc", 1, METHOD_GET, true, "abc"},
        {GET_LINE "Host:\r\n\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE "Host: :80\r\n\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE "Host: [::ffff:1.2.3.4]:\r\n\r\n", 1, METHOD_GET, true, ""},
        {GET_LINE "Host: a-b_c.~%2F!$&'()*+,;=:65536\r\n\r\n", 1, METHOD_GET, true, ""},
        {CHUNKED "1 ; a = b\t;c\t=\t\"d;\\\"\t\xc3\xa9\" ;e\r\nx\r\n0 ;f\r\n\r\n", 1, METHOD_POST,
         true, "x"},
    };
    struct outcome outcome;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_all_ways(cases[i].text, strlen(cases[i].text), &outcome);
        if (outcome.status != 0 || outcome.requests != cases[i].requests) {
            print_error("case %zu: status %d, %u requests\n", i, outcome.status, outcome.requests);
        }
        assert_int_equal(outcome.status, 0);
        assert_int_equal(outcome.requests, cases[i].requests);
        assert_false(outcome.partial);
        assert_int_equal(outcome.last.method, cases[i].method);
        assert_int_equal(outcome.last.keep_alive, cases[i].keep_alive);
        assert_int_equal(outcome.body_len, strlen(cases[i].body));
        assert_memory_equal(outcome.body, cases[i].body, outcome.body_len);
    }
}

static const struct {
    const char *text;
    int status;
} refused[] = {
    /* the request line */
    {"get / HTTP/1.1\r\n", 400},
    {" GET / HTTP/1.1\r\n", 400},
    {"\nGET / HTTP/1.1\r\n", 400},
    {"\rGET / HTTP/1.1\r\n", 400},
    {"\x16\x03\x01\x02", 400},
    {"GET\t/ HTTP/1.1\r\n", 400},
    {"GET  / HTTP/1.1\r\n", 400},
    {"GET /\r\n", 400},
    {"GET / \r\n", 400},
    {"GET / HTTP/1.1\n", 400},
    {"GET / HTTP/1.1 \r\n", 400},
    {"GET / HTTP/1.2\r\n", 400},
    {"GET / HTTP/2.0\r\n", 400},
    {"GET / HTTP/0.9\r\n", 400},
    {"GET / http/1.1\r\n", 400},
    {"GET / HTTP/1.10\r\n", 400},
    {"GET / HTTP/1.\r\n", 400},
    {"GET /a b HTTP/1.1\r\n", 400},
    {"GET /a\x01 HTTP/1.1\r\n", 400},
    {"GET /a\x7f HTTP/1.1\r\n", 400},
    {"GET / HTTP/1.1\rX", 400},
    {"FROBNICATE / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n", 400},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
    /* header lines */
    {GET_LINE HOST "Foo Bar: x\r\n", 400},
    {GET_LINE HOST "Foo : x\r\n", 400},
    {GET_LINE HOST " Foo: x\r\n", 400},
    {GET_LINE HOST "X: a\r\n b\r\n", 400},
    {GET_LINE HOST "X: a\r\n\tb\r\n", 400},
    {GET_LINE HOST ": x\r\n", 400},
    {GET_LINE HOST "Foo\r\n", 400},
    {GET_LINE HOST "F\xc3\xa9: x\r\n", 400},
    {GET_LINE HOST "X: a\nY: b\r\n", 400},
    {GET_LINE HOST "X: a\rY: b\r\n", 400},
    {GET_LINE HOST "X: a\x01\r\n", 400},
    {GET_LINE HOST "X: a\x7f\r\n", 400},
    {GET_LINE HOST "\n", 400},
    {GET_LINE HOST "\rX", 400},
    /* what the lines mean together */
    {GET_LINE "\r\n", 400},
    {GET_LINE "X: y\r\n\r\n", 400},
    {GET_LINE HOST HOST "\r\n", 400},
    {GET_LINE "Host: a b\r\n\r\n", 400},
    {GET_LINE "Host: a, b\r\n\r\n", 400},
    {GET_LINE "Host: a/\r\n\r\n", 400},
    {GET_LINE "Host: u@a\r\n\r\n", 400},
    {GET_LINE "Host: a:b\r\n\r\n", 400},
    {GET_LINE "Host: a:1:2\r\n\r\n", 400},
    {GET_LINE "Host: ::1\r\n\r\n", 400},
    {GET_LINE "Host: [::1\r\n\r\n", 400},
    {GET_LINE "Host: [::1]x\r\n\r\n", 400},
    {GET_LINE "Host: [::g]\r\n\r\n", 400},
    {GET_LINE "Host: []\r\n\r\n", 400},
    {GET_LINE "Host: %4\r\n\r\n", 400},
    {GET_LINE "Host: a\x80\r\n\r\n", 400},
    {"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400},
    {"GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400},
    {POST_LINE "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
    {POST_LINE "Content-Length: 5, 5\r\n\r\nhello", 400},
    {POST_LINE "Content-Length: +5\r\n\r\nhello", 400},
    {POST_LINE "Content-Length: -5\r\n\r\nhello", 400},
    {POST_LINE "Content-Length: 5x\r\n\r\nhello", 400},
    {POST_LINE "Content-Length: 0x5\r\n\r\nhello", 400},
    {POST_LINE "Content-Length:\r\n\r\n", 400},
    {POST_LINE "Content-Length: 5 5\r\n\r\nhello", 400},
    {POST_LINE "Content-Length: 99999999999999999999\r\n\r\n", 400},
    {POST_LINE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: gzip\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: chunked, chunked\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: xchunked\r\n\r\n", 400},
    {POST_LINE "Transfer-Encoding: \x0b"
               "chunked\r\n\r\n",
     400},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {POST_LINE "Content-Length: 8388609\r\n\r\n", 413},
    /* chunks */
    {CHUNKED "\r\n", 400},
    {CHUNKED "x\r\n", 400},
    {CHUNKED " 5\r\nhello\r\n", 400},
    {CHUNKED "5 \r\nhello\r\n", 400},
    {CHUNKED "0x5\r\nhello\r\n", 400},
    {CHUNKED "+5\r\nhello\r\n", 400},
    {CHUNKED "5\nhello\r\n", 400},
    {CHUNKED "5\rXhello\r\n", 400},
    {CHUNKED "5\r\nhelloXX0\r\n\r\n", 400},
    {CHUNKED "5\r\nhello\n0\r\n\r\n", 400},
    {CHUNKED "5\r\nhello\r\r0\r\n\r\n", 400},
    {CHUNKED "000000005\r\nhello\r\n", 400},
    {CHUNKED "FFFFFFFFF\r\n", 400},
    {CHUNKED "FFFFFFFF\r\n", 413},
    {CHUNKED "800001\r\n", 413},
    {CHUNKED "5\r\nhello\r\n7ffffc\r\n", 413},
    {CHUNKED "5;a\x01\r\nhello\r\n", 400},
    {CHUNKED "5;\r\nhello\r\n", 400},
    {CHUNKED "5;=b\r\nhello\r\n", 400},
    {CHUNKED "5;a=\r\nhello\r\n", 400},
    {CHUNKED "5;a=;b\r\nhello\r\n", 400},
    {CHUNKED "5;a b\r\nhello\r\n", 400},
    {CHUNKED "5;a \r\nhello\r\n", 400},
    {CHUNKED "5;a=b \r\nhello\r\n", 400},
    {CHUNKED "5;a=b=c\r\nhello\r\n", 400},
    {CHUNKED "5;a=\"b\r\nhello\r\n", 400},
    {CHUNKED "5;a=\"b\"c\r\nhello\r\n", 400},
    {CHUNKED "5;a=\"b\\\r\nhello\r\n", 400},
    {CHUNKED "5;a=b\"\"\r\nhello\r\n", 400},
    {CHUNKED "5;a/b\r\nhello\r\n", 400},
    {CHUNKED "5;\"a\"=b\r\nhello\r\n", 400},
    {CHUNKED "5 5\r\nhello\r\n", 400},
    {CHUNKED "0\r\nX\r\n\r\n", 400},
    {CHUNKED "0\r\nX Y: a\r\n\r\n", 400},
    {CHUNKED "0\r\n: a\r\n\r\n", 400},
    {CHUNKED "5;a\nhello\r\n", 400},
    {CHUNKED "0\r\n x\r\n\r\n", 400},
    {CHUNKED "0\r\nX: a\n\r\n", 400},
    {CHUNKED "0\r\n\rX", 400},
};

static void test_refused(void **state)
{
    struct outcome outcome;

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        run_all_ways(refused[i].text, strlen(refused[i].text), &outcome);
        if (outcome.status != refused[i].status) {
            print_error("case %zu: %s: status %d, %u requests\n", i, refused[i].text,
                        outcome.status, outcome.requests);
        }
        assert_int_equal(outcome.status, refused[i].status);
        assert_int_equal(outcome.requests, 0);
    }
}

static void test_nul_is_refused_everywhere(void **state)
{
    static const char text[] = "GET /ab HTTP/1.1\r\n" HOST "Name: value\r\n\r\n";
    struct outcome outcome;

    (void)state;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        char with[sizeof(text)];

        memcpy(with, text, sizeof(text));
        with[i] = '\0';
        run_all_ways(with, sizeof(text) - 1, &outcome);
        assert_int_equal(outcome.status, 400);
    }
}

/* Every request of the tables, cut short anywhere, is neither refused nor complete. */
static void test_cut_short_waits(void **state)
{
    static const char *const texts[] = {GET_LINE HOST "\r\n",
                                        CHUNKED "5\r\nhello\r\n0\r\nX: y\r\n\r\n",
                                        POST_LINE "Content-Length: 5\r\n\r\nhello"};
    struct outcome outcome;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t len = 1; len < strlen(texts[i]); len++) {
            run(texts[i], len, NULL, 0, &outcome);
            assert_int_equal(outcome.status, 0);
            assert_int_equal(outcome.requests, 0);
            assert_true(outcome.partial);
        }
    }
}

/* A text of `before`, `fill` bytes of 'a', and `after`. Freed by the caller. */
static char *filled(const char *before, size_t fill, const char *after, size_t *ret_len)
{
    size_t before_len = strlen(before);
    size_t after_len = strlen(after);
    char *text = malloc(before_len + fill + after_len + 1);

    assert_non_null(text);
    memcpy(text, before, before_len);
    memset(text + before_len, 'a', fill);
    memcpy(text + before_len + fill, after, after_len + 1);
    *ret_len = before_len + fill + after_len;
    return text;
}

static int status_of(const char *before, size_t fill, const char *after)
{
    struct outcome whole;
    struct outcome halves;
    size_t len;
    char *text = filled(before, fill, after, &len);
    size_t cut = len / 2;

    run(text, len, NULL, 0, &whole);
    run(text, len, &cut, 1, &halves);
    assert_same(&whole, &halves);
    free(text);
    if (whole.status == 0) {
        assert_int_equal(whole.requests, 1);
    }
    return whole.status;
}

static void test_limits(void **state)
{
    const size_t line = strlen(GET_LINE HOST "X: \r\n\r\n");

    (void)state;
    assert_int_equal(status_of("GET /", LIMIT_HTTP_TARGET_BYTES - 1, " HTTP/1.1\r\n" HOST "\r\n"),
                     0);
    assert_int_equal(status_of("GET /", LIMIT_HTTP_TARGET_BYTES, " HTTP/1.1\r\n" HOST "\r\n"), 414);
    assert_int_equal(status_of("GET /", 1 << 20, ""), 414);
    assert_int_equal(status_of(GET_LINE HOST "X: ", LIMIT_HTTP_HEADERS_BYTES - line, "\r\n\r\n"),
                     0);
    assert_int_equal(
        status_of(GET_LINE HOST "X: ", LIMIT_HTTP_HEADERS_BYTES - line + 1, "\r\n\r\n"), 431);
    assert_int_equal(status_of(GET_LINE HOST, 1 << 20, ""), 431);
    assert_int_equal(status_of(CHUNKED "1;", LIMIT_HTTP_HEADERS_BYTES - 1, "\r\na\r\n0\r\n\r\n"),
                     431);
    assert_int_equal(status_of(CHUNKED "1;", LIMIT_HTTP_HEADERS_BYTES - 3, "\r\na\r\n0\r\n\r\n"),
                     0);
}

static void test_header_count(void **state)
{
    (void)state;
    for (size_t count = LIMIT_HTTP_HEADER_COUNT; count <= LIMIT_HTTP_HEADER_COUNT + 1; count++) {
        struct outcome outcome;
        char text[2048] = GET_LINE HOST;
        size_t len = strlen(text);

        for (size_t i = 1; i < count; i++) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "X: %zu\r\n", i);
        }
        len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
        run_all_ways(text, len, &outcome);
        assert_int_equal(outcome.status, count > LIMIT_HTTP_HEADER_COUNT ? 431 : 0);
    }
}

static void test_expect(void **state)
{
    struct parser parser;
    static const char with_body[] = POST_LINE "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n";
    static const char without[] = POST_LINE "Expect: 100-continue\r\n\r\n";
    static const char other[] = POST_LINE "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n";

    (void)state;
    parser = (struct parser){0};
    assert_int_equal(parser_head(&parser, with_body, sizeof(with_body) - 1), PARSER_DONE);
    assert_true(parser.head.expect_continue);
    parser = (struct parser){0};
    assert_int_equal(parser_head(&parser, without, sizeof(without) - 1), PARSER_DONE);
    assert_false(parser.head.expect_continue);
    parser = (struct parser){0};
    assert_int_equal(parser_head(&parser, other, sizeof(other) - 1), PARSER_DONE);
    assert_false(parser.head.expect_continue);
}

static void expect_trace(const char *head, const char *value, uint32_t count)
{
    struct parser parser = {0};
    const struct parser_field *field = &parser.head.traceparent;

    assert_int_equal(parser_head(&parser, head, strlen(head)), PARSER_DONE);
    assert_int_equal(field->count, count);
    assert_int_equal(field->len, strlen(value));
    assert_memory_equal(head + field->at, value, field->len);
}

static void test_fields_are_kept(void **state)
{
    (void)state;
    expect_trace(GET_LINE HOST "Traceparent: x/y\r\n\r\n", "x/y", 1);
    expect_trace(GET_LINE "tRACEPARENT:x/y \t \r\n" HOST "\r\n", "x/y", 1);
    expect_trace(GET_LINE HOST "Traceparent:\r\n\r\n", "", 1);
    expect_trace(GET_LINE HOST "Traceparent: a\r\nTraceparent: b\r\n\r\n", "b", 2);
    expect_trace(GET_LINE HOST "\r\n", "", 0);
    expect_trace(GET_LINE HOST "X-Traceparent: a\r\nTraceparent-X: b\r\n\r\n", "", 0);
    expect_trace("GET /Traceparent:%20a HTTP/1.1\r\n" HOST "\r\n", "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nul_is_refused_everywhere),
        cmocka_unit_test(test_cut_short_waits),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_header_count),
        cmocka_unit_test(test_expect),
        cmocka_unit_test(test_fields_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
