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
    struct hot_taken taken;
    assert_int_equal(hot_take(hot, 1, &taken), 0);
    assert_int_equal(hot_left(hot), 0);
    hot_publish(hot, &(struct leafd_series){100, 109, 1}, 5);
    assert_int_equal(hot_take(hot, 3, &taken), 3);
    assert_int_equal(taken.first, 100);
    assert_false(taken.low);
    assert_int_equal(hot_take(hot, 3, &taken), 3);
    assert_true(taken.low);
    assert_int_equal(hot_left(hot), 4);
    assert_int_equal(hot_take(hot, 100, &taken), 4);
    assert_int_equal(taken.first, 106);
    assert_false(taken.low);
    assert_int_equal(hot_take(hot, 1, &taken), 0);
    hot_publish(hot, &(struct leafd_series){INT64_MAX, INT64_MAX, 1}, HOT_NEVER_LOW);
    assert_int_equal(hot_take(hot, 1, &taken), 1);
    assert_int_equal(taken.first, INT64_MAX);
    free(hot);
}

static void test_steps(void **state)
{
    (void)state;
    struct hot *hot = aligned_alloc(64, sizeof *hot);
    memset(hot, 0, sizeof *hot);
    struct hot_taken taken;
    int64_t step = INT64_MAX / 4;
    hot_publish(hot, &(struct leafd_series){3, 3 + 4 * step, step}, HOT_NEVER_LOW);
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(hot_left(hot), 5 - i);
        assert_int_equal(hot_take(hot, 1, &taken), 1);
        assert_int_equal(taken.first, 3 + i * step);
        assert_int_equal(taken.increment, step);
    }
    assert_int_equal(hot_take(hot, 1, &taken), 0);
    free(hot);
}

static void test_end(void **state)
{
    (void)state;
    struct hot *hot = aligned_alloc(64, sizeof *hot);
    memset(hot, 0, sizeof *hot);
    struct hot_taken taken;
    hot_publish(hot, &(struct leafd_series){1, 10, 1}, HOT_NEVER_LOW);
    assert_int_equal(hot_take(hot, 4, &taken), 4);
    assert_int_equal(hot_end(hot), 6);
    assert_int_equal(hot_take(hot, 1, &taken), 0);
    assert_int_equal(hot_end(hot), 0);
    free(hot);
}

/* Calls that find nothing count, too, but never up to the number of the range. */
static void test_calls_that_find_nothing(void **state)
{
    (void)state;
    struct hot *hot = aligned_alloc(64, sizeof *hot);
    memset(hot, 0, sizeof *hot);
    struct hot_taken taken;
    hot_publish(hot, &(struct leafd_series){1, 10, 1}, HOT_NEVER_LOW);
    for (int i = 0; i < 200000; i++) {
        uint32_t found = hot_take(hot, TEXT_COUNT_MAX, &taken);
        assert_int_equal(found, i == 0 ? 10 : 0);
    }
    assert_int_equal(atomic_load(&hot->word) >> 32, 1);
    hot_publish(hot, &(struct leafd_series){11, 20, 1}, HOT_NEVER_LOW);
    assert_int_equal(hot_take(hot, 1, &taken), 1);
    assert_int_equal(taken.first, 11);
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
        struct leafd_series range = {shared->next, shared->next + RANGE_IDS - 1, 1};
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
        struct hot_taken taken;
        uint32_t found = hot_take(shared->hot, turn % 3 + 1, &taken);
        lows += taken.low;
        for (uint32_t i = 0; i < found; i++) {
            int64_t id = taken.first + i;
            bool wrong = id <= before || id >= TAKEN_MAX;
            if (wrong || atomic_fetch_add(&shared->taken[id], 1) != 0) {
                atomic_store(&shared->wrong, true);
                return NULL;
            }
            before = id;
        }
        if (found == 0) {
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
        cmocka_unit_test(test_one_range), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_end),       cmocka_unit_test(test_calls_that_find_nothing),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
