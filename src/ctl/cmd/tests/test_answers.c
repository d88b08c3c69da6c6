/*
 * test_answers.c - what `check` finds in answers, what `top` makes of segments, fields and forms.
 */
#include "src/ctl/cmd/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBER(id, host, more)                                                                     \
    "{\"id\":" #id ",\"role\":\"voter\",\"reachable\":true,\"peer_address\":\"" host ":7\"" more "}"
#define THREE MEMBER(1, "a", "") "," MEMBER(2, "b", "") "," MEMBER(3, "c", "")
#define QUORUM(needed, reachable, survives, text)                                                  \
    ",\"quorum\":{\"needed\":" #needed ",\"reachable\":" #reachable                                \
    ",\"survives_next_failure\":" #survives ",\"text\":\"" text "\"}"
#define GOOD QUORUM(2, 3, true, "1 more may fail")
#define WORST QUORUM(2, 2, false, "just enough")
#define ALARM(name)                                                                                \
    ",\"alarms\":[{\"name\":\"" name                                                               \
    "\",\"severity\":\"critical\",\"text\":\"text\",\"do\":\"what\"}]"
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
    struct findings findings = {.list = json_array()};
    json_t *json = load(status);
    struct buf out = BUF_INIT;

    find_in_status(&findings, json);
    findings_print(&findings, true, &out);
    buf_put(&out, "", 1);
    if (findings.worst != worst || (words != NULL && strstr((char *)out.data, words) == NULL)) {
        print_error("%s\n%s", status, (char *)out.data);
    }
    assert_int_equal(findings.worst, worst);
    assert_true(words == NULL || strstr((char *)out.data, words) != NULL);
    json_decref(findings.list);
    buf_free(&out);
    json_decref(json);
}

static void test_members(void **state)
{
    (void)state;
    expect(STATUS(THREE, GOOD), SEVERITY_GOOD, "good      quorum: 1 more may fail");
    expect("{}", SEVERITY_CRITICAL, "critical  quorum: ?");
    expect("{\"node_id\":1,\"members\":[" THREE "]" GOOD ALARM("LeafdNoLeader") "}",
           SEVERITY_CRITICAL, "alarm: LeafdNoLeader: text\n          do: what");
    expect(STATUS(THREE ",{\"id\":4,\"role\":\"voter\"}", GOOD ALARM("LeafdNodeDown")),
           SEVERITY_CRITICAL, "alarm: LeafdNodeDown: text\n          do: what");
    expect(STATUS(THREE, GOOD ALARM("LeafdDiskLow")), SEVERITY_CRITICAL,
           "alarm: LeafdDiskLow: text\n          do: what");
    expect(STATUS(MEMBER(1, "a", ""), QUORUM(1, 1, false, "")), SEVERITY_WARNING, "one voter");
    expect(STATUS(MEMBER(1, "a", "") "," MEMBER(2, "b", ""), WORST), SEVERITY_CRITICAL,
           "let a third node join");
    expect(STATUS(THREE "," MEMBER(4, "d", ""), QUORUM(3, 4, true, "")), SEVERITY_WARNING,
           "no more failures than 3");
    expect(STATUS("{\"id\":2,\"role\":\"voter\",\"reachable\":false}," MEMBER(
                      1, "a", "") "," MEMBER(3, "c", ""),
                  WORST),
           SEVERITY_CRITICAL, "quorum: just enough\n          do: bring the missing node back");
    expect(STATUS(THREE, QUORUM(2, 1, false, "too few")), SEVERITY_CRITICAL,
           "too few\n          do: start the nodes that are down");
    expect(STATUS(THREE ",{\"id\":4,\"role\":\"standby\",\"reachable\":true}", GOOD),
           SEVERITY_WARNING, "node 4 is a standby");
    expect(STATUS(MEMBER(1, "a", "") "," MEMBER(2, "a", "") "," MEMBER(3, "c", ""), GOOD),
           SEVERITY_WARNING, "2 of 3 members are at one address (a)");
    expect(STATUS(MEMBER(1, "127.0.0.1", "") "," MEMBER(2, "127.0.0.1",
                                                        "") "," MEMBER(3, "127.0.0.1", ""),
                  GOOD),
           SEVERITY_GOOD, "on this machine");
    expect(STATUS(THREE, GOOD ",\"change\":{\"kind\":\"add\",\"id\":4,\"state\":\"given_up\"}"),
           SEVERITY_WARNING, "(add node 4) is given_up");
}

/* A node judges its disk, memory, database, certificates and clock: its alarms are shown as it has
 * them. */
static void test_resources(void **state)
{
    (void)state;
    expect(STATUS(THREE, GOOD ",\"alarms\":[{\"name\":\"X\",\"severity\":\"critical\",\"text\":"
                              "\"t\",\"do\":\"d\"}]"),
           SEVERITY_CRITICAL, "X: t\n          do: d");
    expect(STATUS(THREE, GOOD ",\"alarms\":[{\"name\":\"X\",\"severity\":\"warning\"}]"),
           SEVERITY_WARNING, "X: ?");
    expect(STATUS(THREE, GOOD ",\"alarms\":[{\"name\":\"\",\"text\":\"\",\"do\":\"\"},{\"name\":"
                              "\"\",\"text\":\"t\"}]"),
           SEVERITY_WARNING, "alarm: : \n          also: t\n          do: \n");
}

static void test_ready_and_level(void **state)
{
    struct findings findings = {.list = json_array()};
    json_t *json = load("{\"status\":\"not ready\",\"checks\":[{\"name\":\"ids\",\"ok\":false,"
                        "\"needed\":true,\"reason\":\"none\"},{\"name\":\"settings\",\"ok\":false,"
                        "\"differ\":[\"x\"]},{\"name\":\"applied\",\"ok\":true}]}");

    (void)state;
    find_in_ready(&findings, "h:1", json);
    find_in_ready(&findings, "h:1", json); /* each is said once */
    assert_int_equal(json_array_size(findings.list), 2);
    assert_int_equal(findings.worst, SEVERITY_CRITICAL);
    json_decref(json);
    json = load("{\"level\":2,\"can_rise\":true}");
    find_in_level(&findings, json);
    assert_int_equal(json_array_size(findings.list), 3);
    json_decref(json);
    json_decref(findings.list);
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
        struct findings findings = {.list = json_array()};

        find_in_level(&findings, json);
        findings_print(&findings, true, &out);
        buf_put(&out, "", 1);
        assert_string_equal((char *)out.data, cases[i].text);
        json_decref(findings.list);
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
    struct findings findings = {.list = json_array()};

    for (size_t i = 0; statuses[i] != NULL; i++) {
        json_t *json = load(statuses[i]);

        find_in_status(&findings, json);
        json_decref(json);
        if (ready != NULL) {
            json = load(ready);
            find_in_ready(&findings, "h:1", json);
            json_decref(json);
        }
    }
    if (level != NULL) {
        json_t *json = load(level);

        find_in_level(&findings, json);
        json_decref(json);
    }
    findings_print(&findings, false, &out);
    buf_put(&out, "", 1);
    assert_string_equal((char *)out.data, said);
    json_decref(findings.list);
    buf_free(&out);
}

static const char TWO_OF_THREE[] =
    "critical  quorum: just enough\n"
    "          do: bring the missing node back, or replace it: members replace\n";

/* Some that are reached by nobody else, of whom one says so a moment earlier. */
static void test_an_alarm_is_told_once(void **state)
{
    static const char members[] = "\"leader_id\":2,\"members\":[" MEMBER(1, "a", "") "," MEMBER(
        2, "b", "") ",{\"id\":3,\"role\":\"voter\",\"reachable\":false}]" WORST;
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

/* A node's disk, memory and snowflake ids, its links, the leader: the node's alarms alone tell of
 * them, and the level's is not told beside its alarm. */
static void test_nothing_is_said_that_an_alarm_says(void **state)
{
    static const char status[] =
        "{\"node_id\":1,\"members\":[" THREE ",{\"id\":4,\"role\":\"voter\"}]" GOOD
        ",\"disk\":{\"data_bytes\":1000,\"free_bytes\":9},\"alarms\":["
        "{\"name\":\"LeafdNoLeader\",\"severity\":\"critical\",\"text\":\"none\"},"
        "{\"name\":\"LeafdNodeDown\",\"severity\":\"critical\",\"text\":\"4\"},"
        "{\"name\":\"LeafdStateNearlyFull\",\"severity\":\"critical\",\"text\":\"96 %\"},"
        "{\"name\":\"LeafdDiskLow\",\"severity\":\"critical\",\"text\":\"low\"},"
        "{\"name\":\"LeafdSnowflakeRefused\",\"severity\":\"warning\",\"text\":\"no\"},"
        "{\"name\":\"LeafdLevelNotRaised\",\"severity\":\"warning\",\"text\":\"old\"},"
        "{\"name\":\"LeafdErrors\",\"severity\":\"warning\",\"text\":\"many\",\"do\":\"d\"}]}";
    static const char *const statuses[] = {status, NULL};
    static const char ready[] =
        "{\"checks\":[{\"name\":\"disk\",\"ok\":false},{\"name\":\"memory\",\"ok\":false},"
        "{\"name\":\"snowflake\",\"ok\":false},{\"name\":\"ids\",\"ok\":false,\"needed\":true}]}";

    (void)state;
    expect_all(statuses, ready, "{\"level\":2,\"can_rise\":true}",
               "critical  alarm: LeafdNoLeader: none\n"
               "critical  alarm: LeafdNodeDown: 4\n"
               "critical  alarm: LeafdStateNearlyFull: 96 %\n"
               "critical  alarm: LeafdDiskLow: low\n"
               "critical  ready: h:1: ids: not ok\n"
               "          do: its log, and failure-model.md, \"what you see, what you do\"\n"
               "warning   alarm: LeafdSnowflakeRefused: no\n"
               "warning   alarm: LeafdLevelNotRaised: old\n"
               "warning   alarm: LeafdErrors: many\n          do: d\n"
               "warning   quorum: 4 voters survive no more failures than 3\n"
               "          do: let one more node join, or remove one\n");
}

static void test_rates(void **state)
{
    static const char page[] =
        "{\"segments\":[{\"tag\":\"a\",\"rate_per_s\":10,\"step\":5,\"slots\":[{\"next_id\":\"1\","
        "\"end\":\"51\"},{\"next_id\":null,\"end\":null}]},{\"tag\":\"b\",\"rate_per_s\":30,"
        "\"slots\":[]},{\"tag\":\"idle\",\"slots\":[{\"next_id\":\"1\",\"end\":\"9\"}]},{},7,"
        "{\"tag\":\"strict\",\"state\":\"strict\",\"rate_per_s\":1,\"slots\":[]}]}";
    static const char expected[] =
        "[{\"tag\":\"b\",\"rate_per_s\":60,\"left\":0,\"step\":0,\"lasts_s\":0.0,\"nodes\":2},"
        "{\"tag\":\"a\",\"rate_per_s\":20,\"left\":100,\"step\":5,\"lasts_s\":5.0,\"nodes\":2},"
        "{\"tag\":\"strict\",\"rate_per_s\":2,\"left\":0,\"step\":0,\"lasts_s\":null,\"nodes\":2},"
        "{\"tag\":\"idle\",\"rate_per_s\":0,\"left\":16,\"step\":0,\"lasts_s\":null,\"nodes\":2}]";
    json_t *json = load(page);
    json_t *rates = json_object();
    json_t *busiest;
    char *text;

    (void)state;
    rates_add(rates, json);
    rates_add(rates, json);
    busiest = rates_busiest(rates, 9);
    text = json_dumps(busiest, JSON_COMPACT);
    assert_string_equal(text, expected); /* a lasts 5 s on each node */
    json_decref(busiest);
    busiest = rates_busiest(rates, 1);
    assert_int_equal(json_array_size(busiest), 1);
    free(text);
    json_decref(busiest);
    json_decref(rates);
    json_decref(json);
    json = load("{\"segments\":[{\"tag\":\"x\",\"rate_per_s\":9223372036854775807,\"slots\":[{"
                "\"next_id\":\"0\",\"end\":\"9223372036854775807\"}]}]}");
    rates = json_object();
    rates_add(rates, json);
    rates_add(rates, json); /* what no node says does not overflow */
    json_decref(rates);
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

static void test_forms(void **state)
{
    static const struct {
        const char *form;
        const char *text;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"{a} {b} {c.d} {no} {n}", "x y\\x0a z - -"},
        {"{n:n} {no:n} {s:n} {a:n}", "7 0 8 0"},
        {"{n:int} {no:int} {a:int}", "7 - -"},
        {"{a:3}|{b:1}|", "x  |y\\x0a|"},
        {"{n:signed} {big:age} {big:bytes} {big:ms} {big:time} {zero:time} {no:bytes}",
         "+7 ms 2 min 117.7 KiB 120.5 ms 1970-01-01T00:02:00.500Z - -"},
        {"{zero:date} {no:date}", "1970-01-01T00:00:00.000Z -"},
        {"{yes:!word}{no:!word}{n:!word}", "word"},
    };
    json_t *json = load("{\"a\":\"x\",\"b\":\"y\\n\",\"c\":{\"d\":\"z\"},\"n\":7,\"s\":\"8\","
                        "\"big\":120500,\"zero\":0,\"yes\":true}");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf out = BUF_INIT;

        ctl_put_form(&out, cases[i].form, json);
        assert_string_equal(buf_text(&out), cases[i].text);
        out.len = 0;
        ctl_put_form(&out, cases[i].form, NULL);
        buf_free(&out);
    }
    json_decref(json);
}

/* Nothing that an answer has, or lacks, ends leafctl; and DEL does not reach a terminal. */
static void test_json_of_any_answer(void **state)
{
    struct ctl ctl = {.json = true};
    json_t *json = load("{\"a\":\"\\u007f\\u009b\"}");

    (void)state;
    ctl_put_json(&ctl, json);
    ctl_put_json(&ctl, json_object_get(json, "members"));
    assert_string_equal(buf_text(&ctl.out), "{\"a\":\"\\u007f\\u009B\"}\nnull\n");
    buf_free(&ctl.out);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_resources),
        cmocka_unit_test(test_ready_and_level),
        cmocka_unit_test(test_the_newest_level_is_not_kept_from_rising),
        cmocka_unit_test(test_an_alarm_is_told_once),
        cmocka_unit_test(test_nothing_is_said_that_an_alarm_says),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_json_of_any_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
