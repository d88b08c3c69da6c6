/*
 * test_budget.c - room for bodies and replies: each bound, and one byte beyond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "http/server/budget.h"

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
    struct budget budget;

    (void)state;
    budget_init(&budget, &of_node);
    assert_int_equal(budget.bodies_max, 64 * MIB);
    assert_int_equal(budget.large_max, 48 * MIB);
    assert_int_equal(budget.client_max, 16 * MIB);
    assert_int_equal(budget.output_max, 64 * MIB);
    of_node.loops = 4;
    budget_init(&budget, &of_node);
    assert_int_equal(budget.bodies_max, 16 * MIB);
    assert_int_equal(budget.client_max, 16 * MIB); /* of all loops */
    assert_int_equal(budget.output_max, 16 * MIB);
    /* Whatever is set, one bulk body and some replies fit. */
    of_node = (struct http_settings){.loops = LIMIT_HTTP_LOOPS};
    budget_init(&budget, &of_node);
    assert_true(budget.large_max >= LARGE);
    assert_int_equal(budget.client_max, LARGE);
    assert_int_equal(budget.output_max, LIMIT_HTTP_OUTPUT_MIN_BYTES);
}

/* What is kept of requests: the bound, and one byte beyond. */
static void test_input(void **state)
{
    struct http_settings of_node = settings;
    struct budget budget;
    uint32_t one = 0;
    uint32_t other = 0;

    (void)state;
    of_node.input_bytes = 32 * MIB;
    of_node.loops = 4;
    budget_init(&budget, &of_node);
    assert_int_equal(budget.input_max, 8 * MIB);
    of_node.loops = LIMIT_HTTP_LOOPS;
    budget_init(&budget, &of_node);
    assert_int_equal(budget.input_max, LIMIT_HTTP_INPUT_MIN_BYTES);
    budget_kept(&budget.input_bytes, &one, LIMIT_HTTP_INPUT_MIN_BYTES - 512);
    budget_kept(&budget.input_bytes, &other, 512);
    assert_false(budget_input_is_over(&budget));
    budget_kept(&budget.input_bytes, &other, 513);
    assert_true(budget_input_is_over(&budget));
    budget_kept(&budget.input_bytes, &one, 0);
    assert_false(budget_input_is_over(&budget));
    assert_int_equal(budget_input_bytes(&budget), 513);
    budget_kept(&budget.input_bytes, &other, 0);
    assert_int_equal(budget_input_bytes(&budget), 0);
    /* who waits has as much of its own */
    budget_kept(&budget.waiting_bytes, &one, LIMIT_HTTP_INPUT_MIN_BYTES);
    assert_false(budget_waiting_is_over(&budget) || budget_input_is_over(&budget));
    budget_kept(&budget.waiting_bytes, &one, LIMIT_HTTP_INPUT_MIN_BYTES + 1);
    assert_true(budget_waiting_is_over(&budget) && !budget_input_is_over(&budget));
    budget_kept(&budget.waiting_bytes, &one, 0);
    assert_int_equal(budget_waiting_bytes(&budget), 0);
}

/* A client's large bodies have a share, on all loops together; the small ones do not count. */
static void test_the_share_of_a_client(void **state)
{
    struct http_client client = {0};
    struct http_client other = {0};
    struct budget loops[2];

    (void)state;
    budget_init(&loops[0], &settings);
    budget_init(&loops[1], &settings);
    assert_int_equal(budget_body(&loops[0], &client, 0, LARGE), BUDGET_OK);
    assert_int_equal(budget_body(&loops[1], &client, 0, LARGE), BUDGET_OK);
    assert_int_equal(budget_body(&loops[0], &client, 0, SMALL + 1), BUDGET_CLIENT);
    assert_int_equal(budget_body(&loops[0], &client, 0, SMALL), BUDGET_OK);
    assert_int_equal(budget_body(&loops[0], &client, SMALL, SMALL + 1), BUDGET_CLIENT);
    assert_int_equal(budget_body(&loops[0], &other, 0, LARGE), BUDGET_OK);
    /* Nothing was taken by what was refused. */
    assert_int_equal(loops[0].body_bytes, 2 * LARGE + SMALL);
    assert_int_equal(client.body_bytes, 2 * LARGE);
    budget_body_free(&loops[1], &client, LARGE);
    assert_int_equal(budget_body(&loops[0], &client, SMALL, SMALL + 1), BUDGET_OK);
    assert_int_equal(client.body_bytes, LARGE + SMALL + 1);
    budget_body_free(&loops[0], &client, SMALL + 1);
    budget_body_free(&loops[0], &client, LARGE);
    budget_body_free(&loops[0], &other, LARGE);
    assert_int_equal(client.body_bytes, 0);
    assert_int_equal(other.body_bytes, 0);
    assert_int_equal(loops[0].body_bytes, 0);
    assert_int_equal(loops[0].large_bytes, 0);
    assert_int_equal(loops[1].body_bytes, 0);
}

/* Large bodies leave a quarter to small ones. */
static void test_large_bodies_leave_room(void **state)
{
    struct http_client *clients = calloc(6, sizeof *clients);
    struct http_client quiet = {0};
    struct budget budget;

    (void)state;
    assert_non_null(clients);
    budget_init(&budget, &settings);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(budget_body(&budget, &clients[i], 0, LARGE), BUDGET_OK);
    }
    assert_int_equal(budget_body(&budget, &quiet, 0, SMALL + 1), BUDGET_LARGE);
    for (uint64_t i = 0; i < 16 * MIB / SMALL; i++) {
        assert_int_equal(budget_body(&budget, &quiet, 0, SMALL), BUDGET_OK);
    }
    assert_int_equal(budget.body_bytes, 64 * MIB);
    assert_int_equal(budget_body(&budget, &quiet, 0, 1), BUDGET_ALL);
    assert_int_equal(quiet.body_bytes, 0);
    free(clients);
}

static void test_output(void **state)
{
    uint64_t counted[2] = {0};
    struct budget budget;

    (void)state;
    budget_init(&budget, &settings);
    budget_output(&budget, &counted[0], 48 * MIB - 1);
    assert_false(budget_output_is_short(&budget));
    budget_output(&budget, &counted[1], 1);
    assert_true(budget_output_is_short(&budget));
    budget_output(&budget, &counted[1], 16 * MIB);
    assert_false(budget_output_is_full(&budget));
    budget_output(&budget, &counted[0], 48 * MIB);
    assert_true(budget_output_is_full(&budget));
    budget_output(&budget, &counted[0], 80 * MIB - 1);
    assert_false(budget_output_is_over(&budget));
    budget_output(&budget, &counted[0], 80 * MIB);
    assert_true(budget_output_is_over(&budget));
    budget_output(&budget, &counted[0], 0);
    budget_output(&budget, &counted[1], 0);
    assert_int_equal(budget_output_bytes(&budget), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_loops),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_the_share_of_a_client),
        cmocka_unit_test(test_large_bodies_leave_room),
        cmocka_unit_test(test_output),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
