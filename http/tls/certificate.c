/*
 * certificate.c - see certificate.h. Thread: any.
 */
#include "http/tls/certificate.h"

#include <openssl/bio.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <time.h>

#include "src/base/assert.h"

/* Printable ASCII without blanks, quotes and backslashes. A NUL, too, ends a name in some programs
 * and not in others. */
static bool is_plain(const unsigned char *text, size_t len)
{
    size_t i = 0;

    while (i < len && text[i] > ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\') {
        i++;
    }
    return i == len && len > 0 && len <= CERTIFICATE_NAME_MAX;
}

/* The only one among the names of a kind that we know. NULL: there is none, or several. */
static const GENERAL_NAME *only_name(const GENERAL_NAMES *names)
{
    const GENERAL_NAME *only = NULL;
    unsigned count = 0;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_URI || name->type == GEN_DNS) {
            only = name;
            count++;
        }
    }
    return count == 1 ? only : NULL;
}

static bool put_only_name(const GENERAL_NAMES *names, struct buf *out)
{
    const GENERAL_NAME *name = only_name(names);
    const unsigned char *text;
    size_t len;

    if (name == NULL) {
        return false;
    }
    text = ASN1_STRING_get0_data(name->d.ia5); /* of both kinds */
    len = (size_t)ASN1_STRING_length(name->d.ia5);
    if (!is_plain(text, len)) {
        return false;
    }
    buf_printf(out, "%s:%.*s", name->type == GEN_URI ? "uri" : "dns", (int)len, text);
    return true;
}

static void put_key_hash(X509 *certificate, struct buf *out)
{
    unsigned char *der = NULL;
    int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
    unsigned char hash[SHA256_DIGEST_LENGTH];

    ASSERT(len > 0);
    ASSERT(SHA256(der, (size_t)len, hash) != NULL);
    OPENSSL_free(der);
    buf_printf(out, "sha256:");
    for (size_t i = 0; i < sizeof hash; i++) {
        buf_printf(out, "%02x", hash[i]);
    }
}

void certificate_name(X509 *certificate, struct buf *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);

    if (names == NULL || !put_only_name(names, out)) {
        put_key_hash(certificate, out);
    }
    GENERAL_NAMES_free(names);
}

void certificate_subject(X509 *certificate, struct buf *out)
{
    BIO *text = BIO_new(BIO_s_mem());
    char *data;
    long len;

    ASSERT(text != NULL);
    (void)X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    len = BIO_get_mem_data(text, &data);
    if (len <= 0 || len > CERTIFICATE_NAME_MAX) {
        buf_printf(out, "no subject");
    } else {
        buf_put(out, data, (size_t)len);
    }
    BIO_free(text);
}

int64_t certificate_until_s(X509 *certificate)
{
    struct tm when = {0};

    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when) != 1) {
        return 0;
    }
    return (int64_t)timegm(&when);
}

bool certificate_is_current(X509 *certificate)
{
    return X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
           X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}
