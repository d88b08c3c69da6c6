/*
 * tls_world.h - a client of TLS for conn_world.h: OpenSSL's, on memory, so that a test has each
 * byte of the wire in its hands.
 *
 * The happy path: tls_world_start(); then tls_user_open(), which connects and shakes hands,
 * tls_user_ask(), a look at `plain`, tls_user_close(). Who wants to cut the bytes writes with
 * SSL_write() to `ssl`, takes tls_user_wire() and sends that by conn_world_send().
 *
 * Failure modes: an ASSERT. Thread: one.
 */
#ifndef LEAFD_HTTP_TESTS_TLS_WORLD_H
#define LEAFD_HTTP_TESTS_TLS_WORLD_H

#include <openssl/ssl.h>

#include "http/tests/conn_world.h"
#include "http/tests/made_certificates.h"

struct tls_user {
    struct conn_world *world;
    SSL *ssl;
    BIO *in;             /* from the server */
    BIO *out;            /* to it */
    size_t taken;        /* of the world's replies */
    struct buf plain;    /* what was decrypted */
    bool closed;         /* the server's close_notify came */
    SSL_SESSION *ticket; /* the last that came, or NULL */
};

/* What a client brings along; all zeros: TLS 1.2 and 1.3, trusting the CA. */
struct tls_options {
    int max_version;           /* 0: the newest */
    int min_version;           /* 0: TLS 1.2 */
    const unsigned char *alpn; /* as on the wire, or NULL */
    unsigned alpn_len;
    const struct made *own;   /* certificate, or NULL */
    const struct made *chain; /* of CAs between it and the server's, or NULL */
    unsigned chain_len;
    SSL_SESSION *resume; /* or NULL */
};

/* Connect and shake hands. False: the handshake failed, or the server has closed. */
bool tls_user_open(struct tls_user *client, struct conn_world *world, const struct made *ca,
                   const struct tls_options *options);

/* The same without a connection to the world's server: only the client's part of the bytes. */
void tls_user_make(struct tls_user *client, struct conn_world *world, const struct made *ca,
                   const struct tls_options *options);

/* Seal, and send; then read what has come. */
void tls_user_ask(struct tls_user *client, const void *data, size_t len);

/* What the client has to send, appended to out. */
void tls_user_wire(struct tls_user *client, struct buf *out);

/* Send that. */
void tls_user_flush(struct tls_user *client);

/* Decrypt what has come. */
void tls_user_take(struct tls_user *client);

/* The client's end, and conn_world_disconnect(). */
void tls_user_close(struct tls_user *client);

/* All but the connection. */
void tls_user_free(struct tls_user *client);

/* What the tests ask again and again, and what the answer's body is. */
#define ASK "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ASK_LEN (sizeof ASK - 1)
#define ANSWER "{\"status\":\"alive\"}"

/* A world that speaks TLS with the certificate of "localhost", signed by a CA; clients are asked
 * for none. Returns what it speaks TLS with; all four go by tls_world_close(). */
struct tls *tls_world_open(struct made *ca, struct made *server, struct conn_world *world);
void tls_world_close(struct made *ca, struct made *server, struct tls *tls,
                     struct conn_world *world);

#endif
