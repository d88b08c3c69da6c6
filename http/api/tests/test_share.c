/*
 * test_share.c - shares of keys, worker ids and tags as clients see them: whom they are counted
 * for, to whom they belong, what a refusal says, and where it is told. What is counted, when, and
 * who may, is the state machine's (src/id/fsm/tests/test_fsm_shares_*.c, test_fsm_owners.c).
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tests/guarded.h"
#include "src/base/assert.h"

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

static int setup(void **state)
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
                   "\"message\":\"item 2: client maker holds 0 bytes of tags, and may hold 940: ");
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

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_worker_ids_of_an_address),
        TEST(test_worker_ids_of_tokens),
        TEST(test_keys_of_an_address_and_of_tokens),
        TEST(test_tags_of_an_address),
        TEST(test_tags_of_tokens_and_bulks),
        TEST(test_tags_at_level_1),
        TEST(test_a_client_is_no_connection),
        TEST(test_a_worker_id_is_its_owners),
        TEST(test_a_key_is_its_owners),
        cmocka_unit_test(test_shares_without_an_audit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
