/*
 * crypto.c - see crypto.h. The names of FF1 are those of SP 800-38G, 5.1.
 */
#include "src/base/crypto.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

#define BLOCK_BYTES 16
#define ROUNDS 10
#define HALF_BYTES_MAX 4 /* b of the standard: then d is 8 bytes of one block */

struct ff1 {
    EVP_CIPHER_CTX *aes;
    unsigned radix;
    uint64_t powers[2];         /* radix^u and radix^v: of the first half, and of the second */
    size_t half_bytes;          /* b: size of a number of the second half */
    uint8_t start[BLOCK_BYTES]; /* AES of P */
};

struct ff1 *ff1_new(void)
{
    struct ff1 *ff1 = MUST_HAVE(calloc(1, sizeof *ff1));

    ff1->aes = EVP_CIPHER_CTX_new();
    ASSERT(ff1->aes != NULL);
    return ff1;
}

void ff1_free(struct ff1 *ff1)
{
    if (ff1 != NULL) {
        EVP_CIPHER_CTX_free(ff1->aes);
        free(ff1);
    }
}

static uint64_t power(uint64_t radix, unsigned digits)
{
    uint64_t value = 1;

    for (unsigned i = 0; i < digits; i++) {
        if (value > INT64_MAX / radix) {
            return 0;
        }
        value *= radix;
    }
    return value;
}

uint64_t ff1_domain(unsigned radix, unsigned digits)
{
    ASSERT(radix >= 2 && radix <= FF1_RADIX_MAX);
    return power(radix, digits - digits / 2) - 1 > UINT32_MAX ? 0 : power(radix, digits);
}

static void block(struct ff1 *ff1, const uint8_t in[BLOCK_BYTES], uint8_t out[BLOCK_BYTES])
{
    int len = 0;

    ASSERT(EVP_EncryptUpdate(ff1->aes, out, &len, in, BLOCK_BYTES) == 1 && len == BLOCK_BYTES);
}

void ff1_key(struct ff1 *ff1, const uint8_t *key, size_t len, unsigned radix, unsigned digits)
{
    unsigned u = digits / 2;
    unsigned v = digits - u;
    const EVP_CIPHER *cipher = len == 16   ? EVP_aes_128_ecb()
                               : len == 24 ? EVP_aes_192_ecb()
                                           : EVP_aes_256_ecb();
    uint8_t p[BLOCK_BYTES] = {1, 2, 1, 0, 0, (uint8_t)radix, ROUNDS, (uint8_t)u};

    ASSERT(len == 16 || len == 24 || len == 32);
    ASSERT(ff1_domain(radix, digits) >= FF1_DOMAIN_MIN);
    p[11] = (uint8_t)digits; /* big-endian, 4 bytes; after it the length of the tweak, 0 */
    ff1->radix = radix;
    ff1->powers[0] = power(radix, u);
    ff1->powers[1] = power(radix, v);
    ff1->half_bytes = 0;
    for (uint64_t most = ff1->powers[1] - 1; most > 0; most >>= 8) {
        ff1->half_bytes++;
    }
    ASSERT(ff1->half_bytes > 0 && ff1->half_bytes <= HALF_BYTES_MAX);
    ASSERT(EVP_EncryptInit_ex(ff1->aes, cipher, NULL, key, NULL) == 1);
    ASSERT(EVP_CIPHER_CTX_set_padding(ff1->aes, 0) == 1);
    block(ff1, p, ff1->start);
}

/* The addend of round i for a half, computed from the other one. */
static uint64_t addend(struct ff1 *ff1, unsigned i, uint64_t other)
{
    uint8_t q[BLOCK_BYTES] = {0};
    uint8_t r[BLOCK_BYTES];
    uint64_t y = 0;

    q[BLOCK_BYTES - 1 - ff1->half_bytes] = (uint8_t)i;
    for (size_t at = 0; at < ff1->half_bytes; at++) {
        q[BLOCK_BYTES - 1 - at] = (uint8_t)(other >> 8 * at);
    }
    for (size_t at = 0; at < BLOCK_BYTES; at++) {
        q[at] ^= ff1->start[at];
    }
    block(ff1, q, r);
    for (size_t at = 0; at < sizeof y; at++) {
        y = y << 8 | r[at];
    }
    return y;
}

uint64_t ff1_encrypt(struct ff1 *ff1, uint64_t number)
{
    uint64_t a = number / ff1->powers[1];
    uint64_t b = number % ff1->powers[1];

    ASSERT(a < ff1->powers[0]);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t modulus = ff1->powers[i % 2];
        uint64_t c = (a + addend(ff1, i, b) % modulus) % modulus;

        a = b;
        b = c;
    }
    return a * ff1->powers[1] + b;
}

uint64_t ff1_decrypt(struct ff1 *ff1, uint64_t number)
{
    uint64_t a = number / ff1->powers[1];
    uint64_t b = number % ff1->powers[1];

    ASSERT(a < ff1->powers[0]);
    for (unsigned i = ROUNDS; i > 0; i--) {
        uint64_t modulus = ff1->powers[(i - 1) % 2];
        uint64_t c = (b + modulus - addend(ff1, i - 1, a) % modulus) % modulus;

        b = a;
        a = c;
    }
    return a * ff1->powers[1] + b;
}

/* --- tls_init --- */

void tls_library_init(void)
{
    ASSERT(OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) == 1);
}

void tls_clear_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

/* --- certificate_until_s --- */

int64_t certificate_until_s(const X509 *certificate)
{
    struct tm when = {0};

    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when) == 1 ? (int64_t)timegm(&when)
                                                                        : 0;
}

/* --- tls_bytes --- */

HOT static int bytes_bio_read(BIO *bio, char *out, size_t room, size_t *ret_len)
{
    struct tls_bytes *bytes = BIO_get_data(bio);
    size_t len = bytes->in_len < room ? bytes->in_len : room;

    BIO_clear_retry_flags(bio);
    *ret_len = len;
    if (len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(out, bytes->in, len);
    bytes->in += len;
    bytes->in_len -= len;
    return 1;
}

HOT static int bytes_bio_write(BIO *bio, const char *data, size_t len, size_t *ret_len)
{
    const struct tls_bytes *bytes = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buf_put(bytes->out, data, len);
    *ret_len = len;
    return 1;
}

static long bytes_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int bytes_bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *bytes_method;

/* Once in the process; it stays. */
static void make_bytes_method(void)
{
    bytes_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leafd");
    ASSERT(bytes_method != NULL && BIO_meth_set_read_ex(bytes_method, bytes_bio_read) == 1 &&
           BIO_meth_set_write_ex(bytes_method, bytes_bio_write) == 1 &&
           BIO_meth_set_ctrl(bytes_method, bytes_bio_ctrl) == 1 &&
           BIO_meth_set_create(bytes_method, bytes_bio_create) == 1);
}

BIO *tls_bytes_bio(struct tls_bytes *bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *bio;

    ASSERT(pthread_once(&once, make_bytes_method) == 0);
    bio = MUST_HAVE(BIO_new(bytes_method));
    BIO_set_data(bio, bytes);
    return bio;
}
