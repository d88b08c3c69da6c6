/*
 * test_proxy.c - headers of the PROXY protocol, whole and byte by byte, with something after them;
 * what is none; and lists of proxies.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/server/proxy.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4 "\x0a\0\0\x01\x0a\0\0\x02\x0f\xa0\x1f\x90" /* 10.0.0.1:4000 to 10.0.0.2:8080 */
#define ZEROS "\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define V6 "\x20\x01" ZEROS "\x20\x01" ZEROS "\x0f\xa0\x1f\x90" /* [2001::]:4000 */
#define BEHIND "GET /"
#define BYTES(text) text, sizeof(text) - 1

static const char *address_of(const struct proxy_header *header, char out[64])
{
    char host[INET6_ADDRSTRLEN] = "";

    switch (header->client.any.sa_family) {
    case AF_INET:
        (void)inet_ntop(AF_INET, &header->client.v4.sin_addr, host, sizeof host);
        (void)snprintf(out, 64, "%s:%u", host, ntohs(header->client.v4.sin_port));
        return out;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &header->client.v6.sin6_addr, host, sizeof host);
        (void)snprintf(out, 64, "[%s]:%u", host, ntohs(header->client.v6.sin6_port));
        return out;
    default:
        return "none";
    }
}

/* Give it all in pieces of so many bytes. *ret_used: in all. */
static enum proxy_step take(const uint8_t *data, size_t len, size_t piece,
                            struct proxy_header *header, size_t *ret_used)
{
    enum proxy_step step = PROXY_MORE;

    *header = (struct proxy_header){0};
    *ret_used = 0;
    while (step == PROXY_MORE && *ret_used < len) {
        size_t left = len - *ret_used;
        size_t used = 0;

        step = proxy_take(header, data + *ret_used, left < piece ? left : piece, &used);
        assert_true(used >= 1 && used <= piece);
        *ret_used += used;
    }
    return step;
}

/* The header, whatever is after it and however it is cut, has this address and its own bytes; all
 * that is shorter wants more. */
static void expect_header(const void *data, size_t len, const char *address)
{
    struct proxy_header header;
    uint8_t bytes[70000];
    char text[64];
    size_t used;

    assert_true(len + sizeof BEHIND < sizeof bytes);
    memcpy(bytes, data, len);
    memcpy(bytes + len, BEHIND, sizeof BEHIND);
    for (size_t piece = 1; piece <= len + sizeof BEHIND; piece += piece < 200 ? 1 : 997) {
        assert_int_equal(take(bytes, len + sizeof BEHIND, piece, &header, &used), PROXY_DONE);
        assert_int_equal(used, len);
        assert_string_equal(address_of(&header, text), address);
    }
    for (size_t cut = 1; cut < len; cut += cut < 200 ? 1 : 997) {
        assert_int_equal(take(bytes, cut, len, &header, &used), PROXY_MORE);
        assert_int_equal(used, cut);
    }
}

static void test_headers(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *address;
    } cases[] = {
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000 8080\r\n"), "10.0.0.1:4000"},
        {BYTES("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"),
         "255.255.255.255:65535"},
        {BYTES("PROXY TCP6 2001:db8::1 2001:db8::2 4000 0\r\n"), "[2001:db8::1]:4000"},
        {BYTES("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
               "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
         "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
        {BYTES("PROXY UNKNOWN\r\n"), "none"},
        {BYTES("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
               "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"), /* 107 bytes */
         "none"},
        {BYTES(SIGNATURE "\x21\x11\0\x0c" V4), "10.0.0.1:4000"},
        {BYTES(SIGNATURE "\x21\x11\0\x13" V4 "\x04\0\4noop"), "10.0.0.1:4000"}, /* TLVs */
        {BYTES(SIGNATURE "\x21\x21\0\x24" V6), "[2001::]:4000"},
        {BYTES(SIGNATURE "\x21\x21\0\x2b" V6 "\x04\0\4noop"), "[2001::]:4000"},
        {BYTES(SIGNATURE "\x20\0\0\0"), "none"}, /* LOCAL */
        {BYTES(SIGNATURE "\x20\x11\0\x0c" V4), "none"},
        {BYTES(SIGNATURE "\x20\x11\0\x03"
                         "abc"),
         "none"},
        {BYTES(SIGNATURE "\x21\0\0\x02"
                         "ab"),
         "none"},                                       /* of no family */
        {BYTES(SIGNATURE "\x21\x12\0\x0c" V4), "none"}, /* UDP */
    };
    static uint8_t longest[16 + UINT16_MAX] = SIGNATURE "\x21\x11\xff\xff" V4;
    static uint8_t from_unix[16 + 216] = SIGNATURE "\x21\x31\0\xd8/run/client";

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_header(cases[i].bytes, cases[i].len, cases[i].address);
    }
    expect_header(longest, sizeof longest, "10.0.0.1:4000");
    expect_header(from_unix, sizeof from_unix, "none");
}

static void test_what_is_none(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {BYTES("GET / HTTP/1.1\r\n")},
        {BYTES("*1\r\n$4\r\nPING\r\n")},
        {BYTES("\x16\x03\x01\x02\0\x01")},
        {BYTES("\0")},
        {BYTES("proxy TCP4 10.0.0.1 10.0.0.2 4000 8080\r\n")},
        {BYTES("PROXY\r\n")},
        {BYTES("PROXY \r\n")},
        {BYTES("PROXY TCP4\r\n")},
        {BYTES("PROXY TCP5 10.0.0.1 10.0.0.2 4000 8080\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000 8080\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000 \r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000 8080 \r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000 8080 1\r\n")},
        {BYTES("PROXY TCP4  10.0.0.1 10.0.0.2 4000 8080\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 65536 8080\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 4000 99999\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.0.2 -1 8080\r\n")},
        {BYTES("PROXY TCP4 10.0.0.256 10.0.0.2 4000 8080\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1 10.0.2 4000 8080\r\n")},
        {BYTES("PROXY TCP4 2001:db8::1 2001:db8::2 4000 8080\r\n")},
        {BYTES("PROXY TCP6 10.0.0.1 10.0.0.2 4000 8080\r\n")},
        {BYTES("PROXY TCP4 10.0.0.1\0 10.0.0.2 4000 8080\r\n")},
        {BYTES("PROXY UNKNOWN\0\r\n")},
        {BYTES(SIGNATURE "\x11\x11\0\x0c" V4)}, /* version 1 */
        {BYTES(SIGNATURE "\x22\x11\0\x0c" V4)}, /* no such command */
        {BYTES(SIGNATURE "\x21\x11\0\x0b" V4)}, /* too short for its addresses */
        {BYTES(SIGNATURE "\x21\x21\0\x23" V6)},
        {BYTES("\r\n\r\n\0\r\nquit\n\x21\x11\0\x0c" V4)},
    };
    static const char unknown[] = "PROXY UNKNOWN ";
    char line[PROXY_LINE_BYTES + 1];
    struct proxy_header header;
    size_t used;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *bytes = (const uint8_t *)cases[i].bytes;

        assert_int_equal(take(bytes, cases[i].len, 1, &header, &used), PROXY_BAD);
        assert_int_equal(take(bytes, cases[i].len, 1000, &header, &used), PROXY_BAD);
    }
    memset(line, 'x', sizeof line); /* one byte too long */
    memcpy(line, unknown, sizeof unknown - 1);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    assert_int_equal(take((uint8_t *)line, sizeof line, 1, &header, &used), PROXY_BAD);
    assert_int_equal(used, PROXY_LINE_BYTES);
}

/* Of two protocols that know no such thing: the same however it is cut, as each has read the last
 * of these bytes before it gives up. */
static void test_beginnings(void **state)
{
    (void)state;
    assert_true(is_proxy_header(BYTES("PROXY TCP4 ")));
    assert_true(is_proxy_header(BYTES("PROXY ")));
    assert_true(is_proxy_header(BYTES(SIGNATURE)));
    assert_true(is_proxy_header(BYTES("\r\n\r\n\0")));
    assert_false(is_proxy_header(BYTES("PROXY")));
    assert_false(is_proxy_header(BYTES("PROXYS ")));
    assert_false(is_proxy_header(BYTES("\r\n\r\n")));
    assert_false(is_proxy_header(BYTES("\r\n\r\nGET")));
    assert_false(is_proxy_header("", 0));
}

static bool is_named(const char *list, const char *address)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        return proxy_is_named(list, (struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return proxy_is_named(list, (struct sockaddr *)&v6);
}

static void test_who_is_named(void **state)
{
    static const struct sockaddr unix_socket = {.sa_family = AF_UNIX};

    (void)state;
    assert_false(is_named("", "10.0.0.7"));
    assert_true(is_named("10.0.0.7", "10.0.0.7"));
    assert_true(is_named("10.0.0.7", "::ffff:10.0.0.7"));
    assert_true(is_named("::ffff:10.0.0.7", "10.0.0.7"));
    assert_false(is_named("10.0.0.7", "10.0.0.8"));
    assert_false(is_named("10.0.0.7", "2001:db8::1"));
    assert_true(is_named("10.0.0.7, 10.1.0.0/16", "10.1.255.255"));
    assert_false(is_named("10.0.0.7, 10.1.0.0/16", "10.2.0.0"));
    assert_true(is_named("10.0.0.128/25", "10.0.0.128"));
    assert_false(is_named("10.0.0.128/25", "10.0.0.127"));
    assert_true(is_named("0.0.0.0/0", "203.0.113.9"));
    assert_false(is_named("0.0.0.0/0", "2001:db8::1"));
    assert_true(is_named("10.0.0.7/32", "10.0.0.7"));
    assert_false(is_named("10.0.0.7/32", "10.0.0.6"));
    assert_true(is_named("2001:db8::/32,10.0.0.7", "2001:db8:ffff::1"));
    assert_false(is_named("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(is_named("::/0", "2001:db8::1"));
    assert_true(is_named("2001:db8::1/128", "2001:db8::1"));
    assert_false(proxy_is_named("0.0.0.0/0,::/0", &unix_socket));
}

static void test_lists(void **state)
{
    static const char *const good[] = {"", "10.0.0.7", " 10.0.0.7 , 10.1.0.0/16\t,::1",
                                       "0.0.0.0/0,::/0", "2001:db8::/32"};
    static const struct {
        const char *list;
        const char *item;
    } bad[] = {
        {" ", ""},
        {",", ","},
        {"10.0.0.7,", "10.0.0.7,"},
        {",10.0.0.7", ",10.0.0.7"},
        {"10.0.0.7,,10.0.0.8", ",10.0.0.8"},
        {"10.0.0", "10.0.0"},
        {"10.0.0.7, proxy.example", "proxy.example"},
        {"10.0.0.7/33", "10.0.0.7/33"},
        {"10.0.0.7/", "10.0.0.7/"},
        {"10.0.0.0/-1", "10.0.0.0/-1"},
        {"10.0.0.0/1x", "10.0.0.0/1x"},
        {"10.0.0.0/8/8", "10.0.0.0/8/8"},
        {"10.0.0.7/24", "10.0.0.7/24"},
        {"2001:db8::/129", "2001:db8::/129"},
        {"2001:db8::1/64", "2001:db8::1/64"},
        {"[::1]", "[::1]"},
        {"*", "*"},
        {"10.0.0.7:80", "10.0.0.7:80"},
        {"10.0.0.7 10.0.0.8", "10.0.0.7 10.0.0.8"},
    };
    const char *item;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(proxy_is_list(good[i], &item));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(proxy_is_list(bad[i].list, &item));
        assert_string_equal(item, bad[i].item);
    }
}

/* Each address and network has one form. */
static void test_networks(void **state)
{
    static const struct {
        const char *text;
        const char *form; /* NULL: it is none */
    } networks[] = {
        {"10.0.0.7", "10.0.0.7"},
        {"10.0.0.7/32", "10.0.0.7"},
        {"10.0.0.0/8", "10.0.0.0/8"},
        {"0.0.0.0/0", "0.0.0.0/0"},
        {"::ffff:10.0.0.7", "10.0.0.7"},
        {"::ffff:10.0.0.0/104", "10.0.0.0/8"},
        {"::ffff:0:0/96", "0.0.0.0/0"},
        {"::/0", "::/0"},
        {"2001:DB8:0:0::1", "2001:db8::1"},
        {"2001:db8::/32", "2001:db8::/32"},
        {"2001:db8::1/128", "2001:db8::1"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"},
        {"10.0.0.7/8", NULL},
        {"10.0.0", NULL},
        {"shop", NULL},
        {"", NULL},
        {"::/129", NULL},
        {"10.0.0.7, 10.0.0.8", NULL},
    };
    char form[PROXY_NETWORK_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        assert_int_equal(proxy_network(networks[i].text, strlen(networks[i].text), form),
                         networks[i].form != NULL);
        if (networks[i].form != NULL) {
            assert_string_equal(form, networks[i].form);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),    cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_beginnings), cmocka_unit_test(test_who_is_named),
        cmocka_unit_test(test_lists),      cmocka_unit_test(test_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
