/*
 * test_driver_witness.c - a leader that contradicts what is committed here: nothing of it is taken,
 * and this node ends as the witness, with an error of its own. And that honest leaders do not.
 *
 * Thread: one.
 *
 * Shows P7-member. */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/tests/raft_bench.h"

static const struct boot FOLLOWER = {
    .id = 1, .term = 5, .last = 10, .last_term = 4, .servers = 3, .roles = THREE_VOTERS};
static const struct boot APPLIED = {.id = 1,
                                    .term = 5,
                                    .last = 10,
                                    .last_term = 4,
                                    .applied = 8,
                                    .first = 7,
                                    .servers = 3,
                                    .roles = THREE_VOTERS};

/* A follower with ten entries, all of them committed. */
static void commit_all(struct bench *bench)
{
    struct raft_message heartbeat = append_of(2, 5, 10, 4, 10, NULL, 0);

    bench_start(bench, &FOLLOWER);
    bench_receive(bench, &heartbeat);
    bench_run(bench);
    assert_int_equal(bench->driver.commit, 10);
    fake_net_clear(&bench->net);
}

/* The message is of a leader that lost, or forged, what is committed: nothing is taken, answered or
 * written; the node ends with a code of its own. */
static void expect_witness(struct bench *bench, struct raft_message message)
{
    struct raft_message answer;

    assert_false(bench_takes(bench, &message));
    assert_true(bench->driver.failed);
    bench_run(bench); /* what it knew of its peers at the start goes to the disk first */
    assert_int_equal(fake_disk_count(&bench->disk, STORE_LOCAL), 0);
    assert_int_equal(bench->observer.failed_count, 1);
    assert_int_equal(bench->observer.failed_err, ERR_CONTRADICTED);
    assert_int_equal(entry_log_last(&bench->driver.log), 10);
    assert_int_equal(fake_disk_count(&bench->disk, STORE_APPEND), 0);
    assert_int_equal(fake_disk_count(&bench->disk, STORE_INSTALL), 0);
    assert_false(bench_sent(bench, message.server_id, RAFT_APPEND_ENTRIES_RESULT, &answer));
    if (message.type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&message.install_snapshot.conf);
    }
    bench_close(bench);
    *bench = (struct bench){0};
}

/* Two live copies were put back: their leader's log ends at 6, and it appends its first entry. What
 * ends below the commit index was once taken for equal, unread, and acknowledged. */
/* Shows P1-witness. */
static void test_a_stale_leader_below_the_commit_index(void **state)
{
    struct raft_entry entry = entry_of(6, NULL);
    struct bench bench = {0};

    (void)state;
    commit_all(&bench);
    expect_witness(&bench, append_of(3, 6, 6, 4, 6, &entry, 1));
}

/* And what reached beyond it fired an assertion. */
static void test_a_stale_leader_beyond_the_commit_index(void **state)
{
    struct raft_entry entries[6];
    struct bench bench = {0};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        entries[i] = entry_of(6, NULL);
    }
    commit_all(&bench);
    expect_witness(&bench, append_of(3, 6, 6, 4, 6, entries, 6));
}

/* What begins behind it made the core shut down ("refused event 2", exit code 70). */
static void test_a_stale_leader_at_the_commit_index(void **state)
{
    struct raft_entry entry = entry_of(6, NULL);
    struct bench bench = {0};

    (void)state;
    commit_all(&bench);
    expect_witness(&bench, append_of(3, 6, 10, 5, 10, &entry, 1));
    commit_all(&bench);
    expect_witness(&bench, append_of(3, 6, 9, 3, 9, NULL, 0));
}

/* One term, elected twice by nodes that forgot their votes: only the bytes differ. */
/* Shows P1-witness. */
static void test_an_entry_of_equal_term_and_other_content(void **state)
{
    static const uint8_t other[2] = {COMMAND_VERSION, COMMAND_NOOP + 1};
    static const uint8_t longer[3] = {COMMAND_VERSION, COMMAND_NOOP, 0};
    struct raft_entry entry = entry_of(4, NULL);
    struct bench bench = {0};

    (void)state;
    commit_all(&bench);
    entry.buf = (struct raft_buffer){(void *)(uintptr_t)other, 2};
    expect_witness(&bench, append_of(3, 6, 6, 4, 6, &entry, 1));
    commit_all(&bench);
    entry.buf = (struct raft_buffer){(void *)(uintptr_t)longer, 3};
    expect_witness(&bench, append_of(3, 6, 6, 4, 6, &entry, 1));
    commit_all(&bench);
    entry = entry_of(4, NULL);
    entry.type = RAFT_BARRIER;
    expect_witness(&bench, append_of(3, 6, 6, 4, 6, &entry, 1));
}

static void test_a_snapshot_that_contradicts(void **state)
{
    struct bench bench = {0};

    (void)state;
    commit_all(&bench);
    expect_witness(&bench, head_of(3, 6, 8, 3));
    commit_all(&bench);
    expect_witness(&bench, head_of(3, 6, 20, 3)); /* terms would have to fall within it */
}

/* A change of the members is committed here; the snapshot is of a log without it. */
static void test_a_snapshot_without_a_committed_configuration(void **state)
{
    struct buf conf = BUF_INIT;
    struct raft_entry entry;
    struct raft_message append;
    struct raft_message head = head_of(3, 6, 20, 6);
    BENCH bench = {0};

    (void)state;
    conf_of_roles(THREE_VOTERS, 3, &conf);
    entry = entry_of(5, &conf);
    append = append_of(2, 5, 10, 4, 11, &entry, 1);
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &append);
    bench_run(&bench);
    bench_receive(&bench, &append);
    assert_int_equal(driver_applied(&bench.driver)->conf_index, 11);
    assert_false(bench_takes(&bench, &head));
    bench_run(&bench);
    assert_int_equal(bench.observer.failed_err, ERR_CONTRADICTED);
    raft_configuration_close(&head.install_snapshot.conf);
    buf_free(&conf);
}

/* While a snapshot is being installed its end is all the log that there is. Another term there made
 * the core shut down. */
static void test_a_heartbeat_that_parts_from_the_install(void **state)
{
    static const uint8_t rows[8] = {0}; /* the digest of none */
    const struct wire_chunk chunk = {1, 0, true, rows, sizeof rows};
    struct raft_message head = head_of(3, 6, 20, 6);
    struct raft_message fits = append_of(3, 6, 20, 6, 20, NULL, 0);
    struct raft_message parts = append_of(3, 6, 20, 5, 20, NULL, 0);
    struct buf payload = BUF_INIT;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    assert_true(bench_takes(&bench, &head));
    raft_configuration_close(&head.install_snapshot.conf);
    wire_chunk_encode(&chunk, &payload);
    assert_true(bench_frame(&bench, 3, FRAME_SNAPSHOT_CHUNK, payload.data, payload.len));
    buf_free(&payload);
    assert_true(bench.driver.applier.installing);
    assert_true(bench_takes(&bench, &fits)); /* which commits it */
    assert_true(bench_takes(&bench, &parts));
    assert_int_equal(bench.observer.failed_count, 0);
    bench_run(&bench);
    assert_int_equal(bench.observer.installed_index, 20);
    assert_false(bench_takes(&bench, &parts));
    bench_run(&bench);
    assert_int_equal(bench.observer.failed_err, ERR_CONTRADICTED);
}

/* Where the entries themselves are compacted away, terms may not fall. */
static void test_an_entry_that_is_compacted_away(void **state)
{
    struct raft_entry entry = entry_of(6, NULL);
    struct bench bench = {0};

    (void)state;
    bench_start(&bench, &APPLIED);
    assert_int_equal(bench.driver.log.first, 7);
    expect_witness(&bench, append_of(3, 6, 3, 4, 3, &entry, 1));
    bench_start(&bench, &APPLIED);
    expect_witness(&bench, append_of(3, 6, 4, 5, 4, NULL, 0));
}

/* An honest leader may well begin far below: it does not know yet how far this node is. */
static void test_an_honest_leader_that_begins_below_is_taken(void **state)
{
    struct raft_entry entries[8];
    struct raft_message append;
    struct raft_message answer;
    struct bench bench = {0};

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        entries[i] = entry_of(i < 7 ? 4 : 6, NULL);
    }
    commit_all(&bench);
    append = append_of(3, 6, 3, 4, 10, entries, 8);
    bench_receive(&bench, &append);
    bench_run(&bench);
    assert_int_equal(bench.observer.failed_count, 0);
    assert_int_equal(entry_log_last(&bench.driver.log), 11);
    assert_true(bench_sent(&bench, 3, RAFT_APPEND_ENTRIES_RESULT, &answer));
    assert_int_equal(answer.append_entries_result.rejected, 0);
    bench_close(&bench);
    memset(&bench, 0, sizeof bench);
    bench_start(&bench, &APPLIED);
    append = append_of(3, 6, 2, 4, 10, entries, 3); /* ends where nothing is known any more */
    bench_receive(&bench, &append);
    assert_int_equal(bench.observer.failed_count, 0);
    bench_close(&bench);
}

/* A late message of an older leader proves nothing; the core refuses it by its term. */
static void test_an_older_term_is_no_contradiction(void **state)
{
    struct raft_entry entry = entry_of(4, NULL);
    struct raft_message append = append_of(3, 4, 6, 3, 6, &entry, 1);
    BENCH bench = {0};

    (void)state;
    commit_all(&bench);
    bench_receive(&bench, &append);
    assert_int_equal(bench.observer.failed_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stale_leader_below_the_commit_index),
        cmocka_unit_test(test_a_stale_leader_beyond_the_commit_index),
        cmocka_unit_test(test_a_stale_leader_at_the_commit_index),
        cmocka_unit_test(test_an_entry_of_equal_term_and_other_content),
        cmocka_unit_test(test_a_snapshot_that_contradicts),
        cmocka_unit_test(test_a_snapshot_without_a_committed_configuration),
        cmocka_unit_test(test_a_heartbeat_that_parts_from_the_install),
        cmocka_unit_test(test_an_entry_that_is_compacted_away),
        cmocka_unit_test(test_an_honest_leader_that_begins_below_is_taken),
        cmocka_unit_test(test_an_older_term_is_no_contradiction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
