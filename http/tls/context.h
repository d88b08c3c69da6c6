/*
 * context.h - what all TLS connections of the process share: the present certificate with its
 * rules, and the keys of session tickets.
 *
 * TLS 1.2 and 1.3; ciphers with forward secrecy and authentication alone; X25519 and P-256;
 * no renegotiation, no compression, no early data; ALPN "http/1.1", and who offers only others is
 * refused; one session ticket a handshake.
 *
 * The happy path: tls_new(); tls_context_make() from the PEM text of files, tls_commit(), and a
 * session for each connection (session.h). Later another tls_context_make(), which changes nothing
 * yet, and then tls_commit() or tls_context_free(). Each new connection takes what is then in
 * force; those that are open go on with what they began with, and tickets stay good, unless the
 * rules for client certificates have changed.
 *
 * Failure modes: a certificate or key that cannot be used: ERR_INVALID and a text that names the
 * file and says why; nothing was changed.
 *
 * Thread: any.
 */
#ifndef LEAFD_HTTP_TLS_CONTEXT_H
#define LEAFD_HTTP_TLS_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "http/tls/keys.h"
#include "src/base/buf.h"
#include "src/base/clock.h"
#include "src/base/err.h"

/* Certificates of clients. */
enum tls_client {
    TLS_CLIENT_NONE,
    TLS_CLIENT_OPTIONAL, /* asked for; one that is shown must be good */
    TLS_CLIENT_REQUIRED
};

/* The content of a file, borrowed for a call. */
struct tls_file {
    const char *name; /* for errors */
    const void *data; /* PEM */
    size_t len;
};

struct tls_files {
    struct tls_file certificate; /* the server's, then those of the CAs between it and the root */
    struct tls_file key;         /* without a pass phrase */
    struct tls_file client_ca;   /* len 0: none; needed where client is not TLS_CLIENT_NONE */
    enum tls_client client;
};

struct tls_error {
    char text[400];
};

struct tls;
struct tls_context;
struct ssl_st;

/* Without a certificate. clock: borrowed. */
struct tls *tls_new(const struct clock *clock);

/* No session is left. NULL-safe. */
void tls_free(struct tls *tls);

/* Read and check all; nothing is changed. 0, or ERR_INVALID with *ret_error. */
int tls_context_make(struct tls *tls, const struct tls_files *files,
                     struct tls_context **ret_context, struct tls_error *ret_error) MUST_CHECK;

/* NULL-safe. */
void tls_context_free(struct tls_context *context);

/* When its certificate ends, in seconds of Unix time, and what it is, for the log: "CN=shop until
 * 2027-01-31". */
int64_t tls_context_until_s(const struct tls_context *context);
void tls_context_describe(const struct tls_context *context, struct buf *out);

/* The same of the one in force; 0: there is none. Any thread. */
int64_t tls_until_s(struct tls *tls);

/* Put it in force, for all handshakes that begin from now on; takes it over. */
void tls_commit(struct tls *tls, struct tls_context *context);

/* --- for sessions --- */

/* A connection of what is in force: one of OpenSSL's, for the caller to free. There must have been
 * a tls_commit(). */
struct ssl_st *tls_connection(struct tls *tls);

/* Must its client show a certificate? */
enum tls_client tls_connection_client(struct ssl_st *ssl);

#endif
