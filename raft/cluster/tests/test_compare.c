/*
 * test_compare.c - who ends when states differ: the odd one, be it the leader, and it says which
 * row differs. Whole nodes on fakes.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"
#include "src/id/fsm/fsm_tables.h"

#define DIGEST_MS 200
#define MANY 12000 /* rows: more than one chunk of them */

static struct replica *replica_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica;
}

static uint64_t begin(struct ring *ring, unsigned count)
{
    ring->digest_ms = DIGEST_MS;
    ring_start(ring, count);
    (void)ring_elect(ring);
    ring_make(ring, 1, "a", 10);
    ring_make(ring, 1, "m", 10);
    ring_make(ring, 1, "z", 10);
    ring_run_ms(ring, 500); /* all have applied it */
    return ring_elect(ring);
}

static void assert_alone_failed(struct ring *ring, uint64_t id, const char *why)
{
    for (uint64_t other = 1; other <= ring->count; other++) {
        struct ring_node *node = ring_node(ring, other);

        if (node->failed_count != (other == id)) {
            fail_msg("node %u: %u times, %s", (unsigned)other, node->failed_count,
                     node->failed_text);
        }
    }
    assert_int_equal(ring_node(ring, id)->failed_err, ERR_DIVERGED);
    if (strstr(ring_node(ring, id)->failed_text, why) == NULL) {
        fail_msg("%s", ring_node(ring, id)->failed_text);
    }
}

/* Until somebody ends, or so long. */
static void run_until_failed(struct ring *ring, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 10) {
        for (uint64_t id = 1; id <= ring->count; id++) {
            if (ring_node(ring, id)->failed_count > 0) {
                return;
            }
        }
        ring_run_ms(ring, 10);
    }
}

/* Shows P7-differs. */
static void test_the_first_row_that_differs_is_named(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);

    (void)state;
    ring_plant(&ring, odd, "z", 1);
    ring_plant(&ring, odd, "m", 7);
    ring_make(&ring, leader, "later", 10);
    run_until_failed(&ring, 2000);
    assert_alone_failed(&ring, odd, "is tm; here: ");
    assert_non_null(strstr(ring_node(&ring, odd)->failed_text, "; on node "));
    /* The others go on. */
    ring_crash(&ring, odd);
    ring_make(&ring, leader, "after", 10);
}

/* The state of the leader itself went wrong: it ends, and not its followers. */
/* Shows P7-differs. */
static void test_a_leader_whose_state_is_wrong_ends_alone(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);

    (void)state;
    ring_plant(&ring, leader, "a", 5);
    ring_make(&ring, leader, "later", 10);
    run_until_failed(&ring, 5000);
    assert_alone_failed(&ring, leader, "is ta; here: ");
    ring_crash(&ring, leader);
    leader = ring_elect(&ring);
    ring_make(&ring, leader, "after", 10);
    assert_true(ring_node(&ring, leader)->failed_count == 0);
}

/* A bug may have given two nodes one and the same wrong state: that they agree is not enough. */
static void test_two_of_five_that_agree_both_end(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 5);
    uint64_t odd[2] = {leader % 5 + 1, (leader + 1) % 5 + 1};

    (void)state;
    ring_plant(&ring, odd[0], "a", 5);
    ring_plant(&ring, odd[1], "a", 5);
    ring_make(&ring, leader, "later", 10);
    ring_run_ms(&ring, 5000);
    for (uint64_t id = 1; id <= 5; id++) {
        bool is_odd = id == odd[0] || id == odd[1];

        assert_int_equal(ring_node(&ring, id)->failed_count, is_odd);
        assert_false(!is_odd && replica_of(&ring, id)->driver.halted);
    }
    ring_make(&ring, leader, "after", 10);
}

static void test_of_two_nodes_nobody_can_tell(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 2);
    uint64_t odd = ring_follower(&ring);

    (void)state;
    ring_plant(&ring, odd, "a", 5);
    ring_make(&ring, leader, "later", 10);
    run_until_failed(&ring, 5000);
    assert_alone_failed(&ring, odd, "is ta; here: ");
}

/* The third is away: the node ends when the time is over, and the other names the row. */
static void test_without_a_third_it_ends_in_time(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    uint64_t began_ms;

    (void)state;
    ring_crash(&ring, 6 - leader - odd);
    ring_plant(&ring, odd, "a", 5);
    ring_make(&ring, leader, "later", 10);
    began_ms = ring.clock.now_ms;
    run_until_failed(&ring, 20000);
    assert_true(ring.clock.now_ms - began_ms >= LIMIT_DIVERGED_MS);
    assert_true(ring.clock.now_ms - began_ms <= LIMIT_DIVERGED_MS + DIGEST_MS + 1000);
    assert_alone_failed(&ring, odd, "is ta; here: ");
}

static void say(struct ring *ring, uint64_t from, uint64_t to, enum frame_type type,
                struct buf *payload)
{
    (void)replica_receive(&ring_node(ring, to)->replica.peers.receiver, from, type, payload->data,
                          payload->len);
    (void)replica_turn(&ring_node(ring, to)->replica);
    buf_free(payload);
}

/* Nobody answers questions about states: it ends all the same, and knows no row. */
static void test_nobody_says_which_state_it_has(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    uint64_t began_ms;

    (void)state;
    ring.lost[FRAME_COMPARED] = true;
    ring_plant(&ring, odd, "a", 5);
    ring_make(&ring, leader, "later", 10);
    began_ms = ring.clock.now_ms;
    run_until_failed(&ring, 20000);
    assert_true(ring.clock.now_ms - began_ms >= LIMIT_DIVERGED_MS);
    assert_true(ring.clock.now_ms - began_ms <= LIMIT_DIVERGED_MS + DIGEST_MS + 1000);
    assert_alone_failed(&ring, odd, "too few members answered in time");
}

/* Nor about rows. */
static void test_no_row_without_an_answer(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    const struct compare_asker *asker = &replica_of(&ring, odd)->compare.asker;
    uint64_t began_ms;

    (void)state;
    ring.lost[FRAME_COMPARED] = true;
    ring_plant(&ring, odd, "a", 5);
    ring_make(&ring, leader, "later", 10);
    while (asker->state != COMPARE_DECIDING) {
        ring_run_ms(&ring, 10);
    }
    for (uint64_t id = 1; id <= 3; id++) {
        const struct wire_compared other = {.number = asker->number, .kind = WIRE_COMPARED_OTHER};
        struct buf bytes = BUF_INIT;

        if (id != odd) {
            wire_compared_encode(&other, &bytes);
            say(&ring, id, odd, FRAME_COMPARED, &bytes);
        }
    }
    began_ms = ring.clock.now_ms;
    run_until_failed(&ring, 30000);
    assert_true(ring.clock.now_ms - began_ms <= LIMIT_COMPARE_MS + DIGEST_MS + 1000);
    assert_alone_failed(&ring, odd, "did not answer in time");
}

/* The digest of the log is nobody's, the leader's neither: all have one and the same state. */
static void test_a_digest_that_nobody_has_ends_nobody(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    struct driver *driver = &replica_of(&ring, leader)->driver;
    struct buf bytes = BUF_INIT;
    uint64_t index;
    uint64_t term;

    (void)state;
    cluster_command_put(
        &bytes, COMMAND_DIGEST,
        &(struct digest_command){.index = driver_applied(driver)->index, .digest = 4711});
    session_stamp_put(&bytes, &(struct session_stamp){7, UINT64_MAX, 1, 1});
    assert_int_equal(driver_submit(driver, &bytes, 1, &index, &term), 0);
    buf_free(&bytes);
    ring_run_ms(&ring, 500);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_node(&ring, id)->failed_count, 0);
        assert_false(replica_of(&ring, id)->driver.halted);
        assert_true(driver_applied(&replica_of(&ring, id)->driver)->index >= index);
    }
}

/* One node of another state ends nobody else, and does not get a view of rows again and again. */
static void test_one_node_of_another_state_ends_no_other(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    struct driver *driver = &replica_of(&ring, leader)->driver;
    uint64_t index = driver_applied(driver)->index;

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        const struct wire_compare state_of = {i + 1, WIRE_COMPARE_STATE, index, 1000 + i};
        const struct wire_compare open = {i + 1, WIRE_COMPARE_OPEN, index, 1000 + i};
        struct buf bytes = BUF_INIT;

        wire_compare_encode(&state_of, &bytes);
        say(&ring, odd, leader, FRAME_COMPARE, &bytes);
        wire_compare_encode(&open, &bytes);
        say(&ring, odd, leader, FRAME_COMPARE, &bytes);
        ring_run_ms(&ring, 100);
        assert_false(driver->halted);
    }
    assert_int_equal(replica_of(&ring, leader)->compare.lender.number, 1);
    ring_make(&ring, leader, "after", 10);
    assert_int_equal(ring_node(&ring, leader)->failed_count, 0);
}

static void ask_for_rows(struct ring *ring, uint64_t from, uint64_t to, uint64_t number)
{
    const struct driver *driver = &replica_of(ring, to)->driver;
    const struct wire_compare open = {number, WIRE_COMPARE_OPEN, driver_applied(driver)->index,
                                      1000};
    struct buf bytes = BUF_INIT;

    wire_compare_encode(&open, &bytes);
    say(ring, from, to, FRAME_COMPARE, &bytes);
    ring_settle(ring);
}

static void set_low(struct ring *ring, bool low)
{
    for (uint64_t id = 1; id <= ring->count; id++) { /* else one with room would lead instead */
        ring_node(ring, id)->disk.low = low;
    }
}

/* The one that asked for rows is gone: its view ends, and after a pause another one gets one. On a
 * disk that is low none does, since a view keeps pages. */
static void test_a_view_ends_by_itself(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    uint64_t other = 6 - leader - odd;
    struct compare_lender *lender = &replica_of(&ring, leader)->compare.lender;

    (void)state;
    ask_for_rows(&ring, odd, leader, 1);
    assert_int_equal(lender->peer, odd);
    assert_non_null(lender->rows.snapshot);
    ask_for_rows(&ring, other, leader, 2);
    ring_run_ms(&ring, LIMIT_COMPARE_MS - 100);
    assert_int_equal(lender->peer, odd);
    ring_run_ms(&ring, 200);
    assert_int_equal(lender->peer, 0);
    assert_null(lender->rows.snapshot);
    ask_for_rows(&ring, other, leader, 3);
    assert_int_equal(lender->peer, 0);
    ring_run_ms(&ring, LIMIT_COMPARE_PAUSE_MS);
    set_low(&ring, true);
    ask_for_rows(&ring, other, leader, 4);
    assert_int_equal(lender->peer, 0);
    set_low(&ring, false);
    ask_for_rows(&ring, other, leader, 5);
    assert_int_equal(lender->peer, other);
    assert_int_equal(lender->number, 5);
}

/* --- many rows --- */

/* A row in the middle of many, one that is missing here, and one that is missing there. */
static void test_a_row_among_many(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    char name[32];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        for (uint64_t id = 1; id <= 3; id++) {
            struct replica *replica = replica_of(&ring, id);
            struct fsm *fsm = fsm_of(replica->state);
            struct fsm_row *row;

            if (id == odd && i == MANY - 100) {
                continue;
            }
            snprintf(name, sizeof name, "tag%08u", i);
            replica->state->journal.changes = &replica->driver.applier.rows;
            row = fsm_tags_make(&fsm->tags, name, strlen(name), NULL, NULL);
            row->max_id = i + (id == odd && i == MANY - 50);
            row->step = 1;
            row->max_step = 1;
            row->generation = 1;
            fsm_tags_change_end(fsm, row);
            replica->state->journal.changes = NULL;
            applier_hold(&replica->driver.applier);
        }
    }
    ring_settle(&ring);
    ring_make(&ring, leader, "later", 10);
    run_until_failed(&ring, 5000);
    assert_alone_failed(&ring, odd, "is ttag00011900; here: no such row; on node ");
    assert_true(ring.passed[FRAME_COMPARED] >= 4); /* OPEN, two parts at least, ROWS */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_row_that_differs_is_named),
        cmocka_unit_test(test_a_leader_whose_state_is_wrong_ends_alone),
        cmocka_unit_test(test_two_of_five_that_agree_both_end),
        cmocka_unit_test(test_of_two_nodes_nobody_can_tell),
        cmocka_unit_test(test_without_a_third_it_ends_in_time),
        cmocka_unit_test(test_nobody_says_which_state_it_has),
        cmocka_unit_test(test_no_row_without_an_answer),
        cmocka_unit_test(test_a_digest_that_nobody_has_ends_nobody),
        cmocka_unit_test(test_one_node_of_another_state_ends_no_other),
        cmocka_unit_test(test_a_view_ends_by_itself),
        cmocka_unit_test(test_a_row_among_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
