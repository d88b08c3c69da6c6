/*
 * test_handlers_layouts.c - layouts by name: made, shown, deleted and refused; ids of them, one a
 * line where the worker id is last; and requests of one layout that wait while others are served.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tests/snowflake_fixture.h"
#include "src/id/snowflake/snowflake_named.h"

#define SONY_ROW                                                                                   \
    "{\"name\":\"s10\",\"unit_ms\":10,\"epoch_ms\":1409529600000,\"time_bits\":39,"                \
    "\"worker_bits\":16,\"sequence_bits\":8,\"order\":\"time-sequence-worker\","                   \
    "\"last_ms\":6907087738879,\"deleted\":false}"
#define WIDE "{\"preset\":\"sonyflake\",\"time_bits\":37,\"worker_bits\":10,\"sequence_bits\":16}"
/* Two ids a second. */
#define SLOW                                                                                       \
    "{\"unit_ms\":1000,\"epoch_ms\":1600000000000,\"time_bits\":32,\"worker_bits\":4,"             \
    "\"sequence_bits\":1}"
#define SONY(ms, sequence, worker)                                                                 \
    ((((T0 + (ms)-1409529600000ULL) / 10) << 24) | (sequence) << 16 | (worker))

static void put(struct fixture *f, const char *name, const char *body)
{
    struct reply reply;
    char target[64];

    (void)snprintf(target, sizeof target, "/api/layouts/%s", name);
    client_call(f->client, "PUT", target, body, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
}

static void test_made_shown_and_deleted(void **state)
{
    struct fixture *f = *state;

    client_expect(f->client, "GET", "/api/layouts", 200, "{\"layouts\":[]}");
    client_expect_error(f->client, "GET", "/api/layouts/s10", NULL, 404, "unknown_layout");
    put(f, "s10", "{\"preset\":\"sonyflake\"}");
    put(f, "s10", "{\"preset\":\"sonyflake\",\"unit_ms\":10}"); /* the same */
    client_expect_message(f->client, "PUT", "/api/layouts/s10", "{\"preset\":\"leaf\"}", 409,
                          "conflict", "layout s10 has other fields already");
    client_expect(f->client, "GET", "/api/layouts/s10", 200, SONY_ROW);
    client_expect(f->client, "GET", "/api/layouts", 200, "{\"layouts\":[" SONY_ROW "]}");
    client_expect(f->client, "DELETE", "/api/layouts/s10", 204, "");
    client_expect_error(f->client, "DELETE", "/api/layouts/s10", NULL, 404, "unknown_layout");
    client_expect_message(f->client, "GET", GET "k?layout=s10", NULL, 404, "unknown_layout",
                          "layout s10 was deleted");
    client_expect_error(f->client, "PUT", "/api/layouts/s10", "{\"preset\":\"leaf\"}", 409,
                        "conflict");
    put(f, "s10", "{\"preset\":\"sonyflake\"}");
    client_expect(f->client, "GET", "/api/layouts/s10", 200, SONY_ROW);
}

static void test_refused_before_anything_is_proposed(void **state)
{
    static const char *const bodies[][2] = {
        {"", "epoch_ms is missing, and so is a preset"},
        {"{\"preset\":\"x\"}", "is not leaf, js53, twitter"},
        {"{\"preset\":\"leaf\",\"more\":1}", "more"},
        {"{\"preset\":\"leaf\",\"time_bits\":46}", "time_bits must be 24 to 45"},
        {"{\"preset\":\"leaf\",\"time_bits\":256}", "time_bits"},
        {"{\"preset\":\"leaf\",\"unit_ms\":65537}", "unit_ms"},
        {"{\"preset\":\"leaf\",\"order\":\"sequence\"}", "is not time-worker-sequence"},
        {"{\"preset\":\"leaf\",\"epoch_ms\":1700000000001}", "epoch_ms must not be after"},
        {"{\"preset\":\"leaf\",\"time_bits\":38}", "its time is over"},
    };
    struct fixture *f = *state;
    uint64_t before = fake_submitted(&f->fake);

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        client_expect_message(f->client, "PUT", "/api/layouts/a", bodies[i][0], 400, "bad_request",
                              bodies[i][1]);
    }
    client_expect_error(f->client, "PUT", "/api/layouts/A", "{\"preset\":\"leaf\"}", 400,
                        "bad_request");
    client_expect_error(f->client, "PUT", "/api/layouts/a", "{", 400, "bad_json");
    assert_int_equal(fake_submitted(&f->fake), before);
}

static void test_ids_whose_worker_is_last(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    uint64_t ids[3];
    char body[512];

    put(f, "s10", "{\"preset\":\"sonyflake\"}");
    client_call(f->client, "GET", GET "k?count=3&layout=s10", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 3), 3);
    reply_release(&reply);
    for (size_t i = 0; i < 3; i++) {
        assert_true(ids[i] == SONY(0, (ids[0] >> 16 & 0xff) + i, 7));
    }
    (void)snprintf(body, sizeof body,
                   "{\"id\":\"%llu\",\"layout\":\"s10\",\"timestamp_ms\":1700000000000,"
                   "\"time\":\"2023-11-14T22:13:20.000Z\",\"worker_id\":7,\"sequence\":9}",
                   SONY(0, 9, 7));
    {
        char target[96];

        (void)snprintf(target, sizeof target, "/api/snowflake/decode/%llu?layout=s10",
                       SONY(0, 9, 7));
        client_expect(f->client, "GET", target, 200, body);
    }
    client_expect_error(f->client, "GET", "/api/snowflake/decode/x?layout=s10", NULL, 400,
                        "bad_request");
    client_expect_error(f->client, "GET", GET "k?layout=s10&format=range", NULL, 400,
                        "bad_request");
    client_expect_error(f->client, "GET", GET "k?layout=s10&as=ulid", NULL, 400, "bad_request");
}

/* More than are made at once. */
static void test_many_ids_whose_worker_is_last(void **state)
{
    enum { MANY = 40000 };
    struct fixture *f = *state;
    uint64_t *ids = calloc(MANY, sizeof *ids);
    struct reply reply;

    assert_non_null(ids);
    put(f, "wide", WIDE);
    client_call(f->client, "GET", GET "k?count=40000&layout=wide", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, MANY), MANY);
    reply_release(&reply);
    for (size_t i = 1; i < MANY; i++) {
        assert_true(ids[i] == ids[i - 1] + (1 << 10));
    }
    free(ids);
}

static void test_worker_ids_that_do_not_fit_and_the_end(void **state)
{
    struct fixture *f = *state;

    put(f, "narrow", "{\"preset\":\"leaf\",\"worker_bits\":2}");
    client_expect_message(f->client, "GET", GET "k?layout=narrow", NULL, 409, "no_worker_id",
                          "none of this node's worker ids fits the 2 worker bits of layout narrow, "
                          "which end at 3");
    put(f, "short", "{\"preset\":\"leaf\",\"epoch_ms\":1699983222785,\"time_bits\":24}");
    client_expect_message(f->client, "GET", GET "k?layout=short&count=4097&contiguous=1", NULL, 409,
                          "not_contiguous", "one unit of time, which has 4096 ids in layout short");
    snowflake_at(f, 1);
    client_expect_message(f->client, "GET", GET "k?layout=short", NULL, 507, "epoch_exhausted",
                          "the time of layout short is over: its last millisecond was "
                          "1700000000000 (2023-11-14T22:13:20.000Z)");
}

static void test_a_layout_waits_for_its_own_clock(void **state)
{
    struct fixture *f = *state;
    struct client *slow = fixture_connect(f);
    struct client *other = fixture_connect(f);
    struct reply reply;
    uint64_t ids[3];

    put(f, "slow", SLOW);
    client_expect_error(f->client, "GET", GET "k?layout=slow&count=129", NULL, 400, "bad_count");
    client_request(slow, "GET", GET "k?layout=slow&count=3&timeout_ms=10000", NULL);
    fixture_await_waiting(f, 1);
    client_expect_error(f->client, "GET", GET "k?layout=slow&timeout_ms=0", NULL, 503, "timeout");
    /* The cluster's own layout has ids, and then one that waits for the next millisecond. */
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, T0);
    snowflake_use_up(f);
    client_request(other, "GET", GET "k?timeout_ms=10000", NULL);
    fixture_await_waiting(f, 2);
    snowflake_at(f, 1);
    client_read(other, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, T0 + 1);
    fixture_await_waiting(f, 1);
    snowflake_at(f, 1000);
    client_read(slow, false, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 3), 3);
    reply_release(&reply);
    assert_int_equal(ids[0] >> 5, (T0 - 1600000000000) / 1000);
    assert_int_equal(ids[2] >> 5, (T0 - 1600000000000) / 1000 + 1);
    client_close(slow);
    client_close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, snowflake_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_made_shown_and_deleted),
        TEST(test_refused_before_anything_is_proposed),
        TEST(test_ids_whose_worker_is_last),
        TEST(test_many_ids_whose_worker_is_last),
        TEST(test_worker_ids_that_do_not_fit_and_the_end),
        TEST(test_a_layout_waits_for_its_own_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
