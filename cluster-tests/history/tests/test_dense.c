/*
 * test_dense.c - gaps held against operations of unknown outcome: each condition by itself,
 * many lengths, large numbers.
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "cluster-tests/history/dense.h"

struct found {
    unsigned count;
    const struct dense_gap *gap; /* the last one */
    enum dense_why why;
    uint64_t number;
};

static void found_cb(const struct dense_gap *gap, enum dense_why why, uint64_t number, void *data)
{
    struct found *found = data;

    found->count++;
    found->gap = gap;
    found->why = why;
    found->number = number;
}

static struct history_entry lost(uint64_t sent, uint32_t count)
{
    return (struct history_entry){.sent = sent, .received = HISTORY_UNKNOWN, .count = count};
}

static struct found check(const struct dense_gap *gaps, size_t gap_count,
                          const struct history_entry *entries, size_t count)
{
    struct dense_unknown unknown = {.entries = entries, .count = count};
    struct found found = {0};

    dense_check(gaps, gap_count, &unknown, HISTORY_STEPS, found_cb, &found);
    return found;
}

static void test_no_gap_or_no_operation(void **state)
{
    const struct dense_gap gaps[] = {{.from = 1, .to = 2, .deadline = 9},
                                     {.from = 5, .to = 6, .deadline = 9}};
    const struct history_entry entries[] = {lost(1, 1)};
    struct found found = check(gaps, 2, NULL, 0);

    (void)state;
    assert_int_equal(found.count, 2);
    assert_int_equal(found.why, DENSE_NO_FIT);
    assert_int_equal(check(NULL, 0, entries, 1).count, 0);
    assert_int_equal(check(NULL, 0, NULL, 0).count, 0);
}

static void test_deadline_to_the_unit(void **state)
{
    const struct dense_gap gaps[] = {{.from = 1, .to = 4, .deadline = 10}};
    const struct history_entry in_time[] = {lost(10, 3)};
    const struct history_entry late[] = {lost(11, 3)};

    (void)state;
    assert_int_equal(check(gaps, 1, in_time, 1).count, 0);
    assert_int_equal(check(gaps, 1, late, 1).why, DENSE_NO_FIT);
    assert_int_equal(check(gaps, 1, late, 1).count, 1);
}

/* What is sent after the first gap's deadline fills the second one alone, although the total of
 * both would do. */
static void test_each_deadline_counts(void **state)
{
    const struct dense_gap gaps[] = {{.from = 1, .to = 3, .deadline = 10},
                                     {.from = 5, .to = 6, .deadline = 20}};
    const struct history_entry entries[] = {lost(1, 1), lost(15, 1), lost(15, 1)};
    struct found found = check(gaps, 2, entries, 3);

    (void)state;
    assert_int_equal(found.count, 1);
    assert_ptr_equal(found.gap, &gaps[0]);
    assert_int_equal(found.why, DENSE_TOO_FEW);
    assert_int_equal(found.number, 1);
}

/* A hundred ids that were burnt in one piece do not fill two gaps of fifty. */
static void test_each_length_counts(void **state)
{
    const struct dense_gap gaps[] = {{.from = 1, .to = 51, .deadline = 10},
                                     {.from = 60, .to = 110, .deadline = 10},
                                     {.from = 200, .to = 300, .deadline = 10}};
    const struct history_entry entries[] = {lost(1, 100), lost(1, 50), lost(2, 49), lost(3, 1)};
    const struct history_entry fewer[] = {lost(1, 200), lost(1, 50), lost(2, 49)};
    struct found found;

    (void)state;
    assert_int_equal(check(gaps, 3, entries, 4).count, 0);
    found = check(gaps, 2, fewer, 3);
    assert_int_equal(found.count, 1);
    assert_ptr_equal(found.gap, &gaps[1]);
    assert_int_equal(found.number, 1);
}

/* A refused gap does not make the next ones look wrong, too. */
static void test_a_refused_gap_is_left_out(void **state)
{
    const struct dense_gap gaps[] = {{.from = 1, .to = 100, .deadline = 10},
                                     {.from = 200, .to = 205, .deadline = 10},
                                     {.from = 300, .to = 305, .deadline = 10}};
    const struct history_entry entries[] = {lost(1, 5), lost(2, 5), lost(2, 1), lost(2, 1)};
    struct found found = check(gaps, 3, entries, 4);

    (void)state;
    assert_int_equal(found.count, 1);
    assert_ptr_equal(found.gap, &gaps[0]);
    assert_int_equal(found.why, DENSE_TOO_FEW);
    assert_int_equal(found.number, 99 - 12);
}

static void test_divisor_of_what_fits(void **state)
{
    const struct dense_gap gaps[] = {{.from = 1, .to = 10, .deadline = 10}};
    const struct history_entry entries[] = {lost(1, 4), lost(1, 6), lost(1, 4), lost(9, 11)};
    const struct history_entry odd[] = {lost(1, 4), lost(1, 6), lost(1, 4), lost(9, 9)};
    struct found found = check(gaps, 1, entries, 4);

    (void)state;
    assert_int_equal(found.count, 1); /* 11 is longer than the gap */
    assert_int_equal(found.why, DENSE_DIVISOR);
    assert_int_equal(found.number, 2);
    assert_int_equal(check(gaps, 1, odd, 4).count, 0);
}

static void test_large_numbers(void **state)
{
    const uint64_t end = HISTORY_LAST_ID + 1;
    const struct dense_gap all[] = {{.from = 0, .to = end, .deadline = UINT64_MAX - 1}};
    const struct dense_gap some[] = {{.from = 7, .to = 7 + 2ULL * UINT32_MAX, .deadline = 5}};
    const struct history_entry entries[] = {lost(1, UINT32_MAX), lost(1, UINT32_MAX)};
    const struct history_entry ones[] = {lost(1, 1), lost(1, UINT32_MAX)};
    struct found found = check(all, 1, ones, 2);

    (void)state;
    assert_int_equal(found.count, 1);
    assert_int_equal(found.why, DENSE_TOO_FEW);
    assert_true(found.number == end - UINT32_MAX - 1);
    assert_int_equal(check(some, 1, entries, 2).count, 0);
    assert_int_equal(check(some, 1, entries, 1).number, UINT32_MAX);
}

/* More lengths than are told apart: a gap of each length, filled by the operation of its length;
 * nothing is refused. With the longest operation missing it is. */
static void test_many_lengths(void **state)
{
    const uint32_t lengths = DENSE_CLASSES + DENSE_CLASSES / 3;
    struct dense_gap *gaps = calloc(lengths, sizeof *gaps);
    struct history_entry *entries = calloc(lengths, sizeof *entries);
    uint64_t id = 1;

    (void)state;
    assert_true(gaps != NULL && entries != NULL);
    for (uint32_t i = 0; i < lengths; i++) {
        gaps[i] = (struct dense_gap){.from = id, .to = id + i + 1, .deadline = lengths};
        entries[i] = lost(i, i + 1);
        id += i + 2;
    }
    assert_int_equal(check(gaps, lengths, entries, lengths).count, 0);
    assert_int_equal(check(gaps, lengths, entries, lengths - 1).count, 1);
    /* The shortest one missing is told where its gap is. */
    assert_ptr_equal(check(gaps, lengths, entries + 1, lengths - 1).gap, &gaps[0]);
    free(gaps);
    free(entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_gap_or_no_operation),
        cmocka_unit_test(test_deadline_to_the_unit),
        cmocka_unit_test(test_each_deadline_counts),
        cmocka_unit_test(test_each_length_counts),
        cmocka_unit_test(test_a_refused_gap_is_left_out),
        cmocka_unit_test(test_divisor_of_what_fits),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_many_lengths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
