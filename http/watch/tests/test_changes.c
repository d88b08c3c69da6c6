/*
 * test_changes.c - each change between two looks is one event, and no change is none.
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
    world->status.term = 9;
    look_says(world, EVENT_ELECTION, "node 1 leads again, in term 9 after term 6");
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
    look_says(world, EVENT_MEMBER, "node 7 is no member any more");
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
    look_says(world, EVENT_REFUSAL, "a peer said what cannot be, and was not believed (3 times)");
    world->counts.snapshots++;
    look_says(world, EVENT_SNAPSHOT, "a snapshot of the leader was installed");
    world->counts.refusal = ERR_CLOCK_SKEW;
    look_says(world, EVENT_REFUSAL, "snowflake ids are refused: clock_skew");
    world->counts.refusal = 0;
    look_says(world, EVENT_REFUSAL, "snowflake ids are served");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(test_members, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
