/*
 * net_keys.h - how nodes authenticate each other: the secret or the certificates of a cluster
 * (net_keys), and one connection inside TLS 1.3 that proves them (tls_channel).
 *
 * Failure modes: keys that cannot be used are refused with a text when they are made; a peer that
 * proves none is an error of its channel only. Thread: see each part.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_KEYS_H
#define LEAFD_RAFT_TRANSPORT_NET_KEYS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/buf.h"
#include "src/base/crypto.h"
#include "src/base/err.h"
#include "src/base/limits.h"

/*
 * --- net_keys: the cluster's secret, or certificates, and the OpenSSL contexts made from them.
 *
 * A node has one or more *credentials*, in the order in which it offers them when it dials: a
 * certificate, then the secrets, newest first. When it is dialled it accepts all of them. So a
 * secret can be replaced without an interruption: every node first gets both secrets in its file,
 * then the old one is removed on one node after the other.
 *
 * A secret of 32 random bytes is never used directly. HKDF-SHA256 derives from it
 *
 *   key id    8 bytes by which a listener finds the secret; they reveal nothing about it
 *   digest    8 bytes for the cluster id, which must not be readable on the wire
 *   PSK       32 bytes for an identity: "leafd4/<key id>/<digest>/<dialler>/<wanted>", ids in
 *             decimal, wanted 0: any node that listens there (a node that joins)
 *
 * The identity names both ends and the direction, so a dialler's hello that is sent back to it, or
 * on to a third node, names other nodes than the two that are connected: the handshake of nodes
 * refuses it, with a text (handshake.h). An identity whose key is not known gets a PSK of random
 * bytes, just as with a wrong secret.
 *
 * Without a secret, which only loopback may have, the secret is 32 NULs: it is public.
 *
 * Certificates: TLS 1.3 on both sides, signed by the authority in the CA file and by no other.
 * Exactly one SAN of type URI begins with "leafd:", and is "leafd:<cluster id>/<node id>".
 *
 * Failure modes: ERR_INVALID from net_keys_make() with a text that names the file and the reason.
 * Thread: one owner at a time; any thread may make a set of keys, which then belongs to the raft
 * loop.
 */

#define NET_SECRET_BYTES 32
#define NET_CREDENTIAL_ID_BYTES 8
#define NET_CREDENTIALS_MAX (1 + LIMIT_SECRETS)
#define NET_IDENTITY_BYTES 96 /* room for an identity, with its NUL */
#define NET_KEYS_WHY_BYTES 256

/* The operator's settings. */
struct net_key_source {
    const char *cluster_id;                           /* at most LIMIT_CLUSTER_ID_BYTES */
    uint8_t secrets[LIMIT_SECRETS][NET_SECRET_BYTES]; /* the one to offer first */
    size_t secret_count;
    uint64_t node_id;      /* that the certificate must name */
    const char *cert_file; /* PEM, with the chain; NULL or "": no certificates */
    const char *key_file;  /* PEM */
    const char *ca_file;   /* PEM, one or more */
};

struct net_credential {
    uint8_t id[NET_CREDENTIAL_ID_BYTES]; /* the secret's key id, or a digest of the CA file */
    bool certificate;                    /* there is no secret */
    uint8_t secret[NET_SECRET_BYTES];
};

struct net_keys {
    unsigned ref_count;
    struct net_credential credentials[NET_CREDENTIALS_MAX];
    unsigned credential_count; /* at least 1 */
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    SSL_CTX *accept;
    SSL_CTX *dial_secret;
    SSL_CTX *dial_certificate; /* NULL: none */
    int64_t until_s;           /* when the certificate ends, Unix time; 0: there is none */
};

/* What an identity says. */
struct net_identity {
    const struct net_credential *credential;
    bool same_cluster;
    uint64_t dialler;
    uint64_t wanted; /* 0: any node */
};

/* With one reference, the caller's. 0 or ERR_INVALID. */
int net_keys_make(const struct net_key_source *source, struct net_keys **ret_keys,
                  char ret_why[NET_KEYS_WHY_BYTES]) MUST_CHECK;

struct net_keys *net_keys_ref(struct net_keys *keys);

/* The last unref wipes and frees them. NULL-safe. */
void net_keys_unref(struct net_keys *keys);

/* The credential with this id, or NULL. */
const struct net_credential *net_keys_find(const struct net_keys *keys,
                                           const uint8_t id[NET_CREDENTIAL_ID_BYTES]);

/* The identity of a dialler that offers this credential, a secret; its length. */
size_t net_identity_put(const struct net_keys *keys, const struct net_credential *credential,
                        uint64_t dialler, uint64_t wanted, char ret_identity[NET_IDENTITY_BYTES]);

/* False: it is no identity, or its key id fits no secret here. */
bool net_identity_parse(const struct net_keys *keys, const void *identity, size_t len,
                        struct net_identity *ret_identity);

/* The PSK of an identity. */
void net_identity_psk(const struct net_credential *credential, const void *identity, size_t len,
                      uint8_t ret_psk[NET_SECRET_BYTES]);

/* The node that a certificate names. False: not exactly one name of a node. */
bool net_certificate_names(const struct net_keys *keys, X509 *certificate, bool *ret_same_cluster,
                           uint64_t *ret_node_id);

/*
 * --- tls_channel: TLS 1.3 on one connection, between bytes that come and bytes that go. No I/O.
 *
 * The happy path: tls_channel_new(); feed() takes bytes from the socket, and bytes
 * for the socket gather in `out`. shake() advances the handshake; once the channel is open, the
 * other node has proved a credential of the keys, and read() and write() carry plain bytes.
 *
 *   SHAKING --> OPEN --> BROKEN
 *      `-------------------^
 *
 * On both sides: TLS 1.3, TLS_AES_128_GCM_SHA256, X25519 with every key (psk_dhe_ke), no tickets
 * and no early data. A dialler that offered a secret requires that it was taken for the identity,
 * which names the wanted node. One that offered a certificate requires that the other's certificate
 * names the wanted node.
 *
 * Writing: write() gathers, and seals whole records; seal() seals the rest. So the frames of a turn
 * share records. Before 2^23 records, or by rekey(), the keys of our direction are renewed.
 *
 * Failure modes: anything that does not verify ends in BROKEN with a reason; `out` then holds the
 * alert, which may still be written. More than LIMIT_TLS_HANDSHAKE_BYTES before it is open: BROKEN.
 *
 * Thread: one owner, here the raft loop.
 */

#define TLS_REASON_BYTES 96
#define TLS_RECORD_BYTES 16384 /* of plain bytes: the maximum of a record */

/* The node at the other end, once the channel is open. */
struct tls_peer {
    uint8_t credential_id[NET_CREDENTIAL_ID_BYTES]; /* what it proved */
    bool same_cluster;
    uint64_t node_id; /* 0: only knowledge of the secret was proved (for dialled ones) */
    uint64_t wanted;  /* the node that the dialler wants, as it proved; 0: any, or named later */
    bool says_wanted; /* by an identity: wanted holds */
};

enum tls_channel_state { CHANNEL_SHAKING, CHANNEL_OPEN, CHANNEL_BROKEN };

struct tls_channel {
    SSL *ssl;
    struct net_keys *keys;
    enum tls_channel_state state;
    bool dials;
    uint64_t own_id;
    uint64_t wanted;                      /* of one that dials */
    const struct net_credential *offered; /* likewise */
    char identity[NET_IDENTITY_BYTES];
    size_t identity_len;
    bool known;               /* of one that accepts: the identity is of a secret here */
    struct net_identity said; /* then */
    struct tls_bytes bytes;   /* the fed input, and out */
    size_t taken_bytes;       /* before it is open */
    struct buf out;           /* for the socket; the caller takes them out */
    uint8_t gathered[TLS_RECORD_BYTES];
    size_t gathered_len;
    uint64_t records; /* sealed since the last keys */
    bool drained;     /* read() has taken all whole records of the input */
    struct tls_peer peer;
    char reason[TLS_REASON_BYTES]; /* why it is BROKEN */
};

/* Dial node `wanted` (0: any), offering a credential of the keys; the hello is in `out`. offered
 * NULL: accept (and wanted is 0). */
struct tls_channel *tls_channel_new(struct net_keys *keys, const struct net_credential *offered,
                                    uint64_t own_id, uint64_t wanted);

/* NULL-safe. */
void tls_channel_free(struct tls_channel *channel);

/* Bytes from the socket, borrowed until the next call of feed(): shake() and read() use them up.
 * NULL and 0: end the loan. */
void tls_channel_feed(struct tls_channel *channel, const void *data, size_t len);

/* Continue the handshake: 1 once it is open; 0: the other side's turn; ERR_REFUSED (no trusted
 * node), ERR_TOO_LARGE or ERR_BAD_MESSAGE. */
int tls_channel_shake(struct tls_channel *channel) MUST_CHECK;

/* The other end of an open channel. * */
const struct tls_peer *tls_channel_peer(const struct tls_channel *channel);

/* Plain bytes from an open one, up to `room`: how many, 0 when the input is used up; ERR_IO
 * (the other side ended it), ERR_CORRUPT (a record that is not of the other side). */
ssize_t tls_channel_read(struct tls_channel *channel, void *data, size_t room) MUST_CHECK;

/* Write to an open channel. * */
void tls_channel_write(struct tls_channel *channel, const void *data, size_t len);
void tls_channel_seal(struct tls_channel *channel);

/* Renew the keys of our direction with the next record. */
void tls_channel_rekey(struct tls_channel *channel);

#endif
