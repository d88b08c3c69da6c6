/*
 * test_ids.c - ids of tags over HTTP: segments, requests that wait, shapes.
 *
 * /api/segment/get/{tag} over real sockets: formats, options, errors, waiting.
 *
 * Requests that wait for ids: woken, timed out, given up, and in order.
 *
 * Tags with a shape over HTTP: made, shown without their key, their ids as texts in one piece and
 * part by part, numbers on demand, and texts taken apart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/request.h"
#include "http/server/wire.h"
#include "http/tests/fixture.h"
#include "src/base/clock.h"
#include "src/id/codec/shape.h"

/* --- segment --- */

#define GET "/api/segment/get/"

/* --- the answer --- */

static void test_one_id_is_bare_decimal(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_open(&f->fake, "order", 1000, 100);
    client_call(f->client, "GET", GET "order", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "1000");
    assert_string_equal(reply_header(&reply, "Content-Type"), "text/plain;charset=UTF-8");
    assert_string_equal(reply_header(&reply, "Content-Length"), "4");
    assert_string_equal(reply_header(&reply, "Cache-Control"), "no-store");
    assert_null(reply_header(&reply, "Connection"));
    assert_non_null(reply_header(&reply, "Date"));
    reply_release(&reply);
    client_expect(f->client, "GET", GET "order", 200, "1001");
    client_expect(f->client, "POST", GET "order", 200, "1002");
    /* As Leaf's clients may write it. */
    client_expect(f->client, "GET", GET "order/", 200, "1003");
    /* A body is read and dropped. */
    client_request(f->client, "POST", GET "order", "anything");
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "1004");
    reply_release(&reply);
}

static void test_count_and_formats(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_hold(&f->fake, false, true);
    fake_open(&f->fake, "t", 98, 100);
    client_expect(f->client, "GET", GET "t?count=1", 200, "98\n");
    client_expect(f->client, "GET", GET "t?count=3", 200, "99\n100\n101\n");
    client_expect(f->client, "GET", GET "t?count=2&format=text", 200, "102\n103\n");
    client_expect(f->client, "GET", GET "t?format=text", 200, "104");
    client_expect(f->client, "GET", GET "t?count=2&format=range", 200, "105 106\n");
    client_expect(f->client, "GET", GET "t?format=range", 200, "107 107\n");
    client_call(f->client, "GET", GET "t?format=json&count=3", NULL, &reply);
    assert_string_equal(
        reply.body,
        "{\"tag\":\"t\",\"count\":3,\"ranges\":[{\"first\":\"108\",\"last\":\"110\"}]}");
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/json;charset=UTF-8");
    reply_release(&reply);
    client_expect(f->client, "GET", GET "t?count=0000000000000000002", 200, "111\n112\n");
    client_expect(f->client, "GET", GET "t?contiguous=0&timeout_ms=10000", 200, "113");
}

static void test_names_are_taken_whole(void **state)
{
    static const struct {
        const char *name;
        const char *target;
    } cases[] = {
        {"a.b.json", GET "a.b.json"},
        {"a/b", GET "a%2Fb"},
        {"a/b", GET "a%2fb"},
        {"a;v=1", GET "a;v=1"},
        {"a+b", GET "a+b"},
        {"a b", GET "a%20b"},
        {"\xe8\xae\xa2\xe5\x8d\x95", GET "%E8%AE%A2%E5%8D%95"},
        {"\xe8\xae\xa2\xe5\x8d\x95", GET "\xe8\xae\xa2\xe5\x8d\x95"},
        {"abs", "http://127.0.0.1" GET "abs"},
        {".", GET "."},
        {"..", GET "%2e%2E"},
    };
    struct fixture *f = *state;
    char wanted[32];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct id_tag *tag = fake_open(&f->fake, cases[i].name, 0, 0);

        segment_burn(&tag->buffer);
        fake_publish(&f->fake, tag, 1000 * (i + 1), 10);
        snprintf(wanted, sizeof(wanted), "%zu", 1000 * (i + 1));
        client_expect(f->client, "GET", cases[i].target, 200, wanted);
    }
}

/* The same heads again and again, each with its own answer, also when what a tag is changes. */
static void test_heads_that_come_again(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "ab", 1000, 1000);
    char wanted[64];

    fake_hold(&f->fake, false, true);
    fake_open(&f->fake, "ac", 5000, 1000);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(wanted, sizeof(wanted), "%u", 1000 + 6 * i);
        client_expect(f->client, "GET", GET "ab", 200, wanted);
        snprintf(wanted, sizeof(wanted), "%u", 1001 + 6 * i);
        client_expect(f->client, "GET", GET "a%62", 200, wanted);
        snprintf(wanted, sizeof(wanted), "%u", 1002 + 6 * i);
        client_expect(f->client, "POST", GET "ab", 200, wanted);
        snprintf(wanted, sizeof(wanted), "%u %u\n", 1003 + 6 * i, 1005 + 6 * i);
        client_expect(f->client, "GET", GET "ab?count=3&format=range", 200, wanted);
        snprintf(wanted, sizeof(wanted), "%u", 5000 + i);
        client_expect(f->client, "GET", GET "ac", 200, wanted);
        client_expect_error(f->client, "GET", GET "a%6", NULL, 400, "bad_tag");
        client_expect_error(f->client, "GET", GET "ad", NULL, 404, "unknown_tag");
        client_expect_error(f->client, "PUT", GET "ab", NULL, 405, "method_not_allowed");
        client_expect_error(f->client, "GET", GET "ab/c", NULL, 404, "no_route");
    }
    fake_set_state(&f->fake, tag, ID_TAG_UNKNOWN);
    client_expect_error(f->client, "GET", GET "ab", NULL, 404, "unknown_tag");
    fake_set_state(&f->fake, tag, ID_TAG_ACTIVE);
    client_expect(f->client, "GET", GET "ab", 200, "1072");
}

static void test_longest_name(void **state)
{
    struct fixture *f = *state;
    char name[LIMIT_TAG_NAME_BYTES + 2];
    char target[sizeof(GET) + 3 * sizeof(name)];

    memset(name, 'n', sizeof(name));
    name[LIMIT_TAG_NAME_BYTES] = '\0';
    fake_open(&f->fake, name, 5, 10);
    snprintf(target, sizeof(target), GET "%s", name);
    client_expect(f->client, "GET", target, 200, "5");
    snprintf(target, sizeof(target), GET "%s%%6E", name + 1);
    client_expect(f->client, "GET", target, 200, "6");
    snprintf(target, sizeof(target), GET "%sn", name);
    client_expect_error(f->client, "GET", target, NULL, 400, "bad_tag");
}

static void test_largest_count_and_last_ids(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char *at;

    fake_open(&f->fake, "big", 999950000, 100000);
    client_call(f->client, "GET", GET "big?count=100000", NULL, &reply);
    assert_int_equal(reply.status, 200);
    at = reply.body;
    for (uint64_t id = 999950000; id < 999950000 + 100000; id++) {
        assert_int_equal(strtoull(at, &at, 10), id);
        assert_int_equal(*at++, '\n');
    }
    assert_int_equal(*at, '\0');
    reply_release(&reply);
    fake_open(&f->fake, "end", INT64_MAX - 2, 2);
    client_expect(f->client, "GET", GET "end?count=2", 200,
                  "9223372036854775805\n9223372036854775806\n");
}

/* --- errors --- */

static void test_bad_requests_take_no_id(void **state)
{
    static const struct {
        const char *target;
        int status;
        const char *code;
    } cases[] = {
        {GET "t?count=0", 400, "bad_count"},
        {GET "t?count=100001", 400, "bad_count"},
        {GET "t?count=", 400, "bad_count"},
        {GET "t?count", 400, "bad_count"},
        {GET "t?count=-1", 400, "bad_count"},
        {GET "t?count=+1", 400, "bad_count"},
        {GET "t?count=%2B1", 400, "bad_count"},
        {GET "t?count=1%20", 400, "bad_count"},
        {GET "t?count=1.0", 400, "bad_count"},
        {GET "t?count=0x10", 400, "bad_count"},
        {GET "t?count=1e3", 400, "bad_count"},
        {GET "t?count=9223372036854775808", 400, "bad_count"},
        {GET "t?count=18446744073709551617", 400, "bad_count"},
        {GET "t?count=99999999999999999999999999", 400, "bad_count"},
        {GET "t?count=1&count=1", 400, "bad_request"},
        {GET "t?count=%zz", 400, "bad_request"},
        {GET "t?format=xml", 400, "bad_request"},
        {GET "t?format=", 400, "bad_request"},
        {GET "t?contiguous=yes", 400, "bad_request"},
        {GET "t?contiguous", 400, "bad_request"},
        {GET "t?timeout_ms=10001", 400, "bad_request"},
        {GET "t?timeout_ms=-1", 400, "bad_request"},
        {GET "t?timeout_ms=", 400, "bad_request"},
        {GET "%", 400, "bad_tag"},
        {GET "%2", 400, "bad_tag"},
        {GET "%zz", 400, "bad_tag"},
        {GET "a%00b", 400, "bad_tag"},
        {GET "a%0Ab", 400, "bad_tag"},
        {GET "a%7f", 400, "bad_tag"},
        {GET "%C2%85", 400, "bad_tag"},
        {GET "%ff", 400, "bad_tag"},
        {GET "%C0%AF", 400, "bad_tag"},
        {GET "%ED%A0%80", 400, "bad_tag"},
        {GET "\xff\xfe", 400, "bad_tag"},
        {GET "", 404, "no_route"},
        {"/api/segment/get", 404, "no_route"},
        {GET "/", 404, "no_route"},
        {GET "t/u", 404, "no_route"},
        {"/api/segment/getx/t", 404, "no_route"},
        {"/API/segment/get/t", 404, "no_route"},
        {"//", 404, "no_route"},
        {"http://host/x", 404, "no_route"},
    };
    struct fixture *f = *state;

    fake_open(&f->fake, "t", 7, 10);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_expect_error(f->client, "GET", cases[i].target, NULL, cases[i].status,
                            cases[i].code);
    }
    client_expect(f->client, "GET", GET "t", 200, "7");
    assert_int_equal(fake_submitted(&f->fake), 0);
}

static void test_error_body_names_the_value(void **state)
{
    const uint64_t wall_ms = clock_wall_ms(clock_system());
    struct fixture *f = *state;
    unsigned long long at_ms;
    struct reply reply;

    client_call(f->client, "GET", GET "t%22?count=x%22", NULL, &reply);
    assert_non_null(strstr(reply.body,
                           "\"status\":400,\"error\":\"Bad Request\","
                           "\"code\":\"bad_count\",\"message\":\"count=\\\"x\\\"\\\" is "
                           "not a whole number from 1 to 100000\","
                           "\"path\":\"/api/segment/get/t%22\"}"));
    assert_int_equal(sscanf(reply.body, "{\"timestamp\":%llu,", &at_ms), 1);
    /* The wall clock may be set in between, but not by an hour. */
    assert_in_range(at_ms, wall_ms - 3600000, wall_ms + 3600000);
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags?typo=1", NULL, &reply);
    assert_non_null(strstr(reply.body, "unknown query option \\\"typo\\\""));
    reply_release(&reply);
    client_call(f->client, "GET", GET "a/b", NULL, &reply);
    assert_non_null(strstr(reply.body, "%2F"));
    reply_release(&reply);
}

static void test_wrong_methods(void **state)
{
    static const char *const methods[] = {"HEAD", "PUT", "DELETE", "PATCH"};
    struct fixture *f = *state;
    struct reply reply;

    fake_open(&f->fake, "t", 7, 10);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        client_call(f->client, methods[i], GET "t", NULL, &reply);
        assert_int_equal(reply.status, 405);
        assert_string_equal(reply_header(&reply, "Allow"), "GET, POST, OPTIONS");
        reply_release(&reply);
    }
    client_expect(f->client, "GET", GET "t", 200, "7");
}

/* Health checks ask so, and people: nobody needs a token for it, and no web page learns more. */
static void test_options(void **state)
{
    static const struct {
        const char *target;
        int status;
        const char *allow;
    } cases[] = {
        {"/", 204, "GET, HEAD, OPTIONS"},
        {"*", 204, "GET, HEAD, POST, PUT, DELETE, OPTIONS"},
        {GET "t", 204, "GET, POST, OPTIONS"},
        {GET "t?count=7", 204, "GET, POST, OPTIONS"},
        {"/api/tags/t", 204, "GET, HEAD, PUT, DELETE, OPTIONS"},
        {"/api/backup", 204, "GET, OPTIONS"},
        {"/nonsense", 404, NULL},
        {"/*", 404, NULL},
    };
    static const char *const cors[] = {"Access-Control-Allow-Origin",
                                       "Access-Control-Allow-Methods",
                                       "Access-Control-Allow-Headers"};
    struct fixture *f = *state;
    struct reply reply;

    fake_open(&f->fake, "t", 7, 10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        client_printf(f->client,
                      "OPTIONS %s HTTP/1.1\r\nHost: a\r\nOrigin: http://evil.example\r\n"
                      "Access-Control-Request-Method: GET\r\n\r\n",
                      cases[i].target);
        client_read(f->client, false, &reply);
        assert_int_equal(reply.status, cases[i].status);
        for (size_t k = 0; k < sizeof cors / sizeof cors[0]; k++) {
            assert_null(reply_header(&reply, cors[k]));
        }
        if (cases[i].allow != NULL) {
            assert_string_equal(reply_header(&reply, "Allow"), cases[i].allow);
        }
        reply_release(&reply);
    }
    client_expect(f->client, "GET", GET "t", 200, "7");
}

static void test_snowflake_is_disabled(void **state)
{
    struct fixture *f = *state;

    client_expect_error(f->client, "GET", "/api/snowflake/get/x", NULL, 503, "disabled");
    client_expect_error(f->client, "POST", "/api/snowflake/get/x", NULL, 503, "disabled");
    client_expect_error(f->client, "GET", "/api/snowflake/decode/12", NULL, 503, "no_leader");
    client_expect_error(f->client, "GET", "/api/snowflake/get/", NULL, 404, "no_route");
}

static void test_unknown_tag_asks_the_cluster(void **state)
{
    struct fixture *f = *state;

    client_expect_error(f->client, "GET", GET "nobody", NULL, 404, "unknown_tag");
    assert_int_equal(fake_submitted(&f->fake), 1);
    /* Made elsewhere a moment ago: found, opened, filled. */
    fake_make_tag(&f->fake, "fresh", 500, 10, 100);
    client_expect(f->client, "GET", GET "fresh", 200, "500");
    assert_int_equal(fake_submitted(&f->fake), 2);
    client_expect(f->client, "GET", GET "fresh", 200, "501");
    assert_int_equal(fake_submitted(&f->fake), 2);
}

static void test_deleted_tag_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag;

    fake_make_tag(&f->fake, "gone", 1, 10, 100);
    client_expect(f->client, "GET", GET "gone", 200, "1");
    tag = id_table_find(f->fake.backend.table, "gone", 4);
    fake_delete_tag(&f->fake, "gone");
    fake_set_state(&f->fake, tag, ID_TAG_UNKNOWN);
    client_expect_error(f->client, "GET", GET "gone", NULL, 404, "unknown_tag");
    fake_make_tag(&f->fake, "gone", 5000, 10, 100);
    segment_burn(&tag->buffer);
    client_expect(f->client, "GET", GET "gone", 200, "5000");
}

/* A paused tag, as far as this node knows: the cluster is asked, which may have resumed it. If it
 * does not answer, the tag is paused. What is held stays. */
static void test_paused_tag(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag;
    struct reply reply;

    fake_make_tag(&f->fake, "held", 1, 10, 100);
    client_expect(f->client, "GET", GET "held", 200, "1");
    tag = id_table_find(f->fake.backend.table, "held", 4);
    id_tag_set_reason(tag, "an \"audit\"", 10);
    fake_set_state(&f->fake, tag, ID_TAG_PAUSED);
    fake_fail_with(&f->fake, ERR_NO_LEADER);
    client_call(f->client, "GET", GET "held?count=2&format=range", NULL, &reply);
    assert_int_equal(reply.status, 423);
    assert_non_null(strstr(reply.head, "Retry-After: 1\r\n"));
    assert_non_null(strstr(reply.body, "\"paused\""));
    assert_non_null(strstr(reply.body, "tag \\\"held\\\" is paused: an \\\"audit\\\""));
    reply_release(&reply);
    client_call(f->client, "GET", "/tinyid/id/nextId?bizType=held", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"code\":6"));
    reply_release(&reply);
    fake_fail_with(&f->fake, 0);
    client_expect(f->client, "GET", GET "held", 200, "2");
}

static void test_open_fails(void **state)
{
    static const struct {
        int err;
        int status;
        const char *code;
    } cases[] = {{ERR_NO_LEADER, 503, "no_leader"},
                 {ERR_TIMEOUT, 503, "timeout"},
                 {ERR_OVERLOADED, 503, "overloaded"},
                 {ERR_SHUTTING_DOWN, 503, "shutting_down"},
                 {ERR_UNKNOWN_TAG, 404, "unknown_tag"}};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_fail_with(&f->fake, cases[i].err);
        client_expect_error(f->client, "GET", GET "x", NULL, cases[i].status, cases[i].code);
    }
}

static void test_exhausted_keeps_what_is_left(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag;

    fake_make_tag(&f->fake, "last", INT64_MAX, 3, 3);
    tag = fake_open(&f->fake, "last", INT64_MAX - 3, 3);
    fake_set_state(&f->fake, tag, ID_TAG_EXHAUSTED);
    client_expect_error(f->client, "GET", GET "last?count=4", NULL, 409, "exhausted");
    client_expect_error(f->client, "GET", GET "last?count=4&contiguous=1", NULL, 409,
                        "not_contiguous");
    client_expect(f->client, "GET", GET "last?count=3&format=range", 200,
                  "9223372036854775804 9223372036854775806\n");
    client_expect_error(f->client, "GET", GET "last", NULL, 409, "exhausted");
    client_expect_error(f->client, "GET", GET "last?contiguous=1", NULL, 409, "exhausted");
    assert_int_equal(fake_wanted(&f->fake), 0);
}

/* A tag known as exhausted may have been set back a moment ago: the cluster is asked, and what this
 * node knows holds where it cannot be. */
static void test_exhausted_asks_before_it_says_so(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "back", INT64_MAX - 3, 3);
    uint64_t submitted = fake_submitted(&f->fake);

    fake_set_state(&f->fake, tag, ID_TAG_EXHAUSTED);
    client_expect_error(f->client, "GET", GET "back?count=4", NULL, 404, "unknown_tag");
    assert_int_equal(fake_submitted(&f->fake), submitted + 1);
    fake_fail_with(&f->fake, ERR_NO_LEADER);
    client_expect_error(f->client, "GET", GET "back?count=4", NULL, 409, "exhausted");
    fake_fail_with(&f->fake, 0);
}

static void test_runs_into_the_end_of_ids(void **state)
{
    struct fixture *f = *state;

    fake_make_tag(&f->fake, "end", INT64_MAX - 2, 10, 100);
    client_expect(f->client, "GET", GET "end?count=2", 200,
                  "9223372036854775805\n9223372036854775806\n");
    client_expect_error(f->client, "GET", GET "end", NULL, 409, "exhausted");
}

/* --- increments --- */

static void publish_stepped(struct fixture *f, const char *name, uint32_t increment, uint32_t of)
{
    struct id_tag *tag = fake_open(&f->fake, name, 0, 0);

    (void)segment_burn(&tag->buffer);
    segment_publish(&tag->buffer, 10, 100, increment, of);
    atomic_store(&tag->increment, increment);
}

static void has_generation(struct fixture *f, const char *target, const char *body, const char *of)
{
    struct reply reply;

    client_call(f->client, "GET", target, NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.len, strlen(body));
    assert_memory_equal(reply.body, body, reply.len);
    assert_string_equal(reply_header(&reply, "Leafd-Generation"), of);
    reply_release(&reply);
}

/* The cluster, which is asked before a refusal, has the tag with this increment. */
static void make_stepped(struct fixture *f)
{
    struct reply reply;

    fake_log_level(&f->fake, LEVEL_NEWEST);
    atomic_store(&f->fake.health.level, LEVEL_NEWEST);
    client_call(f->client, "PUT", "/api/tags/t", "{\"increment\":5}", &reply);
    assert_int_equal(reply.status, 201);
    reply_release(&reply);
}

static void test_ranges_with_an_increment(void **state)
{
    struct fixture *f = *state;

    make_stepped(f);
    fake_hold(&f->fake, false, true);
    publish_stepped(f, "t", 5, 7);
    has_generation(f, GET "t?count=3", "10\n15\n20\n", "7");
    client_expect_message(f->client, "GET", GET "t?count=3&format=range", NULL, 400, "stepped",
                          "has increment 5, so its ids do not follow");
    client_expect_message(f->client, "GET", GET "t?format=json", NULL, 400, "stepped",
                          "add stepped=1");
    has_generation(f, GET "t?count=3&format=range&stepped=1", "25 35 5\n", "7");
    client_expect(f->client, "GET", GET "t?count=2&format=json&stepped=1", 200,
                  "{\"tag\":\"t\",\"count\":2,\"ranges\":[{\"first\":\"40\",\"last\":\"45\","
                  "\"increment\":5}]}");
    publish_stepped(f, "t", 0, 8);
    has_generation(f, GET "t?count=2&format=range&stepped=1", "10 11 1\n", "8");
    client_expect(f->client, "GET", GET "t?count=2&format=range", 200, "12 13\n");
}

/* The increment came after the request had looked at the tag. */
static void test_an_increment_of_a_moment_ago(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag;

    make_stepped(f);
    fake_hold(&f->fake, false, true);
    publish_stepped(f, "t", 5, 7);
    tag = fake_open(&f->fake, "t", 0, 0);
    atomic_store(&tag->increment, 0);
    client_expect_message(f->client, "GET", GET "t?count=3&format=range", NULL, 400, "stepped",
                          "has increment 5");
    client_expect(f->client, "GET", GET "t", 200, "25");
}

/* --- refills --- */

static void test_refill_is_asked_for_once_due(void **state)
{
    struct fixture *f = *state;

    fake_hold(&f->fake, false, true);
    fake_open(&f->fake, "t", 1, 100);
    client_expect(f->client, "GET", GET "t?count=10&format=range", 200, "1 10\n");
    assert_int_equal(fake_wanted(&f->fake), 0);
    client_expect(f->client, "GET", GET "t", 200, "11");
    fake_await_wanted(&f->fake, 1);
    client_expect(f->client, "GET", GET "t?count=89&format=range", 200, "12 100\n");
    assert_int_equal(fake_wanted(&f->fake), 1);
}

static void test_batch_over_several_segments(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "joined", 10, 5);

    fake_hold(&f->fake, false, true);
    client_expect(f->client, "GET", GET "joined", 200, "10");
    fake_publish(&f->fake, tag, 15, 5);
    client_expect(f->client, "GET", GET "joined?count=9&format=range", 200, "11 19\n");
    tag = fake_open(&f->fake, "t", 29, 6);
    client_expect(f->client, "GET", GET "t", 200, "29");
    fake_publish(&f->fake, tag, 40, 5);
    client_expect(f->client, "GET", GET "t?count=8&format=json", 200,
                  "{\"tag\":\"t\",\"count\":8,\"ranges\":[{\"first\":\"30\",\"last\":\"34\"},"
                  "{\"first\":\"40\",\"last\":\"42\"}]}");
}

static void test_too_many_ranges(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 2, 1);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET "t?count=64&format=range", NULL);
    for (uint64_t i = 1; i < LIMIT_RANGES_PER_REPLY; i++) {
        fake_await_wanted(&f->fake, i);
        fake_publish(&f->fake, tag, 2 + 2 * i, 1);
    }
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "2 2\n4 4\n"));
    reply_release(&reply);
    client_request(f->client, "GET", GET "t?count=65", NULL);
    fake_await_demand(tag, 65);
    for (uint64_t i = 0; i <= LIMIT_RANGES_PER_REPLY; i++) {
        fake_await_wanted(&f->fake, LIMIT_RANGES_PER_REPLY + i);
        fake_publish(&f->fake, tag, 1000 + 2 * i, 1);
    }
    fake_await_demand(tag, 0);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "\"code\":\"overloaded\""));
    reply_release(&reply);
}

/* Shows lesson-contiguous. */
static void test_contiguous(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 10, 5);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_expect(f->client, "GET", GET "t", 200, "10");
    fake_publish(&f->fake, tag, 100, 50);
    /* The rest of the first slot is skipped. */
    client_expect(f->client, "GET", GET "t?count=7&contiguous=1", 200,
                  "100\n101\n102\n103\n104\n105\n106\n");
    atomic_store(&tag->refill.max_step, 60);
    client_expect_error(f->client, "GET", GET "t?count=61&contiguous=1", NULL, 409,
                        "not_contiguous");
    /* As many as a segment can hold: waits for the next one. */
    client_request(f->client, "GET", GET "t?count=60&contiguous=1&format=range", NULL);
    fake_await_demand(tag, 60);
    fake_publish(&f->fake, tag, 200, 60);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "200 259\n");
    reply_release(&reply);
    fake_await_demand(tag, 0);
}

/* A contiguous request that waits leaves what it cannot use to those after it. */
static void test_contiguous_does_not_block_others(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 10, 5);
    struct client *other = fixture_connect(f);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_expect(f->client, "GET", GET "t", 200, "10");
    client_request(f->client, "GET", GET "t?count=6&contiguous=1&format=range", NULL);
    fake_await_demand(tag, 6);
    client_expect(other, "GET", GET "t", 200, "11");
    fake_publish(&f->fake, tag, 50, 6);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "50 55\n");
    reply_release(&reply);
    client_close(other);
}

#define TEST_SEGMENT(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* --- wait --- */

#define GET_WAIT "/api/segment/get/"

/* Shows lesson-step-1. */
static void test_parked_request_is_woken(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET_WAIT "t?count=3", NULL);
    fake_await_demand(tag, 3);
    fake_await_wanted(&f->fake, 1);
    fake_publish(&f->fake, tag, 1, 2);
    fake_await_wanted(&f->fake, 2);
    assert_int_equal(atomic_load(&tag->demand), 3);
    fake_publish(&f->fake, tag, 3, 9);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "1\n2\n3\n");
    reply_release(&reply);
    assert_int_equal(atomic_load(&tag->demand), 0);
}

static void test_parked_requests_are_served_in_order(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *clients[20];
    struct reply reply;
    char wanted[16];

    fake_hold(&f->fake, false, true);
    for (unsigned i = 0; i < 20; i++) {
        clients[i] = fixture_connect(f);
        client_request(clients[i], "GET", GET_WAIT "t", NULL);
        fake_await_demand(tag, i + 1);
    }
    fake_publish(&f->fake, tag, 100, 5);
    fake_await_demand(tag, 15);
    fake_publish(&f->fake, tag, 200, 100);
    for (unsigned i = 0; i < 20; i++) {
        client_read(clients[i], false, &reply);
        snprintf(wanted, sizeof(wanted), "%u", i < 5 ? 100 + i : 200 + i - 5);
        assert_string_equal(reply.body, wanted);
        reply_release(&reply);
        client_close(clients[i]);
    }
    /* The first park, the rest of those that found it empty again, and 10 % of the last segment. */
    assert_int_equal(fake_wanted(&f->fake), 3);
}

/* Many more than the loop sends to in one go: all are answered in the turn that wakes them, each
 * with what it pipelined after. */
static void test_many_are_woken_at_once(void **state)
{
    enum { COUNT = 3 * WIRE_BATCH };
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *clients[COUNT];
    uint64_t sum = 0;

    fake_hold(&f->fake, false, true);
    for (int i = 0; i < COUNT; i++) {
        clients[i] = fixture_connect(f);
        client_printf(clients[i], "GET " GET_WAIT "t HTTP/1.1\r\nHost: a\r\n\r\n"
                                  "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    fake_await_demand(tag, COUNT);
    fake_publish(&f->fake, tag, 1, COUNT);
    for (int i = 0; i < COUNT; i++) {
        struct reply reply;

        client_read(clients[i], false, &reply);
        assert_int_equal(reply.status, 200);
        sum += strtoull(reply.body, NULL, 10);
        reply_release(&reply);
        client_read(clients[i], false, &reply);
        assert_int_equal(reply.status, 200);
        reply_release(&reply);
        client_close(clients[i]);
    }
    assert_int_equal(sum, COUNT * (COUNT + 1) / 2);
}

/* Shows lesson-refill. */
static void test_deadline_gives_503(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 5, 2);

    fake_hold(&f->fake, false, true);
    /* Never waits, and burns nothing. */
    client_expect_error(f->client, "GET", GET_WAIT "t?count=3&timeout_ms=0", NULL, 503, "timeout");
    client_expect(f->client, "GET", GET_WAIT "t?timeout_ms=0", 200, "5");
    client_expect_error(f->client, "GET", GET_WAIT "t?count=3&timeout_ms=30", NULL, 503, "timeout");
    client_expect(f->client, "GET", GET_WAIT "t?timeout_ms=0", 200, "6");
    assert_int_equal(atomic_load(&tag->demand), 0);
    atomic_store(&tag->disk_full, true);
    client_expect_error(f->client, "GET", GET_WAIT "t?timeout_ms=0", NULL, 503, "disk_full");
    client_expect_error(f->client, "GET", GET_WAIT "t?timeout_ms=20", NULL, 503, "disk_full");
    atomic_store(&f->fake.health.leader_known, false);
    client_expect_error(f->client, "GET", GET_WAIT "t?timeout_ms=20", NULL, 503, "no_leader");
    client_expect_error(f->client, "GET", GET_WAIT "t?timeout_ms=0", NULL, 503, "no_leader");
    assert_int_equal(fake_wanted(&f->fake), 1);
}

/* More is asked for than there is, and no more comes: what there is stays for others, also for
 * those that wait after, whether the time is over or the client goes. */
static void test_what_fails_has_taken_nothing(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 5, 3);
    struct client *large = fixture_connect(f);
    struct client *small = fixture_connect(f);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_expect_error(f->client, "GET", GET_WAIT "t?count=4&timeout_ms=30", NULL, 503, "timeout");
    client_request(large, "GET", GET_WAIT "t?count=4&timeout_ms=300", NULL);
    fake_await_demand(tag, 4);
    client_request(small, "GET", GET_WAIT "t?timeout_ms=10000", NULL);
    fake_await_demand(tag, 5);
    client_read(large, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_release(&reply);
    client_read(small, false, &reply);
    assert_string_equal(reply.body, "5");
    reply_release(&reply);
    client_request(large, "GET", GET_WAIT "t?count=4&timeout_ms=10000", NULL);
    fake_await_demand(tag, 4);
    client_request(small, "GET", GET_WAIT "t?timeout_ms=10000", NULL);
    fake_await_demand(tag, 5);
    client_close(large);
    client_read(small, false, &reply);
    assert_string_equal(reply.body, "6");
    reply_release(&reply);
    client_close(small);
    client_expect(f->client, "GET", GET_WAIT "t", 200, "7");
    assert_int_equal(f->api->loops[0]->counts.burnt_unanswered, 0);
}

/* What comes is joined to what was there, once it is enough. */
static void test_all_at_once_when_it_is_enough(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 5, 3);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET_WAIT "t?count=5&format=range", NULL);
    fake_await_demand(tag, 5);
    assert_int_equal(segment_left(&tag->buffer), 3);
    fake_publish(&f->fake, tag, 100, 10);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "5 7\n100 101\n");
    reply_release(&reply);
}

/* More than both segments have: there is room for others only when these are taken. */
static void test_more_than_two_segments(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 5, 3);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET_WAIT "t?count=10&format=range", NULL);
    fake_await_demand(tag, 10);
    fake_publish(&f->fake, tag, 100, 3);
    fake_await_demand(tag, 4);
    assert_int_equal(segment_left(&tag->buffer), 0);
    fake_publish(&f->fake, tag, 200, 3);
    fake_await_wanted(&f->fake, 3);
    assert_int_equal(segment_left(&tag->buffer), 3);
    fake_publish(&f->fake, tag, 300, 3);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "5 7\n100 102\n200 202\n300 300\n");
    reply_release(&reply);
    fake_publish(&f->fake, tag, 400, 2);
    client_expect_error(f->client, "GET", GET_WAIT "t?count=5&timeout_ms=30", NULL, 503, "timeout");
    assert_int_equal(f->api->loops[0]->counts.burnt_unanswered, 4);
}

static void test_state_change_answers_the_parked(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET_WAIT "t", NULL);
    fake_await_demand(tag, 1);
    fake_set_state(&f->fake, tag, ID_TAG_EXHAUSTED);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 409);
    reply_release(&reply);
    fake_set_state(&f->fake, tag, ID_TAG_ACTIVE);
    client_request(f->client, "GET", GET_WAIT "t", NULL);
    fake_await_demand(tag, 1);
    fake_set_state(&f->fake, tag, ID_TAG_UNKNOWN);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 404);
    reply_release(&reply);
}

/* This node's log comes to the deletion of an earlier tag of that name: the cluster has made it
 * again, before the request was sent to a node that lags behind. */
static void test_an_earlier_deletion_refuses_no_parked_request(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag;
    struct reply reply;
    uint64_t asked;

    fake_make_tag(&f->fake, "t", 500, 10, 100);
    tag = fake_open(&f->fake, "t", 0, 0);
    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET_WAIT "t", NULL);
    fake_await_demand(tag, 1);
    asked = fake_submitted(&f->fake);
    fake_set_state(&f->fake, tag, ID_TAG_UNKNOWN);
    fake_await_submitted(&f->fake, asked + 1);
    fake_await_demand(tag, 1);
    fake_publish(&f->fake, tag, 600, 10);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "600");
    reply_release(&reply);
}

static void test_client_gone_while_parked(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *other = fixture_connect(f);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(other, "GET", GET_WAIT "t?count=10", NULL);
    fake_await_demand(tag, 10);
    client_close(other);
    fake_await_demand(tag, 0);
    client_request(f->client, "GET", GET_WAIT "t", NULL);
    fake_await_demand(tag, 1);
    fake_publish(&f->fake, tag, 1, 10);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "1");
    reply_release(&reply);
}

static void test_client_gone_while_asking(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);

    fake_make_tag(&f->fake, "t", 1, 10, 100);
    fake_hold(&f->fake, true, false);
    client_request(other, "GET", GET_WAIT "t", NULL);
    fake_await_submitted(&f->fake, 1);
    client_close(other);
    fake_release(&f->fake);
    client_expect(f->client, "GET", GET_WAIT "t", 200, NULL);
}

static void test_replies_keep_their_order(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "slow", 0, 0);
    struct reply reply;

    fake_open(&f->fake, "fast", 1, 10);
    fake_hold(&f->fake, false, true);
    client_printf(f->client, "GET " GET_WAIT "slow HTTP/1.1\r\nHost: a\r\n\r\n"
                             "GET " GET_WAIT "fast HTTP/1.1\r\nHost: a\r\n\r\n"
                             "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_await_demand(tag, 1);
    fake_publish(&f->fake, tag, 77, 10);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "77");
    reply_release(&reply);
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "1");
    reply_release(&reply);
    client_read(f->client, false, &reply);
    assert_non_null(strstr(reply.body, "alive"));
    reply_release(&reply);
}

static void test_pipeline_of_ten_thousand(void **state)
{
    static const char request[] = "GET " GET_WAIT "t HTTP/1.1\r\nHost: a\r\n\r\n";
    enum { COUNT = 10000 };
    struct fixture *f = *state;
    char *all = malloc(COUNT * sizeof(request));
    struct reply reply;
    char wanted[16];

    assert_non_null(all);
    fake_make_tag(&f->fake, "t", 1, 1000, 1000000);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(all + i * (sizeof(request) - 1), request, sizeof(request) - 1);
    }
    client_send(f->client, all, COUNT * (sizeof(request) - 1));
    for (unsigned i = 1; i <= COUNT; i++) {
        client_read(f->client, false, &reply);
        snprintf(wanted, sizeof(wanted), "%u", i);
        assert_string_equal(reply.body, wanted);
        reply_release(&reply);
    }
    free(all);
}

#define TEST_WAIT(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* --- shape --- */

#define GET_SHAPE "/api/segment/get/"
#define DECODE "/api/segment/decode/"
#define MANY 1000

/* Make a tag; what is shown of it has this. */
static void make(struct fixture *f, const char *tag, const char *body, const char *shown)
{
    char target[64];
    struct reply reply;

    snprintf(target, sizeof target, "/api/tags/%s", tag);
    client_call(f->client, "PUT", target, body, &reply);
    if (reply.status != 201 || strstr(reply.body, shown) == NULL) {
        fail_msg("%s: %d %s", body, reply.status, reply.body);
    }
    reply_release(&reply);
}

static void test_ids_are_texts(void **state)
{
    struct fixture *f = *state;

    make(f, "inv", "{\"shape\":\"INV-{id:6}{luhn}\"}", "\"shape\":\"INV-{id:6}{luhn}\"");
    (void)fake_open(&f->fake, "inv", 41, 1000);
    client_expect(f->client, "GET", GET_SHAPE "inv", 200, "INV-0000414");
    client_expect(f->client, "POST", GET_SHAPE "inv?count=2", 200, "INV-0000422\nINV-0000430\n");
    client_expect(f->client, "GET", GET_SHAPE "inv?as=number", 200, "44");
    client_expect(f->client, "GET", GET_SHAPE "inv?as=number&count=2&format=range", 200, "45 46\n");
    client_expect_message(f->client, "GET", GET_SHAPE "inv?count=2&format=range", NULL, 400,
                          "bad_request",
                          "tag \\\"inv\\\" has a shape, so its ids are texts: format=range needs "
                          "as=number");
    client_expect_message(f->client, "GET", GET_SHAPE "inv?format=json", NULL, 400, "bad_request",
                          "format=json");
    client_expect_error(f->client, "GET", GET_SHAPE "inv?as=text", NULL, 400, "bad_request");
    client_expect(f->client, "GET", GET_SHAPE "inv", 200,
                  "INV-0000471"); /* none of them took ids */
}

/* From the log, with a key too, on a node that has not used the tag before. */
static void test_strict_ids_are_texts(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_log_time(&f->fake, 1700000000000);
    make(f, "s", "{\"mode\":\"strict\",\"shape\":\"{id36:4}\"}", "{id36:4}");
    client_printf(f->client,
                  "GET " GET_SHAPE "s?count=2 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\r\n");
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "0001\n0002\n");
    reply_release(&reply);
    client_expect(f->client, "GET", GET_SHAPE "s", 200, "0003");
    client_expect(f->client, "GET", GET_SHAPE "s?as=number", 200, "4");
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* More lines than are made at once, of which each is another one; and the ids after them. */
static void test_many_secret_ids(void **state)
{
    struct fixture *f = *state;
    char *lines[MANY];
    char target[64];
    char wanted[96];
    struct reply reply;
    char *rest;

    make(f, "c", "{\"shape\":\"{secret36:8}\"}", "\"max\":\"2821109907456\"");
    (void)fake_open(&f->fake, "c", 1, 10 * MANY);
    client_call(f->client, "GET", GET_SHAPE "c?count=1000", NULL, &reply);
    assert_int_equal(strlen(reply.body), MANY * 9);
    lines[0] = strtok_r(reply.body, "\n", &rest);
    for (unsigned i = 1; i < MANY; i++) {
        lines[i] = strtok_r(NULL, "\n", &rest);
        assert_non_null(lines[i]);
    }
    for (unsigned i = 0; i < MANY; i += 333) {
        snprintf(target, sizeof target, DECODE "c?text=%s", lines[i]);
        snprintf(wanted, sizeof wanted, "{\"tag\":\"c\",\"id\":\"%u\",\"granted\":false}", i + 1);
        client_expect(f->client, "GET", target, 200, wanted); /* the log granted none of them */
    }
    qsort(lines, MANY, sizeof lines[0], compare);
    for (unsigned i = 1; i < MANY; i++) {
        assert_string_not_equal(lines[i - 1], lines[i]);
    }
    reply_release(&reply);
}

static void test_the_key_is_not_shown(void **state)
{
    struct fixture *f = *state;
    static const char *const targets[] = {"/api/tags/c", "/api/tags", "/api/node/segments"};
    struct reply reply;

    make(f, "c", "{\"shape\":\"{secret36:8}\"}", "\"shape\":\"{secret36:8}\",\"description\"");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        client_call(f->client, "GET", targets[i], NULL, &reply);
        assert_int_equal(reply.status, 200);
        assert_int_equal(strlen(reply.body), reply.len);
        assert_null(strstr(reply.body, "\\u0000"));
        reply_release(&reply);
    }
}

static void test_what_is_refused(void **state)
{
    struct fixture *f = *state;

    client_expect_message(f->client, "PUT", "/api/tags/x", "{\"shape\":\"{id\"}", 400,
                          "bad_request", "shape=\\\"{id\\\": ");
    client_expect_message(f->client, "PUT", "/api/tags/x", "{\"shape\":7}", 400, "bad_request",
                          "the shape of a tag is not a string");
    client_expect_message(f->client, "PUT", "/api/tags/x", "{\"shape\":\"\"}", 400, "bad_request",
                          "1 to 128");
    make(f, "n", "{}", "\"tag\":\"n\"");
    client_expect_message(f->client, "PUT", "/api/tags/n", "{\"shape\":\"{id}\"}", 400,
                          "bad_request", "a name keeps the shape");
    client_expect_error(f->client, "GET", DECODE "n?text=1", NULL, 409, "no_shape");
    client_expect_error(f->client, "GET", DECODE "nobody?text=1", NULL, 404, "unknown_tag");
    make(f, "i", "{\"shape\":\"I{id}\"}", "I{id}");
    client_expect(f->client, "GET", DECODE "i?text=I1&consistency=local", 200,
                  "{\"tag\":\"i\",\"id\":\"1\",\"granted\":false}");
    client_expect_message(f->client, "GET", DECODE "i?text=i1", NULL, 400, "bad_id",
                          "\\\"i1\\\" is not an id of the shape \\\"I{id}\\\"");
    client_expect_error(f->client, "GET", DECODE "i", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE "i?text=", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE "i?id=1", NULL, 400, "bad_request");
}

/* In a list too, whose other items need no new form; and a dump is taken by another cluster. */
static void test_shapes_in_a_list(void **state)
{
    struct fixture *f = *state;
    struct reply dump;
    struct reply reply;

    client_call(
        f->client, "POST", "/api/tags",
        "[{\"tag\":\"a\"},{\"tag\":\"b\",\"max\":9},{\"tag\":\"c\",\"shape\":\"{secret:6}\"},"
        "{\"tag\":\"d\",\"shape\":\"D{id}\"}]",
        &reply);
    assert_string_equal(reply.body, "{\"made\":4,\"changed\":0}");
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags", NULL, &dump);
    assert_non_null(strstr(dump.body, "\"shape\":\"{secret:6}\""));
    assert_non_null(strstr(dump.body, "\"shape\":\"D{id}\""));
    client_call(f->client, "POST", "/api/tags", dump.body, &reply);
    assert_string_equal(reply.body, "{\"made\":0,\"changed\":4}");
    reply_release(&reply);
    reply_release(&dump);
}

/* Whose key has been changed: in the cluster itself, and in another one. */
static void test_a_dump_with_a_later_key(void **state)
{
    struct fixture *f = *state;
    struct reply dump;
    struct reply reply;
    char *name;

    make(f, "s", "{\"shape\":\"A{key}{secret:6}\"}", "\"key\":0");
    client_call(f->client, "PUT", "/api/tags/s", "{\"key\":1}", &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags", NULL, &dump);
    assert_non_null(strstr(dump.body, "\"key\":1"));
    client_call(f->client, "POST", "/api/tags", dump.body, &reply);
    assert_string_equal(reply.body, "{\"made\":0,\"changed\":1}");
    reply_release(&reply);
    name = strstr(dump.body, "\"tag\":\"s\"");
    assert_non_null(name);
    name[7] = 't'; /* a name that is not there, as in another cluster */
    client_call(f->client, "POST", "/api/tags", dump.body, &reply);
    assert_string_equal(reply.body, "{\"made\":1,\"changed\":0}");
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags/t", NULL, &reply);
    assert_non_null(strstr(reply.body, "\"max_id\":\"1000000\""));
    assert_non_null(strstr(reply.body, "\"max\":\"2000000\""));
    assert_non_null(strstr(reply.body, "\"key\":1"));
    reply_release(&reply);
    reply_release(&dump);
}

#define TEST_SHAPE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_SEGMENT(test_one_id_is_bare_decimal),
        TEST_SEGMENT(test_count_and_formats),
        TEST_SEGMENT(test_names_are_taken_whole),
        TEST_SEGMENT(test_heads_that_come_again),
        TEST_SEGMENT(test_heads_that_come_again),
        TEST_SEGMENT(test_longest_name),
        TEST_SEGMENT(test_largest_count_and_last_ids),
        TEST_SEGMENT(test_bad_requests_take_no_id),
        TEST_SEGMENT(test_error_body_names_the_value),
        TEST_SEGMENT(test_wrong_methods),
        TEST_SEGMENT(test_options),
        TEST_SEGMENT(test_snowflake_is_disabled),
        TEST_SEGMENT(test_unknown_tag_asks_the_cluster),
        TEST_SEGMENT(test_deleted_tag_is_asked_for_again),
        TEST_SEGMENT(test_paused_tag),
        TEST_SEGMENT(test_open_fails),
        TEST_SEGMENT(test_exhausted_keeps_what_is_left),
        TEST_SEGMENT(test_exhausted_asks_before_it_says_so),
        TEST_SEGMENT(test_runs_into_the_end_of_ids),
        TEST_SEGMENT(test_ranges_with_an_increment),
        TEST_SEGMENT(test_an_increment_of_a_moment_ago),
        TEST_SEGMENT(test_refill_is_asked_for_once_due),
        TEST_SEGMENT(test_batch_over_several_segments),
        TEST_SEGMENT(test_too_many_ranges),
        TEST_SEGMENT(test_contiguous),
        TEST_SEGMENT(test_contiguous_does_not_block_others),
        TEST_WAIT(test_parked_request_is_woken),
        TEST_WAIT(test_parked_requests_are_served_in_order),
        TEST_WAIT(test_many_are_woken_at_once),
        TEST_WAIT(test_deadline_gives_503),
        TEST_WAIT(test_state_change_answers_the_parked),
        TEST_WAIT(test_an_earlier_deletion_refuses_no_parked_request),
        TEST_WAIT(test_client_gone_while_parked),
        TEST_WAIT(test_client_gone_while_asking),
        TEST_WAIT(test_replies_keep_their_order),
        TEST_WAIT(test_pipeline_of_ten_thousand),
        TEST_WAIT(test_what_fails_has_taken_nothing),
        TEST_WAIT(test_all_at_once_when_it_is_enough),
        TEST_WAIT(test_more_than_two_segments),
        TEST_SHAPE(test_ids_are_texts),
        TEST_SHAPE(test_strict_ids_are_texts),
        TEST_SHAPE(test_many_secret_ids),
        TEST_SHAPE(test_the_key_is_not_shown),
        TEST_SHAPE(test_what_is_refused),
        TEST_SHAPE(test_shapes_in_a_list),
        TEST_SHAPE(test_a_dump_with_a_later_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
