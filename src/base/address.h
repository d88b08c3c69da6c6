/*
 * address.h - "host:port" as a socket address, and sockets that listen there.
 *
 * Thread: any; address_resolve() may block on the resolver.
 */
#ifndef LEAFD_BASE_ADDRESS_H
#define LEAFD_BASE_ADDRESS_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "src/base/err.h"
#include "src/base/limits.h"

struct address {
    char host[LIMIT_ADDRESS_BYTES + 1]; /* without brackets */
    char port[6];                       /* its digits, 0..65535 */
};

/* Split at the last colon; an IPv6 literal must be in brackets. 0 or ERR_INVALID (no host, no port,
 * port above 65535, too long, brackets that do not match, an IPv6 literal without them). */
int address_split(const char *text, struct address *ret_address) MUST_CHECK;

/* The socket address of an IPv4 or IPv6 literal. False: the host is a name, which must be
 * resolved. */
bool address_literal(const struct address *address, struct sockaddr_storage *ret_sockaddr);

/* What to ask the resolver for. */
struct addrinfo address_hints(void);

/* The socket address of "host:port"; a name is resolved here and now. 0; ERR_INVALID: the text is
 * no address; ERR_NOT_FOUND: the name has no address now, and errno is 0. */
int address_resolve(const char *text, struct sockaddr_storage *ret_sockaddr) MUST_CHECK;

/* Is it an address that only this machine can reach; one that no peer can dial? False if the text
 * is no address. */
bool address_is_loopback(const char *text);
bool address_is_wildcard(const char *text);
/* The same of a parsed address, or of an IPv4 one that is mapped. */
bool address_in6_is_loopback(const struct in6_addr *address);

uint16_t address_port(const struct sockaddr_storage *sockaddr);

/* A bound, listening socket. Port 0 becomes the chosen one, in *sockaddr. share: other sockets of
 * this process may have the same port (SO_REUSEPORT). 0; ERR_EXISTS: another process has it;
 * ERR_NOT_FOUND: it is not available, for now or for ever; ERR_NOMEM: the system gives no socket.
 * errno says why. */
int address_listen(struct sockaddr_storage *sockaddr, int backlog, bool share,
                   int *ret_fd) MUST_CHECK;

/* The text of an error of both for an operator: the system's text, and what to do. number: errno
 * then. Static. */
const char *address_reason(int err, int number);
const char *address_hint(int err, int number);

#endif
