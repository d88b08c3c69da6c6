/*
 * test_barrier.c - waiting until all members have applied a change: who is waited for, who is
 * named when it takes too long, and what the wait survives.
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"

#define PATIENCE_MS 3000

struct waited {
    struct asked asked;
    struct missing_members missing;
};

static struct requests *barrier_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica.requests;
}

/* Make a tag through a node, and wait there for all. Returns the entry's index. */
static uint64_t begin(struct ring *ring, uint64_t id, struct waited *waited, uint64_t patience_ms)
{
    struct asked asked;
    uint64_t index;

    asked_put(&asked, "a", 10);
    ask(ring, id, &asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    index = asked.base.index;
    asked_free(&asked);
    asked_everywhere(&waited->asked, index, &waited->missing);
    ask(ring, id, &waited->asked, patience_ms);
    return index;
}

static void expect_missing(const struct waited *waited, int status, uint64_t id, bool reachable)
{
    assert_int_equal(waited->asked.done, 1);
    assert_int_equal(waited->asked.base.status, status);
    assert_int_equal(waited->missing.count, 1);
    assert_int_equal(waited->missing.nodes[0].id, id);
    assert_int_equal(waited->missing.nodes[0].reachable, reachable);
}

static void expect_all(const struct waited *waited)
{
    assert_int_equal(waited->asked.done, 1);
    assert_int_equal(waited->asked.base.status, 0);
}

static void expect_idle(struct ring *ring)
{
    for (uint64_t id = 1; id <= ring->count; id++) {
        if (ring_node(ring, id)->up) {
            assert_int_equal(barrier_of(ring, id)->barrier.count, 0);
            assert_false(timer_is_armed(&barrier_of(ring, id)->barrier.ask_again));
        }
    }
    assert_int_equal(ring->refused, 0);
}

/* --- the happy path --- */

static void answered_by(bool by_leader)
{
    struct waited waited = {0};
    RING ring = {0};
    uint64_t leader;
    uint64_t follower;
    uint64_t index;

    scene_start(&ring, &leader, &follower);
    index = begin(&ring, by_leader ? leader : follower, &waited, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(waited.asked.done, 0); /* the followers have not heard of the commit */
    ring_run_ms(&ring, RING_HEARTBEAT_MS + 25);
    expect_all(&waited);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(driver_applied(&ring_node(&ring, id)->replica.driver)->index >= index);
    }
    expect_idle(&ring);
    asked_free(&waited.asked);
}

static void test_answered_once_all_have_applied_it(void **state)
{
    (void)state;
    answered_by(true);
    answered_by(false);
}

static void test_a_lone_node_is_everybody(void **state)
{
    struct waited waited = {0};
    RING ring = {0};

    (void)state;
    ring_start(&ring, 1);
    (void)ring_elect(&ring);
    (void)begin(&ring, 1, &waited, PATIENCE_MS);
    ring_settle(&ring);
    expect_all(&waited);
    expect_idle(&ring);
    asked_free(&waited.asked);
}

/* Many waits share their questions. */
static void test_all_waits_ask_together(void **state)
{
    struct trio *t = *state;
    struct waited *waited = calloc(100, sizeof *waited);
    size_t passed;

    assert_non_null(waited);
    passed = t->ring.passed[FRAME_APPLIED];
    for (unsigned i = 0; i < 100; i++) {
        uint64_t applied = driver_applied(&ring_node(&t->ring, t->leader)->replica.driver)->index;

        asked_everywhere(&waited[i].asked, applied + 100 - i, &waited[i].missing);
        ask(&t->ring, t->leader, &waited[i].asked, 70);
    }
    ring_run_ms(&t->ring, 100);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(waited[i].asked.done, 1);
        assert_int_equal(waited[i].asked.base.status, ERR_TIMEOUT);
        assert_int_equal(waited[i].missing.count, 3); /* no such entry yet: not even here */
        asked_free(&waited[i].asked);
    }
    /* At 0, 20, 40 and 60 ms two nodes are asked, and answer. */
    assert_int_equal(t->ring.passed[FRAME_APPLIED] - passed, 16);
    expect_idle(&t->ring);
    free(waited);
}

static void test_each_wait_ends_at_its_own_entry(void **state)
{
    struct trio *t = *state;
    struct waited later = {0};
    struct waited first = {0};
    uint64_t applied;

    ring_run_ms(&t->ring, 200);
    applied = driver_applied(&ring_node(&t->ring, t->leader)->replica.driver)->index;
    asked_everywhere(&later.asked, applied + 1, &later.missing);
    ask(&t->ring, t->leader, &later.asked, PATIENCE_MS);
    asked_everywhere(&first.asked, applied, &first.missing);
    ask(&t->ring, t->leader, &first.asked, PATIENCE_MS);
    ring_run_ms(&t->ring, 25);
    expect_all(&first);
    assert_int_equal(later.asked.done, 0);
    ring_make(&t->ring, t->leader, "b", 10);
    ring_run_ms(&t->ring, RING_HEARTBEAT_MS + 25);
    expect_all(&later);
    asked_free(&first.asked);
    asked_free(&later.asked);
}

/* For this node alone: nobody is asked, and a member that hangs is not waited for; beside one that
 * waits for all, each ends at its own. */
static void test_one_that_waits_for_this_node_alone(void **state)
{
    struct trio *t = *state;
    struct driver *driver = &ring_node(&t->ring, t->follower)->replica.driver;
    struct waited local = {0};
    struct waited all = {0};
    uint64_t index = driver_applied(driver)->index + 1;
    size_t passed;

    ring_pause(&t->ring, t->other);
    passed = t->ring.passed[FRAME_APPLIED];
    for (unsigned i = 0; i < 2; i++) { /* the second one's entry never comes */
        asked_everywhere(&local.asked, index + 100 * i, NULL);
        local.asked.base.local = true;
        ask(&t->ring, t->follower, &local.asked, 500);
        ring_run_ms(&t->ring, 100);
        assert_int_equal(local.asked.done, 0);
        ring_make(&t->ring, t->leader, i == 0 ? "b" : "c", 10);
        ring_run_ms(&t->ring, RING_HEARTBEAT_MS + 25);
        assert_int_equal(local.asked.done, i == 0);
        assert_true(driver_applied(driver)->index >= index);
        ring_run_ms(&t->ring, 500);
        assert_int_equal(local.asked.done, 1);
        assert_int_equal(local.asked.base.status, i == 0 ? 0 : ERR_TIMEOUT);
        asked_free(&local.asked);
        memset(&local, 0, sizeof local);
    }
    assert_int_equal(t->ring.passed[FRAME_APPLIED], passed);
    asked_everywhere(&all.asked, index, &all.missing);
    ask(&t->ring, t->follower, &all.asked, 200);
    asked_everywhere(&local.asked, index, NULL);
    local.asked.base.local = true;
    ask(&t->ring, t->follower, &local.asked, 200);
    ring_run_ms(&t->ring, 50);
    expect_all(&local);
    assert_int_equal(all.asked.done, 0);
    ring_run_ms(&t->ring, 200);
    expect_missing(&all, ERR_TIMEOUT, t->other, true);
    ring_resume(&t->ring, t->other);
    expect_idle(&t->ring);
    asked_free(&local.asked);
    asked_free(&all.asked);
}

/* --- who is missing --- */

static void test_a_member_that_hangs_is_named(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    ring_pause(&t->ring, t->other);
    (void)begin(&t->ring, t->follower, &waited, 300);
    ring_run_ms(&t->ring, 290);
    assert_int_equal(waited.asked.done, 0);
    ring_run_ms(&t->ring, 30);
    expect_missing(&waited, ERR_TIMEOUT, t->other, true);
    expect_idle(&t->ring);
    ring_resume(&t->ring, t->other);
    asked_free(&waited.asked);
}

static void test_a_dead_member_is_named(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    ring_crash(&t->ring, t->other);
    (void)begin(&t->ring, t->leader, &waited, 300);
    ring_run_ms(&t->ring, 330);
    expect_missing(&waited, ERR_TIMEOUT, t->other, false);
    expect_idle(&t->ring);
    ring_restart(&t->ring, t->other);
    asked_free(&waited.asked);
    /* The same again, once it is back. */
    (void)begin(&t->ring, t->leader, &waited, PATIENCE_MS);
    ring_run_ms(&t->ring, 500);
    expect_all(&waited);
    asked_free(&waited.asked);
}

/* The node knows the outcome, and then hears nothing more of the leader: neither it nor its log. */
static void test_the_node_that_waits_is_one_of_them(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};
    uint64_t index;

    index = begin(&t->ring, t->follower, &waited, 200);
    t->ring.cut[t->leader][t->follower] = true;
    ring_run_ms(&t->ring, 220);
    assert_int_equal(waited.asked.done, 1);
    assert_int_equal(waited.asked.base.status, ERR_TIMEOUT);
    assert_true(driver_applied(&ring_node(&t->ring, t->follower)->replica.driver)->index < index);
    assert_int_equal(waited.missing.count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_not_equal(waited.missing.nodes[i].id, t->other);
        assert_true(waited.missing.nodes[i].reachable); /* by what this node knows */
    }
    asked_free(&waited.asked);
}

/* --- what it survives --- */

static void test_a_snapshot_counts(void **state)
{
    RING ring = {.snapshot_entries = 10};
    struct waited waited = {0};
    uint64_t leader;
    uint64_t follower;
    uint64_t other;

    (void)state;
    scene_start(&ring, &leader, &follower);
    other = 6 - leader - follower;
    ring_crash(&ring, other);
    (void)begin(&ring, leader, &waited, PATIENCE_MS);
    for (unsigned i = 0; i < 40; i++) {
        ring_make(&ring, leader, "b", 10 + i);
    }
    assert_int_equal(waited.asked.done, 0);
    ring_restart(&ring, other);
    ring_run_ms(&ring, 1000);
    assert_true(ring_node(&ring, other)->installed_count > 0);
    expect_all(&waited);
    asked_free(&waited.asked);
}

static void test_lost_questions_and_answers_are_repeated(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    t->ring.lost[FRAME_APPLIED] = true;
    (void)begin(&t->ring, t->follower, &waited, PATIENCE_MS);
    ring_run_ms(&t->ring, 500);
    assert_int_equal(waited.asked.done, 0);
    t->ring.lost[FRAME_APPLIED] = false;
    ring_run_ms(&t->ring, 25);
    expect_all(&waited);
    asked_free(&waited.asked);
}

static void test_a_change_of_leader_does_not_end_it(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    t->ring.lost[FRAME_APPLIED] = true;
    (void)begin(&t->ring, t->follower, &waited, 5000);
    ring_crash(&t->ring, t->leader);
    ring_run_ms(&t->ring, 2000);
    assert_int_not_equal(ring_elect(&t->ring), t->leader);
    t->ring.lost[FRAME_APPLIED] = false;
    ring_run_ms(&t->ring, 100);
    assert_int_equal(waited.asked.done, 0); /* the old one is a member still */
    ring_restart(&t->ring, t->leader);
    ring_run_ms(&t->ring, 500);
    expect_all(&waited);
    asked_free(&waited.asked);
}

static void test_a_member_that_is_removed_is_waited_for_no_more(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};
    struct asked removal;

    ring_crash(&t->ring, t->other);
    (void)begin(&t->ring, t->follower, &waited, 10000);
    ring_run_ms(&t->ring, 200);
    assert_int_equal(waited.asked.done, 0);
    asked_member(&removal, MEMBER_ASK_REMOVE, t->other, "");
    ask(&t->ring, t->leader, &removal, 5000);
    ring_member_done(&t->ring, &removal);
    ring_run_ms(&t->ring, 200);
    expect_all(&waited);
    expect_idle(&t->ring);
    asked_free(&waited.asked);
}

/* A standby hands out ids, too. */
static void test_a_standby_is_waited_for_as_a_voter_is(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    assert_int_equal(
        driver_change(&replica_of(&t->ring, t->leader)->driver, t->other, NULL, ROLE_STANDBY), 0);
    ring_run_ms(&t->ring, 200);
    assert_int_equal(ring_role(&t->ring, t->leader, t->other), ROLE_STANDBY);
    ring_pause(&t->ring, t->other);
    (void)begin(&t->ring, t->leader, &waited, 300);
    ring_run_ms(&t->ring, 290);
    assert_int_equal(waited.asked.done, 0);
    ring_run_ms(&t->ring, 30);
    expect_missing(&waited, ERR_TIMEOUT, t->other, true);
    asked_free(&waited.asked);
    ring_resume(&t->ring, t->other);
    /* It is asked, and its answer ends the wait. */
    (void)begin(&t->ring, t->leader, &waited, PATIENCE_MS);
    ring_run_ms(&t->ring, 200);
    expect_all(&waited);
    asked_free(&waited.asked);
    /* And one that waits itself. */
    (void)begin(&t->ring, t->other, &waited, PATIENCE_MS);
    ring_run_ms(&t->ring, 200);
    expect_all(&waited);
    expect_idle(&t->ring);
    asked_free(&waited.asked);
}

/* A leader that loses its place loses what it has not committed: the member stays one. */
static void test_a_removal_that_is_not_committed_is_none(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    ring_pause(&t->ring, t->other);
    (void)begin(&t->ring, t->leader, &waited, 10000);
    ring_run_ms(&t->ring, 200); /* the follower has told that it has it */
    ring_isolate(&t->ring, t->leader, true);
    assert_int_equal(
        driver_change(&replica_of(&t->ring, t->leader)->driver, t->other, NULL, ROLE_GONE), 0);
    ring_run_ms(&t->ring, 100);
    assert_int_equal(waited.asked.done, 0);
    ring_isolate(&t->ring, t->leader, false);
    ring_run_ms(&t->ring, 200);
    assert_int_equal(ring_role(&t->ring, t->leader, t->other), ROLE_GONE);
    expect_all(&waited);
    ring_resume(&t->ring, t->other);
    asked_free(&waited.asked);
}

static void test_a_node_that_stops_says_who_is_missing(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};
    struct waited late = {0};

    ring_pause(&t->ring, t->other);
    (void)begin(&t->ring, t->leader, &waited, PATIENCE_MS);
    ring_run_ms(&t->ring, 200); /* the other one has told that it has it */
    replica_stop(&ring_node(&t->ring, t->leader)->replica);
    ring_settle(&t->ring);
    expect_missing(&waited, ERR_SHUTTING_DOWN, t->other, true);
    asked_everywhere(&late.asked, 1, &late.missing);
    ask(&t->ring, t->leader, &late.asked, PATIENCE_MS);
    assert_int_equal(late.asked.done, 1);
    assert_int_equal(late.asked.base.status, ERR_SHUTTING_DOWN);
    ring_resume(&t->ring, t->other);
    asked_free(&waited.asked);
}

/* --- what others say --- */

static void say(struct ring *ring, uint64_t to, uint64_t from, uint64_t index)
{
    const struct wire_applied applied = {true, index};
    struct buf frame = BUF_INIT;

    wire_applied_encode(&applied, &frame);
    assert_true(replica_receive(&ring_node(ring, to)->replica.peers.receiver, from, FRAME_APPLIED,
                                frame.data, frame.len));
    buf_free(&frame);
}

static void test_the_word_of_a_stranger_does_not_count(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    ring_pause(&t->ring, t->other);
    (void)begin(&t->ring, t->leader, &waited, 300);
    for (uint64_t stranger = 100; stranger < 100 + 2 * LIMIT_NODES; stranger++) {
        say(&t->ring, t->leader, stranger, 1ULL << 31);
    }
    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        assert_true(ring_node(&t->ring, t->leader)->replica.peer_rows[i].id < 100);
    }
    ring_run_ms(&t->ring, 200);
    assert_int_equal(waited.asked.done, 0);
    say(&t->ring, t->leader, t->other, 1); /* nor one that says too little */
    ring_run_ms(&t->ring, 150);
    expect_missing(&waited, ERR_TIMEOUT, t->other, true);
    ring_resume(&t->ring, t->other);
    asked_free(&waited.asked);
}

/* Between the last turn and the one that finds the deadline: nobody is missing then. */
static void test_the_last_word_counts_at_the_deadline(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};
    uint64_t index;

    ring_pause(&t->ring, t->other);
    index = begin(&t->ring, t->leader, &waited, 300);
    ring_run_ms(&t->ring, 299);
    assert_int_equal(waited.asked.done, 0);
    say(&t->ring, t->leader, t->other, index);
    t->ring.clock.now_ms++;
    ring_settle(&t->ring);
    expect_all(&waited);
    assert_int_equal(waited.missing.count, 0);
    expect_idle(&t->ring);
    ring_resume(&t->ring, t->other);
    asked_free(&waited.asked);
}

/* What it said before its link broke may have been said in an earlier incarnation. */
static void test_the_word_of_an_incarnation_does_not_count(void **state)
{
    struct trio *t = *state;
    struct waited waited = {0};

    say(&t->ring, t->leader, t->other, 1ULL << 31);
    ring_crash(&t->ring, t->other);
    (void)begin(&t->ring, t->leader, &waited, 300);
    ring_run_ms(&t->ring, 330);
    expect_missing(&waited, ERR_TIMEOUT, t->other, false);
    asked_free(&waited.asked);
}

static void test_malformed_questions_are_refused(void **state)
{
    struct trio *t = *state;
    const uint8_t bad[9] = {2, 1};

    assert_false(replica_receive(&ring_node(&t->ring, t->leader)->replica.peers.receiver,
                                 t->follower, FRAME_APPLIED, bad, sizeof bad));
}

/* --- the bound --- */

static void test_no_more_waits_than_the_limit(void **state)
{
    struct trio *t = *state;
    struct waited *waited = calloc(LIMIT_BARRIER_WAITS + 1, sizeof *waited);

    assert_non_null(waited);
    ring_run_ms(&t->ring, 200);
    ring_crash(&t->ring, t->other);
    for (unsigned i = 0; i <= LIMIT_BARRIER_WAITS; i++) {
        uint64_t applied = driver_applied(&ring_node(&t->ring, t->leader)->replica.driver)->index;

        asked_everywhere(&waited[i].asked, applied, &waited[i].missing);
        ask(&t->ring, t->leader, &waited[i].asked, 200);
        assert_int_equal(waited[i].asked.done, i == LIMIT_BARRIER_WAITS);
    }
    assert_int_equal(waited[LIMIT_BARRIER_WAITS].asked.base.status, ERR_OVERLOADED);
    assert_int_equal(waited[LIMIT_BARRIER_WAITS].missing.count, 2);
    ring_run_ms(&t->ring, 230);
    for (unsigned i = 0; i < LIMIT_BARRIER_WAITS; i++) {
        expect_missing(&waited[i], ERR_TIMEOUT, t->other, false);
        asked_free(&waited[i].asked);
    }
    expect_idle(&t->ring);
    free(waited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answered_once_all_have_applied_it),
        cmocka_unit_test(test_a_lone_node_is_everybody),
        TRIO_TEST(test_all_waits_ask_together),
        TRIO_TEST(test_each_wait_ends_at_its_own_entry),
        TRIO_TEST(test_one_that_waits_for_this_node_alone),
        TRIO_TEST(test_a_member_that_hangs_is_named),
        TRIO_TEST(test_a_dead_member_is_named),
        TRIO_TEST(test_the_node_that_waits_is_one_of_them),
        cmocka_unit_test(test_a_snapshot_counts),
        TRIO_TEST(test_lost_questions_and_answers_are_repeated),
        TRIO_TEST(test_a_change_of_leader_does_not_end_it),
        TRIO_TEST(test_a_member_that_is_removed_is_waited_for_no_more),
        TRIO_TEST(test_a_standby_is_waited_for_as_a_voter_is),
        TRIO_TEST(test_a_removal_that_is_not_committed_is_none),
        TRIO_TEST(test_a_node_that_stops_says_who_is_missing),
        TRIO_TEST(test_the_word_of_a_stranger_does_not_count),
        TRIO_TEST(test_the_last_word_counts_at_the_deadline),
        TRIO_TEST(test_the_word_of_an_incarnation_does_not_count),
        TRIO_TEST(test_malformed_questions_are_refused),
        TRIO_TEST(test_no_more_waits_than_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
