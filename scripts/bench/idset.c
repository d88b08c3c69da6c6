/*
 * idset.c - see idset.h. Thread: one owner.
 */
#include "scripts/bench/idset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define CHUNK_IDS (UINT64_C(1) << IDSET_CHUNK_BITS)
#define CAPACITY_MIN 1024
#define MAGIC UINT64_C(0x31736469646661ee)
#define PATH_BYTES_MAX 4096

void idset_init(struct idset *set)
{
    *set = (struct idset){.capacity = CAPACITY_MIN};
    set->chunks = calloc(set->capacity, sizeof *set->chunks);
    ASSERT(set->chunks != NULL);
}

void idset_free(struct idset *set)
{
    free(set->chunks);
    *set = (struct idset){0};
}

/* The place of a chunk, or the free one where it belongs. */
static struct idset_chunk *chunk_find(const struct idset *set, uint32_t group, uint64_t key)
{
    uint64_t hash = (key ^ ((uint64_t)group << 40)) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash ^ (hash >> 32)) & (set->capacity - 1);
    struct idset_chunk *chunk = &set->chunks[at];

    while (chunk->used && (chunk->key != key || chunk->group != group)) {
        at = (at + 1) & (set->capacity - 1);
        chunk = &set->chunks[at];
    }
    return chunk;
}

static void idset_grow(struct idset *set)
{
    struct idset larger = *set;

    larger.capacity *= 2;
    larger.chunks = calloc(larger.capacity, sizeof *larger.chunks);
    ASSERT(larger.chunks != NULL);
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->chunks[i].used) {
            *chunk_find(&larger, set->chunks[i].group, set->chunks[i].key) = set->chunks[i];
        }
    }
    free(set->chunks);
    *set = larger;
}

static struct idset_chunk *chunk_get(struct idset *set, uint32_t group, uint64_t key)
{
    struct idset_chunk *chunk = chunk_find(set, group, key);

    if (!chunk->used) {
        if (set->used >= set->capacity / 2) {
            idset_grow(set);
            chunk = chunk_find(set, group, key);
        }
        *chunk = (struct idset_chunk){.key = key, .group = group, .used = 1};
        set->used++;
    }
    return chunk;
}

/* Set the bits first..last of one word of a chunk whose first id is base. */
static void word_add(struct idset *set, uint64_t *word, uint64_t base, unsigned first,
                     unsigned last)
{
    uint64_t mask = (UINT64_MAX << first) & (UINT64_MAX >> (63 - last));
    uint64_t twice = *word & mask;

    ASSERT(first <= last && last <= 63);
    *word |= mask;
    set->count += (uint64_t)__builtin_popcountll(mask & ~twice);
    if (twice != 0) {
        if (set->duplicates == 0) {
            set->first_duplicate = base + (uint64_t)__builtin_ctzll(twice);
        }
        set->duplicates += (uint64_t)__builtin_popcountll(twice);
    }
}

static void chunk_add(struct idset *set, struct idset_chunk *chunk, unsigned first, unsigned last)
{
    for (unsigned word = first / 64; word <= last / 64; word++) {
        unsigned from = word == first / 64 ? first % 64 : 0;
        unsigned to = word == last / 64 ? last % 64 : 63;

        word_add(set, &chunk->bits[word], (chunk->key << IDSET_CHUNK_BITS) + 64UL * word, from, to);
    }
}

void idset_add(struct idset *set, uint32_t group, uint64_t first, uint64_t last)
{
    uint64_t from = first;

    ASSERT(first <= last && last < UINT64_MAX);
    if (set->count + set->duplicates == 0 || first < set->min) {
        set->min = first;
    }
    if (last > set->max) {
        set->max = last;
    }
    while (from <= last) {
        uint64_t end = from | (CHUNK_IDS - 1);
        uint64_t to = end < last ? end : last;

        chunk_add(set, chunk_get(set, group, from >> IDSET_CHUNK_BITS),
                  (unsigned)(from & (CHUNK_IDS - 1)), (unsigned)(to & (CHUNK_IDS - 1)));
        from = to + 1;
    }
}

static int bad_file(FILE *file)
{
    fclose(file);
    errno = EBADMSG;
    return -1;
}

/* The file: magic, number of chunks, chunks; of this machine alone. */
int idset_load(struct idset *set, const char *path)
{
    FILE *file = fopen(path, "rb");
    uint64_t head[2];
    struct idset_chunk chunk;

    if (file == NULL) {
        return errno == ENOENT ? 0 : -1;
    }
    if (fread(head, sizeof head, 1, file) != 1 || head[0] != MAGIC) {
        return bad_file(file);
    }
    for (uint64_t i = 0; i < head[1]; i++) {
        if (fread(&chunk, sizeof chunk, 1, file) != 1 || chunk.used != 1) {
            return bad_file(file);
        }
        *chunk_get(set, chunk.group, chunk.key) = chunk;
    }
    fclose(file);
    return 0;
}

static int chunks_write(const struct idset *set, FILE *file)
{
    uint64_t head[2] = {MAGIC, set->used};

    if (fwrite(head, sizeof head, 1, file) != 1) {
        return -1;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->chunks[i].used && fwrite(&set->chunks[i], sizeof *set->chunks, 1, file) != 1) {
            return -1;
        }
    }
    return 0;
}

int idset_save(const struct idset *set, const char *path)
{
    char part[PATH_BYTES_MAX];
    FILE *file;
    int rv;

    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = fopen(part, "wb");
    if (file == NULL) {
        return -1;
    }
    rv = chunks_write(set, file);
    if (fclose(file) != 0 || rv != 0) {
        return -1;
    }
    return rename(part, path);
}
