/*
 * test_history.c - the checker of histories: each kind of violation is found, with the operations
 * involved, and nothing is said where nothing is wrong, at the very edge of it.
 *
 * Thread: one.
 */
#include <stdio.h>

#include "src/tests/unit/test.h"
#include "cluster-tests/history/history.h"
#include "cluster-tests/history/tests/random.h"
#include "cluster-tests/history/tests/world.h"

/* --- once --- */

static void test_disjoint_ranges_are_fine(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_TREND, HISTORY_NO_START);
    put(&w, 1, 10, 20, 101, 100, 0);
    put(&w, 2, 30, 40, 1, 100, 0); /* lower and later: another node's segment */
    put(&w, 3, 5, 50, 201, 1, 0);
    put(&w, 3, 60, 70, 300, 1, 0);
    world_check(&w, 10);
    assert_int_equal(w.report.operations, 4);
    assert_int_equal(w.report.ids, 202);
    assert_int_equal(w.report.tags, 1);
    expect_clean(&w);
}

static void test_an_id_twice_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_TREND, HISTORY_NO_START);
    put(&w, 1, 10, 20, 1, 10, 0);
    put(&w, 2, 10, 20, 10, 1, 0);
    expect(&w, HISTORY_NOT_ONCE,
           "10 of client \"c2\" (sent 10, received 20) has ids of "
           "1..10 of client \"c1\" (sent 10, received 20)");
}

static void test_a_range_within_one_that_is_not_its_neighbour(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    put(&w, 1, 10, 20, 1, 100, 0);
    put(&w, 2, 10, 20, 101, 1, 0);
    put(&w, 3, 10, 20, 5, 2, 0);
    put(&w, 4, 10, 20, 60, 1, 0);
    assert_false(world_check(&w, 10));
    assert_int_equal(w.report.found[HISTORY_NOT_ONCE], 2);
    assert_int_equal(w.report.violations, 2);
    history_free(w.history);
}

static void test_equal_operations_without_a_key_are_a_repetition(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    put(&w, 1, 10, 20, 7, 1, 0);
    put(&w, 1, 10, 20, 7, 1, 0);
    expect(&w, HISTORY_NOT_ONCE,
           "7 of client \"c1\" (sent 10, received 20) has ids of "
           "7 of client \"c1\" (sent 10, received 20)");
}

static void test_tags_are_apart(void **state)
{
    struct history_world w;
    struct history_op op = {.client = 1, .sent = 1, .received = 2, .first = 5, .count = 5};

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    op.tag = history_tag(w.history, "u", 1);
    assert_int_equal(history_declare(w.history, op.tag, HISTORY_STRICT, 5), 0);
    assert_int_equal(history_add(w.history, &op), 0);
    put(&w, 1, 10, 20, 5, 5, 0);
    put(&w, 1, 30, 40, 10, 5, 0);
    world_check(&w, 10);
    assert_int_equal(w.report.tags, 2);
    expect_clean(&w);
}

/* --- keys --- */

static void test_a_key_returns_the_same_ids(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 1, 5, 77);
    put(&w, 1, 30, 40, 6, 5, 0);
    put(&w, 2, 50, 60, 1, 5, 77); /* lower than 6..10, but first sent before */
    put(&w, 3, 70, LOST, 0, 5, 77);
    put(&w, 3, 80, 90, 1, 5, 77);
    world_check(&w, 10);
    assert_int_equal(w.report.ids, 10);
    assert_int_equal(w.report.operations, 5);
    assert_int_equal(w.report.unknown, 1);
    expect_clean(&w);
}

static void test_other_ids_under_a_key_are_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 1, 5, 0x4d);
    put(&w, 2, 15, 40, 6, 5, 0x4d);
    expect(&w, HISTORY_OTHER_IDS,
           "6..10 of client \"c2\" (key 000000000000004d, first of its attempts sent 10, received "
           "40) has the key of 1..5 of client \"c1\" (key 000000000000004d, first of its attempts "
           "sent 10, received 20)");
}

static void test_another_count_under_a_key_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 1, 5, 9);
    put(&w, 2, 15, 40, 1, 4, 9); /* the first four of them, which repeats them, too */
    assert_false(world_check(&w, 10));
    assert_int_equal(w.report.found[HISTORY_OTHER_IDS], 1);
    assert_int_equal(w.report.found[HISTORY_NOT_ONCE], 1);
    assert_int_equal(w.report.violations, 2);
    history_free(w.history);
}

static void test_keys_of_two_clients_do_not_excuse_a_repetition(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 1, 5, 1);
    put(&w, 2, 10, 20, 1, 5, 2);
    assert_false(world_check(&w, 10));
    assert_int_equal(w.report.found[HISTORY_NOT_ONCE], 1);
    assert_int_equal(w.report.violations, 1);
    history_free(w.history);
}

static void test_the_earliest_answer_of_a_key_acknowledges(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, 20, 2, 1, 7);
    put(&w, 1, 100, 110, 2, 1, 7);
    put(&w, 2, 21, 30, 1, 1, 0); /* 2 was known at 20 */
    expect(&w, HISTORY_NOT_STRICT,
           "1 of client \"c2\" (sent 21, received 30) was sent after the reply with 2 of client "
           "\"c1\" (key 0000000000000007, first of its attempts sent 10, received 20)");
}

static void test_an_attempt_of_unknown_outcome_may_have_allocated(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 10, LOST, 0, 3, 7);
    put(&w, 2, 10, 20, 4, 1, 0);
    put(&w, 1, 30, 40, 1, 3, 7);
    expect_clean(&w);
    world_begin(&w, HISTORY_STRICT, 1);
    put(&w, 1, 21, LOST, 0, 3, 7); /* not if that was sent too late as well */
    put(&w, 2, 10, 20, 4, 1, 0);
    put(&w, 1, 30, 40, 1, 3, 7);
    expect(&w, HISTORY_NOT_STRICT,
           "1..3 of client \"c1\" (key 0000000000000007, first of its attempts sent 21, received "
           "40) was sent after the reply with 4 of client \"c2\" (sent 10, received 20)");
}

/* --- strict --- */

static void test_a_lower_id_later_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    put(&w, 1, 10, 20, 2, 1, 0);
    put(&w, 2, 21, 30, 1, 1, 0);
    expect(&w, HISTORY_NOT_STRICT,
           "1 of client \"c2\" (sent 21, received 30) was sent after the reply with 2 of client "
           "\"c1\" (sent 10, received 20)");
}

static void test_equal_times_are_concurrent(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    put(&w, 1, 10, 20, 2, 1, 0);
    put(&w, 2, 20, 30, 1, 1, 0);
    put(&w, 3, 30, 30, 3, 1, 0);
    expect_clean(&w);
}

static void test_an_acknowledgement_far_above_counts(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    put(&w, 1, 1, 100, 1, 1, 0); /* under way all the time */
    put(&w, 2, 50, 60, 2, 1, 0); /* the one that is wrong */
    put(&w, 3, 2, 100, 3, 1, 0);
    put(&w, 4, 3, 49, 4, 1, 0); /* known at 49 */
    put(&w, 5, 4, 100, 5, 1, 0);
    expect(&w, HISTORY_NOT_STRICT,
           "2 of client \"c2\" (sent 50, received 60) was sent after the reply with 4 of client "
           "\"c4\" (sent 3, received 49)");
}

/* --- monotonic --- */

static void test_a_monotonic_tag_may_have_gaps(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_MONOTONIC, 1);
    put(&w, 1, 10, 20, 5, 1, 0);
    put(&w, 2, 30, 40, 1000, 3, 7);
    put(&w, 2, 50, 60, 1000, 3, 7);
    expect_clean(&w);
}

/* What a leader that does not know of the next one answers. */
static void test_a_lower_id_of_a_monotonic_tag_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_MONOTONIC, 1);
    put(&w, 1, 10, 20, 3, 1, 0);
    put(&w, 2, 20, 30, 2, 1, 0); /* at the same time */
    put(&w, 2, 21, 30, 1, 1, 0);
    expect(&w, HISTORY_NOT_STRICT,
           "1 of client \"c2\" (sent 21, received 30) was sent after the reply with 3 of client "
           "\"c1\" (sent 10, received 20)");
}

/* An entry that a leader chose ids for is not to be proposed again to the next one. */
static void test_a_lower_id_of_a_key_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_MONOTONIC, HISTORY_NO_START);
    put(&w, 1, 10, 20, 3, 1, 0);
    put(&w, 2, 21, LOST, 0, 1, 9);
    put(&w, 2, 30, 40, 1, 1, 9);
    expect(&w, HISTORY_NOT_STRICT,
           "1 of client \"c2\" (key 0000000000000009, first of its attempts sent 21, received 40) "
           "was sent after the reply with 3 of client \"c1\" (sent 10, received 20)");
}

static void test_a_monotonic_id_twice_or_below_the_start_is_found(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_MONOTONIC, 2);
    put(&w, 1, 10, 40, 3, 2, 0);
    put(&w, 2, 11, 41, 4, 1, 0);
    put(&w, 3, 12, 42, 1, 1, 0);
    assert_false(world_check(&w, 10));
    assert_int_equal(w.report.found[HISTORY_NOT_ONCE], 1);
    assert_int_equal(w.report.found[HISTORY_BELOW_START], 1);
    assert_int_equal(w.report.violations, 2);
    history_free(w.history);
}

static void test_trend_tags_need_not_rise(void **state)
{
    struct history_world w;

    (void)state;
    world_begin(&w, HISTORY_TREND, 50); /* a start is nothing to them */
    put(&w, 1, 10, 20, 1000, 1, 0);
    put(&w, 2, 30, 40, 1, 1, 0);
    expect_clean(&w);
}

/* --- the library's other promises --- */

static void test_what_is_no_operation_is_refused(void **state)
{
    struct history_world w;
    const struct history_op good = {.sent = 5, .received = 5, .first = 1, .count = 1};
    struct history_op op;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    op = good;
    op.received = 4;
    assert_int_equal(history_add(w.history, &op), ERR_INVALID);
    op = good;
    op.count = 0;
    assert_int_equal(history_add(w.history, &op), ERR_INVALID);
    op = good;
    op.sent = op.received = HISTORY_UNKNOWN;
    assert_int_equal(history_add(w.history, &op), ERR_INVALID);
    op = good;
    op.first = HISTORY_LAST_ID;
    assert_int_equal(history_add(w.history, &op), 0);
    op.count = 2;
    assert_int_equal(history_add(w.history, &op), ERR_INVALID);
    op.first = UINT64_MAX;
    assert_int_equal(history_add(w.history, &op), ERR_INVALID);
    op.received = HISTORY_UNKNOWN; /* then the ids are not looked at */
    assert_int_equal(history_add(w.history, &op), 0);
    world_check(&w, 10);
    assert_int_equal(w.report.operations, 2);
    expect_clean(&w);
}

static void test_a_tag_is_declared_once(void **state)
{
    struct history *history = history_new();
    uint32_t tag = history_tag(history, "a b", 3);
    uint32_t client = history_client(history, "", 0);
    struct history_op op = {.tag = tag, .client = client, .sent = 1, .received = 2, .count = 1};
    size_t len;

    (void)state;
    assert_null(history_undeclared(history, &len)); /* it has no operations yet */
    assert_int_equal(history_add(history, &op), 0);
    assert_memory_equal(history_undeclared(history, &len), "a b", 3);
    assert_int_equal(len, 3);
    assert_int_equal(history_declare(history, tag, HISTORY_STRICT, HISTORY_LAST_ID + 1),
                     ERR_INVALID);
    assert_int_equal(history_declare(history, tag, HISTORY_STRICT, 0), 0);
    assert_int_equal(history_declare(history, tag, HISTORY_STRICT, 0), 0);
    assert_int_equal(history_declare(history, tag, HISTORY_STRICT, 1), ERR_CONFLICT);
    assert_int_equal(history_declare(history, tag, HISTORY_TREND, 0), ERR_CONFLICT);
    assert_null(history_undeclared(history, &len));
    history_free(history);
    history_free(NULL);
}

static void test_names_are_numbers(void **state)
{
    struct history *history = history_new();

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 5000; i++) {
            char name[16];
            int len = snprintf(name, sizeof name, "tag-%u", i);

            assert_int_equal(history_tag(history, name, (size_t)len), i);
        }
    }
    assert_int_equal(history_tag(history, "tag-1", 4), 5000); /* "tag-" */
    history_free(history);
}

static void test_texts_are_bounded_and_all_is_counted(void **state)
{
    struct history_world w;
    unsigned lines = 0;

    (void)state;
    world_begin(&w, HISTORY_STRICT, HISTORY_NO_START);
    for (unsigned i = 0; i < 100; i++) {
        put(&w, 1, 10 * (100 - i), 10 * (100 - i) + 1, i, 1, 0);
    }
    assert_false(world_check(&w, 3));
    assert_int_equal(w.report.found[HISTORY_NOT_STRICT], 99);
    for (const char *at = w.text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, 3);
    assert_false(world_check(&w, 0));
    assert_string_equal(w.text, "");
    assert_int_equal(w.report.violations, 99);
    history_free(w.history);
}

/* Many operations of a service that does right, in bounded memory; test_large.c has ten million. */
static void test_random_histories_are_clean(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        static struct random_history random;
        struct history_world w = {.history = history_new()};
        struct history_op op;
        uint64_t ids = 0;
        uint64_t count = seed == 1 ? 100000 : 300;

        random_history_init(&random, seed, count);
        random_history_declare(w.history);
        while (random_history_next(&random, &op)) {
            ids += op.received != HISTORY_UNKNOWN ? op.count : 0;
            assert_int_equal(history_add(w.history, &op), 0);
        }
        world_check(&w, 10);
        assert_int_equal(w.report.operations, count);
        assert_true(w.report.ids > count && w.report.ids <= ids && w.report.unknown > 0);
        expect_clean(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disjoint_ranges_are_fine),
        cmocka_unit_test(test_an_id_twice_is_found),
        cmocka_unit_test(test_a_range_within_one_that_is_not_its_neighbour),
        cmocka_unit_test(test_equal_operations_without_a_key_are_a_repetition),
        cmocka_unit_test(test_tags_are_apart),
        cmocka_unit_test(test_a_key_returns_the_same_ids),
        cmocka_unit_test(test_other_ids_under_a_key_are_found),
        cmocka_unit_test(test_another_count_under_a_key_is_found),
        cmocka_unit_test(test_keys_of_two_clients_do_not_excuse_a_repetition),
        cmocka_unit_test(test_the_earliest_answer_of_a_key_acknowledges),
        cmocka_unit_test(test_an_attempt_of_unknown_outcome_may_have_allocated),
        cmocka_unit_test(test_a_lower_id_later_is_found),
        cmocka_unit_test(test_equal_times_are_concurrent),
        cmocka_unit_test(test_an_acknowledgement_far_above_counts),
        cmocka_unit_test(test_a_monotonic_tag_may_have_gaps),
        cmocka_unit_test(test_a_lower_id_of_a_monotonic_tag_is_found),
        cmocka_unit_test(test_a_lower_id_of_a_key_is_found),
        cmocka_unit_test(test_a_monotonic_id_twice_or_below_the_start_is_found),
        cmocka_unit_test(test_trend_tags_need_not_rise),
        cmocka_unit_test(test_what_is_no_operation_is_refused),
        cmocka_unit_test(test_a_tag_is_declared_once),
        cmocka_unit_test(test_names_are_numbers),
        cmocka_unit_test(test_texts_are_bounded_and_all_is_counted),
        cmocka_unit_test(test_random_histories_are_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
