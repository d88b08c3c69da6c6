/*
 * test_growth.c - how far tags grew in the last hour, and from when on that is known.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/service/backups.h"

#define START_MS 1700000000000ULL
#define MINUTE_MS 60000

static void note(struct growth *growth, const char *name, uint64_t max_id, uint64_t now_ms)
{
    const struct tag_row row = {.name = name, .name_len = (uint16_t)strlen(name), .max_id = max_id};

    growth_note(growth, &row, now_ms);
}

static void expect(const struct growth *growth, const char *name, uint64_t max_id)
{
    uint64_t found = 0;

    assert_true(growth_tag(growth, name, strlen(name), &found));
    assert_int_equal(found, max_id);
}

static void expect_none(const struct growth *growth, const char *name)
{
    uint64_t found;

    assert_false(growth_tag(growth, name, strlen(name), &found));
}

static void test_the_first_max_id_of_the_hour_is_kept(void **state)
{
    struct growth growth;

    (void)state;
    growth = (struct growth){.seed = 1};
    growth_reset(&growth, START_MS);
    expect_none(&growth, "a");
    assert_int_equal(growth_look(&growth, START_MS).since_ms, START_MS);
    note(&growth, "a", 100, START_MS);
    note(&growth, "a", 200, START_MS + 1);
    note(&growth, "b", 7, START_MS + 25 * MINUTE_MS);
    note(&growth, "a", 300, START_MS + 25 * MINUTE_MS);
    expect(&growth, "a", 100);
    expect(&growth, "b", 7);
    expect_none(&growth, "c");
    assert_true(growth_look(&growth, START_MS + 25 * MINUTE_MS).whole);
    growth_free(&growth);
}

static void test_what_is_older_than_an_hour_is_forgotten(void **state)
{
    struct growth growth;
    uint64_t now_ms = START_MS;
    uint64_t since_ms;

    (void)state;
    growth = (struct growth){.seed = 1};
    growth_reset(&growth, START_MS);
    note(&growth, "old", 5, now_ms);
    for (unsigned period = 0; period < 10; period++) {
        note(&growth, "busy", 100 * period, now_ms);
        now_ms += GROWTH_PERIOD_MS;
        since_ms = growth_look(&growth, now_ms - 1).since_ms;
        assert_true(now_ms - since_ms <= GROWTH_PERIODS * GROWTH_PERIOD_MS);
        assert_true(period < 3 || now_ms - since_ms >= 60 * MINUTE_MS);
    }
    expect(&growth, "busy", 600);
    (void)growth_look(&growth, now_ms);
    expect(&growth, "busy", 700);
    expect_none(&growth, "old");
    growth_free(&growth);
}

/* Nothing changed for hours: the rate is that of the last hour, not of all of them. */
static void test_a_long_pause(void **state)
{
    const uint64_t now_ms = START_MS + 610 * MINUTE_MS;
    struct backup_growth late;
    struct growth growth;

    (void)state;
    growth = (struct growth){.seed = 1};
    growth_reset(&growth, START_MS);
    note(&growth, "a", 5, START_MS);
    note(&growth, "b", 9, now_ms);
    expect_none(&growth, "a");
    expect(&growth, "b", 9);
    assert_in_range(now_ms - growth_look(&growth, now_ms).since_ms, 60 * MINUTE_MS, 80 * MINUTE_MS);
    late = growth_look(&growth, now_ms + 90 * MINUTE_MS);
    expect_none(&growth, "b");
    assert_in_range(late.until_ms - late.since_ms, 60 * MINUTE_MS, 80 * MINUTE_MS);
    growth_free(&growth);
}

static void test_a_clock_that_goes_back_forgets_nothing(void **state)
{
    struct growth growth;

    (void)state;
    growth = (struct growth){.seed = 1};
    growth_reset(&growth, START_MS);
    note(&growth, "a", 5, START_MS);
    note(&growth, "a", 6, START_MS - 90 * MINUTE_MS);
    expect(&growth, "a", 5);
    growth_free(&growth);
}

static void test_a_reset_knows_nothing_of_before(void **state)
{
    struct growth growth;

    (void)state;
    growth = (struct growth){.seed = 1};
    growth_reset(&growth, START_MS);
    note(&growth, "a", 5, START_MS);
    growth_reset(&growth, START_MS + MINUTE_MS);
    expect_none(&growth, "a");
    assert_int_equal(growth_look(&growth, START_MS + MINUTE_MS).since_ms, START_MS + MINUTE_MS);
    growth_free(&growth);
}

static void test_more_tags_than_are_watched_are_not_known(void **state)
{
    struct growth growth;
    char name[16];

    (void)state;
    growth = (struct growth){.seed = 1};
    growth_reset(&growth, START_MS);
    for (unsigned i = 0; i < LIMIT_GROWTH_TAGS; i++) {
        (void)snprintf(name, sizeof name, "tag-%u", i);
        note(&growth, name, i, START_MS);
    }
    assert_true(growth_look(&growth, START_MS).whole);
    note(&growth, "tag-0", 99, START_MS); /* not another one */
    assert_true(growth_look(&growth, START_MS).whole);
    note(&growth, "one more", 1, START_MS);
    assert_false(growth_look(&growth, START_MS).whole);
    expect_none(&growth, "one more");
    for (unsigned i = 0; i < LIMIT_GROWTH_TAGS; i += 1000) {
        (void)snprintf(name, sizeof name, "tag-%u", i);
        expect(&growth, name, i);
    }
    /* In the next period it is watched; whole again once the full one is over an hour old. */
    note(&growth, "one more", 2, START_MS + GROWTH_PERIOD_MS);
    expect(&growth, "one more", 2);
    assert_false(growth_look(&growth, START_MS + GROWTH_PERIOD_MS).whole);
    for (unsigned period = 2; period <= GROWTH_PERIODS; period++) {
        note(&growth, "one more", 3, START_MS + period * (uint64_t)GROWTH_PERIOD_MS);
    }
    assert_true(growth_look(&growth, START_MS + GROWTH_PERIODS * (uint64_t)GROWTH_PERIOD_MS).whole);
    growth_free(&growth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_max_id_of_the_hour_is_kept),
        cmocka_unit_test(test_what_is_older_than_an_hour_is_forgotten),
        cmocka_unit_test(test_a_long_pause),
        cmocka_unit_test(test_a_clock_that_goes_back_forgets_nothing),
        cmocka_unit_test(test_a_reset_knows_nothing_of_before),
        cmocka_unit_test(test_more_tags_than_are_watched_are_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
