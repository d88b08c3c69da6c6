/*
 * numbers.h - numbers for requests that are under way: from a number back to its request at once,
 * however many there are.
 *
 * Numbers rise, and the place of an item in the table is its number's remainder. A number whose
 * place is taken is left out: as at most half of the places are, that costs less than one step a
 * number.
 *
 * Failure modes: none; the caller bounds how many there are. Thread: one owner.
 */
#ifndef LEAFD_RAFT_CLUSTER_NUMBERS_H
#define LEAFD_RAFT_CLUSTER_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#define NUMBERS_MAX 16384 /* at once */
#define NUMBERS_MARK (1ULL << 63)

struct numbered {
    uint64_t number;
    void *item; /* NULL: the place is free */
};

struct numbers {
    struct numbered *places;
    uint64_t last; /* that was given */
    size_t count;  /* of items */
};

/* seed: numbers of an earlier incarnation must not be given again. mark: NUMBERS_MARK or 0, in all
 * numbers. */
void numbers_init(struct numbers *numbers, uint64_t seed, uint64_t mark);

/* All must be over. */
void numbers_free(struct numbers *numbers);

/* The number of an item from now on. At most NUMBERS_MAX are given at once. */
uint64_t numbers_give(struct numbers *numbers, void *item);

/* Whose number it is; NULL: nobody's (any more). Any number may be asked for. */
void *numbers_find(const struct numbers *numbers, uint64_t number);

/* The number, which was given, is over. */
void numbers_end(struct numbers *numbers, uint64_t number);

#endif
