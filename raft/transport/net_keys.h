/*
 * net_keys.h - by what nodes know each other: the cluster's secret, or certificates, and what
 * OpenSSL makes of them.
 *
 * A node has one or more *ways*, in the order in which it offers them to those whom it dials: a
 * certificate, then the secrets, newest first. To those who dial it all of them are good. So a
 * secret is exchanged without a break: with two in the file on every node, the old one is then
 * taken out on one node after the other.
 *
 * A secret of 32 random bytes is never used itself. By HKDF-SHA256 it gives
 *
 *   key id    8 bytes by which a listener finds the secret; they show nothing of it
 *   digest    8 bytes for the cluster id, which shall not be read on the wire
 *   PSK       32 bytes for an identity: "leafd4/<key id>/<digest>/<dialler>/<wanted>", ids in
 *             decimal, wanted 0: whoever listens there (a node that joins)
 *
 * The identity names both ends and the direction, so a dialler's hello that is sent back to it, or
 * on to a third node, comes from and wants others than those who then talk: the handshake of nodes
 * refuses it, in words (handshake.h). An identity whose key is not known gets a PSK of random
 * bytes, so that it cannot be told from a wrong secret.
 *
 * Without a secret, which only loopback may have, the secret is 32 NULs: anybody can make it.
 *
 * Certificates: TLS 1.3 on both sides, of the authority in the CA file and of no other. Exactly one
 * SAN of type URI begins with "leafd:", and is "leafd:<cluster id>/<node id>".
 *
 * Failure modes: ERR_INVALID from net_keys_make() with a text that names the file and the reason.
 * Thread: one owner at a time; a set of keys may be made by any, and then belongs to the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_KEYS_H
#define LEAFD_RAFT_TRANSPORT_NET_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "src/base/err.h"
#include "src/base/limits.h"

#define NET_SECRET_BYTES 32
#define NET_WAY_ID_BYTES 8
#define NET_WAYS_MAX (1 + LIMIT_SECRETS)
#define NET_IDENTITY_BYTES 96 /* room for an identity, with its NUL */
#define NET_KEYS_WHY_BYTES 256

/* What an operator gave. */
struct net_key_source {
    const char *cluster_id;                           /* at most LIMIT_CLUSTER_ID_BYTES */
    uint8_t secrets[LIMIT_SECRETS][NET_SECRET_BYTES]; /* the one to offer first */
    size_t secret_count;
    const char *cert_file; /* PEM, with the chain; NULL or "": no certificates */
    const char *key_file;  /* PEM */
    const char *ca_file;   /* PEM, one or more */
};

struct net_way {
    uint8_t id[NET_WAY_ID_BYTES]; /* the secret's key id, or a digest of the CA file */
    bool certificate;             /* there is no secret */
    uint8_t secret[NET_SECRET_BYTES];
};

struct net_keys {
    unsigned ref_count;
    struct net_way ways[NET_WAYS_MAX];
    unsigned way_count; /* at least 1 */
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    SSL_CTX *accept;
    SSL_CTX *dial_secret;
    SSL_CTX *dial_certificate; /* NULL: none */
};

/* What an identity says. */
struct net_identity {
    const struct net_way *way;
    bool same_cluster;
    uint64_t dialler;
    uint64_t wanted; /* 0: anybody */
};

/* With one reference, the caller's. 0 or ERR_INVALID. */
int net_keys_make(const struct net_key_source *source, struct net_keys **ret_keys,
                  char ret_why[NET_KEYS_WHY_BYTES]) MUST_CHECK;

struct net_keys *net_keys_ref(struct net_keys *keys);

/* The last one wipes and frees them. NULL-safe. */
void net_keys_unref(struct net_keys *keys);

/* The way with this id, or NULL. */
const struct net_way *net_keys_find(const struct net_keys *keys,
                                    const uint8_t id[NET_WAY_ID_BYTES]);

/* The identity of a dialler that offers this way, a secret; its length. */
size_t net_identity_put(const struct net_keys *keys, const struct net_way *way, uint64_t dialler,
                        uint64_t wanted, char ret_identity[NET_IDENTITY_BYTES]);

/* False: it is none, or its key id is of no secret here. */
bool net_identity_parse(const struct net_keys *keys, const void *identity, size_t len,
                        struct net_identity *ret_identity);

/* The PSK of an identity. */
void net_identity_psk(const struct net_way *way, const void *identity, size_t len,
                      uint8_t ret_psk[NET_SECRET_BYTES]);

/* Whom a certificate names. False: not exactly one name of a node. */
bool net_certificate_names(const struct net_keys *keys, X509 *certificate, bool *ret_same_cluster,
                           uint64_t *ret_node_id);

#endif
