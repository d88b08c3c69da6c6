/*
 * test_conn_proxy.c - connections that proxies make: with the header of the PROXY protocol, without
 * it, and with one from somebody who is no proxy; over HTTP, RESP and TLS, whole and byte by byte.
 */
#include <arpa/inet.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/tests/tls_world.h"
#include "src/base/assert.h"

#define V1 "PROXY TCP4 203.0.113.9 10.0.0.2 4000 8080\r\n"
#define V2_HEAD "\r\n\r\n\0\r\nQUIT\n"
#define V2 V2_HEAD "\x21\x11\0\x13\xcb\0\x71\x09\x0a\0\0\x02\x0f\xa0\x1f\x90\x04\0\4noop"
#define V6 "PROXY TCP6 2001:db8:1:2:3::4 2001:db8::2 4000 8080\r\n"
#define LOCAL V2_HEAD "\x20\0\0\0"
#define GET "GET /api/segment/get/plain HTTP/1.1\r\nHost: a\r\n\r\n"
#define INCR "*2\r\n$4\r\nINCR\r\n$5\r\nplain\r\n"
#define BYTES(text) text, sizeof(text) - 1

static struct made ca;
static struct made server;
static struct tls *tls;
static struct conn_world plain;
static struct conn_world sealed;
static const struct sockaddr_in proxy = {.sin_family = AF_INET, .sin_addr = {0x0700000a}};
static const struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr = {0x0800000a}};

static int setup(void **state)
{
    (void)state;
    conn_world_start(&plain);
    plain.settings.proxies = "10.0.0.7";
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    conn_world_stop(&plain);
    return 0;
}

static int setup_sealed(void **state)
{
    (void)state;
    tls = tls_world_open(&ca, &server, &sealed);
    sealed.settings.proxies = "10.0.0.7";
    return 0;
}

static int teardown_sealed(void **state)
{
    (void)state;
    tls_world_close(&ca, &server, tls, &sealed);
    return 0;
}

static void begin(struct conn_world *world, const struct sockaddr_in *peer, bool resp)
{
    conn_world_reset(world);
    world->peer = (const struct sockaddr *)peer;
    world->resp = resp;
    conn_world_connect(world);
}

static void send_in(struct conn_world *world, const char *bytes, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece) {
        conn_world_send(world, bytes + at, len - at < piece ? len - at : piece);
    }
}

static bool replied(const struct conn_world *world, const char *text)
{
    return memmem(world->replies.data, world->replies.len, text, strlen(text)) != NULL;
}

/* The port of the client; 0: nobody says one. */
static unsigned port_of(const struct conn *conn)
{
    struct sockaddr_storage address = {0};

    assert_true(conn_address(conn, &address));
    return address.ss_family == AF_INET    ? ntohs(((struct sockaddr_in *)&address)->sin_port)
           : address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port)
                                           : 0;
}

static void test_the_client_is_whom_the_header_names(void **state)
{
    static const struct {
        const char *header;
        size_t len;
        const char *client;
        unsigned port;
    } cases[] = {
        {BYTES(V1), "203.0.113.9", 4000},
        {BYTES(V2), "203.0.113.9", 4000},
        {BYTES(V6), "2001:db8:1:2::/64", 4000},
        {BYTES(LOCAL), "10.0.0.7", 0},
        {BYTES("PROXY UNKNOWN\r\n"), "10.0.0.7", 0},
    };
    struct conn_world *world = &plain;

    (void)state;
    for (size_t i = 0; i < 4 * (sizeof cases / sizeof cases[0]); i++) {
        const size_t piece = i % 2 == 0 ? SIZE_MAX / 2 : 1;
        const bool resp = i % 4 >= 2;
        const size_t at = i / 4;

        begin(world, &proxy, resp);
        assert_int_equal(world->conn->state, CONN_PROXY);
        assert_string_equal(world->conn->peer->name, "10.0.0.7");
        send_in(world, cases[at].header, cases[at].len, piece);
        assert_int_equal(world->replies.len, 0);
        assert_string_equal(world->conn->peer->name, cases[at].client);
        assert_ptr_equal(world->conn->client, world->conn->peer);
        assert_int_equal(world->conn->peer->connections, 1);
        assert_int_equal(port_of(world->conn), cases[at].port);
        send_in(world, resp ? INCR : GET, strlen(resp ? INCR : GET), piece);
        assert_true(replied(world, resp ? ":1\r\n" : "\r\n\r\n1"));
        conn_world_disconnect(world);
    }
}

/* What is after the header in the same segment is read, too. */
static void test_all_in_one_segment(void **state)
{
    struct conn_world *world = &plain;

    (void)state;
    begin(world, &proxy, false);
    conn_world_send(world, BYTES(V1 GET GET));
    assert_true(replied(world, "\r\n\r\n2"));
    conn_world_disconnect(world);
}

/* Another header after the first one is nothing but a bad request. */
static void test_one_header_is_enough(void **state)
{
    struct conn_world *world = &plain;

    (void)state;
    begin(world, &proxy, false);
    conn_world_send(world, BYTES(V1 V1 GET));
    assert_true(replied(world, "HTTP/1.1 400 "));
    assert_false(replied(world, "HTTP/1.1 200 "));
    assert_true(world->ended);
    conn_world_disconnect(world);
}

static void test_a_proxy_must_send_it(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {{BYTES(GET)},
                 {BYTES(INCR)},
                 {BYTES("\r\n\r\n\r\n" GET)},
                 {BYTES("PROXY TCP4 nobody\r\n" GET)},
                 {BYTES("\x16\x03\x01\x02\0")}};
    struct conn_world *world = &plain;

    (void)state;
    for (size_t i = 0; i < 4 * (sizeof cases / sizeof cases[0]); i++) {
        const bool resp = i % 2 == 1;

        begin(world, &proxy, resp);
        send_in(world, cases[i / 4].bytes, cases[i / 4].len, i % 4 >= 2 ? 1 : SIZE_MAX / 2);
        assert_true(replied(world, resp ? "-ERR bad_request: " : "HTTP/1.1 400 "));
        assert_true(replied(world, "proxy.from names 10.0.0.7, so each connection from there"));
        assert_true(world->ended);
        conn_world_disconnect(world);
        assert_int_equal(world->asked.len, 0);
    }
}

static void test_others_may_not_send_it(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {{BYTES(V1)}, {BYTES(V2)}, {BYTES("PROXY UNKNOWN\r\n")}, {BYTES(LOCAL)}};
    struct conn_world *world = &plain;

    (void)state;
    for (size_t i = 0; i < 4 * (sizeof cases / sizeof cases[0]); i++) {
        const bool resp = i % 2 == 1;

        begin(world, &other, resp);
        assert_int_equal(world->conn->state, CONN_IDLE);
        send_in(world, cases[i / 4].bytes, cases[i / 4].len, i % 4 >= 2 ? 1 : SIZE_MAX / 2);
        conn_world_send(world, resp ? INCR : GET, strlen(resp ? INCR : GET));
        assert_true(replied(world, resp ? "-ERR bad_request: " : "HTTP/1.1 400 "));
        assert_true(replied(world, "a header of the PROXY protocol from 10.0.0.8: let proxy.from"));
        assert_true(world->ended);
        conn_world_disconnect(world);
        assert_int_equal(world->asked.len, 0);
    }
}

/* A silent proxy, one that sends a byte now and then, and one that hangs up. */
static void test_a_header_has_its_time(void **state)
{
    struct conn_world *world = &plain;

    (void)state;
    begin(world, &proxy, false);
    conn_world_pass(world, LIMIT_HTTP_HEAD_MS - 1);
    conn_world_send(world, BYTES("PROXY TCP4"));
    assert_false(world->ended);
    conn_world_pass(world, 1);
    assert_true(world->ended);
    assert_int_equal(world->replies.len, 0);
    conn_world_disconnect(world);
    begin(world, &proxy, false);
    conn_world_send(world, BYTES("PROXY TCP4"));
    conn_world_disconnect(world);
    begin(world, &proxy, false); /* then it is a connection as any other */
    conn_world_send(world, BYTES(V1));
    conn_world_pass(world, LIMIT_HTTP_HEAD_MS);
    assert_false(world->ended);
    conn_world_pass(world, 2 * LIMIT_HTTP_IDLE_MS);
    assert_true(world->ended);
    conn_world_disconnect(world);
}

static void test_the_header_comes_before_tls(void **state)
{
    static const struct {
        const char *header;
        size_t len;
    } cases[] = {{BYTES(V1)}, {BYTES(V2)}};
    struct conn_world *world = &sealed;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct tls_user client;
        struct buf wire = BUF_INIT;

        begin(world, &proxy, false);
        tls_user_make(&client, world, &ca, NULL);
        buf_put(&wire, cases[i / 2].header, cases[i / 2].len);
        tls_user_wire(&client, &wire);
        send_in(world, (char *)wire.data, wire.len, i % 2 == 0 ? SIZE_MAX / 2 : 1);
        assert_string_equal(world->conn->peer->name, "203.0.113.9");
        tls_user_take(&client);
        tls_user_flush(&client);
        assert_true(SSL_is_init_finished(client.ssl));
        tls_user_ask(&client, BYTES(ASK));
        assert_true(client.plain.len > 0);
        buf_free(&wire);
        tls_user_close(&client);
    }
}

/* TLS has not begun: each side is told in plain words. */
static void test_wrong_ones_at_tls(void **state)
{
    struct conn_world *world = &sealed;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        begin(world, &other, i == 1);
        conn_world_send(world, BYTES(V1));
        assert_true(replied(world, "let proxy.from name that address"));
        conn_world_disconnect(world);
        begin(world, &other, i == 1);
        conn_world_send(world, BYTES(V2));
        assert_true(replied(world, "let proxy.from name that address"));
        conn_world_disconnect(world);
        begin(world, &proxy, i == 1);
        conn_world_send(world, BYTES("\x16\x03\x01\x02\0\x01"));
        assert_true(replied(world, "proxy.from names 10.0.0.7"));
        conn_world_disconnect(world);
    }
    world->resp = false;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SEALED(name) cmocka_unit_test_setup_teardown(name, setup_sealed, teardown_sealed)
    const struct CMUnitTest tests[] = {
        TEST(test_the_client_is_whom_the_header_names),
        TEST(test_all_in_one_segment),
        TEST(test_one_header_is_enough),
        TEST(test_a_proxy_must_send_it),
        TEST(test_others_may_not_send_it),
        TEST(test_a_header_has_its_time),
        SEALED(test_the_header_comes_before_tls),
        SEALED(test_wrong_ones_at_tls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
