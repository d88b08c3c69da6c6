/*
 * test_fsm_monotonic.c - what apply does for monotonic tags: windows, keys whose ids the leader has
 * chosen, windows given back, changes of the mode, and what a generation stands for. The letters
 * are the rules of docs/monotonic.md.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/id/tests/id_stamp.h"

#define TERM 7
#define LOG_MS 1700000000000

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    a->term = TERM;
    id_apply_mode(a, "m", TAG_MODE_MONOTONIC);
    assert_int_equal(id_apply_clock(a, LOG_MS), 0);
    return 0;
}

static void window_is(struct grant_result result, uint64_t first, uint32_t size)
{
    assert_int_equal(result.status, 0);
    assert_true(result.first == first && result.size == size);
}

static struct strict_result keyed(struct id_apply *a, const char *name, const char *key,
                                  uint64_t first, uint32_t count)
{
    return id_apply_keyed(a, TERM,
                          (struct keyed_item){.item = {.name = name, .key = key, .count = count},
                                              .first = first,
                                              .generation = id_apply_row(a, name)->generation});
}

static uint64_t max_id(struct id_apply *a, const char *name)
{
    return id_apply_row(a, name)->max_id;
}

static int put_max_id(struct id_apply *a, const char *name, uint64_t wanted, bool force)
{
    return id_apply_put(a,
                        (struct tag_put){.name = name,
                                         .name_len = (uint16_t)strlen(name),
                                         .fields = TAG_FIELD_MAX_ID,
                                         .max_id = wanted},
                        force)
        .status;
}

/* --- windows --- */

static void test_a_window_begins_where_the_last_one_ends(void **state)
{
    struct id_apply *a = *state;

    a->wall_ms = 5000;
    window_is(id_apply_window(a, "m", 10), 1, 10);
    window_is(id_apply_window(a, "m", 1), 11, 1);
    assert_true(max_id(a, "m") == 12);
    assert_int_equal(id_apply_row(a, "m")->updated_ms, 5000);
    assert_int_equal(a->changed, 1); /* the tag alone: nobody becomes a segment holder */
}

static void test_a_window_may_be_larger_than_max_step(void **state)
{
    struct id_apply *a = *state;
    uint32_t step = id_apply_row(a, "m")->max_step;

    window_is(id_apply_window(a, "m", step + 1), 1, step + 1);
    window_is(id_apply_window(a, "m", UINT32_MAX), step + 2, LIMIT_TAG_STEP);
}

static void test_a_window_is_cut_at_the_end(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(put_max_id(a, "m", TAG_MAX_ID_END - 3, true), 0);
    window_is(id_apply_window(a, "m", 10), TAG_MAX_ID_END - 3, 3);
    assert_int_equal(id_apply_window(a, "m", 1).status, ERR_EXHAUSTED);
    assert_true(max_id(a, "m") == TAG_MAX_ID_END);
}

static void test_a_window_is_cut_at_the_max_of_the_tag(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1});
    command_item_put(
        &command, COMMAND_TAGS_PUT,
        &(struct tag_put){.name = "m", .name_len = 1, .fields = TAG_FIELD_MAX, .max = 5});
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    buf_free(&command);
    window_is(id_apply_window(a, "m", 10), 1, 4);
    assert_int_equal(id_apply_window(a, "m", 1).status, ERR_EXHAUSTED);
}

static void test_only_live_monotonic_tags_have_windows(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "t", TAG_MODE_TREND);
    id_apply_mode(a, "s", TAG_MODE_STRICT);
    id_apply_mode(a, "gone", TAG_MODE_MONOTONIC);
    assert_int_equal(id_apply_delete(a, "gone"), 0);
    assert_int_equal(id_apply_window(a, "t", 5).status, ERR_WRONG_MODE);
    assert_int_equal(id_apply_window(a, "s", 5).status, ERR_WRONG_MODE);
    assert_int_equal(id_apply_window(a, "gone", 5).status, ERR_UNKNOWN_TAG);
    assert_int_equal(id_apply_window(a, "none", 5).status, ERR_UNKNOWN_TAG);
    assert_int_equal(a->changed, 0);
}

static void test_segments_and_strict_ids_are_refused(void **state)
{
    struct id_apply *a = *state;
    struct strict_result result = id_apply_take(a, "m", 1);

    assert_int_equal(result.status, ERR_WRONG_MODE);
    assert_int_equal(result.detail, TAG_MODE_MONOTONIC);
    assert_int_equal(id_apply_grant(a, "m", 5).status, ERR_WRONG_MODE);
    assert_true(max_id(a, "m") == 1);
}

/* --- whose it is --- */

static void test_a_node_cannot_append_what_is_the_leaders(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;
    int32_t status = 0;

    command_put(&command, COMMAND_WINDOW, &(struct command_list){.wall_ms = 1});
    command_item_put(&command, COMMAND_WINDOW, &(struct grant_item){"m", 1, 5});
    command_items_end(&command);
    id_stamp_as(&command, 3, 1, 1, 1);
    (void)id_apply_bytes(a, &command);
    assert_int_equal(status_result_decode(a->result.data, a->result.len, &status), 0);
    assert_int_equal(status, ERR_BAD_MESSAGE);
    assert_true(max_id(a, "m") == 1);
    buf_free(&command);
}

/* --- keys (R9) --- */

static void test_a_key_stands_for_the_ids_that_the_leader_took(void **state)
{
    struct id_apply *a = *state;
    struct strict_result result;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    result = keyed(a, "m", "k", 4, 2);
    assert_int_equal(result.status, 0);
    assert_true(result.first == 4 && !result.replayed);
    assert_true(max_id(a, "m") == 11);
    result = keyed(a, "m", "k", 8, 2); /* a retry, with other ids */
    assert_int_equal(result.status, 0);
    assert_true(result.first == 4 && result.replayed);
    result = keyed(a, "m", "k", 8, 1);
    assert_int_equal(result.status, ERR_KEY_CONFLICT);
    assert_int_equal(result.detail, 2);
}

static void test_keyed_of_another_term_does_nothing(void **state)
{
    struct id_apply *a = *state;
    const struct keyed_item item = {.item = {.name = "m", .key = "k", .count = 1},
                                    .first = 1,
                                    .generation = id_apply_row(a, "m")->generation};

    window_is(id_apply_window(a, "m", 10), 1, 10);
    assert_int_equal(id_apply_keyed(a, TERM - 1, item).status, ERR_STALE);
    assert_int_equal(id_apply_keyed(a, TERM + 1, item).status, ERR_STALE);
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_keyed(a, TERM, item).status, 0);
    assert_int_equal(id_apply_keyed(a, TERM - 1, item).status, ERR_STALE); /* also when known */
}

static void test_keyed_of_another_generation_does_nothing(void **state)
{
    struct id_apply *a = *state;
    struct keyed_item item = {.item = {.name = "m", .key = "k", .count = 1}, .first = 1};

    window_is(id_apply_window(a, "m", 10), 1, 10);
    item.generation = id_apply_row(a, "m")->generation + 1;
    assert_int_equal(id_apply_keyed(a, TERM, item).status, ERR_STALE);
    item.generation -= 2;
    assert_int_equal(id_apply_keyed(a, TERM, item).status, ERR_STALE);
    assert_int_equal(a->changed, 0);
}

static void test_keyed_ids_lie_below_max_id(void **state)
{
    struct id_apply *a = *state;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    assert_int_equal(keyed(a, "m", "k", 10, 2).status, ERR_STALE);
    assert_int_equal(keyed(a, "m", "k", 12, 1).status, ERR_STALE);
    assert_int_equal(keyed(a, "m", "k", 10, 1).status, 0);
}

static void test_keyed_needs_a_live_monotonic_tag(void **state)
{
    struct id_apply *a = *state;
    struct strict_result result;
    struct keyed_item item = {.item = {.name = "none", .key = "k", .count = 1}, .first = 1};

    assert_int_equal(id_apply_keyed(a, TERM, item).status, ERR_UNKNOWN_TAG);
    id_apply_mode(a, "t", TAG_MODE_TREND);
    result = keyed(a, "t", "k", 1, 1);
    assert_int_equal(result.status, ERR_WRONG_MODE);
    assert_int_equal(result.detail, TAG_MODE_TREND);
    id_apply_mode(a, "s", TAG_MODE_STRICT);
    result = keyed(a, "s", "k", 1, 1);
    assert_int_equal(result.status, ERR_WRONG_MODE);
    assert_int_equal(result.detail, TAG_MODE_STRICT);
    assert_int_equal(id_apply_delete(a, "m"), 0);
    item.item.name = "m";
    item.generation = id_apply_row(a, "m")->generation;
    assert_int_equal(id_apply_keyed(a, TERM, item).status, ERR_UNKNOWN_TAG);
}

static void test_keyed_needs_room_and_time(void **state)
{
    struct id_apply *a = *state;
    struct keyed_item item = {.item = {.name = "m", .key = "b", .count = 1, .client = 9},
                              .first = 2,
                              .generation = id_apply_row(a, "m")->generation};
    struct strict_result result;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    item.item.most = 1;
    assert_int_equal(id_apply_keyed(a, TERM, item).status, 0);
    item.item.key = "c";
    result = id_apply_keyed(a, TERM, item);
    assert_int_equal(result.status, ERR_SHARE);
    assert_true(result.detail == share_detail(1, 1));
    a->key_limit = 1;
    item.item.client = 0;
    result = id_apply_keyed(a, TERM, item);
    assert_int_equal(result.status, ERR_KEYS_FULL);
    assert_int_equal(result.detail, 1);
}

/* --- windows that are given back (R10) --- */

static int give_back(struct id_apply *a, uint64_t first, uint64_t end)
{
    return id_apply_give_back(
        a, (struct give_back_item){.name = "m",
                                   .generation = id_apply_row(a, "m")->generation,
                                   .first = first,
                                   .end = end});
}

static void test_the_rest_of_a_window_comes_back(void **state)
{
    struct id_apply *a = *state;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    assert_int_equal(give_back(a, 4, 11), 0);
    assert_true(max_id(a, "m") == 4);
    window_is(id_apply_window(a, "m", 2), 4, 2);
}

static void test_a_window_below_another_is_burnt(void **state)
{
    struct id_apply *a = *state;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    window_is(id_apply_window(a, "m", 10), 11, 10);
    assert_int_equal(give_back(a, 4, 11), ERR_CONFLICT);
    assert_true(max_id(a, "m") == 21);
}

static void test_a_late_copy_of_a_give_back_does_nothing(void **state)
{
    struct id_apply *a = *state;
    struct buf copy;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    assert_int_equal(give_back(a, 4, 11), 0);
    copy = id_apply_copy(a);
    window_is(id_apply_window(a, "m", 7), 4, 7); /* bound is 11 again */
    id_apply_again(a, &copy);
    assert_true(max_id(a, "m") == 11);
    buf_free(&copy);
}

static void test_a_give_back_of_an_older_generation_does_nothing(void **state)
{
    struct id_apply *a = *state;
    uint32_t generation = id_apply_row(a, "m")->generation;

    window_is(id_apply_window(a, "m", 10), 1, 10);
    id_apply_mode(a, "m", TAG_MODE_STRICT);
    assert_int_equal(give_back(a, 4, 11), ERR_CONFLICT); /* strict: nothing ever comes back */
    id_apply_mode(a, "m", TAG_MODE_MONOTONIC);
    assert_int_equal(
        id_apply_give_back(
            a,
            (struct give_back_item){.name = "m", .generation = generation, .first = 4, .end = 11}),
        ERR_CONFLICT);
    assert_true(max_id(a, "m") == 11);
}

/* --- generations (R11), and changes of the mode --- */

static void test_what_changes_who_holds_ids_raises_the_generation(void **state)
{
    struct id_apply *a = *state;
    uint32_t generation = id_apply_row(a, "m")->generation;

    assert_int_equal(put_max_id(a, "m", 100, false), 0);
    assert_int_equal(id_apply_row(a, "m")->generation, ++generation);
    assert_int_equal(put_max_id(a, "m", 100, false), 0); /* also if it is what it was */
    assert_int_equal(id_apply_row(a, "m")->generation, ++generation);
    id_apply_mode(a, "m", TAG_MODE_STRICT);
    assert_int_equal(id_apply_row(a, "m")->generation, ++generation);
    assert_int_equal(put_max_id(a, "m", 200, false), 0); /* nobody holds ids of a strict tag */
    assert_int_equal(id_apply_row(a, "m")->generation, generation);
    id_apply_mode(a, "m", TAG_MODE_MONOTONIC);
    assert_int_equal(id_apply_row(a, "m")->generation, ++generation);
    assert_int_equal(id_apply_delete(a, "m"), 0);
    assert_int_equal(id_apply_row(a, "m")->generation, ++generation);
    id_apply_mode(a, "m", TAG_MODE_MONOTONIC);
    assert_int_equal(id_apply_row(a, "m")->generation, ++generation);
    assert_true(max_id(a, "m") == 200);
}

static void test_from_trend_segments_are_recalled_first(void **state)
{
    struct id_apply *a = *state;
    struct strict_result result;

    id_apply_mode(a, "t", TAG_MODE_TREND);
    assert_int_equal(id_apply_grant_to(a, 2, "t", 10).status, 0);
    id_apply_mode(a, "t", TAG_MODE_MONOTONIC);
    assert_true(id_apply_row(a, "t")->recalling);
    assert_int_equal(id_apply_window(a, "t", 5).status, ERR_CHANGING);
    assert_int_equal(keyed(a, "t", "k", 1, 1).status, ERR_STALE);
    id_apply_mode(a, "t", TAG_MODE_STRICT); /* it waits on, whatever it becomes */
    assert_true(id_apply_row(a, "t")->recalling);
    result = id_apply_take(a, "t", 1);
    assert_int_equal(result.status, ERR_CHANGING);
    assert_int_equal(result.detail, 2);
    id_apply_mode(a, "t", TAG_MODE_MONOTONIC);
    id_apply_recalled(a, 2, "t", id_apply_row(a, "t")->generation);
    assert_false(id_apply_row(a, "t")->recalling);
    window_is(id_apply_window(a, "t", 5), 11, 5);
}

static void test_between_monotonic_and_the_others_nothing_is_recalled(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "t", TAG_MODE_TREND);
    assert_int_equal(id_apply_grant_to(a, 2, "t", 10).status, 0); /* there is a segment holder */
    window_is(id_apply_window(a, "m", 10), 1, 10);
    id_apply_mode(a, "m", TAG_MODE_STRICT);
    assert_false(id_apply_row(a, "m")->recalling);
    assert_true(id_apply_take(a, "m", 1).first == 11); /* above the window */
    id_apply_mode(a, "m", TAG_MODE_MONOTONIC);
    assert_false(id_apply_row(a, "m")->recalling);
    window_is(id_apply_window(a, "m", 10), 12, 10);
    id_apply_mode(a, "m", TAG_MODE_TREND);
    assert_true(id_apply_grant_to(a, 2, "m", 10).first == 22);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_window_begins_where_the_last_one_ends),
        TEST(test_a_window_may_be_larger_than_max_step),
        TEST(test_a_window_is_cut_at_the_end),
        TEST(test_a_window_is_cut_at_the_max_of_the_tag),
        TEST(test_only_live_monotonic_tags_have_windows),
        TEST(test_segments_and_strict_ids_are_refused),
        TEST(test_a_node_cannot_append_what_is_the_leaders),
        TEST(test_a_key_stands_for_the_ids_that_the_leader_took),
        TEST(test_keyed_of_another_term_does_nothing),
        TEST(test_keyed_of_another_generation_does_nothing),
        TEST(test_keyed_ids_lie_below_max_id),
        TEST(test_keyed_needs_a_live_monotonic_tag),
        TEST(test_keyed_needs_room_and_time),
        TEST(test_the_rest_of_a_window_comes_back),
        TEST(test_a_window_below_another_is_burnt),
        TEST(test_a_late_copy_of_a_give_back_does_nothing),
        TEST(test_a_give_back_of_an_older_generation_does_nothing),
        TEST(test_what_changes_who_holds_ids_raises_the_generation),
        TEST(test_from_trend_segments_are_recalled_first),
        TEST(test_between_monotonic_and_the_others_nothing_is_recalled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
