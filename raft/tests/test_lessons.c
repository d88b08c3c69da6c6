/*
 * test_lessons.c - what other id services learnt by incident about segments and leadership: a
 * transfer with a refill in flight, a leader that comes back within one window, a new leader that
 * has not applied what is committed. The list of all of them, with their tests, is in
 * docs/promises.md.
 *
 * In each case every id that is taken is compared with all ids before, and must lie below the
 * max_id that some node has applied: nothing is served that is not committed.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/tests/raft_strict.h"

#define STEP 10
#define CHANGES_MAX 60

/* Every id that was handed out, in the order of the claims, and by which node. */
struct taken {
    struct {
        struct segment_range range;
        uint64_t node;
    } items[4096];
    size_t count;
};

static struct id_tag *entry_of(struct ring *ring, uint64_t id)
{
    struct id_tag *entry = id_table_find(ring_node(ring, id)->ids.table, "a", 1);

    assert_non_null(entry);
    return entry;
}

/* The highest max_id that a node has applied. */
static uint64_t applied_max_id(struct ring *ring)
{
    uint64_t highest = 0;

    for (uint64_t id = 1; id <= ring->count; id++) {
        const struct tag_row *row = ring_node(ring, id)->up ? ring_row(ring, id, "a") : NULL;

        highest = row != NULL && row->max_id > highest ? row->max_id : highest;
    }
    return highest;
}

static void note(struct ring *ring, struct taken *taken, uint64_t node, struct segment_range range)
{
    assert_true(range.first + range.count <= applied_max_id(ring));
    for (size_t i = 0; i < taken->count; i++) {
        const struct segment_range *before = &taken->items[i].range;

        assert_true(range.first >= before->first + before->count ||
                    before->first >= range.first + range.count);
        assert_true(taken->items[i].node != node || range.first > before->first);
    }
    assert_true(taken->count < sizeof taken->items / sizeof taken->items[0]);
    taken->items[taken->count].range = range;
    taken->items[taken->count++].node = node;
}

/* Take up to `count` ids of what a node holds now. */
static uint32_t take_held(struct ring *ring, struct taken *taken, uint64_t id, uint32_t count)
{
    struct segment_range range;
    struct segment_view view;
    uint32_t got = 0;

    while (got < count &&
           segment_claim(&entry_of(ring, id)->buffer, 1, count - got, &range, &view) == 0) {
        note(ring, taken, id, range);
        got += range.count;
    }
    return got;
}

/* Somebody on the node waits for ids: a refill is asked for. */
static void want(struct ring *ring, uint64_t id)
{
    struct id_tag *entry = entry_of(ring, id);

    if (!atomic_exchange(&entry->refill_wanted, true)) {
        allocator_want(ring_node(ring, id)->ids.allocator, entry);
    }
    (void)replica_turn(&ring_node(ring, id)->replica);
}

/* Take exactly so many, waiting for refills. */
static void take(struct ring *ring, struct taken *taken, uint64_t id, uint32_t count)
{
    uint32_t got = take_held(ring, taken, id, count);

    for (unsigned i = 0; got < count; i++) {
        assert_true(i < 2000);
        want(ring, id);
        ring_run_ms(ring, 5);
        got += take_held(ring, taken, id, count - got);
    }
}

static void open_tag(struct ring *ring, uint64_t id)
{
    struct asked asked;

    asked_open(&asked, "a");
    ask(ring, id, &asked, 1000);
    ring_settle(ring);
    assert_int_equal(asked.done, 1);
    assert_int_equal(asked.base.status, 0);
    asked_free(&asked);
}

static uint64_t start(struct ring *ring, struct taken *taken)
{
    uint64_t leader;

    taken->count = 0;
    ring_start(ring, 3);
    leader = ring_elect(ring);
    ring_run_ms(ring, 100);
    ring_make(ring, leader, "a", STEP);
    ring_run_ms(ring, 100);
    for (uint64_t id = 1; id <= ring->count; id++) {
        open_tag(ring, id);
        take(ring, taken, id, 3);
    }
    return leader;
}

static void finish(struct ring *ring, struct taken *taken)
{
    for (uint64_t id = 1; id <= ring->count; id++) {
        take(ring, taken, id, 3 * STEP);
        assert_int_equal(ring_node(ring, id)->failed_count, 0);
    }
    ring_close(ring);
}

/* --- a transfer with a refill in flight --- */

/* All three nodes have asked for a segment and hold nothing; how far the questions got differs. */
static void ask_for_refills(struct ring *ring, struct taken *taken, unsigned how_far)
{
    for (uint64_t id = 1; id <= ring->count; id++) {
        (void)take_held(ring, taken, id, UINT32_MAX);
        want(ring, id);
    }
    if (how_far > 0) { /* into the leader's log, and no further */
        ring->lost[FRAME_RAFT] = true;
        ring_settle(ring);
        ring->lost[FRAME_RAFT] = false;
    }
    if (how_far > 1) { /* applied there, and the answers are lost */
        ring->lost[FRAME_REPLY] = true;
        ring_run_ms(ring, RING_HEARTBEAT_MS + 10);
        ring->lost[FRAME_REPLY] = false;
    }
}

/* HDDS-8973: the old leader's memory ran ahead of what was committed, and the next one handed the
 * same ids out again. */
/* Shows P1-lead, lesson-transfer. */
static void test_lesson_transfer_with_a_refill_in_flight(void **state)
{
    static struct taken taken;
    struct ring ring = {0};
    uint64_t leader = start(&ring, &taken);

    (void)state;
    for (unsigned i = 0; i < 9; i++) {
        uint64_t old = leader;

        ask_for_refills(&ring, &taken, i % 3);
        for (unsigned k = 0; !replica_transfer(&ring_node(&ring, old)->replica); k++) {
            assert_true(k < 1000);
            ring_run_ms(&ring, 1);
        }
        leader = ring_elect(&ring);
        assert_true(leader != old);
        for (uint64_t id = 1; id <= ring.count; id++) {
            take(&ring, &taken, id, STEP / 2);
        }
    }
    finish(&ring, &taken);
}

/* --- A, B, A --- */

/* PD#4885, Vitess#3116: who leads again took what it had in memory for what holds now. Here a node
 * leads, loses its place with a refill of its own in its log, and leads again, all within the
 * segment that it serves from. */
/* Shows P1-lead, lesson-aba. */
static void test_lesson_a_b_a_within_one_segment(void **state)
{
    static struct taken taken;
    struct ring ring = {0};
    uint64_t first = start(&ring, &taken);
    uint64_t leader = first;
    unsigned returns = 0;

    (void)state;
    for (unsigned i = 0; returns < 3; i++) {
        uint64_t before = leader;

        assert_true(i < CHANGES_MAX);
        assert_int_equal(take_held(&ring, &taken, first, 1), 1);
        want(&ring, leader);
        if (i % 2 == 0) { /* in the leader's log alone */
            ring.cut[leader][1] = ring.cut[leader][2] = ring.cut[leader][3] = true;
            ring_settle(&ring);
        }
        leader = strict_depose(&ring, before);
        returns += leader == first && before != first;
        for (uint64_t id = 1; id <= ring.count; id++) {
            if (id != first) {
                take(&ring, &taken, id, STEP);
            }
        }
        if (segment_left(&entry_of(&ring, first)->buffer) < 2) {
            take(&ring, &taken, first, STEP);
        }
    }
    finish(&ring, &taken);
}

/* --- a new leader with a committed tail that it has not applied --- */

/* Let a node do what it can without time and without others; its frames stay with it. */
static void turn(struct ring_node *node)
{
    (void)replica_turn(&node->replica);
    while (fake_disk_step(&node->disk)) {
        (void)replica_turn(&node->replica);
    }
}

static bool leads(struct ring_node *node)
{
    return driver_is_leader(&node->replica.driver);
}

/* Give each of two nodes what the other has sent, frame by frame, until one of them is elected; it
 * is returned, and nothing that it sent as the leader has arrived. */
static struct ring_node *elect_and_no_more(struct ring *ring, struct ring_node *a,
                                           struct ring_node *b)
{
    for (unsigned i = 0; !leads(a) && !leads(b); i++) {
        struct ring_node *from = i % 2 == 0 ? a : b;
        struct ring_node *to = i % 2 == 0 ? b : a;
        struct fake_frame *frame;

        assert_true(i < 4000);
        ring->clock.now_ms++;
        turn(from);
        while (!leads(a) && !leads(b) && (frame = fake_net_take(&from->net)) != NULL) {
            if (frame->to == to->id) {
                (void)replica_receive(&to->replica.peers.receiver, from->id, frame->type,
                                      frame->payload.data, frame->payload.len);
                turn(to);
            }
            fake_frame_free(frame);
        }
    }
    return leads(a) ? a : b;
}

/* SeaweedFS#5811: a node that had just been elected answered from a state that lacked what its
 * predecessor had committed. Here the grants are in the new leader's log, committed and used by
 * those who got them, and it has not heard of the commit when it is elected. */
/* Shows P1-lead, lesson-tail. */
static void test_lesson_new_leader_with_an_unapplied_committed_tail(void **state)
{
    static struct taken taken;
    struct ring ring = {0};
    uint64_t old = start(&ring, &taken);
    uint64_t one = ring_follower(&ring);
    struct ring_node *next;
    struct asked get;
    struct tag_rows rows;
    uint64_t max_id;

    (void)state;
    for (unsigned i = 0; i < 4; i++) { /* no heartbeat in between: the commit index stays behind */
        (void)take_held(&ring, &taken, old, UINT32_MAX);
        want(&ring, old);
        ring_settle(&ring);
    }
    assert_true(take_held(&ring, &taken, old, UINT32_MAX) > 0);
    max_id = ring_row(&ring, old, "a")->max_id;
    ring_crash(&ring, old);
    next = elect_and_no_more(&ring, ring_node(&ring, one), ring_node(&ring, 6 - old - one));
    /* Elected, and its own entry is not committed: it says nothing, by reads or by grants. */
    asked_get(&get, "a");
    ask(&ring, next->id, &get, 3000);
    (void)take_held(&ring, &taken, next->id, UINT32_MAX);
    want(&ring, next->id);
    turn(next);
    assert_true(ring_row(&ring, next->id, "a")->max_id < max_id);
    assert_false(driver_leads(&next->replica.driver));
    assert_int_equal(get.done, 0);
    assert_int_equal(segment_left(&entry_of(&ring, next->id)->buffer), 0);
    ring_run_ms(&ring, 200);
    assert_int_equal(get.done, 1);
    assert_int_equal(get.base.status, 0);
    assert_int_equal(tag_rows_decode(get.base.reply.data, get.base.reply.len, &rows), 0);
    assert_int_equal(rows.count, 1);
    assert_true(rows.rows[0].max_id >= max_id);
    tag_rows_release(&rows);
    asked_free(&get);
    ring_restart(&ring, old);
    ring_run_ms(&ring, 500);
    open_tag(&ring, old);
    finish(&ring, &taken);
}

/* --- commit before serve --- */

/* The grant is in the leader's log and on its disk, and on nobody else's: not an id of it is to be
 * had, also not at the leader. */
/* Shows P1-lead, lesson-commit. */
static void test_lesson_nothing_is_served_before_it_is_committed(void **state)
{
    static struct taken taken;
    struct ring ring = {0};
    uint64_t leader = start(&ring, &taken);
    uint64_t max_id;

    (void)state;
    for (uint64_t id = 1; id <= ring.count; id++) {
        (void)take_held(&ring, &taken, id, UINT32_MAX);
    }
    ring_run_ms(&ring, 200);
    max_id = applied_max_id(&ring);
    for (uint64_t id = 1; id <= ring.count; id++) {
        (void)take_held(&ring, &taken, id, UINT32_MAX);
        ring_node(&ring, id)->disk_held = id != leader;
    }
    for (uint64_t id = 1; id <= ring.count; id++) {
        want(&ring, id);
    }
    ring_run_ms(&ring, RING_ELECTION_MS / 2);
    assert_true(driver_leads(&ring_node(&ring, leader)->replica.driver));
    assert_true(entry_log_last(&ring_node(&ring, leader)->replica.driver.log) >
                ring_node(&ring, leader)->replica.driver.commit);
    assert_int_equal(applied_max_id(&ring), max_id);
    for (uint64_t id = 1; id <= ring.count; id++) {
        assert_int_equal(segment_left(&entry_of(&ring, id)->buffer), 0);
        ring_node(&ring, id)->disk_held = false;
    }
    finish(&ring, &taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lesson_transfer_with_a_refill_in_flight),
        cmocka_unit_test(test_lesson_a_b_a_within_one_segment),
        cmocka_unit_test(test_lesson_new_leader_with_an_unapplied_committed_tail),
        cmocka_unit_test(test_lesson_nothing_is_served_before_it_is_committed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
