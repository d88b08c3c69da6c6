/*
 * test_config_snowflake.c - the settings of snowflake ids: every bound and one beyond it, the
 * layout's forms, and the rules about window and clock. Thread: one.
 */
#include "src/base/clock.h"
#include "src/node/config/tests/config_fixture.h"

#define NOW_MS 1795176469348ULL /* 2026-11-20 */
#define HOUR_MS 3600000

static void expect_layout(struct config_fixture *f, const char *text, unsigned time_bits,
                          unsigned worker_bits, unsigned sequence_bits)
{
    expect_flag_ok(f, "--snowflake-layout", text);
    assert_int_equal(f->config.ids.lease.layout.time_bits, time_bits);
    assert_int_equal(f->config.ids.lease.layout.worker_bits, worker_bits);
    assert_int_equal(f->config.ids.lease.layout.sequence_bits, sequence_bits);
    assert_int_equal(f->config.ids.lease.layout.epoch_ms, SNOWFLAKE_EPOCH_MS);
}

static char *layout_flag(const char *bits, uint64_t epoch_ms, char out[64])
{
    (void)snprintf(out, 64, "--snowflake-layout=%s@%llu", bits, (unsigned long long)epoch_ms);
    return out;
}

/* The window itself, and renewing three times in it at least. */
static void test_window(void **state)
{
    struct config_fixture *f = *state;
    const struct lease_config *lease = &f->config.ids.lease;

    expect_flag_ok(f, "--snowflake-window-ms", "1000");
    assert_int_equal(lease->window_ms, LIMIT_WINDOW_MIN_MS);
    assert_int_equal(lease->renew_ms, 333);
    expect_flag_ok(f, "--snowflake-window-ms", "8999");
    assert_int_equal(lease->renew_ms, 2999);
    expect_flag_ok(f, "--snowflake-window-ms", "9000");
    assert_int_equal(lease->renew_ms, 3000);
    expect_flag_ok(f, "--snowflake-window-ms", "86400000");
    assert_int_equal(lease->window_ms, LIMIT_WINDOW_MAX_MS);
    assert_int_equal(lease->renew_ms, 3000);
    expect_flag_error(f, "--snowflake-window-ms", "999",
                      "snowflake.window-ms: \"999\" is not valid: must be 1000..86400000 ms");
    expect_flag_error(f, "--snowflake-window-ms", "86400001", "must be 1000..86400000");
}

static void test_layout_forms(void **state)
{
    static const char *const malformed[] = {
        "",          "Leaf",       "leaf ",     "js54",      "41",       "41+10",    "41+10+",
        "41+10+12+", "41+10+12+0", "+41+10+12", "41 +10+12", "41+-1+12", "41-10-12", "0x29+10+12",
        "041+10+12", "100+10+12",  "0+10+12",   "41,10,12",  "41+ +12"};
    struct config_fixture *f = *state;
    char flag[64];

    expect_layout(f, "leaf", 41, 10, 12);
    expect_layout(f, "js53", 41, 6, 6);
    expect_layout(f, "41+10+12", 41, 10, 12);
    expect_layout(f, "45+10+8", 45, 10, 8);
    expect_layout(f, "41+6+16", 41, 6, 16);
    /* From Leaf's epoch 39 bits last until 2028. */
    expect_ok(f, ARGS(NODE_1, layout_flag("39+1+4", clock_wall_ms(clock_system()), flag)), NO_ENV);
    assert_int_equal(f->config.ids.lease.layout.time_bits, 39);
    assert_int_equal(f->config.ids.lease.layout.worker_bits, 1);
    assert_int_equal(f->config.ids.lease.layout.sequence_bits, 4);
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        expect_flag_error(f, "--snowflake-layout", malformed[i],
                          "is not valid: must be leaf (41+10+12), js53 (41+6+6), or "
                          "bits of time+worker+sequence (39..45, 1..10, 4..16, together at most "
                          "63); then @ and an epoch, if it is not Leaf's");
    }
}

static void test_layout_bounds(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } bad[] = {
        {"38+10+12", "snowflake.layout: \"38+10+12\" is not valid: time bits must be 39 to 45"},
        {"46+5+10", "time bits must be 39 to 45"},
        {"41+0+12", "worker bits must be 1 to 10"},
        {"41+11+11", "worker bits must be 1 to 10"},
        {"41+10+3", "sequence bits must be 4 to 16"},
        {"41+5+17", "sequence bits must be 4 to 16"},
        {"41+10+13", "time, worker and sequence must be at most 63 bits together"},
        {"45+10+9", "at most 63 bits together"},
    };
    struct config_fixture *f = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_flag_error(f, "--snowflake-layout", bad[i].text, bad[i].error);
    }
}

static void test_layout_with_epoch(void **state)
{
    static const char *const bad[] = {"leaf@",
                                      "leaf@-1",
                                      "leaf@x",
                                      "leaf@1 ",
                                      "leaf@1@1",
                                      "js53@253402300800000",
                                      "41+10+12@99999999999999999999"};
    struct config_fixture *f = *state;
    const struct snowflake_layout *layout = &f->config.ids.lease.layout;

    expect_flag_ok(f, "--snowflake-layout", "js53@1577836800000");
    assert_int_equal(layout->sequence_bits, 6);
    assert_int_equal(layout->epoch_ms, 1577836800000);
    expect_flag_ok(f, "--snowflake-layout", "41+10+12@0");
    assert_int_equal(layout->sequence_bits, 12);
    assert_int_equal(layout->epoch_ms, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_flag_error(f, "--snowflake-layout", bad[i],
                          "is not valid: after the @ must be a Unix time in ms, "
                          "0..253402300799999");
    }
    expect_flag_error(f, "--snowflake-layout", "@1577836800000", "must be leaf (41+10+12)");
    expect_flag_error(f, "--snowflake-layout", "41+11+11@0", "worker bits must be 1 to 10");
}

/* Against a given time: the epoch at it and one beyond, the last time of the layout and one beyond.
 */
static void test_layout_at_time(void **state)
{
    struct config_fixture *f = *state;
    uint64_t wall_ms = clock_wall_ms(clock_system());
    uint64_t last_ms;
    char text[160];
    char flag[64];

    expect_ok(f, ARGS(NODE_1, layout_flag("39+10+12", wall_ms, flag)), NO_ENV);
    f->config.ids.lease.layout.epoch_ms = NOW_MS;
    assert_int_equal(rules_layout(&f->config, NOW_MS, &f->error), 0);
    f->config.ids.lease.layout.epoch_ms = NOW_MS + 1;
    assert_int_equal(rules_layout(&f->config, NOW_MS, &f->error), ERR_INVALID);
    assert_non_null(strstr(f->error.text, "the epoch must not be after the present time; this "
                                          "machine's clock says 1795176469348 ms"));

    f->config.ids.lease.layout.epoch_ms = NOW_MS;
    last_ms = NOW_MS + (1ULL << 39) - 1;
    assert_int_equal(rules_layout(&f->config, last_ms, &f->error), 0);
    assert_int_equal(rules_layout(&f->config, last_ms + 1, &f->error), ERR_INVALID);
    (void)snprintf(
        text, sizeof text,
        "snowflake.layout = \"39+10+12@%llu\" (--snowflake-layout): the present time must "
        "be within the layout's time bits",
        (unsigned long long)wall_ms);
    assert_non_null(strstr(f->error.text, text));
}

/* A machine whose clock starts at 1970 gets a node that serves segments. */
static void test_layout_at_wrong_clock(void **state)
{
    struct config_fixture *f = *state;

    expect_flag_ok(f, "--snowflake-layout", "leaf");
    assert_int_equal(rules_layout(&f->config, 0, &f->error), 0);
    f->config.ids.lease.layout.epoch_ms = 1767225600000; /* 2026-01-01 */
    assert_int_equal(rules_layout(&f->config, 0, &f->error), 0);
    f->config.ids.lease.layout.epoch_ms = 1767225600001;
    assert_int_equal(rules_layout(&f->config, 0, &f->error), ERR_INVALID);
}

/* The same by this machine's clock, as a node is started. */
static void test_layout_at_start(void **state)
{
    struct config_fixture *f = *state;
    uint64_t now_ms = clock_wall_ms(clock_system());
    char flag[64];

    expect_ok(f, ARGS(NODE_1, layout_flag("leaf", now_ms, flag)), NO_ENV);
    (void)layout_flag("leaf", now_ms + HOUR_MS, flag);
    expect_error(f, ARGS(NODE_1, flag), NO_ENV,
                 "(--snowflake-layout): the epoch must not be after the present time");
    /* A node without snowflake ids of its own may yet be the one that proposes the layout. */
    expect_error(f, ARGS(NODE_1, flag, "--snowflake-workers", "0"), NO_ENV,
                 "the epoch must not be after the present time");

    expect_ok(f, ARGS(NODE_1, layout_flag("39+10+12", now_ms - (1ULL << 39) + HOUR_MS, flag)),
              NO_ENV);
    expect_error(f, ARGS(NODE_1, layout_flag("39+10+12", now_ms - (1ULL << 39), flag)), NO_ENV,
                 "the present time must be within the layout's time bits");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_setup, config_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_window),          TEST(test_layout_forms),
        TEST(test_layout_bounds),   TEST(test_layout_with_epoch),
        TEST(test_layout_at_time),  TEST(test_layout_at_wrong_clock),
        TEST(test_layout_at_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
