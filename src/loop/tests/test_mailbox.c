/*
 * test_mailbox.c - items from other threads to a loop: order, bounds, wake-ups, closing.
 *
 * Threads: main runs the loop; producers of their own post.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "src/tests/unit/test.h"
#include "src/base/limits.h"
#include "src/loop/mailbox.h"
#include "src/tests/unit/death.h"

#define PRODUCERS 4
#define ITEMS 5000

struct fixture {
    uv_loop_t loop;
    struct mailbox box;
    size_t max; /* of the items that wait in it */
    unsigned wakes;
    unsigned runs;
    unsigned closes;
    struct mailbox_item *ran[16]; /* the first ones, in order */
};

struct numbered {
    struct mailbox_item item;
    struct fixture *f;
    unsigned producer;
    unsigned number;
    struct mailbox_item *then; /* posted by run(), if not NULL */
    int then_status;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static void woken_cb(struct mailbox *mailbox)
{
    struct fixture *f = CONTAINER(mailbox, struct fixture, box);

    f->wakes++;
}

static void close_cb(struct mailbox *mailbox)
{
    struct fixture *f = CONTAINER(mailbox, struct fixture, box);

    f->closes++;
}

static void open_box(struct fixture *f, size_t max)
{
    assert_int_equal(mailbox_init(&f->box, &f->loop, woken_cb), 0);
    f->max = max;
}

/* Close it and run the loop to its end. */
static void close_box(struct fixture *f)
{
    mailbox_close(&f->box, close_cb);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->closes, 1);
    mailbox_free(&f->box);
}

static void run_cb(struct mailbox_item *item)
{
    struct numbered *numbered = (struct numbered *)item;
    struct fixture *f = numbered->f;

    if (f->runs < sizeof f->ran / sizeof f->ran[0]) {
        f->ran[f->runs] = item;
    }
    f->runs++;
    if (numbered->then != NULL) {
        numbered->then_status = mailbox_post(&f->box, numbered->then, f->max);
    }
}

static void init_items(struct fixture *f, struct numbered *items, size_t count)
{
    memset(items, 0, count * sizeof *items);
    for (size_t i = 0; i < count; i++) {
        items[i].item.run = run_cb;
        items[i].f = f;
        items[i].number = (unsigned)i;
    }
}

/* All that waits comes in one turn, in order, with one call of woken. */
static void test_order(void **state)
{
    struct fixture *f = *state;
    struct numbered items[10];

    open_box(f, 100);
    init_items(f, items, 10);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(mailbox_post(&f->box, &items[i].item, f->max), 0);
    }
    assert_int_equal(f->runs, 0);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 10);
    assert_int_equal(f->wakes, 1);
    for (size_t i = 0; i < 10; i++) {
        assert_ptr_equal(f->ran[i], &items[i].item);
    }
    /* Nothing is left to wake for. */
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->runs, 10);
    close_box(f);
}

static void test_bound(void **state)
{
    struct fixture *f = *state;
    struct numbered items[4];

    open_box(f, 3);
    init_items(f, items, 4);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mailbox_post(&f->box, &items[i].item, f->max), 0);
    }
    assert_int_equal(mailbox_post(&f->box, &items[3].item, f->max), ERR_OVERLOADED);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 3);
    /* There is room again, and the refused item is still its owner's to post. */
    assert_int_equal(mailbox_post(&f->box, &items[3].item, f->max), 0);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 4);
    assert_ptr_equal(f->ran[3], &items[3].item);
    close_box(f);
}

static void test_bound_of_one(void **state)
{
    struct fixture *f = *state;
    struct numbered items[2];

    open_box(f, 1);
    init_items(f, items, 2);
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    assert_int_equal(mailbox_post(&f->box, &items[1].item, f->max), ERR_OVERLOADED);
    close_box(f);
    assert_int_equal(f->runs, 1);
}

/* Completions pass the bound, and count towards it. */
static void test_post_always(void **state)
{
    struct fixture *f = *state;
    struct numbered items[6];

    open_box(f, 2);
    init_items(f, items, 6);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(mailbox_post(&f->box, &items[i].item, SIZE_MAX), 0);
    }
    assert_int_equal(mailbox_post(&f->box, &items[5].item, f->max), ERR_OVERLOADED);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 5);
    mailbox_close(&f->box, NULL);
    assert_int_equal(mailbox_post(&f->box, &items[5].item, SIZE_MAX), ERR_SHUTTING_DOWN);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    mailbox_free(&f->box);
}

/* Posted while the box is drained: it comes with the next turn, so one turn cannot go on for ever.
 */
static void test_post_from_run(void **state)
{
    struct fixture *f = *state;
    struct numbered items[2];

    open_box(f, 1);
    init_items(f, items, 2);
    items[0].then = &items[1].item;
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(items[0].then_status, 0);
    assert_int_equal(f->runs, 1);
    assert_int_equal(f->wakes, 1);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 2);
    assert_int_equal(f->wakes, 2);
    close_box(f);
}

/* An item is its own again when it runs: it may post itself. */
static void test_item_posts_itself(void **state)
{
    struct fixture *f = *state;
    struct numbered item;

    open_box(f, 1);
    init_items(f, &item, 1);
    item.then = &item.item;
    assert_int_equal(mailbox_post(&f->box, &item.item, f->max), 0);
    for (unsigned turn = 1; turn <= 5; turn++) {
        uv_run(&f->loop, UV_RUN_ONCE);
        assert_int_equal(f->runs, turn);
        assert_int_equal(item.then_status, 0);
    }
    item.then = NULL;
    close_box(f);
    assert_int_equal(f->runs, 6);
}

/* Closing runs what waits, and refuses what comes later, even from what it runs. */
static void test_close(void **state)
{
    struct fixture *f = *state;
    struct numbered items[3];

    open_box(f, 10);
    init_items(f, items, 3);
    items[0].then = &items[2].item;
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    assert_int_equal(mailbox_post(&f->box, &items[1].item, f->max), 0);
    mailbox_close(&f->box, close_cb);
    assert_int_equal(f->runs, 2);
    assert_int_equal(f->wakes, 0);
    assert_int_equal(items[0].then_status, ERR_SHUTTING_DOWN);
    assert_int_equal(f->closes, 0); /* not from inside */
    assert_int_equal(mailbox_post(&f->box, &items[2].item, f->max), ERR_SHUTTING_DOWN);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->closes, 1);
    assert_int_equal(f->runs, 2);
    assert_int_equal(mailbox_post(&f->box, &items[2].item, f->max), ERR_SHUTTING_DOWN);
    mailbox_free(&f->box);
}

static void test_close_without_callbacks(void **state)
{
    struct fixture *f = *state;
    struct numbered item;

    open_box(f, LIMIT_MAILBOX_ITEMS);
    init_items(f, &item, 1);
    f->box.woken = NULL;
    assert_int_equal(mailbox_post(&f->box, &item.item, f->max), 0);
    mailbox_close(&f->box, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->runs, 1);
    mailbox_free(&f->box);
}

/* No descriptor is left. */
static void test_no_room_for_one(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    struct rlimit none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(mailbox_init(&f->box, &f->loop, NULL), ERR_NOMEM);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* --- a thread that holds --- */

/* Who holds wakes the loop once, for all, when it lets go. */
static void test_hold(void **state)
{
    struct fixture *f = *state;
    struct numbered items[3];

    open_box(f, 10);
    init_items(f, items, 3);
    mailbox_hold();
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mailbox_post(&f->box, &items[i].item, f->max), 0);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        assert_int_equal(f->runs, 0);
    }
    mailbox_flush();
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 3);
    assert_int_equal(f->wakes, 1);
    /* It still holds after a flush. */
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->runs, 3);
    mailbox_release();
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 4);
    /* It holds no longer, and a second release is none. */
    mailbox_release();
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 5);
    close_box(f);
}

static void *post_one(void *data)
{
    struct numbered *numbered = data;

    assert_int_equal(mailbox_post(&numbered->f->box, &numbered->item, numbered->f->max), 0);
    return NULL;
}

/* What another thread puts in beside what is held comes with it; into a box that was emptied
 * meanwhile, at once; and each item once. */
static void test_hold_beside_another_thread(void **state)
{
    struct fixture *f = *state;
    struct numbered items[4];
    pthread_t thread;

    open_box(f, 10);
    init_items(f, items, 4);
    mailbox_hold();
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    assert_int_equal(pthread_create(&thread, NULL, post_one, &items[1]), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mailbox_release();
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 2);

    /* Emptied while it is on the list of who holds: its wakeup had been sent before. */
    assert_int_equal(mailbox_post(&f->box, &items[0].item, f->max), 0);
    mailbox_hold();
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(mailbox_post(&f->box, &items[1].item, f->max), 0);
    mailbox_release();
    mailbox_hold();
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 4);
    assert_int_equal(pthread_create(&thread, NULL, post_one, &items[2]), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runs, 5);
    mailbox_release();
    close_box(f);
}

/* A box that was closed while it was held for, and one that holds nothing any more. */
static void test_release_of_a_closed_box(void **state)
{
    struct fixture *f = *state;
    struct numbered item;

    open_box(f, 10);
    init_items(f, &item, 1);
    mailbox_hold();
    assert_int_equal(mailbox_post(&f->box, &item.item, f->max), 0);
    mailbox_close(&f->box, close_cb);
    assert_int_equal(f->runs, 1);
    mailbox_release();
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->runs, 1);
    mailbox_free(&f->box);
}

/* --- with producers on threads of their own --- */

struct crowd {
    struct fixture *f;
    struct numbered *items[PRODUCERS];
    pthread_t threads[PRODUCERS];
    unsigned next[PRODUCERS]; /* the number expected next, on the loop's thread */
    unsigned ran;
    unsigned stop_after; /* close the box when so many ran */
    bool closing;
    _Atomic unsigned accepted;
    _Atomic unsigned overloaded;
    _Atomic unsigned refused;
};

static struct crowd crowd;

static void crowd_run_cb(struct mailbox_item *item)
{
    struct numbered *numbered = (struct numbered *)item;

    /* Each producer's items come in the order it posted them, none twice and none left out. */
    assert_int_equal(numbered->number, crowd.next[numbered->producer]);
    crowd.next[numbered->producer]++;
    crowd.ran++;
}

static void crowd_woken_cb(struct mailbox *mailbox)
{
    if (crowd.ran >= crowd.stop_after && !crowd.closing) {
        crowd.closing = true;
        mailbox_close(mailbox, close_cb);
    }
}

static void *produce(void *data)
{
    unsigned producer = *(unsigned *)data;

    for (unsigned i = 0; i < ITEMS; i++) {
        if (producer % 2 == 1 && i % 8 == 0) { /* some of them hold */
            mailbox_release();
            mailbox_hold();
        }
        struct numbered *numbered = &crowd.items[producer][i];
        int rv;

        *numbered = (struct numbered){{.run = crowd_run_cb}, crowd.f, producer, i, NULL, 0};
        while ((rv = mailbox_post(&crowd.f->box, &numbered->item, crowd.f->max)) ==
               ERR_OVERLOADED) {
            atomic_fetch_add(&crowd.overloaded, 1);
            mailbox_release();
            sched_yield();
        }
        if (rv == ERR_SHUTTING_DOWN) {
            atomic_fetch_add(&crowd.refused, 1);
            break;
        }
        atomic_fetch_add(&crowd.accepted, 1);
    }
    mailbox_release();
    return NULL;
}

static void run_crowd(struct fixture *f, size_t max, unsigned stop_after)
{
    unsigned numbers[PRODUCERS];

    memset(&crowd, 0, sizeof crowd);
    crowd.f = f;
    crowd.stop_after = stop_after;
    open_box(f, max);
    f->box.woken = crowd_woken_cb;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        numbers[i] = i;
        crowd.items[i] = malloc(ITEMS * sizeof *crowd.items[i]);
        assert_non_null(crowd.items[i]);
        assert_int_equal(pthread_create(&crowd.threads[i], NULL, produce, &numbers[i]), 0);
    }
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        assert_int_equal(pthread_join(crowd.threads[i], NULL), 0);
        free(crowd.items[i]);
    }
    mailbox_free(&f->box);
    assert_int_equal(f->closes, 1);
    /* What was accepted ran, exactly once. */
    assert_int_equal(crowd.ran, atomic_load(&crowd.accepted));
}

static void test_producers(void **state)
{
    run_crowd(*state, LIMIT_MAILBOX_ITEMS, PRODUCERS * ITEMS);
    assert_int_equal(crowd.ran, PRODUCERS * ITEMS);
    assert_int_equal(atomic_load(&crowd.overloaded), 0);
    assert_int_equal(atomic_load(&crowd.refused), 0);
}

/* A box of four: producers meet the bound again and again, and nothing is lost. */
static void test_producers_at_the_bound(void **state)
{
    run_crowd(*state, 4, PRODUCERS * ITEMS);
    assert_int_equal(crowd.ran, PRODUCERS * ITEMS);
    assert_int_equal(atomic_load(&crowd.refused), 0);
}

/* Closed in the midst of it: what is posted later is refused, never lost in silence. */
static void test_close_under_producers(void **state)
{
    run_crowd(*state, 64, PRODUCERS * ITEMS / 4);
    assert_true(crowd.ran >= PRODUCERS * ITEMS / 4);
    assert_true(crowd.ran < PRODUCERS * ITEMS);
    assert_in_range(atomic_load(&crowd.refused), 1, PRODUCERS);
}

/* --- misuse --- */

static void nothing_cb(struct mailbox_item *item)
{
    (void)item;
}

static void post_with_no_bound(void *data)
{
    struct mailbox_item item = {.run = nothing_cb};

    (void)!mailbox_post(data, &item, 0);
}

static void post_without_run(void *data)
{
    struct mailbox_item item = {.run = NULL};

    (void)!mailbox_post(data, &item, 1);
}

static void close_twice(void *data)
{
    mailbox_close(data, NULL);
    mailbox_close(data, NULL);
}

static void hold_twice(void *data)
{
    (void)data;
    mailbox_hold();
    mailbox_hold();
}

static void test_misuse_ends_the_process(void **state)
{
    struct fixture *f = *state;

    open_box(f, 1);
    assert_true(death_by_assert(post_with_no_bound, &f->box));
    assert_true(death_by_assert(post_without_run, &f->box));
    assert_true(death_by_assert(close_twice, &f->box));
    assert_true(death_by_assert(hold_twice, NULL));
    close_box(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_misuse_ends_the_process), /* first: it forks, and there are no threads yet */
        TEST(test_order),
        TEST(test_bound),
        TEST(test_bound_of_one),
        TEST(test_post_always),
        TEST(test_post_from_run),
        TEST(test_item_posts_itself),
        TEST(test_close),
        TEST(test_close_without_callbacks),
        TEST(test_no_room_for_one),
        TEST(test_hold),
        TEST(test_hold_beside_another_thread),
        TEST(test_release_of_a_closed_box),
        TEST(test_producers),
        TEST(test_producers_at_the_bound),
        TEST(test_close_under_producers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
