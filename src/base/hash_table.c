/*
 * hash_table.c - see hash_table.h.
 */
#include "src/base/hash_table.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/prng.h"

#define CHUNK 4096U /* buckets in one piece of memory, so that none of them ever moves */

void hash_table_init(struct hash_table *table, uint32_t (*hash_of)(const struct hash_link *link))
{
    *table = (struct hash_table){.hash_of = hash_of, .seed = prng_entropy()};
}

static struct hash_link **bucket_at(const struct hash_table *table, uint32_t number)
{
    ASSERT(number < table->bucket_count);
    return &table->chunks[number / CHUNK][number % CHUNK];
}

/* Number of the bucket: the hash's low bits, one bit less where that bucket is not there yet. */
static struct hash_link **bucket_of(const struct hash_table *table, uint32_t hash)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(table->bucket_count);
    uint32_t number = hash & mask;

    return bucket_at(table, number < table->bucket_count ? number : number & (mask >> 1));
}

static void chunk_add(struct hash_table *table)
{
    uint32_t count = table->chunk_count + 1;

    table->chunks = MUST_HAVE(realloc(table->chunks, count * sizeof(struct hash_link **)));
    table->chunks[table->chunk_count] = MUST_HAVE(calloc(CHUNK, sizeof(struct hash_link *)));
    table->chunk_count = count;
}

static void put(struct hash_table *table, struct hash_link *link)
{
    struct hash_link **bucket = bucket_of(table, table->hash_of(link));

    link->next = *bucket;
    *bucket = link;
}

/* One bucket more: what belongs there comes from the one that stood for it. */
static void bucket_add(struct hash_table *table)
{
    uint32_t number = table->bucket_count;
    struct hash_link **split = number > 0 ? bucket_of(table, number) : NULL;
    struct hash_link *chain = split != NULL ? *split : NULL;

    ASSERT(number < UINT32_MAX);
    if (number == table->chunk_count * CHUNK) {
        chunk_add(table);
    }
    if (split != NULL) {
        *split = NULL;
    }
    table->bucket_count++;
    while (chain != NULL) {
        struct hash_link *link = chain;

        chain = link->next;
        put(table, link);
    }
}

struct hash_link *hash_table_chain(const struct hash_table *table, uint32_t hash)
{
    return table->bucket_count > 0 ? *bucket_of(table, hash) : NULL;
}

void hash_table_add(struct hash_table *table, struct hash_link *link)
{
    if (table->count >= table->bucket_count) {
        bucket_add(table);
    }
    put(table, link);
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
