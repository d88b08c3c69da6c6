/*
 * net_address.c - see net_address.h. Thread: pure functions, any.
 */
#include "raft/transport/net_address.h"

#include <netdb.h>
#include <string.h>

#include "src/base/assert.h"

/* The digits after the last colon, 0..65535. False if they are not that. */
static bool parse_port(const char *text, struct net_address *address)
{
    unsigned port = 0;
    size_t len = strlen(text);

    if (len == 0 || len >= sizeof address->port_text) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    if (port > UINT16_MAX) {
        return false;
    }
    memcpy(address->port_text, text, len + 1);
    address->port = (uint16_t)port;
    return true;
}

int net_address_parse(const char *text, struct net_address *ret_address)
{
    const char *colon = strrchr(text, ':');
    struct net_address address = {0};
    bool bracketed;
    size_t len;

    if (colon == NULL || colon == text || strlen(text) > LIMIT_ADDRESS_BYTES ||
        !parse_port(colon + 1, &address)) {
        return ERR_INVALID;
    }
    len = (size_t)(colon - text);
    bracketed = text[0] == '[' && text[len - 1] == ']';
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

bool net_address_literal(const struct net_address *address, struct sockaddr_storage *ret_sockaddr)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    memset(ret_sockaddr, 0, sizeof *ret_sockaddr);
    if (uv_ip4_addr(address->host, address->port, &v4) == 0) {
        memcpy(ret_sockaddr, &v4, sizeof v4);
        return true;
    }
    if (uv_ip6_addr(address->host, address->port, &v6) == 0) {
        memcpy(ret_sockaddr, &v6, sizeof v6);
        return true;
    }
    return false;
}

struct addrinfo net_address_hints(void)
{
    struct addrinfo hints = {0};

    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    return hints;
}
