/*
 * test_alarms.c - each alarm begins when its condition has held for long enough, says what is wrong
 * with values, and ends; and a healthy node has none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/watch/watch.h"
#include "src/base/err.h"
#include "src/base/log.h"

struct world {
    struct events events;
    struct alarms alarms;
    struct id_health health;
    struct id_cluster_status status;
    struct alarm_facts facts;
};

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    events_init(&world->events);
    world->status = (struct id_cluster_status){
        .node_id = 1,
        .leader_id = 2,
        .term = 5,
        .member_count = 2,
        .members = {{.id = 1, .role = "voter", .reachable = true, .version = "0.2.0"},
                    {.id = 2,
                     .role = "voter",
                     .reachable = true,
                     .version = "0.2.0",
                     .peer_address = "10.0.0.2:7000"}}};
    atomic_store(&world->health.leader_known, true);
    atomic_store(&world->health.state_max_bytes, 1000 << 20);
    world->facts = (struct alarm_facts){.now_ms = 1,
                                        .wall_ms = 1700000000000,
                                        .status = &world->status,
                                        .health = &world->health,
                                        .refusal_text = "",
                                        .layout_left_s = ID_UNKNOWN};
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;

    events_free(&world->events);
    free(world);
    return 0;
}

/* A look each second for so long. */
static void look_for(struct world *world, unsigned seconds)
{
    for (unsigned i = 0; i <= seconds; i++) {
        alarms_look(&world->alarms, &world->facts, &world->events);
        world->facts.now_ms += 1000;
        world->facts.wall_ms += 1000;
    }
}

static const char *text_of(struct world *world, enum alarm_name name)
{
    const struct alarm *alarm = &world->alarms.items[name];

    assert_true(alarm->begun);
    return alarm->text;
}

/* Begins after so long, and no other; ends at once. */
static void holds(struct world *world, enum alarm_name name, unsigned seconds, const char *text)
{
    uint64_t before = events_last(&world->events);

    if (seconds > 0) {
        look_for(world, seconds - 1);
        assert_false(world->alarms.items[name].begun);
    }
    look_for(world, 0);
    for (unsigned i = 0; i < ALARMS; i++) {
        assert_int_equal(world->alarms.items[i].begun, i == name);
    }
    assert_string_equal(text_of(world, name), text);
    assert_int_equal(events_last(&world->events), before + 1);
}

static void ends(struct world *world, enum alarm_name name)
{
    uint64_t before = events_last(&world->events);

    look_for(world, 0);
    assert_false(world->alarms.items[name].begun);
    assert_int_equal(events_last(&world->events), before + 1);
}

static void test_healthy(void **state)
{
    struct world *world = *state;
    struct buf json = BUF_INIT;

    look_for(world, 1000);
    alarms_put(&world->alarms, &json);
    buf_put_u8(&json, '\0');
    assert_string_equal((char *)json.data, "[]");
    assert_int_equal(events_last(&world->events), 0);
    buf_free(&json);
}

static void test_cluster(void **state)
{
    struct world *world = *state;

    world->status.members[1].reachable = false;
    holds(world, ALARM_NODE_DOWN, 2,
          "node 2 (10.0.0.2:7000) cannot be reached from node 1: down or cut off");
    world->status.members[1].reachable = true;
    ends(world, ALARM_NODE_DOWN);
    atomic_store(&world->health.leader_known, false);
    holds(world, ALARM_NO_LEADER, 2,
          "node 1 knows no leader in term 5: it serves the ids in its memory, and gets no more");
    atomic_store(&world->health.leader_known, true);
    ends(world, ALARM_NO_LEADER);
    atomic_store(&world->health.implausible, 3);
    holds(
        world, ALARM_PEER_IMPLAUSIBLE, 0,
        "a peer told node 1 what cannot be (3 times since its start); nothing of it was believed");
    look_for(world, 598);
    assert_true(world->alarms.items[ALARM_PEER_IMPLAUSIBLE].begun);
    ends(world, ALARM_PEER_IMPLAUSIBLE);
    (void)snprintf(world->status.members[1].version, sizeof world->status.members[1].version, "%s",
                   "0.3.0");
    holds(world, ALARM_VERSIONS_DIFFER, 3600, "node 1 runs leafd 0.2.0, and node 2 runs 0.3.0");
    world->status.members[1].version[0] = '\0'; /* it has not said */
    ends(world, ALARM_VERSIONS_DIFFER);
}

static void test_many_down(void **state)
{
    struct world *world = *state;

    world->status.member_count = LIMIT_NODES;
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct id_member *member = &world->status.members[i];

        *member = (struct id_member){.id = 65000 + i, .role = "voter", .reachable = i == 0};
        memset(member->peer_address, 'h', LIMIT_ADDRESS_BYTES);
    }
    look_for(world, 2);
    assert_true(strlen(text_of(world, ALARM_NODE_DOWN)) < ALARM_TEXT_BYTES);
}

/* One of 100 is not above 1 %, two are; five minutes later it is forgotten. */
static void test_errors(void **state)
{
    struct world *world = *state;

    look_for(world, 20);
    world->facts.requests += 100;
    world->facts.errors += 1;
    look_for(world, 400);
    assert_false(world->alarms.items[ALARM_ERRORS].begun);
    world->facts.requests += 100;
    world->facts.errors += 2;
    holds(world, ALARM_ERRORS, 120, "2 of the last 100 requests were answered with 5xx");
    look_for(world, 100);
    assert_true(world->alarms.items[ALARM_ERRORS].begun);
    look_for(world, 100);
    assert_false(world->alarms.items[ALARM_ERRORS].begun);
}

static void test_node(void **state)
{
    struct world *world = *state;

    world->facts.waiting = 7;
    holds(world, ALARM_REQUESTS_WAIT, 60,
          "7 requests wait for ids, and some have all the time: segments are used up faster than "
          "they are granted");
    world->facts.waiting = 0;
    ends(world, ALARM_REQUESTS_WAIT);
    atomic_store(&world->health.disk_low, true);
    holds(world, ALARM_DISK_LOW, 0,
          "the disk or the database of node 1 is nearly full: no changes are taken");
    atomic_store(&world->health.disk_low, false);
    ends(world, ALARM_DISK_LOW);
    atomic_store(&world->health.state_bytes, 800 << 20);
    holds(world, ALARM_STATE_HIGH, 0,
          "tags and keys take 80 % of data.memory-bytes: 800 of 1000 MiB");
    atomic_store(&world->health.state_bytes, 0);
    ends(world, ALARM_STATE_HIGH);
    atomic_store(&world->health.state_bytes, 950 << 20);
    holds(world, ALARM_STATE_NEARLY_FULL, 0,
          "tags and keys take 95 % of data.memory-bytes: 950 of 1000 MiB");
}

static void test_snowflake(void **state)
{
    struct world *world = *state;

    world->facts.refusal = ERR_CLOCK_SKEW;
    world->facts.refusal_text = "off by 1 h";
    holds(world, ALARM_SNOWFLAKE_REFUSED, 2, "node 1 refuses snowflake ids: off by 1 h");
    world->facts.refusal = 0;
    ends(world, ALARM_SNOWFLAKE_REFUSED);
    world->facts.refusal = ERR_EMPTY; /* a worker id is on its way */
    look_for(world, 30);
    assert_false(world->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
    look_for(world, 3);
    assert_true(world->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
    world->facts.refusal = 0;
    ends(world, ALARM_SNOWFLAKE_REFUSED);
    atomic_store(&world->health.clock_off_ms, 500);
    look_for(world, 20);
    assert_false(world->alarms.items[ALARM_CLOCK_OFF].begun);
    atomic_store(&world->health.clock_off_ms, -501);
    holds(world, ALARM_CLOCK_OFF, 10, "the clock of node 1 is 501 ms behind the cluster's");
    atomic_store(&world->health.clock_off_ms, INT64_MIN);
    look_for(world, 0);
    atomic_store(&world->health.clock_off_ms, 0);
    ends(world, ALARM_CLOCK_OFF);
    world->facts.layout_left_s = 180 * 86400;
    look_for(world, 1);
    assert_false(world->alarms.items[ALARM_LAYOUT_ENDS].begun);
    world->facts.layout_left_s = 180 * 86400 - 1;
    holds(world, ALARM_LAYOUT_ENDS, 0, "the layout of snowflake ids is used up in 179 days");
    world->facts.layout_name = "baidu";
    world->facts.layout_left_s = 0;
    look_for(world, 0); /* another one, which ends before it */
    assert_string_equal(text_of(world, ALARM_LAYOUT_ENDS),
                        "the layout baidu of snowflake ids is used up in 0 days");
}

static void test_lag_and_level(void **state)
{
    struct world *world = *state;
    struct id_member *members = world->status.members;

    members[1].lag = ID_UNKNOWN; /* as a follower sees it */
    look_for(world, 200);
    members[1].lag = 10000;
    look_for(world, 200);
    assert_false(world->alarms.items[ALARM_MEMBER_LAGS].begun);
    members[1].lag = 10001;
    holds(world, ALARM_MEMBER_LAGS, 120, "node 2 lacks 10001 entries: it cannot take over soon");
    members[0].lag = 10002;
    look_for(world, 1);
    assert_string_equal(world->alarms.items[ALARM_MEMBER_LAGS].text,
                        "node 1 lacks 10002 entries, node 2 lacks 10001 entries: they cannot take "
                        "over soon");
    members[0].lag = 0;
    members[1].lag = 0;
    ends(world, ALARM_MEMBER_LAGS);

    atomic_store(&world->health.level, 2);
    members[0].levels.max = 3;
    world->facts.now_ms += 2 * 86400000; /* node 2 has not said what it speaks */
    look_for(world, 1);
    members[1].levels.max = 2;
    world->facts.now_ms += 2 * 86400000;
    look_for(world, 1);
    assert_false(world->alarms.items[ALARM_LEVEL_NOT_RAISED].begun);
    members[1].levels.max = 3;
    holds(world, ALARM_LEVEL_NOT_RAISED, 86400,
          "all members speak level 3, and the cluster is at level 2: the upgrade is not done");
    atomic_store(&world->health.level, 3);
    ends(world, ALARM_LEVEL_NOT_RAISED);
}

static void test_map(void **state)
{
    struct world *world = *state;

    world->facts.map_bytes = 1000 << 20;
    world->facts.map_used_bytes = (800 << 20) - 1;
    look_for(world, 100);
    assert_false(world->alarms.items[ALARM_MAP_FILLS].begun);
    world->facts.map_used_bytes = 800 << 20;
    holds(world, ALARM_MAP_FILLS, 60,
          "the database of node 1 takes 80 % of data.map-bytes: 800 of 1000 MiB");
    world->facts.map_used_bytes = 0;
    ends(world, ALARM_MAP_FILLS);
}

static void test_worker_names(void **state)
{
    struct world *world = *state;

    look_for(world, 1000);
    assert_false(world->alarms.items[ALARM_WORKER_NAMES_SHARED].begun);
    world->facts.worker_names_shared = 1;
    holds(world, ALARM_WORKER_NAMES_SHARED, 120,
          "1 name holds several worker ids: as many processes are running, or were lately");
    world->facts.worker_names_shared = 2;
    look_for(world, 1);
    assert_string_equal(
        text_of(world, ALARM_WORKER_NAMES_SHARED),
        "2 names hold several worker ids: as many processes are running, or were lately");
    world->facts.worker_names_shared = 0;
    ends(world, ALARM_WORKER_NAMES_SHARED);
}

/* 14 days before its end, and at it; a new one ends the alarm. */
static void test_certificate(void **state)
{
    struct world *world = *state;
    int64_t now_s = (int64_t)(world->facts.wall_ms / 1000);

    world->facts.certificate_until_s = now_s + 14 * 86400;
    alarms_look(&world->alarms, &world->facts, &world->events);
    assert_false(world->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    world->facts.wall_ms += 1000;
    holds(world, ALARM_CERTIFICATE_ENDS, 0,
          "the certificate of node 1 ends in 13 days and 23 hours");
    world->facts.wall_ms = (uint64_t)world->facts.certificate_until_s * 1000 - 1;
    alarms_look(&world->alarms, &world->facts, &world->events);
    assert_true(world->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    assert_false(world->alarms.items[ALARM_CERTIFICATE_ENDED].begun);
    world->facts.wall_ms += 1;
    alarms_look(&world->alarms, &world->facts, &world->events);
    assert_false(world->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    assert_string_equal(text_of(world, ALARM_CERTIFICATE_ENDED),
                        "the certificate of node 1 has ended: clients refuse it");
    world->facts.certificate_until_s += 90 * 86400;
    ends(world, ALARM_CERTIFICATE_ENDED);
}

static void test_json(void **state)
{
    struct world *world = *state;
    struct buf json = BUF_INIT;
    const char *text;

    world->facts.layout_left_s = 0;
    atomic_store(&world->health.disk_low, true);
    look_for(world, 0);
    alarms_put(&world->alarms, &json);
    buf_put_u8(&json, '\0');
    text = (char *)json.data;
    assert_non_null(strstr(text, "[{\"name\":\"LeafdDiskLow\",\"severity\":\"critical\","
                                 "\"since\":\"2023-11-14T22:13:20.000Z\",\"text\":\"the disk"));
    assert_non_null(strstr(text, "},{\"name\":\"LeafdSnowflakeLayoutEnds\","
                                 "\"severity\":\"warning\""));
    assert_non_null(strstr(text, "\"do\":\"Make room"));
    buf_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_healthy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_down, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_snowflake, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lag_and_level, setup, teardown),
        cmocka_unit_test_setup_teardown(test_map, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_certificate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json, setup, teardown),
    };

    log_setup(LOG_LEVEL_ERROR, 0); /* each alarm has its lines */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
