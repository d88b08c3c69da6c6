/*
 * test_workers.c - the registry of worker ids, and what it refuses.
 *
 * /api/workers over real sockets and a real state machine: worker ids acquired, renewed, released
 * and listed, and what is refused.
 *
 * Requests to /api/workers that are refused before anything is proposed, at each bound and beyond,
 * with the field, the value and the rule in the message.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/tests/snowflake_fixture.h"

/* --- workers --- */

#define WORKERS "/api/workers"

/* The end of each grant: the cluster's layout. */
#define LAYOUT                                                                                     \
    ",\"layout\":{\"epoch_ms\":1288834974657,\"time_bits\":41,\"worker_bits\":6,"                  \
    "\"sequence_bits\":6}}"

/* Call, and want the status and all of the body. */
static void expect(struct fixture *f, const char *method, const char *target, const char *body,
                   int status, const char *wanted)
{
    struct reply reply;

    client_call(f->client, method, target, body, &reply);
    if (reply.status != status || strcmp(reply.body, wanted) != 0) {
        print_error("%s %s %s: wanted %d %s, got %d %s\n", method, target, body, status, wanted,
                    reply.status, reply.body);
        fail();
    }
    reply_release(&reply);
}

/* --- the life of a worker id --- */

static void test_acquire_renew_release(void **state)
{
    struct fixture *f = *state;

    expect(f, "POST", WORKERS, "{\"name\":\"b-1\",\"address\":\"10.0.0.7\",\"window_ms\":30000}",
           201, "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000030000" LAYOUT);
    snowflake_at(f, 10000);
    expect(f, "PUT", WORKERS "/0",
           "{\"epoch\":1,\"window_ms\":30000,\"last_timestamp_ms\":1700000009998}", 200,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000040000" LAYOUT);
    /* Killed; one of its name takes it over in a new epoch, above the old window. */
    expect(
        f, "POST", WORKERS, "{\"name\":\"b-1\",\"worker_id\":0,\"window_ms\":30000}", 201,
        "{\"worker_id\":0,\"epoch\":2,\"from_ms\":1700000040000,\"until_ms\":1700000070000" LAYOUT);
    client_expect_message(f->client, "PUT", WORKERS "/0", "{\"epoch\":1}", 409, "fenced",
                          "worker id 0 is at epoch 2 and held by \\\"b-1\\\"");
    client_expect_message(f->client, "DELETE", WORKERS "/0?epoch=1", NULL, 409, "fenced",
                          "epoch 2");
    expect(f, "DELETE", WORKERS "/0?epoch=2&last_timestamp_ms=1700000041000", NULL, 204, "");
    expect(f, "DELETE", WORKERS "/0?epoch=2&last_timestamp_ms=1700000041000", NULL, 204, "");
    client_expect_message(f->client, "PUT", WORKERS "/0", "{\"epoch\":2}", 409, "fenced",
                          "was released by");
    expect(f, "GET", WORKERS, NULL, 200,
           "{\"workers\":[{\"worker_id\":0,\"state\":\"released\",\"kind\":\"client\","
           "\"name\":\"b-1\",\"address\":\"\",\"epoch\":2,\"from_ms\":1700000040000,"
           "\"until_ms\":1700000070000,\"last_timestamp_ms\":1700000041000,"
           "\"updated_ms\":1700000000000}],\"log_time_ms\":1700000000000,\"next\":null}");
    /* Defaults: any worker id, a window of a minute. The lowest free one comes first. */
    expect(f, "POST", WORKERS, "{\"name\":\"c\"}", 201,
           "{\"worker_id\":1,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000070000" LAYOUT);
    expect(f, "PUT", WORKERS "/1", "{\"epoch\":1}", 200,
           "{\"worker_id\":1,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000070000" LAYOUT);
}

static void test_given_id_and_floor(void **state)
{
    struct fixture *f = *state;

    expect(f, "POST", WORKERS,
           "{\"name\":\"leaf-17\",\"worker_id\":17,\"from_ms\":1700000001000,\"window_ms\":1000}",
           201,
           "{\"worker_id\":17,\"epoch\":1,\"from_ms\":1700000001000,\"until_ms\":"
           "1700000002000" LAYOUT);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"other\",\"worker_id\":17}", 409,
                          "conflict",
                          "worker id 17 is held by \\\"leaf-17\\\" until 1700000002000");
    /* A name is a label, and may have several. */
    expect(f, "POST", WORKERS, "{\"name\":\"leaf-17\",\"worker_id\":3}", 201,
           "{\"worker_id\":3,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000" LAYOUT);
    expect(f, "POST", WORKERS, "{\"name\":\"last\",\"worker_id\":63,\"window_ms\":86400000}", 201,
           "{\"worker_id\":63,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700086400000" LAYOUT);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"beyond\",\"worker_id\":64}", 400,
                          "bad_request", "worker_id=64 is beyond this cluster's layout");
    /* An address may be as long as it is for nodes, and names may be anything that tags may. */
    expect(f, "POST", WORKERS, "{\"name\":\"a/b \xc3\xa9\",\"address\":\"h\xc3\xa9:1\"}", 201,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000" LAYOUT);
    expect(f, "GET", WORKERS "?after=17", NULL, 200,
           "{\"workers\":[{\"worker_id\":63,\"state\":\"held\",\"kind\":\"client\","
           "\"name\":\"last\",\"address\":\"\",\"epoch\":1,\"from_ms\":0,"
           "\"until_ms\":1700086400000,\"last_timestamp_ms\":0,\"updated_ms\":1700000000000}],"
           "\"log_time_ms\":1700000000000,\"next\":null}");
}

static void test_compare_and_set(void **state)
{
    struct fixture *f = *state;

    expect(f, "POST", WORKERS, "{\"name\":\"a\"}", 201,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000" LAYOUT);
    snowflake_at(f, 5000);
    expect(f, "PUT", WORKERS "/0", "{\"epoch\":1,\"expected_until_ms\":1700000060000}", 200,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000065000" LAYOUT);
    snowflake_at(f, 6000);
    client_expect_message(
        f->client, "PUT", WORKERS "/0", "{\"epoch\":1,\"expected_until_ms\":1700000060000}", 409,
        "conflict",
        "expected_until_ms=1700000060000 is not the present bound of worker id 0, which "
        "is 1700000065000");
    expect(f, "PUT", WORKERS "/0", "{\"epoch\":1,\"expected_until_ms\":0}", 200,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000066000" LAYOUT);
}

/* An election hides what became of a command, and it is tried again. */
static void test_repeated_commands(void **state)
{
    struct fixture *f = *state;

    fake_repeat(&f->fake, true);
    expect(f, "POST", WORKERS, "{\"name\":\"a\"}", 201,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000" LAYOUT);
    snowflake_at(f, 7000);
    expect(f, "PUT", WORKERS "/0",
           "{\"epoch\":1,\"expected_until_ms\":1700000060000,\"last_timestamp_ms\":1700000006000}",
           200, "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000067000" LAYOUT);
    /* Somebody else's bound is still a conflict. */
    snowflake_at(f, 8000);
    client_expect_message(f->client, "PUT", WORKERS "/0",
                          "{\"epoch\":1,\"expected_until_ms\":1700000060000}", 409, "conflict",
                          "1700000067000");
    expect(f, "DELETE", WORKERS "/0?epoch=1", NULL, 204, "");
    client_expect_message(f->client, "DELETE", WORKERS "/0?epoch=2", NULL, 409, "fenced",
                          "epoch 1");
}

static void test_release_by_body(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        char body[32];
        struct reply reply;

        snprintf(body, sizeof(body), "{\"name\":\"%u\"}", i);
        client_call(f->client, "POST", WORKERS, body, &reply);
        assert_int_equal(reply.status, 201);
        reply_release(&reply);
    }
    expect(f, "DELETE", WORKERS "/0", "{\"epoch\":1,\"last_timestamp_ms\":1700000000500}", 204, "");
    expect(f, "DELETE", WORKERS "/1?epoch=1", "{\"last_timestamp_ms\":1700000000600}", 204, "");
    expect(f, "DELETE", WORKERS "/2?last_timestamp_ms=0", "{\"epoch\":1}", 204, "");
    client_expect_message(f->client, "GET", WORKERS "/2", NULL, 405, "method_not_allowed",
                          "PUT, DELETE");
    expect(f, "GET", WORKERS "?limit=1", NULL, 200,
           "{\"workers\":[{\"worker_id\":0,\"state\":\"released\",\"kind\":\"client\","
           "\"name\":\"0\",\"address\":\"\",\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000,"
           "\"last_timestamp_ms\":1700000000500,\"updated_ms\":1700000000000}],"
           "\"log_time_ms\":1700000000000,\"next\":0}");
    expect(f, "GET", WORKERS "?after=0&limit=1&consistency=local", NULL, 200,
           "{\"workers\":[{\"worker_id\":1,\"state\":\"released\",\"kind\":\"client\","
           "\"name\":\"1\",\"address\":\"\",\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000,"
           "\"last_timestamp_ms\":1700000000600,\"updated_ms\":1700000000000}],"
           "\"log_time_ms\":1700000000000,\"next\":1}");
    assert_true(f->fake.last_local);
    expect(f, "GET", WORKERS "?after=1&limit=1&consistency=linearizable", NULL, 200,
           "{\"workers\":[{\"worker_id\":2,\"state\":\"released\",\"kind\":\"client\","
           "\"name\":\"2\",\"address\":\"\",\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000,"
           "\"last_timestamp_ms\":0,\"updated_ms\":1700000000000}],"
           "\"log_time_ms\":1700000000000,\"next\":null}");
    assert_false(f->fake.last_local);
}

/* A node that is cut off would go on stamping with a worker id that a client took from under it. */
static void test_row_of_a_node_is_its_own(void **state)
{
    static const char *const owner =
        "worker id 0 is the own one of node \\\"node-1/ab/0\\\" until 1700000600000";
    static const char *const row =
        "{\"workers\":[{\"worker_id\":0,\"state\":\"held\",\"kind\":\"node\","
        "\"name\":\"node-1/ab/0\",\"address\":\"\",\"epoch\":1,\"from_ms\":0,"
        "\"until_ms\":1700000600000,\"last_timestamp_ms\":0,\"updated_ms\":1700000000000}],"
        "\"log_time_ms\":1700000000000,\"next\":null}";
    struct fixture *f = *state;

    fake_log_acquire(&f->fake, (struct worker_acquire){.kind = WORKER_NODE,
                                                       .worker_id = WORKER_ID_ANY,
                                                       .window_ms = 600000,
                                                       .wall_ms = T0,
                                                       .name = "node-1/ab/0"});
    client_expect_message(f->client, "DELETE", WORKERS "/0?epoch=1", NULL, 409, "conflict", owner);
    client_expect_message(f->client, "DELETE", WORKERS "/0?epoch=1&last_timestamp_ms=1700000000001",
                          NULL, 409, "conflict", owner);
    client_expect_message(f->client, "PUT", WORKERS "/0", "{\"epoch\":1}", 409, "conflict", owner);
    /* Not even one that finds the bound it asks for. */
    client_expect_message(f->client, "PUT", WORKERS "/0",
                          "{\"epoch\":1,\"window_ms\":600000,\"expected_until_ms\":1700000600000}",
                          409, "conflict", owner);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"a\",\"worker_id\":0}", 409,
                          "conflict", owner);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"node-1/ab/0\"}", 409, "conflict",
                          owner);
    client_expect_message(f->client, "DELETE", WORKERS "/0?epoch=2", NULL, 409, "fenced",
                          "worker id 0 is at epoch 1 and held by \\\"node-1/ab/0\\\"");
    expect(f, "GET", WORKERS, NULL, 200, row);
}

/* Below level 3 no id has more than 16 bits, and no message can name one (test_bad_requests). */
static void test_ids_of_22_bits(void **state)
{
    static const char many[] = "a whole number from 0 to 4194303";
    struct fixture *f = *state;

    fake_log_level(&f->fake, 3);
    client_expect_message(f->client, "PUT", WORKERS "/4194304", "{\"epoch\":1}", 400, "bad_request",
                          many);
    client_expect_message(f->client, "DELETE", WORKERS "/4194304?epoch=1", NULL, 400, "bad_request",
                          many);
    client_expect_message(f->client, "GET", WORKERS "?after=4194304", NULL, 400, "bad_request",
                          many);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"a\",\"worker_id\":4194304}", 400,
                          "bad_request", many);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"a\",\"worker_id\":4194303}", 400,
                          "bad_request", "worker_id=4194303 is beyond this cluster's layout");
    client_expect_message(f->client, "PUT", WORKERS "/4194303", "{\"epoch\":1}", 404,
                          "unknown_worker", "4194303");
    client_expect_message(f->client, "DELETE", WORKERS "/65535?epoch=1", NULL, 404,
                          "unknown_worker", "65535");
}

/* At every limit, also the largest: whether rows follow is what `next` says. */
static void test_next_at_the_largest_page(void **state)
{
    static const struct {
        const char *target;
        const char *end;
    } pages[] = {
        {WORKERS "?limit=1024", "\"next\":1087}"}, /* 1,025 are held, from 64 on */
        {WORKERS "?limit=1023", "\"next\":1086}"},
        {WORKERS "?limit=1024&after=64", "\"next\":null}"}, /* exactly so many */
        {WORKERS "?limit=1023&after=64", "\"next\":1087}"},
        {WORKERS "?limit=1024&after=1087", "\"next\":null}"},
        {WORKERS "?limit=1024&after=4194303", "\"next\":null}"},
        {WORKERS "?limit=1024&after=65534", "\"next\":null}"},
    };
    struct fixture *f = *state;

    fake_log_level(&f->fake, 3);
    for (unsigned i = 0; i <= LIMIT_WORKERS_PER_PAGE; i++) {
        fake_log_acquire(&f->fake, (struct worker_acquire){.kind = WORKER_CLIENT,
                                                           .worker_id = WORKER_ID_ANY,
                                                           .window_ms = 60000,
                                                           .wall_ms = T0,
                                                           .name = "wide",
                                                           .client = 1,
                                                           .most = UINT16_MAX,
                                                           .percent = 100,
                                                           .bits = 16});
    }
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        struct reply reply;

        client_call(f->client, "GET", pages[i].target, NULL, &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(strstr(reply.body, "\"next\""), pages[i].end);
        reply_release(&reply);
    }
}

/* --- refused by the cluster --- */

static void test_all_held(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char body[64];
    unsigned shown = 0;

    f->settings.worker_percent = 100;
    for (unsigned i = 0; i < 64; i++) {
        snprintf(body, sizeof(body), "{\"name\":\"n%u\",\"window_ms\":1000}", i);
        client_call(f->client, "POST", WORKERS, body, &reply);
        assert_int_equal(reply.status, 201);
        reply_release(&reply);
    }
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"one more\"}", 409,
                          "no_worker_id",
                          "none of the worker ids that this request may take is free");
    client_call(f->client, "GET", WORKERS "?limit=1024", NULL, &reply);
    for (const char *at = reply.body; (at = strstr(at, "\"state\":\"held\"")) != NULL; at++) {
        shown++;
    }
    assert_int_equal(shown, 64);
    reply_release(&reply);
    /* Their windows pass, by the log's time. */
    fake_log_time(&f->fake, T0 + 1001);
    snowflake_at(f, 1001);
    expect(
        f, "POST", WORKERS, "{\"name\":\"one more\"}", 201,
        "{\"worker_id\":0,\"epoch\":2,\"from_ms\":1700000001000,\"until_ms\":1700000061001" LAYOUT);
    client_expect(f->client, "GET", WORKERS "?after=1023", 200,
                  "{\"workers\":[],\"log_time_ms\":1700000001001,\"next\":null}");
}

static void test_clocks_apart(void **state)
{
    struct fixture *f = *state;

    snowflake_at(f, LIMIT_WORKER_AHEAD_MS + 1);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"a\"}", 503, "clock_skew",
                          "this node's clock shows 1700000060001");
    snowflake_at(f, LIMIT_WORKER_AHEAD_MS);
    expect(f, "POST", WORKERS, "{\"name\":\"a\"}", 201,
           "{\"worker_id\":0,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000120000" LAYOUT);
    snowflake_at(f, LIMIT_WORKER_AHEAD_MS + 1);
    client_expect_message(f->client, "PUT", WORKERS "/0", "{\"epoch\":1}", 503, "clock_skew",
                          "1700000060001");
    snowflake_at(f, 0);
    expect(
        f, "POST", WORKERS, "{\"name\":\"b\",\"from_ms\":1700086400000}", 201,
        "{\"worker_id\":1,\"epoch\":1,\"from_ms\":1700086400000,\"until_ms\":1700086460000" LAYOUT);
    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"c\",\"from_ms\":1700086400001}",
                          503, "clock_skew", "86400000 ms more");
    client_expect_message(
        f->client, "PUT", WORKERS "/0", "{\"epoch\":1,\"last_timestamp_ms\":1700000120001}", 400,
        "bad_request",
        "last_timestamp_ms=1700000120001 is above the window of worker id 0, granted "
        "until 1700000120000");
    client_expect_message(f->client, "PUT", WORKERS "/9", "{\"epoch\":1}", 404, "unknown_worker",
                          "worker id 9 is not registered");
    client_expect_message(f->client, "DELETE", WORKERS "/1023?epoch=1", NULL, 404, "unknown_worker",
                          "1023");
}

static void test_no_time_yet(void **state)
{
    struct fixture *f = *state;

    client_expect_message(f->client, "POST", WORKERS, "{\"name\":\"a\"}", 503, "no_leader",
                          "no time or no layout");
    client_expect(f->client, "GET", WORKERS, 200,
                  "{\"workers\":[],\"log_time_ms\":0,\"next\":null}");
}

static void test_backend_errors(void **state)
{
    static const struct {
        int err;
        int status;
        const char *code;
    } cases[] = {
        {ERR_NO_LEADER, 503, "no_leader"},         {ERR_TIMEOUT, 503, "timeout"},
        {ERR_OVERLOADED, 503, "overloaded"},       {ERR_DISK_FULL, 503, "disk_full"},
        {ERR_SHUTTING_DOWN, 503, "shutting_down"}, {ERR_CORRUPT, 500, "internal_error"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_fail_with(&f->fake, cases[i].err);
        client_expect_error(f->client, "POST", WORKERS, "{\"name\":\"a\"}", cases[i].status,
                            cases[i].code);
        client_expect_error(f->client, "PUT", WORKERS "/0", "{\"epoch\":1}", cases[i].status,
                            cases[i].code);
        client_expect_error(f->client, "DELETE", WORKERS "/0?epoch=1", NULL, cases[i].status,
                            cases[i].code);
        client_expect_error(f->client, "GET", WORKERS, NULL, cases[i].status, cases[i].code);
    }
    fake_fail_with(&f->fake, 0);
    f->fake.wrong_reply = true;
    client_expect_error(f->client, "POST", WORKERS, "{\"name\":\"a\"}", 500, "internal_error");
    client_expect_error(f->client, "GET", WORKERS, NULL, 500, "internal_error");
}

static void test_client_gone_while_asking(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);

    fake_hold(&f->fake, true, false);
    client_request(other, "POST", WORKERS, "{\"name\":\"a\"}");
    fake_await_submitted(&f->fake, 1);
    client_close(other);
    fake_release(&f->fake);
    expect(f, "POST", WORKERS, "{\"name\":\"b\"}", 201,
           "{\"worker_id\":1,\"epoch\":1,\"from_ms\":0,\"until_ms\":1700000060000" LAYOUT);
}

#define TEST_WORKERS(name) cmocka_unit_test_setup_teardown(name, workers_setup, fixture_teardown)

/* --- bad --- */

#define WORKERS_BAD "/api/workers"

static const struct bad {
    const char *method;
    const char *target;
    const char *body;
    const char *code;
    const char *text;
} cases[] = {
    {"POST", WORKERS_BAD, "", "bad_request", "the field \\\"name\\\" is missing"},
    {"POST", WORKERS_BAD, "{}", "bad_request", "the field \\\"name\\\" is missing"},
    {"POST", WORKERS_BAD, "{", "bad_json", "line 1, column 1"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"name\":\"b\"}", "bad_json", "duplicate"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\"} x", "bad_json", "end of file expected"},
    {"POST", WORKERS_BAD, "[]", "bad_request", "an array is not an object of a worker id's"},
    {"POST", WORKERS_BAD, "\"a\"", "bad_request", "\\\"a\\\" is not an object"},
    {"POST", WORKERS_BAD, "{\"name\":\"\"}", "bad_request", "name=\\\"\\\" is not 1 to 128 bytes"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\\u0001\"}", "bad_request", "control characters"},
    {"POST", WORKERS_BAD, "{\"name\":7}", "bad_request", "name=7 is not a string"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"address\":null}", "bad_request",
     "address=null is not a string"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"address\":\"x\\n\"}", "bad_request",
     "is not at most 255 bytes of UTF-8"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"window_ms\":999}", "bad_request",
     "window_ms=999 is not a whole number from 1000 to 86400000"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"window_ms\":86400001}", "bad_request",
     "window_ms=86400001 "},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"window_ms\":1000.0}", "bad_request",
     "window_ms has a fraction or an exponent"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"window_ms\":1e4}", "bad_request",
     "window_ms has a fraction or an exponent"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"window_ms\":-1}", "bad_request", "window_ms=-1 "},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"window_ms\":\"5000\"}", "bad_request",
     "window_ms=\\\"5000\\\" "},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"worker_id\":65535}", "bad_request",
     "worker_id=65535 is not a whole number from 0 to 65534"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"worker_id\":65535}", "bad_request", "65535"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"from_ms\":253402300800000}", "bad_request",
     "from 0 to 253402300799999"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"from_ms\":99999999999999999999}", "bad_request",
     "out of range for every field"},
    {"POST", WORKERS_BAD, "{\"name\":\"a\",\"epoch\":1}", "bad_request",
     "unknown field \\\"epoch\\\"; known are name, address, window_ms, worker_id, from_ms"},
    {"POST", WORKERS_BAD "?name=a", "{\"name\":\"a\"}", "bad_request", "name"},
    {"PUT", WORKERS_BAD "/0", "", "bad_request", "the field \\\"epoch\\\" is missing"},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":0}", "bad_request",
     "epoch=0 is not a whole number from 1 to 9223372036854775807"},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":-5}", "bad_request", "epoch=-5 "},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":1,\"window_ms\":999}", "bad_request", "window_ms=999 "},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":1,\"window_ms\":86400001}", "bad_request", "window_ms"},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":1,\"last_timestamp_ms\":253402300800000}", "bad_request",
     "last_timestamp_ms=253402300800000 "},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":1,\"expected_until_ms\":0.5}", "bad_request",
     "expected_until_ms=0.5 "},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":1,\"name\":\"a\"}", "bad_request",
     "known are epoch, window_ms, last_timestamp_ms, expected_until_ms"},
    {"PUT", WORKERS_BAD "/0", "{\"epoch\":1,\"expected_until_ms\":99999999999999999999}",
     "bad_request", "\\\"expected_until_ms\\\"=\\\"99999999999999999999\\\" is out of range"},
    {"PUT", WORKERS_BAD "/0?epoch=1", "{\"epoch\":1}", "bad_request", "epoch"},
    {"PUT", WORKERS_BAD "/65535", "{\"epoch\":1}", "bad_request",
     "worker id \\\"65535\\\" is not a whole number from 0 to 65534"},
    {"PUT", WORKERS_BAD "/-1", "{\"epoch\":1}", "bad_request", "\\\"-1\\\""},
    {"PUT", WORKERS_BAD "/x", "{\"epoch\":1}", "bad_request", "\\\"x\\\""},
    {"PUT", WORKERS_BAD "/%zz", "{\"epoch\":1}", "bad_request", "%zz"},
    {"DELETE", WORKERS_BAD "/0", NULL, "bad_request", "epoch is missing"},
    {"DELETE", WORKERS_BAD "/0?epoch=0", NULL, "bad_request", "epoch=\\\"0\\\" is not a whole"},
    {"DELETE", WORKERS_BAD "/0?epoch=x", NULL, "bad_request", "epoch=\\\"x\\\""},
    {"DELETE", WORKERS_BAD "/0?epoch=9223372036854775808", NULL, "bad_request", "epoch="},
    {"DELETE", WORKERS_BAD "/0?epoch=1&last_timestamp_ms=-1", NULL, "bad_request",
     "last_timestamp_ms=\\\"-1\\\""},
    {"DELETE", WORKERS_BAD "/0?epoch=1&x=1", NULL, "bad_request", "x"},
    {"DELETE", WORKERS_BAD "/0?epoch=1", "{\"epoch\":1}", "bad_request",
     "epoch is given in the query and in the body"},
    {"DELETE", WORKERS_BAD "/0?last_timestamp_ms=5", "{\"epoch\":1,\"last_timestamp_ms\":5}",
     "bad_request", "last_timestamp_ms is given in the query and in the body"},
    {"DELETE", WORKERS_BAD "/0", "{\"epoch\":1.5}", "bad_request", "epoch=1.5 "},
    {"DELETE", WORKERS_BAD "/0", "nonsense", "bad_json", "line 1"},
    {"GET", WORKERS_BAD "?limit=0", NULL, "bad_request", "limit=\\\"0\\\""},
    {"GET", WORKERS_BAD "?limit=1025", NULL, "bad_request", "from 1 to 1024"},
    {"GET", WORKERS_BAD "?limit=", NULL, "bad_request", "limit="},
    {"GET", WORKERS_BAD "?after=65535", NULL, "bad_request", "from 0 to 65534"},
    {"GET", WORKERS_BAD "?after=x", NULL, "bad_request", "after="},
    {"GET", WORKERS_BAD "?consistency=weak", NULL, "bad_request", "consistency="},
    {"GET", WORKERS_BAD "?prefix=a", NULL, "bad_request", "prefix"},
};

static void test_bad_requests_propose_nothing(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_expect_message(f->client, cases[i].method, cases[i].target, cases[i].body, 400,
                              cases[i].code, cases[i].text);
    }
    assert_int_equal(fake_submitted(&f->fake), 0);
    client_expect_error(f->client, "GET", WORKERS_BAD "/", NULL, 404, "no_route");
    client_expect_error(f->client, "PUT", WORKERS_BAD "/1/2", "", 404, "no_route");
    client_expect_error(f->client, "PATCH", WORKERS_BAD, "", 405, "method_not_allowed");
    client_expect(f->client, "GET", WORKERS_BAD "?after=&limit=1024", 200, NULL);
    client_expect(f->client, "HEAD", WORKERS_BAD, 200, NULL);
}

/* Names and addresses of the longest length, and of one more. */
static void test_longest_texts(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char body[1024];

    snprintf(body, sizeof(body), "{\"name\":\"%0*d\",\"address\":\"%0*d\"}",
             LIMIT_WORKER_NAME_BYTES, 7, LIMIT_ADDRESS_BYTES, 8);
    client_call(f->client, "POST", WORKERS_BAD, body, &reply);
    assert_int_equal(reply.status, 201);
    reply_release(&reply);
    client_call(f->client, "GET", WORKERS_BAD, NULL, &reply);
    snprintf(body, sizeof(body), "\"name\":\"%0*d\",\"address\":\"%0*d\",", LIMIT_WORKER_NAME_BYTES,
             7, LIMIT_ADDRESS_BYTES, 8);
    assert_non_null(strstr(reply.body, body));
    reply_release(&reply);
    snprintf(body, sizeof(body), "{\"name\":\"%0*d\"}", LIMIT_WORKER_NAME_BYTES + 1, 7);
    client_expect_message(f->client, "POST", WORKERS_BAD, body, 400, "bad_request",
                          "1 to 128 bytes");
    snprintf(body, sizeof(body), "{\"name\":\"a\",\"address\":\"%0*d\"}", LIMIT_ADDRESS_BYTES + 1,
             8);
    client_expect_message(f->client, "POST", WORKERS_BAD, body, 400, "bad_request",
                          "at most 255 bytes");
}

#define TEST_BAD(name) cmocka_unit_test_setup_teardown(name, workers_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WORKERS(test_acquire_renew_release),
        TEST_WORKERS(test_given_id_and_floor),
        TEST_WORKERS(test_compare_and_set),
        TEST_WORKERS(test_repeated_commands),
        TEST_WORKERS(test_release_by_body),
        TEST_WORKERS(test_row_of_a_node_is_its_own),
        TEST_WORKERS(test_ids_of_22_bits),
        TEST_WORKERS(test_next_at_the_largest_page),
        TEST_WORKERS(test_all_held),
        TEST_WORKERS(test_clocks_apart),
        cmocka_unit_test_setup_teardown(test_no_time_yet, snowflake_setup_bare, fixture_teardown),
        TEST_WORKERS(test_backend_errors),
        TEST_WORKERS(test_client_gone_while_asking),
        TEST_BAD(test_bad_requests_propose_nothing),
        TEST_BAD(test_longest_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
