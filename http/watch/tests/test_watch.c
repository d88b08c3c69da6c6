/*
 * test_watch.c - events, what the next failure costs, what has changed, alarms.
 *
 * The ring of events: its bound, at it and one beyond; pages; texts that are long or hostile.
 *
 * How many voters are needed, reached, and what one more failure costs: for every number of voters
 * and of those that are reached.
 *
 * Each change between two looks is one event, and no change is none.
 *
 * Each alarm begins when its condition has held for long enough, says what is wrong with values,
 * and ends; and a healthy node has none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/watch/watch.h"
#include "src/base/err.h"
#include "src/base/log.h"

/* --- events --- */

static void events_init(struct events *events)
{
    memset(events, 0, sizeof *events);
    assert_int_equal(pthread_mutex_init(&events->lock, NULL), 0);
}

static void events_free(struct events *events)
{
    assert_int_equal(pthread_mutex_destroy(&events->lock), 0);
}

/* The first number that a page has, how many it has, and its next (0: null). */
static size_t page(struct events *events, uint64_t after, size_t limit,
                   unsigned long long *ret_first, unsigned long long *ret_next)
{
    struct buf out = BUF_INIT;
    size_t count = 0;
    const char *at;

    *ret_first = 0;
    *ret_next = 0;
    events_list(events, after, limit, &out);
    buf_put_u8(&out, '\0');
    at = (char *)out.data;
    (void)sscanf(at, "{\"events\":[{\"number\":%llu,", ret_first);
    while ((at = strstr(at, "{\"number\":")) != NULL) {
        count++;
        at++;
    }
    at = strstr((char *)out.data, "],\"next\":");
    assert_non_null(at);
    if (strcmp(at, "],\"next\":null}") != 0) {
        assert_int_equal(sscanf(at, "],\"next\":%llu}", ret_next), 1);
    }
    buf_free(&out);
    return count;
}

static void test_bound(void **state)
{
    struct events *events = malloc(sizeof *events);
    unsigned long long first;
    unsigned long long next;

    (void)state;
    assert_non_null(events);
    events_init(events);
    assert_int_equal(page(events, 0, 10, &first, &next), 0);
    assert_int_equal(next, 0);
    for (unsigned i = 0; i < LIMIT_EVENTS; i++) {
        events_put(events, 1000, EVENT_LEVEL, "event %u", i);
    }
    assert_int_equal(page(events, 0, LIMIT_EVENTS, &first, &next), LIMIT_EVENTS);
    assert_int_equal(first, 1);
    assert_int_equal(next, 0);
    events_put(events, 1000, EVENT_LEVEL, "one more");
    assert_int_equal(page(events, 0, LIMIT_EVENTS, &first, &next), LIMIT_EVENTS);
    assert_int_equal(first, 2);
    assert_int_equal(events_last(events), LIMIT_EVENTS + 1);
    assert_int_equal(page(events, 0, LIMIT_EVENTS - 1, &first, &next), LIMIT_EVENTS - 1);
    assert_int_equal(next, LIMIT_EVENTS);
    assert_int_equal(page(events, next, 10, &first, &next), 1);
    assert_int_equal(first, LIMIT_EVENTS + 1);
    assert_int_equal(page(events, UINT64_MAX, 10, &first, &next), 0);
    events_free(events);
    free(events);
}

static void test_texts(void **state)
{
    struct events *events = malloc(sizeof *events);
    struct buf out = BUF_INIT;
    char text[4 * EVENT_TEXT_BYTES];

    (void)state;
    assert_non_null(events);
    events_init(events);
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    events_put(events, 1700000000000, EVENT_ALARM, "%s", text);
    events_put(events, 1700000000000, EVENT_MEMBER, "\"</script>\n\xff");
    events_list(events, 1, 10, &out);
    buf_put_u8(&out, '\0');
    assert_string_equal((char *)out.data,
                        "{\"events\":[{\"number\":2,\"time\":\"2023-11-14T22:13:20.000Z\","
                        "\"kind\":\"member\",\"text\":\"\\\"</script>\\n\xef\xbf\xbd\"}],"
                        "\"next\":null}");
    assert_int_equal(strlen(events->ring[0].text), EVENT_TEXT_BYTES - 1);
    buf_free(&out);
    events_free(events);
    free(events);
}

static void test_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EVENT_KINDS; i++) {
        assert_true(strlen(event_kind_name((enum event_kind)i)) > 0);
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(event_kind_name((enum event_kind)i),
                                    event_kind_name((enum event_kind)k));
        }
    }
}

/* --- quorum --- */

static struct quorum quorum(unsigned voters, unsigned reachable, unsigned standbys)
{
    struct id_cluster_status status = {.member_count = voters + standbys};
    struct quorum result;

    for (unsigned i = 0; i < voters + standbys; i++) {
        (void)snprintf(status.members[i].role, sizeof status.members[i].role, "%s",
                       i < voters ? "voter" : "standby");
        status.members[i].reachable = i < reachable || i >= voters;
    }
    quorum_of(&status, &result);
    return result;
}

static void test_all(void **state)
{
    (void)state;
    for (unsigned voters = 1; voters <= LIMIT_NODES; voters++) {
        for (unsigned reachable = 1; reachable <= voters; reachable++) {
            struct quorum seen = quorum(voters, reachable, LIMIT_NODES - voters);

            assert_int_equal(seen.voters, voters);
            assert_int_equal(seen.reachable, reachable);
            assert_true(2 * seen.needed > voters && 2 * (seen.needed - 1) <= voters);
            assert_int_equal(seen.survives_next_failure, 2 * (reachable - 1) > voters);
            assert_true(strlen(seen.text) < QUORUM_TEXT_BYTES - 1);
        }
    }
}

static void test_quorum_texts(void **state)
{
    struct id_cluster_status none = {0};
    struct quorum seen;

    (void)state;
    assert_string_equal(quorum(3, 3, 0).text, "3 of 3 voters can be reached: 1 more may fail");
    assert_string_equal(quorum(5, 5, 2).text, "5 of 5 voters can be reached: 2 more may fail");
    assert_non_null(strstr(quorum(3, 2, 0).text, "which is just enough"));
    assert_non_null(strstr(quorum(3, 1, 0).text, "no change is possible"));
    assert_non_null(strstr(quorum(1, 1, 0).text, "the only voter"));
    quorum_of(&none, &seen);
    assert_non_null(strstr(seen.text, "does not know the members"));
    assert_false(seen.survives_next_failure);
}

/* --- changes --- */

struct world {
    struct events events;
    struct changes changes;
    struct id_cluster_status status;
    struct changes_counts counts;
    uint64_t read;
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
        .level = {.level = 3},
        .member_count = 2,
        .members = {{.id = 1, .role = "voter", .reachable = true, .version = "0.2.0"},
                    {.id = 2, .role = "voter", .reachable = true, .version = "0.2.0"}}};
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

static void look(struct world *world)
{
    changes_look(&world->changes, &world->status, &world->counts, 1000, &world->events);
}

/* The look is one event with this text. */
static void look_says(struct world *world, enum event_kind kind, const char *text)
{
    const struct event *event;

    look(world);
    assert_int_equal(events_last(&world->events), world->read + 1);
    event = &world->events.ring[world->read++ % LIMIT_EVENTS];
    assert_string_equal(event->text, text);
    assert_int_equal(event->kind, kind);
    look(world); /* and is told once */
    assert_int_equal(events_last(&world->events), world->read);
}

static void test_leader(void **state)
{
    struct world *world = *state;

    look_says(world, EVENT_START, "node 1 is up; node 2 leads in term 5");
    world->status.leader_id = 0;
    look_says(world, EVENT_LEADERLESS, "no leader is known any more; node 2 led in term 5");
    world->status.leader_id = 1;
    world->status.term = 6;
    look_says(world, EVENT_ELECTION, "node 1 leads in term 6: this node");
    world->status.term = 7;
    look_says(world, EVENT_ELECTION, "node 1 leads again, in term 7 after term 6");
    world->status.term = 9;
    look_says(world, EVENT_ELECTION, "node 1 leads again, in term 9 after term 7");
}

static void test_members(void **state)
{
    struct world *world = *state;
    struct id_member *member = &world->status.members[2];

    look_says(world, EVENT_START, "node 1 is up; node 2 leads in term 5");
    *member = (struct id_member){.id = 7, .role = "standby", .peer_address = "h:1"};
    world->status.member_count = 3;
    look_says(world, EVENT_MEMBER, "node 7 is a member, as a standby");
    (void)snprintf(member->role, sizeof member->role, "%s", "voter");
    look_says(world, EVENT_MEMBER, "node 7 is a voter now");
    (void)snprintf(member->version, sizeof member->version, "%s", "0.3.0");
    look(world); /* it said so for the first time */
    assert_int_equal(events_last(&world->events), world->read);
    (void)snprintf(member->version, sizeof member->version, "%s", "0.4.0");
    look_says(world, EVENT_MEMBER, "node 7 runs leafd 0.4.0");
    (void)snprintf(member->peer_address, sizeof member->peer_address, "%s", "i:2");
    look_says(world, EVENT_MEMBER, "node 7 is reached at i:2");
    member->placement.weight = 3;
    look_says(world, EVENT_MEMBER, "node 7 has weight 3");
    member->placement.weight = 1;
    look_says(world, EVENT_MEMBER, "node 7 has weight 1");
    member->placement.drained = true;
    look_says(world, EVENT_MEMBER, "node 7 is drained");
    member->placement.drained = false;
    look_says(world, EVENT_MEMBER, "node 7 takes work again");
    member->reachable = true;
    look_says(world, EVENT_LINK, "node 7 is reached");
    member->reachable = false;
    look_says(world, EVENT_LINK, "node 7 cannot be reached");
    world->status.change =
        (struct id_member_change){.kind = "remove", .state = "under_way", .node_id = 7};
    look_says(world, EVENT_MEMBER, "the change \"remove node 7\" is under way");
    world->status.change.state = "given_up";
    look_says(world, EVENT_MEMBER, "the change \"remove node 7\" was given up");
    world->status.member_count = 2;
    look_says(world, EVENT_MEMBER, "node 7 is no longer a member");
}

static void test_counts(void **state)
{
    struct world *world = *state;

    world->status.leader_id = 0;
    look_says(world, EVENT_START, "node 1 is up; no leader is known yet");
    world->status.level.level = 4;
    look_says(world, EVENT_LEVEL, "the level of the cluster is 4");
    world->counts.reloads_done++;
    look_says(world, EVENT_RELOAD, "the settings were read again");
    world->counts.reloads_refused++;
    look_says(world, EVENT_RELOAD, "new settings were refused; the log says why");
    world->counts.implausible += 3;
    look_says(world, EVENT_REFUSAL,
              "a peer sent an impossible value, which had no effect (3 times)");
    world->counts.snapshots++;
    look_says(world, EVENT_SNAPSHOT, "a snapshot of the leader was installed");
    world->counts.refusal = ERR_CLOCK_SKEW;
    look_says(world, EVENT_REFUSAL, "snowflake ids are refused: clock_skew");
    world->counts.refusal = 0;
    look_says(world, EVENT_REFUSAL, "snowflake ids are served");
}

/* --- alarms --- */

struct world_alarms {
    struct events events;
    struct alarms alarms;
    struct id_health health;
    struct id_cluster_status status;
    struct alarm_facts facts;
    struct id_figures figures;
};

static int setup_alarms(void **state)
{
    struct world_alarms *world_alarms = calloc(1, sizeof *world_alarms);

    assert_non_null(world_alarms);
    events_init(&world_alarms->events);
    world_alarms->status = (struct id_cluster_status){
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
    atomic_store(&world_alarms->health.leader_known, true);
    atomic_store(&world_alarms->health.state_max_bytes, 1000 << 20);
    world_alarms->facts = (struct alarm_facts){.alarms = &world_alarms->alarms,
                                               .now_ms = 1,
                                               .figures = &world_alarms->figures,
                                               .wall_ms = 1700000000000,
                                               .status = &world_alarms->status,
                                               .health = &world_alarms->health,
                                               .refusal_text = "",
                                               .layout_name = "",
                                               .layout_left_s = ID_UNKNOWN};
    *state = world_alarms;
    return 0;
}

static int teardown_alarms(void **state)
{
    struct world_alarms *world_alarms = *state;

    events_free(&world_alarms->events);
    free(world_alarms);
    return 0;
}

/* A look each second for so long. */
static void look_for(struct world_alarms *world_alarms, unsigned seconds)
{
    for (unsigned i = 0; i <= seconds; i++) {
        alarms_look(&world_alarms->facts, &world_alarms->events);
        world_alarms->facts.now_ms += 1000;
        world_alarms->facts.wall_ms += 1000;
    }
}

static const char *text_of(struct world_alarms *world_alarms, enum alarm_name name)
{
    const struct alarm *alarm = &world_alarms->alarms.items[name];

    assert_true(alarm->begun);
    return alarm->text;
}

/* Begins after so long, and no other; ends at once. */
static void holds(struct world_alarms *world_alarms, enum alarm_name name, unsigned seconds,
                  const char *text)
{
    uint64_t before = events_last(&world_alarms->events);

    if (seconds > 0) {
        look_for(world_alarms, seconds - 1);
        assert_false(world_alarms->alarms.items[name].begun);
    }
    look_for(world_alarms, 0);
    for (unsigned i = 0; i < ALARMS; i++) {
        assert_int_equal(world_alarms->alarms.items[i].begun, i == name);
    }
    assert_string_equal(text_of(world_alarms, name), text);
    assert_int_equal(events_last(&world_alarms->events), before + 1);
}

static void ends(struct world_alarms *world_alarms, enum alarm_name name)
{
    uint64_t before = events_last(&world_alarms->events);

    look_for(world_alarms, 0);
    assert_false(world_alarms->alarms.items[name].begun);
    assert_int_equal(events_last(&world_alarms->events), before + 1);
}

static void test_healthy(void **state)
{
    struct world_alarms *world_alarms = *state;
    struct buf json = BUF_INIT;

    look_for(world_alarms, 1000);
    alarms_put(&world_alarms->alarms, &json);
    buf_put_u8(&json, '\0');
    assert_string_equal((char *)json.data, "[]");
    assert_int_equal(events_last(&world_alarms->events), 0);
    buf_free(&json);
}

static void test_cluster(void **state)
{
    struct world_alarms *world_alarms = *state;

    world_alarms->status.members[1].reachable = false;
    holds(world_alarms, ALARM_NODE_DOWN, 2,
          "node 2 (10.0.0.2:7000) cannot be reached from node 1: down or cut off");
    world_alarms->status.members[1].reachable = true;
    ends(world_alarms, ALARM_NODE_DOWN);
    atomic_store(&world_alarms->health.leader_known, false);
    holds(world_alarms, ALARM_NO_LEADER, 2,
          "node 1 knows no leader in term 5: it serves the ids in its memory, and gets no more");
    atomic_store(&world_alarms->health.leader_known, true);
    ends(world_alarms, ALARM_NO_LEADER);
    atomic_store(&world_alarms->health.implausible, 3);
    holds(world_alarms, ALARM_PEER_IMPLAUSIBLE, 0,
          "a peer sent node 1 impossible values (3 times since its start); they had no effect");
    look_for(world_alarms, 598);
    assert_true(world_alarms->alarms.items[ALARM_PEER_IMPLAUSIBLE].begun);
    ends(world_alarms, ALARM_PEER_IMPLAUSIBLE);
    (void)snprintf(world_alarms->status.members[1].version,
                   sizeof world_alarms->status.members[1].version, "%s", "0.3.0");
    holds(world_alarms, ALARM_VERSIONS_DIFFER, 3600,
          "node 1 runs leafd 0.2.0, and node 2 runs 0.3.0");
    world_alarms->status.members[1].version[0] = '\0'; /* it has not said */
    ends(world_alarms, ALARM_VERSIONS_DIFFER);
}

/* What two looks saw did not hold in between, where the machine stood still. */
static void test_standstill(void **state)
{
    struct world_alarms *world_alarms = *state;

    atomic_store(&world_alarms->health.leader_known, false);
    world_alarms->facts.refusal = ERR_EMPTY;
    look_for(world_alarms, 0);
    world_alarms->facts.now_ms += 40000;
    look_for(world_alarms, 0);
    assert_false(world_alarms->alarms.items[ALARM_NO_LEADER].begun);
    assert_false(world_alarms->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
    look_for(world_alarms, 0);
    assert_true(world_alarms->alarms.items[ALARM_NO_LEADER].begun);
    look_for(world_alarms, 28);
    assert_false(world_alarms->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
    look_for(world_alarms, 0);
    assert_true(world_alarms->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
}

static void test_many_down(void **state)
{
    struct world_alarms *world_alarms = *state;

    world_alarms->status.member_count = LIMIT_NODES;
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct id_member *member = &world_alarms->status.members[i];

        *member = (struct id_member){.id = 65000 + i, .role = "voter", .reachable = i == 0};
        memset(member->peer_address, 'h', LIMIT_ADDRESS_BYTES);
    }
    look_for(world_alarms, 2);
    assert_true(strlen(text_of(world_alarms, ALARM_NODE_DOWN)) < ALARM_TEXT_BYTES);
}

/* One of 100 is not above 1 %, two are; five minutes later it is forgotten. */
static void test_errors(void **state)
{
    struct world_alarms *world_alarms = *state;

    look_for(world_alarms, 20);
    world_alarms->facts.requests += 100;
    world_alarms->facts.errors += 1;
    look_for(world_alarms, 400);
    assert_false(world_alarms->alarms.items[ALARM_ERRORS].begun);
    world_alarms->facts.requests += 100;
    world_alarms->facts.errors += 2;
    holds(world_alarms, ALARM_ERRORS, 120, "2 of the last 100 requests were answered with 5xx");
    look_for(world_alarms, 100);
    assert_true(world_alarms->alarms.items[ALARM_ERRORS].begun);
    look_for(world_alarms, 100);
    assert_false(world_alarms->alarms.items[ALARM_ERRORS].begun);
}

static void test_node(void **state)
{
    struct world_alarms *world_alarms = *state;

    world_alarms->facts.waiting = 7;
    holds(world_alarms, ALARM_REQUESTS_WAIT, 60,
          "7 requests wait for ids, and some have all the time: segments are used up faster than "
          "they are granted");
    world_alarms->facts.waiting = 0;
    ends(world_alarms, ALARM_REQUESTS_WAIT);
    atomic_store(&world_alarms->health.disk_low, true);
    holds(world_alarms, ALARM_DISK_LOW, 0,
          "the disk or the database of node 1 is nearly full: no changes are taken");
    atomic_store(&world_alarms->health.disk_low, false);
    ends(world_alarms, ALARM_DISK_LOW);
    world_alarms->figures.disk.stood_s = 7;
    atomic_store(&world_alarms->health.disk_low, true);
    holds(world_alarms, ALARM_DISK_LOW, 0,
          "the disk of node 1 stands still: no write has ended for 7 s");
    world_alarms->figures.disk.stood_s = 0;
    atomic_store(&world_alarms->health.disk_low, false);
    ends(world_alarms, ALARM_DISK_LOW);
    atomic_store(&world_alarms->health.state_bytes, 800 << 20);
    holds(world_alarms, ALARM_STATE_HIGH, 0,
          "tags and keys take 80 % of data.memory-bytes: 800 of 1000 MiB");
    atomic_store(&world_alarms->health.state_bytes, 0);
    ends(world_alarms, ALARM_STATE_HIGH);
    atomic_store(&world_alarms->health.state_bytes, 950 << 20);
    holds(world_alarms, ALARM_STATE_NEARLY_FULL, 0,
          "tags and keys take 95 % of data.memory-bytes: 950 of 1000 MiB");
}

static void test_snowflake(void **state)
{
    struct world_alarms *world_alarms = *state;

    world_alarms->facts.refusal = ERR_CLOCK_SKEW;
    world_alarms->facts.refusal_text = "off by 1 h";
    holds(world_alarms, ALARM_SNOWFLAKE_REFUSED, 2, "node 1 refuses snowflake ids: off by 1 h");
    world_alarms->facts.refusal = 0;
    ends(world_alarms, ALARM_SNOWFLAKE_REFUSED);
    world_alarms->facts.refusal = ERR_EMPTY; /* a worker id is on its way */
    look_for(world_alarms, 30);
    assert_false(world_alarms->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
    look_for(world_alarms, 3);
    assert_true(world_alarms->alarms.items[ALARM_SNOWFLAKE_REFUSED].begun);
    world_alarms->facts.refusal = 0;
    ends(world_alarms, ALARM_SNOWFLAKE_REFUSED);
    atomic_store(&world_alarms->health.clock_off_ms, 500);
    look_for(world_alarms, 20);
    assert_false(world_alarms->alarms.items[ALARM_CLOCK_OFF].begun);
    atomic_store(&world_alarms->health.clock_off_ms, -501);
    holds(world_alarms, ALARM_CLOCK_OFF, 10, "the clock of node 1 is 501 ms behind the cluster's");
    atomic_store(&world_alarms->health.clock_off_ms, INT64_MIN);
    look_for(world_alarms, 0);
    atomic_store(&world_alarms->health.clock_off_ms, 0);
    ends(world_alarms, ALARM_CLOCK_OFF);
    world_alarms->facts.layout_left_s = 180 * 86400;
    look_for(world_alarms, 1);
    assert_false(world_alarms->alarms.items[ALARM_LAYOUT_ENDS].begun);
    world_alarms->facts.layout_left_s = 180 * 86400 - 1;
    holds(world_alarms, ALARM_LAYOUT_ENDS, 0, "the layout of snowflake ids is used up in 179 days");
    world_alarms->facts.layout_name = "baidu";
    world_alarms->facts.layout_left_s = 0;
    look_for(world_alarms, 0); /* another one, which ends before it */
    assert_string_equal(text_of(world_alarms, ALARM_LAYOUT_ENDS),
                        "the layout baidu of snowflake ids is used up in 0 days");
}

static void test_lag_and_level(void **state)
{
    struct world_alarms *world_alarms = *state;
    struct id_member *members = world_alarms->status.members;

    members[1].lag = ID_UNKNOWN; /* as a follower sees it */
    look_for(world_alarms, 200);
    assert_false(world_alarms->alarms.items[ALARM_MEMBER_LAGS].begun);
    members[1].lag = 10000;
    look_for(world_alarms, 200);
    assert_false(world_alarms->alarms.items[ALARM_MEMBER_LAGS].begun);
    members[1].lag = 10001;
    holds(world_alarms, ALARM_MEMBER_LAGS, 120,
          "node 2 lacks 10001 entries: it cannot take over soon");
    members[0].lag = 10002;
    look_for(world_alarms, 1);
    assert_string_equal(world_alarms->alarms.items[ALARM_MEMBER_LAGS].text,
                        "node 1 lacks 10002 entries, node 2 lacks 10001 entries: they cannot take "
                        "over soon");
    members[0].lag = 0;
    members[1].lag = 0;
    ends(world_alarms, ALARM_MEMBER_LAGS);

    atomic_store(&world_alarms->health.level, 2);
    members[0].levels.max = 3;
    look_for(world_alarms, 1);
    world_alarms->facts.now_ms += 2 * 86400000; /* node 2 has not said what it speaks */
    look_for(world_alarms, 1);
    assert_false(world_alarms->alarms.items[ALARM_LEVEL_NOT_RAISED].begun);
    members[1].levels.max = 2;
    world_alarms->facts.now_ms += 2 * 86400000;
    look_for(world_alarms, 1);
    assert_false(world_alarms->alarms.items[ALARM_LEVEL_NOT_RAISED].begun);
    members[1].levels.max = 3;
    holds(world_alarms, ALARM_LEVEL_NOT_RAISED, 86400,
          "all members speak level 3, and the cluster is at level 2: the upgrade is not done");
    atomic_store(&world_alarms->health.level, 3);
    ends(world_alarms, ALARM_LEVEL_NOT_RAISED);
}

static void test_map(void **state)
{
    struct world_alarms *world_alarms = *state;

    world_alarms->figures.disk.map_bytes = 1000 << 20;
    world_alarms->figures.disk.used_bytes = (800 << 20) - 1;
    look_for(world_alarms, 100);
    assert_false(world_alarms->alarms.items[ALARM_MAP_FILLS].begun);
    world_alarms->figures.disk.used_bytes = 800 << 20;
    holds(world_alarms, ALARM_MAP_FILLS, 60,
          "the database of node 1 takes 80 % of data.map-bytes: 800 of 1000 MiB");
    world_alarms->figures.disk.used_bytes = 0;
    ends(world_alarms, ALARM_MAP_FILLS);
}

static void test_worker_names(void **state)
{
    struct world_alarms *world_alarms = *state;

    look_for(world_alarms, 1000);
    assert_false(world_alarms->alarms.items[ALARM_WORKER_NAMES_SHARED].begun);
    world_alarms->figures.worker_names_shared = 1;
    holds(world_alarms, ALARM_WORKER_NAMES_SHARED, 120,
          "1 name holds several worker ids: as many processes are running, or were lately");
    world_alarms->figures.worker_names_shared = 2;
    look_for(world_alarms, 1);
    assert_string_equal(
        text_of(world_alarms, ALARM_WORKER_NAMES_SHARED),
        "2 names hold several worker ids: as many processes are running, or were lately");
    world_alarms->figures.worker_names_shared = 0;
    ends(world_alarms, ALARM_WORKER_NAMES_SHARED);
}

/* 14 days before its end, and at it; a new one ends the alarm. */
static void test_certificate(void **state)
{
    struct world_alarms *world_alarms = *state;
    int64_t now_s = (int64_t)(world_alarms->facts.wall_ms / 1000);

    world_alarms->facts.certificate_until_s = now_s + 14 * 86400;
    alarms_look(&world_alarms->facts, &world_alarms->events);
    assert_false(world_alarms->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    world_alarms->facts.wall_ms += 1000;
    holds(world_alarms, ALARM_CERTIFICATE_ENDS, 0,
          "the certificate of node 1 ends in 13 days and 23 hours");
    world_alarms->facts.wall_ms = (uint64_t)world_alarms->facts.certificate_until_s * 1000 - 1;
    alarms_look(&world_alarms->facts, &world_alarms->events);
    assert_true(world_alarms->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    assert_false(world_alarms->alarms.items[ALARM_CERTIFICATE_ENDED].begun);
    world_alarms->facts.wall_ms += 1;
    alarms_look(&world_alarms->facts, &world_alarms->events);
    assert_false(world_alarms->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    assert_string_equal(text_of(world_alarms, ALARM_CERTIFICATE_ENDED),
                        "the certificate of node 1 has ended: clients refuse it");
    world_alarms->facts.certificate_until_s += 90 * 86400;
    ends(world_alarms, ALARM_CERTIFICATE_ENDED);
    /* The same of the one for other nodes, whichever ends first. */
    world_alarms->facts.peer_until_s = (int64_t)(world_alarms->facts.wall_ms / 1000) + 86400;
    holds(world_alarms, ALARM_CERTIFICATE_ENDS, 0,
          "the certificate of node 1 for other nodes ends in 1 days and 0 hours");
    world_alarms->facts.peer_until_s -= 86400;
    alarms_look(&world_alarms->facts, &world_alarms->events);
    assert_false(world_alarms->alarms.items[ALARM_CERTIFICATE_ENDS].begun);
    assert_string_equal(text_of(world_alarms, ALARM_CERTIFICATE_ENDED),
                        "the certificate of node 1 has ended: other nodes refuse it");
    /* Both at once. */
    world_alarms->facts.certificate_until_s = world_alarms->facts.peer_until_s;
    look_for(world_alarms, 0);
    assert_string_equal(text_of(world_alarms, ALARM_CERTIFICATE_ENDED),
                        "the certificate of node 1 has ended: clients refuse it, and the "
                        "certificate of node 1 has ended: other nodes refuse it");
    world_alarms->facts.certificate_until_s += 13 * 86400;
    world_alarms->facts.peer_until_s += 3600;
    look_for(world_alarms, 0);
    assert_false(world_alarms->alarms.items[ALARM_CERTIFICATE_ENDED].begun);
    assert_string_equal(text_of(world_alarms, ALARM_CERTIFICATE_ENDS),
                        "the certificate of node 1 ends in 12 days and 23 hours, and the "
                        "certificate of node 1 for other nodes ends in 0 days and 0 hours");
}

static void test_json(void **state)
{
    struct world_alarms *world_alarms = *state;
    struct buf json = BUF_INIT;
    const char *text;

    world_alarms->facts.layout_left_s = 0;
    atomic_store(&world_alarms->health.disk_low, true);
    look_for(world_alarms, 0);
    alarms_put(&world_alarms->alarms, &json);
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
    const struct CMUnitTest events_tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_names),
    };
    const struct CMUnitTest quorum_tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_quorum_texts),
    };
    const struct CMUnitTest changes_tests[] = {
        cmocka_unit_test_setup_teardown(test_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(test_members, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
    };
    const struct CMUnitTest alarms_tests[] = {
        cmocka_unit_test_setup_teardown(test_healthy, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_cluster, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_standstill, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_many_down, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_errors, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_node, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_snowflake, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_lag_and_level, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_map, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_worker_names, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_certificate, setup_alarms, teardown_alarms),
        cmocka_unit_test_setup_teardown(test_json, setup_alarms, teardown_alarms),
    };
    int failed = 0;

    failed += cmocka_run_group_tests(events_tests, NULL, NULL);
    failed += cmocka_run_group_tests(quorum_tests, NULL, NULL);
    failed += cmocka_run_group_tests(changes_tests, NULL, NULL);
    log_setup(LOG_LEVEL_ERROR, 0); /* each alarm has its lines */
    failed += cmocka_run_group_tests(alarms_tests, NULL, NULL);
    return failed;
}
