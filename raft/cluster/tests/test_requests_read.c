/*
 * test_requests_read.c - queries: linearizable reads need a majority's word that the term still
 * stands, and the applied index; one round serves many; a deposed leader does not answer.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/core_frames.h"
#include "raft/cluster/tests/requests_scene.h"

#define PATIENCE_MS 3000

static int setup(void **state)
{
    struct trio *t;

    (void)scene_setup(state);
    t = *state;
    ring_make(&t->ring, t->leader, "a", 10);
    memset(t->ring.passed, 0, sizeof t->ring.passed);
    return 0;
}

/* The step of the one row that a query gave. */
static uint32_t step_of(const struct asked *asked)
{
    struct tag_rows rows = {0};
    uint32_t step;

    assert_int_equal(asked->done, 1);
    assert_int_equal(asked->base.status, 0);
    assert_int_equal(tag_rows_decode(asked->base.reply.data, asked->base.reply.len, &rows), 0);
    assert_int_equal(rows.count, 1);
    step = rows.rows[0].step;
    tag_rows_release(&rows);
    return step;
}

static void acknowledge(struct ring *ring, uint64_t leader, uint64_t from, uint64_t term,
                        uint64_t round)
{
    const struct wire_confirm ack = {term, round};
    struct buf frame = BUF_INIT;

    wire_confirm_encode(&ack, &frame);
    assert_true(replica_receive(&ring_node(ring, leader)->replica.peers.receiver, from,
                                FRAME_CONFIRM_ACK, frame.data, frame.len));
    (void)replica_turn(&ring_node(ring, leader)->replica);
    buf_free(&frame);
}

static void test_a_query_through_any_node(void **state)
{
    struct trio *t = *state;
    struct asked local;
    struct asked remote;
    struct asked unknown;

    asked_get(&local, "a");
    asked_get(&remote, "a");
    asked_get(&unknown, "nothing");
    ask(&t->ring, t->leader, &local, PATIENCE_MS);
    ask(&t->ring, t->follower, &remote, PATIENCE_MS);
    ask(&t->ring, t->follower, &unknown, PATIENCE_MS);
    assert_int_equal(local.done, 0); /* it has not asked anybody yet */
    ring_settle(&t->ring);
    assert_int_equal(step_of(&local), 10);
    assert_int_equal(step_of(&remote), 10);
    assert_int_equal(unknown.done, 1);
    assert_int_equal(unknown.base.status, ERR_UNKNOWN_TAG);
    asked_free(&local);
    asked_free(&remote);
    asked_free(&unknown);
}

/* So a node can wait until it has applied as much itself. */
static void test_an_answer_says_which_entries_it_has_seen(void **state)
{
    struct trio *t = *state;
    struct asked local;
    struct asked remote;
    uint64_t committed;

    ring_make(&t->ring, t->leader, "b", 20);
    committed = ring_node(&t->ring, t->leader)->replica.driver.commit;
    asked_get(&local, "b");
    asked_get(&remote, "b");
    ask(&t->ring, t->leader, &local, PATIENCE_MS);
    ask(&t->ring, t->follower, &remote, PATIENCE_MS);
    ring_settle(&t->ring);
    assert_int_equal(step_of(&local), 20);
    assert_int_equal(step_of(&remote), 20);
    assert_true(local.base.index >= committed);
    assert_true(remote.base.index >= committed);
    asked_free(&local);
    asked_free(&remote);
}

static void test_a_sole_node_is_its_own_majority(void **state)
{
    RING ring = {0};
    struct asked asked;

    (void)state;
    ring_start(&ring, 1);
    assert_int_equal(ring_elect(&ring), 1);
    ring_make(&ring, 1, "a", 10);
    asked_get(&asked, "a");
    ask(&ring, 1, &asked, PATIENCE_MS);
    assert_int_equal(step_of(&asked), 10);
    asked_free(&asked);
}

/* Shows lesson-no-lease. */
static void test_nothing_is_answered_without_a_majority(void **state)
{
    struct trio *t = *state;
    struct asked asked;
    uint64_t round;

    t->ring.lost[FRAME_CONFIRM] = true;
    asked_get(&asked, "a");
    ask(&t->ring, t->leader, &asked, PATIENCE_MS);
    ring_run_ms(&t->ring, 300);
    assert_int_equal(asked.done, 0);
    round = requests_of(&t->ring, t->leader)->serving.round.number;
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader),
                round - 1); /* another round */
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader) - 1,
                round);                                                       /* another term */
    acknowledge(&t->ring, t->leader, 9, term_of(&t->ring, t->leader), round); /* no member */
    assert_int_equal(asked.done, 0);
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader), round);
    assert_int_equal(step_of(&asked), 10);
    asked_free(&asked);
}

/* Of five voters two others are needed: the same one twice is one. */
static void test_one_voter_counts_once(void **state)
{
    struct trio *t = *state;
    struct asked asked;
    struct configuration five = {0};

    t->ring.lost[FRAME_CONFIRM] = true;
    for (unsigned i = 0; i < 5; i++) {
        configuration_add(&five, i + 1, "", ROLE_VOTER);
    }
    core_pretend(&ring_node(&t->ring, t->leader)->replica.driver, &five);
    asked_get(&asked, "a");
    ask(&t->ring, t->leader, &asked, PATIENCE_MS);
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader),
                requests_of(&t->ring, t->leader)->serving.round.number);
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader),
                requests_of(&t->ring, t->leader)->serving.round.number);
    assert_int_equal(asked.done, 0);
    acknowledge(&t->ring, t->leader, 4, term_of(&t->ring, t->leader),
                requests_of(&t->ring, t->leader)->serving.round.number);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
}

static void test_a_lost_confirmation_is_asked_for_again(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    t->ring.lost[FRAME_CONFIRM_ACK] = true;
    asked_get(&asked, "a");
    ask(&t->ring, t->leader, &asked, PATIENCE_MS);
    ring_settle(&t->ring);
    assert_int_equal(asked.done, 0);
    t->ring.lost[FRAME_CONFIRM_ACK] = false;
    ring_run_ms(&t->ring, RING_HEARTBEAT_MS + 20);
    assert_int_equal(step_of(&asked), 10);
    asked_free(&asked);
}

static void test_one_round_serves_all_that_wait(void **state)
{
    struct trio *t = *state;
    struct asked asked[20];

    for (unsigned i = 0; i < 20; i++) {
        asked_get(&asked[i], "a");
        asked[i].base.deadline_ms = t->ring.clock.now_ms + PATIENCE_MS;
        id_service_submit(&ring_node(&t->ring, t->leader)->ids, &asked[i].base);
    }
    ring_settle(&t->ring);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(step_of(&asked[i]), 10);
        asked_free(&asked[i]);
    }
    assert_int_equal(t->ring.passed[FRAME_CONFIRM], 2); /* one to each of the others */
}

/* A query that comes while a round is under way may not use it: its index is noted too early. */
static void test_a_query_during_a_round_waits_for_the_next(void **state)
{
    struct trio *t = *state;
    struct asked first;
    struct asked second;
    uint64_t round;

    t->ring.lost[FRAME_CONFIRM] = true;
    asked_get(&first, "a");
    asked_get(&second, "a");
    ask(&t->ring, t->leader, &first, PATIENCE_MS);
    round = requests_of(&t->ring, t->leader)->serving.round.number;
    ask(&t->ring, t->leader, &second, PATIENCE_MS);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.round.number,
                     round + 1); /* at once */
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader), round);
    assert_int_equal(first.done, 1);
    assert_int_equal(second.done, 0);
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader),
                round); /* too late for it */
    assert_int_equal(second.done, 0);
    acknowledge(&t->ring, t->leader, t->follower, term_of(&t->ring, t->leader), round + 1);
    assert_int_equal(second.done, 1);
    asked_free(&first);
    asked_free(&second);
}

/* Committed, but not applied here yet, when the query came: it has to be seen. */
/* Shows lesson-tail. */
static void test_a_read_waits_for_the_applied_index(void **state)
{
    struct trio *t = *state;
    struct requests *requests;
    struct replica *replica;
    struct asked put;
    struct asked get;
    struct buf frame = BUF_INIT;
    struct wire_confirm confirm;

    replica = &ring_node(&t->ring, t->leader)->replica;
    requests = &replica->requests;
    t->ring.lost[FRAME_RAFT] = true;
    t->ring.lost[FRAME_CONFIRM] = true;
    asked_put(&put, "a", 20);
    asked_get(&get, "a");
    ask(&t->ring, t->leader, &put, PATIENCE_MS);
    ring_settle(&t->ring);
    core_receipt(term_of(&t->ring, t->leader), entry_log_last(&replica->driver.log), &frame);
    assert_true(
        replica_receive(&replica->peers.receiver, t->follower, FRAME_RAFT, frame.data, frame.len));
    assert_int_equal(replica->driver.commit, driver_applied(&replica->driver)->index + 1);
    get.base.deadline_ms = t->ring.clock.now_ms + PATIENCE_MS;
    id_service_submit(&ring_node(&t->ring, t->leader)->ids, &get.base);
    requests_turn(requests);
    confirm = (struct wire_confirm){term_of(&t->ring, t->leader), requests->serving.round.number};
    frame.len = 0;
    wire_confirm_encode(&confirm, &frame);
    assert_true(replica_receive(&replica->peers.receiver, t->follower, FRAME_CONFIRM_ACK,
                                frame.data, frame.len));
    requests_turn(requests);
    assert_int_equal(get.done, 0); /* confirmed; the state is one entry behind */
    (void)replica_turn(replica);
    assert_int_equal(put.done, 1);
    assert_int_equal(step_of(&get), 20);
    buf_free(&frame);
    asked_free(&put);
    asked_free(&get);
}

/* Alone, but not aware of it yet: meanwhile the others go on. */
/* Shows P5-read, lesson-old-leader. */
static void test_a_deposed_leader_does_not_answer(void **state)
{
    struct trio *t = *state;
    struct asked lone;
    struct asked kept;
    uint64_t leader;

    ring_isolate(&t->ring, t->leader, true);
    asked_get(&lone, "a");
    asked_get(&kept, "a");
    ask(&t->ring, t->leader, &lone, 300);
    ask(&t->ring, t->leader, &kept, 10000);
    ring_run_ms(&t->ring, 200);
    assert_int_equal(driver_state(&ring_node(&t->ring, t->leader)->replica.driver), DRIVER_LEADER);
    assert_int_equal(lone.done, 0);
    ring_run_ms(&t->ring, 2000);
    assert_int_equal(lone.done, 1);
    assert_true(lone.base.status == ERR_TIMEOUT || lone.base.status == ERR_NO_LEADER);
    leader = ring_elect(&t->ring);
    assert_int_not_equal(leader, t->leader);
    ring_make(&t->ring, leader, "a", 30);
    assert_int_equal(kept.done, 0);
    ring_isolate(&t->ring, t->leader, false);
    ring_run_ms(&t->ring, 1000);
    assert_int_equal(step_of(&kept), 30); /* and never what the old leader still had */
    asked_free(&lone);
    asked_free(&kept);
}

/* A follower of a newer term does not confirm an older one, and tells nothing about itself. */
/* Shows lesson-no-lease. */
static void test_a_confirmation_is_for_the_own_term_only(void **state)
{
    struct trio *t = *state;
    struct wire_confirm confirm;
    struct buf frame = BUF_INIT;
    struct replica *replica;

    replica = &ring_node(&t->ring, t->follower)->replica;
    for (uint64_t term = term_of(&t->ring, t->follower) - 1;
         term <= term_of(&t->ring, t->follower) + 1; term++) {
        confirm = (struct wire_confirm){term, 7};
        frame.len = 0;
        wire_confirm_encode(&confirm, &frame);
        assert_true(replica_receive(&replica->peers.receiver, t->leader, FRAME_CONFIRM, frame.data,
                                    frame.len));
        assert_int_equal(
            fake_net_count(&ring_node(&t->ring, t->follower)->net, t->leader, FRAME_CONFIRM_ACK),
            term >= term_of(&t->ring, t->follower));
    }
    buf_free(&frame);
}

/* A node's word came while it was not enough; then a voter goes, and it is. The other words of that
 * node are no news. */
static void test_a_round_under_way_counts_the_voters_of_now(void **state)
{
    RING ring = {0};
    struct asked asked;
    uint64_t leader;

    (void)state;
    ring_start(&ring, 2);
    leader = ring_elect(&ring);
    ring_run_ms(&ring, 100);
    ring_make(&ring, leader, "a", 10);
    ring.lost[FRAME_CONFIRM] = true; /* the other voter's word, which is needed, does not come */
    asked_get(&asked, "a");
    ask(&ring, leader, &asked, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(asked.done, 0);
    assert_int_equal(
        driver_change(&ring_node(&ring, leader)->replica.driver, 3 - leader, NULL, ROLE_STANDBY),
        0);
    ring_run_ms(&ring, RING_HEARTBEAT_MS);
    assert_int_equal(step_of(&asked), 10);
    asked_free(&asked);
}

static void test_a_local_query_needs_nobody(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    ring_run_ms(&t->ring, 2 * RING_HEARTBEAT_MS); /* a heartbeat tells what is committed */
    ring_isolate(&t->ring, t->follower, true);
    asked_get(&asked, "a");
    asked.base.local = true;
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    assert_int_equal(step_of(&asked), 10);
    asked_free(&asked);
    asked_get(&asked, "nothing");
    asked.base.local = true;
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, ERR_UNKNOWN_TAG);
    asked_free(&asked);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_query_through_any_node),
        TEST(test_an_answer_says_which_entries_it_has_seen),
        cmocka_unit_test(test_a_sole_node_is_its_own_majority),
        TEST(test_nothing_is_answered_without_a_majority),
        TEST(test_one_voter_counts_once),
        TEST(test_a_lost_confirmation_is_asked_for_again),
        TEST(test_one_round_serves_all_that_wait),
        TEST(test_a_query_during_a_round_waits_for_the_next),
        TEST(test_a_read_waits_for_the_applied_index),
        TEST(test_a_deposed_leader_does_not_answer),
        TEST(test_a_confirmation_is_for_the_own_term_only),
        cmocka_unit_test(test_a_round_under_way_counts_the_voters_of_now),
        TEST(test_a_local_query_needs_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
