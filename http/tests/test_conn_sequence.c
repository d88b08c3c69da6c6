/*
 * test_conn_sequence.c - what a request leaves after on its connection for the next one: nothing.
 *
 * Every request of every kind (request_kinds.h) is answered after every other one exactly as on a
 * connection of its own, byte for byte, and the backend is asked exactly the same: whether they
 * come all in one piece, one by one, byte by byte or cut anywhere, and while the one before still
 * waits. What is bounded is not added up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/tests/conn_world.h"
#include "http/tests/request_kinds.h"
#include "src/base/assert.h"

#define LENGTH_MAX 12
#define KINDS_MAX 128
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define CONTINUE_LEN (sizeof(CONTINUE) - 1)
#define PIECES_MAX 1024
#define SHOWN 300

/* How a sequence is given to its connection. */
enum way {
    WAY_WHOLE, /* in one piece */
    WAY_EACH,  /* a request at a time */
    WAY_HEADS, /* head, body, head, body ... */
    WAY_BYTES, /* byte by byte, but for what is long and dull */
    WAY_CUTS,  /* cut anywhere */
    WAY_LATE,  /* cut anywhere; the backend answers when all of it is there */
    WAYS
};

static const char *const way_names[] = {"in one piece", "one by one",   "head by head",
                                        "byte by byte", "cut anywhere", "cut and answered late"};

struct sequence {
    unsigned kinds[LENGTH_MAX];
    size_t count;
    uint64_t seed; /* of the cuts */
};

/* What a sequence has to bring, by connections of their own. */
struct wanted {
    struct buf replies;
    size_t ends[LENGTH_MAX]; /* of each request's reply */
    size_t count;            /* requests that are answered: one that closes is the last */
    struct buf asked;
};

struct bench {
    struct conn_world world;
    const struct request_kind *kinds;
    size_t kind_count;
    bool closing[KINDS_MAX]; /* the kind's reply is the last of its connection */
    struct wanted wanted;
    size_t piece_ends[PIECES_MAX]; /* of the sequence's bytes */
    size_t piece_count;
};

/* --- what is wanted --- */

static void learn(struct bench *bench, const struct sequence *sequence)
{
    struct conn_world *world = &bench->world;
    struct wanted *wanted = &bench->wanted;
    bool ended = false;

    conn_world_reset(world);
    for (wanted->count = 0; wanted->count < sequence->count && !ended; wanted->count++) {
        const struct buf *bytes = &bench->kinds[sequence->kinds[wanted->count]].bytes;

        conn_world_connect(world);
        conn_world_send(world, bytes->data, bytes->len);
        ended = world->ended;
        conn_world_disconnect(world);
        wanted->ends[wanted->count] = world->replies.len;
    }
    wanted->replies.len = 0;
    buf_put(&wanted->replies, world->replies.data, world->replies.len);
    wanted->asked.len = 0;
    buf_put(&wanted->asked, world->asked.data, world->asked.len);
}

/* --- pieces --- */

static void piece_end(struct bench *bench, size_t at)
{
    ASSERT(bench->piece_count < PIECES_MAX);
    bench->piece_ends[bench->piece_count++] = at;
}

/* One request of the sequence, whose bytes begin at `at`. */
static void cut_request(struct bench *bench, const struct request_kind *kind, enum way way,
                        size_t at)
{
    size_t head = kind->head_len;
    size_t len = kind->bytes.len;

    if (way == WAY_HEADS) {
        piece_end(bench, at + head);
    }
    for (size_t i = 1; way == WAY_BYTES && i < len; i++) {
        if (i < 40 || (i + 20 > head && i < head) || i >= head) {
            piece_end(bench, at + i);
        }
    }
    if (way == WAY_EACH || (way == WAY_HEADS && len > head) || way == WAY_BYTES) {
        piece_end(bench, at + len);
    }
}

static void cut_anywhere(struct bench *bench, uint64_t seed, size_t len)
{
    struct prng prng;
    size_t at = 0;

    prng_seed(&prng, seed);
    while (at < len) {
        size_t longest = prng_below(&prng, 4) == 0 ? 2000 : prng_below(&prng, 2) == 0 ? 100 : 12;

        at += 1 + prng_below(&prng, longest);
        if (at >= len || bench->piece_count == PIECES_MAX - 1) {
            at = len;
        }
        piece_end(bench, at);
    }
}

static void cut(struct bench *bench, const struct sequence *sequence, enum way way, size_t len)
{
    size_t at = 0;

    bench->piece_count = 0;
    if (way == WAY_WHOLE) {
        piece_end(bench, len);
    } else if (way == WAY_CUTS || way == WAY_LATE) {
        cut_anywhere(bench, sequence->seed, len);
    } else {
        for (size_t i = 0; i < sequence->count; i++) {
            const struct request_kind *kind = &bench->kinds[sequence->kinds[i]];

            cut_request(bench, kind, way, at);
            at += kind->bytes.len;
        }
    }
}

/* --- what came --- */

static void show(const char *what, const struct buf *buf, size_t at)
{
    size_t from = at > SHOWN ? at - SHOWN : 0;
    size_t len = buf->len - from < 2 * SHOWN ? buf->len - from : 2 * SHOWN;

    print_error("%s, from byte %zu of %zu:\n%.*s\n", what, from, buf->len, (int)len,
                (const char *)buf->data + from);
}

static size_t first_difference(const struct buf *a, const struct buf *b)
{
    size_t at = 0;

    while (at < a->len && at < b->len && a->data[at] == b->data[at]) {
        at++;
    }
    return at;
}

static void complain(const struct bench *bench, const struct sequence *sequence, enum way way,
                     const char *what)
{
    print_error("%s, %s (seed %llu):\n", what, way_names[way], (unsigned long long)sequence->seed);
    for (size_t i = 0; i < sequence->count; i++) {
        print_error("  %zu. %s\n", i + 1, bench->kinds[sequence->kinds[i]].name);
    }
}

/* Take out each "100 Continue" that may be there: in front of the reply to a request that expects
 * it, and once. */
static void drop_continues(struct bench *bench, const struct sequence *sequence,
                           struct buf *replies)
{
    const struct wanted *wanted = &bench->wanted;
    size_t begin = 0;

    for (size_t i = 0; i < wanted->count && begin <= replies->len; i++) {
        size_t left = replies->len - begin;
        bool there =
            left >= CONTINUE_LEN && memcmp(replies->data + begin, CONTINUE, CONTINUE_LEN) == 0;

        if (there && bench->kinds[sequence->kinds[i]].expects) {
            memmove(replies->data + begin, replies->data + begin + CONTINUE_LEN,
                    left - CONTINUE_LEN);
            replies->len -= CONTINUE_LEN;
        }
        begin = wanted->ends[i];
    }
}

/* On one connection. `wanted` is known. */
static void check(struct bench *bench, const struct sequence *sequence, enum way way)
{
    struct conn_world *world = &bench->world;
    struct wanted *wanted = &bench->wanted;
    struct buf bytes = BUF_INIT;
    size_t at = 0;

    for (size_t i = 0; i < sequence->count; i++) {
        const struct buf *more = &bench->kinds[sequence->kinds[i]].bytes;

        buf_put(&bytes, more->data, more->len);
    }
    cut(bench, sequence, way, bytes.len);
    conn_world_reset(world);
    conn_world_connect(world);
    world->late = way == WAY_LATE;
    for (size_t i = 0; i < bench->piece_count; i++) {
        conn_world_send(world, bytes.data + at, bench->piece_ends[i] - at);
        at = bench->piece_ends[i];
    }
    ASSERT(at == bytes.len);
    conn_world_disconnect(world);
    buf_free(&bytes);
    drop_continues(bench, sequence, &world->replies);
    at = first_difference(&wanted->replies, &world->replies);
    if (at < wanted->replies.len || at < world->replies.len) {
        complain(bench, sequence, way, "other replies than on connections of their own");
        show("wanted", &wanted->replies, at);
        show("got", &world->replies, at);
        fail();
    }
    at = first_difference(&wanted->asked, &world->asked);
    if (at < wanted->asked.len || at < world->asked.len) {
        complain(bench, sequence, way, "the backend was asked something else");
        show("wanted", &wanted->asked, at);
        show("got", &world->asked, at);
        fail();
    }
}

/* --- the tests --- */

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);

    ASSERT(bench != NULL);
    conn_world_start(&bench->world);
    bench->kinds = request_kinds(&bench->kind_count);
    ASSERT(bench->kind_count <= KINDS_MAX);
    for (unsigned i = 0; i < bench->kind_count; i++) {
        const struct sequence twice = {{i, i}, 2, 0};

        learn(bench, &twice);
        bench->closing[i] = bench->wanted.count == 1;
    }
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    conn_world_stop(&bench->world);
    request_kinds_free();
    buf_free(&bench->wanted.replies);
    buf_free(&bench->wanted.asked);
    free(bench);
    return 0;
}

/* a b a b, or a a b b: each comes after the other, and some after themselves. */
static void test_a_request_leaves_nothing_to_the_next(void **state)
{
    struct bench *bench = *state;
    unsigned count = (unsigned)bench->kind_count;

    for (unsigned a = 0; a < count; a++) {
        for (unsigned b = 0; b < count; b++) {
            const bool twice = (a + b) % 3 == 0 && !bench->closing[b];
            const struct sequence sequence = {
                {a, twice ? a : b, twice ? b : a, b}, 4, a * count + b};

            if (bench->closing[a] || (b < a && !bench->closing[b])) {
                continue; /* nothing comes after it; or it was seen before, as b and a */
            }
            learn(bench, &sequence);
            check(bench, &sequence, WAY_WHOLE);
            check(bench, &sequence, (a + b) % 2 == 0 ? WAY_LATE : WAY_EACH);
        }
    }
}

static void test_a_sequence_leaves_nothing_however_it_is_cut(void **state)
{
    struct bench *bench = *state;
    struct prng prng;

    prng_seed(&prng, 12);
    for (uint64_t seed = 1; seed <= 1200; seed++) {
        struct sequence sequence = {.count = 2 + prng_below(&prng, LENGTH_MAX - 1), .seed = seed};

        for (size_t i = 0; i < sequence.count; i++) {
            /* What is closed is over: most of a sequence must go on. */
            do {
                sequence.kinds[i] = (unsigned)prng_below(&prng, bench->kind_count);
            } while (prng_below(&prng, 4) != 0 && bench->closing[sequence.kinds[i]]);
        }
        learn(bench, &sequence);
        check(bench, &sequence, (enum way)(seed % WAYS));
    }
}

/* Each kind is cut everywhere at least once, between two others. */
static void test_every_byte_may_be_the_last_of_a_read(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < bench->kind_count; i++) {
        const struct sequence sequence = {{0, i, 1}, 3, i};

        learn(bench, &sequence);
        check(bench, &sequence, WAY_BYTES);
        check(bench, &sequence, WAY_HEADS);
    }
}

/* The connection has served one that expects; of all others with a body none is told to go on. */
static void expect_no_continue(struct bench *bench)
{
    struct conn_world *world = &bench->world;

    for (unsigned i = 0; i < bench->kind_count; i++) {
        const struct request_kind *kind = &bench->kinds[i];
        size_t before = world->replies.len;

        if (kind->expects || bench->closing[i] || kind->bytes.len == kind->head_len) {
            continue;
        }
        conn_world_send(world, kind->bytes.data, kind->head_len);
        assert_int_equal(world->replies.len, before);
        conn_world_send(world, kind->bytes.data + kind->head_len, kind->bytes.len - kind->head_len);
        assert_true(world->replies.len > before);
    }
}

/* With "100 Continue" where the head came alone, and nowhere else. */
static void test_only_who_expects_it_is_told_to_continue(void **state)
{
    struct bench *bench = *state;
    struct conn_world *world = &bench->world;

    for (unsigned i = 0; i < bench->kind_count; i++) {
        const struct request_kind *kind = &bench->kinds[i];

        if (!kind->expects || kind->bytes.len == kind->head_len) {
            continue;
        }
        conn_world_reset(world);
        conn_world_connect(world);
        conn_world_send(world, kind->bytes.data, kind->head_len);
        if (world->ended) { /* refused, and closed */
            assert_memory_equal(world->replies.data, "HTTP/1.1 404", 12);
            conn_world_disconnect(world);
            continue;
        }
        assert_int_equal(world->replies.len, CONTINUE_LEN);
        assert_memory_equal(world->replies.data, CONTINUE, CONTINUE_LEN);
        conn_world_send(world, kind->bytes.data + kind->head_len, kind->bytes.len - kind->head_len);
        assert_true(world->replies.len > CONTINUE_LEN);
        expect_no_continue(bench);
        conn_world_disconnect(world);
    }
}

/* --- bounds --- */

#define PUT_HEAD "PUT /api/tags/plain HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
#define LENGTH_HEAD PUT_HEAD "Content-Length: %zu\r\n\r\n"
#define CHUNKED_HEAD PUT_HEAD "Transfer-Encoding: chunked\r\n\r\n%zx\r\n"

/* What is bounded for one request (header lines, chunk lines, the bytes of a body) is not added up
 * over those of a connection. */
static void test_each_request_has_its_own_bounds(void **state)
{
    static const size_t large = LIMIT_HTTP_SMALL_BODY_BYTES * 2 / 3;
    struct bench *bench = *state;
    struct conn_world *world = &bench->world;
    char *body = malloc(large);
    char head[128];

    assert_non_null(body);
    memset(body, ' ', large);
    conn_world_reset(world);
    conn_world_connect(world);
    for (unsigned i = 0; i < bench->kind_count; i++) {
        const struct request_kind *kind = &bench->kinds[i];

        for (unsigned k = 0; !bench->closing[i] && k < 200; k++) {
            conn_world_send(world, kind->bytes.data, kind->bytes.len);
            assert_false(world->ended);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        bool chunked = i % 2 == 1;

        (void)snprintf(head, sizeof(head), chunked ? CHUNKED_HEAD : LENGTH_HEAD, large + 2);
        world->replies.len = 0;
        conn_world_send_text(world, head);
        conn_world_send(world, body, large);
        conn_world_send_text(world, chunked ? "{}\r\n0\r\n\r\n" : "{}");
        conn_world_expect_status(world, "200");
    }
    conn_world_disconnect(world);
    free(body);
}

/* A body is kept only where a handler reads it: elsewhere it takes no room that others need. */
static void test_a_body_that_nobody_reads_is_not_kept(void **state)
{
    static const struct {
        const char *head;
        size_t kept;
    } cases[] = {{PUT_HEAD, 5},
                 {"GET /livez HTTP/1.1\r\nHost: t\r\n", 0},
                 {"GET /api/segment/get/plain HTTP/1.1\r\nHost: t\r\n", 0},
                 {"GET /metrics HTTP/1.1\r\nHost: t\r\n", 0},
                 {"PUT /nowhere HTTP/1.1\r\nHost: t\r\n", 0}};
    struct conn_world *world = &((struct bench *)*state)->world;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        conn_world_reset(world);
        conn_world_connect(world);
        conn_world_send_text(world, cases[i].head);
        conn_world_send_text(world, "Content-Length: 9\r\n\r\n{    ");
        assert_non_null(world->conn);
        assert_int_equal(world->conn->body.len, cases[i].kept);
        assert_int_equal(world->loop->conns.meter.body_bytes, cases[i].kept);
        conn_world_send_text(world, "   }");
        assert_int_equal(world->loop->conns.meter.body_bytes, 0);
        conn_world_disconnect(world);
    }
}

/* --- heads that repeat --- */

#define NAMES 7
#define RUNS 20

/* Names in any order, each a few times in a row, some with an escape that the others do without:
 * sent at once, or cut anywhere, each reply has the ids of its own name. */
static void test_repeated_heads_get_their_own_replies(void **state)
{
    struct conn_world *world = &((struct bench *)*state)->world;
    struct buf sent = BUF_INIT;
    struct prng prng;
    char text[32];

    prng_seed(&prng, 3);
    conn_world_reset(world);
    for (unsigned i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof text, "p%02u", i);
        /* Its ids say whose they are. */
        fake_make_tag(&world->fake, text, (i + 1) * 1000000U, 1000, 1000000);
    }
    conn_world_connect(world);
    for (unsigned round = 0; round < 200; round++) {
        unsigned names[RUNS * 6];
        size_t count = 0;
        size_t cut;
        const char *at;

        sent.len = 0;
        world->replies.len = 0;
        for (unsigned run = 0; run < RUNS; run++) {
            unsigned name = (unsigned)prng_below(&prng, NAMES);
            unsigned times = 1 + (unsigned)prng_below(&prng, 6);
            const char *first = prng_below(&prng, 3) == 0 ? "%70" : "p";

            for (unsigned k = 0; k < times; k++) {
                names[count++] = name;
                buf_printf(&sent, "GET /api/segment/get/%s%02u HTTP/1.1\r\nHost: somewhere\r\n\r\n",
                           first, name);
            }
        }
        cut = round % 2 == 0 ? sent.len : (size_t)prng_below(&prng, sent.len);
        conn_world_send(world, sent.data, cut);
        conn_world_send(world, sent.data + cut, sent.len - cut);
        buf_put_u8(&world->replies, '\0');
        at = (const char *)world->replies.data;
        for (size_t i = 0; i < count; i++) {
            at = strstr(at, "\r\n\r\n");
            assert_non_null(at);
            at += 4;
            assert_int_equal(strtoul(at, NULL, 10) / 1000000U, names[i] + 1);
        }
        assert_null(strstr(at, "\r\n\r\n"));
    }
    buf_free(&sent);
    conn_world_disconnect(world);
}

/* Heads of these lengths, each twice: a connection has memory for the longest that it keeps. */
static void test_kept_heads_have_their_size(void **state)
{
    static const struct {
        unsigned len;
        unsigned kept; /* of it */
        unsigned size; /* of the memory */
    } cases[] = {{64, 64, 64},    {65, 65, 128}, {64, 64, 128},  {300, 300, 320},
                 {512, 512, 512}, {513, 0, 512}, {511, 511, 512}};
    struct conn_world *world = &((struct bench *)*state)->world;
    static const char asks[] = "GET /livez HTTP/1.1\r\nHost: a\r\nX-Pad: ";
    char head[600];

    conn_world_reset(world);
    conn_world_connect(world);
    assert_null(world->conn->last);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(head, 'x', sizeof head);
        memcpy(head, asks, sizeof asks - 1);
        memcpy(head + cases[i].len - 4, "\r\n\r\n", 4);
        for (unsigned k = 0; k < 2; k++) {
            world->replies.len = 0;
            conn_world_send(world, head, cases[i].len);
            assert_memory_equal(world->replies.data, "HTTP/1.1 200", 12);
            assert_int_equal(world->conn->last_len, cases[i].kept);
            assert_int_equal(world->conn->last_size, cases[i].size);
        }
    }
    conn_world_disconnect(world);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_request_leaves_nothing_to_the_next),
        TEST(test_a_sequence_leaves_nothing_however_it_is_cut),
        TEST(test_every_byte_may_be_the_last_of_a_read),
        TEST(test_only_who_expects_it_is_told_to_continue),
        TEST(test_each_request_has_its_own_bounds),
        TEST(test_a_body_that_nobody_reads_is_not_kept),
        TEST(test_repeated_heads_get_their_own_replies),
        TEST(test_kept_heads_have_their_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
