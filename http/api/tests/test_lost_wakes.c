/*
 * test_lost_wakes.c - no request stays parked although its tag has ids, or has become unknown or
 * exhausted: the real handlers on their loops against the real allocator on its thread.
 *
 * In rounds: a few requests, more ids than there are, and every one must be answered before the
 * next round begins. So nothing comes later that would wake, by chance, a request that was
 * forgotten. What was forgotten is found after LOST_MS; without that each request would wait for
 * its own time limit, and be refused.
 *
 * Threads: the test's with its clients, the HTTP loops, the owner of the allocator.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "http/api/tests/grant_race.h"
#include "http/tests/client.h"
#include "http/tests/fixture.h"
#include "src/base/assert.h"
#include "src/base/clock.h"

#define LOOPS 3
#define CLIENTS 9
#define LOST_MS 9000    /* less than the time limit of a request */
#define ROUNDS_MS 12000 /* threads that yield get little of a busy processor: then fewer, */
#define ROUNDS_LEAST 30 /* but so many */

struct bench {
    struct grant_race race;
    struct client *clients[CLIENTS];
    struct prng prng;
};

static int setup(void **state)
{
    struct bench *bench = malloc(sizeof *bench);

    ASSERT(bench != NULL);
    grant_race_start(&bench->race, LOOPS);
    for (unsigned i = 0; i < CLIENTS; i++) {
        bench->clients[i] = client_open(fixture_port(bench->race.server, ACCEPT_HTTP));
    }
    prng_seed(&bench->prng, 1);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < CLIENTS; i++) {
        client_close(bench->clients[i]);
    }
    grant_race_stop(&bench->race);
    free(bench);
    return 0;
}

static void ask(struct bench *bench, unsigned client, const char *tag, unsigned count)
{
    char target[128];

    (void)snprintf(target, sizeof(target), "/api/segment/get/%s?count=%u&timeout_ms=10000", tag,
                   count);
    client_request(bench->clients[client], "GET", target, NULL);
}

/* The status of the reply, which must come without anybody's help. */
static int answer(struct bench *bench, unsigned client, const char *tag, unsigned round)
{
    struct pollfd wait = {.fd = bench->clients[client]->fd, .events = POLLIN};
    struct reply reply;
    int status;

    if (TEMP_FAILURE_RETRY(poll(&wait, 1, LOST_MS)) != 1) {
        print_error("round %u: a request for ids of %s was not answered within %d ms\n", round, tag,
                    LOST_MS);
        grant_race_show(&bench->race, tag);
        fail();
    }
    client_read(bench->clients[client], false, &reply);
    status = reply.status;
    reply_release(&reply);
    return status;
}

/* A few requests at a time, for a tag whose segments are shorter than what is asked. */
static void take_rounds(struct bench *bench, unsigned rounds)
{
    uint64_t until_ms = clock_now_ms(clock_system()) + ROUNDS_MS;

    for (unsigned round = 0;
         round < rounds && (round < ROUNDS_LEAST || clock_now_ms(clock_system()) < until_ms);
         round++) {
        const char *tag = prng_below(&bench->prng, 2) == 0 ? "a" : "b";
        unsigned count =
            prng_below(&bench->prng, 2) == 0 ? 1 : 1 + (unsigned)prng_below(&bench->prng, CLIENTS);
        unsigned first = (unsigned)prng_below(&bench->prng, CLIENTS);

        for (unsigned i = 0; i < count; i++) {
            ask(bench, (first + i) % CLIENTS, tag, 1 + (unsigned)prng_below(&bench->prng, 12));
        }
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(answer(bench, (first + i) % CLIENTS, tag, round), 200);
        }
    }
}

static void test_a_parked_request_is_woken_by_a_segment(void **state)
{
    struct bench *bench = *state;

    grant_race_make(&bench->race, "a", 1, 1, 4);
    grant_race_make(&bench->race, "b", 1, 3, 8);
    grant_race_yield(true, 100);
    take_rounds(bench, 1500);
}

static void test_a_parked_request_outlives_refills_that_fail(void **state)
{
    struct bench *bench = *state;

    grant_race_make(&bench->race, "a", 1, 1, 4);
    grant_race_make(&bench->race, "b", 1, 3, 8);
    atomic_store(&bench->race.fail_every, 2);
    grant_race_yield(true, 200);
    take_rounds(bench, 500);
}

/* The cluster answers nothing: what wakes them is the deletion. */
static void test_a_parked_request_is_woken_when_its_tag_goes(void **state)
{
    struct bench *bench = *state;

    grant_race_yield(true, 300);
    for (unsigned round = 0; round < 150; round++) {
        unsigned count = 1 + (unsigned)prng_below(&bench->prng, 4);

        grant_race_make(&bench->race, "a", 1, 1, 1);
        assert_int_equal((ask(bench, 0, "a", 1), answer(bench, 0, "a", round)), 200);
        atomic_store(&bench->race.hold, true);
        for (unsigned i = 0; i < count; i++) {
            ask(bench, i, "a", 10);
        }
        grant_race_delete(&bench->race, "a");
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(answer(bench, i, "a", round), 404);
        }
        atomic_store(&bench->race.hold, false);
        grant_race_do(&bench->race, NULL, NULL);
    }
}

/* They take what there is, and then there is no more. */
static void test_a_parked_request_is_woken_when_its_tag_is_used_up(void **state)
{
    struct bench *bench = *state;
    char tag[16];

    grant_race_yield(true, 400);
    for (unsigned round = 0; round < 150; round++) {
        unsigned count = 1 + (unsigned)prng_below(&bench->prng, 4);

        (void)snprintf(tag, sizeof(tag), "end%u", round);
        grant_race_make(&bench->race, tag, (uint64_t)INT64_MAX - 1 - prng_below(&bench->prng, 6), 2,
                        2);
        for (unsigned i = 0; i < count; i++) {
            ask(bench, i, tag, 20);
        }
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(answer(bench, i, tag, round), 409);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_parked_request_is_woken_by_a_segment),
        TEST(test_a_parked_request_outlives_refills_that_fail),
        TEST(test_a_parked_request_is_woken_when_its_tag_goes),
        TEST(test_a_parked_request_is_woken_when_its_tag_is_used_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
