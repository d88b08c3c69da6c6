/*
 * test_clock_check.c - verdicts on clocks: medians of whole clusters, samples that do not count,
 * and jumps against the monotonic clock with what clears them. Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/clock.h"
#include "src/tests/unit/death.h"

#define NOW 5000000ULL /* monotonic */
#define WALL 1700000000000ULL
#define THRESHOLD_MS 1000
#define HOUR_MS 3600000LL
#define YEARS_50_MS (50LL * 365 * 24 * HOUR_MS)
#define ROWS(table) (sizeof(table) / sizeof(table)[0])

/* A peer's clock is ahead of ours by so much; a round trip of rtt_ms ends at now_ms. */
static void sample(struct clock_check *check, uint64_t peer, uint64_t now_ms, uint64_t wall_ms,
                   int64_t ahead_ms, uint32_t rtt_ms)
{
    uint64_t peer_ms = wall_ms + (uint64_t)ahead_ms - rtt_ms / 2; /* when it answered */

    clock_check_sample(check, peer, now_ms - rtt_ms, now_ms, peer_ms, wall_ms);
}

static void verdict_is(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms, int err,
                       int64_t off_ms)
{
    int64_t off = 77;

    assert_int_equal(clock_check_verdict(check, now_ms, wall_ms, &off), err);
    assert_int_equal(off, off_ms);
}

/* --- the median --- */

static void test_median(void **state)
{
    static const struct {
        size_t peers;
        int64_t ahead_ms[6];
        int64_t median_ms; /* of the peers' clocks and the own one, from the own one */
        int err;
    } rows[] = {
        {0, {0}, 0, 0},
        {1, {300}, 0, 0}, /* the lower one of two */
        {1, {-300}, -300, 0},
        {1, {HOUR_MS}, 0, 0},
        {1, {-HOUR_MS}, -HOUR_MS, ERR_CLOCK_SKEW},
        {2, {100, 200}, 100, 0},
        {2, {-100, 200}, 0, 0},
        {2, {-100, -200}, -100, 0},
        {2, {1000, 5000}, 1000, 0}, /* at the threshold */
        {2, {1001, 5000}, 1001, ERR_CLOCK_SKEW},
        {2, {-1000, -5000}, -1000, 0},
        {2, {-1001, -5000}, -1001, ERR_CLOCK_SKEW},
        {3, {10, 20, 30}, 10, 0},
        {3, {-10, -20, -30}, -20, 0},
        {4, {10, -20, 30, -40}, 0, 0},
        {4, {10, 20, 30, -40}, 10, 0},
        {5, {5, 4, 3, 2, 1}, 2, 0},
        {5, {HOUR_MS, HOUR_MS, HOUR_MS, 7, 1}, 7, 0},
        {5, {HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS, 1}, HOUR_MS, ERR_CLOCK_SKEW},
        {6, {9, 1, 8, 2, 7, 3}, 3, 0},
        {6, {-9, -1, -8, -2, -7, -3}, -3, 0},
        {6, {HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS, 0, 0}, HOUR_MS, ERR_CLOCK_SKEW},
        {6, {HOUR_MS, HOUR_MS, HOUR_MS, -HOUR_MS, 0, 0}, 0, 0},
        {6, {INT64_MAX / 8, INT64_MAX / 8, -HOUR_MS * 24 * 365, 0, 0, 0}, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct clock_check check;
        size_t samples = 77;

        clock_check_init(&check, THRESHOLD_MS);
        for (size_t k = 0; k < rows[i].peers; k++) {
            sample(&check, k + 2, NOW, WALL, rows[i].ahead_ms[k], 40);
        }
        assert_int_equal(clock_check_cluster_ms(&check, NOW, WALL, &samples),
                         WALL + (uint64_t)rows[i].median_ms);
        assert_int_equal(samples, rows[i].peers);
        verdict_is(&check, NOW, WALL, rows[i].err, -rows[i].median_ms);
    }
}

/* What each node of a cluster says, all of which ask all others. */
static void cluster_says(size_t nodes, const int64_t clocks_ms[], const int verdicts[])
{
    for (size_t i = 0; i < nodes; i++) {
        struct clock_check check;
        int64_t off_ms;

        clock_check_init(&check, THRESHOLD_MS);
        clock_check_members(&check, nodes);
        for (size_t k = 0; k < nodes; k++) {
            if (k != i) {
                sample(&check, k + 1, NOW, WALL + (uint64_t)clocks_ms[i],
                       clocks_ms[k] - clocks_ms[i], 6);
            }
        }
        clock_check_tick(&check, NOW, WALL + (uint64_t)clocks_ms[i]);
        assert_int_equal(clock_check_verdict(&check, NOW, WALL + (uint64_t)clocks_ms[i], &off_ms),
                         verdicts[i]);
    }
}

/* Shows lesson-one-clock. */
static void test_one_wrong_clock_refuses_alone(void **state)
{
    const int verdicts[] = {0, ERR_CLOCK_SKEW, 0, 0, 0, 0, 0};

    (void)state;
    for (size_t nodes = 3; nodes <= LIMIT_NODES; nodes++) {
        const int64_t ahead[] = {0, YEARS_50_MS, 3, -3, 700, 0, 1};
        const int64_t behind[] = {0, -YEARS_50_MS, 3, -3, 700, 0, 1};
        const int64_t a_little[] = {0, 1800, 3, -3, 700, 0, 1};

        cluster_says(nodes, ahead, verdicts);
        cluster_says(nodes, behind, verdicts);
        cluster_says(nodes, a_little, verdicts);
    }
}

static void test_two_nodes_an_hour_apart(void **state)
{
    static const struct {
        size_t nodes;
        int64_t clocks_ms[3];
        int verdicts[3];
    } rows[] = {
        /* Nobody knows who is right: the lower clock serves. */
        {2, {0, HOUR_MS}, {0, ERR_CLOCK_SKEW}},
        {2, {HOUR_MS, 0}, {ERR_CLOCK_SKEW, 0}},
        /* A third one decides. */
        {3, {0, HOUR_MS, 10}, {0, ERR_CLOCK_SKEW, 0}},
        {3, {0, HOUR_MS, HOUR_MS - 10}, {ERR_CLOCK_SKEW, 0, 0}},
        {3, {0, HOUR_MS, HOUR_MS / 2}, {ERR_CLOCK_SKEW, ERR_CLOCK_SKEW, 0}},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        cluster_says(rows[i].nodes, rows[i].clocks_ms, rows[i].verdicts);
    }
}

static void test_cluster_time_stays_within_64_bits(void **state)
{
    struct clock_check check;
    size_t samples;

    (void)state;
    clock_check_init(&check, THRESHOLD_MS);
    clock_check_sample(&check, 2, NOW, NOW, UINT64_MAX, WALL);
    clock_check_sample(&check, 3, NOW, NOW, UINT64_MAX, WALL);
    assert_true(clock_check_cluster_ms(&check, NOW, WALL, &samples) > WALL + YEARS_50_MS);
    assert_true(clock_check_cluster_ms(&check, NOW, UINT64_MAX, &samples) > WALL + YEARS_50_MS);
    clock_check_sample(&check, 2, NOW, NOW, 0, WALL);
    clock_check_sample(&check, 3, NOW, NOW, 0, WALL);
    assert_int_equal(clock_check_cluster_ms(&check, NOW, WALL - 1, &samples), 0);
    assert_int_equal(clock_check_cluster_ms(&check, NOW, WALL, &samples), 0);
    assert_int_equal(samples, 2);
}

/* --- samples --- */

static void test_half_of_the_round_trip_is_added(void **state)
{
    struct clock_check check;
    size_t samples;

    (void)state;
    clock_check_init(&check, THRESHOLD_MS);
    clock_check_sample(&check, 2, NOW - 200, NOW, WALL - 400, WALL);
    assert_int_equal(clock_check_cluster_ms(&check, NOW, WALL, &samples), WALL - 300);
}

static void test_samples_that_do_not_count(void **state)
{
    static const struct {
        uint32_t rtt_ms;
        uint64_t age_ms;
        size_t samples;
    } rows[] = {
        {0, 0, 1},
        {CLOCK_SAMPLE_RTT_MAX_MS, 0, 1},
        {CLOCK_SAMPLE_RTT_MAX_MS + 1, 0, 0},
        {0, CLOCK_SAMPLE_FRESH_MS, 1},
        {0, CLOCK_SAMPLE_FRESH_MS + 1, 0},
        {1000000, 1000000, 0},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        uint64_t later_ms = NOW + rows[i].age_ms;
        uint64_t wall_ms = WALL + rows[i].age_ms;
        struct clock_check check;
        size_t samples;

        clock_check_init(&check, THRESHOLD_MS);
        sample(&check, 2, NOW, WALL, -HOUR_MS, rows[i].rtt_ms);
        (void)clock_check_cluster_ms(&check, later_ms, wall_ms, &samples);
        assert_int_equal(samples, rows[i].samples);
        verdict_is(&check, later_ms, wall_ms, samples > 0 ? ERR_CLOCK_SKEW : 0,
                   samples > 0 ? HOUR_MS : 0);
    }
}

static void test_a_slow_answer_keeps_the_sample_before(void **state)
{
    struct clock_check check;

    (void)state;
    clock_check_init(&check, THRESHOLD_MS);
    sample(&check, 2, NOW, WALL, -HOUR_MS, 10);
    sample(&check, 2, NOW + 1000, WALL + 1000, 0, CLOCK_SAMPLE_RTT_MAX_MS + 1);
    verdict_is(&check, NOW + 1000, WALL + 1000, ERR_CLOCK_SKEW, HOUR_MS);
    sample(&check, 2, NOW + 2000, WALL + 2000, 0, 10);
    verdict_is(&check, NOW + 2000, WALL + 2000, 0, 0);
}

static void test_more_peers_than_there_is_room_for(void **state)
{
    struct clock_check check;
    size_t samples;

    (void)state;
    clock_check_init(&check, THRESHOLD_MS);
    for (uint64_t peer = 1; peer <= LIMIT_NODES; peer++) {
        sample(&check, peer, NOW + peer, WALL + peer, HOUR_MS, 0);
    }
    (void)clock_check_cluster_ms(&check, NOW + 10, WALL + 10, &samples);
    assert_int_equal(samples, LIMIT_NODES);
    /* Others come in the place of the oldest ones. */
    for (uint64_t peer = 101; peer <= 100 + LIMIT_NODES / 2 + 1; peer++) {
        sample(&check, peer, NOW + peer, WALL + peer, 0, 0);
    }
    (void)clock_check_cluster_ms(&check, NOW + 200, WALL + 200, &samples);
    assert_int_equal(samples, LIMIT_NODES);
    verdict_is(&check, NOW + 200, WALL + 200, 0, 0);
    for (size_t i = 0; i < check.count; i++) {
        assert_true(check.samples[i].peer > LIMIT_NODES / 2 + 1);
    }
}

/* --- jumps --- */

/* Ticked at NOW. Five seconds later the wall clock has moved on by five seconds and step_ms. */
static void jump(struct clock_check *check, int64_t step_ms)
{
    clock_check_init(check, THRESHOLD_MS);
    clock_check_tick(check, NOW, WALL);
    verdict_is(check, NOW, WALL, 0, 0);
    clock_check_tick(check, NOW + 5000, WALL + 5000 + (uint64_t)step_ms);
}

static void test_jumps_at_the_bound(void **state)
{
    static const struct {
        int64_t step_ms;
        int err;
    } rows[] = {
        {0, 0},
        {-LIMIT_CLOCK_BACK_WAIT_MS, 0},
        {-LIMIT_CLOCK_BACK_WAIT_MS - 1, ERR_CLOCK_BACKWARDS},
        {-HOUR_MS, ERR_CLOCK_BACKWARDS},
        {-(int64_t)WALL - 5000, ERR_CLOCK_BACKWARDS}, /* 1970 */
        {THRESHOLD_MS, 0},
        {THRESHOLD_MS + 1, ERR_CLOCK_SKEW},
        {YEARS_50_MS, ERR_CLOCK_SKEW},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        uint64_t wall_ms = WALL + 5000 + (uint64_t)rows[i].step_ms;
        struct clock_check check;
        int64_t off_ms = rows[i].err != 0 ? rows[i].step_ms : 0;

        jump(&check, rows[i].step_ms);
        verdict_is(&check, NOW + 5000, wall_ms, rows[i].err, off_ms);
        /* A verdict sees a jump before the next tick does. */
        clock_check_init(&check, THRESHOLD_MS);
        clock_check_tick(&check, NOW, WALL);
        verdict_is(&check, NOW + 5000, wall_ms, rows[i].err, off_ms);
    }
}

static void test_small_steps_do_not_add_up(void **state)
{
    struct clock_check check;
    uint64_t wall_ms = WALL;

    (void)state;
    clock_check_init(&check, THRESHOLD_MS);
    for (uint64_t i = 0; i < 1000; i++) {
        clock_check_tick(&check, NOW + i * 1000, wall_ms);
        verdict_is(&check, NOW + i * 1000, wall_ms, 0, 0);
        wall_ms += i < 500 ? 2000 : 995;
    }
}

static void test_before_the_first_tick_nothing_jumps(void **state)
{
    struct clock_check check;

    (void)state;
    clock_check_init(&check, THRESHOLD_MS);
    verdict_is(&check, NOW, WALL, 0, 0);
    verdict_is(&check, NOW + 1, WALL + YEARS_50_MS, 0, 0);
}

static void test_a_jump_ahead_ends_by_return(void **state)
{
    struct clock_check check;

    (void)state;
    jump(&check, HOUR_MS);
    clock_check_tick(&check, NOW + 60000, WALL + 60000 + HOUR_MS); /* time alone does not help */
    verdict_is(&check, NOW + 60000, WALL + 60000 + HOUR_MS, ERR_CLOCK_SKEW, HOUR_MS);
    clock_check_tick(&check, NOW + 61000, WALL + 61000 + THRESHOLD_MS + 1);
    verdict_is(&check, NOW + 61000, WALL + 61000 + THRESHOLD_MS + 1, ERR_CLOCK_SKEW,
               THRESHOLD_MS + 1);
    clock_check_tick(&check, NOW + 62000, WALL + 62000 + THRESHOLD_MS);
    verdict_is(&check, NOW + 62000, WALL + 62000 + THRESHOLD_MS, 0, 0);
}

static void test_a_jump_back_ends_when_caught_up(void **state)
{
    const int64_t back = -20000;
    struct clock_check check;

    (void)state;
    jump(&check, back); /* when it was seen, it would have been WALL + 5000 */
    for (uint64_t ms = 6000; ms < 25000; ms += 1000) {
        clock_check_tick(&check, NOW + ms, WALL + ms + (uint64_t)back);
        verdict_is(&check, NOW + ms, WALL + ms + (uint64_t)back, ERR_CLOCK_BACKWARDS, back);
    }
    verdict_is(&check, NOW + 24999, WALL + 4999, ERR_CLOCK_BACKWARDS, back);
    verdict_is(&check, NOW + 25000, WALL + 5000, 0, 0);
    clock_check_tick(&check, NOW + 25000, WALL + 5000);
    verdict_is(&check, NOW + 26000, WALL + 6000, 0, 0);
    /* From here on the clock is compared with where it is now, and has to catch up anew. */
    clock_check_tick(&check, NOW + 26000, WALL + 6000);
    clock_check_tick(&check, NOW + 27000, WALL + 7000 - 1500);
    verdict_is(&check, NOW + 27000, WALL + 5500, ERR_CLOCK_BACKWARDS, -1500);
    verdict_is(&check, NOW + 28499, WALL + 6999, ERR_CLOCK_BACKWARDS, -1500);
    verdict_is(&check, NOW + 28500, WALL + 7000, 0, 0);
}

static void test_a_jump_back_ends_by_return(void **state)
{
    struct clock_check check;

    (void)state;
    jump(&check, -HOUR_MS);
    clock_check_tick(&check, NOW + 7000, WALL + 7000 - LIMIT_CLOCK_BACK_WAIT_MS);
    verdict_is(&check, NOW + 7000, WALL + 7000 - LIMIT_CLOCK_BACK_WAIT_MS, 0, 0);
}

static void test_back_and_then_ahead(void **state)
{
    struct clock_check check;

    (void)state;
    jump(&check, -HOUR_MS);
    clock_check_tick(&check, NOW + 6000, WALL + 6000 + HOUR_MS); /* not caught up: overshot */
    verdict_is(&check, NOW + 6000, WALL + 6000 + HOUR_MS, ERR_CLOCK_SKEW, HOUR_MS);
    clock_check_tick(&check, NOW + 7000, WALL + 7000);
    verdict_is(&check, NOW + 7000, WALL + 7000, 0, 0);
}

/* A cluster of `members`, of which so many peers have fresh samples that agree with the clock after
 * its jump of an hour, and so many that do not. */
static void test_a_majority_clears_a_jump(void **state)
{
    static const struct {
        size_t members; /* 0: not told */
        size_t agree, differ;
        bool cleared;
    } rows[] = {
        {0, 0, 0, false}, {0, 1, 0, true},  {0, 0, 1, false}, {0, 1, 1, true},  {0, 1, 2, false},
        {1, 0, 0, true},  {3, 0, 0, false}, {3, 1, 0, true},  {3, 0, 2, false}, {3, 1, 1, true},
        {5, 1, 0, false}, {5, 2, 0, true},  {5, 2, 2, true},  {5, 1, 3, false}, {2, 0, 0, false},
        {2, 1, 0, true},  {2, 0, 1, false}, {4, 1, 0, false}, {4, 2, 0, true},  {1, 1, 2, false},
        {7, 2, 0, false}, {7, 3, 3, true},
    };
    static const int64_t steps[] = {HOUR_MS, -HOUR_MS};

    (void)state;
    for (size_t i = 0; i < ROWS(rows) * ROWS(steps); i++) {
        int64_t step_ms = steps[i % ROWS(steps)];
        uint64_t wall_ms = WALL + 6000 + (uint64_t)step_ms;
        size_t row = i / ROWS(steps);
        struct clock_check check;

        jump(&check, step_ms);
        clock_check_members(&check, rows[row].members);
        for (size_t k = 0; k < rows[row].agree + rows[row].differ; k++) {
            int64_t ahead_ms = k < rows[row].agree ? THRESHOLD_MS : -step_ms;

            sample(&check, k + 2, NOW + 6000, wall_ms, ahead_ms, 10);
        }
        clock_check_tick(&check, NOW + 6000, wall_ms);
        if (!rows[row].cleared) {
            verdict_is(&check, NOW + 6000, wall_ms,
                       step_ms > 0 ? ERR_CLOCK_SKEW : ERR_CLOCK_BACKWARDS, step_ms);
            continue;
        }
        /* It stays cleared when the samples are old. */
        verdict_is(&check, NOW + 60000, wall_ms + 54000, 0, 0);
    }
}

/* Peers within the threshold agree, and one beyond does not. */
static void test_agreement_at_the_bound(void **state)
{
    static const int64_t aheads[] = {THRESHOLD_MS, -THRESHOLD_MS, THRESHOLD_MS + 1,
                                     -THRESHOLD_MS - 1};

    (void)state;
    for (size_t i = 0; i < ROWS(aheads); i++) {
        struct clock_check check;
        int64_t off_ms;

        jump(&check, HOUR_MS);
        sample(&check, 2, NOW + 5000, WALL + 5000 + HOUR_MS, aheads[i], 0);
        clock_check_tick(&check, NOW + 5000, WALL + 5000 + HOUR_MS);
        assert_int_equal(
            clock_check_verdict(&check, NOW + 5000, WALL + 5000 + HOUR_MS, &off_ms) != 0, i >= 2);
    }
}

/* What was known of the peers before the own clock was stepped is still known after it. */
static void test_a_step_does_not_move_the_peers(void **state)
{
    struct clock_check check;
    size_t samples;

    (void)state;
    /* An hour behind the others, and then set right. */
    clock_check_init(&check, THRESHOLD_MS);
    clock_check_tick(&check, NOW, WALL);
    sample(&check, 2, NOW, WALL, HOUR_MS, 0);
    sample(&check, 3, NOW, WALL, HOUR_MS + 20, 0);
    verdict_is(&check, NOW, WALL, ERR_CLOCK_SKEW, -HOUR_MS);
    clock_check_tick(&check, NOW + 1000, WALL + 1000 + HOUR_MS);
    verdict_is(&check, NOW + 1000, WALL + 1000 + HOUR_MS, 0, 0);
    /* Right, and then set an hour ahead: a jump, and off the median too. */
    clock_check_tick(&check, NOW + 2000, WALL + 2000 + 2 * HOUR_MS);
    verdict_is(&check, NOW + 2000, WALL + 2000 + 2 * HOUR_MS, ERR_CLOCK_SKEW, HOUR_MS);
    assert_int_equal(
        clock_check_cluster_ms(&check, NOW + 2000, WALL + 2000 + 2 * HOUR_MS, &samples),
        WALL + 2000 + HOUR_MS + 20);
    assert_int_equal(samples, 2);
    /* All are set an hour ahead: new samples show it. */
    sample(&check, 2, NOW + 2500, WALL + 2500 + 2 * HOUR_MS, 0, 0);
    sample(&check, 3, NOW + 2500, WALL + 2500 + 2 * HOUR_MS, 20, 0);
    verdict_is(&check, NOW + 2500, WALL + 2500 + 2 * HOUR_MS, 0, 0);
}

static void threshold_0(void *data)
{
    clock_check_init(data, 0);
}

static void too_many_members(void *data)
{
    clock_check_members(data, LIMIT_NODES + 1);
}

/* The own clock counts, stale samples do not. */
static void test_asked_once_a_majority_is_known(void **state)
{
    static const struct {
        size_t members;
        size_t samples;
        bool asked;
    } rows[] = {{0, 0, true},  {1, 0, true}, {2, 0, false}, {2, 1, true},
                {3, 0, false}, {3, 1, true}, {5, 1, false}, {5, 2, true}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct clock_check check;

        clock_check_init(&check, 1000);
        clock_check_members(&check, rows[i].members);
        for (size_t peer = 0; peer < rows[i].samples; peer++) {
            sample(&check, 2 + peer, 5000, 1000000, 0, 2);
        }
        assert_int_equal(clock_check_asked(&check, 5000), rows[i].asked);
        assert_int_equal(clock_check_asked(&check, 5000 + CLOCK_SAMPLE_FRESH_MS), rows[i].asked);
        assert_int_equal(clock_check_asked(&check, 5001 + CLOCK_SAMPLE_FRESH_MS),
                         rows[i].members <= 1);
    }
}

static void test_asserts(void **state)
{
    struct clock_check check;

    (void)state;
    clock_check_init(&check, 1);
    clock_check_members(&check, LIMIT_NODES);
    assert_true(death_by_assert(threshold_0, &check));
    assert_true(death_by_assert(too_many_members, &check));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_one_wrong_clock_refuses_alone),
        cmocka_unit_test(test_two_nodes_an_hour_apart),
        cmocka_unit_test(test_cluster_time_stays_within_64_bits),
        cmocka_unit_test(test_half_of_the_round_trip_is_added),
        cmocka_unit_test(test_samples_that_do_not_count),
        cmocka_unit_test(test_a_slow_answer_keeps_the_sample_before),
        cmocka_unit_test(test_more_peers_than_there_is_room_for),
        cmocka_unit_test(test_jumps_at_the_bound),
        cmocka_unit_test(test_small_steps_do_not_add_up),
        cmocka_unit_test(test_before_the_first_tick_nothing_jumps),
        cmocka_unit_test(test_a_jump_ahead_ends_by_return),
        cmocka_unit_test(test_a_jump_back_ends_when_caught_up),
        cmocka_unit_test(test_a_jump_back_ends_by_return),
        cmocka_unit_test(test_back_and_then_ahead),
        cmocka_unit_test(test_a_majority_clears_a_jump),
        cmocka_unit_test(test_agreement_at_the_bound),
        cmocka_unit_test(test_a_step_does_not_move_the_peers),
        cmocka_unit_test(test_asked_once_a_majority_is_known),
        cmocka_unit_test(test_asserts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
