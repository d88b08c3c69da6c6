/*
 * test_snapshot.c - transfers of the state: from a leader whose log begins behind what a follower
 * needs, to that follower, chunk by chunk, and everything that can end one at its sender. The
 * receiver is in test_snapshot_in.c.
 *
 * Thread: one.
 */
#include <stdatomic.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/raft_pair.h"
#include "src/id/fsm/fsm.h"

#define WINDOW_BYTES ((uint64_t)LIMIT_SNAPSHOT_WINDOW * LIMIT_SNAPSHOT_CHUNK_BYTES)

/* --- all goes well --- */

static void test_a_follower_gets_the_whole_state(void **state)
{
    BENCH leader = {0};
    struct bench follower = {0};
    uint64_t match;

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_start(&follower, &PAIR_FOLLOWER);
    pair_exchange(&leader, &follower);
    assert_int_equal(follower.observer.installed_count, 1);
    assert_int_equal(follower.observer.installed_index, 40);
    assert_int_equal(follower.observer.failed_count, 0);
    assert_int_equal(fsm_tag_count(fsm_of(follower.state)), PAIR_ROWS);
    assert_true(state_digest(follower.state) == state_digest(leader.state));
    assert_int_equal(follower.driver.applier.durable.index, 40);
    expect_dropped(&leader);
    /* And it goes on with the log: the leader's own first entry. */
    for (unsigned i = 0; i < 5; i++) {
        bench_timeout(&leader);
        pair_exchange(&leader, &follower);
    }
    assert_true(driver_match(&leader.driver, 2, &match));
    assert_int_equal(match, 41);
    assert_int_equal(driver_applied(&follower.driver)->index, 41);
    bench_crash(&follower); /* what was installed is durable */
    bench_restart(&follower);
    assert_int_equal(fsm_tag_count(fsm_of(follower.state)), PAIR_ROWS);
    bench_close(&follower);
}

static void test_an_empty_state_is_a_digest_alone(void **state)
{
    BENCH leader = {0};
    struct bench follower = {0};

    (void)state;
    pair_lead(&leader, 0, 0);
    bench_start(&follower, &PAIR_FOLLOWER);
    pair_exchange(&leader, &follower);
    assert_int_equal(follower.observer.installed_index, 40);
    assert_int_equal(fsm_tag_count(fsm_of(follower.state)), 0);
    expect_dropped(&leader);
    bench_close(&follower);
}

static void test_no_more_than_the_window_is_unacknowledged(void **state)
{
    const struct snapshot_out *out;
    BENCH leader = {0};
    size_t chunks;
    uint64_t sent;

    (void)state;
    pair_lead(&leader, 12000, 0); /* about 3.5 MiB */
    bench_disk_run(&leader);
    out = transfer_out(&leader);
    assert_non_null(out);
    assert_false(out->ended);
    chunks = fake_net_count(&leader.net, 2, FRAME_SNAPSHOT_CHUNK);
    assert_in_range(chunks, LIMIT_SNAPSHOT_WINDOW, LIMIT_SNAPSHOT_WINDOW + 1);
    assert_true(out->sent >= WINDOW_BYTES && out->sent < WINDOW_BYTES + WIRE_CHUNK_BYTES_MAX);
    sent = out->sent;
    pair_send_ack(&leader, 2, out->transfer, sent - WINDOW_BYTES,
                  false); /* the window is full yet */
    assert_int_equal(leader.disk.queued, 0);
    pair_send_ack(&leader, 2, out->transfer, sent - WINDOW_BYTES + 1, false);
    bench_disk_run(&leader);
    assert_int_equal(fake_net_count(&leader.net, 2, FRAME_SNAPSHOT_CHUNK), chunks + 1);
}

static void append_many(struct bench *leader, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(bench_submit(leader, 1), 0);
        bench_run(leader);
        bench_ack(leader, 3);
        bench_run(leader);
    }
}

/* Node 2 is given a snapshot, and 50 entries have come since it was read. Returns the last entry
 * that it stands for; the log began behind it. */
static uint64_t give_one(struct bench *leader)
{
    uint64_t given;

    pair_lead(leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    given = leader->driver.applier.durable.index;
    append_many(leader, 50);
    assert_true(leader->driver.applier.compacted > given + 20);
    assert_non_null(transfer_out(leader));
    assert_int_equal(leader->driver.log.first, given + 1);
    pair_send_ack(leader, 2, transfer_out(leader)->transfer, transfer_out(leader)->sent, false);
    expect_dropped(leader);
    return given;
}

/* A log that grows and is compacted faster than a snapshot travels, or is taken in, would leave the
 * follower without what comes behind it, and so with the next snapshot, for ever. */
static void test_the_log_keeps_what_comes_behind_a_snapshot(void **state)
{
    BENCH leader = {.snapshot_entries = 10, .trailing_entries = 2};
    uint64_t given = give_one(&leader);

    (void)state;
    snapshot_send(&leader.driver.transfers, 3, 40, leader.driver.applier.durable.index);
    bench_disk_run(&leader); /* another peer's changes nothing of it */
    snapshot_end_transfer(&leader.driver.transfers, 3);
    append_many(&leader, 50); /* it has a while to take it in, and to ask for them */
    leader.clock.now_ms += LIMIT_SNAPSHOT_MS - 1;
    append_many(&leader, 20);
    assert_int_equal(leader.driver.log.first, given + 1);
    leader.clock.now_ms += 1;
    append_many(&leader, 20);
    assert_true(leader.driver.log.first > given + 100);
}

/* While it takes in the first, the core asks for the next one again and again: the peer refuses
 * that, and needs what comes behind the first. */
static void test_the_log_keeps_what_comes_behind_the_first_of_two(void **state)
{
    BENCH leader = {.snapshot_entries = 10, .trailing_entries = 2};
    uint64_t given = give_one(&leader);

    (void)state;
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    bench_disk_run(&leader);
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer, 0, true);
    expect_dropped(&leader);
    append_many(&leader, 50);
    assert_int_equal(leader.driver.log.first, given + 1);
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    bench_disk_run(&leader); /* given as well: nobody knows which of them it takes in */
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer, transfer_out(&leader)->sent, false);
    append_many(&leader, 50);
    assert_int_equal(leader.driver.log.first, given + 1);
}

static void test_the_log_keeps_nothing_that_the_peer_has(void **state)
{
    BENCH leader = {.snapshot_entries = 10, .trailing_entries = 2};
    uint64_t given = give_one(&leader);

    (void)state;
    snapshot_reached(&leader.driver.transfers, 2, given + 30, false);
    append_many(&leader, 20);
    assert_int_equal(leader.driver.log.first, given + 30);      /* whose term the core compares */
    snapshot_reached(&leader.driver.transfers, 2, given, true); /* an older word */
    append_many(&leader, 20);
    assert_int_equal(leader.driver.log.first, given + 30);
    snapshot_reached(&leader.driver.transfers, 2, given + 90, true);
    append_many(&leader, 40);
    assert_true(leader.driver.log.first > given + 100);
}

/* Room for changes comes before a peer that would be given another snapshot. */
static void test_a_low_disk_keeps_nothing_of_the_log_for_a_peer(void **state)
{
    BENCH leader = {.snapshot_entries = 10, .trailing_entries = 2};
    uint64_t given = give_one(&leader);

    (void)state;
    leader.disk.low = true;
    bench_tick(&leader);
    assert_true(leader.driver.log.first > given + 40);
}

/* --- what ends a transfer at the sender --- */

static void test_an_abort_ends_it(void **state)
{
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_disk_run(&leader);
    assert_non_null(transfer_out(&leader));
    pair_send_ack(&leader, 3, transfer_out(&leader)->transfer, 0, true);     /* not that peer's */
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer + 1, 0, true); /* nor another's */
    assert_non_null(transfer_out(&leader));
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer, 0, true);
    expect_dropped(&leader);
}

static void test_an_acknowledgement_of_what_was_not_sent_ends_it(void **state)
{
    struct bench leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_disk_run(&leader);
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer, transfer_out(&leader)->sent, false);
    expect_dropped(&leader); /* all of it is there */
    bench_close(&leader);
    memset(&leader, 0, sizeof leader);
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    assert_true(bench_disk_step(&leader)); /* the first chunk */
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer, transfer_out(&leader)->sent + 1,
                  false);
    expect_dropped(&leader);
    bench_close(&leader);
}

static void test_a_broken_link_ends_it(void **state)
{
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    assert_true(bench_disk_step(&leader));
    assert_int_equal(snapshot_reads(&leader.driver.transfers),
                     1); /* the next chunk is being read */
    snapshot_end_transfer(&leader.driver.transfers, 3);
    assert_non_null(transfer_out(&leader));
    snapshot_end_transfer(&leader.driver.transfers, 2);
    expect_dropped(&leader);
    assert_int_equal(fake_net_count(&leader.net, 2, FRAME_SNAPSHOT_CHUNK), 1);
}

static void test_a_send_that_fails_ends_it(void **state)
{
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    leader.net.down[2] = true; /* not told yet */
    bench_disk_run(&leader);
    expect_dropped(&leader);
}

static void test_a_read_that_fails_ends_it(void **state)
{
    struct bench leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    leader.disk.read_status = ERR_OVERLOADED; /* at the opening */
    bench_disk_run(&leader);
    expect_dropped(&leader);
    assert_int_equal(leader.net.frame_count, 0);
    leader.disk.read_status = 0;
    bench_close(&leader);
    memset(&leader, 0, sizeof leader);
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    assert_true(bench_disk_step(&leader));
    leader.disk.read_status = ERR_IO; /* half way */
    assert_true(bench_disk_step(&leader));
    leader.disk.read_status = 0;
    expect_dropped(&leader);
    bench_close(&leader);
}

/* The store needs the room that the view keeps: also of a peer that stands still, and takes no
 * further part. It is begun anew when the core asks again. */
static void test_a_view_that_the_store_ends_ends_it(void **state)
{
    BENCH leader = {0};
    uint64_t transfer;

    (void)state;
    pair_lead(&leader, 12000, 0); /* more than the window */
    bench_disk_run(&leader);
    transfer = transfer_out(&leader)->transfer;
    assert_false(transfer_out(&leader)->ended);
    atomic_store(&transfer_out(&leader)->view.snapshot->ended, true);
    driver_take_events(&leader.driver);
    expect_dropped(&leader);
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    assert_int_equal(transfer_out(&leader)->transfer, transfer + 1);
    bench_disk_run(&leader);
    assert_true(transfer_out(&leader)->sent > 0);
}

/* All of it was read: the peer has it before long. */
static void test_a_view_that_was_read_is_needed_no_more(void **state)
{
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_disk_run(&leader);
    assert_true(transfer_out(&leader)->ended);
    atomic_store(&transfer_out(&leader)->view.snapshot->ended, true);
    driver_take_events(&leader.driver);
    pair_send_ack(&leader, 2, transfer_out(&leader)->transfer, transfer_out(&leader)->sent, false);
    assert_int_equal(leader.driver.transfers.sent, 1);
    expect_dropped(&leader);
}

static void test_a_leader_that_lost_its_place_sends_nothing(void **state)
{
    struct raft_message heartbeat;
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    heartbeat = append_of(3, bench_term(&leader) + 1, 40, 3, 40, NULL, 0);
    bench_receive(&leader, &heartbeat);
    bench_disk_run(&leader);
    assert_int_equal(fake_net_count(&leader.net, 2, FRAME_SNAPSHOT_CHUNK), 0);
    expect_dropped(&leader);
}

static void test_no_progress_for_long_ends_it(void **state)
{
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_disk_run(&leader);
    leader.clock.now_ms += LIMIT_SNAPSHOT_MS;
    driver_take_events(&leader.driver);
    assert_non_null(transfer_out(&leader));
    leader.clock.now_ms += 1;
    driver_take_events(&leader.driver);
    expect_dropped(&leader);
}

/* --- the core asks again --- */

static void test_a_moving_transfer_is_not_begun_again(void **state)
{
    BENCH leader = {0};
    uint64_t transfer;

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    assert_true(bench_disk_step(&leader));
    transfer = transfer_out(&leader)->transfer;
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    leader.clock.now_ms += 2 * BOOT_ELECTION_MS - 1;
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    assert_int_equal(transfer_out(&leader)->transfer, transfer);
    pair_send_ack(&leader, 2, transfer, 1, false); /* it moves: its time begins anew */
    leader.clock.now_ms += 2 * BOOT_ELECTION_MS - 1;
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    assert_int_equal(transfer_out(&leader)->transfer, transfer);
    leader.clock.now_ms += 1; /* and now it stands still for too long */
    snapshot_send(&leader.driver.transfers, 2, 40, leader.driver.applier.durable.index);
    assert_int_equal(transfer_out(&leader)->transfer, transfer + 1);
}

static void test_each_peer_has_a_transfer_of_its_own(void **state)
{
    BENCH leader = {0};

    (void)state;
    pair_lead(&leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    snapshot_send(&leader.driver.transfers, 3, 40, leader.driver.applier.durable.index);
    bench_disk_run(&leader);
    assert_true(fake_net_count(&leader.net, 2, FRAME_SNAPSHOT_CHUNK) > 1);
    assert_int_equal(fake_net_count(&leader.net, 2, FRAME_SNAPSHOT_CHUNK),
                     fake_net_count(&leader.net, 3, FRAME_SNAPSHOT_CHUNK));
    snapshot_end_transfer(&leader.driver.transfers, 2);
    driver_take_events(&leader.driver);
    assert_int_equal(transfer_out(&leader)->peer, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_follower_gets_the_whole_state),
        cmocka_unit_test(test_an_empty_state_is_a_digest_alone),
        cmocka_unit_test(test_no_more_than_the_window_is_unacknowledged),
        cmocka_unit_test(test_the_log_keeps_what_comes_behind_a_snapshot),
        cmocka_unit_test(test_the_log_keeps_what_comes_behind_the_first_of_two),
        cmocka_unit_test(test_the_log_keeps_nothing_that_the_peer_has),
        cmocka_unit_test(test_a_low_disk_keeps_nothing_of_the_log_for_a_peer),
        cmocka_unit_test(test_an_abort_ends_it),
        cmocka_unit_test(test_an_acknowledgement_of_what_was_not_sent_ends_it),
        cmocka_unit_test(test_a_broken_link_ends_it),
        cmocka_unit_test(test_a_send_that_fails_ends_it),
        cmocka_unit_test(test_a_read_that_fails_ends_it),
        cmocka_unit_test(test_a_view_that_the_store_ends_ends_it),
        cmocka_unit_test(test_a_view_that_was_read_is_needed_no_more),
        cmocka_unit_test(test_a_leader_that_lost_its_place_sends_nothing),
        cmocka_unit_test(test_no_progress_for_long_ends_it),
        cmocka_unit_test(test_a_moving_transfer_is_not_begun_again),
        cmocka_unit_test(test_each_peer_has_a_transfer_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
