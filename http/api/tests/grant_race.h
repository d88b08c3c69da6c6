/*
 * grant_race.h - the real HTTP loops against the real allocator, on a thread of its own as in a
 * node: what is between them is how a request parks and how it is woken (src/id/alloc/allocator.h).
 *
 * The cluster is a state machine that answers at once, or not at all while it is held, or now and
 * then with a failure. Where LEAFD_YIELD is defined each thread is stopped now and then at the
 * places that the YIELD() of these files name, until the others have gone a few places on: so what
 * may come between two steps does come.
 *
 * Threads: the calls from the test's thread. The raft loop's part is a thread of the race.
 */
#ifndef LEAFD_HTTP_API_TESTS_GRANT_RACE_H
#define LEAFD_HTTP_API_TESTS_GRANT_RACE_H

#include <semaphore.h>
#include <uv.h>

#include "http/api/api.h"
#include "http/server/loop.h"
#include "http/tests/fake_backend.h"
#include "src/base/prng.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/id_table.h"
#include "src/loop/mailbox.h"

#define RACE_HELD_MAX 64

struct grant_race {
    struct id_backend backend;
    struct fake fake; /* the state machine, the table, the clock */
    struct http_settings settings;
    struct api *api;
    struct http_server *server;
    /* the owner's thread and what is its own */
    pthread_t thread;
    uv_loop_t uv;
    uv_async_t want_async;
    uv_timer_t timer;
    struct mailbox mailbox;
    struct want_list wanted;
    struct timers timers;
    struct allocator *allocator;
    struct id_proposer proposer;
    struct cluster_request *proposed[RACE_HELD_MAX];
    size_t proposed_count;
    struct prng prng;
    bool stop;
    _Atomic bool hold;           /* the cluster answers nothing */
    _Atomic uint32_t fail_every; /* one answer of so many is a failure; 0: none is */
    _Atomic uint64_t turns;      /* of the owner's, so far */
    sem_t done;                  /* what grant_race_do() waits for */
};

void grant_race_start(struct grant_race *race, unsigned loops);
void grant_race_stop(struct grant_race *race);

/* Run a function (NULL: none) on the owner's thread, and then a turn of it; returns when that is
 * done. */
void grant_race_do(struct grant_race *race, void (*run)(struct grant_race *race, void *data),
                   void *data);

/* Make a tag, or change it, in the cluster and in what this node knows of it. */
void grant_race_make(struct grant_race *race, const char *name, uint64_t max_id, uint32_t step,
                     uint32_t max_step);
void grant_race_delete(struct grant_race *race, const char *name);

/* Stop threads at the places from now on, by a seed; or not any more. */
void grant_race_yield(bool on, uint64_t seed);

/* What is known of a tag, for people. */
void grant_race_show(struct grant_race *race, const char *name);

#endif
