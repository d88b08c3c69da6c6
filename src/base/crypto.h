/*
 * crypto.h - what all of leafd's uses of OpenSSL share: its first call in a process, the end of a
 * certificate, and the bytes of a connection with TLS; and AES for a keyed permutation of numbers
 * (FF1).
 *
 * Failure modes: none from outside; parameters that break the rules, and a library that cannot be
 * used at all, end the process (ASSERT). Thread: any; a struct ff1, a tls_bytes have one owner.
 */
#ifndef LEAFD_BASE_CRYPTO_H
#define LEAFD_BASE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

/*
 * --- ff1: a keyed permutation of the numbers below radix^digits: FF1 of NIST SP 800-38G, with AES
 * and an empty tweak.
 *
 * FF1 is a Feistel network of ten rounds over the two halves of a number's digits; a round adds the
 * AES output of one half to the other. So it maps the numbers below radix^digits one-to-one, and
 * without the key the permutation is indistinguishable from a random one. Known limits: SP 800-38G
 * Rev. 1 wants domains of a million at least, since attacks on smaller ones need few pairs
 * (Bellare, Hoang, Tessaro 2016; Durak, Vaudenay 2017); FF1_DOMAIN_MIN is that.
 *
 * Restricted to domains below 2^63 whose halves fit 32 bits, so that a round is one block of AES.
 *
 * Made once a thread.
 */

#define FF1_DOMAIN_MIN 1000000
#define FF1_RADIX_MAX 62

struct ff1;

struct ff1 *ff1_new(void);
void ff1_free(struct ff1 *ff1); /* accepts NULL */

/* radix^digits; 0 if that is 2^63 or more, or if half of the digits, rounded up, take more than 32
 * bits. */
uint64_t ff1_domain(unsigned radix, unsigned digits);

/* A key of 16, 24 or 32 bytes, and the domain that the next calls are for: radix 2 to
 * FF1_RADIX_MAX, FF1_DOMAIN_MIN <= ff1_domain() (ASSERT). */
void ff1_key(struct ff1 *ff1, const uint8_t *key, size_t len, unsigned radix, unsigned digits);

/* number < ff1_domain() (ASSERT). Each is the other's inverse. */
uint64_t ff1_encrypt(struct ff1 *ff1, uint64_t number);
uint64_t ff1_decrypt(struct ff1 *ff1, uint64_t number);

/*
 * --- tls_library_init: the first call of OpenSSL in a process.
 *
 * By default OpenSSL reads openssl.cnf and the environment, so a system file, or OPENSSL_CONF,
 * could change leafd's protocols and providers. At the end of the process it also frees memory that
 * threads still use. Both are switched off. Repeated calls do nothing.
 */
void tls_library_init(void);

/* Empty this thread's queue of errors, if there are any: a look costs a fifth of emptying it. */
void tls_clear_errors(void);

/* --- certificate_until_s: when a certificate ends, in seconds of Unix time; 0: it does not say. */

struct x509_st;

int64_t certificate_until_s(const struct x509_st *certificate);

/*
 * --- tls_bytes: the bytes that OpenSSL reads and writes of one connection. No socket is touched
 * here: the connection moves the bytes.
 */

struct bio_st;

struct tls_bytes {
    const uint8_t
        *in; /* received, not decrypted yet: OpenSSL takes them from the front; borrowed */
    size_t in_len;
    struct buf *out; /* it appends; borrowed */
};

/* For SSL_set_bio(), which takes it over. The bytes outlive it. */
struct bio_st *tls_bytes_bio(struct tls_bytes *bytes);

#endif
