/*
 * server.h - the HTTP server: N loops, each a thread with its own listener (SO_REUSEPORT),
 * connections, parsers and buffers. What it serves is its creator's (service.h).
 *
 * Thread: start, drain, stop are called on the main thread.
 */
#ifndef LEAFD_HTTP_SERVER_SERVER_H
#define LEAFD_HTTP_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "http/server/service.h"
#include "src/base/err.h"

struct http_loop;
struct http_server;

/* Start the threads; returns when all listen. Settings and service are
 * borrowed until http_server_stop(). 0; ERR_INVALID (address); ERR_EXISTS (in use); ERR_IO. */
int http_server_start(const struct http_settings *settings, const struct http_service *service,
                      struct http_server **ret_server) MUST_CHECK;

/* As http_server_start(), but no loop gets a thread: the caller runs them, turn by turn (tests). To
 * be ended by http_server_stop(), too. */
int http_server_make(const struct http_settings *settings, const struct http_service *service,
                     struct http_server **ret_server) MUST_CHECK;

/* One of its loops, for such a caller. */
struct http_loop *http_server_loop(struct http_server *server, unsigned index);

uint16_t http_server_port(const struct http_server *server);

/* Of the RESP listener; 0: there is none. */
uint16_t http_server_resp_port(const struct http_server *server);

/* Has each loop taken a turn since the last call (true also at the first call)? A loop that has not
 * by the next call is late; one that never does is stuck. Not after http_server_stop(). */
bool http_server_takes_turns(struct http_server *server);

/* The first step down: connections are still accepted and served, but each reply is the last of its
 * connection ("Connection: close"), and idle connections end one by one over so long. At most once
 * a server. */
void http_server_retire(struct http_server *server, uint32_t over_ms);

/* The second: stop accepting; answer what is under way. cb is called once, on a loop's thread of
 * the server (it must only signal), when all connections have ended; what is left after grace_ms is
 * closed then. At most once a server. */
void http_server_drain(struct http_server *server, uint32_t grace_ms, void (*cb)(void *data),
                       void *data);

/* Close everything left, join the threads, free. After a drain whose callback did not come, it may
 * still come during this. */
void http_server_stop(struct http_server *server);

#endif
