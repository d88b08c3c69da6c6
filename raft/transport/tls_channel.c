/*
 * tls_channel.c - see tls_channel.h.
 *
 * OpenSSL reads and writes through a BIO of our own: it takes from the fed input, which is in the
 * caller's memory, and appends to `out`. A record that came in part is kept inside OpenSSL.
 *
 * OpenSSL's queue of errors belongs to the thread and not to a connection: it is cleared before
 * each step of a handshake and after each failure. An open channel is read and written without it.
 *
 * Thread: the raft loop.
 */
#include "raft/transport/tls_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include "src/base/assert.h"

#define RECORD_BYTES 16384             /* of plain bytes: the most that a record holds */
#define REKEY_RECORDS (1ULL << 23)     /* AES-GCM is good for 2^24.5 */
#define SECRET_REASON "another secret" /* there is no telling who has the right one */
#define FORGED_REASON "a record that was changed on its way"

enum channel_state { CHANNEL_SHAKING, CHANNEL_OPEN, CHANNEL_BROKEN };

struct tls_channel {
    SSL *ssl;
    struct net_keys *keys;
    enum channel_state state;
    bool dials;
    uint64_t own_id;
    uint64_t wanted;               /* of one that dials */
    const struct net_way *offered; /* likewise */
    char identity[NET_IDENTITY_BYTES];
    size_t identity_len;
    bool known;               /* of one that accepts: the identity is of a secret here */
    struct net_identity said; /* then */
    const uint8_t *input;
    size_t input_len;
    size_t taken_bytes; /* before it is open */
    struct buf out;
    uint8_t gathered[RECORD_BYTES];
    size_t gathered_len;
    uint64_t records; /* sealed since the last keys */
    bool drained;     /* the last read took all that came whole */
    struct tls_peer peer;
    char reason[TLS_REASON_BYTES];
};

/* --- the BIO --- */

static int bio_read(BIO *bio, char *data, size_t room, size_t *ret_len)
{
    struct tls_channel *channel = BIO_get_data(bio);
    const size_t len = room < channel->input_len ? room : channel->input_len;

    BIO_clear_retry_flags(bio);
    *ret_len = len;
    if (len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(data, channel->input, len);
    channel->input += len;
    channel->input_len -= len;
    return 1;
}

static int bio_write(BIO *bio, const char *data, size_t len, size_t *ret_len)
{
    struct tls_channel *channel = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buf_put(&channel->out, data, len);
    *ret_len = len;
    return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

/* Made with the first connection, and kept. */
static const BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;

    if (method == NULL) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leafd");
        ASSERT(method != NULL && BIO_meth_set_read_ex(method, bio_read) == 1 &&
               BIO_meth_set_write_ex(method, bio_write) == 1 &&
               BIO_meth_set_ctrl(method, bio_ctrl) == 1 &&
               BIO_meth_set_create(method, bio_create) == 1);
    }
    return method;
}

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
        net_identity_psk(channel->said.way, identity, len, psk);
    } else if (RAND_bytes(psk, sizeof psk) != 1) {
        return 0;
    }
    *ret_session = session_of(ssl, psk);
    OPENSSL_cleanse(psk, sizeof psk);
    return 1;
}

/* --- its life --- */

static struct tls_channel *channel_new(struct net_keys *keys, SSL_CTX *ctx, uint64_t own_id)
{
    struct tls_channel *channel = MUST_HAVE(calloc(1, sizeof *channel));
    BIO *bio = BIO_new(bio_method());

    ASSERT(bio != NULL);
    channel->keys = net_keys_ref(keys);
    channel->own_id = own_id;
    channel->ssl = SSL_new(ctx);
    ASSERT(channel->ssl != NULL);
    BIO_set_data(bio, channel);
    SSL_set_bio(channel->ssl, bio, bio);
    ASSERT(SSL_set_app_data(channel->ssl, channel) == 1);
    return channel;
}

struct tls_channel *tls_channel_dial(struct net_keys *keys, unsigned way, uint64_t own_id,
                                     uint64_t wanted)
{
    const struct net_way *offered = &keys->ways[way % keys->way_count];
    struct tls_channel *channel = channel_new(
        keys, offered->certificate ? keys->dial_certificate : keys->dial_secret, own_id);
    int rv;

    channel->dials = true;
    channel->wanted = wanted;
    channel->offered = offered;
    if (!offered->certificate) {
        SSL_set_psk_use_session_callback(channel->ssl, use_secret);
    }
    SSL_set_connect_state(channel->ssl);
    rv = tls_channel_shake(channel);
    ASSERT(rv == 0);
    return channel;
}

struct tls_channel *tls_channel_accept(struct net_keys *keys, uint64_t own_id)
{
    struct tls_channel *channel = channel_new(keys, keys->accept, own_id);

    if (!keys->ways[keys->way_count - 1].certificate) { /* there are secrets */
        SSL_set_psk_find_session_callback(channel->ssl, find_secret);
    }
    SSL_set_accept_state(channel->ssl);
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
    channel->input = data;
    channel->input_len = len;
    if (channel->state == CHANNEL_SHAKING) {
        channel->taken_bytes += len;
    }
}

bool tls_channel_is_open(const struct tls_channel *channel)
{
    return channel->state == CHANNEL_OPEN;
}

const struct tls_peer *tls_channel_peer(const struct tls_channel *channel)
{
    ASSERT(channel->state == CHANNEL_OPEN);
    return &channel->peer;
}

struct buf *tls_channel_out(struct tls_channel *channel)
{
    return &channel->out;
}

const char *tls_channel_reason(const struct tls_channel *channel)
{
    return channel->reason;
}

/* --- the handshake --- */

/* The queue is swept only when there is something in it. */
static void clear_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

static int broken(struct tls_channel *channel, int err, const char *reason)
{
    channel->state = CHANNEL_BROKEN;
    (void)snprintf(channel->reason, sizeof channel->reason, "%s", reason);
    clear_errors();
    return err;
}

/* In words: OpenSSL says of a secret that does not fit one of these, on either side. */
static int shake_failed(struct tls_channel *channel)
{
    const unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);
    char reason[TLS_REASON_BYTES];

    switch (ERR_GET_REASON(error)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return broken(channel, ERR_REFUSED, SECRET_REASON);
    default:
        (void)snprintf(reason, sizeof reason, "TLS: %s",
                       text != NULL ? text : "the handshake failed");
        return broken(channel, ERR_REFUSED, reason);
    }
}

static bool certificate_holds(struct tls_channel *channel)
{
    X509 *certificate = SSL_get0_peer_certificate(channel->ssl);

    return certificate != NULL && SSL_get_verify_result(channel->ssl) == X509_V_OK &&
           net_certificate_names(channel->keys, certificate, &channel->peer.same_cluster,
                                 &channel->peer.node_id);
}

/* The other side has finished: whom do we know now? */
static int judge(struct tls_channel *channel)
{
    const bool by_secret = SSL_session_reused(channel->ssl) == 1;
    struct tls_peer *peer = &channel->peer;
    const struct net_way *way;

    if (by_secret && channel->dials) {
        way = channel->offered;
        peer->same_cluster = true;
        peer->node_id = channel->wanted;
    } else if (by_secret) {
        way = channel->known ? channel->said.way : NULL;
        *peer = (struct tls_peer){.same_cluster = channel->said.same_cluster,
                                  .node_id = channel->said.dialler,
                                  .wanted = channel->said.wanted,
                                  .says_wanted = true};
    } else {
        way = channel->keys->ways[0].certificate ? &channel->keys->ways[0] : NULL;
        if (way != NULL && !certificate_holds(channel)) {
            return broken(channel, ERR_REFUSED, "its certificate names no node");
        }
    }
    if (way == NULL || (channel->dials && way != channel->offered)) {
        return broken(channel, ERR_REFUSED, SECRET_REASON);
    }
    if (channel->dials && channel->wanted != 0 && peer->node_id != channel->wanted) {
        return broken(channel, ERR_REFUSED, "its certificate names another node");
    }
    memcpy(peer->way_id, way->id, sizeof peer->way_id);
    channel->state = CHANNEL_OPEN;
    return 1;
}

int tls_channel_shake(struct tls_channel *channel)
{
    int rv;

    ASSERT(channel->state == CHANNEL_SHAKING);
    if (channel->taken_bytes > LIMIT_TLS_HANDSHAKE_BYTES) {
        return broken(channel, ERR_TOO_LARGE, "TLS: a handshake too large");
    }
    clear_errors();
    rv = SSL_do_handshake(channel->ssl);
    if (rv == 1) {
        return judge(channel);
    }
    if (SSL_get_error(channel->ssl, rv) == SSL_ERROR_WANT_READ) {
        return 0;
    }
    return shake_failed(channel);
}

/* --- open --- */

static int read_failed(struct tls_channel *channel)
{
    if ((SSL_get_shutdown(channel->ssl) & SSL_RECEIVED_SHUTDOWN) != 0) {
        return broken(channel, ERR_IO, "closed by the peer");
    }
    return broken(channel, ERR_CORRUPT, FORGED_REASON);
}

/* Nothing here asks OpenSSL's queue of errors, which would cost as much as a small record's
 * cipher: whether a record is only not whole yet is known without it. */
ssize_t tls_channel_read(struct tls_channel *channel, void *data, size_t room)
{
    uint8_t *to = data;
    size_t total = 0;

    if (channel->state == CHANNEL_BROKEN) {
        return ERR_CORRUPT;
    }
    ASSERT(channel->state == CHANNEL_OPEN);
    channel->drained = false;
    while (total < room && !channel->drained) {
        size_t len = 0;

        if (SSL_read_ex(channel->ssl, to + total, room - total, &len) == 1) {
            total += len;
            /* Another call would only find that out the dear way. */
            channel->drained = channel->input_len == 0 && SSL_has_pending(channel->ssl) == 0;
        } else if (SSL_want_read(channel->ssl)) {
            channel->drained = true;
        } else {
            /* What came whole before it counts; the next call finds the same end. */
            return total > 0 ? (ssize_t)total : read_failed(channel);
        }
    }
    return (ssize_t)total;
}

bool tls_channel_is_drained(const struct tls_channel *channel)
{
    return channel->drained;
}

static void seal(struct tls_channel *channel, const void *data, size_t len)
{
    size_t written = 0;

    if (channel->records >= REKEY_RECORDS) {
        tls_channel_rekey(channel);
    }
    /* It fails only where the input was found to be forged, which read() has not told yet. */
    if (SSL_write_ex(channel->ssl, data, len, &written) != 1 || written != len) {
        (void)broken(channel, ERR_CORRUPT, FORGED_REASON);
        return;
    }
    channel->records += (len + RECORD_BYTES - 1) / RECORD_BYTES;
}

void tls_channel_seal(struct tls_channel *channel)
{
    if (channel->gathered_len > 0 && channel->state == CHANNEL_OPEN) {
        seal(channel, channel->gathered, channel->gathered_len);
    }
    channel->gathered_len = 0;
}

void tls_channel_write(struct tls_channel *channel, const void *data, size_t len)
{
    const uint8_t *from = data;

    while (len > 0 && channel->state == CHANNEL_OPEN) {
        size_t part = RECORD_BYTES - channel->gathered_len;

        if (channel->gathered_len == 0 && len >= RECORD_BYTES) {
            part = len - len % RECORD_BYTES;
            seal(channel, from, part);
        } else {
            part = part < len ? part : len;
            memcpy(channel->gathered + channel->gathered_len, from, part);
            channel->gathered_len += part;
            if (channel->gathered_len == RECORD_BYTES) {
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
        clear_errors();
        (void)SSL_key_update(channel->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        channel->records = 0;
    }
}
