/*
 * test_tls.c - certificates, their rules, and the keys of tickets.
 *
 * Certificates and keys that cannot be used: which file, and why; and nothing is changed by them.
 *
 * Keys of session tickets: which one seals, which open, and for how long.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/tests/made_certificates.h"
#include "http/tls/tls.h"
#include "src/base/assert.h"

/* --- context --- */

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
    struct made above; /* ends earlier */
    BUF_LOCAL(chain);

    (void)state;
    made_make(&above, "above", NULL, 30, NULL);
    buf_put(&chain, server.certificate_pem.data, server.certificate_pem.len);
    buf_put(&chain, above.certificate_pem.data, above.certificate_pem.len);
    files.certificate = (struct tls_file){"cert.pem", chain.data, chain.len};
    made_release(&above);
    assert_int_equal(tls_context_make(tls, &files, &context, &error), 0);
    tls_context_describe(context, &text);
    assert_memory_equal(text.data, "CN=localhost until 20", 21);
    buf_free(&text);
    tls_commit(tls, context);
    assert_in_range(tls_until_s(tls), wanted_s - 600, wanted_s);
}

/* --- keys --- */

static uint64_t now_ms;

static uint64_t now(const struct clock *clock)
{
    (void)clock;
    return now_ms;
}

static const struct clock fake_clock = {.now_ms = now, .wall_ms = now};

static struct tls_key newest(struct tls *keys)
{
    struct tls_key key;
    bool is_newest = false;

    assert_true(tls_ticket_key(keys, NULL, &key, &is_newest));
    assert_true(is_newest);
    return key;
}

/* Does the key of this name open, and with what it sealed? */
static bool opens(struct tls *keys, const struct tls_key *key, bool *ret_newest)
{
    struct tls_key found;
    bool known = tls_ticket_key(keys, key->name, &found, ret_newest);

    if (known) {
        assert_memory_equal(&found, key, sizeof found);
    }
    return known;
}

static void test_rotation(void **state)
{
    struct tls_key first;
    struct tls *keys = tls_new(&fake_clock);
    bool is_newest;

    (void)state;
    now_ms = 5;
    first = newest(keys);
    now_ms = 5 + TLS_KEY_MS - 1;
    assert_memory_equal(newest(keys).name, first.name, sizeof first.name);
    assert_true(opens(keys, &first, &is_newest));
    assert_true(is_newest);
    now_ms = 5 + TLS_KEY_MS;
    assert_memory_not_equal(newest(keys).name, first.name, sizeof first.name);
    assert_true(opens(keys, &first, &is_newest));
    assert_false(is_newest);
    /* What it sealed at its last moment is good for as long as was said. */
    now_ms = 5 + TLS_KEY_MS + TLS_TICKET_S * 1000;
    assert_true(opens(keys, &first, &is_newest));
    now_ms = 5 + TLS_KEYS * TLS_KEY_MS;
    assert_false(opens(keys, &first, &is_newest));
    tls_free(keys);
}

/* Nobody came for a day: what was sealed before it is beyond reach. */
static void test_quiet_day(void **state)
{
    struct tls_key first;
    struct tls *keys = tls_new(&fake_clock);
    bool is_newest;

    (void)state;
    now_ms = 0;
    first = newest(keys);
    now_ms = 86400000;
    assert_false(opens(keys, &first, &is_newest));
    assert_memory_not_equal(newest(keys).cipher, first.cipher, sizeof first.cipher);
    tls_free(keys);
}

static void test_unknown(void **state)
{
    struct tls_key key = {.name = "nobody's"};
    struct tls *keys = tls_new(&fake_clock);
    bool is_newest;

    (void)state;
    now_ms = 0;
    assert_false(opens(keys, &key, &is_newest));
    (void)newest(keys);
    assert_false(opens(keys, &key, &is_newest));
    tls_free(keys);
}

int main(void)
{
    const struct CMUnitTest context_tests[] = {
        cmocka_unit_test(test_files),       cmocka_unit_test(test_client_ca),
        cmocka_unit_test(test_pass_phrase), cmocka_unit_test(test_weak_key),
        cmocka_unit_test(test_described),
    };
    const struct CMUnitTest keys_tests[] = {
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_quiet_day),
        cmocka_unit_test(test_unknown),
    };
    int failed = 0;

    failed += cmocka_run_group_tests(context_tests, setup, teardown);
    failed += cmocka_run_group_tests(keys_tests, NULL, NULL);
    return failed;
}
