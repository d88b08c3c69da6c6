/*
 * tls_random.c - see tls_random.h. RAND_METHOD is what OpenSSL 3 still asks first, and calls
 * deprecated in favour of providers. Thread: the fuzzer's.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "raft/transport/tests/tls_random.h"

#include <openssl/rand.h>

#include "src/base/assert.h"
#include "src/base/prng.h"

static struct prng prng;

static int bytes_cb(unsigned char *bytes, int len)
{
    for (int i = 0; i < len; i++) {
        bytes[i] = (unsigned char)prng_next(&prng);
    }
    return 1;
}

static int status_cb(void)
{
    return 1;
}

void tls_random_restart(void)
{
    static const RAND_METHOD method = {
        .bytes = bytes_cb, .pseudorand = bytes_cb, .status = status_cb};

    prng_seed(&prng, 1);
    ASSERT(RAND_set_rand_method(&method) == 1);
}
