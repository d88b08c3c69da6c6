/*
 * test_session.c - the node's side of a session (session.h): numbers, stamps, what is told and
 * when. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/state/codec/cluster_command.h"
#include "src/state/codec/session.h"
#include "src/tests/unit/death.h"
#include "src/tests/unit/hex.h"

#define NODE 3
#define INCARNATION 0x0000000500000007

static void start(struct session *session)
{
    session_init(session, NODE, INCARNATION);
}

static uint64_t take(struct session *session)
{
    uint64_t seq = 0;

    assert_true(session_take(session, &seq));
    return seq;
}

/* Its answer came, with the lowest of the stamp that it has now. */
static void answer(struct session *session, uint64_t seq, size_t bytes)
{
    session_end(session, seq, session_stamp(session, seq).lowest, bytes, false, 1000);
}

/* --- stamps --- */

static void test_the_bytes_of_a_stamp(void **state)
{
    const struct session_stamp stamp = {0x0403, 0x1112131415161718, 0x2122232425262728,
                                        0x2122232425262700};
    struct session_stamp read;
    struct buf command = BUF_INIT;

    (void)state;
    cluster_command_put(&command, COMMAND_NOOP, NULL);
    assert_int_equal(session_stamp_read(command.data, command.len, &read), 0);
    assert_int_equal(read.node_id, 0); /* nobody's */
    session_stamp_put(&command, &stamp);
    assert_true(
        hex_equal(&command, "03 01 0304 1817161514131211 2827262524232221 0027262524232221"));
    assert_int_equal(session_stamp_read(command.data, command.len, &read), 0);
    assert_memory_equal(&read, &stamp, sizeof read);
    for (size_t len = 0; len < command.len; len++) {
        assert_int_equal(session_stamp_read(command.data, len, &read), ERR_BAD_MESSAGE);
    }
    buf_free(&command);
}

/* The command with these eight bytes at `at`. */
static int read_with(struct buf *command, size_t at, uint64_t value)
{
    struct session_stamp read;

    for (unsigned i = 0; i < 8; i++) {
        command->data[at + i] = (uint8_t)(value >> (8 * i));
    }
    return session_stamp_read(command->data, command->len, &read);
}

static void test_a_stamp_that_breaks_a_rule_is_refused(void **state)
{
    const struct session_stamp stamp = {1, 1, 5000, 5000};
    struct buf command = BUF_INIT;

    (void)state;
    cluster_command_put(&command, COMMAND_NOOP, NULL);
    session_stamp_put(&command, &stamp);
    assert_int_equal(read_with(&command, 4, 0), ERR_BAD_MESSAGE); /* no incarnation */
    assert_int_equal(read_with(&command, 4, 1), 0);
    assert_int_equal(read_with(&command, 20, 0), ERR_BAD_MESSAGE);    /* no lowest */
    assert_int_equal(read_with(&command, 20, 5001), ERR_BAD_MESSAGE); /* above the number */
    assert_int_equal(read_with(&command, 20, 5001 - LIMIT_SESSION_COMMANDS), 0);
    assert_int_equal(read_with(&command, 20, 5000 - LIMIT_SESSION_COMMANDS), ERR_BAD_MESSAGE);
    assert_int_equal(read_with(&command, 20, 5000), 0);
    command.data[2] = 0; /* nobody's, but numbered */
    assert_int_equal(read_with(&command, 20, 5000), ERR_BAD_MESSAGE);
    buf_free(&command);
}

static void test_a_refusal_is_no_result(void **state)
{
    const struct session_refusal refusal = {ERR_STALE, 77};
    struct session_refusal read;
    struct buf bytes = BUF_INIT;

    (void)state;
    session_refusal_encode(&refusal, &bytes);
    assert_true(hex_equal(&bytes, "01 89 d9ffffff 4d00000000000000"));
    assert_true(session_refusal_decode(bytes.data, bytes.len, &read));
    assert_int_equal(read.status, ERR_STALE);
    assert_int_equal(read.incarnation, 77);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_false(session_refusal_decode(bytes.data, len, &read));
    }
    buf_free(&bytes);
    status_result_encode(ERR_STALE, &bytes);
    assert_false(session_refusal_decode(bytes.data, bytes.len, &read));
    buf_free(&bytes);
}

/* --- numbers --- */

static void test_the_lowest_awaited_follows_what_is_over(void **state)
{
    struct session session;

    (void)state;
    start(&session);
    for (uint64_t seq = 1; seq <= 4; seq++) {
        assert_int_equal(take(&session), seq);
        assert_int_equal(session_stamp(&session, seq).lowest, 1);
    }
    answer(&session, 2, 10);
    answer(&session, 3, 10);
    assert_int_equal(session.lowest, 1); /* 1 is awaited yet */
    assert_int_equal(session_stamp(&session, 4).lowest, 1);
    answer(&session, 1, 10);
    assert_int_equal(session_stamp(&session, 4).lowest, 4);
    answer(&session, 4, 10);
    assert_int_equal(session.lowest, 5);
    assert_int_equal(take(&session), 5);
    assert_int_equal(session_stamp(&session, 5).lowest, 5);
    assert_int_equal(session_stamp(&session, 5).node_id, NODE);
    assert_true(session_stamp(&session, 5).incarnation == INCARNATION);
}

static void test_the_window_is_full_and_has_room_again(void **state)
{
    struct session session;
    uint64_t seq;

    (void)state;
    start(&session);
    for (unsigned i = 0; i < LIMIT_SESSION_COMMANDS; i++) {
        (void)take(&session);
    }
    assert_false(session_take(&session, &seq));
    answer(&session, 2, 0);
    assert_false(session_take(&session, &seq)); /* 1 holds the window */
    answer(&session, 1, 0);
    assert_int_equal(take(&session), LIMIT_SESSION_COMMANDS + 1);
    assert_int_equal(take(&session), LIMIT_SESSION_COMMANDS + 2);
    assert_false(session_take(&session, &seq));
    assert_int_equal(session_stamp(&session, LIMIT_SESSION_COMMANDS + 2).lowest, 3);
}

static void test_bytes_of_answers_hold_new_commands_back(void **state)
{
    struct session session;
    uint64_t seq;

    (void)state;
    start(&session);
    assert_int_equal(take(&session), 1);
    assert_int_equal(take(&session), 2);
    assert_int_equal(take(&session), 3);
    answer(&session, 2, SESSION_HOLD_BYTES - 1);
    assert_int_equal(take(&session), 4);
    answer(&session, 3, 1);
    assert_false(session_take(&session, &seq));
    answer(&session, 1, 5);
    assert_int_equal(session.held_bytes, 0); /* the next stamp lets go of them all */
    assert_int_equal(take(&session), 5);
}

/* Any order of taking and ending keeps what the header says; a plain list is the model. */
static void test_numbers_against_a_model(void **state)
{
    static bool awaited[20000];
    struct session session;
    struct prng prng;
    uint64_t newest = 0;
    uint64_t lowest = 1;

    (void)state;
    prng_seed(&prng, 20261122);
    start(&session);
    memset(awaited, 0, sizeof awaited);
    while (newest < 19000) {
        uint64_t seq = 0;

        if (prng_below(&prng, 100) < 52) {
            bool room = newest + 1 - lowest < LIMIT_SESSION_COMMANDS;

            assert_int_equal(session_take(&session, &seq), room);
            newest += room;
            awaited[newest] = awaited[newest] || room;
            assert_true(!room || seq == newest);
        } else if (lowest <= newest) {
            seq = lowest + prng_below(&prng, newest + 1 - lowest);
            if (prng_below(&prng, 10) == 0) {
                seq = lowest;
            }
            if (awaited[seq]) {
                session_end(&session, seq, 0, 1, false, 0);
                awaited[seq] = false;
            }
        }
        while (lowest <= newest && !awaited[lowest]) {
            lowest++;
        }
        assert_int_equal(session.lowest, lowest);
        assert_int_equal(session.newest, newest);
    }
}

/* --- what the cluster is told --- */

static void test_a_new_incarnation_speaks_at_once(void **state)
{
    struct session session;

    (void)state;
    start(&session);
    assert_int_equal(session_due_ms(&session), 0);
    assert_int_equal(take(&session), 1);
    session_end(&session, 1, 0, 0, false, 1000); /* given up: nobody knows whether it was applied */
    assert_int_equal(session_due_ms(&session), 0);
    assert_int_equal(take(&session), 2);
    session_end(&session, 2, 2, 0, true, 2000);
    assert_true(session_due_ms(&session) == UINT64_MAX); /* 1 is over, and the cluster knows */
}

static void test_what_is_over_is_told_after_a_while(void **state)
{
    struct session session;
    uint64_t tidy;

    (void)state;
    start(&session);
    assert_int_equal(take(&session), 1);
    session_end(&session, 1, 1, 0, true, 0);
    assert_true(session_due_ms(&session) == UINT64_MAX);
    assert_int_equal(take(&session), 2);
    assert_int_equal(take(&session), 3);
    session_end(&session, 2, 0, 0, false, 5000); /* given up */
    assert_int_equal(session_due_ms(&session), 5000 + SESSION_TIDY_MS);
    session_end(&session, 3, 2, 0, false, 5200); /* another one, sent before that */
    assert_int_equal(session_due_ms(&session), 5000 + SESSION_TIDY_MS);
    tidy = take(&session);
    session_end(&session, tidy, tidy, 0, true, 6300);
    assert_true(session_due_ms(&session) == UINT64_MAX); /* and it ends there */
}

static void test_nothing_is_told_while_an_older_one_is_awaited(void **state)
{
    struct session session;

    (void)state;
    start(&session);
    assert_int_equal(take(&session), 1);
    session_end(&session, 1, 1, 0, true, 0);
    assert_int_equal(take(&session), 2);
    assert_int_equal(take(&session), 3);
    assert_int_equal(session_stamp(&session, 3).lowest, 2);
    session_end(&session, 3, 2, 0, false, 7000);
    assert_true(session_due_ms(&session) == UINT64_MAX); /* it would say the same again */
    session_end(&session, 2, 0, 0, false, 7500);
    assert_int_equal(session_due_ms(&session), 7000 + SESSION_TIDY_MS);
}

/* --- the caller's mistakes --- */

static void end_twice(void *data)
{
    struct session *session = data;

    session_end(session, 1, 0, 0, false, 0);
    session_end(session, 1, 0, 0, false, 0);
}

static void test_a_number_is_over_once(void **state)
{
    struct session session;

    (void)state;
    start(&session);
    assert_int_equal(take(&session), 1);
    assert_int_equal(take(&session), 2);
    assert_true(death_by_assert(end_twice, &session));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bytes_of_a_stamp),
        cmocka_unit_test(test_a_stamp_that_breaks_a_rule_is_refused),
        cmocka_unit_test(test_a_refusal_is_no_result),
        cmocka_unit_test(test_the_lowest_awaited_follows_what_is_over),
        cmocka_unit_test(test_the_window_is_full_and_has_room_again),
        cmocka_unit_test(test_bytes_of_answers_hold_new_commands_back),
        cmocka_unit_test(test_numbers_against_a_model),
        cmocka_unit_test(test_a_new_incarnation_speaks_at_once),
        cmocka_unit_test(test_what_is_over_is_told_after_a_while),
        cmocka_unit_test(test_nothing_is_told_while_an_older_one_is_awaited),
        cmocka_unit_test(test_a_number_is_over_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
