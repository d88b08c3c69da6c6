/*
 * test_changes.c - a node that tells its client of a change hands out nothing any more that the
 * change made old, however far its own log is behind.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"

#define PATIENCE_MS 3000

/* Three nodes; a follower holds ids of two tags from 1 on. */
static void start(struct ring *ring, uint64_t *ret_leader, uint64_t *ret_follower)
{
    const char *const names[] = {"a", "b"};

    ring_start(ring, 3);
    *ret_leader = ring_elect(ring);
    *ret_follower = ring_follower(ring);
    for (unsigned i = 0; i < 2; i++) {
        struct asked open;

        ring_make(ring, *ret_leader, names[i], 10);
        asked_open(&open, names[i]);
        ask(ring, *ret_follower, &open, PATIENCE_MS);
        ring_run_ms(ring, 100);
        assert_int_equal(open.done, 1);
        asked_free(&open);
        assert_true(ring_take(ring, *ret_follower, names[i], 1) == 1);
    }
}

static uint64_t left(struct ring *ring, uint64_t id, const char *name)
{
    const struct id_tag *tag = id_table_find(ring_node(ring, id)->ids.table, name, strlen(name));

    assert_non_null(tag);
    return segment_left(&tag->buffer);
}

static void asked_max_ids(struct asked *asked, bool force, uint64_t a, uint64_t b)
{
    struct tag_put put = {.name = "a", .name_len = 1, .fields = TAG_FIELD_MAX_ID, .max_id = a};

    asked_put(asked, "x", 1);
    asked->base.payload.len = 0;
    command_put(&asked->base.payload, COMMAND_TAGS_PUT,
                &(struct command_list){.force = force, .wall_ms = FAKE_WALL_MS});
    command_item_put(&asked->base.payload, COMMAND_TAGS_PUT, &put);
    put.name = "b";
    put.max_id = b;
    command_item_put(&asked->base.payload, COMMAND_TAGS_PUT, &put);
    command_items_end(&asked->base.payload);
}

/* No time goes by, so the node that answers has not heard yet that the entry is committed. */
static void ask_at_once(struct ring *ring, uint64_t id, struct asked *asked)
{
    uint64_t before = driver_applied(&ring_node(ring, id)->replica.driver)->index;

    ask(ring, id, asked, PATIENCE_MS);
    ring_settle(ring);
    assert_int_equal(asked->done, 1);
    assert_int_equal(asked->base.status, 0);
    assert_true(asked->base.index > before);
    assert_true(driver_applied(&ring_node(ring, id)->replica.driver)->index < asked->base.index);
}

/* Shows P1-tags. */
static void test_a_raise_is_not_acknowledged_before_lower_ids_are_burnt(void **state)
{
    RING ring = {0};
    struct asked asked;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    start(&ring, &leader, &follower);
    asked_max_ids(&asked, false, 5000, 6000);
    assert_int_equal(left(&ring, follower, "a"), 9);
    ask_at_once(&ring, follower, &asked);
    assert_int_equal(left(&ring, follower, "a"), 0);
    assert_int_equal(left(&ring, follower, "b"), 0);
    assert_true(ring_take(&ring, follower, "a", 1) >= 5000);
    assert_true(ring_take(&ring, follower, "b", 1) >= 6000);
    ring_run_ms(&ring, 200); /* and it applies the entry */
    assert_true(left(&ring, follower, "a") > 0);
    asked_free(&asked);
}

static void test_the_leader_has_burnt_them_too(void **state)
{
    RING ring = {0};
    struct asked asked;
    struct asked open;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    start(&ring, &leader, &follower);
    asked_open(&open, "a");
    ask(&ring, leader, &open, PATIENCE_MS);
    ring_settle(&ring);
    assert_true(ring_take(&ring, leader, "a", 1) < 100);
    asked_max_ids(&asked, false, 5000, 6000);
    ask(&ring, leader, &asked, PATIENCE_MS);
    ring_settle(&ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.index,
                     driver_applied(&ring_node(&ring, leader)->replica.driver)->index);
    assert_int_equal(left(&ring, leader, "a"), 0);
    asked_free(&open);
    asked_free(&asked);
}

static void test_a_lowering_is_not_acknowledged_before_higher_ids_are_burnt(void **state)
{
    RING ring = {0};
    struct asked asked;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    start(&ring, &leader, &follower);
    asked_max_ids(&asked, false, 5000, 6000);
    ask_at_once(&ring, follower, &asked);
    asked_free(&asked);
    assert_true(ring_take(&ring, follower, "a", 1) == 5000);
    asked_max_ids(&asked, true, 3, 6000);
    ask_at_once(&ring, follower, &asked);
    assert_int_equal(left(&ring, follower, "a"), 0);
    assert_true(ring_take(&ring, follower, "a", 1) == 3);
    asked_free(&asked);
}

static void test_a_deletion_is_not_acknowledged_before_the_ids_are_burnt(void **state)
{
    RING ring = {0};
    struct asked asked;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    start(&ring, &leader, &follower);
    asked_delete(&asked, "a");
    ask_at_once(&ring, follower, &asked);
    assert_int_equal(left(&ring, follower, "a"), 0);
    assert_int_equal(left(&ring, follower, "b"), 9);
    asked_free(&asked);
}

/* What the client hears may be the answer to a repetition: also then. */
static void test_also_when_the_first_answer_is_lost(void **state)
{
    RING ring = {0};
    struct asked asked;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    start(&ring, &leader, &follower);
    /* The follower gets neither the answer nor what the leader says of the commit. */
    asked_max_ids(&asked, false, 5000, 6000);
    ask(&ring, follower, &asked, PATIENCE_MS);
    ring.lost[FRAME_REPLY] = true;
    ring_settle(&ring);
    assert_int_equal(asked.done, 0);
    assert_int_equal(left(&ring, follower, "a"), 9);
    ring_pause(&ring, follower);
    ring_run_ms(&ring, RING_ELECTION_MS);
    ring.lost[FRAME_REPLY] = false;
    fake_net_clear(&ring_node(&ring, follower)->net);
    while (!STAILQ_EMPTY(&ring_node(&ring, follower)->inbox)) {
        struct fake_frame *frame = STAILQ_FIRST(&ring_node(&ring, follower)->inbox);

        STAILQ_REMOVE_HEAD(&ring_node(&ring, follower)->inbox, link);
        fake_frame_free(frame);
    }
    ring_resume(&ring, follower);
    ring_settle(&ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    assert_int_equal(left(&ring, follower, "a"), 0);
    asked_free(&asked);
}

/* Marks that do not belong to the command: the link is closed, the request is asked anew. */
static void test_an_answer_with_strange_marks_is_refused(void **state)
{
    RING ring = {0};
    struct wire_reply reply = {.marks = (const uint8_t *)"12345678", .marks_len = 7};
    struct buf frame = BUF_INIT;
    struct asked asked;
    uint64_t leader;
    uint64_t follower;

    (void)state;
    start(&ring, &leader, &follower);
    asked_max_ids(&asked, false, 5000, 6000);
    ask(&ring, follower, &asked, PATIENCE_MS);
    reply.id = TAILQ_FIRST(&ring_node(&ring, follower)->replica.requests.sent)->id;
    wire_reply_encode(&reply, &frame);
    assert_false(replica_receive(&ring_node(&ring, follower)->replica.peers.receiver, leader,
                                 FRAME_REPLY, frame.data, frame.len));
    assert_int_equal(asked.done, 0);
    assert_int_equal(left(&ring, follower, "a"), 9);
    ring_settle(&ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(left(&ring, follower, "a"), 0);
    buf_free(&frame);
    asked_free(&asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_raise_is_not_acknowledged_before_lower_ids_are_burnt),
        cmocka_unit_test(test_the_leader_has_burnt_them_too),
        cmocka_unit_test(test_a_lowering_is_not_acknowledged_before_higher_ids_are_burnt),
        cmocka_unit_test(test_a_deletion_is_not_acknowledged_before_the_ids_are_burnt),
        cmocka_unit_test(test_also_when_the_first_answer_is_lost),
        cmocka_unit_test(test_an_answer_with_strange_marks_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
