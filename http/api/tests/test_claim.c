/*
 * test_claim.c - ranges of a claim that come in any order, kept by their ids, joined, given up;
 * parked requests by tag, their demand and their bound; how ids are written.
 *
 * Ranges of a claim that come in any order: kept by their ids, joined, given up.
 *
 * Parked requests by tag, their demand and their bound; claims joined.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/ids.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

/* --- ids --- */

static void insert(struct id_claim *claim, uint64_t first, uint32_t count)
{
    struct segment_range range = {first, count, 0};

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
    expect(&claim, 970, (struct segment_range[]){{100, 10, 0}, {300, 10, 0}, {500, 10, 0}}, 3);
    insert(&claim, 310, 5);  /* to the one before */
    insert(&claim, 490, 10); /* to the one after */
    insert(&claim, 90, 10);
    insert(&claim, 510, 1);
    expect(&claim, 944, (struct segment_range[]){{90, 20, 0}, {300, 15, 0}, {490, 21, 0}}, 3);
    insert(&claim, 110, 190); /* to both */
    expect(&claim, 754, (struct segment_range[]){{90, 225, 0}, {490, 21, 0}}, 2);
    insert(&claim, 315, 175);
    expect(&claim, 579, (struct segment_range[]){{90, 421, 0}}, 1);
    insert(&claim, 0, 1);
    insert(&claim, UINT64_MAX - 10, 578);
    expect(&claim, 0, (struct segment_range[]){{0, 1, 0}, {90, 421, 0}, {UINT64_MAX - 10, 578, 0}},
           3);
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
        .count = 3, .left = 3, .source = ID_SOURCE_CLOCK, .format = ID_FORMAT_JSON, .name = "k\"1"};
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

/* --- waiters --- */

static void test_order_by_tag(void **state)
{
    struct id_table *table = id_table_new(0);
    struct id_tag *a = id_table_insert(table, "a", 1);
    struct id_tag *b = id_table_insert(table, "b", 1);
    struct waiter w[6] = {0};
    struct waiters waiters = {0};

    (void)state;
    assert_null(waiters_find(&waiters, a, NULL, 0));
    assert_null(waiters_find(&waiters, NULL, NULL, 0));
    assert_int_equal(waiters_add(&waiters, &w[0], a, 3), 0);
    assert_int_equal(waiters_add(&waiters, &w[1], b, 5), 0);
    assert_int_equal(waiters_add(&waiters, &w[4], NULL, 9), 0);
    assert_int_equal(waiters_add(&waiters, &w[2], a, 4), 0);
    assert_int_equal(waiters_add(&waiters, &w[3], a, 1), 0);
    assert_int_equal(waiters_add(&waiters, &w[5], NULL, 1), 0);
    assert_int_equal(atomic_load(&a->demand), 8);
    assert_int_equal(atomic_load(&b->demand), 5);
    assert_ptr_equal(waiters_find(&waiters, a, NULL, 0), &w[0]);
    assert_ptr_equal(waiters_find(&waiters, a, NULL, w[0].seq + 1), &w[2]);
    assert_ptr_equal(waiters_find(&waiters, a, NULL, w[2].seq + 1), &w[3]);
    assert_null(waiters_find(&waiters, a, NULL, w[3].seq + 1));
    assert_null(waiters_find(&waiters, b, NULL, w[1].seq + 1));
    /* Those that wait for the clock are no tag's. */
    assert_ptr_equal(waiters_find(&waiters, NULL, NULL, 0), &w[4]);
    assert_ptr_equal(waiters_find(&waiters, NULL, NULL, w[4].seq + 1), &w[5]);
    assert_null(waiters_find(&waiters, NULL, NULL, w[5].seq + 1));
    waiters_remove(&waiters, &w[4]);
    assert_ptr_equal(waiters_find(&waiters, NULL, NULL, 0), &w[5]);
    waiters_remove(&waiters, &w[5]);
    assert_null(waiters_find(&waiters, NULL, NULL, 0));
    waiters_remove(&waiters, &w[1]);
    assert_int_equal(atomic_load(&b->demand), 0);
    waiters_set_demand(&w[2], 1);
    assert_int_equal(atomic_load(&a->demand), 5);
    waiters_remove(&waiters, &w[2]);
    assert_int_equal(atomic_load(&a->demand), 4);
    assert_ptr_equal(waiters_find(&waiters, a, NULL, w[0].seq + 1), &w[3]);
    waiters_remove(&waiters, &w[3]);
    waiters_remove(&waiters, &w[0]);
    assert_int_equal(waiters.count, 0);
    assert_int_equal(atomic_load(&a->demand), 0);
    id_table_free(table);
}

/* Each clock has an order of its own, and they are walked from one to the next. */
static void test_order_by_clock(void **state)
{
    static const char clocks[2];
    struct id_table *table = id_table_new(0);
    struct id_tag *tag = id_table_insert(table, "a", 1);
    struct waiter w[6] = {0};
    struct waiters waiters = {0};

    (void)state;
    assert_null(waiters_find(&waiters, NULL, NULL, UINT64_MAX));
    w[0].clock = &clocks[1];
    w[1].clock = &clocks[0];
    w[2].clock = &clocks[1];
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(waiters_add(&waiters, &w[i], NULL, 1), 0);
    }
    assert_int_equal(waiters_add(&waiters, &w[5], tag, 1), 0);
    assert_ptr_equal(waiters_find(&waiters, NULL, NULL, 0), &w[3]);
    assert_ptr_equal(waiters_find(&waiters, NULL, &clocks[0], 0), &w[1]);
    assert_ptr_equal(waiters_find(&waiters, NULL, &clocks[1], 0), &w[0]);
    assert_ptr_equal(waiters_find(&waiters, NULL, NULL, UINT64_MAX), &w[1]);
    assert_ptr_equal(waiters_find(&waiters, NULL, &clocks[0], UINT64_MAX), &w[0]);
    assert_null(waiters_find(&waiters, NULL, &clocks[1], UINT64_MAX)); /* the tag's is none */
    waiters_remove(&waiters, &w[0]);
    assert_ptr_equal(waiters_find(&waiters, NULL, &clocks[1], 0), &w[2]);
    waiters_remove(&waiters, &w[1]);
    assert_ptr_equal(waiters_find(&waiters, NULL, &clocks[0], 0), &w[2]); /* that has none */
    assert_ptr_equal(waiters_find(&waiters, NULL, NULL, UINT64_MAX), &w[2]);
    for (size_t i = 2; i < 6; i++) {
        waiters_remove(&waiters, &w[i]);
    }
    id_table_free(table);
}

static void test_bound(void **state)
{
    struct waiter *w = calloc(LIMIT_WAITERS_PER_LOOP + 1, sizeof *w);
    struct id_table *table = id_table_new(0);
    struct id_tag *tag = id_table_insert(table, "a", 1);
    struct waiters waiters = {0};

    (void)state;
    assert_non_null(w);
    for (size_t i = 0; i < LIMIT_WAITERS_PER_LOOP; i++) {
        assert_int_equal(waiters_add(&waiters, &w[i], tag, 1), 0);
    }
    assert_int_equal(waiters_add(&waiters, &w[LIMIT_WAITERS_PER_LOOP], tag, 1), ERR_OVERLOADED);
    assert_false(w[LIMIT_WAITERS_PER_LOOP].parked);
    assert_int_equal(atomic_load(&tag->demand), LIMIT_WAITERS_PER_LOOP);
    waiters_remove(&waiters, &w[7]);
    assert_int_equal(waiters_add(&waiters, &w[LIMIT_WAITERS_PER_LOOP], tag, 1), 0);
    for (size_t i = 0; i <= LIMIT_WAITERS_PER_LOOP; i++) {
        if (w[i].parked) {
            waiters_remove(&waiters, &w[i]);
        }
    }
    assert_int_equal(atomic_load(&tag->demand), 0);
    id_table_free(table);
    free(w);
}

/* Shows lesson-contiguous. */
static void test_ranges_are_joined(void **state)
{
    struct id_claim claim = {.count = 1000, .left = 1000};

    (void)state;
    assert_true(id_claim_add(&claim, &(struct segment_range){10, 5, 0}));
    assert_true(id_claim_add(&claim, &(struct segment_range){15, 5, 0}));
    assert_int_equal(claim.range_count, 1);
    assert_int_equal(claim.ranges[0].count, 10);
    assert_true(id_claim_add(&claim, &(struct segment_range){21, 1, 0}));
    assert_int_equal(claim.range_count, 2);
    assert_int_equal(claim.left, 989);
    for (uint64_t i = 2; i < LIMIT_RANGES_PER_REPLY; i++) {
        assert_true(id_claim_add(&claim, &(struct segment_range){100 * i, 1, 0}));
    }
    assert_true(id_claim_add(&claim, &(struct segment_range){100 * 63 + 1, 1, 0}));
    assert_int_equal(claim.range_count, LIMIT_RANGES_PER_REPLY);
    assert_false(id_claim_add(&claim, &(struct segment_range){100000, 1, 0}));
}

static void put_is(const struct id_claim *claim, const char *wanted)
{
    struct buf buf = BUF_INIT;

    id_claim_put(claim, &buf);
    assert_int_equal(buf.len, strlen(wanted));
    assert_memory_equal(buf.data, wanted, buf.len);
    buf_free(&buf);
}

static void test_formats(void **state)
{
    struct id_claim claim = {.count = 6,
                             .range_count = 2,
                             .ranges = {{98, 4, 0}, {INT64_MAX - 2, 2, 0}},
                             .name = "a\"b",
                             .name_len = 3};

    (void)state;
    put_is(&claim, "98\n99\n100\n101\n9223372036854775805\n9223372036854775806\n");
    claim.format = ID_FORMAT_RANGE;
    put_is(&claim, "98 101\n9223372036854775805 9223372036854775806\n");
    claim.format = ID_FORMAT_JSON;
    put_is(&claim,
           "{\"tag\":\"a\\\"b\",\"count\":6,\"ranges\":[{\"first\":\"98\",\"last\":\"101\"},"
           "{\"first\":\"9223372036854775805\",\"last\":\"9223372036854775806\"}]}");
}

/* Lines are made by counting up in place: compare with division around every power of ten. */
static void test_lines_at_carries(void **state)
{
    (void)state;
    for (uint64_t power = 10; power <= UINT64_C(1000000000000000000); power *= 10) {
        struct id_claim claim = {.count = 25, .range_count = 1, .ranges = {{power - 12, 25, 0}}};
        struct buf buf = BUF_INIT;
        char wanted[25 * 21 + 1];
        size_t at = 0;

        if (power == 10) {
            claim.ranges[0].first = 0;
        }
        for (uint64_t i = 0; i < 25; i++) {
            at += (size_t)snprintf(wanted + at, sizeof(wanted) - at, "%llu\n",
                                   (unsigned long long)(claim.ranges[0].first + i));
        }
        id_claim_put(&claim, &buf);
        assert_int_equal(buf.len, at);
        assert_memory_equal(buf.data, wanted, at);
        buf_free(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_joins), cmocka_unit_test(test_room_for_one_more),
        cmocka_unit_test(test_key_in_json),     cmocka_unit_test(test_text_and_ranges_as_printf),
        cmocka_unit_test(test_order_by_tag),    cmocka_unit_test(test_order_by_clock),
        cmocka_unit_test(test_bound),           cmocka_unit_test(test_ranges_are_joined),
        cmocka_unit_test(test_formats),         cmocka_unit_test(test_lines_at_carries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
