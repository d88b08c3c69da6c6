/*
 * prng.c - see prng.h.
 */
#include "src/base/prng.h"

#include <string.h>
#include <sys/random.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

void prng_seed(struct prng *prng, uint64_t seed)
{
    /* Spread small seeds over all bits (splitmix64's finaliser) so that 1, 2, 3 do not correlate.
     */
    uint64_t x = seed + 0x9e3779b97f4a7c15ULL;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    x ^= x >> 31;
    prng->state = x ? x : 1;
}

HOT uint64_t prng_next(struct prng *prng)
{
    uint64_t x = prng->state;

    ASSERT(x != 0);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    prng->state = x;
    return x * 0x2545f4914f6cdd1dULL;
}

uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    return bound ? prng_next(prng) % bound : 0;
}

uint64_t prng_entropy(void)
{
    uint64_t value = 0;

    entropy_bytes(&value, sizeof value);
    return value;
}

/* --- entropy --- */

void entropy_bytes(void *bytes, size_t len)
{
    ASSERT(len <= ENTROPY_POOL_BYTES);
    ASSERT(getrandom(bytes, len, 0) == (ssize_t)len);
}

uint64_t entropy_take(struct entropy *entropy, size_t bytes)
{
    uint64_t value = 0;
    uint8_t *from;

    ASSERT(bytes > 0 && bytes <= sizeof value);
    if (entropy->left < bytes) {
        entropy_bytes(entropy->bytes, sizeof entropy->bytes);
        entropy->left = sizeof entropy->bytes;
    }
    from = entropy->bytes + sizeof entropy->bytes - entropy->left;
    memcpy(&value, from, bytes);
    memset(from, 0, bytes);
    entropy->left -= bytes;
    return value;
}
