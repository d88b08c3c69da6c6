/*
 * test_allocator_threads.c - no wake-up is lost and no id handed out twice while claimers race with
 * the owner of the allocator: the protocol that allocator.h writes down, with segments so small
 * that many requests park.
 *
 * Threads: claimers in the part of HTTP loops; the owner of the allocator, the table and the
 * cluster in the part of the raft loop.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "src/id/tests/id_world.h"

#define CLAIMERS 4
#define TAGS 2
#define IDS_EACH 20000U /* ids that one claimer takes of each tag */
#define IDS_MAX (4U * 1000 * 1000)
#define LOST_S 30 /* no wake-up for so long is a lost one */

struct race;

struct claimer {
    struct race *race;
    unsigned number;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool woken; /* guarded by mutex */
    struct prng prng;
};

struct race {
    struct id_waker waker;
    struct id_world *world; /* the owner's */
    struct id_tag *tags[TAGS];
    _Atomic uint8_t *seen[TAGS]; /* an entry an id */
    struct claimer claimers[CLAIMERS];
    _Atomic unsigned running;
    _Atomic uint64_t parks;
    pthread_mutex_t mutex;
    struct id_tag *wants[TAGS]; /* guarded by mutex: the way to the owner */
    size_t want_count;          /* guarded by mutex */
};

static void wake_claimers(struct id_waker *waker, struct id_tag *tag, uint64_t loops)
{
    struct race *race = (struct race *)waker;

    (void)tag;
    for (unsigned i = 0; i < CLAIMERS; i++) {
        struct claimer *claimer = &race->claimers[i];

        if (loops & 1ULL << i) {
            (void)pthread_mutex_lock(&claimer->mutex);
            claimer->woken = true;
            (void)pthread_cond_signal(&claimer->cond);
            (void)pthread_mutex_unlock(&claimer->mutex);
        }
    }
}

static void send_want(struct race *race, struct id_tag *tag)
{
    (void)pthread_mutex_lock(&race->mutex);
    ASSERT(race->want_count < TAGS); /* refill_wanted lets one of each tag through */
    race->wants[race->want_count++] = tag;
    (void)pthread_mutex_unlock(&race->mutex);
}

static void wait_for_wake(struct claimer *claimer)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOST_S;
    (void)pthread_mutex_lock(&claimer->mutex);
    while (!claimer->woken) {
        int err = pthread_cond_timedwait(&claimer->cond, &claimer->mutex, &until);

        ASSERT(err == 0); /* ETIMEDOUT: the wake-up was lost */
    }
    claimer->woken = false;
    (void)pthread_mutex_unlock(&claimer->mutex);
}

/* Claim up to count ids of a tag and mark them; how many there were. */
static uint32_t claim_some(struct claimer *claimer, unsigned tag, uint32_t count)
{
    struct race *race = claimer->race;
    struct segment_range range;
    struct segment_view view;

    if (segment_claim(&race->tags[tag]->buffer, 1, count, &range, &view) != 0) {
        return 0;
    }
    for (uint64_t id = range.first; id < range.first + range.count; id++) {
        ASSERT(id < IDS_MAX);
        ASSERT(atomic_fetch_add_explicit(&race->seen[tag][id], 1, memory_order_relaxed) == 0);
    }
    if (refill_due(view.used, view.size, REFILL_DEFAULT_PERCENT) && !view.next_ready &&
        !atomic_exchange_explicit(&race->tags[tag]->refill_wanted, true, memory_order_acq_rel)) {
        send_want(race, race->tags[tag]);
    }
    return range.count;
}

/* Take count ids, parking as allocator.h says. */
static void serve(struct claimer *claimer, unsigned number, uint32_t count)
{
    struct race *race = claimer->race;
    struct id_tag *tag = race->tags[number];
    uint32_t got = claim_some(claimer, number, count);
    uint32_t demand = count - got;

    if (got == count) {
        return;
    }
    atomic_fetch_add(&tag->demand, demand);
    while (got < count) {
        (void)atomic_fetch_or_explicit(&tag->waiting_loops, 1ULL << claimer->number,
                                       memory_order_acq_rel);
        if (!atomic_load_explicit(&tag->refill_wanted, memory_order_relaxed) &&
            !atomic_exchange_explicit(&tag->refill_wanted, true, memory_order_acq_rel)) {
            send_want(race, tag);
        }
        got += claim_some(claimer, number, count - got);
        if (got < count) {
            atomic_fetch_add(&race->parks, 1);
            wait_for_wake(claimer);
            got += claim_some(claimer, number, count - got);
        }
    }
    atomic_fetch_sub(&tag->demand, demand);
}

static void *run_claimer(void *data)
{
    struct claimer *claimer = data;
    uint32_t left[TAGS] = {IDS_EACH, IDS_EACH};

    while (left[0] + left[1] > 0) {
        unsigned tag = left[0] == 0 || (left[1] > 0 && prng_below(&claimer->prng, 2) == 1);
        uint32_t count = 1 + (uint32_t)prng_below(&claimer->prng, 5);

        count = count < left[tag] ? count : left[tag];
        serve(claimer, tag, count);
        left[tag] -= count;
    }
    atomic_fetch_sub(&claimer->race->running, 1);
    return NULL;
}

/* The owner: wants in, answers and failures out, a clock that runs with the turns. */
static void run_owner(struct race *race)
{
    struct id_world *world = race->world;
    struct prng prng;

    prng_seed(&prng, 17);
    while (atomic_load(&race->running) > 0) {
        (void)pthread_mutex_lock(&race->mutex);
        for (size_t i = 0; i < race->want_count; i++) {
            allocator_want(world->allocator, race->wants[i]);
        }
        race->want_count = 0;
        (void)pthread_mutex_unlock(&race->mutex);
        world->now_ms += ID_WORLD_RETRY_MS / 2;
        id_world_turn(world);
        if (world->request_count > 0 && prng_below(&prng, 4) == 0) {
            id_world_fail(world, 0, ERR_NO_LEADER);
        } else if (world->request_count > 0) {
            id_world_answer(world, 0);
        }
        (void)sched_yield();
    }
}

static void test_no_wake_up_is_lost(void **state)
{
    struct race *race = calloc(1, sizeof *race);

    (void)state;
    assert_non_null(race);
    race->waker.wake = wake_claimers;
    race->world = id_world_new();
    allocator_set_waker(race->world->allocator, &race->waker);
    assert_int_equal(pthread_mutex_init(&race->mutex, NULL), 0);
    for (unsigned i = 0; i < TAGS; i++) {
        const char *name = i == 0 ? "a" : "b";
        struct id_tag *tag = id_world_tag(race->world, name, 3);

        id_world_max_step(race->world, name, 8); /* segments stay small */
        allocator_tag_changed(race->world->allocator, id_world_row(race->world, name));
        race->tags[i] = tag;
        race->seen[i] = calloc(IDS_MAX, 1);
        assert_non_null(race->seen[i]);
    }
    race->running = CLAIMERS;
    for (unsigned i = 0; i < CLAIMERS; i++) {
        struct claimer *claimer = &race->claimers[i];

        claimer->race = race;
        claimer->number = i;
        prng_seed(&claimer->prng, i + 1);
        assert_int_equal(pthread_mutex_init(&claimer->mutex, NULL), 0);
        assert_int_equal(pthread_cond_init(&claimer->cond, NULL), 0);
    }
    for (unsigned i = 0; i < CLAIMERS; i++) {
        assert_int_equal(
            pthread_create(&race->claimers[i].thread, NULL, run_claimer, &race->claimers[i]), 0);
    }
    run_owner(race);
    for (unsigned i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_join(race->claimers[i].thread, NULL), 0);
        (void)pthread_mutex_destroy(&race->claimers[i].mutex);
        (void)pthread_cond_destroy(&race->claimers[i].cond);
    }
    print_message("parked %llu times\n", (unsigned long long)race->parks);
    assert_true(race->parks > 100);
    for (unsigned i = 0; i < TAGS; i++) {
        uint64_t taken = 0;

        for (size_t id = 0; id < IDS_MAX; id++) {
            taken += race->seen[i][id];
        }
        assert_int_equal(taken, CLAIMERS * IDS_EACH);
        assert_int_equal(race->tags[i]->demand, 0);
        free((void *)race->seen[i]);
    }
    (void)pthread_mutex_destroy(&race->mutex);
    id_world_free(race->world);
    free(race);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wake_up_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
