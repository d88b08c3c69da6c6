/*
 * test_conn.c - connections: keep-alive, closing, bodies, slow and greedy clients, every limit at
 * its bound and beyond.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/tests/fixture.h"

#define HOST "Host: a\r\n"
#define TYPED HOST "Content-Type: application/json\r\n"
#define LIVEZ "GET /livez HTTP/1.1\r\n" HOST

static void expect_reject(struct fixture *f, const char *text, size_t len, int status)
{
    struct client *client = fixture_connect(f);

    client_try_send(client, text, len);
    client_expect_reply(client, status, "close");
    client_expect_end(client);
    client_close(client);
}

static void *zeroed(size_t size)
{
    void *memory = calloc(1, size);

    assert_non_null(memory);
    return memory;
}

/* --- keep-alive and closing --- */

static void test_connection_headers(void **state)
{
    struct fixture *f = *state;

    client_printf(f->client, LIVEZ "\r\n");
    client_expect_reply(f->client, 200, NULL);
    client_printf(f->client, "GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_expect_reply(f->client, 200, "keep-alive");
    client_printf(f->client, LIVEZ "Connection: close\r\n\r\n");
    client_expect_reply(f->client, 200, "close");
    client_expect_end(f->client);
    client_close(f->client);
    f->client = fixture_connect(f);
    client_printf(f->client, "GET /livez HTTP/1.0\r\n\r\n");
    client_expect_reply(f->client, 200, "close");
    client_expect_end(f->client);
}

static void test_nothing_is_served_behind_close(void **state)
{
    struct fixture *f = *state;

    fake_open(&f->fake, "t", 1, 100);
    client_printf(f->client, LIVEZ "Connection: close\r\n\r\n"
                                   "GET /api/segment/get/t HTTP/1.1\r\n" HOST "\r\n");
    client_expect_reply(f->client, 200, "close");
    client_expect_end(f->client);
    client_close(f->client);
    f->client = fixture_connect(f);
    client_expect(f->client, "GET", "/api/segment/get/t", 200, "1");
}

static void test_half_closed_client_gets_its_replies(void **state)
{
    struct fixture *f = *state;

    fake_make_tag(&f->fake, "t", 1, 10, 100);
    client_printf(f->client, LIVEZ "\r\n" LIVEZ "\r\nGET /api/tags/t HTTP/1.1\r\n" HOST "\r\n");
    shutdown(f->client->fd, SHUT_WR);
    client_expect_reply(f->client, 200, NULL);
    client_expect_reply(f->client, 200, NULL);
    client_expect_reply(f->client, 200, NULL);
    client_expect_end(f->client);
}

static void test_bytes_one_at_a_time(void **state)
{
    static const char text[] =
        "PUT /api/tags/t HTTP/1.1\r\n" TYPED "Transfer-Encoding: chunked\r\n\r\n"
        "4\r\n{\"st\r\n8\r\nep\": 77}\r\n0\r\n\r\n" LIVEZ "\r\n";
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        client_send(f->client, text + i, 1);
    }
    client_expect_reply(f->client, 201, NULL);
    client_expect_reply(f->client, 200, NULL);
}

static void test_errors_leave_the_stream_in_step(void **state)
{
    struct fixture *f = *state;

    client_printf(f->client,
                  "POST /nothing HTTP/1.1\r\n" TYPED "Content-Length: 5\r\n\r\nhello"
                  "PUT /livez HTTP/1.1\r\n" TYPED
                  "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                  "PUT /api/tags/%%ff HTTP/1.1\r\n" TYPED "Content-Length: 2\r\n\r\n{}"
                  "GET /livez?x HTTP/1.1\r\n" HOST "\r\n"
                  "PUT /api/tags/t HTTP/1.1\r\n" TYPED "Content-Length: 1\r\n\r\n{" LIVEZ "\r\n");
    client_expect_reply(f->client, 404, NULL);
    client_expect_reply(f->client, 405, NULL);
    client_expect_reply(f->client, 400, NULL);
    client_expect_reply(f->client, 400, NULL);
    client_expect_reply(f->client, 400, NULL);
    client_expect_reply(f->client, 200, NULL);
}

static void test_protocol_errors_close(void **state)
{
    static const char *const texts[] = {
        "hello\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET / HTTP/1.1\r\n\r\n",
        LIVEZ "Bad Name: x\r\n\r\n",
        LIVEZ "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        LIVEZ "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        LIVEZ "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET * HTTP/1.1\r\n" HOST "\r\n",
        "GET /a#b HTTP/1.1\r\n" HOST "\r\n",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        expect_reject(f, texts[i], strlen(texts[i]), 400);
    }
    /* Nobody can tell whether it was a HEAD. */
    client_printf(f->client, "HEAD /livez HTTP/1.1\r\nBad Name: x\r\n\r\n");
    client_expect_reply(f->client, 400, "close");
    client_expect_end(f->client);
    client_close(f->client);
    f->client = fixture_connect(f);
    /* What came before is answered first. */
    client_printf(f->client, LIVEZ "\r\nrubbish");
    client_expect_reply(f->client, 200, NULL);
    client_expect_reply(f->client, 400, "close");
    client_expect_end(f->client);
}

static void test_expect_continue(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_printf(f->client, "PUT /api/tags/t HTTP/1.1\r\n" TYPED
                             "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_read(f->client, true, &reply);
    assert_int_equal(reply.status, 100);
    reply_release(&reply);
    client_send(f->client, "{}", 2);
    client_expect_reply(f->client, 201, NULL);
    /* The body came along: nothing to ask for. */
    client_printf(f->client, "PUT /api/tags/t HTTP/1.1\r\n" TYPED
                             "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}");
    client_expect_reply(f->client, 200, NULL);
    /* Refused by its head: the final answer comes at once. */
    client_printf(f->client, "PUT /nothing HTTP/1.1\r\n" TYPED
                             "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_expect_reply(f->client, 404, "close");
    client_expect_end(f->client);
}

/* --- sizes --- */

static void test_target_limit(void **state)
{
    static const char rest[] = " HTTP/1.1\r\n" HOST "\r\n";
    struct fixture *f = *state;
    char *text = zeroed(LIMIT_HTTP_TARGET_BYTES + 64);

    for (size_t len = LIMIT_HTTP_TARGET_BYTES; len <= LIMIT_HTTP_TARGET_BYTES + 1; len++) {
        memcpy(text, "GET /", 5);
        memset(text + 5, 'x', len - 1);
        memcpy(text + 4 + len, rest, sizeof(rest) - 1);
        if (len == LIMIT_HTTP_TARGET_BYTES) {
            client_send(f->client, text, 4 + len + sizeof(rest) - 1);
            client_expect_reply(f->client, 404, NULL);
        } else {
            expect_reject(f, text, 4 + len + sizeof(rest) - 1, 414);
        }
    }
    free(text);
}

static void test_head_limit(void **state)
{
    static const char start[] = LIVEZ "X: ";
    struct fixture *f = *state;
    char *text = zeroed(LIMIT_HTTP_HEADERS_BYTES + 64);

    for (size_t total = LIMIT_HTTP_HEADERS_BYTES; total <= LIMIT_HTTP_HEADERS_BYTES + 1; total++) {
        memcpy(text, start, sizeof(start) - 1);
        memset(text + sizeof(start) - 1, 'x', total - (sizeof(start) - 1) - 4);
        memcpy(text + total - 4, "\r\n\r\n", 4);
        if (total == LIMIT_HTTP_HEADERS_BYTES) {
            /* More than the buffer holds, so that one is moved in it. */
            client_send(f->client, text, total);
            client_send(f->client, text, total);
            client_send(f->client, text, total);
            client_expect_reply(f->client, 200, NULL);
            client_expect_reply(f->client, 200, NULL);
            client_expect_reply(f->client, 200, NULL);
        } else {
            expect_reject(f, text, total, 431);
        }
    }
    free(text);
}

static void test_header_floods(void **state)
{
    struct fixture *f = *state;
    const size_t size = 1 << 20;
    char *text = zeroed(size);

    memset(text, 'a', size);
    memcpy(text, LIVEZ, sizeof(LIVEZ) - 1);
    expect_reject(f, text, size, 431);
    memset(text, 'a', size);
    memcpy(text, "GET /", 5);
    expect_reject(f, text, size, 414);
    for (size_t i = 0; i + 6 <= size; i += 6) {
        memcpy(text + i, "a: b\r\n", 6);
    }
    memcpy(text, LIVEZ, sizeof(LIVEZ) - 1);
    memcpy(text + sizeof(LIVEZ) - 1, "x: ", 3);
    expect_reject(f, text, size, 431);
    free(text);
}

enum framing { LENGTH, CHUNKED };

/* The head of a request with a body, and the line of its first chunk. */
static size_t put_head(char *out, size_t size, const char *line, enum framing framing, size_t len)
{
    int head = framing == LENGTH
                   ? snprintf(out, size, "%s\r\n" TYPED "Content-Length: %zu\r\n\r\n", line, len)
                   : snprintf(out, size, "%s\r\n" TYPED "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                              line, len);

    assert_in_range(head, 1, size - 1);
    return (size_t)head;
}

/* A body of spaces before {}. */
static void send_body(struct client *client, const char *line, enum framing framing, size_t len)
{
    char *body = zeroed(len);
    char head[160];

    memset(body, ' ', len);
    memcpy(body + len - 2, "{}", 2);
    client_send(client, head, put_head(head, sizeof(head), line, framing, len));
    client_send(client, body, len);
    free(body);
}

static void expect_too_large(struct fixture *f, const char *line, enum framing framing, size_t len)
{
    char head[160];

    expect_reject(f, head, put_head(head, sizeof(head), line, framing, len), 413);
}

/* Each route has its limit. Beyond it a body is refused by its head, or by the line of the chunk
 * with which it becomes too large. */
static void test_body_limit(void **state)
{
    static const size_t small = LIMIT_HTTP_SMALL_BODY_BYTES;
    static const size_t large = LIMIT_HTTP_BODY_BYTES;
    struct fixture *f = *state;

    send_body(f->client, "PUT /api/tags/t HTTP/1.1", LENGTH, small);
    client_expect_reply(f->client, 201, NULL);
    send_body(f->client, "PUT /api/tags/t HTTP/1.1", CHUNKED, small);
    client_printf(f->client, "\r\n0\r\n\r\n");
    client_expect_reply(f->client, 200, NULL);
    expect_too_large(f, "PUT /api/tags/t HTTP/1.1", LENGTH, small + 1);
    expect_too_large(f, "PUT /api/tags/t HTTP/1.1", CHUNKED, small + 1);
    expect_too_large(f, "POST /api/workers HTTP/1.1", LENGTH, small + 1);
    /* Bulk. It is not the JSON that the route wants. */
    send_body(f->client, "POST /api/tags HTTP/1.1", LENGTH, large);
    client_expect_reply(f->client, 400, NULL);
    expect_too_large(f, "POST /api/tags HTTP/1.1", LENGTH, large + 1);
    expect_too_large(f, "POST /api/tags HTTP/1.1", CHUNKED, large + 1);
    /* Dropped where the route takes none, in step afterwards. */
    send_body(f->client, "GET /livez HTTP/1.1", LENGTH, small);
    client_expect_reply(f->client, 200, NULL);
    expect_too_large(f, "GET /livez HTTP/1.1", LENGTH, small + 1);
    send_body(f->client, "POST /nothing HTTP/1.1", LENGTH, small);
    client_expect_reply(f->client, 404, NULL);
    /* What is wrong is the path, whatever comes after. */
    client_printf(f->client, "POST /nothing HTTP/1.1\r\n" TYPED "Content-Length: %zu\r\n\r\n",
                  small + 1);
    client_expect_reply(f->client, 404, "close");
}

/* Chunks that are small enough each, and too much together. */
static void test_body_limit_of_many_chunks(void **state)
{
    enum { CHUNK = 4096 };
    struct fixture *f = *state;
    char chunk[CHUNK + 16];
    int head = snprintf(chunk, sizeof(chunk), "%x\r\n", CHUNK);
    size_t len = (size_t)head + CHUNK + 2;

    memset(chunk + head, ' ', CHUNK);
    memcpy(chunk + head + CHUNK, "\r\n", 2);
    client_printf(f->client,
                  "PUT /api/tags/t HTTP/1.1\r\n" TYPED "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < LIMIT_HTTP_SMALL_BODY_BYTES / CHUNK; i++) {
        client_send(f->client, chunk, len);
    }
    assert_false(client_has_input(f->client));
    client_printf(f->client, "1\r\n");
    client_expect_reply(f->client, 413, "close");
}

/* A reply to bytes that still flow is not destroyed by a reset. */
static void test_reply_survives_unread_input(void **state)
{
    struct fixture *f = *state;
    const size_t size = 4 << 20;
    char *body = zeroed(size);

    client_printf(f->client,
                  "PUT /api/tags/t HTTP/1.1\r\n" TYPED "Content-Length: 99999999\r\n\r\n");
    client_send(f->client, body, size);
    client_expect_reply(f->client, 413, "close");
    client_expect_end(f->client);
    free(body);
}

/* --- time --- */

static void test_deadlines(void **state)
{
    const struct http_settings limits = {.head_ms = 60, .body_ms = 80, .idle_ms = 400};
    struct fixture *f = zeroed(sizeof *f);
    struct client *client;

    (void)state;
    fixture_start(f, &limits);
    /* A head that never ends, though its bytes keep coming. */
    client_printf(f->client, LIVEZ "X: ");
    for (int i = 0; i < 1000 && client_try_send(f->client, "x", 1); i++) {
        struct pollfd readable = {.fd = f->client->fd, .events = POLLIN};

        if (poll(&readable, 1, 1) > 0) {
            break;
        }
    }
    client_expect_reply(f->client, 408, "close");
    client_expect_end(f->client);
    /* A body that never ends. */
    client = fixture_connect(f);
    client_printf(client, "PUT /api/tags/t HTTP/1.1\r\n" TYPED "Content-Length: 2\r\n\r\n{");
    client_expect_reply(client, 408, "close");
    client_expect_end(client);
    client_close(client);
    /* Nothing at all: closed without a word; also after a request. */
    client = fixture_connect(f);
    client_expect_end(client);
    client_close(client);
    client = fixture_connect(f);
    client_printf(client, LIVEZ "\r\n");
    client_expect_reply(client, 200, NULL);
    client_expect_end(client);
    client_close(client);
    fixture_stop(f);
    free(f);
}

/* A request that waits for the cluster is not idle. */
static void test_waiting_is_not_idle(void **state)
{
    const struct http_settings limits = {.head_ms = 20, .body_ms = 20, .idle_ms = 200};
    struct fixture *f = zeroed(sizeof *f);
    struct id_tag *tag;
    struct reply reply;

    (void)state;
    fixture_start(f, &limits);
    fake_hold(&f->fake, false, true);
    tag = fake_open(&f->fake, "t", 0, 0);
    client_printf(f->client, "GET /api/segment/get/t?timeout_ms=500 HTTP/1.1\r\n" HOST "\r\n");
    fake_await_demand(tag, 1);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_release(&reply);
    fixture_stop(f);
    free(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_connection_headers),
        TEST(test_nothing_is_served_behind_close),
        TEST(test_half_closed_client_gets_its_replies),
        TEST(test_bytes_one_at_a_time),
        TEST(test_errors_leave_the_stream_in_step),
        TEST(test_protocol_errors_close),
        TEST(test_expect_continue),
        TEST(test_target_limit),
        TEST(test_head_limit),
        TEST(test_header_floods),
        TEST(test_body_limit),
        TEST(test_body_limit_of_many_chunks),
        TEST(test_reply_survives_unread_input),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_waiting_is_not_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
