/*
 * made_certificates.c - see made_certificates.h. Thread: one.
 */
#include "http/tests/made_certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/crypto.h"

#define DAY_S 86400

uint64_t made_later_ms;

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ASSERT(extension != NULL);
    ASSERT(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void put_pem(BIO *bio, struct buf *out)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);

    buf_put(out, data, (size_t)len);
    BIO_free(bio);
}

static void write_pem(struct made *made)
{
    BIO *certificate = BIO_new(BIO_s_mem());
    BIO *key = BIO_new(BIO_s_mem());

    ASSERT(PEM_write_bio_X509(certificate, made->certificate) == 1);
    ASSERT(PEM_write_bio_PrivateKey(key, made->key, NULL, NULL, 0, NULL, NULL) == 1);
    put_pem(certificate, &made->certificate_pem);
    put_pem(key, &made->key_pem);
}

static void sign(struct made *made, const char *subject, const char *names, long seconds,
                 const struct made *ca, bool is_ca)
{
    static long serial;
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);
    X509 *issuer = ca != NULL ? ca->certificate : certificate;

    tls_library_init();
    *made = (struct made){.certificate = certificate, .key = EVP_EC_gen("P-256")};
    ASSERT(made->key != NULL);
    ASSERT(X509_set_version(certificate, X509_VERSION_3) == 1);
    ASSERT(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial) == 1);
    ASSERT(X509_gmtime_adj(X509_getm_notBefore(certificate), -2L * 365 * DAY_S) != NULL);
    ASSERT(X509_gmtime_adj(X509_getm_notAfter(certificate), seconds) != NULL);
    ASSERT(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)subject, -1,
                                      -1, 0) == 1);
    ASSERT(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1);
    ASSERT(X509_set_pubkey(certificate, made->key) == 1);
    extend(certificate, issuer, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (names != NULL) {
        extend(certificate, issuer, NID_subject_alt_name, names);
    }
    ASSERT(X509_sign(certificate, ca != NULL ? ca->key : made->key, EVP_sha256()) > 0);
    write_pem(made);
}

void made_make_s(struct made *made, const char *subject, const char *names, long seconds,
                 const struct made *ca)
{
    sign(made, subject, names, seconds, ca, ca == NULL);
}

void made_make(struct made *made, const char *subject, const char *names, int days,
               const struct made *ca)
{
    made_make_s(made, subject, names, (long)days * DAY_S, ca);
}

void made_make_link(struct made *made, const char *subject, const struct made *ca)
{
    sign(made, subject, NULL, 90L * DAY_S, ca, true);
}

void made_release(struct made *made)
{
    X509_free(made->certificate);
    EVP_PKEY_free(made->key);
    buf_free(&made->certificate_pem);
    buf_free(&made->key_pem);
}

struct tls_files made_files(const struct made *server, const struct made *ca,
                            enum tls_client client)
{
    struct tls_files files = {
        .certificate = {"cert.pem", server->certificate_pem.data, server->certificate_pem.len},
        .key = {"key.pem", server->key_pem.data, server->key_pem.len},
        .client_ca = {.name = "ca.pem"},
        .client = client,
    };

    if (ca != NULL) {
        files.client_ca.data = ca->certificate_pem.data;
        files.client_ca.len = ca->certificate_pem.len;
    }
    return files;
}

void made_commit(struct tls *tls, const struct made *server, const struct made *ca,
                 enum tls_client client)
{
    struct tls_files files = made_files(server, ca, client);
    struct tls_context *context;
    struct tls_error error;

    ASSERT(tls_context_make(tls, &files, &context, &error) == 0);
    tls_commit(tls, context);
}

static uint64_t later_ms(const struct clock *clock)
{
    (void)clock;
    return clock_now_ms(clock_system()) + made_later_ms;
}

struct tls *made_tls(const struct made *server, const struct made *ca, enum tls_client client)
{
    static const struct clock clock = {.now_ms = later_ms, .wall_ms = later_ms};
    struct tls *tls = tls_new(&clock);

    made_commit(tls, server, ca, client);
    return tls;
}
