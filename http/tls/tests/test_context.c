/*
 * test_context.c - certificates and keys that cannot be used: which file, and why; and nothing is
 * changed by them.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/tests/made_certificates.h"
#include "src/base/assert.h"

static struct made ca;
static struct made server;
static struct made other;
static struct tls *tls;

static int setup(void **state)
{
    (void)state;
    made_make(&ca, "a CA", NULL, 90, NULL);
    made_make(&server, "localhost", "DNS:localhost", 90, &ca);
    made_make(&other, "other", "DNS:localhost", 90, &ca);
    tls = made_tls(&server, NULL, TLS_CLIENT_NONE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_free(tls);
    made_release(&other);
    made_release(&server);
    made_release(&ca);
    return 0;
}

static void expect_refused(const struct tls_files *files, const char *file, const char *why)
{
    struct tls_context *context = NULL;
    struct tls_error error = {""};

    assert_int_equal(tls_context_make(tls, files, &context, &error), ERR_INVALID);
    assert_null(context);
    if (strstr(error.text, file) != error.text || strstr(error.text, why) == NULL) {
        fail_msg("wanted \"%s: ... %s\", got \"%s\"", file, why, error.text);
    }
    assert_int_equal(ERR_peek_error(), 0);
}

static void test_files(void **state)
{
    struct tls_files files = made_files(&server, NULL, TLS_CLIENT_NONE);
    char *cut = strndup((const char *)server.certificate_pem.data, 200);

    (void)state;
    files.key.data = other.key_pem.data;
    files.key.len = other.key_pem.len;
    expect_refused(&files, "key.pem", "is not the key of the certificate in cert.pem");
    files.key.len = 0;
    expect_refused(&files, "key.pem", "has no private key");
    files = made_files(&server, NULL, TLS_CLIENT_NONE);
    files.certificate.len = 0;
    expect_refused(&files, "cert.pem", "has no certificate");
    files.certificate = (struct tls_file){"cert.pem", server.key_pem.data, server.key_pem.len};
    expect_refused(&files, "cert.pem", "has no certificate");
    files.certificate = (struct tls_file){"cert.pem", cut, strlen(cut)};
    expect_refused(&files, "cert.pem", "");
    free(cut);
}

static void test_client_ca(void **state)
{
    struct tls_files files = made_files(&server, &ca, TLS_CLIENT_REQUIRED);

    (void)state;
    files.client_ca.len = 0;
    expect_refused(&files, "ca.pem", "has no certificate");
    files = made_files(&server, &other, TLS_CLIENT_OPTIONAL);
    expect_refused(&files, "ca.pem", "is not a CA's");
}

/* A key that wants a pass phrase: nobody is asked for it. */
static void test_pass_phrase(void **state)
{
    struct tls_files files = made_files(&server, NULL, TLS_CLIENT_NONE);
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;

    (void)state;
    assert_int_equal(
        PEM_write_bio_PKCS8PrivateKey(bio, server.key, EVP_aes_256_cbc(), "word", 4, NULL, NULL),
        1);
    files.key.len = (size_t)BIO_get_mem_data(bio, &data);
    files.key.data = data;
    expect_refused(&files, "key.pem", "has a pass phrase");
    BIO_free(bio);
}

/* RSA of 1024 bits. */
static void test_weak_key(void **state)
{
    struct made weak = {.certificate = X509_dup(server.certificate), .key = EVP_RSA_gen(1024)};
    struct tls_files files = made_files(&server, NULL, TLS_CLIENT_NONE);
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;

    (void)state;
    assert_int_equal(X509_set_pubkey(weak.certificate, weak.key), 1);
    assert_true(X509_sign(weak.certificate, ca.key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509(bio, weak.certificate), 1);
    files.certificate.len = (size_t)BIO_get_mem_data(bio, &data);
    files.certificate.data = data;
    expect_refused(&files, "cert.pem", "key too small");
    BIO_free(bio);
    made_release(&weak);
}

static void test_described(void **state)
{
    struct tls_files files = made_files(&server, NULL, TLS_CLIENT_NONE);
    struct tls_context *context;
    struct buf text = BUF_INIT;
    struct tls_error error;
    int64_t wanted_s = (int64_t)(clock_wall_ms(clock_system()) / 1000) + 90 * 86400;

    (void)state;
    assert_int_equal(tls_context_make(tls, &files, &context, &error), 0);
    assert_in_range(tls_context_until_s(context), wanted_s - 600, wanted_s);
    tls_context_describe(context, &text);
    assert_memory_equal(text.data, "CN=localhost until 20", 21);
    buf_free(&text);
    tls_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),       cmocka_unit_test(test_client_ca),
        cmocka_unit_test(test_pass_phrase), cmocka_unit_test(test_weak_key),
        cmocka_unit_test(test_described),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
