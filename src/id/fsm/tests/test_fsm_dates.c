/*
 * test_fsm_dates.c - tags whose shape has a date: the counter begins anew with each period, no id
 * of an earlier one comes after, and a wrong or missing period gives nothing.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/fsm/tests/keys_scene.h"

#define NEW_YEAR_MS 1704067200000ULL /* 2024-01-01T00:00:00Z; NOW_MS is in November 2023 */
#define DAY_MS 86400000ULL

static struct put_result put_dated(struct id_apply *a, const char *name, const char *shape,
                                   struct tag_put put, bool force)
{
    put.name = name;
    put.shape = shape;
    put.shape_len = (uint16_t)strlen(shape);
    put.fields |= TAG_FIELD_SHAPE;
    return id_apply_put(a, put, force);
}

static void make(struct id_apply *a, const char *name, const char *shape)
{
    const struct tag_put put = {.fields = TAG_FIELD_MODE, .mode = TAG_MODE_STRICT};

    assert_int_equal(put_dated(a, name, shape, put, false).status, 0);
}

static int setup(void **state)
{
    assert_int_equal(keys_setup(state), 0);
    make(*state, "y", "{year}-{id:3}");
    return 0;
}

static struct strict_result take(struct id_apply *a, const char *name, uint32_t count,
                                 uint32_t period, const char *key)
{
    const struct strict_item item = {.name = name, .key = key, .count = count, .period = period};
    const struct command_list batch = {.key_limit = a->key_limit, .key_share = 100};
    struct strict_result result;

    id_apply_strict(a, batch, &item, 1, &result);
    return result;
}

static void reach(struct id_apply *a, uint64_t log_ms)
{
    while (a->fsm->settings.log_ms < log_ms) { /* a step ahead is cut to a day */
        assert_int_equal(id_apply_clock(a, log_ms), 0);
    }
}

static void test_it_begins_anew(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "y", 2, 2023, NULL), 2023001);
    gives(take(a, "y", 1, 2023, NULL), 2023003);
    reach(a, NEW_YEAR_MS);
    gives(take(a, "y", 1, 2024, NULL), 2024001);
    gives(take(a, "y", 3, 2024, NULL), 2024002);
    assert_int_equal(id_apply_row(a, "y")->max_id, 2024005);
}

/* Nobody gets one of yesterday any more, also who does not know yet that it is over. */
/* Shows lesson-dates. */
static void test_no_id_of_yesterday_after_todays_first(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "y", 1, 2023, NULL), 2023001);
    reach(a, NEW_YEAR_MS);
    gives(take(a, "y", 1, 2023, NULL), 2023002); /* nobody has said yet that it is 2024 */
    gives(take(a, "y", 1, 2024, NULL), 2024001);
    gives(take(a, "y", 1, 2023, NULL), 2024002);
}

static void test_a_period_in_the_middle_of_a_batch(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item items[] = {
        {.name = "y", .count = 1, .period = 2023},
        {.name = "y", .count = 2, .period = 2024},
        {.name = "y", .count = 1, .period = 2023},
        {.name = "a", .count = 5},
    };
    struct strict_result results[4];

    reach(a, NEW_YEAR_MS - 1);
    id_apply_strict(a, (struct command_list){.key_limit = 10}, items, 4, results);
    gives(results[0], 2023001);
    gives(results[1], 2024001);
    gives(results[2], 2024003);
    gives(results[3], 1);
}

/* Another time zone may be a day ahead; no clock is further. */
static void test_a_period_that_cannot_be(void **state)
{
    struct id_apply *a = *state;

    refuses(take(a, "y", 1, 2024, NULL), ERR_EMPTY, 0);
    refuses(take(a, "y", 1, 9999, NULL), ERR_EMPTY, 0);
    refuses(take(a, "y", 1, UINT32_MAX, NULL), ERR_EMPTY, 0);
    refuses(take(a, "y", 1, 0, NULL), ERR_EMPTY, 0);
    assert_int_equal(id_apply_row(a, "y")->max_id, 1);
    reach(a, NEW_YEAR_MS - DAY_MS - 1);
    refuses(take(a, "y", 1, 2024, NULL), ERR_EMPTY, 0);
    reach(a, NEW_YEAR_MS - DAY_MS);
    gives(take(a, "y", 1, 2024, NULL), 2024001);
}

static void test_without_the_logs_time(void **state)
{
    struct id_apply a;

    (void)state;
    id_apply_init(&a);
    make(&a, "y", "{year}-{id:3}");
    refuses(take(&a, "y", 1, 2023, NULL), ERR_EMPTY, 0);
    assert_int_equal(id_apply_row(&a, "y")->max_id, 1);
    id_apply_free(&a);
}

static void test_a_period_is_used_up(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "y", 990, 2023, NULL), 2023001);
    refuses(take(a, "y", 10, 2023, NULL), ERR_EXHAUSTED, 9);
    gives(take(a, "y", 9, 2023, NULL), 2023991);
    refuses(take(a, "y", 1, 2023, NULL), ERR_EXHAUSTED, 0);
    refuses(take(a, "y", 1, 2022, NULL), ERR_EMPTY, 0);
    reach(a, NEW_YEAR_MS);
    refuses(take(a, "y", 1000, 2024, NULL), ERR_EXHAUSTED, 999);
    refuses(take(a, "y", 1, 2023, NULL), ERR_EXHAUSTED, 0); /* that did not begin the year */
    gives(take(a, "y", 999, 2024, NULL), 2024001);
}

/* The one who asked before midnight and asks again after it gets what it was given. */
static void test_a_key_over_midnight(void **state)
{
    struct id_apply *a = *state;

    make(a, "d", "{year}{month}{day}-{id:4}");
    reach(a, NEW_YEAR_MS - 1);
    gives(take(a, "d", 2, 20231231, "k"), 202312310001);
    reach(a, NEW_YEAR_MS);
    gives(take(a, "d", 1, 20240101, NULL), 202401010001);
    replays(take(a, "d", 2, 20240101, "k"), 202312310001);
    gives(take(a, "d", 1, 20240101, NULL), 202401010002);
}

static void test_what_the_tag_must_be(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put strict = {.fields = TAG_FIELD_MODE, .mode = TAG_MODE_STRICT};
    const struct tag_put bounded = {
        .fields = TAG_FIELD_MODE | TAG_FIELD_MAX, .mode = TAG_MODE_STRICT, .max = 10000001};

    assert_int_equal(put_dated(a, "n", "{year}-{id:3}", (struct tag_put){0}, false).status,
                     ERR_INVALID);
    assert_int_equal(put_dated(a, "n", "{year}-{id:3}", bounded, false).status, ERR_INVALID);
    assert_int_equal(put_dated(a, "n", "{year}-{id:3}", strict, false).status, 0);
    assert_int_equal(id_apply_row(a, "n")->max, 10000000);
    for (uint8_t mode = TAG_MODE_TREND; mode <= TAG_MODE_MONOTONIC; mode++) {
        const struct tag_put put = {.name = "n", .fields = TAG_FIELD_MODE, .mode = mode};

        assert_int_equal(id_apply_put(a, put, true).status,
                         mode == TAG_MODE_STRICT ? 0 : ERR_INVALID);
    }
    assert_int_equal(id_apply_grant(a, "n", 10).status, ERR_WRONG_MODE);
    assert_int_equal(id_apply_window(a, "n", 10).status, ERR_WRONG_MODE);
}

/* By hand the counter could be moved to a year to come, and would stay there until then. */
static void test_max_id_is_moved_by_force_alone(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "y", .fields = TAG_FIELD_MAX_ID, .max_id = 2023100};

    gives(take(a, "y", 1, 2023, NULL), 2023001);
    assert_int_equal(id_apply_put(a, put, false).status, ERR_NEEDS_FORCE);
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    gives(take(a, "y", 1, 2023, NULL), 2023100);
    put.max_id = 2025000; /* the end of 2024: none is left of it */
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    refuses(take(a, "y", 1, 2023, NULL), ERR_EXHAUSTED, 0);
    put.max_id = 10000000; /* the end of 9999 */
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    refuses(take(a, "y", 1, 2023, NULL), ERR_EXHAUSTED, 0);
}

/* A tombstone keeps what was granted, and its shape. */
static void test_made_again(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "y", 7, 2023, NULL), 2023001);
    assert_int_equal(id_apply_delete(a, "y"), 0);
    refuses(take(a, "y", 1, 2023, NULL), ERR_UNKNOWN_TAG, 0);
    make(a, "y", "{year}-{id:3}");
    gives(take(a, "y", 1, 2023, NULL), 2023008);
}

static void test_whether_there_are_any(void **state)
{
    struct id_apply *a = *state;
    struct id_apply none;

    assert_true(fsm_has_dates(a->fsm));
    assert_int_equal(id_apply_delete(a, "y"), 0);
    assert_true(fsm_has_dates(a->fsm)); /* it may be made again */
    id_apply_init(&none);
    id_apply_mode(&none, "s", TAG_MODE_STRICT);
    assert_false(fsm_has_dates(none.fsm));
    id_apply_free(&none);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_begins_anew),
        TEST(test_no_id_of_yesterday_after_todays_first),
        TEST(test_a_period_in_the_middle_of_a_batch),
        TEST(test_a_period_that_cannot_be),
        cmocka_unit_test(test_without_the_logs_time),
        TEST(test_a_period_is_used_up),
        TEST(test_a_key_over_midnight),
        TEST(test_what_the_tag_must_be),
        TEST(test_max_id_is_moved_by_force_alone),
        TEST(test_made_again),
        TEST(test_whether_there_are_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
