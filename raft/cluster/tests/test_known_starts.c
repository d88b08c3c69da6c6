/*
 * test_known_starts.c - the state knows a start of each node: who has met nobody tells an older
 * copy by it, and so does the copy itself.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/cluster/tests/requests_scene.h"

/* Three nodes; one of them is in its second start, which all have applied. */
static uint64_t start(struct ring *ring, uint64_t *ret_leader)
{
    uint64_t again;

    scene_start(ring, ret_leader, &again);
    ring_crash(ring, again);
    ring_restart(ring, again);
    ring_run_ms(ring, 500);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(state_node_start(replica_of(ring, id)->state, again),
                         replica_of(ring, again)->config.driver.incarnation);
    }
    return again;
}

/* What a node thinks of a peer that says this, if it has never met it. */
static int meet(struct ring *ring, uint64_t id, uint64_t peer, uint64_t incarnation,
                const uint32_t *earlier, size_t count)
{
    struct replica *replica = replica_of(ring, id);
    struct wire_statement said = {.start = replica_of(ring, peer)->driver.start};
    struct buf list = BUF_INIT;
    int rv;

    rollback_forget(&replica->driver.peers.seen, peer);
    for (size_t i = 0; i < count; i++) {
        buf_put_u32(&list, earlier[i]);
    }
    said.start.incarnation = incarnation;
    said.earlier = list.data;
    said.earlier_len = list.len;
    rv = peers_check(&replica->peers, peer, &(struct net_presence){0}, &said);
    buf_free(&list);
    return rv;
}

/* Shows P1-older. */
static void test_who_has_met_nobody_knows_a_copy_by_the_state(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);
    uint64_t now = replica_of(&ring, again)->config.driver.incarnation;
    uint64_t third = 6 - leader - again;
    uint64_t one = UINT64_C(1) << PEER_INCARNATION_RANDOM_BITS;
    const uint32_t good[] = {(uint32_t)now};
    const uint32_t bad[] = {(uint32_t)now + 1, (uint32_t)now};

    (void)state;
    assert_int_equal(now >> PEER_INCARNATION_RANDOM_BITS, 2);
    assert_int_equal(meet(&ring, third, again, now, NULL, 0), 0);
    assert_int_equal(meet(&ring, third, again, now - one, NULL, 0), ERR_STALE); /* the one before */
    assert_int_equal(meet(&ring, third, again, now + 1, NULL, 0), ERR_STALE); /* started as often */
    assert_int_equal(meet(&ring, third, again, now + one, bad, 1), ERR_STALE);
    assert_int_equal(meet(&ring, third, again, now + 2 * one, bad, 2), 0);
    assert_int_equal(meet(&ring, third, again, now + one, good, 1), 0);
    assert_int_equal(meet(&ring, third, again, now + one, NULL, 0), 0); /* older than its list */
}

static void set_local(struct ring *ring, uint64_t id, uint32_t key, const void *data, uint32_t len)
{
    struct store *store = ring_node(ring, id)->store;
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_LOCAL, .local_key = key, .local = data, .local_len = len};
    struct store_error error;

    STAILQ_INSERT_TAIL(&list, &op, link);
    assert_int_equal(store->ops->commit(store, &list, &error), 0);
}

/* A copy of the first start, that was started as often as the original and then once more: its
 * count tells nothing. */
static void test_a_copy_hears_of_a_start_that_it_never_had(void **state)
{
    const uint8_t count[9] = {1, 2};           /* version, count */
    const uint8_t starts[13] = {1, 2, 0, 0, 0, /* likewise, and the random half of the second */
                                0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff};
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);
    uint64_t now = replica_of(&ring, again)->config.driver.incarnation;

    (void)state;
    assert_int_not_equal((uint32_t)now, 0xfffffffe);
    ring_crash(&ring, again);
    set_local(&ring, again, LOCAL_INCARNATION, count, sizeof count);
    set_local(&ring, again, LOCAL_INCARNATIONS, starts, sizeof starts);
    ring_restart(&ring, again);
    ring_run_ms(&ring, 200);
    assert_int_equal(ring_node(&ring, again)->replica.superseded, now);
}

/* Somebody starts a clone of a node that runs: the clone is a later start, and would be let in. */
static void test_a_later_start_is_not_believed_while_the_present_one_is_here(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);
    struct driver *driver = &replica_of(&ring, 6 - leader - again)->driver;
    const struct wire_statement now = {.start = replica_of(&ring, again)->driver.start};
    struct wire_statement later = now;
    struct wire_statement older = now;

    (void)state;
    rollback_forget(&driver->peers.seen, again);
    assert_int_equal(driver_check_peer(driver, again, &now, true), 0); /* the first that is met */
    assert_int_equal(driver_check_peer(driver, again, &now, true), 0); /* it dials again */
    later.start.incarnation += UINT64_C(1) << PEER_INCARNATION_RANDOM_BITS;
    assert_int_equal(driver_check_peer(driver, again, &later, true), ERR_EXISTS);
    older.start.incarnation -= UINT64_C(1) << PEER_INCARNATION_RANDOM_BITS;
    assert_int_equal(driver_check_peer(driver, again, &older, true),
                     ERR_STALE); /* known for what it is */
    assert_int_equal(driver_check_peer(driver, again, &now, true), 0);
    assert_int_equal(driver_check_peer(driver, again, &later, false), 0);
    assert_int_equal(driver_check_peer(driver, again, &now, false), ERR_STALE);
}

/* What a node says to one that dials as the peer, in its start number `start`. */
static int dial(struct replica *replica, uint64_t peer, uint64_t start,
                const struct net_presence *presence)
{
    const struct wire_statement said = {
        .start = {.incarnation = (UINT64_C(1) << PEER_INCARNATION_RANDOM_BITS) + start}};

    return peers_check(&replica->peers, peer, presence, &said);
}

#define HERE(...) (&(struct net_presence){__VA_ARGS__})

/* Two processes, each with data of its own, in the place of a node that has not registered. */
static void test_of_two_in_one_place_the_one_at_the_address_is_let_in(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);
    struct replica *replica = replica_of(&ring, 6 - leader - again);

    (void)state;
    assert_int_equal(dial(replica, 5, 1, HERE(.dials = 51)), 0);
    assert_int_equal(dial(replica, 5, 2, HERE(.dials = 52, .heard = 51)), ERR_EXISTS);
    assert_int_equal(dial(replica, 5, 2, HERE(.dials = 52, .heard = 51, .reached = 52)), 0);
    /* The first is let in no more, silent or not, and what it says does not put out the other. */
    assert_int_equal(dial(replica, 5, 1, HERE(.dials = 51, .reached = 52)), ERR_EXISTS);
    assert_int_equal(dial(replica, 5, 1, HERE(.dials = 51, .heard = 52, .reached = 52)),
                     ERR_EXISTS);
    assert_int_equal(rollback_find(&replica->driver.peers.seen, 5)->incarnation,
                     (UINT64_C(1) << PEER_INCARNATION_RANDOM_BITS) + 2);
    /* Of one directory, a clone: the one that is here stays, though the other is at the address. */
    assert_int_equal(dial(replica, 5, 3, HERE(.dials = 52, .heard = 52, .reached = 52)),
                     ERR_EXISTS);
}

/* The address gives nobody the place of one that has promised something, or has registered. */
static void test_the_address_does_not_outweigh_what_was_promised(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);
    struct replica *replica = replica_of(&ring, 6 - leader - again);
    struct rollback *seen = &replica->driver.peers.seen;
    const struct wire_statement now = {.start = replica_of(&ring, again)->driver.start};
    struct wire_statement later = now;
    struct buf earlier = BUF_INIT;

    (void)state;
    assert_int_equal(dial(replica, 5, 1, HERE(.dials = 51)), 0);
    rollback_note(seen, &(struct peer_seen){.id = 5, .term = 2});
    assert_int_equal(dial(replica, 5, 2, HERE(.dials = 52, .heard = 51, .reached = 52)), ERR_STALE);
    assert_int_equal(driver_check_peer(&replica->driver, again, &now, false), 0);
    buf_put_u32(&earlier, (uint32_t)now.start.incarnation);
    later.start.incarnation += UINT64_C(1) << PEER_INCARNATION_RANDOM_BITS;
    later.earlier = earlier.data;
    later.earlier_len = earlier.len;
    assert_int_equal(
        peers_check(&replica->peers, again, HERE(.dials = 7, .heard = 8, .reached = 7), &later),
        ERR_EXISTS);
    assert_int_equal(peers_check(&replica->peers, again, HERE(.dials = 7, .reached = 8), &later),
                     0);
    buf_free(&earlier);
}

static void test_a_node_that_had_them_all_goes_on(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        ring_crash(&ring, again);
        ring_restart(&ring, again);
        ring_run_ms(&ring, 300);
        assert_int_equal(ring_node(&ring, again)->replica.superseded, 0);
    }
}

/* A node looks up what the log says of itself when it is woken for that, and not in each turn. */
static void test_a_node_looks_itself_up_only_when_it_is_woken(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t again = start(&ring, &leader);
    struct replica *replica = replica_of(&ring, again);

    (void)state;
    while (replica_turn(replica)) {
        continue;
    }
    for (unsigned i = 0; i < 1000; i++) {
        (void)replica_turn(replica);
        assert_int_equal(replica->timers.woken & WAKE_SELF, 0);
    }
    replica->requests.superseded = replica->config.driver.incarnation + 1;
    (void)replica_turn(replica);
    assert_int_equal(replica->superseded, 0);
    context_wake(&replica->context, WAKE_SELF);
    (void)replica_turn(replica);
    assert_int_equal(replica->superseded, replica->requests.superseded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_has_met_nobody_knows_a_copy_by_the_state),
        cmocka_unit_test(test_a_node_looks_itself_up_only_when_it_is_woken),
        cmocka_unit_test(test_a_copy_hears_of_a_start_that_it_never_had),
        cmocka_unit_test(test_a_later_start_is_not_believed_while_the_present_one_is_here),
        cmocka_unit_test(test_of_two_in_one_place_the_one_at_the_address_is_let_in),
        cmocka_unit_test(test_the_address_does_not_outweigh_what_was_promised),
        cmocka_unit_test(test_a_node_that_had_them_all_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
