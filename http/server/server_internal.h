/*
 * server_internal.h - what a loop may ask of the server it belongs to, and a server without
 * threads.
 *
 * Thread: settings, build and backend are fixed before the threads start; the rest as said.
 */
#ifndef LEAFD_HTTP_SERVER_SERVER_INTERNAL_H
#define LEAFD_HTTP_SERVER_SERVER_INTERNAL_H

#include "http/server/server.h"

struct http_loop;

/* As http_server_start(), but no loop gets a thread: the caller runs them, turn by turn, on his
 * own (tests). To be ended by http_server_stop(), too. */
int http_server_make(const struct http_settings *settings, const struct http_build *build,
                     struct id_backend *backend, struct http_server **ret_server) MUST_CHECK;

/* One of its loops. */
struct http_loop *http_server_loop(struct http_server *server, unsigned index);

/* As given to the start. */
const struct http_settings *http_server_settings(const struct http_server *server);
const struct http_build *http_server_build(const struct http_server *server);

struct id_backend *http_server_backend(const struct http_server *server);

/* Fixed before the drain is posted. */
uint32_t http_server_grace_ms(const struct http_server *server);

/* Sums over all loops, as of now. Any thread. */
struct http_totals {
    uint64_t segment_ids;
    uint64_t snowflake_ids;
    uint64_t strict_ids;
    uint64_t burnt_skipped;
    uint64_t burnt_unanswered;
    uint64_t replies[6]; /* by the first digit of their status */
    uint64_t connections;
    uint64_t waiting; /* requests that wait for ids */
};

void http_server_totals(const struct http_server *server, struct http_totals *ret_totals);

/* The loop has no connection left. Each loop says so once, on its thread. */
void http_server_drained(struct http_server *server);

#endif
