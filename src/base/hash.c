/*
 * hash.c - see hash.h. Thread: any.
 */
#include "src/base/hash.h"

#include <stdbool.h>
#include <string.h>

#include <isa-l/crc.h>
#include <xxhash.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

/* Of what is short, a row or its key, ISA-L spends more on its choice of a way than on the bytes:
 * three times the time of the processor's own instruction, a word at a time. */
#ifdef __x86_64__
#define SHORT_BYTES 160

static bool does_short(size_t len)
{
    return len <= SHORT_BYTES && __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t crc_short(uint32_t crc, const uint8_t *bytes,
                                                            size_t len)
{
    uint64_t sum = crc;
    uint64_t word;

    for (; len >= sizeof word; len -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    crc = (uint32_t)sum;
    for (; len > 0; len--) {
        crc = __builtin_ia32_crc32qi(crc, *bytes++);
    }
    return crc;
}
#else
static bool does_short(size_t len)
{
    (void)len;
    return false;
}

static uint32_t crc_short(uint32_t crc, const uint8_t *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    return crc;
}
#endif

uint32_t hash_crc32c_more(uint32_t crc, const void *data, size_t len)
{
    /* ISA-L takes the inverted register and an int length, and reads only. */
    unsigned char *bytes = (unsigned char *)(uintptr_t)data;

    crc = ~crc;
    if (does_short(len)) {
        return ~crc_short(crc, bytes, len);
    }
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
