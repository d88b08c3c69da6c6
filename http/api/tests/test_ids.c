/*
 * test_ids.c - ranges of a claim that come in any order: kept by their ids, joined, given up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/ids.h"
#include "src/base/prng.h"

static void insert(struct id_claim *claim, uint64_t first, uint32_t count)
{
    struct segment_range range = {first, count};

    id_claim_insert(claim, &range);
}

static void expect(const struct id_claim *claim, uint32_t left, const struct segment_range *ranges,
                   uint32_t count)
{
    assert_int_equal(claim->left, left);
    assert_int_equal(claim->range_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(claim->ranges[i].first, ranges[i].first);
        assert_int_equal(claim->ranges[i].count, ranges[i].count);
    }
}

static void test_order_and_joins(void **state)
{
    struct id_claim claim = {.count = 1000, .left = 1000};

    (void)state;
    insert(&claim, 500, 10);
    insert(&claim, 100, 10);
    insert(&claim, 300, 10);
    expect(&claim, 970, (struct segment_range[]){{100, 10}, {300, 10}, {500, 10}}, 3);
    insert(&claim, 310, 5);  /* to the one before */
    insert(&claim, 490, 10); /* to the one behind */
    insert(&claim, 90, 10);
    insert(&claim, 510, 1);
    expect(&claim, 944, (struct segment_range[]){{90, 20}, {300, 15}, {490, 21}}, 3);
    insert(&claim, 110, 190); /* to both */
    expect(&claim, 754, (struct segment_range[]){{90, 225}, {490, 21}}, 2);
    insert(&claim, 315, 175);
    expect(&claim, 579, (struct segment_range[]){{90, 421}}, 1);
    insert(&claim, 0, 1);
    insert(&claim, UINT64_MAX - 10, 578);
    expect(&claim, 0, (struct segment_range[]){{0, 1}, {90, 421}, {UINT64_MAX - 10, 578}}, 3);
}

static void test_room_for_one_more(void **state)
{
    struct id_claim claim = {.count = 1000, .left = 1000};
    uint32_t wanted = 1000;

    (void)state;
    for (uint32_t i = 0; i < LIMIT_RANGES_PER_REPLY; i++) {
        uint32_t count = i == 20 ? 3 : i == 40 ? 2 : 5;

        id_claim_make_room(&claim); /* nothing to do as long as there is a place */
        insert(&claim, 1000 * (i + 1), count);
        wanted -= count;
        assert_int_equal(claim.left, wanted);
    }
    assert_int_equal(claim.range_count, LIMIT_RANGES_PER_REPLY);
    id_claim_make_room(&claim);
    assert_int_equal(claim.left, wanted + 2);
    assert_int_equal(claim.range_count, LIMIT_RANGES_PER_REPLY - 1);
    assert_int_equal(claim.ranges[39].first, 40000);
    assert_int_equal(claim.ranges[40].first, 42000);
    insert(&claim, 7, 4);
    assert_int_equal(claim.ranges[0].first, 7);
    assert_int_equal(claim.ranges[63].first, 64000);
    id_claim_make_room(&claim);
    assert_int_equal(claim.left, wanted + 2 - 4 + 3);
    assert_int_equal(claim.ranges[21].first, 22000);
    insert(&claim, 99999, 5);
    assert_int_equal(claim.ranges[63].first, 99999);
    /* Of equals the first. */
    id_claim_make_room(&claim);
    assert_int_equal(claim.ranges[0].first, 1000);
}

static void test_key_in_json(void **state)
{
    struct id_claim claim = {
        .count = 3, .left = 3, .snowflake = true, .format = ID_FORMAT_JSON, .name = "k\"1"};
    struct buf buf = BUF_INIT;

    (void)state;
    claim.name_len = 3;
    insert(&claim, 10, 2);
    insert(&claim, 20, 1);
    id_claim_put(&claim, &buf);
    buf_put_u8(&buf, '\0');
    assert_string_equal((char *)buf.data, "{\"key\":\"k\\\"1\",\"count\":3,\"ranges\":["
                                          "{\"first\":\"10\",\"last\":\"11\"},"
                                          "{\"first\":\"20\",\"last\":\"20\"}]}");
    buf_free(&buf);
}

/* What id_claim_put() writes of two ranges is what printf() would. */
static void check_put(enum id_format format, uint64_t first, uint32_t count)
{
    struct id_claim claim = {.count = 2 * count, .left = 2 * count, .format = format};
    struct buf wanted = BUF_INIT;
    struct buf got = BUF_INIT;

    insert(&claim, first, count);
    insert(&claim, first + 2 * (uint64_t)count, count);
    for (unsigned range = 0; range < 2; range++) {
        uint64_t from = first + 2 * (uint64_t)count * range;

        if (format == ID_FORMAT_RANGE) {
            buf_printf(&wanted, "%llu %llu\n", (unsigned long long)from,
                       (unsigned long long)(from + count - 1));
        }
        for (uint64_t i = 0; format == ID_FORMAT_TEXT && i < count; i++) {
            buf_printf(&wanted, "%llu\n", (unsigned long long)(from + i));
        }
    }
    id_claim_put(&claim, &got);
    assert_int_equal(got.len, wanted.len);
    assert_memory_equal(got.data, wanted.data, wanted.len);
    buf_free(&got);
    buf_free(&wanted);
}

static void test_text_and_ranges_as_printf(void **state)
{
    uint64_t power = 1;
    struct prng prng;

    (void)state;
    for (unsigned digits = 1; digits <= 19; digits++) {
        for (uint32_t count = 1; count <= 25; count++) {
            check_put(ID_FORMAT_TEXT, power - 1, count);
            check_put(ID_FORMAT_TEXT, power > 30 ? power - 30 : power, count);
            check_put(ID_FORMAT_RANGE, power - 1, count);
        }
        power *= 10;
    }
    prng_seed(&prng, 4);
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t first = prng_next(&prng) >> (1 + prng_below(&prng, 63));
        uint32_t count = 1 + (uint32_t)prng_below(&prng, 300);

        check_put(i % 2 == 0 ? ID_FORMAT_TEXT : ID_FORMAT_RANGE, first, count);
    }
    check_put(ID_FORMAT_TEXT, INT64_MAX - 400, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_joins),
        cmocka_unit_test(test_room_for_one_more),
        cmocka_unit_test(test_key_in_json),
        cmocka_unit_test(test_text_and_ranges_as_printf),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
