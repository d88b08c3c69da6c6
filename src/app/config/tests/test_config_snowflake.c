/*
 * test_config_snowflake.c - the settings of snowflake ids: every bound and one beyond it, the
 * layout's forms, and the rules about window and clock. Thread: one.
 */
#include "src/app/config/tests/config_fixture.h"
#include "src/base/clock.h"

#define NOW_MS 1795176469348ULL /* 2026-11-20 */
#define HOUR_MS 3600000

static void expect_layout(struct config_fixture *f, const char *text, unsigned time_bits,
                          unsigned worker_bits, unsigned sequence_bits)
{
    expect_flag_ok(f, "--snowflake-layout", text);
    assert_int_equal(f->config.node.replica.lease.layout.time_bits, time_bits);
    assert_int_equal(f->config.node.replica.lease.layout.worker_bits, worker_bits);
    assert_int_equal(f->config.node.replica.lease.layout.sequence_bits, sequence_bits);
    assert_int_equal(f->config.node.replica.lease.layout.epoch_ms, SNOWFLAKE_EPOCH_MS);
}

static void test_bounds(void **state)
{
    static const struct {
        const char *flag;
        size_t field;
        const char *window; /* so that the value keeps the rule about the window */
        const char *low;
        const char *high;
        const char *below; /* NULL: there is nothing below */
        const char *above;
        const char *rule;
    } cases[] = {
        {"--snowflake-workers", offsetof(struct config, node.replica.lease.workers), "600000", "0",
         "16", NULL, "17", "must be 0..16"},
        {"--snowflake-renew-ms", offsetof(struct config, node.replica.lease.renew_ms), "600000",
         "100", "60000", "99", "60001", "must be 100..60000 ms"},
        {"--snowflake-mark-lead-ms", offsetof(struct config, node.replica.lease.mark_lead_ms),
         "600000", "50", "60000", "49", "60001", "must be 50..60000 ms"},
        {"--snowflake-clock-threshold-ms", offsetof(struct config, node.replica.lease.threshold_ms),
         "600000", "1", "3600000", "0", "3600001", "must be 1..3600000 ms"},
    };
    struct config_fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int high = 0; high <= 1; high++) {
            const char *text = high ? cases[i].high : cases[i].low;
            const void *field = (const char *)&f->config + cases[i].field;

            expect_ok(f,
                      ARGS(NODE_1, "--snowflake-window-ms", (char *)(uintptr_t)cases[i].window,
                           (char *)(uintptr_t)cases[i].flag, (char *)(uintptr_t)text),
                      NO_ENV);
            assert_int_equal(*(const uint32_t *)field, strtoull(text, NULL, 10));
        }
        if (cases[i].below != NULL) {
            expect_flag_error(f, cases[i].flag, cases[i].below, cases[i].rule);
        }
        expect_flag_error(f, cases[i].flag, cases[i].above, cases[i].rule);
    }
}

/* The window itself, and renewing three times in it. */
static void test_window(void **state)
{
    struct config_fixture *f = *state;

    expect_ok(f, ARGS(NODE_1, "--snowflake-window-ms", "1000", "--snowflake-renew-ms", "333"),
              NO_ENV);
    assert_int_equal(f->config.node.replica.lease.window_ms, LIMIT_WINDOW_MIN_MS);
    expect_flag_ok(f, "--snowflake-window-ms", "86400000");
    assert_int_equal(f->config.node.replica.lease.window_ms, LIMIT_WINDOW_MAX_MS);
    expect_error(f, ARGS(NODE_1, "--snowflake-window-ms", "999", "--snowflake-renew-ms", "100"),
                 NO_ENV, "snowflake.window-ms: \"999\" is not valid: must be 1000..86400000 ms");
    expect_flag_error(f, "--snowflake-window-ms", "86400001", "must be 1000..86400000");

    expect_flag_ok(f, "--snowflake-window-ms", "9000");
    expect_flag_error(f, "--snowflake-window-ms", "8999",
                      "snowflake.renew-ms = \"3000\" (default) is more than a third of "
                      "snowflake.window-ms = \"8999\" (--snowflake-window-ms)");
    expect_error(f, ARGS(NODE_1, "--snowflake-window-ms", "1000", "--snowflake-renew-ms", "334"),
                 NO_ENV, "snowflake.renew-ms = \"334\" (--snowflake-renew-ms) is more than");
}

static void test_layout_forms(void **state)
{
    static const char *const malformed[] = {
        "",          "Leaf",       "leaf ",     "js54",      "41",       "41+10",    "41+10+",
        "41+10+12+", "41+10+12+0", "+41+10+12", "41 +10+12", "41+-1+12", "41-10-12", "0x29+10+12",
        "041+10+12", "100+10+12",  "0+10+12",   "41,10,12",  "41+ +12"};
    struct config_fixture *f = *state;

    expect_layout(f, "leaf", 41, 10, 12);
    expect_layout(f, "js53", 41, 6, 6);
    expect_layout(f, "41+10+12", 41, 10, 12);
    expect_layout(f, "39+1+4", 39, 1, 4);
    expect_layout(f, "45+10+8", 45, 10, 8);
    expect_layout(f, "41+6+16", 41, 6, 16);
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        expect_flag_error(f, "--snowflake-layout", malformed[i],
                          "is not valid: must be leaf (41+10+12), js53 (41+6+6), or "
                          "bits of time+worker+sequence (39..45, 1..10, 4..16, together at most "
                          "63)");
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

/* The epoch is a part of the layout's field, whichever of the two settings comes first. */
static void test_layout_and_epoch(void **state)
{
    struct config_fixture *f = *state;

    for (int swapped = 0; swapped <= 1; swapped++) {
        char *layout = "--snowflake-layout=js53";
        char *epoch = "--snowflake-epoch-ms=1577836800000";

        expect_ok(f, ARGS(NODE_1, swapped ? epoch : layout, swapped ? layout : epoch), NO_ENV);
        assert_int_equal(f->config.node.replica.lease.layout.sequence_bits, 6);
        assert_int_equal(f->config.node.replica.lease.layout.epoch_ms, 1577836800000);
    }
    assert_int_equal(origin(f, "snowflake.epoch-ms")->source, CONFIG_FROM_FLAG);
    expect_flag_ok(f, "--snowflake-epoch-ms", "0");
    expect_flag_error(f, "--snowflake-epoch-ms", "253402300800000",
                      "must be 0..253402300799999 ms");
}

/* Against a given time: the epoch at it and one beyond, the last time of the layout and one beyond.
 */
static void test_layout_at_time(void **state)
{
    struct config_fixture *f = *state;
    uint64_t last_ms;

    expect_flag_ok(f, "--snowflake-layout", "39+10+12");
    f->config.node.replica.lease.layout.epoch_ms = NOW_MS;
    assert_int_equal(rules_layout(&f->config, NOW_MS, &f->error), 0);
    f->config.node.replica.lease.layout.epoch_ms = NOW_MS + 1;
    assert_int_equal(rules_layout(&f->config, NOW_MS, &f->error), ERR_INVALID);
    assert_non_null(strstr(f->error.text, "the epoch must not be after the present time; this "
                                          "machine's clock says 1795176469348 ms"));

    f->config.node.replica.lease.layout.epoch_ms = NOW_MS;
    last_ms = NOW_MS + (1ULL << 39) - 1;
    assert_int_equal(rules_layout(&f->config, last_ms, &f->error), 0);
    assert_int_equal(rules_layout(&f->config, last_ms + 1, &f->error), ERR_INVALID);
    assert_non_null(strstr(f->error.text,
                           "snowflake.layout = \"39+10+12\" (--snowflake-layout): the present time "
                           "must be within the layout's time bits"));
}

/* A machine whose clock starts at 1970 gets a node that serves segments. */
static void test_layout_at_wrong_clock(void **state)
{
    struct config_fixture *f = *state;

    expect_flag_ok(f, "--snowflake-layout", "leaf");
    assert_int_equal(rules_layout(&f->config, 0, &f->error), 0);
    f->config.node.replica.lease.layout.epoch_ms = 1767225600000; /* 2026-01-01 */
    assert_int_equal(rules_layout(&f->config, 0, &f->error), 0);
    f->config.node.replica.lease.layout.epoch_ms = 1767225600001;
    assert_int_equal(rules_layout(&f->config, 0, &f->error), ERR_INVALID);
}

/* The same by this machine's clock, as a node is started. */
static void test_layout_at_start(void **state)
{
    struct config_fixture *f = *state;
    uint64_t now_ms = clock_wall_ms(clock_system());
    char epoch[32];

    (void)snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)now_ms);
    expect_flag_ok(f, "--snowflake-epoch-ms", epoch);
    (void)snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)now_ms + HOUR_MS);
    expect_flag_error(f, "--snowflake-epoch-ms", epoch,
                      "(--snowflake-epoch-ms), snowflake.layout = \"leaf\" (default): the epoch "
                      "must not be after the present time");
    /* A node without snowflake ids of its own may yet be the one that proposes the layout. */
    expect_error(f, ARGS(NODE_1, "--snowflake-epoch-ms", epoch, "--snowflake-workers", "0"), NO_ENV,
                 "the epoch must not be after the present time");

    (void)snprintf(epoch, sizeof epoch, "%llu",
                   (unsigned long long)(now_ms - (1ULL << 39) + HOUR_MS));
    expect_ok(f, ARGS(NODE_1, "--snowflake-layout=39+10+12", "--snowflake-epoch-ms", epoch),
              NO_ENV);
    (void)snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)(now_ms - (1ULL << 39)));
    expect_error(f, ARGS(NODE_1, "--snowflake-layout=39+10+12", "--snowflake-epoch-ms", epoch),
                 NO_ENV, "the present time must be within the layout's time bits");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_setup, config_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_bounds),
        TEST(test_window),
        TEST(test_layout_forms),
        TEST(test_layout_bounds),
        TEST(test_layout_and_epoch),
        TEST(test_layout_at_time),
        TEST(test_layout_at_wrong_clock),
        TEST(test_layout_at_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
