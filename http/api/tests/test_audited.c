/*
 * test_audited.c - what the audit tells of a change, and of what it tells nothing: over real
 * sockets, by a state machine that says what was before.
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

#include "http/api/audited.h"
#include "http/api/tests/guarded.h"
#include "src/base/assert.h"

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
    untold(f, "DELETE /api/workers/1024?epoch=1", NULL, 400);
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

static void test_a_change_that_goes_on(void **state)
{
    struct fixture *f = *state;

    f->fake.cluster.leader_id = 2;
    f->fake.cluster.member_count = 2;
    f->fake.cluster.members[0] =
        (struct id_member){.id = 1, .peer_address = "a:1", .role = "voter"};
    f->fake.cluster.members[1] =
        (struct id_member){.id = 2, .peer_address = "b:2", .role = "standby"};
    f->fake.member_answer = (struct member_answer){.outcome = MEMBER_PENDING};
    told(f, "DELETE /api/cluster/members/2", NULL, 202, "\"outcome\":\"pending\"");
    guarded_audit_has(f, "\"before\":\"{\\\"leader_id\\\":2,\\\"members\\\":[{\\\"id\\\":1,"
                         "\\\"role\\\":\\\"voter\\\",\\\"peer_address\\\":\\\"a:1\\\"},"
                         "{\\\"id\\\":2,\\\"role\\\":\\\"standby\\\","
                         "\\\"peer_address\\\":\\\"b:2\\\"}],\\\"more\\\":0}\"");
}

/* As many members as there may be, with addresses as long as they may be. */
static void test_members_that_have_no_room(void **state)
{
    struct fixture *f = *state;

    f->fake.cluster.member_count = LIMIT_NODES;
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct id_member *member = &f->fake.cluster.members[i];

        *member = (struct id_member){.id = i + 1, .role = "voter"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_who_what_and_what_came_of_it),
        TEST(test_force_however_it_is_written),
        TEST(test_what_is_not_told),
        TEST(test_what_is_not_known),
        TEST(test_a_client_that_does_not_wait),
        TEST(test_a_change_that_goes_on),
        TEST(test_members_that_have_no_room),
        TEST(test_a_worker_id_and_the_level),
        TEST(test_a_bulk),
        TEST(test_a_bulk_that_is_long),
        TEST(test_what_is_too_long_is_cut),
        TEST(test_refusals_beyond_what_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
