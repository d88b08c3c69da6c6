/*
 * test_clock_sync.c - the log's time: whose clock gives it, above all the first time, which nothing
 * takes back.
 *
 * Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"

#define YEARS_50 (INT64_C(50) * 365 * 86400000)
#define HOUR ((int64_t)3600000)
#define SOON_MS 1500 /* by then clocks that are asked for are known, and the log is told */

struct world {
    struct ring ring;
    uint64_t leader;
};

/* A cluster that starts for the first time, without the frames that tell of clocks; the node that
 * leads has a clock that is off by so much from before its first turn on. */
static struct world *begin(unsigned count, int64_t ahead_ms)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->ring.keeps_time = true;
    w->ring.lost[FRAME_CLOCK] = true;
    ring_start(&w->ring, count);
    for (uint64_t id = 1; id <= count; id++) {
        ring_node(&w->ring, id)->wall_ahead_ms = ahead_ms;
    }
    w->leader = ring_elect(&w->ring);
    for (uint64_t id = 1; id <= count; id++) {
        ring_node(&w->ring, id)->wall_ahead_ms = id == w->leader ? ahead_ms : 0;
    }
    return w;
}

static void end(struct world *w)
{
    ring_close(&w->ring);
    free(w);
}

/* What is right, as the nodes whose clocks are. */
static uint64_t right_ms(struct world *w)
{
    return clock_wall_ms(&w->ring.clock.base);
}

static uint64_t log_ms(struct world *w, uint64_t id)
{
    return ring_node(&w->ring, id)->replica.state->facts.log_ms;
}

/* The log's time on all nodes is right, but for a second that it may be old. */
static void expect_right(struct world *w)
{
    for (uint64_t id = 1; id <= w->ring.count; id++) {
        assert_in_range(log_ms(w, id), right_ms(w) - 1000, right_ms(w));
    }
}

static void expect_none(struct world *w)
{
    for (uint64_t id = 1; id <= w->ring.count; id++) {
        assert_int_equal(log_ms(w, id), 0);
    }
}

/* Shows P6-clock. */
static void test_the_first_time_waits_for_a_majority_of_clocks(void **state)
{
    static const int64_t ahead[] = {YEARS_50, HOUR, 0, -HOUR};

    (void)state;
    for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++) {
        struct world *w = begin(3, ahead[i]);
        struct snowflake_layout layout;

        ring_run_ms(&w->ring, 30000);
        assert_true(driver_leads(&ring_node(&w->ring, w->leader)->replica.driver));
        assert_true(fsm_layout(ring_node(&w->ring, w->leader)->ids.context.fsm, &layout));
        expect_none(w);
        w->ring.lost[FRAME_CLOCK] = false;
        ring_run_ms(&w->ring, SOON_MS);
        expect_right(w);
        end(w);
    }
}

/* Two clocks of three that differ give no first time, whoever leads: the higher may be years ahead,
 * the lower years behind. */
static void test_two_clocks_that_differ_wait_for_the_third(void **state)
{
    static const int64_t ahead[] = {YEARS_50, -HOUR, 0};

    (void)state;
    for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++) {
        struct world *w = begin(3, ahead[i]);
        uint64_t gone = w->leader % 3 + 1;

        ring_isolate(&w->ring, gone, true);
        w->ring.lost[FRAME_CLOCK] = false;
        ring_run_ms(&w->ring, SOON_MS);
        if (ahead[i] != 0) {
            expect_none(w);
        } else {
            assert_in_range(log_ms(w, w->leader), right_ms(w) - 1000, right_ms(w));
        }
        ring_isolate(&w->ring, gone, false);
        ring_run_ms(&w->ring, SOON_MS);
        expect_right(w);
        end(w);
    }
}

/* Later the lower one of two counts. */
static void test_of_two_clocks_that_are_left_the_lower_one_counts(void **state)
{
    static const int64_t ahead[] = {HOUR, -HOUR};

    (void)state;
    for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++) {
        struct world *w = begin(3, 0);
        uint64_t gone = w->leader % 3 + 1;
        uint64_t before;

        w->ring.lost[FRAME_CLOCK] = false;
        ring_run_ms(&w->ring, SOON_MS);
        ring_isolate(&w->ring, gone, true);
        ring_run_ms(&w->ring, CLOCK_SAMPLE_FRESH_MS + 2000);
        before = log_ms(w, w->leader);
        ring_node(&w->ring, w->leader)->wall_ahead_ms = ahead[i];
        ring_run_ms(&w->ring, 10000);
        if (ahead[i] > 0) {
            assert_in_range(log_ms(w, w->leader), right_ms(w) - 1000, right_ms(w));
        } else {
            assert_int_equal(log_ms(w, w->leader), before);
        }
        end(w);
    }
}

/* One clock is no majority of two. */
static void test_of_two_nodes_both_are_heard(void **state)
{
    struct world *w = begin(2, YEARS_50);

    (void)state;
    ring_run_ms(&w->ring, 5000);
    expect_none(w);
    w->ring.lost[FRAME_CLOCK] = false;
    ring_run_ms(&w->ring, SOON_MS);
    expect_right(w);
    end(w);
}

/* It is its own majority: there is nobody to ask. */
static void test_a_node_alone_takes_its_own_clock(void **state)
{
    struct world *w = begin(1, HOUR);

    (void)state;
    ring_run_ms(&w->ring, SOON_MS);
    assert_in_range(log_ms(w, 1), right_ms(w) + HOUR - 1000, right_ms(w) + HOUR);
    end(w);
}

/* A majority that was heard once is none when that is too long ago: the leader goes wrong while
 * nobody tells it. */
static void test_clocks_that_were_heard_long_ago_do_not_count(void **state)
{
    struct world *w = begin(3, 0);
    uint64_t before;

    (void)state;
    w->ring.lost[FRAME_CLOCK] = false;
    ring_run_ms(&w->ring, SOON_MS);
    expect_right(w);
    w->ring.lost[FRAME_CLOCK] = true;
    ring_run_ms(&w->ring, CLOCK_SAMPLE_FRESH_MS + 2000);
    before = log_ms(w, w->leader);
    ring_node(&w->ring, w->leader)->wall_ahead_ms = HOUR;
    ring_run_ms(&w->ring, 10000);
    assert_true(driver_leads(&ring_node(&w->ring, w->leader)->replica.driver));
    assert_int_equal(log_ms(w, w->leader), before);
    w->ring.lost[FRAME_CLOCK] = false;
    ring_run_ms(&w->ring, SOON_MS);
    expect_right(w);
    end(w);
}

/* No worker id is granted before the log has a time: its window would begin anywhere. */
static void test_nobody_gets_a_worker_id_before_the_first_time(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    (void)state;
    assert_non_null(w);
    w->ring.keeps_time = true;
    w->ring.workers = 1;
    w->ring.lost[FRAME_CLOCK] = true;
    ring_start(&w->ring, 3);
    w->leader = ring_elect(&w->ring);
    ring_node(&w->ring, w->leader)->wall_ahead_ms = YEARS_50;
    ring_run_ms(&w->ring, 10000);
    assert_null(fsm_worker_at(ring_node(&w->ring, w->leader)->ids.context.fsm, 0));
    w->ring.lost[FRAME_CLOCK] = false;
    ring_run_ms(&w->ring, 5000);
    for (uint16_t id = 0; id < 3; id++) {
        const struct worker_row *row =
            fsm_worker(ring_node(&w->ring, w->leader)->ids.context.fsm, id);

        assert_true(id == 2 || row != NULL); /* the wrong one has none */
        assert_true(row == NULL || row->granted_until_ms < right_ms(w) + 60000);
    }
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_time_waits_for_a_majority_of_clocks),
        cmocka_unit_test(test_two_clocks_that_differ_wait_for_the_third),
        cmocka_unit_test(test_of_two_clocks_that_are_left_the_lower_one_counts),
        cmocka_unit_test(test_of_two_nodes_both_are_heard),
        cmocka_unit_test(test_a_node_alone_takes_its_own_clock),
        cmocka_unit_test(test_clocks_that_were_heard_long_ago_do_not_count),
        cmocka_unit_test(test_nobody_gets_a_worker_id_before_the_first_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
