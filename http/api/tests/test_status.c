/*
 * test_status.c - the looks at a node: alarms, events, status, viewers.
 *
 * What watches a node: /metrics, read as strictly as Prometheus may, and the refusals of snowflake
 * ids in /readyz.
 *
 * Status, events, the live stream and the page over real sockets: what is not known is null,
 * viewers are bounded, and one that goes leaves nothing.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/tests/snowflake_fixture.h"
#include "http/tests/fixture.h"
#include "src/base/assert.h"
#include "src/id/snowflake/snowflake.h"

/* --- a strict reader of the text format --- */

#define FAMILIES_MAX 128
#define NAME_BYTES 80

struct family {
    char name[NAME_BYTES];
    bool counter;
    bool histogram;
    unsigned samples;
    double bucket; /* of a histogram: the last one's count */
};

struct families {
    struct family families[FAMILIES_MAX];
    size_t count;
};

static size_t name_len(const char *at)
{
    size_t len = 0;

    while (isalpha((unsigned char)at[len]) || at[len] == '_' ||
           (len > 0 && isdigit((unsigned char)at[len]))) {
        len++;
    }
    return len;
}

/* "# HELP name text\n# TYPE name type\n" opens a family that was not there before. */
static const char *read_family(struct families *all, const char *at)
{
    struct family *family = &all->families[all->count];
    size_t len = name_len(at + 7);

    assert_true(all->count < FAMILIES_MAX);
    assert_memory_equal(at, "# HELP ", 7);
    assert_in_range(len, 1, NAME_BYTES - 1);
    memcpy(family->name, at + 7, len);
    family->name[len] = '\0';
    assert_int_equal(at[7 + len], ' ');
    for (at += 8 + len; *at != '\n'; at++) {
        assert_true(*at >= ' ' && *at != '\\');
    }
    assert_int_equal(at[-1], '.');
    at++;
    assert_memory_equal(at, "# TYPE ", 7);
    assert_memory_equal(at + 7, family->name, len);
    at += 7 + len;
    family->counter = strncmp(at, " counter\n", 9) == 0;
    family->histogram = strncmp(at, " histogram\n", 11) == 0;
    assert_true(family->counter || family->histogram || strncmp(at, " gauge\n", 7) == 0);
    for (size_t i = 0; i < all->count; i++) {
        assert_string_not_equal(all->families[i].name, family->name);
    }
    all->count++;
    return strchr(at, '\n') + 1;
}

/* {name="value",...} */
static const char *read_labels(const char *at)
{
    do {
        size_t len = name_len(++at);

        assert_true(len > 0);
        at += len;
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; at++) {
            assert_true(*at >= ' ');
            if (*at == '\\') {
                at++;
                assert_true(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    return at + 1;
}

/* Buckets rise up to the one without a bound, then come sum and count, which is the same. */
static void read_bucket(struct family *family, const char *behind, double value)
{
    static const char first[] = "_bucket{";

    if (strncmp(behind, first, strlen(first)) == 0) {
        assert_true(value >= family->bucket);
        family->bucket = value;
    } else if (strncmp(behind, "_count", 6) == 0) {
        assert_true(value == family->bucket);
        family->bucket = 0;
    } else {
        assert_memory_equal(behind, "_sum", 4);
    }
}

/* A sample belongs to the family that was opened last. */
static const char *read_sample(struct families *all, const char *at)
{
    struct family *family = &all->families[all->count - 1];
    size_t len = name_len(at);
    const char *behind;
    double value;
    char *end;

    assert_true(all->count > 0);
    assert_memory_equal(at, family->name, strlen(family->name));
    behind = at + strlen(family->name);
    assert_true(family->histogram ? len > strlen(family->name) : len == strlen(family->name));
    at += len;
    if (*at == '{') {
        at = read_labels(at);
    }
    assert_int_equal(*at, ' ');
    assert_true(isdigit((unsigned char)at[1]) || at[1] == '-');
    value = strtod(at + 1, &end);
    assert_int_equal(*end, '\n');
    if (family->histogram) {
        read_bucket(family, behind, value);
    }
    assert_false(family->counter && at[1] == '-');
    family->samples++;
    return end + 1;
}

/* The rules for names that promtool checks beside the format. */
static void check_names(const struct families *all)
{
    static const char *const units[] = {"_s",  "_ms", "_us", "_ns", "_sec", "_b", "_kb",    "_mb",
                                        "_gb", "_tb", "_pb", "_m",  "_h",   "_d", "_count", "_sum"};

    for (size_t i = 0; i < all->count; i++) {
        const struct family *family = &all->families[i];
        const char *last = strrchr(family->name, '_');

        assert_true(strncmp(family->name, "leafd_", 6) == 0 ||
                    strncmp(family->name, "process_", 8) == 0);
        assert_true(family->samples > 0);
        assert_non_null(last);
        assert_int_equal(strcmp(last, "_total") == 0, family->counter);
        for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
            assert_string_not_equal(last, units[k]);
        }
    }
}

/* Read /metrics; the caller frees it. */
static char *metrics(struct fixture *f, size_t *ret_families)
{
    struct families all = {.count = 0};
    struct reply reply;
    const char *at;

    client_call(f->client, "GET", "/metrics", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply_header(&reply, "Content-Type"), "text/plain; version=0.0.4");
    assert_int_equal(strlen(reply.body), reply.len);
    for (at = reply.body; *at != '\0';) {
        at = *at == '#' ? read_family(&all, at) : read_sample(&all, at);
    }
    assert_int_equal(at[-1], '\n');
    check_names(&all);
    *ret_families = all.count;
    return reply.body;
}

/* The value of a sample, named with its labels. */
static double value_of(struct fixture *f, const char *sample)
{
    size_t families;
    char *body = metrics(f, &families);
    char wanted[128];
    const char *at;
    double value;

    snprintf(wanted, sizeof(wanted), "\n%s ", sample);
    at = strstr(body, wanted);
    assert_non_null(at);
    assert_null(strstr(at + 1, wanted));
    value = strtod(at + strlen(wanted), NULL);
    free(body);
    return value;
}

#define VALUE(sample) ((long long)value_of(f, (sample)))

/* --- metrics --- */

#define TOOK "leafd_http_request_duration_seconds"

static void test_metrics_without_snowflake(void **state)
{
    struct fixture *f = *state;
    size_t families;
    char *body = metrics(f, &families);

    assert_int_equal(families, 49);
    assert_null(strstr(body, "layout_seconds_left"));
    free(body);
    assert_int_equal(VALUE("leafd_build_info{version=\"9.8.7\",commit=\"abc\\\"def\"}"), 1);
    client_expect_error(f->client, "GET", "/metrics?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "POST", "/metrics", "", 405, "method_not_allowed");
    client_expect(f->client, "HEAD", "/metrics", 200, NULL);
}

static void test_counters(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);

    fake_open(&f->fake, "t", 1, 1000);
    client_expect(f->client, "GET", "/api/segment/get/t?count=7", 200, NULL);
    client_expect(f->client, "GET", "/api/segment/get/t", 200, NULL);
    client_expect(other, "GET", GET "k?count=300&format=range", 200, NULL);
    client_expect_error(f->client, "GET", GET "k?count=0", NULL, 400, "bad_count");
    client_expect_error(f->client, "GET", "/none", NULL, 404, "no_route");
    atomic_store(&f->fake.health.started, false);
    client_expect(f->client, "GET", "/readyz", 503, NULL);
    assert_int_equal(VALUE("leafd_ids_total{kind=\"segment\"}"), 8);
    assert_int_equal(VALUE("leafd_ids_total{kind=\"snowflake\"}"), 300);
    assert_int_equal(VALUE("leafd_http_requests_total{status=\"2xx\"}"), 3);
    assert_int_equal(VALUE("leafd_http_requests_total{status=\"3xx\"}"), 0);
    assert_int_equal(VALUE("leafd_http_requests_total{status=\"4xx\"}"), 2);
    assert_int_equal(VALUE("leafd_http_requests_total{status=\"5xx\"}"), 0);
    /* Those before this one, among them those of /metrics. */
    assert_int_equal(VALUE("leafd_http_probes_total{status=\"2xx\"}"), 6);
    assert_int_equal(VALUE("leafd_http_probes_total{status=\"5xx\"}"), 1);
    assert_int_equal(VALUE(TOOK "_count{class=\"segment\",status=\"2xx\"}"), 2);
    assert_int_equal(VALUE(TOOK "_count{class=\"snowflake\",status=\"2xx\"}"), 1);
    assert_int_equal(VALUE(TOOK "_count{class=\"snowflake\",status=\"4xx\"}"), 1);
    assert_int_equal(VALUE(TOOK "_count{class=\"other\",status=\"4xx\"}"), 1);
    assert_int_equal(VALUE("leafd_connections"), 2);
    client_close(other);
    while (VALUE("leafd_connections") != 1) {
    }
    assert_int_equal(VALUE("leafd_waiting_requests"), 0);
}

static void test_gauges(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(VALUE("leafd_leader_known"), 1);
    assert_int_equal(VALUE("leafd_leader_through"), 0);
    assert_int_equal(VALUE("leafd_disk_low"), 0);
    atomic_store(&f->fake.health.leader_known, false);
    atomic_store(&f->fake.health.leader_through, 3);
    atomic_store(&f->fake.health.disk_low, true);
    assert_int_equal(VALUE("leafd_leader_known"), 0);
    assert_int_equal(VALUE("leafd_leader_through"), 3);
    assert_int_equal(VALUE("leafd_disk_low"), 1);
    assert_int_equal(VALUE("leafd_peer_implausible_total"), 0);
    atomic_store(&f->fake.health.implausible, 3);
    assert_int_equal(VALUE("leafd_peer_implausible_total"), 3);
    /* 3487858230208 - 1700000000000, and near its end. */
    assert_int_equal(VALUE("leafd_snowflake_layout_seconds_left"), 1787858230);
    fake_set_wall(&f->fake, 3487858230208 - 1999);
    assert_int_equal(VALUE("leafd_snowflake_layout_seconds_left"), 1);
    fake_set_wall(&f->fake, 3487858230208 + 5000);
    assert_int_equal(VALUE("leafd_snowflake_layout_seconds_left"), 0);
}

/* Layouts by name end, too; those that are deleted are told of no more. */
static void test_named_layouts_end(void **state)
{
    struct layout_row row = {.name = "baidu", .name_len = 5};
    struct fixture *f = *state;
    struct snowflake *snowflake = &f->fake.snowflake;
    size_t families;
    char *body;

    assert_true(named_layout_preset("baidu", 5, &row.layout));
    snowflake_learn(snowflake, &row);
    fake_set_wall(&f->fake, named_layout_last_ms(&row.layout) - 1999);
    assert_int_equal(VALUE("leafd_snowflake_layout_seconds_left{layout=\"baidu\"}"), 1);
    fake_set_wall(&f->fake, named_layout_last_ms(&row.layout) + 1);
    assert_int_equal(VALUE("leafd_snowflake_layout_seconds_left{layout=\"baidu\"}"), 0);
    row.deleted = true;
    snowflake_learn(snowflake, &row);
    body = metrics(f, &families);
    assert_null(strstr(body, "baidu"));
    free(body);
}

static void test_clock_off(void **state)
{
    static const struct {
        int64_t ms;
        const char *line;
    } cases[] = {
        {0, "\nleafd_clock_off_seconds 0.000\n"},
        {1, "\nleafd_clock_off_seconds 0.001\n"},
        {-1, "\nleafd_clock_off_seconds -0.001\n"},
        {-12345, "\nleafd_clock_off_seconds -12.345\n"},
        {INT64_MAX, "\nleafd_clock_off_seconds 9223372036854775.807\n"},
        {INT64_MIN, "\nleafd_clock_off_seconds -9223372036854775.808\n"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t families;
        char *body;

        atomic_store(&f->fake.health.clock_off_ms, cases[i].ms);
        body = metrics(f, &families);
        assert_non_null(strstr(body, cases[i].line));
        free(body);
    }
}

static const struct id_figures gathered = {
    .role = ID_NODE_LEADER,
    .leader_id = 2,
    .term = 7,
    .last_index = 100,
    .elections = 4,
    .member_count = 2,
    .members = {{.id = 1,
                 .reachable = true,
                 .has_match = true,
                 .match_index = 90,
                 .role = "standby",
                 .round_trip_us = 1234,
                 .has_clock_offset = true,
                 .clock_offset_ms = -5,
                 .levels = {1, 3},
                 .version = "1\"\n}"},
                {.id = 2, .role = "voter", .round_trip_us = ID_UNKNOWN}},
    .disk = {.map_bytes = 1 << 30,
             .used_bytes = 5,
             .views_ended = 7,
             .commit = {.counts = {0, 2}, .sum_us = 31}},
    .busiest_count = 2,
    .busiest = {{.name = "a\"b\\c", .name_len = 5, .per_s = 2.5, .ends_s = 400},
                {.name = "slow", .name_len = 4, .per_s = 0.001, .ends_s = 1e18}},
};

/* What the raft loop gathered, with texts from elsewhere that are hostile. */
static void test_what_the_node_gathered(void **state)
{
    struct fixture *f = *state;
    struct id_figures_box box = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    id_figures_put(&box, &gathered);
    f->fake.backend.figures = &box; /* before the first request: no loop looks yet */
    assert_int_equal(VALUE("leafd_role{role=\"leader\"}"), 1);
    assert_int_equal(VALUE("leafd_role{role=\"follower\"}"), 0);
    assert_int_equal(VALUE("leafd_term"), 7);
    assert_int_equal(VALUE("leafd_elections_total"), 4);
    assert_int_equal(VALUE("leafd_member_lag_entries{member=\"1\"}"), 10);
    assert_int_equal(VALUE("leafd_member_reachable{member=\"2\"}"), 0);
    assert_true(value_of(f, "leafd_link_rtt_seconds{member=\"1\"}") == 0.001234);
    assert_true(value_of(f, "leafd_member_clock_off_seconds{member=\"1\"}") == -0.005);
    assert_int_equal(VALUE("leafd_member_info{member=\"1\",version=\"1\\\"\\n}\"}"), 1);
    assert_int_equal(VALUE("leafd_map_used_bytes"), 5);
    assert_int_equal(VALUE("leafd_views_ended_total"), 7);
    assert_int_equal(VALUE("leafd_commit_duration_seconds_bucket{le=\"0.00002\"}"), 2);
    assert_true(value_of(f, "leafd_commit_duration_seconds_sum") == 0.000031);
    assert_true(value_of(f, "leafd_busiest_tag_ids_per_second{tag=\"a\\\"b\\\\c\"}") == 2.5);
    assert_int_equal(VALUE("leafd_busiest_tag_exhaustion_seconds{tag=\"a\\\"b\\\\c\"}"), 400);
}

/* Version and reloads are those of the process that the service was made for. */
static void test_of_the_process(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    struct http_server *server;
    const struct http_reloads reloads = {.done = 3, .refused = 2, .done_ms = 1790000000123};
    const struct http_build build = {
        .version = "1\"\\\n2", .commit = "", .libraries = "{}", .reloads = &reloads};
    struct api *api;

    (void)state;
    ASSERT(f != NULL);
    fixture_start(f, NULL);
    api = api_new(&f->settings, &build, &f->fake.backend, fake_auth(), NULL, NULL);
    assert_int_equal(http_server_start(&f->settings, &api->ids.service, &server), 0);
    client_close(f->client);
    f->client = client_open(fixture_port(server, ACCEPT_HTTP));
    assert_int_equal(VALUE("leafd_build_info{version=\"1\\\"\\\\\\n2\",commit=\"\"}"), 1);
    assert_int_equal(VALUE("leafd_reloads_total{result=\"done\"}"), 3);
    assert_int_equal(VALUE("leafd_reloads_total{result=\"refused\"}"), 2);
    assert_int_equal(VALUE("leafd_reload_timestamp_seconds"), 1790000000);
    http_server_stop(server);
    api_free(api);
    fixture_stop(f);
    free(f);
}

/* --- refusals --- */

static const struct {
    int err;
    const char *code;
} refusals[] = {
    {ERR_CLOCK_BACKWARDS, "clock_backwards"}, {ERR_CLOCK_SKEW, "clock_skew"},
    {ERR_WINDOW_EXPIRED, "window_expired"},   {ERR_EPOCH_EXHAUSTED, "epoch_exhausted"},
    {ERR_NO_WORKER_ID, "no_worker_id"},
};

#define REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

static void test_alarm_of_each_refusal(void **state)
{
    struct fixture *f = *state;
    char sample[80];

    for (size_t now = 0; now <= REFUSALS; now++) {
        atomic_store(&f->fake.health.snowflake_refusal, now < REFUSALS ? refusals[now].err : 0);
        for (size_t i = 0; i < REFUSALS; i++) {
            snprintf(sample, sizeof(sample), "leafd_snowflake_refused{code=\"%s\"}",
                     refusals[i].code);
            assert_int_equal(VALUE(sample), i == now);
        }
    }
}

static void test_ready_warns(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char wanted[64];

    client_expect(f->client, "GET", "/readyz", 200, "{\"status\":\"ready\"}");
    for (size_t i = 0; i < REFUSALS; i++) {
        atomic_store(&f->fake.health.snowflake_refusal, refusals[i].err);
        client_call(f->client, "GET", "/readyz", NULL, &reply);
        assert_int_equal(reply.status, 200);
        snprintf(wanted, sizeof(wanted), "{\"status\":\"ready\",\"warnings\":[\"%s",
                 err_text(refusals[i].err));
        assert_memory_equal(reply.body, wanted, strlen(wanted));
        assert_string_equal(reply.body + reply.len - 3, "\"]}");
        reply_release(&reply);
    }
    atomic_store(&f->fake.health.snowflake_refusal, ERR_CLOCK_SKEW);
    atomic_store(&f->fake.health.stopping, true);
    client_expect(
        f->client, "GET", "/readyz", 503,
        "{\"status\":\"not ready\",\"reasons\":[\"the node is stopping\",\"the clock is "
        "too far from the cluster's: it is off by 0 ms, and ids continue when it has been "
        "set right\"]}");
}

static void test_ready_verbose(void **state)
{
    static const char before[] = "\"checks\":[{\"name\":\"started\",\"ok\":true,\"needed\":true},"
                                 "{\"name\":\"applied\",\"ok\":true,\"needed\":true},"
                                 "{\"name\":\"serving\",\"ok\":true,\"needed\":true},"
                                 "{\"name\":\"ids\",\"ok\":true,\"needed\":true},"
                                 "{\"name\":\"disk\",\"ok\":true,\"needed\":false},"
                                 "{\"name\":\"born\",\"ok\":true,\"needed\":true},"
                                 "{\"name\":\"drained\",\"ok\":true,\"needed\":true},"
                                 "{\"name\":\"memory\",\"ok\":true,\"needed\":false},"
                                 "{\"name\":\"settings\",\"ok\":true,\"needed\":false},";
    struct fixture *f = *state;
    struct reply reply;
    char wanted[1024];

    snprintf(wanted, sizeof(wanted), "{\"status\":\"ready\",%s%s", before,
             "{\"name\":\"snowflake\",\"ok\":true,\"needed\":false}]}");
    client_expect(f->client, "GET", "/readyz?verbose", 200, wanted);
    atomic_store(&f->fake.health.snowflake_refusal, ERR_CLOCK_BACKWARDS);
    atomic_store(&f->fake.health.clock_off_ms, -2500);
    atomic_store(&f->fake.health.clock_wait_until_ms, T0 + 2400);
    client_call(f->client, "GET", "/readyz?verbose", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, before));
    assert_non_null(strstr(
        reply.body,
        "{\"name\":\"snowflake\",\"ok\":false,\"needed\":false,\"code\":\"clock_backwards\","
        "\"reason\":\"the clock is behind times that were used already: it is off by -2500 ms, and "
        "ids continue when it shows 1700000002400 (2023-11-14T22:13:22.400Z), which is in 2400 "
        "ms\","
        "\"clock_off_ms\":-2500,\"wait_until_ms\":1700000002400}]}"));
    reply_release(&reply);
}

/* A node that is not to serve them does not warn about it. */
static void test_switched_off_is_no_alarm(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    atomic_store(&f->fake.snowflake.refusal, ERR_DISABLED);
    atomic_store(&f->fake.health.snowflake_refusal, ERR_DISABLED);
    client_expect(f->client, "GET", "/readyz", 200, "{\"status\":\"ready\"}");
    client_call(f->client, "GET", "/readyz?verbose", NULL, &reply);
    assert_null(strstr(reply.body, "snowflake"));
    reply_release(&reply);
    for (size_t i = 0; i < REFUSALS; i++) {
        char sample[80];

        snprintf(sample, sizeof(sample), "leafd_snowflake_refused{code=\"%s\"}", refusals[i].code);
        assert_int_equal(VALUE(sample), 0);
    }
}

#define TEST_ALARMS(name, setup) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

/* --- watch --- */

static void set_cluster(struct fixture *f)
{
    f->fake.cluster = (struct id_cluster_status){.cluster_id = "c-1",
                                                 .node_id = 2,
                                                 .state = ID_NODE_FOLLOWER,
                                                 .leader_id = 3,
                                                 .term = 9,
                                                 .member_count = 2,
                                                 .members = {{.id = 2,
                                                              .role = "voter",
                                                              .reachable = true,
                                                              .lag = 3,
                                                              .round_trip_us = 180,
                                                              .last_heard_ms = 40,
                                                              .has_clock_offset = true,
                                                              .clock_offset_ms = -7},
                                                             {.id = 3,
                                                              .role = "voter",
                                                              .peer_address = "\"</script>",
                                                              .lag = ID_UNKNOWN,
                                                              .round_trip_us = ID_UNKNOWN,
                                                              .last_heard_ms = ID_UNKNOWN}}};
}

static void test_status(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    set_cluster(f);
    client_call(f->client, "GET", "/api/status", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"match_index\":0,\"lag\":3,\"round_trip_us\":180,"
                                       "\"clock_offset_ms\":-7,\"last_heard_ms\":40}"));
    assert_non_null(strstr(reply.body, "\"peer_address\":\"\\\"</script>\""));
    assert_non_null(strstr(reply.body, "\"match_index\":0,\"lag\":null,\"round_trip_us\":null,"
                                       "\"clock_offset_ms\":null,\"last_heard_ms\":null}"));
    assert_non_null(strstr(reply.body, "\"quorum\":{\"needed\":2,\"reachable\":1,"
                                       "\"survives_next_failure\":false,\"text\":\"1 of 2"));
    assert_non_null(strstr(reply.body, "\"disk\":{\"data_bytes\":null,\"map_bytes\":null,"
                                       "\"map_used_bytes\":null,\"free_bytes\":null},"));
    assert_non_null(strstr(reply.body, "\"alarms\":[]"));
    assert_non_null(strstr(reply.body, "\"snowflake\":null"));
    assert_non_null(strstr(reply.body, "\"certificates\":[],\"resp_address\":null,\"uptime_s\":"));
    assert_non_null(strstr(reply.body, "\"you\":{\"name\":\"anonymous\",\"roles\":[\"ids\","));
    reply_release(&reply);
    client_expect_error(f->client, "GET", "/api/status?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "POST", "/api/status", "{}", 405, "method_not_allowed");
}

/* The leader's view: its own zone's cost is the round trip to the nearest majority. */
static void test_status_has_the_cost_of_zones(void **state)
{
    struct fixture *f = *state;
    struct id_member *members = f->fake.cluster.members;
    const uint64_t trips_us[] = {40000, 300, ID_UNKNOWN, 9000, 500};
    const char *zones[] = {"b", "a", "a", "c", ""};
    struct reply reply;

    set_cluster(f);
    client_call(f->client, "GET", "/api/status", NULL, &reply);
    assert_null(strstr(reply.body, "\"zones\"")); /* it does not lead, and there are none */
    reply_release(&reply);
    f->fake.cluster.leader_id = f->fake.cluster.node_id = 3;
    f->fake.cluster.member_count = 5;
    for (size_t i = 0; i < 5; i++) {
        members[i] = (struct id_member){.id = i + 1, .role = "voter", .round_trip_us = trips_us[i]};
        snprintf(members[i].placement.zone, sizeof members[i].placement.zone, "%s", zones[i]);
    }
    client_call(f->client, "GET", "/api/status", NULL, &reply);
    assert_non_null(strstr(reply.body,
                           "\"zones\":[{\"zone\":\"b\",\"monotonic_us\":40500,\"strict_us\":null},"
                           "{\"zone\":\"a\",\"monotonic_us\":500,\"strict_us\":null},"
                           "{\"zone\":\"c\",\"monotonic_us\":9500,\"strict_us\":null}]"));
    reply_release(&reply);
    members[4].round_trip_us = members[3].round_trip_us = ID_UNKNOWN; /* no majority answers */
    members[0].round_trip_us = ID_UNKNOWN;
    client_call(f->client, "GET", "/api/status", NULL, &reply);
    assert_non_null(
        strstr(reply.body, "{\"zone\":\"a\",\"monotonic_us\":null,\"strict_us\":null}"));
    reply_release(&reply);
}

/* As the settings have it; "" is none. */
static void test_status_has_the_address_of_resp(void **state)
{
    static const char *const shown[] = {"[::1]:6379", "\"</script>:1", ""};
    static const char *const wanted[] = {"[::1]:6379\"", "\\\"</script>:1\"", NULL};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        struct http_settings settings = {.loops = 1, .resp_shown = shown[i]};
        struct fixture f;
        struct reply reply;
        char want[64];

        fixture_start(&f, &settings);
        client_call(f.client, "GET", "/api/status", NULL, &reply);
        assert_int_equal(reply.status, 200);
        (void)snprintf(want, sizeof want, ",\"resp_address\":%s%s,", wanted[i] != NULL ? "\"" : "",
                       wanted[i] != NULL ? wanted[i] : "null");
        assert_non_null(strstr(reply.body, want));
        reply_release(&reply);
        fixture_stop(&f);
    }
}

/* What clients choose a node by: of each that has an address. */
static void test_nodes(void **state)
{
    static const char want[] =
        "{\"self\":2,\"uid\":\"00000000-0000-0007-0000-000000000009\",\"nodes\":[{\"id\":2,\"http_"
        "address\":\"h:2\",\"zone\":\"eu-1\",\"weight\":"
        "100,\"state\":\"ready\",\"snowflake\":true},{\"id\":3,\"http_address\":\"h:3\",\"zone\":"
        "null,\"weight\":7,\"state\":\"drained\",\"snowflake\":false}]}";
    struct fixture *f = *state;
    struct id_member *members = f->fake.cluster.members;
    struct reply reply;

    set_cluster(f);
    f->fake.cluster.uid = (struct uid){.high = 7, .low = 9};
    f->fake.cluster.member_count = 3; /* the third one has not registered */
    memcpy(members[0].http_address, "h:2", sizeof "h:2");
    memcpy(members[0].placement.zone, "eu-1", sizeof "eu-1");
    members[0].placement.weight = NODE_WEIGHT_DEFAULT;
    members[0].has_snowflake = true;
    memcpy(members[1].http_address, "h:3", sizeof "h:3");
    members[1].placement.weight = 7;
    members[1].serving = ID_SERVING_DRAINED;
    client_call(f->client, "GET", "/api/nodes", NULL, &reply); /* there was no look yet */
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, want);
    reply_release(&reply);
    client_expect_error(f->client, "GET", "/api/nodes?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "POST", "/api/nodes", "{}", 405, "method_not_allowed");
    api_watch(f->api);
    fake_await_submitted(&f->fake, 2);
    client_call(f->client, "GET", "/api/nodes", NULL, &reply);
    assert_string_equal(reply.body, want);
    reply_release(&reply);
    client_call(f->client, "HEAD", "/api/nodes", NULL, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
}

/* A look came before any node had registered: a list without nodes is not kept for a second. */
static void test_nodes_right_after_the_birth(void **state)
{
    struct fixture *f = *state;
    struct id_member *member = &f->fake.cluster.members[0];
    bool looked = false;
    struct reply reply;

    set_cluster(f);
    f->fake.cluster.member_count = 1;
    memset(member->http_address, 0, sizeof member->http_address);
    api_watch(f->api);
    while (!looked) { /* the test's own limit of time ends it */
        client_call(f->client, "GET", "/api/status", NULL, &reply);
        looked = strstr(reply.body, "\"resident_bytes\":null") == NULL;
        reply_release(&reply);
    }
    fake_hold(&f->fake, true, false); /* a look reads it */
    memcpy(member->http_address, "h:2", sizeof "h:2");
    fake_hold(&f->fake, false, false);
    client_call(f->client, "GET", "/api/nodes", NULL, &reply);
    assert_non_null(strstr(reply.body, "\"http_address\":\"h:2\""));
    reply_release(&reply);
}

static void test_events(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_call(f->client, "GET", "/api/events", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "{\"events\":[],\"next\":null}");
    reply_release(&reply);
    client_expect_error(f->client, "GET", "/api/events?limit=0", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", "/api/events?limit=513", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", "/api/events?after=-1", NULL, 400, "bad_request");
    client_call(f->client, "GET", "/api/events?limit=512&after=18446744073709551615", NULL, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
}

/* An alarm and an event begin once the node is looked at. */
static void test_looks(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    bool seen = false;

    set_cluster(f);
    atomic_store(&f->fake.health.disk_low, true);
    api_watch(f->api);
    while (!seen) { /* the test's own limit of time ends it */
        client_call(f->client, "GET", "/api/status", NULL, &reply);
        seen = strstr(reply.body, "\"alarms\":[{\"name\":\"LeafdDiskLow\"") != NULL;
        reply_release(&reply);
    }
    client_call(f->client, "GET", "/api/events", NULL, &reply);
    assert_non_null(strstr(reply.body, "node 2 is up; node 3 leads in term 9"));
    assert_non_null(strstr(reply.body, "\"kind\":\"alarm\",\"text\":\"LeafdDiskLow: "));
    reply_release(&reply);
}

/* A backend that answers no look is asked again, and nothing else. */
static void test_a_backend_that_fails(void **state)
{
    struct fixture *f = *state;

    fake_fail_with(&f->fake, ERR_NO_LEADER);
    api_watch(f->api);
    fake_await_submitted(&f->fake, 2);
    client_expect_error(f->client, "GET", "/api/status", NULL, 503, "no_leader");
}

static void test_page(void **state)
{
    static const char *const paths[] = {"/", "/cache", "/db"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct reply reply;

        client_call(f->client, "GET", paths[i], NULL, &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply_header(&reply, "Content-Type"), "text/html;charset=UTF-8");
        assert_string_equal(reply_header(&reply, "X-Frame-Options"), "DENY");
        assert_string_equal(reply_header(&reply, "Cache-Control"), "no-store");
        reply_release(&reply);
    }
    client_expect_error(f->client, "GET", "/?x", NULL, 400, "bad_request");
    client_expect_error(f->client, "PUT", "/db", "{}", 405, "method_not_allowed");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ALARMS(test_metrics_without_snowflake, fixture_setup),
        TEST_ALARMS(test_counters, snowflake_setup),
        TEST_ALARMS(test_gauges, snowflake_setup),
        TEST_ALARMS(test_named_layouts_end, snowflake_setup),
        TEST_ALARMS(test_clock_off, snowflake_setup),
        TEST_ALARMS(test_what_the_node_gathered, fixture_setup),
        cmocka_unit_test(test_of_the_process),
        TEST_ALARMS(test_alarm_of_each_refusal, snowflake_setup),
        TEST_ALARMS(test_ready_warns, snowflake_setup),
        TEST_ALARMS(test_ready_verbose, snowflake_setup),
        TEST_ALARMS(test_switched_off_is_no_alarm, snowflake_setup),
        TEST(test_status),
        TEST(test_status_has_the_cost_of_zones),
        cmocka_unit_test(test_status_has_the_address_of_resp),
        TEST(test_nodes),
        TEST(test_nodes_right_after_the_birth),
        TEST(test_events),
        TEST(test_looks),
        TEST(test_a_backend_that_fails),
        TEST(test_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
