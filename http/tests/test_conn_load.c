/*
 * test_conn_load.c - greedy and slow readers, too many connections, no file descriptors left.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/tests/conn_world.h"
#include "http/tests/fixture.h"

#define HOST "Host: a\r\n"
#define LIVEZ "GET /livez HTTP/1.1\r\n" HOST

static void *zeroed(size_t size)
{
    void *memory = calloc(1, size);

    assert_non_null(memory);
    return memory;
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

/* Small replies that are not read: at LIMIT_HTTP_PIPELINE the server stops reading; it goes on when
 * the client reads, and nothing is lost. */
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
    uint64_t others;
    uint64_t last = 0;
    size_t sent;

    fake_hold(&f->fake, false, true);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(all + i * (sizeof(request) - 1), request, sizeof(request) - 1);
    }
    sent = send_until_stalled(client, all, len);
    assert_true(sent < len);
    segment_inspect(&tag->buffer, slots);
    assert_true(slots[0].next_id - 1 > LIMIT_HTTP_PIPELINE);
    assert_true(slots[0].next_id - 1 < sent / (sizeof(request) - 1));
    /* Others are not disturbed. */
    client_call(f->client, "GET", "/api/segment/get/t", NULL, &reply);
    others = strtoull(reply.body, NULL, 10);
    reply_release(&reply);
    for (size_t i = 0; i < sent / (sizeof(request) - 1); i++) {
        client_read(client, false, &reply);
        assert_int_equal(reply.status, 200);
        last += last + 1 == others ? 2 : 1;
        assert_int_equal(strtoull(reply.body, NULL, 10), last);
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

/* A reply that takes longer than the idle time to be read is still read whole. */
static void test_slow_reader_is_not_idle(void **state)
{
    enum { COUNT = 9 }; /* less than LIMIT_HTTP_OUTPUT_BYTES, more than the kernel holds */
    const struct http_settings limits = {.idle_ms = 500};
    struct fixture *f = zeroed(sizeof *f);
    struct client *slow;
    struct reply reply;

    (void)state;
    fixture_start(f, &limits);
    slow = fixture_connect(f);
    fake_hold(&f->fake, false, true);
    fake_open(&f->fake, "t", UINT64_C(1000000000000000), 100000 * COUNT);
    for (int i = 0; i < COUNT; i++) {
        client_printf(slow, "GET /api/segment/get/t?count=100000 HTTP/1.1\r\n" HOST "\r\n");
    }
    client_read(slow, false, &reply);
    reply_release(&reply);
    /* By then another one that is idle was closed. */
    client_close(f->client);
    f->client = fixture_connect(f);
    client_expect_end(f->client);
    for (int i = 1; i < COUNT; i++) {
        client_read(slow, false, &reply);
        assert_int_equal(reply.len, 100000 * 17);
        reply_release(&reply);
    }
    client_close(slow);
    fixture_stop(f);
    free(f);
}

static void test_write_stall_closes(void **state)
{
    const struct http_settings limits = {.write_ms = 60};
    struct fixture *f = zeroed(sizeof *f);
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
    while ((got = TEMP_FAILURE_RETRY(recv(client->fd, buffer, sizeof(buffer), 0))) > 0) {
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
    const struct http_settings limits = {.connections = 3};
    struct client *refused[LIMIT_HTTP_REFUSED];
    struct client *clients[3];
    struct fixture *f = zeroed(sizeof *f);
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

/* Who is too many is told so, and takes nothing with it that would keep others out. */
static void test_the_connections_of_an_address(void **state)
{
    const struct http_settings limits = {.quotas = {.connections = 2}};
    struct fixture *f = zeroed(sizeof *f);
    struct client *refused;
    struct client *second;
    struct reply reply = {0};

    (void)state;
    fixture_start(f, &limits);
    second = fixture_connect(f);
    client_expect(f->client, "GET", "/livez", 200, NULL);
    client_expect(second, "GET", "/livez", 200, NULL);
    for (unsigned i = 0; i < 3; i++) {
        refused = fixture_connect(f);
        client_read(refused, false, &reply);
        assert_int_equal(reply.status, 429);
        reply_release(&reply);
        client_expect_end(refused);
        client_close(refused);
    }
    client_close(second);
    do { /* until the server has heard that it is gone; the test's own limit of time ends it */
        second = fixture_connect(f);
        client_request(second, "GET", "/livez", NULL);
        client_read(second, false, &reply);
        reply_release(&reply);
        client_close(second);
    } while (reply.status != 200);
    fixture_stop(f);
    free(f);
}

static void test_the_bodies_of_an_address(void **state)
{
    const struct http_settings limits = {.quotas = {.bodies = 1}};
    static const char *const begun = "PUT /api/tags/t HTTP/1.1\r\nHost: x\r\n"
                                     "Content-Type: application/json\r\n"
                                     "Content-Length: 2\r\n\r\n{";
    struct fixture *f = zeroed(sizeof *f);
    struct client *other;
    struct reply reply;

    (void)state;
    fixture_start(f, &limits);
    client_expect(f->client, "GET", "/livez", 200, NULL);
    client_printf(f->client, "%s", begun);
    for (unsigned refused = 0; refused < 3;) {
        other = fixture_connect(f);
        client_request(other, "PUT", "/api/tags/t", "{}");
        client_read(other, false, &reply);
        refused += reply.status == 429; /* else the first had not come yet */
        reply_release(&reply);
        client_close(other);
    }
    client_printf(f->client, "}");
    client_read(f->client, false, &reply);
    assert_true(reply.status == 200 || reply.status == 201);
    reply_release(&reply);
    for (unsigned i = 0; i < 3; i++) { /* one after the other, on a connection and on others */
        client_call(f->client, "PUT", "/api/tags/t", "{}", &reply);
        assert_true(reply.status == 200 || reply.status == 201);
        reply_release(&reply);
    }
    other = fixture_connect(f);
    client_call(other, "PUT", "/api/tags/t", "{}", &reply);
    assert_true(reply.status == 200 || reply.status == 201);
    reply_release(&reply);
    client_close(other);
    fixture_stop(f);
    free(f);
}

/* No descriptors left: who comes is told so, those there are served, and later all is well
 * again. */
static void test_out_of_descriptors(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    struct rlimit tight;
    struct client *client;
    struct reply reply;
    int next;

    /* Accepted for certain, so that no descriptor comes after the next free one. */
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
        client_expect_reply(slow[i], 200, NULL);
        client_close(slow[i]);
    }
}

/* --- replies that are long in the making --- */

static int connect_and_ask(struct conn_world *world, const char *request)
{
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    conns_take(&world->loop->conns, &world->loop->acceptors[ACCEPT_HTTP].listener, fds[0], &nobody);
    assert_int_equal(send(fds[1], request, strlen(request), MSG_NOSIGNAL), strlen(request));
    return fds[1];
}

static bool has_reply(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK) == 1;
}

/* However many ask for such a reply at once, one is made in a turn of the loop: who asks for
 * something small waits for no more than one of them. */
/* Shows attack-long. */
static void test_large_replies_are_made_one_a_turn(void **state)
{
    enum { GREEDY = 8 };
    static const char *const paths[] = {"/metrics", "/api/audit", "/api/tags", "/api/status",
                                        "/openapi.json"};
    static struct conn_world world;

    (void)state;
    conn_world_start(&world);
    for (size_t path = 0; path < sizeof paths / sizeof paths[0]; path++) {
        char request[64];
        int fds[GREEDY + 1];
        int before = 0;

        conn_world_reset(&world);
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[path]);
        for (int i = 0; i < GREEDY; i++) {
            fds[i] = connect_and_ask(&world, request);
        }
        fds[GREEDY] = connect_and_ask(&world, LIVEZ "\r\n");
        for (int turns = 1; before < GREEDY; turns++) {
            int made = 0;

            (void)uv_run(&world.loop->uv, UV_RUN_NOWAIT);
            while (fake_turn(&world.fake)) {
            }
            for (int i = 0; i < GREEDY; i++) {
                made += has_reply(fds[i]);
            }
            assert_true(has_reply(fds[GREEDY]));
            assert_in_range(made, before, before + 1);
            before = made;
        }
        for (int i = 0; i <= GREEDY; i++) {
            close(fds[i]);
        }
        conn_world_rest(&world);
    }
    conn_world_stop(&world);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_unread_replies_stop_the_reading),
        TEST(test_output_limit),
        cmocka_unit_test(test_slow_reader_is_not_idle),
        cmocka_unit_test(test_write_stall_closes),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_the_connections_of_an_address),
        cmocka_unit_test(test_the_bodies_of_an_address),
        TEST(test_out_of_descriptors),
        TEST(test_many_slow_connections),
        cmocka_unit_test(test_large_replies_are_made_one_a_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
