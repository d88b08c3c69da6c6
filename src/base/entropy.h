/*
 * entropy.h - random bytes of the system, fetched many at a time.
 *
 * The happy path: entropy_take() copies from what was fetched, and fetches when that is used up, so
 * that not each taker costs a system call. What was taken is wiped: it is nobody else's.
 *
 * Failure modes: a system without entropy aborts, as for prng_entropy().
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_BASE_ENTROPY_H
#define LEAFD_BASE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* getrandom(2) gives up to 256 bytes in one piece, whatever signals come. */
#define ENTROPY_POOL_BYTES 256

/* All zero: nothing was fetched yet. */
struct entropy {
    size_t left; /* bytes that nobody took, at the end */
    uint8_t bytes[ENTROPY_POOL_BYTES];
};

/* Random bytes without a pool, up to ENTROPY_POOL_BYTES of them: for keys. */
void entropy_bytes(void *bytes, size_t len);

/* A number of so many random bytes, 1 to 8; the others are 0. */
uint64_t entropy_take(struct entropy *entropy, size_t bytes);

#endif
