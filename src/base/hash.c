/*
 * hash.c - see hash.h. Thread: any.
 */
#include "src/base/hash.h"

#include <stdlib.h>
#include <string.h>

#include <isa-l/crc.h>
#include <xxhash.h>

#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/prng.h"

/* For short input, such as a row or its key, ISA-L spends more on the choice of a method than on
 * the bytes: three times the time of the processor's own instruction, a word at a time. */
#ifdef __x86_64__
#define SHORT_BYTES 160

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
#endif

uint32_t hash_crc32c_more(uint32_t crc, const void *data, size_t len)
{
    /* ISA-L takes the inverted register and an int length, and reads only. */
    unsigned char *bytes = (unsigned char *)(uintptr_t)data;

    crc = ~crc;
#ifdef __x86_64__
    if (len <= SHORT_BYTES && __builtin_cpu_supports("sse4.2")) {
        return ~crc_short(crc, bytes, len);
    }
#endif
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

/* --- hash_table --- */

#define CHUNK 4096U /* buckets in one piece of memory, so that none of them ever moves */

void hash_table_init(struct hash_table *table, uint32_t (*hash_of)(const struct hash_link *link))
{
    *table = (struct hash_table){.hash_of = hash_of, .seed = prng_entropy()};
}

/* Number of the bucket: the hash's low bits, one bit less if that bucket does not exist yet. */
static struct hash_link **bucket_of(const struct hash_table *table, uint32_t hash)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(table->bucket_count);
    uint32_t number = hash & mask;

    number = number < table->bucket_count ? number : number & (mask >> 1);
    ASSERT(number < table->bucket_count);
    return &table->chunks[number / CHUNK][number % CHUNK];
}

static void bucket_put(struct hash_table *table, struct hash_link *link)
{
    struct hash_link **bucket = bucket_of(table, table->hash_of(link));

    link->next = *bucket;
    *bucket = link;
}

struct hash_link *hash_table_chain(const struct hash_table *table, uint32_t hash)
{
    return table->bucket_count > 0 ? *bucket_of(table, hash) : NULL;
}

void hash_table_add(struct hash_table *table, struct hash_link *link)
{
    uint32_t number = table->bucket_count;
    struct hash_link *chain = NULL;

    if (table->count >= number) { /* add a bucket: its items come from the bucket that is split */
        ASSERT(number < UINT32_MAX);
        if (number > 0) {
            struct hash_link **split = bucket_of(table, number);

            chain = *split;
            *split = NULL;
        }
        if (number == table->chunk_count * CHUNK) {
            table->chunks = MUST_HAVE(
                reallocarray(table->chunks, table->chunk_count + 1, sizeof *table->chunks));
            table->chunks[table->chunk_count++] =
                MUST_HAVE(calloc(CHUNK, sizeof(struct hash_link *)));
        }
        table->bucket_count++;
    }
    while (chain != NULL) {
        struct hash_link *moved = chain;

        chain = moved->next;
        bucket_put(table, moved);
    }
    bucket_put(table, link);
    table->count++;
}

void hash_table_remove(struct hash_table *table, struct hash_link *link)
{
    struct hash_link **at = bucket_of(table, table->hash_of(link));

    ASSERT(table->count > 0);
    while (*at != link) {
        ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = link->next;
    table->count--;
}

void hash_table_free(struct hash_table *table)
{
    for (uint32_t i = 0; i < table->chunk_count; i++) {
        free(table->chunks[i]);
    }
    free(table->chunks);
    hash_table_init(table, table->hash_of);
}
