/*
 * test_bell.c - a loop that is woken: once for many rings, and never too early for what was left.
 *
 * Threads: main runs the loop; others ring.
 */
#include "src/loop/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include <cmocka.h>

#define RINGERS 4
#define RINGS 50000

static uv_loop_t loop;
static struct bell bell;
static unsigned rang;
static unsigned closed;
static _Atomic unsigned left; /* for the loop to find */
static unsigned found;
static unsigned wanted;

static void closed_cb(struct bell *which)
{
    assert_ptr_equal(which, &bell);
    closed++;
}

static void count_cb(struct bell *which)
{
    assert_ptr_equal(which, &bell);
    rang++;
}

static int setup(void **state)
{
    (void)state;
    rang = closed = found = 0;
    atomic_store(&left, 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(closed, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
    bell_free(&bell);
    return 0;
}

/* Rung for often, it comes once; and again when it is rung again. */
static void test_once_for_many(void **state)
{
    (void)state;
    assert_int_equal(bell_init(&bell, &loop, count_cb), 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(rang, 0);
    for (unsigned i = 1; i <= 3; i++) {
        bell_ring(&bell);
        bell_ring(&bell);
        bell_ring(&bell);
        (void)uv_run(&loop, UV_RUN_ONCE);
        assert_int_equal(rang, i);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(rang, i);
    }
    bell_close(&bell, closed_cb);
    bell_ring(&bell); /* nobody listens any more: harmless */
}

static void take_cb(struct bell *which)
{
    rang++;
    found += atomic_exchange_explicit(&left, 0, memory_order_relaxed);
    if (found == wanted) {
        bell_close(which, closed_cb);
    }
}

static void *leave_and_ring(void *data)
{
    (void)data;
    for (unsigned i = 0; i < RINGS; i++) {
        (void)atomic_fetch_add_explicit(&left, 1, memory_order_relaxed);
        bell_ring(&bell);
    }
    return NULL;
}

/* Whatever was left before a ring is found: the loop would sleep for ever over the last of it. */
static void test_nothing_is_overlooked(void **state)
{
    pthread_t threads[RINGERS];

    (void)state;
    wanted = RINGERS * RINGS;
    assert_int_equal(bell_init(&bell, &loop, take_cb), 0);
    for (unsigned i = 0; i < RINGERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, leave_and_ring, NULL), 0);
    }
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (unsigned i = 0; i < RINGERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(found, wanted);
    assert_in_range(rang, 1, wanted);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_once_for_many),
        TEST(test_nothing_is_overlooked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
