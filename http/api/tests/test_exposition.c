/*
 * test_exposition.c - the same metrics in both formats, and labels whatever bytes are in them.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/metrics.h"

static void expect(struct buf *text, const char *wanted)
{
    buf_put(text, "", 1);
    assert_string_equal((const char *)text->data, wanted);
    buf_free(text);
}

static void put(struct exposition *to)
{
    expose_one(to, "leafd_a_total", "Some of it.", UINT64_MAX);
    expose_family(to, "leafd_none", "Nobody has it.");
    expose_family(to, "leafd_b_seconds", "Time.");
    expose_ms(to, "k=\"1\"", -1001);
    expose_ms(to, "k=\"2\"", INT64_MIN);
    expose_us(to, "", 1000001);
    expose_real(to, "k=\"3\"", 9.2e18);
    expose_end(to);
}

static void test_both_formats(void **state)
{
    struct buf text = BUF_INIT;

    (void)state;
    put(&(struct exposition){.text = &text});
    expect(&text, "# HELP leafd_a_total Some of it.\n"
                  "# TYPE leafd_a_total counter\n"
                  "leafd_a_total 18446744073709551615\n"
                  "# HELP leafd_b_seconds Time.\n"
                  "# TYPE leafd_b_seconds gauge\n"
                  "leafd_b_seconds{k=\"1\"} -1.001\n"
                  "leafd_b_seconds{k=\"2\"} -9223372036854775.808\n"
                  "leafd_b_seconds 1.000001\n"
                  "leafd_b_seconds{k=\"3\"} 9.2e+18\n");
    put(&(struct exposition){.text = &text, .is_open = true});
    expect(&text, "# HELP leafd_a Some of it.\n"
                  "# TYPE leafd_a counter\n"
                  "leafd_a_total 18446744073709551615\n"
                  "# HELP leafd_b_seconds Time.\n"
                  "# TYPE leafd_b_seconds gauge\n"
                  "leafd_b_seconds{k=\"1\"} -1.001\n"
                  "leafd_b_seconds{k=\"2\"} -9223372036854775.808\n"
                  "leafd_b_seconds 1.000001\n"
                  "leafd_b_seconds{k=\"3\"} 9.2e+18\n"
                  "# EOF\n");
}

static void test_buckets_add_up(void **state)
{
    struct histogram_view view = {.counts = {3, 0, 4, [HISTOGRAM_BUCKETS - 1] = 5},
                                  .sum_us = 61000002};
    struct buf text = BUF_INIT;
    struct exposition to = {.text = &text, .name = "t"};

    (void)state;
    expose_histogram(&to, "class=\"x\"", &view, NULL);
    buf_put(&text, "", 1);
    assert_non_null(strstr((char *)text.data, "t_bucket{class=\"x\",le=\"0.00001\"} 3\n"));
    assert_non_null(strstr((char *)text.data, "t_bucket{class=\"x\",le=\"0.00002\"} 3\n"));
    assert_non_null(strstr((char *)text.data, "t_bucket{class=\"x\",le=\"0.00005\"} 7\n"));
    assert_non_null(strstr((char *)text.data, "t_bucket{class=\"x\",le=\"10.0\"} 7\n"));
    assert_non_null(strstr((char *)text.data, "t_bucket{class=\"x\",le=\"+Inf\"} 12\n"
                                              "t_sum{class=\"x\"} 61.000002\n"
                                              "t_count{class=\"x\"} 12\n"));
    text.len = 0;
    expose_histogram(&to, "", &view, NULL);
    buf_put(&text, "", 1);
    assert_non_null(strstr((char *)text.data, "t_bucket{le=\"+Inf\"} 12\n"
                                              "t_sum 61.000002\n"
                                              "t_count 12\n"));
    buf_free(&text);
}

/* OpenMetrics alone has them. */
static void test_exemplars(void **state)
{
    struct histogram_view view = {.counts = {3, [HISTOGRAM_BUCKETS - 1] = 5}};
    struct exemplar_view exemplars[HISTOGRAM_BUCKETS] = {
        [HISTOGRAM_BUCKETS - 1] = {.trace = "00000000000000000000000000000abc",
                                   .took_us = 10000001,
                                   .wall_ms = 1795000000007}};
    struct buf text = BUF_INIT;

    (void)state;
    expose_histogram(&(struct exposition){.text = &text, .name = "t", .is_open = true}, "", &view,
                     exemplars);
    buf_put(&text, "", 1);
    assert_non_null(strstr((char *)text.data, "t_bucket{le=\"10.0\"} 3\n"
                                              "t_bucket{le=\"+Inf\"} 8 # {trace_id=\"00000000000000"
                                              "000000000000000abc\"} 10.000001 1795000000.007\n"));
    text.len = 0;
    expose_histogram(&(struct exposition){.text = &text, .name = "t"}, "", &view, exemplars);
    buf_put(&text, "", 1);
    assert_null(strstr((char *)text.data, "trace"));
    assert_non_null(strstr((char *)text.data, "t_bucket{le=\"+Inf\"} 8\n"));
    buf_free(&text);
}

static void test_hostile_labels(void **state)
{
    struct buf labels = BUF_INIT;

    (void)state;
    expose_label(&labels, "tag", "a\"b\\c\nd} 1", 10);
    expose_label(&labels, "k", "", 0);
    expose_label(&labels, "u", "caf\xc3\xa9\xff\xc3", 7);
    expect(&labels, "tag=\"a\\\"b\\\\c\\nd} 1\",k=\"\",u=\"caf\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_formats),
        cmocka_unit_test(test_buckets_add_up),
        cmocka_unit_test(test_exemplars),
        cmocka_unit_test(test_hostile_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
