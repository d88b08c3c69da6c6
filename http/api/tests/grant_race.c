/*
 * grant_race.c - see grant_race.h.
 */
#include "http/api/tests/grant_race.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define RETRY_MS 1
#define REQUEST_MS 10000
/* A thread that is stopped goes on after so many looks, if the others do nothing; now and then, so
 * that one can wake up and do all that it has to do, after as many as this. */
#define LOOKS 40
#define LOOKS_LONG 500
#define STOP_US 2000 /* or so long: a look takes 50 ms where many wait for a processor */
#define PLACES_MAX 12

/* --- yielding --- */

static _Atomic bool yielding;
static _Atomic uint64_t yield_seed;

#ifdef LEAFD_YIELD
static _Atomic uint64_t places_passed; /* by all threads together */

void yield_at(const char *place)
{
    static _Thread_local struct prng prng;
    unsigned looks = LOOKS;
    uint64_t began_us;
    uint64_t until;

    (void)place;
    if (!atomic_load_explicit(&yielding, memory_order_relaxed)) {
        return;
    }
    if (prng.state == 0) {
        prng_seed(&prng, atomic_fetch_add(&yield_seed, 1));
    }
    until = atomic_fetch_add_explicit(&places_passed, 1, memory_order_relaxed) + 1;
    if (prng_below(&prng, 3) != 0) {
        return;
    }
    until += 1 + prng_below(&prng, PLACES_MAX);
    if (prng_below(&prng, 8) == 0) {
        looks = LOOKS_LONG;
        until += PLACES_MAX;
    }
    began_us = clock_now_us(clock_system());
    for (unsigned i = 0; i < looks; i++) {
        if (atomic_load_explicit(&places_passed, memory_order_relaxed) >= until ||
            clock_now_us(clock_system()) - began_us > STOP_US) {
            return;
        }
        (void)sched_yield();
    }
}
#endif

void grant_race_yield(bool on, uint64_t seed)
{
    atomic_store(&yield_seed, seed);
    atomic_store(&yielding, on);
}

/* --- the cluster --- */

static void propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct grant_race *race = CONTAINER(proposer, struct grant_race, proposer);

    ASSERT(race->proposed_count < RACE_HELD_MAX);
    race->proposed[race->proposed_count++] = request;
}

/* Answer what was proposed; true if that was anything. */
static bool answer(struct grant_race *race)
{
    uint32_t fail_every = atomic_load(&race->fail_every);
    size_t count = atomic_load(&race->hold) ? 0 : race->proposed_count;

    for (size_t i = 0; i < count; i++) {
        struct cluster_request *request = race->proposed[i];

        if (fail_every > 0 && prng_below(&race->prng, fail_every) == 0) {
            request->status = ERR_NO_LEADER;
            request->done(request);
        } else {
            fake_serve(&race->fake, request);
        }
    }
    race->proposed_count -= count;
    return count > 0;
}

/* --- the owner's thread --- */

static void turn(struct grant_race *race);

static void timer_cb(uv_timer_t *timer)
{
    turn(timer->data);
}

static void turn(struct grant_race *race)
{
    uint64_t next_ms;

    do {
        timers_run(&race->timers, clock_now_ms(&race->fake.clock));
    } while (answer(race));
    atomic_fetch_add(&race->turns, 1);
    next_ms = timers_next_ms(&race->timers);
    if (next_ms != UINT64_MAX && !race->stop) {
        uint64_t now_ms = clock_now_ms(&race->fake.clock);

        ASSERT(uv_timer_start(&race->timer, timer_cb, next_ms > now_ms ? next_ms - now_ms : 0, 0) ==
               0);
    }
}

static void want_cb(uv_async_t *async)
{
    struct grant_race *race = async->data;
    struct id_tag *tag = want_list_take(&race->wanted);

    while (tag != NULL) {
        struct id_tag *next = want_list_next(tag);

        allocator_want(race->allocator, tag);
        tag = next;
    }
    turn(race);
}

static void *owner_run(void *data)
{
    struct grant_race *race = data;

    ASSERT(uv_run(&race->uv, UV_RUN_DEFAULT) == 0);
    return NULL;
}

/* --- what the loops ask --- */

struct posted {
    struct mailbox_item item;
    struct grant_race *race;
    struct cluster_request *request;
};

static void open_cb(struct mailbox_item *item)
{
    struct posted *posted = CONTAINER(item, struct posted, item);
    struct cluster_request *request = posted->request;
    struct grant_race *race = posted->race;
    const struct tag_row *row;

    ASSERT(request->kind == ID_REQUEST_OPEN);
    row = fsm_tag(race->fake.fsm, (const char *)request->payload.data, request->payload.len);
    request->status = row == NULL || row->deleted ? ERR_UNKNOWN_TAG : 0;
    if (request->status == 0) {
        ASSERT(allocator_open(race->allocator, row) != NULL);
    }
    request->done(request);
    free(posted);
}

static void backend_submit(struct id_backend *backend, struct cluster_request *request)
{
    struct posted *posted = malloc(sizeof *posted);

    ASSERT(posted != NULL);
    posted->item.run = open_cb;
    posted->race = CONTAINER(backend, struct grant_race, backend);
    posted->request = request;
    ASSERT(mailbox_post(&posted->race->mailbox, &posted->item, SIZE_MAX) == 0);
}

static void backend_want(struct id_backend *backend, struct id_tag *tag)
{
    struct grant_race *race = CONTAINER(backend, struct grant_race, backend);

    if (want_list_push(&race->wanted, tag)) {
        ASSERT(uv_async_send(&race->want_async) == 0);
    }
}

static void backend_notify(struct id_backend *backend)
{
    (void)backend;
}

/* --- from the test --- */

struct task {
    struct mailbox_item item;
    struct grant_race *race;
    void (*run)(struct grant_race *race, void *data);
    void *data;
};

static void task_cb(struct mailbox_item *item)
{
    struct task *task = CONTAINER(item, struct task, item);
    struct grant_race *race = task->race;

    if (task->run != NULL) {
        task->run(race, task->data);
    }
    turn(race);
    ASSERT(sem_post(&race->done) == 0);
}

void grant_race_do(struct grant_race *race, void (*run)(struct grant_race *race, void *data),
                   void *data)
{
    struct task task = {.item.run = task_cb, .race = race, .run = run, .data = data};

    ASSERT(mailbox_post(&race->mailbox, &task.item, SIZE_MAX) == 0);
    ASSERT(TEMP_FAILURE_RETRY(sem_wait(&race->done)) == 0);
}

struct change {
    const char *name;
    uint64_t max_id;
    uint32_t step;
    uint32_t max_step; /* 0: delete it */
};

static void change_cb(struct grant_race *race, void *data)
{
    const struct change *change = data;
    const struct tag_row *row;

    if (change->max_step > 0) {
        fake_make_tag(&race->fake, change->name, change->max_id, change->step, change->max_step);
    } else {
        fake_delete_tag(&race->fake, change->name);
    }
    row = fsm_tag(race->fake.fsm, change->name, strlen(change->name));
    ASSERT(row != NULL);
    allocator_tag_changed(race->allocator, row);
}

void grant_race_make(struct grant_race *race, const char *name, uint64_t max_id, uint32_t step,
                     uint32_t max_step)
{
    struct change change = {name, max_id, step, max_step};

    grant_race_do(race, change_cb, &change);
}

void grant_race_delete(struct grant_race *race, const char *name)
{
    struct change change = {.name = name};

    grant_race_do(race, change_cb, &change);
}

void grant_race_show(struct grant_race *race, const char *name)
{
    struct id_tag *tag = id_table_find(race->fake.backend.table, name, strlen(name));

    if (tag != NULL) {
        fprintf(stderr,
                "tag %s: state %u, %llu ids left, demand %llu, waiting bits %llx, refill %s; the "
                "owner has had %llu turns\n",
                name, atomic_load(&tag->state), (unsigned long long)segment_left(&tag->buffer),
                (unsigned long long)atomic_load(&tag->demand),
                (unsigned long long)atomic_load(&tag->waiting_loops),
                atomic_load(&tag->refill_wanted) ? "wanted" : "not wanted",
                (unsigned long long)atomic_load(&race->turns));
    }
}

/* --- start and end --- */

void grant_race_start(struct grant_race *race, unsigned loops)
{
    static const struct id_backend_ops ops = {
        .submit = backend_submit, .want = backend_want, .notify = backend_notify};
    static const struct allocator_config config = {
        .cover_ms = 1, .request_ms = REQUEST_MS, .retry_ms = RETRY_MS};
    static const struct http_build build = {
        .version = "", .commit = "", .libraries = "{}", .reloads = &fake_reloads};

    memset(race, 0, sizeof *race);
    fake_start_still(&race->fake);
    race->backend = race->fake.backend;
    race->backend.ops = &ops;
    race->proposer.propose = propose;
    prng_seed(&race->prng, 5);
    race->allocator = allocator_new(&config, race->backend.table, NULL, &race->fake.clock,
                                    &race->timers, &race->proposer);
    ASSERT(sem_init(&race->done, 0, 0) == 0);
    ASSERT(uv_loop_init(&race->uv) == 0);
    ASSERT(uv_async_init(&race->uv, &race->want_async, want_cb) == 0);
    ASSERT(uv_timer_init(&race->uv, &race->timer) == 0);
    ASSERT(mailbox_init(&race->mailbox, &race->uv, NULL) == 0);
    race->want_async.data = race;
    race->timer.data = race;
    race->settings.loops = loops;
    fake_settings(&race->settings);
    race->api = api_new(&race->settings, &build, &race->backend, fake_auth(), NULL, NULL);
    ASSERT(http_server_start(&race->settings, &race->api->ids.service, &race->server) == 0);
    allocator_set_waker(race->allocator, &race->api->waker);
    ASSERT(pthread_create(&race->thread, NULL, owner_run, race) == 0);
}

static void stop_cb(struct grant_race *race, void *data)
{
    (void)data;
    race->stop = true;
    allocator_set_waker(race->allocator, NULL);
}

static void close_cb(struct grant_race *race, void *data)
{
    (void)data;
    uv_close((uv_handle_t *)&race->want_async, NULL);
    uv_close((uv_handle_t *)&race->timer, NULL);
    mailbox_close(&race->mailbox, NULL);
}

void grant_race_stop(struct grant_race *race)
{
    grant_race_yield(false, 0);
    atomic_store(&race->hold, false);
    atomic_store(&race->fail_every, 0);
    grant_race_do(race, stop_cb, NULL);
    http_server_stop(race->server);
    api_free(race->api);
    grant_race_do(race, close_cb, NULL);
    ASSERT(pthread_join(race->thread, NULL) == 0);
    ASSERT(uv_loop_close(&race->uv) == 0);
    mailbox_free(&race->mailbox);
    ASSERT(race->proposed_count == 0);
    allocator_free(race->allocator);
    (void)sem_destroy(&race->done);
    fake_stop(&race->fake);
}
