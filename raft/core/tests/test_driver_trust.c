/*
 * test_driver_trust.c - what a peer says and cannot be: numbers that jump, a second leader of a
 * term, votes that nobody asked for. A leader that contradicts what is committed is in
 * test_driver_witness.c.
 *
 * Thread: one.
 *
 * Shows P7-member. */
#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/tests/raft_bench.h"
#include "raft/tests/raft_ring.h"
#include "src/base/hash.h"

#define JUMP LIMIT_PLAUSIBLE_JUMP

static const struct boot FOLLOWER = {
    .id = 1, .term = 5, .last = 10, .last_term = 4, .servers = 3, .roles = THREE_VOTERS};

static struct raft_message timeout_now_of(raft_id from, raft_term term, raft_index last,
                                          raft_term last_term)
{
    struct raft_message message = {.type = RAFT_TIMEOUT_NOW, .server_id = from};

    message.timeout_now = (struct raft_timeout_now){0, term, last, last_term};
    return message;
}

/* The message is refused, an alarm is raised, and nothing is left of it. */
static void expect_disbelieved(struct bench *bench, struct raft_message message)
{
    uint64_t count = bench->driver.trust.alarm.count;
    uint64_t term = bench_term(bench);
    const struct peer_seen *seen;

    assert_false(bench_takes(bench, &message));
    assert_int_equal(bench->driver.trust.alarm.count, count + 1);
    assert_int_equal(bench_term(bench), term);
    assert_int_equal(fake_disk_count(&bench->disk, STORE_HARD_STATE), 0);
    assert_false(bench->driver.transfers.in.active);
    seen = rollback_find(&bench->driver.peers.seen, message.server_id);
    assert_true(seen == NULL || seen->term <= term); /* nor is the peer held to it later */
    assert_int_equal(bench->observer.failed_count, 0);
    if (message.type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&message.install_snapshot.conf);
    }
}

/* --- numbers --- */

/* As it was injected: from here on every node fired an assertion at each start. */
/* Shows P7-member. */
static void test_a_vote_request_at_the_end_of_the_numbers(void **state)
{
    BENCH bench = {0};
    struct store_loaded loaded;
    struct store_error error;

    (void)state;
    bench_start(&bench, &FOLLOWER);
    expect_disbelieved(&bench, vote_of(2, (1ULL << 62) - 1, 10, 4, false));
    bench_run(&bench);
    bench_crash(&bench);
    assert_int_equal(bench.store->ops->load(bench.store, &loaded, NULL, NULL, &error), 0);
    assert_int_equal(loaded.term, 5);
    store_loaded_release(&loaded);
    bench_restart(&bench);
    bench_elect(&bench); /* and it goes on */
}

static void test_no_message_makes_the_term_jump(void **state)
{
    const raft_term beyond = 5 + JUMP + 1;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    expect_disbelieved(&bench, append_of(2, beyond, 10, 4, 0, NULL, 0));
    expect_disbelieved(&bench, append_result_of(2, beyond, 0, 10));
    expect_disbelieved(&bench, vote_of(2, beyond, 10, 4, false));
    expect_disbelieved(&bench, vote_of(2, beyond, 10, 4, true));
    expect_disbelieved(&bench, vote_result_of(2, beyond, false, false));
    expect_disbelieved(&bench, head_of(2, beyond, 11, 5));
    expect_disbelieved(&bench, timeout_now_of(2, beyond, 10, 4));
}

static void test_no_index_jumps(void **state)
{
    const raft_index beyond = 10 + JUMP + 1;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    expect_disbelieved(&bench, append_of(2, 5, beyond, 4, 0, NULL, 0));
    expect_disbelieved(&bench, append_of(2, 5, 10, 4, beyond, NULL, 0));
    expect_disbelieved(&bench, append_result_of(2, 5, beyond, 10));
    expect_disbelieved(&bench, append_result_of(2, 5, 0, beyond));
    expect_disbelieved(&bench, vote_of(2, 6, beyond, 4, false));
    expect_disbelieved(&bench, head_of(2, 5, beyond, 5));
    expect_disbelieved(&bench, timeout_now_of(2, 5, beyond, 4));
}

static void test_what_is_at_the_bound_is_taken(void **state)
{
    struct raft_message vote = vote_of(2, 5 + JUMP, 10 + JUMP, 4, false);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench.clock.now_ms += 2 * BOOT_ELECTION_MS;
    assert_true(bench_takes(&bench, &vote));
    bench_run(&bench);
    assert_int_equal(bench_term(&bench), 5 + JUMP);
    assert_true(bench_sent(&bench, 2, RAFT_REQUEST_VOTE_RESULT, &vote));
    assert_true(vote.request_vote_result.vote_granted);
    assert_int_equal(bench.driver.trust.alarm.count, 0);
}

static void test_a_statement_that_jumps_is_refused(void **state)
{
    RING ring = {0};
    struct driver *driver;
    struct wire_statement said = {.start = {1ULL << 40, 1, 1, 0, 1}};

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    driver = &ring_node(&ring, 1)->replica.driver;
    said.start.term = driver_term(driver) + JUMP + 1;
    assert_int_equal(driver_check_peer(driver, 2, &said, false), ERR_IMPLAUSIBLE);
    said.start.term = 1ULL << 61;
    assert_int_equal(driver_check_peer(driver, 2, &said, false), ERR_IMPLAUSIBLE);
    said.start.term = driver_term(driver);
    said.start.index = driver_last_index(driver) + JUMP + 1;
    assert_int_equal(driver_check_peer(driver, 2, &said, false), ERR_IMPLAUSIBLE);
    assert_int_equal(driver->trust.alarm.count, 3);
    said.start.index--;
    assert_int_equal(driver_check_peer(driver, 2, &said, false), 0);
}

static void test_a_confirmation_that_jumps_is_refused(void **state)
{
    struct wire_confirm confirm = {0, 7};
    RING ring = {0};
    struct replica *replica;

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    replica = &ring_node(&ring, 1)->replica;
    confirm.term = driver_term(&replica->driver) + JUMP + 1;
    for (unsigned i = 0; i < 2; i++) {
        struct buf payload = BUF_INIT;

        wire_confirm_encode(&confirm, &payload);
        assert_false(replica_receive(&replica->peers.receiver, 2,
                                     i == 0 ? FRAME_CONFIRM : FRAME_CONFIRM_ACK, payload.data,
                                     payload.len));
        buf_free(&payload);
    }
    assert_int_equal(replica->driver.trust.alarm.count, 2);
    (void)replica_turn(replica);
    /* what the metric shows */
    assert_int_equal(atomic_load(&ring_node(&ring, 1)->ids.health.seen.implausible), 2);
}

/* --- votes and leaders --- */

static void test_votes_that_nobody_asked_for(void **state)
{
    struct raft_message vote = vote_of(2, 6, 10, 4, false);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    vote.request_vote.candidate_id = 3; /* in another's name */
    expect_disbelieved(&bench, vote);
    expect_disbelieved(&bench, vote_result_of(2, 6, true, false));
    expect_disbelieved(&bench, vote_result_of(2, 7, true, true));
}

static void test_a_term_has_one_leader(void **state)
{
    struct raft_message first = append_of(2, 6, 10, 4, 0, NULL, 0);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &first);
    bench_run(&bench);
    expect_disbelieved(&bench, append_of(3, 6, 10, 4, 0, NULL, 0));
    expect_disbelieved(&bench, head_of(3, 6, 11, 5));
    assert_int_equal(driver_leader(&bench.driver), 2);
    first = append_of(3, 7, 10, 4, 0, NULL, 0); /* the next term may be another's */
    bench_receive(&bench, &first);
    assert_int_equal(driver_leader(&bench.driver), 3);
}

/* The core takes entries, and snapshots, of its own term while it leads, and loses its memory. */
static void test_nobody_else_leads_the_term_that_this_node_leads(void **state)
{
    struct raft_entry entry = entry_of(6, NULL);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_elect(&bench);
    entry.term = bench_term(&bench);
    expect_disbelieved(&bench, append_of(2, entry.term, 10, 4, 11, &entry, 1));
    expect_disbelieved(&bench, head_of(2, entry.term, 20, entry.term));
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
}

/* A head comes while this node follows, and its last chunk when it leads that very term. */
static void test_a_snapshot_whose_term_this_node_leads_meanwhile(void **state)
{
    static const uint8_t rows[8] = {0}; /* the digest of none */
    struct raft_message head = head_of(2, 6, 20, 5);
    const struct wire_chunk chunk = {1, 0, true, rows, sizeof rows};
    struct buf payload = BUF_INIT;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    assert_true(bench_takes(&bench, &head)); /* of a term that it has not heard of yet */
    raft_configuration_close(&head.install_snapshot.conf);
    assert_true(bench.driver.transfers.in.active);
    bench_elect(&bench);
    assert_int_equal(bench_term(&bench), 6);
    wire_chunk_encode(&chunk, &payload);
    assert_false(bench_frame(&bench, 2, FRAME_SNAPSHOT_CHUNK, payload.data, payload.len));
    assert_false(bench.driver.applier.installing);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
    assert_int_equal(bench.driver.trust.alarm.count, 1);
    buf_free(&payload);
}

/* Whatever else stood first in a log, its node could not start again. */
static void test_a_log_begins_with_a_configuration(void **state)
{
    const struct boot joiner = {.id = 1, .servers = 3, .roles = THREE_VOTERS};
    struct raft_entry entry = entry_of(1, NULL);
    struct buf conf = BUF_INIT;
    struct raft_message append;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &joiner);
    expect_disbelieved(&bench, append_of(2, 1, 0, 0, 1, &entry, 1));
    conf_of_roles(THREE_VOTERS, 3, &conf);
    entry = entry_of(1, &conf);
    append = append_of(2, 1, 0, 0, 1, &entry, 1);
    bench_receive(&bench, &append);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 1);
    buf_free(&conf);
}

/* Rows with a right digest that make no state: nothing of them gets to the disk. */
static void test_rows_that_make_no_state_are_not_installed(void **state)
{
    struct raft_message head = head_of(2, 5, 20, 5);
    struct buf stream = BUF_INIT;
    struct buf payload = BUF_INIT;
    struct wire_chunk chunk;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    assert_true(bench_takes(&bench, &head));
    raft_configuration_close(&head.install_snapshot.conf);
    buf_put_u64(&stream, hash_row("tname", 5, "\x63", 1)); /* a tag of version 99 */
    buf_put_str16(&stream, "tname", 5);
    buf_put_str32(&stream, "\x63", 1);
    chunk = (struct wire_chunk){1, 0, true, stream.data, stream.len};
    wire_chunk_encode(&chunk, &payload);
    assert_false(bench_frame(&bench, 2, FRAME_SNAPSHOT_CHUNK, payload.data, payload.len));
    assert_int_equal(fake_disk_count(&bench.disk, STORE_INSTALL), 0);
    assert_false(bench.driver.applier.installing);
    assert_int_equal(bench.driver.trust.alarm.count, 1);
    assert_int_equal(bench.observer.failed_count, 0);
    buf_free(&stream);
    buf_free(&payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_vote_request_at_the_end_of_the_numbers),
        cmocka_unit_test(test_no_message_makes_the_term_jump),
        cmocka_unit_test(test_no_index_jumps),
        cmocka_unit_test(test_what_is_at_the_bound_is_taken),
        cmocka_unit_test(test_a_statement_that_jumps_is_refused),
        cmocka_unit_test(test_a_confirmation_that_jumps_is_refused),
        cmocka_unit_test(test_votes_that_nobody_asked_for),
        cmocka_unit_test(test_a_term_has_one_leader),
        cmocka_unit_test(test_nobody_else_leads_the_term_that_this_node_leads),
        cmocka_unit_test(test_a_snapshot_whose_term_this_node_leads_meanwhile),
        cmocka_unit_test(test_a_log_begins_with_a_configuration),
        cmocka_unit_test(test_rows_that_make_no_state_are_not_installed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
