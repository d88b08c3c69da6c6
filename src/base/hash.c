/*
 * hash.c - see hash.h. Thread: any.
 */
#include "src/base/hash.h"

#include <isa-l/crc.h>
#include <xxhash.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

uint32_t hash_crc32c_more(uint32_t crc, const void *data, size_t len)
{
    /* ISA-L takes the inverted register and an int length, and reads only. */
    unsigned char *bytes = (unsigned char *)(uintptr_t)data;

    crc = ~crc;
    while (len > 0) {
        int part = len > (1 << 30) ? (1 << 30) : (int)len;

        crc = crc32_iscsi(bytes, part, crc);
        bytes += part;
        len -= (size_t)part;
    }
    return ~crc;
}

uint32_t hash_crc32c(const void *data, size_t len)
{
    return hash_crc32c_more(0, data, len);
}

HOT uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    ASSERT(data != NULL || len == 0);
    return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash_row(const void *key, size_t key_len, const void *value, size_t value_len)
{
    return hash_bytes(value, value_len, hash_bytes(key, key_len, 0));
}
