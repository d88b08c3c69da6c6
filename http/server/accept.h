/*
 * accept.h - the listener of a loop: sockets made and bound on the main thread, connections
 * accepted on the loop's.
 *
 * The happy path: listener_open() makes one socket a loop, all bound to one port by SO_REUSEPORT,
 * so the kernel spreads connections; accept_start() watches the loop's socket; each turn takes a
 * bounded number of connections.
 *
 * Failure modes: more than the configured connections: the newcomer gets 503 and is closed. No file
 * descriptors left: the loop gives up its reserve one to accept and refuse who waits, takes it
 * back, and pauses for a moment, so that the process spins neither here nor starves those it
 * serves; it is logged once until accepting works again.
 *
 * Thread: listener_open from the main thread, the rest is the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_ACCEPT_H
#define LEAFD_HTTP_SERVER_ACCEPT_H

#include <stdint.h>

#include "src/base/err.h"

struct http_loop;

/* Make count listening sockets on "host:port" ("[::1]:8080" for IPv6). port 0 picks one. 0;
 * ERR_INVALID (address); ERR_EXISTS (in use); ERR_IO. On failure nothing is left open. */
int listener_open(const char *address, unsigned count, int *ret_fds, uint16_t *ret_port) MUST_CHECK;

/* Watch loop->listen_fd. The handle is loop->listener; 0 or ERR_IO. */
int accept_init(struct http_loop *loop) MUST_CHECK;
void accept_start(struct http_loop *loop);

/* Stop for good: close handle and descriptors. Idempotent. */
void accept_close(struct http_loop *loop);

/* Close the descriptors of a loop whose handle was never made. */
void accept_release(struct http_loop *loop);

#endif
