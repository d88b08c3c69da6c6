/*
 * test_ff1.c - FF1: the samples that NIST publishes for an empty tweak, the inverse, and that no
 * number comes twice. Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/crypto.h"
#include "src/base/prng.h"

#define ROUNDS 300

/* "FF1 samples" 1, 4 and 7 of NIST's Cryptographic Standards and Guidelines. */
static const uint8_t KEY[32] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15,
                                0x88, 0x09, 0xcf, 0x4f, 0x3c, 0xef, 0x43, 0x59, 0xd8, 0xd5, 0x80,
                                0xaa, 0x4f, 0x7f, 0x03, 0x6d, 0x6f, 0x04, 0xfc, 0x6a, 0x94};

static void test_samples_of_the_standard(void **state)
{
    static const struct {
        size_t key_len;
        uint64_t wanted;
    } cases[] = {{16, 2433477484}, {24, 2830668132}, {32, 6657667009}};
    struct ff1 *ff1 = ff1_new();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ff1_key(ff1, KEY, cases[i].key_len, 10, 10);
        assert_int_equal(ff1_encrypt(ff1, 123456789), cases[i].wanted);
        assert_int_equal(ff1_decrypt(ff1, cases[i].wanted), 123456789);
    }
    ff1_free(ff1);
}

static void test_domains(void **state)
{
    (void)state;
    assert_int_equal(ff1_domain(10, 6), 1000000);
    assert_int_equal(ff1_domain(10, 18), 1000000000000000000);
    assert_int_equal(ff1_domain(10, 19), 0);
    assert_int_equal(ff1_domain(62, 10), 839299365868340224);
    assert_int_equal(ff1_domain(62, 11), 0);
    assert_int_equal(ff1_domain(36, 12), 4738381338321616896);
    assert_int_equal(ff1_domain(16, 15), INT64_C(1) << 60);
    assert_int_equal(ff1_domain(45, 11), 0); /* 45^6 is more than 2^32 */
    assert_int_equal(ff1_domain(2, 62), INT64_C(1) << 62);
    assert_int_equal(ff1_domain(2, 63), 0);
}

/* Every number of the smallest domain becomes another one. */
/* Shows lesson-secret. */
static void test_all_of_the_smallest_domain(void **state)
{
    uint8_t *seen = calloc(FF1_DOMAIN_MIN, 1);
    struct ff1 *ff1 = ff1_new();
    unsigned in_place = 0;

    (void)state;
    assert_non_null(seen);
    ff1_key(ff1, KEY, 32, 10, 6);
    for (uint64_t number = 0; number < FF1_DOMAIN_MIN; number++) {
        uint64_t hidden = ff1_encrypt(ff1, number);

        assert_true(hidden < FF1_DOMAIN_MIN && !seen[hidden]);
        seen[hidden] = 1;
        in_place += hidden == number;
    }
    assert_true(in_place < 12); /* one, as a rule: 12 of a random permutation once in 10^9 */
    ff1_free(ff1);
    free(seen);
}

/* Of every base and width that fits, odd widths too: the ends and random numbers come back. */
/* Shows lesson-secret. */
static void test_each_is_the_others_inverse(void **state)
{
    struct ff1 *ff1 = ff1_new();
    struct prng prng;

    (void)state;
    prng_seed(&prng, 11);
    for (unsigned radix = 2; radix <= FF1_RADIX_MAX; radix++) {
        for (unsigned digits = 2; digits < 64; digits++) {
            uint64_t domain = ff1_domain(radix, digits);

            if (domain < FF1_DOMAIN_MIN) {
                continue;
            }
            ff1_key(ff1, KEY, 32, radix, digits);
            for (unsigned i = 0; i < ROUNDS / 10; i++) {
                uint64_t number = i == 0 ? 0 : i == 1 ? domain - 1 : prng_below(&prng, domain);
                uint64_t hidden = ff1_encrypt(ff1, number);

                assert_true(hidden < domain);
                assert_int_equal(ff1_decrypt(ff1, hidden), number);
            }
        }
    }
    ff1_free(ff1);
}

static void test_another_key_is_another_permutation(void **state)
{
    struct ff1 *ff1 = ff1_new();
    uint8_t other[32];
    unsigned same = 0;

    (void)state;
    memcpy(other, KEY, sizeof other);
    other[31] ^= 1;
    for (uint64_t number = 0; number < ROUNDS; number++) {
        uint64_t one;

        ff1_key(ff1, KEY, 32, 36, 10);
        one = ff1_encrypt(ff1, number);
        ff1_key(ff1, other, 32, 36, 10);
        same += one == ff1_encrypt(ff1, number);
    }
    assert_int_equal(same, 0);
    ff1_free(ff1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_of_the_standard),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_all_of_the_smallest_domain),
        cmocka_unit_test(test_each_is_the_others_inverse),
        cmocka_unit_test(test_another_key_is_another_permutation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
