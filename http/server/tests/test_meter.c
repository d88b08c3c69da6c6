/*
 * test_meter.c - room for bodies and replies: each bound, and one byte beyond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "http/server/meter.h"

#define MIB (UINT64_C(1) << 20)
#define SMALL ((uint64_t)LIMIT_HTTP_SMALL_BODY_BYTES)
#define LARGE ((uint64_t)LIMIT_HTTP_BODY_BYTES)

static const struct http_settings settings = {.loops = 1,
                                              .bodies_bytes = 64 * MIB,
                                              .client_bodies_bytes = 16 * MIB,
                                              .output_bytes = 64 * MIB};

static void test_parts_of_loops(void **state)
{
    struct http_settings of_node = settings;
    struct conn_meter meter;

    (void)state;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.bodies_max, 64 * MIB);
    assert_int_equal(meter.large_max, 48 * MIB);
    assert_int_equal(meter.client_max, 16 * MIB);
    assert_int_equal(meter.output_max, 64 * MIB);
    of_node.loops = 4;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.bodies_max, 16 * MIB);
    assert_int_equal(meter.client_max, 16 * MIB); /* of all loops */
    assert_int_equal(meter.output_max, 16 * MIB);
    /* Whatever is set, one bulk body and some replies fit. */
    of_node = (struct http_settings){.loops = LIMIT_HTTP_LOOPS};
    meter_init(&meter, &of_node);
    assert_true(meter.large_max >= LARGE);
    assert_int_equal(meter.client_max, LARGE);
    assert_int_equal(meter.output_max, LIMIT_HTTP_OUTPUT_MIN_BYTES);
}

/* So much is kept of its request. True: it is too much. */
static bool keeps(struct conn_meter *meter, struct metered *metered, uint32_t kept, bool waits)
{
    const struct wire wire = {.size = kept};

    return meter_input(meter, metered, &wire, waits);
}

/* What is kept of requests: the bound, and one byte beyond. */
static void test_input(void **state)
{
    struct http_settings of_node = settings;
    struct conn_meter meter;
    struct metered one = {0};
    struct metered other = {0};

    (void)state;
    of_node.input_bytes = 32 * MIB;
    of_node.loops = 4;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.input_max, 8 * MIB);
    of_node.loops = LIMIT_HTTP_LOOPS;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.input_max, LIMIT_HTTP_INPUT_MIN_BYTES);
    assert_false(keeps(&meter, &one, LIMIT_HTTP_INPUT_MIN_BYTES - 512, false));
    assert_false(keeps(&meter, &other, 512, false));
    assert_ptr_equal(TAILQ_FIRST(&meter.inputs), &one);
    meter_input_step(&meter, &one);
    assert_ptr_equal(TAILQ_FIRST(&meter.inputs), &other);
    assert_true(keeps(&meter, &other, 513, false));
    assert_false(keeps(&meter, &other, 513, false)); /* one that does not grow is spared */
    assert_true(meter_input_is_over(&meter));
    assert_false(keeps(&meter, &one, 0, false));
    assert_false(meter_input_is_over(&meter));
    assert_int_equal(meter.input_bytes, 513);
    meter_end(&meter, &other);
    assert_int_equal(meter.input_bytes, 0);
    /* One that waits has as much, beyond a step of its own. */
    assert_false(keeps(&meter, &one, WIRE_STEP_BYTES + LIMIT_HTTP_INPUT_MIN_BYTES, true));
    assert_int_equal(meter.waiting_bytes, LIMIT_HTTP_INPUT_MIN_BYTES);
    assert_true(keeps(&meter, &one, WIRE_STEP_BYTES + LIMIT_HTTP_INPUT_MIN_BYTES + 1, true));
    assert_int_equal(meter.input_bytes, 0);
    meter_end(&meter, &one);
    assert_true(meter_is_clear(&meter));
}

/* A body of its own that grows to so many bytes. */
static enum meter_body grow(struct conn_meter *meter, struct metered *body,
                            struct http_client *client, uint64_t to)
{
    return meter_body(meter, body, client, to - body->body_bytes, 0);
}

/* A client's large bodies have a share, on all loops together; the small ones do not count. */
static void test_the_share_of_a_client(void **state)
{
    struct http_client client = {0};
    struct http_client other = {0};
    struct conn_meter loops[2];
    struct metered large[2] = {0};
    struct metered small = {0};
    struct metered others = {0};

    (void)state;
    meter_init(&loops[0], &settings);
    meter_init(&loops[1], &settings);
    assert_int_equal(grow(&loops[0], &large[0], &client, LARGE), METER_BODY_OK);
    assert_int_equal(grow(&loops[1], &large[1], &client, LARGE), METER_BODY_OK);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL + 1), METER_BODY_SHARE);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL), METER_BODY_OK);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL + 1), METER_BODY_SHARE);
    assert_int_equal(grow(&loops[0], &others, &other, LARGE), METER_BODY_OK);
    /* Nothing was taken by what was refused. */
    assert_int_equal(loops[0].body_bytes, 2 * LARGE + SMALL);
    assert_int_equal(client.body_bytes, 2 * LARGE);
    assert_int_equal(client.bodies, 3);
    meter_body_free(&loops[1], &large[1], &client);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL + 1), METER_BODY_OK);
    assert_int_equal(client.body_bytes, LARGE + SMALL + 1);
    meter_body_free(&loops[0], &small, &client);
    meter_body_free(&loops[0], &large[0], &client);
    meter_body_free(&loops[0], &others, &other);
    assert_int_equal(client.body_bytes, 0);
    assert_int_equal(client.bodies, 0);
    assert_int_equal(other.body_bytes, 0);
    assert_int_equal(loops[0].large_bytes, 0);
    assert_true(meter_is_clear(&loops[0]) && meter_is_clear(&loops[1]));
}

/* Large bodies leave a quarter to small ones. */
static void test_large_bodies_leave_room(void **state)
{
    enum { SMALL_COUNT = 16 * MIB / SMALL };
    struct http_client *clients = calloc(6, sizeof *clients);
    struct metered *bodies = calloc(6 + SMALL_COUNT + 2, sizeof *bodies);
    struct metered *body = bodies;
    struct http_client quiet = {0};
    struct conn_meter meter;

    (void)state;
    assert_non_null(clients);
    assert_non_null(bodies);
    meter_init(&meter, &settings);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(grow(&meter, body++, &clients[i], LARGE), METER_BODY_OK);
    }
    assert_int_equal(grow(&meter, body++, &quiet, SMALL + 1), METER_BODY_LARGE);
    for (uint64_t i = 0; i < SMALL_COUNT; i++) {
        assert_int_equal(grow(&meter, body++, &quiet, SMALL), METER_BODY_OK);
    }
    assert_int_equal(meter.body_bytes, 64 * MIB);
    assert_int_equal(grow(&meter, body++, &quiet, 1), METER_BODY_ALL);
    assert_int_equal(quiet.body_bytes, 0);
    free(bodies);
    free(clients);
}

/* The quota of open bodies, and which one is the first that came slowly. */
static void test_bodies_of_a_client(void **state)
{
    struct http_client client = {.bodies_max = 2};
    struct conn_meter meter;
    struct metered bodies[3] = {0};

    (void)state;
    meter_init(&meter, &settings);
    assert_int_equal(meter_body(&meter, &bodies[0], &client, 1, 1000), METER_BODY_OK);
    assert_int_equal(meter_body(&meter, &bodies[1], &client, 1, 1001), METER_BODY_OK);
    assert_int_equal(meter_body(&meter, &bodies[2], &client, 1, 1002), METER_BODY_QUOTA);
    assert_null(meter_slow_body(&meter, NULL, 1000 + LIMIT_HTTP_BODY_SLOW_MS - 1));
    assert_ptr_equal(meter_slow_body(&meter, NULL, 1000 + LIMIT_HTTP_BODY_SLOW_MS), &bodies[0]);
    assert_null(meter_slow_body(&meter, &bodies[0], 1000 + LIMIT_HTTP_BODY_SLOW_MS));
    /* It gets on by a step, but not by a byte less. */
    assert_int_equal(meter_body(&meter, &bodies[0], &client, LIMIT_HTTP_BODY_STEP_BYTES - 2, 1003),
                     METER_BODY_OK);
    assert_ptr_equal(meter_slow_body(&meter, NULL, 1000 + LIMIT_HTTP_BODY_SLOW_MS), &bodies[0]);
    assert_int_equal(meter_body(&meter, &bodies[0], &client, 1, 1003), METER_BODY_OK);
    assert_ptr_equal(meter_slow_body(&meter, NULL, 1001 + LIMIT_HTTP_BODY_SLOW_MS), &bodies[1]);
    meter_body_free(&meter, &bodies[0], &client);
    assert_int_equal(meter_body(&meter, &bodies[2], &client, 1, 1004), METER_BODY_OK);
    meter_body_free(&meter, &bodies[1], &client);
    meter_body_free(&meter, &bodies[2], &client);
    meter_body_free(&meter, &bodies[2], &client);
    assert_int_equal(client.bodies, 0);
    assert_true(meter_is_clear(&meter));
}

/* So many bytes are held for its replies. */
static void holds(struct conn_meter *meter, struct metered *metered, size_t held)
{
    const struct wire wire = {.out.capacity = held / 2, .sending.capacity = held - held / 2};

    meter_output(meter, metered, &wire);
}

/* Is there room for the reply of a client that has not taken so many bytes? */
static bool has_room(const struct conn_meter *meter, size_t unsent, size_t sending)
{
    const struct wire wire = {.out.len = unsent, .sending.len = sending};

    return meter_has_room(meter, &wire);
}

static void test_output(void **state)
{
    struct metered one = {0};
    struct metered other = {0};
    struct conn_meter meter;

    (void)state;
    meter_init(&meter, &settings);
    holds(&meter, &one, 48 * MIB - 1);
    assert_false(meter_output_is_short(&meter));
    holds(&meter, &other, 1);
    assert_true(meter_output_is_short(&meter));
    holds(&meter, &other, 16 * MIB);
    assert_true(!meter_output_is_full(&meter) &&
                has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES + 1, 0));
    holds(&meter, &one, 48 * MIB);
    assert_true(meter_output_is_full(&meter) &&
                !has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES + 1, 0));
    holds(&meter, &one, 80 * MIB - 1);
    assert_true(has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES, 0));
    assert_false(has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES + 1, 0));
    assert_false(has_room(&meter, 0, 1));
    holds(&meter, &one, 80 * MIB);
    assert_false(has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES, 0));
    meter_end(&meter, &one);
    meter_end(&meter, &other);
    assert_true(meter_is_clear(&meter));
}

static void test_turns(void **state)
{
    struct metered one = {0};
    struct metered other = {0};
    struct conn_meter meter;

    (void)state;
    meter_init(&meter, &settings);
    meter_put_off(&one, &meter.later);
    meter_put_off(&other, &meter.later);
    meter_put_off(&one, &meter.no_room); /* it is put off already */
    assert_ptr_equal(TAILQ_FIRST(&meter.later), &one);
    assert_true(TAILQ_EMPTY(&meter.no_room));
    meter_put_on(&one);
    meter_put_off(&one, &meter.later);
    assert_ptr_equal(TAILQ_FIRST(&meter.later), &other);
    meter_end(&meter, &other);
    meter_end(&meter, &one);
    assert_true(meter_is_clear(&meter));
}

/* --- what a client takes of its replies --- */

#include "src/base/limits.h"

#define MIN_PER_S 1024

static const struct rate_rule rule = {.write_ms = 10000, .min_per_s = MIN_PER_S};

/* A client that takes so much a second, for so long; what is said in the end. */
static enum rate_verdict read_at(uint64_t per_s, unsigned seconds, uint64_t held, bool is_short)
{
    enum rate_verdict verdict = RATE_OK;
    struct rate rate;
    uint64_t taken = 5;
    uint64_t now_ms = 7;

    rate_begin(&rate, taken, now_ms);
    for (unsigned i = 0; i < seconds && verdict == RATE_OK; i++) {
        now_ms += 1000;
        taken += per_s;
        verdict = rate_look(&rate, &rule, taken, now_ms, true, held, is_short);
    }
    return verdict;
}

static void test_who_takes_nothing_has_gone(void **state)
{
    struct rate rate;

    (void)state;
    assert_int_equal(read_at(0, 9, 1, false), RATE_OK);
    assert_int_equal(read_at(0, 10, 1, false), RATE_STALLED);
    /* The time begins with the last byte. */
    rate_begin(&rate, 0, 0);
    assert_int_equal(rate_look(&rate, &rule, 0, 9999, true, 1, false), RATE_OK);
    assert_int_equal(rate_look(&rate, &rule, 1 << 20, 9999, true, 1, false), RATE_OK);
    assert_int_equal(rate_look(&rate, &rule, 1 << 20, 19998, true, 1, false), RATE_OK);
    assert_int_equal(rate_look(&rate, &rule, 1 << 20, 19999, true, 1, false), RATE_STALLED);
}

static void test_slow_links_are_no_offence(void **state)
{
    (void)state;
    assert_int_equal(read_at(MIN_PER_S, 1000, 1 << 20, false), RATE_OK);
    assert_int_equal(read_at(MIN_PER_S - 1, 9, 1 << 20, false), RATE_OK);
    assert_int_equal(read_at(MIN_PER_S - 1, 10, 1 << 20, false), RATE_SLOW);
}

static void test_while_output_is_short(void **state)
{
    const uint64_t wanted = (uint64_t)MIN_PER_S * LIMIT_HTTP_SHORT_RATE;

    (void)state;
    assert_int_equal(read_at(wanted, 1000, 1 << 20, true), RATE_OK);
    assert_int_equal(read_at(wanted - 1, 1, LIMIT_HTTP_HELD_BYTES, true), RATE_SLOW_WHILE_SHORT);
    /* Who holds little may be slow all the same. */
    assert_int_equal(read_at(MIN_PER_S, 1000, LIMIT_HTTP_HELD_BYTES - 1, true), RATE_OK);
    assert_int_equal(read_at(190 << 10, 1, 1 << 20, true), RATE_SLOW_WHILE_SHORT);
    assert_int_equal(read_at(190 << 10, 1000, 1 << 20, false), RATE_OK);
}

/* When it is we who are slow, the client is not to blame, also not for the time before. */
static void test_nothing_to_take(void **state)
{
    struct rate rate;

    (void)state;
    rate_begin(&rate, 0, 0);
    for (uint64_t now_ms = 1000; now_ms < 100000; now_ms += 1000) {
        bool waits = now_ms % 9000 != 0;

        assert_int_equal(rate_look(&rate, &rule, 0, now_ms, waits, 1 << 20, false), RATE_OK);
    }
}

static void test_no_rate(void **state)
{
    const struct rate_rule none = {.write_ms = 60};
    struct rate rate;

    (void)state;
    assert_int_equal(rate_look_ms(&none), 60);
    assert_int_equal(rate_look_ms(&rule), 1000);
    rate_begin(&rate, 0, 0);
    for (uint64_t i = 1; i < 1000; i++) {
        assert_int_equal(rate_look(&rate, &none, i, i * 60, true, 1 << 20, true), RATE_OK);
    }
    assert_int_equal(rate_look(&rate, &none, 999, 1000 * 60, true, 1, true), RATE_STALLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_loops),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_the_share_of_a_client),
        cmocka_unit_test(test_large_bodies_leave_room),
        cmocka_unit_test(test_bodies_of_a_client),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_who_takes_nothing_has_gone),
        cmocka_unit_test(test_slow_links_are_no_offence),
        cmocka_unit_test(test_while_output_is_short),
        cmocka_unit_test(test_nothing_to_take),
        cmocka_unit_test(test_no_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
