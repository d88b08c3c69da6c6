/*
 * test_birth_watch.c - the gate before a cluster's birth, on replicas that meet when the test says
 * so; and of which cluster two nodes take each other.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"

#define LONG_MS (20 * RING_ELECTION_MS)

static uint64_t term_of(struct ring *ring, uint64_t id)
{
    return driver_term(&ring_node(ring, id)->replica.driver);
}

static size_t waits_of(struct ring *ring, uint64_t id)
{
    struct birth_seen waits[LIMIT_NODES];

    return birth_watch_waits(&ring_node(ring, id)->replica.peers.births, waits);
}

static struct wire_birth said_by(struct ring *ring, uint64_t id)
{
    return birth_watch_report(&ring_node(ring, id)->replica.peers.births);
}

static int judge(struct ring *ring, uint64_t id, uint64_t peer, struct wire_birth said)
{
    return birth_watch_judge(&ring_node(ring, id)->replica.peers.births, peer, &said);
}

static enum birth_wait wait_for(struct ring *ring, uint64_t id, uint64_t peer)
{
    struct birth_seen waits[LIMIT_NODES];
    size_t count = birth_watch_waits(&ring_node(ring, id)->replica.peers.births, waits);

    for (size_t i = 0; i < count; i++) {
        if (waits[i].id == peer) {
            return waits[i].wait;
        }
    }
    return BIRTH_WAIT_NONE;
}

static void expect_no_candidate(struct ring *ring)
{
    ring_run_ms(ring, LONG_MS);
    for (uint64_t id = 1; id <= ring->count; id++) {
        assert_int_equal(term_of(ring, id), 1);
        assert_true(driver_state(&ring_node(ring, id)->replica.driver) == DRIVER_FOLLOWER);
    }
}

static void test_nobody_stands_for_election_before_it_has_met_all(void **state)
{
    RING ring = {.apart = true};
    struct wire_birth said;
    const struct birth_watch *births;
    struct birth birth;
    uint64_t first = 0;

    (void)state;
    ring_start(&ring, 3);
    births = &ring_node(&ring, 1)->replica.peers.births;
    expect_no_candidate(&ring);
    assert_int_equal(ring_meet(&ring, 2, 1), 0); /* a majority is not enough */
    assert_int_equal(ring_meet(&ring, 1, 2), 0);
    assert_int_equal(waits_of(&ring, 1), 1);
    assert_int_equal(wait_for(&ring, 1, 3), BIRTH_WAIT_UNMET);
    expect_no_candidate(&ring);
    assert_true(births->changes > 0 && births->told_changes == births->changes); /* once logged */
    assert_int_equal(ring_meet(&ring, 3, 1), 0); /* who has met all goes first; others may vote */
    assert_int_equal(waits_of(&ring, 1), 0);
    ring_run_ms(&ring, LONG_MS);
    assert_true(driver_leads(&ring_node(&ring, 1)->replica.driver));
    for (uint64_t id = 1; id <= 3; id++) {
        assert_non_null(state_birth(ring_node(&ring, id)->replica.state));
        birth = *state_birth(ring_node(&ring, id)->replica.state);
        said = said_by(&ring, id);
        assert_true(uid_equal(&birth.uid, &said.uid));
        assert_true(first == 0 || birth.uid.low == first);
        first = birth.uid.low;
        assert_int_equal(waits_of(&ring, id), 0);
    }
}

/* --- the level that it is born at --- */

/* Three nodes that speak these levels meet, and one of them leads. */
static void born_of(struct ring *ring, const uint16_t able[3])
{
    for (unsigned i = 0; i < 3; i++) {
        ring->nodes[i].able = able[i];
    }
    ring_start(ring, 3);
    (void)ring_elect(ring);
}

static void test_it_is_born_at_the_newest_level_that_all_speak(void **state)
{
    static const struct {
        uint16_t able[3];
        uint16_t level;
    } rows[] = {{{3, 3, 3}, 3}, {{4, 4, 3}, 3}, {{4, 3, 4}, 3}, {{3, 4, 4}, 3},
                {{4, 4, 4}, 4}, {{4, 4, 2}, 1}, {{1, 4, 4}, 1}, {{2, 2, 2}, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        RING ring = {.upgrade = {.automatic = false}};

        born_of(&ring, rows[i].able);
        ring_run_ms(&ring, 500);
        for (uint64_t id = 1; id <= 3; id++) {
            assert_int_equal(state_level(ring_node(&ring, id)->replica.state), rows[i].level);
            assert_int_equal(ring_node(&ring, id)->failed_count, 0);
        }
    }
}

/* One comes back with an older leafd between its meeting and the birth. */
static void test_a_member_that_was_started_anew_counts_as_what_it_is_now(void **state)
{
    RING ring = {.apart = true, .upgrade = {.automatic = false}};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        ring.nodes[i].able = 4;
    }
    ring_start(&ring, 3);
    assert_int_equal(ring_node(&ring, 1)->replica.driver.config.birth.level, LEVEL_FIRST);
    assert_int_equal(ring_meet(&ring, 2, 1), 0);
    assert_int_equal(ring_meet(&ring, 3, 1), 0);
    assert_int_equal(ring_node(&ring, 1)->replica.driver.config.birth.level, 4);
    ring_crash(&ring, 3);
    ring_node(&ring, 3)->able = 3;
    ring_restart(&ring, 3);
    assert_int_equal(ring_meet(&ring, 3, 1), 0);
    assert_int_equal(ring_node(&ring, 1)->replica.driver.config.birth.level, 3);
    ring_run_ms(&ring, LONG_MS);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(state_level(ring_node(&ring, id)->replica.state), 3);
    }
}

static void test_who_was_met_is_forgotten_with_the_run(void **state)
{
    RING ring = {.apart = true};

    (void)state;
    ring_start(&ring, 3);
    assert_int_equal(ring_meet(&ring, 2, 1), 0);
    ring_crash(&ring, 1);
    ring_restart(&ring, 1);
    assert_int_equal(ring_meet(&ring, 3, 1), 0);
    assert_int_equal(wait_for(&ring, 1, 2), BIRTH_WAIT_UNMET);
    expect_no_candidate(&ring);
}

/* A long wait does not make all of them stand at once when it ends. */
static void test_a_node_that_is_let_go_waits_for_a_leader_first(void **state)
{
    RING ring = {.apart = true};

    (void)state;
    ring_start(&ring, 3);
    ring_run_ms(&ring, LONG_MS);
    assert_int_equal(ring_meet(&ring, 2, 1), 0);
    assert_int_equal(ring_meet(&ring, 3, 1), 0);
    ring_run_ms(&ring, RING_ELECTION_MS / 2);
    assert_int_equal(term_of(&ring, 1), 1);
    ring_run_ms(&ring, 3 * RING_ELECTION_MS);
    assert_true(driver_leads(&ring_node(&ring, 1)->replica.driver));
}

static void test_another_list_keeps_a_node_waiting_until_it_is_mended(void **state)
{
    struct wire_birth said;
    RING ring = {.apart = true};

    (void)state;
    ring_start(&ring, 3);
    assert_int_equal(ring_meet(&ring, 2, 1), 0);
    said = said_by(&ring, 3);
    said.list_digest ^= 1;
    assert_int_equal(judge(&ring, 1, 3, said), ERR_OTHER_LIST);
    assert_int_equal(wait_for(&ring, 1, 3), BIRTH_WAIT_OTHER_LIST);
    said.uid = uid_make(1, 2); /* a cluster that was born with that list */
    assert_int_equal(judge(&ring, 1, 3, said), ERR_OTHER_LIST);
    expect_no_candidate(&ring);
    birth_watch_refused(&ring_node(&ring, 1)->replica.peers.births, 2, ERR_OTHER_LIST);
    assert_int_equal(waits_of(&ring, 1), 2);
    assert_int_equal(ring_meet(&ring, 2, 1), 0);
    assert_int_equal(ring_meet(&ring, 3, 1), 0);
    assert_int_equal(waits_of(&ring, 1), 0);
}

/* Somebody has the log already: it will come from there. A vote for this node could only be of one
 * that has forgotten what it gave. */
static void test_one_that_is_born_with_the_same_list_is_waited_for(void **state)
{
    struct wire_birth said;
    RING ring = {.apart = true};

    (void)state;
    ring_start(&ring, 3);
    assert_int_equal(ring_meet(&ring, 2, 1), 0);
    said = said_by(&ring, 3);
    said.uid = uid_make(1, 2);
    assert_int_equal(judge(&ring, 1, 3, said), 0);
    assert_int_equal(wait_for(&ring, 1, 3), BIRTH_WAIT_BORN);
    expect_no_candidate(&ring);
    /* That one loses its data: the birth is not forgotten with it, and the others hear of it. */
    assert_int_equal(ring_meet(&ring, 3, 1), 0);
    expect_no_candidate(&ring);
    assert_int_equal(ring_meet(&ring, 1, 2), 0);
    assert_int_equal(ring_meet(&ring, 3, 2), 0);
    assert_int_equal(wait_for(&ring, 2, 1), BIRTH_WAIT_BORN);
    expect_no_candidate(&ring);
    said.uid = uid_make(3, 4); /* and another birth is another cluster's */
    assert_int_equal(judge(&ring, 1, 3, said), ERR_OTHER_BIRTH);
}

static void test_strangers_count_for_nothing(void **state)
{
    struct wire_birth said;
    RING ring = {.apart = true};

    (void)state;
    ring_start(&ring, 3);
    said = said_by(&ring, 1);
    for (uint64_t stranger = 10; stranger < 10 + 2 * LIMIT_PEERS; stranger++) {
        assert_int_equal(judge(&ring, 1, stranger, said), 0);
    }
    assert_int_equal(waits_of(&ring, 1), 2);
    expect_no_candidate(&ring);
}

static void test_born_nodes_of_two_clusters_refuse_each_other(void **state)
{
    (void)state;
    for (unsigned count = 3; count <= 4; count++) { /* two of four leave no majority either */
        struct wire_birth said;
        RING ring = {0};

        ring_start(&ring, count);
        (void)ring_elect(&ring);
        said = said_by(&ring, 1);
        assert_int_equal(judge(&ring, 1, 2, said), 0);
        said.uid = uid_make(9, 9);
        assert_int_equal(judge(&ring, 1, 2, said), ERR_OTHER_BIRTH);
        ring_run_ms(&ring, 100);
        assert_int_equal(ring_node(&ring, 1)->failed_count, 0); /* one stray node ends nobody */
        birth_watch_refused(&ring_node(&ring, 1)->replica.peers.births, 3, ERR_OTHER_BIRTH);
        ring_run_ms(&ring, 100);
        assert_int_equal(ring_node(&ring, 1)->failed_count, 1); /* told once */
        assert_int_equal(ring_node(&ring, 1)->failed_err, ERR_OTHER_BIRTH);
    }
}

static void test_a_stray_node_that_was_put_right_counts_no_more(void **state)
{
    struct wire_birth said;
    RING ring = {0};

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    said = said_by(&ring, 1);
    birth_watch_refused(&ring_node(&ring, 1)->replica.peers.births, 2, ERR_OTHER_BIRTH);
    assert_int_equal(judge(&ring, 1, 2, said), 0);
    birth_watch_refused(&ring_node(&ring, 1)->replica.peers.births, 3, ERR_OTHER_BIRTH);
    ring_run_ms(&ring, 100);
    assert_int_equal(ring_node(&ring, 1)->failed_count, 0);
}

/* It was met before the birth, and its first entry has not arrived; or it joins. */
static void test_a_born_node_lets_in_who_has_heard_of_no_birth(void **state)
{
    struct wire_birth said;
    RING ring = {0};

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    said = said_by(&ring, 1);
    said.uid = (struct uid){0, 0};
    assert_int_equal(judge(&ring, 1, 2, said), 0);
    said.list_digest ^= 1;
    assert_int_equal(judge(&ring, 1, 2, said), ERR_OTHER_LIST);
    said.list_digest = 0;
    assert_int_equal(judge(&ring, 1, 2, said), 0);
}

/* --- the digest of a list --- */

static uint64_t digest(const struct configuration *members, const char *cluster_id,
                       struct snowflake_layout layout)
{
    struct store_loaded loaded = {.first_index = 1};
    const struct service service = {.agreed = &layout, .agreed_len = sizeof layout};
    struct buf conf = BUF_INIT;
    struct birth_list list;

    configuration_encode(members, &conf);
    store_loaded_add(&loaded, &(struct store_entry){1, 3, (uint32_t)conf.len, conf.data});
    birth_list_read(&loaded, 1, cluster_id, &service, &list);
    store_loaded_release(&loaded);
    buf_free(&conf);
    return list.digest;
}

static void test_a_digest_tells_lists_apart_and_no_order(void **state)
{
    const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;
    struct snowflake_layout other = leaf;
    struct configuration list = {0};
    struct configuration turned = {0};
    struct configuration swapped = {0};
    uint64_t right;

    (void)state;
    configuration_add(&list, 1, "a:1", ROLE_VOTER);
    configuration_add(&list, 2, "b:1", ROLE_VOTER);
    configuration_add(&turned, 2, "b:1", ROLE_VOTER);
    configuration_add(&turned, 1, "a:1", ROLE_VOTER);
    configuration_add(&swapped, 1, "b:1", ROLE_VOTER);
    configuration_add(&swapped, 2, "a:1", ROLE_VOTER);
    right = digest(&list, "c", leaf);
    assert_true(right != 0 && digest(&turned, "c", leaf) == right);
    assert_true(digest(&swapped, "c", leaf) != right);
    assert_true(digest(&list, "d", leaf) != right);
    other.epoch_ms++;
    assert_true(digest(&list, "c", other) != right);
    configuration_add(&list, 3, "c:1", ROLE_VOTER);
    assert_true(digest(&list, "c", leaf) != right);
    turned.members[1].id = 7; /* not of this node: it has no first list */
    assert_true(digest(&turned, "c", leaf) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_stands_for_election_before_it_has_met_all),
        cmocka_unit_test(test_it_is_born_at_the_newest_level_that_all_speak),
        cmocka_unit_test(test_a_member_that_was_started_anew_counts_as_what_it_is_now),
        cmocka_unit_test(test_who_was_met_is_forgotten_with_the_run),
        cmocka_unit_test(test_a_node_that_is_let_go_waits_for_a_leader_first),
        cmocka_unit_test(test_another_list_keeps_a_node_waiting_until_it_is_mended),
        cmocka_unit_test(test_one_that_is_born_with_the_same_list_is_waited_for),
        cmocka_unit_test(test_strangers_count_for_nothing),
        cmocka_unit_test(test_born_nodes_of_two_clusters_refuse_each_other),
        cmocka_unit_test(test_a_stray_node_that_was_put_right_counts_no_more),
        cmocka_unit_test(test_a_born_node_lets_in_who_has_heard_of_no_birth),
        cmocka_unit_test(test_a_digest_tells_lists_apart_and_no_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
