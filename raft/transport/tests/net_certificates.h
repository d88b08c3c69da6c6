/*
 * net_certificates.h - certificates of nodes, made on the spot in files that are gone at the end.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TRANSPORT_TESTS_NET_CERTIFICATES_H
#define LEAFD_RAFT_TRANSPORT_TESTS_NET_CERTIFICATES_H

#include "raft/transport/net_keys.h"

/* A directory with cert.pem, key.pem and ca.pem: a certificate with this URI as its SAN (NULL:
 * none) of an authority of this name; the same name gives the same authority. */
struct net_certificate {
    char dir[64];
    char cert[96];
    char key[96];
    char ca[96];
};

void net_certificate_make(struct net_certificate *files, const char *uri, const char *authority);
void net_certificate_remove(struct net_certificate *files);

/* Keys with such a certificate, and a secret (NULL: none). The caller's. */
struct net_keys *net_certified_keys(const char *cluster_id, const char *uri, const char *authority,
                                    const char *secret);

#endif
