/*
 * test_handlers_wait.c - requests that wait for ids: woken, timed out, given up, and in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/context.h"
#include "http/server/wire.h"
#include "http/tests/fixture.h"

#define GET "/api/segment/get/"

/* Shows lesson-step-1. */
static void test_parked_request_is_woken(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET "t?count=3", NULL);
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
        client_request(clients[i], "GET", GET "t", NULL);
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
 * with what it pipelined behind. */
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
        client_printf(clients[i], "GET " GET "t HTTP/1.1\r\nHost: a\r\n\r\n"
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
    client_expect_error(f->client, "GET", GET "t?count=3&timeout_ms=0", NULL, 503, "timeout");
    client_expect(f->client, "GET", GET "t?timeout_ms=0", 200, "5");
    client_expect_error(f->client, "GET", GET "t?count=3&timeout_ms=30", NULL, 503, "timeout");
    client_expect(f->client, "GET", GET "t?timeout_ms=0", 200, "6");
    assert_int_equal(atomic_load(&tag->demand), 0);
    atomic_store(&f->fake.health.leader_known, false);
    client_expect_error(f->client, "GET", GET "t?timeout_ms=20", NULL, 503, "no_leader");
    client_expect_error(f->client, "GET", GET "t?timeout_ms=0", NULL, 503, "no_leader");
    assert_int_equal(fake_wanted(&f->fake), 1);
}

/* More is asked for than there is, and no more comes: what there is stays for others, also for
 * those that wait behind, whether the time is over or the client goes. */
static void test_what_fails_has_taken_nothing(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 5, 3);
    struct client *large = fixture_connect(f);
    struct client *small = fixture_connect(f);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_expect_error(f->client, "GET", GET "t?count=4&timeout_ms=30", NULL, 503, "timeout");
    client_request(large, "GET", GET "t?count=4&timeout_ms=300", NULL);
    fake_await_demand(tag, 4);
    client_request(small, "GET", GET "t?timeout_ms=10000", NULL);
    fake_await_demand(tag, 5);
    client_read(large, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_release(&reply);
    client_read(small, false, &reply);
    assert_string_equal(reply.body, "5");
    reply_release(&reply);
    client_request(large, "GET", GET "t?count=4&timeout_ms=10000", NULL);
    fake_await_demand(tag, 4);
    client_request(small, "GET", GET "t?timeout_ms=10000", NULL);
    fake_await_demand(tag, 5);
    client_close(large);
    client_read(small, false, &reply);
    assert_string_equal(reply.body, "6");
    reply_release(&reply);
    client_close(small);
    client_expect(f->client, "GET", GET "t", 200, "7");
    assert_int_equal(f->api->loops[0]->counts.burnt_unanswered, 0);
}

/* What comes is joined to what was there, once it is enough. */
static void test_all_at_once_when_it_is_enough(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 5, 3);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET "t?count=5&format=range", NULL);
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
    client_request(f->client, "GET", GET "t?count=10&format=range", NULL);
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
    client_expect_error(f->client, "GET", GET "t?count=5&timeout_ms=30", NULL, 503, "timeout");
    assert_int_equal(f->api->loops[0]->counts.burnt_unanswered, 4);
}

static void test_state_change_answers_the_parked(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET "t", NULL);
    fake_await_demand(tag, 1);
    fake_set_state(&f->fake, tag, ID_TAG_EXHAUSTED);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 409);
    reply_release(&reply);
    fake_set_state(&f->fake, tag, ID_TAG_ACTIVE);
    client_request(f->client, "GET", GET "t", NULL);
    fake_await_demand(tag, 1);
    fake_set_state(&f->fake, tag, ID_TAG_UNKNOWN);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 404);
    reply_release(&reply);
}

static void test_client_gone_while_parked(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *other = fixture_connect(f);
    struct reply reply;

    fake_hold(&f->fake, false, true);
    client_request(other, "GET", GET "t?count=10", NULL);
    fake_await_demand(tag, 10);
    client_close(other);
    fake_await_demand(tag, 0);
    client_request(f->client, "GET", GET "t", NULL);
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
    client_request(other, "GET", GET "t", NULL);
    fake_await_submitted(&f->fake, 1);
    client_close(other);
    fake_release(&f->fake);
    client_expect(f->client, "GET", GET "t", 200, NULL);
}

static void test_replies_keep_their_order(void **state)
{
    struct fixture *f = *state;
    struct id_tag *tag = fake_open(&f->fake, "slow", 0, 0);
    struct reply reply;

    fake_open(&f->fake, "fast", 1, 10);
    fake_hold(&f->fake, false, true);
    client_printf(f->client, "GET " GET "slow HTTP/1.1\r\nHost: a\r\n\r\n"
                             "GET " GET "fast HTTP/1.1\r\nHost: a\r\n\r\n"
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
    static const char request[] = "GET " GET "t HTTP/1.1\r\nHost: a\r\n\r\n";
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_parked_request_is_woken),         TEST(test_parked_requests_are_served_in_order),
        TEST(test_many_are_woken_at_once),          TEST(test_deadline_gives_503),
        TEST(test_state_change_answers_the_parked), TEST(test_client_gone_while_parked),
        TEST(test_client_gone_while_asking),        TEST(test_replies_keep_their_order),
        TEST(test_pipeline_of_ten_thousand),        TEST(test_what_fails_has_taken_nothing),
        TEST(test_all_at_once_when_it_is_enough),   TEST(test_more_than_two_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
