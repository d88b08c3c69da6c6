/*
 * test_resign.c - a leader that steps down tells the others, and they do not wait for it
 * (leader_watch, consensus.h): one driver on a bench, and whole replicas whose leader hears nobody.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/raft_bench.h"
#include "raft/tests/raft_ring.h"

static const struct boot BOOT = {
    .id = 3, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

/* Server 1 leads term 2, and was heard a while ago. */
static void start_with_leader(struct bench *bench)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);

    bench_start(bench, &BOOT);
    bench->clock.now_ms += 5000;
    bench_receive(bench, &heartbeat);
    assert_int_equal(driver_leader(&bench->driver), 1);
    bench->clock.now_ms += bench->driver.config.heartbeat_ms - 1;
}

static bool resigns(struct bench *bench, uint64_t from, uint64_t term)
{
    struct buf payload = BUF_INIT;
    bool fine;

    wire_resign_encode(&(struct wire_resign){term}, &payload);
    fine = bench_frame(bench, from, FRAME_RESIGN, payload.data, payload.len);
    buf_free(&payload);
    return fine;
}

static bool grants_vote(struct bench *bench)
{
    struct raft_message vote = vote_of(2, 3, 11, 2, false);
    struct raft_message reply;

    bench_receive(bench, &vote);
    bench_disk_run(bench); /* term and vote first */
    assert_true(bench_sent(bench, 2, RAFT_REQUEST_VOTE_RESULT, &reply));
    return reply.request_vote_result.vote_granted;
}

static void test_a_leader_that_resigned_is_no_reason_to_refuse_a_vote(void **state)
{
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    assert_false(grants_vote(&bench));
    assert_true(resigns(&bench, 1, 2));
    driver_peer_refused(&bench.driver, 1); /* a weaker sign that comes later takes nothing back */
    assert_true(grants_vote(&bench));
}

/* Server 2 comes first in the ring behind server 1: 3 gives it a heartbeat's time from now on,
 * however long the last heartbeat is ago. */
static void test_a_resignation_brings_the_own_timeout_forward_in_turn(void **state)
{
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    assert_true(resigns(&bench, 1, 2));
    assert_int_equal(bench.driver.timer.due_ms,
                     bench.clock.now_ms + bench.driver.config.heartbeat_ms);
    bench_timeout(&bench);
    assert_int_equal(driver_state(&bench.driver), DRIVER_CANDIDATE);
}

static void test_a_resignation_of_another_node_or_term_means_nothing(void **state)
{
    BENCH bench = {0};
    uint64_t next_ms;

    (void)state;
    start_with_leader(&bench);
    next_ms = bench.driver.timer.due_ms;
    assert_true(resigns(&bench, 2, 2));
    assert_true(resigns(&bench, 1, 1));
    assert_true(resigns(&bench, 1, 3));
    assert_int_equal(bench.driver.timer.due_ms, next_ms);
    assert_false(grants_vote(&bench));
}

static void test_a_malformed_resignation_is_told(void **state)
{
    static const uint8_t zero[9] = {0};
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    assert_false(bench_frame(&bench, 1, FRAME_RESIGN, zero, 8)); /* term 0 */
    assert_false(bench_frame(&bench, 1, FRAME_RESIGN, "\2\0\0\0\0\0\0\0\0", 9));
    assert_false(bench_frame(&bench, 1, FRAME_RESIGN, "\2\0\0\0\0\0\0", 7));
    assert_false(grants_vote(&bench));
}

static void test_a_leader_heard_after_its_resignation_is_followed_again(void **state)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    assert_true(resigns(&bench, 1, 2));
    bench_receive(&bench, &heartbeat);
    assert_true(bench.driver.timer.due_ms >= bench.clock.now_ms + BOOT_ELECTION_MS);
    bench.clock.now_ms += BOOT_ELECTION_MS - 1;
    assert_false(grants_vote(&bench));
}

/* --- whole replicas --- */

static struct driver *driver_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica.driver;
}

/* What it sends arrives; what the others send to it does not. */
static void make_deaf(struct ring *ring, uint64_t id, bool deaf)
{
    for (uint64_t other = 1; other <= ring->count; other++) {
        ring->cut[other][id] = deaf;
    }
}

/* It steps down after one election timeout, and is followed at once: without its word the others
 * would wait for another one to two timeouts from its last heartbeat on. */
static void test_a_deaf_leader_is_replaced_after_one_election_timeout(void **state)
{
    RING ring = {0};
    uint64_t old;
    uint64_t next;

    (void)state;
    ring_start(&ring, 3);
    old = ring_elect(&ring);
    next = old % 3 + 1;
    ring_run_ms(&ring, 500);
    memset(ring.passed, 0, sizeof ring.passed);
    make_deaf(&ring, old, true);
    ring_run_ms(&ring, RING_ELECTION_MS - 2 * RING_HEARTBEAT_MS);
    assert_int_equal(driver_state(driver_of(&ring, old)), DRIVER_LEADER);
    assert_int_equal(ring.passed[FRAME_RESIGN], 0);
    ring_run_ms(&ring, 5 * RING_HEARTBEAT_MS);
    assert_int_equal(ring.passed[FRAME_RESIGN], 2);
    assert_true(driver_leads(driver_of(&ring, next)));
    assert_int_equal(driver_leader(driver_of(&ring, next % 3 + 1)), next);
    assert_int_not_equal(driver_state(driver_of(&ring, old)), DRIVER_LEADER);
}

/* Nobody can confirm that it leads, and nothing it appends is committed: it says neither yes nor
 * how things stand, before it steps down and after it. */
static void test_a_deaf_leader_answers_nothing_as_a_leader(void **state)
{
    RING ring = {0};
    struct asked put;
    struct asked get;
    struct asked late;
    uint64_t old;
    uint64_t next;

    (void)state;
    ring_start(&ring, 3);
    old = ring_elect(&ring);
    next = old % 3 + 1;
    ring_make(&ring, old, "a", 10);
    make_deaf(&ring, old, true);
    asked_put(&put, "a", 20);
    asked_get(&get, "a");
    asked_get(&late, "a");
    ask(&ring, old, &put, 1500);
    ask(&ring, old, &get, 1500);
    ring_run_ms(&ring, RING_ELECTION_MS + 4 * RING_HEARTBEAT_MS);
    assert_true(driver_leads(driver_of(&ring, next)));
    ring_make(&ring, next, "a", 30);
    ask(&ring, old, &late, 500);
    ring_run_ms(&ring, 1000);
    assert_int_equal(put.done, 1);
    assert_int_equal(get.done, 1);
    assert_int_equal(late.done, 1);
    assert_int_equal(put.base.status, ERR_NO_LEADER);
    assert_int_equal(get.base.status, ERR_NO_LEADER);
    assert_int_equal(late.base.status, ERR_NO_LEADER);
    assert_int_equal(ring_row(&ring, next, "a")->step, 30);
    make_deaf(&ring, old, false);
    assert_int_equal(ring_elect(&ring), next);
    assert_int_equal(ring.refused, 0);
    asked_free(&put);
    asked_free(&get);
    asked_free(&late);
}

/* A newer term has ended the old one, and whoever leads it is heard: there is nothing to say. */
static void test_a_leader_deposed_by_a_newer_term_does_not_resign(void **state)
{
    RING ring = {0};
    uint64_t old;

    (void)state;
    ring_start(&ring, 3);
    old = ring_elect(&ring);
    ring_isolate(&ring, old, true);
    ring_pause(&ring, old); /* it keeps its belief */
    ring_run_ms(&ring, 4 * RING_ELECTION_MS);
    memset(ring.passed, 0, sizeof ring.passed);
    ring_isolate(&ring, old, false);
    ring_resume(&ring, old);
    ring_run_ms(&ring, 2 * RING_HEARTBEAT_MS);
    assert_int_not_equal(ring_elect(&ring), old);
    assert_int_equal(ring.passed[FRAME_RESIGN], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leader_that_resigned_is_no_reason_to_refuse_a_vote),
        cmocka_unit_test(test_a_resignation_brings_the_own_timeout_forward_in_turn),
        cmocka_unit_test(test_a_resignation_of_another_node_or_term_means_nothing),
        cmocka_unit_test(test_a_malformed_resignation_is_told),
        cmocka_unit_test(test_a_leader_heard_after_its_resignation_is_followed_again),
        cmocka_unit_test(test_a_deaf_leader_is_replaced_after_one_election_timeout),
        cmocka_unit_test(test_a_deaf_leader_answers_nothing_as_a_leader),
        cmocka_unit_test(test_a_leader_deposed_by_a_newer_term_does_not_resign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
