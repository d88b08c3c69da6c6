/*
 * test_rounds.c - whom a leader asks whether it still leads: as many as a majority needs, the
 * quickest first, and all others when it takes too long. Whoever was chosen may be dead, cut off,
 * paused, slow, of a newer term, or no voter any more: one short wait, and others are chosen.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"
#include "raft/core/tests/core_frames.h"

#define PATIENCE_MS 3000

/* A leader, the one of its followers that it asks, and the one that it does not. */
struct stage {
    struct ring ring;
    uint64_t leader;
    uint64_t chosen;
    uint64_t other;
};

static struct rounds *rounds_of(struct stage *stage)
{
    return &requests_of(&stage->ring, stage->leader)->serving.round;
}

/* A query, which takes a round: at the leader, and nothing is delivered yet. */
static void query(struct stage *stage, struct asked *asked)
{
    asked_get(asked, "a");
    ask(&stage->ring, stage->leader, asked, PATIENCE_MS);
}

/* So many questions are on their way to a node. */
static size_t asks(struct stage *stage, uint64_t id)
{
    return fake_net_count(&ring_node(&stage->ring, stage->leader)->net, id, FRAME_CONFIRM);
}

static void acknowledge(struct stage *stage, uint64_t from)
{
    const struct wire_confirm ack = {term_of(&stage->ring, stage->leader),
                                     rounds_of(stage)->number};
    struct buf frame = BUF_INIT;

    wire_confirm_encode(&ack, &frame);
    assert_true(scene_receive(&stage->ring, stage->leader, from, FRAME_CONFIRM_ACK, &frame));
    (void)replica_turn(replica_of(&stage->ring, stage->leader));
}

/* One that is answered by all, and so by who answers first. */
static void answered_at_once(struct stage *stage)
{
    struct asked asked;

    query(stage, &asked);
    ring_settle(&stage->ring);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
}

/* The next one is a look. */
static void look_is_due(struct stage *stage)
{
    ring_run_ms(&stage->ring, ROUND_LOOK_MS);
}

static void expect_chosen(struct stage *stage, uint64_t chosen)
{
    struct asked asked;

    query(stage, &asked);
    for (uint64_t id = 1; id <= stage->ring.count; id++) {
        assert_int_equal(asks(stage, id), id == chosen);
    }
    ring_settle(&stage->ring);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
}

static void start(struct stage *stage)
{
    *stage = (struct stage){.ring = {.count = 0}};
    scene_start(&stage->ring, &stage->leader, &stage->other);
    ring_make(&stage->ring, stage->leader, "a", 10);
    ring_run_ms(&stage->ring, 2 * RING_HEARTBEAT_MS);
    answered_at_once(stage); /* the first in this term is a look */
    stage->chosen = rounds_of(stage)->quickest[0];
    stage->other = 6 - stage->leader - stage->chosen;
    expect_chosen(stage, stage->chosen);
}

static void end(struct stage *stage)
{
    ring_close(&stage->ring);
}

static void pretend(struct stage *stage, unsigned voters, uint64_t but)
{
    struct configuration conf = {0};

    for (uint64_t id = 1; id <= voters; id++) {
        configuration_add(&conf, id, "", id == but ? ROLE_STANDBY : ROLE_VOTER);
    }
    core_pretend(&replica_of(&stage->ring, stage->leader)->driver, &conf);
}

/* --- who is chosen --- */

static void test_rounds_that_are_rare_go_to_all(void **state)
{
    struct stage stage;

    (void)state;
    start(&stage);
    for (unsigned i = 0; i < 3; i++) {
        struct asked asked;

        look_is_due(&stage);
        query(&stage, &asked);
        assert_int_equal(asks(&stage, stage.chosen), 1);
        assert_int_equal(asks(&stage, stage.other), 1);
        ring_settle(&stage.ring);
        assert_int_equal(asked.done, 1);
        asked_free(&asked);
    }
    end(&stage);
}

static void test_the_quickest_is_asked(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    look_is_due(&stage);
    stage.ring.lost[FRAME_CONFIRM] = true;
    query(&stage, &asked);
    acknowledge(&stage, stage.other); /* it was the second one so far */
    acknowledge(&stage, stage.chosen);
    ring_settle(&stage.ring);
    stage.ring.lost[FRAME_CONFIRM] = false;
    expect_chosen(&stage, stage.other);
    asked_free(&asked);
    end(&stage);
}

/* While nobody has answered the look yet, all are asked, and it stays the look. */
static void test_rounds_behind_a_look_go_to_all(void **state)
{
    struct asked asked[3];
    struct stage stage;

    (void)state;
    start(&stage);
    look_is_due(&stage);
    for (unsigned i = 0; i < 3; i++) {
        query(&stage, &asked[i]);
        assert_int_equal(asks(&stage, stage.chosen), i + 1);
        assert_int_equal(asks(&stage, stage.other), i + 1);
        assert_int_equal(rounds_of(&stage)->look, rounds_of(&stage)->number - i);
    }
    ring_settle(&stage.ring);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(asked[i].done, 1);
        asked_free(&asked[i]);
    }
    expect_chosen(&stage, rounds_of(&stage)->quickest[0]);
    end(&stage);
}

static void test_of_five_two_others_are_asked(void **state)
{
    struct asked asked;
    struct stage stage;
    size_t count = 0;

    (void)state;
    start(&stage);
    look_is_due(&stage);
    pretend(&stage, 5, 0);
    query(&stage, &asked);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(asks(&stage, id), id != stage.leader);
    }
    acknowledge(&stage, 5);
    assert_int_equal(asked.done, 0);
    acknowledge(&stage, stage.other);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    fake_net_clear(&ring_node(&stage.ring, stage.leader)->net);
    query(&stage, &asked);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(asks(&stage, id), id == 5 || id == stage.other);
        count += asks(&stage, id);
    }
    assert_int_equal(count, 2);
    acknowledge(&stage, stage.other);
    assert_int_equal(asked.done, 0);
    acknowledge(&stage, 5);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    end(&stage);
}

/* --- who was chosen does not answer --- */

enum trouble { CUT_THERE, CUT_BACK, CUT_BOTH, PAUSED, TROUBLES };

static void trouble(struct stage *stage, enum trouble kind)
{
    bool(*cut)[RING_MAX + 1] = stage->ring.cut;

    cut[stage->leader][stage->chosen] = kind == CUT_THERE || kind == CUT_BOTH;
    cut[stage->chosen][stage->leader] = kind == CUT_BACK || kind == CUT_BOTH;
    if (kind == PAUSED) {
        ring_pause(&stage->ring, stage->chosen);
    }
}

static void trouble_is_over(struct stage *stage, enum trouble kind)
{
    stage->ring.cut[stage->leader][stage->chosen] = false;
    stage->ring.cut[stage->chosen][stage->leader] = false;
    if (kind == PAUSED) {
        ring_resume(&stage->ring, stage->chosen);
    }
}

static void test_one_that_does_not_answer_costs_one_wait(void **state)
{
    (void)state;
    for (enum trouble kind = 0; kind < TROUBLES; kind++) {
        struct asked asked;
        struct stage stage;

        start(&stage);
        trouble(&stage, kind);
        query(&stage, &asked);
        assert_int_equal(asks(&stage, stage.chosen), 1);
        assert_int_equal(asks(&stage, stage.other), 0);
        ring_run_ms(&stage.ring, ROUND_HEDGE_MS - 1);
        assert_int_equal(asked.done, 0);
        ring_run_ms(&stage.ring, 1);
        assert_int_equal(asked.done, 1);
        asked_free(&asked);
        expect_chosen(&stage, stage.other); /* no wait any more, */
        look_is_due(&stage);
        answered_at_once(&stage); /* nor by looking for it now and then */
        expect_chosen(&stage, stage.other);
        trouble_is_over(&stage, kind);
        look_is_due(&stage);
        answered_at_once(&stage);
        assert_int_equal(rounds_of(&stage)->quickest_count, 2); /* it may be chosen again */
        end(&stage);
    }
}

/* It was asked already: its word is on its way, and the other's comes later, or sooner. */
static void test_one_that_is_slow_is_not_asked_twice(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    ring_pause(&stage.ring, stage.chosen);
    query(&stage, &asked);
    ring_settle(&stage.ring);
    stage.ring.clock.now_ms += ROUND_HEDGE_MS;
    (void)replica_turn(replica_of(&stage.ring, stage.leader));
    assert_int_equal(asks(&stage, stage.chosen), 0);
    assert_int_equal(asks(&stage, stage.other), 1);
    assert_int_equal(rounds_of(&stage)->look, rounds_of(&stage)->number);
    ring_resume(&stage.ring, stage.chosen); /* it answers first after all */
    ring_settle(&stage.ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(rounds_of(&stage)->quickest_count, 2);
    asked_free(&asked);
    end(&stage);
}

static void test_without_a_link_nobody_waits(void **state)
{
    struct stage stage;

    (void)state;
    start(&stage);
    ring_node(&stage.ring, stage.leader)->net.down[stage.chosen] = true;
    expect_chosen(&stage, stage.other);
    expect_chosen(&stage, stage.other);
    ring_node(&stage.ring, stage.leader)->net.down[stage.chosen] = false;
    expect_chosen(&stage, stage.chosen);
    ring_crash(&stage.ring, stage.chosen);
    expect_chosen(&stage, stage.other);
    ring_restart(&stage.ring, stage.chosen);
    look_is_due(&stage);
    answered_at_once(&stage);
    assert_int_equal(rounds_of(&stage)->quickest_count, 2);
    end(&stage);
}

/* R5: it is of a newer term, and says nothing to a round of ours. */
static void test_one_of_a_newer_term_is_no_answer(void **state)
{
    struct asked asked;
    struct stage stage;
    struct buf frame = BUF_INIT;
    uint64_t term;

    (void)state;
    start(&stage);
    stage.ring.cut[stage.chosen][stage.leader] = true; /* it does not tell the leader */
    term = term_of(&stage.ring, stage.leader);
    core_heartbeat(term + 1, 0, 0, &frame);
    assert_true(scene_receive(&stage.ring, stage.chosen, stage.other, FRAME_RAFT, &frame));
    ring_settle(&stage.ring);
    assert_int_equal(term_of(&stage.ring, stage.chosen), term + 1);
    assert_int_equal(term_of(&stage.ring, stage.leader), term);
    query(&stage, &asked);
    ring_settle(&stage.ring);
    assert_int_equal(asked.done, 0);
    ring_run_ms(&stage.ring, ROUND_HEDGE_MS);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    end(&stage);
}

/* Nobody answers: the round does not end, and nobody is forgotten when it is asked again. */
static void test_a_round_that_nobody_answers_is_asked_again(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    stage.ring.lost[FRAME_CONFIRM] = true;
    query(&stage, &asked);
    ring_run_ms(&stage.ring, ROUND_HEDGE_MS);
    stage.ring.lost[FRAME_CONFIRM] = false;
    memset(stage.ring.passed, 0, sizeof stage.ring.passed);
    ring_run_ms(&stage.ring, RING_HEARTBEAT_MS - ROUND_HEDGE_MS);
    assert_int_equal(asked.done, 0);
    ring_run_ms(&stage.ring, ROUND_HEDGE_MS);
    assert_int_equal(asked.done, 1);
    assert_int_equal(stage.ring.passed[FRAME_CONFIRM], 2);
    asked_free(&asked);
    end(&stage);
}

/* --- rounds that follow each other --- */

/* That others begin behind it does not put the wait off. */
static void test_the_first_one_that_waits_is_watched(void **state)
{
    struct asked asked[ROUND_HEDGE_MS + 1];
    struct stage stage;

    (void)state;
    start(&stage);
    stage.ring.cut[stage.leader][stage.chosen] = true;
    for (unsigned i = 0; i <= ROUND_HEDGE_MS; i++) {
        query(&stage, &asked[i]);
        assert_int_equal(asked[0].done, i == ROUND_HEDGE_MS);
        ring_run_ms(&stage.ring, i < ROUND_HEDGE_MS ? 1 : 0);
    }
    for (unsigned i = 0; i <= ROUND_HEDGE_MS; i++) {
        assert_int_equal(asked[i].done, 1);
        asked_free(&asked[i]);
    }
    end(&stage);
}

/* There is always one under way, and each is answered soon: the other one is left alone. */
static void test_rounds_in_time_ask_nobody_else(void **state)
{
    struct asked asked[ROUND_LOOK_MS / 2];
    struct stage stage;

    (void)state;
    start(&stage);
    stage.ring.lost[FRAME_CONFIRM] = true;
    query(&stage, &asked[0]);
    for (unsigned i = 1; i < ROUND_LOOK_MS / 2; i++) {
        const struct wire_confirm ack = {term_of(&stage.ring, stage.leader),
                                         rounds_of(&stage)->number};
        struct buf frame = BUF_INIT;

        stage.ring.clock.now_ms++;
        query(&stage, &asked[i]);
        assert_int_equal(asks(&stage, stage.other), 0);
        assert_true(timer_is_armed(&rounds_of(&stage)->late));
        wire_confirm_encode(&ack, &frame);
        assert_true(
            scene_receive(&stage.ring, stage.leader, stage.chosen, FRAME_CONFIRM_ACK, &frame));
        (void)replica_turn(replica_of(&stage.ring, stage.leader));
        assert_int_equal(asked[i - 1].done, 1);
        assert_int_equal(asked[i].done, 0);
        asked_free(&asked[i - 1]);
    }
    acknowledge(&stage, stage.chosen);
    assert_int_equal(asked[ROUND_LOOK_MS / 2 - 1].done, 1);
    assert_false(timer_is_armed(&rounds_of(&stage)->late));
    asked_free(&asked[ROUND_LOOK_MS / 2 - 1]);
    end(&stage);
}

/* --- configurations --- */

static void test_who_is_no_voter_any_more_is_not_chosen(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    query(&stage, &asked); /* it goes to one who loses its vote now */
    pretend(&stage, 3, stage.chosen);
    acknowledge(&stage, stage.chosen);
    assert_int_equal(asked.done, 0);
    ring_run_ms(&stage.ring, ROUND_HEDGE_MS);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    expect_chosen(&stage, stage.other);
    end(&stage);
}

static void test_a_round_while_voters_are_added(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    stage.ring.lost[FRAME_CONFIRM] = true;
    query(&stage, &asked);
    pretend(&stage, 5, 0);
    acknowledge(&stage, stage.chosen);
    assert_int_equal(asked.done, 0); /* it would have been enough */
    stage.ring.clock.now_ms += ROUND_HEDGE_MS;
    (void)replica_turn(replica_of(&stage.ring, stage.leader));
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(asks(&stage, id), id != stage.leader);
    }
    acknowledge(&stage, 4);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    end(&stage);
}

/* It leads on until that is committed, and needs all that are left. */
static void test_a_leader_without_a_vote_asks_one_more(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    look_is_due(&stage);
    answered_at_once(&stage);
    pretend(&stage, 3, stage.leader);
    query(&stage, &asked);
    assert_int_equal(asks(&stage, stage.chosen), 1);
    assert_int_equal(asks(&stage, stage.other), 1);
    ring_settle(&stage.ring);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    end(&stage);
}

/* Who answered in an earlier term is not known in the next one. */
static void test_each_term_begins_with_a_look(void **state)
{
    struct asked asked;
    struct stage stage;

    (void)state;
    start(&stage);
    rounds_stop(rounds_of(&stage)); /* as with each change of leadership, or term */
    query(&stage, &asked);
    assert_int_equal(asks(&stage, stage.chosen), 1);
    assert_int_equal(asks(&stage, stage.other), 1);
    ring_settle(&stage.ring);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_that_are_rare_go_to_all),
        cmocka_unit_test(test_the_quickest_is_asked),
        cmocka_unit_test(test_rounds_behind_a_look_go_to_all),
        cmocka_unit_test(test_of_five_two_others_are_asked),
        cmocka_unit_test(test_one_that_does_not_answer_costs_one_wait),
        cmocka_unit_test(test_one_that_is_slow_is_not_asked_twice),
        cmocka_unit_test(test_without_a_link_nobody_waits),
        cmocka_unit_test(test_one_of_a_newer_term_is_no_answer),
        cmocka_unit_test(test_a_round_that_nobody_answers_is_asked_again),
        cmocka_unit_test(test_the_first_one_that_waits_is_watched),
        cmocka_unit_test(test_rounds_in_time_ask_nobody_else),
        cmocka_unit_test(test_who_is_no_voter_any_more_is_not_chosen),
        cmocka_unit_test(test_a_round_while_voters_are_added),
        cmocka_unit_test(test_a_leader_without_a_vote_asks_one_more),
        cmocka_unit_test(test_each_term_begins_with_a_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
