/*
 * fuzz_conn.c - whole connections into the real conn: any requests after any others, read in any
 * pieces.
 *
 * The input is made of tokens: a byte of ASCII stands for itself, the others for whole requests
 * (request_kinds.h), for pieces of requests, and for places where a read ends, so many bytes back.
 * The bytes so made are given to the loop three times: all at once; read in those pieces; and each
 * request on a connection of its own. The replies must be the same each time, and so must be what
 * the backend was asked. The same bytes, as they are, also begin a connection of a proxy
 * (http/server/proxy.h), cut after their first byte and in the middle: whatever they are, it ends
 * as any other does. No name that reaches the backend is longer than a name may be, or has an
 * escape that nobody escaped.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "http/proto/tests/reference_parser.h"
#include "http/tests/conn_world.h"
#include "http/tests/request_kinds.h"
#include "src/base/assert.h"
#include "src/id/codec/tag.h"

#define TOKEN_KIND 0x80
#define TOKEN_FRAGMENT 0xfe
#define TOKEN_CUT 0xff
#define STREAM_BYTES_MAX (256 << 10)
#define CUTS_MAX 512
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *const fragments[] = {
    "GET /api/segment/get/",
    "GET /api/snowflake/get/",
    "PUT /api/tags/",
    "GET /api/tags/",
    "HEAD /api/tags/",
    "DELETE /api/tags/",
    "POST /api/tags",
    "plain",
    "a%2Fb",
    "small",
    "strict",
    "full",
    "%70lain",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e%6e",
    "?count=",
    "&timeout_ms=",
    "&format=range",
    "&contiguous=1",
    " HTTP/1.1\r\nHost: a\r\n",
    " HTTP/1.0\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Idempotency-Key: k\r\n",
    "\r\n\r\n",
    "\r\n",
    "0\r\n\r\n",
    "{\"step\":7}",
    "\x80",
    "\xff",
};

struct stream {
    struct buf bytes;
    size_t cuts[CUTS_MAX];
    size_t cut_count;
};

/* What came of a stream. */
struct outcome {
    struct buf replies;
    struct buf asked;
};

static struct conn_world world;

/* --- the stream --- */

/* A read ends some bytes back, but not before the one before it. */
static void put_cut(struct stream *stream, size_t back)
{
    size_t first = stream->cut_count > 0 ? stream->cuts[stream->cut_count - 1] : 0;
    size_t at = stream->bytes.len > back ? stream->bytes.len - back : 0;

    if (at > first && stream->cut_count < CUTS_MAX) {
        stream->cuts[stream->cut_count++] = at;
    }
}

static void put_token(struct stream *stream, uint8_t token, uint8_t next)
{
    size_t kind_count;
    const struct request_kind *kinds = request_kinds(&kind_count);

    if (token < TOKEN_KIND) {
        buf_put_u8(&stream->bytes, token);
    } else if (token < TOKEN_FRAGMENT) {
        const struct buf *bytes = &kinds[(size_t)(token - TOKEN_KIND) % kind_count].bytes;

        buf_put(&stream->bytes, bytes->data, bytes->len);
    } else if (token == TOKEN_FRAGMENT) {
        const char *text = fragments[next % (sizeof(fragments) / sizeof(fragments[0]))];

        buf_put(&stream->bytes, text, strlen(text));
    } else {
        put_cut(stream, next);
    }
}

static void make_stream(const uint8_t *data, size_t len, struct stream *stream)
{
    stream->bytes.len = 0;
    stream->cut_count = 0;
    for (size_t i = 0; i < len && stream->bytes.len < STREAM_BYTES_MAX; i++) {
        bool pair = data[i] >= TOKEN_FRAGMENT && i + 1 < len;

        put_token(stream, data[i], pair ? data[i + 1] : 0);
        i += pair;
    }
}

/* Where the first request of the bytes ends, as the parsers of the tests and of leafd say; all of
 * them if it is refused or not complete. text is a copy that may be written to. */
static size_t request_len(char *text, size_t len)
{
    struct parser reference;
    struct parser parser;
    size_t used;
    size_t decoded;

    reference = (struct parser){0};
    if (reference_head(&reference, text, len) != PARSER_DONE) {
        return len;
    }
    parser = (struct parser){0};
    ASSERT(parser_head(&parser, text, len) == PARSER_DONE);
    if (!reference.head.has_body) {
        return reference.head.len;
    }
    if (parser_body(&parser, text + reference.head.len, len - reference.head.len, &used,
                    &decoded) != PARSER_DONE) {
        return len;
    }
    return reference.head.len + used;
}

/* --- the three ways --- */

static void begin(void)
{
    conn_world_reset(&world);
    world.fake.prompt = true; /* a refill is there or it is not, whatever else goes on */
}

/* Keep what came, without "100 Continue", which depends on the pieces. */
static void end(struct outcome *outcome)
{
    const uint8_t *at = world.replies.data;
    size_t left = world.replies.len;

    outcome->replies.len = 0;
    outcome->asked.len = 0;
    while (left > 0) {
        const uint8_t *found = memmem(at, left, CONTINUE, sizeof(CONTINUE) - 1);
        size_t len = found != NULL ? (size_t)(found - at) : left;

        buf_put(&outcome->replies, at, len);
        len += found != NULL ? sizeof(CONTINUE) - 1 : 0;
        at += len;
        left -= len;
    }
    buf_put(&outcome->asked, world.asked.data, world.asked.len);
}

static void run_in_pieces(const struct stream *stream, size_t cut_count, struct outcome *outcome)
{
    size_t at = 0;

    begin();
    conn_world_connect(&world);
    for (size_t i = 0; i <= cut_count; i++) {
        size_t next = i < cut_count ? stream->cuts[i] : stream->bytes.len;

        conn_world_send(&world, stream->bytes.data + at, next - at);
        at = next;
    }
    conn_world_disconnect(&world);
    end(outcome);
}

static void run_each_alone(const struct stream *stream, struct outcome *outcome)
{
    char *copy = malloc(stream->bytes.len + 1);
    bool ended = false;
    size_t len;

    ASSERT(copy != NULL);
    begin();
    for (size_t at = 0; at < stream->bytes.len && !ended; at += len) {
        len = stream->bytes.len - at;
        memcpy(copy, stream->bytes.data + at, len);
        len = request_len(copy, len);
        conn_world_connect(&world);
        conn_world_send(&world, stream->bytes.data + at, len);
        ended = world.ended;
        conn_world_disconnect(&world);
    }
    end(outcome);
    free(copy);
}

static void run_by_proxy(const uint8_t *data, size_t len)
{
    static const struct sockaddr_in proxy = {.sin_family = AF_INET, .sin_addr = {0x0700000a}};

    begin();
    world.peer = (const struct sockaddr *)&proxy;
    world.settings.proxies = "10.0.0.7";
    conn_world_connect(&world);
    conn_world_send(&world, data, 1);
    conn_world_send(&world, data + 1, len / 2);
    conn_world_send(&world, data + 1 + len / 2, len - 1 - len / 2);
    conn_world_disconnect(&world);
    world.peer = NULL;
}

/* --- what must hold --- */

static void expect_same(const struct outcome *a, const struct outcome *b)
{
    ASSERT(a->replies.len == b->replies.len);
    ASSERT(a->replies.len == 0 || memcmp(a->replies.data, b->replies.data, a->replies.len) == 0);
    ASSERT(a->asked.len == b->asked.len);
    ASSERT(a->asked.len == 0 || memcmp(a->asked.data, b->asked.data, a->asked.len) == 0);
}

static bool has_escape(const char *name, size_t len)
{
    static const char hex[] = "0123456789abcdefABCDEF";

    for (size_t i = 0; i + 2 < len; i++) {
        if (name[i] == '%' && name[i + 1] != '\0' && strchr(hex, name[i + 1]) != NULL &&
            name[i + 2] != '\0' && strchr(hex, name[i + 2]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The names that the backend was asked for. A '%' in them was written "%25", or stood in a body. */
static void check_names(const struct stream *stream)
{
    const struct buf *bytes = &stream->bytes;
    bool may_have = memmem(bytes->data, bytes->len, "%25", 3) != NULL ||
                    memmem(bytes->data, bytes->len, "\"tag\"", 5) != NULL;
    struct reader reader;

    reader_init(&reader, world.names.data, world.names.len);
    while (reader_left(&reader) > 0) {
        size_t len;
        const char *name = (const char *)reader_str16(&reader, &len);

        ASSERT(!reader.bad && tag_name_check(name, len, NULL) == 0);
        ASSERT(may_have || !has_escape(name, len));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct stream stream;
    static struct outcome whole;
    static struct outcome other;

    if (world.server == NULL) {
        conn_world_start(&world);
    }
    make_stream(data, len, &stream);
    if (stream.bytes.len == 0) {
        return 0;
    }
    run_in_pieces(&stream, 0, &whole);
    check_names(&stream);
    run_in_pieces(&stream, stream.cut_count, &other);
    expect_same(&whole, &other);
    run_each_alone(&stream, &other);
    expect_same(&whole, &other);
    run_by_proxy(data, len);
    return 0;
}
