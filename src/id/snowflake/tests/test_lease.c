/*
 * test_lease.c - a lease's way from the first acquire to serving, renewals, marks, restarts, and
 * windows that end. test_lease_holders.c has the other holders of worker ids, test_lease_clock.c
 * the clocks, and test_lease_random.c everything at once.
 *
 * Thread: one. Time is the world's.
 */
#include "src/tests/unit/test.h"
#include "src/id/snowflake/tests/lease_world.h"

#define REQUEST_MS 5000 /* deadline of a command */
#define HOUR_MS 3600000

/* --- the record --- */

static void test_record_round_trip(void **state)
{
    const struct lease_record record = {1023, 7, 100, 900, 500};
    struct lease_record read;
    struct buf bytes = BUF_INIT;

    (void)state;
    row_put(&bytes, &lease_record_format, &record);
    assert_true(bytes.len <= LIMIT_LOCAL_RECORD_BYTES);
    assert_int_equal(row_read(bytes.data, bytes.len, &lease_record_format, &read), 0);
    assert_int_equal(read.worker_id, 1023);
    assert_int_equal(read.epoch, 7);
    assert_int_equal(read.from_ms, 100);
    assert_int_equal(read.until_ms, 900);
    assert_int_equal(read.mark_ms, 500);
    buf_free(&bytes);
}

static void test_record_damaged(void **state)
{
    static const struct lease_record bad[] = {
        {LIMIT_WORKER_IDS, 7, 100, 900, 500},
        {5, 0, 100, 900, 500},
        {5, 7, 501, 900, 500},
        {5, 7, 100, 499, 500},
    };
    const struct lease_record record = {5, 7, 100, 900, 500};
    struct lease_world *world = lease_world_new(1, 1);
    struct lease *lease = world->nodes[0].lease;
    struct buf bytes = BUF_INIT;

    (void)state;
    row_put(&bytes, &lease_record_format, &record);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(lease_resume(lease, 0, bytes.data, len), ERR_TRUNCATED);
    }
    buf_put_u8(&bytes, 0);
    assert_int_equal(lease_resume(lease, 0, bytes.data, bytes.len), ERR_CORRUPT);
    bytes.data[0] = 2;
    assert_int_equal(lease_resume(lease, 0, bytes.data, bytes.len - 1), ERR_BAD_VERSION);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bytes.data[0] = lease_record_format.version;
        bytes.len = 1;
        fields_put(&bytes, &lease_record_format.fields, &bad[i]);
        assert_int_equal(lease_resume(lease, 0, bytes.data, bytes.len), ERR_CORRUPT);
    }
    buf_free(&bytes);
    lease_world_free(world);
}

/* Golden bytes: what is on the disks of nodes that are updated. */
static void test_record_bytes(void **state)
{
    static const uint8_t golden[] = {
        0x01,                                           /* version */
        0x02, 0x01,                                     /* worker id */
        0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* epoch */
        0x10, 0x32, 0x54, 0x76, 0x01, 0x00, 0x00, 0x00, /* from */
        0x00, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0x00, 0x00, /* until */
        0x01, 0x68, 0xe5, 0x0f, 0x8b, 0x01, 0x00, 0x00, /* mark */
    };
    const struct lease_record record = {0x102, 7, 0x176543210, 0x18bcfe56800, 0x18b0fe56801};
    struct buf bytes = BUF_INIT;

    (void)state;
    row_put(&bytes, &lease_record_format, &record);
    assert_int_equal(bytes.len, sizeof golden);
    assert_memory_equal(bytes.data, golden, sizeof golden);
    buf_free(&bytes);
}

/* --- the happy path --- */

static void test_acquire_record_serve(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct segment_range range;
    struct snowflake_parts id;
    struct lease_record record;

    (void)state;
    assert_int_equal(lease_world_status(node).refusal, ERR_EMPTY);
    assert_int_equal(lease_world_claim(node, 1, &range), ERR_EMPTY);
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    id = lease_world_id(node);
    assert_int_equal(id.unix_ms, world->true_ms);
    record = lease_world_record(node, 0);
    assert_int_equal(record.worker_id, id.worker);
    assert_int_equal(record.epoch, 1);
    assert_true(record.mark_ms <= world->true_ms + LEASE_WORLD_LEAD_MS);
    assert_string_equal(lease_world_row(world, node, 0)->name, "node-1/0000000100000001/0");
    assert_string_equal(lease_world_row(world, node, 0)->address, "127.0.0.1:8080");
    assert_int_equal(lease_world_row(world, node, 0)->kind, WORKER_NODE);
    assert_int_equal(lease_world_status(node).refusal, 0);
    assert_int_equal(lease_world_status(node).serving, 1);
    assert_in_range(lease_world_status(node).window_left_ms,
                    LEASE_WORLD_WINDOW_MS - LEASE_WORLD_SOON_MS, LEASE_WORLD_WINDOW_MS);
    lease_world_over(world);
}

/* Shows lesson-commit. */
static void test_nothing_before_the_record_is_durable(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct segment_range range;

    (void)state;
    node->disk_stuck = true;
    lease_world_run(world, 3 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(node->write_count, 1);
    assert_int_equal(fsm_worker(world->log, 0)->state, WORKER_HELD);
    assert_int_equal(lease_world_claim(node, 1, &range), ERR_EMPTY);
    assert_int_equal(lease_world_status(node).serving, 0);
    node->disk_stuck = false;
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    (void)lease_world_id(node);
    lease_world_over(world);
}

/* A mark that is not durable yet allows nothing. */
static void test_slow_disk_holds_the_mark(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id = lease_world_id(node);
    struct lease_record record = lease_world_record(node, 0);

    (void)state;
    node->disk_stuck = true;
    while (lease_world_wait_id(node, 0, &id) == 0) {
        assert_true(id.unix_ms <= record.mark_ms);
        lease_world_run(world, 1);
    }
    assert_int_equal(world->true_ms, record.mark_ms + 1);
    assert_int_equal(lease_world_wait_id(node, 5000, &id), ERR_EMPTY);
    node->disk_stuck = false;
    assert_int_equal(lease_world_wait_id(node, 10, &id), 0);
    lease_world_over(world);
}

static void test_renewals(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[1];
    struct snowflake_parts id;
    unsigned proposals = node->proposal_count;

    (void)state;
    lease_world_run(world, 10 * LEASE_WORLD_WINDOW_MS);
    assert_in_range(node->proposal_count - proposals, 195, 201); /* one in renew_ms */
    assert_in_range(lease_world_status(node).window_left_ms,
                    LEASE_WORLD_WINDOW_MS - LEASE_WORLD_RENEW_MS - LEASE_WORLD_SOON_MS,
                    LEASE_WORLD_WINDOW_MS);
    assert_int_equal(lease_world_row(world, node, 0)->last_timestamp_ms, 0);
    id = lease_world_id(node);
    lease_world_run(world, LEASE_WORLD_RENEW_MS + LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_row(world, node, 0)->last_timestamp_ms, id.unix_ms);
    assert_int_equal(lease_world_row(world, node, 0)->epoch, 1);
    lease_world_over(world);
}

/* Idle: no mark is written. Busy: about two a lead. */
static void test_writes(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct segment_range range;
    unsigned writes = node->write_count;

    (void)state;
    lease_world_run(world, LEASE_WORLD_WINDOW_MS / 3);
    assert_int_equal(node->write_count, writes);
    assert_int_equal(lease_world_claim(node, 1, &range), ERR_EMPTY); /* and asks for the mark */
    lease_world_run(world, LEASE_WORLD_DISK_MS);
    assert_int_equal(node->write_count, writes + 1);
    for (unsigned ms = 0; ms < 10000; ms++) { /* and never again */
        assert_int_equal(lease_world_claim(node, 1, &range), 0);
        lease_world_run(world, 1);
    }
    assert_in_range(node->write_count - writes, 15, 21);
    /* Idle for long: the disk learns now and then that the window goes on, but no later mark. */
    lease_world_run(world, 2 * LEASE_WORLD_LEAD_MS);
    range.first = lease_world_record(node, 0).mark_ms;
    writes = node->write_count;
    lease_world_run(world, 10 * LEASE_WORLD_WINDOW_MS);
    assert_in_range(node->write_count - writes, 15, 20);
    assert_int_equal(lease_world_record(node, 0).mark_ms, range.first);
    lease_world_over(world);
}

/* --- restarts --- */

/* With no quorum: at once but for the rest of the mark's lead, and above all that was stamped. */
static void test_restart_without_quorum(void **state)
{
    struct lease_world *world = lease_world_served(3, 2);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts before = lease_world_id(node);
    struct snowflake_parts after;
    uint64_t mark_ms = lease_world_record(node, 0).mark_ms;
    unsigned proposals;

    (void)state;
    mark_ms = lease_world_record(node, 1).mark_ms > mark_ms ? lease_world_record(node, 1).mark_ms
                                                            : mark_ms;
    world->log_down = true;
    lease_world_crash(node, false, false);
    lease_world_start(node);
    proposals = node->proposal_count;
    lease_world_run(world, 5);
    assert_int_equal(lease_world_status(node).serving, 2);
    assert_int_equal(node->proposal_count, proposals + 2);
    assert_int_equal(lease_world_wait_id(node, LEASE_WORLD_LEAD_MS + LEASE_WORLD_SOON_MS, &after),
                     0);
    assert_true(after.unix_ms > before.unix_ms);
    assert_true(after.unix_ms > mark_ms);
    assert_true(world->true_ms <= mark_ms + LEASE_WORLD_DISK_MS + 1);
    assert_int_equal(lease_world_status(node).refusal, 0);
    lease_world_over(world);
}

/* A write that was under way at the crash: lost or not, both are right. */
static void test_restart_amid_a_write(void **state)
{
    for (unsigned survives = 0; survives < 2; survives++) {
        struct lease_world *world = lease_world_served(1, 1);
        struct lease_node *node = &world->nodes[0];
        struct snowflake_parts id = lease_world_id(node);
        unsigned writes = node->write_count;

        (void)state;
        node->disk_stuck = true;
        while (node->write_count == writes) {
            lease_world_run(world, 1);
            id = lease_world_id(node);
        }
        lease_world_crash(node, survives != 0, false);
        lease_world_start(node);
        node->disk_stuck = false;
        assert_int_equal(lease_world_wait_id(node, LEASE_WORLD_LEAD_MS + LEASE_WORLD_SOON_MS, &id),
                         0);
        lease_world_over(world);
    }
}

static void test_idle_node_resumes_without_quorum(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_run(world, HOUR_MS);
    world->log_down = true;
    lease_world_crash(node, false, false);
    lease_world_start(node);
    assert_int_equal(lease_world_wait_id(node, LEASE_WORLD_SOON_MS, &id), 0);
    assert_true(lease_world_status(node).window_left_ms >= LEASE_WORLD_WINDOW_MS / 3);
    lease_world_over(world);
}

/* It crashed between the acquire and its record: nothing was stamped, so it takes the row over. */
static void test_crash_before_the_first_record(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];

    (void)state;
    node->disk_stuck = true;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(fsm_worker(world->log, 0)->epoch, 1);
    lease_world_crash(node, false, false);
    node->disk_stuck = false;
    lease_world_start(node);
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_record(node, 0).epoch, 1);
    lease_world_over(world);
}

/* The answers to renewals are lost, or come late: the row in the own state machine tells. That to
 * an acquire is given again until it is heard. */
static void test_lost_answers(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];

    (void)state;
    node->deaf = true;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(fsm_worker(world->log, 0)->epoch, 1);
    assert_int_equal(lease_world_status(node).serving, 0);
    node->deaf = false;
    lease_world_settle(world, LEASE_WORLD_REPEAT_MS + LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_record(node, 0).epoch, 1);
    node->deaf = true;
    lease_world_run(world, 10 * LEASE_WORLD_WINDOW_MS);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_row(world, node, 0)->epoch, 1);
    /* And when that lags as well, the next renewal's conflict does. */
    node->lagging = true;
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    node->deaf = false;
    lease_world_run(world, 4 * LEASE_WORLD_RENEW_MS);
    assert_true(lease_world_status(node).window_left_ms >
                LEASE_WORLD_WINDOW_MS - 2 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(lease_world_row(world, node, 0)->epoch, 1);
    lease_world_over(world);
}

/* An acquire whose outcome is not known is repeated as the same one, and never given up. */
static void test_acquire_repeated(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    size_t entries;

    (void)state;
    node->deaf = true;
    node->lagging = true;
    /* Without the layout it would not ask. */
    node->lagging = false;
    lease_world_run(world, 1);
    node->lagging = true;
    world->clock_mute = true;
    entries = world->entry_count;
    lease_world_run(world, 2 * REQUEST_MS);
    assert_int_equal(node->proposal_count, 1);
    assert_in_range(world->entry_count - entries, 5, 2 * REQUEST_MS / LEASE_WORLD_REPEAT_MS);
    assert_int_equal(lease_world_status(node).serving, 0);
    world->clock_mute = false;
    node->deaf = false;
    lease_world_settle(world, 2 * REQUEST_MS);
    assert_int_equal(lease_world_record(node, 0).epoch, 1);
    (void)lease_world_id(node);
    lease_world_over(world);
}

/* --- windows --- */

/* Shows lesson-window-end. */
static void test_window_ends_without_quorum(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;
    uint64_t until_ms;

    (void)state;
    until_ms = lease_world_row(world, node, 0)->granted_until_ms;
    world->log_down = true;
    while (world->true_ms + 100 < until_ms) {
        assert_int_equal(lease_world_wait_id(node, 5, &id), 0);
        lease_world_run(world, 97);
    }
    assert_true(lease_world_status(node).window_left_ms <= 100);
    lease_world_run(world, 101);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_WINDOW_EXPIRED);
    assert_int_equal(lease_world_status(node).refusal, ERR_WINDOW_EXPIRED);
    assert_int_equal(lease_world_status(node).window_left_ms, 0);
    assert_true(lease_world_record(node, 0).mark_ms <= until_ms);
    lease_world_crash(node, true, true); /* a restart changes nothing */
    lease_world_start(node);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_wait_id(node, 5, &id), ERR_WINDOW_EXPIRED);
    world->log_down = false;
    lease_world_run(world, 2 * REQUEST_MS);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_row(world, node, 0)->epoch, 1);
    lease_world_over(world);
}

/* The shortest window: it is renewed in time, whatever renew_ms says. */
static void test_shortest_window(void **state)
{
    struct lease_config config = {.workers = 1,
                                  .window_ms = LIMIT_WINDOW_MIN_MS,
                                  .renew_ms = LEASE_WORLD_RENEW_MS,
                                  .mark_lead_ms = LEASE_WORLD_LEAD_MS,
                                  .threshold_ms = LEASE_WORLD_THRESHOLD_MS,
                                  .layout = SNOWFLAKE_LEAF_LAYOUT};
    struct lease_world *world = lease_world_new_config(1, &config);

    (void)state;
    lease_world_settle(world, LEASE_WORLD_SOON_MS);
    for (unsigned ms = 0; ms < 10 * LIMIT_WINDOW_MIN_MS; ms++) {
        (void)lease_world_id(&world->nodes[0]);
        lease_world_run(world, 1);
    }
    lease_world_over(world);
}

/* While it had no quorum its worker id was given to somebody else. */
static void test_expired_and_taken_by_another(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[0];
    uint32_t old = lease_world_record(node, 0).worker_id;

    (void)state;
    (void)lease_world_id(node);
    node->cut = true;
    lease_world_run(world, 2 * LEASE_WORLD_WINDOW_MS);
    assert_int_equal(lease_world_steal(world, WORKER_CLIENT, "client", old), 0);
    node->cut = false;
    lease_world_run(world, 2 * REQUEST_MS);
    (void)lease_world_id(node);
    assert_int_not_equal(lease_world_record(node, 0).worker_id, old);
    lease_world_over(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_round_trip),
        cmocka_unit_test(test_record_damaged),
        cmocka_unit_test(test_record_bytes),
        cmocka_unit_test(test_acquire_record_serve),
        cmocka_unit_test(test_nothing_before_the_record_is_durable),
        cmocka_unit_test(test_slow_disk_holds_the_mark),
        cmocka_unit_test(test_renewals),
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_restart_without_quorum),
        cmocka_unit_test(test_restart_amid_a_write),
        cmocka_unit_test(test_idle_node_resumes_without_quorum),
        cmocka_unit_test(test_crash_before_the_first_record),
        cmocka_unit_test(test_lost_answers),
        cmocka_unit_test(test_acquire_repeated),
        cmocka_unit_test(test_window_ends_without_quorum),
        cmocka_unit_test(test_shortest_window),
        cmocka_unit_test(test_expired_and_taken_by_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
