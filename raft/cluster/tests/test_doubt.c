/*
 * test_doubt.c - who ends when states differ, and who lies: the odd one ends, and says which row
 * differs; a leader, or any one member, that says what others do not confirm ends nobody. Whole
 * nodes on fakes, at level 3.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/tests/raft_ring.h"
#include "src/id/fsm/fsm_tables.h"

#define DIGEST_MS 200
#define MANY 12000 /* rows: more than one chunk of them */

static struct replica *replica_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica;
}

static void begin_many(struct ring *ring, unsigned count, uint16_t able)
{
    ring->digest_ms = DIGEST_MS;
    ring->meet = true;
    ring->upgrade = (struct upgrade_config){.hold_ms = 0, .automatic = true};
    for (unsigned i = 0; i < count; i++) {
        ring->nodes[i].able = able;
    }
    ring_start(ring, count);
    (void)ring_elect(ring);
    ring_make(ring, 1, "a", 10);
    ring_make(ring, 1, "m", 10);
    ring_make(ring, 1, "z", 10);
    for (unsigned i = 0; i < 100 && fsm_level(replica_of(ring, 1)->fsm) < able; i++) {
        ring_run_ms(ring, 50);
    }
    assert_int_equal(fsm_level(replica_of(ring, 1)->fsm), able);
}

static uint64_t begin(struct ring *ring, unsigned count)
{
    begin_many(ring, count, 3);
    return ring_elect(ring);
}

/* A node's row goes wrong, in memory and on its disk, as by a bug of apply. */
static void plant(struct ring *ring, uint64_t id, const char *tag, int64_t by)
{
    struct replica *replica = replica_of(ring, id);
    struct fsm *fsm = replica->fsm;
    struct fsm_row *row = fsm_tags_find(&fsm->tags, tag, strlen(tag));

    assert_non_null(row);
    applier_hold(&replica->driver.applier);
    fsm->journal.changes = &replica->driver.applier.rows;
    fsm_tags_change_begin(&fsm->tags, row);
    row->tag.max_id += (uint64_t)by;
    fsm_tags_change_end(&fsm->tags, row);
    fsm->journal.changes = NULL;
    applier_hold(&replica->driver.applier);
    (void)replica_turn(replica);
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

static void test_the_first_row_that_differs_is_named(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);

    (void)state;
    plant(&ring, odd, "z", 1);
    plant(&ring, odd, "m", 7);
    ring_make(&ring, leader, "later", 10);
    run_until_failed(&ring, 2000);
    assert_alone_failed(&ring, odd, "is tm; here: ");
    assert_non_null(strstr(ring_node(&ring, odd)->failed_text, "; on node "));
    /* The others go on. */
    ring_crash(&ring, odd);
    ring_make(&ring, leader, "after", 10);
}

/* The state of the leader itself went wrong: it ends, and not its followers. */
static void test_a_leader_whose_state_is_wrong_ends_alone(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);

    (void)state;
    plant(&ring, leader, "a", 5);
    ring_make(&ring, leader, "later", 10);
    run_until_failed(&ring, 5000);
    assert_alone_failed(&ring, leader, "is ta; here: ");
    ring_crash(&ring, leader);
    leader = ring_elect(&ring);
    ring_make(&ring, leader, "after", 10);
    assert_true(ring_node(&ring, leader)->failed_count == 0);
}

static void test_of_two_nodes_nobody_can_tell(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 2);
    uint64_t odd = ring_follower(&ring);

    (void)state;
    plant(&ring, odd, "a", 5);
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
    plant(&ring, odd, "a", 5);
    ring_make(&ring, leader, "later", 10);
    began_ms = ring.clock.now_ms;
    run_until_failed(&ring, 20000);
    assert_true(ring.clock.now_ms - began_ms >= LIMIT_DOUBT_MS);
    assert_true(ring.clock.now_ms - began_ms <= LIMIT_DOUBT_MS + DIGEST_MS + 1000);
    assert_alone_failed(&ring, odd, "is ta; here: ");
}

/* Nobody answers questions about rows: it ends all the same, and says so. */
static void test_no_row_without_an_answer(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t odd = ring_follower(&ring);
    uint64_t began_ms;

    (void)state;
    ring.lost[FRAME_COMPARED] = true;
    plant(&ring, odd, "a", 5);
    ring_make(&ring, leader, "later", 10);
    began_ms = ring.clock.now_ms;
    run_until_failed(&ring, 30000);
    assert_true(ring.clock.now_ms - began_ms <= LIMIT_COMPARE_MS + DIGEST_MS + 1000);
    assert_alone_failed(&ring, odd, "did not answer in time");
}

/* Below level 3 nobody is asked: no frame of it leaves. */
static void test_below_level_3_it_ends_at_once(void **state)
{
    RING ring = {0};
    uint64_t odd;

    (void)state;
    begin_many(&ring, 3, 2);
    odd = ring_follower(&ring);
    plant(&ring, odd, "a", 5);
    ring_make(&ring, 1, "later", 10);
    run_until_failed(&ring, 2000);
    assert_alone_failed(&ring, odd, "below level 3");
    assert_int_equal(ring.passed[FRAME_WITNESS] + ring.passed[FRAME_COMPARE], 0);
}

/* --- lies --- */

static void say(struct ring *ring, uint64_t from, uint64_t to, enum frame_type type,
                struct buf *payload)
{
    (void)replica_receive(&ring_node(ring, to)->replica, from, type, payload->data, payload->len);
    (void)replica_turn(&ring_node(ring, to)->replica);
    buf_free(payload);
}

/* A leader says a digest that it does not have: nobody ends, and the alarm is raised. */
static void test_a_false_digest_ends_nobody(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    struct driver *driver = &replica_of(&ring, leader)->driver;
    struct buf bytes = BUF_INIT;
    struct driver_command command;
    uint64_t index;
    uint64_t term;

    (void)state;
    command_put(&bytes, COMMAND_DIGEST,
                &(struct digest_command){.index = driver_applied(driver)->index, .digest = 4711});
    session_stamp_put(&bytes, &(struct session_stamp){leader, UINT64_MAX, 1, 1});
    command = (struct driver_command){bytes.data, bytes.len};
    assert_int_equal(driver_submit(driver, &command, 1, &index, &term), 0);
    buf_free(&bytes);
    ring_run_ms(&ring, 500);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(ring_node(&ring, id)->failed_count, 0);
        assert_false(replica_of(&ring, id)->driver.doubted);
        assert_true(replica_of(&ring, id)->driver.trust.alarm.count > 0);
        assert_true(driver_applied(&replica_of(&ring, id)->driver)->index >= index);
    }
}

/* One member that tells everybody of another state parts nobody; nor does it get a view of rows
 * again and again. */
static void test_one_member_alone_convinces_nobody(void **state)
{
    RING ring = {0};
    uint64_t leader = begin(&ring, 3);
    uint64_t liar = ring_follower(&ring);
    struct driver *driver = &replica_of(&ring, leader)->driver;
    uint64_t index = driver_applied(driver)->index;

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        const struct wire_witness lie = {WIRE_WITNESS_STATE, false, true, index, 1000 + i};
        const struct wire_compare open = {i + 1, WIRE_COMPARE_OPEN, index, 1000 + i};
        struct buf bytes = BUF_INIT;

        wire_witness_encode(&lie, &bytes);
        say(&ring, liar, leader, FRAME_WITNESS, &bytes);
        wire_compare_encode(&open, &bytes);
        say(&ring, liar, leader, FRAME_COMPARE, &bytes);
        ring_run_ms(&ring, 100);
        assert_false(driver->doubted);
    }
    assert_int_equal(replica_of(&ring, leader)->doubt.compare.lender.number, 1);
    assert_int_equal(driver->trust.alarm.count, 0); /* nobody was asked for its sake */
    ring_make(&ring, leader, "after", 10);
    assert_int_equal(ring_node(&ring, leader)->failed_count, 0);
}

/* An answer that a leader invents, about a later start of a node: the others know of none. */
static void test_a_later_start_that_nobody_knows(void **state)
{
    RING ring = {0};
    uint64_t follower;

    (void)state;
    (void)begin(&ring, 3);
    follower = ring_follower(&ring);
    replica_of(&ring, follower)->requests.superseded = UINT64_MAX;
    ring_run_ms(&ring, 500);
    assert_int_equal(ring_node(&ring, follower)->superseded, 0);
    assert_int_equal(replica_of(&ring, follower)->requests.superseded, 0);
    assert_true(replica_of(&ring, follower)->driver.trust.alarm.count > 0);
}

/* And nobody can be asked: it ends. */
static void test_a_later_start_that_nobody_denies(void **state)
{
    RING ring = {0};
    uint64_t follower;

    (void)state;
    (void)begin(&ring, 3);
    follower = ring_follower(&ring);
    ring.lost[FRAME_WITNESS] = true;
    replica_of(&ring, follower)->requests.superseded = UINT64_MAX;
    ring_run_ms(&ring, LIMIT_DOUBT_MS - 500);
    assert_int_equal(ring_node(&ring, follower)->superseded, 0);
    ring_run_ms(&ring, 1000);
    assert_true(ring_node(&ring, follower)->superseded == UINT64_MAX);
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
            struct fsm *fsm = replica->fsm;
            struct fsm_row *row;

            if (id == odd && i == MANY - 100) {
                continue;
            }
            snprintf(name, sizeof name, "tag%08u", i);
            fsm->journal.changes = &replica->driver.applier.rows;
            row = fsm_tags_make(&fsm->tags, name, strlen(name));
            row->tag.max_id = i + (id == odd && i == MANY - 50);
            row->tag.step = 1;
            row->tag.max_step = 1;
            row->tag.generation = 1;
            fsm_tags_change_end(&fsm->tags, row);
            fsm->journal.changes = NULL;
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
        cmocka_unit_test(test_of_two_nodes_nobody_can_tell),
        cmocka_unit_test(test_without_a_third_it_ends_in_time),
        cmocka_unit_test(test_no_row_without_an_answer),
        cmocka_unit_test(test_below_level_3_it_ends_at_once),
        cmocka_unit_test(test_a_false_digest_ends_nobody),
        cmocka_unit_test(test_one_member_alone_convinces_nobody),
        cmocka_unit_test(test_a_later_start_that_nobody_knows),
        cmocka_unit_test(test_a_later_start_that_nobody_denies),
        cmocka_unit_test(test_a_row_among_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
