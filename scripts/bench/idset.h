/*
 * idset.h - the ids of a load, to see that none comes twice.
 *
 * Adding appends a range to a list; only idset_sum(), and a list that is full, sort it and join
 * what overlaps. So a load pays next to nothing for an id while it measures: ids that follow each
 * other cost no memory, others 16 bytes. After some 16 million ranges that do not follow each other
 * a load stands still for some seconds. Ids of different groups (tags) are different ids.
 *
 * Failure modes: without memory the process ends (ASSERT). Thread: one owner.
 */
#ifndef LEAFD_SCRIPTS_BENCH_IDSET_H
#define LEAFD_SCRIPTS_BENCH_IDSET_H

#include <stddef.h>
#include <stdint.h>

struct idset_range {
    uint64_t first;
    uint32_t count;
    uint32_t group;
};

struct idset {
    struct idset_range *ranges;
    size_t used;
    size_t capacity;
    uint64_t added; /* ids */
    uint64_t min;   /* of them, while there are any */
    uint64_t max;
    uint64_t duplicates;      /* by idset_sum(): ids added that were there */
    uint64_t first_duplicate; /* the least of them */
};

void idset_init(struct idset *set);
void idset_free(struct idset *set);

/* Add the ids first..last (both included; first <= last, and fewer than 2^32 of them). */
void idset_add(struct idset *set, uint32_t group, uint64_t first, uint64_t last);

/* Find the duplicates: added - duplicates ids are different ones. */
void idset_sum(struct idset *set);

#endif
