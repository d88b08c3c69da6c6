/*
 * test_guard_leader.c - G13 and leader_watch: when a follower gives its leader up; G14: a
 * follower that has become the sole voter. The core alone showing the defect, the driver showing
 * that it is gone, and whole replicas whose leader ends. See test_guard.c.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/core/consensus.h"
#include "raft/core/driver.h"
#include "raft/core/tests/raft_bench.h"
#include "raft/tests/raft_ring.h"

static const struct boot BOOT = {
    .id = 3, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

/* --- G13: a voter refuses its vote for longer than the leader was heard --- */

static void test_g13_core_voter_keeps_a_silent_leader(void **state)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    struct raft_message vote = vote_of(2, 3, 11, 2, false);
    const struct raft_message *reply;
    struct core core;

    (void)state;
    core_start(&core, &BOOT);
    assert_int_equal(core_receive(&core, &heartbeat), 0);
    /* Its own timeout is drawn from one to two of these. */
    assert_true(raft_timeout(&core.raft) > core.now + BOOT_ELECTION_MS);
    core.now = raft_timeout(&core.raft) - 1;
    assert_int_equal(core_receive(&core, &vote), 0);
    reply = core_sent(&core, RAFT_REQUEST_VOTE_RESULT);
    assert_non_null(reply);
    assert_false(reply->request_vote_result.vote_granted);
    core_close(&core);
}

static bool asks_for_vote(struct bench *bench)
{
    struct raft_message vote = vote_of(2, 3, 11, 2, false);
    struct raft_message reply;

    bench_receive(bench, &vote);
    bench_disk_run(bench); /* term and vote first */
    assert_true(bench_sent(bench, 2, RAFT_REQUEST_VOTE_RESULT, &reply));
    return reply.request_vote_result.vote_granted;
}

static void start_with_leader(struct bench *bench)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);

    bench_start(bench, &BOOT);
    bench->clock.now_ms += 5000;
    bench_receive(bench, &heartbeat);
    assert_int_equal(driver_leader(&bench->driver), 1);
}

static void test_g13_driver_votes_once_the_leader_is_silent(void **state)
{
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    bench.clock.now_ms += BOOT_ELECTION_MS - 1;
    assert_false(asks_for_vote(&bench));
    bench.clock.now_ms += 1;
    assert_true(asks_for_vote(&bench));
    assert_int_equal(bench_term(&bench), 3);
    assert_int_equal(raft_voted_for(&bench.driver.consensus->raft), 2);
}

/* --- a leader whose address refuses connections --- */

static void test_refused_and_two_heartbeats_missed_is_enough_for_a_vote(void **state)
{
    BENCH bench = {0};
    uint32_t heartbeat_ms;

    (void)state;
    start_with_leader(&bench);
    heartbeat_ms = bench.driver.config.heartbeat_ms;
    driver_peer_refused(&bench.driver, 1);
    bench.clock.now_ms += 2 * heartbeat_ms - 1;
    assert_false(asks_for_vote(&bench));
    bench.clock.now_ms += 1;
    assert_true(asks_for_vote(&bench));
}

static void test_refused_but_heard_again_is_as_if_never_refused(void **state)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    driver_peer_refused(&bench.driver, 1);
    bench.clock.now_ms += bench.driver.config.heartbeat_ms;
    bench_receive(&bench, &heartbeat);
    assert_true(bench.driver.timer.due_ms >= bench.clock.now_ms + BOOT_ELECTION_MS);
    bench.clock.now_ms += BOOT_ELECTION_MS - 1;
    assert_false(asks_for_vote(&bench));
}

/* Of the voters 2 and 3 that are left, 2 comes first: 3 gives it a heartbeat's time. */
static void test_refused_brings_the_own_timeout_forward_in_turn(void **state)
{
    BENCH bench = {0};
    uint64_t heard_ms;
    uint32_t heartbeat_ms;

    (void)state;
    start_with_leader(&bench);
    heard_ms = bench.clock.now_ms;
    heartbeat_ms = bench.driver.config.heartbeat_ms;
    bench.clock.now_ms += 1;
    driver_peer_refused(&bench.driver, 1);
    assert_int_equal(bench.driver.timer.due_ms, heard_ms + 3 * (uint64_t)heartbeat_ms);
    bench_timeout(&bench);
    assert_int_equal(driver_state(&bench.driver), DRIVER_CANDIDATE);
}

static void test_refused_of_another_than_the_leader_means_nothing(void **state)
{
    BENCH bench = {0};
    uint64_t next_ms;

    (void)state;
    start_with_leader(&bench);
    next_ms = bench.driver.timer.due_ms;
    driver_peer_refused(&bench.driver, 2);
    assert_int_equal(bench.driver.timer.due_ms, next_ms);
    bench.clock.now_ms += BOOT_ELECTION_MS - 1;
    assert_false(asks_for_vote(&bench));
}

/* A standby may vote for others then, but has no timeout that matters. */
static void test_refused_does_not_hurry_a_standby(void **state)
{
    static const int roles[3] = {RAFT_VOTER, RAFT_VOTER, RAFT_STANDBY};
    static const struct boot boot = {
        .id = 3, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = roles};
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    BENCH bench = {0};
    uint64_t next_ms;

    (void)state;
    bench_start(&bench, &boot);
    bench.clock.now_ms += 5000;
    bench_receive(&bench, &heartbeat);
    next_ms = bench.driver.timer.due_ms;
    driver_peer_refused(&bench.driver, 1);
    assert_int_equal(bench.driver.timer.due_ms, next_ms);
    bench.clock.now_ms += 2 * (uint64_t)bench.driver.config.heartbeat_ms;
    assert_true(asks_for_vote(&bench));
}

/* A dial that is refused long after the last heartbeat: at once, never in the past. */
static void test_refused_late_is_due_now(void **state)
{
    BENCH bench = {0};

    (void)state;
    start_with_leader(&bench);
    bench.clock.now_ms += BOOT_ELECTION_MS - 1;
    driver_peer_refused(&bench.driver, 1);
    assert_in_range(bench.driver.timer.due_ms, bench.clock.now_ms, bench.clock.now_ms + 1);
}

/* --- whole replicas --- */

static uint64_t leader_of(struct ring *ring, uint64_t id)
{
    return driver_leader(&ring_node(ring, id)->replica.driver);
}

static uint64_t term_of(struct ring *ring, uint64_t id)
{
    return driver_term(&ring_node(ring, id)->replica.driver);
}

static void test_a_leader_whose_process_ended_is_followed_within_a_few_heartbeats(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t next;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    next = leader % 3 + 1;
    ring_crash(&ring, leader);
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != leader) {
            driver_peer_refused(&ring_node(&ring, id)->replica.driver, leader);
        }
    }
    ring_run_ms(&ring, 3 * RING_HEARTBEAT_MS);
    assert_true(driver_leads(&ring_node(&ring, next)->replica.driver));
    assert_int_equal(leader_of(&ring, next % 3 + 1), next);
}

static void test_who_is_refused_alone_troubles_nobody(void **state)
{
    RING ring = {0};
    uint64_t leader;
    uint64_t other;
    uint64_t term;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    other = leader % 3 + 1;
    term = term_of(&ring, leader);
    ring.cut[leader][other] = true; /* not heard either, and still the others are content */
    driver_peer_refused(&ring_node(&ring, other)->replica.driver, leader);
    ring_run_ms(&ring, 5 * RING_HEARTBEAT_MS);
    assert_int_equal(driver_state(&ring_node(&ring, other)->replica.driver), DRIVER_CANDIDATE);
    ring.cut[leader][other] = false;
    ring_run_ms(&ring, 5 * RING_HEARTBEAT_MS);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(leader_of(&ring, id), leader);
        assert_int_equal(term_of(&ring, id), term);
    }
}

/* --- G14: a follower that has become the sole voter leads its old term --- */

static const int SOLE[2] = {RAFT_VOTER, RAFT_STANDBY};
static const struct boot PAIR = {
    .id = 1, .term = 5, .last = 10, .last_term = 4, .servers = 2, .roles = THREE_VOTERS};

/* Server 2 leads term 5 and makes itself a standby, which leaves the vote to server 1. */
static struct raft_message demotion_of_2(struct raft_entry *entry, struct buf *conf)
{
    conf_of_roles(SOLE, 2, conf);
    *entry = entry_of(5, conf);
    return append_of(2, 5, 10, 4, 11, entry, 1);
}

static void test_g14_core_sole_voter_leads_the_term_of_another(void **state)
{
    struct buf conf = BUF_INIT;
    struct raft_entry entry;
    struct raft_message append = demotion_of_2(&entry, &conf);
    struct core core;

    (void)state;
    core_start(&core, &PAIR);
    assert_int_equal(core_receive(&core, &append), 0);
    assert_int_equal(core_persisted(&core, 11), 0);
    assert_int_equal(core_timeout(&core), 0);
    assert_int_equal(raft_state(&core.raft), RAFT_LEADER);
    assert_int_equal(raft_current_term(&core.raft), 5); /* which server 2 led */
    assert_int_equal(core.update.flags & (unsigned)(RAFT_UPDATE_CURRENT_TERM), 0);
    core_close(&core);
    buf_free(&conf);
}

static void test_g14_driver_begins_a_new_term(void **state)
{
    struct buf conf = BUF_INIT;
    struct raft_entry entry;
    struct raft_message append = demotion_of_2(&entry, &conf);
    struct raft_message sent;
    struct store_loaded loaded;
    struct store_error error;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &PAIR);
    bench_receive(&bench, &append);
    bench_run(&bench);
    fake_net_clear(&bench.net);
    bench_timeout(&bench);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
    assert_int_equal(bench_term(&bench), 6);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_HARD_STATE), 1);
    assert_false(bench_sent(&bench, 2, RAFT_APPEND_ENTRIES, &sent)); /* not durable yet */
    bench_run(&bench);
    bench_timeout(&bench);
    assert_true(bench_sent(&bench, 2, RAFT_APPEND_ENTRIES, &sent));
    assert_int_equal(sent.append_entries.term, 6);
    message_release(&sent);
    assert_int_equal(bench.store->ops->load(bench.store, &loaded, NULL, NULL, &error), 0);
    assert_int_equal(loaded.term, 6);
    assert_int_equal(loaded.vote, 1);
    store_loaded_release(&loaded);
    buf_free(&conf);
}

/* Nor when it is told to take over: its own timer fires soon. */
static void test_g14_a_sole_voter_is_not_told_to_take_over(void **state)
{
    struct raft_message take_over = {.type = RAFT_TIMEOUT_NOW, .server_id = 2};
    struct buf conf = BUF_INIT;
    struct raft_entry entry;
    struct raft_message append = demotion_of_2(&entry, &conf);
    BENCH bench = {0};

    (void)state;
    take_over.timeout_now = (struct raft_timeout_now){0, 5, 11, 5};
    bench_start(&bench, &PAIR);
    bench_receive(&bench, &append);
    bench_run(&bench);
    bench_receive(&bench, &take_over);
    assert_int_equal(driver_state(&bench.driver), DRIVER_FOLLOWER);
    assert_int_equal(bench_term(&bench), 5);
    bench_timeout(&bench);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
    assert_int_equal(bench_term(&bench), 6);
    buf_free(&conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g13_core_voter_keeps_a_silent_leader),
        cmocka_unit_test(test_g13_driver_votes_once_the_leader_is_silent),
        cmocka_unit_test(test_refused_and_two_heartbeats_missed_is_enough_for_a_vote),
        cmocka_unit_test(test_refused_but_heard_again_is_as_if_never_refused),
        cmocka_unit_test(test_refused_brings_the_own_timeout_forward_in_turn),
        cmocka_unit_test(test_refused_of_another_than_the_leader_means_nothing),
        cmocka_unit_test(test_refused_does_not_hurry_a_standby),
        cmocka_unit_test(test_refused_late_is_due_now),
        cmocka_unit_test(test_a_leader_whose_process_ended_is_followed_within_a_few_heartbeats),
        cmocka_unit_test(test_who_is_refused_alone_troubles_nobody),
        cmocka_unit_test(test_g14_core_sole_voter_leads_the_term_of_another),
        cmocka_unit_test(test_g14_driver_begins_a_new_term),
        cmocka_unit_test(test_g14_a_sole_voter_is_not_told_to_take_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
