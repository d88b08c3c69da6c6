/*
 * test_requests_incarnations.c - answers and commands that must not be taken: those to an earlier
 * incarnation of the node, of a node that was not asked, and what only a leader may propose.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"
#include "src/id/codec/worker.h"

#define PATIENCE_MS 3000

/* An answer arrives at a node, with the row that says that a tag was made. */
static void answer(struct ring *ring, uint64_t from, uint64_t to, uint64_t id,
                   const struct buf *payload)
{
    struct wire_reply reply = {.id = id, .payload = payload->data, .payload_len = payload->len};
    struct buf frame = BUF_INIT;

    wire_reply_encode(&reply, &frame);
    assert_true(replica_receive(&ring_node(ring, to)->replica.peers.receiver, from, FRAME_REPLY,
                                frame.data, frame.len));
    (void)replica_turn(&ring_node(ring, to)->replica);
    buf_free(&frame);
}

#define EARLIER 60
#define BEFORE 16 /* questions of that incarnation before these, by the node itself */

/* Answers to all that an earlier incarnation of a node asked come late: none is taken for the
 * answer to a question of this incarnation, whose numbers so must not begin where those began. */
static void test_answers_to_an_incarnation_answer_nothing(void **state)
{
    struct trio *t = *state;
    struct put_result stale = {.made = 1, .first = {.name = "stale", .name_len = 5, .step = 1}};
    struct asked asked[EARLIER];
    struct buf payload = BUF_INIT;
    struct asked get;
    uint64_t first;
    uint64_t last;

    ring_make(&t->ring, t->leader, "a", 10);
    put_result_encode(&stale, &payload);
    t->ring.lost[FRAME_REPLY] = true;
    for (unsigned i = 0; i < EARLIER; i++) {
        asked_get(&asked[i], "a");
        ask(&t->ring, t->follower, &asked[i], PATIENCE_MS);
    }
    ring_run_ms(&t->ring, 10);
    assert_int_equal(t->ring.passed[FRAME_REQUEST], EARLIER);
    first = TAILQ_FIRST(&requests_of(&t->ring, t->follower)->sent)->id;
    last = TAILQ_LAST(&requests_of(&t->ring, t->follower)->sent, cluster_request_list)->id;
    assert_int_equal(last - first, EARLIER - 1);
    ring_crash(&t->ring, t->follower);
    ring_restart(&t->ring, t->follower);
    ring_run_ms(&t->ring, 500);
    assert_int_equal(driver_leader(&ring_node(&t->ring, t->follower)->replica.driver), t->leader);
    asked_get(&get, "a");
    ask(&t->ring, t->follower, &get, PATIENCE_MS);
    assert_int_equal(get.done, 0);
    assert_false(TAILQ_EMPTY(&requests_of(&t->ring, t->follower)->sent));
    for (uint64_t id = first; id <= last; id++) {
        answer(&t->ring, t->leader, t->follower, id, &payload);
    }
    for (uint64_t i = 1; i <= BEFORE; i++) {
        answer(&t->ring, t->leader, t->follower, first - i, &payload);
    }
    assert_int_equal(get.done, 0);
    t->ring.lost[FRAME_REPLY] = false;
    ring_run_ms(&t->ring, 1000);
    assert_int_equal(get.done, 1);
    assert_int_equal(get.base.status, 0);
    assert_int_not_equal(get.base.reply.len, payload.len);
    for (unsigned i = 0; i < EARLIER; i++) {
        asked_free(&asked[i]);
    }
    asked_free(&get);
    buf_free(&payload);
}

/* A question is answered by the node that was asked, and by nobody else. */
static void test_an_answer_of_another_node_is_none(void **state)
{
    struct trio *t = *state;
    struct buf payload = BUF_INIT;
    const struct cluster_request *sent;
    struct asked asked;
    uint64_t third;

    third = 6 - t->leader - t->follower;
    t->ring.lost[FRAME_REPLY] = true;
    asked_put(&asked, "a", 10);
    ask(&t->ring, t->follower, &asked, PATIENCE_MS);
    sent = TAILQ_FIRST(&requests_of(&t->ring, t->follower)->sent);
    assert_int_equal(sent->sent_to, t->leader);
    answer(&t->ring, third, t->follower, sent->id, &payload);
    assert_int_equal(asked.done, 0);
    t->ring.lost[FRAME_REPLY] = false;
    ring_run_ms(&t->ring, 1000);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    assert_non_null(ring_row(&t->ring, t->leader, "a"));
    asked_free(&asked);
}

/* What only a leader knows is not taken from others: one false digest would end every node. */
static void test_commands_of_leaders_alone_are_refused(void **state)
{
    struct trio *t = *state;
    uint64_t last;

    last = entry_log_last(&ring_node(&t->ring, t->leader)->replica.driver.log);
    for (unsigned i = 0; i < 3; i++) {
        struct member_change change = {.kind = MEMBER_REMOVE, .node_id = t->leader};
        struct wire_request request = {
            .id = 77, .kind = CLUSTER_REQUEST_COMMAND, .time_left_ms = 1000};
        struct buf command = BUF_INIT;
        struct buf frame = BUF_INIT;

        if (i == 0) {
            cluster_command_put(&command, COMMAND_DIGEST,
                                &(struct digest_command){.index = last, .digest = 1});
        } else if (i == 1) {
            cluster_command_put(&command, COMMAND_MEMBER_BEGIN, &change);
        } else {
            cluster_command_put(&command, COMMAND_CLOCK,
                                &(struct clock_command){.cluster_ms = UINT64_MAX});
        }
        request.payload = command.data;
        request.payload_len = command.len;
        wire_request_encode(&request, &frame);
        assert_true(replica_receive(&ring_node(&t->ring, t->leader)->replica.peers.receiver,
                                    t->follower, FRAME_REQUEST, frame.data, frame.len));
        buf_free(&command);
        buf_free(&frame);
    }
    ring_run_ms(&t->ring, 200);
    assert_int_equal(entry_log_last(&ring_node(&t->ring, t->leader)->replica.driver.log), last);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_node(&t->ring, id)->failed_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIO_TEST(test_answers_to_an_incarnation_answer_nothing),
        TRIO_TEST(test_an_answer_of_another_node_is_none),
        TRIO_TEST(test_commands_of_leaders_alone_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
