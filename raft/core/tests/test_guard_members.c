/*
 * test_guard_members.c - the guards G6, G8, G11 and G12 where they matter: replicas of which one
 * was just made a voter, is being removed, or is the only voter beside a standby; and all of G12,
 * which is about nothing else. See test_guard.c.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/core/consensus.h"
#include "raft/core/driver.h"
#include "raft/core/tests/raft_bench.h"
#include "raft/tests/raft_ring.h"

#define PATIENCE_MS 2000
#define STEPS 1000

/*
 * Nodes 1 and 2, and node 3 that was just made a voter: by a configuration that 1 and 2 have, and
 * that it has not. Of the three, two are needed from then on; the leader dies.
 */
static void test_g6_a_promoted_node_that_does_not_know_it_yet_votes(void **state)
{
    RING ring = {.joiners = 1};
    struct membership *membership;
    struct asked wish;
    uint64_t leader;
    uint64_t other;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    other = 3 - leader;
    membership = &ring_node(&ring, leader)->replica.membership;
    ring.lost[FRAME_REQUEST] = true; /* it cannot register, which a voter must have done */
    asked_member(&wish, MEMBER_ASK_ADD, 3, "ring:3");
    ask(&ring, leader, &wish, PATIENCE_MS);
    for (unsigned i = 0; membership->caught_up != 3 && i < STEPS; i++) {
        ring_run_ms(&ring, 5);
    }
    assert_int_equal(membership->caught_up, 3);
    assert_int_equal(ring_role(&ring, leader, 3), RAFT_STANDBY);
    ring.cut[leader][3] = true; /* it is heard, and hears nothing */
    ring.lost[FRAME_REQUEST] = false;
    for (unsigned i = 0; ring_role(&ring, other, 3) != RAFT_VOTER && i < STEPS; i++) {
        ring_run_ms(&ring, 5);
    }
    assert_int_equal(ring_role(&ring, other, 3), RAFT_VOTER);
    assert_int_equal(ring_role(&ring, 3, 3), RAFT_STANDBY);
    ring_crash(&ring, leader);
    asked_free(&wish);
    for (unsigned i = 0; !driver_leads(&ring_node(&ring, other)->replica.driver) && i < STEPS;
         i++) {
        ring_run_ms(&ring, 5);
    }
    assert_true(driver_leads(&ring_node(&ring, other)->replica.driver));
    assert_int_equal(ring_role(&ring, 3, 3), RAFT_VOTER); /* now it has been told */
}

static void expect_timer_ahead(struct ring *ring, const struct driver *driver, unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        ring_run_ms(ring, 1);
        assert_true(driver->timer.due_ms > ring->clock.now_ms);
    }
}

/*
 * The core sends nothing to a spare and waits for its answer: its timer stands still from then on.
 * leafd makes standbys and no spares (a configuration that has one would yet be taken), and removes
 * nodes by way of those: a leader's loop must not spin in either case.
 */
static void test_g8_a_leader_with_a_node_on_its_way_out_has_its_timer_ahead(void **state)
{
    RING ring = {0};
    struct driver *driver;
    struct asked wish;
    uint64_t leader;
    uint64_t dead;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    dead = ring_follower(&ring);
    driver = &ring_node(&ring, leader)->replica.driver;
    ring_crash(&ring, dead);
    assert_int_equal(driver_change(driver, dead, NULL, ROLE_SPARE), 0);
    ring_settle(&ring);
    assert_int_equal(ring_role(&ring, 6 - leader - dead, dead), RAFT_SPARE);
    assert_false(driver_pending_change(driver));
    expect_timer_ahead(&ring, driver, STEPS);
    asked_member(&wish, MEMBER_ASK_REMOVE, dead, "");
    ask(&ring, leader, &wish, PATIENCE_MS);
    expect_timer_ahead(&ring, driver, STEPS);
    ring_member_done(&ring, &wish);
    assert_int_equal(ring_role(&ring, leader, dead), ROLE_GONE);
    assert_true(driver_leads(driver));
}

/*
 * A sole voter with a standby, as on the way from one node to two: what it had sent but not on its
 * disk when it died is replaced by something else, and the standby must not keep the first.
 */
static void test_g11_a_sole_voter_beside_a_standby_never_issues_an_index_twice(void **state)
{
    RING ring = {.joiners = 1};
    const struct driver *driver;
    struct asked wish;
    struct asked lost;
    uint64_t last;

    (void)state;
    ring_start(&ring, 2);
    assert_int_equal(ring_elect(&ring), 1);
    driver = &ring_node(&ring, 2)->replica.driver;
    ring.lost[FRAME_REQUEST] = true; /* it stays a standby */
    asked_member(&wish, MEMBER_ASK_ADD, 2, "ring:2");
    ask(&ring, 1, &wish, PATIENCE_MS);
    ring_run_ms(&ring, 500);
    assert_int_equal(ring_role(&ring, 1, 2), RAFT_STANDBY);
    last = entry_log_last(&driver->log);
    assert_int_equal(last, entry_log_last(&ring_node(&ring, 1)->replica.driver.log));
    ring_node(&ring, 1)->disk_held = true;
    asked_put(&lost, "lost", 10);
    ask(&ring, 1, &lost, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(lost.done, 0);
    assert_true(entry_log_last(&driver->log) > last); /* the standby has it on its disk */
    ring_crash(&ring, 1);
    asked_free(&lost);
    asked_free(&wish);
    ring_restart(&ring, 1);
    assert_int_equal(ring_elect(&ring), 1);
    ring_make(&ring, 1, "kept", 10);
    ring_run_ms(&ring, 500);
    assert_null(ring_row(&ring, 1, "lost"));
    assert_null(ring_row(&ring, 2, "lost"));
    assert_non_null(ring_row(&ring, 2, "kept"));
    assert_true(state_digest(ring_node(&ring, 1)->replica.state) ==
                state_digest(ring_node(&ring, 2)->replica.state));
}

/* --- G12: who is on its way out refuses its vote to those who do not know it --- */

static const int STANDBY_3[3] = {RAFT_VOTER, RAFT_VOTER, RAFT_STANDBY};

/* Server 3 has 10 entries of term 2, and as entry 11 the change that makes it a standby. */
static const struct boot G12_BOOT = {
    .id = 3, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

static void test_g12_what_the_vote_has_to_protect(void **state)
{
    static const struct {
        raft_term term;
        raft_index index;
        bool passes; /* the log being (4, 20), and (3, 15) before the demotion */
    } cases[] = {
        {3, 14, false}, {2, 99, false}, {3, 15, true},  {3, 99, true},
        {4, 16, true},  {4, 19, true},  {4, 20, false}, /* it passes by itself */
        {5, 1, false},
    };
    struct raft_message append = append_of(1, 3, 10, 2, 10, NULL, 0);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct raft_message vote = vote_of(1, 9, cases[i].index, cases[i].term, false);

        assert_int_equal(guard_vote_before_demotion(&vote, 15, 3, 20, 4), cases[i].passes);
        assert_int_equal(vote.request_vote.last_log_index, cases[i].passes ? 20 : cases[i].index);
        assert_int_equal(vote.request_vote.last_log_term, cases[i].passes ? 4 : cases[i].term);
    }
    assert_false(guard_vote_before_demotion(&append, 15, 3, 20, 4));
}

static bool votes_for_log_to(struct bench *bench, raft_term term, raft_index last)
{
    struct raft_message vote = vote_of(2, term, last, 2, false);
    struct raft_message reply;

    bench_receive(bench, &vote);
    bench_disk_run(bench);
    assert_true(bench_sent(bench, 2, RAFT_REQUEST_VOTE_RESULT, &reply));
    return reply.request_vote_result.vote_granted;
}

static void test_g12_driver_votes_for_a_log_without_its_demotion(void **state)
{
    struct raft_entry entries[2];
    struct raft_message append = append_of(1, 2, 10, 2, 10, entries, 2);
    struct buf conf = BUF_INIT;
    struct bench bench = {0};

    (void)state;
    conf_of_roles(STANDBY_3, 3, &conf);
    entries[0] = entry_of(2, &conf);
    entries[1] = entry_of(2, NULL);
    bench_start(&bench, &G12_BOOT);
    bench_receive(&bench, &append);
    bench_run(&bench);
    assert_int_equal(entry_log_last(&bench.driver.log), 12);
    assert_int_equal(driver_pending_change(&bench.driver), 11);
    assert_int_equal(driver_member(&bench.driver, bench.id)->role, ROLE_STANDBY);
    bench.clock.now_ms += 5000;
    assert_false(votes_for_log_to(&bench, 3, 9)); /* lacks what it acknowledged as a voter */
    assert_true(votes_for_log_to(&bench, 4, 10));
    assert_int_equal(raft_voted_for(&bench.driver.consensus->raft), 2);
    /* Once the change is committed, who lacks it is not needed for anything. */
    append = append_of(2, 4, 12, 2, 12, NULL, 0);
    bench_receive(&bench, &append);
    bench_run(&bench);
    assert_int_equal(driver_pending_change(&bench.driver), 0);
    bench.clock.now_ms += 5000;
    assert_false(votes_for_log_to(&bench, 5, 11));
    bench_close(&bench);
    buf_free(&conf);
}

/*
 * One of two voters is on its way out and knows it; the leader died before its own disk did, and
 * comes back without that entry. It needs the vote of the other, whose log is longer, and who does
 * not campaign itself any more.
 */
static void test_g12_a_node_on_its_way_out_lets_a_leader_be_elected(void **state)
{
    RING ring = {0};
    struct asked wish;
    uint64_t leader;
    uint64_t other;

    (void)state;
    ring_start(&ring, 2);
    leader = ring_elect(&ring);
    other = 3 - leader;
    ring_make(&ring, leader, "kept", 10);
    ring_node(&ring, leader)->disk_held = true;
    assert_int_equal(
        driver_change(&ring_node(&ring, leader)->replica.driver, other, NULL, ROLE_STANDBY), 0);
    ring_settle(&ring);
    assert_int_equal(ring_role(&ring, other, other), RAFT_STANDBY);
    ring_crash(&ring, leader);
    ring_restart(&ring, leader);
    assert_int_equal(ring_role(&ring, leader, other), RAFT_VOTER);
    assert_int_equal(ring_elect(&ring), leader);
    assert_non_null(ring_row(&ring, leader, "kept"));
    asked_member(&wish, MEMBER_ASK_REMOVE, other, "");
    ask(&ring, leader, &wish, PATIENCE_MS);
    ring_member_done(&ring, &wish);
}

/* And so the leader takes no vote away while anything before that is not committed. */
static void test_g12_no_vote_is_taken_away_before_all_is_committed(void **state)
{
    RING ring = {0};
    struct driver *driver;
    struct asked put;
    uint64_t leader;
    uint64_t other;

    (void)state;
    ring_start(&ring, 2);
    leader = ring_elect(&ring);
    other = 3 - leader;
    driver = &ring_node(&ring, leader)->replica.driver;
    ring_node(&ring, leader)->disk_held = true;
    asked_put(&put, "put", 10);
    ask(&ring, leader, &put, PATIENCE_MS);
    ring_settle(&ring);
    assert_false(driver_all_committed(driver));
    assert_int_equal(driver_change(driver, other, NULL, ROLE_STANDBY), ERR_CONFLICT);
    ring_node(&ring, leader)->disk_held = false;
    ring_settle(&ring);
    assert_int_equal(put.done, 1);
    assert_true(driver_all_committed(driver));
    assert_int_equal(driver_change(driver, other, NULL, ROLE_STANDBY), 0);
    asked_free(&put);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g6_a_promoted_node_that_does_not_know_it_yet_votes),
        cmocka_unit_test(test_g8_a_leader_with_a_node_on_its_way_out_has_its_timer_ahead),
        cmocka_unit_test(test_g11_a_sole_voter_beside_a_standby_never_issues_an_index_twice),
        cmocka_unit_test(test_g12_what_the_vote_has_to_protect),
        cmocka_unit_test(test_g12_driver_votes_for_a_log_without_its_demotion),
        cmocka_unit_test(test_g12_no_vote_is_taken_away_before_all_is_committed),
        cmocka_unit_test(test_g12_a_node_on_its_way_out_lets_a_leader_be_elected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
