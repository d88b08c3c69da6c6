/*
 * test_gate_certificates.c - who may ask what, by the certificate that a client shows: roles, tags
 * and quotas of its line in the tokens file, what it is told that has none, lines that change while
 * it is connected, and cuts. TLS is the real one, the bytes go through a socketpair.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/api.h"
#include "http/tests/tls_world.h"
#include "src/base/assert.h"

#define ROOT_TOKEN "root-token"
#define BEARER(token) "Authorization: Bearer " token "\r\n"
#define TAGS "GET /api/tags"
#define PUT_OWN "PUT /api/tags/a%2Fb"
#define PUT_OTHER "PUT /api/tags/plain"
#define STEP "{\"step\":500}"
#define ORDERS "orders cert:uri:spiffe://shop/orders roles=ids,read,tags prefix=a/\n"
#define READER "reader cert:dns:reader.shop roles=read\n"

static struct made ca;
static struct made server;
static struct tls *tls;
static struct auth *auth;
static struct conn_world world;
static struct tls_user client;

/* --- the tokens file --- */

static void put_root(struct buf *text)
{
    struct token_hash hash;

    ASSERT(token_hash(ROOT_TOKEN, strlen(ROOT_TOKEN), &hash));
    buf_printf(text, "root sha256:");
    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        buf_printf(text, "%02x", ((const uint8_t *)hash.words)[i]);
    }
    buf_printf(text, " roles=all\n");
}

/* Root, and these. */
static void reload(const char *lines)
{
    struct buf words = BUF_INIT;
    struct buf text = BUF_INIT;
    char why[TOKENS_WHY_BYTES];
    size_t before;
    size_t after;

    put_root(&text);
    buf_put(&text, lines, strlen(lines));
    assert_int_equal(auth_prepare(auth, (const char *)text.data, text.len, why), 0);
    auth_commit(auth, &before, &after, &words);
    buf_free(&words);
    buf_free(&text);
}

static int setup(void **state)
{
    static const struct auth_settings settings = {.web = {.hosts = "*", .origins = ""},
                                                  .anonymous_roles = ROLE_IDS | ROLE_HEALTH};
    char why[TOKENS_WHY_BYTES];

    (void)state;
    made_make(&ca, "a CA", NULL, 90, NULL);
    made_make(&server, "localhost", "DNS:localhost", 90, &ca);
    tls = made_tls(&server, &ca, TLS_CLIENT_OPTIONAL);
    ASSERT(auth_new(&settings, NULL, 0, &auth, why) == 0);
    conn_world_start_tls(&world, tls, auth);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    conn_world_stop(&world);
    auth_free(auth);
    tls_free(tls);
    made_release(&server);
    made_release(&ca);
    return 0;
}

static int reset(void **state)
{
    (void)state;
    conn_world_reset(&world);
    reload(ORDERS READER);
    return 0;
}

/* --- a client --- */

/* Connect with a certificate of these names; NULL: without one. */
static void come(const char *names)
{
    struct made own;

    if (names == NULL) {
        assert_true(tls_user_open(&client, &world, &ca, NULL));
        return;
    }
    made_make(&own, "a client", names, 90, &ca);
    assert_true(tls_user_open(&client, &world, &ca, &(struct tls_options){.own = &own}));
    made_release(&own);
}

static void go(void)
{
    tls_user_close(&client);
}

/* One request; the status, and this text somewhere in what comes (NULL: any). */
static void expect(const char *head, const char *headers, int status, const char *text)
{
    const bool changes = strncmp(head, "PUT", 3) == 0;
    char ask[1024];
    char wanted[32];
    int len = snprintf(ask, sizeof ask, "%s HTTP/1.1\r\nHost: localhost\r\n%s", head, headers);

    len += changes ? snprintf(ask + len, sizeof ask - (size_t)len,
                              "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                              strlen(STEP), STEP)
                   : snprintf(ask + len, sizeof ask - (size_t)len, "\r\n");
    client.plain.len = 0;
    tls_user_ask(&client, ask, (size_t)len);
    buf_put_u8(&client.plain, '\0');
    (void)snprintf(wanted, sizeof wanted, "HTTP/1.1 %d ", status);
    if (strncmp((const char *)client.plain.data, wanted, strlen(wanted)) != 0 ||
        (text != NULL && strstr((const char *)client.plain.data, text) == NULL)) {
        print_error("%s: wanted %d %s, got %s\n", head, status, text != NULL ? text : "",
                    (const char *)client.plain.data);
        fail();
    }
}

static void audit_has(const char *text)
{
    struct buf json = BUF_INIT;

    audit_list(&auth->audit, auth->audit.last_number - 1, 1, &json);
    buf_put_u8(&json, '\0');
    if (strstr((const char *)json.data, text) == NULL) {
        print_error("wanted %s in %s\n", text, (const char *)json.data);
        fail();
    }
    buf_free(&json);
}

/* --- tests --- */

static void test_the_roles_of_its_line(void **state)
{
    (void)state;
    come("URI:spiffe://shop/orders");
    expect("GET /api/segment/get/a%2Fb", "", 200, NULL);
    expect(TAGS "?prefix=a/", "", 200, NULL);
    expect(PUT_OWN, "", 200, NULL);
    audit_has("\"who\":\"orders\",\"by\":\"certificate\"");
    expect("GET /metrics", "", 403, "this needs the role metrics, and orders has ids, read, tags");
    audit_has("\"answer\":\"the role is missing\"");
    go();
    come("DNS:reader.shop");
    expect(TAGS, "", 200, NULL);
    expect(PUT_OWN, "", 403, "this needs the role tags, and reader has read");
    /* What anybody may without a token, a line does not have by itself. */
    expect("GET /api/segment/get/plain", "", 403, "and reader has read");
    go();
}

static void test_the_tags_of_its_line(void **state)
{
    (void)state;
    come("URI:spiffe://shop/orders");
    expect(PUT_OTHER, "", 403, "this tag is another's: orders has the tags that begin with");
    audit_has("\"who\":\"orders\",\"by\":\"certificate\"");
    expect("GET /api/segment/get/plain", "", 403, NULL);
    expect(TAGS, "", 200, "\"tag\":\"a/b\"");
    assert_null(strstr((const char *)client.plain.data, "plain"));
    go();
}

/* It is somebody, but nobody in particular: no token would be asked for in vain. */
static void test_a_certificate_without_a_line(void **state)
{
    (void)state;
    come("DNS:stranger.shop");
    expect("GET /api/segment/get/plain", "", 200, NULL); /* as without any */
    expect(TAGS, "", 403,
           "this needs the role read, and the certificate \\\"dns:stranger.shop\\\" has no line in "
           "the tokens file");
    audit_has("\"who\":\"anonymous\",\"by\":\"nothing\"");
    expect(TAGS, BEARER(ROOT_TOKEN), 200, NULL);
    go();
    come(NULL);
    expect(TAGS, "", 401, "this needs a token");
    go();
}

/* A name is taken as a whole, and of its kind. */
static void test_names_that_are_almost_right(void **state)
{
    static const char *const names[] = {
        "DNS:reader.sho",  "DNS:reader.shopx",          "URI:reader.shop",
        "DNS:Reader.shop", "URI:spiffe://shop/orders/", "DNS:reader.shop,DNS:other.shop"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        come(names[i]);
        expect(TAGS, "", 403, "has no line in the tokens file");
        go();
    }
}

/* Without a name of its own it is called by its key. */
static void test_a_certificate_by_its_key(void **state)
{
    struct made own;
    struct tls_options options = {.own = &own};
    char line[160];

    (void)state;
    made_make(&own, "a client", NULL, 90, &ca);
    assert_true(tls_user_open(&client, &world, &ca, &options));
    expect(TAGS, "", 403, "the certificate \\\"sha256:");
    (void)snprintf(line, sizeof line, "pinned cert:%s roles=read\n",
                   world.conn->wire.tls->certificate);
    go();
    reload(line);
    assert_true(tls_user_open(&client, &world, &ca, &options));
    expect(TAGS, "", 200, NULL);
    go();
    made_release(&own);
    come("email:a@b.c"); /* another key, and no name either */
    expect(TAGS, "", 403, "the certificate \\\"sha256:");
    go();
}

/* Who shows a token is judged by it alone, also where the certificate could do more. */
static void test_a_token_goes_before_the_certificate(void **state)
{
    (void)state;
    come("DNS:reader.shop");
    expect(PUT_OTHER, BEARER(ROOT_TOKEN), 200, NULL);
    audit_has("\"who\":\"root\",\"by\":\"token\"");
    expect(PUT_OTHER, "", 403, "and reader has read");
    expect(TAGS, BEARER("another"), 401, "this token is not known here");
    expect(TAGS, "Authorization: Basic cm9vdA==\r\n", 401, "must be: Bearer TOKEN");
    expect(TAGS, BEARER(ROOT_TOKEN) BEARER(ROOT_TOKEN), 400, "given twice");
    expect(TAGS, "", 200, NULL);
    go();
}

/* The same head again and again, on one connection. */
static void test_lines_that_change(void **state)
{
    (void)state;
    come("DNS:reader.shop");
    expect(TAGS, "", 200, NULL);
    expect(TAGS, "", 200, NULL);
    reload(ORDERS);
    expect(TAGS, "", 403, "has no line in the tokens file");
    expect(TAGS, "", 403, NULL);
    reload("reader cert:dns:reader.shop roles=ids\n");
    expect(TAGS, "", 403, "this needs the role read, and reader has ids");
    reload(READER); /* counts from the very next request */
    expect(TAGS, "", 200, NULL);
    reload("renamed cert:dns:reader.shop roles=read,tags prefix=b/\n");
    expect(TAGS "?prefix=b/", "", 200, NULL);
    expect(PUT_OWN, "", 403, "this tag is another's: renamed has the tags that begin with");
    reload(READER);
    expect(TAGS, "", 200, NULL);
    go();
}

static void test_a_token_that_becomes_known(void **state)
{
    (void)state;
    come(NULL);
    expect(TAGS, BEARER("another"), 401, "this token is not known here");
    /* The SHA-256 of "another". */
    reload("new sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5 "
           "roles=read\n");
    expect(TAGS, BEARER("another"), 200, NULL);
    go();
}

/* All its connections count as one client. */
static void test_the_quotas_of_its_line(void **state)
{
    (void)state;
    reload("reader cert:dns:reader.shop roles=read requests-per-s=2\n");
    come("DNS:reader.shop");
    expect(TAGS, "", 200, NULL);
    expect(TAGS, "", 200, NULL);
    expect(TAGS, "", 429, NULL);
    go();
    come("DNS:reader.shop");
    expect(TAGS, "", 429, NULL);
    expect(TAGS, BEARER(ROOT_TOKEN), 200, NULL);
    go();
    come(NULL);
    expect("GET /api/segment/get/plain", "", 200, NULL);
    expect("GET /api/segment/get/plain", "", 200, NULL);
    expect("GET /api/segment/get/plain", "", 200, NULL);
    go();
}

/* From now on these are cut; NULL: none is. */
static void cut_only(const char *who)
{
    static struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct client_cuts cuts = {.count = who != NULL,
                               .items = {{"", 1700000600000, "a loop", "root"}}};

    (void)snprintf(cuts.items[0].who, sizeof cuts.items[0].who, "%s", who != NULL ? who : "");
    world.fake.backend.figures = &box;
    id_cuts_put(&box, &cuts);
    world.api->waker.wake(&world.api->waker, NULL, 0);
    conn_world_rest(&world);
}

/* A cut names the line, and hits each connection of its certificate, where no token is shown
 * beside; neither another line's certificate nor one without a line. */
static void test_its_line_is_cut(void **state)
{
    (void)state;
    come("DNS:reader.shop");
    expect(TAGS, "", 200, NULL);
    cut_only("reader");
    expect(TAGS, "", 403, "reader is cut until 2023-11-14T22:23:20.000Z: a loop");
    expect(TAGS, "", 403, "\"code\":\"client_cut\"");
    expect("GET /livez", "", 200, NULL);
    expect(TAGS, BEARER(ROOT_TOKEN), 200, NULL);
    expect(TAGS, "", 403, "client_cut");
    go();
    come("DNS:reader.shop");
    expect(TAGS, "", 403, "client_cut");
    reload("renamed cert:dns:reader.shop roles=read\n");
    expect(TAGS, "", 200, NULL);
    reload(ORDERS READER);
    expect(TAGS, "", 403, "client_cut");
    cut_only(NULL);
    expect(TAGS, "", 200, NULL);
    cut_only("root"); /* of the token that it shows */
    expect(TAGS, BEARER(ROOT_TOKEN), 403, "root is cut");
    expect(TAGS, "", 200, NULL);
    go();
    cut_only("reader");
    come("URI:spiffe://shop/orders");
    expect(TAGS "?prefix=a/", "", 200, NULL);
    go();
    come("DNS:stranger.shop");
    expect("GET /api/segment/get/plain", "", 200, NULL);
    go();
    cut_only(NULL);
}

/* What a certificate proves is no name for a cut: the answer says which one is. */
static void test_what_names_a_cut(void **state)
{
    (void)state;
    fake_log_level(&world.fake, LEVEL_NEWEST);
    reload(ORDERS READER "boss cert:dns:boss.shop roles=admin\n");
    come("DNS:boss.shop");
    expect("PUT /api/clients/cuts/dns:reader.shop", "", 400,
           "\\\"dns:reader.shop\\\" is a certificate's: a cut names its line in the tokens file, "
           "reader\"");
    expect("DELETE /api/clients/cuts/uri:spiffe:%2F%2Fshop%2Forders", "", 400, "file, orders\"");
    expect("PUT /api/clients/cuts/dns:stranger.shop", "", 400,
           "\\\"dns:stranger.shop\\\" is a certificate's, and no line in this node's tokens file "
           "has it: a cut names such a line, or the client's address");
    expect("PUT /api/clients/cuts/sha256:00", "", 400, "no line in this node's tokens file has it");
    expect("PUT /api/clients/cuts/cert:dns:reader.shop", "", 400, "is not an address, as 10.0.0.7");
    expect("PUT /api/clients/cuts/boss", "", 400, "unknown field \\\"step\\\"");
    go();
}

/* A server that asks for none looks at none. */
static void test_certificates_that_nobody_asked_for(void **state)
{
    (void)state;
    made_commit(tls, &server, NULL, TLS_CLIENT_NONE);
    come("DNS:reader.shop");
    expect(TAGS, "", 401, "this needs a token");
    go();
    made_commit(tls, &server, &ca, TLS_CLIENT_OPTIONAL);
}

#define T(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_the_roles_of_its_line),
        T(test_the_tags_of_its_line),
        T(test_a_certificate_without_a_line),
        T(test_names_that_are_almost_right),
        T(test_a_certificate_by_its_key),
        T(test_a_token_goes_before_the_certificate),
        T(test_lines_that_change),
        T(test_a_token_that_becomes_known),
        T(test_the_quotas_of_its_line),
        T(test_its_line_is_cut),
        T(test_what_names_a_cut),
        T(test_certificates_that_nobody_asked_for),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
