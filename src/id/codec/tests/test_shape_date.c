/*
 * test_shape_date.c - dates in shapes: what a date may be, periods of times, the texts of ids in
 * them and the way back, and which ids a period has. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/codec/shape.h"

#define DAY_MS 86400000ULL

static struct shape parsed(const char *spec)
{
    struct shape shape;
    const char *why = NULL;

    if (shape_parse(spec, strlen(spec), &shape, &why) != 0) {
        fail_msg("%s: %s", spec, why);
    }
    return shape;
}

static void reads_as(const struct shape *shape, const char *text, uint64_t wanted)
{
    uint64_t id = 0;

    if (!shape_read(shape, NULL, text, strlen(text), &id) || id != wanted) {
        fail_msg("%s is read as %llu, not %llu", text, (unsigned long long)id,
                 (unsigned long long)wanted);
    }
}

static void test_texts(void **state)
{
    static const struct {
        const char *spec;
        uint64_t id;
        const char *text;
    } cases[] = {
        {"INV-{year}-{id:6}", 2026000042, "INV-2026-000042"},
        {"{year@Europe/Berlin}{month}/{id:3}", 202611007, "202611/007"},
        {"{day}.{month}.{year}-{id:4}", 202611240099, "24.11.2026-0099"},
        {"{day@UTC}{month}a{year}b{id36:2}", 20261124ULL * 1296 + 35, "2411a2026b0Z"},
        {"{year}{id:6}{luhn}", 2026000042, "20260000422"},
        {"{year}-{id16:2}.{mod97}", 2026 * 256 + 255, NULL},
        {"{year}-{id:1}", 99999, "9999-9"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shape shape = parsed(cases[i].spec);
        char text[SHAPE_ID_BYTES_MAX + 1];
        size_t len = shape_put(&shape, NULL, cases[i].id, text);

        assert_int_equal(len, shape_bytes(&shape, cases[i].id));
        text[len] = '\0';
        if (cases[i].text != NULL) {
            assert_string_equal(text, cases[i].text);
        }
        reads_as(&shape, text, cases[i].id);
    }
}

static void test_what_is_no_text(void **state)
{
    static const char *const texts[] = {
        "INV-2026-00042",  "INV-2026-0000042", "INV-202-0000042", "INV-202x-000042",
        "INV-2026/000042", "inv-2026-000042",  "2026-000042",     "INV-2026-00004 ",
    };
    struct shape shape = parsed("INV-{year}-{id:6}");
    uint64_t id;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(shape_read(&shape, NULL, texts[i], strlen(texts[i]), &id));
    }
    reads_as(&shape, "INV-2026-000042", 2026000042);
}

static void test_what_is_no_date(void **state)
{
    static const char *const specs[] = {
        "{year}{id}",
        "{month}{id:6}",
        "{year}{day}{id:6}",
        "{year}{year}{id:6}",
        "{yea}{id:6}",
        "{year:4}{id:6}",
        "{id:6}{year}",
        "{year@}{id:6}",
        "{year@/etc/passwd}{id:6}",
        "{year@../x}{id:6}",
        "{year@Europe/}{id:6}",
        "{year@Europe//Berlin}{id:6}",
        "{year@a b}{id:6}",
        "{year@Europe/Berlin",
        "{year}{month@UTC}{id:6}",
        "{year}{secret:9}",
        "{year}{id:15}",
        "{year}{month}{id:13}",
        "{year}{month}{day}{id:11}",
        "{year@aaaaaaaaaabbbbbbbbbbccccccccccddddddddddx}{id:6}",
        "aaaaaaaaaabbbbbbbbbbccccccccc{year}{id:6}", /* 33 characters */
    };
    struct shape shape;

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        const char *why = NULL;

        if (shape_parse(specs[i], strlen(specs[i]), &shape, &why) != ERR_INVALID || why == NULL) {
            fail_msg("%s is taken for a shape", specs[i]);
        }
    }
    /* At the bounds. */
    (void)parsed("{year}{id:14}");
    (void)parsed("{year}{month}{id:12}");
    (void)parsed("{year}{month}{day}{id:10}");
    (void)parsed("aaaaaaaaaabbbbbbbbbbcccccccc{year}{id:6}");
    shape = parsed("{year@aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd}{id:6}");
    assert_string_equal(shape.date.zone, "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd");
    /* No byte behind the end is looked at. */
    assert_int_equal(shape_parse("{year}{id:6}", 5, &shape, NULL), ERR_INVALID);
    assert_int_equal(shape_parse("{year@UTC}{id:6}", 9, &shape, NULL), ERR_INVALID);
}

static void test_periods(void **state)
{
    static const struct {
        uint64_t ms;
        uint32_t day;
    } cases[] = {
        {0, 19700101},
        {951782399999, 20000228},
        {951782400000, 20000229},
        {951868800000, 20000301},
        {1798761599999, 20261231},
        {1798761600000, 20270101},
        {4107542399999, 21000228}, /* no leap year */
        {4107542400000, 21000301},
        {253402300799999, 99991231},
        {253402300800000, 99991231}, /* the years are over */
        {UINT64_MAX, 99991231},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(shape_period(DATE_DAY, cases[i].ms), cases[i].day);
        assert_int_equal(shape_period(DATE_MONTH, cases[i].ms), cases[i].day / 100);
        assert_int_equal(shape_period(DATE_YEAR, cases[i].ms), cases[i].day / 10000);
    }
    assert_true(shape_period_is_near(DATE_DAY, 20270101, 1798761599999));
    assert_true(shape_period_is_near(DATE_DAY, 20261230, 1798761599999));
    assert_false(shape_period_is_near(DATE_DAY, 20261229, 1798761599999));
    assert_false(shape_period_is_near(DATE_DAY, 20270102, 1798761599999));
    assert_true(shape_period_is_near(DATE_YEAR, 2027, 1798761600000 - DAY_MS));
    assert_false(shape_period_is_near(DATE_YEAR, 2027, 1798761600000 - DAY_MS - 1));
}

static void has_ids(const struct shape *shape, uint64_t max_id, uint32_t period, uint64_t first,
                    uint64_t end)
{
    uint64_t got_first;
    uint64_t got_end;

    shape_period_ids(shape, max_id, period, &got_first, &got_end);
    assert_int_equal(got_first, first);
    assert_int_equal(got_end, end);
}

static void test_times_of_a_period(void **state)
{
    static const struct {
        enum date_part unit;
        uint64_t ms;
        uint64_t elapsed_ms;
        uint64_t days; /* of the period */
    } cases[] = {
        {DATE_DAY, 0, 0, 1},
        {DATE_MONTH, 0, 0, 31},
        {DATE_YEAR, 0, 0, 365},
        {DATE_DAY, DAY_MS - 1, DAY_MS - 1, 1},
        {DATE_MONTH, 1709164800000 /* 2024-02-29 */, 28 * DAY_MS, 29},
        {DATE_YEAR, 1709164800001, 59 * DAY_MS + 1, 366},
        {DATE_YEAR, 1735689599999 /* 2024-12-31T23:59:59.999 */, 366 * DAY_MS - 1, 366},
        {DATE_MONTH, 1735689599999, 31 * DAY_MS - 1, 31},
        {DATE_YEAR, 253402300799999 /* the last of 9999 */, 365 * DAY_MS - 1, 365},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t elapsed_ms;
        uint64_t length_ms;

        shape_period_times(cases[i].unit, cases[i].ms, &elapsed_ms, &length_ms);
        if (elapsed_ms != cases[i].elapsed_ms || length_ms != cases[i].days * DAY_MS) {
            fail_msg("case %zu: %llu of %llu", i, (unsigned long long)elapsed_ms,
                     (unsigned long long)length_ms);
        }
    }
}

static void test_ids_of_a_period(void **state)
{
    struct shape shape = parsed("{year}-{id:2}");

    (void)state;
    has_ids(&shape, 0, 2026, 202601, 202700);
    has_ids(&shape, 1, 2026, 202601, 202700);
    has_ids(&shape, 202601, 2026, 202601, 202700);
    has_ids(&shape, 202642, 2026, 202642, 202700);
    has_ids(&shape, 202642, 2025, 202642, 202700); /* last year is over */
    has_ids(&shape, 202642, 2027, 202701, 202800);
    has_ids(&shape, 202700, 2026, 202700, 202700); /* used up: none of next year's */
    has_ids(&shape, 202700, 2027, 202701, 202800);
    has_ids(&shape, 0, 9999, 999901, 1000000);
    assert_int_equal(shape_capacity(&shape), 1000000);
    assert_int_equal(shape_alike(&shape, 202642), 1000000 - 202642);
}

/* Whatever the order of the parts: no two ids have one text, and each comes back. */
static void test_a_new_period_or_key_is_no_growth(void **state)
{
    static const struct {
        const char *spec;
        uint64_t from;
        uint64_t to;
        uint64_t grown;
    } cases[] = {
        {"{year}{id:3}", 0, 0, 0},
        {"{year}{id:3}", 1, 2026002, 1},
        {"{year}{id:3}", 2026002, 2026012, 10},
        {"{year}{id:3}", 2026001, 2027000, 999}, /* used up */
        {"{year}{id:3}", 2027000, 2027000, 0},
        {"{year}{id:3}", 2026990, 2027011, 10},
        {"{key}{secret:6}", 5, 1000000, 0},
        {"{key}{secret:6}", 5, 1000007, 7},
        {"{key}{secret:6}", 1000000, 1000007, 7},
        {"{id:3}", 5, 100000, 99995},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shape shape = parsed(cases[i].spec);

        assert_int_equal(shape_grown(&shape, cases[i].from, cases[i].to), cases[i].grown);
    }
}

static void test_random_ids_come_back(void **state)
{
    static const char *const specs[] = {"{year}{id:4}", "x{month}{year}{id36:3}y",
                                        "{day}-{year}-{month}{id62:5}",
                                        "{year}{month}{day}{id32:4}{mod97}"};
    struct prng prng;

    (void)state;
    prng_seed(&prng, 26);
    for (size_t i = 0; i < 20000; i++) {
        struct shape shape = parsed(specs[i % 4]);
        char text[SHAPE_ID_BYTES_MAX + 1];
        uint64_t id;

        id = prng_below(&prng, shape_capacity(&shape));
        text[shape_put(&shape, NULL, id, text)] = '\0';
        reads_as(&shape, text, id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_what_is_no_text),
        cmocka_unit_test(test_what_is_no_date),
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_times_of_a_period),
        cmocka_unit_test(test_ids_of_a_period),
        cmocka_unit_test(test_a_new_period_or_key_is_no_growth),
        cmocka_unit_test(test_random_ids_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
