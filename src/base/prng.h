/*
 * prng.h - a small seedable generator (xorshift64*, Vigna 2016), for jitter and for tests.
 *
 * Not for secrets: those come from getrandom(2) through prng_entropy(). Thread: one owner each.
 */
#ifndef LEAFD_BASE_PRNG_H
#define LEAFD_BASE_PRNG_H

#include <stdint.h>

struct prng {
    uint64_t state; /* never 0 */
};

/* Seed; any value is fine, equal seeds give equal sequences. */
void prng_seed(struct prng *prng, uint64_t seed);

/* The next 64 bits. */
uint64_t prng_next(struct prng *prng);

/* A number in [0, bound); bound 0 gives 0. */
uint64_t prng_below(struct prng *prng, uint64_t bound);

/* 64 bits of the system's entropy (getrandom). Aborts if the system has none. */
uint64_t prng_entropy(void);

#endif
