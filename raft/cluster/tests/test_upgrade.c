/*
 * test_upgrade.c - when the level of the cluster rises, who is in the way, and what happens to a
 * node whose leafd is too old. Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"

#define HOLD_MS 1000

static void start(struct ring *ring, uint16_t able)
{
    ring->meet = true;
    for (unsigned i = 0; i < 3; i++) {
        ring->nodes[i].able = able;
    }
    ring_start(ring, 3);
    (void)ring_elect(ring);
    ring_run_ms(ring, 500); /* all say what they are */
}

static uint16_t level_of(struct ring *ring, uint64_t id)
{
    return state_level(ring_node(ring, id)->replica.state);
}

static void exchange(struct ring *ring, uint64_t id, uint16_t able)
{
    ring_crash(ring, id);
    ring_node(ring, id)->able = able;
    ring_restart(ring, id);
}

/* What the node with this id is told about the level; 0: only whether it can rise. */
static struct member_answer asks(struct ring *ring, uint64_t id, uint16_t level)
{
    const struct member_ask what = {.kind = level > 0 ? MEMBER_ASK_LEVEL : MEMBER_ASK_LEVEL_SEE,
                                    .level = level};
    struct asked asked = {.base.kind = CLUSTER_REQUEST_MEMBER};
    struct member_answer answer;

    asked_member(&asked, MEMBER_ASK_LEAD, 1, "");
    buf_free(&asked.base.payload);
    member_ask_encode(&what, &asked.base.payload);
    ask(ring, id, &asked, 3000);
    ring_run_ms(ring, 3000);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    assert_int_equal(member_answer_decode(asked.base.reply.data, asked.base.reply.len, &answer), 0);
    asked_free(&asked);
    return answer;
}

static void assert_in_the_way(struct ring *ring, const char *who)
{
    struct member_answer answer = asks(ring, ring_follower(ring), 2);

    assert_int_equal(answer.outcome, MEMBER_IN_THE_WAY);
    assert_non_null(strstr(answer.why, who));
    assert_int_equal(level_of(ring, 1), 1);
}

static void test_it_rises_by_itself_after_the_hold_and_not_before(void **state)
{
    RING ring = {.upgrade = {.hold_ms = HOLD_MS, .automatic = true}};

    (void)state;
    start(&ring, 1);
    ring_run_ms(&ring, 3 * HOLD_MS);
    assert_int_equal(level_of(&ring, 1), 1);
    exchange(&ring, 1, 2);
    exchange(&ring, 2, 2);
    ring_run_ms(&ring, 3 * HOLD_MS);
    assert_int_equal(level_of(&ring, 1), 1);
    exchange(&ring, 3, 2);
    ring_run_ms(&ring, HOLD_MS / 2);
    assert_int_equal(level_of(&ring, 1), 1);
    ring_run_ms(&ring, 5 * HOLD_MS);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(level_of(&ring, id), 2);
    }
}

/* The hold is of one level, and of a time in which all speak it: who wants to go back has all of it
 * again. */
static void test_the_hold_begins_anew(void **state)
{
    RING ring = {.upgrade = {.hold_ms = 3 * HOLD_MS, .automatic = true}};

    (void)state;
    start(&ring, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        exchange(&ring, id, 2);
        ring_run_ms(&ring, 500);
    }
    ring_run_ms(&ring, HOLD_MS);
    exchange(&ring, ring_follower(&ring), 1);
    ring_run_ms(&ring, 3 * HOLD_MS);
    assert_int_equal(level_of(&ring, 1), 1);
    for (uint64_t id = 1; id <= 3; id++) {
        if (ring_node(&ring, id)->able < 3 && id != ring_elect(&ring)) {
            exchange(&ring, id, 3);
            ring_run_ms(&ring, 500);
        }
    }
    ring_run_ms(&ring, HOLD_MS);
    assert_int_equal(level_of(&ring, 1), 1);
    ring_run_ms(&ring, 4 * HOLD_MS);
    assert_int_equal(level_of(&ring, 1), 2);
}

/* Each level is held for as long, also where all nodes speak the next one already. */
static void test_each_level_has_its_hold(void **state)
{
    RING ring = {.upgrade = {.hold_ms = 3 * HOLD_MS, .automatic = true}};
    unsigned waited = 0;

    (void)state;
    start(&ring, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        exchange(&ring, id, 3);
        ring_run_ms(&ring, 500);
    }
    while (level_of(&ring, ring_elect(&ring)) < 2) {
        ring_run_ms(&ring, 100);
        assert_true(++waited < 100);
    }
    ring_run_ms(&ring, 2 * HOLD_MS);
    assert_int_equal(level_of(&ring, ring_elect(&ring)), 2);
    ring_run_ms(&ring, 3 * HOLD_MS);
    assert_int_equal(level_of(&ring, ring_elect(&ring)), 3);
}

static void test_never_by_itself_if_told_so_and_at_once_if_asked(void **state)
{
    RING ring = {.upgrade = {.hold_ms = 0, .automatic = false}};

    (void)state;
    start(&ring, 2);
    ring_run_ms(&ring, 5000);
    assert_int_equal(level_of(&ring, 1), 1);
    assert_int_equal(asks(&ring, 1, 0).outcome, MEMBER_DONE);
    assert_int_equal(level_of(&ring, 1), 1);
    assert_int_equal(asks(&ring, 1, 3).outcome, MEMBER_NOT_NEXT);
    assert_int_equal(asks(&ring, 1, 2).outcome, MEMBER_DONE);
    assert_int_equal(level_of(&ring, 3), 2);
    assert_int_equal(asks(&ring, 1, 2).outcome, MEMBER_DONE);
    assert_int_equal(asks(&ring, 1, 3).outcome, MEMBER_IN_THE_WAY);
    /* Nobody is in the way of a level that nobody speaks. */
    assert_int_equal(asks(&ring, 1, 0).outcome, MEMBER_NOT_NEXT);
    assert_string_equal(asks(&ring, 1, 0).why, "the level is 2, and no member speaks a newer one");
}

static void test_whoever_is_in_the_way_is_named(void **state)
{
    RING ring = {.upgrade = {.hold_ms = HOLD_MS, .automatic = true}};
    uint64_t other;
    char name[32];

    (void)state;
    start(&ring, 1);
    exchange(&ring, 1, 2);
    ring_run_ms(&ring, 2000);
    exchange(&ring, 2, 2);
    ring_run_ms(&ring, 2000);
    assert_in_the_way(&ring, "node 3 (leafd ring) speaks levels 1 to 1");
    assert_int_equal(asks(&ring, 1, 0).outcome, MEMBER_IN_THE_WAY);
    other = ring_follower(&ring);
    ring_crash(&ring, other); /* what it runs when it comes back nobody knows */
    snprintf(name, sizeof name, "node %u cannot be reached", (unsigned)other);
    ring_run_ms(&ring, 2000);
    assert_int_equal(asks(&ring, ring_elect(&ring), 2).outcome, MEMBER_IN_THE_WAY);
}

/* It said what it speaks, and was started anew since: then that counts for nothing. */
static void test_what_an_earlier_start_said_does_not_count(void **state)
{
    RING ring = {.upgrade = {.automatic = false}};
    uint64_t follower;
    struct member_answer answer;

    (void)state;
    start(&ring, 2);
    follower = ring_follower(&ring);
    ring.lost[FRAME_REQUEST] = ring.lost[FRAME_FORWARD] = true; /* it cannot say what it is now */
    exchange(&ring, follower, 1);
    ring_run_ms(&ring, 500);
    answer = asks(&ring, ring_elect(&ring), 2);
    assert_int_equal(answer.outcome, MEMBER_IN_THE_WAY);
    assert_non_null(strstr(answer.why, "was started anew"));
    assert_int_equal(level_of(&ring, 1), 1);
}

/* It went back after the entry was on its way: it stops before it, keeps its data and its vote, and
 * goes on with a newer leafd. */
static void test_a_leafd_that_is_too_old_stops_before_the_entry(void **state)
{
    RING ring = {.upgrade = {.automatic = false}};
    struct ring_node *node;
    uint64_t follower;
    uint64_t term;

    (void)state;
    start(&ring, 2);
    follower = ring_follower(&ring);
    node = ring_node(&ring, follower);
    ring_isolate(&ring, follower, true);
    (void)asks(&ring, ring_elect(&ring), 2);
    ring_isolate(&ring, follower, false);
    ring_run_ms(&ring, 3000);
    assert_int_equal(asks(&ring, ring_elect(&ring), 2).outcome, MEMBER_DONE);
    exchange(&ring, follower, 2);
    ring_run_ms(&ring, 1000);
    assert_int_equal(level_of(&ring, follower), 2);
    assert_int_equal(node->failed_count, 0);
    ring_make(&ring, ring_elect(&ring), "a", 10);
    /* All speak level 3, and it goes back: the entries of level 3 reach one that speaks 2. */
    for (uint64_t id = 1; id <= 3; id++) {
        exchange(&ring, id, 3);
    }
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 1000);
    ring_crash(&ring, follower);
    node->able = 2;
    (void)ring_elect(&ring);
    {
        struct replica *leader = &ring_node(&ring, ring_elect(&ring))->replica;
        struct buf command = BUF_INIT;
        uint64_t index;
        uint64_t raised;

        cluster_command_put(&command, COMMAND_LEVEL, &(struct level_command){.to = 3});
        session_stamp_put(&command, &(struct session_stamp){9, 1, 1, 1});
        assert_int_equal(driver_submit(&leader->driver, &command, 1, &index, &raised), 0);
        buf_free(&command);
        ring_run_ms(&ring, 500);
        assert_int_equal(state_level(leader->state), 3);
        ring_restart(&ring, follower);
        ring_run_ms(&ring, 500);
        assert_int_equal(node->failed_count, 1);
        assert_int_equal(node->failed_err, ERR_NEWER);
        assert_int_equal(driver_applied(&node->replica.driver)->index, index - 1);
        assert_int_equal(level_of(&ring, follower), 2);
    }
    term = driver_term(&node->replica.driver);
    exchange(&ring, follower, 3);
    assert_true(driver_term(&node->replica.driver) >= term);
    ring_run_ms(&ring, 1000);
    assert_int_equal(level_of(&ring, follower), 3);
    assert_int_equal(node->failed_count, 1);
    assert_non_null(ring_row(&ring, follower, "a"));
}

/* Nobody raises the level above what a member has said that it speaks, so nothing of the entry goes
 * to its disk, and it does not end. */
static void test_a_raise_above_what_a_node_ever_spoke_is_a_lie(void **state)
{
    RING ring = {.upgrade = {.automatic = false}};
    struct buf command = BUF_INIT;
    const struct log_entry *entry_there;
    struct ring_node *node;
    uint64_t follower;
    uint64_t index;
    uint64_t term;

    (void)state;
    start(&ring, 1);
    follower = ring_follower(&ring);
    node = ring_node(&ring, follower);
    cluster_command_put(&command, COMMAND_LEVEL, &(struct level_command){.to = 2});
    session_stamp_put(&command, &(struct session_stamp){9, 1, 1, 1});
    assert_int_equal(driver_submit(&ring_node(&ring, ring_elect(&ring))->replica.driver, &command,
                                   1, &index, &term),
                     0);
    buf_free(&command);
    ring_run_ms(&ring, 2000);
    entry_there = entry_log_get(&node->replica.driver.log, index); /* a new leader's, perhaps */
    assert_true(entry_there == NULL || entry_there->block->data[1] != COMMAND_LEVEL);
    assert_int_equal(node->failed_count, 0);
    assert_true(node->replica.driver.trust.alarm.count > 0);
    ring_crash(&ring, follower);
    ring_restart(&ring, follower);
    assert_int_equal(node->failed_count, 0);
}

/* --- a raise that waits --- */

/* This leader is asked to raise the level, and has taken no turn since. */
static struct replica *raises(struct ring *ring, uint64_t leader)
{
    const struct member_ask what = {.kind = MEMBER_ASK_LEVEL, .level = 2};
    struct replica *replica = &ring_node(ring, leader)->replica;
    const struct session_stamp stamp = {leader, replica->config.driver.incarnation, 1000, 1000};
    struct member_answer answer;
    struct buf ask = BUF_INIT;
    struct buf reply = BUF_INIT;

    member_ask_encode(&what, &ask);
    session_stamp_put(&ask, &stamp);
    assert_int_equal(membership_answer(&replica->membership, ask.data, ask.len, &reply), 0);
    assert_int_equal(member_answer_decode(reply.data, reply.len, &answer), 0);
    buf_free(&ask);
    buf_free(&reply);
    assert_int_equal(answer.outcome, MEMBER_PENDING);
    assert_true(replica->membership.upgrade.command.in_flight);
    return replica;
}

/* All go on at the level that they were at, also the one that went back. */
static void assert_not_raised(struct ring *ring)
{
    ring_run_ms(ring, 1000);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(level_of(ring, id), 1);
        assert_int_equal(ring_node(ring, id)->failed_count, 0);
    }
}

/* It is lost with the lead, one that speaks it no more says so to the next leader, and then this
 * node leads again: what it once wanted to raise may not be. */
static void test_a_raise_ends_with_the_lead(void **state)
{
    RING ring = {.upgrade = {.automatic = false}};
    struct replica *first;
    uint64_t leader;
    uint64_t next;

    (void)state;
    start(&ring, 2);
    leader = ring_elect(&ring);
    ring_isolate(&ring, leader, true);
    first = raises(&ring, leader);
    ring_run_ms(&ring, 1500);
    assert_false(
        first->membership.upgrade.command.in_flight); /* by what it knows, nobody is in the way */
    for (next = 1; next == leader || !driver_leads(&ring_node(&ring, next)->replica.driver);) {
        next++;
    }
    exchange(&ring, 6 - leader - next, 1);
    ring_run_ms(&ring, 500); /* it says what it is */
    ring.lost[FRAME_REQUEST] = ring.lost[FRAME_FORWARD] = true;
    ring_isolate(&ring, leader, false);
    ring_run_ms(&ring, 500);
    assert_false(driver_transfer(&ring_node(&ring, next)->replica.driver, leader));
    ring_run_ms(&ring, 500);
    assert_true(driver_leads(&first->driver));
    assert_not_raised(&ring);
}

/* The leader takes nothing new for a while; meanwhile a member comes to be in the way. */
static void test_a_raise_that_waits_ends_once_somebody_is_in_the_way(void **state)
{
    RING ring = {.upgrade = {.automatic = false}};
    struct replica *leader;
    uint64_t follower;

    (void)state;
    start(&ring, 2);
    follower = ring_follower(&ring);
    leader = &ring_node(&ring, ring_elect(&ring))->replica;
    leader->draining = true;
    context_wake(&leader->context, WAKE_MEMBERS);
    ring_settle(&ring);
    (void)raises(&ring, ring_elect(&ring));
    ring_run_ms(&ring, 100);
    assert_true(leader->membership.upgrade.command.in_flight); /* nobody is in the way yet */
    exchange(&ring, follower, 1);
    ring_run_ms(&ring, 100);
    assert_false(leader->membership.upgrade.command.in_flight);
    replica_transfer_end(leader);
    assert_not_raised(&ring);
}

/* --- who counts --- */

/* This voter becomes a standby that speaks this level. */
static void demote(struct ring *ring, uint64_t id, uint16_t able)
{
    struct driver *leader = &ring_node(ring, ring_elect(ring))->replica.driver;

    assert_int_equal(driver_change(leader, id, NULL, ROLE_STANDBY), 0);
    ring_run_ms(ring, 500);
    assert_int_equal(ring_role(ring, id, id), ROLE_STANDBY);
    exchange(ring, id, able);
    ring_run_ms(ring, 500); /* it says what it is */
}

static void test_a_standby_is_in_the_way_as_a_voter_is(void **state)
{
    RING ring = {.upgrade = {.automatic = true, .hold_ms = HOLD_MS}};
    struct member_answer answer;
    uint64_t standby;
    uint64_t leader;
    char text[64];

    (void)state;
    start(&ring, 1);
    standby = ring_follower(&ring);
    demote(&ring, standby, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != standby) {
            exchange(&ring, id, 2);
            (void)ring_elect(&ring);
        }
    }
    ring_run_ms(&ring, 3 * HOLD_MS);
    snprintf(text, sizeof text, "standby node %u (leafd ring) speaks levels 1 to 1",
             (unsigned)standby);
    leader = ring_elect(&ring);
    for (uint16_t asked = 0; asked <= 2; asked += 2) { /* seen only, and ordered */
        answer = asks(&ring, leader, asked);
        assert_int_equal(answer.outcome, MEMBER_IN_THE_WAY);
        assert_non_null(strstr(answer.why, text));
    }
    assert_int_equal(level_of(&ring, leader), 1);
    /* The newest leafd, and nobody reaches it. */
    exchange(&ring, standby, 2);
    ring_run_ms(&ring, HOLD_MS / 4);
    ring_crash(&ring, standby);
    ring_run_ms(&ring, 3 * HOLD_MS);
    assert_int_equal(level_of(&ring, leader), 1);
    answer = asks(&ring, leader, 2);
    assert_int_equal(answer.outcome, MEMBER_IN_THE_WAY);
    assert_non_null(strstr(answer.why, "standby node"));
    assert_non_null(strstr(answer.why, "cannot be reached"));
    ring_restart(&ring, standby);
    ring_run_ms(&ring, 5 * HOLD_MS);
    assert_int_equal(level_of(&ring, standby), 2);
}

/* The only one that speaks the next level is a standby: then there is a next level. */
static void test_a_level_that_a_standby_alone_speaks(void **state)
{
    RING ring = {.upgrade = {.automatic = false}};
    struct member_answer answer;

    (void)state;
    start(&ring, 1);
    demote(&ring, ring_follower(&ring), 2);
    answer = asks(&ring, ring_elect(&ring), 0);
    assert_int_equal(answer.outcome, MEMBER_IN_THE_WAY);
    assert_non_null(strstr(answer.why, "speaks levels 1 to 1"));
}

/* A node that is being added has said nothing yet. One that was removed is nobody's. */
static void test_who_comes_is_waited_for_and_who_went_is_not(void **state)
{
    RING ring = {.upgrade = {.automatic = true, .hold_ms = HOLD_MS}, .joiners = 1};
    struct member_answer answer;
    struct asked wish;
    uint64_t leader;

    (void)state;
    ring.meet = true;
    for (unsigned i = 0; i < 3; i++) {
        ring.nodes[i].able = i < 2 ? 1 : 2;
    }
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 500);
    exchange(&ring, 1, 2);
    (void)ring_elect(&ring);
    exchange(&ring, 2, 2);
    leader = ring_elect(&ring);
    ring_crash(&ring, 3);
    asked_member(&wish, MEMBER_ASK_ADD, 3, "ring:3");
    ask(&ring, leader, &wish, 100);
    ring_run_ms(&ring, 200);
    asked_free(&wish);
    answer = asks(&ring, leader, 2);
    assert_int_equal(answer.outcome, MEMBER_IN_THE_WAY);
    assert_non_null(strstr(answer.why, "a node is being added"));
    ring_run_ms(&ring, 2 * HOLD_MS);
    assert_int_equal(level_of(&ring, leader), 1);
    asked_member(&wish, MEMBER_ASK_REMOVE, 3, "");
    ask(&ring, leader, &wish, 100);
    ring_run_ms(&ring, 200);
    asked_free(&wish);
    ring_run_ms(&ring, 10 * HOLD_MS);
    assert_int_equal(ring_role(&ring, leader, 3), ROLE_GONE);
    assert_int_equal(level_of(&ring, leader), 2);
}

/* The leader takes nothing from others that it does not know, or that the level does not have. */
static void test_a_leader_appends_nothing_that_it_does_not_know(void **state)
{
    RING ring = {0};
    struct asked asked = {0};
    uint64_t leader;

    (void)state;
    start(&ring, 1);
    leader = ring_elect(&ring);
    asked_put(&asked, "a", 10);
    asked.base.payload.data[1] = 99;
    ask(&ring, ring_follower(&ring), &asked, 1000);
    ring_run_ms(&ring, 500);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, ERR_REFUSED);
    assert_int_equal(fsm_tag_count(ring_node(&ring, leader)->ids.context.fsm), 0);
    asked_free(&asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_rises_by_itself_after_the_hold_and_not_before),
        cmocka_unit_test(test_the_hold_begins_anew),
        cmocka_unit_test(test_each_level_has_its_hold),
        cmocka_unit_test(test_never_by_itself_if_told_so_and_at_once_if_asked),
        cmocka_unit_test(test_whoever_is_in_the_way_is_named),
        cmocka_unit_test(test_what_an_earlier_start_said_does_not_count),
        cmocka_unit_test(test_a_leafd_that_is_too_old_stops_before_the_entry),
        cmocka_unit_test(test_a_raise_above_what_a_node_ever_spoke_is_a_lie),
        cmocka_unit_test(test_a_raise_ends_with_the_lead),
        cmocka_unit_test(test_a_raise_that_waits_ends_once_somebody_is_in_the_way),
        cmocka_unit_test(test_a_standby_is_in_the_way_as_a_voter_is),
        cmocka_unit_test(test_a_level_that_a_standby_alone_speaks),
        cmocka_unit_test(test_who_comes_is_waited_for_and_who_went_is_not),
        cmocka_unit_test(test_a_leader_appends_nothing_that_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
