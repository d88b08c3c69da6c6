/*
 * context.h - what handlers find: the api, and its part in each HTTP loop.
 *
 * Thread: a loop's part is its thread's own, but for counts, which any thread may read.
 */
#ifndef LEAFD_HTTP_API_CONTEXT_H
#define LEAFD_HTTP_API_CONTEXT_H

#include "http/api/build.h"
#include "http/api/waiters.h"
#include "http/auth/auth.h"
#include "http/server/conn.h"
#include "http/server/port.h"
#include "src/base/prng.h"
#include "src/id/backend/id_backend.h"

/* The loop alone writes; any thread may read. */
struct api_counts {
    _Atomic uint64_t segment_ids; /* handed out */
    _Atomic uint64_t snowflake_ids;
    _Atomic uint64_t strict_ids;
    _Atomic uint64_t burnt_skipped; /* see enum id_burn_cause */
    _Atomic uint64_t burnt_unanswered;
};

struct api_loop {
    struct api *api;
    struct id_backend *backend;
    struct conns *conns;
    struct http_port *port;
    unsigned index;
    struct api_counts counts;
    struct waiters waiters;       /* requests that wait for ids */
    struct timer snowflake_retry; /* armed while some wait for the clock */
    struct prng prng;
    unsigned doors;             /* bits of enum door: what is served here */
    struct token_table *tokens; /* NULL: the api has no auth */
    uint64_t tokens_generation;
    char options[LIMIT_HTTP_TARGET_BYTES]; /* decoded, of the request whose handler runs */
};

/* A server of its own, with routes of its own. */
enum door { DOOR_IDS = 1, DOOR_ADMIN = 2 };

/* What a server is given. */
struct api_door {
    struct http_service service;
    struct api *api;
    unsigned doors;       /* bits of enum door; 0: it was not opened */
    unsigned first_index; /* of its loops, among all */
};

struct api {
    struct api_door ids; /* or both doors in one */
    struct api_door admin;
    const char *http_address; /* for a message, where there are two */
    const char *admin_address;
    struct auth *auth; /* NULL: all may do everything */
    struct id_waker waker;
    const struct http_settings *settings;
    const struct http_build *build;
    struct id_backend *backend;
    _Atomic unsigned loop_count; /* rises when a door is opened: the others' threads may run */
    struct api_loop *loops[LIMIT_HTTP_LOOPS + LIMIT_HTTP_ADMIN_LOOPS];
};

static inline struct api_loop *api_loop(const struct conn *conn)
{
    return conn->conns->data;
}

#endif
