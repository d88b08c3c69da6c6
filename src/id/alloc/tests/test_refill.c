/*
 * test_refill.c - sizes of segments over a life of a tag, against Leaf's rule, rate and demand.
 *
 * Thread: one. Time is the test's own.
 */
#include "src/tests/unit/test.h"
#include "src/base/limits.h"
#include "src/base/prng.h"
#include "src/id/alloc/segment.h"

#define MINUTE_MS (60 * 1000ULL)
#define COVER_MS REFILL_DEFAULT_COVER_MS

static struct refill tag_of(uint32_t step, uint32_t max_step)
{
    return (struct refill){.step = step, .max_step = max_step};
}

/* Load what the rule asks for; every earlier id but `left` was used. Returns the size. */
static uint32_t load(struct refill *refill, uint64_t now_ms, uint64_t left)
{
    uint32_t size = refill_size(refill, now_ms, 0, 0); /* cover 0: Leaf's rule alone */

    refill_loaded(refill, now_ms, size, left);
    return size;
}

static void test_leaf_sequence_of_steady_load(void **state)
{
    struct refill refill = tag_of(2000, 1000000);
    uint32_t wanted = 2000;

    (void)state;
    assert_int_equal(load(&refill, MINUTE_MS, 0), 2000);
    assert_int_equal(load(&refill, 2 * MINUTE_MS, 0), 2000);
    for (uint64_t i = 3; i < 11; i++) { /* 4000, 8000, ..., 512000 */
        wanted *= 2;
        assert_int_equal(load(&refill, i * MINUTE_MS, 0), wanted);
    }
    assert_int_equal(wanted, 512000);
    assert_int_equal(load(&refill, 11 * MINUTE_MS, 0), 512000); /* 1024000 would pass max_step */
}

static void test_leaf_doubles_up_to_max_step_exactly(void **state)
{
    struct refill refill = tag_of(500000, 1000000);

    (void)state;
    (void)load(&refill, 1, 0);
    (void)load(&refill, 2, 0);
    assert_int_equal(load(&refill, 3, 0), 1000000);
    assert_int_equal(load(&refill, 4, 0), 1000000);
    refill = tag_of(600000, 1000000);
    (void)load(&refill, 1, 0);
    (void)load(&refill, 2, 0);
    assert_int_equal(load(&refill, 3, 0), 600000);
}

static void test_leaf_boundaries_of_time(void **state)
{
    const struct {
        uint64_t passed_ms;
        uint32_t size;
    } cases[] = {
        {0, 8000},
        {15 * MINUTE_MS - 1, 8000},
        {15 * MINUTE_MS, 4000},
        {30 * MINUTE_MS - 1, 4000},
        {30 * MINUTE_MS, 2000},
        {1000 * MINUTE_MS, 2000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct refill refill = tag_of(1500, 1000000);

        refill.loads = 5;
        refill.size = 4000;
        refill.last_load_ms = 77;
        assert_int_equal(refill_size(&refill, 77 + cases[i].passed_ms, 0, 0), cases[i].size);
    }
}

static void test_leaf_halves_not_below_step(void **state)
{
    struct refill refill = tag_of(1500, 1000000);

    (void)state;
    refill.loads = 5;
    refill.size = 2999; /* half would be 1499: keep */
    assert_int_equal(refill_size(&refill, 40 * MINUTE_MS, 0, 0), 2999);
    refill.size = 3000;
    assert_int_equal(refill_size(&refill, 40 * MINUTE_MS, 0, 0), 1500);
    refill.step = 5000; /* raised since: the smallest segment there is */
    assert_int_equal(refill_size(&refill, 20 * MINUTE_MS, 0, 0), 5000);
}

static void test_size_asks_again_for_the_same(void **state)
{
    struct refill refill = tag_of(100, 100000);

    (void)state;
    (void)load(&refill, 10, 0);
    (void)load(&refill, 20, 0);
    for (int i = 0; i < 10; i++) { /* failed requests do not double it again and again */
        assert_int_equal(refill_size(&refill, 30, COVER_MS, 0),
                         refill_size(&refill, 30, COVER_MS, 0));
        assert_in_range(refill_size(&refill, 30, 0, 0), 200, 200);
    }
}

static void test_demand_raises_the_first_segment_too(void **state)
{
    struct refill refill = tag_of(10, 5000);

    (void)state;
    assert_int_equal(refill_size(&refill, 0, COVER_MS, 0), 10);
    assert_int_equal(refill_size(&refill, 0, COVER_MS, 9), 10);
    assert_int_equal(refill_size(&refill, 0, COVER_MS, 11), 11);
    assert_int_equal(refill_size(&refill, 0, COVER_MS, 5000), 5000);
    assert_int_equal(refill_size(&refill, 0, COVER_MS, 5001), 5000);
    assert_int_equal(refill_size(&refill, 0, COVER_MS, UINT64_MAX), 5000);
}

static void test_unknown_step_leaves_it_to_the_cluster(void **state)
{
    struct refill refill = {0};

    (void)state;
    assert_int_equal(refill_size(&refill, 5, COVER_MS, 0), 0);
    assert_int_equal(refill_size(&refill, 5, COVER_MS, 42), 42);
    assert_int_equal(refill_size(&refill, 5, COVER_MS, UINT64_MAX), LIMIT_TAG_STEP);
}

/* A burst on a tag with step 10: after three loads its buffer covers five seconds. */
/* Shows lesson-step-1. */
static void test_pace_reacts_at_once(void **state)
{
    struct refill refill = tag_of(10, 1000000);

    (void)state;
    refill_loaded(&refill, 1000, 10, 0);
    assert_int_equal(refill.pace_per_s, 0);
    refill_loaded(&refill, 1002, 10, 0); /* 10 ids in 2 ms, taken as in 100 ms */
    assert_int_equal(refill.pace_per_s, 100);
    assert_int_equal(refill_size(&refill, 1002, COVER_MS, 0), 500);
    refill_loaded(&refill, 1004, 500, 0);
    refill_loaded(&refill, 1104, 500, 0); /* the 500 in 100 ms */
    assert_int_equal(refill.pace_per_s, 5000);
    assert_int_equal(refill_size(&refill, 1104, COVER_MS, 0), 25000);
    assert_int_equal(refill_size(&refill, 1104, 200, 0), 1000);
    assert_int_equal(refill_size(&refill, 1104, 0, 0), 1000); /* Leaf's rule alone */
}

static void test_pace_counts_only_what_was_used(void **state)
{
    struct refill refill = tag_of(1000, 1000000);

    (void)state;
    refill_loaded(&refill, 0, 1000, 0);
    refill_loaded(&refill, 1000, 1000, 900); /* preloaded after 10 % */
    assert_int_equal(refill.pace_per_s, 100);
    refill_loaded(&refill, 2000, 1000, 1900 - 100);
    assert_int_equal(refill.pace_per_s, 100);
    refill_loaded(&refill, 3000, 1000, 5000); /* more left than there was: nothing used */
    assert_int_equal(refill.pace_per_s, 50);
}

static void test_pace_falls_by_halves_and_after_idling_at_once(void **state)
{
    struct refill refill = tag_of(1000, 1000000);

    (void)state;
    refill_loaded(&refill, 0, 1000, 0);
    refill_loaded(&refill, 100, 1000, 0);
    assert_int_equal(refill.pace_per_s, 10000);
    refill_loaded(&refill, 1100, 1000, 0); /* now 1000 a second */
    assert_int_equal(refill.pace_per_s, 5500);
    refill_loaded(&refill, 1100 + 20 * MINUTE_MS, 1000, 0);
    assert_int_equal(refill.pace_per_s, 0); /* 1000 in 20 minutes */
}

static void test_pace_at_one_moment(void **state)
{
    struct refill refill = tag_of(1000, 1000000);

    (void)state;
    refill_loaded(&refill, 5, 1000, 0);
    refill_loaded(&refill, 5, 1000, 0); /* no time passed: taken as 100 ms */
    assert_int_equal(refill.pace_per_s, 10000);
    refill_loaded(&refill, 4, 1000, 0); /* a clock that stands or falls does no harm */
    assert_int_equal(refill.pace_per_s, 10000);
    assert_int_equal(refill_size(&refill, 3, COVER_MS, 0), 50000);
}

/* A node that hands out per_ms ids each ms for so long; a refill is there at once. */
struct life {
    struct refill refill;
    uint64_t now_ms;
    uint64_t current; /* ids left in both slots */
    uint64_t current_size;
    uint64_t next;
    unsigned refills;
};

static uint64_t held(const struct life *life)
{
    return life->current + life->next;
}

/* Until so many more refills have come; or, with 0, ms. *ret_least: what it held least. */
static void live(struct life *life, uint64_t per_ms, unsigned refills, uint64_t ms,
                 uint64_t *ret_least)
{
    unsigned until = life->refills + refills;
    uint64_t end_ms = life->now_ms + ms;

    while (refills > 0 ? life->refills < until : life->now_ms < end_ms) {
        life->now_ms++;
        if (life->current < per_ms) {
            life->current += life->next;
            life->current_size = life->current;
            life->next = 0;
        }
        life->current -= life->current < per_ms ? life->current : per_ms;
        *ret_least = held(life) < *ret_least ? held(life) : *ret_least;
        if (life->next == 0 && refill_due((uint32_t)(life->current_size - life->current),
                                          (uint32_t)life->current_size, REFILL_DEFAULT_PERCENT)) {
            refill_hurry(&life->refill, life->now_ms, held(life));
            life->next = refill_size(&life->refill, life->now_ms, COVER_MS, 0);
            refill_loaded(&life->refill, life->now_ms, (uint32_t)life->next, life->current);
            life->refills++;
        }
    }
}

/* Ten minutes at 50,000 ids a second, whenever the majority goes; and within twice of that and the
 * margin, so that a crash does not skip more. */
static void test_cover_at_50000_a_second(void **state)
{
    struct life life = {.refill = tag_of(1000, LIMIT_TAG_STEP)};
    uint64_t least = UINT64_MAX;

    (void)state;
    life.refill.cover_s = 600;
    live(&life, 50, 6, 0, &least);
    assert_in_range(life.refill.size, 50000 * 600, 2 * 50000 * 600);
    least = UINT64_MAX;
    live(&life, 50, 0, 40 * MINUTE_MS, &least);
    assert_true(least >= 50000ULL * 600);
    assert_in_range(life.refill.size, 50000 * 600, 2 * 50000 * 600);
}

/* 100 times its rate: after two refills it lasts again, wherever in a segment the burst begins. */
static void test_cover_in_a_burst(void **state)
{
    (void)state;
    for (unsigned at = 0; at < 10; at++) {
        struct life life = {.refill = tag_of(100, LIMIT_TAG_STEP)};
        uint64_t least = UINT64_MAX;

        life.refill.cover_s = 60;
        live(&life, 1, 6, 0, &least);
        live(&life, 1, 0, at * 7000, &least);
        live(&life, 100, REFILL_GRACE_LOADS, 0, &least);
        assert_true(held(&life) >= 100ULL * 1000 * 60);
        least = UINT64_MAX;
        live(&life, 100, 0, 3 * MINUTE_MS, &least);
        assert_true(least >= 100ULL * 1000 * 60);
    }
}

/* Leaf's rule is for a tag without one, and max_step bounds both; a slow tag has fractions. */
static void test_cover_and_the_other_rules(void **state)
{
    struct refill refill = tag_of(10, 5000);

    (void)state;
    refill.cover_s = 600;
    refill_loaded(&refill, 0, 10, 0);
    refill_loaded(&refill, 1000, 10, 10);
    refill_loaded(&refill, 2000, 10, 20);
    assert_int_equal(refill_size(&refill, 2000, COVER_MS, 0), 10); /* not doubled */
    refill_hurry(&refill, 22000, 20); /* 10 in 20 s: half an id a second */
    assert_int_equal(refill_size(&refill, 22000, COVER_MS, 0), 420);
    refill_hurry(&refill, 22000, 30); /* never down */
    assert_int_equal(refill_size(&refill, 22000, COVER_MS, 0), 420);
    assert_int_equal(refill_size(&refill, 22000, COVER_MS, 500), 500);
    refill.pace_per_s = 1000;
    assert_int_equal(refill_size(&refill, 22000, COVER_MS, 0), 5000);
    refill.cover_s = 0;
    refill_hurry(&refill, 22000, 0);
    assert_int_equal(refill_size(&refill, 22000, 1, 0), 20); /* Leaf's rule again */
}

static void test_reset_begins_anew(void **state)
{
    struct refill refill = tag_of(10, 1000);

    (void)state;
    refill_loaded(&refill, 0, 10, 0);
    refill_loaded(&refill, 1, 10, 0);
    refill.end = 100;
    refill_reset(&refill, 4);
    assert_int_equal(refill.generation, 4);
    assert_int_equal(refill.loads, 0);
    assert_int_equal(refill.pace_per_s, 0);
    assert_true(refill.end == 0);
    assert_int_equal(refill.step, 10);
    assert_int_equal(refill_size(&refill, 2, COVER_MS, 0), 10);
}

/* Whatever the numbers, the size lies in step..max_step and nothing overflows. */
static void test_size_stays_in_bounds(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t step = 1 + (uint32_t)prng_below(&prng, LIMIT_TAG_STEP);
        uint32_t more = (uint32_t)prng_below(&prng, LIMIT_TAG_STEP - step + 1);
        struct refill refill = tag_of(step, step + more);
        uint64_t now_ms = prng_next(&prng);
        uint32_t size;

        for (unsigned k = 0; k < 4; k++) {
            size = refill_size(&refill, now_ms, (uint32_t)prng_next(&prng),
                               prng_next(&prng) >> prng_below(&prng, 64));
            assert_in_range(size, step, step + more);
            refill_loaded(&refill, now_ms, size, prng_next(&prng) >> (1 + prng_below(&prng, 63)));
            now_ms += prng_below(&prng, 3) == 0 ? prng_next(&prng) : prng_below(&prng, 4000000);
        }
    }
}

static void test_due_at_the_threshold(void **state)
{
    (void)state;
    assert_false(refill_due(200, 2000, 10)); /* Leaf: the 202nd request, 201 ids issued */
    assert_true(refill_due(201, 2000, 10));
    assert_false(refill_due(1, 10, 10));
    assert_true(refill_due(2, 10, 10));
    assert_true(refill_due(0, 0, 10)); /* nothing there at all */
    assert_true(refill_due(5, 5, 100));
    assert_false(refill_due(4, 5, 100));
    assert_true(refill_due(1, LIMIT_TAG_STEP, 0));
    assert_false(refill_due(0, LIMIT_TAG_STEP, 0));
    assert_false(refill_due(UINT32_MAX - 1, UINT32_MAX, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaf_sequence_of_steady_load),
        cmocka_unit_test(test_leaf_doubles_up_to_max_step_exactly),
        cmocka_unit_test(test_leaf_boundaries_of_time),
        cmocka_unit_test(test_leaf_halves_not_below_step),
        cmocka_unit_test(test_size_asks_again_for_the_same),
        cmocka_unit_test(test_demand_raises_the_first_segment_too),
        cmocka_unit_test(test_unknown_step_leaves_it_to_the_cluster),
        cmocka_unit_test(test_pace_reacts_at_once),
        cmocka_unit_test(test_pace_counts_only_what_was_used),
        cmocka_unit_test(test_pace_falls_by_halves_and_after_idling_at_once),
        cmocka_unit_test(test_pace_at_one_moment),
        cmocka_unit_test(test_cover_at_50000_a_second),
        cmocka_unit_test(test_cover_in_a_burst),
        cmocka_unit_test(test_cover_and_the_other_rules),
        cmocka_unit_test(test_reset_begins_anew),
        cmocka_unit_test(test_size_stays_in_bounds),
        cmocka_unit_test(test_due_at_the_threshold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
