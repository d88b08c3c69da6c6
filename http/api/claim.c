/*
 * claim.c - see claim.h. Thread: the loop's.
 */
#include "http/api/claim.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/limits.h"

/* --- ranges --- */

static bool range_goes_on(const struct segment_range *range, const struct segment_range *next)
{
    return range_next(range) == next->first && range->increment == next->increment;
}

HOT bool id_claim_add(struct id_claim *claim, const struct segment_range *range)
{
    struct segment_range *last =
        claim->range_count > 0 ? &claim->ranges[claim->range_count - 1] : NULL;

    ASSERT(range->count > 0 && range->count <= claim->left);
    if (last != NULL && range_goes_on(last, range)) {
        last->count += range->count;
    } else if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        claim->ranges[claim->range_count++] = *range;
    } else {
        return false;
    }
    claim->left -= range->count;
    return true;
}

static void remove_range(struct id_claim *claim, uint32_t at)
{
    ASSERT(at < claim->range_count);
    claim->range_count--;
    memmove(&claim->ranges[at], &claim->ranges[at + 1],
            (claim->range_count - at) * sizeof claim->ranges[0]);
}

/* Join a range to those before and after the place where it belongs. False if it fits neither. */
static bool join_range(struct id_claim *claim, uint32_t at, const struct segment_range *range)
{
    struct segment_range *before = at > 0 ? &claim->ranges[at - 1] : NULL;
    struct segment_range *after = at < claim->range_count ? &claim->ranges[at] : NULL;

    if (before != NULL && range_goes_on(before, range)) {
        before->count += range->count;
        if (after != NULL && range_goes_on(before, after)) {
            before->count += after->count;
            remove_range(claim, at);
        }
        return true;
    }
    if (after != NULL && range_goes_on(range, after)) {
        after->first = range->first;
        after->count += range->count;
        return true;
    }
    return false;
}

HOT void id_claim_make_room(struct id_claim *claim)
{
    uint32_t shortest = 0;

    if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        return;
    }
    for (uint32_t i = 1; i < claim->range_count; i++) {
        if (claim->ranges[i].count < claim->ranges[shortest].count) {
            shortest = i;
        }
    }
    claim->left += claim->ranges[shortest].count;
    remove_range(claim, shortest);
}

HOT void id_claim_insert(struct id_claim *claim, const struct segment_range *range)
{
    uint32_t at = claim->range_count;

    ASSERT(at < LIMIT_RANGES_PER_REPLY);
    ASSERT(range->count > 0 && range->count <= claim->left);
    while (at > 0 && claim->ranges[at - 1].first > range->first) {
        at--;
    }
    ASSERT(at == 0 || claim->ranges[at - 1].first + claim->ranges[at - 1].count <= range->first);
    claim->left -= range->count;
    if (join_range(claim, at, range)) {
        return;
    }
    memmove(&claim->ranges[at + 1], &claim->ranges[at],
            (claim->range_count - at) * sizeof claim->ranges[0]);
    claim->ranges[at] = *range;
    claim->range_count++;
}

/* --- those that wait --- */

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
