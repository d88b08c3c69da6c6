/*
 * test_gate.c - who may ask what, over real sockets: each verdict of the gate with what the client
 * is told of it (audited.h), tags that are others', and tokens that change while requests come.
 * Client certificates: test_gate_certificates.c.
 *
 * Thread: one.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/api/request.h"
#include "http/api/tests/guarded.h"
#include "src/base/assert.h"

#define IDS "GET /api/segment/get/a%2F1"
#define TAGS "GET /api/tags"
#define ROOT GUARDED_TOKEN("root")

static const struct guarded_line lines[] = {
    {"root", "roles=all"},
    {"reader", "roles=read"},
    {"shop", "roles=ids,read,tags prefix=a/"},
    {"both", "roles=ids,read,tags prefix=a/,b/"},
    {NULL, NULL},
};

static int setup_with(void **state, bool two_doors)
{
    const struct guarded_settings settings = {
        .lines = lines, .anonymous_roles = ROLE_IDS | ROLE_HEALTH, .two_doors = two_doors};
    struct fixture *f = malloc(sizeof *f);

    ASSERT(f != NULL);
    guarded_start(f, &settings);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, false);
}

static int setup_two(void **state)
{
    return setup_with(state, true);
}

/* Refused so; and the audit has one entry more, with this reason. */
static void denied(struct fixture *f, const char *head, const char *headers, const char *body,
                   int status, const char *text, const char *reason)
{
    unsigned before = guarded_audit_count(f);
    char wanted[128];

    guarded_expect(f, head, headers, body, status, text);
    assert_int_equal(guarded_audit_count(f), before + 1);
    guarded_audit_has(f, "\"outcome\":\"refused\"");
    (void)snprintf(wanted, sizeof wanted, "\"status\":%d", status);
    guarded_audit_has(f, wanted);
    (void)snprintf(wanted, sizeof wanted, "\"answer\":\"%s\"", reason);
    guarded_audit_has(f, wanted);
}

static void test_what_needs_no_token(void **state)
{
    struct fixture *f = *state;

    guarded_expect(f, "GET /livez", "", NULL, 200, NULL);
    guarded_expect(f, "GET /livez", GUARDED_TOKEN("reader"), NULL, 200, NULL); /* nor with one */
    guarded_expect(f, "GET /metrics", GUARDED_TOKEN("reader"), NULL, 403, NULL);
    guarded_expect(f, "GET /api/segment/get/c", "", NULL, 200, NULL);
    denied(f, TAGS, "", NULL, 401, "this needs a token: Authorization: Bearer TOKEN", "no token");
    guarded_audit_has(f, "\"who\":\"anonymous\",\"by\":\"nothing\"");
    guarded_expect(f, TAGS, "", NULL, 401, "WWW-Authenticate: Bearer realm=\"leafd\"\r\n");
    guarded_expect(f, TAGS, "", NULL, 401, "\"code\":\"unauthorized\"");
    guarded_expect(f, "GET /metrics", "", NULL, 401, NULL);
}

static void test_tokens_that_are_none(void **state)
{
    struct fixture *f = *state;
    char headers[700];
    char longest[600];

    denied(f, IDS, "Authorization: Bearer other-token\r\n", NULL, 401,
           "this token is not known here", "unknown token");
    guarded_expect(f, IDS, "Authorization: Bearer other-token\r\n", NULL, 401,
                   "error=\"invalid_token\"");
    denied(f, IDS, "Authorization: Basic cm9vdA==\r\n", NULL, 401,
           "Authorization must be: Bearer TOKEN", "Authorization is no Bearer");
    denied(f, IDS, "Authorization: Bearer\r\n", NULL, 401, "must be: Bearer TOKEN",
           "Authorization is no Bearer");
    denied(f, IDS, "Authorization: Bearers root-token\r\n", NULL, 401, NULL,
           "Authorization is no Bearer");
    denied(f, TAGS, ROOT ROOT, NULL, 400, "Authorization is given twice", "two tokens");
    memset(longest, 'x', sizeof longest);
    longest[513] = '\0';
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", longest);
    denied(f, IDS, headers, NULL, 401, NULL, "unknown token");
}

static void test_a_token_however_it_is_written(void **state)
{
    struct fixture *f = *state;

    guarded_expect(f, TAGS, ROOT, NULL, 200, NULL);
    guarded_expect(f, TAGS, "authorization: bEARER    root-token\r\n", NULL, 200, NULL);
    guarded_expect(f, TAGS, "Authorization: Bearer root-token  \r\n", NULL, 200, NULL);
    denied(f, TAGS, "Authorization: Bearer root-tokenx\r\n", NULL, 401, NULL, "unknown token");
    denied(f, TAGS, "Authorization: Bearer Root-token\r\n", NULL, 401, NULL, "unknown token");
}

static void test_roles(void **state)
{
    struct fixture *f = *state;

    guarded_expect(f, TAGS, GUARDED_TOKEN("reader"), NULL, 200, NULL);
    denied(f, IDS, GUARDED_TOKEN("reader"), NULL, 403,
           "this needs the role ids, and reader has read", "the role is missing");
    guarded_audit_has(f, "\"who\":\"reader\",\"by\":\"token\"");
    denied(f, "PUT /api/tags/x", GUARDED_TOKEN("reader"), "{}", 403, "\"code\":\"forbidden\"",
           "the role is missing");
    denied(f, "GET /api/audit", GUARDED_TOKEN("shop"), NULL, 403,
           "needs the role admin, and shop has ids, read, tags", "the role is missing");
    guarded_expect(f, "PUT /api/tags/x", ROOT, "{}", 201, NULL);
    guarded_expect(f, "GET /api/audit", ROOT, NULL, 200, NULL);
}

static void test_a_tag_in_the_path(void **state)
{
    struct fixture *f = *state;

    guarded_expect(f, "GET /api/tags/a%2F1", GUARDED_TOKEN("shop"), NULL, 200, NULL);
    guarded_expect(f, "GET /api/segment/get/a%2f1", GUARDED_TOKEN("shop"), NULL, 200, NULL);
    denied(f, "GET /api/tags/b%2F1", GUARDED_TOKEN("shop"), NULL, 403,
           "this tag is another's: shop has the tags that begin with \\\"a/\\\"", "another's tag");
    guarded_expect(f, "GET /api/tags/b%2F1", GUARDED_TOKEN("shop"), NULL, 403,
                   "\"code\":\"forbidden_tag\"");
    denied(f, "GET /api/segment/get/c", GUARDED_TOKEN("both"), NULL, 403,
           "both has the tags that begin with \\\"a/\\\", \\\"b/\\\"", "another's tag");
    denied(f, "PUT /api/tags/a", GUARDED_TOKEN("shop"), "{}", 403, NULL, "another's tag");
    denied(f, "DELETE /api/tags/c", GUARDED_TOKEN("shop"), NULL, 403, NULL, "another's tag");
    guarded_expect(f, "PUT /api/tags/a%2Fnew", GUARDED_TOKEN("shop"), "{}", 201, NULL);
    /* What cannot be read is its route's to refuse. */
    guarded_expect(f, "GET /api/tags/%zz", GUARDED_TOKEN("shop"), NULL, 400, NULL);
}

static void test_lists_of_tags(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    guarded_call(f, TAGS, GUARDED_TOKEN("shop"), NULL, &reply); /* its own alone */
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"a/1\""));
    assert_null(strstr(reply.body, "\"b/1\""));
    reply_release(&reply);
    guarded_expect(f, TAGS "?prefix=a/1", GUARDED_TOKEN("shop"), NULL, 200, "\"a/1\"");
    denied(f, TAGS "?prefix=b/", GUARDED_TOKEN("shop"), NULL, 403,
           "this prefix has others' tags, too", "another's tag");
    denied(f, TAGS "?prefix=a", GUARDED_TOKEN("shop"), NULL, 403,
           "this prefix has others' tags, too", "another's tag");
    denied(f, TAGS, GUARDED_TOKEN("both"), NULL, 403, "name a prefix", "another's tag");
    guarded_expect(f, TAGS "?prefix=b/", GUARDED_TOKEN("both"), NULL, 200, "\"b/1\"");
    guarded_expect(f, TAGS, GUARDED_TOKEN("reader"), NULL, 200, "\"b/1\"");
}

static void test_a_bulk_of_tags(void **state)
{
    struct fixture *f = *state;

    guarded_expect(f, "POST /api/tags", GUARDED_TOKEN("both"),
                   "[{\"tag\":\"a/2\"},{\"tag\":\"b/2\"}]", 200, NULL);
    denied(f, "POST /api/tags", GUARDED_TOKEN("both"), "[{\"tag\":\"a/3\"},{\"tag\":\"c/3\"}]", 403,
           "tag \\\"c/3\\\" is another's: both has", "another's tag");
    guarded_expect(f, "GET /api/tags/a%2F3", ROOT, NULL, 404, NULL); /* all or nothing */
    guarded_expect(f, "POST /api/tags", ROOT, "[{\"tag\":\"c/3\"}]", 200, NULL);
}

static void test_web_pages(void **state)
{
    struct fixture *f = *state;

    denied(f, TAGS, "Host: evil.example\r\n" ROOT, NULL, 421,
           "Host \\\"evil.example\\\" is not a host of this node", "Host is none of this node's");
    guarded_expect(f, "GET /livez", "Host: evil.example\r\n", NULL, 200, NULL);
    guarded_expect(f, "GET /api/segment/get/c", "Host: evil.example\r\n", NULL, 200, NULL);
    denied(f, "PUT /api/tags/x", "Origin: http://evil.example\r\n" ROOT, "{}", 403,
           "a page of Origin \\\"http://evil.example\\\" may not ask", "foreign Origin");
    guarded_expect(f, "PUT /api/tags/x", "Origin: https://good.example\r\n" ROOT, "{}", 201, NULL);
    denied(f, "PUT /api/tags/x", "Content-Type: text/plain\r\n" ROOT, "{}", 415,
           "Content-Type \\\"text/plain\\\": a body", "Content-Type is not application/json");
    denied(f, "GET /api/segment/get/c?count=100000", "Sec-Fetch-Site: cross-site\r\n", NULL, 403,
           "a page of another site (Sec-Fetch-Site \\\"cross-site\\\") may not take",
           "foreign Origin");
    denied(f, "GET /api/snowflake/get/c", "Sec-Fetch-Site: same-site\r\n", NULL, 403,
           "\"code\":\"foreign_origin\"", "foreign Origin");
    denied(f, "GET /api/live", "Sec-Fetch-Site: cross-site\r\n" ROOT, NULL, 403, NULL,
           "foreign Origin");
    denied(f, "GET /api/backup", "Sec-Fetch-Site: cross-site\r\n" ROOT, NULL, 403, NULL,
           "foreign Origin");
    guarded_expect(f, "GET /api/segment/get/c", "Sec-Fetch-Site: none\r\n", NULL, 200, NULL);
    guarded_expect(f, "GET /api/segment/get/c", "Sec-Fetch-Site: same-origin\r\n", NULL, 200, NULL);
    guarded_expect(f, "GET /livez", "Sec-Fetch-Site: cross-site\r\n", NULL, 200, NULL);
    guarded_expect(f, "GET /", "Sec-Fetch-Site: cross-site\r\n", NULL, 200, NULL);
    /* The page is refused before its token is looked at. */
    denied(f, TAGS, "Host: evil.example\r\n", NULL, 421, NULL, "Host is none of this node's");
}

static void test_the_other_door(void **state)
{
    struct fixture *f = *state;
    unsigned before = guarded_audit_count(f);

    guarded_expect(f, TAGS, ROOT, NULL, 404, "served at the other listener: admin.listen, admin:2");
    guarded_expect(f, "GET /api/segment/get/c", ROOT, NULL, 200, NULL);
    guarded_expect(f, "GET /livez", "", NULL, 200, NULL);
    client_close(f->client);
    f->client = client_open(fixture_port(f->admin, ACCEPT_HTTP));
    guarded_expect(f, "GET /api/segment/get/c", ROOT, NULL, 404, "\"code\":\"other_door\"");
    guarded_expect(f, "GET /api/segment/get/c", ROOT, NULL, 404,
                   "served at the other listener: http.listen, 127.0.0.1:0");
    guarded_expect(f, TAGS, ROOT, NULL, 200, NULL);
    guarded_expect(f, "GET /livez", "", NULL, 200, NULL);
    assert_int_equal(guarded_audit_count(f), before); /* nobody tried what is not his */
}

/* The same bytes again, which are not read again: the verdict is kept with them. */
static void test_a_head_that_repeats(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        guarded_expect(f, IDS, GUARDED_TOKEN("reader"), NULL, 403, NULL);
    }
    for (unsigned i = 0; i < 3; i++) {
        guarded_expect(f, IDS, ROOT, NULL, 200, NULL);
    }
    guarded_expect(f, IDS, GUARDED_TOKEN("reader"), NULL, 403, NULL);
}

static void test_tokens_that_change(void **state)
{
    static const struct guarded_line fewer[] = {{"shop", "roles=read"}, {NULL, NULL}};
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    struct client *first = f->client;

    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 200, NULL);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 200, NULL);
    f->client = other;
    guarded_expect(f, TAGS, ROOT, NULL, 200, NULL);
    guarded_reload(f, fewer);
    denied(f, TAGS, ROOT, NULL, 401, NULL, "unknown token");
    f->client = first;
    denied(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "the role ids, and shop has read",
           "the role is missing"); /* also of the head that was kept */
    guarded_expect(f, TAGS "?prefix=b/", GUARDED_TOKEN("shop"), NULL, 200, NULL);
    guarded_reload(f, lines);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 200, NULL);
    guarded_expect(f, TAGS, ROOT, NULL, 200, NULL);
    client_close(other);
}

/* Begin to send a bulk, as its body's first part; and its rest once the tokens are others. */
static void test_tokens_that_change_while_a_body_comes(void **state)
{
    static const struct guarded_line without[] = {{"shop", "roles=all"}, {NULL, NULL}};
    static const struct guarded_line other[] = {{"root", "roles=ids"}, {NULL, NULL}};
    const struct guarded_line *const now[] = {without, other};
    static const int statuses[] = {401, 403};
    struct fixture *f = *state;

    for (unsigned i = 0; i < 2; i++) {
        struct reply reply;

        guarded_reload(f, lines);
        client_printf(f->client, "POST /api/tags HTTP/1.1\r\nHost: x\r\n" ROOT
                                 "Content-Type: application/json\r\nContent-Length: 15\r\n"
                                 "Expect: 100-continue\r\n\r\n");
        client_read(f->client, true, &reply);
        assert_int_equal(reply.status, 100);
        reply_release(&reply);
        guarded_reload(f, now[i]);
        client_printf(f->client, "[{\"tag\":\"late\"}]");
        client_read(f->client, false, &reply);
        assert_int_equal(reply.status, statuses[i]);
        reply_release(&reply);
        client_close(f->client);
        f->client = fixture_connect(f);
    }
    guarded_reload(f, lines);
    guarded_expect(f, "GET /api/tags/late", ROOT, NULL, 404, NULL);
}

/* Its token is cut: what repeats, what waits, a body that comes, and each route but those of
 * health; then it is over by itself, with nobody telling. */
static void test_a_client_that_is_cut(void **state)
{
    struct fixture *f = *state;
    struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct client_cuts cuts = {.count = 1, .items = {{"shop", 0, "a loop", "root"}}};
    struct client *waits = fixture_connect(f);
    unsigned before = guarded_audit_count(f);
    struct reply reply = {0};

    atomic_store(&f->fake.now_ms, 1000);
    fake_set_wall(&f->fake, 1700000000000);
    cuts.items[0].until_ms = 1700000002001;
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 200, NULL);
    fake_hold(&f->fake, false, true);
    client_printf(waits, "GET /api/segment/get/a%%2F1?count=100000&timeout_ms=10000 HTTP/1.1\r\n"
                         "Host: x\r\n" GUARDED_TOKEN("shop") "\r\n");
    do {
        reply_release(&reply);
        guarded_call(f, "GET /metrics", ROOT, NULL, &reply);
    } while (strstr(reply.body, "\nleafd_waiting_requests 1\n") == NULL);
    reply_release(&reply);
    f->fake.backend.figures = &box;
    id_cuts_put(&box, &cuts);
    f->api->waker.wake(&f->api->waker, NULL, 0);
    client_read(waits, false, &reply);
    assert_int_equal(reply.status, 403);
    assert_non_null(strstr(reply.body, "shop is cut until 2023-11-14T22:13:22.001Z: a loop"));
    reply_release(&reply);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "\"code\":\"client_cut\"");
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "Retry-After: 3\r\n");
    guarded_expect(f, TAGS, GUARDED_TOKEN("shop"), NULL, 403, "client_cut");
    guarded_expect(f, "GET /", GUARDED_TOKEN("shop"), NULL, 403, "client_cut");
    guarded_expect(f, "GET /livez", GUARDED_TOKEN("shop"), NULL, 200, NULL);
    guarded_expect(f, "GET /api/tags?prefix=a/", GUARDED_TOKEN("both"), NULL, 200, NULL);
    assert_int_equal(guarded_audit_count(f), before); /* which has who asked for the cut */
    fake_set_wall(&f->fake, 1700000002000);
    guarded_expect(f, "GET /api/tags/a%2F1", GUARDED_TOKEN("shop"), NULL, 403, "After: 1\r\n");
    fake_set_wall(&f->fake, 1700000002001);
    guarded_expect(f, "GET /api/tags/a%2F1", GUARDED_TOKEN("shop"), NULL, 200, NULL);
    guarded_expect(f, "GET /api/clients/cuts", ROOT, NULL, 200, "{\"cuts\":[]}");
    client_close(waits);
}

/* By its address, whatever it shows; and served again once that is told. */
static void test_an_address_that_is_cut(void **state)
{
    struct fixture *f = *state;
    struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct client_cuts cuts = {.count = 1, .items = {{"127.0.0.0/8", INT64_MAX, "", "root"}}};
    struct id_waker *waker = &f->api->waker;
    struct reply reply = {.status = 200};

    f->fake.backend.figures = &box;
    id_cuts_put(&box, &cuts);
    waker->wake(waker, NULL, 0);
    while (reply.status == 200) {
        guarded_call(f, TAGS, ROOT, NULL, &reply);
        reply_release(&reply);
    }
    assert_int_equal(reply.status, 403);
    guarded_expect(f, IDS, "", NULL, 403, "127.0.0.0/8 is cut until");
    guarded_expect(f, IDS, "Authorization: Bearer unknown\r\n", NULL, 403, "client_cut");
    guarded_expect(f, "GET /livez", "", NULL, 200, NULL);
    id_cuts_put(&box, &(struct client_cuts){0});
    waker->wake(waker, NULL, 0);
    while (reply.status == 403) {
        guarded_call(f, TAGS, ROOT, NULL, &reply);
        reply_release(&reply);
    }
    assert_int_equal(reply.status, 200);
}

/* These cuts are in force, and the client meets them. */
static void cut(struct fixture *f, struct id_figures_box *box, const struct client_cuts *cuts,
                const char *headers)
{
    struct reply reply = {.status = 200};

    f->fake.backend.figures = box;
    id_cuts_put(box, cuts);
    f->api->waker.wake(&f->api->waker, NULL, 0);
    while (reply.status == 200) { /* the test's own limit of time ends it */
        guarded_call(f, IDS, headers, NULL, &reply);
        reply_release(&reply);
    }
    assert_int_equal(reply.status, 403);
}

/* Of two cuts that hit a client the one that ends last counts. They end by the cluster's time, also
 * on a node whose own clock is off. */
static void test_cuts_of_one_client(void **state)
{
    struct fixture *f = *state;
    struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct client_cuts cuts = {
        .count = 3,
        .items = {{"shop", 1700000001000, "", "root"},
                  {"127.0.0.0/8", 1700000005000, "the longest", "root"},
                  {"127.0.0.1", 1700000003000, "", "root"}}};

    atomic_store(&f->fake.now_ms, 1000);
    fake_set_wall(&f->fake, 1700000000000);
    cut(f, &box, &cuts, GUARDED_TOKEN("shop"));
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "127.0.0.0/8 is cut until");
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "Retry-After: 5\r\n");
    guarded_expect(f, TAGS, ROOT, NULL, 403, "the longest");
    fake_set_wall(&f->fake, 1700000004000);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "client_cut");
    /* This node's own clock steps: the cluster's time is as it was. */
    atomic_store(&f->fake.wall_ms, 1700000060000);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "Retry-After: 1\r\n");
    atomic_store(&f->fake.wall_ms, 1600000000000);
    atomic_store(&f->fake.now_ms, 1000 + 5000);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 200, NULL);
    /* The cluster's time is set back: the cut is in force again, also for bytes that repeat. */
    fake_set_wall(&f->fake, 1700000002000);
    guarded_expect(f, IDS, GUARDED_TOKEN("shop"), NULL, 403, "client_cut");
}

/* A change that a cut meets on its way is carried out or not: no answer says which. */
static void test_a_cut_amid_a_change(void **state)
{
    struct fixture *f = *state;
    struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct client_cuts cuts = {.count = 1, .items = {{"shop", INT64_MAX, "", "root"}}};
    struct client *changes = fixture_connect(f);
    uint64_t submitted = fake_submitted(&f->fake);

    fake_hold(&f->fake, true, false);
    client_printf(changes,
                  "DELETE /api/tags/a%%2F1 HTTP/1.1\r\nHost: x\r\n" GUARDED_TOKEN("shop") "\r\n");
    fake_await_submitted(&f->fake, submitted + 1);
    cut(f, &box, &cuts, GUARDED_TOKEN("shop"));
    client_expect_end(changes);
    fake_hold(&f->fake, false, false);
    fake_release(&f->fake);
    client_close(changes);
}

/* TinyID's clients show a token as an option: it has the roles, the tags, the quotas and the cuts
 * of its line, whatever the connection showed before. */
static void test_tokens_of_tinyid(void **state)
{
    static const struct guarded_line limited[] = {{"root", "roles=all"},
                                                  {"reader", "roles=read"},
                                                  {"shop", "roles=ids,read,tags prefix=a/"},
                                                  {"few", "roles=ids ids-per-s=1"},
                                                  {NULL, NULL}};
    static const char *const denied_[] = {"b%2F1&token=shop-token", "a%2F1&token=reader-token",
                                          "a%2F1&token=unknown"};
    struct fixture *f = *state;
    struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct client_cuts cuts = {.count = 1, .items = {{"shop", INT64_MAX, "", "root"}}};
    char head[160];

    guarded_reload(f, limited);
    guarded_expect(f, "GET /tinyid/id/nextId?bizType=a%2F1&token=shop-token", "", NULL, 200,
                   "\"code\":200");
    for (size_t i = 0; i < sizeof denied_ / sizeof denied_[0]; i++) {
        (void)snprintf(head, sizeof head, "GET /tinyid/id/nextId?bizType=%s", denied_[i]);
        guarded_expect(f, head, "", NULL, 200, "\"code\":5,\"message\":\"token is error\"");
    }
    guarded_expect(f, "GET /tinyid/id/nextId?bizType=c&batchSize=100&token=few-token", "", NULL,
                   200, "\"code\":200");
    guarded_expect(f, "GET /tinyid/id/nextId?bizType=c&token=few-token", "", NULL, 429, "quota");
    guarded_expect(f, "GET /tinyid/id/nextId?bizType=c&token=root-token", "", NULL, 200,
                   "\"code\":200");
    cut(f, &box, &cuts, GUARDED_TOKEN("shop"));
    guarded_expect(f, "GET /tinyid/id/nextId?bizType=a%2F1&token=shop-token", "", NULL, 200,
                   "\"code\":5,\"message\":\"token is error\"");
    guarded_expect(f, "GET /tinyid/id/nextId?bizType=c&token=root-token", "", NULL, 200,
                   "\"code\":200");
}

/* A token's record among the clients: look at it, and fetch what one of its counts is. */
static uint32_t count_of(struct fixture *f, const char *name, bool streams)
{
    static const struct client_quotas none = {0};
    struct clients *clients = f->api->loops[0]->conns->clients;
    struct http_client *client = clients_of_name(clients, name, strlen(name), &none);
    uint32_t count = atomic_load(streams ? &client->streams : &client->connections);

    clients_release(clients, client);
    return count;
}

/* The stream counts for the name that it began with until it ends, whatever the token's name is by
 * then, and however many clients came since: the record is not another's meanwhile. */
static void test_a_stream_whose_token_is_renamed(void **state)
{
    static const struct guarded_line renamed[] = {{"later:reader", "roles=read"}, {NULL, NULL}};
    struct fixture *f = *state;
    struct buf event = BUF_INIT;

    client_printf(f->client,
                  "GET /api/live HTTP/1.1\r\nHost: x\r\n" GUARDED_TOKEN("reader") "\r\n");
    while (live_viewers(f->api) == 0) { /* the test's own limit of time ends it; so below */
        (void)sched_yield();
    }
    assert_int_equal(count_of(f, "reader", true), 1); /* it counts first */
    guarded_reload(f, renamed);
    buf_printf(&event, "data: 1\n\n");
    live_show(f->api, &event); /* each picture asks whether the viewer may still watch */
    while (count_of(f, "later", false) == 0) {
        (void)sched_yield();
    }
    for (unsigned i = 0; i < LIMIT_CLIENTS; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "other-%u", i);
        (void)count_of(f, name, false);
    }
    assert_int_equal(count_of(f, "reader", true), 1);
    client_close(f->client);
    f->client = fixture_connect(f);
    while (count_of(f, "reader", true) != 0) { /* it counts until last */
        (void)sched_yield();
    }
    assert_int_equal(live_viewers(f->api), 0);
}

/* A viewer whose token is gone sees no further picture. */
static void test_a_stream_whose_token_is_gone(void **state)
{
    static const struct guarded_line fewer[] = {{"root", "roles=all"}, {NULL, NULL}};
    struct fixture *f = *state;
    struct buf event = BUF_INIT;
    struct buf seen = BUF_INIT;
    char part[4096];
    ssize_t got;

    client_printf(f->client,
                  "GET /api/live HTTP/1.1\r\nHost: x\r\n" GUARDED_TOKEN("reader") "\r\n");
    while (live_viewers(f->api) == 0) {
        (void)sched_yield();
    }
    guarded_reload(f, fewer);
    while (live_viewers(f->api) != 0) {
        buf_printf(&event, "data: secret\n\n");
        live_show(f->api, &event); /* which takes it */
        (void)sched_yield();
    }
    while (seen.len == 0 || memmem(seen.data, seen.len, "\r\n0\r\n", 5) == NULL) {
        got = TEMP_FAILURE_RETRY(recv(f->client->fd, part, sizeof part, 0));
        assert_true(got > 0);
        buf_put(&seen, part, (size_t)got);
    }
    assert_non_null(memmem(seen.data, seen.len, "event-stream", 12));
    assert_null(memmem(seen.data, seen.len, "secret", 6));
    buf_free(&seen);
}

/* What a line says goes before what the settings say of all. */
static void test_quotas_of_a_line(void **state)
{
    static const struct guarded_line limited[] = {
        {"one", "roles=ids connections=1"}, {"rate", "roles=ids requests-per-s=1"}, {NULL, NULL}};
    struct fixture *f = *state;
    struct client *first = f->client;
    struct reply reply;
    unsigned refused = 0;

    guarded_reload(f, limited);
    /* What is let through is paid for afterwards: a second one, once a millisecond has passed. */
    for (unsigned i = 0; i < 20; i++) {
        guarded_call(f, "GET /api/segment/get/c", GUARDED_TOKEN("rate"), NULL, &reply);
        refused += reply.status == 429;
        reply_release(&reply);
    }
    assert_in_range(refused, 18, 19);
    guarded_expect(f, "GET /api/segment/get/c", GUARDED_TOKEN("one"), NULL, 200, NULL);
    f->client = fixture_connect(f);
    guarded_expect(f, "GET /api/segment/get/c", GUARDED_TOKEN("one"), NULL, 429, "quota");
    client_close(f->client);
    f->client = first;
    guarded_expect(f, "GET /api/segment/get/c", GUARDED_TOKEN("one"), NULL, 200, NULL);
}

/* How many connections count for the token's name. */
static uint32_t connections_of(struct fixture *f, const char *name)
{
    struct clients *clients = f->api->loops[0]->conns->clients;
    const struct client_quotas quotas = {.connections = 1}; /* as its line says */
    struct http_client *client = clients_of_name(clients, name, strlen(name), &quotas);
    uint32_t count = client->connections;

    clients_release(clients, client);
    return count;
}

/* However a refusal came about and the connection ended, nothing of the quota stays taken. */
static void test_refusals_give_the_quota_back(void **state)
{
    static const struct guarded_line limited[] = {{"one", "roles=ids connections=1"}, {NULL, NULL}};
    static const char *const ids = "GET /api/segment/get/c";
    struct fixture *f = *state;
    struct client *first = f->client;
    struct client *others[3];

    guarded_reload(f, limited);
    guarded_expect(f, ids, GUARDED_TOKEN("one"), NULL, 200, NULL);
    for (unsigned i = 0; i < 3; i++) {
        f->client = others[i] = fixture_connect(f);
        guarded_expect(f, ids, "", NULL, 200, NULL); /* as nobody in particular: no quota */
        guarded_expect(f, ids, GUARDED_TOKEN("one"), NULL, 429, "quota");
    }
    for (unsigned i = 0; i < 3; i++) {
        client_close(others[i]);
    }
    while (connections_of(f, "one") != 1) { /* the test's own limit of time ends it */
        (void)sched_yield();
    }
    f->client = first;
    guarded_expect(f, TAGS, GUARDED_TOKEN("one"), NULL, 403, NULL); /* counts once all the same */
    guarded_expect(f, ids, "", NULL, 200, NULL);
    assert_int_equal(connections_of(f, "one"), 0);
    guarded_expect(f, ids, GUARDED_TOKEN("one"), NULL, 200, NULL);
    client_close(first);
    while (connections_of(f, "one") != 0) {
        (void)sched_yield();
    }
    f->client = fixture_connect(f);
    guarded_expect(f, ids, GUARDED_TOKEN("one"), NULL, 200, NULL);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_needs_no_token),
        TEST(test_tokens_that_are_none),
        TEST(test_a_token_however_it_is_written),
        TEST(test_roles),
        TEST(test_a_tag_in_the_path),
        TEST(test_lists_of_tags),
        TEST(test_a_bulk_of_tags),
        TEST(test_web_pages),
        cmocka_unit_test_setup_teardown(test_the_other_door, setup_two, fixture_teardown),
        TEST(test_a_head_that_repeats),
        TEST(test_tokens_that_change),
        TEST(test_tokens_that_change_while_a_body_comes),
        TEST(test_a_client_that_is_cut),
        TEST(test_an_address_that_is_cut),
        TEST(test_cuts_of_one_client),
        TEST(test_a_cut_amid_a_change),
        TEST(test_tokens_of_tinyid),
        TEST(test_a_stream_whose_token_is_renamed),
        TEST(test_a_stream_whose_token_is_gone),
        TEST(test_quotas_of_a_line),
        TEST(test_refusals_give_the_quota_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
