/*
 * tls_world.c - see tls_world.h. Thread: one.
 */
#include "http/tests/tls_world.h"

#include <openssl/err.h>

#include "src/base/assert.h"

static int keep_ticket(SSL *ssl, SSL_SESSION *session)
{
    struct tls_user *client = SSL_get_app_data(ssl);

    SSL_SESSION_free(client->ticket);
    client->ticket = session;
    return 1; /* it is ours */
}

static SSL_CTX *make_context(const struct made *ca, const struct tls_options *options)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    ASSERT(context != NULL);
    SSL_CTX_set_security_level(context, 0); /* to be refused by the server, if at all */
    ASSERT(SSL_CTX_set_min_proto_version(context, options->min_version != 0 ? options->min_version
                                                                            : TLS1_2_VERSION) == 1);
    ASSERT(SSL_CTX_set_max_proto_version(context, options->max_version) == 1);
    ASSERT(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca->certificate) == 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_session_cache_mode(context,
                                         SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_ticket);
    if (options->own != NULL) {
        ASSERT(SSL_CTX_use_certificate(context, options->own->certificate) == 1);
        ASSERT(SSL_CTX_use_PrivateKey(context, options->own->key) == 1);
    }
    for (unsigned i = 0; i < options->chain_len; i++) {
        ASSERT(SSL_CTX_add1_chain_cert(context, options->chain[i].certificate) == 1);
    }
    return context;
}

void tls_user_make(struct tls_user *client, struct conn_world *world, const struct made *ca,
                   const struct tls_options *options)
{
    static const struct tls_options usual;
    SSL_CTX *context;

    options = options != NULL ? options : &usual;
    context = make_context(ca, options);
    *client = (struct tls_user){.world = world, .ssl = SSL_new(context)};
    ASSERT(client->ssl != NULL);
    SSL_CTX_free(context);
    client->in = BIO_new(BIO_s_mem());
    client->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(client->in, -1);
    SSL_set_bio(client->ssl, client->in, client->out);
    SSL_set_connect_state(client->ssl);
    ASSERT(SSL_set_app_data(client->ssl, client) == 1);
    if (options->alpn != NULL) {
        ASSERT(SSL_set_alpn_protos(client->ssl, options->alpn, options->alpn_len) == 0);
    }
    if (options->resume != NULL) {
        ASSERT(SSL_set_session(client->ssl, options->resume) == 1);
    }
    (void)SSL_do_handshake(client->ssl);
    ERR_clear_error();
}

void tls_user_wire(struct tls_user *client, struct buf *out)
{
    char *data;
    long len = BIO_get_mem_data(client->out, &data);

    buf_put(out, data, (size_t)len);
    ASSERT(BIO_reset(client->out) == 1);
}

void tls_user_flush(struct tls_user *client)
{
    struct buf wire = BUF_INIT;

    tls_user_wire(client, &wire);
    conn_world_send(client->world, wire.data, wire.len);
    buf_free(&wire);
}

void tls_user_take(struct tls_user *client)
{
    const struct buf *replies = &client->world->replies;
    int got = 1;

    if (replies->len > client->taken) {
        int len = (int)(replies->len - client->taken);

        ASSERT(BIO_write(client->in, replies->data + client->taken, len) == len);
        client->taken = replies->len;
    }
    while (got > 0) {
        buf_reserve(&client->plain, 16384);
        ERR_clear_error();
        got = SSL_read(client->ssl, client->plain.data + client->plain.len, 16384);
        client->plain.len += got > 0 ? (size_t)got : 0;
    }
    client->closed = SSL_get_error(client->ssl, got) == SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
}

bool tls_user_open(struct tls_user *client, struct conn_world *world, const struct made *ca,
                   const struct tls_options *options)
{
    size_t before = world->replies.len;

    conn_world_connect(world);
    tls_user_make(client, world, ca, options);
    client->taken = before;
    for (unsigned i = 0; i < 4; i++) {
        tls_user_flush(client);
        tls_user_take(client);
    }
    /* Under TLS 1.3 the server judges the client's certificate when that is through. */
    return SSL_is_init_finished(client->ssl) && !world->ended;
}

void tls_user_ask(struct tls_user *client, const void *data, size_t len)
{
    ASSERT(SSL_write(client->ssl, data, (int)len) == (int)len);
    tls_user_flush(client);
    tls_user_take(client);
}

void tls_user_close(struct tls_user *client)
{
    conn_world_disconnect(client->world);
    tls_user_take(client);
    tls_user_free(client);
}

void tls_user_free(struct tls_user *client)
{
    (void)SSL_shutdown(client->ssl); /* else OpenSSL takes the session for one that was cut */
    ERR_clear_error();
    SSL_free(client->ssl);
    SSL_SESSION_free(client->ticket);
    buf_free(&client->plain);
}

struct tls *tls_world_open(struct made *ca, struct made *server, struct conn_world *world)
{
    struct tls *tls;

    made_make(ca, "a CA", NULL, 90, NULL);
    made_make(server, "localhost", "DNS:localhost", 90, ca);
    tls = made_tls(server, NULL, TLS_CLIENT_NONE);
    conn_world_start_tls(world, tls, NULL);
    return tls;
}

void tls_world_close(struct made *ca, struct made *server, struct tls *tls,
                     struct conn_world *world)
{
    conn_world_stop(world);
    tls_free(tls);
    made_release(server);
    made_release(ca);
}
