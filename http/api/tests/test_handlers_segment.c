/*
 * test_handlers_segment.c - /api/segment/get/{tag} over real sockets: formats, options, errors,
 * waiting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/tests/fixture.h"

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
    struct fixture *f = *state;
    struct reply reply;

    client_call(f->client, "GET", GET "t%22?count=x%22", NULL, &reply);
    assert_non_null(strstr(reply.body,
                           "\"status\":400,\"error\":\"Bad Request\","
                           "\"code\":\"bad_count\",\"message\":\"count=\\\"x\\\"\\\" is "
                           "not a whole number from 1 to 100000\","
                           "\"path\":\"/api/segment/get/t%22\"}"));
    assert_int_equal(strncmp(reply.body, "{\"timestamp\":1", 14), 0);
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
    client_expect_error(f->client, "GET", "/api/snowflake/decode/12", NULL, 503, "disabled");
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
    atomic_store(&tag->max_step, 60);
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

/* A contiguous request that waits leaves what it cannot use to those behind it. */
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_one_id_is_bare_decimal),
        TEST(test_count_and_formats),
        TEST(test_names_are_taken_whole),
        TEST(test_heads_that_come_again),
        TEST(test_heads_that_come_again),
        TEST(test_longest_name),
        TEST(test_largest_count_and_last_ids),
        TEST(test_bad_requests_take_no_id),
        TEST(test_error_body_names_the_value),
        TEST(test_wrong_methods),
        TEST(test_options),
        TEST(test_snowflake_is_disabled),
        TEST(test_unknown_tag_asks_the_cluster),
        TEST(test_deleted_tag_is_asked_for_again),
        TEST(test_open_fails),
        TEST(test_exhausted_keeps_what_is_left),
        TEST(test_exhausted_asks_before_it_says_so),
        TEST(test_runs_into_the_end_of_ids),
        TEST(test_refill_is_asked_for_once_due),
        TEST(test_batch_over_several_segments),
        TEST(test_too_many_ranges),
        TEST(test_contiguous),
        TEST(test_contiguous_does_not_block_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
