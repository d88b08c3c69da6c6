/*
 * test_conn_input.c - requests that do not come whole: what all of them may keep, and who gives
 * way; the bound, and one connection beyond.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/tests/fixture.h"
#include "src/base/assert.h"

#define EACH 8192 /* that a half head of these tests keeps */
/* So many fit, and what the client that measures may keep for a moment. */
#define FIT (LIMIT_HTTP_INPUT_MIN_BYTES / EACH - 1)

/* What a request that waits has after it, and keeps beyond what is its own. */
#define WAITING_BEHIND (EACH - 64)
#define WAITING_EACH (2 * EACH - 512)
#define WAITING_FIT (LIMIT_HTTP_INPUT_MIN_BYTES / WAITING_EACH)

struct crowd {
    struct fixture f;
    struct client *clients[FIT + 2];
    unsigned count;
};

static int setup(void **state)
{
    const struct http_settings least = {.loops = 1, .input_bytes = 1, .head_ms = 60000};
    struct crowd *crowd = calloc(1, sizeof *crowd);

    ASSERT(crowd != NULL);
    fixture_start(&crowd->f, &least);
    *state = crowd;
    return 0;
}

static int teardown(void **state)
{
    struct crowd *crowd = *state;

    for (unsigned i = 0; i < crowd->count; i++) {
        if (crowd->clients[i] != NULL) {
            client_close(crowd->clients[i]);
        }
    }
    fixture_stop(&crowd->f);
    free(crowd);
    return 0;
}

/* The metric's value. */
static unsigned long metric(struct crowd *crowd, const char *name)
{
    struct reply reply;
    unsigned long value;
    char line[96];
    char *at;

    (void)snprintf(line, sizeof line, "\n%s ", name);
    client_call(crowd->f.client, "GET", "/metrics", NULL, &reply);
    at = strstr(reply.body, line);
    assert_non_null(at);
    value = strtoul(at + strlen(line), NULL, 10);
    reply_release(&reply);
    return value;
}

/* Until all of it was read. */
static void await(struct crowd *crowd, const char *name, unsigned long value)
{
    for (unsigned tries = 0; metric(crowd, name) != value; tries++) {
        assert_true(tries < 20000);
    }
}

static void await_kept(struct crowd *crowd, unsigned long count)
{
    await(crowd, "leafd_http_input_bytes", count * EACH);
}

#define GAVE_WAY "leafd_http_refused_total{why=\"input\"}"

/* One more client that sends this, and then so much of a line that it keeps EACH bytes. */
static struct client *add(struct crowd *crowd, const char *begin)
{
    struct client *client = fixture_connect(&crowd->f);
    char line[EACH];
    size_t len = strlen(begin);

    memset(line, 'x', sizeof line);
    memcpy(line, begin, len);
    client_send(client, line, EACH - 64);
    crowd->clients[crowd->count++] = client;
    return client;
}

#define HALF_HEAD "GET /livez HTTP/1.1\r\nHost: a\r\nX: "

static void expect_gone(struct crowd *crowd, unsigned number)
{
    struct reply reply;

    client_read(crowd->clients[number], false, &reply);
    assert_int_equal(reply.status, 408);
    assert_non_null(strstr(reply.body, "too_slow"));
    assert_non_null(strstr(reply.body, "its place was needed for another"));
    assert_string_equal(reply_header(&reply, "Connection"), "close");
    reply_release(&reply);
    client_expect_end(crowd->clients[number]);
    client_close(crowd->clients[number]);
    crowd->clients[number] = NULL;
}

/* Two more than fit: the first of all has to go. */
static void add_too_many(struct crowd *crowd)
{
    add(crowd, HALF_HEAD);
    add(crowd, HALF_HEAD);
    expect_gone(crowd, 0);
    assert_in_range(metric(crowd, GAVE_WAY), 1, 2);
    assert_in_range(metric(crowd, "leafd_http_input_bytes"), FIT * EACH,
                    LIMIT_HTTP_INPUT_MIN_BYTES);
}

/* The client's head comes to its end. */
static void expect_served(struct crowd *crowd, unsigned number)
{
    struct reply reply;

    client_send(crowd->clients[number], "\r\n\r\n", 4);
    client_read(crowd->clients[number], false, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
}

static void fill(struct crowd *crowd)
{
    for (unsigned i = 0; i < FIT; i++) {
        add(crowd, HALF_HEAD);
        await_kept(crowd, i + 1); /* so that their order is known */
    }
}

static void test_as_many_as_fit_and_one_more(void **state)
{
    struct crowd *crowd = *state;

    fill(crowd);
    assert_int_equal(metric(crowd, GAVE_WAY), 0);
    add_too_many(crowd);
    for (unsigned i = 2; i < crowd->count; i++) {
        assert_false(client_has_input(crowd->clients[i]));
    }
    expect_served(crowd, 2);
}

static void test_who_has_gone_makes_room(void **state)
{
    struct crowd *crowd = *state;

    fill(crowd);
    client_close(crowd->clients[7]);
    crowd->clients[7] = NULL;
    await_kept(crowd, FIT - 1);
    add(crowd, HALF_HEAD);
    await_kept(crowd, FIT);
    assert_int_equal(metric(crowd, GAVE_WAY), 0);
}

/* Whole requests in one piece keep nothing, however many come. */
static void test_a_whole_request_needs_no_room(void **state)
{
    struct crowd *crowd = *state;
    struct reply reply;

    fill(crowd);
    for (unsigned i = 0; i < 100; i++) {
        client_call(crowd->f.client, "GET", "/livez", NULL, &reply);
        assert_int_equal(reply.status, 200);
        reply_release(&reply);
    }
    assert_int_equal(metric(crowd, GAVE_WAY), 0);
    await_kept(crowd, FIT);
}

/* The head of a body that does not come, too. */
static void test_bodies_that_do_not_come(void **state)
{
    struct crowd *crowd = *state;
    struct client *client;
    char head[EACH];
    int len;

    for (unsigned i = 0; i < FIT - 1; i++) {
        add(crowd, HALF_HEAD);
        await_kept(crowd, i + 1);
    }
    client_close(crowd->clients[0]); /* one of another kind in its place, now the last of all */
    client = fixture_connect(&crowd->f);
    crowd->clients[0] = client;
    len = snprintf(head, sizeof head,
                   "PUT /api/tags/t HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                   "Content-Length: 9\r\nX: %07868d\r\n\r\n{",
                   0);
    client_send(client, head, (size_t)len);
    await_kept(crowd, FIT - 1);
    for (unsigned i = 1; i < FIT - 1; i++) {
        client_close(crowd->clients[i]);
        crowd->clients[i] = NULL;
    }
    await_kept(crowd, 1);
    crowd->count = 1;
    for (unsigned i = 1; i < FIT; i++) {
        add(crowd, HALF_HEAD);
        await_kept(crowd, i + 1);
    }
    add_too_many(crowd);
}

/* A request that waits for ids is not the first to go: it keeps its head, and does not count. */
static void test_who_waits_for_an_answer_stays(void **state)
{
    struct crowd *crowd = *state;
    struct fixture *f = &crowd->f;
    struct client *waits = fixture_connect(f);
    struct reply reply;

    (void)fake_open(&f->fake, "t", 0, 0);
    fake_hold(&f->fake, false, true);
    client_printf(waits,
                  "GET /api/segment/get/t?timeout_ms=10000 HTTP/1.1\r\nHost: a\r\n"
                  "X: %07900d\r\n\r\n",
                  0);
    fixture_await_waiting(f, 1);
    while (crowd->count < FIT + 2) { /* at once: it waits for ten seconds at most */
        add(crowd, HALF_HEAD);
    }
    for (unsigned tries = 0; metric(crowd, GAVE_WAY) == 0; tries++) {
        assert_true(tries < 20000);
    }
    assert_false(client_has_input(waits));
    fake_publish(&f->fake, fake_open(&f->fake, "t", 0, 0), 1, 10);
    client_read(waits, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_close(waits);
}

/* A request that waits for ids of "t", with so much of another one after it. */
static struct client *add_waiting(struct crowd *crowd, unsigned behind)
{
    struct client *client = fixture_connect(&crowd->f);
    char rest[WAITING_BEHIND];

    memset(rest, 'x', sizeof rest);
    memcpy(rest, HALF_HEAD, strlen(HALF_HEAD));
    client_printf(client,
                  "GET /api/segment/get/t?timeout_ms=10000 HTTP/1.1\r\nHost: a\r\n"
                  "X: %07900d\r\n\r\n",
                  0);
    if (behind > 0) {
        client_send(client, rest, behind);
    }
    crowd->clients[crowd->count++] = client;
    return client;
}

/* What waits keeps its head and what is after it: beyond the first step of each no more than as
 * much as input may have. Who would take more is cut off; who waits with little is not. */
static void test_what_waits_has_a_bound(void **state)
{
    struct crowd *crowd = *state;
    struct fixture *f = &crowd->f;
    struct client *small = fixture_connect(f);
    struct reply reply;

    (void)fake_open(&f->fake, "t", 0, 0);
    fake_hold(&f->fake, false, true);
    for (unsigned i = 0; i < WAITING_FIT; i++) {
        add_waiting(crowd, WAITING_BEHIND);
    }
    await(crowd, "leafd_http_waiting_bytes", WAITING_FIT * WAITING_EACH);
    assert_int_equal(metric(crowd, GAVE_WAY), 0);
    client_expect_end(add_waiting(crowd, 0)); /* its head alone */
    await(crowd, GAVE_WAY, 1);
    await(crowd, "leafd_http_waiting_bytes", WAITING_FIT * WAITING_EACH);
    client_printf(small, "GET /api/segment/get/t?timeout_ms=10000 HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_waiting(f, WAITING_FIT + 1);
    assert_int_equal(metric(crowd, GAVE_WAY), 1);
    /* And half a head is not refused for their sake. */
    client_close(add(crowd, HALF_HEAD));
    crowd->count--;
    fake_publish(&f->fake, fake_open(&f->fake, "t", 0, 0), 1, 1000);
    client_read(small, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_close(small);
    for (unsigned i = 0; i < WAITING_FIT; i++) {
        client_read(crowd->clients[i], false, &reply);
        assert_int_equal(reply.status, 200);
        reply_release(&reply);
    }
    await(crowd, "leafd_http_waiting_bytes", 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_as_many_as_fit_and_one_more),   TEST(test_who_has_gone_makes_room),
        TEST(test_a_whole_request_needs_no_room), TEST(test_bodies_that_do_not_come),
        TEST(test_who_waits_for_an_answer_stays), TEST(test_what_waits_has_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
