/*
 * test_cluster.c - addresses that are taken and refused, and when another listener is believed.
 */
#include "src/ctl/net/cluster.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/tests/unit/test.h"

#define TOLD "this route is served at the other listener: admin.listen, "

static int parse(struct servers *servers, const char *text, const char *ca)
{
    struct settings settings = {0};
    struct buf why = BUF_INIT;
    int err;

    settings_set(&settings, SETTING_SERVER, text);
    if (ca != NULL) {
        settings_set(&settings, SETTING_CA, ca);
    }
    err = servers_parse(servers, &settings, &why);
    assert_true((err != 0) == (why.len > 0));
    buf_free(&why);
    settings_free(&settings);
    return err;
}

static void test_addresses(void **state)
{
    static const char *const wrong[] = {
        "",       "a",      "a:",        "a:99999", "a:1,,b:2",
        "a:1,",   "[::1:1", "::1:1",     "a:1/x",   "u@a:1",
        "a b:1",  "a:1?x",  "ftp://a:1", "http://", "https://https://a:1",
        "h\xff:1"};
    struct servers servers;

    (void)state;
    assert_int_equal(parse(&servers, "a:1,https://b:2/,http://[::1]:3", NULL), 0);
    assert_int_equal(servers.count, 3);
    assert_string_equal(servers.list[1].address, "b:2");
    assert_string_equal(servers.list[2].address, "[::1]:3");
    assert_true(!servers.list[0].tls && servers.list[1].tls && !servers.list[2].tls);
    assert_int_equal(parse(&servers, "a:1,http://b:2", "ca.pem"), 0);
    assert_true(servers.list[0].tls && !servers.list[1].tls);
    assert_int_equal(parse(&servers, "h\xc3\xa4:1", NULL), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(parse(&servers, wrong[i], NULL), ERR_INVALID);
    }
}

static void test_as_many_as_may_be(void **state)
{
    struct buf text = BUF_INIT;
    struct servers servers;

    (void)state;
    for (int i = 0; i < SERVERS_MAX; i++) {
        buf_printf(&text, "%sa:%d", i > 0 ? "," : "", i + 1);
    }
    buf_put(&text, "", 1);
    assert_int_equal(parse(&servers, (char *)text.data, NULL), 0);
    assert_int_equal(servers.count, SERVERS_MAX);
    text.len--;
    buf_put(&text, ",a:1", 5);
    assert_int_equal(parse(&servers, (char *)text.data, NULL), ERR_INVALID);
    buf_free(&text);
}

static void test_listeners(void **state)
{
    (void)state;
    assert_int_equal(servers_listener("/api/segment/get/x"), LISTENER_IDS);
    assert_int_equal(servers_listener("/api/snowflake/decode/1"), LISTENER_IDS);
    assert_int_equal(servers_listener("/api/tags?limit=1"), LISTENER_ADMIN);
    assert_int_equal(servers_listener("/api/segmentation"), LISTENER_ADMIN);
}

/* What a server at `asked` says of its other listener, and what is asked then; NULL: nothing. */
static void learn(const char *asked, const char *message, const char *expected)
{
    struct servers servers;
    struct server *server = &servers.list[0];
    const char *address = server->at[LISTENER_ADMIN];
    struct buf why = BUF_INIT;

    assert_int_equal(parse(&servers, asked, NULL), 0);
    assert_int_equal(server_learn(server, LISTENER_ADMIN, message, &why), expected != NULL);
    assert_int_equal(why.len > 0, expected == NULL);
    if (expected == NULL) {
        assert_string_equal(address, "");
    } else {
        assert_string_equal(address, expected);
        /* That one is no listener of this kind either: it is not followed any further. */
        assert_false(server_learn(server, LISTENER_ADMIN, message, &why));
        assert_string_equal(address, "");
    }
    assert_string_equal(server->at[LISTENER_IDS], asked);
    buf_free(&why);
}

static void test_other_listeners(void **state)
{
    (void)state;
    learn("127.0.0.1:80", TOLD "127.0.0.1:90", "127.0.0.1:90");
    learn("localhost:80", TOLD "127.0.0.1:90", "127.0.0.1:90");
    learn("10.0.0.1:80", TOLD "10.0.0.1:90", "10.0.0.1:90");
    learn("node1:80", TOLD "0.0.0.0:90", "node1:90");
    learn("[fe80::1]:80", TOLD "[::]:90", "[fe80::1]:90");
    /* Another machine's loopback address is this machine's here. */
    learn("10.0.0.1:80", TOLD "127.0.0.1:90", NULL);
    learn("node1:80", TOLD "localhost:90", NULL);
    learn("node1:80", TOLD "[::1]:90", NULL);
    /* What is no address. */
    learn("10.0.0.1:80", TOLD "same", NULL);
    learn("10.0.0.1:80", TOLD "u@h:90", NULL);
    learn("10.0.0.1:80", TOLD "h:90/x", NULL);
    learn("10.0.0.1:80", "no such words", NULL);
    learn("10.0.0.1:80", NULL, NULL);
}

/* --- files --- */

static void test_files_of_another_user(void **state)
{
    static const uid_t owners[] = {0, 4711};
    char path[] = "/tmp/leafctl-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(write(fd, "token", 5), 5);
    for (size_t i = 0; i < 2 && geteuid() == 0; i++) {
        struct settings settings = {0};
        BUF_LOCAL(why);

        assert_int_equal(fchown(fd, owners[i], 0), 0);
        settings_set(&settings, SETTING_TOKEN_FILE, path);
        assert_int_equal(settings_load(&settings, &why), i == 0 ? 0 : ERR_INVALID);
        assert_true(i == 0 || strstr(buf_text(&why), "belongs to another user (4711)") != NULL);
        settings_free(&settings);
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_as_many_as_may_be),
        cmocka_unit_test(test_listeners),
        cmocka_unit_test(test_other_listeners),
        cmocka_unit_test(test_files_of_another_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
