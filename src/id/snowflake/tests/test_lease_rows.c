/*
 * test_lease_rows.c - what a lease makes of rows and results that come early, late, twice or not at
 * all: of its own acquire, of an earlier incarnation, of an older epoch, and from a log that was
 * restored from a backup.
 *
 * Thread: one. Time is the world's.
 */
#include <stdio.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/snowflake/tests/lease_world.h"

#define REQUEST_MS 5000 /* deadline of a command */

/* --- rows --- */

static char own_name[LIMIT_WORKER_NAME_BYTES + 1]; /* of the row made last */

/* A row of this name that is held, as the log would have it. */
static struct worker_row own_row(const struct lease_node *node, uint32_t id)
{
    struct worker_row row = {.id = id,
                             .state = WORKER_HELD,
                             .kind = WORKER_NODE,
                             .epoch = 1,
                             .granted_until_ms = node->world->true_ms + LEASE_WORLD_WINDOW_MS,
                             .name = own_name};
    int len = snprintf(own_name, sizeof own_name, "node-%u/%016llx/0", (unsigned)node->id,
                       (unsigned long long)node->store_id);

    row.name_len = (uint16_t)len;
    return row;
}

/* A node that has asked for a worker id, and gets no answer. */
static struct lease_world *asking(struct lease_node **ret_node)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct command read;

    node->answers_held = true;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_non_null(node->requests[0]);
    assert_int_equal(
        command_read(node->requests[0]->payload.data, node->requests[0]->payload.len, &read), 0);
    assert_int_equal(read.type, COMMAND_WORKER_ACQUIRE);
    assert_int_equal(read.acquire.worker_id, WORKER_ID_ANY);
    *ret_node = node;
    return world;
}

/* The row that its own acquire is told is taken; no other is, not even one of its name, which an
 * acquire of an earlier incarnation made. */
static void test_row_of_the_own_acquire(void **state)
{
    struct lease_node *node;
    struct lease_world *world = asking(&node);
    struct worker_row row;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        row = own_row(node, 5);
        row.kind = i == 1 ? WORKER_CLIENT : WORKER_NODE;
        row.state = i == 2 ? WORKER_RELEASED : WORKER_HELD;
        own_name[row.name_len - 1] = i == 3 ? '1' : '0';
        lease_worker_changed(node->lease, &row);
        lease_world_run(world, LEASE_WORLD_SOON_MS);
        assert_int_equal(node->write_count, 0);
    }
    node->lagging = true; /* only the answer tells of it */
    node->answers_held = false;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    assert_int_equal(node->write_count, 1);
    assert_int_equal(lease_world_record(node, 0).worker_id, 0);
    assert_int_equal(lease_world_status(node).serving, 1);
    lease_world_over(world);
}

/* A row of its name is taken without an acquire only where nothing was ever recorded, and nothing
 * reported. */
static void test_row_of_an_incarnation(void **state)
{
    for (unsigned recorded = 0; recorded < 3; recorded++) {
        struct lease_world *world = lease_world_new(1, 1);
        struct lease_node *node = &world->nodes[0];
        struct worker_row row = own_row(node, 5);
        bool taken = recorded == 0;

        (void)state;
        if (recorded == 1) {
            /* What it held before is another's now. */
            struct lease_record record = {9, 1, 0, 2000, 1000};
            struct worker_row other = {.id = 9,
                                       .state = WORKER_HELD,
                                       .kind = WORKER_CLIENT,
                                       .epoch = 2,
                                       .name = "c",
                                       .name_len = 1};
            struct buf bytes = BUF_INIT;

            row_put(&bytes, &lease_record_format, &record);
            assert_int_equal(lease_resume(node->lease, 0, bytes.data, bytes.len), 0);
            lease_worker_changed(node->lease, &other);
            buf_free(&bytes);
        } else if (recorded == 2) {
            row.last_timestamp_ms = 1;
        }
        node->answers_held = true;
        lease_worker_changed(node->lease, &row);
        lease_world_run(world, LEASE_WORLD_SOON_MS);
        assert_int_equal(node->write_count, taken);
        assert_int_equal(node->proposal_count, !taken);
        lease_world_free(world);
    }
}

/* The own state machine lags behind the results: its rows of an older epoch change nothing. */
static void test_older_rows_change_nothing(void **state)
{
    struct lease_world *world = lease_world_served(3, 1);
    struct lease_node *node = &world->nodes[1];
    struct snowflake_parts id = lease_world_id(node);

    (void)state;
    node->lagging = true;
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    id = lease_world_id(node);
    lease_world_release(world, id.worker, id.unix_ms);
    lease_world_run(world, LEASE_WORLD_RENEW_MS + LEASE_WORLD_SOON_MS);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    assert_int_equal(node->snowflake.slot_count, 2);
    (void)lease_world_id(node);
    node->lagging = false;
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(node->snowflake.slot_count, 2);
    (void)lease_world_id(node);
    lease_world_over(world);
}

/* Two records with one worker id: the first one's window had passed, the log gave it to the second,
 * and the node stopped before the first got another. The newer epoch counts. */
static void test_two_records_of_one_worker_id(void **state)
{
    for (unsigned newer = 0; newer < 2; newer++) {
        struct lease_world *world = lease_world_served(1, 2);
        struct lease_node *node = &world->nodes[0];
        struct lease_record old;

        (void)state;
        lease_world_crash(node, false, false);
        old = lease_world_record(node, 1 - newer);
        old.worker_id = lease_world_record(node, newer).worker_id;
        buf_free(&node->records[1 - newer]);
        row_put(&node->records[1 - newer], &lease_record_format, &old);
        old = lease_world_record(node, newer);
        old.epoch++;
        buf_free(&node->records[newer]);
        row_put(&node->records[newer], &lease_record_format, &old);
        world->log_down = true;
        lease_world_start(node);
        lease_world_run(world, LEASE_WORLD_SOON_MS);
        assert_int_equal(lease_world_status(node).serving, 1);
        assert_int_equal(node->snowflake.slot_count, 1); /* the other never stamped */
        assert_int_equal(node->snowflake.slots[0].worker, old.worker_id);
        lease_world_free(world);
    }
}

/* Granted and released again before its answer was heard: nothing of it is used, and another one is
 * asked for. */
static void test_acquired_and_released_unheard(void **state)
{
    struct lease_node *node;
    struct lease_world *world = asking(&node);

    (void)state;
    node->lagging = true;
    node->deaf = true;
    node->answers_held = false;
    lease_world_run(world, REQUEST_MS + LEASE_WORLD_SOON_MS);
    lease_world_release(world, 0, 1);
    node->deaf = false;
    lease_world_settle(world, REQUEST_MS + 2 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(node->snowflake.slot_count, 1);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    lease_world_over(world);
}

/* The answer comes when the window is over already: it is renewed before anything is recorded. */
static void test_row_taken_after_its_window(void **state)
{
    struct lease_node *node;
    struct lease_world *world = asking(&node);

    (void)state;
    node->lagging = true;
    node->deaf = true;
    node->answers_held = false;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    node->answers_held = true;
    lease_world_run(world, LEASE_WORLD_WINDOW_MS + LEASE_WORLD_SOON_MS);
    assert_int_equal(node->write_count, 0);
    node->answers_held = false;
    node->deaf = false;
    lease_world_run(world, 1);
    assert_non_null(node->requests[0]);
    assert_int_equal(command_type(node->requests[0]->payload.data, node->requests[0]->payload.len),
                     COMMAND_WORKER_RENEW);
    assert_int_equal(node->write_count, 0);
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_record(node, 0).epoch, 1);
    lease_world_over(world);
}

/* The disk stands still until the window is over: no time of it is used up, and it is renewed. */
static void test_row_recorded_after_its_window(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    unsigned writes = node->write_count;
    struct lease_record record;

    (void)state;
    node->disk_stuck = true;
    while (node->write_count == writes) { /* of a mark */
        lease_world_run(world, 1);
        (void)lease_world_id(node);
    }
    lease_world_release(world, 0, world->true_ms);
    lease_world_run(world, LEASE_WORLD_WINDOW_MS + LEASE_WORLD_RENEW_MS);
    assert_int_equal(fsm_worker(world->log, 0)->epoch, 2);
    node->answers_held = true;
    node->disk_stuck = false;
    lease_world_run(world, 2 * LEASE_WORLD_DISK_MS);
    record = lease_world_record(node, 0);
    assert_int_equal(record.epoch, 2);
    assert_true(record.mark_ms == record.from_ms);
    node->answers_held = false;
    lease_world_run(world, LEASE_WORLD_SOON_MS);
    (void)lease_world_id(node);
    assert_int_equal(lease_world_record(node, 0).epoch, 2);
    lease_world_over(world);
}

/* --- a log that was restored from a backup, behind what the node holds --- */

/* So many entries are the log up to the first acquire, with it. */
static size_t acquired_at(const struct lease_world *world)
{
    size_t i = 0;
    int type;

    do {
        assert_true(i < world->entry_count);
        type = command_number(world->entries[i].data, world->entries[i].len);
        i++;
    } while (type != COMMAND_WORKER_ACQUIRE);
    return i;
}

enum lost { LOST_ROW, LOST_END, LOST_EPOCH };

static void restored(enum lost lost)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts before;
    struct snowflake_parts after;
    size_t entries = acquired_at(world) - (lost == LOST_ROW);
    const struct worker_row *row;

    world->clock_mute = true;
    lease_world_run(world, 2 * LEASE_WORLD_RENEW_MS);
    before = lease_world_id(node);
    if (lost == LOST_EPOCH) { /* it holds the next one */
        entries = world->entry_count;
        lease_world_release(world, before.worker, before.unix_ms);
        lease_world_run(world, LEASE_WORLD_RENEW_MS + LEASE_WORLD_SOON_MS);
        before = lease_world_id(node);
    }
    lease_world_restore(world, entries);
    row = fsm_worker(world->log, 0);
    assert_int_equal(row != NULL, lost != LOST_ROW);
    assert_int_equal(lost == LOST_END && row->granted_until_ms > before.unix_ms, lost == LOST_END);
    lease_world_run(world, LEASE_WORLD_RENEW_MS + LEASE_WORLD_SOON_MS);
    assert_int_equal(node->snowflake.slot_count, lost == LOST_EPOCH ? 3 : 2);
    /* What was granted before begins anew: above all that this node stamped itself. */
    lease_world_step_clock(node, (int64_t)(before.unix_ms - lease_world_wall(node)));
    assert_int_equal(lease_world_wait_id(node, 2 * LEASE_WORLD_WINDOW_MS, &after), 0);
    assert_true(after.unix_ms > before.unix_ms);
    lease_world_over(world);
}

static void test_log_restored_without_the_row(void **state)
{
    (void)state;
    restored(LOST_ROW);
}

static void test_log_restored_with_an_earlier_end(void **state)
{
    (void)state;
    restored(LOST_END);
}

static void test_log_restored_with_an_earlier_epoch(void **state)
{
    (void)state;
    restored(LOST_EPOCH);
}

/* The same, and the node starts anew: it goes on by its own record, which reaches further than what
 * the log knows, and the log may give the rest to another. */
static void test_log_restored_before_a_restart(void **state)
{
    struct lease_world *world = lease_world_served(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts before;
    struct snowflake_parts after;
    struct lease_record record;

    (void)state;
    world->clock_mute = true;
    lease_world_run(world, LEASE_WORLD_WINDOW_MS); /* the end of its window is written down */
    before = lease_world_id(node);
    lease_world_restore(world, acquired_at(world));
    record = lease_world_record(node, 0);
    assert_true(record.until_ms > fsm_worker(world->log, record.worker_id)->granted_until_ms);
    lease_world_crash(node, true, false); /* before it has heard anything of that */
    lease_world_start(node);
    node->lagging = false; /* it reads what the log has now, which has an earlier end */
    world->clock_mute = false;
    lease_world_run(world, 3 * LEASE_WORLD_RENEW_MS);
    assert_int_equal(node->snowflake.slot_count, 2); /* the first was fenced */
    assert_true(fsm_worker(world->log, record.worker_id)->epoch > record.epoch ||
                lease_world_record(node, 0).worker_id != record.worker_id);
    assert_int_equal(lease_world_wait_id(node, 2 * LEASE_WORLD_WINDOW_MS, &after), 0);
    assert_true(after.unix_ms > before.unix_ms);
    lease_world_over(world);
}

/* No time in the log yet: an acquire is repeated soon. */
static void test_log_without_time(void **state)
{
    struct lease_world *world = lease_world_new(1, 1);
    struct lease_node *node = &world->nodes[0];
    struct snowflake_parts id;

    (void)state;
    lease_world_run(world, 1); /* it knows the layout */
    world->clock_mute = true;
    node->deaf = true;
    lease_world_restore(world, 1);
    lease_world_run(world, REQUEST_MS - 1000); /* the first one was not heard */
    node->deaf = false;
    lease_world_run(world, 10000);
    assert_in_range(node->proposal_count, 30, 50);
    world->clock_mute = false;
    assert_int_equal(lease_world_wait_id(node, 1000 + 250, &id), 0);
    lease_world_over(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_of_the_own_acquire),
        cmocka_unit_test(test_row_of_an_incarnation),
        cmocka_unit_test(test_older_rows_change_nothing),
        cmocka_unit_test(test_two_records_of_one_worker_id),
        cmocka_unit_test(test_acquired_and_released_unheard),
        cmocka_unit_test(test_row_taken_after_its_window),
        cmocka_unit_test(test_row_recorded_after_its_window),
        cmocka_unit_test(test_log_restored_without_the_row),
        cmocka_unit_test(test_log_restored_with_an_earlier_end),
        cmocka_unit_test(test_log_restored_with_an_earlier_epoch),
        cmocka_unit_test(test_log_restored_before_a_restart),
        cmocka_unit_test(test_log_without_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
