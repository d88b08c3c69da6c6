/*
 * test_entry_check.c - which entries of a leader go to the disk: those that decode, and that this
 * leafd knows. Thread: one.
 *
 * Shows P7-member. */
#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/trust.h"
#include "raft/core/tests/core_noop.h"
#include "raft/core/tests/raft_bench.h"

static const struct boot FOLLOWER = {
    .id = 1, .term = 5, .last = 10, .last_term = 4, .servers = 3, .roles = THREE_VOTERS};

static struct raft_entry entry_with(enum raft_entry_type type, const void *data, size_t len)
{
    return (struct raft_entry){.term = 5, .type = type, .buf = {(void *)(uintptr_t)data, len}};
}

static uint64_t last_of(const struct bench *bench)
{
    return entry_log_last(&bench->driver.log);
}

/* Refused, with the alarm, and nothing of it in the log or on its way to the disk; nor is the entry
 * before it there, which was fine. */
static void expect_lie(struct bench *bench, struct raft_entry bad)
{
    struct raft_entry entries[2] = {entry_of(5, NULL), bad};
    struct raft_message message = append_of(2, 5, 10, 4, 1, entries, 2);
    uint64_t count = bench->driver.trust.alarm.count;

    assert_false(bench_takes(bench, &message));
    assert_int_equal(bench->driver.trust.alarm.count, count + 1);
    assert_int_equal(last_of(bench), 10);
    assert_int_equal(fake_disk_count(&bench->disk, STORE_APPEND), 0);
    assert_int_equal(bench->observer.failed_count, 0);
}

static void test_a_command_that_does_not_decode(void **state)
{
    static const uint8_t longer[sizeof NOOP_BYTES + 1] = {COMMAND_VERSION, COMMAND_NOOP};
    uint8_t unsound[sizeof NOOP_BYTES] = {COMMAND_VERSION, COMMAND_NOOP};
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    expect_lie(&bench, entry_with(RAFT_COMMAND, NULL, 0));
    for (size_t len = 1; len < sizeof NOOP_BYTES; len++) {
        expect_lie(&bench, entry_with(RAFT_COMMAND, NOOP_BYTES, len));
    }
    expect_lie(&bench, entry_with(RAFT_COMMAND, longer, sizeof longer));
    unsound[SESSION_STAMP_AT] = 1; /* somebody's, with the sequence 0 */
    expect_lie(&bench, entry_with(RAFT_COMMAND, unsound, sizeof unsound));
}

static void test_a_barrier_is_small(void **state)
{
    static const uint8_t zeros[BARRIER_BYTES_MAX + 1];
    struct raft_entry fine = entry_with(RAFT_BARRIER, zeros, BARRIER_BYTES_MAX);
    struct raft_message message;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    expect_lie(&bench, entry_with(RAFT_BARRIER, zeros, BARRIER_BYTES_MAX + 1));
    message = append_of(2, 5, 10, 4, 1, &fine, 1);
    bench_receive(&bench, &message);
    assert_int_equal(last_of(&bench), 11);
}

/* --- what a later leafd knows --- */

static void put_raise(struct buf *buf, uint16_t to)
{
    cluster_command_put(buf, COMMAND_LEVEL, &(struct level_command){.to = to});
    session_stamp_put(buf, &(struct session_stamp){2, 1, 1, 1});
}

/* All before it is applied, and this node has never said that it speaks more. */
static void test_what_no_leafd_here_ever_spoke_is_a_lie(void **state)
{
    static const uint8_t unknown[] = {COMMAND_VERSION, 250, 1, 2};
    static const uint8_t version[] = {COMMAND_VERSION + 1, COMMAND_NOOP};
    struct raft_message message;
    struct buf raise = BUF_INIT;
    struct raft_entry entry;
    BENCH bench = {0};

    (void)state;
    put_raise(&raise, (uint16_t)(LEVEL_NEWEST + 1));
    bench_start(&bench, &FOLLOWER);
    /* Not all is applied: it waits, and what is before it is taken. */
    entry = entry_with(RAFT_COMMAND, raise.data, raise.len);
    message = append_of(2, 5, 10, 4, 1, &entry, 1);
    bench_receive(&bench, &message);
    assert_int_equal(last_of(&bench), 10);
    message = append_of(2, 5, 10, 4, 10, NULL, 0);
    bench_receive(&bench, &message);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 10);
    assert_int_equal(bench.driver.trust.alarm.count, 0);
    for (unsigned i = 0; i < 3; i++) {
        entry = i == 0   ? entry_with(RAFT_COMMAND, raise.data, raise.len)
                : i == 1 ? entry_with(RAFT_COMMAND, unknown, sizeof unknown)
                         : entry_with(RAFT_COMMAND, version, sizeof version);
        message = append_of(2, 5, 10, 4, 10, &entry, 1);
        assert_false(bench_takes(&bench, &message));
        assert_int_equal(bench.driver.trust.alarm.count, i + 1);
        assert_int_equal(last_of(&bench), 10);
        assert_int_equal(bench.observer.failed_count, 0);
    }
    buf_free(&raise);
}

/* It once spoke the level, and went back: it stops before the entry, which is not on its disk. */
static void test_a_leafd_that_went_back_stops(void **state)
{
    struct node_info info = {.node_id = 1,
                             .store_id = 1,
                             .levels = {LEVEL_FIRST, LEVEL_NEWEST + 1},
                             .version = "next",
                             .incarnation = 1};
    struct raft_message message;
    struct raft_entry entries[2];
    struct buf raise = BUF_INIT;
    struct buf said = BUF_INIT;
    BENCH bench = {0};

    (void)state;
    put_raise(&raise, (uint16_t)(LEVEL_NEWEST + 1));
    cluster_command_put(&said, COMMAND_NODE_INFO, &info);
    session_stamp_put(&said, &(struct session_stamp){1, 1, 1, 1});
    bench_start(&bench, &FOLLOWER);
    entries[0] = entry_with(RAFT_COMMAND, said.data, said.len);
    entries[1] = entry_with(RAFT_COMMAND, raise.data, raise.len);
    message = append_of(2, 5, 10, 4, 11, entries, 2);
    bench_receive(&bench, &message);
    assert_int_equal(last_of(&bench), 11); /* the row alone */
    bench_run(&bench);
    message = append_of(2, 5, 10, 4, 11, NULL, 0);
    bench_receive(&bench, &message);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 11);
    message = append_of(2, 5, 11, 5, 11, &entries[1], 1);
    bench_receive(&bench, &message);
    assert_int_equal(bench.observer.failed_count, 1);
    assert_int_equal(bench.observer.failed_err, ERR_NEWER);
    assert_int_equal(last_of(&bench), 11);
    buf_free(&raise);
    buf_free(&said);
}

/* An unborn node went back after it had said that it speaks the level of a birth that did not reach
 * it then: no row of the state can show that. */
static void test_a_birth_of_a_later_level_stops_an_unborn_node(void **state)
{
    const struct boot unborn = {.id = 1,
                                .term = 5,
                                .last = 1,
                                .last_term = 1,
                                .applied = 1,
                                .servers = 3,
                                .roles = THREE_VOTERS};
    const struct uid uid = uid_make(1, 2);
    const struct birth births[] = {
        {.wall_ms = FAKE_WALL_MS, .uid = uid, .list_digest = 1, .level = LEVEL_NEWEST},
        {.wall_ms = FAKE_WALL_MS, .uid = uid, .list_digest = 1, .level = LEVEL_NEWEST + 1}};
    struct raft_message message;
    struct raft_entry entry;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct buf born = BUF_INIT;
        BENCH bench = {0};

        cluster_command_put(&born, COMMAND_BIRTH_AT, &births[i]);
        bench_start(&bench, &unborn);
        entry = entry_with(RAFT_COMMAND, born.data, born.len);
        message = append_of(2, 5, 1, 1, 1, &entry, 1);
        bench_receive(&bench, &message);
        assert_int_equal(bench.driver.trust.alarm.count, 0);
        assert_int_equal(bench.observer.failed_count, i);
        assert_int_equal(bench.observer.failed_err, i == 0 ? 0 : ERR_NEWER);
        assert_int_equal(last_of(&bench), i == 0 ? 2 : 1);
        buf_free(&born);
    }
}

/* A leader of an unborn cluster names the level of the birth only if its log has no birth yet. */
static void test_a_second_birth_names_no_level(void **state)
{
    const struct birth birth = {.uid = uid_make(1, 2), .list_digest = 1, .level = LEVEL_NEWEST};

    (void)state;
    for (unsigned last = 1; last <= 2; last++) {
        const struct boot unborn = {
            .id = 1, .term = 1, .last = last, .last_term = 1, .servers = 3, .roles = THREE_VOTERS};
        const struct entry_block *first;
        BENCH bench = {0};

        bench_start(&bench, &unborn);
        bench.driver.config.birth = birth;
        bench_elect(&bench);
        assert_true(last_of(&bench) > last);
        first = entry_log_get(&bench.driver.log, last_of(&bench))->block;
        assert_int_equal(command_number(first->data, first->len),
                         last == 1 ? COMMAND_BIRTH_AT : COMMAND_BIRTH);
        assert_int_equal(command_raises_to(first->data, first->len), last == 1 ? LEVEL_NEWEST : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_that_does_not_decode),
        cmocka_unit_test(test_a_barrier_is_small),
        cmocka_unit_test(test_what_no_leafd_here_ever_spoke_is_a_lie),
        cmocka_unit_test(test_a_leafd_that_went_back_stops),
        cmocka_unit_test(test_a_birth_of_a_later_level_stops_an_unborn_node),
        cmocka_unit_test(test_a_second_birth_names_no_level),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
