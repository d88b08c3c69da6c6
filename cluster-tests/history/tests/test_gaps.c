/*
 * test_gaps.c - the checker of histories: where a tag's ids begin, and which ids may be
 * missing since operations of unknown outcome can have burnt them.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "cluster-tests/history/tests/world.h"

/* --- start --- */

static void test_an_id_below_the_start_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 100);
    put(&w, 1, 10, 20, 99, 2, 0);
    expect(&w, HISTORY_BELOW_START,
           "99..100 of client \"c1\" (sent 10, received 20) is below the start of the tag, 100");
    world_begin(&w, HISTORY_STRICT, 100);
    put(&w, 1, 10, 20, 100, 2, 0);
    expect_clean(&w);
}

static void test_the_start_may_be_zero(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 0);
    put(&w, 1, 10, 20, 0, 2, 0);
    expect_clean(&w);
}

/* --- dense --- */

static void test_a_gap_without_a_cause_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    put(&w, 1, 10, 20, 5, 2, 0);
    put(&w, 2, 21, 31, 8, 1, 0);
    put(&w, 3, 21, 30, 9, 1, 0); /* its answer came first */
    expect(&w, HISTORY_GAP,
           "1 ids, 7..7, are missing below 8 of client \"c2\" (sent 21, received 31); of the "
           "operations of unknown outcome sent by 30 none can have burnt them");
}

static void test_ids_from_the_start_on_are_missed(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 3, 1, 0);
    expect(&w, HISTORY_GAP,
           "2 ids, 1..2, are missing below 3 of client \"c1\" (sent 10, received 20); of the "
           "operations of unknown outcome sent by 20 none can have burnt them");
}

static void test_a_lost_reply_explains_a_gap(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 1, 2, 0);
    put(&w, 2, 30, LOST, 0, 3, 0); /* sent when the reply above was received: possible */
    put(&w, 3, 21, 30, 6, 1, 0);
    expect_clean(&w);
}

static void test_a_request_sent_too_late_explains_nothing(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 1, 2, 0);
    put(&w, 2, 31, LOST, 0, 3, 0);
    put(&w, 3, 21, 30, 6, 1, 0);
    expect(&w, HISTORY_GAP,
           "3 ids, 3..5, are missing below 6 of client \"c3\" (sent 21, received 30); of the "
           "operations of unknown outcome sent by 30 none can have burnt them");
}

static void test_a_request_longer_than_the_gap_explains_nothing(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 2, 1, LOST, 0, 4, 0);
    put(&w, 3, 1, 30, 4, 1, 0);
    expect(&w, HISTORY_GAP,
           "3 ids, 1..3, are missing below 4 of client \"c3\" (sent 1, received 30); of the "
           "operations of unknown outcome sent by 30 none can have burnt them");
}

static void test_a_request_explains_one_gap(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 2, 1, LOST, 0, 1, 0);
    put(&w, 3, 1, 30, 2, 1, 0);
    put(&w, 3, 31, 40, 4, 1, 0);
    expect(&w, HISTORY_GAP,
           "1 ids, 3..3, are missing below 4 of client \"c3\" (sent 31, received 40); of the "
           "operations of unknown outcome sent by 40 those that fit are 1 ids too few, with the "
           "gaps below");
}

static void test_tens_do_not_explain_a_gap_of_three(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 2, 1, LOST, 0, 10, 0);
    put(&w, 2, 2, LOST, 0, 10, 0);
    put(&w, 3, 1, 30, 14, 1, 0);
    expect(&w, HISTORY_GAP,
           "13 ids, 1..13, are missing below 14 of client \"c3\" (sent 1, received 30); of the "
           "operations of unknown outcome sent by 30 those that fit burn multiples of 10");
}

/* Their divisor is 1 and they are enough, but no choice of them has five ids. */
static void test_three_and_four_do_not_explain_a_gap_of_five(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 3, 0);
    put(&w, 2, 2, LOST, 0, 4, 0);
    put(&w, 3, 1, 30, 6, 1, 0);
    expect(&w, HISTORY_GAP,
           "5 ids, 1..5, are missing below 6 of client \"c3\" (sent 1, received 30); of the "
           "operations of unknown outcome sent by 30 no choice burns so many");
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 3, 0);
    put(&w, 2, 2, LOST, 0, 4, 0);
    put(&w, 3, 1, 30, 8, 1, 0); /* seven */
    expect_clean(&w);
}

/* Each gap by itself can be, and there are ids enough for both. */
static void test_gaps_that_need_the_same_request_are_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 3, 0);
    put(&w, 1, 2, LOST, 0, 4, 0);
    put(&w, 2, 3, LOST, 0, 4, 0);
    put(&w, 3, 1, 30, 8, 1, 0); /* three and four, there is no other way */
    put(&w, 3, 31, 40, 12, 1, 0);
    expect(&w, HISTORY_GAP,
           "3 ids, 9..11, are missing below 12 of client \"c3\" (sent 31, received 40); of the "
           "operations of unknown outcome sent by 40 no choice burns so many, with the gaps below");
}

/* What one gap takes first is given back for the next one. */
static void test_gaps_share_what_there_is(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 4, 0);
    put(&w, 1, 2, LOST, 0, 2, 0);
    put(&w, 1, 3, LOST, 0, 3, 0);
    put(&w, 1, 4, LOST, 0, 3, 0);
    put(&w, 3, 1, 30, 7, 1, 0);
    put(&w, 3, 31, 40, 12, 1, 0);
    put(&w, 3, 31, 50, 15, 1, 0);
    expect_clean(&w);
}

/* An attempt cannot burn what it asked for before it was sent, whenever the others of its key were:
 * the second one here has the time, the third the count. */
static void test_each_attempt_of_a_key_has_its_own_time(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 6, 7);
    put(&w, 1, 31, LOST, 0, 4, 7);
    put(&w, 1, 1, LOST, 0, 4, 8);
    put(&w, 3, 1, 30, 5, 1, 0);
    put(&w, 3, 31, 40, 10, 1, 0);
    expect_clean(&w);
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 6, 7);
    put(&w, 1, 31, LOST, 0, 4, 7);
    put(&w, 3, 1, 30, 5, 1, 0);
    expect(&w, HISTORY_GAP,
           "4 ids, 1..4, are missing below 5 of client \"c3\" (sent 1, received 30); of the "
           "operations of unknown outcome sent by 30 none can have burnt them");
}

/* It is no violation, is counted apart, and leaves the gap out: what is seen without a search is
 * found all the same. */
static void test_what_is_not_decided_is_told(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    history_steps(w.history, 0);
    put(&w, 1, 1, LOST, 0, 3, 0);
    put(&w, 2, 2, LOST, 0, 4, 0);
    put(&w, 3, 1, 30, 6, 1, 0);
    assert_true(world_check(&w, 1));
    assert_string_equal(
        w.text,
        "not_decided: tag \"t\": 5 ids, 1..5, are missing below 6 of client \"c3\" (sent 1, "
        "received 30); of the operations of unknown outcome sent by 30 it was not found "
        "out whether they can have burnt so many\n");
    assert_int_equal(w.report.undecided, 1);
    assert_true(world_check(&w, 0));
    assert_string_equal(w.text, "");
    assert_int_equal(w.report.undecided, 1);
    put(&w, 3, 31, 40, 8, 1, 0); /* 7: too short for either */
    assert_false(world_check(&w, 0));
    assert_int_equal(w.report.undecided, 1);
    assert_int_equal(w.report.found[HISTORY_GAP], 1);
    history_steps(w.history, HISTORY_STEPS);
    assert_false(world_check(&w, 0));
    assert_int_equal(w.report.undecided, 0);
    assert_int_equal(w.report.found[HISTORY_GAP], 2);
    history_free(w.history);
}

static void test_a_key_burns_once_and_not_if_it_was_answered(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 2, 7);
    put(&w, 1, 5, LOST, 0, 2, 7);
    put(&w, 2, 1, 30, 3, 1, 0);
    world_check(&w, 10);
    assert_int_equal(w.report.violations, 0);
    put(&w, 2, 31, 40, 6, 1, 0); /* two more would need the key twice */
    expect(&w, HISTORY_GAP,
           "2 ids, 4..5, are missing below 6 of client \"c2\" (sent 31, received 40); of the "
           "operations of unknown outcome sent by 40 those that fit are 2 ids too few, with the "
           "gaps below");
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, LOST, 0, 2, 7);
    put(&w, 1, 5, 20, 1, 2, 7);
    put(&w, 2, 1, 30, 5, 1, 0);
    expect(&w, HISTORY_GAP,
           "2 ids, 3..4, are missing below 5 of client \"c2\" (sent 1, received 30); of the "
           "operations of unknown outcome sent by 30 none can have burnt them");
}

/* One of two attempts with different counts can have allocated, and it is not known which. */
static void test_a_key_with_two_counts_burns_either(void **state)
{
    static const struct {
        uint64_t gap;
        bool clean;
    } cases[] = {{4, true}, {6, true}, {3, false}, {5, false}, {10, false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct history_world w;

        world_begin(&w, HISTORY_STRICT, 1);
        put(&w, 1, 1, LOST, 0, 6, 7);
        put(&w, 1, 2, LOST, 0, 4, 7);
        put(&w, 2, 1, 30, 1 + cases[i].gap, 1, 0);
        assert_int_equal(world_check(&w, 10), cases[i].clean);
        assert_int_equal(world_check(&w, 10), cases[i].clean); /* once more, of what was merged */
        history_free(w.history);
    }
}

static void test_what_was_burnt_above_the_highest_is_no_gap(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 1, 2, 1, 5, 0);
    put(&w, 1, 3, LOST, 0, 5, 0);
    expect_clean(&w);
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 3, LOST, 0, 5, 0);
    world_check(&w, 10);
    assert_int_equal(w.report.ids, 0);
    expect_clean(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_below_the_start_is_found),
        cmocka_unit_test(test_the_start_may_be_zero),
        cmocka_unit_test(test_a_gap_without_a_cause_is_found),
        cmocka_unit_test(test_ids_from_the_start_on_are_missed),
        cmocka_unit_test(test_a_lost_reply_explains_a_gap),
        cmocka_unit_test(test_a_request_sent_too_late_explains_nothing),
        cmocka_unit_test(test_a_request_longer_than_the_gap_explains_nothing),
        cmocka_unit_test(test_a_request_explains_one_gap),
        cmocka_unit_test(test_tens_do_not_explain_a_gap_of_three),
        cmocka_unit_test(test_three_and_four_do_not_explain_a_gap_of_five),
        cmocka_unit_test(test_gaps_that_need_the_same_request_are_found),
        cmocka_unit_test(test_gaps_share_what_there_is),
        cmocka_unit_test(test_each_attempt_of_a_key_has_its_own_time),
        cmocka_unit_test(test_what_is_not_decided_is_told),
        cmocka_unit_test(test_a_key_burns_once_and_not_if_it_was_answered),
        cmocka_unit_test(test_a_key_with_two_counts_burns_either),
        cmocka_unit_test(test_what_was_burnt_above_the_highest_is_no_gap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
