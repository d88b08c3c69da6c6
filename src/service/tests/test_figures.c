/*
 * test_figures.c - what nodes measure of themselves and of each other is what happened.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"

#define AHEAD_MS 300
#define HOUR_MS 3600000
#define LOOK_MS 3000 /* by then everything was asked for and looked at */

struct world {
    struct ring ring;
    uint64_t leader;
};

static struct world *begin_with(unsigned workers)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->ring.keeps_time = true;
    w->ring.workers = workers;
    ring_start(&w->ring, 3);
    ring_node(&w->ring, 2)->wall_ahead_ms = AHEAD_MS;
    w->leader = ring_elect(&w->ring);
    ring_run_ms(&w->ring, LOOK_MS);
    return w;
}

static struct world *begin(void)
{
    return begin_with(1);
}

static void end(struct world *w)
{
    ring_close(&w->ring);
    free(w);
}

static struct id_figures figures_of(struct world *w, uint64_t id)
{
    struct id_figures figures;

    id_figures_copy(&ring_node(&w->ring, id)->ids.health.figures, &figures);
    return figures;
}

static bool has_rtt(const struct id_member *seen)
{
    return seen->round_trip_us != ID_UNKNOWN;
}

static const struct id_member *member(const struct id_figures *figures, uint64_t id)
{
    for (size_t i = 0; i < figures->member_count; i++) {
        if (figures->members[i].id == id) {
            return &figures->members[i];
        }
    }
    fail_msg("member %llu is not there", (unsigned long long)id);
    return NULL;
}

static void test_roles_terms_and_indexes(void **state)
{
    struct world *w = begin();

    (void)state;
    for (uint64_t id = 1; id <= 3; id++) {
        struct id_figures figures = figures_of(w, id);
        struct driver *driver = &ring_node(&w->ring, id)->replica.driver;

        assert_int_equal(figures.role, id == w->leader ? ID_NODE_LEADER : ID_NODE_FOLLOWER);
        assert_int_equal(figures.leader_id, w->leader);
        assert_int_equal(figures.term, driver_term(driver));
        assert_in_range(figures.applied_index, 2, figures.commit_index);
        assert_in_range(figures.commit_index, 2, driver->commit);
        assert_int_equal(figures.leaderships, id == w->leader);
        assert_true(figures.elections >= figures.leaderships);
        assert_int_equal(figures.member_count, 3);
        assert_int_equal(figures.workers, 3);
        for (uint64_t other = 1; other <= 3; other++) {
            const struct id_member *seen = member(&figures, other);

            assert_string_equal(seen->role, "voter");
            assert_true(seen->reachable);
            assert_int_equal(seen->has_match, id == w->leader);
            assert_string_not_equal(seen->version, "");
            assert_true(!seen->has_match || seen->match_index >= 2);
        }
    }
    end(w);
}

static void test_links_and_clocks(void **state)
{
    struct world *w = begin();
    struct id_figures figures = figures_of(w, 1);
    struct id_cluster_status status = {0};

    (void)state;
    assert_false(has_rtt(member(&figures, 1)) || member(&figures, 1)->has_clock_offset);
    assert_true(has_rtt(member(&figures, 2)) && has_rtt(member(&figures, 3)));
    assert_true(member(&figures, 2)->has_clock_offset && member(&figures, 3)->has_clock_offset);
    assert_int_equal(member(&figures, 2)->round_trip_us, 0); /* the ring's frames take no time */
    assert_int_equal(member(&figures, 2)->clock_offset_ms, AHEAD_MS);
    assert_int_equal(member(&figures, 3)->clock_offset_ms, 0);
    figures = figures_of(w, 2);
    assert_int_equal(member(&figures, 1)->clock_offset_ms, -AHEAD_MS);
    /* Its own clock has moved since they answered. */
    ring_node(&w->ring, 1)->wall_ahead_ms += 70;
    health_status(&ring_node(&w->ring, 1)->ids.health, &status);
    assert_int_equal(status.members[1].clock_offset_ms, AHEAD_MS - 70);
    ring_node(&w->ring, 1)->wall_ahead_ms -= 70;
    ring_isolate(&w->ring, 3, true);
    ring_run_ms(&w->ring, CLOCK_SAMPLE_FRESH_MS + LOOK_MS);
    figures = figures_of(w, 1);
    assert_false(has_rtt(member(&figures, 3)) || member(&figures, 3)->has_clock_offset);
    assert_true(has_rtt(member(&figures, 2)));
    assert_null(clock_sync_link(&ring_node(&w->ring, 1)->replica.clock_sync, 3));
    health_status(&ring_node(&w->ring, 1)->ids.health, &status);
    assert_false(status.members[2].has_clock_offset);
    assert_true(status.members[2].last_heard_ms > CLOCK_SAMPLE_FRESH_MS);
    assert_true(status.members[1].has_clock_offset);
    assert_int_equal(status.members[1].clock_offset_ms, AHEAD_MS);
    end(w);
}

/* Without a leader a node is ready while it has ids. */
static void test_what_health_sees(void **state)
{
    struct world *w = begin();
    struct ring_node *node = ring_node(&w->ring, ring_follower(&w->ring));
    uint64_t id = node->replica.context.node_id;
    struct asked asked;

    (void)state;
    assert_int_equal(node->ids.health.seen.differs, 0);
    node->ids.layout.differs = true;
    ring_make(&w->ring, id, "a", 10);
    asked_open(&asked, "a");
    ask(&w->ring, id, &asked, LOOK_MS);
    ring_run_ms(&w->ring, LOOK_MS);
    assert_int_equal(node->ids.health.seen.differs, ID_DIFFERS_LAYOUT);
    assert_int_equal(asked.done, 1);
    asked_free(&asked);
    (void)ring_take(&w->ring, id, "a", 1);
    ring_isolate(&w->ring, id, true);
    ring_run_ms(&w->ring, LOOK_MS);
    assert_int_equal(node->ids.health.seen.segments_held, 1);
    (void)ring_take(&w->ring, id, "a",
                    (uint32_t)segment_left(&id_table_find(node->ids.table, "a", 1)->buffer));
    ring_run_ms(&w->ring, LOOK_MS);
    assert_int_equal(node->ids.health.seen.segments_held, 0);
    end(w);
}

/* Also one without worker ids knows by how much its clock is off, and keeps that while it is
 * isolated: cuts end by it. */
static void test_a_clock_against_the_others(void **state)
{
    (void)state;
    for (unsigned workers = 0; workers < 2; workers++) {
        struct world *w = begin_with(workers);
        const struct id_health *seen = &ring_node(&w->ring, 2)->ids.health.seen;

        assert_true(seen->clock_line_ms != ID_CLOCK_UNKNOWN);
        assert_int_equal(seen->clock_off_ms, AHEAD_MS);
        assert_int_equal(ring_node(&w->ring, 1)->ids.health.seen.clock_off_ms, 0);
        ring_isolate(&w->ring, 2, true);
        ring_run_ms(&w->ring, CLOCK_SAMPLE_FRESH_MS + LOOK_MS);
        assert_int_equal(seen->clock_off_ms, AHEAD_MS);
        ring_crash(&w->ring, 2);
        ring_node(&w->ring, 2)->wall_ahead_ms = -HOUR_MS;
        ring_restart(&w->ring, 2);
        ring_run_ms(&w->ring, LOOK_MS);
        seen = &ring_node(&w->ring, 2)->ids.health.seen;
        assert_true(seen->clock_line_ms == ID_CLOCK_UNKNOWN);
        /* Of the others, which differ from it, one is heard, then both. */
        ring_isolate(&w->ring, 2, false);
        ring_isolate(&w->ring, 3, true);
        ring_run_ms(&w->ring, LOOK_MS);
        assert_true(seen->clock_line_ms == ID_CLOCK_UNKNOWN);
        ring_isolate(&w->ring, 3, false);
        ring_run_ms(&w->ring, LOOK_MS);
        assert_true(seen->clock_line_ms != ID_CLOCK_UNKNOWN);
        assert_int_equal(seen->clock_off_ms, -HOUR_MS);
        end(w);
    }
}

/* What a node takes for the cluster's time, minus that time, now and after its next look. */
static void expect_time(struct world *w, uint64_t id)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct health *health = &ring_node(&w->ring, id)->ids.health;
        const struct health *other = &ring_node(&w->ring, 1)->ids.health;

        assert_int_equal(id_health_now_ms(&health->seen, health->of.on->real_clock),
                         clock_wall_ms(other->of.on->real_clock));
        ring_run_ms(&w->ring, LOOK_MS);
    }
}

/* A step of a node's own clock, to either side, changes nothing in the time by which cuts end: at
 * once, after the next look, and on a node that hears nobody. */
static void test_the_cluster_time_when_a_clock_steps(void **state)
{
    static const int64_t steps_ms[] = {0, HOUR_MS, -HOUR_MS, -1500, 400};
    struct world *w = begin();

    (void)state;
    for (unsigned isolated = 0; isolated < 2; isolated++) {
        for (size_t i = 0; i < sizeof steps_ms / sizeof steps_ms[0]; i++) {
            ring_node(&w->ring, 2)->wall_ahead_ms = steps_ms[i];
            expect_time(w, 2);
        }
        ring_isolate(&w->ring, 2, true);
        ring_run_ms(&w->ring, CLOCK_SAMPLE_FRESH_MS + LOOK_MS);
    }
    end(w);
}

/* It has no vote; in everything else it is a member as the voters are, to each of them. */
static void test_a_standby_is_a_member_as_any_other(void **state)
{
    struct world *w = begin();
    uint64_t standby = ring_follower(&w->ring);
    uint64_t match;

    (void)state;
    assert_int_equal(
        driver_change(&ring_node(&w->ring, w->leader)->replica.driver, standby, NULL, ROLE_STANDBY),
        0);
    ring_run_ms(&w->ring, CLOCK_SAMPLE_FRESH_MS + LOOK_MS); /* what was known before is old */
    for (uint64_t id = 1; id <= 3; id++) {
        struct replica *replica = &ring_node(&w->ring, id)->replica;
        struct id_figures figures = figures_of(w, id);
        struct id_cluster_status status = {0};

        assert_int_equal(figures.member_count, 3);
        assert_int_equal(replica->peers.count, 2); /* with whom it keeps links */
        health_status(&ring_node(&w->ring, id)->ids.health, &status);
        assert_int_equal(status.member_count, 3);
        for (uint64_t other = 1; other <= 3; other++) {
            const struct id_member *seen = member(&figures, other);

            assert_int_equal(strcmp(seen->role, "voter") == 0, other != standby);
            assert_true(seen->reachable);
            assert_int_equal(has_rtt(seen) && seen->has_clock_offset, other != id);
            assert_int_equal(seen->has_match, id == w->leader);
            assert_string_equal(status.members[other - 1].role,
                                other == standby ? "standby" : "voter");
        }
    }
    assert_true(driver_match(&ring_node(&w->ring, w->leader)->replica.driver, standby, &match));
    assert_int_equal(match, driver_last_index(&ring_node(&w->ring, w->leader)->replica.driver));
    end(w);
}

/* The leader has what is committed, also where its own disk is the slowest; what another one lacks
 * is told. */
static void test_how_far_members_lag(void **state)
{
    struct world *w = begin();
    uint64_t follower = ring_follower(&w->ring);
    uint64_t third = 6 - w->leader - follower;
    struct id_cluster_status status = {0};

    (void)state;
    ring_node(&w->ring, w->leader)->disk_held = true;
    for (unsigned i = 0; i < 3; i++) {
        ring_make(&w->ring, follower, (const char *[]){"a", "b", "c"}[i], 10);
    }
    ring_run_ms(&w->ring, LOOK_MS);
    health_status(&ring_node(&w->ring, follower)->ids.health, &status);
    assert_true(status.commit_index > 3);
    assert_int_equal(status.members[w->leader - 1].lag, 0);
    assert_int_equal(status.members[follower - 1].lag, 0);
    ring_node(&w->ring, w->leader)->disk_held = false;
    ring_settle(&w->ring);
    ring_isolate(&w->ring, third, true);
    ring_make(&w->ring, w->leader, "d", 10);
    ring_run_ms(&w->ring, 100);
    health_status(&ring_node(&w->ring, w->leader)->ids.health, &status);
    assert_true(status.members[third - 1].lag > 0);
    assert_int_equal(status.members[follower - 1].lag, 0);
    end(w);
}

/* A peer that says it was asked at another time, or never, or twice, tells nothing. */
static void test_answers_to_no_question_tell_nothing(void **state)
{
    struct world *w = begin();
    struct clock_sync *sync = &ring_node(&w->ring, 1)->replica.clock_sync;
    const uint64_t times[] = {0, 1, UINT64_MAX};
    struct replica *replica = &ring_node(&w->ring, 1)->replica;
    struct peer_row before[LIMIT_PEERS];

    (void)state;
    memcpy(before, replica->peer_rows, sizeof before);
    for (unsigned i = 0; i < sizeof times / sizeof times[0]; i++) {
        const struct wire_clock answer = {.answer = true, .sent_ms = times[i], .wall_ms = 5};
        struct buf payload = BUF_INIT;

        wire_clock_encode(&answer, &payload);
        assert_true(clock_sync_receive(sync, 2, payload.data, payload.len));
        buf_free(&payload);
    }
    assert_memory_equal(before, replica->peer_rows, sizeof before);
    end(w);
}

/* Each node tells what it hands out itself, and when the ids end by what all take. */
static void test_tags_that_several_nodes_use(void **state)
{
    struct world *w = begin();
    struct asked opened;
    struct id_figures figures;

    (void)state;
    ring_make(&w->ring, 1, "quiet", 10);
    ring_make(&w->ring, 1, "busy", 1000);
    for (uint64_t id = 2; id <= 3; id++) {
        asked_open(&opened, "busy");
        ask(&w->ring, id, &opened, 1000);
        ring_run_ms(&w->ring, 100);
        assert_int_equal(opened.done, 1);
        asked_free(&opened);
    }
    for (unsigned i = 0; i < 600; i++) {
        (void)ring_take(&w->ring, 3, "busy", 100);
        (void)ring_take(&w->ring, 2, "busy", 1);
        ring_run_ms(&w->ring, 100);
    }
    figures = figures_of(w, 1); /* which did not use it */
    assert_int_equal(figures.busiest_count, 0);
    assert_int_equal(figures.ids_granted, 0);
    figures = figures_of(w, 3);
    assert_int_equal(figures.busiest_count, 1);
    assert_string_equal(figures.busiest[0].name, "busy");
    assert_in_range(figures.busiest[0].per_s, 950, 1050);
    assert_true(figures.ids_granted >= 20000);
    assert_true(histogram_count(&figures.refill) > 0);
    assert_int_equal(figures.refills_in_flight, 0);
    figures = figures_of(w, 2);
    assert_in_range(figures.busiest[0].per_s, 8, 12);
    /* node 3 takes a hundred times as much, and this one knows from the log */
    assert_in_range((double)TAG_MAX_ID_END / figures.busiest[0].ends_s, 300, 3000);
    ring_run_ms(&w->ring, 120000);
    figures = figures_of(w, 3);
    assert_int_equal(figures.busiest_count, 0);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles_terms_and_indexes),
        cmocka_unit_test(test_links_and_clocks),
        cmocka_unit_test(test_what_health_sees),
        cmocka_unit_test(test_a_clock_against_the_others),
        cmocka_unit_test(test_the_cluster_time_when_a_clock_steps),
        cmocka_unit_test(test_a_standby_is_a_member_as_any_other),
        cmocka_unit_test(test_how_far_members_lag),
        cmocka_unit_test(test_answers_to_no_question_tell_nothing),
        cmocka_unit_test(test_tags_that_several_nodes_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
