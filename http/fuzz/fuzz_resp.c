/*
 * fuzz_resp.c - whole connections into the RESP listener: any requests after any others, read in
 * any pieces.
 *
 * The input is made of tokens: a byte of ASCII stands for itself, the others for pieces of
 * requests, and for places where a read ends, so many bytes back. The bytes so made are given to a
 * connection twice: all at once, and read in those pieces. The replies must be the same, and so
 * must be what the backend was asked; and the replies are RESP, whole and well formed, to the last
 * byte.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "http/tests/conn_world.h"
#include "src/base/assert.h"
#include "src/id/codec/tag.h"

#define TOKEN_FRAGMENT 0x80
#define TOKEN_CUT 0xff
#define STREAM_BYTES_MAX (64 << 10)
#define CUTS_MAX 512
#define DEPTH_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *const fragments[] = {
    "*1\r\n$4\r\nPING\r\n",
    "*2\r\n$4\r\nINCR\r\n$5\r\nplain\r\n",
    "*2\r\n$4\r\nINCR\r\n$5\r\nsmall\r\n",
    "*2\r\n$4\r\nINCR\r\n$6\r\nstrict\r\n",
    "*2\r\n$4\r\nINCR\r\n$4\r\nfull\r\n",
    "*2\r\n$4\r\nINCR\r\n$4\r\nnone\r\n",
    "*2\r\n$4\r\nincr\r\n$3\r\na/b\r\n",
    "*3\r\n$6\r\nINCRBY\r\n$5\r\nplain\r\n$2\r\n10\r\n",
    "*3\r\n$6\r\nINCRBY\r\n$6\r\nstrict\r\n$5\r\n10000\r\n",
    "*4\r\n$10\r\nLEAFD.NEXT\r\n$5\r\nsmall\r\n$5\r\nCOUNT\r\n$2\r\n20\r\n",
    "*4\r\n$10\r\nLEAFD.NEXT\r\n$6\r\nstrict\r\n$3\r\nKEY\r\n$1\r\nk\r\n",
    "LEAFD.NEXT strict COUNT 2000 KEY k\r\n",
    "LEAFD.SNOWFLAKE COUNT 3\r\n",
    "LEAFD.DECODE 2123759178190168126\r\n",
    "GET plain\r\n",
    "GET none\r\n",
    "HELLO 2\r\n",
    "HELLO 3 SETNAME x\r\n",
    "HELLO 3 AUTH default x\r\n",
    "CLIENT ID\r\n",
    "CLIENT SETNAME x\r\n",
    "CLIENT GETNAME\r\n",
    "COMMAND\r\n",
    "COMMAND DOCS incr none\r\n",
    "COMMAND INFO incr none\r\n",
    "CONFIG GET *\r\n",
    "INFO\r\n",
    "SELECT 0\r\n",
    "QUIT\r\n",
    "AUTH x\r\n",
    "*3\r\n$6\r\nINCRBY\r\n$5\r\nplain\r\n",
    "*2\r\n$4\r\nECHO\r\n",
    "$5\r\nplain\r\n",
    "$1000\r\n",
    "$-1\r\n",
    "*64\r\n",
    "*65\r\n",
    "*0\r\n",
    "\r\n",
    "INCRBY plain ",
    "INCR ",
    " HTTP/1.1\r\n",
    "\x80",
};

struct stream {
    struct buf bytes;
    size_t cuts[CUTS_MAX];
    size_t cut_count;
};

struct outcome {
    struct buf replies;
    struct buf asked;
};

static struct conn_world world;

/* A read ends some bytes back, but not before the one before it. */
static void put_cut(struct stream *stream, size_t back)
{
    size_t first = stream->cut_count > 0 ? stream->cuts[stream->cut_count - 1] : 0;
    size_t at = stream->bytes.len > back ? stream->bytes.len - back : 0;

    if (at > first && stream->cut_count < CUTS_MAX) {
        stream->cuts[stream->cut_count++] = at;
    }
}

static void make_stream(const uint8_t *data, size_t len, struct stream *stream)
{
    stream->bytes.len = 0;
    stream->cut_count = 0;
    for (size_t i = 0; i < len && stream->bytes.len < STREAM_BYTES_MAX; i++) {
        if (data[i] < TOKEN_FRAGMENT) {
            buf_put_u8(&stream->bytes, data[i]);
        } else if (data[i] < TOKEN_CUT) {
            const char *text = fragments[(size_t)(data[i] - TOKEN_FRAGMENT) %
                                         (sizeof fragments / sizeof fragments[0])];

            buf_put(&stream->bytes, text, strlen(text));
        } else {
            put_cut(stream, i + 1 < len ? data[++i] : 0);
        }
    }
}

static void run(const struct stream *stream, size_t cut_count, struct outcome *outcome)
{
    size_t at = 0;

    conn_world_reset(&world);
    world.fake.prompt = true; /* a refill is there or it is not, whatever else goes on */
    conn_world_connect(&world);
    for (size_t i = 0; i <= cut_count; i++) {
        size_t next = i < cut_count ? stream->cuts[i] : stream->bytes.len;

        conn_world_send(&world, stream->bytes.data + at, next - at);
        at = next;
    }
    conn_world_disconnect(&world);
    outcome->replies.len = 0;
    outcome->asked.len = 0;
    buf_put(&outcome->replies, world.replies.data, world.replies.len);
    buf_put(&outcome->asked, world.asked.data, world.asked.len);
}

static void expect_same(const struct buf *a, const struct buf *b)
{
    ASSERT(a->len == b->len);
    ASSERT(a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* --- what a reply is --- */

/* The line at *at, without its end; past it. */
static const char *take_line(const struct buf *replies, size_t *at, size_t *ret_len)
{
    const char *line = (const char *)replies->data + *at;
    const char *end = memmem(line, replies->len - *at, "\r\n", 2);

    ASSERT(end != NULL && end > line);
    *ret_len = (size_t)(end - line);
    *at += *ret_len + 2;
    return line;
}

static void take_reply(const struct buf *replies, size_t *at, unsigned depth)
{
    size_t len;
    const char *line = take_line(replies, at, &len);
    long long number = len > 1 ? strtoll(line + 1, NULL, 10) : 0;

    ASSERT(depth < DEPTH_MAX);
    switch (line[0]) {
    case '+':
    case '-':
    case ':':
    case '_':
        return;
    case '$':
    case '=':
        ASSERT(number >= -1);
        if (number >= 0) {
            ASSERT(*at + (size_t)number + 2 <= replies->len);
            *at += (size_t)number + 2;
            ASSERT(memcmp(replies->data + *at - 2, "\r\n", 2) == 0);
        }
        return;
    case '*':
    case '%':
        ASSERT(number >= 0);
        for (long long i = 0; i < (line[0] == '%' ? 2 * number : number); i++) {
            take_reply(replies, at, depth + 1);
        }
        return;
    default:
        UNREACHABLE("a reply that is none");
    }
}

static void check_names(void)
{
    struct reader reader;

    reader_init(&reader, world.names.data, world.names.len);
    while (reader_left(&reader) > 0) {
        size_t len;
        const char *name = (const char *)reader_str16(&reader, &len);

        ASSERT(!reader.bad && tag_name_check(name, len, NULL) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct stream stream;
    static struct outcome whole;
    static struct outcome pieces;
    size_t at = 0;

    if (world.server == NULL) {
        conn_world_start(&world);
        world.resp = true;
    }
    make_stream(data, len, &stream);
    if (stream.bytes.len == 0) {
        return 0;
    }
    run(&stream, 0, &whole);
    check_names();
    while (at < whole.replies.len) {
        take_reply(&whole.replies, &at, 0);
    }
    run(&stream, stream.cut_count, &pieces);
    expect_same(&whole.replies, &pieces.replies);
    expect_same(&whole.asked, &pieces.asked);
    return 0;
}
