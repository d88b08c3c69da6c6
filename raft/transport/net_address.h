/*
 * net_address.h - "host:port" as a socket address. Internal to net_uv*.c.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_ADDRESS_H
#define LEAFD_RAFT_TRANSPORT_NET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "src/base/err.h"
#include "src/base/limits.h"

struct net_address {
    char host[LIMIT_ADDRESS_BYTES + 1]; /* without brackets */
    char port_text[6];
    uint16_t port;
};

/* Split at the last colon; an IPv6 literal stands in brackets. 0 or ERR_INVALID (no host, no port,
 * port above 65535, too long, brackets that do not match, an IPv6 literal without them). */
int net_address_parse(const char *text, struct net_address *ret_address) MUST_CHECK;

/* The socket address of an IPv4 or IPv6 literal. False: the host is a name, which must be resolved.
 */
bool net_address_literal(const struct net_address *address, struct sockaddr_storage *ret_sockaddr);

/* What to ask uv_getaddrinfo() for. */
struct addrinfo net_address_hints(void);

#endif
