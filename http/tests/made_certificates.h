/*
 * made_certificates.h - CAs and certificates made for a test: ECDSA P-256, as PEM text.
 *
 * Failure modes: an ASSERT. Thread: one.
 */
#ifndef LEAFD_HTTP_TESTS_MADE_CERTIFICATES_H
#define LEAFD_HTTP_TESTS_MADE_CERTIFICATES_H

#include <openssl/ssl.h>

#include "http/tls/tls.h"
#include "src/base/buf.h"

struct made {
    X509 *certificate;
    EVP_PKEY *key;
    struct buf certificate_pem;
    struct buf key_pem;
};

/* names: the subject's alternative names, as openssl.cnf has them ("DNS:a,URI:b"), or NULL;
 * days: until it ends, from now (negative: it has ended); ca: that signs, NULL: it is a CA and
 * signs itself. made_make_s(): until it ends in seconds. made_make_link(): a CA that another one
 * signs. */
void made_make(struct made *made, const char *subject, const char *names, int days,
               const struct made *ca);
void made_make_s(struct made *made, const char *subject, const char *names, long seconds,
                 const struct made *ca);
void made_make_link(struct made *made, const char *subject, const struct made *ca);
void made_release(struct made *made);

/* For tls_context_make(). ca: of clients, or NULL. */
struct tls_files made_files(const struct made *server, const struct made *ca,
                            enum tls_client client);

/* So much later it is for the keys of tickets. Never falls. */
extern uint64_t made_later_ms;

/* A struct tls with this in force. */
struct tls *made_tls(const struct made *server, const struct made *ca, enum tls_client client);

/* Put another one in force. */
void made_commit(struct tls *tls, const struct made *server, const struct made *ca,
                 enum tls_client client);

#endif
