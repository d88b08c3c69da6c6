/*
 * test_guard.c - the guards of replicating and committing, G1 to G5: each one's decisions, the core
 * alone showing the defect, and the driver showing that it is gone. A later library that mends a
 * defect fails the test of the core alone, so that the guard can go. Elections are in
 * test_guard_vote.c.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/consensus.h"
#include "raft/core/tests/raft_bench.h"
#include "raft/tests/raft_child.h"
#include "src/base/assert.h"

static const int STANDBY_3[3] = {RAFT_VOTER, RAFT_VOTER, RAFT_STANDBY};

/* --- G1: a CHANGE that is not the first entry of its message --- */

static struct raft_entry typed(enum raft_entry_type type)
{
    return (struct raft_entry){.term = 1, .type = type};
}

static void test_g1_split_puts_each_change_first(void **state)
{
    const struct raft_entry entries[] = {typed(RAFT_COMMAND), typed(RAFT_CHANGE),
                                         typed(RAFT_CHANGE),  typed(RAFT_COMMAND),
                                         typed(RAFT_BARRIER), typed(RAFT_CHANGE)};

    (void)state;
    assert_int_equal(guard_split(entries, 0, 6), 1);
    assert_int_equal(guard_split(entries, 1, 6), 1);
    assert_int_equal(guard_split(entries, 2, 6), 3);
    assert_int_equal(guard_split(entries, 5, 6), 1);
    assert_int_equal(guard_split(entries, 3, 5), 2); /* none in sight: all that is left */
    assert_int_equal(guard_split(entries, 0, 1), 1);
}

/* Server 2 of three, log 1..3; the leader sends two commands and a CHANGE that makes 3 a standby.
 */
static const struct boot G1_BOOT = {
    .id = 2, .term = 2, .last = 3, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};

struct g1 {
    struct buf conf;
    struct raft_entry entries[3];
    struct raft_message message;
};

static void g1_init(struct g1 *g1)
{
    memset(g1, 0, sizeof *g1);
    conf_of_roles(STANDBY_3, 3, &g1->conf);
    g1->entries[0] = entry_of(2, NULL);
    g1->entries[1] = entry_of(2, NULL);
    g1->entries[2] = entry_of(2, &g1->conf); /* index 6 */
    g1->message = append_of(1, 2, 3, 2, 3, g1->entries, 3);
}

static void test_g1_core_notes_the_change_at_a_wrong_index(void **state)
{
    struct core core;
    struct g1 g1;

    (void)state;
    g1_init(&g1);
    core_start(&core, &G1_BOOT);
    assert_int_equal(core_receive(&core, &g1.message), 0);
    assert_int_equal(core.raft.configuration_uncommitted_index, 4); /* it is at 6 */
    assert_int_equal(core_persisted(&core, 6), 0);
    assert_int_equal(core_configuration(&core, 6, &g1.conf), 0);
    assert_int_equal(core.raft.configuration_uncommitted_index, 4); /* pending for ever */
    core_close(&core);
    buf_free(&g1.conf);
}

static void test_g1_core_does_not_roll_the_change_back(void **state)
{
    struct raft_entry other = entry_of(3, NULL);
    struct raft_message message = append_of(3, 3, 4, 2, 4, &other, 1);
    struct core core;
    struct g1 g1;

    (void)state;
    g1_init(&g1);
    core_start(&core, &G1_BOOT);
    assert_int_equal(core_receive(&core, &g1.message), 0);
    assert_int_equal(core_persisted(&core, 6), 0);
    assert_int_equal(core_receive(&core, &message), 0); /* cuts the CHANGE off */
    assert_int_equal(raft_last_index(&core.raft), 5);
    assert_int_equal(core.raft.configuration.servers[2].role, RAFT_STANDBY);
    core_close(&core);
    buf_free(&g1.conf);
}

static void test_g1_driver_commits_the_change(void **state)
{
    struct raft_message heartbeat = append_of(1, 2, 6, 2, 6, NULL, 0);
    struct bench bench = {0};
    struct g1 g1;

    (void)state;
    g1_init(&g1);
    bench_start(&bench, &G1_BOOT);
    bench_receive(&bench, &g1.message);
    assert_int_equal(driver_pending_change(&bench.driver), 6);
    bench_run(&bench);
    bench_receive(&bench, &heartbeat);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 6);
    assert_int_equal(driver_pending_change(&bench.driver), 0);
    assert_int_equal(bench.driver.consensus->raft.configuration_committed_index, 6);
    assert_int_equal(driver_applied(&bench.driver)->conf_index, 6);
    bench_close(&bench);
    buf_free(&g1.conf);
}

/* Each part is given to the core after the one before has replaced the configuration, from which
 * the sender's address comes: ASan sees it if that is still the old one's. */
static void test_g1_driver_takes_several_changes_of_a_message(void **state)
{
    struct raft_entry entries[4];
    struct raft_message message = append_of(1, 2, 3, 2, 7, entries, 4);
    struct bench bench = {0};
    struct g1 g1;

    (void)state;
    g1_init(&g1);
    for (unsigned i = 0; i < 4; i++) { /* CHANGE, command, CHANGE, command */
        entries[i] = entry_of(2, i % 2 == 0 ? &g1.conf : NULL);
    }
    bench_start(&bench, &G1_BOOT);
    bench_receive(&bench, &message);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 7);
    assert_int_equal(driver_applied(&bench.driver)->conf_index, 6);
    assert_string_equal(bench.driver.consensus->raft.follower_state.current_leader.address, "s1");
    bench_close(&bench);
    buf_free(&g1.conf);
}

static void test_g1_driver_rolls_the_change_back(void **state)
{
    struct raft_entry other = entry_of(3, NULL);
    struct raft_message message = append_of(3, 3, 4, 2, 4, &other, 1);
    struct bench bench = {0};
    struct g1 g1;

    (void)state;
    g1_init(&g1);
    bench_start(&bench, &G1_BOOT);
    bench_receive(&bench, &g1.message);
    bench_run(&bench);
    assert_int_equal(bench.driver.consensus->raft.configuration.servers[2].role, RAFT_STANDBY);
    bench_receive(&bench, &message);
    assert_int_equal(entry_log_last(&bench.driver.log), 5);
    assert_int_equal(entry_log_get(&bench.driver.log, 5)->term, 3);
    assert_int_equal(bench.driver.consensus->raft.configuration.servers[2].role, RAFT_VOTER);
    bench_close(&bench);
    buf_free(&g1.conf);
}

/* --- G2: the answer to a message of an old term looks like a success --- */

static const struct boot G2_BOOT = {
    .id = 2, .term = 5, .last = 20, .last_term = 5, .servers = 3, .roles = THREE_VOTERS};

static void test_g2_result_is_patched(void **state)
{
    struct raft_message result = append_result_of(1, 5, 0, 12345);
    struct raft_message vote = vote_result_of(1, 5, true, false);
    struct raft_message same = vote;

    (void)state;
    guard_result(&result, false, 5);
    assert_int_equal(result.append_entries_result.last_log_index, 12345);
    guard_result(&result, true, 5);
    assert_int_equal(result.append_entries_result.last_log_index, 0);
    assert_int_equal(result.append_entries_result.term, 5);
    guard_result(&vote, true, 5); /* another kind stays as it is */
    assert_memory_equal(&vote, &same, sizeof vote);
}

/* "Not rejected", in a term that the sender may lead by now; last_log_index is whatever was on the
 * stack. */
static void test_g2_core_answers_an_old_term_as_if_it_agreed(void **state)
{
    struct raft_message stale = append_of(1, 3, 0, 0, 0, NULL, 0);
    const struct raft_message *reply;
    struct core core;

    (void)state;
    core_start(&core, &G2_BOOT);
    assert_int_equal(core_receive(&core, &stale), 0);
    reply = core_sent(&core, RAFT_APPEND_ENTRIES_RESULT);
    assert_non_null(reply);
    assert_int_equal(reply->append_entries_result.rejected, 0);
    assert_int_equal(reply->append_entries_result.term, 5);
    core_close(&core);
}

static void expect_harmless_reply(struct bench *bench, uint64_t to)
{
    struct raft_message reply;

    assert_true(bench_sent(bench, to, RAFT_APPEND_ENTRIES_RESULT, &reply));
    assert_int_equal(reply.append_entries_result.term, 5);
    assert_int_equal(reply.append_entries_result.last_log_index, 0);
}

static void test_g2_driver_claims_nothing_for_an_old_term(void **state)
{
    struct raft_message stale = append_of(1, 3, 0, 0, 0, NULL, 0);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G2_BOOT);
    bench_receive(&bench, &stale);
    expect_harmless_reply(&bench, 1);
    stale = append_of(1, 4, 7, 3, 0, NULL, 0);
    bench_receive(&bench, &stale);
    expect_harmless_reply(&bench, 1);
}

/* The head of a snapshot of an old term, and its only chunk. */
static void test_g2_driver_claims_nothing_for_an_old_snapshot(void **state)
{
    struct wire_chunk chunk = {77, 0, true, (const uint8_t[8]){0}, 8};
    struct bench bench = {0};
    struct buf conf = BUF_INIT;
    struct buf frame = BUF_INIT;
    struct raft_message head;

    (void)state;
    bench_start(&bench, &G2_BOOT);
    conf_of_roles(THREE_VOTERS, 3, &conf);
    memset(&head, 0, sizeof head);
    head.type = RAFT_INSTALL_SNAPSHOT;
    head.install_snapshot.term = 3;
    head.install_snapshot.last_index = 50;
    head.install_snapshot.last_term = 3;
    head.install_snapshot.conf_index = 1;
    head.install_snapshot.conf = conf_decoded(&conf);
    message_encode(&head, 77, &frame);
    assert_true(bench_frame(&bench, 1, FRAME_RAFT, frame.data, frame.len));
    frame.len = 0;
    wire_chunk_encode(&chunk, &frame);
    assert_true(bench_frame(&bench, 1, FRAME_SNAPSHOT_CHUNK, frame.data, frame.len));
    expect_harmless_reply(&bench, 1);
    assert_false(bench.driver.applier.installing);
    raft_configuration_close(&head.install_snapshot.conf);
    bench_close(&bench);
    buf_free(&frame);
    buf_free(&conf);
}

/* --- G3: a late rejection moves next_index below match_index --- */

static const struct boot LEADER_BOOT = {
    .id = 1, .term = 1, .last = 1, .last_term = 1, .servers = 3, .roles = THREE_VOTERS};

static void test_g3_rejections_at_or_below_match_are_dropped(void **state)
{
    static const struct {
        raft_term term;
        raft_index rejected;
        bool drop;
    } cases[] = {
        {4, 0, false}, /* a success */
        {4, 1, true},   {4, 9, true},  {4, 10, true},
        {4, 11, false}, {3, 9, false}, {5, 9, false}, /* another term's: the core's business */
    };
    struct raft_message vote = vote_result_of(2, 4, false, false);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct raft_message in = append_result_of(2, cases[i].term, cases[i].rejected, 3);

        assert_int_equal(guard_drop_rejection(&in, 4, 10), cases[i].drop);
    }
    assert_false(guard_drop_rejection(&vote, 4, 10));
}

/* Leader of term 2 with entries to 6 that server 2 has acknowledged; then 2 is silent for so long
 * that the core probes it again. */
static void g3_core(struct core *core)
{
    struct raft_message ack = append_result_of(2, 2, 0, 6);

    core_start(core, &LEADER_BOOT);
    core_elect(core);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(core_submit(core, NULL), 0);
    }
    assert_int_equal(core_persisted(core, 6), 0);
    assert_int_equal(core_receive(core, &ack), 0);
    ack.server_id = 3;
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(core_timeout(core), 0);
        assert_int_equal(core_receive(core, &ack), 0);
    }
    assert_int_equal(raft_state(&core->raft), RAFT_LEADER);
}

static void test_g3_core_goes_below_what_matches(void **state)
{
    struct raft_message late = append_result_of(2, 2, 6, 2);
    const struct raft_message *sent;
    raft_index match;
    struct core core;

    (void)state;
    g3_core(&core);
    assert_int_equal(core_receive(&core, &late), 0);
    assert_int_equal(raft_match_index(&core.raft, 2, &match), 0);
    assert_int_equal(match, 6);
    sent = core_sent(&core, RAFT_APPEND_ENTRIES);
    assert_non_null(sent);
    assert_int_equal(sent->append_entries.prev_log_index, 2);
    core_close(&core);
}

static void test_g3_driver_drops_the_late_rejection(void **state)
{
    struct raft_message late;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &LEADER_BOOT);
    bench_elect(&bench);
    assert_int_equal(bench_submit(&bench, 4), 0);
    bench_run(&bench);
    bench_ack(&bench, 2);
    for (unsigned i = 0; i < 30; i++) {
        bench_timeout(&bench);
        bench_ack(&bench, 3);
    }
    fake_net_clear(&bench.net);
    late = append_result_of(2, bench_term(&bench), 6, 2);
    bench_receive(&bench, &late);
    assert_int_equal(fake_net_count(&bench.net, 2, FRAME_RAFT), 0);
    late = append_result_of(2, bench_term(&bench), 7, 6); /* a real one is heard */
    bench_receive(&bench, &late);
    assert_int_equal(driver_state(&bench.driver), DRIVER_LEADER);
}

/* --- G4: prev = 0 on a compacted log --- */

/* The log of server 2 holds 41..60, the state stands for 40. */
static const struct boot G4_BOOT = {.id = 2,
                                    .term = 5,
                                    .last = 60,
                                    .last_term = 2,
                                    .applied = 40,
                                    .first = 41,
                                    .servers = 3,
                                    .roles = THREE_VOTERS};

/* Entries 1.. of the leader of term 5, sent before server 2 had anything, and come late. */
static struct raft_message g4_message(struct raft_entry *entries, const struct buf *conf)
{
    entries[0] = entry_of(1, conf);
    entries[1] = entry_of(2, NULL);
    entries[2] = entry_of(2, NULL);
    return append_of(1, 5, 0, 0, 1, entries, 3);
}

/* 0 if the core took it for what it is. */
static int g4_core(void *data)
{
    struct raft_entry entries[3];
    struct buf conf = BUF_INIT;
    struct raft_message message;
    struct core core;

    (void)data;
    conf_of_roles(THREE_VOTERS, 3, &conf);
    message = g4_message(entries, &conf);
    core_start(&core, &G4_BOOT);
    if (core_receive(&core, &message) != 0 || raft_last_index(&core.raft) != 60 ||
        (core.update.flags & (unsigned)(RAFT_UPDATE_ENTRIES))) {
        return 1;
    }
    core_close(&core);
    buf_free(&conf);
    return 0;
}

static void test_g4_core_crashes_or_takes_nonsense(void **state)
{
    (void)state;
    assert_int_not_equal(child_run(g4_core, NULL), 0);
}

static void test_g4_driver_cuts_what_is_committed(void **state)
{
    struct raft_entry entries[3];
    struct buf conf = BUF_INIT;
    struct raft_message message;
    struct raft_message reply;
    struct bench bench = {0};

    (void)state;
    conf_of_roles(THREE_VOTERS, 3, &conf);
    message = g4_message(entries, &conf);
    bench_start(&bench, &G4_BOOT);
    bench_receive(&bench, &message);
    bench_run(&bench);
    assert_int_equal(bench.observer.failed_count, 0);
    assert_int_equal(bench.driver.log.first, 41);
    assert_int_equal(entry_log_last(&bench.driver.log), 60);
    assert_int_equal(bench.driver.commit, 40);
    assert_true(bench_sent(&bench, 1, RAFT_APPEND_ENTRIES_RESULT, &reply));
    assert_int_equal(reply.append_entries_result.rejected, 0);
    assert_int_equal(reply.append_entries_result.last_log_index, 40);
    bench_close(&bench);
    buf_free(&conf);
}

/* --- G5: the commit index falls --- */

static void test_g5_messages_are_made_to_begin_at_the_commit_index(void **state)
{
    static const struct {
        raft_term term;
        raft_index prev;
        unsigned n;
        raft_index commit;
        raft_term commit_term;
        unsigned skip; /* wanted */
        raft_index to; /* prev wanted */
    } cases[] = {
        {5, 10, 0, 18, 4, 0, 18},                            /* a heartbeat */
        {5, 10, 4, 18, 4, 4, 18},                            /* all of it is committed */
        {5, 10, 8, 18, 4, 8, 18},                            /* exactly up to it */
        {5, 10, 9, 18, 4, 8, 18},                            /* one beyond */
        {6, 0, 30, 18, 4, 18, 18}, {5, 18, 3, 18, 4, 0, 18}, /* nothing to do */
        {5, 19, 3, 18, 4, 0, 19},  {4, 10, 3, 18, 4, 0, 10}, /* an old term: the core refuses it */
        {5, 10, 3, 18, 0, 0, 10}, /* its term is not known (an install is under way) */
        {5, 0, 3, 0, 0, 0, 0},
    };
    struct raft_entry entries[30];
    struct raft_message vote = vote_of(1, 9, 9, 9, false);

    (void)state;
    for (size_t i = 0; i < 30; i++) {
        entries[i] = entry_of(4, NULL);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct raft_message in =
            append_of(1, cases[i].term, cases[i].prev, 3, 30, entries, cases[i].n);

        assert_int_equal(guard_normalise(&in, 5, cases[i].commit, cases[i].commit_term),
                         cases[i].skip);
        assert_int_equal(in.append_entries.prev_log_index, cases[i].to);
        assert_int_equal(in.append_entries.prev_log_term, cases[i].to == cases[i].prev ? 3 : 4);
        assert_int_equal(in.append_entries.n_entries, cases[i].n); /* the caller's to cut */
    }
    assert_int_equal(guard_normalise(&vote, 5, 18, 4), 0);
}

/* Two leaders cannot have committed different entries at one index: better to end than to go on. */
static int g5_other_entry_at_commit(void *data)
{
    struct raft_entry entries[3] = {entry_of(4, NULL), entry_of(4, NULL), entry_of(4, NULL)};
    struct raft_message in = append_of(1, 5, 10, 3, 30, entries, 3);

    (void)data;
    return (int)guard_normalise(&in, 5, 12, 3);
}

static void test_g5_another_entry_at_the_commit_index_ends_the_process(void **state)
{
    (void)state;
    assert_true(child_asserts(g5_other_entry_at_commit, NULL));
}

static void test_g5_core_commit_index_falls(void **state)
{
    struct raft_message ahead = append_of(1, 5, 20, 5, 18, NULL, 0);
    struct raft_message behind = append_of(1, 5, 10, 5, 30, NULL, 0);
    struct core core;

    (void)state;
    core_start(&core, &G2_BOOT);
    assert_int_equal(core_receive(&core, &ahead), 0);
    assert_int_equal(raft_commit_index(&core.raft), 18);
    assert_int_equal(core_receive(&core, &behind), 0);
    assert_int_equal(raft_commit_index(&core.raft), 10);
    core_close(&core);
}

static void test_g5_driver_commit_index_stays(void **state)
{
    struct raft_message ahead = append_of(1, 5, 20, 5, 18, NULL, 0);
    struct raft_message behind = append_of(1, 5, 10, 5, 30, NULL, 0);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &G2_BOOT);
    bench_receive(&bench, &ahead);
    assert_int_equal(bench.driver.commit, 18);
    bench_receive(&bench, &behind);
    assert_int_equal(bench.driver.commit, 18);
    assert_int_equal(raft_commit_index(&bench.driver.consensus->raft), 18);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 18);
}

/* Entries 16..21 with commit at 18: 19 and 20 are there already, 21 is new. */
static void test_g5_driver_takes_the_rest_of_an_overlapping_message(void **state)
{
    struct raft_message ahead = append_of(1, 5, 20, 5, 18, NULL, 0);
    struct raft_entry entries[6];
    struct raft_message overlap = append_of(1, 5, 15, 5, 18, entries, 6);
    BENCH bench = {0};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        entries[i] = entry_of(5, NULL);
    }
    bench_start(&bench, &G2_BOOT);
    bench_receive(&bench, &ahead);
    bench_receive(&bench, &overlap);
    assert_int_equal(entry_log_last(&bench.driver.log), 21);
    assert_int_equal(entry_log_get(&bench.driver.log, 20)->write, 0); /* not written again */
    assert_int_equal(bench.driver.commit, 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g1_split_puts_each_change_first),
        cmocka_unit_test(test_g1_core_notes_the_change_at_a_wrong_index),
        cmocka_unit_test(test_g1_core_does_not_roll_the_change_back),
        cmocka_unit_test(test_g1_driver_commits_the_change),
        cmocka_unit_test(test_g1_driver_takes_several_changes_of_a_message),
        cmocka_unit_test(test_g1_driver_rolls_the_change_back),
        cmocka_unit_test(test_g2_result_is_patched),
        cmocka_unit_test(test_g2_core_answers_an_old_term_as_if_it_agreed),
        cmocka_unit_test(test_g2_driver_claims_nothing_for_an_old_term),
        cmocka_unit_test(test_g2_driver_claims_nothing_for_an_old_snapshot),
        cmocka_unit_test(test_g3_rejections_at_or_below_match_are_dropped),
        cmocka_unit_test(test_g3_core_goes_below_what_matches),
        cmocka_unit_test(test_g3_driver_drops_the_late_rejection),
        cmocka_unit_test(test_g4_core_crashes_or_takes_nonsense),
        cmocka_unit_test(test_g4_driver_cuts_what_is_committed),
        cmocka_unit_test(test_g5_messages_are_made_to_begin_at_the_commit_index),
        cmocka_unit_test(test_g5_another_entry_at_the_commit_index_ends_the_process),
        cmocka_unit_test(test_g5_core_commit_index_falls),
        cmocka_unit_test(test_g5_driver_commit_index_stays),
        cmocka_unit_test(test_g5_driver_takes_the_rest_of_an_overlapping_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
