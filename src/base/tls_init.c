/*
 * tls_init.c - see tls_init.h. Thread: any.
 */
#include "src/base/tls_init.h"

#include <openssl/ssl.h>

#include "src/base/assert.h"

void tls_library_init(void)
{
    ASSERT(OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) == 1);
}
