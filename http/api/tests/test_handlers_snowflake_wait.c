/*
 * test_handlers_snowflake_wait.c - snowflake requests that wait for the clock: in order, up to
 * their deadline, given up; and several loops that share the generator.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tests/snowflake_fixture.h"

/* --- waiting --- */

static void test_parked_are_served_in_order(void **state)
{
    struct fixture *f = *state;
    struct client *clients[3];
    uint32_t sequence = 0;
    uint64_t ids[8];
    struct reply reply;
    char target[64];

    snowflake_use_up(f);
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = fixture_connect(f);
        snprintf(target, sizeof(target), GET "k?count=%u", i + 2);
        client_request(clients[i], "GET", target, NULL);
        fixture_await_waiting(f, i + 1);
    }
    snowflake_at(f, 1);
    for (unsigned i = 0; i < 3; i++) {
        client_read(clients[i], false, &reply);
        assert_int_equal(snowflake_lines(&reply, ids, 8), i + 2);
        reply_release(&reply);
        assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).unix_ms, T0 + 1);
        assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).sequence, sequence);
        sequence += i + 2;
        client_close(clients[i]);
    }
    fixture_await_waiting(f, 0);
}

/* Those that wait come first, even if there is enough for one that has just come. */
static void test_nobody_overtakes(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    struct reply reply;

    snowflake_use_up(f);
    client_request(f->client, "GET", GET "k?count=130&format=range", NULL);
    fixture_await_waiting(f, 1);
    client_request(other, "GET", GET "k", NULL);
    fixture_await_waiting(f, 2);
    for (unsigned ms = 1; ms <= 3; ms++) {
        snowflake_at(f, ms);
        while (ms < 3 && atomic_load(&f->fake.snowflake.claimed_total) < 64 * (ms + 1)) {
        }
    }
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_read(other, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).sequence, 2);
    client_close(other);
}

static void test_deadline(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    snowflake_use_up(f);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=0", NULL, 503, "timeout");
    client_call(f->client, "GET", GET "k?count=2&timeout_ms=30", NULL, &reply);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "2 of 2 ids were not there within 30 ms"));
    reply_release(&reply);
    /* There is a worker id: it is not for want of a leader. */
    atomic_store(&f->fake.health.leader_known, false);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=5", NULL, 503, "timeout");
    fixture_await_waiting(f, 0);
}

static void test_client_gone_while_parked(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    uint64_t claimed;
    struct reply reply;

    snowflake_use_up(f);
    claimed = atomic_load(&f->fake.snowflake.claimed_total);
    client_request(other, "GET", GET "k?count=9", NULL);
    fixture_await_waiting(f, 1);
    client_close(other);
    fixture_await_waiting(f, 0);
    snowflake_at(f, 1);
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_int_equal(snowflake_one(f, &reply).sequence, 0);
    assert_int_equal(atomic_load(&f->fake.snowflake.claimed_total), claimed + 1);
}

static void test_server_stops_while_parked(void **state)
{
    struct fixture *f = *state;

    snowflake_use_up(f);
    client_request(f->client, "GET", GET "k?timeout_ms=10000", NULL);
    fixture_await_waiting(f, 1);
    fake_set_waker(&f->fake, NULL);
    http_server_stop(f->server);
    f->server = NULL;
    client_expect_end(f->client);
}

static void test_lapsed_mark_notifies_the_owner(void **state)
{
    struct fixture *f = *state;
    struct snowflake_slot *slot = snowflake_slot_of(f);
    uint64_t mark_ms = T0 + 3600000;
    struct reply reply;

    snowflake_extend(slot, mark_ms, mark_ms + 1000);
    fake_set_wall(&f->fake, mark_ms + 10);
    client_request(f->client, "GET", GET "k", NULL);
    fixture_await_waiting(f, 1);
    assert_int_equal(fake_notified(&f->fake), 1);
    assert_true(atomic_load(&f->fake.snowflake.wanted));
    /* The owner looked, and the disk is slow: it is told again. */
    atomic_store(&f->fake.snowflake.wanted, false);
    while (fake_notified(&f->fake) < 2) {
    }
    snowflake_extend(slot, mark_ms + 500, mark_ms + 1000);
    client_read(f->client, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, mark_ms + 10);
    assert_int_equal(fake_notified(&f->fake), 2);
}

/* --- several loops --- */

#define THREADS 4
#define ROUNDS 25
#define BATCH 64

struct hammer {
    pthread_t thread;
    uint16_t port;
    uint64_t ids[2 * ROUNDS * BATCH];
    bool good;
};

/* In a thread, where an assertion cannot be reported: only notes whether all was well. */
static bool hammer_call(struct client *client, uint64_t *ids)
{
    struct reply reply;
    bool good;
    char *at;

    client_call(client, "GET", GET "k?count=64&timeout_ms=10000", NULL, &reply);
    good = reply.status == 200;
    at = reply.body;
    for (unsigned i = 0; good && i < BATCH; i++) {
        ids[i] = strtoull(at, &at, 10);
        good = *at++ == '\n';
    }
    reply_release(&reply);
    return good;
}

static void *hammer_run(void *data)
{
    struct hammer *hammer = data;
    struct client *clients[2] = {client_open(hammer->port), client_open(hammer->port)};

    hammer->good = true;
    for (unsigned round = 0; hammer->good && round < 2 * ROUNDS; round++) {
        hammer->good = hammer_call(clients[round % 2], hammer->ids + (size_t)round * BATCH);
    }
    client_close(clients[0]);
    client_close(clients[1]);
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static void prepare_hammer(struct fixture *f)
{
    static const struct snowflake_layout layout = SNOWFLAKE_JS53_LAYOUT;
    uint64_t until_ms = clock_wall_ms(clock_system()) + 3600000;

    fake_snowflake(&f->fake);
    snowflake_set_layout(&f->fake.snowflake, &layout);
    assert_non_null(snowflake_add(&f->fake.snowflake, 1, 0, until_ms, until_ms));
}

/* Few ids a millisecond, so that the loops get into each other's way and requests park. */
static void test_loops_share_the_generator(void **state)
{
    enum { EACH = 2 * ROUNDS * BATCH, ALL = THREADS * EACH };
    struct http_settings config = {.loops = 2};
    struct hammer *hammers = calloc(THREADS, sizeof *hammers);
    uint64_t *all = calloc(ALL, sizeof *all);
    struct fixture f;
    struct reply reply;

    (void)state;
    assert_non_null(hammers);
    assert_non_null(all);
    fixture_start_with(&f, &config, prepare_hammer);
    for (unsigned i = 0; i < THREADS; i++) {
        hammers[i].port = http_server_port(f.server);
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
        assert_true(hammers[i].good);
        memcpy(all + (size_t)i * EACH, hammers[i].ids, EACH * sizeof *all);
        for (unsigned k = 1; k < EACH; k++) {
            assert_true(hammers[i].ids[k] > hammers[i].ids[k - 1]);
        }
    }
    qsort(all, ALL, sizeof *all, compare_ids);
    for (unsigned k = 1; k < ALL; k++) {
        assert_true(all[k] > all[k - 1]);
    }
    client_call(f.client, "GET", "/metrics", NULL, &reply);
    assert_non_null(strstr(reply.body, "\nleafd_ids_total{kind=\"snowflake\"} 12800\n"));
    reply_release(&reply);
    fixture_stop(&f);
    free(hammers);
    free(all);
}

int main(void)
{
#define LEAF(name) cmocka_unit_test_setup_teardown(name, snowflake_setup, fixture_teardown)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, snowflake_setup_small, fixture_teardown)
    const struct CMUnitTest tests[] = {
        LEAF(test_parked_are_served_in_order),
        SMALL(test_nobody_overtakes),
        LEAF(test_deadline),
        LEAF(test_client_gone_while_parked),
        LEAF(test_server_stops_while_parked),
        LEAF(test_lapsed_mark_notifies_the_owner),
        cmocka_unit_test(test_loops_share_the_generator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
