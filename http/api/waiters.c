/*
 * waiters.c - see waiters.h. Thread: the owner's.
 */
#include "http/api/waiters.h"

#include "src/base/assert.h"
#include "src/base/limits.h"

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int tag_compare(const struct waiter *a, const struct waiter *b)
{
    int by_tag = compare_u64((uint64_t)(uintptr_t)a->tag, (uint64_t)(uintptr_t)b->tag);
    int by_clock = compare_u64((uint64_t)(uintptr_t)a->clock, (uint64_t)(uintptr_t)b->clock);

    return by_tag != 0 ? by_tag : by_clock != 0 ? by_clock : compare_u64(a->seq, b->seq);
}

RB_PROTOTYPE(waiter_tree, waiter, link, tag_compare)
RB_GENERATE(waiter_tree, waiter, link, tag_compare)

void waiters_init(struct waiters *waiters)
{
    *waiters = (struct waiters){.next_seq = 1};
    RB_INIT(&waiters->tree);
}

int waiters_add(struct waiters *waiters, struct waiter *waiter, struct id_tag *tag, uint64_t demand)
{
    ASSERT(!waiter->parked);
    if (waiters->count >= LIMIT_WAITERS_PER_LOOP) {
        return ERR_OVERLOADED;
    }
    waiter->tag = tag;
    waiter->seq = waiters->next_seq++;
    waiter->demand = demand;
    waiter->parked = true;
    ASSERT(RB_INSERT(waiter_tree, &waiters->tree, waiter) == NULL);
    waiters->count++;
    if (tag != NULL) {
        atomic_fetch_add(&tag->demand, demand);
    }
    return 0;
}

void waiters_remove(struct waiters *waiters, struct waiter *waiter)
{
    ASSERT(waiter->parked);
    ASSERT(waiters->count > 0);
    RB_REMOVE(waiter_tree, &waiters->tree, waiter);
    waiters->count--;
    waiters_set_demand(waiter, 0);
    waiter->parked = false;
}

void waiters_set_demand(struct waiter *waiter, uint64_t demand)
{
    uint64_t less = waiter->demand - demand;

    ASSERT(waiter->parked);
    ASSERT(demand <= waiter->demand);
    if (waiter->tag != NULL) {
        ASSERT(atomic_fetch_sub(&waiter->tag->demand, less) >= less);
    }
    waiter->demand = demand;
}

struct waiter *waiters_first(struct waiters *waiters, const struct id_tag *tag)
{
    struct waiter key = {.tag = (struct id_tag *)(uintptr_t)tag, .seq = 0};
    struct waiter *first = RB_NFIND(waiter_tree, &waiters->tree, &key);

    return first != NULL && first->tag == tag ? first : NULL;
}

struct waiter *waiters_first_of_clock(struct waiters *waiters, const void *clock)
{
    struct waiter key = {.clock = clock};
    struct waiter *first = RB_NFIND(waiter_tree, &waiters->tree, &key);

    return first != NULL && first->tag == NULL && first->clock == clock ? first : NULL;
}

struct waiter *waiters_next_clock(struct waiters *waiters, const void *clock)
{
    struct waiter key = {.clock = clock, .seq = UINT64_MAX};
    struct waiter *first = RB_NFIND(waiter_tree, &waiters->tree, &key);

    return first != NULL && first->tag == NULL ? first : NULL;
}

struct waiter *waiters_after(struct waiter *waiter)
{
    struct waiter *next = waiter_tree_RB_NEXT(waiter);

    return next != NULL && next->tag == waiter->tag ? next : NULL;
}
