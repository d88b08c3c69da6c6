/*
 * waiters.c - see waiters.h. Thread: the owner's.
 */
#include "http/server/waiters.h"

#include "src/base/assert.h"
#include "src/base/limits.h"

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int tag_compare(const struct waiter *a, const struct waiter *b)
{
    int by_tag = compare_u64((uint64_t)(uintptr_t)a->tag, (uint64_t)(uintptr_t)b->tag);

    return by_tag != 0 ? by_tag : compare_u64(a->seq, b->seq);
}

static int deadline_compare(const struct waiter *a, const struct waiter *b)
{
    int by_deadline = compare_u64(a->deadline_ms, b->deadline_ms);

    return by_deadline != 0 ? by_deadline : compare_u64(a->seq, b->seq);
}

RB_PROTOTYPE(waiters_by_tag, waiter, by_tag, tag_compare)
RB_PROTOTYPE(waiters_by_deadline, waiter, by_deadline, deadline_compare)
RB_GENERATE(waiters_by_tag, waiter, by_tag, tag_compare)
RB_GENERATE(waiters_by_deadline, waiter, by_deadline, deadline_compare)

void waiters_init(struct waiters *waiters)
{
    *waiters = (struct waiters){.next_seq = 1};
    RB_INIT(&waiters->by_tag);
    RB_INIT(&waiters->by_deadline);
}

int waiters_add(struct waiters *waiters, struct waiter *waiter, struct id_tag *tag,
                uint64_t deadline_ms, uint64_t demand)
{
    ASSERT(!waiter->parked);
    if (waiters->count >= LIMIT_WAITERS_PER_LOOP) {
        return ERR_OVERLOADED;
    }
    waiter->tag = tag;
    waiter->seq = waiters->next_seq++;
    waiter->deadline_ms = deadline_ms;
    waiter->demand = demand;
    waiter->parked = true;
    ASSERT(RB_INSERT(waiters_by_tag, &waiters->by_tag, waiter) == NULL);
    ASSERT(RB_INSERT(waiters_by_deadline, &waiters->by_deadline, waiter) == NULL);
    waiters->count++;
    atomic_fetch_add(&tag->demand, demand);
    return 0;
}

void waiters_remove(struct waiters *waiters, struct waiter *waiter)
{
    ASSERT(waiter->parked);
    ASSERT(waiters->count > 0);
    RB_REMOVE(waiters_by_tag, &waiters->by_tag, waiter);
    RB_REMOVE(waiters_by_deadline, &waiters->by_deadline, waiter);
    waiters->count--;
    waiters_set_demand(waiter, 0);
    waiter->parked = false;
}

void waiters_set_demand(struct waiter *waiter, uint64_t demand)
{
    uint64_t less = waiter->demand - demand;

    ASSERT(waiter->parked);
    ASSERT(demand <= waiter->demand);
    ASSERT(atomic_fetch_sub(&waiter->tag->demand, less) >= less);
    waiter->demand = demand;
}

struct waiter *waiters_first(struct waiters *waiters, const struct id_tag *tag)
{
    struct waiter key = {.tag = (struct id_tag *)(uintptr_t)tag, .seq = 0};
    struct waiter *first = RB_NFIND(waiters_by_tag, &waiters->by_tag, &key);

    return first != NULL && first->tag == tag ? first : NULL;
}

struct waiter *waiters_after(struct waiter *waiter)
{
    struct waiter *next = waiters_by_tag_RB_NEXT(waiter);

    return next != NULL && next->tag == waiter->tag ? next : NULL;
}

struct waiter *waiters_due(struct waiters *waiters, uint64_t now_ms)
{
    struct waiter *first = RB_MIN(waiters_by_deadline, &waiters->by_deadline);

    return first != NULL && first->deadline_ms <= now_ms ? first : NULL;
}

uint64_t waiters_next_ms(struct waiters *waiters)
{
    struct waiter *first = RB_MIN(waiters_by_deadline, &waiters->by_deadline);

    return first != NULL ? first->deadline_ms : UINT64_MAX;
}
