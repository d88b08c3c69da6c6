/*
 * test_driver.c - the order of things in the driver: term and vote before messages, what counts as
 * persisted, bounds, apply and compaction, handing leadership over, and the end. Guards have tests
 * of their own (test_guard.c), and so has the first start (test_driver_start.c).
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/core/consensus.h"
#include "raft/core/driver.h"
#include "raft/core/tests/raft_bench.h"
#include "src/base/assert.h"

static const struct boot FOLLOWER = {
    .id = 2, .term = 2, .last = 3, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};
static const struct boot FIRST = {
    .id = 1, .term = 1, .last = 1, .last_term = 1, .servers = 3, .roles = THREE_VOTERS};

/* A leader of term 2 whose own first entry (index 2) is committed and applied. */
static void lead(struct bench *bench)
{
    bench_start(bench, &FIRST);
    bench_elect(bench);
    bench_ack(bench, 2);
    bench_run(bench);
    assert_true(driver_leads(&bench->driver));
    fake_net_clear(&bench->net);
}

/* --- term and vote are durable before anything that stands on them leaves --- */

static void test_a_vote_leaves_after_it_is_durable(void **state)
{
    struct raft_message vote = vote_of(1, 3, 9, 2, false);
    struct raft_message reply;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &vote);
    assert_int_equal(bench_term(&bench), 3);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_HARD_STATE), 1);
    assert_int_equal(bench.net.frame_count, 0);
    bench_disk_run(&bench);
    assert_true(bench_sent(&bench, 1, RAFT_REQUEST_VOTE_RESULT, &reply));
    assert_true(reply.request_vote_result.vote_granted);
}

static void test_a_vote_that_was_not_durable_was_never_sent(void **state)
{
    struct raft_message vote = vote_of(1, 3, 9, 2, false);
    struct raft_message reply;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &vote);
    assert_int_equal(bench.net.frame_count, 0);
    bench_crash(&bench); /* nobody has the vote, so it may be given anew */
    bench_restart(&bench);
    assert_int_equal(bench_term(&bench), 2);
    vote.server_id = 3;
    vote.request_vote.candidate_id = 3;
    bench_receive(&bench, &vote);
    bench_run(&bench);
    assert_true(bench_sent(&bench, 3, RAFT_REQUEST_VOTE_RESULT, &reply));
    assert_true(reply.request_vote_result.vote_granted);
}

static void test_a_vote_that_was_sent_outlives_a_crash(void **state)
{
    struct raft_message vote = vote_of(1, 3, 9, 2, false);
    struct raft_message reply;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &vote);
    bench_disk_run(&bench);
    assert_int_equal(bench.net.frame_count, 1);
    bench_crash(&bench);
    bench_restart(&bench);
    assert_int_equal(bench_term(&bench), 3);
    vote.server_id = 3;
    vote.request_vote.candidate_id = 3;
    bench_receive(&bench, &vote);
    bench_run(&bench);
    assert_true(bench_sent(&bench, 3, RAFT_REQUEST_VOTE_RESULT, &reply));
    assert_false(reply.request_vote_result.vote_granted);
}

/* Frames of later steps wait too, and leave in order; each waits only for the write before it. */
static void test_later_frames_wait_behind_the_write(void **state)
{
    struct raft_message vote = vote_of(1, 3, 9, 2, false);
    struct raft_message pre_vote = vote_of(3, 4, 9, 2, true);
    struct raft_message next = vote_of(3, 5, 9, 2, false);
    struct fake_frame *frame;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &vote);     /* writes term 3, and what it knows of its peers */
    bench_receive(&bench, &pre_vote); /* writes nothing, but speaks as a server of term 3 */
    bench_receive(&bench, &next);     /* writes term 5 */
    assert_true(bench_disk_step(&bench));
    assert_int_equal(bench.net.frame_count, 0);
    assert_true(bench_disk_step(&bench));
    assert_int_equal(bench.net.frame_count, 2);
    frame = fake_net_take(&bench.net);
    assert_int_equal(frame->to, 1);
    fake_frame_free(frame);
    frame = fake_net_take(&bench.net);
    assert_int_equal(frame->to, 3);
    fake_frame_free(frame);
    bench_disk_run(&bench);
    assert_int_equal(bench.net.frame_count, 1);
}

static void test_a_candidate_asks_after_its_own_vote_is_durable(void **state)
{
    struct raft_message result = vote_result_of(2, 2, true, true);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FIRST);
    bench_run(&bench);
    bench_timeout(&bench);
    assert_int_equal(driver_state(&bench.driver), DRIVER_CANDIDATE);
    assert_int_equal(bench.net.frame_count, 2); /* pre-votes stand for nothing: at once */
    fake_net_clear(&bench.net);
    bench_receive(&bench, &result);
    assert_int_equal(bench_term(&bench), 2);
    assert_int_equal(bench.net.frame_count, 0);
    bench_disk_run(&bench);
    assert_int_equal(fake_net_count(&bench.net, 2, FRAME_RAFT), 1);
    assert_int_equal(fake_net_count(&bench.net, 3, FRAME_RAFT), 1);
}

/* --- entries count as persisted when their own write is done --- */

static void receive_entries(struct bench *bench, uint64_t from, raft_term term, raft_index prev,
                            raft_term prev_term, raft_term entry_term, unsigned n)
{
    struct raft_entry entries[8];
    struct raft_message message = append_of(from, term, prev, prev_term, 3, entries, n);

    for (unsigned i = 0; i < n; i++) {
        entries[i] = entry_of(entry_term, NULL);
    }
    bench_receive(bench, &message);
}

/* Let the disk go on until an APPEND was written. */
static void finish_append(struct bench *bench)
{
    size_t before = fake_disk_count(&bench->disk, STORE_APPEND);

    while (fake_disk_count(&bench->disk, STORE_APPEND) == before) {
        assert_true(bench_disk_step(bench));
    }
}

static void test_a_follower_acknowledges_what_is_durable(void **state)
{
    struct raft_message reply;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    receive_entries(&bench, 1, 2, 3, 2, 2, 3);
    assert_int_equal(entry_log_last(&bench.driver.log), 6);
    assert_int_equal(bench.driver.persisted, 3);
    assert_false(bench_sent(&bench, 1, RAFT_APPEND_ENTRIES_RESULT, &reply));
    finish_append(&bench);
    assert_int_equal(bench.driver.persisted, 6);
    assert_true(bench_sent(&bench, 1, RAFT_APPEND_ENTRIES_RESULT, &reply));
    assert_int_equal(reply.append_entries_result.last_log_index, 6);
}

/* 4..6 are written; before that ends 5 is replaced by another leader, and then replaced again by
 * the very same index and term: the first write does not make those durable. */
static void test_an_old_write_does_not_count_for_what_was_appended_again(void **state)
{
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    receive_entries(&bench, 1, 2, 3, 2, 2, 3); /* 4, 5, 6 of term 2 */
    receive_entries(&bench, 3, 3, 4, 2, 3, 1); /* 5 of term 3 */
    receive_entries(&bench, 1, 4, 4, 2, 2, 2); /* 5, 6 of term 2 again */
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPEND), 3);
    finish_append(&bench);
    assert_int_equal(bench.driver.persisted, 4);
    assert_int_equal(bench.driver.consensus->raft.last_stored, 4);
    finish_append(&bench);
    assert_int_equal(bench.driver.persisted, 4);
    finish_append(&bench);
    assert_int_equal(bench.driver.persisted, 6);
    assert_int_equal(bench.driver.consensus->raft.last_stored, 6);
}

static void test_cutting_durable_entries_takes_them_back(void **state)
{
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    receive_entries(&bench, 1, 2, 3, 2, 2, 3);
    bench_run(&bench);
    assert_int_equal(bench.driver.persisted, 6);
    receive_entries(&bench, 3, 3, 4, 2, 3, 1);
    assert_int_equal(bench.driver.persisted, 4);
    bench_run(&bench);
    assert_int_equal(bench.driver.persisted, 5);
}

/* The leader need not wait for its own disk when the others have it. */
static void test_two_others_commit_without_the_leaders_disk(void **state)
{
    BENCH bench = {0};

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 3), 0);
    bench_ack(&bench, 2);
    assert_int_equal(bench.driver.commit, 2);
    bench_ack(&bench, 3);
    assert_int_equal(bench.driver.commit, 5);
    assert_int_equal(driver_applied(&bench.driver)->index, 5);
    /* On the disk the rows come behind the log all the same. */
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPEND), 1);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 1);
    bench_run(&bench); /* the store would refuse a state ahead of its log */
}

/* --- submit --- */

static void test_followers_take_no_commands(void **state)
{
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    assert_int_equal(bench_submit(&bench, 1), ERR_NOT_LEADER);
    assert_int_equal(entry_log_last(&bench.driver.log), 3);
}

static void test_uncommitted_entries_up_to_the_limit(void **state)
{
    unsigned left = LIMIT_UNCOMMITTED_ENTRIES;
    BENCH bench = {0};

    (void)state;
    lead(&bench);
    while (left > LIMIT_ENTRIES_PER_FRAME) {
        assert_int_equal(bench_submit(&bench, LIMIT_ENTRIES_PER_FRAME), 0);
        left -= LIMIT_ENTRIES_PER_FRAME;
    }
    assert_int_equal(bench_submit(&bench, left - 1), 0);
    assert_int_equal(bench_submit(&bench, 2), ERR_OVERLOADED); /* one too many */
    assert_int_equal(bench_submit(&bench, 1), 0);              /* exactly at it */
    assert_int_equal(bench_submit(&bench, 1), ERR_OVERLOADED);
    assert_int_equal(entry_log_last(&bench.driver.log), 2 + LIMIT_UNCOMMITTED_ENTRIES);
    bench_run(&bench);
    bench_ack(&bench, 2); /* all is committed: there is room again */
    assert_int_equal(bench_submit(&bench, LIMIT_ENTRIES_PER_FRAME), 0);
}

static int submit_bytes(struct bench *bench, const uint8_t *data, size_t len)
{
    const struct buf command = {.data = (uint8_t *)(uintptr_t)data, .len = len};
    uint64_t index;
    uint64_t term;

    return driver_submit(&bench->driver, &command, 1, &index, &term);
}

static void test_uncommitted_bytes_up_to_the_limit(void **state)
{
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);
    BENCH bench = {0};

    (void)state;
    assert_non_null(data);
    lead(&bench);
    for (unsigned i = 0; i + 1 < LIMIT_UNCOMMITTED_BYTES / LIMIT_ENTRY_BYTES; i++) {
        assert_int_equal(submit_bytes(&bench, data, LIMIT_ENTRY_BYTES), 0);
    }
    assert_int_equal(submit_bytes(&bench, data, LIMIT_ENTRY_BYTES - 1), 0);
    assert_int_equal(submit_bytes(&bench, data, 2), ERR_OVERLOADED);
    assert_int_equal(submit_bytes(&bench, data, 1), 0);
    assert_int_equal(submit_bytes(&bench, data, 1), ERR_OVERLOADED);
    free(data);
}

/* --- apply and compaction --- */

/* The core counts entries only: what does not fit one frame goes in several messages, without a
 * gap. */
/* Server 3 says how much it has, and a turn is taken. */
static void has_up_to(struct bench *bench, uint64_t index)
{
    struct raft_message ack = append_result_of(3, bench_term(bench), 0, index);

    bench_receive(bench, &ack);
}

/* The one message to server 3 that this turn has sent, all of whose entries follow *next; how many
 * it has. 0: there was none. */
static unsigned sent_to_3(struct bench *bench, uint64_t *next)
{
    struct raft_message message;
    unsigned n;

    assert_true(fake_net_count(&bench->net, 3, FRAME_RAFT) <= 1);
    if (!bench_sent(bench, 3, RAFT_APPEND_ENTRIES, &message)) {
        return 0;
    }
    assert_int_equal(message.append_entries.prev_log_index, *next - 1);
    n = message.append_entries.n_entries;
    assert_true(n >= 1); /* no heartbeat comes in between */
    *next += n;
    message_release(&message);
    return n;
}

/* The same in each turn, until none has more. How many messages. */
static unsigned all_to_3(struct bench *bench, uint64_t *next)
{
    unsigned parts = 0;
    bool more = true;

    while (more) {
        parts += sent_to_3(bench, next) > 0;
        more = driver_turn(&bench->driver);
    }
    parts += sent_to_3(bench, next) > 0;
    return parts;
}

/* A leader with so many entries of the largest size, and a small one, that server 3 lacks. */
static void lead_with_large_ones(struct bench *bench, unsigned n, uint64_t *ret_next)
{
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);

    assert_non_null(data);
    lead(bench);
    *ret_next = entry_log_last(&bench->driver.log) + 1;
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(submit_bytes(bench, data, LIMIT_ENTRY_BYTES), 0);
    }
    assert_int_equal(submit_bytes(bench, data, 1), 0);
    free(data);
    bench_disk_run(bench);
    fake_net_clear(&bench->net);
}

/* Four of them, which both followers lack: node 3 has what is before them, and node 2 says so. */
static void lead_with_large_ones_for_both(struct bench *bench)
{
    struct raft_message refusal;
    uint64_t next;

    lead_with_large_ones(bench, 4, &next);
    has_up_to(bench, next - 1);
    refusal = append_result_of(2, bench_term(bench), next, next - 1);
    bench_receive(bench, &refusal);
}

static void test_large_entries_go_a_message_a_turn(void **state)
{
    BENCH bench = {0};
    uint64_t next;

    (void)state;
    lead_with_large_ones(&bench, 3, &next);
    has_up_to(&bench, next - 1); /* it is there, and has none of them */
    assert_int_equal(all_to_3(&bench, &next), 4);
    assert_int_equal(next, entry_log_last(&bench.driver.log) + 1);
}

/* It ends its message, and is not copied into it. */
static void test_a_large_entry_ends_its_message(void **state)
{
    uint8_t *data = calloc(1, 1 << 20);
    BENCH bench = {0};
    uint64_t next;

    (void)state;
    assert_non_null(data);
    lead(&bench);
    next = entry_log_last(&bench.driver.log) + 1;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(submit_bytes(&bench, data, 10), 0);
        assert_int_equal(submit_bytes(&bench, data, 1 << 20), 0);
        assert_int_equal(submit_bytes(&bench, data, 10), 0);
    }
    free(data);
    bench_disk_run(&bench);
    fake_net_clear(&bench.net);
    has_up_to(&bench, next - 1);
    assert_int_equal(all_to_3(&bench, &next), 3); /* of two, of three, of one */
    assert_int_equal(next, entry_log_last(&bench.driver.log) + 1);
}

/* What is submitted meanwhile, and heartbeats, do not overtake what is left. */
static void test_what_comes_meanwhile_goes_behind_large_entries(void **state)
{
    BENCH bench = {0};
    uint64_t next;

    (void)state;
    lead_with_large_ones(&bench, 4, &next);
    has_up_to(&bench, next - 1);
    assert_int_equal(sent_to_3(&bench, &next), 1);
    assert_int_equal(bench_submit(&bench, 3), 0);
    assert_int_equal(sent_to_3(&bench, &next), 0);
    bench_timeout(&bench); /* a heartbeat is due */
    assert_int_equal(sent_to_3(&bench, &next), 1);
    assert_int_equal(all_to_3(&bench, &next), 3);
    assert_int_equal(next, entry_log_last(&bench.driver.log) + 1);
}

/* A follower that refuses is sent what it asks for, and nothing more of before. */
static void test_a_refusal_ends_what_is_left(void **state)
{
    struct raft_message refusal;
    BENCH bench = {0};
    uint64_t next;
    uint64_t first;

    (void)state;
    lead_with_large_ones(&bench, 4, &next);
    first = next;
    has_up_to(&bench, next - 1);
    assert_int_equal(sent_to_3(&bench, &next), 1);
    assert_true(driver_turn(&bench.driver));
    assert_int_equal(sent_to_3(&bench, &next), 1);
    refusal = append_result_of(3, bench_term(&bench), next - 1, first - 1);
    bench_receive(&bench, &refusal); /* the first message was lost */
    next = first;
    assert_int_equal(all_to_3(&bench, &next), 5);
    assert_int_equal(next, entry_log_last(&bench.driver.log) + 1);
}

/* A turn sends one message. Two followers that lack large entries have every other one. */
static void test_followers_take_turns_in_large_entries(void **state)
{
    size_t counts[4] = {0};
    BENCH bench = {0};

    (void)state;
    lead_with_large_ones_for_both(&bench);
    for (unsigned i = 1; i <= 6; i++) {
        fake_net_clear(&bench.net);
        assert_true(driver_turn(&bench.driver));
        counts[2] += fake_net_count(&bench.net, 2, FRAME_RAFT);
        counts[3] += fake_net_count(&bench.net, 3, FRAME_RAFT);
        assert_int_equal(counts[2] + counts[3], i);
        assert_in_range(counts[2], i / 2, (i + 1) / 2);
    }
}

/* What is left waits while a link is full, and for nothing else. */
static void test_large_entries_wait_for_room_in_a_link(void **state)
{
    BENCH bench = {0};

    (void)state;
    lead_with_large_ones_for_both(&bench);
    bench.net.full[2] = true;
    for (unsigned i = 0; i < 2; i++) {
        fake_net_clear(&bench.net);
        (void)driver_turn(&bench.driver);
        assert_int_equal(fake_net_count(&bench.net, 2, FRAME_RAFT), 0);
        assert_int_equal(fake_net_count(&bench.net, 3, FRAME_RAFT), 1);
    }
    bench.net.full[3] = true;
    fake_net_clear(&bench.net);
    assert_false(driver_turn(&bench.driver)); /* the loop may wait */
    assert_int_equal(bench.net.frame_count, 0);
    bench.net.full[2] = false;
    assert_true(driver_turn(&bench.driver));
    assert_int_equal(fake_net_count(&bench.net, 2, FRAME_RAFT), 1);
    assert_int_equal(fake_net_count(&bench.net, 3, FRAME_RAFT), 0);
}

/* Who leads no more sends no more. */
static void test_the_end_of_the_term_ends_what_is_left(void **state)
{
    struct raft_message heartbeat;
    BENCH bench = {0};
    uint64_t next;

    (void)state;
    lead_with_large_ones(&bench, 4, &next);
    has_up_to(&bench, next - 1);
    assert_int_equal(sent_to_3(&bench, &next), 1);
    heartbeat = append_of(2, bench_term(&bench) + 1, 2, 2, 2, NULL, 0);
    bench_receive(&bench, &heartbeat);
    bench_run(&bench);
    assert_int_equal(driver_leader(&bench.driver), 2);
    assert_false(driver_turn(&bench.driver));
    assert_int_equal(fake_net_count(&bench.net, 3, FRAME_RAFT), 0);
}

static void test_apply_goes_on_in_turns(void **state)
{
    BENCH bench = {0};
    unsigned turns = 1;

    (void)state;
    lead(&bench);
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(bench_submit(&bench, 250), 0);
    }
    bench_disk_run(&bench);
    bench_ack(&bench, 2);
    assert_int_equal(bench.driver.commit, 3002);
    assert_true(driver_applied(&bench.driver)->index <
                3002); /* heartbeats must not wait for all of it */
    while (driver_turn(&bench.driver)) {
        turns++;
    }
    assert_int_equal(driver_applied(&bench.driver)->index, 3002);
    assert_int_equal(bench.observer.applied_index, 3002);
    assert_int_equal(bench.observer.applied_count, 3001);
    assert_int_equal(turns, 1);
}

#define APPLIED_MS 2 /* that each entry takes */

static void applied_slowly(struct driver_observer *observer, uint64_t index, uint64_t term,
                           const void *result, size_t len)
{
    (void)index;
    (void)term;
    (void)result;
    (void)len;
    CONTAINER(observer, struct bench, observer.base)->clock.now_ms += APPLIED_MS;
}

/* Small entries may take long: a turn ends with the one that passes its time. */
static void test_a_turn_ends_between_slow_entries(void **state)
{
    BENCH bench = {0};
    uint64_t before;

    (void)state;
    lead(&bench);
    bench.observer.base.applied = applied_slowly;
    assert_int_equal(bench_submit(&bench, 30), 0);
    bench_disk_run(&bench);
    before = driver_applied(&bench.driver)->index;
    bench_ack(&bench, 2);
    while (driver_applied(&bench.driver)->index < entry_log_last(&bench.driver.log)) {
        assert_in_range(driver_applied(&bench.driver)->index - before, 1, 3);
        before = driver_applied(&bench.driver)->index;
        (void)driver_turn(&bench.driver);
    }
}

static void test_the_log_is_compacted_behind_the_durable_state(void **state)
{
    struct bench bench = {.snapshot_entries = 10, .trailing_entries = 4};
    struct store_loaded loaded;

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 18), 0); /* 3..20 */
    bench_disk_run(&bench);
    bench_ack(&bench, 2);
    assert_int_equal(driver_applied(&bench.driver)->index, 20);
    assert_int_equal(bench.driver.applier.durable.index, 2);
    assert_int_equal(bench.driver.log.first, 1); /* applied, but not durable */
    bench_run(&bench);
    assert_int_equal(bench.driver.applier.durable.index, 20);
    assert_int_equal(bench.driver.applier.compacted, 20);
    assert_int_equal(bench.driver.log.first, 17); /* 17..20 stay for those behind */
    bench_crash(&bench);
    assert_int_equal(bench.store->ops->load(bench.store, &loaded, NULL, NULL, NULL), 0);
    assert_int_equal(loaded.first_index, 17);
    assert_int_equal(loaded.position.index, 20);
    store_loaded_release(&loaded);
    bench_restart(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 20);
    assert_int_equal(entry_log_last(&bench.driver.log), 20);
    bench_close(&bench);
}

/* Two writes of rows are on their way; when the first is done, the log may forget no more than that
 * one stands for. */
static void test_compaction_goes_as_far_as_the_rows_are_durable(void **state)
{
    struct bench bench = {.snapshot_entries = 10, .trailing_entries = 4};

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 12), 0); /* 3..14 */
    bench_ack(&bench, 2);
    bench_ack(&bench, 3);
    assert_int_equal(bench_submit(&bench, 10), 0); /* 15..24 */
    bench_ack(&bench, 2);
    bench_ack(&bench, 3);
    assert_int_equal(driver_applied(&bench.driver)->index, 24);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPLY), 2);
    while (fake_disk_count(&bench.disk, STORE_APPLY) == 2) {
        assert_true(bench_disk_step(&bench));
    }
    assert_int_equal(bench.driver.applier.durable.index, 14);
    assert_int_equal(bench.driver.applier.compacted, 14);
    assert_int_equal(bench.driver.log.first, 11);
    bench_close(&bench);
}

/* No change comes any more that would give the occasion, so it is cut at once. */
static void test_a_low_disk_gets_back_what_the_log_holds(void **state)
{
    struct bench bench = {.snapshot_entries = 100000, .trailing_entries = 4};

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 12), 0); /* 3..14 */
    bench_run(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    bench_tick(&bench);
    bench_run(&bench);
    assert_int_equal(bench.driver.applier.durable.index, 14);
    assert_int_equal(bench.driver.log.first, 1);
    bench.disk.low = true;
    bench_tick(&bench);
    assert_int_equal(bench.driver.log.first, 11);
    bench_tick(&bench);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_COMPACT), 1);
    bench_close(&bench);
}

/* It is all that an unborn node has, and knows that it is unborn by. */
static void test_a_low_disk_leaves_the_first_list(void **state)
{
    struct bench bench = {.snapshot_entries = 100000};

    (void)state;
    bench_start(&bench, &FIRST);
    bench.driver.applier.config.trailing_entries = 0;
    bench_run(&bench);
    assert_int_equal(bench.driver.applier.durable.index, 1);
    assert_int_equal(bench.driver.applier.compacted, 0);
    bench.disk.low = true;
    bench_tick(&bench);
    bench_run(&bench);
    assert_int_equal(bench.driver.log.first, 1);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_COMPACT), 0);
    bench_close(&bench);
}

/* Few entries, but large ones: the log in memory has a bound in bytes as well. */
static void test_a_log_of_large_entries_is_compacted_by_its_bytes(void **state)
{
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);
    struct bench bench = {.snapshot_entries = 100000, .trailing_entries = 1000};
    uint64_t most_bytes = 0;

    (void)state;
    assert_non_null(data);
    data[0] = COMMAND_VERSION; /* of a known type, and malformed */
    data[1] = COMMAND_GRANT;
    lead(&bench);
    for (unsigned i = 0; i < 2 * LIMIT_LOG_BYTES / LIMIT_ENTRY_BYTES; i++) {
        assert_int_equal(submit_bytes(&bench, data, LIMIT_ENTRY_BYTES), 0);
        bench_disk_run(&bench);
        bench_ack(&bench, 2);
        bench_run(&bench);
        fake_net_clear(&bench.net);
        most_bytes = bench.driver.log.bytes > most_bytes ? bench.driver.log.bytes : most_bytes;
    }
    assert_true(bench.driver.applier.compacted > 0);
    assert_true(most_bytes >= LIMIT_LOG_BYTES - 2 * LIMIT_ENTRY_BYTES); /* and not sooner */
    assert_true(most_bytes <= LIMIT_LOG_BYTES + LIMIT_ENTRY_BYTES);
    assert_true(bench.driver.log.first + LIMIT_LOG_TRAILING_BYTES / LIMIT_ENTRY_BYTES <=
                bench.driver.applier.compacted + 1);
    free(data);
    bench_close(&bench);
}

static void test_a_short_log_is_kept_whole(void **state)
{
    struct bench bench = {.snapshot_entries = 10, .trailing_entries = 100};

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 18), 0);
    bench_disk_run(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(bench.driver.applier.compacted, 20);
    assert_int_equal(bench.driver.log.first, 1);
    bench_close(&bench);
}

/* --- handing leadership over --- */

static void test_transfer_waits_until_the_successor_has_everything(void **state)
{
    struct raft_message sent;
    BENCH bench = {0};

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 3), 0);
    bench_run(&bench);
    assert_false(driver_transfer(&bench.driver, 0)); /* 2 is at 2, the log at 5 */
    assert_int_equal(raft_transferee(&bench.driver.consensus->raft), 0);
    assert_int_equal(bench_submit(&bench, 1), 0);
    bench_ack(&bench, 2);
    assert_false(driver_transfer(&bench.driver, 0));
    assert_int_equal(raft_transferee(&bench.driver.consensus->raft), 2);
    assert_true(bench_sent(&bench, 2, RAFT_TIMEOUT_NOW, &sent));
    assert_int_equal(sent.timeout_now.last_log_index, 6);
    assert_int_equal(bench_submit(&bench, 1), ERR_NOT_LEADER);
}

static void test_transfer_takes_the_furthest_that_is_connected(void **state)
{
    struct raft_message ack;
    BENCH bench = {0};

    (void)state;
    lead(&bench);
    assert_int_equal(bench_submit(&bench, 3), 0);
    bench_run(&bench);
    bench_ack(&bench, 3);
    ack = append_result_of(2, bench_term(&bench), 0, 4);
    bench_receive(&bench, &ack);
    bench.net.down[3] = true; /* it has all, but it is not there */
    assert_false(driver_transfer(&bench.driver, 0));
    assert_int_equal(raft_transferee(&bench.driver.consensus->raft), 0);
    bench.net.down[3] = false;
    assert_false(driver_transfer(&bench.driver, 0));
    assert_int_equal(raft_transferee(&bench.driver.consensus->raft), 3);
}

static void test_transfer_without_a_successor_is_over(void **state)
{
    BENCH bench = {0};

    (void)state;
    lead(&bench);
    bench.net.down[2] = true;
    bench.net.down[3] = true;
    assert_true(driver_transfer(&bench.driver, 0));
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
}

static void test_transfer_is_over_when_another_leads(void **state)
{
    struct raft_message heartbeat;
    BENCH bench = {0};

    (void)state;
    lead(&bench);
    assert_false(driver_transfer(&bench.driver, 0));
    heartbeat = append_of(2, bench_term(&bench) + 1, 2, 2, 2, NULL, 0);
    bench_receive(&bench, &heartbeat);
    assert_true(driver_transfer(&bench.driver, 0));
    assert_int_equal(driver_leader(&bench.driver), 2);
}

/* The successor does nothing: after an election timeout this leader goes on, and tries again. */
static void test_transfer_is_tried_again(void **state)
{
    struct raft_message sent;
    BENCH bench = {0};
    uint64_t end;

    (void)state;
    lead(&bench);
    assert_false(driver_transfer(&bench.driver, 0));
    assert_true(bench_sent(&bench, 2, RAFT_TIMEOUT_NOW, &sent));
    end = bench.clock.now_ms + BOOT_ELECTION_MS;
    while (bench.clock.now_ms <= end) {
        bench_timeout(&bench);
        bench_ack(&bench, 3);
    }
    assert_int_equal(raft_transferee(&bench.driver.consensus->raft), 0);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
    fake_net_clear(&bench.net);
    bench_ack(&bench, 2);
    assert_false(driver_transfer(&bench.driver, 0));
    assert_int_not_equal(raft_transferee(&bench.driver.consensus->raft), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_vote_leaves_after_it_is_durable),
        cmocka_unit_test(test_a_vote_that_was_not_durable_was_never_sent),
        cmocka_unit_test(test_a_vote_that_was_sent_outlives_a_crash),
        cmocka_unit_test(test_later_frames_wait_behind_the_write),
        cmocka_unit_test(test_a_candidate_asks_after_its_own_vote_is_durable),
        cmocka_unit_test(test_a_follower_acknowledges_what_is_durable),
        cmocka_unit_test(test_an_old_write_does_not_count_for_what_was_appended_again),
        cmocka_unit_test(test_cutting_durable_entries_takes_them_back),
        cmocka_unit_test(test_two_others_commit_without_the_leaders_disk),
        cmocka_unit_test(test_followers_take_no_commands),
        cmocka_unit_test(test_uncommitted_entries_up_to_the_limit),
        cmocka_unit_test(test_uncommitted_bytes_up_to_the_limit),
        cmocka_unit_test(test_large_entries_go_a_message_a_turn),
        cmocka_unit_test(test_a_large_entry_ends_its_message),
        cmocka_unit_test(test_what_comes_meanwhile_goes_behind_large_entries),
        cmocka_unit_test(test_a_refusal_ends_what_is_left),
        cmocka_unit_test(test_followers_take_turns_in_large_entries),
        cmocka_unit_test(test_large_entries_wait_for_room_in_a_link),
        cmocka_unit_test(test_the_end_of_the_term_ends_what_is_left),
        cmocka_unit_test(test_apply_goes_on_in_turns),
        cmocka_unit_test(test_a_turn_ends_between_slow_entries),
        cmocka_unit_test(test_the_log_is_compacted_behind_the_durable_state),
        cmocka_unit_test(test_compaction_goes_as_far_as_the_rows_are_durable),
        cmocka_unit_test(test_a_low_disk_gets_back_what_the_log_holds),
        cmocka_unit_test(test_a_low_disk_leaves_the_first_list),
        cmocka_unit_test(test_a_log_of_large_entries_is_compacted_by_its_bytes),
        cmocka_unit_test(test_a_short_log_is_kept_whole),
        cmocka_unit_test(test_transfer_waits_until_the_successor_has_everything),
        cmocka_unit_test(test_transfer_takes_the_furthest_that_is_connected),
        cmocka_unit_test(test_transfer_without_a_successor_is_over),
        cmocka_unit_test(test_transfer_is_over_when_another_leads),
        cmocka_unit_test(test_transfer_is_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
