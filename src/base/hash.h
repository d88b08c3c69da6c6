/*
 * hash.h - checksums and hashes, each from a library: CRC32C (ISA-L) and XXH3 (xxHash).
 *
 * CRC32C guards what leaves the process (records, frames). XXH3 spreads tag names over tables and
 * makes the digest of the replicated state. Thread: any.
 */
#ifndef LEAFD_BASE_HASH_H
#define LEAFD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli, as iSCSI and ext4 use it); crc32c of "123456789" is 0xe3069283. */
uint32_t hash_crc32c(const void *data, size_t len);

/* Goes on from the result of an earlier call: crc32c(a b) == crc32c_more(crc32c(a), b). */
uint32_t hash_crc32c_more(uint32_t crc, const void *data, size_t len);

/* A 64-bit hash of the bytes with a seed; the same on every machine and version (XXH3, stable). */
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);

/* The hash of one row of the state: the value's, seeded with the key's. The digest of a state is
 * the sum of its rows' hashes modulo 2^64; storage and the state machine both use this one. */
uint64_t hash_row(const void *key, size_t key_len, const void *value, size_t value_len);

#endif
