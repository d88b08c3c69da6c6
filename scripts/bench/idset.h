/*
 * idset.h - the ids of a run, to see that none comes twice.
 *
 * A hash table of bitmaps, each of 512 ids in a row. Ids that are dense cost two bits each, so
 * hundreds of millions fit; ids far from each other cost about 160 bytes each. A duplicate is known
 * at once. Ids of different groups (tags) are different ids. Thread: one owner.
 */
#ifndef LEAFD_SCRIPTS_BENCH_IDSET_H
#define LEAFD_SCRIPTS_BENCH_IDSET_H

#include <stddef.h>
#include <stdint.h>

#define IDSET_CHUNK_BITS 9

struct idset_chunk {
    uint64_t key; /* id >> IDSET_CHUNK_BITS */
    uint32_t group;
    uint32_t used; /* 0: the place is free */
    uint64_t bits[(1 << IDSET_CHUNK_BITS) / 64];
};

struct idset {
    struct idset_chunk *chunks;
    size_t capacity; /* a power of two */
    size_t used;
    uint64_t count;           /* ids added, without those of idset_load and without duplicates */
    uint64_t duplicates;      /* ids added that were there */
    uint64_t first_duplicate; /* the first of them */
    uint64_t min;             /* of the ids added, while count > 0 */
    uint64_t max;
};

void idset_init(struct idset *set);
void idset_free(struct idset *set);

/* Add the ids first..last (both included; first <= last). */
void idset_add(struct idset *set, uint32_t group, uint64_t first, uint64_t last);

/* Take the ids of earlier runs from a file, where there is one; keep all in it. 0, or -1 with errno
 * (EBADMSG: the file is no such file). A file is complete or not there. */
int idset_load(struct idset *set, const char *path);
int idset_save(const struct idset *set, const char *path);

#endif
