/*
 * entropy.c - see entropy.h. Thread: one owner each.
 */
#include "src/base/entropy.h"

#include <string.h>
#include <sys/random.h>

#include "src/base/assert.h"

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
