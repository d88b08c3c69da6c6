/*
 * test_resp_auth.c - who may ask what over RESP, over real sockets: AUTH and HELLO, roles, tags
 * that are others', tokens that change while connections are open, and what the audit has of it.
 *
 * Thread: one, beside the loop's and the backend's.
 *
 * Shows attack-resp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tests/guarded.h"
#include "http/resp/api/tests/resp_ask.h"
#include "src/base/assert.h"

static const struct guarded_line lines[] = {
    {"root", "roles=all"},
    {"reader", "roles=read"},
    {"taker", "roles=ids"},
    {"shop", "roles=ids,read prefix=a/"},
    {"few", "roles=ids ids-per-s=2"},
    {NULL, NULL},
};

struct scene {
    struct fixture f;
    struct client *resp;
};

static int setup_with(void **state, unsigned anonymous_roles)
{
    const struct guarded_settings settings = {
        .lines = lines, .anonymous_roles = anonymous_roles, .resp = true};
    struct scene *scene = malloc(sizeof *scene);

    ASSERT(scene != NULL);
    guarded_start(&scene->f, &settings);
    scene->resp = fixture_connect_resp(&scene->f);
    *state = scene;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, ROLE_HEALTH);
}

static int setup_open(void **state)
{
    return setup_with(state, ROLE_IDS);
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    client_close(scene->resp);
    fixture_stop(&scene->f);
    free(scene);
    return 0;
}

/* Refused so; and the audit has one entry more, with what was asked, for this reason. */
static void denied(struct scene *scene, const char *words, const char *begin, const char *text,
                   const char *what, const char *reason)
{
    unsigned before = guarded_audit_count(&scene->f);

    resp_expect_error(scene->resp, words, begin, text);
    assert_int_equal(guarded_audit_count(&scene->f), before + 1);
    guarded_audit_has(&scene->f, "\"outcome\":\"refused\"");
    guarded_audit_has(&scene->f, what);
    guarded_audit_has(&scene->f, reason);
}

static void test_without_a_token(void **state)
{
    struct scene *scene = *state;

    denied(scene, "INCR a/1", "-NOAUTH unauthorized: ", "this needs a token: AUTH TOKEN",
           "\"what\":\"INCR a/1\"", "\"answer\":\"no token\"");
    guarded_audit_has(&scene->f,
                      "\"who\":\"anonymous\",\"by\":\"nothing\",\"address\":\"127.0.0.1:");
    denied(scene, "GET a/1", "-NOAUTH unauthorized: ", "", "\"what\":\"GET a/1\"",
           "\"status\":401");
    denied(scene, "LEAFD.SNOWFLAKE", "-NOAUTH unauthorized: ", "", "\"what\":\"LEAFD.SNOWFLAKE\"",
           "no token");
    resp_expect(scene->resp, "PING", "+PONG\r\n");
    resp_expect(scene->resp, "SELECT 0", "+OK\r\n");
    resp_expect(scene->resp, "CLIENT SETNAME x", "+OK\r\n");
}

static void test_auth(void **state)
{
    struct scene *scene = *state;

    resp_expect_error(scene->resp, "INCR a/1", "-NOAUTH unauthorized: ", "");
    resp_expect(scene->resp, "AUTH root-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR a/1", ":1\r\n"); /* the same bytes as before */
    resp_expect(scene->resp, "AUTH default taker-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR a/1", ":2\r\n");
    resp_expect(scene->resp, "AUTH root root-token", "+OK\r\n");
    resp_expect(scene->resp, "GET a/1", "$4\r\n1001\r\n");
}

static void test_tokens_that_are_none(void **state)
{
    struct scene *scene = *state;
    char words[600] = "AUTH ";

    resp_expect(scene->resp, "AUTH taker-token", "+OK\r\n");
    denied(scene, "AUTH secret-of-mine", "-WRONGPASS wrong_token: ", "not known here",
           "\"what\":\"AUTH\"", "\"answer\":\"unknown token\"");
    denied(scene, "AUTH reader taker-token", "-WRONGPASS wrong_token: ", "not this user's",
           "\"what\":\"AUTH\"", "\"answer\":\"another's token\"");
    denied(scene, "HELLO 3 AUTH default x", "-WRONGPASS wrong_token: ", "", "\"what\":\"HELLO\"",
           "unknown token");
    memset(words + 5, 'x', 513);
    resp_expect_error(scene->resp, words, "-WRONGPASS wrong_token: ", "");
    /* Who it stood for before, it still does, in the same version. */
    resp_expect(scene->resp, "INCR a/1", ":1\r\n");
    resp_expect(scene->resp, "CLIENT GETNAME", "$-1\r\n");
}

static void test_roles(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "AUTH taker-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR c", ":1\r\n");
    denied(scene, "GET c", "-NOPERM forbidden: ", "this needs the role read, and taker has ids",
           "\"what\":\"GET c\"", "\"answer\":\"the role is missing\"");
    guarded_audit_has(&scene->f, "\"who\":\"taker\",\"by\":\"token\"");
    resp_expect(scene->resp, "AUTH reader-token", "+OK\r\n");
    resp_expect(scene->resp, "GET c", "$4\r\n1001\r\n");
    denied(scene, "INCR c", "-NOPERM forbidden: ", "needs the role ids", "\"what\":\"INCR c\"",
           "the role is missing");
    denied(scene, "LEAFD.NEXT c COUNT 2", "-NOPERM forbidden: ", "", "\"what\":\"LEAFD.NEXT c\"",
           "the role is missing");
    denied(scene, "LEAFD.DECODE 1", "-NOPERM forbidden: ", "", "\"what\":\"LEAFD.DECODE\"",
           "the role is missing");
}

/* The name of a tag is taken as it stands. */
static void test_prefixes(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "AUTH shop-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR a/1", ":1\r\n");
    denied(scene, "INCR b/1", "-NOPERM forbidden_tag: ",
           "this tag is another's: shop has the tags that begin with \"a/\"",
           "\"what\":\"INCR b/1\"", "\"answer\":\"another's tag\"");
    denied(scene, "INCRBY c 2", "-NOPERM forbidden_tag: ", "", "\"what\":\"INCRBY c\"",
           "another's");
    denied(scene, "GET c", "-NOPERM forbidden_tag: ", "", "\"what\":\"GET c\"", "another's");
    denied(scene, "INCR a%2F1", "-NOPERM forbidden_tag: ", "", "\"what\":\"INCR a%2F1\"",
           "another");
    resp_expect(scene->resp, "INCR a/1", ":2\r\n");
}

static void test_what_anonymous_may(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "INCR c", ":1\r\n");
    denied(scene, "GET c", "-NOAUTH unauthorized: ", "", "\"what\":\"GET c\"", "no token");
    resp_send(scene->resp, "INFO");
    resp_expect_line(scene->resp, "$", "");
    resp_expect_bytes(scene->resp, "# Server\r\nserver_name:leafd\r\nredis_version:7.0.0\r\n"
                                   "redis_mode:standalone\r\n\r\n# Persistence\r\n");
}

/* A token that is taken out of the file, on a connection that has shown it. */
static void test_reload(void **state)
{
    static const struct guarded_line fewer[] = {{"root", "roles=all"}, {NULL, NULL}};
    static const struct guarded_line other[] = {
        {"root", "roles=all"}, {"taker", "roles=read"}, {NULL, NULL}};
    struct scene *scene = *state;

    resp_expect(scene->resp, "AUTH taker-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR c", ":1\r\n");
    guarded_reload(&scene->f, other);
    resp_expect_error(scene->resp, "INCR c", "-NOPERM forbidden: ", "taker has read");
    resp_expect(scene->resp, "GET c", "$4\r\n1001\r\n");
    guarded_reload(&scene->f, lines);
    resp_expect(scene->resp, "INCR c", ":2\r\n");
    guarded_reload(&scene->f, fewer);
    resp_expect_error(scene->resp, "INCR c", "-NOAUTH unauthorized: ", "");
    resp_expect_error(scene->resp, "AUTH taker-token", "-WRONGPASS wrong_token: ", "");
    resp_expect(scene->resp, "AUTH root-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR c", ":3\r\n");
}

/* They are the token's, over HTTP and RESP together. */
static void test_quotas_of_a_token(void **state)
{
    struct scene *scene = *state;

    resp_expect(scene->resp, "AUTH few-token", "+OK\r\n");
    resp_expect(scene->resp, "INCRBY c 100", ":100\r\n");
    resp_expect_error(scene->resp, "INCR c", "-BUSY quota: ", "client few has used up its quota");
    guarded_expect(&scene->f, "GET /api/segment/get/c", GUARDED_TOKEN("few"), NULL, 429, "quota");
    resp_expect(scene->resp, "AUTH root-token", "+OK\r\n");
    resp_expect(scene->resp, "INCR c", ":101\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(test_auth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tokens_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_roles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prefixes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_anonymous_may, setup_open, teardown),
        cmocka_unit_test_setup_teardown(test_reload, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quotas_of_a_token, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
