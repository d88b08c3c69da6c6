/*
 * test_handlers_watch.c - status, events, the live stream and the page over real sockets: what is
 * not known is null, viewers are bounded, and one that goes leaves nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "http/tests/fixture.h"

static void set_cluster(struct fixture *f)
{
    f->fake.cluster = (struct id_cluster_status){.cluster_id = "c-1",
                                                 .node_id = 2,
                                                 .state = ID_NODE_FOLLOWER,
                                                 .leader_id = 3,
                                                 .term = 9,
                                                 .member_count = 2,
                                                 .members = {{.id = 2,
                                                              .role = "voter",
                                                              .reachable = true,
                                                              .lag = 3,
                                                              .round_trip_us = 180,
                                                              .last_heard_ms = 40,
                                                              .has_clock_offset = true,
                                                              .clock_offset_ms = -7},
                                                             {.id = 3,
                                                              .role = "voter",
                                                              .peer_address = "\"</script>",
                                                              .lag = ID_UNKNOWN,
                                                              .round_trip_us = ID_UNKNOWN,
                                                              .last_heard_ms = ID_UNKNOWN}}};
}

static void test_status(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    set_cluster(f);
    client_call(f->client, "GET", "/api/status", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"match_index\":0,\"lag\":3,\"round_trip_us\":180,"
                                       "\"clock_offset_ms\":-7,\"last_heard_ms\":40}"));
    assert_non_null(strstr(reply.body, "\"peer_address\":\"\\\"</script>\""));
    assert_non_null(strstr(reply.body, "\"match_index\":0,\"lag\":null,\"round_trip_us\":null,"
                                       "\"clock_offset_ms\":null,\"last_heard_ms\":null}"));
    assert_non_null(strstr(reply.body, "\"quorum\":{\"needed\":2,\"reachable\":1,"
                                       "\"survives_next_failure\":false,\"text\":\"1 of 2"));
    assert_non_null(strstr(reply.body, "\"disk\":{\"data_bytes\":null,\"map_bytes\":null,"
                                       "\"map_used_bytes\":null,\"free_bytes\":null},"));
    assert_non_null(strstr(reply.body, "\"alarms\":[]"));
    assert_non_null(strstr(reply.body, "\"snowflake\":null"));
    assert_non_null(strstr(reply.body, "\"you\":{\"name\":\"anybody\",\"roles\":[\"ids\","));
    reply_release(&reply);
    client_expect_error(f->client, "GET", "/api/status?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "POST", "/api/status", "{}", 405, "method_not_allowed");
}

static void test_events(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_call(f->client, "GET", "/api/events", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "{\"events\":[],\"next\":null}");
    reply_release(&reply);
    client_expect_error(f->client, "GET", "/api/events?limit=0", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", "/api/events?limit=513", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", "/api/events?after=-1", NULL, 400, "bad_request");
    client_call(f->client, "GET", "/api/events?limit=512&after=18446744073709551615", NULL, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
}

/* An alarm and an event begin once the node is looked at. */
static void test_looks(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    bool seen = false;

    set_cluster(f);
    atomic_store(&f->fake.health.disk_low, true);
    api_watch(f->api);
    while (!seen) { /* the test's own limit of time ends it */
        client_call(f->client, "GET", "/api/status", NULL, &reply);
        seen = strstr(reply.body, "\"alarms\":[{\"name\":\"LeafdDiskLow\"") != NULL;
        reply_release(&reply);
    }
    client_call(f->client, "GET", "/api/events", NULL, &reply);
    assert_non_null(strstr(reply.body, "node 2 is up; node 3 leads in term 9"));
    assert_non_null(strstr(reply.body, "\"kind\":\"alarm\",\"text\":\"LeafdDiskLow: "));
    reply_release(&reply);
}

/* A backend that answers no look is asked again, and nothing else. */
static void test_a_backend_that_fails(void **state)
{
    struct fixture *f = *state;

    fake_fail_with(&f->fake, ERR_NO_LEADER);
    api_watch(f->api);
    fake_await_submitted(&f->fake, 2);
    client_expect_error(f->client, "GET", "/api/status", NULL, 503, "no_leader");
}

static void test_page(void **state)
{
    static const char *const paths[] = {"/", "/cache", "/db"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct reply reply;

        client_call(f->client, "GET", paths[i], NULL, &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply_header(&reply, "Content-Type"), "text/html;charset=UTF-8");
        assert_string_equal(reply_header(&reply, "X-Frame-Options"), "DENY");
        assert_string_equal(reply_header(&reply, "Cache-Control"), "no-store");
        reply_release(&reply);
    }
    client_expect_error(f->client, "GET", "/?x", NULL, 400, "bad_request");
    client_expect_error(f->client, "PUT", "/db", "{}", 405, "method_not_allowed");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_status), TEST(test_events), TEST(test_looks), TEST(test_a_backend_that_fails),
        TEST(test_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
