/*
 * test_driver_peers.c - starts of peers held against what a node of a running cluster knows of
 * them; a data directory that was found to be an older copy.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/prepare.h"
#include "raft/tests/raft_ring.h"
#include "src/id/fsm/fsm.h"

static struct driver *driver_of(struct ring *ring, uint64_t id)
{
    return &ring_node(ring, id)->replica.driver;
}

/* What a node would say of its next start. */
static struct wire_durable next_start(struct ring *ring, uint64_t id)
{
    struct wire_durable start = driver_of(ring, id)->start;

    start.incarnation += 1ULL << PEER_INCARNATION_RANDOM_BITS;
    start.term = driver_term(driver_of(ring, id));
    start.index = entry_log_last(&driver_of(ring, id)->log);
    start.last_term = witness_term_at(&driver_of(ring, id)->witness, start.index);
    start.vote = driver_of(ring, id)->outbox.vote;
    return start;
}

static int meet(struct ring *ring, uint64_t id, uint64_t peer, struct wire_durable start)
{
    return driver_check_peer(driver_of(ring, id), peer, &(struct wire_statement){.start = start},
                             false);
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
    RING ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct wire_durable good = next_start(&ring, follower);
    struct wire_durable bad = good;

    (void)state;
    bad.index--;
    assert_int_equal(meet(&ring, leader, follower, bad), ERR_STALE);
    bad = good;
    bad.term--;
    assert_int_equal(meet(&ring, leader, follower, bad), ERR_STALE);
    assert_int_equal(meet(&ring, leader, follower, good), 0);
}

/* Entries that were acknowledged and are not committed bind only as long as their leader leads:
 * the next one may take them back. */
static void test_what_is_not_committed_may_be_gone_in_a_newer_term(void **state)
{
    RING ring = {0};
    struct asked asked;
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct wire_durable good;
    struct wire_durable less;

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
}

/* Who does not lead knows as much: each node tells all what its disk has. */
static void test_a_follower_knows_what_the_leader_has(void **state)
{
    RING ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    uint64_t third = 6 - leader - follower;
    uint64_t peers[2] = {leader, third};

    (void)state;
    ring_run_ms(&ring, 3000);
    for (unsigned i = 0; i < 2; i++) {
        const struct wire_durable good = next_start(&ring, peers[i]);
        struct wire_durable bad = good;

        bad.term--;
        assert_int_equal(meet(&ring, follower, peers[i], bad), ERR_STALE);
        bad = good;
        bad.index--;
        assert_int_equal(meet(&ring, follower, peers[i], bad), ERR_STALE);
        bad.term++; /* that much is committed, whoever leads now */
        assert_int_equal(meet(&ring, follower, peers[i], bad), ERR_STALE);
        bad = good;
        bad.vote = follower;
        assert_int_equal(meet(&ring, follower, peers[i], bad), ERR_STALE);
        assert_int_equal(meet(&ring, follower, peers[i], good), 0);
    }
}

static void say_durable(struct ring *ring, uint64_t to, uint64_t from, struct wire_durable now)
{
    BUF_LOCAL(payload);

    now.incarnation = driver_of(ring, from)->start.incarnation;
    wire_durable_encode(&now, &payload);
    assert_true(
        driver_receive(driver_of(ring, to), from, FRAME_DURABLE, payload.data, payload.len));
}

/* A peer tells of entries behind those that are committed. Of the term that it is in, they bind it
 * in that term; of an earlier one, the leader of its term may have cut them by its next start. */
static void test_entries_of_an_earlier_term_may_be_gone(void **state)
{
    RING ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    uint64_t third = 6 - leader - follower;
    const struct wire_durable cut = next_start(&ring, third);
    struct wire_durable now = cut;
    struct wire_durable later = cut;

    (void)state;
    now.term++;
    now.index += 5;
    later.term++;
    say_durable(&ring, follower, third, now);
    assert_int_equal(meet(&ring, follower, third, later), 0);
    now.last_term = now.term;
    say_durable(&ring, leader, third, now);
    assert_int_equal(meet(&ring, leader, third, later), ERR_STALE);
    later.index = now.index;
    later.last_term = now.last_term;
    assert_int_equal(meet(&ring, leader, third, later), 0);
}

/* And so does one that was restarted, also by a kill. */
static void test_what_is_known_outlives_the_one_who_knows(void **state)
{
    RING ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    uint64_t third = 6 - leader - follower;
    struct wire_durable good;
    struct wire_durable bad;

    (void)state;
    ring_run_ms(&ring, 3000);
    good = next_start(&ring, third);
    for (uint64_t id = 1; id <= 3; id++) {
        ring_crash(&ring, id);
    }
    ring_restart(&ring, leader);
    ring_restart(&ring, follower);
    for (uint64_t id = 1; id <= 3; id++) {
        if (id == third) {
            continue;
        }
        bad = good;
        bad.index--;
        assert_int_equal(meet(&ring, id, third, bad), ERR_STALE);
        bad.term++;
        assert_int_equal(meet(&ring, id, third, bad), ERR_STALE);
        bad = good;
        bad.term--;
        assert_int_equal(meet(&ring, id, third, bad), ERR_STALE);
        assert_int_equal(meet(&ring, id, third, good), 0);
    }
}

/* What is known is written with other writes, or by itself; and nothing where nothing happens. */
static void test_an_idle_node_writes_nothing(void **state)
{
    RING ring = {0};
    uint64_t follower;
    uint64_t written[3];

    (void)state;
    (void)start(&ring, &follower);
    ring_run_ms(&ring, 2000);
    for (uint64_t id = 1; id <= 3; id++) {
        written[id - 1] = driver_of(&ring, id)->writes.last_number;
        assert_false(driver_of(&ring, id)->peers.seen.changed);
    }
    ring_run_ms(&ring, 5000);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(driver_of(&ring, id)->writes.last_number, written[id - 1]);
    }
}

/* Incarnations are known after a restart, too. */
static void test_incarnations_outlive_the_one_who_met_them(void **state)
{
    RING ring = {0};
    uint64_t follower;
    uint64_t leader = start(&ring, &follower);
    struct wire_durable same = driver_of(&ring, leader)->start;
    struct wire_durable copy = same;

    (void)state;
    copy.incarnation ^= 1; /* another start of the same count */
    ring_crash(&ring, follower);
    ring_restart(&ring, follower);
    assert_int_equal(meet(&ring, follower, leader, copy), ERR_STALE);
    assert_int_equal(meet(&ring, follower, leader, same), 0);
}

static void marked(void *data)
{
    *(bool *)data = true;
}

/* What was found to be an older copy does not start again, however often that is tried. */
static void test_an_older_copy_is_marked_for_good(void **state)
{
    RING ring = {0};
    struct store_loaded loaded;
    struct store_error error = {{0}};
    uint64_t follower;
    bool done = false;

    (void)state;
    (void)start(&ring, &follower);
    driver_of(&ring, follower)->peers.seen.older = true;
    peer_memory_write(&driver_of(&ring, follower)->peers, false, marked, &done);
    ring_settle(&ring);
    assert_true(done);
    ring_crash(&ring, follower);
    for (unsigned i = 0; i < 3; i++) {
        struct state *whole = state_new(&fsm_machine);

        struct store *store = ring_node(&ring, follower)->store;

        assert_int_equal(prepare_load(store, whole, &loaded, &error), 0);
        assert_int_equal(prepare_store(store, &loaded, follower, 7, NULL, 0, &error), ERR_STALE);
        assert_non_null(strstr(error.text, "an older copy"));
        store_loaded_release(&loaded);
        state_free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_leader_knows_what_was_acknowledged),
        cmocka_unit_test(test_what_is_not_committed_may_be_gone_in_a_newer_term),
        cmocka_unit_test(test_a_follower_knows_what_the_leader_has),
        cmocka_unit_test(test_entries_of_an_earlier_term_may_be_gone),
        cmocka_unit_test(test_what_is_known_outlives_the_one_who_knows),
        cmocka_unit_test(test_an_idle_node_writes_nothing),
        cmocka_unit_test(test_incarnations_outlive_the_one_who_met_them),
        cmocka_unit_test(test_an_older_copy_is_marked_for_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
