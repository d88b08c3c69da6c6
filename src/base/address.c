/*
 * address.c - see address.h. Thread: any.
 */
#include "src/base/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "src/base/assert.h"

int address_split(const char *text, struct address *ret_address)
{
    const char *colon = strrchr(text, ':');
    struct address address = {0};
    size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;
    bool bracketed;
    size_t len;

    /* A port has one to five digits, up to 65535: the resolver would take a larger one modulo
     * 65536. */
    if (colon == NULL || colon == text || strlen(text) > LIMIT_ADDRESS_BYTES || digits == 0 ||
        digits >= sizeof address.port || colon[1 + digits] != '\0' ||
        strtoul(colon + 1, NULL, 10) > UINT16_MAX) {
        return ERR_INVALID;
    }
    memcpy(address.port, colon + 1, digits);
    len = (size_t)(colon - text);
    bracketed = len > 1 && text[0] == '[' && text[len - 1] == ']';
    if (bracketed) {
        text++;
        len -= 2;
    }
    memcpy(address.host, text, len);
    if (len == 0 || strpbrk(address.host, "[] ") != NULL ||
        (strchr(address.host, ':') != NULL) != bracketed) {
        return ERR_INVALID;
    }
    *ret_address = address;
    return 0;
}

struct addrinfo address_hints(void)
{
    return (struct addrinfo){
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
}

/* With further flags for the resolver. False: the resolver knows no such host. */
static bool resolve(const struct address *address, int flags, struct sockaddr_storage *ret_sockaddr)
{
    struct addrinfo hints = address_hints();
    struct addrinfo *found;

    hints.ai_flags |= flags;
    if (getaddrinfo(address->host, address->port, &hints, &found) != 0) {
        return false;
    }
    ASSERT(found->ai_addrlen <= sizeof *ret_sockaddr);
    memset(ret_sockaddr, 0, sizeof *ret_sockaddr);
    memcpy(ret_sockaddr, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

bool address_literal(const struct address *address, struct sockaddr_storage *ret_sockaddr)
{
    return resolve(address, AI_NUMERICHOST, ret_sockaddr);
}

int address_resolve(const char *text, struct sockaddr_storage *ret_sockaddr)
{
    struct address address;
    int rv = address_split(text, &address);

    if (rv == 0 && !resolve(&address, 0, ret_sockaddr)) {
        errno = 0;
        return ERR_NOT_FOUND;
    }
    return rv;
}

bool address_in6_is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

bool address_is_loopback(const char *text)
{
    struct sockaddr_storage at = {0};
    struct address address;

    if (address_split(text, &address) != 0) {
        return false;
    }
    if (!address_literal(&address, &at)) {
        return strcasecmp(address.host, "localhost") == 0;
    }
    if (at.ss_family == AF_INET6) {
        return address_in6_is_loopback(&((const struct sockaddr_in6 *)&at)->sin6_addr);
    }
    return ntohl(((const struct sockaddr_in *)&at)->sin_addr.s_addr) >> 24 == 127;
}

bool address_is_wildcard(const char *text)
{
    struct address address;

    return address_split(text, &address) == 0 &&
           (strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0);
}

uint16_t address_port(const struct sockaddr_storage *sockaddr)
{
    return ntohs(sockaddr->ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)sockaddr)->sin6_port
                     : ((const struct sockaddr_in *)sockaddr)->sin_port);
}

static int error_of(int system_errno)
{
    switch (system_errno) {
    case EADDRINUSE:
        return ERR_EXISTS;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return ERR_NOMEM;
    default:
        return ERR_NOT_FOUND;
    }
}

const char *address_reason(int err, int number)
{
    if (err == ERR_INVALID || number == 0) {
        return err == ERR_NOT_FOUND ? "its name has no address now" : err_text(err);
    }
    return strerrordesc_np(number);
}

const char *address_hint(int err, int number)
{
    if (err == ERR_EXISTS) {
        return "another process listens there; choose another address";
    }
    if (err == ERR_NOMEM) {
        return "the system's limits of open files and memory for this process are too low";
    }
    switch (number) {
    case 0:
        return "check the address, and that its name can be looked up";
    case EADDRNOTAVAIL:
        return "no interface of this machine has it, or not yet: start again once one has";
    case EACCES:
        return "a port below 1024 needs the capability CAP_NET_BIND_SERVICE";
    default:
        return "check the address";
    }
}

int address_listen(struct sockaddr_storage *sockaddr, int backlog, bool share, int *ret_fd)
{
    int fd = socket(sockaddr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len =
        sockaddr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const int on = 1;
    int number;

    if (fd < 0) {
        return error_of(errno);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (share && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
        bind(fd, (const struct sockaddr *)sockaddr, len) != 0 || listen(fd, backlog) != 0 ||
        getsockname(fd, (struct sockaddr *)sockaddr, &len) != 0) {
        number = errno;
        (void)close(fd);
        errno = number;
        return error_of(number);
    }
    *ret_fd = fd;
    return 0;
}
