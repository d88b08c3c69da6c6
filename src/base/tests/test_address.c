/*
 * test_address.c - "host:port" taken apart, literals, and ports that are shared or taken.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/address.h"

static void test_split(void **state)
{
    static const struct {
        const char *text;
        const char *host; /* NULL: it is no address */
        const char *port;
        bool literal;
    } cases[] = {
        {"127.0.0.1:8080", "127.0.0.1", "8080", true},
        {"[::1]:0", "::1", "0", true},
        {"node-1.example:65535", "node-1.example", "65535", false},
        {"a:00001", "a", "00001", false},
        {"a:000001", NULL, NULL, false},
        {"a:65536", NULL, NULL, false},
        {"a:", NULL, NULL, false},
        {"a: 1", NULL, NULL, false},
        {":1", NULL, NULL, false},
        {"a", NULL, NULL, false},
        {"", NULL, NULL, false},
        {"::1:80", NULL, NULL, false},
        {"[a]:1", NULL, NULL, false},
        {"[]:1", NULL, NULL, false},
        {"[:1", NULL, NULL, false},
        {"a b:1", NULL, NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage sockaddr;
        struct address address;

        assert_int_equal(address_split(cases[i].text, &address),
                         cases[i].host != NULL ? 0 : ERR_INVALID);
        if (cases[i].host != NULL) {
            assert_string_equal(address.host, cases[i].host);
            assert_string_equal(address.port, cases[i].port);
            assert_int_equal(address_literal(&address, &sockaddr), cases[i].literal);
        }
    }
}

static void test_loopback_and_wildcard(void **state)
{
    static const char *const inside[] = {"127.0.0.1:1", "127.255.0.1:1", "[::1]:1",
                                         "localhost:1", "LocalHost:1",   "[::ffff:127.0.0.1]:1"};
    static const char *const outside[] = {
        "0.0.0.0:1",  "[::]:1",   "128.0.0.1:1",         "126.0.0.1:1",
        "10.0.0.1:1", "node:1",   "localhost.example:1", "[::ffff:10.0.0.1]:1",
        "[::2]:1",    "127.0.0.1"};

    (void)state;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        assert_true(address_is_loopback(inside[i]));
        assert_false(address_is_wildcard(inside[i]));
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_false(address_is_loopback(outside[i]));
        assert_int_equal(address_is_wildcard(outside[i]), i < 2);
    }
}

static void test_listen(void **state)
{
    struct sockaddr_storage sockaddr;
    int shared[2];
    int fd;

    (void)state;
    assert_int_equal(address_resolve("localhost:0", &sockaddr), 0);
    assert_int_equal(address_port(&sockaddr), 0);
    assert_int_equal(address_listen(&sockaddr, 1, false, &fd), 0);
    assert_int_not_equal(address_port(&sockaddr), 0);
    assert_int_equal(address_listen(&sockaddr, 1, true, &shared[0]), ERR_EXISTS);
    close(fd);
    assert_int_equal(address_listen(&sockaddr, 1, true, &shared[0]), 0);
    assert_int_equal(address_listen(&sockaddr, 1, true, &shared[1]), 0);
    assert_int_equal(address_listen(&sockaddr, 1, false, &fd), ERR_EXISTS);
    close(shared[0]);
    close(shared[1]);
}

/* An address that is not this machine's, or not yet; a name that nobody knows; no descriptor. */
static void test_what_cannot_be_had(void **state)
{
    struct sockaddr_storage at;
    struct rlimit usual;
    struct rlimit none;
    int fd = -1;

    (void)state;
    /* A documentation address (RFC 5737) that is nobody's. */
    assert_int_equal(address_resolve("192.0.2.1:0", &at), 0);
    assert_int_equal(address_listen(&at, 1, false, &fd), ERR_NOT_FOUND);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_string_equal(address_reason(ERR_NOT_FOUND, errno), "Cannot assign requested address");
    assert_non_null(strstr(address_hint(ERR_NOT_FOUND, EADDRNOTAVAIL), "not yet"));
    assert_int_equal(address_resolve("no-such-name.invalid:1", &at), ERR_NOT_FOUND);
    assert_int_equal(errno, 0);
    assert_non_null(strstr(address_reason(ERR_NOT_FOUND, 0), "name"));
    assert_int_equal(address_resolve("a:b", &at), ERR_INVALID);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){0, usual.rlim_max};
    assert_int_equal(address_resolve("127.0.0.1:0", &at), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(address_listen(&at, 1, false, &fd), ERR_NOMEM);
    assert_int_equal(errno, EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_non_null(strstr(address_hint(ERR_NOMEM, EMFILE), "limits"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split), cmocka_unit_test(test_loopback_and_wildcard),
        cmocka_unit_test(test_listen), cmocka_unit_test(test_what_cannot_be_had)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
