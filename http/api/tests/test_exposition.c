/*
 * test_exposition.c - the same metrics in both formats, and labels whatever bytes are in them.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/tests/fixture.h"

#define OPEN "Accept: application/openmetrics-text\r\n"

static struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void prepare(struct fixture *f)
{
    f->fake.backend.figures = &box;
}

static int setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);

    assert_non_null(f);
    box.now = (struct id_figures){.member_count = 1, .members = {{.id = 5}}};
    fixture_start_with(f, NULL, prepare);
    *state = f;
    return 0;
}

/* Each text is in the answer, or with ! before it is not. accept: header lines. */
static void expect(struct fixture *f, const char *accept, const char *const *texts)
{
    struct reply reply;

    client_printf(f->client, "GET /metrics HTTP/1.1\r\nHost: x\r\n%s\r\n", accept);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    for (; *texts != NULL; texts++) {
        bool is_absent = (*texts)[0] == '!';

        if ((strstr(reply.body, *texts + is_absent) == NULL) != is_absent) {
            fail_msg("%s in %s", *texts, reply.body);
        }
    }
    reply_release(&reply);
}

#define EXPECT(f, accept, ...) expect((f), (accept), (const char *const[]){__VA_ARGS__, NULL})

#define CLOCK_OFF                                                                                  \
    "\n# HELP leafd_clock_off_seconds How far the clock is ahead of the cluster's; behind: "       \
    "negative.\n"                                                                                  \
    "# TYPE leafd_clock_off_seconds gauge\n"                                                       \
    "leafd_clock_off_seconds -1.001\n#"
#define SAID "Reports of other nodes that were refused because they cannot be true.\n"

static void test_both_formats(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->fake.health.implausible, UINT64_MAX);
    atomic_store(&f->fake.health.clock_off_ms, -1001);
    box.now.members[0].round_trip_us = 1000001;
    box.now.members[0].has_clock_offset = true;
    box.now.members[0].clock_offset_ms = INT64_MIN;
    box.now.busiest_count = 1;
    box.now.busiest[0] = (struct id_tag_figures){.name = "t", .name_len = 1, .ends_s = 9.2e18};
    EXPECT(f, "", CLOCK_OFF,
           "\n# HELP leafd_peer_implausible_total " SAID
           "# TYPE leafd_peer_implausible_total counter\n"
           "leafd_peer_implausible_total 18446744073709551615\n#",
           "\nleafd_link_rtt_seconds{member=\"5\"} 1.000001\n",
           "\nleafd_member_clock_off_seconds{member=\"5\"} -9223372036854775.808\n",
           "\nleafd_busiest_tag_exhaustion_seconds{tag=\"t\"} 9.2e+18\n",
           "!leafd_member_lag_entries", /* it is not known */
           "!# EOF");
    EXPECT(f, OPEN, CLOCK_OFF,
           "\n# HELP leafd_peer_implausible " SAID "# TYPE leafd_peer_implausible counter\n"
           "leafd_peer_implausible_total 18446744073709551615\n#",
           "\nleafd_link_rtt_seconds{member=\"5\"} 1.000001\n",
           "\nleafd_member_clock_off_seconds{member=\"5\"} -9223372036854775.808\n",
           "\nleafd_busiest_tag_exhaustion_seconds{tag=\"t\"} 9.2e+18\n",
           "!leafd_member_lag_entries", "commit=\"abc\\\"def\"} 1\n# EOF\n");
}

static void test_buckets_add_up(void **state)
{
    struct fixture *f = *state;

    box.now.refill = (struct histogram_view){.counts = {3, 0, 4, [HISTOGRAM_BUCKETS - 1] = 5},
                                             .sum_us = 61000002};
    EXPECT(f, "",
           "# TYPE leafd_refill_duration_seconds histogram\n"
           "leafd_refill_duration_seconds_bucket{le=\"0.00001\"} 3\n"
           "leafd_refill_duration_seconds_bucket{le=\"0.00002\"} 3\n"
           "leafd_refill_duration_seconds_bucket{le=\"0.00005\"} 7\n",
           "_bucket{le=\"10.0\"} 7\n"
           "leafd_refill_duration_seconds_bucket{le=\"+Inf\"} 12\n"
           "leafd_refill_duration_seconds_sum 61.000002\n"
           "leafd_refill_duration_seconds_count 12\n");
}

#define TOOK "leafd_http_request_duration_seconds"
#define SEGMENT "class=\"segment\",status=\"2xx\""

/* OpenMetrics alone has them. */
static void test_exemplars(void **state)
{
    struct fixture *f = *state;
    struct latency *latency = &f->api->loops[0]->conns->latency;

    histogram_note(&latency->took[TRAFFIC_SEGMENT][0], 10000001, 5);
    latency_exemplar(latency, TRAFFIC_SEGMENT, 200, 10000001, "00000000000000000000000000000abc",
                     1795000000007);
    EXPECT(f, OPEN,
           TOOK "_bucket{" SEGMENT ",le=\"10.0\"} 0\n" TOOK "_bucket{" SEGMENT
                ",le=\"+Inf\"} 5 # {trace_id=\"00000000000000000000000000000abc\"} "
                "10.000001 1795000000.007\n" TOOK "_sum{" SEGMENT "} 50.000005\n" TOOK
                "_count{" SEGMENT "} 5\n");
    EXPECT(f, "", TOOK "_bucket{" SEGMENT ",le=\"+Inf\"} 5\n", "!trace");
}

static void test_hostile_labels(void **state)
{
    struct fixture *f = *state;

    box.now.busiest_count = 3;
    box.now.busiest[0] = (struct id_tag_figures){.name = "a\"b\\c\nd} 1", .name_len = 10};
    box.now.busiest[1] = (struct id_tag_figures){.name = ""};
    box.now.busiest[2] = (struct id_tag_figures){.name = "caf\xc3\xa9\xff\xc3", .name_len = 7};
    EXPECT(f, "",
           "\nleafd_busiest_tag_ids_per_second{tag=\"a\\\"b\\\\c\\nd} 1\"} 0\n"
           "leafd_busiest_tag_ids_per_second{tag=\"\"} 0\n"
           "leafd_busiest_tag_ids_per_second{tag=\"caf\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"} "
           "0\n#",
           ",commit=\"abc\\\"def\"} 1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_formats, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_buckets_add_up, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exemplars, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_labels, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
