/*
 * test_vote_floor.c - a vote that a disk may have lost is not given again: who does not vote, in
 * which terms, and how those who stand for election get round it.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/core/tests/raft_bench.h"
#include "raft/core/rollback.h"

static const struct boot BOOT = {
    .id = 1, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

static uint64_t incarnation(uint64_t count)
{
    return count << PEER_INCARNATION_RANDOM_BITS | 7;
}

/* --- decisions --- */

static void test_only_requests_for_votes_up_to_the_next_term(void **state)
{
    const struct wire_durable start = {.incarnation = incarnation(2), .term = 5};
    struct raft_message same = vote_of(3, 5, 10, 2, false);
    struct raft_message next = vote_of(3, 6, 10, 2, false);
    struct raft_message later = vote_of(3, 7, 10, 2, false);
    struct raft_message pre_vote = vote_of(3, 6, 10, 2, true);
    struct raft_message result = vote_result_of(3, 6, true, false);
    struct vote_floor floor = {0};

    (void)state;
    floor.own = vote_floor_met(&floor, &start);
    assert_true(vote_floor_drops(&floor, &same));
    assert_true(vote_floor_drops(&floor, &next));
    assert_false(vote_floor_drops(&floor, &later));
    assert_false(vote_floor_drops(&floor, &pre_vote));
    assert_false(vote_floor_drops(&floor, &result));
}

static void test_the_first_start_has_nothing_to_forget(void **state)
{
    const struct wire_durable start = {.incarnation = incarnation(1), .term = 5};
    struct raft_message same = vote_of(3, 5, 10, 2, false);
    struct vote_floor floor = {0};

    (void)state;
    floor.own = vote_floor_met(&floor, &start);
    assert_false(vote_floor_drops(&floor, &same));
    assert_true(floor.known < 1);
}

static void test_the_highest_of_all_is_got_round(void **state)
{
    const struct wire_durable own = {.incarnation = incarnation(2), .term = 5};
    const struct wire_durable lower = {.incarnation = incarnation(9), .term = 3};
    const struct wire_durable higher = {.incarnation = incarnation(2), .term = 8};
    struct raft_message above = vote_of(3, 7, 10, 2, false);
    struct vote_floor floor = {0};

    (void)state;
    floor.own = vote_floor_met(&floor, &own);
    (void)vote_floor_met(&floor, &lower);
    assert_true(floor.known >= 6);
    assert_true(floor.known < 7);
    (void)vote_floor_met(&floor, &higher);
    assert_true(floor.known >= 9);
    assert_true(floor.known < 10);
    assert_false(vote_floor_drops(&floor, &above)); /* its own is what it was */
}

/* --- the driver --- */

static bool gets_vote(struct bench *bench, raft_term term, bool pre_vote)
{
    struct raft_message vote = vote_of(2, term, 11, 2, pre_vote);
    struct raft_message reply;

    bench_receive(bench, &vote);
    bench_disk_run(bench); /* term and vote first */
    return bench_sent(bench, 2, RAFT_REQUEST_VOTE_RESULT, &reply) &&
           reply.request_vote_result.vote_granted;
}

/* Shows P1-older. */
static void test_a_node_that_was_started_again_gives_no_vote_in_the_next_term(void **state)
{
    BENCH bench = {.incarnation = incarnation(2)};

    (void)state;
    bench_start(&bench, &BOOT);
    assert_true(gets_vote(&bench, 3, true));
    assert_false(gets_vote(&bench, 3, false));
    assert_int_equal(raft_voted_for(&bench.driver.consensus->raft), 0);
    assert_true(gets_vote(&bench, 4, true));
    assert_true(gets_vote(&bench, 4, false));
    assert_int_equal(bench_term(&bench), 4);
}

/* Its timer fires, server 2 is for it, and it asks for votes in the term that is returned. */
static raft_term campaigns(struct bench *bench)
{
    struct raft_message yes = vote_result_of(2, bench_term(bench) + 1, true, true);
    struct raft_message request;

    bench_timeout(bench);
    bench_disk_run(bench);
    bench_receive(bench, &yes);
    bench_disk_run(bench);
    do {
        assert_true(bench_sent(bench, 3, RAFT_REQUEST_VOTE, &request));
    } while (request.request_vote.pre_vote);
    assert_int_equal(request.request_vote.term, bench_term(bench));
    assert_int_equal(raft_voted_for(&bench->driver.consensus->raft), 1);
    return request.request_vote.term;
}

static void meet(struct bench *bench, uint64_t peer, uint64_t count, uint64_t term)
{
    const struct wire_statement statement = {.start = {incarnation(count), term, 0, 10, 2}};

    assert_int_equal(driver_check_peer(&bench->driver, peer, &statement, false), 0);
}

static void test_a_candidate_takes_the_term_after_the_one_without_votes(void **state)
{
    BENCH bench = {.incarnation = incarnation(1)};
    struct raft_message yes = vote_result_of(3, 4, true, false);

    (void)state;
    bench_start(&bench, &BOOT);
    meet(&bench, 3, 2, 2);
    assert_int_equal(campaigns(&bench), 4);
    bench_receive(&bench, &yes);
    assert_true(driver_is_leader(&bench.driver));
    assert_int_equal(bench_term(&bench), 4);
}

static void
test_a_candidate_takes_the_next_term_where_nobody_was_started_again_in_this_one(void **state)
{
    BENCH bench = {.incarnation = incarnation(1)};

    (void)state;
    bench_start(&bench, &BOOT);
    meet(&bench, 2, 1, 2); /* its first start */
    meet(&bench, 3, 5, 1); /* in an earlier term */
    assert_int_equal(campaigns(&bench), 3);
}

static void test_who_was_started_again_stands_in_the_term_after_the_next_itself(void **state)
{
    BENCH bench = {.incarnation = incarnation(2)};

    (void)state;
    bench_start(&bench, &BOOT);
    assert_int_equal(campaigns(&bench), 4);
}

static void test_a_lie_about_a_start_costs_a_term_and_no_more(void **state)
{
    BENCH bench = {.incarnation = incarnation(1)};

    (void)state;
    bench_start(&bench, &BOOT);
    meet(&bench, 3, 2, 1000000);
    assert_int_equal(campaigns(&bench), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_requests_for_votes_up_to_the_next_term),
        cmocka_unit_test(test_the_first_start_has_nothing_to_forget),
        cmocka_unit_test(test_the_highest_of_all_is_got_round),
        cmocka_unit_test(test_a_node_that_was_started_again_gives_no_vote_in_the_next_term),
        cmocka_unit_test(test_a_candidate_takes_the_term_after_the_one_without_votes),
        cmocka_unit_test(
            test_a_candidate_takes_the_next_term_where_nobody_was_started_again_in_this_one),
        cmocka_unit_test(test_who_was_started_again_stands_in_the_term_after_the_next_itself),
        cmocka_unit_test(test_a_lie_about_a_start_costs_a_term_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
