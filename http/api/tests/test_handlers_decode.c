/*
 * test_handlers_decode.c - snowflake ids taken apart, by the cluster's layout and as Leaf does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "http/api/tests/snowflake_fixture.h"

#define DECODE "/api/snowflake/decode/"
#define LEAF "/decodeSnowflakeId"

static void test_decode_by_the_layout(void **state)
{
    static const struct {
        const char *id;
        const char *body;
    } cases[] = {
        {"1256557484213448722",
         "{\"id\":\"1256557484213448722\",\"timestamp_ms\":1588421624602,"
         "\"time\":\"2020-05-02T12:13:44.602Z\",\"worker_id\":619,\"sequence\":18}"},
        {"0", "{\"id\":\"0\",\"timestamp_ms\":1288834974657,\"time\":\"2010-11-04T01:42:54.657Z\","
              "\"worker_id\":0,\"sequence\":0}"},
        {"0000000000004095",
         "{\"id\":\"4095\",\"timestamp_ms\":1288834974657,"
         "\"time\":\"2010-11-04T01:42:54.657Z\",\"worker_id\":0,\"sequence\":4095}"},
        {"4096", "{\"id\":\"4096\",\"timestamp_ms\":1288834974657,"
                 "\"time\":\"2010-11-04T01:42:54.657Z\",\"worker_id\":1,\"sequence\":0}"},
        {"%34194304", "{\"id\":\"4194304\",\"timestamp_ms\":1288834974658,"
                      "\"time\":\"2010-11-04T01:42:54.658Z\",\"worker_id\":0,\"sequence\":0}"},
        {"9223372036854775807",
         "{\"id\":\"9223372036854775807\",\"timestamp_ms\":3487858230208,"
         "\"time\":\"2080-07-10T17:30:30.208Z\",\"worker_id\":1023,\"sequence\":4095}"},
    };
    struct fixture *f = *state;
    char target[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(target, sizeof(target), DECODE "%s", cases[i].id);
        client_expect(f->client, i % 2 == 0 ? "GET" : "POST", target, 200, cases[i].body);
    }
}

static void test_decode_by_another_layout(void **state)
{
    struct fixture *f = *state;

    /* 1 ms, worker 5, sequence 63. */
    client_expect(f->client, "GET", DECODE "4479", 200,
                  "{\"id\":\"4479\",\"timestamp_ms\":1288834974658,"
                  "\"time\":\"2010-11-04T01:42:54.658Z\",\"worker_id\":5,\"sequence\":63}");
    /* Leaf's way knows Leaf's layout alone. */
    client_expect(f->client, "GET", LEAF "?snowflakeId=4479", 200,
                  "{\"workerId\":\"1\",\"sequenceId\":\"383\","
                  "\"timestamp\":\"1288834974657(2010-11-04 09:42:54.657)\"}");
}

/* The same id in three forms; a UUID of somebody else is none of this cluster. */
static void test_decode_of_128_bits(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        static const char *const forms[] = {"1256557484213448722",
                                            "0171d54e-831a-79ac-8012-0123456789ab",
                                            "01E7AMX0RTKB009FZZZZZZZZZZ"};
        char target[64];

        snprintf(target, sizeof(target), DECODE "%s", forms[i]);
        client_expect(f->client, "GET", target, 200,
                      "{\"id\":\"1256557484213448722\",\"timestamp_ms\":1588421624602,"
                      "\"time\":\"2020-05-02T12:13:44.602Z\",\"worker_id\":619,\"sequence\":18}");
    }
    client_expect_message(f->client, "GET", DECODE "0000d537-41da-79ac-8012-0123456789ab", NULL,
                          400, "bad_request", "is not of this cluster");
    client_expect_message(f->client, "GET", DECODE "0171d537-41da-4000-8000-000000000000", NULL,
                          400, "bad_request", "is not a whole number");
}

static void test_bad_ids(void **state)
{
    static const char *const ids[] = {"-1",
                                      "+1",
                                      "1.0",
                                      "0x10",
                                      "abc",
                                      "%201",
                                      "1%00",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "%zz",
                                      "%"};
    struct fixture *f = *state;
    struct reply reply;
    char target[512] = DECODE;

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        snprintf(target, sizeof(target), DECODE "%s", ids[i]);
        client_expect_error(f->client, "GET", target, NULL, 400, "bad_request");
    }
    client_call(f->client, "GET", DECODE "12x", NULL, &reply);
    assert_non_null(
        strstr(reply.body, "id \\\"12x\\\" is not a whole number from 0 to 9223372036854775807"));
    reply_release(&reply);
    memset(target + strlen(DECODE), '1', 300);
    target[strlen(DECODE) + 300] = '\0';
    client_expect_error(f->client, "GET", target, NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE "1?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE, NULL, 404, "no_route");
    client_expect_error(f->client, "GET", DECODE "1/2", NULL, 404, "no_route");
    client_expect_error(f->client, "DELETE", DECODE "1", NULL, 405, "method_not_allowed");
}

static void test_no_layout_yet(void **state)
{
    struct fixture *f = *state;

    client_expect_error(f->client, "GET", DECODE "1", NULL, 503, "no_leader");
    client_expect_error(f->client, "GET", DECODE "x", NULL, 400, "bad_request");
    client_expect(f->client, "GET", LEAF "?snowflakeId=0", 200, NULL);
}

static void test_leaf(void **state)
{
    static const struct {
        const char *id;
        const char *body; /* NULL: no number */
    } cases[] = {
        {"1256557484213448722", "{\"workerId\":\"619\",\"sequenceId\":\"18\","
                                "\"timestamp\":\"1588421624602(2020-05-02 20:13:44.602)\"}"},
        {"%2b1", "{\"workerId\":\"0\",\"sequenceId\":\"1\","
                 "\"timestamp\":\"1288834974657(2010-11-04 09:42:54.657)\"}"},
        {"000000000000000000000000000000000000001",
         "{\"workerId\":\"0\",\"sequenceId\":\"1\","
         "\"timestamp\":\"1288834974657(2010-11-04 09:42:54.657)\"}"},
        {"9223372036854775807", "{\"workerId\":\"1023\",\"sequenceId\":\"4095\","
                                "\"timestamp\":\"3487858230208(2080-07-11 01:30:30.208)\"}"},
        {"-1", "{\"workerId\":\"1023\",\"sequenceId\":\"4095\","
               "\"timestamp\":\"1288834974656(2010-11-04 09:42:54.656)\"}"},
        {"-9223372036854775808", "{\"workerId\":\"0\",\"sequenceId\":\"0\","
                                 "\"timestamp\":\"-910188280895(1941-02-27 17:55:19.105)\"}"},
        {"9223372036854775808", NULL},
        {"-9223372036854775809", NULL},
        {"18446744073709551617", NULL},
        {"", NULL},
        {"-", NULL},
        {"%2b", NULL},
        {"+1", NULL}, /* a space and 1 */
        {"1%20", NULL},
        {"1x", NULL},
        {"--1", NULL},
        {"1%2e0", NULL},
    };
    struct fixture *f = *state;
    char target[128];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(target, sizeof(target), LEAF "?snowflakeId=%s", cases[i].id);
        client_expect(f->client, i % 2 == 0 ? "GET" : "POST", target, 200,
                      cases[i].body != NULL ? cases[i].body
                                            : "{\"errorMsg\":\"snowflake Id反解析发生异常!\"}");
    }
    client_expect_error(f->client, "GET", LEAF, NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", LEAF "?id=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", LEAF "?snowflakeId=1&snowflakeId=2", NULL, 400,
                        "bad_request");
    client_expect_error(f->client, "GET", LEAF "/1", NULL, 404, "no_route");
}

/* What is handed out is read back. */
static void test_there_and_back(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char target[64];

    client_call(f->client, "GET", GET "k", NULL, &reply);
    snprintf(target, sizeof(target), DECODE "%s", reply.body);
    reply_release(&reply);
    client_call(f->client, "GET", target, NULL, &reply);
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/json;charset=UTF-8");
    assert_non_null(strstr(reply.body, ",\"timestamp_ms\":1700000000000,"
                                       "\"time\":\"2023-11-14T22:13:20.000Z\",\"worker_id\":7,"));
    reply_release(&reply);
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_decode_by_the_layout, snowflake_setup),
        TEST(test_decode_by_another_layout, snowflake_setup_small),
        TEST(test_decode_of_128_bits, snowflake_setup),
        TEST(test_bad_ids, snowflake_setup),
        TEST(test_no_layout_yet, snowflake_setup_bare),
        TEST(test_leaf, snowflake_setup),
        TEST(test_there_and_back, snowflake_setup),
    };

    /* Eight hours ahead of UTC, without a database of zones. */
    assert_int_equal(setenv("TZ", "TEST-8", 1), 0);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
