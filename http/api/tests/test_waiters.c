/*
 * test_waiters.c - parked requests by tag, their demand and their bound; claims
 * joined.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/ids.h"
#include "http/api/waiters.h"
#include "src/base/limits.h"

static void test_order_by_tag(void **state)
{
    struct id_table *table = id_table_new(0);
    struct id_tag *a = id_table_insert(table, "a", 1);
    struct id_tag *b = id_table_insert(table, "b", 1);
    struct waiter w[6] = {0};
    struct waiters waiters;

    (void)state;
    waiters_init(&waiters);
    assert_null(waiters_first(&waiters, a));
    assert_null(waiters_first(&waiters, NULL));
    assert_int_equal(waiters_add(&waiters, &w[0], a, 3), 0);
    assert_int_equal(waiters_add(&waiters, &w[1], b, 5), 0);
    assert_int_equal(waiters_add(&waiters, &w[4], NULL, 9), 0);
    assert_int_equal(waiters_add(&waiters, &w[2], a, 4), 0);
    assert_int_equal(waiters_add(&waiters, &w[3], a, 1), 0);
    assert_int_equal(waiters_add(&waiters, &w[5], NULL, 1), 0);
    assert_int_equal(atomic_load(&a->demand), 8);
    assert_int_equal(atomic_load(&b->demand), 5);
    assert_ptr_equal(waiters_first(&waiters, a), &w[0]);
    assert_ptr_equal(waiters_after(&w[0]), &w[2]);
    assert_ptr_equal(waiters_after(&w[2]), &w[3]);
    assert_null(waiters_after(&w[3]));
    assert_null(waiters_after(&w[1]));
    /* Those that wait for the clock are no tag's. */
    assert_ptr_equal(waiters_first(&waiters, NULL), &w[4]);
    assert_ptr_equal(waiters_after(&w[4]), &w[5]);
    assert_null(waiters_after(&w[5]));
    waiters_remove(&waiters, &w[4]);
    assert_ptr_equal(waiters_first(&waiters, NULL), &w[5]);
    waiters_remove(&waiters, &w[5]);
    assert_null(waiters_first(&waiters, NULL));
    waiters_remove(&waiters, &w[1]);
    assert_int_equal(atomic_load(&b->demand), 0);
    waiters_set_demand(&w[2], 1);
    assert_int_equal(atomic_load(&a->demand), 5);
    waiters_remove(&waiters, &w[2]);
    assert_int_equal(atomic_load(&a->demand), 4);
    assert_ptr_equal(waiters_after(&w[0]), &w[3]);
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
    struct waiters waiters;

    (void)state;
    waiters_init(&waiters);
    assert_null(waiters_next_clock(&waiters, NULL));
    w[0].clock = &clocks[1];
    w[1].clock = &clocks[0];
    w[2].clock = &clocks[1];
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(waiters_add(&waiters, &w[i], NULL, 1), 0);
    }
    assert_int_equal(waiters_add(&waiters, &w[5], tag, 1), 0);
    assert_ptr_equal(waiters_first_of_clock(&waiters, NULL), &w[3]);
    assert_ptr_equal(waiters_first_of_clock(&waiters, &clocks[0]), &w[1]);
    assert_ptr_equal(waiters_first_of_clock(&waiters, &clocks[1]), &w[0]);
    assert_ptr_equal(waiters_next_clock(&waiters, NULL), &w[1]);
    assert_ptr_equal(waiters_next_clock(&waiters, &clocks[0]), &w[0]);
    assert_null(waiters_next_clock(&waiters, &clocks[1])); /* the tag's is none */
    waiters_remove(&waiters, &w[0]);
    assert_ptr_equal(waiters_first_of_clock(&waiters, &clocks[1]), &w[2]);
    waiters_remove(&waiters, &w[1]);
    assert_null(waiters_first_of_clock(&waiters, &clocks[0]));
    assert_ptr_equal(waiters_next_clock(&waiters, NULL), &w[2]);
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
    struct waiters waiters;

    (void)state;
    assert_non_null(w);
    waiters_init(&waiters);
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
    assert_true(id_claim_add(&claim, &(struct segment_range){10, 5}));
    assert_true(id_claim_add(&claim, &(struct segment_range){15, 5}));
    assert_int_equal(claim.range_count, 1);
    assert_int_equal(claim.ranges[0].count, 10);
    assert_true(id_claim_add(&claim, &(struct segment_range){21, 1}));
    assert_int_equal(claim.range_count, 2);
    assert_int_equal(claim.left, 989);
    for (uint64_t i = 2; i < LIMIT_RANGES_PER_REPLY; i++) {
        assert_true(id_claim_add(&claim, &(struct segment_range){100 * i, 1}));
    }
    assert_true(id_claim_add(&claim, &(struct segment_range){100 * 63 + 1, 1}));
    assert_int_equal(claim.range_count, LIMIT_RANGES_PER_REPLY);
    assert_false(id_claim_add(&claim, &(struct segment_range){100000, 1}));
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
                             .ranges = {{98, 4}, {INT64_MAX - 2, 2}},
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
        struct id_claim claim = {.count = 25, .range_count = 1, .ranges = {{power - 12, 25}}};
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
        cmocka_unit_test(test_order_by_tag), cmocka_unit_test(test_order_by_clock),
        cmocka_unit_test(test_bound),        cmocka_unit_test(test_ranges_are_joined),
        cmocka_unit_test(test_formats),      cmocka_unit_test(test_lines_at_carries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
