/*
 * idset.c - see idset.h. Thread: one owner.
 */
#include "scripts/bench/idset.h"

#include <stdbool.h>
#include <stdlib.h>

#include "src/base/assert.h"

#define CAPACITY_MIN (1U << 24) /* pages that are not used are not there */

void idset_init(struct idset *set)
{
    *set = (struct idset){.capacity = CAPACITY_MIN, .min = UINT64_MAX};
    set->ranges = MUST_HAVE(reallocarray(NULL, set->capacity, sizeof *set->ranges));
}

void idset_free(struct idset *set)
{
    free(set->ranges);
    *set = (struct idset){0};
}

static uint64_t range_end(const struct idset_range *range)
{
    return range->first + range->count;
}

/* Make a range longer, up to an end that is not before its own; false if its count has no room. */
static bool range_extend(struct idset_range *range, uint64_t end)
{
    ASSERT(end >= range_end(range));
    if (end - range->first > UINT32_MAX) {
        return false;
    }
    range->count = (uint32_t)(end - range->first);
    return true;
}

static int range_compare(const void *left, const void *right)
{
    const struct idset_range *a = left;
    const struct idset_range *b = right;

    if (a->group != b->group) {
        return a->group < b->group ? -1 : 1;
    }
    return (a->first > b->first) - (a->first < b->first);
}

/* Join a range with the last of the ranges before `kept`, which begins no later. Returns how many
 * are kept. */
static size_t range_join(struct idset *set, size_t kept, struct idset_range range)
{
    struct idset_range *last = kept > 0 ? &set->ranges[kept - 1] : NULL;
    uint64_t end = range_end(&range);

    if (last != NULL && last->group == range.group && range.first <= range_end(last)) {
        uint64_t covered = range_end(last) < end ? range_end(last) : end;

        if (covered > range.first) {
            set->first_duplicate = set->duplicates == 0 ? range.first : set->first_duplicate;
            set->duplicates += covered - range.first;
        }
        if (end == covered || range_extend(last, end)) {
            return kept;
        }
        range.first = covered;
        range.count = (uint32_t)(end - covered);
    }
    set->ranges[kept] = range;
    return kept + 1;
}

void idset_sum(struct idset *set)
{
    size_t kept = 0;

    qsort(set->ranges, set->used, sizeof *set->ranges, range_compare);
    for (size_t i = 0; i < set->used; i++) {
        kept = range_join(set, kept, set->ranges[i]);
    }
    ASSERT(kept <= set->used);
    set->used = kept;
}

void idset_add(struct idset *set, uint32_t group, uint64_t first, uint64_t last)
{
    struct idset_range *before = set->used > 0 ? &set->ranges[set->used - 1] : NULL;

    ASSERT(first <= last && last - first < UINT32_MAX && last < UINT64_MAX);
    set->added += last - first + 1;
    set->min = first < set->min ? first : set->min;
    set->max = last > set->max ? last : set->max;
    if (before != NULL && before->group == group && range_end(before) == first &&
        range_extend(before, last + 1)) {
        return;
    }
    if (set->used == set->capacity) {
        idset_sum(set);
        set->capacity *= set->used > set->capacity / 2 ? 2 : 1;
        set->ranges = MUST_HAVE(reallocarray(set->ranges, set->capacity, sizeof *set->ranges));
    }
    set->ranges[set->used++] = (struct idset_range){first, (uint32_t)(last - first + 1), group};
}
