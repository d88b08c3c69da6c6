/*
 * test_guard_vote.c - the guards of elections, terms and the timer, G6 to G11: each one's
 * decisions, the core alone showing the defect, and the driver showing that it is gone. See
 * test_guard.c.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/core/consensus.h"
#include "raft/core/prepare.h"
#include "raft/core/driver.h"
#include "raft/core/tests/raft_bench.h"

static const int STANDBY_3[3] = {RAFT_VOTER, RAFT_VOTER, RAFT_STANDBY};

/* --- G6: a server that is no voter in its own view never votes --- */

/* Server 3 is a standby as far as it knows: the CHANGE that makes it a voter has not come yet. */
static const struct boot G6_BOOT = {
    .id = 3, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = STANDBY_3};

static void test_g6_who_counts_as_a_voter(void **state)
{
    struct raft_message vote = vote_of(1, 3, 11, 2, false);
    struct raft_message append = append_of(1, 3, 10, 2, 10, NULL, 0);

    (void)state;
    assert_true(guard_vote_as_voter(&vote, RAFT_FOLLOWER, RAFT_STANDBY, 10));
    assert_true(guard_vote_as_voter(&vote, RAFT_FOLLOWER, RAFT_SPARE, 10));
    assert_true(guard_vote_as_voter(&vote, RAFT_FOLLOWER, -1, 10)); /* not in the configuration */
    assert_false(guard_vote_as_voter(&vote, RAFT_FOLLOWER, RAFT_VOTER, 10));
    assert_false(guard_vote_as_voter(&vote, RAFT_FOLLOWER, RAFT_STANDBY, 0)); /* an empty log */
    assert_false(guard_vote_as_voter(&vote, RAFT_LEADER, RAFT_STANDBY, 10));
    assert_false(guard_vote_as_voter(&append, RAFT_FOLLOWER, RAFT_STANDBY, 10));
}

static void test_g6_when_a_leader_is_forgotten(void **state)
{
    static const struct {
        uint64_t now_ms;
        bool forgotten;
    } cases[] = {
        {1000, false}, {1499, false}, {1500, true}, {999, false}, /* the clock went back */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake_clock clock;
        struct consensus consensus = {.clock = &clock.base, .heard_ms = 1000};

        fake_clock_init(&clock, cases[i].now_ms);
        consensus.raft.state = RAFT_FOLLOWER;
        consensus.raft.election_timeout = 500;
        consensus.raft.follower_state.current_leader.id = 1;
        leader_watch_forget_silent(&consensus);
        assert_int_equal(consensus.raft.follower_state.current_leader.id,
                         cases[i].forgotten ? 0 : 1);
    }
}

static void test_g6_core_standby_never_forgets_and_never_votes(void **state)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    struct raft_message vote = vote_of(2, 3, 11, 2, false);
    const struct raft_message *reply;
    const char *address;
    struct core core;
    raft_id leader;

    (void)state;
    core_start(&core, &G6_BOOT);
    assert_int_equal(core_receive(&core, &heartbeat), 0);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(core_timeout(&core), 0);
    }
    assert_true(core.now > BOOT_MS + 10 * BOOT_ELECTION_MS);
    raft_leader(&core.raft, &leader, &address);
    assert_int_equal(leader, 1);
    assert_int_equal(core_receive(&core, &vote), 0);
    reply = core_sent(&core, RAFT_REQUEST_VOTE_RESULT);
    assert_non_null(reply);
    assert_false(reply->request_vote_result.vote_granted);
    core_close(&core);
}

static bool asks_for_vote(struct bench *bench, raft_term term)
{
    struct raft_message vote = vote_of(2, term, 11, 2, false);
    struct raft_message reply;

    bench_receive(bench, &vote);
    bench_disk_run(bench); /* term and vote first */
    assert_true(bench_sent(bench, 2, RAFT_REQUEST_VOTE_RESULT, &reply));
    return reply.request_vote_result.vote_granted;
}

static void test_g6_driver_votes_once_the_leader_is_silent(void **state)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G6_BOOT);
    bench.clock.now_ms += 5000;
    bench_receive(&bench, &heartbeat);
    bench.clock.now_ms += BOOT_ELECTION_MS - 1;
    assert_false(asks_for_vote(&bench, 3)); /* the leader was heard a moment ago */
    bench.clock.now_ms += 1;
    assert_true(asks_for_vote(&bench, 3));
    assert_int_equal(bench_term(&bench), 3);
    assert_int_equal(raft_voted_for(&bench.driver.consensus->raft), 2);
    /* Its own view is what it was. */
    assert_int_equal(driver_configuration(&bench.driver)->count, 3);
    assert_int_equal(raft_role(&bench.driver.consensus->raft), RAFT_STANDBY);
}

/* The vote of a standby binds like any other: one a term, and only for a log that is as long. */
static void test_g6_driver_standby_votes_by_the_rules(void **state)
{
    struct raft_message other = vote_of(1, 3, 99, 2, false);
    struct raft_message shorter = vote_of(1, 4, 9, 2, false);
    struct raft_message reply;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G6_BOOT);
    bench.clock.now_ms += 5000;
    assert_true(asks_for_vote(&bench, 3));
    bench_receive(&bench, &other);
    bench_run(&bench);
    assert_true(bench_sent(&bench, 1, RAFT_REQUEST_VOTE_RESULT, &reply));
    assert_false(reply.request_vote_result.vote_granted);
    bench_receive(&bench, &shorter);
    bench_run(&bench);
    assert_true(bench_sent(&bench, 1, RAFT_REQUEST_VOTE_RESULT, &reply));
    assert_false(reply.request_vote_result.vote_granted);
}

/* Who stands for no election follows nobody after a timeout of silence, and whoever is heard. */
static void gives_a_silent_leader_up(const struct boot *boot, bool held)
{
    struct raft_message heartbeat = append_of(1, 2, 10, 2, 10, NULL, 0);
    struct raft_message vote;
    BENCH bench = {0};
    uint64_t heard_ms;

    bench_start(&bench, boot);
    driver_hold(&bench.driver, held);
    bench.clock.now_ms += BOOT_ELECTION_MS / 2;
    bench_receive(&bench, &heartbeat);
    heard_ms = bench.clock.now_ms;
    while (driver_leader(&bench.driver) == 1) {
        assert_true(bench.clock.now_ms < heard_ms + 2 * BOOT_ELECTION_MS);
        bench_timeout(&bench);
    }
    assert_true(bench.clock.now_ms >= heard_ms + BOOT_ELECTION_MS);
    assert_int_equal(driver_leader(&bench.driver), 0);
    assert_int_equal(driver_state(&bench.driver), DRIVER_FOLLOWER);
    assert_int_equal(bench_term(&bench), 2);
    assert_false(bench_sent(&bench, 2, RAFT_REQUEST_VOTE, &vote));
    bench_receive(&bench, &heartbeat);
    assert_int_equal(driver_leader(&bench.driver), 1);
}

static void test_g6_driver_gives_a_silent_leader_up(void **state)
{
    static const struct boot voter = {
        .id = 3, .term = 2, .last = 10, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

    (void)state;
    gives_a_silent_leader_up(&G6_BOOT, false);
    gives_a_silent_leader_up(&voter, true);
}

/* --- G7: the refusal of a pre-vote hides the higher term --- */

static const struct boot G7_BOOT = {
    .id = 1, .term = 6, .last = 10, .last_term = 3, .servers = 3, .roles = THREE_VOTERS};

static void test_g7_refusals_carry_the_own_term(void **state)
{
    static const struct {
        raft_term term;
        bool granted;
        bool pre_vote;
        raft_term to; /* wanted, own term being 6 */
    } cases[] = {
        {4, false, true, 6}, {6, false, true, 6},  {7, false, true, 7},
        {4, true, true, 4},  {4, false, false, 4},
    };
    struct raft_message append = append_result_of(1, 4, 0, 3);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct raft_message out =
            vote_result_of(2, cases[i].term, cases[i].granted, cases[i].pre_vote);

        guard_result(&out, false, 6);
        assert_int_equal(out.request_vote_result.term, cases[i].to);
    }
    guard_result(&append, false, 6);
    assert_int_equal(append.append_entries_result.term, 4);
}

static void test_g7_core_hides_its_term(void **state)
{
    struct raft_message vote = vote_of(2, 4, 20, 3, true);
    const struct raft_message *reply;
    struct core core;

    (void)state;
    core_start(&core, &G7_BOOT);
    raft_set_pre_vote(&core.raft, true);
    assert_int_equal(core_receive(&core, &vote), 0);
    reply = core_sent(&core, RAFT_REQUEST_VOTE_RESULT);
    assert_non_null(reply);
    assert_false(reply->request_vote_result.vote_granted);
    assert_int_equal(reply->request_vote_result.term, 4);
    core_close(&core);
}

static void test_g7_driver_tells_its_term(void **state)
{
    struct raft_message vote = vote_of(2, 4, 20, 3, true);
    struct raft_message reply;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G7_BOOT);
    bench_receive(&bench, &vote);
    assert_true(bench_sent(&bench, 2, RAFT_REQUEST_VOTE_RESULT, &reply));
    assert_false(reply.request_vote_result.vote_granted);
    assert_true(reply.request_vote_result.pre_vote);
    assert_int_equal(reply.request_vote_result.term, 6);
    assert_int_equal(bench_term(&bench), 6);
}

/* --- G8: a leader's timer that is due in the past for ever --- */

static const int SPARE_3[3] = {RAFT_VOTER, RAFT_VOTER, RAFT_SPARE};
static const struct boot G8_BOOT = {
    .id = 1, .term = 1, .last = 1, .last_term = 1, .servers = 3, .roles = THREE_VOTERS};

/* Leader; 2 and 3 have all; then server 3 is made a spare, to which nothing is sent any more. */
static void test_g8_core_timer_is_due_in_the_past(void **state)
{
    struct raft_message ack = append_result_of(2, 2, 0, 1);
    struct buf conf = BUF_INIT;
    struct core core;
    unsigned past = 0;

    (void)state;
    conf_of_roles(SPARE_3, 3, &conf);
    core_start(&core, &G8_BOOT);
    core_elect(&core);
    assert_int_equal(core_receive(&core, &ack), 0);
    assert_int_equal(core_submit(&core, &conf), 0);
    assert_int_equal(core_persisted(&core, 2), 0);
    ack = append_result_of(2, 2, 0, 2);
    assert_int_equal(core_receive(&core, &ack), 0);
    assert_int_equal(core_configuration(&core, 2, &conf), 0);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(core_timeout(&core), 0);
        past += raft_timeout(&core.raft) <= core.now;
        assert_int_equal(core_receive(&core, &ack), 0);
    }
    assert_int_equal(raft_state(&core.raft), RAFT_LEADER);
    assert_true(past > 40);
    core_close(&core);
    buf_free(&conf);
}

static void test_g8_driver_timer_is_always_ahead(void **state)
{
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G8_BOOT);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    bench_ack(&bench, 3);
    assert_int_equal(driver_change(&bench.driver, 3, NULL, ROLE_SPARE), 0);
    bench_run(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(driver_pending_change(&bench.driver), 0);
    for (unsigned i = 0; i < 50; i++) {
        bench_timeout(&bench);
        assert_true(bench.driver.timer.due_ms > bench.clock.now_ms);
        bench_ack(&bench, 2);
        fake_net_clear(&bench.net);
    }
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
}

/* --- G9: a vote result outside of a candidacy reads another state's memory --- */

static const struct boot G9_BOOT = {
    .id = 1, .term = 2, .last = 5, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

static void test_g9_vote_results_are_for_candidates(void **state)
{
    struct raft_message result = vote_result_of(2, 3, true, false);
    struct raft_message append = append_result_of(2, 3, 0, 5);

    (void)state;
    assert_false(guard_drops(&result, RAFT_CANDIDATE, 3, 0));
    assert_true(guard_drops(&result, RAFT_FOLLOWER, 3, 0));
    assert_true(guard_drops(&result, RAFT_LEADER, 3, 0));
    assert_true(guard_drops(&result, RAFT_UNAVAILABLE, 3, 0));
    assert_false(guard_drops(&append, RAFT_LEADER, 3, 0));
}

/* The term after a late vote result came to a follower in whose memory the byte that a candidate
 * would keep its "in pre-vote" in has this value. */
static raft_term g9_core_term(bool byte)
{
    struct raft_message late = vote_result_of(2, 3, true, true);
    raft_term term;
    struct core core;

    core_start(&core, &G9_BOOT);
    core.raft.candidate_state.in_pre_vote = byte;
    assert_int_equal(core_receive(&core, &late), 0);
    term = raft_current_term(&core.raft);
    core.raft.candidate_state.in_pre_vote = false;
    core_close(&core);
    return term;
}

static void test_g9_core_decides_by_memory_of_another_state(void **state)
{
    (void)state;
    assert_int_equal(g9_core_term(true), 2);
    assert_int_equal(g9_core_term(false), 3);
}

static void test_g9_driver_ignores_late_vote_results(void **state)
{
    struct raft_message late = vote_result_of(2, 3, true, true);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G9_BOOT);
    bench_receive(&bench, &late);
    assert_int_equal(bench_term(&bench), 2);
    bench_elect(&bench);
    assert_int_equal(bench_term(&bench), 3);
    late = vote_result_of(3, 4, true, true);
    bench_receive(&bench, &late);
    assert_int_equal(bench_term(&bench), 3);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
    assert_int_equal(bench.disk.queued, 0);
}

/* --- G10: a clean election leaves no entry of the new term --- */

static const struct boot G10_BOOT = {
    .id = 1, .term = 1, .last = 1, .last_term = 1, .servers = 3, .roles = THREE_VOTERS};

static void test_g10_core_changes_members_before_its_term_is_settled(void **state)
{
    struct buf conf = BUF_INIT;
    struct core core;

    (void)state;
    conf_of_roles(STANDBY_3, 3, &conf);
    core_start(&core, &G10_BOOT);
    core_elect(&core);
    assert_int_equal(core.update.flags & (unsigned)(RAFT_UPDATE_ENTRIES), 0); /* no barrier */
    assert_int_equal(core_submit(&core, &conf), 0); /* single-server change bug of 2015 */
    core_close(&core);
    buf_free(&conf);
}

/* Shows lesson-tail. */
static void test_g10_driver_appends_its_own_first_entry(void **state)
{
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G10_BOOT);
    bench_elect(&bench);
    assert_int_equal(entry_log_last(&bench.driver.log), 2);
    assert_int_equal(entry_log_get(&bench.driver.log, 2)->term, 2);
    assert_false(driver_leads(&bench.driver));
    bench_run(&bench);
    assert_false(driver_leads(&bench.driver)); /* on the own disk alone */
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 2);
    assert_true(driver_leads(&bench.driver));
    bench_run(&bench);
    assert_int_equal(entry_log_last(&bench.driver.log), 2); /* one a term */
}

/* --- G11: a sole voter restarts in the same term --- */

static const int SOLE_2[2] = {RAFT_VOTER, RAFT_STANDBY};
static const struct boot G11_BOOT = {
    .id = 1, .term = 1, .last = 1, .last_term = 1, .servers = 2, .roles = SOLE_2};

static void test_g11_who_is_a_sole_voter(void **state)
{
    struct configuration configuration = {0};

    (void)state;
    configuration_add(&configuration, 1, "s1", ROLE_VOTER);
    assert_true(guard_sole_voter(&configuration, 1));
    configuration_add(&configuration, 2, "s2", ROLE_STANDBY);
    assert_true(guard_sole_voter(&configuration, 1));
    assert_false(guard_sole_voter(&configuration, 2));
    assert_false(guard_sole_voter(&configuration, 3));
    configuration.members[1].role = ROLE_VOTER;
    assert_false(guard_sole_voter(&configuration, 1));
}

static void test_g11_core_leads_again_in_its_old_term(void **state)
{
    struct core core;

    (void)state;
    core_start(&core, &G11_BOOT);
    assert_int_equal(raft_state(&core.raft), RAFT_LEADER);
    assert_int_equal(raft_current_term(&core.raft), 1); /* the term it was started with */
    core_close(&core);
}

/* And so a standby that got entry 2 of the first incarnation keeps it, and commits it, when the
 * second incarnation sends another entry 2 of the same term. */
static void test_g11_core_standby_keeps_the_entry_that_was_lost(void **state)
{
    struct boot boot = G11_BOOT;
    struct raft_entry entry = entry_of(1, NULL);
    struct raft_message first = append_of(1, 1, 1, 1, 1, &entry, 1);
    struct raft_message second = append_of(1, 1, 1, 1, 2, &entry, 1);
    struct core core;

    (void)state;
    boot.id = 2;
    core_start(&core, &boot);
    assert_int_equal(core_receive(&core, &first), 0);
    assert_int_equal(core_persisted(&core, 2), 0);
    assert_int_equal(core_receive(&core, &second), 0); /* other bytes would go unnoticed */
    assert_int_equal(core.update.flags & (unsigned)(RAFT_UPDATE_ENTRIES), 0);
    assert_int_equal(raft_commit_index(&core.raft), 2);
    core_close(&core);
}

static int ignore_row(void *data, const struct state_row *row)
{
    (void)data;
    (void)row;
    return 0;
}

static void prepare(struct store *store, uint64_t id, struct store_loaded *ret_loaded)
{
    const struct net_peer members[2] = {{1, "s1"}, {2, "s2"}};
    struct store_error error;

    assert_int_equal(store->ops->load(store, ret_loaded, ignore_row, NULL, &error), 0);
    assert_int_equal(prepare_store(store, ret_loaded, id, 7, members, 2, &error), 0);
}

static void test_g11_each_start_of_a_sole_voter_has_a_term_of_its_own(void **state)
{
    struct store_loaded loaded;
    struct store_loaded again;
    struct store_error error;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G11_BOOT);
    bench_crash(&bench);
    prepare(bench.store, 1, &loaded);
    assert_int_equal(loaded.term, 2);
    assert_int_equal(loaded.vote, 1);
    store_loaded_release(&loaded);
    assert_int_equal(bench.store->ops->load(bench.store, &again, ignore_row, NULL, &error), 0);
    assert_int_equal(again.term, 2); /* durable before the start */
    assert_int_equal(again.vote, 1);
    store_loaded_release(&again);
    bench_restart(&bench);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
    assert_int_equal(bench_term(&bench), 2);
}

static void test_g11_others_keep_their_term(void **state)
{
    struct boot boot = G11_BOOT;
    struct store_loaded loaded;
    BENCH bench = {0};

    (void)state;
    boot.id = 2; /* the standby of the same cluster */
    boot.term = 7;
    boot.vote = 1;
    bench_start(&bench, &boot);
    bench_crash(&bench);
    prepare(bench.store, 2, &loaded);
    assert_int_equal(loaded.term, 7);
    assert_int_equal(loaded.vote, 1);
    store_loaded_release(&loaded);
    bench_restart(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g6_who_counts_as_a_voter),
        cmocka_unit_test(test_g6_when_a_leader_is_forgotten),
        cmocka_unit_test(test_g6_core_standby_never_forgets_and_never_votes),
        cmocka_unit_test(test_g6_driver_votes_once_the_leader_is_silent),
        cmocka_unit_test(test_g6_driver_standby_votes_by_the_rules),
        cmocka_unit_test(test_g6_driver_gives_a_silent_leader_up),
        cmocka_unit_test(test_g7_refusals_carry_the_own_term),
        cmocka_unit_test(test_g7_core_hides_its_term),
        cmocka_unit_test(test_g7_driver_tells_its_term),
        cmocka_unit_test(test_g8_core_timer_is_due_in_the_past),
        cmocka_unit_test(test_g8_driver_timer_is_always_ahead),
        cmocka_unit_test(test_g9_vote_results_are_for_candidates),
        cmocka_unit_test(test_g9_core_decides_by_memory_of_another_state),
        cmocka_unit_test(test_g9_driver_ignores_late_vote_results),
        cmocka_unit_test(test_g10_core_changes_members_before_its_term_is_settled),
        cmocka_unit_test(test_g10_driver_appends_its_own_first_entry),
        cmocka_unit_test(test_g11_who_is_a_sole_voter),
        cmocka_unit_test(test_g11_core_leads_again_in_its_old_term),
        cmocka_unit_test(test_g11_core_standby_keeps_the_entry_that_was_lost),
        cmocka_unit_test(test_g11_each_start_of_a_sole_voter_has_a_term_of_its_own),
        cmocka_unit_test(test_g11_others_keep_their_term),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
