/*
 * test_strict.c - strict and monotonic ids over HTTP, and changes that wait for all nodes.
 *
 * Ids of strict tags over HTTP: the range of the log, keys, every refusal with its status and code,
 * and the ways between a tag with segments and one without.
 *
 * Changes of tags that are answered once they hold on all nodes (?wait=all), and how long they may
 * take (?timeout_ms), over real sockets.
 */
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/request.h"
#include "http/tests/fixture.h"
#include "src/base/limits.h"

/* --- strict --- */

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
        {{ERR_UNKNOWN_TAG, false, 0, {0}, 0}, 404, "unknown_tag", "there is no tag"},
        {{ERR_EXHAUSTED, false, 1, {2}, 0},
         409,
         "exhausted",
         "has 2 ids left below its max, or 2^63"},
        {{ERR_CHANGING, false, 1, {3}, 0}, 503, "mode_changing", "node 3 has not said"},
        {{ERR_KEYS_FULL, false, 1, {4}, 0}, 503, "idempotency_full", "4 idempotency keys"},
        {{ERR_TIMEOUT, false, 0, {0}, 0}, 503, "timeout", "are skipped if they were allocated"},
        {{ERR_EMPTY, false, 0, {0}, 0}, 503, "timeout", "no common time"},
        {{ERR_NO_LEADER, false, 0, {0}, 0}, 503, "no_leader", ""},
        {{ERR_OVERLOADED, false, 0, {0}, 0}, 503, "overloaded", ""},
        {{ERR_SHUTTING_DOWN, false, 0, {0}, 0}, 503, "shutting_down", ""},
        {{ERR_DISK_FULL, false, 0, {0}, 0}, 503, "disk_full", ""},
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
    static const struct strict_result wrong = {ERR_WRONG_MODE, false, 1, {0}, 0};
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

#define TEST_STRICT(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* --- all --- */

static const struct missing_members NOBODY = {0};
static const struct missing_members TWO = {2, {{3, true}, {65535, false}}};

/* The change is made, and the answer comes when all have it, not before. */
static void held(struct fixture *f, const char *method, const char *target, const char *body,
                 int status, const char *part)
{
    /* The change and the wait; before them a look at each tag. */
    uint64_t wanted = fake_submitted(&f->fake) + 2 + (body != NULL && body[0] == '[' ? 2 : 1);
    struct reply reply;

    fake_hold_all(&f->fake, true);
    client_request(f->client, method, target, body);
    while (fake_submitted(&f->fake) < wanted) {
        assert_false(client_has_input(f->client));
        sched_yield();
    }
    /* A request that came later, on another connection, is answered. */
    {
        struct client *other = fixture_connect(f);

        client_expect(other, "GET", "/livez", 200, "{\"status\":\"alive\"}");
        client_close(other);
    }
    assert_false(client_has_input(f->client));
    fake_hold_all(&f->fake, false);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, status);
    assert_non_null(strstr(reply.body, part));
    assert_int_equal(f->fake.everywhere_index, f->fake.index);
    assert_int_equal(fake_submitted(&f->fake), wanted);
    reply_release(&reply);
}

static void test_the_answer_waits_for_all(void **state)
{
    struct fixture *f = *state;

    held(f, "PUT", "/api/tags/a?wait=all", "{\"max_id\":77}", 201, "\"max_id\":\"77\"");
    held(f, "PUT", "/api/tags/a?wait=all&force=1", "{\"max_id\":7}", 200, "\"max_id\":\"7\"");
    held(f, "POST", "/api/tags?wait=all", "[{\"tag\":\"a\"},{\"tag\":\"b\"}]", 200,
         "{\"made\":1,\"changed\":1}");
    held(f, "DELETE", "/api/tags/a?wait=all", NULL, 204, "");
    /* It is gone, but perhaps not everywhere: that is what is asked. */
    held(f, "DELETE", "/api/tags/a?wait=all", NULL, 404, "unknown_tag");
}

static void test_without_it_nobody_is_asked(void **state)
{
    struct fixture *f = *state;
    uint64_t submitted = fake_submitted(&f->fake);

    fake_everywhere(&f->fake, ERR_TIMEOUT, &TWO);
    client_expect_part(f->client, "PUT", "/api/tags/a", "{}", 201, "\"tag\":\"a\"");
    client_expect_part(f->client, "PUT", "/api/tags/a?timeout_ms=700", "{}", 200, "\"tag\":\"a\"");
    client_expect_part(f->client, "POST", "/api/tags", "[{\"tag\":\"a\"}]", 200, "\"changed\":1");
    client_expect_part(f->client, "DELETE", "/api/tags/a", NULL, 204, "");
    assert_int_equal(fake_submitted(&f->fake), submitted + 8); /* each with a look before it */
}

static void test_who_is_missing_is_named(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_everywhere(&f->fake, ERR_TIMEOUT, &TWO);
    client_call(f->client, "PUT", "/api/tags/a?wait=all&timeout_ms=900", "{}", &reply);
    assert_int_equal(reply.status, 503);
    assert_string_equal(reply_header(&reply, "Retry-After"), "1");
    assert_non_null(strstr(reply.body, "\"status\":503,\"error\":\"Service Unavailable\","
                                       "\"code\":\"not_everywhere\",\"message\":\"the change is "
                                       "made, but node 3 and node 65535 (cut off) have not "
                                       "followed within 900 ms, and may hand out older "
                                       "ids\",\"path\":\"/api/tags/a\",\"missing\":[{\"id\":3,"
                                       "\"reachable\":true},{\"id\":65535,\"reachable\":false}]}"));
    reply_release(&reply);
    client_expect_part(f->client, "GET", "/api/tags/a", NULL, 200,
                       "\"tag\":\"a\""); /* it is made */
    client_expect_part(f->client, "POST", "/api/tags?wait=all", "[{\"tag\":\"b\"}]", 503,
                       "the change is made, but");
    client_expect_part(f->client, "GET", "/api/tags/b", NULL, 200, "\"tag\":\"b\"");
    client_expect_part(f->client, "DELETE", "/api/tags/b?wait=all", NULL, 503,
                       "there is no such tag any more, but");
    client_expect_part(f->client, "DELETE", "/api/tags/b?wait=all", NULL, 503,
                       "there is no such tag any more, but");
    fake_everywhere(&f->fake, 0, &NOBODY);
    client_expect_part(f->client, "DELETE", "/api/tags/b?wait=all", NULL, 404, "unknown_tag");
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 200, "\"tag\":\"a\"");
}

static void test_the_most_that_can_be_missing(void **state)
{
    struct missing_members all = {.count = LIMIT_NODES + 1};
    struct fixture *f = *state;

    for (unsigned i = 0; i < LIMIT_NODES + 1; i++) {
        all.nodes[i].id = LIMIT_NODE_ID - i;
    }
    fake_everywhere(&f->fake, ERR_TIMEOUT, &all);
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 503,
                       ", node 65529 (cut off) and node 65528 (cut off) have not");
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 503,
                       ",{\"id\":65528,\"reachable\":false}]}");
}

/* The change is made, whatever hinders the wait: the answer says so. */
static void test_why_it_could_not_be_waited_for(void **state)
{
    static const struct {
        int status;
        const char *why;
    } rows[] = {
        {ERR_OVERLOADED,
         "yet, as far as this node knows, and may hand out older ids: 1024 requests wait "
         "for all already\""},
        {ERR_SHUTTING_DOWN, "and may hand out older ids: the node is stopping\""},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_everywhere(&f->fake, rows[i].status, &TWO);
        client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 503, rows[i].why);
        client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 503,
                           "\"code\":\"not_everywhere\"");
    }
    fake_everywhere(&f->fake, ERR_SHUTTING_DOWN, &NOBODY);
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 503,
                       "but some node has not followed");
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 503, "\"missing\":[]}");
}

/* Nothing was changed: there is nothing to wait for. */
static void test_a_refusal_is_answered_at_once(void **state)
{
    struct fixture *f = *state;
    uint64_t submitted;

    fake_everywhere(&f->fake, ERR_TIMEOUT, &TWO);
    fake_make_tag(&f->fake, "t", 5000, 10, 100);
    submitted = fake_submitted(&f->fake);
    client_expect_part(f->client, "PUT", "/api/tags/t?wait=all", "{\"max_id\":1}", 409,
                       "would_repeat");
    client_expect_part(f->client, "POST", "/api/tags?wait=all", "[{\"tag\":\"t\",\"max_id\":1}]",
                       409, "would_repeat");
    assert_int_equal(fake_submitted(&f->fake), submitted + 4); /* each with a look before it */
    fake_fail_with(&f->fake, ERR_NO_LEADER);
    client_expect_part(f->client, "PUT", "/api/tags/t?wait=all", "{}", 503, "no_leader");
    client_expect_part(f->client, "DELETE", "/api/tags/t?wait=all", NULL, 503, "no_leader");
    assert_int_equal(fake_submitted(&f->fake), submitted + 8);
}

static void expect_waits(struct fixture *f, uint64_t change_ms, uint64_t all_ms)
{
    assert_in_range(f->fake.change_wait_ms, change_ms - change_ms / 2, change_ms);
    assert_in_range(f->fake.all_wait_ms, all_ms - all_ms / 2, all_ms);
}

/* A change needs a majority, and half a second for it at least; the wait ends when it is told. */
static void test_timeout_ms_bounds_both(void **state)
{
    struct fixture *f = *state;

    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all&timeout_ms=9000", "{}", 201, "");
    expect_waits(f, 9000, 9000);
    client_expect_part(f->client, "DELETE", "/api/tags/a?timeout_ms=10000&wait=all", NULL, 204, "");
    expect_waits(f, 10000, 10000);
    client_expect_part(f->client, "POST", "/api/tags?timeout_ms=501&wait=all", "[{\"tag\":\"a\"}]",
                       200, "");
    expect_waits(f, 501, 501);
    client_expect_part(f->client, "PUT", "/api/tags/a?timeout_ms=400&wait=all", "{}", 200, "");
    expect_waits(f, 500, 400);
    client_expect_part(f->client, "PUT", "/api/tags/a?timeout_ms=0&wait=all", "{}", 200, "");
    expect_waits(f, 500, 0);
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 200, "");
    expect_waits(f, HTTP_DEFAULT_TIMEOUT_MS, HTTP_DEFAULT_TIMEOUT_MS);
}

static void test_strange_values(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        const char *part;
    } rows[] = {
        {"PUT", "/api/tags/a?wait=foo", "wait=\\\"foo\\\" is not all"},
        {"PUT", "/api/tags/a?wait=", "wait=\\\"\\\" is not all"},
        {"PUT", "/api/tags/a?wait=ALL", "wait=\\\"ALL\\\" is not all"},
        {"PUT", "/api/tags/a?wait=all%00", "bad_request"},
        {"PUT", "/api/tags/a?wait=allow", "is not all"},
        {"PUT", "/api/tags/a?wait=all&wait=all", "bad_request"},
        {"PUT", "/api/tags/a?timeout_ms=10001", "from 0 to 10000"},
        {"PUT", "/api/tags/a?wait=all&timeout_ms=-1", "from 0 to 10000"},
        {"POST", "/api/tags?wait=none", "is not all"},
        {"POST", "/api/tags?timeout_ms=x", "from 0 to 10000"},
        {"DELETE", "/api/tags/a?wait=1", "is not all"},
        {"DELETE", "/api/tags/a?timeout_ms=1e3", "from 0 to 10000"},
        {"GET", "/api/tags/a?wait=all", "wait"},
        {"GET", "/api/tags?wait=all", "wait"},
    };
    struct fixture *f = *state;
    uint64_t submitted = fake_submitted(&f->fake);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        client_expect_part(f->client, rows[i].method, rows[i].target, NULL, 400, rows[i].part);
        client_expect_part(f->client, rows[i].method, rows[i].target, NULL, 400,
                           "\"code\":\"bad_request\"");
    }
    assert_int_equal(fake_submitted(&f->fake), submitted);
}

/* Who goes away while all are waited for leaves but the wait after, which ends by itself. */
static void test_a_client_that_goes_away(void **state)
{
    struct fixture *f = *state;
    uint64_t submitted = fake_submitted(&f->fake);
    struct client *client = fixture_connect(f);

    fake_hold_all(&f->fake, true);
    client_request(client, "PUT", "/api/tags/a?wait=all", "{}");
    fake_await_submitted(&f->fake, submitted + 2);
    client_close(client);
    client_expect_part(f->client, "GET", "/api/tags/a", NULL, 200, "\"tag\":\"a\"");
    fake_hold_all(&f->fake, false);
    client_expect_part(f->client, "PUT", "/api/tags/a?wait=all", "{}", 200, "");
    client = fixture_connect(f);
    fake_hold_all(&f->fake, true);
    client_request(client, "DELETE", "/api/tags/a?wait=all", NULL);
    fake_await_submitted(&f->fake, submitted + 7);
    client_close(client); /* and the server stops meanwhile */
}

static void drained_cb(void *data)
{
    assert_int_equal(sem_post(data), 0);
}

/* A stop is not kept waiting, and who waits hears that the change is made, and who is missing. */
static void test_a_server_that_drains_tells_what_it_knows(void **state)
{
    struct fixture *f = *state;
    uint64_t submitted = fake_submitted(&f->fake);
    struct client *late = fixture_connect(f);
    struct reply reply;
    sem_t drained;

    sem_init(&drained, 0, 0);
    fake_everywhere(&f->fake, ERR_TIMEOUT, &TWO);
    fake_hold_all(&f->fake, true);
    client_request(f->client, "PUT", "/api/tags/a?wait=all&timeout_ms=10000", "{}");
    fake_await_submitted(&f->fake, submitted + 2);
    client_printf(late, "GET /livez HTTP/1.1\r\nHost: t\r\n\r\nDELETE /api/tags/a?wait=all HTTP/1.1"
                        "\r\nHost: t\r\n");
    client_read(late, false, &reply); /* and so the rest of it was read, too */
    reply_release(&reply);
    fake_hold(&f->fake, true, false);
    http_server_retire(f->server, 0);
    http_server_drain(f->server, 60000, drained_cb, &drained);
    fake_await_submitted(&f->fake, submitted + 3);
    fake_hold_all(&f->fake, false);
    fake_release(&f->fake); /* the answer that nobody waits for any more comes first */
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body,
                           "the change is made, but node 3 and node 65535 (cut off) "
                           "have not followed yet, as far as this node knows, and may hand "
                           "out older ids: the node is stopping\""));
    assert_non_null(strstr(reply.body, "\"missing\":[{\"id\":3,"));
    reply_release(&reply);
    client_expect_end(f->client);
    client_printf(late, "\r\n"); /* one that was under way */
    client_read(late, false, &reply);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "there is no such tag any more, but"));
    reply_release(&reply);
    client_expect_end(late);
    while (sem_wait(&drained) != 0) {
        continue;
    }
    client_close(late);
    sem_destroy(&drained);
}

/* What a request waits for does not pass to the next one of its connection. */
static void test_pipelined_requests_are_answered_in_order(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_everywhere(&f->fake, ERR_TIMEOUT, &TWO);
    client_request(f->client, "PUT", "/api/tags/a?wait=all", "{}");
    client_request(f->client, "PUT", "/api/tags/a", "{\"step\":5}");
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_release(&reply);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"step\":5"));
    reply_release(&reply);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_STRICT(test_ids_come_from_the_log),
        TEST_STRICT(test_a_key_gives_the_same_ids_again),
        TEST_STRICT(test_bad_keys),
        TEST_STRICT(test_a_key_needs_a_strict_tag),
        TEST_STRICT(test_refusals),
        TEST_STRICT(test_backend_fails_or_talks_nonsense),
        TEST_STRICT(test_strict_that_became_trend_begins_anew),
        TEST_STRICT(test_mode_that_never_rests),
        TEST_STRICT(test_trend_that_becomes_strict_while_it_waits),
        TEST_STRICT(test_client_goes_away_while_it_waits),
        TEST_STRICT(test_many_at_once_keep_their_order),
        TEST_STRICT(test_calls_are_used_again),
        TEST(test_the_answer_waits_for_all),
        TEST(test_without_it_nobody_is_asked),
        TEST(test_who_is_missing_is_named),
        TEST(test_the_most_that_can_be_missing),
        TEST(test_why_it_could_not_be_waited_for),
        TEST(test_a_refusal_is_answered_at_once),
        TEST(test_timeout_ms_bounds_both),
        TEST(test_strange_values),
        TEST(test_a_client_that_goes_away),
        TEST(test_a_server_that_drains_tells_what_it_knows),
        TEST(test_pipelined_requests_are_answered_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
