/*
 * context.c - see context.h. Thread: any; the mutex guards which context is in force.
 */
#include "http/tls/context.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/tls/certificate.h"
#include "src/base/assert.h"
#include "src/base/tls_init.h"

/* AES first, for processors that have it; AEAD with ephemeral keys alone. */
#define SUITES_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define SUITES_1_2                                                                                 \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"                                   \
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"                                   \
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define GROUPS "X25519:P-256"
#define SECURITY_LEVEL 2 /* OpenSSL's: no RSA key below 2048 bits, no SHA-1 */
#define CHAIN_MAX 8      /* certificates between a client's and its CA's */
#define CHAIN_BYTES_MAX (32 << 10)
#define RECORD_SENT_BYTES 4096 /* holds the replies of a turn to 16 requests of ids */

struct tls {
    struct tls_keys keys;
    EVP_CIPHER *ticket_cipher; /* fetched once: a fetch takes locks */
    pthread_mutex_t mutex;
    struct tls_context *context; /* in force; guarded by mutex; NULL: none yet */
};

struct tls_context {
    SSL_CTX *ssl;
    enum tls_client client;
    int64_t until_s;
    struct buf subject;
};

struct tls *tls_new(const struct clock *clock)
{
    struct tls *tls = MUST_HAVE(calloc(1, sizeof *tls));

    tls_library_init();
    tls_keys_init(&tls->keys, clock);
    tls->ticket_cipher = MUST_HAVE(EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL));
    ASSERT(pthread_mutex_init(&tls->mutex, NULL) == 0);
    return tls;
}

void tls_free(struct tls *tls)
{
    if (tls != NULL) {
        tls_context_free(tls->context);
        ASSERT(pthread_mutex_destroy(&tls->mutex) == 0);
        EVP_CIPHER_free(tls->ticket_cipher);
        tls_keys_release(&tls->keys);
        free(tls);
    }
}

void tls_context_free(struct tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl);
        buf_free(&context->subject);
        free(context);
    }
}

int64_t tls_context_until_s(const struct tls_context *context)
{
    return context->until_s;
}

void tls_context_describe(const struct tls_context *context, struct buf *out)
{
    time_t until = (time_t)context->until_s;
    struct tm parts;
    char date[16];

    ASSERT(gmtime_r(&until, &parts) != NULL);
    ASSERT(strftime(date, sizeof date, "%Y-%m-%d", &parts) > 0);
    buf_printf(out, "%.*s until %s", (int)context->subject.len, (const char *)context->subject.data,
               date);
}

void tls_commit(struct tls *tls, struct tls_context *context)
{
    struct tls_context *before;

    ASSERT(pthread_mutex_lock(&tls->mutex) == 0);
    before = tls->context;
    tls->context = context;
    ASSERT(pthread_mutex_unlock(&tls->mutex) == 0);
    tls_context_free(before);
}

int64_t tls_until_s(struct tls *tls)
{
    int64_t until_s;

    ASSERT(pthread_mutex_lock(&tls->mutex) == 0);
    until_s = tls->context != NULL ? tls->context->until_s : 0;
    ASSERT(pthread_mutex_unlock(&tls->mutex) == 0);
    return until_s;
}

SSL *tls_connection(struct tls *tls)
{
    SSL *ssl;

    ASSERT(pthread_mutex_lock(&tls->mutex) == 0);
    ASSERT(tls->context != NULL);
    ssl = SSL_new(tls->context->ssl);
    ASSERT(pthread_mutex_unlock(&tls->mutex) == 0);
    ASSERT(ssl != NULL);
    return ssl;
}

enum tls_client tls_connection_client(SSL *ssl)
{
    int mode = SSL_get_verify_mode(ssl);

    return (mode & SSL_VERIFY_FAIL_IF_NO_PEER_CERT) != 0 ? TLS_CLIENT_REQUIRED
           : (mode & SSL_VERIFY_PEER) != 0               ? TLS_CLIENT_OPTIONAL
                                                         : TLS_CLIENT_NONE;
}

/* --- what OpenSSL asks --- */

/* Choose http/1.1. Who speaks only other protocols is refused, and not answered in one that it does
 * not expect. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *data)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl;
    (void)data;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool ticket_init(const struct tls *tls, const struct tls_key *key, unsigned char *iv,
                        EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, bool seal)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_end(),
    };

    return EVP_MAC_init(mac, key->mac, sizeof key->mac, params) == 1 &&
           EVP_CipherInit_ex(cipher, tls->ticket_cipher, NULL, key->cipher, iv, seal) == 1;
}

/* OpenSSL's contract: 1 goes on, 2 goes on and a new ticket is sent, 0 means no ticket, negative
 * ends the handshake. */
static int seal_ticket(struct tls *tls, unsigned char *name, unsigned char *iv,
                       EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    struct tls_key key;
    bool done;

    if (!tls_keys_newest(&tls->keys, &key)) {
        return 0;
    }
    memcpy(name, key.name, sizeof key.name);
    done = RAND_bytes(iv, EVP_CIPHER_get_iv_length(tls->ticket_cipher)) == 1 &&
           ticket_init(tls, &key, iv, cipher, mac, true);
    OPENSSL_cleanse(&key, sizeof key);
    return done ? 1 : -1;
}

static int open_ticket(struct tls *tls, const unsigned char *name, unsigned char *iv,
                       EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    struct tls_key key;
    bool is_newest;
    bool done;

    if (!tls_keys_find(&tls->keys, name, &key, &is_newest)) {
        return 0;
    }
    done = ticket_init(tls, &key, iv, cipher, mac, false);
    OPENSSL_cleanse(&key, sizeof key);
    return !done ? -1 : is_newest ? 1 : 2;
}

static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, int seal)
{
    struct tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    return seal ? seal_ticket(tls, name, iv, cipher, mac) : open_ticket(tls, name, iv, cipher, mac);
}

/* Nobody is there to type one. */
static int no_pass_phrase(char *out, int size, int writing, void *data)
{
    bool *was_asked = data;

    (void)out;
    (void)size;
    (void)writing;
    *was_asked = true;
    return -1;
}

/* --- making one --- */

static int fail_context(struct tls_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int fail_context(struct tls_error *error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    ERR_clear_error();
    return ERR_INVALID;
}

/* What OpenSSL said last. */
static const char *openssl_reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());

    return text != NULL ? text : "it cannot be read";
}

static BIO *open_file(const struct tls_file *file)
{
    ASSERT(file->len <= INT_MAX);
    return MUST_HAVE(BIO_new_mem_buf(file->data, (int)file->len));
}

/* The next certificate of a PEM file. 0 and NULL: there is no more. */
static int next_certificate(BIO *bio, const struct tls_file *file, X509 **ret_certificate,
                            struct tls_error *error)
{
    bool was_asked = false;

    *ret_certificate = PEM_read_bio_X509(bio, NULL, no_pass_phrase, &was_asked);
    if (*ret_certificate == NULL && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        return fail_context(error, "%s: a certificate cannot be read: %s", file->name,
                            openssl_reason());
    }
    ERR_clear_error();
    return 0;
}

/* The first certificate is ours; the others lead to the root. */
static int load_own_certificate(struct tls_context *context, const struct tls_file *file,
                                struct tls_error *error)
{
    BIO *bio = open_file(file);
    X509 *certificate;
    unsigned count = 0;
    int rv;

    while ((rv = next_certificate(bio, file, &certificate, error)) == 0 && certificate != NULL) {
        bool ok = count++ == 0 ? SSL_CTX_use_certificate(context->ssl, certificate) == 1
                               : SSL_CTX_add1_chain_cert(context->ssl, certificate) == 1;

        if (count == 1) {
            context->until_s = certificate_until_s(certificate);
            certificate_subject(certificate, &context->subject);
        }
        X509_free(certificate);
        if (!ok) {
            rv = fail_context(error, "%s: certificate %u of the file is refused: %s", file->name,
                              count, openssl_reason());
            break;
        }
    }
    BIO_free(bio);
    return rv != 0 || count > 0 ? rv
                                : fail_context(error, "%s: has no certificate (PEM)", file->name);
}

static int load_key(struct tls_context *context, const struct tls_file *file,
                    const struct tls_file *certificate, struct tls_error *error)
{
    BIO *bio = open_file(file);
    bool was_asked = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, &was_asked);
    int rv = 0;

    BIO_free(bio);
    if (key == NULL) {
        return fail_context(error, "%s: %s", file->name,
                            was_asked
                                ? "the key has a pass phrase, which nobody would be there to type"
                                : "has no private key that can be read (PEM)");
    }
    if (SSL_CTX_use_PrivateKey(context->ssl, key) != 1 ||
        SSL_CTX_check_private_key(context->ssl) != 1) {
        rv = fail_context(error, "%s: is not the key of the certificate in %s: %s", file->name,
                          certificate->name, openssl_reason());
    }
    EVP_PKEY_free(key);
    return rv;
}

/* The only CAs that clients' certificates are held against: any of the system's could name our
 * users. */
static int load_client_ca(SSL_CTX *ssl, const struct tls_file *file, struct tls_error *error)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    BIO *bio = open_file(file);
    X509 *certificate;
    unsigned count = 0;
    int rv;

    while ((rv = next_certificate(bio, file, &certificate, error)) == 0 && certificate != NULL) {
        count++;
        if (X509_check_ca(certificate) == 0) {
            rv = fail_context(error, "%s: certificate %u of the file is not a CA's", file->name,
                              count);
        } else if (X509_STORE_add_cert(store, certificate) != 1 ||
                   SSL_CTX_add_client_CA(ssl, certificate) != 1) {
            rv = fail_context(error, "%s: certificate %u of the file is refused: %s", file->name,
                              count, openssl_reason());
        }
        X509_free(certificate);
        if (rv != 0) {
            break;
        }
    }
    BIO_free(bio);
    return rv != 0 || count > 0 ? rv
                                : fail_context(error, "%s: has no certificate (PEM)", file->name);
}

/* A session of other rules for client certificates is not resumed: its client may not be one any
 * more. */
static void set_session_id_context(SSL_CTX *ssl, const struct tls_files *files)
{
    unsigned char id[SHA256_DIGEST_LENGTH] = {0};

    if (files->client != TLS_CLIENT_NONE) {
        ASSERT(SHA256(files->client_ca.data, files->client_ca.len, id) != NULL);
    }
    id[0] = (unsigned char)files->client;
    _Static_assert(sizeof id <= SSL_MAX_SID_CTX_LENGTH, "too long");
    ASSERT(SSL_CTX_set_session_id_context(ssl, id, sizeof id) == 1);
}

static int load_client(SSL_CTX *ssl, const struct tls_files *files, struct tls_error *error)
{
    static const int modes[] = {
        [TLS_CLIENT_NONE] = SSL_VERIFY_NONE,
        [TLS_CLIENT_OPTIONAL] = SSL_VERIFY_PEER,
        [TLS_CLIENT_REQUIRED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    };

    set_session_id_context(ssl, files);
    SSL_CTX_set_verify(ssl, modes[files->client], NULL);
    SSL_CTX_set_verify_depth(ssl, CHAIN_MAX);
    SSL_CTX_set_max_cert_list(ssl, CHAIN_BYTES_MAX);
    if (files->client == TLS_CLIENT_NONE) {
        return 0;
    }
    /* What the file has is trusted, be it a root or one below. */
    ASSERT(X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN) == 1);
    return load_client_ca(ssl, &files->client_ca, error);
}

/* What is the same for every certificate. */
static void set_protocol(SSL_CTX *ssl, struct tls *tls)
{
    SSL_CTX_set_security_level(ssl, SECURITY_LEVEL);
    ASSERT(SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(ssl, SUITES_1_3) == 1);
    ASSERT(SSL_CTX_set_cipher_list(ssl, SUITES_1_2) == 1);
    ASSERT(SSL_CTX_set1_groups_list(ssl, GROUPS) == 1);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                       SSL_OP_NO_COMPRESSION);
    /* What is sent is what the file has. OpenSSL would look for more CAs in each handshake. */
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_NO_AUTO_CHAIN);
    /* A record of ours is shorter than the longest allowed, and so is the buffer that each
     * connection with something to say has for it. */
    ASSERT(SSL_CTX_set_max_send_fragment(ssl, RECORD_SENT_BYTES) == 1);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_timeout(ssl, TLS_TICKET_S);
    ASSERT(SSL_CTX_set_num_tickets(ssl, 1) == 1);
    ASSERT(SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, ticket_key) == 1);
    ASSERT(SSL_CTX_set_app_data(ssl, tls) == 1);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
}

int tls_context_make(struct tls *tls, const struct tls_files *files,
                     struct tls_context **ret_context, struct tls_error *ret_error)
{
    struct tls_context *context = MUST_HAVE(calloc(1, sizeof *context));
    int rv;

    context->client = files->client;
    context->ssl = MUST_HAVE(SSL_CTX_new(TLS_server_method()));
    set_protocol(context->ssl, tls);
    rv = load_own_certificate(context, &files->certificate, ret_error);
    if (rv == 0) {
        rv = load_key(context, &files->key, &files->certificate, ret_error);
    }
    if (rv == 0) {
        rv = load_client(context->ssl, files, ret_error);
    }
    if (rv != 0) {
        tls_context_free(context);
        return rv;
    }
    *ret_context = context;
    return 0;
}
