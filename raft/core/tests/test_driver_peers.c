/*
 * test_driver_peers.c - starts of peers held against what a node of a running cluster knows of
 * them; a data directory that was found to be an older copy.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raft/core/prepare.h"
#include "raft/core/driver.h"
#include "raft/tests/raft_ring.h"

static struct driver *driver_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica.driver;
}

/* What a node would say of its next start. */
static struct peer_start next_start(struct ring *ring, uint64_t id)
{
    struct peer_start start = driver_of(ring, id)->start;

    start.incarnation += 1ULL << PEER_INCARNATION_RANDOM_BITS;
    start.term = driver_term(driver_of(ring, id));
    start.index = entry_log_last(&driver_of(ring, id)->log);
    return start;
}

static int meet(struct ring *ring, uint64_t id, uint64_t peer, struct peer_start start)
{
    return driver_meet(driver_of(ring, id), peer, &start);
}

/* Three nodes that have met; the leader and one of the others. */
static uint64_t start(struct ring *ring, uint64_t *ret_follower)
{
    uint64_t leader;

    ring_start(ring, 3);
    for (uint64_t id = 1; id <= 3; id++) {
        for (uint64_t peer = 1; peer <= 3; peer++) {
            assert_true(id == peer || meet(ring, id, peer, driver_of(ring, peer)->start) == 0);
        }
    }
    leader = ring_elect(ring);
    *ret_follower = ring_follower(ring);
    ring_make(ring, leader, "a", 10);
    ring_run_ms(ring, 200);
    return leader;
}

static void test_the_leader_knows_what_was_acknowledged(void **state)
{
    struct ring ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct peer_start good = next_start(&ring, follower);
    struct peer_start bad = good;

    (void)state;
    bad.index--;
    assert_int_equal(meet(&ring, leader, follower, bad), ERR_STALE);
    bad = good;
    bad.term--;
    assert_int_equal(meet(&ring, leader, follower, bad), ERR_STALE);
    assert_int_equal(meet(&ring, leader, follower, good), 0);
    ring_close(&ring);
}

/* Entries that were acknowledged and are not committed bind only as long as their leader leads:
 * the next one may take them back. */
static void test_what_is_not_committed_may_be_gone_in_a_newer_term(void **state)
{
    struct ring ring = {0};
    struct asked asked;
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct peer_start good;
    struct peer_start less;

    (void)state;
    ring_crash(&ring, 6 - leader - follower);
    ring_node(&ring, leader)->disk_held = true; /* so the follower's copy alone makes no majority */
    asked_put(&asked, "b", 10);
    ask(&ring, leader, &asked, 1000);
    ring_settle(&ring);
    good = next_start(&ring, follower);
    less = good;
    less.index--;
    assert_true(good.index > driver_of(&ring, leader)->commit);
    assert_int_equal(meet(&ring, leader, follower, less), ERR_STALE);
    less.term++; /* it heard of a newer leader, who may have cut its log */
    assert_int_equal(meet(&ring, leader, follower, less), 0);
    ring_node(&ring, leader)->disk_held = false;
    ring_run_ms(&ring, 2000);
    asked_free(&asked);
    ring_close(&ring);
}

/* A follower heard the leader's term, and knows nothing of its log. */
static void test_a_follower_knows_the_term(void **state)
{
    struct ring ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct peer_start bad = next_start(&ring, leader);

    (void)state;
    bad.term--;
    assert_int_equal(meet(&ring, follower, leader, bad), ERR_STALE);
    bad.term++;
    bad.index = 1;
    assert_int_equal(meet(&ring, follower, leader, bad), 0);
    ring_close(&ring);
}

/* Incarnations are known after a restart, too. */
static void test_incarnations_outlive_the_one_who_met_them(void **state)
{
    struct ring ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct peer_start same = driver_of(&ring, leader)->start;
    struct peer_start copy = same;

    (void)state;
    copy.incarnation ^= 1; /* another start of the same count */
    ring_crash(&ring, follower);
    ring_restart(&ring, follower);
    assert_int_equal(meet(&ring, follower, leader, copy), ERR_STALE);
    assert_int_equal(meet(&ring, follower, leader, same), 0);
    ring_close(&ring);
}

static void marked(void *data)
{
    *(bool *)data = true;
}

/* What was found to be an older copy does not start again, however often that is tried. */
static void test_an_older_copy_is_marked_for_good(void **state)
{
    struct ring ring = {0};
    struct store_loaded loaded;
    struct store_error error = {{0}};
    uint64_t follower;
    bool done = false;

    (void)state;
    (void)start(&ring, &follower);
    driver_mark_older(driver_of(&ring, follower), marked, &done);
    ring_settle(&ring);
    assert_true(done);
    ring_crash(&ring, follower);
    for (unsigned i = 0; i < 3; i++) {
        struct fsm *fsm = fsm_new();

        assert_int_equal(prepare_load(ring_node(&ring, follower)->store, fsm, follower, NULL, 0,
                                      &loaded, &error),
                         ERR_STALE);
        assert_non_null(strstr(error.text, "an older copy"));
        fsm_free(fsm);
    }
    ring_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_leader_knows_what_was_acknowledged),
        cmocka_unit_test(test_what_is_not_committed_may_be_gone_in_a_newer_term),
        cmocka_unit_test(test_a_follower_knows_the_term),
        cmocka_unit_test(test_incarnations_outlive_the_one_who_met_them),
        cmocka_unit_test(test_an_older_copy_is_marked_for_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
