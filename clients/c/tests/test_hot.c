/* The range that is handed out: taken by many threads while it is changed for the next one. */
#include "group.h"

#include "../segment.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, RANGES = 3000, RANGE_IDS = 7, TAKEN_MAX = RANGES * RANGE_IDS };

static void test_one_range(void **state)
{
    (void)state;
    struct hot *hot = aligned_alloc(64, sizeof *hot);
    memset(hot, 0, sizeof *hot);
    int64_t first;
    bool low;
    assert_int_equal(hot_take(hot, 1, &first, &low), 0);
    assert_int_equal(hot_left(hot), 0);
    hot_publish(hot, &(struct leafd_range){100, 109}, 5);
    assert_int_equal(hot_take(hot, 3, &first, &low), 3);
    assert_int_equal(first, 100);
    assert_false(low);
    assert_int_equal(hot_take(hot, 3, &first, &low), 3);
    assert_true(low);
    assert_int_equal(hot_left(hot), 4);
    assert_int_equal(hot_take(hot, 100, &first, &low), 4);
    assert_int_equal(first, 106);
    assert_false(low);
    assert_int_equal(hot_take(hot, 1, &first, &low), 0);
    hot_publish(hot, &(struct leafd_range){INT64_MAX, INT64_MAX}, HOT_NEVER_LOW);
    assert_int_equal(hot_take(hot, 1, &first, &low), 1);
    assert_int_equal(first, INT64_MAX);
    free(hot);
}

static void test_end(void **state)
{
    (void)state;
    struct hot *hot = aligned_alloc(64, sizeof *hot);
    memset(hot, 0, sizeof *hot);
    int64_t first;
    bool low;
    hot_publish(hot, &(struct leafd_range){1, 10}, HOT_NEVER_LOW);
    assert_int_equal(hot_take(hot, 4, &first, &low), 4);
    assert_int_equal(hot_end(hot), 6);
    assert_int_equal(hot_take(hot, 1, &first, &low), 0);
    assert_int_equal(hot_end(hot), 0);
    free(hot);
}

/* Calls that find nothing count, too, but never up to the number of the range. */
static void test_calls_that_find_nothing(void **state)
{
    (void)state;
    struct hot *hot = aligned_alloc(64, sizeof *hot);
    memset(hot, 0, sizeof *hot);
    int64_t first;
    bool low;
    hot_publish(hot, &(struct leafd_range){1, 10}, HOT_NEVER_LOW);
    for (int i = 0; i < 200000; i++) {
        uint32_t taken = hot_take(hot, TEXT_COUNT_MAX, &first, &low);
        assert_int_equal(taken, i == 0 ? 10 : 0);
    }
    assert_int_equal(atomic_load(&hot->word) >> 32, 1);
    hot_publish(hot, &(struct leafd_range){11, 20}, HOT_NEVER_LOW);
    assert_int_equal(hot_take(hot, 1, &first, &low), 1);
    assert_int_equal(first, 11);
    free(hot);
}

struct shared {
    struct hot *hot;
    pthread_mutex_t lock;
    int64_t next;
    unsigned lows;
    _Atomic unsigned char taken[TAKEN_MAX];
    _Atomic bool wrong;
};

static void next_range(struct shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    if (hot_left(shared->hot) == 0 && shared->next < TAKEN_MAX) {
        struct leafd_range range = {shared->next, shared->next + RANGE_IDS - 1};
        hot_publish(shared->hot, &range, 3);
        shared->next += RANGE_IDS;
    }
    pthread_mutex_unlock(&shared->lock);
}

static void *take_all(void *context)
{
    struct shared *shared = context;
    int64_t before = -1;
    unsigned lows = 0;
    for (uint32_t turn = 0;; turn++) {
        int64_t first;
        bool low;
        uint32_t taken = hot_take(shared->hot, turn % 3 + 1, &first, &low);
        lows += low;
        for (uint32_t i = 0; i < taken; i++) {
            int64_t id = first + i;
            bool wrong = id <= before || id >= TAKEN_MAX;
            if (wrong || atomic_fetch_add(&shared->taken[id], 1) != 0) {
                atomic_store(&shared->wrong, true);
                return NULL;
            }
            before = id;
        }
        if (taken == 0) {
            next_range(shared);
            pthread_mutex_lock(&shared->lock);
            bool over = shared->next == TAKEN_MAX && hot_left(shared->hot) == 0;
            shared->lows += over ? lows : 0;
            pthread_mutex_unlock(&shared->lock);
            if (over) {
                return NULL;
            }
        }
    }
}

/* No id twice, none outside of the ranges, and each thread's rise. A thread that is overtaken
 * between two steps may lose what it took: few are. */
static void test_threads(void **state)
{
    (void)state;
    struct shared *shared = calloc(1, sizeof *shared);
    pthread_t threads[THREADS];
    shared->hot = aligned_alloc(64, sizeof *shared->hot);
    memset(shared->hot, 0, sizeof *shared->hot);
    pthread_mutex_init(&shared->lock, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, take_all, shared);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_false(atomic_load(&shared->wrong));
    int missing = 0;
    for (int i = 0; i < TAKEN_MAX; i++) {
        assert_true(shared->taken[i] <= 1);
        missing += shared->taken[i] == 0;
    }
    assert_true(missing < TAKEN_MAX / 10);
    assert_true(shared->lows <= RANGES && shared->lows > RANGES * 9 / 10);
    free(shared->hot);
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_range),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_calls_that_find_nothing),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
