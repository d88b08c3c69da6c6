/* Snowflake ids within a window, by clocks that the test sets. */
#include "group.h"

#include "../stamp.h"

#include <pthread.h>
#include <stdlib.h>

static const struct layout leaf = {1288834974657, 41, 10, 12};
static const struct layout tiny = {1000000, 41, 6, 4};

static struct lease *lease_of(const struct layout *layout, int64_t from_ms, int64_t until_ms)
{
    struct lease *lease = aligned_alloc(64, sizeof *lease);
    lease_init(lease, layout, from_ms, until_ms, 1);
    lease->worker_id = 5;
    return lease;
}

static void test_layouts(void **state)
{
    (void)state;
    static const struct layout bad[] = {
        {0, 38, 10, 12}, {0, 46, 1, 4},    {0, 41, 0, 12},
        {0, 41, 11, 4},  {0, 41, 10, 3},   {0, 41, 4, 17},
        {0, 45, 10, 9},  {-1, 41, 10, 12}, {(int64_t)1 << 45, 41, 10, 12}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(layout_is_right(&bad[i]));
    }
    static const struct layout good[] = {{0, 39, 1, 4}, {0, 41, 10, 12}, {0, 45, 10, 8}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(layout_is_right(&good[i]));
    }
}

/* The example of docs/snowflake.md and that of docs/http-api.md. */
static void test_examples(void **state)
{
    (void)state;
    struct leafd_parts parts = layout_decode(&leaf, 2123748187964452921);
    assert_int_equal(parts.time_ms, 1795176000001);
    assert_int_equal(parts.worker_id, 3);
    assert_int_equal(parts.sequence, 57);
    parts = layout_decode(&leaf, 1256557484213448722);
    assert_int_equal(parts.time_ms, 1588421624602);
    assert_int_equal(parts.worker_id, 619);
    assert_int_equal(parts.sequence, 18);
    assert_int_equal(layout_at(&leaf, 1588421624602), 1256557484210913280);
    assert_int_equal(layout_at(&leaf, leaf.epoch_ms), 0);
    assert_int_equal(layout_at(&leaf, layout_last_ms(&leaf)) >> 22, ((int64_t)1 << 41) - 1);
}

static void test_window(void **state)
{
    (void)state;
    int64_t id;
    struct lease *lease = lease_of(&leaf, 1795176000000, 1795176000005);
    assert_int_equal(lease_last_ms(lease), 0);
    assert_int_equal(lease_stamp(lease, 1795175999999, &id), STAMP_WAIT);
    assert_int_equal(lease_stamp(lease, 1795176000000, &id), STAMP_WAIT);
    assert_int_equal(lease_stamp(lease, 1795176000001, &id), STAMPED);
    struct leafd_parts parts = layout_decode(&leaf, id);
    assert_int_equal(parts.time_ms, 1795176000001);
    assert_int_equal(parts.worker_id, 5);
    assert_int_equal(lease_stamp(lease, 1795176000005, &id), STAMPED);
    assert_int_equal(lease_stamp(lease, 1795176000006, &id), STAMP_OVER);
    assert_int_equal(lease_last_ms(lease), 1795176000005);
    atomic_store(&lease->until_ms, 1795176000006);
    assert_int_equal(lease_stamp(lease, 1795176000006, &id), STAMPED);
    assert_int_equal(lease_end(lease), 1795176000006);
    assert_int_equal(lease_stamp(lease, 1795176000006, &id), STAMP_WAIT);
    free(lease);
}

static void test_before_the_epoch(void **state)
{
    (void)state;
    int64_t id;
    struct lease *lease = lease_of(&tiny, 0, INT64_MAX);
    assert_int_equal(lease_stamp(lease, 0, &id), STAMP_WAIT);
    assert_int_equal(lease_stamp(lease, 1000000, &id), STAMP_WAIT);
    assert_int_equal(lease_stamp(lease, 1000001, &id), STAMPED);
    assert_int_equal(lease_stamp(lease, 1000000 + ((int64_t)1 << 41) - 1, &id), STAMPED);
    assert_int_equal(lease_stamp(lease, 1000000 + ((int64_t)1 << 41), &id), STAMP_OVER);
    free(lease);
}

/* A millisecond has 16 ids at most here; the one after a full one begins at 0. */
static void test_a_sequence_that_is_used_up(void **state)
{
    (void)state;
    int64_t id = 0, before = -1;
    struct lease *lease = lease_of(&tiny, 0, INT64_MAX);
    int of_one = 0;
    while (lease_stamp(lease, 2000000, &id) == STAMPED) {
        assert_true(id > before);
        before = id;
        of_one++;
    }
    assert_true(of_one >= 1 && of_one <= 16);
    assert_int_equal(layout_decode(&tiny, id).sequence, 15);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(lease_stamp(lease, 2000001, &id), STAMPED);
        assert_int_equal(layout_decode(&tiny, id).sequence, i);
    }
    assert_int_equal(lease_stamp(lease, 2000001, &id), STAMP_WAIT);
    free(lease);
}

static void test_a_clock_that_goes_back(void **state)
{
    (void)state;
    int64_t first, id;
    struct lease *lease = lease_of(&leaf, 0, INT64_MAX);
    assert_int_equal(lease_stamp(lease, 1795176000000, &first), STAMPED);
    uint32_t more = 0;
    while (lease_stamp(lease, 1700000000000, &id) == STAMPED) {
        assert_int_equal(id, first + ++more);
    }
    assert_int_equal(layout_decode(&leaf, first).sequence + more, 4095);
    assert_int_equal(lease_stamp(lease, 1795176000001, &id), STAMPED);
    assert_true(id > first + more);
    free(lease);
}

/* Millisecond by millisecond, the first sequences are spread over all that there are. */
static void test_first_sequences(void **state)
{
    (void)state;
    struct lease *lease = lease_of(&leaf, 0, INT64_MAX);
    int seen[4096] = {0};
    for (int64_t ms = 0; ms < 4096 * 100; ms++) {
        int64_t id;
        assert_int_equal(lease_stamp(lease, 1795176000000 + 2 * ms, &id), STAMPED);
        uint32_t sequence = layout_decode(&leaf, id).sequence;
        seen[sequence]++;
    }
    for (int i = 0; i < 4096; i++) {
        assert_in_range(seen[i], 40, 200);
    }
    free(lease);
}

enum { THREADS = 4, EACH = 20000 };

struct stamper {
    struct lease *lease;
    _Atomic int64_t *clock_ms;
    int64_t ids[EACH];
    bool fell;
};

static void *stamp_many(void *context)
{
    struct stamper *stamper = context;
    for (int i = 0; i < EACH;) {
        int64_t now_ms = atomic_load(stamper->clock_ms);
        /* It jitters, as a clock that is read by several processors may. */
        if (lease_stamp(stamper->lease, now_ms - i % 3, &stamper->ids[i]) != STAMPED) {
            atomic_fetch_add(stamper->clock_ms, 1);
            continue;
        }
        stamper->fell = stamper->fell || (i > 0 && stamper->ids[i] <= stamper->ids[i - 1]);
        i++;
    }
    return NULL;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void test_threads(void **state)
{
    (void)state;
    struct stamper *stampers = calloc(THREADS, sizeof *stampers);
    int64_t *all = malloc(sizeof *all * THREADS * EACH);
    pthread_t threads[THREADS];
    _Atomic int64_t clock_ms = 2000000;
    struct lease *lease = lease_of(&tiny, 0, INT64_MAX);
    for (int i = 0; i < THREADS; i++) {
        stampers[i].lease = lease;
        stampers[i].clock_ms = &clock_ms;
        pthread_create(&threads[i], NULL, stamp_many, &stampers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(stampers[i].fell);
        for (int j = 0; j < EACH; j++) {
            all[i * EACH + j] = stampers[i].ids[j];
        }
    }
    qsort(all, (size_t)THREADS * EACH, sizeof *all, compare);
    for (int i = 1; i < THREADS * EACH; i++) {
        assert_true(all[i - 1] < all[i]);
    }
    free(lease);
    free(all);
    free(stampers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_before_the_epoch),
        cmocka_unit_test(test_a_sequence_that_is_used_up),
        cmocka_unit_test(test_a_clock_that_goes_back),
        cmocka_unit_test(test_first_sequences),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
