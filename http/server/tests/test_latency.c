/*
 * test_latency.c - each request is counted once, in its class and by its status, with the time that
 * its turn took, or that it waited.
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "http/server/meter.h"

static struct histogram_view view_of(const struct latency *latency, unsigned class, unsigned status)
{
    struct histogram_view view = {0};

    histogram_add(&view, &latency->took[class][status]);
    return view;
}

static struct latency *begin(void)
{
    struct latency *latency = calloc(1, sizeof *latency);

    assert_non_null(latency);
    return latency;
}

static void test_what_one_turn_answers_took_the_turn(void **state)
{
    struct latency *latency = begin();
    uint64_t began_us = latency_begin(latency);
    struct histogram_view view;

    (void)state;
    assert_int_equal(latency_begin(latency), began_us); /* the clock is read once a turn */
    latency_end(latency, 1, 200, began_us);
    latency_end(latency, 1, 204, began_us);
    latency_end(latency, 1, 503, began_us);
    latency_end(latency, 0, 400, 0);
    view = view_of(latency, 1, 0);
    assert_int_equal(histogram_count(&view), 0); /* not yet */
    latency_turn_end(latency, began_us + 30);
    view = view_of(latency, 1, 0);
    assert_int_equal(view.counts[2], 2);
    assert_int_equal(view.sum_us, 60);
    assert_int_equal(latency_count(latency, 1, 0), 2);
    assert_int_equal(latency_count(latency, 1, 1), 0);
    view = view_of(latency, 1, 3);
    assert_int_equal(view.counts[2], 1);
    view = view_of(latency, 0, 2);
    assert_int_equal(view.counts[2], 1);
    latency_turn_end(latency, began_us + 1000); /* nothing came */
    view = view_of(latency, 1, 0);
    assert_int_equal(histogram_count(&view), 2);
    free(latency);
}

static void test_what_waited_took_until_its_answer(void **state)
{
    struct latency *latency = begin();
    uint64_t began_us = latency_begin(latency);
    struct histogram_view view;

    (void)state;
    latency_turn_end(latency, began_us + 5);
    latency->turn_us = began_us + 40000; /* a later turn, in which another request came first */
    assert_int_equal(latency_end(latency, 2, 200, began_us), 40000);
    assert_int_equal(latency_end(latency, 2, 200, latency->turn_us), 0);
    latency_turn_end(latency, began_us + 40007);
    view = view_of(latency, 2, 0);
    assert_int_equal(view.sum_us, 40000 + 7);
    assert_int_equal(view.counts[0], 1);
    assert_int_equal(histogram_count(&view), 2);
    free(latency);
}

/* One for each class, status and bucket: the newest. */
static void test_exemplars(void **state)
{
    static const char first[] = "0123456789abcdef0000000000000001";
    static const char second[] = "ffffffffffffffffffffffffffffffff";
    struct latency *latency = begin();
    struct exemplar_view view = {0};
    unsigned bucket = histogram_bucket(40000);

    (void)state;
    assert_string_equal(histogram_bound_text(bucket), "0.05");
    exemplar_newer(&view, &latency->exemplars[2][3][bucket]);
    assert_int_equal(view.wall_ms, 0); /* there is none */
    latency_exemplar(latency, 2, 503, 40000, first, 1000);
    exemplar_newer(&view, &latency->exemplars[2][0][bucket]);
    exemplar_newer(&view, &latency->exemplars[2][3][bucket + 1]);
    assert_int_equal(view.wall_ms, 0);
    exemplar_newer(&view, &latency->exemplars[2][3][bucket]);
    assert_string_equal(view.trace, first);
    assert_int_equal(view.took_us, 40000);
    assert_int_equal(view.wall_ms, 1000);
    latency_exemplar(latency, 2, 500, 50000, second, 1001);
    exemplar_newer(&view, &latency->exemplars[2][3][bucket]);
    assert_string_equal(view.trace, second);
    latency_exemplar(latency, 2, 500, 45000, first, 900); /* another loop's, say: older */
    exemplar_newer(&view, &latency->exemplars[2][3][bucket]);
    assert_string_equal(view.trace, second);
    latency->exemplars[2][3][bucket].writes++; /* it is being written */
    view = (struct exemplar_view){0};
    exemplar_newer(&view, &latency->exemplars[2][3][bucket]);
    assert_int_equal(view.wall_ms, 0);
    latency_exemplar(latency, 9, 200, UINT64_MAX, first, 1);
    exemplar_newer(&view, &latency->exemplars[9][0][HISTOGRAM_BUCKETS - 1]);
    assert_string_equal(view.trace, first);
    free(latency);
}

static void test_every_kind_in_one_turn(void **state)
{
    struct latency *latency = begin();

    (void)state;
    for (unsigned times = 0; times < 3; times++) {
        for (unsigned class = 0; class < LATENCY_CLASSES; class ++) {
            for (int status = 200; status <= 500; status += 100) {
                latency_end(latency, class, status + 99, 0);
            }
        }
        latency_turn_end(latency, latency->turn_us);
    }
    for (unsigned class = 0; class < LATENCY_CLASSES; class ++) {
        for (unsigned status = 0; status < LATENCY_STATUSES; status++) {
            struct histogram_view view = view_of(latency, class, status);

            assert_int_equal(view.counts[0], 3);
            assert_int_equal(histogram_count(&view), 3);
        }
    }
    free(latency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_one_turn_answers_took_the_turn),
        cmocka_unit_test(test_what_waited_took_until_its_answer),
        cmocka_unit_test(test_exemplars),
        cmocka_unit_test(test_every_kind_in_one_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
