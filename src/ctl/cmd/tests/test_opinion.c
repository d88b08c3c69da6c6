/*
 * test_opinion.c - what `check` says of answers, what `top` makes of segments, and the quorum.
 */
#include "src/ctl/cmd/opinion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "src/ctl/cmd/command.h"
#include "src/ctl/cmd/rates.h"

#define NOW_MS UINT64_C(1795000000000) /* 2026-11-18 */
#define MEMBER(id, host, more)                                                                     \
    "{\"id\":" #id ",\"role\":\"voter\",\"reachable\":true,\"peer_address\":\"" host ":7\"" more "}"
#define THREE MEMBER(1, "a", "") "," MEMBER(2, "b", "") "," MEMBER(3, "c", "")
#define CLOCKS(two, three)                                                                         \
    MEMBER(1, "a", "")                                                                             \
    "," MEMBER(2, "b", ",\"clock_offset_ms\":" two) "," MEMBER(3, "c",                             \
                                                               ",\"clock_offset_ms\":" three)
#define STATUS(members, more) "{\"node_id\":1,\"leader_id\":2,\"members\":[" members "]" more "}"

static json_t *load(const char *text)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(json);
    return json;
}

/* The worst of what is said, and whether one of the texts has these words (NULL: no matter). */
static void expect(const char *status, enum severity worst, const char *words)
{
    struct findings findings;
    json_t *json = load(status);
    struct buf out = BUF_INIT;

    findings_init(&findings);
    opinion_status(&findings, json, NOW_MS);
    findings_print(&findings, true, &out);
    buf_put(&out, "", 1);
    if (findings.worst != worst || (words != NULL && strstr((char *)out.data, words) == NULL)) {
        print_error("%s\n%s", status, (char *)out.data);
    }
    assert_int_equal(findings.worst, worst);
    assert_true(words == NULL || strstr((char *)out.data, words) != NULL);
    findings_free(&findings);
    buf_free(&out);
    json_decref(json);
}

static void test_members(void **state)
{
    (void)state;
    expect(STATUS(THREE, ""), SEVERITY_GOOD, "survives the next failure");
    expect("{}", SEVERITY_CRITICAL, "knows no leader");
    expect("{\"node_id\":1,\"members\":[" THREE "]}", SEVERITY_CRITICAL, "node 1 knows no leader");
    expect(STATUS(MEMBER(1, "a", ""), ""), SEVERITY_WARNING, "one voter");
    expect(STATUS(MEMBER(1, "a", "") "," MEMBER(2, "b", ""), ""), SEVERITY_CRITICAL,
           "let a third node join");
    expect(STATUS(THREE "," MEMBER(4, "d", ""), ""), SEVERITY_WARNING, "no more failures than 3");
    expect(STATUS("{\"id\":2,\"role\":\"voter\",\"reachable\":false}," MEMBER(
                      1, "a", "") "," MEMBER(3, "c", ""),
                  ""),
           SEVERITY_CRITICAL, "the next failure stops it");
    expect(STATUS(THREE ",{\"id\":4,\"role\":\"standby\",\"reachable\":true}", ""),
           SEVERITY_WARNING, "node 4 is a standby");
    expect(STATUS(MEMBER(1, "a", "") "," MEMBER(2, "a", "") "," MEMBER(3, "c", ""), ""),
           SEVERITY_WARNING, "2 of 3 members are at one address (a)");
    expect(STATUS(MEMBER(1, "127.0.0.1", "") "," MEMBER(2, "127.0.0.1",
                                                        "") "," MEMBER(3, "127.0.0.1", ""),
                  ""),
           SEVERITY_GOOD, "on this machine");
    expect(STATUS(MEMBER(1, "a", ",\"version\":\"1\"") "," MEMBER(
                      2, "b", ",\"version\":\"2\"") "," MEMBER(3, "c", ""),
                  ""),
           SEVERITY_WARNING, "leafd 1 and 2");
    expect(
        STATUS(MEMBER(1, "a", "") "," MEMBER(2, "b", ",\"lag\":10001") "," MEMBER(3, "c", ""), ""),
        SEVERITY_WARNING, "10001 entries behind");
    expect(STATUS(MEMBER(1, "a", "") "," MEMBER(
                      2, "b", ",\"lag\":10000,\"clock_offset_ms\":500") "," MEMBER(3, "c", ""),
                  ""),
           SEVERITY_GOOD, NULL);
    expect(STATUS(MEMBER(1, "a", "") "," MEMBER(2, "b",
                                                ",\"clock_offset_ms\":-501") "," MEMBER(3, "c", ""),
                  ""),
           SEVERITY_WARNING, "the clock of node 2 is off by -501 ms");
    /* Of three the odd one is wrong, be it the one that is asked. */
    expect(STATUS(CLOCKS("-505", "-501"), ""), SEVERITY_WARNING,
           "the clock of node 1 is off by +501 ms");
    expect(STATUS(CLOCKS("-500", "-490"), ""), SEVERITY_GOOD, NULL);
    expect(STATUS(CLOCKS("-9223372036854775808", "9223372036854775807"), ""), SEVERITY_GOOD, NULL);
    expect(STATUS(THREE, ",\"change\":{\"kind\":\"add\",\"id\":4,\"state\":\"given_up\"}"),
           SEVERITY_WARNING, "(add node 4) is given_up");
}

static void test_resources(void **state)
{
    (void)state;
    expect(STATUS(THREE, ",\"disk\":{\"data_bytes\":1000,\"free_bytes\":99}"), SEVERITY_WARNING,
           "99 B of disk left");
    expect(STATUS(THREE, ",\"disk\":{\"data_bytes\":1000,\"free_bytes\":100}"), SEVERITY_GOOD,
           NULL);
    expect(STATUS(THREE, ",\"disk\":{\"map_bytes\":100,\"map_used_bytes\":80}"), SEVERITY_WARNING,
           "80 % of data.map-bytes");
    expect(STATUS(THREE, ",\"disk\":{\"map_bytes\":100,\"map_used_bytes\":79}"), SEVERITY_GOOD,
           NULL);
    expect(STATUS(THREE, ",\"memory\":{\"state_bytes\":80,\"state_limit_bytes\":100}"),
           SEVERITY_WARNING, "80 % of data.memory-bytes");
    expect(STATUS(THREE, ",\"memory\":{\"state_bytes\":95,\"state_limit_bytes\":100}"),
           SEVERITY_CRITICAL, "95 %");
    expect(STATUS(THREE, ",\"certificates\":[{\"what\":\"http.tls-dir\","
                         "\"expires\":\"2026-11-19T00:00:00.000Z\"}]"),
           SEVERITY_WARNING, "http.tls-dir of node 1 ends 2026-11-19");
    expect(STATUS(THREE, ",\"certificates\":[{\"expires\":\"2026-11-17T00:00:00Z\"}]"),
           SEVERITY_CRITICAL, "ended");
    expect(STATUS(THREE, ",\"certificates\":[{\"expires\":\"2027-11-17T00:00:00Z\"}]"),
           SEVERITY_GOOD, NULL);
    expect(STATUS(THREE, ",\"alarms\":[{\"name\":\"X\",\"severity\":\"critical\",\"text\":\"t\","
                         "\"do\":\"d\"}]"),
           SEVERITY_CRITICAL, "X: t\n          do: d");
    expect(STATUS(THREE, ",\"alarms\":[{\"name\":\"X\",\"severity\":\"warning\"}]"),
           SEVERITY_WARNING, "X: ?");
}

static void test_quorum(void **state)
{
    struct quorum quorum;
    json_t *json = load(STATUS(THREE, ",\"quorum\":{\"needed\":5,\"reachable\":4,\"text\":\"so\","
                                      "\"survives_next_failure\":false}"));

    (void)state;
    quorum_of(json, &quorum);
    assert_int_equal(quorum.needed, 5);
    assert_int_equal(quorum.reachable, 4);
    assert_int_equal(quorum.voters, 3);
    assert_string_equal(quorum.text, "so");
    json_decref(json);
}

static void test_ready_and_level(void **state)
{
    struct findings findings;
    json_t *json = load("{\"status\":\"not ready\",\"checks\":[{\"name\":\"ids\",\"ok\":false,"
                        "\"needed\":true,\"reason\":\"none\"},{\"name\":\"settings\",\"ok\":false,"
                        "\"differ\":[\"x\"]},{\"name\":\"applied\",\"ok\":true}]}");

    (void)state;
    findings_init(&findings);
    opinion_ready(&findings, "h:1", 1, json);
    opinion_ready(&findings, "h:1", 1, json); /* each is said once */
    assert_int_equal(json_array_size(findings.list), 2);
    assert_int_equal(findings.worst, SEVERITY_CRITICAL);
    json_decref(json);
    json = load("{\"level\":2,\"can_rise\":true}");
    opinion_level(&findings, json);
    assert_int_equal(json_array_size(findings.list), 3);
    json_decref(json);
    findings_free(&findings);
}

/* A member that nobody has met has told no version: it is no other leafd. */
static void test_versions(void **state)
{
    static const struct {
        const char *versions[3];
        bool differ;
    } cases[] = {
        {{"0.2.0", "", "0.2.0"}, false},
        {{"", "0.2.0", "0.2.0"}, false},
        {{"0.2.0", "", "0.3.0"}, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct findings findings;
        json_t *json = json_pack("{s:[{s:i,s:s},{s:i,s:s},{s:i,s:s}]}", "members", "id", 1,
                                 "version", cases[i].versions[0], "id", 2, "version",
                                 cases[i].versions[1], "id", 3, "version", cases[i].versions[2]);
        char *text;

        findings_init(&findings);
        opinion_status(&findings, json, 0);
        text = json_dumps(findings.list, 0);
        assert_int_equal(strstr(text, "leafd 0.2.0 and 0.3.0 run side by side") != NULL,
                         cases[i].differ);
        assert_int_equal(strstr(text, "side by side") != NULL, cases[i].differ);
        free(text);
        json_decref(json);
        findings_free(&findings);
    }
}

static void test_the_newest_level_is_not_kept_from_rising(void **state)
{
    static const struct {
        const char *answer;
        const char *text;
    } cases[] = {
        {"{\"level\":3,\"can_rise\":false,\"newest\":true,\"message\":\"m\"}",
         "good      level: level 3, the newest that the nodes speak\n"},
        {"{\"level\":2,\"can_rise\":false,\"newest\":false,\"message\":\"node 3 is old\"}",
         "good      level: level 2 stays for now: node 3 is old\n"},
        {"{\"level\":2,\"can_rise\":false}", "good      level: level 2 stays for now: ?\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *json = load(cases[i].answer);
        struct buf out = BUF_INIT;
        struct findings findings;

        findings_init(&findings);
        opinion_level(&findings, json);
        findings_print(&findings, true, &out);
        buf_put(&out, "", 1);
        assert_string_equal((char *)out.data, cases[i].text);
        findings_free(&findings);
        buf_free(&out);
        json_decref(json);
    }
}

/* --- each is said once --- */

/* What is said of the answers of some servers, one behind the other; level: of the cluster's. */
static void expect_all(const char *const *statuses, const char *ready, const char *level,
                       const char *said)
{
    struct buf out = BUF_INIT;
    struct findings findings;

    findings_init(&findings);
    for (size_t i = 0; statuses[i] != NULL; i++) {
        json_t *json = load(statuses[i]);

        opinion_status(&findings, json, NOW_MS);
        json_decref(json);
        if (ready != NULL) {
            json = load(ready);
            opinion_ready(&findings, "h:1", (int64_t)i + 1, json);
            json_decref(json);
        }
    }
    if (level != NULL) {
        json_t *json = load(level);

        opinion_level(&findings, json);
        json_decref(json);
    }
    assert_int_equal(json_array_size(findings.list), json_array_size(findings.topics));
    findings_print(&findings, false, &out);
    buf_put(&out, "", 1);
    assert_string_equal((char *)out.data, said);
    findings_free(&findings);
    buf_free(&out);
}

static const char TWO_OF_THREE[] =
    "critical  quorum: 2 of 3 voters reached, 2 needed: the next failure stops it\n"
    "          do: bring the missing node back, or replace it: members replace\n";

/* Some that are reached by nobody else, of whom one says so a moment earlier. */
static void test_an_alarm_is_told_once(void **state)
{
    static const char members[] = "\"leader_id\":2,\"members\":[" MEMBER(1, "a", "") "," MEMBER(
        2, "b", "") ",{\"id\":3,\"role\":\"voter\",\"reachable\":false}]";
    static const char alarm[] = "{\"name\":\"LeafdNodeDown\",\"severity\":\"critical\","
                                "\"text\":\"node 3 is cut off from node %d\",\"do\":\"d\"}";
    char statuses[4][1200];
    char alarms[200] = "";
    const char *const all[] = {statuses[0], statuses[1], statuses[2], statuses[3], NULL};
    char said[1200];

    (void)state;
    for (int i = 0; i < 4; i++) {
        int node = i < 3 ? i + 1 : 2; /* one is asked again */

        if (i > 0) {
            snprintf(alarms, sizeof alarms, alarm, node);
        }
        snprintf(statuses[i], sizeof statuses[i], "{\"node_id\":%d,%s,\"alarms\":[%s]}", node,
                 members, alarms);
    }
    snprintf(said, sizeof said,
             "%scritical  alarm: LeafdNodeDown: node 3 is cut off from node 2\n"
             "          also: node 3 is cut off from node 3\n"
             "          do: d\n",
             TWO_OF_THREE);
    expect_all(all, NULL, NULL, said);
}

/* The cluster's memory, a node's disk and snowflake ids, the level: alarm, check and opinion. */
static void test_an_alarm_stands_for_what_is_judged_here(void **state)
{
    static const char status[] =
        "{\"node_id\":1,\"leader_id\":2,\"members\":[" THREE "],"
        "\"memory\":{\"state_bytes\":96,\"state_limit_bytes\":100},"
        "\"disk\":{\"data_bytes\":1000,\"free_bytes\":9,\"map_bytes\":100,\"map_used_bytes\":90},"
        "\"certificates\":[{\"expires\":\"2026-11-19T00:00:00.000Z\"}],\"alarms\":["
        "{\"name\":\"LeafdStateNearlyFull\",\"severity\":\"critical\",\"text\":\"96 %\"},"
        "{\"name\":\"LeafdDiskLow\",\"severity\":\"critical\",\"text\":\"low\"},"
        "{\"name\":\"LeafdMapFills\",\"severity\":\"warning\",\"text\":\"90 %\"},"
        "{\"name\":\"LeafdCertificateEnds\",\"severity\":\"warning\",\"text\":\"ends\"},"
        "{\"name\":\"LeafdSnowflakeRefused\",\"severity\":\"warning\",\"text\":\"no\"},"
        "{\"name\":\"LeafdLevelNotRaised\",\"severity\":\"warning\",\"text\":\"old\"},"
        "{\"name\":\"LeafdErrors\",\"severity\":\"warning\",\"text\":\"many\",\"do\":\"d\"}]}";
    static const char *const statuses[] = {status, NULL};
    static const char ready[] =
        "{\"checks\":[{\"name\":\"disk\",\"ok\":false},{\"name\":\"memory\",\"ok\":false},"
        "{\"name\":\"snowflake\",\"ok\":false},{\"name\":\"ids\",\"ok\":false,\"needed\":true}]}";

    (void)state;
    expect_all(statuses, ready, "{\"level\":2,\"can_rise\":true}",
               "critical  alarm: LeafdStateNearlyFull: 96 %\n"
               "critical  alarm: LeafdDiskLow: low\n"
               "critical  ready: h:1: ids: not ok\n"
               "          do: its log, and failure-model.md, \"what you see, what you do\"\n"
               "warning   alarm: LeafdMapFills: 90 %\n"
               "warning   alarm: LeafdCertificateEnds: ends\n"
               "warning   alarm: LeafdSnowflakeRefused: no\n"
               "warning   alarm: LeafdLevelNotRaised: old\n"
               "warning   alarm: LeafdErrors: many\n          do: d\n");
}

/* What another node says of its own disk is another thing; of a lagging member it is the same. */
static void test_what_another_node_says(void **state)
{
    static const char first[] =
        "{\"node_id\":1,\"leader_id\":2,\"members\":[" THREE "],"
        "\"disk\":{\"map_bytes\":100,\"map_used_bytes\":80},\"alarms\":["
        "{\"name\":\"LeafdMemberLags\",\"text\":\"node 2 lacks 20000 entries\"}]}";
    static const char second[] =
        "{\"node_id\":2,\"leader_id\":2,\"members\":[" THREE "," /* it lags, now as a leader sees */
        "{\"id\":4,\"role\":\"voter\",\"reachable\":true,\"lag\":20001},"
        "{\"id\":5,\"role\":\"voter\",\"reachable\":true}],"
        "\"disk\":{\"map_bytes\":100,\"map_used_bytes\":81},\"alarms\":["
        "{\"name\":\"LeafdMapFills\",\"severity\":\"warning\",\"text\":\"81 %\"}]}";
    static const char *const statuses[] = {first, second, NULL};

    (void)state;
    expect_all(statuses, NULL, NULL,
               "warning   alarm: LeafdMemberLags: node 2 lacks 20000 entries\n"
               "warning   disk: 80 % of data.map-bytes are in use on node 1\n"
               "          do: raise data.map-bytes on all nodes\n"
               "warning   alarm: LeafdMapFills: 81 %\n");
}

static void test_times(void **state)
{
    static const char *const wrong[] = {NULL,
                                        "",
                                        "2026",
                                        "2026-11-18T00:00:00",
                                        "x026-11-18T00:00:00Z",
                                        "2026/11/18T00:00:00Z",
                                        "1900-01-01T00:00:00Z"};
    uint64_t ms = 0;

    (void)state;
    assert_true(opinion_time("2026-11-18T12:13:20Z", &ms));
    assert_int_equal(ms, UINT64_C(1795004000000));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(opinion_time(wrong[i], &ms));
    }
}

static void test_rates(void **state)
{
    static const char page[] =
        "{\"segments\":[{\"tag\":\"a\",\"rate_per_s\":10,\"step\":5,\"slots\":[{\"next_id\":\"1\","
        "\"end\":\"51\"},{\"next_id\":null,\"end\":null}]},{\"tag\":\"b\",\"rate_per_s\":30,"
        "\"slots\":[]},{\"tag\":\"idle\",\"slots\":[{\"next_id\":\"1\",\"end\":\"9\"}]},{},7,"
        "{\"tag\":\"strict\",\"state\":\"strict\",\"rate_per_s\":1,\"slots\":[]}]}";
    json_t *json = load(page);
    struct rates rates;

    (void)state;
    rates_init(&rates);
    rates_add(&rates, json);
    rates_add(&rates, json);
    rates_sort(&rates);
    assert_int_equal(rates.count, 4);
    assert_string_equal(rates.list[0].tag, "b");
    assert_int_equal(rates.list[0].per_s, 60);
    assert_true(rates.list[0].lasts_s == 0);
    assert_int_equal(rates.list[1].left, 100);
    assert_true(rates.list[1].lasts_s == 5); /* on each node */
    assert_string_equal(rates.list[2].tag, "strict");
    assert_true(rates.list[2].lasts_s < 0 && rates.list[2].per_s == 2);
    assert_string_equal(rates.list[3].tag, "idle");
    assert_true(rates.list[3].lasts_s < 0 && rates.list[3].nodes == 2);
    rates_free(&rates);
    json_decref(json);
}

static void test_fields(void **state)
{
    json_t *json =
        load("{\"a\":1,\"b\":\"2\",\"c\":\"x\",\"d\":null,\"e\":-3,\"f\":1e30,\"g\":[]}");

    (void)state;
    assert_int_equal(field_number(json, "a", 9), 1);
    assert_int_equal(field_number(json, "b", 9), 2);
    assert_int_equal(field_number(json, "c", 9), 9);
    assert_int_equal(field_number(json, "d", 9), 9);
    assert_int_equal(field_number(json, "e", 9), -3);
    assert_int_equal(field_number(json, "f", 9), 9);
    assert_int_equal(field_number(json, "g", 9), 9);
    assert_int_equal(field_number(NULL, "a", 9), 9);
    assert_null(field_text(json, "a"));
    assert_int_equal(field_count(json, "a"), 0);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_resources),
        cmocka_unit_test(test_quorum),
        cmocka_unit_test(test_ready_and_level),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_the_newest_level_is_not_kept_from_rising),
        cmocka_unit_test(test_an_alarm_is_told_once),
        cmocka_unit_test(test_an_alarm_stands_for_what_is_judged_here),
        cmocka_unit_test(test_what_another_node_says),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
