/*
 * net_keys.c - see net_keys.h.
 */
#include "raft/transport/net_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "src/base/assert.h"

/* --- net_keys --- */

/* The contexts are made once and never changed: a connection keeps the keys that it began with. */

#define IDENTITY_NAME "leafd4" /* the protocol, and its version */
#define NAME_PREFIX "leafd:"
#define SALT_KEY_ID "leafd 4 key id"
#define SALT_CLUSTER "leafd 4 cluster"
#define SALT_PSK "leafd 4 psk"
#define HEX_BYTES (2 * NET_CREDENTIAL_ID_BYTES)

/* --- derived from the secret --- */

static void key_derive(const uint8_t secret[NET_SECRET_BYTES], const char *salt, const void *info,
                       size_t info_len, uint8_t *out, size_t out_len)
{
    EVP_KDF *hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(hkdf);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, NET_SECRET_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, strlen(salt)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, info_len),
        OSSL_PARAM_construct_end(),
    };

    ASSERT(ctx != NULL && EVP_KDF_derive(ctx, out, out_len, params) == 1);
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(hkdf);
}

static void cluster_digest(const struct net_keys *keys, const struct net_credential *credential,
                           uint8_t ret_digest[NET_CREDENTIAL_ID_BYTES])
{
    key_derive(credential->secret, SALT_CLUSTER, keys->cluster_id, strlen(keys->cluster_id),
               ret_digest, NET_CREDENTIAL_ID_BYTES);
}

static void put_hex(char text[HEX_BYTES + 1], const uint8_t bytes[NET_CREDENTIAL_ID_BYTES])
{
    for (size_t i = 0; i < NET_CREDENTIAL_ID_BYTES; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
}

size_t net_identity_put(const struct net_keys *keys, const struct net_credential *credential,
                        uint64_t dialler, uint64_t wanted, char ret_identity[NET_IDENTITY_BYTES])
{
    uint8_t digest[NET_CREDENTIAL_ID_BYTES];
    char key_hex[HEX_BYTES + 1];
    char cluster_hex[HEX_BYTES + 1];
    int len;

    ASSERT(!credential->certificate);
    cluster_digest(keys, credential, digest);
    put_hex(key_hex, credential->id);
    put_hex(cluster_hex, digest);
    len = snprintf(ret_identity, NET_IDENTITY_BYTES, "%s/%s/%s/%" PRIu64 "/%" PRIu64, IDENTITY_NAME,
                   key_hex, cluster_hex, dialler, wanted);
    ASSERT(len > 0 && len < NET_IDENTITY_BYTES);
    return (size_t)len;
}

/* Decimal without a sign or zeros in front, at most LIMIT_NODE_ID. */
static bool parse_id(const char *text, uint64_t *ret_id)
{
    char again[24];
    char *end;

    *ret_id = strtoull(text, &end, 10);
    (void)snprintf(again, sizeof again, "%" PRIu64, *ret_id);
    return *end == '\0' && strcmp(again, text) == 0 && *ret_id <= LIMIT_NODE_ID;
}

bool net_identity_parse(const struct net_keys *keys, const void *identity, size_t len,
                        struct net_identity *ret_identity)
{
    struct net_identity found = {.credential = NULL};
    uint8_t digest[NET_CREDENTIAL_ID_BYTES];
    char text[NET_IDENTITY_BYTES];
    char hex[HEX_BYTES + 1];
    char *parts[5]; /* "<name>/<key>/<cluster>/<dialler>/<wanted>" */
    char *rest = text;
    unsigned count = 0;

    if (len >= sizeof text || memchr(identity, '\0', len) != NULL) {
        return false;
    }
    memcpy(text, identity, len);
    text[len] = '\0';
    while (rest != NULL && count < 5) {
        parts[count++] = strsep(&rest, "/");
    }
    if (rest != NULL || count != 5 || strcmp(parts[0], IDENTITY_NAME) != 0 ||
        !parse_id(parts[3], &found.dialler) || !parse_id(parts[4], &found.wanted) ||
        found.dialler == 0) {
        return false;
    }
    for (unsigned i = 0; i < keys->credential_count && found.credential == NULL; i++) {
        put_hex(hex, keys->credentials[i].id);
        if (!keys->credentials[i].certificate && strcmp(hex, parts[1]) == 0) {
            found.credential = &keys->credentials[i];
        }
    }
    if (found.credential == NULL) {
        return false;
    }
    cluster_digest(keys, found.credential, digest);
    put_hex(hex, digest);
    found.same_cluster = strcmp(hex, parts[2]) == 0;
    *ret_identity = found;
    return true;
}

void net_identity_psk(const struct net_credential *credential, const void *identity, size_t len,
                      uint8_t ret_psk[NET_SECRET_BYTES])
{
    key_derive(credential->secret, SALT_PSK, identity, len, ret_psk, NET_SECRET_BYTES);
}

/* --- names in certificates --- */

bool net_certificate_names(const struct net_keys *keys, X509 *certificate, bool *ret_same_cluster,
                           uint64_t *ret_node_id)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const size_t prefix = strlen(NAME_PREFIX);
    const size_t own_len = strlen(keys->cluster_id);
    unsigned found = 0;
    bool sound = false;

    for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char text[LIMIT_CLUSTER_ID_BYTES + 32];
        const unsigned char *uri;
        char *slash;
        size_t len;

        if (name->type != GEN_URI) {
            continue;
        }
        uri = ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
        len = (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier);
        if (len < prefix || memcmp(uri, NAME_PREFIX, prefix) != 0) {
            continue;
        }
        found++;
        sound = len - prefix < sizeof text && memchr(uri, '\0', len) == NULL;
        if (sound) {
            memcpy(text, uri + prefix, len - prefix);
            text[len - prefix] = '\0';
            slash = strrchr(text, '/');
            sound = slash != NULL && parse_id(slash + 1, ret_node_id) && *ret_node_id != 0;
            *ret_same_cluster = sound && (size_t)(slash - text) == own_len &&
                                memcmp(text, keys->cluster_id, own_len) == 0;
        }
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return found == 1 && sound;
}

/* --- contexts --- */

static SSL_CTX *context_new(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);

    ASSERT(ctx != NULL);
    ASSERT(SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1);
    ASSERT(SSL_CTX_set1_groups_list(ctx, "X25519") == 1);
    (void)SSL_CTX_set_options(ctx,
                              SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    ASSERT(SSL_CTX_set_num_tickets(ctx, 0) == 1);
    ASSERT(SSL_CTX_set_max_early_data(ctx, 0) == 1);
    ASSERT(SSL_CTX_set_recv_max_early_data(ctx, 0) == 1);
    SSL_CTX_set_read_ahead(ctx, 1); /* a record's header and the rest of it in one read */
    /* A dialler that does not verify would accept any certificate. With no authority in the store
     * none is valid. */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return ctx;
}

static int file_fail(char why[NET_KEYS_WHY_BYTES], const char *setting, const char *file)
{
    const unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);

    (void)snprintf(why, NET_KEYS_WHY_BYTES, "%s: %s: %s", setting,
                   reason != NULL ? reason : "it cannot be read", file);
    ERR_clear_error();
    return ERR_INVALID;
}

static int load_files(SSL_CTX *ctx, const struct net_key_source *source,
                      char why[NET_KEYS_WHY_BYTES])
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, source->cert_file) != 1) {
        return file_fail(why, "peer.tls-dir", source->cert_file);
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, source->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1) {
        return file_fail(why, "peer.tls-dir", source->key_file);
    }
    if (SSL_CTX_load_verify_file(ctx, source->ca_file) != 1) {
        return file_fail(why, "peer.tls-dir", source->ca_file);
    }
    return 0;
}

static int add_certificate(struct net_keys *keys, const struct net_key_source *source,
                           char why[NET_KEYS_WHY_BYTES])
{
    struct net_credential *credential = &keys->credentials[keys->credential_count++];
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    BIO *ca = BIO_new_file(source->ca_file, "r");
    bool same_cluster = false;
    uint8_t data[4096];
    uint64_t id;
    int len;
    int rv;

    credential->certificate = true;
    keys->dial_certificate = context_new(TLS_client_method());
    SSL_CTX_set_verify(keys->accept, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    rv = load_files(keys->accept, source, why);
    rv = rv != 0 ? rv : load_files(keys->dial_certificate, source, why);
    rv = rv == 0 && ca == NULL ? file_fail(why, "peer.tls-dir", source->ca_file) : rv;
    /* The credential's id is a digest of the CA file: another file is another credential. */
    ASSERT(md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1);
    while (rv == 0 && (len = BIO_read(ca, data, sizeof data)) > 0) {
        ASSERT(EVP_DigestUpdate(md, data, (size_t)len) == 1);
    }
    ASSERT(EVP_DigestFinal_ex(md, digest, NULL) == 1);
    memcpy(credential->id, digest, NET_CREDENTIAL_ID_BYTES);
    EVP_MD_CTX_free(md);
    (void)BIO_free(ca);
    /* The other nodes will check this certificate: it must name this node of this cluster. */
    if (rv == 0 &&
        (!net_certificate_names(keys, SSL_CTX_get0_certificate(keys->accept), &same_cluster, &id) ||
         !same_cluster)) {
        (void)snprintf(why, NET_KEYS_WHY_BYTES,
                       "peer.tls-dir: there is not exactly one SAN of the form "
                       "URI:leafd:%s/<node id>: %s",
                       keys->cluster_id, source->cert_file);
        rv = ERR_INVALID;
    } else if (rv == 0 && id == source->node_id) {
        keys->until_s = certificate_until_s(SSL_CTX_get0_certificate(keys->accept));
    } else if (rv == 0) {
        (void)snprintf(why, NET_KEYS_WHY_BYTES,
                       "peer.tls-dir: the certificate is of node %" PRIu64 ", and node.id is "
                       "%" PRIu64 ": %s",
                       id, source->node_id, source->cert_file);
        rv = ERR_INVALID;
    }
    return rv;
}

static void add_secret(struct net_keys *keys, const uint8_t secret[NET_SECRET_BYTES])
{
    struct net_credential *credential = &keys->credentials[keys->credential_count++];

    memcpy(credential->secret, secret, NET_SECRET_BYTES);
    key_derive(secret, SALT_KEY_ID, "", 0, credential->id, sizeof credential->id);
}

int net_keys_make(const struct net_key_source *source, struct net_keys **ret_keys,
                  char ret_why[NET_KEYS_WHY_BYTES])
{
    static const uint8_t no_secret[NET_SECRET_BYTES];
    static const unsigned char name[] = IDENTITY_NAME;
    struct net_keys *keys = MUST_HAVE(calloc(1, sizeof *keys));
    int rv = 0;

    ASSERT(source->secret_count <= LIMIT_SECRETS);
    ASSERT(strlen(source->cluster_id) <= LIMIT_CLUSTER_ID_BYTES);
    tls_library_init();
    keys->ref_count = 1;
    (void)snprintf(keys->cluster_id, sizeof keys->cluster_id, "%s", source->cluster_id);
    keys->dial_secret = context_new(TLS_client_method());
    keys->accept = context_new(TLS_server_method());
    /* An acceptor without a certificate requests none. */
    SSL_CTX_set_verify(keys->accept, SSL_VERIFY_NONE, NULL);
    ASSERT(SSL_CTX_set_session_id_context(keys->accept, name, sizeof name - 1) == 1);
    if (source->cert_file != NULL && source->cert_file[0] != '\0') {
        rv = add_certificate(keys, source, ret_why);
    }
    for (size_t i = 0; i < source->secret_count; i++) {
        add_secret(keys, source->secrets[i]);
    }
    if (keys->credential_count == 0) {
        add_secret(keys, no_secret);
    }
    if (rv != 0) {
        net_keys_unref(keys);
        return rv;
    }
    *ret_keys = keys;
    return 0;
}

struct net_keys *net_keys_ref(struct net_keys *keys)
{
    ASSERT(keys->ref_count > 0);
    keys->ref_count++;
    return keys;
}

void net_keys_unref(struct net_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    ASSERT(keys->ref_count > 0);
    if (--keys->ref_count > 0) {
        return;
    }
    SSL_CTX_free(keys->accept);
    SSL_CTX_free(keys->dial_secret);
    SSL_CTX_free(keys->dial_certificate);
    OPENSSL_cleanse(keys, sizeof *keys);
    free(keys);
}

const struct net_credential *net_keys_find(const struct net_keys *keys,
                                           const uint8_t id[NET_CREDENTIAL_ID_BYTES])
{
    for (unsigned i = 0; i < keys->credential_count; i++) {
        if (memcmp(keys->credentials[i].id, id, NET_CREDENTIAL_ID_BYTES) == 0) {
            return &keys->credentials[i];
        }
    }
    return NULL;
}

/*
 * --- tls_channel
 *
 * OpenSSL takes from the fed input, which is in the caller's memory, and appends to `out`. It keeps
 * a partial record.
 *
 * OpenSSL's queue of errors belongs to the thread and not to a connection: it is cleared before
 * each step of a handshake and after each failure. An open channel is read and written without it.
 */

#define REKEY_RECORDS (1ULL << 23)     /* AES-GCM is good for 2^24.5 */
#define SECRET_REASON "another secret" /* it is unknown which one is right */
#define FORGED_REASON "a record that was changed on its way"

/* --- secrets --- */

static SSL_SESSION *session_of(SSL *ssl, const uint8_t psk[NET_SECRET_BYTES])
{
    static const unsigned char suite[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    SSL_SESSION *session = SSL_SESSION_new();

    ASSERT(session != NULL && SSL_SESSION_set1_master_key(session, psk, NET_SECRET_BYTES) == 1 &&
           SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) == 1 &&
           SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
    return session;
}

static int use_secret(SSL *ssl, const EVP_MD *md, const unsigned char **ret_identity,
                      size_t *ret_len, SSL_SESSION **ret_session)
{
    struct tls_channel *channel = SSL_get_app_data(ssl);
    uint8_t psk[NET_SECRET_BYTES];

    (void)md; /* one suite, one digest */
    channel->identity_len = net_identity_put(channel->keys, channel->offered, channel->own_id,
                                             channel->wanted, channel->identity);
    net_identity_psk(channel->offered, channel->identity, channel->identity_len, psk);
    *ret_session = session_of(ssl, psk);
    *ret_identity = (const unsigned char *)channel->identity;
    *ret_len = channel->identity_len;
    OPENSSL_cleanse(psk, sizeof psk);
    return 1;
}

static int find_secret(SSL *ssl, const unsigned char *identity, size_t len,
                       SSL_SESSION **ret_session)
{
    struct tls_channel *channel = SSL_get_app_data(ssl);
    uint8_t psk[NET_SECRET_BYTES];

    channel->known = net_identity_parse(channel->keys, identity, len, &channel->said);
    if (channel->known) {
        net_identity_psk(channel->said.credential, identity, len, psk);
    } else if (RAND_bytes(psk, sizeof psk) != 1) {
        return 0;
    }
    *ret_session = session_of(ssl, psk);
    OPENSSL_cleanse(psk, sizeof psk);
    return 1;
}

/* --- its life --- */

struct tls_channel *tls_channel_new(struct net_keys *keys, const struct net_credential *offered,
                                    uint64_t own_id, uint64_t wanted)
{
    struct tls_channel *channel = MUST_HAVE(calloc(1, sizeof *channel));
    BIO *bio = tls_bytes_bio(&channel->bytes);

    channel->bytes.out = &channel->out;
    channel->keys = net_keys_ref(keys);
    channel->own_id = own_id;
    channel->dials = offered != NULL;
    channel->wanted = wanted;
    channel->offered = offered;
    channel->ssl = SSL_new(offered == NULL        ? keys->accept
                           : offered->certificate ? keys->dial_certificate
                                                  : keys->dial_secret);
    ASSERT(channel->ssl != NULL);
    SSL_set_bio(channel->ssl, bio, bio);
    ASSERT(SSL_set_app_data(channel->ssl, channel) == 1);
    if (offered == NULL) {
        if (!keys->credentials[keys->credential_count - 1].certificate) { /* there are secrets */
            SSL_set_psk_find_session_callback(channel->ssl, find_secret);
        }
        SSL_set_accept_state(channel->ssl);
        return channel;
    }
    if (!offered->certificate) {
        SSL_set_psk_use_session_callback(channel->ssl, use_secret);
    }
    SSL_set_connect_state(channel->ssl);
    ASSERT(tls_channel_shake(channel) == 0);
    return channel;
}

void tls_channel_free(struct tls_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    SSL_free(channel->ssl);
    net_keys_unref(channel->keys);
    buf_free(&channel->out);
    OPENSSL_cleanse(channel->gathered, sizeof channel->gathered);
    free(channel);
}

void tls_channel_feed(struct tls_channel *channel, const void *data, size_t len)
{
    channel->bytes.in = data;
    channel->bytes.in_len = len;
    channel->drained = false;
    if (channel->state == CHANNEL_SHAKING) {
        channel->taken_bytes += len;
    }
}

const struct tls_peer *tls_channel_peer(const struct tls_channel *channel)
{
    ASSERT(channel->state == CHANNEL_OPEN);
    return &channel->peer;
}

/* --- the handshake --- */

static int channel_broken(struct tls_channel *channel, int err, const char *reason)
{
    channel->state = CHANNEL_BROKEN;
    (void)snprintf(channel->reason, sizeof channel->reason, "%s", reason);
    tls_clear_errors();
    return err;
}

/* The other side has finished: which node is now proved? */
static int channel_judge(struct tls_channel *channel)
{
    const bool by_secret = SSL_session_reused(channel->ssl) == 1;
    struct tls_peer *peer = &channel->peer;
    X509 *certificate = SSL_get0_peer_certificate(channel->ssl);
    const struct net_credential *credential;

    if (by_secret && channel->dials) {
        credential = channel->offered;
        peer->same_cluster = true;
        peer->node_id = channel->wanted;
    } else if (by_secret) {
        credential = channel->known ? channel->said.credential : NULL;
        *peer = (struct tls_peer){.same_cluster = channel->said.same_cluster,
                                  .node_id = channel->said.dialler,
                                  .wanted = channel->said.wanted,
                                  .says_wanted = true};
    } else {
        credential =
            channel->keys->credentials[0].certificate ? &channel->keys->credentials[0] : NULL;
        if (credential != NULL &&
            (certificate == NULL || SSL_get_verify_result(channel->ssl) != X509_V_OK ||
             !net_certificate_names(channel->keys, certificate, &peer->same_cluster,
                                    &peer->node_id))) {
            return channel_broken(channel, ERR_REFUSED, "its certificate names no node");
        }
    }
    if (credential == NULL || (channel->dials && credential != channel->offered)) {
        return channel_broken(channel, ERR_REFUSED, SECRET_REASON);
    }
    if (channel->dials && channel->wanted != 0 && peer->node_id != channel->wanted) {
        return channel_broken(channel, ERR_REFUSED, "its certificate names another node");
    }
    memcpy(peer->credential_id, credential->id, sizeof peer->credential_id);
    channel->state = CHANNEL_OPEN;
    return 1;
}

int tls_channel_shake(struct tls_channel *channel)
{
    char reason[TLS_REASON_BYTES];
    unsigned long error;
    const char *text;
    int rv;

    ASSERT(channel->state == CHANNEL_SHAKING);
    if (channel->taken_bytes > LIMIT_TLS_HANDSHAKE_BYTES) {
        return channel_broken(channel, ERR_TOO_LARGE, "TLS: a handshake too large");
    }
    tls_clear_errors();
    rv = SSL_do_handshake(channel->ssl);
    if (rv == 1) {
        return channel_judge(channel);
    }
    if (SSL_get_error(channel->ssl, rv) == SSL_ERROR_WANT_READ) {
        return 0;
    }
    error = ERR_peek_error();
    text = ERR_reason_error_string(error);
    switch (ERR_GET_REASON(error)) { /* of a secret that does not match, on either side: */
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        text = SECRET_REASON;
        break;
    default:
        (void)snprintf(reason, sizeof reason, "TLS: %s",
                       text != NULL ? text : "the handshake failed");
        text = reason;
        break;
    }
    return channel_broken(channel, ERR_REFUSED, text);
}

/* --- open --- */

/* This does not use OpenSSL's queue of errors, which would cost as much as a small record's cipher:
 * a partial record is recognized without it. */
ssize_t tls_channel_read(struct tls_channel *channel, void *data, size_t room)
{
    uint8_t *to = data;
    size_t total = 0;

    if (channel->state == CHANNEL_BROKEN) {
        return ERR_CORRUPT;
    }
    ASSERT(channel->state == CHANNEL_OPEN);
    while (total < room && !channel->drained) {
        size_t len = 0;

        if (SSL_read_ex(channel->ssl, to + total, room - total, &len) == 1) {
            total += len;
            /* Another call would find that out at a higher cost. */
            channel->drained = channel->bytes.in_len == 0 && SSL_has_pending(channel->ssl) == 0;
        } else if (SSL_want_read(channel->ssl)) {
            channel->drained = true;
        } else if (total > 0) {
            break; /* whole records before it count; the next call finds the same end */
        } else if ((SSL_get_shutdown(channel->ssl) & SSL_RECEIVED_SHUTDOWN) != 0) {
            return channel_broken(channel, ERR_IO, "closed by the peer");
        } else {
            return channel_broken(channel, ERR_CORRUPT, FORGED_REASON);
        }
    }
    return (ssize_t)total;
}

static void channel_seal(struct tls_channel *channel, const void *data, size_t len)
{
    size_t written = 0;

    if (channel->records >= REKEY_RECORDS) {
        tls_channel_rekey(channel);
    }
    /* It fails only if the input was found to be forged, which read() has not reported yet. */
    if (SSL_write_ex(channel->ssl, data, len, &written) != 1 || written != len) {
        (void)channel_broken(channel, ERR_CORRUPT, FORGED_REASON);
        return;
    }
    channel->records += (len + TLS_RECORD_BYTES - 1) / TLS_RECORD_BYTES;
}

void tls_channel_seal(struct tls_channel *channel)
{
    if (channel->gathered_len > 0 && channel->state == CHANNEL_OPEN) {
        channel_seal(channel, channel->gathered, channel->gathered_len);
    }
    channel->gathered_len = 0;
}

void tls_channel_write(struct tls_channel *channel, const void *data, size_t len)
{
    const uint8_t *from = data;

    while (len > 0 && channel->state == CHANNEL_OPEN) {
        size_t part = TLS_RECORD_BYTES - channel->gathered_len;

        if (channel->gathered_len == 0 && len >= TLS_RECORD_BYTES) {
            part = len - len % TLS_RECORD_BYTES;
            channel_seal(channel, from, part);
        } else {
            part = part < len ? part : len;
            memcpy(channel->gathered + channel->gathered_len, from, part);
            channel->gathered_len += part;
            if (channel->gathered_len == TLS_RECORD_BYTES) {
                tls_channel_seal(channel);
            }
        }
        from += part;
        len -= part;
    }
}

void tls_channel_rekey(struct tls_channel *channel)
{
    if (channel->state == CHANNEL_OPEN) {
        tls_clear_errors();
        (void)SSL_key_update(channel->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        channel->records = 0;
    }
}
