/*
 * test_handlers_strict.c - ids of strict tags over HTTP: the range of the log, keys, every refusal
 * with its status and code, and the ways between a tag with segments and one without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/context.h"
#include "http/tests/fixture.h"
#include "src/base/limits.h"

#define GET "/api/segment/get/"

/* A request with one header line more. */
static void call_with(struct client *client, const char *target, const char *line,
                      struct reply *reply)
{
    client_printf(client, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", target, line);
    client_read(client, false, reply);
}

static void expect_with(struct client *client, const char *target, const char *line, int status,
                        const char *text)
{
    struct reply reply;

    call_with(client, target, line, &reply);
    assert_int_equal(reply.status, status);
    if (status == 200) {
        assert_string_equal(reply.body, text);
    } else {
        assert_non_null(strstr(reply.body, text));
    }
    reply_release(&reply);
}

static void expect_metric(struct client *client, const char *line)
{
    struct reply reply;

    client_call(client, "GET", "/metrics", NULL, &reply);
    assert_non_null(strstr(reply.body, line));
    reply_release(&reply);
}

static void test_ids_come_from_the_log(void **state)
{
    struct fixture *f = *state;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    client_expect(f->client, "GET", GET "s", 200, "1");
    client_expect(f->client, "POST", GET "s", 200, "2");
    client_expect(f->client, "GET", GET "s?count=3", 200, "3\n4\n5\n");
    client_expect(f->client, "GET", GET "s?count=100000&format=range", 200, "6 100005\n");
    client_expect(f->client, "GET", GET "s?count=2&format=json&contiguous=1", 200,
                  "{\"tag\":\"s\",\"count\":2,\"ranges\":[{\"first\":\"100006\",\"last\":"
                  "\"100007\"}]}");
    assert_int_equal(fake_wanted(&f->fake), 0); /* no segment was asked for */
    client_expect(f->client, "GET", GET "s?timeout_ms=0", 200, "100008");
}

static void test_a_key_gives_the_same_ids_again(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    fake_log_time(&f->fake, 1700000000000);
    expect_with(f->client, GET "s?count=5&format=range", "Idempotency-Key: a", 200, "1 5\n");
    expect_with(f->client, GET "s", "Idempotency-Key: b", 200, "6");
    call_with(f->client, GET "s?count=5&format=range", "idempotency-key:  a ", &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "1 5\n");
    assert_string_equal(reply_header(&reply, "Idempotency-Replayed"), "true");
    reply_release(&reply);
    call_with(f->client, GET "s", "Idempotency-Key: c", &reply);
    assert_string_equal(reply.body, "7");
    assert_null(reply_header(&reply, "Idempotency-Replayed"));
    reply_release(&reply);
    expect_with(f->client, GET "s?count=6", "Idempotency-Key: a", 409,
                "\"code\":\"idempotency_conflict\"");
    expect_with(f->client, GET "s?count=6", "Idempotency-Key: a", 409, "with count=5");
    expect_with(f->client, GET "s", "Idempotency-Key: d", 200, "8");
    /* The fake remembers four. */
    expect_with(f->client, GET "s", "Idempotency-Key: e", 503, "\"code\":\"idempotency_full\"");
    client_expect(f->client, "GET", GET "s", 200, "9"); /* without a key it goes on */
}

static void test_bad_keys(void **state)
{
    struct fixture *f = *state;
    char line[LIMIT_KEY_BYTES + 64];

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    fake_log_time(&f->fake, 1700000000000);
    expect_with(f->client, GET "s", "Idempotency-Key:", 400, "\"code\":\"bad_key\"");
    expect_with(f->client, GET "s", "Idempotency-Key: a\r\nIdempotency-Key: a", 400,
                "2 Idempotency-Key headers");
    expect_with(f->client, GET "s", "Idempotency-Key: a\x80z", 400, "byte 2 is not");
    expect_with(f->client, GET "s", "Idempotency-Key: a\tz", 400, "byte 2 is not");
    (void)snprintf(line, sizeof(line), "Idempotency-Key: %0*d", LIMIT_KEY_BYTES + 1, 1);
    expect_with(f->client, GET "s", line, 400, "Key of 129 bytes");
    (void)snprintf(line, sizeof(line), "Idempotency-Key: %0*d", LIMIT_KEY_BYTES, 1);
    expect_with(f->client, GET "s", line, 200, "1");
    expect_with(f->client, "/api/snowflake/get/x", "Idempotency-Key: a", 400,
                "snowflake ids have no tag");
}

static void test_a_key_needs_a_strict_tag(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag;

    fake_make_tag(&f->fake, "t", 1, 10, 100);
    tag = fake_open(&f->fake, "t", 1, 10);
    expect_with(f->client, GET "t", "Idempotency-Key: a", 400, "tag \\\"t\\\" is in trend mode");
    assert_int_equal(segment_left(&tag->buffer), 10);
    expect_with(f->client, GET "nobody", "Idempotency-Key: a", 404, "\"code\":\"unknown_tag\"");
    /* This node believes that it is in trend mode yet. */
    fake_set_mode(&f->fake, "t", TAG_MODE_STRICT);
    fake_log_time(&f->fake, 1700000000000);
    expect_with(f->client, GET "t", "Idempotency-Key: a", 200, "1");
}

static void test_refusals(void **state)
{
    static const struct {
        struct strict_result result;
        int status;
        const char *code;
        const char *text;
    } cases[] = {
        {{ERR_UNKNOWN_TAG, false, 0, {0}}, 404, "unknown_tag", "there is no tag"},
        {{ERR_EXHAUSTED, false, 1, {2}}, 409, "exhausted", "has 2 ids left below its max, or 2^63"},
        {{ERR_CHANGING, false, 1, {3}}, 503, "mode_changing", "node 3 has not said"},
        {{ERR_KEYS_FULL, false, 1, {4}}, 503, "idempotency_full", "4 idempotency keys"},
        {{ERR_TIMEOUT, false, 0, {0}}, 503, "timeout", "are skipped if they were allocated"},
        {{ERR_EMPTY, false, 0, {0}}, 503, "timeout", "no common time"},
        {{ERR_NO_LEADER, false, 0, {0}}, 503, "no_leader", ""},
        {{ERR_OVERLOADED, false, 0, {0}}, 503, "overloaded", ""},
        {{ERR_SHUTTING_DOWN, false, 0, {0}}, 503, "shutting_down", ""},
        {{ERR_DISK_FULL, false, 0, {0}}, 503, "disk_full", ""},
    };
    struct fixture *f = *state;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    client_expect(f->client, "GET", GET "s", 200, "1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_strict_answer(&f->fake, &cases[i].result);
        client_expect_message(f->client, "GET", GET "s?count=9", NULL, cases[i].status,
                              cases[i].code, cases[i].text);
    }
    fake_strict_answer(&f->fake, NULL);
    client_expect(f->client, "GET", GET "s", 200, "2");
}

static void test_backend_fails_or_talks_nonsense(void **state)
{
    struct fixture *f = *state;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    client_expect(f->client, "GET", GET "s", 200, "1");
    fake_fail_with(&f->fake, ERR_TIMEOUT);
    client_expect_error(f->client, "GET", GET "s", NULL, 503, "timeout");
    fake_fail_with(&f->fake, ERR_NO_LEADER);
    client_expect_error(f->client, "GET", GET "s", NULL, 503, "no_leader");
    fake_fail_with(&f->fake, 0);
    client_expect(f->client, "GET", GET "s", 200, "2");
}

/* The node learns only from the answer that the tag has segments again. */
static void test_strict_that_became_trend_begins_anew(void **state)
{
    struct fixture *f = *state;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    client_expect(f->client, "GET", GET "s", 200, "1");
    fake_set_mode(&f->fake, "s", TAG_MODE_TREND);
    client_expect(f->client, "GET", GET "s?count=2", 200, "2\n3\n");
    assert_int_equal(fake_wanted(&f->fake), 1); /* a segment was asked for */
}

static void test_mode_that_never_rests(void **state)
{
    static const struct strict_result wrong = {ERR_WRONG_MODE, false, 1, {0}};
    struct fixture *f = *state;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    client_expect(f->client, "GET", GET "s", 200, "1");
    fake_strict_answer(&f->fake, &wrong); /* and yet the cluster's row says strict */
    client_expect_error(f->client, "GET", GET "s", NULL, 503, "mode_changing");
}

/* Parked for a segment, with some ids claimed, since there was no room for another: it gets all of
 * them from the log. */
static void test_trend_that_becomes_strict_while_it_waits(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    struct id_tag *tag;

    fake_make_tag(&f->fake, "t", 1, 10, 100);
    tag = fake_open(&f->fake, "t", 1, 3);
    fake_hold(&f->fake, false, true);
    client_expect(f->client, "GET", GET "t", 200, "1");
    fake_publish(&f->fake, tag, 4, 2);
    client_request(f->client, "GET", GET "t?count=10&format=range", NULL);
    fake_await_demand(tag, 6);
    fake_set_mode(&f->fake, "t", TAG_MODE_STRICT);
    fake_set_state(&f->fake, tag, ID_TAG_STRICT);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "1 10\n"); /* the state machine granted no segment */
    reply_release(&reply);
    expect_metric(f->client, "leafd_ids_burnt_total{cause=\"unanswered\"} 4\n");
    expect_metric(f->client, "leafd_ids_total{kind=\"strict\"} 10\n");
}

static void test_client_goes_away_while_it_waits(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    uint64_t before;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    client_expect(f->client, "GET", GET "s", 200, "1");
    before = fake_submitted(&f->fake);
    fake_hold(&f->fake, true, false);
    client_request(other, "GET", GET "s", NULL);
    fake_await_submitted(&f->fake, before + 1);
    client_close(other);
    fake_release(&f->fake);
    client_expect(f->client, "GET", GET "s", 200, "3");
}

static void test_many_at_once_keep_their_order(void **state)
{
    struct fixture *f = *state;
    char text[16];

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    for (unsigned i = 0; i < 100; i++) { /* pipelined */
        client_printf(f->client, "GET " GET "s HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for (unsigned i = 1; i <= 100; i++) {
        struct reply reply;

        client_read(f->client, false, &reply);
        (void)snprintf(text, sizeof(text), "%u", i);
        assert_string_equal(reply.body, text);
        reply_release(&reply);
    }
}

/* The calls of one time are those of the next, with another key, and with none, and with an answer
 * of another length; and a loop keeps no more than it may. */
static void test_calls_are_used_again(void **state)
{
    struct fixture *f = *state;
    const struct api_loop *loop = f->api->loops[0];
    const unsigned count = LIMIT_HTTP_CALLS_KEPT + 4;
    struct client *clients[LIMIT_HTTP_CALLS_KEPT + 4];
    uint64_t before;

    fake_set_mode(&f->fake, "s", TAG_MODE_STRICT);
    fake_log_time(&f->fake, 1700000000000);
    assert_int_equal(loop->kept_count, 0);
    expect_with(f->client, GET "s", "Idempotency-Key: a", 200, "1");
    assert_int_equal(loop->kept_count, 1);
    client_expect(f->client, "GET", GET "s?count=2&format=range", 200, "2 3\n");
    client_expect(f->client, "GET", GET "no-such-tag", 404, NULL);
    client_expect(f->client, "GET", GET "s", 200, "4");
    assert_int_equal(loop->kept_count, 1);
    before = fake_submitted(&f->fake);
    fake_hold(&f->fake, true, false);
    for (unsigned i = 0; i < count; i++) {
        clients[i] = fixture_connect(f);
        client_request(clients[i], "GET", GET "s", NULL);
    }
    fake_await_submitted(&f->fake, before + count);
    assert_int_equal(loop->kept_count, 0);
    fake_release(&f->fake);
    for (unsigned i = 0; i < count; i++) {
        struct reply reply;

        client_read(clients[i], false, &reply);
        assert_int_equal(reply.status, 200);
        reply_release(&reply);
        client_close(clients[i]);
    }
    client_expect(f->client, "GET", GET "s?format=range", 200, "265 265\n");
    assert_int_equal(loop->kept_count, LIMIT_HTTP_CALLS_KEPT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_ids_come_from_the_log),
        TEST(test_a_key_gives_the_same_ids_again),
        TEST(test_bad_keys),
        TEST(test_a_key_needs_a_strict_tag),
        TEST(test_refusals),
        TEST(test_backend_fails_or_talks_nonsense),
        TEST(test_strict_that_became_trend_begins_anew),
        TEST(test_mode_that_never_rests),
        TEST(test_trend_that_becomes_strict_while_it_waits),
        TEST(test_client_goes_away_while_it_waits),
        TEST(test_many_at_once_keep_their_order),
        TEST(test_calls_are_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
