/*
 * route.h - a route: which requests it takes, from which clients, at which listener, and which
 * function serves it. The table of routes is in api.c.
 *
 * A handler is called when its request is complete. It answers, by its result or itself
 * (request.h), or lets the request wait: parked for ids, or for an answer of the cluster.
 *
 * Threads: routes are constant; handlers run on the connection's loop.
 */
#ifndef LEAFD_HTTP_API_ROUTE_H
#define LEAFD_HTTP_API_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/tokens.h"
#include "src/base/limits.h"

struct call;
struct conn;

/* A change of the cluster, or a look at its level (cluster.c). */
enum cluster_ask {
    ASK_ADD,
    ASK_REMOVE,
    ASK_MOVE,
    ASK_LEAD,
    ASK_LEVEL_SEE,
    ASK_LEVEL,
    ASK_DRAIN,
    ASK_RESUME,
    ASK_WEIGHT
};

struct route {
    const char *path;   /* whole path, or its beginning when takes_name */
    unsigned methods;   /* bits of enum method */
    const char *tail;   /* what follows the name, which is a '*' in the path; NULL: nothing */
    bool takes_name;    /* one more non-empty path segment follows: the name, still encoded */
    bool takes_options; /* the handler reads the query; else none is allowed */
    bool names_tag;     /* the name is a tag's */
    bool is_leaf;       /* also Leaf's; takes extra slashes, unknown options, bodies of any type */
    bool is_tinyid;     /* TinyID's route, with its errors; the handler reads its token */
    bool audited;       /* it changes state, or shows everything */
    bool takes;         /* a GET of it takes ids, a place, or room: no page may cause it */
    unsigned listeners; /* bits of enum api_listener: where it is served */
    enum role role;     /* which clients may use it, */
    unsigned also;      /* and which others: bits of enum role */
    uint8_t traffic;    /* enum traffic: the class of its requests */
    bool takes_body;    /* bodies are kept for the handler; else read and dropped */
    bool is_long;       /* its reply takes long to make: one a turn of the loop */
    bool is_bulk;       /* bodies up to LIMIT_HTTP_BODY_BYTES; else the small limit holds */
    enum cluster_ask asks; /* of handle_cluster_ask() */
    int (*handle)(struct conn *conn);
};

/* --- what serves each route --- */

struct api_loop;
struct buf;
struct id_tag;
struct timer;

/* ids.c */
int handle_segment_get(struct conn *conn);

/* tinyid.c */
int handle_tinyid(struct conn *conn);

/* Let parked requests of a tag try again, oldest first. */
void segment_wake(struct api_loop *loop, struct id_tag *tag);

/* snowflake.c */
int handle_snowflake_get(struct conn *conn);

/* Let parked snowflake requests try again, oldest first: when loop->snowflake_retry fires. */
void snowflake_retry_fire(struct timer *timer, uint64_t now_ms);

int handle_segment_decode(struct conn *conn);
int handle_snowflake_decode(struct conn *conn);
int handle_snowflake_at(struct conn *conn);
int handle_leaf_decode(struct conn *conn);
int handle_layout_get(struct conn *conn);
int handle_layout_put(struct conn *conn);
int handle_layout_delete(struct conn *conn);
int handle_layouts_list(struct conn *conn);

/* workers.c */
int handle_worker_acquire(struct conn *conn);
int handle_worker_renew(struct conn *conn);
int handle_worker_release(struct conn *conn);
int handle_workers_list(struct conn *conn);
int handle_pools_get(struct conn *conn);
int handle_pools_put(struct conn *conn);

/* tags.c */
int handle_tag_get(struct conn *conn);
int handle_tag_put(struct conn *conn);
int handle_tag_delete(struct conn *conn);
int handle_tags_put(struct conn *conn);
int handle_tags_list(struct conn *conn);

/* Make a tag whose next id is max_id, for a request that is no PUT; audited. For an existing tag
 * TAG_DEFAULT_MAX_ID changes nothing, and another max_id acts as in a PUT: it may skip ids. The
 * client must have the role. finish calls tag_made(). Returns as a handler does. */
int tag_make(struct conn *conn, const char *name, size_t len, uint64_t max_id,
             int (*finish)(struct conn *conn, struct call *call));

/* True: the tag was made, or existed. False: the handler must return *ret_status. */
bool tag_made(struct conn *conn, const struct call *call, bool *ret_made, int *ret_status);

/* cluster.c */
int handle_cuts_list(struct conn *conn);
int handle_cut_put(struct conn *conn);
int handle_cut_end(struct conn *conn);
int handle_backup(struct conn *conn);
int handle_node_segments(struct conn *conn);
int handle_cluster_segments(struct conn *conn);
int handle_cluster_ask(struct conn *conn);

/* status.c */
struct api;
struct id_backend;
struct watch;

struct watch *watch_new(const struct id_backend *backend);
void watch_free(struct watch *watch);

/* From now on, look at the node once a second: alarms, events, viewers. Call after the servers were
 * started. Main thread. */
void api_watch(struct api *api);

/* The loop ends: no more looks. Its thread has ended. */
void watch_loop_ends(struct api_loop *loop);

/* The number of viewers. */
unsigned live_viewers(const struct api *api);

/* Send all viewers these bytes, which are whole events. Takes them over. */
void live_show(struct api *api, struct buf *bytes);

int handle_cluster(struct conn *conn);
int handle_status(struct conn *conn);
int handle_events(struct conn *conn);
int handle_live(struct conn *conn);
int handle_livez(struct conn *conn);
int handle_nodes(struct conn *conn);
int handle_readyz(struct conn *conn);
int handle_version(struct conn *conn);

/* api.c */
int handle_page(struct conn *conn);
int handle_openapi(struct conn *conn);

/* The machine-readable description of all routes, an OpenAPI 3.1 document: openapi.json beside this
 * file, put into the binary as it is, without a NUL at its end. tests/test_api.c holds it against
 * the table of routes, cluster-tests/test_openapi.py its options, bounds and schemas against what a
 * node answers. */
const char *openapi_text(size_t *ret_len);

/* audited.c */
int handle_audit(struct conn *conn);

/* metrics.c */
int handle_metrics(struct conn *conn);

#endif
