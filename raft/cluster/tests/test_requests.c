/*
 * test_requests.c - commands on their way through the cluster: answered by the leader, forwarded,
 * repeated until their deadline. Bounds and refusals are in test_requests_bounds.c, queries in
 * test_requests_read.c.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"
#include "raft/core/tests/core_frames.h"

#define PATIENCE_MS 3000

static void expect_made(const struct asked *asked)
{
    struct put_result result = {0};

    assert_int_equal(asked->done, 1);
    assert_int_equal(asked->base.status, 0);
    assert_int_equal(put_result_decode(asked->base.reply.data, asked->base.reply.len, &result), 0);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.made + result.changed, 1);
}

/* --- the happy path --- */

static void test_the_leader_answers_what_was_applied(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    asked_put(&asked, "a", 10);
    ask(&t->ring, t->leader, &asked, PATIENCE_MS);
    assert_int_equal(asked.done, 0); /* appended, committed by nobody else */
    assert_null(ring_row(&t->ring, t->leader, "a"));
    ring_settle(&t->ring);
    expect_made(&asked);
    assert_non_null(ring_row(&t->ring, t->leader, "a"));
    assert_int_equal(t->ring.passed[FRAME_REQUEST], 0);
    scene_expect_idle(&t->ring, true);
    asked_free(&asked);
}

static void test_a_follower_forwards_and_passes_the_answer_on(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    asked_put(&asked, "a", 10);
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    ring_settle(&t->ring);
    expect_made(&asked);
    assert_int_equal(t->ring.passed[FRAME_REQUEST], 1);
    assert_int_equal(t->ring.passed[FRAME_REPLY], 1);
    scene_expect_idle(&t->ring, true);
    asked_free(&asked);
}

static void test_many_commands_of_one_turn(void **state)
{
    struct trio *t = *state;
    struct asked asked[300];
    uint64_t first;

    first = entry_log_last(&ring_node(&t->ring, t->leader)->replica.driver.log) + 1;
    for (unsigned i = 0; i < 300; i++) {
        char name[16];

        snprintf(name, sizeof name, "tag-%u", i);
        asked_put(&asked[i], name, 10);
        asked[i].base.deadline_ms = t->ring.clock.now_ms + PATIENCE_MS;
        id_service_submit(&ring_node(&t->ring, t->leader)->ids, &asked[i].base);
    }
    ring_settle(&t->ring);
    for (unsigned i = 0; i < 300; i++) {
        expect_made(&asked[i]);
        asked_free(&asked[i]);
    }
    assert_int_equal(entry_log_last(&ring_node(&t->ring, t->leader)->replica.driver.log),
                     first + 299);
    scene_expect_idle(&t->ring, true);
}

/* --- the leader is not the leader (any more) --- */

static void reply_not_leader(struct ring *ring, uint64_t to, uint64_t from, uint64_t id)
{
    const struct wire_reply reply = {.id = id, .status = ERR_NOT_LEADER};
    struct buf frame = BUF_INIT;

    wire_reply_encode(&reply, &frame);
    assert_true(replica_receive(&ring_node(ring, to)->replica.peers.receiver, from, FRAME_REPLY,
                                frame.data, frame.len));
    buf_free(&frame);
}

static void test_not_leader_is_tried_again_after_a_pause(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    asked_put(&asked, "a", 10);
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    fake_net_clear(&ring_node(&t->ring, t->follower)->net); /* it never gets there */
    reply_not_leader(&t->ring, t->follower, t->leader,
                     TAILQ_FIRST(&requests_of(&t->ring, t->follower)->sent)->id);
    ring_settle(&t->ring);
    assert_int_equal(asked.done, 0);
    assert_int_equal(t->ring.passed[FRAME_REQUEST], 0); /* not at once: that would be a storm */
    ring_run_ms(&t->ring, 20);
    expect_made(&asked);
    scene_expect_idle(&t->ring, true);
    asked_free(&asked);
}

static void test_a_node_that_does_not_lead_says_so(void **state)
{
    struct trio *t = *state;
    struct wire_request request = {77,   0,          CLUSTER_REQUEST_COMMAND,
                                   1000, NOOP_BYTES, sizeof NOOP_BYTES};
    struct buf frame = BUF_INIT;
    struct fake_frame *sent;
    struct wire_reply reply;

    wire_request_encode(&request, &frame);
    assert_true(replica_receive(&ring_node(&t->ring, t->follower)->replica.peers.receiver,
                                t->leader, FRAME_REQUEST, frame.data, frame.len));
    sent = fake_net_take(&ring_node(&t->ring, t->follower)->net);
    assert_non_null(sent);
    assert_int_equal(sent->type, FRAME_REPLY);
    assert_int_equal(wire_reply_decode(sent->payload.data, sent->payload.len, &reply), 0);
    assert_int_equal(reply.id, 77);
    assert_int_equal(reply.status, ERR_NOT_LEADER);
    fake_frame_free(sent);
    buf_free(&frame);
    scene_expect_idle(&t->ring, true);
}

/* The leader appended it, and then was alone: what became of it nobody knows. It is repeated with
 * the next leader and answered once. */
/* Shows lesson-fence. */
static void test_an_unknown_outcome_is_repeated_with_the_next_leader(void **state)
{
    struct trio *t = *state;
    struct asked local;
    struct asked remote;

    asked_put(&local, "local", 10);
    asked_put(&remote, "remote", 10);
    ask(&t->ring, t->follower, &remote, PATIENCE_MS);
    t->ring.lost[FRAME_RAFT] = true; /* the request gets there, the entry does not leave */
    ask(&t->ring, t->leader, &local, PATIENCE_MS);
    ring_settle(&t->ring);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 2);
    ring_isolate(&t->ring, t->leader, true);
    t->ring.lost[FRAME_RAFT] = false;
    ring_run_ms(&t->ring, 1500);
    assert_int_not_equal(ring_elect(&t->ring), t->leader);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 0); /* it stepped down */
    expect_made(&remote); /* its sender went to the new leader */
    assert_int_equal(local.done, 0);
    ring_isolate(&t->ring, t->leader, false);
    ring_run_ms(&t->ring, 1000);
    expect_made(&local);
    assert_int_equal(remote.done, 1);
    scene_expect_idle(&t->ring, true);
    asked_free(&local);
    asked_free(&remote);
}

/* A leader's own command, of a tag that is not there: apply answers it all the same. */
static void asked_once(struct asked *asked)
{
    const struct grant_item item = {"none", 4, 10};

    asked_put(asked, "none", 10);
    asked->base.once = true;
    asked->base.payload.len = 0;
    command_put(&asked->base.payload, COMMAND_WINDOW,
                &(struct command_list){.wall_ms = FAKE_WALL_MS});
    command_item_put(&asked->base.payload, COMMAND_WINDOW, &item);
    command_items_end(&asked->base.payload);
}

/* R3: it is appended by this node in this term, or not at all. */
static void test_a_command_of_the_leaders_own_goes_to_no_other(void **state)
{
    struct trio *t = *state;
    struct asked there;
    struct asked here;
    struct asked lost;
    struct asked held;

    asked_once(&there);
    ask(&t->ring, t->follower, &there, PATIENCE_MS);
    assert_int_equal(there.base.status, ERR_NOT_LEADER);
    assert_int_equal(t->ring.passed[FRAME_REQUEST], 0);
    asked_once(&here);
    ask(&t->ring, t->leader, &here, PATIENCE_MS);
    ring_settle(&t->ring);
    assert_int_equal(here.done, 1);
    assert_int_equal(here.base.status, 0);
    asked_once(&lost);
    t->ring.lost[FRAME_RAFT] = true;
    ask(&t->ring, t->leader, &lost, PATIENCE_MS);
    asked_once(&held); /* waits, as all do during a handover */
    assert_false(replica_transfer(&ring_node(&t->ring, t->leader)->replica));
    ask(&t->ring, t->leader, &held, PATIENCE_MS);
    assert_non_null(TAILQ_FIRST(&requests_of(&t->ring, t->leader)->waiting));
    ring_isolate(&t->ring, t->leader, true);
    t->ring.lost[FRAME_RAFT] = false;
    ring_run_ms(&t->ring, 1500);
    assert_int_not_equal(ring_elect(&t->ring), t->leader);
    assert_int_equal(lost.done, 1); /* long before its deadline */
    assert_int_equal(lost.base.status, ERR_NOT_LEADER);
    assert_int_equal(held.done, 1);
    assert_int_equal(held.base.status, ERR_NOT_LEADER);
    assert_int_equal(requests_of(&t->ring, t->leader)->count, 0);
    ring_isolate(&t->ring, t->leader, false);
    ring_run_ms(&t->ring, 1000);
    assert_int_equal(lost.done, 1);
    scene_expect_idle(&t->ring, true);
    asked_free(&there);
    asked_free(&here);
    asked_free(&lost);
    asked_free(&held);
}

/* Should ever another leader's entry be applied in its place, it is no answer. */
static void test_another_entry_in_its_place_is_no_answer(void **state)
{
    struct trio *t = *state;
    struct asked asked;
    struct driver *driver;

    t->ring.lost[FRAME_RAFT] = true;
    asked_put(&asked, "a", 10);
    ask(&t->ring, t->leader, &asked, PATIENCE_MS);
    driver = &ring_node(&t->ring, t->leader)->replica.driver;
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 1);
    serving_applied(&requests_of(&t->ring, t->leader)->serving, driver_last_index(driver),
                    driver_term(driver) + 1, "x", 1);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 0);
    assert_non_null(TAILQ_FIRST(&requests_of(&t->ring, t->leader)->waiting));
    assert_int_equal(requests_of(&t->ring, t->leader)->count, 1);
    assert_int_equal(asked.done, 0);
    t->ring.lost[FRAME_RAFT] = false;
    ring_run_ms(&t->ring, 200); /* it is appended again, and recognised as the same change */
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    assert_non_null(ring_row(&t->ring, t->leader, "a"));
    scene_expect_idle(&t->ring, true);
    asked_free(&asked);
}

static void test_requests_wait_while_leadership_is_handed_over(void **state)
{
    struct trio *t = *state;
    struct asked local;
    struct asked remote;

    asked_put(&local, "local", 10);
    asked_put(&remote, "remote", 10);
    assert_false(replica_transfer(&ring_node(&t->ring, t->leader)->replica));
    ask(&t->ring, t->leader, &local, PATIENCE_MS);
    ask(&t->ring, t->follower, &remote, PATIENCE_MS);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 0);
    ring_run_ms(&t->ring, 200);
    assert_true(replica_transfer(&ring_node(&t->ring, t->leader)->replica));
    assert_int_not_equal(ring_elect(&t->ring), t->leader);
    ring_run_ms(&t->ring, 100);
    expect_made(&local);
    expect_made(&remote);
    scene_expect_idle(&t->ring, true);
    asked_free(&local);
    asked_free(&remote);
}

/* --- lost frames --- */

static void lost_once(enum frame_type type, size_t arrived)
{
    RING ring = {0};
    struct asked asked;
    uint64_t leader;
    uint64_t follower;

    scene_start(&ring, &leader, &follower);
    ring.lost[type] = true;
    asked_put(&asked, "a", 10);
    ask(&ring, follower, &asked, PATIENCE_MS);
    ring_run_ms(&ring, RING_ELECTION_MS - 50);
    assert_int_equal(asked.done, 0);
    assert_int_equal(ring.passed[FRAME_REQUEST], arrived);
    ring.lost[type] = false;
    ring_run_ms(&ring, 100);
    expect_made(&asked);
    assert_int_equal(ring.passed[FRAME_REQUEST], arrived + 1);
    scene_expect_idle(&ring, true);
    asked_free(&asked);
}

static void test_a_lost_request_is_repeated_after_an_election_timeout(void **state)
{
    (void)state;
    lost_once(FRAME_REQUEST, 0);
}

static void test_a_lost_reply_is_asked_for_again(void **state)
{
    (void)state;
    lost_once(FRAME_REPLY, 1);
}

static void test_a_broken_link_repeats_at_once(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    t->ring.lost[FRAME_REQUEST] = true;
    asked_put(&asked, "a", 10);
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    ring_settle(&t->ring);
    t->ring.lost[FRAME_REQUEST] = false;
    replica_link_changed(&ring_node(&t->ring, t->follower)->replica.peers.receiver, t->leader,
                         false);
    ring_settle(&t->ring); /* no time goes by */
    expect_made(&asked);
    asked_free(&asked);
}

static void test_an_answer_that_comes_twice_counts_once(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    asked_put(&asked, "a", 10);
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    ring_settle(&t->ring);
    expect_made(&asked);
    reply_not_leader(&t->ring, t->follower, t->leader, asked.base.id);
    ring_run_ms(&t->ring, 50);
    assert_int_equal(asked.done, 1);
    scene_expect_idle(&t->ring, true);
    asked_free(&asked);
}

/* --- deadlines --- */

static void test_deadline_without_a_leader(void **state)
{
    RING ring = {0};
    struct asked asked;

    (void)state;
    ring_start(&ring, 3);
    ring_isolate(&ring, 1, true);
    ring_isolate(&ring, 2, true);
    asked_put(&asked, "a", 10);
    ask(&ring, 1, &asked, 500);
    ring_run_ms(&ring, 495);
    assert_int_equal(asked.done, 0);
    ring_run_ms(&ring, 20);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, ERR_NO_LEADER);
    assert_int_equal(requests_of(&ring, 1)->count, 0);
    asked_free(&asked);
}

static void test_deadline_with_a_leader_that_does_not_answer(void **state)
{
    struct trio *t = *state;
    struct asked asked;

    t->ring.lost[FRAME_REPLY] = true;
    asked_put(&asked, "a", 10);
    ask(&t->ring, t->follower, &asked, 1000);
    ring_run_ms(&t->ring, 995);
    assert_int_equal(asked.done, 0);
    ring_run_ms(&t->ring, 20);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, ERR_TIMEOUT);
    assert_non_null(
        ring_row(&t->ring, t->leader, "a")); /* it did happen: that is what TIMEOUT means */
    scene_expect_idle(&t->ring, true);
    asked_free(&asked);
}

/* A leader whose entry does not get through answers its own client, and keeps the entry's place. */
static void test_deadline_of_what_was_appended(void **state)
{
    struct trio *t = *state;
    struct asked late;
    struct asked next;

    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&t->ring, id)->disk_held = true; /* nothing is acknowledged */
    }
    asked_put(&late, "late", 10);
    asked_put(&next, "next", 10);
    ask(&t->ring, t->leader, &late, 100);
    ask(&t->ring, t->leader, &next, PATIENCE_MS);
    ring_run_ms(&t->ring, 120);
    assert_int_equal(late.done, 1);
    assert_int_equal(late.base.status, ERR_TIMEOUT);
    assert_int_equal(next.done, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_node(&t->ring, id)->disk_held = false;
    }
    ring_settle(&t->ring);
    expect_made(&next); /* and not the answer of the other entry */
    assert_int_equal(late.done, 1);
    assert_non_null(ring_row(&t->ring, t->leader, "late"));
    scene_expect_idle(&t->ring, true);
    asked_free(&late);
    asked_free(&next);
}

/* Its sender has given up: it is not answered any more when it gets through. */
static void test_deadline_of_what_another_node_sent(void **state)
{
    struct trio *t = *state;
    struct wire_request request = {.id = 77, .kind = CLUSTER_REQUEST_COMMAND, .time_left_ms = 50};
    struct buf command = BUF_INIT;
    size_t before;
    struct buf frame = BUF_INIT;

    ring_run_ms(&t->ring, 2 * SESSION_TIDY_MS); /* nobody has anything to say now */
    memset(t->ring.passed, 0, sizeof t->ring.passed);
    t->ring.lost[FRAME_RAFT] = true;
    cluster_command_put(&command, COMMAND_NOOP, NULL);
    session_stamp_put(&command, &(struct session_stamp){t->follower, 1, 1, 1});
    request.payload = command.data;
    request.payload_len = command.len;
    wire_request_encode(&request, &frame);
    buf_free(&command);
    before = requests_of(&t->ring, t->leader)->serving.count;
    assert_true(replica_receive(&ring_node(&t->ring, t->leader)->replica.peers.receiver,
                                t->follower, FRAME_REQUEST, frame.data, frame.len));
    ring_run_ms(&t->ring, 70);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count,
                     before + 1); /* its entry keeps its place */
    t->ring.lost[FRAME_RAFT] = false;
    ring_run_ms(&t->ring, 1000);
    assert_int_equal(requests_of(&t->ring, t->leader)->serving.count, 0);
    assert_int_equal(t->ring.passed[FRAME_REPLY], 0);
    buf_free(&frame);
}

/* What only a leader proposes is not for another node to send: its layout of the first term, its
 * windows, and the keys of what it took from them. */
static void test_what_a_leader_alone_proposes(void **state)
{
    struct trio *t = *state;
    static const struct keyed_item keyed = {
        {.name = "a", .name_len = 1, .key = "k", .key_len = 1, .count = 1}, .first = 1};
    static const struct grant_item window = {"a", 1, 10};
    static const struct snowflake_layout layout = SNOWFLAKE_LEAF_LAYOUT;
    static const enum command_type types[] = {COMMAND_LAYOUT, COMMAND_WINDOW, COMMAND_KEYED};
    const struct command_list list = {.wall_ms = FAKE_WALL_MS, .term = 1};
    const void *const items[] = {NULL, &window, &keyed};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct wire_request request = {
            .id = 77 + i, .kind = CLUSTER_REQUEST_COMMAND, .time_left_ms = 1000};
        uint64_t last = driver_last_index(&replica_of(&t->ring, t->leader)->driver);
        struct buf command = BUF_INIT;
        struct buf frame = BUF_INIT;
        struct fake_frame *sent;
        struct wire_reply reply;

        command_put(&command, types[i], items[i] != NULL ? (const void *)&list : &layout);
        if (items[i] != NULL) {
            command_item_put(&command, types[i], items[i]);
            command_items_end(&command);
        }
        session_stamp_put(&command, &(struct session_stamp){t->follower, 1, 1000 + i, 1});
        request.payload = command.data;
        request.payload_len = command.len;
        wire_request_encode(&request, &frame);
        assert_true(replica_receive(&replica_of(&t->ring, t->leader)->peers.receiver, t->follower,
                                    FRAME_REQUEST, frame.data, frame.len));
        sent = fake_net_take(&ring_node(&t->ring, t->leader)->net);
        assert_non_null(sent);
        assert_int_equal(sent->type, FRAME_REPLY);
        assert_int_equal(wire_reply_decode(sent->payload.data, sent->payload.len, &reply), 0);
        assert_int_equal(reply.status, ERR_REFUSED);
        assert_int_equal(driver_last_index(&replica_of(&t->ring, t->leader)->driver), last);
        fake_frame_free(sent);
        buf_free(&command);
        buf_free(&frame);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIO_TEST(test_the_leader_answers_what_was_applied),
        TRIO_TEST(test_a_follower_forwards_and_passes_the_answer_on),
        TRIO_TEST(test_many_commands_of_one_turn),
        TRIO_TEST(test_not_leader_is_tried_again_after_a_pause),
        TRIO_TEST(test_a_node_that_does_not_lead_says_so),
        TRIO_TEST(test_an_unknown_outcome_is_repeated_with_the_next_leader),
        TRIO_TEST(test_a_command_of_the_leaders_own_goes_to_no_other),
        TRIO_TEST(test_another_entry_in_its_place_is_no_answer),
        TRIO_TEST(test_requests_wait_while_leadership_is_handed_over),
        cmocka_unit_test(test_a_lost_request_is_repeated_after_an_election_timeout),
        cmocka_unit_test(test_a_lost_reply_is_asked_for_again),
        TRIO_TEST(test_a_broken_link_repeats_at_once),
        TRIO_TEST(test_an_answer_that_comes_twice_counts_once),
        cmocka_unit_test(test_deadline_without_a_leader),
        TRIO_TEST(test_deadline_with_a_leader_that_does_not_answer),
        TRIO_TEST(test_deadline_of_what_was_appended),
        TRIO_TEST(test_deadline_of_what_another_node_sent),
        TRIO_TEST(test_what_a_leader_alone_proposes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
