/*
 * server.h - the HTTP service: N loops, each a thread with its own listener (SO_REUSEPORT),
 * connections, parsers, buffers and counters.
 *
 * Contract of the routes: docs/http-api.md. Ids are claimed from backend->table with atomics on the
 * loop's own thread; everything else goes by id_request to the raft loop and comes back by mailbox.
 *
 * Thread: start, waker, drain, stop are called on the main thread.
 */
#ifndef LEAFD_HTTP_SERVER_SERVER_H
#define LEAFD_HTTP_SERVER_SERVER_H

#include "src/id/backend/id_backend.h"

struct http_server;

#define HTTP_DEFAULT_TIMEOUT_MS 3000

/* What an operator sets (docs/configuration.md). */
struct http_settings {
    const char *listen_address;  /* "host:port"; port 0 picks one (tests) */
    uint32_t loops;              /* 1..LIMIT_HTTP_LOOPS */
    uint32_t default_timeout_ms; /* when a request names none; ..LIMIT_TIMEOUT_MS */
    uint32_t head_ms;            /* the time limits of limits.h */
    uint32_t body_ms;
    uint32_t idle_ms;
    uint32_t write_ms;
    uint32_t connections; /* of a loop */
};

/* What GET /version shows of the process. */
struct http_build {
    const char *version;
    const char *commit;    /* "" if unknown */
    const char *libraries; /* JSON object text of library versions */
};

/* Start the threads; returns when all listen. 0; ERR_INVALID (address); ERR_EXISTS (in use);
 * ERR_IO. Settings and build are borrowed until http_server_stop(). */
int http_server_start(const struct http_settings *settings, const struct http_build *build,
                      struct id_backend *backend, struct http_server **ret_server) MUST_CHECK;

uint16_t http_server_port(const struct http_server *server);

/* To be given to the backend; take it off again before http_server_stop(). */
struct id_waker *http_server_waker(struct http_server *server);

/* Stop accepting; answer what is under way (with "Connection: close"), close idle connections. cb
 * is called once, on a loop's thread of the server (it must only signal), when all are closed; what
 * is left after grace_ms is closed then. At most once a server. */
void http_server_drain(struct http_server *server, uint32_t grace_ms, void (*cb)(void *data),
                       void *data);

/* Close everything left, join the threads, free. Requests that are still with the backend may be
 * answered before, during or after this: their done() is safe at any time, and only frees them once
 * the loops have stopped. After a drain whose callback did not come, it may still come during
 * this. */
void http_server_stop(struct http_server *server);

#endif
