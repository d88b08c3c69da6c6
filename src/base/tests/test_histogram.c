/*
 * test_histogram.c - each duration counts in the bucket of its bound, and sums are of all threads.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/stats.h"

static struct histogram_view view_of(const struct histogram *histogram)
{
    struct histogram_view view = {0};

    histogram_add(&view, histogram);
    return view;
}

/* By its text. */
static uint64_t bound_us(unsigned i)
{
    return (uint64_t)(strtod(histogram_bound_text(i), NULL) * 1e6 + 0.5);
}

static void test_bounds_rise_and_their_texts_are_exact(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        char text[32];

        /* as many digits as a bound can have; "1.0" and not "1": OpenMetrics wants it so */
        (void)snprintf(text, sizeof text, "%.6f", strtod(histogram_bound_text(i), NULL));
        assert_true(strtod(text, NULL) == strtod(histogram_bound_text(i), NULL));
        assert_true(i == 0 || bound_us(i) > bound_us(i - 1));
    }
    assert_int_equal(bound_us(0), 10);
    assert_int_equal(bound_us(HISTOGRAM_BOUNDS - 1), 10000000);
    assert_string_equal(histogram_bound_text(HISTOGRAM_BOUNDS - 1), "10.0");
}

static void test_a_bound_belongs_to_its_bucket_and_one_more_to_the_next(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        struct histogram histogram = {0};
        struct histogram_view view;

        histogram_note(&histogram, bound_us(i), 1);
        histogram_note(&histogram, bound_us(i) + 1, 2);
        view = view_of(&histogram);
        assert_int_equal(view.counts[i], 1);
        assert_int_equal(view.counts[i + 1], 2);
        assert_int_equal(histogram_count(&view), 3);
        assert_int_equal(view.sum_us, 3 * bound_us(i) + 2);
    }
}

static void test_the_ends(void **state)
{
    struct histogram histogram = {0};
    struct histogram_view view;

    (void)state;
    histogram_note(&histogram, 0, 5);
    histogram_note(&histogram, UINT64_MAX, 1);
    view = view_of(&histogram);
    assert_int_equal(view.counts[0], 5);
    assert_int_equal(view.counts[HISTOGRAM_BUCKETS - 1], 1);
}

static void test_a_view_sums_up_several(void **state)
{
    struct histogram a = {0};
    struct histogram b = {0};
    struct histogram_view view = {0};

    (void)state;
    histogram_note(&a, 15, 1);
    histogram_note(&b, 15, 10);
    histogram_note(&b, 700, 100);
    histogram_add(&view, &a);
    histogram_add(&view, &b);
    assert_int_equal(view.counts[1], 11);
    assert_int_equal(view.counts[6], 100);
    assert_int_equal(histogram_count(&view), 111);
    assert_int_equal(view.sum_us, 15 * 11 + 700 * 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_rise_and_their_texts_are_exact),
        cmocka_unit_test(test_a_bound_belongs_to_its_bucket_and_one_more_to_the_next),
        cmocka_unit_test(test_the_ends),
        cmocka_unit_test(test_a_view_sums_up_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
