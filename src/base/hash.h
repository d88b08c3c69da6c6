/*
 * hash.h - checksums and hashes, each from a library: CRC32C (ISA-L) and XXH3 (xxHash); and a hash
 * table that grows without a pause.
 *
 * CRC32C guards bytes that leave the process (records, frames). XXH3 spreads tag names over tables
 * and makes the digest of the replicated state. Thread: any; a table has one owner.
 */
#ifndef LEAFD_BASE_HASH_H
#define LEAFD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli, as iSCSI and ext4 use it); crc32c of "123456789" is 0xe3069283. */
uint32_t hash_crc32c(const void *data, size_t len);

/* Continues from the result of an earlier call: crc32c(a b) == crc32c_more(crc32c(a), b). */
uint32_t hash_crc32c_more(uint32_t crc, const void *data, size_t len);

/* A 64-bit hash of the bytes with a seed; the same on every machine and version (XXH3, stable). */
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);

/* The hash of one row of the state: the value's, seeded with the key's. The digest of a state is
 * the sum of its rows' hashes modulo 2^64; storage and the state machine both use this one. */
uint64_t hash_row(const void *key, size_t key_len, const void *value, size_t value_len);

/*
 * --- hash_table: a hash table of items owned elsewhere, which grows without a pause.
 *
 * The table has as many buckets as it ever had items: each new maximum adds one bucket and splits
 * only one (Litwin's linear hashing). So no call takes longer than others, even with ten million
 * items. Buckets are freed only by hash_table_free().
 *
 * Each table has a seed from the system's entropy. Its owner uses it to hash values that clients
 * choose, so no client can choose names that collide in one chain. Nothing may depend on the order
 * of a chain.
 *
 * Why not a library's: uthash doubles at once (a pause for all clients) and uses 56 bytes per item;
 * ck_hs doubles at once as well. Here an item costs 8 bytes for the link and 8 for the bucket.
 *
 * Failure modes: none; without memory the process ends.
 */

/* An item's link in its bucket. */
struct hash_link {
    struct hash_link *next;
};

struct hash_table {
    uint32_t (*hash_of)(const struct hash_link *link);
    uint64_t seed; /* for hashes of values that clients choose */
    size_t count;
    uint32_t bucket_count;
    uint32_t chunk_count;
    struct hash_link ***chunks; /* of buckets */
};

/* hash_of: the hash of an item in the table, always the same. */
void hash_table_init(struct hash_table *table, uint32_t (*hash_of)(const struct hash_link *link));

/* The first item of a chain (linked by next) that has all items of this hash and maybe others;
 * NULL: none. */
struct hash_link *hash_table_chain(const struct hash_table *table, uint32_t hash);

void hash_table_add(struct hash_table *table, struct hash_link *link);
/* The item must be in the table. */
void hash_table_remove(struct hash_table *table, struct hash_link *link);

/* Remove all items and free the buckets; the table stays usable. */
void hash_table_free(struct hash_table *table);

#endif
