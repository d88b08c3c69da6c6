/*
 * accept.h - how connections come about: sockets made and bound on the main thread, connections
 * accepted on the loop's, and which of them are served.
 *
 * The happy path: listener_open() makes one socket a loop, all bound to one port by SO_REUSEPORT,
 * so the kernel spreads connections; acceptor_init() watches the loop's socket; each turn takes a
 * bounded number of connections.
 *
 * A connection from an address that is named as a proxy's begins with a header that says for whom
 * it is (proxy.h). Until that is there its socket has a callback of its own: others pay nothing for
 * it.
 *
 * Failure modes: too many connections, of a client or of all: refused, with a reply as long as few
 * are (503, or 429). No file descriptors left: the loop gives up its reserve one to accept and
 * refuse a client, takes it back, and pauses for a moment, so that the process spins neither here
 * nor starves those it serves; it is logged once until accepting works again.
 *
 * Thread: listener_open() from the main thread, the rest is the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_ACCEPT_H
#define LEAFD_HTTP_SERVER_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "http/server/conn.h"
#include "src/base/err.h"
#include "src/base/timers.h"

struct acceptor {
    uv_poll_t poll;
    struct conns *conns;      /* that take what is accepted */
    struct listener listener; /* and as what */
    unsigned index;           /* of the loop, for the log */
    int listen_fd;            /* owned; -1: closed */
    int reserve_fd;           /* -1 while it is in use */
    struct timer again;       /* while it pauses */
    bool warned;
};

/* Make count listening sockets on "host:port" ("[::1]:8080" for IPv6). port 0 picks one. 0;
 * ERR_INVALID (address); ERR_EXISTS (in use); ERR_IO. On failure nothing is left open. */
int listener_open(const char *address, unsigned count, int *ret_fds, uint16_t *ret_port) MUST_CHECK;

/* Take over listen_fd, also on failure, and begin to accept. 0 or ERR_IO. */
int acceptor_init(struct acceptor *acceptor, struct conns *conns, const struct listener *listener,
                  unsigned index, int listen_fd) MUST_CHECK;

/* Take over an accepted socket, to serve it, or, if there are too many, to say so. peer: its
 * address. */
void conns_take(struct conns *conns, const struct listener *listener, int fd,
                const struct sockaddr *peer);

/* From now on the kernel lets nobody begin a connection; who has begun still gets in. To be called
 * a moment before acceptor_close(): otherwise who gets in between its last look and the close is
 * reset. */
void acceptor_fade(struct acceptor *acceptor);

/* Stop for good: take over who has got in, close handle and descriptors. Idempotent. These two do
 * nothing to an acceptor of zeros. */
void acceptor_close(struct acceptor *acceptor);

#endif
