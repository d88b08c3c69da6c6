/*
 * net_certificates.c - see net_certificates.h. Thread: the test's.
 */
#include "raft/transport/tests/net_certificates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_fixture.h"

#define AUTHORITIES 4

static struct authority {
    char name[32];
    EVP_PKEY *key;
    X509 *certificate;
} authorities[AUTHORITIES];

static void set_names(X509 *certificate, const char *subject, const char *issuer)
{
    X509_NAME *name = X509_NAME_new();

    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)subject, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_subject_name(certificate, name), 1);
    X509_NAME_free(name);
    name = X509_NAME_new();
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)issuer, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(certificate, name), 1);
    X509_NAME_free(name);
}

static void extend(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *certify(EVP_PKEY *key, const char *subject, const char *issuer, EVP_PKEY *issuer_key,
                     const char *uri)
{
    X509 *certificate = X509_new();
    char san[160];

    assert_non_null(certificate);
    assert_int_equal(X509_set_version(certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 86400));
    set_names(certificate, subject, issuer);
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    extend(certificate, NID_basic_constraints, key == issuer_key ? "critical,CA:TRUE" : "CA:FALSE");
    if (uri != NULL) {
        (void)snprintf(san, sizeof san, "DNS:localhost,URI:%s", uri);
        extend(certificate, NID_subject_alt_name, san);
    }
    assert_true(X509_sign(certificate, issuer_key, EVP_sha256()) > 0);
    return certificate;
}

static struct authority *authority_of(const char *name)
{
    for (unsigned i = 0; i < AUTHORITIES; i++) {
        struct authority *authority = &authorities[i];

        if (authority->key == NULL) {
            (void)snprintf(authority->name, sizeof authority->name, "%s", name);
            authority->key = EVP_EC_gen("P-256");
            authority->certificate = certify(authority->key, name, name, authority->key, NULL);
        }
        if (strcmp(authority->name, name) == 0) {
            return authority;
        }
    }
    fail_msg("too many authorities");
    return NULL;
}

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    return file;
}

void net_certificate_make(struct net_certificate *files, const char *uri, const char *authority)
{
    struct authority *by = authority_of(authority);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = certify(key, "a node", authority, by->key, uri);
    FILE *file;

    (void)snprintf(files->dir, sizeof files->dir, "/tmp/leafd-certificates-XXXXXX");
    assert_non_null(mkdtemp(files->dir));
    (void)snprintf(files->cert, sizeof files->cert, "%s/cert.pem", files->dir);
    (void)snprintf(files->key, sizeof files->key, "%s/key.pem", files->dir);
    (void)snprintf(files->ca, sizeof files->ca, "%s/ca.pem", files->dir);
    file = create(files->cert);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
    file = create(files->key);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    file = create(files->ca);
    assert_int_equal(PEM_write_X509(file, by->certificate), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void net_certificate_remove(struct net_certificate *files)
{
    assert_int_equal(unlink(files->cert) | unlink(files->key) | unlink(files->ca), 0);
    assert_int_equal(rmdir(files->dir), 0);
}

struct net_keys *net_certified_keys(const char *cluster_id, const char *uri, const char *authority,
                                    const char *secret)
{
    struct net_key_source source = {.cluster_id = cluster_id,
                                    .node_id = strtoull(strrchr(uri, '/') + 1, NULL, 10)};
    struct net_certificate files;
    char why[NET_KEYS_WHY_BYTES] = "";
    struct net_keys *keys = NULL;

    if (secret != NULL) {
        net_fixture_secret(secret, source.secrets[0]);
        source.secret_count = 1;
    }
    net_certificate_make(&files, uri, authority);
    source.cert_file = files.cert;
    source.key_file = files.key;
    source.ca_file = files.ca;
    assert_int_equal(net_keys_make(&source, &keys, why), 0);
    net_certificate_remove(&files);
    return keys;
}
