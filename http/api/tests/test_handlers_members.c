/*
 * test_handlers_members.c - the routes that change the membership, over real sockets: what they ask
 * of the backend, how each outcome is told, and what is refused before anybody is asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/tests/fixture.h"

#define MEMBERS "/api/cluster/members"
#define LEADER "/api/cluster/leader"

static void say(struct fixture *f, enum member_outcome outcome, const char *why)
{
    f->fake.member_answer.outcome = (uint8_t)outcome;
    (void)snprintf(f->fake.member_answer.why, sizeof f->fake.member_answer.why, "%s", why);
}

static void expect(struct fixture *f, const char *method, const char *target, const char *body,
                   int status, const char *part)
{
    struct reply reply;

    client_call(f->client, method, target, body, &reply);
    if (reply.status != status || strstr(reply.body, part) == NULL) {
        print_error("%s %s %s: wanted %d %s, got %d %s\n", method, target, body != NULL ? body : "",
                    status, part, reply.status, reply.body);
        fail();
    }
    reply_release(&reply);
}

static void test_add(void **state)
{
    struct fixture *f = *state;

    say(f, MEMBER_DONE, "node 4 is a member");
    expect(f, "POST", MEMBERS, "{\"id\":4,\"peer_address\":\"10.0.0.4:7081\"}", 200,
           "{\"id\":4,\"status\":\"done\",\"message\":\"node 4 is a member\"}");
    assert_int_equal(f->fake.asked.kind, MEMBER_ASK_ADD);
    assert_int_equal(f->fake.asked.node_id, 4);
    assert_string_equal(f->fake.asked.address, "10.0.0.4:7081");
    assert_false(f->fake.asked.force);
    say(f, MEMBER_PENDING, "node 5 is being added");
    expect(f, "POST", MEMBERS "?force=1&timeout_ms=0", "{\"peer_address\":\"[::1]:7081\",\"id\":5}",
           202, "\"status\":\"pending\"");
    assert_true(f->fake.asked.force);
    assert_string_equal(f->fake.asked.address, "[::1]:7081");
}

static void test_remove_and_lead(void **state)
{
    struct fixture *f = *state;

    say(f, MEMBER_DONE, "gone");
    expect(f, "DELETE", MEMBERS "/65535?force=0", NULL, 200, "\"id\":65535");
    assert_int_equal(f->fake.asked.kind, MEMBER_ASK_REMOVE);
    assert_int_equal(f->fake.asked.node_id, 65535);
    expect(f, "POST", LEADER, "{\"id\":2}", 200, "\"status\":\"done\"");
    assert_int_equal(f->fake.asked.kind, MEMBER_ASK_LEAD);
    assert_int_equal(f->fake.asked.node_id, 2);
}

static void test_outcomes(void **state)
{
    static const struct {
        enum member_outcome outcome;
        int status;
        const char *code;
    } rows[] = {
        {MEMBER_IN_PROGRESS, 409, "in_progress"},
        {MEMBER_UNKNOWN, 404, "unknown_member"},
        {MEMBER_WAS_REMOVED, 409, "removed"},
        {MEMBER_EXISTS, 409, "conflict"},
        {MEMBER_ADDRESS_IN_USE, 409, "address_in_use"},
        {MEMBER_LAST_VOTER, 409, "last_voter"},
        {MEMBER_TOO_MANY, 409, "too_many_members"},
        {MEMBER_NOT_VOTER, 409, "not_a_voter"},
        {MEMBER_UNREACHABLE, 503, "unreachable"},
        {MEMBER_NOT_CAUGHT_UP, 409, "not_caught_up"},
        {MEMBER_NO_QUORUM, 409, "no_quorum"},
        {MEMBER_GIVEN_UP, 409, "given_up"},
    };
    struct fixture *f = *state;
    char code[64];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        say(f, rows[i].outcome, "because of this");
        (void)snprintf(code, sizeof code, "\"code\":\"%s\",\"message\":\"because of this\"",
                       rows[i].code);
        expect(f, "DELETE", MEMBERS "/4", NULL, rows[i].status, code);
    }
}

static void test_bad_input(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        const char *body;
        const char *part;
    } rows[] = {
        {"POST", MEMBERS, "", "bad_json"},
        {"POST", MEMBERS, "{\"id\":4}", "peer_address"},
        {"POST", MEMBERS, "{\"peer_address\":\"h:1\"}", "\\\"id\\\" is missing"},
        {"POST", MEMBERS, "{\"id\":0,\"peer_address\":\"h:1\"}", "bad_request"},
        {"POST", MEMBERS, "{\"id\":65536,\"peer_address\":\"h:1\"}", "bad_request"},
        {"POST", MEMBERS, "{\"id\":4,\"peer_address\":\"h\"}", "bad_address"},
        {"POST", MEMBERS, "{\"id\":4,\"peer_address\":\"0.0.0.0:1\"}", "wildcard"},
        {"POST", MEMBERS, "{\"id\":4,\"peer_address\":\"h:65536\"}", "port"},
        {"POST", MEMBERS, "{\"id\":4,\"peer_address\":\"a b:1\"}", "bad_address"},
        {"POST", MEMBERS, "{\"id\":4,\"peer_address\":\"h:1\",\"x\":1}", "bad_request"},
        {"POST", MEMBERS "?force=2", "{\"id\":4,\"peer_address\":\"h:1\"}", "bad_request"},
        {"POST", MEMBERS "?timeout_ms=10001", "{\"id\":4,\"peer_address\":\"h:1\"}", "bad_request"},
        {"DELETE", MEMBERS "/0", NULL, "node id"},
        {"DELETE", MEMBERS "/x", NULL, "node id"},
        {"DELETE", MEMBERS "/65536", NULL, "node id"},
        {"DELETE", MEMBERS "/4?forec=1", NULL, "bad_request"},
        {"POST", LEADER, "{}", "is missing"},
        {"POST", LEADER "?force=1", "{\"id\":2}", "bad_request"},
    };
    struct fixture *f = *state;
    uint64_t submitted = f->fake.submitted;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(f, rows[i].method, rows[i].target, rows[i].body, 400, rows[i].part);
    }
    assert_int_equal(f->fake.submitted, submitted);
}

static void test_backend_errors(void **state)
{
    struct fixture *f = *state;

    f->fake.fail_with = ERR_NO_LEADER;
    expect(f, "DELETE", MEMBERS "/4", NULL, 503, "no_leader");
    f->fake.fail_with = ERR_TIMEOUT;
    expect(f, "POST", LEADER, "{\"id\":2}", 503, "timeout");
    f->fake.fail_with = 0;
    f->fake.wrong_reply = true;
    expect(f, "POST", LEADER, "{\"id\":2}", 500, "internal_error");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_add),       TEST(test_remove_and_lead), TEST(test_outcomes),
        TEST(test_bad_input), TEST(test_backend_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
