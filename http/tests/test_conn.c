/*
 * test_conn.c - connections: keep-alive, closing, bodies, slow and greedy clients, every limit at its
 * bound and beyond.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/tests/fixture.h"

#define HOST "Host: a\r\n"
#define LIVEZ "GET /livez HTTP/1.1\r\n" HOST

/* Read a reply and want its status and Connection header (NULL: none). */
static void expect_reply(struct client *client, int status, const char *connection)
{
    const char *header;
    struct reply reply;

    client_read(client, false, &reply);
    if (reply.status != status) {
        print_error("wanted %d, got %s%s\n", status, reply.head, reply.body);
    }
    assert_int_equal(reply.status, status);
    header = reply_header(&reply, "Connection");
    assert_int_equal(header == NULL, connection == NULL);
    if (connection != NULL) {
        assert_string_equal(header, connection);
    }
    reply_release(&reply);
}

static void expect_reject(struct fixture *f, const char *text, size_t len, int status)
{
    struct client *client = fixture_connect(f);

    client_try_send(client, text, len);
    expect_reply(client, status, "close");
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
    expect_reply(f->client, 200, NULL);
    client_printf(f->client, "GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect_reply(f->client, 200, "keep-alive");
    client_printf(f->client, LIVEZ "Connection: close\r\n\r\n");
    expect_reply(f->client, 200, "close");
    client_expect_end(f->client);
    client_close(f->client);
    f->client = fixture_connect(f);
    client_printf(f->client, "GET /livez HTTP/1.0\r\n\r\n");
    expect_reply(f->client, 200, "close");
    client_expect_end(f->client);
}

static void test_nothing_is_served_behind_close(void **state)
{
    struct fixture *f = *state;

    fake_open(&f->fake, "t", 1, 100);
    client_printf(f->client, LIVEZ "Connection: close\r\n\r\n"
                                   "GET /api/segment/get/t HTTP/1.1\r\n" HOST "\r\n");
    expect_reply(f->client, 200, "close");
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
    expect_reply(f->client, 200, NULL);
    expect_reply(f->client, 200, NULL);
    expect_reply(f->client, 200, NULL);
    client_expect_end(f->client);
}

static void test_bytes_one_at_a_time(void **state)
{
    static const char text[] =
        "PUT /api/tags/t HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
        "4\r\n{\"st\r\n8\r\nep\": 77}\r\n0\r\n\r\n" LIVEZ "\r\n";
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        client_send(f->client, text + i, 1);
    }
    expect_reply(f->client, 201, NULL);
    expect_reply(f->client, 200, NULL);
}

static void test_errors_leave_the_stream_in_step(void **state)
{
    struct fixture *f = *state;

    client_printf(f->client,
                  "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                  "PUT /livez HTTP/1.1\r\n" HOST
                  "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                  "PUT /api/tags/%%ff HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}"
                  "GET /livez?x HTTP/1.1\r\n" HOST "\r\n"
                  "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n{" LIVEZ "\r\n");
    expect_reply(f->client, 404, NULL);
    expect_reply(f->client, 405, NULL);
    expect_reply(f->client, 400, NULL);
    expect_reply(f->client, 400, NULL);
    expect_reply(f->client, 400, NULL);
    expect_reply(f->client, 200, NULL);
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
        "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
        "GET /a#b HTTP/1.1\r\n" HOST "\r\n",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        expect_reject(f, texts[i], strlen(texts[i]), 400);
    }
    /* What came before is answered first. */
    client_printf(f->client, LIVEZ "\r\nrubbish");
    expect_reply(f->client, 200, NULL);
    expect_reply(f->client, 400, "close");
    client_expect_end(f->client);
}

static void test_expect_continue(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_printf(f->client, "PUT /api/tags/t HTTP/1.1\r\n" HOST
                             "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_read(f->client, true, &reply);
    assert_int_equal(reply.status, 100);
    reply_release(&reply);
    client_send(f->client, "{}", 2);
    expect_reply(f->client, 201, NULL);
    /* The body came along: nothing to ask for. */
    client_printf(f->client, "PUT /api/tags/t HTTP/1.1\r\n" HOST
                             "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}");
    expect_reply(f->client, 200, NULL);
    /* Refused by its head: the final answer comes at once. */
    client_printf(f->client, "PUT /nothing HTTP/1.1\r\n" HOST
                             "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    expect_reply(f->client, 404, "close");
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
            expect_reply(f->client, 404, NULL);
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
            expect_reply(f->client, 200, NULL);
            expect_reply(f->client, 200, NULL);
            expect_reply(f->client, 200, NULL);
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

static void test_body_limit(void **state)
{
    struct fixture *f = *state;
    char *body = zeroed(LIMIT_HTTP_BODY_BYTES);
    char head[128];
    int len;

    memset(body, ' ', LIMIT_HTTP_BODY_BYTES);
    client_printf(f->client, "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
                  LIMIT_HTTP_BODY_BYTES);
    body[LIMIT_HTTP_BODY_BYTES - 2] = '{';
    body[LIMIT_HTTP_BODY_BYTES - 1] = '}';
    client_send(f->client, body, LIMIT_HTTP_BODY_BYTES);
    expect_reply(f->client, 201, NULL);
    /* Dropped where the route takes none, in step afterwards. */
    client_printf(f->client, "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
                  LIMIT_HTTP_BODY_BYTES);
    client_send(f->client, body, LIMIT_HTTP_BODY_BYTES);
    expect_reply(f->client, 404, NULL);
    len = snprintf(head, sizeof(head),
                   "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
                   LIMIT_HTTP_BODY_BYTES + 1);
    expect_reject(f, head, (size_t)len, 413);
    len = snprintf(head, sizeof(head),
                   "PUT /api/tags/t HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                   LIMIT_HTTP_BODY_BYTES + 1);
    expect_reject(f, head, (size_t)len, 413);
    free(body);
}

/* A reply to bytes that still flow is not destroyed by a reset. */
static void test_reply_survives_unread_input(void **state)
{
    struct fixture *f = *state;
    const size_t size = 4 << 20;
    char *body = zeroed(size);

    client_printf(f->client,
                  "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n");
    client_send(f->client, body, size);
    expect_reply(f->client, 413, "close");
    client_expect_end(f->client);
    free(body);
}

/* All bodies of a loop together: one more than fits is refused. */
static void test_bodies_limit(void **state)
{
    enum { COUNT = LIMIT_HTTP_BODIES_BYTES / LIMIT_HTTP_BODY_BYTES + 1 };
    struct fixture *f = *state;
    char *body = zeroed(LIMIT_HTTP_BODY_BYTES);
    struct client *clients[COUNT];
    struct pollfd polls[COUNT];
    unsigned refused = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        clients[i] = fixture_connect(f);
        polls[i] = (struct pollfd){.fd = clients[i]->fd, .events = POLLIN};
        client_printf(clients[i], "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
                      LIMIT_HTTP_BODY_BYTES);
        client_try_send(clients[i], body, LIMIT_HTTP_BODY_BYTES - 1);
    }
    assert_int_equal(poll(polls, COUNT, CLIENT_TIMEOUT_S * 1000), 1);
    for (unsigned i = 0; i < COUNT; i++) {
        if (polls[i].revents != 0) {
            expect_reply(clients[i], 503, "close");
            refused++;
        }
        client_close(clients[i]);
    }
    assert_int_equal(refused, 1);
    /* The room is free again. */
    client_printf(f->client, "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}");
    expect_reply(f->client, 201, NULL);
    free(body);
}

/* --- time --- */

static void test_deadlines(void **state)
{
    const struct http_config limits = {.head_ms = 60, .body_ms = 80, .idle_ms = 100};
    struct fixture *f = zeroed(sizeof(*f));
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
    expect_reply(f->client, 408, "close");
    client_expect_end(f->client);
    /* A body that never ends. */
    client = fixture_connect(f);
    client_printf(client, "PUT /api/tags/t HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{");
    expect_reply(client, 408, "close");
    client_expect_end(client);
    client_close(client);
    /* Nothing at all: closed without a word; also after a request. */
    client = fixture_connect(f);
    client_expect_end(client);
    client_close(client);
    client = fixture_connect(f);
    client_printf(client, LIVEZ "\r\n");
    expect_reply(client, 200, NULL);
    client_expect_end(client);
    client_close(client);
    fixture_stop(f);
    free(f);
}

/* A request that waits for the cluster is not idle. */
static void test_waiting_is_not_idle(void **state)
{
    const struct http_config limits = {.head_ms = 20, .body_ms = 20, .idle_ms = 20};
    struct fixture *f = zeroed(sizeof(*f));
    struct id_tag *tag;
    struct reply reply;

    (void)state;
    fixture_start(f, &limits);
    fake_hold(&f->fake, false, true);
    tag = fake_open(&f->fake, "t", 0, 0);
    client_printf(f->client, "GET /api/segment/get/t?timeout_ms=150 HTTP/1.1\r\n" HOST "\r\n");
    fake_await_demand(tag, 1);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_release(&reply);
    fixture_stop(f);
    free(f);
}

/* --- greedy clients --- */

/* Send until the peer takes no more for a while; the bytes sent. */
static size_t send_until_stalled(struct client *client, const char *data, size_t len)
{
    struct pollfd writable = {.fd = client->fd, .events = POLLOUT};
    size_t at = 0;

    while (at < len && poll(&writable, 1, 300) == 1) {
        ssize_t sent = send(client->fd, data + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        assert_true(sent > 0 || errno == EAGAIN);
        at += sent > 0 ? (size_t)sent : 0;
    }
    return at;
}

/* Small replies that are not read: at LIMIT_HTTP_PIPELINE the server stops reading; it goes on when the
 * client reads, and nothing is lost. */
static void test_unread_replies_stop_the_reading(void **state)
{
    enum { COUNT = 200000 };
    static const char request[] = "GET /api/segment/get/t HTTP/1.1\r\nHost: a\r\n\r\n";
    struct fixture *f = *state;
    struct client *client = fixture_connect(f);
    const size_t len = COUNT * (sizeof(request) - 1);
    char *all = zeroed(len);
    struct segment_slot_view slots[2];
    struct id_tag *tag = fake_open(&f->fake, "t", 1, 1000000);
    struct reply reply;
    char wanted[24];
    size_t sent;
    size_t handed_out;

    fake_hold(&f->fake, false, true);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(all + i * (sizeof(request) - 1), request, sizeof(request) - 1);
    }
    sent = send_until_stalled(client, all, len);
    assert_true(sent < len);
    segment_inspect(&tag->buffer, slots);
    handed_out = slots[0].next_id - 1;
    assert_true(handed_out > LIMIT_HTTP_PIPELINE);
    assert_true(handed_out < sent / (sizeof(request) - 1));
    /* Others are not disturbed. */
    snprintf(wanted, sizeof(wanted), "%zu", handed_out + 1);
    client_expect(f->client, "GET", "/api/segment/get/t", 200, wanted);
    for (size_t i = 0; i < sent / (sizeof(request) - 1); i++) {
        client_read(client, false, &reply);
        assert_int_equal(reply.status, 200);
        snprintf(wanted, sizeof(wanted), "%zu", i < handed_out ? i + 1 : i + 2);
        assert_string_equal(reply.body, wanted);
        reply_release(&reply);
    }
    client_close(client);
    free(all);
}

/* Large replies that are not read: about LIMIT_HTTP_OUTPUT_BYTES are made, and no more. */
static void test_output_limit(void **state)
{
    enum { COUNT = 100 };
    struct fixture *f = *state;
    struct client *client = fixture_connect(f);
    struct id_tag *tag = fake_open(&f->fake, "t", UINT64_C(1000000000000000), 100000 * COUNT);
    const size_t reply_bytes = 100000 * 17;
    struct segment_slot_view slots[2];
    struct reply reply;
    size_t made;

    fake_hold(&f->fake, false, true);
    for (int i = 0; i < COUNT; i++) {
        client_printf(client, "GET /api/segment/get/t?count=100000 HTTP/1.1\r\n" HOST "\r\n");
    }
    /* Whoever asks now is served by a loop that has done all it would for the greedy one. */
    do {
        client_expect(f->client, "GET", "/livez", 200, NULL);
        segment_inspect(&tag->buffer, slots);
        made = (size_t)(slots[0].next_id - UINT64_C(1000000000000000)) / 100000;
    } while (made * reply_bytes < LIMIT_HTTP_OUTPUT_BYTES);
    client_expect(f->client, "GET", "/livez", 200, NULL);
    segment_inspect(&tag->buffer, slots);
    made = (size_t)(slots[0].next_id - UINT64_C(1000000000000000)) / 100000;
    /* Beside the bound: the reply that passes it, and what the sockets' buffers hold. */
    assert_true(made * reply_bytes < LIMIT_HTTP_OUTPUT_BYTES + reply_bytes + (16 << 20));
    assert_true(made < COUNT);
    for (int i = 0; i < COUNT; i++) {
        client_read(client, false, &reply);
        assert_int_equal(reply.len, reply_bytes);
        reply_release(&reply);
    }
    client_close(client);
}

static void test_write_stall_closes(void **state)
{
    const struct http_config limits = {.write_ms = 60};
    struct fixture *f = zeroed(sizeof(*f));
    struct client *client;
    char buffer[4096];
    size_t total = 0;
    ssize_t got;

    (void)state;
    fixture_start(f, &limits);
    client = fixture_connect(f);
    fake_open(&f->fake, "t", 1, 100000 * 50);
    fake_hold(&f->fake, false, true);
    for (int i = 0; i < 50; i++) {
        client_printf(client, "GET /api/segment/get/t?count=100000 HTTP/1.1\r\n" HOST "\r\n");
    }
    /* Closed by the server while nothing is read: the socket reports it. */
    do {
        struct pollfd hung_up = {.fd = client->fd, .events = POLLRDHUP};

        assert_int_equal(poll(&hung_up, 1, CLIENT_TIMEOUT_S * 1000), 1);
        if ((hung_up.revents & (POLLRDHUP | POLLERR | POLLHUP)) != 0) {
            break;
        }
    } while (true);
    while ((got = recv(client->fd, buffer, sizeof(buffer), 0)) > 0) {
        total += (size_t)got;
    }
    assert_true(total < 50 * 500000);
    client_close(client);
    fixture_stop(f);
    free(f);
}

/* --- many connections --- */

static void test_connection_limit(void **state)
{
    const struct http_config limits = {.connections = 3};
    struct client *refused[LIMIT_HTTP_REFUSED];
    struct client *clients[3];
    struct fixture *f = zeroed(sizeof(*f));
    struct client *beyond;
    struct reply reply;

    (void)state;
    fixture_start(f, &limits);
    clients[0] = f->client;
    for (int i = 0; i < 3; i++) {
        clients[i] = i > 0 ? fixture_connect(f) : f->client;
        client_expect(clients[i], "GET", "/livez", 200, NULL);
    }
    for (int i = 0; i < LIMIT_HTTP_REFUSED; i++) {
        refused[i] = fixture_connect(f);
        client_read(refused[i], false, &reply);
        assert_int_equal(reply.status, 503);
        assert_non_null(strstr(reply.body, "\"code\":\"overloaded\""));
        assert_string_equal(reply_header(&reply, "Connection"), "close");
        assert_string_equal(reply_header(&reply, "Retry-After"), "1");
        reply_release(&reply);
    }
    /* Too many even to be told so. */
    beyond = fixture_connect(f);
    client_expect_end(beyond);
    client_close(beyond);
    for (int i = 0; i < LIMIT_HTTP_REFUSED; i++) {
        client_expect_end(refused[i]);
        client_close(refused[i]);
    }
    /* Those who were there are served all the time, and room that is freed is used. */
    client_expect(clients[2], "GET", "/livez", 200, NULL);
    client_close(clients[2]);
    do {
        beyond = fixture_connect(f);
        client_request(beyond, "GET", "/livez", NULL);
        client_read(beyond, false, &reply);
        reply_release(&reply);
        client_close(beyond);
    } while (reply.status != 200);
    client_close(clients[1]);
    fixture_stop(f);
    free(f);
}

/* No descriptors left: who comes is told so, those there are served, and later all is well again. */
static void test_out_of_descriptors(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    struct rlimit tight;
    struct client *client;
    struct reply reply;
    int next;

    /* Accepted for certain, so that no descriptor comes behind the next free one. */
    client_expect(f->client, "GET", "/livez", 200, NULL);
    next = dup(f->client->fd);
    assert_true(next > 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    client = fixture_connect(f);
    client_read(client, false, &reply);
    assert_int_equal(reply.status, 503);
    assert_string_equal(reply_header(&reply, "Retry-After"), "1");
    reply_release(&reply);
    client_expect(f->client, "GET", "/livez", 200, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    client_close(client);
    client = fixture_connect(f);
    client_expect(client, "GET", "/livez", 200, NULL);
    client_close(client);
}

static void test_many_slow_connections(void **state)
{
    enum { COUNT = 400 };
    struct client *slow[COUNT];
    struct fixture *f = *state;

    for (int i = 0; i < COUNT; i++) {
        slow[i] = fixture_connect(f);
        client_send(slow[i], "GET /livez HTT", 14);
    }
    client_expect(f->client, "GET", "/livez", 200, NULL);
    for (int i = 0; i < COUNT; i++) {
        client_printf(slow[i], "P/1.1\r\n" HOST "\r\n");
        expect_reply(slow[i], 200, NULL);
        client_close(slow[i]);
    }
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
        TEST(test_reply_survives_unread_input),
        TEST(test_bodies_limit),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_waiting_is_not_idle),
        TEST(test_unread_replies_stop_the_reading),
        TEST(test_output_limit),
        cmocka_unit_test(test_write_stall_closes),
        cmocka_unit_test(test_connection_limit),
        TEST(test_out_of_descriptors),
        TEST(test_many_slow_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
