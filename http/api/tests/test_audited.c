/*
 * test_audited.c - who changed what, and was refused: the audit, the log, the shares of a client.
 *
 * What the audit tells of a change, and of what it tells nothing: over real sockets, by a state
 * machine that says what was before.
 *
 * Shares of keys, worker ids and tags as clients see them: whom they are counted for, to whom they
 * belong, what a refusal says, and where it is told. What is counted, when, and who may, is the
 * state machine's (src/id/fsm/tests/test_fsm_shares_*.c, test_fsm_owners.c).
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/tests/unit/test.h"
#include "http/api/audited.h"
#include "http/api/tests/guarded.h"
#include "src/base/assert.h"

/* --- audited --- */

#define ROOT GUARDED_TOKEN("root")

static int setup(void **state)
{
    static const struct guarded_line lines[] = {{"root", "roles=all"}, {NULL, NULL}};
    static const struct guarded_settings settings = {.lines = lines};
    struct fixture *f = malloc(sizeof *f);

    ASSERT(f != NULL);
    guarded_start(f, &settings);
    *state = f;
    return 0;
}

/* Done with this status, and told of once, with this text. */
static void told(struct fixture *f, const char *head, const char *body, int status,
                 const char *text)
{
    unsigned before = guarded_audit_count(f);

    guarded_expect(f, head, ROOT, body, status, NULL);
    assert_int_equal(guarded_audit_count(f), before + 1);
    guarded_audit_has(f, text);
}

static void untold(struct fixture *f, const char *head, const char *body, int status)
{
    unsigned before = guarded_audit_count(f);

    guarded_expect(f, head, ROOT, body, status, NULL);
    assert_int_equal(guarded_audit_count(f), before);
}

static void test_who_what_and_what_came_of_it(void **state)
{
    struct fixture *f = *state;

    told(f, "PUT /api/tags/new", "{\"max_id\":5}", 201, "\"outcome\":\"done\"");
    guarded_audit_has(f, "\"time\":\"2023-11-14T22:13:20.000Z\"");
    guarded_audit_has(f, "\"who\":\"root\",\"by\":\"token\",\"address\":\"127.0.0.1:");
    guarded_audit_has(f, "\"what\":\"PUT /api/tags/new\",\"force\":false,\"status\":201");
    guarded_audit_has(f, "\"asked\":\"{\\\"max_id\\\":5}\"");
    guarded_audit_has(f, "\"before\":null");
    guarded_audit_has(f, "\"answer\":\"{\\\"tag\\\":\\\"new\\\",\\\"max_id\\\":\\\"5\\\"");
    told(f, "PUT /api/tags/new", "{\"max_id\":9}", 200,
         "\"before\":\"{\\\"tag\\\":\\\"new\\\",\\\"max_id\\\":\\\"5\\\"");
    told(f, "DELETE /api/tags/new", NULL, 204,
         "\"before\":\"{\\\"tag\\\":\\\"new\\\",\\\"max_id\\\":\\\"9\\\"");
    guarded_audit_has(f, "\"what\":\"DELETE /api/tags/new\"");
}

static void test_force_however_it_is_written(void **state)
{
    struct fixture *f = *state;

    told(f, "PUT /api/tags/a%2F1?force=1", "{\"max_id\":1}", 200, "\"force\":true");
    told(f, "PUT /api/tags/a%2F1?%66orce=%31", "{\"max_id\":1}", 200, "\"force\":true");
    told(f, "PUT /api/tags/a%2F1?timeout_ms=5&force=1", "{\"max_id\":1}", 200, "\"force\":true");
    told(f, "PUT /api/tags/a%2F1?force=0", "{\"step\":7}", 200, "\"force\":false");
    told(f, "PUT /api/tags/a%2F1", "{\"step\":8}", 200, "\"force\":false");
}

/* What the rules of the change refuse changed nothing; nor does who only looks. */
static void test_what_is_not_told(void **state)
{
    struct fixture *f = *state;

    told(f, "PUT /api/tags/c", "{\"max_id\":500}", 200, "done");
    untold(f, "PUT /api/tags/c", "{\"max_id\":1}", 409);
    untold(f, "PUT /api/tags/c", "{\"max_id\":\"x\"}", 400);
    untold(f, "PUT /api/tags/%zz", "{}", 400);
    untold(f, "DELETE /api/tags/none", NULL, 404);
    untold(f, "GET /api/tags/c", NULL, 200);
    untold(f, "GET /api/audit", NULL, 200);
    untold(f, "DELETE /api/workers/7?epoch=1", NULL, 404);
    untold(f, "DELETE /api/workers/65535?epoch=1", NULL, 400);
    untold(f, "DELETE /api/workers/99999999999999999999?epoch=1", NULL, 400);
    untold(f, "DELETE /api/workers/x?epoch=1", NULL, 400);
}

/* A 503: it may have been made, now or later. */
static void test_what_is_not_known(void **state)
{
    struct fixture *f = *state;

    fake_fail_with(&f->fake, ERR_NO_LEADER);
    told(f, "PUT /api/tags/c", "{\"step\":5}", 503, "\"outcome\":\"unknown\"");
    guarded_audit_has(f, "\"before\":null");
    fake_fail_with(&f->fake, 0);
    told(f, "PUT /api/tags/c", "{\"step\":5}", 200, "\"outcome\":\"done\"");
}

static void test_a_client_that_does_not_wait(void **state)
{
    struct fixture *f = *state;
    uint64_t submitted = fake_submitted(&f->fake);

    fake_hold(&f->fake, true, false);
    client_printf(f->client, "DELETE /api/tags/c HTTP/1.1\r\nHost: x\r\n" ROOT "\r\n");
    fake_await_submitted(&f->fake, submitted + 1); /* what was before */
    fake_hold(&f->fake, false, false);
    while (guarded_audit_count(f) == 0) {
        struct client *other = fixture_connect(f);

        client_close(f->client);
        f->client = other;
        guarded_expect(f, "GET /livez", ROOT, NULL, 200, NULL);
    }
    guarded_audit_has(f, "\"what\":\"DELETE /api/tags/c\"");
}

/* Its client goes while the state before is looked at: nothing is submitted, and nothing told. */
static void test_a_client_that_goes_before_its_change(void **state)
{
    struct fixture *f = *state;
    static const struct linger at_once = {.l_onoff = 1}; /* it resets */
    struct client *goes = fixture_connect(f);
    uint64_t submitted = fake_submitted(&f->fake);
    struct reply reply = {0};

    guarded_expect(f, "GET /livez", ROOT, NULL, 200, NULL);
    fake_hold(&f->fake, true, false);
    client_printf(goes, "DELETE /api/tags/c HTTP/1.1\r\nHost: x\r\n" ROOT "\r\n");
    fake_await_submitted(&f->fake, submitted + 1);
    (void)setsockopt(goes->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    client_close(goes);
    do { /* the test's own limit of time ends it */
        reply_release(&reply);
        guarded_call(f, "GET /metrics", ROOT, NULL, &reply);
    } while (strstr(reply.body, "\nleafd_connections 1\n") == NULL);
    reply_release(&reply);
    fake_hold(&f->fake, false, false);
    fake_release(&f->fake);
    guarded_expect(f, "GET /api/tags/c", ROOT, NULL, 200, NULL);
    assert_int_equal(guarded_audit_count(f), 0);
}

static void test_a_change_that_goes_on(void **state)
{
    struct fixture *f = *state;

    f->fake.cluster.leader_id = 2;
    f->fake.cluster.member_count = 2;
    f->fake.cluster.members[0] = (struct id_member){
        .id = 1, .peer_address = "a:1", .role = "voter", .placement.weight = 100};
    f->fake.cluster.members[1] = (struct id_member){.id = 2,
                                                    .peer_address = "b:2",
                                                    .role = "standby",
                                                    .placement = {.weight = 7, .drained = true}};
    f->fake.member_answer = (struct member_answer){.outcome = MEMBER_PENDING};
    told(f, "DELETE /api/cluster/members/2", NULL, 202, "\"outcome\":\"pending\"");
    guarded_audit_has(f, "\"before\":\"{\\\"leader_id\\\":2,\\\"members\\\":[{\\\"id\\\":1,"
                         "\\\"role\\\":\\\"voter\\\",\\\"peer_address\\\":\\\"a:1\\\"},"
                         "{\\\"id\\\":2,\\\"role\\\":\\\"standby\\\","
                         "\\\"peer_address\\\":\\\"b:2\\\",\\\"weight\\\":7,\\\"drained\\\":true}],"
                         "\\\"more\\\":0}\"");
}

/* As many members as there may be, with addresses as long as they may be. */
static void test_members_that_have_no_room(void **state)
{
    struct fixture *f = *state;

    f->fake.cluster.member_count = LIMIT_NODES;
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct id_member *member = &f->fake.cluster.members[i];

        *member = (struct id_member){.id = i + 1, .role = "voter", .placement.weight = 100};
        memset(member->peer_address, 'x', LIMIT_ADDRESS_BYTES);
    }
    f->fake.member_answer = (struct member_answer){.outcome = MEMBER_PENDING};
    told(f, "DELETE /api/cluster/members/2", NULL, 202, "\\\"more\\\":6}\"");
}

static void test_a_worker_id_and_the_level(void **state)
{
    struct fixture *f = *state;

    told(f, "POST /api/workers", "{\"name\":\"w\",\"window_ms\":1000}", 201, "\"before\":null");
    told(f, "DELETE /api/workers/0?epoch=1", NULL, 204,
         "\"before\":\"{\\\"worker_id\\\":0,\\\"state\\\":\\\"held\\\",\\\"kind\\\":\\\"client\\\","
         "\\\"epoch\\\":1,\\\"until_ms\\\":1700000001000,\\\"name\\\":\\\"w\\\"}\"");
    told(f, "DELETE /api/workers/0?epoch=1", NULL, 204, "\\\"state\\\":\\\"released\\\"");
    f->fake.member_answer = (struct member_answer){.outcome = MEMBER_PENDING};
    told(f, "POST /api/cluster/level", "{\"level\":7}", 202, "\"before\":\"{\\\"level\\\":0}\"");
}

static void test_a_bulk(void **state)
{
    struct fixture *f = *state;

    told(f, "POST /api/tags", "[{\"tag\":\"c\",\"step\":5},{\"tag\":\"n\"},{\"tag\":\"s\"}]", 200,
         "\"before\":\"[{\\\"tag\\\":\\\"c\\\",\\\"max_id\\\":\\\"1\\\",\\\"step\\\":1000,"
         "\\\"mode\\\":\\\"trend\\\"},{\\\"tag\\\":\\\"n\\\",\\\"max_id\\\":null},"
         "{\\\"tag\\\":\\\"s\\\",\\\"max_id\\\":\\\"1\\\"");
    guarded_audit_has(f, "\\\"mode\\\":\\\"strict\\\"},{\\\"more\\\":0}]\"");
    untold(f, "POST /api/tags", "[{\"tag\":\"c\",\"step\":\"x\"}]", 400);
}

/* So many items are looked at, and not one more; or as many as have room. */
static void test_a_bulk_that_is_long(void **state)
{
    struct fixture *f = *state;
    char body[4096];
    uint64_t before;
    size_t len;

    for (unsigned count = AUDITED_ITEMS; count <= AUDITED_ITEMS + 1; count++) {
        char more[32];

        len = 0;
        for (unsigned i = 0; i < count; i++) {
            len += (size_t)snprintf(body + len, sizeof body - len, "%s{\"tag\":\"t%u.%u\"}",
                                    i > 0 ? "," : "[", count, i);
        }
        (void)snprintf(body + len, sizeof body - len, "]");
        (void)snprintf(more, sizeof more, "{\\\"more\\\":%u}]\"", count - AUDITED_ITEMS);
        before = fake_submitted(&f->fake);
        told(f, "POST /api/tags", body, 200, more);
        assert_true(fake_submitted(&f->fake) - before == AUDITED_ITEMS + 1);
    }
    len = 0;
    for (unsigned i = 0; i < 5; i++) { /* names of which two have room */
        len += (size_t)snprintf(body + len, sizeof body - len, "%s{\"tag\":\"%0100u\"}",
                                i > 0 ? "," : "[", i);
    }
    (void)snprintf(body + len, sizeof body - len, "]");
    told(f, "POST /api/tags", body, 200, "{\\\"more\\\":3}]\"");
}

/* Texts of clients are cut, however much escaping makes of them. */
static void test_what_is_too_long_is_cut(void **state)
{
    struct fixture *f = *state;
    char body[2048];
    size_t len = (size_t)snprintf(body, sizeof body, "{\"description\":\"");
    char *entry;

    for (unsigned i = 0; i < 120; i++) {
        len += (size_t)snprintf(body + len, sizeof body - len, "\\u0022");
    }
    (void)snprintf(body + len, sizeof body - len, "\"}");
    told(f, "PUT /api/tags/long", body, 201, "\"asked\":\"{");
    told(f, "PUT /api/tags/long", body, 200, "\"before\":\"{");
    entry = guarded_audit(f);
    assert_true(strlen(entry) < LIMIT_AUDIT_ENTRY_BYTES + 64);
    free(entry);
}

static void test_refusals_beyond_what_is_kept(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < LIMIT_AUDIT_REFUSALS_PER_S + 5; i++) {
        guarded_expect(f, "GET /api/tags", "", NULL, 401, NULL);
    }
    assert_int_equal(guarded_audit_count(f), LIMIT_AUDIT_REFUSALS_PER_S);
    assert_int_equal(f->auth->audit.refusals_over, 5);
    fake_set_wall(&f->fake, 1700000001000);
    guarded_expect(f, "GET /api/tags", "", NULL, 401, NULL);
    assert_int_equal(guarded_audit_count(f), LIMIT_AUDIT_REFUSALS_PER_S + 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

/* --- share --- */

#define WORKERS "POST /api/workers"
#define STRICT "GET /api/segment/get/s"
#define SHARE 16                                                       /* of 64 */
#define TAG_BYTES (TAG_SHARE_ROW_BYTES + TAG_SHARE_USED_BYTES + 2 * 3) /* with a name of 3 */
#define TAGS_SHARE (2 * TAG_BYTES)                                     /* 940 */

static const struct guarded_line lines[] = {
    {"shop", "roles=ids,workers"},
    {"few", "roles=ids,workers workers=2 keys=1"},
    {"maker", "roles=tags,read prefix=m/"},
    {"roomy", "roles=tags,read tags=1"},
    {"many", "roles=ids,workers workers=1000000000 keys=1000000000"},
    {"boss", "roles=workers,admin"},
    {NULL, NULL},
};

static int setup_share(void **state)
{
    static const struct guarded_settings settings = {
        .lines = lines, .anonymous_roles = ROLE_IDS | ROLE_WORKERS | ROLE_METRICS | ROLE_TAGS};
    struct fixture *f = malloc(sizeof *f);

    ASSERT(f != NULL);
    guarded_start(f, &settings);
    fake_log_level(&f->fake, LEVEL_NEWEST);
    f->fake.key_share = 2;
    f->settings.tags_bytes = TAGS_SHARE;
    *state = f;
    return 0;
}

/* Acquire for a name made of both. */
static void acquire(struct fixture *f, const char *token, const char *name, unsigned number,
                    int status, const char *text)
{
    char body[128];

    (void)snprintf(body, sizeof body, "{\"name\":\"%s-%u\"}", name, number);
    guarded_expect(f, WORKERS, token, body, status, text);
}

static void take(struct fixture *f, const char *token, const char *key, int status,
                 const char *text)
{
    char headers[256];

    (void)snprintf(headers, sizeof headers, "%sIdempotency-Key: %s\r\n", token, key);
    guarded_expect(f, STRICT, headers, NULL, status, text);
}

static void test_worker_ids_of_an_address(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < SHARE; i++) {
        acquire(f, "", "w", i, 201, NULL);
    }
    acquire(f, "", "w", SHARE, 429, "\"code\":\"share\"");
    acquire(f, "", "w", SHARE, 429, "\"held\":16,\"share\":16");
    acquire(f, "", "w", SHARE, 429,
            "the address 127.0.0.1 holds 16 worker ids, and may hold 16: each counts until its "
            "window is over, also once released; workers= in the setting quota, or in the line of "
            "a token, allows more");
    guarded_audit_has(f, "\"outcome\":\"refused\",\"who\":\"anonymous\",\"by\":\"nothing\"");
    guarded_audit_has(f, "\"what\":\"POST /api/workers\"");
    guarded_audit_has(f, "\"status\":429");
    guarded_audit_has(f, "\"asked\":\"{\\\"name\\\":\\\"w-16\\\"}\"");
    guarded_audit_has(f, "holds 16 worker ids, its share is 16");
    guarded_expect(f, "GET /metrics", "", NULL, 200,
                   "\nleafd_http_refused_total{why=\"workers_share\"} 3\n");
    acquire(f, "", "w", 3, 429, NULL); /* a name that is held has one more */
    guarded_expect(f, WORKERS, "", "{\"name\":\"w-3\",\"worker_id\":3}", 201, NULL); /* anew */
    acquire(f, GUARDED_TOKEN("shop"), "w", SHARE, 201, NULL);
}

static void test_worker_ids_of_tokens(void **state)
{
    struct fixture *f = *state;

    acquire(f, GUARDED_TOKEN("few"), "f", 0, 201, NULL);
    acquire(f, GUARDED_TOKEN("few"), "f", 1, 201, NULL);
    acquire(f, GUARDED_TOKEN("few"), "f", 2, 429, "client few holds 2 worker ids, and may hold 2");
    guarded_audit_has(f, "\"who\":\"few\",\"by\":\"token\"");
    for (unsigned i = 0; i < 2 * SHARE; i++) { /* an allowance above what there is */
        acquire(f, GUARDED_TOKEN("many"), "m", i, 201, NULL);
    }
    for (unsigned i = 0; i < SHARE; i++) {
        acquire(f, GUARDED_TOKEN("shop"), "s", i, 201, NULL);
    }
    acquire(f, GUARDED_TOKEN("shop"), "s", SHARE, 429, "client shop holds 16");
    acquire(f, "", "w", 0, 201, NULL);
}

static void test_keys_of_an_address_and_of_tokens(void **state)
{
    struct fixture *f = *state;

    take(f, "", "1", 200, NULL);
    take(f, "", "2", 200, NULL);
    take(f, "", "3", 429, "\"held\":2,\"share\":2");
    take(f, "", "3", 429,
         "the address 127.0.0.1 holds 2 idempotency keys, and may hold 2: each is forgotten a day "
         "after its first use; keys= in the setting quota, or in the line of a token, allows more");
    guarded_audit_has(f, "\"what\":\"GET /api/segment/get/s\"");
    guarded_audit_has(f, "holds 2 idempotency keys, its share is 2");
    guarded_expect(f, "GET /metrics", "", NULL, 200,
                   "\nleafd_http_refused_total{why=\"keys_share\"} 2\n");
    take(f, "", "1", 200, "Idempotency-Replayed");
    guarded_expect(f, STRICT, "", NULL, 200, NULL); /* without a key */
    take(f, GUARDED_TOKEN("few"), "4", 200, NULL);
    take(f, GUARDED_TOKEN("few"), "5", 429, "client few holds 1 idempotency keys, and may hold 1");
    take(f, GUARDED_TOKEN("shop"), "5", 200, NULL);
    take(f, GUARDED_TOKEN("shop"), "6", 503, "idempotency_full"); /* of all: 4 */
}

static void test_tags_of_an_address(void **state)
{
    struct fixture *f = *state;

    guarded_expect(f, "PUT /api/tags/t-1", "", "{}", 201, NULL);
    guarded_expect(f, "PUT /api/tags/t-2", "", "{}", 201, NULL);
    guarded_expect(f, "PUT /api/tags/t-3", "", "{}", 429, "\"code\":\"share\"");
    guarded_expect(f, "PUT /api/tags/t-3", "", "{}", 429, "\"held\":940,\"share\":940");
    guarded_expect(
        f, "PUT /api/tags/t-3", "", "{}", 429,
        "\"message\":\"the address 127.0.0.1 holds 940 bytes of tags, and may hold 940: a tag that "
        "is "
        "deleted counts less, and nothing more when it is made again; tags= in the setting "
        "quota, or in the line of a token, allows more\"");
    guarded_audit_has(f, "\"what\":\"PUT /api/tags/t-3\"");
    guarded_audit_has(f, "\"status\":429");
    guarded_audit_has(f, "holds 940 bytes of tags, its share is 940");
    guarded_expect(f, "GET /metrics", "", NULL, 200,
                   "\nleafd_http_refused_total{why=\"tags_share\"} 3\n");
    guarded_expect(f, "PUT /api/tags/t-1", "", "{\"step\":5}", 200, NULL); /* no larger */
    guarded_expect(f, "PUT /api/tags/t-1", "", "{\"description\":\"x\"}", 429, NULL);
    guarded_expect(f, "PUT /api/tags/m%2F1", GUARDED_TOKEN("maker"), "{}", 201, NULL);
    guarded_expect(f, "DELETE /api/tags/t-1", "", NULL, 204, NULL);
    guarded_expect(f, "PUT /api/tags/t-3", "", "{}", 429, "\"held\":617,"); /* its row is left, */
    guarded_expect(f, "PUT /api/tags/t-1", "", "{}", 201, NULL); /* in which it is made again */
}

static void test_tags_of_tokens_and_bulks(void **state)
{
    static const char bulk[] = "[{\"tag\":\"m/1\"},{\"tag\":\"m/2\"},{\"tag\":\"m/3\"}]";
    struct fixture *f = *state;

    guarded_expect(f, "POST /api/tags", GUARDED_TOKEN("maker"), bulk, 429,
                   "\"message\":\"item 2, tag \\\"m/3\\\": client maker holds 0 bytes of tags, and "
                   "may hold 940: ");
    guarded_expect(f, "GET /api/tags/m%2F1", GUARDED_TOKEN("maker"), NULL, 404, NULL);
    guarded_expect(f, "POST /api/tags", GUARDED_TOKEN("roomy"), bulk, 200, "\"made\":3");
    guarded_expect(f, "PUT /api/tags/m%2F1", GUARDED_TOKEN("maker"), "{}", 200, NULL);
    guarded_expect(f, "PUT /api/tags/m%2F4", GUARDED_TOKEN("maker"), "{}", 201, NULL);
}

/* A cluster of level 1, as one that is upgraded is for a while, knows no owners of tags. */
static void test_tags_at_level_1(void **state)
{
    struct fixture *f = *state;
    char head[64];

    atomic_store(&f->fake.health.level, 1);
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(head, sizeof head, "PUT /api/tags/t-%u", i);
        guarded_expect(f, head, "", "{}", 201, NULL);
    }
    guarded_expect(f, "PUT /api/tags/i", "", "{\"increment\":2}", 400, "newer");
    guarded_expect(f, "POST /api/tags", "", "{\"tags\":[{\"tag\":\"i\",\"increment\":2}]}", 400,
                   "newer");
}

static void rise_late(void *data, const struct cluster_request *request)
{
    struct fixture *f = data;

    if (request->kind == CLUSTER_REQUEST_BARRIER && request->local) {
        atomic_store(&f->fake.health.level, LEVEL_NEWEST);
    }
}

/* The level was raised a moment ago, and this node has not applied that: it catches up, instead of
 * refusing for ever what is right. */
static void test_a_level_that_is_known_elsewhere(void **state)
{
    static const struct {
        const char *head;
        const char *body;
        int status;
    } asks[] = {
        {"PUT /api/tags/i", "{\"increment\":2}", 201},
        {"POST /api/tags", "{\"tags\":[{\"tag\":\"j\",\"increment\":2}]}", 200},
        {"PUT /api/workers/pools", "{\"pools\":\"a=0-31\"}", 200},
        {"POST /api/workers", "{\"name\":\"w\",\"zone\":\"a\"}", 201},
        {"PUT /api/clients/cuts/192.0.2.1", "{\"for_s\":90}", 200},
        {"POST /api/nodes/1/resume", "{}", 200},
    };
    struct fixture *f = *state;

    f->fake.watch_data = f;
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        atomic_store(&f->fake.health.level, 1);
        f->fake.watch = rise_late;
        guarded_expect(f, asks[i].head, i < 2 ? "" : GUARDED_TOKEN("boss"), asks[i].body,
                       asks[i].status, NULL);
        f->fake.watch = NULL;
        assert_int_equal(atomic_load(&f->fake.health.level), LEVEL_NEWEST);
    }
}

/* Nothing is known of the level, so it is not the request that is wrong. */
static void test_an_increment_before_the_birth(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->fake.health.level, 1);
    atomic_store(&f->fake.health.uid_low, 0);
    guarded_expect(f, "PUT /api/tags/i", "", "{\"increment\":2}", 503, "no_leader");
    guarded_expect(f, "POST /api/tags", "", "{\"tags\":[{\"tag\":\"i\",\"increment\":2}]}", 503,
                   "no_leader");
    guarded_expect(f, "PUT /api/tags/i", "", "{\"increment\":0}", 400, "bad_request");
}

/* Another address of this machine is another client, a second connection is not. */
static void test_a_client_is_no_connection(void **state)
{
    struct fixture *f = *state;
    struct client *first = f->client;

    take(f, "", "1", 200, NULL);
    f->client = fixture_connect(f);
    take(f, "", "2", 200, NULL);
    take(f, "", "3", 429, "share");
    client_close(first);
}

static void test_a_worker_id_is_its_owners(void **state)
{
    static const char renewal[] = "{\"epoch\":1,\"last_timestamp_ms\":1}";
    static const char taking[] = "{\"name\":\"s-0\",\"worker_id\":0}";
    static const char release[] = "DELETE /api/workers/0?epoch=1&last_timestamp_ms=1";
    static const char *const others[] = {"", GUARDED_TOKEN("many")};
    struct fixture *f = *state;
    unsigned told;

    acquire(f, GUARDED_TOKEN("shop"), "s", 0, 201, "\"worker_id\":0,\"epoch\":1");
    for (unsigned i = 0; i < 2; i++) {
        guarded_expect(f, "PUT /api/workers/0", others[i], renewal, 409, "\"code\":\"fenced\"");
        guarded_expect(f, release, others[i], NULL, 409, "\"code\":\"conflict\"");
        guarded_expect(f, release, others[i], NULL, 409,
                       "worker id 0 belongs to another client, by the name \\\"s-0\\\", until ");
        guarded_expect(f, WORKERS, others[i], taking, 409,
                       "worker id 0 is held by \\\"s-0\\\" until ");
        told = guarded_audit_count(f);
        guarded_expect(f, WORKERS "?force=1", others[i], taking, 403, "needs the role admin");
        guarded_audit_has(f, "\"status\":403");
        guarded_expect(f, "DELETE /api/workers/0?epoch=1&force=1", others[i], NULL, 403, NULL);
        assert_int_equal(guarded_audit_count(f), told + 2);
    }
    guarded_expect(f, "PUT /api/workers/0", GUARDED_TOKEN("shop"), renewal, 200, NULL);
    guarded_expect(f, WORKERS "?force=1", GUARDED_TOKEN("boss"), "{\"name\":\"x\"}", 400,
                   "needs the worker_id");
    guarded_expect(f, WORKERS "?force=1", GUARDED_TOKEN("boss"), taking, 201, "\"epoch\":2");
    guarded_audit_has(f, "\"force\":true");
    guarded_audit_has(f, "\"who\":\"boss\"");
    guarded_expect(f, "PUT /api/workers/0", GUARDED_TOKEN("shop"), renewal, 409, "fenced");
    acquire(f, GUARDED_TOKEN("shop"), "s", 1, 201, "\"worker_id\":1");
    guarded_expect(f, "DELETE /api/workers/1?epoch=1&force=1", GUARDED_TOKEN("boss"), NULL, 204,
                   NULL);
    guarded_audit_has(f, "\"what\":\"DELETE /api/workers/1?epoch=1&force=1\"");
    guarded_audit_has(f, "\"force\":true");
}

static void test_a_key_is_its_owners(void **state)
{
    struct fixture *f = *state;

    take(f, GUARDED_TOKEN("shop"), "k", 200, NULL);
    take(f, GUARDED_TOKEN("shop"), "k", 200, "Idempotency-Replayed");
    take(f, GUARDED_TOKEN("few"), "k", 409,
         "Idempotency-Key \\\"k\\\" of tag \\\"s\\\" belongs to another client: it was sent with "
         "another token or "
         "certificate");
    take(f, "", "k", 409, "\"code\":\"idempotency_conflict\"");
    take(f, GUARDED_TOKEN("few"), "other", 200, NULL);
}

/* As in a leafd of tests: everybody may do everything, and nobody is told of. */
static void test_shares_without_an_audit(void **state)
{
    struct fixture f;
    char body[64];

    (void)state;
    fixture_start(&f, NULL);
    fake_set_wall(&f.fake, 1700000000000);
    fake_log_time(&f.fake, 1700000000000);
    fake_log_layout(&f.fake, &(struct snowflake_layout)SNOWFLAKE_JS53_LAYOUT);
    for (unsigned i = 0; i <= SHARE; i++) {
        (void)snprintf(body, sizeof body, "{\"name\":\"w-%u\"}", i);
        guarded_expect(&f, WORKERS, "", body, i < SHARE ? 201 : 429, NULL);
    }
    fixture_stop(&f);
}

#define TEST_SHARE(test) cmocka_unit_test_setup_teardown(test, setup_share, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_who_what_and_what_came_of_it),
        TEST(test_force_however_it_is_written),
        TEST(test_what_is_not_told),
        TEST(test_what_is_not_known),
        TEST(test_a_client_that_does_not_wait),
        TEST(test_a_client_that_goes_before_its_change),
        TEST(test_a_change_that_goes_on),
        TEST(test_members_that_have_no_room),
        TEST(test_a_worker_id_and_the_level),
        TEST(test_a_bulk),
        TEST(test_a_bulk_that_is_long),
        TEST(test_what_is_too_long_is_cut),
        TEST(test_refusals_beyond_what_is_kept),
        TEST_SHARE(test_worker_ids_of_an_address),
        TEST_SHARE(test_worker_ids_of_tokens),
        TEST_SHARE(test_keys_of_an_address_and_of_tokens),
        TEST_SHARE(test_tags_of_an_address),
        TEST_SHARE(test_tags_of_tokens_and_bulks),
        TEST_SHARE(test_tags_at_level_1),
        TEST_SHARE(test_a_level_that_is_known_elsewhere),
        TEST_SHARE(test_an_increment_before_the_birth),
        TEST_SHARE(test_a_client_is_no_connection),
        TEST_SHARE(test_a_worker_id_is_its_owners),
        TEST_SHARE(test_a_key_is_its_owners),
        cmocka_unit_test(test_shares_without_an_audit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
