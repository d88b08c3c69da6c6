/*
 * tls.c - see tls.h. Threads: as said there.
 */
#include "http/tls/tls.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/crypto.h"
#include "src/base/hot.h"
#include "src/base/log.h"
#include "src/base/stats.h"

/* --- names in certificates --- */

/* Append the client's name (tls.h), without a NUL. */
static void certificate_name(X509 *certificate, struct buf *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    unsigned char hash[SHA256_DIGEST_LENGTH];
    const GENERAL_NAME *only = NULL;
    const unsigned char *text = NULL;
    unsigned char *der = NULL;
    unsigned count = 0;
    int len = 0;
    int at = 0;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) { /* -1: there are no names */
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_URI || name->type == GEN_DNS) {
            only = name;
            count++;
        }
    }
    if (count == 1) {
        text = ASN1_STRING_get0_data(only->d.ia5); /* of both kinds */
        len = ASN1_STRING_length(only->d.ia5);
    }
    /* Printable ASCII without blanks, quotes and backslashes. A NUL also ends a name in some
     * programs and not in others. */
    while (at < len && text[at] > ' ' && text[at] < 0x7f && text[at] != '"' && text[at] != '\\') {
        at++;
    }
    if (len > 0 && len <= CERTIFICATE_NAME_MAX && at == len) {
        buf_printf(out, "%s:%.*s", only->type == GEN_URI ? "uri" : "dns", len, text);
    } else {
        len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
        ASSERT(len > 0 && SHA256(der, (size_t)len, hash) != NULL);
        OPENSSL_free(der);
        buf_printf(out, "sha256:");
        for (size_t i = 0; i < sizeof hash; i++) {
            buf_printf(out, "%02x", hash[i]);
        }
    }
    GENERAL_NAMES_free(names);
}

bool certificate_is_current(X509 *certificate)
{
    return X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
           X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}

/* --- what all connections share --- */

/* AES first, for processors that have it; only AEAD with ephemeral keys. */
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
    const struct clock *clock;
    EVP_CIPHER *ticket_cipher;     /* fetched once: a fetch takes locks */
    _Atomic uint64_t rules;        /* how often those for client certificates have changed */
    pthread_mutex_t mutex;         /* guards what follows */
    struct tls_key keys[TLS_KEYS]; /* of tickets, the newest first; key_count of them */
    unsigned key_count;
    uint64_t key_ms;             /* when the newest was made; monotonic */
    struct tls_context *context; /* in force; NULL: none yet */
};

struct tls_context {
    SSL_CTX *ssl;
    unsigned char rules[SHA256_DIGEST_LENGTH]; /* the mode and the CAs for client certificates */
    int64_t until_s;
    struct buf subject;
};

struct tls *tls_new(const struct clock *clock)
{
    struct tls *tls = MUST_HAVE(calloc(1, sizeof *tls));

    tls_library_init();
    tls->clock = clock;
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
        OPENSSL_cleanse(tls->keys, sizeof tls->keys);
        free(tls);
    }
}

bool tls_ticket_key(struct tls *tls, const uint8_t *name, struct tls_key *ret_key, bool *ret_newest)
{
    bool found = true;
    unsigned i = 0;
    uint64_t now_ms;
    uint64_t due;

    ASSERT(pthread_mutex_lock(&tls->mutex) == 0);
    /* Make as many keys as were due: after a quiet day no key of yesterday opens a ticket. */
    now_ms = clock_now_ms(tls->clock);
    due = tls->key_count == 0 ? 1 : (now_ms - tls->key_ms) / TLS_KEY_MS;
    for (due = due < TLS_KEYS ? due : TLS_KEYS; found && due > 0; due--) {
        struct tls_key key;

        found = RAND_bytes(key.name, sizeof key.name) == 1 &&
                RAND_priv_bytes(key.cipher, sizeof key.cipher) == 1 &&
                RAND_priv_bytes(key.mac, sizeof key.mac) == 1;
        if (found) {
            memmove(tls->keys + 1, tls->keys, sizeof *tls->keys * (TLS_KEYS - 1));
            tls->keys[0] = key;
            tls->key_count += tls->key_count < TLS_KEYS;
            tls->key_ms = now_ms;
        } else {
            ERR_clear_error();
        }
        OPENSSL_cleanse(&key, sizeof key);
    }
    while (name != NULL && i < tls->key_count &&
           memcmp(tls->keys[i].name, name, TLS_KEY_NAME_BYTES) != 0) {
        i++;
    }
    found = found && i < tls->key_count;
    if (found) {
        *ret_key = tls->keys[i];
        *ret_newest = i == 0;
    }
    ASSERT(pthread_mutex_unlock(&tls->mutex) == 0);
    return found;
}

void tls_context_free(struct tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl);
        buf_free(&context->subject);
        free(context);
    }
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
    if (before != NULL && memcmp(before->rules, context->rules, sizeof context->rules) != 0) {
        atomic_fetch_add(&tls->rules, 1);
    }
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

/* --- callbacks of OpenSSL --- */

/* Choose http/1.1. A client with only other protocols is refused, not answered in one that it does
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

/* OpenSSL's contract: 1: continue; 2: continue and send a new ticket; 0: no ticket; negative: end
 * the handshake. */
static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, int seal)
{
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_end(),
    };
    struct tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct tls_key key;
    bool is_newest;
    bool done = true;

    if (!tls_ticket_key(tls, seal ? NULL : name, &key, &is_newest)) {
        return 0;
    }
    if (seal) {
        memcpy(name, key.name, sizeof key.name);
        done = RAND_bytes(iv, EVP_CIPHER_get_iv_length(tls->ticket_cipher)) == 1;
    }
    done = done && EVP_MAC_init(mac, key.mac, sizeof key.mac, params) == 1 &&
           EVP_CipherInit_ex(cipher, tls->ticket_cipher, NULL, key.cipher, iv, seal != 0) == 1;
    OPENSSL_cleanse(&key, sizeof key);
    return !done ? -1 : is_newest ? 1 : 2;
}

/* There is no pass phrase: no one could type it. */
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

__attribute__((format(printf, 2, 3))) static int fail_context(struct tls_error *error,
                                                              const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    ERR_clear_error();
    return ERR_INVALID;
}

/* OpenSSL's last error. */
static const char *openssl_reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());

    return text != NULL ? text : "it cannot be read";
}

/* Append the subject, or "no subject", in one line of printable text. */
static void certificate_subject(X509 *certificate, struct buf *out)
{
    BIO *text = MUST_HAVE(BIO_new(BIO_s_mem()));
    char *data;
    long len;

    (void)X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    len = BIO_get_mem_data(text, &data);
    if (len <= 0 || len > CERTIFICATE_NAME_MAX) {
        buf_printf(out, "no subject");
    } else {
        buf_put(out, data, (size_t)len);
    }
    BIO_free(text);
}

/* Take the certificates of a file: our own and the chain to its root, or the CAs that clients'
 * certificates are checked against, and no others: any CA of the system could name our users. */
static int load_certificates(struct tls_context *context, const struct tls_file *file, bool is_own,
                             struct tls_error *error)
{
    BIO *bio = MUST_HAVE(BIO_new_mem_buf(file->data, (int)file->len));
    SSL_CTX *ssl = context->ssl;
    bool was_asked = false;
    X509 *certificate;
    unsigned count = 0;
    bool taken = true;
    int rv = 0;

    while (rv == 0 &&
           (certificate = PEM_read_bio_X509(bio, NULL, no_pass_phrase, &was_asked)) != NULL) {
        ERR_clear_error();
        count++;
        if (is_own && count == 1) {
            context->until_s = certificate_until_s(certificate);
            certificate_subject(certificate, &context->subject);
            taken = SSL_CTX_use_certificate(ssl, certificate) == 1;
        } else if (is_own) {
            taken = SSL_CTX_add1_chain_cert(ssl, certificate) == 1;
        } else if (X509_check_ca(certificate) == 0) {
            rv = fail_context(error, "%s: certificate %u of the file is not a CA's", file->name,
                              count);
        } else {
            taken = X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), certificate) == 1 &&
                    SSL_CTX_add_client_CA(ssl, certificate) == 1;
        }
        if (!taken) {
            rv = fail_context(error, "%s: certificate %u of the file is refused: %s", file->name,
                              count, openssl_reason());
        }
        X509_free(certificate);
    }
    if (rv == 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        rv = fail_context(error, "%s: a certificate cannot be read: %s", file->name,
                          openssl_reason());
    }
    ERR_clear_error();
    BIO_free(bio);
    return rv != 0 || count > 0 ? rv
                                : fail_context(error, "%s: has no certificate (PEM)", file->name);
}

static int load_key(struct tls_context *context, const struct tls_file *file,
                    const struct tls_file *certificate, struct tls_error *error)
{
    BIO *bio = MUST_HAVE(BIO_new_mem_buf(file->data, (int)file->len));
    bool was_asked = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, &was_asked);
    int rv = 0;

    BIO_free(bio);
    if (key == NULL) {
        return fail_context(error, "%s: %s", file->name,
                            was_asked ? "the key has a pass phrase, which leafd cannot ask for"
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

static int load_client(struct tls_context *context, const struct tls_files *files,
                       struct tls_error *error)
{
    static const int modes[] = {
        [TLS_CLIENT_NONE] = SSL_VERIFY_NONE,
        [TLS_CLIENT_OPTIONAL] = SSL_VERIFY_PEER,
        [TLS_CLIENT_REQUIRED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    };
    unsigned char *id = context->rules;
    SSL_CTX *ssl = context->ssl;

    /* A session under other rules for client certificates is not resumed: its client may no longer
     * be allowed. */
    if (files->client != TLS_CLIENT_NONE) {
        ASSERT(SHA256(files->client_ca.data, files->client_ca.len, id) != NULL);
    }
    id[0] = (unsigned char)files->client;
    _Static_assert(sizeof context->rules <= SSL_MAX_SID_CTX_LENGTH, "too long");
    ASSERT(SSL_CTX_set_session_id_context(ssl, id, sizeof context->rules) == 1);
    SSL_CTX_set_verify(ssl, modes[files->client], NULL);
    SSL_CTX_set_verify_depth(ssl, CHAIN_MAX);
    SSL_CTX_set_max_cert_list(ssl, CHAIN_BYTES_MAX);
    if (files->client == TLS_CLIENT_NONE) {
        return 0;
    }
    /* The file's CAs are trusted, root or intermediate. */
    ASSERT(X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN) == 1);
    return load_certificates(context, &files->client_ca, false, error);
}

int tls_context_make(struct tls *tls, const struct tls_files *files,
                     struct tls_context **ret_context, struct tls_error *ret_error)
{
    struct tls_context *context = MUST_HAVE(calloc(1, sizeof *context));
    SSL_CTX *ssl = MUST_HAVE(SSL_CTX_new(TLS_server_method()));
    int rv;

    ASSERT(files->certificate.len <= INT_MAX && files->key.len <= INT_MAX &&
           files->client_ca.len <= INT_MAX);
    context->ssl = ssl;
    SSL_CTX_set_security_level(ssl, SECURITY_LEVEL);
    ASSERT(SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(ssl, SUITES_1_3) == 1);
    ASSERT(SSL_CTX_set_cipher_list(ssl, SUITES_1_2) == 1);
    ASSERT(SSL_CTX_set1_groups_list(ssl, GROUPS) == 1);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                       SSL_OP_NO_COMPRESSION);
    /* Only the file's certificates are sent. OpenSSL would look for more CAs in each handshake. */
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_NO_AUTO_CHAIN);
    /* Our records are shorter than the longest allowed, and so are the buffers of connections that
     * send. */
    ASSERT(SSL_CTX_set_max_send_fragment(ssl, RECORD_SENT_BYTES) == 1);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_timeout(ssl, TLS_TICKET_S);
    ASSERT(SSL_CTX_set_num_tickets(ssl, 1) == 1);
    ASSERT(SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, ticket_key) == 1);
    ASSERT(SSL_CTX_set_app_data(ssl, tls) == 1);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
    rv = load_certificates(context, &files->certificate, true, ret_error);
    if (rv == 0) {
        rv = load_key(context, &files->key, &files->certificate, ret_error);
    }
    if (rv == 0) {
        rv = load_client(context, files, ret_error);
    }
    if (rv != 0) {
        tls_context_free(context);
        return rv;
    }
    *ret_context = context;
    return 0;
}

/* --- one connection --- */

#define RECORD_HEAD_BYTES 5
#define RECORD_HANDSHAKE 0x16
#define RECORD_BYTES_MAX 16384
#define SEALED_KEPT_BYTES (128 << 10) /* memory grown beyond this is freed once it is sent */

/* --- of a loop --- */

static void list_leave(struct tls_session *session)
{
    struct tls_loop *loop = session->loop;

    if (session->list != NULL) {
        TAILQ_REMOVE(session->list, session, link);
        loop->handshake_count -= session->list == &loop->handshakes;
        loop->warm_count -= session->list == &loop->warm;
        session->list = NULL;
    }
}

static void list_enter(struct tls_session *session, struct tls_sessions *list)
{
    struct tls_loop *loop = session->loop;

    ASSERT(session->list == NULL);
    TAILQ_INSERT_TAIL(list, session, link);
    loop->handshake_count += list == &loop->handshakes;
    loop->warm_count += list == &loop->warm;
    session->list = list;
}

/* OpenSSL keeps buffers in use; then the next turn warms the session again. */
static void session_cool(struct tls_session *session)
{
    list_leave(session);
    (void)SSL_free_buffers(session->ssl);
}

static void cooling_arm(struct tls_loop *loop)
{
    const struct tls_session *first = TAILQ_FIRST(&loop->warm);

    if (first == NULL) {
        timer_cancel(loop->timers, &loop->cooling);
    } else if (!timer_is_armed(&loop->cooling)) {
        timer_arm(loop->timers, &loop->cooling, first->quiet_ms + LIMIT_TLS_WARM_MS);
    }
}

static void cooling_fire(struct timer *timer, uint64_t now_ms)
{
    struct tls_loop *loop = CONTAINER(timer, struct tls_loop, cooling);
    struct tls_session *first;

    while ((first = TAILQ_FIRST(&loop->warm)) != NULL &&
           first->quiet_ms + LIMIT_TLS_WARM_MS <= now_ms) {
        session_cool(first);
    }
    cooling_arm(loop);
}

struct tls_loop *tls_loop_new(struct tls *tls, struct timers *timers)
{
    struct tls_loop *loop = MUST_HAVE(calloc(1, sizeof *loop));

    loop->tls = tls;
    loop->timers = timers;
    TAILQ_INIT(&loop->handshakes);
    TAILQ_INIT(&loop->warm);
    timer_init(&loop->cooling, cooling_fire);
    return loop;
}

void tls_loop_free(struct tls_loop *loop)
{
    if (loop != NULL) {
        ASSERT(TAILQ_EMPTY(&loop->handshakes) && TAILQ_EMPTY(&loop->warm));
        buf_free(&loop->sealed);
        free(loop);
    }
}

/* --- begin and end --- */

struct tls_session *session_new(struct tls_loop *loop, void *owner)
{
    struct tls_session *session = MUST_HAVE(calloc(1, sizeof *session));

    session->loop = loop;
    session->bytes.out = &loop->sealed;
    session->owner = owner;
    return session;
}

void session_stop(struct tls_session *session)
{
    if (session->list == &session->loop->handshakes) {
        counter_add(&session->loop->counts.failed, 1);
        session->phase = TLS_DEAD;
    }
    list_leave(session);
    cooling_arm(session->loop);
}

void session_free(struct tls_session *session)
{
    ASSERT(session->list == NULL);
    SSL_free(session->ssl);
    free(session->kept);
    free(session->certificate);
    buf_free(&session->held);
    free(session);
}

/* Bytes that a call has sealed besides wait for the connection's turn to send. */
HOT static void session_hold(struct tls_session *session)
{
    struct buf *sealed = &session->loop->sealed;

    if (sealed->len > 0) {
        buf_put(&session->held, sealed->data, sealed->len);
        sealed->len = 0;
    }
}

/* The session is broken: no more is read or written. */
COLD static void session_die(struct tls_session *session, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    log_debug("tls", what, "reason=\"%s\"", reason != NULL ? reason : "none");
    ERR_clear_error();
    counter_add(&session->loop->counts.failed, 1);
    session->phase = TLS_DEAD;
    session->has_more = false;
    session_drop(session);
    list_leave(session);
}

/* --- bytes in --- */

uint8_t *session_room(struct tls_session *session, size_t *ret_room)
{
    uint8_t *lent = session->loop->received;

    ASSERT(session_wants(session));
    if (session->bytes.in_len > 0) {
        memcpy(lent, session->bytes.in, session->bytes.in_len);
    }
    free(session->kept);
    session->kept = NULL;
    session->bytes.in = lent;
    *ret_room = TLS_INPUT_BYTES - session->bytes.in_len;
    return lent + session->bytes.in_len;
}

void session_drop(struct tls_session *session)
{
    free(session->kept);
    session->kept = NULL;
    session->bytes.in = NULL;
    session->bytes.in_len = 0;
}

HOT void session_keep(struct tls_session *session, uint64_t now_ms)
{
    struct tls_loop *loop = session->loop;
    const uint8_t *lent = loop->received;

    if (session->bytes.in_len == 0) {
        session_drop(session);
    } else if (session->kept == NULL) {
        ASSERT(session->bytes.in >= lent &&
               session->bytes.in + session->bytes.in_len <= lent + TLS_INPUT_BYTES);
        session->kept = MUST_HAVE(malloc(session->bytes.in_len));
        memcpy(session->kept, session->bytes.in, session->bytes.in_len);
        session->bytes.in = session->kept;
    }
    if (session->phase != TLS_READY) {
        return;
    }
    /* It was just busy, so it has buffers. */
    session->quiet_ms = now_ms;
    if (TAILQ_LAST(&loop->warm, tls_sessions) != session) {
        list_leave(session);
        list_enter(session, &loop->warm);
    }
    if (loop->warm_count > LIMIT_TLS_WARM) {
        session_cool(TAILQ_FIRST(&loop->warm));
    }
    cooling_arm(loop);
}

/* --- the handshake --- */

/* Handshake messages and alerts, of both sides. */
static void session_count_control(int is_ours, int version, int type, const void *data, size_t len,
                                  SSL *ssl, void *context)
{
    struct tls_session *session = context;
    const uint8_t *alert = data; /* its level, and its description */

    (void)version;
    (void)ssl;
    session->controls += type == SSL3_RT_HANDSHAKE || type == SSL3_RT_ALERT;
    if (type == SSL3_RT_ALERT && !is_ours && len == 2 && alert[1] == SSL3_AD_CLOSE_NOTIFY) {
        session->said_end = true;
    }
}

/* Is the first record complete? A client's hello is usually one record; OpenSSL handles others. */
static enum tls_step check_hello(const struct tls_session *session)
{
    const uint8_t *in = session->bytes.in;
    size_t len;

    if (session->bytes.in_len == 0) {
        return TLS_MORE;
    }
    if (in[0] != RECORD_HANDSHAKE) {
        /* Of HTTP, of RESP, or a proxy's header. */
        bool is_plain = (in[0] >= 'A' && in[0] <= 'Z') || in[0] == '*' || in[0] == '\r';

        return is_plain ? TLS_PLAIN : TLS_FAILED;
    }
    if (session->bytes.in_len < RECORD_HEAD_BYTES) {
        return TLS_MORE;
    }
    len = (size_t)in[3] << 8 | in[4];
    if (len == 0 || len > RECORD_BYTES_MAX) {
        return TLS_FAILED;
    }
    return session->bytes.in_len < RECORD_HEAD_BYTES + len ? TLS_MORE : TLS_OPEN;
}

/* Take the name of a client that has shown a certificate, if that is current. A resumed session has
 * the certificate of its first handshake, which may have expired since. */
static enum tls_step handshake_done(struct tls_session *session)
{
    X509 *certificate = SSL_get0_peer_certificate(session->ssl);
    struct tls_counts *counts = &session->loop->counts;
    struct buf name = BUF_INIT;

    if (certificate == NULL
            ? (SSL_get_verify_mode(session->ssl) & SSL_VERIFY_FAIL_IF_NO_PEER_CERT) != 0
            : SSL_get_verify_result(session->ssl) != X509_V_OK ||
                  !certificate_is_current(certificate)) {
        session_die(session, "a client's certificate is no longer good");
        return TLS_FAILED;
    }
    if (certificate != NULL) {
        certificate_name(certificate, &name);
        buf_put_u8(&name, '\0');
        session->certificate = (char *)name.data;
        session->until_s = certificate_until_s(certificate);
    }
    counter_add(SSL_session_reused(session->ssl) ? &counts->resumed : &counts->full, 1);
    list_leave(session);
    session->phase = TLS_READY;
    session->controls = 0;
    return TLS_OPEN;
}

enum tls_step session_handshake(struct tls_session *session)
{
    struct tls *tls = session->loop->tls;
    bool wants_more;
    BIO *bio;
    int done;

    if (session->phase == TLS_HELLO) {
        enum tls_step step = check_hello(session);

        if (step == TLS_FAILED) {
            session_die(session, "no handshake");
        } else if (step != TLS_PLAIN && session->list == NULL && session->bytes.in_len > 0) {
            list_enter(session, &session->loop->handshakes); /* a part of the hello is enough */
        }
        if (step != TLS_OPEN) {
            return step;
        }
        bio = tls_bytes_bio(&session->bytes);
        ASSERT(pthread_mutex_lock(&tls->mutex) == 0);
        ASSERT(tls->context != NULL); /* there was a tls_commit() */
        session->ssl = MUST_HAVE(SSL_new(tls->context->ssl));
        session->rules = atomic_load(&tls->rules);
        ASSERT(pthread_mutex_unlock(&tls->mutex) == 0);
        SSL_set_bio(session->ssl, bio, bio);
        SSL_set_accept_state(session->ssl);
        SSL_set_msg_callback(session->ssl, session_count_control);
        SSL_set_msg_callback_arg(session->ssl, session);
        session->phase = TLS_SHAKING;
        session->loop->starts++;
    }
    ASSERT(session->phase == TLS_SHAKING);
    tls_clear_errors();
    done = SSL_do_handshake(session->ssl);
    if (done == 1) {
        /* Under TLS 1.3 this is only a ticket, for which no client waits. But it acknowledges
         * received bytes: a client with Nagle's algorithm delays its request until then, and the
         * kernel's own acknowledgement would take 40 ms. */
        session_hold(session);
        return handshake_done(session);
    }
    wants_more = SSL_get_error(session->ssl, done) == SSL_ERROR_WANT_READ;
    session_hold(session);
    if (wants_more) {
        return TLS_MORE;
    }
    session_die(session, "the handshake failed");
    return TLS_FAILED;
}

/* --- reading and writing --- */

HOT bool session_is_outdated(const struct tls_session *session)
{
    return session->rules !=
               atomic_load_explicit(&session->loop->tls->rules, memory_order_relaxed) ||
           (session->certificate != NULL && time(NULL) >= session->until_s);
}

HOT ssize_t session_read(struct tls_session *session, void *out, size_t room)
{
    ssize_t result;

    ASSERT(room > 0 && room <= INT_MAX);
    if (session->phase != TLS_READY || (session->bytes.in_len == 0 && !session->has_more)) {
        return 0;
    }
    if (session_is_outdated(session)) {
        session_drop(session);
        session->has_more = false;
        return TLS_ENDED;
    }
    result = SSL_read(session->ssl, out, (int)room);
    session->has_more = result == (ssize_t)room && SSL_pending(session->ssl) > 0;
    /* If it gave nothing, the session itself has the reason: SSL_get_error() would look at the
     * thread's queue of errors, which would have to be emptied before each call. */
    if (result <= 0 && SSL_want_read(session->ssl)) {
        result = 0;
    } else if (result <= 0 && session->said_end) {
        session_drop(session);
        result = TLS_ENDED;
    } else if (result <= 0) {
        session_die(session, "a record cannot be read");
        result = TLS_BROKEN;
    }
    session_hold(session);
    if (session->controls > LIMIT_TLS_CONTROL && result >= 0) {
        session_die(session, "handshake messages without a request");
        return TLS_BROKEN;
    }
    return result;
}

HOT struct buf *session_write(struct tls_session *session, const void *data, size_t len,
                              bool is_last)
{
    struct buf *sealed = &session->loop->sealed;

    ASSERT(len <= INT_MAX && sealed->len == 0);
    if (sealed->capacity > SEALED_KEPT_BYTES) {
        buf_free(sealed);
    }
    if (session->held.len > 0) {
        buf_put(sealed, session->held.data, session->held.len);
        buf_free(&session->held);
    }
    if (session->phase != TLS_READY) {
        return sealed;
    }
    if (len > 0 && SSL_write(session->ssl, data, (int)len) != (int)len) {
        sealed->len = 0;
        session_die(session, "a record cannot be written");
        return NULL;
    }
    session->controls = len > 0 ? 0 : session->controls;
    if (is_last && !session->closed) {
        session->closed = true;
        (void)SSL_shutdown(session->ssl); /* once: without waiting for the client's */
        tls_clear_errors();
    }
    return sealed;
}
