/*
 * test_snapshot_in.c - the receiver of a snapshot: chunks in order, what it refuses, and what
 * happens while one is being installed. The sender is in test_snapshot.c.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/raft_pair.h"
#include "src/base/container.h"
#include "src/id/fsm/fsm.h"

static void test_a_lost_chunk_is_noticed(void **state)
{
    struct pair pair;
    struct wire_chunk_ack ack;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, false); /* head */
    pair_pass(&pair, false); /* first chunk */
    ack = pair_next_ack(&pair.follower);
    assert_false(ack.abort);
    assert_int_equal(ack.offset, pair.follower.driver.transfers.in.stream.len);
    pair_pass(&pair, true);
    pair_pass(&pair, false);
    ack = pair_next_ack(&pair.follower);
    assert_true(ack.abort);
    assert_int_equal(ack.transfer, transfer_out(&pair.leader)->transfer);
    pair_send_ack(&pair.leader, 2, ack.transfer, ack.offset, ack.abort);
    expect_dropped(&pair.leader);
    /* The next try gets through. */
    fake_net_clear(&pair.leader.net);
    snapshot_send(&pair.leader.driver.transfers, 2, 40, pair.leader.driver.applier.durable.index);
    pair_exchange(&pair.leader, &pair.follower);
    assert_int_equal(pair.follower.observer.installed_index, 40);
    pair_close(&pair);
}

static bool receive_chunk(struct bench *bench, uint64_t from, const struct wire_chunk *chunk)
{
    struct buf payload = BUF_INIT;
    bool fine;

    wire_chunk_encode(chunk, &payload);
    fine = bench_frame(bench, from, FRAME_SNAPSHOT_CHUNK, payload.data, payload.len);
    buf_free(&payload);
    return fine;
}

/* A chunk arrives that is not the next one: it is refused, and what was gathered stays as it
 * was. */
static void expect_not_taken(struct bench *follower, const struct wire_chunk *chunk)
{
    const struct snapshot_in *in = &follower->driver.transfers.in;
    struct buf before = BUF_INIT;
    struct wire_chunk_ack ack;

    buf_put(&before, in->stream.data, in->stream.len);
    fake_net_clear(&follower->net);
    assert_true(receive_chunk(follower, 1, chunk));
    ack = pair_next_ack(follower);
    assert_true(ack.abort);
    assert_int_equal(ack.transfer, chunk->transfer);
    assert_int_equal(in->stream.len, before.len);
    if (before.len > 0) {
        assert_memory_equal(in->stream.data, before.data, before.len);
    }
    buf_free(&before);
}

/* Each chunk comes twice, the second time whole, from its middle on, and with a byte that is new;
 * the snapshot that is installed is the leader's all the same. */
static void test_a_chunk_that_comes_again_is_not_taken_twice(void **state)
{
    struct wire_chunk chunk;
    struct wire_chunk part;
    unsigned repeated = 0;
    struct pair pair;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, false); /* head */
    while (pair.leader.net.frame_count > 0) {
        struct fake_frame *frame = fake_net_take(&pair.leader.net);

        assert_int_equal(frame->type, FRAME_SNAPSHOT_CHUNK);
        assert_int_equal(wire_chunk_decode(frame->payload.data, frame->payload.len, &chunk), 0);
        assert_true(receive_chunk(&pair.follower, 1, &chunk));
        assert_false(pair_next_ack(&pair.follower).abort);
        part = (struct wire_chunk){chunk.transfer, chunk.offset + chunk.len / 2, chunk.last,
                                   chunk.data + chunk.len / 2, chunk.len - chunk.len / 2};
        expect_not_taken(&pair.follower, &chunk);
        expect_not_taken(&pair.follower, &part);
        part.offset--; /* so it overlaps by one less than it has */
        expect_not_taken(&pair.follower, &part);
        repeated++;
        fake_frame_free(frame);
    }
    assert_true(repeated >= 3);
    assert_true(pair.follower.driver.applier.installing);
    bench_run(&pair.follower);
    assert_int_equal(pair.follower.observer.installed_index, 40);
    assert_int_equal(fsm_tag_count(fsm_of(pair.follower.state)), PAIR_ROWS);
    assert_int_equal(state_digest(pair.follower.state), state_digest(pair.leader.state));
    pair_close(&pair);
}

/* The head comes once more: the stream begins anew, and nothing of the first part is in it. */
static void test_a_head_that_comes_again_begins_anew(void **state)
{
    const struct snapshot_in *in;
    struct fake_frame *head;
    struct pair pair;

    (void)state;
    pair_start(&pair);
    in = &pair.follower.driver.transfers.in;
    head = fake_net_take(&pair.leader.net);
    assert_true(bench_frame(&pair.follower, 1, head->type, head->payload.data, head->payload.len));
    pair_pass(&pair, false);
    assert_true(in->stream.len > 0);
    (void)pair_next_ack(&pair.follower);
    assert_true(bench_frame(&pair.follower, 1, head->type, head->payload.data, head->payload.len));
    fake_frame_free(head);
    assert_true(in->active);
    assert_int_equal(in->stream.len, 0);
    pair_pass(&pair, false); /* the second chunk */
    assert_true(pair_next_ack(&pair.follower).abort);
    assert_int_equal(in->stream.len, 0);
    pair_close(&pair);
}

static void test_chunks_without_their_head_are_refused(void **state)
{
    struct pair pair;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, true);
    pair_pass(&pair, false);
    assert_true(pair_next_ack(&pair.follower).abort);
    assert_false(pair.follower.driver.transfers.in.active);
    pair_close(&pair);
}

static void test_a_chunk_of_another_peer_is_refused(void **state)
{
    struct fake_frame *frame;
    struct pair pair;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, false);
    frame = fake_net_take(&pair.leader.net);
    assert_true(bench_frame(&pair.follower, 3, FRAME_SNAPSHOT_CHUNK, frame->payload.data,
                            frame->payload.len));
    assert_true(pair_next_ack(&pair.follower).abort);
    assert_true(bench_frame(&pair.follower, 1, FRAME_SNAPSHOT_CHUNK, frame->payload.data,
                            frame->payload.len)); /* that of the right one is welcome */
    assert_false(pair_next_ack(&pair.follower).abort);
    fake_frame_free(frame);
    pair_close(&pair);
}

static void receive_head(struct bench *bench, uint64_t from, raft_term term, uint64_t transfer)
{
    struct raft_message head = head_of(from, term, 60, 3);
    struct buf payload = BUF_INIT;

    message_encode(&head, transfer, &payload);
    assert_true(bench_frame(bench, from, FRAME_RAFT, payload.data, payload.len));
    raft_configuration_close(&head.install_snapshot.conf);
    buf_free(&payload);
}

static void test_a_newer_head_replaces_the_older(void **state)
{
    const struct snapshot_in *in;
    struct pair pair;

    (void)state;
    pair_start(&pair);
    in = &pair.follower.driver.transfers.in;
    pair_pass(&pair, false);
    pair_pass(&pair, false);
    assert_true(in->stream.len > 0);
    (void)pair_next_ack(&pair.follower);
    receive_head(&pair.follower, 3, 7, 99);
    assert_int_equal(in->from, 3);
    assert_int_equal(in->stream.len, 0);
    pair_pass(&pair, false); /* the older's next chunk */
    assert_true(pair_next_ack(&pair.follower).abort);
    receive_head(&pair.follower, 1, 4, 100); /* of an older leader: the newer goes on */
    assert_int_equal(in->transfer, 99);
    pair_close(&pair);
}

/* Each look at the clock shows a slice of the trial to be over. */
static void look_slowly(const struct clock *clock)
{
    CONTAINER(clock, struct fake_clock, base)->now_ms += TRIAL_MS;
}

/* All chunks have come, and most rows are not tried yet. */
static void start_trial(struct pair *pair)
{
    const struct snapshot_in *in = &pair->follower.driver.transfers.in;

    memset(pair, 0, sizeof *pair);
    pair_lead(&pair->leader, 4000, 0);
    bench_disk_run(&pair->leader);
    bench_start(&pair->follower, &PAIR_FOLLOWER);
    pair->follower.clock.base.look = look_slowly;
    while (pair->leader.net.frame_count > 0) {
        pair_pass(pair, false);
    }
    assert_true(in->active && in->whole);
    assert_in_range(fsm_tag_count(fsm_of(pair->follower.driver.trial.state)), 1, 2000);
    fake_net_clear(&pair->follower.net);
}

/* A leader that asks again sooner than the rows are tried: they are tried to the end, and what it
 * sends is refused. If it began anew each time, a large state would never arrive. */
static void test_a_head_that_comes_during_the_trial_changes_nothing(void **state)
{
    const struct wire_chunk chunk = {99, 0, true, (const uint8_t[8]){0}, 8};
    const struct snapshot_in *in;
    struct pair pair;
    size_t tried;

    (void)state;
    start_trial(&pair);
    in = &pair.follower.driver.transfers.in;
    tried = pair.follower.driver.trial.at;
    receive_head(&pair.follower, 1, 4, 99);
    assert_true(in->active && in->whole && in->transfer != 99);
    assert_true(pair.follower.driver.trial.at >= tried);
    assert_true(receive_chunk(&pair.follower, 1, &chunk));
    assert_true(pair_next_ack(&pair.follower).abort);
    bench_run(&pair.follower);
    assert_int_equal(pair.follower.observer.installed_count, 1);
    assert_int_equal(pair.follower.observer.installed_index, 40);
    assert_int_equal(state_digest(pair.follower.state), state_digest(pair.leader.state));
    pair_close(&pair);
}

/* But that of the next leader does: the older one is heard no more. */
static void test_a_newer_head_ends_the_trial(void **state)
{
    const struct snapshot_in *in;
    struct pair pair;

    (void)state;
    start_trial(&pair);
    in = &pair.follower.driver.transfers.in;
    receive_head(&pair.follower, 3, 7, 99);
    assert_true(in->active && !in->whole);
    assert_int_equal(in->transfer, 99);
    assert_int_equal(fsm_tag_count(fsm_of(pair.follower.driver.trial.state)), 0);
    pair_close(&pair);
}

static void test_a_first_chunk_without_a_digest_is_refused(void **state)
{
    const struct wire_chunk chunk = {99, 0, true, (const uint8_t[7]){0}, 7};
    BENCH follower = {0};

    (void)state;
    bench_start(&follower, &PAIR_FOLLOWER);
    receive_head(&follower, 1, 4, 99);
    assert_true(receive_chunk(&follower, 1, &chunk));
    assert_true(pair_next_ack(&follower).abort);
    assert_false(follower.driver.applier.installing);
}

static void test_more_than_a_snapshot_may_have_is_malformed(void **state)
{
    struct wire_chunk chunk = {99, LIMIT_SNAPSHOT_BYTES - 8, false, (const uint8_t[9]){0}, 8};
    BENCH follower = {0};
    struct buf payload = BUF_INIT;

    (void)state;
    bench_start(&follower, &PAIR_FOLLOWER);
    receive_head(&follower, 1, 4, 99);
    assert_true(receive_chunk(&follower, 1, &chunk)); /* at the limit; but out of order */
    assert_true(pair_next_ack(&follower).abort);
    wire_chunk_encode(&chunk, &payload);
    buf_put_u8(&payload, 0); /* one byte beyond */
    assert_false(bench_frame(&follower, 1, FRAME_SNAPSHOT_CHUNK, payload.data, payload.len));
    buf_free(&payload);
}

static void test_a_stream_that_stands_still_is_forgotten(void **state)
{
    struct pair pair;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, false);
    pair_pass(&pair, false);
    pair.follower.clock.now_ms += LIMIT_SNAPSHOT_MS;
    driver_take_events(&pair.follower.driver);
    assert_true(pair.follower.driver.transfers.in.active);
    pair.follower.clock.now_ms += 1;
    driver_take_events(&pair.follower.driver);
    assert_false(pair.follower.driver.transfers.in.active);
    assert_int_equal(pair.follower.driver.transfers.in.stream.len, 0);
    pair_close(&pair);
}

static void test_another_snapshot_during_an_install_is_dropped(void **state)
{
    struct raft_entry entry = entry_of(4, NULL);
    struct raft_message append = append_of(1, 4, 40, 3, 40, &entry, 1);
    const struct wire_chunk chunk = {99, 0, true, (const uint8_t[8]){0}, 8};
    struct pair pair;

    (void)state;
    pair_start(&pair);
    while (pair.leader.net.frame_count > 0) {
        pair_pass(&pair, false);
    }
    assert_true(pair.follower.driver.applier.installing);
    assert_int_equal(entry_log_last(&pair.follower.driver.log), 40);
    receive_head(&pair.follower, 1, 4, 99);
    receive_head(&pair.follower, 3, 7, 99); /* nor one of the next leader: it asks again */
    assert_false(pair.follower.driver.transfers.in.active);
    fake_net_clear(&pair.follower.net);
    assert_true(receive_chunk(&pair.follower, 1, &chunk));
    assert_true(pair_next_ack(&pair.follower).abort);
    assert_int_equal(fake_disk_count(&pair.follower.disk, STORE_INSTALL), 1);
    bench_receive(&pair.follower, &append); /* entries have to wait */
    assert_int_equal(entry_log_last(&pair.follower.driver.log), 40);
    assert_int_equal(pair.follower.observer.installed_count, 0);
    assert_int_equal(driver_applied(&pair.follower.driver)->index,
                     1); /* nothing was applied meanwhile */
    bench_run(&pair.follower);
    assert_int_equal(pair.follower.observer.installed_count, 1);
    bench_receive(&pair.follower, &append);
    assert_int_equal(entry_log_last(&pair.follower.driver.log), 41);
    pair_close(&pair);
}

/* What was on its way to the disk when the install began no longer counts. */
static void test_older_writes_do_not_count_after_an_install(void **state)
{
    struct raft_entry entry = entry_of(3, NULL);
    struct raft_message append = append_of(1, 3, 3, 3, 3, &entry, 1);
    struct pair pair;

    (void)state;
    pair_start(&pair);
    bench_receive(&pair.follower, &append);
    while (pair.leader.net.frame_count > 0) {
        pair_pass(&pair, false);
    }
    assert_true(pair.follower.driver.applier.installing);
    while (fake_disk_count(&pair.follower.disk, STORE_APPEND) > 0) {
        assert_true(bench_disk_step(&pair.follower));
    }
    assert_true(pair.follower.driver.applier.installing);
    assert_int_equal(pair.follower.driver.persisted, 3); /* entry 4 is of a log that is gone */
    while (pair.follower.driver.applier.installing) {
        assert_true(bench_disk_step(&pair.follower));
    }
    assert_int_equal(pair.follower.observer.failed_count, 0);
    assert_int_equal(pair.follower.driver.persisted, 40);
    assert_int_equal(driver_applied(&pair.follower.driver)->index, 40);
    pair_close(&pair);
}

/* A chunk that was damaged on its way, in spite of all checksums, is not given to the disk. */
static void test_damaged_rows_are_not_installed(void **state)
{
    struct fake_frame *frame;
    struct pair pair;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, false);
    pair_pass(&pair, false);
    frame = fake_net_take(&pair.leader.net);
    assert_int_equal(frame->type, FRAME_SNAPSHOT_CHUNK);
    frame->payload.data[frame->payload.len - 1] ^= 1; /* in a description */
    assert_true(
        bench_frame(&pair.follower, 1, frame->type, frame->payload.data, frame->payload.len));
    fake_frame_free(frame);
    while (pair.leader.net.frame_count > 0) {
        fake_net_clear(&pair.follower.net);
        pair_pass(&pair, false);
    }
    assert_false(pair_next_ack(&pair.follower).abort); /* the last chunk came, */
    assert_true(pair_next_ack(&pair.follower).abort);  /* and all of it was refused */
    assert_false(pair.follower.driver.applier.installing);
    assert_false(pair.follower.driver.transfers.in.active);
    assert_int_equal(fake_disk_count(&pair.follower.disk, STORE_INSTALL), 0);
    assert_int_equal(pair.follower.observer.failed_count, 0);
    pair_close(&pair);
}

static void test_malformed_parts_are_told(void **state)
{
    static const uint8_t bytes[3] = {1, 2, 3};
    BENCH follower = {0};

    (void)state;
    bench_start(&follower, &PAIR_FOLLOWER);
    assert_false(bench_frame(&follower, 1, FRAME_SNAPSHOT_CHUNK, bytes, 3));
    assert_false(bench_frame(&follower, 1, FRAME_SNAPSHOT_ACK, bytes, 3));
}

/* A leader that lies may name other members under an index that is known: those of the snapshot
 * are in force. */
static void test_the_members_of_the_snapshot_are_in_force(void **state)
{
    struct boot two = PAIR_FOLLOWER;
    struct pair pair = {0};

    (void)state;
    two.servers = 2;
    pair_lead(&pair.leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_start(&pair.follower, &two);
    assert_int_equal(driver_configuration(&pair.follower.driver)->count, 2);
    pair_exchange(&pair.leader, &pair.follower);
    assert_int_equal(pair.follower.observer.installed_index, 40);
    assert_int_equal(driver_applied_change(&pair.follower.driver), 1);
    assert_int_equal(driver_configuration(&pair.follower.driver)->count, 3);
    assert_int_equal(driver_member(&pair.follower.driver, 3)->role, ROLE_VOTER);
    pair_close(&pair);
}

static void test_a_crash_with_transfers_under_way(void **state)
{
    struct pair pair;

    (void)state;
    pair_start(&pair);
    pair_pass(&pair, false);
    pair_pass(&pair, false);
    snapshot_send(&pair.leader.driver.transfers, 3, 40, pair.leader.driver.applier.durable.index);
    assert_int_equal(snapshot_reads(&pair.leader.driver.transfers), 1);
    bench_crash(&pair.follower);
    bench_crash(&pair.leader);
    bench_restart(&pair.follower);
    bench_restart(&pair.leader);
    assert_int_equal(driver_applied(&pair.follower.driver)->index, 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_chunk_is_noticed),
        cmocka_unit_test(test_a_chunk_that_comes_again_is_not_taken_twice),
        cmocka_unit_test(test_a_head_that_comes_again_begins_anew),
        cmocka_unit_test(test_chunks_without_their_head_are_refused),
        cmocka_unit_test(test_a_chunk_of_another_peer_is_refused),
        cmocka_unit_test(test_a_newer_head_replaces_the_older),
        cmocka_unit_test(test_a_head_that_comes_during_the_trial_changes_nothing),
        cmocka_unit_test(test_a_newer_head_ends_the_trial),
        cmocka_unit_test(test_a_first_chunk_without_a_digest_is_refused),
        cmocka_unit_test(test_more_than_a_snapshot_may_have_is_malformed),
        cmocka_unit_test(test_a_stream_that_stands_still_is_forgotten),
        cmocka_unit_test(test_another_snapshot_during_an_install_is_dropped),
        cmocka_unit_test(test_older_writes_do_not_count_after_an_install),
        cmocka_unit_test(test_damaged_rows_are_not_installed),
        cmocka_unit_test(test_malformed_parts_are_told),
        cmocka_unit_test(test_the_members_of_the_snapshot_are_in_force),
        cmocka_unit_test(test_a_crash_with_transfers_under_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
