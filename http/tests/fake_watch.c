/*
 * fake_watch.c - what was asked of the fake backend (fake_backend.h): counts, and waiting for them.
 *
 * Thread: any.
 */
#include <pthread.h>
#include <sched.h>

#include "http/tests/fake_backend.h"

void fake_await_submitted(struct fake *fake, uint64_t count)
{
    pthread_mutex_lock(&fake->mutex);
    while (fake->submitted < count) {
        pthread_cond_wait(&fake->changed, &fake->mutex);
    }
    pthread_mutex_unlock(&fake->mutex);
}

void fake_await_wanted(struct fake *fake, uint64_t count)
{
    pthread_mutex_lock(&fake->mutex);
    while (fake->wanted < count) {
        pthread_cond_wait(&fake->changed, &fake->mutex);
    }
    pthread_mutex_unlock(&fake->mutex);
}

void fake_await_demand(struct id_tag *tag, uint64_t demand)
{
    while (atomic_load(&tag->demand) != demand) {
        sched_yield();
    }
}

uint64_t fake_submitted(struct fake *fake)
{
    uint64_t count;

    pthread_mutex_lock(&fake->mutex);
    count = fake->submitted;
    pthread_mutex_unlock(&fake->mutex);
    return count;
}

uint64_t fake_wanted(struct fake *fake)
{
    uint64_t count;

    pthread_mutex_lock(&fake->mutex);
    count = fake->wanted;
    pthread_mutex_unlock(&fake->mutex);
    return count;
}

uint64_t fake_notified(struct fake *fake)
{
    uint64_t count;

    pthread_mutex_lock(&fake->mutex);
    count = fake->notified;
    pthread_mutex_unlock(&fake->mutex);
    return count;
}
