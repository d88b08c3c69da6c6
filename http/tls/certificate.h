/*
 * certificate.h - what a certificate is called: the name of a client that showed one, and the text
 * about our own.
 *
 * A name must not be open to dispute: if the certificate has exactly one URI or DNS name among its
 * alternative names, and that is printable, it is "uri:..." or "dns:..."; else it is the hash of
 * the public key, "sha256:...". The subject is never asked: it may have several common names in
 * several encodings.
 *
 * Failure modes: none; a certificate always has a public key. Thread: any.
 */
#ifndef LEAFD_HTTP_TLS_CERTIFICATE_H
#define LEAFD_HTTP_TLS_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"

struct x509_st;

#define CERTIFICATE_NAME_MAX 255 /* bytes of a URI or DNS name; a longer one is not used */

/* Append the name, without a NUL. */
void certificate_name(struct x509_st *certificate, struct buf *out);

/* Append the subject, or "no subject", in one line of printable text. */
void certificate_subject(struct x509_st *certificate, struct buf *out);

/* Seconds of Unix time. */
int64_t certificate_until_s(struct x509_st *certificate);

/* Is it good by its dates alone? */
bool certificate_is_current(struct x509_st *certificate);

#endif
