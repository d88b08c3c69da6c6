/*
 * context.h - what handlers find: the api, its part in each HTTP loop, and what the process says of
 * itself.
 *
 * Thread: a loop's part is its thread's own, but for counts, which any thread may read. What the
 * process says does not change, but for the counters of reloads.
 */
#ifndef LEAFD_HTTP_API_CONTEXT_H
#define LEAFD_HTTP_API_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "http/api/claim.h"
#include "http/auth/tokens.h"
#include "http/server/conn.h"
#include "http/server/loop.h"
#include "src/base/crypto.h"
#include "src/base/prng.h"
#include "src/base/zone.h"
#include "src/id/backend/id_backend.h"

/* How often it read its settings again (SIGHUP): written by main, read by any. */
struct http_reloads {
    _Atomic uint64_t done;
    _Atomic uint64_t refused;
    _Atomic uint64_t done_ms; /* wall time of the last one that was done; 0: none yet */
};

static inline void http_reloads_add(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static inline void http_reloads_set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

struct http_build {
    const char *version;
    const char *commit;                 /* "" if unknown */
    const char *libraries;              /* JSON object text of library versions */
    const struct http_reloads *reloads; /* NULL: it has no settings to read again */
};

/* What requests count as, for their latency (http/server/meter.h). */
enum traffic {
    TRAFFIC_OTHER, /* of no route, or never complete */
    TRAFFIC_SEGMENT,
    TRAFFIC_STRICT,
    TRAFFIC_SNOWFLAKE,
    TRAFFIC_DECODE,
    TRAFFIC_READ, /* by the role of their route, from here on */
    TRAFFIC_TAGS,
    TRAFFIC_WORKERS,
    TRAFFIC_ADMIN,
    TRAFFIC_RESP,  /* what has no like over HTTP: PING, HELLO ... */
    TRAFFIC_PROBE, /* health and metrics: not among the requests */
    TRAFFIC_CLASSES
};
_Static_assert(TRAFFIC_CLASSES == LATENCY_CLASSES, "each has a place");

struct page;
struct watch;

LIST_HEAD(live_viewers, live_viewer);

/* Those who watch (status.h), of a loop. */
struct live {
    struct live_viewers viewers;
    _Atomic uint32_t count; /* of these; any thread may read */
};

/* The loop alone writes; any thread may read. */
struct api_counts {
    _Atomic uint64_t segment_ids; /* handed out */
    _Atomic uint64_t snowflake_ids;
    _Atomic uint64_t strict_ids;
    _Atomic uint64_t monotonic_ids;
    _Atomic uint64_t burnt_skipped; /* see enum id_burn_cause */
    _Atomic uint64_t burnt_unanswered;
};

SLIST_HEAD(call_list, call);

struct api_loop {
    struct api *api;
    struct id_backend *backend;
    struct conns *conns;
    struct http_port *port;
    unsigned index;
    struct api_counts counts;
    struct live live;
    struct waiters waiters;       /* requests that wait for ids */
    struct call_list kept;        /* calls of strict ids that are over (request.h) */
    unsigned kept_count;          /* <= LIMIT_HTTP_CALLS_KEPT */
    struct timer snowflake_retry; /* armed while some wait for the clock */
    struct prng prng;
    struct entropy entropy;     /* for ids that have random bits */
    struct zones *zones;        /* for dates in shapes */
    struct ff1 *ff1;            /* for secret shapes; keyed anew for each reply (ids.h) */
    unsigned listeners;         /* bits of enum api_listener: what is served here */
    struct token_table *tokens; /* NULL: the api has no auth */
    uint64_t tokens_generation;
    struct client_cuts cuts;               /* as far as this loop has heard */
    char options[LIMIT_HTTP_TARGET_BYTES]; /* decoded, of the request whose handler runs */
};

/* A server of its own, with routes of its own. */
enum api_listener { LISTENER_IDS = 1, LISTENER_ADMIN = 2 };

/* What a server is given. */
struct api_server {
    struct http_service service;
    struct api *api;
    unsigned listeners;   /* bits of enum api_listener; 0: it was not opened */
    unsigned first_index; /* of its loops, among all */
};

struct api {
    struct api_server ids; /* or both listeners in one */
    struct api_server admin;
    const char *http_address; /* for a message, where there are two */
    const char *admin_address;
    struct auth *auth; /* NULL: all may do everything */
    struct id_waker waker;
    struct watch *watch; /* owned */
    struct page *page;   /* owned */
    const struct http_settings *settings;
    const struct http_build *build;
    struct id_backend *backend;
    _Atomic unsigned loop_count; /* rises when a listener is opened: the others' threads may run */
    struct api_loop *loops[LIMIT_HTTP_LOOPS + LIMIT_HTTP_ADMIN_LOOPS];
};

static inline struct api_loop *api_loop(const struct conn *conn)
{
    return conn->conns->data;
}

#endif
