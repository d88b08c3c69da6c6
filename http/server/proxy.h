/*
 * proxy.h - the PROXY protocol: a proxy names the client of a connection in a header before all
 * other bytes, also before those of TLS.
 *
 * Which addresses are proxies is a setting (proxy.from). From these the header is required:
 * otherwise a proxy that sends none would pass on a header that its client wrote. From all others
 * it is refused.
 *
 * The happy path: proxy_is_named() when a connection is accepted; then proxy_take() with the
 * received bytes, however they are split, until PROXY_DONE. Bytes that it does not use are the
 * client's.
 *
 * Version 1 is a line of up to 107 bytes; version 2 is binary, and its extensions are skipped. A
 * header without a meaningful address (LOCAL of a health check, UNKNOWN, a Unix socket) leaves the
 * proxy as the connection's client.
 *
 * Failure modes: PROXY_BAD: the bytes are no PROXY header. Nothing allocates, and at most 107 bytes
 * are kept.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_SERVER_PROXY_H
#define LEAFD_HTTP_SERVER_PROXY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PROXY_LINE_BYTES 107 /* of version 1, with CRLF */

enum proxy_step { PROXY_MORE, PROXY_DONE, PROXY_BAD };

/* All zeros: nothing has come. */
struct proxy_header {
    union {
        struct sockaddr any; /* AF_UNSPEC: the header has no address */
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } client;                        /* once it is done */
    uint32_t len;                    /* of the header so far */
    uint32_t whole;                  /* of version 2: its full length; 0: not known yet */
    uint8_t bytes[PROXY_LINE_BYTES]; /* its first ones */
};

/* Take more bytes, at least one. *ret_used of them are the header's. */
enum proxy_step proxy_take(struct proxy_header *header, const uint8_t *data, size_t len,
                           size_t *ret_used);

/* Are these bytes, which are no request, the beginning of a PROXY header? */
bool is_proxy_header(const void *data, size_t len);

#define PROXY_NETWORK_BYTES (INET6_ADDRSTRLEN + 4)

/* An address, or one with a prefix, in its canonical form: IPv4 in IPv6 as IPv4, a single address
 * without prefix. False: the text is none, or has bits after its prefix. */
bool proxy_network(const char *text, size_t len, char ret_text[PROXY_NETWORK_BYTES]);

/* Does the list ("10.0.0.7, 10.1.0.0/16, 2001:db8::/32"; "": none) name this address? */
bool proxy_is_named(const char *list, const struct sockaddr *address);

/* Is the text such a list? If not, *ret_item is the wrong item, up to its comma. */
bool proxy_is_list(const char *list, const char **ret_item);

#endif
