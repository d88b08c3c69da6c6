/*
 * test_handlers_workers_bad.c - requests to /api/workers that are refused before anything is
 * proposed, at each bound and beyond, with the field, the value and the rule in the message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tests/snowflake_fixture.h"

#define WORKERS "/api/workers"

static const struct bad {
    const char *method;
    const char *target;
    const char *body;
    const char *code;
    const char *text;
} cases[] = {
    {"POST", WORKERS, "", "bad_request", "the field \\\"name\\\" is missing"},
    {"POST", WORKERS, "{}", "bad_request", "the field \\\"name\\\" is missing"},
    {"POST", WORKERS, "{", "bad_json", "line 1, column 1"},
    {"POST", WORKERS, "{\"name\":\"a\",\"name\":\"b\"}", "bad_json", "duplicate"},
    {"POST", WORKERS, "{\"name\":\"a\"} x", "bad_json", "end of file expected"},
    {"POST", WORKERS, "[]", "bad_request", "an array is not an object of a worker id's"},
    {"POST", WORKERS, "\"a\"", "bad_request", "\\\"a\\\" is not an object"},
    {"POST", WORKERS, "{\"name\":\"\"}", "bad_request", "name=\\\"\\\" is not 1 to 128 bytes"},
    {"POST", WORKERS, "{\"name\":\"a\\u0001\"}", "bad_request", "control characters"},
    {"POST", WORKERS, "{\"name\":7}", "bad_request", "name=7 is not a string"},
    {"POST", WORKERS, "{\"name\":\"a\",\"address\":null}", "bad_request",
     "address=null is not a string"},
    {"POST", WORKERS, "{\"name\":\"a\",\"address\":\"x\\n\"}", "bad_request",
     "is not at most 255 bytes of UTF-8"},
    {"POST", WORKERS, "{\"name\":\"a\",\"window_ms\":999}", "bad_request",
     "window_ms=999 is not a whole number from 1000 to 86400000"},
    {"POST", WORKERS, "{\"name\":\"a\",\"window_ms\":86400001}", "bad_request",
     "window_ms=86400001 "},
    {"POST", WORKERS, "{\"name\":\"a\",\"window_ms\":1000.0}", "bad_request",
     "window_ms has a fraction or an exponent"},
    {"POST", WORKERS, "{\"name\":\"a\",\"window_ms\":1e4}", "bad_request",
     "window_ms has a fraction or an exponent"},
    {"POST", WORKERS, "{\"name\":\"a\",\"window_ms\":-1}", "bad_request", "window_ms=-1 "},
    {"POST", WORKERS, "{\"name\":\"a\",\"window_ms\":\"5000\"}", "bad_request",
     "window_ms=\\\"5000\\\" "},
    {"POST", WORKERS, "{\"name\":\"a\",\"worker_id\":1024}", "bad_request",
     "worker_id=1024 is not a whole number from 0 to 1023"},
    {"POST", WORKERS, "{\"name\":\"a\",\"worker_id\":65535}", "bad_request", "65535"},
    {"POST", WORKERS, "{\"name\":\"a\",\"from_ms\":253402300800000}", "bad_request",
     "from 0 to 253402300799999"},
    {"POST", WORKERS, "{\"name\":\"a\",\"from_ms\":99999999999999999999}", "bad_request",
     "out of range for every field"},
    {"POST", WORKERS, "{\"name\":\"a\",\"epoch\":1}", "bad_request",
     "unknown field \\\"epoch\\\"; known are name, address, window_ms, worker_id, from_ms"},
    {"POST", WORKERS "?name=a", "{\"name\":\"a\"}", "bad_request", "name"},
    {"PUT", WORKERS "/0", "", "bad_request", "the field \\\"epoch\\\" is missing"},
    {"PUT", WORKERS "/0", "{\"epoch\":0}", "bad_request",
     "epoch=0 is not a whole number from 1 to 9223372036854775807"},
    {"PUT", WORKERS "/0", "{\"epoch\":-5}", "bad_request", "epoch=-5 "},
    {"PUT", WORKERS "/0", "{\"epoch\":1,\"window_ms\":999}", "bad_request", "window_ms=999 "},
    {"PUT", WORKERS "/0", "{\"epoch\":1,\"window_ms\":86400001}", "bad_request", "window_ms"},
    {"PUT", WORKERS "/0", "{\"epoch\":1,\"last_timestamp_ms\":253402300800000}", "bad_request",
     "last_timestamp_ms=253402300800000 "},
    {"PUT", WORKERS "/0", "{\"epoch\":1,\"expected_until_ms\":0.5}", "bad_request",
     "expected_until_ms=0.5 "},
    {"PUT", WORKERS "/0", "{\"epoch\":1,\"name\":\"a\"}", "bad_request",
     "known are epoch, window_ms, last_timestamp_ms, expected_until_ms"},
    {"PUT", WORKERS "/0", "{\"epoch\":1,\"expected_until_ms\":99999999999999999999}", "bad_request",
     "\\\"expected_until_ms\\\"=\\\"99999999999999999999\\\" is out of range"},
    {"PUT", WORKERS "/0?epoch=1", "{\"epoch\":1}", "bad_request", "epoch"},
    {"PUT", WORKERS "/1024", "{\"epoch\":1}", "bad_request",
     "worker id \\\"1024\\\" is not a whole number from 0 to 1023"},
    {"PUT", WORKERS "/-1", "{\"epoch\":1}", "bad_request", "\\\"-1\\\""},
    {"PUT", WORKERS "/x", "{\"epoch\":1}", "bad_request", "\\\"x\\\""},
    {"PUT", WORKERS "/%zz", "{\"epoch\":1}", "bad_request", "%zz"},
    {"DELETE", WORKERS "/0", NULL, "bad_request", "epoch is missing"},
    {"DELETE", WORKERS "/0?epoch=0", NULL, "bad_request", "epoch=\\\"0\\\" is not a whole"},
    {"DELETE", WORKERS "/0?epoch=x", NULL, "bad_request", "epoch=\\\"x\\\""},
    {"DELETE", WORKERS "/0?epoch=9223372036854775808", NULL, "bad_request", "epoch="},
    {"DELETE", WORKERS "/0?epoch=1&last_timestamp_ms=-1", NULL, "bad_request",
     "last_timestamp_ms=\\\"-1\\\""},
    {"DELETE", WORKERS "/0?epoch=1&x=1", NULL, "bad_request", "x"},
    {"DELETE", WORKERS "/0?epoch=1", "{\"epoch\":1}", "bad_request",
     "epoch is given in the query and in the body"},
    {"DELETE", WORKERS "/0?last_timestamp_ms=5", "{\"epoch\":1,\"last_timestamp_ms\":5}",
     "bad_request", "last_timestamp_ms is given in the query and in the body"},
    {"DELETE", WORKERS "/0", "{\"epoch\":1.5}", "bad_request", "epoch=1.5 "},
    {"DELETE", WORKERS "/0", "nonsense", "bad_json", "line 1"},
    {"GET", WORKERS "?limit=0", NULL, "bad_request", "limit=\\\"0\\\""},
    {"GET", WORKERS "?limit=1025", NULL, "bad_request", "from 1 to 1024"},
    {"GET", WORKERS "?limit=", NULL, "bad_request", "limit="},
    {"GET", WORKERS "?after=1024", NULL, "bad_request", "from 0 to 1023"},
    {"GET", WORKERS "?after=x", NULL, "bad_request", "after="},
    {"GET", WORKERS "?consistency=weak", NULL, "bad_request", "consistency="},
    {"GET", WORKERS "?prefix=a", NULL, "bad_request", "prefix"},
};

static void test_bad_requests_propose_nothing(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_expect_message(f->client, cases[i].method, cases[i].target, cases[i].body, 400,
                              cases[i].code, cases[i].text);
    }
    assert_int_equal(fake_submitted(&f->fake), 0);
    client_expect_error(f->client, "GET", WORKERS "/", NULL, 404, "no_route");
    client_expect_error(f->client, "PUT", WORKERS "/1/2", "", 404, "no_route");
    client_expect_error(f->client, "PATCH", WORKERS, "", 405, "method_not_allowed");
    client_expect(f->client, "GET", WORKERS "?after=&limit=1024", 200, NULL);
    client_expect(f->client, "HEAD", WORKERS, 200, NULL);
}

/* Names and addresses of the longest length, and of one more. */
static void test_longest_texts(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char body[1024];

    snprintf(body, sizeof(body), "{\"name\":\"%0*d\",\"address\":\"%0*d\"}",
             LIMIT_WORKER_NAME_BYTES, 7, LIMIT_ADDRESS_BYTES, 8);
    client_call(f->client, "POST", WORKERS, body, &reply);
    assert_int_equal(reply.status, 201);
    reply_release(&reply);
    client_call(f->client, "GET", WORKERS, NULL, &reply);
    snprintf(body, sizeof(body), "\"name\":\"%0*d\",\"address\":\"%0*d\",", LIMIT_WORKER_NAME_BYTES,
             7, LIMIT_ADDRESS_BYTES, 8);
    assert_non_null(strstr(reply.body, body));
    reply_release(&reply);
    snprintf(body, sizeof(body), "{\"name\":\"%0*d\"}", LIMIT_WORKER_NAME_BYTES + 1, 7);
    client_expect_message(f->client, "POST", WORKERS, body, 400, "bad_request", "1 to 128 bytes");
    snprintf(body, sizeof(body), "{\"name\":\"a\",\"address\":\"%0*d\"}", LIMIT_ADDRESS_BYTES + 1,
             8);
    client_expect_message(f->client, "POST", WORKERS, body, 400, "bad_request",
                          "at most 255 bytes");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, workers_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_bad_requests_propose_nothing),
        TEST(test_longest_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
