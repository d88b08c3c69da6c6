/*
 * test_named_layout.c - layouts with a name: presets and ids that others published, the rules, the
 * order of the parts, units of time, and the bytes of a row. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/container.h"
#include "src/base/prng.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/tag.h"
#include "src/tests/unit/hex.h"

#define T0 1795176000000ULL /* 2026-11-20T12:00:00Z, a present for all tests */
#define ROWS(table) (sizeof(table) / sizeof(table)[0])

static struct named_layout preset(const char *name)
{
    struct named_layout layout = {0};

    assert_true(named_layout_preset(name, strlen(name), &layout));
    return layout;
}

static void test_ids_that_others_published(void **state)
{
    static const struct {
        const char *preset;
        uint64_t id;
        struct snowflake_parts parts;
    } rows[] = {
        /* Discord's documentation of snowflakes: 2016-04-30T11:18:25.796Z, worker 1, process 0,
         * increment 7. */
        {"discord", 175928847299117063, {1462015105796, 1 << 5, 7}},
        /* The example of the encyclopaedia: 2022-06-28T16:07:40.105Z, machine 378. */
        {"twitter", 1541815603606036480, {1656432460105, 378, 0}},
        {"leaf", 1256557484213448722, {1588421624602, 619, 18}},
        /* 2014-09-01 and one unit of 10 ms; sequence 3 stands before machine 2. */
        {"sonyflake", 1ULL << 24 | 3 << 16 | 2, {1409529600010, 2, 3}},
        /* 2016-05-20 in Beijing, and two seconds. */
        {"baidu", 2ULL << 35 | 5 << 13 | 9, {1463673602000, 5, 9}},
        {"js53", (1ULL << 53) - 1, {SNOWFLAKE_EPOCH_MS + (1ULL << 41) - 1, 63, 63}},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct named_layout layout = preset(rows[i].preset);
        struct snowflake_parts parts;

        assert_true(named_layout_decode(&layout, rows[i].id, &parts));
        assert_int_equal(parts.unix_ms, rows[i].parts.unix_ms);
        assert_int_equal(parts.worker, rows[i].parts.worker);
        assert_int_equal(parts.sequence, rows[i].parts.sequence);
    }
}

static void test_presets_are_listed_and_fit(void **state)
{
    static const char *const names[] = {"leaf", "js53", "twitter", "discord", "sonyflake", "baidu"};
    struct named_layout layout;
    const char *why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        layout = preset(names[i]);
        assert_int_equal(named_layout_check(&layout, layout.bits.epoch_ms, &why), 0);
    }
    assert_false(named_layout_preset("leaf2", 5, &layout));
    assert_false(named_layout_preset("lea", 3, &layout));
    assert_false(named_layout_preset("", 0, &layout));
    layout = preset("baidu"); /* its 8.5 years have passed */
    assert_int_equal(named_layout_check(&layout, T0, &why), ERR_INVALID);
    assert_string_equal(why, "its time is over: take a later epoch_ms or more time_bits");
}

static void test_rules_at_their_bounds(void **state)
{
    static const struct {
        struct named_layout layout;
        const char *why; /* NULL: it fits */
    } rows[] = {
        {{{T0, 24, 1, 1}, 1, 0}, NULL},
        {{{T0, 45, 10, 8}, 1000, 1}, NULL},
        {{{T0, 25, 22, 16}, 10, 0}, NULL},
        {{{T0, 41, 10, 12}, 0, 0}, "unit_ms must be 1, 10 or 1000"},
        {{{T0, 41, 10, 12}, 100, 0}, "unit_ms must be 1, 10 or 1000"},
        {{{T0, 23, 10, 12}, 1, 0}, "time_bits must be 24 to 45"},
        {{{T0, 0, 10, 12}, 1, 0}, "time_bits must be 24 to 45"},
        {{{T0, 46, 10, 4}, 1, 0}, "time_bits must be 24 to 45"},
        {{{T0, 39, 0, 12}, 1, 0}, "worker_bits must be 1 to 22"},
        {{{T0, 24, 23, 12}, 1, 0}, "worker_bits must be 1 to 22"},
        {{{T0, 39, 10, 0}, 1, 0}, "sequence_bits must be 1 to 16"},
        {{{T0, 24, 10, 17}, 1, 0}, "sequence_bits must be 1 to 16"},
        {{{T0, 42, 10, 12}, 1, 0}, "time, worker and sequence must be at most 63 bits together"},
        {{{T0, 41, 10, 12}, 1, 2},
         "the order must be time-worker-sequence or time-sequence-worker"},
        {{{T0 + 1, 41, 10, 12}, 1, 0}, "epoch_ms must not be after the present time"},
        {{{UINT64_MAX, 41, 10, 12}, 1, 0}, "epoch_ms is after the year 9999"},
        {{{T0 - (1 << 24), 24, 10, 12}, 1, 0},
         "its time is over: take a later epoch_ms or more time_bits"},
        {{{T0 - (1 << 24) + 1, 24, 10, 12}, 1, 0}, NULL}, /* in its last millisecond */
        {{{T0 - (1 << 24), 24, 10, 12}, 10, 0}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *why = "unset";

        assert_int_equal(named_layout_check(&rows[i].layout, T0, &why),
                         rows[i].why == NULL ? 0 : ERR_INVALID);
        if (rows[i].why == NULL) {
            assert_null(why);
        } else {
            assert_string_equal(why, rows[i].why);
        }
    }
}

static void test_parts_come_back_in_either_order(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (int i = 0; i < 20000; i++) {
        static const uint16_t units[] = {1, 10, 1000};
        struct named_layout layout = {{SNOWFLAKE_EPOCH_MS, (uint8_t)(24 + prng_below(&prng, 13)),
                                       (uint8_t)(1 + prng_below(&prng, 11)),
                                       (uint8_t)(1 + prng_below(&prng, 16))},
                                      units[prng_below(&prng, 3)],
                                      (uint8_t)prng_below(&prng, 2)};
        uint64_t unit = prng_below(&prng, snowflake_span_ms(&layout.bits) + 1);
        uint32_t worker = (uint32_t)prng_below(&prng, 1u << layout.bits.worker_bits);
        uint32_t sequence = (uint32_t)prng_below(&prng, 1u << layout.bits.sequence_bits);
        uint64_t plain = named_layout_compose(&layout, unit, worker, sequence);
        struct snowflake_parts parts;

        assert_true(named_layout_decode(&layout, named_layout_id(&layout, plain), &parts));
        assert_int_equal(parts.unix_ms, SNOWFLAKE_EPOCH_MS + unit * layout.unit_ms);
        assert_int_equal(parts.worker, worker);
        assert_int_equal(parts.sequence, sequence);
        assert_int_equal(named_layout_unit(&layout, parts.unix_ms), unit);
        assert_int_equal(named_layout_unit(&layout, parts.unix_ms + layout.unit_ms - 1), unit);
        assert_true(named_layout_id(&layout, plain) <= INT64_MAX);
        assert_true(
            named_layout_at(&layout, parts.unix_ms + prng_below(&prng, layout.unit_ms), &plain));
        assert_int_equal(plain, named_layout_compose(&layout, unit, 0, 0));
        assert_false(named_layout_at(&layout, SNOWFLAKE_EPOCH_MS - 1, &plain));
        assert_true(named_layout_at(&layout, named_layout_last_ms(&layout), &plain));
        assert_false(named_layout_at(&layout, named_layout_last_ms(&layout) + 1, &plain));
    }
}

static void test_a_time_that_cannot_be_shown_is_none(void **state)
{
    struct named_layout layout = preset("baidu");
    struct snowflake_parts parts = {7, 7, 7};

    (void)state;
    assert_true(named_layout_decode(&layout, UINT64_MAX, &parts)); /* 29 bits of seconds */
    layout.bits.worker_bits = 1;
    layout.bits.sequence_bits = 1;
    assert_false(named_layout_decode(&layout, UINT64_MAX, &parts));
    assert_true(named_layout_decode(&layout, (LIMIT_TIME_MAX_MS - layout.bits.epoch_ms) / 1000 << 2,
                                    &parts));
    assert_false(named_layout_decode(
        &layout, ((LIMIT_TIME_MAX_MS - layout.bits.epoch_ms) / 1000 + 1) << 2, &parts));
}

static void test_names(void **state)
{
    (void)state;
    assert_true(layout_name_fits("a", 1));
    assert_true(layout_name_fits("0-x_y.z", 7));
    assert_true(layout_name_fits("abcdefghijklmnopqrstuvwxyz012345", 32));
    assert_false(layout_name_fits("abcdefghijklmnopqrstuvwxyz0123456", 33));
    assert_false(layout_name_fits("", 0));
    assert_false(layout_name_fits("A", 1));
    assert_false(layout_name_fits(".a", 2));
    assert_false(layout_name_fits("-a", 2));
    assert_false(layout_name_fits("a b", 3));
    assert_false(layout_name_fits("a\0b", 3));
    assert_false(layout_name_fits("\xc3\xa4", 2));
}

#define ROW_HEX "01 01 0a00 00d8822e48010000 27 10 08 01 0068e5cf8b010000"

static void test_bytes_of_a_row(void **state)
{
    const struct layout_row row = {.name = "s",
                                   .name_len = 1,
                                   .deleted = true,
                                   .layout = preset("sonyflake"),
                                   .created_ms = 1700000000000};
    struct layout_row read = {.name = "s", .name_len = 1};
    struct buf bytes = BUF_INIT;

    (void)state;
    row_put(&bytes, &layout_row_format, &row);
    assert_true(hex_equal(&bytes, ROW_HEX));
    assert_int_equal(row_read(bytes.data, bytes.len, &layout_row_format, &read), 0);
    assert_true(read.deleted && named_layout_equal(&read.layout, &row.layout));
    assert_int_equal(read.created_ms, row.created_ms);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_not_equal(row_read(bytes.data, len, &layout_row_format, &read), 0);
    }
    bytes.data[2] = 7; /* a unit that is none */
    assert_int_equal(row_read(bytes.data, bytes.len, &layout_row_format, &read), ERR_CORRUPT);
    buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_that_others_published),
        cmocka_unit_test(test_presets_are_listed_and_fit),
        cmocka_unit_test(test_rules_at_their_bounds),
        cmocka_unit_test(test_parts_come_back_in_either_order),
        cmocka_unit_test(test_a_time_that_cannot_be_shown_is_none),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bytes_of_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
