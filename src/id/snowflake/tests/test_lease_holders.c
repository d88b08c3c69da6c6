/*
 * test_lease_holders.c - a lease and the other holders of worker ids: wiped disks, operators who
 * release and take over, and worker ids and generator slots that run out.
 *
 * Thread: one. Time is the world's.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/snowflake/tests/lease_world.h"
#include "src/state/codec/cluster_command.h"

/* --- other holders --- */

static void test_wiped_disk_takes_another(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id = lease_world_id(node);
    uint32_t old = id.worker;

    (void)state;
    lease_world_crash(node, false, false);
    lease_world_wipe(node);
    lease_world_start(node);
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    id = lease_world_id(node);
    assert_int_not_equal(id.worker, old);
    assert_string_equal(lease_world_row(world, node, 0)->name, "node-1/0000000200000002/0");
    lease_world_over(world);
}

/* The worker id is released from under the node: it gets it back in a later epoch. */
/* Shows lesson-fenced. */
static void test_fenced_off(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[1];
    struct snowflake_parts id = lease_world_id(node);
    uint32_t old = id.worker;
    struct segment_range range;

    (void)state;
    lease_world_release(world, old, 0);
    /* Until it hears of it, it stamps within its window, and that is its own still. */
    assert_int_equal(lease_world_claim(node, 1, &range), 0);
    lease_world_run(world, 1);
    assert_int_equal(lease_world_claim(node, 1, &range), ERR_EMPTY);
    assert_int_equal(lease_world_status(node).refusal, ERR_EMPTY);
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, LEASE_WORLD_WINDOW_MS + LEASE_WORLD_SOON_MS, &id),
                     0);
    assert_int_equal(id.worker, old);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    assert_int_equal(lease_world_status(node).refusal, 0);
    lease_world_over(world);
}

/* As above, but it hears of it only by its own renewal. */
static void test_fenced_off_by_a_renewal(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[1];
    struct snowflake_parts id = lease_world_id(node);
    uint32_t old = id.worker;

    (void)state;
    node->lagging = true;
    lease_world_release(world, old, 0);
    lease_world_run(world, LEASE_WORLD_RENEW_MS + LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, LEASE_WORLD_WINDOW_MS + LEASE_WORLD_SOON_MS, &id),
                     0);
    assert_int_equal(id.worker, old);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    /* News that is older than what it holds changes nothing. */
    node->lagging = false;
    lease_world_run(world, LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_id(node).worker, id.worker);
    lease_world_over(world);
}

/* Released with a time before what it really used: it never goes below its own last time. */
static void test_released_with_a_wrong_time(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts before = lease_world_id(node);
    struct snowflake_parts after;

    (void)state;
    lease_world_run(world, 100);
    before = lease_world_id(node);
    lease_world_release(world, before.worker, before.unix_ms - 90);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    lease_world_step_clock(node, -80);
    assert_int_equal(lease_world_wait_id(node, 2 * LEASE_WORLD_LEAD_MS, &after), 0);
    assert_int_equal(after.worker, before.worker);
    assert_true(after.unix_ms > before.unix_ms);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    lease_world_over(world);
}

/* A client cannot take over a node's name. Another node that has it (a copy of its disk) gets its
 * worker id; the node takes it back, and waits for the other's window to end. */
static void test_name_stolen(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id = lease_world_id(node);
    char name[LIMIT_WORKER_NAME_BYTES + 1];
    uint64_t theirs_ms;
    unsigned proposals;

    (void)state;
    (void)snprintf(name, sizeof name, "%s", lease_world_row(world, node, 0)->name);
    assert_int_equal(lease_world_steal(world, WORKER_CLIENT, name, WORKER_ID_ANY), ERR_CONFLICT);
    assert_int_equal(lease_world_steal(world, WORKER_NODE, name, WORKER_ID_ANY), 0);
    theirs_ms = fsm_worker(world->log, id.worker)->granted_until_ms;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_status(node).wait_until_ms, theirs_ms + 1);
    proposals = node->proposal_count;
    lease_world_run(world, theirs_ms + 1 - SNOWFLAKE_FROM_WAIT_MS - 100 - world->true_ms);
    assert_int_equal(node->proposal_count, proposals); /* nothing to renew */
    lease_world_run(world, theirs_ms + 1 - world->true_ms);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_record(node, 0).epoch, 3);
    lease_world_over(world);
}

/* As above, with its own restart in between: what the disk remembers counts, too. */
static void test_released_with_a_wrong_time_while_down(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts before = lease_world_id(node);
    struct snowflake_parts after;

    (void)state;
    lease_world_run(world, 600);
    before = lease_world_id(node);
    lease_world_crash(node, false, false);
    lease_world_release(world, before.worker, before.unix_ms - 500);
    lease_world_step_clock(node, -300);
    lease_world_start(node);
    assert_int_equal(lease_world_wait_id(node, 3 * LEASE_WORLD_LEAD_MS, &after), 0);
    assert_int_equal(after.worker, before.worker);
    assert_true(after.unix_ms > before.unix_ms);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    lease_world_over(world);
}

/* --- how many --- */

static void serve_all(uint32_t workers)
{
    struct lease_world *world = lease_world_served(3, workers);
    bool seen[1u << 10] = {false}; /* of the own layout */
    size_t count = 0;

    for (unsigned i = 0; i < 2000; i++) {
        uint32_t worker = lease_world_id(&world->nodes[i % 3]).worker;

        count += !seen[worker];
        seen[worker] = true;
    }
    assert_int_equal(count, 3 * workers);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(lease_world_status(&world->nodes[i]).serving, workers);
    }
    lease_world_over(world);
}

static void test_two_workers(void **state)
{
    (void)state;
    serve_all(2);
}

static void test_most_workers(void **state)
{
    (void)state;
    serve_all(LIMIT_WORKERS_PER_NODE);
}

/* Switched off: a no-op. */
static void test_no_workers(void **state)
{
    struct lease_world *world = lease_world_new(1, 0);
    struct lease_node *node = &world->nodes[0];
    struct segment_range range;

    (void)state;
    lease_world_run(world, LEASE_WORLD_WINDOW_MS);
    assert_int_equal(node->proposal_count, 0);
    assert_int_equal(node->write_count, 0);
    assert_true(timers_next_ms(&node->timers) == UINT64_MAX);
    assert_int_equal(lease_world_status(node).refusal, ERR_DISABLED);
    assert_int_equal(lease_world_claim(node, 1, &range), ERR_DISABLED);
    lease_world_over(world);
}

static void test_fewer_workers_than_records(void **state)
{
    struct lease_world *world = lease_world_served(1, 2);
    struct lease_node *node = &world->nodes[0];

    (void)state;
    lease_world_crash(node, false, false);
    world->config.workers = 1;
    lease_world_start(node);
    lease_world_run(world, 2 * LEASE_WORLD_LEAD_MS);
    assert_int_equal(lease_world_status(node).serving, 1);
    (void)lease_world_id(node);
    /* And again: the record of the other one is as good as it was. */
    lease_world_crash(node, false, false);
    world->config.workers = 2;
    lease_world_start(node);
    lease_world_run(world, 2 * LEASE_WORLD_LEAD_MS);
    assert_int_equal(lease_world_status(node).serving, 2);
    assert_int_equal(lease_world_record(node, 1).epoch, 1);
    lease_world_over(world);
}

/* One bit of worker ids: two for three nodes. */
static void test_all_taken(void **state)
{
    struct lease_config config = {.address = NULL,
                                  .workers = 1,
                                  .window_ms = LEASE_WORLD_WINDOW_MS,
                                  .renew_ms = LEASE_WORLD_RENEW_MS,
                                  .mark_lead_ms = LEASE_WORLD_LEAD_MS,
                                  .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
                                  .layout = {SNOWFLAKE_EPOCH_MS, 41, 1, 12}};
    struct lease_world *world = lease_world_new_config(3, &config);
    struct lease_node *without = NULL;
    struct snowflake_parts id;
    unsigned serving = 0;

    (void)state;
    lease_world_run(world, 2 * LEASE_WORLD_WINDOW_MS);
    for (unsigned i = 0; i < 3; i++) {
        if (lease_world_status(&world->nodes[i]).serving == 0) {
            without = &world->nodes[i];
        } else {
            serving++;
            (void)lease_world_id(&world->nodes[i]);
        }
    }
    assert_int_equal(serving, 2);
    assert_int_equal(lease_world_status(without).refusal, ERR_NO_WORKER_ID);
    assert_int_equal(lease_world_wait_id(without, 5, &id), ERR_NO_WORKER_ID);
    assert_in_range(without->proposal_count, 38, 42); /* one in renew_ms */
    /* One of the others goes for good: its window passes, and its worker id is free. */
    lease_world_crash(&world->nodes[without == &world->nodes[0] ? 1 : 0], false, false);
    lease_world_settle(world, LEASE_WORLD_WINDOW_MS + 2 * LEASE_WORLD_RENEW_MS);
    (void)lease_world_id(without);
    lease_world_over(world);
}

static void to_log(struct lease_world *world, struct buf *command)
{
    lease_world_entry(world, command);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
}

/* --- a fixed worker id --- */

static const struct lease_config FIXED = {.fixed = 6,
                                          .workers = 1,
                                          .window_ms = LEASE_WORLD_WINDOW_MS,
                                          .renew_ms = LEASE_WORLD_RENEW_MS,
                                          .mark_lead_ms = LEASE_WORLD_LEAD_MS,
                                          .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
                                          .layout = SNOWFLAKE_LEAF_LAYOUT};

/* All nodes are given the same one: the others say who has it, and one takes it when that is over.
 */
static void test_a_fixed_worker_id_that_another_has(void **state)
{
    struct lease_world *world = lease_world_new_config(3, &FIXED);
    struct lease_node *first = &world->nodes[0];
    struct lease_node *second = &world->nodes[1];
    struct lease_node *third = &world->nodes[2];
    struct lease_status status;
    struct snowflake_parts id;

    (void)state;
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    id = lease_world_id(first);
    assert_int_equal(id.worker, 5);
    status = lease_world_status(second);
    assert_int_equal(status.refusal, ERR_NO_WORKER_ID);
    assert_int_equal(status.denied, ERR_CONFLICT);
    assert_int_equal(status.holder->id, 5);
    assert_int_equal(status.holder->name_len, strlen("node-1/0000000000000001/w5"));
    assert_true(status.holder->granted_until_ms > world->true_ms);
    lease_world_crash(first, false, false);
    lease_world_run(world, 2 * LEASE_WORLD_WINDOW_MS);
    second = lease_world_status(second).serving > 0 ? second : third;
    id = lease_world_id(second);
    assert_int_equal(id.worker, 5);
    assert_int_equal(lease_world_status(second).denied, 0);
    assert_null(lease_world_status(second).holder);
    lease_world_over(world);
}

/* The setting changes, there and back: each start serves what it says, and what it has stamped
 * before comes never again. */
static void test_a_fixed_worker_id_that_changes(void **state)
{
    static const uint32_t fixed[] = {6, 8, 6, 0, 1, 8};
    struct lease_world *world = lease_world_new_config(1, &FIXED);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        world->config.fixed = fixed[i];
        lease_world_crash(node, false, false);
        lease_world_start(node);
        if (i == 0 || fixed[i] == 1) { /* what it has already */
            lease_world_settle(world, 2 * LEASE_WORLD_LEAD_MS);
        }
        assert_int_equal(lease_world_wait_id(node, 3 * LEASE_WORLD_WINDOW_MS, &id), 0);
        assert_int_equal(id.worker, fixed[i] > 0 ? fixed[i] - 1 : 0);
    }
    lease_world_over(world);
}

/* Beyond the layout, and of another pool. */
static void test_a_fixed_worker_id_that_it_may_not_have(void **state)
{
    struct lease_config config = FIXED;
    struct lease_world *world;
    struct buf command = BUF_INIT;

    (void)state;
    config.fixed = 1025;
    world = lease_world_new_config(1, &config);
    lease_world_run(world, LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_status(&world->nodes[0]).refusal, ERR_NO_WORKER_ID);
    assert_int_equal(lease_world_status(&world->nodes[0]).denied, ERR_INVALID);
    lease_world_over(world);
    world = lease_world_new_config(1, &FIXED);
    for (uint16_t to = 2; to <= 3; to++) {
        cluster_command_put(&command, COMMAND_LEVEL,
                            &(struct level_command){.to = to, .wall_ms = world->true_ms});
        to_log(world, &command);
    }
    command_put(&command, COMMAND_WORKER_POOLS, &(struct worker_pools_put){"b=0-9", 5});
    to_log(world, &command);
    lease_world_crash(&world->nodes[0], false, false);
    lease_world_wipe(&world->nodes[0]);
    lease_world_start(&world->nodes[0]);
    lease_world_run(world, 2 * LEASE_WORLD_WINDOW_MS);
    assert_int_equal(lease_world_status(&world->nodes[0]).denied, ERR_CONFLICT);
    assert_null(lease_world_status(&world->nodes[0]).holder);
    lease_world_over(world);
}

/* A node with a zone waits until it knows whether there are pools, takes from its zone's, and keeps
 * what it has when the pools change. */
static void test_a_zone_has_its_pool(void **state)
{
    static const char *const pools[] = {"a=40-41,b=0-9", "b=0-1023", "a=7-7"};
    struct lease_config config = {.zone = "a",
                                  .workers = 2,
                                  .window_ms = LEASE_WORLD_WINDOW_MS,
                                  .renew_ms = LEASE_WORLD_RENEW_MS,
                                  .mark_lead_ms = LEASE_WORLD_LEAD_MS,
                                  .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
                                  .layout = SNOWFLAKE_LEAF_LAYOUT};
    struct lease_world *world = lease_world_new_config(1, &config);
    struct lease_node *node = &world->nodes[0];
    struct buf command = BUF_INIT;

    (void)state;
    for (uint16_t to = 2; to <= 3; to++) {
        cluster_command_put(&command, COMMAND_LEVEL,
                            &(struct level_command){.to = to, .wall_ms = world->true_ms});
        to_log(world, &command);
    }
    for (unsigned i = 0; i < 3; i++) {
        command_put(&command, COMMAND_WORKER_POOLS,
                    &(struct worker_pools_put){pools[i], (uint16_t)strlen(pools[i])});
        to_log(world, &command);
        if (i == 0) {
            lease_world_run(world, 2 * LEASE_WORLD_WINDOW_MS);
            assert_int_equal(node->proposal_count, 0);
            lease_zone(node->lease, true);
        } else if (i == 1) {
            lease_world_crash(node, false, false);
            lease_world_start(node);
            lease_zone(node->lease, true);
        }
        lease_world_settle(world, 2 * LEASE_WORLD_LEAD_MS);
        for (unsigned k = 0; k < 2; k++) {
            assert_in_range(lease_world_record(node, k).worker_id, 40, 41);
        }
    }
    /* With another disk it takes from the pool of now, which has one. */
    lease_world_crash(node, false, false);
    lease_world_wipe(node);
    lease_world_start(node);
    lease_zone(node->lease, true);
    lease_world_run(world, LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_status(node).serving, 1);
    assert_int_equal(lease_world_id(node).worker, 7);
    lease_world_over(world);
}

/* Of a cluster that has no pools yet: as without a zone. */
static void test_a_zone_before_there_are_pools(void **state)
{
    struct lease_config config = {.zone = "a",
                                  .workers = 1,
                                  .window_ms = LEASE_WORLD_WINDOW_MS,
                                  .renew_ms = LEASE_WORLD_RENEW_MS,
                                  .mark_lead_ms = LEASE_WORLD_LEAD_MS,
                                  .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
                                  .layout = SNOWFLAKE_LEAF_LAYOUT};
    struct lease_world *world = lease_world_new_config(3, &config);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        lease_zone(world->nodes[i].lease, false);
    }
    lease_world_settle(world, 2 * LEASE_WORLD_LEAD_MS);
    lease_world_over(world);
}

/* A process has LIMIT_SNOWFLAKE_SLOTS of them in its life; then it says so, and asks no more. */
static void test_generator_slots_used_up(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    unsigned proposals;

    (void)state;
    for (unsigned i = 1; i < LIMIT_SNOWFLAKE_SLOTS; i++) {
        lease_world_release(world, lease_world_record(node, 0).worker_id, world->true_ms);
        lease_world_run(world, LEASE_WORLD_SOON_MS);
        assert_int_equal(lease_world_status(node).serving, 1);
    }
    lease_world_release(world, lease_world_record(node, 0).worker_id, world->true_ms);
    proposals = node->proposal_count;
    lease_world_run(world, LEASE_WORLD_WINDOW_MS);
    assert_int_equal(node->proposal_count, proposals);
    assert_int_equal(lease_world_status(node).serving, 0);
    assert_int_equal(lease_world_status(node).refusal, ERR_NO_WORKER_ID);
    lease_world_crash(node, false, false);
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_status(node).serving, 1);
    lease_world_over(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wiped_disk_takes_another),
        cmocka_unit_test(test_fenced_off),
        cmocka_unit_test(test_fenced_off_by_a_renewal),
        cmocka_unit_test(test_released_with_a_wrong_time),
        cmocka_unit_test(test_name_stolen),
        cmocka_unit_test(test_released_with_a_wrong_time_while_down),
        cmocka_unit_test(test_two_workers),
        cmocka_unit_test(test_most_workers),
        cmocka_unit_test(test_no_workers),
        cmocka_unit_test(test_fewer_workers_than_records),
        cmocka_unit_test(test_all_taken),
        cmocka_unit_test(test_a_fixed_worker_id_that_another_has),
        cmocka_unit_test(test_a_fixed_worker_id_that_changes),
        cmocka_unit_test(test_a_fixed_worker_id_that_it_may_not_have),
        cmocka_unit_test(test_a_zone_has_its_pool),
        cmocka_unit_test(test_a_zone_before_there_are_pools),
        cmocka_unit_test(test_generator_slots_used_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
