/*
 * test_busiest.c - the tags that grow fastest are found among many, and their rates are right.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "raft/cluster/busiest.h"

#define START_MS 5000
#define MAX 20

static void note(struct busiest *busiest, const char *name, uint64_t grown, uint64_t now_ms)
{
    busiest_note(busiest, name, strlen(name), grown, now_ms);
}

static void expect_rate(const struct busiest_tag *tag, const char *name, double per_s)
{
    assert_string_equal(tag->place->name, name);
    assert_true(tag->per_s > 0.9 * per_s && tag->per_s < 1.1 * per_s);
}

static void test_rates_of_tags_that_grow_steadily(void **state)
{
    struct busiest_tag tags[MAX];
    struct busiest busiest;
    uint64_t now_ms = START_MS;

    (void)state;
    busiest_init(&busiest, 7, now_ms);
    assert_int_equal(busiest_look(&busiest, now_ms, tags, MAX), 0);
    for (unsigned second = 0; second < 600; second++, now_ms += 1000) {
        note(&busiest, "slow", 10, now_ms);
        if (second % 10 == 0) {
            note(&busiest, "in large pieces", 50000, now_ms);
        }
    }
    assert_int_equal(busiest_look(&busiest, now_ms, tags, MAX), 2);
    expect_rate(&tags[0], "in large pieces", 5000);
    expect_rate(&tags[1], "slow", 10);
    assert_int_equal(busiest_look(&busiest, now_ms, tags, 1), 1);
    expect_rate(&tags[0], "in large pieces", 5000);
}

static void test_what_is_over_fades(void **state)
{
    struct busiest_tag tags[MAX];
    struct busiest busiest;
    uint64_t now_ms = START_MS;

    (void)state;
    busiest_init(&busiest, 7, now_ms);
    for (unsigned second = 0; second < 300; second++, now_ms += 1000) {
        note(&busiest, "a", 1000, now_ms);
    }
    now_ms += BUSIEST_HALF_MS;
    assert_int_equal(busiest_look(&busiest, now_ms, tags, MAX), 1);
    expect_rate(&tags[0], "a", 500);
    now_ms += 1000ULL * BUSIEST_HALF_MS;
    assert_int_equal(busiest_look(&busiest, now_ms, tags, MAX), 0);
    note(&busiest, "b", 3000, now_ms);
    assert_int_equal(busiest_look(&busiest, now_ms, tags, MAX), 1);
    assert_string_equal(tags[0].place->name, "b");
}

/* Three that are busy, among a hundred thousand that come and go. */
static void test_the_busiest_are_found_among_many(void **state)
{
    struct busiest_tag tags[MAX];
    struct busiest busiest;
    uint64_t now_ms = START_MS;
    char name[32];

    (void)state;
    busiest_init(&busiest, 7, now_ms);
    for (unsigned i = 0; i < 100000; i++) {
        now_ms += 3;
        (void)snprintf(name, sizeof name, "tag-%u", i * 7919 % 100000);
        note(&busiest, name, 1, now_ms);
        note(&busiest, "first", 30, now_ms);
        note(&busiest, "second", 20, now_ms);
        note(&busiest, "third", 10, now_ms);
    }
    assert_int_equal(busiest.count, BUSIEST_PLACES);
    assert_int_equal(busiest_look(&busiest, now_ms, tags, 3), 3);
    expect_rate(&tags[0], "first", 10000);
    expect_rate(&tags[1], "second", 6667);
    expect_rate(&tags[2], "third", 3333);
}

static void test_the_longest_name_and_the_largest_growth(void **state)
{
    char name[LIMIT_TAG_NAME_BYTES];
    struct busiest_tag tags[MAX];
    struct busiest busiest;

    (void)state;
    memset(name, 'x', sizeof name);
    busiest_init(&busiest, 7, START_MS);
    busiest_note(&busiest, name, sizeof name, LIMIT_TAG_STEP, START_MS);
    busiest_note(&busiest, name, sizeof name - 1, 1, START_MS);
    assert_int_equal(busiest_look(&busiest, START_MS, tags, MAX), 2);
    assert_int_equal(tags[0].place->name_len, LIMIT_TAG_NAME_BYTES);
    assert_int_equal(tags[1].place->name_len, LIMIT_TAG_NAME_BYTES - 1);
}

/* A clock that falls back, or does not move, changes nothing. */
static void test_a_clock_that_stands(void **state)
{
    struct busiest_tag tags[MAX];
    struct busiest busiest;

    (void)state;
    busiest_init(&busiest, 7, START_MS);
    for (unsigned i = 0; i < 100; i++) {
        note(&busiest, "a", 10, START_MS - i);
    }
    assert_int_equal(busiest_look(&busiest, 0, tags, MAX), 1);
    expect_rate(&tags[0], "a", 100); /* over ten seconds, the least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_of_tags_that_grow_steadily),
        cmocka_unit_test(test_what_is_over_fades),
        cmocka_unit_test(test_the_busiest_are_found_among_many),
        cmocka_unit_test(test_the_longest_name_and_the_largest_growth),
        cmocka_unit_test(test_a_clock_that_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
