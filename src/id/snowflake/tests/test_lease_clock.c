/*
 * test_lease_clock.c - a lease and its node's clock: set back by little and by much, at run time
 * and over a restart, set ahead by fifty years, refused by the log, and back to order by itself.
 *
 * Thread: one. Time is the world's.
 */
#include "src/tests/unit/test.h"
#include "src/id/snowflake/tests/lease_world.h"

#define HOUR_MS 3600000
#define FIFTY_YEARS_MS (50 * 365 * 24 * (int64_t)HOUR_MS)
#define TICK_MS 100 /* until a clock that changed is noticed, while ids are claimed or refused */

static struct lease_world *served(size_t nodes)
{
    struct lease_world *world = lease_world_new(nodes, 1);

    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    /* The mark is in use, and its next renewal far away. */
    for (unsigned i = 0; i < 3300; i++) {
        (void)lease_world_id(&world->nodes[0]);
        lease_world_run(world, 1);
    }
    return world;
}

/* The last time that was stamped. */
static uint64_t last_ms(const struct lease_world *world)
{
    const struct segment_range *range = &world->ranges[world->range_count - 1];

    return snowflake_decode(&world->config.layout, range->first).unix_ms;
}

/* --- set back --- */

static void restart_set_back(int64_t by_ms)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    uint64_t before_ms = last_ms(world);
    struct snowflake_parts id;
    struct lease_record record;
    unsigned proposals;

    lease_world_crash(node, false, false);
    lease_world_step_clock(node, -by_ms);
    record = lease_world_record(node, 0);
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_status(node).wait_until_ms, record.mark_ms + 1);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_CLOCK_BACKWARDS);
    proposals = node->proposal_count;
    while (lease_world_wall(node) + TICK_MS < record.mark_ms - SNOWFLAKE_FROM_WAIT_MS) {
        uint64_t left_ms = record.mark_ms - SNOWFLAKE_FROM_WAIT_MS - lease_world_wall(node);

        assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_BACKWARDS);
        lease_world_run(world, left_ms > 1000 ? left_ms / 2 : TICK_MS);
    }
    assert_int_equal(node->proposal_count, proposals); /* it renews nothing */
    lease_world_run(world, record.mark_ms + 1 - lease_world_wall(node));
    /* What it was granted may be over by its own clock, too: then the next renewal brings more. */
    assert_int_equal(lease_world_wait_id(node, 2 * LEASE_WORLD_RENEW_MS, &id), 0);
    assert_true(id.unix_ms > before_ms);
    assert_int_equal(lease_world_status(node).refusal, 0);
    assert_int_equal(lease_world_status(node).wait_until_ms, 0);
    lease_world_over(world);
}

/* Shows lesson-restart-clock. */
static void test_restart_set_back_two_seconds(void **state)
{
    (void)state;
    restart_set_back(2000);
}

/* Shows lesson-restart-clock. */
static void test_restart_set_back_an_hour(void **state)
{
    (void)state;
    restart_set_back(HOUR_MS);
}

/* With peers in sight it is told so at once, whatever its own disk says. */
static void test_restart_set_back_among_peers(void **state)
{
    struct lease_world *world = served(3);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_crash(node, false, false);
    lease_world_step_clock(node, -HOUR_MS);
    lease_world_start(node);
    lease_world_run(world, 2000);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_CLOCK_SKEW);
    lease_world_step_clock(node, HOUR_MS);
    lease_world_run(world, 2 * TICK_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    assert_int_equal(lease_world_status(node).refusal, 0);
    lease_world_over(world);
}

static void test_set_back_a_little_is_waited_for(void **state)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    uint64_t before_ms = last_ms(world);

    (void)state;
    lease_world_step_clock(node, -LIMIT_CLOCK_BACK_WAIT_MS);
    for (unsigned i = 0; i < 300; i++) {
        assert_true(lease_world_id(node).unix_ms >= before_ms);
        assert_int_equal(lease_world_status(node).refusal, 0);
        lease_world_run(world, 1);
    }
    lease_world_over(world);
}

static void test_set_back_at_run_time(void **state)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    uint64_t before_ms = last_ms(world);
    uint64_t until_ms;
    struct snowflake_parts id;

    (void)state;
    node->check.members = 3; /* and its peers are away */
    lease_world_step_clock(node, -5000);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_BACKWARDS);
    lease_world_run(world, TICK_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_BACKWARDS);
    until_ms = lease_world_status(node).wait_until_ms;
    assert_in_range(until_ms, before_ms, before_ms + TICK_MS + 1);
    lease_world_run(world, until_ms - lease_world_wall(node) - 1);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_wait_id(node, TICK_MS + 10, &id), 0);
    assert_true(id.unix_ms > before_ms);
    assert_int_equal(lease_world_status(node).refusal, 0);
    lease_world_over(world);
}

/* Nothing was stamped yet, and the window begins at 0. Until the clock is compared again, claims go
 * by what the slot has. */
static void test_set_back_before_the_first_claim(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(world->range_count, 0);
    lease_world_step_clock(node, -HOUR_MS);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_BACKWARDS);
    lease_world_step_clock(node, HOUR_MS - 1000);
    assert_int_equal(lease_world_wait_id(node, 0, &id), 0); /* a small step is none to mention */
    lease_world_over(world);
}

/* An older disk than the one that stamped: what was reported to the log is kept away from. */
/* Shows P6-clock. */
static void test_restored_disk_and_a_clock_set_back(void **state)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    struct buf old = BUF_INIT;
    uint64_t reported_ms;
    struct snowflake_parts id;

    (void)state;
    buf_put(&old, node->records[0].data, node->records[0].len);
    for (unsigned i = 0; i < 20000; i++) {
        (void)lease_world_id(node);
        lease_world_run(world, 1);
    }
    lease_world_run(world, LEASE_WORLD_RENEW_MS + LEASE_WORLD_SOON_MS);
    reported_ms = lease_world_row(world, node, 0)->last_timestamp_ms;
    assert_int_equal(reported_ms, last_ms(world));
    lease_world_crash(node, false, false);
    buf_free(&node->records[0]);
    buf_move(&node->records[0], &old);
    lease_world_step_clock(node, -10000);
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_status(node).wait_until_ms, reported_ms + 1);
    assert_int_equal(lease_world_wait_id(node, 20000, &id), 0);
    assert_true(id.unix_ms > reported_ms);
    lease_world_over(world);
}

/* As above, but it hears of what was reported only after it began. */
static void test_reported_time_heard_late(void **state)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    struct worker_row row;
    struct snowflake_parts id;

    (void)state;
    node->answers_held = true;
    row = *lease_world_row(world, node, 0);
    row.last_timestamp_ms = world->true_ms + 3000;
    lease_worker_changed(node->lease, &row);
    lease_world_run(world, TICK_MS);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_status(node).wait_until_ms, row.last_timestamp_ms);
    assert_int_equal(lease_world_wait_id(node, 3000 + TICK_MS, &id), 0);
    assert_true(id.unix_ms + LIMIT_CLOCK_BACK_WAIT_MS >= row.last_timestamp_ms);
    lease_world_over(world);
}

/* --- set ahead --- */

static void set_ahead(size_t nodes)
{
    struct lease_world *world = served(nodes);
    struct lease_node *node = &world->nodes[0];
    uint64_t before_ms = world->true_ms;
    struct lease_record record = lease_world_record(node, 0);
    struct snowflake_parts id;
    unsigned proposals;
    unsigned writes;
    int err;

    node->check.members = 3;
    lease_world_step_clock(node, FIFTY_YEARS_MS);
    err = lease_world_wait_id(node, 0, &id);
    assert_true(err == ERR_EMPTY || err == ERR_WINDOW_EXPIRED);
    lease_world_run(world, TICK_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_SKEW);
    proposals = node->proposal_count;
    writes = node->write_count;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_SKEW);
        lease_world_run(world, 100);
    }
    assert_int_equal(node->proposal_count, proposals);
    assert_int_equal(node->write_count, writes);
    assert_int_equal(lease_world_record(node, 0).mark_ms, record.mark_ms);
    lease_world_step_clock(node, -FIFTY_YEARS_MS);
    lease_world_run(world, TICK_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    assert_in_range(id.unix_ms, before_ms, world->true_ms);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_true(lease_world_status(node).window_left_ms >=
                LEASE_WORLD_WINDOW_MS - 2 * LEASE_WORLD_SOON_MS);
    lease_world_over(world);
}

static void test_set_ahead_among_peers(void **state)
{
    (void)state;
    set_ahead(3);
}

/* Nothing but its own monotonic clock tells. */
static void test_set_ahead_without_peers(void **state)
{
    (void)state;
    set_ahead(1);
}

/* Ahead, but within the window: the mark does not follow a clock that is held to be wrong. */
static void test_set_ahead_a_little(void **state)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    struct lease_record record = lease_world_record(node, 0);
    struct snowflake_parts id;

    (void)state;
    node->check.members = 3;
    lease_world_step_clock(node, 20000);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_EMPTY); /* and asks for the mark */
    lease_world_run(world, 5000);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_record(node, 0).mark_ms, record.mark_ms);
    lease_world_step_clock(node, -20000);
    lease_world_run(world, TICK_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    lease_world_over(world);
}

/* Ahead from the start, no peer in sight: the log refuses to renew. Nothing was used up. */
static void test_restart_set_ahead(void **state)
{
    struct lease_world *world = served(3);
    struct lease_node *node = &world->nodes[0];
    struct lease_record record;
    struct snowflake_parts id;

    (void)state;
    world->samples_off = true;
    lease_world_crash(node, false, false);
    lease_world_run(world, CLOCK_SAMPLE_FRESH_MS);
    record = lease_world_record(node, 0);
    lease_world_step_clock(node, FIFTY_YEARS_MS);
    world->clock_mute = true; /* it is not the one who tells the log */
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_EMPTY); /* it asks the others first */
    lease_world_run(world, LEASE_WORLD_LEAD_MS);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_WINDOW_EXPIRED);
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_record(node, 0).mark_ms, record.mark_ms);
    /* Set right, which is another step, and back: nothing but the log and its peers tell it so. */
    world->samples_off = false;
    world->clock_mute = false;
    lease_world_step_clock(node, -FIFTY_YEARS_MS);
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    assert_int_equal(lease_world_status(node).refusal, 0);
    lease_world_over(world);
}

/* Ahead, but within the window that its disk remembers: only the others' clocks can tell, and they
 * are heard before the first id, also by a node that stood still since it asked. */
static void test_restart_hears_the_other_clocks_first(void **state)
{
    struct lease_world *world = served(3);
    struct lease_node *node = &world->nodes[0];
    struct lease_record record = lease_world_record(node, 0);
    struct snowflake_parts id;

    (void)state;
    world->samples_off = true;
    lease_world_crash(node, false, false);
    lease_world_step_clock(node, LEASE_WORLD_WINDOW_MS / 2);
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_LEAD_MS / 2);
    world->true_ms += 2 * LEASE_WORLD_LEAD_MS; /* the machine stands still */
    lease_world_run(world, 0);
    assert_int_equal(lease_world_status(node).refusal, ERR_EMPTY);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_EMPTY);
    world->samples_off = false;
    world->news_ms = world->true_ms;
    lease_world_run(world, LEASE_WORLD_SOON_MS + TICK_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_record(node, 0).mark_ms, record.mark_ms);
    lease_world_over(world);
}

/* An acquire that the log refuses for its time. */
static void test_new_node_set_ahead(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    world->clock_mute = true;
    lease_world_step_clock(node, FIFTY_YEARS_MS);
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_status(node).refusal, ERR_CLOCK_SKEW);
    assert_int_equal(lease_world_status(node).serving, 0);
    assert_null(fsm_worker(world->log, 0));
    lease_world_crash(node, false, false);
    lease_world_step_clock(node, -FIFTY_YEARS_MS);
    lease_world_start(node);
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    lease_world_over(world);
}

/* Within what the log allows, and nobody to ask: it serves, and uses up no more than its window. */
static void test_set_ahead_within_the_window(void **state)
{
    struct lease_world *world = served(1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_crash(node, false, false);
    lease_world_step_clock(node, 20000);
    lease_world_start(node);
    lease_world_run(world, 10);
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    assert_true(id.unix_ms >= world->true_ms + 20000);
    /* Set right over another restart: it waits until its clock is where it was. */
    lease_world_crash(node, false, false);
    lease_world_step_clock(node, -20000);
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, 10, &id), ERR_CLOCK_BACKWARDS);
    assert_int_equal(lease_world_wait_id(node, 22000, &id), 0);
    lease_world_over(world);
}

/* --- the log's time --- */

/* After the cluster stood still its time is late for a moment. That is nobody's clock's fault. */
static void test_log_time_late_after_an_outage(void **state)
{
    struct lease_world *world = served(3);
    struct lease_node *node = &world->nodes[0];

    (void)state;
    world->samples_off = true; /* nobody to confirm the clock */
    world->log_down = true;
    lease_world_run(world, HOUR_MS);
    world->clock_mute = true;
    world->log_down = false;
    lease_world_run(world, 1000);
    assert_int_equal(lease_world_status(node).refusal, ERR_WINDOW_EXPIRED);
    world->clock_mute = false;
    lease_world_run(world, 1000 + 250); /* its time, and the next try */
    assert_int_equal(lease_world_status(node).refusal, 0);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_not_equal(lease_world_status(node).refusal, ERR_CLOCK_SKEW);
        lease_world_run(world, 60);
    }
    assert_int_equal(lease_world_status(node).refusal, 0);
    (void)lease_world_id(node);
    lease_world_over(world);
}

/* The log's time stands still for long: with peers that agree, it is not the clock. */
static void test_log_time_stands(void **state)
{
    for (unsigned samples = 0; samples < 2; samples++) {
        struct lease_world *world = served(3);
        struct lease_node *node = &world->nodes[0];

        (void)state;
        world->samples_off = samples == 0;
        world->clock_mute = true;
        lease_world_run(world, LIMIT_WORKER_AHEAD_MS + 3 * LEASE_WORLD_RENEW_MS);
        assert_true(lease_world_status(node).window_left_ms > 0);
        assert_int_equal(lease_world_status(node).refusal, samples == 0 ? ERR_CLOCK_SKEW : 0);
        world->clock_mute = false;
        lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
        assert_int_equal(lease_world_status(node).refusal, 0);
        (void)lease_world_id(node);
        lease_world_over(world);
    }
}

/* The layout's time is over. */
/* Shows P8-layout. */
static void test_epoch_exhausted(void **state)
{
    struct lease_config config = {
        .workers = 1,
        .window_ms = LEASE_WORLD_WINDOW_MS,
        .renew_ms = LEASE_WORLD_RENEW_MS,
        .mark_lead_ms = LEASE_WORLD_LEAD_MS,
        .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
        .layout = {LEASE_WORLD_START_MS - (1ULL << 39) + 10000, 39, 10, 12}};
    struct lease_world *world = lease_world_new_config(1, &config);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    while (lease_world_wait_id(node, LEASE_WORLD_DISK_MS + 1, &id) == 0) {
        lease_world_run(world, 1);
    }
    assert_int_equal(world->true_ms - LEASE_WORLD_START_MS, 10000 + LEASE_WORLD_DISK_MS + 1);
    assert_int_equal(lease_world_wait_id(node, 0, &id), ERR_EPOCH_EXHAUSTED);
    assert_int_equal(lease_world_status(node).refusal, ERR_EPOCH_EXHAUSTED);
    lease_world_over(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restart_set_back_two_seconds),
        cmocka_unit_test(test_restart_set_back_an_hour),
        cmocka_unit_test(test_restart_set_back_among_peers),
        cmocka_unit_test(test_set_back_a_little_is_waited_for),
        cmocka_unit_test(test_set_back_at_run_time),
        cmocka_unit_test(test_set_back_before_the_first_claim),
        cmocka_unit_test(test_restored_disk_and_a_clock_set_back),
        cmocka_unit_test(test_reported_time_heard_late),
        cmocka_unit_test(test_set_ahead_among_peers),
        cmocka_unit_test(test_set_ahead_without_peers),
        cmocka_unit_test(test_set_ahead_a_little),
        cmocka_unit_test(test_restart_set_ahead),
        cmocka_unit_test(test_restart_hears_the_other_clocks_first),
        cmocka_unit_test(test_new_node_set_ahead),
        cmocka_unit_test(test_set_ahead_within_the_window),
        cmocka_unit_test(test_log_time_late_after_an_outage),
        cmocka_unit_test(test_log_time_stands),
        cmocka_unit_test(test_epoch_exhausted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
