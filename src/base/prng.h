/*
 * prng.h - random numbers: a small seedable generator (xorshift64*, Vigna 2016) for jitter and for
 * tests, and the system's entropy (getrandom(2)) for secrets.
 *
 * Failure modes: a system without entropy ends the process (ASSERT). Thread: one owner each.
 */
#ifndef LEAFD_BASE_PRNG_H
#define LEAFD_BASE_PRNG_H

#include <stddef.h>
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

/* 64 bits of the system's entropy. */
uint64_t prng_entropy(void);

/*
 * --- entropy: random bytes of the system, fetched many at a time.
 *
 * The happy path: entropy_take() copies from a pool and refills it when it is empty, so that not
 * each call costs a system call. Taken bytes are wiped.
 */

/* getrandom(2) returns up to 256 bytes at once, regardless of signals. */
#define ENTROPY_POOL_BYTES 256

/* All zero: nothing was fetched yet. */
struct entropy {
    size_t left; /* bytes not taken yet, at the end */
    uint8_t bytes[ENTROPY_POOL_BYTES];
};

/* Random bytes without a pool, up to ENTROPY_POOL_BYTES of them: for keys. */
void entropy_bytes(void *bytes, size_t len);

/* A number of 1 to 8 random bytes; the others are 0. */
uint64_t entropy_take(struct entropy *entropy, size_t bytes);

#endif
