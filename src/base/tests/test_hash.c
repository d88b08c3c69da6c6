/*
 * test_hash.c - checksums and hashes against published vectors. Thread: one.
 *
 * CRC32C: RFC 3720, appendix B.4. XXH3: the self-test of the xxHash project, whose input is made by
 * vector_bytes() below.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/hash.h"

static void test_crc32c_vectors(void **state)
{
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(hash_crc32c("", 0), 0);
    assert_int_equal(hash_crc32c(NULL, 0), 0);
    assert_int_equal(hash_crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(hash_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(hash_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = i;
    }
    assert_int_equal(hash_crc32c(bytes, sizeof bytes), 0x46dd794e);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(hash_crc32c(bytes, sizeof bytes), 0x113fdb5c);
}

/* The checksum by its definition: the polynomial 0x1edc6f41, reflected, a bit at a time. */
static uint32_t crc_by_bits(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78 : 0);
        }
    }
    return ~crc;
}

/* The input of the published XXH3 vectors. */
static void vector_bytes(uint8_t *bytes, size_t len)
{
    uint64_t generator = 2654435761U;

    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(generator >> 56);
        generator *= 11400714785074694797ULL;
    }
}

/* At every length and alignment, so that each branch of the library's code is taken. */
static void test_crc32c_lengths(void **state)
{
    uint8_t bytes[600];

    (void)state;
    vector_bytes(bytes, sizeof bytes);
    for (size_t len = 0; len < sizeof bytes - 8; len++) {
        for (size_t at = 0; at < 8; at += 3) {
            assert_int_equal(hash_crc32c(bytes + at, len), crc_by_bits(bytes + at, len));
        }
    }
}

static void test_crc32c_more(void **state)
{
    uint8_t bytes[300];
    uint32_t whole;

    (void)state;
    vector_bytes(bytes, sizeof bytes);
    whole = hash_crc32c(bytes, sizeof bytes);
    for (size_t split = 0; split <= sizeof bytes; split++) {
        uint32_t first = hash_crc32c(bytes, split);

        assert_int_equal(hash_crc32c_more(first, bytes + split, sizeof bytes - split), whole);
    }
}

/* Every single bit that flips is noticed. */
static void test_crc32c_bit_flips(void **state)
{
    uint8_t bytes[64];
    uint32_t whole;

    (void)state;
    vector_bytes(bytes, sizeof bytes);
    whole = hash_crc32c(bytes, sizeof bytes);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        assert_int_not_equal(hash_crc32c(bytes, sizeof bytes), whole);
        bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
}

static void test_hash_vectors(void **state)
{
    static const uint64_t seed = 11400714785074694797ULL;
    uint8_t bytes[64];

    (void)state;
    vector_bytes(bytes, sizeof bytes);
    assert_true(hash_bytes(NULL, 0, 0) == 0x2d06800538d394c2ULL);
    assert_true(hash_bytes(bytes, 0, seed) == 0xa8a6b918b2f0364aULL);
    assert_true(hash_bytes(bytes, 1, 0) == 0xc44bdff4074eecdbULL);
    assert_true(hash_bytes(bytes, 1, seed) == 0x032be332dd766ef8ULL);
    assert_true(hash_bytes(bytes, 6, 0) == 0x27b56a84cd2d7325ULL);
    assert_true(hash_bytes(bytes, 6, seed) == 0x84589c116ab59ab9ULL);
    assert_true(hash_bytes(bytes, 12, 0) == 0xa713daf0dfbb77e7ULL);
    assert_true(hash_bytes(bytes, 12, seed) == 0xe7303e1b2336de0eULL);
    assert_true(hash_bytes(bytes, 24, 0) == 0xa3fe70bf9d3510ebULL);
    assert_true(hash_bytes(bytes, 24, seed) == 0x850e80fc35bdd690ULL);
    assert_true(hash_bytes(bytes, 48, 0) == 0x397da259ecba1f11ULL);
    assert_true(hash_bytes(bytes, 48, seed) == 0xadc2cbaa44acc616ULL);
}

/* The row's hash goes into the digest that nodes of different versions compare: it is fixed. */
static void test_hash_row(void **state)
{
    uint64_t key = hash_bytes("tkey", 4, 0);

    (void)state;
    assert_true(hash_row("tkey", 4, "value", 5) == hash_bytes("value", 5, key));
    assert_true(hash_row("tkey", 4, "value", 5) != hash_row("tkeyv", 5, "alue", 4));
    assert_true(hash_row("tkey", 4, "value", 5) != hash_row("value", 5, "tkey", 4));
    assert_true(hash_row("tkey", 4, "", 0) != hash_row("tkey2", 5, "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_vectors), cmocka_unit_test(test_crc32c_lengths),
        cmocka_unit_test(test_crc32c_more),    cmocka_unit_test(test_crc32c_bit_flips),
        cmocka_unit_test(test_hash_vectors),   cmocka_unit_test(test_hash_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
