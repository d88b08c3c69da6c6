/*
 * test_cluster.c - changes of the members, leadership, level; the backup.
 *
 * The routes that change the membership, over real sockets: what they ask of the backend, how each
 * outcome is told, and what is refused before anybody is asked.
 *
 * GET /api/backup over real sockets: part after part, as fast as the client takes them, and what
 * happens when it, or the backup, comes to an early end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/tests/unit/test.h"
#include "http/tests/fixture.h"

/* --- members --- */

#define MEMBERS "/api/cluster/members"
#define LEADER "/api/cluster/leader"

static void say(struct fixture *f, enum member_outcome outcome, const char *why)
{
    f->fake.member_answer.outcome = (uint8_t)outcome;
    (void)snprintf(f->fake.member_answer.why, sizeof f->fake.member_answer.why, "%s", why);
}

static void test_add(void **state)
{
    struct fixture *f = *state;

    say(f, MEMBER_DONE, "node 4 is a member");
    client_expect_part(f->client, "POST", MEMBERS, "{\"id\":4,\"peer_address\":\"10.0.0.4:7081\"}",
                       200, "{\"id\":4,\"status\":\"done\",\"message\":\"node 4 is a member\"}");
    assert_int_equal(f->fake.asked.kind, MEMBER_ASK_ADD);
    assert_int_equal(f->fake.asked.node_id, 4);
    assert_string_equal(f->fake.asked.address, "10.0.0.4:7081");
    assert_false(f->fake.asked.force);
    say(f, MEMBER_PENDING, "node 5 is being added");
    client_expect_part(f->client, "POST", MEMBERS "?force=1&timeout_ms=0",
                       "{\"peer_address\":\"[::1]:7081\",\"id\":5}", 202, "\"status\":\"pending\"");
    assert_true(f->fake.asked.force);
    assert_string_equal(f->fake.asked.address, "[::1]:7081");
}

static void test_remove_and_lead(void **state)
{
    struct fixture *f = *state;

    say(f, MEMBER_DONE, "gone");
    client_expect_part(f->client, "DELETE", MEMBERS "/65535?force=0", NULL, 200, "\"id\":65535");
    assert_int_equal(f->fake.asked.kind, MEMBER_ASK_REMOVE);
    assert_int_equal(f->fake.asked.node_id, 65535);
    client_expect_part(f->client, "POST", LEADER, "{\"id\":2}", 200, "\"status\":\"done\"");
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
        client_expect_part(f->client, "DELETE", MEMBERS "/4", NULL, rows[i].status, code);
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
        client_expect_part(f->client, rows[i].method, rows[i].target, rows[i].body, 400,
                           rows[i].part);
    }
    assert_int_equal(f->fake.submitted, submitted);
}

static void test_backend_errors(void **state)
{
    struct fixture *f = *state;

    f->fake.fail_with = ERR_NO_LEADER;
    client_expect_part(f->client, "DELETE", MEMBERS "/4", NULL, 503, "no_leader");
    f->fake.fail_with = ERR_TIMEOUT;
    client_expect_part(f->client, "POST", LEADER, "{\"id\":2}", 503, "timeout");
    f->fake.fail_with = 0;
    f->fake.wrong_reply = true;
    client_expect_part(f->client, "POST", LEADER, "{\"id\":2}", 500, "internal_error");
}

#define TEST_MEMBERS(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* --- backup --- */

#define PART_BYTES (256 << 10)
#define MANY_PARTS 100 /* more than sockets take */

static void prepare(struct fixture *f, unsigned parts, size_t bytes)
{
    f->fake.backup_parts = parts;
    f->fake.backup_part_bytes = bytes;
}

static int setup(void **state)
{
    static const struct http_settings limits = {.write_ms = 300};
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    fixture_start(f, &limits);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_stop(*state);
    free(*state);
    return 0;
}

static unsigned parts_given(struct fixture *f)
{
    unsigned parts;

    pthread_mutex_lock(&f->fake.mutex);
    parts = f->fake.backup_part;
    pthread_mutex_unlock(&f->fake.mutex);
    return parts;
}

/* Wait until the backend was told that nobody wants more. */
static void await_closed(struct fixture *f)
{
    pthread_mutex_lock(&f->fake.mutex);
    while (f->fake.backups_closed == 0) {
        pthread_cond_wait(&f->fake.changed, &f->fake.mutex);
    }
    pthread_mutex_unlock(&f->fake.mutex);
}

/* Read to the end of the connection, into out; false if it was reset. */
static bool read_all(struct client *client, struct buf *out)
{
    char piece[4096];
    ssize_t got = 1;

    while (got > 0) {
        got = TEMP_FAILURE_RETRY(recv(client->fd, piece, sizeof piece, 0));
        buf_put(out, piece, got > 0 ? (size_t)got : 0);
    }
    return got == 0;
}

static void test_all_parts_come_in_chunks(void **state)
{
    struct fixture *f = *state;
    struct buf got = BUF_INIT;

    prepare(f, 3, 5);
    client_printf(f->client, "GET /api/backup HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_true(read_all(f->client, &got));
    buf_put_u8(&got, '\0');
    assert_memory_equal(got.data, "HTTP/1.1 200 OK\r\n", 17);
    assert_non_null(strstr((char *)got.data, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_non_null(strstr((char *)got.data, "\r\nContent-Type: application/octet-stream\r\n"));
    assert_non_null(strstr((char *)got.data, "\r\nCache-Control: no-store\r\n"));
    assert_null(strstr((char *)got.data, "Content-Length"));
    assert_string_equal(strstr((char *)got.data, "\r\n\r\n") + 4,
                        "5\r\n\1\1\1\1\1\r\n5\r\n\2\2\2\2\2\r\n5\r\n\3\3\3\3\3\r\n0\r\n\r\n");
    buf_free(&got);
}

static void test_http_1_0_gets_the_bytes_and_an_end(void **state)
{
    struct fixture *f = *state;
    struct buf got = BUF_INIT;

    prepare(f, 3, 2);
    client_printf(f->client,
                  "GET /api/backup HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n");
    assert_true(read_all(f->client, &got));
    buf_put_u8(&got, '\0');
    assert_null(strstr((char *)got.data, "chunked"));
    assert_string_equal(strstr((char *)got.data, "\r\n\r\n") + 4, "\1\1\2\2\3\3");
    buf_free(&got);
}

static void test_the_connection_goes_on_behind_it(void **state)
{
    static const char end[] = "0\r\n\r\n";
    struct fixture *f = *state;
    struct reply reply;
    char byte;
    size_t at = 0;

    prepare(f, 2, 3);
    client_printf(f->client, "GET /api/backup HTTP/1.1\r\nHost: x\r\n\r\n"
                             "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    while (at < sizeof end - 1) {
        assert_int_equal(TEMP_FAILURE_RETRY(recv(f->client->fd, &byte, 1, 0)), 1);
        at = byte == end[at] ? at + 1 : byte == '0';
    }
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "{\"status\":\"alive\"}");
    reply_release(&reply);
}

static void test_errors_before_the_first_byte(void **state)
{
    struct fixture *f = *state;

    client_expect_message(f->client, "GET", "/api/backup", NULL, 503, "overloaded",
                          "another backup is being taken");
    fake_fail_with(&f->fake, ERR_NO_LEADER);
    client_expect_error(f->client, "GET", "/api/backup", NULL, 503, "no_leader");
    fake_fail_with(&f->fake, ERR_TIMEOUT);
    client_expect_error(f->client, "GET", "/api/backup?timeout_ms=7", NULL, 503, "timeout");
    client_expect_error(f->client, "GET", "/api/backup?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", "/api/backup?consistency=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "POST", "/api/backup", NULL, 405, "method_not_allowed");
    client_expect_error(f->client, "GET", "/api/backup/x", NULL, 404, "no_route");
}

static void test_an_error_in_the_midst_resets_the_connection(void **state)
{
    struct fixture *f = *state;
    struct buf got = BUF_INIT;

    prepare(f, 3, 5);
    f->fake.backup_fails_at = 2;
    client_printf(f->client, "GET /api/backup HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_false(read_all(f->client, &got));
    buf_free(&got);
}

/* Parts come no faster than they are taken: memory is bounded by one. */
static void test_a_client_that_takes_nothing_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct client *slow = fixture_connect(f);
    unsigned given;

    prepare(f, MANY_PARTS, PART_BYTES);
    client_printf(slow, "GET /api/backup HTTP/1.1\r\nHost: x\r\n\r\n");
    await_closed(f);
    given = parts_given(f);
    assert_in_range(given, 1, MANY_PARTS - 1);
    client_close(slow);
}

static void test_a_client_that_goes_ends_it(void **state)
{
    struct fixture *f = *state;
    struct client *gone = fixture_connect(f);
    char byte;

    prepare(f, MANY_PARTS, PART_BYTES);
    client_printf(gone, "GET /api/backup HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(TEMP_FAILURE_RETRY(recv(gone->fd, &byte, 1, 0)), 1);
    client_close(gone);
    await_closed(f);
}

/* While the backend has the request. */
static void test_a_client_that_goes_before_a_part_comes(void **state)
{
    struct fixture *f = *state;
    struct client *gone = fixture_connect(f);

    prepare(f, 3, 5);
    fake_hold(&f->fake, true, false);
    client_printf(gone, "GET /api/backup HTTP/1.1\r\nHost: x\r\n\r\n");
    fake_await_submitted(&f->fake, 1);
    client_close(gone);
    client_expect(f->client, "GET", "/livez", 200, "{\"status\":\"alive\"}"); /* it has seen that */
    fake_release(&f->fake);
    await_closed(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_MEMBERS(test_add),
        TEST_MEMBERS(test_remove_and_lead),
        TEST_MEMBERS(test_outcomes),
        TEST_MEMBERS(test_bad_input),
        TEST_MEMBERS(test_backend_errors),
        cmocka_unit_test_setup_teardown(test_all_parts_come_in_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_http_1_0_gets_the_bytes_and_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_connection_goes_on_behind_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_before_the_first_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_error_in_the_midst_resets_the_connection, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_client_that_takes_nothing_is_cut_off, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_client_that_goes_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_client_that_goes_before_a_part_comes, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
