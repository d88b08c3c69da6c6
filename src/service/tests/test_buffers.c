/*
 * test_buffers.c - what all members hold in memory, asked of one: who answers, who is not asked,
 * who does not answer in time, and lies.
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"

#define PATIENCE_MS 1000

struct looked {
    struct asked asked;
    struct id_buffers out;
};

static struct buffers *buffers_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->ids.buffers;
}

/* Three nodes, with the tag "a". */
static void begin(struct ring *ring)
{
    ring->meet = true;
    ring_start(ring, 3);
    (void)ring_elect(ring);
    ring_make(ring, 1, "a", 10);
}

/* A node has a segment of the tag. */
static void hold(struct ring *ring, uint64_t id)
{
    struct allocator *allocator = ring_node(ring, id)->ids.allocator;
    struct id_tag *tag = allocator_open(allocator, ring_row(ring, id, "a"));

    assert_non_null(tag);
    atomic_store(&tag->refill_wanted, true);
    allocator_want(allocator, tag);
    ring_run_ms(ring, 200);
    assert_true(segment_left(&tag->buffer) > 0);
}

static void begin_look(struct ring *ring, uint64_t id, struct looked *looked)
{
    *looked = (struct looked){0};
    asked_buffers(&looked->asked, &looked->out);
    ask(ring, id, &looked->asked, PATIENCE_MS);
}

static void end_look(struct looked *looked)
{
    for (size_t i = 0; i < looked->out.count; i++) {
        free(looked->out.nodes[i].page.items);
    }
    asked_free(&looked->asked);
}

static const struct id_node_buffers *node_of(const struct looked *looked, uint64_t id)
{
    for (size_t i = 0; i < looked->out.count; i++) {
        if (looked->out.nodes[i].node_id == id) {
            return &looked->out.nodes[i];
        }
    }
    fail();
    return NULL;
}

static void expect_done(const struct looked *looked, int status)
{
    assert_int_equal(looked->asked.done, 1);
    assert_int_equal(looked->asked.base.status, status);
}

static void expect_idle(struct ring *ring)
{
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(buffers_of(ring, id)->count, 0);
    }
    assert_int_equal(ring->refused, 0);
}

static void test_all_answer(void **state)
{
    RING ring = {0};
    struct looked looked;
    const struct id_node_buffers *second;

    (void)state;
    begin(&ring);
    hold(&ring, 2);
    begin_look(&ring, 1, &looked);
    ring_settle(&ring);
    expect_done(&looked, 0);
    assert_int_equal(looked.out.count, 3);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(node_of(&looked, id)->asked);
        assert_true(node_of(&looked, id)->answered);
    }
    second = node_of(&looked, 2);
    assert_int_equal(second->page.count, 1);
    assert_string_equal(second->page.items[0].name, "a");
    assert_int_equal(second->page.items[0].slots[0].end - second->page.items[0].slots[0].next_id,
                     second->page.items[0].slots[0].size);
    assert_int_equal(node_of(&looked, 3)->page.count, 0);
    end_look(&looked);
    expect_idle(&ring);
}

static void test_a_standby_answers_too(void **state)
{
    RING ring = {0};
    struct looked looked;
    uint64_t standby;
    uint64_t leader;

    (void)state;
    begin(&ring);
    leader = ring_elect(&ring);
    standby = ring_follower(&ring);
    assert_int_equal(
        driver_change(&ring_node(&ring, leader)->replica.driver, standby, NULL, ROLE_STANDBY), 0);
    ring_run_ms(&ring, 500);
    assert_int_equal(ring_role(&ring, leader, standby), ROLE_STANDBY);
    begin_look(&ring, leader, &looked);
    ring_settle(&ring);
    expect_done(&looked, 0);
    assert_int_equal(looked.out.count, 3);
    assert_true(node_of(&looked, standby)->answered);
    end_look(&looked);
    expect_idle(&ring);
}

static void test_one_without_a_link(void **state)
{
    RING ring = {0};
    struct looked looked;

    (void)state;
    begin(&ring);
    ring_node(&ring, 1)->net.down[3] = true;
    begin_look(&ring, 1, &looked);
    ring_settle(&ring);
    expect_done(&looked, 0);
    assert_true(node_of(&looked, 2)->answered);
    assert_false(node_of(&looked, 3)->asked);
    end_look(&looked);
    expect_idle(&ring);
}

static void test_silence_ends_at_the_deadline(void **state)
{
    RING ring = {0};
    struct looked looked;

    (void)state;
    begin(&ring);
    ring_pause(&ring, 3);
    begin_look(&ring, 1, &looked);
    ring_run_ms(&ring, PATIENCE_MS - 100);
    assert_int_equal(looked.asked.done, 0);
    ring_run_ms(&ring, 200);
    expect_done(&looked, 0);
    assert_true(node_of(&looked, 2)->answered);
    assert_true(node_of(&looked, 3)->asked);
    assert_false(node_of(&looked, 3)->answered);
    ring_resume(&ring, 3);
    ring_settle(&ring); /* its answer finds nobody */
    assert_false(node_of(&looked, 3)->answered);
    end_look(&looked);
    expect_idle(&ring);
}

static void test_a_link_that_breaks(void **state)
{
    RING ring = {0};
    struct looked looked;

    (void)state;
    begin(&ring);
    ring_pause(&ring, 3);
    begin_look(&ring, 1, &looked);
    ring_settle(&ring);
    assert_int_equal(looked.asked.done, 0);
    replica_link_changed(&replica_of(&ring, 1)->peers.receiver, 3, false);
    ring_settle(&ring);
    expect_done(&looked, 0);
    assert_false(node_of(&looked, 3)->asked);
    ring_resume(&ring, 3);
    end_look(&looked);
    expect_idle(&ring);
}

/* So many wait, and no more; and those end with the node. */
static void test_bound_and_end(void **state)
{
    static struct looked looked[LIMIT_BUFFERS_WAITS + 1];
    RING ring = {0};

    (void)state;
    begin(&ring);
    ring_pause(&ring, 3);
    for (unsigned i = 0; i <= LIMIT_BUFFERS_WAITS; i++) {
        begin_look(&ring, 1, &looked[i]);
    }
    ring_settle(&ring);
    expect_done(&looked[LIMIT_BUFFERS_WAITS], ERR_OVERLOADED);
    assert_int_equal(looked[0].asked.done, 0);
    assert_int_equal(buffers_of(&ring, 1)->count, LIMIT_BUFFERS_WAITS);
    replica_stop(replica_of(&ring, 1));
    (void)replica_turn(replica_of(&ring, 1));
    for (unsigned i = 0; i < LIMIT_BUFFERS_WAITS; i++) {
        expect_done(&looked[i], ERR_SHUTTING_DOWN);
    }
    for (unsigned i = 0; i <= LIMIT_BUFFERS_WAITS; i++) {
        end_look(&looked[i]);
    }
    ring_resume(&ring, 3);
}

/* --- lies --- */

static bool say(struct ring *ring, uint64_t from, const struct wire_buffers *message)
{
    struct buf frame = BUF_INIT;

    wire_buffers_encode(message, &frame);
    return scene_receive(ring, 1, from, FRAME_BUFFERS, &frame);
}

static void test_answers_that_nobody_asked_for(void **state)
{
    static const uint8_t empty[] = {0, 0, 0, 0, 0};
    struct wire_buffers message = {.answer = true, .data = empty, .len = sizeof empty};
    RING ring = {0};
    struct looked looked;

    (void)state;
    begin(&ring);
    ring_pause(&ring, 3);
    begin_look(&ring, 1, &looked);
    ring_settle(&ring);
    message.number = buffers_of(&ring, 1)->number + 1;
    assert_true(say(&ring, 3, &message)); /* to another question */
    message.number--;
    assert_true(say(&ring, 2, &message)); /* twice */
    assert_true(say(&ring, 9, &message)); /* no member */
    assert_int_equal(looked.asked.done, 0);
    message.len--;
    assert_false(say(&ring, 3, &message)); /* no page */
    assert_int_equal(looked.asked.done, 0);
    message.len++;
    assert_true(say(&ring, 3, &message));
    ring_settle(&ring);
    expect_done(&looked, 0);
    assert_true(node_of(&looked, 3)->answered);
    end_look(&looked);
    ring_resume(&ring, 3);
}

static void test_questions_that_are_none(void **state)
{
    struct buf query = BUF_INIT;
    RING ring = {0};

    (void)state;
    begin(&ring);
    assert_false(say(&ring, 2, &(struct wire_buffers){.data = (const uint8_t *)"x", .len = 1}));
    query_get_encode(&query, "a", 1);
    assert_false(say(&ring, 2, &(struct wire_buffers){.data = query.data, .len = query.len}));
    buf_free(&query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_answer),
        cmocka_unit_test(test_a_standby_answers_too),
        cmocka_unit_test(test_one_without_a_link),
        cmocka_unit_test(test_silence_ends_at_the_deadline),
        cmocka_unit_test(test_a_link_that_breaks),
        cmocka_unit_test(test_bound_and_end),
        cmocka_unit_test(test_answers_that_nobody_asked_for),
        cmocka_unit_test(test_questions_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
