/*
 * test_wake.c - a loop that is woken: once for many wakeups, and never too early for what was left.
 *
 * Threads: main runs the loop; others send the wakeups.
 */
#include "src/loop/mailbox.h"

#include <pthread.h>

#include "src/tests/unit/test.h"

#define SENDERS 4
#define SENDS 50000

static uv_loop_t loop;
static struct mailbox box;
static unsigned woken;
static unsigned closed;
static _Atomic unsigned left; /* for the loop to find */
static unsigned found;
static unsigned wanted;

static void closed_cb(struct mailbox *which)
{
    assert_ptr_equal(which, &box);
    closed++;
}

static void count_cb(struct mailbox *which)
{
    assert_ptr_equal(which, &box);
    woken++;
}

static int setup(void **state)
{
    (void)state;
    woken = closed = found = 0;
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
    mailbox_free(&box);
    return 0;
}

/* Sent often, it comes once; and again when it is sent again. */
static void test_once_for_many(void **state)
{
    (void)state;
    assert_int_equal(mailbox_init(&box, &loop, count_cb), 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(woken, 0);
    for (unsigned i = 1; i <= 3; i++) {
        mailbox_wake(&box);
        mailbox_wake(&box);
        mailbox_wake(&box);
        (void)uv_run(&loop, UV_RUN_ONCE);
        assert_int_equal(woken, i);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(woken, i);
    }
    mailbox_close(&box, closed_cb);
    mailbox_wake(&box); /* nobody listens any more: harmless */
}

static void take_cb(struct mailbox *which)
{
    woken++;
    found += atomic_exchange_explicit(&left, 0, memory_order_relaxed);
    if (found == wanted) {
        mailbox_close(which, closed_cb);
    }
}

static void *leave_and_send(void *data)
{
    (void)data;
    for (unsigned i = 0; i < SENDS; i++) {
        (void)atomic_fetch_add_explicit(&left, 1, memory_order_relaxed);
        mailbox_wake(&box);
    }
    return NULL;
}

/* Whatever was left before a wakeup is found, or the loop would sleep for ever. */
static void test_nothing_is_overlooked(void **state)
{
    pthread_t threads[SENDERS];

    (void)state;
    wanted = SENDERS * SENDS;
    assert_int_equal(mailbox_init(&box, &loop, take_cb), 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, leave_and_send, NULL), 0);
    }
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(found, wanted);
    assert_in_range(woken, 1, wanted);
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
