/*
 * fuzz_identity.c - any bytes as whom somebody says that it is: the identity that a dialler with
 * the secret sends in its hello, and certificates with any names.
 *
 * The first byte chooses.
 *   identity     one that knows the secret dials with it: let in if and only if it is whole, as the
 *                node that it names
 *   names        a certificate whose SAN has these URIs: a node if and only if exactly one of them
 *                is "leafd:<cluster id>/<node id>"
 *   certificate  any bytes as one
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "raft/transport/net_keys.h"
#include "raft/transport/tests/net_fixture.h"
#include "raft/transport/tests/tls_random.h"
#include "src/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CLUSTER "test"
#define OWN_ID 2
#define IDENTITY_MAX 300 /* longer than leafd takes; OpenSSL sends longer ones, too */
#define NAME_END 0xff
#define NAMES 8

static struct net_keys *keys; /* of the one that accepts: two secrets */

/* --- a dialler with the secret --- */

struct dialler {
    const uint8_t *identity;
    size_t len;
    uint8_t psk[NET_SECRET_BYTES];
    BIO *in;
    BIO *out;
    SSL *ssl;
};

static int use_secret(SSL *ssl, const EVP_MD *md, const unsigned char **ret_identity,
                      size_t *ret_len, SSL_SESSION **ret_session)
{
    static const unsigned char suite[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    struct dialler *dialler = SSL_get_app_data(ssl);
    SSL_SESSION *session = SSL_SESSION_new();

    (void)md;
    ASSERT(session != NULL &&
           SSL_SESSION_set1_master_key(session, dialler->psk, NET_SECRET_BYTES) == 1 &&
           SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) == 1 &&
           SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
    *ret_session = session;
    *ret_identity = dialler->identity;
    *ret_len = dialler->len;
    return 1;
}

static void dialler_init(struct dialler *dialler, const struct net_credential *credential,
                         const uint8_t *identity, size_t len)
{
    *dialler = (struct dialler){.identity = identity, .len = len};
    net_identity_psk(credential, identity, len, dialler->psk);
    dialler->in = BIO_new(BIO_s_mem());
    dialler->out = BIO_new(BIO_s_mem());
    dialler->ssl = SSL_new(keys->dial_secret);
    ASSERT(dialler->in != NULL && dialler->out != NULL && dialler->ssl != NULL);
    SSL_set_bio(dialler->ssl, dialler->in, dialler->out);
    ASSERT(SSL_set_app_data(dialler->ssl, dialler) == 1);
    SSL_set_psk_use_session_callback(dialler->ssl, use_secret);
    SSL_set_connect_state(dialler->ssl);
}

/* As far as it goes: 1 if both are through. */
static int shake(struct dialler *dialler, struct tls_channel *channel)
{
    int rv = 0;

    for (unsigned turn = 0; turn < 4 && rv == 0; turn++) {
        struct buf *answer = &channel->out;
        char *data;
        long len;

        (void)SSL_do_handshake(dialler->ssl);
        ERR_clear_error();
        len = BIO_get_mem_data(dialler->out, &data);
        tls_channel_feed(channel, data, (size_t)len);
        rv = tls_channel_shake(channel);
        tls_channel_feed(channel, NULL, 0);
        (void)BIO_reset(dialler->out);
        ASSERT(answer->len == 0 || BIO_write(dialler->in, answer->data, (int)answer->len) > 0);
        answer->len = 0;
    }
    return rv;
}

/* The same again from what it says, unless it is of another cluster. */
static void check_identity(const struct net_identity *said, const uint8_t *identity, size_t len)
{
    char again[NET_IDENTITY_BYTES];

    ASSERT(said->dialler > 0 && said->dialler <= LIMIT_NODE_ID && said->wanted <= LIMIT_NODE_ID);
    ASSERT(net_keys_find(keys, said->credential->id) == said->credential);
    if (said->same_cluster) {
        ASSERT(net_identity_put(keys, said->credential, said->dialler, said->wanted, again) == len);
        ASSERT(memcmp(again, identity, len) == 0);
    }
}

static void fuzz_identity(const uint8_t *identity, size_t len)
{
    struct net_identity said = {.credential = NULL};
    const bool known = net_identity_parse(keys, identity, len, &said);
    struct tls_channel *channel;
    struct dialler dialler;
    int rv;

    if (known) {
        check_identity(&said, identity, len);
    }
    if (len == 0 || len > IDENTITY_MAX) {
        return;
    }
    dialler_init(&dialler, known ? said.credential : &keys->credentials[0], identity, len);
    channel = tls_channel_new(keys, NULL, OWN_ID, 0);
    rv = shake(&dialler, channel);
    ASSERT((rv == 1) == known);
    if (known) {
        const struct tls_peer *peer = tls_channel_peer(channel);

        ASSERT(peer->node_id == said.dialler && peer->wanted == said.wanted && peer->says_wanted);
        ASSERT(peer->same_cluster == said.same_cluster);
        ASSERT(memcmp(peer->credential_id, said.credential->id, NET_CREDENTIAL_ID_BYTES) == 0);
    } else {
        ASSERT(strcmp(channel->reason, "another secret") == 0);
    }
    tls_channel_free(channel);
    SSL_free(dialler.ssl);
}

/* --- certificates --- */

/* Is this the name of a node, of which cluster, and which? The other way round than net_keys.c: the
 * name that it would have to be is made of its number. */
static bool is_node(const uint8_t *name, size_t len, bool *ret_same, uint64_t *ret_id)
{
    char text[LIMIT_CLUSTER_ID_BYTES + 64];
    char want[32];
    size_t digits = 0;
    size_t start;

    while (digits < len && name[len - 1 - digits] >= '0' && name[len - 1 - digits] <= '9') {
        digits++;
    }
    start = len - digits;
    if (digits == 0 || digits > 19 || start < 7 || name[start - 1] != '/' ||
        len - 6 >= LIMIT_CLUSTER_ID_BYTES + 32 || memchr(name, 0, len) != NULL) {
        return false;
    }
    memcpy(text, name + start, digits);
    text[digits] = '\0';
    *ret_id = strtoull(text, NULL, 10);
    (void)snprintf(want, sizeof want, "%llu", (unsigned long long)*ret_id);
    *ret_same = start == sizeof CLUSTER + 6 && memcmp(name + 6, CLUSTER "/", sizeof CLUSTER) == 0;
    return strcmp(want, text) == 0 && *ret_id > 0 && *ret_id <= LIMIT_NODE_ID;
}

static void add_name(GENERAL_NAMES *names, const uint8_t *name, size_t len, bool is_uri)
{
    GENERAL_NAME *general = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();

    ASSERT(general != NULL && text != NULL && ASN1_STRING_set(text, name, (int)len) == 1);
    GENERAL_NAME_set0_value(general, is_uri ? GEN_URI : GEN_DNS, text);
    ASSERT(sk_GENERAL_NAME_push(names, general) > 0);
}

static void fuzz_names(const uint8_t *data, size_t len)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    X509 *certificate = X509_new();
    bool sound = false;
    bool same = false;
    bool got_same = false;
    unsigned found = 0;
    uint64_t id = 0;
    uint64_t got = 0;

    ASSERT(names != NULL && certificate != NULL);
    for (unsigned i = 0; i < NAMES && len > 0; i++) {
        const uint8_t *end = memchr(data, NAME_END, len);
        const size_t size = end != NULL ? (size_t)(end - data) : len;
        const bool is_uri = size == 0 || data[0] != '!';

        add_name(names, data, size, is_uri);
        if (is_uri && size >= 6 && memcmp(data, "leafd:", 6) == 0) {
            found++;
            sound = is_node(data, size, &same, &id);
        }
        data += size + (end != NULL ? 1 : 0);
        len -= size + (end != NULL ? 1 : 0);
    }
    ASSERT(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1);
    ASSERT(net_certificate_names(keys, certificate, &got_same, &got) == (found == 1 && sound));
    ASSERT(found != 1 || !sound || (got == id && got_same == same));
    GENERAL_NAMES_free(names);
    X509_free(certificate);
}

static void fuzz_certificate(const uint8_t *data, size_t len)
{
    X509 *certificate = d2i_X509(NULL, &data, (long)len);
    bool same;
    uint64_t id = 0;

    if (certificate != NULL && net_certificate_names(keys, certificate, &same, &id)) {
        ASSERT(id > 0 && id <= LIMIT_NODE_ID);
    }
    X509_free(certificate);
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    tls_random_restart();
    if (keys == NULL) {
        keys = net_fixture_keys(CLUSTER, "secret", "new");
    }
    if (len == 0) {
        return 0;
    }
    if (data[0] % 3 == 0) {
        fuzz_identity(data + 1, len - 1);
    } else if (data[0] % 3 == 1) {
        fuzz_names(data + 1, len - 1);
    } else {
        fuzz_certificate(data + 1, len - 1);
    }
    return 0;
}
