/*
 * test_leader_route.c - how requests find the leader round a cut link (leader_route.c): whole
 * replicas, one of which is cut off from the leader alone.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"
#include "raft/tests/raft_strict.h"

#define PATIENCE_MS 3000
#define FOUND_MS (5 * RING_HEARTBEAT_MS) /* so soon a cut is noticed and a route found */

/* Which route a link is cut, seen from the node that asks. */
enum cut { CUT_THERE = 1, CUT_BACK = 2, CUT_BOTH = 3 };

static void start(struct ring *ring, unsigned count, struct roles *ret_roles)
{
    scene_start_roles(ring, count, ret_roles);
    strict_mode(ring, ret_roles->leader, "s", TAG_MODE_STRICT);
    ring_run_ms(ring, 200); /* all have registered */
    memset(ring->passed, 0, sizeof ring->passed);
}

/* Three nodes, whose level has risen to that of tags that pause. */
static void start_at_level_3(struct ring *ring, struct roles *roles)
{
    for (unsigned i = 0; i < 3; i++) {
        ring->nodes[i].able = 3;
    }
    start(ring, 3, roles);
    ring_run_ms(ring, 10000);
    assert_int_equal(state_level(replica_of(ring, roles->leader)->state), 3);
}

static void cut_link(struct ring *ring, const struct roles *roles, unsigned cut)
{
    ring->cut[roles->far][roles->leader] = (cut & CUT_THERE) != 0;
    ring->cut[roles->leader][roles->far] = (cut & CUT_BACK) != 0;
}

/* Ask for a row there, wait so long, and see its step; 0: no answer. */
static uint32_t step_by_query(struct ring *ring, uint64_t id, const char *tag, uint64_t within_ms)
{
    struct tag_rows rows = {0};
    struct asked asked;
    uint32_t step = 0;

    asked_get(&asked, tag);
    ask(ring, id, &asked, within_ms);
    ring_run_ms(ring, within_ms + 20);
    assert_int_equal(asked.done, 1);
    if (asked.base.status == 0) {
        assert_int_equal(tag_rows_decode(asked.base.reply.data, asked.base.reply.len, &rows), 0);
        assert_int_equal(rows.count, 1);
        step = rows.rows[0].step;
        tag_rows_release(&rows);
    }
    asked_free(&asked);
    return step;
}

/* Change a tag at the leader. One that does not hear a voter sends entries with its heartbeats. */
static void change(struct ring *ring, uint64_t id, uint32_t step)
{
    struct asked put;

    asked_put(&put, "a", step);
    ask(ring, id, &put, PATIENCE_MS);
    ring_run_ms(ring, 2 * RING_HEARTBEAT_MS);
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, 0);
    asked_free(&put);
}

/* --- every direction --- */

/* A change, a linearizable read and a strict id, asked for at once, just when the link was cut. */
static void answered_round_a_cut(unsigned cut)
{
    RING ring = {0};
    struct roles roles;
    struct asked put;
    struct asked get;
    struct asked strict;
    uint64_t term;

    start(&ring, 3, &roles);
    term = term_of(&ring, roles.leader);
    cut_link(&ring, &roles, cut);
    asked_put(&put, "b", 20);
    asked_get(&get, "a");
    ask(&ring, roles.far, &put, PATIENCE_MS);
    ask(&ring, roles.far, &get, PATIENCE_MS);
    strict_ask(&ring, roles.far, &strict, "s", 1, NULL, PATIENCE_MS);
    ring_run_ms(&ring, FOUND_MS);
    assert_int_equal(put.done + get.done + strict.done, 3);
    assert_int_equal(put.base.status, 0);
    assert_int_equal(get.base.status, 0);
    (void)strict_first(&strict);
    assert_int_equal(requests_of(&ring, roles.far)->route.forwarder, roles.forwarder);
    /* Now that the route is known, nothing waits; also a long time after, without an election. */
    for (unsigned i = 0; i < 20; i++) {
        change(&ring, roles.leader, 100 + i);
        assert_int_equal(step_by_query(&ring, roles.far, "a", 50), 100 + i);
        ring_run_ms(&ring, 300);
    }
    assert_int_equal(term_of(&ring, roles.leader), term);
    assert_int_equal(term_of(&ring, roles.far), term);
    assert_true(atomic_load(&ring_node(&ring, roles.far)->ids.health.seen.leader_known));
    assert_int_equal(atomic_load(&ring_node(&ring, roles.far)->ids.health.seen.leader_through),
                     roles.forwarder);
    scene_expect_idle(&ring, false);
    asked_free(&put);
    asked_free(&get);
    asked_free(&strict);
}

static void test_requests_that_do_not_get_there_go_round(void **state)
{
    (void)state;
    answered_round_a_cut(CUT_THERE);
}

static void test_requests_whose_answers_do_not_come_back_go_round(void **state)
{
    (void)state;
    answered_round_a_cut(CUT_BACK);
}

static void test_requests_go_round_a_link_that_is_cut_both_ways(void **state)
{
    (void)state;
    answered_round_a_cut(CUT_BOTH);
}

/* A node that never heard of this leader asks at once: nothing has to time out first. */
static void test_a_node_that_knows_no_leader_goes_through_one_that_does(void **state)
{
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, 3, &roles);
    cut_link(&ring, &roles, CUT_BOTH);
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    assert_int_equal(driver_leader(&ring_node(&ring, roles.far)->replica.driver), 0);
    assert_true(atomic_load(&ring_node(&ring, roles.far)->ids.health.seen.leader_known));
    assert_int_equal(step_by_query(&ring, roles.far, "a", 20), 10);
    scene_expect_idle(&ring, false);
}

/* --- and the direct route --- */

static void test_nothing_is_probed_while_answers_come(void **state)
{
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, 3, &roles);
    ring_run_ms(&ring, 2 * SESSION_TIDY_MS); /* the nodes themselves have nothing more to say */
    memset(ring.passed, 0, sizeof ring.passed);
    for (unsigned i = 0; i < 50; i++) {
        ring_make(&ring, roles.far, "a", 20 + i);
        ring_run_ms(&ring, 40);
    }
    assert_int_equal(ring.passed[FRAME_REQUEST], 50);
    assert_int_equal(ring.passed[FRAME_PROBE], 0);
    assert_int_equal(ring.passed[FRAME_FORWARD], 0);
    scene_expect_idle(&ring, false);
}

/* The leader says at once that it is there, whatever its disk does: no detour, no second copy. */
static void test_a_slow_leader_is_not_taken_for_one_that_is_cut_off(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked put;

    (void)state;
    start(&ring, 3, &roles);
    ring_node(&ring, roles.leader)->disk_held = true;
    ring_node(&ring, roles.forwarder)->disk_held = true;
    asked_put(&put, "b", 20);
    ask(&ring, roles.far, &put, PATIENCE_MS);
    ring_run_ms(&ring, RING_ELECTION_MS - 20);
    assert_int_equal(put.done, 0);
    assert_in_range(ring.passed[FRAME_PROBE], 2, 2 * RING_ELECTION_MS / RING_HEARTBEAT_MS);
    ring_node(&ring, roles.leader)->disk_held = false;
    ring_node(&ring, roles.forwarder)->disk_held = false;
    ring_settle(&ring);
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, 0);
    assert_int_equal(ring.passed[FRAME_REQUEST], 1);
    assert_int_equal(ring.passed[FRAME_FORWARD], 0);
    scene_expect_idle(&ring, false);
    asked_free(&put);
}

static void heals(unsigned cut)
{
    RING ring = {0};
    struct roles roles;

    start(&ring, 3, &roles);
    cut_link(&ring, &roles, cut);
    ring_run_ms(&ring, 2 * RING_ELECTION_MS);
    assert_int_equal(step_by_query(&ring, roles.far, "a", FOUND_MS), 10);
    assert_int_equal(requests_of(&ring, roles.far)->route.state, ROUTE_FORWARDED);
    cut_link(&ring, &roles, 0);
    /* A leader that is heard again is asked directly at once; else it is found by a probe. */
    ring_run_ms(&ring, (cut & CUT_BACK ? 2 : 6) * RING_HEARTBEAT_MS);
    assert_int_equal(requests_of(&ring, roles.far)->route.state, ROUTE_DIRECT);
    assert_int_equal(atomic_load(&ring_node(&ring, roles.far)->ids.health.seen.leader_through), 0);
    memset(ring.passed, 0, sizeof ring.passed);
    assert_int_equal(step_by_query(&ring, roles.far, "a", 20), 10);
    ring_run_ms(&ring, 1000);
    assert_int_equal(ring.passed[FRAME_REQUEST], 1);
    assert_int_equal(ring.passed[FRAME_FORWARD], 0);
    assert_int_equal(ring.passed[FRAME_PROBE], 0);
    scene_expect_idle(&ring, false);
}

static void test_the_direct_way_is_taken_again_when_it_works(void **state)
{
    (void)state;
    heals(CUT_THERE);
    heals(CUT_BACK);
    heals(CUT_BOTH);
}

/* Nothing waits for the next round of questions when a link comes up. */
static void test_a_link_that_comes_up_is_tried_at_once(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked get;

    (void)state;
    start(&ring, 3, &roles);
    ring_isolate(&ring, roles.far, true);
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    asked_get(&get, "a");
    ask(&ring, roles.far, &get, PATIENCE_MS);
    ring_run_ms(&ring, RING_HEARTBEAT_MS / 5); /* everybody was just asked, for nothing */
    assert_int_equal(requests_of(&ring, roles.far)->route.state, ROUTE_SOUGHT);
    ring_isolate(&ring, roles.far, false);
    ring.lost[FRAME_RAFT] = true; /* no heartbeat comes to help */
    replica_link_changed(&ring_node(&ring, roles.far)->replica.peers.receiver, roles.forwarder,
                         true);
    ring_settle(&ring);
    ring.lost[FRAME_RAFT] = false;
    ring_run_ms(&ring, RING_HEARTBEAT_MS / 2);
    assert_int_equal(get.done, 1);
    assert_int_equal(get.base.status, 0);
    asked_free(&get);
}

/* A request that was under way when the link was cut, and one whose member dies under it. */
static void test_a_member_that_goes_is_replaced_by_another(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked put;
    uint64_t forwarder;

    (void)state;
    start(&ring, 4, &roles);
    cut_link(&ring, &roles, CUT_BOTH);
    assert_int_equal(step_by_query(&ring, roles.far, "a", FOUND_MS), 10);
    forwarder = requests_of(&ring, roles.far)->route.forwarder;
    assert_int_not_equal(forwarder, 0);
    asked_put(&put, "b", 20);
    ring.cut[forwarder][roles.far] = true; /* it gets there, and its answer does not come back */
    ask(&ring, roles.far, &put, PATIENCE_MS);
    ring_run_ms(&ring, 2 * FOUND_MS);
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, 0);
    assert_int_not_equal(requests_of(&ring, roles.far)->route.forwarder, forwarder);
    assert_int_not_equal(requests_of(&ring, roles.far)->route.forwarder, 0);
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    scene_expect_idle(&ring, false);
    asked_free(&put);
}

/* The link tells, and nothing has to time out, also just after the member was found. But there is
 * a pause between two searches. */
static void test_a_member_whose_link_breaks_is_replaced_at_once(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked get;
    uint64_t forwarder;

    (void)state;
    start(&ring, 4, &roles);
    cut_link(&ring, &roles, CUT_BOTH);
    asked_get(&get, "a");
    ask(&ring, roles.far, &get, PATIENCE_MS);
    for (unsigned i = 0; i < FOUND_MS && get.done == 0; i++) {
        ring_run_ms(&ring, 1);
    }
    assert_int_equal(get.done, 1);
    asked_free(&get);
    forwarder = requests_of(&ring, roles.far)->route.forwarder;
    ring.cut[forwarder][roles.far] = true;
    ring_node(&ring, roles.far)->net.down[forwarder] = true;
    memset(ring.passed, 0, sizeof ring.passed);
    replica_link_changed(&ring_node(&ring, roles.far)->replica.peers.receiver, forwarder, false);
    ring_settle(&ring);
    assert_int_equal(requests_of(&ring, roles.far)->route.state, ROUTE_SOUGHT);
    assert_int_equal(ring.passed[FRAME_PROBE], 0);
    assert_int_equal(step_by_query(&ring, roles.far, "a", 20), 10);
    assert_int_not_equal(requests_of(&ring, roles.far)->route.forwarder, forwarder);
}

/* --- a leader that is none any more --- */

/* The leader gives its place to the member in between, which the far node does not reach: that one
 * hears of no new leader, and believes the old one, with which its links work. */
static void depose(struct ring *ring, const struct roles *roles)
{
    ring_isolate(ring, roles->far, true);
    assert_false(driver_transfer(&replica_of(ring, roles->leader)->driver, roles->forwarder));
    ring_run_ms(ring, RING_HEARTBEAT_MS);
    assert_true(driver_leads(&replica_of(ring, roles->forwarder)->driver));
    ring_isolate(ring, roles->far, false);
    ring->cut[roles->far][roles->forwarder] = true;
    ring->cut[roles->forwarder][roles->far] = true;
    assert_int_equal(driver_leader(&replica_of(ring, roles->far)->driver), roles->leader);
}

/* It says so, and that is no sign that requests get to a leader this way. */
static void test_who_says_that_it_does_not_lead_is_left_at_once(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked put;
    uint64_t forwarder;

    (void)state;
    start(&ring, 4, &roles);
    depose(&ring, &roles);
    asked_put(&put, "b", 20);
    ask(&ring, roles.far, &put, PATIENCE_MS);
    ring_run_ms(&ring, RING_HEARTBEAT_MS);
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, 0);
    assert_int_equal(driver_leader(&replica_of(&ring, roles.far)->driver), roles.leader);
    forwarder = requests_of(&ring, roles.far)->route.forwarder;
    assert_int_equal(forwarder, 10 - roles.leader - roles.far - roles.forwarder);
    scene_expect_idle(&ring, false);
    asked_free(&put);
}

/* A node without a vote has no election to remind it; the old leader may be its only route. */
static void test_a_standby_reaches_a_new_leader_through_the_old_one(void **state)
{
    RING ring = {0};
    struct roles roles;

    (void)state;
    start(&ring, 3, &roles);
    assert_int_equal(
        driver_change(&replica_of(&ring, roles.leader)->driver, roles.far, NULL, ROLE_STANDBY), 0);
    ring_run_ms(&ring, 2 * RING_HEARTBEAT_MS);
    assert_int_equal(ring_role(&ring, roles.far, roles.far), ROLE_STANDBY);
    depose(&ring, &roles);
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    assert_int_equal(driver_leader(&replica_of(&ring, roles.far)->driver), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(step_by_query(&ring, roles.far, "a", 50), 10);
        ring_run_ms(&ring, 300);
    }
    assert_int_equal(requests_of(&ring, roles.far)->route.forwarder, roles.leader);
    scene_expect_idle(&ring, false);
}

/* --- what a node says of its own accord --- */

/* It hears that the tag becomes strict, and says that it holds nothing of it any more. Its log may
 * never tell it that this was heard: it says so again, but not all the time. */
static void test_a_node_says_round_the_cut_that_it_holds_nothing(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked open;
    uint64_t last;

    (void)state;
    start(&ring, 3, &roles);
    asked_open(&open, "a");
    ask(&ring, roles.far, &open, PATIENCE_MS);
    ring_settle(&ring);
    (void)ring_take(&ring, roles.far, "a", 1);
    ring.lost[FRAME_FORWARD] = true;
    cut_link(&ring, &roles, CUT_THERE);
    strict_mode(&ring, roles.leader, "a", TAG_MODE_STRICT);
    ring_run_ms(&ring, FOUND_MS);
    assert_true(ring_row(&ring, roles.far, "a")->recalling);
    assert_true(ring_row(&ring, roles.leader, "a")->recalling);
    cut_link(&ring, &roles, CUT_BOTH);
    ring_run_ms(&ring, 6000); /* what it has said by then is over */
    assert_true(ring_row(&ring, roles.leader, "a")->recalling);
    ring.lost[FRAME_FORWARD] = false;
    ring_run_ms(&ring, 500);
    assert_true(ring_row(&ring, roles.far, "a")->recalling); /* for all it knows */
    assert_false(ring_row(&ring, roles.leader, "a")->recalling);
    assert_true(strict_take(&ring, roles.leader, "a", 1, NULL) > 0);
    last = entry_log_last(&ring_node(&ring, roles.leader)->replica.driver.log);
    ring_run_ms(&ring, 10000);
    /* Twice, and what sessions have to say after each; every 100 ms would be a hundred. */
    assert_in_range(entry_log_last(&ring_node(&ring, roles.leader)->replica.driver.log), last,
                    last + 12);
    asked_free(&open);
}

/* --- answers that are late --- */

/* A row that was told before the tag was deleted and made again comes after the log has told of
 * that: round a cut link it may. The node must not go back to it. */
static void test_a_row_that_comes_after_newer_ones_is_not_taken(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked deleted;
    struct asked open;
    struct buf query = BUF_INIT;
    struct buf frame = BUF_INIT;
    struct wire_reply reply = {0};
    struct buf rows = BUF_INIT;
    const struct tag_row *row;

    (void)state;
    start(&ring, 3, &roles);
    ring_make(&ring, roles.leader, "n", 10);
    for (unsigned i = 0; i < 2; i++) {
        asked_delete(&deleted, "n");
        ask(&ring, roles.leader, &deleted, PATIENCE_MS);
        ring_run_ms(&ring, 2 * RING_HEARTBEAT_MS);
        assert_int_equal(deleted.done, 1);
        asked_free(&deleted);
        cut_link(&ring, &roles, CUT_BACK);
        ring_make(&ring, roles.leader, "n", 10);
        if (i == 0) { /* it knows the tag as deleted, and asks the leader */
            query_get_encode(&query, "n", 1);
            reply.status = fsm_query(ring_node(&ring, roles.leader)->ids.context.fsm, query.data,
                                     query.len, &rows);
            asked_open(&open, "n");
            ask(&ring, roles.far, &open, PATIENCE_MS);
            ring_settle(&ring);
            reply.id = TAILQ_FIRST(&requests_of(&ring, roles.far)->sent)->id;
        }
    }
    cut_link(&ring, &roles, 0);
    ring_run_ms(&ring, 2 * RING_HEARTBEAT_MS);
    row = ring_row(&ring, roles.far, "n");
    assert_int_equal(row->generation, ring_row(&ring, roles.leader, "n")->generation);
    assert_int_equal(open.done, 0);
    reply.payload = rows.data;
    reply.payload_len = rows.len;
    wire_reply_encode(&reply, &frame);
    assert_true(replica_receive(&ring_node(&ring, roles.far)->replica.peers.receiver, roles.leader,
                                FRAME_REPLY, frame.data, frame.len));
    ring_settle(&ring);
    assert_int_equal(open.done, 1);
    assert_int_equal(open.base.status, 0);
    assert_int_equal(
        id_table_find(ring_node(&ring, roles.far)->ids.table, "n", 1)->refill.generation,
        row->generation);
    asked_free(&open);
    buf_free(&query);
    buf_free(&rows);
    buf_free(&frame);
}

/* A pause is no new generation: what was told of the tag before it is no reason to hand out ids. */
static void test_a_row_of_before_a_pause_is_not_taken(void **state)
{
    RING ring = {.meet = true, .upgrade.automatic = true};
    const struct tag_put put = {
        .name = "a", .name_len = 1, .step_fields = TAG_FIELD_PAUSED, .paused = true};
    const struct command_list list = {.wall_ms = FAKE_WALL_MS, .stepped = true};
    struct wire_reply reply = {0};
    struct buf query = BUF_INIT;
    struct buf frame = BUF_INIT;
    struct buf rows = BUF_INIT;
    struct roles roles;
    struct asked paused;
    struct asked open;

    (void)state;
    start_at_level_3(&ring, &roles);
    query_get_encode(&query, "a", 1);
    reply.status =
        fsm_query(ring_node(&ring, roles.leader)->ids.context.fsm, query.data, query.len, &rows);
    cut_link(&ring, &roles, CUT_BACK);
    asked_open(&open, "a");
    open.base.fresh = true;
    ask(&ring, roles.far, &open, PATIENCE_MS);
    ring_settle(&ring);
    reply.id = TAILQ_FIRST(&requests_of(&ring, roles.far)->sent)->id;
    asked_put(&paused, "a", 10);
    paused.base.payload.len = 0;
    command_put(&paused.base.payload, COMMAND_TAGS_PUT_STEPPED, &list);
    command_item_put(&paused.base.payload, COMMAND_TAGS_PUT_STEPPED, &put);
    command_items_end(&paused.base.payload);
    cut_link(&ring, &roles, 0);
    ask(&ring, roles.leader, &paused, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(paused.base.status, 0);
    ring_run_ms(&ring, 2 * RING_HEARTBEAT_MS);
    assert_true(ring_row(&ring, roles.far, "a")->paused);
    assert_int_equal(open.done, 0);
    reply.payload = rows.data;
    reply.payload_len = rows.len;
    wire_reply_encode(&reply, &frame);
    assert_true(scene_receive(&ring, roles.far, roles.leader, FRAME_REPLY, &frame));
    ring_settle(&ring);
    assert_int_equal(open.done, 1);
    assert_int_equal(
        atomic_load(&id_table_find(ring_node(&ring, roles.far)->ids.table, "a", 1)->state),
        ID_TAG_PAUSED);
    asked_free(&paused);
    asked_free(&open);
    buf_free(&query);
    buf_free(&rows);
}

/* A tag is paused or resumed while the link to the leader is cut: this node's log does not have it,
 * and asks. */
static void test_what_the_log_does_not_have_yet_is_asked_for(void **state)
{
    RING ring = {.meet = true, .upgrade.automatic = true};
    struct tag_put put = {
        .name = "a", .name_len = 1, .step_fields = TAG_FIELD_PAUSED, .paused = true};
    const struct command_list list = {.wall_ms = FAKE_WALL_MS, .stepped = true};
    struct roles roles;

    (void)state;
    start_at_level_3(&ring, &roles);
    cut_link(&ring, &roles, CUT_BOTH);
    for (unsigned i = 0; i < 2; i++) {
        struct asked change;
        struct asked open;

        put.paused = i == 0;
        asked_put(&change, "a", 10);
        change.base.payload.len = 0;
        command_put(&change.base.payload, COMMAND_TAGS_PUT_STEPPED, &list);
        command_item_put(&change.base.payload, COMMAND_TAGS_PUT_STEPPED, &put);
        command_items_end(&change.base.payload);
        ask(&ring, roles.leader, &change, PATIENCE_MS);
        ring_settle(&ring);
        assert_int_equal(change.base.status, 0);
        asked_open(&open, "a");
        open.base.fresh = true;
        ask(&ring, roles.far, &open, PATIENCE_MS);
        ring_run_ms(&ring, FOUND_MS);
        assert_int_equal(open.done, 1);
        assert_int_equal(open.base.status, 0);
        assert_false(ring_row(&ring, roles.far, "a")->paused); /* its log has neither */
        assert_int_equal(
            atomic_load(&id_table_find(ring_node(&ring, roles.far)->ids.table, "a", 1)->state),
            put.paused ? ID_TAG_PAUSED : ID_TAG_ACTIVE);
        asked_free(&change);
        asked_free(&open);
    }
}

/* --- no route --- */

/* Everybody is asked, and nobody has a leader: the deadline decides, and the reason is the true
 * one. */
static void test_without_a_leader_anywhere_the_deadline_decides(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct asked put;

    (void)state;
    start(&ring, 3, &roles);
    ring_crash(&ring, roles.leader);
    ring.lost[FRAME_RAFT] = true; /* no votes */
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    memset(ring.passed, 0, sizeof ring.passed);
    asked_put(&put, "b", 20);
    ask(&ring, roles.far, &put, 1000);
    ring_run_ms(&ring, 1020);
    assert_int_equal(put.done, 1);
    assert_int_equal(put.base.status, ERR_NO_LEADER);
    assert_false(atomic_load(&ring_node(&ring, roles.far)->ids.health.seen.leader_known));
    assert_int_equal(ring.passed[FRAME_FORWARD], 0);
    /* Questions and answers, once a heartbeat from who has a request, and seldom from the other. */
    assert_in_range(ring.passed[FRAME_PROBE], 2 * 10, 2 * (1000 / RING_HEARTBEAT_MS + 6));
    scene_expect_idle(&ring, false);
    asked_free(&put);
}

static void receive_probe(struct ring *ring, uint64_t to, uint64_t from, uint8_t kind,
                          uint64_t round)
{
    const struct wire_probe probe = {kind, 0, round};
    struct buf frame = BUF_INIT;

    wire_probe_encode(&probe, &frame);
    assert_true(replica_receive(&ring_node(ring, to)->replica.peers.receiver, from, FRAME_PROBE,
                                frame.data, frame.len));
    buf_free(&frame);
}

/* An answer to an earlier search, or to none, says nothing of now. */
static void test_a_late_yes_is_not_believed(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct leader_route *route;

    (void)state;
    start(&ring, 3, &roles);
    route = &requests_of(&ring, roles.far)->route;
    ring_isolate(&ring, roles.far, true);
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    assert_int_equal(route->state, ROUTE_SOUGHT);
    receive_probe(&ring, roles.far, roles.forwarder, WIRE_PROBE_YES, route->first_round - 1);
    assert_int_equal(route->state, ROUTE_SOUGHT);
    receive_probe(&ring, roles.far, roles.forwarder, WIRE_PROBE_YES, route->round + 1);
    assert_int_equal(route->state, ROUTE_SOUGHT);
    receive_probe(&ring, roles.far, roles.forwarder, WIRE_PROBE_NO, route->round);
    assert_int_equal(route->state, ROUTE_SOUGHT);
    receive_probe(&ring, roles.far, roles.forwarder, WIRE_PROBE_YES, route->round);
    assert_int_equal(route->state, ROUTE_FORWARDED);
    receive_probe(&ring, roles.far, roles.forwarder, WIRE_PROBE_NO, route->round);
    assert_int_equal(route->state, ROUTE_SOUGHT);
}

/* Nor a no to what was asked before the leader was heard. */
static void test_a_late_no_is_not_believed(void **state)
{
    RING ring = {0};
    struct roles roles;
    struct leader_route *route;

    (void)state;
    start(&ring, 3, &roles);
    route = &requests_of(&ring, roles.far)->route;
    cut_link(&ring, &roles, CUT_BACK);
    ring_run_ms(&ring, 2 * RING_ELECTION_MS);
    assert_int_equal(route->state, ROUTE_FORWARDED);
    cut_link(&ring, &roles, 0);
    ring_run_ms(&ring, 2 * RING_HEARTBEAT_MS);
    assert_int_equal(route->state, ROUTE_DIRECT);
    receive_probe(&ring, roles.far, roles.leader, WIRE_PROBE_NO, route->round);
    assert_int_equal(route->state, ROUTE_DIRECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_that_do_not_get_there_go_round),
        cmocka_unit_test(test_requests_whose_answers_do_not_come_back_go_round),
        cmocka_unit_test(test_requests_go_round_a_link_that_is_cut_both_ways),
        cmocka_unit_test(test_a_node_that_knows_no_leader_goes_through_one_that_does),
        cmocka_unit_test(test_nothing_is_probed_while_answers_come),
        cmocka_unit_test(test_a_slow_leader_is_not_taken_for_one_that_is_cut_off),
        cmocka_unit_test(test_the_direct_way_is_taken_again_when_it_works),
        cmocka_unit_test(test_a_link_that_comes_up_is_tried_at_once),
        cmocka_unit_test(test_a_member_that_goes_is_replaced_by_another),
        cmocka_unit_test(test_a_member_whose_link_breaks_is_replaced_at_once),
        cmocka_unit_test(test_who_says_that_it_does_not_lead_is_left_at_once),
        cmocka_unit_test(test_a_standby_reaches_a_new_leader_through_the_old_one),
        cmocka_unit_test(test_a_node_says_round_the_cut_that_it_holds_nothing),
        cmocka_unit_test(test_a_row_that_comes_after_newer_ones_is_not_taken),
        cmocka_unit_test(test_a_row_of_before_a_pause_is_not_taken),
        cmocka_unit_test(test_what_the_log_does_not_have_yet_is_asked_for),
        cmocka_unit_test(test_without_a_leader_anywhere_the_deadline_decides),
        cmocka_unit_test(test_a_late_yes_is_not_believed),
        cmocka_unit_test(test_a_late_no_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
