/*
 * test_fsm_settings.c - the layout and the log's time in the state machine: what the commands do,
 * the rows, their loading, and what the listener hears.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

#define T 1700000000000ULL
#define DAY 86400000ULL
#define TIME_END (LIMIT_TIME_MAX_MS - LIMIT_WORKER_AHEAD_MS - LIMIT_WINDOW_MAX_MS)

static const struct snowflake_layout LEAF = SNOWFLAKE_LEAF_LAYOUT;
static const struct snowflake_layout JS53 = SNOWFLAKE_JS53_LAYOUT;

/* --- the layout --- */

static void test_layout_is_fixed_by_the_first(void **state)
{
    struct id_apply *a = *state;
    struct snowflake_layout layout;
    struct snowflake_layout other = LEAF;

    assert_false(fsm_layout(a->fsm, &layout));
    assert_int_equal(id_apply_layout(a, &LEAF), 0);
    assert_int_equal(a->changed, 1);
    assert_int_equal(id_apply_layout(a, &JS53), ERR_EXISTS);
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_layout(a, &LEAF), 0); /* the same again */
    assert_int_equal(a->changed, 0);
    other.epoch_ms++;
    assert_int_equal(id_apply_layout(a, &other), ERR_EXISTS);
    other = LEAF;
    other.time_bits--;
    assert_int_equal(id_apply_layout(a, &other), ERR_EXISTS);
    other = LEAF;
    other.sequence_bits--;
    assert_int_equal(id_apply_layout(a, &other), ERR_EXISTS);
    assert_true(fsm_layout(a->fsm, &layout));
    assert_true(layout.epoch_ms == SNOWFLAKE_EPOCH_MS);
    assert_int_equal(layout.time_bits, 41);
    assert_int_equal(layout.worker_bits, 10);
    assert_int_equal(layout.sequence_bits, 12);
}

static void test_layout_must_keep_its_rules(void **state)
{
    struct id_apply *a = *state;
    struct snowflake_layout layout = LEAF;

    layout.worker_bits = 11; /* one bit too many */
    assert_int_equal(id_apply_layout(a, &layout), ERR_INVALID);
    layout = LEAF;
    layout.epoch_ms = UINT64_MAX; /* its times would wrap */
    assert_int_equal(id_apply_layout(a, &layout), ERR_INVALID);
    layout.epoch_ms = LIMIT_TIME_MAX_MS + 1;
    assert_int_equal(id_apply_layout(a, &layout), ERR_INVALID);
    assert_int_equal(id_apply_clock(a, T), 0);
    layout.epoch_ms = T + 1; /* after the log's time */
    assert_int_equal(id_apply_layout(a, &layout), ERR_INVALID);
    assert_int_equal(a->changed, 0);
    assert_false(fsm_layout(a->fsm, &layout));
    layout.epoch_ms = T;
    assert_int_equal(id_apply_layout(a, &layout), 0);
}

/* --- the log's time --- */

static void test_clock_is_the_highest(void **state)
{
    struct id_apply *a = *state;

    assert_true(a->fsm->settings.log_ms == 0);
    assert_int_equal(id_apply_clock(a, 0), 0);
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    assert_int_equal(a->changed, 1);
    assert_true(a->fsm->settings.log_ms == T);
    assert_int_equal(id_apply_clock(a, T - 1), 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    assert_int_equal(a->changed, 0);
    assert_true(a->fsm->settings.log_ms == T);
    assert_int_equal(id_apply_clock(a, T + 1), 0);
    assert_int_equal(a->changed, 1);
    assert_true(a->fsm->settings.log_ms == T + 1);
}

/* Shows P6-clock, lesson-one-clock. */
static void test_clock_step_is_cut_to_a_day(void **state)
{
    struct id_apply *a = *state;

    (void)id_apply_clock(a, T); /* the first is not cut: there is nothing to hold it against */
    (void)id_apply_clock(a, T + DAY);
    assert_true(a->fsm->settings.log_ms == T + DAY);
    (void)id_apply_clock(a, T + 2 * DAY + 1);
    assert_true(a->fsm->settings.log_ms == T + 2 * DAY);
    (void)id_apply_clock(a, T + 50 * 365 * DAY);
    assert_true(a->fsm->settings.log_ms == T + 3 * DAY);
    (void)id_apply_clock(a, UINT64_MAX);
    assert_true(a->fsm->settings.log_ms == T + 4 * DAY);
}

static void test_clock_ends_at_what_can_be_shown(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;

    (void)id_apply_layout(a, &LEAF);
    (void)id_apply_clock(a, UINT64_MAX);
    assert_true(a->fsm->settings.log_ms == TIME_END);
    (void)id_apply_clock(a, UINT64_MAX);
    assert_int_equal(a->changed, 0);
    /* The longest window that can be had then is a row like any other. */
    result =
        id_apply_acquire(a, (struct worker_acquire){.kind = WORKER_CLIENT,
                                                    .worker_id = WORKER_ID_ANY,
                                                    .window_ms = LIMIT_WINDOW_MAX_MS,
                                                    .wall_ms = TIME_END + LIMIT_WORKER_AHEAD_MS,
                                                    .name = "n"});
    assert_int_equal(result.status, 0);
    assert_true(result.row.granted_until_ms == LIMIT_TIME_MAX_MS);
}

/* --- rows --- */

static void row_is(const struct id_apply *a, size_t at, const char *key, const char *value)
{
    assert_true(at < a->row_count);
    assert_true(hex_equal(&a->rows[at].key, key));
    assert_true(hex_equal(&a->rows[at].value, value));
}

static void test_setting_rows_are_golden(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    struct snowflake_layout layout;

    (void)id_apply_clock(a, T);
    (void)id_apply_layout(a, &LEAF);
    assert_int_equal(a->row_count, 3);                               /* and an answer */
    row_is(a, 0, "73 74696d65", "01 0068e5cf8b010000");              /* stime */
    row_is(a, 2, "73 6c61796f7574", "01 c1038d142c010000 29 0a 0c"); /* slayout */
    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    assert_true(loaded->settings.log_ms == T);
    assert_true(fsm_layout(loaded, &layout));
    assert_int_equal(layout.worker_bits, 10);
    state_load_begin(fsm_state(loaded)); /* begin forgets both */
    assert_true(loaded->settings.log_ms == 0);
    assert_false(fsm_layout(loaded, &layout));
    assert_int_equal(state_load_end(fsm_state(loaded), 1), 0);
    assert_true(state_digest(fsm_state(loaded)) == 0);
    state_free(fsm_state(loaded));
}

/* For who makes a state out of another. */
static void test_the_value_of_a_time_is_that_of_its_row(void **state)
{
    struct id_apply *a = *state;
    struct buf value = BUF_INIT;

    (void)id_apply_clock(a, T);
    facts_time_value(T, &value);
    assert_int_equal(value.len, a->rows[0].value.len);
    assert_memory_equal(value.data, a->rows[0].value.data, value.len);
    value.len = 0;
    facts_time_value(UINT64_MAX, &value);
    state_load_begin(fsm_state(a->fsm));
    assert_int_equal(
        state_load_row(fsm_state(a->fsm), &(struct state_row){(const uint8_t *)"stime", 5,
                                                              value.data, (uint32_t)value.len}),
        0);
    assert_int_equal(state_load_end(fsm_state(a->fsm), 1), 0);
    assert_true(a->fsm->settings.log_ms == TIME_END);
    buf_free(&value);
}

static void test_digest_follows_the_time(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    uint64_t before;

    (void)id_apply_clock(a, T);
    before = id_apply_digest(a);
    (void)id_apply_clock(a, T + 5);
    assert_true(id_apply_digest(a) != before);
    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    state_free(fsm_state(loaded));
}

static void test_load_refuses_damage(void **state)
{
    const char *time = "01 0068e5cf8b010000";
    const char *layout = "01 c1038d142c010000 29 0a 0c";
    struct fsm *fsm = ((struct id_apply *)*state)->fsm;

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "73", time), ERR_NEWER);
    assert_int_equal(id_load_hex(fsm, "73 74696d", time), ERR_NEWER);     /* "tim" */
    assert_int_equal(id_load_hex(fsm, "73 74696d6573", time), ERR_NEWER); /* "times" */
    assert_int_equal(id_load_hex(fsm, "73 74696d65", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "01 00"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "02 0068e5cf8b010000"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "01 0068e5cf8b010000 00"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "01 0000000000000000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "01 ffffffffffff0000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", time), 0);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", time), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "73 6c61796f7574", "01 c1038d142c010000 29 0a"),
                     ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "73 6c61796f7574", "01 c1038d142c010000 29 0b 0c"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "73 6c61796f7574", "01 c1038d142c01ffff 29 0a 0c"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "73 6c61796f7574", layout), 0);
    assert_int_equal(id_load_hex(fsm, "73 6c61796f7574", layout), ERR_EXISTS);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    assert_true(fsm->settings.log_ms == T);
}

/* --- listener --- */

struct watcher {
    struct fsm_listener listener;
    unsigned heard;
    struct snowflake_layout layout;
};

static void layout_changed_cb(struct fsm_listener *listener, const struct snowflake_layout *layout)
{
    struct watcher *watcher = (struct watcher *)listener;

    watcher->heard++;
    watcher->layout = *layout;
}

static void test_listener_hears_the_layout_once(void **state)
{
    struct id_apply *a = *state;
    struct watcher watcher = {.listener = {.layout_changed = layout_changed_cb}};
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    fsm_listen(a->fsm, &watcher.listener);
    (void)id_apply_clock(a, T);
    assert_int_equal(watcher.heard, 0);
    (void)id_apply_layout(a, &JS53);
    assert_int_equal(watcher.heard, 1);
    assert_int_equal(watcher.layout.worker_bits, 6);
    (void)id_apply_layout(a, &LEAF);
    (void)id_apply_layout(a, &JS53);
    assert_int_equal(watcher.heard, 1);
    watcher = (struct watcher){.listener = watcher.listener};
    fsm_listen(loaded, &watcher.listener);
    state_load_begin(fsm_state(loaded));
    assert_int_equal(state_load_end(fsm_state(loaded), 1), 0);
    assert_int_equal(watcher.heard, 0); /* there is none */
    id_apply_load(a, loaded);
    assert_int_equal(watcher.heard, 1);
    assert_int_equal(watcher.layout.worker_bits, 6);
    state_free(fsm_state(loaded));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_drop)
    const struct CMUnitTest tests[] = {
        TEST(test_layout_is_fixed_by_the_first),
        TEST(test_layout_must_keep_its_rules),
        TEST(test_clock_is_the_highest),
        TEST(test_clock_step_is_cut_to_a_day),
        TEST(test_clock_ends_at_what_can_be_shown),
        TEST(test_setting_rows_are_golden),
        TEST(test_the_value_of_a_time_is_that_of_its_row),
        TEST(test_digest_follows_the_time),
        TEST(test_load_refuses_damage),
        TEST(test_listener_hears_the_layout_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
